//! A process of a trial beside its main one: a replica of a program, a further worker on a store, or the command of a phase.

use std::path::{Path, PathBuf};
use std::time::Duration;

use prony_model::program::replica_instance;
use prony_os::Error;
use prony_os::Error::{Directory as NotEntered, Exec as NotExecuted};
use prony_os::launch::{Finished, Launch, LaunchSpec, Process, Started};
use prony_os::limits::Group;
use prony_os::sample::{Root, Sampler, Tracepoints};
use prony_place::launch_setting::why_not_executed;

/// Such a process.
pub(crate) struct Beside {
    pub(super) role: String,
    pub(super) process: Box<dyn Process>,
    /// The directory of its control group, where it has one of its own.
    pub(super) group: Option<PathBuf>,
    /// Its number, once it is sampled.
    pub(super) sampled: Option<u32>,
}

impl Beside {
    /// Has one made and suspended.
    ///
    /// # Errors
    /// Where it cannot be prepared.
    pub(super) fn suspend(
        role: String,
        launch: LaunchSpec,
        (launcher, tracepoints): (&dyn Launch, &Tracepoints),
        sampler: &Sampler,
    ) -> Result<Self, Error> {
        let own = launch.group.as_ref().and_then(|group| Some(group.directories().first()?.to_path_buf()));
        let process = launcher.start(launch)?;
        if let Some(pid) = process.suspended() {
            sampler.count_syncs(&role, tracepoints.follow(pid));
        }
        Ok(Self { role, process, group: own, sampled: None })
    }

    /// Has replica `number` made and suspended, in the control group of the main process, where that has one: it ends no later.
    ///
    /// # Errors
    /// Where it cannot be prepared.
    pub(super) fn suspend_replica(
        number: u32,
        mut launch: LaunchSpec,
        means: (&dyn Launch, &Tracepoints),
        group: Option<&Group>,
        sampler: &Sampler,
    ) -> Result<Self, Error> {
        // The main process's supervisor removes what all of them lie in, and the group.
        launch.scratch.clear();
        launch.beside = group.cloned();
        Self::suspend(replica_instance(number), launch, means, sampler)
    }

    /// What is known of it once it was released; it is sampled from here on.
    ///
    /// # Errors
    /// Where it cannot be executed, or its supervisor has ended.
    pub(super) fn begin(&mut self, sampler: &Sampler) -> Result<Started, Error> {
        let started = self.process.started(&[])?;
        // Not before it executes its own program: a suspended process shares the spawner's memory. Nor after its end, such
        // as a kill while it was suspended: its pid may be reused by now.
        if self.process.wait(Some(Duration::ZERO))?.is_none() {
            let (group, supervisor) = (self.group.take(), self.process.supervisor());
            sampler.watch(Root { group, supervisor, ..Root::subject(started.pid, &self.role) });
            self.sampled = Some(started.pid);
        }
        Ok(started)
    }

    /// Ends what is left of its tree, which messages call `name`; what that took is added to `finished`.
    ///
    /// # Errors
    /// Where its supervisor cannot be understood.
    pub(super) fn finish(self, name: &str, finished: &mut Finished, sampler: &Sampler) -> Result<(), Error> {
        // Before its supervisor can serve others.
        self.sampled.into_iter().for_each(|pid| sampler.unwatch(pid));
        let (Finished { killed, problems }, _) = self.process.finish()?;
        finished.killed += killed;
        finished.problems.extend(problems.into_iter().map(|problem| format!("{name}: {problem}")));
        Ok(())
    }
}

/// What is known of a released process, or why it could not be executed in its `directory`, which is a result of the trial; without its
/// command unless `commands` are recorded.
///
/// # Errors
/// All others.
pub(super) fn executed(
    started: Result<Started, Error>,
    commands: bool,
    directory: Option<&Path>,
) -> Result<Result<Started, String>, Error> {
    match started {
        Err(error @ (NotExecuted { .. } | NotEntered { .. })) => Ok(Err(why_not_executed(&error, commands, directory))),
        started => started.map(Ok),
    }
}
