//! Commands that are probably not meant as they stand: written for a shell where none reads them, or with files that are not
//! where they run. Pure.
//!
//! A text without `shell` is cut into words as a shell does it, and nothing more: in `echo hi > f` the program `echo` gets the
//! words `>` and `f`. That is no fault, since a program may want such words, but hardly ever what was meant.

use std::path::Path;

use super::design::{Experiment, Variant};
use super::node::{Node, Value, parse};
use super::problem::{Problem, Problems};
use prony_model::program::{CommandLine, ProgramSpec};

/// The first sign in a text that means something to a shell and nothing where words are cut only; `None` where it has none.
/// Signs in quotes or behind a backslash are words of the command.
///
/// ```
/// use prony_experiment::shell_syntax;
/// assert_eq!(shell_syntax("sort a | uniq"), Some('|'));
/// assert_eq!(shell_syntax("grep 'a|b' f"), None);
/// ```
pub fn shell_syntax(text: &str) -> Option<char> {
    let (mut quote, mut before) = (None, ' ');
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        let starts_word = quote.is_none() && before.is_whitespace();
        before = c;
        match (c, quote) {
            ('\'', None) | ('"', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            (_, Some('\'')) => {}
            ('\\', _) => before = characters.next().unwrap_or(c),
            ('`', _) => return Some(c),
            ('$', _) if characters.peek().is_some_and(|next| !next.is_whitespace() && *next != '"') => return Some(c),
            ('>' | '<' | '|' | '&' | ';' | '*' | '?', None) => return Some(c),
            ('~', None) if starts_word => return Some(c),
            ('#', None) if starts_word => return None,
            _ => {}
        }
    }
    None
}

/// What is no fault of a file and probably not meant, in the file's order: commands with a sign of the shell and no shell, and
/// those that name a file which `is_beside` the experiment's while they run in an empty directory.
pub fn warnings(experiment: &Experiment, is_beside: &dyn Fn(&str) -> bool) -> Vec<Problem> {
    let text = experiment.source();
    let Ok(raw) = parse(text, "") else { return Vec::new() };
    let mut problems = Problems::new(text);
    for program in raw.root.get("program").and_then(Node::table).unwrap_or_default() {
        let node = &program.node;
        let without = node.get("shell").is_none_or(|shell| matches!(shell.value, Value::Flag(false)));
        let commands = [node.get("command"), node.get("replicas").and_then(|replicas| replicas.get("command"))];
        for command in commands.into_iter().flatten().filter(|_| without) {
            if let Some(sign) = command.text().and_then(shell_syntax) {
                let message = format!("no shell reads this command: `{sign}` is passed to the program as it stands");
                let hint = "add `shell = true`, or write the command as a list of words";
                problems.add(Problem::new(command.span.clone(), message).hint(hint));
            }
        }
        let of_program =
            |variant: &Variant| variant.spec.subject.program().filter(|spec| spec.name == program.key).cloned();
        let absent = experiment.variants().iter().filter_map(of_program).find_map(|spec| left_behind(&spec, is_beside));
        if let (Some(command), Some(word)) = (node.get("command"), absent) {
            let message = format!("`{word}` is beside this file, and the program runs in an empty directory");
            let hint =
                "add `directory = \".\"`, so that it runs in a copy of this folder, or write the file's whole path";
            problems.add(Problem::new(command.span.clone(), message).hint(hint));
        }
    }
    problems.into_list()
}

/// The first word of a command that is a file beside the experiment's, where the program has no directory and nothing makes
/// files for it.
fn left_behind(program: &ProgramSpec, is_beside: &dyn Fn(&str) -> bool) -> Option<String> {
    if program.directory.is_some() || program.build.is_some() || program.prepare.is_some() {
        return None;
    }
    let words = match &program.command {
        CommandLine::Words(words) => words.clone(),
        CommandLine::Shell { script, .. } => shell_words::split(script).unwrap_or_default(),
    };
    words.into_iter().find(|word| Path::new(word).is_relative() && is_beside(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shell_syntax_is_found_outside_of_quotes() {
        for (text, sign) in [
            ("echo hi > f", '>'),
            ("a <f", '<'),
            ("a|b", '|'),
            ("a && b", '&'),
            ("a; b", ';'),
            ("echo $HOME", '$'),
            ("echo \"$HOME\"", '$'),
            ("echo `date`", '`'),
            ("ls *.rs", '*'),
            ("ls a?", '?'),
            ("ls ~/x", '~'),
            ("echo 'a' > b", '>'),
        ] {
            assert_eq!(shell_syntax(text), Some(sign), "{text}");
        }
        for text in [
            "",
            "sleep 1",
            "grep 'a|b' f",
            "grep \"a|b;*\" f",
            r"a \| b \$x",
            "cost 5$",
            "echo \"5$\"",
            "a~b",
            "x # a | b",
            "echo '$HOME `x`'",
            "echo \"it's\" x",
            "a #b > c",
        ] {
            assert_eq!(shell_syntax(text), None, "{text}");
        }
    }
}
