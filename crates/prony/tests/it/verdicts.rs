//! Tests the way from a run's trials to verdicts and their sentences.

use prony_analysis::guard::{Finding, Severity};
use prony_analysis::verdicts::{self, Verdicts};
use prony_experiment::design::Experiment;
use prony_model::metric::MetricName;
use prony_model::outcome::{OutOfMemory, Outcome};
use prony_model::reading::{Reading, Why};
use prony_model::record::{Answer, Change, Completion, Conditions, Machine, TrialRecord};
use prony_model::spec::Durability;
use prony_model::trial::Label;
use prony_results::{RunData, RunStatus};
use prony_stats::Verdict;
use serde_json::json;

use crate::bench::Bench;
use crate::compared::{against, edited, trials};
use crate::synthetic::{engine, experiment, noise, not_reached, numbers, phase, run_data, texts};

pub(crate) fn two_stores(blocks: u32) -> Experiment {
    let plain = experiment("two stores", &[texts("store", &["lmdb", "redb"])], &[("write", true)], blocks);
    against(&plain, "store", "lmdb")
}

/// A write of `time` seconds with 1 % of noise.
pub(crate) fn write(record: &mut TrialRecord, time: f64) {
    let noise_factor = 1.0 + 0.01 * (noise(u64::from(record.trial.position)) - 0.5);
    record.phases =
        vec![phase("write", &[("time", 1e9 * time * noise_factor), ("rate", 1000.0 / (time * noise_factor))])];
}

pub(crate) fn judged(experiment: &Experiment, blocks: u32, fill: impl FnMut(&mut TrialRecord)) -> Verdicts {
    verdicts::of(&data(experiment, blocks, fill))
}

pub(crate) fn data(experiment: &Experiment, blocks: u32, fill: impl FnMut(&mut TrialRecord)) -> RunData {
    let trials = trials(experiment, blocks, fill);
    run_data(experiment.clone(), trials.len() as u32, trials)
}

pub(crate) fn only(verdicts: &Verdicts) -> &verdicts::Line {
    assert_eq!(verdicts.lines.len(), 1, "{verdicts:?}");
    &verdicts.lines[0]
}

#[test]
fn a_slower_store_is_said_to_be_slower_by_so_much() {
    let verdicts = judged(&two_stores(12), 12, |t| write(t, if t.trial.variant == 1 { 1.84 } else { 1.0 }));
    let line = only(&verdicts);
    assert_eq!(line.comparison.verdict, Verdict::Worse);
    let start = "`store=redb` takes 84 % more time than `store=lmdb` in `write.time` (95 % interval: 8";
    assert!(line.sentence.starts_with(start) && line.sentence.ends_with(" %)"), "{}", line.sentence);
    assert_eq!((verdicts.margin, verdicts.alpha, verdicts.silent), (0.03, 0.05, None));
}

#[test]
fn rates_are_compared_as_so_many_times_the_rate() {
    let rates = edited(&two_stores(12), |json| json["compare"]["primary"] = json!("write.rate"));
    let sentence = |time: f64| {
        let verdicts = judged(&rates, 12, |t| write(t, if t.trial.variant == 1 { time } else { 1.0 }));
        only(&verdicts).sentence.clone()
    };
    for (time, some, rate) in [
        (0.5, "2.00", " times the rate of"),
        (4.0, "0.250", " times the rate of"),
        (50.0, "1/50.", " of the rate of"),
        (0.8, "a rate 25 %", " higher than that of"),
        (1.25, "a rate 20 %", " lower than that of"),
    ] {
        let said = sentence(time);
        let rest = format!("{rate} `store=lmdb` in `write.rate` (95 % interval: ");
        assert!(said.starts_with(&format!("`store=redb` has {some}")) && said.contains(&rest), "{said}");
    }
    assert!(sentence(4.0).contains("interval: 0.2"), "not turned round: {}", sentence(4.0));
}

