//! Checks that the documents to which stored documents refer are stored too. The states of the records say so as well if
//! every operation was admitted or refused as it should: this does not depend on that.

use prony_workload::decode;

use super::collections::{Collection, Collections};
use super::stop::Stop;
use crate::documents::no_document;
use crate::driver::{EngineError, Read};

/// The references that lead nowhere.
#[derive(Default)]
struct Dangling {
    references: u64,
    /// The collection and the key of the first document that has one.
    first: Option<(String, Vec<u8>)>,
}

/// Looks up each reference of each stored document, if a phase has checked references. A note where some lead nowhere after
/// writes without a check.
///
/// # Errors
/// Those of the engine; a reference that leads nowhere although each write that it may depend on checked references.
pub(super) fn check<R: Read>(txn: &mut R, collections: &Collections) -> Result<Option<String>, Stop> {
    let Some(all_checked) = collections.all_checked() else { return Ok(None) };
    let mut dangling = Dangling::default();
    for collection in collections.all.iter().filter(|collection| collection.refers()) {
        dangling.add(txn, collection)?;
    }
    let Some((of, key)) = dangling.first else { return Ok(None) };
    let what = format!(
        "references of stored documents that lead to no stored document: {}; the first is of the document `{}`{of}",
        dangling.references,
        key.escape_ascii()
    );
    match all_checked {
        true => Err(Stop::WrongAnswer(what)),
        false => Ok(Some(format!("{what}: some phase wrote without a check"))),
    }
}

impl Dangling {
    /// Adds those of a collection, each of whose documents is read by its key: one read must not run inside another.
    fn add<R: Read>(&mut self, txn: &mut R, collection: &Collection) -> Result<(), EngineError> {
        let Some(encoding) = collection.records.encoding() else { return Ok(()) };
        let (mut key, mut value) = (Vec::new(), Vec::new());
        for number in 0..collection.end() {
            collection.records.key(number, &mut key);
            value.clear();
            if !txn.get(&collection.space.stored(&key), |stored| value.extend_from_slice(stored))? {
                continue;
            }
            let document = decode(encoding, &value).map_err(|error| no_document(&*error))?;
            for required in collection.required(&document) {
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
