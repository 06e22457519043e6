//! Test support: made-up experiments, runs and trials, with no clock and no process, the same each time.

use std::collections::BTreeMap;
use std::sync::Arc;

use prony_analysis::guard::{Finding, Severity};
use prony_experiment::design::Experiment;
use prony_model::metric::{Metric, MetricKey, Stat};
use prony_model::outcome::{Ending, Outcome};
use prony_model::reading::{Reading, Why};
use prony_model::record::host::{Facts, MachineLimits, Spread};
use prony_model::record::{
    Answer, Completion, Conditions, Effective, EffectiveStore, Groups, HistogramRecord, LatencyKind, MetricKeyText,
    PhaseRecord, ProcessSample, ProcessSeries, Throughput, TrialRecord,
};
use prony_model::spec::Durability;
use prony_model::trial::{Label, PlannedTrial};
use prony_model::units::{Bytes, Nanos, PerSecond, Unit};
use prony_results::{RunData, RunHead, RunId, RunStart, RunStatus};
use serde_json::{Value, json};

use crate::records;

/// Noon of 20 November 2026, Unix milliseconds.
pub(crate) const NOON: u64 = 1_795_176_000_000;

/// A factor by name and levels: `(label, number)`.
pub(crate) type Factor<'a> = (&'a str, Vec<(&'a str, Option<f64>)>);

/// A factor of texts.
pub(crate) fn texts<'a>(name: &'a str, labels: &[&'a str]) -> Factor<'a> {
    (name, labels.iter().map(|l| (*l, None)).collect())
}

/// A factor of numbers.
pub(crate) fn numbers<'a>(name: &'a str, labels: &[&'a str]) -> Factor<'a> {
    (name, labels.iter().map(|l| (*l, l.replace([',', '_'], "").parse().ok())).collect())
}

/// An experiment over the full cross of the factors; phases are `(name, timed)`.
pub(crate) fn experiment(title: &str, factors: &[Factor<'_>], phases: &[(&str, bool)], blocks: u32) -> Experiment {
    experiment_with(title, factors, phases, blocks, json!([]))
}

/// The same with tables asked for, as JSON of `TableSpec`.
pub(crate) fn experiment_with(
    title: &str,
    factors: &[Factor<'_>],
    phases: &[(&str, bool)],
    blocks: u32,
    tables: Value,
) -> Experiment {
    let levels = |factor: &Factor<'_>| -> Vec<Value> {
        factor.1.iter().map(|(label, number)| json!({"label": label, "value": label, "number": number})).collect()
    };
    let timed = phases.iter().find(|(_, timed)| *timed);
    let primary = timed.map(|(name, _)| format!("{name}.time"));
    let phases: Vec<Value> = phases
        .iter()
        .map(|(name, timed)| json!({"name": name, "timed": timed, "action": {"pause": 0}, "limit": null}))
        .collect();
    let mut variants = Vec::new();
    let count: usize = factors.iter().map(|f| f.1.len()).product();
    for id in 0..count {
        let mut rest = id;
        let mut at = vec![0; factors.len()];
        for (place, factor) in factors.iter().enumerate().rev() {
            at[place] = rest % factor.1.len();
            rest /= factor.1.len();
        }
        variants.push(json!({
            "id": id, "levels": at, "stratum": 0, "baseline": false, "blocks": {"min": blocks, "max": blocks},
            "spec": {
                "subject": {"store": {"engine": "memory", "durability": null, "options": {}}},
                "data": [], "phases": phases,
                "limits": {"memory": null, "cpus": null, "pids": null, "trial": null, "phase": null},
            },
        }));
    }
    serde_json::from_value(json!({
        "title": title, "source": format!("[experiment]\ntitle = {title:?}\n"), "seed": 42,
        "factors": factors.iter().map(|f| json!({"name": f.0, "levels": levels(f)})).collect::<Vec<_>>(),
        "variants": variants,
        "compare": {"baseline": {}, "floor": {}, "primary": primary, "metrics": [], "margin": 0.03, "alpha": 0.05,
                    "blocks": {"min": blocks, "max": blocks}, "twice": false, "errors": {"count": 0}},
        "observe": {"hertz": 10, "throughput": 100_000_000, "care": "full", "record_commands": true},
        "tables": tables, "explores": false,
    }))
    .unwrap()
}

/// A deterministic number from 0 to 1.
pub(crate) fn noise(n: u64) -> f64 {
    let mut x = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((x ^ (x >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

/// A key from its text.
pub(crate) fn key(text: &str) -> MetricKeyText {
    MetricKeyText(text.parse().unwrap())
}

/// A trial that ended well and has no phase yet.
pub(crate) fn trial(position: u32, block: u32, variant: usize) -> TrialRecord {
    TrialRecord {
        trial: PlannedTrial { block, sub_block: 0, position, variant, label: Label::A, seed: u64::from(block) + 1000 },
        started_unix_ms: NOON + u64::from(position) * 1000,
        took: Nanos::from_millis(900),
        ending: Ending { outcome: Outcome::Ok, phase: None, after: Nanos::from_millis(900), evidence: vec![] },
        phases: vec![],
        effective: Some(engine("memory", "1", Durability::Volatile)),
        conditions: Conditions::default(),
        series: vec![],
        sampler_cpu: Reading::Measured(Nanos::from_micros(300)),
        findings: vec![],
    }
}

/// A phase that ended, with figures in the metrics' units.
pub(crate) fn phase(name: &str, figures: &[(&str, f64)]) -> PhaseRecord {
    let readings = figures.iter().map(|(k, v)| (key(k), Reading::Measured(*v))).collect();
    PhaseRecord {
        name: name.to_owned(),
        action: "put".to_owned(),
        timed: true,
        completion: Completion::Complete,
        begin: Some(Nanos::from_secs(1)),
        end: Some(Nanos::from_secs(2)),
        readings: BTreeMap::from([(String::new(), readings)]),
        histograms: vec![],
        groups: None,
        throughput: None,
        answer: None,
        errors: BTreeMap::new(),
    }
}

/// A phase that was never reached.
pub(crate) fn not_reached(name: &str) -> PhaseRecord {
    PhaseRecord {
        completion: Completion::NotReached,
        begin: None,
        end: None,
        readings: BTreeMap::new(),
        ..phase(name, &[])
    }
}

/// A trial in which every part of a record is filled.
pub(crate) fn full_trial(position: u32) -> TrialRecord {
    let mut record = trial(position, position / 2, position as usize % 2);
    record.trial.label = Label::A2;
    record.trial.sub_block = position % 3;
    record.trial.seed = u64::MAX - u64::from(position);
    record.ending.evidence = vec!["oom_kill rose by 1".to_owned(), "so \u{1f4a5}".to_owned()];
    record.effective = [Some(records::program()), Some(records::store()), None][position as usize % 3].clone();
    record.conditions = records::conditions();
    let mut write = phase("write", &[("time", 1.5e9), ("rss.peak", 3e8), ("rate", 12.25)]);
    write.readings.get_mut("").unwrap().insert(key("fsyncs"), Reading::Missing(Why::NotPermitted("no tracefs".into())));
    let second = BTreeMap::from([(key("cpu"), Reading::Missing(Why::TooFew { have: 3, need: 10 }))]);
    write.readings.insert("worker.1".to_owned(), second);
    write.histograms = vec![HistogramRecord {
        operation: "put".to_owned(),
        kind: LatencyKind::Service,
        v2: vec![0, 255, 7],
        failed: 2,
    }];
    write.groups = Some(Groups { operations: 10, wall: vec![5, 900, 3], cpu: vec![u64::MAX, 0, 1] });
    write.throughput = Some(Throughput { interval: Nanos::from_millis(100), operations: vec![0, 0, 900, 1] });
    write.answer = Some(Answer { rows: Some(7), digest: "00ff".to_owned(), comparable: true });
    write.errors = BTreeMap::from([("map full".to_owned(), 4)]);
    record.phases = vec![write, not_reached("read")];
    record.series = vec![series(40, 0), series(3, 1)];
    record.findings = vec![Finding {
        guard: "swapped".to_owned(),
        severity: Severity::Warning,
        phase: Some("write".to_owned()),
        message: "2 MB were swapped out".to_owned(),
        hint: "free memory".to_owned(),
        data: json!({"bytes": 2_000_000}),
    }];
    record
}

/// Samples of a process at 10 Hz, as lively as a worker's.
pub(crate) fn series(samples: u64, pid: u32) -> ProcessSeries {
    let sample = |i: u64| {
        let n = noise(i ^ u64::from(pid) << 40);
        ProcessSample {
            at: Nanos::from_nanos(i * 100_000_000 + (n * 50_000.0) as u64),
            cpu_user: Nanos::from_millis(i * 9 * 10),
            cpu_system: Nanos::from_millis(i * 10),
            on_cpu: Some(Nanos::from_nanos(i * 95_000_000 + (n * 5e6) as u64)),
            cpu_wait: pid.is_multiple_of(2).then(|| Nanos::from_nanos(i * 1_000)),
            anon: Bytes::from_kib(50_000 + (n * 3_000.0) as u64),
            file: Bytes::from_kib(i * 40),
            vsz: Bytes::from_mib(1_024),
            threads: 4,
            written: Some(Bytes::from_bytes(i * 4096 * (1 + (n * 20.0) as u64))),
            minor_faults: i * 10,
            switches_voluntary: i * 20 + (n * 10.0) as u64,
            switches_forced: i,
            ..ProcessSample::default()
        }
    };
    ProcessSeries {
        pid,
        role: "worker".to_owned(),
        command: "prony".to_owned(),
        samples: (0..samples).map(sample).collect(),
    }
}

/// Every metric with a figure that is about right for its unit.
pub(crate) fn every_figure(seed: u64) -> BTreeMap<MetricKeyText, Reading<f64>> {
    let keys = Metric::ALL.iter().flat_map(|m| {
        let stats: &[Option<Stat>] =
            if m.is_gauge() { &[Some(Stat::Mean), Some(Stat::Max), Some(Stat::End)] } else { &[None] };
        stats.iter().map(|stat| MetricKey { metric: *m, stat: *stat })
    });
    keys.enumerate()
        .map(|(i, key)| {
            let n = 0.5 + noise(seed.wrapping_mul(31).wrapping_add(i as u64));
            let value = match key.metric.unit() {
                Unit::Nanos => (n * 2e9).round(),
                Unit::Bytes => (n * 6e7).round(),
                Unit::Count => (n * 1000.0).round(),
                Unit::PerSecond => n * 50_000.0,
                Unit::Ratio => n / 2.0,
            };
            let reading = match i % 16 {
                15 => Reading::Missing(Why::NotPermitted("perf_event_paranoid is 3".into())),
                _ => Reading::Measured(value),
            };
            (MetricKeyText(key), reading)
        })
        .collect()
}

/// An engine of which only name, version and durability are known.
pub(crate) fn engine(name: &str, version: &str, durability: Durability) -> Effective {
    Effective::Store(Arc::new(EffectiveStore {
        engine: name.to_owned(),
        version: version.to_owned(),
        library: String::new(),
        durability,
        promise: None,
        settings: BTreeMap::new(),
        in_force: None,
        idiom: String::new(),
        services: Vec::new(),
    }))
}

/// What begins a run of the experiment.
pub(crate) fn start<'a>(experiment: &'a Experiment, host: &'a Facts, planned: u32) -> RunStart<'a> {
    RunStart {
        experiment,
        seed: 42,
        host,
        limits: &Reading::Missing(Why::NotApplicable),
        version: "0.1.0",
        started_unix_ms: NOON,
        planned,
        scratch: None,
    }
}

/// A run that was never in a database.
pub(crate) fn run_data(experiment: Experiment, planned: u32, trials: Vec<TrialRecord>) -> RunData {
    let ok = trials.iter().filter(|t| t.ending.outcome.is_ok()).count() as u32;
    let head = RunHead {
        id: RunId(7),
        title: experiment.title().to_owned(),
        hash: "0".repeat(32),
        seed: 42,
        host: records::host(),
        limits: Reading::Measured(MachineLimits {
            fsync: Reading::Measured(Spread { p50: Nanos::from_micros(1_200), ..Spread::default() }),
            sequential_write: Reading::Measured(PerSecond::new(5e8).unwrap()),
            ..MachineLimits::default()
        }),
        version: "0.1.0".to_owned(),
        started_unix_ms: NOON,
        ended_unix_ms: Some(NOON + 95_000),
        status: if trials.len() as u32 == planned { RunStatus::Done } else { RunStatus::Interrupted },
        planned,
        finished: trials.len() as u32,
        ok,
        scratch: None,
        search: None,
        resumed: vec![],
    };
    RunData { head, experiment, trials, cuts: Vec::new() }
}
