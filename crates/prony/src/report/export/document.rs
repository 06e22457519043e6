//! A run's results as one JSON document; its schema is [`SCHEMA`]. Names stay; new ones may be added.

use std::collections::BTreeMap;
use std::io::Write;

use prony_model::reading::Reading;
use prony_model::record::{Answer, Conditions, Effective, Facts, MachineLimits, PhaseRecord, TrialRecord};
use prony_model::spec::Sign;
use serde::Serialize;

use super::floor::{FloorOut, floor};
use super::judged::{
    ComparisonOut, GrowthOut, InteractionOut, LeftOutOut, comparisons, growths, interactions, left_out,
};
use super::label;
use super::profiled::{ProfileOut, profiles};
use super::readings::{Exported, completion, exported, unit};
use crate::error::Error;
use crate::profiles::VariantProfile;
use crate::report::model::{Cell, Figure, Report, Table};
use prony_analysis::verdicts;
use prony_results::{RunData, RunHead};

/// The JSON Schema of the document.
pub const SCHEMA: &str = include_str!("../../../schema/results.schema.json");

/// What the document says it is.
const FORMAT: &str = "prony-results/1";

#[derive(Serialize)]
struct Document<'a> {
    format: &'static str,
    run: Run<'a>,
    factors: Vec<FactorOut<'a>>,
    variants: Vec<VariantOut<'a>>,
    trials: Vec<TrialOut<'a>>,
    tables: Vec<TableOut<'a>>,
    verdicts: Vec<&'a str>,
    comparisons: Vec<ComparisonOut>,
    leave_one_out: Vec<LeftOutOut>,
    floor: Option<FloorOut<'a>>,
    interactions: Vec<InteractionOut>,
    growth: Vec<GrowthOut>,
    profiles: Vec<ProfileOut<'a>>,
}

#[derive(Serialize)]
struct Run<'a> {
    id: i64,
    title: &'a str,
    status: &'static str,
    version: &'a str,
    started_unix_ms: u64,
    ended_unix_ms: Option<u64>,
    seed: u64,
    hash: &'a str,
    planned: u32,
    finished: u32,
    ok: u32,
    experiment: &'a str,
    host: &'a Facts,
    limits: &'a Reading<MachineLimits>,
}

#[derive(Serialize)]
struct FactorOut<'a> {
    name: &'a str,
    levels: Vec<&'a str>,
}

#[derive(Serialize)]
struct VariantOut<'a> {
    id: usize,
    levels: BTreeMap<&'a str, &'a str>,
    stratum: usize,
    baseline: bool,
}

#[derive(Serialize)]
struct TrialOut<'a> {
    position: u32,
    block: u32,
    sub_block: u32,
    variant: usize,
    label: &'static str,
    seed: u64,
    started_unix_ms: u64,
    took_ns: u64,
    outcome: &'static str,
    outcome_text: String,
    ended_in: Option<&'a str>,
    ended_after_ns: u64,
    evidence: &'a [String],
    phases: Vec<PhaseOut<'a>>,
    effective: Option<&'a Effective>,
    conditions: &'a Conditions,
    findings: &'a [prony_analysis::guard::Finding],
}

#[derive(Serialize)]
struct PhaseOut<'a> {
    name: &'a str,
    action: &'a str,
    timed: bool,
    completion: &'static str,
    begin_ns: Option<u64>,
    end_ns: Option<u64>,
    last_active: Option<&'static str>,
    readings: Vec<ReadingOut<'a>>,
    answer: Option<&'a Answer>,
    errors: &'a BTreeMap<String, u64>,
}

#[derive(Serialize)]
struct ReadingOut<'a> {
    instance: &'a str,
    metric: String,
    unit: &'static str,
    value: Option<f64>,
    missing: Option<String>,
    partial: Option<f64>,
}

#[derive(Serialize)]
struct TableOut<'a> {
    title: Option<&'a str>,
    caption: &'a str,
    labels: &'a [String],
    columns: Vec<ColumnOut<'a>>,
    rows: Vec<RowOut<'a>>,
    notes: Vec<&'a str>,
}

#[derive(Serialize)]
struct ColumnOut<'a> {
    name: String,
    unit: &'a str,
}

#[derive(Serialize)]
struct RowOut<'a> {
    labels: Vec<&'a str>,
    cells: Vec<CellOut<'a>>,
}

#[derive(Serialize)]
struct CellOut<'a> {
    text: String,
    outcome: bool,
    figures: Vec<FigureOut<'a>>,
}

#[derive(Serialize)]
struct FigureOut<'a> {
    value: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    unit: Option<&'static str>,
    trials: usize,
    ended: usize,
    missing: Option<&'a str>,
}

