//! Random operations on the file system and on a plain directory, which must show the same. As `fsx` does, with several
//! files and with their names. `PRONY_POWERCUT_OPERATIONS` sets the number of operations (default 3,000); one million of
//! them took 559 s:
//! `PRONY_POWERCUT_OPERATIONS=1000000 cargo test -p prony-powercut --test it -- oracle::file_system_shows`.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use prony_model::random::Stream;
use prony_os::SharedMap;
use prony_powercut::{MetadataOrder, Settings};
use rustix::fs::{FallocateFlags, fallocate};

use crate::mounted::Mount;

const NAMES: [&str; 8] = ["a", "b", "c", "d", "e/a", "e/b", "f/a", "f/g/a"];
const MOST: u64 = 200_000;
const PAGE: u64 = 4096;

/// Both directories, and the files that are open in both.
struct Pair {
    tops: [PathBuf; 2],
    open: Vec<[File; 2]>,
    stream: Stream,
}

/// What an operation showed: bytes read, or the error.
type Outcome = Result<Vec<u8>, Option<i32>>;

fn outcome<T>(done: io::Result<T>, show: impl FnOnce(T) -> Vec<u8>) -> Outcome {
    done.map(show).map_err(|error| error.raw_os_error())
}

impl Pair {
    fn new(tops: [PathBuf; 2], seed: u64) -> Self {
        for top in &tops {
            fs::create_dir_all(top.join("f/g")).unwrap();
            fs::create_dir(top.join("e")).unwrap();
        }
        Self { tops, open: Vec::new(), stream: Stream::new(seed) }
    }

    fn both(&self, what: &str, operation: impl Fn(&Path) -> Outcome) {
        let [ours, theirs] = self.tops.each_ref().map(|top| operation(top));
        assert!(ours == theirs, "{what}: {} and {}", show(&ours), show(&theirs));
    }

    fn name(&mut self) -> &'static str {
        NAMES[self.stream.below(NAMES.len() as u64) as usize]
    }

    fn step(&mut self) {
        if self.stream.below(4) == 0 || self.open.is_empty() {
            self.step_with_names();
        } else {
            let at = self.stream.below(self.open.len() as u64) as usize;
            self.step_with_contents(at);
        }
    }

    fn step_with_names(&mut self) {
        let (name, other) = (self.name(), self.name());
        match self.stream.below(12) {
            0..4 => self.open_file(name),
            4 => self.both("unlink", |top| outcome(fs::remove_file(top.join(name)), |()| vec![])),
            5 | 6 => self.both("rename", |top| outcome(fs::rename(top.join(name), top.join(other)), |()| vec![])),
            7 => self.both("link", |top| outcome(fs::hard_link(top.join(name), top.join(other)), |()| vec![])),
            8 => self.both("truncate", |top| {
                outcome(OpenOptions::new().write(true).truncate(true).open(top.join(name)), |_| vec![])
            }),
            9 => self.both("stat", |top| outcome(top.join(name).metadata(), |found| attributes(&found))),
            10 => self.both("readdir", |top| outcome(tree(top), String::into_bytes)),
            _ => drop(self.close_one()),
        }
    }

    fn close_one(&mut self) -> Option<[File; 2]> {
        let at = self.stream.below(self.open.len().max(1) as u64) as usize;
        (at < self.open.len()).then(|| self.open.swap_remove(at))
    }

    fn open_file(&mut self, name: &str) {
        if self.open.len() == 6 {
            self.close_one();
        }
        let open =
            |top: &PathBuf| OpenOptions::new().read(true).write(true).create(true).truncate(false).open(top.join(name));
        self.open.push(self.tops.each_ref().map(|top| open(top).unwrap()));
    }

    fn step_with_contents(&mut self, at: usize) {
        let (offset, mut data) = (self.stream.below(MOST), vec![0; 1 + self.stream.below(20_000) as usize]);
        self.stream.fill(&mut data);
        let size = self.open[at][1].metadata().unwrap().len();
        let len = data.len() as u64;
        let what = self.stream.below(16);
        let each = |operation: &dyn Fn(&File) -> Outcome| {
            let [ours, theirs] = self.open[at].each_ref().map(operation);
            assert!(ours == theirs, "operation {what} at {offset} of {size}: {} and {}", show(&ours), show(&theirs));
        };
        let allocate =
            |flags| each(&|file| outcome(fallocate(file, flags, offset, len).map_err(Into::into), |()| vec![]));
        match what {
            0..4 => each(&|file| outcome(file.write_all_at(&data, offset), |()| vec![])),
            4..8 => each(&|file| outcome(read(file, offset, data.len()), |data| data)),
            8 | 9 if size > 0 => {
                let offset = self.stream.clone().below(size);
                let data = &data[..data.len().min((size - offset) as usize)];
                each(&|file| outcome(write_by_map(file, offset, data), |()| vec![]));
            }
            10 if size > 0 => {
                each(&|file| outcome(read_by_map(file, offset.min(size - 1), size, data.len()), |data| data))
            }
            11 => each(&|file| outcome(file.set_len(offset), |()| vec![])),
            12 => allocate(FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE),
            13 => allocate(FallocateFlags::ZERO_RANGE),
            14 => allocate(FallocateFlags::empty()),
            // The other directory is on a disk, which would take most of the time.
            _ => self.open[at][0].sync_data().unwrap(),
        }
        each(&|file| outcome(file.metadata(), |found| attributes(&found)));
    }

    /// Compares everything.
    fn compare(&self) {
        self.both("tree", |top| outcome(tree(top), String::into_bytes));
        for name in NAMES {
            self.both(name, |top| outcome(fs::read(top.join(name)), |data| data));
        }
        for [ours, theirs] in &self.open {
            let [ours, theirs] = [ours, theirs].map(|file| read(file, 0, 2 * MOST as usize).unwrap());
            assert!(ours == theirs, "an open file differs");
        }
    }
}

