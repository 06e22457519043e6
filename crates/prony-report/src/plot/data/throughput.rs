//! Operations per second over the time of a phase.

use serde::Serialize;

use super::Source;
use super::thin::means;
use crate::error::Error;

/// Fewer steps than this show no course of time.
const FEWEST: usize = 4;

/// One trial's throughput in one phase.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Throughput {
    /// Index of the trial in the run.
    pub trial: usize,
    /// Index of the variant.
    pub variant: usize,
    /// The phase.
    pub phase: String,
    /// Seconds a step.
    pub step: f64,
    /// Operations per second in each step.
    pub rates: Vec<f64>,
}

/// The throughput of some trials, each phase in at most `steps` steps.
///
/// # Errors
/// Those of the database.
pub fn throughput(source: Source<'_>, trials: &[usize], steps: usize) -> Result<Vec<Throughput>, Error> {
    let mut all = Vec::new();
    for at in trials {
        let trial = &source.data.trials[*at];
        for (phase, series) in source.database.load_throughput(source.data.head.id, trial.trial.position)? {
            let interval = series.interval.as_secs_f64();
            let (means, each) = means(whole(&series.operations), steps);
            if interval <= 0.0 || means.len() < FEWEST {
                continue;
            }
            let step = interval * each as f64;
            let rates = means.iter().map(|mean| mean / interval).collect();
            all.push(Throughput {
                trial: *at,
                variant: trial.trial.variant,
                phase: trial.phases[phase].name.clone(),
                step,
                rates,
            });
        }
    }
    Ok(all)
}

/// Without the last interval, which the phase's end cut short.
fn whole(operations: &[u64]) -> &[u64] {
    operations.split_last().map_or(&[], |(_, whole)| whole)
}
