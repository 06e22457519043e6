//! A run's results as one JSON document; [`schema`] describes it. Existing names do not change; new ones may be added.

use std::io::{self, Write};

use prony_analysis::crash;
use prony_model::crash::{CrashSummary, CutRecord};
use prony_model::reading::Reading;
use prony_model::record::{Facts, MachineLimits, Session};
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::Formatter;

use super::floor::{FloorOut, floor};
use super::judged::{
    ComparisonOut, GrowthOut, InteractionOut, LeftOutOut, LoadOut, comparisons, growths, interactions, left_out, loads,
};
use super::profiled::{ProfileOut, profiles};
use super::records::{Reason, VariantOut, records};
use crate::error::Error;
use crate::model::{Cell, Figure, Report, Table};
use crate::profiles::VariantProfile;
use prony_results::{Database, RunData, RunHead};

/// What the document says it is.
const FORMAT: &str = "prony-results/2";

/// Arrays and objects that lie deeper stand on one line.
const LINES: usize = 4;

/// The results of a run, written by `prony report --format json`. Times are nanoseconds, sizes bytes; instants are
/// CLOCK_MONOTONIC unless their name ends in `unix_ms`.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "Results of a prony run")]
struct Document<'a> {
    /// The format of this document and its version.
    #[schemars(extend("const" = FORMAT))]
    format: &'static str,
    /// The run and how it was made.
    run: Run<'a>,
    /// The factors: what was varied.
    factors: Vec<FactorOut<'a>>,
    /// Reasons why values are missing or do not count. Readings refer to them by number, from 0.
    reasons: Vec<Reason>,
    /// The combinations of levels, with their trials and readings.
    variants: Vec<VariantOut<'a>>,
    /// The tables of the report.
    tables: Vec<TableOut<'a>>,
    /// The verdicts as sentences.
    verdicts: Vec<&'a str>,
    /// The verdicts with their statistics, in the same order as `verdicts`.
    comparisons: Vec<ComparisonOut<'a>>,
    /// The effect of each change when all other changes are applied (`[design] leave_one_out`).
    leave_one_out: Vec<LeftOutOut<'a>>,
    /// The share of each variant's time above `[compare] floor`; null where the experiment names no floor.
    floor: Option<FloorOut<'a>>,
    /// Interactions: effects of one factor that depend on the level of another, the strongest first.
    interactions: Vec<InteractionOut>,
    /// How metrics grow with numeric factors.
    growth: Vec<GrowthOut>,
    /// What crash trials show, by variant and crash phase.
    crashes: Vec<CrashSummary>,
    /// The cuts of the crash trials. `effective` is null where it is that of the cut before.
    cuts: Vec<CutRecord>,
    /// Knees of goodput under load, and where goodput falls while the work behind it rises.
    load: Vec<LoadOut>,
    /// Results of the profiled trials, one for each profiled variant.
    profiles: Vec<ProfileOut<'a>>,
}

/// A run and what it was made of.
#[derive(Serialize, JsonSchema)]
struct Run<'a> {
    /// The number of the run in its database.
    id: i64,
    /// The experiment's title.
    title: &'a str,
    /// The state of the run.
    #[schemars(extend("enum" = ["unfinished", "done", "interrupted"]))]
    status: &'static str,
    /// The version of prony that started the run.
    version: &'a str,
    /// When the run began.
    started_unix_ms: u64,
    /// When the run ended; null while it is unfinished.
    ended_unix_ms: Option<u64>,
    /// The seed of the plan.
    seed: u64,
    /// A digest of the checked experiment.
    hash: &'a str,
    /// Trials planned.
    planned: u32,
    /// Trials that have ended.
    finished: u32,
    /// Finished trials that succeeded.
    ok: u32,
    /// The text of the experiment.
    experiment: &'a str,
    /// The machine.
    host: &'a Facts,
    /// The limits of the machine, as measured by prony.
    limits: &'a Reading<MachineLimits>,
    /// The sessions in which the run was resumed. Version and machine of the first session are those above.
    resumed: &'a [Session],
}

/// A factor: what was varied.
#[derive(Serialize, JsonSchema)]
struct FactorOut<'a> {
    /// Its name.
    name: &'a str,
    /// The labels of its levels.
    levels: Vec<&'a str>,
}

/// A table as it is shown.
#[derive(Serialize, JsonSchema)]
struct TableOut<'a> {
    /// Its title.
    title: Option<&'a str>,
    /// How the values of its cells were made.
    caption: &'a str,
    /// Headings of the columns with row labels.
    labels: &'a [String],
    /// Headings of the columns with cells.
    columns: Vec<ColumnOut<'a>>,
    /// Its rows.
    rows: Vec<RowOut<'a>>,
    /// Its notes.
    notes: Vec<&'a str>,
}

