//! Tests that a failure is never fast (METHOD 1.3, 4.9, 8.1): a trial that failed before the end of a phase yields no
//! value that counts, no ratio, and never the word *faster*, in any output format.
//!
//! Until 2026 programs had a rule of their own: a phase that ends with the program was complete whatever the outcome, so
//! that a segmentation fault was *faster, 0.0186 times*, and a gate passed with every trial crashed.

use std::path::Path;

use clap::Parser;
use prony::cli::report::{ReportArgs, report};
use prony::cli::show::{ShowArgs, show};
use prony::cli::{Output, compare};
use prony_analysis::conclude::{Observed, Reached, conclude};
use prony_analysis::search::TrialEnd;
use prony_analysis::verdicts;
use prony_analysis::verdicts::gate::{Answer, Gate, Verdicted};
use prony_experiment::design::Experiment;
use prony_model::catalog::{Anywhere, Overrides};
use prony_model::outcome::{Ending, OutOfMemory, Outcome};
use prony_model::reading::{Reading, Why};
use prony_model::record::{Completion, TrialRecord};
use prony_model::units::Nanos;
use prony_report::plot::{self, Figure};
use prony_report::{Options, build};
use prony_results::{Database, RunData, RunId};
use prony_runner::load;
use prony_stats::Verdict;
use serde_json::{Value, json};

use crate::compared::{against, edited, trials};
use crate::synthetic::{experiment, key, noise, phase, run_data, series, texts};
use crate::{pages, report_page};

/// Every way in which a trial can end otherwise than well, but for the user's own interruption.
pub(crate) const FAILURES: [Outcome; 11] = [
    Outcome::OutOfMemory { by: OutOfMemory::Limit },
    Outcome::OutOfMemory { by: OutOfMemory::Host },
    Outcome::OutOfMemory { by: OutOfMemory::Runtime },
    Outcome::TimedOut,
    Outcome::Crashed { signal: 11 },
    Outcome::Failed { code: Some(3) },
    Outcome::DiskFull,
    Outcome::WrongAnswer,
    Outcome::Saturated,
    Outcome::Unsupported,
    Outcome::Killed,
];

/// The kinds of phases: what an experiment with one says, how far it comes in a trial that ends well, and in one that does not.
const KINDS: [(&str, Reached, &[Reached]); 6] = [
    (
        "[store]\nengine = \"memory\"\n[data]\nrecords = 10\n[[phase]]\nname = \"run\"\nput = {}\n",
        Reached::OwnEnd,
        &[Reached::Begin],
    ),
    ("[program.x]\ncommand = \"x\"\n", Reached::SubjectEnd, &[Reached::Begin, Reached::SubjectEnd]),
    (
        "[program.x]\ncommand = \"x\"\n[[phase]]\nname = \"run\"\nbegin = { line = 'on' }\nend = { line = 'off' }\n",
        Reached::OwnEnd,
        &[Reached::Begin],
    ),
    (
        "[program.x]\ncommand = \"x\"\n[[phase]]\nname = \"run\"\nbegin = { line = 'on' }\n",
        Reached::SubjectEnd,
        &[Reached::Begin, Reached::SubjectEnd],
    ),
    (
        "[program.x]\ncommand = \"x\"\n[program.x.replicas]\ncount = 2\nphase = \"run\"\n\
         [[phase]]\nname = \"run\"\nbegin = { line = 'on' }\nend = { replicas = \"ended\" }\nthen = \"stop\"\n",
        Reached::SubjectEnd,
        &[Reached::Begin, Reached::SubjectEnd],
    ),
    (
        "[program.x]\ncommand = \"node x\"\nruntime = \"node\"\n[[phase]]\nname = \"run\"\ncall = \"x.js#f\"\n",
        Reached::SubjectEnd,
        &[Reached::Begin, Reached::SubjectEnd],
    ),
];

pub(crate) fn two(blocks: u32) -> Experiment {
    let plain = experiment("Failures", &[texts("command", &["base", "changed"])], &[("run", true)], blocks);
    edited(&against(&plain, "command", "base"), |json| json["compare"]["metrics"] = json!(["run.rate", "run.anon.max"]))
}

