//! The programs that launch tests need: this binary itself, in a role that a variable selects.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::exit,
    reason = "a test that cannot go on must say where"
)]

use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::ops::{Deref, DerefMut};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio, exit};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use prony_model::spec::Limits;
use prony_model::units::Bytes;
use prony_os::Error;
use prony_os::fixture::Allocation;
use prony_os::launch::{
    End, Finished, Input, Launch, LaunchSpec, Launcher, Output, Process, Reusable, Scratch, Started, supervise_stdin,
};
use prony_os::limits::Group;

const ROLE: &str = "PRONY_TEST_ROLE";
const DIR: &str = "PRONY_TEST_DIR";

fn harness_args() -> Vec<OsString> {
    ["--exact", "launch_roles::role", "--nocapture", "--test-threads=1"].map(OsString::from).into()
}

/// Launches with this binary as supervisor.
pub(crate) fn launcher() -> Launcher {
    Launcher::this_program(harness_args()).env(ROLE, "supervise")
}

/// This binary in a role, with a directory where it leaves files.
pub(crate) fn subject(role: &str, dir: &Path) -> LaunchSpec {
    let mut spec = LaunchSpec::new(std::env::current_exe().unwrap(), dir);
    spec.args = harness_args();
    spec.env = vec![(ROLE.into(), role.into()), (DIR.into(), dir.into())];
    spec
}

/// A role whose output nobody reads, as a reused supervisor's subjects are.
pub(crate) fn unread(role: &str, dir: &Path) -> LaunchSpec {
    let mut spec = subject(role, dir);
    (spec.stdout, spec.stderr) = (Output::Null, Output::Null);
    spec
}

/// A process that was released, and what it reported then.
#[derive(Debug)]
pub(crate) struct Running {
    process: Box<dyn Process>,
    pub(crate) started: Started,
}

impl Deref for Running {
    type Target = dyn Process;

    fn deref(&self) -> &Self::Target {
        &*self.process
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut *self.process
    }
}

impl Running {
    pub(crate) fn finish(self) -> Result<(Finished, Option<Box<dyn Reusable>>), Error> {
        self.process.finish()
    }

    /// Asks it to end by SIGTERM, and kills the tree when the grace is over.
    pub(crate) fn terminate(&mut self, grace: Duration) -> End {
        self.signal(libc::SIGTERM).unwrap();
        self.wait(Some(grace)).unwrap().unwrap_or_else(|| self.kill_tree().unwrap())
    }
}

/// Releases a process and waits until it executes its program.
pub(crate) fn release(mut process: Box<dyn Process>) -> Result<Running, Error> {
    process.release()?;
    let started = process.started(&[])?;
    Ok(Running { process, started })
}

/// Starts a process and lets it run.
pub(crate) fn run(spec: LaunchSpec) -> Result<Running, Error> {
    release(launcher().start(spec)?)
}

/// The next process of a supervisor, under way.
pub(crate) fn run_by(supervisor: Box<dyn Reusable>, spec: LaunchSpec) -> Result<Running, Error> {
    release(supervisor.start(spec)?)
}

/// Launches a role and lets it run.
pub(crate) fn launch(role: &str, dir: &Path) -> Running {
    run(subject(role, dir)).unwrap()
}

/// Waits for a condition; panics after a time that no healthy machine needs.
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "never came: {what}");
        std::thread::sleep(Duration::from_millis(3));
    }
}

/// Whether a process runs that is no zombie.
pub(crate) fn runs(pid: u32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    !stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['Z', 'X']))
}

/// The parent of a process.
pub(crate) fn parent_of(pid: u32) -> u32 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    status.lines().find_map(|line| line.strip_prefix("PPid:\t")).unwrap().parse().unwrap()
}

/// Reads what a role has left under a name, once it is there.
pub(crate) fn left(dir: &Path, name: &str) -> String {
    let path = dir.join(name);
    eventually(name, || path.exists());
    fs::read_to_string(path).unwrap()
}

/// A process id that a role has left.
pub(crate) fn left_pid(dir: &Path, name: &str) -> u32 {
    left(dir, name).parse().unwrap()
}

