//! Tests the HTML page: its content, its security against texts from outside, its size and its speed.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prony_experiment::design::Experiment;
use prony_model::record::TrialRecord;
use prony_model::trial::Label;
use prony_report::{Options, html};
use prony_results::{Database, RunId};
use serde_json::{Value, json};

use crate::compared::{against, trials};
use crate::pages;
use crate::synthetic::{self, experiment, phase};

fn page(name: &str, (experiment, trials): &(Experiment, Vec<TrialRecord>)) -> String {
    let (database, run) = pages::stored(name, experiment, trials);
    of_stored(name, &database, run)
}

/// Writes the page of a run that is stored.
pub(crate) fn of_stored(name: &str, database: &Database, run: RunId) -> String {
    let mut out = Vec::new();
    html::write(database, &database.load_run(run).unwrap(), &Options::default(), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    std::fs::write(folder().join(format!("{name}.html")), &text).unwrap();
    text
}

/// Where the browser's test finds the pages: `target/tmp/pages`.
fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pages");
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// The page's data, read back.
pub(crate) fn data(page: &str) -> Value {
    let start = page.find("id=\"data\">").unwrap() + "id=\"data\">".len();
    let end = start + page[start..].find("</script>").unwrap();
    let packed = STANDARD.decode(&page[start..end]).unwrap();
    serde_json::from_slice(&miniz_oxide::inflate::decompress_to_vec(&packed).unwrap()).unwrap()
}

/// The numbers of a column of the page's data: 32-bit floats in base64, or the middles of steps.
pub(crate) fn numbers(data: &Value, id: &Value) -> Vec<f32> {
    let column = &data["columns"][id.as_u64().unwrap() as usize];
    let Some(text) = column.as_str() else {
        let (step, count) = (column["step"].as_f64().unwrap(), column["count"].as_u64().unwrap());
        return (0..count).map(|i| ((i as f64 + 0.5) * step) as f32).collect();
    };
    let bytes = STANDARD.decode(text).unwrap();
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

/// The charts of a section with this title.
fn charts<'a>(data: &'a Value, section: &str, title: &str) -> Vec<&'a Value> {
    let all = data["sections"][section]["charts"].as_array().unwrap();
    all.iter().filter(|chart| chart["title"] == title).collect()
}

fn marks<'a>(chart: &'a Value, kind: &str) -> Vec<&'a Value> {
    chart["marks"].as_array().unwrap().iter().filter(|mark| mark["kind"] == kind).collect()
}

fn texts<'a>(all: &'a Value, key: &str) -> Vec<&'a str> {
    all.as_array().unwrap().iter().filter_map(|one| one[key].as_str()).collect()
}

#[test]
fn the_page_contains_verdicts_tables_and_data_for_every_chart() {
    let text = page("cache", &pages::cache(200));
    assert!(text.contains("times faster than <code>store=lmdb-sync</code> in <code>write.time</code>"), "no verdict");
    assert!(text.contains("<table class=\"sortable\">") && text.contains("12 % of the phase waited for a CPU"));
    let data = data(&text);
    let samples = &data["sections"]["samples"];
    let clock = samples["controls"].as_array().unwrap().iter().position(|c| c["label"] == "Clock").unwrap();
    assert_eq!(texts(&samples["controls"][clock]["options"], "text"), ["wall time", "CPU time"]);
    for option in 0..2 {
        let of_clock = |chart: &&Value| chart["when"] == json!([[clock, option, option]]);
        let charts: Vec<&Value> = samples["charts"].as_array().unwrap().iter().filter(of_clock).collect();
        assert!(charts.iter().all(|chart| chart["x"]["format"] == "times"), "ratios to the baseline");
        let titles: Vec<&str> = charts.iter().filter_map(|chart| chart["title"].as_str()).collect();
        assert_eq!(titles, ["read", "write, the fast", "write, the slow"], "what is six times as fast lies apart");
    }
    assert!(!marks(charts(&data, "timeline", "Anonymous memory")[0], "line").is_empty());
    let effects = charts(&data, "effects", "write.time relative to the baseline")[0];
    let lanes = effects["y"]["lanes"].as_array().unwrap();
    let itself: Vec<bool> = lanes.iter().map(|lane| lane["last"] == true).collect();
    assert_eq!(itself.iter().filter(|itself| **itself).count(), 2, "one for each stratum's baseline");
    assert_eq!(lanes.len(), 10);
    assert!((lanes[0]["rank"].as_f64().unwrap() - 1.0).abs() < 0.02, "equal variants come out equal");
    let centers = numbers(&data, &marks(effects, "intervals")[0]["z"]);
    let ranks: Vec<u32> = lanes.iter().map(|lane| (lane["rank"].as_f64().unwrap() as f32).to_bits()).collect();
    assert_eq!(centers.iter().map(|center| center.to_bits()).collect::<Vec<_>>(), ranks);
    assert!(effects["caption"][0]["text"].as_str().unwrap().contains("the interval that the verdict rests on"));
}

