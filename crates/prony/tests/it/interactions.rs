//! Tests interactions of factors, and growth: reported where they exist, and not where they do not.

use prony_analysis::verdicts;
use prony_analysis::verdicts::interactions::{self, Interactions};
use prony_experiment::design::Experiment;
use prony_model::outcome::{OutOfMemory, Outcome};
use prony_model::reading::Reading;
use prony_model::record::{Answer, TrialRecord};
use prony_report::plot::data::growth::{self, Growth};
use prony_report::{Options, build};
use prony_results::RunData;
use serde_json::json;

use crate::compared::{against, edited, printing, trials};
use crate::synthetic::{experiment, key, noise, not_reached, numbers, phase, run_data, texts};
use crate::{json_document, pages};

const BLOCKS: u32 = 12;

/// Two engines with two or more ways to write, the engine against `memory`.
fn engines(ways: &[&str]) -> Experiment {
    let factors = [texts("engine", &["memory", "lmdb"]), texts("way", ways)];
    against(&experiment("ways", &factors, &[("write", true)], BLOCKS), "engine", "memory")
}

/// Runs it with a time for each engine and way, 1 % of noise, and blocks of very different speed.
fn run(experiment: &Experiment, time: impl Fn(usize, usize) -> f64) -> RunData {
    let records = trials(experiment, BLOCKS, |t| {
        let levels = &experiment.variants()[t.trial.variant].levels;
        let noise_factor = 1.0 + 0.01 * (noise(u64::from(t.trial.position)) - 0.5);
        let drift = 1.0 + f64::from(t.trial.block % 5);
        t.phases = vec![phase("write", &[("time", 1e9 * time(levels[0], levels[1]) * noise_factor * drift)])];
    });
    run_data(experiment.clone(), records.len() as u32, records)
}

fn found(data: &RunData) -> Interactions {
    interactions::of(data, &verdicts::of(data))
}

#[test]
fn interaction_is_reported_with_both_levels() {
    let found = found(&run(&engines(&["each", "batch"]), |engine, way| [[1.0, 1.0], [6.0, 3.0]][engine][way]));
    let [one] = found.found.as_slice() else { panic!("{found:?}") };
    assert_eq!((one.factor.as_str(), one.on.as_str()), ("engine", "way"), "the baseline's factor has the effect");
    let sentence = one.sentence();
    let start = "the effect of `engine` depends on `way` in `write.time`: compared with `memory`, `lmdb` is ";
    assert!(sentence.starts_with(start), "{sentence}");
    let rest = &sentence[start.len()..];
    assert!(rest.starts_with("6.0") || rest.starts_with("5.9"), "{sentence}");
    assert!(
        rest.contains(" at `way=batch`; from `each` to `batch` this effect changes by a factor of 0."),
        "{sentence}"
    );
    let interval = one.change.interval;
    assert!(interval.low < 0.5 && interval.high.unwrap() > 0.5 && interval.high.unwrap() < 0.52, "{interval:?}");
    assert_eq!(found.examined, 1);
    assert!(found.note().starts_with("interactions are exploratory and are not verdicts"));
}

#[test]
fn multiplicative_factors_and_differences_below_the_margin_are_no_interactions() {
    assert!(found(&run(&engines(&["each", "batch"]), |e, w| [1.0, 6.0][e] * [1.0, 0.2][w])).found.is_empty());
    let little = found(&run(&engines(&["each", "batch"]), |e, w| [1.0, 6.0][e] * [1.0, 0.2][w] * [1.0, 1.02][e * w]));
    assert!(little.found.is_empty() && little.examined == 1, "{little:?}");
}

#[test]
fn digits_that_are_printed_hide_interactions() {
    let of = |half: f64| {
        let mut data = run(&engines(&["each", "batch"]), |engine, way| [[1.0, 1.0], [6.0, 3.0]][engine][way]);
        data.trials.iter_mut().for_each(|trial| trial.effective = Some(printing(half)));
        found(&data).found
    };
    let (exact, fine) = (of(0.0), of(3e7));
    let span = |found: &[interactions::Interaction]| {
        let [one] = found else { panic!("{found:?}") };
        let all = one.effects.iter().map(|(_, effect)| effect).chain([&one.change]);
        all.map(|one| one.interval.high.unwrap() / one.interval.low).collect::<Vec<f64>>()
    };
    assert!(span(&exact).iter().zip(span(&fine)).all(|(exact, fine)| *exact * 1.02 < fine), "{exact:?} {fine:?}");
    assert_eq!(of(1e9), [], "a third of the figures of one engine");
}

