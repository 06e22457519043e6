//! Metrics of a trial's services in one of its phases: of each instance, of each service, and of all of them, which are those
//! of the phase; and of the load generator. Pure functions.

use std::collections::{BTreeMap, BTreeSet};

use prony_boundaries::suspensions::Suspensions;
use prony_model::metric::{Metric, MetricKey, Stat};
use prony_model::protocol::PhaseReport;
use prony_model::reading::Reading;
use prony_model::record::{MetricKeyText, ProcessSeries};
use prony_model::service::LOAD;
use prony_model::units::Nanos;
use prony_os::sample::{Snapshot, phase_readings};

use crate::figures::readings::{Readings, nanos, set};
use crate::figures::{counted_by_services, heaps};
use crate::watched::services::{Counts, Served};

/// The metrics of the processes of all services, which are those of the phase. The load generator's are not in them.
pub(crate) fn all(served: &Served, begin: &Snapshot, end: &Snapshot, series: &[ProcessSeries]) -> Readings {
    if served.roles.is_empty() {
        let why = "prony did not start the server, so its processes are not measured";
        let keys = phase_readings(begin, end, series, "").into_keys();
        return keys.map(|key| (key, Reading::not_supported(why))).collect();
    }
    let roles = served.roles.values().flatten().cloned().collect();
    let mut readings = joined(&roles, "", begin, end, series);
    let errors = [(Metric::CpuOver, begin.cpu_lacks), (Metric::CpuUnder, end.cpu_lacks)];
    let errors = errors.into_iter().filter(|(_, error)| *error > Nanos::ZERO);
    errors.for_each(|(metric, error)| set(&mut readings, metric, nanos(error)));
    readings
}

/// The metrics of what services counted themselves in the phase of this index, which lasted from and to these instants, of each
/// instance and of each service with several. `report` is that of the load generator.
pub(crate) fn counted(
    served: &Served,
    index: usize,
    phase: (Nanos, Nanos),
    report: Option<&PhaseReport>,
) -> BTreeMap<String, Readings> {
    let ok = report.filter(|report| report.requests.is_some()).map(|report| report.operations as f64);
    let mut found = BTreeMap::new();
    for (service, roles) in &served.roles {
        let counts: Vec<(&String, &Counts)> =
            roles.iter().filter_map(|role| served.counts.get_key_value(role)).collect();
        let own: Vec<Readings> =
            counts.iter().map(|(_, counts)| counted_by_services::readings(counts, index, phase, ok)).collect();
        if let (Some((_, first)), true) = (counts.first(), roles.len() > 1) {
            found.insert(service.clone(), counted_by_services::together(&first.spec, &own, ok));
        }
        found.extend(counts.iter().map(|(role, _)| (*role).clone()).zip(own));
    }
    found
}

/// The metrics of each instance, of the roles of its runtime, of each service with several, and of the load generator.
pub(crate) fn instances(
    served: &Served,
    begin: &Snapshot,
    end: &Snapshot,
    series: &[ProcessSeries],
) -> BTreeMap<String, Readings> {
    let mut found = BTreeMap::new();
    for (service, roles) in &served.roles {
        for role in roles {
            found.insert(role.clone(), phase_readings(begin, end, series, role));
        }
        if roles.len() > 1 {
            let roles = roles.iter().cloned().collect();
            found.insert(service.clone(), joined(&roles, service, begin, end, series));
        }
    }
    for (role, (threads, silent)) in &served.probes {
        if threads.end_of_main().is_some_and(|ended| ended < begin.at) {
            continue;
        }
        let span = heaps::Span { begin: begin.at, end: end.at, suspension: None, suspended: &Suspensions::default() };
        for (inner, heap) in heaps::readings(threads, span, silent) {
            let name = if inner.is_empty() { role.clone() } else { format!("{role}.{inner}") };
            found.entry(name).or_insert_with(Readings::new).extend(heap);
        }
    }
    found.insert(LOAD.to_owned(), phase_readings(begin, end, series, LOAD));
    found
}

/// The metrics of the processes of these roles together.
fn joined(
    roles: &BTreeSet<String>,
    name: &str,
    begin: &Snapshot,
    end: &Snapshot,
    series: &[ProcessSeries],
) -> Readings {
    let own = series.iter().filter(|process| roles.contains(&process.role)).cloned();
    let own: Vec<ProcessSeries> = own.map(|process| ProcessSeries { role: name.to_owned(), ..process }).collect();
    let mut readings = phase_readings(&begin.joined(roles, name), &end.joined(roles, name), &own, name);
    // Peaks of several processes are not reached at one instant: they are never added.
    let peak = MetricKeyText(MetricKey::gauge(Metric::Rss, Stat::Peak));
    let several = own.iter().filter(|process| !process.samples.is_empty()).count() > 1;
    if several && let Some(reading) = readings.get_mut(&peak).filter(|reading| reading.measured().is_some()) {
        *reading =
            Reading::not_supported("several processes have peaks at different instants, whose sum means nothing");
    }
    readings
}
