//! Identifies a process although pids are reused, and makes the names of prony's groups, directories and files.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::sample::parse;
use crate::why::kernel_text;

/// Prefix of the names that a process of prony makes and locks ([`crate::lock::Lock`]).
const PREFIX: &str = "prony-run-";

/// A process: its number, and the clock tick since boot at which it began, so that a reused number is distinguished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ProcessId {
    /// The number.
    pub(crate) pid: i32,
    /// Field 22 of `/proc/PID/stat`.
    pub(crate) start: u64,
}

/// The position of a process in the tree, from `/proc/PID/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Its identity.
    pub(crate) id: ProcessId,
    /// The parent's number.
    pub(crate) parent: i32,
    /// Whether it has ended and waits to be reaped.
    pub(crate) zombie: bool,
}

/// The position of a process; `None` where there is none by this number.
pub(crate) fn place(pid: i32) -> Option<Place> {
    let stat = parse::stat(kernel_text(format!("/proc/{pid}/stat")).ok()?.as_bytes())?;
    let id = ProcessId { pid, start: stat.started };
    Some(Place { id, parent: stat.parent.try_into().ok()?, zombie: matches!(stat.state, 'Z' | 'X') })
}

/// The positions of all processes that are visible to this one.
pub(crate) fn all_places() -> Vec<Place> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| place(entry.file_name().to_str()?.parse().ok()?)).collect()
}

impl ProcessId {
    /// The calling process; a start of 0 where `/proc` cannot be read.
    pub(crate) fn current() -> Self {
        let pid = rustix::process::getpid().as_raw_pid();
        place(pid).map_or(Self { pid, start: 0 }, |place| place.id)
    }

    /// A unique name: `prony-run-PID-START-N`. PID and START help a reader; processes in different PID namespaces may
    /// have the same, so N begins at random.
    pub(crate) fn next_name(self) -> String {
        static FIRST: OnceLock<u64> = OnceLock::new();
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let first = FIRST.get_or_init(|| RandomState::new().hash_one(self.pid) >> 24);
        format!("{PREFIX}{}-{}-{}", self.pid, self.start, first + NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// The name of what a process makes only once.
    pub(crate) fn only_name(self, what: &str) -> String {
        format!("{PREFIX}{}-{}-{what}", self.pid, self.start)
    }
}

/// Whether a name is one that prony gives. Only the lock shows whose it is.
pub(crate) fn is_name(name: &str) -> bool {
    let parts = |name: &str| {
        let mut parts = name.strip_prefix(PREFIX)?.splitn(3, '-');
        let numbers: (i32, u64) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        parts.next().map(|_| numbers)
    };
    parts(name).is_some()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;

    use super::*;

    /// The kernel keeps 15 bytes of its name, which end inside a character. It was not found, and so never killed.
    #[test]
    fn process_is_found_whatever_its_name_is() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("traitement-\u{e9}t\u{e9}");
        let sleep = ["/bin/sleep", "/usr/bin/sleep"].into_iter().find(|path| fs::exists(path).unwrap()).unwrap();
        std::os::unix::fs::symlink(sleep, &link).unwrap();
        let mut child = std::process::Command::new(&link).arg0("sleep").arg("60").spawn().unwrap();
        let pid = child.id().cast_signed();
        // The kernel lets the parent go on before it sets the name.
        while fs::read(format!("/proc/{pid}/comm")).is_ok_and(|name| std::str::from_utf8(&name).is_ok()) {
            std::thread::yield_now();
        }
        let found = place(pid).unwrap();
        assert_eq!((found.id.pid, found.parent, found.zombie), (pid, std::process::id().cast_signed(), false));
        assert!(all_places().contains(&found));
        child.kill().unwrap();
        while place(pid).is_some_and(|place| !place.zombie) {
            std::thread::yield_now();
        }
        assert_eq!(place(pid), Some(Place { zombie: true, ..found }));
        child.wait().unwrap();
        assert_eq!(place(pid), None);
    }

    #[test]
    fn names_are_given_once_and_known_again() {
        let me = ProcessId::current();
        let (a, b) = (me.next_name(), me.next_name());
        assert_ne!(a, b);
        assert!(is_name(&a) && is_name(&me.only_name("runner")));
        for other in ["prony-run", "prony-run-1", "prony-run-1-2", "prony-run-x-2-3", "prony-1-2-3", "postgres-1-2-3"] {
            assert!(!is_name(other), "{other}");
        }
    }

    #[test]
    fn the_calling_process_is_among_all() {
        let me = ProcessId::current();
        assert!(all_places().iter().any(|place| place.id == me));
    }
}
