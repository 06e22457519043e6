//! Makes pages of made-up runs with every kind of value and every kind of missing value. The browser tests read the
//! pages that these tests write.

use prony_analysis::guard::{Finding, Severity};
use prony_experiment::design::Experiment;
use prony_model::latency::Recorder;
use prony_model::outcome::{OutOfMemory, Outcome};
use prony_model::reading::{Reading, Why};
use prony_model::record::{
    Completion, Groups, LatencyKind, PhaseRecord, ProcessSample, ProcessSeries, Throughput, TrialRecord,
};
use prony_model::spec::Durability;
use prony_model::trial::Label;
use prony_model::units::{Bytes, Nanos};
use prony_results::{Database, RunId, RunStatus};
use serde_json::{Value, json};

use crate::compared::{against, edited, trials};
use crate::records;
use crate::synthetic::{NOON, engine, experiment, key, noise, not_reached, numbers, phase, start, texts};

/// A draw from a roughly normal distribution with deviation 1.
fn bell(seed: u64) -> f64 {
    (0..6).map(|i| noise(seed.wrapping_mul(6).wrapping_add(i))).sum::<f64>() * 2f64.sqrt() - 3.0 * 2f64.sqrt()
}

/// Keeps a run in a new database in memory of the file system, and gives it back with its number.
pub(crate) fn stored(name: &str, experiment: &Experiment, trials: &[TrialRecord]) -> (Database, RunId) {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("page-{name}.db"));
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{suffix}", path.display()));
    }
    let mut database = Database::create(&path).unwrap();
    let run = database.begin_run(&start(experiment, &records::host(), trials.len() as u32)).unwrap();
    for trial in trials {
        database.append_trial(run, trial).unwrap();
    }
    database.end_run(run, RunStatus::Done, NOON + 95_000).unwrap();
    (database, run)
}

/// A phase from `begin` for `time` seconds, with the usual figures.
fn timed(name: &str, begin: &mut f64, time: f64, operations: u64, seed: u64) -> PhaseRecord {
    let noise_factor = 1.0 + 0.02 * bell(seed);
    let nanos = (time * noise_factor * 1e9).round();
    let figures = [
        ("time", nanos),
        ("wall", nanos * 1.02),
        ("cpu", nanos * 0.6 * (1.0 + 0.004 * bell(seed ^ 77))),
        ("rate", operations as f64 / (nanos / 1e9)),
        ("operations", operations as f64),
        ("errors", 0.0),
        ("anon.max", 4e7 + 2e6 * bell(seed ^ 5)),
        ("rss.peak", 9e7 + 3e6 * bell(seed ^ 6)),
        ("written", operations as f64 * 420.0),
        ("fsyncs", (operations as f64 / 10.0).round()),
    ];
    let mut record = phase(name, &figures);
    record.begin = Some(Nanos::from_nanos((*begin * 1e9) as u64));
    *begin += nanos / 1e9 + 0.01;
    record.end = Some(Nanos::from_nanos((*begin * 1e9) as u64 - 10_000_000));
    record.throughput = Some(throughput(nanos / 1e9, operations, seed));
    record
}

fn throughput(time: f64, operations: u64, seed: u64) -> Throughput {
    let steps = (time / 0.1).ceil().max(1.0) as u64;
    let each = operations as f64 / steps as f64;
    let dip = |i: u64| if i % 17 == 11 { 0.4 } else { 1.0 + 0.08 * bell(seed ^ (i << 20)) };
    Throughput {
        interval: Nanos::from_millis(100),
        operations: (0..steps).map(|i| (each * dip(i)).max(0.0) as u64).collect(),
    }
}

/// The tree's samples over the phases: a worker and, in writes, a helper.
fn series(phases: &[PhaseRecord], hertz: u64, anon: f64, seed: u64) -> Vec<ProcessSeries> {
    let Some(begin) = phases.iter().filter_map(|p| p.begin).min() else { return vec![] };
    let end = phases.iter().filter_map(|p| p.end).max().unwrap();
    let count = (end - begin).as_nanos() * hertz / 1_000_000_000;
    let (mut cpu, mut written) = (0.0, 0.0);
    let samples = (0..=count).map(|i| {
        let at = begin + Nanos::from_nanos(i * 1_000_000_000 / hertz);
        let current = phases.iter().find(|p| p.begin.is_some_and(|b| b <= at) && p.end.is_some_and(|e| at <= e));
        let writes = current.is_some_and(|p| p.name != "read");
        cpu += (if writes { 0.55 } else { 0.97 } + 0.05 * bell(seed ^ (i << 8))).max(0.0) / hertz as f64;
        written += if writes { 6e6 * (1.0 + 0.3 * bell(seed ^ (i << 9))).max(0.0) / hertz as f64 } else { 0.0 };
        let grown = anon * (1.0 - (-(i as f64) / count.max(1) as f64 * 3.0).exp());
        ProcessSample {
            at,
            cpu_user: Nanos::from_nanos((cpu * 0.7e9) as u64),
            cpu_system: Nanos::from_nanos((cpu * 0.3e9) as u64),
            anon: Bytes::from_bytes((2e7 + grown) as u64),
            file: Bytes::from_bytes((8e6 + i as f64 * 2e5) as u64),
            threads: 4,
            read: None,
            written: Some(Bytes::from_bytes(written as u64)),
            ..ProcessSample::default()
        }
    });
    vec![ProcessSeries { pid: 100, role: "worker".into(), command: "prony".into(), samples: samples.collect() }]
}

