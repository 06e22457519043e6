//! Computes which records the operations of a phase have changed. A client draws its records from the seed, whatever their order,
//! and independently of the other clients; so its numbers can be drawn again, as many as it had operations. A bit for each record is in
//! memory from then on, so that is done when a `verify` phase needs it and not before. Several processors draw those of several
//! clients.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::{Builder, available_parallelism, scope};

use prony_model::spec::{MixSpec, Order};
use prony_workload::{Mix, Operation, Positions, Records, Share};

use super::record_set::RecordSet;

/// What of a phase is needed to draw its operations again.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Drawn {
    /// Seeds the order.
    pub(super) seed: u64,
    /// Operations of each client.
    pub(super) counts: Vec<u64>,
}

impl Drawn {
    /// What all clients draw, merged, whatever their order. Each thread draws the next client's into a set of its own, so that the
    /// memory needed follows from the number of processors and not from that of clients.
    fn of_all<T: Default + Send>(&self, draw: impl Fn(&mut T, Share, u64) + Sync, merge: impl Fn(&mut T, T)) -> T {
        let next = AtomicUsize::new(0);
        let of = self.counts.len() as u32;
        let work = || {
            let mut own = T::default();
            loop {
                let index = next.fetch_add(1, Relaxed);
                let Some(count) = self.counts.get(index) else { return own };
                draw(&mut own, Share::new(index as u32, of), *count);
            }
        };
        let threads = available_parallelism().map_or(1, NonZero::get).min(self.counts.len());
        scope(|scope| {
            // Where a limit allows no more threads, this one draws all.
            let spawned: Vec<_> = (1..threads).map_while(|_| Builder::new().spawn_scoped(scope, work).ok()).collect();
            let mut all = work();
            for thread in spawned {
                merge(&mut all, thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
            }
            all
        })
    }

    /// The records that operations in this order work on.
    pub(super) fn touched(&self, order: &Order, records: &Records) -> RecordSet {
        let draw = |touched: &mut RecordSet, share, count| {
            let mut numbers = Positions::new(order, records, self.seed, share);
            (0..count).for_each(|_| touched.add(numbers.next()));
        };
        self.of_all(draw, |all, own| all.merge(&own))
    }

    /// What a mix leaves, whose first insert has this number.
    pub(super) fn left_by(&self, mix: &MixSpec, first: u64, records: &Records) -> Left {
        let draw = |all: &mut Left, share, count| {
            let mut own = Left::default();
            let mut operations = Mix::new(mix, records, self.seed, share).inserting_from(first);
            for _ in 0..count {
                match operations.next() {
                    Operation::Update(number) | Operation::ReadModifyWrite(number) => {
                        own.updated.add(number);
                        own.removed.remove(number);
                    }
                    Operation::Delete(number) => {
                        own.removed.add(number);
                        own.updated.remove(number);
                    }
                    Operation::Read(_) | Operation::Insert(_) | Operation::Scan { .. } => {}
                }
            }
            all.merge(&own);
        };
        self.of_all(draw, |all, own| all.merge(&own))
    }
}

/// Records of a mix by the last change that a client made to them; of several clients any may have been the last one.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Left {
    pub(super) updated: RecordSet,
    pub(super) removed: RecordSet,
}

impl Left {
    fn merge(&mut self, other: &Self) {
        self.updated.merge(&other.updated);
        self.removed.merge(&other.removed);
    }
}
