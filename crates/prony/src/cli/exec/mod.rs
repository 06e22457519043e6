//! `prony exec`: measures commands without an experiment file. The commands and options are made into an experiment,
//! which is checked and stored like any other; `--save` writes its file.

pub mod arguments;
pub mod commands;
pub mod experiment_file;
pub mod exports;
pub mod from_options;
pub mod hyperfine;
pub mod parameters;
mod wording;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use prony_experiment::design::Experiment;
use prony_experiment::{ShellSyntax, shell_syntax};
use prony_model::catalog::{Anywhere, Overrides, Surroundings};
use prony_model::event::{Event, Observer};
use prony_model::outcome::Outcome;
use prony_model::program::BASE_ENV;
use prony_model::record::TrialRecord;

use super::gates::Ended;
use super::{Answer, Output, after_cleanup, listen, print_report};
use crate::error::Error;
use crate::output_file::{OutputFiles, Present};
use crate::progress::{Manner, Terminal};
pub use arguments::Arguments;
use arguments::{Sort, Style, TimeUnit};
use experiment_file::Typed;
use prony_place::output_targets::Protected;
use prony_place::startable::{Written, missing, startable};
use prony_report::profiles;
use prony_report::screen::{self, Screen};
use prony_report::{FindingLine, Options};
use prony_results::{Database, RunData};
use prony_runner::preflight::Here;
use prony_runner::{load, run};
use wording::Worded;

/// Functions and packages of a profile.
const TOP: usize = 10;

/// How often a line says how far it is where nothing is rewritten: one for each trial of milliseconds helps nobody.
const EVERY: Duration = Duration::from_secs(10);

/// The variable that hyperfine sets to the number of the run.
const ITERATION: &str = "HYPERFINE_ITERATION";

/// Runs the commands and says what they took.
///
/// # Errors
/// Where an option is at fault, a command cannot be started, or the machine refuses.
pub fn run(arguments: &Arguments, output: &mut Output<'_>) -> Result<Answer, Error> {
    arguments.shared.apply();
    let words: Vec<OsString> = std::env::args_os().collect();
    let literal = commands::is_literal(&words, arguments.command.len());
    let near = scratch()?;
    let (typed, experiment) = experiment(arguments, &words)?;
    arguments.gates.can_be_judged(&experiment, Written::AsOptions)?;
    // Before a file is opened, which makes it. This says a missing command in words of the options, of which the next knows nothing.
    startable(&experiment, Written::AsOptions).map_err(|error| codes_apart(arguments, error))?;
    let protected = Protected::of(Some(&arguments.database.database), &arguments.input);
    checked(&typed, &Here::new(&near, protected)?)?;
    let mut files = OutputFiles::of(Some(&arguments.database.database), &arguments.input);
    files.claim_of_programs(experiment.variants())?;
    let saved = arguments.save.as_ref().map(|path| files.open(path, over(arguments.force))).transpose()?;
    let exports = exports::open(&arguments.exports, &mut files)?;
    let verdicts = arguments.gates.open_summary(&mut files)?;
    saved.map_or(Ok(()), |saved| saved.write_bytes(experiment.source().as_bytes()))?;
    let interrupt = listen()?;
    let mut observer = observer(arguments, &typed);
    let note = if literal { None } else { one_command(&arguments.command, &experiment) };
    let chosen = arguments.env_all || !arguments.env.is_empty() || is_quiet(arguments);
    let variables = (!chosen && !arguments.database.database.exists()).then(few_variables);
    let warnings = warnings(&typed);
    // Before the run, which can be ended then, and again with the results.
    let notices = warnings.iter().map(notice).chain(note).chain(variables);
    notices.for_each(|notice| observer.event(&notice));
    let mut database = Database::create(&arguments.database.database)?;
    let subject = (&experiment, arguments.gates.all());
    let ran = run::begin_in(subject, &mut database, &near, interrupt, &mut observer, |_, _| Ok(()));
    let (id, summary) = ran.map_err(|error| wording::of_options(error, &typed))?;
    drop(observer);
    let data = database.load_run(id)?;
    let cleaned = summary.cleaned().map_err(|error| wording::of_options(error, &typed));
    let (interrupted, failed) = (summary.interrupted, summary.failed);
    let judged = arguments.gates.judge(&data, Ended { interrupted, wrong: None, failed, cleaned: cleaned.is_ok() });
    arguments.style.colour().into_iter().for_each(|colour| output.set_colour(colour));
    let file = arguments.save.as_ref().map(|path| path.display().to_string());
    let resume = print_report::resume(&database, &data, &arguments.database.option(), file.as_deref())?;
    let options = Options { resume, warnings, ..options(arguments, &experiment) };
    if arguments.style != Style::None {
        output.print(&said(&database, &data, arguments)?)?;
        print_report::print(&database, &data, &options, None, output)?;
    }
    exports.into_iter().try_for_each(|export| export.write(&database, &data, output))?;
    let append = || {
        let report = || prony_report::build(&data, &Options { brief: false, ..options });
        verdicts.as_ref().map_or(Ok(()), |file| judged.append(&data, &report(), file))
    };
    judged.print(|text| if arguments.style == Style::None { Ok(()) } else { output.print(text) }, append)?;
    after_cleanup(judged.answer, cleaned)
}