/// A child of this process in a role, for runners that are to be killed.
pub(crate) fn command(role: &str, dir: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(harness_args()).env(ROLE, role).env(DIR, dir).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

#[test]
fn role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let dir = PathBuf::from(std::env::var_os(DIR).unwrap_or_default());
    match role.as_str() {
        "supervise" => exit(i32::from(supervise_stdin() != std::process::ExitCode::SUCCESS)),
        "show" => show(),
        "state" => state(),
        "alter" => alter(&dir),
        "open-files" => crate::open_files::observe(),
        "few-open-files" => crate::open_files::observe_with_few(),
        "no-open-files" => crate::open_files::observe_with_none(),
        "mark" => leave(&dir, "marked"),
        "sleep" => sleep_as(&dir, "sleep"),
        "stubborn" => stubborn(&dir),
        "code" => exit(3),
        "abort" => std::process::abort(),
        "flood" => flood(),
        "echo" => echo(),
        "daemon" => daemon(&dir),
        "daemon-2" => daemon_2(&dir),
        "daemon-3" => sleep_as(&dir, "daemon"),
        "double" => double(&dir),
        "allocate-300" => drop(Allocation::touched(Bytes::from_bytes(300_000_000))),
        "allocate-2" => drop(Allocation::touched(Bytes::from_bytes(2_000_000))),
        "nothing-to-allocate" => {}
        "burn" => burn(),
        "bomb" => bomb(&dir),
        "eat" => eat(&dir),
        "eat-in-child" => eat_in_child(&dir),
        "runner" => runner(&dir, None),
        "runner-in-group" => runner(&dir, Some(group(&dir))),
        "idle-runner" => idle_runner(&dir),
        "forgetful" => forgetful(&dir),
        other => panic!("no role `{other}`"),
    }
    exit(0);
}

/// Leaves the process id under a name, all at once.
fn leave(dir: &Path, name: &str) {
    let new = dir.join(format!("{name}.{}", std::process::id()));
    fs::write(&new, std::process::id().to_string()).unwrap();
    fs::rename(new, dir.join(name)).unwrap();
}

fn sleep_as(dir: &Path, name: &str) {
    leave(dir, name);
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}

/// Prints what a subject finds: environment, descriptors, signals, session.
fn show() {
    // The harness has begun a line.
    println!();
    for (name, value) in std::env::vars() {
        println!("env {name}={value}");
    }
    let mut fds: Vec<(u32, PathBuf)> = fs::read_dir("/proc/self/fd")
        .unwrap()
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, fs::read_link(entry.path()).ok()?)))
        .collect();
    fds.sort();
    for (fd, target) in fds {
        println!("fd {fd} {}", target.display());
    }
    for line in fs::read_to_string("/proc/self/status").unwrap().lines() {
        println!("status {line}");
    }
    println!("cwd {}", std::env::current_dir().unwrap().display());
}

/// Prints what a process may have of the one that made it, a kind and a value in each line.
fn state() {
    println!();
    let own = |file: &str| fs::read_to_string(format!("/proc/{file}")).unwrap_or_default();
    // The test harness runs this in a thread of its own.
    let status = own("thread-self/status");
    let kinds =
        ["Umask", "Uid", "Gid", "Groups", "SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt", "Cap", "NoNewPrivs"];
    let more = ["Seccomp", "Cpus_allowed", "Mems_allowed", "THP_enabled"];
    for line in status.lines() {
        let kind = kinds.iter().chain(&more).find(|kind| line.starts_with(**kind));
        kind.into_iter().for_each(|kind| println!("state {kind}: {line}"));
    }
    for file in ["limits", "cgroup", "oom_score_adj", "personality", "coredump_filter"] {
        own(&format!("self/{file}")).lines().for_each(|line| println!("state {file}: {line}"));
    }
    let stat = own("thread-self/stat");
    let stat: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    let [parent, group, session, terminal] = [1, 2, 3, 4].map(|at| stat[at]);
    println!("state session: {} {} {terminal}", group == std::process::id().to_string(), session == parent);
    println!("state priorities: {:?}", [15, 16, 37, 38].map(|at| stat[at]));
    println!("state timer slack: {:?}", rustix::thread::current_timer_slack());
    println!("state dumpable: {:?}", rustix::process::dumpable_behavior());
    println!("state cwd: {}", std::env::current_dir().unwrap().display());
    let mut given: Vec<String> = std::env::vars().map(|(name, value)| format!("env: {name}={value}")).collect();
    given.retain(|line| !line.contains(ROLE));
    // A pipe has another number each time, and the listing's own descriptor is closed when its link is read.
    let named = |fd: fs::DirEntry| Some((fd.file_name(), fs::read_link(fd.path()).ok()?));
    let fds = fs::read_dir("/proc/self/fd").unwrap().flatten().filter_map(named);
    let kind = |target: PathBuf| target.to_string_lossy().split(':').next().unwrap().to_owned();
    let fds = fds.map(|(fd, target)| format!("fd: {} {}", fd.to_string_lossy(), kind(target)));
    given.extend(fds.filter(|line| !line.contains("/proc/")));
    given.sort();
    given.iter().for_each(|line| println!("state {line}"));
}

