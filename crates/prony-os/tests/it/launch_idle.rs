//! Tests of supervisors that serve one process after another: nothing of one reaches the next.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on must say where")]

use std::fs;
use std::path::Path;

use prony_model::spec::Limits;
use prony_os::launch::{End, Launch, LaunchSpec, Launcher, Scratch, Status};
use prony_os::limits::Group;
use rustix::process::{Pid, Signal, kill_process};

use crate::launch_roles::{Running, eventually, launcher, left, left_pid, parent_of, release, runs, subject};

/// The process that spawns the subjects of a supervisor.
fn spawner_of(supervisor: u32) -> u32 {
    let tasks = fs::read_dir(format!("/proc/{supervisor}/task")).unwrap().flatten();
    let children: String = tasks.map(|task| fs::read_to_string(task.path().join("children")).unwrap()).collect();
    let is_spawner = |pid: &&str| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap().trim() == "prony-spawner";
    children.split_ascii_whitespace().find(is_spawner).unwrap().parse().unwrap()
}

fn send(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal).unwrap();
}

/// A role under way, with its supervisor.
fn start(launcher: &Launcher, spec: LaunchSpec) -> (Running, u32) {
    let process = launcher.start(spec).unwrap();
    let supervisor = parent_of(process.suspended().unwrap());
    (release(process).unwrap(), supervisor)
}

/// A role from its launch to the cleanup; its end, and its supervisor.
fn whole(launcher: &Launcher, role: &str, dir: &Path) -> (End, u32) {
    let (mut running, supervisor) = start(launcher, subject(role, dir));
    let end = running.wait(None).unwrap().unwrap();
    let (finished, reused) = running.finish().unwrap();
    assert!(finished.problems.is_empty() && reused.is_none());
    (end, supervisor)
}

#[test]
fn next_process_has_its_own_group_directories_output_and_counts() {
    let dir = tempfile::tempdir().unwrap();
    let launcher = launcher();
    let own = |role: &str| {
        let (group, scratch) = (Group::create(&Limits::default()).unwrap(), Scratch::create(dir.path()).unwrap());
        let mut spec = subject(role, dir.path());
        (spec.group, spec.scratch) = (Some(group.clone()), vec![scratch.path().to_path_buf()]);
        let process = launcher.start(spec).unwrap();
        let pid = process.suspended().unwrap();
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
        assert_eq!(groups.contains(group.name()), !group.directories().is_empty());
        let supervisor = parent_of(pid);
        let mut running = release(process).unwrap();
        let end = running.wait(None).unwrap().unwrap();
        assert!(running.finish().unwrap().0.problems.is_empty());
        assert!(!scratch.path().exists() && group.directories().iter().all(|dir| !dir.exists()));
        (end, supervisor)
    };
    let (first, supervisor) = own("burn");
    let (second, same) = own("code");
    assert_eq!((supervisor, first.status, second.status), (same, Status::Exited(0), Status::Exited(3)));
    let cpu = |end: &End| end.cpu.measured().map(|cpu| cpu.user + cpu.system).unwrap();
    assert!(cpu(&first) > cpu(&second), "{first:?} {second:?}");
    let show = own("show").0.stdout.unwrap();
    assert!(show.first.contains("status Name:"));
    let silent = own("code").0.stdout.unwrap();
    assert!(!silent.first.contains("status Name:"));
}

#[test]
fn concurrent_processes_have_supervisors_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let launcher = launcher();
    let (mut first, one) = start(&launcher, subject("sleep", dir.path()));
    left(dir.path(), "sleep");
    let (_, other) = whole(&launcher, "code", dir.path());
    assert_ne!(one, other);
    first.kill_tree().unwrap();
    first.finish().unwrap();
    drop(launcher);
    assert!(!runs(one) && !runs(other), "they end with the launcher");
}

#[test]
fn supervisor_that_ended_a_daemon_serves_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let launcher = launcher();
    let (mut running, supervisor) = start(&launcher, subject("daemon", dir.path()));
    assert_eq!(running.wait(None).unwrap().unwrap().leftover, 1);
    let daemon = left_pid(dir.path(), "daemon");
    assert_eq!(running.finish().unwrap().0.killed, 1);
    assert!(!runs(daemon));
    let (end, same) = whole(&launcher, "code", dir.path());
    assert_eq!((end.status, end.killed, end.leftover, same), (Status::Exited(3), None, 0, supervisor));
}

#[test]
fn supervisor_that_was_killed_while_it_waited_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let launcher = launcher();
    let (_, supervisor) = whole(&launcher, "code", dir.path());
    send(supervisor, Signal::KILL);
    eventually("it is gone", || !runs(supervisor));
    let (end, other) = whole(&launcher, "code", dir.path());
    assert!(end.status == Status::Exited(3) && other != supervisor);
}

#[test]
fn supervisor_whose_spawner_was_stopped_or_killed_serves_no_other_process() {
    let dir = tempfile::tempdir().unwrap();
    let launcher = launcher();
    for signal in [Signal::STOP, Signal::KILL] {
        let (mut running, supervisor) = start(&launcher, subject("sleep", dir.path()));
        left(dir.path(), "sleep");
        let spawner = spawner_of(supervisor);
        send(spawner, signal);
        running.kill_tree().unwrap();
        running.finish().unwrap();
        eventually("neither is left", || !runs(spawner) && !runs(supervisor));
        fs::remove_file(dir.path().join("sleep")).unwrap();
    }
    assert_eq!(whole(&launcher, "code", dir.path()).0.status, Status::Exited(3));
}
