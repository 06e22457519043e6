//! Finds processes, other than a trial's first one, that used a considerable part of its CPU time or memory.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::{Finding, Severity, bytes, nanos, percent};
use prony_model::metric::{Metric, MetricKey, Stat};
use prony_model::processes::{NOT_ATTRIBUTED, PART, instances, name};
use prony_model::record::{MetricKeyText, PhaseRecord, ProcessSample, TrialRecord};
use prony_model::units::{Bytes, Nanos};

/// Less CPU time than this is not reported.
const LEAST_CPU: Nanos = Nanos::from_millis(100);

/// See [`LEAST_CPU`].
const LEAST_MEMORY: Bytes = Bytes::from_mib(10);

/// Memory counts only if at least this many samples found it. Between `fork` and `exec` a child appears to have its
/// parent's memory, as copy-on-write pages that cost nothing, and a single sample may include that.
const LASTING: usize = 3;

/// A measurement of one process, and its share of that of the whole process tree.
#[derive(Clone, Copy)]
struct Part {
    own: f64,
    share: f64,
}

impl Part {
    fn of(own: f64, all: f64) -> Option<Self> {
        (all > 0.0).then(|| Self { own, share: own / all })
    }

    fn is_large(self, least: f64) -> bool {
        self.share > PART && self.own >= least
    }
}

/// Names the processes with more than a tenth of the trial's CPU time or anonymous memory, except the first process and
/// those that are measured separately as roles.
pub fn check(record: &TrialRecord) -> Option<Finding> {
    let names = instances(&record.series);
    let first = record.series.iter().zip(&names).min_by_key(|(process, _)| process.samples.first().map(|s| s.at));
    let known = known(record);
    let shown = |instance: &&String| {
        let known = record.series.iter().zip(&names).any(|(p, of)| of == *instance && known.contains(p.role.as_str()));
        name(instance).is_some()
            && *instance != NOT_ATTRIBUTED
            && Some(*instance) != first.map(|(_, name)| name)
            && !known
    };
    let all: BTreeSet<&String> = record.phases.iter().flat_map(|phase| phase.readings.keys()).filter(shown).collect();
    let parts = all.into_iter().filter_map(|instance| {
        let (cpu, memory) = (cpu(record, instance), memory(record, instance));
        let busy = cpu.is_some_and(|part| part.is_large(LEAST_CPU.as_nanos() as f64));
        let large = memory.is_some_and(|part| part.is_large(LEAST_MEMORY.as_bytes() as f64));
        (busy || large && lasted(record, &names, instance)).then(|| (name(instance).unwrap_or(instance), cpu, memory))
    });
    let parts: Vec<_> = parts.collect();
    let named: Vec<String> = parts.iter().map(|(name, cpu, memory)| sentence(name, *cpu, *memory)).collect();
    if named.is_empty() {
        return None;
    }
    let hint = "`prony show --processes` shows the measurements of each process";
    let share = |part: &Option<Part>| part.map(|part| part.share);
    let data = parts.iter().map(|(name, cpu, memory)| (*name, json!({ "cpu": share(cpu), "anon": share(memory) })));
    let data: BTreeMap<_, _> = data.collect();
    Some(Finding::of("process_share", Severity::Note, named.join("; "), hint).with(json!(data)))
}

/// What was measured of a process.
fn sentence(name: &str, cpu: Option<Part>, memory: Option<Part>) -> String {
    let cpu = cpu.map(|Part { own, share }| format!("used {} of the CPU time ({})", percent(share), nanos(own)));
    let memory = memory
        .map(|Part { own, share }| format!("had at most {} of the anonymous memory ({})", percent(share), bytes(own)));
    let parts: Vec<String> = cpu.into_iter().chain(memory).collect();
    format!("the process `{name}` {}", parts.join(" and "))
}

