//! Tests the other boundaries of phases of programs, through the real binary: function calls, other phases, and a quiet
//! process tree.

use prony_model::metric::{Metric, MetricKey, Stat};
use prony_model::outcome::Outcome;
use prony_model::record::probe::{Because, SuspensionReport};
use prony_model::record::{Completion, TrialRecord};
use prony_model::units::Nanos;

use crate::bench::{
    Bench, Site, amount, finding, gauge, guards, phase, probe, reading, said, shell, unless_late, version, why,
};

/// How far a settle time may be off: the fixture reports its end itself, and a shell needs a moment for that.
const OFF: f64 = 0.5e9;

/// A phase from the line `listening` to rest, after which the program is ended.
fn settle(quiet: &str, within: &str) -> String {
    format!(
        "[[phase]]\nname = \"settle\"\nbegin = {{ line = '^listening' }}\n\
         end = {{ settle = {{ quiet = \"{quiet}\", within = \"{within}\" }} }}\nthen = \"stop\"\n"
    )
}

fn trial(script: &str, phases: &str) -> TrialRecord {
    Bench::new().trial(&format!("{}{phases}", shell(script)))
}

/// A burst of work after the program is ready, then rest: the time is that of the burst, not of the quiet after it.
#[test]
fn a_program_settles_after_it_says_that_it_is_ready() {
    let script = "echo listening; echo 'burst begin' >> $PRONY_MARKS; \
                  i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done; \
                  echo 'burst end' >> $PRONY_MARKS; exec sleep 600";
    let burst = "[[phase]]\nname = \"burst\"\nbegin = { mark = \"burst\" }\nend = { mark = \"burst\" }\n";
    let trial = trial(script, &format!("{burst}{}", settle("1 s", "60 s")));
    assert_eq!((trial.ending.outcome, guards(&trial)), (Outcome::Ok, vec![]), "{:?}", trial.findings);
    let of = |metric| amount(&trial, "settle", metric);
    let (burst, time) = (phase(&trial, "burst"), of(Metric::SettleTime));
    let burst = burst.end.unwrap().since(burst.begin.unwrap()).as_nanos() as f64;
    assert!((time - burst).abs() < OFF, "settled after {time} ns, worked for {burst}");
    assert_eq!(of(Metric::Time), time);
    // Work that gets little of a busy machine's processors may reach far into a second that is quiet on average.
    assert!(of(Metric::Wall) > time, "the quiet is in `wall` alone: {}", of(Metric::Wall));
    let work = unless_late(&trial, "burst", MetricKey::amount(Metric::Cpu));
    // Lines and marks arrive on two channels: the counters at the mark may have been read before those at the line.
    assert!(work.is_none_or(|work| of(Metric::Cpu) + of(Metric::Lag) >= work), "all of the work");
    // Of few bytes it may not be known how many there were: the kernel counts those of whole folios.
    let written = reading(&trial, "settle", MetricKey::amount(Metric::Written));
    assert!(written.is_none_or(|written| written < 1e6) && gauge(&trial, "settle", Metric::Anon, Stat::End) > 0.0);
    assert!(trial.conditions.settled["settle"].result.as_ref().unwrap().settled);
}

#[test]
fn a_program_that_is_never_idle_is_a_finding() {
    let trial = trial("echo listening; while :; do :; done", &settle("300 ms", "1 s"));
    assert_eq!((trial.ending.outcome, guards(&trial)), (Outcome::Ok, vec![]));
    let message = finding(&trial, "unsettled").unwrap();
    assert!(message.contains("the program did not become quiet: not settled within 1"), "{message}");
    assert_eq!(phase(&trial, "settle").completion, Completion::Complete, "the cap is its end");
    let key = MetricKey::amount(Metric::SettleTime);
    assert!(why(&trial, "settle", key).contains("not settled within"));
    assert!(amount(&trial, "settle", Metric::Cpu) > 0.0, "what it did until then is known");
}

#[test]
fn a_program_that_ends_before_it_is_idle_is_a_finding() {
    let trial = trial("echo listening; sleep 0.3", &settle("60 s", "600 s"));
    assert_eq!((trial.ending.outcome, guards(&trial)), (Outcome::Ok, vec!["phase_never_ended"]));
    let message = finding(&trial, "phase_never_ended").unwrap();
    assert!(message.contains("the program ended before it had been quiet for"), "{message}");
    assert_eq!(phase(&trial, "settle").completion, Completion::Partial);
    assert!(unless_late(&trial, "settle", MetricKey::amount(Metric::Wall)).is_none_or(|wall| wall > 0.0));
}

