//! When operations become durable without a request.

use std::time::Instant;

use crate::log::Log;
use crate::settings::Settings;

/// The oldest operation becomes durable at a limit of pending data, or at the end of its interval, as with the commits of a
/// journal. With a random age for each, it would wait for the largest age of those before it, since they are in order.
#[derive(Debug)]
pub(crate) struct Writeback {
    begin: Instant,
    /// In nanoseconds.
    interval: Option<u64>,
    limit: u64,
}

impl Writeback {
    pub(crate) fn new(settings: &Settings) -> Self {
        let interval = settings.writeback.map(|interval| interval.as_nanos().max(1));
        Self { begin: Instant::now(), interval, limit: settings.pending.as_bytes() }
    }

    /// Whether the oldest operation is due now: by the limit (`true`), or by its interval.
    pub(crate) fn due(&self, log: &Log, now: Instant) -> Option<bool> {
        let (_, oldest) = log.first()?;
        if log.whole() > self.limit {
            return Some(true);
        }
        let interval = u128::from(self.interval?);
        let number = |at: Instant| at.duration_since(self.begin).as_nanos() / interval;
        (number(oldest.at) < number(now)).then_some(false)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use prony_model::units::Nanos;

    use super::*;
    use crate::log::{Attributes, Change};

    /// At 100 operations a second each waited almost twice the mean that was asked for.
    #[test]
    fn operations_are_due_at_the_end_of_their_interval() {
        let mut log = Log::default();
        let attributes = Attributes { mode: 0, uid: 0, gid: 0 };
        log.push(Change::Attributes { ino: 1, attributes });
        let at = log.first().unwrap().1.at;
        let mut writeback = Writeback::new(&Settings { writeback: Some(Nanos::from_secs(10)), ..Settings::default() });
        for (after, due) in [(0, 10), (4, 6), (9, 1), (10, 10), (19, 1)] {
            writeback.begin = at.checked_sub(Duration::from_secs(after)).unwrap();
            let due_after = |time| writeback.due(&log, at + time);
            let due = Duration::from_secs(due);
            assert_eq!((due_after(due - Duration::from_nanos(1)), due_after(due)), (None, Some(false)), "{after}");
        }
    }
}
