//! Counts the writes that store what the record holds already.
//!
//! A phase of several clients writes one version of each record, so that `verify` knows what must be stored whatever their order. Where they
//! come to a record again, its bytes are therefore stored once more as they are, and so are those of a second `put`.
//! Most engines write them all the same. SQLite and libmdbx compare them first and write nothing, no page and no sync: then it is not
//! the cost of a change that is measured. The version that is written is compared with the one that the phases before, or earlier
//! operations of the phase, have left, while operations are prepared: outside timed sections, and for these engines only. Where versions
//! may be the same bytes, as documents with few random fields are, their bytes are.

use prony_model::protocol::Unchanged;
use prony_model::spec::{Action, Amount};

use super::equals::Equals;
use super::operate::Job;

/// Records whose versions are compared before a phase.
const SAMPLE: u64 = 64;

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
        let new = || Equals::new(version, self.alternates(), once, self.may_be_alike());
        self.capabilities.skips_equal.then(new)
    }

    /// Whether two versions of a record may be the same bytes, by a sample of the records.
    fn may_be_alike(&self) -> bool {
        let records = &self.collection.records;
        let step = (records.count() / SAMPLE).max(1);
        let (mut first, mut second) = (Vec::new(), Vec::new());
        let mut sample = (0..records.count()).step_by(step.try_into().unwrap_or(usize::MAX)).take(SAMPLE as usize);
        sample.any(|number| {
            records.value(number, 0, &mut first);
            records.value(number, 1, &mut second);
            first == second
        })
    }

    /// How many operations stored what their records held already, of a phase of so many operations, of which so many failed or
    /// were refused.
    pub(super) fn unchanged(&self, equals: &Equals, operations: u64, (failed, refused): (u64, u64)) -> Unchanged {
        let clients = self.part(0).of;
        let races = clients > 1 && matches!(self.action, Action::Mix(mix) if mix.weights.delete > 0.0);
        // What is a small share at most need not be known exactly.
        let rest = if races && equals.count > 0 { equals.writes } else { equals.count + equals.unsure };
        let most = rest + failed + refused;
        if most.saturating_mul(100) < operations {
            return Unchanged::Known(most);
        }
        let why = if equals.unsure > 0 {
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
