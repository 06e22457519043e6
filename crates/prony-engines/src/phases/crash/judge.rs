//! Which commits have survived, by what each record holds. A pure function.
//!
//! After so many commits each record holds what the last of them that wrote it has left. What is found in a record is thus
//! compatible with some numbers of commits, and the whole store with those with which all of its records are. Where there is
//! such a number, what survived is a prefix of the commit order. Where there is none, that number counts with which most
//! records are compatible, and each other record is taken to be in the state nearest to it.
//!
//! A removed record does not show which commit has removed it, so that several numbers may fit. A store that holds what all
//! acknowledged commits left has lost none. Otherwise the largest number counts, and what is lost by the smallest is said too.

use prony_model::crash::{Fault, FaultKind, Survived};
use prony_model::units::Nanos;

use super::workload::{State, Workload};

/// Faults of each kind that are described.
const DESCRIBED: usize = 8;

/// What a record was found to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Observed {
    /// A state that some commit may have left.
    State(State),
    /// Something else, described.
    Wrong(String),
}

/// What a record held from a number of commits on.
#[derive(Clone, Copy, Debug)]
struct After {
    slot: usize,
    /// The number of commits: 0 before the first.
    from: u64,
    state: State,
}

/// The commits of a trial: their writes, and when they were acknowledged.
pub(super) struct Commits {
    /// By record, and then by the number of commits.
    after: Vec<After>,
    /// The instants of those that were acknowledged before the cut.
    acknowledged: Vec<u64>,
    /// The most commits that can be there: those, and the one that was under way.
    most: u64,
}

impl Commits {
    /// The commits that were acknowledged at these instants, so many of them before the cut, and the one that was under way
    /// then, whether it was acknowledged later or not. The next one began when that was acknowledged: nothing of it is there.
    pub(super) fn of(mut workload: Workload<'_>, mut acknowledged: Vec<u64>, before: u64) -> Self {
        acknowledged.truncate(usize::try_from(before).unwrap_or(usize::MAX));
        let most = acknowledged.len() as u64 + 1;
        let first = workload.states().enumerate().map(|(slot, state)| After { slot, from: 0, state });
        let mut after: Vec<After> = first.collect();
        for commit in 0..most {
            let writes = workload.transaction().iter();
            after.extend(writes.map(|write| After { slot: write.slot, from: commit + 1, state: write.state }));
        }
        // Stable: of several writes of a transaction to one record the last stays the last.
        after.sort_by_key(|after| (after.slot, after.from));
        after.reverse();
        after.dedup_by_key(|after| (after.slot, after.from));
        after.reverse();
        Self { after, acknowledged, most }
    }

    /// The histories of records, each with the numbers of commits from which and up to which it held a state.
    fn by_record(&self) -> impl Iterator<Item = &[After]> {
        self.after.chunk_by(|a, b| a.slot == b.slot)
    }
}

/// The states of a history that are what was found, as indices.
fn matching(history: &[After], found: State) -> impl Iterator<Item = usize> {
    history.iter().enumerate().filter(move |(_, after)| after.state == found).map(|(at, _)| at)
}

/// The numbers of commits with which most records are compatible: the one that counts, and the smallest.
fn likeliest(commits: &Commits, found: &[Observed]) -> (u64, u64) {
    let most = commits.most;
    let mut changes = vec![0i64; most as usize + 2];
    for history in commits.by_record() {
        let Observed::State(state) = found[history[0].slot] else { continue };
        for at in matching(history, state) {
            let until = history.get(at + 1).map_or(most + 1, |next| next.from);
            changes[history[at].from as usize] += 1;
            changes[until as usize] -= 1;
        }
    }
    let acknowledged = commits.acknowledged.len() as u64;
    let (mut compatible, mut best) = (0, i64::MIN);
    let (mut smallest, mut largest, mut all) = (0, 0, false);
    for (number, change) in (0..=most).zip(changes) {
        compatible += change;
        if compatible > best {
            (best, smallest, all) = (compatible, number, false);
        }
        if compatible == best {
            (largest, all) = (number, all || number == acknowledged);
        }
    }
    if all { (acknowledged, acknowledged) } else { (largest, smallest) }
}

