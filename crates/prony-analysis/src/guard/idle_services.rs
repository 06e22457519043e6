//! Whether sums over all services contain servers that only the other one of two variants uses. Services run in the trials of every
//! variant: where a factor chooses the server that is loaded, the sum of each variant has the idle servers of the others.

use std::collections::BTreeSet;

use super::variant_trials::VariantTrials;
use prony_model::metric::{Metric, MetricName};
use prony_model::service::{ALL, holes};
use prony_model::spec::{Subject, TrialSpec};

/// Why a sum over all services is not compared: that of one variant includes services to which only the other one sends its
/// operations. What neither addresses, such as a database behind both, both have alike.
pub(super) fn unequal(baseline: &VariantTrials<'_>, variant: &VariantTrials<'_>, name: &MetricName) -> Option<String> {
    let is_sum = match name.instance.as_deref() {
        // Beside a program, and in a worker with an embedded store, it is their own.
        None => [baseline, variant].iter().all(|all| all.spec.measures_servers()),
        Some(instance) => instance == ALL,
    };
    if !is_sum || !is_of_services(name.key.metric) {
        return None;
    }
    [(baseline, variant), (variant, baseline)].into_iter().find_map(|(of, other)| {
        let idle = idle(of.spec, other.spec, &name.phase);
        let first = idle.first()?;
        let services = idle.iter().map(|service| format!("`{service}`")).collect::<Vec<_>>().join(", ");
        let own = MetricName { instance: Some((*first).to_owned()), ..name.clone() };
        Some(format!(
            "`{name}` of `{}` includes services that run in its trials too, and that only `{}` uses: {services}. The metrics of each \
             service, such as `{own}`, are in the tables",
            of.name, other.name
        ))
    })
}

/// Whether a metric is one of processes, of their memory, or of the files of services.
fn is_of_services(metric: Metric) -> bool {
    use Metric::{Cached, CachedBytes, Disk, DiskLength, Makespan, Skew, Wall};
    let is_time_of_phase = matches!(metric, Wall | Makespan | Skew);
    let is_level = metric.is_gauge() || matches!(metric, Disk | DiskLength | Cached | CachedBytes);
    is_level || metric.is_of_process() && !is_time_of_phase
}

/// The services that run in the trials of a variant unused, and that the other one uses.
fn idle<'s>(of: &'s TrialSpec, other: &TrialSpec, phase: &str) -> Vec<&'s str> {
    let (used, theirs) = (used(of, phase), used(other, phase));
    let names = of.services.iter().map(|service| service.name());
    names.filter(|name| theirs.contains(*name) && !used.contains(*name)).collect()
}

/// The services to which operations are sent until the end of a phase: memory and files of earlier phases are still there.
fn used(spec: &TrialSpec, phase: &str) -> BTreeSet<String> {
    let names = |text: &str| holes(text).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    if let Subject::Store(store) = &spec.subject {
        return store.url.iter().flat_map(|url| names(url)).collect();
    }
    let at = spec.phases.iter().position(|found| found.name == phase);
    let until = &spec.phases[..at.map_or(0, |at| at + 1)];
    until.iter().filter_map(|phase| phase.action.http()).flat_map(|http| names(&http.server)).collect()
}
