//! Latency percentile curves from HdrHistograms, intended and actual.

use prony_model::latency::{Recorder, percentile};
use prony_model::metric::Metric;
use prony_model::record::LatencyKind;
use serde::Serialize;

use super::{Source, counts};
use crate::error::Error;

/// Points a decade of `1 / (1 - q)`.
const PER_DECADE: u32 = 12;
/// Decades: up to 99.9999 %.
const DECADES: u32 = 6;

/// One curve: all trials of a variant pooled, which shows a shape and proves nothing.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Curve {
    /// Index of the variant.
    pub variant: usize,
    /// The phase.
    pub phase: String,
    /// The operation.
    pub operation: String,
    /// `service`, `intended` or `actual`.
    pub kind: LatencyKind,
    /// Operations that succeeded.
    pub succeeded: u64,
    /// Operations that failed and count as infinitely slow.
    pub failed: u64,
    /// Nanoseconds at [`shares`], as far as there are ten operations beyond and no failure is reached.
    pub nanos: Vec<u64>,
}

/// The shares at which curves are given, rising from 0: `1 - 10^(-k/12)`.
pub fn shares() -> Vec<f64> {
    (0..=PER_DECADE * DECADES).map(|k| 1.0 - 10f64.powf(-f64::from(k) / f64::from(PER_DECADE))).collect()
}

/// The curves of a run, by variant, phase and operation.
///
/// # Errors
/// Those of the database, and [`Error::Latency`] where a histogram is damaged.
pub fn curves(source: Source<'_>) -> Result<Vec<Curve>, Error> {
    let mut curves = Vec::new();
    for variant in source.variants() {
        let mut pooled: Vec<(usize, String, LatencyKind, Recorder)> = Vec::new();
        for at in source.trials_of(variant) {
            let trial = &source.data.trials[at];
            for (phase, histogram) in source.database.load_histograms(source.data.head.id, trial.trial.position)? {
                if !counts(trial, phase, Metric::LatencyP50) {
                    continue;
                }
                let recorder = Recorder::from_record(&histogram)?;
                let same = |p: &&mut (usize, String, LatencyKind, Recorder)| {
                    p.0 == phase && p.1 == histogram.operation && p.2 == histogram.kind
                };
                match pooled.iter_mut().find(same) {
                    Some(pool) => pool.3.merge(&recorder),
                    None => pooled.push((phase, histogram.operation, histogram.kind, recorder)),
                }
            }
        }
        let phases = source.trials_of(variant).next().map(|at| &source.data.trials[at].phases);
        for (phase, operation, kind, recorder) in pooled {
            let Some(name) = phases.and_then(|p| p.get(phase)).map(|p| p.name.clone()) else { continue };
            curves.push(curve(variant, name, operation, kind, &recorder));
        }
    }
    Ok(curves)
}

fn curve(variant: usize, phase: String, operation: String, kind: LatencyKind, recorder: &Recorder) -> Curve {
    let readings = shares().into_iter().map(|q| percentile(recorder, q).measured().map(|n| *n as u64));
    Curve {
        variant,
        phase,
        operation,
        kind,
        succeeded: recorder.succeeded(),
        failed: recorder.failed(),
        nanos: readings.map_while(|n| n).collect(),
    }
}
