//! The engine workers of a store, as a source of boundaries: the runner commands them to run one phase after another. The
//! first runs every phase; further ones are launched for phases in which several processes share the store.

mod command;
mod joined;
mod of_phase;
mod process;

use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use prony_boundaries::channel::Received;
use prony_boundaries::observation::Observation;
use prony_boundaries::phase_state::WorkerPart;
use prony_engines::phases::Queue;
use prony_engines::timed_loop::chain;
use prony_model::http::HttpSpec;
use prony_model::protocol::{Failure, FromWorker, PhaseReport, ToWorker, VERSION};
use prony_model::spec::{Action, PhaseSpec, Sharing, TrialSpec};
use prony_model::trial::PlannedTrial;
use prony_model::units::Nanos;
use prony_os::clock::monotonic;
use prony_os::launch::{LaunchSpec, Status};
use prony_os::limits::Group;
use prony_os::sample::Sampler;

use crate::error::Error;
use crate::run_context::RunContext;
use crate::watched::report::{Fault, Report};
use command::{Command, Commands};
use of_phase::{Step, differs, is_of_workers, is_shared, total_operations, wrong_total};
use process::{PartUnderWay, WorkerProcess, shared};

pub(crate) use of_phase::disk_full;
pub(crate) use process::launch;

/// How long a worker may take to close its store and end, if no `close` phase limits it.
const CLOSING: Duration = Duration::from_secs(60);

/// How long a worker that failed may take to end by itself, so that its own exit status is known.
const FAILING: Duration = Duration::from_millis(500);

/// How long to wait for a worker to exit that has closed its socket.
const EXITING: Duration = Duration::from_millis(5);

/// Messages that are read in one go: however much a worker writes, limits and interrupts are checked in between.
const MESSAGES: usize = 256;

/// Launches a further worker, with its number, the queue that it shares, and the control group of the trial, where it has one.
type Further<'a> = Box<dyn Fn(u32, Option<&Queue>, Option<&Group>, &Sampler) -> Result<WorkerProcess, Error> + 'a>;

/// Whether a phase can begin now, and whether time has passed for it.
type MayBegin<'a> = &'a mut dyn FnMut(usize, Option<&PhaseSpec>) -> Option<bool>;

/// The workers of a trial.
pub(crate) struct Workers<'a> {
    spec: &'a TrialSpec,
    further: Further<'a>,
    commands: Commands<'a>,
    /// The trial's own control group, where it has one.
    pub group: Option<Group>,
    /// The command of the phase under way, where it is one.
    command: Option<Command>,
    /// What they are to open and run; each gets its own number.
    plan: ToWorker,
    /// The first, and further ones while phases need them.
    processes: Vec<WorkerProcess>,
    /// Where a phase divides its operations as in a queue.
    queue: Option<Queue>,
    /// The phase that begins next.
    next: usize,
    /// Until when the first is to have ended, if it is to end.
    pub until: Option<Instant>,
    /// Until when the further ones are to have ended, once they were asked to.
    dismissed: Option<Instant>,
    /// Further ones began or ended since the last phase, or it was waited for something.
    changed: bool,
    /// The phase of which connections are still open, where that is so of one.
    lingers: Option<usize>,
    /// State of the workers beside their phases.
    pub report: Report,
}

