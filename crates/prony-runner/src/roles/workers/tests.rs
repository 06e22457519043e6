//! Tests workers that a script plays.

mod shared;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

use prony_boundaries::channel::Channel;
use prony_model::event::Log;
use prony_model::protocol::{PhaseReport, RequestsReport};
use prony_model::record::EffectiveStore;
use prony_model::spec::{Action, Durability, Limits, SettleSpec, StoreSpec, Subject};
use prony_os::sample::{Root, Sampler, Settings};

use rustix::process::Signal;

use super::*;
use crate::figures::span::tests::ms;

#[test]
fn signal_of_a_map_is_no_full_disk_where_there_is_room() {
    let dir = tempfile::tempdir().unwrap();
    let bus = Status::Signalled(Signal::BUS.as_raw());
    assert!(disk_full(bus, dir.path()).is_none() && disk_full(bus, &dir.path().join("absent")).is_none());
}

/// A trial of these phases under a scripted worker, whose end of the socket is given to `script` beside what turns the
/// runner's loop once.
fn scripted(
    actions: &[Action],
    script: impl FnOnce(&mut Workers<'_>, &mut Observation<'_>, &mut UnixStream),
) -> (Report, usize) {
    let store = StoreSpec::of("memory");
    let phase = |(at, action): (usize, &Action)| PhaseSpec {
        name: format!("p{at}"),
        timed: true,
        action: action.clone(),
        background: None,
        limit: None,
    };
    let phases = actions.iter().enumerate().map(phase).collect();
    let spec = TrialSpec {
        subject: Subject::Store(store),
        services: Vec::new(),
        data: Vec::new(),
        phases,
        limits: Limits::default(),
        crashes: Vec::new(),
    };
    let sampler = Sampler::start(vec![Root::subject(std::process::id(), "worker")], Settings::default()).unwrap();
    let mut log = Log::default();
    let mut observation = Observation::new(&spec, &sampler, "/nowhere".into(), 0, &mut log);
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let first = WorkerProcess::new(1, Channel::new(ours), None);
    let none: Further<'_> = Box::new(|_, _, _, _| unreachable!("no phase needs another"));
    let mut worker = Workers::new((none, no_command()), &spec, ToWorker::Stop, None, first);
    script(&mut worker, &mut observation, &mut theirs);
    (worker.report, observation.snapshots.len())
}

fn no_command<'a>() -> Commands<'a> {
    Box::new(|_, _| unreachable!("no phase is a command"))
}

/// Reads what was said, and leads.
fn step(worker: &mut Workers<'_>, observation: &mut Observation<'_>) {
    worker.turn(observation);
    worker.lead(observation, &mut |_, _| Some(false));
}

fn say(to: &mut UnixStream, message: &FromWorker) {
    writeln!(to, "{}", serde_json::to_string(message).unwrap()).unwrap();
}

fn ready() -> FromWorker {
    let effective = EffectiveStore {
        engine: "memory".into(),
        version: "1".into(),
        library: "l".into(),
        durability: Durability::None,
        promise: None,
        settings: BTreeMap::new(),
        in_force: None,
        idiom: String::new(),
        services: Vec::new(),
    };
    FromWorker::Ready { version: VERSION, effective: Some(Box::new(effective)), open: Nanos::ZERO }
}

fn ended(index: usize, at: u64) -> FromWorker {
    FromWorker::Ended { index, at: ms(at), report: Box::new(PhaseReport { time: ms(1), ..PhaseReport::default() }) }
}

#[test]
fn worker_is_led_from_phase_to_phase_to_its_end() {
    let (report, snapshots) = scripted(&[Action::Close, Action::Close], |worker, observation, theirs| {
        step(worker, observation);
        assert!(observation.tracker.phases[0].began.is_none(), "it is not ready");
        say(theirs, &ready());
        step(worker, observation);
        say(theirs, &FromWorker::Began { index: 0, at: ms(10) });
        say(theirs, &ended(0, 30));
        step(worker, observation);
        let [first, second] = &observation.tracker.phases[..] else { panic!() };
        assert_eq!((first.began, first.ended), (Some(ms(10)), Some(ms(30))));
        assert!(first.report.is_some() && second.began.is_some() && second.ended.is_none());
        let between = observation.end[0].map(|end| end + 1);
        assert_eq!(between, observation.begin[1], "counters are read again: servers may have worked meanwhile");
        assert!(!worker.is_stopping());
        say(theirs, &ended(1, 50));
        step(worker, observation);
        theirs.shutdown(std::net::Shutdown::Write).unwrap();
        step(worker, observation);
        assert!(worker.sources().next().is_none() && !worker.has_more(), "nobody waits for a closed socket");
        let sent = BufReader::new(theirs).lines().take(3).map(|line| line.unwrap()).collect::<Vec<_>>();
        assert_eq!(sent.iter().map(|line| line.contains("stop")).collect::<Vec<_>>(), [false, false, true]);
    });
    assert!(report.asked_to_stop.is_some() && report.fault.is_none() && report.effective.is_some());
    assert_eq!(snapshots, 6, "suspended, two at the begin of the first phase, two between both, end of the second");
}

