//! The command line: parses the arguments and runs the function of the command. Each command has a file of its own.

use std::io::{self, IsTerminal, Write};
use std::num::{IntErrorKind, ParseFloatError, ParseIntError};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Parser, Subcommand};

use crate::error::Error;
pub use output::Output;
use output::UntilClosed;
use prony_model::metric::MetricError;
use prony_os::interrupt::Interrupt;
use prony_report::screen::{self, Screen};

pub mod calibrate;
pub mod check;
pub mod compare;
pub mod completions;
pub mod data;
pub mod doctor;
pub mod engines;
pub mod exec;
mod gates;
pub mod grow;
pub mod hidden;
pub mod import;
pub mod load;
pub mod ls;
pub mod man;
pub mod mark;
pub mod new;
mod output;
mod plan_table;
pub mod plot;
pub mod powercut;
mod print_report;
pub mod profile;
pub mod report;
pub mod rm;
pub mod run;
pub mod run_selection;
pub mod schema;
pub(crate) mod searching;
pub mod show;
pub(crate) mod sparklines;
pub mod tune;

/// Measures data stores and the programs built on them, and refuses to mislead.
#[derive(Debug, Parser)]
#[command(name = "prony", version, max_term_width = 100, disable_help_subcommand = true)]
#[command(after_help = "Examples:
  prony exec 'sleep 0.1' 'sleep 0.2'                      # compares two commands
  prony new --for store && prony run experiment.toml      # compares two storage engines
  prony show --all                                        # shows the latest run again, with all tables")]
struct Arguments {
    /// Colour: on a terminal only, always, or never (NO_COLOR is respected)
    #[arg(long, global = true, value_enum, default_value_t = Colour::Auto)]
    color: Colour,
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Colour {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run an experiment: every trial in fresh processes, in randomised blocks
    Run(run::Arguments),
    /// Measure commands without an experiment file: `prony exec -- A --vs B`
    Exec(Box<exec::Arguments>),
    /// Raise a factor until the subject fails under a limit: the largest value that succeeds, and how the next one fails
    Grow(Box<grow::Arguments>),
    /// Search for the factor values that are best in one metric under constraints on others, then compare them with the
    /// default
    Tune(Box<tune::Arguments>),
    /// Load an HTTP server without an experiment file: rate, errors and latencies of its answers
    Load(Box<load::Arguments>),
    /// Mark the begin or end of a phase from a measured program's script
    Mark(mark::Arguments),
    /// Show the plan of an experiment; run nothing
    Check(check::Arguments),
    /// Write a new experiment file: a commented template, or one for commands written as for `prony exec`
    New(new::Arguments),
    /// Print the JSON Schema of the experiment file
    Schema(schema::Arguments),
    /// Show the results in a JSON file of hyperfine
    Import(import::Arguments),
    /// Print the tables of a run
    Show(show::ShowArgs),
    /// Write the results of a run as a document or as data
    Report(report::ReportArgs),
    /// Compute the verdicts of a stored run again, or show two runs side by side
    Compare(compare::Arguments),
    /// Write the records that an experiment generates to a file
    Data(data::Arguments),
    /// Draw a chart of a run as an SVG image
    Plot(plot::PlotArgs),
    /// Show where the time of a profiled run goes
    Profile(profile::ProfileArgs),
    /// Show what can be measured on this machine, its limits, and how to enable the rest
    Doctor(doctor::Arguments),
    /// Simulate power failures: a file system that makes the disk as it may look after one
    #[command(
        subcommand,
        after_help = "Examples:
  mkdir /tmp/mount && prony powercut mount /tmp/mount --state /var/tmp/powercut
  prony powercut cut /tmp/mount --images 10 --into /tmp/images
  prony powercut images /tmp/images/cut --images 10 --into /tmp/more --seed 8"
    )]
    Powercut(powercut::Command),
    /// Check prony's measurements on this machine with programs whose true values are known
    Calibrate(calibrate::Arguments),
    /// List the runs in the results database
    Ls(ls::LsArgs),
    /// Remove a run from the results database
    Rm(rm::RmArgs),
    /// List the storage engines of this build: versions, durability promises, options
    Engines(engines::Arguments),
    /// Print a script that completes commands and options in a shell
    Completions(completions::Arguments),
    /// Write manual pages into a folder
    Man(man::Arguments),
}

