//! Ranks candidates that ran in the same blocks.
//!
//! Values are logarithms; lower is better. A block's own level (a busy minute, a warm cache) is removed by subtracting
//! the median over its candidates. A candidate's estimate is the median of these differences, so that one extreme trial
//! has little effect. The noise is pooled over all candidates, so that two blocks of many candidates are enough to
//! estimate it. The race is exploratory: the winner is chosen by its own values in the race, which are therefore
//! biased. They do not measure an effect, and verdicts rest on new trials.

use prony_stats::summary::median;

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
        median(&lanes.iter().filter_map(of).collect::<Vec<_>>()).unwrap_or(0.0)
    };
    let levels: Vec<(u32, f64)> = blocks.iter().map(|block| (*block, level(*block))).collect();
    let above = |(block, value): &(u32, f64)| {
        let level = levels.iter().find(|(at, _)| at == block).map_or(0.0, |(_, level)| *level);
        value - level
    };
    let mut order = Vec::new();
    let mut differences = Vec::new();
    for (id, values) in lanes {
        let placed: Vec<f64> = values.iter().map(above).collect();
        let Some(effect) = median(&placed) else { continue };
        order.push((*id, effect));
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
    let noise = OF_MAD * median(&differences).unwrap_or(0.0) / std::f64::consts::SQRT_2;
    BEHIND * OF_MEDIAN * noise * (2.0 / blocks as f64).sqrt() + ROUNDING
}

#[cfg(test)]
pub(crate) mod tests;
