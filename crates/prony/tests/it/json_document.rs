//! Tests that the JSON document contains the complete records of a run: they are read back from it as its schema
//! describes.

use std::collections::BTreeMap;
use std::sync::Arc;

use prony_model::metric::{Metric, MetricKey};
use prony_model::outcome::{OutOfMemory, Outcome};
use prony_model::reading::{Reading, Why};
use prony_model::record::{Completion, Effective, MetricKeyText, TrialRecord};
use prony_model::trial::Label;
use prony_model::units::Nanos;
use prony_report::export::document::{document, schema};
use prony_report::{Options, build};
use prony_results::{Database, RunData};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use crate::compared::{against, trials};
use crate::synthetic::{experiment, full_trial, not_reached, phase, run_data, start, texts, trial};
use crate::{pages, records};

/// The document of a run, which obeys the schema; with a database, with all samples.
pub(crate) fn of(data: &RunData, whole: Option<&Database>) -> Value {
    let mut text = Vec::new();
    document(data, &build(data, &Options::default()), &[], whole, &mut text).unwrap();
    let document = serde_json::from_slice(&text).unwrap();
    obeys_the_schema(&document);
    document
}

/// Whether a document obeys the schema; all faults where it does not.
pub(crate) fn obeys_the_schema(document: &Value) {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let faults: Vec<String> = validator.iter_errors(document).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(faults.is_empty(), "{faults:#?}");
}

/// The arrays of a figure of a variant.
pub(crate) fn column<'d>(document: &'d Value, variant: usize, [phase, instance, metric]: [&str; 3]) -> &'d Value {
    let columns = document["variants"][variant]["readings"].as_array().unwrap();
    let wanted = |c: &&Value| c["phase"] == phase && c["instance"] == instance && c["metric"] == metric;
    columns.iter().find(wanted).unwrap_or_else(|| panic!("no `{phase}.{instance}.{metric}` in {columns:#?}"))
}

/// The records of a document, by nothing but what its schema says.
fn read_back(document: &Value) -> Vec<TrialRecord> {
    let mut all = Vec::new();
    for variant in document["variants"].as_array().unwrap() {
        for (at, trial) in variant["trials"].as_array().unwrap().iter().enumerate() {
            let mut record = trial.clone();
            for part in ["effective", "conditions"] {
                let Some(own) = trial[part].as_object() else { continue };
                let mut keys = variant[part].as_object().unwrap().clone();
                keys.extend(own.clone());
                // Null is what the trial does not have.
                keys.retain(|_, value| !value.is_null());
                record[part] = Value::Object(keys);
            }
            for column in variant["readings"].as_array().unwrap() {
                let reading = if !column["values"][at].is_null() {
                    json!({ "measured": column["values"][at] })
                } else if !column["partial"][at].is_null() {
                    json!({ "measured": column["partial"][at] })
                } else if let Some(number) = column["missing"][at].as_u64() {
                    json!({ "missing": document["reasons"][number as usize]["why"] })
                } else {
                    continue;
                };
                let phases = record["phases"].as_array_mut().unwrap();
                let phase = phases.iter_mut().find(|phase| phase["name"] == column["phase"]).unwrap();
                let text = |key: &str| column[key].as_str().unwrap().to_owned();
                phase["readings"][text("instance")][text("metric")] = reading;
            }
            all.push(serde_json::from_value::<TrialRecord>(record).unwrap());
        }
    }
    all.sort_by_key(|record| record.trial.position);
    all
}

#[test]
fn records_with_every_part_are_read_back_from_the_database_and_the_document_alike() {
    let dir = tempfile::tempdir().unwrap();
    let mut database = Database::create(&dir.path().join("prony.db")).unwrap();
    let host = records::host();
    let one = experiment("t", &[texts("engine", &["a", "b"])], &[("write", true), ("read", true)], 4);
    let run = database.begin_run(&start(&one, &host, 8)).unwrap();
    (0..8).for_each(|position| database.append_trial(run, &full_trial(position)).unwrap());
    let data = database.load_run(run).unwrap();
    assert_eq!(read_back(&of(&data, None)), data.trials);
    assert_eq!(read_back(&of(&data, Some(&database))), (0..8).map(full_trial).collect::<Vec<_>>());
}

