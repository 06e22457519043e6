//! The trial records of a run for the JSON document. What many trials have in common is given once.
//!
//! A trial is its [`TrialRecord`] with two exceptions. Its readings are in columns over all trials of its variant, one
//! for each metric, so that a metric is named once and read as an array; a reason is a number in a table of reasons. Of
//! the effective settings and of the conditions, a trial has only the keys whose values differ from those of the
//! variant's first trial. Some keys are omitted where they are empty; a trial without a key of the first has null in it.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use prony_model::reading::{Reading, Why};
use prony_model::record::{Conditions, Effective, MetricKeyText, PhaseRecord, TrialRecord};
use prony_model::spec::Sign;
use prony_model::units::Unit;
use schemars::JsonSchema;
use serde::ser::{Error as _, SerializeSeq};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::readings::exported;
use crate::error::Error;
use prony_results::{Database, RunData, RunId};

/// Keys with their values.
type Keys = Map<String, Value>;

/// A trial without the data that its variant holds: see `effective`, `conditions` and `readings` of the variant.
type Trial = TrialRecord<Option<Keys>, Keys>;

/// Why a value is missing or does not count.
#[derive(Serialize, JsonSchema)]
pub(super) struct Reason {
    /// The reason as data.
    why: Why,
    /// In words.
    text: String,
}

/// One combination of levels, with its trials.
#[derive(Serialize, JsonSchema)]
pub(super) struct VariantOut<'a> {
    /// Its number, from 0.
    id: usize,
    /// The label of its level of each factor.
    levels: BTreeMap<&'a str, &'a str>,
    /// The number of its stratum: variants of one stratum share a baseline.
    stratum: usize,
    /// Whether it is the baseline of its stratum.
    baseline: bool,
    /// The effective settings of its first trial that has any. Each trial has only the keys whose values differ from
    /// these, an empty object where none differ, and null where the trial ended before they were known.
    effective: Option<&'a Effective>,
    /// The conditions under which its first trial ran. Each trial has only the keys whose values differ from these.
    conditions: Option<&'a Conditions>,
    /// Its trials, in the order of the plan. `series`, `histograms`, `groups` and `throughput` are filled only with
    /// `--what everything`.
    #[schemars(with = "Vec<Trial>")]
    trials: Trials<'a>,
    /// The readings of these trials, one column for each metric.
    readings: Vec<Column<'a>>,
    /// For each phase that waits for quiet: in each trial, the sign of activity that came last, or was still active at
    /// the end of the phase. The metrics `settle.time.*` say when.
    last_active: BTreeMap<&'a str, Vec<Option<Sign>>>,
}

/// A metric in all trials of a variant, in their order. A trial without this reading has null in all arrays.
#[derive(Serialize, JsonSchema)]
struct Column<'a> {
    /// The phase.
    phase: &'a str,
    /// A process, replica, service, client or other part of the phase; empty for the whole phase: the program and its replicas, the
    /// store's worker, or where servers are measured all services.
    instance: &'a str,
    /// The metric; a gauge has its statistic too: `wall`, `rss.max`.
    metric: MetricKeyText,
    /// The unit of the numbers.
    unit: Unit,
    /// The value; null where it is missing, or was measured but does not count.
    values: Vec<Option<f64>>,
    /// Why there is no value: numbers in `reasons`, from 0. Omitted where no trial lacks the value.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    missing: Vec<Option<usize>>,
    /// Values that were measured but do not count: of a phase that was not completed, or of a trial with a wrong
    /// answer. Omitted where there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    partial: Vec<Option<f64>>,
}

/// The variants with their records, and the reasons that these name. With a database, trials have their samples too, which
/// are loaded a trial at a time.
pub(super) fn records<'a>(data: &'a RunData, whole: Option<&'a Database>) -> (Vec<VariantOut<'a>>, Vec<Reason>) {
    let mut by_variant: BTreeMap<usize, Vec<&TrialRecord>> =
        data.experiment.variants().iter().map(|variant| (variant.id, Vec::new())).collect();
    data.trials.iter().for_each(|trial| by_variant.entry(trial.trial.variant).or_default().push(trial));
    let mut reasons = Reasons::default();
    let whole = whole.map(|database| (database, data.head.id));
    let variants = by_variant.into_iter().map(|(id, trials)| variant(data, id, trials, whole, &mut reasons)).collect();
    (variants, reasons.table)
}

