//! Classifies a trial for a comparison: how the trial ended comes before its value (METHOD 4.9).

use serde::{Deserialize, Serialize};

use super::binomial::{binomial_interval, exact_p};
use prony_model::metric::Better;
use prony_model::outcome::Outcome;
use prony_model::reading::{Reading, Why};

/// One trial's value of the metric that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Observation {
    /// Measured: the phase that yields it was completed.
    Value(f64),
    /// Measured with a known error: the true value lies between `least` and `most`.
    Within {
        /// As measured.
        value: f64,
        /// At least this.
        least: f64,
        /// At most this.
        most: f64,
    },
    /// Did not finish, because of a limit of the experiment, the runtime's heap or the subject's own failure: worse
    /// than any value.
    Unfinished,
    /// Finished, but the metric was not measured: no value, but counted among the trials that finished.
    Unmeasured,
    /// What it would have given is not known: it was ended from outside (the host ran out of memory, an unknown kill), or
    /// ended well without having completed the phase, and so did other work than was to be measured (METHOD 8.1).
    Unknown,
    /// The user ended the run: there was no such trial.
    Interrupted,
    /// Read back data that had not been written: the comparison is refused.
    WrongAnswer,
    /// The engine or machine does not support the trial: it never runs.
    Unsupported,
}

impl Observation {
    /// From how a trial ended and its value, if that counts ([`figure`](prony_model::record::TrialRecord::figure)).
    ///
    /// The value of a completed phase counts, whatever happened later, except after a wrong answer. A trial without a
    /// value that failed because of itself is worse than any that did not, in every metric: no amount of time or memory
    /// would have given its result. So is an activity that did not end within the experiment's limit.
    pub fn of(outcome: Outcome, figure: &Reading<f64>) -> Self {
        match (outcome, figure) {
            (Outcome::WrongAnswer, _) => Self::WrongAnswer,
            (Outcome::Unsupported, _) => Self::Unsupported,
            (Outcome::Interrupted, _) => Self::Interrupted,
            (_, Reading::Measured(value)) => Self::Value(*value),
            (_, Reading::Missing(why)) if why.is_infinite() => Self::Unfinished,
            (outcome, Reading::Missing(Why::NotReached | Why::DoesNotCount(_))) if outcome.is_own_failure() => {
                Self::Unfinished
            }
            (outcome, Reading::Missing(Why::DoesNotCount(_))) if !outcome.is_ok() => Self::Unknown,
            (_, Reading::Missing(Why::NotReached)) => Self::Unknown,
            // Its phase was completed, however the trial ended later.
            _ => Self::Unmeasured,
        }
    }

    /// The observation where the true value may be less or greater by these amounts, at least 0 and in the metric's unit.
    #[must_use]
    pub fn within(self, (less, more): (f64, f64)) -> Self {
        match self {
            Self::Value(value) if less > 0.0 || more > 0.0 => {
                Self::Within { value, least: (value - less).max(0.0), most: value + more }
            }
            other => other,
        }
    }

    /// As measured.
    pub(crate) const fn value(self) -> Option<f64> {
        match self {
            Self::Value(value) | Self::Within { value, .. } => Some(value),
            _ => None,
        }
    }

    /// The logarithm of the cost, at its smallest, as measured, and at its largest: a rate is inverted, so that more is
    /// always worse. `None` if there is no result.
    pub(crate) fn log_cost(self, better: Better) -> Option<[f64; 3]> {
        let values = match self {
            Self::Value(value) => [value; 3],
            Self::Within { value, least, most } => [least, value, most],
            Self::Unfinished => return Some([f64::INFINITY; 3]),
            _ => return None,
        };
        let [least, value, most] = values.map(f64::ln);
        let costs = if better == Better::Higher { [-most, -value, -least] } else { [least, value, most] };
        (values[0] >= 0.0 && values[2].is_finite()).then_some(costs)
    }

    /// Whether the trial was none, so that its block is left out.
    pub(crate) const fn is_no_trial(self) -> bool {
        matches!(self, Self::Interrupted | Self::WrongAnswer | Self::Unsupported)
    }

    /// Whether its error is as large as its value, so that the true value may be 0.
    pub(crate) fn may_be_nothing(self) -> bool {
        matches!(self, Self::Within { value, least, .. } if least == 0.0 && value > 0.0)
    }
}

/// How many of a variant's trials finished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Trials that finished, with a value or not.
    pub finished: u32,
    /// Trials that finished or did not; those of which it is not known and interrupted ones are not among them.
    pub trials: u32,
}

impl Counts {
    /// Counts a variant's trials.
    pub fn of(observations: impl Iterator<Item = Observation>) -> Self {
        observations.fold(Self::default(), |so_far, one| match one {
            Observation::Value(_) | Observation::Within { .. } | Observation::Unmeasured => {
                Self { finished: so_far.finished + 1, trials: so_far.trials + 1 }
            }
            Observation::Unfinished => Self { trials: so_far.trials + 1, ..so_far },
            _ => so_far,
        })
    }

    /// The share that finished; 0 without trials.
    pub(crate) fn share(self) -> f64 {
        f64::from(self.finished) / f64::from(self.trials.max(1))
    }

