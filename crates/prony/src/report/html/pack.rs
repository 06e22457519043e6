//! Columns of numbers as little-endian 32-bit floats in base64: seven digits in five and a third characters.

use serde::{Serialize, Serializer};

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// A column of numbers; not a number where there is none.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Packed(pub(super) Vec<f32>);

impl Packed {
    /// From numbers that may be absent.
    pub(super) fn of(values: impl IntoIterator<Item = Option<f64>>) -> Self {
        Self(values.into_iter().map(|v| v.map_or(f32::NAN, |v| v as f32)).collect())
    }
}

impl Serialize for Packed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let bytes: Vec<u8> = self.0.iter().flat_map(|v| v.to_le_bytes()).collect();
        serializer.serialize_str(&base64(&bytes))
    }
}

fn base64(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let digit = ALPHABET[(word >> (18 - 6 * place) & 63) as usize];
            out.push(if place <= chunk.len() { digit as char } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_base64_of_their_bytes() {
        assert_eq!(serde_json::to_string(&Packed::of([Some(1.0), None, Some(-2.5)])).unwrap(), "\"AACAPwAAwH8AACDA\"");
        assert_eq!(base64(b"any carnal pleas"), "YW55IGNhcm5hbCBwbGVhcw==");
        assert_eq!(base64(b""), "");
    }
}
