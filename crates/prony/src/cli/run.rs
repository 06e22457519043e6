//! `prony run`: runs the experiment of a file and prints its tables.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use prony_experiment::design::Experiment;
use prony_model::catalog::{Anywhere, Overrides};
use prony_model::event::{Event, Observer};
use prony_model::trial::PlannedTrial;
use prony_model::units::{Nanos, parse_span};
use prony_os::interrupt::Interrupt;

use super::gates::{Ended, GateArguments};
use super::run_selection::{DatabaseArg, RunChoice, SharedArg};
use super::show;
use super::{Answer, Output, after_cleanup, listen, say};
use crate::error::Error;
use crate::json_lines::JsonLines;
use crate::output_file::OutputFiles;
use crate::progress::Terminal;
use crate::search::journal::{self, Asked};
use prony_analysis::crash;
use prony_analysis::guard::findings;
use prony_place::output_targets::Protected;
use prony_place::startable::Written;
use prony_report::Options;
use prony_report::screen::Data;
use prony_results::{Database, RunData, RunHead, RunId, RunStatus};
use prony_runner::preflight::Here;
use prony_runner::run::{self, Summary};
use prony_runner::{load, scratch};

/// What to run and how.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  prony run experiment.toml
  prony run experiment.toml --only store=lmdb --blocks 12
  prony run gate.toml --fail-if 'write.time slower 5%'
  prony run --resume")]
pub struct Arguments {
    /// Experiment file; not needed with --resume
    #[arg(value_name = "FILE", required_unless_present = "resume")]
    file: Option<PathBuf>,
    #[command(flatten)]
    overrides: RunOverrideArguments,
    #[command(flatten)]
    database: DatabaseArg,
    #[command(flatten)]
    shared: SharedArg,
    /// Resume an interrupted run: the latest, or the run with this number (`-2`: the one before the latest run)
    #[arg(long, value_name = "RUN", num_args = 0..=1, default_missing_value = "latest", allow_negative_numbers = true)]
    resume: Option<RunChoice>,
    /// Where stores are put while they are measured; default: the folder of the database
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    /// Print each event as a line of JSON on standard output, and no tables
    #[arg(long)]
    json: bool,
    /// Print only warnings while running
    #[arg(long, short)]
    quiet: bool,
    /// Run as many blocks as fit into this time, such as `20 min`; stop earlier once every comparison is decided
    #[arg(long, value_name = "TIME", value_parser = parse_span, conflicts_with_all = ["blocks", "resume"])]
    budget: Option<Nanos>,
    #[command(flatten)]
    gates: GateArguments,
}

/// What the command line changes in an experiment.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct OverrideArguments {
    /// Replace the levels of a factor, as `chunk=10,100`; with FACTOR.SETTING, replace the values of one setting in its
    /// levels, as `store.batch=10,100`
    #[arg(long, value_name = "FACTOR[.SETTING]=A,B")]
    set: Vec<String>,
    /// Run only these of the factor's levels
    #[arg(long, value_name = "FACTOR=A,B")]
    only: Vec<String>,
    /// Seed for data, order and plan, in place of the file's
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

impl OverrideArguments {
    /// Its options, and which of them were given.
    pub(crate) fn given(&self) -> [(&'static str, bool); 3] {
        [("`--set`", !self.set.is_empty()), ("`--only`", !self.only.is_empty()), ("`--seed`", self.seed.is_some())]
    }

    /// As the checker takes them.
    ///
    /// # Errors
    /// Where one is not `factor=levels`, or two are of one factor.
    pub(crate) fn read(&self) -> Result<Overrides, Error> {
        let pairs = |option: &str, texts: &[String]| {
            let all = texts.iter().map(|text| pair(option, text)).collect::<Result<Vec<_>, Error>>()?;
            once(option, &all)?;
            Ok::<_, Error>(all)
        };
        Ok(Overrides {
            set: pairs("--set", &self.set)?,
            only: pairs("--only", &self.only)?,
            seed: self.seed,
            variables: variables(),
            ..Overrides::default()
        })
    }
}

/// The same, with the number of blocks.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct RunOverrideArguments {
    #[command(flatten)]
    overrides: OverrideArguments,
    /// Number of blocks, in place of the file's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    blocks: Option<u32>,
}

