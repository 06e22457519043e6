//! Translates the options of `prony exec` into the content of an experiment file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use prony_model::number;

use super::arguments::Arguments;
use super::commands;
use super::experiment_file::{Command, Output, Typed};
use super::parameters::{self, Parameter};
use crate::error::Error;
use prony_place::paths::utf8;

/// Trials of one command, where nothing else was said.
const SINGLE: u32 = 10;

/// Blocks of several, at least and at most, where nothing else was said.
const BLOCKS: (u32, u32) = (6, 30);

/// What was typed; `literal` where `--` stands before the commands.
///
/// # Errors
/// Where options do not go together, or name what is not there.
pub fn typed(arguments: &Arguments, literal: bool) -> Result<Typed, Error> {
    let parameters = match arguments.parameter_scan.as_slice() {
        [] => parameters::lists(&arguments.parameter_list)?,
        scan => parameters::scan(scan, arguments.parameter_step_size.as_deref())?,
    };
    let commands = commands(arguments, literal)?;
    let shell = arguments.shell.as_deref().map_or(Ok(Vec::new()), shell)?;
    if let Some(command) = commands.iter().find(|command| !shell.is_empty() && command.words.len() > 1) {
        // Joined, words with blanks or signs of the shell would be another command than was typed.
        let message =
            format!("`{}` is several words, but `-S` takes each command as one text", command.words.join(" "));
        return Err(Error::arguments(message, "quote each command: `prony exec -S sh 'sleep 1'`"));
    }
    commands.iter().try_for_each(|command| is_command(command, shell.is_empty()))?;
    let (env, inherit) = variables(arguments)?;
    Ok(Typed {
        runs: runs(arguments, commands.len() > 1 || parameters.iter().any(Parameter::varies))?,
        commands,
        parameters,
        budget: arguments.budget.clone(),
        metrics: arguments.metric.iter().map(ToString::to_string).collect(),
        warmup: arguments.warmup,
        memory: arguments.memory.clone(),
        cpus: arguments.cpus,
        pids: arguments.pids,
        time: arguments.time.clone(),
        input: arguments.input.as_deref().filter(|path| *path != Path::new("null")).map(absolute).transpose()?,
        env,
        inherit,
        shell,
        pty: arguments.pty,
        success: arguments.ignore_failure.as_deref().map(success).transpose()?,
        runtime: arguments.runtime,
        directory: absolute(Path::new("."))?,
        hertz: arguments.hertz,
        profile: arguments.profile,
        omit: arguments.omit_commands,
        syncs: arguments.syncs,
    })
}

/// A command names a program, and without a shell, a text is cut into words.
fn is_command(command: &Command, is_cut: bool) -> Result<(), Error> {
    let [first, ..] = command.words.as_slice() else { return Ok(()) };
    if first.trim().is_empty() {
        return Err(Error::arguments("a command is empty", "name a program: `prony exec 'sleep 0.1'`"));
    }
    if is_cut && command.is_text() && shell_words::split(first).is_err() {
        let hint = "close the quote, or write each argument as a word of its own: `prony exec -- echo \"it's\"`";
        return Err(Error::arguments(format!("the command `{first}` ends inside a quote"), hint));
    }
    Ok(())
}

