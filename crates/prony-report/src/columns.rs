//! Chooses the columns of tables where the experiment defines none.

use prony_experiment::design::{CellPart, Experiment, Expr};
use prony_model::http::kind_of;
use prony_model::metric::{Metric, MetricKey, MetricName, Stat};
use prony_model::number::time;
use prony_model::processes;
use prony_model::reading::{Reading, Why};
use prony_model::record::TrialRecord;
use prony_model::spec::BACKGROUND;
use prony_model::units::Nanos;

use super::cell_value::amount_of;
use super::cpu_modes;
use super::model::Topic;
use super::variants::{metrics_of, records_of};
use super::words::once;
use prony_analysis::verdicts;
use prony_model::record::probe::Role;
use prony_stats::summary::median;

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
    /// Whether its cells are short: no least and greatest trial, no outcome that its row has named, and no division of CPU
    /// time that is too short to divide.
    pub(super) short: bool,
}

/// The default metrics of each timed phase, in order.
const TIME: &[MetricKey] = &[
    MetricKey::amount(Metric::Time),
    MetricKey::amount(Metric::Rate),
    MetricKey::amount(Metric::Errors),
    MetricKey::amount(Metric::Refused),
    MetricKey::amount(Metric::LatencyP50),
    MetricKey::amount(Metric::LatencyP99),
    MetricKey::amount(Metric::Cpu),
    MetricKey::amount(Metric::SettleDirty),
];
/// Those of a phase's background and of each kind of its requests, after its own times.
const BESIDE: &[MetricKey] = &[
    MetricKey::amount(Metric::Rate),
    MetricKey::amount(Metric::Errors),
    MetricKey::amount(Metric::Refused),
    MetricKey::amount(Metric::Skipped),
    MetricKey::amount(Metric::LatencyP50),
    MetricKey::amount(Metric::LatencyP99),
];
/// Of programs, before `MEMORY`: what was measured of the two.
const PEAKS: &[MetricKey] = &[MetricKey::gauge(Metric::Rss, Stat::Peak), MetricKey::gauge(Metric::Rss, Stat::Max)];
const MEMORY: &[MetricKey] = &[
    MetricKey::gauge(Metric::Anon, Stat::Max),
    MetricKey::gauge(Metric::File, Stat::End),
    MetricKey::amount(Metric::CachedBytes),
    MetricKey::gauge(Metric::HeapUsed, Stat::End),
];
const STORAGE: &[MetricKey] = &[
    MetricKey::amount(Metric::Written),
    MetricKey::amount(Metric::DeviceWritten),
    MetricKey::amount(Metric::Fsyncs),
    MetricKey::amount(Metric::Disk),
];

/// Further metrics of programs. The first one is also shown for each role of a program's processes.
const PROGRAM: &[(Topic, MetricKey)] = &[
    (Topic::Memory, MetricKey::gauge(Metric::HeapUsed, Stat::Max)),
    (Topic::Time, MetricKey::amount(Metric::CpuUser)),
    (Topic::Time, MetricKey::amount(Metric::CpuSystem)),
    (Topic::Time, MetricKey::amount(Metric::GcTime)),
    (Topic::Time, MetricKey::amount(Metric::GcCount)),
    (Topic::Memory, MetricKey::gauge(Metric::Rss, Stat::Peak)),
    (Topic::Memory, MetricKey::gauge(Metric::Rss, Stat::Max)),
    (Topic::Memory, MetricKey::gauge(Metric::File, Stat::Max)),
    (Topic::Memory, MetricKey::gauge(Metric::HeapTotal, Stat::Max)),
    (Topic::Memory, MetricKey::gauge(Metric::External, Stat::Max)),
    (Topic::Memory, MetricKey::gauge(Metric::HeapBlocks, Stat::Max)),
    (Topic::Storage, MetricKey::amount(Metric::Read)),
];

/// A trial that is shorter may have no sample, and no peak of memory above that of the process in which it was prepared.
const OVER_AT_ONCE: Nanos = Nanos::from_millis(50);

/// Whether all trials are that short.
fn is_brief(trials: &[TrialRecord]) -> bool {
    trials.iter().all(|trial| trial.took < OVER_AT_ONCE)
}

/// Metrics of a program's work that a pattern may read from its output.
const WORK: &[MetricKey] =
    &[MetricKey::amount(Metric::Rate), MetricKey::amount(Metric::LatencyP50), MetricKey::amount(Metric::LatencyP99)];

