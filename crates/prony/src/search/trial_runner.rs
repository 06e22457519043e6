//! Runs the trials of a search one at a time and records each when it ends. A resumed search replays the trials that an
//! earlier session recorded.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use prony_experiment::design::Experiment;
use prony_experiment::plan::lone_block;
use prony_model::event::{Event, Observer};
use prony_model::number::count;
use prony_model::program::Care;
use prony_model::record::{Spent, TrialRecord};
use prony_model::trial::{Label, PlannedTrial};
use prony_model::units::Nanos;
use prony_os::clock::{monotonic, unix_ms};
use prony_os::interrupt::Interrupt;

use super::journal::{self, Entry};
use crate::error::Error;
use crate::output_file::{OutputFile, OutputFiles};
use prony_analysis::guard::run::{of_variant, sources, sources_differ};
use prony_model::finding::Finding;
use prony_report::screen::one_line;
use prony_report::sessions_differ;
use prony_results::{Database, RunId, RunStart, RunStatus};
use prony_runner::new_warnings::{NewWarnings, notice};
use prony_runner::run::{Summary, announced_trial, ended_trial};
use prony_runner::run_context::RunContext;
use prony_runner::scratch::elsewhere;
use prony_runner::trial;

/// What every search needs beside its file.
pub struct Means<'a> {
    /// The results.
    pub database: &'a Path,
    /// The option by which a command that is printed finds them, such as ` --database x.db`; empty where it needs none.
    pub option: &'a str,
    /// Where scratch goes.
    pub near: &'a Path,
    /// Whether the user asked to stop.
    pub interrupt: Interrupt,
    /// Each entry of the journal is a line of JSON in this file, too.
    pub journal: Option<&'a OutputFile>,
    /// The files that it must not write, and those that it writes.
    pub files: &'a mut OutputFiles,
    /// Receives the events.
    pub observer: &'a mut dyn Observer,
}

impl Means<'_> {
    /// The same for a part of the time: several runs of one search share them.
    pub(crate) fn lend(&mut self) -> Means<'_> {
        let Means { database, option, near, interrupt, journal, files, observer } = self;
        let (interrupt, observer) = (interrupt.clone(), &mut **observer);
        Means { database, option, near, interrupt, journal: *journal, files, observer }
    }
}

/// What a search prints that a finding leaves without its result, a `limit` or a `winner`.
pub(super) fn no_result(what: &str, Finding { guard, message, hint, .. }: &Finding) -> String {
    format!("no {what}: `{guard}`: {}\nhint: {hint}\n", one_line(message))
}

/// What the trials of an experiment share, with scratch at this place.
fn context(experiment: Experiment, near: &Path, means: &mut Means<'_>) -> Result<RunContext, Error> {
    let own = [Some(means.database), means.journal.map(OutputFile::path)];
    let own: Vec<&Path> = own.into_iter().flatten().collect();
    Ok(RunContext::new(experiment, near, &own, means.interrupt.clone(), means.observer)?)
}

/// A search's run.
pub struct TrialRunner<'a> {
    context: RunContext,
    database: Database,
    run: RunId,
    /// What an earlier session finished, by position.
    stored: BTreeMap<u32, TrialRecord>,
    /// How many entries of the journal are in the database already.
    known: usize,
    written: usize,
    position: u32,
    means: Means<'a>,
    summary: Summary,
    new_warnings: NewWarnings,
    session: u32,
    /// Of each variant and each state of what it ran, one trial.
    states: Vec<TrialRecord>,
    /// That not all trials ran the same program or engine: the search ends there.
    changed: Option<Finding>,
    /// When the last trial ended, or the search began: what comes before the next one is a part of its time.
    last: Nanos,
}

impl<'a> TrialRunner<'a> {
    /// Begins a run of an experiment that has a variant at least.
    ///
    /// # Errors
    /// Where the machine refuses what every trial needs, or the database what it is given.
    pub fn begin(experiment: Experiment, mut means: Means<'a>) -> Result<Self, Error> {
        let mut database = Database::create(means.database)?;
        let context = context(experiment, means.near, &mut means)?;
        let asked = elsewhere(means.near, means.database);
        let run = database.begin_run(&RunStart {
            experiment: &context.experiment,
            seed: context.experiment.seed(),
            host: &context.host,
            limits: &context.limits,
            version: env!("CARGO_PKG_VERSION"),
            started_unix_ms: unix_ms(),
            planned: 0,
            scratch: asked.as_deref(),
        })?;
        Self::ready(context, database, run, means)
    }

