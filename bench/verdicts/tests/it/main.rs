//! The benchmark in reduced form: fewer campaigns, fixed seeds, binomial bounds as the tolerance.

use prony_bench_verdicts::measure;
use prony_bench_verdicts::noise::recorded;
use prony_stats::simulation::{ALPHA, Rate, Rng, Setting, Simulation, Variant};
use prony_stats::{InterimAnalyses, binomial_interval};

fn together(rates: &[Rate]) -> Rate {
    rates.iter().fold(Rate::default(), |sum, rate| Rate { hits: sum.hits + rate.hits, of: sum.of + rate.of })
}

/// The one-sided bounds that a true rate crosses once in a thousand runs of this test.
fn bounds(rate: Rate) -> (f64, f64) {
    binomial_interval(rate.hits, rate.of, 0.998)
}

#[test]
fn whole_runs_on_equal_variants_keep_the_promised_error() {
    let analyses = InterimAnalyses::new(6, 30);
    let mut all = Vec::new();
    for noise in recorded() {
        for null in measure::nulls(&noise) {
            // A large family takes as long as many small ones.
            for (size, campaigns) in [(1, 60), (5, 60), (20, 20)] {
                let simulation = Simulation::new(&noise, &analyses);
                let found = simulation.campaigns(&null.setting(size), campaigns, &mut Rng::new(23));
                let (low, _) = bounds(found.any_difference);
                assert!(low <= ALPHA, "{}, {}, family of {size}: {}", noise.name, null.name, found.any_difference);
                all.push(found.any_difference);
            }
        }
    }
    let (_, high) = bounds(together(&all));
    assert!(high <= ALPHA, "over all: {}", together(&all));
}

/// Where the budget ends a run depends on what the trials took, and that is what is compared.
#[test]
fn campaigns_that_a_time_budget_ends_keep_the_promised_error() {
    let mut all = Vec::new();
    for noise in recorded() {
        for (size, lasting) in [(1, 8.0), (1, 25.0), (5, 12.0)] {
            for null in measure::nulls(&noise) {
                let found = measure::budgeted(&noise, &null.setting(size), lasting, 30, &mut Rng::new(59));
                let rate = found.any_difference;
                let (low, _) = bounds(rate);
                assert!(low <= ALPHA, "{}, {}, family of {size}, {lasting} blocks: {rate}", noise.name, null.name);
                all.push(rate);
            }
            for null in measure::at_the_margin(&noise) {
                let found = measure::budgeted(&noise, &null.setting(size), lasting, 30, &mut Rng::new(61));
                let rate = found.off_margin;
                let (low, _) = bounds(rate);
                assert!(low <= ALPHA, "margin: {}, {}, {size}, {lasting} blocks: {rate}", noise.name, null.name);
                all.push(rate);
            }
        }
    }
    let (_, high) = bounds(together(&all));
    assert!(high <= ALPHA, "over all: {}", together(&all));
}

#[test]
fn minimum_detectable_effect_is_found_in_four_of_five() {
    let mut all = Vec::new();
    for noise in recorded() {
        for (size, blocks) in [(1, 6), (1, 11), (1, 30), (5, 11), (20, 11), (20, 30)] {
            let analyses = InterimAnalyses::new(blocks, blocks);
            let detected = Simulation::new(&noise, &analyses).advertised(size, true, 60, &mut Rng::new(29)).detected;
            let (_, high) = bounds(detected);
            assert!(high >= 0.8, "{}, family of {size}, {blocks} blocks: {detected}", noise.name);
            all.push(detected);
        }
    }
    let (low, _) = bounds(together(&all));
    assert!(low >= 0.8, "over all: {}", together(&all));
}

#[test]
fn tenfold_slowdown_is_always_found_early() {
    for noise in recorded() {
        let setting = Setting::of(Variant::PLAIN, Variant::PLAIN.slower(10.0), 20);
        let found = Simulation::new(&noise, &InterimAnalyses::new(6, 30)).campaigns(&setting, 40, &mut Rng::new(31));
        assert_eq!(found.beyond_margin.hits, 40, "{}", noise.name);
        // Synced writes recorded on a machine under ten times its load differ by more than tenfold among themselves.
        let soon = if noise.name == "own sync, wall" { 20.0 } else { 15.0 };
        assert!(found.mean_blocks() < soon, "{}: {}", noise.name, found.mean_blocks());
    }
}

#[test]
fn power_rises_with_the_effect() {
    let noise = &recorded()[1];
    let detected = |effect| {
        let setting = Setting::of(Variant::PLAIN, Variant::PLAIN.slower(effect), 5);
        Simulation::new(noise, &InterimAnalyses::new(6, 30)).campaigns(&setting, 60, &mut Rng::new(37)).worse.hits
    };
    let (little, more, much) = (detected(0.005), detected(0.02), detected(0.1));
    assert!(little < more && more < much, "{little} {more} {much}");
}

/// The traps that the method names are there, on the same noise: else the simulation would prove nothing.
#[test]
fn other_ways_are_wrong_more_often_than_they_say() {
    // Noise that hardly depends on the run before it, as that of our own recordings, spares Welch's test for one pair.
    for noise in recorded().into_iter().take(3) {
        let rates = measure::sequential(&noise, Variant::PLAIN, 1, 20, 150, &mut Rng::new(41));
        for (rate, name) in rates.iter().zip(measure::SEQUENTIAL) {
            assert!(bounds(*rate).0 > ALPHA, "{}, {name}: {rate}", noise.name);
        }
    }
    let noise = &recorded()[0];
    let quiet = measure::nulls(noise).into_iter().find(|null| null.name == "baseline 0.2, variant 2 times").unwrap();
    let rates = measure::inside(noise, &quiet.setting(20), 7, 150, &mut Rng::new(43));
    assert!(bounds(rates[3]).0 > ALPHA, "permutation: {}", rates[3]);
    assert!(bounds(rates[0]).0 <= ALPHA, "ours: {}", rates[0]);
}