/// The reference, where there is one, and the commands, each with what is done beside it.
fn commands(arguments: &Arguments, literal: bool) -> Result<Vec<Command>, Error> {
    if arguments.vs {
        return Err(commands::between());
    }
    let typed = commands::commands(&arguments.command, literal)?;
    let count = typed.len();
    if arguments.name.len() > count {
        let (names, of) = (number::count(arguments.name.len(), "name"), number::count(count, "command"));
        let message = format!("{names} for {of}");
        return Err(Error::arguments(
            message,
            "give at most one `--name` for each command; `--reference-name` names the reference",
        ));
    }
    let named = typed.into_iter().enumerate().map(|(at, words)| (words, arguments.name.get(at).cloned()));
    let reference = arguments.reference.iter().map(|text| (vec![text.clone()], arguments.reference_name.clone()));
    let all: Vec<(Vec<String>, Option<String>)> = reference.chain(named).collect();
    let count = all.len();
    let [setup, prepare, conclude, cleanup] = [
        each("--setup", &arguments.setup, count)?,
        each("--prepare", &arguments.prepare, count)?,
        each("--conclude", &arguments.conclude, count)?,
        each("--cleanup", &arguments.cleanup, count)?,
    ];
    let shown = arguments.show_output.then(|| "inherit".to_owned());
    let discarded = arguments.discard_output.then(|| "null".to_owned());
    let output: Vec<String> = arguments.output.iter().cloned().chain(shown).chain(discarded).collect();
    let output = each("--output", &output, count)?;
    let command = |(at, (words, name)): (usize, (Vec<String>, Option<String>))| {
        Ok(Command {
            words,
            name,
            setup: setup[at].clone(),
            prepare: prepare[at].clone(),
            conclude: conclude[at].clone(),
            cleanup: cleanup[at].clone(),
            output: output[at].as_deref().map_or(Ok(Output::Capture), self::output)?,
        })
    };
    all.into_iter().enumerate().map(command).collect()
}

/// Distributes the values of an option: one value is for every command, as many values as commands are for one command
/// each.
fn each(option: &str, given: &[String], count: usize) -> Result<Vec<Option<String>>, Error> {
    match given {
        [] => Ok(vec![None; count]),
        [all] => Ok(vec![Some(all.clone()); count]),
        given if given.len() == count => Ok(given.iter().cloned().map(Some).collect()),
        given => {
            let (times, of) = (number::count(given.len(), "time"), number::count(count, "command"));
            let message = format!("`{option}` is given {times} for {of}");
            Err(Error::arguments(
                message,
                "give the option once for all commands, or once for each, including the reference",
            ))
        }
    }
}

/// Where output goes. A name without `/` is refused: it is more often a slip in `null`, `pipe` or `inherit`.
fn output(text: &str) -> Result<Output, Error> {
    match text {
        "pipe" => Ok(Output::Capture),
        "null" => Ok(Output::Word("null")),
        "inherit" => Ok(Output::Word("inherit")),
        path if path.contains('/') => {
            let path = Path::new(path);
            let (folder, name) = (path.parent().unwrap_or(Path::new("/")), path.file_name());
            let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
            let name =
                name.ok_or_else(|| Error::arguments(format!("`{}` names no file", path.display()), "name a file"))?;
            Ok(Output::File(utf8(&PathBuf::from(absolute(folder)?).join(name))?.to_owned()))
        }
        other => Err(Error::arguments(
            format!("`--output {other}` is not `null`, `pipe` or `inherit`"),
            format!("to write to a file of this name: `--output ./{other}`"),
        )),
    }
}

/// Trials of each command, at least and at most. One command is compared with nothing: it has one number of trials, as near
/// to what is usual as is allowed.
fn runs(arguments: &Arguments, compared: bool) -> Result<Option<(u32, u32)>, Error> {
    if let Some(runs) = arguments.runs {
        return Ok(Some((runs, runs)));
    }
    let (min, max) = (arguments.min_runs, arguments.max_runs);
    if min.zip(max).is_some_and(|(min, max)| min > max) {
        return Err(Error::arguments("`--min-runs` is above `--max-runs`", "set `--min-runs` to at most `--max-runs`"));
    }
    Ok(match (min, max) {
        (None, None) => None,
        (min, max) if compared => {
            let least = min.unwrap_or_else(|| BLOCKS.0.min(max.unwrap_or(u32::MAX)));
            Some((least, max.unwrap_or(BLOCKS.1).max(least)))
        }
        (min, max) => {
            let number = SINGLE.max(min.unwrap_or(0)).min(max.unwrap_or(u32::MAX));
            Some((number, number))
        }
    })
}

