//! Finds the processes that belong to a trial, and their roles.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::{fs, io};

use rustix::thread::gettid;

use super::parse;
use super::proc_file::{ProcFile, read_once};
use crate::why::kernel_text;

/// A process from which a part of the tree descends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// Its pid.
    pub pid: u32,
    /// The role of it and its descendants: `worker`, a service's name ...
    pub role: String,
    /// Where its descendants go whose parents end; `None` where that is not known, or processes of others go there too.
    pub supervisor: Option<Supervisor>,
    /// A control group whose members belong to the role too, whoever their parent is.
    pub group: Option<PathBuf>,
    /// Whether prony started it. Of others it changes nothing, not even the kernel's peak of memory.
    pub own: bool,
}

impl Root {
    /// A process that is itself a subject.
    pub fn subject(pid: u32, role: impl Into<String>) -> Self {
        Self { pid, role: role.into(), supervisor: None, group: None, own: true }
    }

    /// Whether a child of `parent` is an orphan of its tree.
    fn adopts(&self, parent: u32, child: u32) -> bool {
        self.supervisor.is_some_and(|supervisor| supervisor.pid == parent && supervisor.spawner != child)
    }
}

/// A process of prony that becomes the parent of the orphans of one tree, such as daemons. It is no part of that tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Supervisor {
    /// Its pid.
    pub pid: u32,
    /// Its only child that is no part of the tree either.
    pub spawner: u32,
}

/// Role of each process of the tree: of the nearest root above it; once given, a role stays, so that
/// an orphan keeps the one of its first parent.
pub(crate) fn assign(
    roots: &[Root],
    known: &BTreeMap<u32, String>,
    mut children: impl FnMut(u32) -> Vec<u32>,
) -> BTreeMap<u32, String> {
    let mut found = BTreeMap::new();
    let mut open: Vec<(u32, &str)> = Vec::new();
    for root in roots {
        let orphans = root.supervisor.map(|supervisor| children(supervisor.pid)).unwrap_or_default();
        let adopted = orphans.into_iter().filter(|child| root.supervisor.is_some_and(|of| of.spawner != *child));
        open.extend(adopted.chain([root.pid]).map(|pid| (pid, root.role.as_str())));
    }
    while let Some((pid, inherited)) = open.pop() {
        if found.contains_key(&pid) {
            continue;
        }
        let root = roots.iter().find(|root| root.pid == pid);
        let role = root.map(|root| &root.role).or_else(|| known.get(&pid)).map_or(inherited, String::as_str);
        found.insert(pid, role.to_owned());
        open.extend(children(pid).into_iter().map(|child| (child, role)));
    }
    found
}

/// Where new processes of the tree may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// Among these pids, which may be threads.
    Among {
        /// Given out earlier, but not yet visible.
        again: Vec<u32>,
        /// Given out since.
        new: Vec<u32>,
    },
    /// Anywhere: the whole tree must be walked.
    Anywhere,
}

impl News {
    /// Whether there is nothing to search.
    pub(crate) fn none(&self) -> bool {
        matches!(self, Self::Among { again, new } if again.is_empty() && new.is_empty())
    }
}

/// What was added to the tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arrivals {
    /// Processes and their roles.
    pub(crate) processes: BTreeMap<u32, String>,
    /// Known processes that have new threads.
    pub(crate) threaded: BTreeSet<u32>,
}

/// Finds the tree through procfs.
///
/// Walking every thread's list of children costs some 25 us a process, so that is done at the start only. Later the
/// last pid that the machine gave out shows how many processes and threads began since. Each of these is examined,
/// whoever's it is, unless they outnumber the tree.
#[derive(Debug, Default)]
pub(crate) struct Finder {
    loadavg: Option<ProcFile>,
    last_pid: Option<u32>,
    /// Pids given out that were not visible yet: the kernel counts them before they appear.
    unseen: Vec<u32>,
}

impl Finder {
    /// Where to search for what was added since the last call to a tree of about `size` threads.
    pub(crate) fn news(&mut self, size: usize, buffer: &mut Vec<u8>) -> News {
        let loadavg = self.loadavg.get_or_insert_with(|| ProcFile::new("/proc/loadavg".to_owned()));
        let now = loadavg.text(buffer).ok().and_then(|text| parse::last_pid(&text)).filter(|_| counts_our_pids());
        let before = std::mem::replace(&mut self.last_pid, now);
        news(before, now, std::mem::take(&mut self.unseen), size)
    }

