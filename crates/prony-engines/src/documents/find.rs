//! Answers queries in a transaction of a key-value engine, by reading all documents in the order of their keys.
//!
//! Without a sort, rows are answered as they are found, and reading ends with the limit. With a sort and a limit, at most
//! twice `skip + limit` documents are kept, or 64. So memory does not grow with the store, but for a sort without a limit.

use std::cmp::Ordering;

use prony_model::random::mix;
use prony_model::spec::{FieldValue, Filter, SortKey};
use prony_workload::decode;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::compare::sorted;
use super::filter::finds;
use super::query::Query;
use crate::answers::Reads;
use crate::clock::now;
use crate::driver::{EngineError, FIRST_KEY, Read};

/// Documents of the first scan and of the longest, of a query that ends early: it reads few in vain.
const FEWEST: u64 = 16;
const MOST: u64 = 1024;

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
pub(crate) fn find<R: Read>(txn: &mut R, number: u64, queries: &[Query], reads: &mut Reads) -> Result<(), EngineError> {
    for (index, query) in queries.iter().enumerate() {
        let identity = mix(mix(number).wrapping_add(index as u64));
        let mut answer = Reads::default();
        let matched = run(txn, query, reads, |row| {
            // The order is part of the answer.
            answer.selected(mix(identity.wrapping_add(row.position)), row.bytes, selected(query, row.document));
        })?;
        if query.spec.count {
            answer.selected(identity, 0, mix(matched));
        }
        reads.merge(answer);
    }
    Ok(())
}

/// Hands the rows of a query's answer to `row`, in their order; returns how many documents the filter found, which is all of
/// them where the query counts or sorts. What was decoded is counted in `reads`.
///
/// # Errors
/// Those of the engine, and a value that is no document.
pub fn run<R: Read>(
    txn: &mut R,
    query: &Query,
    reads: &mut Reads,
    row: impl FnMut(Row<'_>),
) -> Result<u64, EngineError> {
    let mut search = Search { query, matched: 0, candidates: Vec::new(), row };
    let (mut from, mut again) = (FIRST_KEY.to_vec(), 0);
    let mut length = search.first_scan();
    while !search.is_complete() {
        let (mut fault, mut read) = (None, 0);
        let wanted = length.saturating_add(again);
        let returned = txn.scan(&from.clone(), wanted, |key, value| {
            read += 1;
            // The key at which this scan begins was the last one of the scan before.
            if read <= again || fault.is_some() || search.is_complete() {
                return;
            }
            fault = search.examine(key, value, reads).err();
            if read == wanted {
                from.clear();
                from.extend_from_slice(key);
            }
        })?;
        if let Some(source) = fault {
            return Err(EngineError::Engine { engine: "find", doing: "decoding a document", source });
        }
        if returned < wanted {
            break;
        }
        again = 1;
        length = length.saturating_mul(2).min(MOST);
    }
    Ok(search.finish())
}

/// A query while its documents are read.
struct Search<'q, F> {
    query: &'q Query,
    matched: u64,
    /// With a sort: the documents that may be among the first.
    candidates: Vec<Candidate>,
    row: F,
}

struct Candidate {
    key: Vec<u8>,
    document: FieldValue,
    bytes: usize,
}

impl<F: FnMut(Row<'_>)> Search<'_, F> {
    /// Whether no further document can change the answer.
    fn is_complete(&self) -> bool {
        let spec = &self.query.spec;
        let unsorted = spec.sort.is_empty() && !spec.count;
        unsorted && self.end().is_some_and(|end| self.matched >= end)
    }

    /// How many documents the first scan reads: all of them, unless the query may end before.
    fn first_scan(&self) -> u64 {
        let spec = &self.query.spec;
        match self.end() {
            Some(end) if spec.sort.is_empty() && !spec.count => match &self.query.filter {
                Filter::All(filters) if filters.is_empty() => end,
                _ => FEWEST,
            },
            _ => u64::MAX,
        }
    }

    /// The position behind the last row.
    fn end(&self) -> Option<u64> {
        let spec = &self.query.spec;
        spec.limit.map(|limit| spec.skip.saturating_add(limit))
    }

    fn examine(
        &mut self,
        key: &[u8],
        value: &[u8],
        reads: &mut Reads,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let begin = now();
        let document = decode(self.query.encoding, value)?;
        reads.decoded(now().saturating_sub(begin));
        if !finds(&self.query.filter, &document) {
            return Ok(());
        }
        let position = self.matched;
        self.matched += 1;
        let bytes = key.len() + value.len();
        if self.query.spec.count {
            return Ok(());
        }
        if self.query.spec.sort.is_empty() {
            self.answer(Row { position, key, document: &document, bytes });
        } else {
            self.keep(Candidate { key: key.to_vec(), document, bytes });
        }
        Ok(())
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
        let keys = &self.query.spec.sort;
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
        if row.position >= self.query.spec.skip && self.end().is_none_or(|end| row.position < end) {
            (self.row)(row);
        }
    }
}

/// A hash of the fields that a query selects.
fn selected(query: &Query, document: &FieldValue) -> u64 {
    match query.spec.select.as_slice() {
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
    use std::sync::Arc;

    use prony_model::spec::{Encoding, QuerySpec};

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
                filter: Filter::All(Vec::new()),
                sort: Vec::new(),
                skip: 0,
                limit: None,
                select: select.iter().map(|path| path.parse().unwrap()).collect(),
                count: false,
            };
            selected(&Query::new(&Arc::new(spec), Encoding::Json, &FieldValue::Null), &document(json))
        };
        let (one, two) = (r#"{"a":1,"in":{"b":2}}"#, r#"{"a":1,"in":{"b":3}}"#);
        assert_eq!(of(&["a"], one), of(&["a"], two));
        assert_ne!(of(&["in.b"], one), of(&["in.b"], two));
        assert_ne!(of(&[], one), of(&[], two));
        assert_ne!(of(&["a", "in.b"], one), of(&["in.b", "a"], one));
        assert_ne!(of(&["none"], one), of(&["a"], one));
    }
}