/// The words of a shell before `-c`; none for `none`.
fn shell(text: &str) -> Result<Vec<String>, Error> {
    let words = match text {
        "none" => return Ok(Vec::new()),
        "default" => vec!["sh".to_owned()],
        text => shell_words::split(text).unwrap_or_default(),
    };
    match words.first() {
        Some(first) if !first.is_empty() => Ok(words),
        _ => Err(Error::arguments(format!("`--shell {text}` names no shell"), "write `-S sh`, or `-S 'bash --norc'`")),
    }
}

/// Exit codes that do not count as failure; an empty list for any code.
pub(super) fn success(text: &str) -> Result<Vec<u8>, Error> {
    if text.is_empty() || text == "all-non-zero" {
        return Ok(Vec::new());
    }
    let codes: Result<Vec<u8>, _> = text.split(',').map(|code| code.trim().parse()).collect();
    let mut codes = codes.map_err(|_| {
        let message = format!("`--ignore-failure={text}` names no exit codes");
        Error::arguments(
            message,
            "write the exit codes that are not failures as `-i=1,2`, from 0 to 255, or `-i` for all codes",
        )
    })?;
    codes.push(0);
    codes.sort_unstable();
    codes.dedup();
    Ok(codes)
}

/// Variables that are set, and names of those that are taken over.
type Variables = (Vec<(String, String)>, Vec<String>);

fn variables(arguments: &Arguments) -> Result<Variables, Error> {
    let (set, taken): (Vec<&String>, Vec<&String>) = arguments.env.iter().partition(|text| text.contains('='));
    let pair = |text: &String| text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    let env: Vec<(String, String)> = set.into_iter().filter_map(pair).collect();
    let mut names = BTreeSet::new();
    if let Some((name, _)) = env.iter().find(|(name, _)| !names.insert(name)) {
        return Err(Error::arguments(format!("`--env` sets `{name}` twice"), "set each variable once"));
    }
    let mut inherit: BTreeSet<String> = taken.into_iter().cloned().collect();
    if arguments.env_all {
        let all = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        // The trial has values of its own for these.
        let own = |name: &String| name == "TMPDIR" || name.starts_with("PRONY_") || name.is_empty();
        inherit.extend(all.filter(|name| !own(name) && !names.contains(name)));
    }
    drop(names);
    Ok((env, inherit.into_iter().collect()))
}