#[test]
fn growth_has_its_fits_and_latency_both_kinds() {
    let data = data(&page("sourcing", &pages::sourcing()));
    let time = charts(&data, "growth", "source.time against documents")[0];
    let said = texts(&time["caption"], "text").join(" ");
    assert!(said.contains("source.time of engine=lmdb grows as documents to the power of 1.00"), "{said}");
    assert!(texts(&time["marks"], "kind").contains(&"ends") && time.to_string().contains("16 out of memory (limit)"));
    let latency = charts(&data, "latency", "source: put")[0];
    let starts: Vec<&Value> = latency["table"]["rows"].as_array().unwrap().iter().map(|r| &r["cells"][0]).collect();
    assert!(starts.contains(&&json!("intended")) && starts.contains(&&json!("actual")));
    let limited = charts(&data, "growth", "source.anon.max against documents")[0];
    assert_eq!(limited["when"], json!([[1, 0, 0]]), "it stands below whichever figure is chosen");
    assert_eq!(data["sections"]["growth"]["charts"].as_array().unwrap().last().unwrap(), limited);
    let limit = marks(limited, "limits")[0];
    assert_eq!((numbers(&data, &limit["y"]), &limit["text"]), (vec![16e9], &json!(["limit 16\u{a0}GB"])));
    let reached = numbers(&data, &marks(limited, "rings")[0]["x"]);
    assert!((9e6..1.1e7).contains(&reached[0]), "{reached:?}");
}

#[test]
fn a_long_list_of_verdicts_is_folded_and_interactions_are_shown_beside_it() {
    let text = page("many", &pages::many());
    let (open, folded) = text.split_once("<details class=\"more\">").unwrap();
    assert!(open.contains("<p>12 comparisons: "), "{:.3000}", &open[open.find("id=\"verdicts\"").unwrap()..]);
    let claimed = open.matches("<span class=\"mark\"").count();
    assert!(claimed >= 6 && open.matches("times as long as <code>").count() >= 6, "what claims something stands open");
    let folded = folded.split_once("</details></section>").map_or(folded, |(folded, _)| folded);
    let summary = folded.split_once("</summary>").unwrap().0;
    assert!(summary.starts_with(&format!("<summary>{} more comparisons: ", 12 - claimed)), "{summary}");
    assert_eq!(folded.matches("The effect of <code>engine</code> depends on <code>batch</code>").count(), 6);
    assert!(folded.contains("Interactions are exploratory and are not verdicts"));
    assert!(!page("cache-short", &pages::cache(200)).contains("<details class=\"more\">"), "a short one is not folded");
}

#[test]
fn names_from_outside_are_inert() {
    let text = page("hostile", &pages::hostile());
    let outside_script = text.replace(include_str!("../../../prony-report/src/html/assets/app.js"), "");
    assert!(!outside_script.contains("<img") && !outside_script.contains("<!--"));
    assert!(!outside_script.contains("\u{202e}"));
    assert_eq!(outside_script.matches("<script").count(), 2, "the data's element and the script's own");
    assert_eq!(outside_script.matches("</script").count(), 2);
    assert_eq!(data(&text)["title"], pages::HOSTILE);
    assert!(outside_script.contains("&lt;/script&gt;&lt;img src=x onerror=&quot;"));
}

#[test]
fn pages_of_runs_that_lack_things_are_sensible() {
    let single = page("alone", &pages::single());
    assert!(single.contains("there is one variant, and nothing to compare it with"));
    let failed = page("failed", &pages::failed());
    assert!(failed.contains("neither <code>store=b</code> nor <code>store=a</code> succeeds"), "{failed:.4000}");
    let undeclared = page("undeclared", &pages::undeclared());
    assert!(undeclared.contains("no baseline is declared"));
    let undeclared = data(&undeclared);
    assert_eq!(charts(&undeclared, "samples", "write")[0]["x"]["format"], "nanos", "there is no baseline to divide by");
    let effects = charts(&undeclared, "effects", "write.time")[0];
    assert_eq!((&effects["x"]["format"], marks(effects, "rules").len()), (&json!("nanos"), 0));
    let nothing = page("nothing", &(pages::single().0, vec![]));
    assert!(nothing.contains("No trial has ended") && !nothing.contains("id=\"answer\""));
}

