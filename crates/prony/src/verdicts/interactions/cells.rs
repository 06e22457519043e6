//! The figures of variants block by block, as logarithms.

use std::collections::{BTreeMap, BTreeSet};

use prony_model::metric::{Better, MetricName};
use prony_model::record::TrialRecord;
use prony_stats::sign::{Bracket, SignTest};
use prony_stats::verdict::RatioInterval;
use prony_stats::{Cross, Estimate, MIN_BLOCKS};

use crate::verdicts::observe::{figure, in_one_go};
use prony_results::RunData;

/// Error of an effect's interval.
const EFFECT: f64 = 0.05;

/// What a variant's trials of one block say: the logarithms as they are, and beside their sub-block's baseline. Empty
/// where it ran and has no figure.
#[derive(Clone, Debug, Default)]
struct Cell {
    plain: Vec<f64>,
    relative: Vec<f64>,
}

/// The figures of one metric by variant and block.
#[derive(Clone, Debug)]
pub(super) struct Cells(BTreeMap<(usize, u32), Cell>);

impl Cells {
    /// Of all blocks that were not interrupted; without some variants.
    pub(super) fn of(data: &RunData, metric: &MetricName, without: &[usize]) -> Self {
        let mut cells: BTreeMap<(usize, u32), Cell> = BTreeMap::new();
        let mut by_block: BTreeMap<u32, Vec<&TrialRecord>> = BTreeMap::new();
        data.trials.iter().for_each(|trial| by_block.entry(trial.trial.block).or_default().push(trial));
        for (block, trials) in by_block.into_iter().filter(|(_, trials)| in_one_go(trials)) {
            let logs: Vec<(&TrialRecord, f64)> = trials.iter().filter_map(|t| Some((*t, log(t, metric)?))).collect();
            let baselines = baselines(data, &logs);
            for trial in trials.iter().filter(|t| !without.contains(&t.trial.variant)) {
                let cell = cells.entry((trial.trial.variant, block)).or_default();
                let Some(log) = log(trial, metric) else { continue };
                cell.plain.push(log);
                cell.relative.extend(baselines.get(&place(data, trial)).map(|baseline| log - baseline));
            }
        }
        Self(cells)
    }

    fn logs(&self, variant: usize, block: u32, relative: bool) -> Option<&[f64]> {
        let cell = self.0.get(&(variant, block))?;
        let logs = if relative { &cell.relative } else { &cell.plain };
        (!logs.is_empty()).then_some(logs)
    }

    fn mean(&self, variant: usize, block: u32, relative: bool) -> Option<f64> {
        self.logs(variant, block, relative).map(mean)
    }

    fn blocks_of(&self, variant: usize) -> impl Iterator<Item = u32> + '_ {
        self.0.range((variant, 0)..=(variant, u32::MAX)).map(|((_, block), _)| *block)
    }

    /// The blocks in which all four corners have a figure; beside their sub-block's baseline, or as they are.
    pub(super) fn crosses(&self, corners: [usize; 4], relative: bool) -> Vec<Cross> {
        let cross = |block: u32| {
            let at = |corner: usize| self.mean(corners[corner], block, relative).map(f64::exp);
            Some(Cross { neither: at(0)?, first: at(1)?, second: at(2)?, both: at(3)? })
        };
        self.blocks_of(corners[3]).filter_map(cross).collect()
    }

    /// The blocks in which any of the corners ran.
    pub(super) fn ran(&self, corners: [usize; 4]) -> u32 {
        corners.iter().flat_map(|corner| self.blocks_of(*corner)).collect::<BTreeSet<u32>>().len() as u32
    }

    /// A variant as a multiple of another; `None` below the least number of blocks.
    pub(super) fn effect(&self, variant: usize, reference: usize, relative: bool) -> Option<Estimate> {
        let bracket = |block: u32| {
            let baselines = self.logs(reference, block, relative)?;
            Some(Bracket::of(self.mean(variant, block, relative)?, baselines))
        };
        let test = SignTest::new(&self.blocks_of(variant).filter_map(bracket).collect::<Vec<_>>());
        let ratio = test.estimate().filter(|_| test.blocks() >= MIN_BLOCKS)?.exp();
        Some(Estimate { ratio, interval: RatioInterval::from_log_cost(test.interval(EFFECT), Better::Lower) })
    }
}

/// Where a trial ran: its sub-block and its stratum.
fn place(data: &RunData, trial: &TrialRecord) -> (u32, usize) {
    (trial.trial.sub_block, data.experiment.variants()[trial.trial.variant].stratum)
}

/// The mean of the baselines' logarithms in each place of a block.
fn baselines(data: &RunData, logs: &[(&TrialRecord, f64)]) -> BTreeMap<(u32, usize), f64> {
    let mut all: BTreeMap<(u32, usize), Vec<f64>> = BTreeMap::new();
    for (trial, log) in logs.iter().filter(|(t, _)| data.experiment.variants()[t.trial.variant].baseline) {
        all.entry(place(data, trial)).or_default().push(*log);
    }
    all.into_iter().map(|(place, logs)| (place, mean(&logs))).collect()
}

fn log(trial: &TrialRecord, metric: &MetricName) -> Option<f64> {
    figure(trial, metric).filter(|value| *value > 0.0 && value.is_finite()).map(f64::ln)
}

fn mean(logs: &[f64]) -> f64 {
    logs.iter().sum::<f64>() / logs.len() as f64
}
