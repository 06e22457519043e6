//! Reduces series to a number of equal steps, without losing anything that a picture could show.

/// Cumulative counters and levels of one process tree, in the order of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    /// Nanoseconds since the origin.
    pub at: u64,
    /// Value at that instant.
    pub value: f64,
}

/// The largest value in each of `steps` equal parts of `0..span`; a part without a point keeps the last value, and a
/// part before the first point has none.
pub(crate) fn largest(points: &[Point], span: u64, steps: usize) -> Vec<Option<f64>> {
    let mut out = vec![None; steps];
    for point in points {
        let cell: &mut Option<f64> = &mut out[step_of(point.at, span, steps)];
        *cell = Some(cell.map_or(point.value, |so_far| so_far.max(point.value)));
    }
    let mut last = None;
    let end = points.last().map_or(0, |p| step_of(p.at, span, steps));
    let mut final_values = points.iter().peekable();
    for (at, cell) in out.iter_mut().enumerate() {
        if cell.is_none() && at <= end {
            *cell = last;
        }
        while let Some(point) = final_values.next_if(|p| step_of(p.at, span, steps) <= at) {
            last = Some(point.value);
        }
    }
    out
}

/// The mean rate per second of a cumulative counter in each of `steps` equal parts of `0..span`: the counter is taken
/// to rise evenly between two points, so that the sum over all parts is its whole rise. None outside the points.
pub(crate) fn rates(points: &[Point], span: u64, steps: usize) -> Vec<Option<f64>> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return vec![None; steps] };
    let mut from = 0;
    let mut at_instant = |instant: f64| {
        while from + 2 < points.len() && (points[from + 1].at as f64) < instant {
            from += 1;
        }
        let Some(next) = points.get(from + 1) else { return points[from].value };
        let (a, b) = (points[from], *next);
        let share = if b.at > a.at { (instant - a.at as f64) / (b.at - a.at) as f64 } else { 1.0 };
        a.value + share.clamp(0.0, 1.0) * (b.value - a.value)
    };
    let bound = |step: usize| span as f64 * step as f64 / steps as f64;
    let part = |step: usize| {
        let (low, high) = (bound(step).max(first.at as f64), bound(step + 1).min(last.at as f64));
        if high <= low {
            return None;
        }
        let (start, end) = (at_instant(low), at_instant(high));
        Some((end - start).max(0.0) / (high - low) * 1e9)
    };
    (0..steps).map(part).collect()
}

fn step_of(at: u64, span: u64, steps: usize) -> usize {
    let step = u128::from(at) * steps as u128 / u128::from(span.max(1));
    (step as usize).min(steps - 1)
}

/// Means of groups of neighbours, so that at most `most` are left; also how many go into each but the last.
pub(crate) fn means(values: &[u64], most: usize) -> (Vec<f64>, usize) {
    let each = values.len().div_ceil(most.max(1)).max(1);
    let mean = |chunk: &[u64]| chunk.iter().sum::<u64>() as f64 / chunk.len() as f64;
    (values.chunks(each).map(mean).collect(), each)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(values: &[(u64, f64)]) -> Vec<Point> {
        values.iter().map(|(at, value)| Point { at: *at, value: *value }).collect()
    }

    #[test]
    fn a_short_peak_survives() {
        let mut all: Vec<(u64, f64)> = (0..1000).map(|i| (i, 5.0)).collect();
        all[777].1 = 90.0;
        let thin = largest(&points(&all), 1000, 10);
        assert_eq!(thin[7], Some(90.0));
        assert!(thin.iter().enumerate().all(|(i, v)| i == 7 || *v == Some(5.0)));
    }

    #[test]
    fn gaps_keep_the_last_value_and_the_ends_stay_open() {
        let thin = largest(&points(&[(20, 1.0), (29, 2.0), (70, 3.0)]), 100, 10);
        let expected = [None, None, Some(2.0), Some(2.0), Some(2.0), Some(2.0), Some(2.0), Some(3.0), None, None];
        assert_eq!(thin, expected);
    }

    #[test]
    fn rates_add_up_to_the_whole_rise() {
        let second = 1_000_000_000u64;
        let counter: Vec<(u64, f64)> = (0..=50).map(|i| (i * second / 10, (i * i) as f64)).collect();
        let thin = rates(&points(&counter), 5 * second, 7);
        let sum: f64 = thin.iter().flatten().map(|rate| rate * 5.0 / 7.0).sum();
        assert!((sum - 2500.0).abs() < 1e-6, "{sum}");
        assert!(thin.windows(2).all(|w| w[0] < w[1]), "{thin:?}");
    }

    #[test]
    fn rates_outside_the_points_are_unknown() {
        let thin = rates(&points(&[(40, 0.0), (60, 20.0)]), 100, 10);
        assert_eq!(thin.iter().map(Option::is_some).filter(|s| *s).count(), 2);
        assert!((thin[4].unwrap() - 1e9).abs() < 1.0);
        assert_eq!(rates(&[], 100, 3), [None, None, None]);
        assert_eq!(rates(&points(&[(5, 1.0)]), 100, 2), [None, None]);
    }

    #[test]
    fn a_last_group_that_is_short_has_its_own_mean() {
        let (thin, each) = means(&[4; 1001], 100);
        assert_eq!((thin, each), (vec![4.0; 91], 11));
        assert_eq!(means(&[1, 3, 5, 7, 10], 3), (vec![2.0, 6.0, 10.0], 2));
        assert_eq!(means(&[], 10), (vec![], 1));
    }
}