/// A server that answers one connection after another would answer the next phase only when those of the one before are closed; but work that
/// a server does after its answers begins at once.
#[test]
fn phase_begins_when_the_connections_of_the_one_before_are_closed_unless_it_waits_for_quiet() {
    let settle = Action::Settle(SettleSpec { quiet: Nanos::from_secs(600), ..SettleSpec::default() });
    for (action, waits) in [(Action::Close, true), (settle, false)] {
        let (report, _) = scripted(&[Action::Close, action], |worker, observation, theirs| {
            say(theirs, &ready());
            step(worker, observation);
            say(theirs, &FromWorker::Began { index: 0, at: ms(10) });
            let requests = RequestsReport { lingers: true, ..RequestsReport::default() };
            let report = Box::new(PhaseReport { requests: Some(requests), ..PhaseReport::default() });
            say(theirs, &FromWorker::Ended { index: 0, at: ms(30), report });
            step(worker, observation);
            assert_eq!(observation.tracker.phases[0].ended, Some(ms(30)));
            assert_eq!(observation.tracker.phases[1].began.is_none(), waits);
            say(theirs, &FromWorker::Lingered { index: 0, surplus: Some("more".to_owned()) });
            step(worker, observation);
            assert!(observation.tracker.phases[1].began.is_some());
            let report = observation.tracker.phases[0].report.as_ref().unwrap();
            assert_eq!(report.requests.as_ref().unwrap().surplus.as_deref(), Some("more"));
            say(theirs, &FromWorker::Lingered { index: 0, surplus: None });
            step(worker, observation);
        });
        assert!(matches!(report.fault, Some(Fault::Garbled(_))), "it is said once: {:?}", report.fault);
    }
}

/// The plans at the end of a phase were asked for before it ended, and the server's work for them was the phase's.
#[test]
fn plans_that_differ_after_a_phase_come_while_the_next_is_prepared_and_after_the_end() {
    let (report, _) = scripted(&[Action::Close, Action::Close], |worker, observation, theirs| {
        let planned =
            |index: usize, background| FromWorker::Planned { index, background, plan: format!("other {index}") };
        let plan = |observation: &Observation<'_>, index: usize| {
            let report = observation.tracker.phases[index].report.as_ref().unwrap();
            (report.plan.clone(), report.background.as_ref().and_then(|report| report.plan.clone()))
        };
        say(theirs, &ready());
        step(worker, observation);
        let report = PhaseReport { background: Some(Box::default()), ..PhaseReport::default() };
        say(theirs, &FromWorker::Ended { index: 0, at: ms(30), report: Box::new(report) });
        step(worker, observation);
        say(theirs, &planned(0, false));
        step(worker, observation);
        assert_eq!(plan(observation, 0), (Some("other 0".to_owned()), None));
        say(theirs, &planned(0, true));
        say(theirs, &ended(1, 50));
        step(worker, observation);
        assert_eq!(plan(observation, 0).1, Some("other 0".to_owned()));
        assert!(worker.is_stopping());
        say(theirs, &planned(1, false));
        step(worker, observation);
        assert_eq!(plan(observation, 1), (Some("other 1".to_owned()), None));
        say(theirs, &planned(2, false));
        step(worker, observation);
    });
    assert!(matches!(report.fault, Some(Fault::Garbled(_))), "there is no such phase: {:?}", report.fault);
}

#[test]
fn worker_that_floods_leaves_the_runner_time_for_its_limits() {
    scripted(&[Action::Close], |worker, observation, theirs| {
        say(theirs, &ready());
        step(worker, observation);
        // In one write: a socket takes few small ones.
        let line = serde_json::to_string(&FromWorker::Progress { index: 0, operations: 5 }).unwrap() + "\n";
        theirs.write_all(line.repeat(MESSAGES + 10).as_bytes()).unwrap();
        step(worker, observation);
        assert!(worker.has_more(), "lines that were read and not taken wake nobody");
        step(worker, observation);
        assert!(!worker.has_more());
    });
}

#[test]
fn worker_that_breaks_the_protocol_is_read_no_further() {
    let settle = Action::Settle(SettleSpec { quiet: Nanos::from_secs(600), ..SettleSpec::default() });
    for (action, said) in [
        (Action::Close, r#"{"did":"nonsense"}"#.to_owned()),
        (Action::Close, serde_json::to_string(&ended(7, 30)).unwrap()),
        (settle, serde_json::to_string(&ended(0, 30)).unwrap()),
    ] {
        let (report, _) = scripted(&[action], |worker, observation, theirs| {
            say(theirs, &ready());
            step(worker, observation);
            writeln!(theirs, "{said}").unwrap();
            say(theirs, &ended(0, 40));
            step(worker, observation);
            assert!(
                observation.tracker.phases[0].ended.is_none() && observation.cut.is_some(),
                "what follows a fault does not count"
            );
            assert!(worker.sources().next().is_none() && worker.until.is_some());
        });
        assert!(matches!(report.fault, Some(Fault::Garbled(_))), "{said}: {:?}", report.fault);
    }
}

#[test]
fn worker_that_closes_its_socket_early_is_a_fault() {
    let (report, _) = scripted(&[Action::Close], |worker, observation, theirs| {
        say(theirs, &ready());
        theirs.shutdown(std::net::Shutdown::Both).unwrap();
        step(worker, observation);
        assert!(observation.tracker.phases[0].ended.is_none());
    });
    assert_eq!(report.fault, Some(Fault::Closed));
}
