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

    /// The version that the next updating phase writes; 0 is what `put` writes. Behind the last one come the first again: what is stored
    /// already is no update.
    pub(super) fn next_version(&self) -> u32 {
        if self.versions + 2 < VERSIONS { self.versions + 1 } else { 1 }
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
mod tests;
