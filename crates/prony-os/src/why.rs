//! Turns an error of the system into the reason of a missing reading.

use std::io;
use std::path::Path;

use prony_model::reading::{Reading, Why};

/// Why something about `what` could not be read.
pub(crate) fn why(what: &str, error: &io::Error) -> Why {
    let text = format!("{what}: {error}").into();
    match error.kind() {
        io::ErrorKind::PermissionDenied => Why::NotPermitted(text),
        io::ErrorKind::NotFound | io::ErrorKind::Unsupported => Why::NotSupported(text),
        _ => Why::Failed(text),
    }
}

/// The whole text of a small file of the kernel, or why it is missing.
pub(crate) fn read_text(path: impl AsRef<Path>) -> Reading<String> {
    let path = path.as_ref();
    match std::fs::read_to_string(path) {
        Ok(text) => Reading::Measured(text),
        Err(error) => Reading::Missing(why(&format!("`{}`", path.display()), &error)),
    }
}

/// What a parser found in a text, or that it did not understand it.
pub(crate) fn parsed<T>(value: Option<T>, what: &str) -> Reading<T> {
    match value {
        Some(value) => Reading::Measured(value),
        None => Reading::Missing(Why::Failed(format!("{what} has an unexpected form").into())),
    }
}

/// The same, for a reading that may be missing already.
pub(crate) fn parse_with<T>(text: Reading<String>, what: &str, parse: impl FnOnce(&str) -> Option<T>) -> Reading<T> {
    match text {
        Reading::Measured(text) => parsed(parse(&text), what),
        Reading::Missing(why) => Reading::Missing(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_keep_their_kind_and_name_their_file() {
        let refused = io::Error::from(io::ErrorKind::PermissionDenied);
        assert!(matches!(why("`/proc/1/io`", &refused), Why::NotPermitted(text) if text.starts_with("`/proc/1/io`")));
        assert!(matches!(read_text("/proc/no such file"), Reading::Missing(Why::NotSupported(_))));
        assert!(matches!(why("x", &io::Error::other("broken")), Why::Failed(text) if *text == *"x: broken"));
    }

    #[test]
    fn what_cannot_be_parsed_is_missing_not_zero() {
        let text = Reading::Measured("five".to_owned());
        assert!(matches!(parse_with(text, "`x`", |t| t.parse::<u64>().ok()), Reading::Missing(Why::Failed(_))));
    }
}