/// Columns of the metrics that get verdicts, then of the memory of their phases.
pub(super) fn judged(experiment: &Experiment, trials: &[TrialRecord]) -> Vec<ColumnPlan> {
    let figures = Figures { trials };
    let judged = verdicts::declared(experiment);
    let anon = MetricKey::gauge(Metric::Anon, Stat::Max);
    let phases = once(judged.iter().map(|name| name.phase.as_str()));
    let is_judged = |phase: &str| judged.iter().any(|name| name.phase == phase && name.key == anon);
    let memory = phases.into_iter().filter(|phase| figures.has(phase, anon) && !is_judged(phase));
    let memory: Vec<ColumnPlan> = memory.map(|phase| plan(phase, anon, Topic::Memory)).collect();
    judged.iter().cloned().map(of_metric).chain(memory).collect()
}

/// The columns of a brief report on programs, with notes: the metrics that get verdicts, those that a pattern reads
/// from the output, and for their phases CPU time, peak resident memory, anonymous memory, the heap of a language
/// runtime and counted syncs. Of commands that are over at once it is not noted that memory was not measured well.
pub(super) fn of_programs(experiment: &Experiment, trials: &[TrialRecord]) -> (Vec<ColumnPlan>, Vec<String>) {
    let figures = Figures { trials };
    let declared = verdicts::declared(experiment);
    let mut columns: Vec<ColumnPlan> = Vec::new();
    let (mut notes, mut absent) = (Vec::new(), Vec::new());
    let is_brief = is_brief(trials);
    let phases = timed_phases(experiment, trials);
    let mut add = |column: ColumnPlan| {
        if !columns.iter().any(|known| known.parts == column.parts) {
            columns.push(column);
        }
    };
    for phase in once(declared.iter().map(|name| name.phase.as_str())) {
        let cpu = MetricKey::amount(Metric::Cpu);
        let judged = declared.iter().filter(|name| name.phase == phase).cloned();
        judged.for_each(|name| add(ColumnPlan { topic: Topic::Time, ..of_metric(name) }));
        let work = WORK.iter().filter(|key| figures.is_informative(phase, **key, &phases));
        work.for_each(|key| add(ColumnPlan { short: true, ..plan(phase, *key, Topic::Time) }));
        if figures.has(phase, cpu) {
            add(ColumnPlan { short: true, ..plan(phase, cpu, Topic::Time) });
        }
        if trials.iter().any(|trial| cpu_modes::is_long_enough(trial, phase)) {
            add(user_and_system(phase));
        }
        let (peaks, why) = figures.peak(phase);
        let is_several =
            || figures.values(phase, MetricKey::gauge(Metric::Processes, Stat::Max)).any(|count| count > 1.0);
        notes.extend(why.filter(|_| !is_brief || is_several()));
        for (topic, key) in peaks.into_iter().map(|key| (Topic::Memory, key)).chain(requested(experiment)) {
            match figures.reason(phase, key) {
                _ if figures.has(phase, key) => add(ColumnPlan { short: true, ..plan(phase, key, topic) }),
                Some(why) => note_absent(&mut absent, key, &why, is_brief),
                None => {}
            }
        }
    }
    // Another phase may have it.
    let is_shown = |key: &MetricKey| columns.iter().any(|column| column.heading == key.to_string());
    absent.iter_mut().for_each(|(_, keys)| keys.retain(|key| !is_shown(key)));
    notes.extend(absent.iter().filter(|(_, keys)| !keys.is_empty()).map(absent_text));
    (columns, notes)
}

/// Beside the peak of resident memory: anonymous memory, and what the experiment requests by a `runtime` or by `syncs`.
fn requested(experiment: &Experiment) -> Vec<(Topic, MetricKey)> {
    let mut programs = experiment.variants().iter().filter_map(|variant| variant.spec.subject.program());
    let heap = programs.any(|program| program.runtime.is_some());
    let heap = heap.then_some((Topic::Memory, MetricKey::gauge(Metric::HeapUsed, Stat::Max)));
    let syncs = experiment.observe().syncs == Some(true);
    let syncs = syncs.then_some((Topic::Storage, MetricKey::amount(Metric::Fsyncs)));
    let anon = (Topic::Memory, MetricKey::gauge(Metric::Anon, Stat::Max));
    std::iter::once(anon).chain(heap).chain(syncs).collect()
}

