//! Stores of known truth: each with one fault, and the same without it. Cuts must find every fault, and never blame a correct
//! store.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use prony_model::random::{Stream, mix};
use prony_model::units::Fraction;

use crate::error::Error;
use crate::mount::Mounted;
use crate::settings::{CutSettings, Policy, Unit};

/// How often the power is cut.
const CUTS: u64 = 25;

/// Which pending operations survive, in turn.
const POLICIES: [Policy; 5] = [Policy::None, Policy::Prefix, Policy::Subset, Policy::Subset, Policy::Torn];

/// A store, and what it does wrong, if anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// Appends records to a log.
    Append {
        /// Whether each record is synced before it is acknowledged.
        syncs: bool,
        /// Whether records have checksums, by which one that is torn is known.
        checks: bool,
    },
    /// Writes everything into a new file and renames it over the old one.
    Replace {
        /// Whether the directory is synced then, so that the rename survives.
        syncs_directory: bool,
    },
    /// Overwrites a slot, and then a header that says which slot is valid.
    Header {
        /// Whether the slot is synced before the header is written.
        syncs_between: bool,
    },
}

/// What a store does after a cut, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Every acknowledged commit is there.
    Correct,
    /// Acknowledged commits are missing.
    LostCommits,
    /// It reads what was never written.
    Corrupt,
}

impl Store {
    /// All of them, with what cuts must find.
    pub const ALL: [(Self, Verdict); 7] = [
        (Self::Append { syncs: false, checks: true }, Verdict::LostCommits),
        (Self::Append { syncs: true, checks: false }, Verdict::Corrupt),
        (Self::Append { syncs: true, checks: true }, Verdict::Correct),
        (Self::Replace { syncs_directory: false }, Verdict::LostCommits),
        (Self::Replace { syncs_directory: true }, Verdict::Correct),
        (Self::Header { syncs_between: false }, Verdict::Corrupt),
        (Self::Header { syncs_between: true }, Verdict::Correct),
    ];

    /// What it does.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Append { syncs: false, .. } => "log without sync",
            Self::Append { checks: false, .. } => "log without checksums",
            Self::Append { .. } => "log with sync and checksums",
            Self::Replace { syncs_directory: false } => "rename without sync of the directory",
            Self::Replace { .. } => "rename with sync of the directory",
            Self::Header { syncs_between: false } => "header that may precede its data",
            Self::Header { .. } => "header after its data are durable",
        }
    }

    /// The worst that images of cuts show; they are made in the directory `near`, outside of the mount.
    ///
    /// # Errors
    /// Where a file cannot be used, the cut cannot be saved, or an image cannot be made.
    pub fn worst(self, mounted: &Mounted, near: &Path) -> Result<Verdict, Error> {
        let mut worst = Verdict::Correct;
        let mut stream = Stream::new(11);
        for cut in 0..CUTS {
            let directory = mounted.point().join(format!("store-{cut}"));
            let mut program =
                Program { directory: directory.clone(), store: self, calls: 1 + stream.below(30), end: 0 };
            program.create().map_err(Error::file("use", &directory))?;
            // Not the creation of an empty store is tested.
            mounted.sync()?;
            let acknowledged = program.run().map_err(Error::file("use", &directory))?;
            let unit = if cut % 2 == 0 { Unit::Page } else { Unit::Sector };
            let half = Fraction::new(0.5).unwrap_or(Fraction::ONE);
            let into = near.join(format!("images-{cut}"));
            let images = POLICIES.len() as u32;
            let report = mounted.cut(&CutSettings::check(&into, images, &POLICIES, (half, unit), cut)?)?;
            for image in report.images {
                worst = worst.max(judge(&image.path.join(format!("store-{cut}")), self, acknowledged));
            }
            fs::remove_dir_all(&into).map_err(Error::file("remove", &into))?;
            fs::remove_dir_all(&directory).map_err(Error::file("remove", &directory))?;
        }
        Ok(worst)
    }
}

const HEADER: u64 = 4096;
const SLOT: u64 = 12_288;

/// Why a program does not go on.
enum Stopped {
    /// The power is cut.
    Cut,
    File(io::Error),
}

impl From<io::Error> for Stopped {
    fn from(error: io::Error) -> Self {
        Self::File(error)
    }
}

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

/// The number at an offset.
fn number(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// The record at the begin of some bytes, and what follows; None where they contain none.
fn unframed(bytes: &[u8], checks: bool) -> Option<(&[u8], &[u8])> {
    let (len, sum) = (number(bytes, 0)? as usize, number(bytes, 8)?);
    let data = bytes.get(16..16usize.checked_add(len)?).filter(|_| len > 0)?;
    (!checks || checksum(data) == sum).then_some((data, &bytes[16 + len..]))
}

impl Program {
    fn create(&self) -> io::Result<()> {
        fs::create_dir(&self.directory)?;
        let file = File::create(self.directory.join("data"))?;
        if let Store::Header { .. } = self.store { file.set_len(HEADER + 2 * SLOT) } else { Ok(()) }
    }

    /// One system call, unless the cut came before.
    fn call<T>(&mut self, work: impl FnOnce() -> io::Result<T>) -> Result<T, Stopped> {
        self.calls = self.calls.checked_sub(1).ok_or(Stopped::Cut)?;
        Ok(work()?)
    }

    /// Commits record `n`.
    fn commit(&mut self, n: u64) -> Result<(), Stopped> {
        let data = framed(&record(n));
        let (path, new) = (self.directory.join("data"), self.directory.join("new"));
        let file = OpenOptions::new().write(true).open(&path)?;
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
                    let directory = File::open(&self.directory)?;
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
        Ok(())
    }

    /// Commits records until the cut; how many were acknowledged.
    fn run(&mut self) -> io::Result<u64> {
        for n in 0.. {
            match self.commit(n) {
                Ok(()) => {}
                Err(Stopped::Cut) => return Ok(n),
                Err(Stopped::File(error)) => return Err(error),
            }
        }
        Ok(u64::MAX)
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
        Store::Replace { .. } => match number(&bytes, 0).map(|n| (n, unframed(&bytes[8..], true))) {
            Some((n, Some((data, _)))) if data == record(n) => n + 1,
            _ => return Verdict::Corrupt,
        },
        Store::Header { .. } => {
            let slot = |n: u64| unframed(bytes.get((HEADER + n % 2 * SLOT) as usize..)?, true);
            let Some(count) = number(&bytes, 0) else { return Verdict::Corrupt };
            match count.checked_sub(1).map(|n| (n, slot(n))) {
                None => 0,
                Some((n, Some((data, _)))) if data == record(n) => n + 1,
                _ => return Verdict::Corrupt,
            }
        }
    };
    if found < acknowledged { Verdict::LostCommits } else { Verdict::Correct }
}
