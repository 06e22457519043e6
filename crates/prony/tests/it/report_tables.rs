//! Tests tables of made-up runs as text. Read a changed snapshot as somebody who does not know prony.

use prony_analysis::guard::{Finding, Severity};
use prony_analysis::verdicts;
use prony_model::metric::MetricName;
use prony_model::outcome::{Ending, OutOfMemory, Outcome};
use prony_model::reading::{Reading, Why};
use prony_model::record::{Answer, Completion, PhaseRecord, TrialRecord};
use prony_model::spec::Durability;
use prony_model::units::Nanos;
use prony_report::render::Render;
use prony_report::render::markup::Markup::Markdown;
use prony_report::render::terminal::Terminal;
use prony_report::{Options, build};
use prony_results::RunData;
use serde_json::{Value, json};

use crate::compared::{against, edited, trials};
use crate::synthetic::{
    engine, experiment, experiment_with, key, noise, not_reached, numbers, phase, run_data, texts, trial,
};

pub(crate) fn terminal(data: &RunData, width: usize) -> String {
    printed(data, &Terminal { width: Some(width), colour: false }, &Options::default())
}

pub(crate) fn markdown(data: &RunData) -> String {
    printed(data, &Markdown, &Options::default())
}

pub(crate) fn printed(data: &RunData, medium: &dyn Render, options: &Options) -> String {
    let mut out = Vec::new();
    medium.render(&build(data, options), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// The first table of `gatsby-sourcing`, test 2, in the heap: seconds and megabytes.
const SOURCING: [(&str, f64, f64, f64, f64); 6] = [
    ("1000", 0.282, 0.096, 216.0, 262.0),
    ("10,000", 1.397, 0.759, 598.0, 991.0),
    ("100,000", 9.571, 8.647, 4400.0, 8287.0),
    ("150,000", 14.378, 11.905, 6600.0, 12_355.0),
    ("500,000", 48.325, 0.0, 0.0, 16_000.0),
    ("1,000,000", 94.6, 0.0, 0.0, 16_000.0),
];

pub(crate) fn sourcing(tables: Value) -> RunData {
    let documents: Vec<&str> = SOURCING.iter().map(|row| row.0).collect();
    let factors = [texts("engine", &["memory", "lmdb"]), numbers("documents", &documents)];
    let experiment = experiment_with("Sourcing", &factors, &[("source", true), ("persist", true)], 3, tables);
    let trials = (0..36u32).map(|position| sourcing_trial(position, position / 12, (position % 12) as usize)).collect();
    run_data(experiment, 36, trials)
}

fn sourcing_trial(position: u32, block: u32, variant: usize) -> TrialRecord {
    let (_, source, persist, rss, peak) = SOURCING[variant % 6];
    let factor = if variant < 6 { 1.0 } else { 4.2 } * (1.0 + 0.05 * noise(u64::from(position)));
    let mut record = trial(position, block, variant);
    let (source, peak) = (source * factor * 1e9, peak * 1e6);
    let memory = [("rss.end", rss * 1e6), ("rss.peak", peak), ("anon.end", rss * 0.9e6), ("file.end", rss * 0.1e6)];
    record.phases.push(phase("source", &[&[("time", source)], &memory[..]].concat()));
    if variant < 6 && persist == 0.0 {
        let readings = [("time", 9e9), ("rss.peak", peak)];
        record.phases[0].readings.get_mut("").unwrap().insert(key("rss.peak"), Reading::Measured(9e9));
        record.phases.push(PhaseRecord { completion: Completion::Partial, ..phase("persist", &readings) });
        record.ending = Ending {
            outcome: Outcome::OutOfMemory { by: OutOfMemory::Limit },
            phase: Some("persist".to_owned()),
            after: Nanos::from_nanos(source as u64 / 7),
            evidence: vec!["oom_kill rose by 1".to_owned()],
        };
    } else {
        record.phases.push(phase("persist", &[("time", persist * factor * 1e9), ("rss.peak", peak)]));
    }
    if variant >= 6 {
        record.effective = Some(engine("lmdb", "0.9.33", Durability::Strict));
    }
    record
}

pub(crate) fn metric(name: &str) -> Value {
    json!({"metric": name})
}

pub(crate) fn figure(name: &str) -> Value {
    json!({"title": name, "parts": [{"figure": {"expr": metric(name), "format": null}}]})
}

fn sourcing_table() -> Value {
    let sum = json!({"binary": [metric("source.time"), "add", metric("persist.time")]});
    json!([{
        "title": "Source nodes", "select": {}, "rows": ["documents"], "tables": ["engine"], "columns_by": [],
        "columns": [
            {"title": "source, s", "parts": [
                {"figure": {"expr": sum, "format": "s"}}, {"text": " ("},
                {"figure": {"expr": metric("source.time"), "format": "s"}}, {"text": ")"}]},
            figure("source.rss.end"), figure("persist.rss.peak"), figure("source.anon.end"),
        ],
        "statistic": "median",
    }])
}

#[test]
fn the_write_ups_table_with_its_out_of_memory_cells() {
    insta::assert_snapshot!("sourcing_terminal", terminal(&sourcing(sourcing_table()), 120));
    insta::assert_snapshot!("sourcing_markdown", markdown(&sourcing(sourcing_table())));
}

#[test]
fn the_write_ups_table_without_being_asked_for() {
    insta::assert_snapshot!("sourcing_derived", terminal(&sourcing(json!([])), 100));
}

/// Memory and I/O as a store's phases have them; `scale` makes variants differ.
fn store_phase(name: &str, seed: u64, scale: f64) -> PhaseRecord {
    let n = scale * (1.0 + 0.04 * noise(seed));
    let seconds = 0.8 * n;
    phase(
        name,
        &[
            ("time", seconds * 1e9),
            ("rate", 20_000.0 / seconds),
            ("operations", 20_000.0),
            ("errors", 0.0),
            ("cpu", seconds * 0.4e9),
            ("anon.max", 14e6 * n),
            ("file.end", 25e6),
            ("rss.peak", 41e6 * n),
            ("written", 32e6 * n),
            ("disk", 8_400_000.0),
        ],
    )
}

#[test]
fn an_experiment_without_factors_has_its_phases_as_rows() {
    let experiment = experiment("One store", &[], &[("load", false), ("write", true), ("commit", true)], 3);
    let trials = (0..3u32).map(|position| {
        let mut record = trial(position, position, 0);
        record.phases = vec![PhaseRecord { timed: false, ..store_phase("load", 1, 1.0) }];
        record.phases.push(store_phase("write", u64::from(position), 1.0));
        record.phases.push(phase("commit", &[("time", 4e6), ("operations", 1.0), ("rate", 250.0), ("written", 8e6)]));
        record
    });
    let data = run_data(experiment, 3, trials.collect());
    insta::assert_snapshot!("no_factors", terminal(&data, 200));
}

#[test]
fn what_one_phase_lacks_is_said_in_its_cell_only() {
    let experiment = experiment("One program", &[], &[("load", true), ("rest", true)], 1);
    let mut record = trial(0, 0, 0);
    let mut rest = phase("rest", &[("time", 4e6), ("file.end", 0.0)]);
    let readings = rest.readings.get_mut("").unwrap();
    let lost = |metric: &str| (key(metric), Reading::Missing(Why::Failed("no process was alive".into())));
    readings.extend(["file.end", "anon.max"].map(lost));
    record.phases = vec![phase("load", &[("time", 4e6), ("file.end", 8e6)]), rest];
    let text = terminal(&run_data(experiment, 1, vec![record]), 120);
    assert!(text.contains("[1] no process was alive"), "{text}");
    assert!(!text.contains("`file.end` is not shown"), "{text}");
    assert!(text.contains("`anon.max` is not shown: no process was alive"), "{text}");
}

/// Four factors, one of them numeric, one of them the same in all variants.
fn four_factors() -> RunData {
    let factors = [
        texts("engine", &["lmdb", "redb"]),
        texts("transaction", &["each", "single"]),
        numbers("records", &["1000", "100000"]),
        texts("durability", &["strict"]),
    ];
    let experiment = experiment("Four", &factors, &[("write", true), ("read", true)], 2);
    let trials = (0..16u32).map(|position| {
        let variant = (position % 8) as usize;
        let mut record = trial(position, position / 8, variant);
        let scale = (1 + variant) as f64;
        record.phases = vec![store_phase("write", u64::from(position), scale), store_phase("read", 7, scale / 3.0)];
        record
    });
    run_data(experiment, 16, trials.collect())
}

#[test]
fn four_factors_find_their_places_at_any_width() {
    insta::assert_snapshot!("four_factors_wide", terminal(&four_factors(), 400));
    insta::assert_snapshot!("four_factors_narrow", terminal(&four_factors(), 80));
    let lines = terminal(&four_factors(), 80);
    assert!(lines.lines().all(|line| line.chars().count() <= 80), "{lines}");
}

#[test]
fn without_a_numeric_factor_one_table_contains_all() {
    let factors =
        [texts("store", &["lmdb-sync", "lmdb-nosync", "sqlite-wal"]), texts("transaction", &["each", "single"])];
    let experiment = experiment("Cache", &factors, &[("write", true)], 1);
    let trials = (0..6u32).map(|position| {
        let mut record = trial(position, 0, position as usize);
        let class = [Durability::Strict, Durability::None, Durability::Relaxed][position as usize / 2];
        record.effective = Some(engine("x", "1", class));
        record.phases = vec![store_phase("write", u64::from(position), 1.0)];
        record
    });
    insta::assert_snapshot!("durability_classes", terminal(&run_data(experiment, 6, trials.collect()), 160));
}

/// Six trials each of five variants, and all that can happen to them.
pub(crate) fn outcomes() -> RunData {
    let factors = [texts("engine", &["good", "mixed", "never", "wrong", "partial", "absent"])];
    let experiment = experiment("Outcomes", &factors, &[("write", true), ("read", true)], 6);
    let mut trials = Vec::new();
    for position in 0..27u32 {
        // The first five variants have six, six, six, six and three trials; the last has none.
        let variant = (position / 6) as usize;
        let mut record = trial(position, position % 6, variant);
        record.phases = vec![store_phase("write", u64::from(position), 15.0), store_phase("read", 3, 1.0)];
        spoil(&mut record, position);
        trials.push(record);
    }
    run_data(experiment, 36, trials)
}

fn spoil(record: &mut TrialRecord, position: u32) {
    let mut end = |outcome, phase: &str, seconds| {
        record.ending = Ending {
            outcome,
            phase: Some(phase.to_owned()),
            after: Nanos::from_millis(seconds),
            evidence: vec![format!("exit code 1 in {phase}")],
        };
    };
    match position {
        7 => {
            end(Outcome::TimedOut, "write", 600_000);
            record.phases[0].completion = Completion::Partial;
            record.phases[1] = not_reached("read");
        }
        12..18 => {
            end(Outcome::Failed { code: Some(1) }, "read", u64::from(position) * 100);
            record.phases[1].completion = Completion::Partial;
        }
        18 => end(Outcome::WrongAnswer, "read", 900),
        _ => {}
    }
}

#[test]
fn outcomes_are_in_their_cells_with_their_counts() {
    insta::assert_snapshot!("outcomes", terminal(&outcomes(), 200));
}

/// A program that becomes quiet beside a store that does: one column has both.
#[test]
fn programs_and_stores_that_settle_share_one_column() {
    let experiment = experiment("Rest", &[texts("subject", &["program", "store"])], &[("settle", true)], 1);
    let of = |store: &[(&str, f64)]| {
        let [mut program, mut bare] = [trial(0, 0, 0), trial(1, 0, 1)];
        program.phases.push(phase("settle", &[("time", 3e9), ("settle.time", 3e9)]));
        program.phases[0].action = "observe".to_owned();
        bare.phases.push(phase("settle", store));
        bare.phases[0].action = "settle".to_owned();
        build(&run_data(experiment.clone(), 2, vec![program, bare]), &Options::default())
    };
    let shown = |store: &[(&str, f64)]| -> Vec<(String, String)> {
        let report = of(store);
        let columns = report.tables[0].columns.iter().map(|column| column.heading.clone());
        columns.zip(report.tables[0].rows[1].cells.iter().map(|cell| cell.main.clone())).collect()
    };
    let columns = shown(&[("time", 5e9), ("settle.time", 5e9)]);
    assert_eq!(columns.iter().map(|(heading, _)| heading.as_str()).collect::<Vec<_>>(), ["time"], "it is said once");
    assert!(columns[0].1.starts_with('5'), "{columns:?}");
}

/// Of two trials the kernel wrote dirty pages after the processes were quiet in one.
#[test]
fn settle_time_names_the_sign_that_came_last() {
    let experiment = experiment("Rest", &[texts("engine", &["a"])], &[("settle", true)], 2);
    let phases = [29e9, 0.0].map(|dirty| {
        let figures =
            [("time", 1.4e9), ("settle.time", 1.4e9), ("settle.time.cpu", 1.4e9), ("settle.time.dirty", dirty)];
        phase("settle", &figures)
    });
    let trials = (0..).zip(phases).map(|(at, phase)| {
        let mut trial = trial(at, at, 0);
        trial.phases.push(phase);
        trial
    });
    let report = build(&run_data(experiment, 2, trials.collect()), &Options::default());
    let table = &report.tables[0];
    let headings: Vec<&str> = table.columns.iter().map(|column| column.heading.as_str()).collect();
    assert_eq!(headings, ["time", "settle.time.dirty"], "dirty pages stand beside it");
    let notes: Vec<&str> = table.notes.iter().map(|note| note.text.as_str()).collect();
    let last = "last active: CPU time (`settle.time.cpu`) in 1 of 2 trials, \
                dirty pages of the store (`settle.time.dirty`) in 1 of 2 trials";
    assert!(notes.contains(&last), "{notes:?}");
    assert_eq!(table.rows[0].cells[0].marks, [1]);
}

/// One poll finds CPU time and bytes written: naming the first alone, the footnote left the other out.
#[test]
fn settle_time_names_all_signs_that_came_last_in_each_variant() {
    let experiment = experiment("Rest", &[texts("engine", &["a", "b"])], &[("settle", true)], 1);
    let trials = [(0, [1.4e9, 1.4e9]), (1, [0.2e9, 1.4e9])].map(|(at, [cpu, written])| {
        let figures =
            [("time", 1.4e9), ("settle.time", 1.4e9), ("settle.time.cpu", cpu), ("settle.time.written", written)];
        let mut trial = trial(at, 0, at as usize);
        trial.phases.push(phase("settle", &figures));
        trial
    });
    let report = build(&run_data(experiment, 2, trials.into()), &Options::default());
    let table = &report.tables[0];
    let noted = |row: usize| {
        let marks = &table.rows[row].cells[0].marks;
        let of_cell = table.notes.iter().filter(|note| marks.contains(&note.mark));
        of_cell.map(|note| note.text.as_str()).filter(|text| text.starts_with("last active")).collect::<Vec<_>>()
    };
    let (cpu, written) = ("CPU time (`settle.time.cpu`)", "bytes written (`settle.time.written`)");
    assert_eq!(noted(0), [format!("last active: {cpu}, {written}")]);
    assert_eq!(noted(1), [format!("last active: {written}")]);
}

#[test]
fn missing_readings_say_why_and_errors_are_in_the_row() {
    let experiment = experiment("Missing", &[texts("engine", &["a", "b"])], &[("write", true)], 2);
    let missing = |record: &mut TrialRecord, name: &str, why: Why| {
        record.phases[0].readings.get_mut("").unwrap().insert(key(name), Reading::Missing(why));
    };
    let trials = (0..4u32).map(|position| {
        let mut record = trial(position, position / 2, position as usize % 2);
        let mut write = store_phase("write", 5, 1.0);
        let readings = write.readings.get_mut("").unwrap();
        readings.insert(key("errors"), Reading::Measured(f64::from(position) * 10.0));
        readings.insert(key("latency.p99"), Reading::Measured(3.2e6));
        write.answer = Some(Answer { rows: Some(5), digest: format!("{position:02x}"), comparable: true });
        record.phases = vec![write];
        missing(&mut record, "fsyncs", Why::NotPermitted("tracefs is readable by root only".into()));
        if position % 2 == 1 {
            missing(&mut record, "latency.p99", Why::TooFew { have: 400, need: 1000 });
        }
        if position == 2 {
            missing(&mut record, "file.end", Why::Failed("`status` could not be read".into()));
        }
        record.findings = vec![Finding {
            guard: "gaps_between_batches".to_owned(),
            severity: Severity::Warning,
            phase: Some("write".to_owned()),
            message: "7.5 % of the phase was outside timed sections".to_owned(),
            hint: "make the batches larger".to_owned(),
            data: Value::Null,
        }];
        record
    });
    let data = run_data(experiment, 4, trials.collect());
    insta::assert_snapshot!("missing", terminal(&data, 200));
    insta::assert_snapshot!("missing_markdown", markdown(&data));
}

#[test]
fn asked_for_tables_show_errors_too() {
    let table = json!([{"title": null, "select": {"engine": ["b"]}, "rows": [], "tables": [], "columns_by": [],
                        "columns": [figure("write.rate")], "statistic": "max"}]);
    let experiment = experiment_with("Errors", &[texts("engine", &["a", "b"])], &[("write", true)], 1, table);
    let trials = (0..2u32).map(|position| {
        let mut record = trial(position, 0, position as usize);
        record.phases = vec![phase("write", &[("rate", 1234.5), ("errors", 3.0)])];
        record
    });
    let report = build(&run_data(experiment, 2, trials.collect()), &Options::default());
    assert_eq!(report.tables[0].columns.iter().map(|c| c.name()).collect::<Vec<_>>(), ["write.rate", "write.errors"]);
    assert_eq!(report.tables[0].rows.len(), 1, "`select` keeps only what it names");
    assert_eq!(report.tables[0].rows[0].cells.iter().map(|c| c.main.as_str()).collect::<Vec<_>>(), ["1234", "3"]);
}

#[test]
fn errors_beside_a_kind_of_requests_are_its_own() {
    let columns = [figure("mixed.kind.wr.ok"), figure("mixed.kind.rd.ok")];
    let table = json!([{"title": null, "select": {}, "rows": [], "tables": [], "columns_by": [],
                        "columns": columns, "statistic": "max"}]);
    let experiment = experiment_with("Kinds", &[texts("engine", &["a"])], &[("mixed", true)], 1, table);
    let mut record = trial(0, 0, 0);
    let mut mixed = phase("mixed", &[("rate", 1234.5), ("errors", 40.0)]);
    for (kind, errors) in [("kind.wr", 40.0), ("kind.rd", 0.0)] {
        let counts = [("ok", 100.0), ("errors", errors)].map(|(name, count)| (key(name), Reading::Measured(count)));
        mixed.readings.insert(kind.to_owned(), counts.into_iter().collect());
    }
    record.phases = vec![mixed];
    let report = build(&run_data(experiment, 1, vec![record]), &Options::default());
    let shown: Vec<String> = report.tables[0].columns.iter().map(|column| column.name()).collect();
    assert_eq!(shown, ["mixed.kind.wr.ok", "mixed.kind.rd.ok", "mixed.kind.wr.errors"]);
}

#[test]
fn every_choice_of_figures_shows_errors_too() {
    let phases = [("read", true), ("write", true)];
    let made = experiment("Errors", &[texts("engine", &["a", "b"])], &phases, 1);
    let mut plan = serde_json::to_value(&made).unwrap();
    plan["compare"]["primary"] = json!("write.rate");
    let errors = [0.0, 90.0];
    let trials = (0..2u32).map(|position| {
        let mut record = trial(position, 0, position as usize);
        let write = phase("write", &[("rate", 820.0), ("errors", errors[position as usize])]);
        record.phases = vec![phase("read", &[("rate", 5.0), ("errors", 0.0)]), write];
        record
    });
    let data = run_data(serde_json::from_value(plan).unwrap(), 2, trials.collect());
    let shown = |options: &Options| -> Vec<String> {
        build(&data, options).tables[0].columns.iter().map(|column| column.name()).collect()
    };
    let brief = Options { brief: true, ..Options::default() };
    assert_eq!(shown(&brief), ["write.rate", "write.errors"]);
    let metrics = ["read.rate", "write.rate"].map(|name| name.parse().unwrap()).to_vec();
    let asked = Options { metrics, ..Options::default() };
    assert_eq!(shown(&asked), ["read.rate", "write.rate", "write.errors"]);
    assert_eq!(shown(&Options::default()).iter().filter(|name| *name == "write.errors").count(), 1);
}

#[test]
fn each_way_of_judging_is_named_once() {
    let plain = experiment("Ways", &[texts("store", &["a", "b", "c", "d"])], &[("write", true)], 24);
    let plan = edited(&against(&plain, "store", "a"), |json| {
        for of in json["variants"].as_array_mut().unwrap().iter_mut() {
            of["blocks"] = json!({ "min": 6, "max": 24 });
        }
    });
    let trials = trials(&plan, 24, |t| {
        // One of the variants in the middle reached an earlier analysis only.
        if t.trial.variant == 2 && t.trial.block >= 16 {
            t.ending.outcome = Outcome::Interrupted;
        } else {
            t.phases = vec![phase("write", &[("time", 1e9 + f64::from(t.trial.block) + t.trial.variant as f64 * 1e8)])];
        }
    });
    let data = run_data(plan, trials.len() as u32, trials);
    let methods: Vec<String> = verdicts::of(&data).lines.iter().map(|line| line.comparison.method.clone()).collect();
    assert!(methods[0] != methods[1] && methods[0] == methods[2], "{methods:#?}");
    let judged = build(&data, &Options::default()).judged.unwrap();
    assert!(methods[..2].iter().all(|method| judged.matches(method.as_str()).count() == 1), "{judged}");
}

#[test]
fn a_phase_that_is_judged_twice_has_its_memory_and_errors_once() {
    let made = experiment("Twice", &[texts("engine", &["a", "b"])], &[("a", true), ("b", true)], 1);
    let mut plan = serde_json::to_value(&made).unwrap();
    plan["compare"]["metrics"] = json!(["b.time", "a.rate"]);
    let figures = [("time", 2e9), ("rate", 5.0), ("anon.max", 4e6), ("errors", 3.0)];
    let trials = (0..2u32).map(|position| {
        let phases = vec![phase("a", &figures), phase("b", &figures)];
        TrialRecord { phases, ..trial(position, 0, position as usize) }
    });
    let data = run_data(serde_json::from_value(plan).unwrap(), 2, trials.collect());
    let report = build(&data, &Options { brief: true, ..Options::default() });
    let columns: Vec<String> = report.tables[0].columns.iter().map(|column| column.name()).collect();
    assert_eq!(columns, ["a.time", "b.time", "a.rate", "a.anon.max", "b.anon.max", "a.errors", "b.errors"]);
}

#[test]
fn factors_may_make_groups_of_columns() {
    let table = json!([{"title": "Side by side", "select": {}, "rows": ["records"], "tables": [],
                        "columns_by": ["engine"], "columns": [figure("write.time")], "statistic": "mean"}]);
    let factors = [texts("engine", &["a", "b"]), numbers("records", &["10", "20"])];
    let experiment = experiment_with("Groups", &factors, &[("write", true)], 1, table);
    let trials = (0..3u32).map(|position| {
        let mut record = trial(position, 0, position as usize);
        record.phases = vec![phase("write", &[("time", 1e9 * f64::from(position + 1))])];
        record
    });
    insta::assert_snapshot!("groups_of_columns", terminal(&run_data(experiment, 4, trials.collect()), 100));
}

#[test]
fn weird_names_do_no_harm() {
    let names = ["a|b", "new\nline", "<script>alert(1)</script>", "日本語", "\u{1b}[31mred", "`code` *bold* _x_"];
    let experiment =
        experiment("Weird \u{1b}]0;title\u{7} | <b>", &[texts("na|me\u{202e}", &names)], &[("wri|te", true)], 1);
    let trials = (0..6u32).map(|position| {
        let mut record = trial(position, 0, position as usize);
        record.phases = vec![phase("wri|te", &[("time", 1e9)])];
        if position == 1 {
            record.phases[0].completion = Completion::Partial;
            record.ending.outcome = Outcome::Failed { code: None };
            record.ending.phase = Some("wri|te".to_owned());
            record.ending.evidence = vec!["<img src=x> | \u{1b}[2J \n second line".to_owned()];
        }
        record
    });
    let data = run_data(experiment, 6, trials.collect());
    let (shown, document) = (terminal(&data, 120), markdown(&data));
    assert!(!shown.contains('\u{1b}') && !shown.contains('\u{202e}') && !shown.contains('\u{7}'));
    assert!(!document.contains("<script>") && !document.contains("<img") && !document.contains('\u{1b}'));
    let bars = |line: &str| line.replace("\\|", "").matches('|').count();
    let table: Vec<&str> =
        document.lines().skip_while(|l| !l.starts_with('|')).take_while(|l| l.starts_with('|')).collect();
    assert!(table.len() == 8 && table.iter().all(|line| bars(line) == bars(table[0])), "{document}");
    insta::assert_snapshot!("weird_terminal", shown);
    insta::assert_snapshot!("weird_markdown", document);
}

#[test]
fn metrics_may_be_asked_for_by_name() {
    let data = four_factors();
    let options = Options { metrics: vec!["read.rate".parse::<MetricName>().unwrap()], ..Options::default() };
    let report = build(&data, &options);
    assert!(report.tables.iter().all(|t| t.columns.len() == 1 && t.columns[0].full() == "read.rate, /s"));
    let all = build(&data, &Options { all_metrics: true, ..Options::default() });
    assert_eq!(all.tables[0].columns.len(), 20);
}

#[test]
fn an_empty_run_is_shown_as_such() {
    let experiment = experiment("Nothing yet", &[texts("engine", &["a", "b"])], &[("write", true)], 6);
    let shown = terminal(&run_data(experiment, 12, vec![]), 100);
    assert!(shown.contains("12 trials planned, 0 run"), "{shown}");
    assert_eq!(shown.matches("not run").count(), 2, "{shown}");
    assert!(shown.contains("No trial has ended.") && !shown.contains("One trial each"), "{shown}");
}

#[test]
fn colour_adds_escape_sequences_and_nothing_else() {
    let data = outcomes();
    let plain = terminal(&data, 200);
    let coloured = printed(&data, &Terminal { width: Some(200), colour: true }, &Options::default());
    assert!(coloured.contains("\u{1b}[31m"));
    let mut stripped = coloured;
    for code in ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[2m", "\u{1b}[31m"] {
        stripped = stripped.replace(code, "");
    }
    let trimmed = |text: &str| text.lines().map(|l| l.trim_end().to_owned()).collect::<Vec<_>>();
    assert_eq!(trimmed(&stripped), trimmed(&plain));
}
