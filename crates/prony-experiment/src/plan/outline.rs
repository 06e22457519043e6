//! The numbers of a plan, which `prony check` prints: variants, blocks, trials, records and bytes.

use crate::design::{Blocks, Experiment, Variant};
use prony_model::event::NoVerdict;
use prony_model::number;
use prony_model::spec::Subject;

use prony_stats::{MIN_BLOCKS, blocks_before_any_verdict};

use super::{data_bytes, index_bytes, plan, profiles};

/// The numbers of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Outline {
    /// Every variant, in the experiment's order.
    pub variants: Vec<VariantOutline>,
    /// The groups inside which variants are compared.
    pub strata: Vec<Stratum>,
    /// Blocks over all variants.
    pub blocks: Blocks,
    /// Trials of the least number of blocks.
    pub trials_min: u32,
    /// Trials of the greatest number of blocks.
    pub trials_max: u32,
    /// Trials of the first block, which has the most.
    pub trials_of_a_block: u32,
    /// Trials that are profiled, one a variant; in neither of the counts above.
    pub profiles: u32,
    /// Cuts of crash trials over all variants; in neither of the counts above.
    pub cuts: u32,
    /// Comparisons that get a verdict, the declared metrics counted: the family of the correction.
    pub family: u32,
}

/// The numbers of a variant.
#[derive(Clone, Debug, PartialEq)]
pub struct VariantOutline {
    /// Index into the experiment's variants.
    pub variant: usize,
    /// Factor and level, as text.
    pub levels: Vec<(String, String)>,
    /// Its stratum.
    pub stratum: usize,
    /// Whether it is the baseline of its stratum.
    pub baseline: bool,
    /// Blocks it runs in.
    pub blocks: Blocks,
    /// Trials at the greatest number of blocks; a baseline has more than blocks.
    pub trials: u32,
    /// Records of all collections; 0 without data.
    pub records: u64,
    /// Bytes of all keys, values and entries of indexes; an expectation where lengths are drawn.
    pub data_bytes: f64,
    /// Names of the phases, in order.
    pub phases: Vec<String>,
    /// Why it gets no verdict; `None` where it can get one, and for baselines.
    pub no_verdict: Option<String>,
}

/// Variants that are compared with one baseline.
#[derive(Clone, Debug, PartialEq)]
pub struct Stratum {
    /// Factor and level that its variants have in common because the baseline does not name them.
    pub levels: Vec<(String, String)>,
    /// Its baseline, where it has one.
    pub baseline: Option<usize>,
    /// Its variants, the baseline among them.
    pub variants: Vec<usize>,
}

/// The numbers of an experiment's plan.
pub fn outline(experiment: &Experiment) -> Outline {
    let trials = plan(experiment);
    let mut counts = vec![0u32; experiment.variants().len()];
    trials.iter().for_each(|trial| counts[trial.variant] += 1);
    let strata = strata(experiment);
    let variants: Vec<VariantOutline> =
        experiment.variants().iter().map(|variant| variant_outline(experiment, variant, counts[variant.id])).collect();
    let judged = variants.iter().filter(|variant| !variant.baseline && variant.no_verdict.is_none()).count();
    let metrics = experiment.compare().figures().len();
    let bound = |bound: fn(&Blocks) -> u32| variants.iter().map(|variant| bound(&variant.blocks)).max().unwrap_or(0);
    let blocks = Blocks { min: bound(|blocks| blocks.min), max: bound(|blocks| blocks.max) };
    let early = |variant: usize, block: u32| experiment.variants().get(variant).is_some_and(|v| block < v.blocks.min);
    Outline {
        trials_min: trials.iter().filter(|trial| early(trial.variant, trial.block)).count() as u32,
        trials_max: trials.len() as u32,
        trials_of_a_block: trials.iter().take_while(|trial| trial.block == 0).count() as u32,
        profiles: profiles(experiment).len() as u32,
        cuts: experiment
            .variants()
            .iter()
            .flat_map(|v| &v.spec.crashes)
            .fold(0, |sum, crash| sum.saturating_add(crash.cuts)),
        family: (judged * metrics) as u32,
        variants,
        strata,
        blocks,
    }
}

