//! Identifies a process although pids are reused, and makes the names of prony's groups, directories and files.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

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

/// Reads `/proc/PID/stat`; the command name may hold blanks and parentheses, so fields count from the last `)`.
fn parse_stat(text: &str) -> Option<Place> {
    let (pid, _) = text.split_once(' ')?;
    let (_, rest) = text.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let start = fields.nth(17)?.parse().ok()?;
    let id = ProcessId { pid: pid.parse().ok()?, start };
    Some(Place { id, parent, zombie: matches!(state, "Z" | "X") })
}

/// The position of a process; `None` where there is none by this number.
pub(crate) fn place(pid: i32) -> Option<Place> {
    parse_stat(&kernel_text(format!("/proc/{pid}/stat")).ok()?)
}

/// The positions of all processes that are visible to this one.
pub(crate) fn all_places() -> Vec<Place> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| place(entry.file_name().to_str()?.parse().ok()?)).collect()
}

impl ProcessId {
    /// The calling process; a start of 0 where `/proc` cannot be read.
    pub(crate) fn current() -> Self {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
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
pub fn is_name(name: &str) -> bool {
    let parts = |name: &str| {
        let mut parts = name.strip_prefix(PREFIX)?.splitn(3, '-');
        let numbers: (i32, u64) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        parts.next().map(|_| numbers)
    };
    parts(name).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_reads_whatever_the_command_is_called() {
        let text = "77 (a) b ( c) S 12 77 77 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1000 2";
        let id = ProcessId { pid: 77, start: 987_654 };
        assert_eq!(parse_stat(text), Some(Place { id, parent: 12, zombie: false }));
        assert!(parse_stat(&text.replace(" S ", " Z ")).unwrap().zombie);
        assert_eq!(parse_stat("77 (cut"), None);
        assert_eq!(parse_stat(""), None);
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
