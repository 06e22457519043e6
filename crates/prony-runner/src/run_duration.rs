//! Accounts for a run's time: how long trials take with their preparation and waits, how much of the budget is left,
//! and whether it suffices for another block.
//!
//! Every span between the ends of two trials belongs to the later of them: its place, `prepare`, the wait for a quiet
//! disk, reference workloads, the trial itself, and storing the one before. What is done once (the machine's limits,
//! copies and builds of a variant, warm-up runs) is counted separately, so that it is not expected again.

use std::collections::BTreeMap;

use prony_experiment::design::Experiment;
use prony_experiment::plan::{self, profiles};
use prony_model::record::{Spent, TrialRecord};
use prony_model::trial::PlannedTrial;
use prony_model::units::Nanos;
use prony_stats::time_budget::{Budget, Times};

use crate::estimate::{self, Basis, Estimate};

/// The times of a run so far. Times are of one monotonic clock, which the caller reads.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunDuration {
    /// When this session began.
    began: Nanos,
    /// What earlier sessions took.
    before: Nanos,
    /// What came before the first block: the machine's limits, memory that is touched.
    setup: Nanos,
    /// The end of the last trial.
    marked: Nanos,
    /// What was done once, in all of this session, up to there.
    once: Nanos,
    /// What the current block took so far.
    block: Nanos,
    blocks: u32,
    budget: Option<Budget>,
    times: Times,
    /// Trials of each variant in the first block.
    in_block: BTreeMap<usize, u32>,
    /// Trials of each variant that the plan still has.
    left: BTreeMap<usize, u32>,
    profiles: u32,
    /// The cuts of crash trials, which come after the last block.
    cuts: Nanos,
}

impl RunDuration {
    /// For a run that begins, or is resumed, at a time.
    pub(crate) fn new(experiment: &Experiment, plan: &[PlannedTrial], began: Nanos) -> Self {
        let (mut in_block, mut left) = (BTreeMap::new(), BTreeMap::new());
        plan.iter().for_each(|trial| *left.entry(trial.variant).or_default() += 1);
        // The plan of a resumed run may have parts of the first block twice.
        for trial in plan::plan(experiment).iter().take_while(|trial| trial.block == 0) {
            *in_block.entry(trial.variant).or_default() += 1;
        }
        let cuts = estimate::cuts(experiment, &plan::outline(experiment));
        // Fixed before the first block: the rule of a budget must not depend on what was measured.
        let budget = experiment.compare().budget.map(|budget| Budget::new(budget.since(cuts)));
        let profiles = profiles(experiment).len() as u32;
        Self { began, marked: began, budget, in_block, left, profiles, cuts, ..Self::default() }
    }

    /// Adds what an earlier session did of the plan, in its order: the run's time is that of all its sessions.
    pub(crate) fn earlier(&mut self, plan: &[PlannedTrial], trials: &[TrialRecord]) {
        for block in trials.chunk_by(|a, b| a.trial.block == b.trial.block) {
            for record in block {
                let spent = Spent::of(&record.conditions, record.took);
                self.before += spent.time + spent.once;
                self.count(record.trial.variant, spent.time);
            }
            // The last of them may have been cut short: this session completes it.
            let next = block.last().and_then(|last| plan.get(last.trial.position as usize + 1));
            if next.is_none_or(|next| next.block != block[0].trial.block) {
                self.block_ended();
            }
        }
    }

    /// The first block begins now: what came before it is done once.
    pub(crate) fn is_set_up(&mut self, now: Nanos) {
        self.setup = now.since(self.began);
    }

    /// A trial ended now; `once` is what was done once in this session so far. What it took.
    pub(crate) fn trial_ended(&mut self, variant: usize, now: Nanos, once: Nanos) -> Spent {
        let all = self.setup + once;
        let once = all.since(self.once);
        let spent = Spent { time: now.since(self.marked).since(once), once };
        (self.marked, self.once) = (now, all);
        self.count(variant, spent.time);
        spent
    }

