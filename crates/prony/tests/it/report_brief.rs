//! Tests what brief reports, and the first and last lines of reports, say of a run.

use prony_analysis::guard::{Finding, Severity};
use prony_model::reading::{Reading, Why};
use prony_model::record::host::Session;
use prony_model::record::{Change, Machine};
use prony_model::trial::Label;
use prony_report::render::summary::summary;
use prony_report::render::terminal::Terminal;
use prony_report::{Options, build};
use prony_results::RunData;
use serde_json::{Value, json};

use crate::compared::{against, edited, trials};
use crate::report_tables::{figure, markdown, metric, outcomes, printed, sourcing, terminal};
use crate::synthetic::{NOON, experiment, experiment_with, key, noise, phase, run_data, texts, trial};

#[test]
fn a_brief_report_ends_with_what_is_judged_and_names_the_rest() {
    let data = outcomes();
    let brief = Options { brief: true, ..Options::default() };
    let report = build(&data, &brief);
    let columns: Vec<String> = report.tables[0].columns.iter().map(|column| column.name()).collect();
    assert_eq!(columns, ["write.time", "write.anon.max"]);
    assert!(report.findings.iter().all(|finding| finding.severity != "note") && report.remarks.is_empty());
    let shown = printed(&data, &Terminal { width: Some(100), colour: false }, &brief);
    assert!(shown.contains("trials_failed"), "what may mislead stands there: {shown}");
    let last = &shown[shown.rfind("\nall tables").unwrap()..];
    let rest = "--all`; less than all, in place of `--all`: `--phase read` (measured and\nnot compared), `--metric write.cpu` (one metric)";
    assert!(last.contains(rest), "{last}");
    let phase = build(&data, &Options { phase: Some("write".to_owned()), ..Options::default() });
    assert!(phase.tables[0].columns.iter().all(|column| column.group == "write"));
}

/// `--phase read` printed the verdict on `write` above the figures of `read`, and proposed itself below them.
#[test]
fn brief_report_of_a_phase_shows_its_verdicts_or_where_they_are() {
    let phases = [("write", true), ("read", true)];
    let experiment = against(&experiment("two stores", &[texts("store", &["a", "b"])], &phases, 8), "store", "a");
    let trials = trials(&experiment, 8, |trial| {
        let time = 1e9 + noise(u64::from(trial.trial.position));
        trial.phases = phases.map(|(name, _)| phase(name, &[("time", time)])).to_vec();
    });
    let data = run_data(experiment, trials.len() as u32, trials);
    let of = |phase: &str| build(&data, &Options { brief: true, phase: Some(phase.to_owned()), ..Options::default() });
    let (write, read) = (of("write"), of("read"));
    assert!(!write.verdicts.lines.is_empty() && write.judged.is_none());
    assert!(read.verdicts.lines.is_empty());
    let judged = read.judged.unwrap();
    let begin =
        format!("No verdict on `read`: the verdicts of this run are on `write.time` (`prony show {}`). ", data.head.id);
    assert!(judged.starts_with(&begin), "{judged}");
    assert!(judged.contains("`metrics = [\"write.time\", \"read.time\"]`"), "{judged}");
    assert!(!read.closing.unwrap().contains("--phase read"));
}

/// Nine stores of which each takes longer than the one before; the second trial of the baseline takes `again` times as long
/// as the first. Other machines took the processors in the first blocks, as many as `disturbed`.
fn nine_stores(again: f64, disturbed: u32) -> RunData {
    let stores = texts("store", &["a", "b", "c", "d", "e", "f", "g", "h", "i"]);
    let experiment = against(&experiment("nine stores", &[stores], &[("write", true)], 8), "store", "a");
    let trials = trials(&experiment, 8, |trial| {
        let factor = if trial.trial.label == Label::A2 { again } else { 1.0 };
        let noise = 1.0 + 0.01 * noise(u64::from(trial.trial.position));
        let time = 1e9 * (1.0 + trial.trial.variant as f64) * factor * noise;
        trial.phases = vec![phase("write", &[("time", time)])];
        let steal = Reading::Measured(if trial.trial.block < disturbed { 0.3 } else { 0.0 });
        let machine = Machine { change: Change { steal, ..Change::default() }, ..Machine::default() };
        trial.conditions.machine = Reading::Measured(machine);
    });
    run_data(experiment, trials.len() as u32, trials)
}

/// A settling time of 15 ms beside zeros was `0 [0..<1]` of a second.
#[test]
fn numbers_beside_a_median_of_zero_choose_the_unit() {
    let experiment = experiment("Zeros", &[texts("store", &["a"])], &[("write", true)], 3);
    let trials = [0.0, 0.0, 15e6].into_iter().zip(0..).map(|(time, position)| {
        let mut record = trial(position, position, 0);
        record.phases = vec![phase("write", &[("time", time)])];
        record
    });
    let data = run_data(experiment, 3, trials.collect());
    let options = Options { metrics: vec!["write.time".parse().unwrap()], ..Options::default() };
    let table = build(&data, &options).tables.remove(0);
    let cell = &table.rows[0].cells[0];
    assert_eq!((table.columns[0].unit.as_str(), cell.spread.as_str()), ("ms", "[0..15]"), "{cell:?}");
}