/// Where scratch lies: not in the folder where the commands run, which may list its files.
fn scratch() -> Result<PathBuf, Error> {
    let set = std::env::var_os("TMPDIR").filter(|folder| !folder.is_empty());
    let near = set.map_or_else(|| "/tmp".into(), PathBuf::from);
    if !near.is_dir() {
        let message = format!("`{}`, to which TMPDIR is set, is not a directory", near.display());
        return Err(Error::arguments(message, "set TMPDIR to one that exists, or remove it: `unset TMPDIR`"));
    }
    Ok(near)
}

/// What was typed, and the experiment that repeats it; `words` are all that were typed. What it needs here is not asked.
///
/// # Errors
/// Where an option or a command is at fault.
pub fn experiment(arguments: &Arguments, words: &[OsString]) -> Result<(Typed, Experiment), Error> {
    let typed = from_options::typed(arguments, commands::is_literal(words, arguments.command.len()))?;
    let experiment = checked(&typed, &Anywhere)?;
    Ok((typed, experiment))
}

/// The experiment of what was typed, with the faults that it has in these surroundings.
fn checked(typed: &Typed, surroundings: &dyn Surroundings) -> Result<Experiment, Error> {
    load::text(typed.to_toml(), "the options", &Overrides::default(), surroundings)
        .map_err(|error| wording::of_options(error, typed))
}

/// That a command is not there, where it may be meant as the value of `-i`, which stands behind `=`.
fn codes_apart(arguments: &Arguments, error: prony_place::Error) -> Error {
    let all = arguments.ignore_failure.as_deref() == Some("all-non-zero");
    let codes = arguments.command.first().filter(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    match codes.filter(|word| all && from_options::success(word).is_ok()) {
        Some(codes) => Error::arguments(
            error.to_string(),
            format!("write exit codes to ignore behind `=`, without a blank: `-i={codes}`"),
        ),
        None => error.into(),
    }
}

/// Whether only warnings and failures are printed while trials run.
fn is_quiet(arguments: &Arguments) -> bool {
    arguments.quiet || arguments.style == Style::None
}

fn observer<'t>(arguments: &Arguments, typed: &'t Typed) -> impl Observer + use<'t> {
    // A line that is rewritten would mix with what commands print.
    let shows = typed.commands.iter().any(|command| command.output == experiment_file::Output::Word("inherit"));
    let live = arguments.style.is_live(screen::shows_messages() && !shows);
    let manner = Manner { live, quiet: is_quiet(arguments), width: screen::columns(), every: EVERY };
    Worded { observer: Terminal::new(Screen::messages(), manner), typed }
}

/// A warning as it is printed before the trials run; the report repeats it.
fn notice(warning: &FindingLine) -> Event {
    let FindingLine { severity, text, hint } = warning;
    Event::Notice { text: format!("{severity}: {text}"), hint: Some(hint.clone()) }
}

