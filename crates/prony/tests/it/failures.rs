//! A failure is never fast (METHOD 1.3, 4.9, 8.1): no trial that failed before the end of a phase yields a number that
//! counts, a ratio, or the word *faster*, in whatever form a run is written.
//!
//! Until 2026 programs had a rule of their own: a phase that ends with the program was complete whatever the outcome, so
//! that a segmentation fault was *faster, 0.0186 times*, and a gate passed with every trial crashed.

use std::path::Path;

use clap::Parser;
use prony::cli::Output;
use prony::cli::report::{ReportArgs, report};
use prony::cli::show::{ShowArgs, show};
use prony_analysis::conclude::{Observed, Reached, conclude};
use prony_analysis::verdicts;
use prony_analysis::verdicts::gate::{Answer, Gate, Verdicted};
use prony_experiment::design::{AllowedErrors, Experiment};
use prony_model::outcome::{Ending, OutOfMemory, Outcome};
use prony_model::reading::{Reading, Why};
use prony_model::record::{Completion, TrialRecord};
use prony_model::units::Nanos;
use prony_report::plot;
use prony_report::{Options, build};
use prony_results::{Database, RunData, RunId, RunStatus};
use prony_stats::Verdict;
use serde_json::{Value, json};

use crate::compared::{against, edited, trials};
use crate::pages;
use crate::programs::Bench;
use crate::report_page;
use crate::synthetic::{experiment, key, noise, phase, run_data, texts};

