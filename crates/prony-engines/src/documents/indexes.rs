//! The indexes of a collection: which entries a document has in them, and how writes change them.
//!
//! Documents and entries share the engine's one key space: of each collection in turn first the entries of each index, then
//! the documents. An entry's key is a byte that says of which index it is, the values of the index's fields in the order of [`super::order`], and the document's key; its value is empty. Every document has entries in
//! every index, also without the fields. Of a list there is one entry per item, of two lists one per pair of items.
//! A document and its entries are changed in one transaction.

use std::cmp::Ordering;

use prony_model::spec::{Encoding, FieldPath, FieldValue};
use prony_workload::decode;

use super::space::Space;
use super::{no_document, order};
use crate::answers::{Reads, hash_key};
use crate::clock::now;
use crate::driver::{EngineError, Read, Then, Write};

/// The indexes of a collection.
#[derive(Clone, Debug)]
pub struct Indexes {
    pub(super) all: Vec<Index>,
    encoding: Encoding,
    /// The byte before the entries of the first index; those of the others follow.
    first: u8,
}

/// One index.
#[derive(Clone, Debug)]
pub(super) struct Index {
    pub(super) fields: Vec<Field>,
}

/// A field of an index.
#[derive(Clone, Debug)]
pub(super) struct Field {
    pub(super) path: FieldPath,
    /// Whether it may be a list.
    pub(super) list: bool,
}

/// Keys of entries or of documents, or values, one after the other.
#[derive(Clone, Debug, Default)]
pub struct Entries(Vec<u8>);

impl Entries {
    /// Removes them; what a few large documents have taken does not stay allocated behind small ones.
    pub(crate) fn clear(&mut self, enough: usize) {
        if self.0.capacity() > 8 * enough && self.0.len() < enough {
            self.0 = Vec::new();
        }
        self.0.clear();
    }

    /// Bytes of the keys or values and of their lengths.
    pub fn bytes(&self) -> usize {
        self.0.len()
    }

    /// The keys in a part of these bytes.
    pub fn part(&self, bytes: std::ops::Range<usize>) -> &[u8] {
        &self.0[bytes]
    }

    /// Appends a key or a value.
    pub fn push(&mut self, key: &[u8]) {
        self.0.extend_from_slice(&(key.len() as u32).to_le_bytes());
        self.0.extend_from_slice(key);
    }
}

/// The keys or values in a part of [`Entries`].
pub(super) fn keys(mut part: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = part.split_first_chunk()?;
        let (key, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        part = rest;
        Some(key)
    })
}

/// What a write does to the indexes.
#[derive(Clone, Copy, Debug)]
pub struct Indexed<'a> {
    /// The indexes.
    pub indexes: &'a Indexes,
    /// The entries of the new document, as a part of [`Entries`]; none where the document is removed.
    pub entries: &'a [u8],
    /// Whether another document may be stored with this key.
    pub replaces: bool,
}

impl Indexes {
    /// Indexes with these fields, at most [`prony_model::spec::StoreSpec::MOST_INDEXES`], of the only collection of a store;
    /// `may_be_list` says which fields are a list in some document.
    pub fn new(fields: &[Vec<FieldPath>], encoding: Encoding, may_be_list: impl Fn(&FieldPath) -> bool) -> Self {
        let field = |path: &FieldPath| Field { path: path.clone(), list: may_be_list(path) };
        let all = fields.iter().map(|fields| Index { fields: fields.iter().map(field).collect() }).collect();
        Self { all, encoding, first: 1 }
    }

    /// The same where other collections use the bytes below `first`.
    pub fn above(self, first: u8) -> Self {
        Self { first, ..self }
    }

    /// Where the documents are stored: above the entries.
    pub fn space(&self) -> Space {
        Space::behind(self.byte(self.all.len()))
    }

    /// The byte before the entries of an index.
    pub(super) fn byte(&self, number: usize) -> u8 {
        self.first + number as u8
    }

    /// The fields of each index.
    pub(crate) fn names(&self) -> Vec<String> {
        (0..self.all.len()).map(|index| self.name(index)).collect()
    }

    /// The names of an index's fields.
    pub(super) fn name(&self, index: usize) -> String {
        let fields: Vec<String> = self.all[index].fields.iter().map(|field| field.path.to_string()).collect();
        fields.join(", ")
    }

    /// Appends the entries that a document with this key has in all indexes.
    pub fn push_entries(&self, document: &FieldValue, key: &[u8], out: &mut Entries) {
        for number in 0..self.all.len() {
            self.entries(number, document, key).iter().for_each(|entry| out.push(entry));
        }
    }

