//! Decides whether a run counts system calls such as `fsync`.

use super::design::{CellPart, Experiment, Variant};
use super::expr;
use prony_model::metric::{Metric, MetricName};
use prony_model::spec::Subject;

impl Experiment {
    /// Whether system calls such as `fsync` are counted; by default, if a variant has a store or the file names a
    /// metric of these calls.
    /// Counting slows every system call on the machine; therefore it is the same for all variants.
    pub fn counts_syncs(&self) -> bool {
        let stored = |variant: &Variant| match &variant.spec.subject {
            Subject::Store(_) | Subject::Services => true,
            Subject::Program(program) => program.store.is_some(),
        };
        let parts = self.tables.iter().flat_map(|table| &table.columns).flat_map(|column| &column.parts);
        let shown = parts.filter_map(|part| match part {
            CellPart::Figure { expr, .. } => Some(expr::metrics(expr)),
            CellPart::Text(_) => None,
        });
        let mut named = shown.flatten().chain(&self.compare.primary).chain(&self.compare.metrics);
        let wanted = |name: &MetricName| Metric::SYNCS.contains(&name.key.metric);
        self.observe.syncs.unwrap_or_else(|| self.variants.iter().any(stored) || named.any(wanted))
    }
}
