//! Tests programs of Node and CPython that `at_end` of a phase suspends, and forced garbage collections, through the
//! real binary.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use prony_model::metric::{Metric, MetricKey, Stat};
use prony_model::outcome::Outcome;
use prony_model::reading::Reading;
use prony_model::record::probe::Because;
use prony_model::record::{Completion, TrialRecord};
use prony_model::units::Nanos;
use rustix::process::{Pid, Signal, kill_process};

use crate::bench::{PRONY, Site, alive, amount, eventually, finding, gauge, phase, probe, said, version, why};
use crate::runtimes::WORK;

/// Collections came late from the event loop: they were missing where it had not turned, and in half of the runs of a
/// program that idles at its end.
#[test]
fn collections_of_each_phase_are_exact_whatever_the_event_loop_does() {
    let Some(_) = version("node") else { return };
    let work = "const times = (n) => { for (let i = 0; i < n; i++) gc(); }; exports.seven = () => times(7); \
                exports.three = () => times(3); exports.none = () => 1;";
    let calls = "const w = require('./work.js'); gc(); w.seven(); gc(); w.three(); w.none();";
    let idles = format!("{calls} setTimeout(() => {{}}, 700);");
    let exits = format!("{calls} process.exit(0);");
    let later = format!("setTimeout(() => {{ {calls} setTimeout(() => {{}}, 300); }}, 100);");
    let phases: String = ["seven", "three", "none"]
        .map(|name| format!("[[phase]]\nname = \"{name}\"\ncall = \"work.js#{name}\"\n"))
        .concat();
    let phases = format!(
        "{phases}[[phase]]\nname = \"all\"\nbegin = {{ call = \"work.js#seven\" }}\nend = {{ line = 'never' }}\n"
    );
    for main in [calls, &idles, &exits, &later] {
        let site = Site::new(&[("work.js", work), ("main.js", main)]);
        let trial = site.trial("node", "node --expose-gc main.js", &phases);
        let full = |name| amount(&trial, name, Metric::GcFull);
        assert_eq!(["seven", "three", "none", "all"].map(full), [7.0, 3.0, 0.0, 11.0], "{main}");
        assert!(amount(&trial, "seven", Metric::GcCount) >= 7.0 && amount(&trial, "seven", Metric::GcTime) > 0.0);
        assert_eq!(amount(&trial, "none", Metric::GcCount), 0.0);
    }
}

#[test]
fn python_collections_are_exact_and_exclude_suspensions() {
    let Some(_) = version("python3") else { return };
    let work = "
import gc
def times(n):
    for _ in range(n):
        gc.collect()
def seven():
    times(7)
def three():
    times(3)
";
    // What stands is exempt, so that each collection takes microseconds: those of both functions lie within 1 ms.
    let main =
        "import gc\ngc.disable()\nimport work\ngc.freeze()\nwork.seven()\ngc.collect()\nwork.three()\nwork.three()\n";
    let site = Site::new(&[("work.py", work), ("main.py", main)]);
    let phases = "[[phase]]\nname = \"seven\"\ncall = \"work:seven\"\n[[phase]]\nname = \"three\"\ncall = \"work:three\"\n\
                  at_end = { collect = true }\n";
    let trial = site.trial("python", "python3 main.py", phases);
    let full = |name| amount(&trial, name, Metric::GcFull);
    assert_eq!(["seven", "three"].map(full), [7.0, 6.0], "not the one that was forced between the two calls");
}

/// A cache of 40 MB of heap, held by `strong` references, by `weak` ones, or 40 MB by each; every weak target is
/// dereferenced once more before the function returns.
const CACHE: &str = "
    const item = () => new Array(100000).fill(0.5);
    exports.fill = (kind) => {
        const make = (wanted) => (kind === wanted || kind === 'both' ? Array.from({ length: 50 }, item) : []);
        exports.strong = make('strong');
        exports.weak = make('weak').map((target) => new WeakRef(target));
        return exports.weak.filter((ref) => ref.deref()).length;
    };