/// What a program writes while it is watched for rest is read as it comes, and one phase begins where another ends.
#[test]
fn waiting_for_an_idle_program_blocks_nothing() {
    let script = "echo begin; sleep 0.1; echo loaded; sleep 0.3; echo late; sleep 600";
    let phases = "[[phase]]\nname = \"load\"\nbegin = { line = '^begin' }\nend = { line = '^loaded' }\n\
                  [[phase]]\nname = \"settle\"\nbegin = { after = \"load\" }\nend = { settle = { quiet = \"2 s\" } }\nthen = \"stop\"\n\
                  [[phase]]\nname = \"late\"\nbegin = { after = \"load\" }\nend = { line = '^late' }\n";
    let trial = trial(script, phases);
    assert_eq!(trial.ending.outcome, Outcome::Ok, "{:?}", trial.ending);
    assert!(trial.phases.iter().all(|phase| phase.completion == Completion::Complete), "{:?}", guards(&trial));
    let [load, settle, late] = ["load", "settle", "late"].map(|name| phase(&trial, name));
    assert_eq!([settle.begin, late.begin], [load.end, load.end]);
    assert!(late.end < settle.end, "the line was read while the watch went on");
}

/// The program is suspended where the phase begins for longer than it must be quiet; its work comes after that.
#[test]
fn suspended_program_does_not_count_as_quiet() {
    let Some(_) = version("python3") else { return };
    let main = "
import time, work
work.f()
until = time.process_time() + 0.5
while time.process_time() < until:
    pass
time.sleep(600)
";
    let site = Site::new(&[("work.py", "def f():\n    return 1\n"), ("main.py", main)]);
    let phase = "[[phase]]\nname = \"f\"\ncall = \"work:f\"\nat_end = { wait = \"2 s\" }\n";
    let settle = settle("800 ms", "60 s").replace("line = '^listening'", "after = \"f\"");
    let trial = site.trial("python", "python3 main.py", &format!("{phase}{settle}"));
    assert_eq!(trial.ending.outcome, Outcome::Ok, "{:?}", trial.ending);
    let of = |metric| amount(&trial, "settle", metric);
    assert!(of(Metric::Suspended) >= 2e9 && of(Metric::Cpu) >= 0.45e9, "{} of work", of(Metric::Cpu));
    assert!(of(Metric::SettleTime) >= 0.4e9 && of(Metric::SettleTime) <= of(Metric::Wall));
}

const WORK: &str = "exports.start = () => 1; exports.unused = () => 1;
    exports.finish = (ms) => { const until = Date.now() + ms; while (Date.now() < until); return ms; };";

/// How each suspension went: whether it was let go at once, and the last command to the thread.
fn suspensions(trial: &TrialRecord) -> Vec<(bool, &str)> {
    let went_on = |suspension: &SuspensionReport| suspension.went_on.map_or("", Because::meaning);
    probe(trial).suspensions.iter().map(|suspension| (suspension.passed, went_on(suspension))).collect()
}

