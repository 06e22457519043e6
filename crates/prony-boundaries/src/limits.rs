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
    /// What was left of a phase's time when its function had returned.
    left: Vec<Option<Nanos>>,
}

impl Deadlines {
    /// Of so many phases; none has begun.
    pub(crate) fn new(phases: usize) -> Self {
        Self { of: vec![None; phases], left: vec![None; phases] }
    }

    /// A phase begins, and may take so long.
    pub(crate) fn begin(&mut self, phase: usize, limit: Option<Nanos>, now: Nanos) {
        self.of[phase] = limit.map(|limit| now + limit);
    }

    /// It is over.
    pub(crate) fn end(&mut self, phase: usize) {
        self.of[phase] = None;
    }

    /// No invocation of its function is running now: the time between them is not the phase's.
    pub(crate) fn pause(&mut self, phase: usize, now: Nanos) {
        if let Some(deadline) = self.of[phase].take() {
            self.left[phase] = Some(deadline.since(now));
        }
    }

    /// An invocation is running again.
    pub(crate) fn go_on(&mut self, phase: usize, now: Nanos) {
        self.of[phase] = self.left[phase].map(|left| now + left);
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
        deadlines.pause(1, ms(40));
        assert_eq!(deadlines.first(), None);
        deadlines.go_on(1, ms(1_000));
        assert_eq!(deadlines.first(), Some(ms(1_070)));
        deadlines.pause(1, ms(2_000));
        deadlines.go_on(1, ms(3_000));
        assert_eq!(deadlines.first(), Some(ms(3_000)), "nothing is left of it");
    }
}
