//! Reference workloads: the same small work before and after every trial, so that a disturbed machine is detected
//! (METHOD 4.10).

use std::cell::Cell;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

use prony_model::reading::Reading;
use prony_model::record::ReferenceTimes;
use prony_model::units::{Bytes, Nanos};

use super::memory;
use crate::clock::monotonic;
use crate::why::reading;

const STEPS: u64 = 1_000_000;
/// Each run reads a part of the buffer, in turn, so that each page is read again only after the whole buffer, which is
/// larger than most caches.
const PARTS: usize = 3;
const BUFFER: Bytes = Bytes::from_mib(48);
const SYNCS: u32 = 4;
const FILE: &str = ".prony-reference";

/// The buffer is reused by all trials, so that its pages are touched for the first time only once.
#[derive(Debug)]
pub struct ReferenceWorkload {
    buffer: Vec<u64>,
    /// How often it ran.
    runs: Cell<usize>,
}

impl Default for ReferenceWorkload {
    fn default() -> Self {
        Self::with(memory::touched(BUFFER))
    }
}

impl ReferenceWorkload {
    const fn with(buffer: Vec<u64>) -> Self {
        Self { buffer, runs: Cell::new(0) }
    }

    /// Runs them once; `directory` is where the store will be. Takes some milliseconds.
    pub fn run(&self, directory: &Path) -> ReferenceTimes {
        let part = self.next_part();
        ReferenceTimes { cpu: timed(spin), memory: timed(|| memory::sum(part)), fsync: fsync(directory) }
    }

    /// The part of the buffer that was not read for the longest time. All have the same length.
    fn next_part(&self) -> &[u64] {
        let length = self.buffer.len() / PARTS;
        let from = length * (self.runs.replace(self.runs.get().wrapping_add(1)) % PARTS);
        &self.buffer[from..from + length]
    }
}

fn timed<T>(work: impl FnOnce() -> T) -> Nanos {
    let began = monotonic();
    std::hint::black_box(work());
    monotonic().since(began)
}

/// Xorshift: each step needs the result of the one before, so that no compiler can shorten the loop.
fn spin() -> u64 {
    let start = std::hint::black_box(0x9e37_79b9_7f4a_7c15u64);
    (0..STEPS).fold(start, |mut x, _| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^ x << 17
    })
}

fn fsync(directory: &Path) -> Reading<Nanos> {
    let path = directory.join(FILE);
    let taken = sync_writes(&path).and_then(|taken| std::fs::remove_file(&path).map(|()| taken));
    reading(&format!("`{}`", path.display()), taken)
}

fn sync_writes(path: &Path) -> io::Result<Nanos> {
    let mut file = OpenOptions::new().create(true).write(true).truncate(true).open(path)?;
    let page = [0x51u8; 4096];
    let began = monotonic();
    for _ in 0..SYNCS {
        file.write_all(&page)?;
        file.sync_data()?;
    }
    Ok(monotonic().since(began))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reference_workload_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let times = ReferenceWorkload::with(memory::touched(Bytes::from_kib(64))).run(dir.path());
        assert!(times.cpu > Nanos::ZERO && times.fsync.measured().is_some());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn each_part_of_the_buffer_is_read_in_turn() {
        let workload = ReferenceWorkload::with((0..10).collect());
        let parts: Vec<&[u64]> = (0..4).map(|_| workload.next_part()).collect();
        assert_eq!(parts, [&[0, 1, 2][..], &[3, 4, 5], &[6, 7, 8], &[0, 1, 2]]);
    }

    #[test]
    fn where_nothing_can_be_written_the_sync_is_missing() {
        assert!(matches!(fsync(Path::new("/proc/no such directory")), Reading::Missing(_)));
    }
}
