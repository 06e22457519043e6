pub(crate) mod lines;

use prony_boundaries::functions::{self, Part};
use prony_boundaries::marks::Mark;
use prony_boundaries::phase_state::Happened;
use prony_boundaries::probe_reports::Threads;
use prony_boundaries::settling::Settled;
use prony_boundaries::tracker::Tracker;
use prony_model::program::{AtEndSpec, ObserveSpec, Trigger};
use prony_model::spec::{Action, SettleSpec};
use prony_model::units::{Bytes, Fraction};
use prony_os::settle::SettleResult;
use prony_runtime::ProbeLine;

use super::*;
use crate::figures::span::tests::{ms, snapshot, suspension, watched};
use crate::figures::tests::lines::{heap, hello, line as line_of, threads};

fn spec(name: &str) -> PhaseSpec {
    let mark = || Some(Trigger::Mark(name.into()));
    let observe = ObserveSpec { begin: mark(), end: mark(), read: None, stop: false, at_end: None };
    PhaseSpec { name: name.into(), timed: true, action: Action::Observe(observe), background: None, limit: None }
}

/// One thread was suspended from 200 to 1,200 ms: inside the first phase and before the second. `other` is what another
/// process used meanwhile.
fn records(other: u64) -> Vec<PhaseRecord> {
    let specs = [spec("around"), spec("after")];
    let both = &[7, 8];
    let mut snapshots =
        vec![snapshot(0, 0, both), snapshot(100, 10, both), snapshot(200, 20, both), snapshot(1_200, 22, both)];
    snapshots.extend([snapshot(1_300, 30, both), snapshot(1_400, 40, both), snapshot(1_500, 0, &[])]);
    snapshots[3].processes[1].sample.on_cpu = Some(ms(20 + other));
    let mut watched = watched(snapshots, vec![suspension(7, 0, (2, 3), (200, 1_200))]);
    watched.tracker = Tracker::new(&specs);
    for (text, at) in [("around begin", 100), ("around end", 1_300), ("after begin", 1_300), ("after end", 1_400)] {
        watched.tracker.happened(Happened::Mark(&Mark::parse(text).unwrap()), ms(at), Nanos::ZERO);
    }
    (watched.begin, watched.end) = (vec![Some(1), Some(4)], vec![Some(4), Some(5)]);
    super::observed(&specs, &watched, &[], &Why::NotApplicable).into_iter().map(|one| one.phase).collect()
}

/// A phase that began at 100 ms and whose watch began 5 ms later; it ended at 900 ms, or never.
fn settle_record(result: Option<Reading<Nanos>>) -> Observed {
    let mut spec = spec("settle");
    let Action::Observe(observe) = &mut spec.action else { unreachable!() };
    observe.end = Some(Trigger::Settle(SettleSpec {
        quiet: ms(500),
        within: ms(800),
        cpu: Fraction::default(),
        bytes: Bytes::default(),
        ..SettleSpec::default()
    }));
    let mut watched = watched(
        vec![snapshot(0, 0, &[7]), snapshot(100, 10, &[7]), snapshot(900, 50, &[7]), snapshot(1_000, 0, &[])],
        vec![],
    );
    watched.tracker = Tracker::new(std::slice::from_ref(&spec));
    watched.tracker.happened(Happened::Mark(&Mark::parse("settle begin").unwrap()), ms(100), Nanos::ZERO);
    (watched.begin, watched.end) = (vec![Some(1)], vec![None]);
    if let Some(time) = result {
        watched.tracker.ended(0, ms(900));
        watched.end = vec![Some(2)];
        let (cpu, written) = (Reading::Measured(ms(40)), Reading::Measured(Bytes::default()));
        let (watched_for, step) = (ms(800), ms(25));
        let signs = BTreeMap::from([(Sign::Dirty, Reading::Measured(ms(600)))]);
        let roles = BTreeMap::from(["a", "b"].map(|role| (role.to_owned(), time.clone())));
        let blind = vec![];
        let result =
            SettleResult { settled: true, time, signs, roles, watched: watched_for, step, cpu, written, blind };
        watched.settled.insert(0, Settled { began: ms(105), result, paused: Suspensions::default() });
    }
    super::observed(&[spec], &watched, &[], &Why::NotApplicable).remove(0)
}

