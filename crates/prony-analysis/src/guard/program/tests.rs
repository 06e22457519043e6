use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;
use prony_model::metric::MetricKey;
use prony_model::outcome::{Ending, Outcome};
use prony_model::program::{ObserveSpec, ProgramSpec};
use prony_model::reading::Reading;
use prony_model::record::effective::{EffectiveServices, Output};
use prony_model::record::{Captured, Conditions, DiskUsage, Effective, EffectiveProgram, MetricKeyText, SettleResult};
use prony_model::spec::{Action, Limits, PhaseSpec, Subject};
use prony_model::trial::{Label, PlannedTrial};

/// A program whose phases `b` and `c` begin and end so.
pub(in crate::guard) fn spec(begin_c: Option<Trigger>, end_b: Option<Trigger>) -> TrialSpec {
    let phase = |name: &str, begin, end| {
        let observe = ObserveSpec { begin, end, ..ObserveSpec::WHOLE };
        PhaseSpec { name: name.into(), timed: true, action: Action::Observe(observe), background: None, limit: None }
    };
    let program = r#"{"name":"x","command":{"words":["run"]},"directory":null,"copy":"none","links":"refuse",
        "store":null,"env":{},"inherit":[],"input":"null","output":"capture","pty":false,"runtime":null,
        "success":[0],"build":null,"prepare":null,"cleanup":null,"warmup":0,"changes":[]}"#;
    let program: ProgramSpec = serde_json::from_str(program).unwrap();
    let phases = vec![phase("a", None, None), phase("b", None, end_b), phase("c", begin_c, None)];
    TrialSpec {
        subject: Subject::Program(Box::new(program)),
        services: Vec::new(),
        data: Vec::new(),
        phases,
        limits: Limits::default(),
        crashes: Vec::new(),
    }
}

fn check(record: &TrialRecord) -> Vec<Finding> {
    super::check(&spec(None, None), record)
}

pub(in crate::guard) fn phase(name: &str, completion: Completion) -> PhaseRecord {
    PhaseRecord {
        name: name.into(),
        action: "observe".into(),
        timed: true,
        completion,
        begin: None,
        end: None,
        readings: BTreeMap::new(),
        histograms: vec![],
        groups: None,
        throughput: None,
        answer: None,
        errors: BTreeMap::new(),
    }
}

/// Of three phases, `a` was complete, `b` began and `c` did not.
pub(in crate::guard) fn record(outcome: Outcome, effective: EffectiveProgram) -> TrialRecord {
    let completions = [Completion::Complete, Completion::Partial, Completion::NotReached];
    TrialRecord {
        trial: PlannedTrial { block: 0, sub_block: 0, position: 0, variant: 0, label: Label::A, seed: 1 },
        started_unix_ms: 0,
        took: Nanos::from_secs(1),
        ending: Ending { outcome, phase: None, after: Nanos::ZERO, evidence: vec![] },
        phases: ["a", "b", "c"].into_iter().zip(completions).map(|(name, how)| phase(name, how)).collect(),
        effective: Some(Effective::Program(Arc::new(effective))),
        conditions: Conditions::default(),
        series: vec![],
        sampler_cpu: Reading::Measured(Nanos::ZERO),
        findings: vec![],
    }
}

#[test]
fn quiet_not_observed_completely_is_reported() {
    let settled = |blind: &[&str]| {
        let blind = blind.iter().map(|sign| (*sign).to_owned()).collect();
        let result = Some(SettleResult { blind, ..SettleResult::default() });
        let settled = BTreeMap::from([("a".to_owned(), Settled { quiet: Nanos::from_nanos(1), result })]);
        let conditions = Conditions { settled, ..Conditions::default() };
        check(&TrialRecord { conditions, ..record(Outcome::Ok, EffectiveProgram::default()) })
    };
    assert_eq!(settled(&[]), []);
    let [found] = settled(&["bytes written: not permitted: `/proc/7/io`"]).try_into().unwrap();
    assert_eq!((found.guard.as_str(), found.phase.as_deref()), ("settled_unseen", Some("a")));
    assert!(found.message.ends_with("measured: bytes written: not permitted: `/proc/7/io`"), "{}", found.message);
}

