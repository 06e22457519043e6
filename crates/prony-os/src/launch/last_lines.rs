//! The last lines of what a process printed, as evidence of how it ended.

use super::Captured;

/// Lines of messages that are given as evidence.
const LAST_LINES: usize = 3;

/// Of its messages, or of its output where it has no messages.
pub fn last_lines(output: &[Captured; 2]) -> Option<String> {
    let text = output.iter().rev().map(Captured::text).find(|text| !text.trim().is_empty())?;
    Some(format!("last lines of output: `{}`", last_words(&text)))
}

/// The last lines of a text, as what stands between the first and the last backtick. Runtimes end a message with where it happened, so that the last line before them which
/// names an error stands first, where none of them does.
fn last_words(text: &str) -> String {
    let names_error = |line: &&str| line.to_ascii_lowercase().contains("error");
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let (earlier, last) = lines.split_at(lines.len().saturating_sub(LAST_LINES));
    let error = if last.iter().any(names_error) { None } else { earlier.iter().copied().rfind(names_error) };
    let cut = |line: &str| line.trim().chars().take(200).collect::<String>();
    error.into_iter().chain(last.iter().copied()).map(cut).collect::<Vec<_>>().join("`; `")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_output_includes_the_preceding_error() {
        let trace = "loading\n\nError: Cannot find module 'lmdb'\nRequire stack:\n- nodes.js\n- main.js\n- index.js\n";
        assert_eq!(last_words(trace), "Error: Cannot find module 'lmdb'`; `- nodes.js`; `- main.js`; `- index.js");
        assert_eq!(last_words("error: first\na\nb\nlast error\n"), "a`; `b`; `last error");
        assert_eq!(last_words("one\ntwo\n"), "one`; `two");
    }

    #[test]
    fn last_words_are_bounded() {
        let long = format!("{}\na\nb\nc", "an error ".repeat(1000));
        assert!(last_words(&long).len() < 250);
    }

    #[test]
    fn messages_come_before_output() {
        let of = |output: &str, messages: &str| {
            last_lines(&[output, messages].map(|text| Captured { first: text.to_owned(), ..Captured::default() }))
        };
        assert_eq!(of("a row\n", "warning\n").as_deref(), Some("last lines of output: `warning`"));
        assert_eq!(of("a row\n", " \n\n").as_deref(), Some("last lines of output: `a row`"));
        assert_eq!(of("\n", ""), None, "it wrote nothing");
    }
}
