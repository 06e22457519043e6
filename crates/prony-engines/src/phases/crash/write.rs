//! The first process of a crash trial: repeats the writes until it is ended.

use prony_model::link::Link;
use prony_model::protocol::{FromWorker, ToWorker, VERSION};
use prony_model::spec::Grouping;
use prony_model::units::Nanos;

use super::workload::{State, Workload};
use super::{CrashPlan, Stop, Trial};
use crate::driver::{Driver, EngineError, Session, Store, Write};
use crate::phases::worker_loop::effective;
use crate::timed_loop::now;

/// Records of a transaction that stores what a phase updates or removes.
const BATCH: usize = 1_000;

/// Opens a new store, stores the records that the phase updates or removes, and repeats its writes.
pub(super) fn write<D: Driver>(link: &mut dyn Link, plan: &CrashPlan) -> Result<(), Stop> {
    let trial = Trial::new::<D>(plan)?;
    let (store, open) = trial.open::<D>()?;
    let effective = effective::<D>(trial.store, Some(&store), &trial.collections)?;
    let mut workload = trial.workload()?;
    let mut session = store.session()?;
    if store_first(&mut session, &workload)? {
        store.persist()?;
    }
    link.send(FromWorker::Ready { version: VERSION, effective: Some(Box::new(effective)), open })?;
    match link.next()? {
        ToWorker::Go => {}
        _ => return Err(Stop::Protocol("something else than the begin of the writes".to_owned())),
    }
    link.send(FromWorker::Writing { at: Nanos::from_nanos(now()) })?;
    let (mut key, mut value) = (Vec::new(), Vec::new());
    let is_single = trial.action.ops().is_some_and(|ops| ops.transaction == Grouping::Each);
    for commit in 0.. {
        let writes = workload.transaction().len();
        // As the phase does: where a write is a transaction of its own, its commit takes another path in the engine.
        let mut txn = if is_single && writes == 1 { session.write_once()? } else { session.write()? };
        for at in 0..writes {
            let write = workload.written(at);
            put(&mut txn, &workload, (write.slot, write.state), (&mut key, &mut value))?;
        }
        txn.commit()?;
        plan.acknowledged.note(commit, now()).map_err(|source| Stop::Acknowledged { source })?;
    }
    Ok(())
}

/// Stores the records that are there before the first transaction; whether there are any.
fn store_first(session: &mut impl Session, workload: &Workload<'_>) -> Result<bool, EngineError> {
    let there: Vec<(usize, State)> =
        workload.states().enumerate().filter(|(_, state)| *state != State::Absent).collect();
    let (mut key, mut value) = (Vec::new(), Vec::new());
    for batch in there.chunks(BATCH) {
        let mut txn = session.write()?;
        for write in batch {
            put(&mut txn, workload, *write, (&mut key, &mut value))?;
        }
        txn.commit()?;
    }
    Ok(!there.is_empty())
}

fn put(
    txn: &mut impl Write,
    workload: &Workload<'_>,
    (slot, state): (usize, State),
    (key, value): (&mut Vec<u8>, &mut Vec<u8>),
) -> Result<(), EngineError> {
    workload.key(slot, key);
    match state {
        State::Absent => txn.delete(key).map(drop),
        State::Version(version) => {
            workload.value(slot, version, value);
            txn.put(key, value)
        }
    }
}
