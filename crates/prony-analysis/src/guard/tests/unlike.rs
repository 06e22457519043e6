//! Tests of guards on variants whose trials did not run alike.

use std::sync::Arc;

use prony_model::outcome::OutOfMemory;
use prony_model::random::Stream;
use prony_model::record::effective::{EffectiveServices, Replica, ReplicaEnd, Replicas};
use prony_model::record::{Effective, EffectiveProgram, MetricKeyText, ProbeReport, Status};

use super::super::{run_order, unlike};
use super::*;

fn ran(program: EffectiveProgram) -> TrialRecord {
    TrialRecord { effective: Some(Effective::Program(Arc::new(program))), ..timed(1e9) }
}

fn timed(time: f64) -> TrialRecord {
    record(vec![phase("w", &[(Metric::Time, time)])])
}

fn why(spec: &TrialSpec, x: &[TrialRecord], y: &[TrialRecord]) -> Option<String> {
    why_of(spec, x, y, "w.time")
}

fn why_of(spec: &TrialSpec, x: &[TrialRecord], y: &[TrialRecord], metric: &str) -> Option<String> {
    let of = |name: &str| VariantTrials { name: name.to_owned(), spec, trials: Vec::new() };
    let x = VariantTrials { trials: x.iter().collect(), ..of("x") };
    let y = VariantTrials { trials: y.iter().collect(), ..of("y") };
    let metric = metric.parse().unwrap();
    let of_metric = || unlike::in_metric([&x, &y], &metric).or_else(|| run_order::matters([&x, &y], &metric));
    unlike::in_all([&x, &y]).or_else(of_metric)
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

/// Workers of one variant ended at their heap limit, and it took 40 % less time.
#[test]
fn programs_that_go_on_without_aborted_processes_are_not_compared() {
    let aborted = |how_many: usize| {
        let probe = ProbeReport { heap_aborts: vec![heap_abort(); how_many], ..Default::default() };
        let mut trial = ran(EffectiveProgram::default());
        trial.conditions.probe = Some(probe);
        trial
    };
    let found = why(&spec("lmdb"), &[aborted(0)], &[aborted(2)]).unwrap();
    assert!(found.contains("ended at their heap limit in") && found.contains("100 % of those of `y`"), "{found}");
    assert_eq!(why(&spec("lmdb"), &[aborted(1)], &[aborted(2)]), None);
    let mut ended = aborted(1);
    ended.ending.outcome = Outcome::OutOfMemory { by: OutOfMemory::Runtime };
    assert_eq!(why(&spec("lmdb"), &[aborted(0)], &[ended]), None, "out of memory is a verdict of its own");
}

/// Phases that begin and end at these times, and what a trial with them ran.
fn lasting(phases: &[(&str, u64, u64)], effective: Effective) -> TrialRecord {
    let of = |(name, begin, end): &(&str, u64, u64)| PhaseRecord {
        begin: Some(Nanos::from_secs(*begin)),
        end: Some(Nanos::from_secs(*end)),
        ..phase(name, &[])
    };
    TrialRecord { effective: Some(effective), ..record(phases.iter().map(of).collect()) }
}

/// A command that went on in the background was 72 times faster.
#[test]
fn phases_from_a_command_on_that_leaves_processes_behind_are_not_compared() {
    let left = |processes: u64| {
        let left_behind = (processes > 0).then(|| ("w".to_owned(), processes)).into_iter().collect();
        let effective = Effective::Services(Arc::new(EffectiveServices { services: vec![], left_behind }));
        lasting(&[("before", 0, 1), ("w", 1, 2), ("after", 2, 3)], effective)
    };
    let found = why(&spec("lmdb"), &[left(0)], &[left(3)]).unwrap();
    let expected =
        "commands left processes behind in `w` (0 in a trial of `x`, 1 in one of `y`): the work of these was not over";
    assert_eq!(found, expected);
    let of = |metric: &str| why_of(&spec("lmdb"), &[left(0)], &[left(3)], metric);
    assert_eq!(of("after.time").as_deref(), Some(expected), "it finds other work done");
    assert_eq!(of("before.time"), None);
    assert_eq!(why(&spec("lmdb"), &[left(3)], &[left(1)]), None, "both did, of which a finding warns");
    assert_eq!(why(&spec("lmdb"), &[left(0), left(0)], &[left(0), left(1)]), None, "now and then");
}

/// Replicas that were killed at the end of the program were 49 times faster.
#[test]
fn replicas_whose_work_was_not_over_are_not_compared() {
    let with = |cut: usize, left: usize| {
        let copy = |n: usize| Replica {
            instance: format!("replica.{}", n + 1),
            end: if n < cut { ReplicaEnd::CutOff } else { ReplicaEnd::Ended },
            left_behind: Some(u64::from(n < left)),
            resolution: [(MetricKeyText("time".parse().unwrap()), 0.5)].into(),
            ..Replica::default()
        };
        let replicas = Replicas { phase: "w".to_owned(), copies: (0..3).map(copy).collect(), ..Replicas::default() };
        let program = EffectiveProgram { replicas: Some(replicas), ..EffectiveProgram::default() };
        lasting(&[("before", 0, 1), ("w", 1, 2)], Effective::Program(Arc::new(program)))
    };
    let found = |x: (usize, usize), y: (usize, usize), metric: &str| {
        why_of(&spec("lmdb"), &[with(x.0, x.1)], &[with(y.0, y.1)], metric)
    };
    let cut = found((0, 0), (1, 0), "w.time").unwrap();
    assert!(cut.contains("prony killed them in `w` (0 in a trial of `x`, 1 in one of `y`)"), "{cut}");
    assert!(found((1, 0), (2, 0), "w.cpu").unwrap().contains("(1 in a trial of `x`, 2 in one of `y`)"));
    let left = found((0, 2), (0, 0), "w.rss.max").unwrap();
    assert!(left.starts_with("replicas left processes behind in `w` (2 in a trial of `x`, 0 in one"), "{left}");
    assert_eq!(found((0, 0), (1, 0), "before.time"), None, "it ended before they began");
    assert_eq!(found((1, 1), (1, 1), "w.time"), None, "the program's own");
    for instance in ["replicas", "replica.1", "replica.1.worker"] {
        let both = found((1, 0), (1, 0), &format!("w.{instance}.cpu")).unwrap();
        assert!(both.starts_with("replicas of `x` were still running when the program had ended"), "{both}");
    }
    assert_eq!(found((1, 0), (1, 0), "w.replica.2.cpu"), None, "this one ended by itself");
    assert_eq!(found((1, 0), (1, 0), "w.replica.1.time"), None, "it reported this itself");
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
    assert!(why(&shared, &aging(1.0), &aging(0.3)).unwrap().starts_with("`w.time` of `x` rose by "));
    assert_eq!(why(&shared, &aging(1.0), &aging(1.0)), None, "the machine became slower");
    // Each run takes as much more as the first took, so that both change alike, and the variant ran half as often.
    let of_runs = |runs: u32, step: u32| -> Vec<TrialRecord> {
        let one = |own: u32| {
            let trial = PlannedTrial { position: own * step, ..timed(1.0).trial };
            TrialRecord { trial, ..timed(1e9 * f64::from(1 + own)) }
        };
        (0..runs).map(one).collect()
    };
    let mut twice = of_runs(12, 1);
    twice.iter_mut().skip(1).step_by(2).for_each(|trial| trial.trial.label = Label::A2);
    assert!(why(&shared, &twice, &of_runs(6, 2)).unwrap().starts_with("`w.time` of `x` rose by "));
    assert_eq!(why(&shared, &aging(1.0), &[timed(1e10)]), None, "ten times as much is no age");
}

#[test]
fn an_answer_that_only_one_variant_gives_refuses_the_comparison() {
    let of = |action: &str, answer: Option<Answer>| {
        record(vec![PhaseRecord { action: action.to_owned(), answer, ..answered("lines:aa", 10).phases[0].clone() }])
    };
    let given = answered("lines:aa", 10).phases[0].answer.clone();
    let found = answers(&of("observe", given.clone()), &of("observe", None));
    assert_eq!(found[0].severity, Severity::Refusal);
    assert_eq!(found[0].message, "`redb` reported no answer (`rows` or `digest`), but `lmdb` did");
    assert!(found[0].hint.starts_with("make `redb` print `rows` or `digest`"), "{}", found[0].hint);
    // Without an answer of the baseline the hint was to add a `verify` phase, which works on a store only.
    let of_variant = answers(&of("observe", None), &of("observe", given.clone()));
    assert_eq!(of_variant[0].message, "`lmdb` reported no answer (`rows` or `digest`), but `redb` did");
    assert!(of_variant[0].hint.starts_with("make `lmdb` print `rows` or `digest`"), "{}", of_variant[0].hint);
    assert_eq!(answers(&of("observe", None), &of("observe", None)), []);
    assert_eq!(answers(&of("put", given), &of("put", None)), [], "of a store nothing was asked for");
}

/// Trials in the order of this plan of a baseline `b` and a variant `v`, in blocks of three, with the value of each. The second `b` of a
/// block has the second label.
fn in_order(plan: &str, value: impl Fn(usize, char) -> f64) -> [Vec<TrialRecord>; 2] {
    let plan: Vec<char> = plan.chars().collect();
    let of = |which: char| {
        let own = plan.iter().enumerate().filter(|(_, one)| **one == which);
        let trial = |(at, one): (usize, &char)| {
            let again = *one == 'b' && plan[at / 3 * 3..at].contains(&'b');
            let label = if again { Label::A2 } else { Label::A };
            let planned = PlannedTrial { position: at as u32, block: at as u32 / 3, label, ..timed(1.0).trial };
            TrialRecord { trial: planned, ..timed(value(at, *one)) }
        };
        own.map(trial).collect::<Vec<TrialRecord>>()
    };
    [of('b'), of('v')]
}

/// Orders of blocks as random ones are.
const PLAN: &str = "bvbbbvvbbbvbbbvvbbbbvbvbvbbbbvvbbbvb";

/// The baseline ran twice as long after the variant, which had written what it had to wait for; the variant was called faster.
#[test]
fn values_that_depend_on_what_ran_before_are_not_compared() {
    let order: Vec<char> = PLAN.chars().collect();
    let noise = |at: usize| 1.0 + 0.004 * ((at * 7) % 11) as f64;
    let carried = |at: usize, _| noise(at) * if at > 0 && order[at - 1] == 'v' { 2.0 } else { 1.0 };
    let [ours, theirs] = in_order(PLAN, carried);
    let found = why(&spec("lmdb"), &ours, &theirs).unwrap();
    let expected = "`w.time` of `x` is 2 ns in 9 trials after one of `y`, and 1 ns in 14 after one of its own (p = ";
    assert!(found.starts_with(expected) && found.contains("`settle` phase"), "{found}");
    let [ours, theirs] = in_order(PLAN, |at, one| noise(at) * if one == 'v' { 1.3 } else { 1.0 });
    assert_eq!(why(&spec("lmdb"), &ours, &theirs), None, "another program, and nothing else");
    let small = |at: usize, one| {
        noise(at) * (if at > 0 && order[at - 1] == 'v' { 1.1 } else { 1.0 }) * if one == 'v' { 3.0 } else { 1.0 }
    };
    let [ours, theirs] = in_order(PLAN, small);
    assert_eq!(why(&spec("lmdb"), &ours, &theirs), None, "it explains little of the difference");
    let few = &PLAN[..18];
    let [ours, theirs] = in_order(few, carried);
    assert!(why(&spec("lmdb"), &ours, &theirs).is_some(), "6 blocks, the fewest of a verdict, are enough");
    let [ours, theirs] = in_order(few, |at, one| noise(at) * if one == 'v' { 1.3 } else { 1.0 });
    assert_eq!(why(&spec("lmdb"), &ours, &theirs), None);
    let nothing = |at: usize, one| if one == 'v' || order[at.max(1) - 1] == 'v' { 0.0 } else { noise(at) };
    let [ours, theirs] = in_order(PLAN, nothing);
    assert!(why(&spec("lmdb"), &ours, &theirs).is_some(), "nothing is less than anything");
    let [mut ours, mut theirs] = in_order(PLAN, carried);
    let sessions = ours.iter_mut().chain(&mut theirs);
    sessions.for_each(|trial| trial.conditions.session = trial.trial.position);
    assert_eq!(why(&spec("lmdb"), &ours, &theirs), None, "a trial of another day is not the one before");
}

/// How long a script of SQLite took in runs one after the other on a busy machine, milliseconds.
fn recorded() -> Vec<f64> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/verdicts/data/aa_sql.json");
    let recorded: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    recorded["ms"].as_array().unwrap().iter().map(|ms| ms.as_f64().unwrap()).collect()
}