    fn elapsed(&self, now: Nanos) -> Nanos {
        self.before + now.since(self.began)
    }

    fn count(&mut self, variant: usize, time: Nanos) {
        self.times.trial(variant, time);
        self.block += time;
        if let Some(left) = self.left.get_mut(&variant) {
            *left = left.saturating_sub(1);
        }
    }

    /// A block is complete.
    pub(crate) fn block_ended(&mut self) {
        if let Some(budget) = &mut self.budget {
            budget.block(self.block);
        }
        self.block = Nanos::ZERO;
        self.blocks += 1;
    }

    /// Whether another block begins now, as far as time is concerned.
    pub(crate) fn goes_on(&self, now: Nanos) -> bool {
        let trials: u32 = self.in_block.values().sum();
        let after = f64::from(self.profiles) / f64::from(trials.max(1));
        self.budget.is_none_or(|budget| budget.allows_another(self.elapsed(now), after))
    }

    /// About how long the rest takes, at most: the plan or what the budget leaves, its profiles and its cuts.
    pub(crate) fn left(&self, now: Nanos) -> Option<Nanos> {
        let profiled = self.times.count().min(1) * self.profiles;
        let each = profiled / self.in_block.len().max(1) as u32;
        let with_profiles = self.left.iter().map(|(variant, left)| (*variant, left + each));
        let all = self.times.expected(with_profiles)?;
        Some(self.budget.map_or(all, |budget| all.min(budget.left(self.elapsed(now)))) + self.cuts)
    }

    /// About how long a block takes.
    pub(crate) fn of_a_block(&self) -> Option<Nanos> {
        self.times.expected(self.in_block.iter().map(|(variant, count)| (*variant, *count)))
    }

    /// Blocks that have run.
    pub(crate) const fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Trials of the plan, or, with a budget, about as many as fit; `None` while that is unknown.
    pub(crate) fn trials(&self, now: Nanos) -> Option<u32> {
        let left: u32 = self.left.values().sum();
        let Some(budget) = &self.budget else { return Some(self.times.count() + left) };
        let block = self.of_a_block()?.as_nanos().max(1);
        let trials: u32 = self.in_block.values().sum();
        let under_way = budget.left(self.elapsed(now)).as_nanos() as f64 / block as f64 * f64::from(trials);
        Some(self.times.count() + (under_way as u32).min(left))
    }

    /// What a block takes and everything else so far, which is not done again; about how many blocks the budget holds in all.
    pub(crate) fn in_budget(&self, now: Nanos) -> Option<(Estimate, u32)> {
        let (budget, block) = (self.budget.as_ref()?, self.of_a_block()?);
        let more = budget.left(self.elapsed(now)).as_nanos() / block.as_nanos().max(1);
        let once = self.elapsed(now).as_nanos().saturating_sub(block.as_nanos() * u64::from(self.blocks));
        let once = Nanos::from_nanos(once);
        let estimate = Estimate { block: Some(block), once, basis: Basis::Run, ..Estimate::default() };
        Some((estimate, self.blocks.saturating_add(u32::try_from(more).unwrap_or(u32::MAX))))
    }
}

#[cfg(test)]
mod tests {
    use prony_engines::catalog::Catalog;
    use prony_experiment::plan::plan;
    use prony_experiment::{check, parse};
    use prony_model::catalog::Overrides;
    use prony_model::outcome::{Ending, Outcome};
    use prony_model::reading::{Reading, Why};
    use prony_model::record::Conditions;

    use super::*;
    use crate::budget::Bought;

    fn experiment(compare: &str) -> Experiment {
        let text = format!(
            "[factors]\nengine = [\"memory\", \"lmdb\"]\n[compare]\nbaseline = {{ engine = \"memory\" }}\n{compare}\n\
             [store]\nengine = \"{{engine}}\"\n[data]\nrecords = 10\n[[phase]]\nname = \"write\"\nput = {{}}\n"
        );
        check(&parse(&text, "x.toml").unwrap(), &Catalog, &Overrides::default()).unwrap()
    }

