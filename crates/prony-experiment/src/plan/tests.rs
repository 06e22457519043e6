use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::tests::Engines;
use crate::tests::crash::store;
use crate::tests::sound;
use crate::{check, parse};
use prony_model::catalog::Overrides;

/// An experiment over `engines` and `sizes`, compared with the memory engine.
fn experiment(engines: usize, sizes: usize, blocks: u32, seed: u64, compared: bool) -> Experiment {
    let rest: Vec<String> = (1..engines).map(|n| format!("m{n} = {{ engine = \"lmdb\" }}\n")).collect();
    let sizes: Vec<String> = (1..=sizes).map(|n| (n * 1000).to_string()).collect();
    let baseline = if compared { "baseline = { store = \"base\" }" } else { "" };
    let text = format!(
        "experiment.seed = {seed}\n[factors]\nsize = [{}]\n[factors.store]\nbase = {{ engine = \"memory\" }}\n{}\
         [compare]\n{baseline}\nblocks = {blocks}\n[store]\nuse = \"{{store}}\"\n[data]\nrecords = \"{{size}}\"\n\
         [[phase]]\nname = \"write\"\nput = {{}}\n",
        sizes.join(", "),
        rest.concat()
    );
    let raw = parse(&text, "plan.toml").expect("it parses");
    check(&raw, &Engines, &Overrides::default()).unwrap_or_else(|problems| panic!("{problems:#?}"))
}

/// How often each (variant, label) runs in a block.
fn counts(trials: &[PlannedTrial], block: u32) -> BTreeMap<(usize, Label), usize> {
    let mut counts = BTreeMap::new();
    for trial in trials.iter().filter(|trial| trial.block == block) {
        *counts.entry((trial.variant, trial.label)).or_default() += 1;
    }
    counts
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn resumed_keeps_what_ran_and_runs_each_interrupted_sub_block_whole(
        engines in 1usize..8, sizes in 1usize..3, seed in 0u64..1000, compared: bool,
        stops in prop::collection::vec(0usize..40, 0..4),
    ) {
        let experiment = experiment(engines, sizes, 3, seed, compared);
        let whole = plan(&experiment);
        let mut all = resumed(&experiment, &[]);
        prop_assert_eq!(&all, &whole);
        let mut done = 0;
        for stop in stops {
            done = (done + stop).min(all.len());
            let again = resumed(&experiment, &all[..done]);
            prop_assert_eq!(&again[..done], &all[..done]);
            all = again;
        }
        let positions: Vec<u32> = all.iter().map(|trial| trial.position).collect();
        prop_assert_eq!(positions, (0..all.len() as u32).collect::<Vec<_>>());
        let parts = |trials: &[PlannedTrial]| -> Vec<Vec<(u32, usize, Label, u64)>> {
            let parts = trials.chunk_by(|a, b| (a.block, a.sub_block) == (b.block, b.sub_block));
            let own = |trial: &PlannedTrial| (trial.block, trial.variant, trial.label, trial.seed);
            parts.map(|part| part.iter().map(own).collect()).collect()
        };
        let numbers: BTreeSet<(u32, u32)> = all.iter().map(|trial| (trial.block, trial.sub_block)).collect();
        prop_assert_eq!(numbers.len(), parts(&all).len(), "no number twice");
        let mut complete = parts(&all);
        complete.retain(|part| parts(&whole).contains(part));
        prop_assert_eq!(complete, parts(&whole), "each once, in the order of the plan");
        prop_assert!(compared || all.len() == whole.len(), "nothing is paired");
    }

    #[test]
    fn a_block_runs_every_variant_once_and_each_sub_block_its_baseline(
        engines in 1usize..14, sizes in 1usize..4, blocks in 1u32..5, seed in 0u64..1000,
    ) {
        let experiment = experiment(engines, sizes, blocks, seed, true);
        let trials = plan(&experiment);
        for block in 0..blocks {
            let counts = counts(&trials, block);
            for variant in experiment.variants() {
                let runs = if variant.baseline { (engines - 1).div_ceil(5).max(1) } else { 1 };
                prop_assert_eq!(counts.get(&(variant.id, Label::A)), Some(&runs));
                prop_assert_eq!(counts.contains_key(&(variant.id, Label::A2)), variant.baseline);
            }
        }
        for trial in &trials {
            let inside: Vec<&PlannedTrial> =
                trials.iter().filter(|t| (t.block, t.sub_block) == (trial.block, trial.sub_block)).collect();
            prop_assert!(inside.len() <= 7);
            let strata: BTreeSet<usize> = inside.iter().map(|t| experiment.variants()[t.variant].stratum).collect();
            prop_assert_eq!(strata.len(), 1);
            let baselines = inside.iter().filter(|t| experiment.variants()[t.variant].baseline).count();
            prop_assert_eq!(baselines, 2);
        }
        prop_assert!(trials.iter().enumerate().all(|(at, trial)| trial.position as usize == at));
    }

    #[test]
    fn without_a_baseline_a_block_is_one_permutation(engines in 1usize..9, blocks in 1u32..5, seed in 0u64..1000) {
        let experiment = experiment(engines, 2, blocks, seed, false);
        let trials = plan(&experiment);
        prop_assert_eq!(trials.len(), engines * 2 * blocks as usize);
        for block in 0..blocks {
            prop_assert!(counts(&trials, block).values().all(|count| *count == 1));
        }
        prop_assert!(trials.iter().all(|trial| trial.sub_block == 0));
    }

    #[test]
    fn more_blocks_leave_the_earlier_ones_as_they_are(engines in 2usize..9, blocks in 1u32..5, more in 1u32..4, seed in 0u64..1000) {
        let few = plan(&experiment(engines, 2, blocks, seed, true));
        let many = plan(&experiment(engines, 2, blocks + more, seed, true));
        prop_assert_eq!(few.as_slice(), &many[..few.len()]);
        prop_assert!(many.len() > few.len());
    }
}