#[test]
fn the_quiet_is_in_no_settle_time() {
    let of = |one: &Observed, metric: Metric| one.phase.reading(MetricKey::amount(metric)).cloned().unwrap();
    let settled = settle_record(Some(Reading::Measured(ms(300))));
    let figures = [Metric::SettleTime, Metric::Time, Metric::SettleDirty, Metric::Wall, Metric::Cpu];
    let figures = figures.map(|metric| of(&settled, metric));
    assert_eq!(figures, [305e6, 305e6, 605e6, 800e6, 40e6].map(Reading::Measured));
    let role = &settled.phase.readings["b"][&MetricKeyText(MetricKey::amount(Metric::SettleCpu))];
    assert_eq!((role, settled.phase.last_sign()), (&Reading::Measured(305e6), Some(Sign::Dirty)));
    let anon = settled.phase.reading(MetricKey::gauge(Metric::Anon, Stat::End));
    assert!(anon.is_some_and(|r| r.measured().is_some()));
    let cap = Reading::Missing(Why::NotSettled("within 800 ms".into()));
    let never = settle_record(Some(Reading::Missing(Why::NotSettled("within 800 ms".into()))));
    assert_eq!((of(&never, Metric::SettleTime), never.reached), (cap, Reached::OwnEnd));
    assert_eq!(of(&never, Metric::Wall), Reading::Measured(800e6));
    let ended = settle_record(None);
    assert_eq!(ended.reached, Reached::Begin);
    assert!(matches!(of(&ended, Metric::Time), Reading::Missing(Why::Failed(why)) if why.contains("ended before")));
}

