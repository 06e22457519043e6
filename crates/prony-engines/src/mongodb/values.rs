//! What is stored: a document `{_id: KEY, v: BYTES}` for a record, and `{_id: KEY, d: DOCUMENT}` for a record that is a JSON
//! document.
//!
//! A key is stored as a text, each byte of it as the character of this number: texts are ordered by their bytes in UTF-8, and so
//! as the keys are. (MongoDB orders byte strings by their lengths first.)

use prony_model::spec::FieldValue;
use prony_servers::mongodb::bson::{self, NoDocument, Value, Writer};

/// The name of a key.
pub(super) const KEY: &str = "_id";

/// The name of a value of bytes.
pub(super) const BYTES: &str = "v";

/// How many values MongoDB allows in one another.
pub(super) const MOST_NESTED: u32 = 100;

/// The name of a document.
pub(super) const DOCUMENT: &str = "d";

/// A key as it is stored, in place of what `text` was.
#[inline]
pub(super) fn key_text(key: &[u8], text: &mut String) {
    text.clear();
    text.extend(key.iter().map(|byte| char::from(*byte)));
}

/// The key of a text, in place of what `key` was; `None` where the text is that of no key.
#[inline]
pub(super) fn key_bytes(text: &str, key: &mut Vec<u8>) -> Option<()> {
    key.clear();
    for character in text.chars() {
        key.push(u8::try_from(character).ok()?);
    }
    Some(())
}

/// Whether every name in it can be written: a NUL would end it.
pub(super) fn can_be_stored(value: &FieldValue) -> bool {
    match value {
        FieldValue::Fields(fields) => fields.iter().all(|(name, value)| !name.contains('\0') && can_be_stored(value)),
        FieldValue::List(items) => items.iter().all(can_be_stored),
        _ => true,
    }
}

/// Writes a value of this name.
pub(super) fn write(out: &mut Writer<'_>, name: &str, value: &FieldValue) {
    match value {
        FieldValue::Null => out.null(name),
        FieldValue::Bool(flag) => out.flag(name, *flag),
        FieldValue::Int(number) => out.int64(name, *number),
        FieldValue::Float(number) => out.double(name, *number),
        FieldValue::Text(text) => out.text(name, text),
        FieldValue::List(items) => out.array(name, |out| {
            items.iter().enumerate().for_each(|(at, item)| write(out, &at.to_string(), item));
        }),
        FieldValue::Fields(fields) => out.document(name, |out| {
            fields.iter().for_each(|(name, value)| write(out, name, value));
        }),
    }
}

/// Appends a document as JSON, as [`prony_workload::encode`] writes it.
///
/// # Errors
/// Bytes that are no document, and values that JSON does not have.
pub(super) fn push_json(document: &[u8], out: &mut Vec<u8>) -> Result<(), NoDocument> {
    push_values(document, (true, MOST_NESTED), out)
}

/// The values of a document with their names, or of a list; so many are in one another at most.
fn push_values(document: &[u8], (named, most): (bool, u32), out: &mut Vec<u8>) -> Result<(), NoDocument> {
    let inside = most.checked_sub(1).ok_or(NoDocument)?;
    out.push(if named { b'{' } else { b'[' });
    for (at, field) in bson::fields(document).enumerate() {
        let (name, value) = field?;
        if at > 0 {
            out.push(b',');
        }
        if named {
            json(name, out);
            out.push(b':');
        }
        match value {
            Value::Null => out.extend_from_slice(b"null"),
            Value::Bool(flag) => json(&flag, out),
            Value::Int(number) => json(&number, out),
            Value::Double(number) => json(&number, out),
            Value::Text(text) => json(text, out),
            Value::Document(inner) => push_values(inner, (true, inside), out)?,
            Value::Array(inner) => push_values(inner, (false, inside), out)?,
            Value::Binary(_) | Value::Other => return Err(NoDocument),
        }
    }
    out.push(if named { b'}' } else { b']' });
    Ok(())
}

fn json<T: serde::Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) {
    serde_json::to_writer(out, value).expect("a value of JSON can be written into memory");
}

#[cfg(test)]
mod tests {
    use prony_model::spec::Encoding;
    use proptest::prelude::*;

    use super::*;

    fn value() -> impl Strategy<Value = FieldValue> {
        let one = prop_oneof![
            Just(FieldValue::Null),
            any::<bool>().prop_map(FieldValue::Bool),
            any::<i64>().prop_map(FieldValue::Int),
            prop::num::f64::NORMAL.prop_map(FieldValue::Float),
            any::<String>().prop_map(FieldValue::Text),
        ];
        one.prop_recursive(3, 20, 4, |inner| {
            prop_oneof![prop::collection::vec(inner.clone(), 0..4).prop_map(FieldValue::List), fields(inner)]
        })
    }

    fn fields(value: impl Strategy<Value = FieldValue>) -> impl Strategy<Value = FieldValue> {
        let field = ("[^\0]{0,4}", value).prop_map(|(name, value)| (name.as_str().into(), value));
        prop::collection::vec(field, 0..4).prop_map(FieldValue::Fields)
    }

    proptest! {
        #[test]
        fn a_document_comes_back_byte_for_byte(document in fields(value())) {
            let mut stored = Vec::new();
            bson::write(&mut stored, |out| write(out, DOCUMENT, &document));
            let Some(Value::Document(inner)) = bson::at(&stored, &[DOCUMENT]) else { panic!() };
            let (mut read, mut expected) = (Vec::new(), Vec::new());
            push_json(inner, &mut read).unwrap();
            prony_workload::encode(Encoding::Json, &document, &mut expected);
            prop_assert_eq!(read, expected);
        }

        #[test]
        fn keys_come_back_and_keep_their_order(a: Vec<u8>, b: Vec<u8>) {
            let (mut texts, mut key) = ([String::new(), String::new()], Vec::new());
            key_text(&a, &mut texts[0]);
            key_text(&b, &mut texts[1]);
            prop_assert_eq!(a.cmp(&b), texts[0].as_bytes().cmp(texts[1].as_bytes()));
            key_bytes(&texts[0], &mut key).unwrap();
            prop_assert_eq!(key, a);
        }
    }

    #[test]
    fn names_that_a_zero_would_end_cannot_be_stored() {
        let of = |name: &str| FieldValue::List(vec![FieldValue::Fields(vec![(name.into(), FieldValue::Null)])]);
        assert!(can_be_stored(&of("a")) && !can_be_stored(&of("a\0")));
        assert_eq!(key_bytes("ā", &mut Vec::new()), None);
    }
}
