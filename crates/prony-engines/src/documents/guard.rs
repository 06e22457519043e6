//! References between documents: what must be stored, and what must not, for a write to be done. It is read in the write's own
//! transaction.

use std::cell::Cell;

use super::find::run;
use super::indexes::{Entries, keys};
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
    /// Whether the write was refused, once it is decided.
    pub refused: &'a Cell<bool>,
}

impl Guard<'_> {
    /// Whether the write may be done; if so, and if it locks, the required documents have been written.
    ///
    /// # Errors
    /// Those of the engine, and of the queries.
    #[inline(never)] // in the timed loop it takes registers from operations without references
    pub fn admits<W: Write>(self, txn: &mut W, reads: &mut Reads) -> Result<bool, EngineError> {
        let admitted = self.satisfies(txn, reads)?;
        self.refused.set(!admitted);
        Ok(admitted)
    }

    fn satisfies<W: Write>(self, txn: &mut W, reads: &mut Reads) -> Result<bool, EngineError> {
        let mut stored = Entries::default();
        for key in keys(self.required) {
            let found =
                if self.locks { txn.get_to_write(key, |value| stored.push(value)) } else { txn.get(key, |_| ()) }?;
            if !found {
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
        let values = keys(stored.part(0..stored.bytes()));
        keys(self.required).zip(values).try_for_each(|(key, value)| txn.put(key, value))?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::driver::{Read, Then};

    /// Rows, and how often each was read and written.
    #[derive(Default)]
    struct Counted {
        rows: BTreeMap<Vec<u8>, Vec<u8>>,
        read: Vec<Vec<u8>>,
        written: Vec<(Vec<u8>, Vec<u8>)>,
    }

    impl Read for Counted {
        fn get(&mut self, key: &[u8], mut found: impl FnMut(&[u8])) -> Result<bool, EngineError> {
            self.read.push(key.to_vec());
            Ok(self.rows.get(key).inspect(|value| found(value)).is_some())
        }

        fn scan(&mut self, _from: &[u8], _row: impl FnMut(&[u8], &[u8]) -> Then) -> Result<(), EngineError> {
            Ok(())
        }

        fn finish(self) -> Result<(), EngineError> {
            Ok(())
        }
    }

    impl Write for Counted {
        fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
            self.written.push((key.to_vec(), value.to_vec()));
            Ok(())
        }

        fn delete(&mut self, _key: &[u8]) -> Result<bool, EngineError> {
            Ok(true)
        }

        fn commit(self) -> Result<(), EngineError> {
            Ok(())
        }
    }

    fn row(key: &[u8], value: &[u8]) -> (Vec<u8>, Vec<u8>) {
        (key.to_vec(), value.to_vec())
    }

    /// A lock of `a` and `b`, beside what is stored.
    fn locked(stored: &[(Vec<u8>, Vec<u8>)]) -> (bool, Counted) {
        let mut required = Entries::default();
        [b"a", b"b"].iter().for_each(|key| required.push(*key));
        let (required, refused) = (required.part(0..required.bytes()), Cell::default());
        let guard = Guard { required, locks: true, absent: &[], refused: &refused };
        let mut txn = Counted { rows: stored.iter().cloned().collect(), ..Counted::default() };
        let admitted = guard.admits(&mut txn, &mut Reads::default()).unwrap();
        assert_eq!(refused.get(), !admitted);
        (admitted, txn)
    }

    #[test]
    fn a_lock_reads_each_document_once_and_writes_it_as_it_is() {
        let stored = [row(b"a", b"one"), row(b"b", b"")];
        let (admitted, txn) = locked(&stored);
        assert!(admitted);
        assert_eq!(txn.read, [b"a", b"b"]);
        assert_eq!(txn.written, stored);
    }

    #[test]
    fn a_refused_operation_locks_nothing() {
        let (admitted, txn) = locked(&[row(b"a", b"one")]);
        assert!(!admitted);
        assert_eq!(txn.written, []);
    }
}
