//! Tests replicas of a program through the real binary: started together, measured separately, ended in every case.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};

use prony_model::metric::{Metric, MetricKey, Stat};
use prony_model::outcome::{OutOfMemory, Outcome};
use prony_model::reading::{Reading, Why};
use prony_model::record::effective::{Replica, ReplicaEnd};
use prony_model::record::{Completion, MetricKeyText, TrialRecord};
use prony_os::limits::{State, capability};
use prony_results::Database;

use crate::bench::{Bench, PRONY, alive, amount, eventually, finding, guards, scratches, version};

/// A program that says that it is ready and waits; its replicas run a script each, in which `$N` is their number.
fn waiting(count: &str, script: &str, more: &str) -> String {
    let script = script.replace('{', "{{").replace('}', "}}");
    format!(
        "[program.x]\nshell = true\ncommand = \"echo ready; exec sleep 600\"\n[program.x.replicas]\ncount = {count}\n\
         phase = \"queries\"\nenv = {{ N = \"{{instance}}\" }}\ncommand = '''{script}'''\n{more}"
    )
}

/// The phase that lasts until the last of them has ended.
const QUERIES: &str =
    "[[phase]]\nname = \"queries\"\nbegin = { line = '^ready$' }\nend = { replicas = \"ended\" }\nthen = \"stop\"\n";

/// What a replica says of itself to the main program: its process.
const HERE: &str = "echo $$ > $TMPDIR/$N.new; mv $TMPDIR/$N.new $TMPDIR/$N";

/// Waits until so many replicas were [`HERE`].
const ALL: &str = "until [ -e $TMPDIR/1 ] && [ -e $TMPDIR/2 ]; do sleep 0.01; done";

fn figure(trial: &TrialRecord, instance: &str, key: MetricKey) -> Reading<f64> {
    let phase = trial.phases.iter().find(|phase| phase.name == "queries").unwrap();
    let readings = phase.readings.get(instance).unwrap_or_else(|| panic!("no {instance}: {:?}", trial.effective));
    readings.get(&MetricKeyText(key)).cloned().unwrap_or_else(|| panic!("no {instance}.{key}"))
}

#[track_caller]
fn number(trial: &TrialRecord, instance: &str, name: &str) -> f64 {
    let reading = figure(trial, instance, name.parse().unwrap());
    *reading.measured().unwrap_or_else(|| panic!("{instance}.{name}: {reading:?}"))
}

fn why(trial: &TrialRecord, instance: &str, name: &str) -> String {
    match figure(trial, instance, name.parse().unwrap()) {
        Reading::Missing(why) => why.to_string(),
        Reading::Measured(value) => panic!("{instance}.{name} is {value}"),
    }
}

fn copies(trial: &TrialRecord) -> &[Replica] {
    &trial.program().unwrap().replicas.as_ref().unwrap().copies
}

fn ends(trial: &TrialRecord) -> Vec<ReplicaEnd> {
    copies(trial).iter().map(|copy| copy.end).collect()
}

fn pids(trial: &TrialRecord) -> Vec<String> {
    copies(trial).iter().map(|copy| copy.pid.unwrap().to_string()).collect()
}

/// What lived at the phase's end vouched for a replica that had ended between two samples.
#[test]
fn a_phase_has_no_memory_that_a_short_replica_had_between_samples() {
    let bench = Bench::new();
    let script = "x=$(head -c 30000000 /dev/zero | tr '\\0' a); echo ${#x}";
    let trial = bench.trial(&format!("{}{QUERIES}", waiting("1", script, "").replace("echo", "sleep 0.95; echo")));
    assert_eq!(trial.ending.outcome, Outcome::Ok, "{:?}", trial.ending);
    match figure(&trial, "", "anon.max".parse().unwrap()) {
        Reading::Measured(most) => assert!(most > 29e6, "{most}"),
        Reading::Missing(why) => {
            let reasons = ["lie too far apart", "no sample shows the peak memory"];
            assert!(reasons.iter().any(|reason| why.to_string().contains(reason)), "{why}");
        }
    }
}

