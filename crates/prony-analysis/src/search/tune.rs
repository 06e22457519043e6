//! Tuning: settings are compared in interleaved blocks, those clearly behind are dropped, and a finer grid around the
//! best follows. The search ends when the steps are as fine as requested, when their effect is smaller than the noise,
//! or when the budget is used up.
//!
//! Every block contains the default setting, unless two of its trials have failed. A setting stays in the search only
//! while each of its trials succeeds and respects the constraints, and while the caller does not leave it out because a
//! guard refuses to compare it with the default. The winner is partly chosen by chance: its values here do not measure
//! an effect, and a verdict needs new trials.

use serde::{Deserialize, Serialize};

use super::grid::{self, Point};
use super::race::{Lane, RaceResult, race_result};
use super::range::Range;
use prony_experiment::plan::lone_block;
use prony_model::units::Nanos;
use prony_stats::summary::median;

/// Blocks of a grid before a setting is dropped for being slow.
const LEAST_BLOCKS: u32 = 2;

/// Blocks of a grid, at most.
const MOST_BLOCKS: u32 = 6;

/// Disturbed trials of a setting before it is given up.
const PATIENCE: u32 = 3;

/// Trials of the default that did not end well before it is left out of the blocks.
const DEFAULT_TRIES: u32 = 2;

/// What is searched, how finely and how long.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// What is varied; each has two bounds.
    pub ranges: Vec<Range>,
    /// The present setting: a value for each range, which may lie outside of it.
    pub default: Point,
    /// Values on each axis of the first grid; `None` for as many as [`grid::per_axis`] says.
    pub grid: Option<u32>,
    /// Steps are halved until they are as fine, as a share of each range.
    pub resolution: f64,
    /// Whether more is better.
    pub maximize: bool,
    /// Trials of the search at most.
    pub max_trials: Option<u32>,
    /// Time for all trials, those of the confirmation included.
    pub budget: Option<Nanos>,
    /// Blocks that the confirmation has at least.
    pub reserve: u32,
    /// Trials of the default in each block of the confirmation, which has one of the winner beside.
    pub of_default: u32,
    /// Seeds the order in blocks.
    pub seed: u64,
}

/// The result of a trial of a setting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TrialResult {
    /// It ended well and respected every constraint; the objective has this value. With 0 no ratio can be computed.
    Good(f64),
    /// It ended well and violated a constraint.
    Broke(f64),
    /// It failed because of the subject itself.
    Failed,
    /// Something outside may have ended it.
    Disturbed,
    /// The objective or a constraint could not be read, or a guard refuses the trial.
    Unread,
    /// Its block was interrupted and runs again: trials of two sessions are not compared.
    Unpaired,
}

/// Why a setting was dropped for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Out {
    /// A trial violated a constraint.
    Broke,
    /// A trial did not end well.
    Failed,
    /// Trials were ended from outside again and again.
    Disturbed,
    /// The objective could not be read.
    Unread,
    /// The objective was 0 in a trial: read, but a race of ratios cannot use it.
    Zero,
    /// A guard refuses to compare it with the default: its answers or its work differ.
    Unlike,
    /// The experiment's file does not allow it.
    Refused,
}

/// A setting in the search. The first is the default.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Its values.
    pub point: Point,
    /// Why it was dropped for good.
    pub out: Option<Out>,
    /// Its trials, whatever their results.
    pub trials: u32,
    /// The time of these trials.
    spent: Nanos,
    disturbed: u32,
    failed: u32,
    /// Logarithm of the objective by block, lower is better; also where a constraint was violated.
    values: Vec<(u32, f64)>,
}

/// A block to run: each of these settings once, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its number, from 0.
    pub number: u32,
    /// The grid it belongs to, from 0.
    pub round: u32,
    /// Settings by number.
    pub order: Vec<usize>,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Run a block and pass the result of each trial.
    Run(Block),
    /// Nothing; this is the result.
    Done(Found),
}

/// The result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// The best setting that respected every constraint; 0 is the default, also where it reached a value of 0 that was minimized.
    /// `None` also where no other setting that was tried can be compared with the default.
    pub winner: Option<usize>,
    /// How the search ended.
    pub end: End,
    /// Blocks that ran.
    pub blocks: u32,
    /// Trials that ran.
    pub trials: u32,
}

/// How a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The steps are as fine as requested, or no value lies between.
    Fine,
    /// A finer step made no difference larger than the noise.
    Noise,
    /// The allowed trials or the time are used up.
    Spent,
    /// No setting respected every constraint.
    NothingFeasible,
}

