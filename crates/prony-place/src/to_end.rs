//! Runs a command beside the trials to its end, and ends the processes that it left.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use prony_os::launch::{End, Launch, LaunchSpec};

use crate::error::Error;

/// How often a wait checks whether the command is to be stopped.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A command with everything that it is given, which can be run again and again, by any thread.
#[derive(Clone, Debug)]
pub struct Repeatable {
    pub(crate) words: Vec<OsString>,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) directory: PathBuf,
}

impl Repeatable {
    /// Runs it until it ends; `None` if `stop`, which is asked about ten times a second, ended it. Of its output 32 KiB of the
    /// first and as much of the last bytes are captured.
    ///
    /// # Errors
    /// Where it cannot be executed.
    pub fn run(&self, launcher: &dyn Launch, stop: &mut dyn FnMut() -> bool) -> Result<Option<End>, Error> {
        let mut words = self.words.iter().cloned();
        let mut spec = LaunchSpec::new(words.next().unwrap_or_default(), &self.directory);
        spec.args = words.collect();
        spec.env.clone_from(&self.env);
        to_end(launcher, spec, stop, || ())
    }
}

/// Runs a command to its end, calls `conclude`, and ends the processes that the command left; `None` if `stop` ended the
/// command.
///
/// # Errors
/// Where it cannot be executed.
pub(crate) fn to_end(
    launcher: &dyn Launch,
    spec: LaunchSpec,
    stop: &mut dyn FnMut() -> bool,
    conclude: impl FnOnce(),
) -> Result<Option<End>, Error> {
    let mut process = launcher.start(spec)?;
    process.release()?;
    process.started(&[])?;
    let end = loop {
        if let Some(end) = process.wait(Some(POLL_INTERVAL))? {
            break Some(end);
        }
        if stop() {
            process.kill_tree()?;
            break None;
        }
    };
    conclude();
    process.finish()?;
    Ok(end)
}
