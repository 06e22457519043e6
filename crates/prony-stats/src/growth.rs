//! Fits how a metric grows with a numeric factor, and extrapolates where it would reach a limit.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::special::t_critical;
use super::summary::median;
use prony_model::random::{Stream, mix};
use prony_model::reading::{Reading, Why};

/// Nothing is extrapolated beyond this multiple of the factor's largest measured value.
pub const FARTHEST: f64 = 100.0;

/// Resamples of the trials for the range of an extrapolation.
const RESAMPLES: usize = 200;

/// The share of the resamples that the range leaves out at each end.
const TAIL: f64 = 0.025;

/// Seeds the resamples: the same run has the same range each time.
const SEED: u64 = 17;

/// The powers that are considered beside a constant part: those below 0 approach a bound.
const POWERS: (f64, f64) = (-4.0, 8.0);

/// How often the range of powers is halved: to 1e-8.
const HALVINGS: u32 = 30;

/// A power law `y = scale * x^slope`, fitted on logarithms.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Growth {
    /// The exponent: 1 is proportional, 0 is flat.
    pub slope: f64,
    /// Its 95 % interval, for independent trials and a straight line.
    pub interval: (f64, f64),
    /// `y` at `x = 1`.
    pub scale: f64,
    /// The share of the variance of ln(y) that the line explains; 1 where y does not vary.
    pub r2: f64,
    /// The exponent between the two largest levels.
    pub last_slope: f64,
    /// Whether that differs from `slope` by more than the variation within levels explains, at 5 %: then the growth is not a
    /// power law.
    pub bends: bool,
    /// Different values of `x`.
    pub levels: u32,
    /// The largest `x` measured.
    pub largest: f64,
    /// The median of `y` there.
    pub last: f64,
}

/// Where a metric would reach a limit: an extrapolation, never a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reach {
    /// The `x` at which the fitted line reaches the limit; where the growth is not a power law, that at which one beside a constant
    /// part does.
    pub x: f64,
    /// The nearest `x` at which the limit may be reached: the range of 95 % of resamples of the trials at each level, by the fitted
    /// line and by a power law beside a constant part through the three largest levels, widened by both ends of the slope's interval.
    pub low: f64,
    /// The farthest such `x`; `None` where the limit may never be reached, or only beyond 100 times the largest `x` measured.
    pub high: Option<f64>,
    /// `x` as a multiple of the largest `x` measured.
    pub beyond: f64,
}

/// Fits the growth of `(x, y)`, one point a trial. Missing with fewer than 3 levels or a value not above zero.
pub fn growth(points: &[(f64, f64)]) -> Reading<Growth> {
    if points.iter().any(|(x, y)| !(*x > 0.0 && *y > 0.0 && x.is_finite() && y.is_finite())) {
        return Reading::not_supported("growth of values that are not above zero");
    }
    let logs: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x.ln(), y.ln())).collect();
    let levels = level_medians(&logs);
    let [.., before, last] = levels.as_slice() else { return too_few(levels.len()) };
    if levels.len() < 3 {
        return too_few(levels.len());
    }
    let n = logs.len() as f64;
    let (mx, my) = (logs.iter().map(|p| p.0).sum::<f64>() / n, logs.iter().map(|p| p.1).sum::<f64>() / n);
    let sum = |f: &dyn Fn(f64, f64) -> f64| logs.iter().map(|(x, y)| f(x - mx, y - my)).sum::<f64>();
    let (xx, xy, yy) = (sum(&|x, _| x * x), sum(&|x, y| x * y), sum(&|_, y| y * y));
    let slope = xy / xx;
    let residual = (yy - slope * xy).max(0.0);
    let error = t_critical(0.05, n - 2.0) * (residual / (n - 2.0) / xx).sqrt();
    Reading::Measured(Growth {
        slope,
        interval: (slope - error, slope + error),
        scale: (my - slope * mx).exp(),
        r2: if yy > 0.0 { 1.0 - residual / yy } else { 1.0 },
        last_slope: (last.1 - before.1) / (last.0 - before.0),
        bends: bends(&logs, (mx, xx), residual),
        levels: levels.len() as u32,
        // Not by its logarithm, which may round.
        largest: points.iter().map(|point| point.0).fold(0.0, f64::max),
        last: last.1.exp(),
    })
}