fn groups(time: f64, count: u64, seed: u64) -> Groups {
    let draw = |i: u64| time * (0.12 * bell(seed ^ (i << 16))).exp() * if i % 211 == 7 { 4.0 } else { 1.0 };
    let wall: Vec<u64> = (0..count).map(|i| (draw(i) * 1e9 / count as f64) as u64).collect();
    let cpu = wall.iter().enumerate().map(|(i, w)| (*w as f64 * (0.55 + 0.02 * bell(i as u64))) as u64).collect();
    Groups { operations: 10, wall, cpu }
}

fn finding(severity: Severity, guard: &str, message: &str) -> Finding {
    Finding {
        guard: guard.to_owned(),
        severity,
        phase: Some("write".to_owned()),
        message: message.to_owned(),
        hint: "run it again while the machine is quiet, and compare".to_owned(),
        data: Value::Null,
    }
}

/// Like the cache of `experiments/cache.toml`: three groups that lie apart, sampled groups, a commit of its own.
pub(crate) fn cache(samples: u64) -> (Experiment, Vec<TrialRecord>) {
    let stores = ["lmdb-sync", "lmdb-nometasync", "lmdb-nosync", "sqlite-wal", "redb"];
    let factors = [texts("store", &stores), texts("transaction", &["each", "single"])];
    let plain = experiment("What durability costs a cache", &factors, &[("write", true), ("read", true)], 12);
    let experiment = against(&plain, "store", "lmdb-sync");
    let records = trials(&experiment, 12, |t| {
        let seed = u64::from(t.trial.position) * 7919;
        let (store, single) = (t.trial.variant / 2, t.trial.variant % 2);
        let write = 3.0 * [1.0, 0.78, 0.17, 1.009, 1.45][store] * [1.0, 0.2][single];
        let read = 0.9 * [1.0, 1.0, 0.99, 1.6, 1.15][store] * [1.0, 0.5][single];
        let mut now = 100.0 + f64::from(t.trial.position);
        t.phases = vec![timed("write", &mut now, write, 20_000, seed), timed("read", &mut now, read, 20_000, seed ^ 1)];
        t.series = series(&t.phases, 20, 1e7 * (1.0 + store as f64), seed);
        t.phases[0].groups = Some(groups(write, samples, seed));
        t.phases[1].groups = Some(groups(read, samples, seed ^ 2));
        if t.trial.position % 31 == 4 {
            t.findings = vec![finding(Severity::Warning, "disturbed", "12 % of the phase waited for a CPU")];
        }
        if t.trial.position % 40 == 3 {
            t.findings.push(finding(Severity::Note, "short phase", "the phase took 40 ms, its clock ticks in 10 ms"));
        }
    });
    (experiment, records)
}

