//! Encodes values of documents so that the order of the bytes is the order in which documents are sorted.
//!
//! Each value begins with its kind and ends where its bytes say so: values can be joined to one key, and no encoded value
//! is the beginning of another. Lists and nested fields are alike among themselves, as in a sort.

use prony_model::spec::FieldValue;

const MISSING: u8 = 1;
const NULL: u8 = 2;
const FLAG: u8 = 3;
const NUMBER: u8 = 4;
const TEXT: u8 = 5;
const LIST: u8 = 6;
const FIELDS: u8 = 7;

/// Stands for a byte 0 of a text; any other byte after a 0 ends the text.
const ZERO: u8 = 0xFF;
const END: u8 = 1;

/// Appends a value; `None` for a field that the document does not have.
pub(super) fn encode(value: Option<&FieldValue>, out: &mut Vec<u8>) {
    match value {
        None => out.push(MISSING),
        Some(FieldValue::Null) => out.push(NULL),
        Some(FieldValue::Bool(flag)) => out.extend([FLAG, u8::from(*flag)]),
        Some(FieldValue::Int(number)) => {
            let (float, rest) = float_below(*number);
            push_number(float, rest, out);
        }
        Some(FieldValue::Float(float)) => push_number(*float, 0, out),
        Some(FieldValue::Text(text)) => {
            push_beginning(text, out);
            out.extend([0, END]);
        }
        Some(FieldValue::List(_)) => out.push(LIST),
        Some(FieldValue::Fields(_)) => out.push(FIELDS),
    }
}

/// Appends what all texts with this beginning begin with.
pub(super) fn push_beginning(text: &str, out: &mut Vec<u8>) {
    out.push(TEXT);
    for byte in text.bytes() {
        out.push(byte);
        if byte == 0 {
            out.push(ZERO);
        }
    }
}

/// The bytes below which all values of the kind of an encoded value lie.
pub(super) fn above_kind(encoded: &[u8]) -> [u8; 1] {
    [encoded.first().map_or(0, |kind| kind + 1)]
}

/// The bytes above `MISSING` and below all values that a document has.
pub(super) const PRESENT: [u8; 1] = [NULL];

/// Above all values.
pub(super) const ABOVE_ALL: [u8; 1] = [FIELDS + 1];

/// The least bytes above all that begin with these, unless all of these are 0xFF.
pub(super) fn successor(mut bytes: Vec<u8>) -> Vec<u8> {
    while let Some(last) = bytes.pop() {
        if last < u8::MAX {
            bytes.push(last + 1);
            break;
        }
    }
    bytes
}

/// What follows an encoded value; `None` where the bytes are none.
pub(super) fn after_value(bytes: &[u8]) -> Option<&[u8]> {
    let (kind, rest) = bytes.split_first()?;
    match *kind {
        FLAG => rest.get(1..),
        NUMBER => rest.get(NUMBER_BYTES..),
        TEXT => {
            let mut at = 0;
            loop {
                at += rest.get(at..)?.iter().position(|byte| *byte == 0)? + 2;
                if rest.get(at - 1)? != &ZERO {
                    return rest.get(at..);
                }
            }
        }
        _ => Some(rest),
    }
}

/// Bytes of an encoded number behind its kind.
const NUMBER_BYTES: usize = 10;

/// The greatest float that is not above a whole number, and what is missing to it: less than 2^10, the distance of two
/// floats below 2^63.
fn float_below(number: i64) -> (f64, u16) {
    let nearest = number as f64;
    let float = if nearest as i128 > i128::from(number) { nearest.next_down() } else { nearest };
    (float, (i128::from(number) - float as i128) as u16)
}

