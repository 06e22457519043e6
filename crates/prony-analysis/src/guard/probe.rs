//! Guards that check the reports of the probe that prony loads into a program's language runtime.

use std::collections::BTreeSet;

use serde_json::json;

use super::{Finding, Severity, bytes, gauge, is_part_of};
use prony_model::metric::{Metric, Stat};
use prony_model::number::count;
use prony_model::record::probe::Because;
use prony_model::record::{Completion, Effective, PhaseRecord, ProbeReport, ProcessSeries, TrialRecord};
use prony_model::units::{Bytes, Nanos};

/// A heap that was not sampled for this long may have been much larger in the meantime.
const UNREAD: Nanos = Nanos::from_secs(1);

/// External memory below this is attributed to the runtime itself.
const EXTERNAL: Bytes = Bytes::from_mib(16);

/// External memory below this share of the heap in use is attributed to the runtime too.
const EXTERNAL_SHARE: f64 = 0.1;

/// A process of a runtime that was sampled for this long had time to load its probe.
const LOADED: Nanos = Nanos::from_secs(1);

/// Every guard of probes; finds nothing in trials of programs without a probe.
pub fn check(record: &TrialRecord) -> Vec<Finding> {
    let Some(probe) = &record.conditions.probe else { return Vec::new() };
    let mut findings = Vec::from_iter(lines_lost(probe));
    findings.extend(no_probe(record, probe));
    findings.extend(read_rarely(record, probe));
    findings.extend(went_on(probe));
    findings.extend(suspended_inside(probe));
    findings.extend(aborted_aside(record, probe));
    findings.extend(finalizers_not_run(record, probe));
    findings
}

/// Lines of the probe were lost: calls or heap samples that they reported are missing.
fn lines_lost(probe: &ProbeReport) -> Option<Finding> {
    let lost = Some(probe.lines_lost).filter(|lost| *lost > 0)?;
    let message = format!(
        "prony lost {} of the probe in the language runtime, so that function calls or heap samples may be missing",
        count(lost, "line")
    );
    let hint = "reduce the load on the machine, or run fewer processes with a probe";
    Some(Finding::of("probe_lines_lost", Severity::Warning, message, hint).with(json!({ "lines": lost })))
}

/// Processes of the probed runtimes, by their commands, that were sampled for a while and never reported anything: a script or a
/// shell on their way replaced the variable that loads the probe. `probed` are the processes that reported, with their runtimes.
/// A process under another name, or one that ended soon, is not known; nor is which of them reported where none of their numbers
/// was sampled, since those of PID namespaces are others: then all are named if they are more than the numbers that reported.
pub fn without_probe<'s>(
    series: impl Iterator<Item = &'s ProcessSeries> + Clone,
    probed: &[(u32, &str)],
) -> Vec<&'s ProcessSeries> {
    let has = |pid: u32| probed.iter().any(|(of, _)| *of == pid);
    let roles: BTreeSet<&str> = series.clone().filter(|one| has(one.pid)).map(|one| one.role.as_str()).collect();
    let is_of = |command: &str, runtime: &str| match runtime {
        "node" => command == runtime,
        _ => command.starts_with(runtime),
    };
    let lasted = |one: &ProcessSeries| {
        let (first, last) = (one.samples.first(), one.samples.last());
        first.zip(last).is_some_and(|(first, last)| last.at.since(first.at) >= LOADED)
    };
    let silent = |one: &&ProcessSeries| {
        !has(one.pid)
            && (roles.is_empty() || roles.contains(one.role.as_str()))
            && probed.iter().any(|(_, runtime)| is_of(&one.command, runtime))
            && lasted(one)
    };
    let silent: Vec<&ProcessSeries> = series.filter(silent).collect();
    let reported = probed.iter().map(|(pid, _)| pid).collect::<BTreeSet<_>>().len();
    // As many as reported are these themselves: in PID namespaces they have other numbers.
    if roles.is_empty() && silent.len() <= reported { Vec::new() } else { silent }
}

/// Processes of the runtime without a probe: no heap and no call of them is in any metric.
fn no_probe(record: &TrialRecord, probe: &ProbeReport) -> Option<Finding> {
    let probed: Vec<(u32, &str)> = probe.threads.iter().map(|thread| (thread.pid, thread.runtime.as_str())).collect();
    let services = || record.effective.iter().flat_map(Effective::services);
    let own = |one: &&ProcessSeries| !services().any(|service| is_part_of(&one.role, &service.program));
    let silent = without_probe(record.series.iter().filter(own), &probed);
    let first = silent.first()?;
    let message = format!(
        "{} of the program reported nothing to prony (the first: `{}`, process {}): it loaded no probe, or it was forked by \
         Python and came to no garbage collection, timed call or orderly end, or it is in a PID namespace, where several processes \
         report as one because they have the same number; heaps and calls of such processes are in no metric",
        count(silent.len(), "process"),
        first.command,
        first.pid
    );
    let hint = "let forked processes end in order; append to the variable that loads the probe where a script replaces it: `NODE_OPTIONS=\"$NODE_OPTIONS ...\"`, \
        `PYTHONPATH=...:$PYTHONPATH`, and start Python without `-I` and `-E`";
    let processes: Vec<_> = silent.iter().map(|one| json!({ "pid": one.pid, "command": one.command })).collect();
    Some(Finding::of("no_probe", Severity::Warning, message, hint).with(json!(processes)))
}

