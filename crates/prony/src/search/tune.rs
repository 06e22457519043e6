//! `tune`: compares settings in interleaved blocks and drops those that are clearly worse; then compares the winner
//! with the default setting in fresh blocks.

use std::collections::BTreeMap;

use prony_analysis::search::tune::{Block, Found, Settings, Step, TrialResult};
use prony_analysis::search::{Constraint, TrialEnd, Tune};
use prony_experiment::design::{CellPart, Column, Experiment, Expr, Statistic, TableSpec};
use prony_experiment::expr;
use prony_model::reading::Reading;
use prony_model::record::{Spent, TrialRecord};

use super::constraints::{known_value, refusal};
use super::default_setting::Base;
use super::found::{Conclusion, Confirmed, LeftOut, Setting, TuneWanted};
use super::fresh::{Fresh, blocks_of_confirmation, within_budget};
use super::journal::{self, Asked, Entry};
use super::source::Source;
use super::trial_runner::{Means, TrialRunner, no_result};
use super::tune_text;
use crate::error::Error;
use prony_analysis::guard::variants::{self, VariantTrials};
use prony_os::clock::unix_ms;
use prony_report::sessions_differ;
use prony_results::{RunId, RunStatus};
use prony_runner::new_warnings::notice;
use prony_runner::run::Summary;

/// The result of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Tuned {
    /// Its run.
    pub run: RunId,
    /// What was found; `None` where the user interrupted it, or its program changed.
    pub found: Option<Found>,
    /// How its run ended.
    pub summary: Summary,
    /// The comparison of the winner with the default, if the winner is not the default.
    pub confirmed: Option<Confirmed>,
    /// As a text for the terminal.
    pub said: String,
}

impl Tuned {
    /// Whether each `cleanup` was done, of the search's run and of the confirmation's.
    ///
    /// # Errors
    /// [`prony_runner::Error::CleanUp`].
    pub(crate) fn cleaned(&self) -> Result<(), Error> {
        self.summary.cleaned()?;
        if let Some(confirmed) = &self.confirmed {
            confirmed.summary.cleaned()?;
        }
        Ok(())
    }

    /// Whether the search found a setting that is to be preferred to the default, or that the default is to be kept.
    pub(crate) fn is_good(&self) -> bool {
        let is_confirmed = |confirmed: &Confirmed| {
            !confirmed.summary.interrupted && !matches!(confirmed.conclusion(), Conclusion::None(_))
        };
        self.found.as_ref().is_some_and(|found| found.winner.is_some())
            && self.confirmed.as_ref().is_none_or(is_confirmed)
    }
}

