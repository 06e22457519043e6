//! Chooses the colours, symbols and names of variants in charts, and which of many variants are shown at first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use prony_experiment::design::{Experiment, Variant};

use super::numeric;
use crate::plot::chart::{COLOURS, Choice, Control, Does, Series, Style};
use prony_analysis::verdicts::names;

/// More variants make a chart unreadable.
const READABLE: usize = 6;

/// Each of these variants as a series of its own.
///
/// Colours distinguish the levels of one factor: of those in which variants are compared, the one with the most levels
/// that colours suffice for; dashes and symbols distinguish variants of one colour. The level of the baselines has the
/// colour of text.
pub fn of_variants(experiment: &Experiment, shown: &[usize]) -> Vec<Series> {
    let variants: Vec<&Variant> = shown.iter().map(|v| &experiment.variants()[*v]).collect();
    let levels = |f: &usize| variants.iter().map(|v| v.levels[*f]).collect::<BTreeSet<_>>().len();
    let differ = |f: usize, a: &Variant| variants.iter().any(|b| a.stratum == b.stratum && a.levels[f] != b.levels[f]);
    let compared = |f: &usize| variants.iter().any(|a| differ(*f, a));
    let suited = names::varying(experiment).into_iter().filter(|f| (2..=COLOURS + 1).contains(&levels(f)));
    let factor = suited.min_by_key(|f| (!compared(f), Reverse(levels(f))));
    let level = |v: &Variant| factor.map_or(v.id, |f| v.levels[f]);
    let bases: BTreeSet<usize> = variants.iter().copied().filter(|v| v.baseline).map(level).collect();
    let is_base = |v: &Variant| bases.len() == 1 && bases.contains(&level(v));
    let coloured: BTreeSet<usize> = variants.iter().copied().filter(|v| !is_base(v)).map(level).collect();
    let mut used: BTreeMap<Option<usize>, usize> = BTreeMap::new();
    let series = |v: &Variant| {
        let rank = coloured.iter().position(|l| *l == level(v));
        let colour = rank.map(|rank| rank % COLOURS);
        let nth = used.entry(colour).or_default();
        let style = Style { colour, dash: *nth, symbol: rank.map_or(0, |rank| rank + 1) + *nth };
        *nth += 1;
        Series {
            name: names::variant(experiment, v.id),
            style,
            baseline: v.baseline,
            variants: vec![v.id],
            when: Vec::new(),
        }
    };
    variants.into_iter().map(series).collect()
}

/// A choice of one stratum among many variants: within it they are compared. At first it is one with a comparison, the last
/// where strata differ in a size, since the largest says the most.
pub fn among(experiment: &Experiment, variants: impl IntoIterator<Item = usize>) -> Option<Control> {
    let all = experiment.variants();
    let variants: BTreeSet<usize> = variants.into_iter().collect();
    let mut strata: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for variant in &variants {
        strata.entry(all[*variant].stratum).or_default().push(*variant);
    }
    if variants.len() <= READABLE || strata.len() < 2 {
        return None;
    }
    let same = |f: &usize| strata.values().all(|of| of.iter().all(|v| all[*v].levels[*f] == all[of[0]].levels[*f]));
    let shared: Vec<usize> = names::varying(experiment).into_iter().filter(same).collect();
    let sizes = numeric::factors(experiment).iter().any(|f| shared.contains(f));
    let mut several = strata.values().enumerate().filter(|(_, of)| of.len() > 1).map(|(at, _)| at);
    let chosen = if sizes { several.next_back() } else { several.next() }.unwrap_or(0);
    let name = |stratum: usize, variant: usize| match names::levels(experiment, variant, &shared) {
        name if name.is_empty() => format!("stratum {}", stratum + 1),
        name => name,
    };
    let option =
        |(stratum, of): (usize, Vec<usize>)| Choice { variants: of.clone(), ..Choice::new(name(stratum, of[0])) };
    let options = strata.into_iter().map(option).chain([Choice::new("all variants")]).collect();
    Some(Control { label: "Among", does: Does::Restrict, options, chosen })
}

/// Names of some variants, by the levels in which they differ.
pub(crate) fn short_names(experiment: &Experiment, shown: &[usize]) -> Vec<String> {
    let variants = experiment.variants();
    let differs = |f: &usize| shown.iter().any(|v| variants[*v].levels[*f] != variants[shown[0]].levels[*f]);
    let factors: Vec<usize> = names::varying(experiment).into_iter().filter(differs).collect();
    let name = |v: &usize| match factors.as_slice() {
        [] => names::variant(experiment, *v),
        [one] => experiment.factors()[*one].levels[variants[*v].levels[*one]].label.clone(),
        several => names::levels(experiment, *v, several),
    };
    shown.iter().map(name).collect()
}
