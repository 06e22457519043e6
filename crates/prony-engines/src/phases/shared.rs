//! What the clients of a phase share: when they begin and stop, and when any of them is in a timed section.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::timed_loop::now;

/// What the clients of a phase share. Updated once a chunk.
pub(super) struct Shared<'a> {
    /// Operations so far.
    pub(super) operations: &'a AtomicU64,
    /// The instant from which on the clients stop; `u64::MAX` while they go on.
    stopped: AtomicU64,
    /// The instant at which the clients were released; `u64::MAX` before.
    pub(super) released: AtomicU64,
    /// When any client was in a timed section.
    pub(super) busy: Busy,
    /// The same of the clients of the phase and of its background, where it has one.
    pub(super) either: Option<&'a Busy>,
}

impl<'a> Shared<'a> {
    /// `listed` says whether sections are to be known one by one.
    pub(super) fn new(operations: &'a AtomicU64, listed: bool) -> Self {
        Self {
            operations,
            stopped: AtomicU64::new(u64::MAX),
            released: AtomicU64::new(u64::MAX),
            busy: Busy::new(listed),
            either: None,
        }
    }

    /// The clients stop: one of them has failed, or they are a background whose phase has ended.
    pub(super) fn stop(&self) {
        self.stopped.fetch_min(now(), Relaxed);
    }

    /// The clients may begin from this instant on, or from an earlier one that is known already: that of the phase, for its
    /// background.
    pub(super) fn release(&self, at: u64) {
        self.released.fetch_min(at, Relaxed);
    }

    /// Since when the clients stop.
    pub(super) fn stopped(&self) -> Option<u64> {
        Some(self.stopped.load(Relaxed)).filter(|at| *at != u64::MAX)
    }

    /// Beside the clients of a background, or of the phase of one.
    pub(super) fn beside(self, either: Option<&'a Busy>) -> Self {
        Self { either, ..self }
    }

    /// A timed section of a client has begun.
    pub(super) fn enter(&self, at: u64) {
        self.busy.enter(at);
        self.either.iter().for_each(|busy| busy.enter(at));
    }

    /// A timed section of a client has ended.
    pub(super) fn leave(&self, at: u64) {
        self.busy.leave(at);
        self.either.iter().for_each(|busy| busy.leave(at));
    }
}

/// The time in which at least one of several clients is in a timed section: no client's own sections show how long all of them
/// took.
///
/// What a client waits between its stamp and this lock counts as busy, so that the time is never too short.
#[derive(Debug, Default)]
pub(super) struct Busy(Mutex<Spans>);

/// Nanoseconds; instants by the monotonic clock.
#[derive(Clone, Debug, Default)]
struct Spans {
    inside: u32,
    /// Begin of the first section of all, where there was one.
    began: Option<u64>,
    /// Begin of the current span.
    since: u64,
    /// End of the last finished span.
    until: u64,
    sum: u64,
    /// Every finished span, where they are to be known one by one and are not too many.
    all: Option<Vec<(u64, u64)>>,
}

/// The most spans that are listed: 8 MB.
const MOST_SPANS: usize = 1 << 19;

impl Busy {
    fn new(listed: bool) -> Self {
        Self(Mutex::new(Spans { all: listed.then(Vec::new), ..Spans::default() }))
    }

    fn spans(&self) -> MutexGuard<'_, Spans> {
        // A client that panicked has not left this half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client's section has begun.
    pub(super) fn enter(&self, at: u64) {
        let mut spans = self.spans();
        if spans.inside == 0 {
            spans.since = at.max(spans.until);
        }
        spans.began = Some(spans.began.map_or(at, |began| began.min(at)));
        spans.inside += 1;
    }

    /// A client's section has ended.
    pub(super) fn leave(&self, at: u64) {
        let mut spans = self.spans();
        spans.until = spans.until.max(at);
        spans.inside = spans.inside.saturating_sub(1);
        if spans.inside == 0 {
            let (since, until) = (spans.since, spans.until);
            spans.sum += until.saturating_sub(since);
            spans.all.iter_mut().for_each(|all| all.push((since, until)));
            spans.all.take_if(|all| all.len() > MOST_SPANS);
        }
    }

    /// Every span in which some client was in a section, where they are listed.
    pub(super) fn sections(&self) -> Vec<(u64, u64)> {
        self.spans().all.take().unwrap_or_default()
    }

    /// From the first begin to the last end.
    pub(super) fn whole(&self) -> Option<(u64, u64)> {
        let spans = self.spans();
        spans.began.map(|began| (began, spans.until))
    }

    /// Time in which some client was in a section, and the rest between the first begin and the last end.
    pub(super) fn time_and_gap(&self) -> (u64, u64) {
        let spans = self.spans();
        let whole = spans.until.saturating_sub(spans.began.unwrap_or(spans.until));
        (spans.sum, whole.saturating_sub(spans.sum))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_busy_where_any_client_is_in_a_section() {
        let busy = Busy::default();
        let events = [(100, true), (150, true), (200, false), (260, false), (300, true), (340, false)];
        events.into_iter().for_each(|(at, enters)| if enters { busy.enter(at) } else { busy.leave(at) });
        assert_eq!(busy.time_and_gap(), (160 + 40, 40));
    }

    #[test]
    fn clients_that_run_one_after_the_other_add_up() {
        let busy = Busy::default();
        for client in 0..16 {
            busy.enter(client * 1000);
            busy.leave(client * 1000 + 990);
        }
        assert_eq!(busy.time_and_gap(), (16 * 990, 15 * 10));
    }

    #[test]
    fn out_of_order_timestamps_count_no_time_twice() {
        let busy = Busy::default();
        busy.enter(100);
        busy.leave(200);
        busy.enter(190);
        busy.leave(300);
        assert_eq!(busy.time_and_gap(), (200, 0));
        assert_eq!(Busy::default().time_and_gap(), (0, 0));
    }
}
