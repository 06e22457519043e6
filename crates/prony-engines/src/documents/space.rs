//! The part of an engine's one key space in which the documents of a collection are stored.

use crate::driver::{EngineError, FIRST_KEY, Read, Then};

/// Where the records of a collection are: behind a byte before each of their keys, or, where they are all that the store holds,
/// in the whole key space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space(Option<u8>);

impl Space {
    /// The whole key space.
    pub const WHOLE: Self = Self(None);

    /// The keys that begin with this byte.
    pub const fn behind(byte: u8) -> Self {
        Self(Some(byte))
    }

    /// The byte before each key, if any.
    pub const fn byte(self) -> Option<u8> {
        self.0
    }

    /// What is stored before each key.
    pub fn before(&self) -> &[u8] {
        self.0.as_slice()
    }

    /// A record's key, as it is stored.
    pub fn stored(self, key: &[u8]) -> Vec<u8> {
        [self.before(), key].concat()
    }

    /// The key of the record that is stored under this key; `None` where that is no record of the collection.
    pub fn key(self, stored: &[u8]) -> Option<&[u8]> {
        stored.strip_prefix(self.before())
    }

    /// Hands all records to `row`, in the order of their keys, until that breaks off.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn scan<R: Read>(self, txn: &mut R, row: impl FnMut(&[u8], &[u8]) -> Then) -> Result<(), EngineError> {
        self.scan_from(txn, &[], row)
    }

    /// The same of records whose keys are not below this one.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn scan_from<R: Read>(
        self,
        txn: &mut R,
        key: &[u8],
        mut row: impl FnMut(&[u8], &[u8]) -> Then,
    ) -> Result<(), EngineError> {
        let from = self.stored(key);
        let from = if from.is_empty() { FIRST_KEY } else { &from };
        txn.scan(from, |stored, value| self.key(stored).map_or(Then::Break(()), |key| row(key, value)))
    }
}
