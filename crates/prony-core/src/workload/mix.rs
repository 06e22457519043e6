//! Operations drawn by weight.

use super::random::{Purpose, Stream, derive};
use super::{Positions, Records, Share};
use crate::experiment::spec::{Amount, MixSpec, MixWeights, ScanLength};

/// One operation of a mix, with the number of its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Reads by key.
    Read(u64),
    /// Overwrites.
    Update(u64),
    /// Writes a new record; its number is free.
    Insert(u64),
    /// Reads rows in key order.
    Scan {
        /// The record whose key it begins at.
        from: u64,
        /// How many rows.
        rows: u64,
    },
    /// Reads and overwrites, in one transaction.
    ReadModifyWrite(u64),
    /// Removes.
    Delete(u64),
}

/// The operations of one client of a mix, without end.
///
/// Inserts are numbered on from the record count, client c of N taking every Nth number, so that no two clients
/// insert the same. A client then reads, updates and scans the records of the start and those that it has inserted
/// itself, never what another may still be inserting: the operations depend on number and seed, not on who is faster.
/// With one client this is YCSB.
#[derive(Clone, Debug)]
pub struct Mix {
    positions: Positions,
    /// Upper edges of the operations' shares, in the order of [`Mix::KINDS`]; the last is 1.
    edges: [f64; 6],
    choices: Stream,
    lengths: Stream,
    scan_length: ScanLength,
    records: u64,
    first_insert: u64,
    inserted: u64,
    share: Share,
}

#[derive(Clone, Copy)]
enum Choice {
    Read,
    Update,
    Insert,
    Scan,
    ReadModifyWrite,
    Delete,
}

impl Mix {
    const KINDS: [Choice; 6] =
        [Choice::Read, Choice::Update, Choice::Insert, Choice::Scan, Choice::ReadModifyWrite, Choice::Delete];

    /// The operations of one client.
    pub fn new(spec: &MixSpec, records: &Records, seed: u64, share: Share) -> Self {
        let part = u64::from(share.index);
        let edges = edges(&spec.weights);
        let room = share.count(room(spec, records.count(), edges[2] - edges[1]));
        Self {
            positions: Positions::with_room(&spec.ops.order, records, seed, share, room),
            edges,
            choices: Stream::new(derive(seed, Purpose::Choice, part)),
            lengths: Stream::new(derive(seed, Purpose::ScanLength, part)),
            scan_length: spec.scan_length,
            records: records.count(),
            first_insert: records.count(),
            inserted: 0,
            share,
        }
    }

    /// The same with inserts numbered from `number` on, where an earlier phase has inserted below it.
    #[must_use]
    pub fn inserting_from(mut self, number: u64) -> Self {
        self.first_insert = number;
        self
    }

    /// How many records this client has inserted.
    pub fn inserted(&self) -> u64 {
        self.inserted
    }

    /// The next operation.
    #[expect(
        clippy::should_implement_trait,
        reason = "it never ends, so there is no `None` to match in the timed loop"
    )]
    #[inline]
    pub fn next(&mut self) -> Operation {
        match self.choose() {
            Choice::Read => Operation::Read(self.record()),
            Choice::Update => Operation::Update(self.record()),
            Choice::Insert => Operation::Insert(self.insert()),
            Choice::Scan => Operation::Scan { from: self.record(), rows: self.rows() },
            Choice::ReadModifyWrite => Operation::ReadModifyWrite(self.record()),
            Choice::Delete => Operation::Delete(self.record()),
        }
    }

    fn choose(&mut self) -> Choice {
        let unit = self.choices.unit();
        let at = self.edges.iter().position(|edge| unit < *edge).unwrap_or(0);
        Self::KINDS[at]
    }

    /// A record that is there: one of the start, or this client's own insert.
    fn record(&mut self) -> u64 {
        let number = self.positions.next();
        if number < self.records { number } else { self.number_of_insert(number - self.records) }
    }

    fn number_of_insert(&self, nth: u64) -> u64 {
        self.first_insert.wrapping_add(self.share.nth(nth))
    }

    fn insert(&mut self) -> u64 {
        let number = self.number_of_insert(self.inserted);
        self.inserted += 1;
        self.positions.grow(self.records.saturating_add(self.inserted));
        number
    }

    fn rows(&mut self) -> u64 {
        match self.scan_length {
            ScanLength::Fixed(rows) => rows,
            ScanLength::UniformTo(most) => 1 + self.lengths.below(most),
        }
    }
}

/// Upper edges of each operation's share of [0, 1); past the last weight above zero they are 1.
fn edges(weights: &MixWeights) -> [f64; 6] {
    let w = [weights.read, weights.update, weights.insert, weights.scan, weights.read_modify_write, weights.delete];
    let total: f64 = w.iter().sum();
    let last = w.iter().rposition(|weight| *weight > 0.0).unwrap_or(0);
    let mut sum = 0.0;
    std::array::from_fn(|at| {
        sum += w[at];
        if at >= last { 1.0 } else { sum / total }
    })
}

/// Inserts to expect over all clients, twice over as in YCSB; as many as there are records where time sets the end.
fn room(spec: &MixSpec, records: u64, inserts: f64) -> u64 {
    let operations = match spec.ops.amount {
        Amount::Records => records,
        Amount::Count(count) => count,
        Amount::Duration(_) if inserts > 0.0 => return records,
        Amount::Duration(_) => 0,
    };
    (operations as f64 * inserts * 2.0) as u64
}
