//! P-values of the sign test: how unlikely it is that so many blocks lie above, if above and below are equally likely.

use std::sync::{Arc, OnceLock};

use super::binomial::fair_tail;

/// Up to so many blocks the distribution is tabulated; beyond, the conditional binomial is as powerful.
const MOST_TABULATED: u32 = 100;

/// By the number of blocks, each computed once: together at most 3 MB.
static TABLES: [OnceLock<Arc<[f64]>>; MOST_TABULATED as usize + 1] =
    [const { OnceLock::new() }; MOST_TABULATED as usize + 1];

/// Values of `P(outside)` over which the table takes the maximum.
const GRID: u32 = 100;

/// One-sided p-values of "`above` blocks above, `below` below, the rest between" among `n` blocks.
///
/// The probability that a block lies outside is not known. [`Law::conditional`] takes the number outside as given:
/// then the count above is binomial. [`Law::tabulated`] takes the worst case over that probability (Barnard's idea,
/// 1945), ordering outcomes by `(above - below) / sqrt(above + below)`: with few blocks it rejects more often at the
/// same level, since the number outside no longer has to be large by itself. Both are smallest where all are above,
/// at `2^-n`.
#[derive(Clone, Debug)]
pub(crate) struct Law {
    blocks: u32,
    /// By `above * (blocks + 1) + below`; 1 where not more are above than below.
    table: Option<Arc<[f64]>>,
}

impl Law {
    /// The binomial of those outside.
    pub(crate) const fn conditional(blocks: u32) -> Self {
        Self { blocks, table: None }
    }

    /// The worst case over the probability of lying outside; the conditional law above 100 blocks.
    pub(crate) fn tabulated(blocks: u32) -> Self {
        let Some(known) = TABLES.get(blocks as usize) else { return Self::conditional(blocks) };
        Self { blocks, table: Some(known.get_or_init(|| table(blocks)).clone()) }
    }

    /// Blocks.
    pub(crate) const fn blocks(&self) -> u32 {
        self.blocks
    }

    /// The one-sided p-value. Never falls as `above` falls or `below` rises.
    pub(crate) fn tail(&self, above: u32, below: u32) -> f64 {
        match &self.table {
            Some(table) => table[(above * (self.blocks + 1) + below) as usize],
            None => fair_tail(below, above + below),
        }
    }
}

/// An outcome with more above than below, and its place in the order.
struct Outcome {
    above: u32,
    below: u32,
    /// `(above - below)^2 / (above + below)`.
    order: f64,
    /// The number of ways, with the halves of `P(outside)` in it.
    ways: f64,
}

fn table(n: u32) -> Arc<[f64]> {
    let outcomes = outcomes(n);
    let mut worst = vec![0.0f64; outcomes.len()];
    for step in 1..=GRID {
        let outside = f64::from(step) / f64::from(GRID);
        let (outs, ins) = (powers(outside, n), powers(1.0 - outside, n));
        let mut sum = 0.0;
        for (slot, o) in worst.iter_mut().zip(&outcomes) {
            let out = o.above + o.below;
            sum += o.ways * outs[out as usize] * ins[(n - out) as usize];
            *slot = slot.max(sum);
        }
    }
    let mut table = vec![1.0; ((n + 1) * (n + 1)) as usize];
    // Outcomes of equal order share the p-value of the last of them.
    let mut p = 1.0;
    for (i, o) in outcomes.iter().enumerate().rev() {
        let tied = outcomes.get(i + 1).is_some_and(|next| o.order - next.order < 1e-9);
        p = if tied { p } else { worst[i].min(1.0) };
        table[(o.above * (n + 1) + o.below) as usize] = p;
    }
    table.into()
}

/// The powers of `x` from 0 to `n`.
fn powers(x: f64, n: u32) -> Vec<f64> {
    std::iter::successors(Some(1.0), |p| Some(p * x)).take(n as usize + 1).collect()
}

