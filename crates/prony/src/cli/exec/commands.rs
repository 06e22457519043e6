//! Splits the words after the options of `prony exec` into commands.
//!
//! There are two ways to write several commands: `'A' 'B'`, each one text, as with other benchmark runners, or words up
//! to
//! `--vs`, which need no quotes. A blank in the first word means the first way. A path with a blank in it needs quotes
//! inside the text of its command (`"'./my program' 1"`).

use std::ffi::OsString;

use clap::{Args as _, Command as Parser};

use super::arguments::Arguments;
use crate::error::Error;

/// What stands between two commands.
pub(crate) const BETWEEN: &str = "--vs";

/// Whether `--` stands before the last `words` of what was typed: the parser takes it out.
pub(crate) fn is_literal(typed: &[OsString], words: usize) -> bool {
    typed.len().checked_sub(words + 1).and_then(|at| typed.get(at)).is_some_and(|word| word == "--")
}

/// The words of each command. Where they are not `literal`, none of them may be an option of prony.
///
/// # Errors
/// Where a command has no word, or an option of prony stands among them.
pub fn commands(words: &[String], literal: bool) -> Result<Vec<Vec<String>>, Error> {
    let mut commands = Vec::new();
    for words in words.split(|word| word == BETWEEN) {
        match words {
            [] => return Err(between()),
            words if words.iter().any(|word| word == "--") && words[0].contains(char::is_whitespace) => {
                return Err(Error::arguments(
                    "`--` stands between two commands",
                    "leave it out, or write `--` before the first command and `--vs` between commands",
                ));
            }
            [first, ..] if first.contains(char::is_whitespace) => {
                commands.extend(words.iter().map(|w| vec![w.clone()]))
            }
            words => commands.push(words.to_vec()),
        }
    }
    let options = Options::known();
    match words.iter().find(|word| !literal && options.has(word)) {
        None => Ok(commands),
        Some(option) => Err(Error::arguments(
            format!("`{option}` comes after a command; options of prony come before the first one"),
            format!(
                "write `prony exec {option} ...`, with the commands at the end; if `{option}` is an option of a command, write \
                 `prony exec ... -- COMMAND {option} ...`: after `--` only `--vs` has a meaning for prony"
            ),
        )),
    }
}

/// The commands that may be meant where the words of one were typed: another one begins with each word that has a blank, as a
/// whole command line has, and is one by `names_one`. What follows an option is its value, as in `sh -c 'sleep 1'`.
pub(crate) fn apart(words: &[String], names_one: impl Fn(&String) -> bool) -> Vec<Vec<&str>> {
    let mut commands: Vec<Vec<&str>> = Vec::new();
    for word in words {
        let is_value = commands.last().and_then(|command| command.last()).is_some_and(|last| last.starts_with('-'));
        let begins = !is_value && word.contains(char::is_whitespace) && names_one(word);
        match commands.last_mut().filter(|_| !begins) {
            Some(command) => command.push(word),
            None => commands.push(vec![word]),
        }
    }
    commands
}

/// `--vs` without a command before or behind it.
pub fn between() -> Error {
    Error::arguments("`--vs` needs a command before it and one after it", "write `prony exec -- A --vs B`")
}

/// The options of prony, from their definitions.
struct Options {
    long: Vec<String>,
    short: Vec<char>,
}

impl Options {
    fn known() -> Self {
        let parser = Arguments::augment_args(Parser::new("exec"));
        let all = || parser.get_arguments().filter(|argument| argument.get_id() != "vs");
        let long = all().flat_map(|argument| argument.get_long_and_visible_aliases().unwrap_or_default());
        // The only one that every command of prony has.
        let long = long.chain(["color"]).map(str::to_owned).collect();
        Self { long, short: all().filter_map(clap::Arg::get_short).collect() }
    }