/// Every way in which a trial can end otherwise than well, but for the user's own interruption.
const FAILURES: [Outcome; 11] = [
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

fn two(blocks: u32) -> Experiment {
    let plain = experiment("Failures", &[texts("command", &["base", "changed"])], &[("run", true)], blocks);
    edited(&against(&plain, "command", "base"), |json| json["compare"]["metrics"] = json!(["run.rate", "run.anon.max"]))
}

/// Concludes a trial as the runner does: one phase, that came so far, of a trial that ended so.
fn ended(record: &mut TrialRecord, experiment: &Experiment, outcome: Outcome, reached: Reached, time: f64) {
    let noise_factor = 1.0 + 0.01 * (noise(u64::from(record.trial.position)) - 0.5);
    let figures = [
        ("time", 1e9 * time * noise_factor),
        ("rate", 10.0 / (time * noise_factor)),
        ("anon.max", 1e6 * time * noise_factor),
    ];
    let at = (!outcome.is_ok()).then(|| "run".to_owned());
    let evidence = if outcome.is_ok() { vec![] } else { vec!["it failed".to_owned()] };
    let ending = Ending { outcome, phase: at, after: Nanos::from_millis(48), evidence };
    let observed = vec![Observed::new(phase("run", &figures), reached)];
    let specs = &experiment.variants()[record.trial.variant].spec.phases;
    (record.ending, record.phases) = conclude(specs, AllowedErrors::default(), ending, observed);
}

/// A run in which the trials that `fails` names failed, a thousand times as fast as the others.
fn run_of(blocks: u32, fails: impl Fn(&TrialRecord) -> Option<(Outcome, Reached)>) -> (Experiment, Vec<TrialRecord>) {
    let experiment = two(blocks);
    let records = trials(&experiment, blocks, |t| match fails(t) {
        Some((outcome, reached)) => ended(t, &experiment, outcome, reached, 0.001),
        None => ended(t, &experiment, Outcome::Ok, Reached::SubjectEnd, 1.0),
    });
    (experiment, records)
}

fn data((experiment, trials): &(Experiment, Vec<TrialRecord>)) -> RunData {
    run_data(experiment.clone(), trials.len() as u32, trials.clone())
}

#[derive(Parser)]
enum Command {
    Show(ShowArgs),
    Report(ReportArgs),
}

/// What a command prints of run 1.
fn printed(database: &Path, line: &str) -> String {
    let words = line.split_whitespace().chain(["--database", database.to_str().unwrap()]);
    let mut out = Vec::new();
    match Command::try_parse_from(["prony"].into_iter().chain(words)).unwrap() {
        Command::Show(args) => show(&args, &mut Output::new(&mut out, false, None, false)).unwrap(),
        Command::Report(args) => report(&args, &mut out).unwrap(),
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
        assert!(text.contains("6 of 18 trials failed: 6 "), "{what}, {form}: the headline: {text}");
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
                assert_eq!(column["partial"][at].is_number(), failed, "{what}: what was seen is kept: {column}");
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
    let table = &build(of, &Options::default()).tables[0];
    assert!(table.rows.iter().flat_map(|row| &row.cells).any(|cell| cell.outcome), "{what}: {table:?}");
}

#[test]
fn failed_trial_has_no_figure_in_any_exporter() {
    for (number, outcome) in FAILURES.into_iter().enumerate() {
        for reached in [Reached::Begin, Reached::SubjectEnd] {
            let what = format!("{outcome}, {reached:?}");
            let run = run_of(6, |t| (t.trial.variant == 1).then_some((outcome, reached)));
            let name = format!("failures-{number}");
            drop(pages::stored(&name, &run.0, &run.1));
            let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("page-{name}.db"));
            says_no_figure(&name, &path, &data(&run), &what);
        }
    }
}

#[test]
fn failed_trial_gives_no_verdict_of_speed_and_no_ratio() {
    for outcome in FAILURES {
        for reached in [Reached::Begin, Reached::SubjectEnd] {
            let all = data(&run_of(12, |t| (t.trial.variant == 1).then_some((outcome, reached))));
            let lines = verdicts::of(&all).lines;
            assert_eq!(lines.len(), 3);
            for line in &lines {
                let verdict = &line.comparison.verdict;
                let right = match outcome {
                    Outcome::WrongAnswer | Outcome::Unsupported => matches!(verdict, Verdict::Refused { .. }),
                    _ if outcome.is_own_failure() => *verdict == Verdict::DoesNotFinish,
                    _ => matches!(verdict, Verdict::CantTell { .. }),
                };
                assert!(right, "{outcome}, {reached:?}: {verdict:?}");
                assert!(line.comparison.ratio.measured().is_none(), "{}", line.sentence);
                let beside = verdicts::Comparisons::new(&all).beside(&line.pair.metric);
                assert!(beside.iter().all(|b| b.ratio.measured().is_none()), "{outcome}, {reached:?}: {beside:?}");
            }
        }
    }
}

#[test]
fn gate_fails_where_the_variant_failed_and_cannot_judge_where_only_something_else_did() {
    let gate: Gate = "run.time slower 5%".parse().unwrap();
    let says = |variant: usize, outcome: Outcome, failing: u32| {
        let fails = |t: &TrialRecord| t.trial.variant == variant && t.trial.block < failing;
        let of = data(&run_of(12, |t| fails(t).then_some((outcome, Reached::SubjectEnd))));
        Verdicted::of(&gate, &verdicts::of(&of).lines, &of.trials).answer()
    };
    assert_eq!(says(1, Outcome::TimedOut, 0), Answer::Passes, "nothing failed");
    for outcome in FAILURES {
        let theirs = if outcome.is_own_failure() { Answer::Fails } else { Answer::CannotJudge };
        for failing in [1, 6, 12] {
            assert_eq!(says(1, outcome, failing), theirs, "{failing} of the variant: {outcome}");
            assert_eq!(says(0, outcome, failing), Answer::CannotJudge, "{failing} of the baseline: {outcome}");
        }
    }
}

#[test]
fn gate_fails_for_a_slower_variant_though_a_trial_of_the_baseline_failed() {
    let gate: Gate = "run.time slower 5%".parse().unwrap();
    let experiment = two(30);
    let records = trials(&experiment, 30, |t| match (t.trial.variant, t.trial.block) {
        (0, 3) => ended(t, &experiment, Outcome::Crashed { signal: 11 }, Reached::SubjectEnd, 1.0),
        (0, _) => ended(t, &experiment, Outcome::Ok, Reached::SubjectEnd, 1.0),
        _ => ended(t, &experiment, Outcome::Ok, Reached::SubjectEnd, 3.0),
    });
    let of = data(&(experiment, records));
    let outcome = Verdicted::of(&gate, &verdicts::of(&of).lines, &of.trials);
    assert_eq!(outcome.answer(), Answer::Fails, "{outcome}");
}

/// The ratio to nothing is infinite and stands in no interval: a gate on `fsyncs` passed where they went from 0 to 301.
#[test]
fn gate_fails_where_the_variant_uses_what_the_baseline_does_not() {
    let experiment = edited(&two(12), |json| json["compare"]["primary"] = json!("run.fsyncs"));
    let of = |variant: f64, baseline: f64| {
        let records = trials(&experiment, 12, |t| {
            ended(t, &experiment, Outcome::Ok, Reached::SubjectEnd, 1.0);
            let fsyncs = if t.trial.variant == 1 { variant } else { baseline };
            let readings = t.phases[0].readings.entry(String::new()).or_default();
            readings.insert(key("fsyncs"), Reading::Measured(fsyncs));
        });
        let all = data(&(experiment.clone(), records));
        let gate: Gate = "run.fsyncs more 5%".parse().unwrap();
        Verdicted::of(&gate, &verdicts::of(&all).lines, &all.trials)
    };
    let fails = of(301.0, 0.0);
    assert_eq!(fails.answer(), Answer::Fails, "{fails}");
    let passes = of(0.0, 301.0);
    assert_eq!(passes.answer(), Answer::Passes, "{passes}");
}

/// Ten times as many operations failed a gate that was written against a loss of them, and no gate could be written for one.
#[test]
fn gate_on_a_metric_that_is_neither_better_nor_worse_judges_the_direction_that_is_written() {
    let experiment = edited(&two(12), |json| json["compare"]["primary"] = json!("run.operations"));
    let of = |condition: &str, variant: f64, baseline: f64| {
        let records = trials(&experiment, 12, |t| {
            ended(t, &experiment, Outcome::Ok, Reached::OwnEnd, 1.0);
            let operations = if t.trial.variant == 1 { variant } else { baseline };
            let readings = t.phases[0].readings.entry(String::new()).or_default();
            readings.insert(key("operations"), Reading::Measured(operations));
        });
        let all = data(&(experiment.clone(), records));
        let gate: Gate = condition.parse().unwrap();
        Verdicted::of(&gate, &verdicts::of(&all).lines, &all.trials).answer()
    };
    let (fewer, more) = ("run.operations fewer 5%", "run.operations more 5%");
    assert_eq!([of(fewer, 50.0, 500.0), of(fewer, 500.0, 50.0)], [Answer::Fails, Answer::Passes]);
    assert_eq!([of(more, 50.0, 500.0), of(more, 500.0, 50.0)], [Answer::Passes, Answer::Fails]);
    assert_eq!([of(fewer, 0.0, 500.0), of(fewer, 500.0, 0.0)], [Answer::Fails, Answer::Passes]);
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
            readings.insert(key("time"), Reading::Missing(Why::Failed("it is shorter than its lag".to_owned())));
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
    let expected = "; trials that failed in the phase, of `command=base`: 24 disk full";
    assert!(lines.iter().all(|line| line.sentence.ends_with(expected)), "{}", lines[0].sentence);
}

#[test]
fn gate_without_a_comparison_cannot_judge() {
    let gate: Gate = "run.time slower 5%".parse().unwrap();
    assert_eq!(Verdicted::of(&gate, &[], &[]).answer(), Answer::CannotJudge);
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
    assert_eq!(cell.main, "crashed (signal 11) in run at 48.0 ms");
    assert!(cell.figures.iter().all(|figure| figure.value.is_none() && figure.ended == 6), "{cell:?}");
    let readings = &run.1.iter().find(|t| t.trial.variant == 1).unwrap().phases[0].readings[""];
    assert!(matches!(readings[&key("time")], Reading::Measured(_)), "the record keeps the partial time");
}

/// What `prony exec -- sleep SECONDS --vs sh -c SCRIPT` says, and its exit code.
fn against_sleep(seconds: &str, options: &[&str], script: &str) -> (Option<i32>, String) {
    let bench = Bench::new();
    let command = ["--", "sleep", seconds, "--vs", "sh", "-c", script];
    let output = bench.prony(&[&["exec", "--quiet", "--runs", "6"], options, &command].concat());
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn failing_commands_are_neither_faster_nor_slower_at_the_command_line() {
    let cases = [
        ("0.05", &[][..], "kill -SEGV $$", "crashed (signal 11)"),
        ("0.05", &[], "exit 3", "failed (exit code 3)"),
        ("5", &["--time", "30 ms"], "sleep 5", "timed out"),
    ];
    for (seconds, options, script, outcome) in cases {
        // Where time is short the baseline has none either.
        let baseline = if options.is_empty() { "6 of 18 trials failed: 6 " } else { "18 of 18 trials failed: 12 " };
        let (code, said) = against_sleep(seconds, options, script);
        assert!(!said.contains("faster") && !said.contains("slower"), "{said}");
        assert!(said.contains(baseline) && said.contains(outcome), "{said}");
        let verdict =
            if options.is_empty() { " where `command=sleep 0.05` succeeds in `run.time`: 0 of 6" } else { "neither " };
        assert!(said.contains(verdict), "{said}");
        assert_eq!(code, Some(1), "{said}");
    }
    let (code, said) = against_sleep("0.05", &[], "kill -9 $$");
    assert!(said.contains("6 of 18 trials failed: 6 killed, cause unknown") && said.contains("can't tell"), "{said}");
    assert_eq!(code, Some(1), "{said}");
}

#[test]
fn command_that_fails_in_four_of_six_trials_is_not_faster() {
    let count = Bench::new();
    let file = count.path("count");
    let script = format!(
        "n=$(cat {0} 2>/dev/null || echo 0); echo $((n + 1)) > {0}; [ $n -lt 4 ] && exit 3; exit 0",
        file.display()
    );
    let (code, said) = against_sleep("0.05", &[], &script);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("4 of 18 trials failed: 4 failed (exit code 3)") && !said.contains("faster"), "{said}");
    // Sentences are broken into lines where the command's name lets them be.
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("2 of 6 trials succeeded (4 to 78 %)"), "{said}");
    assert!(said.contains("(2 of 6 ok)"), "the figures are those of the two that finished: {said}");
}

