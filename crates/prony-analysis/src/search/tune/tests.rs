//! Searches over invented subjects whose best setting is known.

use proptest::prelude::*;

use super::super::race::tests::normal;
use super::*;

fn settings(ranges: &[&str], default: &[f64]) -> Settings {
    Settings {
        ranges: ranges.iter().map(|text| text.parse().unwrap()).collect(),
        default: default.to_vec(),
        grid: None,
        resolution: 0.05,
        maximize: false,
        max_trials: None,
        budget: None,
        reserve: 6,
        of_default: 2,
        seed: 1,
    }
}

struct Searched {
    tune: Tune,
    found: Found,
    blocks: Vec<Block>,
}

impl Searched {
    fn winner(&self) -> &[f64] {
        &self.tune.candidates()[self.found.winner.expect("something is feasible")].point
    }
}

/// Runs to the end; each trial takes a second.
fn search(settings: Settings, subject: impl FnMut(&[f64], u32) -> TrialResult) -> Searched {
    search_among(settings, subject, |_| true)
}

/// The same, where a guard compares only some settings with the default.
fn search_among(
    settings: Settings,
    mut subject: impl FnMut(&[f64], u32) -> TrialResult,
    is_compared: impl Fn(&[f64]) -> bool,
) -> Searched {
    let (mut tune, mut blocks) = (Tune::new(settings), Vec::new());
    loop {
        match tune.step() {
            Step::Done(found) => return Searched { tune, found, blocks },
            Step::Run(block) => {
                for id in &block.order {
                    let point = tune.candidates()[*id].point.clone();
                    tune.record(*id, subject(&point, block.number), Nanos::from_secs(1));
                    if *id != 0 && !is_compared(&point) {
                        tune.leave_out(*id);
                    }
                }
                blocks.push(block);
            }
        }
        assert!(blocks.len() < 100, "it never ends");
    }
}

/// A bowl on the logarithm of the first value with its bottom at 300, and a slope on the second.
fn bowl(point: &[f64]) -> f64 {
    let off = (point[0] / 300.0).ln();
    10.0 * (0.15 * off * off).exp() * (1.0 + 0.1 * point.get(1).unwrap_or(&0.0))
}

/// The same with noise of this deviation, and a level of its own for each block.
fn noisy(noise: f64, seed: u64) -> impl FnMut(&[f64], u32) -> TrialResult {
    let mut state = seed;
    move |point, block| {
        let level = f64::from(block * 7 % 5) * 0.2;
        TrialResult::Good(bowl(point) * (level + noise * normal(&mut state)).exp())
    }
}

#[test]
fn without_noise_the_optimum_is_found_to_the_resolution() {
    let found = search(settings(&["chunk=10..10000,log", "pause=0..10"], &[10_000.0, 0.0]), noisy(0.0, 1));
    let [chunk, pause] = found.winner() else { panic!("two values") };
    assert!((chunk / 300.0).ln().abs() < 0.3 && *pause == 0.0, "{:?}", found.winner());
    assert_eq!(found.found.end, End::Fine);
    assert!(found.found.trials <= 200, "{}", found.found.trials);
    let ratio = found.tune.ratio(found.found.winner.unwrap()).unwrap();
    assert!((ratio - bowl(found.winner()) / bowl(&[10_000.0, 0.0])).abs() < 1e-6, "{ratio}");
}

#[test]
fn with_noise_the_winner_is_nearly_as_good_as_the_best_and_trials_are_bounded() {
    let (mut regrets, mut trials) = (Vec::new(), 0);
    for seed in 0..60 {
        let settings = Settings { seed, ..settings(&["chunk=10..10000,log", "pause=0..10"], &[10_000.0, 0.0]) };
        let found = search(settings, noisy(0.1, seed * 31));
        regrets.push(bowl(found.winner()) / 10.0);
        trials += found.found.trials;
        assert!(found.found.trials <= 250, "{}", found.found.trials);
        assert!(found.blocks.iter().all(|block| block.order.contains(&0)), "the default is in each block");
    }
    regrets.sort_by(f64::total_cmp);
    // What docs/search.md says: nine of ten within 10 %.
    assert!(regrets[30] < 1.05 && regrets[54] < 1.1, "{regrets:?}");
    assert!((60..130).contains(&(trials / 60)), "{trials}");
}

#[test]
fn tune_respects_a_binding_constraint() {
    // The larger the chunk, the faster and the more memory: the best lies at the bound of 500.
    let subject = |point: &[f64], _: u32| {
        let time = 1000.0 / point[0].powf(0.3);
        if point[0] <= 500.0 { TrialResult::Good(time) } else { TrialResult::Broke(time) }
    };
    let found = search(settings(&["chunk=10..10000,log"], &[10_000.0]), subject);
    assert!((350.0..=500.0).contains(&found.winner()[0]), "{:?}", found.winner());
    assert_eq!(found.tune.candidates()[0].out, Some(Out::Broke), "the default breaks it");
    assert!(found.tune.ratio(found.found.winner.unwrap()).unwrap() > 1.0, "and is faster, which is said");
    // A default that fails is left out after two tries.
    let deadly =
        |point: &[f64], block: u32| if point[0] > 5000.0 { TrialResult::Failed } else { subject(point, block) };
    let found = search(settings(&["chunk=10..10000,log"], &[10_000.0]), deadly);
    assert_eq!(found.tune.candidates()[0].trials, 2);
    assert!(found.tune.ratio(found.found.winner.unwrap()).is_none());
}

