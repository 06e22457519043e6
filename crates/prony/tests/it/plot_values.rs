//! Tests what charts make of values that are infinite, zero, of groups of different sizes, or of variants that are too many.

use prony_analysis::verdicts::{self, Comparisons};
use prony_experiment::design::Experiment;
use prony_model::outcome::{OutOfMemory, Outcome};
use prony_model::reading::{Reading, Why};
use prony_model::record::{Answer, Groups, TrialRecord};
use prony_model::trial::Label;
use prony_report::plot::chart::{Chart, Columns, Kind, Section};
use prony_report::plot::data::effects::{self, Judged};
use prony_report::plot::data::{Source, growth, samples, timeline};
use prony_report::{Options, build};

use serde_json::json;

use crate::compared::{against, edited, trials};
use crate::synthetic::{experiment, key, not_reached, numbers, phase, run_data, series, texts};
use crate::{json_document, pages, report_tables};

/// Draws a section of the run of these trials.
fn drawn(
    name: &str,
    experiment: &Experiment,
    records: &[TrialRecord],
    section: impl Fn(Source<'_>, &mut Columns) -> Section,
) -> (Section, Columns) {
    let (database, run) = pages::stored(&format!("plot-values-{name}"), experiment, records);
    let data = database.load_run(run).unwrap();
    let mut columns = Columns::default();
    (section(Source { database: &database, data: &data }, &mut columns), columns)
}

/// Draws the chart of effects of one metric.
fn effects(metric: &str) -> impl Fn(Source<'_>, &mut Columns) -> Section {
    let metric = [metric.parse().unwrap()];
    move |source, columns| {
        let (verdicts, comparisons) = (verdicts::of(source.data), Comparisons::new(source.data));
        effects::section(Judged { source, verdicts: &verdicts, comparisons: &comparisons }, columns, &metric)
    }
}

fn cells(chart: &Chart) -> Vec<Vec<&str>> {
    chart.table.rows.iter().map(|row| row.cells.iter().map(String::as_str).collect()).collect()
}

/// A percentile among failed operations was counted by how the trial ended, which was well.
#[test]
fn infinite_percentiles_did_not_finish_and_count_in_the_median() {
    let plain = experiment("infinite", &[texts("engine", &["a", "b"])], &[("load", true)], 6);
    let records = trials(&plain, 6, |t| {
        let mut load = phase("load", &[("latency.p99", 50e6 + 1e6 * f64::from(t.trial.block))]);
        if t.trial.variant == 1 && t.trial.block < 4 {
            let infinite = Reading::Missing(Why::Infinite { failed: 20, of: 1500 });
            load.readings.get_mut("").unwrap().insert(key("latency.p99"), infinite);
        }
        t.phases = vec![load];
    });
    let (section, _) = drawn("infinite", &plain, &records, effects("load.latency.p99"));
    let rows = cells(&section.charts[0]);
    assert_eq!(rows[0], ["-", "52.5\u{a0}ms", "50\u{a0}ms to 55\u{a0}ms", "6", "0"]);
    assert_eq!(rows[1], ["-", "-", "54\u{a0}ms or more", "2", "4 infinite"]);
    let ends = section.charts[0].marks.iter().find(|mark| mark.kind == Kind::Ends).unwrap();
    assert_eq!(ends.text, ["4 infinite"]);
}

/// Of 3 blocks, after which no verdict is, the chart drew an interval for the A/A check that excluded 1.
#[test]
fn check_of_equal_variants_has_an_interval_from_six_blocks_on() {
    for (blocks, interval) in [(3, "-"), (6, "1.2\u{d7} to 1.2\u{d7}")] {
        let plain = experiment("itself", &[texts("engine", &["a", "b"])], &[("read", true)], blocks);
        let compared = against(&plain, "engine", "a");
        let records = trials(&compared, blocks, |t| {
            let slower = if t.trial.label == Label::A2 { 1.2 } else { 1.0 };
            t.phases = vec![phase("read", &[("time", slower * 1e9)])];
        });
        let (section, _) = drawn(&format!("itself-{blocks}"), &compared, &records, effects("read.time"));
        let row = cells(&section.charts[0]).remove(0);
        assert_eq!((row[1], row[2]), ("1.2\u{d7}", interval), "{row:?}");
    }
}

/// Charts dropped trials without a value, and the caption did not say so.
#[test]
fn captions_count_trials_that_have_no_value() {
    let plain = experiment("without", &[numbers("n", &["1", "10", "100"])], &[("read", true)], 4);
    let records = trials(&plain, 4, |t| {
        let mut read = phase("read", &[("time", 1e9)]);
        if t.trial.variant == 1 && t.trial.block > 0 {
            let missing = Reading::Missing(Why::Failed("no samples".into()));
            read.readings.get_mut("").unwrap().insert(key("time"), missing);
        }
        t.phases = vec![read];
    });
    let metric = ["read.time".parse().unwrap()];
    let growth = |source: Source<'_>, columns: &mut Columns| growth::section(source, columns, &metric);
    for (section, _) in
        [drawn("without", &plain, &records, effects("read.time")), drawn("without-growth", &plain, &records, growth)]
    {
        let said: Vec<&str> = section.charts[0].caption.iter().map(|said| said.text.as_str()).collect();
        let without: Vec<_> = said.iter().filter(|text| text.contains("Not drawn: 3 of 4 trials of ")).collect();
        assert!(without.len() == 1 && without[0].ends_with("which have no value: no samples."), "{said:?}");
    }
}

/// A comparison that was refused had the interval `no bound`, as has one that was made, and `Trials 0` though all had values.
#[test]
fn refused_comparisons_have_no_interval() {
    let plain = experiment("refused", &[texts("engine", &["a", "b"])], &[("read", true)], 6);
    let compared = against(&plain, "engine", "a");
    let records = trials(&compared, 6, |t| {
        let mut read = phase("read", &[("time", 1e9)]);
        read.answer = Some(Answer { rows: None, digest: format!("bytes:{}", t.trial.variant), comparable: true });
        t.phases = vec![read];
    });
    let (section, _) = drawn("refused", &compared, &records, effects("read.time"));
    let chart = &section.charts[0];
    assert_eq!(chart.table.heads[3..5], ["Interval", "Trials drawn"]);
    let row = cells(chart).pop().unwrap();
    assert_eq!(row[1..4], ["-", "-", "0"], "{row:?}");
}

/// Four of six trials whose percentile fell among failed operations stood as the median of the other two.
#[test]
fn tables_and_documents_say_that_the_median_is_infinite() {
    let (compared, records) = pages::marked();
    let data = run_data(compared, records.len() as u32, records);
    let text = report_tables::terminal(&data, 160);
    assert!(text.contains("infinite (4 of 6) [50.0..infinite]"), "{text}");
    assert!(text.contains("infinite, since 20 of 1500 operations failed (in 4 of 6 trials)"), "{text}");
    let document = json_document::of(&data, None);
    let figures = document["tables"].as_array().unwrap().iter().flat_map(|table| table["rows"].as_array().unwrap());
    let cells = figures.flat_map(|row| row["cells"].as_array().unwrap());
    let figure = cells.flat_map(|cell| cell["figures"].as_array().unwrap()).find(|figure| figure["infinite"] != 0);
    let figure = figure.unwrap();
    assert_eq!((&figure["value"], &figure["high"], &figure["low"]), (&json!(null), &json!(null), &json!(50e6)));
    assert_eq!((&figure["trials"], &figure["infinite"]), (&json!(6), &json!(4)));
    let mut summary = Vec::new();
    let judged = edited(&data.experiment, |json| json["compare"]["primary"] = json!("load.latency.p99"));
    let data = run_data(judged, data.trials.len() as u32, data.trials);
    prony_report::render::summary::summary(&data, &build(&data, &Options::default()), &[], &mut summary).unwrap();
    let summary = String::from_utf8(summary).unwrap();
    assert!(summary.contains("| infinite (4 of 6) |"), "{summary}");
}

/// A group of 100 operations divided by one of 10 was a hundredfold difference of operations that took ten times as long.
#[test]
fn samples_are_compared_by_the_operation() {
    let plain = experiment("sizes", &[texts("engine", &["a", "b"])], &[("write", true)], 1);
    let compared = against(&plain, "engine", "a");
    let records = trials(&compared, 1, |t| {
        let mut write = phase("write", &[("time", 1e9)]);
        let (operations, nanos) = if t.trial.variant == 0 { (10, 1_000) } else { (100, 100_000) };
        write.groups = Some(Groups { operations, wall: vec![nanos; 50], cpu: vec![0; 50] });
        t.phases = vec![write];
    });
    let (section, _) =
        drawn("sizes", &compared, &records, |source, columns| samples::section(source, columns).unwrap());
    let medians: Vec<&str> = section.charts.iter().flat_map(cells).map(|row| row[1]).collect();
    assert_eq!(medians, ["1\u{d7}", "10\u{d7}"]);
    let caption = &section.charts[0].caption[0].text;
    assert!(caption.contains("each group of 10 or 100 operations by the number of its operations"), "{caption}");
    let (section, _) = drawn("alone", &plain, &records, |source, columns| samples::section(source, columns).unwrap());
    assert_eq!(section.charts[0].x.label, "time per operation");
    assert!(section.charts.iter().flat_map(cells).any(|row| row[1] == "100\u{a0}ns"));
}

/// The line went through the median of the values above 0, and the table counted only their trials.
#[test]
fn medians_of_growth_are_of_all_values() {
    let plain = experiment("zeros", &[numbers("records", &["10", "100"])], &[("write", true)], 5);
    let records = trials(&plain, 5, |t| {
        let faults = if t.trial.variant == 0 && t.trial.block < 3 { 0.0 } else { 8.0 };
        t.phases = vec![phase("write", &[("time", 1e9), ("faults.major", faults)])];
    });
    let metric = ["write.faults.major".parse().unwrap()];
    let (section, columns) =
        drawn("zeros", &plain, &records, |source, columns| growth::section(source, columns, &metric));
    let chart = &section.charts[0];
    assert_eq!(cells(chart), [["10", "0", "5", "0"], ["100", "8", "5", "0"]]);
    let line = chart.marks.iter().find(|mark| mark.kind == Kind::Line).unwrap();
    assert_eq!(columns.numbers(line.x), [100.0], "0 has no place on a logarithmic axis");
}

/// `125` was printed as `130`.
#[test]
fn level_at_which_memory_ran_out_is_exact() {
    let plain = experiment("out", &[numbers("mb", &["10", "20", "40", "1250.5"])], &[("run", true)], 2);
    let records = trials(&plain, 2, |t| {
        let mb = [10.0, 20.0, 40.0];
        match mb.get(t.trial.variant) {
            Some(mb) => t.phases = vec![phase("run", &[("time", 1e9), ("anon.max", mb * 1e6)])],
            None => {
                t.ending.outcome = Outcome::OutOfMemory { by: OutOfMemory::Limit };
                t.phases = vec![not_reached("run")];
            }
        }
    });
    let (database, run) = pages::stored("plot-values-out", &plain, &records);
    let metric = "run.anon.max".parse().unwrap();
    let growth = growth::of(&database.load_run(run).unwrap(), &metric, 0).unwrap();
    let sentence = &growth.sentences(&metric)[0];
    assert!(sentence.contains("trials did run out of memory at 1250.5;"), "{sentence}");
}

/// A page of more than 240 variants said that the trial of variant 241 has no samples.
#[test]
fn variants_that_are_too_many_to_draw_are_said_to_be() {
    let plain = experiment("many", &[texts("engine", &["a", "b", "c"])], &[("load", true)], 1);
    let records = trials(&plain, 1, |t| {
        t.phases = vec![phase("load", &[("time", 1e9)])];
        t.series = if t.trial.variant == 1 { vec![] } else { vec![series(30, 7)] };
    });
    let (section, _) =
        drawn("many", &plain, &records, |source, columns| timeline::section(source, columns, &[0, 1]).unwrap());
    let captions = &section.charts[0].caption;
    let of = |variant: usize| -> Vec<&str> {
        captions.iter().filter(|said| said.variants == [variant]).map(|said| said.text.as_str()).collect()
    };
    assert_eq!(of(1), ["Not drawn: b, whose trial has no samples."]);
    assert_eq!(of(2), ["Not drawn: c, since a page shows at most 2 trials over time."]);
}
