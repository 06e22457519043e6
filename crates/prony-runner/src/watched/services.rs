//! All observations of a trial's services from their start to their end.

use std::collections::BTreeMap;

use prony_boundaries::probe_reports::Threads;
use prony_counters::Number;
use prony_model::outcome::Outcome;
use prony_model::reading::{Reading, Why};
use prony_model::record::{EffectiveProgram, MemoryEvidence};
use prony_model::service::{CountersSpec, ReadySign, ReadySpec};
use prony_model::units::Nanos;
use prony_os::clock::monotonic;
use prony_os::launch::classify::{Evidence, classify};
use prony_os::launch::{Captured, End, Finished, Status, last_lines};
use prony_os::sample::Snapshot;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, test_kill_process_group};

/// The services of a trial, as observed; nothing where there are none.
#[derive(Debug, Default)]
pub struct Served {
    /// Whether the trial measures servers, of which there may be none where it loads a server that prony did not start.
    pub are_measured: bool,
    /// The role of what they are for: the load generator, or a store's worker, where they are measured.
    pub client: String,
    /// Reports of the probes in each instance, by role, and why there are none.
    pub probes: BTreeMap<String, (Threads, Why)>,
    /// The roles of each service's instances.
    pub roles: BTreeMap<String, Vec<String>>,
    /// Every snapshot of the trial with the services' processes, where they are beside a program: the program's own snapshots are
    /// without them.
    pub(crate) snapshots: Vec<Snapshot>,
    /// What instances counted themselves, by role.
    pub(crate) counts: BTreeMap<String, Counts>,
    /// What is recorded of each service, in the order in which they were started.
    pub effective: Vec<EffectiveProgram>,
    /// The first that did not get ready, or ended before the last phase had.
    pub fault: Option<Fault>,
    /// What ending what was left of them took.
    pub finished: Finished,
    /// Why what instances stored may be incomplete: they did not end well when they were asked to, or before.
    pub(crate) incomplete: Vec<String>,
}

impl Served {
    /// Whether a role is that of one of the instances.
    pub(crate) fn has(&self, role: &str) -> bool {
        self.roles.values().flatten().any(|own| own == role)
    }

    /// Adds an instance.
    pub(crate) fn add(&mut self, service: &str, role: &str, threads: Threads, silent: Why) {
        self.probes.insert(role.to_owned(), (threads, silent));
        self.roles.entry(service.to_owned()).or_default().push(role.to_owned());
    }
}

/// Whether a process group has a process that has not ended.
pub(crate) fn is_group_there(group: u32) -> bool {
    let group = i32::try_from(group).ok().and_then(Pid::from_raw);
    // Of another user's processes it is not permitted, and they are there.
    group.is_some_and(|group| test_kill_process_group(group) != Err(Errno::SRCH))
}

/// Why what an instance stored may be incomplete, which was `asked` to end at an instant, and of which so many processes were killed then.
pub(crate) fn incomplete(role: &str, end: Option<&End>, asked: Nanos, killed: u64) -> Option<String> {
    // As shells and Java's runtime say that they ended by the signal.
    const BY_TERM: i32 = 128 + Signal::TERM.as_raw();
    const TERM: i32 = Signal::TERM.as_raw();
    let end = end?;
    let when = if end.at < asked { "before it was asked to end" } else { "after SIGTERM" };
    let how = match end.status {
        _ if end.killed.is_some() => "did not end in time after SIGTERM and was killed".to_owned(),
        Status::Exited(0) | Status::Exited(BY_TERM) | Status::Signalled(TERM) if killed > 0 => {
            "left processes behind when it ended, which prony killed".to_owned()
        }
        Status::Exited(0) => return None,
        Status::Exited(BY_TERM) | Status::Signalled(TERM) if end.at >= asked => return None,
        Status::Exited(code) => format!("ended with exit code {code} {when}"),
        Status::Signalled(signal) => format!("ended by signal {signal} {when}"),
    };
    Some(format!("service `{role}` {how}: what it stored may be incomplete"))
}

/// How long the end of a service may take to be known after its clients have noticed it; and how long a program may take to end
/// after it has closed its connections.
pub(crate) const NOTICED: Nanos = Nanos::from_millis(150);

/// Why services made a trial fail.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// How.
    pub outcome: Outcome,
    /// When that was known.
    pub at: Nanos,
    /// The evidence: signals, messages, last lines of output.
    pub evidence: Vec<String>,
    /// Its port is used by another process.
    pub port_in_use: bool,
    /// What was observed of its memory.
    pub memory: Option<MemoryEvidence>,
}

impl Fault {
    /// Whether its service ended while something needed it; `until` is when nothing did any more, where that has come.
    pub(crate) fn is_early(&self, until: Option<Nanos>) -> bool {
        until.is_none_or(|until| self.at <= until)
    }

    /// How long after the end of its service a program may end well without having needed it. A server may end, with exit code 0, since
    /// its client has closed the connection, and before the client has ended.
    pub(crate) fn grace(&self) -> Nanos {
        if self.outcome == (Outcome::Failed { code: Some(0) }) { NOTICED } else { Nanos::ZERO }
    }

