//! Ranks candidates that ran in the same blocks.
//!
//! Values are logarithms; lower is better. A block's own level (a busy minute, a warm cache) is removed by subtracting
//! the median over its candidates. A candidate's estimate is the median of these differences, so that one extreme trial
//! has little effect. The noise is pooled over all candidates, so that two blocks of many candidates are enough to
//! estimate it. The race is exploratory: the winner is chosen by its own values in the race, which are therefore
//! biased. They do not measure an effect, and verdicts rest on new trials.

/// A candidate and its values by block.
pub(crate) type Lane = (usize, Vec<(u32, f64)>);

/// A candidate loses if it is this many standard errors behind: at three, equal candidates rarely lose by chance, even
/// among 32.
const BEHIND: f64 = 3.0;

/// How much wider the median's spread is than the mean's, for normal noise: sqrt(pi / 2).
const OF_MEDIAN: f64 = 1.2533;

/// The median absolute deviation of normal noise, inverted.
const OF_MAD: f64 = 1.4826;

/// Differences of logarithms below this are rounding.
const ROUNDING: f64 = 1e-9;

/// The state of a race.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RaceResult {
    /// Candidates with their estimate on the logarithmic scale, the best first; in ties the first of them.
    pub(crate) order: Vec<(usize, f64)>,
    /// A candidate further than this behind the best is a loser.
    pub(crate) margin: f64,
}

impl RaceResult {
    /// The candidates that are clearly behind.
    pub(crate) fn losers(&self) -> impl Iterator<Item = usize> + '_ {
        let best = self.order.first().map_or(0.0, |(_, effect)| *effect);
        self.order.iter().filter(move |(_, effect)| effect - best > self.margin).map(|(id, _)| *id)
    }
}

/// The state of these candidates after their blocks.
pub(crate) fn race_result(lanes: &[Lane]) -> RaceResult {
    let mut blocks: Vec<u32> = lanes.iter().flat_map(|(_, values)| values.iter().map(|(block, _)| *block)).collect();
    blocks.sort_unstable();
    blocks.dedup();
    let level = |block: u32| {
        let of = |(_, values): &Lane| values.iter().find(|(at, _)| *at == block).map(|(_, value)| *value);
        median(lanes.iter().filter_map(of).collect()).unwrap_or(0.0)
    };
    let levels: Vec<(u32, f64)> = blocks.iter().map(|block| (*block, level(*block))).collect();
    let above = |(block, value): &(u32, f64)| {
        let level = levels.iter().find(|(at, _)| at == block).map_or(0.0, |(_, level)| *level);
        value - level
    };
    let mut order = Vec::new();
    let mut differences = Vec::new();
    for (id, values) in lanes {
        let Some(effect) = median(values.iter().map(above).collect()) else { continue };
        order.push((*id, effect));
        let placed: Vec<f64> = values.iter().map(above).collect();
        let pairs = placed.iter().enumerate().flat_map(|(at, a)| placed[..at].iter().map(move |b| (a - b).abs()));
        differences.extend(pairs);
    }
    order.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
    RaceResult { order, margin: margin(differences, blocks.len()) }
}

/// How far behind is clearly behind, after so many blocks; after one, nothing is. The noise is read off the differences
/// between two blocks of one candidate: deviations from a median of three, one of which is zero, are too small.
fn margin(differences: Vec<f64>, blocks: usize) -> f64 {
    if blocks < 2 {
        return f64::INFINITY;
    }
    let noise = OF_MAD * median(differences).unwrap_or(0.0) / std::f64::consts::SQRT_2;
    BEHIND * OF_MEDIAN * noise * (2.0 / blocks as f64).sqrt() + ROUNDING
}

/// The middle value, of an even number the mean of the two; `None` of none.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() {
        0 => None,
        n if n % 2 == 1 => Some(values[half]),
        _ => Some((values[half - 1] + values[half]) / 2.0),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use prony_model::random::{GOLDEN, mix};

    /// Normal noise of standard deviation 1, by Box and Muller.
    pub(crate) fn normal(state: &mut u64) -> f64 {
        let mut uniform = || {
            *state = state.wrapping_add(GOLDEN);
            (mix(*state) >> 11) as f64 / (1u64 << 53) as f64
        };
        let (a, b) = (uniform().max(1e-300), uniform());
        (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
    }

    /// `n` candidates over some blocks: `truth(candidate)` plus a level of the block plus noise.
    fn race(n: usize, blocks: u32, noise: f64, seed: u64, truth: impl Fn(usize) -> f64) -> RaceResult {
        let mut state = seed;
        let levels: Vec<f64> = (0..blocks).map(|_| 3.0 * normal(&mut state)).collect();
        let mut lane = |id: usize| {
            let value = |block: u32| (block, truth(id) + levels[block as usize] + noise * normal(&mut state));
            (id, (0..blocks).map(value).collect())
        };
        race_result(&(0..n).map(&mut lane).collect::<Vec<_>>())
    }

    #[test]
    fn the_levels_of_blocks_do_not_matter() {
        let race_result = race(5, 3, 0.0, 4, |id| id as f64 * 0.01);
        assert_eq!(race_result.order.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        assert_eq!(
            race_result.losers().collect::<Vec<_>>(),
            [1, 2, 3, 4],
            "without noise the least difference is clear"
        );
    }

    #[test]
    fn equal_ones_are_seldom_losers_and_double_ones_nearly_always() {
        let share = |blocks, truth: fn(usize) -> f64| {
            let count = |seed: u64| race(16, blocks, 0.1, seed * 977, truth).losers().count();
            (0..200).map(count).sum::<usize>() as f64 / 200.0
        };
        for blocks in [2, 3, 5] {
            let equal = share(blocks, |_| 0.0);
            assert!(equal < 0.5, "{equal} of 15 equal ones lost after {blocks} blocks");
        }
        let double = share(2, |id| if id == 0 { 0.0 } else { 2f64.ln() });
        assert!(double > 14.0, "{double} of 15 that take twice as long lost after two blocks");
    }

    #[test]
    fn one_block_and_one_wild_trial_decide_nothing() {
        assert_eq!(race(8, 1, 0.1, 1, |id| id as f64).losers().count(), 0);
        let mut lanes: Vec<Lane> = (0..6).map(|id| (id, (0..5).map(|b| (b, 0.01 * id as f64)).collect())).collect();
        lanes[0].1[3].1 = 50.0;
        assert_eq!(race_result(&lanes).order[0].0, 0);
    }

    #[test]
    fn ties_go_to_the_first_and_lacking_values_are_borne() {
        let lanes: Vec<Lane> = vec![(3, vec![(0, 1.0), (1, 1.0)]), (1, vec![(0, 1.0)]), (2, vec![])];
        let race_result = race_result(&lanes);
        assert_eq!(race_result.order, [(1, 0.0), (3, 0.0)], "one without a value has no place");
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }
}
