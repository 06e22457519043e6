//! Tests probes in programs of Node and CPython, through the real binary.

use std::fs;

use prony_model::metric::{Metric, MetricKey, Stat};
use prony_model::outcome::{OutOfMemory, Outcome};
use prony_model::reading::{Reading, Why};
use prony_model::record::probe::Because;
use prony_model::record::{Completion, MetricKeyText, TrialRecord};
use prony_model::units::Nanos;
use prony_results::Database;

use crate::bench::{Bench, Site, amount, gauge, guards, phase, probe, said, version, why};

pub(crate) const USED: MetricKey = MetricKey::gauge(Metric::HeapUsed, Stat::End);

#[test]
fn the_heap_of_a_program_is_read_while_it_runs() {
    let Some(_) = version("node") else { return };
    let site = Site::new(&[(
        "a.js",
        "const kept = []; let n = 0; const grow = () => { for (let i = 0; i < 20000; i++) kept.push({ i }); \
         if (++n < 8) setTimeout(grow, 40); else console.log(kept.length, (globalThis.kept = Buffer.alloc(3e6)).length); }; grow();",
    )]);
    let args = ["-r", "2", "--all", "--runtime", "node", "--export-csv", "o.csv", "--", "node", "site/a.js"];
    let (output, data) = site.bench.exec(&args);
    for trial in &data.trials {
        let of = |metric, stat| gauge(trial, "run", metric, stat);
        let (used, total) = (of(Metric::HeapUsed, Stat::Max), of(Metric::HeapTotal, Stat::Max));
        assert!(used > 3e6 && total >= used, "{used} of {total}");
        assert!(of(Metric::HeapUsed, Stat::Min) < used && of(Metric::HeapUsed, Stat::End) > 3e6);
        assert!(of(Metric::External, Stat::End) >= 3e6 && of(Metric::ArrayBuffers, Stat::End) >= 3e6);
        assert!(amount(trial, "run", Metric::GcTime) >= 0.0 && amount(trial, "run", Metric::LoopDelay) >= 0.0);
        let probe = probe(trial);
        assert!(probe.cost > Nanos::ZERO && probe.threads[0].probe.unwrap().heap.is_some());
        assert_eq!(probe.lines_lost, 0);
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for shown in ["heap.used.max", "heap.total.max", "external.max", "gc.count", "reports a cost of"] {
        assert!(text.contains(shown), "{shown}: {text}");
    }
    let csv = fs::read_to_string(site.bench.path("o.csv")).unwrap();
    assert!(csv.contains("heap.used.max") && csv.contains("heap.arraybuffers.end"), "{csv}");
}

#[test]
fn what_cannot_be_read_says_why() {
    let bench = Bench::new();
    let trial = |runtime: &str, command: &str| bench.trial(&format!("[program.x]\ncommand = \"{command}\"\n{runtime}"));
    assert!(why(&trial("", "true"), "run", USED).contains("does not set `runtime`"));
    assert!(why(&trial("runtime = \"node\"\n", "true"), "run", USED).contains("no probe reported that it was loaded"));
    if version("python3").is_some() {
        let python = |args: &str| trial("runtime = \"python\"\n", &format!("python3 {args} -c pass"));
        assert!(why(&python("-I"), "run", USED).contains("`-I`"));
        let probed = python("");
        assert!(why(&probed, "run", MetricKey::gauge(Metric::External, Stat::End)).contains("does not report"));
        assert!(gauge(&probed, "run", Metric::HeapBlocks, Stat::Max) > 1000.0);
        assert!(amount(&probed, "run", Metric::GcCount) >= 0.0);
    }
}

#[test]
fn exec_refuses_a_runtime_without_a_probe() {
    let output = Bench::new().prony(&["exec", "--runtime", "go", "--", "true"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    let hint = "known runtimes: `node` and `python`\nhint: leave `--runtime` out for programs of other languages\n";
    assert!(text.contains(hint), "{text}");
}

pub(crate) const WORK: &str = "
    exports.load = (n) => { const all = []; for (let i = 0; i < n; i++) all.push({ i, s: 'v' + i });
                            exports.kept = all.slice(0, 100); return all.length; };
    exports.slow = async (ms) => { await new Promise((done) => setTimeout(done, ms)); return ms; };
    exports.hot = (n) => n + 1;
    exports.fails = async () => { throw new Error('no'); };
";

/// Phases of functions that are called once, often, very often, and in vain.
const CALLED: &str = "
    [[phase]]
    name = \"load it\"
    call = \"lib/work.js#load\"
    at_end = { collect = true, wait = \"50 ms\" }
    [[phase]]
    name = \"slow\"
    call = \"work.js#slow\"
    [[phase]]
    name = \"hot\"
    call = \"work.js#hot\"
    [[phase]]
    name = \"fails\"
    call = \"work.js#fails\"
    [[phase]]
    name = \"whole\"
    end = { line = 'never said' }
";

#[test]
fn functions_of_common_js_are_phases() {
    let Some(_) = version("node") else { return };
    let main = "
        const w = require('./lib/work.js');
        (async () => {
            w.load(200000);
            for (let i = 0; i < 25; i++) await w.slow(4);
            await Promise.all([w.slow(30), w.slow(30)]);
            for (let i = 0; i < 5000; i++) w.hot(i);
            for (let i = 0; i < 3; i++) await w.fails().catch(() => {});
        })();
    ";
    let site = Site::new(&[("lib/work.js", WORK), ("main.js", main)]);
    let trial = site.trial("node", "node main.js", CALLED);
    assert_eq!(trial.ending.outcome, Outcome::Ok, "{:?}", trial.ending);
    suspended_and_collected(&trial);
    // Several calls: how many, how long, how spread; at once they count once.
    assert_eq!(amount(&trial, "slow", Metric::Operations), 27.0);
    let (time, median) = (amount(&trial, "slow", Metric::Time), amount(&trial, "slow", Metric::LatencyP50));
    assert!(time >= 25.0 * 3.5e6 + 29e6 && median >= 3.5e6, "{time}, {median}");
    assert!(time <= amount(&trial, "slow", Metric::Wall) + 1e6);
    let database = Database::open(&site.bench.path("prony.db")).unwrap();
    let histograms = database.load_histograms(site.bench.data().head.id, trial.trial.position).unwrap();
    let recorded: Vec<(usize, &str)> =
        histograms.iter().map(|(phase, histogram)| (*phase, histogram.operation.as_str())).collect();
    assert_eq!(recorded, [(0, "call"), (1, "call"), (2, "call"), (3, "call")]);
    // A hot function is counted.
    assert_eq!(amount(&trial, "hot", Metric::Operations), 5000.0);
    assert!(amount(&trial, "hot", Metric::LatencyP99) > 0.0 && amount(&trial, "hot", Metric::Time) > 0.0);
    assert_eq!((amount(&trial, "fails", Metric::Errors), amount(&trial, "fails", Metric::Operations)), (3.0, 0.0));
    assert_eq!(guards(&trial).iter().filter(|guard| **guard == "phase_never_ended").count(), 1, "{:?}", trial.findings);
}

/// The program was suspended at the end of the first phase, collected, read and let go.
fn suspended_and_collected(trial: &TrialRecord) {
    let heap = |stat| gauge(trial, "load it", Metric::HeapUsed, stat);
    let (before, after) = (heap(Stat::Before), heap(Stat::End));
    assert!(before > 8e6 && after < before - 4e6, "{before} before the collection, {after} after it");
    assert!(heap(Stat::Max) >= before);
    assert!(gauge(trial, "load it", Metric::Anon, Stat::End) > 0.0);
    assert!(gauge(trial, "load it", Metric::Rss, Stat::Before) > 0.0);
    let (suspended, wall) = (amount(trial, "load it", Metric::Suspended), amount(trial, "load it", Metric::Wall));
    assert!(suspended >= 50e6, "{suspended}");
    // Where there are weak references it was suspended once to end the call, and once more at the next turn to be collected.
    let suspension = probe(trial).suspensions.last().unwrap();
    assert!(
        suspension.suspended >= Some(Nanos::from_millis(50)) && suspension.collected > Some(Nanos::ZERO),
        "{suspension:?}"
    );
    assert_eq!((suspension.went_on, suspension.phase.as_str()), (Some(Because::Go), "load it"));
    assert_eq!(amount(trial, "load it", Metric::Operations), 1.0);
    // A phase around it has no figures.
    assert_eq!(phase(trial, "whole").completion, Completion::Partial);
    for metric in [Metric::Wall, Metric::Cpu, Metric::GcCount] {
        let why = why(trial, "whole", MetricKey::amount(metric));
        assert!(why.contains("`at_end` of phase `load it` suspended the program"), "{why}");
    }
    let inside = trial.findings.iter().filter(|finding| finding.guard == "suspended_inside");
    assert_eq!(inside.map(|finding| finding.phase.as_deref()).collect::<Vec<_>>(), [Some("whole")]);
    assert!(wall > 0.0 && wall < suspended + 1e9, "{wall} and {suspended}");
}

#[test]
fn functions_of_es_modules_are_phases() {
    let Some(version) = version("node") else { return };
    if version < (18, 19) {
        println!("SKIPPED: this Node cannot hook ES modules");
        return;
    }
    let work = "export const work = async (n) => { await null; return n * 2; }; export default () => 7;";
    let main = "import seven, { work } from './work.mjs'; console.log(await work(4), seven());";
    let site = Site::new(&[("work.mjs", work), ("main.mjs", main)]);
    let phases = "[[phase]]\nname = \"a\"\ncall = \"work.mjs#work\"\nat_end = { collect = true }\n\
                  [[phase]]\nname = \"b\"\ncall = \"work.mjs#default\"\n";
    let trial = site.trial("node", "node main.mjs", phases);
    assert_eq!(said(&trial), "8 7\n");
    assert_eq!(["a", "b"].map(|name| amount(&trial, name, Metric::Operations)), [1.0, 1.0]);
    assert_eq!(probe(&trial).suspensions.iter().filter(|suspension| suspension.collected.is_some()).count(), 1);
    assert!(trial.program().unwrap().calls["a"].file.as_ref().unwrap().ends_with("/work.mjs"));
}

#[test]
fn functions_of_python_are_phases() {
    let Some(_) = version("python3") else { return };
    let work = "
import asyncio
def load(n):
    return [[i] for i in range(n)]
async def slow(s):
    await asyncio.sleep(s)
class Store:
    def put(self, n):
        return n
";
    let main = "
import asyncio
from pkg import work
kept = work.load(100000)
kept = None
async def main():
    for _ in range(5):
        await work.slow(0.004)
asyncio.run(main())
print(sum(work.Store().put(1) for _ in range(3)))
";
    let site = Site::new(&[("pkg/work.py", work), ("pkg/__init__.py", ""), ("main.py", main)]);
    let phases = "[[phase]]\nname = \"load\"\ncall = \"pkg.work:load\"\nat_end = { settle = { quiet = \"100 ms\", within = \"5 s\" } }\n\
                  [[phase]]\nname = \"slow\"\ncall = \"pkg.work:slow\"\n[[phase]]\nname = \"put\"\ncall = \"pkg.work:Store.put\"\n";
    let trial = site.trial("python", "python3 main.py", phases);
    assert_eq!((trial.ending.outcome, said(&trial)), (Outcome::Ok, "3\n"));
    let operations = ["load", "slow", "put"].map(|name| amount(&trial, name, Metric::Operations));
    assert_eq!(operations, [1.0, 5.0, 3.0]);
    assert!(amount(&trial, "slow", Metric::Time) >= 5.0 * 3.9e6, "the waits belong to the calls");
    assert!(gauge(&trial, "load", Metric::HeapBlocks, Stat::Before) > 1e5);
    assert!(why(&trial, "load", USED).contains("does not report"));
    let settled = probe(&trial).suspensions[0].settled.as_ref().unwrap();
    assert!(settled.watched >= Nanos::from_millis(100), "{settled:?}");
}

#[test]
fn threads_and_children_are_shown_by_role() {
    let Some(_) = version("node") else { return };
    let main = "
        const { Worker, isMainThread } = require('worker_threads');
        const keep = (n) => { const all = []; for (let i = 0; i < n; i++) all.push({ i }); setTimeout(() => all.length, 300); };
        if (process.argv[2]) keep(300000);
        else if (!isMainThread) keep(150000);
        else { new Worker(__filename); require('child_process').fork(__filename, ['child']); }
    ";
    let site = Site::new(&[("main.js", main)]);
    let trial = site.trial("node", "node main.js", "");
    let run = phase(&trial, "run");
    let largest = |instance: &str| {
        let key = MetricKeyText(MetricKey::gauge(Metric::HeapUsed, Stat::Max));
        *run.readings[instance][&key].measured().unwrap_or_else(|| panic!("{instance}"))
    };
    let (main, worker, child) = (largest("main"), largest("worker"), largest("child"));
    assert!(child > worker && worker > main, "{child}, {worker}, {main}");
    assert!(largest("") >= child.max(worker));
    let output = site.bench.prony(&["report", "--format", "csv"]);
    let csv = String::from_utf8_lossy(&output.stdout);
    assert!(csv.contains(",worker,heap.used.max,") && csv.contains(",child,heap.used.max,"), "{csv}");
    let (output, _) = site.bench.exec(&["-r", "1", "--all", "--runtime", "node", "--", "node", "site/main.js"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("main.heap.used.max") && text.contains("worker.heap.used.max"), "{text}");
}

#[test]
fn heap_limit_failure_is_reported_with_its_figures() {
    let Some(_) = version("node") else { return };
    let files = [
        ("fill.js", "module.exports.fill = () => { const all = []; for (;;) all.push({ x: 1 }); };"),
        ("main.js", "require('./fill.js').fill();"),
    ];
    let site = Site::new(&files);
    let phases = "output = \"null\"\n[[phase]]\nname = \"fill\"\ncall = \"fill.js#fill\"\n";
    let trial = site.trial("node", "node --max-old-space-size=30 main.js", phases);
    assert_eq!(trial.ending.outcome, Outcome::OutOfMemory { by: OutOfMemory::Runtime }, "{:?}", trial.ending);
    assert_eq!((trial.ending.phase.as_deref(), phase(&trial, "fill").completion), (Some("fill"), Completion::Partial));
    let shown = trial.ending.evidence.join("\n");
    assert!(shown.contains("the heap when it was full") && shown.contains("limit "), "{shown}");
    assert!(gauge(&trial, "fill", Metric::HeapTotal, Stat::Max) > 20e6);
    assert!(amount(&trial, "fill", Metric::Time) > 0.0);
    let aside = "try { require('child_process').execFileSync('node', ['--max-old-space-size=30', 'main.js'], { stdio: 'ignore' }); } catch {}";
    let files = [files[0], files[1], ("aside.js", aside)];
    let trial = Site::new(&files).trial("node", "node aside.js", "");
    assert_eq!((trial.ending.outcome, guards(&trial)), (Outcome::Ok, vec!["heap_full_aside"]));
}

#[test]
fn a_call_that_never_comes_is_a_finding() {
    let Some(node) = version("node") else { return };
    let main = "require('./work.js'); setTimeout(() => {}, 20);";
    let site = Site::new(&[("work.js", "exports.f = () => new Promise(() => {}); exports.g = 1;"), ("main.js", main)]);
    let phases = "[[phase]]\nname = \"f\"\ncall = \"work.js#f\"\nthen = \"stop\"\n[[phase]]\nname = \"none\"\ncall = \"work.js#none\"\n\
                  [[phase]]\nname = \"file\"\ncall = \"other.js#f\"\nat_end = { collect = true }\n";
    let trial = site.trial("node", "node main.js", phases);
    assert_eq!((trial.ending.outcome, guards(&trial)), (Outcome::Ok, vec!["phase_never_began"; 3]));
    let messages: Vec<&str> = trial.findings.iter().map(|finding| finding.message.as_str()).collect();
    // Older versions cannot detect whether a module that was never loaded would have been one of ES.
    let hooks_esm = node >= (20, 6) || (node.0 == 18 && node >= (18, 19));
    let unseen = if hooks_esm { "no module of this name" } else { "ES modules cannot be hooked" };
    let parts = ["was never called", "no such export", unseen];
    assert!(messages.iter().zip(parts).all(|(message, part)| message.contains(part)), "{messages:?}");
    let called = format!("{main} require('./work.js').f();");
    let site = Site::new(&[("work.js", "exports.f = () => new Promise(() => {});"), ("main.js", &called)]);
    let trial = site.trial("node", "node main.js", "[[phase]]\nname = \"f\"\ncall = \"work.js#f\"\n");
    assert_eq!((phase(&trial, "f").completion, guards(&trial)), (Completion::Partial, vec!["phase_never_ended"]));
}

/// The error of an experiment that cannot be run.
fn refused(site: &Site, command: &str, body: &str) -> String {
    fs::write(site.bench.path("e.toml"), format!("[compare]\nblocks = 1\n[observe]\ncare = \"light\"\n{body}"))
        .unwrap();
    let output = site.bench.prony(&[command, "e.toml"]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{text}");
    text
}

const SITE: &str = "exports.f = (n) => n;";

#[test]
fn a_call_that_fits_several_files_is_refused_before_anything_runs() {
    let Some(_) = version("node") else { return };
    let main = "require('plug/site').f(1); require('./site').f(1);";
    let site = Site::new(&[("site.js", SITE), ("node_modules/plug/site.js", SITE), ("main.js", main)]);
    let phase = |call: &str| format!("[[phase]]\nname = \"f\"\ncall = \"{call}\"\nthen = \"stop\"\n");
    let body = |call: &str| format!("{}{}", Site::program("node", "node main.js"), phase(call));
    for command in ["check", "run"] {
        let text = refused(&site, command, &body("site.js#f"));
        assert!(text.contains("the function `site.js#f` of phase `f` matches 2 files"), "{text}");
        assert!(text.contains("`./node_modules/plug/site.js#f`, `./site.js#f`"), "{text}");
        assert!(text.contains("e.toml:13:9") && text.contains("or its package: `plug/site.js#f`"), "{text}");
    }
    assert!(!site.bench.path("prony.db").exists(), "nothing was run");
    for (call, file) in [("./site.js#f", "/site/site.js"), ("plug/site.js#f", "/node_modules/plug/site.js")] {
        let trial = site.trial("node", "node main.js", &phase(call));
        assert_eq!(amount(&trial, "f", Metric::Operations), 1.0);
        let calls = &trial.program().unwrap().calls;
        assert!(calls["f"].file.as_ref().unwrap().ends_with(file), "{calls:?}");
    }
}

/// The hint offered the refused name itself.
#[test]
fn a_package_that_lies_in_two_places_is_not_offered_as_the_name_of_one() {
    let Some(_) = version("node") else { return };
    let copies = [("node_modules/p/i.js", SITE), ("node_modules/x/node_modules/p/i.js", SITE)];
    let refused = |more: &[(&str, &str)], call: &str| {
        let site = Site::new(&[&copies[..], more].concat());
        let body = format!("{}[[phase]]\nname = \"f\"\ncall = \"{call}\"\n", Site::program("node", "node main.js"));
        refused(&site, "check", &body)
    };
    let text = refused(&[], "p/i.js#f");
    let hint = "whole path of one file from the program's directory: `./node_modules/p/i.js#f`";
    assert!(text.contains(hint) && !text.contains("its package:"), "{text}");
    let text = refused(&[("node_modules/q/i.js", SITE)], "i.js#f");
    assert!(text.contains("or its package: `q/i.js#f`"), "{text}");
}

#[test]
fn a_call_that_fits_several_files_of_the_built_copy_ends_the_run() {
    let Some(_) = version("node") else { return };
    let site = Site::new(&[("site.js", SITE), ("main.js", "require('./site').f(1);")]);
    let built = "copy = \"variant\"\nbuild = \"mkdir dist && cp site.js dist\"\n";
    let program = Site::program("node", "node main.js").replace("copy = \"none\"\n", built);
    let body = format!("{program}[[phase]]\nname = \"f\"\ncall = \"site.js#f\"\n");
    let text = refused(&site, "run", &body);
    assert!(text.contains("matches 2 files: `./dist/site.js#f`, `./site.js#f`"), "{text}");
}

#[test]
fn a_second_file_that_is_loaded_and_fits_a_call_ends_the_run_without_a_figure() {
    let refused = |runtime: &str, site: &Site, command: &str, call: &str| {
        let phases = format!("[[phase]]\nname = \"f\"\ncall = \"{call}\"\n");
        let text = refused(site, "run", &format!("{}{phases}", Site::program(runtime, command)));
        assert_eq!(site.bench.data().trials.len(), 0, "no trial has a figure");
        text
    };
    if version("node").is_some() {
        let main = "require('./site').f(1); const os = require('os'), fs = require('fs'); \
                    const other = fs.mkdtempSync(os.tmpdir() + '/x') + '/site.js'; fs.copyFileSync('site.js', other); \
                    require(other).f(1); setTimeout(() => {}, 600000);";
        let site = Site::new(&[("site.js", SITE), ("main.js", main)]);
        let text = refused("node", &site, "node main.js", "site.js#f");
        assert!(text.contains("matches 2 files") && text.contains("`./site.js#f`"), "{text}");
        assert!(text.contains("write the whole path of one file"), "{text}");
    }
    if version("python3").is_some() {
        let main = "import sys\nsys.path.insert(0, 'a')\nimport work\nwork.f()\ndel sys.modules['work']\n\
                    sys.path.insert(0, 'b')\nimport work\nwork.f()\n";
        let files = [("a/work.py", "def f(): pass\n"), ("b/work.py", "def f(): pass\n"), ("main.py", main)];
        let text = refused("python", &Site::new(&files), "python3 main.py", "work:f");
        assert!(text.contains("a/work.py`") && text.contains("b/work.py`"), "{text}");
    }
}

#[test]
fn a_function_that_was_never_called_is_reported_where_the_trial_fails() {
    let Some(_) = version("node") else { return };
    let main = "require('./work.js'); process.exit(3);";
    let site = Site::new(&[("work.js", "exports.f = () => 1;"), ("main.js", main)]);
    let phases = "[[phase]]\nname = \"f\"\ncall = \"work.js#f\"\n[[phase]]\nname = \"none\"\ncall = \"work.js#none\"\n\
                  [[phase]]\nname = \"line\"\nbegin = { line = 'never written' }\n";
    let trial = site.trial("node", "node main.js", phases);
    assert_eq!(trial.ending.outcome, Outcome::Failed { code: Some(3) }, "{:?}", trial.ending);
    assert_eq!(guards(&trial), ["phase_never_began"; 2], "a line may come later than a failure");
    let messages: Vec<&str> = trial.findings.iter().map(|finding| finding.message.as_str()).collect();
    let parts = ["work.js` but was never called", "no such export"];
    assert!(messages.iter().zip(parts).all(|(message, part)| message.contains(part)), "{messages:?}");
}

/// A function that made a generator was "1380 times faster" than one that did the work.
fn has_no_figures(trial: &TrialRecord, phase: &str, call: &str) {
    let why = format!("`{call}` returned a generator: its work is done after the call");
    let found = trial.phases.iter().find(|one| one.name == phase).unwrap();
    for metric in [Metric::Time, Metric::Wall, Metric::Rate, Metric::Cpu, Metric::LatencyMax] {
        let reading = found.reading(MetricKey::amount(metric));
        assert!(reading.is_none_or(|reading| reading.measured().is_none()), "{reading:?}");
    }
    let time = found.reading(MetricKey::amount(Metric::Time)).unwrap();
    assert_eq!(*time, Reading::Missing(Why::DoesNotCount(why.as_str().into())));
    let said = trial.findings.iter().find(|one| one.guard == "work_after_call" && one.phase.as_deref() == Some(phase));
    assert!(said.unwrap().message.starts_with(&why), "{said:?}");
}

#[test]
fn a_function_that_returns_a_generator_has_no_time() {
    let begin = "{ line = 'begins' }";
    let phases = |items: &str, list: &str| {
        format!(
            "[[phase]]\nname = \"items\"\ncall = \"{items}\"\n[[phase]]\nname = \"list\"\ncall = \"{list}\"\n\
             [[phase]]\nname = \"until\"\nbegin = {begin}\nend = {{ call = \"{items}\" }}\n"
        )
    };
    if version("node").is_some() {
        let work = "exports.items = function* () { yield 1; }; exports.list = () => [1];";
        let main = "const w = require('./work.js'); console.log('begins');
                    setTimeout(() => console.log(...w.items(), ...w.list()), 300);";
        let site = Site::new(&[("work.js", work), ("main.js", main)]);
        let trial = site.trial("node", "node main.js", &phases("work.js#items", "work.js#list"));
        ["items", "until"].iter().for_each(|phase| has_no_figures(&trial, phase, "work.js#items"));
        assert!(amount(&trial, "list", Metric::Time) > 0.0);
    }
    if version("python3").is_some() {
        let work = "def items():\n    yield 1\ndef listed():\n    return [1]\n";
        let main = "import time, work\nprint('begins', flush=True)\ntime.sleep(0.3)\n\
                    print(*work.items(), *work.listed())\n";
        let site = Site::new(&[("work.py", work), ("main.py", main)]);
        let trial = site.trial("python", "python3 main.py", &phases("work:items", "work:listed"));
        ["items", "until"].iter().for_each(|phase| has_no_figures(&trial, phase, "work:items"));
        assert!(amount(&trial, "list", Metric::Time) > 0.0);
    }
}

#[test]
fn a_program_ends_where_its_function_returned() {
    let Some(_) = version("node") else { return };
    let main = "require('./work.js').load(1000); console.log('went on'); setTimeout(() => {}, 600000);";
    let site = Site::new(&[("work.js", WORK), ("main.js", main)]);
    let phase = |more: &str| format!("[[phase]]\nname = \"load\"\ncall = \"work.js#load\"\nthen = \"stop\"\n{more}");
    let trial = site.trial("node", "node main.js", &phase("at_end = { collect = true }\n"));
    assert_eq!((trial.ending.outcome, said(&trial)), (Outcome::Ok, ""));
    assert_eq!(probe(&trial).suspensions[0].went_on, Some(Because::Stop));
    assert!(
        gauge(&trial, "load", Metric::HeapUsed, Stat::End) > 0.0 && gauge(&trial, "load", Metric::Rss, Stat::End) > 0.0
    );
    let below = "const c = require('child_process').spawnSync('node', ['main.js']); setTimeout(() => {}, 600000);";
    let site = Site::new(&[("work.js", WORK), ("main.js", main), ("parent.js", below)]);
    let trial = site.trial("node", "node parent.js", &phase(""));
    assert_eq!((trial.ending.outcome, said(&trial)), (Outcome::Ok, ""), "its parent goes too");
    if version("python3").is_some() {
        let main = "import work, time\nwork.f()\nprint('went on', flush=True)\ntime.sleep(600)\n";
        let site = Site::new(&[("work.py", "def f():\n    return 1\n"), ("main.py", main)]);
        let trial = site.trial("python", "python3 main.py", &phase("").replace("work.js#load", "work:f"));
        assert_eq!((trial.ending.outcome, said(&trial)), (Outcome::Ok, ""));
    }
}
