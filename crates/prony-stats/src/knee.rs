//! Finds the knee of a curve: the level of a numeric factor beyond which raising it gains little, such as the number of connections
//! with which a server reaches its capacity.
//!
//! The method is Kneedle (Satopaa, Albrecht, Irwin and Raghavan, "Finding a 'Kneedle' in a haystack", ICDCS Workshops 2011) with
//! sensitivity 1, on medians over the blocks. It assumes only that the curve rises and bends, so that it is of use for a rate of
//! an open loop as well as for connections of a closed one. The Universal Scalability Law (Gunther) describes closed
//! loops only, and its maximum is where throughput begins to fall, which many servers never do. Intersections of two fitted
//! lines find capacities between levels, but need throughput to be straight on both sides.
//!
//! Kneedle compares the curve with the chord from its first to its last level: a knee is a knee of the range that was
//! measured. Two levels beyond it are needed, and it is never more exact than the levels are close.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::binomial::fair_tail;
use super::summary::median;
use prony_model::random::{Stream, mix};

/// Kneedle's sensitivity; its authors' choice for curves that are complete.
const SENSITIVITY: f64 = 1.0;
/// A curve whose greatest distance from its chord is smaller is called straight, whatever the distance of its levels: with many
/// levels the sensitivity permits bends that noise has too.
const LEAST_BEND: f64 = 0.15;
/// Levels, at least: fewer have no bend that can be distinguished from noise.
pub const LEAST_LEVELS: usize = 5;
/// Blocks, at least: fewer have no spread to speak of.
pub const LEAST_BLOCKS: usize = 5;
/// Samples of blocks with replacement.
const RESAMPLES: usize = 400;
/// The share of resamples that must have a knee.
const MUST_HAVE: f64 = 0.975;
/// The share of the resamples' knees that the interval contains, from both ends.
const TAIL: f64 = 0.025;
/// The rise from the first level to the knee, at least, as a share of the knee's value.
const LEAST_RISE: f64 = 0.2;

/// A value of the metric at a level of the factor, in a block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The level.
    pub x: f64,
    /// The metric there.
    pub y: f64,
    /// The block.
    pub block: u32,
}

/// A knee.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Knee {
    /// The level at which the curve bends most.
    pub x: f64,
    /// The median of the metric there.
    pub y: f64,
    /// The knee lies above this level, the one before the lowest knee of 95 % of the resamples.
    pub low: f64,
    /// And below this one, the one after the highest.
    pub high: f64,
    /// The median of the metric at the last level.
    pub last: f64,
}

/// Why a curve has no knee.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NoKnee {
    /// Fewer levels than [`LEAST_LEVELS`].
    FewLevels {
        /// How many have values.
        levels: usize,
    },
    /// Fewer blocks with a value at each level than [`LEAST_BLOCKS`].
    FewBlocks {
        /// How many there are.
        blocks: usize,
    },
    /// The metric does not rise from the first level on.
    Flat,
    /// It rises and does not bend, or does so at the end of the measured range.
    Straight,
    /// Too many resamples of the blocks have no knee.
    Doubtful {
        /// The share that has one.
        share: f64,
    },
    /// Resamples of the blocks have knees too far apart.
    Wide {
        /// The level above which they lie.
        low: f64,
        /// The level below which they lie.
        high: f64,
    },
}

/// The knee of a curve that rises, from values of all blocks. Blocks without a value at each level are left out. `seed` chooses the
/// resamples: equal points and seeds have equal results.
///
/// # Errors
/// Why there is none.
pub fn knee(points: &[Point], seed: u64) -> Result<Knee, NoKnee> {
    let (levels, rows) = complete(points);
    if levels.len() < LEAST_LEVELS {
        return Err(NoKnee::FewLevels { levels: levels.len() });
    }
    if rows.len() < LEAST_BLOCKS {
        return Err(NoKnee::FewBlocks { blocks: rows.len() });
    }
    let all: Vec<usize> = (0..rows.len()).collect();
    let curve = medians(&rows, &all, levels.len());
    let at = kneedle(&levels, &curve).ok_or(if rises(&curve) { NoKnee::Straight } else { NoKnee::Flat })?;
    let mut stream = Stream::new(mix(seed));
    let mut resample = || {
        let sample: Vec<usize> = all.iter().map(|_| stream.below(rows.len() as u64) as usize).collect();
        kneedle(&levels, &medians(&rows, &sample, levels.len()))
    };
    let mut found: Vec<usize> = (0..RESAMPLES).filter_map(|_| resample()).collect();
    let share = found.len() as f64 / RESAMPLES as f64;
    if share < MUST_HAVE {
        return Err(NoKnee::Doubtful { share });
    }
    found.sort_unstable();
    let tail = (found.len() as f64 * TAIL) as usize;
    let (first, last) = (found[tail].min(at), found[found.len() - 1 - tail].max(at));
    // A knee has a level on both sides.
    let (low, high) = (levels[first - 1], levels[last + 1]);
    if last - first > most_apart(levels.len()) {
        return Err(NoKnee::Wide { low, high });
    }
    let ends = curve.last().copied().unwrap_or_default();
    Ok(Knee { x: levels[at], y: curve[at], low, high, last: ends })
}