/// Writes a run with its tables and its profiles.
///
/// # Errors
/// [`Error::Write`], [`Error::Json`].
pub fn document(
    data: &RunData,
    report: &Report,
    profiled: &[VariantProfile],
    out: &mut dyn Write,
) -> Result<(), Error> {
    let verdicts = verdicts::of(data);
    let document = Document {
        format: FORMAT,
        run: run(data),
        factors: factors(data),
        variants: variants(data),
        trials: data.trials.iter().map(trial).collect(),
        tables: report.tables.iter().map(table).collect(),
        verdicts: report.verdicts.iter().map(|v| v.text.as_str()).collect(),
        comparisons: comparisons(&verdicts),
        leave_one_out: left_out(data, &verdicts),
        floor: floor(data),
        interactions: interactions(data, &verdicts),
        growth: growths(data),
        profiles: profiles(profiled),
    };
    serde_json::to_writer_pretty(&mut *out, &document).map_err(failed)?;
    writeln!(out).and_then(|()| out.flush()).map_err(super::unwritten)
}

fn failed(error: serde_json::Error) -> Error {
    if error.is_io() { super::unwritten(error.into()) } else { Error::Json { what: "the results", source: error } }
}

fn run(data: &RunData) -> Run<'_> {
    let head: &RunHead = &data.head;
    Run {
        id: head.id.0,
        title: &head.title,
        status: head.status.name(),
        version: &head.version,
        started_unix_ms: head.started_unix_ms,
        ended_unix_ms: head.ended_unix_ms,
        seed: head.seed,
        hash: &head.hash,
        planned: head.planned,
        finished: head.finished,
        ok: head.ok,
        experiment: data.experiment.source(),
        host: &head.host,
        limits: &head.limits,
    }
}

fn factors(data: &RunData) -> Vec<FactorOut<'_>> {
    data.experiment
        .factors()
        .iter()
        .map(|f| FactorOut { name: &f.name, levels: f.levels.iter().map(|l| l.label.as_str()).collect() })
        .collect()
}

fn variants(data: &RunData) -> Vec<VariantOut<'_>> {
    let experiment = &data.experiment;
    let levels = |levels: &[usize]| {
        let named = experiment.factors().iter().zip(levels);
        named.filter_map(|(f, l)| Some((f.name.as_str(), f.levels.get(*l)?.label.as_str()))).collect()
    };
    let out = |v: &prony_experiment::design::Variant| VariantOut {
        id: v.id,
        levels: levels(&v.levels),
        stratum: v.stratum,
        baseline: v.baseline,
    };
    experiment.variants().iter().map(out).collect()
}

fn trial(record: &TrialRecord) -> TrialOut<'_> {
    TrialOut {
        position: record.trial.position + 1,
        block: record.trial.block + 1,
        sub_block: record.trial.sub_block + 1,
        variant: record.trial.variant,
        label: label(record),
        seed: record.trial.seed,
        started_unix_ms: record.started_unix_ms,
        took_ns: record.took.as_nanos(),
        outcome: record.ending.outcome.name(),
        outcome_text: record.ending.outcome.to_string(),
        ended_in: record.ending.phase.as_deref(),
        ended_after_ns: record.ending.after.as_nanos(),
        evidence: &record.ending.evidence,
        phases: record.phases.iter().map(|one| phase(record, one)).collect(),
        effective: record.effective.as_ref(),
        conditions: &record.conditions,
        findings: &record.findings,
    }
}

fn phase<'r>(trial: &'r TrialRecord, record: &'r PhaseRecord) -> PhaseOut<'r> {
    let readings = record.readings.iter().flat_map(|(instance, readings)| {
        readings.iter().map(move |(key, reading)| {
            let Exported { value, missing, partial } = exported(trial, record, instance, key.0, reading);
            let (metric, unit) = (key.0.to_string(), unit(key.0.metric.unit()));
            ReadingOut { instance, metric, unit, value, missing, partial }
        })
    });
    PhaseOut {
        name: &record.name,
        action: &record.action,
        timed: record.timed,
        completion: completion(record.completion),
        begin_ns: record.begin.map(|t| t.as_nanos()),
        end_ns: record.end.map(|t| t.as_nanos()),
        last_active: record.last_sign().map(Sign::name),
        readings: readings.collect(),
        answer: record.answer.as_ref(),
        errors: &record.errors,
    }
}

fn table(table: &Table) -> TableOut<'_> {
    TableOut {
        title: table.title.as_deref(),
        caption: &table.caption,
        labels: &table.labels,
        columns: table.columns.iter().map(|c| ColumnOut { name: c.name(), unit: &c.unit }).collect(),
        rows: table
            .rows
            .iter()
            .map(|row| RowOut {
                labels: row.labels.iter().map(|l| l.text.as_str()).collect(),
                cells: row.cells.iter().map(cell).collect(),
            })
            .collect(),
        notes: table.notes.iter().map(|n| n.text.as_str()).collect(),
    }
}

fn cell(cell: &Cell) -> CellOut<'_> {
    let texts = [&cell.main, &cell.spread, &cell.count];
    let text = texts.iter().filter(|t| !t.is_empty()).map(|t| t.as_str()).collect::<Vec<_>>().join(" ");
    CellOut { text, outcome: cell.outcome, figures: cell.figures.iter().map(figure).collect() }
}

fn figure(figure: &Figure) -> FigureOut<'_> {
    FigureOut {
        value: figure.value,
        low: figure.low,
        high: figure.high,
        unit: figure.unit.map(unit),
        trials: figure.trials,
        ended: figure.ended,
        missing: figure.missing.as_deref(),
    }
}
