//! The second process of a crash trial: opens what was left, and counts what has survived.

use std::collections::HashMap;

use prony_model::crash::Survived;
use prony_model::link::Link;
use prony_model::number::count;
use prony_model::protocol::{FromWorker, VERSION};
use prony_model::reading::Reading;
use prony_model::units::{Bytes, Nanos};

use super::judge::{Commits, Observed, judge, wrong};
use super::workload::{State, Workload};
use super::{CrashPlan, Machine, Stop, Trial};
use crate::driver::{Driver, EngineError, Read, Session, Store, Then, Write};
use crate::phases::worker_loop::effective;
use crate::timed_loop::chain;

/// Opens the store that was left, and counts which commits are there: those that were acknowledged before the instant of the cut, so
/// many of them, must be.
pub(super) fn check<D: Driver>(
    link: &mut dyn Link,
    machine: &dyn Machine,
    plan: &CrashPlan,
    (cut, acknowledged): (Nanos, u64),
) -> Result<(), Stop> {
    let trial = Trial::new::<D>(plan)?;
    let instants = plan.acknowledged.instants().map_err(|source| Stop::Acknowledged { source })?;
    let before = machine.bytes();
    let (mut store, open) = trial.open::<D>()?;
    let (read, written) = between(before, machine.bytes());
    let effective = effective::<D>(trial.store, Some(&store), &trial.collections)?;
    link.send(FromWorker::Ready { version: VERSION, effective: Some(Box::new(effective)), open })?;
    let workload = trial.workload()?;
    let ordered = D::capabilities(trial.store).ordered;
    let (found, rows) = {
        let mut session = store.session()?;
        let mut txn = session.read()?;
        let found = observed(&mut txn, &workload)?;
        let rows = if ordered { Some(Rows::scanned(&mut txn, &workload, &found)?) } else { None };
        txn.finish()?;
        (found, rows)
    };
    let commits = Commits::of(trial.workload()?, instants, acknowledged);
    let judged = judge(&commits, &found, cut.as_nanos(), |slot| workload.named(slot));
    let mut survived = Survived { open, read, written, ..judged };
    if let Some(rows) = rows {
        rows.compare(&workload, &found, &mut survived);
    }
    match store.check_integrity() {
        Ok(integrity) => survived.integrity = integrity,
        Err(error) => said_by(error, &mut survived, |survived, fault| survived.integrity = Some(vec![fault])),
    }
    if let Err(error) = further_commit(store, &workload) {
        said_by(error, &mut survived, |survived, fault| survived.refuses_writes = Some(fault));
    }
    Ok(link.send(FromWorker::Survived { survived: Box::new(survived) })?)
}

/// Notes an error as a fault of the store; one of the machine says nothing about it, and what was found before counts.
pub(super) fn said_by(error: EngineError, survived: &mut Survived, fault: impl FnOnce(&mut Survived, String)) {
    let of_the_machine = matches!(
        error,
        EngineError::OutOfMemory { .. } | EngineError::DiskFull { .. } | EngineError::Unsupported { .. }
    );
    let text = chain(&error);
    if of_the_machine {
        survived.unfinished.get_or_insert(text);
    } else {
        fault(survived, text);
    }
}

/// The difference of two counts of bytes read and written.
fn between(before: Reading<(Bytes, Bytes)>, after: Reading<(Bytes, Bytes)>) -> (Reading<Bytes>, Reading<Bytes>) {
    let bytes = |from: Bytes, to: Bytes| Bytes::from_bytes(to.as_bytes().saturating_sub(from.as_bytes()));
    match (before, after) {
        (Reading::Measured(before), Reading::Measured(after)) => {
            (Reading::Measured(bytes(before.0, after.0)), Reading::Measured(bytes(before.1, after.1)))
        }
        (Reading::Missing(why), _) | (_, Reading::Missing(why)) => {
            (Reading::Missing(why.clone()), Reading::Missing(why))
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
        found.push(contents(workload, slot, &value, &mut wanted));
    }
    Ok(found)
}

/// What a value says of its record; `wanted` is a buffer.
fn contents(workload: &Workload<'_>, slot: usize, value: &[u8], wanted: &mut Vec<u8>) -> Observed {
    let Some(version) = workload.version(slot, value) else {
        return Observed::Wrong(format!("{} holds a value that was never written", workload.named(slot)));
    };
    workload.value(slot, version, wanted);
    let what = match value.iter().zip(wanted.iter()).position(|(a, b)| a != b) {
        None if value.len() == wanted.len() => return Observed::State(State::Version(version)),
        None => "another length".to_owned(),
        Some(at) => format!("a wrong byte at offset {at}"),
    };
    Observed::Wrong(format!("{} holds version {version} with {what}", workload.named(slot)))
}

/// What a scan of the collections returns.
pub(super) struct Rows {
    /// What it returned of each record; `None` where it returned none.
    pub(super) records: Vec<Option<Observed>>,
    /// Records that it returned again.
    pub(super) again: Vec<usize>,
    /// Rows whose key is that of no record.
    pub(super) unknown: usize,
}

impl Rows {
    fn scanned(txn: &mut impl Read, workload: &Workload<'_>, found: &[Observed]) -> Result<Self, EngineError> {
        let mut keys = HashMap::with_capacity(found.len());
        for slot in 0..found.len() {
            let mut key = Vec::new();
            workload.key(slot, &mut key);
            keys.insert(key, slot);
        }
        let mut rows = Self { records: vec![None; found.len()], again: Vec::new(), unknown: 0 };
        let mut wanted = Vec::new();
        for collection in workload.collections() {
            collection.space.scan(txn, |key, value| {
                match keys.get(&collection.space.stored(key)) {
                    None => rows.unknown += 1,
                    Some(&slot) if rows.records[slot].is_some() => rows.again.push(slot),
                    Some(&slot) => rows.records[slot] = Some(contents(workload, slot, value, &mut wanted)),
                }
                Then::Continue(())
            })?;
        }
        Ok(rows)
    }

    /// Counts rows that are no records, and records that are otherwise in the scan than by their keys.
    pub(super) fn compare(self, workload: &Workload<'_>, found: &[Observed], survived: &mut Survived) {
        if self.unknown > 0 {
            let rows = count::<u64>(self.unknown as u64, "row");
            wrong(survived, || format!("a scan returns {rows} with a key that was never written"));
            // One of them is counted.
            survived.wrong += self.unknown as u64 - 1;
        }
        for slot in self.again {
            wrong(survived, || format!("a scan returns {} twice", workload.named(slot)));
        }
        for (slot, (row, found)) in self.records.into_iter().zip(found).enumerate() {
            let named = || workload.named(slot);
            match (row, found) {
                (None, Observed::State(State::Absent)) => {}
                (None, _) => {
                    wrong(survived, || format!("{} is read by its key, and a scan does not return it", named()))
                }
                (Some(_), Observed::State(State::Absent)) => {
                    wrong(survived, || format!("a scan returns {}, which is not found by its key", named()));
                }
                (Some(row), found) if row == *found => {}
                (Some(_), _) => wrong(survived, || format!("a scan returns another value of {} than its key", named())),
            }
        }
    }
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
