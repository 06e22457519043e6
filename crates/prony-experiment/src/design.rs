//! The checked experiment: factors, variants, blocks, the comparison, the report's tables.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use prony_model::metric::MetricName;
use prony_model::number::percent_up_to;
use prony_model::program::{Care, ProfileOf};
use prony_model::spec::TrialSpec;
use prony_model::units::{Fraction, Nanos};
use prony_stats::InterimAnalyses;

/// An experiment that can run: everything in it has been checked.
///
/// Made by `experiment::check` only; its fields cannot be changed from outside.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    pub(crate) title: String,
    pub(crate) question: Option<String>,
    pub(crate) source: String,
    pub(crate) seed: u64,
    pub(crate) factors: Vec<Factor>,
    pub(crate) variants: Vec<Variant>,
    pub(crate) compare: Compare,
    pub(crate) observe: Observe,
    pub(crate) tables: Vec<TableSpec>,
    /// Whether a search chose its variants during the run.
    pub(crate) explores: bool,
    /// The factor whose levels leave one change out each, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) leave_one_out: Option<String>,
    /// Digests of the values of the environment variables that texts of the variants contain, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) environment: BTreeMap<String, String>,
}

/// The level that `[design] leave_one_out` makes of all changes together.
pub const ALL: &str = "all";

/// The level that `[design] leave_one_out` makes of no change.
pub const NONE: &str = "none";

/// Prefix of the levels that `[design] leave_one_out` makes of all changes but one; the name of that follows.
pub const WITHOUT: &str = "without ";

impl Experiment {
    /// The title, or the file's name where it has none.
    pub fn title(&self) -> &str {
        &self.title
    }
    /// The question that it answers, where the file states one.
    pub fn question(&self) -> Option<&str> {
        self.question.as_deref()
    }
    /// The file's text, unchanged.
    pub fn source(&self) -> &str {
        &self.source
    }
    /// The seed of everything drawn at random in it.
    pub fn seed(&self) -> u64 {
        self.seed
    }
    /// What is varied, in the file's order.
    pub fn factors(&self) -> &[Factor] {
        &self.factors
    }
    /// Every combination that runs.
    pub fn variants(&self) -> &[Variant] {
        &self.variants
    }
    /// A variant's levels as text: `lmdb, each`; a number, which says nothing by itself, with its factor: `threads=4`.
    pub fn labels(&self, variant: &Variant) -> String {
        let text = |(factor, level): (&Factor, &usize)| {
            let label = &factor.levels.get(*level)?.label;
            let is_number = label.parse::<f64>().is_ok();
            Some(if is_number { format!("{}={label}", factor.name) } else { label.clone() })
        };
        let labels: Vec<String> = self.factors.iter().zip(&variant.levels).filter_map(text).collect();
        labels.join(", ")
    }
    /// The same with their factors: `store=lmdb, transaction=each`; empty factors are left out.
    pub fn levels_text(&self, variant: &Variant) -> String {
        let levels = self.factors.iter().zip(&variant.levels);
        let levels: Vec<String> =
            levels.filter_map(|(f, level)| Some(format!("{}={}", f.name, f.levels.get(*level)?.label))).collect();
        if levels.is_empty() { "the only variant".to_owned() } else { levels.join(", ") }
    }

    /// The experiment with other texts for the paths that its variants name.
    ///
    /// # Errors
    /// Those of `whole`.
    pub fn with_paths<E>(mut self, whole: impl Fn(&str) -> Result<String, E>) -> Result<Self, E> {
        for path in self.variants.iter_mut().flat_map(|variant| variant.spec.paths_mut()) {
            *path = whole(path)?;
        }
        Ok(self)
    }

    /// The baseline of a variant's stratum; the variant itself if it is the baseline.
    pub fn baseline_of(&self, variant: &Variant) -> Option<&Variant> {
        self.variants.iter().find(|other| other.baseline && other.stratum == variant.stratum)
    }

