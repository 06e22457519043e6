//! Tests how trials of programs end: processes that a program leaves running, and signals that end it.

use std::fs;
use std::path::PathBuf;

use prony_model::metric::{Metric, MetricKey, Stat};
use prony_model::outcome::Outcome;
use prony_model::record::Completion;
use prony_results::{RunData, RunStatus};

use crate::bench::{Bench, alive, amount, eventually, finding, guards, reading, said, scratches, shell};

#[test]
fn conclude_can_end_what_a_program_leaves_running() {
    let bench = Bench::new();
    let program = "[program.x]\nshell = true\ncommand = \"sleep 100 >&2 & echo $! > pid\"\n\
                   conclude = \"p=$(cat {dir}/pid); kill $p; while kill -0 $p; do sleep 0.01; done\"\ndirectory = \"site\"\n";
    fs::create_dir(bench.path("site")).unwrap();
    // Even where the trial has a copy of its own, what it wrote is still there.
    let own = "copy = \"trial\"\nconclude";
    let warmed = "warmup = 1\nconclude";
    let both = "warmup = 1\ncopy = \"trial\"\nconclude";
    for (key, killed) in [("conclude", 0), ("#conclude", 1), (own, 0), (warmed, 0), (both, 0)] {
        let trial = bench.trial(&program.replace("conclude", key));
        assert_eq!(trial.ending.outcome, Outcome::Ok, "{:?}", trial.ending);
        assert_eq!(trial.program().unwrap().left_behind, 1, "{key}");
        assert_eq!(trial.conditions.killed_at_the_end, killed, "{key}: by prony");
    }
}

#[test]
fn a_program_is_stopped_where_a_phase_says_so() {
    let bench = Bench::new();
    let body = "[[phase]]\nname = \"start\"\nend = { line = 'ready' }\nthen = \"stop\"\n";
    let trial = bench.trial(&format!("{}{body}", shell("echo ready; sleep 600")));
    assert_eq!((trial.ending.outcome, trial.phases[0].completion), (Outcome::Ok, Completion::Complete));
    // What is still open then would measure how long the kernel takes to end the program.
    let whole = "[[phase]]\nname = \"whole\"\n[[phase]]\nname = \"late\"\nbegin = { line = 'ready' }\n";
    let whole = whole.replace("name = \"whole\"", "name = \"whole\"\nend = { line = 'never' }");
    let open = "[[phase]]\nname = \"open\"\nread = 'x (?<time>\\d+)'\n";
    let trial = bench.trial(&format!("{}{body}{whole}{open}", shell("echo ready; sleep 600")));
    let found = trial.phases.iter().map(|phase| phase.completion).collect::<Vec<_>>();
    assert_eq!(found, [Completion::Complete, Completion::Partial, Completion::Partial, Completion::Partial]);
    let said: Vec<&str> =
        trial.findings.iter().filter(|f| f.guard == "phase_never_ended").map(|f| f.message.as_str()).collect();
    assert!(said.len() == 3 && said[1].contains("prony stopped the program when phase `start` had ended"), "{said:?}");
}

#[test]
fn a_hanging_program_that_ignores_sigterm_is_timed_out() {
    let bench = Bench::new();
    let trial = bench.trial(&format!(
        "[limits]\ntime = {{ trial = \"300 ms\" }}\n{}",
        shell("trap '' TERM; echo $$; while :; do sleep 1; done")
    ));
    assert_eq!((trial.ending.outcome, trial.ending.phase.as_deref()), (Outcome::TimedOut, Some("run")));
    assert!(trial.ending.after.as_nanos() >= 300_000_000 && !alive(said(&trial)));
    let phase = "[[phase]]\nname = \"a\"\nlimit = \"100 ms\"\nbegin = { line = 'on' }\nend = { line = 'off' }\n";
    let trial = bench.trial(&format!("{}{phase}", shell("trap '' TERM; echo on; sleep 600")));
    assert_eq!((trial.ending.outcome, trial.ending.phase.as_deref()), (Outcome::TimedOut, Some("a")));
    let stop = "[[phase]]\nname = \"a\"\nend = { line = 'on' }\nthen = \"stop\"\n[[phase]]\nname = \"b\"\nlimit = \"1 s\"\n\
                begin = { line = 'on' }\nend = { line = 'off' }\n";
    let trial = bench.trial(&format!("{}{stop}", shell("trap '' TERM; echo on; sleep 600")));
    assert_eq!(trial.ending.outcome, Outcome::Ok, "it had been asked to end: {:?}", trial.ending);
}

