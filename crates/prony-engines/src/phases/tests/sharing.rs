//! Tests phases whose operations several workers or threads share.

use std::sync::Arc;

use prony_model::link::Progress;
use prony_model::protocol::{FromWorker, PhaseReport, ToWorker};
use prony_model::spec::{Action, Amount, Ops, Order, Sharing};
use prony_model::units::Nanos;

use super::fake::{Fake, Script, Still, ops, plan, reports};
use super::{HostError, N, put};
use crate::phases::{Plan, Queue, host};

/// One worker's report of the second phase, which it shares; the first worker writes the store before.
fn part(plan: &Plan, replica: u32, go: bool) -> (Option<PhaseReport>, Vec<FromWorker>, Result<(), HostError>) {
    let first = (replica == 1).then_some(ToWorker::Phase { index: 0 });
    let shared = [ToWorker::Phase { index: 1 }, ToWorker::Stop];
    let asks = first.into_iter().chain(shared).collect();
    let mut script = Script { asks, retains: !go, ..Script::default() };
    let plan = Plan { replica, ..plan.clone() };
    let ended = host::<Fake<true>>(&mut script, &Still, &plan, &Progress::default());
    let report = script.sent.iter().find_map(|message| match message {
        FromWorker::Ended { index: 1, report, .. } => Some((**report).clone()),
        _ => None,
    });
    (report, script.sent, ended)
}

fn digest(report: &PhaseReport) -> u64 {
    let answer = report.answer.as_ref().unwrap();
    u64::from_str_radix(answer.digest.strip_prefix("lines:").unwrap(), 16).unwrap()
}

#[test]
fn workers_divide_the_records_of_a_phase_among_them() {
    for (threads, order) in [(1, Order::Shuffled), (2, Order::Key), (2, Order::Record)] {
        let shared = |replicas| Action::Get(Ops { replicas, threads, ..ops(order) });
        let single = &reports(&plan(N, [put(), shared(None)]))[1];
        assert_eq!(single.sections, []);
        let plan = plan(N, [put(), shared(Some(3))]);
        let parts: Vec<PhaseReport> = (1..=3).map(|replica| part(&plan, replica, true).0.unwrap()).collect();
        let sum = |of: fn(&PhaseReport) -> u64| parts.iter().map(of).sum::<u64>();
        assert_eq!(parts.iter().map(|part| part.operations).collect::<Vec<_>>(), [N / 3; 3]);
        assert_eq!((sum(|part| part.rows.unwrap()), sum(|part| part.distinct.unwrap())), (N, N));
        assert_eq!(parts.iter().map(digest).fold(0, u64::wrapping_add), digest(single));
        for part in parts {
            let inside = part.sections.iter().fold(Nanos::ZERO, |sum, (from, to)| sum + to.since(*from));
            assert!(inside >= part.time && part.sections.is_sorted(), "{inside} {}", part.time);
        }
    }
}

#[test]
fn worker_waits_for_all_workers_before_it_begins() {
    let plan = plan(N, [put(), Action::Get(Ops { replicas: Some(2), ..ops(Order::Shuffled) })]);
    let (_, sent, ended) = part(&plan, 1, true);
    ended.unwrap();
    let place = |is: fn(&FromWorker) -> bool| sent.iter().position(is).unwrap();
    let prepared = place(|message| matches!(message, FromWorker::Prepared { index: 1 }));
    assert_eq!(place(|message| matches!(message, FromWorker::Began { index: 1, .. })), prepared + 1);
    let (report, sent, ended) = part(&plan, 2, false);
    assert!(report.is_none() && ended.is_err());
    assert!(!sent.iter().any(|message| matches!(message, FromWorker::Began { .. })));
}

/// Sorting 800,000 keys before the phase was in its CPU time, and not in its time.
#[test]
fn every_phase_waits_until_its_counters_are_read_when_all_is_prepared() {
    let get = |threads| Action::Get(Ops { threads, ..ops(Order::Key) });
    let beside = |plan: Plan| {
        let mut plan = plan;
        plan.spec.phases[0].background = Some(get(2));
        plan
    };
    let single =
        [put(), get(1), get(3), Action::Verify, Action::Persist, Action::Evict].map(|action| plan(N, [action]));
    for plan in single.into_iter().chain([beside(plan(N, [put()]))]) {
        let asks = [ToWorker::Phase { index: 0 }, ToWorker::Stop].into();
        let mut script = Script { asks, retains: true, ..Script::default() };
        assert!(
            host::<Fake<true>>(&mut script, &Still, &plan, &Progress::default()).is_err(),
            "`stop` where `go` was due"
        );
        assert!(
            matches!(script.sent[..], [FromWorker::Ready { .. }, FromWorker::Prepared { index: 0 }]),
            "{:?}",
            script.sent
        );
    }
}

#[test]
fn threads_take_each_operation_of_a_queue_once() {
    for (order, amount) in [
        (Order::Shuffled, Amount::Records),
        (Order::Key, Amount::Records),
        (Order::Record, Amount::Count(N / 2)),
        (Order::Record, Amount::Count(2 * N)),
    ] {
        let with = |threads, share| Action::Get(Ops { amount, threads, share, ..ops(order) });
        let single = &reports(&plan(N, [put(), with(1, Sharing::Equal)]))[1];
        let queue = Some(Arc::new(Queue::new().unwrap()));
        let shared = &reports(&Plan { queue, ..plan(N, [put(), with(4, Sharing::Queue)]) })[1];
        let counts = |report: &PhaseReport| (report.operations, report.rows, report.user_bytes);
        assert_eq!(counts(shared), counts(single));
        assert_eq!(shared.answer, single.answer);
        let known = amount != Amount::Count(2 * N);
        assert_eq!(shared.distinct, single.distinct.filter(|_| known), "which client visits a record again is open");
    }
}
