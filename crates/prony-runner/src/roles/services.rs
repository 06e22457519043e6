//! The services of a trial: servers that outlive its phases, and are ended after them. How they are started is in `start`, how each
//! gets ready in `ready`, and what each is given (a port, a directory) in `allotted`.

pub(crate) mod allotted;
mod counting;
mod observed;
mod ready;
mod release;
mod start;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use prony_analysis::guard::Finding;
use prony_analysis::guard::program::Flood;
use prony_boundaries::observation::probed;
use prony_boundaries::probe_reports::Threads;
use prony_boundaries::stream::{Arrived, Streams};
use prony_model::record::EffectiveProgram;
use prony_model::service::ServiceSpec;
use prony_model::spec::PhaseSpec;
use prony_model::units::Nanos;
use prony_os::attached::Attached;
use prony_os::clock::monotonic;
use prony_os::launch::{End, Process, Started, Status};
use prony_os::limits::Group;
use prony_os::sample::{Sampler, SyncCounters};
use prony_place::launch_setting::Setting;
use regex::Regex;
use rustix::process::Signal;

use crate::error::Error;
use crate::roles::probe::Probing;
use crate::run_context::RunContext;
use crate::watched::services::{Fault, NOTICED, Served, incomplete, is_group_there};
use allotted::Share;
use counting::Counting;

/// How long a service that was asked to end by SIGTERM may take.
const GRACE: Duration = Duration::from_secs(10);

/// How often a wait for a service checks whether it has ended and whether the user asked to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Turns in which remaining output is read after the end.
const LAST_TURNS: usize = 64;

/// The services of a trial, in the order in which they were started.
#[derive(Default)]
pub(crate) struct Services<'a> {
    instances: Vec<Instance<'a>>,
    /// What is recorded of each service.
    effective: Vec<EffectiveProgram>,
    /// What was found of their places.
    pub(crate) findings: Vec<Finding>,
    /// The first that did not get ready or has ended, and why.
    fault: Option<Fault>,
    are_measured: bool,
    /// The role of what they are for.
    client: &'a str,
    /// When the first of them could be launched: the trial's begin.
    began: Nanos,
}

/// An instance of a service.
struct Instance<'a> {
    service: &'a ServiceSpec,
    share: &'a Share,
    setting: Setting<'a>,
    process: Box<dyn Process>,
    group: Group,
    /// The processes of a server that runs already, for whose end the process of this instance waits.
    attached: Option<Attached>,
    syncs: Option<SyncCounters>,
    started: Started,
    streams: Streams,
    /// The line that shows that it is ready, until there was one.
    line: Option<Regex>,
    threads: Threads,
    probing: Probing,
    /// What reads the numbers that it counts itself, from the time when all services are ready.
    counting: Option<Counting>,
    end: Option<End>,
}

