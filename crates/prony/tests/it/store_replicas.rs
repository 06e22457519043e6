//! Tests processes that share a store, through the real binary: the same answers however many they are, metrics of each,
//! and outcomes where one of them fails.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Child, Command, Stdio};

use prony_model::metric::{Metric, MetricKey, Stat};
use prony_model::outcome::{OutOfMemory, Outcome};
use prony_model::record::{MetricKeyText, PhaseRecord, TrialRecord};
use prony_os::limits::{State, capability};

use crate::bench::{Bench, PRONY, alive, amount, eventually, guards, scratches};

const RECORDS: f64 = 2000.0;

/// Reads by several processes, as a queue and in equal shares, then by one; with a change and a new opening in between.
const SHARED: &str = r#"
[factors]
workers = [1, 3]
engine  = ["lmdb", "sqlite"]
[store]
engine = "{engine}"
[data]
records  = 2_000
encoding = "json"
[data.document]
id   = "{i}"
step = { sequence = 0 }
[[phase]]
name = "write"
put  = { transaction = { batch = 1_000 } }
[[phase]]
name = "queue"
get  = { replicas = "{workers}", share = "queue" }
[[phase]]
name = "equal"
find = { replicas = "{workers}", threads = 2, count = 30, query = { where = { step = { gte = "{doc.step}" } } } }
[[phase]]
name   = "change"
update = { transaction = { batch = 1_000 } }
[[phase]]
name = "whole"
scan = { replicas = "{workers}", count = 6 }
[[phase]]
name   = "reopen"
reopen = {}
[[phase]]
name = "again"
get  = { replicas = "{workers}", order = "key" }
[[phase]]
name   = "check"
verify = {}
[[phase]]
name  = "close"
close = {}
"#;

fn phase<'t>(trial: &'t TrialRecord, name: &str) -> &'t PhaseRecord {
    trial.phases.iter().find(|phase| phase.name == name).unwrap()
}

/// A measured value of one of the instances of a phase.
#[track_caller]
fn of(trial: &TrialRecord, name: &str, instance: &str, key: MetricKey) -> f64 {
    let readings = phase(trial, name).readings.get(instance).unwrap_or_else(|| panic!("no {instance} in {name}"));
    let reading = readings.get(&MetricKeyText(key)).unwrap_or_else(|| panic!("no {key:?} of {instance} in {name}"));
    *reading.measured().unwrap_or_else(|| panic!("{instance}.{key:?} in {name}: {reading:?}"))
}

fn workers(trial: &TrialRecord) -> usize {
    trial.phases.iter().flat_map(|phase| phase.readings.keys()).filter_map(|name| name.strip_prefix("replica.")).count()
        / 4
}

#[test]
fn any_number_of_processes_gives_the_same_answers() {
    let bench = Bench::new();
    let data = bench.run(SHARED);
    assert_eq!(data.trials.len(), 4);
    let mut answers: BTreeMap<&str, Vec<_>> = BTreeMap::new();
    let mut counts = Vec::new();
    for trial in &data.trials {
        assert!(trial.ending.outcome.is_ok(), "{:?}", trial.ending);
        // `reopen` closes the store first; SQLite explains its queries, and an update changes no field of these documents.
        let mut found = guards(trial);
        found.retain(|guard| !["note_of_the_worker", "query_plan", "unchanged_writes"].contains(guard));
        assert_eq!((found, trial.conditions.killed_at_the_end), (vec![], 0));
        for name in ["queue", "equal", "whole", "again"] {
            let answer = phase(trial, name).answer.clone().unwrap();
            assert!(answer.comparable, "{name}");
            answers.entry(name).or_default().push((answer.rows, answer.digest));
        }
        assert_eq!(amount(trial, "queue", Metric::Distinct), RECORDS);
        assert_eq!(amount(trial, "queue", Metric::Operations), RECORDS);
        counts.push(workers(trial));
    }
    for (name, all) in answers {
        assert!(all.iter().all(|answer| *answer == all[0]), "{name}: {all:?}");
    }
    counts.sort_unstable();
    assert_eq!(counts, [1, 1, 3, 3], "also a single process is listed where `replicas` is stated");
}

