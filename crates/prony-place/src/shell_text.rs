//! Reads texts for a shell, and refuses values in them that it would not take as they are.
//!
//! `{dir}` in `rm -rf {dir}/output` is filled in before the shell reads the text. With the value `/a/my bench` it would remove
//! `/a/my`, a folder of the user. Quotes around the value cannot prevent that: the user may have written some already.

use std::ffi::OsStr;

use prony_model::program::CommandLine;

use crate::error::Error;

/// Separators of words in a shell command.
const SHELL: &str = ";|&()<>{}`'\"$=";

/// Whether a shell takes a character as it is, in quotes and outside of them.
fn is_plain(c: char) -> bool {
    c.is_alphanumeric() || "_./:@%+=,-".contains(c)
}

/// Refuses a command whose text a shell reads, if one of these values has a place in it and would not arrive as it is.
///
/// # Errors
/// [`Error::Refused`] with the first such value.
pub fn takes_values<'v>(
    line: &CommandLine,
    values: impl IntoIterator<Item = (&'v str, &'v OsStr)>,
) -> Result<(), Error> {
    let Some(text) = line.shell_text() else { return Ok(()) };
    for (hole, value) in values.into_iter().filter(|(hole, _)| text.contains(hole)) {
        let value = value.to_string_lossy();
        if let Some(c) = value.chars().find(|c| !is_plain(*c)) {
            let name = hole.trim_matches('\0');
            let message = format!("`{{{name}}}` stands in a text for a shell, which may misread {c:?} in `{value}`");
            let hint = "write the command as a list of words, or move the folder to a path of letters, digits and \
                `_./:@%+=,-`";
            return Err(Error::refused(message, hint));
        }
    }
    Ok(())
}

/// The words of a text as a shell might read it.
pub(crate) fn shell_words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c.is_whitespace() || SHELL.contains(c)).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::program::DIR;

    #[test]
    fn values_that_a_shell_would_misread_are_refused_in_its_texts_only() {
        let shell = |script: String| CommandLine::Shell { shell: "sh".into(), script };
        let words = |words: &[&str]| CommandLine::Words(words.iter().map(|word| (*word).to_owned()).collect());
        let said = |line: &CommandLine, value: &str| match takes_values(line, [(DIR, OsStr::new(value))]) {
            Ok(()) => None,
            Err(error) => Some(error.text()),
        };
        let text = shell(format!("rm -rf {DIR}/output"));
        assert_eq!(said(&text, "/a/my_b-e.n:c@h%+=,/9"), None);
        for value in ["/a/my bench", "/a/$b", "/a/b'", "/a/b;c", "/a/~b", "/a/\n", "/a/b*"] {
            let said = said(&text, value).unwrap_or_else(|| panic!("{value}"));
            assert!(said.contains("`{dir}` stands in a text") && said.contains("hint: write the command"), "{said}");
        }
        let place = format!("{DIR}/x");
        for explicit in [["bash", "-c", &place].as_slice(), &["/bin/sh", "--x", "-eo", "pipefail", "-uc", &place]] {
            assert!(said(&words(explicit), "/a b").is_some(), "{explicit:?}");
        }
        for other in
            [["rm", "-c", &place].as_slice(), &["sh", "-c", "rm \"$1\"", "sh", &place], &["sh", &place], &["sh", "-c"]]
        {
            assert_eq!(said(&words(other), "/a b"), None, "{other:?}");
        }
        assert_eq!(said(&shell("rm -rf output".to_owned()), "/a b"), None);
    }
}