/// Samples were counted from when the first process was made, and were far apart when the program began at last.
#[test]
fn nothing_is_sampled_before_the_program_begins() {
    let bench = Bench::new();
    let replicas = "[program.x]\ncommand = \"sleep 0.05\"\nreplicas = { count = 4, phase = \"run\" }\n";
    let trial = bench.trial(replicas);
    assert_eq!(trial.ending.outcome, Outcome::Ok, "{:?}", trial.ending);
    let database = Database::open(&bench.path("prony.db")).unwrap();
    let run = database.runs().unwrap().last().unwrap().id;
    let series = database.load_series(run, trial.trial.position).unwrap();
    let begin = trial.phases[0].begin.unwrap();
    let before: BTreeSet<_> =
        series.iter().flat_map(|series| &series.samples).map(|sample| sample.at).filter(|at| *at < begin).collect();
    assert!(before.len() <= 1, "the first snapshot's alone: {before:?} before {begin}");
}

#[test]
fn each_replica_has_its_own_env_output_and_figures() {
    let bench = Bench::new();
    let script = "head -c ${N}0000000 /dev/zero | cksum; ls $TMPDIR; echo note $N >&2; echo \"done 0.$N s - $((N * 100))\"; \
                  sleep 1; exec sleep 0.$N";
    let read = "read = '^done (?<time>[\\d.]+) s - (?<operations>\\d+)'\n";
    let trial = bench.trial(&format!(
        "{}{QUERIES}",
        waiting("3", script, read).replace("echo ready", ": > $TMPDIR/shared; echo ready")
    ));
    assert_eq!(trial.ending.outcome, Outcome::Ok, "{:?}", trial.ending);
    assert_eq!((trial.phases[0].completion, guards(&trial)), (Completion::Complete, vec![]));
    assert_eq!(ends(&trial), [ReplicaEnd::Ended; 3]);
    let wall = amount(&trial, "queries", Metric::Wall);
    let makespan = amount(&trial, "queries", Metric::Makespan);
    assert!(makespan <= wall && amount(&trial, "queries", Metric::Skew) <= makespan, "{makespan} of {wall}");
    for n in 1..=3 {
        let name = format!("replica.{n}");
        let of = |figure: &str| number(&trial, &name, figure);
        assert_eq!((of("time"), of("operations"), of("rate")), (1e8 * f64::from(n), 100.0 * f64::from(n), 1000.0));
        assert!(of("wall") >= 1e9 + 1e8 * f64::from(n) && of("wall") <= makespan, "{} of {makespan}", of("wall"));
        assert!(of("cpu") > 0.0 && of("faults.minor") > 0.0 && of("rss.max") > 0.0);
        assert!(of("pss.end") > 0.0 && of("rss.end") > 0.0, "read when it had reported and was still running");
        assert!(number(&trial, "replicas", "pss.max") >= of("pss.end"), "one of the summands");
        let copy = &copies(&trial)[n as usize - 1];
        assert_eq!(copy.env["N"], n.to_string());
        let time = MetricKeyText(MetricKey::amount(Metric::Time));
        assert_eq!(copy.resolution, [(time, 5e7)].into(), "`0.{n} s` is as exact as its digit");
        assert_eq!(copy.output.stderr.first, format!("note {n}\n"));
        assert!(copy.output.stdout.first.contains("\nshared\n"), "{copy:?}");
    }
    let database = Database::open(&bench.path("prony.db")).unwrap();
    let run = database.runs().unwrap().last().unwrap().id;
    let series = database.load_series(run, trial.trial.position).unwrap();
    let roles: BTreeSet<&str> = series.iter().map(|series| series.role.as_str()).collect();
    assert_eq!(roles, BTreeSet::from(["x", "replica.1", "replica.2", "replica.3"]), "each is sampled under its own");
    assert_eq!(
        amount(&trial, "queries", Metric::Operations),
        600.0,
        "those of the replicas, the program reported none"
    );
    assert_eq!((number(&trial, "replicas", "time"), number(&trial, "replicas", "operations")), (makespan, 600.0));
    assert_eq!(number(&trial, "replicas", "rate"), 600.0 * 1e9 / makespan);
    let sum: f64 = (1..=3).map(|n| number(&trial, &format!("replica.{n}"), "faults.minor")).sum();
    assert_eq!(number(&trial, "replicas", "faults.minor"), sum);
    assert!(amount(&trial, "queries", Metric::MinorFaults) >= sum, "they are in the whole phase's");
    assert!(amount(&trial, "queries", Metric::Cpu) >= 0.9 * number(&trial, "replicas", "cpu"));
    assert!(why(&trial, "", "rss.peak").contains("3 replicas"));
    assert!(why(&trial, "replicas", "rss.end").contains("no process was alive"));
}

