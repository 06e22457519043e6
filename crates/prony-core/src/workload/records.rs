//! Records by number.

use std::cmp::Ordering;

use super::key::Keys;
use super::key_order::KeyOrder;
use super::value::Values;
use crate::experiment::spec::DataSpec;

/// The records of an experiment: keys and values as pure functions of number and seed.
#[derive(Clone, Debug)]
pub struct Records {
    count: u64,
    keys: Keys,
    values: Values,
}

impl Records {
    /// The records that a specification and a seed describe.
    pub fn new(spec: &DataSpec, seed: u64) -> Self {
        Self { count: spec.records, keys: Keys::new(&spec.key, seed), values: Values::new(&spec.value, seed) }
    }

    /// How many there are; their numbers are `0..count`. Larger numbers, of inserts, have keys and values too.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Replaces `out` by the key of a record; distinct numbers below [`super::key_capacity`] have distinct keys.
    #[inline]
    pub fn key(&self, number: u64, out: &mut Vec<u8>) {
        out.clear();
        self.keys.write(number, out);
    }

    /// Replaces `out` by a version of a record's value: 0 as first written, 1, 2 ... as updated.
    #[inline]
    pub fn value(&self, number: u64, version: u32, out: &mut Vec<u8>) {
        self.values.write(number, version, out);
    }

    /// Bytes of a version of a record's value.
    pub fn value_len(&self, number: u64, version: u32) -> usize {
        self.values.len(number, version)
    }

    /// Two records in the byte order of their keys.
    pub fn key_cmp(&self, a: u64, b: u64) -> Ordering {
        let (mut left, mut right) = (Vec::new(), Vec::new());
        self.key(a, &mut left);
        self.key(b, &mut right);
        left.cmp(&right)
    }

    /// Every record once, in the byte order of the keys; memory is bounded (8 MB for hashed keys, else little).
    pub fn in_key_order(&self) -> impl Iterator<Item = u64> + use<> {
        self.key_order()
    }

    pub(super) fn key_order(&self) -> KeyOrder {
        KeyOrder::new(self.keys.clone(), self.count)
    }
}