    /// The entries that a document with this key has in an index, in order.
    pub(super) fn entries(&self, number: usize, document: &FieldValue, key: &[u8]) -> Vec<Vec<u8>> {
        let mut entries = vec![vec![self.byte(number)]];
        for field in &self.all[number].fields {
            match document.at(&field.path.0) {
                Some(FieldValue::List(items)) if !items.is_empty() => {
                    let each = |entry: &Vec<u8>| items.iter().map(|item| with(entry.clone(), Some(item))).collect();
                    entries = entries.iter().flat_map::<Vec<_>, _>(each).collect();
                    entries.sort_unstable();
                    entries.dedup();
                }
                value => entries.iter_mut().for_each(|entry| order::encode(value, entry)),
            }
        }
        entries.iter_mut().for_each(|entry| entry.extend_from_slice(key));
        entries
    }

    /// Whether a document may have several entries in an index.
    pub(super) fn has_lists(&self, number: usize) -> bool {
        self.all[number].fields.iter().any(|field| field.list)
    }

    /// The key of the document to which an entry belongs.
    pub(super) fn key_in<'e>(&self, number: usize, entry: &'e [u8]) -> Option<&'e [u8]> {
        self.all[number].fields.iter().try_fold(entry.get(1..)?, |rest, _| order::after_value(rest))
    }

    /// The entries that the stored documents must have, and those that are stored.
    ///
    /// # Errors
    /// Those of the engine, and a value that is no document.
    pub fn sums<R: Read>(&self, txn: &mut R) -> Result<(Sum, Sum), EngineError> {
        let (mut wanted, mut stored, mut fault) = (Sum::default(), Sum::default(), None);
        self.space().scan(txn, |key, value| match decode(self.encoding, value) {
            Ok(document) => {
                let of = |number| self.entries(number, &document, key);
                (0..self.all.len()).flat_map(of).for_each(|entry| wanted.add(&entry));
                Then::Continue(())
            }
            Err(error) => {
                fault = Some(error);
                Then::Break(())
            }
        })?;
        txn.scan(&[self.first], |entry, _| {
            if entry.first() >= self.space().before().first() {
                return Then::Break(());
            }
            stored.add(entry);
            Then::Continue(())
        })?;
        fault.map_or(Ok((wanted, stored)), |error| Err(no_document(&*error)))
    }
}

/// Entries, with a sum of hashes of their keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// How many.
    pub entries: u64,
    hashes: u64,
}

impl Sum {
    fn add(&mut self, entry: &[u8]) {
        self.entries += 1;
        self.hashes = self.hashes.wrapping_add(hash_key(entry));
    }
}

fn with(mut entry: Vec<u8>, value: Option<&FieldValue>) -> Vec<u8> {
    order::encode(value, &mut entry);
    entry
}

impl Indexed<'_> {
    /// Stores the entries of the new document, and removes those of the old one that it does not have; `key` is that of the
    /// document, as it is stored. The old document, where one is read, is handed to `old`.
    ///
    /// # Errors
    /// Those of the engine, and an old value that is no document.
    #[inline(never)] // in the timed loop it takes registers from operations without indexes
    pub fn change<W: Write>(
        self,
        txn: &mut W,
        key: &[u8],
        reads: &mut Reads,
        old: impl FnMut(&[u8], &mut Reads),
    ) -> Result<(), EngineError> {
        let before = if self.replaces { self.old(txn, key, reads, old)? } else { Vec::new() };
        let (mut before, mut after) = (before.iter().map(Vec::as_slice).peekable(), keys(self.entries).peekable());
        // Both are in order.
        loop {
            let order = match (before.peek(), after.peek()) {
                (None, None) => return Ok(()),
                (Some(old), Some(new)) => old.cmp(new),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
            };
            match order {
                Ordering::Less => before.next().map_or(Ok(()), |entry| txn.delete(entry).map(drop))?,
                Ordering::Greater => after.next().map_or(Ok(()), |entry| txn.put(entry, &[]))?,
                Ordering::Equal => {
                    before.next();
                    after.next();
                    continue;
                }
            }
            reads.changed += 1;
        }
    }

    /// The entries of the document that is stored.
    fn old<W: Write>(
        self,
        txn: &mut W,
        key: &[u8],
        reads: &mut Reads,
        mut old: impl FnMut(&[u8], &mut Reads),
    ) -> Result<Vec<Vec<u8>>, EngineError> {
        let mut entries = Ok(Vec::new());
        txn.get_to_write(key, |value| {
            old(value, reads);
            let begin = now();
            entries = decode(self.indexes.encoding, value).map(|document| {
                let of = |number| self.indexes.entries(number, &document, &key[1..]);
                (0..self.indexes.all.len()).flat_map(of).collect()
            });
            reads.decoded(now().saturating_sub(begin));
        })?;
        entries.map_err(|error| no_document(&*error))
    }
}
