//! The writes of a crash trial: a function of the seed and of the number of the commit.

use prony_model::spec::{Action, CrashSpec, Grouping};
use prony_workload::{Positions, Share, phase_seed};

use crate::phases::collections::Collection;

/// Bytes at the start of each value: the number of the record and its version.
pub(super) const HEADER: usize = 12;

/// What a record holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It is not there.
    Absent,
    /// This version of its value, from 1 on.
    Version(u32),
}

/// A write of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Write {
    /// The record, counted over all collections that are written.
    pub(super) slot: usize,
    /// What it holds afterwards.
    pub(super) state: State,
}

/// A collection that is written.
struct Target<'c> {
    collection: &'c Collection,
    /// The slot of its first record.
    first: usize,
}

/// The writes of one transaction after another.
///
/// A `put`, `update` or `compute` writes the next version of a record. A `delete` removes the record, and stores the next
/// version where it was removed before, so that the writes never end. Reads are left out.
pub(super) struct Workload<'c> {
    targets: Vec<Target<'c>>,
    deletes: bool,
    /// Operations of a transaction.
    size: u64,
    positions: Positions,
    /// The last version of each record, and whether it is there.
    records: Vec<(u32, bool)>,
    writes: Vec<Write>,
}

impl<'c> Workload<'c> {
    /// The writes of a phase with this action; `None` where it has none or its collection is not known.
    pub(super) fn new(all: &'c [Collection], crash: &CrashSpec, action: &Action, seed: u64) -> Option<Self> {
        let ops = action.ops()?;
        let named = |name: Option<&String>| all.iter().find(|collection| collection.name.as_ref() == name);
        let own = named(ops.collection.as_ref())?;
        let further: Option<Vec<&Collection>> = crash.also.iter().map(|name| named(Some(name))).collect();
        let mut targets = Vec::new();
        let mut first = 0;
        for collection in std::iter::once(own).chain(further?) {
            targets.push(Target { collection, first });
            first += usize::try_from(collection.records.count()).ok()?;
        }
        let size = match ops.transaction {
            Grouping::Each => 1,
            Grouping::Batch(size) => size.max(1),
            Grouping::Single | Grouping::Open => own.records.count().max(1),
        };
        let stored = matches!(action, Action::Update(_) | Action::Delete(_));
        let share = Share::new(0, 1);
        let positions = Positions::new(&ops.order, &own.records, phase_seed(seed, &crash.during), share);
        let records = vec![(u32::from(stored), stored); first];
        let deletes = matches!(action, Action::Delete(_));
        Some(Self { targets, deletes, size, positions, records, writes: Vec::new() })
    }

    /// What each record holds before the next transaction.
    pub(super) fn states(&self) -> impl Iterator<Item = State> + '_ {
        let state = |(version, present): &(u32, bool)| if *present { State::Version(*version) } else { State::Absent };
        self.records.iter().map(state)
    }

    /// How many records there are in all collections.
    pub(super) fn slots(&self) -> usize {
        self.records.len()
    }

    /// A write of the last transaction that was asked for.
    pub(super) fn written(&self, at: usize) -> Write {
        self.writes[at]
    }

    /// The writes of the next transaction, in their order.
    pub(super) fn transaction(&mut self) -> &[Write] {
        self.writes.clear();
        for _ in 0..self.size {
            let number = self.positions.next();
            for target in &self.targets {
                let of = target.collection.records.count().max(1);
                let slot = target.first + (number % of) as usize;
                let (version, present) = &mut self.records[slot];
                let removes = self.deletes && *present;
                if !removes {
                    *version += 1;
                }
                *present = !removes;
                let state = if removes { State::Absent } else { State::Version(*version) };
                self.writes.push(Write { slot, state });
            }
        }
        &self.writes
    }

    /// The collection of a record, and its number there.
    pub(super) fn place(&self, slot: usize) -> (&'c Collection, u64) {
        let target = self.targets.iter().rev().find(|target| target.first <= slot).unwrap_or(&self.targets[0]);
        (target.collection, (slot - target.first) as u64)
    }

    /// The key of a record as it is stored.
    pub(super) fn key(&self, slot: usize, out: &mut Vec<u8>) {
        let (collection, number) = self.place(slot);
        collection.records.key(number, out);
        let before = collection.space.before();
        out.splice(..0, before.iter().copied());
    }

    /// A version of a record's value.
    pub(super) fn value(&self, slot: usize, version: u32, out: &mut Vec<u8>) {
        let (collection, number) = self.place(slot);
        collection.records.value(number, version, out);
        out.resize(out.len().max(HEADER), 0);
        out[..8].copy_from_slice(&number.to_le_bytes());
        out[8..HEADER].copy_from_slice(&version.to_le_bytes());
    }

    /// The version that a value of a record says it is; `None` where it does not begin like one.
    pub(super) fn version(&self, slot: usize, value: &[u8]) -> Option<u32> {
        let number = u64::from_le_bytes(value.get(..8)?.try_into().ok()?);
        let version = u32::from_le_bytes(value.get(8..HEADER)?.try_into().ok()?);
        (number == self.place(slot).1).then_some(version)
    }

    /// The collections that are written.
    pub(super) fn collections(&self) -> impl Iterator<Item = &'c Collection> + '_ {
        self.targets.iter().map(|target| target.collection)
    }

    /// A record in a message.
    pub(super) fn named(&self, slot: usize) -> String {
        let (collection, number) = self.place(slot);
        let of = collection.name.as_ref().map(|name| format!(" of `{name}`")).unwrap_or_default();
        format!("record {number}{of}")
    }
}
