//! The loop of a run: blocks of trials in their planned order, interim analyses, resume. Emits events; prints nothing.

mod crash;
mod profile;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::time::Duration;

use prony_experiment::design::{Blocks, Experiment};
use prony_experiment::plan::{self};
use prony_model::event::{Event, Observer};
use prony_model::metric::{Metric, MetricKey, MetricName};
use prony_model::number;
use prony_model::outcome::Outcome;
use prony_model::program::Care;
use prony_model::record::{PhaseRecord, TrialRecord};
use prony_model::trial::PlannedTrial;
use prony_model::units::Nanos;
use prony_os::clock::{monotonic, unix_ms};
use prony_os::interrupt::Interrupt;

use crate::budget::Bought;
use crate::campaign::{Campaign, count, planned};
use crate::error::Error;
use crate::run_context::RunContext;
use crate::run_duration::RunDuration;
use crate::scratch::elsewhere;
use crate::{estimate, load, trial};
use prony_analysis::verdicts;
use prony_analysis::verdicts::gate::Gate;
use prony_results::{Database, RunId, RunStart, RunStatus};

/// How often trials of milliseconds are synced.
const LAZY: Duration = Duration::from_secs(1);

/// How a run ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Trials that ended well, in this session.
    pub ok: u32,
    /// Trials that ended otherwise, in this session.
    pub failed: u32,
    /// Whether it was interrupted.
    pub interrupted: bool,
    /// What failed in a `cleanup`: the trials before it remain valid.
    pub unclean: Option<String>,
}

impl Summary {
    /// Counts a trial that ended so.
    pub const fn add(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Ok => self.ok += 1,
            _ => self.failed += 1,
        }
    }

    /// Whether each `cleanup` succeeded.
    ///
    /// # Errors
    /// [`Error::CleanUp`].
    pub fn cleaned(&self) -> Result<(), Error> {
        match &self.unclean {
            None => Ok(()),
            Some(message) => Err(Error::CleanUp { message: message.clone() }),
        }
    }
}

/// Begins a run of a checked experiment and runs it to its end, with more blocks as long as one of the gates is not decided; scratch
/// is made in `near`, and `begun` gets the run's number before its first trial.
///
/// # Errors
/// Where the machine refuses what every trial needs, or the database what it is given; and those of `begun`.
pub fn begin_in(
    (experiment, gates): (&Experiment, &[Gate]),
    database: &mut Database,
    near: &Path,
    interrupt: Interrupt,
    observer: &mut dyn Observer,
    begun: impl FnOnce(&mut Database, RunId) -> Result<(), Error>,
) -> Result<(RunId, Summary), Error> {
    let began = monotonic();
    let experiment = load::with_absolute_paths(experiment.clone())?;
    let plan = plan::plan(&experiment);
    let bought = bought(&experiment, database.path());
    // If a budget is too small, that is printed before anything runs.
    if let Some(bought) = bought.as_ref().filter(|bought| bought.blocks.is_none() || bought.falls_short()) {
        observer.event(&Event::Notice { text: bought.to_string(), hint: bought.hint() });
    }
    let elsewhere = elsewhere(near, database.path());
    let context = RunContext::new(experiment, near, &[database.path()], interrupt, observer)?;
    let experiment = &context.experiment;
    if experiment.observe().care == Care::Light {
        database.sync_every(LAZY)?;
    }
    let run = database.begin_run(&RunStart {
        experiment,
        seed: experiment.seed(),
        host: &context.host,
        limits: &context.limits,
        version: env!("CARGO_PKG_VERSION"),
        started_unix_ms: unix_ms(),
        planned: planned(experiment, &plan, 0),
        scratch: elsewhere.as_deref(),
    })?;
    begun(database, run)?;
    let campaign = Campaign { began, gates, ..Campaign::new(database, run, &plan, 0) };
    Ok((run, self::run(campaign, &context, observer)?))
}

