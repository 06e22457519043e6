//! The description of a chart: marks on scales, with texts. Each chart is described once, in `data`; `draw` makes a
//! static picture from any description, and the script of the HTML page draws the same description.

use std::collections::HashMap;

use serde::{Serialize, Serializer};

use super::format::Format;

/// Columns of numbers that marks refer to. Equal columns are one: charts of several metrics share most of theirs.
#[derive(Debug, Default)]
pub struct Columns {
    all: Vec<Column>,
    places: HashMap<Vec<u64>, usize>,
}

/// A column of numbers.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Not a number where there is none.
    Numbers(Vec<f64>),
    /// The middles of so many equal steps from 0 on.
    Steps {
        /// Length of a step.
        step: f64,
        /// Steps.
        count: usize,
    },
}

/// The place of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ColumnId(usize);

impl Columns {
    /// Adds a column of numbers, unless there is one like it.
    pub fn add(&mut self, numbers: impl IntoIterator<Item = f64>) -> Option<ColumnId> {
        let numbers: Vec<f64> = numbers.into_iter().collect();
        let bits = numbers.iter().map(|n| n.to_bits()).collect();
        Some(self.place(bits, Column::Numbers(numbers)))
    }

    /// Adds the middles of equal steps.
    pub fn steps(&mut self, step: f64, count: usize) -> Option<ColumnId> {
        // No column of numbers has the same key: none holds this not-a-number.
        Some(self.place(vec![u64::MAX, step.to_bits(), count as u64], Column::Steps { step, count }))
    }

    fn place(&mut self, key: Vec<u64>, column: Column) -> ColumnId {
        let next = self.all.len();
        let place = *self.places.entry(key).or_insert(next);
        if place == next {
            self.all.push(column);
        }
        ColumnId(place)
    }

    /// All of them, in the order of their places.
    pub fn all(&self) -> &[Column] {
        &self.all
    }

    /// The column at a place.
    pub fn get(&self, id: ColumnId) -> &Column {
        &self.all[id.0]
    }

    /// The places across of a mark's points.
    pub fn across(&self, mark: &Mark) -> Vec<f64> {
        let x = self.numbers(mark.x);
        let Some(Over { groups, numbers }) = mark.over else { return x };
        let (groups, numbers) = (self.numbers(groups), self.numbers(numbers));
        let base = |at: usize| if groups[at].is_nan() { f64::NAN } else { numbers[groups[at] as usize] };
        x.iter().enumerate().map(|(at, x)| x / base(at)).collect()
    }

    /// The numbers of a column; none where there is no column.
    pub fn numbers(&self, id: Option<ColumnId>) -> Vec<f64> {
        match id.map(|id| self.get(id)) {
            None => Vec::new(),
            Some(Column::Numbers(numbers)) => numbers.clone(),
            Some(Column::Steps { step, count }) => (0..*count).map(|i| (i as f64 + 0.5) * step).collect(),
        }
    }
}

/// Charts that belong together, with the controls that select what they show.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Section {
    /// Choices that the page offers; a picture shows what is chosen at first.
    pub controls: Vec<Control>,
    /// Names of lines and marks by colour and dash; each variant is a series of its own where none is named.
    pub series: Vec<Series>,
    /// Whether series are listed above the charts.
    pub legend: bool,
    /// The charts, in order.
    pub charts: Vec<Chart>,
}

impl Section {
    /// Adds a control and gives back its place, which [`When`] refers to.
    pub(crate) fn control(&mut self, control: Control) -> usize {
        self.controls.push(control);
        self.controls.len() - 1
    }

    /// Adds charts of which a control shows the chosen one.
    pub(crate) fn select(&mut self, control: Control, charts: impl IntoIterator<Item = Chart>) {
        let place = self.control(control);
        let chosen = |(at, chart)| Chart { when: vec![When(place, at, at)], ..chart };
        self.charts.extend(charts.into_iter().enumerate().map(chosen));
    }

    /// The variants that are shown at first, with what they share, where it is not all of them.
    pub(crate) fn restricted(&self) -> Option<&Choice> {
        let control = self.controls.iter().find(|control| control.does == Does::Restrict)?;
        Some(&control.options[control.chosen])
    }
}

/// Variants that share colour and symbol.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    /// As the legend and the tips call it.
    pub name: String,
    /// Colour, dash and symbol.
    #[serde(flatten)]
    pub style: Style,
    /// Whether all of its variants are baselines.
    pub baseline: bool,
    /// Indices of its variants.
    pub variants: Vec<usize>,
    /// Choices under which it is one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub when: Vec<When>,
}

