//! Measures the machine's own limits (disk, memory, clock, timers), with which a store's results are compared.
//!
//! A rate of synced writes means nothing without the machine's fsync latency beside it: on a shared machine that
//! latency differs tenfold within an hour.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use prony_model::reading::{Reading, Why};
use prony_model::record::host::{MachineLimits, Spread};
use prony_model::units::{Bytes, Nanos, PerSecond};

use super::memory;
use crate::cache;
use crate::clock::monotonic;
use crate::fixture::Allocation;
use crate::why::{sampled, why};

const PAGE: usize = 4096;
const FILE_SIZE: Bytes = Bytes::from_mib(96);
const STREAM: Bytes = Bytes::from_mib(64);
const FIRST_TOUCH: Bytes = Bytes::from_mib(32);
const SYNCS: usize = 50;
/// Longest time of each part, however slow the disk: all parts together stay under five seconds.
const CAP: Nanos = Nanos::from_millis(900);

/// Measures what the machine can do at most; writes a file of 96 MiB in `directory` and removes it.
pub fn machine_limits(directory: &Path) -> MachineLimits {
    let (clock_cost, clock_step) = clock();
    let (memory_copy, memory_read) = streams();
    let disk = Scratch::new(directory);
    let fsync = disk.try_with(fsync);
    let sequential_write = disk.try_with(sequential_write);
    let (random_read, random_read_by) = match &sequential_write {
        // The reads need the file that the write created.
        Reading::Measured(_) => disk.random_read(),
        Reading::Missing(why) => (Reading::Missing(why.clone()), "nothing".to_owned()),
    };
    MachineLimits {
        clock_cost,
        clock_step,
        timer_lag: timer_lag(),
        fsync,
        sequential_write,
        random_read,
        random_read_by,
        memory_copy,
        memory_read,
        first_touch: first_touch(),
    }
}

fn rate(amount: u64, took: Nanos) -> Reading<PerSecond> {
    sampled(PerSecond::new(amount as f64 / took.as_secs_f64()))
}

fn clock() -> (Nanos, Nanos) {
    const READS: u64 = 20_000;
    let began = monotonic();
    let mut step = u64::MAX;
    let mut last = began;
    for _ in 0..READS {
        let now = monotonic();
        if now != last {
            step = step.min(now.since(last).as_nanos());
        }
        last = now;
    }
    (Nanos::from_nanos(last.since(began).as_nanos() / READS), Nanos::from_nanos(step))
}

fn timer_lag() -> Reading<Nanos> {
    let millisecond = Nanos::from_millis(1);
    let late = |_| {
        let began = monotonic();
        std::thread::sleep(Duration::from_millis(1));
        monotonic().since(began).since(millisecond)
    };
    Spread::of((0..10).map(late).collect())
        .map_or(Reading::Missing(Why::NotApplicable), |lag| Reading::Measured(lag.p50))
}

fn streams() -> (Reading<PerSecond>, Reading<PerSecond>) {
    let from = memory::touched(STREAM);
    let mut to = memory::touched(STREAM);
    let best = |work: &mut dyn FnMut()| {
        let took = (0..5).map(|_| {
            let began = monotonic();
            work();
            monotonic().since(began)
        });
        rate(STREAM.as_bytes(), took.min().unwrap_or_default())
    };
    let copy = best(&mut || std::hint::black_box(&mut to).copy_from_slice(std::hint::black_box(&from)));
    let read = best(&mut || {
        std::hint::black_box(memory::sum(std::hint::black_box(&from)));
    });
    (copy, read)
}

fn first_touch() -> Nanos {
    let began = monotonic();
    drop(Allocation::touched(FIRST_TOUCH));
    let pages = FIRST_TOUCH.as_bytes() / rustix::param::page_size() as u64;
    Nanos::from_nanos(monotonic().since(began).as_nanos() / pages.max(1))
}

/// The file that is written and read. Its name is removed before the first byte is written: otherwise it would remain
/// if prony were killed.
struct Scratch {
    file: Result<File, Why>,
}

impl Scratch {
    fn new(directory: &Path) -> Self {
        let path = directory.join(format!(".prony-limits-{}", std::process::id()));
        let opened = OpenOptions::new().create(true).read(true).write(true).truncate(true).open(&path);
        let nameless = opened.and_then(|file| std::fs::remove_file(&path).map(|()| file));
        Self { file: nameless.map_err(|error| why(&format!("`{}`", path.display()), &error)) }
    }

    fn with<T>(&self, work: impl FnOnce(&File) -> io::Result<Reading<T>>) -> Reading<T> {
        match &self.file {
            Ok(file) => work(file).unwrap_or_else(|error| Reading::Missing(why("the scratch file", &error))),
            Err(why) => Reading::Missing(why.clone()),
        }
    }

    /// Measures with the file empty.
    fn try_with<T>(&self, measure: impl FnOnce(&mut File) -> io::Result<Reading<T>>) -> Reading<T> {
        self.with(|file| {
            let mut file = file.try_clone()?;
            file.set_len(0)?;
            file.rewind()?;
            measure(&mut file)
        })
    }