#[test]
fn daemons_and_endless_forks_are_ended_with_the_trial() {
    let bench = Bench::new();
    let trial = bench.trial(&shell("setsid sleep 600 >/dev/null 2>&1 & echo $!"));
    assert_eq!((trial.ending.outcome, guards(&trial)), (Outcome::Ok, vec!["left_behind"]));
    assert!(!alive(said(&trial)));
    let forks = "echo $$; f() { sleep 600 & f & sleep 600; }; f";
    let phase = "[[phase]]\nname = \"forks\"\nbegin = { line = '^[0-9]' }\nlimit = \"1 s\"\n";
    let trial = bench.trial(&format!("[limits]\npids = 40\n{}{phase}", shell(forks)));
    assert!(matches!(trial.ending.outcome, Outcome::TimedOut | Outcome::Failed { .. }), "{:?}", trial.ending);
    assert!(!alive(said(&trial).lines().next().unwrap()));
}

/// A program that may not start another process goes another way, or fails: its figures are not those of the program.
#[test]
fn a_reached_limit_of_processes_is_a_finding() {
    let bench = Bench::new();
    let many = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do sleep 600 & done";
    let limited = |pids: u32| bench.trial(&format!("[limits]\npids = {pids}\n{}", shell(many)));
    let trial = limited(8);
    let message = finding(&trial, "processes_refused");
    let message = message.unwrap_or_else(|| panic!("{:?} {:?}", trial.findings, trial.conditions.memory));
    assert!(message.contains("because of `pids = 8`"), "{message}");
    assert_eq!(finding(&limited(60), "processes_refused"), None);
}

#[test]
fn program_that_ends_before_observation_is_measured() {
    let bench = Bench::new();
    let (_, data) = bench.exec(&["-r", "3", "--", "true"]);
    for trial in &data.trials {
        assert_eq!(trial.ending.outcome, Outcome::Ok);
        assert!(amount(trial, "run", Metric::Wall) > 0.0 && amount(trial, "run", Metric::Cpu) > 0.0);
        assert!(amount(trial, "run", Metric::MinorFaults) > 10.0);
        let sampled = reading(trial, "run", MetricKey::gauge(Metric::Anon, Stat::Max));
        assert!(sampled.is_none_or(|anon| anon > 0.0), "never a zero, never the memory before exec");
    }
}

#[test]
fn program_outcomes_are_distinguished() {
    let bench = Bench::new();
    let ending = |script: &str| bench.trial(&shell(script)).ending;
    assert_eq!(ending("kill -SEGV $$").outcome, Outcome::Crashed { signal: 11 });
    assert_eq!(ending("kill -KILL $$").outcome, Outcome::Killed);
    let failed = ending("echo why it failed >&2; exit 7");
    assert_eq!(failed.outcome, Outcome::Failed { code: Some(7) });
    assert!(failed.evidence.iter().any(|text| text.contains("last lines of output: `why it failed`")), "{failed:?}");
    let allowed = bench.trial(&format!("{}success = [7]\n", shell("exit 7")));
    assert_eq!(allowed.ending.outcome, Outcome::Ok);
    let not_zero = bench.trial(&format!("{}success = [7]\n", shell("exit 0")));
    assert_eq!(not_zero.ending.outcome, Outcome::Failed { code: Some(0) });
}

#[test]
fn a_trial_whose_supervisor_is_killed_is_a_result_and_the_run_goes_on() {
    let bench = Bench::new();
    fs::create_dir(bench.path("site")).unwrap();
    let once = "[ -e done ] && exit 0\ntouch done; sleep 60 & echo $! > left; kill -KILL $PPID; sleep 60";
    // With its own directory a supervisor is kept for the next trial, with a copy for each trial it is not.
    for (copy, ends) in [("variant", [false, true, true]), ("trial", [false; 3])] {
        let body = format!("[compare]\nblocks = 3\n{}directory = \"site\"\ncopy = \"{copy}\"\n", shell(once));
        let data = bench.run(&body);
        let outcomes: Vec<bool> = data.trials.iter().map(|trial| trial.ending.outcome.is_ok()).collect();
        assert_eq!(outcomes, ends, "{copy}");
        assert_eq!(data.head.status, RunStatus::Done);
        let ending = &data.trials[0].ending;
        assert_eq!((ending.outcome, ending.phase.as_deref()), (Outcome::Killed, Some("run")));
        assert!(ending.evidence[0].contains("supervisor process was ended from outside (signal: 9"), "{ending:?}");
        let faults = reading(&data.trials[0], "run", MetricKey::amount(Metric::MinorFaults));
        assert_eq!(faults, None, "the kernel's report at reaping was lost");
    }
}