/// What to say of a command in words of a shell that does not run in one.
fn warnings(typed: &Typed) -> Vec<FindingLine> {
    let all = typed.commands.iter();
    let line = |text: String, hint: &str| FindingLine { severity: "warning", text, hint: hint.to_owned() };
    let unset = all.clone().flat_map(|command| &command.words).find(|text| text.contains(ITERATION)).map(|text| {
        let text = format!("`{text}`: prony sets no variable `{ITERATION}`");
        line(text, "a trial has a directory of its own, `$TMPDIR`, for files of its own")
    });
    let texts = all.filter(|command| typed.shell.is_empty() && command.is_text());
    let warning = |text: &String| {
        let syntax = shell_syntax(text)?;
        let hint = match syntax {
            ShellSyntax::Variable => {
                "`--env NAME=VALUE` sets a variable; to run the commands in a shell: `prony exec -S sh ...`"
            }
            ShellSyntax::Sign(_) => "to run the commands in a shell: `prony exec -S sh ...`",
        };
        Some(line(format!("`{text}` does not run in a shell: {syntax}"), hint))
    };
    let absent = typed.inherit.iter().filter(|name| std::env::var_os(name).is_none()).map(|name| {
        let text = format!("`--env {name}`: the variable is not set here, and the commands do not get it");
        line(text, "check its name; `--env NAME=VALUE` sets a variable")
    });
    texts.flat_map(|command| &command.words).filter_map(warning).chain(unset).chain(absent).collect()
}

/// Says that words are one command, of which each is the name of a program: other benchmark runners take them for several.
fn one_command(words: &[String], experiment: &Experiment) -> Option<Event> {
    let (first, more) = words.split_first()?;
    let program = experiment.variants().first()?.spec.subject.program()?;
    let is_program = |word: &str| missing(program, word, Written::AsOptions).is_none();
    let names_one = |text: &String| text.split_whitespace().next().is_some_and(is_program);
    // A file here that is no command by this name may be meant all the same.
    let is_here = |text: &String| text.split_whitespace().next().is_some_and(|word| is_program(&format!("./{word}")));
    let is_several = first.contains(char::is_whitespace) || more.iter().any(|word| word == commands::BETWEEN);
    let apart = if more.iter().all(names_one) {
        words.iter().map(|word| vec![word.as_str()]).collect()
    } else {
        commands::apart(words, |text| names_one(text) || is_here(text))
    };
    if is_several || apart.len() < 2 {
        return None;
    }
    let between = format!(" {} ", commands::BETWEEN);
    let all: Vec<String> = apart.iter().map(|command| command.join(" ")).collect();
    let hint = format!(
        "`prony exec {}` compares several commands; to measure one command without this note, write `--` before it",
        all.join(&between)
    );
    Some(Event::Notice { text: format!("note: `{}` is measured as one command", words.join(" ")), hint: Some(hint) })
}

/// Other benchmark runners hand over all variables; said once for each database.
fn few_variables() -> Event {
    let names = BASE_ENV.join(", ");
    let text = format!("note: of the variables of the environment, commands get {names}, and no others");
    Event::Notice { text, hint: Some("`--env NAME` hands over one more, `--env-all` all of them".to_owned()) }
}

/// What the report shows.
fn options(arguments: &Arguments, experiment: &Experiment) -> Options {
    Options {
        brief: !arguments.all,
        programs: arguments.all,
        time_unit: arguments.time_unit.map(TimeUnit::name),
        commands: experiment_file::names(experiment),
        by_median: arguments.sort == Sort::MeanTime,
        database: arguments.database.option(),
        ..Options::default()
    }
}

/// What stands above the report: where the variables may be at fault, and profiles.
fn said(database: &Database, data: &RunData, arguments: &Arguments) -> Result<String, Error> {
    let mut out = String::new();
    if !arguments.env_all && data.trials.iter().any(is_not_found) {
        let names = BASE_ENV.join(", ");
        out += &format!(
            "note: commands get only the environment variables {names}; `--env NAME` or `--env-all` passes others on\n"
        );
    }
    for profile in profiles::load(database, data, |_| true)? {
        out += &format!("profile of {}\n", prony_report::profile::text(&profile, |_| true, TOP));
    }
    Ok(out)
}

/// Whether a trial may have failed because a program was not found, for which missing variables may be the cause.
fn is_not_found(trial: &TrialRecord) -> bool {
    let says_so = |text: &String| text.to_lowercase().contains("not found");
    match trial.ending.outcome {
        Outcome::Failed { code: Some(127) } => true,
        Outcome::Failed { .. } => trial.ending.evidence.iter().any(says_so),
        _ => false,
    }
}

/// What `--save` does with a file that is there.
const fn over(force: bool) -> Present {
    if force {
        Present::Replaced
    } else {
        Present::Refused("name another file, or add `--force` to overwrite this one, which was not changed")
    }
}
