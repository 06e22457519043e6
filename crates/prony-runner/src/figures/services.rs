//! Metrics of a trial's services in one of its phases: of each instance, of each service, and of all of them. Where services are
//! measured these are the metrics of the phase, and the load generator has its own; where they run beside a program, the metrics
//! of the phase are the program's. Pure functions.

use std::collections::{BTreeMap, BTreeSet};

use prony_boundaries::suspensions::Suspensions;
use prony_model::metric::Metric;
use prony_model::protocol::PhaseReport;
use prony_model::reading::{Reading, Why};
use prony_model::record::ProcessSeries;
use prony_model::service::ALL;
use prony_model::spec::{PhaseSpec, WORKER};
use prony_model::units::Nanos;
use prony_os::sample::{Ends, Snapshot, phase_readings, readings_of_roles};

use crate::figures::readings::Readings;
use crate::figures::{counted_by_services, heaps};
use crate::watched::Watched;
use crate::watched::services::{Counts, Served};

/// Sets services beside a program apart: from here on the snapshots of the trial are those of the program and its replicas.
pub(crate) fn set_apart(watched: &mut Watched) {
    let Watched { services, snapshots, .. } = watched;
    if services.are_measured || services.roles.is_empty() {
        return;
    }
    services.snapshots.clone_from(snapshots);
    for snapshot in snapshots {
        snapshot.processes.retain(|process| !services.has(&process.role));
        snapshot.zombies.retain(|role| !services.has(role));
        snapshot.totals.retain(|role, _| !services.has(role));
        snapshot.groups.retain(|role, _| !services.has(role));
        snapshot.syncs.retain(|role, _| !services.has(role));
        snapshot.unread.retain(|role, _| !services.has(role));
        // Where nothing of the program was counted, its metrics are unknown: no zero replaces them.
        snapshot.totals.remove("");
        let whole = snapshot.totals.values().cloned().reduce(|sum, one| sum.plus(&one));
        snapshot.totals.extend(whole.map(|whole| (String::new(), whole)));
    }
}

/// What is known of the program in a phase beside which services run.
pub(crate) struct Beside<'a> {
    /// Its own metrics.
    pub own: &'a Readings,
    /// What is known of the ends of its processes.
    pub ends: &'a Ends,
    /// The first and the last snapshot of the phase.
    pub span: (usize, usize),
    /// Whether the phase begins with the program.
    pub from_the_start: bool,
}

/// The metrics of services beside a program, and of all together.
pub(crate) fn beside(served: &Served, series: &[ProcessSeries], phase: &Beside<'_>) -> BTreeMap<String, Readings> {
    let (mut begin, end) = (served.snapshots[phase.span.0].clone(), &served.snapshots[phase.span.1]);
    let mut found = instances(served, &begin, end, series);
    // Of a role these are amounts of processes, and none of the machine.
    let services = of_all(served, ALL, &begin, end, series);
    if phase.from_the_start {
        // A suspended process shares its spawner's memory: none of it is the program's.
        begin.processes.retain(|process| served.has(&process.role));
    }
    let mut all = readings_of_roles(&begin, end, series, |_| true, phase.ends);
    add_amounts(&mut all, phase.own, services);
    found.insert(ALL.to_owned(), all);
    found
}

/// The metrics of the processes of all services, which are those of the phase. The load generator's are not in them.
pub(crate) fn all(served: &Served, begin: &Snapshot, end: &Snapshot, series: &[ProcessSeries]) -> Readings {
    if served.roles.is_empty() {
        let why = "the server is no service of the file, so its processes are not measured";
        let keys = phase_readings(begin, end, series, "").into_keys();
        return keys.map(|key| (key, Reading::not_supported(why))).collect();
    }
    of_all(served, "", begin, end, series)
}

/// By how much the CPU time of services may be too large and too small: what its snapshots lack, and what servers used between the
/// boundaries of the phase and the snapshots.
pub(crate) fn cpu_error((begin, end): (&Snapshot, &Snapshot), (began, ended): (Nanos, Nanos)) -> [(Metric, Nanos); 2] {
    let used = |snapshot: &Snapshot, time: Nanos| Nanos::from_nanos(snapshot.most_running * time.as_nanos());
    let over = begin.cpu_lacks + used(begin, began.since(begin.at)) + used(end, end.at.since(ended));
    // After a warm-up counters are read when the phase has begun.
    let under = end.cpu_lacks + used(begin, begin.at.since(began)) + used(end, ended.since(end.at));
    [(Metric::CpuOver, over), (Metric::CpuUnder, under)]
}

