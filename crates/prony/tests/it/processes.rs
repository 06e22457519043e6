//! Tests the metrics of each process of a program, in the record and in all reports of it.

use prony_analysis::guard::Severity;
use prony_model::metric::{Metric, MetricKey, Stat};
use prony_model::processes::{NOT_ATTRIBUTED, name};
use prony_model::record::{MetricKeyText, TrialRecord};
use serde_json::Value;

use crate::bench::{Bench, amount, shell};
use crate::json_document::column;

/// Two children that work at the same time, under a name that no other process has, say what they used by their shell's own
/// account, and stay until both are done; a third that ends at once; no work by their parent.
const BUSY: &str = r#"ln -s /bin/sh busy; mkfifo done stay; exec 3<>done
work='i=0; while [ $i -lt $0 ]; do i=$((i+1)); done; times > $DIR/$0; echo done >&3; read line < stay'
./busy -c "$work" 700000 & ./busy -c "$work" 1400000 & sh -c : ; read line <&3; read line <&3; $MARK; wait %1 %2"#;

fn used(trial: &TrialRecord, instance: &str) -> Option<f64> {
    let key = MetricKeyText(MetricKey::amount(Metric::Cpu));
    trial.phases[0].readings.get(instance)?.get(&key)?.measured().copied()
}

/// The phase ends with the second `done`, when both children still live.
fn trial(bench: &Bench) -> TrialRecord {
    let phase = "[[phase]]\nname = \"work\"\nend = { mark = \"work\" }\nthen = \"stop\"\n";
    let script = BUSY.replace("$MARK", &format!("{} mark work end", crate::bench::PRONY));
    let script = script.replace("$DIR", &bench.path("").to_string_lossy());
    bench.trial(&format!("{}{}", shell(&script), phase))
}

/// CPU time by the first line of `times`: `0m1.250000s 0m0.010000s`, in clock ticks.
fn own_account(bench: &Bench, counted: &str) -> f64 {
    let text = std::fs::read_to_string(bench.path(counted)).unwrap();
    let seconds = |part: &str| {
        let (minutes, seconds) = part.trim_end_matches('s').split_once('m').unwrap();
        minutes.parse::<f64>().unwrap() * 60.0 + seconds.parse::<f64>().unwrap()
    };
    text.lines().next().unwrap().split(' ').map(seconds).sum::<f64>() * 1e9
}

#[test]
fn each_process_has_its_own_cpu_time_and_the_rest_is_not_attributed() {
    let bench = Bench::new();
    let trial = trial(&bench);
    let names: Vec<&String> = trial.phases[0].readings.keys().filter(|name_of| name(name_of).is_some()).collect();
    let sum: f64 = names.iter().filter_map(|name| used(&trial, name)).sum();
    let all = amount(&trial, "work", Metric::Cpu);
    assert!((sum - all).abs() <= all * 0.02, "the parts are {sum}, the whole is {all}: {names:?}");
    for (instance, counted) in [("process.x.busy", "700000"), ("process.x.busy.2", "1400000")] {
        let (ours, theirs) = (used(&trial, instance).unwrap(), own_account(&bench, counted));
        assert!((ours - theirs).abs() <= 0.02 * theirs + 30e6, "{instance}: {ours}, by its own account {theirs}");
    }
    let memory = MetricKeyText(MetricKey::gauge(Metric::Pss, Stat::End));
    let pss = trial.phases[0].readings["process.x.busy"][&memory].measured();
    assert!(pss.is_some_and(|pss| *pss > 0.0), "it runs at the phase's end");
    assert!(used(&trial, NOT_ATTRIBUTED).is_some());
}

#[test]
fn a_process_with_a_good_part_is_named_and_tables_show_each() {
    let bench = Bench::new();
    let trial = trial(&bench);
    let found = trial.findings.iter().find(|finding| finding.guard == "process_share").expect("two do all the work");
    assert_eq!(found.severity, Severity::Note);
    for name in ["`x.busy`", "`x.busy.2`"] {
        assert!(found.message.contains(&format!("the process {name} used")), "{}", found.message);
    }
    let text = |args: &[&str]| String::from_utf8(bench.prony(args).stdout).unwrap();
    let usual = text(&["show"]);
    assert!(!usual.contains("Processes of"), "only on request: {usual}");
    let shown = text(&["show", "--processes"]);
    for part in ["Processes of `work`", "x.busy", "not attributed", "pss.end"] {
        assert!(shown.contains(part), "no {part} in {shown}");
    }
    let markdown = text(&["report", "--processes"]);
    assert!(markdown.contains("Processes of"), "{markdown}");
    assert!(text(&["report", "--html", "--processes"]).contains("x.busy.2"));
    let json: Value = serde_json::from_str(&text(&["report", "--format", "json", "--processes"])).unwrap();
    assert!(column(&json, 0, ["work", "process.x.busy", "cpu"])["values"][0].as_f64() > Some(0.0));
    assert!(json["tables"].as_array().unwrap().iter().any(|table| table["labels"][0] == "process"));
    let metric = text(&["show", "--metric", "work.process.x.busy.cpu"]);
    assert!(metric.contains("process.x.busy.cpu"), "{metric}");
}

/// The helper's parent ends at once, so that no sample may ever show it: the kernel gives such orphans to the supervisor.
#[test]
fn memory_of_a_daemon_whose_parent_was_never_sampled_counts() {
    const DAEMON: &str = "\
import os, time
r, w = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.close(r)
        held = b'x' * 60_000_000
        time.sleep(0.6)
    os._exit(0)
os.close(w)
os.wait()
os.read(r, 1)
";
    let bench = Bench::new();
    std::fs::write(bench.path("daemon.py"), DAEMON).unwrap();
    for limits in ["", "[limits]\nmemory = \"500 MB\"\n"] {
        let script = format!("python3 {}", bench.path("daemon.py").display());
        let trial = bench.trial(&format!("{limits}{}", shell(&script)));
        let most = |metric| {
            let key = MetricKeyText(MetricKey::gauge(metric, Stat::Max));
            *trial.phases[0].readings[""][&key].measured().unwrap()
        };
        assert!(most(Metric::Anon) > 60e6, "{limits}: {}", most(Metric::Anon));
        let commands: Vec<&str> = trial.series.iter().map(|process| process.command.as_str()).collect();
        assert!(commands.iter().all(|command| !command.starts_with("prony")), "{limits}: {commands:?}");
    }
}
