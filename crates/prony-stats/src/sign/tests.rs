//! Tests of the sign test: its level, its interval and what it shares with the estimate.

use super::super::binomial::fair_tail;
use super::super::simulation::Rng;
use super::*;
use crate::time_budget::Budget;
use prony_model::units::Nanos;
use proptest::prelude::*;

fn test_of(pairs: &[(f64, f64)]) -> SignTest {
    SignTest::new(&pairs.iter().map(|(low, high)| Bracket { low: *low, high: *high }).collect::<Vec<_>>())
}

fn by_counts(pairs: &[(f64, f64)]) -> SignTest {
    SignTest { unimodal: false, ..test_of(pairs) }
}

/// Every assignment of three values to variant, baseline and baseline in each block: the law of identical variants.
#[test]
fn identical_variants_are_rejected_no_more_than_promised_by_enumeration() {
    let n = 8u32;
    // The three values are 0, 1 and 2.5, so that the variants are skewed.
    let bracket = |rank: u32| match rank {
        0 => (-2.5, -1.0),
        1 => (-1.5, 1.0),
        _ => (1.5, 2.5),
    };
    let law = Law::tabulated(n);
    for alpha in [0.05, 0.02, 0.01] {
        let rejects = |word: &u32| {
            let pairs: Vec<_> = (0..n).map(|block| bracket(word / 3u32.pow(block) % 3)).collect();
            let (above, below) = test_of(&pairs).counts(0.0);
            2.0 * law.tail(above.max(below), above.min(below)) <= alpha
        };
        let rejected = (0..3u32.pow(n)).filter(rejects).count();
        let rate = rejected as f64 / f64::from(3u32.pow(n));
        assert!(rate <= alpha && rate > 0.2 * alpha, "{alpha}: {rate}");
    }
}

/// All sequences of blocks above and below, where those above take other times than those below, so that how many
/// fit into a budget depends on what is tested. The level holds for any such times, drawn or fixed.
#[test]
fn a_time_budget_keeps_the_level_though_signs_decide_how_many_blocks_it_allows() {
    let most = 14usize;
    let mut rng = Rng::new(11);
    let mut draw = |of: u64| (0..most).map(|_| 1 + rng.below(of as usize) as u64).collect::<Vec<u64>>();
    let mut settings = vec![(vec![100; most], vec![1; most]), (vec![1; most], vec![9; most])];
    settings.extend((0..20).map(|i| (draw(1 + 3 * i), draw(30))));
    for (above, below) in &settings {
        for share in [0.3, 0.5, 0.8] {
            let all: u64 = above.iter().chain(below).sum();
            let ps = ps_within(all as f64 / 2.0 * share, above, below);
            for alpha in [0.2, 0.05, 0.025, 0.01] {
                let rejected = ps.iter().filter(|p| **p <= alpha).count() as f64 / ps.len() as f64;
                assert!(rejected <= alpha + 1e-12, "{above:?} {below:?}, {share}: {rejected} at {alpha}");
            }
        }
    }
}

/// The p-value at the end of a budget for each sequence of blocks above and below, all equally likely; `above` and
/// `below` are the times of the first, second ... of either kind.
fn ps_within(time: f64, above: &[u64], below: &[u64]) -> Vec<f64> {
    let p = |word: u32| {
        let (mut budget, mut clock) = (Budget::new(Nanos::from_nanos(time as u64)), Nanos::ZERO);
        let mut taken = [0usize; 2];
        for block in 0..above.len() {
            if !budget.allows_another(clock, 0.0) {
                break;
            }
            let side = (word >> block & 1) as usize;
            let took = Nanos::from_nanos([below, above][side][taken[side]]);
            (clock, taken[side]) = (clock + took, taken[side] + 1);
            budget.block(took);
        }
        let pairs: Vec<(f64, f64)> =
            [(-2.0, -1.0), (1.0, 2.0)].iter().zip(taken).flat_map(|(p, n)| vec![*p; n]).collect();
        let brackets = pairs.iter().map(|(low, high)| Bracket { low: *low, high: *high });
        SignTest::by_counts(&brackets.collect::<Vec<_>>()).p(0.0)
    };
    (0..1u32 << above.len()).map(p).collect()
}

