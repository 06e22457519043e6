//! Guards that check one trial of a program.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::unseen::observed;
use super::{Finding, Severity, amount};
use prony_model::metric::{Metric, MetricKey, Stat};
use prony_model::program::Trigger;
use prony_model::record::probe::Because;
use prony_model::record::{Completion, PhaseRecord, Settled, TrialRecord};
use prony_model::spec::TrialSpec;
use prony_model::units::{Bytes, Nanos};

/// Output beyond which writing it is a considerable part of the program's work.
const FLOOD: Bytes = Bytes::from_mib(16);

/// A heap that grows for so long without being read may have been much larger.
const UNREAD: Nanos = Nanos::from_secs(1);

/// If begin and end of a phase were noticed later than this share of it, its counters may include neighbouring phases.
const LATE: f64 = 0.25;

/// External memory below this is that of the runtime itself.
const EXTERNAL: Bytes = Bytes::from_mib(16);

/// The same below this share of the heap in use.
const EXTERNAL_SHARE: f64 = 0.1;

/// Reading a store at snapshots may take this part of the phases' time.
const READING: f64 = 0.05;

/// Every guard of programs; finds nothing in trials of stores.
pub fn check(spec: &TrialSpec, record: &TrialRecord) -> Vec<Finding> {
    let mut findings = unheard(record);
    findings.extend(read_by_several(record));
    findings.extend(repeated(record));
    findings.extend(settled_unseen(record));
    findings.extend(late(spec, record));
    findings.extend(flooded(record));
    findings.extend(left_behind(record));
    findings.extend(strange_marks(record));
    findings.extend(lines_lost(record));
    findings.extend(read_rarely(record));
    findings.extend(went_on(record));
    findings.extend(suspended_inside(record));
    findings.extend(died_aside(record));
    findings.extend(finalizers_not_run(record));
    findings.extend(store_not_found(record));
    findings.extend(store_carried_over(record));
    findings.extend(store_read_long(record));
    findings
}

/// Paths of a program's directory that have changed since the run began: later copies have other content, or the
/// program has written there.
pub fn source_changed(directory: &Path, paths: &[&Path]) -> Option<Finding> {
    let (first, more) = (paths.first()?, paths.len() - 1);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    let message = format!(
        "`{}`{more} in the program's directory `{}` changed since the run began",
        first.display(),
        directory.display()
    );
    let hint = "leave the directory alone while a run is under way; where the program itself writes there, by a path of its \
                own, let it write to its copy (`{dir}`)";
    let finding = Finding::of("source_changed", Severity::Warning, message, hint);
    let named: Vec<_> = paths.iter().take(20).map(|path| path.to_string_lossy()).collect();
    Some(finding.with(json!({ "directory": directory.to_string_lossy(), "paths": named, "all": paths.len() })))
}

/// `build` left the copy as it was, which was `changed` for the variant or not: what it writes elsewhere is of no variant.
pub fn build_changed_nothing(changed: bool) -> Finding {
    let message = "`build` changed nothing in the copy".to_owned();
    let hint = "if it writes elsewhere, have it write below `{dir}`: all variants write to the same place there, and what the \
                last of them built is measured in each; if there was nothing to do, leave `build` out";
    // What is up to date needs no build; what was changed does.
    let severity = if changed { Severity::Warning } else { Severity::Note };
    Finding::of("build_changed_nothing", severity, message, hint)
}

/// A revision lacks so many submodules that the user's own tree has.
pub fn submodules_empty(count: usize) -> Finding {
    let message = format!("{count} submodules of the revision are empty in its copy, and are not in the repository");
    let hint = "have `build` fill them with `git submodule update --init`, which needs a whole URL in `.gitmodules` since the \
                copy has no remote; or copy the directory, without `revision`";
    Finding::of("submodules_empty", Severity::Warning, message, hint).with(json!({ "count": count }))
}

/// A patch was applied at other lines than it names: `moved` says which, as `patch` does.
pub fn patch_moved(moved: &str) -> Finding {
    let message = format!("a patch was applied at other lines than it names: {moved}");
    let hint = "make the patch anew of the directory as it is: where its lines are there more than once, it may have changed \
                others than those it was made for";
    Finding::of("patch_moved", Severity::Warning, message, hint)
}

