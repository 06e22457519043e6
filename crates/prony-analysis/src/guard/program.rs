//! Guards that check one trial of a program (a command, as opposed to a store).

use serde_json::json;

use super::phases_not_observed::observed;
use super::{Finding, Severity, amount, gauge, heap, nanos, percent, probe, recorded};
use prony_model::metric::{Metric, MetricKey, MetricName, Stat};
use prony_model::number::{are, count};
use prony_model::program::Trigger;
use prony_model::reading::{Reading, Why};
use prony_model::record::effective::{Call, ProgramStore};
use prony_model::record::{Completion, Effective, PhaseRecord, Settled, TrialRecord};
use prony_model::spec::TrialSpec;
use prony_model::units::{Bytes, Nanos};

/// A program may have waited for this share of its time until its output was read, without a finding.
const READ: f64 = 0.03;

/// If the begin or the end of a phase was noticed later than this share of its wall time, its counters may include
/// activity of neighbouring phases.
const LATE: f64 = 0.25;

/// The guard of CPU time that is short beside its error.
const COARSE_CPU: &str = "coarse_cpu";

/// The error of CPU time may be this share of it without a finding.
const COARSE: f64 = 0.1;

/// Reading the size of a program's store may take this share of the phases' time without a finding.
const READING: f64 = 0.05;

/// Every guard of programs; finds nothing in trials of stores.
pub fn check(spec: &TrialSpec, record: &TrialRecord) -> Vec<Finding> {
    let mut findings = unheard(record);
    findings.extend(read_by_several(record));
    findings.extend(unordered(record));
    findings.extend(rows_unknown(record));
    findings.extend(deferred(record));
    findings.extend(repeated(record));
    findings.extend(settled_unseen(record));
    findings.extend(late(spec, record));
    findings.extend(coarse_cpu(record));
    findings.extend(lines_too_long(record));
    findings.extend(left_behind(record));
    findings.extend(left_by_commands(record));
    findings.extend(strange_marks(record));
    findings.extend(probe::check(record));
    findings.extend(heap::beside_cache(spec, record));
    if let Some(store) = record.program().and_then(|program| program.store.as_ref()) {
        findings.extend(store_not_found(record, store));
        findings.extend(store_carried_over(store));
        findings.extend(store_read_long(record, store));
    }
    findings
}

/// Signs of activity that could not be measured while prony waited for the program to become quiet: the program may
/// still have been active in these.
pub(crate) fn settled_unseen(record: &TrialRecord) -> Vec<Finding> {
    let finding = |(name, settled): (&String, &Settled)| {
        let blind = &settled.result.as_ref().filter(|result| !result.blind.is_empty())?.blind;
        let message = format!(
            "quiet was judged without these signs of activity, which could not be measured: {}",
            blind.join(", ")
        );
        let hint = "take the settle time (until the program is quiet) as a lower bound; `prony doctor` lists what this \
            machine can measure";
        Some(Finding::of("settled_unseen", Severity::Warning, message, hint).in_phase(name))
    };
    record.conditions.settled.iter().filter_map(finding).collect()
}

/// No line matched `read` in phases that ended well: the metrics and answers that `read` should have given are missing.
pub(crate) fn unheard(record: &TrialRecord) -> Vec<Finding> {
    let finding = |name: &String| {
        let message =
            "no output line of the phase matched `read`: the metrics that `read` names are missing".to_owned();
        let hint = "compare the pattern with what the program writes between the begin and the end of the phase";
        Finding::of("read_nothing", Severity::Warning, message, hint).in_phase(name)
    };
    // A phase that was cut off may not have come to the line.
    let cut_off = |name: &&String| recorded(record, name).is_some_and(|phase| phase.completion == Completion::Partial);
    let silent = record.program().map_or(&[][..], |program| &program.heard_nothing);
    silent.iter().filter(|name| !cut_off(name)).map(finding).collect()
}

/// Lines matched the `read` of several phases, of which at least one begins or ends with a mark or a function call: it
/// is not known in which of these phases each line was written.
pub(crate) fn read_by_several(record: &TrialRecord) -> Option<Finding> {
    let phases = &record.program().filter(|program| !program.read_by_several.is_empty())?.read_by_several;
    let message = format!(
        "an output line matched the `read` of several phases, `{}`: the metrics of that line are missing in all of \
         these phases",
        phases.join("`, `")
    );
    let hint = "write the patterns so that each line matches the `read` of one phase only: the order of output lines \
        relative to marks or function calls is not known";
    Some(Finding::of("read_by_several", Severity::Warning, message, hint).with(json!({ "phases": phases })))
}