#[test]
fn gate_at_the_command_line_exits_with_its_answer() {
    let gate = |base: &str, changed: &str| {
        let bench = Bench::new();
        let body = format!(
            "[factors.command]\nbase = {{ run = \"{base}\" }}\nchanged = {{ run = \"{changed}\" }}\n\
             [compare]\nbaseline = {{ command = \"base\" }}\nblocks = 6\n[observe]\ncare = \"light\"\n\
             [program.x]\ncommand = [\"sh\", \"-c\", \"echo time 1.000; {{command.run}}\"]\n\
             [[phase]]\nname = \"run\"\nread = 'time (?<time>[0-9.]+)'\n"
        );
        std::fs::write(bench.path("gate.toml"), body).unwrap();
        let output = bench.prony(&["run", "gate.toml", "--quiet", "--fail-if", "run.time slower 5%"]);
        let said = String::from_utf8(output.stdout).unwrap();
        let line = said.lines().find(|line| line.starts_with("gate ")).unwrap_or_default().to_owned();
        (output.status.code(), line.rsplit(": ").next().unwrap_or_default().to_owned())
    };
    let of = |code, word: &str| (Some(code), word.to_owned());
    // The program tells its time itself, so that no load on the machine changes what is compared.
    assert_eq!(gate("true", "true"), of(0, "passes"));
    assert_eq!(gate("true", "kill -SEGV $$"), of(1, "fails"));
    assert_eq!(gate("kill -SEGV $$", "kill -SEGV $$"), of(1, "fails"));
    assert_eq!(gate("kill -SEGV $$", "true"), of(2, "cannot judge"));
    assert_eq!(gate("true", "kill -9 $$"), of(2, "cannot judge"));
}