    /// The baseline with which a variant is compared in metrics of a phase.
    ///
    /// # Errors
    /// Why the variant is compared with no baseline.
    pub fn compared_with(&self, variant: &Variant, phase: &str) -> Result<&Variant, String> {
        let Some(baseline) = self.baseline_of(variant) else {
            let nothing = self.compare.baseline.is_empty();
            return Err(
                if nothing { "nothing is compared" } else { "the variant's stratum has no baseline" }.to_owned()
            );
        };
        let has_phase = |variant: &Variant| variant.spec.phases.iter().any(|own| own.name == phase);
        let both = has_phase(variant) && has_phase(baseline);
        if both { Ok(baseline) } else { Err(format!("the variant or its baseline has no phase `{phase}`")) }
    }

    /// What is compared with what, and how often it runs.
    pub fn compare(&self) -> &Compare {
        &self.compare
    }
    /// How trials are observed.
    pub fn observe(&self) -> &Observe {
        &self.observe
    }
    /// The tables asked for; empty for the derived layout.
    pub fn tables(&self) -> &[TableSpec] {
        &self.tables
    }
    /// The factor of `[design] leave_one_out`, by index: its levels are all changes, all but one, and none.
    pub fn leave_one_out(&self) -> Option<usize> {
        let name = self.leave_one_out.as_ref()?;
        self.factors.iter().position(|factor| factor.name == *name)
    }
    /// Whether a search chose its variants by their measurements, which are therefore biased; nothing is compared.
    pub fn explores(&self) -> bool {
        self.explores
    }
}

/// What is varied.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Factor {
    /// Its name.
    pub name: String,
    /// Its levels, in the file's order.
    pub levels: Vec<Level>,
}

impl Factor {
    /// Whether every level is a number.
    pub fn is_numeric(&self) -> bool {
        !self.levels.is_empty() && self.levels.iter().all(|level| level.number.is_some())
    }
}

/// One value of a factor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Level {
    /// As shown: the key of a table, or the value's text.
    pub label: String,
    /// The value; whole tables for table factors.
    pub value: Value,
    /// The value as a number (quantities in bytes or nanoseconds), where it is one.
    pub number: Option<f64>,
}

/// One combination of levels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Variant {
    /// Index into [`Experiment::variants`].
    pub id: usize,
    /// The level of each factor, by index, in the order of [`Experiment::factors`].
    pub levels: Vec<usize>,
    /// Its phases, data, limits and subject.
    pub spec: TrialSpec,
    /// The stratum: variants of one stratum are compared with that stratum's baseline.
    pub stratum: usize,
    /// Whether it is its stratum's baseline, which runs twice a block under two labels.
    pub baseline: bool,
    /// How many blocks it runs in.
    pub blocks: Blocks,
}

/// How many blocks run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocks {
    /// Minimum.
    pub min: u32,
    /// Maximum; equal to `min` if the number is fixed. Between the two, interim analyses decide whether more blocks
    /// run.
    pub max: u32,
}

/// What is compared with what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compare {
    /// Factor name -> label of the level, for the factors that the baseline names; empty for no comparison.
    pub baseline: BTreeMap<String, String>,
    /// Factor name -> label of the level, for the factors that the floor names; empty for no floor.
    pub floor: BTreeMap<String, String>,
    /// The one metric that gets verdicts; by default the `time` of the first timed phase that all variants have.
    pub primary: Option<MetricName>,
    /// Further metrics declared for verdicts; they count in the family.
    pub metrics: Vec<MetricName>,
    /// Differences below this share do not matter.
    pub margin: Fraction,
    /// Family-wise error rate.
    pub alpha: Fraction,
    /// Blocks, unless a variant says otherwise.
    pub blocks: Blocks,
    /// The time that the run has: as many blocks run as fit into it, until every comparison is decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<Nanos>,
    /// Run the baseline a second time in each block (A/A).
    pub twice: bool,
    /// Operations of a phase that may fail.
    pub errors: AllowedErrors,
    /// Whether the file itself says that none may: then no call of a function may throw either.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub none_may_fail: bool,
}

/// How many operations of a phase may fail before the trial has failed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AllowedErrors {
    /// This number of operations.
    Count(u64),
    /// This share of the offered operations.
    Share(Fraction),
}

