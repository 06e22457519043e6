//! Reads everything back and compares it with the generator's records, as exactly as the ledger allows.
//!
//! Where only one content is possible, one pass over the store in key order is compared with one pass over the
//! generator by a digest of all bytes, so that a store larger than memory is read once and in order. Where several
//! contents are possible, or the digests differ and the culprit must be named, every record is read by its key.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use prony_model::number::count;
use prony_model::protocol::{PhaseReport, Verified};
use prony_model::record::Answer;
use prony_workload::Digest;

use super::collections::{Collection, Collections};
use super::dangling;
use super::ledger::State;
use super::refusals;
use super::stop::Stop;
use crate::answers::hash_key;
use crate::documents::Indexes;
use crate::driver::{EngineError, FIRST_KEY, Read, Then};

/// Keys whose hashes are in memory at a time while an extra row is searched for.
const KEYS_IN_MEMORY: u64 = 500_000;

/// Records between two reports of progress.
const STRIDE: u64 = 4096;

/// Compares what `txn` reads with what the phases so far must have left, whose operations were drawn again before.
pub(super) fn verify<R: Read>(
    txn: &mut R,
    collections: &Collections,
    ordered: bool,
    progress: &AtomicU64,
) -> Result<PhaseReport, Stop> {
    let all = collections.all.as_slice();
    if all.is_empty() {
        return Err(Stop::NoData);
    }
    let (mut verified, mut digest, mut before) = (Verified::default(), Digest::new(), 0u64);
    for (collection, number) in all.iter().zip(0..) {
        let (found, own) = one(txn, collection, ordered, (progress, before))?;
        verified.add(found);
        digest.merge(&own.numbered(number));
        before = collection.end().saturating_add(before);
    }
    if ordered {
        nothing_beside(txn, all)?;
    }
    let dangling = dangling::check(txn, collections, ordered)?;
    let refusals = refusals::check(collections)?;
    let verified = Verified { extra_rows: ordered, ..verified };
    // Another variant may rightly have stored another of several possible versions.
    let comparable = verified.one_of_several + verified.may_be_absent == 0;
    let answer = Answer { rows: Some(digest.rows()), digest: format!("bytes:{}", digest.hex()), comparable };
    Ok(PhaseReport {
        operations: before,
        rows: Some(digest.rows()),
        answer: Some(answer),
        verified: Some(verified),
        notes: note(verified).into_iter().chain(refusals).collect(),
        dangling,
        ..PhaseReport::default()
    })
}

/// The same of one collection; `progress` is a counter of records, with those of the collections before.
fn one<R: Read>(
    txn: &mut R,
    collection: &Collection,
    ordered: bool,
    progress: (&AtomicU64, u64),
) -> Result<(Verified, Digest), Stop> {
    let mut check = Check { collection, progress, key: Vec::new(), value: Vec::new(), found: Vec::new() };
    let certain = if ordered { check.certain_digest() } else { None };
    let scanned = if ordered { Some(check.scan(txn)?) } else { None };
    let (verified, digest) = match (certain, scanned) {
        (Some((verified, expected)), Some(stored)) if expected == stored => (verified, stored),
        _ => check.by_key(txn)?,
    };
    if scanned.is_some_and(|stored| stored != digest) {
        return Err(check.extra_row(txn)?);
    }
    if let Some(indexes) = &collection.indexes {
        entries_match(txn, indexes)?;
    }
    Ok((verified, digest))
}

/// Keys below or above those of all collections belong to nothing.
fn nothing_beside<R: Read>(txn: &mut R, collections: &[Collection]) -> Result<(), Stop> {
    let Some(last) = collections.iter().filter_map(|collection| collection.space.byte()).max() else { return Ok(()) };
    let mut beside = None;
    for (from, known) in [(FIRST_KEY, 1..=last), (&[last + 1][..], 0..=last)] {
        txn.scan(from, |key, _| {
            if !key.first().is_some_and(|byte| known.contains(byte)) {
                beside.get_or_insert_with(|| key.to_vec());
            }
            Then::Break(())
        })?;
    }
    beside.map_or(Ok(()), |key| Err(Stop::WrongAnswer(never_written(&key))))
}

fn never_written(key: &[u8]) -> String {
    format!("key `{}` is stored, but was never written", key.escape_ascii())
}

fn note(verified: Verified) -> Vec<String> {
    let mut notes = Vec::new();
    if verified.one_of_several > 0 {
        let text = "had one of several versions that failed or concurrent writes may have left";
        notes.push(format!("{} {text}", count(verified.one_of_several, "record")));
    }
    if verified.may_be_absent > 0 {
        let text = "may be present or absent after failed or concurrent writes";
        notes.push(format!("{} {text}", count(verified.may_be_absent, "record")));
    }
    if !verified.extra_rows {
        notes.push(
            "the engine cannot list its rows, so rows that were never written would not have been found".to_owned(),
        );
    }
    notes
}

/// Compares the entries of the indexes with those that the stored documents must have.
fn entries_match<R: Read>(txn: &mut R, indexes: &Indexes) -> Result<(), Stop> {
    let (wanted, stored) = indexes.sums(txn)?;
    if wanted == stored {
        return Ok(());
    }
    let what = match (wanted.entries, stored.entries) {
        (wanted, stored) if wanted == stored => format!("of {stored} entries some belong to no document"),
        (wanted, stored) => format!("{stored} entries are stored, and the documents must have {wanted}"),
    };
    Err(Stop::WrongAnswer(format!("the indexes do not match the documents: {what}")))
}