/// Every outcome with more above than below, the most extreme first.
fn outcomes(n: u32) -> Vec<Outcome> {
    let mut ln_factorial = vec![0.0];
    for i in 1..=n {
        ln_factorial.push(ln_factorial[i as usize - 1] + f64::from(i).ln());
    }
    let ln = |i: u32| ln_factorial[i as usize];
    let mut outcomes = Vec::new();
    for above in 1..=n {
        for below in 0..above.min(n - above + 1) {
            let out = above + below;
            let ways = ln(n) - ln(above) - ln(below) - ln(n - out) - f64::from(out) * std::f64::consts::LN_2;
            let order = f64::from(above - below).powi(2) / f64::from(out);
            outcomes.push(Outcome { above, below, order, ways: ways.exp() });
        }
    }
    outcomes.sort_by(|a, b| b.order.total_cmp(&a.order));
    outcomes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binomial(n: u32, k: u32) -> f64 {
        (0..k).fold(1.0, |c, i| c * f64::from(n - i) / f64::from(i + 1))
    }

    /// The probability of rejecting at `alpha` (one side) where a block lies outside with `outside`, by enumeration.
    fn rejected(law: &Law, alpha: f64, outside: f64) -> f64 {
        let n = law.blocks();
        let mut sum = 0.0;
        for above in 0..=n {
            for below in 0..=n - above {
                if law.tail(above, below) <= alpha {
                    let ways = binomial(n, above) * binomial(n - above, below);
                    let half = (0.5 * outside).powi((above + below) as i32);
                    sum += ways * half * (1.0 - outside).powi((n - above - below) as i32);
                }
            }
        }
        sum
    }

    #[test]
    fn the_error_level_is_valid_for_every_probability_of_lying_outside() {
        for n in [3, 6, 8, 11, 18, 30] {
            for law in [Law::conditional(n), Law::tabulated(n)] {
                for alpha in [0.025, 0.01, 0.002, 0.000_1] {
                    // Deliberately not on the grid of the table.
                    let worst = (1..=997).map(|i| rejected(&law, alpha, f64::from(i) / 997.0)).fold(0.0, f64::max);
                    assert!(worst <= alpha * 1.001, "{n} blocks at {alpha}: {worst}");
                }
            }
        }
    }

    /// The table supposes blocks alike in law. The worst otherwise: a fixed number of blocks always lies outside.
    #[test]
    fn blocks_that_are_not_alike_cost_at_most_so_much() {
        for (alpha, most) in [(0.05, 2.5), (0.01, 2.2), (0.001, 2.0)] {
            let mut worst = 0.0f64;
            for law in (6..=30).map(Law::tabulated) {
                for out in 1..=law.blocks() {
                    let rejects = |above: &u32| law.tail(*above, out - above) <= 0.5 * alpha;
                    let mass: f64 = (0..=out).filter(rejects).map(|above| binomial(out, above)).sum();
                    worst = worst.max(2.0 * mass * 0.5f64.powi(out as i32));
                }
            }
            assert!(worst <= most * alpha && worst > alpha, "{alpha}: {worst}");
        }
    }

    #[test]
    fn the_table_rejects_more_of_what_is_different() {
        // A third lies between, and of those outside nine tenths are above.
        let power = |law: &Law| {
            let n = law.blocks();
            let mut sum = 0.0;
            for above in 0..=n {
                for below in 0..=n - above {
                    if law.tail(above, below) <= 0.025 {
                        let ways = binomial(n, above) * binomial(n - above, below);
                        let rest = (n - above - below) as i32;
                        sum += ways * 0.6f64.powi(above as i32) * 0.07f64.powi(below as i32) * 0.33f64.powi(rest);
                    }
                }
            }
            sum
        };
        for n in [6, 8, 11, 15] {
            let (table, binomial) = (power(&Law::tabulated(n)), power(&Law::conditional(n)));
            assert!(table > binomial, "{n}: {table} against {binomial}");
        }
    }

    #[test]
    fn tails_are_monotone_and_smallest_at_two_to_the_minus_n() {
        for n in [5, 12, 25] {
            let law = Law::tabulated(n);
            assert!((law.tail(n, 0) / 0.5f64.powi(n as i32) - 1.0).abs() < 1e-9);
            for above in 1..=n {
                for below in 0..=n - above {
                    let here = law.tail(above, below);
                    assert!(here <= law.tail(above - 1, below), "one fewer above {above} {below}");
                    assert!(below == 0 || here >= law.tail(above, below - 1), "one fewer below {above} {below}");
                }
            }
            assert_eq!(law.tail(2, 2), 1.0);
        }
    }

    #[test]
    fn beyond_the_table_the_binomial_takes_over() {
        let law = Law::tabulated(MOST_TABULATED + 1);
        assert_eq!(law.tail(60, 40), fair_tail(40, 100));
    }
}