/// Runs the trials that a run lacks, in a new session; `done` are those that it has, and `experiment` is what it began with.
///
/// # Errors
/// As [`begin_in`], and where another session has the run.
pub fn resume_in(
    (experiment, gates): (&Experiment, &[Gate]),
    (database, run): (&mut Database, RunId),
    done: &[PlannedTrial],
    near: &Path,
    interrupt: Interrupt,
    observer: &mut dyn Observer,
) -> Result<Summary, Error> {
    let plan = plan::resumed(experiment, done);
    let began = monotonic();
    // Before the run is reopened: where it fails, the run remains interrupted.
    let context = RunContext::new(experiment.clone(), near, &[database.path()], interrupt, observer)?;
    database.reopen_run(run, planned(experiment, &plan, done.len()))?;
    let session = database.begin_session(run, &context.host, env!("CARGO_PKG_VERSION"), unix_ms())?;
    let campaign = Campaign { began, gates, session, ..Campaign::new(database, run, &plan, done.len()) };
    self::run(campaign, &context, observer)
}

/// What the experiment's time budget buys, by what is known before it runs.
fn bought(experiment: &Experiment, database: &Path) -> Option<Bought> {
    experiment.compare().budget?;
    let outline = plan::outline(experiment);
    Bought::of(experiment, &outline, &estimate::of(experiment, &outline, database))
}

/// Runs the rest of the plan. Each trial is on disk when its event is emitted, or some milliseconds later where care is
/// light and trials are shorter than that; they are on disk before a variant that is not known to be as short.
///
/// # Errors
/// Where the machine refuses what every trial needs, or the database what it is given.
pub fn run(campaign: Campaign<'_>, context: &RunContext, observer: &mut dyn Observer) -> Result<Summary, Error> {
    observer.event(&began(&campaign, &context.experiment));
    let mut course = RunDuration::new(&context.experiment, campaign.plan, campaign.began);
    if campaign.done > 0 {
        course.earlier(campaign.plan, &campaign.database.load_run(campaign.run)?.trials);
    }
    if context.experiment.observe().care == Care::Light {
        campaign.database.sync_every(LAZY)?;
    }
    course.is_set_up(monotonic());
    let mut session = Session { campaign, context, course, summary: Summary::default(), observer };
    let ran =
        session.blocks().and_then(|()| session.campaign.keep_gathered()).and_then(|()| session.cuts_and_profiles());
    let Session { mut campaign, mut summary, observer, .. } = session;
    // What a program's `cleanup` does may take long, or be ended.
    let saved = campaign.keep_gathered();
    // Whatever ended it: programs leave the same behind.
    summary.unclean = trial::clean_up(context, observer).err().map(|error| error.to_string());
    let unsaved = saved.as_ref().err().filter(|_| ran.is_err());
    let lost = unsaved.map(|error| format!("finished trials were not saved: {error}"));
    if let Err(error) = ran.and(saved) {
        let saved = if lost.is_none() { saved_trials(&error, campaign.done) } else { None };
        summary.unclean.into_iter().chain(lost).for_each(|text| observer.event(&Event::Notice { text, hint: None }));
        saved.into_iter().for_each(|notice| observer.event(&notice));
        // The error that ended the run is returned; the run can be resumed, like one that the user interrupted.
        let _ = campaign.database.sync_every(Duration::ZERO);
        let _ = campaign.database.end_run(campaign.run, RunStatus::Interrupted, unix_ms());
        return Err(error);
    }
    campaign.database.sync_every(Duration::ZERO)?;
    let status = if summary.interrupted { RunStatus::Interrupted } else { RunStatus::Done };
    if context.experiment.compare().budget.is_some() {
        campaign.database.reopen_run(campaign.run, campaign.done)?;
    }
    campaign.database.end_run(campaign.run, status, unix_ms())?;
    let Summary { ok, failed, interrupted, .. } = summary;
    observer.event(&Event::RunEnded { run: campaign.run.0, ok, failed, interrupted });
    Ok(summary)
}

/// Says of a run that a step of a program ended that its finished trials are not lost: no table is printed after an error. Errors
/// of the database and of the machine have hints of their own.
fn saved_trials(error: &Error, finished: u32) -> Option<Event> {
    let is_step = matches!(error, Error::Place(prony_place::Error::Step { .. }));
    (is_step && finished > 0).then(|| Event::Notice {
        text: format!("{} saved", number::count(finished, "finished trial")),
        hint: Some(
            "`prony show` shows them; `prony run --resume` continues a run, `prony tune --resume` a search, each with the \
             `--database` of this one"
                .to_owned(),
        ),
    })
}

/// A session of a run under way.
struct Session<'s> {
    campaign: Campaign<'s>,
    context: &'s RunContext,
    course: RunDuration,
    summary: Summary,
    observer: &'s mut dyn Observer,
}