#[test]
fn all_trials_of_a_block_share_a_seed_and_blocks_differ() {
    let trials = plan(&experiment(4, 2, 5, 1, true));
    let seeds: BTreeSet<(u32, u64)> = trials.iter().map(|trial| (trial.block, trial.seed)).collect();
    assert_eq!(seeds.len(), 5);
    assert_eq!(seeds.iter().map(|(_, seed)| seed).collect::<BTreeSet<_>>().len(), 5);
    let other = plan(&experiment(4, 2, 5, 2, true));
    assert!(trials.iter().all(|trial| other.iter().all(|o| o.seed != trial.seed)));
}

#[test]
fn every_order_of_a_block_is_about_equally_likely() {
    let trials = plan(&experiment(3, 1, 6000, 3, false));
    let mut orders: BTreeMap<Vec<usize>, u32> = BTreeMap::new();
    for block in trials.chunks(3) {
        *orders.entry(block.iter().map(|trial| trial.variant).collect()).or_default() += 1;
    }
    assert_eq!(orders.len(), 6);
    // Chi-square with 5 degrees of freedom; it exceeds 25.7 once in ten thousand times.
    let chi: f64 = orders.values().map(|count| (f64::from(*count) - 1000.0).powi(2) / 1000.0).sum();
    assert!(chi < 25.7, "{chi} {orders:?}");
}

#[test]
fn the_outline_counts_what_the_plan_runs() {
    let experiment = experiment(8, 2, 7, 1, true);
    let outline = outline(&experiment);
    assert_eq!(outline.trials_max as usize, plan(&experiment).len());
    assert_eq!(outline.trials_max, 7 * 2 * (7 + 2 * 2), "seven variants and a baseline twice in two sub-blocks");
    assert_eq!(outline.trials_min, outline.trials_max);
    assert_eq!((outline.strata.len(), outline.family), (2, 14));
    assert_eq!(outline.strata[1].levels, [("size".to_owned(), "2000".to_owned())]);
    assert!(outline.variants.iter().all(|variant| variant.no_verdict.is_none()));
    let first = &outline.variants[0];
    assert_eq!((first.records, first.baseline, first.trials), (1000, true, 28));
    assert!((first.data_bytes - (2890.0 + 100_000.0)).abs() < 1e-6, "digits of 0..1000 and 100 bytes each");
}

