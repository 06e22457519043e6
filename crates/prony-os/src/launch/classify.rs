//! Decides from evidence how a subject (the measured process) ended (METHOD 1.3). Pure functions.
//!
//! A kill is attributed to memory only by the kernel's own count. Exit code 137 proves nothing, since any program may
//! use it, and neither does `failcnt`, which also rises when reclaim succeeds.

use prony_model::number::count;
use prony_model::outcome::{OutOfMemory, Outcome};
use prony_model::reading::Reading;

use super::Status;
use super::wire::{End, KilledFor};
use crate::limits::MemoryEvidence;

/// Why the runner itself ended the subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndedByUs {
    /// A declared time ran out.
    TimedOut,
    /// The run was interrupted.
    Interrupted,
}

/// All evidence of how a subject ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Evidence {
    /// How its own process ended.
    pub status: Status,
    /// Whether the runner had decided to end it, and why.
    pub ended_by_us: Option<EndedByUs>,
    /// Whether the supervisor had killed the tree.
    pub killed: Option<KilledFor>,
    /// What was observed of memory.
    pub memory: MemoryEvidence,
    /// Its captured error output, in which a runtime says why it aborts.
    pub messages: String,
    /// How its supervisor ended, where that ended first.
    pub lost: Option<String>,
}

impl Evidence {
    /// From the supervisor's report, and what the runner decided.
    pub fn of(end: &End, ended_by_us: Option<EndedByUs>) -> Self {
        let text =
            |captured: &Option<super::Captured>| captured.as_ref().map(super::Captured::text).unwrap_or_default();
        let messages = format!("{}\n{}", text(&end.stderr), text(&end.stdout));
        Self {
            status: end.status,
            ended_by_us,
            killed: end.killed,
            memory: end.memory.clone(),
            messages,
            lost: end.lost.clone(),
        }
    }
}

/// Messages of language runtimes that reach their own heap limit: how the line begins, and what it contains. The same words within
/// other lines may be those of a test or a log.
const HEAP_MESSAGES: [(&str, &str); 11] = [
    ("FATAL ERROR: ", "JavaScript heap out of memory"),
    ("Error [ERR_WORKER_OUT_OF_MEMORY]: ", "memory limit"),
    ("Exception", "java.lang.OutOfMemoryError"),
    ("java.lang.OutOfMemoryError", ""),
    ("Terminating due to java.lang.OutOfMemoryError", ""),
    ("Aborting due to java.lang.OutOfMemoryError", ""),
    ("Unhandled exception. ", "System.OutOfMemoryException"),
    ("System.OutOfMemoryException", ""),
    ("PHP Fatal error: ", "Allowed memory size of"),
    ("Fatal error: ", "Allowed memory size of"),
    ("Heap exhausted", ""),
];

/// Java reports by the same error that the system refused a thread (`unable to create native thread`).
const OF_NO_HEAP: &str = "unable to create";

/// Signals by which runtimes end where their heap is full: those of `abort` and of instructions that end a program.
const ABORTS: [i32; 3] = [libc::SIGABRT, libc::SIGTRAP, libc::SIGILL];

/// The outcome, and sentences with the evidence for it.
pub fn classify(evidence: &Evidence) -> (Outcome, Vec<String>) {
    let mut shown = vec![status_text(evidence.status)];
    if let Some(how) = &evidence.lost {
        shown = vec![format!(
            "prony's supervisor process was ended from outside ({how}), and the measured process was ended with it"
        )];
        let interrupted = evidence.ended_by_us == Some(EndedByUs::Interrupted);
        return (if interrupted { Outcome::Interrupted } else { Outcome::Killed }, shown);
    }
    let outcome = outcome(evidence, &mut shown);
    (outcome, shown)
}

fn outcome(evidence: &Evidence, shown: &mut Vec<String>) -> Outcome {
    if evidence.ended_by_us == Some(EndedByUs::Interrupted) {
        shown.push("the run was interrupted".into());
        return Outcome::Interrupted;
    }
    if let Some(by) = out_of_memory(evidence, shown) {
        return Outcome::OutOfMemory { by };
    }
    if evidence.ended_by_us == Some(EndedByUs::TimedOut) {
        shown.push("the time limit had expired, so prony ended the process".into());
        return Outcome::TimedOut;
    }
    match evidence.status {
        Status::Exited(0) => Outcome::Ok,
        Status::Exited(code) => {
            if code == 128 + libc::SIGKILL {
                shown.push("exit code 137 alone does not show that memory ran out".into());
            }
            Outcome::Failed { code: Some(code) }
        }
        Status::Signalled(libc::SIGKILL) => {
            shown.push(unexplained(evidence));
            Outcome::Killed
        }
        Status::Signalled(signal) => Outcome::Crashed { signal },
    }
}