/// Whatever folder the saved file lies in, it means this place.
fn absolute(path: &Path) -> Result<String, Error> {
    let found = std::fs::canonicalize(path).map_err(Error::read_file(path))?;
    Ok(utf8(&found)?.to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn parsed(words: &[&str]) -> Result<Typed, String> {
        let line = Line::try_parse_from([&["exec"], words].concat()).map_err(|error| error.to_string())?;
        typed(&line.arguments, words.contains(&"--")).map_err(|error| error.to_string())
    }

    fn fault(words: &[&str]) -> String {
        parsed(words).unwrap_err()
    }

    #[test]
    fn steps_and_output_are_for_all_commands_or_for_one_each() {
        let all = parsed(&["-p", "p", "--", "a", "--vs", "b"]).unwrap();
        assert!(all.commands.iter().all(|command| command.prepare.as_deref() == Some("p")));
        let each = ["--reference", "r", "-C", "1", "-C", "2", "--output", "null", "--output", "/tmp/x", "--", "a"];
        let each = parsed(&each).unwrap();
        let concluded: Vec<&str> = each.commands.iter().filter_map(|command| command.conclude.as_deref()).collect();
        assert_eq!(concluded, ["1", "2"], "the reference is the first");
        let outputs: Vec<&Output> = each.commands.iter().map(|command| &command.output).collect();
        assert!(matches!(outputs.as_slice(), [Output::Word("null"), Output::File(path)] if path.ends_with("/x")));
        for option in ["--setup", "--prepare", "--conclude", "--cleanup", "--output"] {
            let three = fault(&[option, "null", option, "null", "--", "a", "--vs", "b", "--vs", "c"]);
            assert_eq!(three, format!("`{option}` is given 2 times for 3 commands"));
            let with = fault(&[option, "null", option, "null", "--reference", "r", "--", "a", "--vs", "b"]);
            assert_eq!(with, format!("`{option}` is given 2 times for 3 commands"));
        }
        assert_eq!(fault(&["--output", "nul", "a"]), "`--output nul` is not `null`, `pipe` or `inherit`");
        assert_eq!(fault(&["-n", "a", "-n", "b", "--reference", "r", "x"]), "2 names for 1 command");
    }

    #[test]
    fn numbers_of_runs_are_bounds_of_what_is_usual() {
        let runs = |words: &[&str]| parsed(&[words, &["--", "a", "--vs", "b"]].concat()).unwrap().runs;
        assert_eq!(runs(&[]), None);
        assert_eq!(runs(&["-r", "3"]), Some((3, 3)));
        assert_eq!(runs(&["-m", "40"]), Some((40, 40)));
        assert_eq!(runs(&["-M", "4"]), Some((4, 4)));
        assert_eq!(runs(&["-m", "2", "-M", "9"]), Some((2, 9)));
        let one = |words: &[&str]| parsed(&[words, &["a"]].concat()).unwrap().runs;
        assert_eq!(
            [one(&["-m", "1"]), one(&["-m", "20"]), one(&["-M", "3"])],
            [Some((10, 10)), Some((20, 20)), Some((3, 3))]
        );
        assert_eq!(one(&["-m", "20", "-L", "n", "1"]), Some((20, 20)), "one value is one command");
        assert_eq!(one(&["-m", "20", "-L", "n", "1,2"]), Some((20, 30)));
        assert_eq!(fault(&["-m", "3", "-M", "2", "a"]), "`--min-runs` is above `--max-runs`");
        for option in ["--runs", "--min-runs", "--max-runs"] {
            assert!(fault(&[option, "0", "a"]).contains(&format!("invalid value '0' for '{option} <N>'")));
        }
    }

    #[test]
    fn shells_are_words_and_exit_codes_numbers() {
        let shell = |text: &str| parsed(&["--shell", text, "a"]).unwrap().shell;
        assert_eq!(shell("bash --norc 'x y'"), ["bash", "--norc", "x y"]);
        for words in [&["--", "printf", "%s", "$HOME;id -u"][..], &["a b", "--vs", "c", "d"]] {
            let several = fault(&[&["-S", "sh"], words].concat());
            assert!(several.ends_with("is several words, but `-S` takes each command as one text"), "{several}");
        }
        assert_eq!(parsed(&["--shell=none", "a", "b"]).unwrap().commands[0].words, ["a", "b"]);
        assert_eq!((shell("default"), shell("none")), (vec!["sh".to_owned()], Vec::new()));
        assert_eq!(parsed(&["-S", "bash", "-S", "zsh", "a"]).unwrap().shell, ["zsh"]);
        assert_eq!(fault(&["-S", "", "a"]), "`--shell ` names no shell");
        assert!(fault(&["-S", "--", "a"]).contains("a value is required for '--shell <SHELL>'"));
        let success = |option: &str| parsed(&[option, "a"]).unwrap().success;
        assert_eq!((success("-i"), success("-i=all-non-zero")), (Some(vec![]), Some(vec![])));
        assert_eq!(success("--ignore-failure=2, 1"), Some(vec![0, 1, 2]));
        assert_eq!(fault(&["-i=256", "a"]), "`--ignore-failure=256` names no exit codes");
        assert_eq!(parsed(&["-i", "1", "x"]).unwrap().commands[0].words, ["1", "x"], "a value stands behind `=`");
    }

    #[test]
    fn unknown_options_and_a_vs_before_the_command_are_refused() {
        assert!(fault(&["--exprot-json", "x", "a"]).contains("--exprot-json"));
        assert_eq!(
            fault(&["--vs", "sleep", "1", "--export-markdown", "x.md"]),
            "`--vs` needs a command before it and one after it"
        );
        assert!(fault(&["-L", "x", "1", "-P", "y", "1", "2", "a"]).contains("cannot be used with"));
    }
}
