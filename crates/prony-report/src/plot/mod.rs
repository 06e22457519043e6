//! Charts of a run: as descriptions, from which the HTML page draws, and as static SVG pictures, for example for a
//! README.

pub mod chart;
pub mod data;
mod draw;
pub mod format;

use std::str::FromStr;

use prony_model::metric::MetricName;

use crate::error::Error;
use chart::Columns;
use data::effects::{self, Judged};
use data::{Source, durability, growth, latency, representatives, samples, series, throughput, timeline};
use draw::scene::Scene;
use prony_analysis::verdicts::{self, Comparisons};
use prony_results::{Database, RunData, RunId};

prony_model::words! {
    /// A kind of picture: its name on the command line, and what it shows. The order is that of the report.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Figure {
        /// Every trial a dot with its variant's interval beside it.
        Effects = "effects", "every trial as a dot, with its variant's interval";
        /// A metric against a numeric factor, on log axes.
        Growth = "growth", "a metric against a numeric factor, on log axes, with fit and outcomes";
        /// What a crash loses against the rate of writes.
        Durability = "durability", "what a crash loses against the rate of writes, a dot for each variant";
        /// CPU, memory and I/O over time.
        Timeline = "timeline", "CPU, memory and I/O over time, variants overlaid";
        /// Latency percentile curves.
        Latency = "latency", "latency percentile curves";
        /// Frequency curves of sampled groups of operations.
        Samples = "samples", "frequency curves of sampled operations, as ratio to the baseline";
        /// Operations per second over the time of a phase.
        Throughput = "throughput", "operations per second over time";
        /// Flame graph of profiled variants: function calls by the time spent in them and in their callees.
        Flame = "flame", "flame graph of profiled variants: function calls by the time in them and their callees";
    }
}

impl FromStr for Figure {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::named(text).ok_or_else(|| {
            let known: Vec<&str> = Self::ALL.into_iter().map(Self::name).collect();
            format!("`{text}` is not a chart; known: {}", known.join(", "))
        })
    }
}

/// What to draw and how large.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The metric of `effects` and `growth`; by default the primary metric.
    pub metric: Option<MetricName>,
    /// Width in pixels at scale 1; the height follows.
    pub width: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { metric: None, width: 860 }
    }
}

/// The pictures that a run offers.
///
/// # Errors
/// Those of the database, and [`Error::Latency`].
pub fn figures(database: &Database, run: RunId) -> Result<Vec<Figure>, Error> {
    let data = database.load_run(run)?;
    let mut offered = Vec::new();
    for figure in Figure::ALL {
        if picture(database, &data, figure, &Options::default())?.is_some() {
            offered.push(figure);
        }
    }
    Ok(offered)
}

/// Draws a picture as SVG.
///
/// # Errors
/// As [`figures`]; [`Error::NoFigure`] where the run does not offer it.
pub fn draw(database: &Database, run: RunId, figure: Figure, options: &Options) -> Result<String, Error> {
    let data = database.load_run(run)?;
    if let Some(picture) = picture(database, &data, figure, options)? {
        return Ok(picture);
    }
    let of = options.metric.as_ref().map(|m| format!(" of `{m}`")).unwrap_or_default();
    Err(Error::NoFigure { run, figure: figure.name(), of })
}

fn picture(database: &Database, data: &RunData, figure: Figure, options: &Options) -> Result<Option<String>, Error> {
    let source = Source { database, data };
    let width = f64::from(options.width.max(320));
    let primary = verdicts::declared(&data.experiment).into_iter().next();
    let metric: Vec<MetricName> = options.metric.clone().or(primary).into_iter().collect();
    let trials = || representatives(source, source.variants().len());
    let mut columns = Columns::default();
    let section = match figure {
        Figure::Effects => {
            let (verdicts, comparisons) = (&verdicts::of(data), &Comparisons::new(data));
            effects::section(Judged { source, verdicts, comparisons }, &mut columns, &metric)
        }
        Figure::Growth => growth::section(source, &mut columns, &metric),
        Figure::Durability => durability::section(source, &mut columns),
        Figure::Timeline => timeline::section(source, &mut columns, &trials())?,
        Figure::Latency => latency::section(source, &mut columns)?,
        Figure::Samples => samples::section(source, &mut columns)?,
        Figure::Throughput => throughput::section(source, &mut columns, &trials())?,
        Figure::Flame => return draw::flame::draw(source, width),
    };
    let trials: Vec<usize> = data.trials.iter().map(|trial| trial.trial.variant).collect();
    let (shown, title) = match section.restricted() {
        Some(choice) => (choice.variants.clone(), format!("{}, {}", data.head.title, choice.text)),
        None => (source.variants(), data.head.title.clone()),
    };
    let mut variants = series::of_variants(&data.experiment, &shown);
    for (series, name) in variants.iter_mut().zip(series::short_names(&data.experiment, &shown)) {
        series.name = name;
    }
    let scene = Scene { columns: &columns, section: &section, variants: &variants, trials: &trials };
    Ok(draw::draw(&scene, &title, width))
}
