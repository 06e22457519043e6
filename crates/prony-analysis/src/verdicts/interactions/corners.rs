//! Finds groups of four variants that combine two levels of one factor with two levels of another (the corners of an
//! interaction).

use prony_experiment::design::Experiment;

use crate::verdicts::names::{levels, varying};

/// Two factors, by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Roles {
    /// The factor whose effect is compared.
    pub(super) of: usize,
    /// On whose level it may depend.
    pub(super) on: usize,
    /// Whether the baseline names one of them, so that what is compared in one block ran beside the same baseline.
    pub(super) relative: bool,
}

/// Each pair of factors that vary, once. The effect is that of the factor which the baseline names: it is what the
/// verdicts speak of. Where it names both or neither, it is that of the later one in the file.
pub(super) fn roles(experiment: &Experiment) -> Vec<Roles> {
    let varying = varying(experiment);
    let named = |factor: usize| experiment.compare().baseline.contains_key(&experiment.factors()[factor].name);
    let pair = |first: usize, second: usize| {
        let (of, on) = if named(first) && !named(second) { (first, second) } else { (second, first) };
        Roles { of, on, relative: named(first) || named(second) }
    };
    let after = |at: usize| varying[at + 1..].iter().copied();
    varying.iter().enumerate().flat_map(|(at, first)| after(at).map(move |second| pair(*first, second))).collect()
}

/// The reference level: the baseline's where it names one, else the first.
fn reference(experiment: &Experiment, factor: usize) -> usize {
    let factor = &experiment.factors()[factor];
    let named = experiment.compare().baseline.get(&factor.name);
    named.and_then(|label| factor.levels.iter().position(|level| level.label == *label)).unwrap_or(0)
}

/// The corners `[neither, first, second, both]` for each further level of both factors at each setting of all remaining
/// factors, as indices of variants: those that the design has.
pub(super) fn contexts(experiment: &Experiment, roles: Roles) -> Vec<[usize; 4]> {
    let (of, on) = (reference(experiment, roles.of), reference(experiment, roles.on));
    let corner = |like: &[usize], of: usize, on: usize| {
        let mut levels = like.to_vec();
        (levels[roles.of], levels[roles.on]) = (of, on);
        experiment.variants().iter().position(|v| v.levels == levels)
    };
    let both = experiment.variants().iter().filter(|v| v.levels[roles.of] != of && v.levels[roles.on] != on);
    let corners = both.filter_map(|v| {
        let (further, other) = (v.levels[roles.of], v.levels[roles.on]);
        Some([corner(&v.levels, of, on)?, corner(&v.levels, further, on)?, corner(&v.levels, of, other)?, v.id])
    });
    corners.collect()
}

/// Pairs of variants that differ like `reference` and `variant`, one for each level of the other factor.
pub(super) fn pairs(experiment: &Experiment, roles: Roles, reference: usize, variant: usize) -> Vec<(usize, usize)> {
    let at = |like: usize, level: usize| {
        let mut levels = experiment.variants()[like].levels.clone();
        levels[roles.on] = level;
        experiment.variants().iter().position(|v| v.levels == levels)
    };
    let all = 0..experiment.factors()[roles.on].levels.len();
    all.filter_map(|level| Some((at(reference, level)?, at(variant, level)?))).collect()
}

/// The levels of the other factors that vary.
pub(super) fn other_levels(experiment: &Experiment, roles: Roles, variant: usize) -> String {
    let factors: Vec<usize> = varying(experiment).into_iter().filter(|f| *f != roles.of && *f != roles.on).collect();
    levels(experiment, variant, &factors)
}
