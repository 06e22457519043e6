//! Turns an engine's own error into prony's error type, in which lack of memory and a full disk are separate kinds.

use std::error::Error;
use std::fmt::Display;
use std::io::{self, ErrorKind};
use std::iter::successors;
use std::path::Path;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;

use crate::driver::{EngineError, StoreFault};
use crate::timed_loop::chain;

/// Turns an error of `engine` while `doing` into ours; its chain is searched for lack of memory and a full disk.
pub(crate) fn failed(
    engine: &'static str,
    doing: &'static str,
    source: impl Into<Box<dyn Error + Send + Sync>>,
) -> EngineError {
    let source = source.into();
    match cause(source.as_ref()) {
        Some(ErrorKind::OutOfMemory) => EngineError::OutOfMemory { engine, doing },
        Some(ErrorKind::StorageFull) => disk_full(engine, doing, source),
        // Some engines preserve only the text of the system's error.
        _ if chain(source.as_ref()).contains(NO_SPACE) => disk_full(engine, doing, source),
        _ => EngineError::Engine { engine, doing, source },
    }
}

/// [`failed`], of an engine that does not say so when the disk is full: LMDB calls a write that was cut short an I/O error
/// (`mdb_page_flush`), what fjall says after a thread of its own had failed is `Poisoned`, and redb after any failure `PreviousIo`. `may_be` says that `source`
/// is such an error; a device that fails says the same, so that the disk counts as full only if `dir` has no room.
pub(crate) fn failed_writing(
    engine: &'static str,
    doing: &'static str,
    source: impl Into<Box<dyn Error + Send + Sync>>,
    (may_be, dir): (bool, &Path),
) -> EngineError {
    if may_be && has_no_room(dir) {
        return disk_full(engine, doing, source.into());
    }
    failed(engine, doing, source)
}

/// Whether an I/O error is one that a write ends with which was cut short.
pub(crate) fn is_input_output(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::IO)
}

/// What LMDB writes at once at most (`MDB_COMMIT_PAGES`): where less is free, its write is cut short.
const AT_ONCE: usize = 64 << 12;

/// Whether the file system of `dir` is full: it refuses another 256 KiB. Where that cannot be asked, it is not known to be.
pub fn has_no_room(dir: &Path) -> bool {
    room(dir) == Err(Errno::NOSPC)
}

/// Whether a file without a name may have so many bytes in `dir`. Written, not computed from free blocks, of which some are
/// reserved and not for everybody; nor preallocated, for which ext4 uses clusters that it refuses to a write.
fn room(dir: &Path) -> Result<(), Errno> {
    let file = open(dir, OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR)?;
    // A file system that compresses has room for zeros.
    let bytes: Vec<u8> = (0..AT_ONCE as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect();
    let mut left = bytes.as_slice();
    while !left.is_empty() {
        left = &left[rustix::io::write(&file, left)?..];
    }
    Ok(())
}

/// The error of an `engine` that found the disk full while `doing`.
pub(crate) fn disk_full(engine: &'static str, doing: &'static str, source: impl Display) -> EngineError {
    EngineError::DiskFull {
        engine,
        doing,
        source: advised(source, "free space on the file system of the store").into(),
    }
}

/// The C library's text for `ENOSPC`.
const NO_SPACE: &str = "No space left on device";

/// An error and its hint on one line: it is shown in counts of errors, in evidence and in cells.
pub(crate) fn advised(error: impl Display, advice: &str) -> String {
    format!("{error} (hint: {advice})")
}

/// The kind of the first I/O error in a chain of causes.
fn cause(error: &(dyn Error + 'static)) -> Option<ErrorKind> {
    let mut chain = successors(Some(error), |&error| error.source());
    chain.find_map(|error| error.downcast_ref::<io::Error>()).map(io::Error::kind)
}

/// What engines do not offer without [`crate::driver::Capabilities::reads_own_writes`].
#[allow(dead_code)] // not every feature has such a driver
pub(crate) const OWN_WRITES: &str = "reads in a write transaction";

/// What an engine does not offer, as an error.
pub(crate) fn unsupported(engine: &'static str, what: impl Into<String>) -> EngineError {
    EngineError::Unsupported { engine, what: what.into() }
}

/// Faults of options that were not checked before the store is opened, as an error.
pub(crate) fn refused(engine: &'static str, faults: &[StoreFault]) -> EngineError {
    let what: Vec<&str> = faults.iter().map(|fault| fault.message.as_str()).collect();
    unsupported(engine, format!("these settings: {}", what.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EIO: i32 = 5;
    const ENOMEM: i32 = 12;
    const ENOSPC: i32 = 28;

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
    fn write_that_fails_where_there_is_room_is_no_full_disk() {
        let dir = tempfile::tempdir().unwrap();
        let error = |number| {
            let source = io::Error::from_raw_os_error(number);
            let may_be = is_input_output(&source);
            failed_writing("some", "committing", source, (may_be, dir.path()))
        };
        assert!(matches!(error(EIO), EngineError::Engine { doing: "committing", .. }));
        assert!(matches!(error(ENOSPC), EngineError::DiskFull { .. }));
        assert_eq!(room(dir.path()), Ok(()));
        assert_eq!(room(&dir.path().join("absent")), Err(Errno::NOENT), "not known, so not full");
    }

    #[test]
    fn a_full_disk_says_what_to_do() {
        let error = failed("some", "committing", Outer(io::Error::from_raw_os_error(ENOSPC)));
        assert!(matches!(error, EngineError::DiskFull { engine: "some", doing: "committing", .. }));
        let by_text = failed("some", "committing", "IO error: No space left on device: 000012.sst");
        assert!(matches!(by_text, EngineError::DiskFull { .. }));
        let said = error.source().map(ToString::to_string).unwrap_or_default();
        assert!(said.contains("hint: free space"), "{said}");
        assert!(!said.contains('\n'), "it stands in cells and counts of errors: {said}");
    }
}
