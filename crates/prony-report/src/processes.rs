//! Tables of the metrics of each process, one for each phase of each variant, on request.

use std::collections::BTreeMap;

use prony_experiment::design::{CellPart, Expr, Statistic, Variant};
use prony_model::metric::{Metric, MetricKey, MetricName, Stat};
use prony_model::number::count;
use prony_model::processes::{NOT_ATTRIBUTED, name};
use prony_model::reading::Reading;
use prony_model::record::{MetricKeyText, PhaseRecord};

use super::cells::{Plan, Said, Source, fill, scales};
use super::columns::timed_phases;
use super::model::{Align, Cell, Column, Label, Row, Table};
use super::notes::Notes;
use super::variants::records_of;
use prony_results::RunData;

/// What is shown of each process.
const FIGURES: [MetricKey; 6] = [
    MetricKey::amount(Metric::Cpu),
    MetricKey::gauge(Metric::Rss, Stat::Max),
    MetricKey::gauge(Metric::Anon, Stat::Max),
    MetricKey::gauge(Metric::Rss, Stat::End),
    MetricKey::gauge(Metric::Anon, Stat::End),
    MetricKey::gauge(Metric::Pss, Stat::End),
];

/// Processes in a table; the others are in the data.
const ROWS: usize = 30;

const SOURCES: &str = "`max` is the largest sample; `end` and PSS are read at the end of the phase; `cpu` of a process \
    that ended during the phase is measured up to its last sample";

/// The tables, in the order of variants and phases; none where each trial is one process.
pub(super) fn tables(data: &RunData, caption: &str) -> Vec<Table> {
    let phases = timed_phases(&data.experiment, &data.trials);
    let variants = data.experiment.variants().iter();
    variants.flat_map(|variant| phases.iter().filter_map(move |phase| table(data, variant, phase, caption))).collect()
}

fn table(data: &RunData, variant: &Variant, phase: &str, caption: &str) -> Option<Table> {
    let source = Source::of_variant(data, variant.id);
    let records: Vec<&PhaseRecord> = records_of(source.trials.iter().copied(), phase).collect();
    let mut instances = by_cpu(&records);
    let more = instances.len().saturating_sub(ROWS);
    instances.truncate(ROWS);
    if instances.is_empty() {
        return None;
    }
    instances.push(NOT_ATTRIBUTED.to_owned());
    let mut notes = Notes::default();
    let (mut columns, mut rows) = (Vec::new(), rows(&instances));
    for key in FIGURES {
        let of = |instance: Option<&String>| parts(phase, instance, key);
        // One scale for all rows: that of the whole tree.
        let whole = of(None);
        let sources = std::slice::from_ref(&source);
        let scales = scales(&plan(&whole), sources, None);
        let mut unit = "";
        for (at, row) in rows.iter_mut().enumerate() {
            let instance = at.checked_sub(1).map(|at| &instances[at]);
            let filled = fill(&plan(&of(instance)), &scales, sources, &mut [Said::default()], &mut notes);
            unit = if at == 0 { filled.unit } else { unit };
            let mut cell = filled.cells.into_iter().next().unwrap_or_default();
            if instance.is_some_and(|instance| key.metric == Metric::Cpu && ended(&records, instance)) {
                let why = "ended during the phase: CPU time up to its last sample; what it used after that is in `not \
                    attributed`";
                cell.marks.push(notes.mark(why));
            }
            let is_of_none = instance.is_some_and(|i| i == NOT_ATTRIBUTED) && key.stat.is_some();
            row.cells.push(if is_of_none { Cell::default() } else { cell });
        }
        columns.push(Column::new(&key.to_string(), unit, Align::Right));
    }
    notes.general(SOURCES);
    if more > 0 {
        let more = count(more, "more process");
        notes.general(format!("not shown: {more} with less CPU time; `prony report --format csv` lists all"));
    }
    let title = Some(title(data, variant, phase));
    let caption = caption.to_owned();
    Some(Table { title, caption, labels: vec!["process".to_owned()], columns, rows, notes: notes.finish() })
}

/// Instances of processes, those that used most first.
fn by_cpu(records: &[&PhaseRecord]) -> Vec<String> {
    let mut used: BTreeMap<&str, f64> = BTreeMap::new();
    let key = MetricKeyText(MetricKey::amount(Metric::Cpu));
    for (instance, readings) in records.iter().flat_map(|record| &record.readings) {
        if name(instance).is_some() && instance != NOT_ATTRIBUTED {
            let cpu = readings.get(&key).and_then(|cpu| cpu.measured()).copied();
            *used.entry(instance).or_default() += cpu.unwrap_or_default();
        }
    }
    let mut all: Vec<(&str, f64)> = used.into_iter().collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    all.into_iter().map(|(instance, _)| instance.to_owned()).collect()
}

/// Whether a process had ended at the end of the phase in some trial.
fn ended(records: &[&PhaseRecord], instance: &str) -> bool {
    // If the garbage collection did not come, the reading that was to follow it is stored as the one before it.
    let keys = [Stat::End, Stat::Before].map(|stat| MetricKeyText(MetricKey::gauge(Metric::Anon, stat)));
    let is_alive = |found: &&BTreeMap<MetricKeyText, Reading<f64>>| {
        keys.iter().any(|key| found.get(key).is_some_and(|r| r.measured().is_some()))
    };
    records.iter().filter_map(|record| record.readings.get(instance)).any(|found| !is_alive(&found))
}

fn rows(instances: &[String]) -> Vec<Row> {
    let named = instances.iter().map(|instance| name(instance).unwrap_or(instance));
    let label = |text: &str| Row { labels: vec![Label::new(text)], cells: vec![] };
    std::iter::once("all").chain(named).map(label).collect()
}

fn plan(parts: &[CellPart]) -> Plan<'_> {
    Plan { parts, statistic: Statistic::Median, short: false }
}

fn parts(phase: &str, instance: Option<&String>, key: MetricKey) -> Vec<CellPart> {
    let name = MetricName { phase: phase.to_owned(), instance: instance.cloned(), key };
    vec![CellPart::Figure { expr: Expr::Metric(name), format: None }]
}

fn title(data: &RunData, variant: &Variant, phase: &str) -> String {
    let levels = data.experiment.factors().iter().zip(&variant.levels);
    let levels =
        levels.filter_map(|(factor, level)| Some(format!("{} = {}", factor.name, factor.levels.get(*level)?.label)));
    match levels.collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => format!("Processes of `{phase}`"),
        levels => format!("Processes of `{phase}`: {levels}"),
    }
}
