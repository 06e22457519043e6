//! Counts false verdicts and detected differences over many simulated campaigns.

use prony_stats::sign::{Bracket, SignTest};
use prony_stats::simulation::{
    ALPHA, Campaigns, MARGIN, Noise, Rate, Rng, Setting, Simulation, Variant, draw, family, start,
};
use prony_stats::{InterimAnalyses, MIN_BLOCKS, compare_family};

use crate::noise::{centred, paired};
use crate::rivals;

/// Why a campaign always fits in.
const LONG: &str = "the recordings are longer than any campaign";

/// Variants between which there is no difference, and how they are made.
pub struct Null {
    /// What it is called in the tables.
    pub name: &'static str,
    baseline: Variant,
    variant: Variant,
    drift: f64,
}

impl Null {
    /// A family of so many such comparisons.
    pub fn setting(&self, size: usize) -> Setting {
        Setting { drift: self.drift, ..Setting::of(self.baseline, self.variant, size) }
    }
}

/// Every way of being equal: identical; identical under drift; median ratio 1 with unequal spread and skew; and variants
/// whose own medians agree, which is not quite the same (`docs/verdicts.md`).
pub fn nulls(noise: &Noise) -> Vec<Null> {
    let by_ratio = |name, baseline: f64, variant: f64| {
        let (baseline, variant) = (Variant::spread(baseline), Variant::spread(variant));
        Null { name, baseline, variant: paired(noise, baseline, variant), drift: 0.0 }
    };
    let by_medians = |name, baseline: f64, variant: f64| Null {
        name,
        baseline: centred(noise, Variant::spread(baseline)),
        variant: centred(noise, Variant::spread(variant)),
        drift: 0.0,
    };
    vec![
        Null { name: "identical", baseline: Variant::PLAIN, variant: Variant::PLAIN, drift: 0.0 },
        Null {
            name: "identical, twice as slow at the end",
            baseline: Variant::PLAIN,
            variant: Variant::PLAIN,
            drift: 2f64.ln(),
        },
        by_ratio("variant 3 times the spread", 1.0, 3.0),
        by_ratio("baseline 0.2, variant 2 times", 0.2, 2.0),
        by_ratio("baseline 2, variant 0.2 times", 2.0, 0.2),
        by_ratio("opposite skew", 1.0, -1.0),
        by_ratio("opposite skew, variant 3 times", 1.0, -3.0),
        by_medians("variants' medians equal, 0.2 and 2", 0.2, 2.0),
        by_medians("variants' medians equal, opposite skew", 1.0, -1.0),
    ]
}

/// Blocks that a time budget holds, where each campaign has one.
pub const LASTING: [f64; 3] = [8.0, 15.0, 40.0];

/// Campaigns on these variants that end when a time budget does, duration being what is compared.
pub fn budgeted(noise: &Noise, setting: &Setting, lasting: f64, many: u32, rng: &mut Rng) -> Campaigns {
    Simulation::new(noise, &InterimAnalyses::timed(MIN_BLOCKS, 10_000)).lasting(lasting).campaigns(setting, many, rng)
}

/// The variants of [`nulls`] whose ratio is known, with the variant slower by exactly the margin.
pub fn at_the_margin(noise: &Noise) -> Vec<Null> {
    let slower = |null: Null| Null { variant: null.variant.slower(MARGIN), ..null };
    nulls(noise).into_iter().filter(|null| !null.name.starts_with("variants'")).map(slower).collect()
}

/// What was tried inside randomised blocks, each at the family-wise error with Holm's correction.
pub const INSIDE: [&str; 5] =
    ["sign, both baselines", "signed-rank", "t on log-ratios", "permutation (ranks)", "sign, one baseline"];

/// Campaigns in which each of [`INSIDE`] claims a difference, with a fixed number of blocks.
pub fn inside(noise: &Noise, setting: &Setting, blocks: u32, many: u32, rng: &mut Rng) -> [Rate; 5] {
    let mut rates = [Rate::default(); 5];
    let analyses = InterimAnalyses::new(blocks, blocks);
    for _ in 0..many {
        let start = start(noise, setting, blocks, rng).expect(LONG);
        let values = draw(noise, setting, blocks, start, rng);
        let found = compare_family(&family(&values, &analyses));
        rates[0].count(found.iter().any(|c| c.verdict.is_difference()));
        // The first step of Holm's correction decides whether anything is claimed at all.
        let size = setting.variants.len();
        let each = ALPHA / size as f64;
        let any = |p: &dyn Fn(usize) -> f64| (2..size + 2).any(|k| p(k) <= each);
        let mean = |k: usize| values.iter().map(|v| v[k] - 0.5 * (v[0] + v[1])).collect::<Vec<f64>>();
        let single = |k: usize| values.iter().map(|v| v[k] - v[0]).collect::<Vec<f64>>();
        rates[1].count(any(&|k| rivals::signed_rank(&mean(k))));
        rates[2].count(any(&|k| rivals::t_test(&mean(k))));
        rates[3].count(any(&|k| {
            let above = values.iter().filter(|v| v[k] > v[0].max(v[1])).count();
            let below = values.iter().filter(|v| v[k] < v[0].min(v[1])).count();
            rivals::permutation(values.len(), above, below)
        }));
        rates[4].count(any(&|k| {
            let brackets: Vec<Bracket> = single(k).iter().map(|d| Bracket { low: *d, high: *d }).collect();
            SignTest::new(&brackets).p(0.0)
        }));
    }
    rates
}

/// How other tools judge: all runs of one, then all runs of the other.
pub const SEQUENTIAL: [&str; 4] = ["Welch, 5 %", "Mann-Whitney, 5 %", "bootstrap of means, 95 %", "1 % gate"];

/// Families in which each of [`SEQUENTIAL`] claims a difference between identical commands, or, with a slower
/// variant, detects it. No correction, as those tools make none.
pub fn sequential(noise: &Noise, variant: Variant, size: usize, runs: usize, many: u32, rng: &mut Rng) -> [Rate; 4] {
    let mut rates = [Rate::default(); 4];
    for _ in 0..many {
        let start = rng.below(noise.runs() - (size + 1) * runs);
        let values = |k: usize| -> Vec<f64> {
            let bent = if k == 0 { Variant::PLAIN } else { variant };
            (0..runs).map(|i| noise.log_value(start + k * runs + i, bent).exp()).collect()
        };
        let base = values(0);
        let mut hits = [false; 4];
        for k in 1..=size {
            let other = values(k);
            hits[0] |= rivals::welch(&other, &base) <= 0.05;
            hits[1] |= rivals::mann_whitney(&other, &base) <= 0.05;
            hits[2] |= rivals::bootstrap_differs(&other, &base, rng);
            hits[3] |= rivals::gate(&other, &base);
        }
        for (rate, hit) in rates.iter_mut().zip(hits) {
            rate.count(hit);
        }
    }
    rates
}