fn out_of_memory(evidence: &Evidence, shown: &mut Vec<String>) -> Option<OutOfMemory> {
    let memory = &evidence.memory;
    let ours = memory.oom_kills.measured().copied().unwrap_or(0);
    if ours > 0 {
        shown.push(format!(
            "the kernel's OOM killer killed {} of the process tree (`oom_kill`)",
            count(ours, "process")
        ));
        shown.extend(at_the_limit(memory));
        // The counter also rises when the machine, and not the limit, ran out of memory.
        let host = memory.limit.is_none() || memory.limit_reached == Reading::Measured(false);
        return Some(if host { OutOfMemory::Host } else { OutOfMemory::Limit });
    }
    if let Some(message) = heap_message(evidence) {
        shown.push(format!("the process reported `{message}`"));
        return Some(OutOfMemory::Runtime);
    }
    None
}

fn at_the_limit(memory: &MemoryEvidence) -> Option<String> {
    let limit = memory.limit?;
    Some(match &memory.peak {
        Reading::Measured(peak) => format!("peak memory of the process tree: {peak}; its limit: {limit}"),
        Reading::Missing(why) => {
            format!("memory limit of the process tree: {limit}; its peak memory is missing ({why})")
        }
    })
}

/// The line in which a runtime reports that its own heap is full; only from a subject that failed by itself, as runtimes do then.
fn heap_message(evidence: &Evidence) -> Option<&str> {
    let signal = match evidence.status {
        Status::Signalled(signal) => Some(signal),
        // As shells report it.
        Status::Exited(code @ 129..=192) => Some(code - 128),
        Status::Exited(_) => None,
    };
    let fits = signal.map_or(evidence.status != Status::Exited(0), |signal| ABORTS.contains(&signal));
    let begins = |line: &str| HEAP_MESSAGES.iter().any(|(begin, has)| line.starts_with(begin) && line.contains(has));
    // Some runtimes write the program's name before.
    let after_name =
        |line: &'_ str| line.split_once(": ").is_some_and(|(name, rest)| !name.contains(' ') && begins(rest));
    let says = |line: &&str| (begins(line) || after_name(line)) && !line.contains(OF_NO_HEAP);
    let mut lines = evidence.messages.lines().map(str::trim);
    lines.find(says).filter(|_| fits && evidence.ended_by_us.is_none())
}

/// What is known of a SIGKILL for which the kernel's count of the tree gives no reason. That count has the kills of its processes by
/// any OOM killer, the machine's too (`__oom_kill_process` in mm/oom_kill.c). That of the machine has those by limits of other
/// groups: it excludes a cause and shows none.
fn unexplained(evidence: &Evidence) -> String {
    let MemoryEvidence { oom_kills, host_oom_kills, .. } = &evidence.memory;
    let elsewhere = host_oom_kills.measured().copied().unwrap_or(0);
    match (&evidence.killed, oom_kills) {
        (Some(_), _) => "prony killed the tree".into(),
        (None, Reading::Measured(_)) => {
            "prony did not send SIGKILL, and the kernel reports no OOM kill of the process tree".into()
        }
        (None, Reading::Missing(why)) if elsewhere > 0 => format!(
            "prony did not send SIGKILL; meanwhile the kernel's OOM killer killed {} on this machine, and those of the process \
             tree are not counted ({why})",
            count(elsewhere, "process")
        ),
        (None, Reading::Missing(why)) => format!("prony did not send SIGKILL; OOM kills are not counted ({why})"),
    }
}

fn status_text(status: Status) -> String {
    match status {
        Status::Exited(code) => format!("the process exited with code {code}"),
        Status::Signalled(signal) => format!("signal {signal} ended the process"),
    }
}

#[cfg(test)]
mod tests {
    use prony_model::reading::Why;
    use prony_model::units::Bytes;

    use super::*;

    const KILLED: Status = Status::Signalled(libc::SIGKILL);

    /// An end under a limit of 64 MiB without any evidence.
    fn evidence(status: Status) -> Evidence {
        Evidence {
            status,
            ended_by_us: None,
            killed: None,
            memory: MemoryEvidence {
                limit: Some(Bytes::from_mib(64)),
                peak: Reading::Measured(Bytes::from_mib(64)),
                oom_kills: Reading::Measured(0),
                forks_refused: Reading::Measured(0),
                throttled: Reading::Measured(0),
                limit_reached: Reading::Measured(true),
                host_oom_kills: Reading::Measured(0),
            },
            messages: String::new(),
            lost: None,
        }
    }