/// How many levels the knees of resamples may be apart.
fn most_apart(levels: usize) -> usize {
    (levels / 4).max(1)
}

/// The levels, rising, and the values of each block that has one at each of them.
fn complete(points: &[Point]) -> (Vec<f64>, Vec<Vec<f64>>) {
    let sound = |point: &&Point| point.x.is_finite() && point.y.is_finite();
    let mut levels: Vec<f64> = points.iter().filter(sound).map(|point| point.x).collect();
    levels.sort_by(f64::total_cmp);
    levels.dedup();
    let mut blocks: Vec<u32> = points.iter().map(|point| point.block).collect();
    blocks.sort_unstable();
    blocks.dedup();
    let value = |block: u32, x: f64| points.iter().filter(sound).find(|p| p.block == block && p.x == x).map(|p| p.y);
    let row = |block: &u32| levels.iter().map(|x| value(*block, *x)).collect::<Option<Vec<f64>>>();
    let rows = blocks.iter().filter_map(row).collect();
    (levels, rows)
}

fn medians(rows: &[Vec<f64>], sample: &[usize], levels: usize) -> Vec<f64> {
    let at = |level: usize| {
        let values: Vec<f64> = sample.iter().map(|row| rows[*row][level]).collect();
        median(&values).unwrap_or_default()
    };
    (0..levels).map(at).collect()
}

/// Whether the curve rises by more than a fifth of its greatest value.
fn rises(curve: &[f64]) -> bool {
    let most = curve.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    most - curve[0] > LEAST_RISE * most.abs()
}

/// The place of the knee by Kneedle: the greatest local maximum of the normalised curve's distance from its chord, after which
/// this distance falls by more than the mean distance of two levels. It is neither the first nor the last place.
fn kneedle(xs: &[f64], ys: &[f64]) -> Option<usize> {
    let last = xs.len() - 1;
    let (least, most) = ys.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), y| (a.min(*y), b.max(*y)));
    if !rises(ys) || most <= least {
        return None;
    }
    let distance = |at: usize| (ys[at] - least) / (most - least) - (xs[at] - xs[0]) / (xs[last] - xs[0]);
    let distances: Vec<f64> = (0..=last).map(distance).collect();
    let is_top = |at: &usize| distances[*at] > distances[at - 1] && distances[*at] >= distances[at + 1];
    let tops: Vec<usize> = (1..last).filter(is_top).collect();
    let mut best: Option<usize> = None;
    for (nth, top) in tops.iter().enumerate() {
        let threshold = distances[*top] - SENSITIVITY / last as f64;
        let until = tops.get(nth + 1).copied().unwrap_or(last + 1);
        let falls = distances[*top..until].iter().any(|distance| *distance < threshold);
        let bends = distances[*top] >= LEAST_BEND && ys[*top] - ys[0] > LEAST_RISE * ys[*top].abs();
        if falls && bends && best.is_none_or(|best| distances[best] < distances[*top]) {
            best = Some(*top);
        }
    }
    best
}

/// Where goodput falls while work for each success rises: retries and contention take what the load adds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Overload {
    /// The level with the greatest median of goodput.
    pub best: f64,
    /// The first level after it where both hold.
    pub at: f64,
    /// Goodput there as a multiple of that at `best`: the median of the ratios within the blocks.
    pub goodput: f64,
    /// The same of work for each success.
    pub work: f64,
}

/// The change of a median ratio that counts.
const CHANGE: f64 = 0.05;
/// The level of the sign tests.
const ALPHA: f64 = 0.05;

/// Finds the first level after the one with the greatest goodput at which goodput is lower and work for each success is higher
/// within the blocks, each by a one-sided sign test at 5 % and by more than 5 % in the median.
pub fn overload(goodput: &[Point], work: &[Point]) -> Option<Overload> {
    let (levels, rows) = complete(goodput);
    let all: Vec<usize> = (0..rows.len()).collect();
    if rows.len() < LEAST_BLOCKS {
        return None;
    }
    let curve = medians(&rows, &all, levels.len());
    let best = (0..levels.len()).max_by(|a, b| curve[*a].total_cmp(&curve[*b]))?;
    let found = |at: &f64| {
        let (goodput, work) = (changed(goodput, levels[best], *at, -1.0)?, changed(work, levels[best], *at, 1.0)?);
        Some(Overload { best: levels[best], at: *at, goodput, work })
    };
    levels[best + 1..].iter().find_map(found)
}