/// So many colours there are besides that of text.
pub const COLOURS: usize = 7;

/// How a series is drawn: colour is never alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Style {
    /// Which colour, below [`COLOURS`]; `None` for that of text, which baselines have.
    pub colour: Option<usize>,
    /// Which dash.
    pub dash: usize,
    /// Which symbol.
    pub symbol: usize,
}

/// A choice that the page offers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Control {
    /// What is chosen.
    pub label: &'static str,
    /// What a choice does.
    pub does: Does,
    /// What there is to choose from.
    pub options: Vec<Choice>,
    /// The first choice.
    pub chosen: usize,
}

/// What a choice does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Does {
    /// Shows what names it in `when`.
    Select,
    /// Shows the variants of the option.
    Restrict,
    /// Orders lanes by rank (the first option) or as they come.
    Order,
    /// Moves marks by the number at its place in their `shifts`.
    Shift,
    /// Shows the bands of the option's variant.
    Shade,
}

/// One option of a control.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Choice {
    /// What it is called.
    pub text: String,
    /// The heading under which it is listed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The variants that it is about; none where it is about all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub variants: Vec<usize>,
}

impl Choice {
    /// An option that is about all variants.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }
}

/// A control, and the first and the last of its options under which something is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct When(pub usize, pub usize, pub usize);

/// A plot with the texts that belong to it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Chart {
    /// Above it.
    pub title: String,
    /// The column name of its values in the file with the numbers; empty where they are not in that file.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub column: String,
    /// The phase whose metric it shows; empty where there are several or none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// What is drawn and what was left out, a sentence each.
    pub caption: Vec<Said>,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// Height as a share of the width; with lanes, pixels a lane.
    pub height: f64,
    /// What is drawn, the lowest first.
    pub marks: Vec<Mark>,
    /// The same as a table.
    pub table: Table,
    /// Choices under which it is shown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub when: Vec<When>,
}

/// A sentence that depends on what is shown.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Said {
    /// With its full stop.
    pub text: String,
    /// Said while one of these variants is shown; always where there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub variants: Vec<usize>,
    /// Said of the variant alone whose bands are shown.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub shaded: bool,
}

impl Said {
    /// Said always.
    pub fn always(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Said while one of the variants is shown.
    pub fn of(variants: &[usize], text: impl Into<String>) -> Self {
        Self { text: text.into(), variants: variants.to_vec(), shaded: false }
    }
}

/// An axis.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Axis {
    /// What it shows; empty where the title says it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// How its numbers are written.
    pub format: Format,
    /// How values become places.
    #[serde(flatten)]
    pub scale: Scale,
    /// Values with their texts, where round values will not do.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ticks: Vec<(f64, String)>,
}

/// How values become places on an axis. Unless it says otherwise it spans the values that are shown.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(tag = "scale", rename_all = "snake_case")]
pub enum Scale {
    /// Even, from 0 or below to a little above the largest value.
    #[default]
    Amount,
    /// Even, from 0 or below to the largest value: time.
    Time,
    /// Time of variants: logarithmic where those that are drawn differ tenfold, even otherwise.
    Times {
        /// How long each variant lasts.
        lines: Vec<Lasting>,
    },
    /// Logarithmic, a little wider than the values.
    Log,
    /// Logarithmic between two values above 0.
    Between {
        /// Its lower end.
        low: f64,
        /// Its upper end.
        high: f64,
    },
    /// Rows below each other; a value is the number of its lane plus its place in it, from 0 at its top.
    Lanes {
        /// In the experiment's order.
        lanes: Vec<Lane>,
    },
}

/// Variants whose trials last this many times as long as those of others leave them no width on an even axis.
const APART: f64 = 10.0;

/// Of a variant's lines, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Lasting {
    /// The variant.
    pub variant: usize,
    /// The first point of any.
    pub first: f64,
    /// The length of the longest.
    pub longest: f64,
}

impl Axis {
    /// The label and the scale for those variants that are drawn.
    pub fn drawn(&self, shows: impl Fn(usize) -> bool) -> (String, Scale) {
        let Scale::Times { lines } = &self.scale else { return (self.label.clone(), self.scale.clone()) };
        let shown = || lines.iter().filter(|line| shows(line.variant));
        let low = shown().map(|line| line.first).fold(f64::INFINITY, f64::min);
        let high = shown().map(|line| line.longest).fold(0.0, f64::max);
        match shown().any(|line| high >= APART * line.longest) {
            true => ("logarithmic".to_owned(), Scale::Between { low, high }),
            false => (self.label.clone(), Scale::Time),
        }
    }
}

