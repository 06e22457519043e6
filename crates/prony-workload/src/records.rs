//! Keys and values of records, by number.

use super::document::Documents;
use super::key::{Keys, seed_of};
use super::key_order::KeyOrder;
use super::pass::RowsError;
use super::value::Values;
use prony_model::spec::{CollectionSpec, Encoding, FieldValue, ValueSpec};

/// The records of an experiment: keys and values as pure functions of number and seed.
#[derive(Clone, Debug)]
pub struct Records {
    count: u64,
    keys: Keys,
    values: Kind,
}

/// What the values are.
#[derive(Clone, Debug)]
enum Kind {
    Bytes(Values),
    Document(Documents),
}

impl Records {
    /// The records that a specification and a seed describe.
    ///
    /// Those of a collection with a name have a seed of their own, so that fields of the same generator differ between two
    /// collections, and stay as they are if another collection is added.
    ///
    /// # Errors
    /// Where documents are those of a file that cannot be read or has changed.
    pub fn new(spec: &CollectionSpec, seed: u64) -> Result<Self, RowsError> {
        let (seed, of_trial) = (seed_of(spec.name.as_deref(), seed), seed);
        let values = match &spec.value {
            ValueSpec::Bytes(bytes) => Kind::Bytes(Values::new(bytes, seed)),
            ValueSpec::Document(document) => Kind::Document(Documents::new(document, seed, of_trial)?),
        };
        Ok(Self { count: spec.records, keys: Keys::new(&spec.key, seed), values })
    }

    /// How many there are; their numbers are `0..count`. Larger numbers, of inserts, have keys and values too.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Replaces `out` by the key of a record; distinct numbers have distinct keys, as far as the key has room for them.
    #[inline]
    pub fn key(&self, number: u64, out: &mut Vec<u8>) {
        out.clear();
        self.keys.write(number, out);
    }

    /// Replaces `out` by a version of a record's value: 0 as first written, 1, 2 ... as updated.
    #[inline]
    pub fn value(&self, number: u64, version: u32, out: &mut Vec<u8>) {
        match &self.values {
            Kind::Bytes(values) => values.write(number, version, out),
            Kind::Document(documents) => {
                documents.encode(&documents.document(number, version), out);
            }
        }
    }

    fn documents(&self) -> Option<&Documents> {
        if let Kind::Document(documents) = &self.values { Some(documents) } else { None }
    }

    /// How documents are encoded; `None` where values are bytes without structure.
    pub fn encoding(&self) -> Option<Encoding> {
        self.documents().map(|documents| documents.encoding)
    }

    /// Whether documents are those of a file, which is read where they are generated.
    pub fn are_of_a_file(&self) -> bool {
        self.documents().is_some_and(Documents::are_of_a_file)
    }

    /// Replaces `out` by the bytes that are stored for a document of these records.
    pub fn encode(&self, document: &FieldValue, out: &mut Vec<u8>) {
        if let Some(documents) = self.documents() {
            documents.encode(document, out);
        }
    }

    /// The document of which [`Self::value`] is the encoding; `None` where values are bytes without structure.
    pub fn document(&self, number: u64, version: u32) -> Option<FieldValue> {
        self.documents().map(|documents| documents.document(number, version))
    }

    /// The fields of a record's document, as first written, whose outermost names are wanted: what a query compares with is
    /// often a small part of the document. `None` as in [`Self::document`].
    pub fn part_of_document(&self, number: u64, wanted: impl Fn(&str) -> bool) -> Option<FieldValue> {
        self.documents().map(|documents| documents.part(number, 0, wanted))
    }

    /// Hands the collection and the number of each record to which a version of a record's document refers to `found`: of those
    /// whose keys are in [`Self::document`], in the same order.
    pub fn references(&self, number: u64, version: u32, mut found: impl FnMut(&str, u64)) {
        if let Some(documents) = self.documents() {
            documents.references(number, version, &mut found);
        }
    }

    /// Every record once, in the byte order of the keys; memory is bounded (8 MB for hashed keys, else little).
    pub(super) fn key_order(&self) -> KeyOrder {
        KeyOrder::new(self.keys.clone(), self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{key, key_capacity};
    use prony_model::spec::{BytesSpec, KeySpec, Size, ValueSpec};
    use prony_model::units::{Bytes, Fraction};
    use proptest::prelude::*;

    fn spec(key: KeySpec) -> CollectionSpec {
        let value = ValueSpec::Bytes(BytesSpec {
            bytes: Size::Uniform { min: Bytes::from_bytes(1), max: Bytes::from_bytes(100) },
            compressible: Fraction::new(0.5).unwrap(),
            prefix: Vec::new(),
        });
        CollectionSpec { name: None, records: 500, key, value }
    }

    fn any_key() -> impl Strategy<Value = KeySpec> {
        prop_oneof![
            (0u8..12).prop_map(|pad| KeySpec::Template { parts: vec!["/path/".into(), "/".into()], pad }),
            Just(KeySpec::Integer { bytes: 4 }),
            Just(KeySpec::Integer { bytes: 8 }),
            (8u16..40, any::<bool>()).prop_map(|(bytes, hex)| KeySpec::Hashed { prefix: String::new(), bytes, hex }),
        ]
    }

    proptest! {
        #[test]
        fn other_numbers_have_other_keys(key in any_key(), seed: u64, a: u64, b: u64) {
            let capacity = key_capacity(&key);
            let within = |number: u64| capacity.map_or(number, |n| number % n);
            let (a, b) = (within(a), within(b));
            let records = Records::new(&spec(key), seed).unwrap();
            let (mut left, mut right) = (vec![9], Vec::new());
            records.key(a, &mut left);
            records.key(b, &mut right);
            prop_assert_eq!(a == b, left == right);
        }
    }

    #[test]
    fn records_are_a_function_of_specification_and_seed() {
        let key = KeySpec::Hashed { prefix: "user".into(), bytes: 20, hex: true };
        let written = |seed| {
            let records = Records::new(&spec(key.clone()), seed).unwrap();
            let (mut key, mut value, mut all) = (Vec::new(), Vec::new(), Vec::new());
            for number in 0..records.count() {
                records.key(number, &mut key);
                records.value(number, 1, &mut value);
                all.extend_from_slice(&key);
                all.extend_from_slice(&value);
            }
            all
        };
        assert_eq!(written(1), written(1));
        assert_ne!(written(1), written(2));
    }

    /// Fixes the data of a seed: a change here makes stored results incomparable with new ones.
    #[test]
    fn the_bytes_of_a_seed_do_not_change() {
        let key = KeySpec::Hashed { prefix: "user".into(), bytes: 20, hex: true };
        let records = Records::new(&spec(key), 42).unwrap();
        let mut digest = crate::Digest::new();
        let (mut key, mut value) = (Vec::new(), Vec::new());
        for number in 0..records.count() {
            records.key(number, &mut key);
            records.value(number, 0, &mut value);
            digest.add(&key, &value);
        }
        assert_eq!(digest.hex(), "2d37d13d1959431a0ec4141f333f844a");
    }

    #[test]
    fn in_key_order_is_every_record_once() {
        let records = Records::new(&spec(KeySpec::Template { parts: vec!["k".into(), "".into()], pad: 0 }), 1).unwrap();
        let order: Vec<u64> = records.key_order().collect();
        assert_eq!(order.len(), 500);
        assert_eq!(order[..5], [0, 1, 10, 100, 101]);
        assert!(order.is_sorted_by(|a, b| key(&records, *a) < key(&records, *b)));
    }
}
