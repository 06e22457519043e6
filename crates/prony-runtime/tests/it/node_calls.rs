//! Tests which calls the probe of Node finds, times and counts, with the Node of this machine.

use std::collections::BTreeMap;

use prony_model::units::Nanos;
use prony_runtime::{CallSpec, ProbeEvent, Runtime, SuspensionCommand};

use crate::environment::{Environment, all_said_bye, call, ends, found, hellos, suspended_at};

pub(crate) const LIB: &str = "
    Object.defineProperty(exports, '__esModule', { value: true });
    exports.default = (n) => n < 2 ? n : exports.default(n - 1) + exports.default(n - 2);
    exports.slow = async (fail) => { await new Promise((r) => setTimeout(r, 5)); if (fail) throw new Error('no'); return 5; };
    function fixed(x) { if (x === 0) throw new RangeError('zero'); return x + 1; }
    Object.defineProperty(exports, 'fixed', { enumerable: true, get() { return fixed; } });
    exports.Store = class Store { constructor(n) { this.n = n; } put(a) { return this.n + a; } };
";

pub(crate) fn environment(calls: &[&str], main: &str) -> Option<Environment> {
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

/// `define` was "before initialization" in `b.mjs`, and only where it was timed.
#[test]
fn exports_of_es_modules_that_import_each_other_are_timed_from_their_first_call() {
    let files = [
        (
            "a.mjs",
            "import './b.mjs'; export function define(x) { return x; } export default function setup(x) { return x + 1; }
             export function Old() {}",
        ),
        (
            "b.mjs",
            "import setup, { define, Old } from './a.mjs'; export const made = [define(1), setup(1)]; export const saved = define;
             define.cache = 5; setup.plugins = 6;
             try { new Old(); } catch (error) { made.push(error.name); }",
        ),
        (
            "main.mjs",
            "import setup, { define, Old } from './a.mjs'; import { made, saved } from './b.mjs';
             new Old(); console.log(...made, define(3), saved(4), define.cache, setup.plugins);",
        ),
    ];
    let calls = ["a.mjs#define", "a.mjs#Old"].map(call);
    let Some(environment) = Environment::new(Runtime::Node, &calls, &files) else { return };
    if environment.version < (20, 6) {
        return;
    }
    assert_eq!(environment.succeed(&["main.mjs"]), "1 2 ReferenceError 3 4 5 6");
    let events = environment.events();
    assert_eq!(
        calls.map(|call| ends(&events, &call.id).len()),
        [3, 1],
        "constructors only when the modules are loaded"
    );
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
        const { PassThrough, Readable } = require('stream');
        exports.items = function* () { yield 1; };
        exports.pages = async function* () { yield 1; };
        exports.later = async () => exports.items();
        exports.own = () => ({ next: () => ({ done: true }), [Symbol.iterator]() { return this; } });
        exports.list = () => [1, 2];
        exports.values = () => new Map([[1, 7]]).values();
        exports.read = () => Readable.from(['x']);
        exports.fetched = async () => Readable.from(['y']);
        exports.connected = async () => new PassThrough();
        exports.strict = () => new Proxy({}, { get(_, key) { if (key === 'next') throw new Error(key); } });
    ";
    let main = "
        const lib = require('./lib/lib');
        const made = [...lib.items(), ...lib.items(), ...lib.own(), ...lib.list(), ...lib.values()];
        (async () => { for await (const page of lib.pages()) made.push(page);
                       made.push(...await lib.later(), typeof lib.strict());
                       for await (const text of lib.read()) made.push(text);
                       for await (const text of await lib.fetched()) made.push(text);
                       (await lib.connected()).end(); console.log(made.join(' ')); })();
    ";
    let calls = ["items", "pages", "later", "own", "list", "values", "read", "fetched", "connected", "strict"]
        .map(|name| call(&format!("lib.js#{name}")));
    let files = [("lib/lib.js", lib), ("main.js", main)];
    let Some(environment) = Environment::new(Runtime::Node, &calls, &files) else { return };
    if environment.version.0 < 12 {
        return;
    }
    assert_eq!(environment.succeed(&["main.js"]), "1 1 1 2 7 1 1 object x y");
    let of = |call: &str, returned: &str| (format!("lib.js#{call}"), returned.to_owned());
    let expected = ["items", "own", "pages", "later", "read", "fetched"];
    let returned =
        ["a generator", "an iterator", "a generator", "a generator", "an async iterable", "an async iterable"];
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

/// The first of two phases of one function was "found but never called".
#[test]
fn several_phases_of_one_function_of_an_es_module_have_its_calls() {
    let files = [
        ("work.mjs", "export const work = (x) => x * 2; export class Store { put() { return 3; } }"),
        ("main.mjs", "import { work, Store } from './work.mjs'; console.log(work(4), new Store().put());"),
    ];
    let again = |text: &str| CallSpec { id: "again".into(), ..call(text) };
    let calls =
        [call("work.mjs#work"), again("work.mjs#work"), call("work.mjs#Store"), call("work.mjs#Store.prototype.put")];
    let Some(environment) = Environment::new(Runtime::Node, &calls, &files) else { return };
    if environment.version < (20, 6) {
        return;
    }
    assert_eq!(environment.succeed(&["main.mjs"]), "8 3");
    let events = environment.events();
    for id in ["work.mjs#work", "again", "work.mjs#Store", "work.mjs#Store.prototype.put"] {
        assert_eq!(ends(&events, id), [(0, true)], "{id}");
    }
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

/// In classes of a sixteenth of a power of two, functions of 16.4 and 17.1 us had one median, and those of 16.1 us 4.6 % less.
#[test]
fn times_of_counted_calls_are_known_within_a_percent() {
    let lib = "exports.f = () => { let sum = 0; for (let i = 0; i < 10000; i += 1) sum += i; return sum; };";
    let files = [("lib.js", lib), ("main.js", "const { f } = require('./lib'); for (let i = 0; i < 200; i += 1) f();")];
    let Some(environment) = Environment::with(Runtime::Node, &[call("lib.js#f")], &files, BTreeMap::new(), 2) else {
        return;
    };
    environment.succeed(&["main.js"]);
    let totals = environment.totals("lib.js#f");
    assert_eq!(totals.aggregated, 198);
    totals.assert_fine_classes();
}

/// Some that failed slowly were counted as some that returned, and the fastest ones as failed.
#[test]
fn failed_calls_are_counted_in_no_class() {
    let lib = "exports.f = (fail) => { const end = Date.now() + fail * 3; while (Date.now() < end); if (fail) throw new Error(); };";
    let main = "const { f } = require('./lib');
                for (let i = 0; i < 52; i += 1) try { f((i + 1) % 2); } catch (e) {}";
    let files = [("lib.js", lib), ("main.js", main)];
    let Some(environment) = Environment::with(Runtime::Node, &[call("lib.js#f")], &files, BTreeMap::new(), 2) else {
        return;
    };
    environment.succeed(&["main.js"]);
    environment.totals("lib.js#f").assert_no_failed_call_is_classed((50, 25));
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
