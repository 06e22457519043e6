//! The steps of an open loop's schedule.

use prony_model::spec::RateStep;
use prony_model::units::Nanos;

/// When the steps end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ends {
    ends: Vec<Nanos>,
    /// The step of the last instant that was asked for.
    now: usize,
}

impl Ends {
    /// Of steps the first of which begins at `since`.
    pub(crate) fn new(steps: &[RateStep], since: Nanos) -> Self {
        let mut end = since;
        let ends = steps.iter().map(|step| {
            end += step.time;
            end
        });
        Self { ends: ends.collect(), now: 0 }
    }

    /// All of them.
    pub(crate) fn all(self) -> Vec<Nanos> {
        self.ends
    }

    /// The number of the step of an instant, which is not before those asked for earlier. What comes before the first step is of the
    /// first, what comes after the last of the last.
    #[inline]
    pub(crate) fn at(&mut self, instant: Nanos) -> u32 {
        while self.now + 1 < self.ends.len() && instant >= self.ends[self.now] {
            self.now += 1;
        }
        self.now as u32
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use prony_model::units::PerSecond;

    pub(crate) const BEGIN: Nanos = Nanos::from_secs(5);

    pub(crate) fn steps() -> [RateStep; 2] {
        let rate = PerSecond::new(1.0).unwrap();
        [1, 2].map(|time| RateStep { from: rate, to: rate, time: Nanos::from_secs(time) })
    }

    pub(crate) fn at(millis: u64) -> Nanos {
        BEGIN + Nanos::from_millis(millis)
    }

    #[test]
    fn instants_are_of_the_step_that_has_begun() {
        let mut ends = Ends::new(&steps(), BEGIN);
        assert_eq!([0, 999, 1_000, 2_999, 9_999].map(|ms| ends.at(at(ms))), [0, 0, 1, 1, 1]);
        assert_eq!(Ends::new(&[], BEGIN).at(at(5)), 0);
    }
}