";

fn has_weak_references() -> bool {
    let has = version("node").is_some_and(|version| version >= (14, 6));
    if !has {
        println!("SKIPPED: WeakRef takes Node 14.6");
    }
    has
}

/// Heap in use after the collection at the end of `fill`, in MB.
fn cached(main: &str, at_end: &str) -> (f64, TrialRecord) {
    let site = Site::new(&[("cache.js", CACHE), ("main.js", main)]);
    let phases = format!("[[phase]]\nname = \"fill\"\ncall = \"cache.js#fill\"\n{at_end}");
    let tried = (0..5).find_map(|_| {
        let trial = site.trial("node", "node main.js", &phases);
        assert_eq!(trial.ending.outcome, Outcome::Ok, "{:?}", trial.ending);
        assert_eq!(finding(&trial, "hold_failed"), None);
        Some((collected(&trial, "fill", Metric::HeapUsed)? / 1e6, trial))
    });
    tried.unwrap()
}

/// What was read after the collection at a phase's end; `None` where a busy machine let the event loop turn too late for it.
fn collected(trial: &TrialRecord, name: &str, metric: Metric) -> Option<f64> {
    let late = probe(trial).suspensions.last().unwrap().late;
    match phase(trial, name).reading(MetricKey::gauge(metric, Stat::End)) {
        Some(Reading::Measured(value)) => Some(*value),
        Some(Reading::Missing(why)) if late > Some(Nanos::from_millis(250)) => {
            assert!(why.to_string().contains("after the phase's end"), "{why}");
            None
        }
        other => panic!("{other:?}"),
    }
}

/// V8 keeps what a `WeakRef` was made of or dereferenced to until the current job ends, so that a collection forced at
/// the end of a call counted a weak cache as a strong one.
#[test]
fn forced_node_collection_frees_weakly_referenced_objects() {
    if !has_weak_references() {
        return;
    }
    let stop = "at_end = { collect = true }\nthen = \"stop\"\n";
    let clear = "at_end = { collect = true, weak = \"clear\" }\n";
    let turn = "at_end = { collect = true }\n";
    let inside = "require('./cache.js').fill('KIND');";
    let worker = "const { Worker, isMainThread } = require('worker_threads'); \
                  if (isMainThread) new Worker(__filename); else require('./cache.js').fill('KIND');";
    let exits = "require('./cache.js').fill('KIND'); process.exit(0);";
    for (main, at_end) in
        [(inside, stop), (inside, clear), (inside, turn), (worker, turn), (worker, clear), (exits, turn)]
    {
        let [nothing, strong, weak, both] =
            ["nothing", "strong", "weak", "both"].map(|kind| cached(&main.replace("KIND", kind), at_end).0);
        let above = [strong, weak, both].map(|used| used - nothing);
        let right = above.iter().zip([40.0, 0.0, 40.0]).all(|(read, truth)| (read - truth).abs() < 2.0);
        assert!(right, "{main} with {at_end}: {nothing} MB and then {above:?}");
    }
}

/// What a job has dereferenced through a `WeakRef` stays until the job ends: `if (ref.deref()) ref.deref().x` must not
/// fail because prony collected in between, unless the file asks for that.
#[test]
fn forced_collection_keeps_the_promise_of_weak_references_to_code_that_goes_on() {
    if !has_weak_references() {
        return;
    }
    let main = "
        const { fill } = require('./cache.js');
        const ref = new WeakRef({ x: 1 });
        fill('weak');
        console.log(ref.deref() ? 'there' : 'gone');
        setImmediate(() => setImmediate(() => console.log(ref.deref() ? 'there' : 'gone')));
    ";
    let said_with = |at_end: &str| said(&cached(main, at_end).1).to_owned();
    assert_eq!(said_with("at_end = { collect = true }\n"), "there\ngone\n");
    assert_eq!(said_with("at_end = { collect = true, weak = \"clear\" }\n"), "gone\ngone\n");
}

