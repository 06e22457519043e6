//! Describes the machine of a run: one sentence, and a list of all facts by name.

use std::collections::{BTreeMap, BTreeSet};

use prony_analysis::guard::{Finding, Severity};
use prony_model::reading::Reading;
use prony_model::record::{Effective, Facts, MachineLimits, TrialRecord};
use prony_model::units::{Bytes, PerSecond};

use super::words::shown;
use prony_results::RunHead;

/// The facts that a reader asks for first.
pub(super) fn line(host: &Facts) -> Option<String> {
    let text = |reading: &Reading<String>| reading.measured().cloned();
    let facts = [
        text(&host.processor.model),
        host.processor.logical.measured().map(|n| format!("{n} logical processors")),
        host.memory.measured().map(|n| format!("{n} memory")),
        text(&host.kernel),
        host.file_system.measured().map(|mount| mount.kind.clone()),
        host.virtualisation.measured().map(|kind| virtual_machine(kind)),
    ];
    let line = facts.into_iter().flatten().collect::<Vec<_>>().join(", ");
    (!line.is_empty()).then(|| format!("Machine: {line}."))
}

/// The kind of virtualisation, as the host's facts name it, in words that stand by themselves.
fn virtual_machine(kind: &str) -> String {
    match kind {
        "none" => "no virtual machine".to_owned(),
        "some" => "a virtual machine".to_owned(),
        kind => format!("a virtual machine ({kind})"),
    }
}

/// A fact's name and its value in words.
type Row = (String, String);

fn row(name: &str, value: String) -> Row {
    (name.to_owned(), value)
}

fn fact<T: ToString>(name: &str, reading: &Reading<T>) -> Row {
    row(name, shown(reading, T::to_string))
}

/// Facts about the machine on which trials ran and what it can do, by name.
pub(super) fn rows(head: &RunHead, trials: &[TrialRecord]) -> Vec<Row> {
    let (_, host, _) = first_session(head, trials);
    let mut rows = facts(host);
    match &head.limits {
        // They are measured once, when the run begins.
        _ if lasting_facts(host) != lasting_facts(&head.host) => {
            let why = "- (measured before the first trial, on another machine or with other settings)";
            rows.push(row("limits", why.to_owned()));
        }
        Reading::Measured(measured) => rows.extend(limits(measured)),
        Reading::Missing(why) => rows.push(row("limits", format!("- ({why})"))),
    }
    rows
}

/// The number of a session, its machine, and the version of prony.
type SessionFacts<'a> = (u32, &'a Facts, &'a str);

/// The sessions that have trials, in order.
fn with_trials<'a>(head: &'a RunHead, trials: &[TrialRecord]) -> Vec<SessionFacts<'a>> {
    let with_trials: BTreeSet<u32> = trials.iter().map(|trial| trial.conditions.session).collect();
    let resumed = head.resumed.iter().map(|session| (session.session, &session.host, session.version.as_str()));
    let all = std::iter::once((0, &head.host, head.version.as_str())).chain(resumed);
    all.filter(|(session, ..)| with_trials.contains(session)).collect()
}

/// The first session that has trials; of a run without trials the one that began it.
pub(super) fn first_session<'a>(head: &'a RunHead, trials: &[TrialRecord]) -> SessionFacts<'a> {
    with_trials(head, trials).first().copied().unwrap_or((0, &head.host, &head.version))
}

/// At most so many differing facts are named in a message; the others are counted.
const NAMED: usize = 6;

/// The variables that programs and services have from prony's environment in a session, with digests of their values.
fn inherited(trials: &[TrialRecord], session: u32) -> BTreeMap<&str, &str> {
    let own = trials.iter().filter(|trial| trial.conditions.session == session);
    let programs = own.filter_map(|trial| trial.effective.as_ref()).flat_map(Effective::programs);
    programs.flat_map(|program| &program.inherited).map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

/// The machine, its settings, prony's version or the environment were not the same in all sessions of a resumed run, so that
/// the facts shown are those of one session only. Sessions without trials are ignored.
pub fn sessions_differ(head: &RunHead, trials: &[TrialRecord]) -> Option<Finding> {
    let of = |host: &Facts, version: &str| {
        let mut rows = lasting_facts(host);
        rows.push(row("prony", version.to_owned()));
        rows
    };
    let mut sessions = with_trials(head, trials).into_iter();
    let (session, host, version) = sessions.next()?;
    let (first, variables) = (of(host, version), inherited(trials, session));
    let mut differ = Vec::new();
    for (session, host, version) in sessions {
        let now: BTreeMap<String, String> = of(host, version).into_iter().collect();
        let before = first.iter().filter(|(name, value)| now.get(name) != Some(value));
        let text = |(name, value): &Row| {
            format!("{name} {value}, in session {session} {}", now.get(name).map_or("-", String::as_str))
        };
        differ.extend(before.map(text));
        let now = inherited(trials, session);
        let other = variables.iter().filter(|(name, value)| now.get(*name).is_some_and(|now| now != *value));
        differ.extend(
            other.map(|(name, _)| format!("environment variable {name} has another value in session {session}")),
        );
    }
    let more = match differ.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!("; and {more} more differences"),
    };
    differ.truncate(NAMED);
    let message = format!(
        "the machine, its settings, prony's version or the environment were not the same in all sessions of this resumed run: \
         {}{more}",
        differ.join("; ")
    );
    let hint = "verdicts compare only trials of the same session, but medians over the whole run mix different \
        conditions: start a new run";
    (!differ.is_empty()).then(|| Finding::of("sessions_differ", Severity::Warning, message, hint))
}

