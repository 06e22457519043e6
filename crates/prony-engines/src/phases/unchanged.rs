//! Counts the writes that store what the record holds already.
//!
//! A phase of several clients writes one version of each record, so that `verify` knows what must be stored whatever their order. Where they
//! come to a record again, its bytes are therefore stored once more as they are, and so are those of a second `put`.
//! Most engines write them all the same. SQLite and libmdbx compare them first and write nothing, no page and no sync: then it is not
//! the cost of a change that is measured. The new bytes are compared with those that the phases before, or earlier operations of the
//! phase, have left, while operations are prepared: outside timed sections, and for these engines only.

use prony_model::protocol::Unchanged;
use prony_model::spec::{Action, Amount};

use super::equals::Equals;
use super::operate::Job;

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
        self.capabilities.skips_equal.then(|| Equals::new(version, self.alternates(), once))
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
