//! Makes experiments from other experiments: that of a search, to which variants are added, and the comparison of
//! two variants.

use super::design::{Blocks, Experiment, Factor, Level, TableSpec, Variant};
use prony_model::metric::MetricName;

impl Experiment {
    /// The same experiment without variants, to which [`Self::admit`] adds some: a search explores, so it compares
    /// nothing.
    #[must_use]
    pub fn emptied(&self, title: String) -> Self {
        let mut empty = self.clone();
        empty.title = title;
        empty.variants.clear();
        empty.factors.iter_mut().for_each(|factor| factor.levels.clear());
        empty.compare.baseline.clear();
        empty.compare.floor.clear();
        empty.compare.blocks = Blocks { min: 1, max: 1 };
        empty.compare.budget = None;
        empty.explores = true;
        empty.tables.clear();
        empty
    }

    /// Adds a variant of another experiment of the same factors, and returns its number here. Earlier numbers stay the
    /// same; a variant with the same levels is not added twice. Where commands are not recorded, a known variant gets
    /// the other's commands, since its own may have been read from a record that has none.
    pub fn admit(&mut self, other: &Self, variant: usize) -> usize {
        let variant = &other.variants[variant];
        let levels: Vec<usize> =
            (0..self.factors.len()).map(|at| self.level_like(at, other.level_of(variant, at))).collect();
        if let Some(known) = self.variants.iter().position(|known| known.levels == levels) {
            if !self.records_commands() {
                self.variants[known].spec = variant.spec.clone();
            }
            return known;
        }
        let id = self.variants.len();
        let blocks = self.compare.blocks;
        self.variants.push(Variant { id, levels, stratum: 0, baseline: false, blocks, spec: variant.spec.clone() });
        (0..self.factors.len()).for_each(|at| self.sort_levels(at));
        id
    }

    /// Whether each variant that is also in the record of an earlier session is the same there, as far as the record shows.
    pub fn agrees_with(&self, recorded: &Self) -> bool {
        let own = self.recorded();
        own.variants.iter().all(|variant| {
            let levels = own.levels_text(variant);
            let mut earlier = recorded.variants.iter().filter(|known| recorded.levels_text(known) == levels);
            earlier.all(|known| known.spec == variant.spec)
        })
    }

    /// The same with the recorded variants under their recorded numbers, to be continued.
    #[must_use]
    pub fn continuing(mut self, recorded: &Self) -> Self {
        let own = self.clone();
        self.variants.clear();
        self.factors.iter_mut().for_each(|factor| factor.levels.clear());
        for from in [recorded, &own] {
            for id in 0..from.variants.len() {
                self.admit(from, id);
            }
        }
        self
    }

    /// The value of a factor in a variant.
    pub fn level_of(&self, variant: &Variant, factor: usize) -> &Level {
        &self.factors[factor].levels[variant.levels[factor]]
    }

    /// The tables that a report of it shows.
    #[must_use]
    pub fn showing(mut self, tables: Vec<TableSpec>) -> Self {
        self.tables = tables;
        self
    }

    /// The same under another title.
    #[must_use]
    pub fn titled(mut self, title: String) -> Self {
        self.title = title;
        self
    }

    /// Two of its variants as an ordinary experiment: `rival` against `baseline` in one metric. Its seed is another
    /// one, so that a choice made by some data is judged by other data.
    #[must_use]
    pub fn duel(&self, baseline: usize, rival: usize, metric: &MetricName, blocks: Blocks) -> Self {
        let mut duel = self.emptied(self.title.clone());
        duel.explores = false;
        // The tables and metrics that need syncs are not part of the duel.
        duel.observe.syncs = Some(self.counts_syncs());
        duel.seed = duel.seed.wrapping_add(1);
        for id in [baseline, rival] {
            duel.admit(self, id);
        }
        duel.variants[0].baseline = true;
        duel.variants.iter_mut().for_each(|variant| variant.blocks = blocks);
        let named = |at: &usize| duel.factors[*at].levels.len() > 1;
        let label = |at: usize| (duel.factors[at].name.clone(), duel.level_of(&duel.variants[0], at).label.clone());
        duel.compare.baseline = (0..duel.factors.len()).filter(named).map(label).collect();
        duel.compare.primary = Some(metric.clone());
        duel.compare.metrics.clear();
        duel.compare.blocks = blocks;
        duel
    }

    fn level_like(&mut self, factor: usize, level: &Level) -> usize {
        let levels = &mut self.factors[factor].levels;
        levels.iter().position(|known| known.label == level.label).unwrap_or_else(|| {
            levels.push(level.clone());
            levels.len() - 1
        })
    }

    /// Numbers in ascending order, whatever the order in which they came.
    fn sort_levels(&mut self, factor: usize) {
        let levels = &self.factors[factor].levels;
        if !Factor::is_numeric(&self.factors[factor]) {
            return;
        }
        let mut order: Vec<usize> = (0..levels.len()).collect();
        order.sort_by(|a, b| levels[*a].number.unwrap_or(0.0).total_cmp(&levels[*b].number.unwrap_or(0.0)));
        let sorted = order.iter().map(|at| levels[*at].clone()).collect();
        self.factors[factor].levels = sorted;
        for variant in &mut self.variants {
            let before = variant.levels[factor];
            variant.levels[factor] = order.iter().position(|at| *at == before).unwrap_or(before);
        }
    }
}
