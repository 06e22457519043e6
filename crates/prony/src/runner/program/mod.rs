//! A trial of a program: launched held, observed, released, read along, and ended with its whole tree.

pub mod calls;
pub mod ending;
pub mod environment;
pub mod figures;
pub mod functions;
pub mod heaps;
pub mod held;
pub mod holds;
pub mod limits;
pub mod marks;
pub mod others;
mod peak;
pub mod probe;
pub mod replicas;
pub mod seen;
pub mod settling;
pub mod span;
pub mod store;
pub mod stream;
pub mod suspension;
pub mod threads;
pub mod told;
pub mod tracked;
pub mod tracker;
pub mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use prony_analysis::conclude::conclude;
use prony_analysis::guard;
use prony_model::outcome::{Ending, Outcome};
use prony_model::program::{CommandLine, ProgramSpec};
use prony_model::reading::{Reading, Why};
use prony_model::record::{Conditions, Effective, EffectiveProgram, ProcessSeries, TrialRecord};
use prony_model::spec::{PhaseSpec, TrialSpec};
use prony_model::trial::PlannedTrial;
use prony_model::units::Nanos;
use prony_os::Error::{Directory as NotEntered, Exec as NotExecuted};
use prony_os::clock::monotonic;
use prony_os::launch::Finished;
use prony_runtime::ProbeLine;

use super::assemble;
use super::before_after::BeforeAfter;
use super::lab::Lab;
use super::observer::Observer;
use super::place::setting::Setting;
use super::place::{self, Place, named};
use super::recorder::Recorder;
use super::unix_ms;
use crate::error::Error;
use environment::Environment;
use probe::Probing;
use replicas::along::{Ground, Replicas};
use seen::Seen;
use threads::Threads;
use watch::Watched;

/// Runs one trial from launch to clean-up.
///
/// # Errors
/// Where the machine refuses what every trial needs, or what is done beside the program fails; how a program ends, also
/// before it began, is an outcome.
pub fn run(
    lab: &Lab<'_>,
    trial: &PlannedTrial,
    spec: &TrialSpec,
    program: &ProgramSpec,
    mut recorder: Option<&mut Recorder>,
    observer: &mut dyn Observer,
) -> Result<TrialRecord, Error> {
    match attempt(lab, trial, spec, program, recorder.as_deref_mut(), observer) {
        // A supervisor that was killed before the program began: nothing was measured, and another takes its place.
        // One that is killed later is an end that says so, or, after an end, a problem: neither comes here.
        Err(Error::Probe(prony_os::Error::SupervisorGone { .. })) => {
            attempt(lab, trial, spec, program, recorder, observer)
        }
        attempted => attempted,
    }
}