fn variant_outline(experiment: &Experiment, variant: &Variant, trials: u32) -> VariantOutline {
    let data = &variant.spec.data;
    let stored_bytes = |collection| {
        let entries = match &variant.spec.subject {
            Subject::Store(store) => index_bytes(collection, &store.indexes_of(collection)).mean,
            Subject::Program(_) | Subject::Services => 0.0,
        };
        data_bytes(collection).mean + entries
    };
    VariantOutline {
        variant: variant.id,
        levels: levels(experiment, variant, |_| true),
        stratum: variant.stratum,
        baseline: variant.baseline,
        blocks: variant.blocks,
        trials,
        records: data.iter().fold(0, |sum: u64, collection| sum.saturating_add(collection.records)),
        data_bytes: data.iter().map(stored_bytes).sum(),
        phases: variant.spec.phases.iter().map(|phase| phase.name.clone()).collect(),
        no_verdict: no_verdict(experiment, variant),
    }
}

/// What to do about too few blocks.
const MORE_BLOCKS: &str = "`prony run --blocks N` and `prony exec --runs N` set the number of blocks";

/// Why no comparison of a plan gets a verdict, or only one of a very large difference; `None` where verdicts can be
/// expected, or nothing is compared.
pub fn without_verdict(experiment: &Experiment, outline: &Outline) -> Option<NoVerdict> {
    let compare = experiment.compare();
    // How many blocks fit into a budget is not known before the run, which says it.
    if compare.baseline.is_empty() || compare.budget.is_some() {
        return None;
    }
    if outline.family == 0 {
        let why = outline.variants.iter().find_map(|variant| variant.no_verdict.as_deref());
        let why = why.unwrap_or("there is no variant beside the baseline");
        let hint = (outline.blocks.max < MIN_BLOCKS).then(|| MORE_BLOCKS.to_owned());
        return Some(NoVerdict { why: format!("no verdict is possible: {why}"), hint });
    }
    let analyses = compare.analyses(outline.blocks);
    let needed = blocks_before_any_verdict(outline.family as usize, compare.alpha.get(), &analyses);
    let blocks = number::count(outline.blocks.max, "block");
    let comparisons = number::count(outline.family, "comparison");
    needed.is_none().then(|| NoVerdict {
        why: format!("for {comparisons}, {blocks} show only differences far beyond the noise"),
        hint: Some(format!("{MORE_BLOCKS}; fewer comparisons need fewer blocks")),
    })
}

fn no_verdict(experiment: &Experiment, variant: &Variant) -> Option<String> {
    if variant.baseline {
        return None;
    }
    if let Some(baseline) = experiment.baseline_of(variant) {
        let blocks = variant.blocks.max.min(baseline.blocks.max);
        if blocks < MIN_BLOCKS {
            return Some(format!("{}; a verdict needs at least {MIN_BLOCKS}", number::count(blocks, "block")));
        }
    }
    match &experiment.compare().primary {
        Some(metric) => experiment.compared_with(variant, &metric.phase).err(),
        None => Some("no phase is timed".to_owned()),
    }
}

fn strata(experiment: &Experiment) -> Vec<Stratum> {
    let variants = experiment.variants();
    let count = variants.iter().map(|variant| variant.stratum + 1).max().unwrap_or(0);
    let named = &experiment.compare().baseline;
    let stratum = |index: usize| {
        let inside: Vec<&Variant> = variants.iter().filter(|variant| variant.stratum == index).collect();
        let common = |name: &str| !named.is_empty() && !named.contains_key(name);
        Stratum {
            levels: inside.first().map(|variant| levels(experiment, variant, common)).unwrap_or_default(),
            baseline: inside.iter().find(|variant| variant.baseline).map(|variant| variant.id),
            variants: inside.iter().map(|variant| variant.id).collect(),
        }
    };
    (0..count).map(stratum).collect()
}

fn levels(experiment: &Experiment, variant: &Variant, wanted: impl Fn(&str) -> bool) -> Vec<(String, String)> {
    let pairs = experiment.factors().iter().zip(&variant.levels);
    let label = |(factor, level): (&crate::design::Factor, &usize)| {
        let level = factor.levels.get(*level)?;
        wanted(&factor.name).then(|| (factor.name.clone(), level.label.clone()))
    };
    pairs.filter_map(label).collect()
}
