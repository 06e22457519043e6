//! What the server has done and has to do, for the process that watches it. The counters are of the whole process, which
//! serves one file system.

use std::sync::atomic::{AtomicU64, Ordering};

static BEGUN: AtomicU64 = AtomicU64::new(0);
static ENDED: AtomicU64 = AtomicU64::new(0);
static STEPS: AtomicU64 = AtomicU64::new(0);

/// A request that is worked on; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Busy(());

impl Busy {
    pub(crate) fn begin() -> Self {
        BEGUN.fetch_add(1, Ordering::Relaxed);
        Self(())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        ENDED.fetch_add(1, Ordering::Relaxed);
    }
}

/// A part of something long is done, such as an image.
pub(crate) fn step() {
    STEPS.fetch_add(1, Ordering::Relaxed);
}

/// Requests that are worked on, and a number that changes where something was done.
pub(crate) fn now() -> (u64, u64) {
    let ended = ENDED.load(Ordering::Relaxed);
    let open = BEGUN.load(Ordering::Relaxed).saturating_sub(ended);
    (open, ended.wrapping_add(STEPS.load(Ordering::Relaxed)))
}