/// Columns of further metrics of programs, where they were measured and are not zero, with notes on them. The columns
/// name no phase where rows are phases.
pub(super) fn more_of_programs(
    experiment: &Experiment,
    trials: &[TrialRecord],
    by_phase: bool,
) -> (Vec<ColumnPlan>, Vec<String>) {
    let figures = Figures { trials };
    let phases = timed_phases(experiment, trials);
    let instances = std::iter::once(None).chain(Role::ALL.iter().map(|role| Some(role.name().to_owned())));
    let of_instance = |instance: Option<String>| {
        let keys = if instance.is_none() { PROGRAM } else { &PROGRAM[..1] };
        keys.iter().map(move |(topic, key)| (*topic, instance.clone(), *key))
    };
    let names: Vec<(Topic, Option<String>, MetricKey)> = instances.flat_map(of_instance).collect();
    let of_phase = |phase: &String| {
        let measured = names.iter().filter(|(_, instance, key)| {
            let readings = figures.readings_of(phase, instance.as_deref().unwrap_or_default(), *key);
            readings.filter_map(Reading::measured).any(|value| *value > 0.0)
        });
        let column = |(topic, instance, key): &(Topic, Option<String>, MetricKey)| {
            let phase = if by_phase { String::new() } else { phase.clone() };
            let name = MetricName { phase, instance: instance.clone(), key: *key };
            ColumnPlan { topic: *topic, ..of_metric(name) }
        };
        measured.map(column).collect::<Vec<_>>()
    };
    let mut notes: Vec<String> = phases.iter().filter_map(|phase| figures.peak(phase).1).collect();
    let probes = trials.iter().filter_map(|trial| trial.conditions.probe.as_ref());
    let costs: Vec<f64> =
        probes.filter(|probe| !probe.threads.is_empty()).map(|probe| probe.cost.as_nanos() as f64).collect();
    notes.extend(median(&costs).map(|cost| {
        format!(
            "the probe in the language runtime reports a cost of {}, which the measurements include",
            time(Nanos::from_nanos(cost as u64))
        )
    }));
    (once(phases.iter().flat_map(of_phase)), once(notes))
}

/// The columns of the derived layout for some phases, and notes on metrics that are not shown and why.
pub(super) fn derived(
    experiment: &Experiment,
    trials: &[TrialRecord],
    shown: &[String],
) -> (Vec<ColumnPlan>, Vec<String>) {
    let (columns, absent) = planned(experiment, trials, shown);
    let notes = absent.iter().map(absent_text).chain(notes_on_peaks(experiment, trials, shown));
    (columns, notes.collect())
}

fn are_programs(experiment: &Experiment) -> bool {
    experiment.variants().iter().all(|variant| variant.spec.subject.program().is_some())
}

/// Why the kernel's peak of programs is not shown, or not for all trials.
fn notes_on_peaks(experiment: &Experiment, trials: &[TrialRecord], shown: &[String]) -> Vec<String> {
    let figures = Figures { trials };
    let phases = shown.iter().filter(|_| are_programs(experiment));
    once(phases.filter_map(|phase| figures.peak(phase).1))
}

/// The same, with the metrics that no trial has in a phase.
fn planned(experiment: &Experiment, trials: &[TrialRecord], shown: &[String]) -> (Vec<ColumnPlan>, Vec<Absent>) {
    let figures = Figures { trials };
    let phases = timed_phases(experiment, trials);
    let mut columns = Vec::new();
    let mut absent = Vec::new();
    let are_programs = are_programs(experiment);
    let is_brief = are_programs && is_brief(trials);
    for (topic, keys) in [(Topic::Time, TIME), (Topic::Memory, MEMORY), (Topic::Storage, STORAGE)] {
        for phase in shown {
            let has_peak = are_programs && topic == Topic::Memory;
            let peaks = if has_peak { figures.peak(phase).0 } else { Vec::new() };
            for key in peaks.iter().chain(keys).filter(|key| figures.is_informative(phase, **key, &phases)) {
                match figures.reason(phase, *key) {
                    None => columns.push(plan(phase, *key, topic)),
                    // A program that ends with its phase never has mapped files at its end.
                    Some(_) if are_programs && key.metric == Metric::File => {}
                    Some(why) => note_absent(&mut absent, *key, &why, is_brief),
                }
            }
            if topic == Topic::Time {
                for instance in figures.beside(phase) {
                    let keys = BESIDE.iter().filter(|key| figures.has_beside(phase, &instance, **key));
                    columns.extend(keys.map(|key| beside(phase, &instance, *key)));
                }
            }
        }
    }
    (columns, absent)
}