/// Their counts made the phase complete, and their answer was compared.
#[test]
fn counts_and_answers_of_replicas_are_none_of_a_program_whose_lines_are_to_report_them() {
    let bench = Bench::new();
    let read = "read = '^(?<operations>\\d+) ops, (?<rows>\\d+) rows'\n";
    let own = "read = '^main did (?<operations>\\d+), (?<rows>\\d+) rows'\n";
    let trial = bench.trial(&format!("{}{QUERIES}{own}", waiting("2", "echo 7 ops, 2 rows", read)));
    assert!(guards(&trial).contains(&"read_nothing"), "{:?}", guards(&trial));
    assert!(why(&trial, "", "operations").contains("no line of the phase reported this metric"));
    assert_eq!((trial.phases[0].completion, &trial.phases[0].answer), (Completion::Uncounted, &None));
    assert_eq!(number(&trial, "replicas", "operations"), 14.0, "of all of them there is a sum");
}

#[test]
fn a_replica_that_fails_is_the_trials_outcome_and_is_named() {
    let bench = Bench::new();
    let ending = |script: &str| {
        let trial = bench.trial(&format!("{}{QUERIES}", waiting("2", script, "")));
        assert_eq!(ends(&trial), [ReplicaEnd::Ended; 2], "the others go on");
        trial.ending
    };
    let failed = ending("[ $N = 1 ] || { echo what went wrong >&2; exit 3; }");
    assert_eq!((failed.outcome, failed.phase.as_deref()), (Outcome::Failed { code: Some(3) }, Some("queries")));
    let shown = failed.evidence.join("\n");
    assert!(shown.contains("`replica.2`: ") && shown.contains("what went wrong"), "{shown}");
    assert_eq!(ending("[ $N = 2 ] || kill -SEGV $$").outcome, Outcome::Crashed { signal: 11 });
    let allowed = waiting("2", "exit 4", "").replace("shell = true", "shell = true\nsuccess = [0, 4]");
    assert_eq!(bench.trial(&format!("{allowed}{QUERIES}")).ending.outcome, Outcome::Ok);
}

#[test]
fn a_replica_that_cannot_be_executed_is_a_result() {
    let bench = Bench::new();
    let body = "[program.x]\ncommand = [\"sh\", \"-c\", \"echo ready; exec sleep 600\"]\n\
                replicas = { count = 2, phase = \"queries\", command = [\"./replica-{instance}\"] }\n";
    let trial = bench.trial(&format!("{body}{QUERIES}"));
    assert_eq!(trial.ending.outcome, Outcome::Failed { code: None });
    assert_eq!(ends(&trial), [ReplicaEnd::NotBegun; 2]);
    let shown = trial.ending.evidence.join("\n");
    assert!(shown.contains("`replica.1`: ") && shown.contains("./replica-1"), "{shown}");
    assert_eq!(trial.phases[0].readings.keys().collect::<Vec<_>>(), [""], "nothing ran that could have figures");
}

