//! Tests what the probe of Node reports of processes: their heap, collections, event loop, suspension, threads and children.
#![allow(clippy::print_stderr, reason = "a test that cannot go on must say where")]

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader};

use prony_model::units::{Bytes, Nanos};
use prony_runtime::{Because, GcFigures, Occasion, ProbeEvent, ProbeLine, Role, Roles, Runtime, SuspensionCommand};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::environment::{Environment, all_said_bye, call, ends, hellos, suspended_at};
use crate::node_calls::{LIB, environment};

#[test]
fn heap_is_reported_at_start_periodically_and_at_exit() {
    let main = "let keep = []; const i = setInterval(() => { keep.push(Buffer.alloc(1e5), Array.from({ length: 2e4 }, (_, i) => ({ i }))); if (keep.length > 50) clearInterval(i); }, 10);";
    let Some(environment) = environment(&[], main) else { return };
    environment.succeed(&["main.js"]);
    let heaps: Vec<_> = environment
        .events()
        .into_iter()
        .filter_map(|event| match event {
            ProbeEvent::Heap { why, heap, loop_delay_max, .. } => Some((why, heap, loop_delay_max)),
            _ => None,
        })
        .collect();
    assert_eq!((heaps[0].0, heaps.last().unwrap().0), (Occasion::Start, Occasion::Exit));
    let delayed = |(why, _, delay): &(Occasion, _, Option<Nanos>)| *why == Occasion::Sample && delay.is_some();
    assert_eq!(heaps.iter().any(delayed), environment.version >= (11, 10), "older ones do not report the loop's delay");
    let gc = heaps.last().unwrap().1.gc.measured().copied().unwrap();
    assert!(gc.count > 0 && gc.time.as_nanos() > 0 && gc.until.as_nanos() > 0, "{gc:?}");
    let figure = |i: usize| {
        let h = &heaps[i].1;
        (*h.used.measured().unwrap(), *h.array_buffers.measured().unwrap())
    };
    if environment.version < (12, 17) {
        return; // It does not report array buffers.
    }
    let ((used, buffers), (used_at_exit, buffers_at_exit)) = (figure(0), figure(heaps.len() - 1));
    assert!(used_at_exit > used && buffers_at_exit.as_bytes() >= buffers.as_bytes() + 2_500_000);
}

/// The probe's own listener came first: of 6,500 calls 1,500 were counted, and collections and heap were those from before the
/// program's listeners.
#[test]
fn work_in_listeners_of_the_exit_counts_too() {
    let calls =
        "const lib = require('./lib/lib'); const calls = (n) => { for (let i = 0; i < n; i += 1) lib.fixed(i + 1); };";
    let listen = "process.on('exit', () => { global.kept = Buffer.alloc(2e7); calls(5000); LAST });";
    let worker =
        "const { Worker, isMainThread } = require('worker_threads'); if (isMainThread) new Worker(__filename); else {";
    let mains = [
        format!("{listen} calls(1500);"),
        format!("{} calls(1500);", listen.replace("LAST", "process.exit(0)")),
        format!("{} calls(1500); process.exit();", listen.replace("LAST", "process.exitCode = 0")),
        format!("{} calls(1500);", listen.replace("LAST", "throw new Error('last')")),
        // It goes on.
        format!("process.emit('exit'); ({{ __proto__: process }}).emit('exit'); {listen} calls(1500);"),
        format!("{worker} {listen} calls(1500); }}"),
    ];
    for main in mains.map(|main| format!("{calls} {}", main.replace("LAST", ""))) {
        let Some(environment) = environment(&["lib.js#fixed"], &main) else { return };
        if main.contains("Worker") && environment.version < (12, 0) {
            continue; // The probe is not loaded into their workers.
        }
        let output = environment.run(&["main.js"]);
        assert_eq!(output.status.success(), !main.contains("throw"), "{main}: {output:?}");
        assert_eq!(environment.totals("lib.js#fixed").count(), 6_500, "{main}");
        let external = environment.events().into_iter().rev().find_map(|event| match event {
            ProbeEvent::Heap { why: Occasion::Exit, heap, .. } => heap.external.measured().copied(),
            _ => None,
        });
        let worker = main.contains("Worker");
        assert!(worker || external.is_some_and(|size| size.as_bytes() >= 20_000_000), "{main}: {external:?}");
    }
}