#[test]
fn records_of_whole_runs_are_read_back() {
    let runs = [pages::cache(6), pages::sourcing()];
    for (experiment, trials) in runs {
        let data = run_data(experiment, trials.len() as u32, trials.clone());
        assert_eq!(read_back(&of(&data, None)), trials);
    }
}

#[test]
fn trials_give_only_what_differs_from_the_first_of_their_variant() {
    let mut trials: Vec<TrialRecord> = (0..3).map(|position| trial(position, position, 0)).collect();
    trials.iter_mut().for_each(|trial| trial.effective = Some(records::program()));
    let Some(Effective::Program(program)) = &mut trials[2].effective else { unreachable!() };
    Arc::make_mut(program).left_behind = 9;
    trials[1].conditions.executed_after = Some(Nanos::from_micros(5));
    let data = run_data(experiment("t", &[], &[("write", true)], 3), 3, trials.clone());
    let document = of(&data, None);
    let variant = &document["variants"][0];
    assert_eq!(variant["effective"]["left_behind"], 2);
    let parts: Vec<(&Value, &Value)> =
        variant["trials"].as_array().unwrap().iter().map(|t| (&t["effective"], &t["conditions"])).collect();
    let nothing = json!({});
    assert_eq!(parts[0], (&nothing, &nothing));
    assert_eq!(parts[1], (&nothing, &json!({ "executed_after": 5000 })));
    assert_eq!(parts[2], (&json!({ "left_behind": 9 }), &nothing));
    assert_eq!(read_back(&document), trials);
}

/// A trial without the settings of the first was given those of the first.
#[test]
fn trials_have_null_for_a_setting_that_only_the_first_of_their_variant_has() {
    let mut trials: Vec<TrialRecord> = (0..2).map(|position| trial(position, position, 0)).collect();
    trials.iter_mut().for_each(|trial| trial.effective = Some(records::program()));
    let Some(Effective::Program(program)) = &mut trials[1].effective else { unreachable!() };
    let program = Arc::make_mut(program);
    (program.data, program.listens) = (None, None);
    program.resolution.clear();
    let data = run_data(experiment("t", &[], &[("write", true)], 2), 2, trials.clone());
    let document = of(&data, None);
    let second = &document["variants"][0]["trials"][1]["effective"];
    assert_eq!(*second, json!({ "data": null, "listens": null, "resolution": null }));
    assert_eq!(read_back(&document), trials);
}

/// The document gave the interval of an A/A check of 4 blocks, which the sentence of the verdict withholds.
#[test]
fn interval_of_a_check_of_few_blocks_is_withheld() {
    let plain = experiment("check", &[texts("store", &["a", "b"])], &[("write", true)], 8);
    let plan = against(&plain, "store", "a");
    let check = |blocks: u32| {
        let records = trials(&plan, blocks, |t| {
            let second = if t.trial.label == Label::A2 { 1.5 } else { 1.0 };
            t.phases = vec![phase("write", &[("time", second * 1e9 + f64::from(t.trial.position))])];
        });
        let comparison = of(&run_data(plan.clone(), 24, records), None)["comparisons"][0].clone();
        assert!(blocks == 8 || comparison["words"] == "can't tell", "{comparison}");
        ["low", "high"].map(|end| comparison["aa"][end].is_null())
    };
    assert_eq!((check(4), check(8)), ([true; 2], [false; 2]));
}

#[test]
fn figures_that_do_not_count_are_apart_from_those_that_do() {
    let figures = [("time", 1.5e9), ("errors", 3.0)];
    let mut trials: Vec<TrialRecord> = (0..3).map(|position| trial(position, position, 0)).collect();
    trials[0].phases = vec![phase("write", &figures)];
    trials[1].phases = vec![phase("write", &figures)];
    trials[1].phases[0].completion = Completion::Partial;
    trials[1].ending.outcome = Outcome::OutOfMemory { by: OutOfMemory::Limit };
    trials[2].phases = vec![not_reached("write")];
    let document = of(&run_data(experiment("t", &[], &[("write", true)], 3), 3, trials), None);
    let time = column(&document, 0, ["write", "", "time"]);
    assert_eq!((&time["values"], &time["partial"]), (&json!([1.5e9, null, null]), &json!([null, 1.5e9, null])));
    let why = time["missing"][1].as_u64().unwrap() as usize;
    assert_eq!(document["reasons"][why], json!({ "why": "not_reached", "text": "not reached" }));
    assert_eq!((&time["unit"], &time["missing"][2]), (&json!("nanos"), &Value::Null));
}