#[test]
fn a_replica_that_never_ends_runs_into_the_phases_time() {
    let bench = Bench::new();
    let script = format!(
        "[ $N = 1 ] || {{ setsid sleep 600 & echo $! > left; trap '' TERM; }}; {HERE}; [ $N = 1 ] || sleep 600"
    );
    // The limit is that of a phase that begins when all is as it is to stay.
    let ready = format!("{ALL}; while kill -0 $(cat $TMPDIR/1) 2>&-; do sleep 0.01; done; echo late; exec");
    let late =
        "[[phase]]\nname = \"late\"\nbegin = { line = '^late$' }\nend = { replicas = \"ended\" }\nlimit = \"100 ms\"\n";
    let body = format!("{}{QUERIES}{late}", waiting("2", &script, "").replacen("exec", &ready, 1));
    fs::create_dir(bench.path("site")).unwrap();
    let trial = bench.trial(&body.replace("shell = true", "shell = true\ndirectory = \"site\"\ncopy = \"none\""));
    assert_eq!((trial.ending.outcome, trial.ending.phase.as_deref()), (Outcome::TimedOut, Some("late")));
    assert!(
        trial.ending.evidence.contains(&"still running at that time: `replica.2`".to_owned()),
        "{:?}",
        trial.ending
    );
    assert_eq!(ends(&trial), [ReplicaEnd::Ended, ReplicaEnd::CutOff]);
    assert!(why(&trial, "replica.2", "wall").contains("had not ended when the program ended"));
    assert!(number(&trial, "replica.1", "wall") > 0.0);
    let daemon = fs::read_to_string(bench.path("site/left")).unwrap();
    assert!(pids(&trial).iter().all(|pid| !alive(pid)) && !alive(&daemon), "the whole tree is gone");
}

#[test]
fn program_end_ends_its_replicas() {
    let bench = Bench::new();
    let body = waiting("2", &format!("echo 'other begin' >> $PRONY_MARKS; {HERE}; exec sleep 600"), "");
    let phases = "[[phase]]\nname = \"queries\"\nbegin = { line = '^ready$' }\n[[phase]]\nname = \"other\"\n";
    let trial = bench.trial(&format!("{}{phases}", body.replacen("exec sleep 600", ALL, 1)));
    assert_eq!(trial.ending.outcome, Outcome::Ok, "{:?}", trial.ending);
    assert_eq!(ends(&trial), [ReplicaEnd::CutOff; 2]);
    assert_eq!(guards(&trial), ["phase_never_began", "replicas_cut_off"], "marks of replicas begin no phase");
    assert_eq!(copies(&trial)[1].marks, 1);
    assert!(why(&trial, "", "makespan").contains("`replica.1` had not ended"));
    assert!(pids(&trial).iter().all(|pid| !alive(pid)));
}

/// They detect that the program has ended, and end.
#[test]
fn replicas_that_end_beside_the_program_are_not_cut_off() {
    let bench = Bench::new();
    // An end of the file wakes them, and then they have nothing to start.
    let script = format!(
        "exec 3< $TMPDIR/end; read main < $TMPDIR/main; {HERE}; read never <&3; while kill -0 $main 2>&-; do :; done"
    );
    let body = waiting("2", &script, "")
        .replace("echo ready", "mkfifo $TMPDIR/end; echo $$ > $TMPDIR/main; exec 3<>$TMPDIR/end; echo ready")
        .replacen("exec sleep 600", &format!("{ALL}; sleep 1"), 1);
    let body = format!("{body}{}", QUERIES.replace("then = \"stop\"\n", ""));
    // prony does not wait long for them, and on a busy machine starting them may take CPU time in the control group that counts as
    // that of children which nobody waited for; but not each time.
    let in_time = |trial: &TrialRecord| {
        let is_measured = |metric| figure(trial, "", MetricKey::amount(metric)).measured().is_some();
        finding(trial, "replicas_cut_off").is_none() && is_measured(Metric::Wall) && is_measured(Metric::MinorFaults)
    };
    let trial = (0..20).map(|_| bench.trial(&body)).find(in_time).unwrap();
    assert_eq!((trial.ending.outcome, guards(&trial)), (Outcome::Ok, vec![]), "{:?}", trial.ending);
    assert_eq!((ends(&trial), trial.phases[0].completion), (vec![ReplicaEnd::Ended; 2], Completion::Complete));
    let (wall, makespan) = (number(&trial, "", "wall"), number(&trial, "", "makespan"));
    assert!(makespan > 0.0 && makespan <= wall, "{makespan} of {wall}");
    // Also where the last replica ends after the program, and no process is left to read from.
    for name in ["cpu", "faults.minor"] {
        assert!(number(&trial, "", name) > 0.0, "up to the very end: {name}");
    }
}