/// Changes its own state and prints that; leaves a daemon.
fn alter(dir: &Path) {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior, setpriority_process};
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity, set_current_timer_slack};
    setpriority_process(None, 5).unwrap();
    set_current_timer_slack(std::num::NonZero::new(1_234_567)).unwrap();
    let all = sched_getaffinity(None).unwrap();
    let mut one = CpuSet::new();
    one.set((0..CpuSet::MAX_CPU).find(|cpu| all.is_set(*cpu)).unwrap());
    sched_setaffinity(None, &one).unwrap();
    fs::write("/proc/self/oom_score_adj", "500").unwrap();
    std::mem::forget(fs::File::open("/dev/full").unwrap());
    state();
    daemon(dir);
    // Files of procfs may not be readable afterwards.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).unwrap();
}

fn stubborn(dir: &Path) {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&flag)).unwrap();
    }
    sleep_as(dir, "stubborn");
}

#[expect(clippy::disallowed_methods, reason = "a subject that writes")]
fn flood() {
    let mut out = std::io::stdout().lock();
    out.write_all(b"<begin>").unwrap();
    let block = [b'x'; 1 << 16];
    for _ in 0..(200 << 20) / block.len() {
        out.write_all(&block).unwrap();
    }
    out.write_all(b"<end>").unwrap();
}

/// Copies descriptor 7 to standard error.
fn echo() {
    let mut text = String::new();
    fs::File::open("/proc/self/fd/7").unwrap().read_to_string(&mut text).unwrap();
    eprint!("{text}");
}

/// Starts a daemon two generations down in a session of its own, and ends when it runs.
fn daemon(dir: &Path) {
    let mut child = command("daemon-2", dir).spawn().unwrap();
    child.wait().unwrap();
    left(dir, "daemon");
}

fn daemon_2(dir: &Path) {
    rustix::process::setsid().unwrap();
    drop(command("daemon-3", dir).spawn().unwrap());
}

/// A process and a daemon that both stay.
fn double(dir: &Path) {
    daemon(dir);
    sleep_as(dir, "sleep");
}

fn burn() {
    let start = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let mut n = 0u64;
    loop {
        n = std::hint::black_box(n + 1);
        let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        if (now.tv_sec - start.tv_sec) * 1_000_000_000 + now.tv_nsec - start.tv_nsec > 300_000_000 {
            return;
        }
    }
}

/// Forks until it may not, each child too.
fn bomb(dir: &Path) {
    loop {
        match command("bomb", dir).stderr(Stdio::null()).spawn() {
            Ok(child) => std::mem::forget(child),
            Err(_) => {
                if !dir.join("full").exists() {
                    let _ = fs::write(dir.join("full"), "");
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

/// Takes 8 MiB at a time, without end, and reports the sum.
fn eat(dir: &Path) {
    let mut blocks: Vec<Vec<u8>> = Vec::new();
    for step in 1u32.. {
        blocks.push(vec![1; 8 << 20]);
        std::hint::black_box(&blocks);
        fs::write(dir.join("eaten"), (step * 8).to_string()).unwrap();
    }
}

/// Allocates in a child and stays itself, as a shell does.
fn eat_in_child(dir: &Path) {
    let _ = command("eat", dir).spawn().unwrap().wait();
    sleep_as(dir, "survivor");
}

/// A group with given directories.
fn group(dir: &Path) -> Group {
    let group = Group::create(&Limits::default()).unwrap();
    let dirs: Vec<String> = group.directories().into_iter().map(|dir| dir.display().to_string()).collect();
    fs::write(dir.join("dirs"), dirs.join("\n")).unwrap();
    group
}

/// Leaves behind what remains of a runner and a supervisor that were both killed.
fn forgetful(dir: &Path) {
    group(dir);
    std::mem::forget(Scratch::create(dir).unwrap());
}

/// A runner with a trial under way.
fn runner(dir: &Path, group: Option<Group>) {
    let scratch = Scratch::create(dir).unwrap();
    fs::write(scratch.path().join("store"), "data").unwrap();
    let mut spec = subject("double", dir);
    spec.group = group;
    spec.scratch = vec![scratch.path().to_owned()];
    let (reader, _writer) = std::io::pipe().unwrap();
    spec.stdin = Input::File(fs::File::from(reader.as_fd().try_clone_to_owned().unwrap()));
    let _running = run(spec).unwrap();
    left(dir, "sleep");
    sleep_as(dir, "runner");
}

/// A runner with two idle supervisors.
fn idle_runner(dir: &Path) {
    let launcher = launcher();
    let both = [(); 2].map(|()| launcher.start(subject("code", dir)).unwrap());
    let idle = both.map(|process| {
        let supervisor = parent_of(process.suspended().unwrap());
        let mut running = release(process).unwrap();
        running.wait(None).unwrap();
        running.finish().unwrap();
        supervisor.to_string()
    });
    let new = dir.join("new");
    fs::write(&new, idle.join(" ")).unwrap();
    fs::rename(new, dir.join("idle")).unwrap();
    sleep_as(dir, "runner");
}
