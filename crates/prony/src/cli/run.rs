//! `prony run`: from a file to tables.

use std::collections::BTreeSet;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use prony_core::experiment::Overrides;
use prony_core::experiment::design::Experiment;
use prony_core::plan;

use super::choice::DatabaseArg;
use super::show;
use super::{Answer, Output, terminal_width};
use crate::error::Error;
use crate::load;
use crate::results::{Database, RunHead, RunId, RunStart, RunStatus};
use crate::runner::interrupt::Interrupt;
use crate::runner::lab::Lab;
use crate::runner::observer::{JsonLines, Observer};
use crate::runner::terminal::{Manner, Terminal};
use crate::runner::{self, Campaign, Summary, unix_ms};

/// What to run and how.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The experiment; not needed with --resume
    #[arg(value_name = "FILE", required_unless_present = "resume")]
    file: Option<PathBuf>,
    #[command(flatten)]
    overrides: OverrideArguments,
    #[command(flatten)]
    database: DatabaseArg,
    /// Go on with an interrupted run: the latest, or the one with this number
    #[arg(long, value_name = "RUN", num_args = 0..=1, default_missing_value = "0")]
    resume: Option<i64>,
    /// Where stores are put while they are measured; the database's folder unless told
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    /// Print each event as a line of JSON on standard output, and no tables
    #[arg(long)]
    json: bool,
    /// Say only what needs attention while running
    #[arg(long, short)]
    quiet: bool,
}

/// What the command line changes in an experiment.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct OverrideArguments {
    /// Give a factor other levels
    #[arg(long, value_name = "FACTOR=A,B")]
    set: Vec<String>,
    /// Of the file's levels, only these
    #[arg(long, value_name = "FACTOR=A,B")]
    only: Vec<String>,
    /// So many blocks instead of the file's
    #[arg(long, value_name = "N")]
    blocks: Option<u32>,
    /// Another seed for data, order and plan
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

impl OverrideArguments {
    /// As the checker takes them.
    ///
    /// # Errors
    /// Where one is not `factor=levels`.
    pub fn read(&self) -> Result<Overrides, Error> {
        let pairs = |option: &str, texts: &[String]| {
            texts.iter().map(|text| pair(option, text)).collect::<Result<Vec<_>, Error>>()
        };
        Ok(Overrides {
            set: pairs("--set", &self.set)?,
            only: pairs("--only", &self.only)?,
            blocks: self.blocks,
            seed: self.seed,
        })
    }
}

fn pair(option: &str, text: &str) -> Result<(String, Vec<String>), Error> {
    match text.split_once('=') {
        Some((factor, levels)) if !factor.trim().is_empty() => {
            Ok((factor.trim().to_owned(), levels.split(',').map(|level| level.trim().to_owned()).collect()))
        }
        _ => Err(Error::Arguments {
            message: format!("`{option} {text}` names no factor"),
            hint: format!("write `{option} factor=a,b`"),
        }),
    }
}

/// Runs the experiment and prints its tables.
///
/// # Errors
/// Where the file has problems or the machine refuses.
pub fn run(arguments: &Arguments, output: &mut Output<'_>) -> Result<Answer, Error> {
    let interrupt = Interrupt::listen().map_err(|source| Error::Setup { doing: "listen for signals", source })?;
    let mut observer = observer(arguments);
    let (run, summary) = match arguments.resume {
        Some(which) => resume(arguments, which, interrupt, &mut *observer)?,
        None => fresh(arguments, interrupt, &mut *observer)?,
    };
    if !arguments.json {
        let shown = show::ShowArgs::of_run(run, arguments.database.clone());
        show::show(&shown, output.terminal(), output.out)?;
    }
    Ok(if summary.failed > 0 || summary.interrupted { Answer::No } else { Answer::Yes })
}

fn observer(arguments: &Arguments) -> Box<dyn Observer> {
    if arguments.json {
        return Box::new(JsonLines::new(io::stdout()));
    }
    let live = io::stderr().is_terminal();
    Box::new(Terminal::new(io::stderr(), Manner { live, quiet: arguments.quiet, width: terminal_width() }))
}

