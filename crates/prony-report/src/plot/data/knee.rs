//! The knee of goodput against connections or a rate, and where goodput falls while the work behind it rises.

use std::collections::BTreeSet;

use prony_analysis::guard::Finding;
use prony_analysis::guard::disturbances::is_generator;
use prony_analysis::guard::requests::CONNECTIONS_IN_USE;
use prony_experiment::design::Experiment;
use prony_model::http::HttpSpec;
use prony_model::metric::{Metric, MetricKey, MetricName};
use prony_model::number::{count, percent_up_to, quantity};
use prony_model::record::{Completion, PhaseRecord, TrialRecord};
use prony_model::units::Unit;
use prony_results::RunData;
use prony_stats::knee::{Knee, LEAST_BLOCKS, LEAST_LEVELS, NoKnee, Overload, Point, knee, overload};

use super::numeric::{factors, number, series};
use crate::variants::records_of;
use crate::words::once;

/// Seeds the resamples: the same run has the same interval each time.
const SEED: u64 = 13;

/// What is known of one phase's requests against one factor.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// Goodput: requests a second that were answered as expected.
    pub metric: MetricName,
    /// The factor.
    pub factor: String,
    /// Levels of the other factors that vary; empty where none does.
    pub name: String,
    /// Its variants, by index.
    pub variants: Vec<usize>,
    /// The knee, or why there is none.
    pub knee: Result<Knee, NoKnee>,
    /// The connections of an open loop, if in some trial all were in use, so that they may be the limit.
    pub connections: Option<u32>,
    /// Levels at which no trial has a value, where some levels have.
    pub without: Vec<f64>,
    /// The levels at which the load generator may have been the limit of some trial, or did not run for a while in it.
    pub of_generator: usize,
    /// What rises where goodput falls, with the service's metric.
    pub overload: Option<(MetricName, Overload)>,
}

/// For each phase of requests, each numeric factor that sets its connections or its rate, and each combination of the other
/// factors.
pub fn of(data: &RunData) -> Vec<Load> {
    let experiment = &data.experiment;
    if experiment.explores() {
        return Vec::new();
    }
    let phases = experiment.variants().iter().flat_map(|variant| &variant.spec.phases);
    let phases = phases.filter(|phase| phase.action.http().is_some() && phase.timed);
    let mut all = Vec::new();
    for phase in once(phases.map(|phase| phase.name.as_str())) {
        for factor in factors(experiment) {
            let found = series(experiment, factor).into_iter().filter(|(_, of)| is_load(experiment, phase, factor, of));
            all.extend(found.map(|(name, variants)| one(data, phase, factor, name, variants)));
        }
    }
    all
}

/// Whether more of the factor is more load: connections or a rate that rise with its levels.
fn is_load(experiment: &Experiment, phase: &str, factor: usize, variants: &[usize]) -> bool {
    let loads = variants.iter().filter_map(|variant| {
        let http = http(experiment, phase, *variant)?;
        let rate = http.rate.as_ref().and_then(|rate| Some(rate.mean()?.get()));
        Some((number(experiment, factor, *variant)?, rate.unwrap_or_else(|| f64::from(http.connections))))
    });
    let mut loads: Vec<(f64, f64)> = loads.collect();
    loads.sort_by(|a, b| a.0.total_cmp(&b.0));
    loads.len() > 1 && loads.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1)
}

/// The requests of a phase of a variant.
fn http<'e>(experiment: &'e Experiment, phase: &str, variant: usize) -> Option<&'e HttpSpec> {
    let phases = &experiment.variants()[variant].spec.phases;
    phases.iter().find(|spec| spec.name == phase)?.action.http()
}

fn one(data: &RunData, phase: &str, factor: usize, name: String, variants: Vec<usize>) -> Load {
    let named = |instance: Option<&str>, metric| MetricName {
        phase: phase.to_owned(),
        instance: instance.map(str::to_owned),
        key: MetricKey::amount(metric),
    };
    let points = |instance: &str, metric| -> Vec<Point> {
        let of = |trial: &TrialRecord| {
            let x = number(&data.experiment, factor, trial.trial.variant)?;
            let record = trial.phases.iter().find(|record| record.name == phase).filter(|record| is_over(record))?;
            Some(Point { x, y: record.amount_of(instance, metric)?, block: trial.trial.block })
        };
        data.trials.iter().filter(|trial| variants.contains(&trial.trial.variant)).filter_map(of).collect()
    };
    let goodput = points("", Metric::Rate);
    let work = |instance: &&String| {
        let found = overload(&goodput, &points(instance, Metric::OperationsPerOk))?;
        Some((named(Some(instance.as_str()), Metric::OperationsPerOk), found))
    };
    let overload = instances(data, phase).iter().find_map(work);
    let connections = connections_in_use(data, phase, &variants);
    let of_generator = limited(data, phase, &variants, is_generator).map(|trial| trial.trial.variant);
    let of_generator = of_generator.collect::<BTreeSet<usize>>().len();
    let planned = variants.iter().filter_map(|variant| number(&data.experiment, factor, *variant));
    let mut without: Vec<f64> = planned.filter(|x| goodput.iter().all(|point| point.x != *x)).collect();
    without.sort_by(f64::total_cmp);
    without.retain(|_| !goodput.is_empty());
    let factor = data.experiment.factors()[factor].name.clone();
    Load {
        metric: named(None, Metric::Rate),
        factor,
        name,
        variants,
        knee: knee(&goodput, SEED),
        connections,
        without,
        of_generator,
        overload,
    }
}