struct Check<'a> {
    collection: &'a Collection,
    progress: (&'a AtomicU64, u64),
    key: Vec<u8>,
    value: Vec<u8>,
    found: Vec<u8>,
}

impl Check<'_> {
    fn scan<R: Read>(&self, txn: &mut R) -> Result<Digest, EngineError> {
        let mut digest = Digest::new();
        self.collection.space.scan(txn, |key, value| {
            digest.add(key, value);
            Then::Continue(())
        })?;
        Ok(digest)
    }

    fn numbers(&self) -> std::ops::Range<u64> {
        0..self.collection.end()
    }

    fn state(&self, number: u64) -> State {
        if number.is_multiple_of(STRIDE) {
            self.progress.0.store(self.progress.1 + number, Relaxed);
        }
        self.collection.ledger.state(number, self.collection.records.count())
    }

    /// The digest of the only content possible; `None` where several are.
    fn certain_digest(&mut self) -> Option<(Verified, Digest)> {
        if !self.numbers().all(|number| self.state(number).is_certain()) {
            return None;
        }
        let mut digest = Digest::new();
        for number in self.numbers() {
            if let Some(version) = self.state(number).versions().next() {
                self.collection.records.key(number, &mut self.key);
                self.collection.records.value(number, version, &mut self.value);
                digest.add(&self.key, &self.value);
            }
        }
        Some((Verified { exact: self.numbers().end, ..Verified::default() }, digest))
    }

    /// Reads each record by its key.
    fn by_key<R: Read>(&mut self, txn: &mut R) -> Result<(Verified, Digest), Stop> {
        let mut verified = Verified::default();
        let mut digest = Digest::new();
        for number in self.numbers() {
            let state = self.state(number);
            let there = self.one(txn, number, state)?;
            if there {
                digest.add(&self.key, &self.found);
            }
            verified.exact += u64::from(state.is_certain());
            verified.one_of_several += u64::from(state.possible() > 1 && there);
            verified.may_be_absent += u64::from(state.possible() > 0 && state.absent);
        }
        Ok((verified, digest))
    }

    /// Whether a record's state is a possible one; its value is left in `found`.
    fn one<R: Read>(&mut self, txn: &mut R, number: u64, state: State) -> Result<bool, Stop> {
        self.collection.records.key(number, &mut self.key);
        let found = &mut self.found;
        found.clear();
        let stored = self.collection.space.stored(&self.key);
        let there = txn.get(&stored, |value| found.extend_from_slice(value))?;
        if !there {
            return if state.absent { Ok(false) } else { Err(self.wrong(number, "is missing")) };
        }
        if state.possible() == 0 {
            return Err(self.wrong(number, "is present, but was removed or never written"));
        }
        for version in state.versions() {
            self.collection.records.value(number, version, &mut self.value);
            if self.value == self.found {
                return Ok(true);
            }
        }
        let what = match state.possible() {
            1 => format!("holds {}", self.difference()),
            versions => {
                let bytes = count(self.found.len(), "byte");
                format!("holds {bytes} that match none of its {versions} possible versions")
            }
        };
        Err(self.wrong(number, &what))
    }

    fn difference(&self) -> String {
        let at = self.found.iter().zip(&self.value).position(|(a, b)| a != b);
        match at {
            Some(at) => format!("a wrong byte at offset {at} of {}", self.value.len()),
            None => format!("{} instead of {}", count(self.found.len(), "byte"), self.value.len()),
        }
    }

    fn wrong(&self, number: u64, what: &str) -> Stop {
        let of = self.collection.name.as_ref().map(|name| format!(" of `{name}`")).unwrap_or_default();
        Stop::WrongAnswer(format!("record {number}{of}, key `{}`, {what}", self.key.escape_ascii()))
    }

    /// The first row, in key order, that belongs to no record. Several passes keep few keys in memory at a time.
    fn extra_row<R: Read>(&mut self, txn: &mut R) -> Result<Stop, EngineError> {
        let parts = self.numbers().end.div_ceil(KEYS_IN_MEMORY).max(1);
        let mut first: Option<Vec<u8>> = None;
        for part in 0..parts {
            let known = self.hashes(part, parts);
            self.collection.space.scan(txn, |key, _| {
                let hash = hash_key(key);
                let unknown = hash % parts == part && !known.contains(&hash);
                if unknown && first.as_deref().is_none_or(|first| key < first) {
                    first = Some(key.to_vec());
                }
                Then::Continue(())
            })?;
        }
        Ok(Stop::WrongAnswer(match first {
            Some(key) => never_written(&key),
            None => "a scan and reads by key do not return the same rows".to_owned(),
        }))
    }

    fn hashes(&mut self, part: u64, parts: u64) -> HashSet<u64> {
        let mut hashes = HashSet::new();
        for number in self.numbers() {
            self.collection.records.key(number, &mut self.key);
            let hash = hash_key(&self.key);
            if hash % parts == part {
                hashes.insert(hash);
            }
        }
        hashes
    }
}