#[test]
fn verdict_states_unequal_durability() {
    let sentence = |variant: Durability, time: f64| {
        let verdicts = judged(&two_stores(12), 12, |t| {
            write(t, if t.trial.variant == 1 { time } else { 1.0 });
            t.effective = Some(engine("x", "1", if t.trial.variant == 1 { variant } else { Durability::Strict }));
        });
        only(&verdicts).sentence.clone()
    };
    let unequal = "; not equal: `store=redb` is `volatile` (a process crash may lose the most recent commits), \
                   `store=lmdb` is `strict`";
    let volatile = [0.5, 1.0].map(|time| sentence(Durability::Volatile, time));
    assert!(volatile.iter().all(|sentence| sentence.ends_with(unequal)), "{volatile:?}");
    assert!(!sentence(Durability::Strict, 0.5).contains("not equal"));
}

#[test]
fn each_stratum_has_its_own_baseline() {
    let factors = [texts("store", &["lmdb", "redb", "fjall"]), numbers("documents", &["1_000", "10_000"])];
    let plain = experiment("strata", &factors, &[("write", true)], 12);
    let verdicts = judged(&against(&plain, "store", "lmdb"), 12, |t| {
        let (store, large) = (t.trial.variant / 2, t.trial.variant % 2);
        write(t, [1.0, 2.0, 0.25][store] * [1.0, 100.0][large]);
    });
    let starts: Vec<&str> = verdicts.lines.iter().map(|l| l.sentence.split(" (").next().unwrap()).collect();
    assert_eq!(
        starts,
        [
            "`store=redb` takes 2.00 times as long as `store=lmdb` in `write.time` at `documents=1_000`",
            "`store=redb` takes 2.00 times as long as `store=lmdb` in `write.time` at `documents=10_000`",
            "`store=fjall` is 4.00 times faster than `store=lmdb` in `write.time` at `documents=1_000`",
            "`store=fjall` is 4.00 times faster than `store=lmdb` in `write.time` at `documents=10_000`",
        ]
    );
    assert!(verdicts.lines[0].comparison.method.contains("over 4 comparisons"));
}

#[test]
fn declared_metrics_join_the_family_and_undeclared_get_no_verdict() {
    let two = edited(&two_stores(12), |json| json["compare"]["metrics"] = json!(["write.rate", "write.time"]));
    let data = data(&two, 12, |t| write(t, 1.0 + t.trial.variant as f64));
    let verdicts = verdicts::of(&data);
    let metrics: Vec<String> = verdicts.lines.iter().map(|l| l.pair.metric.to_string()).collect();
    assert_eq!(metrics, ["write.time", "write.rate"]);
    let beside = verdicts::Comparisons::new(&data).beside(&"write.rate".parse::<MetricName>().unwrap());
    let ratio = *beside[0].ratio.measured().unwrap();
    let interval = beside[0].interval.measured().unwrap();
    assert!((ratio - 0.5).abs() < 0.01 && interval.low < ratio && interval.high.unwrap() > ratio);
    assert!(verdicts::Comparisons::new(&data).beside(&"write.fsyncs".parse().unwrap())[0].ratio.measured().is_none());
}

/// Sixteen blocks, in all but the second of which the variant is slower by a tenth: no interim analysis says so.
fn budgeted() -> RunData {
    let timed = |json: &mut serde_json::Value| {
        json["compare"]["budget"] = json!(240_000_000_000u64);
        for variant in json["variants"].as_array_mut().unwrap() {
            variant["blocks"] = json!({ "min": 6, "max": 10_000 });
        }
    };
    let experiment = edited(&two_stores(16), timed);
    data(&experiment, 16, |t| {
        let slower = if t.trial.block == 1 { 0.9 } else { 1.1 };
        write(t, if t.trial.variant == 1 { slower } else { 1.0 });
    })
}