/// Concludes a trial as the runner does: one phase, that came so far, of a trial that ended so.
pub(crate) fn ended(record: &mut TrialRecord, experiment: &Experiment, outcome: Outcome, reached: Reached, time: f64) {
    let noise_factor = 1.0 + 0.01 * (noise(u64::from(record.trial.position)) - 0.5);
    let figures = [
        ("time", 1e9 * time * noise_factor),
        ("rate", 10.0 / (time * noise_factor)),
        ("anon.max", 1e6 * time * noise_factor),
    ];
    let at = (!outcome.is_ok()).then(|| "run".to_owned());
    let evidence = if outcome.is_ok() { vec![] } else { vec!["it failed".to_owned()] };
    let ending = Ending { outcome, phase: at, after: Nanos::from_millis(48), evidence };
    record.series = vec![series(20, 1)];
    let observed = vec![Observed::new(phase("run", &figures), reached)];
    let specs = &experiment.variants()[record.trial.variant].spec.phases;
    (record.ending, record.phases) = conclude(specs, None, ending, observed);
}

/// A run in which the trials that `fails` names failed, a thousand times as fast as the others.
pub(crate) fn run_of(
    blocks: u32,
    fails: impl Fn(&TrialRecord) -> Option<(Outcome, Reached)>,
) -> (Experiment, Vec<TrialRecord>) {
    run_with(two(blocks), blocks, Reached::SubjectEnd, fails)
}

/// The same of an experiment in whose trials that end well the phase comes so far.
fn run_with(
    experiment: Experiment,
    blocks: u32,
    well: Reached,
    fails: impl Fn(&TrialRecord) -> Option<(Outcome, Reached)>,
) -> (Experiment, Vec<TrialRecord>) {
    let records = trials(&experiment, blocks, |t| match fails(t) {
        Some((outcome, reached)) => ended(t, &experiment, outcome, reached, 0.001),
        None => ended(t, &experiment, Outcome::Ok, well, 1.0),
    });
    (experiment, records)
}

/// Of every kind of phase, outcome and end of the phase a run of which all trials of the second variant failed.
fn every_failure(blocks: u32) -> impl Iterator<Item = (String, Outcome, (Experiment, Vec<TrialRecord>))> {
    KINDS.into_iter().flat_map(move |(text, well, failing)| {
        let loaded = load::text(text.to_owned(), "x.toml", &Overrides::default(), &Anywhere);
        let spec = serde_json::to_value(&loaded.unwrap_or_else(|e| panic!("{}", e.text())).variants()[0].spec).unwrap();
        let experiment = edited(&two(blocks), |json| {
            json["variants"].as_array_mut().unwrap().iter_mut().for_each(|variant| variant["spec"] = spec.clone());
        });
        FAILURES.into_iter().flat_map(move |outcome| {
            let experiment = experiment.clone();
            failing.iter().map(move |reached| {
                let fails = |t: &TrialRecord| (t.trial.variant == 1).then_some((outcome, *reached));
                let run = run_with(experiment.clone(), blocks, well, fails);
                (format!("{outcome}, {reached:?} of {text}"), outcome, run)
            })
        })
    })
}

pub(crate) fn data((experiment, trials): &(Experiment, Vec<TrialRecord>)) -> RunData {
    run_data(experiment.clone(), trials.len() as u32, trials.clone())
}

#[derive(Parser)]
enum Command {
    Show(ShowArgs),
    Report(ReportArgs),
    Compare(compare::Arguments),
}

/// What a command prints of run 1.
fn printed(database: &Path, line: &str) -> String {
    let words = line.split_whitespace().chain(["--database", database.to_str().unwrap()]);
    let mut out = Vec::new();
    match Command::try_parse_from(["prony"].into_iter().chain(words)).unwrap() {
        Command::Show(args) => show(&args, &mut Output::new(&mut out, false, None, false)).unwrap(),
        Command::Report(args) => drop(report(&args, &mut out).unwrap()),
        Command::Compare(args) => {
            compare::run(&args, &mut Output::new(&mut out, false, None, false)).unwrap();
        }
    }
    String::from_utf8(out).unwrap()
}