#[test]
fn by_counts_no_gap_beyond_the_range_counts() {
    let pairs = [(1.0, 1.1), (1.2, 1.3), (1.0, 1.05), (1.1, 1.2), (1.05, 1.3), (1.2, 1.25)];
    let brackets: Vec<Bracket> = pairs.iter().map(|(low, high)| Bracket { low: *low, high: *high }).collect();
    let (counts, unimodal) = (SignTest::by_counts(&brackets), test_of(&pairs));
    assert!((counts.p(0.0) - 2f64.powi(-5)).abs() < 1e-12);
    assert!(unimodal.p(0.0) < 1e-3);
    assert_eq!(counts.interval(0.01), (f64::NEG_INFINITY, f64::INFINITY));
    assert_eq!(counts.interval(0.05), (1.0, 1.3));
    assert!(unimodal.interval(0.01).0 > 0.0);
}

/// Identical variants, of which the baseline's values may be far larger than measured, as its threads ran on when they were
/// read and the variant's slept. That no block can lie above any more is no sign that the variant lies below.
#[test]
fn an_error_of_one_variant_is_no_difference() {
    let ranks = [(-2.0, -1.0), (-1.0, 1.0), (1.0, 2.0)];
    let bracketed = |n: usize| {
        let (low, high) = ranks[n % 3];
        let (value, lower) = (Bracket { low, high }, Bracket { low: low - 9.0, high: high - 9.0 });
        Bracketed { least: lower, value, most: value }
    };
    for blocks in [12, 30] {
        let test = SignTest::new(&(0..blocks).map(bracketed).collect::<Vec<_>>());
        let (low, high) = test.interval(0.05);
        assert!(test.p(0.0) > 0.9 && low < 0.0 && high > 0.0, "{} in {low} to {high}", test.p(0.0));
        assert_eq!(test.estimate(), Some(0.0));
    }
}

#[test]
fn variants_of_unequal_spread_keep_the_level_where_permuting_labels_would_not() {
    // A variant that is far above or far below two close baselines, each with 1/2.
    let n = 6u32;
    let (mut permuted, mut signed) = (0u32, 0u32);
    for word in 0..1u32 << n {
        let above = word.count_ones();
        let extreme = above == 0 || above == n;
        // Of 3^6 assignments of labels, the most extreme two give the permutation test p = 0.0027.
        permuted += u32::from(extreme && 2.0 * 3f64.powi(-(n as i32)) <= 0.01);
        let pairs: Vec<_> = (0..n).map(|b| if word >> b & 1 == 1 { (9.0, 10.0) } else { (-10.0, -9.0) }).collect();
        signed += u32::from(by_counts(&pairs).interval(0.01).0 > 0.0);
    }
    let rate = |hits: u32| f64::from(hits) / f64::from(1u32 << n);
    assert!(rate(permuted) > 0.03, "the trap: {}", rate(permuted));
    assert_eq!(signed, 0);
}

#[test]
fn the_interval_is_what_the_test_does_not_reject() {
    let pairs = [
        (-0.3, 0.1),
        (0.2, 0.4),
        (0.1, 0.15),
        (-0.6, -0.5),
        (0.3, 0.9),
        (0.0, 0.2),
        (0.25, 0.3),
        (0.4, 0.5),
        (0.1, 0.3),
        (-0.1, 0.0),
        (0.2, 0.8),
    ];
    let test = test_of(&pairs);
    for alpha in [0.5, 0.1, 0.05, 0.01, 0.002] {
        let (low, high) = test.interval(alpha);
        for step in -400..400 {
            let theta = f64::from(step) / 200.0 + 0.000_1;
            let inside = low <= theta && theta <= high;
            let (above, below) = test.counts(theta);
            let rejected = fair_tail(below, above + below).min(fair_tail(above, above + below)) <= 0.5 * alpha;
            if fair_tail(0, 11) <= 0.5 * alpha {
                assert_eq!(inside, !rejected, "alpha {alpha}, theta {theta}");
            }
        }
    }
}