/// Columns of tables where the output is not a terminal.
const PLAIN_WIDTH: usize = 120;

/// What a command ends with when nothing went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Done: exit code 0.
    Yes,
    /// Done, and the answer is no: exit code 1.
    No,
    /// Done, and what was asked cannot be judged: exit code 2.
    CannotJudge,
}

impl Answer {
    /// The exit code.
    const fn code(self) -> u8 {
        match self {
            Self::Yes => 0,
            Self::No => 1,
            Self::CannotJudge => 2,
        }
    }
}

const fn yes((): ()) -> Answer {
    Answer::Yes
}

/// A `cleanup` that failed is an error; where the answer is no already it is only said, and the exit code stays 1.
fn after_cleanup(answer: Answer, cleaned: Result<(), impl Into<Error>>) -> Result<Answer, Error> {
    match cleaned.map_err(Into::into) {
        Err(error) if answer == Answer::No => say(&error.text()),
        cleaned => cleaned?,
    }
    Ok(answer)
}

/// Notices from now on when the user asks to stop.
fn listen() -> Result<Interrupt, Error> {
    Interrupt::listen().map_err(Error::setup("listen for signals"))
}

/// The commands and options, as they are documented.
pub fn definitions() -> clap::Command {
    Arguments::command()
}

/// Runs the command that was typed.
pub fn main() -> ExitCode {
    // Where it cannot be installed, a write beyond the limit ends the process, as it does in other programs.
    let _ = prony_os::file_size::let_writes_fail();
    // Started for each trial, or many of them, with one word: reading it as what a person types takes a millisecond.
    let mut typed = std::env::args_os().skip(1);
    if let Some(word) = typed.next()
        && let Some(hidden) = hidden::of(&word, typed.next().is_some())
    {
        return hidden();
    }
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return not_parsed(&error),
    };
    // Data are written as long as somebody reads them: there may be terabytes.
    let mut stdout: Box<dyn Write> = match arguments.command {
        Command::Data(_) => Box::new(screen::stdout()),
        _ => Box::new(UntilClosed(screen::stdout())),
    };
    let terminal = screen::shows_output();
    let colour = match arguments.color {
        Colour::Always => true,
        Colour::Never => false,
        Colour::Auto => terminal && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()),
    };
    let width = Some(if terminal { screen::columns() } else { PLAIN_WIDTH });
    let mut output = Output::new(&mut stdout, terminal, width, colour);
    let answer = dispatch(arguments.command, &mut output).and_then(|answer| output.flush().map(|()| answer));
    match answer {
        Ok(answer) => ExitCode::from(answer.code()),
        Err(error) if error.is_broken_pipe() => ExitCode::SUCCESS,
        Err(error) => {
            say(&error.text());
            ExitCode::from(2)
        }
    }
}

/// What was typed makes no command, or asks for help.
fn not_parsed(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        return match error.print() {
            Err(source) if source.kind() != io::ErrorKind::BrokenPipe => {
                say(&Error::write("the output")(source).text());
                ExitCode::from(2)
            }
            _ => ExitCode::SUCCESS,
        };
    }
    let known = [unknown_option, unknown_command, no_command, no_number, no_metric, out_of_range, no_such_value];
    let known = known.into_iter().find_map(|known| known(error));
    say(&known.map_or_else(|| error.render().to_string(), |error| error.text()));
    ExitCode::from(2)
}

