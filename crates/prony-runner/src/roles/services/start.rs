//! Starts the services of a trial one after another: what each needs is made, it is launched, gets ready, and is set up.

use std::time::{Duration, Instant};

use prony_boundaries::probe_reports::Threads;
use prony_boundaries::stream::Streams;
use prony_experiment::services::started_in_order;
use prony_model::event::Observer;
use prony_model::number::{count, quantity};
use prony_model::program::CommandLine;
use prony_model::record::EffectiveProgram;
use prony_model::service::{ReadySign, ServiceSpec, SetUp};
use prony_model::spec::TrialSpec;
use prony_model::trial::PlannedTrial;
use prony_model::units::Unit;
use prony_os::clock::monotonic;
use prony_os::launch::{Scratch, remove_tree};
use prony_os::limits::Group;
use prony_place::data::copy_data;
use prony_place::launch_setting::{Ends, Setting};
use prony_place::place::{self, progress};
use prony_place::user::User;
use regex::Regex;

use super::allotted::{Allotted, Share, beside_data, data_of};
use super::counting::Counting;
use super::{Instance, POLL_INTERVAL, Services, observed, ready, release, until_one_ends};
use crate::error::Error;
use crate::roles::declared::declared;
use crate::roles::probe;
use crate::run_context::RunContext;
use crate::watched::services::Fault;

/// How long one whose data are set up once may take: it may have much to write.
const SET_UP_GRACE: Duration = Duration::from_secs(600);

/// How long a `setup` may take.
const SETUP: Duration = Duration::from_secs(600);

/// An instance that is ready to be launched: what runs before that has run.
struct Prepared<'a> {
    service: &'a ServiceSpec,
    share: &'a Share,
    setting: Setting<'a>,
}

impl<'a> Services<'a> {
    /// Starts the services of a trial and waits until all of them are ready. One that is not, or that ends, is a result:
    /// [`Services::fault`].
    ///
    /// # Errors
    /// Where what they need cannot be made, a step before them fails, or the user asked to stop.
    pub(crate) fn start(
        context: &RunContext,
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

    /// Makes the place of an instance, and runs its `prepare`, or copies the data that were `made` for it.
    fn prepare(
        &mut self,
        context: &RunContext,
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
            self.findings.extend(place.findings.iter().cloned());
        }
        Ok(Prepared { service, share, setting })
    }

    /// Starts an instance; `None` where it cannot be executed, or another process has its address.
    fn launch(
        &mut self,
        context: &RunContext,
        Prepared { service, share, setting }: Prepared<'a>,
    ) -> Result<Option<Instance<'a>>, Error> {
        let attached = observed::attached(service, &mut || context.interrupt.asked());
        let earlier = self.instances.iter().filter_map(|one| Some((one.share.role.as_str(), one.attached.as_ref()?)));
        let attached = match attached.and_then(|found| observed::of_one(found, earlier)) {
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
    fn wait_until_ready(&mut self, context: &RunContext, number: usize) -> Result<bool, Error> {
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
    fn set_up(&mut self, context: &RunContext, service: &ServiceSpec, first: usize) -> Result<bool, Error> {
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

    /// Runs a command in the place of an instance, while the output of all is read, until one of them ends or the deadline.
    ///
    /// # Errors
    /// Where the user asked to stop. A command that fails is a result.
    fn step(
        &mut self,
        context: &RunContext,
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
    context: &RunContext,
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
