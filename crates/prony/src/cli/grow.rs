//! `prony grow`: how far a factor can be raised.

use std::path::PathBuf;

use prony_core::experiment::Overrides;
use prony_core::search::{GrowSettings, Range};
use prony_core::units::{Fraction, parse_fraction};

use super::choice::DatabaseArg;
use super::run::{OverrideArguments, observer, variables};
use super::{Answer, Output};
use crate::error::Error;
use crate::results::{Database, RunId, RunStatus};
use crate::runner::interrupt::Interrupt;
use crate::runner::scratch;
use crate::search::Means;
use crate::search::grow::{self, Wanted};

/// Examples of `prony grow --help`.
pub const EXAMPLES: &str = "\
Examples:
  prony grow sourcing.toml --raise documents=1_000..
      doubles `documents` from 1,000 until the experiment's limits end a trial, then bisects
  prony grow sourcing.toml --raise documents=1_000..10_000_000 --only engine=lmdb --resolution 10%
  prony grow site.toml --raise 'payload=16 kB..'

Each combination of the other factors grows on its own. A value lives only where every trial of it did.
Exit code 1: nothing lives in some combination, or the search was interrupted.";

/// What to raise and how finely.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The experiment; not needed with --resume
    #[arg(value_name = "FILE", required_unless_present = "resume")]
    file: Option<PathBuf>,
    /// The factor, where it begins, and, where it has to, where it ends
    #[arg(long, value_name = "FACTOR=FROM..[TO]", required_unless_present = "resume")]
    raise: Option<Range>,
    /// How narrow the gap between what lives and what dies becomes
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = parse_fraction)]
    resolution: Fraction,
    /// So many trials at each side of the edge
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    confirm: u32,
    #[command(flatten)]
    overrides: OverrideArguments,
    #[command(flatten)]
    search: SearchArguments,
}

/// What every search takes.
#[derive(Debug, clap::Args)]
pub struct SearchArguments {
    /// Go on with an interrupted search: the latest, or the run with this number
    #[arg(long, value_name = "RUN", num_args = 0..=1, default_missing_value = "0")]
    pub resume: Option<i64>,
    /// Write every trial and every decision to this file, a line of JSON each
    #[arg(long, value_name = "FILE")]
    pub journal: Option<PathBuf>,
    /// Where stores are put while they are measured; the database's folder unless told
    #[arg(long, value_name = "DIR")]
    pub scratch: Option<PathBuf>,
    /// Say only what needs attention while running
    #[arg(long, short)]
    pub quiet: bool,
    /// Where the results are
    #[command(flatten)]
    pub database: DatabaseArg,
}

/// Raises the factor and prints how far it went.
///
/// # Errors
/// Where the file or the range is at fault, or the machine refuses.
pub fn run(arguments: &Arguments, output: &mut Output<'_>) -> Result<Answer, Error> {
    let interrupt = Interrupt::listen().map_err(|source| Error::Setup { doing: "listen for signals", source })?;
    let search = &arguments.search;
    let (wanted, resumed) = match search.resume {
        Some(which) => interrupted(&search.database, which, "grow")?,
        None => (asked(arguments)?, None),
    };
    let mut observer = observer(search.quiet);
    let path = &search.database.database;
    let near = scratch(search.scratch.as_deref(), path);
    let means =
        Means { database: path, near: &near, interrupt, journal: search.journal.as_deref(), observer: &mut *observer };
    let found = grow::run(wanted, resumed, means)?;
    drop(observer);
    output.print(&found.said)?;
    output.print(&format!("every trial: `prony show {}`\n", found.run))?;
    let yes = found.status == RunStatus::Done && found.all_live();
    Ok(if yes { Answer::Yes } else { Answer::No })
}

fn asked(arguments: &Arguments) -> Result<Wanted, Error> {
    let (Some(file), Some(range)) = (&arguments.file, &arguments.raise) else {
        return Err(Error::Arguments { message: "no experiment".to_owned(), hint: "name its file".to_owned() });
    };
    if range.low <= 0.0 {
        return Err(Error::Arguments {
            message: format!("`{range}` begins at 0, which doubling does not leave"),
            hint: format!("write `--raise {}=1..`", range.name),
        });
    }
    let settings =
        GrowSettings { range: range.clone(), resolution: arguments.resolution.get(), confirm: arguments.confirm };
    Ok(Wanted { file: file.clone(), overrides: arguments.overrides.read()?, settings })
}

/// The search that was asked for, or the latest that is not done, and its settings; with the variables of now, since
/// none are kept.
///
/// # Errors
/// Where there is none, or the run is of another kind.
pub fn interrupted<T: serde::de::DeserializeOwned + AsMut<Overrides>>(
    database: &DatabaseArg,
    which: i64,
    kind: &str,
) -> Result<(T, Option<RunId>), Error> {
    let database = Database::open(&database.database)?;
    let mut wanted = None;
    for head in database.runs()? {
        let asked = if which > 0 { head.id.0 == which } else { head.status != RunStatus::Done };
        let first = if asked { database.journal(head.id)?.into_iter().next() } else { None };
        if let Some(first) = first.filter(|first| first["search"] == kind) {
            wanted = Some((head.id, head.status, first["wanted"].clone()));
        }
    }
    let none = || Error::Arguments {
        message: format!("no interrupted search by `prony {kind}` in `{}`", database.path().display()),
        hint: format!("`prony {kind} FILE ...` begins a new one; `prony ls` lists the runs"),
    };
    let (run, status, settings) = wanted.ok_or_else(none)?;
    if status == RunStatus::Done {
        return Err(none());
    }
    let broken = |source| Error::Json { what: "the search's settings", source };
    let mut wanted: T = serde_json::from_value(settings).map_err(broken)?;
    wanted.as_mut().variables = variables();
    Ok((wanted, Some(run)))
}
