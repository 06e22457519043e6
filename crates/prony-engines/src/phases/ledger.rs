//! Computes which records the store must contain after the phases so far: as exactly as the operations allow, in
//! constant memory.

use prony_model::spec::{Action, MixWeights, Order};
use prony_workload::{Records, Share};

use super::record_set::RecordSet;

/// Versions distinguished; each updating phase writes the next one.
const VERSIONS: u32 = 128;

/// The possible states of one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    /// It may be missing.
    pub(super) absent: bool,
    /// Bit v is set where it may hold version v.
    versions: u128,
}

impl State {
    const ABSENT: Self = Self { absent: true, versions: 0 };

    fn present(version: u32) -> Self {
        Self { absent: false, versions: 1 << version }
    }

    fn or(self, other: Self) -> Self {
        Self { absent: self.absent || other.absent, versions: self.versions | other.versions }
    }

    /// Versions that it may hold.
    pub(super) fn versions(self) -> impl Iterator<Item = u32> {
        (0..VERSIONS).filter(move |version| self.versions >> version & 1 == 1)
    }

    /// How many versions it may hold.
    pub(super) fn possible(self) -> u32 {
        self.versions.count_ones()
    }

    /// Whether only one state is possible.
    pub(super) fn is_certain(self) -> bool {
        self.possible() + u32::from(self.absent) == 1
    }
}

/// Which records a phase has touched.
#[derive(Clone, Debug, PartialEq)]
enum Touched {
    All,
    /// Client c of n has touched the records c, c + n, c + 2n ..., so many of them.
    Stripes(Vec<u64>),
    /// References were checked: those of which an operation was not refused.
    Admitted(RecordSet),
    /// It cannot be determined without a list.
    Some,
}

impl Touched {
    fn new(done: &Done<'_>, records: u64) -> Self {
        let order = &done.action.ops().map_or(Order::Uniform, |ops| ops.order);
        if let Some(admitted) = done.admitted {
            return Self::Admitted(admitted.clone());
        }
        let counts = done.counts;
        let of = counts.len() as u32;
        let share = |index: usize| Share { index: index as u32, of }.count(records);
        let visits_each = matches!(order, Order::Record | Order::Key | Order::Shuffled);
        if visits_each && counts.iter().enumerate().all(|(client, count)| *count >= share(client)) {
            Self::All
        } else if matches!(order, Order::Record) {
            Self::Stripes(counts.to_vec())
        } else {
            Self::Some
        }
    }

