//! Figures of a run: as data for the page, and as static SVG pictures for a README.

pub mod data;
mod draw;

use std::str::FromStr;

use prony_model::metric::MetricName;

use crate::error::Error;
use data::Source;
use prony_analysis::verdicts;
use prony_results::{Database, RunData, RunId};

/// A kind of picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Every trial a dot with its variant's interval beside it.
    Effects,
    /// A figure against a numeric factor, on log axes.
    Growth,
    /// CPU, memory and I/O over time.
    Timeline,
    /// Latency percentile curves.
    Latency,
    /// Frequency curves of sampled groups of operations.
    Samples,
    /// Operations per second over the time of a phase.
    Throughput,
    /// Calls of profiled variants by the time spent below them.
    Flame,
}

impl Figure {
    /// Every kind, in the order of the report.
    pub const ALL: [Self; 7] =
        [Self::Effects, Self::Growth, Self::Timeline, Self::Latency, Self::Samples, Self::Throughput, Self::Flame];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Effects => "effects",
            Self::Growth => "growth",
            Self::Timeline => "timeline",
            Self::Latency => "latency",
            Self::Samples => "samples",
            Self::Throughput => "throughput",
            Self::Flame => "flame",
        }
    }

    /// What it shows, in a few words.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Effects => "every trial a dot, with its variant's interval",
            Self::Growth => "a figure against a numeric factor, on log axes, with fit and outcomes",
            Self::Timeline => "CPU, memory and I/O over time, variants overlaid",
            Self::Latency => "latency percentile curves",
            Self::Samples => "frequency curves of sampled operations, as ratio to the baseline",
            Self::Throughput => "operations per second over time",
            Self::Flame => "calls of profiled variants by the time spent below them",
        }
    }
}

impl FromStr for Figure {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|f| f.name() == text).ok_or_else(|| {
            let known: Vec<&str> = Self::ALL.into_iter().map(Self::name).collect();
            format!("`{text}` is not a figure; known: {}", known.join(", "))
        })
    }
}

/// What to draw and how large.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The figure of `effects` and `growth`; the primary metric unless told.
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
    let metric = options.metric.clone().or_else(|| verdicts::declared(&data.experiment).into_iter().next());
    let canvas = draw::Canvas { source, width: f64::from(options.width.max(320)) };
    match (figure, metric) {
        (Figure::Effects, Some(metric)) => Ok(draw::effects::draw(canvas, &verdicts::of(data), &metric)),
        (Figure::Growth, Some(metric)) => Ok(draw::growing::draw(canvas, &metric)),
        (Figure::Effects | Figure::Growth, None) => Ok(None),
        (Figure::Timeline, _) => draw::timeline::draw(canvas),
        (Figure::Latency, _) => draw::latency::draw(canvas),
        (Figure::Samples, _) => draw::samples::draw(canvas),
        (Figure::Throughput, _) => draw::throughput::draw(canvas),
        (Figure::Flame, _) => draw::flame::draw(canvas),
    }
}
