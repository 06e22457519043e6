//! A process of a trial beside its main one: a replica of a program, or a further worker on a store.

use std::time::Duration;

use prony_model::program::replica_instance;
use prony_os::Error;
use prony_os::launch::{Finished, Launch, LaunchSpec, Process, Started};
use prony_os::limits::Group;
use prony_os::sample::{Root, Sampler, Tracepoints};

/// Such a process: it belongs to the main one's group, and ends no later.
pub(crate) struct Beside {
    pub(super) role: String,
    pub(super) process: Box<dyn Process>,
    /// Its number, once it is sampled.
    pub(super) sampled: Option<u32>,
}

impl Beside {
    /// Has replica `number` made and suspended, in the control group of the main process, where that has one.
    ///
    /// # Errors
    /// Where it cannot be prepared.
    pub(crate) fn suspend(
        number: u32,
        mut launch: LaunchSpec,
        (launcher, tracepoints): (&dyn Launch, &Tracepoints),
        group: Option<&Group>,
        sampler: &Sampler,
    ) -> Result<Self, Error> {
        // The main process's supervisor removes what all of them lie in, and the group.
        launch.scratch.clear();
        launch.beside = group.cloned();
        let (role, process) = (replica_instance(number), launcher.start(launch)?);
        if let Some(pid) = process.suspended() {
            sampler.count_syncs(&role, tracepoints.follow(pid));
        }
        Ok(Self { role, process, sampled: None })
    }

    /// What is known of it once it was released; it is sampled from here on.
    ///
    /// # Errors
    /// Where it cannot be executed, or its supervisor has ended.
    pub(crate) fn begin(&mut self, sampler: &Sampler) -> Result<Started, Error> {
        let started = self.process.started(&[])?;
        // Not before it executes its own program: a suspended process shares the spawner's memory. Nor after its end, such
        // as a kill while it was suspended: its pid may be reused by now.
        if self.process.wait(Some(Duration::ZERO))?.is_none() {
            let supervisor = self.process.supervisor();
            sampler.watch(Root { supervisor, ..Root::subject(started.pid, &self.role) });
            self.sampled = Some(started.pid);
        }
        Ok(started)
    }

    /// Ends what is left of its tree; what that took is added to `finished`.
    ///
    /// # Errors
    /// Where its supervisor cannot be understood.
    pub(crate) fn finish(self, finished: &mut Finished, sampler: &Sampler) -> Result<(), Error> {
        // Before its supervisor can serve others.
        self.sampled.into_iter().for_each(|pid| sampler.unwatch(pid));
        let (Finished { killed, problems }, _) = self.process.finish()?;
        finished.killed += killed;
        finished.problems.extend(problems.into_iter().map(|problem| format!("`{}`: {problem}", self.role)));
        Ok(())
    }
}
