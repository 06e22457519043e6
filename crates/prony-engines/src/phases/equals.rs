//! Counts the writes of one client that store what the record holds already.

use super::chunk::{Draft, Label};
use super::collections::Collection;
use super::ledger::State;
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
    /// Whether two versions of a record may be the same bytes.
    may_be_alike: bool,
    /// All writes.
    pub(super) writes: u64,
    /// Those that changed nothing.
    pub(super) count: u64,
    /// Those of which it is not known what was stored before.
    pub(super) unsure: u64,
    before: Vec<u8>,
}

impl Equals {
    pub(super) fn new(version: u32, alternates: bool, once: bool, may_be_alike: bool) -> Self {
        let (changed, removed, before) = (RecordSet::default(), RecordSet::default(), Vec::new());
        Self { version, alternates, once, changed, removed, may_be_alike, writes: 0, count: 0, unsure: 0, before }
    }

    /// Notes the next operation, which writes these bytes of a version, if it writes any.
    pub(super) fn note(&mut self, collection: &Collection, draft: Draft, version: u32, value: &[u8]) {
        let number = draft.number;
        match draft.label {
            Label::Delete => {
                self.changed.remove(number);
                self.removed.add(number);
            }
            Label::Put | Label::Update | Label::ReadModifyWrite => {
                self.writes += 1;
                let before = self.stored(collection, number, version);
                match self.is_equal(collection, number, before, (version, value)) {
                    Some(true) => self.count += 1,
                    Some(false) => self.change(number),
                    None => {
                        self.unsure += 1;
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
    fn stored(&self, collection: &Collection, number: u64, version: u32) -> State {
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
        before: State,
        (version, value): (u32, &[u8]),
    ) -> Option<bool> {
        // To generate a value again takes CPU time beside the phase, and would for these engines only.
        let (bytes, may_be_alike) = (&mut self.before, self.may_be_alike);
        let is_same = |stored: &u32| {
            *stored == version
                || may_be_alike && {
                    collection.records.value(number, *stored, bytes);
                    bytes == value
                }
        };
        match before.versions().filter(is_same).count() as u32 {
            0 => Some(false),
            same if same == before.possible() && !before.absent => Some(true),
            _ => None,
        }
    }

    /// With those of another client. Where both have changed a record, the write of the one came after that of the other, whose bytes
    /// are the same.
    pub(super) fn merged(mut self, other: Self) -> Self {
        self.count += other.count + self.changed.common(&other.changed);
        self.changed.merge(&other.changed);
        self.writes += other.writes;
        self.unsure += other.unsure;
        self
    }
}
