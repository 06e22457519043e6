//! The HTML page: what it holds, what it cannot be made to do, how large and how fast it is.

use std::path::{Path, PathBuf};

use prony_experiment::design::Experiment;
use prony_model::record::TrialRecord;
use prony_report::html;
use prony_results::{Database, RunId};

use crate::pages;

fn page(name: &str, (experiment, trials): &(Experiment, Vec<TrialRecord>)) -> String {
    let (database, run) = pages::stored(name, experiment, trials);
    of_stored(name, &database, run)
}

/// Writes the page of a run that is stored.
pub(crate) fn of_stored(name: &str, database: &Database, run: RunId) -> String {
    let mut out = Vec::new();
    html::write(database, run, &mut out).unwrap();
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
pub(crate) fn data(page: &str) -> serde_json::Value {
    let start = page.find("id=\"data\">").unwrap() + "id=\"data\">".len();
    let end = start + page[start..].find("</script>").unwrap();
    serde_json::from_str(&page[start..end]).unwrap()
}

#[test]
fn the_page_holds_verdicts_tables_and_data_for_every_figure() {
    let text = page("cache", &pages::cache(200));
    assert!(text.contains("is faster than <code>store=lmdb-sync</code> in <code>write.time</code>"), "no verdict");
    assert!(text.contains("<table class=\"sortable\">") && text.contains("12 % of the phase waited for a CPU"));
    let data = data(&text);
    let clocks: Vec<&str> = data["samples"].as_array().unwrap().iter().filter_map(|s| s["clock"].as_str()).collect();
    assert_eq!(clocks, ["cpu", "wall", "cpu", "wall"].map(|c| c).into_iter().rev().collect::<Vec<_>>());
    assert!(data["samples"][0]["relative"].as_bool().unwrap());
    let write = data["samples"].as_array().unwrap().iter().find(|s| s["phase"] == "write").unwrap();
    let panels: Vec<_> = write["panels"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap()).collect();
    assert_eq!(panels, ["fast", "slow"], "what is six times as fast lies apart");
    assert!(!data["timelines"]["trials"].as_array().unwrap().is_empty());
    let time = data["metrics"].as_array().unwrap().iter().find(|m| m["name"] == "write.time").unwrap();
    let rows = time["effects"]["rows"].as_array().unwrap();
    let itself: Vec<bool> = rows.iter().map(|row| row["itself"].as_bool().unwrap()).collect();
    assert_eq!(itself.iter().filter(|itself| **itself).count(), 2, "one for each stratum's baseline");
    assert_eq!(rows.len(), 10);
    assert!((rows[0]["center"].as_f64().unwrap() - 1.0).abs() < 0.02, "an A/A check shows no difference");
    assert!(time["effects"]["declared"].as_bool().unwrap());
}

#[test]
fn growth_has_its_fits_and_latency_both_kinds() {
    let data = data(&page("sourcing", &pages::sourcing()));
    let fits = &data["growth"][0]["fits"]["source.time"];
    assert!((fits[1]["slope"].as_f64().unwrap() - 1.0).abs() < 0.02, "{fits}");
    let kinds: Vec<&str> =
        data["latency"]["curves"].as_array().unwrap().iter().filter_map(|c| c["kind"].as_str()).collect();
    assert!(kinds.contains(&"intended") && kinds.contains(&"actual"));
    let outcomes = data["trials"]["outcomes"].as_array().unwrap();
    assert!(outcomes.iter().any(|o| o == "out of memory (limit)"));
    assert_eq!(data["limited"], "source.anon.max");
    let memory = &data["growth"][0]["fits"]["source.anon.max"][0];
    assert_eq!(memory["limit"], 16e9);
    assert!((9e6..1.1e7).contains(&memory["reach"]["x"].as_f64().unwrap()), "{memory}");
}

#[test]
fn a_long_list_of_verdicts_is_folded_and_interactions_stand_beside_it() {
    let text = page("many", &pages::many());
    let (open, folded) = text.split_once("<details class=\"more\">").unwrap();
    assert!(open.contains("<p>12 comparisons: "), "{:.3000}", &open[open.find("id=\"verdicts\"").unwrap()..]);
    let claimed = open.matches("<span class=\"mark\"").count();
    assert!(claimed >= 6 && open.matches("is slower than <code>").count() >= 6, "what claims something stands open");
    let folded = folded.split_once("</details></section>").map_or(folded, |(folded, _)| folded);
    let summary = folded.split_once("</summary>").unwrap().0;
    assert!(summary.starts_with(&format!("<summary>{} more: ", 12 - claimed)), "{summary}");
    assert_eq!(folded.matches("The effect of <code>engine</code> depends on <code>batch</code>").count(), 6);
    assert!(folded.contains("No verdicts: interactions are not declared"));
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
    assert!(failed.contains("neither <code>store=b</code> nor <code>store=a</code> finishes"), "{failed:.4000}");
    let undeclared = page("undeclared", &pages::undeclared());
    assert!(undeclared.contains("no baseline is declared"));
    assert_eq!(data(&undeclared)["samples"][0]["relative"], false);
    let nothing = page("nothing", &(pages::single().0, vec![]));
    assert!(nothing.contains("No trial has ended"));
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
        html::write(&database, run, &mut out).unwrap();
        let took = start.elapsed();
        std::fs::write(folder().join("large.html"), &out).unwrap();
        println!("{samples} samples: {took:?}, {:.2} MB", out.len() as f64 / 1e6);
        assert!(out.len() < 5_000_000, "the page has {} bytes", out.len());
    }
}
