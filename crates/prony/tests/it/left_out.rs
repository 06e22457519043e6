//! Tests leave-one-out effects (the effect of each change when all others are applied), in every output format.

use prony_experiment::design::Experiment;
use prony_model::outcome::{OutOfMemory, Outcome};
use prony_model::record::TrialRecord;
use prony_report::render::Render;
use prony_report::render::markup::Markup::Markdown;
use prony_report::render::terminal::Terminal;
use prony_report::{Options, Report, Row, Table, build};
use prony_results::RunData;
use serde_json::{Value, json};

use crate::bench::Bench;
use crate::compared::{against, edited, trials};
use crate::synthetic::{experiment, noise, not_reached, phase, run_data, texts};
use crate::{json_document, pages, report_page};

const BLOCKS: u32 = 12;
const CODE: [&str; 5] = ["all", "without cache", "without pool", "without log", "none"];
/// Seconds with each of [`CODE`]: the cache saves 30 %, the pool nothing, the log costs.
const TIMES: [f64; 5] = [1.0, 1.3, 1.0, 0.8, 2.0];

fn plan(pages: &[&str]) -> Experiment {
    let factors = [texts("code", &CODE), texts("pages", pages)];
    let plain = experiment("Changes", &factors, &[("build", true)], BLOCKS);
    edited(&against(&plain, "code", "all"), |json| json["leave_one_out"] = json!("code"))
}

fn records(experiment: &Experiment) -> Vec<TrialRecord> {
    trials(experiment, BLOCKS, |t| {
        let levels = &experiment.variants()[t.trial.variant].levels;
        let noise_factor = 1.0 + 0.005 * (noise(u64::from(t.trial.position)) - 0.5);
        let time = TIMES[levels[0]] * (1.0 + levels[1] as f64) * noise_factor;
        t.phases = vec![phase("build", &[("time", 1e9 * time), ("rate", 100.0 / time), ("operations", 10.0 * time)])];
    })
}

fn run(experiment: &Experiment) -> RunData {
    let records = records(experiment);
    run_data(experiment.clone(), records.len() as u32, records)
}

/// A run of which each change is left out in turn.
pub(crate) fn example() -> RunData {
    let mut data = run(&plan(&["few", "many"]));
    data.trials.iter_mut().filter(|trial| trial.trial.variant == 2).for_each(ends_by_memory);
    data
}

fn ends_by_memory(trial: &mut TrialRecord) {
    trial.ending.outcome = Outcome::OutOfMemory { by: OutOfMemory::Limit };
    trial.phases = vec![not_reached("build")];
}

fn effects(data: &RunData) -> Vec<Table> {
    build(data, &Options::default()).effects
}

/// Labels, ratio, verdict and effect of each row.
fn rows(table: &Table) -> Vec<(String, f64, &str, &str)> {
    let row = |row: &'_ Row| {
        let labels: Vec<&str> = row.labels.iter().map(|label| label.text.as_str()).collect();
        (labels.join("/"), row.cells[0].main.parse().unwrap_or(f64::NAN))
    };
    let texts = table.rows.iter().map(|row| (row.cells[1].main.as_str(), row.cells[2].main.as_str()));
    table
        .rows
        .iter()
        .map(row)
        .zip(texts)
        .map(|((labels, ratio), (verdict, effect))| (labels, ratio, verdict, effect))
        .collect()
}

#[track_caller]
fn are(found: &[(String, f64, &str, &str)], expected: &[(&str, f64, &str, &str)]) {
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!((found.0.as_str(), found.2, found.3), (expected.0, expected.2, expected.3));
        let off = (found.1 - expected.1).abs();
        assert!(off < 0.01 * expected.1 || (found.1.is_nan() && expected.1.is_nan()), "{}: {}", found.0, found.1);
    }
}

