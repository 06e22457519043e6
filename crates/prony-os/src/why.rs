//! Turns an error of the system into the reason of a missing reading.

use std::fs::File;
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

/// What was read of `what`, or why it is missing.
pub(crate) fn reading<T>(what: &str, read: io::Result<T>) -> Reading<T> {
    read.map_or_else(|error| Reading::Missing(why(what, &error)), Reading::Measured)
}

/// The whole text of a small file of the kernel, or why it is missing.
pub(crate) fn read_text(path: impl AsRef<Path>) -> Reading<String> {
    let path = path.as_ref();
    reading(&format!("`{}`", path.display()), kernel_text(path))
}

/// The first buffer: most files of procfs are shorter.
const BUFFER: usize = 16 << 10;

/// The whole text of a small file of the kernel. Such a file shows no size, so that the standard library, which asks for it,
/// begins with a buffer of 32 bytes: five to nine calls where two suffice.
///
/// Names in it may be any bytes: the kernel cuts that of a process after 15, even inside a character. What is not UTF-8 is
/// replaced, since it concerns no other field.
pub(crate) fn kernel_text(path: impl AsRef<Path>) -> io::Result<String> {
    let file = File::open(path)?;
    let (mut bytes, mut length) = (vec![0; BUFFER], 0);
    loop {
        if length == bytes.len() {
            bytes.resize(2 * length, 0);
        }
        match rustix::io::retry_on_intr(|| rustix::io::read(&file, &mut bytes[length..]))? {
            0 => break,
            read => length += read,
        }
    }
    bytes.truncate(length);
    Ok(String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// What a parser found in a text, or that it did not understand it.
pub(crate) fn parsed<T>(value: Option<T>, what: &str) -> Reading<T> {
    value.map_or_else(|| Reading::failed(format!("{what} has an unexpected form")), Reading::Measured)
}

/// The same, for a reading that may be missing already.
pub(crate) fn parse_with<T>(text: Reading<String>, what: &str, parse: impl FnOnce(&str) -> Option<T>) -> Reading<T> {
    text.and_then(|text| parsed(parse(&text), what))
}

/// What samples show, or that there are none.
pub(crate) fn sampled<T>(value: Option<T>) -> Reading<T> {
    value.map_or(Reading::Missing(Why::TooFew { have: 0, need: 1 }), Reading::Measured)
}

/// What a parser finds in a small file of the kernel.
pub(crate) fn parse_file<T>(path: impl AsRef<Path>, parse: impl FnOnce(&str) -> Option<T>) -> Reading<T> {
    let path = path.as_ref();
    parse_with(read_text(path), &format!("`{}`", path.display()), parse)
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
    fn text_is_read_whole_whatever_its_length() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        for length in [0, 1, BUFFER - 1, BUFFER, BUFFER + 1, 5 * BUFFER] {
            let text: String = ('a'..='z').cycle().take(length).collect();
            std::fs::write(&path, &text).unwrap();
            assert!(kernel_text(&path).unwrap() == text, "{length} bytes");
        }
        std::fs::write(&path, b"7 (\xc3) S").unwrap();
        assert_eq!(kernel_text(&path).unwrap(), "7 (\u{fffd}) S");
        let version = std::fs::read_to_string("/proc/version").unwrap();
        assert_eq!(kernel_text("/proc/version").unwrap(), version);
    }

    #[test]
    fn what_cannot_be_parsed_is_missing_not_zero() {
        let text = Reading::Measured("five".to_owned());
        assert!(matches!(parse_with(text, "`x`", |t| t.parse::<u64>().ok()), Reading::Missing(Why::Failed(_))));
    }
}
