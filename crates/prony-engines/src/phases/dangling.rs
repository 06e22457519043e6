//! Checks that the documents to which stored documents refer are stored too. The states of the records say so as well if
//! every operation was admitted or refused as it should: this does not depend on that. From one collection to another they are
//! if each write on which that depends has checked references.

use prony_workload::decode;

use super::collections::{Collection, Collections};
use super::stop::Stop;
use crate::documents::no_document;
use crate::driver::{EngineError, Read};

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
pub(super) fn check<R: Read>(txn: &mut R, collections: &Collections) -> Result<Option<String>, Stop> {
    let (mut wrong, mut unchecked) = (Dangling::default(), Dangling::default());
    for (from, collection) in collections.all.iter().enumerate().filter(|(_, collection)| collection.refers()) {
        wrong.add(txn, collection, |to| collections.all_checked(from, to))?;
        unchecked.add(txn, collection, |to| !collections.all_checked(from, to))?;
    }
    match wrong.text() {
        Some(what) => Err(Stop::WrongAnswer(what)),
        None => Ok(unchecked.text().map(|what| format!("{what}: some phase wrote without a check"))),
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

    /// Adds those of a collection to some collections. Each document is read by its key: one read must not run inside another.
    fn add<R: Read>(
        &mut self,
        txn: &mut R,
        collection: &Collection,
        to: impl Fn(usize) -> bool,
    ) -> Result<(), EngineError> {
        if !collection.references.iter().any(|reference| to(reference.to)) {
            return Ok(());
        }
        let Some(encoding) = collection.records.encoding() else { return Ok(()) };
        let (mut key, mut value) = (Vec::new(), Vec::new());
        for number in 0..collection.end() {
            collection.records.key(number, &mut key);
            value.clear();
            if !txn.get(&collection.space.stored(&key), |stored| value.extend_from_slice(stored))? {
                continue;
            }
            let document = decode(encoding, &value).map_err(|error| no_document(&*error))?;
            for required in collection.required_of(&document, &to) {
                if !txn.get(&required, |_| ())? {
                    self.references += 1;
                    let of = collection.name.as_ref().map(|name| format!(" of `{name}`")).unwrap_or_default();
                    self.first.get_or_insert_with(|| (of, key.clone()));
                }
            }
        }
        Ok(())
    }
}
