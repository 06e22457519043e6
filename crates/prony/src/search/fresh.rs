//! The comparison of the winner of `tune` with the default in fresh blocks: an ordinary run, which the journal of the search
//! names before its first trial, so that a resumed search finds it again and checks the constraints on all of its trials.

use std::cmp::Ordering;

use prony_analysis::verdicts;
use prony_experiment::design::{Blocks, Experiment};
use prony_model::event::Event;
use prony_model::metric::Better;
use prony_model::number::count;
use prony_model::trial::PlannedTrial;
use prony_results::{Database, RunData, RunId, RunStatus};
use prony_runner::run::{self, Summary};
use prony_runner::scratch::elsewhere;
use prony_stats::Verdict;

use super::constraints::ConstraintResults;
use super::found::{Confirmed, TuneWanted};
use super::journal::{self, Entry};
use super::trial_runner::Means;
use crate::error::Error;

/// What is compared in fresh blocks.
pub(super) struct Fresh<'a> {
    pub(super) wanted: &'a TuneWanted,
    /// The experiment of the search, with the two settings among its variants.
    pub(super) search: &'a Experiment,
    /// The run of the search.
    pub(super) run: RunId,
    /// The default and the winner, by their variants.
    pub(super) pair: (usize, usize),
    pub(super) title: String,
}

impl Fresh<'_> {
    /// The winner against the default, as an ordinary run of so many blocks, which `text` announces; or the rest of that run
    /// where an earlier session began it.
    pub(super) fn confirm(&self, blocks: Blocks, text: String, means: Means<'_>) -> Result<Confirmed, Error> {
        let database = means.database;
        let (run, summary) = match journal::confirming(&Database::open(database)?, self.run)? {
            Some(begun) => (begun, self.resume(begun, means)?),
            None => {
                let Means { near, interrupt, observer, journal, .. } = means;
                observer.event(&Event::Notice { text, hint: None });
                let mut begun = Database::create(database)?;
                let ran = run::begin_in(
                    (&self.experiment(blocks), &[]),
                    &mut begun,
                    near,
                    interrupt,
                    observer,
                    |own, fresh| Ok(own.append_journal(self.run, &Entry::Confirming { confirming: fresh.0 })?),
                )?;
                journal::copy(journal, &Entry::Confirming { confirming: ran.0.0 })?;
                ran
            }
        };
        let data = Database::open(database)?.load_run(run)?;
        let verdicts = verdicts::of(&data);
        let of = |variant| data.trials.iter().filter(move |trial| trial.trial.variant == variant);
        let [of_default, constraints] = [0, 1].map(|at| ConstraintResults::of(&self.wanted.constraints, of(at)));
        let order = verdicts.lines.first().and_then(|line| order(&line.comparison.verdict, self.wanted));
        Ok(Confirmed { data, verdicts, order, constraints, of_default, summary })
    }

    fn experiment(&self, blocks: Blocks) -> Experiment {
        let (default, winner) = self.pair;
        self.search.duel(default, winner, &self.wanted.objective, blocks).titled(self.title.clone())
    }

    /// Runs what the run lacks.
    fn resume(&self, begun: RunId, means: Means<'_>) -> Result<Summary, Error> {
        let Means { database, near, interrupt, observer, journal, .. } = means;
        let mut database = Database::open(database)?;
        journal::copy(journal, &Entry::Confirming { confirming: begun.0 })?;
        let RunData { head, experiment: recorded, trials, .. } = database.load_run(begun)?;
        if head.status == RunStatus::Done {
            return Ok(Summary::default());
        }
        // The number of blocks is that of the plan, whatever time is left now.
        let experiment = self.experiment(recorded.compare().blocks);
        if *experiment.recorded() != recorded {
            return Err(Error::arguments(
                format!("run {begun} does not compare the settings that search {} chooses now", self.run),
                "start the search again, without --resume",
            ));
        }
        let done: Vec<PlannedTrial> = trials.iter().map(|trial| trial.trial).collect();
        // Where it was, unless the command line says otherwise.
        let asked = elsewhere(near, database.path()).is_some();
        let near = head.scratch.as_deref().filter(|_| !asked).unwrap_or(near);
        Ok(run::resume_in((&experiment, &[]), (&mut database, begun), &done, near, interrupt, observer)?)
    }
}