/// Like the sourcing of `experiments/sourcing-store.toml`: growth, a heap that runs out, an open loop.
pub(crate) fn sourcing() -> (Experiment, Vec<TrialRecord>) {
    let sizes = ["1_000", "10_000", "100_000", "1_000_000", "10_000_000"];
    let factors = [texts("engine", &["memory", "lmdb"]), numbers("documents", &sizes)];
    let plain = experiment("Sourcing nodes into a store", &factors, &[("source", true), ("persist", true)], 8);
    let experiment = edited(&against(&plain, "engine", "memory"), |json| {
        for variant in json["variants"].as_array_mut().unwrap() {
            variant["spec"]["limits"]["memory"] = json!(16_000_000_000u64);
        }
    });
    let records = trials(&experiment, 8, |t| {
        let seed = u64::from(t.trial.position) * 104_729;
        let (engine, size) = (t.trial.variant / 5, t.trial.variant % 5);
        let documents = 10f64.powi(3 + size as i32);
        let time = 2e-5 * documents * [1.0, 1.7][engine] * if engine == 0 { documents.powf(0.04) } else { 1.0 };
        let mut now = 50.0;
        t.phases = vec![
            timed("source", &mut now, time, documents as u64, seed),
            timed("persist", &mut now, time * [0.6, 0.05][engine], 1, seed ^ 9),
        ];
        let memory = documents * [1600.0, 45.0][engine];
        let readings = t.phases[0].readings.get_mut("").unwrap();
        let peak = crate::synthetic::key("rss.peak");
        readings.insert(peak, prony_model::reading::Reading::Measured(memory * (1.0 + 0.02 * bell(seed ^ 4)) + 3e7));
        let anon = crate::synthetic::key("anon.max");
        readings.insert(anon, prony_model::reading::Reading::Measured(memory * (1.0 + 0.02 * bell(seed ^ 8))));
        t.series = series(&t.phases, 4, memory, seed);
        t.phases[0].histograms = [(LatencyKind::Intended, 1.6), (LatencyKind::Actual, 1.0)]
            .map(|(kind, slow)| histogram(kind, slow * [1.0, 1.7][engine], 3_000, seed))
            .into();
        if memory > 1.5e10 {
            t.ending.outcome = Outcome::OutOfMemory { by: OutOfMemory::Limit };
            t.ending.phase = Some("source".to_owned());
            t.ending.after = Nanos::from_millis(48_300);
            t.phases[0].completion = Completion::Partial;
            t.phases[1] = not_reached("persist");
        }
    });
    (experiment, records)
}

pub(crate) fn histogram(kind: LatencyKind, slow: f64, count: u64, seed: u64) -> prony_model::record::HistogramRecord {
    let mut recorder = Recorder::new();
    for i in 0..count {
        let tail = if i % 97 == 5 && kind == LatencyKind::Intended { 25.0 } else { 1.0 };
        let micros = 80.0 * slow * tail * (0.35 * bell(seed ^ (i << 12))).exp();
        recorder.record(Nanos::from_nanos((micros * 1e3) as u64));
    }
    recorder.record_failed();
    recorder.to_record("put", kind).unwrap()
}

/// What a name must not be able to do.
pub(crate) const HOSTILE: &str = "</script><img src=x onerror=\"window.hit=1\">'`${1}\u{202e}&amp;<!--";

/// Every text that comes from outside tries to be markup.
pub(crate) fn hostile() -> (Experiment, Vec<TrialRecord>) {
    let factors = [(HOSTILE, vec![("base</title><script>window.hit=2</script>", None), (HOSTILE, None)])];
    let phases = [(HOSTILE, true)];
    let plain = experiment(HOSTILE, &factors, &phases, 6);
    let hostile = edited(&against(&plain, HOSTILE, "base</title><script>window.hit=2</script>"), |json| {
        json["source"] = json!(format!("# {HOSTILE}\n</code></pre><script>window.hit=3</script>"));
    });
    let records = trials(&hostile, 6, |t| {
        let mut now = 1.0;
        let time = 1.0 + t.trial.variant as f64;
        t.phases = vec![timed(HOSTILE, &mut now, time, 100, u64::from(t.trial.position))];
        t.phases[0].groups = Some(groups(1.0, 50, u64::from(t.trial.position)));
        t.phases[0].histograms = vec![histogram(LatencyKind::Service, 1.0, 100, 1)];
        t.phases[0].histograms[0].operation = HOSTILE.to_owned();
        t.series = series(&t.phases, 10, 1e6, 1);
        t.findings = vec![finding(Severity::Warning, HOSTILE, HOSTILE)];
        t.findings[0].hint = HOSTILE.to_owned();
        t.effective = Some(engine(HOSTILE, HOSTILE, Durability::Volatile));
    });
    (hostile, records)
}

/// One variant, no baseline, nothing sampled.
pub(crate) fn single() -> (Experiment, Vec<TrialRecord>) {
    let single = experiment("One store alone", &[texts("store", &["redb"])], &[("write", true)], 3);
    let records = trials(&single, 3, |t| t.phases = vec![phase("write", &[("time", 1e9 + f64::from(t.trial.block))])]);
    (single, records)
}

/// Nothing finished.
pub(crate) fn failed() -> (Experiment, Vec<TrialRecord>) {
    let plain = experiment("Nothing finished", &[texts("store", &["a", "b"])], &[("write", true)], 3);
    let failed = against(&plain, "store", "a");
    let records = trials(&failed, 3, |t| {
        t.ending.outcome = Outcome::Failed { code: Some(1) };
        t.ending.phase = Some("write".to_owned());
        t.phases = vec![not_reached("write")];
    });
    (failed, records)
}