    fn at(seconds: f64) -> Nanos {
        Nanos::from_nanos((seconds * 1e9) as u64)
    }

    /// Runs a plan by a scripted clock that begins at 1000 s, with 15 s before the first block: `took` is the time of a
    /// trial, `once` that of steps done once before it. Calls `each` after each trial with the clock. Returns the time
    /// until the end, and the number of blocks that ran.
    fn run(
        experiment: &Experiment,
        took: impl Fn(&PlannedTrial) -> f64,
        once: impl Fn(&PlannedTrial) -> f64,
        mut each: impl FnMut(&RunDuration, f64),
    ) -> (f64, u32) {
        let plan = plan(experiment);
        let mut course = RunDuration::new(experiment, &plan, at(1000.0));
        let (mut clock, mut done_once) = (1015.0, 0.0);
        course.is_set_up(at(clock));
        for block in plan.chunk_by(|a, b| a.block == b.block) {
            if !course.goes_on(at(clock)) {
                break;
            }
            for trial in block {
                done_once += once(trial);
                clock += once(trial) + took(trial);
                course.trial_ended(trial.variant, at(clock), at(done_once));
                each(&course, clock);
            }
            course.block_ended();
        }
        (clock - 1000.0, course.blocks())
    }

    #[test]
    fn what_is_done_once_is_not_expected_again() {
        // A build of a minute for each variant, then trials of 2 and 5 seconds: a block takes 9.
        let took = |trial: &PlannedTrial| if trial.variant == 0 { 2.0 } else { 5.0 };
        let build = |trial: &PlannedTrial| if trial.position < 3 { 40.0 } else { 0.0 };
        let mut left = Vec::new();
        let ended = run(&experiment("blocks = 20"), took, build, |course, clock| {
            left.push((course.left(at(clock)).unwrap().as_secs_f64(), clock - 1000.0));
        });
        assert_eq!(ended, (315.0, 20));
        for (said, clock) in &left[2..] {
            assert!((said - (315.0 - clock)).abs() < 1e-6, "{said} at {clock}");
        }
    }

    #[test]
    fn an_estimate_is_corrected_where_trials_become_slower() {
        let took = |trial: &PlannedTrial| if trial.block < 2 { 1.0 } else { 4.0 };
        let mut wrong = Vec::new();
        let all = run(
            &experiment("blocks = 10"),
            took,
            |_| 0.0,
            |course, clock| {
                wrong.push((course.left(at(clock)).unwrap().as_secs_f64(), clock - 1000.0));
            },
        );
        let factor = |at: usize| (all.0 - wrong[at].1) / wrong[at].0;
        assert!(factor(5) > 3.9 && factor(11) < 1.7 && factor(20) < 1.3, "{wrong:?}");
    }

    #[test]
    fn a_budget_is_met_within_one_block_whatever_the_trials_take() {
        let budget = experiment("budget = \"4 min\"");
        for seed in 0..50u64 {
            let uneven = |trial: &PlannedTrial| 0.5 + ((seed + 7) * (u64::from(trial.position) + 3) % 11) as f64;
            let build = |trial: &PlannedTrial| if trial.position == 0 { 30.0 } else { 0.0 };
            let mut expected = Vec::new();
            let (ended, blocks) = run(&budget, uneven, build, |course, clock| {
                expected.extend(course.in_budget(at(clock)).map(|(_, blocks)| blocks));
                assert!(course.left(at(clock)).unwrap() <= at(240.0));
            });
            let longest = 3.0 * 11.5;
            assert!((ended - 240.0).abs() < longest, "{ended}");
            // After the first block already the number of blocks is right within a factor of two of what it becomes.
            let after_a_block = f64::from(expected[2]);
            assert!(after_a_block < 2.0 * f64::from(blocks) && after_a_block > 0.5 * f64::from(blocks));
        }
    }