fn fresh(arguments: &Arguments, interrupt: Interrupt, observer: &mut dyn Observer) -> Result<(RunId, Summary), Error> {
    let Some(file) = &arguments.file else {
        return Err(Error::Arguments { message: "no experiment".to_owned(), hint: "name its file".to_owned() });
    };
    let experiment = load::experiment(file, &arguments.overrides.read()?)?;
    let path = &arguments.database.database;
    let near = scratch(arguments.scratch.as_deref(), path);
    begin(&experiment, path, &near, interrupt, observer)
}

/// Begins a run of a checked experiment and runs it to its end; `near` is where scratch goes.
///
/// # Errors
/// Where the machine refuses what every trial needs, or the database what it is given.
pub fn begin(
    experiment: &Experiment,
    database: &Path,
    near: &Path,
    interrupt: Interrupt,
    observer: &mut dyn Observer,
) -> Result<(RunId, Summary), Error> {
    let plan = plan::plan(experiment);
    let mut database = Database::create(database)?;
    let lab = Lab::new(experiment, near, interrupt, observer)?;
    let run = database.begin_run(&RunStart {
        experiment,
        seed: experiment.seed(),
        host: &lab.host,
        limits: &lab.limits,
        version: env!("CARGO_PKG_VERSION"),
        started_unix_ms: unix_ms(),
        planned: u32::try_from(plan.len()).unwrap_or(u32::MAX),
    })?;
    let campaign = Campaign { database: &mut database, run, plan: &plan, done: BTreeSet::new() };
    Ok((run, runner::run(campaign, &lab, observer)?))
}

fn resume(
    arguments: &Arguments,
    which: i64,
    interrupt: Interrupt,
    observer: &mut dyn Observer,
) -> Result<(RunId, Summary), Error> {
    let path = &arguments.database.database;
    let mut database = Database::open(path)?;
    let head = resumable(&database, which)?;
    let experiment = database.load_run(head.id)?.experiment;
    if let Some(file) = &arguments.file {
        same_experiment(file, arguments, &experiment, &head)?;
    }
    let plan = plan::plan(&experiment);
    let done = database.finished_positions(head.id)?;
    database.reopen_run(head.id, u32::try_from(plan.len()).unwrap_or(u32::MAX))?;
    let near = scratch(arguments.scratch.as_deref(), path);
    let lab = Lab::new(&experiment, &near, interrupt, observer)?;
    let campaign = Campaign { database: &mut database, run: head.id, plan: &plan, done };
    Ok((head.id, runner::run(campaign, &lab, observer)?))
}

/// The run that was asked for, or the latest that is not done.
fn resumable(database: &Database, which: i64) -> Result<RunHead, Error> {
    if which > 0 {
        return database.run(RunId(which));
    }
    let unfinished = |head: &RunHead| head.status != RunStatus::Done;
    database.runs()?.into_iter().filter(unfinished).max_by_key(|head| head.id).ok_or_else(|| Error::Arguments {
        message: format!("every run in `{}` is done", database.path().display()),
        hint: "`prony run FILE` begins a new one".to_owned(),
    })
}

fn same_experiment(file: &Path, arguments: &Arguments, kept: &Experiment, head: &RunHead) -> Result<(), Error> {
    let experiment = load::experiment(file, &arguments.overrides.read()?)?;
    if experiment == *kept {
        return Ok(());
    }
    Err(Error::Arguments {
        message: format!("`{}` is not the experiment of run {}", file.display(), head.id),
        hint: "leave the file out to go on with the run as it was, or begin a new run without --resume".to_owned(),
    })
}

/// Scratch is put on the file system of the results unless told (METHOD 5.4).
fn scratch(asked: Option<&Path>, database: &Path) -> PathBuf {
    let beside = database.parent().filter(|parent| !parent.as_os_str().is_empty());
    asked.or(beside).unwrap_or(Path::new(".")).to_path_buf()
}