/// Lasting facts as lines, `memory: 16.00 GB`; a missing one with its reason.
pub fn facts_lines(host: &Facts) -> Vec<String> {
    lasting_facts(host).into_iter().map(|(name, value)| format!("{name}: {value}")).collect()
}

/// Without the clock rate, which is another at each moment.
fn lasting_facts(host: &Facts) -> Vec<Row> {
    let mut rows = facts(host);
    rows.retain(|(name, _)| name != "processor.megahertz");
    rows
}

fn facts(host: &Facts) -> Vec<Row> {
    let processor = &host.processor;
    let mut rows = vec![
        fact("host", &host.host),
        fact("kernel", &host.kernel),
        row("architecture", host.architecture.clone()),
        fact("libc", &host.libc),
        fact("allocator", &host.allocator),
        fact("processor.model", &processor.model),
        fact("processor.logical", &processor.logical),
        fact("processor.cores", &processor.cores),
        fact("processor.smt", &processor.smt),
        fact("processor.governor", &processor.governor),
        fact("processor.megahertz", &processor.megahertz),
        fact("memory", &host.memory),
        fact("swap", &host.swap),
        fact("huge_pages", &host.huge_pages),
        fact("clock_source", &host.clock_source),
        fact("virtualisation", &host.virtualisation),
        fact("cgroups", &host.cgroups),
        fact("perf_event_paranoid", &host.perf_event_paranoid),
        fact("address_randomisation", &host.address_randomisation),
    ];
    match &host.file_system {
        Reading::Measured(mount) => rows.extend([
            row("file_system.point", mount.point.display().to_string()),
            row("file_system.kind", mount.kind.clone()),
            row("file_system.source", mount.source.clone()),
            row("file_system.options", mount.options.join(", ")),
        ]),
        Reading::Missing(why) => rows.push(row("file_system", format!("- ({why})"))),
    }
    for (n, disk) in host.disks.iter().enumerate() {
        let of_disk = [
            row("name", disk.name.clone()),
            fact("read_ahead", &disk.read_ahead),
            fact("scheduler", &disk.scheduler),
            fact("rotational", &disk.rotational),
            fact("write_cache", &disk.write_cache),
        ];
        rows.extend(of_disk.map(|(name, value)| (format!("disks.{n}.{name}"), value)));
    }
    rows
}

fn limits(limits: &MachineLimits) -> Vec<Row> {
    let bytes = |rate: &Reading<PerSecond>| shown(rate, |rate| format!("{}/s", Bytes::from_bytes(rate.get() as u64)));
    let mut rows = vec![
        row("clock_cost", limits.clock_cost.to_string()),
        row("clock_step", limits.clock_step.to_string()),
        fact("timer_lag", &limits.timer_lag),
    ];
    match &limits.fsync {
        Reading::Measured(fsync) => rows.extend([
            row("fsync.min", fsync.min.to_string()),
            row("fsync.p50", fsync.p50.to_string()),
            row("fsync.p90", fsync.p90.to_string()),
            row("fsync.max", fsync.max.to_string()),
            row("fsync.count", fsync.count.to_string()),
        ]),
        Reading::Missing(why) => rows.push(row("fsync", format!("- ({why})"))),
    }
    rows.extend([
        row("sequential_write", bytes(&limits.sequential_write)),
        row("random_read", shown(&limits.random_read, |rate| format!("{:.0}/s", rate.get()))),
        row("random_read_by", limits.random_read_by.clone()),
        row("memory_copy", bytes(&limits.memory_copy)),
        row("memory_read", bytes(&limits.memory_read)),
        row("first_touch", limits.first_touch.to_string()),
    ]);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_line_says_what_is_virtual() {
        let line = |kind: &str| {
            line(&Facts {
                kernel: Reading::Measured("6.1".to_owned()),
                virtualisation: Reading::Measured(kind.to_owned()),
                ..Facts::default()
            })
        };
        assert_eq!(line("some").as_deref(), Some("Machine: 6.1, a virtual machine."));
        assert_eq!(line("KVM").as_deref(), Some("Machine: 6.1, a virtual machine (KVM)."));
        assert_eq!(line("none").as_deref(), Some("Machine: 6.1, no virtual machine."));
    }
}