impl<'a> Workers<'a> {
    /// The launch of a worker whose store is made in `directory`, and the runner's end of its socket.
    ///
    /// # Errors
    /// Where no socket can be made.
    pub(crate) fn prepare(
        context: &'a RunContext,
        trial: &PlannedTrial,
        spec: &'a TrialSpec,
        directory: &'a Path,
    ) -> Result<(LaunchSpec, Self), Error> {
        let shares = |phase: &PhaseSpec| phase.action.ops().is_some_and(|ops| ops.share == Sharing::Queue);
        let queue = spec.phases.iter().any(shares).then(Queue::new).transpose();
        let queue =
            queue.map_err(|errno| Error::Setup { doing: "make a queue of operations", source: errno.into() })?;
        let (mut launch, channel) = launch(directory, shared(queue.as_ref())?)?;
        launch.scratch = vec![directory.to_path_buf()];
        let plan = ToWorker::Plan {
            version: VERSION,
            spec: Box::new(spec.clone()),
            seed: trial.seed,
            dir: directory.to_string_lossy().into_owned(),
            replica: 1,
            throughput: context.experiment.observe().throughput,
        };
        let means = move || (&*context.launcher, &*context.tracepoints);
        let further: Further<'a> = Box::new(move |number, queue, group, sampler| {
            WorkerProcess::further(number, means(), directory, (queue, group), sampler)
        });
        let recorded = context.experiment.records_commands();
        let commands: Commands<'a> =
            Box::new(move |run, sampler| Command::suspend(run, &spec.limits, means(), recorded, sampler));
        Ok((launch, Self::new((further, commands), spec, plan, queue, WorkerProcess::new(1, channel, None))))
    }

    fn new(
        (further, commands): (Further<'a>, Commands<'a>),
        spec: &'a TrialSpec,
        plan: ToWorker,
        queue: Option<Queue>,
        first: WorkerProcess,
    ) -> Self {
        Self {
            further,
            commands,
            group: None,
            command: None,
            spec,
            plan,
            processes: vec![first],
            queue,
            next: 0,
            until: None,
            dismissed: None,
            changed: false,
            lingers: None,
            report: Report::default(),
        }
    }

    /// Sends the plan to the first: it opens its store from here on.
    pub(crate) fn plan(&mut self) {
        self.processes[0].send(&self.plan);
    }

    /// The descriptors to wait for.
    pub(crate) fn sources(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.processes.iter().filter_map(WorkerProcess::source).chain(self.command.iter().map(Command::source))
    }

    /// Whether there may be more to read at once.
    pub(crate) fn has_more(&self) -> bool {
        self.processes.iter().any(|process| process.more && !process.closed)
    }

    /// Reads nothing more from the workers: the trial is over, and what they write later is not part of it.
    pub(crate) fn leave(&mut self) {
        self.processes.iter_mut().for_each(|process| process.closed = true);
    }

    /// Whether the first was asked to close its store and end.
    const fn is_stopping(&self) -> bool {
        self.report.asked_to_stop.is_some()
    }

    /// Reads what the workers have written.
    pub(crate) fn turn(&mut self, observation: &mut Observation<'_>) {
        self.command_ended(observation);
        for at in 0..self.processes.len() {
            self.processes[at].more = true;
            for _ in 0..MESSAGES {
                if self.processes[at].closed {
                    break;
                }
                let leaving = if at == 0 { self.is_stopping() } else { self.dismissed.is_some() };
                match self.processes[at].receive() {
                    Received::Nothing => {
                        self.processes[at].more = false;
                        break;
                    }
                    Received::Closed if leaving => self.processes[at].closed = true,
                    // The others still run.
                    Received::Closed if at > 0 => self.failed(Some(at), Fault::Closed, observation),
                    Received::Closed => self.fail(Some(at), Fault::Closed),
                    Received::Garbled(what) => self.failed(Some(at), Fault::Garbled(what), observation),
                    Received::Message(message) => self.heard(at, *message, observation),
                }
            }
        }
    }

    /// Ends the phase of a command that has ended.
    fn command_ended(&mut self, observation: &mut Observation<'_>) {
        let (Some(command), Some(index)) = (&mut self.command, self.next.checked_sub(1)) else { return };
        if self.report.fault.is_some() {
            return;
        }
        let ran = match command.ended() {
            Ok(None) => return,
            Ok(Some(ran)) => ran,
            Err(error) => return self.failed(None, Fault::of_command(chain(&error)), observation),
        };
        match command::fault(&ran.end) {
            Some(fault) => self.failed(None, fault, observation),
            None => {
                let report = PhaseReport { time: ran.end.at.since(ran.released), ..PhaseReport::default() };
                observation.reported(index, ran.end.at, Box::new(report));
            }
        }
        self.report.commands.insert(index, ran);
        self.end_command(observation.sampler);
    }

    fn end_command(&mut self, sampler: &Sampler) {
        self.command.take().into_iter().for_each(|command| command.finish(&mut self.report.finished, sampler));
    }

    /// A worker has failed and may still run, or all of them have together: what they do from here on is not part of the
    /// phase.
    fn failed(&mut self, at: Option<usize>, fault: Fault, observation: &mut Observation<'_>) {
        observation.cut();
        self.fail(at, fault);
    }

    /// Nothing after the first fault counts.
    fn fail(&mut self, at: Option<usize>, fault: Fault) {
        self.leave();
        self.report.fault = Some(fault);
        let running = self.next.checked_sub(1).map(|index| &self.spec.phases[index].action);
        let is_shared = running.is_some_and(|action| action.replicas() > 1);
        self.report.failed_replica = at.filter(|at| *at > 0 || is_shared).map(|at| at as u32 + 1);
        self.until.get_or_insert(Instant::now() + FAILING);
    }

    /// What is known of them in the end, while their store is still there. Further ones that still run are ended.
    ///
    /// # Errors
    /// Where a supervisor cannot be understood.
    pub(crate) fn ended(mut self, status: Status, sampler: &Sampler) -> Result<Report, Error> {
        if let (ToWorker::Plan { dir, .. }, None | Some(Fault::Closed)) = (&self.plan, &self.report.fault) {
            self.report.fault = disk_full(status, Path::new(dir)).or(self.report.fault);
        }
        self.end_command(sampler);
        self.end_further(1, sampler)?;
        Ok(self.report)
    }

    /// Ends the workers from this one on, which may have ended by themselves.
    fn end_further(&mut self, from: usize, sampler: &Sampler) -> Result<(), Error> {
        for process in self.processes.split_off(from) {
            let number = process.number;
            let end = process.finish(&mut self.report.finished, sampler)?;
            if self.report.failed_replica == Some(number) {
                self.report.end = end;
            }
        }
        Ok(())
    }

    fn heard(&mut self, at: usize, message: FromWorker, observation: &mut Observation<'_>) {
        let running = self.next.checked_sub(1).filter(|index| observation.tracker.phases[*index].is_open());
        // A phase that waits for quiet ends without the workers, and not all of them take part in every phase.
        let takes_part = |index: &usize| {
            let action = &self.spec.phases[*index].action;
            is_of_workers(action) && at < action.replicas()
        };
        let asked = running.filter(takes_part);
        match message {
            FromWorker::Failed { failure, message, .. } => {
                self.failed(Some(at), Fault::Failed { failure, message }, observation);
            }
            FromWorker::Ready { version: VERSION, effective, .. } if !self.processes[at].ready => {
                self.processes[at].ready = true;
                match self.report.effective.as_ref().zip(effective.as_ref()) {
                    Some((first, own)) if differs(first, own) => {
                        let message = "it opened the store with other settings than `replica.1`".to_owned();
                        self.failed(Some(at), Fault::Failed { failure: Failure::Failed, message }, observation);
                    }
                    Some(_) => {}
                    None => self.report.effective = effective,
                }
            }
            FromWorker::Ready { version, .. } if version != VERSION => {
                let why =
                    format!("the worker uses version {version} of the protocol, and this prony uses version {VERSION}");
                self.failed(Some(at), Fault::Garbled(why), observation);
            }
            FromWorker::Progress { index, operations } if asked == Some(index) => {
                self.processes[at].part.operations = operations;
                let all = self.processes.iter().map(|process| process.part.operations).sum();
                observation.progress(index, all, total_operations(self.spec, &self.spec.phases[index]));
            }
            // One more of a phase that has ended.
            FromWorker::Progress { .. } => {}
            FromWorker::Prepared { index } if asked == Some(index) && self.may(at, index, Step::Prepare) => {
                self.processes[at].part.prepared = true;
                self.go(index, observation);
            }
            FromWorker::Began { index, at: began } if asked == Some(index) && self.may(at, index, Step::Begin) => {
                self.processes[at].part.began = Some(began);
                let first = self.processes.iter().filter_map(|process| process.part.began).min();
                observation.tracker.phases[index].note_begin(first.unwrap_or(began), Nanos::ZERO);
                if self.spec.phases[index].action.http().is_some_and(HttpSpec::warms_up) {
                    observation.warmed_up(index);
                }
            }
            FromWorker::Ended { index, at: ended, report }
                if asked == Some(index) && self.may(at, index, Step::End) =>
            {
                self.part_ended(at, index, (ended, report), observation);
            }
            FromWorker::Planned { index, background, plan } if has_ended(index, observation) => {
                planned_again((index, background), plan, observation);
            }
            FromWorker::Lingered { index, surplus } if self.lingers == Some(index) => {
                self.lingered(index, surplus, observation);
            }
            other => {
                let why = unexpected(&other, running.map(|index| self.spec.phases[index].name.as_str()));
                self.failed(Some(at), Fault::Garbled(why), observation);
            }
        }
    }

    /// The connections of a phase are closed, on which more came than answers or not.
    fn lingered(&mut self, index: usize, surplus: Option<String>, observation: &mut Observation<'_>) {
        (self.lingers, self.changed) = (None, true);
        let report = observation.tracker.phases[index].report.as_mut();
        if let Some(requests) = report.and_then(|report| report.requests.as_mut()) {
            requests.surplus = surplus;
        }
    }

    /// Whether a worker may take a step now: in a phase that several share each takes every step once, in this order. A load generator
    /// does not wait to be released.
    fn may(&self, at: usize, index: usize, step: Step) -> bool {
        let PartUnderWay { prepared, began, over, .. } = &self.processes[at].part;
        match (step, is_shared(&self.spec.phases[index])) {
            (Step::Prepare, _) => !prepared && began.is_none(),
            (Step::Begin, true) => *prepared && began.is_none(),
            (Step::End, true) => began.is_some() && over.is_none(),
            (Step::Begin | Step::End, false) => true,
        }
    }

    /// Releases all that share a phase as soon as each of them is prepared. What they did until then (sessions, statements, the order
    /// of keys) is not work of the phase.
    fn go(&mut self, index: usize, observation: &mut Observation<'_>) {
        let sharing = &mut self.processes[..self.spec.phases[index].action.replicas()];
        if sharing.iter().all(|process| process.part.prepared) {
            observation.prepared(index);
            sharing.iter_mut().for_each(|process| process.send(&ToWorker::Go));
        }
    }

    /// A worker has done its part of a phase, which ends with the last part.
    fn part_ended(
        &mut self,
        at: usize,
        index: usize,
        (ended, report): (Nanos, Box<PhaseReport>),
        observation: &mut Observation<'_>,
    ) {
        if let Some(effective) = report.effective.as_ref().filter(|_| at == 0) {
            self.report.effective = Some(Box::new(effective.clone()));
        }
        let phase = &self.spec.phases[index];
        if !is_shared(phase) {
            return match wrong_total(self.spec, phase, &report) {
                Some(fault) => self.failed(None, fault, observation),
                None => {
                    let lingers = report.requests.as_ref().is_some_and(|requests| requests.lingers);
                    self.lingers = lingers.then_some(index);
                    observation.reported(index, ended, report);
                }
            };
        }
        let part = &mut self.processes[at].part;
        // The report is made after the last operation, and takes time.
        let (began, ended) = report.span.unwrap_or((part.began.unwrap_or(ended), ended));
        part.over = Some(WorkerPart { began, ended, report });
        let sharing = &mut self.processes[..phase.action.replicas()];
        if sharing.iter().all(|process| process.part.over.is_some()) {
            let parts: Vec<WorkerPart> = sharing.iter_mut().filter_map(|process| process.part.over.take()).collect();
            let last = parts.iter().map(|part| part.ended).max().unwrap_or(ended);
            let report = joined::joined(&phase.action, &parts);
            if let Some(fault) = wrong_total(self.spec, phase, &report) {
                return self.failed(None, fault, observation);
            }
            observation.tracker.phases[index].parts = parts;
            observation.reported(index, last, Box::new(report));
        }
    }

    /// Begins the next phase if none is running, or ends the workers if there is none. A phase that waits for quiet ends
    /// without them; they are idle meanwhile.
    /// `may_begin` says, of a phase with its index or of the end, whether that can be now, and whether time has passed for it.
    pub(crate) fn lead(&mut self, observation: &mut Observation<'_>, may_begin: MayBegin<'_>) {
        let open = self.next.checked_sub(1).is_some_and(|index| observation.tracker.phases[index].is_open());
        if !self.processes[0].ready || self.report.fault.is_some() || self.is_stopping() || open {
            return;
        }
        let (index, spec) = (self.next, self.spec);
        let phase = spec.phases.get(index);
        if self.lingers.is_some() && phase.is_some_and(|phase| is_of_workers(&phase.action)) {
            return;
        }
        let Some(has_waited) = may_begin(index, phase) else { return };
        // Servers worked meanwhile.
        self.changed |= has_waited;
        if !self.are_there_for(phase, observation) {
            return;
        }
        let Some(phase) = phase else {
            self.report.asked_to_stop = Some(monotonic());
            self.until = Some(Instant::now() + CLOSING);
            return self.processes[0].send(&ToWorker::Stop);
        };
        if let Some(Err(error)) = self.queue.as_ref().map(Queue::rewind) {
            let message = format!("the queue of operations cannot be rewound: {error}");
            return self.failed(None, Fault::Failed { failure: Failure::Failed, message }, observation);
        }
        // Before the phase begins, which has none of the work of preparing it.
        match command::of(&phase.action).map(|run| (self.commands)(run, observation.sampler)).transpose() {
            Ok(command) => self.command = command,
            Err(error) => return self.failed(None, Fault::of_command(chain(&error)), observation),
        }
        self.next += 1;
        observation.lead(index, std::mem::take(&mut self.changed) || self.command.is_some());
        self.processes.iter_mut().for_each(|process| process.part = PartUnderWay::default());
        match self.command.as_mut().map(|command| command.begin(observation.sampler)) {
            Some(Ok(began)) => observation.tracker.phases[index].note_begin(began, Nanos::ZERO),
            Some(Err(fault)) => return self.failed(None, fault, observation),
            None => {}
        }
        if is_of_workers(&phase.action) {
            for process in &mut self.processes[..phase.action.replicas()] {
                process.send(&ToWorker::Phase { index });
            }
        }
    }

    /// Whether the workers that the next phase needs are there, and none that it must not find; `None` is the end of the
    /// trial.
    fn are_there_for(&mut self, next: Option<&PhaseSpec>, observation: &mut Observation<'_>) -> bool {
        // What opens or changes the store is measured without idle processes that have it open.
        let first_only =
            next.is_none_or(|next| next.changes_data() || matches!(next.action, Action::Reopen | Action::Evict));
        if first_only && self.processes.len() > 1 {
            return self.dismiss(observation.sampler);
        }
        let wanted = next.map_or(1, |next| next.action.replicas());
        while self.processes.len() < wanted {
            let number = self.processes.len() as u32 + 1;
            let mut plan = self.plan.clone();
            if let ToWorker::Plan { replica, .. } = &mut plan {
                *replica = number;
            }
            match (self.further)(number, self.queue.as_ref(), self.group.as_ref(), observation.sampler) {
                Ok(mut process) => {
                    process.send(&plan);
                    self.processes.push(process);
                    self.changed = true;
                }
                Err(error) => {
                    let message = format!("it could not be launched: {}", chain(&error));
                    let fault = Fault::Failed { failure: Failure::Failed, message };
                    self.failed(Some(number as usize - 1), fault, observation);
                    return false;
                }
            }
        }
        self.processes[..wanted].iter().all(|process| process.ready)
    }

    /// Has the further workers close the store and end; whether they have.
    fn dismiss(&mut self, sampler: &Sampler) -> bool {
        let until = match self.dismissed {
            Some(until) => until,
            None => {
                self.processes[1..].iter_mut().for_each(|process| process.send(&ToWorker::Stop));
                *self.dismissed.insert(Instant::now() + CLOSING)
            }
        };
        let late = Instant::now() >= until;
        for at in 1..self.processes.len() {
            let end = if self.processes[at].closed { self.processes[at].end(EXITING) } else { Ok(None) };
            match end {
                Ok(Some(end)) if end.status == Status::Exited(0) => {}
                Ok(None) if late => {
                    self.fail(Some(at), Fault::Late);
                    return false;
                }
                Ok(None) => return false,
                Ok(Some(_)) => {
                    self.fail(Some(at), Fault::Closed);
                    return false;
                }
                Err(error) => {
                    let message = format!("its end is not known: {}", chain(&error));
                    self.fail(Some(at), Fault::Failed { failure: Failure::Failed, message });
                    return false;
                }
            }
        }
        if let Err(error) = self.end_further(1, sampler) {
            self.report.finished.problems.push(format!("a further worker: {}", chain(&error)));
        }
        (self.dismissed, self.changed) = (None, true);
        true
    }
}

/// A server plans the queries of a phase, or of its background (`true`), in another way now.
fn planned_again((index, background): (usize, bool), plan: String, observation: &mut Observation<'_>) {
    let report = observation.tracker.phases[index].report.as_deref_mut();
    let report = if background { report.and_then(|report| report.background.as_deref_mut()) } else { report };
    if let Some(report) = report {
        report.plan = Some(plan);
    }
}

/// What is wrong with a message that no worker sends in this phase.
fn unexpected(message: &FromWorker, phase: Option<&str>) -> String {
    let phase = phase.map_or_else(|| "no phase".to_owned(), |name| format!("phase `{name}`"));
    format!("the worker sent {message:?} in {phase}")
}

/// Whether there is the report of a phase.
fn has_ended(index: usize, observation: &Observation<'_>) -> bool {
    observation.tracker.phases.get(index).is_some_and(|phase| phase.report.is_some())
}

#[cfg(test)]
mod tests;
