//! Which figures are shown where the experiment asks for none.

use prony_experiment::design::{CellPart, Experiment, Expr};
use prony_model::metric::{Metric, MetricKey, MetricName, Stat};
use prony_model::processes;
use prony_model::reading::{Reading, Why};
use prony_model::record::{MetricKeyText, TrialRecord};

use super::model::Topic;
use super::words::once;
use prony_analysis::verdicts;

/// A column before its cells are known.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ColumnPlan {
    /// The phase, or nothing.
    pub(super) group: String,
    /// The heading.
    pub(super) heading: String,
    /// What it is about.
    pub(super) topic: Topic,
    /// The text of its cells.
    pub(super) parts: Vec<CellPart>,
}

/// What a stranger needs of each timed phase, in order.
const TIME: &[MetricKey] = &[
    MetricKey::amount(Metric::Time),
    MetricKey::amount(Metric::Rate),
    MetricKey::amount(Metric::Errors),
    MetricKey::amount(Metric::LatencyP50),
    MetricKey::amount(Metric::LatencyP99),
    MetricKey::amount(Metric::Cpu),
    MetricKey::amount(Metric::SettleDirty),
];
const MEMORY: &[MetricKey] = &[
    MetricKey::gauge(Metric::Anon, Stat::Max),
    MetricKey::gauge(Metric::File, Stat::End),
    MetricKey::gauge(Metric::HeapUsed, Stat::End),
];
const STORAGE: &[MetricKey] =
    &[MetricKey::amount(Metric::Written), MetricKey::amount(Metric::Fsyncs), MetricKey::amount(Metric::Disk)];

/// The figures that are judged, then the memory of their phases.
pub(super) fn judged(experiment: &Experiment, trials: &[TrialRecord]) -> Vec<ColumnPlan> {
    let figures = Figures { trials };
    let judged = verdicts::declared(experiment);
    let anon = MetricKey::gauge(Metric::Anon, Stat::Max);
    let phases = once(judged.iter().map(|name| name.phase.as_str()));
    let measured = |phase: &&str| figures.readings(phase, anon).any(|reading| reading.measured().is_some());
    let is_judged = |phase: &&str| judged.iter().any(|name| name.phase == *phase && name.key == anon);
    let memory = phases.into_iter().filter(|phase| measured(phase) && !is_judged(phase));
    let memory: Vec<ColumnPlan> = memory.map(|phase| plan(phase, anon, Topic::Memory)).collect();
    judged.iter().cloned().map(of_metric).chain(memory).collect()
}

/// The columns of the derived layout of some phases, and what is not shown and why.
pub(super) fn derived(
    experiment: &Experiment,
    trials: &[TrialRecord],
    shown: &[String],
) -> (Vec<ColumnPlan>, Vec<String>) {
    let (columns, absent) = planned(experiment, trials, shown);
    (columns, absent.iter().map(absent_text).collect())
}

/// The same, with the metrics that no trial has in a phase.
fn planned(experiment: &Experiment, trials: &[TrialRecord], shown: &[String]) -> (Vec<ColumnPlan>, Vec<Absent>) {
    let figures = Figures { trials };
    let phases = timed_phases(experiment, trials);
    let mut columns = Vec::new();
    let mut absent = Vec::new();
    for (topic, keys) in [(Topic::Time, TIME), (Topic::Memory, MEMORY), (Topic::Storage, STORAGE)] {
        for phase in shown {
            for key in keys.iter().filter(|key| figures.tells(phase, **key, &phases)) {
                match figures.reason(phase, *key) {
                    None => columns.push(plan(phase, *key, topic)),
                    Some(why) => note_absent(&mut absent, *key, &why),
                }
            }
        }
    }
    (columns, absent)
}