#[test]
fn nothing_feasible_is_said_at_once() {
    for result in [TrialResult::Failed, TrialResult::Broke(1.0), TrialResult::Unread, TrialResult::Broke(0.0)] {
        let found = search(settings(&["chunk=10..10000,log"], &[100.0]), |_, _| result);
        assert_eq!((found.found.winner, found.found.end), (None, End::NothingFeasible), "{result:?}");
        assert_eq!(found.blocks.len(), 1, "{result:?}");
    }
    let found = search(settings(&["chunk=10..10000,log"], &[100.0]), |_, _| TrialResult::Disturbed);
    assert_eq!((found.found.winner, found.blocks.len()), (None, PATIENCE as usize));
}

#[test]
fn a_figure_of_zero_is_read_and_said_to_be_zero() {
    // Below a chunk of 100 the objective is 0.
    let subject = |point: &[f64], _: u32| TrialResult::Good(if point[0] < 100.0 { 0.0 } else { bowl(point) });
    let found = search(settings(&["chunk=10..10000,log"], &[20.0]), subject);
    let outs = |why| found.tune.candidates().iter().filter(|candidate| candidate.out == Some(why)).count();
    assert!(outs(Out::Zero) >= 2 && outs(Out::Unread) == 0, "{:?}", found.tune.candidates());
    assert_eq!((found.tune.candidates()[0].out, found.tune.candidates()[0].trials), (Some(Out::Zero), DEFAULT_TRIES));
    assert_eq!(found.found.winner, Some(0), "no value is better than the default's");
    let more = Settings { maximize: true, ..settings(&["chunk=10..10000,log"], &[20.0]) };
    assert!(search(more, subject).found.winner.is_some_and(|winner| winner > 0), "every other value is better");
    // It was 0, and something else in the block after: that is no value of 0.
    for other in [TrialResult::Good(1.0), TrialResult::Broke(0.0), TrialResult::Failed] {
        let later = |_: &[f64], block| if block == 0 { TrialResult::Good(0.0) } else { other };
        let subject =
            |point: &[f64], block| if point[0] == 20.0 { later(point, block) } else { TrialResult::Good(9.0) };
        let found = search(settings(&["chunk=10..10000,log"], &[20.0]), subject);
        assert!(found.found.winner.is_some_and(|winner| winner > 0), "{other:?}");
    }
    // A setting that exceeds a bound is dropped for that, whatever its figure.
    let broken = search(settings(&["chunk=10..10000,log"], &[20.0]), |_, _| TrialResult::Broke(0.0));
    assert!(broken.tune.candidates().iter().all(|candidate| candidate.out == Some(Out::Broke)));
}

/// The setting that does least was the winner.
#[test]
fn settings_that_are_not_compared_with_the_default_are_left_out_however_fast() {
    let faster = |point: &[f64], _: u32| TrialResult::Good(point[0]);
    let all = || settings(&["chunk=10..1000,log"], &[1000.0]);
    let found = search_among(all(), faster, |point| point[0] >= 100.0);
    assert!((100.0..150.0).contains(&found.winner()[0]), "{:?}", found.winner());
    let is_out = |candidate: &&Candidate| candidate.out == Some(Out::Unlike);
    assert!(found.tune.candidates().iter().filter(is_out).all(|candidate| candidate.point[0] < 100.0));
    let found = search_among(all(), faster, |_| false);
    assert!(found.found.winner.is_none() && found.tune.is_default_uncompared(), "the default is the best of nothing");
    for unknown in [TrialResult::Disturbed, TrialResult::Unread] {
        let but_default =
            |of: TrialResult| move |point: &[f64], _| if point[0] == 1000.0 { TrialResult::Good(1.0) } else { of };
        let found = search_among(all(), but_default(unknown), |_| true);
        assert!(found.found.winner.is_none() && found.tune.is_default_uncompared(), "{unknown:?}");
        let found = search_among(all(), but_default(TrialResult::Failed), |_| true);
        assert_eq!((found.found.winner, found.tune.is_default_uncompared()), (Some(0), false), "the others failed");
    }
    let found = search_among(all(), |_, _| TrialResult::Failed, |_| false);
    assert!(found.found.winner.is_none() && !found.tune.is_default_uncompared(), "they did not finish");
}