    /// It is known now, by this evidence.
    fn now(evidence: Vec<String>) -> Self {
        Self { outcome: Outcome::Failed { code: None }, at: monotonic(), evidence, port_in_use: false, memory: None }
    }

    /// It could not be executed.
    pub(crate) fn not_begun(role: &str, why: String) -> Self {
        Self::now(vec![format!("service `{role}`: {why}")])
    }

    /// Its `setup` failed.
    pub(crate) fn not_set_up(role: &str, why: &str) -> Self {
        Self::not_begun(role, format!("its `setup` failed: {why}"))
    }

    /// Another process answers where it is to listen.
    pub(crate) fn address_in_use(role: &str) -> Self {
        let why = "another process accepts connections at its address before it is started".to_owned();
        Self { port_in_use: true, ..Self::not_begun(role, why) }
    }

    /// It was not ready in time; `found` is what the last attempt found.
    pub(crate) fn not_ready(role: &str, ready: &ReadySpec, found: Option<&str>, output: &[Captured; 2]) -> Self {
        let mut texts = output.iter().map(Captured::text);
        let unended = matches!(ready.sign, ReadySign::Line(_))
            && texts.any(|text| !text.is_empty() && !text.ends_with(['\n', '\r']));
        let unended = unended.then_some("its last line has no end, and only whole lines are matched");
        let why = found.or(unended).map(|why| format!(": {why}")).unwrap_or_default();
        let late = format!("service `{role}` was not ready within {}{why}", ready.within);
        Self::now([late].into_iter().chain(said(role, output)).collect())
    }

    /// A server that prony did not start ended. How it did is not known: only its parent can ask.
    pub(crate) fn ended_elsewhere(role: &str) -> Self {
        let ended =
            format!("service `{role}` ended before the trial did; how is not known, since prony did not start it");
        Self::now(vec![ended])
    }

    /// It ended before it was asked to.
    pub(crate) fn ended(role: &str, end: &End, output: &[Captured; 2]) -> Self {
        let messages = output.iter().rev().map(Captured::text).collect::<Vec<_>>().join("\n");
        let port_in_use = ["EADDRINUSE", "ddress already in use"].iter().any(|sign| messages.contains(sign));
        let (outcome, shown) = classify(&Evidence { messages, ..Evidence::of(end, None) });
        // It was to run until the end of the trial.
        let outcome = if outcome.is_ok() { Outcome::Failed { code: Some(0) } } else { outcome };
        let shown = shown.into_iter().map(|text| format!("service `{}`: {text}", role));
        let first = format!("service `{}` ended before the trial did", role);
        let evidence = [first].into_iter().chain(shown).chain(said(role, output)).collect();
        Self { outcome, at: end.at, evidence, port_in_use, memory: Some(end.memory.clone()) }
    }
}

fn said(role: &str, output: &[Captured; 2]) -> Option<String> {
    Some(format!("service `{}`: {}", role, last_lines(output)?))
}

/// Numbers by name, each of which may be missing.
pub(crate) type Values = BTreeMap<String, Reading<Number>>;

/// What was read of one instance of a service.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Counts {
    /// What was to be read.
    pub spec: CountersSpec,
    /// Before the first phase and after each, as far as the trial came.
    pub between: Vec<Between>,
}

/// What was read between two phases.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Between {
    /// At the end of the phase before, with all that it did.
    pub end: Values,
    /// When the phase after could begin. It is later where something was waited for: what happened meanwhile is of no phase,
    /// except in the totals that were waited for, which are those of the phase before.
    pub begin: Values,
    /// Inside the phase before, at these instants.
    pub samples: Vec<(Nanos, Values)>,
}

/// No numbers of these names, for the same reason.
pub(crate) fn missing<'n>(names: impl Iterator<Item = &'n String>, why: &Why) -> Values {
    names.map(|name| (name.clone(), Reading::Missing(why.clone()))).collect()
}

#[cfg(test)]
mod tests {
    use prony_os::launch::{KilledFor, Status};

    use super::*;
    use crate::figures::span::tests::{ms, snapshot, watched};

    fn end(status: Status) -> End {
        End { status, ..watched(vec![snapshot(70, 0, &[])], vec![]).ended }
    }

    fn wrote(output: &str, messages: &str) -> [Captured; 2] {
        [output, messages].map(|text| Captured { first: text.to_owned(), ..Captured::default() })
    }