fn rendered(report: &Report, render: &dyn Render) -> String {
    let mut out = Vec::new();
    render.render(report, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn each_change_has_a_row_that_says_what_it_does() {
    let data = run(&plan(&["few"]));
    let [table] = effects(&data).try_into().unwrap();
    assert_eq!(table.title.as_deref(), Some("The effect of each change when all others are applied: build.time"));
    assert_eq!(table.labels, ["change"]);
    let expected = [
        ("cache", 1.3, "slower", "helps"),
        ("pool", 1.0, "no difference", "makes no difference"),
        ("log", 0.8, "faster", "hurts"),
        ("all of them", 2.0, "slower", "helps"),
    ];
    are(&rows(&table), &expected);
    assert!(table.rows[0].cells[0].spread.starts_with("(1.2") || table.rows[0].cells[0].spread.starts_with("(1.3"));
    let figure = &table.rows[0].cells[0].figures[0];
    assert!(figure.low.unwrap() < 1.3 && figure.high.unwrap() > 1.29, "{figure:?}");
    assert!(table.caption.contains("Above 1 `all` does better, so the change helps"), "{}", table.caption);
}

#[test]
fn where_more_is_better_the_direction_turns_round() {
    let judged = |metric: &str| {
        let experiment = edited(&plan(&["few"]), |json| json["compare"]["metrics"] = json!([metric]));
        let tables = effects(&run(&experiment));
        assert_eq!(tables.len(), 2, "one for each metric that is judged");
        tables.into_iter().nth(1).unwrap()
    };
    let rate = judged("build.rate");
    assert_eq!(rows(&rate)[0].2, "slower");
    are(&rows(&rate)[..1], &[("cache", 1.0 / 1.3, "slower", "helps")]);
    assert!(rate.caption.contains("Below 1 `all` does better"), "{}", rate.caption);
    assert_eq!(rate.columns[0].unit, "times as fast");
    let count = judged("build.operations");
    are(&rows(&count)[..1], &[("cache", 1.3, "more", "lowers the value")]);
    assert!(!count.caption.contains("better"), "a count has no better side: {}", count.caption);
}

#[test]
fn other_factors_are_shown_with_the_change() {
    let data = run(&plan(&["few", "many"]));
    let [table] = effects(&data).try_into().unwrap();
    assert_eq!(table.labels, ["pages", "change"]);
    let labels: Vec<String> = rows(&table).into_iter().map(|row| row.0).collect();
    assert_eq!(labels[..5], ["few/cache", "few/pool", "few/log", "few/all of them", "many/cache"]);
    assert_eq!(labels.len(), 8);
}

#[test]
fn what_cannot_be_judged_says_so() {
    let experiment = plan(&["few"]);
    let mut data = run(&experiment);
    for trial in data.trials.iter_mut().filter(|trial| matches!(trial.trial.variant, 1 | 2)) {
        match trial.trial.variant {
            1 => ends_by_memory(trial),
            _ => trial.phases = vec![phase("build", &[("time", 1e9 * (1.0 + noise(trial.trial.position.into())))])],
        }
    }
    let [table] = effects(&data).try_into().unwrap();
    let found = rows(&table);
    assert_eq!((found[0].2, found[0].3), ("does not finish", "is needed to finish"));
    let cell = &table.rows[0].cells[0];
    assert_eq!((cell.main.as_str(), cell.marks.as_slice()), ("-", &[1][..]), "there is no ratio");
    let why = cell.figures[0].missing.clone().unwrap();
    assert_eq!(table.notes.iter().map(|note| (note.mark, &note.text)).collect::<Vec<_>>(), [(1, &why)]);
    let document = json_document::of(&data, None);
    let missing: Vec<&Value> =
        document["leave_one_out"].as_array().unwrap().iter().map(|row| &row["missing"]).collect();
    assert_eq!((missing[0], missing[2]), (&json!(why), &Value::Null), "where there is a ratio nothing is missing");
    assert!(
        found[1].3 == "can't tell" || found[1].3.ends_with("by how much is uncertain") || found[1].3 == "helps",
        "{found:?}"
    );
}

#[test]
fn without_all_changes_as_baseline_there_is_no_effect_of_leaving_one_out() {
    let none = |json: &mut Value| json["leave_one_out"] = json!("code");
    let factors = [texts("code", &CODE), texts("pages", &["few"])];
    let plain = experiment("Changes", &factors, &[("build", true)], BLOCKS);
    assert_eq!(effects(&run(&edited(&against(&plain, "code", "none"), none))), []);
    assert_eq!(effects(&run(&against(&plain, "code", "all"))), [], "a factor may have such levels of its own");
    // The baseline names both factors: what differs in both is no effect of one.
    let both = edited(&plan(&["few", "many"]), |json| {
        json["variants"].as_array_mut().unwrap().iter_mut().for_each(|variant| {
            variant["stratum"] = json!(0);
            variant["baseline"] = json!(variant["levels"] == json!([0, 0]));
        });
    });
    let [table] = effects(&run(&both)).try_into().unwrap();
    assert_eq!(rows(&table).iter().map(|row| row.0.as_str()).collect::<Vec<_>>()[..2], ["few/cache", "few/pool"]);
    assert_eq!(table.rows.len(), 4);
}

#[test]
fn every_medium_has_the_table() {
    let experiment = plan(&["few"]);
    let data = run(&experiment);
    let report = build(&data, &Options::default());
    let title = "The effect of each change when all others are applied: build.time";
    let terminal = rendered(&report, &Terminal { width: Some(100), colour: true });
    assert!(terminal.contains(title) && terminal.contains("all of them"), "{terminal}");
    let line = terminal.lines().find(|line| line.starts_with("log")).unwrap();
    assert!(line.trim_end().ends_with("faster          hurts"), "words stand to the left and are not faint: {line:?}");
    let markdown = rendered(&report, &Markdown);
    assert!(
        markdown.contains("| change | without it, times as long | without it | so it |\n| :-- | --: | :-- | :-- |"),
        "{markdown}"
    );
    assert!(markdown.contains(" | slower | helps |"), "{markdown}");
    let (database, id) = pages::stored("left-out", &experiment, &data.trials);
    let page = report_page::of_stored("left-out", &database, id);
    let verdicts =
        &page[page.find("<section id=\"verdicts\">").unwrap()..page.find("<section id=\"findings\">").unwrap()];
    assert!(verdicts.contains(title) && verdicts.contains("<td>slower</td><td>helps</td>"), "{verdicts}");
}

#[test]
fn the_json_document_has_the_effects_as_numbers() {
    let data = run(&plan(&["few", "many"]));
    let document = json_document::of(&data, None);
    let effects = document["leave_one_out"].as_array().unwrap();
    assert_eq!(effects.len(), 8);
    let cache = &effects[0];
    assert_eq!(
        (&cache["change"], &cache["at"], &cache["effect"]),
        (&json!("cache"), &json!({ "pages": "few" }), &json!("helps"))
    );
    let verdict = &document["comparisons"][cache["comparison"].as_u64().unwrap() as usize];
    for key in ["metric", "ratio", "low", "high", "verdict"] {
        assert_eq!(cache[key], verdict[key], "it is that verdict, and nothing new: {key}");
    }
    assert!(effects.iter().any(|effect| effect["change"].is_null()), "all of them left out");
}

/// Programs report their own times, so that the effects are exact.
#[test]
fn left_out_file_is_compared_with_all_by_default() {
    let bench = Bench::new();
    let body = "[compare]\nblocks = 6\n[design]\nleave_one_out = \"code\"\n[factors.code]\n\
                fast = { env = { SLOW = \"\" } }\nsame = { env = { OTHER = 1 } }\n\
                [program.x]\nshell = true\ncommand = 'echo took 1${{SLOW-3}}00 ms'\nchange = \"{code}\"\n\
                [[phase]]\nname = \"run\"\nread = 'took (?<time_ms>[0-9]+) ms'\n";
    bench.run(body);
    let shown = String::from_utf8(bench.prony(&["show"]).stdout).unwrap();
    assert!(shown.contains("The effect of each change when all others are applied: run.time"), "{shown}");
    let row =
        |name: &str| shown.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{shown}")).to_owned();
    assert!(row("fast ").contains("13.0") && row("fast ").trim_end().ends_with("helps"), "{}", row("fast "));
    assert!(row("same ").trim_end().ends_with("makes no difference"), "{}", row("same "));
}