#[test]
fn what_samples_missed_hides_interactions() {
    let of = |missed: f64| {
        let experiment =
            edited(&engines(&["each", "batch"]), |json| json["compare"]["primary"] = json!("write.anon.max"));
        let records = trials(&experiment, BLOCKS, |t| {
            let levels = &experiment.variants()[t.trial.variant].levels;
            let used = [[1e8, 1e8], [6e8, 3e8]][levels[0]][levels[1]];
            t.phases = vec![phase("write", &[("anon.max", used), ("rss.max", used), ("rss.peak", used + missed)])];
        });
        found(&run_data(experiment, records.len() as u32, records)).found.len()
    };
    assert_eq!((of(0.0), of(2e9)), (1, 0));
}

#[test]
fn largest_change_of_many_levels_is_reported_with_all_effects() {
    let data = run(&engines(&["each", "ten", "hundred"]), |e, w| [[1.0; 3], [6.0, 5.9, 1.0]][e][w]);
    let found = found(&data);
    let [one] = found.found.as_slice() else { panic!("{found:?}") };
    assert_eq!((one.between.0.as_str(), one.between.1.as_str()), ("each", "hundred"));
    assert_eq!(one.effects.iter().map(|(at, _)| at.as_str()).collect::<Vec<_>>(), ["each", "ten", "hundred"]);
    assert_eq!(found.examined, 2);
}

#[test]
fn interaction_fixes_and_names_other_factors() {
    let factors = [
        texts("engine", &["memory", "lmdb"]),
        texts("way", &["each", "batch"]),
        numbers("documents", &["10", "1_000"]),
    ];
    let three = against(&experiment("three", &factors, &[("write", true)], BLOCKS), "engine", "memory");
    // Only with many documents does the way matter, and only to one engine.
    let records = trials(&three, BLOCKS, |t| {
        let l = &three.variants()[t.trial.variant].levels;
        let noise_factor = 1.0 + 0.01 * (noise(u64::from(t.trial.position)) - 0.5);
        let time = if l.as_slice() == [1, 1, 1] { 0.25 } else { 1.0 };
        t.phases = vec![phase("write", &[("time", 1e9 * time * noise_factor)])];
    });
    let found = found(&run_data(three.clone(), records.len() as u32, records));
    let at = |of: &str, on: &str| -> Vec<&str> {
        found.found.iter().filter(|i| i.factor == of && i.on == on).map(|i| i.at.as_str()).collect()
    };
    assert_eq!(at("engine", "way"), ["documents=1_000"]);
    assert_eq!(at("engine", "documents"), ["way=batch"]);
    assert_eq!(at("documents", "way"), ["engine=lmdb"]);
    assert_eq!(found.examined, 6);
}

#[test]
fn the_basis_of_an_interaction_is_printed() {
    let engines = engines(&["each", "batch"]);
    let mut data = run(&engines, |e, w| [[1.0, 1.0], [6.0, 3.0]][e][w]);
    let basis = |data: &RunData| {
        let found = found(data);
        let [one] = found.found.as_slice() else { panic!("{found:?}") };
        (one.blocks, one.of, one.sentence().rsplit_once("; ").unwrap().1.to_owned())
    };
    assert_eq!(basis(&data), (12, 12, "12 blocks)".to_owned()));
    // One of the four fails in three blocks: the change is estimated from the blocks in which it succeeded.
    for t in data.trials.iter_mut().filter(|t| t.trial.variant == 3 && t.trial.block % 4 == 1) {
        t.ending.outcome = Outcome::OutOfMemory { by: OutOfMemory::Limit };
        t.phases = vec![not_reached("write")];
    }
    assert_eq!(basis(&data), (9, 12, "9 of 12 blocks, those in which all four variants have a value)".to_owned()));
    let document = json_document::of(&data, None);
    let found = &document["interactions"][0];
    assert_eq!((&found["blocks"], &found["of_blocks"], &found["unimodal"]), (&json!(9), &json!(12), &json!(false)));
}

