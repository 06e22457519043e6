//! Combines the trials of each variant and block into the effects that interactions compare.

use std::collections::{BTreeMap, BTreeSet};

use prony_model::metric::{Better, MetricName};
use prony_model::record::TrialRecord;
use prony_stats::contrast::UNCORRECTED;
use prony_stats::{Block, Contrast, Estimate, MIN_BLOCKS, Observation};

use crate::guard::findings::variant_trials;
use crate::guard::reported_values;
use crate::verdicts::observe::{figure, is_of_one_session, is_stepped};
use prony_model::units::Unit;
use prony_results::RunData;

/// Where a trial ran: its block, its sub-block and its stratum.
type Place = (u32, u32, usize);

/// Weights of the logarithms of trials, by the trial's place in the record.
type Weights = BTreeMap<usize, f64>;

/// The trials of one metric by variant and block.
#[derive(Clone, Debug)]
pub(super) struct Cells<'a> {
    data: &'a RunData,
    /// The values above zero, by trial.
    figures: BTreeMap<usize, Observation>,
    by_variant: BTreeMap<(usize, u32), Vec<usize>>,
    /// That of the metric.
    unit: Unit,
    /// For each variant the rounding error of the values that its program prints, as a share of its typical value.
    hidden: Vec<f64>,
    /// The trials of baselines that have a value.
    baselines: BTreeMap<Place, Vec<usize>>,
    /// The blocks that several sessions ran: in these, only trials of the same sub-block met the machine in the same
    /// state.
    split: BTreeSet<u32>,
}

impl<'a> Cells<'a> {
    /// Of all blocks; without some variants.
    pub(super) fn of(data: &'a RunData, metric: &MetricName, without: &[usize]) -> Self {
        let of = |variant| reported_values::hidden(&variant_trials(&data.experiment, &data.trials, variant), metric);
        let hidden = data.experiment.variants().iter().map(of).collect();
        let mut by_block: BTreeMap<u32, Vec<&TrialRecord>> = BTreeMap::new();
        data.trials.iter().for_each(|trial| by_block.entry(trial.trial.block).or_default().push(trial));
        by_block.retain(|_, trials| !is_of_one_session(trials.iter().copied()));
        let split = by_block.into_keys().collect();
        let (figures, by_variant, baselines) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let unit = metric.key.metric.unit();
        let mut cells = Self { data, figures, by_variant, unit, hidden, baselines, split };
        // A variant of which a value is 0 has no effect that is a ratio: the other blocks would be those with larger values.
        let nothing = data.trials.iter().filter(|trial| figure(trial, metric) == Some(0.0));
        let without: BTreeSet<usize> =
            nothing.map(|trial| trial.trial.variant).chain(without.iter().copied()).collect();
        for (at, trial) in data.trials.iter().enumerate() {
            let figure = figure(trial, metric).filter(|value| *value > 0.0 && value.is_finite());
            let observed = figure.map(|figure| Observation::Value(figure).within(trial.uncertainty(metric)));
            cells.figures.extend(observed.map(|observed| (at, observed)));
            if figure.is_some() && data.experiment.variants()[trial.trial.variant].baseline {
                cells.baselines.entry(cells.place(at)).or_default().push(at);
            }
            if !without.contains(&trial.trial.variant) {
                cells.by_variant.entry((trial.trial.variant, trial.trial.block)).or_default().push(at);
            }
        }
        cells
    }

    fn place(&self, trial: usize) -> Place {
        let trial = &self.data.trials[trial].trial;
        (trial.block, trial.sub_block, self.data.experiment.variants()[trial.variant].stratum)
    }

    /// The weights of the trial's own value, or of its difference from the mean of its sub-block's baselines. `None`
    /// where one of these has no value, and for the trial's own value in a block of several sessions.
    fn weights(&self, trial: usize, relative: bool) -> Option<Weights> {
        self.figures.get(&trial)?;
        let own = Weights::from([(trial, 1.0)]);
        if !relative {
            return (!self.split.contains(&self.data.trials[trial].trial.block)).then_some(own);
        }
        let baselines = self.baselines.get(&self.place(trial))?;
        let share = 1.0 / baselines.len() as f64;
        Some(add([(1.0, &own), (-share, &baselines.iter().map(|baseline| (*baseline, 1.0)).collect())]))
    }

    /// A variant's trials of a block that have a value, of one sub-block: one, or the two of a baseline. Relative to baselines, the value
    /// of a baseline is 0.
    fn each(&self, variant: usize, block: u32, relative: bool) -> Vec<Weights> {
        let trials = self.by_variant.get(&(variant, block)).into_iter().flatten();
        let each = trials.filter_map(|trial| Some((self.place(*trial), self.weights(*trial, relative)?)));
        let mut each: Vec<(Place, Weights)> = each.collect();
        if relative && self.data.experiment.variants()[variant].baseline {
            return each.into_iter().take(1).map(|_| Weights::new()).collect();
        }
        let first = each.iter().map(|(place, _)| *place).min();
        each.retain(|(place, _)| Some(*place) == first);
        each.into_iter().map(|(_, weights)| weights).collect()
    }