/// Whether the slope between the means of the two largest levels differs from that of the line, `xx` being the sum of squares
/// of `x` about its mean `mx`. The difference is a sum of weighted means of levels, whose error is that within levels: a t test.
/// With one trial a level the error is that about the line, `residual`, which is too large where the line does not fit.
fn bends(points: &[(f64, f64)], (mx, xx): (f64, f64), residual: f64) -> bool {
    let mut sorted = points.to_vec();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let levels: Vec<&[(f64, f64)]> = sorted.chunk_by(|a, b| a.0 == b.0).collect();
    let mean = |level: &[(f64, f64)]| level.iter().map(|p| p.1).sum::<f64>() / level.len() as f64;
    let within: f64 = levels.iter().map(|level| level.iter().map(|p| (p.1 - mean(level)).powi(2)).sum::<f64>()).sum();
    let free = (points.len() - levels.len()) as f64;
    let (error, free) = if free > 0.0 { (within, free) } else { (residual, points.len() as f64 - 2.0) };
    let wide = levels[levels.len() - 1][0].0 - levels[levels.len() - 2][0].0;
    let (mut difference, mut spread) = (0.0, 0.0);
    for (at, level) in levels.iter().enumerate() {
        let count = level.len() as f64;
        let of_last = match levels.len() - at {
            1 => 1.0,
            2 => -1.0,
            _ => 0.0,
        };
        let weight = of_last / wide - count * (level[0].0 - mx) / xx;
        difference += weight * mean(level);
        spread += weight * weight / count;
    }
    difference.abs() > t_critical(0.05, free) * (error / free * spread).sqrt()
}

impl Growth {
    /// `y` on the fitted line.
    pub fn at(&self, x: f64) -> f64 {
        self.scale * x.powf(self.slope)
    }

    /// Where a line of this slope from the end of the fitted one reaches `limit`; infinite where it does not grow.
    fn line_reaches(&self, slope: f64, limit: f64) -> f64 {
        let farther = (limit / self.at(self.largest)).ln() / slope;
        if slope > 0.0 { self.largest * farther.exp() } else { f64::INFINITY }
    }

    /// Where `y` reaches `limit`, by the points to which this was fitted. Missing where the line does not grow, where it or the
    /// median at the largest `x` is above the limit already, where the limit is reached only beyond 100 times the largest `x`
    /// measured, or where the levels do not show how the growth goes on. A program that needs memory before it has any data grows
    /// beside a constant part, and faster than the line.
    pub fn reach(&self, points: &[(f64, f64)], limit: f64) -> Reading<Reach> {
        if self.slope <= 0.0 || limit <= self.at(self.largest).max(self.last) {
            return Reading::Missing(Why::NotApplicable);
        }
        let of_curve = |points: &[(f64, f64)]| curve_with_constant_reaches(&level_medians(points), limit);
        let x = if self.bends { of_curve(points) } else { self.line_reaches(self.slope, limit) };
        let farthest = FARTHEST * self.largest;
        if x <= self.largest {
            return Reading::not_supported("the growth beyond the two largest levels is not known");
        }
        if x > farthest {
            return Reading::not_supported(format!("beyond {FARTHEST} times the largest value measured"));
        }
        let mut sorted = points.to_vec();
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
        let levels: Vec<&[(f64, f64)]> = sorted.chunk_by(|a, b| a.0 == b.0).collect();
        let mut stream = Stream::new(mix(SEED));
        let mut resample = || -> Option<[f64; 2]> {
            let mut one = |level: &[(f64, f64)]| level[stream.below(level.len() as u64) as usize];
            let sample: Vec<(f64, f64)> =
                levels.iter().flat_map(|level| level.iter().map(|_| one(level)).collect::<Vec<_>>()).collect();
            let line = growth(&sample).measured().map(|line| line.line_reaches(line.slope, limit))?;
            let curve = of_curve(&sample);
            Some([line.min(curve), line.max(curve)])
        };
        let ends: Vec<[f64; 2]> = (0..RESAMPLES).filter_map(|_| resample()).collect();
        let [mut lows, mut highs] = [0, 1].map(|end| ends.iter().map(|ends| ends[end]).collect::<Vec<f64>>());
        lows.sort_by(f64::total_cmp);
        highs.sort_by(|a, b| b.total_cmp(a));
        let tail = (ends.len() as f64 * TAIL) as usize;
        // Few trials a level differ less from each other than from what further ones would be.
        let [flat, steep] = [self.interval.0, self.interval.1].map(|slope| self.line_reaches(slope, limit));
        let (low, high) = (lows[tail].min(x).min(steep).max(self.largest), highs[tail].max(x).max(flat));
        Reading::Measured(Reach { x, low, high: (high <= farthest).then_some(high), beyond: x / self.largest })
    }
}

