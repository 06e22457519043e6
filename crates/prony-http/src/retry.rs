//! Attempts that are repeated.

use std::collections::VecDeque;

use prony_model::http::RetrySpec;
use prony_model::units::Nanos;

use crate::connection::End;
use crate::failure::Failure;
use crate::tally::Exchange;

/// An attempt that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) exchange: Exchange,
    pub(crate) end: End,
}

/// Whether an attempt with this end is repeated, the `attempts`th of its request.
pub(crate) fn repeats(retry: &RetrySpec, end: &End, attempts: u32) -> bool {
    let wanted = match end {
        End::Answered(status) => retry.statuses.contains(status),
        End::Failed(Failure::Timeout, _) => retry.timeout,
        End::Failed(Failure::Refused | Failure::Reset | Failure::Closed, _) => retry.connection,
        End::Failed(..) => false,
    };
    wanted && attempts <= retry.times
}

/// Connections whose requests wait for another attempt, with their last one. All wait equally long, so that those which wait longest
/// are due first.
#[derive(Debug, Default)]
pub(crate) struct Waiting(VecDeque<(Nanos, u32, Ended)>);

impl Waiting {
    /// The request of a connection waits until an instant.
    pub(crate) fn add(&mut self, until: Nanos, slot: u32, ended: Ended) {
        self.0.push_back((until, slot, ended));
    }

    /// When the next attempt is due.
    pub(crate) fn due(&self) -> Option<Nanos> {
        self.0.front().map(|(until, ..)| *until)
    }

    /// Takes the first that is due at an instant, or at any.
    #[inline]
    pub(crate) fn next(&mut self, now: Option<Nanos>) -> Option<(u32, Ended)> {
        self.due().filter(|until| now.is_none_or(|now| *until <= now))?;
        self.0.pop_front().map(|(_, slot, ended)| (slot, ended))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ends_that_are_named_are_repeated_so_often() {
        let retry =
            RetrySpec { statuses: vec![503], timeout: false, connection: true, times: 2, wait: Nanos::from_millis(1) };
        let failed = |failure| End::Failed(failure, String::new());
        let of = |retry: &RetrySpec, attempts| {
            let repeated = Failure::ALL.into_iter().filter(|failure| repeats(retry, &failed(*failure), attempts));
            repeated.collect::<Vec<_>>()
        };
        assert_eq!(of(&retry, 2), [Failure::Refused, Failure::Reset, Failure::Closed]);
        assert_eq!(of(&retry, 3), []);
        assert!(repeats(&retry, &End::Answered(503), 1) && !repeats(&retry, &End::Answered(500), 1));
        let retry = RetrySpec { timeout: true, connection: false, ..retry };
        assert_eq!(of(&retry, 1), [Failure::Timeout]);
    }

    #[test]
    fn waiting_requests_are_due_in_order() {
        let mut waiting = Waiting::default();
        for slot in 0..3 {
            let ended = Ended { exchange: Exchange::default(), end: End::Answered(503) };
            waiting.add(Nanos::from_millis(u64::from(slot)), slot, ended);
        }
        let slot = |next: Option<(u32, Ended)>| next.map(|(slot, _)| slot);
        assert_eq!(slot(waiting.next(Some(Nanos::ZERO))), Some(0));
        assert_eq!((slot(waiting.next(Some(Nanos::ZERO))), waiting.due()), (None, Some(Nanos::from_millis(1))));
        assert_eq!(
            [slot(waiting.next(None)), slot(waiting.next(None)), slot(waiting.next(None))],
            [Some(1), Some(2), None]
        );
    }
}