#[test]
fn compared_runs_show_failed_trials_next_to_figures() {
    let bench = Bench::new();
    let body = "[compare]\nblocks = 6\n[observe]\ncare = \"light\"\n[program.x]\nshell = true\ndirectory = \".\"\n\
                copy = \"none\"\ncommand = \"echo >> count; test $(wc -l < count) -eq 1 || kill -SEGV $$\"\n";
    std::fs::write(bench.path("some.toml"), body).unwrap();
    for _ in 0..2 {
        assert_eq!(bench.prony(&["run", "some.toml", "--quiet"]).status.code(), Some(1));
    }
    let compared = ["compare", "1", "2", "--metric", "run.time"];
    let said = String::from_utf8(bench.prony(&compared).stdout).unwrap();
    assert!(said.contains("n=1, 5 crashed (signal 11)"), "{said}");
    assert!(said.contains("6 crashed (signal 11)"), "{said}");
    let output = bench.prony(&[&compared[..], &["--json"]].concat());
    let runs = serde_json::from_slice::<Value>(&output.stdout).unwrap()["figures"][0]["runs"].clone();
    assert!(runs[0]["n"] == 1 && runs[0]["median"].is_number(), "{runs}");
    assert_eq!(runs[0]["outcomes"], json!({ "crashed (signal 11)": 5, "ok": 1 }));
    assert!(runs[1]["n"] == 0 && runs[1]["median"].is_null(), "{runs}");
    assert_eq!(runs[1]["outcomes"], json!({ "crashed (signal 11)": 6 }));
}

