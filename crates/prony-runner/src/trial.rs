//! Runs one trial, whatever its subject, and returns its record: prepare, launch suspended, attach observers, release,
//! watch from boundary to boundary, end the whole tree, conclude.

use std::collections::BTreeMap;
use std::sync::Arc;

use prony_analysis::conclude::conclude;
use prony_analysis::guard;
use prony_boundaries::observation::Observation;
use prony_experiment::expr;
use prony_model::event::Observer;
use prony_model::finding::Finding;
use prony_model::outcome::{Ending, Outcome};
use prony_model::reading::{Reading, Why};
use prony_model::record::effective::{EffectiveServices, EffectiveStore};
use prony_model::record::{Conditions, Effective, EffectiveProgram, TrialRecord};
use prony_model::spec::{PhaseSpec, Subject, TrialSpec};
use prony_model::trial::PlannedTrial;
use prony_model::units::Nanos;
use prony_os::Error::{Directory as NotEntered, Exec as NotExecuted};
use prony_os::clock::{monotonic, unix_ms};
use prony_os::launch::Finished;
use prony_os::runs::Announced;
use prony_runtime::ProbeLine;

use crate::before_after::BeforeAfter;
use crate::error::Error;
use crate::figures;
use crate::figures::readings;
use crate::figures::report::remarks;
use crate::preflight::documents_unchanged;
use crate::record::{effective_settings, ending, probes};
use crate::recorder::Recorder;
use crate::roles::data;
use crate::roles::environment::Environment;
use crate::roles::probe::Probing;
use crate::roles::replicas::{Ground, Replicas};
use crate::roles::services::Services;
use crate::roles::services::allotted::Allotted;
use crate::roles::{MainRole, Prepared};
use crate::run_context::RunContext;
use crate::watch::{Roles, watch};
use crate::watched::Watched;
use crate::watched::report::Report;

/// How often a trial is attempted because a service's port was in use; after the last attempt this is the trial's result.
const PORT_ATTEMPTS: usize = 3;

/// Runs one trial of the plan from launch to clean-up.
///
/// # Errors
/// If the machine refuses what every trial needs, or a step beside a program fails. How a subject ends, even before it
/// began, is an outcome and not an error.
pub fn run(context: &RunContext, trial: &PlannedTrial, observer: &mut dyn Observer) -> Result<TrialRecord, Error> {
    run_with(context, trial, None, observer)
}

/// The same, profiled where there is a recorder.
///
/// # Errors
/// As [`run`].
pub fn run_with(
    context: &RunContext,
    trial: &PlannedTrial,
    mut recorder: Option<&mut Recorder>,
    observer: &mut dyn Observer,
) -> Result<TrialRecord, Error> {
    let spec = &context.experiment.variants()[trial.variant].spec;
    documents_unchanged(spec)?;
    let other_runs = || context.announced.as_ref().map(Announced::other_runs);
    let before = other_runs();
    let mut once = |last| attempt(context, trial, recorder.as_deref_mut(), observer, last);
    let mut attempted = once(false);
    for number in 2..=PORT_ATTEMPTS {
        // Another process took a port between the search for free ones and the begin of the service.
        if matches!(attempted, Err(Error::PortInUse)) {
            attempted = once(number == PORT_ATTEMPTS);
        }
    }
    // A supervisor that was killed before its subject began: nothing was measured, and another takes its place.
    // One that is killed later is an end that says so, or, after an end, a problem: neither comes here.
    if matches!(attempted, Err(Error::Os(prony_os::Error::SupervisorEnded { .. }))) {
        attempted = once(true);
    }
    let mut record = match attempted {
        // A step before the subject did not fail, but was ended with all else.
        Err(Error::Place(prony_place::Error::Step { .. })) if context.interrupt.asked() => interrupted(trial),
        attempted => attempted?,
    };
    documents_unchanged(spec)?;
    let beside = before.zip(other_runs()).filter(|(before, after)| after.any_since(before));
    record.findings.extend(beside.map(|(before, after)| guard::trial::other_run(before.count.max(after.count))));
    let (care, commands) = (context.experiment.observe().care, context.experiment.records_commands());
    let changed = spec.programs().filter_map(|program| context.places.source_changed(program, care, commands));
    add_new(&mut record.findings, changed);
    let is_program = spec.subject.program().is_some();
    guard::program::note_coarse_cpu(&mut record.findings, &expr::named(&context.experiment), is_program);
    Ok(record)
}

/// Adds what is not there: several services may be copies of one directory.
fn add_new(findings: &mut Vec<Finding>, more: impl IntoIterator<Item = Finding>) {
    for found in more {
        if !findings.contains(&found) {
            findings.push(found);
        }
    }
}

