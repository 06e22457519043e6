//! Tests limits on whole process trees, where the machine permits them.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::exit,
    reason = "a test that cannot go on must say where"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use prony_model::outcome::{OutOfMemory, Outcome};
use prony_model::reading::Reading;
use prony_model::spec::Limits;
use prony_model::units::{Bytes, Nanos};
use prony_os::launch::classify::{Evidence, classify};
use prony_os::launch::{KilledFor, Launch, LaunchSpec, Scratch, Status};
use prony_os::limits::{Capability, Group, State, capability, sweep};
use rustix::process::{Pid, Signal, kill_process};

use crate::launch_roles::{
    Running, command, eventually, launcher, left, left_pid, release, run_by, runs, subject, unread,
};

/// Whether a test must be left out, which is printed; with `PRONY_REQUIRE_ALL=1` it fails instead.
fn lacking(what: &str, ability: impl FnOnce(&Capability) -> State) -> bool {
    let State::No(why) = ability(&capability()) else { return false };
    assert_ne!(std::env::var("PRONY_REQUIRE_ALL").as_deref(), Ok("1"), "{what} is required and missing: {why}");
    eprintln!("SKIPPED: {what}: {why}");
    true
}

fn memory_limit(mib: u64) -> Limits {
    Limits { memory: Some(Bytes::from_mib(mib)), ..Limits::default() }
}

/// A role in a group of its own.
fn limited(role: &str, dir: &Path, limits: &Limits) -> (Group, LaunchSpec) {
    let group = Group::create(limits).unwrap();
    let mut spec = subject(role, dir);
    spec.group = Some(group.clone());
    (group, spec)
}

fn run(spec: LaunchSpec) -> Running {
    crate::launch_roles::run(spec).unwrap()
}

fn directories(group: &Group) -> Vec<PathBuf> {
    group.directories().into_iter().map(Path::to_owned).collect()
}

#[test]
fn suspended_child_is_in_its_group_already() {
    if lacking("a memory limit", |can| can.memory.clone()) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (group, spec) = limited("mark", dir.path(), &memory_limit(256));
    let suspended = launcher().start(spec).unwrap();
    assert_eq!(group.members(), [i32::try_from(suspended.suspended().unwrap()).unwrap()]);
    let dirs = directories(&group);
    assert!(dirs.iter().all(|dir| dir.exists()));
    drop(suspended);
    assert!(!dirs.iter().any(|dir| dir.exists()), "{dirs:?}");
}

#[test]
fn memory_past_the_limit_ends_the_tree_with_evidence() {
    if lacking("a memory limit", |can| can.memory.clone()) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (group, spec) = limited("eat", dir.path(), &memory_limit(100));
    let mut running = run(spec);
    let end = running.wait(None).unwrap().unwrap();
    assert_eq!(end.status, Status::Signalled(libc::SIGKILL));
    let (outcome, shown) = classify(&Evidence::of(&end, None));
    assert_eq!(outcome, Outcome::OutOfMemory { by: OutOfMemory::Limit }, "{shown:?}");
    let eaten: u64 = left(dir.path(), "eaten").parse().unwrap();
    assert!((64..100).contains(&eaten), "{eaten} MiB eaten");
    let peak = *group.figures().peak.measured().unwrap();
    assert!(peak <= Bytes::from_mib(100) && peak > Bytes::from_mib(90), "{peak}");
    let dirs = directories(&group);
    assert!(running.finish().unwrap().0.problems.is_empty());
    assert!(!dirs.iter().any(|dir| dir.exists()));
}

#[test]
fn the_parent_of_a_killed_process_does_not_limp_on() {
    if lacking("a memory limit", |can| can.memory.clone()) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (_, spec) = limited("eat-in-child", dir.path(), &memory_limit(100));
    let end = run(spec).wait(Some(Duration::from_secs(60))).unwrap().expect("the parent is ended too");
    assert_eq!(end.status, Status::Signalled(libc::SIGKILL));
    assert!(end.memory.oom_kills.measured().is_some_and(|kills| *kills >= 1), "{end:?}");
    assert!(matches!(end.killed, Some(KilledFor::OutOfMemory) | None));
    assert_eq!(classify(&Evidence::of(&end, None)).0, Outcome::OutOfMemory { by: OutOfMemory::Limit });
}

#[test]
fn an_unlimited_neighbour_is_not_blamed() {
    let dir = tempfile::tempdir().unwrap();
    let (_, spec) = limited("sleep", dir.path(), &Limits::default());
    let mut running = run(spec);
    kill_process(Pid::from_raw(i32::try_from(running.started.pid).unwrap()).unwrap(), Signal::KILL).unwrap();
    let end = running.wait(None).unwrap().unwrap();
    assert!(!matches!(end.memory.oom_kills, Reading::Measured(n) if n > 0), "{end:?}");
    assert_eq!((end.status, end.killed), (Status::Signalled(libc::SIGKILL), None));
}

#[test]
fn a_fork_bomb_is_bounded_and_ended() {
    if lacking("a limit on processes", |can| can.pids.clone()) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (group, spec) = limited("bomb", dir.path(), &Limits { pids: Some(24), ..Limits::default() });
    let mut running = run(spec);
    left(dir.path(), "full");
    let members = group.members();
    assert!(members.len() <= 24, "{members:?}");
    assert!(group.figures().forks_refused.measured().is_some_and(|n| *n > 0));
    running.kill_tree().unwrap();
    assert!(group.members().is_empty());
    assert!(running.finish().unwrap().0.problems.is_empty());
}

