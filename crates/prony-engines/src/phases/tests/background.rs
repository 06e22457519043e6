//! Tests phases with a background.

use prony_model::protocol::{Failure, PhaseReport, Verified};
use prony_model::spec::{Action, Amount, Arrivals, Grouping, Ops, OptionValue, Order, PauseEvery, Sampling};
use prony_model::units::{Nanos, PerSecond};

use super::fake::{ops, option, plan, reports, run, run_on};
use super::{N, failure, get, put};
use crate::memory::Memory;
use crate::phases::Plan;

/// A pass in groups of ten, with pauses that give the background time to run.
fn paced(order: Order) -> Ops {
    let pause = Some(PauseEvery { every: 10, time: Nanos::from_micros(800) });
    Ops { transaction: Grouping::Batch(10), pause, ..ops(order) }
}

fn background(with: Ops) -> Ops {
    Ops { amount: Amount::Background, ..with }
}

/// `put`, then the action beside a background, then `verify`.
fn beside(action: Action, background: Action) -> Plan {
    let mut plan = plan(N, [put(), action, Action::Verify]);
    plan.spec.phases[1].background = Some(background);
    plan
}

fn with_background(plan: &Plan) -> (PhaseReport, PhaseReport, PhaseReport) {
    let [_, mut phase, verify] = reports(plan).try_into().unwrap();
    let background = *phase.background.take().unwrap();
    (phase, background, verify)
}

#[test]
fn readers_in_the_background_read_until_the_writer_has_ended() {
    for (threads, clients) in [(1, 1), (2, 3)] {
        let update = Action::Update(Ops { threads, ..paced(Order::Shuffled) });
        let readers = background(Ops { threads: clients, sample: Sampling::Every, ..ops(Order::Uniform) });
        let (phase, readers, verify) = with_background(&beside(update, Action::Get(readers)));
        assert_eq!((phase.operations, phase.errors, phase.answer), (N, 0, None));
        assert!(readers.operations > 0 && readers.answer.is_none());
        assert_eq!((readers.rows, readers.misses), (Some(readers.operations), Some(0)));
        assert_eq!(readers.histograms[0].operation, "read");
        let overlap = readers.overlap.unwrap();
        assert!(overlap > Nanos::ZERO);
        assert!(readers.tail.is_some());
        assert_eq!(verify.verified, Some(Verified { exact: N, extra_rows: true, ..Verified::default() }));
    }
}

#[test]
fn what_a_writer_in_the_background_has_written_is_known() {
    let updates = background(Ops { transaction: Grouping::Batch(3), ..ops(Order::Uniform) });
    let (phase, writer, verify) = with_background(&beside(Action::Get(paced(Order::Key)), Action::Update(updates)));
    assert_eq!((phase.operations, phase.rows), (N, Some(N)));
    assert!(!phase.answer.unwrap().comparable, "what a read finds depends on how far the writer is");
    assert!(writer.operations > 0 && writer.rows.is_none());
    assert_eq!(verify.verified, Some(Verified { exact: N, extra_rows: true, ..Verified::default() }));
}

#[test]
fn operations_of_a_phase_do_not_depend_on_its_background() {
    let action = || Action::Get(paced(Order::Zipfian { theta: 0.99 }));
    let plain = &reports(&plan(N, [put(), action()]))[1];
    let (phase, ..) = with_background(&beside(action(), Action::Get(background(ops(Order::Uniform)))));
    assert_eq!(phase.answer, plain.answer);
}

/// Gets at so many a second in the background, by two clients.
fn paced_readers(rate: f64) -> Action {
    let rate = Some(Arrivals { rate: PerSecond::new(rate).unwrap(), poisson: false });
    Action::Get(background(Ops { rate, threads: 2, ..ops(Order::Uniform) }))
}

#[test]
fn background_counts_every_start_that_was_due_while_the_phase_ran() {
    let duration = Amount::Duration(Nanos::from_millis(200));
    let update = Action::Update(Ops { amount: duration, ..paced(Order::Uniform) });
    let (_, readers, _) = with_background(&beside(update, paced_readers(2000.0)));
    let due = (readers.operations + readers.skipped) as f64;
    let most = 2000.0 * readers.time.as_nanos() as f64 / 1e9;
    assert!(readers.operations > 0 && (399.0..=most + 2.0).contains(&due), "{due} of {most}");
    assert!(readers.lag.is_some());
}

#[test]
fn background_does_not_wait_for_a_start_after_the_phase() {
    // The second client starts after 20 s.
    let (_, readers, _) = with_background(&beside(Action::Update(paced(Order::Shuffled)), paced_readers(0.05)));
    assert_eq!((readers.operations, readers.skipped), (1, 0));
}