fn attempt(
    context: &RunContext,
    trial: &PlannedTrial,
    recorder: Option<&mut Recorder>,
    observer: &mut dyn Observer,
    last: bool,
) -> Result<TrialRecord, Error> {
    let spec = &context.experiment.variants()[trial.variant].spec;
    let program = spec.subject.program();
    let place = |program| context.places.of(context.means(), trial, spec, program, observer);
    let place = program.map(place).transpose()?;
    let of_place = place.as_ref().map(|place| place.findings.clone()).unwrap_or_default();
    let placed = program.zip(place);
    let reusable = recorder.is_none() && placed.as_ref().is_some_and(|(program, place)| place.is_itself(program));
    let environment = Environment::set(context, spec, reusable)?;
    let scratch = environment.scratch().to_path_buf();
    let allotted = Allotted::new(spec, &scratch)?;
    let given = || (scratch.as_path(), allotted.everywhere().collect());
    let program = placed.as_ref().map(|(program, place)| Prepared::new(context, program, place, given(), observer));
    let program = program.transpose()?;
    // It may need the services of the trial.
    let prepare = |stop: &mut dyn FnMut() -> bool, observer: &mut dyn Observer| -> Result<(), Error> {
        let Some((program, (_, place))) = program.as_ref().zip(placed.as_ref()) else { return Ok(()) };
        Ok(place.prepare(context.means(), &program.setting, &spec.limits, stop, observer)?)
    };
    let has_services = !spec.services.is_empty();
    if !has_services {
        prepare(&mut || context.interrupt.asked(), observer)?;
    }
    let mut before_after = BeforeAfter::before(context);
    let mut services = Services::start(context, trial, spec, &allotted, observer)?;
    if has_services {
        services.meanwhile(context, |stop| prepare(stop, observer))?;
        before_after = before_after.with_services(context);
    }
    services.ports(last)?;
    let of_services = std::mem::take(&mut services.findings);
    // Where a service did not get ready, waiting for it was all of the trial.
    let began = services.began();
    let mut record = blank(trial, unix_ms().saturating_sub(monotonic().since(began).as_nanos() / 1_000_000));
    let concluded = if services.fault().is_some() {
        unserved(&mut record, context, spec, program, services, observer)?
    } else {
        let beside = (services, &allotted);
        execute(&mut record, context, spec, (environment, program, beside), recorder, observer)?
    };
    record.took = monotonic().since(began);
    record.conditions.machine = before_after.after(context, spec);
    let remarks = std::mem::take(&mut record.findings);
    record.findings = guard::trial::check(spec, &record, context.clock_cost);
    record.findings.extend(remarks.into_iter().chain(concluded).chain(of_place));
    add_new(&mut record.findings, of_services);
    Ok(record)
}

/// Puts into the record that a service did not get ready, so that nothing else was launched; what its `conclude` found.
fn unserved(
    record: &mut TrialRecord,
    context: &RunContext,
    spec: &TrialSpec,
    program: Option<Prepared<'_>>,
    services: Services<'_>,
    observer: &mut dyn Observer,
) -> Result<Option<Finding>, Error> {
    let commands = context.experiment.records_commands();
    let mut served = services.stop(false)?;
    let concluded = program.as_ref().and_then(|program| program.conclude(context, observer));
    record.phases = spec.phases.iter().map(readings::not_reached).collect();
    record.conditions.killed_at_the_end = served.finished.killed;
    if let Some(fault) = served.fault.take() {
        record.conditions.memory = fault.memory;
        let evidence = fault.evidence.into_iter().chain(served.finished.problems).collect();
        record.ending = Ending { outcome: fault.outcome, evidence, ..record.ending.clone() };
    }
    let services = recorded_services(served.effective, commands);
    record.effective = match (program, &spec.subject) {
        (Some(program), _) => {
            let program = effective_settings::recorded(program.effective, commands);
            Some(Effective::Program(Arc::new(EffectiveProgram { services, ..program })))
        }
        (None, Subject::Services) => {
            let left_behind = BTreeMap::new();
            Some(Effective::Services(Arc::new(EffectiveServices { services, left_behind })))
        }
        // Nothing of a store is known before it is open.
        (None, _) => None,
    };
    Ok(concluded)
}

/// Services for the record.
fn recorded_services(services: Vec<EffectiveProgram>, commands: bool) -> Vec<EffectiveProgram> {
    services.into_iter().map(|service| effective_settings::recorded(service, commands)).collect()
}

