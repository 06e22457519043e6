//! Figures of each process of a program, in the record and in what shows it.

use prony_core::guard::Severity;
use prony_core::metric::{Metric, MetricKey, Stat};
use prony_core::processes::{NOT_ATTRIBUTED, name};
use prony_core::record::{MetricKeyText, TrialRecord};
use serde_json::Value;

use crate::programs::{Bench, amount, shell};

/// Two children that work at the same time and stay until both are done, a third that ends at once, and no work by their parent.
const BUSY: &str = "work() { i=0; while [ $i -lt $1 ]; do i=$((i+1)); done; echo done; read line < fifo; }
mkfifo fifo; work 700000 & work 1400000 & sh -c : ; wait %1 %2";

fn used(trial: &TrialRecord, instance: &str) -> Option<f64> {
    let key = MetricKeyText(MetricKey::amount(Metric::Cpu));
    trial.phases[0].readings.get(instance)?.get(&key)?.measured().copied()
}

/// The phase ends with the second `done`, when both children still live.
fn trial(bench: &Bench) -> TrialRecord {
    let phase = "[[phase]]\nname = \"work\"\nend = { mark = \"work\" }\nthen = \"stop\"\n";
    let script = BUSY.replace("echo done", "echo done >> all; [ $(wc -l < all) -lt 2 ] || $MARK");
    bench.trial(&format!(
        "{}{phase}",
        shell(&script.replace("$MARK", &format!("{} mark work end", crate::programs::PRONY)))
    ))
}

#[test]
fn each_process_has_its_own_cpu_time_and_the_rest_is_not_attributed() {
    let bench = Bench::new();
    let trial = trial(&bench);
    let names: Vec<&String> = trial.phases[0].readings.keys().filter(|name_of| name(name_of).is_some()).collect();
    let sum: f64 = names.iter().filter_map(|name| used(&trial, name)).sum();
    let all = amount(&trial, "work", Metric::Cpu);
    assert!((sum - all).abs() <= all * 0.02, "the parts are {sum}, the whole is {all}: {names:?}");
    let (first, second) = (used(&trial, "process.x.sh.2").unwrap(), used(&trial, "process.x.sh.3").unwrap());
    let (less, more) = (first.min(second), first.max(second));
    assert!(less > 0.3 * more && less < 0.75 * more, "one does twice what the other does: {first}, {second}");
    assert!(less + more > 0.8 * all, "{less} and {more} of {all}");
    let memory = MetricKeyText(MetricKey::gauge(Metric::Pss, Stat::End));
    let pss = trial.phases[0].readings["process.x.sh.2"][&memory].measured();
    assert!(pss.is_some_and(|pss| *pss > 0.0), "it lives at the phase's end");
    assert!(used(&trial, NOT_ATTRIBUTED).is_some());
}

#[test]
fn a_process_with_a_good_part_is_named_and_tables_show_each() {
    let bench = Bench::new();
    let trial = trial(&bench);
    let found = trial.findings.iter().find(|finding| finding.guard == "process_share").expect("two do all the work");
    assert_eq!(found.severity, Severity::Note);
    for name in ["`x.sh.2`", "`x.sh.3`"] {
        assert!(found.message.contains(&format!("the process {name} used")), "{}", found.message);
    }
    let text = |args: &[&str]| String::from_utf8(bench.prony(args).stdout).unwrap();
    let usual = text(&["show"]);
    assert!(!usual.contains("Processes of"), "only on request: {usual}");
    let shown = text(&["show", "--processes"]);
    for part in ["Processes of `work`", "x.sh.2", "not attributed", "pss.end"] {
        assert!(shown.contains(part), "no {part} in {shown}");
    }
    let markdown = text(&["report", "--processes"]);
    assert!(markdown.contains("Processes of"), "{markdown}");
    assert!(text(&["report", "--html", "--processes"]).contains("x.sh.3"));
    let json: Value = serde_json::from_str(&text(&["report", "--format", "json", "--processes"])).unwrap();
    let readings = json["trials"][0]["phases"][0]["readings"].as_array().unwrap();
    let of = |reading: &&Value| reading["instance"] == "process.x.sh.2" && reading["metric"] == "cpu";
    assert!(readings.iter().find(of).is_some_and(|reading| reading["value"].as_f64() > Some(0.0)));
    assert!(json["tables"].as_array().unwrap().iter().any(|table| table["labels"][0] == "process"));
    let metric = text(&["show", "--metric", "work.process.x.sh.2.cpu"]);
    assert!(metric.contains("process.x.sh.2.cpu"), "{metric}");
}