    /// `None` where it cannot be determined.
    fn contains(&self, number: u64) -> Option<bool> {
        match self {
            Self::All => Some(true),
            Self::Stripes(counts) => {
                let of = counts.len() as u64;
                Some(number / of < counts[(number % of) as usize])
            }
            Self::Admitted(records) => Some(records.contains(number)),
            Self::Some => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    Put,
    Update(u32),
    Delete,
    Compute,
}

impl Change {
    fn apply(self, before: State) -> State {
        match self {
            Self::Put => State::present(0),
            Self::Update(version) => State::present(version),
            Self::Delete => State::ABSENT,
            Self::Compute if before.absent => State { absent: false, versions: before.versions | 1 },
            Self::Compute => before,
        }
    }
}

/// The records of operations that failed: an engine may have stored them in spite of it.
#[derive(Clone, Debug, PartialEq)]
struct Failed(Option<RecordSet>);

impl Failed {
    fn may_be(&self, number: u64) -> bool {
        self.0.as_ref().is_none_or(|failed| failed.contains(number))
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Layer {
    Plain {
        change: Change,
        touched: Touched,
        failed: Failed,
    },
    Mix {
        /// The version that its updates write; `None` where it has no updates.
        version: Option<u32>,
        deletes: bool,
        /// Number of the first insert.
        first: u64,
        /// Inserts of each client.
        inserted: Vec<u64>,
        failed: Failed,
    },
}

impl Layer {
    fn apply(&self, number: u64, records: u64, before: State) -> State {
        match self {
            Self::Plain { .. } if number >= records => before,
            Self::Plain { change, touched, failed } => match touched.contains(number) {
                Some(true) if !failed.may_be(number) => change.apply(before),
                Some(false) => before,
                _ => before.or(change.apply(before)),
            },
            Self::Mix { version, deletes, first, inserted, failed } => {
                let of = inserted.len() as u64;
                let place = number.checked_sub(*first).filter(|p| p / of < inserted[(p % of) as usize]);
                let after = match place {
                    Some(_) if failed.may_be(number) => before.or(State::present(0)),
                    Some(_) => State::present(0),
                    None => before,
                };
                // A mix touches the records of the start and what it has inserted itself.
                if number >= records && place.is_none() {
                    return after;
                }
                let updated = version.map_or(after, |version| after.or(State::present(version)));
                if *deletes { updated.or(State::ABSENT) } else { updated }
            }
        }
    }
}

/// The writes so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    layers: Vec<Layer>,
    versions: u32,
    next_insert: Option<u64>,
}

/// The facts about a phase that the ledger needs.
pub(super) struct Done<'a> {
    pub(super) action: &'a Action,
    /// Operations of each client.
    pub(super) counts: &'a [u64],
    /// Inserts of each client.
    pub(super) inserted: &'a [u64],
    /// The records of operations that failed; `None` where it is not known which.
    pub(super) failed: Option<&'a RecordSet>,
    /// Where references were checked: the records of which an operation was not refused.
    pub(super) admitted: Option<&'a RecordSet>,
}

impl Ledger {
    /// Whether nothing was written.
    pub(super) fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }

    /// The version that the next updating phase writes; 0 is what `put` writes.
    pub(super) fn next_version(&self) -> u32 {
        (self.versions + 1).min(VERSIONS - 1)
    }

    /// Number of the next new record.
    pub(super) fn next_insert(&self, records: u64) -> u64 {
        self.next_insert.unwrap_or(records)
    }

    /// Notes a phase.
    pub(super) fn note(&mut self, done: &Done<'_>, records: &Records) {
        let records = records.count();
        if done.counts.iter().all(|count| *count == 0) {
            return;
        }
        let version = self.next_version();
        let change = match done.action {
            Action::Put(_) => Change::Put,
            Action::Update(_) => Change::Update(version),
            Action::Delete(_) => Change::Delete,
            Action::Compute(_) => Change::Compute,
            Action::Mix(mix) => return self.note_mix(done, &mix.weights, records),
            _ => return,
        };
        self.versions = if matches!(change, Change::Update(_)) { version } else { self.versions };
        let (touched, failed) = (Touched::new(done, records), Failed(done.failed.cloned()));
        self.layers.push(Layer::Plain { change, touched, failed });
    }

    fn note_mix(&mut self, done: &Done<'_>, weights: &MixWeights, records: u64) {
        let updates = weights.update > 0.0 || weights.read_modify_write > 0.0;
        let version = updates.then_some(self.next_version());
        self.versions = version.unwrap_or(self.versions);
        let first = self.next_insert(records);
        let of = done.inserted.len() as u64;
        let ends = done.inserted.iter().zip(0..).filter(|(n, _)| **n > 0).map(|(n, client)| (n - 1) * of + client + 1);
        self.next_insert = Some(first + ends.max().unwrap_or(0));
        let (inserted, failed) = (done.inserted.to_vec(), Failed(done.failed.cloned()));
        self.layers.push(Layer::Mix { version, deletes: weights.delete > 0.0, first, inserted, failed });
    }

    /// The possible states of a record.
    pub(super) fn state(&self, number: u64, records: u64) -> State {
        self.state_after(self.layers(), number, records)
    }

    /// The same after so many of the layers.
    pub(super) fn state_after(&self, layers: usize, number: u64, records: u64) -> State {
        self.layers.iter().take(layers).fold(State::ABSENT, |state, layer| layer.apply(number, records, state))
    }

    /// How many phases have written.
    pub(super) fn layers(&self) -> usize {
        self.layers.len()
    }

    /// What the phase behind so many layers wrote, where it checked references: the version that it stored, the records of
    /// which an operation was not refused, and whether some failed.
    pub(super) fn admitted(&self, layers: usize) -> Option<(u32, &RecordSet, bool)> {
        let Layer::Plain { change, touched: Touched::Admitted(records), failed } = self.layers.get(layers)? else {
            return None;
        };
        let version = if let Change::Update(version) = change { *version } else { 0 };
        Some((version, records, failed.0.as_ref() != Some(&RecordSet::default())))
    }

    /// Numbers from here on belong to no record.
    pub(super) fn end(&self, records: u64) -> u64 {
        self.next_insert(records).max(records)
    }
}

#[cfg(test)]
mod tests {
    use prony_model::spec::{MixSpec, ScanLength};

    use super::*;
    use crate::phases::tests::fake::{ops, records};

    fn note(ledger: &mut Ledger, action: Action, counts: &[u64]) {
        let inserted = &vec![0; counts.len()];
        let failed = Some(&RecordSet::default());
        ledger.note(&Done { action: &action, counts, inserted, failed, admitted: None }, &records(10));
    }

    fn set(numbers: &[u64]) -> RecordSet {
        let mut set = RecordSet::default();
        numbers.iter().for_each(|number| set.add(*number));
        set
    }

    fn states(ledger: &Ledger) -> Vec<(bool, Vec<u32>)> {
        (0..ledger.end(10)).map(|n| ledger.state(n, 10)).map(|s| (s.absent, s.versions().collect())).collect()
    }

