//! Computes bins of distributions on a log axis, and splits distributions that lie far apart into groups.

/// A range that holds most of a distribution, on a scale of ratios.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// Lower end, above zero.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Ranges farther apart than this factor are shown on axes of their own.
const APART: f64 = 1.6;

/// Splits distributions into groups that lie apart, the lowest first; indices into `ranges`.
///
/// Neighbours stay together where the gap between their ranges is less than a factor of 1.6.
pub fn split(ranges: &[Range]) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..ranges.len()).collect();
    order.sort_by(|a, b| ranges[*a].low.total_cmp(&ranges[*b].low));
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut reach = 0.0f64;
    for at in order {
        match groups.last_mut() {
            Some(group) if ranges[at].low <= reach * APART => group.push(at),
            _ => groups.push(vec![at]),
        }
        reach = reach.max(ranges[at].high);
    }
    groups
}

/// The names of so many groups, the lowest first: what costs least is fast.
pub fn names(groups: usize) -> &'static [&'static str] {
    match groups {
        2 => &["fast", "slow"],
        3 => &["fast", "medium", "slow"],
        _ => &[],
    }
}

/// Equal bins on a log axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bins {
    /// Lower end of the first, above zero.
    pub low: f64,
    /// Upper end of the last.
    pub high: f64,
    /// How many.
    pub count: usize,
}

impl Bins {
    /// The share of the values in each bin; the shares below and above all bins are the first and the last value
    /// returned.
    pub(crate) fn shares(self, values: impl Iterator<Item = f64>) -> (f64, Vec<f64>, f64) {
        let (mut below, mut above, mut all) = (0u64, 0u64, 0u64);
        let mut counts = vec![0u64; self.count];
        let scale = self.count as f64 / (self.high / self.low).ln();
        for value in values {
            all += 1;
            let place = (value / self.low).ln() * scale;
            match place {
                p if p.is_nan() || p < 0.0 => below += 1,
                p if (p as usize) < self.count => counts[p as usize] += 1,
                _ => above += 1,
            }
        }
        let share = |n: u64| n as f64 / all.max(1) as f64;
        (share(below), counts.into_iter().map(share).collect(), share(above))
    }
}

/// The value that a share of the sorted values does not exceed.
pub(crate) fn quantile(sorted: &[u64], share: f64) -> u64 {
    let at = (share * sorted.len() as f64) as usize;
    sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(all: &[(f64, f64)]) -> Vec<Range> {
        all.iter().map(|(low, high)| Range { low: *low, high: *high }).collect()
    }

    #[test]
    fn slow_medium_and_fast_variants_are_distinguished() {
        let all = ranges(&[(8.0, 12.0), (0.8, 1.1), (1.9, 2.2), (0.9, 1.0), (10.0, 14.0)]);
        assert_eq!(split(&all), [vec![1, 3], vec![2], vec![0, 4]]);
        assert_eq!(names(3), ["fast", "medium", "slow"]);
    }

    #[test]
    fn what_overlaps_or_touches_stays_together() {
        assert_eq!(split(&ranges(&[(1.0, 3.0), (2.0, 9.0), (8.0, 20.0)])), [vec![0, 1, 2]]);
        assert_eq!(split(&ranges(&[(1.0, 2.0), (3.0, 4.0)])).len(), 1);
        assert_eq!(split(&ranges(&[(1.0, 50.0), (2.0, 3.0), (60.0, 70.0)])).len(), 1, "the widest reaches on");
        assert_eq!(split(&ranges(&[(1.0, 2.0), (3.3, 4.0)])).len(), 2);
        assert_eq!(split(&[]), Vec::<Vec<usize>>::new());
    }

    #[test]
    fn every_value_is_counted_once() {
        let bins = Bins { low: 1.0, high: 100.0, count: 4 };
        let (below, shares, above) = bins.shares([0.5, 0.0, 1.0, 3.0, 3.2, 99.0, 101.0, 1e9].into_iter());
        assert_eq!((below, above), (0.25, 0.25));
        assert_eq!(shares, [0.25, 0.125, 0.0, 0.125], "limits of bins at 3.16, 10 and 31.6");
        assert!((below + above + shares.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn an_empty_distribution_has_no_shares() {
        let bins = Bins { low: 1.0, high: 10.0, count: 2 };
        assert_eq!(bins.shares(std::iter::empty()), (0.0, vec![0.0, 0.0], 0.0));
        assert_eq!(quantile(&[], 0.5), 0);
        assert_eq!(quantile(&[1, 2, 3], 1.0), 3);
    }
}
