//! Tests the environment in which a subject starts, and how its end is reported.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on must say where")]

use std::fs;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::time::Duration;

use prony_model::reading::Reading;
use prony_model::units::{Bytes, Nanos};
use prony_os::Error;
use prony_os::fixture::Allocation;
use prony_os::launch::{Input, KilledFor, Launch, LaunchSpec, Output, Status};

use crate::launch_roles::{eventually, launch, launcher, left_pid, release, run, runs, subject};

fn stdout_of(spec: LaunchSpec) -> String {
    let mut running = run(spec).unwrap();
    let end = running.wait(None).unwrap().unwrap();
    assert_eq!(end.status, Status::Exited(0), "{end:?}");
    end.stdout.unwrap().text()
}

#[test]
fn child_is_suspended_until_released() {
    let dir = tempfile::tempdir().unwrap();
    let suspended = launcher().start(subject("mark", dir.path())).unwrap();
    let pid = suspended.suspended().unwrap();
    // Suspended means waiting in a read on its pipe, before exec: the command is still the supervisor's.
    eventually("the child waits", || fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains(") S "));
    assert!(!dir.path().join("marked").exists());
    let mut running = release(suspended).unwrap();
    assert_eq!(running.wait(None).unwrap().unwrap().status, Status::Exited(0));
    assert_eq!(left_pid(dir.path(), "marked"), pid);
}

/// METHOD 7, with a runner that has a large memory itself.
#[test]
fn a_peak_is_the_childs_own_in_any_order_from_any_parent() {
    let dir = tempfile::tempdir().unwrap();
    let large = Allocation::touched(Bytes::from_bytes(300_000_000));
    let peak = |role: &str| {
        let suspended = launcher().start(subject(role, dir.path())).unwrap();
        let status = fs::read_to_string(format!("/proc/{}/status", suspended.suspended().unwrap())).unwrap();
        let before = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap().trim().to_owned();
        let before: f64 = before.trim_end_matches(" kB").parse().unwrap();
        assert!(before < 8_000.0, "what is suspended is small: {before} kB");
        let mut running = release(suspended).unwrap();
        let end = running.wait(None).unwrap().unwrap();
        assert!(running.started.released <= running.started.executed.min(end.at));
        end.usage.measured().unwrap().peak.as_bytes() as f64
    };
    let empty = peak("nothing-to-allocate");
    for (role, truth) in [("allocate-2", 2e6), ("allocate-300", 300e6), ("allocate-2", 2e6)] {
        let own = peak(role) - empty;
        assert!((own - truth).abs() <= 0.02 * truth + 2e6, "{role}: {own}");
    }
    drop(large);
}

#[test]
fn suspended_child_that_nobody_releases_is_ended() {
    let dir = tempfile::tempdir().unwrap();
    let suspended = launcher().start(subject("mark", dir.path())).unwrap();
    let pid = suspended.suspended().unwrap();
    assert!(runs(pid));
    drop(suspended);
    assert!(!runs(pid));
    assert!(!dir.path().join("marked").exists());
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let spec = LaunchSpec::new("no-such-program-anywhere", "/");
    let error = run(spec).unwrap_err();
    assert_eq!(error.to_string(), "cannot execute `no-such-program-anywhere`");
    let Error::Exec { source, .. } = error else { panic!("{error:?}") };
    assert_eq!(source.kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn a_file_that_is_no_program_is_named() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("text"), "hello").unwrap();
    let error = run(LaunchSpec::new("./text", dir.path())).unwrap_err();
    let Error::Exec { source, .. } = error else { panic!("{error:?}") };
    assert_eq!(source.kind(), std::io::ErrorKind::PermissionDenied);
}

#[test]
fn a_directory_that_is_not_there_is_named() {
    let error = run(LaunchSpec::new("/bin/true", "/nowhere")).unwrap_err();
    assert_eq!(error.to_string(), "cannot enter the directory `/nowhere` for `/bin/true`");
}

#[test]
fn impossible_descriptors_are_refused() {
    let mut spec = LaunchSpec::new("/bin/true", "/");
    spec.fds.push((OwnedFd::from(fs::File::open("/dev/null").unwrap()), 1));
    let error = launcher().start(spec).unwrap_err();
    assert!(error.to_string().contains("descriptor number 1 is not in 3 to 63"), "{error}");
}

#[test]
fn a_subject_sees_its_environment_and_nothing_of_ours() {
    let dir = tempfile::tempdir().unwrap();
    let stdout = stdout_of(subject("show", dir.path()));
    let env: Vec<&str> = stdout.lines().filter_map(|line| line.strip_prefix("env ")).collect();
    assert_eq!(env.len(), 2, "{env:?}");
    assert!(env.contains(&"PRONY_TEST_ROLE=show"));
    let cwd = format!("cwd {}", dir.path().canonicalize().unwrap().display());
    assert!(stdout.lines().any(|line| line == cwd), "{stdout}");
}

