//! Decides whether a run counts system calls such as `fsync`.

use super::design::{Experiment, Variant};
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
        let mut named = expr::named(self).into_iter();
        let wanted = |name: &MetricName| Metric::SYNCS.contains(&name.key.metric);
        self.observe.syncs.unwrap_or_else(|| self.variants.iter().any(stored) || named.any(wanted))
    }
}