    #[test]
    fn what_was_killed_or_failed_may_have_stored_a_part() {
        // It ended at 70 ms.
        let of = |status, asked, killed| incomplete("db", Some(&end(status)), ms(asked), killed);
        for status in [Status::Exited(0), Status::Exited(143), Status::Signalled(15)] {
            assert_eq!(of(status, 60, 0), None);
            assert!(of(status, 60, 1).unwrap().contains("left processes behind"));
        }
        assert!(of(Status::Exited(7), 60, 0).unwrap().contains("with exit code 7 after SIGTERM"));
        assert!(of(Status::Signalled(11), 60, 1).unwrap().contains("by signal 11 after SIGTERM"));
        assert!(of(Status::Signalled(15), 80, 0).unwrap().contains("by signal 15 before it was asked to end"));
        assert_eq!(of(Status::Exited(0), 80, 0), None, "its clients had closed their connections");
        let killed = End { killed: Some(KilledFor::Asked), ..end(Status::Signalled(9)) };
        assert!(incomplete("db", Some(&killed), ms(60), 0).unwrap().contains("did not end in time"));
    }

    #[test]
    fn process_group_is_there_until_its_last_process_was_waited_for() {
        use std::os::unix::process::CommandExt;
        let mut child = std::process::Command::new("sleep").arg("600").process_group(0).spawn().unwrap();
        assert!(is_group_there(child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!is_group_there(child.id()));
    }

    #[test]
    fn service_that_ended_by_itself_failed_even_with_exit_code_0() {
        let fault = Fault::ended("api", &end(Status::Exited(0)), &wrote("ready\n", "bye\n"));
        assert_eq!((fault.outcome, fault.at, fault.port_in_use), (Outcome::Failed { code: Some(0) }, ms(70), false));
        assert!(fault.memory.is_some());
        let evidence = [
            "service `api` ended before the trial did",
            "service `api`: the process exited with code 0",
            "service `api`: last lines of output: `bye`",
        ];
        assert_eq!(fault.evidence, evidence);
        let fault = Fault::ended("api", &end(Status::Signalled(11)), &wrote("", ""));
        assert_eq!((fault.outcome, fault.evidence.len()), (Outcome::Crashed { signal: 11 }, 2), "it wrote nothing");
    }

    #[test]
    fn service_that_ends_when_nothing_needs_it_is_late() {
        let fault = Fault::ended("api", &end(Status::Exited(0)), &wrote("", ""));
        let early = [None, Some(ms(70)), Some(ms(69))].map(|until| fault.is_early(until));
        assert_eq!((early, fault.grace()), ([true, true, false], NOTICED));
        assert_eq!(Fault::ended("api", &end(Status::Exited(3)), &wrote("", "")).grace(), Nanos::ZERO);
    }

    #[test]
    fn port_in_use_is_found_in_what_a_service_wrote() {
        let messages = ["Error: listen EADDRINUSE: address already in use 127.0.0.1:1", "bind: Address already in use"];
        for [output, messages] in messages.map(|text| [["", text], [text, ""]]).into_iter().flatten() {
            let fault = Fault::ended("api", &end(Status::Exited(1)), &wrote(output, messages));
            assert!(fault.port_in_use, "{output}{messages}");
        }
        assert!(Fault::address_in_use("api").port_in_use);
        assert!(!Fault::ended("api", &end(Status::Exited(1)), &wrote("", "no such table")).port_in_use);
    }

    #[test]
    fn service_that_did_not_get_ready_says_what_it_wrote() {
        let ready = |sign| ReadySpec { sign, within: ms(1_500) };
        let fault = Fault::not_ready("db.2", &ready(ReadySign::Line("^up".into())), None, &wrote("loading\n", ""));
        let evidence =
            ["service `db.2` was not ready within 1.500 s", "service `db.2`: last lines of output: `loading`"];
        assert_eq!(
            (fault.outcome, fault.evidence),
            (Outcome::Failed { code: None }, evidence.map(str::to_owned).into())
        );
        // It wrote what was to be matched, and no newline.
        let first = |sign, wrote: [Captured; 2]| {
            Fault::not_ready("db", &ready(sign), None, &wrote).evidence.into_iter().next().unwrap()
        };
        let line = || ReadySign::Line("^up".into());
        let unended =
            "service `db` was not ready within 1.500 s: its last line has no end, and only whole lines are matched";
        assert_eq!([first(line(), wrote("up", "")), first(line(), wrote("", "warning"))], [unended, unended]);
        assert!(!first(line(), wrote("up\n", "50 %\r")).contains("no end"));
        assert!(!first(ReadySign::Port, wrote("up", "")).contains("no end"));
        let refused = Fault::not_ready("db", &ready(ReadySign::Port), Some("connection refused"), &wrote("", ""));
        assert_eq!(refused.evidence, ["service `db` was not ready within 1.500 s: connection refused"]);
        let fault = Fault::not_set_up("db", "exit code 3");
        assert_eq!(fault.evidence, ["service `db`: its `setup` failed: exit code 3"]);
    }

    #[test]
    fn instances_are_those_of_their_service() {
        let mut served = Served::default();
        for (service, role) in [("db", "db.1"), ("db", "db.2"), ("api", "api")] {
            served.add(service, role, Threads::default(), Why::NotApplicable);
        }
        assert_eq!(served.roles["db"], ["db.1", "db.2"]);
        assert_eq!(served.probes.keys().map(String::as_str).collect::<Vec<_>>(), ["api", "db.1", "db.2"]);
    }
}
