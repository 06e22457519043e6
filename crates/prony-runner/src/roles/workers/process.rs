//! One of the worker processes that share a trial's store: its socket, and what it has reported of the phase under way.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use prony_boundaries::channel::{Channel, Received};
use prony_boundaries::phase_state::WorkerPart;
use prony_engines::phases::Queue;
use prony_model::protocol::ToWorker;
use prony_model::units::Nanos;
use prony_os::launch::{End, Finished, Input, Launch, LaunchSpec};
use prony_os::limits::Group;
use prony_os::sample::{Sampler, Tracepoints};

use crate::error::Error;
use crate::roles::beside::Beside;

/// A worker process.
pub(super) struct WorkerProcess {
    /// From 1 on; the first is the trial's main process, which others watch.
    pub(super) number: u32,
    channel: Channel,
    /// The further ones, which are launched when a phase needs them.
    process: Option<Beside>,
    /// Its store is open.
    pub(super) ready: bool,
    /// Nothing more is read from it: its end of the socket is closed, or what it wrote is a fault.
    pub(super) closed: bool,
    /// There may be more to read than was read in one go.
    pub(super) more: bool,
    /// Its part in the phase that several of them share.
    pub(super) part: PartUnderWay,
}

/// How far a worker is in a phase.
#[derive(Default)]
pub(super) struct PartUnderWay {
    /// It waits for the other workers.
    pub(super) prepared: bool,
    /// Operations so far.
    pub(super) operations: u64,
    /// When it began.
    pub(super) began: Option<Nanos>,
    /// Its end and what it measured.
    pub(super) over: Option<WorkerPart>,
}

/// The launch of a worker process, and the runner's end of its socket; `directory` is that of the store, `shared` a descriptor
/// that the worker finds under this number.
///
/// # Errors
/// Where no socket can be made.
pub(crate) fn launch(directory: &Path, shared: Option<(OwnedFd, u8)>) -> Result<(LaunchSpec, Channel), Error> {
    let (ours, theirs) = UnixStream::pair().map_err(Error::setup("make a socket"))?;
    // The supervisor is this same binary, so its own image is the worker's too, even if the file has been replaced.
    let mut launch = LaunchSpec::new("/proc/self/exe", directory);
    launch.args = vec!["worker".into()];
    // The socket is its standard input: a descriptor that safe code can take over.
    launch.stdin = Input::File(File::from(OwnedFd::from(theirs)));
    launch.fds.extend(shared);
    Ok((launch, Channel::new(ours)))
}

/// A queue as a worker shares it.
///
/// # Errors
/// Where this process has too many descriptors.
pub(super) fn shared(queue: Option<&Queue>) -> Result<Option<(OwnedFd, u8)>, Error> {
    let Some(queue) = queue else { return Ok(None) };
    Ok(Some((queue.descriptor().map_err(Error::setup("make a socket"))?, Queue::NUMBER)))
}

impl WorkerProcess {
    /// The one with this number; the trial's main process is the first, which others watch.
    pub(super) fn new(number: u32, channel: Channel, process: Option<Beside>) -> Self {
        Self { number, channel, process, ready: false, closed: false, more: false, part: PartUnderWay::default() }
    }

    /// Another one, launched and released; `directory` is that of the store.
    ///
    /// # Errors
    /// Where it cannot be executed.
    pub(super) fn further(
        number: u32,
        means: (&dyn Launch, &Tracepoints),
        directory: &Path,
        (queue, group): (Option<&Queue>, Option<&Group>),
        sampler: &Sampler,
    ) -> Result<Self, Error> {
        let (launch, channel) = launch(directory, shared(queue)?)?;
        let mut beside = Beside::suspend_replica(number, launch, means, group, sampler)?;
        beside.process.release()?;
        beside.begin(sampler)?;
        Ok(Self::new(number, channel, Some(beside)))
    }

    /// Sends a message; where its end is closed, reading finds that.
    pub(super) fn send(&mut self, message: &ToWorker) {
        self.channel.send(message);
    }

    /// The next message.
    pub(super) fn receive(&mut self) -> Received {
        self.channel.receive()
    }

    /// The descriptors to wait for.
    pub(super) fn source(&self) -> Option<BorrowedFd<'_>> {
        (!self.closed).then(|| self.channel.as_fd())
    }

    /// How it ended by itself, after so much time at most; `None` of the first, or where it runs.
    pub(super) fn end(&mut self, within: Duration) -> Result<Option<End>, Error> {
        self.process.as_mut().map_or(Ok(None), |beside| Ok(beside.process.wait(Some(within))?))
    }

    /// Ends a further one, if it has not ended by itself; its end. What ending its tree took is added to `finished`.
    ///
    /// # Errors
    /// Where its supervisor cannot be understood.
    pub(super) fn finish(self, finished: &mut Finished, sampler: &Sampler) -> Result<Option<End>, Error> {
        let Some(mut beside) = self.process else { return Ok(None) };
        let end = beside.process.kill_tree()?;
        let name = format!("`{}`", beside.role);
        beside.finish(&name, finished, sampler)?;
        Ok(Some(end))
    }
}