#[test]
fn a_run_that_its_time_budget_ended_has_a_closing_analysis_of_all_its_blocks() {
    let mut data = budgeted();
    let line = |data: &RunData| only(&verdicts::of(data)).comparison.clone();
    let ended = line(&data);
    assert!(ended.verdict.is_worse() && ended.blocks == 16, "{ended:?}");
    assert!(ended.method.contains("the closing analysis of a time budget, at 16 blocks"), "{}", ended.method);
    // While it runs, and where somebody interrupted it, there are only the interim analyses.
    for status in [RunStatus::Unfinished, RunStatus::Interrupted] {
        data.head.status = status;
        let open = line(&data);
        assert!(matches!(open.verdict, Verdict::CantTell { .. }) && open.blocks == 10, "{open:?}");
        assert!(open.method.contains("interim analysis 2 before the time budget ends"), "{}", open.method);
    }
}

#[test]
fn a_run_that_was_decided_at_an_interim_analysis_has_no_closing_one() {
    let mut data = budgeted();
    data.trials.retain(|t| t.trial.block < 10);
    data.trials.iter_mut().for_each(|t| write(t, if t.trial.variant == 1 { 2.0 } else { 1.0 }));
    let comparison = only(&verdicts::of(&data)).comparison.clone();
    assert_eq!(comparison.verdict, Verdict::Worse);
    assert!(
        comparison.method.contains("interim analysis 2 before the time budget ends, at 10 blocks"),
        "{}",
        comparison.method
    );
}

#[test]
fn an_interrupted_block_is_not_paired() {
    let experiment = two_stores(12);
    let mut data = data(&experiment, 12, |t| write(t, 1.0));
    data.trials.retain(|t| t.trial.block != 3 || t.trial.label == Label::A);
    data.trials.retain(|t| t.trial.block != 5 || t.trial.variant == 0);
    let pairing_blocks = only(&verdicts::of(&data)).comparison.variant.trials;
    assert_eq!(pairing_blocks, 10);
}

#[test]
fn a_block_that_was_interrupted_and_resumed_is_not_paired() {
    let experiment = two_stores(12);
    let mut data = data(&experiment, 12, |t| write(t, 1.0));
    let in_third = data.trials.iter().filter(|t| t.trial.block == 3).map(|t| t.trial.position);
    let last_of_third = in_third.max().unwrap();
    let later = data.trials.iter_mut().filter(|t| t.trial.position >= last_of_third);
    later.for_each(|t| t.started_unix_ms += 3_600_000);
    assert_eq!(only(&verdicts::of(&data)).comparison.variant.trials, 12, "a machine that was suspended is no session");
    let resumed = data.trials.iter_mut().filter(|t| t.trial.position >= last_of_third);
    resumed.for_each(|t| t.conditions.session = 1);
    assert_eq!(only(&verdicts::of(&data)).comparison.variant.trials, 11);
}

/// A sub-block that is interrupted may have a whole pair, and runs again for its other variants.
#[test]
fn a_block_that_ran_in_part_twice_is_paired_once() {
    let experiment = two_stores(12);
    let mut data = data(&experiment, 12, |t| write(t, 1.0));
    let mut again: Vec<TrialRecord> = data.trials.iter().filter(|t| t.trial.block == 3).cloned().collect();
    for trial in &mut again {
        (trial.trial.sub_block, trial.conditions.session) = (1, 1);
        trial.trial.position += 1000;
        write(trial, 2.0);
    }
    data.trials.extend(again);
    let verdicts = verdicts::of(&data);
    assert_eq!(only(&verdicts).comparison.blocks, 12);
    data.trials.retain(|t| t.trial.block != 3 || t.conditions.session == 0 || t.trial.variant == 1);
    assert_eq!(only(&verdicts::of(&data)).comparison.blocks, 12, "the first, where the second was not completed");
}