#[test]
fn cpu_time_with_an_error_that_matters_is_noted() {
    let found = |cpu: f64, over: f64, under: f64, timed: bool| {
        let mut record = record(Outcome::Ok, EffectiveProgram::default());
        let set = |(metric, number)| (MetricKeyText(MetricKey::amount(metric)), Reading::Measured(number));
        let values = [(Metric::Cpu, cpu), (Metric::CpuOver, over), (Metric::CpuUnder, under)].map(set);
        record.phases[2].readings.insert(String::new(), values.into_iter().collect());
        record.phases[2].timed = timed;
        coarse_cpu(&record).first().map(|finding| finding.severity)
    };
    let noted = [found(5e6, 0.0, 8e6, true), found(50e6, 8e6, 4e6, true)];
    assert_eq!(noted, [Some(Severity::Warning), Some(Severity::Note)]);
    let not_noted = [found(500e6, 8e6, 8e6, true), found(50e6, 0.0, 0.0, true), found(50e6, 8e6, 8e6, false)];
    assert_eq!(not_noted, [None; 3]);
}

/// It was above the verdicts of the first run of a new user, on a phase that was compared in nothing, and later above
/// those of stores that were compared in time only.
#[test]
fn coarse_cpu_time_is_a_note_in_phases_whose_cpu_time_is_not_shown() {
    let found = |guard: &str, phase: &str| Finding::of(guard, Severity::Warning, "x".to_owned(), "y").in_phase(phase);
    let findings = vec![found("coarse_cpu", "write"), found("coarse_cpu", "persist"), found("late", "persist")];
    let severities = |metric: &str, is_program: bool| {
        let mut findings = findings.clone();
        note_coarse_cpu(&mut findings, &[&metric.parse().unwrap()], is_program);
        findings.iter().map(|finding| finding.severity).collect::<Vec<Severity>>()
    };
    let (warning, note) = (Severity::Warning, Severity::Note);
    assert_eq!(severities("write.time", true), [warning, note, warning], "beside the time of a program");
    assert_eq!(severities("write.time", false), [note, note, warning], "a store's phase that is compared in time only");
    assert_eq!(severities("write.cpu", false), [warning, note, warning]);
}

#[test]
fn values_are_known_as_exactly_as_their_clocks() {
    let mut record = record(Outcome::Ok, EffectiveProgram::default());
    let set = |(metric, number)| (MetricKeyText(MetricKey::amount(metric)), Reading::Measured(number));
    let error = [(Metric::CpuOver, 4e6), (Metric::CpuUnder, 8e6)];
    let of_cpu = [(Metric::Cpu, 50e6), (Metric::CpuUser, 40e6), (Metric::CpuSystem, 10.3e6), (Metric::Wall, 60e6)];
    record.phases[0].readings.insert(String::new(), error.into_iter().chain(of_cpu).map(set).collect());
    let uncertainty = |name: &str| record.uncertainty(&name.parse().unwrap());
    assert_eq!((uncertainty("a.cpu"), uncertainty("a.wall")), ((4e6, 8e6), (0.0, 0.0)));
    assert_eq!((uncertainty("a.cpu.user"), uncertainty("a.cpu.system")), ((24e6, 28e6), (24e6, 28e6)));
    assert_eq!((uncertainty("a.replica.1.cpu"), uncertainty("a.site.cpu")), ((4e6, 8e6), (4e6, 8e6)));
}

/// The time was can't tell, and the rate that follows from it 7.7 % lower.
#[test]
fn rate_is_known_as_exactly_as_the_time_that_it_follows_from() {
    let mut record = record(Outcome::Ok, EffectiveProgram::default());
    let mut uncertainty = |rate: f64, time: f64| {
        let set = |(metric, number)| (MetricKeyText(MetricKey::amount(metric)), Reading::Measured(number));
        let all = [
            (Metric::Wall, 50e6),
            (Metric::Time, time),
            (Metric::Operations, 1000.0),
            (Metric::Rate, rate),
            (Metric::TimeLag, 10e6),
        ];
        record.phases[0].readings.insert(String::new(), all.map(set).into());
        record.uncertainty(&"a.rate".parse().unwrap())
    };
    assert_eq!(uncertainty(20_000.0, 50e6), (20_000.0 - 1e12 / 60e6, 1e12 / 40e6 - 20_000.0));
    // Reported by the program: the rate, or the time that it follows from.
    assert_eq!((uncertainty(25_000.0, 50e6), uncertainty(25_000.0, 40e6)), ((0.0, 0.0), (0.0, 0.0)));
}

