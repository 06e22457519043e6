//! The process that watches the server of a mount, and removes the mount whenever the server could not answer the kernel.

use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, ExitCode};
use std::time::{Duration, Instant};

use prony_model::units::Nanos;
use rustix::process::{Pid, Signal, kill_process};

use crate::error::Error;
use crate::points::{Point, find};
use crate::process::{
    Arguments, SERVE, Started, ends_within, protect, read_line, readable, send, send_to_parent, start,
};
use crate::report::End;
use crate::settings::Settings;

/// How often the server is asked.
const PERIOD: Duration = Duration::from_secs(1);

/// How long the settings may take to arrive from the owner, who sends them at once.
const WAIT: Duration = Duration::from_secs(60);

/// How long the server may take to end once the connection is aborted, before it is killed.
const GRACE: Duration = Duration::from_secs(2);

/// The main function of the keeper. Its arguments are those of `process::start`.
pub fn keep() -> ExitCode {
    let Some(arguments) = Arguments::read() else { return ExitCode::from(2) };
    protect(c"powercut-keep");
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(2),
    }
}

fn run(arguments: &Arguments) -> io::Result<()> {
    let owner = io::stdin();
    let Some(line) = read_line(&owner, WAIT)? else { return Ok(()) };
    let settings: Settings = serde_json::from_slice(&line)?;
    let mut server = start(Path::new("/proc/self/exe"), SERVE, &arguments.point, &arguments.state)?;
    let pipes = server.stdin.take().zip(server.stdout.take());
    let Some((mut input, output)) = pipes else { return Err(io::ErrorKind::BrokenPipe.into()) };
    send(&mut input, &settings)?;
    let patience = settings.patience.to_duration();
    let started = read_line(&output, patience)?.and_then(|line| serde_json::from_slice(&line).ok());
    let point = find(&arguments.point).ok().filter(|point| point.state == arguments.state);
    let started = started.unwrap_or_else(|| Started::Refused {
        message: format!("the process that serves `{}` did not start", arguments.point.display()),
        hint: None,
    });
    let why = match (&started, &point) {
        (Started::Mounted { .. }, Some(_)) => {
            // Where the owner has ended, its input has too.
            let _ = send_to_parent(&started);
            let zero = Duration::ZERO;
            let received = Vec::new();
            let mut watch = Watch { arguments, input, output, patience, received, silent: zero, stuck: zero, done: 0 };
            let why = watch.run();
            // A server that ended by itself has removed the mount. There may be a new one with the same device number meanwhile.
            let is_removed = matches!(why, Some(Why::ServerEnded)) && ended_by_itself(&mut server);
            remove(point.as_ref().filter(|_| !is_removed), &mut server, watch.input);
            why.map(|why| why.end(&mut server, patience))
        }
        _ => {
            remove(point.as_ref(), &mut server, input);
            return send_to_parent(&started);
        }
    };
    // Nothing, where the owner asked for it.
    let _ = send_to_parent(&why);
    Ok(())
}

/// Whether the server, whose output has ended, reports that the mount was removed.
fn ended_by_itself(server: &mut Child) -> bool {
    ends_within(server, GRACE);
    matches!(server.try_wait(), Ok(Some(status)) if status.success())
}

/// Removes the mount first, so that nothing waits, and ends the server then.
fn remove(point: Option<&Point>, server: &mut Child, input: ChildStdin) {
    let _: Option<Result<(), Error>> = point.map(Point::end);
    drop(input);
    if !ends_within(server, GRACE) {
        let _ = kill_process(Pid::from_child(server), Signal::KILL);
        // A process that waits for a disk ends later: its connection is aborted all the same.
        ends_within(server, GRACE);
    }
}

/// Why the mount is removed, apart from the end of its owner.
#[derive(Clone, Copy, Debug)]
enum Why {
    ServerEnded,
    NoAnswer,
    NoProgress,
}

impl Why {
    fn end(self, server: &mut Child, patience: Duration) -> End {
        let time = Nanos::from_millis(patience.as_millis() as u64);
        let (was_removed, why) = match self {
            Self::ServerEnded => match server.try_wait() {
                Ok(Some(status)) if status.success() => (true, "the mount was removed by another process".to_owned()),
                Ok(Some(status)) => (false, format!("the process that served it ended: {status}")),
                _ => (false, "the process that served it ended".to_owned()),
            },
            Self::NoAnswer => (false, format!("the process that served it did not answer for {time}")),
            Self::NoProgress => (false, format!("a request made no progress for {time}")),
        };
        End { was_removed, why }
    }
}

struct Watch<'a> {
    arguments: &'a Arguments,
    input: ChildStdin,
    output: ChildStdout,
    patience: Duration,
    received: Vec<u8>,
    /// How long the server has not answered, and has made no progress with a request.
    silent: Duration,
    stuck: Duration,
    done: u64,
}

impl Watch<'_> {
    /// Watches until the mount is to be removed; None where its owner ended or asked for it.
    fn run(&mut self) -> Option<Why> {
        let period = PERIOD.min(self.patience / 4);
        loop {
            if self.input.write_all(b"\n").is_err() {
                return Some(Why::ServerEnded);
            }
            let begin = Instant::now();
            while let Some(left) = period.checked_sub(begin.elapsed()) {
                let Ok([owner, server]) = readable([&io::stdin(), &self.output], left) else { return None };
                // The owner sends nothing: its input has ended.
                if owner || !self.arguments.has_parent() {
                    return None;
                }
                if server && !self.receive() {
                    return Some(Why::ServerEnded);
                }
            }
            // Where this process was stopped, that time says nothing about the server.
            self.silent += period;
            self.stuck += period;
            if self.silent > self.patience {
                return Some(Why::NoAnswer);
            }
            if self.stuck > self.patience {
                return Some(Why::NoProgress);
            }
        }
    }

    /// Reads answers; false where the server has ended.
    fn receive(&mut self) -> bool {
        let mut bytes = [0; 4096];
        match self.output.read(&mut bytes) {
            Ok(0) | Err(_) => return false,
            Ok(count) => self.received.extend(&bytes[..count]),
        }
        while let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.received.drain(..=end).collect();
            let Ok((open, done)) = serde_json::from_slice::<(u64, u64)>(&line) else { return false };
            self.silent = Duration::ZERO;
            if open == 0 || done != self.done {
                self.stuck = Duration::ZERO;
            }
            self.done = done;
        }
        true
    }
}
