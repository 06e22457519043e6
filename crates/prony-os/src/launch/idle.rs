//! Supervisors that have served a process and wait for the next one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::link::Link;

/// Supervisors of which nothing is left of an earlier process. There are never more than there were processes at one
/// time. Each of them, or its spawner, may have been killed or stopped meanwhile.
#[derive(Clone, Debug, Default)]
pub(super) struct Idle(Arc<Mutex<Vec<Link>>>);

impl Idle {
    /// The one that was added last.
    pub(super) fn take(&self) -> Option<Link> {
        self.links().pop()
    }

    pub(super) fn put(&self, link: Link) {
        self.links().push(link);
    }

    fn links(&self) -> MutexGuard<'_, Vec<Link>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
