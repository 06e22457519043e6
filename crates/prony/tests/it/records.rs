//! Test support: parts of a record with every field filled in; `results_store` writes them as JSON and to the database
//! and reads them back.

use std::collections::BTreeMap;
use std::sync::Arc;

use prony_model::metric::{Metric, MetricKey};
use prony_model::program::{CopyOf, Runtime};
use prony_model::reading::{Reading, Why};
use prony_model::record::effective::{
    Call, CopiedData, InForce, MemoryRead, Output, PowerCut, ProcessCrash, ProgramStore, Promise, Replica, ReplicaEnd,
    Replicas, Setting, Source, named,
};
use prony_model::record::host::{Disk, Facts, Processor};
use prony_model::record::machine::CpuTicks;
use prony_model::record::probe::{Because, HeapAbort, ProbeCost, Role, SuspensionReport, ThreadReport};
use prony_model::record::{
    Captured, Change, Conditions, DiskUsage, Effective, EffectiveProgram, EffectiveStore, Machine, MemoryEvidence,
    MetricKeyText, Moment, Mount, Pressure, ProbeReport, Quiesced, ReferenceTimes, SettleResult, Settled, Spent,
    Status,
};
use prony_model::spec::{Durability, Sign};
use prony_model::units::{Bytes, Nanos};

fn ms(n: u64) -> Reading<Nanos> {
    Reading::Measured(Nanos::from_millis(n))
}

fn mib(n: u64) -> Reading<Bytes> {
    Reading::Measured(Bytes::from_mib(n))
}

/// With every field set to something of its own.
pub(crate) fn conditions() -> Conditions {
    let settled = settle_result();
    Conditions {
        session: 3,
        machine: Reading::Measured(machine()),
        memory: Some(MemoryEvidence {
            limit: Some(Bytes::from_mib(64)),
            peak: mib(63),
            oom_kills: Reading::Measured(1),
            limit_reached: Reading::Measured(true),
            forks_refused: Reading::Measured(2),
            throttled: Reading::Measured(4),
            host_oom_kills: Reading::Missing(Why::NotSupported("no `oom_kill`".into())),
        }),
        settled: BTreeMap::from([("settle".into(), Settled { quiet: Nanos::from_secs(5), result: Some(settled) })]),
        executed_after: Some(Nanos::from_micros(700)),
        killed_at_the_end: 3,
        probe: Some(probe()),
        spent: Some(Spent { time: Nanos::from_secs(9), once: Nanos::from_secs(2) }),
    }
}

fn machine() -> Machine {
    let moment = |at| Moment {
        at: Nanos::from_secs(at),
        load: Reading::Measured(0.5),
        pressure: Pressure { cpu: ms(3), io: ms(4), memory: Reading::Missing(Why::NotReached) },
        cpu: Reading::Measured(CpuTicks { all: 1000 * at, steal: 10 * at, idle: 500 * at }),
        swapped: Reading::Measured(5),
        throttled_thermal: Reading::Measured(1),
        available: mib(900),
        dirty: mib(2),
        writeback: mib(1),
        megahertz: Reading::Measured(2400.5),
    };
    let reference = |n| ReferenceTimes { cpu: Nanos::from_millis(n), memory: Nanos::from_millis(n + 1), fsync: ms(7) };
    let quiesced =
        Quiesced { quiet: true, waited: Nanos::from_millis(40), unwritten: mib(3), synced: Reading::Measured(()) };
    let machine = Machine::between(quiesced, (moment(10), reference(20)), (moment(20), reference(21)));
    assert_ne!(machine.change, Change::default());
    machine
}

fn settle_result() -> SettleResult {
    SettleResult {
        settled: true,
        time: ms(900),
        signs: Sign::ALL.map(|sign| (sign, ms(800))).into(),
        roles: BTreeMap::from([("worker".into(), ms(700))]),
        watched: Nanos::from_secs(6),
        step: Nanos::from_millis(50),
        cpu: ms(30),
        written: mib(1),
        blind: vec!["bytes written: not permitted".into()],
    }
}

fn probe() -> ProbeReport {
    let thread = ThreadReport {
        pid: 7,
        thread: 1,
        role: Role::Worker,
        parent: 6,
        runtime: "node".into(),
        version: "20.1.0".into(),
        script: "a.js".into(),
        began: Nanos::from_secs(1),
        ended: Nanos::from_secs(2),
        said_bye: true,
        samples: 12,
        last_heap_used: Some(Bytes::from_mib(5)),
        heap_limit: Some(Bytes::from_mib(50)),
        probe: Some(ProbeCost {
            time: Nanos::from_micros(90),
            heap: Some(Bytes::from_kib(300)),
            blocks: Some(4),
            lines: 30,
            lost: 1,
        }),
    };
    let suspension = SuspensionReport {
        phase: "load".into(),
        pid: 7,
        thread: 0,
        from: Nanos::from_millis(1500),
        suspended: Some(Nanos::from_millis(60)),
        late: Some(Nanos::from_millis(2)),
        collected: Some(Nanos::from_millis(9)),
        settled: Some(settle_result()),
        passed: true,
        went_on: Some(Because::Unanswered),
        fault: Some("the runner did not answer".into()),
    };
    let abort = HeapAbort {
        pid: 8,
        thread: 0,
        at: Nanos::from_millis(1900),
        what: "heap out of memory".into(),
        used: mib(40),
        total: mib(48),
        limit: mib(50),
        external: Reading::Missing(Why::Failed("cut short".into())),
    };
    ProbeReport {
        threads: vec![thread],
        cost: Nanos::from_micros(90),
        lines_lost: 1,
        samples_dropped: 2,
        suspensions: vec![suspension],
        suspended_inside: BTreeMap::from([("whole".into(), "load".into())]),
        unread: BTreeMap::from([("load".into(), Nanos::from_millis(300))]),
        heap_aborts: vec![abort],
    }
}

