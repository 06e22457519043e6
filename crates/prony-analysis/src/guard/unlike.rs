//! Guards of variants whose trials did not run alike, whatever they measured: nothing of them is compared.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::variant_trials::{Compared, VariantTrials};
use super::{is_part_of, percent, recorded, run};
use prony_model::metric::MetricName;
use prony_model::number;
use prony_model::program::REPLICAS;
use prony_model::record::effective::{BY_TIME, Replica, ReplicaEnd};
use prony_model::record::{Effective, MetricKeyText, Status, TrialRecord};

/// By which share the numbers of times may differ that a phase came in a trial: lines may come again by chance.
const REPEATED: f64 = 0.1;

/// By how much the shares of trials may differ that ended in a certain way: that left processes behind, or with an exit code.
const ENDED: f64 = 0.5;

/// By how much the shares of trials may differ that succeeded, or in which a shell executed nothing, though exit codes are ignored: the
/// work of the others is another.
const SUCCEEDED: f64 = 0.1;

/// How many exit codes of a variant a reason names, the most frequent first.
const NAMED: usize = 4;

/// Why no metric of two variants is compared.
pub(crate) fn in_all(both: Compared<'_>) -> Option<String> {
    let ended = left_behind(both).or_else(|| heap_aborts(both));
    ended.or_else(|| changed(both)).or_else(|| other_exits(both))
}

/// Exit codes that a shell gives for a command that it did not find or could not execute.
const NOT_EXECUTED: [i32; 2] = [126, 127];

/// An exit code that is ignored came in a much larger share of the trials of one variant than of the other, or a shell executed nothing
/// in it. Shares decide: one success among failures is no reason to compare these with what always succeeds. Codes that differ from
/// trial to trial in both variants, of which none is frequent, say nothing of this kind.
fn other_exits(both @ [baseline, variant]: Compared<'_>) -> Option<String> {
    let code = |trial: &TrialRecord| match trial.program()?.status? {
        Status::Exited(code) if trial.ending.outcome.is_ok() => Some(code),
        _ => None,
    };
    let codes = |of: &VariantTrials<'_>| of.trials.iter().filter_map(|trial| code(trial)).collect::<Vec<i32>>();
    let [ours, theirs] = both.map(codes);
    if ours.is_empty() || theirs.is_empty() {
        return None;
    }
    let apart = |one: &[i32], most: f64| {
        let count = |of: &[i32]| of.iter().filter(|code| one.contains(code)).count() as f64;
        let (x, y, n, m) = (count(&ours), count(&theirs), ours.len() as f64, theirs.len() as f64);
        let all = (x + y) / (n + m);
        // Shares differ by chance: by less than this in 95 of 100 cases.
        let by_chance = 2.0 * (all * (1.0 - all) * (1.0 / n + 1.0 / m)).sqrt();
        (x / n - y / m).abs() > most.max(by_chance.min(ENDED))
    };
    let other_work = || apart(&[0], SUCCEEDED) || apart(&NOT_EXECUTED, SUCCEEDED);
    // Of codes that the file lists as success it says what they mean.
    let are_listed = both.iter().all(|all| all.spec.subject.program().is_some_and(|p| !p.success.is_empty()));
    let other_code = || !are_listed && ours.iter().chain(&theirs).any(|code| apart(&[*code], ENDED));
    (other_work() || other_code()).then(|| {
        let [ours, theirs] = [ours, theirs].map(|codes| listed(&codes));
        format!(
            "`{baseline}` ended with exit code {ours}, and `{variant}` with {theirs}: they did not do the same work"
        )
    })
}

/// Exit codes, the most frequent first; with the number of trials of each where there are several.
fn listed(codes: &[i32]) -> String {
    let mut counts: BTreeMap<i32, usize> = BTreeMap::new();
    codes.iter().for_each(|code| *counts.entry(*code).or_default() += 1);
    let mut counts: Vec<(i32, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| Reverse(*count));
    if let [(only, _)] = counts[..] {
        return only.to_string();
    }
    let all = number::count(codes.len() as u64, "trial");
    let named = counts.iter().take(NAMED).map(|(code, count)| format!("{code} in {count}"));
    format!("{} of {all}", named.collect::<Vec<_>>().join(" and "))
}