    /// What was added to the tree `known`.
    pub(crate) fn arrivals(&mut self, news: News, roots: &[Root], known: &BTreeMap<u32, String>) -> Arrivals {
        let mut arrivals = match news {
            News::Among { again, new } => {
                let scan = |pid: u32| (pid, ids(pid));
                let new: Vec<_> = new.into_iter().map(scan).collect();
                self.unseen = new.iter().filter(|(_, ids)| ids.is_none()).map(|(pid, _)| *pid).collect();
                let all = new.into_iter().chain(again.into_iter().map(scan));
                admit(roots, known, all.filter_map(|(pid, ids)| Some((pid, ids?))).collect())
            }
            News::Anywhere => {
                // What began during the walk.
                self.unseen = self.last_pid.map(|last| (last.saturating_sub(8)..=last).collect()).unwrap_or_default();
                let found = walk(roots, known);
                Arrivals { threaded: found.keys().chain(known.keys()).copied().collect(), processes: found }
            }
        };
        add_members(roots, known, &mut arrivals.processes);
        arrivals
    }
}

/// Whether the last pid of `/proc/loadavg` is one of the pids that this process sees, found out once: it must move to that of a
/// new thread. In LXC it is the machine's, whose pids are other numbers, and in gVisor it is 0.
fn counts_our_pids() -> bool {
    static COUNTS: OnceLock<bool> = OnceLock::new();
    let last = || parse::last_pid(&read_once("/proc/loadavg").ok()?);
    let moves = || {
        let before = last();
        let thread = std::thread::Builder::new().spawn(|| gettid().as_raw_pid()).ok()?.join().ok()?;
        Some(moved_to(thread.cast_unsigned(), before?, last()?))
    };
    // Pids may begin again meanwhile.
    *COUNTS.get_or_init(|| (0..3).any(|_| moves() == Some(true)))
}

/// Whether the last pid was that of a thread at some time between two readings, one before it began and one after.
fn moved_to(thread: u32, before: u32, after: u32) -> bool {
    before < thread && thread <= after
}

/// Pids given out since the last call, and those not visible then, unless more than `size`.
fn news(last: Option<u32>, now: Option<u32>, unseen: Vec<u32>, size: usize) -> News {
    match (last, now) {
        (Some(last), Some(now)) if last <= now && (now - last) as usize <= size.max(16) => {
            News::Among { again: unseen, new: (last + 1..=now).collect() }
        }
        _ => News::Anywhere,
    }
}

/// Sorts tasks, each with its process and that one's parent, into new processes of the tree, new threads in it, and
/// foreign ones.
fn admit(roots: &[Root], known: &BTreeMap<u32, String>, mut tasks: Vec<(u32, parse::Ids)>) -> Arrivals {
    let mut arrivals = Arrivals::default();
    loop {
        let before = tasks.len();
        tasks.retain(|(task, ids)| {
            let role_of = |pid: &u32| known.get(pid).or_else(|| arrivals.processes.get(pid)).cloned();
            if *task != ids.process {
                arrivals.threaded.extend(role_of(&ids.process).map(|_| ids.process));
                return false;
            }
            let root = roots.iter().find(|root| root.pid == *task).map(|root| root.role.clone());
            let adopter = || roots.iter().find(|root| root.adopts(ids.parent, *task)).map(|root| root.role.clone());
            let found = root.or_else(|| role_of(task)).or_else(|| role_of(&ids.parent)).or_else(adopter);
            let Some(role) = found else { return true };
            arrivals.processes.insert(*task, role);
            arrivals.threaded.insert(*task);
            false
        });
        // A child may have been examined before its parent was known.
        if tasks.is_empty() || tasks.len() == before {
            return arrivals;
        }
    }
}

fn ids(task: u32) -> Option<parse::Ids> {
    parse::ids(&read_once(&format!("/proc/{task}/status")).ok()?)
}

/// The tree below `roots`, found by walking it.
fn walk(roots: &[Root], known: &BTreeMap<u32, String>) -> BTreeMap<u32, String> {
    if std::path::Path::new("/proc/thread-self/children").exists() {
        return assign(roots, known, children);
    }
    let parents = parents();
    assign(roots, known, |pid| parents.get(&pid).cloned().unwrap_or_default())
}

