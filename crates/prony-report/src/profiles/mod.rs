//! Loads the profiles of a run, phase by phase, with the cost of profiling.

mod overhead;

use prony_analysis::profile::{Damaged, Profile, Selection, Span};
use prony_experiment::design::{Experiment, Variant};
use prony_model::metric::{Metric, MetricKey};
use prony_model::number::{count, percent_with};
use prony_model::profile::{ProfileRecord, Profiler};
use prony_model::reading::{Reading, Why};
use prony_model::record::{PhaseRecord, TrialRecord};
use prony_model::units::Nanos;

use crate::error::Error;
use prony_analysis::verdicts::names;
use prony_results::{Database, RunData};

pub use overhead::Overhead;

/// The profile of a variant.
#[derive(Clone, Debug)]
pub struct VariantProfile {
    /// The variant as reports call it.
    pub name: String,
    /// What was requested and how the profiled trial ended.
    pub record: ProfileRecord,
    /// The samples, or why they are missing.
    pub profile: Reading<Profile>,
    /// The phases of the profiled trial that began and ended.
    pub phases: Vec<PhaseProfile>,
}

/// A phase of a profiled trial.
#[derive(Clone, Debug)]
pub struct PhaseProfile {
    /// Its name.
    pub name: String,
    /// When it was.
    pub span: Span,
    /// What profiling cost.
    pub overhead: Overhead,
    /// Why it is not known what ran in the phase, although the phase began and ended.
    pub unknown: Option<Why>,
    /// CPU time of the phase in the profiled trial, where it was measured: the samples of `perf` should add up to it.
    pub cpu: Option<Nanos>,
}

impl VariantProfile {
    /// The samples of a phase; none where there is no profile.
    pub fn samples_of(&self, phase: &PhaseProfile) -> Option<Selection<'_>> {
        let empty = phase.span.start..phase.span.start;
        let span = if phase.unknown.is_some() { &empty } else { &phase.span };
        Some(self.profile.measured()?.during(Some(span)))
    }

    /// The number of samples and the time on which the shares of a phase rest, in words.
    pub fn amount(&self, phase: &PhaseProfile, selection: &Selection<'_>) -> String {
        if let Some(why) = &phase.unknown {
            return format!("no samples: {why}");
        }
        if selection.samples == 0 {
            return "no samples: the phase was too short, or nothing ran in it".to_owned();
        }
        let threads = count(selection.threads().len(), "thread");
        let mut text = format!("{} of {threads}: {}", count(selection.samples, "sample"), selection.busy);
        // V8's time is that of the clock on the wall.
        if let (Profiler::Perf, Some(cpu)) = (self.record.profiler, phase.cpu.filter(|cpu| *cpu > Nanos::ZERO)) {
            let share = selection.busy.as_secs_f64() / cpu.as_secs_f64();
            text += &format!(", which is {} of the phase's CPU time", percent_with(share, 0));
        }
        if selection.idle > Nanos::ZERO {
            text += &format!("; {} in which threads waited is not counted", selection.idle);
        }
        text
    }

    /// How the profiled trial ended, if not well, and the notes of the profiler.
    pub(crate) fn notes(&self) -> Vec<String> {
        let failed = self.record.trial.as_ref().filter(|trial| !trial.ending.outcome.is_ok());
        let failed = failed.map(|trial| format!("the profiled trial did not end well: {}", trial.ending.outcome));
        failed.into_iter().chain(self.record.notes.iter().cloned()).collect()
    }

    /// The requested time for which one sample stands, in words.
    pub fn interval(&self) -> String {
        self.record.interval.measured().map_or_else(String::new, |interval| format!(" every {interval}"))
    }
}

/// The name of a group of threads that are too small to be shown one by one.
pub(crate) fn rest(threads: usize) -> String {
    format!("{threads} small threads")
}

/// The profiles of the variants that `wanted` accepts, in the experiment's order.
///
/// # Errors
/// Those of the database.
pub fn load(
    database: &Database,
    data: &RunData,
    wanted: impl Fn(&Variant) -> bool,
) -> Result<Vec<VariantProfile>, Error> {
    let variants = data.experiment.variants();
    let records = database.profiles(data.head.id)?.into_iter();
    let records = records.filter(|record| variants.get(record.variant).is_some_and(&wanted));
    records.map(|record| of_record(database, data, record)).collect()
}