/// Why a metric is not compared.
pub(crate) fn in_metric(both: Compared<'_>, name: &MetricName) -> Option<String> {
    let repeated = repeated(both, &name.phase);
    repeated.or_else(|| ended_by_prony(both, name)).or_else(|| unfinished(both, &name.phase))
}

/// The phase came more often in the trials of one variant: only its first time is measured.
fn repeated(both @ [baseline, variant]: Compared<'_>, phase: &str) -> Option<String> {
    let repeats = |trial: &TrialRecord| trial.program().and_then(|program| program.repeated.get(phase).copied());
    let [ours, theirs] = both.map(|all| mean(all, |trial| repeats(trial).unwrap_or(0) as f64));
    ((ours - theirs).abs() > REPEATED * (1.0 + ours.max(theirs))).then(|| {
        let [ours, theirs] = [ours, theirs].map(|repeats| shown(1.0 + repeats));
        format!(
            "`{phase}` is measured the first time it comes, which is one of {ours} in a trial of `{baseline}` and one of {theirs} in one \
             of `{variant}`"
        )
    })
}

/// Processes or threads of one variant ended at their heap limit, and its program went on without what they had to do. A program
/// that ended with them is out of memory, which is an outcome.
fn heap_aborts(both: Compared<'_>) -> Option<String> {
    let aborts = |trial: &TrialRecord| trial.conditions.probe.as_ref().is_some_and(|p| !p.heap_aborts.is_empty());
    let what = "processes or threads ended at their heap limit";
    let why = "and the program went on: the work of these is missing";
    mostly_in_one(both, |trial| trial.ending.outcome.is_ok() && aborts(trial), what)
        .map(|found| format!("{found}, {why}"))
}

/// The program of one variant left processes behind, whose work was not over when it was measured.
fn left_behind(both: Compared<'_>) -> Option<String> {
    let left = |trial: &TrialRecord| trial.program().is_some_and(|program| program.left_behind > 0);
    let what = "processes went on when the program had ended";
    mostly_in_one(both, left, what).map(|found| format!("{found}: the work of these was not over"))
}

/// In which parts of their trials this happened, where these parts are far apart.
fn mostly_in_one(both: Compared<'_>, happened: impl Fn(&TrialRecord) -> bool, what: &str) -> Option<String> {
    let [baseline, variant] = both;
    let [ours, theirs] = both.map(|all| mean(all, |trial| f64::from(happened(trial))));
    ((ours - theirs).abs() > ENDED).then(|| {
        let [ours, theirs] = [ours, theirs].map(percent);
        format!("{what} in {ours} of the trials of `{baseline}`, and in {theirs} of those of `{variant}`")
    })
}

/// Work of one variant that was not over when the command of a phase, or the program, had ended: of that phase and of those after it,
/// which find other work done.
fn unfinished(both @ [baseline, variant]: Compared<'_>, phase: &str) -> Option<String> {
    let all = || both.into_iter().flat_map(|of| &of.trials);
    let kinds: BTreeSet<(Unfinished, &str)> = all().flat_map(|trial| work_left(trial).into_keys()).collect();
    kinds.into_iter().find_map(|(kind, since)| {
        if !all().any(|trial| is_before_the_end_of(trial, since, phase)) {
            return None;
        }
        let left = |trial: &TrialRecord| work_left(trial).get(&(kind, since)).copied().unwrap_or(0.0);
        let [ours, theirs] = both.map(|all| mean(all, left));
        ((ours - theirs).abs() > ENDED).then(|| {
            let (what, [ours, theirs]) = (kind.text(), [ours, theirs].map(shown));
            format!(
                "{what} in `{since}` ({ours} in a trial of `{baseline}`, {theirs} in one of `{variant}`): the work of these was not over"
            )
        })
    })
}

/// How work was not over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Unfinished {
    /// Commands of phases left processes behind.
    OfCommand,
    /// Replicas were still running when the program had ended.
    CutOff,
    /// Replicas left processes behind.
    OfReplicas,
}

impl Unfinished {
    const fn text(self) -> &'static str {
        match self {
            Self::OfCommand => "commands left processes behind",
            Self::CutOff => "replicas were still running when the program had ended, and prony killed them",
            Self::OfReplicas => "replicas left processes behind",
        }
    }
}

