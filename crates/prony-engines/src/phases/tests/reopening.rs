//! Tests phases that close, evict and open the store.

use prony_model::link::Progress;
use prony_model::protocol::{FromWorker, ToWorker};
use prony_model::spec::{Action, SettleSpec};
use prony_model::units::Nanos;

use super::fake::{Fake, Script, Slow, plan, reports, run};
use super::{N, failure, host, put};

#[test]
fn the_store_can_be_closed_evicted_and_reopened() {
    let settle = SettleSpec { quiet: Nanos::ZERO, within: Nanos::ZERO, ..SettleSpec::default() };
    let actions =
        [put(), Action::Close, Action::Reopen, Action::Reopen, Action::Evict, Action::Settle(settle), Action::Verify];
    let reports = reports(&plan(N, actions));
    assert!(reports[2].notes.is_empty() && reports[2].effective.is_some());
    assert!(reports[3].notes[0].contains("the time includes closing it"));
    assert!(reports[4].resident.is_some());
    assert_eq!(reports[6].rows, Some(N));
    let reports = super::fake::reports(&plan(N, [put(), Action::Close, Action::Evict, Action::Verify]));
    assert_eq!(
        (reports[2].resident.is_some(), reports[3].rows),
        (true, Some(N)),
        "a closed store is evicted and opened"
    );
    let (_, ended) = run::<true>(&plan(N, [Action::Close, put()]));
    assert_eq!(failure(&ended).2, "`phase 1` cannot run: the store is closed; `reopen` it first");
}

/// What evicting took, which is prony's own work, was in the time of the phase.
#[test]
fn time_of_an_evicting_phase_is_that_of_closing_and_opening() {
    let (plan, slow) = (plan(10, [put(), Action::Evict]), Slow::default());
    let asks = [0, 1].map(|index| ToWorker::Phase { index }).into_iter().chain([ToWorker::Stop]).collect();
    let mut script = Script { asks, ..Script::default() };
    host::<Fake<true>>(&mut script, &slow, &plan, &Progress::default()).unwrap();
    let began = script.sent.iter().find_map(|message| match message {
        FromWorker::Began { index: 1, at } => Some(*at),
        _ => None,
    });
    let ended = script.sent.iter().find_map(|message| match message {
        FromWorker::Ended { index: 1, at, report } => Some((*at, report)),
        _ => None,
    });
    let (began, (ended, report)) = began.zip(ended).unwrap();
    assert!(report.time + slow.evicted.get() <= ended.since(began), "{} and {}", report.time, slow.evicted.get());
    assert!(report.notes[0].contains("`fsyncs`"), "{:?}", report.notes);
}