/// As many blocks as were asked for, or as the file has where these are more than the least: a file that says nothing of its blocks
/// has the least, with which half of the searches with noise ended without a winner.
pub(super) fn blocks_of_confirmation(wanted: &TuneWanted, first: &Experiment) -> Blocks {
    let own = first.compare();
    let least = prony_stats::MIN_BLOCKS;
    // With a time budget the file's blocks are as many as there can be.
    let is_number = own.blocks.max > least && own.budget.is_none();
    let Blocks { min, max } = if is_number { own.blocks } else { Blocks { min: least, max: 30 } };
    wanted.confirm.unwrap_or(Blocks { min: min.max(least), max })
}

/// Of the blocks, as many as the budget has time left for, at least the fewest; and what is said of it. The number is fixed
/// before the first of them, so that the interim analyses are those of the plan.
pub(super) fn within_budget(blocks: Blocks, blocks_left: Option<u32>) -> (Blocks, String) {
    let text = "the winner is compared with the default in fresh blocks".to_owned();
    let Some(fit) = blocks_left else { return (blocks, text) };
    let Blocks { min, max } = blocks;
    let most = Blocks { min, max: fit.clamp(min, max) };
    if fit < min {
        let min = count(min, "block");
        (most, format!("{text}: {min}, although the budget has time left for only about {fit}"))
    } else if fit < max {
        (most, format!("{text}: at most {}, for which the budget has time left", count(fit, "block")))
    } else {
        (most, text)
    }
}

/// The winner against the default by what was asked for, which may be the other direction of the metric: `--maximize` of a
/// number of operations. Which of the two is better may not be known.
fn order(verdict: &Verdict, wanted: &TuneWanted) -> Option<Ordering> {
    let usual = (wanted.objective.key.metric.better() == Better::Higher) == wanted.maximize;
    let by_value = |order: Ordering| Some(if usual { order } else { order.reverse() });
    match verdict {
        Verdict::Better | Verdict::BetterUncertain => by_value(Ordering::Less),
        Verdict::Worse | Verdict::WorseUncertain => by_value(Ordering::Greater),
        Verdict::NoDifference | Verdict::DiffersWithinMargin => Some(Ordering::Equal),
        // That one does not finish is bad in either direction.
        _ if verdict.is_better() => Some(Ordering::Less),
        _ if verdict.is_worse() => Some(Ordering::Greater),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::reading::{Reading, Why};

    #[test]
    fn winner_is_judged_by_the_direction_that_was_asked_for() {
        let wanted = |objective: &str, maximize| TuneWanted {
            file: "x.toml".into(),
            overrides: Default::default(),
            ranges: vec![],
            objective: objective.parse().unwrap(),
            maximize,
            constraints: vec![],
            defaults: vec![],
            grid: None,
            resolution: 0.05,
            budget: None,
            max_trials: None,
            confirm: None,
        };
        let is = |objective, maximize| {
            let verdicts = [Verdict::Better, Verdict::Worse, Verdict::DoesNotFinish, Verdict::NoDifference];
            verdicts.map(|verdict| order(&verdict, &wanted(objective, maximize)))
        };
        let [better, worse, alike] = [Ordering::Less, Ordering::Greater, Ordering::Equal].map(Some);
        assert_eq!([is("w.time", false), is("w.rate", true)], [[better, worse, worse, alike]; 2]);
        let other = [is("w.operations", true), is("w.rate", false)];
        assert_eq!(other, [[worse, better, worse, alike]; 2], "against the usual direction");
        let undecided = Verdict::CantTell { more_blocks: Reading::Missing(Why::NotReached) };
        assert_eq!(order(&undecided, &wanted("w.time", false)), None);
    }

    #[test]
    fn the_fresh_blocks_fit_the_time_that_is_left_as_far_as_a_verdict_allows() {
        let blocks = Blocks { min: 6, max: 30 };
        let (all, said) = within_budget(blocks, None);
        assert_eq!((all, said.as_str()), (blocks, "the winner is compared with the default in fresh blocks"));
        assert_eq!(within_budget(blocks, Some(100)).0, blocks);
        let (some, said) = within_budget(blocks, Some(12));
        assert_eq!(some, Blocks { min: 6, max: 12 });
        assert!(said.ends_with(": at most 12 blocks, for which the budget has time left"), "{said}");
        let (least, said) = within_budget(blocks, Some(2));
        assert_eq!(least, Blocks { min: 6, max: 6 });
        assert!(said.ends_with(": 6 blocks, although the budget has time left for only about 2"), "{said}");
    }
}