/// The end of an invocation, which has its own time.
fn ends(at: u64) -> ProbeLine {
    line_of(7, 0, at, r#""probe":"end","call":"p","n":1,"open":0,"ok":true,"took":5"#)
}

#[test]
fn what_ended_before_its_begin_was_noticed_took_no_zero() {
    let mut line = spec("p");
    let Action::Observe(observe) = &mut line.action else { unreachable!() };
    (observe.begin, observe.end) = (Some(Trigger::Line("go".into())), Some(Trigger::Invocation("f".into())));
    let mut watched = watched(vec![snapshot(0, 0, &[7]), snapshot(100, 10, &[7]), snapshot(120, 50, &[7])], vec![]);
    watched.tracker = Tracker::new(std::slice::from_ref(&line));
    watched.tracker.happened(Happened::Line("go"), ms(100), ms(30));
    watched.tracker.invoked(0, Part::End, &ends(90));
    (watched.begin, watched.end) = (vec![Some(1)], vec![Some(2)]);
    let record = super::observed(&[line], &watched, &[], &Why::NotApplicable).remove(0).phase;
    for metric in [Metric::Wall, Metric::Time] {
        match record.reading(MetricKey::amount(metric)) {
            Some(Reading::Missing(why)) => assert!(why.to_string().contains("up to 30"), "{why}"),
            other => panic!("{other:?}"),
        }
    }
}

/// A phase that its program began at 100 ms was noticed to end at 150 ms, which may have been `lag` ms earlier.
fn ended_by_a_line(lag: u64) -> PhaseRecord {
    let spec = spec("p");
    let snapshots = vec![snapshot(0, 0, &[7]), snapshot(100, 10, &[7]), snapshot(150, 50, &[7]), snapshot(500, 0, &[])];
    let mut watched = watched(snapshots, vec![]);
    watched.tracker = Tracker::new(std::slice::from_ref(&spec));
    for (text, at, lag) in [("p begin", 100, 0), ("p end", 150, lag)] {
        watched.tracker.happened(Happened::Mark(&Mark::parse(text).unwrap()), ms(at), ms(lag));
    }
    (watched.begin, watched.end) = (vec![Some(1)], vec![Some(2)]);
    super::observed(&[spec], &watched, &[], &Why::NotApplicable).remove(0).phase
}

/// It was measured wherever it seemed longer than the lag: of a phase of 1 ms whose end was read 49 ms late as 50.
#[test]
fn phase_that_may_have_been_shorter_than_its_lag_has_no_time() {
    let of = |lag: u64, metric| ended_by_a_line(lag).reading(MetricKey::amount(metric)).cloned().unwrap();
    for metric in [Metric::Wall, Metric::Time, Metric::Cpu] {
        assert!(of(25, metric).measured().is_some(), "{metric:?}");
        assert!(matches!(of(26, metric), Reading::Missing(why) if why.to_string().contains("late")), "{metric:?}");
    }
}

/// A line that was read at 110 ms and may be 30 ms older began a phase; what ended it had no part in that.
fn begun_by_a_line(end: u64) -> PhaseRecord {
    let mut line = spec("p");
    let Action::Observe(observe) = &mut line.action else { unreachable!() };
    (observe.begin, observe.end) = (Some(Trigger::Line("go".into())), Some(Trigger::Invocation("f".into())));
    observe.read = Some(r"(?<operations>\d+)".into());
    let snapshots = vec![snapshot(0, 0, &[7]), snapshot(111, 10, &[7]), snapshot(end, 50, &[7]), snapshot(500, 0, &[])];
    let mut watched = watched(snapshots, vec![]);
    watched.tracker = Tracker::new(std::slice::from_ref(&line));
    watched.tracker.happened(Happened::Line("go 5"), ms(110), ms(30));
    watched.tracker.invoked(0, Part::End, &ends(end));
    (watched.begin, watched.end) = (vec![Some(1)], vec![Some(2)]);
    super::observed(&[line], &watched, &[], &Why::NotApplicable).remove(0).phase
}

#[test]
fn phase_shorter_than_its_lag_has_only_reported_figures() {
    let of = |record: &PhaseRecord, metric| record.reading(MetricKey::amount(metric)).cloned().unwrap();
    let long = begun_by_a_line(142);
    assert_eq!(of(&long, Metric::Wall), Reading::Measured(32e6));
    assert_eq!((of(&long, Metric::Cpu), of(&long, Metric::Lag)), (Reading::Measured(40e6), Reading::Measured(31e6)));
    let short = begun_by_a_line(139);
    let measured = |(key, reading): (&MetricKeyText, &Reading<f64>)| reading.measured().map(|_| key.0.to_string());
    let left: Vec<String> = short.readings[""].iter().filter_map(measured).collect();
    assert_eq!(left, ["operations", "lag", "time.lag"], "its own account, and how late it was read");
    for metric in [Metric::Wall, Metric::Time, Metric::Cpu] {
        assert!(matches!(of(&short, metric), Reading::Missing(why) if why.to_string().contains("late")));
    }
}

#[test]
fn counters_that_were_read_later_than_the_phase_is_long_are_missing_and_its_exact_time_is_reported() {
    let spec = spec("p");
    let mut watched = watched(
        vec![snapshot(0, 0, &[7]), snapshot(130, 10, &[7]), snapshot(140, 50, &[7]), snapshot(500, 0, &[])],
        vec![],
    );
    watched.tracker = Tracker::new(std::slice::from_ref(&spec));
    for (text, at) in [("p begin", 100), ("p end", 120)] {
        watched.tracker.happened(Happened::Mark(&Mark::parse(text).unwrap()), ms(at), Nanos::ZERO);
    }
    (watched.begin, watched.end) = (vec![Some(1)], vec![Some(2)]);
    let record = super::observed(&[spec], &watched, &[], &Why::NotApplicable).remove(0).phase;
    let of = |metric| record.reading(MetricKey::amount(metric)).cloned().unwrap();
    assert_eq!([of(Metric::Wall), of(Metric::Lag)], [20e6, 30e6].map(Reading::Measured));
    assert!(matches!(of(Metric::Cpu), Reading::Missing(Why::Failed(why)) if why.contains("took only 20")));
}

fn amounts(record: &PhaseRecord) -> BTreeMap<&'static str, Option<f64>> {
    let metrics = [Metric::Wall, Metric::Time, Metric::Cpu, Metric::Written, Metric::Suspended];
    let of = |metric: Metric| record.reading(MetricKey::amount(metric)).and_then(|found| found.measured().copied());
    metrics.into_iter().map(|metric| (metric.name(), of(metric))).collect()
}