#[test]
fn brief_report_of_many_verdicts_gives_the_basis_of_those_to_be_heeded() {
    let brief = Options { brief: true, ..Options::default() };
    let shown = |(again, disturbed), options: &Options| {
        let text = printed(&nine_stores(again, disturbed), &Terminal { width: Some(120), colour: false }, options);
        (text.matches("A/A check").count(), text.matches("\n\n`").count(), text.contains("the basis of each verdict"))
    };
    assert_eq!(shown((1.0, 0), &brief), (0, 1, true), "the sentences stand together");
    assert_eq!(shown((1.0, 0), &Options::default()), (8, 8, false));
    assert_eq!(shown((1.3, 0), &brief), (8, 8, false), "the baseline differs from itself");
    assert_eq!(shown((1.0, 1), &brief), (0, 1, true), "an eighth of the trials");
    assert_eq!(shown((1.0, 4), &brief), (8, 8, false), "the hint of the warning refers to what the basis says");
}

#[test]
fn report_on_many_comparisons_says_once_what_is_alike_in_all() {
    let mut data = nine_stores(1.0, 0);
    let shown = |data: &RunData, brief| {
        let options = Options { brief, ..Options::default() };
        printed(data, &Terminal { width: Some(120), colour: false }, &options).replace('\n', " ")
    };
    assert_eq!(shown(&data, false).matches("4 of 5 would find").count(), 1, "{}", shown(&data, false));
    data.trials.retain(|trial| trial.trial.block < 2);
    let brief = shown(&data, true);
    assert!(brief.contains("No verdict yet: at most 2 blocks") && !brief.contains("can't tell"), "{brief}");
    assert_eq!(shown(&data, false).matches("can't tell").count(), 8);
}

#[test]
fn note_on_coarse_cpu_time_is_shown_to_those_who_name_figures() {
    let mut data = sourcing(json!([]));
    let note = Finding::of("coarse_cpu", Severity::Note, "CPU time may be off".to_owned(), "x").in_phase("persist");
    data.trials[0].findings.push(note);
    let phase = |phase: Option<&str>| {
        let options = Options { brief: true, phase: phase.map(str::to_owned), ..Options::default() };
        printed(&data, &Terminal { width: Some(120), colour: false }, &options).contains("CPU time may be off")
    };
    let other = ["source", "write"].into_iter().find(|name| data.trials[0].phases.iter().any(|of| of.name == *name));
    assert_eq!((phase(None), phase(Some("persist")), phase(Some(other.unwrap()))), (false, true, false));
}

#[test]
fn tables_that_share_their_notes_print_them_once() {
    let many: Vec<String> = (0..7).map(|at| format!("level {at}")).collect();
    let levels: Vec<&str> = many.iter().map(String::as_str).collect();
    let factors = [texts("one", &levels), texts("other", &levels)];
    let experiment = experiment("49 variants", &factors, &[("write", true)], 2);
    let trials = trials(&experiment, 2, |trial| trial.phases = vec![phase("write", &[("time", 1e9)])]);
    let text = terminal(&run_data(experiment, trials.len() as u32, trials), 100);
    assert_eq!((text.matches("\none = level").count(), text.matches("in brackets").count()), (7, 1), "{text}");
}

