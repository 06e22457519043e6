//! Finds and ends the whole process tree below a supervisor.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use prony_model::number::count;
use prony_model::reading::Reading;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, getpid, pidfd_open, pidfd_send_signal, test_kill_process, waitid,
};

use crate::owner::{Place, ProcessId, all_places, place};
use crate::why::kernel_text;

/// Scans after which stopping is given up for killing, if a tree forks faster than it is stopped.
const MOST_STOP_SCANS: usize = 64;

/// Everything below `root`, without `root`; parents before children where the list allows.
fn below(root: i32, places: &[Place]) -> Vec<Place> {
    let mut children: HashMap<i32, Vec<Place>> = HashMap::new();
    for place in places {
        children.entry(place.parent).or_default().push(*place);
    }
    let (mut found, mut next) = (Vec::new(), vec![root]);
    while let Some(parent) = next.pop() {
        for child in children.remove(&parent).unwrap_or_default() {
            next.push(child.id.pid);
            found.push(child);
        }
    }
    found
}

/// All processes below the calling one but `spawner`, ended ones that nobody reaped yet included.
pub(super) fn descendants(spawner: Pid) -> Vec<Place> {
    let spawner = spawner.as_raw_pid();
    // Reading every process of the machine takes milliseconds, and mostly finds nothing.
    if children().is_some_and(|pids| pids.iter().all(|pid| *pid == spawner)) {
        return Vec::new();
    }
    let mut found = below(getpid().as_raw_pid(), &all_places());
    found.retain(|place| place.id.pid != spawner);
    found
}

/// The kernel's lists of the calling process's children, one per thread, kept open: a check costs one call.
#[derive(Debug)]
pub(super) struct Children(Vec<File>);

impl Children {
    /// For a process that starts no more threads; empty where the kernel has no such lists.
    pub(super) fn open() -> Self {
        let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
        let lists: Option<Vec<File>> = tasks.map(|task| File::open(task.path().join("children")).ok()).collect();
        Self(lists.unwrap_or_default())
    }

    /// Whether there is no child but `spawner`, ended ones included; `false` where that cannot be determined.
    ///
    /// Every orphan of the tree comes to a subreaper, so that one without children has no tree.
    pub(super) fn none_but(&self, spawner: Pid) -> bool {
        let is_spawner = |pid: &str| pid.parse() == Ok(spawner.as_raw_pid());
        let only = |list: &File| {
            let mut text = [0; 64];
            let read = list.read_at(&mut text, 0).ok();
            let listed = read.and_then(|length| std::str::from_utf8(&text[..length]).ok());
            // A list that does not fit contains another child too, in full.
            listed.is_some_and(|pids| pids.split_ascii_whitespace().all(is_spawner))
        };
        !self.0.is_empty() && self.0.iter().all(only)
    }
}

/// What is left of a tree whose subject has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Leftover {
    /// Processes that still run, such as daemons.
    pub(super) living: u64,
    /// Processes that have ended and were not reaped.
    pub(super) ended: u64,
}

impl Leftover {
    /// Nothing is left.
    pub(super) const NONE: Self = Self { living: 0, ended: 0 };

    /// Of all that a scan found.
    pub(super) fn of(places: &[Place]) -> Self {
        let ended = places.iter().filter(|place| place.zombie).count();
        Self { living: (places.len() - ended) as u64, ended: ended as u64 }
    }

    /// Whether nothing is left.
    pub(super) const fn is_none(self) -> bool {
        self.living + self.ended == 0
    }

    /// Whether the kernel's counts of the reaped processes cover the whole tree.
    pub(super) fn complete(self) -> Reading<()> {
        let missing = |what: String| Reading::not_supported(what);
        match (self.living, self.ended) {
            (0, 0) => Reading::Measured(()),
            (0, ended) => missing(format!(
                "no parent has waited for {} that ended: the CPU time of the tree is not known",
                count(ended, "process")
            )),
            (living, _) => missing(format!("still running: {} of the tree", count(living, "process"))),
        }
    }
}

/// Children of the calling process; `None` where the kernel has no lists of them and there are some.
fn children() -> Option<Vec<i32>> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    if matches!(waitid(WaitId::All, options), Err(rustix::io::Errno::CHILD)) {
        return Some(Vec::new());
    }
    let mut pids = Vec::new();
    for task in fs::read_dir("/proc/self/task").ok()?.flatten() {
        let text = kernel_text(task.path().join("children")).ok()?;
        pids.extend(text.split_ascii_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
    }
    Some(pids)
}

