//! Detects shell syntax in commands that do not run in a shell.
//!
//! A text without `shell` is cut into words as a shell does it, and nothing more: in `echo hi > f` the program `echo` gets the
//! words `>` and `f`. That is no fault, since a program may want such words, but hardly ever what was meant.

use std::fmt;

/// Syntax of a shell in a command that does not run in a shell; as text, what becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShellSyntax {
    /// A sign, such as `|`.
    Sign(char),
    /// `NAME=VALUE` before the command.
    Variable,
}

impl fmt::Display for ShellSyntax {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sign(sign) => write!(f, "the program gets `{sign}` as an argument"),
            Self::Variable => {
                f.write_str("its first word, which sets a variable in a shell, is taken for the program's name")
            }
        }
    }
}

/// The first sign in a text that means something to a shell and nothing where words are cut only; `None` where it has none.
/// Signs in quotes or behind a backslash are words of the command.
///
/// ```
/// use prony_experiment::{ShellSyntax, shell_syntax};
/// assert_eq!(shell_syntax("sort a | uniq"), Some(ShellSyntax::Sign('|')));
/// assert_eq!(shell_syntax("grep 'a|b' f"), None);
/// ```
pub fn shell_syntax(text: &str) -> Option<ShellSyntax> {
    if sets_variable(text) {
        return Some(ShellSyntax::Variable);
    }
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
            ('`', _) => return Some(ShellSyntax::Sign(c)),
            ('$', _) if characters.peek().is_some_and(|next| !next.is_whitespace() && *next != '"') => {
                return Some(ShellSyntax::Sign(c));
            }
            ('>' | '<' | '|' | '&' | ';' | '*' | '?', None) => return Some(ShellSyntax::Sign(c)),
            ('~', None) if starts_word => return Some(ShellSyntax::Sign(c)),
            ('#', None) if starts_word => return None,
            _ => {}
        }
    }
    None
}

/// Whether a text begins as `NAME=VALUE`, which sets a variable for the command behind it.
fn sets_variable(text: &str) -> bool {
    let name = text.trim_start().split_once('=').map_or("", |(name, _)| name);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit()) && name.chars().all(is_plain)
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
            assert_eq!(shell_syntax(text), Some(ShellSyntax::Sign(sign)), "{text}");
        }
        assert_eq!(shell_syntax("THREADS=4 ./a"), Some(ShellSyntax::Variable));
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
            "./a x=1",
            "1x=2 a",
        ] {
            assert_eq!(shell_syntax(text), None, "{text}");
        }
    }
}
