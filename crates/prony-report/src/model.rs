//! A report as data: texts and values, not yet laid out for an output format. Texts that do not come from prony are
//! unescaped; each renderer escapes them.

use prony_analysis::verdicts::Verdicts;
use prony_model::units::Unit;
use schemars::JsonSchema;
use serde::Serialize;

/// Everything that a report on a run contains.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// The experiment's title.
    pub title: String,
    /// What the experiment asks.
    pub question: Option<String>,
    /// What ran, when, where; one sentence each.
    pub preface: Vec<String>,
    /// What the comparison says.
    pub verdicts: Verdicts,
    /// How the verdicts were reached, or why there is none.
    pub judged: Option<String>,
    /// The effect of each change, where one change was left out at a time: the verdicts as tables.
    pub effects: Vec<Table>,
    /// Tables of the share of each variant's time above its floor, where the experiment names a floor.
    pub floors: Vec<Table>,
    /// Tables of the crash trials, where the experiment has any.
    pub crashes: Vec<Table>,
    /// Remarks beside the verdicts, which are not verdicts themselves.
    pub remarks: Vec<Remarks>,
    /// The tables.
    pub tables: Vec<Table>,
    /// What guards found, the gravest first.
    pub findings: Vec<FindingLine>,
    /// Facts about the machine and its limits, by name.
    pub machine: Vec<(String, String)>,
    /// What this report leaves out and how to see it.
    pub closing: Option<String>,
}

impl Report {
    /// The tables that belong to the verdicts and stand before all others.
    pub(crate) fn beside_verdicts(&self) -> impl Iterator<Item = &Table> {
        self.effects.iter().chain(&self.floors).chain(&self.crashes)
    }
}

/// Sentences of one kind beside the verdicts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remarks {
    /// What kind.
    pub title: &'static str,
    /// The sentences, without full stops.
    pub lines: Vec<String>,
    /// How reliable the sentences are, without a full stop.
    pub note: String,
}

/// What a guard found in some trials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FindingLine {
    /// `note`, `warning` or `refusal`.
    pub severity: &'static str,
    /// Which guard, where, in how many trials, and the first message.
    pub text: String,
    /// What to do.
    pub hint: String,
}

impl FindingLine {
    /// Whether it is a note, which does not change how results are read.
    pub(crate) fn is_note(&self) -> bool {
        self.severity == "note"
    }

    /// Whether it is a finding of this guard.
    pub(crate) fn is_of(&self, guard: &str) -> bool {
        self.text.starts_with(&format!("`{guard}`"))
    }
}

/// A table: label columns, then columns of values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// The title above the table; `None` where that of the report is enough.
    pub title: Option<String>,
    /// How the values were made.
    pub caption: String,
    /// Headings of the label columns.
    pub labels: Vec<String>,
    /// The columns of values.
    pub columns: Vec<Column>,
    /// The rows; each has a label for each of `labels` and a cell for each of `columns`.
    pub rows: Vec<Row>,
    /// Footnotes, by number.
    pub notes: Vec<Note>,
}

/// A column of values.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// The heading above several columns: a phase, levels of factors; may be empty.
    pub group: String,
    /// The heading.
    pub heading: String,
    /// The unit of all its values; empty where they have none or state it themselves.
    pub unit: String,
    /// How its texts are aligned.
    pub align: Align,
    /// What it is about; narrow media put each topic in a table of its own.
    pub topic: Topic,
    /// Footnotes that concern the whole column.
    pub marks: Vec<usize>,
}

impl Column {
    /// With this heading alone.
    pub fn new(heading: &str, unit: &str, align: Align) -> Self {
        let (group, heading, unit) = (String::new(), heading.to_owned(), unit.to_owned());
        Self { group, heading, unit, align, topic: Topic::Asked, marks: Vec::new() }
    }

    /// Group and heading in one: `write.time`.
    pub fn name(&self) -> String {
        if self.group.is_empty() { self.heading.clone() } else { format!("{}.{}", self.group, self.heading) }
    }

    /// The name with the unit: `write.time, s`.
    pub fn full(&self) -> String {
        if self.unit.is_empty() { self.name() } else { format!("{}, {}", self.name(), self.unit) }
    }
}

/// How texts are aligned in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Labels and free texts.
    Left,
    /// Values: their decimal points are aligned.
    Right,
}

prony_model::words! {
    /// What a column is about.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Topic {
        /// Time, rates, latency, CPU, errors.
        Time = "time";
        /// Memory.
        Memory = "memory";
        /// Reads, writes, syncs, disk.
        Storage = "reads, writes and storage";
        /// Columns that were requested; never split by topic.
        Asked = "";
    }
}

/// A row.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What the row is.
    pub labels: Vec<Label>,
    /// Its cells.
    pub cells: Vec<Cell>,
}

/// A label of a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Label {
    /// The text.
    pub text: String,
    /// Footnotes that concern the row.
    pub marks: Vec<usize>,
}

impl Label {
    /// Without footnotes.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), marks: Vec::new() }
    }
}

/// A cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// The value, the outcome, or `-`.
    pub main: String,
    /// The smallest and the largest value of any trial: `[11.8..12.9]`.
    pub spread: String,
    /// The number of trials behind the value, where it is not obvious: `(5 of 6 known)`, `n=2 of 6`.
    pub count: String,
    /// Footnotes.
    pub marks: Vec<usize>,
    /// Whether the cell shows an outcome instead of a value.
    pub outcome: bool,
    /// The values in the cell, in the order of the text.
    pub figures: Vec<Figure>,
}

impl Cell {
    /// A cell of this text alone.
    pub fn of(main: impl Into<String>) -> Self {
        Self { main: main.into(), ..Self::default() }
    }

    /// A cell without a value, with footnotes that say why.
    pub(crate) fn none(marks: impl IntoIterator<Item = usize>) -> Self {
        Self { marks: marks.into_iter().collect(), ..Self::of("-") }
    }

    /// Its texts on one line, each escaped by the function.
    pub(crate) fn text(&self, escape: impl Fn(&str) -> String) -> String {
        let texts = [&self.main, &self.spread, &self.count].into_iter().filter(|text| !text.is_empty());
        texts.map(|text| escape(text)).collect::<Vec<_>>().join(" ")
    }
}

/// A value over the trials of a cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "FigureOut")]
pub struct Figure {
    // Where JSON has no number because it is infinite, this has infinity; a quotient of unlike things has no unit.
    /// The statistic that the table shows; `None` if no trial has a value, or if it is one of the `infinite` trials.
    pub value: Option<f64>,
    /// The smallest value of any trial; `None` as in `value`.
    pub low: Option<f64>,
    /// The largest value of any trial; `None` as in `value`.
    pub high: Option<f64>,
    /// The unit of the numbers.
    pub unit: Option<Unit>,
    /// Trials that have this value.
    pub trials: usize,
    /// Of these, trials whose value is larger than any that was measured: a percentile among failed operations, or an
    /// activity that did not end. They count as infinite in the statistic.
    pub infinite: usize,
    /// Trials that ended before they had the value.
    pub ended: usize,
    /// Why the value is missing or infinite.
    pub missing: Option<String>,
}

/// A footnote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Its number; 0 for a note on the whole table.
    pub mark: usize,
    /// The text.
    pub text: String,
}
