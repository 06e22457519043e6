//! What is bound to a statement, in the binary form of its type.

use std::io::Write as _;

use prony_model::spec::FieldValue;
use prony_servers::postgresql::Bind;

use crate::own_query::decimal;

/// The version of the binary form of `jsonb`, which stands before its text.
pub(super) const JSONB: u8 = 1;

/// A value.
#[derive(Clone, Copy)]
pub(super) enum Value<'v> {
    /// Bytes, of `bytea` or `text`.
    Bytes(&'v [u8]),
    /// JSON, of `jsonb`.
    Json(&'v [u8]),
    /// A value that is compared with, of `text`.
    Field(&'v FieldValue),
}

impl Bind for Value<'_> {
    #[inline]
    fn write(self, out: &mut Vec<u8>) {
        match self {
            Self::Bytes(bytes) => bytes.write(out),
            Self::Json(text) => {
                out.extend((text.len() as u32 + 1).to_be_bytes());
                out.push(JSONB);
                out.extend(text);
            }
            Self::Field(value) => field(value, out),
        }
    }
}

fn field(value: &FieldValue, out: &mut Vec<u8>) {
    let from = out.len();
    out.extend([0; 4]);
    // Writing into memory does not fail.
    let _ = match value {
        FieldValue::Bool(flag) => write!(out, "{flag}"),
        FieldValue::Int(number) => write!(out, "{number}"),
        FieldValue::Float(number) => write!(out, "{}", decimal(*number)),
        FieldValue::Text(text) => {
            out.extend(text.bytes());
            Ok(())
        }
        FieldValue::Null | FieldValue::List(_) | FieldValue::Fields(_) => {
            out[from..].copy_from_slice(&(-1i32).to_be_bytes());
            return;
        }
    };
    let length = (out.len() - from - 4) as u32;
    out[from..from + 4].copy_from_slice(&length.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_texts_with_their_lengths() {
        let written = |value: Value<'_>| {
            let mut out = vec![9];
            value.write(&mut out);
            out.split_off(1)
        };
        assert_eq!(written(Value::Bytes(b"ab")), [0, 0, 0, 2, b'a', b'b']);
        assert_eq!(written(Value::Json(b"{}")), [0, 0, 0, 3, 1, b'{', b'}']);
        assert_eq!(written(Value::Field(&FieldValue::Null)), [0xff; 4]);
        assert_eq!(written(Value::Field(&FieldValue::Int(-7))), [0, 0, 0, 2, b'-', b'7']);
        assert_eq!(written(Value::Field(&FieldValue::Bool(true))), [0, 0, 0, 4, b't', b'r', b'u', b'e']);
        assert_eq!(written(Value::Field(&FieldValue::Float(1e16)))[4..], *b"10000000000000000");
    }
}
