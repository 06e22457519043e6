//! Which processes belong to a trial, and in which role.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use super::parse;

/// A process from which a part of the tree descends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// Its pid.
    pub pid: u32,
    /// The role of it and its descendants: `worker`, a service's name ...
    pub role: String,
    /// `false` for a supervisor: its descendants are observed, and the CPU time of the children that
    /// it waited for, but not its own memory and time.
    pub itself: bool,
    /// A control group whose members belong to the role too, whoever their parent is.
    pub group: Option<PathBuf>,
}

impl Root {
    /// A process that is itself a subject.
    pub fn subject(pid: u32, role: impl Into<String>) -> Self {
        Self { pid, role: role.into(), itself: true, group: None }
    }

    /// A process that only holds the tree together.
    pub fn supervisor(pid: u32, role: impl Into<String>) -> Self {
        Self { pid, role: role.into(), itself: false, group: None }
    }
}

/// Role of each process of the tree: of the nearest root above it; once given, a role stays, so that
/// an orphan keeps the one of its first parent.
pub(crate) fn assign(
    roots: &[Root],
    known: &BTreeMap<u32, String>,
    mut children: impl FnMut(u32) -> Vec<u32>,
) -> BTreeMap<u32, String> {
    let mut found = BTreeMap::new();
    let mut open: Vec<(u32, &str)> = roots.iter().map(|root| (root.pid, root.role.as_str())).collect();
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

/// Finds the tree through procfs.
#[derive(Debug, Default)]
pub(crate) struct Finder {
    last_pid: Option<u32>,
}

impl Finder {
    /// Whether a process or thread of the machine may have begun since the last call. Reading one
    /// number spares walking every thread's list of children on a quiet machine.
    pub(crate) fn anything_new(&mut self) -> bool {
        let now = fs::read_to_string("/proc/loadavg").ok().and_then(|text| parse::last_pid(&text));
        let same = now.is_some() && now == self.last_pid;
        self.last_pid = now;
        !same
    }

    /// The tree below `roots`.
    pub(crate) fn find(&self, roots: &[Root], known: &BTreeMap<u32, String>) -> BTreeMap<u32, String> {
        let mut found = if std::path::Path::new("/proc/thread-self/children").exists() {
            assign(roots, known, children)
        } else {
            let parents = parents();
            assign(roots, known, |pid| parents.get(&pid).cloned().unwrap_or_default())
        };
        for root in roots {
            let Some(group) = &root.group else { continue };
            let members = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
            for pid in parse::pids(&members) {
                found.entry(pid).or_insert_with(|| known.get(&pid).unwrap_or(&root.role).clone());
            }
        }
        found
    }
}

/// Children of all threads of a process; none where it has ended.
fn children(pid: u32) -> Vec<u32> {
    threads(pid)
        .into_iter()
        .filter_map(|tid| fs::read_to_string(format!("/proc/{pid}/task/{tid}/children")).ok())
        .flat_map(|text| parse::pids(&text))
        .collect()
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
        let roots = [Root::supervisor(1, "other"), Root::subject(10, "worker"), Root::subject(20, "mongo.0")];
        let found = assign(&roots, &BTreeMap::new(), tree);
        let role = |pid| found[&pid].as_str();
        assert_eq!([10, 11, 12, 13].map(role), ["worker"; 4]);
        assert_eq!([20, 21].map(role), ["mongo.0"; 2]);
        assert_eq!([1, 40].map(role), ["other"; 2]);
        assert_eq!(found.len(), 8);
    }

    #[test]
    fn an_orphan_keeps_its_role() {
        let roots = [Root::supervisor(1, "other"), Root::subject(10, "worker")];
        let known = BTreeMap::from([(40, "worker".to_owned())]);
        assert_eq!(assign(&roots, &known, tree)[&40], "worker");
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