/// The column of a metric of a phase's background, or of a kind of its requests.
fn beside(phase: &str, instance: &str, key: MetricKey) -> ColumnPlan {
    let name = MetricName { phase: phase.to_owned(), instance: Some(instance.to_owned()), key };
    ColumnPlan { topic: Topic::Time, ..of_metric(name) }
}

/// The columns where rows are phases: the same metrics, without the phase's name. If a phase lacks a metric that
/// another phase has, its cell says why.
pub(super) fn per_phase(experiment: &Experiment, trials: &[TrialRecord]) -> (Vec<ColumnPlan>, Vec<String>) {
    let shown = timed_phases(experiment, trials);
    let (columns, mut absent) = planned(experiment, trials, &shown);
    let mut plans: Vec<ColumnPlan> = Vec::new();
    for column in columns {
        let Some(CellPart::Figure { expr: Expr::Metric(name), .. }) = column.parts.first() else { continue };
        let name = MetricName { phase: String::new(), ..name.clone() };
        let plan = ColumnPlan { topic: column.topic, ..of_metric(name) };
        if !plans.contains(&plan) {
            plans.push(plan);
        }
    }
    // A phase brings metrics that the ones before it lack: back into the usual order.
    let figures = Figures { trials };
    let instances = once(shown.iter().flat_map(|phase| figures.beside(phase)));
    let of_beside = instances.iter().flat_map(|instance| BESIDE.iter().map(|key| beside("", instance, *key).heading));
    let names = |keys: &[MetricKey]| keys.iter().map(MetricKey::to_string).collect::<Vec<_>>();
    let memory = [PEAKS, MEMORY].concat();
    let order: Vec<String> =
        names(TIME).into_iter().chain(of_beside).chain(names(&memory)).chain(names(STORAGE)).collect();
    plans.sort_by_key(|plan| order.iter().position(|key| *key == plan.heading));
    absent.iter_mut().for_each(|(_, keys)| keys.retain(|key| plans.iter().all(|plan| plan.heading != key.to_string())));
    absent.retain(|(_, keys)| !keys.is_empty());
    let notes = absent.iter().map(absent_text).chain(notes_on_peaks(experiment, trials, &shown));
    (plans, notes.collect())
}

/// Every metric that any trial has, one phase after the other.
pub(super) fn all(experiment: &Experiment, trials: &[TrialRecord]) -> Vec<ColumnPlan> {
    // Of each process there are tables of their own.
    let is_shown =
        |instance: &str, reading: &Reading<f64>| processes::name(instance).is_none() && reading.measured().is_some();
    let phases = phases(experiment, trials);
    let metrics = phases.iter().flat_map(|phase| metrics_of(phase, records_of(trials, phase), is_shown));
    metrics.map(of_metric).collect()
}

/// The column of a metric that is requested by name.
pub(super) fn of_metric(name: MetricName) -> ColumnPlan {
    let heading = match &name.instance {
        Some(instance) => format!("{instance}.{}", name.key),
        None => name.key.to_string(),
    };
    let group = name.phase.clone();
    let parts = vec![CellPart::Figure { expr: Expr::Metric(name), format: None }];
    ColumnPlan { group, heading, topic: Topic::Asked, parts, short: false }
}

/// User and system time in one column, `12.1 ms + 3.04 ms`.
fn user_and_system(phase: &str) -> ColumnPlan {
    let part = |metric| CellPart::Figure { expr: Expr::Metric(amount_of(phase, metric)), format: None };
    ColumnPlan {
        group: phase.to_owned(),
        heading: "user + system".to_owned(),
        topic: Topic::Time,
        parts: vec![part(Metric::CpuUser), CellPart::Text(" + ".to_owned()), part(Metric::CpuSystem)],
        short: true,
    }
}

fn plan(phase: &str, key: MetricKey, topic: Topic) -> ColumnPlan {
    ColumnPlan { topic, ..of_metric(MetricName { phase: phase.to_owned(), instance: None, key }) }
}