/// Launches the main role beside its services, which are ready, watches it to its end, and puts into the record what was observed;
/// what its `conclude` found.
fn execute<'a>(
    record: &mut TrialRecord,
    context: &RunContext,
    spec: &TrialSpec,
    (mut environment, mut program, (services, allotted)): (
        Environment,
        Option<Prepared<'a>>,
        (Services<'a>, &'a Allotted),
    ),
    mut recorder: Option<&mut Recorder>,
    observer: &mut dyn Observer,
) -> Result<Option<Finding>, Error> {
    let (trial, scratch) = (record.trial, environment.scratch().to_path_buf());
    let filled = allotted.fill(spec);
    let MainRole { role, launch, ends, on_disk, probing, mut worker } = match &program {
        Some(program) => program.launch(context, spec, recorder.as_deref())?,
        None => MainRole::of_worker(context, &trial, &filled, &scratch, allotted.on_disk(&scratch, spec))?,
    };
    let (suspended, sampler) = environment.suspend(context, spec, role, on_disk, launch)?;
    services.watch_by(&sampler);
    worker.iter_mut().for_each(|worker| worker.group = environment.group().cloned());
    let (group, by) = (environment.group(), recorder.as_deref());
    let ground = |setting| Ground { context, setting, group, sampler: &sampler, recorder: by };
    let replicas = program.as_ref().map(|program| Replicas::suspend(&ground(&program.setting), &spec.phases));
    let replicas = replicas.transpose()?.unwrap_or_default();
    if let Some(recorder) = recorder.as_deref_mut() {
        recorder.attach(&suspended.pid().into_iter().chain(replicas.pids()).collect::<Vec<_>>());
    }
    let observation = Observation::new(spec, &sampler, probing.commands.clone(), trial.position, observer);
    let roles = Roles { replicas, worker, services };
    let watched = watch(suspended, ends, observation, roles, spec.limits.trial, &context.interrupt);
    let sampled = sampler.finish();
    record.sampler_cpu = sampled.cpu;
    record.findings.extend(guard::trial::samples_thinned(context.experiment.observe().hertz, sampled.stride));
    // Files in the scratch are read before that is cleared with the environment.
    let care = context.experiment.observe().care;
    program.iter_mut().for_each(|program| program.effective.store = data::place(&program.setting, care));
    let concluded = program.as_ref().and_then(|program| program.conclude(context, observer));
    match (watched, program) {
        (Err(Error::Os(error @ (NotExecuted { .. } | NotEntered { .. }))), Some(program)) => {
            not_begun(record, context, spec, (program.effective, &error));
        }
        (watched, program) => {
            let (watched, process) = watched?;
            record.series = sampled.series;
            let heap_aborts = probing.heap_aborts()?;
            let finished = environment.clear(context, process, observer)?;
            recorder.into_iter().for_each(|recorder| recorder.collect(&context.interrupt));
            if let Some(program) = &program {
                program.unambiguous(&spec.phases, &watched.threads)?;
            }
            let left = Left { watched, finished, heap_aborts, probing: &probing };
            conclude_from(record, context, spec, program, left);
        }
    }
    Ok(concluded)
}

/// Puts into the record that a program could not be executed.
fn not_begun(
    record: &mut TrialRecord,
    context: &RunContext,
    spec: &TrialSpec,
    (program, error): (EffectiveProgram, &prony_os::Error),
) {
    let commands = context.experiment.records_commands();
    record.ending = ending::not_begun(error, commands, &program.directory);
    record.phases = spec.phases.iter().map(readings::not_reached).collect();
    record.effective = Some(Effective::Program(Arc::new(effective_settings::recorded(program, commands))));
}

/// The record of a trial of which only the request is known.
fn blank(trial: &PlannedTrial, started_unix_ms: u64) -> TrialRecord {
    TrialRecord {
        trial: *trial,
        started_unix_ms,
        took: Nanos::ZERO,
        ending: Ending { outcome: Outcome::Ok, phase: None, after: Nanos::ZERO, evidence: Vec::new() },
        phases: Vec::new(),
        effective: None,
        conditions: Conditions::default(),
        series: Vec::new(),
        sampler_cpu: Reading::Missing(Why::NotReached),
        findings: Vec::new(),
    }
}

/// A trial whose subject did not begin, since the user had asked to stop.
fn interrupted(trial: &PlannedTrial) -> TrialRecord {
    let mut record = blank(trial, unix_ms());
    record.ending.outcome = Outcome::Interrupted;
    record
}

/// What is left of a trial that began.
struct Left<'a> {
    watched: Watched,
    finished: Finished,
    /// Processes that aborted at their heap's own limit.
    heap_aborts: Vec<ProbeLine>,
    probing: &'a Probing,
}