#[test]
fn joint_confidence_is_stated_for_one_analysis() {
    let time = |e: usize, w: usize| [[1.0; 3], [6.0, 5.9, 1.0]][e][w];
    let once = engines(&["each", "ten", "hundred"]);
    let note = found(&run(&once, time)).note();
    assert!(note.contains("the changes hold jointly with probability 95 % over all 2 pairs"), "{note}");
    let often = edited(&once, |json| {
        let blocks = json!({ "min": 6, "max": 30 });
        json["variants"].as_array_mut().unwrap().iter_mut().for_each(|v| v["blocks"] = blocks.clone());
    });
    let found_often = found(&run(&often, time));
    assert_eq!(found_often.analyses, 4);
    let note = found_often.note();
    assert!(
        note.contains("would hold for a single analysis jointly") && note.contains("had up to 4 interim analyses"),
        "{note}"
    );
}

#[test]
fn few_blocks_suppose_unimodal_noise_and_say_so() {
    let time = |e: usize, w: usize| [[1.0; 3], [6.0, 5.9, 1.0]][e][w];
    let mut data = run(&engines(&["each", "ten", "hundred"]), time);
    let sentence = |data: &RunData| found(data).found[0].sentence();
    assert!(!sentence(&data).contains("unimodal"), "{}", sentence(&data));
    // Of two pairs each interval is at 2.5 %; six blocks by themselves give 3.1 %.
    data.trials.retain(|t| t.trial.block < 6);
    assert!(sentence(&data).ends_with(", assuming unimodal noise; 6 blocks)"), "{}", sentence(&data));
}

#[test]
fn few_blocks_stars_and_refused_comparisons_say_nothing() {
    let engines = engines(&["each", "batch"]);
    let time = |e: usize, w: usize| [[1.0, 1.0], [6.0, 3.0]][e][w];
    let mut few = run(&engines, time);
    few.trials.retain(|t| t.trial.block < 5);
    assert_eq!(found(&few).examined, 0);
    let mut star = run(&engines, time);
    star.trials.retain(|t| t.trial.variant != 3);
    assert_eq!(found(&star).examined, 0);
    let mut wrong = run(&engines, time);
    let answer = |digest: &str| Some(Answer { rows: Some(1), digest: digest.to_owned(), comparable: true });
    let lmdb = |t: &TrialRecord| t.trial.variant >= 2;
    wrong.trials.iter_mut().for_each(|t| t.phases[0].answer = answer(if lmdb(t) { "b" } else { "a" }));
    assert_eq!(found(&wrong), Interactions { confidence: 0.95, analyses: 1, ..Interactions::default() });
}

/// Without a baseline no verdict refuses anything: the effect of `way` depended on an engine that gave other answers.
#[test]
fn variants_with_other_answers_do_not_interact_without_a_baseline_either() {
    let factors = [texts("engine", &["memory", "lmdb"]), texts("way", &["each", "batch"])];
    let experiment = experiment("ways", &factors, &[("write", true)], BLOCKS);
    let time = |engine: usize, way: usize| [[1.0, 1.0], [6.0, 3.0]][engine][way];
    let mut data = run(&experiment, time);
    let found = |data: &RunData| interactions::of(data, &verdicts::of(data)).examined;
    assert_eq!(found(&data), 1);
    for trial in &mut data.trials {
        let engine = experiment.variants()[trial.trial.variant].levels[0];
        trial.phases[0].answer = Some(Answer { rows: Some(1), digest: engine.to_string(), comparable: true });
    }
    assert_eq!(found(&data), 0);
}

