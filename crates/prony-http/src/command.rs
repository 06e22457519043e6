//! A command that runs as a phase beside services: somebody else's loader or client. It is a child of the load generator, so
//! that its CPU time and memory are in the instance `load`.

use std::io::{PipeReader, Read, pipe};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use prony_model::program::BASE_ENV;
use prony_model::spec::RunSpec;
use prony_model::units::Nanos;

use crate::clock::monotonic;

/// Bytes of the end of its output that an error quotes.
const QUOTED: usize = 2_000;

/// How long the rest of the output of a failed command is waited for.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Why a phase of a command failed. The command is not named, which may be left out of the record.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// It could not be started.
    #[error("cannot run the command in the folder of the file")]
    NotStarted {
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// It ended with an exit code other than 0, or by a signal.
    #[error("the command: {status}{last_lines}")]
    Failed {
        /// How it ended.
        status: ExitStatus,
        /// The end of its output.
        last_lines: String,
    },
}

/// A command that was started.
pub(crate) struct Running {
    child: Child,
    /// When it was started.
    pub(crate) began: Nanos,
    output: Arc<Mutex<Vec<u8>>>,
    /// Closed when the last process that has the pipe has ended.
    read: Receiver<()>,
}

impl Running {
    /// Starts it. It reads nothing, and has the variables that programs have without `env` and `inherit`.
    ///
    /// # Errors
    /// Where it cannot be started.
    pub(crate) fn start(spec: &RunSpec) -> Result<Self, CommandError> {
        let words = spec.command.words();
        let program = words.first().cloned().unwrap_or_default();
        let failed = |source| CommandError::NotStarted { source };
        let (reader, writer) = pipe().map_err(failed)?;
        let variables = BASE_ENV.into_iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
        let mut command = Command::new(&program);
        command.args(words.iter().skip(1)).current_dir(&spec.directory).env_clear().envs(variables);
        command.stdin(Stdio::null()).stdout(writer.try_clone().map_err(failed)?).stderr(writer);
        let began = monotonic();
        let child = command.spawn().map_err(failed)?;
        let output = Arc::default();
        let last = Arc::clone(&output);
        let (reading, read) = channel();
        thread::spawn(move || {
            keep_end(reader, &last);
            drop(reading);
        });
        Ok(Self { child, began, output, read })
    }

    /// How long it took, from its start to its end.
    ///
    /// # Errors
    /// Where it ended with an exit code other than 0, or by a signal.
    pub(crate) fn finish(self) -> Result<Nanos, CommandError> {
        let Self { mut child, began, output, read } = self;
        let status = match child.wait() {
            Ok(status) => status,
            Err(source) => return Err(CommandError::NotStarted { source }),
        };
        let took = monotonic().since(began);
        if status.success() {
            return Ok(took);
        }
        // Its last words may not have been read yet; processes that it left may write for ever.
        let _ = read.recv_timeout(LAST_WORDS);
        let output = output.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&output);
        let last_lines = match text.trim() {
            "" => String::new(),
            text => format!("; its output ends with: {text}"),
        };
        Err(CommandError::Failed { status, last_lines })
    }
}

/// Reads to the end; `last` has the last bytes.
fn keep_end(mut from: PipeReader, last: &Mutex<Vec<u8>>) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        last.extend_from_slice(&buffer[..n]);
        let excess = last.len().saturating_sub(QUOTED);
        last.drain(..excess);
    }
}

#[cfg(test)]
mod tests {
    use prony_model::program::CommandLine;

    use super::*;

    fn run(script: &str) -> Result<Nanos, CommandError> {
        let command = CommandLine::Shell { shell: "sh".to_owned(), script: script.to_owned() };
        Running::start(&RunSpec { command, directory: "/".to_owned() })?.finish()
    }

    #[test]
    fn a_command_that_floods_its_output_ends() {
        assert!(run("head -c 3000000 /dev/zero").is_ok());
    }

    #[test]
    fn a_failed_command_quotes_the_end_of_its_output() {
        let text =
            run("head -c 100000 /dev/zero | tr '\\0' x; echo; echo no table >&2; exit 3").unwrap_err().to_string();
        assert!(text.starts_with("the command: exit status: 3; its output ends with: "), "{text}");
        assert!(text.ends_with("\nno table") && text.len() < QUOTED + 100, "{text}");
    }

    #[test]
    fn what_a_command_leaves_running_is_not_waited_for() {
        let began = monotonic();
        run("sleep 60 &").unwrap();
        assert!(monotonic().since(began) < Nanos::from_secs(30));
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error() {
        let command = CommandLine::Words(vec!["/nonexistent/loader".to_owned()]);
        let error = Running::start(&RunSpec { command, directory: "/".to_owned() }).err().unwrap();
        assert_eq!(error.to_string(), "cannot run the command in the folder of the file");
    }
}
