//! Stores with a known fault each, and the same stores without it: cuts find every fault, and never blame a correct store.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use prony_model::random::{Stream, mix};
use prony_powercut::{MetadataOrder, Policy, Unit};

use crate::mounted::Mount;

/// A store, and what it does wrong, if anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Store {
    /// Appends records to a log.
    Append { syncs: bool, checks: bool },
    /// Writes everything into a new file and renames it over the old one.
    Replace { syncs_directory: bool },
    /// Overwrites a slot, and then a header that says which slot is valid.
    Header { syncs_between: bool },
}

/// What a store does after a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Correct,
    LostCommits,
    Corrupt,
}

const HEADER: u64 = 4096;
const SLOT: u64 = 12_288;

/// A program that is stopped by a cut after some calls.
struct Program {
    directory: PathBuf,
    store: Store,
    calls: u64,
    /// Where the next record of the log begins.
    end: u64,
}

/// Contents of record `n`; lengths differ.
fn record(n: u64) -> Vec<u8> {
    let mut data = vec![0; 100 + (mix(n) % 9000) as usize];
    Stream::new(n).fill(&mut data);
    data
}

/// FNV-1a.
fn checksum(data: &[u8]) -> u64 {
    data.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

fn framed(data: &[u8]) -> Vec<u8> {
    [&(data.len() as u64).to_le_bytes()[..], &checksum(data).to_le_bytes(), data].concat()
}

/// The record at the begin of some bytes, and what follows; None where they contain none.
fn unframed(bytes: &[u8], checks: bool) -> Option<(&[u8], &[u8])> {
    let number = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let (len, sum) = (number(0)? as usize, number(8)?);
    let data = bytes.get(16..16usize.checked_add(len)?).filter(|_| len > 0)?;
    (!checks || checksum(data) == sum).then_some((data, &bytes[16 + len..]))
}

impl Program {
    fn new(directory: &Path, store: Store, calls: u64) -> Self {
        fs::create_dir(directory).unwrap();
        let file = File::create(directory.join("data")).unwrap();
        if let Store::Header { .. } = store {
            file.set_len(HEADER + 2 * SLOT).unwrap();
        }
        Self { directory: directory.to_path_buf(), store, calls, end: 0 }
    }

    /// One system call, unless the cut came before.
    fn call<T>(&mut self, work: impl FnOnce() -> io::Result<T>) -> Option<T> {
        self.calls = self.calls.checked_sub(1)?;
        Some(work().unwrap())
    }

    /// Commits record `n`; None where the cut comes first.
    fn commit(&mut self, n: u64) -> Option<()> {
        let data = framed(&record(n));
        let (path, new) = (self.directory.join("data"), self.directory.join("new"));
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        match self.store {
            Store::Append { syncs, .. } => {
                let end = self.end;
                self.call(|| file.write_all_at(&data, end))?;
                self.end += data.len() as u64;
                if syncs {
                    self.call(|| file.sync_data())?;
                }
            }
            Store::Replace { syncs_directory } => {
                let file = self.call(|| File::create(&new))?;
                self.call(|| file.write_all_at(&[&n.to_le_bytes()[..], &data].concat(), 0))?;
                self.call(|| file.sync_all())?;
                self.call(|| fs::rename(&new, &path))?;
                if syncs_directory {
                    let directory = File::open(&self.directory).unwrap();
                    self.call(|| directory.sync_all())?;
                }
            }
            Store::Header { syncs_between } => {
                self.call(|| file.write_all_at(&data, HEADER + n % 2 * SLOT))?;
                if syncs_between {
                    self.call(|| file.sync_data())?;
                }
                self.call(|| file.write_all_at(&(n + 1).to_le_bytes(), 0))?;
                self.call(|| file.sync_data())?;
            }
        }
        Some(())
    }
}

/// What is found in an image, where `acknowledged` commits had returned.
fn judge(directory: &Path, store: Store, acknowledged: u64) -> Verdict {
    let Ok(bytes) = fs::read(directory.join("data")) else { return Verdict::LostCommits };
    let found = match store {
        Store::Append { checks, .. } => {
            let (mut rest, mut found) = (&bytes[..], 0);
            while let Some((data, after)) = unframed(rest, checks) {
                if data != record(found) {
                    return Verdict::Corrupt;
                }
                (rest, found) = (after, found + 1);
            }
            found
        }
        Store::Replace { .. } if bytes.is_empty() => 0,
        Store::Replace { .. } => {
            let n = u64::from_le_bytes(bytes[..8].try_into().unwrap());
            match unframed(&bytes[8..], true) {
                Some((data, _)) if data == record(n) => n + 1,
                _ => return Verdict::Corrupt,
            }
        }
        Store::Header { .. } => {
            let count = u64::from_le_bytes(bytes[..8].try_into().unwrap());
            let slot = |n: u64| unframed(&bytes[(HEADER + n % 2 * SLOT) as usize..], true);
            match count.checked_sub(1).map(|n| (n, slot(n))) {
                None => 0,
                Some((n, Some((data, _)))) if data == record(n) => n + 1,
                _ => return Verdict::Corrupt,
            }
        }
    };
    if found < acknowledged { Verdict::LostCommits } else { Verdict::Correct }
}

/// The worst verdict over many cuts.
fn worst(store: Store, order: MetadataOrder) -> Option<Verdict> {
    let policies = [Policy::None, Policy::Prefix, Policy::Subset, Policy::Subset, Policy::Torn];
    let mut mount = Mount::in_order(order)?;
    let mut worst = Verdict::Correct;
    let mut stream = Stream::new(11);
    for cut in 0..25 {
        let name = format!("store-{cut}");
        let mut program = Program::new(&mount.path(&name), store, 1 + stream.below(30));
        // Not the creation of an empty store is tested.
        mount.mounted.sync().unwrap();
        let mut acknowledged = 0;
        while program.commit(acknowledged).is_some() {
            acknowledged += 1;
        }
        let unit = if cut % 2 == 0 { Unit::Page } else { Unit::Sector };
        for image in mount.cut(&policies, unit, cut).images {
            worst = worst.max(judge(&image.path.join(&name), store, acknowledged));
            fs::remove_dir_all(image.path).unwrap();
        }
        fs::remove_dir_all(mount.path(&name)).unwrap();
    }
    Some(worst)
}

fn check(store: Store, expected: Verdict) {
    for order in [MetadataOrder::Ext4, MetadataOrder::Posix] {
        if let Some(found) = worst(store, order) {
            assert_eq!(found, expected, "{store:?}, {order:?}");
        }
    }
}

#[test]
fn log_without_sync_loses_commits() {
    check(Store::Append { syncs: false, checks: true }, Verdict::LostCommits);
}

#[test]
fn log_without_checksums_reads_what_was_never_written() {
    check(Store::Append { syncs: true, checks: false }, Verdict::Corrupt);
}

#[test]
fn log_with_sync_and_checksums_is_never_blamed() {
    check(Store::Append { syncs: true, checks: true }, Verdict::Correct);
}

#[test]
fn rename_without_sync_of_the_directory_loses_a_commit() {
    check(Store::Replace { syncs_directory: false }, Verdict::LostCommits);
}

#[test]
fn rename_with_sync_of_the_directory_is_never_blamed() {
    check(Store::Replace { syncs_directory: true }, Verdict::Correct);
}

#[test]
fn header_that_may_precede_its_data_is_corrupt() {
    check(Store::Header { syncs_between: false }, Verdict::Corrupt);
}

#[test]
fn header_written_after_its_data_are_durable_is_never_blamed() {
    check(Store::Header { syncs_between: true }, Verdict::Correct);
}
