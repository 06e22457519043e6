//! The limit of open files (`ulimit -n`). A sampler keeps several files open for each process, and one for each thread; many
//! systems begin with a limit of 1024.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limit that this process was started with.
static OF_USER: OnceLock<Rlimit> = OnceLock::new();

/// Raises this process's limit as far as its user may. What it launches has that of the user: see [`of_user`].
pub(crate) fn raise() {
    OF_USER.get_or_init(|| {
        let limit = getrlimit(Resource::Nofile);
        // Where that is refused, fewer files stay open.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
        limit
    });
}

/// The limit of the user, whether it was raised or not; `None` where there is none.
pub(crate) fn of_user() -> Option<u64> {
    OF_USER.get().copied().unwrap_or_else(|| getrlimit(Resource::Nofile)).current
}

/// Sets this process's limit, up to the highest that its user may have.
///
/// # Errors
/// Of `setrlimit`.
pub(crate) fn set(limit: u64) -> std::io::Result<()> {
    let maximum = getrlimit(Resource::Nofile).maximum;
    Ok(setrlimit(Resource::Nofile, Rlimit { current: Some(limit), maximum })?)
}

/// Whether a file may stay open although it is not needed at present. A quarter of the numbers remains for files that are read
/// once: without them no process would be found any more.
pub(crate) fn leaves_room(file: &impl AsFd) -> bool {
    let number = u64::try_from(file.as_fd().as_raw_fd()).unwrap_or(0);
    getrlimit(Resource::Nofile).current.is_none_or(|limit| number < limit - limit / 4)
}
