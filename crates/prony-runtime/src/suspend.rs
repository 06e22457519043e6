//! The runner's side of a suspension: a thread, suspended at the end of a function call, gets commands through a FIFO.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::protocol::Source;
use crate::error::Error;
use prony_os::file_modes::{self, Access};

/// A command to a suspended thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuspensionCommand {
    /// Collect garbage now, weakly referenced objects included; the thread answers with `collected`. Inside a job of
    /// JavaScript this breaks what `WeakRef` guarantees to code that continues.
    Collect,
    /// The same where the runtime frees such objects at any time. Where it keeps them until the job ends, the thread
    /// continues ([`super::Because::Later`]) and is suspended again at the next turn of its event loop, or at its exit.
    CollectLater,
    /// Read the heap; the thread answers with `heap`.
    Read,
    /// Continue, and suspend again at the next end of the call.
    Go,
    /// Continue, and do not suspend at this call any more.
    Release,
    /// End the process at once, without the program's exit handlers; status 0 (a worker thread of Node kills it).
    Stop,
}

impl SuspensionCommand {
    fn line(self) -> &'static str {
        match self {
            Self::Collect => "collect\n",
            Self::CollectLater => "collect later\n",
            Self::Read => "read\n",
            Self::Go => "go\n",
            Self::Release => "release\n",
            Self::Stop => "stop\n",
        }
    }
}

/// One suspended thread. Keep this until the thread has reported `resumed` or has ended. If it is dropped before, the
/// thread continues and reports `runner_ended`, or `unanswered` ten seconds later if it had not opened the FIFO yet.
#[derive(Debug)]
pub struct SuspendedThread {
    path: PathBuf,
    fifo: File,
}

impl SuspendedThread {
    /// Answers a `suspended` line and its number. After ten seconds without an answer the thread continues by itself.
    /// `dir` is the directory `commands` of the spec.
    ///
    /// # Errors
    /// When the FIFO cannot be made or opened.
    pub fn answer(dir: &Path, source: Source, suspension: u64) -> Result<Self, Error> {
        let name = format!("{}-{}-{suspension}", source.pid, source.thread);
        let (path, making) = (dir.join(&name), dir.join(format!(".{name}")));
        file_modes::fifo(&making, Access::Read).map_err(Error::file("create", &making))?;
        // Open for both ways before it has its name: neither side can wait for the other to open it.
        let fifo = OpenOptions::new().read(true).write(true).open(&making).map_err(Error::file("open", &making))?;
        fs::rename(&making, &path).map_err(Error::file("rename", &making))?;
        Ok(Self { path, fifo })
    }

    /// Sends a command. The thread executes commands in their order; answers come over the channel.
    ///
    /// # Errors
    /// When the command cannot be written.
    pub fn send(&mut self, command: SuspensionCommand) -> Result<(), Error> {
        self.fifo.write_all(command.line().as_bytes()).map_err(Error::file("write", &self.path))
    }
}

impl Drop for SuspendedThread {
    fn drop(&mut self) {
        // A FIFO that stays is removed with the scratch.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};

    use super::*;

    #[test]
    fn commands_arrive_in_order_and_then_end_of_file() {
        let dir = tempfile::tempdir().unwrap();
        let mut thread = SuspendedThread::answer(dir.path(), Source { pid: 7, thread: 2 }, 3).unwrap();
        let path = dir.path().join("7-2-3");
        let reader = BufReader::new(File::open(&path).unwrap());
        for command in [SuspensionCommand::Collect, SuspensionCommand::Read, SuspensionCommand::Release] {
            thread.send(command).unwrap();
        }
        drop(thread);
        let lines: Vec<_> = reader.lines().map(Result::unwrap).collect();
        assert_eq!(lines, ["collect", "read", "release"]);
        assert!(!path.exists());
    }

    #[test]
    fn a_missing_directory_is_named() {
        let error = SuspendedThread::answer(Path::new("/nowhere"), Source { pid: 7, thread: 0 }, 1).unwrap_err();
        assert!(error.to_string().contains("/nowhere/.7-0-1"), "{error}");
    }
}