/// The trials of these variants with such a finding of the phase.
fn limited<'d>(
    data: &'d RunData,
    phase: &'d str,
    variants: &'d [usize],
    is_limit: fn(&Finding, &str) -> bool,
) -> impl Iterator<Item = &'d TrialRecord> {
    let trials = data.trials.iter().filter(|trial| variants.contains(&trial.trial.variant));
    trials.filter(move |trial| trial.findings.iter().any(|finding| is_limit(finding, phase)))
}

/// The connections of these variants, at most, if requests of some trial waited because all were in use.
fn connections_in_use(data: &RunData, phase: &str, variants: &[usize]) -> Option<u32> {
    let is_limit =
        |finding: &Finding, phase: &str| finding.guard == CONNECTIONS_IN_USE && finding.phase.as_deref() == Some(phase);
    limited(data, phase, variants, is_limit)
        .filter_map(|trial| Some(http(&data.experiment, phase, trial.trial.variant)?.connections))
        .max()
}

/// Whether the phase came to its end: requests that failed are no goodput, and what is left of it is comparable however many
/// failed (METHOD 8.2).
const fn is_over(record: &PhaseRecord) -> bool {
    matches!(record.completion, Completion::Complete | Completion::Failed | Completion::Uncounted)
}

/// The services that count operations for each success.
fn instances<'d>(data: &'d RunData, phase: &str) -> BTreeSet<&'d String> {
    let counts = |record: &PhaseRecord, of: &str| record.amount_of(of, Metric::OperationsPerOk).is_some();
    let of_record = |record: &'d PhaseRecord| record.readings.keys().filter(move |of| counts(record, of));
    records_of(&data.trials, phase).flat_map(of_record).collect()
}

impl Load {
    /// What is known, in sentences without a full stop; names are in backticks.
    pub fn sentences(&self) -> Vec<String> {
        let Self { metric, factor, name, .. } = self;
        let of = if name.is_empty() { String::new() } else { format!(" of `{name}`") };
        let over =
            self.connections.map(|all| format!(" over at most {}", count(all, "connection"))).unwrap_or_default();
        let whose = match self.of_generator {
            0 => String::new(),
            levels => {
                let all = self.variants.len();
                format!(
                    "; at {levels} of its {} the load generator, not the server, may have been the limit",
                    count(all, "level")
                )
            }
        };
        let texts = self.without.iter().map(f64::to_string).collect::<Vec<_>>().join(", ");
        let without =
            if texts.is_empty() { texts } else { format!("; left out, since no trial has a value there: {texts}") };
        let knee = match &self.knee {
            // Few levels were not to be a curve.
            Err(NoKnee::FewLevels { .. }) if without.is_empty() || self.variants.len() < LEAST_LEVELS => None,
            Ok(Knee { x, y, low, high, last }) => Some(format!(
                "`{metric}`{of}{over} has a knee at {} `{factor}` (between {} and {}): {} there, {} at the last level{whose}{without}",
                x,
                low,
                high,
                quantity(*y, Unit::PerSecond),
                quantity(*last, Unit::PerSecond)
            )),
            Err(why) => {
                Some(format!("`{metric}`{of}{over} has no knee in `{factor}`: {}{whose}{without}", reason(*why)))
            }
        };
        let overload = self.overload.as_ref().map(|(work, overload)| {
            let Overload { best, at, goodput, work: more } = overload;
            format!(
                "Beyond {} `{factor}` goodput{of} falls while work for each success rises: at {} `{metric}` is {goodput:.2} times, and \
                 `{work}` {more:.2} times, what it is at {}",
                best,
                at,
                best
            )
        });
        knee.into_iter().chain(overload).collect()
    }
}

/// Why there is no knee, in words.
pub fn reason(why: NoKnee) -> String {
    match why {
        NoKnee::FewLevels { levels } => format!("{levels} levels have values, and it takes {LEAST_LEVELS}"),
        NoKnee::FewBlocks { blocks } => {
            format!("{blocks} blocks have a value at each level, and it takes {LEAST_BLOCKS}")
        }
        NoKnee::Flat => "it does not rise from the first level on; try lower levels".to_owned(),
        NoKnee::Straight => "it does not bend, or only at the last levels; try higher levels".to_owned(),
        NoKnee::Doubtful { share } => {
            format!(
                "it is in doubt, since only {} of the resampled blocks have one; run more blocks",
                percent_up_to(share, 0)
            )
        }
        NoKnee::Wide { low, high } => {
            format!("its interval, {low} to {high}, is too wide; run more blocks, or more levels in between")
        }
    }
}
