//! Tests of verdicts on variants that differ in a part of the blocks only.

use prony_model::random::Stream;

use super::*;

/// In 8 of 30 blocks 50 requests of the variant timed out, in the others none did, as none of the baseline's: that was *differs, but by
/// less than the margin*.
#[test]
fn values_that_repeat_show_nothing_of_those_that_do_not() {
    let timeouts = |many: f64, often: u32| -> Comparison {
        let of = |i: u32| if i * 7 % 30 < often { many } else { 100.0 };
        let block = |i| Block::pair(Observation::Value(of(i)), &[Observation::Value(100.0); 2]);
        one_comparison((0..30).map(block).collect())
    };
    let c = timeouts(150.0, 8);
    assert!(matches!(c.verdict, Verdict::CantTell { .. }), "{c:?}");
    assert!(c.p_adjusted.measured().unwrap() > &0.05 && c.smallest_effect.measured().unwrap() > &0.5, "{c:?}");
    assert!(!c.covers_all && c.notes[0].contains("above its baseline in 8 and below it in 0"), "{c:?}");
    // All of them within the margin.
    assert_eq!(timeouts(100.5, 8).verdict, Verdict::NoDifference);
    let equal = timeouts(100.0, 30);
    assert_eq!(
        (&equal.verdict, equal.smallest_effect, equal.notes.len()),
        (&Verdict::NoDifference, Reading::Measured(0.0), 0)
    );
    assert!(timeouts(150.0, 28).verdict.is_worse());
    // Six at the begin differ, which the first analysis takes for all; then none does.
    let late =
        |i: u32| Block::pair(Observation::Value(if i < 6 { 150.0 } else { 100.0 }), &[Observation::Value(100.0); 2]);
    let c = one_comparison((0..30).map(late).collect());
    assert!(matches!(c.verdict, Verdict::CantTell { .. }), "{c:?}");
}

/// The variant takes two or three times as much in 2 of the first 18 blocks and in 8 of the 12 later ones: its interval was that of
/// the first, a point where values repeat, beside which the last one was said to cover all blocks.
#[test]
fn interval_of_fewer_blocks_is_none_of_all() {
    let is_much = |i: u32| [3, 9].contains(&i) || (i >= 18 && i % 3 != 1);
    for (times, noise) in [(2.0, 0.0), (3.0, 0.01)] {
        let cost = |i: u32| (if is_much(i) { 10.0 * times } else { 10.0 }) * (1.0 + noise * (f64::from(i % 5) - 2.0));
        let block = |i| Block::pair(Observation::Value(cost(i)), &[Observation::Value(10.0); 2]);
        let c = one_comparison((0..30).map(block).collect());
        assert!(matches!(c.verdict, Verdict::CantTell { .. }), "{c:?}");
        assert!(c.covers_all && c.interval.measured().unwrap().high.unwrap() > 1.9, "{c:?}");
    }
}

/// A quarter of the trials took twice as long, of which the median shows nothing.
#[test]
fn part_of_the_blocks_that_differs_has_a_note() {
    let note = |better: Better, part: usize| {
        let both = blocks(30, 1.0).into_iter().zip(blocks(30, 2.0)).enumerate();
        let some = both.map(|(i, (alike, twice))| if i % 4 < part { twice } else { alike }).collect();
        let family = family(vec![Contrast { better, ..contrast(some) }]);
        compare_family(&family).remove(0).notes.into_iter().find(|note| note.contains("do not describe"))
    };
    let (lower, higher) = (note(Better::Lower, 1).unwrap(), note(Better::Higher, 1).unwrap());
    let above =
        "of 30 blocks the variant lies by more than 3 % above its baseline in 8 and by more than 2.91 % below it in 0";
    assert!(lower.starts_with(above) && higher.starts_with(above), "{lower}, {higher}");
    assert_eq!((note(Better::Lower, 0), note(Better::Lower, 4)), (None, None));
}

/// A count that is the same in all blocks was "finishes less often" once one trial did not finish.
#[test]
fn difference_without_any_noise_stays_one_beside_a_trial_that_did_not_finish() {
    let block = |i: u32| {
        let value = if i == 20 { Observation::Unfinished } else { Observation::Value(120.0) };
        Block::pair(value, &[Observation::Value(100.0); 2])
    };
    let c = one_comparison((0..30).map(block).collect());
    assert!(c.verdict.is_worse() && c.verdict != Verdict::FinishesLessOften, "{c:?}");
    assert!(*c.p_adjusted.measured().unwrap() < 1e-6, "{c:?}");
}