/// Collections as V8 itself prints them with `--trace-gc`: how many of them are full, and the time of each in ms.
fn traced(output: &str) -> (u64, Vec<f64>) {
    let lines: Vec<&str> = output.lines().filter(|line| line.contains(" ms: ") && line.contains(" MB, ")).collect();
    let pause = |line: &&str| {
        let before = line.split_once(" / ").and_then(|(before, _)| before.rsplit([' ', ',']).next());
        before.and_then(|pause| pause.parse::<f64>().ok()).expect("V8 prints pause and time of callbacks")
    };
    let full = lines.iter().filter(|line| line.contains("Mark-")).count();
    (full as u64, lines.iter().map(pause).collect())
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// A PerformanceObserver gets collections from the event loop: of a program without a turn it gets none, and of any
/// other not the last ones.
#[test]
fn collections_are_those_that_v8_traces_whatever_the_event_loop_does() {
    let work = "let keep = []; const work = (n) => { for (let i = 0; i < n; i += 1) { const x = { i, b: [i, i] }; \
                if (i % 10 === 0) keep.push(x); if (keep.length > 100000) keep = []; } };";
    let ends = [
        "work(3e6);",
        "work(2e6); setTimeout(() => { work(1e6); process.exit(0); }, 20);",
        "work(2e6); setTimeout(() => work(1e6), 150);",
    ];
    for end in ends {
        let Some(environment) = environment(&[], &format!("{work} {end}")) else { return };
        if environment.version < (8, 12) || environment.version.0 == 10 && environment.version < (10, 2) {
            eprintln!("SKIPPED: the native module takes Node 8.12 or 10.2");
            return;
        }
        let (full, pauses) = traced(&environment.succeed(&["--trace-gc", "main.js"]));
        let count = pauses.len() as u64;
        let gc = environment.events().into_iter().rev().find_map(|event| match event {
            ProbeEvent::Heap { why: Occasion::Exit, heap, .. } => heap.gc.measured().copied(),
            _ => None,
        });
        let gc = gc.unwrap_or_else(|| panic!("no collections: {:?}", environment.events()));
        let points: Vec<GcFigures> = environment
            .events()
            .into_iter()
            .flat_map(|event| if let ProbeEvent::Gc { points } = event { points } else { Vec::new() })
            .collect();
        // Up to version 14 Node collects while it starts, before anything can be loaded.
        let early = if environment.version.0 < 16 { 4 } else { 0 };
        assert!(gc.count <= count && count <= gc.count + early, "{gc:?} of {count}: {end}");
        assert!(
            count > 5 && points.len() as u64 == gc.count && gc.major == full,
            "{points:?}, {gc:?}, {full} full: {end}"
        );
        // On a busy machine the processor may be taken away between V8's own clock and the callback, but not at most of them.
        let begins = std::iter::once(Nanos::ZERO).chain(points.iter().map(|point| point.time));
        let reported = begins.zip(&points).map(|(before, point)| point.time.since(before).as_nanos() as f64 / 1e6);
        let (reported, traced) = (median(reported.collect()), median(pauses));
        assert!(early > 0 || reported > 0.9 * traced, "{reported} of {traced} ms: {end}");
    }
}

#[test]
fn collections_are_counted_without_the_native_module_too() {
    let main = "let x = []; for (let i = 0; i < 3e6; i += 1) x[i % 1000] = { i }; setTimeout(() => {}, 400);";
    let Some(environment) = environment(&[], main) else { return };
    if environment.version < (16, 10) {
        return; // Native modules cannot be switched off.
    }
    environment.succeed(&["--no-addons", "main.js"]);
    let heap = environment.events().into_iter().rev().find_map(|event| match event {
        ProbeEvent::Heap { why: Occasion::Exit, heap, .. } => Some(heap),
        _ => None,
    });
    assert!(heap.unwrap().gc.measured().is_some_and(|gc| gc.count > 2 && gc.time.as_nanos() > 0));
}

fn is_read(event: &ProbeEvent) -> bool {
    matches!(event, ProbeEvent::Heap { why: Occasion::Read, .. })
}

#[test]
fn suspended_node_program_collects_reads_and_resumes() {
    let main = "
        const lib = require('./lib/lib');
        (async () => {
            for (let i = 0; i < 2; i += 1) { let junk = Array.from({ length: 3e5 }, (_, i) => ({ i })); junk = null; await lib.slow(false); }
            console.log('after', typeof gc);
        })();
    ";
    let Some(environment) =
        Environment::new(Runtime::Node, &[suspended_at("lib.js#slow")], &[("lib/lib.js", LIB), ("main.js", main)])
    else {
        return;
    };
    let child = environment.start(&["main.js"]);
    let mut thread = environment.thread(0);
    thread.send(SuspensionCommand::Collect).unwrap();
    let collected = environment.wait(0, "collected", |line| match &line.event {
        ProbeEvent::Collected { heap, took } => Some((*heap.used.measured().unwrap(), *took)),
        _ => None,
    });
    let was = environment.wait(0, "suspended", |line| match &line.event {
        ProbeEvent::Suspended { heap, .. } => heap.used.measured().copied(),
        _ => None,
    });
    assert!(collected.0.as_bytes() + 2_000_000 < was.as_bytes(), "{was} -> {}", collected.0);
    thread.send(SuspensionCommand::Read).unwrap();
    environment.wait(0, "read", |line| is_read(&line.event).then_some(()));
    thread.send(SuspensionCommand::Go).unwrap();
    // Suspended once more, by a runner that ends without a last command.
    let thread = environment.send(1, SuspensionCommand::Read);
    environment.wait(1, "read again", |line| is_read(&line.event).then_some(()));
    drop(thread);
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "after undefined\n");
    let resumed: Vec<_> = environment
        .events()
        .into_iter()
        .filter_map(|event| match event {
            ProbeEvent::Resumed { because } => Some(because),
            _ => None,
        })
        .collect();
    assert_eq!(resumed, [Because::Go, Because::RunnerEnded]);
}

