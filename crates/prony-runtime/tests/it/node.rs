//! Tests the probe of Node with the Node of this machine.
#![allow(clippy::print_stderr, reason = "a test that cannot go on must say where")]

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader};

use prony_model::units::{Bytes, Nanos};
use prony_runtime::{Because, GcFigures, Occasion, ProbeEvent, ProbeLine, Role, Roles, Runtime, SuspensionCommand};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::environment::{Environment, all_said_bye, call, ends, found, hellos, suspended_at};

const LIB: &str = "
    Object.defineProperty(exports, '__esModule', { value: true });
    exports.default = (n) => n < 2 ? n : exports.default(n - 1) + exports.default(n - 2);
    exports.slow = async (fail) => { await new Promise((r) => setTimeout(r, 5)); if (fail) throw new Error('no'); return 5; };
    function fixed(x) { if (x === 0) throw new RangeError('zero'); return x + 1; }
    Object.defineProperty(exports, 'fixed', { enumerable: true, get() { return fixed; } });
    exports.Store = class Store { constructor(n) { this.n = n; } put(a) { return this.n + a; } };
";

fn environment(calls: &[&str], main: &str) -> Option<Environment> {
    let calls: Vec<_> = calls.iter().map(|text| call(text)).collect();
    Environment::new(Runtime::Node, &calls, &[("lib/lib.js", LIB), ("main.js", main)])
}

#[test]
fn exports_of_common_js_are_timed_by_whatever_way_they_are_exported() {
    let calls =
        ["lib.js#default", "lib/lib.js#fixed", "./lib/lib.js#Store.prototype.put", "lib.js#Store", "lib.js#none"];
    let main = "
        const lib = require('./lib/lib');
        const { fixed } = lib;
        let zero = ''; try { fixed(0); } catch (e) { zero = e.name; }
        const store = new lib.Store(4);
        class Sub extends lib.Store { constructor() { super(6); } }
        console.log([lib.default(5), fixed(1), zero, store.put(1), store instanceof lib.Store, new Sub().put(0), fixed.name].join(' '));
    ";
    let Some(environment) = environment(&calls, main) else { return };
    assert_eq!(environment.succeed(&["main.js"]), "5 2 RangeError 5 true 6 fixed");
    let events = environment.events();
    assert_eq!(environment.totals("lib.js#default").count(), 15, "of fib(5)");
    assert_eq!(ends(&events, "lib.js#default").last(), Some(&(0, true)), "the outermost ends last");
    assert_eq!(ends(&events, "lib/lib.js#fixed"), [(0, false), (0, true)]);
    assert_eq!(ends(&events, "./lib/lib.js#Store.prototype.put").len(), 2);
    assert_eq!(ends(&events, "lib.js#Store").len(), 2);
    let missed = events.iter().filter(|event| matches!(event, ProbeEvent::NotFound { call, why, .. } if call == "lib.js#none" && why == "no such export"));
    assert_eq!(missed.count(), 1);
    assert!(all_said_bye(&environment.lines()));
}

#[test]
fn a_whole_path_is_one_file_and_the_end_of_one_is_all_that_end_so() {
    let source = "exports.f = (n) => n;";
    let files = [
        ("site.js", source),
        ("plugins/a/site.js", source),
        ("node_modules/b/site.js", source),
        ("main.js", "for (const file of ['./site', './plugins/a/site', 'b/site']) require(file).f(1);"),
    ];
    let calls = ["site.js#f", "./site.js#f", "./plugins/a/site#f", "b/site.js#f", "./none.js#f"];
    let Some(environment) = Environment::new(Runtime::Node, &calls.map(call), &files) else { return };
    environment.succeed(&["main.js"]);
    let events = environment.events();
    assert_eq!(calls.map(|call| ends(&events, call).len()), [3, 1, 1, 1, 0]);
    assert_eq!(found(&events, calls[0]), ["site.js", "plugins/a/site.js", "node_modules/b/site.js"]);
    assert_eq!(found(&events, calls[1]), ["site.js"]);
    assert_eq!(found(&events, calls[2]), ["plugins/a/site.js"]);
    assert_eq!(found(&events, calls[3]), ["node_modules/b/site.js"]);
}

