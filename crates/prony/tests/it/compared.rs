//! Test support: made-up experiments with a baseline, and the trials of their plans.

use std::collections::BTreeMap;
use std::sync::Arc;

use prony_experiment::design::Experiment;
use prony_model::record::{Effective, EffectiveProgram, TrialRecord};
use prony_model::trial::Label;
use serde_json::{Value, json};

use crate::synthetic::{key, trial};

/// The experiment with the level `label` of `factor` as the baseline in each combination of the other factors.
pub(crate) fn against(experiment: &Experiment, factor: &str, label: &str) -> Experiment {
    let at = experiment.factors().iter().position(|f| f.name == factor).unwrap();
    let level = experiment.factors()[at].levels.iter().position(|l| l.label == label).unwrap();
    let mut strata: BTreeMap<Vec<usize>, usize> = BTreeMap::new();
    edited(experiment, |json| {
        json["compare"]["baseline"] = json!({ factor: label });
        json["compare"]["twice"] = json!(true);
        for (variant, of) in json["variants"].as_array_mut().unwrap().iter_mut().zip(experiment.variants()) {
            let other_levels = of.levels.iter().enumerate().filter(|(f, _)| *f != at).map(|(_, l)| *l).collect();
            let next = strata.len();
            variant["stratum"] = json!(*strata.entry(other_levels).or_insert(next));
            variant["baseline"] = json!(of.levels[at] == level);
        }
    })
}

/// The experiment changed as JSON.
pub(crate) fn edited(experiment: &Experiment, edit: impl FnOnce(&mut Value)) -> Experiment {
    let mut json = serde_json::to_value(experiment).unwrap();
    edit(&mut json);
    serde_json::from_value(json).unwrap()
}

/// Every trial of so many blocks, the baselines twice, each filled by `fill`.
pub(crate) fn trials(experiment: &Experiment, blocks: u32, mut fill: impl FnMut(&mut TrialRecord)) -> Vec<TrialRecord> {
    let mut trials = Vec::new();
    for block in 0..blocks {
        for variant in experiment.variants() {
            let labels: &[Label] = if variant.baseline { &[Label::A, Label::A2] } else { &[Label::A] };
            for label in labels {
                let mut record = trial(trials.len() as u32, block, variant.id);
                record.trial.label = *label;
                record.trial.sub_block = variant.stratum as u32;
                fill(&mut record);
                trials.push(record);
            }
        }
    }
    trials
}

/// What a program is that prints its time of `write` with half a digit of so many nanoseconds.
pub(crate) fn printing(half: f64) -> Effective {
    let resolution = BTreeMap::from([("write".to_owned(), BTreeMap::from([(key("time"), half)]))]);
    Effective::Program(Arc::new(EffectiveProgram { resolution, ..EffectiveProgram::default() }))
}