#[test]
fn none_of_them_is_a_level_and_the_plan_shows_them() {
    let bench = Bench::new();
    let main = "for n in $(seq {workers}); do until [ -e $TMPDIR/$n ]; do sleep 0.01; done; \
                while kill -0 $(cat $TMPDIR/$n) 2>&-; do sleep 0.01; done; done";
    let body = format!(
        "[factors]\nworkers = [0, 2]\n[program.x]\nshell = true\ncommand = '{main}'\n[program.x.replicas]\n\
         count = \"{{workers}}\"\nphase = \"run\"\nenv = {{ N = \"{{instance}}\" }}\ncommand = '{HERE}'\n"
    );
    let data = bench.run(&body);
    assert_eq!(data.trials.len(), 2);
    for trial in &data.trials {
        let named = trial.phases[0].readings.keys().map(String::as_str);
        // Which short processes a sample finds is chance.
        let instances: BTreeSet<&str> = named.filter(|name| !name.starts_with("process.")).collect();
        if trial.trial.variant == 0 {
            assert_eq!((instances, trial.program().unwrap().replicas.is_none()), (BTreeSet::from([""]), true));
        } else {
            assert_eq!(instances, BTreeSet::from(["", "replica.1", "replica.2", "replicas"]));
            let makespan = amount(trial, "run", Metric::Makespan);
            assert!(makespan > 0.0 && makespan <= amount(trial, "run", Metric::Wall), "{makespan}");
        }
        assert_eq!(trial.ending.outcome, Outcome::Ok, "{:?}", trial.ending);
    }
    let plan = bench.prony(&["check", "e.toml"]);
    let text = String::from_utf8_lossy(&plan.stdout);
    assert!(text.contains("run (2 replicas)") && text.matches("replicas").count() == 1, "{text}");
}

/// A trial that takes over what the one before left reads no pressure.
#[test]
fn variants_with_and_without_replicas_are_observed_alike() {
    let bench = Bench::new();
    fs::create_dir(bench.path("site")).unwrap();
    let body = "[factors]\nworkers = [0, 1]\n[program.x]\ncommand = \"true\"\ndirectory = \"site\"\ncopy = \"none\"\n\
                replicas = { count = \"{workers}\", phase = \"run\", command = \"true\" }\n";
    let data = bench.run(body);
    assert_eq!(data.trials.len(), 2);
    for trial in &data.trials {
        let pressure = trial.phases[0].reading(MetricKey::amount(Metric::PressureCpu));
        assert!(!matches!(pressure, None | Some(Reading::Missing(Why::NotApplicable))), "{pressure:?}");
    }
}

#[test]
fn a_runner_that_is_killed_leaves_none_of_them() {
    let bench = Bench::new();
    fs::create_dir(bench.path("site")).unwrap();
    let script =
        "setsid sleep 600 & echo $! > d$N.new; mv d$N.new d$N; echo $$ > r$N.new; mv r$N.new r$N; exec sleep 600";
    let body = waiting("2", script, "")
        .replace("shell = true", "shell = true\ndirectory = \"site\"\ncopy = \"none\"")
        .replace("echo ready", "echo $$ > main; echo ready");
    bench.write("e.toml", format!("[compare]\nblocks = 1\n[observe]\ncare = \"light\"\n{body}{QUERIES}"));
    let mut runner = Command::new(PRONY)
        .args(["run", "e.toml", "--quiet"])
        .current_dir(bench.path(""))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let files = ["r1", "r2", "d1", "d2", "main"].map(|name| bench.path("site").join(name));
    eventually("all of them", || files.iter().all(|file| file.exists()));
    let pids = files.map(|file| fs::read_to_string(file).unwrap());
    assert!(pids.iter().all(|pid| alive(pid)), "{pids:?}");
    runner.kill().unwrap();
    runner.wait().unwrap();
    eventually("none is left", || pids.iter().all(|pid| !alive(pid)));
    eventually("all is cleaned up", || scratches(&bench.path("")).is_empty());
}