/// What the parser says of an error, the first of several texts.
fn context(error: &clap::Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::Strings(texts) => texts.first().cloned(),
        value => Some(value.to_string()),
    }
}

/// That an option does not take a value.
fn invalid_value(error: &clap::Error) -> String {
    let [value, option] =
        [ContextKind::InvalidValue, ContextKind::InvalidArg].map(|kind| context(error, kind).unwrap_or_default());
    format!("invalid value `{value}` for `{option}`")
}

/// An option that does not exist; the parser would propose to pass it as a value first.
fn unknown_option(error: &clap::Error) -> Option<Error> {
    let option = context(error, ContextKind::InvalidArg)?;
    if error.kind() != ErrorKind::UnknownArgument || !option.starts_with('-') {
        return None;
    }
    let near = context(error, ContextKind::SuggestedArg).map(|near| format!("did you mean `{near}`? "));
    let hint = format!("{}`--help` lists the options", near.unwrap_or_default());
    Some(Error::arguments(format!("unknown option `{option}`"), hint))
}

/// A command that does not exist.
fn unknown_command(error: &clap::Error) -> Option<Error> {
    let command = context(error, ContextKind::InvalidSubcommand)?;
    let near = context(error, ContextKind::SuggestedSubcommand).map(|near| format!("did you mean `prony {near}`? "));
    let typed = || shell_words::quote(&command).into_owned();
    // A file, or a command to measure, where a command of prony belongs.
    let meant = || match command.rsplit_once('.') {
        Some((_, "toml")) => format!("to run that experiment file: `prony run {}`; ", typed()),
        _ => format!("to measure a command of your own: `prony exec {}`; ", typed()),
    };
    let hint = format!("{}`prony --help` lists the commands", near.unwrap_or_else(meant));
    Some(Error::arguments(format!("unknown command `{command}`"), hint))
}

/// `prony exec` without a command: the parser only names what is missing.
fn no_command(error: &clap::Error) -> Option<Error> {
    let Some(ContextValue::Strings(missing)) = error.get(ContextKind::InvalidArg) else { return None };
    let is_command =
        error.kind() == ErrorKind::MissingRequiredArgument && missing.iter().any(|name| name == "<CMD>...");
    let example = "to measure a command: `prony exec 'sleep 0.1'`; to compare two: `prony exec 'sleep 0.1' 'sleep 0.2'`; \
                   `prony exec --help` lists the options";
    let taken = "; the last option may have taken the command as its value, as in `-S SHELL`, `-L VAR VALUES`, \
                 `-P VAR MIN MAX`";
    // More than `prony exec` was typed.
    let taken = if std::env::args_os().len() > 2 { taken } else { "" };
    is_command.then(|| Error::arguments("no command to measure", format!("{example}{taken}")))
}

/// A value that is no number: the parser gives the words of Rust's own error.
fn no_number(error: &clap::Error) -> Option<Error> {
    let source = std::error::Error::source(error)?;
    let hint = match source.downcast_ref::<ParseIntError>().map(ParseIntError::kind) {
        Some(IntErrorKind::PosOverflow) => "write a smaller number; `--help` describes the option",
        Some(IntErrorKind::NegOverflow) => "write a larger number; `--help` describes the option",
        Some(_) => "write a whole number, such as 3",
        None if source.is::<ParseFloatError>() => "write a number, such as 0.5",
        None => return None,
    };
    Some(Error::arguments(invalid_value(error), hint))
}

/// A value that an option does not take, such as a number outside of its range: the parser has words of its own for it.
fn out_of_range(error: &clap::Error) -> Option<Error> {
    let source = std::error::Error::source(error).filter(|_| error.kind() == ErrorKind::ValueValidation)?.to_string();
    let message = invalid_value(error);
    let range = source.split_once(" is not in ").and_then(|(_, range)| range.split_once("..="));
    Some(match (range, source.split_once("; ")) {
        (Some((least, most)), _) => Error::arguments(message, format!("write a whole number from {least} to {most}")),
        (None, Some((what, hint))) => Error::arguments(format!("{message}: {what}"), hint),
        (None, None) => Error::arguments(format!("{message}: {source}"), "`--help` describes the values of the option"),
    })
}

