//! Numeric factors, and variants that differ in one of them only.

use std::collections::BTreeMap;

use prony_analysis::verdicts::names;
use prony_experiment::design::Experiment;

/// The factors against which growth can be drawn: numbers above zero, with two levels among the variants.
pub fn factors(experiment: &Experiment) -> Vec<usize> {
    let positive = |f: &usize| {
        let factor = &experiment.factors()[*f];
        factor.is_numeric() && factor.levels.iter().all(|l| l.number.is_some_and(|n| n > 0.0))
    };
    names::varying(experiment).into_iter().filter(positive).collect()
}

/// Variants alike in all but one factor, in the experiment's order: the name and the variants' indices.
pub fn series(experiment: &Experiment, factor: usize) -> Vec<(String, Vec<usize>)> {
    let other_factors: Vec<usize> = names::varying(experiment).into_iter().filter(|f| *f != factor).collect();
    let mut order: Vec<(String, Vec<usize>)> = Vec::new();
    let mut places: BTreeMap<Vec<usize>, usize> = BTreeMap::new();
    for (id, variant) in experiment.variants().iter().enumerate() {
        let key: Vec<usize> = other_factors.iter().map(|f| variant.levels[*f]).collect();
        let place = *places.entry(key).or_insert(order.len());
        if place == order.len() {
            order.push((names::levels(experiment, id, &other_factors), Vec::new()));
        }
        order[place].1.push(id);
    }
    order
}

/// The value of a factor in a variant.
pub fn number(experiment: &Experiment, factor: usize, variant: usize) -> Option<f64> {
    experiment.factors()[factor].levels[experiment.variants()[variant].levels[factor]].number
}