/// A collection that is put off to the next turn of the event loop moves no boundary: the phase has ended before, and
/// what the program does until that turn belongs to no suspension.
#[test]
fn collection_at_the_next_turn_leaves_the_boundary_and_the_time_in_place() {
    if !has_weak_references() {
        return;
    }
    let main = "
        const { fill, done } = require('./cache.js');
        fill('weak');
        for (const until = Date.now() + 20; Date.now() < until; );
        setTimeout(done, 20);
    ";
    let phases = "[[phase]]\nname = \"fill\"\ncall = \"cache.js#fill\"\nat_end = { collect = true, wait = \"300 ms\" }\n\
                  [[phase]]\nname = \"rest\"\nbegin = { after = \"fill\" }\nend = { call = \"cache.js#done\" }\n";
    let cache = format!("{CACHE}exports.done = () => 1;");
    let site = Site::new(&[("cache.js", &cache), ("main.js", main)]);
    let trial = site.trial("node", "node main.js", phases);
    let suspensions = &probe(&trial).suspensions;
    let [first, second] = suspensions.as_slice() else { panic!("{suspensions:?}") };
    assert_eq!(first.went_on, Some(Because::Later));
    assert!(second.late >= Some(Nanos::from_millis(19)) && second.collected > Some(Nanos::ZERO));
    let suspended: f64 = suspensions.iter().map(|suspension| suspension.suspended.unwrap().as_nanos() as f64).sum();
    assert!(suspended >= 300e6 && (amount(&trial, "fill", Metric::Suspended) - suspended).abs() < 1e6, "{suspended}");
    // The second phase has the 20 ms in which the program ran, and none of the wait.
    let (fill, rest) = (phase(&trial, "fill"), phase(&trial, "rest"));
    assert_eq!(fill.end, rest.begin, "the boundary is the function's return");
    let real = rest.end.unwrap().since(rest.begin.unwrap()).as_nanos() as f64;
    let wall = amount(&trial, "rest", Metric::Wall);
    assert!(wall >= 19e6 && (real - wall - suspended).abs() < 1e6, "{real} is {wall} and {suspended}");
    let before = gauge(&trial, "fill", Metric::HeapUsed, Stat::Before);
    assert!(before > 40e6);
    let end = collected(&trial, "fill", Metric::HeapUsed);
    assert!(end.is_none_or(|end| end < before - 38e6), "{end:?} of {before}");
}

/// A turn that comes long after the phase's end shows what the program did since, and not the phase.
#[test]
fn collection_that_comes_too_late_has_no_figure() {
    if !has_weak_references() {
        return;
    }
    // The phase is longer than counters may be read late on a busy machine.
    let wait = "for (const until = Date.now() + 1000; Date.now() < until; );";
    let cache = format!("{CACHE}exports.slow = (kind) => {{ exports.fill(kind); {wait} }};");
    let main = format!("require('./cache.js').slow('strong'); {wait}");
    let site = Site::new(&[("cache.js", &cache), ("main.js", &main)]);
    let phases = "[[phase]]\nname = \"fill\"\ncall = \"cache.js#slow\"\nat_end = { collect = true }\n";
    let trial = site.trial("node", "node main.js", phases);
    for metric in [Metric::HeapUsed, Metric::Rss] {
        let said = why(&trial, "fill", MetricKey::gauge(metric, Stat::End));
        assert!(said.contains("after the phase's end") && said.contains("`weak = \"clear\"`"), "{said}");
        assert!(gauge(&trial, "fill", metric, Stat::Before) > 40e6);
    }
}