impl Services<'_> {
    /// Why the trial cannot begin, or has to end.
    pub(crate) const fn fault(&self) -> Option<&Fault> {
        self.fault.as_ref()
    }

    /// When the trial began, with the launch of the first of them.
    pub(crate) const fn began(&self) -> Nanos {
        self.began
    }

    /// Whether the trial can be attempted with these ports.
    ///
    /// # Errors
    /// [`Error::PortInUse`] where another process has one of them, unless this is the `last` attempt, whose result that is.
    pub(crate) fn ports(&self, last: bool) -> Result<(), Error> {
        let taken = self.fault.as_ref().is_some_and(|fault| fault.port_in_use);
        if taken && !last { Err(Error::PortInUse) } else { Ok(()) }
    }

    /// Reads all of them; what `failed` for their clients may be the end of a service that is not known yet.
    fn await_ends(&mut self, failed: bool, buffer: &mut [u8]) -> Result<(), Error> {
        let until = Instant::now() + NOTICED.to_duration();
        while self.turn(buffer)? && failed && Instant::now() < until {
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Does something before the phases, which its argument ends, while the output of all is read, until one of them ends: that
    /// comes before the error of what needed it. Nothing is done where one has not got ready.
    ///
    /// # Errors
    /// Where it fails while all run, or the user asked to stop.
    pub(crate) fn meanwhile(
        &mut self,
        context: &RunContext,
        step: impl FnOnce(&mut dyn FnMut() -> bool) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if self.fault.is_some() {
            return Ok(());
        }
        let done = {
            let mut over = until_one_ends(&mut self.instances);
            step(&mut || over() || context.interrupt.asked())
        };
        self.await_ends(done.is_err(), &mut vec![0; 64 << 10])?;
        if self.fault.is_some() && !context.interrupt.asked() { Ok(()) } else { done }
    }

    /// The processes by which they are observed are sampled from here on.
    pub(crate) fn watch_by(&self, sampler: &Sampler) {
        for instance in &self.instances {
            let own = (&instance.started, &instance.group, instance.process.supervisor());
            let (root, directory) = observed::root(instance.attached.as_ref(), own, &instance.share.role);
            sampler.watch(root);
            directory.into_iter().for_each(|dir| sampler.count_group(&instance.share.role, dir));
            instance.syncs.iter().for_each(|syncs| sampler.count_syncs(&instance.share.role, syncs.clone()));
        }
    }

    /// The descriptors to wait for.
    pub(crate) fn sources(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.instances.iter().flat_map(|instance| {
            let process = Some(instance.process.as_fd()).filter(|_| instance.end.is_none());
            process
                .into_iter()
                .chain(instance.streams.sources())
                .chain(instance.counting.iter().filter_map(Counting::as_source))
        })
    }

    /// Has the numbers read that they count themselves, before a phase or after the last; whether the phase can begin, and
    /// whether it has waited for them. What is measured in a phase that waits for quiet follows the phase before it at once;
    /// and whoever reads a server now and then does not let it become quiet.
    pub(crate) fn may_begin(&mut self, index: usize, phase: Option<&PhaseSpec>) -> Option<bool> {
        let settles = phase.is_some_and(|phase| phase.action.settle().is_some());
        let (waits, samples) = (!settles, !settles && phase.is_some());
        let counting = self.instances.iter_mut().filter_map(|instance| instance.counting.as_mut());
        let read: Vec<bool> = counting.map(|one| one.is_read_before(index, waits, samples)).collect();
        let can = settles || read.iter().all(|is_read| *is_read);
        can.then_some(!settles && !read.is_empty())
    }

    /// Reads what they have written, and whether one has ended; whether all run.
    ///
    /// # Errors
    /// Where a supervisor cannot be understood.
    pub(crate) fn turn(&mut self, buffer: &mut [u8]) -> Result<bool, Error> {
        for instance in &mut self.instances {
            // A phase begins without waiting for it where that waits for quiet.
            instance.counting.iter_mut().for_each(Counting::turn);
            // The end first, so that all of the output exists when an end is found.
            if instance.end.is_none() {
                instance.end = instance.process.wait(Some(Duration::ZERO))?;
            }
            instance.read(buffer);
            if let (Some(end), None) = (&instance.end, &self.fault) {
                let end = end.clone();
                instance.rest(buffer);
                let role = &instance.share.role;
                self.fault = Some(match instance.attached {
                    Some(_) => Fault::ended_elsewhere(role),
                    None => Fault::ended(role, &end, &instance.streams.captured()),
                });
            }
        }
        Ok(self.fault.is_none())
    }

    /// prony was busy for so long in this turn: those that run may have waited for that.
    pub(crate) fn note_busy(&mut self, busy: Nanos) {
        let running = self.instances.iter_mut().filter(|instance| instance.end.is_none());
        running.for_each(|instance| instance.streams.note_busy(busy));
    }

    /// What each has written.
    pub(crate) fn floods(&self) -> impl Iterator<Item = Flood> {
        self.instances.iter().map(|instance| {
            let (written, waited) = instance.streams.flood();
            Flood { who: format!("service `{}`", instance.share.role), written, waited }
        })
    }

    /// Ends them in the reverse of the order in which they were started: SIGTERM, and a kill of what is left after a time.
    /// `failed` says that requests failed.
    ///
    /// # Errors
    /// Where a supervisor cannot be understood, or what a runtime left cannot be read.
    pub(crate) fn stop(self, failed: bool) -> Result<Served, Error> {
        self.end(failed, GRACE)
    }

    /// The same with another time.
    fn end(mut self, failed: bool, grace: Duration) -> Result<Served, Error> {
        let mut buffer = [0; 16 << 10];
        self.await_ends(failed, &mut buffer)?;
        let counting = self.instances.iter_mut().filter_map(|one| Some((one.share.role.clone(), one.counting.take()?)));
        let counts = counting.map(|(role, counting)| (role, counting.finish())).collect();
        let mut served = Served {
            effective: std::mem::take(&mut self.effective),
            fault: self.fault.take(),
            are_measured: self.are_measured,
            client: self.client.to_owned(),
            counts,
            ..Served::default()
        };
        while let Some(mut instance) = self.instances.pop() {
            let asked = monotonic();
            if instance.end.is_none() {
                instance.process.signal(Signal::TERM.as_raw())?;
                let until = Instant::now() + grace;
                // The signal went to the process group: a server may need longer to end than the shell that started it.
                while Instant::now() < until {
                    if instance.process.wait(Some(POLL_INTERVAL))?.is_some() {
                        if !is_group_there(instance.started.pid) {
                            break;
                        }
                        std::thread::sleep(POLL_INTERVAL);
                    }
                    instance.read(&mut buffer);
                    for other in &mut self.instances {
                        other.read(&mut buffer);
                    }
                }
                let end = match instance.process.wait(Some(Duration::ZERO))? {
                    Some(end) => end,
                    None => instance.process.kill_tree()?,
                };
                if end.status == Status::Signalled(Signal::KILL.as_raw()) && Instant::now() >= until {
                    let (role, within) = (&instance.share.role, grace.as_secs());
                    let text = format!("service `{role}` did not end within {within} s after SIGTERM and was killed");
                    served.finished.problems.push(text);
                }
                // The kernel may have killed a process of it while the service itself went on.
                if end.memory.oom_kills.measured().is_some_and(|kills| *kills > 0) && served.fault.is_none() {
                    instance.rest(&mut buffer);
                    served.fault = Some(Fault::ended(&instance.share.role, &end, &instance.streams.captured()));
                }
                instance.end = Some(end);
            }
            instance.rest(&mut buffer);
            let ended = instance.end.as_ref().map_or_else(monotonic, |end| end.at);
            // Processes that reported nothing of their end were there until the service's.
            instance.threads.finish(ended, &instance.probing.heap_aborts()?, &BTreeMap::new());
            let (finished, _) = instance.process.finish()?;
            served.finished.killed += finished.killed;
            let how = incomplete(&instance.share.role, instance.end.as_ref(), asked, finished.killed);
            served.incomplete.extend(how);
            let problems = finished.problems.into_iter();
            served.finished.problems.extend(problems.map(|problem| format!("`{}`: {problem}", instance.share.role)));
            served.add(&instance.share.service, &instance.share.role, instance.threads, instance.probing.silent());
        }
        Ok(served)
    }
}

impl Instance<'_> {
    /// Reads what it has written; whether there may be more.
    fn read(&mut self, buffer: &mut [u8]) -> bool {
        let Arrived { lines, marks, more } = self.streams.take(buffer, Nanos::ZERO);
        // Marks of services belong to no phase.
        marks.iter().filter_map(|mark| probed(&mark.text)).for_each(|line| self.threads.take(&line));
        self.line.take_if(|pattern| lines.iter().any(|(_, line)| pattern.is_match(&line.text)));
        more
    }

    /// Reads what remains after its end.
    fn rest(&mut self, buffer: &mut [u8]) {
        for _ in 0..LAST_TURNS {
            if !self.read(buffer) {
                return;
            }
        }
    }
}

/// Reads what instances have written; whether one of them has ended.
fn until_one_ends<'i>(instances: &'i mut [Instance<'_>]) -> impl FnMut() -> bool + 'i {
    let mut buffer = vec![0; 64 << 10];
    move || {
        let mut over = false;
        for instance in instances.iter_mut() {
            instance.read(&mut buffer);
            over |= instance.end.is_some() || !matches!(instance.process.wait(Some(Duration::ZERO)), Ok(None));
        }
        over
    }
}
