//! Guards that check what the probe of a program's runtime reported.

use std::collections::BTreeSet;

use serde_json::json;

use super::{Finding, Severity};
use prony_model::metric::{Metric, MetricKey, Stat};
use prony_model::record::probe::Because;
use prony_model::record::{Completion, PhaseRecord, ProbeReport, TrialRecord};
use prony_model::units::{Bytes, Nanos};

/// A heap that grows for so long without being read may have been much larger.
const UNREAD: Nanos = Nanos::from_secs(1);

/// External memory below this is that of the runtime itself.
const EXTERNAL: Bytes = Bytes::from_mib(16);

/// The same below this share of the heap in use.
const EXTERNAL_SHARE: f64 = 0.1;

/// Every guard of probes; finds nothing in trials of programs without one.
pub fn check(record: &TrialRecord) -> Vec<Finding> {
    let Some(probe) = &record.conditions.probe else { return Vec::new() };
    let mut findings = Vec::from_iter(lines_lost(probe));
    findings.extend(read_rarely(record, probe));
    findings.extend(went_on(probe));
    findings.extend(suspended_inside(probe));
    findings.extend(died_aside(record, probe));
    findings.extend(finalizers_not_run(record, probe));
    findings
}

/// Lines of probes that did not arrive: figures may lack what they reported.
fn lines_lost(probe: &ProbeReport) -> Option<Finding> {
    let lost = Some(probe.lines_lost).filter(|lost| *lost > 0)?;
    let message =
        format!("{lost} lines of the runtime's probe were lost, so that calls or heap figures may be missing");
    let hint = "run with less load on the machine, or with fewer processes of the runtime";
    Some(Finding::of("probe_lines_lost", Severity::Warning, message, hint).with(json!({ "lines": lost })))
}

/// A heap that was read so rarely that its largest figure may be far too low.
fn read_rarely(record: &TrialRecord, probe: &ProbeReport) -> Vec<Finding> {
    let phases = record.phases.iter().filter(|phase| phase.completion != Completion::NotReached);
    let finding = |phase: &PhaseRecord| {
        let gap = probe.unread.get(&phase.name).copied().filter(|gap| *gap >= UNREAD)?;
        let (message, hint) = unread(gap, probe.samples_dropped);
        Some(Finding::of("heap_read_rarely", Severity::Note, message, hint).in_phase(&phase.name))
    };
    phases.filter_map(finding).collect()
}

/// Why a heap has no reading for so long: it was not read, or the reading was not recorded.
fn unread(gap: Nanos, dropped: u64) -> (String, &'static str) {
    if dropped > 0 {
        let message = format!(
            "heap figures are missing for {gap}: the trial reached its limit of samples, and {dropped} later samples \
             were dropped"
        );
        return (message, "figures of heaps after that are missing; measure a shorter part, or fewer calls");
    }
    (
        format!("the heap was not sampled for {gap}: the program left its runtime no opportunity"),
        "take `max`, `min` and `mean` of the heap as approximate; its figure at the end is exact, where there is one",
    )
}

/// A program that should have been suspended at the end of a call but continued by itself, or ended.
fn went_on(probe: &ProbeReport) -> Option<Finding> {
    let first = probe.suspensions.iter().find(|suspension| suspension.by_itself() || suspension.fault.is_some())?;
    let why = first.fault.as_deref().or(first.went_on.map(Because::text)).unwrap_or_default();
    let message = format!("suspending the program at the end of a call failed: {why}");
    let hint = "memory at the phase's end was not read as asked; run it again on a machine with less load";
    Some(Finding::of("hold_failed", Severity::Warning, message, hint))
}

/// Phases that were running while `at_end` of another one suspended the program: they have no figures.
fn suspended_inside(probe: &ProbeReport) -> Vec<Finding> {
    let finding = |(phase, by): (&String, &String)| {
        let message =
            format!("`at_end` of phase `{by}` suspended the program inside this phase, so that it has no figures");
        let hint = "let the phase end before, or measure the two in experiments of their own";
        let found = Finding::of("suspended_inside", Severity::Warning, message, hint).in_phase(phase);
        found.with(json!({ "by": by }))
    };
    probe.suspended_inside.iter().map(finding).collect()
}

/// A process of the program aborted at its own heap limit, and the program continued as if nothing had happened.
fn died_aside(record: &TrialRecord, probe: &ProbeReport) -> Option<Finding> {
    let deaths = &probe.deaths;
    if deaths.is_empty() || !record.ending.outcome.is_ok() {
        return None;
    }
    let message = format!("{} processes of the program died because their heap was full", deaths.len());
    let hint = "without them the program did different work";
    Some(Finding::of("heap_full_aside", Severity::Warning, message, hint).with(json!({ "deaths": deaths })))
}