#[test]
fn counters_that_were_read_late_are_named() {
    let mut record = record(Outcome::Ok, EffectiveProgram::default());
    let mut set = |phase: usize, lag: f64, wall: f64| {
        let reading = |metric, value| (MetricKeyText(MetricKey::amount(metric)), Reading::Measured(value));
        let readings = BTreeMap::from([reading(Metric::Lag, lag), reading(Metric::Wall, wall)]);
        record.phases[phase].readings = BTreeMap::from([(String::new(), readings)]);
    };
    set(0, 1e6, 100e6);
    set(1, 20e6, 6e6);
    set(2, 20e6, 6e6);
    record.phases[2].timed = false;
    let found = late(&spec(None, None), &record);
    assert_eq!(found.iter().map(|finding| finding.phase.as_deref()).collect::<Vec<_>>(), [Some("b")]);
    assert!(found[0].message.contains("up to 20.00 ms after"), "{}", found[0].message);
    // Its hint is one for the source that begins it.
    record.phases.swap(1, 2);
    record.phases[1].timed = false;
    record.phases[2].name = "c".into();
    let hint = |begin: Trigger| late(&spec(Some(begin), None), &record).remove(0).hint;
    let of_line = hint(Trigger::Line("x".into()));
    assert!(of_line.contains("after it writes the line that begins the phase"), "{of_line}");
    assert!(hint(Trigger::Mark("x".into())).contains("after the mark that begins"));
    for begin in [Trigger::Call("a#b".into()), Trigger::Invocation("a#b".into())] {
        let hint = hint(begin);
        assert!(hint.contains("longer") && !hint.contains("wait") && !hint.contains("line"), "{hint}");
    }
    assert!(hint(Trigger::After("a".into())).starts_with("make the phase longer"));
}

#[test]
fn a_store_that_is_not_there_or_was_there_before_or_takes_long_is_named() {
    let of = |outcome, store: Option<ProgramStore>| {
        let mut trial = record(outcome, EffectiveProgram { store, ..EffectiveProgram::default() });
        trial.phases.truncate(1);
        (trial.phases[0].begin, trial.phases[0].end) = (Some(Nanos::ZERO), Some(Nanos::from_secs(1)));
        check(&trial).into_iter().map(|finding| finding.guard).collect::<Vec<_>>()
    };
    let store = |found, blocks: Option<u64>, of_the_trial, reading| {
        let usage = |blocks| DiskUsage { blocks: Bytes::from_bytes(blocks), ..DiskUsage::default() };
        let (at_begin, reading) = (blocks.map(usage), Nanos::from_nanos(reading));
        Some(ProgramStore { path: "/x".into(), of_the_trial, at_begin, found, reading, settling: Nanos::ZERO })
    };
    let some = Some(4096);
    assert_eq!(of(Outcome::Ok, store(false, None, false, 0)), ["store_not_found"]);
    assert_eq!(of(Outcome::TimedOut, store(false, None, false, 0)), [""; 0], "it may not have come so far");
    assert_eq!(of(Outcome::Ok, store(true, some, false, 0)), ["store_carried_over"]);
    assert_eq!(of(Outcome::Ok, store(true, some, true, 50_000_000)), [""; 0], "it began with a copy of its own");
    assert_eq!(of(Outcome::Ok, store(true, Some(0), false, 50_000_001)), ["store_read_long"]);
    assert_eq!(of(Outcome::Ok, None), [""; 0]);
}

#[test]
fn what_commands_beside_services_left_is_counted_by_phase() {
    let mut ran = record(Outcome::Ok, EffectiveProgram::default());
    let left_behind = [("fill".to_owned(), 2)].into();
    ran.effective = Some(Effective::Services(Arc::new(EffectiveServices { services: Vec::new(), left_behind })));
    let found = left_by_commands(&ran);
    let [found] = &found[..] else { panic!("{found:?}") };
    assert_eq!((found.guard.as_str(), found.phase.as_deref()), ("left_behind", Some("fill")));
    assert!(found.message.contains("prony killed 2 processes of it still running"), "{}", found.message);
}

/// The first 64 KiB of a line were read as if they were all of it, and gave a part of a number.
#[test]
fn lines_that_were_too_long_are_counted() {
    let wrote = |too_long: u64| Captured { too_long, ..Captured::default() };
    let found = |stdout: u64, stderr: u64| {
        let output = Output { stdout: wrote(stdout), stderr: wrote(stderr) };
        let found = check(&record(Outcome::Ok, EffectiveProgram { output, ..EffectiveProgram::default() }));
        found.into_iter().find(|finding| finding.guard == "lines_too_long").map(|finding| finding.message)
    };
    assert_eq!(found(0, 0), None);
    assert!(found(2, 1).unwrap().starts_with("3 lines are longer than 1 MiB"), "{:?}", found(2, 1));
    assert!(found(0, 1).unwrap().starts_with("1 line is longer than 1 MiB"));
}