    /// The exact interval for the share that finishes.
    pub fn interval(self, level: f64) -> (f64, f64) {
        binomial_interval(self.finished, self.trials, level)
    }

    /// Whether the shares that finish differ: Fisher's exact test (1922), two-sided, at this error.
    pub(crate) fn differ(self, other: Self, error: f64) -> bool {
        exact_p((self.finished, self.trials), (other.finished, other.trials)) <= error
    }

    /// Whether there are trials and none finished.
    pub const fn never(self) -> bool {
        self.trials > 0 && self.finished == 0
    }

    /// Whether there are trials and all finished.
    pub const fn always(self) -> bool {
        self.trials > 0 && self.finished == self.trials
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::outcome::OutOfMemory;

    #[test]
    fn outcomes_become_observations_as_the_method_says() {
        let of = |outcome| Observation::of(outcome, &Reading::Missing(Why::NotReached));
        for own in [
            Outcome::OutOfMemory { by: OutOfMemory::Limit },
            Outcome::OutOfMemory { by: OutOfMemory::Runtime },
            Outcome::TimedOut,
            Outcome::Crashed { signal: 11 },
            Outcome::Failed { code: Some(3) },
            Outcome::DiskFull,
            Outcome::Saturated,
        ] {
            assert_eq!(of(own), Observation::Unfinished, "{own}");
        }
        for outside in [Outcome::OutOfMemory { by: OutOfMemory::Host }, Outcome::Killed] {
            assert_eq!(of(outside), Observation::Unknown, "{outside}");
        }
        assert_eq!(of(Outcome::Unsupported), Observation::Unsupported);
        assert_eq!(of(Outcome::Ok), Observation::Unknown, "it ended well without the phase");
    }

    #[test]
    fn a_wrong_answer_outweighs_its_figure_and_a_later_failure_does_not() {
        let of = |outcome| Observation::of(outcome, &Reading::Measured(1.0));
        assert_eq!(of(Outcome::WrongAnswer), Observation::WrongAnswer);
        assert_eq!(of(Outcome::TimedOut), Observation::Value(1.0));
        assert_eq!(of(Outcome::Interrupted), Observation::Interrupted);
    }

    #[test]
    fn percentile_among_failed_operations_is_worse_than_any() {
        let among = Reading::Missing(Why::Infinite { failed: 5, of: 10 });
        assert_eq!(Observation::of(Outcome::Ok, &among), Observation::Unfinished);
        let active = Reading::Missing(Why::NotSettled("within 2.00 s: it went on".into()));
        assert_eq!(Observation::of(Outcome::Ok, &active), Observation::Unfinished);
    }

    #[test]
    fn a_figure_that_was_not_measured_says_nothing_however_the_trial_ended() {
        let few = Reading::Missing(Why::TooFew { have: 5, need: 10 });
        for outcome in [Outcome::Ok, Outcome::Saturated, Outcome::Crashed { signal: 11 }] {
            assert_eq!(Observation::of(outcome, &few), Observation::Unmeasured, "{outcome}");
        }
        let excluded = Reading::Missing(Why::DoesNotCount("operations failed".into()));
        assert_eq!(Observation::of(Outcome::Failed { code: None }, &excluded), Observation::Unfinished);
    }

    #[test]
    fn a_rate_is_turned_round() {
        let cost = |o: Observation, better| o.log_cost(better);
        assert_eq!(cost(Observation::Value(2.0), Better::Lower), Some([2f64.ln(); 3]));
        assert_eq!(cost(Observation::Value(2.0), Better::Higher), Some([-(2f64.ln()); 3]));
        let more = Observation::Value(2.0).within((1.0, 1.0));
        assert_eq!(cost(more, Better::Lower), Some([1f64.ln(), 2f64.ln(), 3f64.ln()]));
        assert_eq!(cost(more, Better::Higher), Some([-(3f64.ln()), -(2f64.ln()), -(1f64.ln())]));
        assert!(!more.may_be_nothing() && Observation::Value(2.0).within((2.0, 0.0)).may_be_nothing());
        assert_eq!(cost(Observation::Unfinished, Better::Higher), Some([f64::INFINITY; 3]));
        assert_eq!(cost(Observation::Value(-1.0), Better::Lower), None);
        assert_eq!(cost(Observation::Unknown, Better::Lower), None);
    }

    #[test]
    fn counts_leave_disturbances_out() {
        let all = [Observation::Value(1.0), Observation::Unfinished, Observation::Unknown];
        let counts = Counts::of(all.into_iter());
        assert_eq!(counts, Counts { finished: 1, trials: 2 });
        assert!(!counts.never() && !counts.always());
        let (low, high) = counts.interval(0.95);
        assert!(low > 0.0 && low < 0.02 && high > 0.98 && high < 1.0);
    }

    /// Half of the trials crashed, and the rest had no measured value: those were left out, so that the variant did
    /// "not finish" in 0 of 3 trials.
    #[test]
    fn trials_without_a_figure_count_among_those_that_finished() {
        let half = [Observation::Unfinished, Observation::Unmeasured].repeat(3);
        let counts = Counts::of(half.into_iter());
        assert_eq!(counts, Counts { finished: 3, trials: 6 });
        assert!(!counts.never());
        assert_eq!(Observation::Unmeasured.log_cost(Better::Lower), None);
    }
}
