//! `prony tune`: the setting that is best in one figure and keeps bounds on others.

use std::path::PathBuf;

use prony_analysis::search::{Constraint, Range};
use prony_experiment::design::Blocks;
use prony_model::metric::{Better, MetricName};
use prony_model::units::{Fraction, Nanos, parse_fraction, parse_span};
use prony_stats::MIN_BLOCKS;

use super::run::OverrideArguments;
use super::searching::{SearchArguments, named};
use super::{Answer, Output, after_cleanup};
use crate::error::Error;
use crate::search::found::TuneWanted;
use crate::search::journal::Asked;
use crate::search::tune;

/// Examples of `prony tune --help`.
pub const EXAMPLES: &str = "\
Examples:
  prony tune sourcing.toml --minimize source.time --subject-to 'source.rss.peak < 600 MB' \\
      --over chunk=10..10000,log --over pause=0..10
  prony tune sourcing.toml --minimize source.time --over 'chunking.batch=10..10000,log' --budget 20min
  prony tune cache.toml --maximize write.rate --over batch=1..1000,log --only store=lmdb

The default is the baseline's setting in the file, else the first level; `--default` names another. Settings that are
clearly worse are dropped in interleaved blocks over a grid that becomes finer near the best; the winner is then
compared with the default in fresh blocks, and only those give the verdict.
Exit code 1: no setting satisfies the constraints, the winner does not satisfy them in fresh trials or is worse than
the default, most fresh trials have no reading of a constraint, or the search was interrupted.";

/// What to search.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The experiment; not needed with --resume
    #[arg(value_name = "FILE", required_unless_present = "resume")]
    file: Option<PathBuf>,
    /// The figure that is to be least
    #[arg(long, value_name = "PHASE.METRIC", conflicts_with = "maximize")]
    minimize: Option<MetricName>,
    /// The figure that is to be most
    #[arg(long, value_name = "PHASE.METRIC")]
    maximize: Option<MetricName>,
    /// A constraint on each trial, as 'source.rss.peak < 600 MB'; may be given several times
    #[arg(long, value_name = "BOUND")]
    subject_to: Vec<Constraint>,
    /// What is varied and between which values: a factor, or FACTOR.KEY of its levels; may be given several times
    #[arg(long, value_name = "FACTOR=FROM..TO[,log]", required_unless_present = "resume", num_args = 1..)]
    over: Vec<Range>,
    /// The present value, where it is not the file's
    #[arg(long, value_name = "FACTOR=VALUE")]
    default: Vec<String>,
    /// Values on each axis of the first grid [default: 7 for one range, 4 for two, 3 for more]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=32))]
    grid: Option<u32>,
    /// How fine the steps become, as a share of each range
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = parse_fraction)]
    resolution: Fraction,
    /// Time for all trials, as `20 min`; the fresh blocks get the remaining time, but at least their minimum number
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    budget: Option<Nanos>,
    /// Trials of the search at most; the fresh blocks come on top
    #[arg(long, value_name = "N")]
    max_trials: Option<u32>,
    /// Fresh blocks of the winner against the default [default: the file's, or 6..30]
    #[arg(long, value_name = "N[..M]", value_parser = blocks)]
    confirm: Option<Blocks>,
    #[command(flatten)]
    overrides: OverrideArguments,
    #[command(flatten)]
    search: SearchArguments,
}

/// Searches, confirms, and prints what came of it.
///
/// # Errors
/// Where the file, a range or a figure is at fault, or the machine refuses.
pub fn run(arguments: &Arguments, output: &mut Output<'_>) -> Result<Answer, Error> {
    let tuned = arguments.search.open("tune", of_kind, || asked(arguments), tune::run)?;
    output.print(&tuned.said)?;
    after_cleanup(if tuned.is_good() { Answer::Yes } else { Answer::No }, tuned.cleaned())
}

fn of_kind(asked: Asked) -> Option<TuneWanted> {
    if let Asked::Tune(wanted) = asked { Some(wanted) } else { None }
}

fn asked(arguments: &Arguments) -> Result<TuneWanted, Error> {
    let (objective, maximize) = objective(arguments)?;
    Ok(TuneWanted {
        file: named(arguments.file.as_ref())?,
        overrides: arguments.overrides.read()?,
        ranges: arguments.over.clone(),
        objective,
        maximize,
        constraints: arguments.subject_to.clone(),
        defaults: arguments.default.iter().map(|text| default(text)).collect::<Result<_, _>>()?,
        grid: arguments.grid,
        resolution: arguments.resolution.get().max(0.001),
        budget: arguments.budget,
        max_trials: arguments.max_trials,
        confirm: arguments.confirm,
    })
}

/// The figure and its direction. A verdict says faster or slower by the metric's own better end, so that must be meant.
fn objective(arguments: &Arguments) -> Result<(MetricName, bool), Error> {
    let (name, maximize) = match (&arguments.minimize, &arguments.maximize) {
        (Some(name), _) => (name, false),
        (None, Some(name)) => (name, true),
        (None, None) => {
            return Err(Error::Arguments {
                message: "nothing says what is best".to_owned(),
                hint: "write `--minimize PHASE.METRIC`, as `--minimize source.time`, or `--maximize`".to_owned(),
            });
        }
    };
    let (other, word) = if maximize { ("--minimize", "less") } else { ("--maximize", "more") };
    let fits = match name.key.metric.better() {
        Better::Lower => !maximize,
        Better::Higher => maximize,
        Better::Neither => true,
    };
    if fits {
        return Ok((name.clone(), maximize));
    }
    Err(Error::Arguments { message: format!("of `{name}`, {word} is better"), hint: format!("write `{other} {name}`") })
}

fn default(text: &str) -> Result<(String, String), Error> {
    let pair = text.split_once('=').map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()));
    pair.ok_or_else(|| Error::Arguments {
        message: format!("`--default {text}` gives no value"),
        hint: "write `--default factor=value`".to_owned(),
    })
}

/// `12`, or `6..30` for as many as it takes.
fn blocks(text: &str) -> Result<Blocks, String> {
    let number = |text: &str| text.trim().parse::<u32>().map_err(|_| format!("`{text}` is no number of blocks"));
    let (min, max) = match text.split_once("..") {
        Some((min, max)) => (number(min)?, number(max)?),
        None => (number(text)?, number(text)?),
    };
    if min < MIN_BLOCKS || max < min || max > 10_000 {
        return Err(format!("a verdict takes at least {MIN_BLOCKS} blocks; write `12`, or `6..30`"));
    }
    Ok(Blocks { min, max })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_a_number_or_a_span() {
        assert_eq!(blocks("12"), Ok(Blocks { min: 12, max: 12 }));
        assert_eq!(blocks("6..30"), Ok(Blocks { min: 6, max: 30 }));
        for wrong in ["5", "9..7", "x", "6..", "1..30"] {
            assert!(blocks(wrong).is_err(), "{wrong}");
        }
    }
}