/// Only after the last of two calls that end in one turn is memory read: the first one's phase has none, though the program
/// goes on.
#[test]
fn phase_whose_collection_another_call_replaced_has_its_own_reason() {
    if !has_weak_references() {
        return;
    }
    let main = "const work = require('./work.js'); work.first(); work.second(); setTimeout(() => {}, 50);";
    let work = "exports.first = () => 1; exports.second = () => 2;";
    let phases = ["first", "second"].map(|name| {
        format!("[[phase]]\nname = \"{name}\"\ncall = \"work.js#{name}\"\nat_end = {{ collect = true }}\n")
    });
    let site = Site::new(&[("work.js", work), ("main.js", main)]);
    let trial = site.trial("node", "node main.js", &phases.concat());
    let said = why(&trial, "first", MetricKey::gauge(Metric::HeapUsed, Stat::End));
    assert!(
        said.contains("another phase returned later in the same turn") && !said.contains("program ended"),
        "{said}"
    );
    assert!(collected(&trial, "second", Metric::HeapUsed).is_none_or(|used| used > 0.0));
}

/// Python has no such promise: a weakly referenced object goes with its last reference, or with the cycle that it is in.
#[test]
fn forced_python_collection_frees_weakly_referenced_objects() {
    let Some(_) = version("python3") else { return };
    let work = "
import gc, weakref
class Item:
    def __init__(self):
        self.parts = [[n] for n in range(1000)]
kept = []
def fill(kind):
    items = [Item() for _ in range(100)]
    for item in items:
        item.me = item
    kept.extend(items if kind == 'strong' else map(weakref.ref, items))
    if kind == 'frozen':
        gc.freeze()
    return len([ref() for ref in kept if kind != 'strong'])
";
    let blocks = |kind: &str| {
        let main = format!("import gc\ngc.disable()\nimport work\nwork.fill('{kind}')\n");
        let site = Site::new(&[("work.py", work), ("main.py", &main)]);
        let phases = "[[phase]]\nname = \"fill\"\ncall = \"work:fill\"\nat_end = { collect = true }\n";
        let trial = site.trial("python", "python3 main.py", phases);
        let of = |stat| gauge(&trial, "fill", Metric::HeapBlocks, stat);
        assert!(of(Stat::Before) > 100_000.0);
        assert_eq!(probe(&trial).suspensions.len(), 1, "nothing is put off");
        of(Stat::End)
    };
    let (strong, weak, frozen) = (blocks("strong"), blocks("weak"), blocks("frozen"));
    assert!(strong > 100_000.0 && weak < strong - 100_000.0, "{strong}, {weak}");
    assert!((frozen - strong).abs() < 5_000.0, "`gc.freeze` keeps cycles from every collection: {frozen}, {strong}");
}

/// V8 frees array buffers on another thread and counts them out of `external` at the next collection: after one forced
/// collection it was still what had been freed.
#[test]
fn forced_collection_counts_freed_buffers_out_of_external_memory() {
    let Some(_) = version("node") else { return };
    let work = "exports.fill = () => { let all = Array.from({ length: 1000 }, () => Buffer.alloc(1e5, 1)); \
                exports.kept = all.slice(0, 100); return all.length; };";
    for at_end in ["at_end = { collect = true }\n", "at_end = { collect = true }\nthen = \"stop\"\n"] {
        let site = Site::new(&[("work.js", work), ("main.js", "require('./work.js').fill();")]);
        let phases = format!("[[phase]]\nname = \"fill\"\ncall = \"work.js#fill\"\n{at_end}");
        let trial = site.trial("node", "node main.js", &phases);
        assert!(gauge(&trial, "fill", Metric::External, Stat::Before) > 100e6);
        let external = collected(&trial, "fill", Metric::External);
        assert!(external.is_none_or(|left| (10e6..14e6).contains(&left)), "{external:?}");
    }
}