#[test]
fn a_figure_that_is_named_twice_counts_once_in_the_family() {
    let plain = experiment(3, 1, 7, 1, true);
    let metrics = "[compare]\nmetrics = [\"write.rate\", \"write.time\", \"write.rate\"]";
    let raw = parse(&plain.source().replacen("[compare]", metrics, 1), "plan.toml").expect("it parses");
    let named = check(&raw, &Engines, &Overrides::default()).expect("it can run");
    assert_eq!((outline(&plain).family, outline(&named).family), (2, 4), "of two variants, in the time and the rate");
}

#[test]
fn the_outline_says_why_there_is_no_verdict() {
    let outline_of = |blocks, compared| outline(&experiment(2, 1, blocks, 1, compared));
    assert_eq!(outline_of(5, true).variants[1].no_verdict.as_deref(), Some("5 blocks; a verdict needs at least 6"));
    assert_eq!(outline_of(6, false).variants[1].no_verdict.as_deref(), Some("nothing is compared"));
}

#[test]
fn profiles_are_one_trial_a_variant_beside_the_plan() {
    let plain = experiment(3, 2, 4, 7, true);
    assert_eq!((profiles(&plain).len(), outline(&plain).profiles), (0, 0));
    let text = plain.source().replacen("[compare]", "[observe]\nprofile = \"cpu\"\n[compare]", 1);
    let raw = parse(&text, "plan.toml").expect("it parses");
    let profiled = check(&raw, &Engines, &Overrides::default()).expect("it can run");
    let (trials, extra) = (plan(&profiled), profiles(&profiled));
    assert_eq!(trials, plan(&plain), "the plan itself is as it was");
    assert_eq!(extra.iter().map(|trial| trial.variant).collect::<Vec<_>>(), (0..6).collect::<Vec<_>>());
    let positions: BTreeSet<u32> = trials.iter().chain(&extra).map(|trial| trial.position).collect();
    assert_eq!(positions.len(), trials.len() + extra.len(), "no position twice");
    assert!(extra.iter().all(|trial| trial.seed == trials[0].seed), "the work of the first block");
    let outline = outline(&profiled);
    assert_eq!((outline.profiles, outline.trials_max), (6, trials.len() as u32));
}

#[test]
fn crash_trials_are_beside_the_plan() {
    let with = sound(&store("kill = { during = \"write\", cuts = 4 }"));
    let plain = sound(&store("pause = \"1 s\""));
    assert_eq!(plan(&with), plan(&plain), "timed trials are planned as without crash trials");
    assert_eq!((outline(&with).cuts, outline(&plain).cuts), (8, 0));
    assert_eq!(outline(&with).trials_max, outline(&plain).trials_max);
}

#[test]
fn cuts_are_spread_over_their_time_and_follow_from_the_seed() {
    let text = store("kill = { during = \"write\", cuts = 40 }");
    let planned = cuts(&sound(&text));
    assert_eq!(planned, cuts(&sound(&text)));
    let of = |variant: usize| planned.iter().filter(move |cut| cut.variant == variant);
    let alike = of(0).zip(of(1)).all(|(a, b)| (a.cut, a.seed, a.moment) == (b.cut, b.seed, b.moment));
    assert!(alike, "all variants have the same cuts");
    let mut parts: Vec<u64> = of(0).map(|cut| cut.moment.as_nanos() / (1_000_000_000 / 40)).collect();
    assert!(!parts.is_sorted(), "an interrupted run has cuts from all of the time");
    parts.sort_unstable();
    assert_eq!(parts, (0..40).collect::<Vec<u64>>());
    let order: Vec<(u32, usize)> = planned.iter().map(|cut| (cut.cut, cut.variant)).collect();
    assert!(order.is_sorted(), "the first cut of each variant comes before the second of any");
    let other = cuts(&sound(&text.replace("[factors]", "[experiment]\nseed = 9\n[factors]")));
    assert!(planned.iter().zip(&other).all(|(a, b)| a.seed != b.seed));
}