fn variant<'a>(
    data: &'a RunData,
    id: usize,
    trials: Vec<&'a TrialRecord>,
    whole: Option<(&'a Database, RunId)>,
    reasons: &mut Reasons,
) -> VariantOut<'a> {
    let variant = data.experiment.variants().get(id);
    let levels = data.experiment.factors().iter().zip(variant.map(|v| v.levels.as_slice()).unwrap_or_default());
    let effective = trials.iter().find_map(|trial| trial.effective.as_ref());
    VariantOut {
        id,
        levels: levels.filter_map(|(f, level)| Some((f.name.as_str(), f.levels.get(*level)?.label.as_str()))).collect(),
        stratum: variant.map_or(0, |variant| variant.stratum),
        baseline: variant.is_some_and(|variant| variant.baseline),
        effective,
        conditions: trials.first().map(|trial| &trial.conditions),
        readings: columns(&trials, reasons),
        last_active: last_active(&trials),
        trials: Trials { records: trials, effective, whole },
    }
}

/// The reasons by number, and the number of each.
#[derive(Default)]
struct Reasons {
    table: Vec<Reason>,
    numbers: HashMap<Why, usize>,
}

impl Reasons {
    fn number(&mut self, why: &Why) -> usize {
        if let Some(number) = self.numbers.get(why) {
            return *number;
        }
        let number = self.table.len();
        self.table.push(Reason { why: why.clone(), text: why.to_string() });
        self.numbers.insert(why.clone(), number);
        number
    }
}

/// The columns of a phase by instance and metric.
type Instances<'a> = BTreeMap<&'a str, BTreeMap<MetricKeyText, Column<'a>>>;

/// The columns of the trials in the order of phases, instances and metrics.
fn columns<'a>(trials: &[&'a TrialRecord], reasons: &mut Reasons) -> Vec<Column<'a>> {
    let mut phases: Vec<(&str, Instances<'a>)> = Vec::new();
    for (at, trial) in trials.iter().enumerate() {
        for phase in &trial.phases {
            let place = phases.iter().position(|(name, _)| *name == phase.name).unwrap_or_else(|| {
                phases.push((&phase.name, BTreeMap::new()));
                phases.len() - 1
            });
            for (instance, readings) in &phase.readings {
                let columns = phases[place].1.entry(instance).or_default();
                for (key, reading) in readings {
                    let column = columns.entry(*key).or_insert_with(|| Column::new(&phase.name, instance, *key));
                    column.add(at, trial, phase, reading, reasons);
                }
            }
        }
    }
    let columns = phases.into_iter().flat_map(|(_, instances)| instances.into_values().flat_map(BTreeMap::into_values));
    columns.map(|column| column.of(trials.len())).collect()
}

impl<'a> Column<'a> {
    fn new(phase: &'a str, instance: &'a str, metric: MetricKeyText) -> Self {
        let unit = metric.0.metric.unit();
        Self { phase, instance, metric, unit, values: Vec::new(), missing: Vec::new(), partial: Vec::new() }
    }

    fn add(
        &mut self,
        at: usize,
        trial: &TrialRecord,
        phase: &PhaseRecord,
        reading: &Reading<f64>,
        reasons: &mut Reasons,
    ) {
        let exported = exported(trial, phase, self.metric.0, reading);
        set(&mut self.values, at, exported.value);
        set(&mut self.missing, at, exported.missing.map(|why| reasons.number(&why)));
        set(&mut self.partial, at, exported.partial);
    }

    /// All arrays that hold anything as long as there are trials.
    fn of(mut self, trials: usize) -> Self {
        self.values.resize(trials, None);
        if !self.missing.is_empty() {
            self.missing.resize(trials, None);
        }
        if !self.partial.is_empty() {
            self.partial.resize(trials, None);
        }
        self
    }
}

