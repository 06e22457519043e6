//! Tests open loops: operations that start at a rate.

use prony_model::latency::Recorder;
use prony_model::record::LatencyKind;
use prony_model::spec::{Action, Amount, Ops, Order};
use prony_model::units::Nanos;

use super::fake::{ops, plan, reports};
use super::rate;

#[test]
fn the_schedule_of_an_open_loop_continues_in_gaps() {
    for threads in [1, 2] {
        let with = Ops { rate: rate(20_000.0), threads, amount: Amount::Count(2000), ..ops(Order::Record) };
        let [put] = reports(&plan(2000, [Action::Put(with)])).try_into().unwrap();
        assert!(put.time >= Nanos::from_nanos(1999 * 50_000), "so late the last one starts: {}", put.time);
    }
}

/// Its last interval was left out: the rate of 5/s for 2 s was 5.56/s.
#[test]
fn an_open_loop_that_is_bounded_by_time_lasts_that_time() {
    let millis = Nanos::from_millis;
    for threads in [1, 2] {
        let with = Ops { rate: rate(100.0), threads, amount: Amount::Duration(millis(35)), ..ops(Order::Record) };
        let [put] = reports(&plan(10, [Action::Put(with)])).try_into().unwrap();
        assert!(put.operations + put.skipped == 4 && put.time >= millis(35), "{} in {}", put.operations, put.time);
    }
}

#[test]
fn an_open_loop_starts_everything_on_schedule_and_keeps_both_latencies() {
    for threads in [1, 2] {
        let with = Ops { rate: rate(20_000.0), threads, amount: Amount::Count(1000), ..ops(Order::Record) };
        let [put] = reports(&plan(1000, [Action::Put(with)])).try_into().unwrap();
        assert_eq!((put.operations, put.skipped), (1000, 0));
        assert!(put.time + put.gap.unwrap() >= Nanos::from_nanos(998 * 50_000), "the schedule takes its time");
        let kinds: Vec<_> = put.histograms.iter().map(|histogram| histogram.kind).collect();
        assert_eq!(kinds, [LatencyKind::Intended, LatencyKind::Actual]);
        let counts = put.histograms.iter().map(|histogram| Recorder::from_record(histogram).unwrap().succeeded());
        assert_eq!(counts.collect::<Vec<_>>(), [1000, 1000]);
        assert!(put.lag.is_some());
        assert!(put.notes.iter().any(|note| note.contains("busy waiting")), "whose CPU time it is must be said");
    }
}

#[test]
fn what_an_overloaded_open_loop_never_started_is_counted() {
    let millis = 30;
    let with = Ops { rate: rate(1e9), amount: Amount::Duration(Nanos::from_millis(millis)), ..ops(Order::Record) };
    let [put] = reports(&plan(1000, [Action::Put(with)])).try_into().unwrap();
    assert_eq!(put.operations + put.skipped, millis * 1_000_000);
    assert!(put.saturated && put.skipped > 0);
}