#[test]
fn pause_of_a_background_ends_with_the_phase() {
    let pause = Some(PauseEvery { every: 1, time: Nanos::from_secs(3600) });
    let readers = Action::Get(background(Ops { pause, ..ops(Order::Uniform) }));
    let (_, readers, _) = with_background(&beside(Action::Update(paced(Order::Shuffled)), readers));
    assert!(readers.operations <= 2, "{}", readers.operations);
}

#[test]
fn rate_that_the_background_does_not_keep_saturates_the_phase() {
    let rate = Some(Arrivals { rate: PerSecond::new(1e9).unwrap(), poisson: false });
    let readers = Action::Get(background(Ops { rate, ..ops(Order::Uniform) }));
    let (phase, readers, _) = with_background(&beside(Action::Update(paced(Order::Shuffled)), readers));
    assert!(readers.saturated && readers.skipped > 0 && !phase.saturated);
}

#[test]
fn reader_with_an_old_snapshot_has_one_transaction() {
    let single = background(Ops { transaction: Grouping::Single, ..ops(Order::Uniform) });
    let (_, reader, _) = with_background(&beside(Action::Update(paced(Order::Shuffled)), Action::Get(single)));
    assert_eq!(reader.transactions, 1);
}

#[test]
fn background_runs_beside_a_transaction_that_stays_open() {
    let open = |order| Ops { transaction: Grouping::Open, ..ops(order) };
    let mut plan = plan(N, [put(), Action::Update(open(Order::Key)), Action::Get(open(Order::Key)), Action::Commit]);
    for phase in &mut plan.spec.phases[1..3] {
        phase.background = Some(Action::Get(background(ops(Order::Uniform))));
    }
    let (reports, ended) = run_on::<Memory>(&plan);
    ended.unwrap();
    for report in &reports[1..3] {
        assert_eq!(report.background.as_ref().unwrap().misses, Some(0));
    }
}

#[test]
fn failure_of_the_background_ends_the_phase() {
    // `compute` in shared transactions reads its own writes, which this engine does not.
    let mut plan =
        plan(N, [put(), Action::Get(Ops { amount: Amount::Duration(Nanos::from_secs(3600)), ..ops(Order::Uniform) })]);
    let shared = Ops { transaction: Grouping::Batch(2), ..ops(Order::Uniform) };
    plan.spec.phases[1].background = Some(Action::Compute(background(shared)));
    let (reports, ended) = run::<false>(&plan);
    assert_eq!(reports.len(), 1);
    assert!(matches!(failure(&ended), (Some(1), Failure::Unsupported, message) if message.contains("compute")));
    let refuses = option(
        beside(get(Order::Key), Action::Update(background(ops(Order::Uniform)))),
        "fail_from",
        OptionValue::Int(N as i64 + 1),
    );
    let [_, phase, _] = super::fake::run::<true>(&refuses).0.try_into().unwrap();
    let background = phase.background.unwrap();
    assert!(background.operations == 0 && background.errors > 0, "single failures are counted");
    assert_eq!((phase.errors, phase.operations), (0, N));
}

#[test]
fn failure_of_the_phase_before_its_begin_is_its_own() {
    let shared = Ops { transaction: Grouping::Batch(2), ..ops(Order::Record) };
    let mut plan = plan(N, [put(), Action::Compute(shared)]);
    plan.spec.phases[1].background = Some(Action::Get(background(ops(Order::Uniform))));
    let (_, ended) = run::<false>(&plan);
    assert!(matches!(failure(&ended), (Some(1), Failure::Unsupported, message) if message.contains("compute")));
}

#[test]
#[should_panic(expected = "the fake engine panics")]
fn panic_of_the_background_ends_the_phase() {
    let forever = Action::Get(Ops { amount: Amount::Duration(Nanos::from_secs(3600)), ..ops(Order::Uniform) });
    let mut plan = plan(100, [put(), forever]);
    plan.spec.phases[1].background = Some(Action::Update(background(ops(Order::Uniform))));
    let _ = run::<true>(&option(plan, "lie", OptionValue::Text("put".to_owned())));
}

#[test]
#[should_panic(expected = "the fake engine panics")]
fn panic_of_the_phase_ends_its_background() {
    let plan = beside(Action::Update(ops(Order::Shuffled)), get(Order::Uniform));
    let mut plan =
        Plan { spec: prony_model::spec::TrialSpec { data: vec![super::fake::data(400)], ..plan.spec }, ..plan };
    plan.spec.phases[1].background = Some(Action::Get(background(ops(Order::Uniform))));
    let _ = run::<true>(&option(plan, "lie", OptionValue::Text("put".to_owned())));
}
