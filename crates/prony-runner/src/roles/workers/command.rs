//! A command that runs as a phase beside services: somebody else's loader or client. It is launched as a program is, with a
//! supervisor and a control group of its own, so that the processes that it starts are counted whoever their parent is, and those
//! that it leaves running are ended with the phase.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use prony_model::program::BASE_ENV;
use prony_model::spec::{Action, Limits, RunSpec};
use prony_model::units::Nanos;
use prony_os::launch::classify::{Evidence, classify};
use prony_os::launch::{End, Finished, Launch, LaunchSpec, Started, last_lines};
use prony_os::limits::Group;
use prony_os::sample::{Sampler, Tracepoints};

use crate::error::Error;
use crate::roles::beside::{Beside, executed};
use crate::watched::report::{COMMAND, Commanded, Fault};

/// Such a command, launched.
pub(super) struct Command {
    beside: Beside,
    started: Started,
    /// Whether its words may be recorded.
    recorded: bool,
}

/// Launches the command of a phase, suspended.
pub(super) type Commands<'a> = Box<dyn Fn(&RunSpec, &Sampler) -> Result<Command, Error> + 'a>;

/// The command that a phase runs.
pub(super) const fn of(action: &Action) -> Option<&RunSpec> {
    if let Action::Run(run) = action { Some(run) } else { None }
}

impl Command {
    /// Has it made and suspended. It reads nothing, and has the variables that programs have without `env` and `inherit`.
    ///
    /// # Errors
    /// Where it cannot be prepared.
    pub(super) fn suspend(
        run: &RunSpec,
        limits: &Limits,
        means: (&dyn Launch, &Tracepoints),
        recorded: bool,
        sampler: &Sampler,
    ) -> Result<Self, Error> {
        let mut words = run.command.words().into_iter().map(Into::into);
        let mut launch = LaunchSpec::new(words.next().unwrap_or_default(), &run.directory);
        launch.args = words.collect();
        let variable = |name: &str| Some((name.into(), std::env::var_os(name)?));
        launch.env = BASE_ENV.into_iter().filter_map(variable).collect();
        let group = Group::create(limits)?;
        launch.group = Some(group.clone());
        let beside = Beside::suspend(COMMAND.to_owned(), launch, means, sampler)?;
        group.counting().into_iter().for_each(|directory| sampler.count_group(COMMAND, directory));
        Ok(Self { beside, started: Started::default(), recorded })
    }

    /// Lets it begin: when it did, or why it did not.
    pub(super) fn begin(&mut self, sampler: &Sampler) -> Result<Nanos, Fault> {
        let begun = self.beside.process.release().and_then(|()| self.beside.begin(sampler));
        let begun = executed(begun, self.recorded, None).unwrap_or_else(|error| Err(error.to_string()));
        self.started = begun.map_err(Fault::of_command)?;
        Ok(self.started.released)
    }

    /// What to wait for.
    pub(super) fn source(&self) -> BorrowedFd<'_> {
        self.beside.process.as_fd()
    }

    /// How its own process ended, once that has. Its control group is there still, with what it left running.
    ///
    /// # Errors
    /// Where its supervisor has ended.
    pub(super) fn ended(&mut self) -> Result<Option<Commanded>, prony_os::Error> {
        let Some(end) = self.beside.process.wait(Some(Duration::ZERO))? else { return Ok(None) };
        let Started { released, before, .. } = self.started;
        Ok(Some(Commanded { released, before, end: Box::new(end) }))
    }

    /// Ends what is left of its tree: it would go on in the phases after this one, and be in none of their metrics.
    pub(super) fn finish(self, finished: &mut Finished, sampler: &Sampler) {
        sampler.discount_group(COMMAND);
        if let Err(error) = self.beside.finish("the command", finished, sampler) {
            finished.problems.push(format!("the command: {error}"));
        }
    }
}

/// Why the trial failed where a command did not end well.
pub(super) fn fault(end: &End) -> Option<Fault> {
    let (outcome, shown) = classify(&Evidence::of(end, None));
    let said = [&end.stdout, &end.stderr].map(|captured| captured.clone().unwrap_or_default());
    let shown = shown.into_iter().chain(last_lines(&said)).map(|text| format!("the command: {text}"));
    (!outcome.is_ok()).then(|| Fault::Command { outcome, evidence: shown.collect() })
}