/// Where `c + a * x^p` through the medians of the three largest levels reaches a limit: at the largest level where it rises more steeply
/// than any of the powers, infinite where it does not reach it.
fn curve_with_constant_reaches(levels: &[(f64, f64)], limit: f64) -> f64 {
    let [.., (x1, y1), (x2, y2), (x3, y3)] = *levels else { return f64::INFINITY };
    let (first, second) = (x1 / x3, x2 / x3);
    let steeper = if y2 > y1 { (y3 - y2) / (y2 - y1) } else { f64::INFINITY };
    let of_power = |power: f64| (1.0 - second.powf(power)) / (second.powf(power) - first.powf(power));
    let (mut low, mut high) = POWERS;
    if y3 <= y2 || steeper <= of_power(low) {
        return f64::INFINITY;
    }
    if steeper >= of_power(high) {
        return x3;
    }
    for _ in 0..HALVINGS {
        let power = f64::midpoint(low, high);
        (low, high) = if of_power(power) < steeper { (power, high) } else { (low, power) };
    }
    let part = (limit - y3) / (y3 - y2) * (1.0 - second.powf(high));
    if part > -1.0 { x3 * (1.0 + part).powf(1.0 / high) } else { f64::INFINITY }
}

fn too_few<T>(have: usize) -> Reading<T> {
    Reading::Missing(Why::TooFew { have: have as u64, need: 3 })
}