#[test]
fn identical_variants_rarely_interact() {
    let mut hits = 0;
    for seed in 0..60u64 {
        let engines = engines(&["each", "batch", "all"]);
        let records = trials(&engines, BLOCKS, |t| {
            let noise_factor = 1.0 + noise(seed << 32 | u64::from(t.trial.position));
            t.phases = vec![phase("write", &[("time", 1e9 * noise_factor)])];
        });
        hits += usize::from(!found(&run_data(engines, records.len() as u32, records)).found.is_empty());
    }
    // At a true 5 % ten or more of sixty happen once in two thousand times.
    assert!(hits < 10, "{hits} of 60");
}

/// How many of `runs` with skewed noise, and so many blocks, claim an interaction.
fn claimed(experiment: &Experiment, (runs, blocks): (u64, u32), scale: impl Fn(&[usize]) -> f64) -> usize {
    let (mut hits, mut examined) = (0, 0);
    for seed in 0..runs {
        let records = trials(experiment, blocks, |t| {
            let exponential = -(1.0 - noise(seed << 32 | u64::from(t.trial.position))).ln();
            let scale = scale(&experiment.variants()[t.trial.variant].levels);
            t.phases = vec![phase("write", &[("time", 1e9 * (scale * exponential.powi(3)).exp())])];
        });
        let found = found(&run_data(experiment.clone(), records.len() as u32, records));
        // Chance makes a few of them look as if they changed during the run, which is refused.
        examined += u64::from(found.examined > 0);
        hits += usize::from(!found.found.is_empty());
    }
    assert!(examined > 3 * runs / 4, "{examined} of {runs}");
    hits
}

/// Where one corner was the mean of two trials, and the noise skewed, identical variants seemed to interact in 16 of 40 runs.
#[test]
fn identical_variants_with_skewed_noise_rarely_interact() {
    let blocks = 250;
    let factors = [texts("engine", &["memory", "lmdb"]), texts("way", &["each", "batch"])];
    let both = against(&experiment("ways", &factors, &[("write", true)], blocks), "engine", "memory");
    let both = edited(&both, |json| {
        json["compare"]["baseline"] = json!({ "engine": "memory", "way": "each" });
        for (at, variant) in json["variants"].as_array_mut().unwrap().iter_mut().enumerate() {
            (variant["baseline"], variant["stratum"]) = (json!(at == 0), json!(0));
        }
    });
    let hits = claimed(&both, (40, blocks), |_| 0.1);
    // At a true 5 % more than 7 of 40 happen once in a thousand times.
    assert!(hits <= 7, "{hits} of 40");
}

/// A block counted only where all choices of two trials at each of four corners agreed, which skewed noise makes more likely on one side.
#[test]
fn baselines_at_all_corners_rarely_interact_by_noise() {
    let blocks = 250;
    let factors =
        [texts("engine", &["memory", "lmdb"]), texts("way", &["each", "batch"]), numbers("size", &["1", "2"])];
    let three = against(&experiment("ways", &factors, &[("write", true)], blocks), "engine", "memory");
    // Noise of one way alone, so that the noise of the pair of that way and of size is one of two trials against two.
    let hits = claimed(&three, (20, blocks), |levels| if levels[1] == 0 { 0.1 } else { 0.001 });
    // At a true 5 % more than 5 of 20 happen once in a thousand times.
    assert!(hits <= 5, "{hits} of 20");
}

#[test]
fn the_document_contains_the_values_and_growth_is_marked_as_extrapolated() {
    let (of_pages, records) = pages::sourcing();
    let data = run_data(of_pages, records.len() as u32, records);
    let report = build(&data, &Options::default());
    let document = json_document::of(&data, None);
    let growth = document["growth"].as_array().unwrap();
    let memory = growth.iter().find(|g| g["metric"] == "source.anon.max" && g["series"] == "engine=memory").unwrap();
    assert_eq!(memory["ran_out_at"], json!([1e7]));
    assert_eq!((&memory["line"]["trials"], &memory["line"]["without"]), (&json!(80), &json!(16)));
    let reach = memory["line"]["reach"]["x"].as_f64().unwrap();
    assert!((9e6..1.1e7).contains(&reach), "{reach}");
    let sentences: Vec<&String> = report.remarks.iter().flat_map(|r| &r.lines).collect();
    let count = |what: &str| sentences.iter().filter(|s| s.contains(what)).count();
    assert_eq!(
        count("extrapolated, not measured: it would reach the memory limit of 16.00 GB at about "),
        2,
        "{sentences:#?}"
    );
    let ran_out = "; trials did run out of memory at 10,000,000; left out, since they have no value: 16 of 80 trials";
    assert_eq!(count(ran_out), 2, "time and memory: {sentences:#?}");
    let first = &document["comparisons"][0];
    assert_eq!((&first["verdict"], &first["metric"]), (&json!("worse"), &json!("source.time")));
    assert!(first["low"].as_f64().unwrap() > 1.2 && first["finished"]["trials"] == 8);
}

