//! Assigns variants to the rows of tables, by the roles of the factors.

use std::collections::BTreeMap;

use prony_analysis::verdicts::names;
use prony_experiment::design::{Experiment, TableSpec, Variant};

/// With more rows than this, a factor becomes tables even where none is numeric.
const LONGEST_TABLE: usize = 40;

/// Where the factors of an experiment go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Layout {
    /// Factors, by index; each combination of their levels makes a table.
    pub(super) tables: Vec<usize>,
    /// Factors that label the rows, the outermost first.
    pub(super) rows: Vec<usize>,
    /// Factors whose levels make groups of columns.
    pub(super) columns: Vec<usize>,
    /// The variants shown, by index.
    pub(super) variants: Vec<usize>,
}

/// One table's place: the labels of its levels, then its rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Part {
    /// Factor and label of each level that makes the table.
    pub(super) levels: Vec<(String, String)>,
    /// Its rows, in the order of the levels.
    pub(super) rows: Vec<RowPart>,
    /// Labels of its groups of columns; one empty where there are none.
    pub(super) groups: Vec<String>,
}

/// One row's place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RowPart {
    /// A label a row factor.
    pub(super) labels: Vec<String>,
    /// The variants of each group of columns.
    pub(super) variants: Vec<Vec<usize>>,
}

impl Layout {
    /// The layout where the experiment defines no tables: the numeric factor with the most levels makes the rows, the
    /// next factor the tables, and the others label the rows. Without a numeric factor one table holds all variants, if
    /// it is not too long.
    pub(super) fn derived(experiment: &Experiment) -> Self {
        let variants: Vec<usize> = (0..experiment.variants().len()).collect();
        let varying = names::varying(experiment);
        let levels = |f: &usize| levels_used(experiment, &variants, *f);
        let numeric = varying.iter().copied().filter(|f| experiment.factors()[*f].is_numeric());
        // The first of those with most levels.
        let row = numeric.rev().max_by_key(levels);
        let Some(row) = row else {
            let long = variants.len() > LONGEST_TABLE && varying.len() > 1;
            let (tables, rows) = varying.split_at(usize::from(long));
            return Self { tables: tables.to_vec(), rows: rows.to_vec(), variants, ..Self::default() };
        };
        let mut rest = varying.into_iter().filter(|f| *f != row);
        let tables = rest.next().into_iter().collect();
        Self { tables, rows: rest.chain([row]).collect(), variants, ..Self::default() }
    }

    /// All variants in one table, where it is not too long.
    pub(super) fn in_one_table(experiment: &Experiment) -> Self {
        let variants: Vec<usize> = (0..experiment.variants().len()).collect();
        if variants.len() > LONGEST_TABLE {
            return Self::derived(experiment);
        }
        Self { rows: names::varying(experiment), variants, ..Self::default() }
    }

    /// The layout that a table of the experiment defines. A factor that varies but is not mentioned labels the rows, so
    /// that no two variants are ever pooled.
    pub(super) fn asked(experiment: &Experiment, spec: &TableSpec) -> Self {
        let variants: Vec<usize> = (0..experiment.variants().len())
            .filter(|v| selected(experiment, &experiment.variants()[*v], spec))
            .collect();
        let find = |names: &[String]| -> Vec<usize> {
            names.iter().filter_map(|n| experiment.factors().iter().position(|f| f.name == *n)).collect()
        };
        let (tables, columns, mut rows) = (find(&spec.tables), find(&spec.columns_by), find(&spec.rows));
        let varying = (0..experiment.factors().len()).filter(|f| levels_used(experiment, &variants, *f) > 1);
        let placed = [tables.as_slice(), &columns, &rows].concat();
        rows.extend(varying.filter(|factor| !placed.contains(factor)));
        Self { tables, rows, columns, variants }
    }

    /// The tables with their rows; only combinations that exist.
    pub(super) fn parts(&self, experiment: &Experiment) -> Vec<Part> {
        let groups = distinct(experiment, &self.variants, &self.columns);
        distinct(experiment, &self.variants, &self.tables)
            .into_iter()
            .map(|(levels, variants)| Part {
                levels: name_levels(experiment, &self.tables, &levels),
                rows: self.rows(experiment, &variants, &groups),
                groups: groups.iter().map(|(levels, _)| labels(experiment, &self.columns, levels).join(", ")).collect(),
            })
            .collect()
    }

    fn rows(&self, experiment: &Experiment, variants: &[usize], groups: &[(Vec<usize>, Vec<usize>)]) -> Vec<RowPart> {
        distinct(experiment, variants, &self.rows)
            .into_iter()
            .map(|(levels, variants)| RowPart {
                labels: labels(experiment, &self.rows, &levels),
                variants: groups
                    .iter()
                    .map(|(_, group)| variants.iter().copied().filter(|v| group.contains(v)).collect())
                    .collect(),
            })
            .collect()
    }
}

fn levels_used(experiment: &Experiment, variants: &[usize], factor: usize) -> usize {
    distinct(experiment, variants, &[factor]).len()
}

/// Each combination of levels of the factors that occurs, in the order of the levels, with its variants.
fn distinct(experiment: &Experiment, variants: &[usize], factors: &[usize]) -> Vec<(Vec<usize>, Vec<usize>)> {
    let mut found: BTreeMap<Vec<usize>, Vec<usize>> = BTreeMap::new();
    for variant in variants {
        let levels = &experiment.variants()[*variant].levels;
        found.entry(factors.iter().map(|f| levels[*f]).collect()).or_default().push(*variant);
    }
    found.into_iter().collect()
}

fn selected(experiment: &Experiment, variant: &Variant, spec: &TableSpec) -> bool {
    experiment.factors().iter().zip(&variant.levels).all(|(factor, level)| {
        spec.select.get(&factor.name).is_none_or(|keep| keep.is_empty() || keep.contains(&factor.levels[*level].label))
    })
}

fn labels(experiment: &Experiment, factors: &[usize], levels: &[usize]) -> Vec<String> {
    factors.iter().zip(levels).map(|(f, l)| experiment.factors()[*f].levels[*l].label.clone()).collect()
}

fn name_levels(experiment: &Experiment, factors: &[usize], levels: &[usize]) -> Vec<(String, String)> {
    let names = factors.iter().map(|f| experiment.factors()[*f].name.clone());
    names.zip(labels(experiment, factors, levels)).collect()
}