#[test]
fn child_starts_with_default_signals() {
    // A shell, because Rust's own start-up ignores SIGPIPE.
    let mut spec = LaunchSpec::new("sh", "/");
    spec.args = ["-c", "grep -E 'Sig(Blk|Ign)' /proc/self/status"].map(Into::into).into();
    spec.env = vec![("PATH".into(), "/usr/bin:/bin".into())];
    assert_eq!(stdout_of(spec), "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
}

#[test]
fn only_given_descriptors_are_open() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    // One that the supervisor inherits, as a careless library would leave it.
    let leaked = rustix::fs::open("/dev/full", rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty()).unwrap();
    let mut spec = subject("show", dir.path());
    spec.stderr = Output::File(fs::File::create(&log).unwrap());
    spec.fds.push((OwnedFd::from(fs::File::open("/dev/zero").unwrap()), 9));
    let stdout = stdout_of(spec);
    drop(leaked);
    let fds: Vec<&str> = stdout.lines().filter_map(|line| line.strip_prefix("fd ")).collect();
    let number = |line: &str| line.split(' ').next().unwrap().parse::<u32>().unwrap();
    assert!(fds.contains(&"9 /dev/zero") && fds.contains(&"0 /dev/null"), "{fds:?}");
    assert!(fds.iter().any(|line| line.starts_with("2 ") && line.ends_with("/log")), "{fds:?}");
    // The listing itself has one descriptor open, which is closed when its link is read.
    let other_fds: Vec<&&str> = fds.iter().filter(|line| ![0, 1, 2, 9].contains(&number(line))).collect();
    assert!(other_fds.iter().all(|line| line.contains("/proc/")), "{other_fds:?}");
    assert!(other_fds.len() <= 1, "{other_fds:?}");
}

#[test]
fn descriptors_carry_data_under_their_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(b"by seven").unwrap();
    drop(writer);
    let mut spec = subject("echo", dir.path());
    spec.stdin = Input::File(fs::File::open("/dev/null").unwrap());
    spec.fds.push((reader.into(), 7));
    let mut running = run(spec).unwrap();
    let end = running.wait(None).unwrap().unwrap();
    assert_eq!(end.stderr.unwrap().text(), "by seven");
}

#[test]
fn process_ends_are_reported_exactly() {
    let dir = tempfile::tempdir().unwrap();
    let end = |role: &str| launch(role, dir.path()).wait(None).unwrap().unwrap();
    let code = end("code");
    assert_eq!((code.status, code.killed, code.leftover), (Status::Exited(3), None, 0));
    assert_eq!(end("abort").status, Status::Signalled(libc::SIGABRT));
    let mut running = launch("code", dir.path());
    let since = running.started.executed;
    assert!(since > Nanos::ZERO && running.wait(None).unwrap().unwrap().at >= since);
}

#[test]
fn waiting_ends_with_the_time_and_the_end_stays_known() {
    let dir = tempfile::tempdir().unwrap();
    let mut running = launch("sleep", dir.path());
    left_pid(dir.path(), "sleep");
    assert_eq!(running.wait(Some(Duration::ZERO)).unwrap(), None);
    assert_eq!(running.wait(Some(Duration::from_millis(5))).unwrap(), None);
    let end = running.kill_tree().unwrap();
    assert_eq!((end.status, end.killed), (Status::Signalled(libc::SIGKILL), Some(KilledFor::Asked)));
    assert_eq!(running.wait(Some(Duration::ZERO)).unwrap(), Some(end));
}

#[test]
fn a_polite_subject_ends_by_sigterm() {
    let dir = tempfile::tempdir().unwrap();
    let mut running = launch("sleep", dir.path());
    left_pid(dir.path(), "sleep");
    assert!(matches!(running.signal(99), Err(Error::Signal { signal: 99 })));
    let end = running.terminate(Duration::from_secs(60));
    assert_eq!((end.status, end.killed), (Status::Signalled(libc::SIGTERM), None));
}

#[test]
fn excess_output_is_counted_and_discarded() {
    let dir = tempfile::tempdir().unwrap();
    let mut spec = subject("flood", dir.path());
    spec.stdout = Output::Capture { first: Bytes::from_kib(4), last: Bytes::from_kib(4) };
    let mut running = run(spec).unwrap();
    let end = running.wait(None).unwrap().unwrap();
    assert_eq!(end.status, Status::Exited(0));
    let stdout = end.stdout.unwrap();
    assert!(stdout.first.contains("<begin>xxx") && stdout.last.ends_with("xxx<end>"));
    assert_eq!((stdout.first.len(), stdout.last.len()), (4096, 4096));
    assert!(stdout.total >= (200 << 20) + 12 && stdout.omitted == stdout.total - 8192);
}

#[test]
fn one_stream_is_captured_without_the_other() {
    let dir = tempfile::tempdir().unwrap();
    let shell = |script: &str| {
        let mut spec = LaunchSpec::new("/bin/sh", dir.path());
        spec.args = ["-c", script].map(Into::into).into();
        spec
    };
    let mut messages = shell("echo said >&2");
    messages.stdout = Output::Null;
    let end = run(messages).unwrap().wait(None).unwrap().unwrap();
    assert_eq!((end.status, end.stdout.is_none()), (Status::Exited(0), true));
    assert_eq!(end.stderr.unwrap().text(), "said\n");
    let mut output = shell("echo said");
    output.stderr = Output::Null;
    let end = run(output).unwrap().wait(None).unwrap().unwrap();
    assert_eq!((end.stdout.unwrap().text().as_str(), end.stderr.is_none()), ("said\n", true));
}

#[test]
fn cpu_time_is_the_trees() {
    let dir = tempfile::tempdir().unwrap();
    let end = launch("burn", dir.path()).wait(None).unwrap().unwrap();
    let Reading::Measured(cpu) = end.cpu else { panic!("{end:?}") };
    let burnt = cpu.user + cpu.system;
    assert!(burnt >= Nanos::from_millis(300) && burnt < Nanos::from_secs(3), "{burnt}");
}