    /// Past the page cache by `O_DIRECT`; where the file system refuses it, after dropping the file's
    /// pages and without read-ahead.
    fn random_read(&self) -> (Reading<PerSecond>, String) {
        // An open file without a name is opened again through its descriptor.
        let direct = |file: &File| {
            let again = format!("/proc/self/fd/{}", file.as_raw_fd());
            OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(again)
        };
        let read = self.with(|file| random_reads(&direct(file)?));
        match read {
            Reading::Measured(_) => (read, "O_DIRECT".to_owned()),
            Reading::Missing(_) => (self.with(random_read_evicted), "dropped pages".to_owned()),
        }
    }
}

fn random_read_evicted(file: &File) -> io::Result<Reading<PerSecond>> {
    if cache::evict_file(file)?.share().is_none_or(|share| share >= 0.01) {
        return Ok(Reading::failed("the file's pages could not be evicted from the page cache"));
    }
    rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::Random)?;
    random_reads(file)
}

fn fsync(file: &mut File) -> io::Result<Reading<Spread>> {
    let page = [0x51u8; PAGE];
    let began = monotonic();
    let mut all = Vec::with_capacity(SYNCS);
    while all.len() < SYNCS && monotonic().since(began) < CAP {
        let before = monotonic();
        file.write_all(&page)?;
        file.sync_data()?;
        all.push(monotonic().since(before));
    }
    Ok(sampled(Spread::of(all)))
}

/// Writes in megabytes until the file is complete, or for half the cap: the final fsync needs its time too.
fn sequential_write(file: &mut File) -> io::Result<Reading<PerSecond>> {
    // Compressible data would make some file systems and disks look faster.
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let block: Vec<u8> = (0..1 << 17).flat_map(|_| next(&mut state).to_ne_bytes()).collect();
    let began = monotonic();
    let mut written = 0;
    while written < FILE_SIZE.as_bytes() && monotonic().since(began) < CAP {
        file.write_all(&block)?;
        written += block.len() as u64;
    }
    file.sync_all()?;
    Ok(rate(written, monotonic().since(began)))
}

fn random_reads(file: &File) -> io::Result<Reading<PerSecond>> {
    const READS: u64 = 4_000;
    let pages = file.metadata()?.len() / PAGE as u64;
    if pages == 0 {
        return Ok(Reading::Missing(Why::TooFew { have: 0, need: 1 }));
    }
    let mut memory = vec![0u8; 2 * PAGE];
    // Direct reads need memory aligned to the device's blocks.
    let shift = memory.as_ptr().align_offset(PAGE);
    let page = &mut memory[shift..shift + PAGE];
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let (began, mut reads) = (monotonic(), 0);
    while reads < READS && monotonic().since(began) < CAP {
        file.read_exact_at(page, next(&mut state) % pages * PAGE as u64)?;
        reads += 1;
    }
    Ok(rate(reads, monotonic().since(began)))
}

/// Xorshift: the same places and bytes each time.
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads_are_by_nearest_rank() {
        let all = (1..=10).rev().map(Nanos::from_nanos).collect();
        let spread = Spread::of(all).unwrap();
        assert_eq!([spread.min, spread.p50, spread.p90, spread.max].map(Nanos::as_nanos), [1, 5, 9, 10]);
        let one = Spread::of(vec![Nanos::from_nanos(7)]).unwrap();
        assert_eq!([one.p50, one.p90].map(Nanos::as_nanos), [7, 7]);
        assert_eq!(Spread::of(vec![]), None);
    }

    #[test]
    fn a_rate_needs_time() {
        assert_eq!(rate(10, Nanos::from_millis(500)), Reading::Measured(PerSecond::new(20.0).unwrap()));
        assert!(matches!(rate(10, Nanos::ZERO), Reading::Missing(Why::TooFew { .. })));
        assert!(matches!(rate(0, Nanos::from_secs(1)), Reading::Missing(Why::TooFew { .. })));
    }

    #[test]
    fn where_nothing_can_be_written_disk_limits_are_missing() {
        let nowhere = Scratch::new(Path::new("/proc/no such directory"));
        assert!(matches!(nowhere.try_with(fsync), Reading::Missing(_)));
    }

    #[test]
    fn the_scratch_file_has_no_name_that_a_killed_prony_could_leave() {
        let dir = tempfile::tempdir().unwrap();
        let scratch = Scratch::new(dir.path());
        assert!(scratch.file.is_ok());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        let page = scratch.try_with(|file| file.write_all(&[1; PAGE]).map(|()| Reading::Measured(())));
        assert_eq!(page, Reading::Measured(()));
        assert!(matches!(scratch.random_read().0, Reading::Measured(_)), "read again without a name");
        let failed: Reading<()> = scratch.try_with(|_| Err(io::Error::other("broken")));
        assert!(matches!(failed, Reading::Missing(Why::Failed(_))));
    }
}