#[test]
fn spawner_that_is_killed_between_two_trials_is_replaced() {
    let bench = Bench::new();
    // A subject and the spawner that made it have one parent.
    let children = "/proc/$PPID/task/$PPID/children";
    bench.script("tell", &format!("for p in $(cat {children}); do [ $p = $$ ] || echo $p >> nurseries; done"));
    let kill = "n=$(tail -n 1 nurseries 2>/dev/null); [ -z \"$n\" ] || kill -KILL $n 2>/dev/null; true";
    let data = bench.exec_to_its_end(&["-r", "3", "--prepare", kill, "--", "./tell"]);
    let outcomes: Vec<Outcome> = data.trials.iter().map(|trial| trial.ending.outcome).collect();
    assert_eq!((outcomes, data.head.status), (vec![Outcome::Ok; 3], RunStatus::Done));
    let nurseries = fs::read_to_string(bench.path("nurseries")).unwrap();
    let mut nurseries: Vec<&str> = nurseries.lines().collect();
    nurseries.dedup();
    assert_eq!(nurseries.len(), 3, "each trial had another: {nurseries:?}");
    assert_eq!(scratches(bench.dir.path()), Vec::<PathBuf>::new());
}

#[test]
fn a_daemon_ends_with_each_trial_of_exec_and_hangs_nothing() {
    let bench = Bench::new();
    bench.script("leave", "setsid sleep 600 >/dev/null 2>&1 & echo $!");
    let data = bench.exec_to_its_end(&["-r", "2", "--", "./leave"]);
    assert_eq!(data.head.status, RunStatus::Done);
    assert_eq!(data.trials.len(), 2);
    for trial in &data.trials {
        assert_eq!((trial.ending.outcome, guards(trial)), (Outcome::Ok, vec!["left_behind"]));
        assert!(!alive(said(trial)));
    }
    assert_eq!(scratches(bench.dir.path()), Vec::<PathBuf>::new());
}

#[test]
fn a_trial_of_exec_that_is_killed_leaves_the_next_its_supervisor() {
    let bench = Bench::new();
    // The parent of a subject is its supervisor.
    bench.script("stay", "trap '' TERM; echo $PPID $$; (while :; do sleep 0.01; done) & while :; do sleep 1; done");
    // On a busy machine a shell may need longer than the first of these times to say anything.
    let run = |time| bench.exec_to_its_end(&["-r", "3", "--time", time, "--", "./stay"]);
    let all_spoke = |data: &RunData| data.trials.iter().all(|trial| said(trial).ends_with('\n'));
    let data = ["300 ms", "3 s", "10 s"].into_iter().map(run).find(all_spoke).unwrap();
    assert_eq!(data.head.status, RunStatus::Done);
    let said: Vec<(&str, &str)> = data.trials.iter().map(|trial| said(trial).split_once(' ').unwrap()).collect();
    let outcomes: Vec<Outcome> = data.trials.iter().map(|trial| trial.ending.outcome).collect();
    assert_eq!(outcomes, [Outcome::TimedOut; 3]);
    assert!(said.iter().all(|(supervisor, subject)| *supervisor == said[0].0 && !alive(subject)), "{said:?}");
    assert_eq!(scratches(bench.dir.path()), Vec::<PathBuf>::new());
}

#[test]
fn finished_trials_are_saved_before_a_long_trial() {
    let bench = Bench::new();
    bench.script("short", ": > ran");
    // Not short either where it comes first.
    bench.script("long", "[ -e ran ] || exec sleep 0.05\n: > asleep; exec sleep 600");
    let mut prony = bench.begin(&["-r", "3", "./short", "--vs", "./long"]);
    eventually("the long trial", || bench.path("asleep").exists());
    prony.kill().unwrap();
    prony.wait().unwrap();
    let shells = bench.data().trials.iter().filter(|trial| trial.trial.variant == 0).count();
    assert!(shells > 0, "what had ended is not lost with what was under way");
    eventually("all is cleaned up", || scratches(bench.dir.path()).is_empty());
}
