//! Tables of made-up runs, as text. Look at a changed snapshot as a stranger would.

use prony::report::render::Render;
use prony::report::render::markdown::Markdown;
use prony::report::render::terminal::Terminal;
use prony::report::{Options, build};
use prony::results::RunData;
use prony_core::guard::{Finding, Severity};
use prony_core::metric::MetricName;
use prony_core::outcome::{Ending, OutOfMemory, Outcome};
use prony_core::reading::{Reading, Why};
use prony_core::record::{Answer, Completion, PhaseRecord, TrialRecord};
use prony_core::units::Nanos;
use serde_json::{Value, json};

use crate::synthetic::{experiment, experiment_with, key, noise, not_reached, numbers, phase, run_data, texts, trial};

fn terminal(data: &RunData, width: usize) -> String {
    printed(data, &Terminal { width: Some(width), colour: false }, &Options::default())
}

fn markdown(data: &RunData) -> String {
    printed(data, &Markdown, &Options::default())
}

fn printed(data: &RunData, medium: &dyn Render, options: &Options) -> String {
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

fn sourcing(tables: Value) -> RunData {
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
        let seen = [("time", 9e9), ("rss.peak", peak)];
        record.phases[0].readings.get_mut("").unwrap().insert(key("rss.peak"), Reading::Measured(9e9));
        record.phases.push(PhaseRecord { completion: Completion::Partial, ..phase("persist", &seen) });
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
        record.effective =
            json!({"engine": "lmdb", "version": "0.9.33", "settings": {"class": "strict", "values": {}}});
    }
    record
}

fn metric(name: &str) -> Value {
    json!({"metric": name})
}

fn figure(name: &str) -> Value {
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