/// How many commands and replicas of a trial left work, by how and by the phase with which they began.
fn work_left(trial: &TrialRecord) -> BTreeMap<(Unfinished, &str), f64> {
    let commands = trial.effective.iter().flat_map(Effective::left_by_commands);
    let mut all: BTreeMap<_, _> = commands.map(|(phase, _)| ((Unfinished::OfCommand, phase), 1.0)).collect();
    if let Some(replicas) = trial.program().and_then(|program| program.replicas.as_ref()) {
        let number = |is: fn(&&Replica) -> bool| replicas.copies.iter().filter(is).count() as f64;
        let cut_off = number(|copy| copy.end == ReplicaEnd::CutOff);
        let left = number(|copy| copy.left_behind.is_some_and(|left| left > 0));
        for (kind, number) in [(Unfinished::CutOff, cut_off), (Unfinished::OfReplicas, left)] {
            if number > 0.0 {
                all.insert((kind, replicas.phase.as_str()), number);
            }
        }
    }
    all
}

/// Whether a phase of a trial ended after another one had begun, or may have.
fn is_before_the_end_of(trial: &TrialRecord, since: &str, phase: &str) -> bool {
    let (began, ended) =
        (recorded(trial, since).and_then(|found| found.begin), recorded(trial, phase).and_then(|found| found.end));
    began.zip(ended).is_none_or(|(began, ended)| began < ended)
}

/// Prony ended a replica itself, when the program had ended, in most trials: times and counts of its processes say how long it let
/// them run. What they held meanwhile is memory of theirs all the same.
fn ended_by_prony(both: Compared<'_>, name: &MetricName) -> Option<String> {
    let instance = name.instance.as_deref().filter(|_| !name.key.metric.is_gauge())?;
    let is_of = |copy: &Replica| instance == REPLICAS || is_part_of(instance, &copy.instance);
    // What its lines reported is its own.
    let reports = |copy: &Replica| copy.resolution.contains_key(&MetricKeyText(name.key));
    let is_cut = |copy: &Replica| copy.end == ReplicaEnd::CutOff && is_of(copy) && !reports(copy);
    let copies = |trial: &'_ TrialRecord| {
        let replicas = trial.program().and_then(|program| program.replicas.as_ref());
        replicas.is_some_and(|replicas| replicas.copies.iter().any(is_cut))
    };
    let with = both.into_iter().find(|all| mean(all, |trial| f64::from(copies(trial))) > ENDED)?;
    Some(format!(
        "replicas of `{with}` were still running when the program had ended, and prony killed them: `{name}` is that of work which \
         was not over"
    ))
}

/// A number, which may be a mean.
fn shown(number: f64) -> String {
    if number.fract() == 0.0 { format!("{number:.0}") } else { format!("{number:.2}") }
}

fn mean(all: &VariantTrials<'_>, of: impl Fn(&TrialRecord) -> f64) -> f64 {
    let sum: f64 = all.trials.iter().map(|trial| of(trial)).sum();
    sum / all.trials.len().max(1) as f64
}

/// Not all trials ran the same program or engine, or copied the same directory.
fn changed(both: Compared<'_>) -> Option<String> {
    for all in both {
        let mut states = all.trials.iter().map(|trial| run::of_variant(trial)).filter(|identity| !identity.is_empty());
        let Some(first) = states.next() else { continue };
        // What is known of a large file by its time alone may be the same again.
        let of = |state: Option<&String>| state.filter(|state| !state.ends_with(BY_TIME)).cloned();
        let differs = |what: &String, other: &BTreeMap<String, String>| of(other.get(what)) != of(first.get(what));
        let is_other =
            |other: &BTreeMap<String, String>| first.keys().chain(other.keys()).any(|what| differs(what, other));
        if let Some(other) = states.find(is_other) {
            let what = first.keys().chain(other.keys()).find(|what| differs(what, &other))?;
            return Some(format!("{what} was not the same in all trials of `{all}`: start a new run"));
        }
    }
    let mut states: BTreeSet<(String, String)> = BTreeSet::new();
    for trial in both.into_iter().flat_map(|all| &all.trials) {
        for (what, state) in run::sources(trial) {
            states.insert((what.clone(), state.to_owned()));
            if states.iter().filter(|(known, _)| *known == what).count() > 1 {
                return Some(format!("{what} changed during the run: start a new run"));
            }
        }
    }
    None
}