#[test]
fn a_variant_that_never_finishes_does_not_finish() {
    let verdicts = judged(&two_stores(6), 6, |t| {
        write(t, 1.0);
        if t.trial.variant == 1 {
            t.ending.outcome = Outcome::OutOfMemory { by: OutOfMemory::Limit };
            t.phases[0].completion = Completion::Partial;
        }
    });
    assert_eq!(
        only(&verdicts).sentence,
        "`store=redb` does not finish where `store=lmdb` does in phase `write`: \
         0 of 6 trials finished (95 % interval of that share: 0 to 46 %); of the baseline, 12 of 12 (73 to 100 %)"
    );
}

#[test]
fn a_partial_phase_gives_no_figure_even_where_a_reading_is_there() {
    let verdicts = judged(&two_stores(6), 6, |t| {
        write(t, 1.0);
        t.phases.push(not_reached("read"));
        if t.trial.variant == 1 {
            t.ending.outcome = Outcome::TimedOut;
            t.phases[0].completion = Completion::Partial;
        }
    });
    assert_eq!(only(&verdicts).comparison.verdict, Verdict::DoesNotFinish);
}

#[test]
fn answers_that_differ_refuse_the_comparison() {
    let answer = |rows, digest: &str| Answer { rows: Some(rows), digest: digest.to_owned(), comparable: true };
    let refused = |of_variant: Answer| {
        let verdicts = judged(&two_stores(6), 6, |t| {
            write(t, 1.0);
            t.phases[0].answer = Some(if t.trial.variant == 1 { of_variant.clone() } else { answer(10, "aa") });
        });
        only(&verdicts).sentence.clone()
    };
    let fewer = refused(answer(9, "bb"));
    assert!(fewer.contains("is not compared with") && fewer.contains("10 rows") && fewer.ends_with(" 9"), "{fewer}");
    let other = refused(answer(10, "bb"));
    assert!(other.ends_with("returned 10 rows each, but not the same rows"), "{other}");
    let bounded_by_time = Answer { comparable: false, ..answer(9, "bb") };
    assert!(!refused(bounded_by_time).contains("is not compared with"));
}

#[test]
fn a_guards_refusal_refuses_and_a_warning_does_not() {
    let sentence = |severity| {
        let verdicts = judged(&two_stores(6), 6, |t| {
            write(t, 1.0);
            t.findings = vec![Finding {
                guard: "cache".to_owned(),
                severity,
                phase: None,
                message: "the cache was warm".to_owned(),
                hint: String::new(),
                data: json!(null),
            }];
        });
        only(&verdicts).sentence.clone()
    };
    assert_eq!(
        sentence(Severity::Refusal),
        "`store=redb` is not compared with `store=lmdb` in `write.time`: the cache was warm"
    );
    assert!(!sentence(Severity::Warning).contains("not compared"));
}

#[test]
fn too_few_blocks_say_how_many_a_verdict_needs() {
    let verdicts = judged(&two_stores(12), 4, |t| write(t, 1.0));
    let sentence = &only(&verdicts).sentence;
    assert!(sentence.starts_with("can't tell whether `store=redb` differs from `store=lmdb` in `write.time`: "));
    assert!(sentence.ends_with("; 4 blocks are too few, this plan has no verdict before 12"), "{sentence}");
}

#[test]
fn cells_with_few_blocks_do_not_weaken_other_cells() {
    let factors = [texts("store", &["lmdb", "redb"]), numbers("documents", &["1", "2"])];
    let plain = against(&experiment("few", &factors, &[("write", true)], 12), "store", "lmdb");
    let few = edited(&plain, |json| {
        for variant in json["variants"].as_array_mut().unwrap() {
            if variant["levels"][1] == 1 {
                variant["blocks"] = json!({"min": 1, "max": 1});
            }
        }
    });
    let mut data = data(&few, 12, |t| write(t, 1.0 + (t.trial.variant / 2) as f64));
    data.trials.retain(|t| t.trial.block == 0 || t.trial.variant % 2 == 0);
    let verdicts = verdicts::of(&data);
    assert!(verdicts.lines[0].comparison.method.ends_with("over 1 comparison"), "{verdicts:?}");
    let more = Reading::Missing(Why::TooFew { have: 1, need: 3 });
    assert_eq!(verdicts.lines[1].comparison.verdict, Verdict::CantTell { more_blocks: more });
}

