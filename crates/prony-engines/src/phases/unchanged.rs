//! Counts the writes that store what the record holds already.
//!
//! A phase of several clients writes one version of each record, so that `verify` knows what must be stored whatever their order. Where they
//! come to a record again, its bytes are therefore stored once more as they are, and so are those of a second `put`.
//! Most engines write them all the same. SQLite and libmdbx compare them first and write nothing, no page and no sync: then it is not
//! the cost of a change that is measured.

use prony_model::spec::Action;

use super::client::Updates;
use super::operate::Job;

/// Records that are compared to find that an update changes no record: some documents may lack the fields that change.
const COMPARED: u64 = 8;

impl Job<'_> {
    /// How many of so many operations, on so many distinct records, stored what their records held already; `None` where the engine
    /// writes these like any others.
    pub(super) fn unchanged(&self, operations: u64, distinct: Option<u64>, updates: Option<&Updates>) -> Option<u64> {
        if !self.capabilities.skips_equal {
            return None;
        }
        let same = match self.action {
            Action::Put(_) => self.collection.ledger.is_as_put(),
            _ => self.updates_change_nothing(),
        };
        let (writes, distinct) = match self.action {
            Action::Put(_) | Action::Update(_) => (operations, distinct?),
            Action::Mix(_) => updates.map(Updates::counts)?,
            _ => return None,
        };
        let again = if self.alternates() { 0 } else { writes.saturating_sub(distinct) };
        Some(if same { writes } else { again })
    }

    /// Whether two versions of a record are the same bytes, as of documents without random fields.
    fn updates_change_nothing(&self) -> bool {
        let (records, version) = (&self.collection.records, self.collection.ledger.next_version());
        let (mut before, mut after) = (Vec::new(), Vec::new());
        (0..records.count().min(COMPARED)).all(|number| {
            records.value(number, version - 1, &mut before);
            records.value(number, version, &mut after);
            before == after
        })
    }
}