#[test]
fn each_process_has_metrics_and_all_of_them_have_the_phases() {
    let bench = Bench::new();
    let data = bench.run(&SHARED.replace("[1, 3]", "[3]").replace(", \"sqlite\"", ""));
    let trial = &data.trials[0];
    let operations = MetricKey::amount(Metric::Operations);
    let each = |name, key| (1..=3).map(|n| of(trial, name, &format!("replica.{n}"), key)).collect::<Vec<f64>>();
    assert_eq!(each("queue", operations).iter().sum::<f64>(), RECORDS);
    let thirds = each("again", operations);
    assert!(thirds.iter().sum::<f64>() == RECORDS && thirds.iter().all(|n| (n - RECORDS / 3.0).abs() < 1.0));
    let whole = |metric| of(trial, "again", "replicas", MetricKey::amount(metric));
    assert_eq!(whole(Metric::Operations), RECORDS);
    // The span of all processes is inside the phase, and that of each inside that of all.
    let (begin, end) = (phase(trial, "again").begin.unwrap(), phase(trial, "again").end.unwrap());
    assert!(whole(Metric::Makespan) <= end.since(begin).as_nanos() as f64);
    let walls = each("again", MetricKey::amount(Metric::Wall));
    let longest = walls.iter().copied().fold(0.0, f64::max);
    assert!(whole(Metric::Makespan) >= longest, "{walls:?}");
    let rate = RECORDS * 1e9 / whole(Metric::Makespan);
    assert!((whole(Metric::Rate) / rate - 1.0).abs() < 1e-9, "as replicas of a program");
    // A phase begins after the one before, whoever ran that.
    let begins: Vec<_> = trial.phases.iter().map(|phase| (phase.begin.unwrap(), phase.end.unwrap())).collect();
    assert!(begins.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{begins:?}");
    // Of pages that processes share each has its part, so that the sum of all is the sum of parts.
    let ends = each("again", MetricKey::gauge(Metric::Pss, Stat::End));
    let sum = of(trial, "again", "", MetricKey::gauge(Metric::Pss, Stat::End));
    assert!(ends.iter().all(|pss| *pss > 0.0) && (ends.iter().sum::<f64>() / sum - 1.0).abs() < 1e-6, "{ends:?} {sum}");
    let first = of(trial, "queue", "replicas", MetricKey::gauge(Metric::Pss, Stat::Max));
    assert!(first >= of(trial, "queue", "", MetricKey::gauge(Metric::Pss, Stat::End)) * (1.0 - 1e-6));
    let cpu = MetricKey::amount(Metric::Cpu);
    // The group's CPU time and those of its processes are read one after the other.
    let (sum, all) = (each("again", cpu).iter().sum::<f64>(), of(trial, "again", "", cpu));
    assert!((sum - all).abs() < 20e6 + 0.2 * all, "{sum} {all}");
    assert!(!phase(trial, "change").readings.contains_key("replica.1"), "one process changes the store");
}

/// A store in which three processes read for long.
const LONG: &str = "[store]\nengine = \"lmdb\"\n[data]\nrecords = 1_000\nkey = \"{i}\"\nvalue = { bytes = 100 }\n\
                    [[phase]]\nname = \"write\"\nput = {}\n[[phase]]\nname = \"read\"\n\
                    get = { replicas = 3, count = 1_000_000_000 }\n[compare]\nblocks = 1\n";

/// The workers whose store is in a folder, in any order: numbers of processes begin anew.
fn pids(bench: &Bench) -> Vec<u32> {
    let is_worker = |pid: &u32| {
        let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let directory = fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
        arguments.ends_with(b"\0worker\0") && directory.starts_with(bench.dir.path().canonicalize().unwrap())
    };
    let all = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    all.filter(is_worker).collect()
}

fn begin(bench: &Bench) -> Child {
    bench.write("e.toml", LONG);
    let mut command = Command::new(PRONY);
    command.args(["run", "e.toml"]).current_dir(bench.dir.path()).env("PRONY_RUNS", bench.path("runs"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn kill(pid: u32, signal: rustix::process::Signal) {
    rustix::process::kill_process(rustix::process::Pid::from_raw(pid.cast_signed()).unwrap(), signal).unwrap();
}

#[test]
fn a_process_that_is_killed_is_named_and_ends_the_trial() {
    let bench = Bench::new();
    let mut prony = begin(&bench);
    eventually("three workers run", || pids(&bench).len() == 3);
    let all = pids(&bench);
    kill(all[2], rustix::process::Signal::KILL);
    prony.wait().unwrap();
    let trial = &bench.data().trials[0];
    assert_eq!(trial.ending.outcome, Outcome::Killed, "{:?}", trial.ending);
    assert!(trial.ending.evidence[0].starts_with("`replica."), "{:?}", trial.ending);
    assert!(all.iter().all(|pid| !alive(&pid.to_string())));
    assert_eq!(scratches(bench.dir.path()), Vec::<std::path::PathBuf>::new());
}

#[test]
fn an_interrupt_leaves_no_process() {
    let bench = Bench::new();
    let mut prony = begin(&bench);
    eventually("three workers run", || pids(&bench).len() == 3);
    let all = pids(&bench);
    kill(prony.id(), rustix::process::Signal::INT);
    prony.wait().unwrap();
    assert!(all.iter().all(|pid| !alive(&pid.to_string())));
    assert_eq!(scratches(bench.dir.path()), Vec::<std::path::PathBuf>::new());
}

#[test]
fn processes_of_a_killed_run_end_with_it() {
    let bench = Bench::new();
    let mut prony = begin(&bench);
    eventually("three workers run", || pids(&bench).len() == 3);
    let all = pids(&bench);
    prony.kill().unwrap();
    prony.wait().unwrap();
    eventually("they end", || all.iter().all(|pid| !alive(&pid.to_string())));
}

#[test]
fn a_memory_limit_is_of_all_processes_together() {
    if let State::No(why) = capability().memory {
        assert_ne!(std::env::var("PRONY_REQUIRE_ALL").as_deref(), Ok("1"), "memory limits are required: {why}");
        println!("SKIPPED: no memory limits: {why}");
        return;
    }
    let bench = Bench::new();
    // SQLite's cache is of each process.
    let text = |limit: &str| {
        format!(
            "[store]\nengine = \"sqlite\"\noptions = {{ cache = \"24 MiB\" }}\n[limits]\nmemory = \"{limit}\"\n[data]\n\
             records = 30_000\nkey = \"{{i}}\"\nvalue = {{ bytes = 1000 }}\n[[phase]]\nname = \"write\"\n\
             put = {{ transaction = {{ batch = 1_000 }} }}\n[[phase]]\nname = \"read\"\nget = {{ replicas = 3 }}\n"
        )
    };
    let trial = bench.trial(&text("44 MiB"));
    assert_eq!(trial.ending.outcome, Outcome::OutOfMemory { by: OutOfMemory::Limit }, "{:?}", trial.ending);
    assert_eq!(trial.ending.phase.as_deref(), Some("read"));
    assert!(bench.trial(&text("1 GiB")).ending.outcome.is_ok());
}