/// The page's data have no figure of the variant whose trials all failed, and nothing good to say of it.
fn page_says_no_figure(page_says: &Value, of: &RunData, what: &str) {
    for metric in page_says["metrics"].as_array().unwrap() {
        let values = report_page::numbers(page_says, &metric["values"]);
        for (trial, value) in of.trials.iter().zip(values) {
            assert_eq!(value.is_nan(), !trial.ending.outcome.is_ok(), "{what}: {} of the page", metric["name"]);
        }
    }
    for chart in page_says["sections"]["effects"]["charts"].as_array().unwrap() {
        for lane in chart["y"]["lanes"].as_array().unwrap().iter().filter(|lane| lane["variant"] == 1) {
            assert!(lane["rank"].is_null(), "{what}: {lane}");
            assert!(!lane["words"].as_str().unwrap_or_default().contains("faster"), "{what}: {lane}");
        }
        for row in chart["table"]["rows"].as_array().unwrap().iter().filter(|row| row["variant"] == 1) {
            assert_eq!((&row["cells"][1], &row["cells"][3]), (&json!("-"), &json!("0")), "{what}: {row}");
        }
    }
}

/// The timeline says of the variant whose trials all failed how they ended, and that what it shows is a lower bound.
fn timeline_says_how_it_ended(page_says: &Value, picture: &str, outcome: Outcome, what: &str) {
    let outcome = outcome.to_string();
    assert!(picture.contains(&format!("\u{2715} {outcome}</text>")), "{what}: {picture}");
    let charts = page_says["sections"]["timeline"]["charts"].as_array().unwrap();
    for chart in charts {
        let phases = chart["title"] == "Phases";
        let rows: Vec<&Value> = chart["table"]["rows"].as_array().unwrap().iter().collect();
        for row in rows.iter().filter(|row| row["variant"] == 1) {
            let cells = row["cells"].as_array().unwrap();
            let [bound, other] = if phases { [&cells[3], &cells[4]] } else { [&cells[1], &cells[0]] };
            assert!(bound.as_str().unwrap().starts_with(">= "), "{what}: {row}");
            assert_eq!(other, if phases { outcome.as_str() } else { "-" }, "{what}: {row}");
        }
        let well = rows.iter().filter(|row| row["variant"] == 0).all(|row| !row.to_string().contains(">="));
        assert!(rows.iter().any(|row| row["variant"] == 1) && well, "{what}: {chart}");
    }
    let said = charts[0]["caption"].to_string();
    let parts = [
        "changed has no value of run.time, so that no trial is nearest to the median: its first sampled trial is drawn."
            .to_owned(),
        format!("6 of 6 trials of changed did not end well: 6 {outcome}."),
    ];
    assert!(parts.iter().all(|part| said.contains(part)), "{what}: {said}");
}

/// `prony compare` says of the variant whose trials all failed how they ended, of the run alone and beside a run.
fn compare_says_no_figure(database: &Path, outcome: Outcome, what: &str) {
    let document = |line: &str| serde_json::from_str::<Value>(&printed(database, line)).unwrap();
    let again = document("compare 1 --json")["comparisons"].clone();
    assert_eq!(again.as_array().unwrap().len(), 3, "{what}");
    for row in again.as_array().unwrap() {
        // From 0 without an upper bound is no bound at all.
        let unbounded = row["low"] == 0.0 || row["low"].is_null();
        assert!(row["ratio"].is_null() && unbounded && row["high"].is_null(), "{what}: {row}");
        assert!(!row["verdict"].as_str().unwrap().contains("better"), "{what}: {row}");
    }
    let both = document("compare 1 1 --json")["figures"].clone();
    let failed: Vec<&Value> = both.as_array().unwrap().iter().filter(|row| row["variant"] == "changed").collect();
    assert_eq!(failed.len(), 3, "{what}: {both}");
    for run in failed.iter().flat_map(|row| row["runs"].as_array().unwrap()) {
        assert!(
            run["n"] == 0 && run["median"].is_null() && run["min"].is_null() && run["max"].is_null(),
            "{what}: {run}"
        );
        assert_eq!(run["outcomes"], json!({ outcome.to_string(): 6 }), "{what}");
    }
    for line in ["compare 1", "compare 1 1"] {
        let said = printed(database, line);
        assert!(!said.contains("faster") && !said.contains("slower"), "{what}: {said}");
    }
}