/// Adds members of control groups whose parents are foreign processes.
fn add_members(roots: &[Root], known: &BTreeMap<u32, String>, found: &mut BTreeMap<u32, String>) {
    for root in roots {
        let Some(group) = &root.group else { continue };
        let members = members(group).unwrap_or_default();
        for pid in members.into_iter().filter(|pid| !known.contains_key(pid)) {
            found.entry(pid).or_insert_with(|| root.role.clone());
        }
    }
}

/// The processes in a control group and in those below it, whose CPU time and memory the kernel counts in it too.
///
/// # Errors
/// Where the group itself cannot be read. One below may end at any time.
pub(crate) fn members(group: &Path) -> io::Result<Vec<u32>> {
    let mut all = parse::pids(&kernel_text(group.join("cgroup.procs"))?);
    // A directory has two links, and one more for each directory below, where the file system counts them as cgroupfs does.
    if fs::metadata(group).is_ok_and(|directory| directory.nlink() != 2) {
        let below = fs::read_dir(group)?
            .filter_map(Result::ok)
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        all.extend(below.flat_map(|entry| members(&entry.path()).unwrap_or_default()));
    }
    Ok(all)
}

/// Children of all threads of a process; none where it has ended.
fn children(pid: u32) -> Vec<u32> {
    threads(pid)
        .into_iter()
        .filter_map(|tid| kernel_text(format!("/proc/{pid}/task/{tid}/children")).ok())
        .flat_map(|text| parse::pids(&text))
        .collect()
}

/// A process and all that descend from it.
pub(crate) fn descendants(pid: u32) -> Vec<u32> {
    let (mut all, mut open) = (Vec::new(), vec![pid]);
    while let Some(pid) = open.pop() {
        all.push(pid);
        open.extend(children(pid));
    }
    all
}

/// The parent of a process; `None` where it has ended.
pub(crate) fn parent(pid: u32) -> Option<u32> {
    Some(parse::stat(&fs::read(format!("/proc/{pid}/stat")).ok()?)?.parent)
}

/// Threads of a process; none where it has ended.
pub(crate) fn threads(pid: u32) -> Vec<u32> {
    numbers(&format!("/proc/{pid}/task"))
}

/// Children of every process of the machine, for kernels that keep no lists of children.
fn parents() -> BTreeMap<u32, Vec<u32>> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for pid in numbers("/proc") {
        let stat = fs::read(format!("/proc/{pid}/stat")).ok().and_then(|text| parse::stat(&text));
        if let Some(stat) = stat {
            children.entry(stat.parent).or_default().push(pid);
        }
    }
    children
}