#[test]
fn suspended_node_program_can_be_stopped() {
    let main = "const lib = require('./lib/lib'); process.on('exit', () => console.log('exit handler')); lib.fixed(1); console.log('went on');";
    let Some(environment) =
        Environment::new(Runtime::Node, &[suspended_at("lib.js#fixed")], &[("lib/lib.js", LIB), ("main.js", main)])
    else {
        return;
    };
    let child = environment.start(&["main.js"]);
    let _thread = environment.send(0, SuspensionCommand::Stop);
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 0));
    assert!(all_said_bye(&environment.lines()));
}

/// It had an instant of its own, after that of the end, and was never the heap at the end of the call.
#[test]
fn heap_that_is_read_at_the_end_of_a_call_has_the_instant_of_the_end() {
    let lib = "exports.f = () => { const began = Date.now(); while (Date.now() - began < 150); };";
    let files = [("lib.js", lib), ("main.js", "require('./lib').f(); console.log('done');")];
    let Some(environment) = Environment::new(Runtime::Node, &[call("lib.js#f")], &files) else { return };
    assert_eq!(environment.succeed(&["main.js"]), "done");
    let lines = environment.lines();
    let at = |is: fn(&ProbeEvent) -> bool| lines.iter().find(|line| is(&line.event)).map(|line| line.at);
    let end = at(|event| matches!(event, ProbeEvent::End { .. }));
    assert_eq!(at(|event| matches!(event, ProbeEvent::Heap { why: Occasion::Call, .. })), end);
    assert!(end.is_some());
}

