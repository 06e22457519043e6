//! What profiling cost: the profiled trial beside the others of its variant.

use std::fmt;

use prony_core::metric::{Metric, MetricKey};
use prony_core::record::{PhaseRecord, TrialRecord};
use prony_core::stats::summary::median;

use crate::results::RunData;

/// Wall and CPU time of a phase of the profiled trial, by the medians of the trials that ended well.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overhead {
    /// Quotient of wall times; `None` where one is missing.
    pub wall: Option<f64>,
    /// Quotient of CPU times; `None` where one is missing.
    pub cpu: Option<f64>,
    /// Trials behind the median.
    pub trials: usize,
}

impl Overhead {
    pub(super) fn of(data: &RunData, profiled: &TrialRecord, phase: &PhaseRecord) -> Self {
        let of_variant = |trial: &&TrialRecord| trial.trial.variant == profiled.trial.variant;
        let others: Vec<&TrialRecord> =
            data.trials.iter().filter(of_variant).filter(|trial| trial.ending.outcome.is_ok()).collect();
        let quotient = |metric| {
            let figure = |phase: &PhaseRecord| phase.reading(MetricKey::amount(metric))?.measured().copied();
            let same = |trial: &&TrialRecord| figure(trial.phases.iter().find(|other| other.name == phase.name)?);
            let usual = median(&others.iter().filter_map(same).collect::<Vec<_>>()).filter(|usual| *usual > 0.0)?;
            Some(figure(phase)? / usual)
        };
        Self { wall: quotient(Metric::Wall), cpu: quotient(Metric::Cpu), trials: others.len() }
    }
}

impl fmt::Display for Overhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = match self.trials {
            0 => return write!(f, "what profiling cost is not known: no trial of this variant ended well"),
            1 => "that of the one trial".to_owned(),
            n => format!("the median of {n} trials"),
        };
        match (self.wall, self.cpu) {
            (Some(wall), Some(cpu)) => {
                write!(f, "profiled, it took {wall:.2} of the wall time and {cpu:.2} of the CPU time, by {of}")
            }
            (Some(wall), None) => {
                write!(f, "profiled, it took {wall:.2} of the wall time, by {of}; CPU time is missing")
            }
            (None, Some(cpu)) => write!(f, "profiled, it took {cpu:.2} of the CPU time, by {of}; wall time is missing"),
            (None, None) => write!(f, "what profiling cost is not known: neither wall nor CPU time was measured"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_said() {
        let said = |wall, cpu, trials| Overhead { wall, cpu, trials }.to_string();
        assert_eq!(
            said(Some(1.131), Some(1.2), 10),
            "profiled, it took 1.13 of the wall time and 1.20 of the CPU time, by the median of 10 trials"
        );
        assert!(said(Some(1.0), None, 1).ends_with("by that of the one trial; CPU time is missing"));
        assert!(said(None, None, 0).contains("no trial of this variant ended well"));
        assert!(said(None, None, 3).contains("neither"));
    }
}