/// Whether something of a commit is there, and whether something of it is missing.
#[derive(Clone, Copy, Default)]
struct Trace {
    there: bool,
    missing: bool,
}

/// What has survived, by what each record was found to hold; `cut` is the instant of the cut, `named` a record in a message.
pub(super) fn judge(commits: &Commits, found: &[Observed], cut: u64, named: impl Fn(usize) -> String) -> Survived {
    let (likeliest, fewest) = likeliest(commits, found);
    let mut survived = Survived::default();
    for history in commits.by_record() {
        match &found[history[0].slot] {
            Observed::Wrong(text) => wrong(&mut survived, || text.clone()),
            Observed::State(state) if nearest(history, *state, likeliest).is_none() => {
                let what = match state {
                    State::Absent => "is missing".to_owned(),
                    State::Version(version) => format!("holds version {version}"),
                };
                wrong(&mut survived, || format!("{} {what}, which no commit has left so", named(history[0].slot)));
            }
            Observed::State(_) => {}
        }
    }
    count(&mut survived, &traces(commits, found, likeliest), &commits.acknowledged, cut);
    let lost = |trace: &&Trace| trace.missing;
    let by_fewest = traces(commits, found, fewest);
    survived.lost_at_most = by_fewest.iter().take(commits.acknowledged.len()).filter(lost).count() as u64;
    survived
}

/// The trace of each commit, where each record is in the state that is nearest to a number of commits.
fn traces(commits: &Commits, found: &[Observed], number: u64) -> Vec<Trace> {
    let mut traces = vec![Trace::default(); commits.most as usize];
    for history in commits.by_record() {
        let Observed::State(state) = found[history[0].slot] else { continue };
        let Some(at) = nearest(history, state, number) else { continue };
        if let Some(commit) = history[at].from.checked_sub(1) {
            traces[commit as usize].there = true;
        }
        history[at + 1..].iter().for_each(|after| traces[after.from as usize - 1].missing = true);
    }
    traces
}

/// Counts a record, or a row, with a content that no commit has written.
pub(super) fn wrong(survived: &mut Survived, text: impl FnOnce() -> String) {
    survived.wrong += 1;
    describe(survived, FaultKind::Wrong, text);
}

fn describe(survived: &mut Survived, kind: FaultKind, text: impl FnOnce() -> String) {
    if survived.faults.iter().filter(|fault| fault.kind == kind).count() < DESCRIBED {
        survived.faults.push(Fault { kind, text: text() });
    }
}

/// The state of a history that was found and is nearest to a number of commits.
fn nearest(history: &[After], found: State, commits: u64) -> Option<usize> {
    let distance = |at: usize| {
        let until = history.get(at + 1).map_or(u64::MAX, |next| next.from - 1);
        history[at].from.saturating_sub(commits) + commits.saturating_sub(until)
    };
    matching(history, found).min_by_key(|at| distance(*at))
}

fn count(survived: &mut Survived, traces: &[Trace], acknowledged: &[u64], cut: u64) {
    let last = traces.iter().rposition(|trace| trace.there);
    for (commit, trace) in traces.iter().enumerate() {
        let instant = acknowledged.get(commit);
        match (trace.there, trace.missing) {
            (true, true) => {
                survived.partial += 1;
                describe(survived, FaultKind::Partial, || {
                    format!("commit {commit}: a part is there and a part is missing")
                });
            }
            (false, true) if last.is_some_and(|last| last > commit) => {
                survived.holes += 1;
                let last = last.unwrap_or_default();
                describe(survived, FaultKind::Hole, || {
                    format!("commit {commit} is missing, and commit {last} is there")
                });
            }
            (true, false) if instant.is_none() => survived.unacknowledged += 1,
            _ => {}
        }
        if let (true, Some(instant)) = (trace.missing, instant) {
            survived.lost += 1;
            survived.oldest_lost.get_or_insert(Nanos::from_nanos(cut.saturating_sub(*instant)));
        }
    }
}