/// The heading of a column of a table.
#[derive(Serialize, JsonSchema)]
struct ColumnOut<'a> {
    /// Its name.
    name: String,
    /// The unit of the values in its texts.
    unit: &'a str,
}

/// A row of a table.
#[derive(Serialize, JsonSchema)]
struct RowOut<'a> {
    /// The labels of the row, such as levels of factors.
    labels: Vec<&'a str>,
    /// A cell for each column.
    cells: Vec<CellOut<'a>>,
}

/// A cell of a table.
#[derive(Serialize, JsonSchema)]
struct CellOut<'a> {
    /// The text as it is shown.
    text: String,
    /// Whether the cell shows how trials ended instead of a value.
    outcome: bool,
    /// The values in the cell, in the order of the text.
    figures: &'a [Figure],
}

/// The JSON Schema of the document.
pub fn schema() -> serde_json::Value {
    let settings = SchemaSettings::draft2020_12().for_serialize().with_transform(RecursiveTransform(null_for_none));
    settings.into_generator().into_root_schema_for::<Document<'_>>().into()
}

/// Descriptions are the types' own documents, in which `None` is what JSON writes as `null`.
fn null_for_none(schema: &mut Schema) {
    if let Some(serde_json::Value::String(text)) = schema.get_mut("description") {
        *text = text.replace("`None`", "`null`");
    }
}

/// Writes a run with its tables and its profiles; with a database, the samples and histograms of its trials too.
///
/// # Errors
/// [`Error::Write`], [`Error::Json`], also of what cannot be read from the database.
pub fn document(
    data: &RunData,
    report: &Report,
    profiled: &[VariantProfile],
    whole: Option<&Database>,
    out: &mut dyn Write,
) -> Result<(), Error> {
    let verdicts = &report.verdicts;
    let (variants, reasons) = records(data, whole);
    let document = Document {
        format: FORMAT,
        run: run(data),
        factors: factors(data),
        reasons,
        variants,
        tables: report.tables.iter().map(table).collect(),
        verdicts: verdicts.lines.iter().map(|line| line.sentence.as_str()).collect(),
        comparisons: comparisons(verdicts),
        leave_one_out: left_out(data, verdicts),
        floor: floor(data),
        interactions: interactions(data, verdicts),
        growth: growths(data),
        crashes: crash::of(&data.experiment, &data.cuts),
        cuts: cuts(&data.cuts),
        load: loads(data),
        profiles: profiles(profiled),
    };
    document.serialize(&mut Serializer::with_formatter(&mut *out, Lines::default())).map_err(super::not_json)?;
    super::ended(out)
}

/// The cuts, each with the settings of the store only where they differ from those before.
fn cuts(all: &[CutRecord]) -> Vec<CutRecord> {
    let mut cuts = all.to_vec();
    for (cut, before) in cuts.iter_mut().skip(1).zip(all) {
        cut.effective.take_if(|effective| before.effective.as_ref() == Some(effective));
    }
    cuts
}

/// One line for each trial, column and row of a table: nothing is indented, so that a document of thousands of trials
/// is no larger than it must be.
#[derive(Default)]
struct Lines {
    depth: usize,
}

impl Lines {
    fn open<W: ?Sized + Write>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth += 1;
        writer.write_all(bracket)
    }

    fn close<W: ?Sized + Write>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth -= 1;
        writer.write_all(bracket)
    }

    fn next<W: ?Sized + Write>(&self, writer: &mut W, first: bool) -> io::Result<()> {
        let between: &[u8] = match (first, self.depth <= LINES) {
            (true, true) => b"\n",
            (true, false) => b"",
            (false, true) => b",\n",
            (false, false) => b",",
        };
        writer.write_all(between)
    }
}

impl Formatter for Lines {
    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(writer, b"[")
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer, b"]")
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.next(writer, first)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(writer, b"{")
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer, b"}")
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.next(writer, first)
    }
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
        resumed: &head.resumed,
    }
}

fn factors(data: &RunData) -> Vec<FactorOut<'_>> {
    data.experiment
        .factors()
        .iter()
        .map(|f| FactorOut { name: &f.name, levels: f.levels.iter().map(|l| l.label.as_str()).collect() })
        .collect()
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
    CellOut { text: cell.text(str::to_owned), outcome: cell.outcome, figures: &cell.figures }
}
