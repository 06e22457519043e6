//! Plans the trials: blocks, order, seeds. The plan follows from the experiment and its seed alone.
//!
//! A block runs every variant once, in seeded random order (METHOD 4.1). Where there is a baseline, the block is cut
//! into sub-blocks of one stratum: the baseline, twice where it is asked, and at most five variants (METHOD 4.2), so
//! that compared variants run close together. Neither the order nor the seed of a block depends on how many blocks
//! follow, so that interim analyses and resumed runs get the same earlier ones.

mod data_size;
mod index_size;
mod outline;

use prony_model::crash::PlannedCut;
use prony_model::random::unit;
use prony_model::trial::{Label, PlannedTrial};
use prony_model::units::Nanos;
use xxhash_rust::xxh3::xxh3_64;

use crate::design::{Experiment, Variant};

pub use data_size::{DataBytes, data_bytes, least_value};
pub use index_size::index_bytes;
pub use outline::{Outline, Stratum, VariantOutline, outline, without_verdict};

/// Variants beside the baseline in one sub-block, at most (METHOD 4.2).
const MOST_BESIDE_BASELINE: usize = 5;

/// Every trial of the experiment, in the order in which they run, up to each variant's largest number of blocks.
pub fn plan(experiment: &Experiment) -> Vec<PlannedTrial> {
    let variants = experiment.variants();
    let blocks = variants.iter().map(|variant| variant.blocks.max).max().unwrap_or(0);
    let mut trials = Vec::new();
    for block in 0..blocks {
        let present: Vec<&Variant> = variants.iter().filter(|variant| variant.blocks.max > block).collect();
        let draw = Draw { seed: experiment.seed(), block };
        for (sub_block, runs) in sub_blocks(&present, experiment.compare().twice, draw).into_iter().enumerate() {
            for (variant, label) in runs {
                let position = trials.len() as u32;
                trials.push(PlannedTrial {
                    block,
                    sub_block: sub_block as u32,
                    position,
                    variant,
                    label,
                    seed: draw.trial_seed(),
                });
            }
        }
    }
    trials
}

/// The plan of a run that was interrupted: what it has done, in its order, and what is left.
///
/// A sub-block with a baseline that was cut short runs again from its start, under the next free number of its block:
/// compared trials run close together in time, not in two sessions (METHOD 4.11). Its finished trials remain, unpaired.
/// Without a baseline nothing is paired, and only what is missing runs.
pub fn resumed(experiment: &Experiment, done: &[PlannedTrial]) -> Vec<PlannedTrial> {
    let whole = plan(experiment);
    let part = |a: &PlannedTrial, b: &PlannedTrial| (a.block, a.sub_block) == (b.block, b.sub_block);
    let mut attempts = done.chunk_by(part);
    let mut left: Vec<PlannedTrial> = Vec::new();
    for sub_block in whole.chunk_by(part) {
        // Only the last of several attempts can be complete.
        let mut ran = 0;
        for attempt in attempts.by_ref() {
            ran = attempt.len();
            if ran == sub_block.len() {
                break;
            }
        }
        let missing = &sub_block[ran..];
        let paired = sub_block.iter().any(|trial| experiment.variants()[trial.variant].baseline);
        if paired && ran > 0 && !missing.is_empty() {
            let of_block = whole.iter().chain(done).filter(|trial| trial.block == sub_block[0].block);
            let next = of_block.map(|trial| trial.sub_block + 1).max().unwrap_or(0);
            left.extend(sub_block.iter().map(|trial| PlannedTrial { sub_block: next, ..*trial }));
        } else {
            left.extend(missing);
        }
    }
    let numbered = |(trial, position)| PlannedTrial { position, ..trial };
    done.iter().copied().chain(left.into_iter().zip(done.len() as u32..).map(numbered)).collect()
}

/// The seed of data and operation order in a block, and the order of its trials: the places of `count` things, for
/// searches, which plan a block at a time.
pub fn lone_block(seed: u64, block: u32, count: usize) -> (u64, Vec<usize>) {
    let draw = Draw { seed, block };
    let mut order: Vec<usize> = (0..count).collect();
    draw.shuffle("search", &mut order, |at| *at as u64);
    (draw.trial_seed(), order)
}

/// The trials that are profiled, one of each variant, to run after the plan's own; none where no profile is asked for.
///
/// They are no part of [`plan`], so that nothing that counts, judges or draws trials meets them. Each does the work of
/// its variant's trial in the first block.
pub fn profiles(experiment: &Experiment) -> Vec<PlannedTrial> {
    if experiment.observe().profile.is_none() {
        return Vec::new();
    }
    let after = plan(experiment).len() as u32;
    let seed = Draw { seed: experiment.seed(), block: 0 }.trial_seed();
    let trial = |variant: &Variant| PlannedTrial {
        block: 0,
        sub_block: 0,
        position: after + variant.id as u32,
        variant: variant.id,
        label: Label::A,
        seed,
    };
    experiment.variants().iter().map(trial).collect()
}