    #[test]
    fn whole_passes_leave_no_doubt() {
        let mut ledger = Ledger::default();
        note(&mut ledger, Action::Put(ops(Order::Shuffled)), &[5, 5]);
        note(&mut ledger, Action::Update(ops(Order::Key)), &[10]);
        assert_eq!(states(&ledger), vec![(false, vec![1]); 10]);
        note(&mut ledger, Action::Delete(ops(Order::Record)), &[3]);
        note(&mut ledger, Action::Update(ops(Order::Record)), &[1]);
        let states = states(&ledger);
        assert_eq!(states[0], (false, vec![2]));
        assert_eq!(states[1..3], vec![(true, vec![]); 2]);
        assert_eq!(states[3..], vec![(false, vec![1]); 7]);
    }

    #[test]
    fn stripes_of_several_clients_are_distinguished() {
        let mut ledger = Ledger::default();
        note(&mut ledger, Action::Put(ops(Order::Record)), &[3, 1]);
        let present: Vec<u64> = (0..10).filter(|n| !ledger.state(*n, 10).absent).collect();
        assert_eq!(present, [0, 1, 2, 4]);
    }

    #[test]
    fn random_writes_leave_what_was_there_or_what_they_write() {
        let mut ledger = Ledger::default();
        note(&mut ledger, Action::Put(ops(Order::Record)), &[10]);
        note(&mut ledger, Action::Update(ops(Order::Uniform)), &[4]);
        note(&mut ledger, Action::Update(ops(Order::Uniform)), &[4]);
        assert_eq!(states(&ledger), vec![(false, vec![0, 1, 2]); 10]);
        note(&mut ledger, Action::Delete(ops(Order::Shuffled)), &[9]);
        assert_eq!(states(&ledger), vec![(true, vec![0, 1, 2]); 10]);
        note(&mut ledger, Action::Compute(ops(Order::Shuffled)), &[10]);
        assert_eq!(states(&ledger), vec![(false, vec![0, 1, 2]); 10]);
    }

    #[test]
    fn failed_operations_make_their_records_doubtful_or_all_where_they_are_not_known() {
        let action = Action::Put(ops(Order::Record));
        let noted = |failed: Option<&RecordSet>| {
            let mut ledger = Ledger::default();
            let done = Done { action: &action, counts: &[10], inserted: &[0], failed, admitted: None };
            ledger.note(&done, &records(10));
            states(&ledger)
        };
        let mut known = vec![(false, vec![0]); 10];
        (known[3], known[7]) = ((true, vec![0]), (true, vec![0]));
        assert_eq!(noted(Some(&set(&[3, 7]))), known);
        assert_eq!(noted(None), vec![(true, vec![0]); 10]);
    }

    #[test]
    fn refused_operations_leave_their_records_as_they_were() {
        let mut ledger = Ledger::default();
        note(&mut ledger, Action::Put(ops(Order::Record)), &[8]);
        let checked = |ledger: &mut Ledger, action: Action, numbers: &[u64], failed: Option<&RecordSet>| {
            let admitted = Some(&set(numbers));
            ledger.note(&Done { action: &action, counts: &[10], inserted: &[0], failed, admitted }, &records(10));
        };
        let none = Some(set(&[]));
        checked(&mut ledger, Action::Update(ops(Order::Uniform)), &[0, 9], none.as_ref());
        checked(&mut ledger, Action::Delete(ops(Order::Shuffled)), &[1], none.as_ref());
        let updated = (false, vec![1]);
        let mut known = vec![(false, vec![0]); 8];
        (known[0], known[1]) = (updated.clone(), (true, vec![]));
        known.extend([(true, vec![]), updated]);
        assert_eq!(states(&ledger), known, "the order says nothing, the refusals all");
        checked(&mut ledger, Action::Update(ops(Order::Uniform)), &[2, 3], Some(&set(&[2, 5])));
        (known[2], known[3]) = ((false, vec![0, 2]), (false, vec![2]));
        assert_eq!(states(&ledger), known, "2 failed, and what failed of 5 was refused too");
        checked(&mut ledger, Action::Delete(ops(Order::Uniform)), &[3], None);
        known[3] = (true, vec![2]);
        assert_eq!(states(&ledger), known, "of those that were not refused some failed");
    }

    #[test]
    fn a_mix_inserts_exactly_its_numbers_and_may_update_any() {
        let mut ledger = Ledger::default();
        note(&mut ledger, Action::Put(ops(Order::Record)), &[10]);
        let weights = MixWeights { insert: 1.0, update: 1.0, ..MixWeights::default() };
        let mix = MixSpec { ops: ops(Order::Zipfian { theta: 0.99 }), weights, scan_length: ScanLength::Fixed(1) };
        let action = Action::Mix(mix);
        let failed = &set(&[]);
        let done = Done { action: &action, counts: &[9, 9], inserted: &[3, 1], failed: Some(failed), admitted: None };
        ledger.note(&done, &records(10));
        let states = states(&ledger);
        assert_eq!(states[..12], vec![(false, vec![0, 1]); 12]);
        assert_eq!(states[12..], [(false, vec![0, 1]), (true, vec![]), (false, vec![0, 1])]);
        assert_eq!((ledger.next_insert(10), ledger.next_version()), (15, 2));
    }
}
