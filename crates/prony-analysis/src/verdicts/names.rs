//! Names of variants in sentences: by the levels of the factors that distinguish them.

use prony_experiment::design::Experiment;

/// The names of a variant and its baseline in a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// The levels in which the variant differs: `store=redb`.
    pub variant: String,
    /// The baseline's levels of the same factors: `store=lmdb`.
    pub baseline: String,
    /// Levels that both share and other variants do not: `documents=1000`; empty where there are none.
    pub at: String,
}

impl Names {
    /// Of two variants, by index.
    pub fn of(experiment: &Experiment, variant: usize, baseline: usize) -> Self {
        let (v, b) = (&experiment.variants()[variant].levels, &experiment.variants()[baseline].levels);
        let (differ, same): (Vec<usize>, Vec<usize>) = varying(experiment).into_iter().partition(|f| v[*f] != b[*f]);
        Self {
            variant: levels(experiment, variant, &differ),
            baseline: levels(experiment, baseline, &differ),
            at: levels(experiment, variant, &same),
        }
    }
}

/// The factors that have several levels among the variants, by index.
pub fn varying(experiment: &Experiment) -> Vec<usize> {
    let variants = experiment.variants();
    let varies = |factor: &usize| variants.iter().any(|v| v.levels[*factor] != variants[0].levels[*factor]);
    (0..experiment.factors().len()).filter(varies).collect()
}

/// The factor whose levels are commands as they were typed, which need no name before them.
pub const COMMAND: &str = "command";

/// A level with its factor: `store=redb`.
pub fn level(factor: &str, label: &str) -> String {
    if factor == COMMAND { label.to_owned() } else { format!("{factor}={label}") }
}

/// The variant by the levels of some factors: `store=redb, documents=1000`.
pub fn levels(experiment: &Experiment, variant: usize, factors: &[usize]) -> String {
    let levels = &experiment.variants()[variant].levels;
    let level = |factor: &usize| {
        let factor_of = &experiment.factors()[*factor];
        let label = &factor_of.levels[levels[*factor]].label;
        self::level(&factor_of.name, label)
    };
    factors.iter().map(level).collect::<Vec<_>>().join(", ")
}

/// The variant by every factor that varies; by the labels only where one factor does. `all` where none does.
pub fn variant(experiment: &Experiment, variant: usize) -> String {
    match varying(experiment).as_slice() {
        [] => "all".to_owned(),
        [one] => {
            let level = experiment.variants()[variant].levels[*one];
            experiment.factors()[*one].levels[level].label.clone()
        }
        several => levels(experiment, variant, several),
    }
}
