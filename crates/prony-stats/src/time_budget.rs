//! Estimates times: whether a run's budget suffices for another block, and how long the rest of a plan takes.

use std::collections::BTreeMap;

use prony_model::units::Nanos;

/// A limit on a run's time. A further block begins only if it would end within the limit even if it took as long as the
/// longest block so far.
///
/// The rule has one more task. Where duration is the metric, the number of blocks depends on what is compared, and the
/// closing analysis is exact only where the rule can but become stricter as blocks are added, whatever they took
/// (`docs/verdicts.md`). Elapsed time and the longest block both only grow; a mean, which a short block makes smaller,
/// does not have this property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    time: Nanos,
    longest: Nanos,
}

impl Budget {
    /// A limit of so much time; no block has run.
    pub const fn new(time: Nanos) -> Self {
        Self { time, longest: Nanos::ZERO }
    }

    /// All of the time.
    pub const fn time(&self) -> Nanos {
        self.time
    }

    /// A block ended that took so long, without steps done only once, such as builds.
    pub fn block(&mut self, took: Nanos) {
        self.longest = self.longest.max(took);
    }

    /// Whether another block fits after so much time, and `after` blocks' worth of what follows the last; the first
    /// always runs.
    pub fn allows_another(&self, elapsed: Nanos, after: f64) -> bool {
        let nanos = |time: Nanos| time.as_nanos() as f64;
        self.longest == Nanos::ZERO || nanos(elapsed) + nanos(self.longest) * (1.0 + after) <= nanos(self.time)
    }

    /// The time that is left after so much time.
    pub fn left(&self, elapsed: Nanos) -> Nanos {
        self.time.since(elapsed)
    }
}

/// How long trials take, by variant, with all that belongs to them but what is done once: waits, preparation, copies,
/// bringing the machine to a quiet state, the record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Times(BTreeMap<usize, (u32, Nanos)>);

impl Times {
    /// A trial of a variant ended that took so long.
    pub fn trial(&mut self, variant: usize, took: Nanos) {
        let (count, sum) = self.0.entry(variant).or_default();
        (*count, *sum) = (*count + 1, *sum + took);
    }

    /// Trials so far.
    pub fn count(&self) -> u32 {
        self.0.values().map(|(count, _)| count).sum()
    }

    /// The mean of a variant's trials; if it had none, that of all.
    pub fn mean(&self, variant: usize) -> Option<Nanos> {
        let of = |(count, sum): (u32, Nanos)| Nanos::from_nanos(sum.as_nanos() / u64::from(count.max(1)));
        let all = || self.0.values().fold((0, Nanos::ZERO), |(n, sum), (count, took)| (n + count, sum + *took));
        let own = self.0.get(&variant).copied();
        own.or_else(|| Some(all()).filter(|(count, _)| *count > 0)).map(of)
    }

    /// About how long so many trials of each variant take; `None` before the first trial.
    pub fn expected(&self, trials: impl IntoIterator<Item = (usize, u32)>) -> Option<Nanos> {
        let one =
            |(variant, count): (usize, u32)| Some(self.mean(variant)?.as_nanos().saturating_mul(u64::from(count)));
        let sum = trials.into_iter().map(one).try_fold(0u64, |sum, one| Some(sum.saturating_add(one?)))?;
        (!self.0.is_empty()).then(|| Nanos::from_nanos(sum))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Runs blocks of scripted times until the budget holds no more; when it ended, and how many ran.
    fn run(time: u64, blocks: &[u64]) -> (u64, usize) {
        let (mut budget, mut clock) = (Budget::new(Nanos::from_millis(time)), 0);
        for (ran, took) in blocks.iter().enumerate() {
            if !budget.allows_another(Nanos::from_millis(clock), 0.0) {
                return (clock, ran);
            }
            clock += took;
            budget.block(Nanos::from_millis(*took));
        }
        (clock, blocks.len())
    }

    #[test]
    fn a_budget_of_equal_blocks_is_filled_and_never_exceeded() {
        assert_eq!(run(1000, &[100; 50]), (1000, 10));
        assert_eq!(run(1050, &[100; 50]), (1000, 10));
        // The first block runs whatever it takes: nothing is known before.
        assert_eq!(run(50, &[100; 50]), (100, 1));
    }

    #[test]
    fn what_follows_the_blocks_has_its_time() {
        let mut budget = Budget::new(Nanos::from_secs(100));
        budget.block(Nanos::from_secs(10));
        assert!(budget.allows_another(Nanos::from_secs(85), 0.5));
        assert!(!budget.allows_another(Nanos::from_secs(86), 0.5));
        assert_eq!(budget.left(Nanos::from_secs(130)), Nanos::ZERO);
    }

    #[test]
    fn the_rest_is_estimated_by_variant_and_corrected_by_each_trial() {
        let mut times = Times::default();
        assert_eq!(times.expected([(0, 5)]), None);
        times.trial(0, Nanos::from_secs(2));
        assert_eq!(times.expected([(0, 5), (1, 5)]), Some(Nanos::from_secs(20)), "the other is taken as alike");
        times.trial(1, Nanos::from_secs(10));
        assert_eq!(times.expected([(0, 5), (1, 5)]), Some(Nanos::from_secs(60)));
        times.trial(1, Nanos::from_secs(30));
        assert_eq!(times.expected([(0, 5), (1, 5)]), Some(Nanos::from_secs(110)));
        assert_eq!((times.expected([]), times.count()), (Some(Nanos::ZERO), 3));
    }

    proptest! {
        #[test]
        fn a_budget_is_met_within_one_block(time in 1u64..5000, blocks in prop::collection::vec(1u64..1000, 100)) {
            let (ended, ran) = run(time, &blocks);
            prop_assume!(ran < blocks.len());
            let longest = *blocks[..ran].iter().max().unwrap();
            prop_assert!(ended < time + longest && time < ended + longest, "{time}: {ended} after {ran}");
        }

        #[test]
        fn an_estimate_after_one_block_is_as_right_as_the_block(spread in prop::collection::vec(67u64..100, 60)) {
            // Two variants, blocks that differ by at most a half: so does the estimate of the rest.
            let mut times = Times::default();
            spread[..2].iter().enumerate().for_each(|(v, ms)| times.trial(v, Nanos::from_millis(*ms)));
            let said = times.expected([(0, 29), (1, 29)]).unwrap().as_secs_f64();
            let took = spread[2..].iter().sum::<u64>() as f64 / 1e3;
            prop_assert!(said / took < 1.5 && took / said < 1.5, "{said} for {took}");
        }
    }
}