#[test]
fn memory_without_a_limit_and_resident_memory_meet_nothing() {
    let (of_pages, records) = pages::sourcing();
    let free = edited(&of_pages, |json| {
        for variant in json["variants"].as_array_mut().unwrap() {
            variant["spec"]["limits"]["memory"] = json!(null);
        }
    });
    for data in [run_data(free, 1, records.clone()), run_data(of_pages, 1, records)] {
        let growth = growth::of(&data, &"source.rss.peak".parse().unwrap(), 1).unwrap();
        assert!(growth.series.iter().all(|s| s.limit.is_none() && s.reach.is_none()));
    }
}

fn growth_of_time(of: &(Experiment, Vec<TrialRecord>)) -> (Growth, Vec<String>) {
    let (experiment, trials) = of.clone();
    let name = "source.time".parse().unwrap();
    let growth = growth::of(&run_data(experiment, 1, trials), &name, 1).unwrap();
    let sentences = growth.sentences(&name);
    (growth, sentences)
}

#[test]
fn memory_that_the_host_lacked_is_not_the_subjects() {
    let mut sourcing = pages::sourcing();
    let (limited, _) = growth_of_time(&sourcing);
    assert_eq!((limited.series[0].ran_out.as_slice(), limited.series[0].without), ([1e7].as_slice(), 16));
    for trial in sourcing.1.iter_mut().filter(|t| !t.ending.outcome.is_ok()) {
        trial.ending.outcome = Outcome::OutOfMemory { by: OutOfMemory::Host };
    }
    let (growth, sentences) = growth_of_time(&sourcing);
    assert!(growth.series[0].ran_out.is_empty());
    assert!(sentences[0].ends_with("; left out, since they have no value: 16 of 80 trials"), "{sentences:?}");
    assert!(!sentences[0].contains("run out") && !sentences[1].contains("left out"), "{sentences:?}");
}

#[test]
fn measured_zero_excludes_a_power_law_and_is_reported() {
    let mut sourcing = pages::sourcing();
    let nought = sourcing.1.iter_mut().find(|t| t.trial.variant == 0).unwrap();
    nought.phases[0].readings.get_mut("").unwrap().insert(key("time"), Reading::Measured(0.0));
    let (growth, sentences) = growth_of_time(&sourcing);
    let [first, second] = growth.series.as_slice() else { panic!("{growth:?}") };
    assert!(first.fit.is_none() && first.zeros == 1 && second.fit.is_some() && second.zeros == 0);
    assert!(first.points.iter().all(|(.., y)| y.is_none_or(|y| y > 0.0)), "log axes have no nought");
    let sentence = "`source.time` of `engine=memory` has no fitted power law in `documents`: in 1 of 80 \
                trials the value is not above 0";
    assert_eq!((sentences.len(), sentences[0].as_str()), (2, sentence));
}

