//! The floor: a variant that does the same work on the bare engine. The floor of a variant has the levels that
//! `[compare] floor` names, and the variant's own levels of all other factors.

use std::collections::BTreeMap;

use super::combine::{self, Combination};
use super::design::Experiment;
use super::factors::FactorDef;
use super::node::{Node, RawExperiment};
use super::problem::{Problem, Problems};
use prony_model::catalog::Overrides;

impl Experiment {
    /// The floor of a variant, by index: the levels that `[compare] floor` names, and its own of every other factor. A
    /// floor's own is itself; `None` where the file names no floor, or none runs at these levels.
    pub fn floor_of(&self, variant: usize) -> Option<usize> {
        if self.compare().floor.is_empty() {
            return None;
        }
        let mut levels = self.variants().get(variant)?.levels.clone();
        for (name, label) in &self.compare().floor {
            let at = self.factors().iter().position(|factor| factor.name == *name)?;
            levels[at] = self.factors()[at].levels.iter().position(|level| level.label == *label)?;
        }
        self.variants().iter().position(|other| other.levels == levels)
    }
}

/// Reads `[compare] floor`: factor -> level, by index.
pub(crate) fn read(
    raw: &RawExperiment,
    factors: &[FactorDef],
    combinations: &[Combination],
    overrides: &Overrides,
    problems: &mut Problems<'_>,
) -> BTreeMap<usize, usize> {
    let node = raw.root.at(["compare", "floor"]);
    let floor = combine::named(factors, node, problems);
    // A faulty floor was reported already, and a level that the command line removes is no fault.
    let sound = node.and_then(Node::table).is_some_and(|entries| !floor.is_empty() && entries.len() == floor.len());
    let narrowed = !overrides.only.is_empty() || !overrides.set.is_empty();
    if let (Some(node), true) = (node, sound && !narrowed && !combinations.is_empty()) {
        let fault = |(message, hint): (&str, &str)| Problem::new(node.span.clone(), message).hint(hint);
        fault_of(combinations, &floor).map(fault).into_iter().for_each(|problem| problems.add(problem));
    }
    floor
}

/// The fault of a floor among the variants that run, and a hint.
fn fault_of(combinations: &[Combination], floor: &BTreeMap<usize, usize>) -> Option<(&'static str, &'static str)> {
    let is_floor = |levels: &&Combination| combine::is_baseline(levels, floor);
    let like = |levels: &Combination| {
        let level = |(at, level): (usize, &usize)| floor.get(&at).copied().unwrap_or(*level);
        levels.iter().enumerate().map(level).collect::<Combination>()
    };
    if !combinations.iter().any(|levels| is_floor(&levels)) {
        let hint = "`[design]` excludes these levels: name other levels, or let these run";
        return Some(("no variant is the floor, so nothing can be compared with it", hint));
    }
    let mut measured = combinations.iter().filter(|levels| !is_floor(levels));
    if !measured.any(|levels| combinations.contains(&like(levels))) {
        let hint = "let the floor run at the levels of other variants, or name the levels of more factors in `floor`";
        return Some((
            "no other variant has the floor's levels of the other factors, so nothing can be compared with the floor",
            hint,
        ));
    }
    None
}
