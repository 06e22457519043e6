//! The services of a trial: servers that are started one after another, get ready, outlive its phases, and are ended after
//! them. How each gets ready is in `ready`, and what each is given (a port, a directory) in `allotted`.

pub(crate) mod allotted;
mod counting;
mod observed;
mod ready;
mod release;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use prony_boundaries::observation::probed;
use prony_boundaries::probe_reports::Threads;
use prony_boundaries::stream::{Arrived, Streams};
use prony_experiment::services::started_in_order;
use prony_model::event::Observer;
use prony_model::number::{count, quantity};
use prony_model::program::CommandLine;
use prony_model::record::EffectiveProgram;
use prony_model::service::{ReadySign, ServiceSpec, SetUp};
use prony_model::spec::{PhaseSpec, TrialSpec};
use prony_model::trial::PlannedTrial;
use prony_model::units::{Nanos, Unit};
use prony_os::attached::Attached;
use prony_os::clock::monotonic;
use prony_os::launch::{End, Process, Scratch, Started, Status, remove_tree};
use prony_os::limits::Group;
use prony_os::sample::{Sampler, SyncCounters};
use prony_place::data::copy_data;
use prony_place::launch_setting::{Ends, Setting};
use prony_place::place::{self, progress};
use prony_place::user::User;
use regex::Regex;
use rustix::process::Signal;

use crate::error::Error;
use crate::roles::declared::declared;
use crate::roles::probe::{self, Probing};
use crate::run_context::RunContext;
use crate::watched::services::{Fault, NOTICED, Served, incomplete, is_group_there};
use allotted::{Allotted, Share, beside_data, data_of};
use counting::Counting;

/// How long a service that was asked to end by SIGTERM may take.
const GRACE: Duration = Duration::from_secs(10);

/// How long one whose data are set up once may take: it may have much to write.
const SET_UP_GRACE: Duration = Duration::from_secs(600);

/// How long a `setup` may take.
const SETUP: Duration = Duration::from_secs(600);

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
    /// The first that did not get ready or has ended, and why.
    fault: Option<Fault>,
    are_measured: bool,
    /// The role of what they are for.
    client: &'a str,
    /// When the first of them could be launched: the trial's begin.
    began: Nanos,
}

/// An instance that is ready to be launched: what runs before that has run.
struct Prepared<'a> {
    service: &'a ServiceSpec,
    share: &'a Share,
    setting: Setting<'a>,
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

impl<'a> Services<'a> {
    /// Starts the services of a trial and waits until all of them are ready. One that is not, or that ends, is a result:
    /// [`Services::fault`].
    ///
    /// # Errors
    /// Where what they need cannot be made, a step before them fails, or the user asked to stop.
    pub(crate) fn start(
        context: &RunContext<'_>,
        trial: &PlannedTrial,
        spec: &'a TrialSpec,
        allotted: &'a Allotted,
        observer: &mut dyn Observer,
    ) -> Result<Self, Error> {
        let mut all = Self { are_measured: spec.measures_servers(), client: spec.subject.role(), ..Self::default() };
        all.began = monotonic();
        let once = spec.services.iter().any(is_set_up_once);
        let mut make = || set_up_once(context, (trial, spec), observer);
        let made = match once.then(|| context.initial_data.of(trial.variant, &mut make)).transpose()? {
            Some(Err(fault)) => return Ok(Self { fault: Some(fault), ..all }),
            made => made.and_then(Result::ok),
        };
        // The checker has found an order.
        let order = started_in_order(&spec.services).unwrap_or_default();
        // Nothing runs while copies are made and commands prepare them: those take long in the first trial of a variant only,
        // and nobody reads what a service writes meanwhile.
        let mut prepared = Vec::new();
        for service in order.into_iter().map(|at| &spec.services[at]) {
            let mut instances = Vec::new();
            for share in allotted.of(service.name()) {
                let made = made.as_deref();
                instances.push(all.prepare(context, (trial, spec), (service, made), (share, allotted), observer)?);
            }
            prepared.push((service, instances));
        }
        all.began = monotonic();
        for (service, instances) in prepared {
            let first = all.instances.len();
            for instance in instances {
                let Some(instance) = all.launch(context, instance)? else { return Ok(all) };
                all.instances.push(instance);
            }
            for number in first..all.instances.len() {
                if !all.wait_until_ready(context, number)? {
                    return Ok(all);
                }
            }
            if !all.set_up(context, service, first)? {
                return Ok(all);
            }
        }
        for Instance { service, setting, counting, .. } in &mut all.instances {
            let begin = |spec| Counting::begin(spec, setting, &context.launcher);
            *counting = service.counters.as_ref().map(begin).transpose()?;
        }
        Ok(all)
    }

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