/// Memory of 3 MB and 260 B for each item was said to grow with a power of 0.80, which reads as less than proportional, and
/// nothing of it stood in a brief report.
#[test]
fn growth_beside_a_constant_part_has_its_increase_also_where_nothing_is_compared() {
    let sized = |labels: &[&str]| experiment("sizes", &[numbers("n", labels)], &[("write", true)], BLOCKS);
    let brief = |labels: &[&str], bytes: f64| {
        let sized = sized(labels);
        let records = trials(&sized, BLOCKS, |t| {
            let n: f64 = labels[t.trial.variant].replace('_', "").parse().unwrap();
            let noise = 1.0 + 0.001 * (noise(u64::from(t.trial.position)) - 0.5);
            t.phases = vec![phase("write", &[("time", 1e9), ("anon.max", noise * (3e6 + bytes * n))])];
        });
        let memory = edited(&sized, |json| json["compare"]["primary"] = json!("write.anon.max"));
        let data = run_data(memory, records.len() as u32, records);
        build(&data, &Options { brief: true, ..Options::default() })
    };
    let lines = |report: prony_report::Report| report.remarks.into_iter().flat_map(|of| of.lines).collect::<Vec<_>>();
    let report = brief(&["10_000", "30_000", "100_000", "300_000"], 260.0);
    assert!(report.judged.as_ref().unwrap().starts_with("No verdict: no baseline"), "{:?}", report.judged);
    let [line] = &lines(report)[..] else { panic!("one line of growth") };
    assert!(
        line.contains("not a power law; each further 1 of `n` added about 2") && line.contains(" B between"),
        "{line}"
    );
    let [line] = &lines(brief(&["1_000_000", "2_000_000", "4_000_000"], 0.5))[..] else { panic!("one line of growth") };
    assert!(line.contains("; each further 100 of `n` added about "), "{line}");
    let [flat] = &lines(brief(&["10_000", "30_000", "100_000"], 0.0))[..] else { panic!("one line of growth") };
    assert!(!flat.contains("each further"), "{flat}");
}

#[test]
fn the_far_end_of_an_extrapolation_has_a_bound_or_is_said_to_have_none() {
    let (experiment, mut trials) = pages::sourcing();
    // Memory of which it is not known whether it still grows between the last two levels.
    for t in trials.iter_mut().filter(|t| t.trial.variant < 5) {
        let memory =
            [8e6, 8e7, 4e8, 1e9, 3e9][t.trial.variant] * 10f64.powf(2.0 * noise(u64::from(t.trial.position)) - 1.0);
        t.phases[0].readings.get_mut("").unwrap().insert(key("anon.max"), Reading::Measured(memory));
    }
    let growth = growth::of(&run_data(experiment, 1, trials), &"source.anon.max".parse().unwrap(), 1).unwrap();
    let words = growth.series[0].reach_words("documents").unwrap();
    assert!(words.contains(" to beyond 100 times the largest value measured), "), "{words}");
}

#[test]
fn a_search_has_no_interactions_and_growth_only_where_survival_chose() {
    let factors = [texts("engine", &["memory", "lmdb"]), numbers("documents", &["10", "100", "1_000"])];
    let declared = against(&experiment("grows", &factors, &[("write", true)], BLOCKS), "engine", "memory");
    let planned =
        run(&declared, |engine, documents| (1.0 + engine as f64 * documents as f64) * 10f64.powi(documents as i32));
    assert!(!found(&planned).found.is_empty());
    let searched = |by: &str| {
        let mut data = planned.clone();
        data.experiment = edited(&declared, |json| json["explores"] = json!(true));
        data.head.search = Some(by.to_owned());
        data
    };
    let growth = |data: &RunData| prony_report::plot::data::growth::of(data, &"write.time".parse().unwrap(), 1);
    let remarks = |data: &RunData| {
        let report = build(data, &Options::default());
        report.remarks.iter().map(|remarks| (remarks.title, remarks.note.clone())).collect::<Vec<_>>()
    };
    let note = "a search chose the values of the factor by the outcomes of their trials";
    let titles = remarks(&planned);
    assert!(titles.len() == 2 && titles.iter().all(|(_, said)| !said.contains(note)), "{titles:?}");
    let tuned = searched("tune");
    assert!(found(&tuned).found.is_empty() && growth(&tuned).is_none() && remarks(&tuned).is_empty());
    let document = json_document::of(&tuned, None);
    assert_eq!((&document["interactions"], &document["growth"]), (&json!([]), &json!([])));
    let grown = searched("grow");
    assert!(found(&grown).found.is_empty() && growth(&grown) == growth(&planned));
    let found = remarks(&grown);
    assert!(found.len() == 1 && found[0].0 == "Growth" && found[0].1.contains(note), "{found:?}");
}
