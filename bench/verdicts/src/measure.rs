//! What is counted over many campaigns.

use std::fmt;

use prony_core::stats::sign::{Bracket, SignTest};
use prony_core::stats::{Comparison, Looks, Verdict, binomial_interval, compare_family};

use crate::campaign::{ALPHA, Setting, draw, family, run, start};
use crate::noise::{Arm, Noise};
use crate::rivals;
use crate::rng::Rng;

/// How often something happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rate {
    /// Times it happened.
    pub hits: u32,
    /// Times it could have.
    pub of: u32,
}

impl Rate {
    fn count(&mut self, hit: bool) {
        self.hits += u32::from(hit);
        self.of += 1;
    }

    /// The exact 95 % interval.
    pub fn bounds(self) -> (f64, f64) {
        binomial_interval(self.hits, self.of, 0.95)
    }
}

impl fmt::Display for Rate {
    /// `3.2 % (2.5 to 4.1)`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (low, high) = self.bounds();
        let share = 100.0 * f64::from(self.hits) / f64::from(self.of.max(1));
        write!(f, "{share:.1} % ({:.1} to {:.1})", 100.0 * low, 100.0 * high)
    }
}

/// Arms between which there is no difference, and how they are made.
pub struct Null {
    /// What it is called in the tables.
    pub name: &'static str,
    baseline: Arm,
    variant: Arm,
    drift: f64,
}

impl Null {
    /// A family of so many such comparisons.
    pub fn setting(&self, size: usize) -> Setting {
        Setting { drift: self.drift, ..Setting::of(self.baseline, self.variant, size) }
    }
}

/// Every way of being equal: identical; identical under drift; median ratio 1 with unequal spread and skew; and arms
/// whose own medians agree, which is not quite the same (`docs/verdicts.md`).
pub fn nulls(noise: &Noise) -> Vec<Null> {
    let paired = |name, baseline: f64, variant: f64| {
        let (baseline, variant) = (Arm::spread(baseline), Arm::spread(variant));
        Null { name, baseline, variant: noise.paired(baseline, variant), drift: 0.0 }
    };
    let centred = |name, baseline: f64, variant: f64| Null {
        name,
        baseline: noise.centred(Arm::spread(baseline)),
        variant: noise.centred(Arm::spread(variant)),
        drift: 0.0,
    };
    vec![
        Null { name: "identical", baseline: Arm::PLAIN, variant: Arm::PLAIN, drift: 0.0 },
        Null {
            name: "identical, twice as slow at the end",
            baseline: Arm::PLAIN,
            variant: Arm::PLAIN,
            drift: 2f64.ln(),
        },
        paired("variant 3 times the spread", 1.0, 3.0),
        paired("baseline 0.2, variant 2 times", 0.2, 2.0),
        paired("baseline 2, variant 0.2 times", 2.0, 0.2),
        paired("opposite skew", 1.0, -1.0),
        paired("opposite skew, variant 3 times", 1.0, -3.0),
        centred("arms' medians equal, 0.2 and 2", 0.2, 2.0),
        centred("arms' medians equal, opposite skew", 1.0, -1.0),
    ]
}

/// What became of many campaigns.
#[derive(Clone, Copy, Debug, Default)]
pub struct Campaigns {
    /// Campaigns with at least one claim of a difference.
    pub any_difference: Rate,
    /// First comparisons in which a difference was claimed and the variant is the slower.
    pub worse: Rate,
    /// First comparisons judged worse by more than the margin.
    pub beyond_margin: Rate,
    /// First comparisons judged no different.
    pub no_difference: Rate,
    /// Blocks used, over all campaigns.
    pub blocks: u64,
}

impl Campaigns {
    /// Mean blocks of a campaign.
    pub fn mean_blocks(&self) -> f64 {
        self.blocks as f64 / f64::from(self.any_difference.of.max(1))
    }

    fn add(&mut self, found: &[Comparison]) {
        self.any_difference.count(found.iter().any(|c| c.verdict.is_difference()));
        let first = &found[0];
        self.worse.count(seen_slower(first));
        self.beyond_margin.count(first.verdict == Verdict::Worse);
        self.no_difference.count(first.verdict == Verdict::NoDifference);
        self.blocks += u64::from(first.blocks);
    }
}

/// Whether a difference is claimed and the variant is the slower; it may lie within the margin.
fn seen_slower(c: &Comparison) -> bool {
    c.verdict.is_difference() && c.ratio.measured().is_none_or(|ratio| *ratio > 1.0)
}

/// Runs many campaigns.
pub fn campaigns(noise: &Noise, setting: &Setting, looks: &Looks, many: u32, rng: &mut Rng) -> Campaigns {
    let mut all = Campaigns::default();
    for _ in 0..many {
        all.add(&run(noise, setting, looks, rng));
    }
    all
}

/// How often the smallest effect that one campaign on identical arms advertises is seen by a second: on the same
/// runs in a new random order, or anywhere in the recording; and the median of what was advertised.
pub fn advertised(noise: &Noise, size: usize, blocks: u32, same: bool, many: u32, rng: &mut Rng) -> (Rate, f64) {
    let looks = Looks::new(blocks, blocks);
    let (mut seen, mut effects) = (Rate::default(), Vec::new());
    for _ in 0..many {
        let mut setting = Setting::of(Arm::PLAIN, Arm::PLAIN, size);
        let here = start(noise, &setting, blocks, rng);
        let pilot = compare_family(&family(&draw(noise, &setting, blocks, here, rng), &looks));
        let Some(effect) = pilot[0].smallest_effect.measured().copied() else { continue };
        setting.variants[0] = Arm::PLAIN.slower(effect);
        let there = if same { here } else { start(noise, &setting, blocks, rng) };
        let found = compare_family(&family(&draw(noise, &setting, blocks, there, rng), &looks));
        seen.count(seen_slower(&found[0]));
        effects.push(effect);
    }
    (seen, if effects.is_empty() { f64::NAN } else { crate::noise::median(&effects) })
}

/// What was tried inside randomised blocks, each at the family-wise error with Holm's correction.
pub const INSIDE: [&str; 5] =
    ["sign, both baselines", "signed-rank", "t on log-ratios", "permutation (ranks)", "sign, one baseline"];

/// Campaigns in which each of [`INSIDE`] claims a difference, with a fixed number of blocks.
pub fn inside(noise: &Noise, setting: &Setting, blocks: u32, many: u32, rng: &mut Rng) -> [Rate; 5] {
    let mut rates = [Rate::default(); 5];
    let looks = Looks::new(blocks, blocks);
    for _ in 0..many {
        let start = start(noise, setting, blocks, rng);
        let values = draw(noise, setting, blocks, start, rng);
        let found = compare_family(&family(&values, &looks));
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
/// variant, sees it. No correction, as those tools make none.
pub fn sequential(noise: &Noise, variant: Arm, size: usize, runs: usize, many: u32, rng: &mut Rng) -> [Rate; 4] {
    let mut rates = [Rate::default(); 4];
    for _ in 0..many {
        let start = rng.below(noise.runs() - (size + 1) * runs);
        let arm = |k: usize| -> Vec<f64> {
            let bent = if k == 0 { Arm::PLAIN } else { variant };
            (0..runs).map(|i| noise.seen(start + k * runs + i, bent).exp()).collect()
        };
        let base = arm(0);
        let mut hits = [false; 4];
        for k in 1..=size {
            let other = arm(k);
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