/// A page of two notes in each trial read `4 of 2 trials`, and the plan of one index lacked its name.
#[test]
fn findings_count_trials_and_name_their_variants() {
    let factors = [texts("index", &["none", "single"])];
    let experiment = experiment_with("Findings", &factors, &[("find", true)], 3, json!([]));
    let trials = (0..6u32).map(|position| {
        let variant = (position % 2) as usize;
        let mut record = trial(position, position / 2, variant);
        let note =
            |guard: &str, text: &str| Finding::of(guard, Severity::Note, text.to_owned(), "none").in_phase("find");
        record.findings.push(note("note_of_the_worker", &format!("{} records", 10 + position)));
        record.findings.push(note("note_of_the_worker", "another"));
        let plan = if variant == 0 { "scan" } else { "by index" };
        record.findings.push(note("query_plan", plan).with(json!({ "plan": plan })));
        record
    });
    let data = run_data(experiment, 6, trials.collect());
    let text = markdown(&data);
    for expected in [
        "`note_of_the_worker` in `find`, 6 of 6 trials; the first: 10 records",
        "`note_of_the_worker` in `find`, 6 of 6 trials; the first: another",
        "`query_plan` in `find`, 3 of 6 trials (those of `index=none`); the first: scan",
        "`query_plan` in `find`, 3 of 6 trials (those of `index=single`); the first: by index",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

/// `27.0 (193)` was the second of them in milliseconds.
#[test]
fn parts_of_a_cell_without_a_format_have_their_unit() {
    let part = |name: &str, format: Value| json!({"figure": {"expr": metric(name), "format": format}});
    let parts =
        json!([part("source.time", json!("s")), {"text": " ("}, part("persist.time", json!(null)), {"text": ")"}]);
    let table = json!([{"title": null, "select": {}, "rows": [], "tables": [], "columns_by": [], "statistic": "median",
                        "columns": [{"title": "source, s", "parts": parts}]}]);
    let experiment = experiment_with("Units", &[], &[("source", true), ("persist", true)], 1, table);
    let mut record = trial(0, 0, 0);
    record.phases = vec![phase("source", &[("time", 27e9)]), phase("persist", &[("time", 193e6)])];
    let report = build(&run_data(experiment, 1, vec![record]), &Options::default());
    assert_eq!(report.tables[0].rows[0].cells[0].main, "27.0 (193 ms)");
}

/// Medians over three of ten trials were shown as those of ten.
#[test]
fn cell_says_how_many_of_its_trials_lack_the_metric() {
    let table = json!([{"title": null, "select": {}, "rows": [], "tables": [], "columns_by": [], "statistic": "median",
                        "columns": [figure("write.rate"), figure("write.retries")]}]);
    let notes = |lacking: &dyn Fn(u32) -> Option<Why>| {
        let experiment = experiment_with("Missing", &[], &[("write", true)], 10, table.clone());
        let trials = (0..10u32).map(|position| {
            let mut record = trial(position, position, 0);
            record.phases = vec![phase("write", &[("rate", 5.0), ("retries", 9.0)])];
            if let Some(why) = lacking(position) {
                record.phases[0].readings.get_mut("").unwrap().insert(key("retries"), Reading::Missing(why));
            }
            record
        });
        let report = build(&run_data(experiment, 10, trials.collect()), &Options::default());
        let table = &report.tables[0];
        let marks = &table.rows[0].cells[1].marks;
        let own = table.notes.iter().filter(|note| marks.contains(&note.mark));
        own.map(|note| note.text.clone()).collect::<Vec<_>>()
    };
    assert_eq!(notes(&|at| (at < 7).then_some(Why::NotApplicable)), ["missing in 7 of 10 trials: not applicable"]);
    let failed = || Why::Failed("it was not read".into());
    let mixed = |at| [Some(Why::NotApplicable), Some(failed()), None].get(at as usize).cloned().flatten();
    assert_eq!(notes(&mixed), ["missing in 2 of 10 trials: it was not read"]);
    assert_eq!(notes(&|_| Some(Why::NotApplicable)), [""; 0], "no trial has it");
}

fn resumed(position: u32, sessions: impl Fn(u32) -> u32) -> RunData {
    let trials = (0..position).map(|at| {
        let mut record = trial(at, at, 0);
        record.conditions.session = sessions(at);
        record.phases = vec![phase("write", &[("time", 1e9)])];
        record
    });
    let mut data = run_data(experiment("Resumed", &[], &[("write", true)], position), position, trials.collect());
    let mut host = data.head.host.clone();
    host.processor.model = Reading::Measured("Second 4000".to_owned());
    let started_unix_ms = NOON + 86_400_000;
    data.head.resumed = vec![Session { session: 1, started_unix_ms, host, version: "0.2.0".to_owned() }];
    data.head.ended_unix_ms = Some(started_unix_ms + 10_000);
    data
}

/// A run that was resumed after a day `took 1440 min`.
#[test]
fn pause_of_a_resumed_run_is_not_time_that_it_took() {
    let data = resumed(6, |position| position / 3);
    let preface = build(&data, &Options::default()).preface.join(" ");
    // The third trial of the first session ended after 2.9 s.
    assert!(preface.contains("took 12.900 s in 2 sessions; prony 0.1.0,"), "{preface}");
}

#[test]
fn machine_and_version_are_those_of_the_first_session_with_trials() {
    let shown = |session: u32| {
        let report = build(&resumed(3, |_| session), &Options::default());
        let limits = report.machine.iter().find(|(name, _)| name == "limits").map(|(_, value)| value.clone());
        (report.preface.join(" "), limits)
    };
    let (preface, limits) = shown(0);
    assert!(preface.contains("prony 0.1.0,") && preface.contains("Machine: Invented 3000,"), "{preface}");
    assert_eq!(limits, None);
    let (preface, limits) = shown(1);
    assert!(preface.contains("prony 0.2.0,") && preface.contains("Machine: Second 4000,"), "{preface}");
    assert!(limits.is_some_and(|limits| limits.contains("another machine")), "no trial ran on that one");
}

#[test]
fn summary_of_a_run_shows_small_sizes_in_three_digits() {
    let plain = experiment("Sizes", &[texts("store", &["a", "b"])], &[("write", true)], 6);
    let plan = edited(&against(&plain, "store", "a"), |json| json["compare"]["primary"] = json!("write.written"));
    let trials = trials(&plan, 6, |trial| {
        let bytes = if trial.trial.variant == 1 { 2.04e6 } else { 1.95e6 };
        trial.phases = vec![phase("write", &[("written", bytes)])];
    });
    let data = run_data(plan, trials.len() as u32, trials);
    let mut out = Vec::new();
    summary(&data, &build(&data, &Options::default()), &[], &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.contains("| 2.04 MB | 1.95 MB |"), "{text}");
}