/// What the variant runs was built before the run, so long ago, where that is known.
pub fn build_reused(age: Option<Duration>) -> Finding {
    let ago = match age.map(|age| age.as_secs()) {
        None => "before".to_owned(),
        Some(seconds @ ..120) => format!("{seconds} s before"),
        Some(seconds @ ..7_200) => format!("{} min before", seconds / 60),
        Some(seconds @ ..172_800) => format!("{} h before", seconds / 3_600),
        Some(seconds) => format!("{} days before", seconds / 86_400),
    };
    let message = format!("its build was made {ago}, of the same content by the same command");
    let hint = "`PRONY_CACHE=off` builds again: what a build depends on besides, as the rest of a toolchain, may be another now";
    Finding::of("build_reused", Severity::Note, message, hint)
}

/// Signs of activity that could not be seen of a program that was watched for quiet: quiet means quiet without them.
pub fn settled_unseen(record: &TrialRecord) -> Vec<Finding> {
    let finding = |(name, settled): (&String, &Settled)| {
        let blind = &settled.result.as_ref().filter(|result| !result.blind.is_empty())?.blind;
        let message = format!("quiet was determined without {}", blind.join(", "));
        let hint = "take the settle time as a lower bound; `prony doctor` lists what this machine can measure";
        Some(Finding::of("settled_unseen", Severity::Warning, message, hint).in_phase(name))
    };
    record.conditions.settled.iter().filter_map(finding).collect()
}

/// Lines should have been read in phases that ended well, and none matched: the metrics of `read` are missing, answers
/// included.
pub fn unheard(record: &TrialRecord) -> Vec<Finding> {
    let finding = |name: &String| {
        let message = "no output line of the phase matched `read`: its metrics are missing".to_owned();
        let hint = "compare the pattern with what the program writes between the phase's begin and its end";
        Finding::of("read_nothing", Severity::Warning, message, hint).in_phase(name)
    };
    // A phase that was cut off may not have come to the line.
    let cut_off = |name: &&String| {
        record.phases.iter().any(|phase| phase.name == **name && phase.completion == Completion::Partial)
    };
    let silent = record.program().map_or(&[][..], |program| &program.heard_nothing);
    silent.iter().filter(|name| !cut_off(name)).map(finding).collect()
}

/// Lines matched the `read` of several phases, one of which begins or ends with marks or calls: it is not known in
/// which of them each was written.
pub fn read_by_several(record: &TrialRecord) -> Option<Finding> {
    let phases = &record.program().filter(|program| !program.read_by_several.is_empty())?.read_by_several;
    let message = format!(
        "a line matched the `read` of several phases, `{}`: the metrics that it names are missing in each of them",
        phases.join("`, `")
    );
    let hint =
        "write patterns so that only one of them matches a line: the order of lines and of marks or calls is not known";
    Some(Finding::of("read_by_several", Severity::Warning, message, hint).with(json!({ "phases": phases })))
}

/// Phases that a line of output would have begun again: a phase is measured only once in a trial.
pub fn repeated(record: &TrialRecord) -> Vec<Finding> {
    let finding = |(name, times): (&String, &u64)| {
        let more = if *times == 1 { "once".to_owned() } else { format!("{times} times") };
        let message = format!("its lines came {more} more: only its first occurrence is measured");
        let hint = "where the work repeats, end the phase with the last of it, let it end with the program, or measure a \
                    function, all calls of which count; where it does not, write a pattern that only one line matches";
        let found = Finding::of("phase_repeated", Severity::Warning, message, hint).in_phase(name);
        found.with(json!({ "not_counted": times }))
    };
    record.program().map_or_else(Vec::new, |program| program.repeated.iter().map(finding).collect())
}

