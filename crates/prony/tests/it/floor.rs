//! Tests the share of each variant's time above its floor: its values, missing values, and every output format.

use prony_analysis::verdicts::floor::{self, Above, NoShare};
use prony_analysis::verdicts::{self, names};
use prony_experiment::design::Experiment;
use prony_model::metric::MetricName;
use prony_model::outcome::{OutOfMemory, Outcome};
use prony_model::record::{Answer, TrialRecord};
use prony_model::spec::Durability;
use prony_model::trial::Label;
use prony_report::render::Render;
use prony_report::render::markup::Markup::Markdown;
use prony_report::render::terminal::Terminal;
use prony_report::{Options, Report, Table, build};
use prony_results::RunData;
use serde_json::{Value, json};

use crate::bench::Bench;
use crate::compared::{against, edited, trials};
use crate::synthetic::{engine, experiment, noise, not_reached, phase, run_data, texts};
use crate::{json_document, pages, report_page};

const BLOCKS: u32 = 12;
const SUBJECTS: [&str; 3] = ["heap", "lmdb", "bare"];
/// Seconds of each of [`SUBJECTS`]: three quarters of lmdb's lie above bare, and heap takes less than that.
const TIMES: [f64; 3] = [0.5, 4.0, 1.0];

/// Three subjects at two sizes, compared with the heap, the floor being `bare`.
fn plan(sizes: &[&str], blocks: u32) -> Experiment {
    let factors = [texts("size", sizes), texts("subject", &SUBJECTS)];
    let plain = experiment("Subjects", &factors, &[("source", true), ("check", true)], blocks);
    floored(&against(&plain, "subject", "heap"), &json!({ "subject": "bare" }))
}

fn floored(experiment: &Experiment, floor: &Value) -> Experiment {
    edited(experiment, |json| json["compare"]["floor"] = floor.clone())
}

fn judging(experiment: &Experiment, metrics: &[&str]) -> Experiment {
    edited(experiment, |json| {
        json["compare"]["primary"] = json!(metrics[0]);
        json["compare"]["metrics"] = json!(metrics[1..]);
    })
}

/// Each trial takes its subject's time, times noise and an effect of its block.
fn filled(experiment: &Experiment, blocks: u32) -> Vec<TrialRecord> {
    trials(experiment, blocks, |t| {
        let levels = &experiment.variants()[t.trial.variant].levels;
        let noise_factor = 1.0 + 0.005 * (noise(u64::from(t.trial.position)) - 0.5);
        let time = 1e9 * TIMES[levels[1]] * (1.0 + levels[0] as f64) * (1.0 + f64::from(t.trial.block)) * noise_factor;
        t.phases = vec![phase("source", &[("time", time), ("cpu", time / 2.0), ("rate", 1e9 / time)])];
    })
}

fn run(experiment: &Experiment, blocks: u32) -> RunData {
    let records = filled(experiment, blocks);
    run_data(experiment.clone(), records.len() as u32, records)
}

/// A run that has shares of every kind.
pub(crate) fn example() -> RunData {
    let mut data = run(&plan(&["small", "large"], BLOCKS), BLOCKS);
    data.trials.iter_mut().filter(|t| t.trial.variant == 4).for_each(ends_by_memory);
    data
}

fn above(data: &RunData) -> Vec<Above> {
    floor::of(data, &"source.time".parse::<MetricName>().unwrap())
}

fn floors(data: &RunData) -> Vec<Table> {
    build(data, &Options::default()).floors
}

/// Labels and share of each row: `small/lmdb 75.0`.
fn rows(table: &Table) -> Vec<String> {
    let row = |row: &prony_report::Row| {
        let labels: Vec<&str> = row.labels.iter().map(|label| label.text.as_str()).collect();
        format!("{} {}", labels.join("/"), row.cells[2].main)
    };
    table.rows.iter().map(row).collect()
}

fn noted(table: &Table, text: &str) -> bool {
    table.notes.iter().any(|note| note.text.contains(text))
}

