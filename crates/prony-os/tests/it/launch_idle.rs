//! Tests of supervisors that serve one process after another: nothing of one reaches the next.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on must say where")]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::Path;

use prony_model::spec::Limits;
use prony_model::units::Nanos;
use prony_os::launch::{End, Launch, LaunchSpec, Launcher, Scratch, Status};
use prony_os::limits::Group;
use prony_os::sample::{Root, Sampler, Settings};
use rustix::process::{Pid, Signal, kill_process};

use crate::launch_roles::{Running, command, eventually, launcher, left, left_pid, parent_of, release, runs, subject};

/// The process that spawns the subjects of a supervisor.
fn spawner_of(supervisor: u32) -> u32 {
    let tasks = fs::read_dir(format!("/proc/{supervisor}/task")).unwrap().flatten();
    let children: String = tasks.map(|task| fs::read_to_string(task.path().join("children")).unwrap()).collect();
    let is_spawner = |pid: &&str| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap().trim() == "prony-spawner";
    children.split_ascii_whitespace().find(is_spawner).unwrap().parse().unwrap()
}

/// Sends a signal to a process, which has several threads here, and waits until all of them are stopped or have ended. A
/// kill has its effect at once.
fn send(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal).unwrap();
    let is_stopped = |task: fs::DirEntry| {
        let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
    };
    match signal {
        Signal::STOP => eventually("all threads are stopped", || {
            fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten().all(is_stopped)
        }),
        Signal::TERM => eventually("it has ended", || !runs(pid)),
        _ => {}
    }
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

/// Its orphans are children of its supervisor, and so are the processes that this serves next.
#[test]
fn next_process_of_a_supervisor_is_none_of_those_sampled_before() {
    let dir = tempfile::tempdir().unwrap();
    let launcher = launcher();
    let sampler = Sampler::idle(Vec::new(), Settings::default());
    let pids = || sampler.snapshot().processes.iter().map(|process| process.pid).collect::<Vec<_>>();
    let (mut running, supervisor) = start(&launcher, subject("daemon", dir.path()));
    let pid = running.started.pid;
    sampler.watch(Root { supervisor: running.supervisor(), ..Root::subject(pid, "load.command") });
    running.wait(None).unwrap().unwrap();
    assert_eq!(pids(), [left_pid(dir.path(), "daemon")], "an orphan is found after the end of its root");
    sampler.unwatch(pid);
    running.finish().unwrap();
    let (mut next, same) = start(&launcher, subject("sleep", dir.path()));
    left(dir.path(), "sleep");
    assert_eq!((pids(), same), (vec![], supervisor));
    assert_eq!(sampler.glance()["load.command"].unread, Nanos::ZERO, "prony itself has waited for the orphan");
    next.kill_tree().unwrap();
    next.finish().unwrap();
}

/// What a role prints of its own state, by kind.
fn state(launcher: &Launcher, spec: LaunchSpec) -> (BTreeMap<String, Vec<String>>, u32) {
    let (mut running, supervisor) = start(launcher, spec);
    let end = running.wait(None).unwrap().unwrap();
    assert!(running.finish().unwrap().0.problems.is_empty());
    let stdout = end.stdout.unwrap().text();
    let mut kinds = BTreeMap::new();
    for line in stdout.lines().filter_map(|line| line.strip_prefix("state ")) {
        let (kind, value) = line.split_once(": ").unwrap();
        kinds.entry(kind.to_owned()).or_insert_with(Vec::new).push(value.to_owned());
    }
    assert!(!kinds.is_empty(), "{stdout}");
    (kinds, supervisor)
}

#[test]
fn nothing_that_a_process_changes_or_is_given_reaches_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let launcher = launcher();
    let mut altered = subject("alter", dir.path());
    let group = Group::create(&Limits::default()).unwrap();
    let has_group = !group.directories().is_empty();
    altered.group = Some(group);
    // What only a shell changes; the role inherits it.
    let script = "trap '' HUP USR1; umask 077; ulimit -n 77; cd /; exec \"$0\" \"$@\"";
    let program = std::mem::replace(&mut altered.command, "/bin/sh".into());
    let head = [OsString::from("-c"), script.into(), program];
    altered.args = head.into_iter().chain(altered.args).collect();
    altered.env.push(("PRONY_TEST_GIVEN".into(), "x".into()));
    altered.fds.push((File::open("/dev/zero").unwrap().into(), 9));
    let (altered, supervisor) = state(&launcher, altered);
    assert!(!runs(left_pid(dir.path(), "daemon")), "an orphan ends with its tree");
    let (next, same) = state(&launcher, subject("state", dir.path()));
    let (fresh, other) = state(&crate::launch_roles::launcher(), subject("state", dir.path()));
    assert!(same == supervisor && other != supervisor);
    assert_eq!(next, fresh);
    let expected = ["SigIgn", "Umask", "cwd", "env", "fd", "limits", "oom_score_adj", "priorities", "timer slack"];
    for kind in expected.into_iter().chain(has_group.then_some("cgroup")) {
        assert_ne!(altered[kind], fresh[kind], "{kind}");
    }
}

