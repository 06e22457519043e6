//! Programs of Node and CPython, probed through the real binary.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use prony_model::metric::{Metric, MetricKey, Stat};
use prony_model::outcome::{OutOfMemory, Outcome};
use prony_model::reading::Reading;
use prony_model::record::probe::Because;
use prony_model::record::{Completion, MetricKeyText, PhaseRecord, TrialRecord};
use prony_model::units::Nanos;
use prony_results::Database;
use rustix::process::{Pid, Signal, kill_process};

use crate::programs::{Bench, PRONY, alive, amount, guards, probe, reading, said};

/// The version of a runtime's program, or `None`, said aloud; with `PRONY_REQUIRE_ALL=1` it must be there.
pub(crate) fn version(program: &str) -> Option<(u32, u32)> {
    let output = Command::new(program).arg("--version").output().ok().filter(|output| output.status.success());
    if output.is_none() {
        assert_ne!(std::env::var("PRONY_REQUIRE_ALL").as_deref(), Ok("1"), "`{program}` is required and missing");
        println!("SKIPPED: `{program}` is not there");
    }
    let text = String::from_utf8(output?.stdout).unwrap();
    let mut numbers =
        text.trim_start_matches(|c: char| !c.is_ascii_digit()).split('.').map(|n| n.trim().parse().unwrap());
    Some((numbers.next().unwrap(), numbers.next().unwrap()))
}

/// A folder with a program's files, which must be as they were afterwards.
pub(crate) struct Site {
    bench: Bench,
    files: Vec<(String, String)>,
}

impl Site {
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let bench = Bench::new();
        let files = files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        let site = Self { bench, files };
        for (name, text) in &site.files {
            let path = site.path(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        site
    }

    fn path(&self, name: &str) -> PathBuf {
        self.bench.path("site").join(name)
    }

    /// The experiment without its phases; the program works in the directory itself.
    fn program(runtime: &str, command: &str) -> String {
        format!(
            "[program.x]\ncommand = \"{command}\"\nruntime = \"{runtime}\"\ndirectory = \"site\"\ncopy = \"none\"\n\
             env = {{ PYTHONDONTWRITEBYTECODE = 1 }}\n"
        )
    }

    pub(crate) fn trial(&self, runtime: &str, command: &str, phases: &str) -> TrialRecord {
        let trial = self.bench.trial(&format!("{}{phases}", Self::program(runtime, command)));
        let top = fs::read_dir(self.path("")).unwrap().count();
        let expected: std::collections::BTreeSet<&str> =
            self.files.iter().map(|(name, _)| name.split('/').next().unwrap()).collect();
        assert_eq!(top, expected.len(), "nothing was written into the program's directory");
        trial
    }
}

pub(crate) fn phase<'t>(trial: &'t TrialRecord, name: &str) -> &'t PhaseRecord {
    trial.phases.iter().find(|found| found.name == name).unwrap()
}

pub(crate) fn gauge(trial: &TrialRecord, phase: &str, metric: Metric, stat: Stat) -> f64 {
    reading(trial, phase, MetricKey::gauge(metric, stat)).unwrap_or_else(|| panic!("no {}: {trial:?}", metric.name()))
}

pub(crate) fn why(trial: &TrialRecord, phase_name: &str, key: MetricKey) -> String {
    match phase(trial, phase_name).reading(key) {
        Some(Reading::Missing(why)) => why.to_string(),
        other => panic!("{other:?}"),
    }
}

const USED: MetricKey = MetricKey::gauge(Metric::HeapUsed, Stat::End);

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
    for shown in ["heap.used.max", "heap.total.max", "external.max", "gc.count", "by its own account"] {
        assert!(text.contains(shown), "{shown}: {text}");
    }
    let csv = fs::read_to_string(site.bench.path("o.csv")).unwrap();
    assert!(csv.contains("heap.used.max") && csv.contains("heap.arraybuffers.end"), "{csv}");
}

#[test]
fn what_cannot_be_read_says_why() {
    let bench = Bench::new();
    let trial = |runtime: &str, command: &str| bench.trial(&format!("[program.x]\ncommand = \"{command}\"\n{runtime}"));
    assert!(why(&trial("", "true"), "run", USED).contains("names no `runtime`"));
    assert!(why(&trial("runtime = \"node\"\n", "true"), "run", USED).contains("no probe said hello"));
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
    assert!(text.contains("there are `node` and `python`; programs of other languages need no `--runtime`"), "{text}");
}

