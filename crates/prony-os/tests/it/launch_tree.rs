//! Tests that no process of a tree survives, whichever process ends first.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on must say where")]

use std::fs::{self, File};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use prony_model::reading::Reading;
use prony_os::Error;
use prony_os::launch::{Input, Launch, LaunchSpec, Output, Reusable, Scratch, Status};
use prony_os::limits::Group;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::launch_roles::{
    command, eventually, launch, launcher, left, left_pid, parent_of, release, run_by, runs, subject, unread,
};

fn kill(pid: u32) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
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
    let (finished, _) = running.finish().unwrap();
    assert_eq!((finished.killed, finished.problems.len()), (1, 0));
    assert!(!runs(daemon));
}

#[test]
fn who_ignores_sigterm_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let mut running = launch("stubborn", dir.path());
    let pid = left_pid(dir.path(), "stubborn");
    let end = running.terminate(Duration::from_millis(50));
    assert_eq!(end.status, Status::Signalled(libc::SIGKILL));
    assert!(!runs(pid));
}

#[test]
fn dropped_handle_ends_the_tree() {
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
fn killed_supervisor_ends_the_subject() {
    let dir = tempfile::tempdir().unwrap();
    let mut running = launch("sleep", dir.path());
    let pid = left_pid(dir.path(), "sleep");
    kill(parent_of(pid));
    let end = running.wait(None).unwrap().expect("a lost supervisor is an end");
    assert!(end.lost.as_deref().is_some_and(|how| how.contains("SIGKILL")), "{end:?}");
    assert!(end.cpu.measured().is_none() && end.usage.measured().is_none(), "nothing reported them: {end:?}");
    eventually("the subject is gone", || !runs(pid));
}

/// A subject that stopped its supervisor once kept the runner waiting forever, and the supervisor did not notice that
/// the runner was killed.
#[test]
fn stopped_supervisor_ends_the_subject() {
    let dir = tempfile::tempdir().unwrap();
    let stop = |pid: u32| kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::STOP).unwrap();
    let mut running = launch("double", dir.path());
    let pids = [left_pid(dir.path(), "sleep"), left_pid(dir.path(), "daemon")];
    stop(parent_of(pids[0]));
    let end = in_time("an end beside a stopped supervisor", move || running.wait(None).unwrap().unwrap());
    assert!(end.lost.as_deref().is_some_and(|how| how.contains("stopped")), "{end:?}");
    eventually("the tree is gone", || !pids.iter().any(|pid| runs(*pid)));

    let runner_dir = tempfile::tempdir().unwrap();
    let mut runner = command("runner", runner_dir.path()).spawn().unwrap();
    let pid = left_pid(runner_dir.path(), "sleep");
    left(runner_dir.path(), "runner");
    let supervisor = parent_of(pid);
    stop(supervisor);
    kill(runner.id());
    runner.wait().unwrap();
    eventually("the supervisor is gone", || !runs(supervisor));
    assert!(!runs(pid));
}

/// Nothing is silent for long here: the kernel alone knows of it when the end is read.
#[test]
fn supervisor_that_was_stopped_and_continued_ends_the_subject() {
    let dir = tempfile::tempdir().unwrap();
    let mut running = launch("sleep", dir.path());
    let pid = left_pid(dir.path(), "sleep");
    let supervisor = parent_of(pid);
    let signal = |signal| kill_process(Pid::from_raw(supervisor.cast_signed()).unwrap(), signal).unwrap();
    signal(Signal::STOP);
    eventually("the supervisor is stopped", || is_in(supervisor, 'T'));
    kill(pid);
    signal(Signal::CONT);
    let end = in_time("an end", move || running.wait(None).unwrap().unwrap());
    assert!(end.lost.as_deref().is_some_and(|how| how.contains("stopped")), "{end:?}");
}