/// Processes below the calling one but `spawner` that still run.
pub(super) fn living(spawner: Pid) -> impl Iterator<Item = ProcessId> {
    descendants(spawner).into_iter().filter(|place| !place.zombie).map(|place| place.id)
}

/// Sends a signal to this very process, never to a later one with the same pid.
fn signal(id: ProcessId, signal: Signal) {
    let Some(pid) = Pid::from_raw(id.pid) else { return };
    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    if place(id.pid).is_some_and(|place| place.id == id) {
        // A process that has ended meanwhile needs no signal.
        let _ = pidfd_send_signal(&handle, signal);
    }
}

/// Whether there is a process that this one may not signal.
pub(super) fn is_out_of_reach(pid: i32) -> bool {
    let asked = Pid::from_raw(pid).map(test_kill_process);
    matches!(asked, Some(Err(rustix::io::Errno::PERM)))
}

/// Stops everything below the calling process except `spawner` until a scan finds nothing that still runs, so that
/// nothing forks while it is killed; then kills it all. Returns how many were alive.
pub(super) fn kill_all(spawner: Pid) -> usize {
    let mut stopped = HashSet::new();
    for _ in 0..MOST_STOP_SCANS {
        let free: Vec<ProcessId> = living(spawner).filter(|id| !stopped.contains(id)).collect();
        if free.is_empty() {
            break;
        }
        for id in free {
            signal(id, Signal::STOP);
            stopped.insert(id);
        }
    }
    let alive: Vec<ProcessId> = living(spawner).collect();
    for id in &alive {
        signal(*id, Signal::KILL);
    }
    alive.len()
}

#[cfg(test)]
mod tests {
    use prony_model::reading::Why;

    use super::*;

    fn place(pid: i32, parent: i32) -> Place {
        Place { id: ProcessId { pid, start: 0 }, parent, zombie: false }
    }

    #[test]
    fn the_tree_contains_all_generations_and_no_other_process() {
        let places =
            [place(1, 0), place(10, 1), place(11, 10), place(12, 11), place(13, 10), place(20, 1), place(21, 20)];
        let mut pids: Vec<i32> = below(10, &places).iter().map(|place| place.id.pid).collect();
        pids.sort_unstable();
        assert_eq!(pids, [11, 12, 13]);
        assert!(below(13, &places).is_empty());
    }

    #[test]
    fn counts_are_whole_only_when_everything_was_reaped() {
        let zombie = Place { zombie: true, ..place(3, 1) };
        let of = |places: &[Place]| Leftover::of(places);
        assert!(of(&[]).is_none() && of(&[]).complete() == Reading::Measured(()));
        let ended = of(&[zombie]);
        assert_eq!((ended.living, ended.is_none()), (0, false), "not left behind, and not ready for another either");
        assert!(
            matches!(ended.complete(), Reading::Missing(Why::NotSupported(why)) if why.contains("no parent has waited for"))
        );
        let both = of(&[zombie, place(4, 1)]);
        assert_eq!((both.living, both.ended), (1, 1));
        assert!(
            matches!(both.complete(), Reading::Missing(Why::NotSupported(why)) if why.starts_with("still running: 1 process of"))
        );
    }

    #[test]
    fn child_beside_the_spawner_is_reported_until_it_is_reaped() {
        // Other threads of the test harness have children of their own.
        let list = Children(File::open("/proc/thread-self/children").into_iter().collect());
        if list.0.is_empty() {
            assert!(std::env::var_os("PRONY_REQUIRE_ALL").is_none(), "the kernel keeps no lists of children");
            return eprintln!("SKIPPED: the kernel keeps no lists of children");
        }
        let start = || std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let number = |child: &std::process::Child| Pid::from_raw(child.id().cast_signed()).unwrap();
        let (mut spawner, mut other) = (start(), start());
        assert!(!list.none_but(number(&spawner)));
        other.kill().unwrap();
        assert!(!list.none_but(number(&spawner)), "it was not reaped");
        other.wait().unwrap();
        assert!(list.none_but(number(&spawner)));
        spawner.kill().unwrap();
        spawner.wait().unwrap();
        assert!(!Children(Vec::new()).none_but(number(&spawner)), "this cannot be determined");
        // A thread of the test harness may end between the listing and the opening: then nothing is known.
        assert!((0..1000).any(|_| !Children::open().0.is_empty()));
    }

    #[test]
    fn a_circle_in_a_torn_scan_ends() {
        assert_eq!(below(1, &[place(2, 1), place(3, 2), place(2, 3)]).len(), 3);
    }
}
