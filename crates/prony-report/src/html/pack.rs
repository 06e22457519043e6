//! Columns of numbers as little-endian 32-bit floats in base64: seven digits in five and a third characters.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Serialize, Serializer};

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
        serializer.serialize_str(&STANDARD.encode(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_base64_of_their_bytes() {
        assert_eq!(serde_json::to_string(&Packed::of([Some(1.0), None, Some(-2.5)])).unwrap(), "\"AACAPwAAwH8AACDA\"");
        assert_eq!(serde_json::to_string(&Packed::of([])).unwrap(), "\"\"");
    }
}