fn show(outcome: &Outcome) -> String {
    match outcome {
        Ok(data) if data.len() > 100 => format!("{} bytes", data.len()),
        outcome => format!("{outcome:?}"),
    }
}

/// Size and number of links; inode numbers and times differ.
fn attributes(found: &fs::Metadata) -> Vec<u8> {
    let links = if found.is_dir() { 0 } else { found.nlink() };
    format!("{} {links} {:o}", if found.is_dir() { 0 } else { found.len() }, found.mode()).into_bytes()
}

fn tree(top: &Path) -> io::Result<String> {
    let mut found = BTreeMap::new();
    let mut left = vec![top.to_path_buf()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            if metadata.is_dir() {
                left.push(entry.path());
            }
            found.insert(entry.path().strip_prefix(top).unwrap().to_path_buf(), attributes(&metadata));
        }
    }
    Ok(format!("{found:?}"))
}

fn read(file: &File, offset: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut data = vec![0; len];
    let mut filled = 0;
    loop {
        match file.read_at(&mut data[filled..], offset + filled as u64)? {
            0 => break,
            n => filled += n,
        }
    }
    data.truncate(filled);
    Ok(data)
}

/// A map of whole pages that contains a range.
fn map(file: &File, offset: u64, len: usize) -> io::Result<(SharedMap, usize)> {
    let begin = offset / PAGE * PAGE;
    let before = (offset - begin) as usize;
    Ok((SharedMap::new(file, begin, before + len)?, before))
}

fn write_by_map(file: &File, offset: u64, data: &[u8]) -> io::Result<()> {
    let (mut map, at) = map(file, offset, data.len())?;
    map.write(at, data);
    Ok(())
}

fn read_by_map(file: &File, offset: u64, size: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut data = vec![0; len.min((size - offset) as usize)];
    let (map, at) = map(file, offset, data.len())?;
    map.read(at, &mut data);
    Ok(data)
}

fn compare_with_a_plain_directory(settings: &Settings, operations: u64, seed: u64) {
    let Some(mut mount) = Mount::with(settings) else { return };
    let plain = tempfile::tempdir().unwrap();
    let mut pair = Pair::new([mount.path("tested"), plain.path().to_path_buf()], seed);
    for operation in 0..operations {
        pair.step();
        if operation % 1000 == 999 {
            pair.compare();
        }
    }
    pair.compare();
    // Once all is durable, an image shows the same too.
    pair.open.clear();
    mount.mounted.sync().unwrap();
    pair.tops[0] = mount.durable().join("tested");
    pair.compare();
}

#[test]
fn file_system_shows_what_a_plain_directory_shows() {
    let given = std::env::var("PRONY_POWERCUT_OPERATIONS").ok().and_then(|number| number.parse().ok());
    compare_with_a_plain_directory(&Settings::default(), given.unwrap_or(3000), 1);
}

#[test]
fn file_system_with_little_memory_shows_what_a_plain_directory_shows() {
    let few = prony_model::units::Bytes::from_kib(64);
    let settings = Settings { memory: few, metadata: MetadataOrder::Posix, ..Settings::default() };
    compare_with_a_plain_directory(&settings, 1500, 2);
}