#[test]
fn a_phase_goes_from_one_function_to_another() {
    let Some(_) = version("node") else { return };
    let main = "
        const w = require('./work.js');
        w.finish(1);
        w.start();
        setTimeout(() => {
            console.log('middle');
            setTimeout(() => { w.finish(5); w.finish(5); w.start(); }, 30);
        }, 30);
    ";
    let site = Site::new(&[("work.js", WORK), ("main.js", main)]);
    let phases = "[[phase]]\nname = \"span\"\nbegin = { call = \"work.js#start\" }\nend = { call = \"work.js#finish\" }\n\
                  at_end = { collect = true }\n\
                  [[phase]]\nname = \"to a line\"\nbegin = { call = \"work.js#start\" }\nend = { line = '^middle' }\n\
                  [[phase]]\nname = \"rest\"\nbegin = { after = \"span\" }\n\
                  [[phase]]\nname = \"all\"\ncall = \"work.js#finish\"\n";
    let trial = site.trial("node", "node main.js", phases);
    assert_eq!((trial.ending.outcome, guards(&trial)), (Outcome::Ok, vec![]), "{:?}", trial.findings);
    let [span, line, rest] = ["span", "to a line", "rest"].map(|name| phase(&trial, name));
    assert_eq!((span.begin.is_some(), rest.begin), (true, span.end));
    let lag = Nanos::from_nanos(amount(&trial, "to a line", Metric::Lag) as u64);
    assert!(line.end.unwrap().since(lag) < span.end.unwrap(), "the line came before the second function");
    assert!(amount(&trial, "span", Metric::Wall) > 0.0);
    assert_eq!(amount(&trial, "all", Metric::Operations), 3.0, "each call is reported to each phase that it concerns");
    // The first end came before the begin, the third after the end and before the turn at which the heap is collected.
    let expected = [
        (true, "prony commanded it to continue"),
        (false, "prony commanded it to continue to the next turn of its event loop"),
        (true, "prony commanded it to continue and not to suspend again"),
        (false, "prony commanded it to continue"),
    ];
    assert_eq!(suspensions(&trial), expected);
    assert!(gauge(&trial, "span", Metric::HeapUsed, Stat::Before) > 0.0, "it was suspended and collected at the end");
    assert!(trial.program().unwrap().calls["span"].file.as_ref().unwrap().ends_with("/work.js"));
}

#[test]
fn a_program_ends_where_the_second_function_returned() {
    let Some(_) = version("python3") else { return };
    let work = "def start():\n    return 1\ndef finish():\n    return 1\n";
    let main = "import work, time\nwork.start()\nwork.finish()\nprint('went on', flush=True)\ntime.sleep(600)\n";
    let site = Site::new(&[("work.py", work), ("main.py", main)]);
    let phases = "[[phase]]\nname = \"span\"\nbegin = { call = \"work:start\" }\nend = { call = \"work:finish\" }\nthen = \"stop\"\n";
    let trial = site.trial("python", "python3 main.py", phases);
    assert_eq!((trial.ending.outcome, said(&trial), guards(&trial)), (Outcome::Ok, "", vec![]));
    assert_eq!(phase(&trial, "span").completion, Completion::Complete);
    assert_eq!(suspensions(&trial), [(false, "prony commanded it to stop")]);
}

#[test]
fn a_function_that_does_not_end_its_phase_says_why() {
    let Some(_) = version("node") else { return };
    let main = "const w = require('./work.js'); w.finish(1); w.start();";
    let site = Site::new(&[("work.js", WORK), ("main.js", main)]);
    let phase = |name: &str, begin: &str, end: &str| {
        format!(
            "[[phase]]\nname = \"{name}\"\nbegin = {{ call = \"work.js#{begin}\" }}\nend = {{ call = \"work.js#{end}\" }}\n"
        )
    };
    let phases =
        [phase("early", "start", "finish"), phase("none", "start", "unused"), phase("lost", "absent", "finish")];
    let trial = site.trial("node", "node main.js", &phases.concat());
    assert_eq!(guards(&trial), ["phase_never_ended", "phase_never_ended", "phase_never_began"]);
    let parts =
        ["returned after the phase had begun; some calls returned before", "was never called", "no such export"];
    let messages: Vec<&str> = trial.findings.iter().map(|finding| finding.message.as_str()).collect();
    assert!(messages.iter().zip(parts).all(|(message, part)| message.contains(part)), "{messages:?}");
}

#[test]
fn a_mark_cannot_end_its_phase_before_it_began() {
    let Some(_) = version("python3") else { return };
    let main = "
import json, os, time
early = time.monotonic_ns()
time.sleep(0.05)
marks = open(os.environ['PRONY_MARKS'], 'a', buffering=1)
def mark(boundary, at):
    marks.write(json.dumps({'mark': 'p', 'boundary': boundary, 'at': at}) + '\\n')
mark('begin', time.monotonic_ns())
time.sleep(0.05)
mark('end', early)
time.sleep(0.05)
";
    let site = Site::new(&[("main.py", main)]);
    let trial = site.trial("python", "python3 main.py", "[[phase]]\nname = \"p\"\n");
    let program = trial.program().unwrap();
    assert_eq!((guards(&trial), program.strange_marks_in_all), (vec!["strange_marks"], 1));
    assert!(program.strange_marks[0].contains("before its phase began"));
    let phase = phase(&trial, "p");
    assert!(phase.end > phase.begin, "it has the time at which it was read");
}