impl Session<'_> {
    /// Runs block after block, until the user interrupts it, an interim analysis ends it or its time is over.
    fn blocks(&mut self) -> Result<(), Error> {
        if self.campaign.plan.len() > self.campaign.done as usize && !self.shared_builds()? {
            self.summary.interrupted = true;
            return Ok(());
        }
        let analyses = analyses(&self.context.experiment);
        for block in self.campaign.plan.chunk_by(|a, b| a.block == b.block) {
            let done = block.iter().all(|trial| trial.position < self.campaign.done);
            if !done && !self.course.goes_on(monotonic()) {
                let blocks = number::count(self.course.blocks(), "block");
                self.notice(format!("stopped after {blocks}: no further block fits into the time budget"), None);
                break;
            }
            if !self.block(block)? {
                self.summary.interrupted = true;
                break;
            }
            if !done {
                self.course.block_ended();
                if self.course.blocks() == 1 {
                    self.correct();
                }
            }
            let blocks = block.first().map_or(0, |trial| trial.block + 1);
            // An analysis is of all trials so far: before later ones that an earlier session ran, there is none.
            let is_last = block.last().is_some_and(|trial| trial.position + 1 == self.campaign.done);
            if is_last && analyses.contains(&blocks) && self.is_settled(blocks)? {
                break;
            }
        }
        Ok(())
    }

    /// Runs the builds that hold for all trials in their directory; `false` where the user interrupted them.
    fn shared_builds(&mut self) -> Result<bool, Error> {
        let (context, experiment) = (self.context, &self.context.experiment);
        let planned = self.campaign.plan.iter().map(|trial| trial.variant).collect();
        match context.places.build_shared(context.means(), experiment, &planned, self.observer) {
            Err(prony_place::Error::Step { .. }) if context.interrupt.asked() => Ok(false),
            built => Ok(built.map(|()| true)?),
        }
    }

    fn notice(&mut self, text: String, hint: Option<String>) {
        self.observer.event(&Event::Notice { text, hint });
    }

    /// Reports what the budget suffices for when a block has shown what one takes.
    fn correct(&mut self) {
        let known = self.course.in_budget(monotonic());
        let bought = known.and_then(|known| Bought::measured(&self.context.experiment, known));
        bought.into_iter().for_each(|bought| self.notice(bought.to_string(), bought.hint()));
    }

    /// Runs the rest of a block; `false` where the user interrupted it.
    fn block(&mut self, block: &[PlannedTrial]) -> Result<bool, Error> {
        for trial in block {
            if trial.position < self.campaign.done {
                continue;
            }
            if self.context.interrupt.asked() || !self.trial(trial)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether more blocks could change no comparison any more, and could decide no gate. Intervals hold at all planned analyses
    /// together, whatever ends the run.
    fn is_settled(&mut self, blocks: u32) -> Result<bool, Error> {
        self.campaign.keep_gathered()?;
        let data = self.campaign.database.load_run(self.campaign.run)?;
        let verdicts = verdicts::of(&data);
        let settled =
            verdicts.are_final() && !self.campaign.gates.iter().any(|gate| gate.is_open(&verdicts.lines, &data));
        if settled {
            let compare = self.context.experiment.compare();
            let level = number::percent(1.0 - compare.alpha.get());
            let and_gates = if self.campaign.gates.is_empty() { "" } else { " and conditions of `--fail-if`" };
            // Readers asked whether a run that ends when it has decided is optional stopping.
            self.notice(
                format!(
                    "stopped after {blocks} blocks: all comparisons{and_gates} were decided at a planned interim analysis; the {level} \
                     level covers all planned analyses together, so that stopping early does not weaken it"
                ),
                Some(match (compare.budget, most_blocks(&self.context.experiment)) {
                    (None, most) => format!("for a narrower interval: a new run with `--blocks {most}` runs all of them"),
                    (Some(_), _) => "`--blocks N` runs N blocks in any case".to_owned(),
                }),
            );
        }
        Ok(settled)
    }

    /// Runs and stores one trial; `false` where the user interrupted it, and nothing of it is stored.
    fn trial(&mut self, trial: &PlannedTrial) -> Result<bool, Error> {
        let light = self.context.experiment.observe().care == Care::Light;
        self.campaign.expect(trial)?;
        let announced = announced_trial(self.context, trial, self.campaign.session, self.observer)?;
        let Some((mut record, variant)) = announced else { return Ok(false) };
        let once = self.context.places.made_in() + self.context.initial_data.made_in();
        record.conditions.spent = Some(self.course.trial_ended(trial.variant, monotonic(), once));
        self.campaign.done = trial.position + 1;
        self.summary.add(record.ending.outcome);
        // With light care trials take milliseconds, and all findings are in the summary that follows.
        let warnings = if light { Vec::new() } else { self.campaign.new_warnings.of_trial(&record) };
        let trials = self.course.trials(monotonic()).unwrap_or_default().max(self.campaign.done);
        let event = ended_trial(&record, variant, (self.campaign.done, trials), self.course.left(monotonic()));
        self.campaign.keep(record, light)?;
        self.observer.event(&event);
        warnings.iter().for_each(|warning| self.observer.event(warning));
        Ok(true)
    }

    /// Makes the cuts that are still lacking and then the profiles, unless the user interrupts that.
    fn cuts_and_profiles(&mut self) -> Result<(), Error> {
        self.summary.interrupted = self.summary.interrupted
            || !crash::all(&mut self.campaign, self.context, self.observer)?
            || !profile::all(&mut self.campaign, self.context, self.observer)?;
        Ok(())
    }
}

/// The blocks, fixed in advance, after which the run may stop early (METHOD 4.7); none where their number is fixed.
fn analyses(experiment: &Experiment) -> Vec<u32> {
    let min = experiment.variants().iter().map(|variant| variant.blocks.min).max().unwrap_or(0);
    let max = most_blocks(experiment);
    if min == max || experiment.compare().baseline.is_empty() {
        return Vec::new();
    }
    experiment.compare().analyses(Blocks { min, max }).at().iter().copied().filter(|at| *at < max).collect()
}

/// The blocks of a run that nothing stops.
fn most_blocks(experiment: &Experiment) -> u32 {
    experiment.variants().iter().map(|variant| variant.blocks.max).max().unwrap_or(0)
}

fn began(campaign: &Campaign<'_>, experiment: &Experiment) -> Event {
    let budget = experiment.compare().budget;
    let known = |planned: u32| if budget.is_some() { 0 } else { planned };
    Event::RunBegan {
        run: campaign.run.0,
        title: experiment.title().to_owned(),
        variants: experiment.variants().len(),
        blocks: known(campaign.plan.iter().map(|trial| trial.block + 1).max().unwrap_or(0)),
        trials: known(count(campaign.plan.len())),
        budget,
        done: campaign.done,
        no_verdict: plan::without_verdict(experiment, &plan::outline(experiment)),
    }
}

/// Runs a trial of a run, whose begin it announces; its record and its variant in words, or `None` where the user interrupted it.
///
/// # Errors
/// As [`trial::run`].
pub fn announced_trial(
    context: &RunContext,
    trial: &PlannedTrial,
    session: u32,
    observer: &mut dyn Observer,
) -> Result<Option<(TrialRecord, String)>, Error> {
    let variant = context.experiment.levels_text(&context.experiment.variants()[trial.variant]);
    observer.event(&Event::TrialBegan { trial: *trial, variant: variant.clone() });
    let mut record = trial::run(context, trial, observer)?;
    record.conditions.session = session;
    Ok((record.ending.outcome != Outcome::Interrupted).then_some((record, variant)))
}

/// The event of a trial that ended: how many are done of how many, and for how long the run will go on.
pub fn ended_trial(record: &TrialRecord, variant: String, (done, trials): (u32, u32), left: Option<Nanos>) -> Event {
    let (phases, ending) = (phase_times(record), record.ending.clone());
    Event::TrialEnded { trial: record.trial, variant, took: record.took, phases, ending, done, trials, left }
}

/// Name and time of each timed phase that was completed.
fn phase_times(record: &TrialRecord) -> Vec<(String, Nanos)> {
    let time = |phase: &PhaseRecord| {
        let name = MetricName { phase: phase.name.clone(), instance: None, key: MetricKey::amount(Metric::Time) };
        Some(Nanos::from_nanos(*record.figure(&name).measured()? as u64))
    };
    let timed = record.phases.iter().filter(|phase| phase.timed);
    timed.filter_map(|phase| Some((phase.name.clone(), time(phase)?))).collect()
}