/// Every form in which a run is written says nothing good of the variant whose trials all failed.
fn says_no_figure(name: &str, database: &Path, of: &RunData, what: &str) {
    let failed = |position: u64| {
        of.trials.iter().any(|t| u64::from(t.trial.position) + 1 == position && !t.ending.outcome.is_ok())
    };
    let opened = Database::open(database).unwrap();
    let shown = printed(database, "show 1");
    let markdown = printed(database, "report 1 --format markdown");
    let page = printed(database, "report 1 --format html");
    let texts = [("show", &shown), ("markdown", &markdown)];
    for (form, text) in texts {
        assert!(!text.contains("faster"), "{what}, {form}: {text}");
        assert!(text.contains("6 of 18 trials failed: "), "{what}, {form}: the headline: {text}");
        assert!(text.contains("`trials_failed`"), "{what}, {form}: the finding: {text}");
    }
    assert!(!page.contains("No guard found anything"), "{what}");
    let body = &page[..page.find("id=\"data\">").unwrap()];
    assert!(!body.contains("times faster") && body.contains("6 of 18 trials failed"), "{what}: the page");
    page_says_no_figure(&report_page::data(&page), of, what);
    let document: Value = serde_json::from_str(&printed(database, "report 1 --format json")).unwrap();
    for variant in document["variants"].as_array().unwrap() {
        let columns = variant["readings"].as_array().unwrap();
        assert!(columns.len() == 3, "{what}");
        for (at, trial) in variant["trials"].as_array().unwrap().iter().enumerate() {
            let failed = failed(trial["trial"]["position"].as_u64().unwrap() + 1);
            for column in columns {
                assert_eq!(column["values"][at].is_null(), failed, "{what}: {column}");
                assert_eq!(column["partial"][at].is_number(), failed, "{what}: what was measured is stored: {column}");
            }
        }
    }
    for comparison in document["comparisons"].as_array().unwrap() {
        assert!(comparison["ratio"].is_null(), "{what}: {comparison}");
        assert!(!comparison["verdict"].as_str().unwrap().contains("better"), "{what}: {comparison}");
    }
    // The one outcome with a comma in it.
    let csv = printed(database, "report 1 --format csv").replace("\"killed, cause unknown\"", "killed");
    let heading: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
    let at = |name: &str| heading.iter().position(|field| *field == name).unwrap();
    for line in csv.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        assert_eq!(fields[at("value")].is_empty(), fields[at("outcome")] != "ok", "{what}: {line}");
    }
    for figure in plot::figures(&opened, RunId(1)).unwrap() {
        let picture = plot::draw(&opened, RunId(1), figure, &plot::Options::default()).unwrap();
        assert!(!picture.contains("faster"), "{what}: {name}: {}", figure.name());
    }
    let picture = plot::draw(&opened, RunId(1), Figure::Timeline, &plot::Options::default()).unwrap();
    let outcome = of.trials.iter().find(|trial| trial.trial.variant == 1).unwrap().ending.outcome;
    compare_says_no_figure(database, outcome, what);
    timeline_says_how_it_ended(&report_page::data(&page), &picture, outcome, what);
    let table = &build(of, &Options::default()).tables[0];
    assert!(table.rows.iter().flat_map(|row| &row.cells).any(|cell| cell.outcome), "{what}: {table:?}");
}

#[test]
fn failed_trial_has_no_figure_in_any_exporter() {
    for (what, _, run) in every_failure(6) {
        let name = "failures";
        drop(pages::stored(name, &run.0, &run.1));
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("page-{name}.db"));
        says_no_figure(name, &path, &data(&run), &what);
    }
}

