//! Values in commands that are one text.
//!
//! A text is cut into words as a shell does it. A value that was put into it raw would take part in that: its quotes and
//! backslashes would vanish, and a `#` would make the rest a comment, so that two variants could run the same command. So each
//! value is quoted as its place in the text asks for.

use std::ops::Range;

use super::node::{Node, Reader, Value};
use super::placeholder::holes;

/// How a value is put between two blanks, outside of quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blanks {
    /// Blanks in it separate words, and an empty value is none.
    Separate,
    /// It is part of one word, whatever it contains.
    Belong,
}

/// Keys of commands that a shell reads if they are one text.
const OF_SHELLS: [&str; 6] = ["build", "prepare", "conclude", "cleanup", "setup", "run"];

/// Notes what reads each command of a program, a service or a phase that is one text.
pub(crate) fn note_readers(table: &mut Node) {
    // Where a level decides, it may be a shell, of which values may be anything that it can read.
    let by_shell = table.get("shell").is_some_and(|shell| shell.value != Value::Flag(false));
    let own = if by_shell { Reader::Shell } else { Reader::Words };
    let Value::Table(entries) = &mut table.value else { return };
    for entry in entries {
        match entry.key.as_str() {
            "command" => note(&mut entry.node, own),
            "replicas" => note_inner(&mut entry.node, own),
            "ready" | "counters" => note_inner(&mut entry.node, Reader::Shell),
            key if OF_SHELLS.contains(&key) => note(&mut entry.node, Reader::Shell),
            _ => {}
        }
    }
}

fn note_inner(table: &mut Node, reader: Reader) {
    if let Value::Table(entries) = &mut table.value {
        entries.iter_mut().filter(|entry| entry.key == "command").for_each(|entry| note(&mut entry.node, reader));
    }
}

fn note(node: &mut Node, reader: Reader) {
    node.reader = node.text().map(|_| reader);
}

/// A text that is cut into words, with values in place of its holes; each hole is an ordinary character of the text. A hole
/// without a value stays as it is written.
pub(crate) fn replace(
    text: &str,
    blanks: Blanks,
    mut value: impl FnMut(&str, &Range<usize>) -> Option<String>,
) -> String {
    let (mut replaced, mut place, mut from) = (String::new(), Place::Between, 0);
    for (name, at) in holes(text) {
        place = place.after(&text[from..at.start]);
        replaced.push_str(&text[from..at.start]);
        match value(&name, &at) {
            Some(value) => replaced.push_str(&place.quoted(&value, blanks)),
            None => replaced.push_str(&text[at.clone()]),
        }
        place = place.after("x");
        from = at.end;
    }
    replaced + &text[from..]
}

/// A place in a text that is cut into words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Before a word.
    Between,
    /// In a word, outside of quotes.
    Bare,
    /// Behind a backslash there.
    Escaped,
    /// In `'`.
    Single,
    /// In `"`.
    Double,
    /// Behind a backslash there.
    DoubleEscaped,
    /// Behind `#`.
    Comment,
}

impl Place {
    fn after(self, text: &str) -> Self {
        text.chars().fold(self, |place, c| match (place, c) {
            (Self::Between, '#') => Self::Comment,
            (Self::Comment, '\n') | (Self::Between | Self::Bare, ' ' | '\t' | '\n') => Self::Between,
            (Self::Between | Self::Bare, '\'') => Self::Single,
            (Self::Between | Self::Bare, '"') => Self::Double,
            (Self::Between | Self::Bare, '\\') => Self::Escaped,
            (Self::Double, '\\') => Self::DoubleEscaped,
            (Self::Single, '\'') | (Self::Double, '"') | (Self::Between | Self::Escaped, _) => Self::Bare,
            (Self::DoubleEscaped, _) => Self::Double,
            (place, _) => place,
        })
    }

    fn quoted(self, value: &str, blanks: Blanks) -> String {
        match self {
            Self::Comment => String::new(),
            Self::Single => value.replace('\'', r"'\''"),
            Self::Double => {
                let escaped = |c: char| ['\\', '"', '$', '`'].contains(&c).then_some('\\').into_iter().chain([c]);
                value.chars().flat_map(escaped).collect()
            }
            // The backslash stays one.
            Self::DoubleEscaped => format!(r"\{}", Self::Double.quoted(value, blanks)),
            Self::Escaped => {
                let (first, rest) = value.split_at(value.chars().next().map_or(0, char::len_utf8));
                format!("{first}{}", Self::Bare.quoted(rest, Blanks::Separate))
            }
            Self::Between | Self::Bare if blanks == Blanks::Separate => {
                let words = value.split([' ', '\t', '\n']);
                words
                    .map(|word| if word.is_empty() { String::new() } else { in_quotes(word) })
                    .collect::<Vec<_>>()
                    .join(" ")
            }
            Self::Between | Self::Bare => in_quotes(value),
        }
    }
}

/// A value in quotes, where it needs some. Braces, and what marks the places of values of a trial, stay as they are.
fn in_quotes(value: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "_./:@%+=,-{}\0".contains(c);
    if !value.is_empty() && value.chars().all(is_plain) {
        return value.to_owned();
    }
    format!("'{}'", Place::Single.quoted(value, Blanks::Belong))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(text: &str, blanks: Blanks, value: &str) -> Vec<String> {
        let filled = replace(text, blanks, |name, _| (name == "x").then(|| value.to_owned()));
        shell_words::split(&filled).unwrap_or_else(|_| panic!("{filled}"))
    }

    #[test]
    fn blanks_of_a_level_separate_words_outside_of_quotes_only() {
        let of = |text: &str, value: &str| words(text, Blanks::Separate, value);
        assert_eq!(of("grep -c {x} FILE", r"a\.b"), ["grep", "-c", r"a\.b", "FILE"]);
        assert_eq!(of("p {x} q", "--a 'b c'"), ["p", "--a", "'b", "c'", "q"]);
        assert_eq!(of("p {x} q", ""), ["p", "q"]);
        assert_eq!(of("p '{x}' q", ""), ["p", "", "q"]);
        assert_eq!(of("p \"{x}\" q", "x\" \"y"), ["p", "x\" \"y", "q"]);
        assert_eq!(of("p {x} q", "#fff"), ["p", "#fff", "q"]);
        assert_eq!(of("p # {x}\n{y}", "a\nb"), ["p", "{y}"]);
        assert_eq!(of(r"p \{x} q", "ab"), ["p", "ab", "q"]);
        assert_eq!(of("p {x}{x}-\\\\{x} {{}}", "it's"), ["p", r"it'sit's-\it's", "{{}}"]);
    }

    proptest! {
        #[test]
        fn any_value_is_part_of_one_word(value in "[a'\"\\\\#$` \t\nü-]{0,8}") {
            for (text, expected) in [
                ("p {x} q", value.clone()),
                ("p '{x}' q", value.clone()),
                ("p \"{x}\" q", value.clone()),
                ("p a{x}\"b c\"'d' q", format!("a{value}b cd")),
                ("p \"it's {x}\" q", format!("it's {value}")),
                (r#"p "\"{x}" q"#, format!("\"{value}")),
            ] {
                prop_assert_eq!(words(text, Blanks::Belong, &value), ["p".to_owned(), expected, "q".to_owned()], "{}", text);
            }
        }
    }
}