/// Phases in the order of the file; a phase that only some variants have is placed where it first occurs.
pub(super) fn phases(experiment: &Experiment, trials: &[TrialRecord]) -> Vec<String> {
    let planned = experiment.variants().iter().flat_map(|v| &v.spec.phases).map(|p| &p.name);
    let recorded = trials.iter().flat_map(|t| &t.phases).map(|p| &p.name);
    once(planned.chain(recorded).cloned())
}

/// The phases whose measurements are results: those that are timed.
pub(super) fn timed_phases(experiment: &Experiment, trials: &[TrialRecord]) -> Vec<String> {
    let set_up = |name: &String| {
        let planned =
            experiment.variants().iter().flat_map(|v| &v.spec.phases).filter(|p| p.name == *name).map(|p| p.timed);
        let recorded = records_of(trials, name).map(|p| p.timed);
        !planned.chain(recorded).any(|timed| timed)
    };
    phases(experiment, trials).into_iter().filter(|name| !set_up(name)).collect()
}

/// Whether an instance counts operations of its own: the background of a phase, a kind of its requests.
pub(super) fn is_beside(instance: &str) -> bool {
    instance == BACKGROUND || kind_of(instance).is_some()
}

/// Looks up the readings of the trials.
struct Figures<'a> {
    trials: &'a [TrialRecord],
}

impl Figures<'_> {
    fn readings(&self, phase: &str, key: MetricKey) -> impl Iterator<Item = &Reading<f64>> {
        self.readings_of(phase, "", key)
    }

    fn readings_of(&self, phase: &str, instance: &str, key: MetricKey) -> impl Iterator<Item = &Reading<f64>> {
        records_of(self.trials, phase).filter_map(move |record| record.reading_of(instance, key))
    }

    /// What was measured.
    fn values(&self, phase: &str, key: MetricKey) -> impl Iterator<Item = f64> {
        self.readings(phase, key).filter_map(|reading| reading.measured().copied())
    }

    /// Whether some trial has the metric.
    fn has(&self, phase: &str, key: MetricKey) -> bool {
        self.values(phase, key).next().is_some()
    }

    /// Whether it is more than 0 in some trial.
    fn is_above_zero(&self, phase: &str, key: MetricKey) -> bool {
        self.values(phase, key).any(|value| value > 0.0)
    }

    /// The kernel's own peak of resident memory where any trial has it; where a trial has none, also the largest sample, and
    /// why.
    fn peak(&self, phase: &str) -> (Vec<MetricKey>, Option<String>) {
        let [exact, sampled] = [Stat::Peak, Stat::Max].map(|stat| MetricKey::gauge(Metric::Rss, stat));
        let reading = |trial: &TrialRecord, key| trial.phases.iter().find(|p| p.name == phase)?.reading(key).cloned();
        let only_sampled = |trial: &TrialRecord| match (reading(trial, exact), reading(trial, sampled)) {
            (Some(Reading::Missing(why)), Some(Reading::Measured(_))) => Some(why),
            _ => None,
        };
        match self.trials.iter().find_map(only_sampled) {
            None => (vec![exact], None),
            Some(why) => {
                let note = format!(
                    "`{sampled}` is the largest sample, summed over processes, so that shared pages count several times; \
                     some trials have no `{exact}`: {why}"
                );
                (if self.has(phase, exact) { vec![exact, sampled] } else { vec![sampled] }, Some(note))
            }
        }
    }

    /// The instances whose times are shown beside those of a phase: its background, the kinds of its requests.
    fn beside(&self, phase: &str) -> Vec<String> {
        let instances = records_of(self.trials, phase).flat_map(|record| record.readings.keys());
        once(instances.filter(|instance| is_beside(instance)).cloned())
    }

    /// Whether such an instance has this metric; errors, refused and skipped operations only where there are any.
    fn has_beside(&self, phase: &str, instance: &str, key: MetricKey) -> bool {
        let any = matches!(key.metric, Metric::Errors | Metric::Refused | Metric::Skipped);
        self.readings_of(phase, instance, key).any(|reading| match reading {
            Reading::Measured(value) => !any || *value > 0.0,
            Reading::Missing(why) => matches!(why, Why::Infinite { .. }),
        })
    }

    /// Whether a column for this metric would be informative, even if its value is missing.
    fn is_informative(&self, phase: &str, key: MetricKey, phases: &[String]) -> bool {
        let is_recorded = || self.readings(phase, key).next().is_some();
        match key.metric {
            // A time is shown for every timed phase, so that outcomes have their place.
            Metric::Time => true,
            Metric::Errors | Metric::Refused => self.is_above_zero(phase, key),
            Metric::Rate => {
                let operations = MetricKey::amount(Metric::Operations);
                self.is_above_zero(phase, key) && !self.values(phase, operations).all(|n| n <= 1.0)
            }
            // How large the store is: once, at the last phase that says so.
            Metric::Disk => phases.iter().rfind(|p| self.has(p, key)).is_some_and(|p| p == phase),
            Metric::SettleDirty => self.readings(phase, key).any(|reading| match reading {
                Reading::Measured(time) => *time > 0.0,
                Reading::Missing(why) => matches!(why, Why::NotSettled(_)),
            }),
            Metric::LatencyP50 | Metric::LatencyP99 | Metric::HeapUsed => self.has(phase, key),
            // Metrics that every phase has are shown where they are not zero: work on data, or a remarkable value.
            Metric::Fsyncs => is_recorded() && (self.works(phase) || self.is_above_zero(phase, key)),
            Metric::Written => {
                let device = MetricKey::amount(Metric::DeviceWritten);
                self.is_above_zero(phase, key) || self.is_informative(phase, device, phases)
            }
            Metric::CachedBytes => self.works(phase) && self.is_above_zero(phase, key),
            // It includes what other processes wrote: beside a number of the process itself where that is missing.
            Metric::DeviceWritten => {
                let own = MetricKey::amount(Metric::Written);
                self.readings(phase, own).any(|r| r.measured().is_none()) && self.is_above_zero(phase, key)
            }
            Metric::Cpu | Metric::Anon | Metric::File => self.works(phase) && is_recorded(),
            _ => is_recorded(),
        }
    }

    /// Whether a phase does operations, or work on the whole store that takes its time.
    fn works(&self, phase: &str) -> bool {
        records_of(self.trials, phase)
            .any(|p| !matches!(p.action.as_str(), "commit" | "close" | "reopen" | "evict" | "pause"))
    }

    /// Why a metric is missing in every trial that reached the phase; `None` where some trial has it.
    fn reason(&self, phase: &str, key: MetricKey) -> Option<Why> {
        let is_shown = key.metric == Metric::Time || self.has(phase, key);
        self.readings(phase, key).filter(|_| !is_shown).find_map(|reading| match reading {
            Reading::Measured(_) => None,
            Reading::Missing(why) => Some(why.clone()),
        })
    }
}

