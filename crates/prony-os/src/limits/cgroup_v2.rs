//! Control groups of version 2: one directory, whose controllers the parent group must enable for it.

use std::fs;
use std::io;
use std::path::Path;

use prony_model::units::{Bytes, Nanos};

use super::cgroup_v1::{PERIOD, quota};
use super::figures::Figures;
use super::group_files::{entry, number, processes, table, write};
use super::hierarchy::leaf_name;
use crate::lock::Lock;
use crate::owner::ProcessId;
use crate::why::kernel_text;

/// Controllers that limit or count.
pub(super) const CONTROLLERS: [&str; 4] = ["memory", "cpu", "pids", "io"];

fn words(dir: &Path, file: &str) -> Vec<String> {
    let text = fs::read_to_string(dir.join(file)).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

/// Makes a group enable the wanted controllers for groups below it; returns those that it enables. A group that
/// contains processes may not: if we are the only one, we move into a group below.
pub(super) fn hand_down(parent: &Path, wanted: &[&str]) -> Vec<String> {
    let offered = words(parent, "cgroup.controllers");
    for controller in wanted.iter().filter(|name| offered.iter().any(|o| o == *name)) {
        if words(parent, "cgroup.subtree_control").iter().any(|name| name == controller) {
            continue;
        }
        let text = format!("+{controller}");
        let busy =
            write(parent, "cgroup.subtree_control", &text).is_err_and(|e| e.kind() == io::ErrorKind::ResourceBusy);
        if busy && step_aside(parent).is_ok() {
            // Whether it works now is checked below.
            let _ = write(parent, "cgroup.subtree_control", &text);
        }
    }
    let mut handed = words(parent, "cgroup.subtree_control");
    handed.retain(|name| CONTROLLERS.contains(&name.as_str()));
    handed
}

/// Moves this process, if it is the only one in the group, into a child group.
fn step_aside(parent: &Path) -> io::Result<()> {
    let me = ProcessId::current();
    if processes(parent) != [me.pid] {
        return Err(io::ErrorKind::ResourceBusy.into());
    }
    let leaf = parent.join(leaf_name(me));
    match Lock::of_new(&leaf, &|dir| fs::create_dir(dir)) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        // This process stays in it until it ends.
        made => std::mem::forget(made),
    }
    write(&leaf, "cgroup.procs", &me.pid.to_string())
}

/// Limits memory, page cache included, with swap off, and makes the kernel kill the whole group together; returns how
/// swap is excluded.
pub(super) fn limit_memory(dir: &Path, limit: Bytes) -> io::Result<&'static str> {
    write(dir, "memory.max", &limit.as_bytes().to_string())?;
    // Before 4.19 the watch on `oom_kill` does what this does.
    let _ = write(dir, "memory.oom.group", "1");
    match write(dir, "memory.swap.max", "0") {
        Ok(()) => Ok("no swap allowed"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => without_limit_of_swap(kernel_text("/proc/swaps")),
        Err(error) => Err(error),
    }
}

/// What to do where the kernel does not count the swap that there is.
pub(super) const SWAP_HINT: &str = "turn swap off: `swapoff -a`; or boot the kernel with `swapaccount=1`";

/// How swap is excluded where groups have no limit of it: older kernels lack the file, and not swap, where they do not count that
/// for groups (`swapaccount=0`). `swaps` is `/proc/swaps`, whose first line is a heading.
fn without_limit_of_swap(swaps: io::Result<String>) -> io::Result<&'static str> {
    match swaps {
        Ok(swaps) if swaps.lines().nth(1).is_some() => {
            let why = "the machine has swap (`/proc/swaps`), and this kernel cannot limit it (no `memory.swap.max`), so that a \
                       tree at its limit would be swapped out";
            Err(io::Error::new(io::ErrorKind::Unsupported, why))
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok("the machine has no swap"),
    }
}

/// Limits CPU time to so many processors' worth.
pub(super) fn limit_cpus(dir: &Path, cpus: f64) -> io::Result<()> {
    write(dir, "cpu.max", &format!("{} {PERIOD}", quota(cpus)))
}

/// The least limit of CPU time, in processors, of a group and of those above it; `None` where there is none.
pub(super) fn least_cpus(dir: &Path) -> Option<f64> {
    let limit = |dir: &Path| {
        // `max` in place of the quota is no limit.
        let [quota, period] = words(dir, "cpu.max").try_into().ok()?;
        Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?)
    };
    dir.ancestors().filter_map(limit).min_by(f64::total_cmp)
}

/// Fills in the values of this version's controllers that version 1 did not report.
pub(super) fn read(dir: &Path, controllers: &[String], figures: &mut Figures) {
    let has = |name: &str| controllers.iter().any(|controller| controller == name);
    if has("memory") {
        figures.peak = number(dir, "memory.peak").map(Bytes::from_bytes);
        figures.limit_hits = entry(&table(dir, "memory.events"), "oom");
    }
    if figures.cpu.measured().is_none() {
        // The kernel has this file even where the controller is not enabled.
        figures.cpu = entry(&table(dir, "cpu.stat"), "usage_usec").map(Nanos::from_micros);
    }
    if has("cpu") {
        figures.throttled = entry(&table(dir, "cpu.stat"), "nr_throttled");
    }
    if has("pids") {
        figures.forks_refused = entry(&table(dir, "pids.events"), "max");
    }
}