#[test]
fn schema_refuses_what_is_no_reading_and_explains_every_key() {
    let data = run_data(experiment("t", &[], &[("write", true)], 1), 1, vec![full_trial(0)]);
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let document = of(&data, None);
    for (path, wrong) in [
        ("/variants/0/readings/0/values/0", json!("much")),
        ("/variants/0/readings/0/unit", json!("miles")),
        ("/variants/0/trials/0/ending/outcome/kind", json!("bored")),
        ("/variants/0/trials/0/phases/0/completion", json!("nearly")),
        ("/reasons/0/why", json!("because")),
        ("/format", json!("prony-results/1")),
    ] {
        let mut changed = document.clone();
        *changed.pointer_mut(path).unwrap_or_else(|| panic!("no {path} in {document:#}")) = wrong;
        assert!(!validator.is_valid(&changed), "{path}");
    }
    let schema = schema();
    let objects = schema["$defs"].as_object().unwrap().values().chain([&schema]);
    let keys = objects.flat_map(|object| object["properties"].as_object().into_iter().flatten());
    let bare: Vec<&String> = keys.filter(|(_, key)| !key["description"].is_string()).map(|(name, _)| name).collect();
    assert!(bare.is_empty(), "{bare:?}");
    assert!(!schema.to_string().contains("`None`"), "readers of JSON know `null`");
}

fn reading() -> impl Strategy<Value = Reading<f64>> {
    let number = any::<f64>().prop_filter("SQLite and JSON have no others", |n| n.is_finite());
    let text = select(vec!["a", "b \"quoted\"", "\u{1f4a5}"]).prop_map(str::to_owned);
    let why = prop_oneof![
        Just(Why::NotReached),
        Just(Why::NotApplicable),
        text.clone().prop_map(|text| Why::NotPermitted(text.into())),
        text.prop_map(|text| Why::Failed(text.into())),
        (any::<u64>(), any::<u64>()).prop_map(|(have, need)| Why::TooFew { have, need }),
    ];
    prop_oneof![2 => number.prop_map(Reading::Measured), 1 => why.prop_map(Reading::Missing)]
}

fn key() -> impl Strategy<Value = MetricKeyText> {
    let metrics = select(vec![Metric::Time, Metric::Errors, Metric::LatencyP50, Metric::Written]);
    metrics.prop_map(|metric| MetricKeyText(MetricKey::amount(metric)))
}

type Readings = BTreeMap<String, BTreeMap<MetricKeyText, Reading<f64>>>;

fn readings() -> impl Strategy<Value = Readings> {
    let instance = select(vec![String::new(), "worker.1".to_owned(), "process.x.sh".to_owned()]);
    btree_map(instance, btree_map(key(), reading(), 1..4), 0..3)
}

fn any_trial() -> impl Strategy<Value = TrialRecord> {
    let completions = vec![
        Completion::Complete,
        Completion::Failed,
        Completion::Uncounted,
        Completion::AfterFailure,
        Completion::Partial,
        Completion::NotReached,
    ];
    let outcomes = vec![Outcome::Ok, Outcome::WrongAnswer, Outcome::Crashed { signal: 11 }, Outcome::TimedOut];
    let effective = select(vec![None, Some(records::program()), Some(records::store())]);
    let phases = vec((select(completions), readings()), 0..3);
    (0..2usize, select(outcomes), effective, phases, option::of(0..3u64)).prop_map(
        |(variant, outcome, effective, phases, executed)| {
            let mut record = trial(0, 0, variant);
            record.ending.outcome = outcome;
            record.effective = effective;
            record.conditions.executed_after = executed.map(Nanos::from_nanos);
            let phases = phases.into_iter().enumerate();
            record.phases = phases
                .map(|(at, (completion, readings))| {
                    let mut phase = phase(["write", "read"][at], &[]);
                    (phase.completion, phase.readings) = (completion, readings);
                    phase
                })
                .collect();
            record
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_records_are_read_back(trials in vec(any_trial(), 0..7)) {
        let mut trials = trials;
        for (position, trial) in (0u32..).zip(&mut trials) {
            trial.trial.position = position;
        }
        let two = experiment("t", &[texts("engine", &["a", "b"])], &[("write", true), ("read", true)], 4);
        let data = run_data(two, trials.len() as u32, trials.clone());
        prop_assert_eq!(read_back(&of(&data, None)), trials);
    }
}
