//! Detects whether a spawned child still shares the memory of another process, as it does until it executes its program.

use std::time::Duration;

use rustix::process::{Pid, getpid};

/// Of the kernel's kinds of comparison (include/uapi/linux/kcmp.h): the memory map.
const KCMP_VM: libc::c_long = 1;

/// How often to check. Mostly the first check finds a map of its own.
const PAUSE: Duration = Duration::from_micros(50);

/// Waits until a child that was made in our memory has a map of its own, or has ended.
///
/// The kernel lets the parent of such a child go on where the child executes its program, just before it exchanges the map.
/// On a busy machine the child may not run again for milliseconds; until it does, its memory is ours by every file of procfs.
pub(crate) fn wait_for_own_memory(child: Pid) {
    while share_memory(getpid(), child) {
        std::thread::sleep(PAUSE);
    }
}

/// Whether two processes have one memory map. `false` where the kernel gives no answer: without `kcmp`, or where it may not be
/// called.
pub(crate) fn share_memory(one: Pid, other: Pid) -> bool {
    let pids = [one, other].map(|pid| libc::c_long::from(pid.as_raw_pid()));
    // SAFETY: the call takes numbers only.
    unsafe { libc::syscall(libc::SYS_kcmp, pids[0], pids[1], KCMP_VM, 0, 0) == 0 }
}

#[cfg(test)]
pub(crate) mod tests;