#[test]
fn without_a_baseline_it_is_said_why_nothing_is() {
    let plain = experiment("none", &[texts("store", &["a", "b"])], &[("write", true)], 6);
    let verdicts = judged(&plain, 6, |t| write(t, 1.0));
    assert!(verdicts.lines.is_empty() && verdicts.silent.unwrap().starts_with("no baseline is declared"));
    let single = experiment("one", &[texts("store", &["a"])], &[("write", true)], 6);
    assert!(judged(&single, 6, |t| write(t, 1.0)).silent.unwrap().starts_with("there is one variant"));
}

/// A gate passed on the others, and neither it nor the tables said that a variant was in no verdict.
#[test]
fn variants_that_are_compared_with_nothing_are_named_beside_a_gate_and_in_the_report() {
    let bench = Bench::new();
    let run = |design: &str| {
        let body = format!(
            "[factors.command]\na = \"1.00\"\nb = \"1.001\"\n[factors]\nn = [1, 2]\n{design}[compare]\n\
             baseline = {{ command = \"a\" }}\nblocks = 6\n[observe]\ncare = \"light\"\n\
             [program.x]\ncommand = [\"sh\", \"-c\", \"echo time {{command}} {{n}}\"]\n\
             [[phase]]\nname = \"run\"\nread = 'time (?<time>[0-9.]+)'\n"
        );
        bench.write("x.toml", body);
        let gate = ["run", "x.toml", "--fail-if", "run.time slower 5%", "--summary", "s.md"];
        let [gate, all] = [&gate[..], &["show", "--all"]].map(|arguments| {
            let text = String::from_utf8(bench.prony(arguments).stdout).unwrap();
            text.split_whitespace().collect::<Vec<_>>().join(" ")
        });
        (gate, all)
    };
    let (said, all) = run("[design]\nskip = [{ command = \"a\", n = 2 }]\n");
    assert!(
        said.contains(
            "gate `run.time slower 5 %`: passes, shown to be not slower by more than 5 % 1 of 2 variants judged"
        ),
        "{said}"
    );
    let finding = "the verdicts leave out 1 of 2 variants: `b, n=2`: the variant's stratum has no baseline";
    assert!(all.contains(&format!("note: `uncompared`: {finding}")), "{all}");
    assert!(std::fs::read_to_string(bench.path("s.md")).unwrap().contains("1 of 2 variants judged"));
    let page = bench.prony(&["report", "--format", "html", "-o", "p.html"]);
    assert!(page.status.success(), "{}", String::from_utf8_lossy(&page.stderr));
    assert!(std::fs::read_to_string(bench.path("p.html")).unwrap().contains("the verdicts leave out 1 of 2 variants"));
    let (said, all) = run("");
    assert!(said.contains("passes") && !said.contains("judged") && !all.contains("uncompared"), "{said}{all}");
}

#[test]
fn a_baseline_that_does_not_run_is_not_called_undeclared() {
    let only = edited(&two_stores(6), |json| {
        let variants = json["variants"].as_array_mut().unwrap();
        variants.iter_mut().for_each(|variant| variant["baseline"] = json!(false));
    });
    let verdicts = judged(&only, 6, |t| write(t, 1.0));
    assert_eq!(verdicts.silent.as_deref(), Some("the baseline is not among the variants that run"));
}