/// The median ratio of the values at two levels within blocks, if it is beyond 1 in this direction.
fn changed(points: &[Point], from: f64, to: f64, direction: f64) -> Option<f64> {
    let at = |x: f64| points.iter().filter(move |point| point.x == x && point.y.is_finite() && point.y > 0.0);
    let ratio = |a: &Point| at(to).find(|b| b.block == a.block).map(|b| b.y / a.y);
    let ratios: Vec<f64> = at(from).filter_map(ratio).collect();
    let beyond = ratios.iter().filter(|ratio| direction * (**ratio - 1.0) > 0.0).count() as u32;
    let middle = median(&ratios)?;
    let is_large = direction * middle.ln() > CHANGE.ln_1p();
    (is_large && tail(ratios.len() as u32, beyond) <= ALPHA).then_some(middle)
}

/// The probability of so many heads or more in `n` throws.
fn tail(n: u32, heads: u32) -> f64 {
    fair_tail(n - heads, n)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A value from the normal distribution, by Box and Muller.
    fn normal(stream: &mut Stream) -> f64 {
        let radius = (-2.0 * (1.0 - stream.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * stream.unit()).cos()
    }

    /// A curve with a coefficient of variation within blocks and as much between them.
    fn noisy(xs: &[f64], curve: impl Fn(f64) -> f64, cv: f64, blocks: u32, seed: u64) -> Vec<Point> {
        let mut stream = Stream::new(mix(seed));
        let mut points = Vec::new();
        for block in 0..blocks {
            let of_block = cv * normal(&mut stream);
            for x in xs {
                points.push(Point { x: *x, y: curve(*x) * (of_block + cv * normal(&mut stream)).exp(), block });
            }
        }
        points
    }

    fn doubling(levels: i32) -> Vec<f64> {
        (0..levels).map(|n| 100.0 * 2.0_f64.powi(n)).collect()
    }

    fn even(levels: u32) -> Vec<f64> {
        (1..=levels).map(|n| 100.0 * f64::from(n)).collect()
    }

    /// An open loop against a server of this capacity, and a closed loop of connections whose requests wait for one server
    /// (the machine repairman model with exponential times: Lazowska et al., "Quantitative System Performance", 1984).
    #[test]
    fn capacity_of_a_server_lies_within_the_interval() {
        let open = knee(&noisy(&doubling(8), |x| x.min(2_000.0), 0.03, 6, 1), 1).unwrap();
        assert!(open.low < 2_000.0 && 2_000.0 < open.high, "{open:?}");
        assert!((open.x == 1_600.0 || open.x == 3_200.0) && (open.last / 2_000.0 - 1.0).abs() < 0.1, "{open:?}");
        // 1 ms at the server, 9 ms elsewhere: it saturates at 10 connections and serves 1000 a second.
        let closed = |n: f64| {
            let (mut queue, mut throughput) = (0.0, 0.0);
            for population in 1..=n as u32 {
                let response = 0.001 * (1.0 + queue);
                throughput = f64::from(population) / (0.009 + response);
                queue = throughput * response;
            }
            throughput
        };
        let xs = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0];
        let found = knee(&noisy(&xs, closed, 0.02, 6, 2), 1).unwrap();
        assert!(found.low <= 10.0 && 10.0 <= found.high, "{found:?}");
        assert!((found.last / 1_000.0 - 1.0).abs() < 0.05, "{found:?}");
    }

    #[test]
    fn curves_without_a_knee_have_none() {
        for xs in [doubling(7), even(6), even(15)] {
            let of = |curve: fn(f64) -> f64| knee(&noisy(&xs, curve, 0.02, 6, 3), 1);
            assert_eq!(of(|x| x), Err(NoKnee::Straight));
            assert_eq!(of(|x| x * x), Err(NoKnee::Straight));
            assert_eq!(of(|_| 700.0), Err(NoKnee::Flat));
            assert_eq!(of(|x| 1e6 / x), Err(NoKnee::Flat));
        }
        // The range ends where the curve begins to bend.
        assert_eq!(knee(&noisy(&even(6), |x| x.min(550.0), 0.0, 6, 3), 1), Err(NoKnee::Straight));
    }

    #[test]
    fn too_little_says_what_is_missing() {
        let curve = |x: f64| x.min(300.0);
        assert_eq!(knee(&noisy(&even(4), curve, 0.0, 6, 1), 1), Err(NoKnee::FewLevels { levels: 4 }));
        assert_eq!(knee(&noisy(&even(6), curve, 0.0, 4, 1), 1), Err(NoKnee::FewBlocks { blocks: 4 }));
        assert_eq!(knee(&[], 1), Err(NoKnee::FewLevels { levels: 0 }));
        // A block without one of its values is no block of the curve.
        let mut points = noisy(&even(6), curve, 0.0, 5, 1);
        points.remove(3);
        assert_eq!(knee(&points, 1), Err(NoKnee::FewBlocks { blocks: 4 }));
    }

    /// Of what has no knee, at most one in twenty gets one, however large the noise; of capacities, at most one in twenty lies outside of
    /// its interval.
    #[test]
    fn errors_are_rare_at_any_noise() {
        const RUNS: u64 = 60;
        for xs in [doubling(6), even(6), even(12)] {
            let capacity = xs[xs.len() / 2 - 1] * 1.1;
            for cv in [0.02, 0.1, 0.3] {
                let (mut straight, mut flat, mut found, mut right) = (0, 0, 0, 0);
                for seed in 0..RUNS {
                    straight += u64::from(knee(&noisy(&xs, |x| x, cv, 6, seed), seed).is_ok());
                    flat += u64::from(knee(&noisy(&xs, |_| 500.0, cv, 6, seed), seed).is_ok());
                    if let Ok(knee) = knee(&noisy(&xs, |x| x.min(capacity), cv, 6, seed), seed) {
                        found += 1;
                        right += u64::from(knee.low < capacity && capacity < knee.high);
                    }
                }
                assert!(straight * 20 <= RUNS && flat * 20 <= RUNS, "{cv} {}: {straight} {flat}", xs.len());
                assert!((found - right) * 20 <= RUNS, "{cv} {}: {right} of {found}", xs.len());
                assert!(cv > 0.02 || found * 10 >= RUNS * 9, "{cv} {}: {found}", xs.len());
            }
        }
    }

    #[test]
    fn overload_is_where_goodput_falls_and_work_rises() {
        let xs = [1.0, 10.0, 50.0, 100.0];
        let goodput = |x: f64| if x <= 10.0 { 100.0 * x } else { 10_000.0 / x };
        let work = |x: f64| if x <= 10.0 { 5.0 } else { x };
        let found = overload(&noisy(&xs, goodput, 0.02, 6, 1), &noisy(&xs, work, 0.02, 6, 2)).unwrap();
        assert_eq!((found.best, found.at), (10.0, 50.0));
        assert!((found.goodput - 0.2).abs() < 0.02 && (found.work - 10.0).abs() < 1.0, "{found:?}");
        let of = |goodput: &dyn Fn(f64) -> f64, work: &dyn Fn(f64) -> f64| {
            overload(&noisy(&xs, goodput, 0.02, 6, 1), &noisy(&xs, work, 0.02, 6, 2))
        };
        assert_eq!(of(&goodput, &|_| 5.0), None, "the same work");
        assert_eq!(of(&|x| 100.0 * x, &work), None, "goodput rises");
        assert_eq!(overload(&noisy(&xs, goodput, 0.02, 4, 1), &noisy(&xs, work, 0.02, 4, 2)), None, "few blocks");
        assert_eq!([tail(5, 5), tail(5, 0), tail(2, 1)], [1.0 / 32.0, 1.0, 0.75]);
    }

    proptest! {
        #[test]
        fn knee_does_not_depend_on_units_or_order(
            seed: u64, scale in 0.001f64..1000.0, stretch in 0.001f64..1000.0, blocks in 5u32..9,
        ) {
            let points = noisy(&doubling(6), |x| x.min(700.0), 0.05, blocks, seed);
            let mut scaled: Vec<Point> =
                points.iter().map(|p| Point { x: p.x * stretch, y: p.y * scale, block: p.block }).collect();
            scaled.reverse();
            let place = |points: &[Point], unit: f64| knee(points, 7).map(|k| [k.x, k.low, k.high].map(|x| (x / unit).round())).ok();
            prop_assert_eq!(place(&points, 1.0), place(&scaled, stretch));
        }

        #[test]
        fn any_points_give_a_result(values in prop::collection::vec((0u8..9, any::<f64>(), 0u32..7), 0..60)) {
            let points: Vec<Point> =
                values.into_iter().map(|(x, y, block)| Point { x: f64::from(x), y, block }).collect();
            if let Ok(knee) = knee(&points, 1) {
                prop_assert!(knee.low < knee.x && knee.x < knee.high);
            }
            let _ = overload(&points, &points);
        }
    }
}
