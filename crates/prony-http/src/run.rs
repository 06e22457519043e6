//! Runs a load: one thread for each event loop.

use std::num::NonZeroUsize;
use std::{mem, thread};

use prony_model::units::Nanos;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::asked::Bound;
use crate::checked_load::Load;
use crate::clock::monotonic;
use crate::control::Control;
use crate::destination::Destination;
use crate::error::Error;
use crate::event_loop::{Done, EventLoop, Job};
use crate::linger::Lingering;
use crate::pace::Pace;
use crate::ran::Ran;
use crate::report::Report;
use crate::saved::Found;
use crate::source::Source;
use crate::stalls::Stalls;
use crate::tally::Tally;
use crate::tls::Tls;
use crate::usage::Usage;

/// Threads have so long to start before the first request is due. Fuzzing wants many loads a second, and no times.
#[allow(unexpected_cfgs, reason = "`fuzz/instrument` sets it")]
const START: Nanos = Nanos::from_millis(if cfg!(fuzzing) { 0 } else { 10 });

/// Files that a process has open beside its connections.
const OTHER_FILES: u64 = 256;

/// Runs a load and waits until each of its requests has ended.
///
/// # Errors
/// Where certificates cannot be used, or the system refuses what a thread needs.
pub fn run(load: &Load, destination: Destination, control: &Control) -> Result<Report, Error> {
    let mut ran = Start::new(load, destination)?.run(Start::soon(), control)?;
    ran.tally.surplus = mem::take(&mut ran.lingering).surplus();
    Ok(Report::new(load, &ran))
}

/// A load for which everything is prepared.
pub(crate) struct Start<'l> {
    load: &'l Load,
    destination: Destination,
    tls: Option<Tls>,
    /// Of each thread its requests and its account, which takes time to make: 0.3 MB for each step and kind.
    threads: Vec<(Source<'l>, Tally)>,
}

impl<'l> Start<'l> {
    /// Prepares a load.
    ///
    /// # Errors
    /// Where certificates cannot be used, or the process may not open as many sockets.
    pub(crate) fn new(load: &'l Load, destination: Destination) -> Result<Self, Error> {
        let asked = load.asked();
        let each = if load.content().kinds.read_files() { 2 } else { 1 };
        permit_files(asked.connections, each)?;
        let tls = Tls::of(load)?;
        let shape = load.shape();
        let thread = |index| {
            let share = load.share(index);
            let most = match asked.bound {
                Bound::Requests(requests) => share.count(requests),
                Bound::Duration(_) => u64::MAX,
            };
            (Source::new(load.content(), share, asked.first, most), Tally::new(&shape, Nanos::ZERO))
        };
        Ok(Self { load, destination, tls, threads: (0..asked.threads).map(thread).collect() })
    }

    /// An instant at which threads that are started now are ready.
    pub(crate) fn soon() -> Nanos {
        monotonic() + START
    }

    /// Runs the load from `begin` on, and waits until each of its requests has ended.
    ///
    /// # Errors
    /// Where the system refuses what a thread needs.
    pub(crate) fn run(self, begin: Nanos, control: &Control) -> Result<Ran, Error> {
        let Self { load, destination, tls, threads } = self;
        let asked = load.asked();
        let job = |index| Job {
            load,
            destination,
            tls: tls.as_ref(),
            control,
            index,
            connections: load.share(index).turns(),
        };
        let draw = load.content().kinds.draw();
        let pace = |index| Pace::new(asked, load.share(index), draw.clone(), begin);
        let done = thread::scope(|scope| {
            let spawn = |(index, (source, tally))| {
                let (job, pace) = (job(index), pace(index));
                thread::Builder::new()
                    .name(format!("load {index}"))
                    .spawn_scoped(scope, move || {
                        let done = EventLoop::new(job, pace, (source, tally)).and_then(EventLoop::run);
                        // The other threads would go on for nothing.
                        done.inspect_err(|_| job.control.stop())
                    })
                    .map_err(|source| Error::Setup { doing: "start a thread", source })
            };
            let threads: Result<Vec<_>, Error> = (0..).zip(threads).map(spawn).collect();
            let threads = threads.inspect_err(|_| control.stop())?;
            threads
                .into_iter()
                .map(|thread| thread.join().map_err(|_| Error::Panic)?)
                .collect::<Result<Vec<Done>, Error>>()
        })?;
        Ok(together(load, begin, done))
    }
}

/// Raises the process's limit of open files where it is too low: many systems begin with 1024.
fn permit_files(connections: u32, each: u64) -> Result<(), Error> {
    let needed = u64::from(connections) * each + OTHER_FILES;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    if let Some(limit) = limit.maximum.filter(|maximum| *maximum < needed) {
        return Err(Error::OpenFiles { connections, limit });
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(needed), ..limit })
        .map_err(|errno| Error::Setup { doing: "raise the limit of open files", source: errno.into() })
}

/// The accounts of all threads.
fn together(load: &Load, begin: Nanos, done: Vec<Done>) -> Ran {
    let measured_since = begin + load.asked().warm_up;
    let mut tally = Tally::new(&load.shape(), measured_since);
    let mut found = Found::default();
    let mut usage = Usage::NONE;
    let mut usage_of_steps = vec![Usage::NONE; load.steps().len()];
    let mut stalls = Stalls::default();
    let mut stopped: Option<Nanos> = None;
    // Between N starts there are N - 1 gaps, and each request has one.
    let scheduled = done.iter().filter_map(|thread| thread.scheduled).min();
    let mut connections = Vec::new();
    for thread in done {
        connections.extend(thread.connections);
        tally.merge(thread.tally);
        found.merge(thread.found);
        let (whole, parts) = thread.usages;
        usage = usage.with(whole);
        usage_of_steps.iter_mut().zip(parts).for_each(|(all, one)| *all = all.with(one));
        stalls = stalls.with(thread.stalls);
        stopped = stopped.max(thread.stopped);
    }
    let end = match (stopped, load.asked().bound) {
        // Where it was stopped after the end, only the last answers were waited for.
        (Some(stopped), Bound::Duration(duration)) => stopped.min(measured_since + duration),
        (Some(stopped), Bound::Requests(_)) => stopped,
        (None, Bound::Duration(duration)) => measured_since + duration,
        (None, Bound::Requests(_)) => tally.last_end.unwrap_or_else(monotonic).max(scheduled.unwrap_or_default()),
    };
    let available = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let own = load.asked().processors.len();
    let processors = if own == 0 { available } else { available.min(own) };
    let window = end.since(measured_since);
    let interrupted = stopped.is_some();
    let lingering = Lingering::new(connections, tally.longest, interrupted);
    Ran { tally, found, usage, usage_of_steps, lingering, stalls, window, interrupted, begin, processors }
}
