//! Crash trials in the worker.
//!
//! A first process opens a new store and repeats the writes of a phase, one transaction after another, until it is ended
//! (`write`). It notes each acknowledged commit in a file in memory that the runner has open (`acknowledged`). A second
//! process opens the store that was left, reads every record and counts which commits are there (`check`, `judge`).
//!
//! What a commit writes is a function of the seed and of its number (`workload`), so that both processes know it. Each value
//! begins with the number of its record and with a version that no other write of this record has: what is found in a
//! record shows which commit was the last to write it.

mod acknowledged;
mod check;
mod judge;
#[cfg(test)]
mod tests;
mod workload;
mod write;

use prony_model::crash::CrashStep;
use prony_model::link::Link;
use prony_model::spec::{Action, CrashSpec, StoreSpec, Subject};
use prony_model::units::Nanos;

use super::collections::Collections;
use super::stop::{HostError, Stop};
use super::worker_loop::opened;
use super::{CrashPlan, Machine};
use crate::driver::{Driver, EngineError};
use workload::Workload;

pub use acknowledged::Acknowledged;

/// Does a step of a crash trial on a store of the engine `D`.
///
/// # Errors
/// Whatever ends the writes before the process is ended; where the store does not open, or its records cannot be read.
pub(crate) fn crash<D: Driver>(
    link: &mut dyn Link,
    machine: &dyn Machine,
    plan: &CrashPlan,
    step: CrashStep,
) -> Result<(), HostError> {
    let done = match step {
        CrashStep::Write => write::write::<D>(link, plan),
        CrashStep::Check { cut, acknowledged } => check::check::<D>(link, machine, plan, (cut, acknowledged)),
    };
    Ok(done?)
}

/// A crash trial in one of its two processes.
struct Trial<'t> {
    plan: &'t CrashPlan,
    store: &'t StoreSpec,
    crash: &'t CrashSpec,
    action: &'t Action,
    collections: Collections,
}

impl<'t> Trial<'t> {
    fn new<D: Driver>(plan: &'t CrashPlan) -> Result<Self, Stop> {
        let spec = &plan.plan.spec;
        let Subject::Store(store) = &spec.subject else { return Err(Stop::NoData) };
        let unknown = || Stop::Protocol("a crash phase".to_owned());
        let crash = spec.crashes.get(plan.crash).ok_or_else(unknown)?;
        let phase = spec.phases.iter().find(|phase| phase.name == crash.during).ok_or_else(unknown)?;
        let collections = Collections::new::<D>(&plan.plan, store)?;
        Ok(Self { plan, store, crash, action: &phase.action, collections })
    }

    /// The open store, and the time that opening it took.
    fn open<D: Driver>(&self) -> Result<(D::Store, Nanos), EngineError> {
        opened::<D>(&self.plan.plan.dir, self.store, &self.collections.tables, true)
    }

    fn workload(&self) -> Result<Workload<'_>, Stop> {
        Workload::new(&self.collections.all, self.crash, self.action, self.plan.plan.seed).ok_or(Stop::NoOperations)
    }
}