#[test]
fn a_file_behind_links_has_one_name() {
    let files = [
        ("packages/x/site.js", "exports.f = (n) => n;"),
        ("main.js", "for (const at of ['plug/site', './site', './packages/x/site']) require(at).f(1);"),
    ];
    let calls = ["plug/site.js#f", "./site.js#f", "site.js#f"];
    let Some(environment) = Environment::new(Runtime::Node, &calls.map(call), &files) else { return };
    let app = environment.path("app");
    std::fs::create_dir(app.join("node_modules")).unwrap();
    std::os::unix::fs::symlink("../packages/x", app.join("node_modules/plug")).unwrap();
    std::os::unix::fs::symlink("packages/x/site.js", app.join("site.js")).unwrap();
    for (arguments, times) in [(&["main.js"][..], 3), (&["--preserve-symlinks", "main.js"], 3)] {
        std::fs::write(environment.path("marks"), "").unwrap();
        assert!(environment.run(arguments).status.success());
        let events = environment.events();
        for call in calls {
            let mut files = found(&events, call);
            files.dedup();
            assert_eq!((ends(&events, call).len(), files), (times, vec!["packages/x/site.js".to_owned()]), "{call}");
        }
    }
}

#[test]
fn a_module_that_is_a_function_is_its_default() {
    let files = [
        (
            "node_modules/fib/index.js",
            "module.exports = function fib(n) { return n; }; module.exports.default = module.exports; module.exports.x = 1;",
        ),
        ("main.js", "const fib = require('fib'); console.log(fib(1), fib.default(2), fib.x, fib.length);"),
    ];
    let Some(environment) = Environment::new(Runtime::Node, &[call("fib#default")], &files) else { return };
    assert_eq!(environment.succeed(&["main.js"]), "1 2 1 1");
    assert_eq!(environment.totals("fib#default").count(), 2);
}

/// Whether a call of each of these returned a generator or an iterator, as the probe reports it once.
fn deferred(environment: &Environment) -> Vec<(String, String)> {
    let event = |event| match event {
        ProbeEvent::Deferred { call, returned } => Some((call, returned)),
        _ => None,
    };
    environment.events().into_iter().filter_map(event).collect()
}

/// To make a generator takes no time, whatever its values take.
#[test]
fn what_does_its_work_after_the_call_is_reported_once() {
    let lib = "
        exports.items = function* () { yield 1; };
        exports.pages = async function* () { yield 1; };
        exports.later = async () => exports.items();
        exports.own = () => ({ next: () => ({ done: true }), [Symbol.iterator]() { return this; } });
        exports.list = () => [1, 2];
        exports.values = () => new Map([[1, 7]]).values();
        exports.strict = () => new Proxy({}, { get(_, key) { if (key === 'next') throw new Error(key); } });
    ";
    let main = "
        const lib = require('./lib/lib');
        const made = [...lib.items(), ...lib.items(), ...lib.own(), ...lib.list(), ...lib.values()];
        (async () => { for await (const page of lib.pages()) made.push(page);
                       made.push(...await lib.later(), typeof lib.strict()); console.log(made.join(' ')); })();
    ";
    let calls =
        ["items", "pages", "later", "own", "list", "values", "strict"].map(|name| call(&format!("lib.js#{name}")));
    let files = [("lib/lib.js", lib), ("main.js", main)];
    let Some(environment) = Environment::new(Runtime::Node, &calls, &files) else { return };
    if environment.version.0 < 10 {
        return;
    }
    assert_eq!(environment.succeed(&["main.js"]), "1 1 1 2 7 1 1 object");
    let of = |call: &str, returned: &str| (format!("lib.js#{call}"), returned.to_owned());
    let expected = ["items", "own", "pages", "later"];
    let returned = ["a generator", "an iterator", "a generator", "a generator"];
    assert_eq!(deferred(&environment), expected.iter().zip(returned).map(|(c, r)| of(c, r)).collect::<Vec<_>>());
}