/// The metrics of what services counted themselves in the phase of this index, which lasted from and to these instants, of each
/// instance and of each service with several. `report` is that of the load generator, which has no requests of a warm-up: a
/// phase with one has no totals.
pub(crate) fn counted(
    served: &Served,
    (index, spec): (usize, &PhaseSpec),
    phase: (Nanos, Nanos),
    report: Option<&PhaseReport>,
) -> BTreeMap<String, Readings> {
    let is_warmed_up = spec.action.http().is_some_and(|http| http.warm_up > Nanos::ZERO);
    let why = || Why::NotSupported("the count includes the warm-up: warm up in a phase before it".into());
    let uncounted = is_warmed_up.then(why);
    let ok = report.filter(|report| report.requests.is_some()).map(|report| report.operations as f64);
    let mut found = BTreeMap::new();
    for (service, roles) in &served.roles {
        let counts: Vec<(&String, &Counts)> =
            roles.iter().filter_map(|role| served.counts.get_key_value(role)).collect();
        let own: Vec<Readings> = counts
            .iter()
            .map(|(_, counts)| counted_by_services::readings(counts, index, phase, (ok, uncounted.as_ref())))
            .collect();
        if let (Some((_, first)), true) = (counts.first(), roles.len() > 1) {
            found.insert(service.clone(), counted_by_services::together(&first.spec, &own, ok));
        }
        found.extend(counts.iter().map(|(role, _)| (*role).clone()).zip(own));
    }
    found
}

/// The metrics of each instance, of the roles of its runtime, of each service with several, and of the load generator where there
/// is one.
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
        let all = threads.all();
        if !all.is_empty() && all.iter().all(|thread| thread.ended < begin.at) {
            continue;
        }
        let span = heaps::Span { begin: begin.at, end: end.at, suspension: None, suspended: &Suspensions::default() };
        for (inner, heap) in heaps::readings(threads, span, silent) {
            let name = if inner.is_empty() { role.clone() } else { format!("{role}.{inner}") };
            found.entry(name).or_insert_with(Readings::new).extend(heap);
        }
    }
    if served.are_measured {
        found.insert(served.client.clone(), phase_readings(begin, end, series, &served.client));
        // An engine in the process of its client has all of this in one.
        if served.client == WORKER && !served.roles.is_empty() {
            let roles = end.totals.keys().filter(|role| !role.is_empty()).cloned().collect();
            let mut all = joined(&roles, ALL, begin, end, series);
            add_amounts(&mut all, &found[&served.client], of_all(served, ALL, begin, end, series));
            found.insert(ALL.to_owned(), all);
        }
    }
    found
}

/// The metrics of the processes of all services, under a name.
fn of_all(served: &Served, name: &str, begin: &Snapshot, end: &Snapshot, series: &[ProcessSeries]) -> Readings {
    joined(&served.roles.values().flatten().cloned().collect(), name, begin, end, series)
}

/// Sets the amounts of all together to the sum of the subject's own and the services'. The CPU time of a service is counted by
/// its control group and that of a process without one by its clock: read as one, both would be counted in ticks.
fn add_amounts(all: &mut Readings, own: &Readings, services: Readings) {
    for (key, services) in services.into_iter().filter(|(key, _)| key.0.stat.is_none()) {
        if let Some(own) = own.get(&key).cloned() {
            all.insert(key, own.and(services, |own, services| own + services));
        }
    }
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
    phase_readings(&begin.joined(roles, name), &end.joined(roles, name), &own, name)
}

#[cfg(test)]
mod tests {
    use prony_model::record::{MetricKeyText, ProcessSample};
    use prony_model::service::LOAD;
    use prony_model::units::Bytes;
    use prony_os::sample::counters::Counters;
    use prony_os::sample::parse::GroupCpu;
    use prony_os::sample::snapshot::ProcessSnapshot;