#[test]
fn digest_without_rows_reports_no_row_count() {
    let reported = |line: &str| {
        let mut spec = spec("x");
        let Action::Observe(observe) = &mut spec.action else { unreachable!() };
        *observe = ObserveSpec { read: Some(r"(?<rows>\d) rows|digest (?<digest>\w+)".into()), ..ObserveSpec::WHOLE };
        let mut tracker = Tracker::new(&[spec]);
        tracker.start(ms(0));
        line.split(',').for_each(|line| drop(tracker.happened(Happened::Line(line), ms(1), Nanos::ZERO)));
        answer(&tracker.phases[0]).map(|answer| (answer.rows, answer.digest))
    };
    assert_eq!(reported("digest ab"), Some((None, "reported:ab".into())));
    assert_eq!(reported("digest ab,0 rows"), Some((Some(0), "reported:ab".into())), "none is a number");
    assert_eq!(reported("3 rows"), Some((Some(3), "rows:".into())));
    assert_eq!(reported("nothing"), None);
}

#[test]
fn idle_suspension_is_excluded_from_figures() {
    let records = records(1);
    let enclosing = amounts(&records[0]);
    let expected = [("cpu", 18e6), ("held", 1e9), ("time", 200e6), ("wall", 200e6), ("written", 18.0)];
    assert_eq!(enclosing, expected.map(|(name, value)| (name, Some(value))).into());
}