    fn outcome_of(change: impl FnOnce(&mut Evidence), status: Status) -> Outcome {
        let mut evidence = evidence(status);
        change(&mut evidence);
        classify(&evidence).0
    }

    const fn memory(by: OutOfMemory) -> Outcome {
        Outcome::OutOfMemory { by }
    }

    #[test]
    fn a_kill_of_our_group_at_its_limit_is_the_limits() {
        let mut evidence = evidence(KILLED);
        evidence.memory.oom_kills = Reading::Measured(2);
        evidence.killed = Some(KilledFor::OutOfMemory);
        let (outcome, shown) = classify(&evidence);
        assert_eq!(outcome, memory(OutOfMemory::Limit));
        assert_eq!(
            shown.join("; "),
            "signal 9 ended the process; the kernel's OOM killer killed 2 processes of the process tree \
             (`oom_kill`); peak memory of the process tree: 67.1 MB; its limit: 67.1 MB"
        );
    }

    #[test]
    fn a_kill_of_our_group_away_from_its_limit_is_the_hosts() {
        let away = |e: &mut Evidence| {
            e.memory.oom_kills = Reading::Measured(1);
            e.memory.limit_reached = Reading::Measured(false);
        };
        assert_eq!(outcome_of(away, KILLED), memory(OutOfMemory::Host));
        let unlimited = |e: &mut Evidence| {
            e.memory.oom_kills = Reading::Measured(1);
            e.memory.limit = None;
        };
        assert_eq!(outcome_of(unlimited, KILLED), memory(OutOfMemory::Host));
    }

    #[test]
    fn memory_goes_before_what_came_of_it() {
        let timed_out = |e: &mut Evidence| {
            e.memory.oom_kills = Reading::Measured(1);
            e.ended_by_us = Some(EndedByUs::TimedOut);
        };
        assert_eq!(outcome_of(timed_out, KILLED), memory(OutOfMemory::Limit));
        let survivor = |e: &mut Evidence| e.memory.oom_kills = Reading::Measured(1);
        assert_eq!(outcome_of(survivor, Status::Exited(0)), memory(OutOfMemory::Limit));
    }

    /// The OOM killer of another group was taken for the one that had sent a SIGKILL.
    #[test]
    fn kills_elsewhere_explain_nothing() {
        let elsewhere = |e: &mut Evidence| e.memory.host_oom_kills = Reading::Measured(1);
        assert_eq!(outcome_of(elsewhere, KILLED), Outcome::Killed);
        let mut uncounted = evidence(KILLED);
        elsewhere(&mut uncounted);
        uncounted.memory.oom_kills = Reading::Missing(Why::NotSupported("no group".into()));
        let (outcome, shown) = classify(&uncounted);
        assert_eq!(outcome, Outcome::Killed);
        assert!(shown[1].contains("killed 1 process on this machine") && shown[1].contains("no group"), "{shown:?}");
        assert_eq!(outcome_of(elsewhere, Status::Signalled(11)), Outcome::Crashed { signal: 11 });
        assert_eq!(outcome_of(elsewhere, Status::Exited(137)), Outcome::Failed { code: Some(137) });
        let by_us = |e: &mut Evidence| {
            elsewhere(e);
            e.ended_by_us = Some(EndedByUs::TimedOut);
        };
        assert_eq!(outcome_of(by_us, KILLED), Outcome::TimedOut);
    }

    #[test]
    fn a_kill_without_evidence_stays_unexplained() {
        let (outcome, shown) = classify(&evidence(KILLED));
        assert_eq!(outcome, Outcome::Killed);
        assert_eq!(shown[1], "prony did not send SIGKILL, and the kernel reports no OOM kill of the process tree");
        let unseen = |e: &mut Evidence| {
            e.memory.oom_kills = Reading::Missing(Why::NotApplicable);
            e.memory.host_oom_kills = Reading::Missing(Why::NotApplicable);
        };
        assert_eq!(outcome_of(unseen, KILLED), Outcome::Killed);
    }

    #[test]
    fn a_full_limit_without_a_kill_is_no_evidence() {
        assert_eq!(outcome_of(|_| {}, Status::Signalled(6)), Outcome::Crashed { signal: 6 });
        let (outcome, shown) = classify(&evidence(Status::Exited(137)));
        assert_eq!(outcome, Outcome::Failed { code: Some(137) });
        assert!(shown[1].contains("137 alone does not show"));
    }