/// The columns where rows are phases: the same figures, naming no phase. The cells of a phase that lacks what another has say
/// why themselves.
pub(super) fn per_phase(experiment: &Experiment, trials: &[TrialRecord]) -> (Vec<ColumnPlan>, Vec<String>) {
    let (columns, mut absent) = planned(experiment, trials, &timed_phases(experiment, trials));
    let mut plans: Vec<ColumnPlan> = Vec::new();
    for column in columns {
        let Ok(key) = column.heading.parse() else { continue };
        let plan = plan("", key, column.topic);
        if !plans.contains(&plan) {
            plans.push(plan);
        }
    }
    // A phase brings figures that the ones before it lack: back into the usual order.
    let order: Vec<String> = [TIME, MEMORY, STORAGE].concat().iter().map(MetricKey::to_string).collect();
    plans.sort_by_key(|plan| order.iter().position(|key| *key == plan.heading));
    absent.iter_mut().for_each(|(_, keys)| keys.retain(|key| plans.iter().all(|plan| plan.heading != key.to_string())));
    absent.retain(|(_, keys)| !keys.is_empty());
    (plans, absent.iter().map(absent_text).collect())
}

/// Every figure that any trial has, a phase after the other.
pub(super) fn all(experiment: &Experiment, trials: &[TrialRecord]) -> Vec<ColumnPlan> {
    let mut columns = Vec::new();
    for phase in phases(experiment, trials) {
        let records = || trials.iter().flat_map(|t| &t.phases).filter(|p| p.name == phase);
        let mut keys: Vec<(String, MetricKey)> = records()
            .flat_map(|p| &p.readings)
            // Of each process there are tables of their own.
            .filter(|(instance, _)| processes::name(instance).is_none())
            .flat_map(|(i, r)| r.iter().map(|(k, v)| (i.clone(), k.0, v.measured().is_some())))
            .filter_map(|(i, k, measured)| measured.then_some((i, k)))
            .collect();
        keys.sort();
        keys.dedup();
        for (instance, key) in keys {
            let instance = (!instance.is_empty()).then_some(instance);
            columns.push(of_metric(MetricName { phase: phase.clone(), instance, key }));
        }
    }
    columns
}

/// A column that was asked for by its metric's name.
pub(super) fn of_metric(name: MetricName) -> ColumnPlan {
    let heading = match &name.instance {
        Some(instance) => format!("{instance}.{}", name.key),
        None => name.key.to_string(),
    };
    let group = name.phase.clone();
    let parts = vec![CellPart::Figure { expr: Expr::Metric(name), format: None }];
    ColumnPlan { group, heading, topic: Topic::Asked, parts }
}

fn plan(phase: &str, key: MetricKey, topic: Topic) -> ColumnPlan {
    ColumnPlan { topic, ..of_metric(MetricName { phase: phase.to_owned(), instance: None, key }) }
}

/// Phases in the order of the file; a phase that only some variants have stands where it first occurs.
pub(super) fn phases(experiment: &Experiment, trials: &[TrialRecord]) -> Vec<String> {
    let planned = experiment.variants().iter().flat_map(|v| &v.spec.phases).map(|p| &p.name);
    let recorded = trials.iter().flat_map(|t| &t.phases).map(|p| &p.name);
    once(planned.chain(recorded).cloned())
}

/// The phases whose figures are results.
pub(super) fn timed_phases(experiment: &Experiment, trials: &[TrialRecord]) -> Vec<String> {
    let set_up = |name: &String| {
        let planned =
            experiment.variants().iter().flat_map(|v| &v.spec.phases).filter(|p| p.name == *name).map(|p| p.timed);
        let recorded = trials.iter().flat_map(|t| &t.phases).filter(|p| p.name == *name).map(|p| p.timed);
        !planned.chain(recorded).any(|timed| timed)
    };
    phases(experiment, trials).into_iter().filter(|name| !set_up(name)).collect()
}

/// What the trials have.
struct Figures<'a> {
    trials: &'a [TrialRecord],
}

