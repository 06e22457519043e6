//! Answers queries in a transaction of a key-value engine: by reading all documents in the order of their keys, or those to
//! which the entries in some ranges of an index lead. Either way each document is decoded and tested against the whole
//! filter.
//!
//! Where documents are found in the order of the rows, these are answered as they are found, and reading ends with the
//! limit. Otherwise, with a limit, at most twice `skip + limit` documents are kept, or 64. So memory does not grow with the
//! store, but for the rows of a query that needs them all in another order.

use std::cmp::Ordering;

use prony_model::random::mix;
use prony_model::spec::{FieldValue, QuerySpec, SortKey};
use prony_workload::decode;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::compare::sorted;
use super::filter::finds;
use super::indexes::Indexes;
use super::no_document;
use super::plan::Range;
use super::query::Query;
use crate::answers::Reads;
use crate::clock::now;
use crate::driver::{EngineError, Read, Then};

/// The most entries of an index that are read before their documents: each scan begins anew at the entry behind.
const MOST_ENTRIES: usize = 1024;

/// No further entries are read once their keys have so many bytes.
const ENOUGH_BYTES: usize = 128 * 1024;

/// A document of an answer.
#[derive(Debug)]
pub struct Row<'d> {
    /// Its place in the answer, counted from 0 before `skip`.
    pub position: u64,
    /// Its key.
    pub key: &'d [u8],
    /// All its fields.
    pub document: &'d FieldValue,
    /// Bytes of key and value as they are stored.
    pub bytes: usize,
}

/// Answers the queries of the operation on the record with this number.
#[inline(never)] // in the timed loop it takes registers from operations of other kinds
pub(crate) fn find<R: Read>(txn: &mut R, number: u64, queries: &[Query], reads: &mut Reads) -> Result<(), EngineError> {
    for (index, query) in queries.iter().enumerate() {
        let identity = mix(mix(number).wrapping_add(index as u64));
        let mut answer = Reads::default();
        let matched = run(txn, query, reads, |row| {
            // The order is part of the answer.
            answer.selected(mix(identity.wrapping_add(row.position)), row.bytes, selected(query.spec(), row.document));
        })?;
        let found = if query.spec().count { matched > 0 } else { answer.rows > 0 };
        answer.found = u64::from(found).checked_shl(index as u32).unwrap_or(0);
        if query.spec().count {
            answer.selected(identity, 0, mix(matched));
        }
        reads.merge(answer);
    }
    Ok(())
}

/// Hands the rows of a query's answer to `row`, in their order; returns how many documents the filter found, which is all of
/// them where the query counts or its rows have to be sorted. What was read is counted in `reads`.
///
/// # Errors
/// Those of the engine, a value that is no document, and an entry of an index without its document.
pub fn run<R: Read>(
    txn: &mut R,
    query: &Query,
    reads: &mut Reads,
    row: impl FnMut(Row<'_>),
) -> Result<u64, EngineError> {
    if let Some((text, bound)) = query.own() {
        return run_own(txn, query, (text, bound), reads, row);
    }
    let planned = &*query.planned;
    let mut search =
        Search { query, in_order: planned.in_order(), matched: 0, candidates: Vec::new(), row, reads, fault: None };
    match (&planned.indexes, &planned.plan) {
        (Some(indexes), Some(plan)) => {
            let mut batch = Batch { indexes, index: plan.index, keys: Vec::new(), ends: Vec::new() };
            query.ranges.iter().try_for_each(|range| batch.search(txn, range, &mut search))?;
        }
        _ => search.all(txn)?,
    }
    Ok(search.finish())
}

/// The same by the engine itself, whose rows are decoded.
fn run_own<R: Read>(
    txn: &mut R,
    query: &Query,
    (text, bound): (&str, &[FieldValue]),
    reads: &mut Reads,
    mut row: impl FnMut(Row<'_>),
) -> Result<u64, EngineError> {
    let (mut position, mut fault) = (query.spec().skip, None);
    let found = txn.select(text, bound, |key, value| {
        let begin = now();
        let document = decode(query.planned.encoding, value);
        reads.decoded(now().saturating_sub(begin));
        match document {
            Ok(document) => row(Row { position, key, document: &document, bytes: key.len() + value.len() }),
            Err(error) => {
                fault = Some(error);
                return Then::Break(());
            }
        }
        position += 1;
        Then::Continue(())
    })?;
    fault.map_or(Ok(found), |error| Err(no_document(&*error)))
}

/// Entries of an index that are read before their documents: a transaction reads one thing at a time.
struct Batch<'i> {
    indexes: &'i Indexes,
    index: usize,
    keys: Vec<u8>,
    /// Where each key ends.
    ends: Vec<usize>,
}

impl Batch<'_> {
    /// Examines the documents to which the entries in a range lead.
    fn search<R: Read>(
        &mut self,
        txn: &mut R,
        range: &Range,
        search: &mut Search<'_, impl FnMut(Row<'_>)>,
    ) -> Result<(), EngineError> {
        let mut wanted = search.wanted();
        let mut from = Some(range.0.clone());
        while let Some(begin) = from.take().filter(|_| !search.is_complete()) {
            self.keys.clear();
            self.ends.clear();
            txn.scan(&begin, |key, _| {
                if key >= range.1.as_slice() {
                    return Then::Break(());
                }
                self.keys.extend_from_slice(key);
                self.ends.push(self.keys.len());
                if self.ends.len() < wanted && self.keys.len() < ENOUGH_BYTES {
                    return Then::Continue(());
                }
                // The next scan begins at the least key above this one.
                from = Some([key, &[0]].concat());
                Then::Break(())
            })?;
            self.examine(txn, search)?;
            wanted = wanted.saturating_mul(2).min(MOST_ENTRIES);
        }
        Ok(())
    }

    fn wrong(&self, what: &str) -> EngineError {
        EngineError::WrongData(format!("an entry of the index `{}` {what}", self.indexes.name(self.index)))
    }

    fn examine<R: Read>(&self, txn: &mut R, search: &mut Search<'_, impl FnMut(Row<'_>)>) -> Result<(), EngineError> {
        search.reads.entries += self.ends.len() as u64;
        let mut stored = self.indexes.space().before().to_vec();
        let mut begin = 0;
        for end in &self.ends {
            let entry = &self.keys[std::mem::replace(&mut begin, *end)..*end];
            if search.is_complete() {
                break;
            }
            let key = self.indexes.key_in(self.index, entry);
            let key = key.ok_or_else(|| self.wrong("is damaged: its key ends within a value"))?;
            stored.truncate(1);
            stored.extend_from_slice(key);
            let entry = Some((self.indexes, self.index, entry));
            if !txn.get(&stored, |value| search.examine(key, value, entry))? {
                let what = format!("leads to the document with the key `{}`, which is not stored", key.escape_ascii());
                return Err(self.wrong(&what));
            }
            search.sound()?;
        }
        Ok(())
    }
}

