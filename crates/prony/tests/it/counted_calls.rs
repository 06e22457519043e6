//! Tests phases of functions that are called so often that most calls are only counted.

use prony_model::metric::{Metric, MetricKey};
use prony_model::outcome::Outcome;
use prony_model::record::{Completion, TrialRecord};
use prony_model::units::Nanos;

use crate::bench::{Site, amount, guards, phase, probe, version, why};
use crate::runtimes::WORK;

/// 100,000 calls of 100 us under a limit of 2 s ran 13 s: calls that are only counted used up nothing of it.
#[test]
fn limit_of_a_function_ends_counted_calls() {
    let burn = "exports.f = () => { const end = process.hrtime(); let at; do at = process.hrtime(end); while (at[1] < 50e3); };";
    let main = "const { f } = require('./work.js'); for (let i = 0; i < 100000; i++) f();";
    let python =
        "import time\ndef f():\n    end = time.monotonic() + 5e-5\n    while time.monotonic() < end:\n        pass\n";
    let py_main = "import work\nfor _ in range(100000):\n    work.f()\n";
    let site = Site::new(&[("work.js", burn), ("main.js", main), ("work.py", python), ("main.py", py_main)]);
    for (runtime, command, call) in [("node", "node main.js", "work.js#f"), ("python", "python3 main.py", "work:f")] {
        if version(command.split(' ').next().unwrap()).is_none() {
            continue;
        }
        let phase = format!("[[phase]]\nname = \"work\"\ncall = \"{call}\"\nlimit = \"300 ms\"\n");
        let trial = site.trial(runtime, command, &phase);
        assert_eq!(
            (trial.ending.outcome, trial.ending.phase.as_deref()),
            (Outcome::TimedOut, Some("work")),
            "{runtime}"
        );
    }
}

const POOL: &str = "
    const { slow } = require('./work.js');
    const several = async (n, ms) => { for (let i = 0; i < n; i++) await slow(ms); };
    const pool = (width, n, ms) => Promise.all(Array.from({ length: width }, () => several(n, ms)));
";

/// The phase `slow` of a program that calls the function of its name.
fn pooled(main: &str) -> TrialRecord {
    let site = Site::new(&[("work.js", WORK), ("main.js", &format!("{POOL}{main}"))]);
    site.trial("node", "node main.js", "[[phase]]\nname = \"slow\"\ncall = \"work.js#slow\"\n")
}

/// Only the first 1,000 calls are reported one by one. The sum of the others was `time` although they ran at once: 504 s in a
/// trial of 2.35 s. A pool of more than 1,000 calls never ended: the last single end named running calls that were only
/// counted.
#[test]
fn counted_calls_that_ran_at_once_end_the_phase_and_have_no_time() {
    let Some(_) = version("node") else { return };
    let burst = "(async () => { for (let i = 0; i < 1000; i++) await slow(0);
                                await Promise.all(Array.from({ length: 500 }, () => slow(300))); })();";
    // The phase ends when the last call returns, not when the program ends.
    let ten = "pool(10, 150, 2).then(() => setTimeout(() => {}, 1000));";
    for main in [burst, ten] {
        let trial = pooled(main);
        assert_eq!((trial.ending.outcome, guards(&trial)), (Outcome::Ok, vec![]), "{:?}", trial.findings);
        assert_eq!(
            (phase(&trial, "slow").completion, amount(&trial, "slow", Metric::Operations)),
            (Completion::Complete, 1500.0)
        );
        let time = why(&trial, "slow", MetricKey::amount(Metric::Time));
        assert!(time.contains("500 calls were counted") && time.contains("at the same time as other calls"), "{time}");
        assert!(amount(&trial, "slow", Metric::Wall) > 0.0 && amount(&trial, "slow", Metric::LatencyP50) > 0.0);
    }
    let trial = pooled(ten);
    let ended = phase(&trial, "slow").end.unwrap();
    let exit = probe(&trial).threads[0].ended;
    assert!(exit.since(ended) >= Nanos::from_millis(900), "{ended}, {exit}");
}

#[test]
fn counted_calls_one_after_another_have_a_time_unless_another_process_calls_too() {
    let Some(_) = version("node") else { return };
    let one = pooled("several(1200, 0);");
    assert!(amount(&one, "slow", Metric::Time) <= amount(&one, "slow", Metric::Wall));
    let two = "if (process.argv[2]) slow(0);
               else { require('child_process').fork(__filename, ['child']); several(1200, 0); }";
    let time = why(&pooled(two), "slow", MetricKey::amount(Metric::Time));
    assert!(time.contains("other threads or processes called the function too"), "{time}");
}

/// Where only a count could show that a call returned, the end of the program shows that it did not.
#[test]
fn counted_calls_that_had_not_returned_at_the_end_are_a_finding() {
    let Some(_) = version("node") else { return };
    let hangs = "several(1200, 0).then(() => { slow(1e9); setTimeout(() => process.exit(0), 20); });";
    let exits = "pool(10, 150, 1e3); pool(1, 1e6, 0); setTimeout(() => process.exit(0), 3000);";
    let killed = "if (process.argv[2]) pool(10, 1e6, 1);
                  else { const child = require('child_process').fork(__filename, ['child']);
                         setTimeout(() => child.kill('SIGKILL'), 3000); }";
    for main in [hangs, exits, killed] {
        let trial = pooled(main);
        assert_eq!(trial.ending.outcome, Outcome::Ok, "{:?}", trial.ending);
        assert_eq!(
            (phase(&trial, "slow").completion, guards(&trial)),
            (Completion::Partial, vec!["phase_never_ended"]),
            "{main}"
        );
        assert!(
            trial.findings[0].message.contains("a call of `work.js#slow` had not returned"),
            "{:?}",
            trial.findings
        );
    }
    let crash = pooled("pool(10, 1e6, 1); setTimeout(() => process.kill(process.pid, 'SIGKILL'), 3000);");
    assert!(!crash.ending.outcome.is_ok());
    assert_eq!(phase(&crash, "slow").completion, Completion::Partial);
}

#[test]
fn counted_calls_of_python_threads_end_the_phase_and_have_no_time() {
    let Some(_) = version("python3") else { return };
    let work = "import time\ndef slow(s):\n    time.sleep(s)\n";
    let main = "
import threading, work
for _ in range(1000): work.slow(0)
all = [threading.Thread(target=work.slow, args=(0.3,)) for _ in range(50)]
for thread in all: thread.start()
for thread in all: thread.join()
";
    let site = Site::new(&[("work.py", work), ("main.py", main)]);
    let trial = site.trial("python", "python3 main.py", "[[phase]]\nname = \"slow\"\ncall = \"work:slow\"\n");
    assert_eq!(
        (guards(&trial), phase(&trial, "slow").completion),
        (vec![], Completion::Complete),
        "{:?}",
        trial.findings
    );
    assert_eq!(amount(&trial, "slow", Metric::Operations), 1050.0);
    let time = why(&trial, "slow", MetricKey::amount(Metric::Time));
    assert!(time.contains("50 calls were counted") && time.contains("at the same time as other calls"), "{time}");
}