/// External memory read while a program was suspended still includes what callbacks of finalizers would release.
fn finalizers_not_run(record: &TrialRecord, probe: &ProbeReport) -> Vec<Finding> {
    let collected: BTreeSet<&str> = probe
        .suspensions
        .iter()
        .filter(|suspension| suspension.collected.is_some())
        .map(|suspension| suspension.phase.as_str())
        .collect();
    let finding = |phase: &PhaseRecord| {
        let end = |metric| phase.reading(MetricKey::gauge(metric, Stat::End))?.measured().copied();
        let (external, used) = (end(Metric::External)?, end(Metric::HeapUsed)?);
        if !collected.contains(phase.name.as_str())
            || external < (EXTERNAL.as_bytes() as f64).max(EXTERNAL_SHARE * used)
        {
            return None;
        }
        let size = Bytes::from_bytes(external as u64);
        let message = format!("`external` is {size} after the forced collection, and finalizers had not run");
        let hint = "what a FinalizationRegistry or a native addon releases later is still counted in it; read it again in a later phase";
        let found = Finding::of("finalizers_not_run", Severity::Note, message, hint).in_phase(&phase.name);
        Some(found.with(json!({ "external": external })))
    };
    record.phases.iter().filter_map(finding).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::program::tests::record;
    use super::*;
    use prony_model::outcome::Outcome;
    use prony_model::reading::{Reading, Why};
    use prony_model::record::probe::{HeapDeath, SuspensionReport};
    use prony_model::record::{Conditions, EffectiveProgram, MetricKeyText};

    /// A trial that ended well, with what its probes reported.
    fn probed(probe: ProbeReport) -> TrialRecord {
        let conditions = Conditions { probe: Some(probe), ..Conditions::default() };
        TrialRecord { conditions, ..record(Outcome::Ok, EffectiveProgram::default()) }
    }

    fn suspension(phase: &str) -> SuspensionReport {
        SuspensionReport {
            phase: phase.into(),
            pid: 7,
            thread: 0,
            from: Nanos::ZERO,
            suspended: None,
            late: None,
            collected: None,
            settled: None,
            passed: false,
            went_on: None,
            fault: None,
        }
    }

    #[test]
    fn a_heap_that_was_not_read_for_long_is_noted() {
        let unread = [("a", 1_500), ("b", 900), ("c", 2_000)];
        let unread = unread.map(|(phase, ms)| (phase.to_owned(), Nanos::from_millis(ms))).into();
        let mut probe = ProbeReport { unread, ..ProbeReport::default() };
        let found = check(&probed(probe.clone()));
        assert_eq!(found.iter().map(|finding| finding.phase.as_deref()).collect::<Vec<_>>(), [Some("a")]);
        assert!(found[0].message.contains("for 1.500 s") || found[0].message.contains("1.5"), "{}", found[0].message);
        assert!(found[0].message.contains("no opportunity"), "{}", found[0].message);
        probe.samples_dropped = 12_345;
        let found = check(&probed(probe));
        assert!(found[0].message.contains("12345 later samples were dropped"), "{}", found[0].message);
        assert!(!found[0].message.contains("opportunity"), "the program is not to blame");
    }

    #[test]
    fn what_went_wrong_with_a_probe_is_found() {
        let missing = || Reading::Missing(Why::NotApplicable);
        let death = HeapDeath {
            pid: 1,
            thread: 0,
            at: Nanos::ZERO,
            what: "heap out of memory".into(),
            used: missing(),
            total: missing(),
            limit: missing(),
            external: missing(),
        };
        let found = check(&TrialRecord {
            phases: Vec::new(),
            ..probed(ProbeReport {
                lines_lost: 3,
                suspensions: vec![
                    suspension("b"),
                    SuspensionReport { went_on: Some(Because::Unanswered), ..suspension("b") },
                ],
                deaths: vec![death],
                suspended_inside: BTreeMap::from([("whole".to_owned(), "load".to_owned())]),
                ..ProbeReport::default()
            })
        });
        let guards: Vec<&str> = found.iter().map(|finding| finding.guard.as_str()).collect();
        assert_eq!(guards, ["probe_lines_lost", "hold_failed", "suspended_inside", "heap_full_aside"]);
        assert!(found[1].message.ends_with("the runner did not answer"));
        assert!(found[2].message.starts_with("`at_end` of phase `load`") && found[2].phase.as_deref() == Some("whole"));
        assert_eq!(check(&TrialRecord { phases: Vec::new(), ..probed(ProbeReport::default()) }), []);
    }

    #[test]
    fn large_external_memory_of_a_collected_phase_is_named() {
        let of = |external: f64, collected: Option<u64>| {
            let collected = collected.map(Nanos::from_nanos);
            let suspensions = vec![SuspensionReport { collected, ..suspension("b") }];
            let mut trial = probed(ProbeReport { suspensions, ..ProbeReport::default() });
            let end = |metric, value| (MetricKeyText(MetricKey::gauge(metric, Stat::End)), Reading::Measured(value));
            let readings = BTreeMap::from([end(Metric::External, external), end(Metric::HeapUsed, 70e6)]);
            for phase in &mut trial.phases {
                phase.readings = BTreeMap::from([(String::new(), readings.clone())]);
            }
            check(&trial).into_iter().map(|found| (found.phase, found.message)).collect::<Vec<_>>()
        };
        let [(phase, message)] = of(490e6, Some(5)).try_into().unwrap();
        assert_eq!(phase.as_deref(), Some("b"));
        assert!(message.contains("`external` is 490.0 MB"), "{message}");
        assert_eq!(of(490e6, None), [], "nothing was collected");
        assert_eq!(of(10e6, Some(5)), [], "that of the runtime itself");
    }
}