fn numbers(directory: &str) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(pid: u32) -> Vec<u32> {
        match pid {
            1 => vec![10, 20, 40],
            10 => vec![11, 12],
            12 => vec![13],
            20 => vec![21],
            _ => vec![],
        }
    }

    #[test]
    fn descendants_take_the_role_of_the_nearest_root() {
        let roots = [Root::subject(1, "other"), Root::subject(10, "worker"), Root::subject(20, "mongo.0")];
        let found = assign(&roots, &BTreeMap::new(), tree);
        let role = |pid| found[&pid].as_str();
        assert_eq!([10, 11, 12, 13].map(role), ["worker"; 4]);
        assert_eq!([20, 21].map(role), ["mongo.0"; 2]);
        assert_eq!([1, 40].map(role), ["other"; 2]);
        assert_eq!(found.len(), 8);
    }

    #[test]
    fn orphans_that_a_supervisor_adopts_have_the_role_of_its_tree() {
        let supervisor = Some(Supervisor { pid: 1, spawner: 20 });
        let roots = [Root { supervisor, ..Root::subject(10, "worker") }];
        let found = assign(&roots, &BTreeMap::new(), tree);
        assert_eq!(found.keys().copied().collect::<Vec<_>>(), [10, 11, 12, 13, 40], "neither supervisor nor spawner");
        let ids = |process, parent| parse::Ids { process, parent };
        // 41 is an orphan whose parent was never seen, and 42 its child; 20 is the spawner.
        let tasks = vec![(42, ids(42, 41)), (41, ids(41, 1)), (20, ids(20, 1)), (43, ids(43, 2))];
        let known = BTreeMap::from([(10, "worker".to_owned())]);
        let found = admit(&roots, &known, tasks);
        assert_eq!(found.processes.keys().copied().collect::<Vec<_>>(), [41, 42]);
    }

    #[test]
    fn an_orphan_keeps_its_role() {
        let roots = [Root::subject(1, "other"), Root::subject(10, "worker")];
        let known = BTreeMap::from([(40, "worker".to_owned())]);
        assert_eq!(assign(&roots, &known, tree)[&40], "worker");
    }

    #[test]
    fn pids_given_out_since_are_read_unless_too_many() {
        let among =
            |again: &[u32], new: std::ops::Range<u32>| News::Among { again: again.to_vec(), new: new.collect() };
        assert!(news(Some(10), Some(10), vec![], 4).none());
        assert_eq!(news(Some(10), Some(10), vec![9], 4), among(&[9], 11..11));
        assert_eq!(news(Some(10), Some(13), vec![9], 4), among(&[9], 11..14));
        assert_eq!(news(Some(10), Some(10 + 17), vec![], 4), News::Anywhere);
        assert_eq!(news(Some(10), Some(10 + 17), vec![], 20), among(&[], 11..28));
        assert_eq!(news(Some(30_000), Some(12), vec![], 900), News::Anywhere, "pids began again");
        assert_eq!(news(None, Some(12), vec![], 900), News::Anywhere);
    }

    /// Children that began after the first walk were missed: nothing ever seemed to have begun.
    #[test]
    fn last_pid_counts_only_if_it_moves_to_that_of_our_thread() {
        assert!(moved_to(101, 100, 101) && moved_to(103, 100, 104), "others begin processes too");
        assert!(!moved_to(101, 0, 0), "as in gVisor");
        assert!(!moved_to(101, 70_000, 70_001) && !moved_to(101, 7, 9), "as in LXC");
        assert!(!moved_to(301, 32_767, 302), "they began again");
        let thread = gettid().as_raw_pid().cast_unsigned();
        let last = parse::last_pid(&read_once("/proc/loadavg").unwrap()).unwrap();
        assert_eq!(counts_our_pids(), last >= thread, "unless pids began again: {last}, {thread}");
    }

    #[test]
    fn tasks_are_classified_as_processes_threads_or_foreign() {
        let known = BTreeMap::from([(5, "worker".to_owned()), (6, "mongo".to_owned())]);
        let ids = |process, parent| parse::Ids { process, parent };
        // 9 is a child of 12, which comes later; 11 a thread of 6; 13 a child of a foreign process; 14 a root.
        let tasks = vec![(9, ids(9, 12)), (11, ids(6, 1)), (12, ids(12, 5)), (13, ids(13, 99)), (14, ids(14, 5))];
        let found = admit(&[Root::subject(14, "api")], &known, tasks);
        let roles: Vec<_> = found.processes.iter().map(|(pid, role)| (*pid, role.as_str())).collect();
        assert_eq!(roles, [(9, "worker"), (12, "worker"), (14, "api")]);
        assert_eq!(found.threaded, BTreeSet::from([6, 9, 12, 14]));
        let again = admit(&[], &known, vec![(6, ids(6, 5))]);
        assert_eq!(again.processes[&6], "mongo", "a role once given stays");
    }

    #[test]
    fn arrivals_find_a_child_spawned_between_two_scans() {
        let me = std::process::id();
        let roots = [Root::subject(me, "worker")];
        let mut finder = Finder::default();
        // The size keeps other tests' processes from causing a walk.
        let mut scan = |known: &BTreeMap<u32, String>| {
            let news = finder.news(1 << 20, &mut Vec::new());
            finder.arrivals(news, &roots, known).processes
        };
        let mut known = scan(&BTreeMap::new());
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("`sleep` starts");
        for _ in 0..2 {
            known.extend(scan(&known));
        }
        assert_eq!(known.get(&child.id()).map(String::as_str), Some("worker"));
        child.kill().expect("our own child can be ended");
        child.wait().expect("our own child can be waited for");
    }

    #[test]
    fn a_loop_in_the_lists_ends() {
        let found = assign(&[Root::subject(1, "worker")], &BTreeMap::new(), |pid| vec![1 - pid.min(1), 1, 2]);
        assert_eq!(found.keys().copied().collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn both_ways_of_finding_children_agree_on_our_own() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("`sleep` starts");
        let me = std::process::id();
        assert!(children(me).contains(&child.id()));
        assert!(parents()[&me].contains(&child.id()));
        child.kill().expect("our own child can be ended");
        child.wait().expect("our own child can be waited for");
    }
}