/// A heap was sampled so rarely that its largest sample may be far too low.
fn read_rarely(record: &TrialRecord, probe: &ProbeReport) -> Vec<Finding> {
    let phases = record.phases.iter().filter(|phase| phase.completion != Completion::NotReached);
    let finding = |phase: &PhaseRecord| {
        let gap = probe.unread.get(&phase.name).copied().filter(|gap| *gap >= UNREAD)?;
        let (message, hint) = unread(gap, probe.samples_dropped);
        Some(Finding::of("heap_read_rarely", Severity::Note, message, hint).in_phase(&phase.name))
    };
    phases.filter_map(finding).collect()
}

/// Why a heap has no sample for so long: none was taken, or the samples were dropped.
fn unread(gap: Nanos, dropped: u64) -> (String, &'static str) {
    if dropped > 0 {
        let message = format!(
            "heap samples are missing for {gap}: the trial reached its limit on the number of samples, and {dropped} \
             later samples were dropped"
        );
        return (
            message,
            "heap samples after that limit are missing; measure a shorter phase, or fewer function calls",
        );
    }
    let message = format!(
        "the heap of a process was not read for {gap}: the program kept its thread busy, so that the probe in its runtime \
         could not run"
    );
    (message, "take `max`, `min` and `mean` of the heap as approximate; `end` is exact where it was measured")
}

/// The program should have been suspended at the end of a function call, but it continued by itself or ended.
fn went_on(probe: &ProbeReport) -> Option<Finding> {
    let first = probe.suspensions.iter().find(|suspension| suspension.by_itself() || suspension.fault.is_some())?;
    let why = first.fault.as_deref().or(first.went_on.map(Because::meaning)).unwrap_or_default();
    let message = format!("suspending the program at the end of a function call failed: {why}");
    let hint = "memory at the end of the phase was not read as `at_end` requires; repeat the run on a machine with \
        less load";
    Some(Finding::of("hold_failed", Severity::Warning, message, hint))
}

/// Phases that were running while `at_end` of another phase suspended the program: they have no measurements.
fn suspended_inside(probe: &ProbeReport) -> Vec<Finding> {
    let finding = |(phase, by): (&String, &String)| {
        let message = format!(
            "`at_end` of phase `{by}` suspended the program during this phase, so that this phase has no measurements"
        );
        let hint = "end this phase before the program is suspended, or measure the two phases in two separate \
            experiments";
        let found = Finding::of("suspended_inside", Severity::Warning, message, hint).in_phase(phase);
        found.with(json!({ "by": by }))
    };
    probe.suspended_inside.iter().map(finding).collect()
}

/// A process of the program aborted at its own heap limit, and the program continued as if nothing had happened.
fn aborted_aside(record: &TrialRecord, probe: &ProbeReport) -> Option<Finding> {
    let heap_aborts = &probe.heap_aborts;
    if heap_aborts.is_empty() || !record.ending.outcome.is_ok() {
        return None;
    }
    let message = format!(
        "{} processes or threads of the program ended at their heap limit, and the program went on",
        heap_aborts.len()
    );
    let hint = "without them the program did different work: raise the heap limit, or find out what fills \
        the heap";
    Some(Finding::of("heap_full_aside", Severity::Warning, message, hint).with(json!({ "deaths": heap_aborts })))
}