    /// Goes on with a run that was interrupted; `experiment` is what it would begin with now, since the record may lack
    /// commands, and `file` the experiment's file.
    ///
    /// # Errors
    /// As [`Self::begin`], and where the file has changed since the run began.
    pub fn resume(run: RunId, experiment: Experiment, file: &Path, mut means: Means<'a>) -> Result<Self, Error> {
        let mut database = Database::open(means.database)?;
        database.take_run(run)?;
        let data = database.load_run(run)?;
        if !data.experiment.is_of(experiment.source()) {
            return Err(Error::arguments(
                format!("`{}` has changed since run {run} began", file.display()),
                "restore the file, or start a new search without --resume",
            ));
        }
        Error::if_changed(&experiment.changed_variables(&data.experiment), run, "search")?;
        if !experiment.agrees_with(&data.experiment) {
            return Err(Error::arguments(
                format!("what `{}` names is not what it was when run {run} began", file.display()),
                "resume the search in the folder where it was started, with the same files of documents, or start a new \
                       search without --resume",
            ));
        }
        database.reopen_run(run, data.head.finished)?;
        // Where it was, unless the command line says otherwise.
        let elsewhere_asked = elsewhere(means.near, means.database).is_some();
        let near = data.head.scratch.as_deref().filter(|_| !elsewhere_asked).unwrap_or(means.near);
        let continuing = experiment.clone().continuing(&data.experiment);
        let mut context = context(experiment, near, &mut means)?;
        context.grow(continuing)?;
        let mut runner = Self::ready(context, database, run, means)?;
        runner.session =
            runner.database.begin_session(run, &runner.context.host, env!("CARGO_PKG_VERSION"), unix_ms())?;
        runner.stored = data.trials.into_iter().map(|trial| (trial.trial.position, trial)).collect();
        runner.known = runner.database.journal::<Entry>(run)?.len();
        Ok(runner)
    }

    fn ready(context: RunContext, mut database: Database, run: RunId, means: Means<'a>) -> Result<Self, Error> {
        if context.experiment.observe().care == Care::Light {
            database.sync_every(Duration::from_secs(1))?;
        }
        means.journal.map_or(Ok(()), OutputFile::begin)?;
        let text = format!("run {run}: {}", context.experiment.title());
        means.observer.event(&Event::Notice { text, hint: None });
        Ok(Self {
            context,
            database,
            run,
            stored: BTreeMap::new(),
            known: 0,
            written: 0,
            position: 0,
            means,
            summary: Summary::default(),
            new_warnings: NewWarnings::default(),
            session: 0,
            states: Vec::new(),
            changed: None,
            last: monotonic(),
        })
    }

    /// The run's number.
    pub const fn run(&self) -> RunId {
        self.run
    }

    /// The experiment as it has grown so far.
    pub fn experiment(&self) -> &Experiment {
        &self.context.experiment
    }

    /// The finding that trials ran different programs or engines, after which no trial runs.
    pub const fn changed(&self) -> Option<&Finding> {
        self.changed.as_ref()
    }

    /// Takes in a variant of another experiment of the same file; its number here.
    ///
    /// # Errors
    /// Those of the database, and where its program would write over what it must not.
    pub fn admit(&mut self, other: &Experiment, variant: usize) -> Result<usize, Error> {
        let known = self.experiment();
        let mut grown = known.clone();
        let id = grown.admit(other, variant);
        let (is_new, has_grown) = (id == known.variants().len(), grown != *known);
        if is_new {
            self.means.files.claim_of_programs(&grown.variants()[id..])?;
            self.database.extend_run(self.run, &grown, self.position)?;
        }
        if has_grown {
            self.context.grow(grown)?;
        }
        Ok(id)
    }

    /// How many trials of a block of so many each earlier session ran that did not complete it, in their order.
    pub fn interrupted(&self, block: u32, size: usize) -> Vec<usize> {
        let stored: Vec<&TrialRecord> = self.stored.values().filter(|record| record.trial.block == block).collect();
        let sessions = stored.chunk_by(|a, b| a.conditions.session == b.conditions.session);
        sessions.map(<[_]>::len).filter(|ran| *ran < size).collect()
    }

    /// Runs a trial of a variant as part of a block; `None` where the user interrupted it, or where it ran another program
    /// or engine than the trials before it.
    ///
    /// # Errors
    /// Where the machine refuses what every trial needs, or an earlier session's trial is another one.
    pub fn run_trial(&mut self, variant: usize, block: u32) -> Result<Option<TrialRecord>, Error> {
        let position = self.position;
        if let Some(stored) = self.stored.remove(&position) {
            let record = self.again(stored, variant, block)?;
            return Ok(self.of_same_sources(record));
        }
        if self.means.interrupt.asked() {
            self.summary.interrupted = true;
            return Ok(None);
        }
        let (seed, _) = lone_block(self.experiment().seed(), block, 0);
        let planned = PlannedTrial { block, sub_block: 0, position, variant, label: Label::A, seed };
        let announced = announced_trial(&self.context, &planned, self.session, self.means.observer)?;
        let now = monotonic();
        let spent = Spent { time: now.since(self.last), once: Nanos::ZERO };
        self.last = now;
        let Some((mut record, text)) = announced else {
            self.summary.interrupted = true;
            return Ok(None);
        };
        record.conditions.spent = Some(spent);
        self.database.append_trial(self.run, &record)?;
        self.position += 1;
        self.summary.add(record.ending.outcome);
        self.means.observer.event(&ended_trial(&record, text, (self.position, self.position), None));
        let warnings = self.new_warnings.of_trial(&record);
        warnings.iter().for_each(|warning| self.means.observer.event(warning));
        Ok(self.of_same_sources(record))
    }