#[test]
fn the_estimate_balances_the_counts() {
    let test = test_of(&[(1.0, 2.0), (3.0, 5.0), (-1.0, 4.0)]);
    assert_eq!(test.estimate(), Some(2.5));
    let (above, below) = test.counts(2.5);
    assert_eq!(above, below);
    assert_eq!(test_of(&[]).estimate(), None);
    assert_eq!(test_of(&[(f64::NEG_INFINITY, f64::INFINITY)]).estimate(), None);
}

/// The bound `(2 (1 + c))^(1 - n)` is met by the uniform distribution: by integration over the largest value.
#[test]
fn the_gap_is_exact_for_uniform_noise() {
    for n in [4u32, 6, 9] {
        for alpha in [0.01, 0.001] {
            let c = gap_needed(n, alpha);
            if c == 0.0 {
                continue;
            }
            // All on one side, and the least at least c ranges from 0: min >= max c / (1 + c).
            let q = c / (1.0 + c);
            let steps = 20_000;
            let density = |m: f64| f64::from(n) * (m * (1.0 - q)).powi(n as i32 - 1);
            let area: f64 = (0..steps).map(|i| density((f64::from(i) + 0.5) / f64::from(steps))).sum();
            let probability = 2.0 * 0.5f64.powi(n as i32) * area / f64::from(steps);
            assert!((probability / alpha - 1.0).abs() < 1e-6, "n {n}: {probability}");
        }
    }
}

#[test]
fn few_blocks_need_a_gap_and_enough_blocks_none() {
    assert_eq!(gap_needed(6, 0.05), 0.0);
    assert!(gap_needed(6, 0.0025) > 0.6 && gap_needed(6, 0.0025) < 0.7);
    assert_eq!(gap_needed(10, 0.0025), 0.0);
    assert_eq!(gap_needed(1, 0.05), f64::INFINITY);
    let tenfold: Vec<_> = [2.25, 2.3, 2.28, 2.31, 2.35, 2.27].iter().map(|d| (d - 0.02, d + 0.02)).collect();
    assert!(test_of(&tenfold).interval(1e-4).0 > 1.0);
    assert_eq!(by_counts(&tenfold).interval(1e-4).0, f64::NEG_INFINITY);
}

#[test]
fn rounded_values_reach_further_before_and_lie_nearer() {
    let tenfold: Vec<_> = [2.25, 2.3, 2.28, 2.31, 2.35, 2.27].iter().map(|d| (d - 0.02, d + 0.02)).collect();
    let (exact, rounded) = (test_of(&tenfold), test_of(&tenfold).rounded(0.1));
    // The range is 0.14, and was at most 0.34; the least is 2.23, and was at least 2.13.
    let expected = 2.0 * 2f64.powi(-6) * (0.34f64 / (0.34 + 2.13)).powi(5);
    assert!((rounded.p(0.0) / expected - 1.0).abs() < 1e-9 && rounded.p(0.0) > exact.p(0.0));
    assert_eq!(rounded.p(2.2), 2f64.powi(-5), "nearer than the rounding");
    let alpha = 1e-3;
    let (low, high) = rounded.interval(alpha);
    assert!((rounded.p(low) / alpha - 1.0).abs() < 1e-6 && (rounded.p(high) / alpha - 1.0).abs() < 1e-6);
    assert!(low < exact.interval(alpha).0 && high > exact.interval(alpha).1);
}

#[test]
fn censored_values_pair_as_worse_than_any() {
    let inf = f64::INFINITY;
    assert_eq!(Bracket::of(inf, &[1.0, 2.0]), Bracket { low: inf, high: inf });
    assert_eq!(Bracket::of(1.0, &[inf, inf]), Bracket { low: -inf, high: -inf });
    assert_eq!(Bracket::of(1.0, &[inf, 3.0]), Bracket { low: -inf, high: -2.0 });
    assert_eq!(Bracket::of(inf, &[inf, 3.0]), Bracket { low: -inf, high: inf });
    assert_eq!(Bracket::of(1.0, &[]), Bracket { low: -inf, high: inf });
    assert_eq!(Bracket::of(-inf, &[-inf, -inf]), Bracket { low: 0.0, high: 0.0 });
}

