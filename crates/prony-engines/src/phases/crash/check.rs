//! The second process of a crash trial: opens what was left, and counts what has survived.

use prony_model::crash::Survived;
use prony_model::link::Link;
use prony_model::protocol::{FromWorker, VERSION};
use prony_model::reading::{Reading, Why};
use prony_model::units::{Bytes, Nanos};

use super::judge::{Commits, Observed, judge};
use super::workload::{State, Workload};
use super::{CrashPlan, HostError, Machine, Stop, Trial, ended};
use crate::driver::{Driver, EngineError, Read, Session, Store, Then, Write};
use crate::phases::worker_loop::effective;
use crate::timed_loop::{chain, now};

/// Opens the store that was left, and counts which commits are there: those that were acknowledged before the instant of the cut, so
/// many of them, must be.
///
/// # Errors
/// Where the store does not open, or its records cannot be read.
pub fn check<D: Driver>(
    link: &mut dyn Link,
    machine: &dyn Machine,
    plan: &CrashPlan,
    (cut, acknowledged): (Nanos, u64),
) -> Result<(), HostError> {
    ended(checks::<D>(link, machine, plan, (cut, acknowledged)))
}

fn checks<D: Driver>(
    link: &mut dyn Link,
    machine: &dyn Machine,
    plan: &CrashPlan,
    (cut, acknowledged): (Nanos, u64),
) -> Result<(), Stop> {
    let trial = Trial::new::<D>(plan)?;
    let instants = plan.acknowledged.instants().map_err(|source| Stop::Acknowledged { source })?;
    let (began, before) = (now(), machine.bytes());
    let mut store = trial.open::<D>()?;
    let open = Nanos::from_nanos(now() - began);
    let (read, written) = between(before, machine.bytes());
    let effective = effective::<D>(trial.store, Some(&store), &trial.collections)?;
    link.send(FromWorker::Ready { version: VERSION, effective: Some(Box::new(effective)), open })?;
    let workload = trial.workload()?;
    let ordered = D::capabilities(trial.store).ordered;
    let (found, beside) = {
        let mut session = store.session()?;
        let mut txn = session.read()?;
        let found = observed(&mut txn, &workload)?;
        let beside = if ordered { rows_beside(&mut txn, &workload, &found)? } else { None };
        txn.finish()?;
        (found, beside)
    };
    let commits = Commits::of(trial.workload()?, instants, acknowledged);
    let judged = judge(&commits, &found, cut.as_nanos(), |slot| workload.named(slot));
    let mut survived = Survived { open, read, written, ..judged };
    if let Some(text) = beside {
        survived.wrong += 1;
        survived.faults.push(text);
    }
    survived.integrity = match store.check_integrity() {
        Ok(integrity) => integrity,
        Err(error) => Some(vec![chain(&error)]),
    };
    survived.refuses_writes = further_commit(store, &workload).err().map(|error| chain(&error));
    Ok(link.send(FromWorker::Survived { survived: Box::new(survived) })?)
}

/// The difference of two counts of bytes read and written.
fn between(before: Reading<(Bytes, Bytes)>, after: Reading<(Bytes, Bytes)>) -> (Reading<Bytes>, Reading<Bytes>) {
    let bytes = |from: Bytes, to: Bytes| Bytes::from_bytes(to.as_bytes().saturating_sub(from.as_bytes()));
    match (before, after) {
        (Reading::Measured(before), Reading::Measured(after)) => {
            (Reading::Measured(bytes(before.0, after.0)), Reading::Measured(bytes(before.1, after.1)))
        }
        (Reading::Missing(why), _) | (_, Reading::Missing(why)) => {
            let missing = |why: Why| Reading::Missing(why);
            (missing(why.clone()), missing(why))
        }
    }
}

/// What each record holds.
fn observed(txn: &mut impl Read, workload: &Workload<'_>) -> Result<Vec<Observed>, EngineError> {
    let (mut key, mut value, mut wanted) = (Vec::new(), Vec::new(), Vec::new());
    let mut found = Vec::with_capacity(workload.slots());
    for slot in 0..workload.slots() {
        workload.key(slot, &mut key);
        value.clear();
        if !txn.get(&key, |bytes| value.extend_from_slice(bytes))? {
            found.push(Observed::State(State::Absent));
            continue;
        }
        found.push(match workload.version(slot, &value) {
            Some(version) => {
                workload.value(slot, version, &mut wanted);
                match value.iter().zip(&wanted).position(|(a, b)| a != b) {
                    None if value.len() == wanted.len() => Observed::State(State::Version(version)),
                    at => wrong_bytes(workload, slot, version, at),
                }
            }
            None => Observed::Wrong(format!("{} holds a value that was never written", workload.named(slot))),
        });
    }
    Ok(found)
}

fn wrong_bytes(workload: &Workload<'_>, slot: usize, version: u32, at: Option<usize>) -> Observed {
    let what = at.map_or_else(|| "another length".to_owned(), |at| format!("a wrong byte at offset {at}"));
    Observed::Wrong(format!("{} holds version {version} with {what}", workload.named(slot)))
}

/// Rows that a scan finds and that are no records of the workload, or records that it does not find, described.
fn rows_beside(
    txn: &mut impl Read,
    workload: &Workload<'_>,
    found: &[Observed],
) -> Result<Option<String>, EngineError> {
    let mut rows = 0usize;
    for collection in workload.collections() {
        collection.space.scan(txn, |_, _| {
            rows += 1;
            Then::Continue(())
        })?;
    }
    let there = found.iter().filter(|found| **found != Observed::State(State::Absent)).count();
    let text = format!("a scan returns {rows} rows, and reads by key find {there} records");
    Ok((rows != there).then_some(text))
}

/// Stores a record, reads it back and closes the store.
fn further_commit<S: Store>(store: S, workload: &Workload<'_>) -> Result<(), EngineError> {
    let (mut key, mut value, mut back) = (Vec::new(), Vec::new(), Vec::new());
    workload.key(0, &mut key);
    workload.value(0, u32::MAX, &mut value);
    {
        let mut session = store.session()?;
        let mut txn = session.write()?;
        txn.put(&key, &value)?;
        txn.commit()?;
        let mut txn = session.read()?;
        txn.get(&key, |bytes| back.extend_from_slice(bytes))?;
        txn.finish()?;
    }
    if back != value {
        return Err(EngineError::WrongData("a further commit is not found after it".to_owned()));
    }
    store.close()
}