/// What was concluded after a block, for the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// The grid.
    pub round: u32,
    /// The block after which.
    pub block: u32,
    /// The setting that was ahead.
    pub ahead: Option<usize>,
    /// Settings that were clearly behind.
    pub behind: Vec<usize>,
    /// Settings that were dropped because only the better half stays.
    pub halved: Vec<usize>,
    /// Settings that stay.
    pub on: Vec<usize>,
}

/// One grid and its race.
#[derive(Clone, Debug, Default, PartialEq)]
struct Round {
    number: u32,
    /// Distance of neighbours, as a share of each range.
    step: f64,
    /// How many began.
    size: usize,
    /// The settings that are still in.
    alive: Vec<usize>,
    first_block: u32,
    /// Whether any was clearly behind, or violated a constraint.
    separated: bool,
}

/// A search in progress.
#[derive(Clone, Debug, PartialEq)]
pub struct Tune {
    settings: Settings,
    candidates: Vec<Candidate>,
    round: Round,
    /// Blocks that were requested so far.
    blocks: u32,
    spent: Nanos,
    /// Of the last grid that ended, the best first.
    ranking: Vec<usize>,
    decisions: Vec<Decision>,
}

impl Tune {
    /// A search that has tried nothing yet.
    pub fn new(settings: Settings) -> Self {
        let points = settings.grid.unwrap_or_else(|| grid::per_axis(settings.ranges.len())).max(2);
        let mut tune = Self {
            candidates: Vec::new(),
            round: Round { step: 1.0 / f64::from(points - 1), ..Round::default() },
            blocks: 0,
            spent: Nanos::ZERO,
            ranking: Vec::new(),
            decisions: Vec::new(),
            settings,
        };
        let default = tune.settings.default.clone();
        let grid = grid::coarse(&tune.settings.ranges, points, tune.settings.seed);
        let alive = std::iter::once(default).chain(grid).map(|point| tune.enter(point)).collect();
        tune.begin(alive);
        tune
    }

    /// Every setting so far, by number.
    pub fn candidates(&self) -> &[Candidate] {
        &self.candidates
    }

    /// Decisions since the last call.
    pub fn take_decisions(&mut self) -> Vec<Decision> {
        std::mem::take(&mut self.decisions)
    }

    /// The median ratio of a setting to the default in the blocks they share. It is biased: settings were chosen by it.
    pub fn ratio(&self, candidate: usize) -> Option<f64> {
        let default = &self.candidates[0].values;
        let ratio = |(block, value): &(u32, f64)| {
            default.iter().find(|(at, _)| at == block).map(|(_, default)| value - default)
        };
        let log = median(&self.candidates[candidate].values.iter().filter_map(ratio).collect::<Vec<_>>())?;
        Some(if self.settings.maximize { -log } else { log }.exp())
    }

    /// Blocks of the confirmation of a setting that the time left holds, each with so many trials of the default as the settings
    /// say, at the mean times of both; `None` without a budget or a trial.
    pub fn blocks_left(&self, winner: usize) -> Option<u32> {
        let budget = self.settings.budget.filter(|_| self.ran_in_all() > 0)?;
        let left = (budget.as_secs_f64() - self.spent.as_secs_f64()).max(0.0);
        // Without a cost of its own a block fits any number of times: the cast saturates.
        Some((left / self.of_confirmation(winner)) as u32)
    }

    /// What a block of the confirmation takes, in seconds. The default, which is often the slowest of all, has most of its trials.
    fn of_confirmation(&self, winner: usize) -> f64 {
        f64::from(self.settings.of_default) * self.of_trial(0) + self.of_trial(winner)
    }

    /// What a trial of a setting takes, in seconds: the mean of its own, or of all trials where it has none.
    fn of_trial(&self, candidate: usize) -> f64 {
        let (spent, trials) = match &self.candidates[candidate] {
            Candidate { trials: 0, .. } => (self.spent, self.ran_in_all()),
            Candidate { spent, trials, .. } => (*spent, *trials),
        };
        spent.as_secs_f64() / f64::from(trials.max(1))
    }