/// The cuts of all crash trials, to run after the plan's own trials; the first cut of every variant comes before the second.
///
/// The moments of a phase's cuts are spread evenly over its time: each part of it, as many as there are cuts, has one, at a
/// random place, and the parts are in random order. Cuts with the same number have the same seed and moment in all variants.
pub fn cuts(experiment: &Experiment) -> Vec<PlannedCut> {
    let crashes = experiment
        .variants()
        .iter()
        .flat_map(|variant| variant.spec.crashes.iter().enumerate().map(move |(at, crash)| (variant.id, at, crash)));
    let mut planned: Vec<PlannedCut> = Vec::new();
    for (variant, crash, spec) in crashes {
        let of_phase = Draw { seed: experiment.seed() ^ xxh3_64(spec.name.as_bytes()), block: 0 };
        let mut parts: Vec<u32> = (0..spec.cuts).collect();
        of_phase.shuffle("parts", &mut parts, |part| u64::from(*part));
        planned.extend(parts.into_iter().zip(0..).map(|(part, cut)| {
            let draw = Draw { block: cut, ..of_phase };
            let place = (f64::from(part) + unit(draw.number("moment", 0))) / f64::from(spec.cuts);
            let moment = Nanos::from_nanos((spec.within.as_nanos() as f64 * place) as u64);
            PlannedCut { variant, crash, cut, seed: draw.number("cut", 0), moment }
        }));
    }
    planned.sort_by_key(|planned| (planned.cut, planned.variant, planned.crash));
    planned
}

/// The variants (by index) of each sub-block in running order, with their labels.
fn sub_blocks(present: &[&Variant], twice: bool, draw: Draw) -> Vec<Vec<(usize, Label)>> {
    let mut strata: Vec<usize> = present.iter().map(|variant| variant.stratum).collect();
    strata.sort_unstable();
    strata.dedup();
    let mut parts = Vec::new();
    for stratum in strata {
        let of_stratum = || present.iter().filter(|variant| variant.stratum == stratum);
        let baseline = of_stratum().find(|variant| variant.baseline).map(|variant| variant.id);
        let mut rest: Vec<usize> = of_stratum().filter(|variant| !variant.baseline).map(|variant| variant.id).collect();
        draw.shuffle("variants", &mut rest, |id| *id as u64);
        let Some(baseline) = baseline else {
            parts.push(rest.into_iter().map(|id| (id, Label::A)).collect());
            continue;
        };
        for share in shares(&rest) {
            let mut runs: Vec<(usize, Label)> = share.iter().map(|id| (*id, Label::A)).collect();
            runs.push((baseline, Label::A));
            runs.extend(twice.then_some((baseline, Label::A2)));
            draw.shuffle("runs", &mut runs, |(id, label)| *id as u64 * 2 + u64::from(*label == Label::A2));
            parts.push(runs);
        }
    }
    let key = |part: &Vec<(usize, Label)>| part.iter().map(|(id, _)| *id as u64).fold(7, |a, b| a ^ mix(b));
    draw.shuffle("sub-blocks", &mut parts, key);
    parts
}

/// Cuts into as few shares as hold at most five each, as equal as can be; one empty share where there is nothing.
fn shares(rest: &[usize]) -> Vec<&[usize]> {
    let parts = rest.len().div_ceil(MOST_BESIDE_BASELINE).max(1);
    (0..parts).map(|part| &rest[rest.len() * part / parts..rest.len() * (part + 1) / parts]).collect()
}

/// The random number of one block: a hash of seed, block and what is drawn.
#[derive(Clone, Copy)]
struct Draw {
    seed: u64,
    block: u32,
}

impl Draw {
    fn number(self, purpose: &str, of: u64) -> u64 {
        let mut text = Vec::with_capacity(32);
        text.extend_from_slice(&self.seed.to_le_bytes());
        text.extend_from_slice(&self.block.to_le_bytes());
        text.extend_from_slice(&of.to_le_bytes());
        text.extend_from_slice(purpose.as_bytes());
        xxh3_64(&text)
    }

    fn trial_seed(self) -> u64 {
        self.number("trial", 0)
    }

    /// Sorts by the hashes of keys: each order is equally likely, whatever the initial order.
    fn shuffle<T>(self, purpose: &str, items: &mut [T], key: impl Fn(&T) -> u64) {
        items.sort_by_cached_key(|item| (self.number(purpose, key(item)), key(item)));
    }
}

fn mix(number: u64) -> u64 {
    xxh3_64(&number.to_le_bytes())
}

#[cfg(test)]
mod tests;