fn attempt(
    lab: &Lab<'_>,
    trial: &PlannedTrial,
    spec: &TrialSpec,
    program: &ProgramSpec,
    mut recorder: Option<&mut Recorder>,
    observer: &mut dyn Observer,
) -> Result<TrialRecord, Error> {
    let means = lab.means();
    let place = lab.places.of(means, trial.variant, spec, program, observer)?;
    let mut stage = Environment::set(lab, spec, program, &place, recorder.is_some())?;
    let scratch = stage.scratch().to_path_buf();
    let directory = place.directory(program, &scratch)?;
    let setting = Setting::new(program, &scratch, directory);
    if let Some(prepare) = &program.prepare {
        place::step(means, &setting, "prepare", prepare)?;
    }
    let around = BeforeAfter::before(lab);
    let (began, started_unix_ms) = (monotonic(), unix_ms());
    let (mut launch, ends) = setting.launch()?;
    if let Some(recorder) = &recorder {
        recorder.environment(&mut launch.env)?;
    }
    let probing = probe::install(&mut launch, program, &spec.phases, &scratch)?;
    let (release, sampler) = stage.hold(lab, spec, &setting, launch)?;
    let recording = recorder.as_deref();
    let ground = Ground { lab, setting: &setting, group: stage.group(), sampler: &sampler, recorder: recording };
    let replicas = Replicas::hold(&ground, &spec.phases)?;
    if let Some(recorder) = recorder.as_deref_mut() {
        recorder.attach(&stage.held().into_iter().chain(replicas.pids()).collect::<Vec<_>>());
    }
    let seen = Seen::new(spec, &sampler, &probing, trial.position, observer);
    let watched = watch::watch(release, ends, seen, replicas, spec.limits.trial, &lab.interrupt);
    let sampled = sampler.finish();
    let mut record = blank(trial);
    let mut effective = declared(&setting, &place, lab.experiment.records_commands());
    effective.store = store::place(&setting, lab.experiment.observe().care);
    (record.started_unix_ms, record.sampler_cpu) = (started_unix_ms, sampled.cpu);
    record.conditions = match watched {
        Err(Error::Probe(error @ (NotExecuted { .. } | NotEntered { .. }))) => {
            record.ending = ending::not_begun(&error, lab.experiment.records_commands());
            record.phases = spec.phases.iter().map(assemble::not_reached).collect();
            Conditions::default()
        }
        watched => {
            let (watched, running) = watched?;
            record.series = sampled.series;
            // They lie in the scratch, which is cleared with the stage.
            let deaths = probing.deaths()?;
            let executable = running.executable().map(Path::to_path_buf);
            let finished = stage.clear(lab, running)?;
            if let Some(recorder) = recorder {
                recorder.collect();
            }
            unambiguous(program, &spec.phases, &watched.threads, &setting.directory)?;
            let left = Left { watched, executable, finished, deaths, probing: &probing };
            fill(&mut record, &mut effective, lab, spec, &setting, left)
        }
    };
    record.took = monotonic().since(began);
    record.conditions.machine = around.after(lab);
    record.effective = Some(Effective::Program(Box::new(effective)));
    record.findings = guard::trial::check(spec, &record, lab.clock_cost);
    Ok(record)
}

