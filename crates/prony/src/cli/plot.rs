//! `prony plot`: draws a chart of a run as a static SVG image.

use std::path::PathBuf;

use prony_model::metric::MetricName;

use super::Output;
use super::run_selection::{DatabaseArg, RunChoice};
use crate::error::Error;
use crate::output_file::{OutputFiles, Present};
use prony_report::plot::{Figure, Options, draw, figures};
use prony_results::Database;

/// Draw a chart of a run as an SVG image
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  prony plot
  prony plot latest effects --output effects.svg")]
pub struct PlotArgs {
    /// Number of the run; `-2` is the run before the latest
    #[arg(value_name = "RUN", default_value = "latest", allow_negative_numbers = true)]
    pub run: RunChoice,
    /// Chart to draw: effects, growth, durability, timeline, latency, samples, throughput, flame; without CHART, the charts that
    /// are available for the run are listed
    #[arg(value_name = "CHART")]
    pub figure: Option<Figure>,
    /// Where the results are
    #[command(flatten)]
    pub database: DatabaseArg,
    /// Metric that `effects` and `growth` show, such as `write.time`; default: the primary metric
    #[arg(long, value_name = "PHASE.METRIC")]
    pub metric: Option<MetricName>,
    /// Width in pixels; the height follows
    #[arg(long, value_name = "N", default_value_t = 860, value_parser = clap::value_parser!(u32).range(320..=4000))]
    pub width: u32,
    /// File to write; default: standard output
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Draws a chart to `--output`, or else to `output`; without a name of a chart, lists those that the run offers.
///
/// # Errors
/// Those of the database, [`Error::Latency`], [`Error::Arguments`], [`Error::Write`].
pub fn plot(args: &PlotArgs, output: &mut Output<'_>) -> Result<(), Error> {
    let database = Database::open(&args.database.database)?;
    let run = args.run.find(&database)?;
    let Some(figure) = args.figure else {
        let lines = figures(&database, run)?.into_iter().map(|f| format!("{:<11} {}\n", f.name(), f.meaning()));
        return output.print(&lines.collect::<String>());
    };
    let ending = args.output.as_ref().and_then(|path| path.extension());
    if let Some(ending) = ending.filter(|ending| !ending.eq_ignore_ascii_case("svg")) {
        let message = format!("charts are written as SVG, and not as `.{}`", ending.display());
        return Err(Error::arguments(message, "let the file end in `.svg`; browsers and image programs convert it"));
    }
    let text = draw(&database, run, figure, &Options { metric: args.metric.clone(), width: args.width })?;
    let Some(path) = &args.output else { return output.print_data(&text) };
    OutputFiles::of(Some(database.path()), []).open(path, Present::Replaced)?.write_bytes(text.as_bytes())
}