/// External memory was read while the program was suspended: it still includes what finalizer callbacks would release.
fn finalizers_not_run(record: &TrialRecord, probe: &ProbeReport) -> Vec<Finding> {
    let collected = |phase: &PhaseRecord| {
        probe.suspensions.iter().any(|suspension| suspension.phase == phase.name && suspension.collected.is_some())
    };
    let finding = |phase: &PhaseRecord| {
        let (external, used) = (gauge(phase, Metric::External, Stat::End)?, gauge(phase, Metric::HeapUsed, Stat::End)?);
        if !collected(phase) || external < (EXTERNAL.as_bytes() as f64).max(EXTERNAL_SHARE * used) {
            return None;
        }
        let message = format!(
            "`external` memory is {} after the forced garbage collection, but finalizers had not run yet",
            bytes(external)
        );
        let hint = "`external` still includes what a FinalizationRegistry or a native addon releases later; read it \
            again in a later phase";
        let found = Finding::of("finalizers_not_run", Severity::Note, message, hint).in_phase(&phase.name);
        Some(found.with(json!({ "external": external })))
    };
    record.phases.iter().filter_map(finding).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::program::tests::record;
    use super::super::tests::heap_abort;
    use super::*;
    use prony_model::metric::MetricKey;
    use prony_model::outcome::Outcome;
    use prony_model::reading::Reading;
    use prony_model::record::probe::{SuspensionReport, ThreadReport};
    use prony_model::record::{Conditions, EffectiveProgram, MetricKeyText, ProcessSample};

    /// A trial that ended well, with what its probes reported.
    fn probed(probe: ProbeReport) -> TrialRecord {
        let conditions = Conditions { probe: Some(probe), ..Conditions::default() };
        TrialRecord { conditions, ..record(Outcome::Ok, EffectiveProgram::default()) }
    }

    /// `NODE_OPTIONS=--max-old-space-size=4096 node build.js` as a script of npm: the heap was that of npm.
    #[test]
    fn process_of_the_runtime_that_reports_nothing_is_named() {
        let of = |pid, role: &str, command: &str, until| {
            let at = |at| ProcessSample { at: Nanos::from_millis(at), ..ProcessSample::default() };
            ProcessSeries { pid, role: role.into(), command: command.into(), samples: vec![at(100), at(until)] }
        };
        let mut series = vec![
            of(1, "site", "npm run build", 9_000),
            of(2, "site", "sh", 9_000),
            of(3, "site", "node", 1_099),
            of(4, "site", "node-gyp", 9_000),
            of(5, "site", "python3", 9_000),
            of(6, "other", "node", 9_000),
        ];
        assert_eq!(without_probe(series.iter(), &[(1, "node")]), Vec::<&ProcessSeries>::new());
        series.push(of(7, "site", "node", 1_100));
        let pids = |probed: &[(u32, &str)]| {
            without_probe(series.iter(), probed).into_iter().map(|one| one.pid).collect::<Vec<_>>()
        };
        assert_eq!(pids(&[(1, "node")]), [7]);
        assert_eq!(pids(&[(1, "node"), (7, "node")]), [0; 0]);
        assert_eq!(pids(&[(1, "python")]), [5]);
        assert_eq!(pids(&[]), [0; 0], "nothing was probed");
        // In PID namespaces of their own both were process 1, and the second one's reports ended the first's: its heap of 400 MB was
        // in no figure.
        let both = [of(7, "site", "node", 9_000), of(8, "site", "node", 9_000), of(9, "site", "sh", 9_000)];
        let pids =
            |probed: &[(u32, &str)]| without_probe(both.iter(), probed).iter().map(|one| one.pid).collect::<Vec<_>>();
        assert_eq!(pids(&[(1, "node"), (1, "node")]), [7, 8]);
        assert_eq!(pids(&[(1, "node"), (2, "node")]), [0; 0], "both reported");
        let thread: ThreadReport = serde_json::from_value(json!({
            "pid": 1, "thread": 0, "role": "main", "parent": 0, "runtime": "node", "version": "", "script": "", "began": 0,
            "ended": 0, "said_bye": true, "samples": 0, "last_heap_used": null, "heap_limit": null, "probe": null
        }))
        .unwrap();
        let report = ProbeReport { threads: vec![thread], ..ProbeReport::default() };
        let found = |series| no_probe(&TrialRecord { series, ..probed(report.clone()) }, &report);
        assert!(found(series).unwrap().message.contains("1 process of the program reported nothing"));
        assert_eq!(found(Vec::new()), None);
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
        assert!(found[0].message.contains("kept its thread busy"), "{}", found[0].message);
        probe.samples_dropped = 12_345;
        let found = check(&probed(probe));
        assert!(found[0].message.contains("12345 later samples were dropped"), "{}", found[0].message);
        assert!(!found[0].message.contains("opportunity"), "the program is not to blame");
    }

    #[test]
    fn what_went_wrong_with_a_probe_is_found() {
        let found = check(&TrialRecord {
            phases: Vec::new(),
            ..probed(ProbeReport {
                lines_lost: 3,
                suspensions: vec![
                    suspension("b"),
                    SuspensionReport { went_on: Some(Because::Unanswered), ..suspension("b") },
                ],
                heap_aborts: vec![heap_abort()],
                suspended_inside: BTreeMap::from([("whole".to_owned(), "load".to_owned())]),
                ..ProbeReport::default()
            })
        });
        let guards: Vec<&str> = found.iter().map(|finding| finding.guard.as_str()).collect();
        assert_eq!(guards, ["probe_lines_lost", "hold_failed", "suspended_inside", "heap_full_aside"]);
        assert!(found[1].message.ends_with("prony did not answer in time"));
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
        assert!(message.contains("`external` memory is 490.0 MB"), "{message}");
        assert_eq!(of(490e6, None), [], "nothing was collected");
        assert_eq!(of(10e6, Some(5)), [], "that of the runtime itself");
    }
}