#[test]
fn comparisons_without_any_checked_answer_say_so() {
    use prony_analysis::guard::findings::of_run;
    let experiment = two_stores(6);
    let found = |fill: &dyn Fn(&mut TrialRecord)| {
        let data = data(&experiment, 6, |t| {
            write(t, 1.0);
            fill(t);
        });
        let findings = of_run(&experiment, &data.trials, None, true);
        findings.into_iter().find(|f| f.guard == "answers_unchecked").map(|f| (f.severity, f.message))
    };
    let answer = |comparable| Some(Answer { rows: Some(3), digest: "lines:a".to_owned(), comparable });
    let none = found(&|_| ()).unwrap();
    assert_eq!(
        none,
        (Severity::Note, "18 of 18 successful trials did not verify any of the data they read".to_owned())
    );
    assert!(found(&|t| t.phases[0].answer = answer(false)).is_some(), "bounded by time: nothing to agree on");
    assert_eq!(found(&|t| t.phases[0].answer = answer(true)), None);
    let some = found(&|t| t.phases[0].answer = answer(true).filter(|_| t.trial.variant == 0)).unwrap();
    assert!(some.1.starts_with("6 of 18"), "{some:?}");
    assert_eq!(found(&|t| t.ending.outcome = Outcome::TimedOut), None);
}

/// Beside a trial other machines took much of the processors' time, or nothing of it.
pub(crate) fn stolen(much: bool) -> Conditions {
    let steal = Reading::Measured(if much { 0.3 } else { 0.0 });
    let machine = Machine { change: Change { steal, ..Change::default() }, ..Machine::default() };
    Conditions { machine: Reading::Measured(machine), ..Conditions::default() }
}

#[test]
fn a_verdict_is_shown_with_its_value_without_disturbed_trials() {
    let experiment = two_stores(12);
    // In three blocks the machine was slow, and the variant more so.
    let storm = |t: &TrialRecord| t.trial.block % 4 == 1;
    let mut data = data(&experiment, 12, |t| {
        let slow = if storm(t) && t.trial.variant == 1 { 4.0 } else { 1.0 };
        write(t, if t.trial.variant == 1 { 2.0 * slow } else { 1.0 });
        t.conditions = stolen(storm(t));
    });
    let line = only(&verdicts::of(&data)).clone();
    let left = line.undisturbed.as_ref().unwrap();
    assert_eq!((left.blocks, left.of, line.comparison.blocks), (9, 12, 12), "the verdict uses all");
    let estimate = *left.estimate.measured().unwrap();
    assert!((estimate.ratio - 2.0).abs() < 0.02 && estimate.interval.high.unwrap() < 2.1, "{estimate:?}");
    let detail = line.detail.to_string();
    assert!(detail.contains("3 of 12 blocks have a disturbed trial ("), "{detail}");
    assert!(
        detail.contains("; without them: 2.0")
            && detail.contains(" times as long (95 %")
            && detail.contains(" (a check and no verdict: "),
        "{detail}"
    );
    // The reason of a refusal stood twice, and behind it the ratio that was refused.
    let mut refused = data.clone();
    refused.trials[0].findings = vec![Finding::of("mixed", Severity::Refusal, "they do other work".to_owned(), "")];
    let line = only(&verdicts::of(&refused)).clone();
    let detail = line.detail.to_string();
    assert!(line.undisturbed.is_none() && line.sentence.ends_with(": they do other work"), "{line:?}");
    assert!(!detail.contains("other work") && !detail.contains("2.0") && detail.contains("A/A check"), "{detail}");
    data.trials.iter_mut().for_each(|t| t.conditions = Conditions::default());
    assert_eq!(only(&verdicts::of(&data)).undisturbed, None);
}

