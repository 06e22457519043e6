use super::*;
use prony_model::random::{GOLDEN, mix};

/// Normal noise of standard deviation 1, by Box and Muller.
pub(crate) fn normal(state: &mut u64) -> f64 {
    let mut uniform = || {
        *state = state.wrapping_add(GOLDEN);
        (mix(*state) >> 11) as f64 / (1u64 << 53) as f64
    };
    let (a, b) = (uniform().max(1e-300), uniform());
    (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
}

/// `n` candidates over some blocks: `truth(candidate)` plus a level of the block plus noise.
fn race(n: usize, blocks: u32, noise: f64, seed: u64, truth: impl Fn(usize) -> f64) -> RaceResult {
    let mut state = seed;
    let levels: Vec<f64> = (0..blocks).map(|_| 3.0 * normal(&mut state)).collect();
    let mut lane = |id: usize| {
        let value = |block: u32| (block, truth(id) + levels[block as usize] + noise * normal(&mut state));
        (id, (0..blocks).map(value).collect())
    };
    race_result(&(0..n).map(&mut lane).collect::<Vec<_>>())
}

#[test]
fn the_levels_of_blocks_do_not_matter() {
    let race_result = race(5, 3, 0.0, 4, |id| id as f64 * 0.01);
    assert_eq!(race_result.order.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    assert_eq!(race_result.losers().collect::<Vec<_>>(), [1, 2, 3, 4], "without noise the least difference is clear");
}

#[test]
fn equal_ones_are_seldom_losers_and_double_ones_nearly_always() {
    let share = |blocks, truth: fn(usize) -> f64| {
        let count = |seed: u64| race(16, blocks, 0.1, seed * 977, truth).losers().count();
        (0..200).map(count).sum::<usize>() as f64 / 200.0
    };
    for blocks in [2, 3, 5] {
        let equal = share(blocks, |_| 0.0);
        assert!(equal < 0.5, "{equal} of 15 equal ones lost after {blocks} blocks");
    }
    let double = share(2, |id| if id == 0 { 0.0 } else { 2f64.ln() });
    assert!(double > 14.0, "{double} of 15 that take twice as long lost after two blocks");
}

#[test]
fn one_block_and_one_wild_trial_decide_nothing() {
    assert_eq!(race(8, 1, 0.1, 1, |id| id as f64).losers().count(), 0);
    let mut lanes: Vec<Lane> = (0..6).map(|id| (id, (0..5).map(|b| (b, 0.01 * id as f64)).collect())).collect();
    lanes[0].1[3].1 = 50.0;
    assert_eq!(race_result(&lanes).order[0].0, 0);
}

#[test]
fn ties_go_to_the_first_and_lacking_values_are_borne() {
    let lanes: Vec<Lane> = vec![(3, vec![(0, 1.0), (1, 1.0)]), (1, vec![(0, 1.0)]), (2, vec![])];
    let race_result = race_result(&lanes);
    assert_eq!(race_result.order, [(1, 0.0), (3, 0.0)], "one without a value has no place");
}