#[test]
fn failed_trial_has_no_figure_in_its_record_and_is_no_success_of_a_search() {
    for (what, outcome, run) in every_failure(2) {
        for trial in &run.1 {
            let failed = trial.trial.variant == 1;
            for metric in ["run.time", "run.rate", "run.anon.max"] {
                assert_eq!(trial.figure(&metric.parse().unwrap()).measured().is_none(), failed, "{metric}: {what}");
            }
            let end = match failed {
                false => TrialEnd::Succeeded,
                true if outcome.is_disturbance() => TrialEnd::Disturbed,
                true => TrialEnd::Failed,
            };
            assert_eq!(TrialEnd::of_trial(trial), Some(end), "{what}");
        }
    }
}

#[test]
fn failed_trial_gives_no_verdict_of_speed_and_no_ratio() {
    for (what, outcome, run) in every_failure(12) {
        let all = data(&run);
        let lines = verdicts::of(&all).lines;
        assert_eq!(lines.len(), 3);
        for line in &lines {
            let verdict = &line.comparison.verdict;
            let right = match outcome {
                Outcome::WrongAnswer | Outcome::Unsupported => matches!(verdict, Verdict::Refused { .. }),
                _ if outcome.is_own_failure() => *verdict == Verdict::DoesNotFinish,
                _ => matches!(verdict, Verdict::CantTell { .. }),
            };
            assert!(right, "{what}: {verdict:?}");
            assert!(line.comparison.ratio.measured().is_none(), "{}", line.sentence);
            let beside = verdicts::Comparisons::new(&all).beside(&line.pair.metric);
            assert!(beside.iter().all(|b| b.ratio.measured().is_none()), "{what}: {beside:?}");
        }
    }
}

/// Half of the trials crash, and of the others the figure is missing: they were left out of the counts, which then said "0 of
/// 3 trials finished".
#[test]
fn trials_without_a_figure_are_counted_among_those_that_finished() {
    let experiment = two(6);
    let records = trials(&experiment, 6, |t| {
        let crashes = t.trial.variant == 1 && t.trial.block < 3;
        let outcome = if crashes { Outcome::Crashed { signal: 11 } } else { Outcome::Ok };
        ended(t, &experiment, outcome, Reached::SubjectEnd, 1.0);
        if t.trial.variant == 1 && !crashes {
            let readings = t.phases[0].readings.get_mut("").unwrap();
            readings.insert(key("time"), Reading::Missing(Why::Failed("it is shorter than its lag".into())));
        }
    });
    let all = data(&(experiment, records));
    let line = &verdicts::of(&all).lines[0];
    assert_eq!((line.comparison.variant.finished, line.comparison.variant.trials), (3, 6), "{}", line.sentence);
    assert!(matches!(line.comparison.verdict, Verdict::CantTell { .. }), "{}", line.sentence);
    assert!(line.sentence.contains("3 of 6 trials succeeded"), "{}", line.sentence);
}

/// A phase bounded by time keeps the rate of the operations that succeeded: the sentence says that trials failed in it, and
/// claims of none that it finished.
#[test]
fn sentence_names_the_failures_of_trials_whose_rate_counts() {
    let experiment = two(12);
    let records = trials(&experiment, 12, |t| {
        ended(t, &experiment, Outcome::Ok, Reached::OwnEnd, if t.trial.variant == 1 { 0.5 } else { 1.0 });
        if t.trial.variant == 0 {
            let at = Some("run".to_owned());
            t.ending = Ending { outcome: Outcome::DiskFull, phase: at, after: Nanos::ZERO, evidence: vec![] };
        }
    });
    let all = data(&(experiment, records));
    let lines = verdicts::of(&all).lines;
    let expected = "; trials that failed in or after the phase, of `base`: 24 disk full";
    assert!(lines.iter().all(|line| line.sentence.ends_with(expected)), "{}", lines[0].sentence);
}

