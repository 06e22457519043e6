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
    /// Updates that come to a record again write another version ([`Job::alternates`](super::operate::Job::alternates)).
    pub(super) alternates: bool,
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

    /// The records that operations in this order work on, as updated.
    pub(super) fn touched(&self, order: &Order, records: &Records) -> Left {
        let draw = |all: &mut Left, share, count| {
            let mut own = self.nothing_left();
            let mut numbers = Positions::new(order, records, self.seed, share);
            (0..count).for_each(|_| own.update(numbers.next()));
            all.merge(own);
        };
        self.of_all(draw, |all, own| all.merge(own))
    }

    fn nothing_left(&self) -> Left {
        Left { odd: self.alternates.then(RecordSet::default), ..Left::default() }
    }

    /// What a mix leaves, whose first insert has this number.
    pub(super) fn left_by(&self, mix: &MixSpec, first: u64, records: &Records) -> Left {
        let draw = |all: &mut Left, share, count| {
            let mut own = self.nothing_left();
            let mut operations = Mix::new(mix, records, self.seed, share).inserting_from(first);
            for _ in 0..count {
                match operations.next() {
                    Operation::Update(number) | Operation::ReadModifyWrite(number) => {
                        own.update(number);
                        own.removed.remove(number);
                    }
                    Operation::Delete(number) => {
                        own.removed.add(number);
                        own.updated.remove(number);
                    }
                    Operation::Read(_) | Operation::Insert(_) | Operation::Scan { .. } => {}
                }
            }
            all.merge(own);
        };
        self.of_all(draw, |all, own| all.merge(own))
    }
}

/// Records by the last change that a client made to them; of several clients any may have been the last one.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Left {
    pub(super) updated: RecordSet,
    pub(super) removed: RecordSet,
    /// Those that were updated an odd number of times; `None` where each update of a record writes the same.
    odd: Option<RecordSet>,
}

impl Left {
    fn update(&mut self, number: u64) {
        self.updated.add(number);
        if let Some(odd) = &mut self.odd {
            odd.toggle(number);
        }
    }

    /// Whether updates that came to a record again wrote another version.
    pub(super) const fn alternates(&self) -> bool {
        self.odd.is_some()
    }

    /// What the last update of a record wrote, of which the first wrote this version.
    pub(super) fn last_version(&self, first: u32, number: u64) -> u32 {
        first + u32::from(self.odd.as_ref().is_some_and(|odd| !odd.contains(number)))
    }

    /// Updates alternate only where no two clients update the same record.
    fn merge(&mut self, other: Self) {
        self.updated.merge(&other.updated);
        self.removed.merge(&other.removed);
        if let Some(odd) = &other.odd {
            self.odd.get_or_insert_default().merge(odd);
        }
    }
}
