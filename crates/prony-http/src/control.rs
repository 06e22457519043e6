//! Shows the progress of a load that runs, and ends it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How far a load is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Requests that got an expected answer, those of the warm-up among them.
    pub ok: u64,
    /// Requests that failed, those of the warm-up among them.
    pub failed: u64,
    /// Requests that started and have not ended.
    pub running: u64,
}

impl Progress {
    /// Requests that have ended.
    pub(crate) fn ended(self) -> u64 {
        self.ok + self.failed
    }
}

/// The counts of one thread, on a cache line of its own: other threads only read it.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Counts {
    ok: AtomicU64,
    failed: AtomicU64,
    running: AtomicU64,
}

impl Counts {
    pub(crate) fn publish(&self, progress: Progress) {
        self.ok.store(progress.ok, Ordering::Relaxed);
        self.failed.store(progress.failed, Ordering::Relaxed);
        self.running.store(progress.running, Ordering::Relaxed);
    }
}

/// Shared with a load that runs.
#[derive(Debug)]
pub struct Control {
    stop: AtomicBool,
    counts: Vec<Counts>,
}

impl Control {
    /// For a load of so many threads.
    pub fn new(threads: u32) -> Self {
        Self { stop: AtomicBool::new(false), counts: (0..threads).map(|_| Counts::default()).collect() }
    }

    /// Ends the load soon: no request starts any more, and those that run have one second.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// How far the load is, over all threads.
    pub fn progress(&self) -> Progress {
        let add = |sum: Progress, counts: &Counts| Progress {
            ok: sum.ok + counts.ok.load(Ordering::Relaxed),
            failed: sum.failed + counts.failed.load(Ordering::Relaxed),
            running: sum.running + counts.running.load(Ordering::Relaxed),
        };
        self.counts.iter().fold(Progress::default(), add)
    }

    /// The counts of a thread.
    pub(crate) fn of_thread(&self, index: u32) -> Option<&Counts> {
        self.counts.get(index as usize)
    }
}