#[test]
fn a_replica_whose_supervisor_is_killed_after_it_has_ended_keeps_its_figures() {
    let bench = Bench::new();
    fs::create_dir(bench.path("site")).unwrap();
    // The second waits until the first is reaped, and its supervisor, which then reports that, has nothing more to do.
    let script = "tell() { echo $2 > $1.new; mv $1.new $1; }; \
                  [ $N = 1 ] && { tell supervisor $PPID; tell first $$; exit 0; }; \
                  until [ -e first ]; do sleep 0.01; done; while [ -e /proc/$(cat first) ]; do :; done; \
                  s=$(cat supervisor); until grep -q ') S ' /proc/$s/stat; do :; done; kill -KILL $s";
    let place = "shell = true\ndirectory = \"site\"\ncopy = \"none\"\nprepare = \"echo x >> ../prepared\"";
    let body = format!("{}{QUERIES}", waiting("2", script, "")).replace("shell = true", place);
    let trial = bench.trial(&body);
    assert_eq!((trial.ending.outcome, ends(&trial)), (Outcome::Ok, vec![ReplicaEnd::Ended; 2]), "{:?}", trial.ending);
    assert_eq!(fs::read_to_string(bench.path("prepared")).unwrap(), "x\n", "the trial was run once");
    assert!(number(&trial, "replica.1", "wall") > 0.0 && number(&trial, "replica.1", "cpu") > 0.0);
    let shown = trial.ending.evidence.join("\n");
    assert!(shown.contains("`replica.1`: prony's supervisor process was ended from outside"), "{shown}");
}

#[test]
fn memory_that_runs_out_in_a_replica_has_run_out_for_all() {
    if let State::No(why) = capability().memory {
        assert_ne!(std::env::var("PRONY_REQUIRE_ALL").as_deref(), Ok("1"), "a memory limit is required: {why}");
        println!("SKIPPED: a memory limit: {why}");
        return;
    }
    let bench = Bench::new();
    let script = "[ $N = 1 ] && exec sleep 600; exec tail /dev/zero";
    let trial = bench.trial(&format!("[limits]\nmemory = \"64 MiB\"\n{}{QUERIES}", waiting("2", script, "")));
    assert_eq!(trial.ending.outcome, Outcome::OutOfMemory { by: OutOfMemory::Limit }, "{:?}", trial.ending);
    assert_eq!(trial.ending.phase.as_deref(), Some("queries"));
    assert!(pids(&trial).iter().all(|pid| !alive(pid)));
}

#[test]
fn heaps_of_replicas_are_separate_and_summed() {
    let Some(_) = version("node") else { return };
    let bench = Bench::new();
    fs::create_dir(bench.path("site")).unwrap();
    // Both have their buffers before either goes on, and then by turns, as below.
    let worker = "const fs = require('fs'); const kept = Buffer.alloc(4e6 * process.env.N); fs.writeFileSync(process.env.N, '');
        let turns = 0; const i = setInterval(() => { if (!fs.existsSync('1') || !fs.existsSync('2')) return;
        turns += 1; if (turns === 30) console.log('done', kept.length / 4e6); if (turns === 60) clearInterval(i); }, 10);";
    bench.write("site/worker.js", worker);
    bench.write("site/main.js", "console.log('ready'); setInterval(() => {}, 1000);");
    let body = "[program.x]\ncommand = \"node main.js\"\nruntime = \"node\"\ndirectory = \"site\"\n[program.x.replicas]\n\
                count = 2\nphase = \"queries\"\ncommand = \"node worker.js\"\nenv = { N = \"{instance}\" }\n";
    let trial = bench.trial(&format!("{body}{}read = '^done (?<operations>\\d+)'\n", QUERIES));
    assert_eq!((trial.ending.outcome, guards(&trial)), (Outcome::Ok, vec![]), "{:?}", trial.ending);
    for n in 1..=2_u32 {
        let name = format!("replica.{n}");
        assert!(
            number(&trial, &name, "external.max") >= 4e6 * f64::from(n) && number(&trial, &name, "heap.used.max") > 1e6
        );
        assert_eq!(number(&trial, &name, "operations"), f64::from(n), "by the phase's own pattern");
    }
    assert!(number(&trial, "replicas", "external.max") >= 12e6);
    assert!(number(&trial, "", "external.max") >= 12e6, "the phase has all processes");
    assert!(number(&trial, "main", "external.max") < 12e6, "the program alone");
    let peak = MetricKey::gauge(Metric::Rss, Stat::Peak);
    assert!(figure(&trial, "replica.2", peak).measured().is_some_and(|peak| *peak > 8e6), "one process: the kernel's");
}