const WORK: &str = "
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
    // Older versions cannot tell whether a module that was never loaded would have been one of ES.
    let hooks_esm = node >= (20, 6) || (node.0 == 18 && node >= (18, 19));
    let unseen = if hooks_esm { "no module of this name" } else { "ES modules cannot be hooked" };
    let parts = ["and nothing called it", "no such export", unseen];
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
        assert!(text.contains("the call `site.js#f` of phase `f` fits 2 files"), "{text}");
        assert!(text.contains("`./node_modules/plug/site.js#f`, `./site.js#f`"), "{text}");
        assert!(text.contains("e.toml:13:9") && text.contains("or by its package: `plug/site.js#f`"), "{text}");
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
    let hint = "by its whole path from the program's directory: `./node_modules/p/i.js#f`";
    assert!(text.contains(hint) && !text.contains("by its package"), "{text}");
    let text = refused(&[("node_modules/q/i.js", SITE)], "i.js#f");
    assert!(text.contains("or by its package: `q/i.js#f`"), "{text}");
}

#[test]
fn a_call_that_fits_several_files_of_the_built_copy_ends_the_run() {
    let Some(_) = version("node") else { return };
    let site = Site::new(&[("site.js", SITE), ("main.js", "require('./site').f(1);")]);
    let built = "copy = \"variant\"\nbuild = \"mkdir dist && cp site.js dist\"\n";
    let program = Site::program("node", "node main.js").replace("copy = \"none\"\n", built);
    let body = format!("{program}[[phase]]\nname = \"f\"\ncall = \"site.js#f\"\n");
    let text = refused(&site, "run", &body);
    assert!(text.contains("fits 2 files: `./dist/site.js#f`, `./site.js#f`"), "{text}");
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
        assert!(text.contains("fits 2 files") && text.contains("`./site.js#f`"), "{text}");
        assert!(text.contains("name one of them by its whole path"), "{text}");
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
    let parts = ["work.js` and nothing called it", "no such export"];
    assert!(messages.iter().zip(parts).all(|(message, part)| message.contains(part)), "{messages:?}");
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
    let trial = site.trial("node", "node main.js", &phases);
    assert_eq!(trial.ending.outcome, Outcome::Ok, "{:?}", trial.ending);
    assert!(!guards(&trial).contains(&"hold_failed"), "{:?}", trial.findings);
    let used = *phase_of(&trial, "fill").measured().unwrap_or_else(|| panic!("{:?}", phase(&trial, "fill").readings));
    (used / 1e6, trial)
}

fn phase_of(trial: &TrialRecord, name: &str) -> Reading<f64> {
    phase(trial, name).reading(USED).cloned().unwrap()
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

/// What a job has seen through a `WeakRef` stays until the job ends: `if (ref.deref()) ref.deref().x` must not fail because
/// prony collected in between, unless the file asks for that.
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
        const { fill } = require('./cache.js');
        fill('weak');
        for (const until = Date.now() + 100; Date.now() < until; );
        setTimeout(() => console.log('done'), 20);
    ";
    let phases = "[[phase]]\nname = \"fill\"\ncall = \"cache.js#fill\"\nat_end = { collect = true, wait = \"300 ms\" }\n\
                  [[phase]]\nname = \"rest\"\nbegin = { after = \"fill\" }\nend = { line = 'done' }\n";
    let site = Site::new(&[("cache.js", CACHE), ("main.js", main)]);
    let trial = site.trial("node", "node main.js", phases);
    let suspensions = &probe(&trial).suspensions;
    let [first, second] = suspensions.as_slice() else { panic!("{suspensions:?}") };
    assert_eq!(first.went_on, Some(Because::Later));
    assert!(second.late >= Some(Nanos::from_millis(100)) && second.collected > Some(Nanos::ZERO));
    let suspended: f64 = suspensions.iter().map(|suspension| suspension.suspended.unwrap().as_nanos() as f64).sum();
    assert!(suspended >= 300e6 && (amount(&trial, "fill", Metric::Suspended) - suspended).abs() < 1e6, "{suspended}");
    // The second phase has the 100 ms in which the program ran, and none of the wait.
    let (fill, rest) = (phase(&trial, "fill"), phase(&trial, "rest"));
    assert_eq!(fill.end, rest.begin, "the boundary is the function's return");
    let real = rest.end.unwrap().since(rest.begin.unwrap()).as_nanos() as f64;
    let wall = amount(&trial, "rest", Metric::Wall);
    assert!(wall >= 95e6 && (real - wall - suspended).abs() < 1e6, "{real} is {wall} and {suspended}");
    let before = gauge(&trial, "fill", Metric::HeapUsed, Stat::Before);
    assert!(before > 40e6 && gauge(&trial, "fill", Metric::HeapUsed, Stat::End) < before - 38e6);
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
        assert!(said.contains("after the end") && said.contains("`weak = \"clear\"`"), "{said}");
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
    assert!(said.contains("another phase returned in the same turn") && !said.contains("program ended"), "{said}");
    assert!(gauge(&trial, "second", Metric::HeapUsed, Stat::End) > 0.0);
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
        let external = |stat| gauge(&trial, "fill", Metric::External, stat);
        assert!(
            external(Stat::Before) > 100e6 && (10e6..14e6).contains(&external(Stat::End)),
            "{}",
            external(Stat::End)
        );
    }
}