    /// Makes the place of an instance, and runs its `prepare`, or copies the data that were `made` for it.
    fn prepare(
        &mut self,
        context: &RunContext<'_>,
        (trial, spec): (&PlannedTrial, &'a TrialSpec),
        (service, made): (&'a ServiceSpec, Option<&Scratch>),
        (share, allotted): (&'a Share, &Allotted),
        observer: &mut dyn Observer,
    ) -> Result<Prepared<'a>, Error> {
        let (program, means) = (&service.program, context.means());
        let place = context.places.of(means, trial, spec, program, observer)?;
        let directory = place.directory(program, &share.scratch, &mut progress(means, program, observer))?;
        let values = allotted.values(share);
        let made = made.filter(|_| is_set_up_once(service));
        let (copied, remark) = match made {
            Some(made) => {
                let original = data_of(made.path(), &share.role);
                let (length, files) = copy_data(&original, &share.data, &mut progress(means, program, observer))?;
                let (size, files) = (quantity(length as f64, Unit::Bytes), count(files, "file"));
                // What they were set up from.
                let from = service.data.as_ref().map(|data| context.places.data.survey(data)).transpose()?;
                let remark =
                    format!("`{{data}}` began as a copy of what `prepare` and `setup` left: {size} in {files}");
                (from, Some(remark))
            }
            None => (share.fill((&context.places, means), service, observer)?, None),
        };
        let user = service.user.as_deref().map(User::named).transpose()?.flatten();
        if let Some(user) = &user {
            allotted.give(share, &directory, user)?;
        }
        let setting = Setting { values, user, ..Setting::new(program, &share.scratch, directory) };
        service.lines().try_for_each(|line| setting.takes_values(line))?;
        let declared = declared(&context.files, &setting, &place, context.experiment.records_commands());
        let mut effective = EffectiveProgram { data: copied, ..declared };
        effective.remarks.extend(remark);
        if made.is_none() {
            place.prepare(means, &setting, &service.limits, &mut || context.interrupt.asked(), observer)?;
        }
        if share.number == 1 {
            self.effective.push(effective);
        }
        Ok(Prepared { service, share, setting })
    }

    /// Starts an instance; `None` where it cannot be executed, or another process has its address.
    fn launch(
        &mut self,
        context: &RunContext<'_>,
        Prepared { service, share, setting }: Prepared<'a>,
    ) -> Result<Option<Instance<'a>>, Error> {
        let attached = match observed::attached(service, &mut || context.interrupt.asked()) {
            Ok(attached) => attached,
            Err(why) => {
                self.fault = Some(Fault::not_begun(&share.role, why));
                return Ok(None);
            }
        };
        if attached.is_none() && ready::is_taken(&service.ready.sign, &setting, share.port) {
            self.fault = Some(Fault::address_in_use(&share.role));
            return Ok(None);
        }
        let program = &service.program;
        let (mut launch, Ends { stdout, stderr, marks }) = setting.launch()?;
        if let Some(attached) = &attached {
            let recorded = self.effective.iter_mut().find(|effective| effective.program == program.name);
            observed::await_end(attached, &mut launch, recorded);
        }
        let probing = probe::install(&mut launch, program, &[], &share.scratch)?;
        // Its scratch lies in that of the trial.
        launch.scratch.clear();
        let group = Group::create(&service.limits)?;
        launch.group = Some(group.clone());
        let mut process = context.launcher.start(launch)?;
        let syncs = match &attached {
            Some(attached) => Some(context.tracepoints.follow_all(&attached.all())),
            None => process.suspended().map(|pid| context.tracepoints.follow(pid)),
        };
        let line = match &service.ready.sign {
            // The checker has compiled it before.
            ReadySign::Line(pattern) => Regex::new(pattern).ok(),
            _ => None,
        };
        let started = match release::released(
            &mut *process,
            (service, &setting.directory),
            context.experiment.records_commands(),
        )? {
            Ok(started) => started,
            Err(why) => {
                self.fault = Some(Fault::not_begun(&share.role, why));
                return Ok(None);
            }
        };
        Ok(Some(Instance {
            service,
            share,
            setting,
            process,
            group,
            attached,
            syncs,
            started,
            streams: Streams::new([stdout, stderr, marks], line.is_some()),
            line,
            threads: Threads::default(),
            probing,
            counting: None,
            end: None,
        }))
    }

    /// Waits until an instance is ready; whether it got ready and all run.
    fn wait_until_ready(&mut self, context: &RunContext<'_>, number: usize) -> Result<bool, Error> {
        let deadline = Instant::now() + self.instances[number].service.ready.within.to_duration();
        let mut buffer = vec![0; 64 << 10];
        let mut last = None;
        loop {
            if !self.turn(&mut buffer)? {
                return Ok(false);
            }
            if context.interrupt.asked() {
                return Err(interrupted(self.instances[number].service));
            }
            let instance = &self.instances[number];
            let found = match &instance.service.ready.sign {
                ReadySign::Line(_) => instance.line.as_ref().map_or(Ok(()), |_| Err(None)),
                ReadySign::Command(line) => {
                    let line = line.clone();
                    let done = self.step(context, number, ("ready", &line), deadline)?;
                    // It names the step and the service, as the text around it does.
                    done.map_err(|why| {
                        Some(format!("its `ready` failed: {}", why.split_once(" failed: ").map_or(&*why, |of| of.1)))
                    })
                }
                sign => ready::check(sign, &instance.setting, instance.share.port).map_err(Some),
            };
            // The attempt that the deadline ends says less than the one before it.
            let is_over = Instant::now() >= deadline;
            if let Err(why) = &found
                && (last.is_none() || !is_over)
            {
                last.clone_from(why);
            }
            if found.is_ok() {
                let Instance { process, attached, started, service, setting, share, .. } = &self.instances[number];
                let processes = observed::processes(attached.as_ref(), started, process.supervisor());
                observed::record_listening(&processes, (service, setting, share.port), &mut self.effective);
                return Ok(true);
            }
            let instance = &self.instances[number];
            if is_over {
                let (ready, output) = (&instance.service.ready, instance.streams.captured());
                self.fault = Some(Fault::not_ready(&instance.share.role, ready, last.as_deref(), &output));
                return Ok(false);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Runs the `setup` of a service whose instances begin at `first`; whether it succeeded and all run.
    fn set_up(&mut self, context: &RunContext<'_>, service: &ServiceSpec, first: usize) -> Result<bool, Error> {
        let Some(setup) = service.setup.as_ref().filter(|_| !is_set_up_once(service)) else {
            return Ok(true);
        };
        let done = self.step(context, first, ("setup", setup), Instant::now() + SETUP)?;
        let mut buffer = vec![0; 64 << 10];
        // A service that ended comes before the command that needed it.
        self.await_ends(done.is_err(), &mut buffer)?;
        if let (None, Err(why)) = (&self.fault, done) {
            self.fault = Some(Fault::not_set_up(service.name(), &why));
        }
        Ok(self.fault.is_none())
    }

    /// Reads all of them; what `failed` for their clients may be the end of a service that is not known yet.
    fn await_ends(&mut self, failed: bool, buffer: &mut [u8]) -> Result<(), Error> {
        let until = Instant::now() + NOTICED.to_duration();
        while self.turn(buffer)? && failed && Instant::now() < until {
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Runs a command in the place of an instance, while the output of all is read, until one of them ends or the deadline.
    ///
    /// # Errors
    /// Where the user asked to stop. A command that fails is a result.
    fn step(
        &mut self,
        context: &RunContext<'_>,
        number: usize,
        command: (&'static str, &CommandLine),
        deadline: Instant,
    ) -> Result<Result<(), String>, Error> {
        let instances = &mut self.instances;
        let Some(setting) = instances.get(number).map(|one| one.setting.clone()) else { return Ok(Ok(())) };
        let mut over = until_one_ends(instances);
        let mut stop = || over() || context.interrupt.asked() || Instant::now() >= deadline;
        match place::step_until(context.means(), &setting, command, &mut stop) {
            Ok(()) => Ok(Ok(())),
            Err(error) if context.interrupt.asked() => Err(error.into()),
            Err(_) if Instant::now() >= deadline => Ok(Err("it took too long".to_owned())),
            Err(error) => Ok(Err(error.text().trim().to_owned())),
        }
    }

    /// Does something before the phases, which its argument ends, while the output of all is read, until one of them ends: that
    /// comes before the error of what needed it. Nothing is done where one has not got ready.
    ///
    /// # Errors
    /// Where it fails while all run, or the user asked to stop.
    pub(crate) fn meanwhile(
        &mut self,
        context: &RunContext<'_>,
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
        let mut buffer = vec![0; 64 << 10];
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
            served.incomplete.extend(incomplete(&instance.share.role, instance.end.as_ref(), finished.killed));
            let problems = finished.problems.into_iter();
            served.finished.problems.extend(problems.map(|problem| format!("`{}`: {problem}", instance.share.role)));
            served.add(&instance.share.service, &instance.share.role, instance.threads, instance.probing.silent());
        }
        Ok(served)
    }
}

const fn is_set_up_once(service: &ServiceSpec) -> bool {
    matches!(service.set_up, SetUp::Once)
}

/// Starts the services that are set up once for a variant, with empty data, and ends them when they are set up; the directory with
/// their data. Why one of them did not get ready is the result of a trial.
///
/// # Errors
/// Where one does not end by itself, so that its data may be incomplete; and as [`Services::start`].
fn set_up_once(
    context: &RunContext<'_>,
    (trial, spec): (&PlannedTrial, &TrialSpec),
    observer: &mut dyn Observer,
) -> Result<Result<Scratch, Fault>, Error> {
    let once = spec.services.iter().filter(|service| is_set_up_once(service));
    let services = once.map(|service| ServiceSpec { set_up: SetUp::Each, ..service.clone() }).collect();
    let spec = TrialSpec { services, ..spec.clone() };
    let scratch = Scratch::create(&context.near)?;
    let allotted = Allotted::new(&spec, scratch.path())?;
    let services = Services::start(context, trial, &spec, &allotted, observer)?;
    let failed = services.fault().is_some();
    let mut served = services.end(failed, SET_UP_GRACE)?;
    if let Some(fault) = served.fault.take() {
        return Ok(Err(fault));
    }
    if let Some(message) = served.finished.problems.into_iter().chain(served.incomplete).next() {
        let program = spec.services[0].name().to_owned();
        return Err(prony_place::Error::Step { program, step: "data", message }.into());
    }
    // Copies of the directories in which they worked, among others.
    remove_tree(&beside_data(scratch.path()))?;
    Ok(Ok(scratch))
}

/// The user asked to stop while services were started.
fn interrupted(service: &ServiceSpec) -> Error {
    let message = "interrupted by the user".to_owned();
    prony_place::Error::Step { program: service.name().to_owned(), step: "ready", message }.into()
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
