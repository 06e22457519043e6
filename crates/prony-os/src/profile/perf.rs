//! Runs `perf record` on a suspended process and on all processes that it starts.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use prony_model::profile::{Format, ProfileFile};
use prony_model::reading::{Reading, Why};
use prony_model::units::Nanos;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, open};
use rustix::process::{Pid, Signal, kill_process};

use super::Taken;
use crate::interrupt::Interrupt;
use crate::why::reading;

/// Bytes of each stack that are copied for unwinding: most programs are built without frame pointers. Half of it cuts off
/// the callers of functions with large buffers, and near 64 KiB the kernel cuts the copy itself.
const STACK: &str = "dwarf,32768";
/// The fields that `perf script` prints; `prony_analysis::profile` reads them.
const FIELDS: &str = "comm,pid,tid,time,period,event,ip,sym,dso";
/// How long `perf` may take to attach itself.
const ATTACH: Duration = Duration::from_secs(30);
/// How long it may take to write what it has, when the processes have ended.
const FLUSH: Duration = Duration::from_secs(60);
/// How long `perf script` may take: it unwinds some thousand stacks of each thread, most of them in milliseconds.
const SCRIPT: Duration = Duration::from_secs(600);
const ABSENT: &str = "`perf` is not installed (Debian: `apt install linux-perf`)";
const ALLOW: &str = "run as root, give `perf` CAP_PERFMON, or set kernel.perf_event_paranoid to 1 or less";
/// How the first line of a sample ends where `perf` had to leave out the kernel: with `perf_event_paranoid` of 2, and no
/// privilege, it takes samples of the program's own code only, without a word.
const USER_ONLY: &[u8] = b" cpu-clock:u:";

/// `perf` at work.
#[derive(Debug)]
pub struct Perf {
    child: Child,
    dir: PathBuf,
}

/// Whether processes can be profiled here: `perf` is attached to one for an instant.
///
/// Not to this one where it can be helped: `perf` gives up where a thread ends between its list of threads and its call for
/// that thread.
pub fn usable(scratch: &Path) -> Reading<()> {
    let mut waiting = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().ok();
    let pid = waiting.as_ref().map_or_else(std::process::id, Child::id);
    let dir = scratch.join("perf");
    let tried = Perf::attach(&[pid], &dir, Nanos::from_millis(10)).map(drop);
    // Files that cannot be removed are removed with scratch; a `perf` that cannot be ended ends with its input.
    let _ = fs::remove_dir_all(dir);
    let _ = waiting.as_mut().map(|waiting| waiting.kill().and_then(|()| waiting.wait()));
    tried
}

impl Perf {
    /// Attaches `perf` to processes, suspended ones if possible, and returns when it takes samples. `dir` is made.
    pub fn attach(pids: &[u32], dir: &Path, interval: Nanos) -> Reading<Self> {
        reading("attaching `perf`", Self::start(pids, dir, interval)).and_then(|started| started)
    }