#[test]
fn phase_limit_excludes_suspensions() {
    let Some(_) = version("node") else { return };
    let main = "const w = require('./work.js'); w.load(10); w.load(10);";
    let site = Site::new(&[("work.js", WORK), ("main.js", main)]);
    let phases = "[[phase]]\nname = \"load\"\ncall = \"work.js#load\"\nlimit = \"2 s\"\nat_end = { wait = \"1200 ms\" }\n\
                  [[phase]]\nname = \"whole\"\nlimit = \"2 s\"\nbegin = { call = \"work.js#load\" }\nend = { line = 'x' }\n";
    let trial = site.trial("node", "node main.js", phases);
    assert_eq!(trial.ending.outcome, Outcome::Ok, "{:?}", trial.ending);
    let [suspended, wall] = [Metric::Suspended, Metric::Wall].map(|metric| amount(&trial, "load", metric));
    let load = phase(&trial, "load");
    let real = load.end.unwrap().since(load.begin.unwrap()).as_nanos() as f64;
    assert!(suspended >= 2.4e9 && wall <= real - 1.2e9, "{wall} of {real}, {suspended} suspended");
    assert_eq!(probe(&trial).suspensions.len(), 2);
}

#[test]
fn suspension_with_a_running_worker_makes_the_enclosing_phase_time_missing() {
    let Some(_) = version("node") else { return };
    let main = "
        const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
        const flag = new Int32Array(isMainThread ? new SharedArrayBuffer(4) : workerData);
        const twice = (load) => { load(10); setTimeout(() => { load(10); Atomics.store(flag, 0, 1); }, 1); };
        if (isMainThread)
            new Worker(__filename, { workerData: flag.buffer }).once('message', () => twice(require('./work.js').load));
        else { parentPort.postMessage('go'); while (Atomics.load(flag, 0) === 0); }
    ";
    let site = Site::new(&[("work.js", WORK), ("main.js", main)]);
    let phases = "[[phase]]\nname = \"load\"\ncall = \"work.js#load\"\nat_end = { wait = \"500 ms\" }\n";
    let trial = site.trial("node", "node main.js", phases);
    assert!(amount(&trial, "load", Metric::Suspended) >= 1e9 && amount(&trial, "load", Metric::Operations) == 2.0);
    for metric in [Metric::Wall, Metric::Cpu, Metric::MinorFaults] {
        let why = why(&trial, "load", MetricKey::amount(metric));
        // On a busy machine the boundaries of a phase this short are read too late for any figure.
        let known = ["while others continued", "may have read its counters up to"];
        assert!(known.iter().any(|text| why.contains(text)), "{why}");
    }
}

/// A worker's call ended while one of the main thread went on: the worker was suspended, and the 2 s of that were cut out of the
/// main call's 3 s; with `then = "stop"` the program was ended in the middle of the main call.
#[test]
fn thread_is_not_suspended_while_calls_of_the_function_go_on_elsewhere() {
    let Some(_) = version("node") else { return };
    let node = "
        const { Worker, isMainThread } = require('worker_threads');
        const { until } = require('./work.js');
        if (isMainThread) until(new Promise((done) => new Worker(__filename).once('exit', done)));
        else until(new Promise((done) => setTimeout(done, 20)));
    ";
    let python = "
import os, work
def forked():
    child = os.fork()
    if child == 0:
        work.until(lambda: None)
        os._exit(0)
    os.waitpid(child, 0)
work.until(forked)
";
    let work = ("work.js", "exports.until = (promise) => promise;");
    let site = Site::new(&[work, ("main.js", node), ("work.py", "def until(f):\n    f()\n"), ("main.py", python)]);
    for (runtime, command, call) in
        [("node", "node main.js", "work.js#until"), ("python", "python3 main.py", "work:until")]
    {
        if version(command.split(' ').next().unwrap()).is_none() {
            continue;
        }
        for at_end in ["at_end = { wait = \"1 s\" }\n", "then = \"stop\"\n"] {
            let phases = format!("[[phase]]\nname = \"both\"\ncall = \"{call}\"\n{at_end}");
            let trial = site.trial(runtime, command, &phases);
            assert_eq!(
                phase(&trial, "both").completion,
                Completion::Complete,
                "{runtime}, {at_end}: {:?}",
                trial.ending
            );
            let of = |metric| amount(&trial, "both", metric);
            assert_eq!(of(Metric::Operations), 2.0);
            // The longer call contains the other one.
            let (time, longest) = (of(Metric::Time), of(Metric::LatencyMax));
            assert!(
                time > 0.9 * longest && of(Metric::Wall) > 0.9 * longest,
                "{runtime}, {at_end}: {time} of {longest}"
            );
            let passed: Vec<bool> = probe(&trial).suspensions.iter().map(|one| one.passed).collect();
            assert_eq!(passed, [true, false], "{runtime}, {at_end}");
        }
    }
}