/// METHOD 3.3: what several processes share counts once in their PSS, and once for each in their RSS.
#[test]
fn what_replicas_share_counts_once() {
    let Some(_) = version("python3") else { return };
    let bench = Bench::new();
    fs::create_dir(bench.path("site")).unwrap();
    // Each waits until all of them have all of it mapped, whatever that takes, and then by turns, not by the clock: a
    // machine that stands still for seconds must not end them before they are read.
    let worker = "import glob, mmap, os, time\nf = open('store')\nm = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)\n\
                  rows = sum(m[i] for i in range(0, len(m), 4096))\nopen(f'mapped.{os.getpid()}', 'w').close()\n\
                  while len(glob.glob('mapped.*')) < 3: time.sleep(0.01)\n\
                  print('done', rows, 'rows', flush=True)\n\
                  for _ in range(200): time.sleep(0.01)\n";
    bench.write("site/worker.py", worker);
    bench.write("site/store", vec![1_u8; 60 << 20]);
    let body = "[program.x]\nshell = true\ncommand = \"echo ready; exec sleep 600\"\ndirectory = \"site\"\n\
                [program.x.replicas]\ncount = 3\nphase = \"queries\"\ncommand = \"exec python3 worker.py\"\n\
                read = '^done (?<rows>\\d+) rows'\n";
    let trial = bench.trial(&format!("{body}{QUERIES}"));
    assert_eq!((trial.ending.outcome, guards(&trial)), (Outcome::Ok, vec![]), "{:?}", trial.ending);
    let store = f64::from(60 << 20);
    let (rss, pss) = (number(&trial, "replicas", "rss.max"), number(&trial, "replicas", "pss.max"));
    assert!(rss > 3.0 * store, "{rss}");
    assert!((0.95 * store..1.8 * store).contains(&pss), "{pss}: the store once, and what each has of its own");
    assert_eq!(trial.phases[0].answer.as_ref().unwrap().rows, Some(3 * 15_360), "the rows of all of them");
}

/// Replicas that each report a digest of their part gave answers, which another number of replicas cannot agree with.
#[test]
fn digests_of_parts_are_not_compared_and_missing_ones_are_refused() {
    let bench = Bench::new();
    let shown = |script: &str| {
        let head =
            "[factors]\nw = [1, 3]\n[compare]\nbaseline = { w = 1 }\nmetric = \"queries.makespan\"\nblocks = 6\n";
        let read = QUERIES.replace("then", "read = 'digest (?<digest>\\w+)'\nthen");
        let run = bench.run(&format!("{head}{}", waiting("\"{w}\"", script, &read)));
        assert!(run.trials.iter().all(|trial| trial.ending.outcome.is_ok()));
        let shown = bench.prony(&["show"]);
        String::from_utf8_lossy(&shown.stdout).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let parts = shown("sleep 0.1; echo digest part$N");
    assert!(
        !["reported no answer", "answers_differ", "answers_not_compared"].iter().any(|said| parts.contains(said)),
        "{parts}"
    );
    let none = shown("sleep 0.1; [ $N = 1 ] && echo digest a; true");
    assert!(none.contains("reported no answer"), "{none}");
}

/// Killed after a tenth of a second, the replicas of one variant were many times faster.
#[test]
fn replicas_that_prony_killed_in_one_variant_are_not_compared() {
    let bench = Bench::new();
    let body = "[factors]\nwait = [\"0.6\", \"0.01\"]\n[compare]\nbaseline = { wait = \"0.6\" }\nmetric = \"q.time\"\nblocks = 6\n\
                [program.x]\nshell = true\ncommand = \"echo ready; sleep {wait}\"\n\
                replicas = { count = 1, phase = \"q\", command = \"sleep 0.3\" }\n\
                [[phase]]\nname = \"q\"\nbegin = { line = '^ready' }\n";
    bench.run(body);
    let shown = bench.prony(&["show"]);
    let shown = String::from_utf8_lossy(&shown.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains("and prony killed them in `q`") && !shown.contains("faster"), "{shown}");
}