#[test]
fn a_supervisor_that_is_killed_after_its_subject_leaves_the_end_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let suspended = launcher().start(subject("code", dir.path())).unwrap();
    let supervisor = parent_of(suspended.suspended().unwrap());
    let mut running = release(suspended).unwrap();
    assert_eq!(running.wait(None).unwrap().unwrap().status, Status::Exited(3));
    kill(supervisor);
    let (finished, _) = running.finish().unwrap();
    assert!(finished.problems.len() == 1 && finished.problems[0].contains("SIGKILL"), "{finished:?}");
    let mut running = run_by(reusable(), unread("daemon", dir.path())).unwrap();
    assert_eq!(running.wait(None).unwrap().unwrap().leftover, 1);
    let daemon = left_pid(dir.path(), "daemon");
    kill(parent_of(daemon));
    let (finished, reused) = running.finish().unwrap();
    assert_eq!((finished.problems.len(), reused.is_none()), (1, true), "{finished:?}");
    // Processes that no supervisor is left to end are for this process to end, or for a reaper above it.
    kill(daemon);
}

/// Fails where something blocks that must not.
fn in_time<T: Send + 'static>(what: &str, does: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, answer) = mpsc::channel();
    std::thread::spawn(move || sender.send(does()));
    answer.recv_timeout(Duration::from_secs(60)).unwrap_or_else(|_| panic!("hangs: {what}"))
}

/// A supervisor for one subject after another, which has a descriptor to keep open.
fn reusable() -> Box<dyn Reusable> {
    launcher().reusable(None, &[File::open("/dev/null").unwrap().as_fd()], None).unwrap()
}

#[test]
fn reused_supervisor_whose_subject_leaves_a_daemon_is_ended_once() {
    let dir = tempfile::tempdir().unwrap();
    let reused = reusable();
    let supervisor = parent_of(reused.spawner());
    let mut running = run_by(reused, unread("daemon", dir.path())).unwrap();
    assert_eq!(running.wait(None).unwrap().unwrap().leftover, 1);
    let (finished, reused) = in_time("another subject after a daemon", move || running.finish().unwrap());
    assert_eq!((finished.killed, finished.problems.len(), reused.is_none()), (1, 0, true));
    assert!(!runs(left_pid(dir.path(), "daemon")));
    let reused = reusable();
    let also = parent_of(reused.spawner());
    in_time("the end of a supervisor that was not used", move || drop(reused));
    eventually("they exit", || !runs(supervisor) && !runs(also));
}

#[test]
fn reused_supervisor_that_was_left_to_itself_is_reaped() {
    let reused = reusable();
    let supervisor = parent_of(reused.spawner());
    in_time("its end", move || drop(reused));
    eventually("it exits", || !runs(supervisor));
    let entry = format!("/proc/{supervisor}");
    eventually("a later launch reaps it", || {
        drop(reusable());
        !Path::new(&entry).exists()
    });
}

#[test]
fn a_subject_that_is_killed_leaves_its_supervisor_to_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let group = Group::for_counting();
    let reused = launcher().reusable(Some(group.clone()), &[], None).unwrap();
    let spawner = reused.spawner();
    let mut running = run_by(reused, unread("double", dir.path())).unwrap();
    let pids = [left_pid(dir.path(), "sleep"), left_pid(dir.path(), "daemon")];
    assert_eq!(running.kill_tree().unwrap().status, Status::Signalled(libc::SIGKILL));
    assert!(!pids.iter().any(|pid| runs(*pid)) && runs(spawner));
    let (_, reused) = running.finish().unwrap();
    let mut running = run_by(reused.expect("nothing is left"), unread("code", dir.path())).unwrap();
    let end = running.wait(None).unwrap().unwrap();
    assert_eq!((end.status, end.killed), (Status::Exited(3), None));
    drop(running);
    assert!(!runs(spawner) && group.directories().iter().all(|dir| !dir.exists()));
}

/// Whether a process waits for something.
fn is_in(pid: u32, state: char) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains(&format!(") {state} "))
}