    use super::*;
    use crate::figures::span::tests::{ms, snapshot, watched};
    use crate::figures::tests::lines::{bye, heap, hello, threads};

    /// At this instant, by role: the pid, CPU time in milliseconds and memory in bytes.
    fn at(instant: u64, roles: &[(&str, u32, u64, u64)]) -> Snapshot {
        let mut snapshot = snapshot(instant, roles.iter().map(|(_, _, cpu, _)| cpu).sum(), &[]);
        for (role, pid, cpu, anon) in roles {
            let sample = ProcessSample { at: ms(instant), anon: Bytes::from_bytes(*anon), ..ProcessSample::default() };
            let (pss, peak) = (Reading::Missing(Why::NotApplicable), Bytes::from_bytes(2 * anon));
            let role = (*role).to_owned();
            snapshot.totals.insert(
                role.clone(),
                Counters { cpu_user: ms(*cpu), on_cpu: Reading::Measured(ms(*cpu)), ..Counters::default() },
            );
            snapshot.processes.push(ProcessSnapshot { pid: *pid, role, sample, pss, peak, peak_reset: true });
        }
        snapshot
    }

    fn sampled(role: &str, pid: u32, samples: &[(u64, u64)]) -> ProcessSeries {
        let sample = |(at, anon): &(u64, u64)| ProcessSample {
            at: ms(*at),
            anon: Bytes::from_bytes(*anon),
            ..ProcessSample::default()
        };
        ProcessSeries {
            pid,
            role: role.to_owned(),
            command: "c".to_owned(),
            samples: samples.iter().map(sample).collect(),
        }
    }

    /// Two instances of `db`, one of `api`.
    fn served() -> Served {
        let roles = [("api", vec!["api"]), ("db", vec!["db.1", "db.2"])];
        let roles = roles.map(|(service, roles)| (service.to_owned(), roles.into_iter().map(str::to_owned).collect()));
        Served { are_measured: true, client: LOAD.to_owned(), roles: roles.into(), ..Served::default() }
    }