/// Noise of a machine, in which nothing depends on the order of trials.
#[test]
fn order_that_does_nothing_is_rarely_said_to_matter() {
    const RUNS: u32 = 300;
    let (mut random, recorded) = (Stream::new(3), recorded());
    for blocks in [6, 20] {
        let refused = (0..RUNS).filter(|_| {
            let plan: String = (0..blocks).map(|_| ["vbb", "bvb", "bbv"][random.below(3) as usize]).collect();
            let begin = random.below((recorded.len() - plan.len()) as u64) as usize;
            let [ours, theirs] = in_order(&plan, |at, _| recorded[begin + at]);
            why(&spec("lmdb"), &ours, &theirs).is_some()
        });
        let refused = refused.count();
        assert!(refused <= 9, "{refused} of {RUNS} with {blocks} blocks");
    }
}

/// Each run of a program was slower than the one before, and the baseline, the same program, ran twice as often.
#[test]
fn ratios_that_change_over_the_run_are_not_compared() {
    let plan = PLAN.repeat(2);
    let order: Vec<char> = plan.chars().collect();
    let age = |at: usize, one| order[..at].iter().filter(|before| **before == one).count() as f64;
    let [ours, theirs] = in_order(&plan, |at, one| 1.0 + 0.006 * age(at, one));
    let found = why(&spec("lmdb"), &ours, &theirs).unwrap();
    assert!(found.starts_with("the ratio of `y` to `x` in `w.time` is 0.8"), "{found}");
    let [ours, theirs] = in_order(&plan, |at, _| 1.0 + 0.006 * at as f64);
    assert_eq!(why(&spec("lmdb"), &ours, &theirs), None, "the machine alone became slower");
}