    /// Cuts came on top of the budget.
    #[test]
    fn a_budget_leaves_time_for_the_cuts_of_crash_trials() {
        let text = "[compare]\nbudget = \"60 s\"\n[store]\nengine = \"lmdb\"\n[data]\nrecords = 10\n[[phase]]\nname = \"write\"\nput = {}\n\
                    [[phase]]\nname = \"crash\"\nkill = { during = \"write\", cuts = 30, within = \"1 s\" }\n";
        let experiment = check(&parse(text, "x.toml").unwrap(), &Catalog, &Overrides::default()).unwrap();
        let cuts = estimate::cuts(&experiment, &plan::outline(&experiment));
        // Half a second on average, and two processes.
        assert!((at(15.0)..at(20.0)).contains(&cuts), "{cuts}");
        let mut left = Vec::new();
        let (ended, blocks) = run(&experiment, |_| 5.0, |_| 0.0, |course, clock| left.push(course.left(at(clock))));
        assert!(
            blocks > 1 && ended + cuts.as_secs_f64() <= 60.0 && ended + cuts.as_secs_f64() > 50.0,
            "{ended} {blocks}"
        );
        assert!(left.iter().all(|left| left.is_some_and(|left| left >= cuts)), "the rest includes them: {left:?}");
        let known = Estimate { block: Some(at(5.0)), basis: Basis::Run, ..Estimate::default() };
        let bought = Bought::of(&experiment, &plan::outline(&experiment), &known).unwrap();
        assert_eq!(
            bought.blocks.map(|(_, fit)| fit),
            Some((at(60.0).since(cuts).as_nanos() / at(5.0).as_nanos()) as u32)
        );
    }

    #[test]
    fn a_budget_counts_what_earlier_sessions_took() {
        let experiment = experiment("budget = \"100 s\"");
        let plan = plan(&experiment);
        let mut course = RunDuration::new(&experiment, &plan, at(5000.0));
        let record = |trial: &PlannedTrial| {
            let once = if trial.position == 0 { at(20.0) } else { Nanos::ZERO };
            let spent = Some(Spent { time: at(10.0), once });
            recorded(*trial, Conditions { spent, ..Conditions::default() })
        };
        course.earlier(&plan, &plan[..7].iter().map(record).collect::<Vec<_>>());
        // 90 s of two blocks of 30 s and a part of the third: 10 s are left.
        assert_eq!((course.blocks(), course.left(at(5004.0))), (2, Some(at(6.0))));
        course.trial_ended(0, at(5010.0), Nanos::ZERO);
        course.block_ended();
        assert!(!course.goes_on(at(5010.0)));
    }

    /// The hint named a budget of which what comes before the first block took the rest.
    #[test]
    fn budget_for_a_verdict_includes_what_came_before_the_first_block() {
        let experiment = experiment("budget = \"100 s\"");
        let plan = plan(&experiment);
        let mut course = RunDuration::new(&experiment, &plan, at(1000.0));
        course.is_set_up(at(1015.0));
        for (trial, end) in plan[..3].iter().zip([1025.0, 1035.0, 1045.0]) {
            course.trial_ended(trial.variant, at(end), Nanos::ZERO);
        }
        course.block_ended();
        let bought = Bought::measured(&experiment, course.in_budget(at(1045.0)).unwrap()).unwrap();
        assert_eq!((bought.blocks, bought.verdict_takes()), (Some((at(30.0), 2)), Some(at(15.0 + 6.0 * 30.0))));
    }

    fn recorded(trial: PlannedTrial, conditions: Conditions) -> TrialRecord {
        TrialRecord {
            trial,
            started_unix_ms: 0,
            took: Nanos::ZERO,
            ending: Ending { outcome: Outcome::Ok, phase: None, after: Nanos::ZERO, evidence: Vec::new() },
            phases: Vec::new(),
            effective: None,
            conditions,
            series: Vec::new(),
            sampler_cpu: Reading::Missing(Why::NotApplicable),
            findings: Vec::new(),
        }
    }
}
