//! What a phase asks of the workers, and what is a fault of theirs.

use std::path::Path;

use prony_engines::failure::has_no_room;
use prony_model::protocol::{Failure, PhaseReport};
use prony_model::record::EffectiveStore;
use prony_model::spec::{Action, Amount, PhaseSpec, Sharing, TrialSpec};
use prony_os::launch::Status;
use rustix::process::Signal;

use crate::watched::report::Fault;

/// Whether two processes have opened the store with different settings. What is read back of an open store may differ by
/// what was done to it in between.
pub(super) fn differs(a: &EffectiveStore, b: &EffectiveStore) -> bool {
    let class = |store: &EffectiveStore| store.in_force.as_ref().map(|in_force| in_force.durability);
    (&a.engine, &a.version, a.durability, &a.settings, class(a))
        != (&b.engine, &b.version, b.durability, &b.settings, class(b))
}

/// Whether workers run a phase: not one that waits for quiet, nor a command.
pub(super) const fn is_of_workers(action: &Action) -> bool {
    action.settle().is_none() && !matches!(action, Action::Run(_))
}

/// Whether a phase is run by workers that wait for each other, of which there may be one.
pub(super) fn is_shared(phase: &PhaseSpec) -> bool {
    phase.action.ops().is_some_and(|ops| ops.replicas.is_some())
}

/// Of a store that writes through a map of its file, as LMDB does with `write_map`, a full disk refuses no call: the kernel
/// ends the worker by SIGBUS. A map that reaches beyond its file ends it by the same signal, so that the disk counts as full
/// only if it has no room.
pub(crate) fn disk_full(status: Status, directory: &Path) -> Option<Fault> {
    let is_bus = matches!(status, Status::Signalled(signal) if signal == Signal::BUS.as_raw());
    let message = "the worker was ended by signal 7 (SIGBUS) when it wrote to its memory-mapped store, whose file \
                   system is full (hint: free space there)";
    let fault = || Fault::Failed { failure: Failure::DiskFull, message: message.to_owned() };
    (is_bus && has_no_room(directory)).then(fault)
}

/// The fault where clients took their operations from a queue, and did more or fewer than it had.
pub(super) fn wrong_total(spec: &TrialSpec, phase: &PhaseSpec, report: &PhaseReport) -> Option<Fault> {
    let queued = phase.action.ops().filter(|ops| ops.share == Sharing::Queue);
    let total = queued.and_then(|_| total_operations(spec, phase))?;
    // Where a transaction fails in the end, an error is of no operation.
    let done = if report.errors == 0 { report.operations } else { total };
    let message = format!("the clients did {done} operations of phase `{}`, whose queue had {total}", phase.name);
    (done != total).then_some(Fault::Failed { failure: Failure::Failed, message })
}

/// How many operations a phase will do, where that is known beforehand.
pub(super) fn total_operations(spec: &TrialSpec, phase: &PhaseSpec) -> Option<u64> {
    let ops = phase.action.ops()?;
    match ops.amount {
        Amount::Records => spec.collection(ops).map(|collection| collection.records),
        Amount::Count(count) => Some(count),
        Amount::Duration(_) | Amount::Background => None,
    }
}

/// A step of a worker in a phase.
#[derive(Clone, Copy)]
pub(super) enum Step {
    Prepare,
    Begin,
    End,
}
