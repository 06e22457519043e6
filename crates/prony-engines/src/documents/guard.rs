//! References between documents: what must be stored, and what must not, for a write to be done. It is read in the write's own
//! transaction.

use super::find::run;
use super::indexes::keys;
use super::query::Query;
use crate::answers::Reads;
use crate::driver::{EngineError, Write};

/// What must hold for a write to be done.
#[derive(Clone, Copy, Debug)]
pub struct Guard<'a> {
    /// The keys of documents that must be stored, as they are stored, as a part of [`super::Entries`].
    pub required: &'a [u8],
    /// Whether these documents are written again, as they are.
    pub locks: bool,
    /// Queries that must find nothing: for documents that refer to the one that is removed.
    pub absent: &'a [Query],
}

impl Guard<'_> {
    /// Whether the write may be done; if so, and if it locks, the required documents have been written.
    ///
    /// # Errors
    /// Those of the engine, and of the queries.
    pub fn admits<W: Write>(self, txn: &mut W, reads: &mut Reads) -> Result<bool, EngineError> {
        for key in keys(self.required) {
            if !txn.get(key, |_| ())? {
                return Ok(false);
            }
        }
        for query in self.absent {
            let mut found = false;
            run(txn, query, reads, |_| found = true)?;
            if found {
                return Ok(false);
            }
        }
        if self.locks {
            self.lock(txn)?;
        }
        Ok(true)
    }

    fn lock<W: Write>(self, txn: &mut W) -> Result<(), EngineError> {
        let mut stored = Vec::new();
        for key in keys(self.required) {
            stored.clear();
            txn.get(key, |value| stored.extend_from_slice(value))?;
            txn.put(key, &stored)?;
        }
        Ok(())
    }
}