/// Phases that were noticed so late that their counters partly include other activity.
pub fn late(spec: &TrialSpec, record: &TrialRecord) -> Vec<Finding> {
    let watched = record.phases.iter().filter(|phase| phase.action == "observe" && phase.timed);
    let finding = |phase: &PhaseRecord, lag: f64, wall: f64| {
        let [late, took] = [lag, wall].map(|nanos| Nanos::from_nanos(nanos as u64));
        let memory = phase.reading(MetricKey::gauge(Metric::Anon, Stat::Max)).and_then(|memory| memory.measured());
        let (severity, what) = if amount(phase, Metric::Cpu).is_none() && memory.is_none() {
            (Severity::Warning, "it has no figure that was read then")
        } else {
            (Severity::Note, "its CPU time, bytes and calls may include those of neighbouring phases")
        };
        let message = format!("its begin or its end was read up to {late} late, and it took {took}: {what}");
        let begin = observed(spec, phase).and_then(|observe| observe.begin.as_ref());
        let found = Finding::of("late_counters", severity, message, read_sooner(begin)).in_phase(&phase.name);
        found.with(json!({ "lag": lag, "wall": wall }))
    };
    let found = watched.filter_map(|phase| {
        let took = || Some(phase.end?.since(phase.begin?).as_nanos() as f64);
        let (lag, wall) = (amount(phase, Metric::Lag)?, amount(phase, Metric::Wall).or_else(took)?);
        (lag > LATE * wall).then(|| finding(phase, lag, wall))
    });
    found.collect()
}

/// How to bring the reading of counters nearer to the boundaries of a phase, by what begins it.
const fn read_sooner(begin: Option<&Trigger>) -> &'static str {
    match begin {
        Some(Trigger::Line(_)) => {
            "have the program wait 0.1 s after it writes the line that begins the phase, or make the phase longer; calls of \
             a function, and marks with `at`, carry timestamps of their own"
        }
        Some(Trigger::Mark(_)) => {
            "have the program wait 0.1 s after the mark that begins the phase, or make the phase longer; a mark with `at` \
             carries a timestamp of its own"
        }
        Some(Trigger::Call(_) | Trigger::Invocation(_)) => {
            "measure a phase that is longer, such as the function that makes these calls: times of calls are exact, and \
             counters are read when prony has been notified of a call"
        }
        Some(Trigger::After(_) | Trigger::Replicas | Trigger::Settle(_)) | None => {
            "make the phase longer: counters are read when prony has noticed its begin and its end"
        }
    }
}

/// Lines of probes that did not arrive: figures may lack what they reported.
pub fn lines_lost(record: &TrialRecord) -> Option<Finding> {
    let lost = record.conditions.probe.as_ref()?.lines_lost;
    if lost == 0 {
        return None;
    }
    let message =
        format!("{lost} lines of the runtime's probe were lost, so that calls or heap figures may be missing");
    let hint = "run with less load on the machine, or with fewer processes of the runtime";
    Some(Finding::of("probe_lines_lost", Severity::Warning, message, hint).with(json!({ "lines": lost })))
}