    fn of<'r>(readings: &'r Readings, key: &str) -> &'r Reading<f64> {
        &readings[&MetricKeyText(key.parse().unwrap())]
    }

    fn is(readings: &Readings, key: &str, expected: f64) {
        assert_eq!(of(readings, key), &Reading::Measured(expected), "{key}");
    }

    /// From 100 to 200 ms `api` uses 10 ms, `db.1` 20, `db.2` 30, the load generator 40.
    fn phase() -> (Snapshot, Snapshot, Vec<ProcessSeries>) {
        let begin = at(100, &[("api", 1, 5, 100), ("db.1", 2, 5, 1_000), ("db.2", 3, 5, 2_000), (LOAD, 4, 5, 9_000)]);
        let end = at(200, &[("api", 1, 15, 100), ("db.1", 2, 25, 3_000), ("db.2", 3, 35, 2_000), (LOAD, 4, 45, 9_000)]);
        let series = vec![
            sampled("api", 1, &[(150, 100)]),
            sampled("db.1", 2, &[(150, 5_000)]),
            sampled("db.2", 3, &[(150, 2_000)]),
            sampled(LOAD, 4, &[(150, 9_000)]),
        ];
        (begin, end, series)
    }

    #[test]
    fn phase_has_the_sum_of_all_services_without_the_load_generator() {
        let (begin, end, series) = phase();
        let readings = all(&served(), &begin, &end, &series);
        is(&readings, "cpu", 60e6);
        is(&readings, "anon.end", 5_100.0);
        is(&readings, "anon.max", 7_100.0);
    }

    /// A server that worked between a phase and the one before it had used more CPU time than there was.
    #[test]
    fn cpu_time_between_the_phase_and_its_snapshots_is_an_error() {
        let (mut begin, mut end, _) = phase();
        let error = |begin: &Snapshot, end: &Snapshot, began, ended| {
            cpu_error((begin, end), (ms(began), ms(ended))).map(|(_, error)| error)
        };
        (begin.most_running, end.most_running) = (2, 3);
        assert_eq!(error(&begin, &end, 100, 200), [ms(0), ms(0)], "all clocks were exact");
        (begin.cpu_lacks, end.cpu_lacks) = (ms(3), ms(4));
        assert_eq!(error(&begin, &end, 105, 199), [ms(3 + 2 * 5 + 3), ms(4)]);
        assert_eq!(error(&begin, &end, 90, 200), [ms(3), ms(4 + 2 * 10)], "a warm-up ended before");
    }

    #[test]
    fn server_that_prony_did_not_start_is_not_measured() {
        let (begin, end, series) = phase();
        let readings = all(&Served { are_measured: true, ..Served::default() }, &begin, &end, &series);
        assert!(readings.contains_key(&MetricKeyText("cpu".parse().unwrap())));
        let not_started = |why: &Why| why.to_string().contains("the server is no service of the file");
        assert!(
            readings.values().all(|reading| matches!(reading, Reading::Missing(why) if not_started(why))),
            "{readings:?}"
        );
    }

    #[test]
    fn each_instance_and_each_service_with_several_has_its_own_figures() {
        let (begin, end, series) = phase();
        let found = instances(&served(), &begin, &end, &series);
        assert_eq!(found.keys().map(String::as_str).collect::<Vec<_>>(), ["api", "db", "db.1", "db.2", LOAD]);
        let cpu = ["api", "db", "db.1", "db.2", LOAD].map(|name| of(&found[name], "cpu").clone());
        assert_eq!(cpu, [10e6, 50e6, 20e6, 30e6, 40e6].map(Reading::Measured));
        is(&found["db"], "anon.max", 7_000.0);
        is(&found["db.1"], "anon.max", 5_000.0);
    }

    /// The figure to compare with an engine in the worker's own process is that of both together.
    #[test]
    fn server_of_a_store_has_its_worker_beside_it() {
        let (mut begin, mut end, mut series) = phase();
        for snapshot in [&mut begin, &mut end] {
            let total = snapshot.totals.remove(LOAD).unwrap();
            snapshot.totals.insert(WORKER.to_owned(), total);
            let own = snapshot.processes.iter_mut().filter(|process| process.role == LOAD);
            own.for_each(|process| process.role = WORKER.to_owned());
        }
        series[3].role = WORKER.to_owned();
        let served = Served { client: WORKER.to_owned(), ..served() };
        is(&all(&served, &begin, &end, &series), "cpu", 60e6);
        let found = instances(&served, &begin, &end, &series);
        is(&found[WORKER], "cpu", 40e6);
        is(&found[ALL], "cpu", 100e6);
        is(&found[ALL], "anon.max", 16_100.0);
        let elsewhere = Served { are_measured: true, client: WORKER.to_owned(), ..Served::default() };
        let found = instances(&elsewhere, &begin, &end, &series);
        assert_eq!(found.keys().collect::<Vec<_>>(), [WORKER], "without the server there is no sum");
    }

    #[test]
    fn peaks_of_several_processes_are_not_added() {
        let (begin, end, series) = phase();
        let found = instances(&served(), &begin, &end, &series);
        is(&found["db.1"], "rss.peak", 6_000.0);
        assert!(matches!(of(&found["db"], "rss.peak"), Reading::Missing(Why::NotSupported(_))), "{found:?}");
        // A service whose second instance has ended long ago has the peak of the first.
        let one = |snapshot: &Snapshot| {
            let mut snapshot = snapshot.clone();
            snapshot.processes.retain(|process| process.role != "db.2");
            snapshot
        };
        let found = instances(&served(), &one(&begin), &one(&end), &series[..2]);
        is(&found["db"], "rss.peak", 6_000.0);
        // One that ended during the phase has none at its end, but was sampled.
        let found = instances(&served(), &begin, &one(&end), &series);
        assert!(matches!(of(&found["db"], "rss.peak"), Reading::Missing(Why::NotSupported(_))), "{found:?}");
        let found = instances(&served(), &one(&begin), &one(&end), &series);
        assert!(matches!(of(&found["db"], "rss.peak"), Reading::Missing(Why::NotSupported(_))), "{found:?}");
    }

    #[test]
    fn cpu_time_of_a_service_is_that_of_its_control_groups() {
        let (mut begin, mut end, series) = phase();
        let group = |total: u64| Reading::Measured(GroupCpu { total: ms(total), user: ms(total), system: Nanos::ZERO });
        for (role, used) in [("db.1", 100), ("db.2", 200)] {
            begin.groups.insert(role.to_owned(), group(1_000));
            end.groups.insert(role.to_owned(), group(1_000 + used));
        }
        let found = instances(&served(), &begin, &end, &series);
        is(&found["db"], "cpu", 300e6);
        is(&found["api"], "cpu", 10e6);
        // Not all services have groups: one clock for all of them.
        is(&all(&served(), &begin, &end, &series), "cpu", 60e6);
    }

    #[test]
    fn heap_is_that_of_the_instance_whose_probe_reported_it() {
        let (begin, end, series) = phase();
        let mut reports = threads(&[hello(1, 0, 50), heap(1, 0, 120, "sample", 700), heap(1, 0, 180, "sample", 900)]);
        reports.finish(ms(300), &[], &BTreeMap::new());
        let mut before = threads(&[hello(2, 0, 10), heap(2, 0, 20, "sample", 100), bye(2, 0, 40)]);
        before.finish(ms(300), &[], &BTreeMap::new());
        // `node migrate.js && node server.js`
        let follows = [hello(3, 0, 10), bye(3, 0, 40), hello(4, 0, 50), heap(4, 0, 190, "sample", 800)];
        let mut follows = threads(&follows);
        follows.finish(ms(300), &[], &BTreeMap::from([(4, ms(300))]));
        let silent = || Why::NotSupported("no probe".into());
        let mut served = served();
        served.probes = [("api", reports), ("db.1", before), ("db.2", Default::default()), ("db.3", follows)]
            .map(|(role, threads)| (role.to_owned(), (threads, silent())))
            .into();
        let found = instances(&served, &begin, &end, &series);
        is(&found["api"], "heap.used.end", 900.0);
        is(&found["api"], "cpu", 10e6);
        let key = MetricKeyText("heap.used.end".parse().unwrap());
        assert_eq!(found["db.1"].get(&key), None, "its runtime had ended before the phase");
        assert_eq!(found["db.2"][&key], Reading::Missing(silent()));
        is(&found["db.3"], "heap.used.end", 800.0);
        assert_eq!(found["db"].get(&key), None, "heaps of several runtimes are not added");
    }

    #[test]
    fn services_beside_a_program_are_in_no_metric_of_it_and_all_is_the_sum() {
        let (begin, end, series) = phase();
        let mut watched = watched(vec![begin, end], vec![]);
        watched.services = Served { are_measured: false, ..served() };
        set_apart(&mut watched);
        let [begin, end] = &watched.snapshots[..] else { panic!("{:?}", watched.snapshots) };
        assert_eq!(end.totals.keys().map(String::as_str).collect::<Vec<_>>(), ["", LOAD]);
        assert_eq!(end.totals[""].cpu_user, ms(45), "the program's");
        assert!(end.processes.iter().all(|process| process.role == LOAD));
        let own = phase_readings(begin, end, &series[3..], "");
        is(&own, "cpu", 40e6);
        let ends = &Ends::new();
        let phase = |from_the_start| Beside { own: &own, ends, span: (0, 1), from_the_start };
        let found = beside(&watched.services, &series, &phase(false));
        assert_eq!(found.keys().map(String::as_str).collect::<Vec<_>>(), [ALL, "api", "db", "db.1", "db.2"]);
        is(&found["api"], "cpu", 10e6);
        is(&found["db"], "cpu", 50e6);
        is(&found[ALL], "cpu", 100e6);
        is(&found[ALL], "anon.end", 14_100.0);
        is(&found[ALL], "anon.max", 16_100.0);
        assert!(matches!(of(&found[ALL], "rss.peak"), Reading::Missing(_)), "{found:?}");
        let unknown = Readings::from([(MetricKeyText("cpu".parse().unwrap()), Reading::failed("no counters"))]);
        let missing = beside(&watched.services, &series, &Beside { own: &unknown, ..phase(true) });
        assert!(matches!(of(&missing[ALL], "cpu"), Reading::Missing(_)), "a part that is not known is no 0");
    }
}
