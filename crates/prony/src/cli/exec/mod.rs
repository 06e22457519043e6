//! `prony exec`: commands are measured without an experiment file. What was typed becomes an experiment, checked and kept like any
//! other; `--save` writes the file that repeats it.

pub mod file;
pub mod summary;
pub mod timeline;

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use prony_analysis::guard::run::failures;
use prony_model::catalog::{Anywhere, Overrides};
use prony_model::program::Runtime;
use prony_model::record::{ProcessSeries, TrialRecord};

use super::choice::{DatabaseArg, RunChoice, SharedArg};
use super::report::{ReportArgs, ReportFormat, What};
use super::{Answer, Output};
use crate::error::Error;
use crate::progress::{Manner, Terminal};
use file::{Command, Typed};
use prony_analysis::verdicts;
use prony_report::profiles;
use prony_report::screen::{self, Screen, one_line};
use prony_results::{Database, RunData, RunId};
use prony_runner::interrupt::Interrupt;
use prony_runner::load;
use prony_runner::observer::Observer;
use prony_runner::paths::utf8;

/// Functions and packages of a profile.
const TOP: usize = 10;

/// Columns of a course of CPU and memory, at most.
const COURSE: usize = 60;

/// What to run and how.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// So many trials of each command [default: 10 of one; of several 6 to 30, until it is settled]
    #[arg(long, short, value_name = "N")]
    runs: Option<u32>,
    /// As many trials of each command as fit into this time, as `4 min`, until it is decided how they compare
    #[arg(long, value_name = "TIME", conflicts_with = "runs")]
    budget: Option<String>,
    /// Runs of each command before the first trial, thrown away
    #[arg(long, short, value_name = "N", default_value_t = 0)]
    warmup: u32,
    /// Done before each trial, by `sh -c`
    #[arg(long, short, value_name = "CMD")]
    prepare: Option<String>,
    /// Done after the last trial of each command, by `sh -c`
    #[arg(long, short, value_name = "CMD")]
    cleanup: Option<String>,
    /// Memory limit of the whole process tree, as `512 MB`
    #[arg(long, value_name = "SIZE")]
    memory: Option<String>,
    /// Processors' worth of CPU time
    #[arg(long, value_name = "N")]
    cpus: Option<f64>,
    /// Processes and threads at most
    #[arg(long, value_name = "N")]
    pids: Option<u32>,
    /// Time limit of each trial, as `30 s`
    #[arg(long, value_name = "TIME")]
    time: Option<String>,
    /// A file that each command reads
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// A variable for the commands; without a value it is taken over. Others than PATH, HOME, LANG and their like are not
    #[arg(long, value_name = "NAME[=VALUE]")]
    env: Vec<String>,
    /// Run the commands by a shell, which is measured with them
    #[arg(long, short = 'S', value_name = "SHELL", num_args = 0..=1, default_missing_value = "sh", require_equals = true)]
    shell: Option<String>,
    /// Run the commands without a shell; it is the default
    #[arg(short = 'N', conflicts_with = "shell")]
    no_shell: bool,
    /// Any exit code is as good as 0
    #[arg(long, short)]
    ignore_failure: bool,
    /// Discard the output instead of recording its beginning and end
    #[arg(long)]
    discard_output: bool,
    /// A terminal for the output
    #[arg(long)]
    pty: bool,
    /// The language runtime of the commands, `node` or `python`: a probe reads its heap
    #[arg(long, value_parser = runtime)]
    runtime: Option<Runtime>,
    /// Name of a command in tables, in the commands' order; may be given several times
    #[arg(long, short = 'n', value_name = "NAME")]
    name: Vec<String>,
    /// Samples a second
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100))]
    hertz: u32,
    /// Profile one more run of each command, which counts in no figure: V8's own profiler with `--runtime node`, else `perf`
    #[arg(long)]
    profile: bool,
    /// Omit command lines and variables from the results database; a command without --name is called `a`, `b` ...
    #[arg(long)]
    omit_commands: bool,
    /// Count calls such as `fsync`; each system call on the machine then takes some 40 ns longer
    #[arg(long)]
    syncs: bool,
    /// Write the experiment file that repeats this; never over another without --force
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Let --save write over a file
    #[arg(long, requires = "save")]
    force: bool,
    /// Write the results as JSON
    #[arg(long, value_name = "FILE")]
    export_json: Option<PathBuf>,
    /// Write the results as CSV
    #[arg(long, value_name = "FILE")]
    export_csv: Option<PathBuf>,
    /// Write the results as Markdown
    #[arg(long, value_name = "FILE")]
    export_markdown: Option<PathBuf>,
    /// Print only warnings while running
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    database: DatabaseArg,
    #[command(flatten)]
    shared: SharedArg,
    /// The command and its arguments; `--vs` begins another, which is compared with the first
    #[arg(value_name = "CMD", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