/// A value that is not one of an option's.
fn no_such_value(error: &clap::Error) -> Option<Error> {
    let Some(ContextValue::Strings(all)) = error.get(ContextKind::ValidValue) else { return None };
    let named = |kind| context(error, kind).filter(|text| !text.is_empty());
    named(ContextKind::InvalidValue)?;
    let near = named(ContextKind::SuggestedValue).map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
    Some(Error::arguments(invalid_value(error), format!("{near}possible values: {}", all.join(", "))))
}

/// A value that names no metric; its own words say what to write behind a semicolon.
fn no_metric(error: &clap::Error) -> Option<Error> {
    let source = std::error::Error::source(error)?.downcast_ref::<MetricError>()?;
    let option = context(error, ContextKind::InvalidArg).unwrap_or_default();
    let text = source.to_string();
    let (what, hint) =
        text.split_once("; ").unwrap_or((&text, "`prony show --all-metrics` shows the metrics of a run"));
    Some(Error::arguments(format!("`{option}`: {what}"), hint))
}

/// Says something on standard error. Where nobody can read it there is nothing to do about that.
fn say(text: &str) {
    let _ = Screen::messages().text(text);
}

fn dispatch(command: Command, output: &mut Output<'_>) -> Result<Answer, Error> {
    match command {
        Command::Run(arguments) => run::run(&arguments, output),
        Command::Exec(arguments) => exec::run(&arguments, output),
        Command::Grow(arguments) => grow::run(&arguments, output),
        Command::Tune(arguments) => tune::run(&arguments, output),
        Command::Load(arguments) => load::run(&arguments, output),
        Command::Mark(arguments) => mark::run(&arguments).map(yes),
        Command::Check(arguments) => check::run(&arguments, output),
        Command::New(arguments) => new::run(&arguments, output),
        Command::Schema(arguments) => schema::run(&arguments, output),
        Command::Import(arguments) => import::run(&arguments, output),
        Command::Show(arguments) => show::show(&arguments, output).map(yes),
        Command::Report(arguments) => report::report(&arguments, &mut output.data()),
        Command::Compare(arguments) => compare::run(&arguments, output),
        Command::Data(arguments) => data::run(&arguments, output),
        Command::Plot(arguments) => plot::plot(&arguments, output).map(yes),
        Command::Profile(arguments) => profile::profile(&arguments, output).map(yes),
        Command::Doctor(arguments) => doctor::run(&arguments, output),
        Command::Powercut(command) => powercut::run(&command, output),
        Command::Calibrate(arguments) => calibrate::run(&arguments, output),
        Command::Ls(arguments) => ls::ls(&arguments, output).map(yes),
        Command::Rm(arguments) => remove(&arguments),
        Command::Engines(arguments) => engines::run(&arguments, output),
        Command::Completions(arguments) => completions::run(&arguments, output),
        Command::Man(arguments) => man::run(&arguments, output),
    }
}

/// An empty table, as wide as the terminal where there is one.
fn table(width: Option<usize>) -> comfy_table::Table {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::UTF8_FULL_CONDENSED);
    table.set_content_arrangement(comfy_table::ContentArrangement::Dynamic);
    table.set_width(width.and_then(|width| u16::try_from(width).ok()).unwrap_or(110));
    table
}

/// Asks on standard error, so that standard output stays clean.
fn remove(arguments: &rm::RmArgs) -> Result<Answer, Error> {
    let stdin = io::stdin();
    let mut answers = stdin.lock();
    let answers = stdin.is_terminal().then_some(&mut answers as &mut dyn io::BufRead);
    rm::rm(arguments, answers, &mut Screen::messages()).map(yes)
}
