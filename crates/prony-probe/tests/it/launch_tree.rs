//! Nothing of a tree survives, whoever dies first.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on must say where")]

use std::fs;
use std::path::Path;

use prony_core::reading::Reading;
use prony_probe::launch::Status;
use rustix::process::{Pid, Signal, kill_process};

use crate::launch_roles::{command, eventually, launch, left, left_pid, runs};

fn kill(pid: u32) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
}

fn parent_of(pid: u32) -> u32 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    status.lines().find_map(|line| line.strip_prefix("PPid:\t")).unwrap().parse().unwrap()
}

fn scratch_dirs(dir: &Path) -> usize {
    let names = fs::read_dir(dir).unwrap().flatten().map(|entry| entry.file_name());
    names.filter(|name| name.to_string_lossy().starts_with(".prony-")).count()
}

#[test]
fn a_daemon_in_its_own_session_is_counted_and_ended() {
    let dir = tempfile::tempdir().unwrap();
    let mut running = launch("daemon", dir.path());
    let end = running.wait(None).unwrap().unwrap();
    let daemon = left_pid(dir.path(), "daemon");
    assert_eq!((end.status, end.leftover), (Status::Exited(0), 1));
    assert!(matches!(end.cpu, Reading::Missing(_)));
    assert!(runs(daemon));
    let finished = running.finish().unwrap();
    assert_eq!((finished.killed, finished.problems.len()), (1, 0));
    assert!(!runs(daemon));
}

#[test]
fn who_ignores_sigterm_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let mut running = launch("stubborn", dir.path());
    let pid = left_pid(dir.path(), "stubborn");
    let end = running.terminate(std::time::Duration::from_millis(50)).unwrap();
    assert_eq!(end.status, Status::Signalled(libc::SIGKILL));
    assert!(!runs(pid));
}

#[test]
fn a_dropped_handle_takes_the_tree_along() {
    let dir = tempfile::tempdir().unwrap();
    let running = launch("double", dir.path());
    let pids = [left_pid(dir.path(), "sleep"), left_pid(dir.path(), "daemon")];
    assert!(pids.iter().all(|pid| runs(*pid)));
    drop(running);
    assert!(!pids.iter().any(|pid| runs(*pid)));
}

#[test]
fn a_killed_runner_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut runner = command("runner", dir.path()).spawn().unwrap();
    let pids = ["sleep", "daemon"].map(|name| left_pid(dir.path(), name));
    left(dir.path(), "runner");
    let supervisor = parent_of(pids[0]);
    assert_ne!(supervisor, runner.id());
    assert_eq!(scratch_dirs(dir.path()), 1);
    kill(runner.id());
    runner.wait().unwrap();
    eventually("the supervisor is gone", || !runs(supervisor));
    assert!(!pids.iter().any(|pid| runs(*pid)), "{pids:?}");
    assert_eq!(scratch_dirs(dir.path()), 0);
}

#[test]
fn a_killed_supervisor_takes_the_subject_along() {
    let dir = tempfile::tempdir().unwrap();
    let mut running = launch("sleep", dir.path());
    let pid = left_pid(dir.path(), "sleep");
    kill(parent_of(pid));
    let end = running.wait(None).unwrap().expect("a lost supervisor is an end");
    assert!(end.lost.as_deref().is_some_and(|how| how.contains("SIGKILL")), "{end:?}");
    assert!(end.cpu.measured().is_none() && end.usage.measured().is_none(), "nobody told: {end:?}");
    eventually("the subject is gone", || !runs(pid));
}
