//! An engine's own error as ours: lack of memory apart, a full disk named.

use std::error::Error;
use std::fmt::Display;
use std::io;

use crate::driver::{EngineError, OptionFault};

const ENOMEM: i32 = 12;
const ENOSPC: i32 = 28;

/// `source`, said by `engine` while `doing`; lack of memory anywhere in its chain is told apart.
pub(crate) fn failed(
    engine: &'static str,
    doing: &'static str,
    source: impl Into<Box<dyn Error + Send + Sync>>,
) -> EngineError {
    let source = source.into();
    match cause(source.as_ref()) {
        Some(error) if is_out_of_memory(error) => EngineError::OutOfMemory { engine, doing },
        Some(error) if error.raw_os_error() == Some(ENOSPC) => {
            EngineError::Engine { engine, doing, source: advised(source, FREE_SPACE).into() }
        }
        _ => EngineError::Engine { engine, doing, source },
    }
}

/// What to do about a full disk.
pub(crate) const FREE_SPACE: &str = "free space on the file system of the store";

/// An error with what to do about it, on one line: it stands in counts of errors, in evidence and in cells.
pub(crate) fn advised(error: impl Display, advice: &str) -> String {
    format!("{error} (hint: {advice})")
}

/// The first I/O error in a chain of causes.
fn cause<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e io::Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(io) = error.downcast_ref::<io::Error>() {
            return Some(io);
        }
        next = error.source();
    }
    None
}

fn is_out_of_memory(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::OutOfMemory || error.raw_os_error() == Some(ENOMEM)
}

/// Options that were not checked before the store is opened, as an error.
pub(crate) fn refused(engine: &'static str, faults: &[OptionFault]) -> EngineError {
    let what: Vec<&str> = faults.iter().map(|fault| fault.message.as_str()).collect();
    EngineError::Unsupported { engine, what: format!("these settings: {}", what.join("; ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] io::Error);

    #[test]
    fn lack_of_memory_is_found_under_other_errors() {
        let error = failed("some", "committing", Outer(io::Error::from_raw_os_error(ENOMEM)));
        assert!(matches!(error, EngineError::OutOfMemory { engine: "some", doing: "committing" }));
    }

    #[test]
    fn other_errors_keep_their_source() {
        let error = failed("some", "committing", Outer(io::Error::from_raw_os_error(5)));
        assert_eq!(error.to_string(), "`some` failed while committing");
        assert_eq!(error.source().map(ToString::to_string).as_deref(), Some("outer"));
    }

    #[test]
    fn a_full_disk_says_what_to_do() {
        let error = failed("some", "committing", io::Error::from_raw_os_error(ENOSPC));
        let said = error.source().map(ToString::to_string).unwrap_or_default();
        assert!(said.contains("hint: free space"), "{said}");
        assert!(!said.contains('\n'), "it stands in cells and counts of errors: {said}");
    }
}