    /// The sums of these variants' trials of a block times the signs: with the first trial of each baseline, and with the second. `None`
    /// where a variant has no value.
    ///
    /// A mean of two trials varies less than one trial, so that under skewed noise the median of a sum with it is not 0 where all
    /// variants are alike. The block lies between two sums that are alike given the other trials: then as many blocks lie above 0 as
    /// below it. Where the mean of a sub-block's two baselines counts twice, it is the sum of both, and one sum is enough.
    fn sums(&self, block: u32, terms: &[(f64, usize)], relative: bool) -> Option<Vec<Weights>> {
        let sum = |label: usize| {
            let term = |(sign, variant): &(f64, usize)| {
                let each = self.each(*variant, block, relative);
                Some((*sign, each.get(label).or(each.last())?.clone()))
            };
            let terms = terms.iter().map(term).collect::<Option<Vec<_>>>()?;
            Some(add(terms.iter().map(|(sign, weights)| (*sign, weights))))
        };
        if relative {
            return Some(self.by_label(sum(0)?));
        }
        let mut sums = vec![sum(0)?, sum(1)?];
        sums.dedup();
        Some(sums)
    }

    /// The same with each baseline of a sub-block in place of the mean of both, for the first and for the second of all sub-blocks.
    fn by_label(&self, sum: Weights) -> Vec<Weights> {
        let places: BTreeSet<Place> = sum.keys().map(|trial| self.place(*trial)).collect();
        let means = |pair: &&Vec<usize>| pair.len() == 2 && pair.iter().all(|trial| is_half(sum.get(trial)));
        let pairs: Vec<&Vec<usize>> = places.iter().filter_map(|at| self.baselines.get(at)).filter(means).collect();
        if pairs.is_empty() {
            return vec![sum];
        }
        let with = |label: usize| {
            let mut sum = sum.clone();
            for pair in &pairs {
                let both: f64 = pair.iter().filter_map(|trial| sum.remove(trial)).sum();
                sum.insert(pair[label], both);
            }
            sum
        };
        vec![with(0), with(1)]
    }

    fn blocks_of(&self, variant: usize) -> impl Iterator<Item = u32> + '_ {
        self.by_variant.range((variant, 0)..=(variant, u32::MAX)).map(|((_, block), _)| *block)
    }

    /// The effect at the second level of a factor relative to that at the first, in the blocks in which all four
    /// corners have a value; each corner relative to its sub-block's baseline, or as it is.
    pub(super) fn cross(&self, corners: [usize; 4], relative: bool) -> Contrast {
        let terms = [(1.0, corners[0]), (-1.0, corners[1]), (-1.0, corners[2]), (1.0, corners[3])];
        self.contrast(self.blocks_of(corners[3]).filter_map(|block| self.sums(block, &terms, relative)).collect())
    }

    /// The blocks in which any of the corners ran.
    pub(super) fn ran(&self, corners: [usize; 4]) -> u32 {
        corners.iter().flat_map(|corner| self.blocks_of(*corner)).collect::<BTreeSet<u32>>().len() as u32
    }

    /// A variant as a multiple of another; `None` below the least number of blocks.
    pub(super) fn effect(&self, variant: usize, reference: usize, relative: bool) -> Option<Estimate> {
        let terms = [(1.0, variant), (-1.0, reference)];
        let blocks = self.blocks_of(variant).filter_map(|block| self.sums(block, &terms, relative)).collect();
        let estimated = self.contrast(blocks).estimate(UNCORRECTED);
        estimated.both().measured().copied().filter(|_| estimated.blocks >= MIN_BLOCKS)
    }

    /// Of the combinations of each block.
    fn contrast(&self, blocks: Vec<Vec<Weights>>) -> Contrast {
        let hidden = |trial: &usize| self.hidden[self.data.trials[*trial].trial.variant];
        let apart =
            |weights: &Weights| reported_values::combined(weights.iter().map(|(trial, by)| (*by, hidden(trial))));
        let resolution = blocks.iter().flatten().map(apart).fold(0.0, f64::max);
        let blocks = blocks.iter().map(|combinations| self.block(combinations)).collect();
        let stepped = is_stepped(self.unit, resolution);
        Contrast { resolution, stepped, ..Contrast::described(Better::Lower, blocks) }
    }

    fn block(&self, combinations: &[Weights]) -> Block {
        let trials: BTreeSet<usize> = combinations.iter().flat_map(|weights| weights.keys().copied()).collect();
        let weight = |weights: &Weights, trial: &usize| weights.get(trial).copied().unwrap_or_default();
        Block {
            trials: trials.iter().map(|trial| self.figures[trial]).collect(),
            combinations: combinations
                .iter()
                .map(|weights| trials.iter().map(|trial| weight(weights, trial)).collect())
                .collect(),
        }
    }
}

fn is_half(weight: Option<&f64>) -> bool {
    weight.is_some_and(|weight| weight.abs() == 0.5)
}

fn add<'w>(terms: impl IntoIterator<Item = (f64, &'w Weights)>) -> Weights {
    let mut all = Weights::new();
    for (factor, weights) in terms {
        weights.iter().for_each(|(trial, weight)| *all.entry(*trial).or_default() += factor * weight);
    }
    all
}