fn runtime(name: &str) -> Result<Runtime, String> {
    Runtime::named(name).ok_or_else(|| {
        let known = Runtime::ALL.map(|runtime| format!("`{}`", runtime.name())).join(" and ");
        format!("there are {known}; programs of other languages need no `--runtime`")
    })
}

/// Runs the commands and says what they took.
///
/// # Errors
/// Where an option is at fault, a command cannot be started, or the machine refuses.
pub fn run(arguments: &Arguments, output: &mut Output<'_>) -> Result<Answer, Error> {
    arguments.shared.apply();
    let text = typed(arguments)?.to_toml();
    let file = arguments.save.clone().unwrap_or_else(|| PathBuf::from("experiment.toml"));
    // The run itself reports what is missing: there is no file of the user's that `check` could show.
    let experiment = load::text(text.clone(), &file.display().to_string(), &Overrides::default(), &Anywhere)?;
    if let Some(path) = &arguments.save {
        save(path, &text, arguments.force)?;
    }
    let exports = exports(arguments)?;
    let interrupt = Interrupt::listen().map_err(|source| Error::Setup { doing: "listen for signals", source })?;
    let mut observer = observer(arguments);
    // Not where the commands run: they may look at what lies there.
    let near = std::env::temp_dir();
    let mut database = Database::create(&arguments.database.database)?;
    let (id, summary) = prony_runner::begin_in(&experiment, &mut database, &near, interrupt, &mut *observer)?;
    drop(observer);
    let data = database.load_run(id)?;
    output.print(&said(&database, &data, output.width)?)?;
    exports.into_iter().try_for_each(|export| export.write(arguments, id))?;
    summary.cleaned()?;
    Ok(if summary.failed > 0 || summary.interrupted { Answer::No } else { Answer::Yes })
}

fn observer(arguments: &Arguments) -> Box<dyn Observer> {
    let live = screen::shows_messages();
    // Without a terminal, a line for each trial of milliseconds is of no use.
    Box::new(Terminal::new(
        Screen::messages(),
        Manner { live, quiet: arguments.quiet || !live, width: screen::columns() },
    ))
}

fn typed(arguments: &Arguments) -> Result<Typed, Error> {
    let mut commands = Vec::new();
    for (at, words) in arguments.command.split(|word| word == "--vs").enumerate() {
        if words.is_empty() {
            let (message, hint) =
                ("`--vs` stands between two commands".to_owned(), "`prony exec -- A --vs B`".to_owned());
            return Err(Error::Arguments { message, hint });
        }
        commands.push(Command { words: words.to_vec(), name: arguments.name.get(at).cloned() });
    }
    if arguments.name.len() > commands.len() {
        let message = format!("{} names for {} commands", arguments.name.len(), commands.len());
        return Err(Error::Arguments { message, hint: "give at most one `--name` for each command".to_owned() });
    }
    let (set, taken): (Vec<&String>, Vec<&String>) = arguments.env.iter().partition(|text| text.contains('='));
    let pair = |text: &String| text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    let env: Vec<(String, String)> = set.into_iter().filter_map(pair).collect();
    let mut names = BTreeSet::new();
    if let Some((name, _)) = env.iter().find(|(name, _)| !names.insert(name)) {
        let message = format!("`--env` sets `{name}` twice");
        return Err(Error::Arguments { message, hint: "set each variable once".to_owned() });
    }
    Ok(Typed {
        commands,
        title: None,
        runs: arguments.runs,
        budget: arguments.budget.clone(),
        warmup: arguments.warmup,
        prepare: arguments.prepare.clone(),
        cleanup: arguments.cleanup.clone(),
        memory: arguments.memory.clone(),
        cpus: arguments.cpus,
        pids: arguments.pids,
        time: arguments.time.clone(),
        input: arguments.input.as_deref().map(absolute).transpose()?,
        env,
        inherit: taken.into_iter().cloned().collect(),
        shell: arguments.shell.clone(),
        discard: arguments.discard_output,
        pty: arguments.pty,
        any_exit: arguments.ignore_failure,
        runtime: arguments.runtime,
        directory: absolute(Path::new("."))?,
        hertz: arguments.hertz,
        profile: arguments.profile,
        omit: arguments.omit_commands,
        syncs: arguments.syncs,
    })
}

