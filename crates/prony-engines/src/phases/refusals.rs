//! Checks the refused operations of phases against the references: computes which operations these require to be refused.
//!
//! It reads nothing of the store: which records an operation works on, and to which others their documents refer, follows from
//! the numbers of the records and the seed, and what was stored before a phase from the ledger.

use prony_model::number::count;
use prony_workload::{Positions, Share};

use super::collections::{Collection, Collections};
use super::guarded::Guarded;
use super::record_set::RecordSet;
use super::stop::Stop;
use crate::answers::Reads;

/// Why it is not known which operations the references require to be refused.
type Unknown = &'static str;

const UNSURE: Unknown = "what was stored before is not known exactly";

/// Checks each phase that checked references. Returns a note on each that was not checked against them.
///
/// # Errors
/// Other operations were refused.
pub(super) fn check(collections: &Collections) -> Result<Vec<String>, Stop> {
    let mut notes = Vec::new();
    for guarded in &collections.guarded {
        if let Err(why) = guarded.check(collections)? {
            let phase = &guarded.phase;
            notes.push(format!("the refused operations of `{phase}` were not checked against the references: {why}"));
        }
    }
    Ok(notes)
}

impl Guarded {
    fn check(&self, collections: &Collections) -> Result<Result<(), Unknown>, Stop> {
        let (wanted, done, admitted) = match self.expected(collections) {
            Ok(expected) => expected,
            Err(unknown) => return Ok(Err(unknown)),
        };
        let differs = done.first_difference(admitted);
        if (wanted.refused, wanted.digest) == self.refused && differs.is_none() {
            return Ok(Ok(()));
        }
        let first = differs.map(|number| format!("; the first difference is at record {number}")).unwrap_or_default();
        let refused =
            if self.refused.0 == wanted.refused { "different ones".to_owned() } else { self.refused.0.to_string() };
        Err(Stop::WrongAnswer(format!(
            "`{}`: the references require {} to be refused, but the engine refused {refused}{first}",
            self.phase,
            count(wanted.refused, "operation")
        )))
    }

    /// What had to be refused, the records of operations that had not, and those of operations that were not.
    fn expected<'c>(&self, collections: &'c Collections) -> Result<(Reads, RecordSet, &'c RecordSet), Unknown> {
        let own = &collections.all[self.collection];
        let layer = own.ledger.admitted(self.before[self.collection]);
        let (version, admitted, failed) = layer.ok_or("the records of the phase are not known")?;
        if failed {
            return Err("some operations failed");
        }
        if !self.is_only_writer {
            return Err("something else was written meanwhile");
        }
        let refers_to_itself = own.references.iter().any(|reference| reference.to == self.collection);
        if self.counts.len() > 1 && refers_to_itself {
            return Err("the order of several threads is not known, and documents refer to their own collection");
        }
        let mut rule = if self.deletes {
            Rule::Delete(Referrers::before(self, collections, refers_to_itself)?)
        } else {
            Rule::Store(Stored::before(self, collections, version)?)
        };
        let (mut wanted, mut done) = (Reads::default(), RecordSet::none_of(own.records.count()));
        let of = self.counts.len() as u32;
        for (operations, index) in self.counts.iter().zip(0..) {
            let mut numbers = Positions::new(&self.ops.order, &own.records, self.seed, Share::new(index, of));
            for _ in 0..*operations {
                let number = numbers.next();
                let admits = match &mut rule {
                    Rule::Store(stored) => stored.admits(number),
                    Rule::Delete(referrers) => referrers.admits(number)?,
                };
                match admits {
                    true => done.add(number),
                    false => wanted.refuse(number),
                }
            }
        }
        Ok((wanted, done, admitted))
    }
}

enum Rule<'c> {
    Store(Stored<'c>),
    Delete(Referrers<'c>),
}

/// Which records are stored, of the collections to which the documents of one refer.
struct Stored<'c> {
    own: &'c Collection,
    version: u32,
    /// With the names of these collections, and whether each is that of the documents.
    of: Vec<(&'c str, bool, RecordSet)>,
}

impl<'c> Stored<'c> {
    fn before(guarded: &Guarded, collections: &'c Collections, version: u32) -> Result<Self, Unknown> {
        let own = &collections.all[guarded.collection];
        let mut to: Vec<usize> = own.references.iter().map(|reference| reference.to).collect();
        to.sort_unstable();
        to.dedup();
        let mut of = Vec::new();
        for at in to {
            let Collection { name, records, ledger, .. } = &collections.all[at];
            let mut stored = RecordSet::none_of(records.count());
            for number in 0..records.count() {
                let state = ledger.state_after(guarded.before[at], number, records.count());
                match (state.absent, state.possible()) {
                    (false, _) => stored.add(number),
                    (true, 0) => {}
                    _ => return Err(UNSURE),
                }
            }
            of.push((name.as_deref().unwrap_or_default(), at == guarded.collection, stored));
        }
        Ok(Self { own, version, of })
    }

    fn admits(&mut self, number: u64) -> bool {
        let (of, mut admits) = (&mut self.of, true);
        self.own.records.references(number, self.version, |name, to| {
            admits &= of.iter().any(|(collection, _, stored)| *collection == name && stored.contains(to));
        });
        if admits {
            of.iter_mut().filter(|(_, is_own, _)| *is_own).for_each(|(.., stored)| stored.add(number));
        }
        admits
    }
}

/// How many references of stored documents lead to each record of a collection.
struct Referrers<'c> {
    own: &'c Collection,
    layers: usize,
    counts: Vec<u32>,
    /// Documents refer to others of their collection: those that were removed refer to nothing.
    removed: Option<RecordSet>,
}

impl<'c> Referrers<'c> {
    fn before(guarded: &Guarded, collections: &'c Collections, of_itself: bool) -> Result<Self, Unknown> {
        let own = &collections.all[guarded.collection];
        let records = usize::try_from(own.records.count()).map_err(|_| "there are too many records")?;
        let mut counts = vec![0u32; records];
        for (from, layers) in collections.all.iter().zip(&guarded.before) {
            if from.references.iter().all(|reference| reference.to != guarded.collection) {
                continue;
            }
            for number in 0..from.end() {
                add(from, *layers, number, own, |to| counts[to] += 1)?;
            }
        }
        let layers = guarded.before[guarded.collection];
        Ok(Self { own, layers, counts, removed: of_itself.then(RecordSet::default) })
    }

    fn admits(&mut self, number: u64) -> Result<bool, Unknown> {
        if self.counts[number as usize] > 0 {
            return Ok(false);
        }
        if let Some(removed) = self.removed.as_mut().filter(|removed| !removed.contains(number)) {
            removed.add(number);
            add(self.own, self.layers, number, self.own, |to| self.counts[to] -= 1)?;
        }
        Ok(true)
    }
}

/// Hands the references of a record of `from`, as it was stored, to records of another collection to `each`.
fn add(
    from: &Collection,
    layers: usize,
    number: u64,
    to: &Collection,
    mut each: impl FnMut(usize),
) -> Result<(), Unknown> {
    let state = from.ledger.state_after(layers, number, from.records.count());
    if !state.is_certain() {
        return Err(UNSURE);
    }
    if let Some(version) = state.versions().next() {
        from.records.references(number, version, |name, number| {
            if to.name.as_deref() == Some(name) {
                each(number as usize);
            }
        });
    }
    Ok(())
}