    /// How a trial of a block went, and what it cost.
    pub fn record(&mut self, candidate: usize, result: TrialResult, cost: Nanos) {
        self.spent += cost;
        if result == TrialResult::Unpaired {
            return;
        }
        let block = self.blocks.saturating_sub(1);
        let sign = if self.settings.maximize { -1.0 } else { 1.0 };
        let this = &mut self.candidates[candidate];
        this.trials += 1;
        this.spent += cost;
        let out = match result {
            TrialResult::Good(value) | TrialResult::Broke(value) if value > 0.0 && value.is_finite() => {
                this.values.push((block, sign * value.ln()));
                matches!(result, TrialResult::Broke(_)).then_some(Out::Broke)
            }
            // There is no logarithm of zero, so that no ratio can be stated.
            TrialResult::Good(0.0) => Some(Out::Zero),
            TrialResult::Good(_) | TrialResult::Unread => Some(Out::Unread),
            TrialResult::Broke(_) => Some(Out::Broke),
            TrialResult::Failed => Some(Out::Failed),
            TrialResult::Unpaired => None,
            TrialResult::Disturbed => {
                this.disturbed += 1;
                (this.disturbed >= PATIENCE).then_some(Out::Disturbed)
            }
        };
        this.failed += u32::from(matches!(
            result,
            TrialResult::Failed | TrialResult::Disturbed | TrialResult::Unread | TrialResult::Good(0.0)
        ));
        // What else a trial of a setting shows that reached 0 says more than that there is no ratio.
        this.out = this.out.filter(|known| *known != Out::Zero).or(out).or(this.out);
    }

    /// Drops a setting for good, since a guard refuses to compare it with the default.
    pub fn leave_out(&mut self, candidate: usize) {
        self.candidates[candidate].out.get_or_insert(Out::Unlike);
    }

    /// Drops a setting of the present block before it runs, since the experiment's file does not allow it.
    pub fn refuse(&mut self, candidate: usize) {
        self.candidates[candidate].out = Some(Out::Refused);
        self.round.alive.retain(|id| *id != candidate);
        self.round.size = self.round.alive.len();
    }

    /// Whether settings beside the default were tried, and none of them was compared with it, of some for no fault of their own:
    /// they were left out, ended from outside, or have no reading; or whether the file allows none.
    pub fn is_default_uncompared(&self) -> bool {
        let tried = || self.candidates[1..].iter().filter(|candidate| candidate.trials > 0);
        let is_unknown = |candidate: &Candidate| match candidate.out {
            Some(Out::Unlike | Out::Disturbed | Out::Unread) => true,
            None => candidate.values.is_empty(),
            Some(_) => false,
        };
        let is_default_read = self.candidates[0].out.is_none();
        let rivals = &self.candidates[1..];
        let is_all_refused = !rivals.is_empty() && rivals.iter().all(|candidate| candidate.out == Some(Out::Refused));
        is_default_read
            && (is_all_refused || tried().any(is_unknown))
            && !tried().any(|candidate| candidate.out.is_none() && !candidate.values.is_empty())
    }

    /// The next step, after the result of every trial of the last block was passed to [`Self::record`].
    pub fn step(&mut self) -> Step {
        if self.ran() > 0 {
            self.judge();
        }
        while self.round_is_over() {
            if let Some(end) = self.advance() {
                return self.done(end);
            }
        }
        let order = self.members();
        if !self.affordable(&order) {
            return self.done(End::Spent);
        }
        let number = self.blocks;
        self.blocks += 1;
        let (_, places) = lone_block(self.settings.seed, number, order.len());
        let order = places.into_iter().map(|at| order[at]).collect();
        Step::Run(Block { number, round: self.round.number, order })
    }

    /// Blocks of this grid.
    fn ran(&self) -> u32 {
        self.blocks - self.round.first_block
    }

    fn enter(&mut self, point: Point) -> usize {
        if let Some(known) = self.candidates.iter().position(|candidate| candidate.point == point) {
            return known;
        }
        let new =
            Candidate { point, out: None, trials: 0, spent: Nanos::ZERO, disturbed: 0, failed: 0, values: Vec::new() };
        self.candidates.push(new);
        self.candidates.len() - 1
    }

    fn begin(&mut self, mut alive: Vec<usize>) {
        alive.retain(|id| self.candidates[*id].out.is_none());
        alive.sort_unstable();
        alive.dedup();
        self.round.size = alive.len();
        self.round.alive = alive;
        self.round.first_block = self.blocks;
        self.round.separated = false;
    }

    /// The settings that run in a block: those still in, and the default, until it has failed too often.
    fn members(&self) -> Vec<usize> {
        let mut members = self.round.alive.clone();
        if !members.contains(&0) && self.candidates[0].failed < DEFAULT_TRIES {
            members.push(0);
        }
        members.sort_unstable();
        members
    }

    fn race_result(&self) -> RaceResult {
        let from = self.round.first_block;
        let of_round = |id: &usize| -> Lane {
            let values = self.candidates[*id].values.iter().filter(|(block, _)| *block >= from);
            (*id, values.copied().collect())
        };
        race_result(&self.round.alive.iter().map(of_round).collect::<Vec<_>>())
    }

