//! Guards of requests to servers: bodies that were sent more than once, requests that waited for a connection, processors that
//! the load takes from the servers, and numbers of services that could not be read.

use std::collections::BTreeSet;

use super::variant_trials::VariantTrials;
use super::{Finding, Severity, is_part_of, percent};
use prony_model::http::{self, RequestKind, kind_instance};
use prony_model::metric::{Metric, MetricName, Stat};
use prony_model::number;
use prony_model::outcome::Outcome;
use prony_model::reading::{Reading, Why};
use prony_model::record::{Completion, Effective, EffectiveProgram, Machine, PhaseRecord, TrialRecord};
use prony_model::service::{self, LOAD};
use prony_model::spec::{PhaseSpec, TrialSpec};
use serde_json::json;

/// From so many distinct bodies on their number may be an estimate.
const EXACT: f64 = 1e6;

/// By how much an estimate may be too low.
const TOO_LOW: f64 = 0.05;

/// Processors of which a larger share of the time was used had none left.
const ALL: f64 = 0.9;

/// The share of the load generator from which on that is reported.
const CONSIDERABLE: f64 = 0.05;

/// The finding that the number of connections may be the limit.
pub const CONNECTIONS_IN_USE: &str = "connections_in_use";

/// Findings of all phases of a trial.
pub(super) fn check<'a>(spec: &'a TrialSpec, record: &'a TrialRecord) -> impl Iterator<Item = Finding> + 'a {
    let phases = spec.phases.iter().zip(&record.phases);
    let elsewhere = record.effective.iter().flat_map(Effective::services).filter_map(observed_elsewhere);
    let reached = phases.filter(|(_, phase)| phase.completion != Completion::NotReached);
    elsewhere.chain(reached.flat_map(|(asked, phase)| {
        let unread = spec.services.iter().flat_map(|service| service.roles());
        let shared = shared_processors(spec, asked, (phase, record));
        repeated_bodies(asked, phase)
            .into_iter()
            .chain(shared)
            .chain(connections_in_use(asked, (phase, record)))
            .chain(answers_not_compared(asked, phase))
            .chain(unread.filter_map(|role| unread_counters(phase, &role)))
    }))
}

/// No process that is measured as a service listens where that is reached: what is measured is another program.
fn observed_elsewhere(server: &EffectiveProgram) -> Option<Finding> {
    let name = &server.program;
    let message = no_listener(name);
    let hint = "name the server's own processes by `url` and `observe`: a command such as `docker run` is a client of them, and a file with \
                the number of a process may be older than the server; if requests reach it through a proxy, CPU time and memory are \
                those of what is observed, and not of the proxy";
    let found = Finding::of("observed_elsewhere", Severity::Warning, message, hint);
    (server.listens == Some(false)).then(|| found.with(json!({ "service": name })))
}

/// Why metrics of processes are not compared where those of another program were measured as a service.
pub(super) fn of_another_program(variant: &VariantTrials<'_>, name: &MetricName) -> Option<String> {
    let metric = name.key.metric;
    if metric.counter().is_some() || !(metric.is_of_process() || metric.is_gauge()) {
        return None;
    }
    let is_of = |own: &str| match name.instance.as_deref() {
        // Of a program or an embedded store beside services they are its own.
        None => variant.spec.measures_servers(),
        Some(instance) => instance == service::ALL || is_part_of(instance, own),
    };
    let all = variant.trials.iter().flat_map(|trial| &trial.effective).flat_map(Effective::services);
    let other = all.into_iter().find(|server| server.listens == Some(false) && is_of(&server.program))?;
    Some(no_listener(&other.program))
}

fn no_listener(service: &str) -> String {
    format!("none of the processes that are measured as service `{service}` listens on its port")
}

/// Bodies were digested, and the digest says nothing, since some requests failed: the others are not the same in each trial.
fn answers_not_compared(asked: &PhaseSpec, phase: &PhaseRecord) -> Option<Finding> {
    let digests = |kind: &RequestKind| kind.answer.as_ref().is_some_and(|answer| answer.digest);
    let asks = asked.action.http()?.kinds.iter().any(digests);
    let answer = phase.answer.as_ref().filter(|answer| asks && !answer.comparable)?;
    let of = |metric| phase.amount_of("", metric).unwrap_or_default();
    // Those of a load that was ended early are no finding of their own.
    let errors = Some(of(Metric::Errors) + of(Metric::Skipped)).filter(|errors| *errors > 0.0)?;
    let message =
        format!("bodies of answers were digested and are not compared: {} failed", number::count(errors, "request"));
    let hint = "remove the cause of the errors, or digest answers in a phase of its own after the one with errors";
    let found = Finding::of("answers_not_compared", Severity::Warning, message, hint).in_phase(&phase.name);
    Some(found.with(json!({ "errors": errors, "answer": answer })))
}