#[test]
fn what_never_finishes_lies_beyond_no_range() {
    let (inf, alpha) = (f64::INFINITY, 0.001);
    let never = test_of(&[(inf, inf); 6]);
    assert_eq!(never.p(0.0), 2f64.powi(-5));
    assert_eq!(never.interval(alpha).0, f64::NEG_INFINITY);
    let once = test_of(&[(1.0, 1.1), (1.0, 1.2), (1.1, 1.2), (1.0, 1.3), (1.0, inf), (1.2, 1.3)]);
    assert_eq!((once.p(0.0), once.interval(alpha).0), (2f64.powi(-5), f64::NEG_INFINITY));
}

#[test]
fn equal_values_everywhere_give_a_point() {
    let same = test_of(&[(0.0, 0.0); 8]);
    assert_eq!(same.interval(0.05), (0.0, 0.0));
    assert_eq!((same.p(0.0), same.estimate()), (1.0, Some(0.0)));
    assert_eq!(test_of(&[(0.5, 0.5); 6]).p(0.0), 0.0);
}

fn log_cost() -> impl Strategy<Value = f64> {
    prop_oneof![9 => -3.0..3.0f64, 1 => Just(f64::INFINITY)]
}

/// The least, the measured, the greatest and the true logarithm of a cost.
type Uncertain = [f64; 4];

fn uncertain() -> impl Strategy<Value = Uncertain> {
    let error = || prop_oneof![Just(0.0), 0.0..2.0f64];
    (log_cost(), error(), error(), 0.0..=1.0f64).prop_map(|(value, less, more, truth)| {
        if value.is_infinite() {
            return [value; 4];
        }
        [value - less, value, value + more, value - less + truth * (less + more)]
    })
}

fn block() -> impl Strategy<Value = (f64, f64, f64)> {
    (log_cost(), log_cost(), log_cost())
}

fn brackets(blocks: &[(f64, f64, f64)]) -> Vec<Bracket> {
    blocks.iter().map(|(v, b, b2)| Bracket::of(*v, &[*b, *b2])).collect()
}