impl AllowedErrors {
    /// Whether so many failed operations of those offered are allowed.
    pub fn allows(self, errors: u64, offered: u64) -> bool {
        match self {
            Self::Count(most) => errors <= most,
            // The product may be a rounding error below the number that the share is: 0.29 * 100 is 28.999999999999996.
            Self::Share(most) => errors as f64 <= most.get() * offered as f64 * (1.0 + 4.0 * f64::EPSILON),
        }
    }
}

impl Default for AllowedErrors {
    fn default() -> Self {
        Self::Count(0)
    }
}

impl fmt::Display for AllowedErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(0) => f.write_str("none"),
            Self::Count(most) => write!(f, "{most}"),
            Self::Share(most) => f.write_str(&percent_up_to(most.get(), 6)),
        }
    }
}

impl Compare {
    /// How many operations may fail, where the file says so.
    pub fn stated_errors(&self) -> Option<AllowedErrors> {
        (self.none_may_fail || self.errors != AllowedErrors::default()).then_some(self.errors)
    }

    /// The metrics that are compared, each once; the primary metric is the first.
    pub fn figures(&self) -> Vec<&MetricName> {
        let mut figures: Vec<&MetricName> = Vec::new();
        for figure in self.primary.iter().chain(&self.metrics) {
            if !figures.contains(&figure) {
                figures.push(figure);
            }
        }
        figures
    }

    /// The interim analyses of what runs in so many blocks: fixed before the first of them.
    pub fn analyses(&self, blocks: Blocks) -> InterimAnalyses {
        match self.budget {
            Some(_) => InterimAnalyses::timed(blocks.min, blocks.max),
            None => InterimAnalyses::new(blocks.min, blocks.max),
        }
    }
}

/// How trials are observed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Observe {
    /// Samples of the process tree per second, 1 to 100.
    pub hertz: u32,
    /// Interval of the throughput series.
    pub throughput: Nanos,
    /// How much is measured before and after each trial.
    pub care: Care,
    /// What one extra trial of each variant profiles; `None` for no such trials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<ProfileOf>,
    /// Command lines, variables and texts of programs are part of the record.
    pub record_commands: bool,
    /// Whether calls such as `fsync` are counted; `None` where the file leaves it to [`Experiment::counts_syncs`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub syncs: Option<bool>,
}

impl Default for Observe {
    fn default() -> Self {
        let throughput = Nanos::from_millis(100);
        Self { hertz: 10, throughput, care: Care::Full, profile: None, record_commands: true, syncs: None }
    }
}

/// A table asked for by `[[report.table]]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableSpec {
    /// Above the table.
    pub title: Option<String>,
    /// Factor -> labels to keep; empty keeps all.
    pub select: BTreeMap<String, Vec<String>>,
    /// Factors whose levels make the rows (joined where several).
    pub rows: Vec<String>,
    /// Factors that make one table each.
    pub tables: Vec<String>,
    /// Factors whose levels make groups of columns.
    pub columns_by: Vec<String>,
    /// The columns, in order.
    pub columns: Vec<Column>,
    /// How the trials of a variant are combined into one value.
    pub statistic: Statistic,
}

/// A column: a heading, and a text that contains metrics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Column {
    /// The heading.
    pub title: String,
    /// Literal text and expressions in turn.
    pub parts: Vec<CellPart>,
}

/// A part of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CellPart {
    /// Literal text.
    Text(String),
    /// An expression over metrics, with its format.
    Figure {
        /// The expression.
        expr: Expr,
        /// How it is printed; `None` by its unit.
        format: Option<String>,
    },
}

/// An expression over metrics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expr {
    /// A metric.
    Metric(MetricName),
    /// A constant.
    Number(f64),
    /// Left and right, by the operator.
    Binary(Box<Expr>, Operator, Box<Expr>),
}

/// An operator of cell expressions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operator {
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `/`
    Div,
}

prony_model::words! {
    /// How the trials of a variant are combined into one value.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Statistic {
        /// The median, with the spread next to it where there are several trials.
        #[default]
        Median = "median", "the median, with the spread next to it";
        /// The arithmetic mean.
        Mean = "mean", "the arithmetic mean";
        /// The least.
        Min = "min", "the lowest value";
        /// The greatest.
        Max = "max", "the highest value";
    }
}