/// How many of 100 runs of 30 blocks are refused for a change over the run. Values are multiplied by what this says of a trial's place in
/// the run, its place among the runs of its own program, and whether that is the variant; noise has a standard deviation of 5 %.
fn refused_of_100(times: impl Fn(f64, f64, bool) -> f64) -> usize {
    let mut random = Stream::new(11);
    let mut is_refused = |_: &u32| {
        let plan: String = (0..30).map(|_| ["vbb", "bvb", "bbv"][random.below(3) as usize]).collect();
        let order: Vec<char> = plan.chars().collect();
        let mut uniform = || (random.below(1 << 20) + 1) as f64 / f64::from(1 << 20);
        let mut normal = || (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos();
        let noise: Vec<f64> = order.iter().map(|_| (0.05 * normal()).exp()).collect();
        let own = |at: usize| order[..at].iter().filter(|before| **before == order[at]).count() as f64;
        let [ours, theirs] = in_order(&plan, |at, one| noise[at] * times(at as f64, own(at), one == 'v'));
        why(&spec("lmdb"), &ours, &theirs).is_some_and(|why| why.contains("the run"))
    };
    (0..100).filter(&mut is_refused).count()
}

/// Two equal programs whose log grew were called different in up to 80 % of runs: noise hides the trend of the ratio.
#[test]
fn equal_programs_that_slow_with_each_own_run_are_rarely_compared() {
    for (each, least) in [(0.004, 80), (0.008, 90)] {
        let refused = refused_of_100(|_, own, _| 1.0 + each * own);
        assert!(refused >= least, "{refused} of 100 with {each}");
    }
    for each in [0.001, 0.004] {
        let differs =
            |by: f64| refused_of_100(|at, _, is_variant| (1.0 + each * at) * if is_variant { by } else { 1.0 });
        let [equal, slower, faster] = [1.0, 1.05, 0.95].map(differs);
        assert!(equal <= 8 && slower <= 1 && faster <= 20, "{equal}, {slower}, {faster} of 100 with {each}");
    }
}

/// While a machine was busy, the mean of the baseline's two trials lay above a single trial of the same command: when it became quiet, the
/// ratio was 1.23 times as much, and a gate could not judge.
#[test]
fn ratios_of_equal_programs_stay_when_the_machine_becomes_quiet() {
    let mut random = Stream::new(5);
    let mut refused = |both: bool| {
        let of_equal = |_| {
            let plan: String = (0..30).map(|_| ["vbb", "bvb", "bbv"][random.below(3) as usize]).collect();
            // The square of exponential noise: mostly small, at times large.
            let noise = |random: &mut Stream| ((random.below(1 << 20) + 1) as f64 / f64::from(1 << 20)).ln().powi(2);
            let values: Vec<f64> =
                (0..plan.len()).map(|at| (noise(&mut random) * if at < 45 { 0.2 } else { 0.01 }).exp()).collect();
            let [mut ours, theirs] = in_order(&plan, |at, _| values[at]);
            if !both {
                ours.retain(|trial| trial.trial.label == Label::A);
            }
            why(&spec("lmdb"), &ours, &theirs).is_some_and(|why| why.starts_with("the ratio of "))
        };
        (0..400).map(of_equal).filter(|refused| *refused).count()
    };
    let found = [refused(true), refused(false)];
    assert!(found[0] <= 1 && found[1] <= 6, "{found:?} of 400");
}

/// A command that the shell did not find was 23 times faster.
#[test]
fn commands_that_ended_otherwise_are_not_compared() {
    let exited = |code| ran(EffectiveProgram { status: Some(Status::Exited(code)), ..Default::default() });
    let found = why(&spec("lmdb"), &[exited(0)], &[exited(127)]).unwrap();
    assert_eq!(found, "`x` ended with exit code 0, and `y` with 127: they did not do the same work");
    // `grep` ends with 1 where it found nothing, and with 2 where it could not read.
    assert!(why(&spec("lmdb"), &[exited(1)], &[exited(2)]).is_some());
}

/// One success in 60 trials let 59 failures be compared with another program's successes.
#[test]
fn commands_that_mostly_ended_otherwise_are_not_compared() {
    let exited = |code| ran(EffectiveProgram { status: Some(Status::Exited(code)), ..Default::default() });
    let of = |codes: &[(i32, usize)]| -> Vec<TrialRecord> {
        codes.iter().flat_map(|(code, times)| std::iter::repeat_n(exited(*code), *times)).collect()
    };
    let why = |x: &[(i32, usize)], y: &[(i32, usize)]| why(&spec("lmdb"), &of(x), &of(y));
    let expected =
        "`x` ended with exit code 1 in 59 and 0 in 1 of 60 trials, and `y` with 0: they did not do the same work";
    assert_eq!(why(&[(0, 1), (1, 59)], &[(0, 30)]).as_deref(), Some(expected));
    assert!(why(&[(0, 20)], &[(0, 4), (126, 8), (127, 8)]).is_some());
    assert!(why(&[(1, 20)], &[(1, 1), (2, 19)]).is_some());
    assert!(
        why(&[(3, 10), (0, 10)], &[(126, 6), (127, 6), (3, 8)]).is_some(),
        "a shell executed nothing in most trials"
    );
    assert_eq!(why(&[(0, 10), (1, 10)], &[(0, 8), (1, 12)]), None, "by turns in both");
    assert_eq!(why(&[(0, 19), (1, 1)], &[(0, 20)]), None, "now and then");
    assert_eq!(why(&[(3, 7), (4, 7), (5, 6)], &[(6, 10), (7, 10)]), None, "another one in each trial");
}