/// The median of `y` at each `x`, in rising order of `x`.
fn level_medians(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut sorted = points.to_vec();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let level = |chunk: &[(f64, f64)]| {
        let ys: Vec<f64> = chunk.iter().map(|p| p.1).collect();
        median(&ys).map(|y| (chunk[0].0, y))
    };
    sorted.chunk_by(|a, b| a.0 == b.0).filter_map(level).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fitted(points: &[(f64, f64)]) -> Growth {
        growth(points).measured().copied().unwrap()
    }

    #[test]
    fn an_exact_power_law_is_recovered() {
        let points: Vec<_> = [10.0, 100.0, 1000.0].iter().map(|x| (*x, 3.0 * f64::powf(*x, 1.5))).collect();
        let g = fitted(&points);
        assert!((g.slope - 1.5).abs() < 1e-12 && (g.scale - 3.0).abs() < 1e-9 && (g.last_slope - 1.5).abs() < 1e-12);
        assert!(g.r2 > 1.0 - 1e-12 && g.interval.1 - g.interval.0 < 1e-5 && g.levels == 3);
        assert!((g.at(10_000.0) - 3e6).abs() < 1e-3);
    }

    #[test]
    fn scaling_moves_the_scale_only() {
        let points = [(1.0, 2.0), (2.0, 5.0), (4.0, 7.0), (8.0, 20.0)];
        let scaled: Vec<_> = points.iter().map(|(x, y)| (x * 1000.0, y * 7.0)).collect();
        let (a, b) = (fitted(&points), fitted(&scaled));
        assert!((a.slope - b.slope).abs() < 1e-12 && (a.interval.0 - b.interval.0).abs() < 1e-9);
    }

    /// Compared with the textbook formulae computed by hand for ln-points (0,0), (1,1), (2,1), (3,2).
    #[test]
    fn the_interval_is_the_t_interval() {
        let points: Vec<_> = [(0.0, 0.0), (1.0, 1.0), (2.0, 1.0), (3.0, 2.0)]
            .iter()
            .map(|(x, y)| (f64::exp(*x), f64::exp(*y)))
            .collect();
        let g = fitted(&points);
        assert!((g.slope - 0.6).abs() < 1e-12);
        // Residual sum of squares 0.2, sxx 5, 2 degrees of freedom: se = sqrt(0.1 / 5); t = 4.30265.
        assert!((g.interval.1 - 0.6 - 4.302_652_73 * (0.02f64).sqrt()).abs() < 1e-6);
        assert!((g.r2 - 0.9).abs() < 1e-12);
    }

    #[test]
    fn the_limit_is_met_where_the_line_says() {
        let points: Vec<_> = [1e3, 1e4, 1e5].iter().map(|x| (*x, 100.0 * x)).collect();
        let reach = fitted(&points).reach(&points, 1e8).measured().copied().unwrap();
        assert!((reach.x / 1e6 - 1.0).abs() < 1e-6 && (reach.beyond - 10.0).abs() < 1e-6);
        assert!(reach.low <= reach.x && reach.high.unwrap() >= reach.x);
    }

    #[test]
    fn nothing_is_said_past_the_limit_far_beyond_or_without_growth() {
        let points: Vec<_> = [1e3, 1e4, 1e5].iter().map(|x| (*x, 100.0 * x)).collect();
        let g = fitted(&points);
        assert_eq!(g.reach(&points, 1e6), Reading::Missing(Why::NotApplicable));
        assert!(matches!(g.reach(&points, 1e12), Reading::Missing(Why::NotSupported(_))));
        let level = [(1.0, 5.0), (2.0, 5.0), (4.0, 5.0)];
        let flat = fitted(&level);
        assert_eq!((flat.slope, flat.r2), (0.0, 1.0));
        assert_eq!(flat.reach(&level, 10.0), Reading::Missing(Why::NotApplicable));
    }

    /// 10 to 80 records beside 80 MB would reach 320 MB at "about 1,200 (280 to 1,500)", with 1 MB each: at 240.
    #[test]
    fn growth_beside_a_constant_part_is_extrapolated_as_such() {
        let levels = [10.0, 20.0, 40.0, 80.0];
        for (power, limit) in [(1.0, 2.0), (1.0, 10.0), (0.5, 1.3), (2.0, 4.0)] {
            let at = |x: f64| 80.0 + f64::powf(x, power);
            let truth = (limit * at(80.0) - 80.0).powf(1.0 / power);
            // By one trial a level it is not known whether the growth is a power law.
            for trials in [6, 1] {
                let noise = |nth: usize| 1.0 + 1e-6 * (nth % 3) as f64;
                let points: Vec<_> =
                    levels.iter().flat_map(|x| (0..trials).map(|nth| (*x, at(*x) * noise(nth)))).collect();
                let reach = fitted(&points).reach(&points, limit * at(80.0)).measured().copied();
                let Some(reach) = reach else {
                    assert!(truth > FARTHEST * 80.0 || trials == 1, "{power} {limit}");
                    continue;
                };
                assert!(
                    reach.low < 1.001 * truth && reach.high.is_none_or(|high| high > 0.999 * truth),
                    "{reach:?} {truth}"
                );
                assert!(trials == 1 || (reach.x / truth - 1.0).abs() < 0.01, "{reach:?} {truth}");
            }
        }
        // What approaches a bound below the limit never reaches it; what rises only at the last level does at once.
        let of = |ys: [f64; 3], limit| curve_with_constant_reaches(&[(1.0, ys[0]), (2.0, ys[1]), (4.0, ys[2])], limit);
        assert_eq!(of([1.0, 5.0, 7.0], 9.5), f64::INFINITY);
        assert!((of([1.0, 5.0, 7.0], 8.0) - 8.0).abs() < 1e-3);
        assert_eq!(of([1.0, 5.0, 5.0], 6.0), f64::INFINITY);
        assert_eq!(of([1.0, 1.0, 7.0], 8.0), 4.0);
        assert_eq!(of([1.0, 5.0, 5.0001], 6.0), f64::INFINITY);
        // From 100, 100 and 103 MB nothing follows for 1 GB: "about 2,060", where proportional growth reaches it at 3e5.
        let points = [(10.0, 100.2), (100.0, 100.2), (1000.0, 103.0)]
            .map(|(x, y)| [(x, y), (x, y + 0.01), (x, y + 0.02)])
            .concat();
        assert!(matches!(fitted(&points).reach(&points, 1000.0), Reading::Missing(Why::NotSupported(_))));
    }

    #[test]
    fn range_of_the_extrapolation_includes_the_truth_in_most_runs() {
        let mut rng = crate::simulation::Rng::new(5);
        let mut covered = |trials: usize, constant: f64, spread: f64| {
            let run = |_| {
                let of = |x: f64| {
                    let mut normal = || (0..12).map(|_| rng.below(1000) as f64 / 1000.0).sum::<f64>() - 6.0;
                    (0..trials).map(|_| (x, (constant + x) * (spread * normal()).exp())).collect::<Vec<_>>()
                };
                let points: Vec<_> = [10.0, 20.0, 40.0, 80.0].into_iter().flat_map(of).collect();
                let reach = fitted(&points).reach(&points, 3.0 * (constant + 80.0)).measured().copied();
                let truth = 3.0 * (constant + 80.0) - constant;
                reach.is_some_and(|reach| reach.low < truth && reach.high.is_none_or(|high| high > truth))
            };
            (0..50).map(run).filter(|is_covered| *is_covered).count()
        };
        // With one trial a level all resamples are the same.
        for (trials, constant, spread, least) in [(6, 0.0, 0.02, 44), (6, 80.0, 0.05, 44), (1, 0.0, 0.02, 40)] {
            let covered = covered(trials, constant, spread);
            assert!(covered >= least, "{covered} of 50 with {trials}, {constant} and {spread}");
        }
    }

    /// With the interval of the line's slope, which is several times narrower, it was none in 59 % of such runs.
    #[test]
    fn power_law_with_noise_is_one_in_nineteen_of_twenty_runs() {
        let mut rng = crate::simulation::Rng::new(7);
        let mut runs = |power: f64, last: f64| {
            let run = |_| {
                let of = |(at, x): (usize, f64)| {
                    let more = if at == 4 { last } else { 1.0 };
                    let mut normal = || (0..12).map(|_| rng.below(1000) as f64 / 1000.0).sum::<f64>() - 6.0;
                    [x; 6].map(|x: f64| (x, more * x.powf(power) * (0.1 * normal()).exp()))
                };
                let points: Vec<_> = [1e3, 2e3, 4e3, 8e3, 16e3].into_iter().enumerate().flat_map(of).collect();
                fitted(&points).bends
            };
            (0..400).map(run).filter(|bends| *bends).count()
        };
        let (law, bent) = (runs(1.0, 1.0), runs(1.0, 1.5));
        assert!(law <= 36, "{law} of 400");
        assert!(bent >= 380, "{bent} of 400");
        assert!(!fitted(&[(1.0, 1.0), (10.0, 1.0), (100.0, 10.0)]).bends, "too few trials to know");
    }

    #[test]
    fn two_levels_or_zeros_are_refused() {
        assert_eq!(growth(&[(1.0, 1.0), (2.0, 2.0)]), Reading::Missing(Why::TooFew { have: 2, need: 3 }));
        assert!(matches!(growth(&[(0.0, 1.0), (1.0, 1.0), (2.0, 1.0)]), Reading::Missing(Why::NotSupported(_))));
    }
}