/// The notes that stand at a cell.
fn marked(table: &Table, row: usize, column: usize) -> Vec<&str> {
    let marks = &table.rows[row].cells[column].marks;
    table.notes.iter().filter(|note| marks.contains(&note.mark)).map(|note| note.text.as_str()).collect()
}

fn rendered(report: &Report, render: &dyn Render) -> String {
    let mut out = Vec::new();
    render.render(report, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn ends_by_memory(trial: &mut TrialRecord) {
    trial.ending.outcome = Outcome::OutOfMemory { by: OutOfMemory::Limit };
    trial.ending.phase = Some("source".to_owned());
    trial.phases = vec![not_reached("source")];
}

#[test]
fn the_share_is_of_the_ratio_within_each_block() {
    let data = run(&plan(&["small"], BLOCKS), BLOCKS);
    let [heap, lmdb] = above(&data).try_into().unwrap();
    let (low, high) = {
        let share = lmdb.share.as_ref().unwrap();
        // Blocks differ up to twelvefold, and what is divided within them does not.
        assert!((share.middle - 0.75).abs() < 0.002, "{share:?}");
        let interval = share.interval.measured().unwrap();
        (interval.low.unwrap(), interval.high.unwrap())
    };
    assert!(low < 0.75 && 0.75 < high && high - low < 0.005, "{low} {high}");
    assert_eq!((lmdb.blocks, lmdb.unfinished), (BLOCKS, false));
    let heap = heap.share.unwrap();
    assert!((heap.middle + 1.0).abs() < 0.02 && heap.is_below(), "twice the heap's time is the floor's: {heap:?}");
}

#[test]
fn a_floor_that_is_the_baseline_gives_the_share_of_the_verdict() {
    let factors = [texts("size", &["small"]), texts("subject", &SUBJECTS)];
    let plain = experiment("Subjects", &factors, &[("source", true)], BLOCKS);
    let data = run(&floored(&against(&plain, "subject", "bare"), &json!({ "subject": "bare" })), BLOCKS);
    let verdicts = verdicts::of(&data);
    let found = above(&data);
    assert_eq!(found.len(), 2);
    for (line, above) in verdicts.lines.iter().zip(found) {
        assert_eq!((line.pair.variant, line.pair.baseline), (above.pair.variant, above.pair.baseline));
        let expected = 1.0 - 1.0 / line.comparison.ratio.measured().unwrap();
        assert!((above.share.unwrap().middle - expected).abs() < 1e-12, "both labels of the baseline count");
    }
}

#[test]
fn a_floor_in_another_sub_block_pairs_within_the_block() {
    let experiment = plan(&["small"], BLOCKS);
    let mut data = run(&experiment, BLOCKS);
    // The heap runs beside each of the others, which ran apart.
    let apart = |t: &TrialRecord| {
        let mut again = t.clone();
        again.trial.sub_block = 1;
        again.trial.position += 1000;
        again
    };
    let heap: Vec<TrialRecord> = data.trials.iter().filter(|t| t.trial.variant == 0).map(apart).collect();
    data.trials.iter_mut().filter(|t| t.trial.variant == 2).for_each(|t| t.trial.sub_block = 1);
    data.trials.extend(heap);
    let [heap, lmdb] = above(&data).try_into().unwrap();
    assert_eq!([heap.blocks, lmdb.blocks], [BLOCKS; 2]);
    assert!((lmdb.share.unwrap().middle - 0.75).abs() < 0.002);
    assert!((heap.share.unwrap().middle + 1.0).abs() < 0.02);
}

#[test]
fn an_interrupted_block_sets_nothing_above_the_floor() {
    let mut data = run(&plan(&["small"], BLOCKS), BLOCKS);
    let split = data.trials.iter().filter(|t| t.trial.block == 3).map(|t| t.trial.position).max().unwrap();
    data.trials.iter_mut().filter(|t| t.trial.position >= split).for_each(|t| t.conditions.session = 1);
    data.trials.retain(|t| t.trial.block != 5 || t.trial.variant != 2);
    assert_eq!(above(&data).iter().map(|a| a.blocks).collect::<Vec<_>>(), [BLOCKS - 2; 2]);
}

#[test]
fn a_table_for_each_judged_time_has_a_row_for_each_variant_above_a_floor() {
    let experiment = judging(&plan(&["small", "large"], BLOCKS), &["source.time", "source.cpu"]);
    let [time, cpu] = floors(&run(&experiment, BLOCKS)).try_into().unwrap();
    assert_eq!(time.title.as_deref(), Some("Above the floor: source.time"));
    assert_eq!(cpu.title.as_deref(), Some("Above the floor: source.cpu"));
    assert_eq!(time.labels, ["size", "subject"]);
    let headings: Vec<String> = time.columns.iter().map(prony_report::Column::full).collect();
    assert_eq!(headings, ["the variant, s", "the floor, s", "above the floor, %"]);
    let found = rows(&time);
    assert_eq!(found.len(), 4, "the floors themselves have no row: {found:?}");
    assert!(found[1].starts_with("small/lmdb 75.") || found[1].starts_with("small/lmdb 74.9"), "{found:?}");
    assert!(found[2].starts_with("large/heap -1") || found[2].starts_with("large/heap -9"), "{found:?}");
    assert_eq!(
        marked(&time, 2, 2),
        ["the variant takes less than its floor, so that the floor is not a lower bound here"]
    );
    assert_eq!(marked(&time, 1, 2), Vec::<&str>::new());
    let [own, floor, share] = [0, 1, 2].map(|at| time.rows[1].cells[at].figures[0].value.unwrap());
    assert!((1.0 - floor / own - share).abs() < 0.01, "the median of ratios is near the ratio of medians here");
    assert!(time.rows[1].cells[2].spread.starts_with('(') && time.rows[1].cells[0].spread.starts_with('['));
    assert!(noted(
        &time,
        "shares above the floor are not verdicts: they are not tested and not part of the correction"
    ));
    assert!(time.caption.contains("The floor of a variant is `subject=bare`"), "{}", time.caption);
}

#[test]
fn verdicts_and_their_family_are_the_same_with_and_without_a_floor() {
    let with = plan(&["small", "large"], BLOCKS);
    let without = floored(&with, &json!({}));
    let lines = |experiment: &Experiment| verdicts::of(&run(experiment, BLOCKS)).lines;
    assert_eq!(lines(&with), lines(&without));
    assert_eq!(floors(&run(&without, BLOCKS)), []);
}

#[test]
fn what_is_neither_time_nor_cpu_says_why_it_has_no_table() {
    let metrics = ["source.rate", "source.time", "source.anon.max", "source.latency.p50"];
    let report = build(&run(&judging(&plan(&["small"], BLOCKS), &metrics), BLOCKS), &Options::default());
    assert_eq!(report.floors.len(), 1);
    let remarks = report.remarks.iter().find(|remarks| remarks.title == "Above the floor").unwrap();
    let starts = ["`source.rate` is not compared with the floor: a rate", "`source.anon.max`", "`source.latency.p50`"];
    assert_eq!(remarks.lines.len(), 3, "{remarks:?}");
    assert!(remarks.lines.iter().zip(starts).all(|(line, start)| line.starts_with(start)), "{remarks:?}");
    let times = build(&run(&plan(&["small"], BLOCKS), BLOCKS), &Options::default());
    assert!(times.remarks.iter().all(|remarks| remarks.title != "Above the floor"), "nothing to explain");
}

#[test]
fn fewer_blocks_than_an_interval_takes_leave_the_figure() {
    let [table] = floors(&run(&plan(&["small"], 1), 1)).try_into().unwrap();
    let cell = &table.rows[1].cells[2];
    assert!(cell.main.starts_with("75.") || cell.main.starts_with("74.9"), "{cell:?}");
    assert_eq!((cell.spread.as_str(), cell.figures[0].low, cell.figures[0].high), ("", None, None));
    assert_eq!(marked(&table, 1, 2), ["only 1 of the 2 blocks that an interval needs"]);
}

#[test]
fn variants_that_did_not_finish_are_missing_with_the_reason() {
    let experiment = plan(&["small"], 6);
    let mut data = run(&experiment, 6);
    data.trials.iter_mut().filter(|t| t.trial.variant == 1).for_each(ends_by_memory);
    assert_eq!(above(&data)[1].share, Err(NoShare::Nothing));
    let [table] = floors(&data).try_into().unwrap();
    assert_eq!(rows(&table)[1], "lmdb -");
    assert!(table.rows[1].cells[0].outcome, "the variant's own cell shows its outcome");
    let [why] = marked(&table, 1, 2).try_into().unwrap();
    assert!(why.starts_with("at least half of the trials did not finish: `subject=lmdb`: OOM in source at"), "{why}");
    assert_eq!(table.rows[1].cells[2].figures[0].missing.as_deref(), Some(why));

    let mut data = run(&experiment, 6);
    data.trials.iter_mut().filter(|t| t.trial.variant == 2).for_each(ends_by_memory);
    let [table] = floors(&data).try_into().unwrap();
    assert_eq!(rows(&table), ["heap -", "lmdb -"]);
    assert!(marked(&table, 0, 2)[0].contains("`subject=bare`: OOM in source at"), "{:?}", table.notes);
}

#[test]
fn one_trial_that_did_not_finish_counts_as_longer_than_any() {
    let mut data = run(&plan(&["small"], BLOCKS), BLOCKS);
    let all = above(&data)[1].share.clone().unwrap();
    data.trials.iter_mut().filter(|t| t.trial.variant == 1 && t.trial.block == 4).for_each(ends_by_memory);
    let found = above(&data).remove(1);
    assert!(found.unfinished && found.blocks == BLOCKS);
    assert!(found.share.unwrap().middle >= all.middle, "what fails more looks no nearer to the floor");
    let [table] = floors(&data).try_into().unwrap();
    assert_eq!(marked(&table, 1, 2), ["a trial that did not finish counts as longer than any trial that did"]);
}

#[test]
fn what_was_not_measured_or_did_not_run_is_said() {
    let mut data = run(&plan(&["small"], 6), 6);
    data.trials.iter_mut().filter(|t| t.trial.variant == 2).for_each(|t| t.phases = vec![phase("source", &[])]);
    let [table] = floors(&data).try_into().unwrap();
    assert_eq!(marked(&table, 1, 2), ["`subject=bare` has no value: not applicable"]);
    data.trials.retain(|t| t.trial.variant != 2);
    assert!(above(&data).iter().all(|a| a.share == Err(NoShare::NotPaired)));
    let [table] = floors(&data).try_into().unwrap();
    assert_eq!(table.rows[1].cells[1].main, "not run");
}

#[test]
fn answers_need_not_be_there_and_must_not_differ() {
    let answered = |of_bare: Option<&str>| {
        let mut data = run(&plan(&["small"], 6), 6);
        let answer = |digest: &str| Answer { rows: Some(7), digest: digest.to_owned(), comparable: true };
        for trial in &mut data.trials {
            let digest = if trial.trial.variant == 2 { of_bare } else { Some("xx:1") };
            trial.phases[0].answer = digest.map(answer);
        }
        above(&data)
    };
    assert!(answered(None).iter().all(|a| a.share.is_ok()), "the bare store may check none");
    assert!(answered(Some("xx:1")).iter().all(|a| a.share.is_ok()));
    for above in answered(Some("xx:2")) {
        let Err(NoShare::Refused(why)) = above.share else { panic!("{above:?}") };
        assert!(why.contains("returned 7 rows each, but not the same rows"), "{why}");
    }
}

#[test]
fn a_floor_that_promises_something_else_is_marked_in_each_row() {
    let mut data = run(&plan(&["small"], 6), 6);
    for trial in &mut data.trials {
        match trial.trial.variant {
            2 => trial.effective = Some(engine("memory", "1", Durability::Strict)),
            0 => trial.effective = None,
            _ => {}
        }
    }
    let [table] = floors(&data).try_into().unwrap();
    let note = "the variant is volatile and the floor strict: their durability guarantees differ";
    assert_eq!(marked(&table, 1, 2), [note]);
    assert!(!marked(&table, 0, 2).contains(&note), "a program promises nothing that prony knows");
}

#[test]
fn settings_without_a_floor_are_said_once() {
    let all = plan(&["a", "b", "c", "d", "e", "f", "g"], 6);
    // The floor runs at the first size only; variants keep their places.
    let few = edited(&all, |json| {
        let variants = json["variants"].as_array_mut().unwrap();
        variants.retain(|v| v["levels"][0] == json!(0) || v["levels"][1] != json!(2));
        variants.iter_mut().enumerate().for_each(|(id, v)| v["id"] = json!(id));
    });
    let [table] = floors(&run(&few, 6)).try_into().unwrap();
    assert_eq!(rows(&table).len(), 2);
    let note = "no floor runs at `size=b`, `size=c`, `size=d`, `size=e` and 2 more settings";
    assert_eq!(table.notes.iter().filter(|note_of| note_of.text == note).count(), 1, "{:?}", table.notes);

    let none = floored(&all, &json!({ "subject": "gone" }));
    let report = build(&run(&none, 6), &Options::default());
    assert_eq!(report.floors, []);
    let remarks = report.remarks.iter().find(|remarks| remarks.title == "Above the floor").unwrap();
    assert_eq!(remarks.lines, ["The floor, `subject=gone`, is not among the variants that run"]);
}

#[test]
fn a_floor_without_the_phase_is_said() {
    let experiment = judging(&plan(&["small"], 6), &["check.time"]);
    let without = edited(&experiment, |json| {
        json["variants"][2]["spec"]["phases"].as_array_mut().unwrap().retain(|phase| phase["name"] != json!("check"));
    });
    let report = build(&run(&without, 6), &Options::default());
    let remarks = report.remarks.iter().find(|remarks| remarks.title == "Above the floor").unwrap();
    assert_eq!(remarks.lines, ["Some variants have the phase `check`, but their floor does not"]);
}

#[test]
fn a_search_sets_nothing_above_a_floor() {
    let explored = edited(&plan(&["small"], 6), |json| json["explores"] = json!(true));
    let report = build(&run(&explored, 6), &Options::default());
    assert!(report.floors.is_empty() && report.remarks.iter().all(|remarks| remarks.title != "Above the floor"));
}

#[test]
fn every_medium_has_the_table() {
    let experiment = plan(&["small"], BLOCKS);
    let data = run(&experiment, BLOCKS);
    let report = build(&data, &Options::default());
    let title = "Above the floor: source.time";
    let terminal = rendered(&report, &Terminal { width: Some(100), colour: false });
    assert!(terminal.contains(title) && terminal.contains("above the floor, %"), "{terminal}");
    assert!(terminal.contains("[1] the variant takes less than its floor"), "{terminal}");
    assert!(terminal.contains("shares above the floor are not verdicts"), "{terminal}");
    let markdown = rendered(&report, &Markdown);
    assert!(markdown.contains(&format!("## {title}\n")), "{markdown}");
    assert!(markdown.contains("| subject | the variant, s | the floor, s | above the floor, % |"), "{markdown}");
    assert!(markdown.contains("<sup>1</sup>the variant takes less than its floor"), "{markdown}");
    let (database, id) = pages::stored("floor", &experiment, &data.trials);
    let page = report_page::of_stored("floor", &database, id).replace("<wbr>", "");
    let verdicts =
        &page[page.find("<section id=\"verdicts\">").unwrap()..page.find("<section id=\"findings\">").unwrap()];
    assert!(verdicts.contains(title) && verdicts.contains("the floor, s"), "{verdicts}");
    assert!(verdicts.contains("are not tested and not part of the correction for multiple comparisons"), "{verdicts}");
}

#[test]
fn the_json_document_has_the_shares_as_numbers() {
    let document_of = |data: &RunData| json_document::of(data, None);
    let experiment = judging(&plan(&["small", "large"], BLOCKS), &["source.time", "source.rate"]);
    let mut data = run(&experiment, BLOCKS);
    data.trials.iter_mut().filter(|t| t.trial.variant == 4).for_each(ends_by_memory);
    let document = document_of(&data);
    let floor = &document["floor"];
    assert_eq!(floor["levels"], json!({ "subject": "bare" }));
    let above = floor["above"].as_array().unwrap();
    let pairs: Vec<[&Value; 2]> = above.iter().map(|row| [&row["variant"], &row["floor"]]).collect();
    assert_eq!(pairs, [[0, 2], [1, 2], [3, 5], [4, 5]]);
    let number = |at: usize, key: &str| above[at][key].as_f64().unwrap();
    assert!((number(1, "share") - 0.75).abs() < 0.002 && number(1, "low") < number(1, "high"));
    assert!((1.0 - number(1, "floor_figure") / number(1, "figure") - 0.75).abs() < 0.01);
    assert_eq!((&above[0]["below_floor"], &above[1]["below_floor"]), (&json!(true), &json!(false)));
    assert!(above[3]["share"].is_null() && above[3]["missing"].as_str().unwrap().contains("OOM in source"));
    let notes: Vec<&str> = floor["notes"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(notes[0].contains("not verdicts") && notes.iter().any(|note| note.contains("`source.rate`")), "{notes:?}");
    let plain = document_of(&run(&floored(&experiment, &json!({})), BLOCKS));
    assert!(plain["floor"].is_null());
}

/// Programs report their own times, so that the shares are exact; names are those of the file.
#[test]
fn a_file_names_the_floor_and_the_report_shows_what_lies_above() {
    let bench = Bench::new();
    let body = "[compare]\nblocks = 6\nbaseline = { subject = \"slow\" }\nfloor = { subject = \"bare\" }\n\
                [factors]\npages = [1, 2]\n[factors.subject]\nslow = { env = { TOOK = 4 } }\n\
                bare = { env = { TOOK = 1 } }\n\
                [program.x]\nshell = true\ncommand = 'echo took $((TOOK * {pages}))00.000 ms'\nchange = \"{subject}\"\n\
                [[phase]]\nname = \"run\"\nread = 'took (?<time_ms>[0-9.]+) ms'\n";
    let data = bench.run(body);
    let row = |pages: &str| names::variant(&data.experiment, if pages == "1" { 0 } else { 2 });
    assert_eq!([row("1"), row("2")], ["pages=1, subject=slow", "pages=2, subject=slow"]);
    assert!(data.trials.iter().any(|t| t.trial.label == Label::A2), "the baseline runs twice, the floor once");
    let shown = String::from_utf8(bench.prony(&["show"]).stdout).unwrap();
    let start = shown.find("Above the floor: run.time").unwrap_or_else(|| panic!("{shown}"));
    let end = start + shown[start..].find("Medians of the trials").unwrap();
    let lines: Vec<&str> = shown[start..end].lines().filter(|line| line.contains(" slow ")).collect();
    assert_eq!(lines.len(), 2, "{shown}");
    assert!(lines.iter().all(|line| line.contains("75.0 (75.0 to 75.0)")), "{shown}");
    let checked = String::from_utf8(bench.prony(&["check", "e.toml"]).stdout).unwrap();
    let note = "the floor, which the file names as the least that the work takes, is subject=bare at the same levels of all \
                other factors: by how much 2 variants take longer is shown";
    assert!(checked.contains(note), "{checked}");
}
