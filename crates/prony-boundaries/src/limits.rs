//! Time limits of phases, by a clock that stops while the program is suspended, and reasons for ending a subject. Does
//! no I/O.

use prony_model::units::Nanos;
use prony_os::launch::classify::EndedByUs;

/// Why prony ended the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// A declared time ran out.
    Deadline,
    /// The user interrupted the run.
    Interrupted,
    /// A phase had ended at which the program is to be ended.
    Asked,
    /// A service that it needs has ended.
    WithoutService,
    /// It should have ended by itself: its work was done, or had failed.
    Overdue,
}

impl Stopped {
    /// The decision that was made from outside, whatever the subject did.
    pub const fn decided(self) -> Option<EndedByUs> {
        match self {
            Self::Deadline => Some(EndedByUs::TimedOut),
            Self::Interrupted => Some(EndedByUs::Interrupted),
            Self::Asked | Self::WithoutService | Self::Overdue => None,
        }
    }
}

/// When each phase must be over. All instants are those of the clock that stops.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deadlines {
    of: Vec<Option<Nanos>>,
    /// What was left of a phase's time when its function had returned, and up to when the rest is accounted for.
    left: Vec<Option<(Nanos, Nanos)>>,
}

/// The deadline of a phase whose time its counted invocations have used up: no event makes it later.
const USED_UP: Nanos = Nanos::ZERO;

impl Deadlines {
    /// Of so many phases; none has begun.
    pub(crate) fn new(phases: usize) -> Self {
        Self { of: vec![None; phases], left: vec![None; phases] }
    }

    /// A phase begins, and may take so long.
    pub(crate) fn begin(&mut self, phase: usize, limit: Option<Nanos>, now: Nanos) {
        self.of[phase] = limit.map(|limit| now + limit);
        self.left[phase] = limit.map(|limit| (limit, now));
    }

    /// It is over.
    pub(crate) fn end(&mut self, phase: usize) {
        self.of[phase] = None;
    }

    /// No invocation of its function is running now: the time between them is not the phase's. Returns whether nothing is left.
    pub(crate) fn pause(&mut self, phase: usize, now: Nanos) -> bool {
        // Invocations that were read together have not run before they were noticed.
        let now = self.left[phase].map_or(now, |(_, until)| now.max(until));
        if let Some(deadline) = self.of[phase].filter(|deadline| *deadline != USED_UP) {
            let left = deadline.since(now);
            self.of[phase] = (left == Nanos::ZERO).then_some(USED_UP);
            self.left[phase] = Some((left, now));
        }
        self.of[phase].is_some()
    }

    /// Invocations that were only counted took so long, up to an instant; they may have run at once, in several threads. Time in
    /// which one is known to be running counts by itself. Returns whether nothing is left.
    pub(crate) fn spend(&mut self, phase: usize, took: Nanos, now: Nanos) -> bool {
        let (None, Some((left, until))) = (self.of[phase], &mut self.left[phase]) else { return false };
        *left = left.since(took.min(now.since(*until)));
        *until = now.max(*until);
        let used_up = *left == Nanos::ZERO;
        if used_up {
            self.of[phase] = Some(USED_UP);
        }
        used_up
    }

    /// An invocation is running again.
    pub(crate) fn go_on(&mut self, phase: usize, now: Nanos) {
        if let (true, Some((left, until))) = (self.of[phase] != Some(USED_UP), &mut self.left[phase]) {
            *until = now.max(*until);
            self.of[phase] = Some(now + *left);
        }
    }

    /// The first deadline.
    pub(crate) fn first(&self) -> Option<Nanos> {
        self.of.iter().flatten().min().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_between_invocations_is_not_the_phases() {
        let ms = Nanos::from_millis;
        let mut deadlines = Deadlines::new(2);
        deadlines.begin(0, None, ms(5));
        assert_eq!(deadlines.first(), None);
        deadlines.begin(1, Some(ms(100)), ms(10));
        deadlines.begin(0, Some(ms(50)), ms(20));
        assert_eq!(deadlines.first(), Some(ms(70)));
        deadlines.end(0);
        assert!(!deadlines.pause(1, ms(40)));
        assert_eq!(deadlines.first(), None);
        deadlines.go_on(1, ms(1_000));
        assert_eq!(deadlines.first(), Some(ms(1_070)));
        // Read at 1,000, with the report that it had returned before.
        assert!(!deadlines.pause(1, ms(990)));
        deadlines.go_on(1, ms(1_000));
        assert_eq!(deadlines.first(), Some(ms(1_070)));
        // An invocation that returned beyond the limit, before prony had noticed: the phase was not named.
        assert!(deadlines.pause(1, ms(2_000)));
        deadlines.go_on(1, ms(3_000));
        assert_eq!(deadlines.first(), Some(USED_UP), "nothing is left of it");
    }

    /// 100,000 calls of 100 us ran 13 s under a limit of 2 s.
    #[test]
    fn counted_invocations_use_up_the_time_of_their_phase() {
        let ms = Nanos::from_millis;
        let mut deadlines = Deadlines::new(2);
        deadlines.spend(0, ms(900), ms(0));
        assert_eq!(deadlines.first(), None, "it has not begun");
        deadlines.begin(0, Some(ms(1_000)), ms(0));
        deadlines.spend(0, ms(900), ms(90));
        deadlines.pause(0, ms(100));
        for (took, at) in [(400, 600), (400, 650), (200, 640)] {
            assert!(!deadlines.spend(0, ms(took), ms(at)));
            assert_eq!(deadlines.first(), None, "of several threads, at most what has passed");
        }
        // Of 1,000 ms 100, 400 and 50 are used; a call that is known to be running uses 200 more.
        deadlines.go_on(0, ms(1_000));
        assert_eq!(deadlines.first(), Some(ms(1_450)));
        deadlines.spend(0, ms(100), ms(1_200));
        deadlines.pause(0, ms(1_200));
        deadlines.spend(0, ms(249), ms(2_000));
        assert_eq!(deadlines.first(), None);
        assert!(deadlines.spend(0, ms(1), ms(3_000)));
        assert_eq!(deadlines.first(), Some(USED_UP));
        deadlines.pause(0, ms(3_001));
        assert_eq!(deadlines.first(), Some(USED_UP), "the end of another report does not undo it");
        deadlines.end(0);
        assert_eq!(deadlines.first(), None);
        deadlines.begin(1, None, ms(0));
        deadlines.pause(1, ms(1));
        deadlines.spend(1, ms(100), ms(200));
        assert_eq!(deadlines.first(), None, "it has no limit");
    }
}
