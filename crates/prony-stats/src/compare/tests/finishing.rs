//! Tests of verdicts on trials of which some did not finish.

use super::*;

#[test]
fn outcomes_come_first() {
    let oom = |b: Block| with(b, Some(Observation::Unfinished), None);
    let c = one_comparison(blocks(6, 1.0).into_iter().map(oom).collect());
    assert_eq!(c.verdict, Verdict::DoesNotFinish);
    assert_eq!((c.variant, c.baseline), (Counts { finished: 0, trials: 6 }, Counts { finished: 12, trials: 12 }));
    let turned = |b: Block| with(b, None, Some(Observation::Unfinished));
    assert_eq!(
        one_comparison(blocks(6, 1.0).into_iter().map(turned).collect()).verdict,
        Verdict::BaselineDoesNotFinish
    );
    let neither = |b: Block| oom(turned(b));
    assert_eq!(one_comparison(blocks(6, 1.0).into_iter().map(neither).collect()).verdict, Verdict::NeitherFinishes);
}

/// `false` beside `sleep 0.01`: "most values are equal: of 8 blocks the variant lies above its baseline in 8 and below it in 0".
#[test]
fn what_never_finishes_has_no_equal_values() {
    let fails = |block: Block| with(block, Some(Observation::Unfinished), None);
    let turned = |block: Block| with(block, None, Some(Observation::Unfinished));
    for many in [8, 30] {
        for c in [
            one_comparison(blocks(many, 1.0).into_iter().map(fails).collect()),
            one_comparison(blocks(many, 1.0).into_iter().map(turned).collect()),
        ] {
            assert!(!c.notes.iter().any(|note| note.starts_with("most values are equal")), "{many}: {:?}", c.notes);
        }
    }
}

#[test]
fn sometimes_unfinished_counts_as_worse_than_any_time() {
    // Two of three trials of the variant run out of memory; its other trials take as long as the baseline.
    let mut some = blocks(30, 1.0);
    for (i, block) in some.iter_mut().enumerate() {
        block.trials[0] = if i % 3 == 0 { block.trials[0] } else { Observation::Unfinished };
    }
    let c = one_comparison(some);
    assert!(c.verdict.is_worse(), "{c:?}");
    assert_eq!(c.interval.measured().unwrap().high, None);
    assert_eq!(c.ratio, Reading::Missing(Why::NotReached));
}

/// A variant that took as long, and failed in 7 of 30 trials, was *no difference*.
#[test]
fn variants_that_do_not_finish_equally_often_are_not_alike() {
    let fails = |every: usize| {
        let mut some = blocks(30, 1.0);
        let failing = some.iter_mut().enumerate().filter(|(i, _)| i % every == 0);
        failing.for_each(|(_, block)| block.trials[0] = Observation::Unfinished);
        one_comparison(some)
    };
    let often = fails(4);
    assert_eq!(often.variant, Counts { finished: 22, trials: 30 });
    assert!(matches!(often.verdict, Verdict::CantTell { .. }), "{often:?}");
    assert_eq!(fails(30).verdict, Verdict::NoDifference, "one of 30 may be chance");
    let alike = |block: Block| with(block, Some(Observation::Unfinished), Some(Observation::Unfinished));
    let both = blocks(30, 1.0).into_iter().enumerate().map(|(i, block)| if i % 4 == 0 { alike(block) } else { block });
    assert!(!matches!(
        one_comparison(both.collect()).verdict,
        Verdict::CantTell { more_blocks: Reading::Missing(Why::Failed(_)) }
    ));
}

/// "About 35 blocks could tell", where 36 and 72 could not: the forecast was of values only, and how often trials finish decides too.
#[test]
fn no_number_of_blocks_is_given_where_a_trial_did_not_finish() {
    let noisy = |i: u32| Observation::Value(100.0 + 0.6 * [-5.0, 3.0, -2.0, 4.0, 0.0, 1.0, -1.0][i as usize % 7]);
    let found = |failing: bool| {
        let variant = |i: u32| if failing && i % 6 == 2 { Observation::Unfinished } else { noisy(i + 3) };
        one_comparison((0..12).map(|i| Block::pair(variant(i), &[noisy(i), noisy(i + 5)])).collect()).verdict
    };
    assert!(matches!(found(false), Verdict::CantTell { more_blocks: Reading::Measured(_) }), "{:?}", found(false));
    let why = "not all trials finished, so that it is not known how many blocks would tell";
    assert_eq!(found(true), Verdict::CantTell { more_blocks: Reading::failed(why) });
}

/// A program that ends well, but without what was to be measured, was said to succeed where the baseline fails.
#[test]
fn trials_that_may_have_done_nothing_show_no_outcome() {
    let odd = |block: Block| with(block, Some(Observation::Unknown), Some(Observation::Unfinished));
    let c = one_comparison(blocks(6, 1.0).into_iter().map(odd).collect());
    assert!(matches!(c.verdict, Verdict::CantTell { .. }), "{c:?}");
    assert_eq!((c.variant.trials, c.baseline), (0, Counts { finished: 0, trials: 12 }));
}