/// Percentiles that are finite, infinite in most trials, and missing: `a`, `b`, `c`. The last two have footnotes.
pub(crate) fn marked() -> (Experiment, Vec<TrialRecord>) {
    let plain = experiment("Footnotes", &[texts("store", &["c", "b", "a"])], &[("load", true)], 6);
    let plan = against(&plain, "store", "a");
    let records = trials(&plan, 6, |t| {
        let mut load = phase("load", &[("time", 1e9), ("latency.p50", 9e6), ("latency.p99", 50e6)]);
        let p99 = match t.trial.variant {
            0 => Some(Why::TooFew { have: 300, need: 1_000 }),
            1 if t.trial.block < 4 => Some(Why::Infinite { failed: 20, of: 1_500 }),
            _ => None,
        };
        if let Some(why) = p99 {
            load.readings.get_mut("").unwrap().insert(key("latency.p99"), Reading::Missing(why));
        }
        t.phases = vec![load];
    });
    (plan, records)
}

/// Two stores without a baseline, two blocks, of which the second was interrupted.
pub(crate) fn undeclared() -> (Experiment, Vec<TrialRecord>) {
    let plain = experiment("No baseline", &[texts("store", &["a", "b"])], &[("write", true)], 2);
    let records = trials(&plain, 2, |t| {
        let mut now = 1.0;
        t.phases = vec![timed("write", &mut now, 1.0 + t.trial.variant as f64, 100, u64::from(t.trial.position))];
        t.phases[0].groups = Some(groups(1.0, 300, 3));
        if t.trial.position == 3 {
            t.ending.outcome = Outcome::Interrupted;
            t.phases = vec![];
        }
    });
    (plain, records)
}

/// Three factors and more comparisons than stand open: batches save one engine what the other never had to pay.
pub(crate) fn many() -> (Experiment, Vec<TrialRecord>) {
    let sizes = ["100", "300", "1_000", "3_000", "10_000", "30_000"];
    let factors = [texts("engine", &["memory", "lmdb"]), numbers("documents", &sizes), numbers("batch", &["1", "100"])];
    let plain = experiment("Batches and engines", &factors, &[("write", true)], 12);
    let many = against(&plain, "engine", "memory");
    let records = trials(&many, 12, |t| {
        let levels = &many.variants()[t.trial.variant].levels;
        let documents = many.factors()[1].levels[levels[1]].number.unwrap();
        let slower = if levels[0] == 1 && levels[2] == 0 { 2.1 } else { 1.0 };
        let mut now = 1.0;
        let seed = u64::from(t.trial.position) * 613;
        t.phases = vec![timed("write", &mut now, 1e-4 * documents * slower, documents as u64, seed)];
    });
    (many, records)
}

/// 1,000 trials with 1,000,000 samples and as many groups.
pub(crate) fn large() -> (Experiment, Vec<TrialRecord>) {
    let stores = ["lmdb", "redb", "sqlite", "fjall", "rocks", "bolt", "level", "sled", "mdbx"];
    let plain = experiment("A thousand trials", &[texts("store", &stores)], &[("write", true), ("read", true)], 100);
    let experiment = against(&plain, "store", "lmdb");
    let records = trials(&experiment, 100, |t| {
        let seed = u64::from(t.trial.position) * 31;
        let mut now = 1.0;
        t.phases = vec![
            timed("write", &mut now, 40.0 + 3.0 * t.trial.variant as f64, 100_000, seed),
            timed("read", &mut now, 9.0, 100_000, seed ^ 1),
        ];
        for phase in &mut t.phases {
            let every = crate::synthetic::every_figure(seed);
            phase.readings.get_mut("").unwrap().extend(every);
            phase.readings.get_mut("").unwrap().insert(
                crate::synthetic::key("time"),
                prony_model::reading::Reading::Measured(
                    1e9 * (4.0 + t.trial.variant as f64) * (1.0 + 0.02 * bell(seed)),
                ),
            );
        }
        t.phases[0].groups = Some(groups(40.0, 1_000, seed));
        t.phases[1].histograms = vec![histogram(LatencyKind::Service, 1.0, 500, seed)];
        t.series = series(&t.phases, 20, 1e8, seed);
        if t.trial.label == Label::A2 {
            t.findings = vec![finding(Severity::Note, "disturbed", "a little")];
        }
    });
    (experiment, records)
}