#[test]
fn without_disturbed_trials_those_that_did_not_finish_still_count() {
    let failed = |t: &mut TrialRecord| {
        t.ending.outcome = Outcome::OutOfMemory { by: OutOfMemory::Limit };
        t.phases = vec![not_reached("write")];
    };
    // The variant is as fast where it succeeds; it fails in so many of twelve blocks, and a disturbance ended one
    // trial.
    let run = |failures: u32, host: bool| {
        data(&two_stores(12), 12, |t| {
            write(t, 1.0);
            t.conditions = stolen(t.trial.block == 1);
            if t.trial.variant == 1 && t.trial.block >= 12 - failures {
                failed(t);
            }
            if host && t.trial.variant == 1 && t.trial.block == 2 {
                failed(t);
                t.ending.outcome = Outcome::OutOfMemory { by: OutOfMemory::Host };
            }
        })
    };
    let left = |data: &RunData| only(&verdicts::of(data)).undisturbed.clone().unwrap();
    let some = left(&run(4, true));
    assert_eq!((some.blocks, some.of), (10, 11), "what the host killed says nothing, disturbed or not");
    let interval = some.estimate.measured().unwrap().interval;
    assert_eq!(interval.high, None, "4 of 10 are worse than any number: {interval:?}");
    let half = run(8, false);
    assert_eq!(left(&half).estimate, Reading::Missing(Why::NotReached));
    let detail = only(&verdicts::of(&half)).detail.to_string();
    assert!(detail.contains("; 1 of 12 blocks has a disturbed trial ("), "{detail}");
    let note = "; no ratio without them: in at least half of the other 11, a trial did not finish";
    assert!(detail.contains(note), "{detail}");
}

#[test]
fn the_figure_without_disturbed_trials_counts_what_did_not_finish() {
    let experiment = two_stores(12);
    let storm = |block: u32| block % 4 == 1;
    // Of the nine quiet blocks the variant runs out of its memory in four, and the host of its in one.
    let data = data(&experiment, 12, |t| {
        write(t, if t.trial.variant == 1 { 2.0 } else { 1.0 });
        t.conditions = stolen(storm(t.trial.block));
        let by = match t.trial.block {
            0 | 2 | 3 | 4 => OutOfMemory::Limit,
            6 => OutOfMemory::Host,
            _ => return,
        };
        if t.trial.variant == 1 {
            t.ending.outcome = Outcome::OutOfMemory { by };
            t.phases[0].completion = Completion::Partial;
        }
    });
    let line = only(&verdicts::of(&data)).clone();
    let left = line.undisturbed.as_ref().unwrap();
    assert_eq!((left.blocks, left.of), (8, 11), "the host's lack of memory gives no ratio");
    let Reading::Missing(why) = &left.estimate else { panic!("half of them have no finite ratio: {left:?}") };
    assert_eq!(*why, Why::NotReached);
}

#[test]
fn metric_that_is_none_is_refused_as_other_mistakes_are() {
    for (name, said) in [
        ("nosuch", "`nosuch` names no phase\nhint: write `phase.metric`, for example `run.time` of a command\n"),
        ("run.tme", "`tme` is not a metric\nhint: did you mean `run.time`?\n"),
    ] {
        let output = Bench::new().prony(&["compare", "--metric", name]);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), text), (Some(2), format!("error: `--metric <PHASE.METRIC>`: {said}").into()));
    }
}

/// A brief report said neither what its run could have found.
#[test]
fn undecided_verdict_shows_the_minimum_detectable_effect_in_a_brief_report() {
    use prony_report::{Options, build};
    let data = data(&two_stores(12), 12, |t| {
        let faster = t.trial.variant == 1 && t.trial.block % 2 == 0;
        write(t, if faster { 0.7 } else { 1.2 });
    });
    let brief = Options { brief: true, ..Options::default() };
    let lines = build(&data, &brief).verdicts.lines;
    let [line] = &lines[..] else { panic!("{lines:?}") };
    assert!(matches!(line.comparison.verdict, Verdict::CantTell { .. }), "{}", line.sentence);
    assert!(line.detail.to_string().contains("minimum detectable effect: "), "{}", line.detail);
}