    /// The trial, unless the search now has trials of two programs or engines: it would find the limit or the winner of
    /// neither.
    fn of_same_sources(&mut self, record: TrialRecord) -> Option<TrialRecord> {
        let is_like = |known: &TrialRecord| {
            known.trial.variant == record.trial.variant
                && of_variant(known) == of_variant(&record)
                && sources(known) == sources(&record)
        };
        if !self.states.iter().any(is_like) {
            self.states.push(record.clone());
            self.changed = sources_differ(&self.context.experiment, &self.states);
        }
        Some(record).filter(|_| self.changed.is_none())
    }

    /// Whether a search goes on after a trial, beside the trials that differ from it in nothing but the value that is
    /// searched. The guard knows executables and input files by variant, since steps before the trials may make another one
    /// for each; what was the same for several values in earlier sessions is not made for each.
    pub fn goes_on(&mut self, record: &TrialRecord, beside: &[&TrialRecord]) -> bool {
        let is_earlier = |known: &&TrialRecord| known.conditions.session < record.conditions.session;
        let earlier: Vec<&TrialRecord> = beside.iter().copied().filter(is_earlier).collect();
        let Some(first) = earlier.first().copied() else { return true };
        let is_of_several = earlier.iter().any(|known| known.trial.variant != first.trial.variant);
        if is_of_several && earlier.iter().all(|known| of_variant(known) == of_variant(first)) {
            let mut as_first = record.clone();
            as_first.trial.variant = first.trial.variant;
            self.changed = sources_differ(&self.context.experiment, &[first.clone(), as_first]);
        }
        self.changed.is_none()
    }

    fn again(&mut self, stored: TrialRecord, variant: usize, block: u32) -> Result<TrialRecord, Error> {
        if (stored.trial.variant, stored.trial.block) == (variant, block) {
            self.position += 1;
            return Ok(stored);
        }
        Err(Error::arguments(
            format!("run {} cannot be resumed: this version of prony searches by other rules", self.run),
            "start the search again, without --resume",
        ))
    }

    /// Writes into the journal, unless an earlier session already has.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn note(&mut self, entry: &Entry) -> Result<(), Error> {
        self.written += 1;
        if self.written > self.known {
            self.database.append_journal(self.run, entry)?;
        }
        journal::copy(self.means.journal, entry)
    }

    /// Ends the run as one that was interrupted, since an error ends the search: programs leave the same behind, and nothing that
    /// finished is lost.
    pub fn fail(mut self, error: Error, resume: &str) -> Error {
        let is_lost = matches!(error, Error::Results(prony_results::Error::Lost { .. }));
        if self.position > 0 && !is_lost {
            let text = format!("{} saved", count(self.position, "finished trial"));
            let hint = Some(format!("once the cause is removed, to resume: `{resume}`"));
            self.means.observer.event(&Event::Notice { text, hint });
        }
        if let Err(unclean) = self.clean_up() {
            self.means.observer.event(&Event::Notice { text: unclean.to_string(), hint: None });
        }
        // The error that ended the search is returned.
        let _ = self.database.sync_every(Duration::ZERO);
        let _ = self.database.extend_run(self.run, &self.context.experiment, self.position);
        let _ = self.database.end_run(self.run, RunStatus::Interrupted, unix_ms());
        error
    }

    fn clean_up(&mut self) -> Result<(), prony_runner::Error> {
        trial::clean_up(&self.context, self.means.observer)
    }

    /// Ends the run; what went wrong in a `cleanup` is in the summary.
    ///
    /// # Errors
    /// Where the database refuses.
    pub fn end(self) -> Result<Summary, Error> {
        let run = self.run;
        let (summary, mut database) = self.end_trials()?;
        let status = if summary.interrupted { RunStatus::Interrupted } else { RunStatus::Done };
        database.end_run(run, status, unix_ms())?;
        Ok(summary)
    }

    /// Ends the trials of the run, but not the run: it is this session's until the database gives it back or ends it.
    ///
    /// # Errors
    /// Where the database refuses.
    pub fn end_trials(mut self) -> Result<(Summary, Database), Error> {
        self.summary.unclean = self.clean_up().err().map(|error| error.to_string());
        self.database.sync_every(Duration::ZERO)?;
        self.database.extend_run(self.run, &self.context.experiment, self.position)?;
        let Summary { ok, failed, interrupted, .. } = self.summary;
        self.means.observer.event(&Event::RunEnded { run: self.run.0, ok, failed, interrupted });
        if self.session > 0 {
            let data = self.database.load_run(self.run)?;
            sessions_differ(&data.head, &data.trials)
                .iter()
                .for_each(|found| self.means.observer.event(&notice(found)));
        }
        Ok((self.summary, self.database))
    }
}
