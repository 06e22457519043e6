//! Computes which records the store must contain after the phases so far: as exactly as the operations allow. A phase
//! that changed each record, or the first ones, takes constant memory; any other one a bit for each record, once a `verify` phase
//! has drawn its operations again.

use prony_model::spec::{Action, MixSpec, Order};
use prony_workload::{Records, Share};

use super::record_set::RecordSet;
use super::touched::{Drawn, Left};

/// Versions distinguished. Each updating phase uses up two, also where it writes one: what later phases write must not depend on that.
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
    pub(super) const ABSENT: Self = Self { absent: true, versions: 0 };

    pub(super) fn present(version: u32) -> Self {
        Self { absent: false, versions: 1 << version }
    }

    /// One of the two that updates of a phase write in turn, where they do.
    fn either(version: u32, alternates: bool) -> Self {
        if alternates { Self::present(version).or(Self::present(version + 1)) } else { Self::present(version) }
    }

    fn or(self, other: Self) -> Self {
        Self { absent: self.absent || other.absent, versions: self.versions | other.versions }
    }

    /// Versions that it may hold.
    pub(super) fn versions(self) -> impl Iterator<Item = u32> {
        let mut left = self.versions;
        std::iter::from_fn(move || {
            let next = (left != 0).then(|| left.trailing_zeros())?;
            left &= left - 1;
            Some(next)
        })
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
    /// Those that were drawn.
    Drawn(Left),
    /// The same, before they are drawn again.
    Later(Order, Drawn),
}

impl Touched {
    fn new(done: &Done<'_>, records: u64) -> Self {
        let order = done.action.ops().map_or(Order::Uniform, |ops| ops.order);
        if let Some(admitted) = done.admitted {
            return Self::Admitted(admitted.clone());
        }
        let counts = done.counts;
        let of = counts.len() as u32;
        let share = |index: usize| Share::new(index as u32, of).count(records);
        let repeats = done.alternates && counts.iter().enumerate().any(|(client, count)| *count > share(client));
        let visits_each = matches!(order, Order::Record | Order::Key | Order::Shuffled) && !repeats;
        if visits_each && counts.iter().enumerate().all(|(client, count)| *count >= share(client)) {
            Self::All
        } else if matches!(order, Order::Record) && !repeats {
            Self::Stripes(counts.to_vec())
        } else {
            Self::Later(order, done.drawn())
        }
    }

    fn draw_again(&mut self, records: &Records) {
        if let Self::Later(order, drawn) = self {
            *self = Self::Drawn(drawn.touched(order, records));
        }
    }

    /// `None` before the records are drawn again.
    fn contains(&self, number: u64) -> Option<bool> {
        match self {
            Self::All => Some(true),
            Self::Stripes(counts) => {
                let of = counts.len() as u64;
                Some(number / of < counts[(number % of) as usize])
            }
            Self::Admitted(records) => Some(records.contains(number)),
            Self::Drawn(left) => Some(left.updated.contains(number)),
            Self::Later(..) => None,
        }
    }

