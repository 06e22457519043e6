//! The roles (observed process trees) of a trial: a store's worker, a program, its replicas, services and the load generator.
//! How each is launched.

mod beside;
pub(crate) mod data;
mod declared;
pub(crate) mod environment;
pub(crate) mod probe;
pub(crate) mod replicas;
pub(crate) mod services;
pub(crate) mod workers;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use prony_analysis::guard;
use prony_boundaries::functions;
use prony_boundaries::probe_reports::Threads;
use prony_model::event::Observer;
use prony_model::finding::Finding;
use prony_model::program::ProgramSpec;
use prony_model::record::EffectiveProgram;
use prony_model::spec::{PhaseSpec, TrialSpec};
use prony_model::trial::PlannedTrial;
use prony_os::launch::LaunchSpec;
use prony_place::call_matches;
use prony_place::launch_setting::{Ends, Setting};
use prony_place::place::{self, Place, progress};

use crate::error::Error;
use crate::recorder::Recorder;
use crate::run_context::RunContext;
use data::OnDisk;
use declared::declared;
use probe::Probing;
use workers::Workers;

/// How the main role of a trial is launched and observed.
pub(crate) struct MainRole<'a> {
    /// The role of its processes.
    pub role: &'a str,
    /// What is executed, where, and with which environment.
    pub launch: LaunchSpec,
    /// The runner's ends of its streams.
    pub ends: Ends,
    /// How its data are read.
    pub on_disk: OnDisk,
    /// The probe of its runtime.
    pub probing: Probing,
    /// The worker that the runner leads, where it is one.
    pub worker: Option<Workers<'a>>,
}

impl<'a> MainRole<'a> {
    /// A worker whose store is made in `directory`, or the load generator of services.
    ///
    /// # Errors
    /// Where no socket can be made.
    pub(crate) fn of_worker(
        context: &'a RunContext,
        trial: &PlannedTrial,
        spec: &'a TrialSpec,
        directory: &'a Path,
        on_disk: OnDisk,
    ) -> Result<Self, Error> {
        let (launch, worker) = Workers::prepare(context, trial, spec, directory)?;
        let (ends, probing) = (Ends::default(), Probing::default());
        Ok(Self { role: spec.subject.role(), launch, ends, on_disk, probing, worker: Some(worker) })
    }
}

/// A program in its place, ready to be launched.
pub(crate) struct Prepared<'a> {
    /// Its directory, input and environment.
    pub setting: Setting<'a>,
    /// What is recorded of it.
    pub effective: EffectiveProgram,
}

impl<'a> Prepared<'a> {
    /// Makes what it works in for this trial; `values` stand for placeholders in its texts.
    ///
    /// # Errors
    /// Where its copy cannot be made.
    pub(crate) fn new(
        context: &RunContext,
        program: &'a ProgramSpec,
        place: &Place,
        (scratch, values): (&'a Path, Vec<(String, OsString)>),
        observer: &mut dyn Observer,
    ) -> Result<Self, Error> {
        let directory = place.directory(program, scratch, &mut progress(context.means(), program, observer))?;
        let setting = Setting { values, ..Setting::new(program, scratch, directory) };
        // Read before `prepare`, which may evict from memory what is read.
        let effective = declared(&context.files, &setting, place, context.experiment.records_commands());
        Ok(Self { setting, effective })
    }

    /// Its launch.
    ///
    /// # Errors
    /// Where a pipe, a terminal or a file that it needs cannot be made or opened.
    pub(crate) fn launch(
        &self,
        context: &RunContext,
        spec: &TrialSpec,
        recorder: Option<&Recorder>,
    ) -> Result<MainRole<'_>, Error> {
        let program = self.setting.program;
        let (mut launch, ends) = self.setting.launch()?;
        if let Some(recorder) = recorder {
            recorder.environment(&mut launch.env)?;
        }
        let probing = probe::install(&mut launch, program, &spec.phases, self.setting.scratch)?;
        let on_disk = OnDisk::of(&self.setting, context.experiment.observe().care);
        Ok(MainRole { role: &program.name, launch, ends, on_disk, probing, worker: None })
    }

    /// Refuses a `call` that matched functions of several files: which of them was meant is not known.
    ///
    /// # Errors
    /// Where there is such a call.
    pub(crate) fn unambiguous(&self, phases: &[PhaseSpec], threads: &Threads) -> Result<(), Error> {
        let Some((id, files)) = threads.ambiguous() else { return Ok(()) };
        let all = phases.iter().flat_map(|phase| functions::parts(phase).into_iter().map(move |part| (phase, part)));
        let called = all.into_iter().find(|(phase, (part, _))| functions::id(&phase.name, *part) == id);
        let (phase, call) = called.map_or((id, ""), |(phase, (_, call))| (phase.name.as_str(), call));
        let files: BTreeSet<PathBuf> = files.iter().map(PathBuf::from).collect();
        Err(call_matches::ambiguous(self.setting.program, phase, call, &files, &self.setting.directory).into())
    }

    /// Does its `conclude`, which may end what the program left running; what is found where that fails, since the trial is
    /// what it is. It is done also where the user asked to stop: asking again ends it too.
    pub(crate) fn conclude(&self, context: &RunContext, observer: &mut dyn Observer) -> Option<Finding> {
        let conclude = self.setting.program.conclude.as_ref()?;
        let done = place::finally(context.means(), &self.setting, "conclude", conclude, observer);
        done.err().map(|error| guard::trial::conclude_failed(error.to_string()))
    }
}