/// Whatever folder the saved file lies in, it means this place.
fn absolute(path: &Path) -> Result<String, Error> {
    let found = std::fs::canonicalize(path).map_err(|source| Error::ReadFile { path: path.to_owned(), source })?;
    Ok(utf8(&found)?.to_owned())
}

/// Each command's figures, then the verdicts.
fn said(database: &Database, data: &RunData, width: Option<usize>) -> Result<String, Error> {
    let experiment = &data.experiment;
    let mut out = String::new();
    out.extend(failures(experiment, &data.trials).map(|text| format!("{}\n", one_line(&text))));
    for variant in experiment.variants() {
        let trials: Vec<&TrialRecord> = data.trials.iter().filter(|trial| trial.trial.variant == variant.id).collect();
        let label =
            experiment.factors().first().map_or(experiment.title(), |factor| &factor.levels[variant.levels[0]].label);
        let shown = median_trial(&trials).map(|trial| course(database, data, trial)).transpose()?;
        let width = width.map_or(COURSE, |width| width.saturating_sub(50).clamp(10, COURSE));
        let courses = shown.and_then(|series| timeline::of(&series, width));
        out += &summary::of(&one_line(label), &trials, courses, experiment.counts_syncs());
    }
    for line in &verdicts::of(data).lines {
        out += &format!("{}\n", one_line(&line.sentence));
    }
    for profile in profiles::load(database, data, |_| true)? {
        out += &format!("\nprofile of {}", prony_report::profile::text(&profile, |_| true, TOP));
    }
    Ok(out)
}

/// The trial's samples since its program was released: what was held before is no memory of the program's.
fn course(database: &Database, data: &RunData, trial: &TrialRecord) -> Result<Vec<ProcessSeries>, Error> {
    let mut series = database.load_series(data.head.id, trial.trial.position)?;
    let begin = trial.phases.iter().filter_map(|phase| phase.begin).min().unwrap_or_default();
    series.iter_mut().for_each(|process| process.samples.retain(|sample| sample.at > begin));
    Ok(series)
}

/// The trial whose time is the middle one, of those that ended well.
fn median_trial<'t>(trials: &[&'t TrialRecord]) -> Option<&'t TrialRecord> {
    let mut sorted: Vec<&TrialRecord> = trials.iter().filter(|trial| trial.ending.outcome.is_ok()).copied().collect();
    sorted.sort_by_key(|trial| trial.took);
    sorted.get(sorted.len() / 2).copied()
}

/// Writes the file that repeats the command. Devices and pipes hold nothing that could be lost.
fn save(path: &Path, text: &str, force: bool) -> Result<(), Error> {
    if path.is_file() && !force {
        return Err(Error::Arguments {
            message: format!("`{}` exists already", path.display()),
            hint: "name another file, or add `--force` to write over it".to_owned(),
        });
    }
    std::fs::write(path, text).map_err(|source| Error::Write { what: format!("`{}`", path.display()), source })
}

/// A file for results, open before anything runs: hours later would be late to learn that it cannot be written.
struct Export {
    path: PathBuf,
    file: File,
    format: ReportFormat,
}

fn exports(arguments: &Arguments) -> Result<Vec<Export>, Error> {
    let files = [
        (&arguments.export_json, ReportFormat::Json),
        (&arguments.export_csv, ReportFormat::Csv),
        (&arguments.export_markdown, ReportFormat::Markdown),
    ];
    let open = |(path, format): (&Option<PathBuf>, _)| {
        let path = path.clone()?;
        // What an earlier run wrote stays until there is something to put in its place.
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
        let unwritten = |source| Error::Write { what: format!("`{}`", path.display()), source };
        Some(file.map_err(unwritten).map(|file| Export { path, file, format }))
    };
    files.into_iter().filter_map(open).collect()
}

impl Export {
    fn write(self, arguments: &Arguments, run: RunId) -> Result<(), Error> {
        let Self { path, file, format } = self;
        let unwritten = |source| Error::Write { what: format!("`{}`", path.display()), source };
        let is_file = file.metadata().is_ok_and(|about| about.is_file());
        if is_file {
            file.set_len(0).map_err(unwritten)?;
        }
        let run = RunChoice::Number(run.0);
        let database = arguments.database.clone();
        let (what, output) = (What::Results, None);
        let wanted = ReportArgs { run, database, format, what, output, processes: false, html: false };
        let mut out = BufWriter::new(file);
        super::report::report(&wanted, &mut out)?;
        out.flush().map_err(unwritten)
    }
}