/// Roles that are measured separately in some phase.
fn known(record: &TrialRecord) -> BTreeSet<&str> {
    let instances = record.phases.iter().flat_map(|phase| &phase.readings);
    let rss = MetricKeyText(MetricKey::gauge(Metric::Rss, Stat::Max));
    instances.filter(|(_, readings)| readings.contains_key(&rss)).map(|(instance, _)| instance.as_str()).collect()
}

/// CPU time of a process over all phases in which both it and that of the whole tree are known. In a phase without
/// measurements of the process, the process did not run.
fn cpu(record: &TrialRecord, instance: &str) -> Option<Part> {
    let own = |phase: &PhaseRecord| match phase.readings.contains_key(instance) {
        true => phase.amount_of(instance, Metric::Cpu),
        false => Some(0.0),
    };
    let phases = record.phases.iter().filter_map(|phase| Some((own(phase)?, phase.amount_of("", Metric::Cpu)?)));
    let (own, all) = phases.fold((0.0, 0.0), |(own, all), (one, whole)| (own + one, all + whole));
    Part::of(own, all)
}

/// The largest memory of a process in any phase, and its share of the largest memory of the whole tree.
fn memory(record: &TrialRecord, instance: &str) -> Option<Part> {
    Part::of(most_memory(record, instance)?, most_memory(record, "")?)
}

fn most_memory(record: &TrialRecord, instance: &str) -> Option<f64> {
    let key = MetricKey::gauge(Metric::Anon, Stat::Max);
    let most = record.phases.iter().filter_map(|phase| phase.reading_of(instance, key)?.measured().copied());
    most.reduce(f64::max)
}

/// Whether a considerable part of the memory was found in enough samples; `names` are the instances of the record's
/// series.
fn lasted(record: &TrialRecord, names: &[String], instance: &str) -> bool {
    let least = PART * most_memory(record, "").unwrap_or(f64::INFINITY);
    let series = record.series.iter().zip(names).filter(|(_, name)| *name == instance);
    let large = |sample: &&ProcessSample| sample.anon.as_bytes() as f64 > least;
    series.flat_map(|(process, _)| &process.samples).filter(large).count() >= LASTING
}

#[cfg(test)]
mod tests {
    use super::super::program::tests::record;
    use super::*;
    use prony_model::outcome::Outcome;
    use prony_model::reading::{Reading, Why};
    use prony_model::record::{EffectiveProgram, ProcessSeries};

    /// A trial of a tree with 4 s and 100 MB; each process of a role with its CPU time and memory.
    fn trial(processes: &[(&str, &str, f64, f64)]) -> TrialRecord {
        let mut record = record(Outcome::Ok, EffectiveProgram::default());
        let readings = |cpu: f64, memory: f64| {
            let cpu = (MetricKey::amount(Metric::Cpu), cpu);
            let keys = [cpu, (MetricKey::gauge(Metric::Anon, Stat::Max), memory)];
            keys.map(|(key, value)| (MetricKeyText(key), Reading::Measured(value))).into_iter().collect()
        };
        record.series = (0..)
            .zip(processes)
            .map(|(n, (role, command, _, memory))| {
                let anon = Bytes::from_bytes(*memory as u64);
                let sample = |more: u64| {
                    let at = Nanos::from_millis(u64::from(n) + more);
                    ProcessSample { at, anon, ..ProcessSample::default() }
                };
                let samples = (0..LASTING as u64).map(sample).collect();
                ProcessSeries { pid: 99 - n, role: (*role).into(), command: (*command).into(), samples }
            })
            .collect();
        let names = instances(&record.series);
        let phase = &mut record.phases[0].readings;
        phase.insert(String::new(), readings(4e9, 100e6));
        phase.insert(NOT_ATTRIBUTED.into(), readings(2e9, 0.0));
        phase.extend(
            names.into_iter().zip(processes).map(|(name, (_, _, cpu, memory))| (name, readings(*cpu, *memory))),
        );
        record
    }

