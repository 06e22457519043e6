//! Tests of guards on variants whose trials did not run alike.

use std::sync::Arc;

use prony_model::record::{Effective, EffectiveProgram};

use super::super::unlike;
use super::*;

fn ran(program: EffectiveProgram) -> TrialRecord {
    TrialRecord { effective: Some(Effective::Program(Arc::new(program))), ..timed(1e9) }
}

fn timed(time: f64) -> TrialRecord {
    record(vec![phase("w", &[(Metric::Time, time)])])
}

fn why(spec: &TrialSpec, x: &[TrialRecord], y: &[TrialRecord]) -> Option<String> {
    let of = |name: &str| VariantTrials { name: name.to_owned(), spec, trials: Vec::new() };
    let x = VariantTrials { trials: x.iter().collect(), ..of("x") };
    let y = VariantTrials { trials: y.iter().collect(), ..of("y") };
    unlike::in_all(&x, &y).or_else(|| unlike::in_metric(&x, &y, &"w.time".parse().unwrap()))
}

/// A program's mark came three times, and was faster by its first time alone.
#[test]
fn phases_that_come_more_often_in_one_variant_are_not_compared() {
    let times = |times| ran(EffectiveProgram { repeated: [("w".to_owned(), times)].into(), ..Default::default() });
    let once = ran(EffectiveProgram::default());
    let expected =
        "`w` is measured the first time it comes, which is one of 1 in a trial of `x` and one of 3 in one of `y`";
    assert_eq!(why(&spec("lmdb"), &[once], &[times(2)]).as_deref(), Some(expected));
    assert_eq!(why(&spec("lmdb"), &[times(2)], &[times(2)]), None);
}

/// A program that went on in the background was 54 times faster.
#[test]
fn programs_that_leave_processes_behind_are_not_compared() {
    let left = |left_behind| ran(EffectiveProgram { left_behind, ..Default::default() });
    let found = why(&spec("lmdb"), &[left(0)], &[left(1)]).unwrap();
    assert!(found.contains("none of the trials") || found.contains("0.0 % of the trials of `x`"), "{found}");
    assert_eq!(why(&spec("lmdb"), &[left(2)], &[left(1)]), None);
    assert_eq!(why(&spec("lmdb"), &[left(0), left(0)], &[left(0), left(1)]), None, "now and then");
}

#[test]
fn trials_of_another_program_are_not_compared() {
    let file = |state: &str| {
        ran(EffectiveProgram { files: [("./a".to_owned(), state.to_owned())].into(), ..Default::default() })
    };
    let found = why(&spec("lmdb"), &[file("1"), file("1")], &[file("2"), file("3")]).unwrap();
    assert_eq!(found, "`./a` was not the same in all trials of `y`: start a new run");
    assert_eq!(why(&spec("lmdb"), &[file("1"), file("1")], &[file("2"), file("2")]), None, "variants may differ");
}

/// Two equal programs that count their own runs in a file were 74 % apart.
#[test]
fn programs_that_age_in_a_shared_directory_are_not_compared() {
    let aging = |change: f64| -> Vec<TrialRecord> {
        let one = |n: u32| {
            let label = if n.is_multiple_of(2) { Label::A } else { Label::A2 };
            let trial = PlannedTrial { position: n, label, ..timed(1.0).trial };
            TrialRecord { trial, ..timed(1e9 * (1.0 + change * f64::from(n) / 11.0)) }
        };
        (0..12).map(one).collect()
    };
    let shared = super::super::program::tests::spec(None, None);
    let y = [timed(1e9)];
    let found = why(&shared, &aging(1.0), &y).unwrap();
    assert!(found.starts_with("`w.time` of `x` rose by ") && found.contains("`prepare`"), "{found}");
    assert_eq!(why(&shared, &aging(0.2), &y), None, "as machines do");
    assert_eq!(why(&spec("lmdb"), &aging(1.0), &y), None, "each trial has a store of its own");
}

#[test]
fn an_answer_that_only_one_variant_gives_refuses_the_comparison() {
    let of = |action: &str, answer: Option<Answer>| {
        record(vec![PhaseRecord { action: action.to_owned(), answer, ..answered("lines:aa", 10).phases[0].clone() }])
    };
    let given = answered("lines:aa", 10).phases[0].answer.clone();
    let found = answers(&of("observe", given.clone()), &of("observe", None));
    assert_eq!(found[0].severity, Severity::Refusal);
    assert_eq!(found[0].message, "`redb` gave no answer, and `lmdb` did");
    assert_eq!(answers(&of("observe", None), &of("observe", None)), []);
    assert_eq!(answers(&of("put", given), &of("put", None)), [], "of a store nothing was asked for");
}
