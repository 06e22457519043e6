//! Supervisors that have nothing left to do but exit, which may take them a while: nobody waits for that.
//!
//! They are children of this process, whoever launched them, and stay in its table of processes until they are reaped.

use std::process::Child;
use std::sync::{Mutex, PoisonError};

static LINGERING: Mutex<Vec<Child>> = Mutex::new(Vec::new());

/// Leaves a supervisor to itself.
pub(super) fn leave(process: Child) {
    LINGERING.lock().unwrap_or_else(PoisonError::into_inner).push(process);
}

/// Reaps those that have exited meanwhile.
pub(super) fn reap() {
    // One that cannot be waited for was reaped already.
    LINGERING.lock().unwrap_or_else(PoisonError::into_inner).retain_mut(|child| matches!(child.try_wait(), Ok(None)));
}