#[test]
fn a_small_fork_bomb_is_ended_without_any_group() {
    if lacking("a limit on processes", |can| can.pids.clone()) {
        return;
    }
    // The limit keeps the machine safe; the supervisor does not know the group, so it has only the process tree.
    let group = Group::create(&Limits { pids: Some(24), ..Limits::default() }).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let suspended = launcher().start(subject("bomb", dir.path())).unwrap();
    for directory in group.directories() {
        std::fs::write(directory.join("cgroup.procs"), suspended.suspended().unwrap().to_string()).unwrap();
    }
    let mut running = release(suspended).unwrap();
    left(dir.path(), "full");
    running.kill_tree().unwrap();
    assert!(group.members().is_empty(), "{:?}", group.members());
    group.remove().unwrap();
}

#[test]
fn the_groups_cpu_time_is_the_trees() {
    if lacking("CPU time of a group", |can| can.cpu_time.clone()) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (group, spec) = limited("burn", dir.path(), &Limits::default());
    let mut running = run(spec);
    running.wait(None).unwrap().unwrap();
    let cpu = *group.figures().cpu.measured().unwrap();
    assert!(cpu >= Nanos::from_millis(300) && cpu < Nanos::from_secs(3), "{cpu}");
}

#[test]
fn tree_above_its_processor_quota_is_throttled() {
    if lacking("a limit on CPU time", |can| can.cpus.clone()) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (group, spec) = limited("burn", dir.path(), &Limits { cpus: Some(0.15), ..Limits::default() });
    let mut running = run(spec);
    let end = running.wait(None).unwrap().unwrap();
    assert_eq!(end.status, Status::Exited(0));
    assert!(end.memory.throttled.measured().is_some_and(|times| *times > 0), "{:?}", end.memory);
    let stats = group.directories().into_iter().filter_map(|dir| std::fs::read_to_string(dir.join("cpu.stat")).ok());
    let stats: Vec<String> = stats.collect();
    let throttled = stats.iter().flat_map(|stat| stat.lines()).filter_map(|line| line.strip_prefix("nr_throttled "));
    assert!(throttled.into_iter().any(|times| times != "0"), "{stats:?}");
}

#[test]
fn a_killed_runner_leaves_no_group() {
    let dir = tempfile::tempdir().unwrap();
    let mut runner = command("runner-in-group", dir.path()).spawn().unwrap();
    let pids = ["sleep", "daemon"].map(|name| left_pid(dir.path(), name));
    left(dir.path(), "runner");
    let dirs: Vec<PathBuf> = left(dir.path(), "dirs").lines().map(PathBuf::from).collect();
    assert!(dirs.iter().all(|dir| dir.exists()), "{dirs:?}");
    runner.kill().unwrap();
    runner.wait().unwrap();
    eventually("the tree is gone", || !pids.iter().any(|pid| runs(*pid)));
    eventually("the groups are gone", || !dirs.iter().any(|dir| dir.exists()));
}

#[test]
fn what_killed_runners_and_supervisors_leave_is_swept() {
    let dir = tempfile::tempdir().unwrap();
    let mut runner = command("forgetful", dir.path()).spawn().unwrap();
    runner.wait().unwrap();
    let dirs: Vec<PathBuf> = left(dir.path(), "dirs").lines().map(PathBuf::from).collect();
    assert_eq!(Scratch::sweep(dir.path()).unwrap().removed.len(), 1);
    // Another test's sweep may have come first.
    assert!(sweep().1.is_empty());
    assert!(!dirs.iter().any(|dir| dir.exists()), "{dirs:?}");
    if dirs.is_empty() {
        assert!(lacking("any control group", |can| can.cpu_time.clone()), "a machine with groups made none");
    }
}

#[test]
fn limit_capabilities_are_reported_with_reasons() {
    let can = capability();
    for ability in [&can.memory, &can.cpus, &can.pids] {
        if let State::No(why) = ability {
            assert!(why.contains("; ") && why.contains("systemd-run") && !why.contains('\n'), "{why}");
        }
    }
    eprintln!("{can:?}");
    assert!(fs::read_to_string("/proc/self/cgroup").is_ok());
}

/// Processes killed for lack of memory on the whole machine since it started; another test may add some at any time.
fn killed_on_the_machine() -> u64 {
    let text = fs::read_to_string("/proc/vmstat").unwrap();
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")).map_or(0, |number| number.trim().parse().unwrap())
}

#[test]
fn what_the_machine_killed_before_is_no_evidence_for_the_next_subject() {
    if lacking("a memory limit", |can| can.memory.clone()) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let supervisor = launcher().reusable(None, &[], None).unwrap();
    let mut eater = run(limited("eat", dir.path(), &memory_limit(64)).1);
    eater.wait(None).unwrap();
    let before = killed_on_the_machine();
    let mut first = run_by(supervisor, unread("code", dir.path())).unwrap();
    first.wait(None).unwrap();
    let (_, supervisor) = first.finish().unwrap();
    let mut second = run_by(supervisor.expect("nothing is left"), unread("sleep", dir.path())).unwrap();
    let end = second.kill_tree().unwrap();
    let at = end.memory.host_oom_kills.measured().copied();
    let most = killed_on_the_machine() - before;
    assert!(at.is_some_and(|at| at <= most), "{at:?}, and {most} since the first began");
}