#[test]
fn busy_suspension_makes_figures_of_the_enclosing_phase_missing() {
    let records = records(800);
    let enclosing = amounts(&records[0]);
    let missing: Vec<&str> = enclosing.iter().filter(|(_, value)| value.is_none()).map(|(name, _)| *name).collect();
    assert_eq!(missing, ["cpu", "time", "wall", "written"], "the second of 800 ms of work was left out");
    assert_eq!(enclosing["held"], Some(1e9), "how long it was is known");
    match records[0].reading(MetricKey::amount(Metric::Wall)) {
        Some(Reading::Missing(why)) => {
            assert!(why.to_string().contains("suspended inside the phase while others continued"), "{why}")
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(amounts(&records[1])["wall"], Some(100e6), "a phase beside it is as it was");
}

/// What was left of a phase that asks for a collection at its end, at 500 ms, in a process with 80 MiB beside another one.
fn collected(suspension: Option<Suspension>) -> PhaseRecord {
    let mut spec = spec("p");
    let Action::Observe(observe) = &mut spec.action else { unreachable!() };
    let call = || Some(Trigger::Call("a.js#f".into()));
    let at_end = AtEndSpec { collect: true, ..AtEndSpec::default() };
    (observe.begin, observe.end, observe.at_end) = (call(), call(), Some(at_end));
    let both = &[7, 8];
    let mut snapshots =
        vec![snapshot(0, 0, both), snapshot(100, 10, both), snapshot(500, 20, both), snapshot(700, 22, both)];
    snapshots.push(snapshot(900, 0, &[]));
    for snapshot in &mut snapshots[..3] {
        snapshot.processes[0].sample.anon = Bytes::from_mib(80);
    }
    let mut watched = watched(snapshots, suspension.into_iter().collect());
    watched.tracker = Tracker::new(std::slice::from_ref(&spec));
    let call = |at, rest: &str| line_of(7, 0, at, &format!(r#""probe":"{rest},"call":"p","n":1"#));
    watched.tracker.phases[0].called(&call(100, r#"begin","open":0"#));
    watched.tracker.phases[0].called(&call(500, r#"end","open":0,"ok":true,"took":5"#));
    (watched.begin, watched.end) = (vec![Some(1)], vec![Some(2)]);
    let sample = |at| ProcessSample { at: ms(at), ..ProcessSample::default() };
    let series = both.map(|pid| ProcessSeries {
        pid,
        role: "program".into(),
        command: format!("c{pid}"),
        samples: vec![sample(100), sample(500)],
    });
    super::observed(&[spec], &watched, &series, &Why::NotApplicable).remove(0).phase
}

#[test]
fn memory_that_was_not_read_after_its_collection_is_missing_in_all_and_by_process() {
    let get = |record: &PhaseRecord, instance: &str, stat| {
        record.readings[instance][&MetricKeyText(MetricKey::gauge(Metric::Anon, stat))].clone()
    };
    let mib = |n: u64| Reading::Measured(Bytes::from_mib(n).as_bytes() as f64);
    let (whole, own) = ("", "process.program.c7");
    let read = collected(Some(suspension(7, 0, (2, 3), (500, 700))));
    assert_eq!([whole, own].map(|of| get(&read, of, Stat::End)), [mib(0), mib(0)]);
    let unread = |until: Option<u64>, late: Option<u64>| {
        let mut suspension = suspension(7, 0, (2, 3), (500, 700));
        (suspension.after_actions, suspension.read, suspension.until, suspension.late) =
            (None, None, until.map(ms), late.map(ms));
        (Some(suspension), "the program ended before")
    };
    let at_a_later_turn = unread(Some(700), Some(1));
    let in_a_namespace = (Some(suspension(1, 0, (2, 3), (500, 700))), "has another number outside its PID namespace");
    let never = (None, "prony suspends it at most 100 times");
    for (suspension, why) in [unread(Some(700), None), unread(None, None), at_a_later_turn, never, in_a_namespace] {
        let record = collected(suspension);
        for of in [whole, own] {
            match get(&record, of, Stat::End) {
                Reading::Missing(found) => assert!(found.to_string().contains(why), "{found}"),
                Reading::Measured(value) => panic!("{of:?}: {value}"),
            }
            assert_eq!(get(&record, of, Stat::Before), mib(80), "{of:?}");
        }
    }
}

/// A phase of each kind, as far as it came when the program ended at 900 ms; `own` is whether what ends it happened.
fn kinds(own: bool) -> Vec<(&'static str, Reached)> {
    let (cpu, bytes) = (Fraction::default(), Bytes::default());
    let settle = SettleSpec { quiet: ms(500), within: ms(800), cpu, bytes, ..SettleSpec::default() };
    let kinds: [(&str, Option<Trigger>, Option<Trigger>); 7] = [
        ("whole", None, None),
        ("line", None, Some(Trigger::Line("done".into()))),
        ("mark", None, Some(Trigger::Mark("mark".into()))),
        ("replicas", None, Some(Trigger::Replicas)),
        ("settle", None, Some(Trigger::Settle(settle))),
        ("invocation", None, Some(Trigger::Invocation("a.js#f".into()))),
        ("call", Some(Trigger::Call("a.js#f".into())), None),
    ];
    let kind = |(name, begin, end): (&'static str, Option<Trigger>, Option<Trigger>)| {
        let mut spec = spec(name);
        let Action::Observe(observe) = &mut spec.action else { unreachable!() };
        (observe.begin, observe.end) = (begin, end);
        let mut watched = watched(vec![snapshot(0, 0, &[7]), snapshot(500, 10, &[7]), snapshot(900, 20, &[])], vec![]);
        watched.tracker = Tracker::new(std::slice::from_ref(&spec));
        watched.tracker.start(ms(0));
        let begins = line_of(7, 0, 100, r#""probe":"begin","call":"p","n":1,"open":1"#);
        let ends = ends(500);
        if name == "call" {
            watched.tracker.phases[0].called(&begins);
        }
        match name {
            "line" if own => drop(watched.tracker.happened(Happened::Line("done"), ms(500), Nanos::ZERO)),
            "mark" if own => {
                let mark = Mark::parse("mark end").unwrap();
                watched.tracker.happened(Happened::Mark(&mark), ms(500), Nanos::ZERO);
            }
            "settle" if own => drop(watched.tracker.ended(0, ms(500))),
            "invocation" if own => {
                watched.tracker.invoked(0, Part::End, &ends);
            }
            "call" if own => {
                watched.tracker.phases[0].called(&ends);
            }
            _ => {}
        }
        let replicas = (own && name == "replicas").then_some(ms(500));
        watched.tracker.finish(ms(900), replicas);
        let ended = watched.tracker.phases[0].is_complete();
        (watched.begin, watched.end) = (vec![Some(0)], vec![ended.then_some(1)]);
        let observed = super::observed(&[spec], &watched, &[], &Why::NotApplicable).remove(0);
        (name, observed.reached)
    };
    kinds.map(kind).into()
}

#[test]
fn what_ends_a_phase_decides_whether_a_failure_takes_its_figures() {
    use Reached::{Begin, OwnEnd, SubjectEnd};
    let expected = |all: [Reached; 7]| -> Vec<(&str, Reached)> {
        ["whole", "line", "mark", "replicas", "settle", "invocation", "call"].into_iter().zip(all).collect()
    };
    assert_eq!(kinds(true), expected([SubjectEnd, OwnEnd, OwnEnd, SubjectEnd, OwnEnd, OwnEnd, SubjectEnd]));
    assert_eq!(kinds(false), expected([SubjectEnd, Begin, Begin, Begin, Begin, Begin, Begin]));
}

/// A phase from 100 to 500 ms, inside calls of a function, with what its runtime reported.
fn called_phase(change: impl FnOnce(&mut Threads)) -> PhaseRecord {
    called_phase_beside(change, &[])
}

fn called_phase_beside(change: impl FnOnce(&mut Threads), series: &[ProcessSeries]) -> PhaseRecord {
    let mut spec = spec("p");
    let Action::Observe(observe) = &mut spec.action else { unreachable!() };
    let call = || Some(Trigger::Call("a.js#f".into()));
    (observe.begin, observe.end) = (call(), call());
    let snapshots = vec![snapshot(0, 0, &[7]), snapshot(100, 10, &[7]), snapshot(500, 50, &[7]), snapshot(900, 0, &[])];
    let mut watched = watched(snapshots, vec![]);
    watched.tracker = Tracker::new(std::slice::from_ref(&spec));
    watched.tracker.phases[0].called(&line_of(7, 0, 100, r#""probe":"begin","call":"p","n":1,"open":0"#));
    let took = ms(400).as_nanos();
    let end = format!(r#""probe":"end","call":"p","n":1,"open":0,"ok":true,"took":{took}"#);
    watched.tracker.phases[0].called(&line_of(7, 0, 500, &end));
    (watched.begin, watched.end) = (vec![Some(1)], vec![Some(2)]);
    watched.threads = threads(&[hello(7, 0, 10), heap(7, 0, 200, "sample", 30), heap(7, 0, 450, "sample", 20)]);
    change(&mut watched.threads);
    watched.threads.finish(ms(900), &[], &BTreeMap::new());
    super::observed(&[spec], &watched, series, &Why::NotApplicable).remove(0).phase
}

/// A function was called from 100 to 200 ms and again from 300 ms on; a phase began with its end, by the first of them. Where a
/// call never ended, `again` is `None`.
fn after_calls(again: &[Option<u64>]) -> Reading<f64> {
    let (mut called, mut after) = (spec("p"), spec("after"));
    for (spec, begin, end) in [
        (&mut called, Trigger::Call("a.js#f".into()), Some(Trigger::Call("a.js#f".into()))),
        (&mut after, Trigger::After("p".into()), None),
    ] {
        let Action::Observe(observe) = &mut spec.action else { unreachable!() };
        (observe.begin, observe.end) = (Some(begin), end);
    }
    let snapshots = vec![snapshot(0, 0, &[7]), snapshot(100, 10, &[7]), snapshot(200, 50, &[7]), snapshot(900, 0, &[])];
    let (mut watched, specs) = (watched(snapshots, vec![]), [called, after]);
    watched.tracker = Tracker::new(&specs);
    let begins = |at| line_of(7, 0, at, r#""probe":"begin","call":"p","n":1,"open":0"#);
    watched.tracker.phases[0].called(&begins(100));
    watched.tracker.phases[0].called(&ends(200));
    watched.tracker.phases[1].note_begin(ms(200), Nanos::ZERO);
    for ended in again {
        watched.tracker.phases[0].called(&begins(300));
        if let Some(at) = ended {
            watched.tracker.phases[0].called(&ends(*at));
        }
    }
    watched.tracker.finish(ms(900), None);
    (watched.begin, watched.end) = (vec![Some(1), Some(2)], vec![Some(2), Some(3)]);
    let record = super::observed(&specs, &watched, &[], &Why::NotApplicable).remove(1).phase;
    record.reading(MetricKey::amount(Metric::Wall)).cloned().unwrap()
}

/// A phase `begin = { after = "p" }` began in the middle of `p`, with the end of the first of its calls.
#[test]
fn phase_that_began_before_the_last_call_of_the_one_before_has_no_figures() {
    assert_eq!(after_calls(&[]), Reading::Measured(700e6));
    for again in [Some(400), None] {
        match after_calls(&[again]) {
            Reading::Missing(Why::DoesNotCount(why)) => assert!(why.starts_with("`p` was called again after"), "{why}"),
            other => panic!("{again:?}: {other:?}"),
        }
    }
}

/// The heap of a process that a script started with options of its own is in no sum.
#[test]
fn heaps_are_missing_beside_a_process_without_a_probe() {
    let of = |pid, command: &str, samples: [u64; 2]| {
        let samples = samples.map(|at| ProcessSample { at: ms(at), ..ProcessSample::default() }).to_vec();
        ProcessSeries { pid, role: "site".into(), command: command.into(), samples }
    };
    let used = |other: [u64; 2]| {
        let record = called_phase_beside(|_| (), &[of(7, "npm", [0, 900]), of(8, "node", other)]);
        record.reading(MetricKey::gauge(Metric::HeapUsed, Stat::Max)).cloned().unwrap()
    };
    assert!(
        matches!(used([200, 1_200]), Reading::Missing(why) if why.to_string().contains("loaded no probe, was forked"))
    );
    assert_eq!(used([501, 1_600]), Reading::Measured(30.0), "after the phase");
    assert_eq!(used([200, 900]), Reading::Measured(30.0), "too short to be known");
    // Two processes in PID namespaces that report as one: `main` is both.
    let main = |series: &[ProcessSeries]| {
        let second = [hello(7, 0, 460), heap(7, 0, 470, "sample", 25)];
        let record = called_phase_beside(|threads| second.iter().for_each(|line| threads.take(line)), series);
        record.readings["main"][&MetricKeyText(MetricKey::gauge(Metric::HeapUsed, Stat::Max))].clone()
    };
    let one = main(&[of(8, "node", [200, 2_000])]);
    assert!(one.measured().is_some(), "it executed another program: {one:?}");
    let both = main(&[of(8, "node", [200, 2_000]), of(9, "node", [200, 2_000])]);
    assert!(matches!(both, Reading::Missing(why) if why.to_string().contains("is in a PID namespace")));
}

#[test]
fn phase_of_a_function_has_its_calls_and_the_heap() {
    let record = called_phase(|_| ());
    let of = |metric| record.reading(MetricKey::amount(metric)).cloned();
    assert_eq!(of(Metric::Time), Some(Reading::Measured(400e6)));
    assert_eq!([of(Metric::Operations), of(Metric::Errors)], [1.0, 0.0].map(|n| Some(Reading::Measured(n))));
    assert_eq!(record.histograms.iter().map(|one| one.operation.as_str()).collect::<Vec<_>>(), ["call"]);
    let heap = |stat| record.reading(MetricKey::gauge(Metric::HeapUsed, stat)).cloned();
    assert_eq!([heap(Stat::Max), heap(Stat::End)], [30.0, 20.0].map(|used| Some(Reading::Measured(used))));
}

#[test]
fn function_that_does_its_work_after_the_call_has_no_figures() {
    let record = called_phase(|threads| {
        threads.deferred.insert(functions::id("p", Part::Whole), "a promise".to_owned());
    });
    for metric in [Metric::Wall, Metric::Time, Metric::Cpu] {
        match record.reading(MetricKey::amount(metric)) {
            Some(Reading::Missing(Why::DoesNotCount(why))) => assert!(why.contains("after the call"), "{why}"),
            other => panic!("{metric:?}: {other:?}"),
        }
    }
    assert!(record.histograms.is_empty());
}

/// 20,000 calls of which a terminated worker had reported 1,001 were 1,001, with a time and a rate.
#[test]
fn function_whose_last_calls_were_not_reported_has_no_figures() {
    let counted = r#""probe":"calls","call":"p","open":0,"overlapped":false,"last":480000000,"count":1,"failed":0,"total":9,"min":1,"max":5,"sub":1,"classes":[]"#;
    let counted = line_of(7, 0, 490, counted);
    let record = called_phase(|threads| threads.take(&counted));
    for metric in [Metric::Operations, Metric::Errors, Metric::Time, Metric::Wall, Metric::LatencyP50] {
        match record.reading(MetricKey::amount(metric)) {
            Some(Reading::Missing(Why::Failed(why))) if metric != Metric::LatencyP50 => {
                assert!(why.contains("may have made calls since it last reported any"), "{why}");
            }
            reading => assert!(reading.is_none_or(|reading| reading.measured().is_none()), "{metric:?}: {reading:?}"),
        }
    }
    assert!(record.histograms.is_empty());
    let orderly =
        called_phase(|threads| [&counted, &heap(7, 0, 880, "exit", 5)].into_iter().for_each(|one| threads.take(one)));
    assert_eq!(orderly.reading(MetricKey::amount(Metric::Operations)), Some(&Reading::Measured(1.0)));
}

/// A phase from 100 ms to the end of the last replica at 500 ms, where the program itself ended at 400 ms; after it these
/// processes were left.
fn ended_by_replicas(left: &[u32]) -> Reading<f64> {
    let mut spec = spec("p");
    let Action::Observe(observe) = &mut spec.action else { unreachable!() };
    observe.end = Some(Trigger::Replicas);
    let snapshots = vec![snapshot(0, 0, &[7]), snapshot(100, 10, &[7]), snapshot(500, 50, left), snapshot(600, 0, &[])];
    let mut watched = watched(snapshots, vec![]);
    watched.tracker = Tracker::new(std::slice::from_ref(&spec));
    watched.tracker.happened(Happened::Mark(&Mark::parse("p begin").unwrap()), ms(100), Nanos::ZERO);
    watched.tracker.happened(Happened::ReplicasEnded, ms(500), Nanos::ZERO);
    (watched.begin, watched.end, watched.ended.at) = (vec![Some(1)], vec![Some(2)], ms(400));
    let record = super::observed(&[spec], &watched, &[], &Why::NotApplicable).remove(0).phase;
    record.reading(MetricKey::amount(Metric::Cpu)).cloned().unwrap()
}

#[test]
fn replica_that_outlives_the_program_ends_what_the_kernel_counted_of_it() {
    assert_eq!(ended_by_replicas(&[]), Reading::Measured(990e6), "by `wait4`: there is nothing to read from");
    assert_eq!(ended_by_replicas(&[7]), Reading::Measured(40e6));
}