/// What the loop did between a reset of Node's monitor and the monitor's next tick was in no report, so that a fifth of all delays
/// were lost; and a delay was counted where it was reported.
#[test]
fn delay_of_the_event_loop_is_reported_with_the_time_that_it_is_from_wherever_it_begins() {
    let main = "
        const blocks = [];
        const block = (n) => {
            const at = process.hrtime.bigint();
            let until; do until = process.hrtime.bigint(); while (until - at < 150000000n);
            blocks.push([Number(at), Number(until)]);
            setTimeout(n === 0 ? () => console.log(JSON.stringify(blocks)) : block, n === 0 ? 400 : 3 * n, n - 1);
        };
        setTimeout(block, 101, 12);
    ";
    let Some(environment) = Environment::new(Runtime::Node, &[], &[("main.js", main)]) else { return };
    if environment.version < (11, 10) {
        return; // It does not report delays.
    }
    let blocks: Vec<(u64, u64)> = serde_json::from_str(&environment.succeed(&["main.js"])).unwrap();
    let lines = environment.lines();
    let report = |line: &ProbeLine| match &line.event {
        ProbeEvent::Heap { loop_delay_max, loop_delay_since, .. } => {
            Some(((*loop_delay_since)?, line.at, (*loop_delay_max)?))
        }
        _ => None,
    };
    let reports: Vec<_> = lines.iter().filter_map(report).collect();
    assert!(reports.windows(3).all(|three| three[2].0 == three[0].1), "since the sample before the last: {reports:?}");
    assert_eq!(blocks.len(), 13);
    for (from, to) in blocks.into_iter().map(|(from, to)| (Nanos::from_nanos(from), Nanos::from_nanos(to))) {
        let of = |(since, at, delay): &(Nanos, Nanos, Nanos)| {
            *since <= from && to <= *at && *delay >= Nanos::from_millis(130)
        };
        assert!(reports.iter().any(of), "{from} to {to}: {reports:?}");
    }
}

#[test]
fn workers_and_children_are_probed_whatever_their_environment() {
    let main = "
        const { fork } = require('child_process');
        const { Worker } = require('worker_threads');
        require('./lib/lib').fixed(1);
        if (process.argv[2] !== 'child') {
            fork(__filename, ['child'], { env: {} }).on('exit', () => {
                new Worker('./main.js', { argv: ['child'] }).on('exit', () => console.log('done'));
            });
        }
    ";
    let Some(environment) = environment(&["lib.js#fixed"], main) else { return };
    if environment.version.0 < 12 {
        return; // It has no worker threads.
    }
    assert_eq!(environment.succeed(&["main.js"]), "done");
    let lines = environment.lines();
    let mut roles = Roles::default();
    let roles: Vec<_> = lines
        .iter()
        .filter_map(|line| match &line.event {
            ProbeEvent::Hello(_) => Some(roles.of(line.source)),
            _ => None,
        })
        .collect();
    assert_eq!(roles, [Role::Main, Role::Child, Role::Worker]);
    assert_eq!(ends(&environment.events(), "lib.js#fixed").len(), 3);
    assert!(all_said_bye(&lines));
}

#[test]
fn children_that_are_waited_for_and_workers_are_probed_though_they_have_environments_of_their_own() {
    let main = "
        const { spawnSync, execSync, execFileSync } = require('child_process');
        const { Worker, SHARE_ENV } = require('worker_threads');
        require('./lib/lib').fixed(1);
        if (process.argv[2] !== 'child') {
            const { PATH } = process.env;
            const node = JSON.stringify(process.execPath);
            spawnSync(process.execPath, [__filename, 'child'], { env: { PATH } });
            execFileSync(process.execPath, [__filename, 'child'], { env: { PATH, NODE_OPTIONS: '--no-deprecation' } });
            execSync(`${node} ${JSON.stringify(__filename)} child`, { env: { PATH } });
            spawnSync(process.execPath, [__filename, 'child']);
            const argv = ['child'];
            const worker = new Worker('./main.js', { argv, env: { PATH } });
            new Worker('./main.js', { argv, env: SHARE_ENV }).on('exit', () => console.log('done', worker instanceof Worker));
        }
    ";
    let Some(environment) = environment(&["lib.js#fixed"], main) else { return };
    if environment.version.0 < 14 {
        return; // It has no `SHARE_ENV` for workers, or no workers.
    }
    assert_eq!(environment.succeed(&["main.js"]), "done true");
    assert_eq!(hellos(&environment.lines()).len(), 7);
    assert_eq!(ends(&environment.events(), "lib.js#fixed").len(), 7);
}