/// The kernel's peak before the program of a role is executed, whose environment has so many bytes; and its supervisor.
fn peak_before(launcher: &Launcher, bytes: usize, dir: &Path) -> (f64, u32) {
    let mut spec = subject("nothing-to-allocate", dir);
    spec.env.extend((0..bytes / 1024).map(|n| (format!("V{n:05}").into(), "x".repeat(1024 - 8).into())));
    let (mut running, supervisor) = start(launcher, spec);
    running.wait(None).unwrap();
    let peak = running.started.before.unwrap().1.peak.as_bytes() as f64;
    running.finish().unwrap();
    (peak, supervisor)
}

#[test]
fn peak_does_not_include_what_launching_an_earlier_process_took() {
    let dir = tempfile::tempdir().unwrap();
    let launcher = launcher();
    let (empty, first) = peak_before(&launcher, 0, dir.path());
    let (_, same) = peak_before(&launcher, 48 << 10, dir.path());
    let (small, still) = peak_before(&launcher, 0, dir.path());
    assert!(same == first && still == first, "a small environment is no reason for another supervisor");
    let (large, last) = peak_before(&launcher, 1500 << 10, dir.path());
    let (after, other) = peak_before(&launcher, 0, dir.path());
    assert!(last == first && other != first);
    assert!(large - empty > 1.4e6, "{large} {empty}");
    for peak in [small, after] {
        assert!((peak - empty).abs() < 0.7e6, "{peak} {empty}");
    }
}

/// Two idle supervisors with their spawners; the second is taken first.
fn two_idle(launcher: &Launcher, dir: &Path) -> [(u32, u32); 2] {
    let both = [(); 2].map(|()| start(launcher, subject("code", dir)));
    both.map(|(mut running, supervisor)| {
        running.wait(None).unwrap();
        running.finish().unwrap();
        (supervisor, spawner_of(supervisor))
    })
}

/// A process after something has happened to two idle supervisors, of which so many are replaced.
fn next_after(replaced: usize, happens: impl FnOnce([(u32, u32); 2])) {
    let dir = tempfile::tempdir().unwrap();
    let launcher = launcher();
    let idle = two_idle(&launcher, dir.path());
    happens(idle);
    let (end, next) = whole(&launcher, "code", dir.path());
    assert_eq!(end.status, Status::Exited(3));
    let [first, second] = idle.map(|(supervisor, _)| supervisor);
    match replaced {
        0 => assert_eq!(next, second),
        1 => assert_eq!(next, first),
        _ => assert!(next != first && next != second),
    }
    for (supervisor, spawner) in idle.into_iter().rev().take(replaced) {
        eventually("what was replaced has ended", || !runs(supervisor) && !runs(spawner));
    }
    drop(launcher);
    assert!(idle.iter().all(|(supervisor, spawner)| !runs(*supervisor) && !runs(*spawner)) && !runs(next));
}

#[test]
fn idle_supervisor_to_which_nothing_happened_serves_the_next() {
    next_after(0, |_| {});
}

#[test]
fn killed_and_stopped_idle_supervisors_are_replaced() {
    next_after(2, |[(first, _), (second, _)]| {
        send(first, Signal::STOP);
        send(second, Signal::KILL);
    });
    next_after(2, |both| both.iter().for_each(|(supervisor, _)| send(*supervisor, Signal::KILL)));
    next_after(2, |both| both.iter().for_each(|(supervisor, _)| send(*supervisor, Signal::STOP)));
    next_after(2, |both| both.iter().for_each(|(supervisor, _)| send(*supervisor, Signal::TERM)));
}

#[test]
fn idle_supervisor_whose_spawner_is_killed_or_stopped_is_replaced() {
    next_after(1, |[_, (_, spawner)]| send(spawner, Signal::KILL));
    next_after(1, |[_, (_, spawner)]| send(spawner, Signal::STOP));
    next_after(2, |[(_, first), (_, second)]| {
        send(first, Signal::STOP);
        send(second, Signal::KILL);
        eventually("the spawner is gone", || !runs(second));
    });
}

#[test]
fn idle_supervisors_end_with_a_killed_runner() {
    for stops in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let mut runner = command("idle-runner", dir.path()).spawn().unwrap();
        let idle: Vec<u32> = left(dir.path(), "idle").split(' ').map(|pid| pid.parse().unwrap()).collect();
        let spawners: Vec<u32> = idle.iter().map(|supervisor| spawner_of(*supervisor)).collect();
        if stops {
            [idle[0], spawners[1]].into_iter().for_each(|pid| send(pid, Signal::STOP));
        }
        runner.kill().unwrap();
        runner.wait().unwrap();
        eventually("all have ended", || !idle.iter().chain(&spawners).any(|pid| runs(*pid)));
    }
}

#[test]
fn spawner_that_a_process_stopped_or_killed_makes_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let launcher = launcher();
    for signal in [Signal::STOP, Signal::KILL] {
        let (mut running, supervisor) = start(&launcher, subject("sleep", dir.path()));
        left(dir.path(), "sleep");
        let spawner = spawner_of(supervisor);
        send(spawner, signal);
        running.kill_tree().unwrap();
        running.finish().unwrap();
        let (end, next) = whole(&launcher, "code", dir.path());
        assert!(end.status == Status::Exited(3) && next != supervisor);
        eventually("neither is left", || !runs(spawner) && !runs(supervisor));
        fs::remove_file(dir.path().join("sleep")).unwrap();
    }
}