/// Searches, and compares the winner with the default; `resume` resumes a run.
///
/// # Errors
/// Where the file, a range or a metric is at fault, or the machine refuses.
pub fn run(wanted: TuneWanted, resume: Option<RunId>, mut means: Means<'_>) -> Result<Tuned, Error> {
    let mut source = Source::read(&wanted.file, wanted.overrides.clone())?;
    let base = Base::of(&mut source, wanted.ranges.clone(), &wanted.defaults)?;
    let first = base.at(&source, &base.default)?;
    figures_exist(&wanted, &first)?;
    base.ends_are_sound(&source)?;
    means.files.claim_of_programs(first.variants())?;
    let option = means.option;
    let empty = empty(&first, &base, &wanted);
    let confirm = blocks_of_confirmation(&wanted, &first);
    let tune = Tune::new(rules(&wanted, &base, confirm.min, &first));
    let runner = match resume {
        Some(run) => TrialRunner::resume(run, empty, &wanted.file, means.lend())?,
        None => TrialRunner::begin(empty, means.lend())?,
    };
    let resume = format!("prony tune --resume {}{option}", runner.run());
    let mut search = Search::new(&wanted, (&source, &base), tune, runner);
    let found = match search.until_done() {
        Ok(found) => found,
        Err(error) => return Err(search.runner.fail(error, &resume)),
    };
    let settings = search.settings();
    let Search { tune, runner, variants, left_out, unread, .. } = search;
    let (run, experiment, changed) = (runner.run(), runner.experiment().clone(), runner.changed().cloned());
    let (summary, mut database) = runner.end_trials()?;
    let rival = found.as_ref().and_then(|found| found.winner).filter(|winner| *winner != 0);
    let confirmed = match rival.and_then(|winner| Some((*variants.get(&0)?, *variants.get(&winner)?, winner))) {
        Some((default, rival, winner)) => {
            let title = format!("{}: {} against the default", first.title(), settings[winner].text);
            let fresh = Fresh { wanted: &wanted, search: &experiment, run, pair: (default, rival), title };
            let (blocks, text) = within_budget(confirm, tune.blocks_left(winner));
            let confirmed = fresh.confirm(blocks, text, means.lend());
            // The error is returned; the search is one that can be resumed.
            Some(confirmed.inspect_err(|_| drop(database.end_run(run, RunStatus::Interrupted, unix_ms())))?)
        }
        None => None,
    };
    let differ = confirmed.as_ref().and_then(|confirmed| sessions_differ(&confirmed.data.head, &confirmed.data.trials));
    differ.iter().for_each(|found| means.observer.event(&notice(found)));
    let report = tune_text::SearchReport {
        wanted: &wanted,
        run,
        option,
        ranges: &base.ranges,
        tune: &tune,
        settings: &settings,
        left_out: &left_out,
        unread: unread.as_deref(),
    };
    let said = match &changed {
        Some(finding) => no_result("winner", finding) + &report.all_trials(false),
        None => report.tuned(found.as_ref(), confirmed.as_ref()),
    };
    let interrupted = summary.interrupted || confirmed.as_ref().is_some_and(|confirmed| confirmed.summary.interrupted);
    if !interrupted {
        let fresh = confirmed.as_ref().map(|confirmed| confirmed.data.head.id.0);
        let entry = Entry::Concluded { confirmation: fresh, said: said.clone() };
        database.append_journal(run, &entry)?;
        journal::copy(means.journal, &entry)?;
    }
    database.end_run(run, if interrupted { RunStatus::Interrupted } else { RunStatus::Done }, unix_ms())?;
    Ok(Tuned { run, found, summary, confirmed, said })
}

/// What decides the course of a search that leaves room for so many blocks of the comparison.
fn rules(wanted: &TuneWanted, base: &Base, reserve: u32, first: &Experiment) -> Settings {
    Settings {
        ranges: base.ranges.clone(),
        default: base.default.clone(),
        grid: wanted.grid,
        resolution: wanted.resolution,
        maximize: wanted.maximize,
        max_trials: wanted.max_trials,
        budget: wanted.budget,
        reserve,
        of_default: if first.compare().twice { 2 } else { 1 },
        seed: first.seed(),
    }
}

/// The experiment that the search fills, with the default setting in it and a row for each that is tried.
fn empty(first: &Experiment, base: &Base, wanted: &TuneWanted) -> Experiment {
    let names: Vec<String> = base.ranges.iter().map(|range| format!("`{}`", range.name)).collect();
    let title = format!("{}: search over {}", first.title(), names.join(", "));
    let figure = |expr: &Expr| Column {
        title: expr::print(expr),
        parts: vec![CellPart::Figure { expr: expr.clone(), format: None }],
    };
    let objective = Expr::Metric(wanted.objective.clone());
    let table = TableSpec {
        title: None,
        select: BTreeMap::new(),
        rows: base.factors(),
        tables: Vec::new(),
        columns_by: Vec::new(),
        columns: std::iter::once(&objective)
            .chain(wanted.constraints.iter().map(Constraint::expr))
            .map(figure)
            .collect(),
        statistic: Statistic::Median,
    };
    let mut experiment = first.emptied(title).showing(vec![table]);
    experiment.admit(first, 0);
    experiment
}

/// Refuses metrics of phases that do not exist, since no setting could be read, and an objective that the experiment
/// itself prescribes, since it says nothing about a setting.
fn figures_exist(wanted: &TuneWanted, experiment: &Experiment) -> Result<(), Error> {
    let all = || experiment.variants().iter().flat_map(|variant| &variant.spec.phases);
    let phases: Vec<&str> = all().map(|phase| phase.name.as_str()).collect();
    let name = &wanted.objective;
    let mut own = all().filter(|phase| phase.name == name.phase);
    if let Some((message, instead)) = own.find_map(|phase| phase.is_no_speed(name)) {
        return Err(Error::arguments(message, format!("use {instead}")));
    }
    let figures = std::iter::once(&wanted.objective).chain(wanted.constraints.iter().flat_map(Constraint::metrics));
    for figure in figures {
        if !phases.contains(&figure.phase.as_str()) {
            return Err(Error::arguments(
                format!("`{figure}`: the experiment has no phase `{}`", figure.phase),
                format!("the phases of the experiment: `{}`", phases.join("`, `")),
            ));
        }
    }
    Ok(())
}