/// Sets one place of a column that is empty as long as it holds nothing.
fn set<T: Clone>(column: &mut Vec<Option<T>>, at: usize, value: Option<T>) {
    if value.is_some() {
        column.resize(at, None);
        column.push(value);
    }
}

fn last_active<'a>(trials: &[&'a TrialRecord]) -> BTreeMap<&'a str, Vec<Option<Sign>>> {
    let mut phases: BTreeMap<&str, Vec<Option<Sign>>> = BTreeMap::new();
    for (at, trial) in trials.iter().enumerate() {
        for (phase, sign) in trial.phases.iter().filter_map(|phase| Some((phase, phase.last_sign()?))) {
            set(phases.entry(&phase.name).or_default(), at, Some(sign));
        }
    }
    phases.values_mut().for_each(|signs| signs.resize(trials.len(), None));
    phases
}

/// The trials of a variant, made one at a time as they are written.
struct Trials<'a> {
    records: Vec<&'a TrialRecord>,
    effective: Option<&'a Effective>,
    whole: Option<(&'a Database, RunId)>,
}

impl Serialize for Trials<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let effective = self.effective.map(keys).transpose().map_err(S::Error::custom)?;
        let conditions =
            self.records.first().map(|trial| keys(&trial.conditions)).transpose().map_err(S::Error::custom)?;
        let first = (effective.unwrap_or_default(), conditions.unwrap_or_default());
        let mut all = serializer.serialize_seq(Some(self.records.len()))?;
        for record in &self.records {
            all.serialize_element(&self.trial(record, &first).map_err(S::Error::custom)?)?;
        }
        all.end()
    }
}

impl Trials<'_> {
    fn trial(&self, record: &TrialRecord, first: &(Keys, Keys)) -> Result<Trial, Error> {
        let record = self.with_samples(record)?;
        let unwritten = |source| Error::Json { what: "the results", source };
        let effective = match &record.effective {
            Some(effective) if Some(effective) == self.effective => Some(Keys::new()),
            Some(effective) => Some(differences(effective, &first.0).map_err(unwritten)?),
            None => None,
        };
        Ok(Trial {
            trial: record.trial,
            started_unix_ms: record.started_unix_ms,
            took: record.took,
            ending: record.ending.clone(),
            phases: record.phases.iter().map(without_readings).collect(),
            effective,
            conditions: differences(&record.conditions, &first.1).map_err(unwritten)?,
            series: record.series.clone(),
            sampler_cpu: record.sampler_cpu.clone(),
            findings: record.findings.clone(),
        })
    }

    fn with_samples<'r>(&self, record: &'r TrialRecord) -> Result<Cow<'r, TrialRecord>, Error> {
        let Some((database, run)) = self.whole else { return Ok(Cow::Borrowed(record)) };
        let mut whole = record.clone();
        database.complete(run, &mut whole)?;
        Ok(Cow::Owned(whole))
    }
}

fn without_readings(phase: &PhaseRecord) -> PhaseRecord {
    PhaseRecord {
        name: phase.name.clone(),
        action: phase.action.clone(),
        timed: phase.timed,
        completion: phase.completion,
        begin: phase.begin,
        end: phase.end,
        readings: BTreeMap::new(),
        histograms: phase.histograms.clone(),
        groups: phase.groups.clone(),
        throughput: phase.throughput.clone(),
        answer: phase.answer.clone(),
        errors: phase.errors.clone(),
    }
}

fn keys(of: &impl Serialize) -> Result<Keys, serde_json::Error> {
    Ok(match serde_json::to_value(of)? {
        Value::Object(keys) => keys,
        _ => Keys::new(),
    })
}

/// The keys whose values are others; null for a key of the first that is lacking, which would else be taken from the first.
fn differences(of: &impl Serialize, first: &Keys) -> Result<Keys, serde_json::Error> {
    let mut keys = keys(of)?;
    let lacking = first.keys().filter(|key| !keys.contains_key(*key));
    let lacking: Vec<String> = lacking.cloned().collect();
    keys.retain(|key, value| first.get(key) != Some(value));
    keys.extend(lacking.into_iter().map(|key| (key, Value::Null)));
    Ok(keys)
}