/// The record of a trial of which nothing is known but what was asked to run.
fn blank(trial: &PlannedTrial) -> TrialRecord {
    TrialRecord {
        trial: *trial,
        started_unix_ms: 0,
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

/// What is left of a trial that began.
struct Left<'a> {
    watched: Watched,
    /// The file that was executed, where that is known.
    executable: Option<PathBuf>,
    finished: Finished,
    /// Processes that died by their heap's own limit.
    deaths: Vec<ProbeLine>,
    probing: &'a Probing,
}

/// Puts into the record how a trial went, and returns what was seen beside it.
fn fill(
    record: &mut TrialRecord,
    effective: &mut EffectiveProgram,
    lab: &Lab<'_>,
    spec: &TrialSpec,
    setting: &Setting<'_>,
    left: Left<'_>,
) -> Conditions {
    let Left { mut watched, executable, mut finished, mut deaths, probing } = left;
    let (program, commands) = (setting.program, lab.experiment.records_commands());
    let executable = executable.filter(|_| commands);
    effective.executable = executable.map(|path| path.to_string_lossy().into_owned());
    watched.threads.finish(watched.ended.at, &deaths, &last_seen(&record.series));
    take_in(&mut watched, &program.name, &record.series, &mut deaths);
    finished.killed += watched.replicas.finished.killed;
    finished.problems.extend(watched.replicas.finished.problems.iter().cloned());
    describe(effective, spec, &watched, probing);
    effective.replicas = replicas::told::report(setting, &watched.replicas, commands);
    let settled = |(at, phase): (usize, _)| (phase, watched.settled.get(&at).map(|settled| &settled.result));
    let ending = ending::judge(program, &spec.phases, &watched, &finished, &deaths);
    let observed = figures::observed(&spec.phases, &watched, &record.series, &probing.silent());
    (record.ending, record.phases) = conclude(&spec.phases, lab.experiment.compare().errors, ending, observed);
    Conditions {
        executed_after: Some(watched.executed.since(watched.released)),
        killed_at_the_end: finished.killed,
        settled: assemble::watched(spec.phases.iter().enumerate().map(settled)),
        probe: told::probe(&spec.phases, &watched, probing, &deaths, commands),
        memory: Some(watched.ended.memory),
        ..Conditions::default()
    }
}

/// A call that fitted functions of several files: none of them is the one that was meant, and no figure is that call's.
fn unambiguous(program: &ProgramSpec, phases: &[PhaseSpec], threads: &Threads, directory: &Path) -> Result<(), Error> {
    let Some((id, files)) = threads.ambiguous() else { return Ok(()) };
    let all = phases.iter().flat_map(|phase| functions::parts(phase).into_iter().map(move |part| (phase, part)));
    let called = all.into_iter().find(|(phase, (part, _))| functions::id(&phase.name, *part) == id);
    let (phase, call) = called.map_or((id, ""), |(phase, (_, call))| (phase.name.as_str(), call));
    let files: BTreeSet<PathBuf> = files.iter().map(PathBuf::from).collect();
    Err(named::ambiguous(program, phase, call, &files, directory))
}

/// When each process was sampled last.
fn last_seen(series: &[ProcessSeries]) -> BTreeMap<u32, Nanos> {
    series.iter().filter_map(|process| Some((process.pid, process.samples.last()?.at))).collect()
}

/// Takes what was seen of replicas into what was seen of the program: their heaps, and deaths by a heap's limit.
fn take_in(watched: &mut Watched, program: &str, series: &[ProcessSeries], deaths: &mut Vec<ProbeLine>) {
    let seen = last_seen(series);
    replicas::figures::leave_out(&mut watched.edges, program, &watched.replicas.all);
    for ran in &mut watched.replicas.all {
        let Some(at) = ran.end().map(|end| end.at) else { continue };
        ran.threads.finish(at, &ran.deaths, &seen);
        // Where the program's own probe is silent, sums of the others' would pass for those of all.
        if !watched.threads.all().is_empty() {
            watched.threads.join(&ran.threads);
        }
        deaths.extend(ran.deaths.iter().cloned());
    }
}

/// What was asked to run; command lines and values of variables only where `commands` are recorded.
fn declared(setting: &Setting<'_>, place: &Place, commands: bool) -> EffectiveProgram {
    let program = setting.program;
    let variable = |(name, value): (&String, &String)| (name.clone(), setting.recorded(value, commands));
    EffectiveProgram {
        program: program.name.clone(),
        command: setting.recorded_words(&program.command, commands),
        shell: matches!(program.command, CommandLine::Shell { .. }),
        directory: setting.directory.clone(),
        copy: program.copy,
        changes: place.changed.clone(),
        source: place.source.clone(),
        env: program.env.iter().map(variable).collect(),
        inherit: program.inherit.clone(),
        runtime: program.runtime,
        pty: program.pty,
        ..EffectiveProgram::default()
    }
}

/// Adds what else was seen of the program, and what it left behind.
fn describe(effective: &mut EffectiveProgram, spec: &TrialSpec, watched: &Watched, probing: &Probing) {
    let replicas = spec.subject.program().and_then(|program| program.replicas.as_ref());
    let unheard = spec.phases.iter().zip(&watched.tracker.phases);
    let unheard = unheard.enumerate().filter(|(index, (_, phase))| {
        // Replicas without a pattern of their own may be those who tell it.
        let theirs = watched.replicas.phase == *index && replicas.is_some_and(|replicas| replicas.read.is_none());
        let heard = theirs && watched.replicas.all.iter().any(|ran| !ran.lines.heard_nothing());
        phase.ended.is_some() && phase.heard_nothing() && !heard
    });
    let unheard = unheard.map(|(_, phase)| phase);
    effective.heard_nothing = unheard.map(|(phase, _)| phase.name.clone()).collect();
    let ambiguous = spec.phases.iter().zip(&watched.tracker.phases).filter(|(_, phase)| phase.ambiguous);
    effective.read_by_several = ambiguous.map(|(phase, _)| phase.name.clone()).collect();
    effective.status = Some(watched.ended.status);
    effective.output = (&watched.output).into();
    effective.left_behind = watched.ended.leftover;
    effective.strange_marks.clone_from(&watched.tracker.strange);
    effective.strange_marks_in_all = watched.tracker.strangers;
    effective.calls = told::calls(&spec.phases, watched, &probing.silent());
    if let Some(store) = &mut effective.store {
        store::describe(store, &watched.edges, watched.looks);
    }
}