    #[test]
    fn a_runtime_that_names_its_heap_is_believed_when_it_fell() {
        let node = "\nFATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory\n 1: 0xb7a \n";
        let says = |e: &mut Evidence| e.messages = node.into();
        assert_eq!(outcome_of(says, Status::Signalled(libc::SIGABRT)), memory(OutOfMemory::Runtime));
        assert_eq!(outcome_of(says, Status::Exited(134)), memory(OutOfMemory::Runtime));
        assert_eq!(outcome_of(says, Status::Exited(0)), Outcome::Ok);
        let java = |e: &mut Evidence| e.messages = "Exception: java.lang.OutOfMemoryError: Java heap space".into();
        assert_eq!(outcome_of(java, Status::Exited(1)), memory(OutOfMemory::Runtime));
        let text =
            "Error [ERR_WORKER_OUT_OF_MEMORY]: Worker terminated due to reaching memory limit: JS heap out of memory";
        let worker = |e: &mut Evidence| e.messages = format!("      throw er;\n      ^\n\n{text}\n    at Worker.x\n");
        assert_eq!(outcome_of(worker, Status::Exited(1)), memory(OutOfMemory::Runtime));
        let haskell = |e: &mut Evidence| e.messages = "prog: Heap exhausted;\nprog: Current maximum heap size".into();
        assert_eq!(outcome_of(haskell, Status::Exited(251)), memory(OutOfMemory::Runtime));
        // Another fault of a program that has the words in its output.
        assert_eq!(outcome_of(java, Status::Signalled(libc::SIGSEGV)), Outcome::Crashed { signal: libc::SIGSEGV });
        assert_eq!(outcome_of(java, Status::Exited(139)), Outcome::Failed { code: Some(139) });
        let test = |e: &mut Evidence| e.messages = "test java.lang.OutOfMemoryError handling: ok".into();
        assert_eq!(outcome_of(test, Status::Exited(1)), Outcome::Failed { code: Some(1) });
        assert_eq!(outcome_of(test, Status::Signalled(libc::SIGABRT)), Outcome::Crashed { signal: libc::SIGABRT });
    }

    #[test]
    fn thread_that_the_system_refused_is_no_full_heap() {
        let text =
            "java.lang.OutOfMemoryError: unable to create native thread: possibly out of memory or process limits";
        for before in ["Exception in thread \"main\" ", "", "Terminating due to "] {
            let says = |e: &mut Evidence| e.messages = format!("{before}{text}");
            assert_eq!(outcome_of(says, Status::Exited(1)), Outcome::Failed { code: Some(1) }, "{before}");
        }
    }

    #[test]
    fn what_we_did_is_not_blamed_on_the_subject() {
        let timed_out = |e: &mut Evidence| e.ended_by_us = Some(EndedByUs::TimedOut);
        assert_eq!(outcome_of(timed_out, KILLED), Outcome::TimedOut);
        assert_eq!(outcome_of(timed_out, Status::Signalled(15)), Outcome::TimedOut);
        let interrupted = |e: &mut Evidence| {
            e.ended_by_us = Some(EndedByUs::Interrupted);
            e.memory.oom_kills = Reading::Measured(1);
        };
        assert_eq!(outcome_of(interrupted, KILLED), Outcome::Interrupted);
    }

    #[test]
    fn a_supervisor_killed_from_outside_is_said_and_nothing_is_guessed() {
        let lost = |e: &mut Evidence| e.lost = Some("signal: 9 (SIGKILL)".into());
        assert_eq!(outcome_of(lost, KILLED), Outcome::Killed);
        let mut found = evidence(KILLED);
        lost(&mut found);
        let shown = classify(&found).1;
        assert!(shown.len() == 1 && shown[0].contains("(signal: 9 (SIGKILL))"), "{shown:?}");
        found.ended_by_us = Some(EndedByUs::Interrupted);
        assert_eq!(classify(&found).0, Outcome::Interrupted);
    }

    #[test]
    fn plain_ends_are_plain() {
        assert_eq!(outcome_of(|_| {}, Status::Exited(0)), Outcome::Ok);
        assert_eq!(outcome_of(|_| {}, Status::Exited(3)), Outcome::Failed { code: Some(3) });
        assert_eq!(outcome_of(|_| {}, Status::Signalled(11)), Outcome::Crashed { signal: 11 });
    }
}