/// Fewer distinct bodies than requests: they contend for the same records, or are answered from a cache, as the real requests of
/// many clients are not (METHOD 8.9).
fn repeated_bodies(asked: &PhaseSpec, phase: &PhaseRecord) -> Option<Finding> {
    let http = asked.action.http()?;
    let with_body = http.kinds.iter().filter(|kind| kind.body.is_some());
    // A request that failed may not have sent its body.
    let of_kind =
        |kind: &RequestKind| phase.amount_of(&kind.name.as_deref().map(kind_instance).unwrap_or_default(), Metric::Ok);
    let all = with_body.map(of_kind).collect::<Option<Vec<f64>>>().filter(|all| !all.is_empty())?;
    // The requests of a session work on one record, so that several of them may send its document.
    let ok = if http.session { all.into_iter().fold(0.0, f64::max) } else { all.iter().sum() };
    let distinct = phase.amount_of("", Metric::SentDistinct)?;
    let most = if distinct < EXACT { distinct } else { distinct * (1.0 + TOO_LOW) };
    let message = format!(
        "{} had an expected answer, but the number of distinct bodies sent is {distinct}",
        number::count(ok, "request")
    );
    let hint = "requests with one body contend for one record: send a document of its own with each, such as `json = \
                \"{doc}\"` with as many records, or `{i}` in `body`";
    let found = Finding::of("repeated_bodies", Severity::Warning, message, hint).in_phase(&phase.name);
    (most < ok).then(|| found.with(json!({ "ok": ok, "bodies": distinct })))
}

/// Requests of an open loop waited since all connections were in use: the load generator, not the server, then decides how many are
/// answered. A rate that is not sustained also leaves requests waiting, whichever of the two is the limit.
fn connections_in_use(asked: &PhaseSpec, (phase, record): (&PhaseRecord, &TrialRecord)) -> Option<Finding> {
    let connections = asked.action.http()?.connections;
    let of = |metric| phase.amount_of("", metric).unwrap_or_default();
    let waited = phase.amount_of("", Metric::WaitedForConnection).filter(|waited| *waited > 0.0)?;
    let all = of(Metric::Ok) + of(Metric::Errors) + of(Metric::Skipped);
    let ending = &record.ending;
    let is_saturated = ending.outcome == Outcome::Saturated && ending.phase.as_deref() == Some(&phase.name);
    let message = http::connections_in_use(waited, all, connections);
    let hint = "raise `connections`; if latencies and rates stay the same they are the server's, since one that is overloaded leaves requests \
                waiting too";
    let found = Finding::of(CONNECTIONS_IN_USE, Severity::Warning, message, hint).in_phase(&phase.name);
    let data = json!({ "waited": waited, "requests": all, "connections": connections });
    (waited > http::WAITED * all || is_saturated).then(|| found.with(data))
}

/// Servers and a load that together used all of the processors that they may share: what the load used, the servers lacked, so
/// that latencies are longer and rates lower than with a load from elsewhere.
fn shared_processors(
    spec: &TrialSpec,
    asked: &PhaseSpec,
    (phase, record): (&PhaseRecord, &TrialRecord),
) -> Option<Finding> {
    let own = &asked.action.http()?.processors;
    let of_services = spec.services.iter().map(|service| &service.processors);
    let all: Vec<&Vec<u32>> = of_services.clone().chain([own]).collect();
    let are_apart = all.iter().all(|set| !set.is_empty()) && of_services.flatten().all(|number| !own.contains(number));
    if spec.services.is_empty() || are_apart {
        return None;
    }
    let named: BTreeSet<&u32> = all.iter().flat_map(|set| set.iter()).collect();
    let anywhere = all.iter().any(|set| set.is_empty());
    let processors = if anywhere { of_machine(record)? } else { named.len() as f64 };
    let (cpu, load) = (phase.amount_of("", Metric::Cpu)?, phase.amount_of(LOAD, Metric::Cpu)?);
    let time = phase.amount_of("", Metric::Wall)? * processors;
    let [used, load] = [(cpu + load) / time, load / time];
    let message = format!(
        "the servers and the load generator used {} of the time of the {} that they may share, the generator {}: what it used, the \
         servers lacked",
        percent(used.min(1.0)),
        number::count(processors, "processor"),
        percent(load)
    );
    let hint = "on a machine with more processors, give each its own: `processors` in `[[service]]` and in `http`; or compare the rates \
                and latencies of this file only with each other";
    let found = Finding::of("shared_processors", Severity::Note, message, hint).in_phase(&phase.name);
    (used > ALL && load > CONSIDERABLE).then(|| found.with(json!({ "used": used, "load": load })))
}

