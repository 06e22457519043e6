//! Numbers and texts of a document in BSON, version 1.1. Other values are only passed over.

/// The document at the beginning of these bytes.
pub(crate) fn document(bytes: &[u8]) -> Option<&[u8]> {
    let document = bytes.get(..length(bytes)?)?;
    (document.len() >= 5 && document.last() == Some(&0)).then_some(document)
}

/// The number at a path of names.
pub(crate) fn number(document: &[u8], path: &[&str]) -> Option<f64> {
    let (name, rest) = path.split_first()?;
    match (field(document, name)?, rest) {
        ((0x03, inner), rest) if !rest.is_empty() => number(inner, rest),
        ((0x01, bytes), []) => Some(f64::from_le_bytes(*bytes.first_chunk()?)),
        ((0x10, bytes), []) => Some(f64::from(i32::from_le_bytes(*bytes.first_chunk()?))),
        ((0x12, bytes), []) => Some(i64::from_le_bytes(*bytes.first_chunk()?) as f64),
        _ => None,
    }
}

/// The text of this name.
pub(crate) fn text<'d>(document: &'d [u8], name: &str) -> Option<&'d str> {
    let (0x02, bytes) = field(document, name)? else { return None };
    std::str::from_utf8(bytes.get(4..bytes.len().checked_sub(1)?)?).ok()
}

/// The type and the bytes of the value of this name.
fn field<'d>(document: &'d [u8], name: &str) -> Option<(u8, &'d [u8])> {
    let mut rest = document.get(4..)?;
    loop {
        let (kind, behind) = rest.split_first()?;
        if *kind == 0 {
            return None;
        }
        let end = behind.iter().position(|byte| *byte == 0)?;
        let (own, value) = (&behind[..end], &behind[end + 1..]);
        let (value, behind) = value.split_at_checked(size(*kind, value)?)?;
        if own == name.as_bytes() {
            return Some((*kind, value));
        }
        rest = behind;
    }
}

/// How many bytes a value of this type takes.
fn size(kind: u8, value: &[u8]) -> Option<usize> {
    let text = |bytes: &[u8]| length(bytes)?.checked_add(4);
    match kind {
        // Undefined, null, the least and the greatest key.
        0x06 | 0x0a | 0xff | 0x7f => Some(0),
        // A flag.
        0x08 => Some(1),
        0x10 => Some(4),
        // Floating-point numbers, dates, timestamps, whole numbers.
        0x01 | 0x09 | 0x11 | 0x12 => Some(8),
        // An object id.
        0x07 => Some(12),
        // A decimal number.
        0x13 => Some(16),
        // Texts, code and symbols.
        0x02 | 0x0d | 0x0e => text(value),
        // Documents, arrays, and code with its scope: with their own length.
        0x03 | 0x04 | 0x0f => length(value),
        // Bytes, with their kind.
        0x05 => text(value)?.checked_add(1),
        // A pointer: a text and an object id.
        0x0c => text(value)?.checked_add(12),
        // A regular expression: two texts that end with a zero.
        0x0b => {
            let mut ends = value.iter().enumerate().filter(|(_, byte)| **byte == 0);
            ends.nth(1).map(|(at, _)| at + 1)
        }
        _ => None,
    }
}

fn length(bytes: &[u8]) -> Option<usize> {
    usize::try_from(i32::from_le_bytes(*bytes.first_chunk()?)).ok()
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    fn named(kind: u8, name: &str, value: &[u8]) -> Vec<u8> {
        [&[kind], name.as_bytes(), &[0], value].concat()
    }

    /// A number of a document.
    pub(crate) fn int(name: &str, value: i32) -> Vec<u8> {
        named(0x10, name, &value.to_le_bytes())
    }

    /// A document inside of another one, or without a name a whole one.
    pub(crate) fn nested(name: &str, elements: &[Vec<u8>]) -> Vec<u8> {
        let body = elements.concat();
        let document = [&(body.len() as u32 + 5).to_le_bytes(), body.as_slice(), &[0]].concat();
        if name.is_empty() { document } else { named(0x03, name, &document) }
    }

    #[test]
    fn numbers_and_texts_are_found_behind_values_of_every_type() {
        let text = [&4_u32.to_le_bytes(), b"abc\0".as_slice()].concat();
        let mut elements = vec![
            named(0x06, "a", b""),
            named(0x0a, "b", b""),
            named(0xff, "c", b""),
            named(0x7f, "d", b""),
            named(0x08, "e", &[1]),
            named(0x09, "f", &[1; 8]),
            named(0x11, "g", &[1; 8]),
            named(0x07, "h", &[1; 12]),
            named(0x13, "i", &[1; 16]),
            named(0x0d, "j", &text),
            named(0x0e, "k", &text),
            named(0x04, "l", &nested("", &[int("0", 7)])),
            named(0x05, "m", &[&3_u32.to_le_bytes(), [0, 1, 2, 3].as_slice()].concat()),
            named(0x0c, "n", &[text.as_slice(), &[1; 12]].concat()),
            named(0x0b, "o", b"x*\0i\0"),
            named(0x02, "text", &text),
            named(0x12, "long", &(1_i64 << 40).to_le_bytes()),
            named(0x01, "double", &2.5_f64.to_le_bytes()),
            nested("in", &[int("n", -3)]),
        ];
        elements.push(int("last", 9));
        let all = nested("", &elements);
        assert_eq!(document(&all), Some(all.as_slice()));
        let at = |path: &[&str]| number(&all, path);
        assert_eq!((at(&["last"]), at(&["long"]), at(&["double"])), (Some(9.0), Some((1_i64 << 40) as f64), Some(2.5)));
        assert_eq!((at(&["in", "n"]), at(&["in"]), at(&["none"]), at(&["last", "n"])), (Some(-3.0), None, None, None));
        assert_eq!((super::text(&all, "text"), super::text(&all, "last")), (Some("abc"), None));
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..60), kind in any::<u8>()) {
            let all = nested("", &[named(kind, "x", &bytes)]);
            let _ = (document(&bytes), number(&all, &["y"]), number(&bytes, &["x", "y"]), text(&all, "x"));
        }
    }
}
