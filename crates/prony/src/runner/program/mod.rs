//! The roles of a trial, how they are launched, and what is seen of them from boundary to boundary.

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
pub mod report;
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
pub mod worker;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use prony_model::program::{CommandLine, ProgramSpec};
use prony_model::record::{Effective, EffectiveProgram};
use prony_model::spec::{PhaseSpec, TrialSpec};
use prony_os::launch::LaunchSpec;
use prony_os::sample::Sampler;

use super::lab::Lab;
use super::place::setting::{Ends, Setting};
use super::place::{self, Place, named};
use super::recorder::Recorder;
use crate::error::Error;
use environment::Environment;
use probe::Probing;
use replicas::along::{Ground, Replicas};
use store::OnDisk;
use threads::Threads;
use watch::Watched;
use worker::Worker;

/// How the main role of a trial is launched and observed.
pub struct Launch<'a> {
    /// The role of its processes.
    pub role: &'a str,
    /// What is executed, where, and with what.
    pub launch: LaunchSpec,
    /// The runner's ends of its streams.
    pub ends: Ends,
    /// What is read of its data.
    pub on_disk: OnDisk,
    /// The probe of its runtime.
    pub probing: Probing,
    /// The worker that the runner leads, where it is one.
    pub worker: Option<Worker<'a>>,
}

/// A program in its place, ready to be launched.
pub struct Prepared<'a> {
    setting: Setting<'a>,
    effective: EffectiveProgram,
}

impl<'a> Prepared<'a> {
    /// Makes what it works in for this trial, and runs its `prepare`.
    ///
    /// # Errors
    /// Where its copy cannot be made, or `prepare` fails.
    pub fn new(lab: &Lab<'_>, program: &'a ProgramSpec, place: &Place, scratch: &'a Path) -> Result<Self, Error> {
        let directory = place.directory(program, scratch)?;
        let setting = Setting::new(program, scratch, directory);
        if let Some(prepare) = &program.prepare {
            place::step(lab.means(), &setting, "prepare", prepare)?;
        }
        let effective = declared(&setting, place, lab.experiment.records_commands());
        Ok(Self { setting, effective })
    }

    /// Its launch.
    ///
    /// # Errors
    /// Where a pipe, a terminal or a file that it needs cannot be made or opened.
    pub fn launch(&self, lab: &Lab<'_>, spec: &TrialSpec, recorder: Option<&Recorder>) -> Result<Launch<'_>, Error> {
        let program = self.setting.program;
        let (mut launch, ends) = self.setting.launch()?;
        if let Some(recorder) = recorder {
            recorder.environment(&mut launch.env)?;
        }
        let probing = probe::install(&mut launch, program, &spec.phases, self.setting.scratch)?;
        let on_disk = OnDisk::of(&self.setting, lab.experiment.observe().care);
        Ok(Launch { role: &program.name, launch, ends, on_disk, probing, worker: None })
    }

    /// Its replicas, suspended.
    ///
    /// # Errors
    /// Where one cannot be prepared, or the machine refuses what observes it.
    pub fn replicas(
        &self,
        lab: &Lab<'_>,
        spec: &TrialSpec,
        environment: &Environment,
        sampler: &Sampler,
        recorder: Option<&Recorder>,
    ) -> Result<Replicas, Error> {
        let ground = Ground { lab, setting: &self.setting, group: environment.group(), sampler, recorder };
        Replicas::hold(&ground, &spec.phases)
    }

    /// A call that fitted functions of several files: none of them is the one that was meant, and no figure is that call's.
    ///
    /// # Errors
    /// Where there is such a call.
    pub fn unambiguous(&self, phases: &[PhaseSpec], threads: &Threads) -> Result<(), Error> {
        let Some((id, files)) = threads.ambiguous() else { return Ok(()) };
        let all = phases.iter().flat_map(|phase| functions::parts(phase).into_iter().map(move |part| (phase, part)));
        let called = all.into_iter().find(|(phase, (part, _))| functions::id(&phase.name, *part) == id);
        let (phase, call) = called.map_or((id, ""), |(phase, (_, call))| (phase.name.as_str(), call));
        let files: BTreeSet<PathBuf> = files.iter().map(PathBuf::from).collect();
        Err(named::ambiguous(self.setting.program, phase, call, &files, &self.setting.directory))
    }

    /// Finds where its data lie, while the trial's scratch is there.
    pub fn find_data(&mut self, lab: &Lab<'_>) {
        self.effective.store = store::place(&self.setting, lab.experiment.observe().care);
    }

    /// Adds what else was seen of the program, and what it left behind. Command lines stand there only where `commands` are
    /// recorded.
    pub fn describe(&mut self, spec: &TrialSpec, watched: &Watched, probing: &Probing, commands: bool) {
        let executable = watched.executable.as_ref().filter(|_| commands);
        self.effective.executable = executable.map(|path| path.to_string_lossy().into_owned());
        describe(&mut self.effective, spec, watched, probing);
        self.effective.replicas = replicas::told::report(&self.setting, &watched.replicas, commands);
    }

    /// What is recorded of it.
    pub fn effective(self) -> Effective {
        Effective::Program(Box::new(self.effective))
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