    /// `--runs`, `--runs=3`, `-r`, `-r3`, `-i=1`. Other short options with their value cannot be distinguished from clusters
    /// such as `-rf`.
    fn has(&self, word: &str) -> bool {
        if let Some(long) = word.strip_prefix("--") {
            return self.long.iter().any(|known| Some(known.as_str()) == long.split('=').next());
        }
        let word = word.split_once('=').map_or(word, |(option, _)| option);
        let letter = word.strip_prefix('-').map(|rest| rest.trim_end_matches(|c: char| c.is_ascii_digit()));
        let mut letters = letter.unwrap_or_default().chars();
        matches!((letters.next(), letters.next()), (Some(letter), None) if self.short.contains(&letter))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split('|').map(str::to_owned).collect()
    }

    fn cut(line: &str, literal: bool) -> Vec<String> {
        commands(&words(line), literal).unwrap().into_iter().map(|command| command.join("|")).collect()
    }

    fn refused(line: &str) -> String {
        commands(&words(line), false).unwrap_err().to_string()
    }

    #[test]
    fn commands_are_texts_where_the_first_word_has_a_blank_and_words_up_to_vs_elsewhere() {
        assert_eq!(cut("sleep 0.1|sleep 0.2|true", false), ["sleep 0.1", "sleep 0.2", "true"]);
        assert_eq!(cut("sleep|0.1|--vs|sleep|0.2", false), ["sleep|0.1", "sleep|0.2"]);
        assert_eq!(cut("sleep 0.1|--vs|sleep|0.2", false), ["sleep 0.1", "sleep|0.2"]);
        assert_eq!(cut("a|b c", false), ["a|b c"], "a word of the command may have blanks");
        assert_eq!(cut("a b|c d|--vs|e", true), ["a b", "c d", "e"]);
        for line in ["--vs|a", "a|--vs", "a|--vs|--vs|b"] {
            assert_eq!(refused(line), "`--vs` needs a command before it and one after it");
        }
    }

    #[test]
    fn words_with_a_blank_that_name_a_program_may_be_commands() {
        let apart = |line: &str| {
            let words = words(line);
            let all = apart(&words, |word| word.starts_with("b ") || word.starts_with("c "));
            all.into_iter().map(|command| command.join("|")).collect::<Vec<_>>()
        };
        assert_eq!(apart("a|x|b 1|y|c 2"), ["a|x", "b 1|y", "c 2"]);
        for one in ["a|b", "a|x 1", "a|-c|b 1", "a"] {
            assert_eq!(apart(one), [one]);
        }
    }

    #[test]
    fn options_behind_the_command_are_refused_unless_two_dashes_precede_it() {
        for option in ["--export-markdown", "--runs=3", "-r", "-r3", "-N", "-i=1", "--command-name", "--color"] {
            let line = format!("sleep|0.06|{option}|x.md");
            assert_eq!(
                refused(&line),
                format!("`{option}` comes after a command; options of prony come before the first one")
            );
            assert_eq!(cut(&line, true), [line]);
        }
        assert_eq!(
            refused("sleep 1|--runs|3"),
            "`--runs` comes after a command; options of prony come before the first one"
        );
        for own in ["-rf", "--runsx", "-", "--", "--help", "-3", "-l", "x"] {
            assert_eq!(cut(&format!("a|{own}"), false), [format!("a|{own}")]);
        }
    }

    #[test]
    fn two_dashes_between_texts_are_refused_and_in_the_words_of_a_command_are_its_own() {
        assert_eq!(refused("a b|--|c d"), "`--` stands between two commands");
        assert_eq!(cut("git|log|--|x", false), ["git|log|--|x"]);
    }

    #[test]
    fn two_dashes_are_found_only_before_the_command() {
        let typed = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        assert!(is_literal(&typed("prony exec -r 3 -- a b"), 2));
        assert!(!is_literal(&typed("prony exec a -- b"), 3));
        assert!(!is_literal(&typed("a"), 1));
    }
}
