//! Computes which records the operations of a phase have changed. A client draws its records from the seed, whatever their order,
//! and independently of the other clients; so its numbers can be drawn again, as many as it had operations. A bit for each record is in
//! memory from then on, so that is done when a `verify` phase needs it and not before.

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
    fn shares(&self) -> impl Iterator<Item = (Share, u64)> {
        let of = self.counts.len() as u32;
        self.counts.iter().zip(0..).map(move |(count, index)| (Share { index, of }, *count))
    }

    /// The records that operations in this order work on.
    pub(super) fn touched(&self, order: &Order, records: &Records) -> RecordSet {
        let mut touched = RecordSet::none_of(records.count());
        for (share, count) in self.shares() {
            let mut numbers = Positions::new(order, records, self.seed, share);
            (0..count).for_each(|_| touched.add(numbers.next()));
        }
        touched
    }

    /// What a mix leaves, whose first insert has this number.
    pub(super) fn left_by(&self, mix: &MixSpec, first: u64, records: &Records) -> Left {
        let mut all = Left::default();
        for (share, count) in self.shares() {
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
            all.updated.merge(&own.updated);
            all.removed.merge(&own.removed);
        }
        all
    }
}

/// Records of a mix by the last change that a client made to them; of several clients any may have been the last one.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Left {
    pub(super) updated: RecordSet,
    pub(super) removed: RecordSet,
}
