//! The page of the book with every command, made from the definitions of the command line, and a test that its examples are
//! commands which prony takes.

use std::fmt::Write as _;

use clap::{Arg, Command};
use prony::cli::definitions;

/// The page.
pub(crate) fn page() -> String {
    let mut command = definitions();
    command.build();
    let mut out = String::from(
        "# Commands\n\n`--help` after a command prints the same, `prony man DIR` writes manual pages. Every command also takes \
         `--color auto`, `always` or `never`. What a command ends with is in [Exit codes](exit-codes.md).\n\n\
         | command | |\n|---|---|\n",
    );
    for one in visible(&command) {
        let link = format!("prony-{}", one.get_name());
        let _ = writeln!(out, "| [`prony {}`](#{link}) | {} |", one.get_name(), cell(&about(one)));
    }
    visible(&command).for_each(|one| section(&mut out, one));
    out
}

fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|one| !one.is_hide_set())
}

fn about(command: &Command) -> String {
    command.get_about().map(ToString::to_string).unwrap_or_default()
}

fn section(out: &mut String, command: &Command) {
    let mut command = command.clone();
    let name = command.get_bin_name().unwrap_or_default().to_owned();
    let _ = writeln!(out, "\n## {name}\n\n{}.", about(&command).trim_end_matches('.'));
    if command.get_subcommands().next().is_none() {
        let usage = command.render_usage().to_string();
        let _ = writeln!(out, "\n```text\n{}\n```", usage.trim_start_matches("Usage: ").trim());
    }
    let (positions, options): (Vec<&Arg>, Vec<&Arg>) = command
        .get_arguments()
        .filter(|one| !one.is_hide_set() && !one.is_global_set())
        .partition(|one| one.is_positional());
    let rows: Vec<String> =
        positions.into_iter().chain(options).filter(|one| one.get_id() != "help").map(row).collect();
    if !rows.is_empty() {
        let _ = write!(out, "\n| argument | default | description |\n|---|---|---|\n{}", rows.concat());
    }
    if let Some(more) = command.get_after_help() {
        notes(out, &more.to_string());
    }
    visible(&command).for_each(|one| section(out, one));
}

fn row(argument: &Arg) -> String {
    let values: Vec<String> = argument.get_value_names().unwrap_or_default().iter().map(ToString::to_string).collect();
    let takes = argument.get_action().takes_values() && !values.is_empty();
    let value = if takes { format!(" {}", values.join(" ")) } else { String::new() };
    let short = argument.get_short().map(|short| format!("-{short}"));
    let long = argument.get_long().map(|long| format!("--{long}"));
    let names: Vec<String> = short.into_iter().chain(long).collect();
    let written = if names.is_empty() { values.join(" ") } else { format!("{}{value}", names.join(", ")) };
    let defaults: Vec<String> =
        argument.get_default_values().iter().map(|v| v.to_string_lossy().into_owned()).collect();
    let default = if takes && !defaults.is_empty() { format!("`{}`", defaults.join(" ")) } else { String::new() };
    let mut text = argument.get_long_help().or(argument.get_help()).map(ToString::to_string).unwrap_or_default();
    let words: Vec<String> = argument
        .get_possible_values()
        .iter()
        .filter(|one| takes && !one.is_hide_set())
        .map(|one| match one.get_help() {
            Some(help) => format!("`{}`: {help}", one.get_name()),
            None => format!("`{}`", one.get_name()),
        })
        .collect();
    if !words.is_empty() {
        let _ = write!(text, ". Values: {}", words.join("; "));
    }
    if let Some(variable) = argument.get_env() {
        let _ = write!(text, ". Environment: `{}`", variable.to_string_lossy());
    }
    format!("| `{}` | {} | {} |\n", cell(&written), cell(&default), cell(&text))
}

/// What follows the options: examples, and notes.
fn notes(out: &mut String, text: &str) {
    for part in text.split("\n\n").map(str::trim_end).filter(|part| !part.is_empty()) {
        match part.split_once('\n') {
            Some((title, lines)) if title.ends_with(':') => {
                let lines: Vec<&str> = lines.lines().map(|line| line.strip_prefix("  ").unwrap_or(line)).collect();
                let _ = writeln!(out, "\n{title}\n\n```text\n{}\n```", lines.join("\n"));
            }
            _ => {
                let _ = writeln!(out, "\n{part}");
            }
        }
    }
}

/// Text for a cell of a table. Angle brackets outside of code would be HTML.
pub(crate) fn cell(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
    let mut code = false;
    let parts = text.split('`').map(|part| {
        code = !code;
        if code { part.replace('<', "&lt;").replace('>', "&gt;") } else { part.to_owned() }
    });
    parts.collect::<Vec<_>>().join("`")
}

/// The commands of a line of examples: `prony` with its words.
pub(crate) fn commands(line: &str) -> Vec<Vec<String>> {
    let line = line.split(" #").next().unwrap_or_default();
    let words = shell_words::split(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    let mut commands = vec![Vec::new()];
    for word in words {
        match word.as_str() {
            "&&" | "|" | ">" => commands.push(Vec::new()),
            word if word.ends_with(';') => {
                commands.last_mut().unwrap().push(word.trim_end_matches(';').to_owned());
                commands.push(Vec::new());
            }
            _ => commands.last_mut().unwrap().push(word),
        }
    }
    commands.into_iter().filter(|command| command.first().is_some_and(|word| word == "prony")).collect()
}

#[test]
fn examples_of_all_commands_are_taken() {
    let mut checked = 0;
    for line in page().lines().filter(|line| line.starts_with("prony ")) {
        // Usage lines of the page have brackets.
        if line.contains(" [OPTIONS]") || line.contains(" <") {
            continue;
        }
        for words in commands(line) {
            checked += 1;
            if let Err(error) = definitions().try_get_matches_from(&words) {
                panic!("{line}: {error}");
            }
        }
    }
    assert!(checked > 40, "{checked}");
    assert!(definitions().try_get_matches_from(["prony", "run", "--nosuch"]).is_err());
}

#[test]
fn every_command_has_an_example() {
    let page = page();
    for section in page.split("\n## ").skip(1).filter(|section| section.contains("[OPTIONS]")) {
        assert!(section.contains("Example"), "{}", section.lines().next().unwrap_or_default());
    }
}