#[test]
fn the_page_asks_for_nothing_from_elsewhere() {
    let text = page("requests", &pages::single());
    let outside_script = text.replace(include_str!("../../../prony-report/src/html/assets/app.js"), "");
    for way in [" src=", "url(", "@import", "http:", "https:", "<link rel=\"style"] {
        assert!(!outside_script.contains(way), "`{way}`");
    }
    assert!(text.contains("default-src 'none'; script-src 'sha256-"));
}

/// `cargo test --release -p prony --test it speed_of_the_page -- --ignored --nocapture`
#[test]
#[ignore = "prints figures and asserts nothing on time"]
fn speed_of_the_page() {
    let large = pages::large();
    let (database, run) = pages::stored("large", &large.0, &large.1);
    let samples: usize = large.1.iter().flat_map(|t| &t.series).map(|s| s.samples.len()).sum();
    drop(large.1);
    for _ in 0..3 {
        let start = std::time::Instant::now();
        let mut out = Vec::new();
        html::write(&database, &database.load_run(run).unwrap(), &Options::default(), &mut out).unwrap();
        let took = start.elapsed();
        std::fs::write(folder().join("large.html"), &out).unwrap();
        println!("{samples} samples: {took:?}, {:.2} MB", out.len() as f64 / 1e6);
        assert!(out.len() < 5_000_000, "the page has {} bytes", out.len());
    }
}

/// The page gave the interval of 4 blocks that the terminal withholds, and 1 was outside of it.
#[test]
fn basis_of_a_verdict_is_the_same_on_the_page_and_in_the_terminal() {
    let plain = experiment("Basis", &[synthetic::texts("store", &["a", "b", "c"])], &[("write", true)], 8);
    let plan = against(&plain, "store", "a");
    let basis = |blocks: u32| {
        let records = trials(&plan, blocks, |t| {
            let second = if t.trial.label == Label::A2 { 1.5 } else { 1.0 };
            t.phases = vec![phase("write", &[("time", second * 1e9 + f64::from(t.trial.position))])];
        });
        page("basis", &(plan.clone(), records))
    };
    let few = basis(4);
    let cells = |page: &str| {
        let chart = charts(&data(page), "effects", "write.time relative to the baseline")[0].clone();
        let cells = chart["table"]["rows"][1]["cells"].as_array().unwrap();
        cells[cells.len() - 2..].iter().map(|cell| cell.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(cells(&few), ["can't tell", "1.5\u{d7}"], "no forecast that the sentence refuses, and no interval");
    assert_eq!(few.matches("without an interval: 4 blocks are too few, a verdict needs 6").count(), 2);
    assert!(!few.contains("95 % interval, uncorrected"));
    let whole = basis(8);
    assert!(
        cells(&whole)[1].starts_with("1.5\u{d7} (") && cells(&whole)[1].ends_with(", 95 %)"),
        "{:?}",
        cells(&whole)
    );
    assert_eq!(whole.matches("A/A check, the baseline against itself: ratio 1.50 (95 % interval: 1.50").count(), 2);
    assert!(!whole.contains("as above"), "each basis is folded by itself");
}

/// The browser tests sort and copy this page's tables.
#[test]
fn infinite_median_is_the_largest_for_scripts_and_a_missing_one_is_no_number() {
    let text = page("marked", &pages::marked());
    let cell = |of: &str| {
        let at = text.find(of).unwrap_or_else(|| panic!("no `{of}`"));
        text[text[..at].rfind("<td").unwrap()..].split_inclusive("</td>").next().unwrap()
    };
    let infinite = cell("infinite (4 of 6)");
    assert!(infinite.contains("data-value=\"Infinity\"") && infinite.contains("<sup>"), "{infinite}");
    let missing = cell(">-<sup>");
    assert!(!missing.contains("data-value"), "{missing}");
}

#[test]
fn charts_of_a_metric_name_its_phase() {
    let data = data(&page("cache", &pages::cache(200)));
    let phases = |section: &str| texts(&data["sections"][section]["charts"], "phase").len();
    let charts = |section: &str| data["sections"][section]["charts"].as_array().unwrap().len();
    assert_eq!((phases("effects"), phases("timeline")), (charts("effects"), 0));
    assert_eq!(self::charts(&data, "effects", "write.time relative to the baseline")[0]["phase"], "write");
}
