//! Ends a process that syncs whole file systems.

use std::collections::BTreeMap;
use std::io::{Error, ErrorKind};

use rustix::process::Signal;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter_all_threads};

/// The signal that ends such a process.
pub const SIGNAL: Signal = Signal::SYS;

/// From now on `sync` and `syncfs` end this process, all of its threads and of its children, by [`SIGNAL`] (seccomp(2)).
///
/// # Errors
/// Where the kernel has no such filters, or none for this processor.
pub fn forbid() -> std::io::Result<()> {
    let unsupported = |why: String| Error::new(ErrorKind::Unsupported, why);
    let processor = TargetArch::try_from(std::env::consts::ARCH).map_err(|error| unsupported(error.to_string()))?;
    let calls: BTreeMap<i64, _> = [libc::SYS_sync, libc::SYS_syncfs].map(|call| (call, Vec::new())).into();
    let filter = SeccompFilter::new(calls, SeccompAction::Allow, SeccompAction::KillProcess, processor);
    let program: Result<BpfProgram, _> = filter.and_then(TryInto::try_into);
    let program = program.map_err(|error| unsupported(error.to_string()))?;
    apply_filter_all_threads(&program).map_err(|error| unsupported(error.to_string()))
}