impl Figures<'_> {
    fn readings(&self, phase: &str, key: MetricKey) -> impl Iterator<Item = &Reading<f64>> {
        let phases = self.trials.iter().flat_map(|t| &t.phases).filter(move |p| p.name == phase);
        phases.filter_map(move |p| p.readings.get("")?.get(&MetricKeyText(key)))
    }

    /// Whether a column would say something, measured or not.
    fn tells(&self, phase: &str, key: MetricKey, phases: &[String]) -> bool {
        let number = |r: &Reading<f64>| r.measured().copied();
        match key.metric {
            // A time is shown for every timed phase, so that outcomes have their place.
            Metric::Time => true,
            Metric::Errors => self.readings(phase, key).filter_map(number).any(|n| n > 0.0),
            Metric::Rate => {
                let operations = MetricKey::amount(Metric::Operations);
                self.readings(phase, key).filter_map(number).any(|n| n > 0.0)
                    && !self.readings(phase, operations).filter_map(number).all(|n| n <= 1.0)
            }
            // How large the store is: once, at the last phase that says so.
            Metric::Disk => {
                let last = phases.iter().rfind(|p| self.readings(p, key).any(|r| r.measured().is_some()));
                last.is_some_and(|p| p == phase)
            }
            Metric::SettleDirty => self.readings(phase, key).any(|reading| match reading {
                Reading::Measured(time) => *time > 0.0,
                Reading::Missing(why) => matches!(why, Why::NotSettled(_)),
            }),
            Metric::LatencyP50 | Metric::LatencyP99 | Metric::HeapUsed => {
                self.readings(phase, key).any(|r| r.measured().is_some())
            }
            // Figures that every phase has are shown where they are not zero: work on data, or a remarkable figure.
            Metric::Fsyncs => {
                let any = self.readings(phase, key).next().is_some();
                any && (self.works(phase) || self.readings(phase, key).filter_map(number).any(|n| n > 0.0))
            }
            Metric::Written => self.readings(phase, key).filter_map(number).any(|n| n > 0.0),
            Metric::Cpu | Metric::Anon | Metric::File => {
                self.works(phase) && self.readings(phase, key).next().is_some()
            }
            _ => self.readings(phase, key).next().is_some(),
        }
    }

    /// Whether a phase does operations, or work on the whole store that takes its time.
    fn works(&self, phase: &str) -> bool {
        let mut records = self.trials.iter().flat_map(|t| &t.phases).filter(|p| p.name == phase);
        records.any(|p| !matches!(p.action.as_str(), "commit" | "close" | "reopen" | "evict" | "pause"))
    }

    /// Why a figure is missing in every trial that got there; `None` where some have it.
    fn reason(&self, phase: &str, key: MetricKey) -> Option<Why> {
        let mut why = None;
        for reading in self.readings(phase, key) {
            match reading {
                Reading::Measured(_) => return None,
                Reading::Missing(reason) => why = why.or_else(|| Some(reason.clone())),
            }
        }
        if key.metric == Metric::Time { None } else { why }
    }
}

/// Metrics that are not shown for one reason.
type Absent = (String, Vec<MetricKey>);

fn note_absent(absent: &mut Vec<Absent>, key: MetricKey, why: &Why) {
    if matches!(why, Why::NotApplicable | Why::NotReached) {
        return;
    }
    let why = why.to_string();
    match absent.iter_mut().find(|(known, _)| *known == why) {
        Some((_, keys)) if keys.contains(&key) => {}
        Some((_, keys)) => keys.push(key),
        None => absent.push((why, vec![key])),
    }
}

/// ``` `cpu` and `anon.max` are not shown: the phase took ... ```
fn absent_text((why, keys): &Absent) -> String {
    let names: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
    match names.split_last() {
        Some((last, more)) if !more.is_empty() => format!("{} and {last} are not shown: {why}", more.join(", ")),
        _ => format!("{} is not shown: {why}", names.concat()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_that_are_absent_for_one_reason_are_listed_together() {
        let short = || Why::Failed("the phase took 5.00 ms".to_owned());
        let mut absent = Vec::new();
        let keys = ["cpu", "anon.max", "cpu", "fsyncs", "file.end", "written"].map(|key| key.parse().unwrap());
        let whys = [short(), short(), short(), Why::NotPermitted("tracefs".into()), short(), Why::NotReached];
        keys.into_iter().zip(whys).for_each(|(key, why)| note_absent(&mut absent, key, &why));
        let texts: Vec<String> = absent.iter().map(absent_text).collect();
        let together = "`cpu`, `anon.max` and `file.end` are not shown: the phase took 5.00 ms";
        assert_eq!(texts, [together, "`fsyncs` is not shown: not permitted: tracefs"]);
    }
}