/// A heap that was read so rarely that its largest figure may be far too low.
pub fn read_rarely(record: &TrialRecord) -> Vec<Finding> {
    let phases = record.phases.iter().filter(|phase| phase.completion != Completion::NotReached);
    let finding = |phase: &PhaseRecord| {
        let probe = record.conditions.probe.as_ref()?;
        let gap = *probe.unread.get(&phase.name)?;
        if gap < UNREAD {
            return None;
        }
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
pub fn went_on(record: &TrialRecord) -> Option<Finding> {
    let suspensions = &record.conditions.probe.as_ref()?.suspensions;
    let first = suspensions.iter().find(|suspension| suspension.by_itself() || suspension.fault.is_some())?;
    let why = first.fault.as_deref().or(first.went_on.map(Because::text)).unwrap_or_default();
    let message = format!("suspending the program at the end of a call failed: {why}");
    let hint = "memory at the phase's end was not read as asked; run it again on a machine with less load";
    Some(Finding::of("hold_failed", Severity::Warning, message, hint))
}

/// Phases that were running while `at_end` of another one suspended the program: they have no figures.
pub fn suspended_inside(record: &TrialRecord) -> Vec<Finding> {
    let finding = |(phase, by): (&String, &String)| {
        let message =
            format!("`at_end` of phase `{by}` suspended the program inside this phase, so that it has no figures");
        let hint = "let the phase end before, or measure the two in experiments of their own";
        let found = Finding::of("suspended_inside", Severity::Warning, message, hint).in_phase(phase);
        found.with(json!({ "by": by }))
    };
    record.conditions.probe.iter().flat_map(|probe| &probe.suspended_inside).map(finding).collect()
}

/// External memory read while a program was suspended still includes what callbacks of finalizers would release.
pub fn finalizers_not_run(record: &TrialRecord) -> Vec<Finding> {
    let suspensions = record.conditions.probe.iter().flat_map(|probe| &probe.suspensions);
    let collected: BTreeSet<&str> = suspensions
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

/// A process of the program aborted at its own heap limit, and the program continued as if nothing had happened.
pub fn died_aside(record: &TrialRecord) -> Option<Finding> {
    let deaths = &record.conditions.probe.as_ref().filter(|probe| !probe.deaths.is_empty())?.deaths;
    if !record.ending.outcome.is_ok() {
        return None;
    }
    let message = format!("{} processes of the program died because their heap was full", deaths.len());
    let hint = "without them the program did different work";
    Some(Finding::of("heap_full_aside", Severity::Warning, message, hint).with(json!({ "deaths": deaths })))
}

/// The program's data were never at the path that `store` gives.
pub fn store_not_found(record: &TrialRecord) -> Option<Finding> {
    let store = record.program()?.store.as_ref()?;
    if store.found || !record.ending.outcome.is_ok() {
        return None;
    }
    let message = format!("no file was found at the program's `store`, `{}`", store.path.display());
    let hint = "compare it with where the program writes; relative paths start at the directory it works in";
    Some(Finding::of("store_not_found", Severity::Warning, message, hint))
}

/// Data of an earlier trial may have been there when this one began (METHOD 1.1).
pub fn store_carried_over(record: &TrialRecord) -> Option<Finding> {
    let store = record.program()?.store.as_ref()?;
    let before = store.at_begin?.blocks;
    if store.of_the_trial || before == Bytes::default() {
        return None;
    }
    let message = format!("the program's `store` had {before} when the trial began, in a directory that trials share");
    let hint = "where trials before it left that, let `prepare` remove it, or `copy = \"trial\"` give each its own";
    Some(Finding::of("store_carried_over", Severity::Note, message, hint).with(json!({ "blocks": before })))
}

/// Reading the size of a store took a considerable part of the time in which the program ran.
pub fn store_read_long(record: &TrialRecord) -> Option<Finding> {
    let store = record.program()?.store.as_ref()?;
    let reading = store.reading.as_nanos() as f64;
    let wall = record.phases.iter().filter_map(|phase| Some(phase.end?.since(phase.begin?).as_nanos())).sum::<u64>();
    if reading <= READING * wall as f64 {
        return None;
    }
    let (took, wall) = (store.reading, Nanos::from_nanos(wall));
    let message = format!(
        "reading the program's `store`, where phases begin and end and while one waits for quiet, took {took} of {wall}"
    );
    let hint = "name a smaller part of it as `store`: reading it uses a processor and the disk";
    Some(
        Finding::of("store_read_long", Severity::Warning, message, hint)
            .with(json!({ "reading_ns": store.reading, "settling_ns": store.settling })),
    )
}

/// The program wrote so much output that writing it affects its time.
pub fn flooded(record: &TrialRecord) -> Option<Finding> {
    let output = &record.program()?.output;
    let (stdout, stderr) = (output.stdout.total, output.stderr.total);
    let total = Bytes::from_bytes(stdout + stderr);
    if total < FLOOD {
        return None;
    }
    let message = format!("the program wrote {total} of output, of which only the beginning and the end are recorded");
    let hint = "writing them is part of the figures: make the program quieter, or set `output = \"null\"`";
    let found = Finding::of("output_flooded", Severity::Warning, message, hint);
    Some(found.with(json!({ "stdout": stdout, "stderr": stderr })))
}

/// Processes continued to run after the program's own process had ended.
pub fn left_behind(record: &TrialRecord) -> Option<Finding> {
    let left = record.program()?.left_behind;
    if left == 0 {
        return None;
    }
    let message = format!(
        "{left} processes were still running when the program's own process had ended, and were \
        ended"
    );
    let hint = "what they did after that is in no figure; a daemon is measured in its foreground mode";
    Some(Finding::of("left_behind", Severity::Warning, message, hint).with(json!({ "processes": left })))
}

/// Marks that belong to no phase, or could not be read.
pub fn strange_marks(record: &TrialRecord) -> Option<Finding> {
    let program = record.program()?;
    // The list holds the first few only.
    let (list, all) = (&program.strange_marks, program.strange_marks_in_all);
    let first = list.first()?;
    let message = format!("{all} marks belong to no phase or are wrong, the first: `{first}`");
    let hint = "a mark is `NAME begin`, `NAME end`, or a line of JSON, with the name of a phase or of its `mark`; its \
                `at`, where it has one, is CLOCK_MONOTONIC in nanoseconds";
    Some(Finding::of("strange_marks", Severity::Note, message, hint).with(json!({ "all": all, "marks": list })))
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::*;
    use prony_model::metric::MetricKey;
    use prony_model::outcome::{Ending, Outcome};
    use prony_model::program::{ObserveSpec, ProgramSpec};
    use prony_model::reading::Reading;
    use prony_model::record::effective::{Output, ProgramStore};
    use prony_model::record::probe::{HeapDeath, SuspensionReport};
    use prony_model::record::{
        Captured, Conditions, DiskUsage, Effective, EffectiveProgram, MetricKeyText, ProbeReport, SettleResult,
    };
    use prony_model::spec::{Action, Limits, PhaseSpec, Subject};
    use prony_model::trial::{Label, PlannedTrial};

    /// A program whose phases `b` and `c` begin and end so.
    pub(in crate::guard) fn spec(begin_c: Option<Trigger>, end_b: Option<Trigger>) -> TrialSpec {
        let phase = |name: &str, begin, end| {
            let observe = ObserveSpec { begin, end, ..ObserveSpec::WHOLE };
            PhaseSpec { name: name.into(), timed: true, action: Action::Observe(observe), limit: None }
        };
        let program = r#"{"name":"x","command":{"words":["run"]},"directory":null,"copy":"none","links":"refuse",
            "store":null,"env":{},"inherit":[],"input":"null","output":"capture","pty":false,"runtime":null,
            "success":[0],"build":null,"prepare":null,"cleanup":null,"warmup":0,"changes":[]}"#;
        let program: ProgramSpec = serde_json::from_str(program).unwrap();
        let phases = vec![phase("a", None, None), phase("b", None, end_b), phase("c", begin_c, None)];
        TrialSpec { subject: Subject::Program(Box::new(program)), data: None, phases, limits: Limits::default() }
    }

    fn check(record: &TrialRecord) -> Vec<Finding> {
        super::check(&spec(None, None), record)
    }

    pub(in crate::guard) fn phase(name: &str, completion: Completion) -> PhaseRecord {
        PhaseRecord {
            name: name.into(),
            action: "observe".into(),
            timed: true,
            completion,
            begin: None,
            end: None,
            readings: BTreeMap::new(),
            histograms: vec![],
            groups: None,
            throughput: None,
            answer: None,
            errors: BTreeMap::new(),
        }
    }

    /// Of three phases, `a` was complete, `b` began and `c` did not.
    pub(in crate::guard) fn record(outcome: Outcome, effective: EffectiveProgram) -> TrialRecord {
        let completions = [Completion::Complete, Completion::Partial, Completion::NotReached];
        TrialRecord {
            trial: PlannedTrial { block: 0, sub_block: 0, position: 0, variant: 0, label: Label::A, seed: 1 },
            started_unix_ms: 0,
            took: Nanos::from_secs(1),
            ending: Ending { outcome, phase: None, after: Nanos::ZERO, evidence: vec![] },
            phases: ["a", "b", "c"].into_iter().zip(completions).map(|(name, how)| phase(name, how)).collect(),
            effective: Some(Effective::Program(Arc::new(effective))),
            conditions: Conditions::default(),
            series: vec![],
            sampler_cpu: Reading::Measured(Nanos::ZERO),
            findings: vec![],
        }
    }

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
    fn source_changed_names_the_first_path_and_counts_the_rest() {
        let found = |paths: &[&str]| {
            let paths: Vec<&Path> = paths.iter().map(Path::new).collect();
            source_changed(Path::new("/home/site"), &paths).map(|finding| finding.message)
        };
        assert_eq!(found(&[]), None);
        let one = "`a.js` in the program's directory `/home/site` changed since the run began";
        assert_eq!(found(&["a.js"]).as_deref(), Some(one));
        assert_eq!(found(&["a.js", "b", "c"]), Some(one.replace("`a.js`", "`a.js` and 2 more")));
    }

    #[test]
    fn quiet_not_observed_completely_is_reported() {
        let settled = |blind: &[&str]| {
            let blind = blind.iter().map(|sign| (*sign).to_owned()).collect();
            let result = Some(SettleResult { blind, ..SettleResult::default() });
            let settled = BTreeMap::from([("a".to_owned(), Settled { quiet: Nanos::from_nanos(1), result })]);
            let conditions = Conditions { settled, ..Conditions::default() };
            check(&TrialRecord { conditions, ..record(Outcome::Ok, EffectiveProgram::default()) })
        };
        assert_eq!(settled(&[]), []);
        let [found] = settled(&["bytes written: not permitted: `/proc/7/io`"]).try_into().unwrap();
        assert_eq!((found.guard.as_str(), found.phase.as_deref()), ("settled_unseen", Some("a")));
        assert!(found.message.ends_with("without bytes written: not permitted: `/proc/7/io`"), "{}", found.message);
    }

    #[test]
    fn a_heap_that_was_not_read_for_long_is_noted() {
        let unread = [("a", 1_500), ("b", 900), ("c", 2_000)];
        let unread = unread.map(|(phase, ms)| (phase.to_owned(), Nanos::from_millis(ms))).into();
        let mut probe = ProbeReport { unread, ..ProbeReport::default() };
        let found = read_rarely(&probed(probe.clone()));
        assert_eq!(found.iter().map(|finding| finding.phase.as_deref()).collect::<Vec<_>>(), [Some("a")]);
        assert!(found[0].message.contains("for 1.500 s") || found[0].message.contains("1.5"), "{}", found[0].message);
        assert!(found[0].message.contains("no opportunity"), "{}", found[0].message);
        probe.samples_dropped = 12_345;
        let found = read_rarely(&probed(probe));
        assert!(found[0].message.contains("12345 later samples were dropped"), "{}", found[0].message);
        assert!(!found[0].message.contains("opportunity"), "the program is not to blame");
    }

    #[test]
    fn what_went_wrong_with_a_probe_is_found() {
        let missing = || Reading::Missing(prony_model::reading::Why::NotApplicable);
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
            finalizers_not_run(&trial).into_iter().map(|found| (found.phase, found.message)).collect::<Vec<_>>()
        };
        let [(phase, message)] = of(490e6, Some(5)).try_into().unwrap();
        assert_eq!(phase.as_deref(), Some("b"));
        assert!(message.contains("`external` is 490.0 MB"), "{message}");
        assert_eq!(of(490e6, None), [], "nothing was collected");
        assert_eq!(of(10e6, Some(5)), [], "that of the runtime itself");
    }

    #[test]
    fn counters_that_were_read_late_are_named() {
        let mut record = record(Outcome::Ok, EffectiveProgram::default());
        let mut set = |phase: usize, lag: f64, wall: f64| {
            let reading = |metric, value| (MetricKeyText(MetricKey::amount(metric)), Reading::Measured(value));
            let readings = BTreeMap::from([reading(Metric::Lag, lag), reading(Metric::Wall, wall)]);
            record.phases[phase].readings = BTreeMap::from([(String::new(), readings)]);
        };
        set(0, 1e6, 100e6);
        set(1, 20e6, 6e6);
        set(2, 20e6, 6e6);
        record.phases[2].timed = false;
        let found = late(&spec(None, None), &record);
        assert_eq!(found.iter().map(|finding| finding.phase.as_deref()).collect::<Vec<_>>(), [Some("b")]);
        assert!(found[0].message.contains("up to 20.00 ms late, and it took 6.00 ms"), "{}", found[0].message);
        // Its hint is one for the source that begins it.
        record.phases.swap(1, 2);
        record.phases[1].timed = false;
        record.phases[2].name = "c".into();
        let hint = |begin: Trigger| late(&spec(Some(begin), None), &record).remove(0).hint;
        let of_line = hint(Trigger::Line("x".into()));
        assert!(of_line.contains("after it writes the line that begins the phase"), "{of_line}");
        assert!(hint(Trigger::Mark("x".into())).contains("after the mark that begins"));
        for begin in [Trigger::Call("a#b".into()), Trigger::Invocation("a#b".into())] {
            let hint = hint(begin);
            assert!(hint.contains("longer") && !hint.contains("wait") && !hint.contains("line"), "{hint}");
        }
        assert!(hint(Trigger::After("a".into())).starts_with("make the phase longer"));
    }

    #[test]
    fn a_store_that_is_not_there_or_was_there_before_or_takes_long_is_named() {
        let of = |outcome, store: Option<ProgramStore>| {
            let mut trial = record(outcome, EffectiveProgram { store, ..EffectiveProgram::default() });
            trial.phases.truncate(1);
            (trial.phases[0].begin, trial.phases[0].end) = (Some(Nanos::ZERO), Some(Nanos::from_secs(1)));
            check(&trial).into_iter().map(|finding| finding.guard).collect::<Vec<_>>()
        };
        let store = |found, blocks: Option<u64>, of_the_trial, reading| {
            let usage = |blocks| DiskUsage { blocks: Bytes::from_bytes(blocks), ..DiskUsage::default() };
            let (at_begin, reading) = (blocks.map(usage), Nanos::from_nanos(reading));
            Some(ProgramStore { path: "/x".into(), of_the_trial, at_begin, found, reading, settling: Nanos::ZERO })
        };
        let some = Some(4096);
        assert_eq!(of(Outcome::Ok, store(false, None, false, 0)), ["store_not_found"]);
        assert_eq!(of(Outcome::TimedOut, store(false, None, false, 0)), [""; 0], "it may not have come so far");
        assert_eq!(of(Outcome::Ok, store(true, some, false, 0)), ["store_carried_over"]);
        assert_eq!(of(Outcome::Ok, store(true, some, true, 50_000_000)), [""; 0], "it began with a copy of its own");
        assert_eq!(of(Outcome::Ok, store(true, Some(0), false, 50_000_001)), ["store_read_long"]);
        assert_eq!(of(Outcome::Ok, None), [""; 0]);
    }

    #[test]
    fn floods_leftovers_and_strange_marks_are_counted() {
        let wrote = |mib: u64| Captured { total: mib << 20, ..Captured::default() };
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let effective = EffectiveProgram {
            output: Output { stdout: wrote(60), stderr: wrote(4) },
            left_behind: 2,
            strange_marks: texts(&["x begin"]),
            strange_marks_in_all: 1,
            heard_nothing: texts(&["a", "b"]),
            read_by_several: texts(&["b", "c"]),
            ..EffectiveProgram::default()
        };
        let found = check(&record(Outcome::TimedOut, effective));
        let guards: Vec<&str> = found.iter().map(|finding| finding.guard.as_str()).collect();
        assert_eq!(guards, ["read_nothing", "read_by_several", "output_flooded", "left_behind", "strange_marks"]);
        assert_eq!(found[0].phase.as_deref(), Some("a"));
        assert!(found[1].message.contains("several phases, `b`, `c`:"), "{}", found[1].message);
        assert!(found[2].message.contains("67.1 MB"), "{}", found[2].message);
        let marks = texts(&["x begin", "y end"]);
        let many = EffectiveProgram { strange_marks: marks, strange_marks_in_all: 10_000, ..Default::default() };
        let found = check(&record(Outcome::TimedOut, many));
        assert!(found[0].message.starts_with("10000 marks"), "those that were not stored count: {}", found[0].message);
        let output = Output { stdout: wrote(1), ..Output::default() };
        let quiet = EffectiveProgram { output, ..EffectiveProgram::default() };
        assert_eq!(check(&record(Outcome::TimedOut, quiet)), []);
    }
}
