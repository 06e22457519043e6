//! `prony grow`: finds how far a factor can be raised until the subject fails.

use std::path::PathBuf;

use prony_analysis::search::{GrowSettings, Range};
use prony_model::units::{Fraction, parse_fraction};

use super::run::OverrideArguments;
use super::searching::{SearchArguments, named};
use super::{Answer, Output, after_cleanup};
use crate::error::Error;
use crate::search::found::GrowWanted;
use crate::search::grow;

/// Examples of `prony grow --help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  prony grow sourcing.toml --raise documents=1_000..
      doubles `documents` from 1,000 until the experiment's limits end a trial, then bisects
  prony grow sourcing.toml --raise documents=1_000..10_000_000 --only engine=lmdb --resolution 10%
  prony grow site.toml --raise 'payload=16 kB..'

Each combination of the other factors' levels is searched separately. A value succeeds only if every trial with it
succeeded.
Exit code 1: no value succeeds in some combination, disturbances from outside ended its search, or the search was
interrupted.";

/// What to raise and how finely.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Experiment file; not needed with --resume
    #[arg(value_name = "FILE", required_unless_present = "resume")]
    file: Option<PathBuf>,
    /// Factor to raise (or a setting of its levels, as FACTOR.SETTING), its first value, and its last; the last value
    /// is needed only without a limit of memory or time
    #[arg(long, value_name = "FACTOR=FROM..[TO]", required_unless_present = "resume")]
    raise: Option<Range>,
    /// Search until the largest value that succeeds and the next that fails differ by at most this share of the former
    /// [default: 5%]
    #[arg(long, value_name = "SHARE", value_parser = parse_fraction)]
    resolution: Option<Fraction>,
    /// Number of trials of the largest value that succeeds, and of the next that fails [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    confirm: Option<u32>,
    #[command(flatten)]
    overrides: OverrideArguments,
    #[command(flatten)]
    search: SearchArguments,
}

/// Raises the factor and prints how far it went.
///
/// # Errors
/// Where the file or the range is at fault, or the machine refuses.
pub fn run(arguments: &Arguments, output: &mut Output<'_>) -> Result<Answer, Error> {
    let own = [
        ("`--raise`", arguments.raise.is_some()),
        ("`--resolution`", arguments.resolution.is_some()),
        ("`--confirm`", arguments.confirm.is_some()),
    ];
    let options = [&own[..], &arguments.overrides.given()].concat();
    let given = (arguments.file.as_ref(), &options[..]);
    let found = arguments.search.open(given, || asked(arguments), grow::run)?;
    output.print(&found.said)?;
    let database = arguments.search.database.option();
    output.print(&format!("every trial: `prony show {}{database}`\n", found.run))?;
    let yes = !found.summary.interrupted && found.all_succeed();
    after_cleanup(if yes { Answer::Yes } else { Answer::No }, found.summary.cleaned())
}

fn asked(arguments: &Arguments) -> Result<GrowWanted, Error> {
    let file = named(arguments.file.as_ref())?;
    let Some(range) = &arguments.raise else {
        return Err(Error::arguments("no factor to raise is given", "write `--raise FACTOR=FROM..`"));
    };
    if range.low <= 0.0 {
        return Err(Error::arguments(
            format!("`{range}` must start above 0, since each step doubles the value"),
            format!("write `--raise {}=1..`", range.name),
        ));
    }
    let settings = GrowSettings {
        range: range.clone(),
        resolution: arguments.resolution.map_or(0.05, Fraction::get),
        confirm: arguments.confirm.unwrap_or(3),
    };
    Ok(GrowWanted { file, overrides: arguments.overrides.read()?, settings })
}