#[cfg(test)]
mod tests {
    use prony_model::reading::{Reading, Why};

    use super::super::tests::{content, fake};
    use super::*;

    #[test]
    fn memory_is_limited_without_swap_and_killed_together() {
        let dir = fake(&[("memory.max", "max"), ("memory.swap.max", "max"), ("memory.oom.group", "0")]);
        assert_eq!(limit_memory(dir.path(), Bytes::from_mib(2)).unwrap(), "no swap allowed");
        let now = ["memory.max", "memory.swap.max", "memory.oom.group"].map(|file| content(&dir, file));
        // An ordinary file keeps bytes beyond a shorter write; files of the kernel do not.
        assert_eq!(now.each_ref().map(|text| &text[..1]), ["2", "0", "1"]);
        assert!(limit_memory(fake(&[]).path(), Bytes::from_mib(2)).is_err());
    }

    /// Where swap is not accounted, a tree beyond its limit was swapped out, under a note that there was no swap.
    #[test]
    fn swap_that_cannot_be_limited_is_refused_where_there_is_any() {
        let head = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n";
        let of = |swaps: &str| without_limit_of_swap(Ok(swaps.to_owned()));
        assert_eq!(of(head).unwrap(), "the machine has no swap");
        assert_eq!(without_limit_of_swap(Err(io::ErrorKind::NotFound.into())).unwrap(), "the machine has no swap");
        let error = of(&format!("{head}/dev/dm-1\tpartition\t1000\t0\t-2\n")).unwrap_err();
        assert!(
            error.kind() == io::ErrorKind::Unsupported && error.to_string().contains("`memory.swap.max`"),
            "{error}"
        );
        assert!(without_limit_of_swap(Err(io::ErrorKind::PermissionDenied.into())).is_err());
    }

    #[test]
    fn least_limit_of_cpus_is_that_of_any_group_above() {
        let top = fake(&[("cpu.max", "150000 100000\n")]);
        let group = top.path().join("a/b");
        fs::create_dir_all(&group).unwrap();
        fs::write(group.join("cpu.max"), "max 100000\n").unwrap();
        assert_eq!(least_cpus(&group), Some(1.5));
        fs::write(top.path().join("a/cpu.max"), "20000 50000\n").unwrap();
        assert_eq!(least_cpus(&group), Some(0.4));
        assert_eq!(least_cpus(fake(&[("cpu.max", "max 100000\n")]).path()), None);
    }

    #[test]
    fn cpus_become_a_quota() {
        let dir = fake(&[("cpu.max", "")]);
        limit_cpus(dir.path(), 0.5).unwrap();
        assert_eq!(content(&dir, "cpu.max"), "50000 100000");
    }

    #[test]
    fn controllers_are_handed_down_as_far_as_they_are_offered() {
        let parent = fake(&[("cgroup.controllers", "cpu memory rdma"), ("cgroup.subtree_control", "memory cpu")]);
        assert_eq!(hand_down(parent.path(), &CONTROLLERS), ["memory", "cpu"]);
        let none = fake(&[("cgroup.controllers", ""), ("cgroup.subtree_control", "")]);
        assert!(hand_down(none.path(), &CONTROLLERS).is_empty());
        assert_eq!(content(&none, "cgroup.subtree_control"), "");
    }

    #[test]
    fn step_aside_moves_only_a_sole_member() {
        let me = ProcessId::current();
        let crowd = fake(&[("cgroup.procs", &format!("{}\n1\n", me.pid))]);
        assert!(step_aside(crowd.path()).is_err());
        let sole = fake(&[("cgroup.procs", &format!("{}\n", me.pid))]);
        let leaf = sole.path().join(leaf_name(me));
        fs::create_dir(&leaf).unwrap();
        fs::write(leaf.join("cgroup.procs"), "").unwrap();
        step_aside(sole.path()).unwrap();
        assert_eq!(fs::read_to_string(leaf.join("cgroup.procs")).unwrap(), me.pid.to_string());
    }

    #[test]
    fn counters_distinguish_kills_from_hits_of_the_limit() {
        let dir = fake(&[
            ("memory.peak", "20"),
            ("memory.events", "low 0\nhigh 0\nmax 9\noom 2\noom_kill 1\noom_group_kill 1\n"),
            ("cpu.stat", "usage_usec 7\nuser_usec 4\nsystem_usec 3\n"),
        ]);
        let mut figures = Figures::missing(&Why::NotApplicable);
        read(dir.path(), &["memory".into()], &mut figures);
        assert_eq!(figures.limit_hits, Reading::Measured(2));
        assert_eq!(figures.peak, Reading::Measured(Bytes::from_bytes(20)));
        assert_eq!(figures.cpu, Reading::Measured(Nanos::from_micros(7)));
        assert_eq!(figures.forks_refused, Reading::Missing(Why::NotApplicable));
    }
}