#[test]
fn what_comes_too_late_for_one_subject_is_not_done_to_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let reused = launcher().reusable(None, &[], None).unwrap();
    let supervisor = parent_of(reused.spawner());
    let signal = |signal| kill_process(Pid::from_raw(supervisor.cast_signed()).unwrap(), signal).unwrap();
    let (input, end_it) = std::io::pipe().unwrap();
    let mut spec = LaunchSpec::new("/bin/sh", dir.path());
    (spec.stdin, spec.stdout, spec.stderr) = (Input::File(OwnedFd::from(input).into()), Output::Null, Output::Null);
    spec.args = ["-c", "read line; exit 3"].map(Into::into).into();
    let mut first = run_by(reused, spec).unwrap();
    drop(end_it);
    // Its end is reported, but not yet read here.
    poll(&mut [PollFd::new(&&*first, PollFlags::IN)], None).unwrap();
    // The report may be of its beginning only, after which the supervisor waits too: it must be idle for a while.
    let mut times = 0;
    let idle = || {
        times = if is_in(supervisor, 'S') { times + 1 } else { 0 };
        times >= 100
    };
    eventually("the supervisor has done with it", idle);
    signal(Signal::STOP);
    first.signal(libc::SIGTERM).unwrap();
    let end = first.kill_tree().unwrap();
    assert_eq!((end.status, end.killed), (Status::Exited(3), None));
    let reused = first.finish().unwrap().1.expect("nothing is left");
    let mut second = reused.start(unread("sleep", dir.path())).unwrap();
    second.release().unwrap();
    left(dir.path(), "sleep");
    signal(Signal::CONT);
    // What it does from here on is no longer late: the runner would take the stop for one under the second subject.
    let continued = WaitId::Pid(Pid::from_raw(supervisor.cast_signed()).unwrap());
    waitid(continued, WaitIdOptions::CONTINUED).unwrap();
    let mut second = in_time("the next subject", move || second.started(&[]).map(|_| second).unwrap());
    second.signal(libc::SIGHUP).unwrap();
    let end = in_time("its end", move || second.wait(None).unwrap().unwrap());
    assert_eq!((end.status, end.killed), (Status::Signalled(libc::SIGHUP), None));
}

#[test]
fn reused_supervisor_without_its_spawner_takes_no_other_subject() {
    let dir = tempfile::tempdir().unwrap();
    let reused = launcher().reusable(None, &[], None).unwrap();
    let spawner = reused.spawner();
    let mut running = run_by(reused, unread("sleep", dir.path())).unwrap();
    left(dir.path(), "sleep");
    kill(spawner);
    eventually("the spawner is gone", || !Path::new(&format!("/proc/{spawner}")).exists());
    running.kill_tree().unwrap();
    let (_, reused) = running.finish().unwrap();
    assert!(reused.is_none());
}

#[test]
fn successive_subjects_are_reported_with_their_executables() {
    let dir = tempfile::tempdir().unwrap();
    let bin = dir.path().join("bin");
    fs::create_dir(&bin).unwrap();
    let spec = || {
        let mut spec = LaunchSpec::new("sh", dir.path());
        (spec.stdout, spec.stderr) = (Output::Null, Output::Null);
        spec.args = ["-c", "exit 5"].map(Into::into).into();
        spec.env = vec![("PATH".into(), "/nowhere:bin:/usr/bin:/bin".into())];
        spec
    };
    let mut reused = reusable();
    let spawner = reused.spawner();
    for place in ["/usr/bin/sh", "bin/sh", "/usr/bin/sh"] {
        // A candidate that may not be executed is skipped, as in every shell; the next one that may be is used.
        let mode = if place == "bin/sh" { 0o755 } else { 0o644 };
        fs::write(bin.join("sh"), "#!/bin/sh\nexit 5\n").unwrap();
        fs::set_permissions(bin.join("sh"), fs::Permissions::from_mode(mode)).unwrap();
        let mut running = run_by(reused, spec()).unwrap();
        let end = running.wait(None).unwrap().unwrap();
        assert_eq!((end.status, running.started.executable.as_deref()), (Status::Exited(5), Some(Path::new(place))));
        let started = &running.started;
        assert!(started.released <= started.executed && started.executed <= end.at && started.pid > 0);
        assert!(end.cpu.measured().is_some() && started.before.is_some());
        reused = running.finish().unwrap().1.expect("nothing is left");
        assert_eq!(reused.spawner(), spawner);
    }
}

