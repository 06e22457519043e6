//! Generates the operations of a mix, chosen at random by their weights.

use super::client_share::Share;
use super::positions::Positions;
use super::records::Records;
use prony_model::random::{Purpose, Stream, derive};
use prony_model::spec::{Amount, MixSpec, MixWeights, ScanLength};

/// One operation of a mix, with the number of its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Reads by key.
    Read(u64),
    /// Overwrites an existing record.
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
    /// Removes a record.
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
    /// Upper bounds of the operations' shares, in the order of [`Mix::KINDS`]; the last is 1.
    bounds: [f64; 6],
    choices: Stream,
    lengths: Stream,
    scan_length: ScanLength,
    records: u64,
    first_insert: u64,
    inserted: u64,
    share: Share,
}

impl Mix {
    const KINDS: [fn(&mut Self) -> Operation; 6] = [
        |mix| Operation::Read(mix.record()),
        |mix| Operation::Update(mix.record()),
        |mix| Operation::Insert(mix.insert()),
        |mix| Operation::Scan { from: mix.record(), rows: mix.rows() },
        |mix| Operation::ReadModifyWrite(mix.record()),
        |mix| Operation::Delete(mix.record()),
    ];

    /// The operations of one client.
    pub fn new(spec: &MixSpec, records: &Records, seed: u64, share: Share) -> Self {
        let part = u64::from(share.index);
        let bounds = bounds(&spec.weights);
        let room = share.count(room(spec, records.count(), bounds[2] - bounds[1]));
        Self {
            positions: Positions::with_room(&spec.ops.order, records, seed, share, room),
            bounds,
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
        let unit = self.choices.unit();
        let at = self.bounds.iter().position(|bound| unit < *bound).unwrap_or(0);
        Self::KINDS[at](self)
    }

    /// An existing record: one of the start, or this client's own insert.
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

/// Upper bounds of each operation's share of [0, 1); past the last weight above zero they are 1.
fn bounds(weights: &MixWeights) -> [f64; 6] {
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
        Amount::Duration(_) | Amount::Background if inserts > 0.0 => return records,
        Amount::Duration(_) | Amount::Background => 0,
    };
    (operations as f64 * inserts * 2.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{deviation, gray};
    use crate::zipf::{SCRAMBLED_RANKS, fnv};
    use prony_model::spec::{
        BytesSpec, CollectionSpec, Grouping, KeySpec, Ops, Order, References, Sampling, Sharing, Size, ValueSpec,
    };
    use prony_model::units::{Bytes, Fraction, Nanos};
    use std::collections::HashSet;

    const RECORDS: u64 = 1_000;
    const OPERATIONS: u64 = 200_000;
    const ZIPFIAN: Order = Order::Zipfian { theta: 0.99 };
    const LATEST: Order = Order::Latest { theta: 0.99 };

    fn spec(weights: MixWeights, order: Order, amount: Amount) -> MixSpec {
        let ops = Ops {
            amount,
            transaction: Grouping::Each,
            order,
            replicas: None,
            threads: 1,
            share: Sharing::Equal,
            pause: None,
            rate: None,
            sample: Sampling::None,
            touch: true,
            collection: None,
            references: References::Ignored,
        };
        MixSpec { ops, weights, scan_length: ScanLength::UniformTo(100) }
    }

    fn records() -> Records {
        let value = ValueSpec::Bytes(BytesSpec {
            bytes: Size::Fixed(Bytes::from_bytes(1_000)),
            compressible: Fraction::default(),
            prefix: Vec::new(),
        });
        let key = KeySpec::Hashed { prefix: "user".into(), bytes: 20, hex: true };
        Records::new(&CollectionSpec { name: None, records: RECORDS, key, value }, 1).unwrap()
    }

    fn mix(spec: &MixSpec, share: Share) -> Mix {
        Mix::new(spec, &records(), 21, share)
    }

    fn operations(spec: &MixSpec) -> Vec<Operation> {
        let mut mix = mix(spec, Share::WHOLE);
        (0..OPERATIONS).map(|_| mix.next()).collect()
    }

    /// The published core workloads A to F: share of read, update, insert, scan, read-modify-write; request order.
    fn ycsb() -> [(char, [f64; 5], Order); 6] {
        [
            ('A', [0.5, 0.5, 0.0, 0.0, 0.0], ZIPFIAN),
            ('B', [0.95, 0.05, 0.0, 0.0, 0.0], ZIPFIAN),
            ('C', [1.0, 0.0, 0.0, 0.0, 0.0], ZIPFIAN),
            ('D', [0.95, 0.0, 0.05, 0.0, 0.0], LATEST),
            ('E', [0.0, 0.0, 0.05, 0.95, 0.0], ZIPFIAN),
            ('F', [0.5, 0.0, 0.0, 0.0, 0.5], ZIPFIAN),
        ]
    }

    fn ycsb_spec([read, update, insert, scan, read_modify_write]: [f64; 5], order: Order) -> MixSpec {
        let weights = MixWeights { read, update, insert, scan, read_modify_write, delete: 0.0 };
        spec(weights, order, Amount::Count(OPERATIONS))
    }

    #[test]
    fn ycsb_mixes_are_as_published() {
        for (name, shares, order) in ycsb() {
            let mut counts = [0u64; 5];
            for operation in operations(&ycsb_spec(shares, order)) {
                counts[match operation {
                    Operation::Read(_) => 0,
                    Operation::Update(_) => 1,
                    Operation::Insert(_) => 2,
                    Operation::Scan { .. } => 3,
                    Operation::ReadModifyWrite(_) => 4,
                    Operation::Delete(_) => panic!("workload {name} deletes nothing"),
                }] += 1;
            }
            for (count, share) in counts.iter().zip(shares) {
                let spread = (OPERATIONS as f64 * share * (1.0 - share)).sqrt();
                let off = *count as f64 - OPERATIONS as f64 * share;
                assert!(off.abs() <= 4.0 * spread, "workload {name}: {counts:?}");
            }
        }
    }

    /// Which records are requested, of those of the start, where the request order is zipfian.
    #[test]
    fn ycsb_requests_are_zipfian_over_records_and_expected_inserts() {
        for (name, shares, order) in ycsb().into_iter().filter(|(_, _, order)| *order == ZIPFIAN) {
            let mut counts = vec![0u64; RECORDS as usize];
            for operation in operations(&ycsb_spec(shares, order)) {
                match operation {
                    Operation::Read(n)
                    | Operation::Update(n)
                    | Operation::ReadModifyWrite(n)
                    | Operation::Scan { from: n, .. } => {
                        if let Some(count) = counts.get_mut(n as usize) {
                            *count += 1;
                        }
                    }
                    Operation::Insert(_) | Operation::Delete(_) => {}
                }
            }
            let space = RECORDS + (OPERATIONS as f64 * shares[2] * 2.0) as u64;
            let off = deviation(&counts, &scrambled(space, RECORDS));
            assert!(off.abs() < 4.0, "workload {name}: {off}");
        }
    }

    /// Probabilities of the first `of` records, scaled to 1, of ranks scattered over `space`.
    fn scrambled(space: u64, of: u64) -> Vec<f64> {
        let head = gray(SCRAMBLED_RANKS, 0.99, 1_000_000);
        let tail = 1.0 - head.iter().sum::<f64>();
        let mut all = vec![tail / space as f64; space as usize];
        for (rank, probability) in head.iter().enumerate() {
            all[(fnv(rank as u64) % space) as usize] += probability;
        }
        all.truncate(of as usize);
        let sum: f64 = all.iter().sum();
        all.iter().map(|p| p / sum).collect()
    }

    /// Workload D: how far back from the newest record the reads lie.
    #[test]
    fn ycsb_d_reads_the_latest() {
        let (_, shares, order) = ycsb()[3];
        let mut newest = RECORDS - 1;
        let mut back = [0u64; 20];
        for operation in operations(&ycsb_spec(shares, order)) {
            match operation {
                Operation::Insert(number) => {
                    assert_eq!(number, newest + 1);
                    newest = number;
                }
                Operation::Read(number) => {
                    let ago = (newest - number) as usize;
                    if let Some(count) = back.get_mut(ago) {
                        *count += 1;
                    }
                }
                other => panic!("workload D has no {other:?}"),
            }
        }
        // Within the first 20, the proportions do not depend on how many records there are by then.
        let head = gray(RECORDS, 0.99, 20);
        let sum: f64 = head.iter().sum();
        let proportions: Vec<f64> = head.iter().map(|p| p / sum).collect();
        // The first two are exact, the rest continuous: their ratio shifts a little as records are added.
        let read: u64 = back.iter().sum();
        for (count, proportion) in back.iter().zip(&proportions) {
            let share = *count as f64 / read as f64;
            assert!((share - proportion).abs() < 0.1 * proportion + 0.004, "{share}, not {proportion}");
        }
    }

    #[test]
    fn scans_read_1_to_100_rows_uniformly() {
        let (_, shares, order) = ycsb()[4];
        let mut counts = [0u64; 100];
        for operation in operations(&ycsb_spec(shares, order)) {
            if let Operation::Scan { rows, .. } = operation {
                counts[(rows - 1) as usize] += 1;
            }
        }
        assert!(deviation(&counts, &[0.01; 100]).abs() < 4.0);
        let mut fixed = ycsb_spec(shares, order);
        fixed.scan_length = ScanLength::Fixed(7);
        assert!(operations(&fixed).iter().all(|op| !matches!(op, Operation::Scan { rows, .. } if *rows != 7)));
    }

    #[test]
    fn clients_insert_numbers_of_their_own_and_touch_only_what_is_there() {
        let weights = MixWeights { read: 1.0, update: 1.0, insert: 1.0, delete: 1.0, ..MixWeights::default() };
        for order in [ZIPFIAN, LATEST, Order::Uniform, Order::Shuffled, Order::Record] {
            let spec = spec(weights, order, Amount::Count(9_000));
            let mut inserted = HashSet::new();
            for index in 0..3 {
                let mut mix = mix(&spec, Share::new(index, 3)).inserting_from(5_000);
                let mut own = HashSet::new();
                for _ in 0..3_000 {
                    match mix.next() {
                        Operation::Insert(n) => {
                            assert!(n >= 5_000 && inserted.insert(n), "{n} inserted twice");
                            own.insert(n);
                        }
                        Operation::Read(n) | Operation::Update(n) | Operation::Delete(n) => {
                            assert!(n < RECORDS || own.contains(&n), "{order:?}: {n} is not there");
                        }
                        other => panic!("no weight for {other:?}"),
                    }
                }
                assert_eq!(mix.inserted(), own.len() as u64);
                let touches_new = matches!(order, ZIPFIAN | LATEST | Order::Uniform);
                assert!(!touches_new || own.len() > 500);
            }
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_operations_and_clients_differ() {
        let (_, shares, order) = ycsb()[0];
        let spec = ycsb_spec(shares, order);
        assert_eq!(operations(&spec)[..100], operations(&spec)[..100]);
        let first = |index| {
            let mut mix = mix(&spec, Share::new(index, 2));
            (0..50).map(|_| mix.next()).collect::<Vec<_>>()
        };
        assert_ne!(first(0), first(1));
    }

    #[test]
    fn timed_mixes_foresee_as_many_inserts_as_records() {
        let weights = MixWeights { read: 1.0, insert: 1.0, ..MixWeights::default() };
        let timed = Amount::Duration(Nanos::from_secs(1));
        assert_eq!(room(&spec(weights, ZIPFIAN, timed), 70, 0.5), 70);
        assert_eq!(room(&spec(weights, ZIPFIAN, timed), 70, 0.0), 0);
        assert_eq!(room(&spec(weights, ZIPFIAN, Amount::Count(100)), 70, 0.5), 100);
        assert_eq!(room(&spec(weights, ZIPFIAN, Amount::Records), 70, 0.5), 70);
    }

    #[test]
    fn an_operation_without_weight_never_comes() {
        let weights = MixWeights { update: 3.0, delete: 1.0, ..MixWeights::default() };
        let bounds = bounds(&weights);
        assert_eq!(bounds, [0.0, 0.75, 0.75, 0.75, 0.75, 1.0]);
        let spec = spec(weights, Order::Uniform, Amount::Records);
        assert!(operations(&spec).iter().all(|op| matches!(op, Operation::Update(_) | Operation::Delete(_))));
    }
}
