//! Tests what gates answer, where trials failed and where none did, and what is said of that.

use prony_analysis::conclude::Reached;
use prony_analysis::guard::{Finding, Severity};
use prony_analysis::verdicts;
use prony_analysis::verdicts::gate::{Answer, Gate, Verdicted};
use prony_model::outcome::Outcome;
use prony_model::reading::{Reading, Why};
use prony_model::record::TrialRecord;
use prony_results::RunData;
use serde_json::json;

use crate::bench::Bench;
use crate::compared::{edited, trials};
use crate::failures::{FAILURES, data as data_of, ended, run_of, two};
use crate::synthetic::{key, noise, phase};
use crate::verdicts::{data, two_stores, write};

#[test]
fn gate_fails_where_the_variant_failed_and_cannot_judge_where_only_something_else_did() {
    let gate: Gate = "run.time slower 5%".parse().unwrap();
    let says = |variant: usize, outcome: Outcome, failing: u32| {
        let fails = |t: &TrialRecord| t.trial.variant == variant && t.trial.block < failing;
        let of = data_of(&run_of(12, |t| fails(t).then_some((outcome, Reached::SubjectEnd))));
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

/// Two variants with the same server failed the gate, since the load generator reached the rate of neither.
#[test]
fn gate_cannot_judge_a_rate_that_the_generator_may_not_have_reached() {
    let gate: Gate = "run.time slower 5%".parse().unwrap();
    let experiment = two(12);
    // Of the variant so many trials are saturated, and its times so many times as long.
    let says = |variant: usize, failing: u32, found: Option<(&str, &str)>, times: f64| {
        let records = trials(&experiment, 12, |t| {
            let time = if t.trial.variant == 1 { times } else { 1.0 };
            let fails = t.trial.variant == variant && t.trial.block < failing;
            let outcome = if fails { Outcome::Saturated } else { Outcome::Ok };
            ended(t, &experiment, outcome, Reached::OwnEnd, time);
            let found = found.filter(|_| fails);
            t.findings
                .extend(found.map(|(guard, of)| Finding::of(guard, Severity::Warning, String::new(), "").in_phase(of)));
        });
        let of = data_of(&(experiment.clone(), records));
        Verdicted::of(&gate, &verdicts::of(&of).lines, &of.trials)
    };
    for guard in ["generator_busy", "generator_stalled"] {
        for (variant, failing, times) in [(1, 1, 1.0), (1, 12, 1.0), (0, 12, 1.0), (1, 12, 3.0), (0, 12, 3.0)] {
            let said = says(variant, failing, Some((guard, "run")), times);
            assert_eq!(said.answer(), Answer::CannotJudge, "{said}");
            assert!(
                said.to_string().contains("saturated, where the load generator may have been the limit; "),
                "{said}"
            );
        }
        assert_eq!(says(1, 1, Some((guard, "other")), 1.0).answer(), Answer::Fails);
    }
    assert_eq!(says(1, 1, None, 1.0).answer(), Answer::Fails);
    assert_eq!(says(0, 1, None, 3.0).answer(), Answer::Fails, "the values show it");
}

/// A program that ended with exit code 0 before the end of the phase in 5 of 30 trials passed.
#[test]
fn gate_cannot_judge_where_a_trial_ended_well_without_the_phase() {
    let gate: Gate = "run.time slower 5%".parse().unwrap();
    let says = |variant: usize, leaving: u32| {
        let leaves = |t: &TrialRecord| t.trial.variant == variant && t.trial.block < leaving;
        let of = data_of(&run_of(30, |t| leaves(t).then_some((Outcome::Ok, Reached::Begin))));
        Verdicted::of(&gate, &verdicts::of(&of).lines, &of.trials)
    };
    assert_eq!(says(1, 0).answer(), Answer::Passes);
    for variant in [0, 1] {
        let outcome = says(variant, 5);
        assert_eq!(outcome.answer(), Answer::CannotJudge, "{outcome}");
        assert!(outcome.to_string().contains("without a value that counts (not reached)"), "{outcome}");
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
    let of = data_of(&(experiment, records));
    let outcome = Verdicted::of(&gate, &verdicts::of(&of).lines, &of.trials);
    assert_eq!(outcome.answer(), Answer::Fails, "{outcome}");
}

/// The ratio to nothing is infinite and stands in no interval: a gate on `fsyncs` passed where they went from 0 to 301.
#[test]
fn gate_fails_where_the_variant_uses_what_the_baseline_does_not() {
    let experiment = edited(&two(12), |json| json["compare"]["primary"] = json!("run.fsyncs"));
    let in_each = |variant: f64, baseline: f64, every: u32| {
        let records = trials(&experiment, 12, |t| {
            ended(t, &experiment, Outcome::Ok, Reached::SubjectEnd, 1.0);
            let differs = t.trial.variant == 1 && t.trial.block % every == 0;
            let fsyncs = if differs { variant } else { baseline };
            let readings = t.phases[0].readings.entry(String::new()).or_default();
            readings.insert(key("fsyncs"), Reading::Measured(fsyncs));
        });
        let all = data_of(&(experiment.clone(), records));
        let gate: Gate = "run.fsyncs more 5%".parse().unwrap();
        Verdicted::of_run(&gate, &verdicts::of(&all).lines, &all)
    };
    let of = |variant, baseline| in_each(variant, baseline, 1);
    let fails = of(301.0, 0.0);
    assert_eq!(fails.answer(), Answer::Fails, "{fails}");
    let passes = of(0.0, 301.0);
    assert_eq!(passes.answer(), Answer::Passes, "{passes}");
    // In a third of the trials, which the median does not show; "a new run of about 31 blocks could decide this gate".
    for baseline in [0.0, 100.0] {
        let unsure = in_each(301.0, baseline, 3);
        assert_eq!(unsure.answer(), Answer::Unsure, "{unsure}");
        assert!(!unsure.to_string().contains("could decide"), "{unsure}");
    }
}

/// A variant of which every tenth trial had a latency that is infinite passed, though one of which a trial failed does not.
#[test]
fn infinite_values_count_as_trials_that_failed() {
    let experiment = edited(&two(30), |json| json["compare"]["primary"] = json!("run.latency.p99"));
    let gate: Gate = "run.latency.p99 slower 5%".parse().unwrap();
    let says = |variants: &[usize], infinite: u32| {
        let records = trials(&experiment, 30, |t| {
            ended(t, &experiment, Outcome::Ok, Reached::OwnEnd, 1.0);
            let is_infinite = variants.contains(&t.trial.variant) && t.trial.block < infinite;
            let value = 1e6 * (1.0 + 0.001 * noise(u64::from(t.trial.position)));
            let many = Reading::Missing(Why::Infinite { failed: 20, of: 1000 });
            let readings = t.phases[0].readings.entry(String::new()).or_default();
            readings.insert(key("latency.p99"), if is_infinite { many } else { Reading::Measured(value) });
        });
        let of = data_of(&(experiment.clone(), records));
        Verdicted::of(&gate, &verdicts::of(&of).lines, &of.trials)
    };
    assert_eq!(says(&[1], 0).answer(), Answer::Passes);
    let [fails, unknown, both] = [says(&[1], 3), says(&[0], 3), says(&[0, 1], 3)];
    assert_eq!((fails.answer(), unknown.answer()), (Answer::Fails, Answer::CannotJudge), "{fails}, {unknown}");
    assert_eq!(both.answer(), Answer::CannotJudge, "{both}");
    assert!(fails.to_string().contains(" has an infinite value in 3 of 30 trials, as if they had failed"), "{fails}");
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
        let all = data_of(&(experiment.clone(), records));
        let gate: Gate = condition.parse().unwrap();
        Verdicted::of(&gate, &verdicts::of(&all).lines, &all.trials).answer()
    };
    let (fewer, more) = ("run.operations fewer 5%", "run.operations more 5%");
    assert_eq!([of(fewer, 50.0, 500.0), of(fewer, 500.0, 50.0)], [Answer::Fails, Answer::Passes]);
    assert_eq!([of(more, 50.0, 500.0), of(more, 500.0, 50.0)], [Answer::Passes, Answer::Fails]);
    assert_eq!([of(fewer, 0.0, 500.0), of(fewer, 500.0, 0.0)], [Answer::Fails, Answer::Passes]);
    // The share is one of the baseline's value: 38 % fewer are not more than 50 %.
    let shares = ["run.operations fewer 50%", "run.operations fewer 35%"].map(|condition| of(condition, 310.0, 500.0));
    assert_eq!(shares, [Answer::Passes, Answer::Fails]);
}

/// A gate once passed or failed by the interval of two blocks, beside a sentence that said can't tell.
#[test]
fn gate_is_undecided_where_too_few_blocks_are_paired_and_cannot_judge_where_none_is() {
    let gate: Gate = "run.time slower 5%".parse().unwrap();
    for (blocks, undecided) in [(2, Answer::Unsure), (5, Answer::Unsure), (6, Answer::Passes)] {
        let (experiment, records) = run_of(blocks, |_| None);
        let mut of = data_of(&(experiment, records));
        let answer = |of: &RunData| Verdicted::of(&gate, &verdicts::of(of).lines, &of.trials).answer();
        assert_eq!(answer(&of), undecided, "{blocks} blocks");
        for trial in of.trials.iter_mut().filter(|t| t.trial.variant == 1) {
            let readings = trial.phases[0].readings.get_mut("").unwrap();
            readings.insert(key("time"), Reading::Missing(Why::NotReached));
        }
        assert_eq!(answer(&of), Answer::CannotJudge, "{blocks} blocks, of which none has a figure");
    }
}

#[test]
fn gate_without_a_comparison_cannot_judge() {
    let gate: Gate = "run.time slower 5%".parse().unwrap();
    assert_eq!(Verdicted::of(&gate, &[], &[]).answer(), Answer::CannotJudge);
}

#[test]
fn gate_says_by_which_rule_it_fails() {
    let said = |time: f64, failed: bool| {
        let data = data(&two_stores(12), 12, |t| {
            write(t, if t.trial.variant == 1 { time } else { 1.0 });
            if failed && t.trial.variant == 1 && t.trial.block == 3 {
                t.ending.outcome = Outcome::Crashed { signal: 11 };
            }
        });
        let gate = "write.time slower 5%".parse().unwrap();
        Verdicted::of(&gate, &verdicts::of(&data).lines, &data.trials).to_string()
    };
    let slower = "fails\n  the condition holds, the whole interval is slower by more than 5 %: `store=redb` takes 2.00 times as long";
    assert!(said(2.0, false).contains(slower), "{}", said(2.0, false));
    let failed = "fails\n  `store=redb` failed in 1 of 12 trials: 1 crashed (signal 11), and a variant of which a trial failed does \
                  not pass; ";
    assert!(said(1.0, true).contains(failed), "{}", said(1.0, true));
    assert!(said(1.0, false).ends_with(": passes, shown to be not slower by more than 5 %"), "{}", said(1.0, false));
}

/// A gate of 0.1 % beside values that vary by 1 % was undecided in every run, and nothing said why.
#[test]
fn gate_that_is_finer_than_the_minimum_detectable_effect_warns_with_both() {
    let data = data(&two_stores(12), 12, |t| write(t, 1.0));
    let said = |condition: &str| {
        Verdicted::of(&condition.parse().unwrap(), &verdicts::of(&data).lines, &data.trials).to_string()
    };
    let fine = said("write.time slower 0.1%");
    let warning = "\n  warning: the gate allows 0.1 %, and this run could detect differences from ";
    assert!(fine.contains(": can't tell\n") && fine.contains(warning), "{fine}");
    assert!(fine.contains("\n  hint: let the gate allow more: ") && !fine.contains("--blocks"), "no forecast: {fine}");
    let wide = said("write.time slower 5%");
    assert!(wide.contains(": passes") && !wide.contains("warning"), "{wide}");
}

/// An undecided gate on elapsed time advised to allow more, while the run decided the same condition on CPU time.
#[test]
fn undecided_gate_on_time_names_the_condition_on_cpu_time_that_is_decided() {
    let two = edited(&two_stores(12), |json| json["compare"]["metrics"] = json!(["write.cpu"]));
    let said = |cpu: f64| {
        let data = data(&two, 12, |t| {
            let of_variant = t.trial.variant == 1;
            let wall = if !of_variant { 1.0e9 } else { [0.8e9, 1.3e9][t.trial.block as usize % 2] };
            let noise = 1.0 + 0.001 * noise(u64::from(t.trial.position));
            t.phases =
                vec![phase("write", &[("time", wall * noise), ("cpu", noise * if of_variant { cpu } else { 1e8 })])];
        });
        let gate = "write.time slower 5%".parse().unwrap();
        Verdicted::of(&gate, &verdicts::of(&data).lines, &data.trials).to_string()
    };
    let fails = said(1.1e8);
    let hint = "\n  hint: for later runs, think of `write.cpu more CPU time 5 %`, which fails in this one (";
    assert!(fails.contains(": can't tell\n") && fails.contains(hint), "{fails}");
    assert!(fails.contains("`store=redb` takes 10 % more CPU time") && fails.contains(" interval: "), "{fails}");
    assert!(said(1e8).contains("`write.cpu more CPU time 5 %`, which passes in this one ("), "{}", said(1e8));
    assert!(!said(1.05e8).contains("hint: for later runs"), "{}", said(1.05e8));
}

#[test]
fn exit_code_that_follows_from_gates_is_said_with_its_reason() {
    let bench = Bench::new();
    let run = |baseline: f64| {
        bench.write(
            "x.toml",
            format!(
                "[factors]\ns = [0.001, 0.1]\n[compare]\nbaseline = {{ s = {baseline} }}\nblocks = 6\n\
                 [observe]\ncare = \"light\"\n[program.x]\ncommand = [\"sleep\", \"{{s}}\"]\n"
            ),
        );
        let output = bench.judged(&["run", "x.toml", "-q", "--fail-if", "run.time slower 1%"]);
        let text = String::from_utf8(output.stdout).unwrap();
        (output.status.code(), text.lines().last().unwrap_or_default().to_owned())
    };
    assert_eq!(run(0.001), (Some(1), "exit code 1: a gate fails".to_owned()));
    assert_eq!(run(0.1), (Some(0), "exit code 0: every gate passes".to_owned()));
    // With events on standard output, nothing said why the code was 1.
    let output = bench.prony(&["run", "x.toml", "-q", "--json", "--fail-if", "run.time slower 1%"]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("gate `run.time slower 1 %`: ") && text.contains("\nexit code "), "{text}");
    assert!(!String::from_utf8(output.stdout).unwrap().contains("exit code"));
    // The last line of output named 0, and the code was 2.
    let gate = ["--summary", "/dev/full", "--fail-if", "run.time slower 900%"];
    let commands = [("run", &["x.toml", "-q"][..]), ("exec", &["-q", "-r", "6", "sleep 0.01", "sleep 0.01"])];
    for (command, arguments) in commands {
        let output = bench.prony(&[&[command][..], &gate, arguments].concat());
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!((output.status.code(), text.contains("exit code")), (Some(2), false), "{text}");
    }
}