/// A variant of which all trials finished, and one of 60 of its baseline's did not, "finished less often".
#[test]
fn variants_finish_less_often_only_if_they_do() {
    let blocks = |above: u32, below: u32, unfinished: u32, of_variant: bool| -> Vec<Block> {
        let value = |i: u32| match i {
            i if i < above => 120.0,
            i if i < above + below => 80.0,
            _ => 100.0,
        };
        let baselines = [99.0, 101.0].map(Observation::Value);
        let block = |i: u32| match i >= 30 - unfinished {
            true if of_variant => Block::pair(Observation::Unfinished, &baselines),
            true => Block::pair(Observation::Value(100.0), &[Observation::Unfinished, baselines[1]]),
            false => Block::pair(Observation::Value(value(i)), &baselines),
        };
        (0..30).map(block).collect()
    };
    let verdict = |data: Vec<Block>| {
        let analyses = InterimAnalyses::new(30, 30);
        compare_family(&family(vec![Contrast { analyses, ..contrast(data) }])).remove(0).verdict
    };
    let c = verdict(blocks(22, 5, 1, false));
    assert!(c.is_worse() && c != Verdict::FinishesLessOften, "{c:?}");
    assert_eq!(verdict(blocks(2, 0, 12, true)), Verdict::FinishesLessOften);
    // 2 of 30 against 0 of 60 are chance.
    let c = verdict(blocks(10, 4, 2, true));
    let Verdict::CantTell { more_blocks: Reading::Missing(why) } = c else { panic!("{c:?}") };
    assert!(why.to_string().contains("not shown that one variant finishes less often"), "{why}");
    // As many of either: what differs is neither the time nor how often trials finish.
    let mut both = blocks(8, 3, 3, true);
    for block in both.iter_mut().skip(11).take(6) {
        block.trials[1] = Observation::Unfinished;
        block.trials[0] = Observation::Value(102.0);
    }
    let c = verdict(both);
    let Verdict::CantTell { more_blocks: Reading::Missing(why) } = c else { panic!("{c:?}") };
    assert!(why.to_string().contains("a trial did not finish"), "no number of blocks would tell: {why}");
}

/// Values that repeat have no range, so that any distance is a large one: of 20 variants that have 11 in nearly half of their
/// trials and 10, as the baseline, in the others, one differed in one family of seven.
#[test]
fn few_blocks_of_values_that_repeat_are_no_narrow_range() {
    let [ten, eleven, thousand] = [10.0, 11.0, 1001.0].map(Observation::Value);
    let counted = |stepped: bool, most: u32, values: &dyn Fn(u32) -> Observation| {
        let blocks = (0..most).map(|at| Block::pair(values(at), &[ten; 2])).collect();
        Contrast { stepped, analyses: InterimAnalyses::new(6, 30), ..Contrast::described(Better::Lower, blocks) }
    };
    let differ = |members: Vec<Contrast>| {
        compare_family(&family(members)).iter().filter(|found| found.verdict.is_difference()).count()
    };
    let mut random = Stream::new(11);
    let mut false_families = |stepped: bool| {
        let one = |_| {
            let members = (0..20).map(|_| {
                let values: Vec<bool> = (0..6).map(|_| random.below(20) < 9).collect();
                counted(stepped, 6, &|at| if values[at as usize] { eleven } else { ten })
            });
            differ(members.collect()) > 0
        };
        (0..200).map(one).filter(|is_false| *is_false).count()
    };
    assert!(false_families(false) > 15, "continuous values are assumed");
    assert_eq!(false_families(true), 0);
    // What always differs is found where the counts suffice, and far beyond a step at once.
    let always = |most, value| differ((0..20).map(|_| counted(true, most, &|_| value)).collect());
    assert_eq!([always(6, eleven), always(11, eleven), always(18, eleven)], [0, 0, 20]);
    assert_eq!(always(6, thousand), 20);
    // Of 21 variants that have 11 in most of their trials, some have 10 in all of a few blocks.
    let hidden = compare_family(&family((0..21).map(|_| counted(true, 6, &|_| ten)).collect())).remove(0);
    assert_ne!(hidden.verdict, Verdict::NoDifference);
    let equal = compare_family(&family(vec![counted(true, 18, &|_| ten)])).remove(0);
    assert_eq!(equal.verdict, Verdict::NoDifference);
}
