//! Counts the writes that store what the record holds already.
//!
//! A phase of several clients writes one version of each record, so that `verify` knows what must be stored whatever their order. Where they
//! come to a record again, its bytes are therefore stored once more as they are, and so are those of a second `put`.
//! Most engines write them all the same. SQLite and libmdbx compare them first and write nothing, no page and no sync: then it is not
//! the cost of a change that is measured. The new bytes are compared with those that the phases before, or earlier operations of the
//! phase, have left, while operations are prepared: outside timed sections, and for these engines only.

use prony_model::protocol::Unchanged;
use prony_model::spec::{Action, Amount};

use super::chunk::{Draft, Label};
use super::collections::Collection;
use super::ledger::State;
use super::operate::Job;
use super::record_set::RecordSet;

/// Counts those of one client.
#[derive(Debug)]
pub(super) struct Equals {
    /// The first version that updates of the phase write; 0 of a `put`.
    version: u32,
    /// Updates that come to a record again write another version.
    alternates: bool,
    /// The client comes to no record twice, so that nothing of what it wrote needs to be known.
    once: bool,
    /// The records that the client has changed, and those that it has removed since.
    changed: RecordSet,
    removed: RecordSet,
    /// Writes that changed nothing.
    count: u64,
    /// Of some write it is not known what was stored before.
    is_unsure: bool,
    before: Vec<u8>,
}

impl Equals {
    /// Notes the next operation, which writes these bytes of a version, if it writes any.
    pub(super) fn note(&mut self, collection: &Collection, draft: Draft, version: u32, value: &[u8]) {
        let number = draft.number;
        match draft.label {
            Label::Delete => {
                self.changed.remove(number);
                self.removed.add(number);
            }
            Label::Put | Label::Update | Label::ReadModifyWrite => {
                let before = self.held(collection, number, version);
                match self.is_equal(collection, number, before, (version, value)) {
                    Some(true) => self.count += 1,
                    Some(false) => self.change(number),
                    None => {
                        self.is_unsure = true;
                        self.change(number);
                    }
                }
            }
            _ => {}
        }
    }

    fn change(&mut self, number: u64) {
        if !self.once {
            self.changed.add(number);
            self.removed.remove(number);
        }
    }

    /// What a record holds before the next version is written.
    fn held(&self, collection: &Collection, number: u64, version: u32) -> State {
        let records = collection.records.count();
        if self.removed.contains(number) {
            State::ABSENT
        } else if self.changed.contains(number) {
            State::present(if self.alternates { 2 * self.version + 1 - version } else { version })
        } else if number >= collection.ledger.next_insert(records) {
            // A mix has inserted it.
            State::present(0)
        } else {
            collection.ledger.state(number, records)
        }
    }

    /// Whether these bytes are stored already; `None` where it is not known.
    fn is_equal(
        &mut self,
        collection: &Collection,
        number: u64,
        held: State,
        (version, value): (u32, &[u8]),
    ) -> Option<bool> {
        let before = &mut self.before;
        let is_same = |held: &u32| {
            *held == version || {
                collection.records.value(number, *held, before);
                before == value
            }
        };
        match held.versions().filter(is_same).count() as u32 {
            0 => Some(false),
            same if same == held.possible() && !held.absent => Some(true),
            _ => None,
        }
    }

    /// Adds those of another client. Where both have changed a record, the write of the one came after that of the other, whose bytes
    /// are the same.
    pub(super) fn merge(&mut self, other: &Self) {
        self.count += other.count + self.changed.common(&other.changed);
        self.changed.merge(&other.changed);
        self.is_unsure |= other.is_unsure;
    }
}

impl Job<'_> {
    /// Counts a client's writes of what is stored already, where the engine does not write these.
    pub(super) fn equals(&self) -> Option<Equals> {
        let version = match self.action {
            Action::Put(_) => 0,
            _ if self.renews() => self.collection.ledger.next_version(),
            _ => return None,
        };
        let one_pass = match self.ops.amount {
            Amount::Records => true,
            Amount::Count(count) => count <= self.collection.records.count(),
            Amount::Duration(_) | Amount::Background => false,
        };
        let once = self.visits_each() && one_pass;
        let (changed, removed, before) = (RecordSet::default(), RecordSet::default(), Vec::new());
        let alternates = self.alternates();
        let none = Equals { version, alternates, once, changed, removed, count: 0, is_unsure: false, before };
        self.capabilities.skips_equal.then_some(none)
    }

    /// How many operations stored what their records held already, of a phase of which so many failed or were refused.
    pub(super) fn unchanged(&self, equals: &Equals, failed: u64, refused: u64) -> Unchanged {
        let clients = self.part(0).of;
        let races = clients > 1 && matches!(self.action, Action::Mix(mix) if mix.weights.delete > 0.0);
        let why = if equals.is_unsure {
            "what was stored before is not known exactly"
        } else if equals.count == 0 {
            return Unchanged::Known(0);
        } else if failed > 0 {
            "some operations failed"
        } else if refused > 0 {
            "references refused some operations"
        } else if races {
            "it is not known which of several clients was the first to update or to remove a record"
        } else {
            return Unchanged::Known(equals.count);
        };
        Unchanged::NotKnown(why.to_owned())
    }
}