#[test]
fn killed_suspended_process_leaves_limits_in_force() {
    let Some(_) = version("node") else { return };
    let parent = "require('child_process').fork('./main.js'); setInterval(() => {}, 1e6);";
    let site = Site::new(&[("work.js", WORK), ("main.js", MAIN), ("parent.js", parent)]);
    let whole =
        "[[phase]]\nname = \"whole\"\nlimit = \"2 s\"\nbegin = { call = \"work.js#load\" }\nend = { line = 'x' }\n";
    let (mut runner, pid) = suspended_for_long(&site, "node parent.js", whole);
    kill_process(Pid::from_raw(pid.parse().unwrap()).unwrap(), Signal::KILL).unwrap();
    runner.wait().unwrap();
    let trial = site.bench.data().trials.remove(0);
    assert_eq!(trial.ending.outcome, Outcome::TimedOut, "{:?}", trial.ending);
    assert!(finding(&trial, "hold_failed").is_some(), "{:?}", trial.findings);
    let suspension = &probe(&trial).suspensions[0];
    assert!(suspension.fault.as_ref().unwrap().contains("ended while prony had suspended it"), "{suspension:?}");
}

/// Writes its process to a file and calls the function at whose end it is suspended.
const MAIN: &str =
    "require('fs').writeFileSync(process.env.PIDFILE, String(process.pid)); require('./work.js').load(10);";

/// A program suspended for ten minutes: the runner, and the process in which [`MAIN`] runs.
fn suspended_for_long(site: &Site, command: &str, more: &str) -> (Child, String) {
    let phase = "[[phase]]\nname = \"load\"\ncall = \"work.js#load\"\nat_end = { wait = \"600 s\" }\n";
    let head = "[compare]\nblocks = 1\n[observe]\ncare = \"light\"\n";
    let body = format!("{head}{}inherit = [\"PIDFILE\"]\n{phase}{more}", Site::program("node", command));
    fs::write(site.bench.path("e.toml"), body).unwrap();
    let mut run = Command::new(PRONY);
    run.args(["run", "e.toml", "--quiet"]).current_dir(site.bench.path("")).env("PIDFILE", site.bench.path("pid"));
    let child = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    eventually("suspended", || !suspensions(site).is_empty());
    (child, fs::read_to_string(site.bench.path("pid")).unwrap())
}

/// FIFOs at which threads wait, in the scratch of trials.
fn suspensions(site: &Site) -> Vec<PathBuf> {
    let scratch = fs::read_dir(site.bench.path("")).unwrap().flatten().map(|entry| entry.path().join("commands"));
    let inside = scratch.filter_map(|dir| fs::read_dir(dir).ok()).flatten().flatten().map(|entry| entry.path());
    inside.filter(|path| !path.file_name().unwrap().to_string_lossy().starts_with('.')).collect()
}

#[test]
fn suspended_program_ends_with_its_runner() {
    let Some(_) = version("node") else { return };
    for (signal, code) in [(Signal::INT, Some(1)), (Signal::KILL, None)] {
        let site = Site::new(&[("work.js", WORK), ("main.js", MAIN)]);
        let (mut runner, pid) = suspended_for_long(&site, "node main.js", "");
        assert!(alive(&pid));
        kill_process(Pid::from_child(&runner), signal).unwrap();
        assert_eq!(runner.wait().unwrap().code(), code);
        eventually("the program is gone", || !alive(&pid));
        eventually("no scratch is left", || suspensions(&site).is_empty());
    }
}