/// A row of a chart.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Lane {
    /// The text at its top beside the variant's name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub words: String,
    /// Whose it is: it is left out with its variant.
    pub variant: usize,
    /// The rank by which lanes are ordered, the smallest first; lanes without a rank come last.
    pub rank: Option<f32>,
    /// Stands below all others in any order.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub last: bool,
}

/// Points drawn alike.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Mark {
    /// How.
    pub kind: Kind,
    /// Whose.
    pub of: Of,
    /// Places across.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub x: Option<ColumnId>,
    /// What places across are divided by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over: Option<Over>,
    /// Where each ends across.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub x2: Option<ColumnId>,
    /// Places up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub y: Option<ColumnId>,
    /// The middles of intervals; for dots, values that the tip states.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub z: Option<ColumnId>,
    /// How `z` is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub z_format: Option<Format>,
    /// The text at each point.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub text: Vec<String>,
    /// The tooltip of a point, below the name of its series; `{x}`, `{x2}`, `{y}` and `{z}` are replaced by the point's
    /// values.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tip: String,
    /// The same for each point, where it has texts of its own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tips: Vec<String>,
    /// Of lines.
    #[serde(skip_serializing_if = "Stroke::is_own")]
    pub stroke: Stroke,
    /// Choices under which it is shown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub when: Vec<When>,
    /// By the options of the control that shifts: what is subtracted from its places across.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shifts: Option<ColumnId>,
}

/// Numbers that belong to groups of points.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Over {
    /// The group of each point; not a number where it has none.
    pub groups: Option<ColumnId>,
    /// The number of each group.
    pub numbers: Option<ColumnId>,
}

/// How points are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A line through the points of each series.
    #[default]
    Line,
    /// Steps from `x` to `x2` with their area.
    Area,
    /// Symbols.
    Dots,
    /// From `x` to `x2`, open where one of them is not a number, with `z` marked.
    Intervals,
    /// Boxes from `x` to `x2` in a lane, with their texts.
    Bars,
    /// Shades from `x` to `x2` over the whole height, with their texts. Of those that belong to variants, one variant's are
    /// drawn.
    Bands,
    /// Upright lines at `x`.
    Rules,
    /// Lines across at `y`, with their texts.
    Limits,
    /// Open rings, with their texts.
    Rings,
    /// What did not finish: texts at the right of a lane, or at the top at `x`.
    Ends,
}

/// To which variants or trials the points of a mark belong.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Of {
    /// Always shown.
    #[default]
    Nobody,
    /// As many points as there are trials, each its trial's.
    Trials,
    /// A trial's: all points, by its index.
    Trial(usize),
    /// A variant for each point.
    Each(Vec<usize>),
    /// All points are these variants' together.
    Together(Vec<usize>),
}

impl Serialize for Of {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Nobody => serializer.serialize_none(),
            Self::Trials => serializer.serialize_str("trials"),
            Self::Trial(trial) => trial.serialize(serializer),
            Self::Each(variants) => [("each", variants)].into_iter().collect::<HashMap<_, _>>().serialize(serializer),
            Self::Together(variants) => variants.serialize(serializer),
        }
    }
}

/// How a line is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stroke {
    /// With the dash of its series.
    #[default]
    Own,
    /// Without a gap.
    Solid,
    /// Dashed.
    Dashed,
    /// Thin and dashed: a fit.
    Fit,
    /// Dotted: beyond what was measured.
    Beyond,
}

impl Stroke {
    const fn is_own(&self) -> bool {
        matches!(self, Self::Own)
    }
}

/// The values of a chart as rows.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Table {
    /// Of the columns, that of the name first.
    pub heads: Vec<String>,
    /// In order.
    pub rows: Vec<Row>,
}

impl Table {
    /// A table of rows under heads.
    pub fn new<S: Into<String>>(heads: impl IntoIterator<Item = S>, rows: impl IntoIterator<Item = Row>) -> Self {
        Self { heads: heads.into_iter().map(Into::into).collect(), rows: rows.into_iter().collect() }
    }
}

/// A row that is shown while its variant is shown.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Row {
    /// Texts beside the name of the variant's series.
    pub cells: Vec<String>,
    /// Index of the variant.
    pub variant: usize,
    /// Choices under which it is shown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub when: Vec<When>,
}

impl Row {
    /// The row of a variant.
    pub fn of(variant: usize, cells: impl IntoIterator<Item = String>) -> Self {
        Self { cells: cells.into_iter().collect(), variant, when: Vec::new() }
    }
}
