//! The limit of file sizes (`ulimit -f`).

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::process::{Resource, getrlimit};

/// From now on writes beyond the limit fail with `EFBIG`, as those on a full disk do with `ENOSPC`. The default action of
/// the signal that the kernel sends as well ends the process, without a message.
///
/// The handler does nothing. To ignore the signal would do the same for this process, but programs that it starts would inherit
/// that: a handler is reset to the default action by `execve` (signal(7)).
///
/// # Errors
/// Where the handler cannot be installed.
pub fn let_writes_fail() -> std::io::Result<()> {
    signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::new(AtomicBool::new(false))).map(drop)
}

/// The limit in bytes; `None` where there is none.
pub fn limit() -> Option<u64> {
    getrlimit(Resource::Fsize).current
}
