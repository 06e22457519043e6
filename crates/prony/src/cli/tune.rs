//! `prony tune`: searches the setting (one value for each varied factor) that is best in one metric while other metrics
//! stay within bounds.

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
use crate::search::tune;

/// Examples of `prony tune --help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  prony tune sourcing.toml --minimize source.time --subject-to 'source.rss.peak < 600 MB' \\
      --over chunk=10..10000,log --over pause=0..10
  prony tune sourcing.toml --minimize source.time --over 'chunking.batch=10..10000,log' --budget 20min
  prony tune cache.toml --maximize write.rate --over batch=1..1000,log --only store=lmdb

A setting has one value for each `--over`. The default setting is the file's baseline, else the first level of each
factor; `--default` names another. The search runs settings in interleaved blocks, drops those that are clearly worse
or whose answers or work differ from the default's, and makes the grid finer near the best. The winner is then compared
with the default in fresh blocks; only the fresh blocks give the verdict.
Exit code 1: no setting satisfies the constraints, no other setting can be compared with the default since answers or
work differ, the best setting does not satisfy the constraints in fresh trials or is shown to be neither
better than a default that satisfies them nor as good, most fresh trials have no reading of a constraint, or the search
was interrupted.";

/// What to search.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Experiment file; not needed with --resume
    #[arg(value_name = "FILE", required_unless_present = "resume")]
    file: Option<PathBuf>,
    /// Metric that should be as low as possible
    #[arg(long, value_name = "PHASE.METRIC", conflicts_with = "maximize")]
    minimize: Option<MetricName>,
    /// Metric that should be as high as possible
    #[arg(long, value_name = "PHASE.METRIC")]
    maximize: Option<MetricName>,
    /// Constraint on each trial, such as 'source.rss.peak < 600 MB'; may be given several times
    #[arg(long, value_name = "BOUND")]
    subject_to: Vec<Constraint>,
    /// Factor to vary (or a setting of its levels, as FACTOR.SETTING) and the range of its values; may be given several
    /// times
    #[arg(long, value_name = "FACTOR=FROM..TO[,log]", required_unless_present = "resume", num_args = 1..)]
    over: Vec<Range>,
    /// Default value of a factor, in place of the file's; the winner is compared with the default
    #[arg(long, value_name = "FACTOR=VALUE")]
    default: Vec<String>,
    /// Number of values of each range in the first grid [default: 7 for one range, 4 for two, 3 for more]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=32))]
    grid: Option<u32>,
    /// Smallest step of the grid, as a share of each range [default: 5%]
    #[arg(long, value_name = "SHARE", value_parser = parse_fraction)]
    resolution: Option<Fraction>,
    /// Time for all trials, as `20 min`; the fresh blocks get the remaining time, but at least their minimum number
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    budget: Option<Nanos>,
    /// Maximum number of trials of the search, without the fresh blocks
    #[arg(long, value_name = "N")]
    max_trials: Option<u32>,
    /// Number of fresh blocks that compare the winner with the default [default: the file's if it has more than 6, else 6..30]
    // Hints of the fresh run, which is an ordinary run, name `--blocks`.
    #[arg(long, visible_alias = "blocks", value_name = "N[..M]", value_parser = blocks)]
    confirm: Option<Blocks>,
    #[command(flatten)]
    overrides: OverrideArguments,
    #[command(flatten)]
    search: SearchArguments,
}

/// Searches, confirms, and prints what came of it.
///
/// # Errors
/// Where the file, a range or a metric is at fault, or the machine refuses.
pub fn run(arguments: &Arguments, output: &mut Output<'_>) -> Result<Answer, Error> {
    let own = [
        ("`--minimize`", arguments.minimize.is_some()),
        ("`--maximize`", arguments.maximize.is_some()),
        ("`--subject-to`", !arguments.subject_to.is_empty()),
        ("`--over`", !arguments.over.is_empty()),
        ("`--default`", !arguments.default.is_empty()),
        ("`--grid`", arguments.grid.is_some()),
        ("`--resolution`", arguments.resolution.is_some()),
        ("`--budget`", arguments.budget.is_some()),
        ("`--max-trials`", arguments.max_trials.is_some()),
        ("`--confirm`", arguments.confirm.is_some()),
    ];
    let options = [&own[..], &arguments.overrides.given()].concat();
    let given = (arguments.file.as_ref(), &options[..]);
    let tuned = arguments.search.open(given, || asked(arguments), tune::run)?;
    output.print(&tuned.said)?;
    after_cleanup(if tuned.is_good() { Answer::Yes } else { Answer::No }, tuned.cleaned())
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
        resolution: arguments.resolution.map_or(0.05, Fraction::get).max(0.001),
        budget: arguments.budget,
        max_trials: arguments.max_trials,
        confirm: arguments.confirm,
    })
}

/// The metric and its direction. A verdict says faster or slower according to the direction that is better for the
/// metric, so the search must have the same direction.
fn objective(arguments: &Arguments) -> Result<(MetricName, bool), Error> {
    let (name, maximize) = match (&arguments.minimize, &arguments.maximize) {
        (Some(name), _) => (name, false),
        (None, Some(name)) => (name, true),
        (None, None) => {
            return Err(Error::arguments(
                "no metric to minimize or maximize is given",
                "write `--minimize PHASE.METRIC`, as `--minimize source.time`, or `--maximize`",
            ));
        }
    };
    let (other, word) = if maximize { ("--minimize", "lower") } else { ("--maximize", "higher") };
    let fits = match name.key.metric.better() {
        Better::Lower => !maximize,
        Better::Higher => maximize,
        Better::Neither => true,
    };
    if fits {
        return Ok((name.clone(), maximize));
    }
    Err(Error::arguments(format!("for `{name}`, a {word} value is better"), format!("write `{other} {name}`")))
}

fn default(text: &str) -> Result<(String, String), Error> {
    let pair = text.split_once('=').map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()));
    pair.ok_or_else(|| Error::arguments(format!("`--default {text}` gives no value"), "write `--default factor=value`"))
}

/// `12`, or `6..30` for as many as it takes.
fn blocks(text: &str) -> Result<Blocks, String> {
    let number = |text: &str| text.trim().parse::<u32>().map_err(|_| format!("`{text}` is not a number of blocks"));
    let (min, max) = match text.split_once("..") {
        Some((min, max)) => (number(min)?, number(max)?),
        None => (number(text)?, number(text)?),
    };
    if min < MIN_BLOCKS || max < min || max > 10_000 {
        return Err(format!("a verdict needs at least {MIN_BLOCKS} blocks; write `12`, or `6..30`"));
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