#[test]
fn long_running_subject_is_reported_when_it_executes() {
    let dir = tempfile::tempdir().unwrap();
    let mut running = run_by(reusable(), unread("sleep", dir.path())).unwrap();
    assert_eq!(left_pid(dir.path(), "sleep"), running.started.pid);
    assert_eq!(running.wait(Some(Duration::ZERO)).unwrap(), None);
    let end = running.terminate(Duration::from_secs(60));
    assert_eq!((end.status, end.killed), (Status::Signalled(libc::SIGTERM), None));
    assert!(running.finish().unwrap().1.is_some());
}

#[test]
fn what_reused_supervisor_cannot_have_made_is_named() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("text"), "hello").unwrap();
    fs::write(dir.path().join("odd"), "hello").unwrap();
    fs::set_permissions(dir.path().join("odd"), fs::Permissions::from_mode(0o755)).unwrap();
    let refused = |command: &str, directory: &Path| {
        let mut spec = LaunchSpec::new(command, directory);
        (spec.stdout, spec.stderr) = (Output::Null, Output::Null);
        in_time("a refusal", move || run_by(reusable(), spec)).unwrap_err()
    };
    for (command, errno) in
        [("no-such-program-anywhere", libc::ENOENT), ("./text", libc::EACCES), ("./odd", libc::ENOEXEC)]
    {
        let Error::Exec { program, source } = refused(command, dir.path()) else { panic!("{command}") };
        assert_eq!((program.as_str(), source.raw_os_error()), (command, Some(errno)));
    }
    let nowhere = refused("/bin/true", Path::new("/nowhere"));
    assert_eq!(nowhere.to_string(), "cannot enter the directory `/nowhere` for `/bin/true`");
    let captured = run_by(reusable(), LaunchSpec::new("/bin/true", "/")).unwrap_err();
    assert!(
        captured.to_string().contains("output can be captured only of a process that is launched suspended"),
        "{captured}"
    );
}

#[test]
fn killed_or_stopped_spawner_is_reported_and_blocks_nothing() {
    let launch_error = |reused: Box<dyn Reusable>| {
        in_time("a launch without a spawner", move || run_by(reused, unread("code", Path::new("/"))))
    };
    let reused = reusable();
    kill(reused.spawner());
    // At once, while it may still be there, and when it is not.
    assert!(matches!(launch_error(reused).unwrap_err(), Error::SupervisorEnded { .. }));
    let reused = reusable();
    let spawner = reused.spawner();
    kill(spawner);
    eventually("the spawner is gone", || !Path::new(&format!("/proc/{spawner}")).exists());
    assert!(matches!(launch_error(reused).unwrap_err(), Error::SupervisorEnded { .. }));
    let stopped = reusable();
    let pid = Pid::from_raw(stopped.spawner().cast_signed()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    assert!(
        matches!(launch_error(stopped).unwrap_err(), Error::SupervisorEnded { .. }),
        "it never read what was asked"
    );
    eventually("the stopped spawner is ended", || !runs(pid.as_raw_pid().cast_unsigned()));
}

#[test]
fn reused_supervisor_removes_its_scratch_when_it_is_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let scratch = Scratch::create(dir.path()).unwrap();
    let reused = launcher().reusable(None, &[], Some(scratch.path())).unwrap();
    drop(reused);
    assert!(!scratch.path().exists());
}