/// A search under way.
struct Search<'a> {
    wanted: &'a TuneWanted,
    source: &'a Source,
    base: &'a Base,
    tune: Tune,
    runner: TrialRunner<'a>,
    /// The variants of the candidates that ran.
    variants: BTreeMap<usize, usize>,
    /// The trials of complete blocks, by candidate.
    paired: BTreeMap<usize, Vec<TrialRecord>>,
    /// The candidates that guards refuse to compare with the default, and those that the file does not allow.
    left_out: Vec<LeftOut>,
    /// The first reason for which something could not be read.
    unread: Option<String>,
}

impl<'a> Search<'a> {
    fn new(
        wanted: &'a TuneWanted,
        (source, base): (&'a Source, &'a Base),
        tune: Tune,
        runner: TrialRunner<'a>,
    ) -> Self {
        let (variants, paired, left_out) = Default::default();
        Self { wanted, source, base, tune, runner, variants, paired, left_out, unread: None }
    }

    /// Block after block; `None` where the user interrupted it, or its program changed.
    fn until_done(&mut self) -> Result<Option<Found>, Error> {
        self.runner.note(&Entry::Asked(Box::new(Asked::Tune(self.wanted.clone()))))?;
        loop {
            let step = self.tune.step();
            for decision in self.tune.take_decisions() {
                self.runner.note(&Entry::Decided { decision })?;
            }
            match step {
                Step::Done(found) => {
                    self.runner.note(&Entry::Found { found: found.clone(), settings: self.texts() })?;
                    return Ok(Some(found));
                }
                Step::Run(mut block) => {
                    self.refuse(&mut block)?;
                    // What sessions before left incomplete remains in the journal, and the block runs again whole.
                    let before = self.runner.interrupted(block.number, block.order.len()).into_iter();
                    let again = before.flat_map(|ran| &block.order[..ran]).map(|candidate| (candidate, false));
                    for (candidate, paired) in again.chain(block.order.iter().map(|candidate| (candidate, true))) {
                        if !self.one(&block, *candidate, paired)? {
                            return Ok(None);
                        }
                    }
                    self.leave_out(&block)?;
                }
            }
        }
    }

    /// Takes settings that the file does not allow out of a block. This depends on the file only, so that a resumed search does the
    /// same.
    fn refuse(&mut self, block: &mut Block) -> Result<(), Error> {
        let mut all = block.order.clone();
        all.sort_unstable();
        for candidate in all {
            let point = &self.tune.candidates()[candidate].point;
            let is_known = self.variants.contains_key(&candidate);
            let Some(why) = (!is_known).then(|| self.base.at(self.source, point).err()?.first_problem()).flatten()
            else {
                continue;
            };
            self.tune.refuse(candidate);
            block.order.retain(|id| *id != candidate);
            self.note_left_out(candidate, why)?;
        }
        Ok(())
    }

    /// One trial, which counts where it is `paired`; `false` where the user interrupted it, or it ran another program.
    fn one(&mut self, block: &Block, candidate: usize, paired: bool) -> Result<bool, Error> {
        let point = self.tune.candidates()[candidate].point.clone();
        let variant = match self.variants.get(&candidate) {
            Some(known) => *known,
            None => {
                let experiment = self.base.at(self.source, &point)?;
                let variant = self.runner.admit(&experiment, 0)?;
                self.variants.insert(candidate, variant);
                variant
            }
        };
        let Some(record) = self.runner.run_trial(variant, block.number)? else { return Ok(false) };
        let spent = Spent::of(&record.conditions, record.took).time;
        let (result, figures) = self.result(&record);
        let result = if paired { result } else { TrialResult::Unpaired };
        self.tune.record(candidate, result, spent);
        self.runner.note(&Entry::Tried {
            trial: record.trial.position,
            round: block.round,
            block: block.number,
            candidate,
            setting: self.base.setting(&point),
            outcome: record.ending.outcome,
            figures,
            result: name_of(result).to_owned(),
        })?;
        if paired {
            self.paired.entry(candidate).or_default().push(record);
        }
        Ok(true)
    }