/// A float, and what a whole number has more: so whole numbers and floats lie among each other, and equal ones are equal.
fn push_number(float: f64, rest: u16, out: &mut Vec<u8>) {
    // Adding 0 makes -0 the 0 that it is equal to.
    let bits = (float + 0.0).to_bits();
    let sortable = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
    out.push(NUMBER);
    out.extend_from_slice(&sortable.to_be_bytes());
    out.extend_from_slice(&rest.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use prony_model::spec::FieldValue::{Bool, Fields, Float, Int, List, Null, Text};
    use proptest::prelude::*;

    use super::*;
    use crate::documents::compare::sorted;

    fn encoded(value: Option<&FieldValue>) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode(value, &mut bytes);
        bytes
    }

    /// Equal to what was encoded; a whole number stands for a float of equal value.
    fn decoded(bytes: &[u8]) -> Option<FieldValue> {
        Some(match bytes[0] {
            MISSING => return None,
            NULL => Null,
            FLAG => Bool(bytes[1] == 1),
            NUMBER => {
                let sortable = u64::from_be_bytes(bytes[1..9].try_into().unwrap());
                let rest = u16::from_be_bytes(bytes[9..11].try_into().unwrap());
                let float = f64::from_bits(if sortable >> 63 == 0 { !sortable } else { sortable ^ 1 << 63 });
                let whole = float.fract() == 0.0 && (-9.3e18..9.3e18).contains(&float);
                match whole.then(|| float as i128 + i128::from(rest)).and_then(|whole| i64::try_from(whole).ok()) {
                    Some(whole) => Int(whole),
                    None => Float(float),
                }
            }
            TEXT => {
                let mut text = Vec::new();
                let mut rest = bytes[1..bytes.len() - 2].iter();
                while let Some(byte) = rest.next() {
                    text.push(*byte);
                    if *byte == 0 {
                        assert_eq!(rest.next(), Some(&ZERO));
                    }
                }
                Text(String::from_utf8(text).unwrap())
            }
            LIST => List(Vec::new()),
            _ => Fields(Vec::new()),
        })
    }

    fn number() -> impl Strategy<Value = FieldValue> {
        let floats = any::<f64>().prop_filter("documents have no NaN", |float| float.is_finite());
        // Around 2^53, above which floats skip whole numbers, and around the ends of both ranges.
        let near = prop::sample::select(vec![0, 1 << 53, -(1 << 53), i64::MAX - 3000, i64::MIN + 3000]);
        let whole = (near, -3000i64..3000).prop_map(|(near, by)| near + by);
        prop_oneof![
            any::<i64>().prop_map(Int),
            whole.clone().prop_map(Int),
            whole.prop_map(|number| Float(number as f64)),
            floats.prop_map(Float),
            prop::sample::select(vec![-0.0, 0.0, 0.5, f64::MIN_POSITIVE, 9_223_372_036_854_775_808.0]).prop_map(Float),
        ]
    }

    fn value() -> impl Strategy<Value = Option<FieldValue>> {
        let some = prop_oneof![
            1 => Just(Null),
            1 => any::<bool>().prop_map(Bool),
            6 => number(),
            4 => "[\0\u{1}a\u{ff}\u{10ffff}]{0,4}".prop_map(Text),
            1 => Just(List(vec![Int(1)])),
            1 => Just(Fields(Vec::new())),
        ];
        prop::option::weighted(0.95, some)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn the_order_of_the_bytes_is_that_of_the_values(a in value(), b in value()) {
            let bytes = encoded(a.as_ref()).cmp(&encoded(b.as_ref()));
            prop_assert_eq!(bytes, sorted(a.as_ref(), b.as_ref()));
        }

        #[test]
        fn keys_of_two_values_are_sorted_by_the_first_and_then_the_second(a in [value(), value()], b in [value(), value()]) {
            let of = |pair: &[Option<FieldValue>; 2]| pair.iter().flat_map(|value| encoded(value.as_ref())).collect::<Vec<u8>>();
            let by_value = |at: usize| sorted(a[at].as_ref(), b[at].as_ref());
            prop_assert_eq!(of(&a).cmp(&of(&b)), by_value(0).then_with(|| by_value(1)));
        }

        #[test]
        fn a_value_comes_back_as_an_equal_one(value in value(), behind in prop::collection::vec(any::<u8>(), 0..4)) {
            let mut bytes = encoded(value.as_ref());
            prop_assert_eq!(sorted(decoded(&bytes).as_ref(), value.as_ref()), Ordering::Equal);
            bytes.extend(&behind);
            prop_assert_eq!(after_value(&bytes), Some(&behind[..]));
        }

        #[test]
        fn texts_with_a_beginning_are_one_range(beginning in "[\0a\u{7f}]{0,3}", other in "[\0a\u{7f}\u{80}]{0,5}") {
            let mut low = Vec::new();
            push_beginning(&beginning, &mut low);
            let high = successor(low.clone());
            let bytes = encoded(Some(&Text(other.clone())));
            prop_assert_eq!(low <= bytes && bytes < high, other.starts_with(&beginning));
        }

        #[test]
        fn bytes_that_are_no_value_have_no_end_or_one_within_them(bytes in prop::collection::vec(any::<u8>(), 0..16)) {
            prop_assert!(after_value(&bytes).is_none_or(|rest| rest.len() < bytes.len()));
        }
    }

    #[test]
    fn kinds_end_where_the_next_begins() {
        let values =
            [Null, Bool(true), Int(i64::MAX), Float(f64::MAX), Text("\u{10ffff}".to_owned()), List(Vec::new())];
        for value in values {
            let bytes = encoded(Some(&value));
            assert!(bytes.as_slice() < above_kind(&bytes).as_slice(), "{value:?}");
            assert!(bytes.as_slice() >= PRESENT.as_slice() && bytes.as_slice() < ABOVE_ALL.as_slice(), "{value:?}");
        }
        assert!(encoded(None).as_slice() < PRESENT.as_slice());
        assert_eq!(successor(vec![1, 255, 255]), [2]);
    }
}