/// Puts into the record how a trial went: its phases, its end, what ran and under which conditions.
fn conclude_from(
    record: &mut TrialRecord,
    context: &RunContext,
    spec: &TrialSpec,
    program: Option<Prepared<'_>>,
    left: Left<'_>,
) {
    let Left { mut watched, mut finished, mut heap_aborts, probing } = left;
    let commands = context.experiment.records_commands();
    figures::services::set_apart(&mut watched);
    figures::replicas::take_in(&mut watched, spec.subject.role(), &record.series, &mut heap_aborts);
    let of_workers = watched.worker.iter().map(|worker| &worker.finished);
    for beside in [&watched.replicas.finished, &watched.services.finished].into_iter().chain(of_workers) {
        finished.killed += beside.killed;
        finished.problems.extend(beside.problems.iter().cloned());
    }
    let settled = |(at, phase): (usize, _)| (phase, watched.settled.get(&at).map(|settled| &settled.result));
    let ending = ending::judge(spec, &watched, &finished, &heap_aborts);
    let observed = figures::observed(&spec.phases, &watched, &record.series, &probing.silent());
    let observed = figures::written::checked(observed, &watched, || context.write_unit().clone());
    let observed = figures::counted::without_reads_of_documents(observed, spec);
    (record.ending, record.phases) =
        conclude(&spec.phases, context.experiment.compare().stated_errors(), ending, observed);
    record.conditions = Conditions {
        executed_after: program.is_some().then(|| watched.executed.since(watched.released)),
        killed_at_the_end: finished.killed,
        settled: readings::watched(spec.phases.iter().enumerate().map(settled)),
        probe: probing.is_there().then(|| probes::probe(&spec.phases, &watched, &heap_aborts, commands)),
        // The fault of a service that is not the outcome is none.
        memory: match &watched.services.fault {
            Some(fault) if !record.ending.outcome.is_ok() => fault.memory.clone(),
            // The load generator's is not that of the services.
            _ => (!watched.services.are_measured).then(|| watched.ended.memory.clone()),
        },
        ..Conditions::default()
    };
    record.findings =
        watched.worker.iter().flat_map(|worker| remarks(&context.near, record, &watched, worker)).collect();
    record.findings.extend(guard::trial::prony_stopped(watched.paused));
    // A service that made the trial fail is in its outcome.
    let incomplete = watched.services.incomplete.iter().filter(|_| record.ending.outcome.is_ok());
    record.findings.extend(incomplete.cloned().map(guard::trial::service_failed_at_end));
    let mount = context.host.file_system.measured();
    record.findings.extend(mount.and_then(|mount| guard::trial::store_in_memory(mount, record)));
    let served = std::mem::take(&mut watched.services.effective);
    let services = || recorded_services(served, commands);
    record.effective = match program {
        Some(Prepared { setting, mut effective }) => {
            effective.calls = probes::calls(&spec.phases, &watched, &probing.silent());
            let program = effective_settings::of_program(&setting, effective, spec, &watched, commands);
            Some(Effective::Program(Arc::new(EffectiveProgram { services: services(), ..program })))
        }
        None if spec.subject == Subject::Services => {
            let left_behind =
                watched.worker.as_ref().map(|worker| left_behind(&spec.phases, worker)).unwrap_or_default();
            let all = EffectiveServices { services: services(), left_behind };
            let is_known = !all.services.is_empty() || !all.left_behind.is_empty();
            is_known.then(|| Effective::Services(Arc::new(all)))
        }
        None => watched
            .worker
            .as_mut()
            .and_then(|worker| worker.effective.take())
            .map(|store| Effective::Store(Arc::new(EffectiveStore { services: services(), ..*store }))),
    };
    let flooded = watched.floods.iter().filter_map(|flood| guard::program::flooded(record, flood));
    let flooded: Vec<Finding> = flooded.collect();
    record.findings.extend(flooded);
}

/// Processes that the commands of phases left running, by the phase's name.
fn left_behind(phases: &[PhaseSpec], worker: &Report) -> BTreeMap<String, u64> {
    let commands = worker.commands.iter().filter(|(_, command)| command.end.leftover > 0);
    commands.map(|(index, command)| (phases[*index].name.clone(), command.end.leftover)).collect()
}

/// What is done once when a session of a run ends, also where the user asked to stop: asking again ends it too.
///
/// # Errors
/// Where a program's `cleanup` fails.
pub fn clean_up(context: &RunContext, observer: &mut dyn Observer) -> Result<(), Error> {
    let program = |variant: usize, name: &str| {
        context.experiment.variants().get(variant)?.spec.programs().find(|program| program.name == name)
    };
    Ok(context.places.clean_up(context.means(), program, observer)?)
}