    /// After a block: drops settings that violated a constraint or are clearly behind, and the worse half of the rest.
    fn judge(&mut self) {
        let before = self.round.alive.len();
        let candidates = &self.candidates;
        self.round.alive.retain(|id| candidates[*id].out.is_none());
        self.round.separated |= self.round.alive.len() < before;
        let race_result = self.race_result();
        let ahead = race_result.order.first().map(|(id, _)| *id);
        let (mut behind, mut halved) = (Vec::new(), Vec::new());
        if self.ran() >= LEAST_BLOCKS {
            behind = race_result.losers().collect();
            self.round.separated |= !behind.is_empty();
            let keep = self.round.size.div_ceil(1 << (self.ran() - 1)).max(1);
            let rest = race_result.order.iter().map(|(id, _)| *id).filter(|id| !behind.contains(id));
            halved = rest.skip(keep).collect();
            self.round.alive.retain(|id| !behind.contains(id) && !halved.contains(id));
        }
        let (round, block) = (self.round.number, self.blocks - 1);
        self.decisions.push(Decision { round, block, ahead, behind, halved, on: self.round.alive.clone() });
        if let Some(ahead) = ahead {
            self.ranking = std::iter::once(ahead)
                .chain(race_result.order.iter().skip(1).map(|(id, _)| *id))
                .chain(
                    self.ranking.iter().copied().filter(|id| !race_result.order.iter().any(|(known, _)| known == id)),
                )
                .collect();
        }
    }

    fn round_is_over(&self) -> bool {
        let single = self.round.alive.len() <= 1 && self.ran() >= LEAST_BLOCKS;
        self.round.alive.is_empty() || single || self.ran() >= MOST_BLOCKS
    }

    /// The next grid, or why there is none.
    fn advance(&mut self) -> Option<End> {
        let Some(centre) = self.best() else { return Some(End::NothingFeasible) };
        if !self.round.alive.is_empty() && !self.round.separated {
            return Some(End::Noise);
        }
        // If all settings of a grid violated a constraint, the next best setting gets the same step.
        let again = self.round.alive.is_empty();
        let mut coarser = self.round.step * if again { 2.0 } else { 1.0 };
        loop {
            if coarser <= self.settings.resolution {
                return Some(End::Fine);
            }
            let step = coarser / 2.0;
            let neighbours = grid::neighbours(&self.settings.ranges, &self.candidates[centre].point, step);
            let mut alive: Vec<usize> = neighbours.into_iter().map(|point| self.enter(point)).collect();
            alive.retain(|id| self.candidates[*id].out.is_none());
            if !alive.is_empty() {
                alive.push(centre);
                self.round = Round { number: self.round.number + 1, step, ..self.round.clone() };
                self.begin(alive);
                return None;
            }
            coarser = step;
        }
    }

    /// The best setting that was not dropped.
    fn best(&self) -> Option<usize> {
        self.ranking.iter().copied().find(|id| self.candidates[*id].out.is_none())
    }

    /// Trials that the next block would have.
    pub fn trials_of_next_block(&self) -> usize {
        self.members().len()
    }

    /// Trials of all settings.
    fn ran_in_all(&self) -> u32 {
        self.candidates.iter().map(|candidate| candidate.trials).sum()
    }

    /// Whether a block of these settings and the least confirmation are within what is allowed.
    fn affordable(&self, members: &[usize]) -> bool {
        let run = self.ran_in_all();
        let more = u32::try_from(members.len()).unwrap_or(u32::MAX);
        if self.settings.max_trials.is_some_and(|most| run.saturating_add(more) > most) {
            return false;
        }
        let Some(budget) = self.settings.budget.filter(|_| run > 0) else { return true };
        let block: f64 = members.iter().map(|candidate| self.of_trial(*candidate)).sum();
        let reserve = f64::from(self.settings.reserve) * self.of_confirmation(self.best().unwrap_or(0));
        self.spent.as_secs_f64() + block + reserve <= budget.as_secs_f64()
    }

    /// Whether the default reached the value than which none is better, in each of its trials that has a value.
    fn is_default_zero(&self) -> bool {
        let default = &self.candidates[0];
        !self.settings.maximize && default.out == Some(Out::Zero) && default.values.is_empty()
    }

    fn done(&self, end: End) -> Step {
        // The default that nothing was compared with is not the best of anything.
        let best = self.best().filter(|_| !self.is_default_uncompared());
        let winner = if self.is_default_zero() { Some(0) } else { best };
        Step::Done(Found { winner, end, blocks: self.blocks, trials: self.ran_in_all() })
    }
}

#[cfg(test)]
mod tests;