#[test]
fn a_resumed_run_refuses_a_summary_that_its_program_writes() {
    let bench = Bench::new();
    let file = bench.path("out.md");
    let body = format!(
        "[compare]\nblocks = 2\n[observe]\ncare = \"light\"\n[program.x]\ncommand = [\"echo\", \"x\"]\n\
         output = {{ file = {file:?} }}\n"
    );
    std::fs::write(bench.path("some.toml"), body).unwrap();
    assert_eq!(bench.prony(&["run", "some.toml", "--quiet"]).status.code(), Some(0));
    Database::open(&bench.path("prony.db")).unwrap().end_run(RunId(1), RunStatus::Interrupted, 1).unwrap();
    let output = bench.prony(&["run", "--resume", "1", "--quiet", "--summary", "out.md"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && said.contains("this command writes something else to it"), "{said}");
    assert_eq!(std::fs::read_to_string(file).unwrap(), "x\n", "nothing is written behind the output");
}

#[test]
fn exit_code_of_a_resumed_run_counts_the_trials_of_all_its_sessions() {
    let bench = Bench::new();
    let body = "[compare]\nblocks = 2\n[observe]\ncare = \"light\"\n[program.x]\nshell = true\ncommand = \"exit 3\"\n";
    std::fs::write(bench.path("some.toml"), body).unwrap();
    assert_eq!(bench.prony(&["run", "some.toml", "--quiet"]).status.code(), Some(1));
    // As if it had been interrupted after its last trial.
    let mut database = Database::open(&bench.path("prony.db")).unwrap();
    database.end_run(RunId(1), RunStatus::Interrupted, 1).unwrap();
    drop(database);
    for what in ["its trials failed in the first session", "the run is done"] {
        let output = bench.prony(&["run", "--resume", "1", "--quiet"]);
        assert_eq!(output.status.code(), Some(1), "{what}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn program_whose_operations_failed_has_failed_unless_the_file_allows_it() {
    let run = |errors: &str| {
        let bench = Bench::new();
        let say = "echo 'operations 90 errors 10'";
        let body = format!(
            "[factors.n]\na = {{ say = \"echo 'operations 100 errors 0'\" }}\nb = {{ say = \"{say}\" }}\n\
             [compare]\nbaseline = {{ n = \"a\" }}\nblocks = 6\n{errors}\n[observe]\ncare = \"light\"\n\
             [program.x]\ncommand = [\"sh\", \"-c\", \"{{n.say}}\"]\n\
             [[phase]]\nname = \"work\"\nread = 'operations (?<operations>\\d+) errors (?<errors>\\d+)'\n"
        );
        std::fs::write(bench.path("ops.toml"), body).unwrap();
        let output = bench.prony(&["run", "ops.toml", "--quiet"]);
        let said = String::from_utf8(output.stdout).unwrap();
        (output.status.code(), said, String::from_utf8(output.stderr).unwrap())
    };
    let (code, said, errors) = run("");
    assert_eq!(code, Some(1), "{said}{errors}");
    assert!(said.contains("6 of 18 trials failed: 6 failed of `b`"), "{said}");
    assert!(said.contains("10 of 100 operations of `work` failed, and none may fail"), "{said}");
    assert!(said.contains("`n=b` fails (6 failed) where `n=a` succeeds") && !said.contains("faster"), "{said}");
    for allowed in ["errors = 10", "errors = \"10%\""] {
        let (code, said, errors) = run(allowed);
        assert_eq!(code, Some(0), "{said}{errors}");
        assert!(!said.contains("trials failed"), "{said}");
    }
}

#[test]
fn times_of_unequal_numbers_of_operations_are_not_compared_and_rates_are() {
    let bench = Bench::new();
    let say = |operations: u32, seconds: &str| format!("echo 'operations {operations} errors 0'; sleep {seconds}");
    let body = format!(
        "[factors.n]\na = {{ say = \"{}\" }}\nb = {{ say = \"{}\" }}\n\
         [compare]\nbaseline = {{ n = \"a\" }}\nblocks = 6\nmetric = \"work.time\"\nmetrics = [\"work.rate\"]\n\
         [observe]\ncare = \"light\"\n[program.x]\ncommand = [\"sh\", \"-c\", \"{{n.say}}\"]\n\
         [[phase]]\nname = \"work\"\nread = 'operations (?<operations>\\d+) errors (?<errors>\\d+)'\n",
        say(1000, "0.2"),
        say(10, "0.001")
    );
    std::fs::write(bench.path("offer.toml"), body).unwrap();
    let output = bench.prony(&["run", "offer.toml", "--quiet"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let unequal = "`n=b` is not compared with `n=a` in `work.time`: `a` was offered 1000 operations and `b` 10";
    assert!(said.contains(unequal), "{said}");
    let data = bench.data();
    let rate = verdicts::of(&data).lines.into_iter().find(|line| line.pair.metric.to_string() == "work.rate").unwrap();
    assert!(!matches!(rate.comparison.verdict, Verdict::Refused { .. }), "{}", rate.sentence);
}

/// A file system of 8 MB in memory, taken away in the end; `None`, said aloud, where none can be mounted.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn new() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=8m", "tmpfs"])
            .arg(dir.path())
            .status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(Self(dir));
        }
        assert_ne!(std::env::var("PRONY_REQUIRE_ALL").as_deref(), Ok("1"), "a small disk is required");
        println!("skipped: no file system can be mounted here");
        None
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn full_disk_is_named_and_gives_no_verdict_of_speed() {
    let Some(disk) = SmallDisk::new() else { return };
    let bench = Bench::new();
    // `check` refuses records that cannot fit: these do, and not what both engines make of them, a page each.
    let body = "[factors]\nengine = [\"lmdb\", \"sqlite\"]\n[compare]\nbaseline = { engine = \"lmdb\" }\nblocks = 3\n\
                [store]\nengine = \"{engine}\"\n[data]\nrecords = 3_500\nvalue = { bytes = 2_100 }\n\
                [[phase]]\nname = \"write\"\nput = {}\n[[phase]]\nname = \"read\"\nget = {}\n";
    std::fs::write(bench.path("full.toml"), body).unwrap();
    let output = bench.prony(&["run", "full.toml", "--quiet", "--scratch", disk.0.path().to_str().unwrap()]);
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{said}{errors}");
    assert!(said.contains("9 of 9 trials failed: 6 disk full of `lmdb`; 3 disk full of `sqlite`"), "{said}{errors}");
    assert!(!said.contains("faster") && !said.contains("slower"), "{said}");
    assert!(said.contains("neither `engine=sqlite` nor `engine=lmdb` finishes"), "{said}");
    for trial in &bench.data().trials {
        assert_eq!(trial.ending.outcome, Outcome::DiskFull, "{:?}", trial.ending);
        for metric in ["write.time", "write.rate", "read.time"] {
            assert!(trial.figure(&metric.parse().unwrap()).measured().is_none(), "{metric}: {:?}", trial.phases);
        }
    }
}

/// Both ended after 100 failures in a row, whatever was allowed: partial phases, without a count.
#[test]
fn counts_of_a_full_disk_stay_and_are_compared() {
    let Some(disk) = SmallDisk::new() else { return };
    let bench = Bench::new();
    let run = |allowed: &str, amount: &str| {
        let body = format!(
            "[factors]\nengine = [\"lmdb\", \"sqlite\"]\n[observe]\ncare = \"light\"\n[compare]\n\
             baseline = {{ engine = \"lmdb\" }}\nblocks = 1\nmetric = \"write.errors\"\nmetrics = [\"write.operations\"]\n\
             errors = {allowed}\n[store]\nengine = \"{{engine}}\"\n[data]\nrecords = 3_500\nvalue = {{ bytes = 2_100 }}\n\
             [[phase]]\nname = \"write\"\nput = {{ {amount} }}\n"
        );
        std::fs::write(bench.path("full.toml"), body).unwrap();
        let scratch = disk.0.path().to_str().unwrap();
        let output = bench.prony(&["run", "full.toml", "--quiet", "--scratch", scratch, "--database", "full.db"]);
        let database = Database::open(&bench.path("full.db")).unwrap();
        let data = database.load_run(database.runs().unwrap()[0].id).unwrap();
        drop(database);
        std::fs::remove_file(bench.path("full.db")).unwrap();
        assert_eq!(data.trials.len(), 3, "{}", String::from_utf8_lossy(&output.stderr));
        data.trials
    };
    let figure = |trial: &TrialRecord, name: &str| trial.figure(&name.parse().unwrap()).measured().copied();
    for (allowed, all_may_fail) in [("\"100%\"", true), ("0", false)] {
        for trial in run(allowed, "") {
            let [errors, done] = ["write.errors", "write.operations"].map(|name| figure(&trial, name).unwrap());
            assert!(errors > 0.0 && done > 0.0 && errors + done == 3500.0, "{allowed}: {errors} {done}");
            assert_eq!(trial.ending.outcome.is_ok(), all_may_fail, "{:?}", trial.ending);
            assert_eq!(figure(&trial, "write.time").is_some(), all_may_fail, "{:?}", trial.phases);
        }
    }
    for trial in run("0", "duration = \"1 s\"") {
        assert_eq!(trial.ending.outcome, Outcome::DiskFull, "{:?}", trial.ending);
        assert!(figure(&trial, "write.errors") > Some(0.0) && figure(&trial, "write.rate") > Some(0.0));
    }
}

/// LMDB calls a write that the disk cut short an I/O error.
#[test]
fn full_disk_is_named_where_one_large_commit_of_lmdb_meets_it() {
    let Some(disk) = SmallDisk::new() else { return };
    let bench = Bench::new();
    let body = "[observe]\ncare = \"light\"\n[store]\nengine = \"lmdb\"\n[compare]\nblocks = 1\n\
                [data]\nrecords = 3_500\nvalue = { bytes = 2_100 }\n\
                [[phase]]\nname = \"write\"\nput = { transaction = \"single\" }\n";
    std::fs::write(bench.path("full.toml"), body).unwrap();
    let output = bench.prony(&["run", "full.toml", "--quiet", "--scratch", disk.0.path().to_str().unwrap()]);
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{said}{errors}");
    let ending = &bench.data().trials[0].ending;
    assert_eq!(ending.outcome, Outcome::DiskFull, "{ending:?}");
    assert!(ending.evidence.iter().any(|line| line.contains("committing: Input/output error")), "{ending:?}");
}

/// LMDB with `write_map` stores into a sparse file's map, where no call can fail: the kernel ends the worker.
#[test]
fn full_disk_is_named_where_lmdb_writes_through_its_map() {
    let Some(disk) = SmallDisk::new() else { return };
    let bench = Bench::new();
    let body = "[observe]\ncare = \"light\"\n[store]\nengine = \"lmdb\"\noptions = { write_map = true }\n\
                [compare]\nblocks = 1\n[data]\nrecords = 3_500\nvalue = { bytes = 2_100 }\n\
                [[phase]]\nname = \"write\"\nput = { transaction = \"single\" }\n";
    std::fs::write(bench.path("full.toml"), body).unwrap();
    let output = bench.prony(&["run", "full.toml", "--quiet", "--scratch", disk.0.path().to_str().unwrap()]);
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{said}{errors}");
    let ending = &bench.data().trials[0].ending;
    assert_eq!((ending.outcome, ending.phase.as_deref()), (Outcome::DiskFull, Some("write")), "{ending:?}");
    assert!(ending.evidence.iter().any(|line| line.contains("signal 7 ended it")), "{ending:?}");
}

#[test]
fn memory_in_which_nothing_starts_and_values_larger_than_memory_are_faults_of_the_file() {
    let bench = Bench::new();
    let check = |limits: &str, bytes: &str| {
        let body = format!(
            "[store]\nengine = \"memory\"\n{limits}\n[data]\nrecords = 2\nvalue = {{ bytes = {bytes} }}\n\
             [[phase]]\nname = \"write\"\nput = {{}}\n"
        );
        std::fs::write(bench.path("faulty.toml"), body).unwrap();
        let output = bench.prony(&["check", "faulty.toml"]);
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for memory in ["1", "\"1 kB\"", "\"900 kB\""] {
        let (code, said) = check(&format!("[limits]\nmemory = {memory}"), "10");
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("faulty.toml:4:10") && said.contains("no store starts in less than 1.0 MB"), "{said}");
    }
    let (code, said) = check("", "\"10 TB\"");
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("values of 10.00 TB do not fit") && said.contains("faulty.toml:6:19"), "{said}");
    assert_eq!(check("[limits]\nmemory = \"1 MB\"", "\"10 kB\"").0, Some(0));
    let exec = bench.prony(&["exec", "--memory", "1 kB", "--", "true"]);
    assert_eq!(exec.status.code(), Some(2), "{}", String::from_utf8_lossy(&exec.stderr));
    assert!(String::from_utf8_lossy(&exec.stderr).contains("no program starts in less than 256.00 kB"));
}
