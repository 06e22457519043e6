//! The page's data as text: columns of numbers are little-endian 32-bit floats in base64, seven digits in five and a third
//! characters, and the whole is DEFLATE in base64, since captions and names repeat in each chart.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use miniz_oxide::deflate::compress_to_vec;
use serde::{Serialize, Serializer};

/// Of zlib's ten levels: higher ones take several times as long for a few percent.
const LEVEL: u8 = 6;

/// A text in DEFLATE and base64, which no character of it can leave.
pub(super) fn deflated(text: &str) -> String {
    STANDARD.encode(compress_to_vec(text.as_bytes(), LEVEL))
}

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
    fn deflated_text_is_read_back_and_cannot_leave_its_element() {
        let text = "</script><!-- a & b \u{2028}\u{202e}\u{feff}".repeat(100);
        let packed = deflated(&text);
        assert!(
            packed.len() < text.len() / 10 && packed.bytes().all(|b| b.is_ascii_alphanumeric() || b"+/=".contains(&b))
        );
        let bytes = miniz_oxide::inflate::decompress_to_vec(&STANDARD.decode(packed).unwrap()).unwrap();
        assert_eq!(String::from_utf8(bytes).unwrap(), text);
    }

    #[test]
    fn columns_are_base64_of_their_bytes() {
        assert_eq!(serde_json::to_string(&Packed::of([Some(1.0), None, Some(-2.5)])).unwrap(), "\"AACAPwAAwH8AACDA\"");
        assert_eq!(serde_json::to_string(&Packed::of([])).unwrap(), "\"\"");
    }
}