pub(crate) const ORDER_NOT_KNOWN: &str = "it is not known in which order lines of stdout and stderr were written";

pub(crate) const ONE_STREAM: &str = "write all lines of the program to one of the two (`2>&1` in a shell)";

/// Lines of stdout and stderr of which the order is not known decide what a phase reads: its metrics and answers from `read` are missing.
pub(crate) fn unordered(record: &TrialRecord) -> Vec<Finding> {
    let finding = |name: &String| {
        let message = format!("{ORDER_NOT_KNOWN}: the metrics that `read` names are missing");
        Finding::of("unordered", Severity::Warning, message, ONE_STREAM).in_phase(name)
    };
    record.program().map_or_else(Vec::new, |program| program.unordered.keys().map(finding).collect())
}

/// Phases that ended well and whose lines gave no number of rows: their answers are compared without the number of
/// rows, or not at all.
pub(crate) fn rows_unknown(record: &TrialRecord) -> Vec<Finding> {
    let Some(program) = record.program() else { return Vec::new() };
    let explained = |name: &String| {
        program.heard_nothing.contains(name)
            || program.read_by_several.contains(name)
            || program.unordered.contains_key(name)
    };
    let ended = record.phases.iter().filter(|phase| phase.completion == Completion::Complete);
    let found = ended.filter(|phase| !explained(&phase.name)).filter_map(|phase| {
        let Reading::Missing(Why::Failed(why)) = phase.reading(MetricKey::amount(Metric::Rows))? else { return None };
        let message =
            format!("the number of rows is not known, so that answers are compared without it or not at all: {why}");
        let hint = "print `rows` as a number in the phase's last output line that matches `read`: without it prony \
            cannot tell whether programs return the same number of rows";
        Some(Finding::of("rows_unknown", Severity::Warning, message, hint).in_phase(&phase.name))
    });
    found.collect()
}

/// Phases of a function that returned before it did its work, such as a generator function: the time of the call is not
/// that of the work.
fn deferred(record: &TrialRecord) -> Vec<Finding> {
    let finding = |(phase, call): (&String, &Call)| {
        let message = format!("{}, so the phase has no measurements", call.deferred.as_ref()?);
        let hint = "name a function that consumes what this function returns, or end the phase with an output line or \
            a mark; if it is an open connection, return it from an `async` function";
        Some(Finding::of("work_after_call", Severity::Warning, message, hint).in_phase(phase))
    };
    record.program().map_or_else(Vec::new, |program| program.calls.iter().filter_map(finding).collect())
}

/// Phases whose begin came again, a line or a mark: a phase is measured only once in a trial.
pub fn repeated(record: &TrialRecord) -> Vec<Finding> {
    let finding = |(name, times): (&String, &u64)| {
        let more = if *times == 1 { "once".to_owned() } else { format!("{times} times") };
        let message =
            format!("the lines or marks of this phase came {more} more: only the first occurrence is measured");
        let hint = "if the work repeats, end the phase at its last line or with the program, or measure a function, of \
            which every call counts; if the work does not repeat, write a pattern that matches a single line";
        let found = Finding::of("phase_repeated", Severity::Warning, message, hint).in_phase(name);
        found.with(json!({ "not_counted": times }))
    };
    record.program().map_or_else(Vec::new, |program| program.repeated.iter().map(finding).collect())
}