#[test]
fn a_promise_ends_when_it_settles_and_stays_what_it_was() {
    let main = "
        const lib = require('./lib/lib');
        (async () => {
            console.log([await lib.slow(false), await lib.slow(true).catch((e) => e.message)].join(' '));
            lib.slow(true); // nobody catches this one
        })();
    ";
    let Some(environment) = environment(&["lib.js#slow"], main) else { return };
    let output = environment.run(&["main.js"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "5 no\n");
    // Node 14 only warns of it.
    assert_eq!(output.status.success(), environment.version.0 < 15, "a rejection that nobody catches ends the program");
    assert_eq!(ends(&environment.events(), "lib.js#slow"), [(0, true), (0, false), (0, false)]);
    let totals = environment.totals("lib.js#slow");
    assert!(totals.min().as_nanos() > 4_000_000, "the wait belongs to the call: {}", totals.min());
}

#[test]
fn a_lazy_thenable_is_neither_started_nor_replaced() {
    let files = [
        (
            "lib.js",
            "exports.query = () => ({ ran: 0, then(f) { this.ran += 1; return Promise.resolve(this.ran).then(f); } });",
        ),
        (
            "main.js",
            "const q = require('./lib').query(); const was = q.ran; (async () => console.log(was, await q, q.ran))();",
        ),
    ];
    let Some(environment) = Environment::new(Runtime::Node, &[call("lib.js#query")], &files) else { return };
    assert_eq!(environment.succeed(&["main.js"]), "0 1 1");
    assert_eq!(ends(&environment.events(), "lib.js#query"), [(0, true)]);
}

#[test]
fn es_modules_are_timed_where_node_can_be_hooked() {
    let files = [
        (
            "work.mjs",
            "export const work = async (x) => { await null; return x * 2; }; export default function () { return 7; } export let n = 1; export const bump = () => { n += 1; };",
        ),
        ("old.cjs", "exports.work = (x) => x + 1;"),
        (
            "main.mjs",
            "import seven, * as all from './work.mjs'; import old from './old.cjs'; all.bump(); console.log(await all.work(4), seven(), all.n, old.work(1), Object.keys(all).join());",
        ),
    ];
    let calls = ["work.mjs#work", "work.mjs#default", "old.cjs#work"].map(call);
    let Some(environment) = Environment::new(Runtime::Node, &calls, &files) else { return };
    if environment.version < (14, 8) {
        return;
    }
    assert_eq!(environment.succeed(&["main.mjs"]), "8 7 2 2 bump,default,n,work");
    let events = environment.events();
    let ProbeEvent::Hello(hello) = &events[0] else { panic!("{:?}", events[0]) };
    let can = environment.version >= (20, 6) || environment.version.0 == 18 && environment.version.1 >= 19;
    let unsupported: Vec<_> = hello.unsupported.iter().map(|u| u.call.as_str()).collect();
    assert_eq!(unsupported, if can { &[][..] } else { &["work.mjs#work", "work.mjs#default"] });
    for esm in ["work.mjs#work", "work.mjs#default"] {
        assert_eq!(ends(&events, esm), if can { &[(0, true)][..] } else { &[] }, "{esm}");
    }
    assert_eq!(ends(&events, "old.cjs#work"), [(0, true)]);
    assert_eq!(hellos(&environment.lines()).len(), 1, "the thread that hooks modules is none of the program's");
}

#[test]
fn frequent_function_is_counted_without_single_calls() {
    let main = "const lib = require('./lib/lib'); let n = 0; for (let i = 1; i <= 200000; i += 1) n = lib.fixed(n); console.log(n);";
    let main = main.replace("lib.fixed(n)", "n + lib.fixed(1) - 1");
    let Some(environment) = environment(&["lib.js#fixed"], &main) else { return };
    assert_eq!(environment.succeed(&["main.js"]), "200000");
    let totals = environment.totals("lib.js#fixed");
    assert_eq!((totals.count(), totals.failed, totals.aggregated), (200_000, 0, 199_000));
    let ([tallied], buckets) = (&totals.counted[..], totals.buckets()) else { panic!("{:?}", totals.counted) };
    assert_eq!(buckets.iter().map(|(.., count)| count).sum::<u64>(), 199_000);
    let (from, to) = (buckets.iter().map(|(from, ..)| *from).min(), buckets.iter().map(|(_, to, _)| *to).max());
    assert!(from.unwrap() <= tallied.min && tallied.max < to.unwrap());
    assert!(environment.lines().len() < 2_000 + 100);
    let cost = environment.events().into_iter().rev().find_map(|event| match event {
        ProbeEvent::Cost { time, lost, .. } => Some((time, lost)),
        _ => None,
    });
    assert!(cost.is_some_and(|(time, lost)| time.as_nanos() > 0 && lost == 0));
}

/// The ends that are reported singly have counted calls among `open`, so that only the counts themselves can lower it; and only
/// the probe knows whether counted calls ran at once.
#[test]
fn counted_calls_report_how_many_are_running_and_whether_they_overlap() {
    let lib = "
        exports.one = async () => new Promise((done) => setTimeout(done, 2));
        exports.pool = async () => new Promise((done) => setTimeout(done, 2));
        exports.never = (n) => n < 4 ? n : new Promise(() => {});
        exports.nested = (n) => n && exports.nested(n - 1);
    ";
    let main = "
        const lib = require('./lib');
        const several = async (f) => { for (let i = 0; i < 10; i += 1) await f(); };
        (async () => {
            await several(lib.one);
            await Promise.all([several(lib.pool), several(lib.pool)]);
            for (let i = 0; i < 5; i += 1) lib.never(i);
            lib.nested(3);
            setTimeout(() => console.log('done'), 500);
        })();
    ";
    let calls = ["one", "pool", "never", "nested"].map(|name| call(&format!("lib.js#{name}")));
    let files = [("lib.js", lib), ("main.js", main)];
    let Some(environment) = Environment::with(Runtime::Node, &calls, &files, BTreeMap::new(), 2) else { return };
    assert_eq!(environment.succeed(&["main.js"]), "done");
    let counted = |name: &str| environment.counted(&format!("lib.js#{name}"));
    let last = |name: &str| counted(name).last().map(|(_, last)| (last.count, last.open, last.overlapped));
    assert_eq!(last("one"), Some((8, 0, false)));
    assert_eq!(last("pool"), Some((18, 0, true)));
    assert_eq!(last("never"), Some((2, 1, false)), "the probe reports it at the end of the program");
    assert_eq!(last("nested"), Some((2, 0, true)));
    let (ended, bye) = (counted("pool").last().unwrap().0, environment.lines().last().unwrap().at);
    assert!(bye.since(ended) >= Nanos::from_millis(400), "the end of the last of several is reported at once");
}

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

/// 20,000 calls of which 1,001 had been reported were 1,001 where prony then ended the program, and lasted as long as the
/// program did where it ended by itself.
#[test]
fn counted_calls_are_reported_before_a_stop_with_the_instant_of_the_last() {
    let lib = "exports.f = (n) => n; exports.g = (n) => n;";
    let main = "
        const lib = require('./lib');
        for (let i = 0; i < 50; i += 1) lib.f(i);
        const began = Date.now(); while (Date.now() - began < 300);
        lib.g(1);
        console.log('went on');
    ";
    let calls = [call("lib.js#f"), suspended_at("lib.js#g")];
    let files = [("lib.js", lib), ("main.js", main)];
    let Some(environment) = Environment::with(Runtime::Node, &calls, &files, BTreeMap::new(), 2) else { return };
    let child = environment.start(&["main.js"]);
    let _thread = environment.send(0, SuspensionCommand::Stop);
    assert_eq!(child.wait_with_output().unwrap().stdout, b"");
    let counted = environment.counted("lib.js#f");
    let (at, last) = counted.last().unwrap();
    assert_eq!((last.count, last.open), (48, 0));
    assert!(at.since(last.last) >= Nanos::from_millis(290), "it ended before the work that followed");
    assert!(last.last >= environment.lines()[0].at && counted[0].1.last <= last.last);
    assert!(all_said_bye(&environment.lines()));
}

/// The runner reads the counters of a phase when its end is reported: often only at the exit of the program.
#[test]
fn counted_calls_are_reported_when_the_event_loop_turns_and_none_has_ended_for_a_while() {
    let main = "
        const lib = require('./lib');
        for (let i = 0; i < 50; i += 1) lib.f(i);
        setTimeout(() => console.log('done'), 1000);
    ";
    let files = [("lib.js", "exports.f = (n) => n;"), ("main.js", main)];
    let Some(environment) = Environment::with(Runtime::Node, &[call("lib.js#f")], &files, BTreeMap::new(), 2) else {
        return;
    };
    assert_eq!(environment.succeed(&["main.js"]), "done");
    let counted = environment.counted("lib.js#f");
    assert_eq!(counted.iter().map(|(_, all)| all.count).collect::<Vec<_>>(), [1, 48]);
    assert!(counted[1].0 < environment.lines().last().unwrap().at.since(Nanos::from_millis(100)), "not at the exit");
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