fn of_record(database: &Database, data: &RunData, record: ProfileRecord) -> Result<VariantProfile, Error> {
    let profile = match &record.interval {
        Reading::Missing(why) => Reading::Missing(why.clone()),
        Reading::Measured(_) => match Profile::from_files(&database.profile_files(data.head.id, record.variant)?) {
            Ok(profile) => Reading::Measured(profile),
            Err(Damaged(what)) => Reading::Missing(Why::Failed(what.into())),
        },
    };
    let phases = record.trial.as_ref().map(|trial| phases(data, trial)).unwrap_or_default();
    Ok(VariantProfile { name: name(&data.experiment, record.variant), record, profile, phases })
}

fn phases(data: &RunData, profiled: &TrialRecord) -> Vec<PhaseProfile> {
    let phase = |phase: &PhaseRecord| {
        let span = phase.begin?..phase.end?;
        let cpu = phase.reading(MetricKey::amount(Metric::Cpu)).and_then(Reading::measured);
        let cpu = cpu.map(|nanos| Nanos::from_nanos(*nanos as u64));
        let (name, overhead, unknown) =
            (phase.name.clone(), Overhead::of(data, profiled, phase), unknown(phase, &span));
        Some(PhaseProfile { name, span, overhead, unknown, cpu })
    };
    profiled.phases.iter().filter_map(phase).collect()
}

/// A phase that is shorter than its begin and end may have been read late has no time, and its samples may be others'.
fn unknown(phase: &PhaseRecord, span: &Span) -> Option<Why> {
    let Reading::Missing(why) = phase.reading(MetricKey::amount(Metric::Wall))? else { return None };
    let lag = *phase.reading(MetricKey::amount(Metric::Lag))?.measured()?;
    (span.end.since(span.start).as_nanos() as f64 <= lag).then(|| why.clone())
}

fn name(experiment: &Experiment, variant: usize) -> String {
    match names::varying(experiment).as_slice() {
        [] => "the only variant".to_owned(),
        several => names::levels(experiment, variant, several),
    }
}

/// Whether a variant is the one that a text names: some of its levels, as `store=lmdb, documents=1000`, or the one level
/// by which reports call it.
pub fn is_named(experiment: &Experiment, variant: &Variant, text: &str) -> bool {
    let levels = || {
        experiment.factors().iter().zip(&variant.levels).map(|(factor, at)| (&factor.name, &factor.levels[*at].label))
    };
    let has = |part: &str| {
        levels().any(|(factor, label)| {
            (factor == names::COMMAND && part == label) || part.split_once('=') == Some((factor, label))
        })
    };
    names::variant(experiment, variant.id) == text || text.split(',').map(str::trim).all(has)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use prony_model::record::{Completion, MetricKeyText};

    use super::*;

    #[test]
    fn samples_of_a_phase_that_is_shorter_than_its_lag_are_not_its_own() {
        let key = |metric| MetricKeyText(MetricKey::amount(metric));
        let unknown = |wall: Reading<f64>, lag: f64| {
            let readings = BTreeMap::from([(key(Metric::Wall), wall), (key(Metric::Lag), Reading::Measured(lag))]);
            let phase = PhaseRecord {
                name: "p".into(),
                action: "observe".into(),
                timed: true,
                completion: Completion::Complete,
                begin: None,
                end: None,
                readings: BTreeMap::from([(String::new(), readings)]),
                histograms: vec![],
                groups: None,
                throughput: None,
                answer: None,
                errors: BTreeMap::new(),
            };
            super::unknown(&phase, &(Nanos::from_millis(100)..Nanos::from_millis(120)))
        };
        let missing = || Reading::Missing(Why::Failed("read late".into()));
        assert_eq!(unknown(missing(), 30e6), Some(Why::Failed("read late".into())));
        assert_eq!(unknown(missing(), 1e6), None, "missing for another reason");
        assert_eq!(unknown(Reading::Measured(20e6), 30e6), None, "its counters are late, and its times exact");
    }
}