    /// Leaves out the settings of a block whose answers or work differ from the default's, by the guards that refuse such
    /// a comparison in a run: the fastest setting may be the one that does least.
    fn leave_out(&mut self, block: &Block) -> Result<(), Error> {
        let mut tried = block.order.clone();
        tried.sort_unstable();
        for candidate in tried.into_iter().filter(|candidate| *candidate != 0) {
            if self.tune.candidates()[candidate].out.is_some() {
                continue;
            }
            let refusal = self
                .trials_of(0)
                .zip(self.trials_of(candidate))
                .and_then(|(default, own)| variants::other_answers_or_work([&default, &own], &self.wanted.objective));
            let Some(why) = refusal else { continue };
            self.tune.leave_out(candidate);
            self.note_left_out(candidate, why)?;
        }
        Ok(())
    }

    fn note_left_out(&mut self, candidate: usize, why: String) -> Result<(), Error> {
        let setting = self.base.setting(&self.tune.candidates()[candidate].point);
        self.runner.note(&Entry::LeftOut { left_out: candidate, setting, why: why.clone() })?;
        self.left_out.push(LeftOut { candidate, why });
        Ok(())
    }

    /// A candidate with its trials of complete blocks, as guards take it.
    fn trials_of(&self, candidate: usize) -> Option<VariantTrials<'_>> {
        Some(VariantTrials {
            name: self.base.text(&self.tune.candidates()[candidate].point),
            spec: &self.runner.experiment().variants()[*self.variants.get(&candidate)?].spec,
            trials: self.paired.get(&candidate)?.iter().collect(),
        })
    }

    /// The result of a trial for its setting, and the values from which it follows.
    fn result(&mut self, record: &TrialRecord) -> (TrialResult, Option<BTreeMap<String, Reading<f64>>>) {
        match TrialEnd::of_trial(record) {
            Some(TrialEnd::Failed) => return (TrialResult::Failed, None),
            Some(TrialEnd::Disturbed) | None => return (TrialResult::Disturbed, None),
            Some(TrialEnd::Succeeded) => {}
        }
        let mut figures = BTreeMap::new();
        let objective = record.figure(&self.wanted.objective);
        figures.insert(self.wanted.objective.to_string(), objective.clone());
        let mut unread = match &objective {
            Reading::Measured(_) => None,
            Reading::Missing(why) => Some(format!("`{}`: {why}", self.wanted.objective)),
        };
        let mut broke = false;
        for constraint in &self.wanted.constraints {
            let value = known_value(constraint, record);
            figures.insert(constraint.to_string(), value.clone());
            match value {
                Reading::Measured(value) => broke |= !constraint.is_met(value),
                Reading::Missing(why) => unread = unread.or(Some(format!("`{constraint}`: {why}"))),
            }
        }
        unread = unread.or(refusal(record));
        let result = match objective {
            Reading::Measured(value) if unread.is_none() && broke => TrialResult::Broke(value),
            Reading::Measured(value) if unread.is_none() => TrialResult::Good(value),
            _ => TrialResult::Unread,
        };
        self.unread = self.unread.take().or(unread);
        (result, Some(figures))
    }

    fn settings(&self) -> Vec<Setting> {
        let setting = |(id, text): (usize, String)| Setting { text, variant: self.variants.get(&id).copied() };
        self.texts().into_iter().enumerate().map(setting).collect()
    }

    fn texts(&self) -> Vec<String> {
        self.tune.candidates().iter().map(|candidate| self.base.text(&candidate.point)).collect()
    }
}

const fn name_of(result: TrialResult) -> &'static str {
    match result {
        TrialResult::Good(0.0) => "zero",
        TrialResult::Good(_) => "good",
        TrialResult::Broke(_) => "broke a constraint",
        TrialResult::Failed => "failed",
        TrialResult::Disturbed => "disturbed",
        TrialResult::Unread => "not read",
        TrialResult::Unpaired => "not paired",
    }
}