/// Node gives a child inherited properties of `env` too, and a worker none.
#[test]
fn children_that_are_waited_for_have_the_inherited_part_of_their_environment() {
    let main = "
        const { spawnSync, execSync, execFileSync } = require('child_process');
        const env = Object.create({ INHERITED: 'i', NODE_OPTIONS: '--no-deprecation' }, { OWN: { value: 'o', enumerable: true } });
        const text = 'process.env.INHERITED + process.env.OWN + process.noDeprecation';
        const { execPath } = process;
        const outputs = [
            spawnSync(execPath, ['-p', text], { env }).stdout,
            execFileSync(execPath, ['-p', text], { env }),
            execSync(`${JSON.stringify(execPath)} -p '${text}'`, { env }),
        ];
        console.log(outputs.map((output) => String(output).trim()).join(' '));
    ";
    let Some(environment) = environment(&[], main) else { return };
    assert_eq!(environment.succeed(&["main.js"]), ["iotrue"; 3].join(" "));
    assert_eq!(hellos(&environment.lines()).len(), 4);
}

#[test]
fn user_node_options_stay_in_force() {
    let files = [
        ("own.js", "global.own = 1;"),
        ("main.js", "console.log(own, require('v8').getHeapStatistics().heap_size_limit < 5e8);"),
    ];
    let env = BTreeMap::from([("NODE_OPTIONS".into(), "--require ./own.js --max-old-space-size=64".into())]);
    let Some(environment) = Environment::with(Runtime::Node, &[], &files, env, 10) else { return };
    assert_eq!(environment.succeed(&["main.js"]), "1 true");
    assert_eq!(hellos(&environment.lines()).len(), 1);
}

#[test]
fn an_abort_at_the_heap_limit_reports_the_heap() {
    let main = "const keep = []; for (;;) keep.push(Array.from({ length: 1e4 }, (_, i) => ({ i })));";
    let Some(environment) = environment(&[], main) else { return };
    let output = environment.run(&["--max-old-space-size=40", "main.js"]);
    assert!(!output.status.success());
    let heap_aborts = environment.prepared.heap_aborts().unwrap();
    if environment.version < (12, 17) {
        return; // It writes no report.
    }
    let [abort] = heap_aborts.as_slice() else { panic!("{heap_aborts:?}") };
    let ProbeEvent::HeapAbort { heap, .. } = &abort.event else { panic!("{abort:?}") };
    let plausible = |bytes: &Bytes| (20_000_000..120_000_000).contains(&bytes.as_bytes());
    assert!(heap.total.measured().is_some_and(plausible), "{:?}", heap.total);
    // Node 14 may abort with a heap that is not counted again yet.
    assert!(heap.used.measured().map_or(environment.version.0 < 16, plausible), "{:?}", heap.used);
    let began = environment.lines()[0].at;
    assert!(abort.at > began && abort.source == environment.lines()[0].source);
}

#[test]
fn a_program_runs_on_where_nobody_listens() {
    let Some(environment) = environment(&["lib.js#fixed"], "console.log(require('./lib/lib').fixed(1));") else {
        return;
    };
    std::fs::remove_file(environment.path("marks")).unwrap();
    assert_eq!(environment.succeed(&["main.js"]), "2");
    assert!(!environment.path("marks").exists());
}

#[test]
fn a_fifo_serves_as_the_channel_too() {
    let main = "const lib = require('./lib/lib'); for (let i = 0; i < 900; i += 1) lib.fixed(1); console.log('done');";
    let Some(environment) = environment(&["lib.js#fixed"], main) else { return };
    let path = environment.path("marks");
    std::fs::remove_file(&path).unwrap();
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let fifo = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    // Far more than a pipe holds: the program waits for a reader that is slow.
    let reader = std::thread::spawn(move || {
        let lines = BufReader::new(fifo).lines().map(Result::unwrap);
        lines.take_while(|line| !line.contains("\"bye\"")).filter(|line| line.contains("\"end\"")).count()
    });
    assert_eq!(environment.succeed(&["main.js"]), "done");
    assert_eq!(reader.join().unwrap(), 900);
}