/// A query while its documents are read.
struct Search<'q, F> {
    query: &'q Query,
    /// Documents are found in the order of the rows.
    in_order: bool,
    matched: u64,
    /// Otherwise: the documents that may be among the first.
    candidates: Vec<Candidate>,
    row: F,
    reads: &'q mut Reads,
    /// A value that is no document.
    fault: Option<Box<dyn std::error::Error + Send + Sync>>,
}

struct Candidate {
    key: Vec<u8>,
    document: FieldValue,
    bytes: usize,
}

/// The entry that has led to a document, with its index.
type Through<'e> = (&'e Indexes, usize, &'e [u8]);

impl<F: FnMut(Row<'_>)> Search<'_, F> {
    /// Examines all documents.
    fn all<R: Read>(&mut self, txn: &mut R) -> Result<(), EngineError> {
        if self.is_complete() {
            return Ok(());
        }
        self.query.planned.space.scan(txn, |key, value| {
            self.examine(key, value, None);
            if self.is_complete() || self.fault.is_some() { Then::Break(()) } else { Then::Continue(()) }
        })?;
        self.sound()
    }

    /// Whether no further document can change the answer.
    fn is_complete(&self) -> bool {
        self.in_order && self.end().is_some_and(|end| self.matched >= end)
    }

    /// How many entries are read at first: with a limit, as many as would do if the filter finds all their documents.
    fn wanted(&self) -> usize {
        let left = self.end().filter(|_| self.in_order).map(|end| end.saturating_sub(self.matched));
        left.and_then(|left| usize::try_from(left).ok()).map_or(MOST_ENTRIES, |left| left.clamp(1, MOST_ENTRIES))
    }

    /// The position behind the last row.
    fn end(&self) -> Option<u64> {
        let spec = self.query.spec();
        spec.limit.map(|limit| spec.skip.saturating_add(limit))
    }

    fn examine(&mut self, key: &[u8], value: &[u8], through: Option<Through<'_>>) {
        let begin = now();
        let document = decode(self.query.planned.encoding, value);
        self.reads.decoded(now().saturating_sub(begin));
        let document = match document {
            Ok(document) => document,
            Err(error) => return self.fault = Some(error),
        };
        let again = || through.is_some_and(|through| self.leads_again(&document, key, through));
        if !finds(&self.query.filter, &document) || again() {
            return;
        }
        let position = self.matched;
        self.matched += 1;
        let bytes = key.len() + value.len();
        if self.query.spec().count {
            return;
        }
        if self.in_order {
            self.answer(Row { position, key, document: &document, bytes });
        } else {
            self.keep(Candidate { key: key.to_vec(), document, bytes });
        }
    }

    /// Whether an entry before this one has led to the document: one that has a list has several entries.
    fn leads_again(&self, document: &FieldValue, key: &[u8], (indexes, index, entry): Through<'_>) -> bool {
        if !indexes.has_lists(index) {
            return false;
        }
        let read = |entry: &&Vec<u8>| self.query.ranges.iter().any(|(low, high)| low <= *entry && *entry < high);
        indexes.entries(index, document, key).iter().find(read).is_some_and(|first| first != entry)
    }

    fn sound(&mut self) -> Result<(), EngineError> {
        self.fault.take().map_or(Ok(()), |error| Err(no_document(&*error)))
    }

    fn keep(&mut self, candidate: Candidate) {
        self.candidates.push(candidate);
        let Some(end) = self.end().and_then(|end| usize::try_from(end).ok()) else { return };
        if self.candidates.len() >= end.saturating_mul(2).max(64) {
            self.sort();
            self.candidates.truncate(end);
        }
    }

    fn sort(&mut self) {
        let keys = &self.query.planned.spec.sort;
        self.candidates.sort_unstable_by(|a, b| {
            let by = |key: &SortKey| {
                let order = sorted(a.document.at(&key.field.0), b.document.at(&key.field.0));
                if key.descending { order.reverse() } else { order }
            };
            keys.iter().map(by).find(|order| order.is_ne()).unwrap_or(Ordering::Equal).then_with(|| a.key.cmp(&b.key))
        });
    }

    fn finish(mut self) -> u64 {
        self.sort();
        for (position, candidate) in std::mem::take(&mut self.candidates).iter().enumerate() {
            let Candidate { key, document, bytes } = candidate;
            self.answer(Row { position: position as u64, key, document, bytes: *bytes });
        }
        self.matched
    }

    /// A row, if it lies behind those to skip and before the limit.
    fn answer(&mut self, row: Row<'_>) {
        if row.position >= self.query.spec().skip && self.end().is_none_or(|end| row.position < end) {
            (self.row)(row);
        }
    }
}

/// A hash of the fields that a query selects.
fn selected(query: &QuerySpec, document: &FieldValue) -> u64 {
    match query.select.as_slice() {
        [] => hash(document, 0),
        fields => fields.iter().fold(1, |seed, field| match document.at(&field.0) {
            Some(value) => hash(value, seed),
            None => mix(!seed),
        }),
    }
}

/// A hash of the whole value. Whole numbers and floats of equal value differ: encodings keep them apart.
fn hash(value: &FieldValue, seed: u64) -> u64 {
    let of = |kind: u8, bytes: &[u8]| xxh3_64_with_seed(bytes, mix(seed ^ u64::from(kind)));
    match value {
        FieldValue::Null => of(0, &[]),
        FieldValue::Bool(flag) => of(1, &[u8::from(*flag)]),
        FieldValue::Int(number) => of(2, &number.to_le_bytes()),
        FieldValue::Float(number) => of(3, &number.to_le_bytes()),
        FieldValue::Text(text) => of(4, text.as_bytes()),
        // With their numbers, so that `[[1], 2]` is not `[[1, 2]]`.
        FieldValue::List(items) => items.iter().fold(of(5, &items.len().to_le_bytes()), |seed, item| hash(item, seed)),
        FieldValue::Fields(fields) => fields.iter().fold(of(6, &fields.len().to_le_bytes()), |seed, (name, value)| {
            hash(value, xxh3_64_with_seed(name.as_bytes(), seed))
        }),
    }
}

#[cfg(test)]
mod tests {
    use prony_model::query::Filter;

    use super::*;

    fn document(json: &str) -> FieldValue {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn different_values_have_different_hashes() {
        let texts = [
            "null",
            "0",
            "0.0",
            "\"\"",
            "\"0\"",
            "false",
            "true",
            "[]",
            "{}",
            "[[1],2]",
            "[[1,2]]",
            "[1,2]",
            "[2,1]",
            r#"{"a":{"b":1},"c":2}"#,
            r#"{"a":{"b":1,"c":2}}"#,
            r#"{"a":1}"#,
            r#"{"b":1}"#,
        ];
        let mut all: Vec<u64> = texts.iter().map(|text| hash(&document(text), 0)).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), texts.len());
    }

    #[test]
    fn only_selected_fields_are_in_the_answer() {
        let of = |select: &[&str], json: &str| {
            let spec = QuerySpec {
                collection: None,
                filter: Filter::All(Vec::new()),
                sort: Vec::new(),
                skip: 0,
                limit: None,
                select: select.iter().map(|path| path.parse().unwrap()).collect(),
                count: false,
            };
            selected(&spec, &document(json))
        };
        let (one, two) = (r#"{"a":1,"in":{"b":2}}"#, r#"{"a":1,"in":{"b":3}}"#);
        assert_eq!(of(&["a"], one), of(&["a"], two));
        assert_ne!(of(&["in.b"], one), of(&["in.b"], two));
        assert_ne!(of(&[], one), of(&[], two));
        assert_ne!(of(&["a", "in.b"], one), of(&["in.b", "a"], one));
        assert_ne!(of(&["none"], one), of(&["a"], one));
    }
}
