//! Tests the medians that are written for trackers of benchmarks.

use std::sync::Arc;

use prony_experiment::design::Experiment;
use prony_model::outcome::Outcome;
use prony_model::reading::{Reading, Why};
use prony_model::record::{Effective, TrialRecord};
use prony_report::export::{Tracked, Tracker, tracked};
use prony_results::RunData;
use serde_json::{Value, json};

use crate::bench::Bench;
use crate::compared::{against, edited, trials};
use crate::records;
use crate::synthetic::{experiment, key, phase, run_data, texts};

fn stores(metrics: &[&str]) -> Experiment {
    let plain = experiment("Two stores", &[texts("store", &["lmdb", "redb"])], &[("write", true)], 6);
    edited(&against(&plain, "store", "lmdb"), |json| json["compare"]["metrics"] = json!(metrics))
}

const METRICS: [&str; 2] = ["write.rate", "write.operations"];

/// Six blocks: `redb` takes 2.0, 2.1 ... 2.5 s.
fn data(metrics: &[&str], change: impl Fn(&mut TrialRecord)) -> RunData {
    let experiment = stores(metrics);
    let trials = trials(&experiment, 6, |t| {
        let time = if t.trial.variant == 1 { 2e9 + 1e8 * f64::from(t.trial.block) } else { 1e9 };
        t.phases = vec![phase("write", &[("time", time), ("rate", 1e12 / time), ("operations", 1000.0)])];
        change(t);
    });
    run_data(experiment, trials.len() as u32, trials)
}

fn written(data: &RunData, tracker: Tracker) -> (Value, Tracked) {
    let mut text = Vec::new();
    let tracked = tracked(data, tracker, &mut text).unwrap();
    (serde_json::from_slice(&text).unwrap(), tracked)
}

#[test]
fn bencher_gets_medians_with_intervals_in_its_format() {
    let (document, tracked) = written(&data(&METRICS, |_| ()), Tracker::Bencher);
    // The schema that <https://bencher.dev/bmf.json> describes.
    let number = json!({"type": "number"});
    let measure = json!({
        "type": "object", "required": ["value"],
        "properties": {"value": number, "lower_value": number, "upper_value": number},
    });
    let schema = json!({"type": "object", "patternProperties": {
        ".+": {"type": "object", "patternProperties": {".+": measure}},
    }});
    let validator = jsonschema::validator_for(&schema).unwrap();
    assert!(validator.is_valid(&document), "{document}");
    assert!(!validator.is_valid(&json!({"a": {"b": {"lower_value": 1.0}}})), "the schema refuses nothing");
    let redb = &document["Two stores / store=redb / write"];
    // Of six trials the interval reaches from the least to the greatest.
    assert_eq!(redb["time (ns)"], json!({"value": 2.25e9, "lower_value": 2e9, "upper_value": 2.5e9}));
    assert_eq!(redb["operations (count)"]["value"], json!(1000.0));
    assert!(redb["rate (per second)"].is_object() && document.as_object().unwrap().len() == 2, "{document}");
    assert_eq!(tracked, Tracked { written: 6, ..Tracked::default() });
}

/// A program that left its work to a process that went on had a tenth of the time, in both formats.
#[test]
fn value_whose_comparison_is_refused_is_left_out() {
    let data = data(&METRICS, |trial| {
        let Effective::Program(mut program) = records::program() else { unreachable!() };
        Arc::make_mut(&mut program).left_behind = u64::from(trial.trial.variant == 1);
        trial.effective = Some(Effective::Program(program));
    });
    let (document, tracked) = written(&data, Tracker::Bencher);
    assert_eq!((document.as_object().unwrap().len(), tracked.written, tracked.failed), (1, 3, false), "{document}");
    assert!(document["Two stores / store=lmdb / write"].is_object());
    let [first, ..] = &tracked.left_out[..] else { panic!("nothing is left out") };
    assert!(
        first.starts_with("`write.time` of `store=redb`: not compared with its baseline: processes went on"),
        "{first}"
    );
}

#[test]
fn values_of_github_action_benchmark_have_one_direction() {
    let data = data(&METRICS, |_| ());
    let names = |document: &Value| -> Vec<String> {
        document.as_array().unwrap().iter().map(|bench| bench["name"].as_str().unwrap().to_owned()).collect()
    };
    let (smaller, left) = written(&data, Tracker::Smaller);
    assert_eq!(names(&smaller), ["Two stores / store=lmdb / write / time", "Two stores / store=redb / write / time"]);
    let extra = "median of 6 trials, range: its 95 % interval";
    let name = "Two stores / store=redb / write / time";
    let range = "2000000000 to 2500000000";
    assert_eq!(smaller[1], json!({"name": name, "unit": "ns", "value": 2.25e9, "range": range, "extra": extra}));
    let either = "`write.operations`: neither less nor more is better";
    assert_eq!(left.left_out, ["`write.rate`: more is better", either]);
    let (bigger, left) = written(&data, Tracker::Bigger);
    assert_eq!(names(&bigger), ["Two stores / store=lmdb / write / rate", "Two stores / store=redb / write / rate"]);
    assert_eq!(left.left_out, ["`write.time`: less is better", either]);
}

#[test]
fn missing_values_are_left_out_and_named() {
    let of = data(&METRICS[..1], |t| {
        if t.trial.variant == 1 && t.trial.block == 2 {
            let readings = t.phases[0].readings.get_mut("").unwrap();
            readings.insert(key("rate"), Reading::Missing(Why::NotPermitted("no".into())));
        }
    });
    let (document, tracked) = written(&of, Tracker::Bencher);
    let redb = document["Two stores / store=redb / write"].as_object().unwrap();
    assert_eq!(redb.keys().collect::<Vec<_>>(), ["time (ns)"]);
    let left_out = vec!["`write.rate` of `store=redb`: missing in 1 of 6 trials: not permitted: no".to_owned()];
    assert_eq!(tracked, Tracked { written: 3, left_out, failed: false });
}

#[test]
fn variants_with_a_failed_trial_have_no_value() {
    let of = data(&[], |t| {
        if t.trial.variant == 1 && t.trial.block == 2 {
            t.ending.outcome = Outcome::Crashed { signal: 11 };
        }
    });
    let (document, tracked) = written(&of, Tracker::Smaller);
    assert_eq!(document.as_array().unwrap().len(), 1, "{document}");
    let left_out = vec!["`store=redb`: 1 of 6 trials failed: 1 crashed (signal 11)".to_owned()];
    assert_eq!(tracked, Tracked { written: 1, left_out, failed: true });
}

#[test]
fn exit_codes_say_what_a_tracker_does_not_get() {
    let bench = Bench::new();
    bench.prony(&["exec", "-r", "1", "true a", "false b"]);
    let report = |format: &str| {
        let output = bench.prony(&["report", "--format", format]);
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    };
    let (code, document, said) = report("bencher");
    assert_eq!(
        (code, said.as_str()),
        (1, "warning: left out: `false b`: 1 of 1 trial failed: 1 failed (exit code 1)\n")
    );
    let document: Value = serde_json::from_str(&document).unwrap();
    let value = &document.as_object().unwrap().values().next().unwrap()["time (ns)"];
    // Two trials have a median and no interval.
    assert_eq!(value.as_object().unwrap().keys().collect::<Vec<_>>(), ["value"]);
    let (code, document, said) = report("github-action-benchmark-bigger");
    assert_eq!((code, document.as_str()), (2, ""));
    assert!(said.starts_with("error: run 1 has no value for this format: `run.time`: less is better; "), "{said}");
}