    /// What an update of the phase leaves, whose first one of a record writes this version.
    fn updated(&self, version: u32, number: u64) -> State {
        match self {
            Self::Drawn(left) => State::present(left.last_version(version, number)),
            Self::Later(_, drawn) => State::either(version, drawn.alternates),
            Self::All | Self::Stripes(_) | Self::Admitted(_) => State::present(version),
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
    /// The state after it; `updated` is that after an update whose first one of a record writes this version.
    fn apply(self, before: State, updated: impl FnOnce(u32) -> State) -> State {
        match self {
            Self::Put => State::present(0),
            Self::Update(version) => updated(version),
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

/// The records that a mix has updated or removed.
#[derive(Clone, Debug, PartialEq)]
enum Mixed {
    Known(Left),
    /// The same, before its operations are drawn again.
    Later(Box<MixSpec>, Drawn),
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
        mixed: Mixed,
        failed: Failed,
    },
}

impl Layer {
    fn apply(&self, number: u64, records: u64, before: State) -> State {
        match self {
            Self::Plain { .. } if number >= records => before,
            Self::Plain { change, touched, failed } => match touched.contains(number) {
                Some(true) if !failed.may_be(number) => {
                    change.apply(before, |version| touched.updated(version, number))
                }
                Some(false) => before,
                _ => before.or(change.apply(before, |version| State::either(version, self.alternates()))),
            },
            Self::Mix { version, deletes, first, inserted, mixed, failed } => {
                let of = inserted.len() as u64;
                let place = number.checked_sub(*first).filter(|p| p / of < inserted[(p % of) as usize]);
                let after = if place.is_some() { State::present(0) } else { before };
                // A mix touches the records of the start and what it has inserted itself.
                if number >= records && place.is_none() {
                    return after;
                }
                let updated = version.map(|version| State::either(version, self.alternates()));
                let removed = deletes.then_some(State::ABSENT);
                let changes = match mixed {
                    Mixed::Known(left) if !failed.may_be(number) => {
                        let last = version.map(|version| State::present(left.last_version(version, number)));
                        let updated = last.filter(|_| left.updated.contains(number));
                        let removed = removed.filter(|_| left.removed.contains(number));
                        return [updated, removed].into_iter().flatten().reduce(State::or).unwrap_or(after);
                    }
                    _ => [updated, removed],
                };
                let after = if failed.may_be(number) { before.or(after) } else { after };
                changes.into_iter().flatten().fold(after, State::or)
            }
        }
    }

    /// Whether its updates write two versions in turn.
    fn alternates(&self) -> bool {
        match self {
            Self::Plain { touched: Touched::Later(_, drawn), .. } | Self::Mix { mixed: Mixed::Later(_, drawn), .. } => {
                drawn.alternates
            }
            Self::Plain { touched: Touched::Drawn(left), .. } | Self::Mix { mixed: Mixed::Known(left), .. } => {
                left.alternates()
            }
            Self::Plain { .. } => false,
        }
    }

    fn draw_again(&mut self, records: &Records) {
        match self {
            Self::Plain { touched, .. } => touched.draw_again(records),
            Self::Mix { mixed, first, .. } => {
                if let Mixed::Later(mix, drawn) = mixed {
                    *mixed = Mixed::Known(drawn.left_by(mix, *first, records));
                }
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
    /// Seeds the order of its operations.
    pub(super) seed: u64,
    /// Operations of each client.
    pub(super) counts: &'a [u64],
    /// Inserts of each client.
    pub(super) inserted: &'a [u64],
    /// The records of operations that failed; `None` where it is not known which.
    pub(super) failed: Option<&'a RecordSet>,
    /// Where references were checked: the records of which an operation was not refused.
    pub(super) admitted: Option<&'a RecordSet>,
    /// Updates that come to a record again write another version.
    pub(super) alternates: bool,
}

impl Done<'_> {
    fn drawn(&self) -> Drawn {
        Drawn { seed: self.seed, counts: self.counts.to_vec(), alternates: self.alternates }
    }
}

impl Ledger {
    /// Whether nothing was written.
    pub(super) fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }

    /// The version that the next updating phase writes; 0 is what `put` writes.
    pub(super) fn next_version(&self) -> u32 {
        (self.versions + 1).min(VERSIONS - 2)
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
            Action::Mix(mix) => return self.note_mix(done, mix, records),
            _ => return,
        };
        if matches!(change, Change::Update(_)) {
            self.versions = version + 1;
        }
        let (touched, failed) = (Touched::new(done, records), Failed(done.failed.cloned()));
        self.layers.push(Layer::Plain { change, touched, failed });
    }

    fn note_mix(&mut self, done: &Done<'_>, mix: &MixSpec, records: u64) {
        let weights = &mix.weights;
        let updates = weights.update > 0.0 || weights.read_modify_write > 0.0;
        let version = updates.then_some(self.next_version());
        self.versions = version.map_or(self.versions, |version| version + 1);
        let first = self.next_insert(records);
        let of = done.inserted.len() as u64;
        let ends = done.inserted.iter().zip(0..).filter(|(n, _)| **n > 0).map(|(n, client)| (n - 1) * of + client + 1);
        self.next_insert = Some(first + ends.max().unwrap_or(0));
        let (inserted, failed) = (done.inserted.to_vec(), Failed(done.failed.cloned()));
        let mixed = Mixed::Later(Box::new(mix.clone()), done.drawn());
        self.layers.push(Layer::Mix { version, deletes: weights.delete > 0.0, first, inserted, mixed, failed });
    }

    /// Draws the operations of phases again that changed neither each record nor the first ones, so that [`Self::state`] is exact.
    pub(super) fn draw_again(&mut self, records: &Records) {
        self.layers.iter_mut().for_each(|layer| layer.draw_again(records));
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
    use prony_model::spec::{MixWeights, ScanLength};
    use prony_workload::{Mix, Operation};

    use super::*;
    use crate::phases::tests::fake::{ops, records};

    fn note(ledger: &mut Ledger, action: Action, counts: &[u64]) {
        let inserted = &vec![0; counts.len()];
        let failed = Some(&RecordSet::default());
        ledger.note(
            &Done { action: &action, seed: 3, counts, inserted, failed, admitted: None, alternates: false },
            &records(10),
        );
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
        assert_eq!(states[0], (false, vec![3]));
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

    /// The first numbers of each client of a phase, in an order.
    fn drawn(order: &Order, counts: &[u64]) -> Vec<u64> {
        let clients = counts.iter().zip(0..).flat_map(|(count, index)| {
            let share = Share::new(index, counts.len() as u32);
            let mut numbers = prony_workload::Positions::new(order, &records(10), 3, share);
            (0..*count).map(move |_| numbers.next())
        });
        let mut all: Vec<u64> = clients.collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// A part of a shuffled pass was any part of it, so that a store without a single row was right after a `delete` of some.
    #[test]
    fn records_of_a_part_of_a_pass_or_of_random_draws_are_drawn_again() {
        for (order, counts) in [
            (Order::Shuffled, &[3][..]),
            (Order::Shuffled, &[2, 1, 2]),
            (Order::Key, &[1, 3]),
            (Order::Uniform, &[4]),
            (Order::Uniform, &[40, 30]),
            (Order::Zipfian { theta: 0.99 }, &[2, 5]),
        ] {
            let mut ledger = Ledger::default();
            note(&mut ledger, Action::Put(ops(Order::Record)), &[10]);
            note(&mut ledger, Action::Update(ops(order)), counts);
            assert_eq!(states(&ledger), vec![(false, vec![0, 1]); 10], "not before it is needed");
            note(&mut ledger, Action::Delete(ops(order)), counts);
            ledger.draw_again(&records(10));
            let touched = drawn(&order, counts);
            let of = |number| if touched.contains(&number) { (true, vec![]) } else { (false, vec![0]) };
            assert_eq!(states(&ledger), (0..10).map(of).collect::<Vec<_>>(), "{order:?} {counts:?}");
            note(&mut ledger, Action::Compute(ops(Order::Shuffled)), &[10]);
            assert_eq!(states(&ledger), vec![(false, vec![0]); 10]);
        }
    }

    #[test]
    fn failed_operations_make_their_records_doubtful_or_all_where_they_are_not_known() {
        let action = Action::Put(ops(Order::Record));
        let noted = |failed: Option<&RecordSet>| {
            let mut ledger = Ledger::default();
            let done = Done {
                action: &action,
                seed: 3,
                counts: &[10],
                inserted: &[0],
                failed,
                admitted: None,
                alternates: false,
            };
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
            let done =
                Done { action: &action, seed: 3, counts: &[10], inserted: &[0], failed, admitted, alternates: false };
            ledger.note(&done, &records(10));
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
        (known[2], known[3]) = ((false, vec![0, 3]), (false, vec![3]));
        assert_eq!(states(&ledger), known, "2 failed, and what failed of 5 was refused too");
        checked(&mut ledger, Action::Delete(ops(Order::Uniform)), &[3], None);
        known[3] = (true, vec![3]);
        assert_eq!(states(&ledger), known, "of those that were not refused some failed");
    }

    /// Updates that came to a record again wrote the same bytes, for which some engines write nothing.
    #[test]
    fn updates_of_one_client_write_two_versions_in_turn() {
        for (order, count) in [(Order::Uniform, 40), (Order::Shuffled, 25), (Order::Record, 13)] {
            let mut ledger = Ledger::default();
            note(&mut ledger, Action::Put(ops(Order::Record)), &[10]);
            let action = Action::Update(ops(order));
            let (failed, counts) = (Some(&set(&[4])), &[count][..]);
            let done =
                Done { action: &action, seed: 3, counts, inserted: &[0], failed, admitted: None, alternates: true };
            ledger.note(&done, &records(10));
            assert_eq!(ledger.next_version(), 3);
            assert_eq!(states(&ledger), vec![(false, vec![0, 1, 2]); 10], "not before it is needed");
            ledger.draw_again(&records(10));
            let mut numbers = prony_workload::Positions::new(&order, &records(10), 3, Share::new(0, 1));
            let all: Vec<u64> = (0..count).map(|_| numbers.next()).collect();
            let of = |number| match all.iter().filter(|one| **one == number).count() {
                _ if number == 4 => vec![0, 1, 2],
                0 => vec![0],
                times => vec![2 - times as u32 % 2],
            };
            assert_eq!(states(&ledger), (0..10).map(|n| (false, of(n))).collect::<Vec<_>>(), "{order:?}");
        }
    }

    /// Of two variants the one checked references, so that its updates wrote one version, and the other did not: both were right, and
    /// their answers differed after a second pass.
    #[test]
    fn updates_use_up_as_many_versions_whether_they_write_two_in_turn_or_one() {
        let passes = |alternates| {
            let mut ledger = Ledger::default();
            note(&mut ledger, Action::Put(ops(Order::Record)), &[10]);
            for order in [Order::Record, Order::Shuffled] {
                let action = Action::Update(ops(order));
                let (failed, counts) = (Some(&set(&[])), &[10][..]);
                let done =
                    Done { action: &action, seed: 3, counts, inserted: &[0], failed, admitted: None, alternates };
                ledger.note(&done, &records(10));
            }
            (states(&ledger), ledger.next_version())
        };
        assert_eq!(passes(true), passes(false));
    }

    /// Notes a mix of two clients behind a pass that stored ten records; its operations, by client.
    fn mixed(ledger: &mut Ledger, weights: MixWeights, failed: Option<&RecordSet>) -> [Vec<Operation>; 2] {
        note(ledger, Action::Put(ops(Order::Record)), &[10]);
        let mix = MixSpec { ops: ops(Order::Zipfian { theta: 0.99 }), weights, scan_length: ScanLength::Fixed(1) };
        let operations = [0, 1].map(|index| {
            let mut mix = Mix::new(&mix, &records(10), 3, Share::new(index, 2));
            (0..20).map(|_| mix.next()).collect::<Vec<_>>()
        });
        let inserts = |of: &Vec<Operation>| {
            of.iter().filter(|operation| matches!(operation, Operation::Insert(_))).count() as u64
        };
        let inserted = operations.each_ref().map(inserts);
        let action = Action::Mix(mix);
        let done = Done {
            action: &action,
            seed: 3,
            counts: &[20, 20],
            inserted: &inserted,
            failed,
            admitted: None,
            alternates: false,
        };
        ledger.note(&done, &records(10));
        operations
    }

    #[test]
    fn a_mix_inserts_and_updates_exactly_its_numbers() {
        let weights = MixWeights { insert: 1.0, update: 1.0, read: 1.0, ..MixWeights::default() };
        let mut ledger = Ledger::default();
        let operations = mixed(&mut ledger, weights, Some(&set(&[])));
        assert!(states(&ledger)[..10].iter().all(|state| *state == (false, vec![0, 1])), "not before it is needed");
        ledger.draw_again(&records(10));
        let all = || operations.iter().flatten();
        let of = |number| match (all().any(|o| *o == Operation::Update(number)), number) {
            (true, _) => (false, vec![1]),
            (false, 10..) if !all().any(|o| *o == Operation::Insert(number)) => (true, vec![]),
            _ => (false, vec![0]),
        };
        let wanted: Vec<_> = (0..ledger.end(10)).map(of).collect();
        assert!(wanted.contains(&(false, vec![1])) && wanted.contains(&(false, vec![0])) && wanted.len() > 10);
        assert_eq!(states(&ledger), wanted);
        assert_eq!(ledger.next_version(), 3);
    }

    #[test]
    fn the_last_change_of_a_client_counts_and_that_of_any_of_several() {
        let weights = MixWeights { update: 1.0, delete: 1.0, ..MixWeights::default() };
        let mut ledger = Ledger::default();
        let operations = mixed(&mut ledger, weights, Some(&set(&[7])));
        ledger.draw_again(&records(10));
        let last = |client: &[Operation], number| {
            let mut own = client.iter().rev().map(|o| match o {
                Operation::Update(n) => (*n, false),
                Operation::Delete(n) => (*n, true),
                other => panic!("{other:?}"),
            });
            own.find_map(|(n, removes)| (n == number).then_some(removes))
        };
        let mut several = 0;
        for (number, state) in (0..10).zip(states(&ledger)) {
            let ends: Vec<bool> = operations.iter().filter_map(|client| last(client, number)).collect();
            several += usize::from(ends.contains(&true) && ends.contains(&false));
            let mut wanted = (ends.contains(&true), if ends.contains(&false) { vec![1] } else { vec![] });
            match (ends.is_empty(), number) {
                (_, 7) => wanted = (true, vec![0, 1]),
                (true, _) => wanted = (false, vec![0]),
                _ => {}
            }
            assert_eq!(state, wanted, "record {number}");
        }
        assert!(several > 0, "else nothing is shown: {operations:?}");
    }
}
