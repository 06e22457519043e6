//! Tests verdicts on values with a known error: what samples missed, late boundaries, polls, printed digits.

use prony_analysis::verdicts::{self};
use prony_model::record::{SettleResult, Settled};
use prony_model::units::Nanos;
use prony_stats::Verdict;
use serde_json::json;

use crate::compared::{edited, printing};
use crate::synthetic::{noise, phase};
use crate::verdicts::{data, judged, only, stolen, two_stores, write};

/// The sampler met the largest extent of one program and not that of an equal one, which ended sooner after it.
#[test]
fn maximum_that_samples_missed_by_the_kernels_account_is_no_difference() {
    let memory = edited(&two_stores(12), |json| json["compare"]["primary"] = json!("write.anon.max"));
    let verdict = |missed: f64| {
        let verdicts = judged(&memory, 12, |t| {
            let missed = if t.trial.variant == 1 { missed } else { 0.0 };
            let figures = [("anon.max", 43e6 - missed), ("rss.max", 46e6 - missed), ("rss.peak", 46e6)];
            t.phases = vec![phase("write", &figures)];
        });
        only(&verdicts).comparison.verdict.clone()
    };
    assert!(matches!(verdict(8e6), Verdict::CantTell { .. }), "{:?}", verdict(8e6));
    assert_eq!(verdict(0.0), Verdict::NoDifference);
    let small = judged(&memory, 12, |t| {
        let most = if t.trial.variant == 1 { 1.55e6 } else { 2e6 };
        t.phases = vec![phase("write", &[("anon.max", most), ("rss.max", most), ("rss.peak", 2e6)])];
    });
    let small = &only(&small).comparison.verdict;
    assert!(matches!(small, Verdict::CantTell { .. }), "half a megabyte is much of two: {small:?}");
    let unseen = judged(&memory, 12, |t| {
        let (most, unseen) = if t.trial.variant == 1 { (20e6, 60e6) } else { (43e6, 0.0) };
        t.phases = vec![phase("write", &[("anon.max", most), ("rss.max", most), ("rss.unseen", unseen)])];
    });
    let basis = only(&unseen).detail.to_string();
    // Beside values that hardly vary, an interval of 0.476 to 2.07 had no reason.
    let said = "in 12 of 36 trials samples may have missed up to 60.0 MB (processes that ended between two samples may have used \
                that), for which the interval allows";
    assert!(basis.contains(said), "{basis}");
    let unseen = &only(&unseen).comparison.verdict;
    assert!(matches!(unseen, Verdict::CantTell { .. }), "a child was larger than all samples: {unseen:?}");
    let less = judged(&memory, 12, |t| {
        let used = if t.trial.variant == 1 { 20e6 } else { 43e6 };
        t.phases = vec![phase("write", &[("anon.max", used), ("rss.max", used), ("rss.peak", used + 1e6)])];
    });
    assert_eq!(only(&less).comparison.verdict, Verdict::Better, "more than what the samples missed");
    // 1 MB of 43 MB is less than the margin.
    let basis = only(&less).detail.to_string();
    assert!(basis.contains("in 12 of 36 trials samples may have missed up to 1.00 MB, for which"), "{basis}");
}

/// Of a phase of 60 ms, an end that was noticed 5 ms late was called time that the variant takes.
#[test]
fn time_between_boundaries_that_were_noticed_late_may_be_shorter() {
    let verdict = |lag: f64, reported: bool| {
        let verdicts = judged(&two_stores(12), 12, |t| {
            let noise = 1.0 + 0.01 * (noise(u64::from(t.trial.position)) - 0.5);
            let time = noise * if t.trial.variant == 1 { 65e6 } else { 60e6 };
            let wall = if reported { 1.5 * time } else { time };
            t.phases = vec![phase("write", &[("time", time), ("wall", wall), ("time.lag", lag)])];
        });
        only(&verdicts).comparison.verdict.clone()
    };
    assert!(matches!(verdict(5e6, false), Verdict::CantTell { .. }), "{:?}", verdict(5e6, false));
    assert_eq!(verdict(0.1e6, false), Verdict::Worse);
    assert_eq!(verdict(5e6, true), Verdict::Worse, "the program reported it itself");
}

/// Between two polls 200 processes were read, and a time that is the same was called twice as long.
#[test]
fn last_activity_may_have_been_at_any_time_between_two_polls() {
    let verdict = |step: u64| {
        let verdicts = judged(&two_stores(12), 12, |t| {
            let noise = 1.0 + 0.01 * (noise(u64::from(t.trial.position)) - 0.5);
            let (time, step) = if t.trial.variant == 1 { (3e9, step) } else { (1.5e9, 10) };
            t.phases = vec![phase("write", &[("time", noise * time)])];
            let result = SettleResult { step: Nanos::from_millis(step), ..SettleResult::default() };
            let settled = Settled { quiet: Nanos::from_secs(1), result: Some(result) };
            t.conditions.settled = [("write".to_owned(), settled)].into();
        });
        only(&verdicts).comparison.verdict.clone()
    };
    assert!(matches!(verdict(1_600), Verdict::CantTell { .. }), "{:?}", verdict(1_600));
    assert_eq!(verdict(50), Verdict::Worse);
}

/// Figures of 1 and 2 s that were printed in steps of 0.4 s had a verdict that counted with it, and beside it intervals that
/// did not.
#[test]
fn digits_that_are_printed_widen_all_numbers_of_a_verdict() {
    let experiment = two_stores(12);
    let spans = |half: f64| {
        let data = data(&experiment, 12, |t| {
            write(t, if t.trial.variant == 1 { 2.0 } else { 1.0 });
            t.conditions = stolen(t.trial.block % 4 == 1);
            t.effective = Some(printing(half));
        });
        let line = only(&verdicts::of(&data)).clone();
        let itself = verdicts::Comparisons::new(&data).itself(&line.pair.metric).remove(0).interval;
        let without = line.undisturbed.unwrap().estimate.measured().unwrap().interval;
        let aa = line.comparison.aa.measured().unwrap().interval;
        [aa, without, *itself.measured().unwrap()].map(|interval| interval.high.unwrap() / interval.low)
    };
    assert!(spans(0.0).iter().all(|span| *span < 1.1), "{:?}", spans(0.0));
    let [aa, without, itself] = spans(0.2e9);
    let of = |one: f64, other: f64| ((1.0 + one) / (1.0 - other)).max((1.0 + other) / (1.0 - one)).powi(2);
    assert!(aa > of(0.19, 0.19) && itself > of(0.19, 0.19) && without > of(0.19, 0.09), "{aa} {without} {itself}");
}