#[test]
fn phase_limit_excludes_suspensions() {
    let Some(_) = version("node") else { return };
    let main = "const w = require('./work.js'); w.load(10); w.load(10);";
    let site = Site::new(&[("work.js", WORK), ("main.js", main)]);
    let phases = "[[phase]]\nname = \"load\"\ncall = \"work.js#load\"\nlimit = \"2 s\"\nat_end = { wait = \"1200 ms\" }\n\
                  [[phase]]\nname = \"whole\"\nlimit = \"2 s\"\nend = { line = 'x' }\n";
    let trial = site.trial("node", "node main.js", phases);
    assert_eq!(trial.ending.outcome, Outcome::Ok, "{:?}", trial.ending);
    assert!(amount(&trial, "load", Metric::Suspended) >= 2.4e9 && amount(&trial, "load", Metric::Wall) < 1.2e9);
    assert_eq!(probe(&trial).suspensions.len(), 2);
}

#[test]
fn suspension_with_a_running_worker_makes_the_enclosing_phase_time_missing() {
    let Some(_) = version("node") else { return };
    let main = "
        const { Worker, isMainThread, parentPort } = require('worker_threads');
        const twice = (load) => { load(10); setTimeout(() => load(10), 1); };
        if (isMainThread) new Worker(__filename).once('message', () => twice(require('./work.js').load));
        else { parentPort.postMessage('go'); const until = Date.now() + 2000; while (Date.now() < until); }
    ";
    let site = Site::new(&[("work.js", WORK), ("main.js", main)]);
    let phases = "[[phase]]\nname = \"load\"\ncall = \"work.js#load\"\nat_end = { wait = \"500 ms\" }\n";
    let trial = site.trial("node", "node main.js", phases);
    assert!(amount(&trial, "load", Metric::Suspended) >= 1e9 && amount(&trial, "load", Metric::Operations) == 2.0);
    for metric in [Metric::Wall, Metric::Cpu, Metric::MinorFaults] {
        let why = why(&trial, "load", MetricKey::amount(metric));
        // On a busy machine the boundaries of a phase this short are read too late for any figure.
        assert!(
            ["continued while one was suspended", "may have read that up to"].iter().any(|text| why.contains(text)),
            "{why}"
        );
    }
}

#[test]
fn killed_suspended_process_leaves_limits_in_force() {
    let Some(_) = version("node") else { return };
    let main = "process.send('now'); require('./work.js').load(10);";
    let parent = "const child = require('child_process').fork('./main.js'); setInterval(() => {}, 1e6); \
                  child.once('message', () => setTimeout(() => child.kill('SIGKILL'), 700));";
    let site = Site::new(&[("work.js", WORK), ("main.js", main), ("parent.js", parent)]);
    let phases = "[[phase]]\nname = \"load\"\ncall = \"work.js#load\"\nat_end = { wait = \"600 s\" }\n\
                  [[phase]]\nname = \"whole\"\nlimit = \"2 s\"\nend = { line = 'x' }\n";
    let trial = site.trial("node", "node parent.js", phases);
    assert_eq!(trial.ending.outcome, Outcome::TimedOut, "{:?}", trial.ending);
    assert!(guards(&trial).contains(&"hold_failed"), "{:?}", trial.findings);
    let suspension = &probe(&trial).suspensions[0];
    assert!(suspension.fault.as_ref().unwrap().contains("ended while prony had suspended it"), "{suspension:?}");
}

/// A program held for ten minutes: the runner, and the program's own process.
fn suspended_for_long(site: &Site) -> (Child, String) {
    let phase = "[[phase]]\nname = \"load\"\ncall = \"work.js#load\"\nat_end = { wait = \"600 s\" }\n";
    let head = "[compare]\nblocks = 1\n[observe]\ncare = \"light\"\n";
    let body = format!("{head}{}inherit = [\"PIDFILE\"]\n{phase}", Site::program("node", "node main.js"));
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

fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is() {
        assert!(Instant::now() < deadline, "not within a minute: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn suspended_program_ends_with_its_runner() {
    let Some(_) = version("node") else { return };
    let main = "require('fs').writeFileSync(process.env.PIDFILE, String(process.pid)); require('./work.js').load(10);";
    for (signal, code) in [(Signal::INT, Some(1)), (Signal::KILL, None)] {
        let site = Site::new(&[("work.js", WORK), ("main.js", main)]);
        let (mut runner, pid) = suspended_for_long(&site);
        assert!(alive(&pid));
        kill_process(Pid::from_raw(i32::try_from(runner.id()).unwrap()).unwrap(), signal).unwrap();
        assert_eq!(runner.wait().unwrap().code(), code);
        eventually("the program is gone", || !alive(&pid));
        eventually("no scratch is left", || suspensions(&site).is_empty());
    }
}