impl RunOverrideArguments {
    /// Its options, and which of them were given.
    fn given(&self) -> [(&'static str, bool); 4] {
        let [set, only, seed] = self.overrides.given();
        [set, only, ("`--blocks`", self.blocks.is_some()), seed]
    }

    /// As [`OverrideArguments::read`].
    pub(crate) fn read(&self) -> Result<Overrides, Error> {
        Ok(Overrides { blocks: self.blocks, ..self.overrides.read()? })
    }
}

/// Refuses options that a resumed run or search would ignore, since it goes on with those that it began with.
///
/// # Errors
/// [`Error::Arguments`] with those that were given.
pub(crate) fn none_given(kind: &str, with: &str, options: &[(&'static str, bool)]) -> Result<(), Error> {
    let given: Vec<&str> = options.iter().filter_map(|(option, given)| given.then_some(*option)).collect();
    if given.is_empty() {
        return Ok(());
    }
    Err(Error::arguments(
        format!("a {kind} is resumed {with}, without {}", given.join(", ")),
        format!("leave these options out, or start a new {kind} without --resume"),
    ))
}

/// The environment variables that `{env.NAME}` can name, with their current values.
pub fn variables() -> BTreeMap<String, String> {
    // Those whose name and value are UTF-8: no other can stand in a file.
    let text = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
    std::env::vars_os().filter_map(text).collect()
}

fn pair(option: &str, text: &str) -> Result<(String, Vec<String>), Error> {
    match text.split_once('=') {
        Some((factor, levels)) if !factor.trim().is_empty() => {
            Ok((factor.trim().to_owned(), levels.split(',').map(|level| level.trim().to_owned()).collect()))
        }
        _ => {
            Err(Error::arguments(format!("`{option} {text}` names no factor"), format!("write `{option} factor=a,b`")))
        }
    }
}

/// Refuses an option that names a factor a second time: one of the two would be ignored.
fn once(option: &str, all: &[(String, Vec<String>)]) -> Result<(), Error> {
    for (at, (name, levels)) in all.iter().enumerate() {
        if let Some((_, before)) = all[..at].iter().find(|(other, _)| other == name) {
            let joined: Vec<&str> = before.iter().chain(levels).map(String::as_str).collect();
            return Err(Error::arguments(
                format!("`{option} {name}` is given twice"),
                format!("write all levels in one: `{option} {name}={}`", joined.join(",")),
            ));
        }
    }
    Ok(())
}

/// Runs the experiment and prints its tables.
///
/// # Errors
/// Where the file has problems or the machine refuses.
pub fn run(arguments: &Arguments, output: &mut Output<'_>) -> Result<Answer, Error> {
    arguments.shared.apply();
    let interrupt = listen()?;
    let mut files = OutputFiles::of(Some(&arguments.database.database), &arguments.file);
    let summary = arguments.gates.open_summary(&mut files)?;
    let mut observer: Box<dyn Observer> =
        if arguments.json { Box::new(JsonLines::new(Data::stdout())) } else { observer(arguments.quiet) };
    let (run, ended) = match arguments.resume {
        Some(which) => resume(arguments, which, &mut files, interrupt, &mut *observer)?,
        None => fresh(arguments, &mut files, interrupt, &mut *observer)?,
    };
    if !arguments.json {
        show::show(&show::ShowArgs::of_run(run, arguments.database.clone()), output)?;
    }
    let data = Database::open(&arguments.database.database)?.load_run(run)?;
    let cleaned = ended.cleaned();
    // A resumed run's trials of earlier sessions count as those of this one.
    let failed = data.head.finished.saturating_sub(data.head.ok);
    let (interrupted, wrong, cleaned_up) = (ended.interrupted, wrong(&data), cleaned.is_ok());
    let judged = arguments.gates.judge(&data, Ended { interrupted, wrong, failed, cleaned: cleaned_up });
    let append = || {
        let file = summary.as_ref();
        file.map_or(Ok(()), |file| judged.append(&data, &prony_report::build(&data, &Options::default()), file))
    };
    let print = |text: &str| {
        if arguments.json {
            say(text);
            return Ok(());
        }
        output.print(text)
    };
    judged.print(print, append)?;
    after_cleanup(judged.answer, cleaned)
}

/// What is wrong whatever was to be compared: variants that were to give the same answers gave other ones, a crash trial broke a
/// promise, or crash trials tested none.
fn wrong(data: &RunData) -> Option<&'static str> {
    let found = findings::of_run(&data.experiment, &data.trials, None, true);
    let differ = found.iter().any(|finding| finding.guard == "answers_differ");
    differ.then_some("the answers of variants differ").or_else(|| crash::fault(&data.experiment, &data.cuts))
}

/// Reports to people, on the standard error stream.
pub fn observer(quiet: bool) -> Box<dyn Observer> {
    Box::new(Terminal::on_messages(quiet))
}

fn fresh(
    arguments: &Arguments,
    files: &mut OutputFiles,
    interrupt: Interrupt,
    observer: &mut dyn Observer,
) -> Result<(RunId, Summary), Error> {
    let Some(file) = &arguments.file else {
        return Err(Error::arguments("no experiment file is given", "name the file: `prony run FILE`"));
    };
    let path = &arguments.database.database;
    let near = scratch::folder(arguments.scratch.as_deref(), path);
    let overrides = Overrides { budget: arguments.budget, ..arguments.overrides.read()? };
    let experiment = load::experiment(file, &overrides, &Here::new(&near, Protected::of(Some(path), [file]))?)?;
    arguments.gates.can_be_judged(&experiment, Written::InFile)?;
    files.claim_of_programs(experiment.variants())?;
    for (text, hint) in load::warnings(&experiment, file) {
        observer.event(&Event::Notice { text, hint });
    }
    let subject = (&experiment, arguments.gates.all());
    Ok(run::begin_in(subject, &mut Database::create(path)?, &near, interrupt, observer, |_, _| Ok(()))?)
}

fn resume(
    arguments: &Arguments,
    which: RunChoice,
    files: &mut OutputFiles,
    interrupt: Interrupt,
    observer: &mut dyn Observer,
) -> Result<(RunId, Summary), Error> {
    let path = &arguments.database.database;
    if arguments.file.is_none() {
        none_given("run", "with its recorded experiment", &arguments.overrides.given())?;
    }
    let mut database = Database::open(path)?;
    let head = resumable(&database, which)?;
    // Before its trials are read, of which another session could add some.
    if head.status != RunStatus::Done {
        database.take_run(head.id)?;
    }
    let RunData { head, experiment: recorded, trials, .. } = database.load_run(head.id)?;
    arguments.gates.can_be_judged(&recorded, Written::InFile)?;
    if head.status == RunStatus::Done {
        let text = format!("run {} is done: nothing was run", head.id);
        observer.event(&Event::Notice { text, hint: None });
        return Ok((head.id, Summary::default()));
    }
    let experiment = match &arguments.file {
        Some(file) => same_experiment(file, arguments, &recorded, &head)?,
        None if !recorded.lacks_commands() => recorded,
        None => {
            return Err(Error::arguments(
                format!("run {} recorded no command lines", head.id),
                format!("name the experiment file: `prony run FILE --resume {}`", head.id),
            ));
        }
    };
    files.claim_of_programs(experiment.variants())?;
    let done: Vec<PlannedTrial> = trials.iter().map(|trial| trial.trial).collect();
    let near = scratch::folder(arguments.scratch.as_deref().or(head.scratch.as_deref()), path);
    let subject = (&experiment, arguments.gates.all());
    let summary = run::resume_in(subject, (&mut database, head.id), &done, &near, interrupt, observer)?;
    Ok((head.id, summary))
}

/// The run that was asked for, or the latest that is not done; a search plans as it goes and resumes by itself, and so it
/// does with the comparison of its winner, of which it checks the constraints.
fn resumable(database: &Database, which: RunChoice) -> Result<RunHead, Error> {
    let mut found = None;
    let which = which.to_resume(database)?;
    for head in database.runs()? {
        let asked = which.map_or(head.status != RunStatus::Done, |which| head.id == which);
        let search = if asked { journal::asked(database, head.id)? } else { None };
        if asked && let Some(of) = journal::search_of(database, head.id)? {
            if let Some(which) = which {
                return Err(Error::arguments(
                    format!("run {which} is a part of search {of}"),
                    format!("to resume this search: `prony tune --resume {of}`"),
                ));
            }
            continue;
        }
        match (search.as_ref().map(Asked::command), which) {
            (Some(kind), Some(which)) => {
                return Err(Error::arguments(
                    format!("run {which} is a search"),
                    format!("to resume this search: `prony {kind} --resume {which}`"),
                ));
            }
            (None, _) if asked => found = Some(head),
            _ => {}
        }
    }
    found.ok_or_else(|| {
        Error::arguments(
            format!("no interrupted run in `{}`", database.path().display()),
            "to start a new run: `prony run FILE`; `prony grow --resume` and `prony tune --resume` resume searches",
        )
    })
}

fn same_experiment(
    file: &Path,
    arguments: &Arguments,
    recorded: &Experiment,
    head: &RunHead,
) -> Result<Experiment, Error> {
    // `--budget` is no part of the file, and is not given again.
    let overrides = Overrides { budget: recorded.compare().budget, ..arguments.overrides.read()? };
    let experiment = load::with_absolute_paths(load::experiment(file, &overrides, &Anywhere)?)?;
    if *experiment.recorded() == *recorded {
        return Ok(experiment);
    }
    Error::if_changed(&experiment.changed_variables(recorded), head.id, "run")?;
    let hint = if !recorded.lacks_commands() {
        "leave the file out to resume the run with its recorded experiment, or start a new run without --resume"
    } else {
        "the command lines of this run were not stored: resume it with the file and the options that it was started with, \
         or start a new run without --resume; fresh blocks of `prony tune` cannot be resumed then: start a new search"
    };
    Err(Error::arguments(format!("`{}` is not the experiment of run {}", file.display(), head.id), hint))
}