/// Metrics that are not shown for one reason.
type Absent = (String, Vec<MetricKey>);

/// `is_brief` leaves out memory that was measured badly, as nearly always of a command that is over at once, but not memory
/// that could not be measured.
fn note_absent(absent: &mut Vec<Absent>, key: MetricKey, why: &Why, is_brief: bool) {
    let is_memory = matches!(key.metric, Metric::Rss | Metric::Anon);
    let is_bad = is_brief && is_memory && matches!(why, Why::Failed(_) | Why::TooFew { .. });
    if is_bad || matches!(why, Why::NotApplicable | Why::NotReached) {
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
        let short = || Why::Failed("the phase took 5.00 ms".into());
        let mut absent = Vec::new();
        let keys = ["cpu", "anon.max", "cpu", "fsyncs", "file.end", "written"].map(|key| key.parse().unwrap());
        let whys = [short(), short(), short(), Why::NotPermitted("tracefs".into()), short(), Why::NotReached];
        keys.into_iter().zip(whys).for_each(|(key, why)| note_absent(&mut absent, key, &why, false));
        let texts: Vec<String> = absent.iter().map(absent_text).collect();
        let together = "`cpu`, `anon.max` and `file.end` are not shown: the phase took 5.00 ms";
        assert_eq!(texts, [together, "`fsyncs` is not shown: not permitted: tracefs"]);
    }

    #[test]
    fn memory_of_short_commands_is_noted_where_it_could_not_be_read() {
        let anon = "anon.max".parse().unwrap();
        let noted = |why: Why| {
            let mut absent = Vec::new();
            note_absent(&mut absent, anon, &why, true);
            absent.len()
        };
        assert_eq!((noted(Why::Failed("too short".into())), noted(Why::NotPermitted("`status`".into()))), (0, 1));
    }
}