#[test]
fn phase_that_ended_before_the_failure_keeps_its_figure() {
    let experiment = two(6);
    let records = trials(&experiment, 6, |t| {
        let (outcome, time) =
            if t.trial.variant == 1 { (Outcome::Crashed { signal: 11 }, 0.5) } else { (Outcome::Ok, 1.0) };
        ended(t, &experiment, outcome, Reached::OwnEnd, time);
    });
    assert!(records.iter().all(|t| t.phases[0].completion == Completion::Complete));
    let all = data(&(experiment, records));
    assert_eq!(verdicts::of(&all).lines[0].comparison.verdict, Verdict::Better, "it was faster until then");
    let gate: Gate = "run.time slower 5%".parse().unwrap();
    let lines = verdicts::of(&all).lines;
    assert_eq!(Verdicted::of(&gate, &lines, &all.trials).answer(), Answer::Fails, "but the trial failed");
}

#[test]
fn baseline_that_fails_makes_no_variant_faster() {
    let fails = |t: &TrialRecord| t.trial.variant == 0 && !t.trial.block.is_multiple_of(3);
    let all = data(&run_of(30, |t| fails(t).then_some((Outcome::Crashed { signal: 11 }, Reached::SubjectEnd))));
    let line = &verdicts::of(&all).lines[0];
    assert_eq!(line.comparison.verdict, Verdict::FinishesMoreOften, "{}", line.sentence);
    assert!(
        line.sentence.contains("succeeds more often than") && !line.sentence.contains("faster"),
        "{}",
        line.sentence
    );
    assert!(line.sentence.contains("30 of 30 trials succeeded"), "{}", line.sentence);
}

/// Half of the trials or more failed: whatever the rest says, the variant is neither faster nor smaller.
#[test]
fn variant_that_fails_in_half_of_its_trials_is_never_better() {
    for case in 0..44u64 {
        let draw = |what: u64| noise(case * 100 + what);
        // What the machine ended says nothing, so that the rest of the blocks may.
        let outcome = FAILURES[case as usize % FAILURES.len()];
        if outcome.is_disturbance() {
            continue;
        }
        let blocks = 6 + (draw(1) * 18.0) as u32;
        let spared = (draw(2) * 0.5 * f64::from(blocks)) as usize;
        let fast = 0.0001 + 0.9 * draw(3);
        let mut order: Vec<u32> = (0..blocks).collect();
        order.sort_by(|a, b| draw(10 + u64::from(*a)).total_cmp(&draw(10 + u64::from(*b))));
        let experiment = two(blocks);
        let records = trials(&experiment, blocks, |t| match t.trial.variant {
            1 if order[..spared].contains(&t.trial.block) => {
                ended(t, &experiment, Outcome::Ok, Reached::SubjectEnd, fast);
            }
            1 => ended(t, &experiment, outcome, Reached::SubjectEnd, fast / 100.0),
            _ => ended(t, &experiment, Outcome::Ok, Reached::SubjectEnd, 1.0),
        });
        for line in verdicts::of(&data(&(experiment, records))).lines {
            let said = &line.sentence;
            assert!(!line.comparison.verdict.is_better(), "{spared} of {blocks}, {outcome}: {said}");
            assert!(!said.contains("faster") && !said.contains("less memory"), "{spared} of {blocks}: {said}");
        }
    }
}

#[test]
fn outcome_cell_shows_the_least_memory_and_no_figure() {
    let run = run_of(6, |t| (t.trial.variant == 1).then_some((Outcome::Crashed { signal: 11 }, Reached::SubjectEnd)));
    let table = &build(&data(&run), &Options::default()).tables[0];
    let cell = &table.rows[1].cells[0];
    assert_eq!(cell.main, "crashed (signal 11) at 48.0 ms");
    assert!(cell.figures.iter().all(|figure| figure.value.is_none() && figure.ended == 6), "{cell:?}");
    let readings = &run.1.iter().find(|t| t.trial.variant == 1).unwrap().phases[0].readings[""];
    assert!(matches!(readings[&key("time")], Reading::Measured(_)), "the record keeps the partial time");
}