/// With the mean of all trials as the price, the fresh blocks of a slow default took 2.7 times the budget.
#[test]
fn what_the_budget_leaves_is_counted_in_blocks_of_the_default_and_the_winner() {
    let of = || Settings { budget: Some(Nanos::from_secs(60)), ..settings(&["chunk=1..9"], &[1.0]) };
    let mut tune = Tune::new(of());
    assert_eq!(tune.blocks_left(1), None, "no trial yet");
    let Step::Run(block) = tune.step() else { panic!("a budget allows the first block") };
    let cost = |id: usize| Nanos::from_millis(if id == 0 { 4_000 } else { 100 });
    block.order.iter().for_each(|id| tune.record(*id, TrialResult::Good(1.0), cost(*id)));
    assert_eq!((block.order.len(), tune.blocks_left(1)), (7, Some(6)), "55.4 s, and 8.1 s for each");
    tune.record(0, TrialResult::Unpaired, Nanos::from_secs(15));
    assert_eq!(tune.blocks_left(1), Some(4), "40.4 s; a trial that does not count sets no price");
    assert!(matches!(tune.step(), Step::Done(Found { end: End::Spent, .. })), "6 blocks take 48.6 s");
    tune.record(2, TrialResult::Good(1.0), Nanos::from_secs(200));
    assert_eq!(tune.blocks_left(1), Some(0));
}

#[test]
fn ties_end_in_noise_and_stay_with_the_default() {
    let found = search(settings(&["chunk=10..10000,log"], &[777.0]), |_, _| TrialResult::Good(3.0));
    assert_eq!((found.found.winner, found.found.end), (Some(0), End::Noise));
    assert!(found.found.trials <= 40, "{}", found.found.trials);
}

#[test]
fn more_is_better_where_asked() {
    let settings = Settings { maximize: true, ..settings(&["chunk=10..10000,log"], &[10.0]) };
    let found = search(settings, |point, _| TrialResult::Good(1000.0 / bowl(point)));
    assert!((found.winner()[0] / 300.0).ln().abs() < 0.3, "{:?}", found.winner());
    assert!(found.tune.ratio(found.found.winner.unwrap()).unwrap() > 2.0);
}

#[test]
fn tune_budget_reserves_room_for_the_confirmation() {
    let limited = |max_trials, budget| {
        let settings = Settings { max_trials, budget, ..settings(&["a=10..10000,log", "b=0..10"], &[10.0, 1.0]) };
        search(settings, noisy(0.05, 3)).found
    };
    let found = limited(Some(60), None);
    assert!(found.end == End::Spent && found.trials <= 60 && found.winner.is_some(), "{found:?}");
    let found = limited(None, Some(Nanos::from_secs(80)));
    assert!(found.end == End::Spent && found.trials <= 80 - 18, "{found:?}");
    let found = limited(Some(5), None);
    assert_eq!((found.end, found.trials, found.winner), (End::Spent, 0, None), "not even one block");
}

#[test]
fn whole_values_run_out_before_the_resolution() {
    let found = search(settings(&["threads=1..4"], &[1.0]), |point, _| TrialResult::Good(8.0 / point[0]));
    assert_eq!((found.winner(), found.found.end), ([4.0].as_slice(), End::Fine));
    assert_eq!(found.tune.candidates().len(), 4, "no value twice, the default among them");
}

#[test]
fn search_is_deterministic_for_equal_results() {
    let all = || settings(&["a=10..10000,log", "b=0..10"], &[10.0, 1.0]);
    let (first, again) = (search(all(), noisy(0.1, 5)), search(all(), noisy(0.1, 5)));
    assert_eq!((first.blocks, first.found), (again.blocks, again.found));
    let mut tune = first.tune;
    let decisions = tune.take_decisions();
    assert!(decisions.iter().all(|d| d.behind.iter().chain(&d.halved).all(|id| !d.on.contains(id))));
    assert!(tune.take_decisions().is_empty(), "each is returned once");
}

proptest! {
    #[test]
    fn whatever_happens_it_ends_with_a_setting_that_never_failed(seed: u64, axes in 1usize..4, failures in 0u64..6) {
        let names = ["a=1..1000,log", "b=0..50", "c=0.0..1"];
        let mut state = seed;
        let found = search(Settings { seed, ..settings(&names[..axes], &[5.0, 5.0, 0.5][..axes]) }, |_, _| {
            let value = normal(&mut state).exp();
            state = prony_model::random::mix(state.wrapping_add(prony_model::random::GOLDEN));
            match state % 20 {
                n if n < failures => [
                    TrialResult::Failed,
                    TrialResult::Broke(value),
                    TrialResult::Disturbed,
                    TrialResult::Unread,
                    TrialResult::Good(0.0),
                ][n as usize % 5],
                _ => TrialResult::Good(value),
            }
        });
        if let Some(winner) = found.found.winner {
            let out = found.tune.candidates()[winner].out;
            prop_assert!(out.is_none() || (winner, out) == (0, Some(Out::Zero)), "{winner}: {out:?}");
        }
        prop_assert!(found.found.trials <= 600, "{}", found.found.trials);
        for block in &found.blocks {
            let mut ids = block.order.clone();
            ids.sort_unstable();
            ids.dedup();
            prop_assert_eq!(ids.len(), block.order.len(), "nobody runs twice in a block");
        }
    }
}