#[test]
fn leftovers_and_strange_marks_are_counted() {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let effective = EffectiveProgram {
        left_behind: 2,
        strange_marks: texts(&["x begin"]),
        strange_marks_in_all: 1,
        heard_nothing: texts(&["a", "b"]),
        read_by_several: texts(&["b", "c"]),
        unordered: BTreeMap::from([("d".to_owned(), false)]),
        ..EffectiveProgram::default()
    };
    let found = check(&record(Outcome::TimedOut, effective));
    let guards: Vec<&str> = found.iter().map(|finding| finding.guard.as_str()).collect();
    assert_eq!(guards, ["read_nothing", "read_by_several", "unordered", "left_behind", "strange_marks"]);
    assert_eq!(found[2].phase.as_deref(), Some("d"));
    assert_eq!(found[0].phase.as_deref(), Some("a"));
    assert!(found[1].message.contains("several phases, `b`, `c`:"), "{}", found[1].message);
    let marks = texts(&["x begin", "y end"]);
    let many = EffectiveProgram { strange_marks: marks, strange_marks_in_all: 10_000, ..Default::default() };
    let found = check(&record(Outcome::TimedOut, many));
    assert!(found[0].message.starts_with("10000 marks"), "those that were not stored count: {}", found[0].message);
    assert_eq!(check(&record(Outcome::TimedOut, EffectiveProgram::default())), []);
}

/// It was estimated at 1 GB/s: searching 9 MB for the lines of a phase made a program 5 times as slow, without a finding.
#[test]
fn output_is_a_flood_where_what_wrote_it_may_have_waited() {
    let found = |waited: u64| {
        let mut record = record(Outcome::Ok, EffectiveProgram::default());
        let begin = Nanos::from_secs(5);
        (record.phases[0].begin, record.phases[0].end) = (Some(begin), Some(begin + Nanos::from_millis(1_400)));
        let who = "service `api`".to_owned();
        flooded(&record, &Flood { who, written: [9_000_000, 0], waited: Nanos::from_millis(waited) })
    };
    let much = found(1_120).unwrap();
    let said = "service `api` wrote 9.0 MB of output, and may have waited 1.120 s until prony had read it: 80 % of the time of the phases";
    assert_eq!(much.message, said);
    assert!(much.hint.contains("`--output null`"), "{}", much.hint);
    assert_eq!(found(42), None);
    assert!(found(43).is_some());
}

#[test]
fn rows_that_no_line_gave_are_reported_once() {
    let found = |heard_nothing: &[&str], unordered: &[&str]| {
        let heard_nothing = heard_nothing.iter().map(|name| (*name).to_owned()).collect();
        let unordered = unordered.iter().map(|name| ((*name).to_owned(), true)).collect();
        let mut record = record(Outcome::Ok, EffectiveProgram { heard_nothing, unordered, ..Default::default() });
        let rows = Reading::Missing(Why::Failed("`x` is no number".into()));
        let rows = (MetricKeyText(MetricKey::amount(Metric::Rows)), rows);
        record.phases.iter_mut().for_each(|phase| drop(phase.readings.insert(String::new(), [rows.clone()].into())));
        rows_unknown(&record)
    };
    let [of_a] = found(&[], &[]).try_into().unwrap();
    assert_eq!((of_a.guard.as_str(), of_a.phase.as_deref()), ("rows_unknown", Some("a")), "others did not complete");
    assert!(of_a.message.ends_with("`x` is no number"), "{}", of_a.message);
    assert_eq!(found(&["a"], &[]), [], "another finding says that no line matched");
    assert_eq!(found(&[], &["a"]), [], "another finding says that lines have no order");
}

#[test]
fn work_that_a_call_leaves_for_later_is_reported() {
    let found = |deferred: Option<&str>| {
        let call = Call { deferred: deferred.map(str::to_owned), ..Call::default() };
        let calls = BTreeMap::from([("a".to_owned(), call)]);
        check(&record(Outcome::Ok, EffectiveProgram { calls, ..EffectiveProgram::default() }))
    };
    let [later] = found(Some("`f` returned a generator")).try_into().unwrap();
    assert_eq!((later.guard.as_str(), later.phase.as_deref()), ("work_after_call", Some("a")));
    assert_eq!(found(None), []);
}

#[test]
fn lines_that_begin_a_phase_again_are_reported() {
    let repeated = BTreeMap::from([("a".to_owned(), 2)]);
    let [again] =
        check(&record(Outcome::Ok, EffectiveProgram { repeated, ..EffectiveProgram::default() })).try_into().unwrap();
    assert_eq!((again.guard.as_str(), again.phase.as_deref()), ("phase_repeated", Some("a")));
    assert!(again.message.contains("came 2 times more"), "{}", again.message);
}
