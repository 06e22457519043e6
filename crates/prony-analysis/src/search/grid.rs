//! Generates the settings that a search tries: a coarse grid over all ranges, then finer grids near the best setting.
//!
//! Positions are shares of each range, so that a step in a logarithmic range is a constant factor.

use std::collections::BTreeSet;

use xxhash_rust::xxh3::xxh3_64;

use super::range::Range;

/// A value for each range, in its unit.
pub type Point = Vec<f64>;

/// If one grid has more candidates, some are dropped at random.
const MOST: usize = 32;

/// Points on each axis of the coarse grid, by the number of axes: 7 settings in all on one axis, 16 on two, 27 on
/// three, and 32 randomly chosen ones on more.
pub(crate) fn per_axis(axes: usize) -> u32 {
    match axes {
        0 | 1 => 7,
        2 => 4,
        _ => 3,
    }
}

/// Every combination of `points` values on each axis, the bounds among them; thinned out by the seed where there are
/// too many.
pub(crate) fn coarse(ranges: &[Range], points: u32, seed: u64) -> Vec<Point> {
    let axis = |range: &Range| {
        let last = f64::from(points.max(2) - 1);
        distinct((0..points.max(2)).map(|at| range.at(f64::from(at) / last)))
    };
    thinned(&ranges.iter().map(axis).collect::<Vec<_>>(), seed)
}

/// The neighbours of a point at a step, given as a share of each range: with one or two axes in all directions, with
/// more along each axis only. The point itself is not among them.
pub(crate) fn neighbours(ranges: &[Range], centre: &[f64], step: f64) -> Vec<Point> {
    let beside = |(range, value): (&Range, &f64)| {
        let share = range.share(*value);
        distinct([*value, range.at(share - step), range.at(share + step)].into_iter())
    };
    let axes: Vec<Vec<f64>> = ranges.iter().zip(centre).map(beside).collect();
    let moved = |point: &Point| point.iter().zip(centre).filter(|(a, b)| a != b).count();
    let most = if ranges.len() <= 2 { ranges.len() } else { 1 };
    cross(&axes).into_iter().filter(|point| (1..=most).contains(&moved(point))).collect()
}

fn distinct(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut distinct: Vec<f64> = Vec::new();
    for value in values {
        if !distinct.contains(&value) {
            distinct.push(value);
        }
    }
    distinct
}

fn cross(axes: &[Vec<f64>]) -> Vec<Point> {
    axes.iter().fold(vec![Vec::new()], |heads, axis| {
        let extend = |head: &Point| axis.iter().map(|value| [head.as_slice(), &[*value]].concat()).collect::<Vec<_>>();
        heads.iter().flat_map(extend).collect()
    })
}

/// At most [`MOST`] of the combinations of values, randomly chosen with equal probability, in their order. Only those are made: the
/// product of many axes fits into no memory.
fn thinned(axes: &[Vec<f64>], seed: u64) -> Vec<Point> {
    let all = axes.iter().fold(1u64, |all, axis| all.saturating_mul(axis.len() as u64));
    if all <= MOST as u64 {
        return cross(axes);
    }
    let draw = |at: u64| xxh3_64(&[seed.to_le_bytes(), at.to_le_bytes()].concat()) % all;
    let (mut chosen, mut at) = (BTreeSet::new(), 0);
    while chosen.len() < MOST {
        chosen.insert(draw(at));
        at += 1;
    }
    chosen.into_iter().map(|number| combination(axes, number)).collect()
}

/// The combination with this number, in the order of [`cross`].
fn combination(axes: &[Vec<f64>], mut number: u64) -> Point {
    let mut point: Point = axes
        .iter()
        .rev()
        .map(|axis| {
            let at = (number % axis.len() as u64) as usize;
            number /= axis.len() as u64;
            axis[at]
        })
        .collect();
    point.reverse();
    point
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ranges(texts: &[&str]) -> Vec<Range> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn the_coarse_grid_has_the_bounds_and_no_value_twice() {
        let grid = coarse(&ranges(&["chunk=10..10000,log", "pause=0..2"]), 4, 1);
        let chunks = distinct(grid.iter().map(|point| point[0]));
        assert_eq!(chunks, [10.0, 100.0, 1000.0, 10_000.0]);
        assert_eq!(distinct(grid.iter().map(|point| point[1])), [0.0, 1.0, 2.0], "four places, three whole values");
        assert_eq!(grid.len(), 12);
    }

    #[test]
    fn coarse_grids_are_as_large_as_the_documentation_says() {
        let axes = ["a=0..1000", "b=0..1000", "c=0..1000", "d=0..1000"];
        let sizes = [1, 2, 3, 4].map(|n| coarse(&ranges(&axes[..n]), per_axis(n), 1).len());
        assert_eq!(sizes, [7, 16, 27, 32]);
    }

    #[test]
    fn combinations_are_numbered_in_their_order_and_a_huge_grid_takes_no_memory() {
        let axes = [vec![1.0, 2.0], vec![10.0, 20.0, 30.0], vec![5.0]];
        assert_eq!((0..6).map(|number| combination(&axes, number)).collect::<Vec<_>>(), cross(&axes));
        let twelve: Vec<String> = (0..12).map(|axis| format!("x{axis}=0..1000000")).collect();
        let texts: Vec<&str> = twelve.iter().map(String::as_str).collect();
        assert_eq!(coarse(&ranges(&texts), 32, 1).len(), MOST);
    }

    #[test]
    fn large_grid_is_thinned_by_the_seed_only() {
        let five = ranges(&["a=0..100", "b=0..100", "c=0..100", "d=0..100", "e=0..100"]);
        let grid = coarse(&five, per_axis(5), 7);
        assert_eq!(grid.len(), MOST);
        assert_eq!(grid, coarse(&five, per_axis(5), 7));
        assert_ne!(grid, coarse(&five, per_axis(5), 8));
    }

    #[test]
    fn neighbours_surround_the_centre_within_the_bounds() {
        let two = ranges(&["a=0..100", "b=0..100"]);
        assert_eq!(neighbours(&two, &[50.0, 50.0], 0.1).len(), 8);
        assert_eq!(neighbours(&two, &[0.0, 50.0], 0.1).len(), 5, "nothing lies below the bound");
        let three = ranges(&["a=0..100", "b=0..100", "c=0..100"]);
        assert_eq!(neighbours(&three, &[50.0, 50.0, 50.0], 0.1).len(), 6);
        assert!(neighbours(&ranges(&["a=0..3"]), &[1.0], 0.01).is_empty(), "no whole value is so near");
    }

    #[test]
    fn neighbours_of_a_point_outside_of_the_range_lie_inside() {
        let log = ranges(&["a=10..1000,log"]);
        assert_eq!(neighbours(&log, &[1.0], 0.1), [[10.0]]);
        assert!(
            neighbours(&log, &[0.0], 0.1).iter().all(|point| point[0] >= 10.0),
            "zero has no place in a logarithmic one"
        );
    }

    proptest! {
        #[test]
        fn every_point_is_one_that_trials_can_have(low in 1u32..100, span in 1u32..10_000, points in 2u32..9, step in 0.001f64..0.5) {
            let range: Range = format!("x={low}..{},log", low + span).parse().unwrap();
            let ranges = [range.clone(), range.clone()];
            let grid = coarse(&ranges, points, 3);
            for point in grid.iter().chain(&neighbours(&ranges, &grid[grid.len() / 2], step)) {
                prop_assert!(point.iter().all(|value| range.round(*value) == *value), "{:?}", point);
            }
        }
    }
}