/// Phases whose begin or end was noticed so late that their counters may include other activity.
pub fn late(spec: &TrialSpec, record: &TrialRecord) -> Vec<Finding> {
    let watched = record.phases.iter().filter(|phase| phase.action == "observe" && phase.timed);
    let finding = |phase: &PhaseRecord, lag: f64, wall: f64| {
        let [late, took] = [lag, wall].map(nanos);
        let memory = gauge(phase, Metric::Anon, Stat::Max);
        let (severity, what) = if amount(phase, Metric::Cpu).is_none() && memory.is_none() {
            (Severity::Warning, "metrics read from counters are missing")
        } else {
            (Severity::Note, "CPU time, bytes and system calls may include those of neighbouring phases")
        };
        let message = format!(
            "the counters were read up to {late} after the begin or the end of the phase, which took {took}: {what}"
        );
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

/// Phases at whose begin or end threads ran on, and that used so little CPU time that the kernel's tick matters in it.
fn coarse_cpu(record: &TrialRecord) -> Vec<Finding> {
    let finding = |phase: &PhaseRecord| {
        let error =
            amount(phase, Metric::CpuOver).into_iter().chain(amount(phase, Metric::CpuUnder)).fold(0.0, f64::max);
        let cpu = amount(phase, Metric::Cpu).filter(|cpu| phase.timed && COARSE * cpu < error)?;
        let [shown, used] = [error, cpu].map(nanos);
        let message = format!(
            "CPU time may be off by up to {shown}, and the phase used {used}: if threads run when a phase begins or ends, the \
             kernel has not counted the last scheduler tick of each, and counters may be read late"
        );
        let hint = "compare its wall time, or make the phase longer: a verdict on its CPU time allows for this error";
        let severity = if cpu < error { Severity::Warning } else { Severity::Note };
        let found = Finding::of(COARSE_CPU, severity, message, hint).in_phase(&phase.name);
        Some(found.with(json!({ "error": error, "cpu": cpu })))
    };
    record.phases.iter().filter_map(finding).collect()
}

/// Makes coarse CPU time a note in phases whose CPU time a brief report does not show: a warning about it would stand above
/// verdicts that it does not concern. `shown` are the metrics that are compared or that a table of the experiment shows.
/// Beside a compared metric of a program, a report shows the CPU time of the phase.
pub fn note_coarse_cpu(findings: &mut [Finding], shown: &[&MetricName], is_program: bool) {
    let shows = |phase: &Option<String>| {
        let of_phase = |name: &&&MetricName| phase.as_ref() == Some(&name.phase);
        shown
            .iter()
            .filter(of_phase)
            .any(|name| is_program || matches!(name.key.metric, Metric::Cpu | Metric::CpuUser | Metric::CpuSystem))
    };
    let aside = findings.iter_mut().filter(|found| found.guard == COARSE_CPU && !shows(&found.phase));
    aside.for_each(|found| found.severity = Severity::Note);
}

/// A hint how to have counters read closer to the boundaries of a phase; it depends on what begins the phase.
const fn read_sooner(begin: Option<&Trigger>) -> &'static str {
    match begin {
        Some(Trigger::Line(_)) => {
            "have the program wait 0.1 s after it writes the line that begins the phase, or make the phase longer; \
             function calls, and marks with `at`, carry their own timestamps"
        }
        Some(Trigger::Mark(_)) => {
            "have the program wait 0.1 s after the mark that begins the phase, or make the phase longer; a mark with \
             `at` carries its own timestamp"
        }
        Some(Trigger::Call(_) | Trigger::Invocation(_)) => {
            "measure a longer phase, such as the function that makes these calls: the times of calls are exact, but \
             counters are read slightly later, after prony has been notified of the call"
        }
        Some(Trigger::After(_) | Trigger::Replicas | Trigger::Settle(_)) | None => {
            "make the phase longer: counters are read after prony has noticed the begin and the end of the phase"
        }
    }
}

/// No file was ever found at the path that `store` gives for the program's data.
fn store_not_found(record: &TrialRecord, store: &ProgramStore) -> Option<Finding> {
    if store.found || !record.ending.outcome.is_ok() {
        return None;
    }
    let message = format!("no file was found at the program's `store`, `{}`", store.path.display());
    let hint =
        "compare this path with where the program writes; relative paths start at the program's working directory";
    Some(Finding::of("store_not_found", Severity::Warning, message, hint))
}

/// The program's store was not empty when the trial began: it may hold data of an earlier trial (METHOD 1.1).
fn store_carried_over(store: &ProgramStore) -> Option<Finding> {
    let before = store.at_begin?.blocks;
    if store.of_the_trial || before == Bytes::default() {
        return None;
    }
    let message = format!(
        "the program's `store` already held {before} when the trial began, in a directory that it shares with other trials"
    );
    let hint = "if earlier trials left this data, remove it in `prepare`, or give each trial its own copy with `copy = \
        \"trial\"`";
    Some(Finding::of("store_carried_over", Severity::Note, message, hint).with(json!({ "blocks": before })))
}

/// Reading the size of a store took a considerable part of the time in which the program ran.
fn store_read_long(record: &TrialRecord, store: &ProgramStore) -> Option<Finding> {
    let reading = store.reading.as_nanos() as f64;
    let wall = record.phases.iter().filter_map(|phase| Some(phase.end?.since(phase.begin?).as_nanos())).sum::<u64>();
    if reading <= READING * wall as f64 {
        return None;
    }
    let (took, wall) = (store.reading, Nanos::from_nanos(wall));
    let message = format!(
        "reading the size of the program's `store` (when phases begin or end, and while prony waits for quiet) took \
         {took} of the {wall} of the phases"
    );
    let hint = "name a smaller part of the data as `store`: reading its size uses CPU time and the disk";
    Some(
        Finding::of("store_read_long", Severity::Warning, message, hint)
            .with(json!({ "reading_ns": store.reading, "settling_ns": store.settling })),
    )
}

/// Output that prony had to read.
#[derive(Clone, Debug, PartialEq)]
pub struct Flood {
    /// What wrote it, as in a sentence.
    pub who: String,
    /// Bytes of standard output and standard error.
    pub written: [u64; 2],
    /// For how long prony was busy while a phase was open and a pipe may have been full.
    pub waited: Nanos,
}

/// Something wrote so much output that its time depends on how fast prony reads it and searches it for patterns.
pub fn flooded(record: &TrialRecord, Flood { who, written: [stdout, stderr], waited }: &Flood) -> Option<Finding> {
    let (begin, end) =
        (record.phases.iter().filter_map(|p| p.begin).min(), record.phases.iter().filter_map(|p| p.end).max());
    let took = begin.zip(end).map_or(record.took, |(begin, end)| end.since(begin));
    let share = waited.as_nanos() as f64 / took.as_nanos().max(1) as f64;
    if share <= READ {
        return None;
    }
    let message = format!(
        "{who} wrote {} of output, and may have waited {waited} until prony had read it: {} of the time of the phases",
        Bytes::from_bytes(stdout + stderr),
        percent(share.min(1.0))
    );
    let hint = "make it write less. Where no pattern is searched for in its lines, discard them: `--output null` with \
        `prony exec`, `output = \"null\"` in a file";
    let found = Finding::of("output_flooded", Severity::Warning, message, hint);
    Some(found.with(json!({ "stdout": stdout, "stderr": stderr, "waited_ns": waited })))
}

/// Lines in which no pattern was searched for.
fn lines_too_long(record: &TrialRecord) -> Option<Finding> {
    let output = &record.program()?.output;
    let lines = Some(output.stdout.too_long + output.stderr.too_long).filter(|lines| *lines > 0)?;
    let are = are(lines);
    let message = format!("{} {are} longer than 1 MiB, and no pattern was searched for there", count(lines, "line"));
    let hint = "write what the patterns of phases search for in lines of their own";
    Some(Finding::of("lines_too_long", Severity::Warning, message, hint).with(json!({ "lines": lines })))
}

/// Processes continued to run after the program's own process had ended.
pub(crate) fn left_behind(record: &TrialRecord) -> Option<Finding> {
    let left = Some(record.program()?.left_behind).filter(|left| *left > 0)?;
    let processes = count(left, "process");
    let message = format!("after the program's main process had ended, prony killed {processes} still running");
    let hint = "what these processes did after that is not measured; run a daemon in its foreground mode";
    Some(Finding::of("left_behind", Severity::Warning, message, hint).with(json!({ "processes": left })))
}

/// Processes continued to run after the command of a phase beside services had ended.
pub(crate) fn left_by_commands(record: &TrialRecord) -> Vec<Finding> {
    let of = |(phase, left): (&str, u64)| {
        let processes = count(left, "process");
        let message =
            format!("after the main process of the command had ended, prony killed {processes} of it still running");
        let hint = "what these processes did after that is not measured: let the command wait for them, or run what is to go on \
            as a service";
        let found = Finding::of("left_behind", Severity::Warning, message, hint).in_phase(phase);
        found.with(json!({ "processes": left }))
    };
    record.effective.iter().flat_map(Effective::left_by_commands).map(of).collect()
}

/// Marks that name no phase, or that could not be parsed.
pub(crate) fn strange_marks(record: &TrialRecord) -> Option<Finding> {
    let program = record.program()?;
    // The list holds the first few only.
    let (list, all) = (&program.strange_marks, program.strange_marks_in_all);
    let first = list.first()?;
    let message = format!("{all} marks name no phase or are malformed; the first is `{first}`");
    let hint = "a mark is `NAME begin`, `NAME end`, or a line of JSON; its name is that of a phase or of the phase's \
        `mark`; the optional `at` is a CLOCK_MONOTONIC time in nanoseconds";
    Some(Finding::of("strange_marks", Severity::Note, message, hint).with(json!({ "all": all, "marks": list })))
}

#[cfg(test)]
pub(super) mod tests;
