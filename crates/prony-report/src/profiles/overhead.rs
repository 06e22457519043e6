//! The cost of profiling: compares the profiled trial with the other trials of its variant.

use std::fmt;

use prony_model::metric::Metric;
use prony_model::outcome::Outcome;
use prony_model::record::{PhaseRecord, TrialRecord};
use prony_stats::summary::median;

use crate::cell_value::amount_of;
use crate::variants::trials_of;
use prony_results::RunData;

/// Wall and CPU time of a phase of the profiled trial, divided by the medians of the trials that succeeded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overhead {
    /// Quotient of wall times; `None` where one is missing.
    pub wall: Option<f64>,
    /// Quotient of CPU times; `None` where one is missing.
    pub cpu: Option<f64>,
    /// Trials behind the median of wall times.
    pub trials: usize,
    /// Trials behind the median of CPU times.
    pub cpu_trials: usize,
    /// How the profiled trial ended, if not well: then its times may not count.
    pub failed: Option<Outcome>,
}

impl Overhead {
    pub(super) fn of(data: &RunData, profiled: &TrialRecord, phase: &PhaseRecord) -> Self {
        let successful = || trials_of(data, profiled.trial.variant).filter(|trial| trial.ending.outcome.is_ok());
        let quotient = |metric| {
            let name = amount_of(&phase.name, metric);
            let figure = |trial: &TrialRecord| trial.figure(&name).measured().copied();
            let all: Vec<f64> = successful().filter_map(figure).collect();
            let usual = median(&all).filter(|usual| *usual > 0.0);
            (figure(profiled).zip(usual).map(|(profiled, usual)| profiled / usual), all.len())
        };
        let ((wall, trials), (cpu, cpu_trials)) = (quotient(Metric::Wall), quotient(Metric::Cpu));
        let failed = Some(profiled.ending.outcome).filter(|outcome| !outcome.is_ok());
        Self { wall, cpu, trials, cpu_trials, failed }
    }
}

impl fmt::Display for Overhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |trials: usize| match trials {
            1 => "the one trial without it".to_owned(),
            n => format!("the median of {n} trials without it"),
        };
        let (by, cpu_by) = (of(self.trials), of(self.cpu_trials));
        let wall = |times: f64| format!("under the profiler the phase took {times:.2} times the wall time");
        match (self.wall, self.cpu) {
            (Some(times), Some(cpu)) if self.trials == self.cpu_trials => {
                write!(f, "{} and {cpu:.2} times the CPU time of {by}", wall(times))
            }
            (Some(times), Some(cpu)) => {
                write!(f, "{} of {by}, and {cpu:.2} times the CPU time of {cpu_by}", wall(times))
            }
            (Some(times), None) => write!(f, "{} of {by}; its CPU time is missing", wall(times)),
            (None, Some(cpu)) => write!(
                f,
                "under the profiler the phase took {cpu:.2} times the CPU time of {cpu_by}; its wall time is missing"
            ),
            (None, None) if self.trials + self.cpu_trials == 0 => {
                write!(f, "the cost of profiling is not known: no other trial of this variant has times of the phase")
            }
            (None, None) if let Some(outcome) = self.failed => {
                write!(f, "the cost of profiling is not known: the profiled trial did not end well: {outcome}")
            }
            (None, None) => write!(f, "the cost of profiling is not known: neither wall nor CPU time was measured"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_said() {
        let counted =
            |wall, cpu, trials, cpu_trials| Overhead { wall, cpu, trials, cpu_trials, failed: None }.to_string();
        let said = |wall, cpu, trials| counted(wall, cpu, trials, trials);
        assert_eq!(
            said(Some(1.131), Some(1.2), 10),
            "under the profiler the phase took 1.13 times the wall time and 1.20 times the CPU time of the median of \
             10 trials without it"
        );
        assert!(
            said(Some(1.0), None, 1).ends_with("the wall time of the one trial without it; its CPU time is missing")
        );
        assert_eq!(
            counted(Some(1.131), Some(1.2), 10, 1),
            "under the profiler the phase took 1.13 times the wall time of the median of 10 trials without it, and \
             1.20 times the CPU time of the one trial without it"
        );
        assert!(
            counted(None, Some(1.0), 3, 2)
                .contains("the CPU time of the median of 2 trials without it; its wall time is missing")
        );
        assert!(said(None, None, 0).contains("no other trial of this variant has times of the phase"));
        assert!(said(None, None, 3).contains("neither"));
        let failed = Some(Outcome::Failed { code: Some(3) });
        let failed = Overhead { wall: None, cpu: None, trials: 3, cpu_trials: 3, failed }.to_string();
        assert!(failed.ends_with("not known: the profiled trial did not end well: failed (exit code 3)"), "{failed}");
    }
}
