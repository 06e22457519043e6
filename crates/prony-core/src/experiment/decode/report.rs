//! `[[report.table]]`.

use super::compare::PhaseNames;
use crate::experiment::design::{Factor, TableSpec};
use crate::experiment::factors::FactorDef;
use crate::experiment::node::Node;
use crate::experiment::problem::Problems;

/// The tables asked for.
pub(crate) fn tables(
    _report: Option<&Node>,
    _all: &[FactorDef],
    _shown: &[Factor],
    _phases: &PhaseNames,
    _problems: &mut Problems<'_>,
) -> Vec<TableSpec> {
    Vec::new()
}
