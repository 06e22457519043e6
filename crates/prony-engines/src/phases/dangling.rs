//! Checks that the documents to which stored documents refer are stored too. The states of the records say so as well if
//! every operation was admitted or refused as it should: this does not depend on that. From one collection to another they are
//! if each write on which that depends has checked references.

use prony_workload::decode;

use super::collections::{Collection, Collections};
use super::stop::Stop;
use crate::documents::no_document;
use crate::driver::{EngineError, Read, Then};

/// References that are in memory before they are looked up: a transaction reads one thing at a time.
const ENOUGH: usize = 1024;

/// References that lead nowhere.
#[derive(Default)]
struct Dangling {
    references: u64,
    /// The collection and the key of the first document that has one.
    first: Option<(String, Vec<u8>)>,
}

/// Looks up each reference of each stored document. A note where only such lead nowhere as depend on writes without a check.
///
/// # Errors
/// Those of the engine; a reference that leads nowhere although each write that it may depend on checked references.
pub(super) fn check<R: Read>(txn: &mut R, collections: &Collections, ordered: bool) -> Result<Option<String>, Stop> {
    let mut found = Found::default();
    for (from, collection) in collections.all.iter().enumerate().filter(|(_, collection)| collection.refers()) {
        let checked = |to| collections.all_checked(from, to);
        let documents = Documents { collection, checked: &checked, read: Vec::new(), references: 0 };
        if ordered {
            documents.in_key_order(txn, &mut found)?;
        } else {
            documents.by_key(txn, &mut found)?;
        }
    }
    match found.wrong.text() {
        Some(what) => Err(Stop::WrongAnswer(what)),
        None => Ok(found.unchecked.text().map(|what| format!("{what}: some phase wrote without a check"))),
    }
}

impl Dangling {
    fn text(self) -> Option<String> {
        let (of, key) = self.first?;
        Some(format!(
            "references of stored documents that lead to no stored document: {}; the first is of the document `{}`{of}",
            self.references,
            key.escape_ascii()
        ))
    }

    fn add(&mut self, collection: &Collection, key: &[u8]) {
        self.references += 1;
        let of = || collection.name.as_ref().map(|name| format!(" of `{name}`")).unwrap_or_default();
        self.first.get_or_insert_with(|| (of(), key.to_vec()));
    }
}

#[derive(Default)]
struct Found {
    /// Although each write on which they depend has checked references.
    wrong: Dangling,
    unchecked: Dangling,
}

/// The documents of a collection, of which some were read and their references are to be looked up.
struct Documents<'c> {
    collection: &'c Collection,
    /// Whether references to a collection were checked by each write.
    checked: &'c dyn Fn(usize) -> bool,
    read: Vec<Document>,
    references: usize,
}

struct Document {
    key: Vec<u8>,
    /// The keys to which it refers, in collections to which references were checked.
    checked: Vec<Vec<u8>>,
    unchecked: Vec<Vec<u8>>,
}

impl Documents<'_> {
    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        let Some(encoding) = self.collection.records.encoding() else { return Ok(()) };
        let document = decode(encoding, value).map_err(|error| no_document(&*error))?;
        let checked = self.collection.required_of(&document, self.checked);
        let unchecked = self.collection.required_of(&document, |to| !(self.checked)(to));
        let references = checked.len() + unchecked.len();
        if references > 0 {
            self.references += references;
            self.read.push(Document { key: key.to_vec(), checked, unchecked });
        }
        Ok(())
    }

    fn find_references<R: Read>(&mut self, txn: &mut R, found: &mut Found) -> Result<(), EngineError> {
        for document in self.read.drain(..) {
            let of = [(&document.checked, &mut found.wrong), (&document.unchecked, &mut found.unchecked)];
            for (required, dangling) in of {
                for key in required {
                    if !txn.get(key, |_| ())? {
                        dangling.add(self.collection, &document.key);
                    }
                }
            }
        }
        self.references = 0;
        Ok(())
    }

    fn in_key_order<R: Read>(mut self, txn: &mut R, found: &mut Found) -> Result<(), EngineError> {
        let mut from = Some(Vec::new());
        while let Some(key) = from.take() {
            let mut fault = None;
            self.collection.space.scan_from(txn, &key, |key, value| {
                fault = self.add(key, value).err();
                if fault.is_none() && self.references < ENOUGH {
                    return Then::Continue(());
                }
                // The next scan begins at the least key above this one.
                from = Some([key, &[0]].concat());
                Then::Break(())
            })?;
            fault.map_or(Ok(()), Err)?;
            self.find_references(txn, found)?;
        }
        Ok(())
    }

    /// The same on an engine that cannot list its rows.
    fn by_key<R: Read>(mut self, txn: &mut R, found: &mut Found) -> Result<(), EngineError> {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        for number in 0..self.collection.end() {
            self.collection.records.key(number, &mut key);
            value.clear();
            if txn.get(&self.collection.space.stored(&key), |stored| value.extend_from_slice(stored))? {
                self.add(&key, &value)?;
                self.find_references(txn, found)?;
            }
        }
        Ok(())
    }
}