/// How many processors the machine has, by the ticks that it counts.
fn of_machine(record: &TrialRecord) -> Option<f64> {
    let Machine { before, after, .. } = record.conditions.machine.measured()?;
    let ticks = after.cpu.measured()?.all.saturating_sub(before.cpu.measured()?.all) as f64;
    // `/proc/stat` counts hundredths of a second.
    let processors = (ticks / 100.0 / after.at.since(before.at).as_secs_f64()).round();
    (processors >= 1.0).then_some(processors)
}

/// Numbers that an instance of a service counts itself could not be read, and why.
fn unread_counters(phase: &PhaseRecord, role: &str) -> Option<Finding> {
    let unread =
        |key: Metric, why: &Why| key.counter().is_some() && !matches!(why, Why::NotReached | Why::TooFew { .. });
    let readings = phase.readings.get(role)?;
    let missing: Vec<(&str, &Why)> = readings
        .iter()
        .filter_map(|(key, reading)| match reading {
            // A total, or the last value of a gauge, whose extremes are missing in a short phase as they should be.
            Reading::Missing(why) if matches!(key.0.stat, None | Some(Stat::End)) && unread(key.0.metric, why) => {
                Some((key.0.metric.name(), why))
            }
            _ => None,
        })
        .collect();
    let (name, why) = missing.first()?;
    let message = format!(
        "{} of service `{role}` could not be read, such as `{name}`: {why}",
        number::count(missing.len() as f64, "counter")
    );
    let hint = "remove the cause, or name only those that can be read in `totals` and `gauges` of `counters`";
    let names: Vec<&str> = missing.iter().map(|(name, _)| *name).collect();
    let found = Finding::of("counters_not_read", Severity::Warning, message, hint).in_phase(&phase.name);
    Some(found.with(json!({ "role": role, "counters": names })))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use prony_model::metric::MetricKey;
    use prony_model::open_name::OpenName;
    use prony_model::record::MetricKeyText;

    use super::*;

    fn phase(readings: Vec<(&str, MetricKey, Reading<f64>)>) -> PhaseRecord {
        let mut all = BTreeMap::<String, BTreeMap<MetricKeyText, Reading<f64>>>::new();
        for (role, key, reading) in readings {
            all.entry(role.to_owned()).or_default().insert(MetricKeyText(key), reading);
        }
        PhaseRecord { name: "insert".into(), readings: all, ..PhaseRecord::default() }
    }

    fn counter(name: &str) -> MetricKey {
        MetricKey::amount(Metric::Open(OpenName::new(name).unwrap()))
    }

    fn gauge(stat: Stat) -> MetricKey {
        MetricKey::gauge(Metric::Open(OpenName::new("connections").unwrap()), stat)
    }

    #[test]
    fn counters_that_could_not_be_read_are_a_finding_of_their_service() {
        let failed = || Reading::failed("no answer");
        let of = phase(vec![
            ("pg", counter("deadlocks"), failed()),
            ("pg", counter("xact_commit"), failed()),
            ("pg", MetricKey::amount(Metric::Cpu), failed()),
            ("gauges", gauge(Stat::End), failed()),
            ("gauges", gauge(Stat::Max), failed()),
            ("short", gauge(Stat::End), Reading::Measured(4.0)),
            ("short", gauge(Stat::Max), failed()),
            ("cut", counter("xact_commit"), Reading::Missing(Why::NotReached)),
            ("well", counter("xact_commit"), Reading::Measured(0.0)),
        ]);
        let found = unread_counters(&of, "pg").unwrap();
        assert_eq!(found.message, "2 counters of service `pg` could not be read, such as `deadlocks`: no answer");
        assert_eq!(found.phase.as_deref(), Some("insert"));
        let found = unread_counters(&of, "gauges").unwrap();
        assert_eq!(found.message, "1 counter of service `gauges` could not be read, such as `connections`: no answer");
        assert_eq!(["cut", "well", "absent", "short"].map(|role| unread_counters(&of, role)), [None, None, None, None]);
    }
}