proptest! {
    /// Whatever the true values are within their bounds, they would have rejected what the test rejects.
    #[test]
    fn an_error_of_values_only_weakens_claims(
        blocks in prop::collection::vec((uncertain(), uncertain(), uncertain()), 2..14), alpha in 0.0005..0.2f64,
    ) {
        let bracket = |(v, b, b2): &(Uncertain, Uncertain, Uncertain), ours: usize, theirs: usize| {
            Bracket::of(v[ours], &[b[theirs], b2[theirs]])
        };
        let truth: Vec<Bracket> = blocks.iter().map(|block| bracket(block, 3, 3)).collect();
        let known: Vec<Bracketed> = (blocks.iter())
            .map(|block| Bracketed { least: bracket(block, 0, 2), value: bracket(block, 1, 1), most: bracket(block, 2, 0) })
            .collect();
        let law = || Law::tabulated(blocks.len() as u32);
        for (exact, bounded) in [
            (SignTest::new(&truth), SignTest::new(&known)),
            (SignTest::by_counts(&truth), SignTest::by_counts(&known)),
            (SignTest::with_law(&truth, law()), SignTest::with_law(&known, law())),
        ] {
            prop_assert!(bounded.p(0.0) >= exact.p(0.0) * (1.0 - 1e-9));
            let (inner, outer) = (exact.interval(alpha), bounded.interval(alpha));
            prop_assert!(outer.0 <= inner.0 && outer.1 >= inner.1);
        }
    }

    #[test]
    fn p_and_interval_agree(blocks in prop::collection::vec(block(), 2..20), alpha in 0.0005..0.2f64) {
        let test = SignTest::new(&brackets(&blocks));
        let (low, high) = test.interval(alpha);
        prop_assert!(low <= high);
        let excluded = low > 0.0 || high < 0.0;
        prop_assert_eq!(excluded, test.p(0.0) <= alpha * (1.0 + 1e-12), "p {} of {}", test.p(0.0), alpha);
    }

    /// Of values that repeat, many lie exactly at 0.
    #[test]
    fn p_and_interval_agree_on_values_that_repeat(
        values in prop::collection::vec((0..3u32, 0..3u32, 0..3u32), 2..30), alpha in 0.0005..0.2f64,
    ) {
        let of = |(variant, one, other): &(u32, u32, u32)| Bracket::of((*variant).into(), &[(*one).into(), (*other).into()]);
        let test = SignTest::by_counts(&values.iter().map(of).collect::<Vec<_>>());
        let (low, high) = test.interval(alpha);
        let excluded = low > 0.0 || high < 0.0;
        prop_assert_eq!(excluded, test.p(0.0) <= alpha * (1.0 + 1e-12), "p {} of {}, {} to {}", test.p(0.0), alpha, low, high);
    }

    #[test]
    fn swapping_the_variants_mirrors_everything(pairs in prop::collection::vec((-3.0..3.0f64, 0.0..2.0f64), 2..20)) {
        let forth: Vec<_> = pairs.iter().map(|(low, width)| (*low, low + width)).collect();
        let back: Vec<_> = forth.iter().map(|(low, high)| (-high, -low)).collect();
        let (forth, back) = (test_of(&forth), test_of(&back));
        let (f, b) = (forth.interval(0.05), back.interval(0.05));
        prop_assert!((f.0 + b.1).abs() < 1e-9 && (f.1 + b.0).abs() < 1e-9);
        prop_assert_eq!(forth.p(0.0), back.p(0.0));
        prop_assert!((forth.estimate().unwrap() + back.estimate().unwrap()).abs() < 1e-9);
    }

    #[test]
    fn shifting_the_variant_shifts_estimate_and_interval(
        pairs in prop::collection::vec((-3.0..3.0f64, 0.0..2.0f64), 2..20), by in -5.0..5.0f64,
    ) {
        let still: Vec<_> = pairs.iter().map(|(low, width)| (*low, low + width)).collect();
        let moved: Vec<_> = still.iter().map(|(low, high)| (low + by, high + by)).collect();
        let (still, moved) = (test_of(&still), test_of(&moved));
        let (s, m) = (still.interval(0.02), moved.interval(0.02));
        prop_assert!((m.0 - s.0 - by).abs() < 1e-9 && (m.1 - s.1 - by).abs() < 1e-9);
        prop_assert!((moved.estimate().unwrap() - still.estimate().unwrap() - by).abs() < 1e-9);
    }

    #[test]
    fn variant_that_stops_finishing_never_ranks_better(
        blocks in prop::collection::vec(block(), 2..20), which in 0usize..20, alpha in 0.001..0.2f64,
    ) {
        let before = SignTest::by_counts(&brackets(&blocks));
        let mut worse = blocks.clone();
        let place = which % worse.len();
        worse[place].0 = f64::INFINITY;
        let after = SignTest::by_counts(&brackets(&worse));
        prop_assert!(after.interval(alpha).1 >= before.interval(alpha).1);
        let (above, below) = before.counts(0.0);
        let (above_after, below_after) = after.counts(0.0);
        prop_assert!(below_after <= below, "{above} {above_after}");
    }

    #[test]
    fn the_stricter_level_has_the_wider_interval(blocks in prop::collection::vec(block(), 2..20), alpha in 0.001..0.1f64) {
        let test = SignTest::new(&brackets(&blocks));
        let (wide, narrow) = (test.interval(alpha / 3.0), test.interval(alpha));
        prop_assert!(wide.0 <= narrow.0 && wide.1 >= narrow.1);
    }
}