    #[test]
    fn a_second_process_with_a_good_part_is_named() {
        let found =
            check(&trial(&[("site", "node", 2e9, 50e6), ("site", "node", 1.5e9, 30e6), ("site", "sh", 0.3e9, 5e6)]));
        let found = found.expect("38 % are a good part");
        assert!(found.message.starts_with("the process `site.node.2` used 38 % of the CPU time"), "{}", found.message);
        assert!(!found.message.contains("site.sh") && !found.message.contains("attributed"), "{}", found.message);
        let memory =
            check(&trial(&[("site", "node", 2e9, 50e6), ("site", "cache", 0.0, 40e6)])).expect("memory counts");
        assert!(memory.message.contains("`site.cache`") && memory.message.contains("40 %"), "{}", memory.message);
        let whole = "the process `site.node.2` used 38 % of the CPU time (1.500 s) and had at most 30 % of the anonymous memory \
                     (30.0 MB)";
        assert_eq!(found.message, whole);
        let mut forked = trial(&[("site", "node", 2e9, 50e6), ("site", "cache", 0.0, 40e6)]);
        forked.series[1].samples.truncate(1);
        assert_eq!(check(&forked), None, "one sample may show its parent's memory before `exec`");
    }

    #[test]
    fn shares_are_the_measured_ones_and_what_was_not_measured_is_not_said() {
        let said = |trial: &TrialRecord| {
            let found = check(trial).expect("38 % of the CPU time are a good part");
            (found.message, found.data["site.node.2"].clone())
        };
        let busy = || trial(&[("site", "node", 2e9, 50e6), ("site", "node", 1.5e9, 8e6)]);
        let (message, data) = said(&busy());
        assert!(message.ends_with("had at most 8.0 % of the anonymous memory (8.0 MB)"), "{message}");
        assert_eq!(data, json!({ "cpu": 0.375, "anon": 0.08 }));
        let mut brief = trial(&[("site", "node", 2e9, 50e6), ("site", "node", 1.5e9, 30e6)]);
        brief.series[1].samples.truncate(1);
        assert!(said(&brief).0.ends_with("had at most 30 % of the anonymous memory (30.0 MB)"), "one sample saw it");
        let without = |metric: MetricKey| {
            let mut trial = trial(&[("site", "node", 2e9, 50e6), ("site", "node", 1.5e9, 30e6)]);
            let missing = Reading::Missing(Why::NotReached);
            trial.phases[0].readings.get_mut("process.site.node.2").unwrap().insert(MetricKeyText(metric), missing);
            said(&trial)
        };
        let (message, data) = without(MetricKey::gauge(Metric::Anon, Stat::Max));
        assert!(message.ends_with("`site.node.2` used 38 % of the CPU time (1.500 s)"), "{message}");
        assert_eq!(data, json!({ "cpu": 0.375, "anon": null }));
        let (message, data) = without(MetricKey::amount(Metric::Cpu));
        assert!(message.ends_with("`site.node.2` had at most 30 % of the anonymous memory (30.0 MB)"), "{message}");
        assert_eq!(data, json!({ "cpu": null, "anon": 0.3 }));
    }

    #[test]
    fn the_first_process_small_ones_and_roles_with_figures_are_not_named() {
        assert_eq!(check(&trial(&[("site", "node", 3.9e9, 90e6)])), None);
        assert_eq!(check(&trial(&[("site", "node", 3.9e9, 90e6), ("site", "sh", 0.2e9, 2e6)])), None);
        let mut replicas = trial(&[("site", "node", 2e9, 50e6), ("replica.1", "node", 2e9, 50e6)]);
        assert!(check(&replicas).is_some());
        let rss = (MetricKeyText(MetricKey::gauge(Metric::Rss, Stat::Max)), Reading::Measured(50e6));
        replicas.phases[0].readings.insert("replica.1".into(), [rss].into_iter().collect());
        assert_eq!(check(&replicas), None);
    }
}
