//! The JSON format of hyperfine: written by `prony exec --export-hyperfine-json`, read by `prony import`. Times are in
//! seconds.

use std::collections::BTreeMap;

use prony_model::metric::{Metric, MetricKey, MetricName, Stat};
use prony_model::record::{Status, TrialRecord};
use prony_results::RunData;
use prony_stats::summary::summary;
use serde::{Deserialize, Serialize};

use super::experiment_file::{label, levels};

/// A file of hyperfine.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Document {
    /// One for each command.
    pub results: Vec<Benchmark>,
    /// Commands with failed runs, which prony adds: such runs have no times.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<Failed>,
}

/// How many runs of a command failed.
#[derive(Debug, Serialize, Deserialize)]
pub struct Failed {
    /// The command, or its name.
    pub command: String,
    /// Its failed runs.
    pub failed: usize,
    /// All its runs.
    pub runs: usize,
}

/// The runs of a command.
#[derive(Debug, Serialize, Deserialize)]
pub struct Benchmark {
    /// The command, or its name.
    pub command: String,
    /// The average time.
    pub mean: f64,
    /// The sample standard deviation; `None` of one run.
    pub stddev: Option<f64>,
    /// The middle time.
    pub median: f64,
    /// Average time in user mode; `None` where it is not known.
    pub user: Option<f64>,
    /// Average time in the kernel; `None` where it is not known.
    pub system: Option<f64>,
    /// The least time.
    pub min: f64,
    /// The greatest time.
    pub max: f64,
    /// The times of all runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<Vec<f64>>,
    /// The most memory of each run, in bytes, where it is known of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_usage_byte: Option<Vec<u64>>,
    /// How each run ended; `None` by a signal.
    #[serde(default)]
    pub exit_codes: Vec<Option<i32>>,
    /// Values of parameters by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, String>,
}

/// A run as hyperfine would have it. Trials that failed have no times, and a command of which all failed has no benchmark.
pub fn document(data: &RunData) -> Document {
    let experiment = &data.experiment;
    let mut document = Document::default();
    for variant in experiment.variants() {
        let trials = data.trials.iter().filter(|trial| trial.trial.variant == variant.id);
        let (well, failed): (Vec<&TrialRecord>, Vec<_>) = trials.partition(|trial| trial.ending.outcome.is_ok());
        let (_, parameters) = levels(experiment, variant);
        let parameters = parameters.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        document.results.extend(benchmark(label(experiment, variant), &well, parameters.collect()));
        if !failed.is_empty() {
            let (command, failed) = (label(experiment, variant), failed.len());
            document.failed.push(Failed { command, failed, runs: well.len() + failed });
        }
    }
    document
}

fn benchmark(command: String, trials: &[&TrialRecord], parameters: BTreeMap<String, String>) -> Option<Benchmark> {
    let read = |trial: &TrialRecord, key: MetricKey| {
        let phase = trial.phases.first()?.name.clone();
        trial.figure(&MetricName { phase, instance: None, key }).measured().copied()
    };
    let known = |key: MetricKey| trials.iter().filter_map(|trial| read(trial, key)).collect::<Vec<f64>>();
    let timed: Vec<(f64, Option<i32>)> = trials
        .iter()
        .filter_map(|trial| Some((read(trial, MetricKey::amount(Metric::Wall))? / 1e9, exit_code(trial))))
        .collect();
    let times: Vec<f64> = timed.iter().map(|(time, _)| *time).collect();
    let found = summary(&times)?;
    let mean = |metric| Some(summary(&known(MetricKey::amount(metric)))?.mean / 1e9);
    let memory = Some(known(MetricKey::gauge(Metric::Rss, Stat::Peak))).filter(|memory| memory.len() == times.len());
    Some(Benchmark {
        command,
        mean: found.mean,
        stddev: (found.n > 1).then_some(found.sd),
        median: found.median,
        user: mean(Metric::CpuUser),
        system: mean(Metric::CpuSystem),
        min: found.min,
        max: found.max,
        times: Some(times),
        memory_usage_byte: memory.map(|bytes| bytes.into_iter().map(|bytes| bytes as u64).collect()),
        exit_codes: timed.into_iter().map(|(_, code)| code).collect(),
        parameters,
    })
}

fn exit_code(trial: &TrialRecord) -> Option<i32> {
    match trial.program()?.status.as_ref()? {
        Status::Exited(code) => Some(*code),
        Status::Signalled(_) => None,
    }
}