    fn start(pids: &[u32], dir: &Path, interval: Nanos) -> io::Result<Reading<Self>> {
        fs::create_dir_all(dir)?;
        let (mut control, answers) = (fifo(&dir.join("control"))?, fifo(&dir.join("answers"))?);
        let hertz = (1_000_000_000 / interval.as_nanos().max(1)).clamp(1, 10_000);
        let spawned = perf()
            .args(["record", "--event=cpu-clock", "--clockid=CLOCK_MONOTONIC", "--no-buildid-cache", "--delay=-1"])
            .arg(format!("--freq={hertz}"))
            .arg(format!("--call-graph={STACK}"))
            .args(["--control=fifo:control,answers", "--output=perf.data"])
            .arg(format!("--pid={}", pids.iter().map(u32::to_string).collect::<Vec<_>>().join(",")))
            .current_dir(dir)
            .stdout(Stdio::null())
            .stderr(File::create(dir.join("said"))?)
            .spawn();
        let child = match spawned {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Reading::not_supported(ABSENT));
            }
            spawned => spawned?,
        };
        let mut perf = Self { child, dir: dir.to_path_buf() };
        control.write_all(b"enable\n")?;
        let deadline = Instant::now() + ATTACH;
        while Instant::now() < deadline {
            if readable(&answers)? {
                return Ok(Reading::Measured(perf));
            }
            if perf.child.try_wait()?.is_some() {
                return Ok(Reading::Missing(refused(&perf.said())));
            }
        }
        Ok(Reading::failed(format!("`perf` was not ready after {} s: {}", ATTACH.as_secs(), perf.said())))
    }

    /// Its samples as text, once the processes have ended; those that have not ended are no longer sampled. They are missing
    /// where that takes minutes, or the user asks to stop.
    pub fn finish(mut self, interrupt: &Interrupt) -> Reading<Taken> {
        reading("reading what `perf` recorded", self.taken(interrupt))
    }

    fn taken(&mut self, interrupt: &Interrupt) -> io::Result<Taken> {
        let status = self.end()?;
        if !status.success() && status.code().is_some() {
            return Err(io::Error::other(format!("{status}: {}", self.said())));
        }
        let mut script = perf();
        // Maps of machine code are read too if a program of another user made them.
        script.args(["script", "--force", "--no-inline", "--ns", "--fields", FIELDS, "--input=perf.data"]);
        let output = output(&mut script, &self.dir, SCRIPT, interrupt)?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if !output.status.success() {
            return Err(io::Error::other(format!("`perf script`: {}: {}", output.status, said.trim())));
        }
        let notes = losses(&said).into_iter().chain(without_kernel(&output.stdout)).collect();
        let file = ProfileFile { name: "perf.txt".into(), format: Format::PerfScript, body: output.stdout };
        Ok(Taken { files: vec![file], notes })
    }

    /// It ends when the processes have; if some have not, it is asked to end.
    fn end(&mut self) -> io::Result<ExitStatus> {
        let began = Instant::now();
        let mut asked = false;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            if !asked && began.elapsed() > Duration::from_secs(1) {
                let _ = kill_process(Pid::from_child(&self.child), Signal::INT);
                asked = true;
            }
            if began.elapsed() > FLUSH {
                self.child.kill()?;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn said(&self) -> String {
        let text = fs::read_to_string(self.dir.join("said")).unwrap_or_default();
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        lines.take(4).collect::<Vec<_>>().join("; ")
    }
}

impl Drop for Perf {
    /// `perf` must not run longer than its trial.
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// What `perf script` writes in `dir`, into files: a pipe would have to be read while its end is awaited.
fn output(script: &mut Command, dir: &Path, limit: Duration, interrupt: &Interrupt) -> io::Result<Output> {
    let (samples, said) = (dir.join("samples"), dir.join("script-said"));
    let mut child = script.current_dir(dir).stdout(File::create(&samples)?).stderr(File::create(&said)?).spawn()?;
    let deadline = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Output { status, stdout: fs::read(samples)?, stderr: fs::read(said)? });
        }
        if interrupt.asked() || Instant::now() > deadline {
            child.kill()?;
            child.wait()?;
            let why =
                if interrupt.asked() { "interrupted".into() } else { format!("took more than {} s", limit.as_secs()) };
            return Err(io::Error::other(format!("`perf script`: {why}")));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The program, with plain messages, and without requests to servers for debugging symbols.
fn perf() -> Command {
    let mut command = Command::new("perf");
    command.env("LC_ALL", "C").env_remove("DEBUGINFOD_URLS").stdin(Stdio::null());
    command
}

fn fifo(path: &Path) -> io::Result<File> {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
    // Opened for both, so that neither side waits for the other.
    Ok(open(path, OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?.into())
}

/// Whether something was readable within a moment.
fn readable(mut answers: &File) -> io::Result<bool> {
    let moment = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
    if poll(&mut [PollFd::new(&answers, PollFlags::IN)], Some(&moment))? == 0 {
        return Ok(false);
    }
    Ok(answers.read(&mut [0; 64])? > 0)
}

fn refused(said: &str) -> Why {
    let words = ["permission", "permitted", "paranoid", "access to performance"];
    if words.iter().any(|word| said.to_lowercase().contains(word)) {
        return Why::NotPermitted(format!("`perf`: {said}; {ALLOW}").into());
    }
    Why::Failed(format!("`perf`: {said}").into())
}

/// What `perf script` reports of lost samples.
fn losses(said: &str) -> Vec<String> {
    let lost = |line: &&str| line.to_lowercase().contains("lost");
    said.lines().map(str::trim).filter(lost).map(|line| format!("perf: {line}")).collect()
}

/// What is missing in samples that are without the kernel.
fn without_kernel(samples: &[u8]) -> Option<String> {
    let is_user_only = |line: &[u8]| line.trim_ascii_end().ends_with(USER_ONLY);
    let note = || format!("time in the kernel is not sampled, since `perf` may not sample it: {ALLOW}");
    samples.split(|byte| *byte == b'\n').any(is_user_only).then(note)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without privileges, two thirds of the time of `dd` with small blocks were missing in what was called its CPU time.
    #[test]
    fn samples_without_the_kernel_have_a_note() {
        let sample = |event: &str| format!("dd 7/7 1.000000001:    2000000 {event}: \n\t 1a read (/lib/libc.so.6)\n\n");
        let note = without_kernel((sample("cpu-clock") + &sample("cpu-clock:u")).as_bytes()).unwrap();
        assert!(
            note.contains("the kernel is not sampled") && note.contains("perf_event_paranoid to 1 or less"),
            "{note}"
        );
        assert_eq!(without_kernel(sample("cpu-clock").as_bytes()), None);
        assert_eq!(without_kernel(b"x 7/7 1.000000001:  5 cpu-clock: \n\t 1a f cpu-clock:u: (/lib/a.so)\n"), None);
    }

    /// A `perf script` that did not end was awaited until something else killed it; an interrupt changed nothing.
    #[test]
    fn script_ends_at_its_limit_and_at_an_interrupt() {
        let dir = tempfile::tempdir().unwrap();
        let (hour, interrupt) = (Duration::from_secs(3600), Interrupt::default());
        let run = |command: &mut Command, limit, interrupt: &Interrupt| {
            output(command, dir.path(), limit, interrupt).map_err(|error| error.to_string())
        };
        let hangs = || {
            let mut command = Command::new("sleep");
            command.arg("3600");
            command
        };
        let written = run(Command::new("sh").args(["-c", "echo a; echo b >&2"]), hour, &interrupt).unwrap();
        assert_eq!((written.stdout.as_slice(), written.stderr.as_slice()), (&b"a\n"[..], &b"b\n"[..]));
        assert_eq!(run(&mut hangs(), Duration::ZERO, &interrupt), Err("`perf script`: took more than 0 s".to_owned()));
        interrupt.ask();
        assert_eq!(run(&mut hangs(), hour, &interrupt), Err("`perf script`: interrupted".to_owned()));
    }

    #[test]
    fn a_refusal_says_what_would_allow_it() {
        let paranoid = "Error:; Access to performance monitoring and observability operations is limited.";
        assert!(matches!(refused(paranoid), Why::NotPermitted(text) if text.contains("CAP_PERFMON")));
        assert!(
            matches!(refused("Couldn't create events"), Why::Failed(text) if *text == *"`perf`: Couldn't create events")
        );
    }

    #[test]
    fn lost_samples_are_distinguished_from_other_messages() {
        let said = "Warning:\nProcessed 10 events and lost 2 chunks!\n\nCheck IO/CPU overload!\n";
        assert_eq!(losses(said), ["perf: Processed 10 events and lost 2 chunks!"]);
        assert_eq!(losses(""), Vec::<String>::new());
    }
}