/// The machine of invented runs.
pub(crate) fn host() -> Facts {
    let text = |text: &str| Reading::Measured(text.to_owned());
    let mount = Mount { kind: "ext4".into(), ..Mount::default() };
    Facts {
        kernel: text("Linux 6.1"),
        architecture: "x86_64".into(),
        processor: Processor { model: text("Invented 3000"), logical: Reading::Measured(8), ..Processor::default() },
        memory: Reading::Measured(Bytes::from_bytes(16_000_000_000)),
        file_system: Reading::Measured(mount),
        disks: vec![Disk { name: "sda".into(), ..Disk::default() }],
        ..Facts::default()
    }
}

/// A store with every field set.
pub(crate) fn store() -> Effective {
    let class = Durability::Relaxed;
    let settings = || {
        named([
            ("map_size", Setting::from(u64::MAX)),
            ("append", Setting::from(true)),
            ("cache", Setting::from(-2000_i64)),
            ("mode", Setting::from("wal")),
            ("flags", Setting::from(vec!["a", "b"])),
        ])
    };
    Effective::Store(Arc::new(EffectiveStore {
        engine: "lmdb".into(),
        version: "0.9.33".into(),
        library: "heed 0.22".into(),
        durability: class,
        promise: Some(Promise {
            class,
            process_crash: ProcessCrash::Keeps,
            power_cut: PowerCut::Tail,
            integrity: true,
            settings: "MDB_NOSYNC".into(),
            default: false,
        }),
        settings: settings(),
        in_force: Some(InForce { durability: class, read_back: settings(), as_set: settings() }),
        idiom: "one environment".into(),
        services: Vec::new(),
    }))
}

fn output() -> Output {
    let wrote = |first: &str| Captured { first: first.into(), last: "end".into(), omitted: 4, total: 20, too_long: 1 };
    Output { stdout: wrote("out"), stderr: wrote("err") }
}

fn replica() -> Replica {
    Replica {
        instance: "replica.1".into(),
        pid: Some(9),
        command: vec!["node".into()],
        env: BTreeMap::from([("N".into(), "1".into())]),
        end: ReplicaEnd::CutOff,
        why: Some("it could not be executed".into()),
        status: Some(Status::Signalled(9)),
        released: Nanos::from_millis(5),
        ended: Some(Nanos::from_millis(90)),
        left_behind: Some(1),
        heard_nothing: true,
        digest: Some("reported:1f".into()),
        resolution: BTreeMap::from([(MetricKeyText(MetricKey::amount(Metric::Time)), 5e7)]),
        marks: 2,
        output: output(),
    }
}

fn copied_data() -> CopiedData {
    CopiedData { directory: "/home/snapshot".into(), state: "00ff".into(), files: 2, bytes: Bytes::from_bytes(7) }
}

/// A program with every field set.
pub(crate) fn program() -> Effective {
    let texts = |text: &str| vec![text.to_owned()];
    Effective::Program(Arc::new(EffectiveProgram {
        program: "site".into(),
        command: texts("node"),
        shell: true,
        directory: "work".into(),
        copy: CopyOf::Trial,
        changes: texts("`a.js`: replaced 1 time"),
        remarks: texts("not part of it: uncommitted changes of 1 tracked file"),
        files: BTreeMap::from([("node".into(), "00ff".into())]),
        source: Some(Source { directory: "/home/site".into(), state: Some("00ff".into()) }),
        data: Some(copied_data()),
        env: BTreeMap::from([("NODE_ENV".into(), "production".into())]),
        inherit: texts("LANG"),
        inherited: BTreeMap::from([("LANG".to_owned(), "0badcafe".to_owned())]),
        runtime: Some(Runtime::Node),
        pty: true,
        listens: Some(true),
        executable: Some("/usr/bin/node".into()),
        status: Some(Status::Exited(1)),
        output: output(),
        left_behind: 2,
        strange_marks: texts("x begin"),
        strange_marks_in_all: 4,
        heard_nothing: texts("load"),
        read_by_several: texts("load"),
        unordered: BTreeMap::from([("load".into(), true)]),
        resolution: BTreeMap::from([(
            "load".into(),
            BTreeMap::from([(MetricKeyText(MetricKey::amount(Metric::Time)), 500.0)]),
        )]),
        repeated: BTreeMap::from([("load".into(), 2)]),
        calls: BTreeMap::from([(
            "load".into(),
            Call {
                call: "a.js#f".into(),
                file: Some("/home/site/a.js".into()),
                never: Some("the function was never called".into()),
                missed: Some("it had ended before".into()),
                deferred: Some("it returned a generator".into()),
            },
        )]),
        store: Some(ProgramStore {
            path: "data".into(),
            of_the_trial: true,
            at_begin: Some(DiskUsage { length: Bytes::from_kib(3), blocks: Bytes::from_kib(4), files: 2 }),
            found: true,
            reading: Nanos::from_millis(3),
            settling: Nanos::from_millis(1),
        }),
        services: Vec::new(),
        replicas: Some(Replicas {
            count: 1,
            phase: "queries".into(),
            released_within: Some(Nanos::from_micros(40)),
            memory_read: MemoryRead { times: 3, took: Nanos::from_millis(2) },
            copies: vec![replica()],
        }),
    }))
}
