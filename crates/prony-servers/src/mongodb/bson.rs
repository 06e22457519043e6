//! Documents in BSON, version 1.1: those values that prony stores are read and written, others are only passed over.

/// A value of a document.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'d> {
    /// A floating-point number.
    Double(f64),
    /// A whole number, of 32 or 64 bits.
    Int(i64),
    /// A text.
    Text(&'d str),
    /// `true` or `false`.
    Bool(bool),
    /// Null.
    Null,
    /// A document.
    Document(&'d [u8]),
    /// A list: a document whose names are the places of the items.
    Array(&'d [u8]),
    /// Bytes.
    Binary(&'d [u8]),
    /// A value of another type.
    Other,
}

/// The document at the beginning of these bytes.
#[inline]
pub fn document(bytes: &[u8]) -> Option<&[u8]> {
    let document = bytes.get(..length(bytes)?)?;
    (document.len() >= 5 && document.last() == Some(&0)).then_some(document)
}

/// The value at a path of names.
pub fn at<'d>(document: &'d [u8], path: &[&str]) -> Option<Value<'d>> {
    let (name, rest) = path.split_first()?;
    let value = fields(document).find_map(|field| field.ok().filter(|(own, _)| own == name))?.1;
    match (value, rest) {
        (value, []) => Some(value),
        (Value::Document(inner) | Value::Array(inner), rest) => at(inner, rest),
        _ => None,
    }
}

/// The number at a path of names.
pub fn number(document: &[u8], path: &[&str]) -> Option<f64> {
    match at(document, path)? {
        Value::Double(number) => Some(number),
        Value::Int(number) => Some(number as f64),
        _ => None,
    }
}

/// The text of this name.
pub fn text<'d>(document: &'d [u8], name: &str) -> Option<&'d str> {
    if let Value::Text(text) = at(document, &[name])? { Some(text) } else { None }
}

/// The names and values of a document; ends behind an error, which bytes that are no document give.
#[inline]
pub fn fields(document: &[u8]) -> impl Iterator<Item = Result<(&str, Value<'_>), NoDocument>> {
    let mut rest = document.get(4..);
    std::iter::from_fn(move || {
        let bytes = rest?;
        if bytes == [0] {
            return None;
        }
        let next = first(bytes);
        rest = next.map(|(_, behind)| behind);
        Some(next.map(|(field, _)| field).ok_or(NoDocument))
    })
}

/// Bytes that are no document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the bytes are no document of BSON")]
pub struct NoDocument;

/// The first name and value, and the bytes behind.
#[inline]
fn first(bytes: &[u8]) -> Option<((&str, Value<'_>), &[u8])> {
    let (kind, behind) = bytes.split_first()?;
    let end = behind.iter().position(|byte| *byte == 0)?;
    let name = std::str::from_utf8(&behind[..end]).ok()?;
    let value = &behind[end + 1..];
    let (value, behind) = value.split_at_checked(size(*kind, value)?)?;
    let value = match kind {
        0x01 => Value::Double(f64::from_le_bytes(*value.first_chunk()?)),
        0x02 => Value::Text(std::str::from_utf8(value.get(4..value.len().checked_sub(1)?)?).ok()?),
        0x03 => Value::Document(value),
        0x04 => Value::Array(value),
        0x05 => Value::Binary(value.get(5..)?),
        0x08 => Value::Bool(value != [0]),
        0x0a => Value::Null,
        0x10 => Value::Int(i32::from_le_bytes(*value.first_chunk()?).into()),
        0x12 => Value::Int(i64::from_le_bytes(*value.first_chunk()?)),
        _ => Value::Other,
    };
    Some(((name, value), behind))
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

#[inline]
fn length(bytes: &[u8]) -> Option<usize> {
    usize::try_from(i32::from_le_bytes(*bytes.first_chunk()?)).ok()
}

/// Writes the fields of a document. A name must have no NUL, which ends it.
#[derive(Debug)]
pub struct Writer<'o> {
    out: &'o mut Vec<u8>,
}

/// Adds a document, whose fields `fields` writes.
#[inline]
pub fn write(out: &mut Vec<u8>, fields: impl FnOnce(&mut Writer<'_>)) {
    let begin = out.len();
    out.extend_from_slice(&[0; 4]);
    fields(&mut Writer { out });
    out.push(0);
    let length = (out.len() - begin) as u32;
    out[begin..begin + 4].copy_from_slice(&length.to_le_bytes());
}

impl Writer<'_> {
    #[inline]
    fn named(&mut self, kind: u8, name: &str) -> &mut Vec<u8> {
        self.out.push(kind);
        self.out.extend_from_slice(name.as_bytes());
        self.out.push(0);
        self.out
    }

    /// A floating-point number.
    #[inline]
    pub fn double(&mut self, name: &str, value: f64) {
        self.named(0x01, name).extend_from_slice(&value.to_le_bytes());
    }

    /// A whole number of 32 bits.
    #[inline]
    pub fn int32(&mut self, name: &str, value: i32) {
        self.named(0x10, name).extend_from_slice(&value.to_le_bytes());
    }

    /// A whole number of 64 bits.
    #[inline]
    pub fn int64(&mut self, name: &str, value: i64) {
        self.named(0x12, name).extend_from_slice(&value.to_le_bytes());
    }

    /// A text.
    #[inline]
    pub fn text(&mut self, name: &str, value: &str) {
        let out = self.named(0x02, name);
        out.extend_from_slice(&(value.len() as u32 + 1).to_le_bytes());
        out.extend_from_slice(value.as_bytes());
        out.push(0);
    }

    /// `true` or `false`.
    #[inline]
    pub fn flag(&mut self, name: &str, value: bool) {
        self.named(0x08, name).push(u8::from(value));
    }

    /// Null.
    #[inline]
    pub fn null(&mut self, name: &str) {
        self.named(0x0a, name);
    }

    /// Bytes of no particular kind.
    #[inline]
    pub fn binary(&mut self, name: &str, value: &[u8]) {
        let out = self.named(0x05, name);
        out.extend_from_slice(&(value.len() as u32).to_le_bytes());
        out.push(0);
        out.extend_from_slice(value);
    }

    /// A document, whose fields `fields` writes.
    #[inline]
    pub fn document(&mut self, name: &str, fields: impl FnOnce(&mut Writer<'_>)) {
        write(self.named(0x03, name), fields);
    }

    /// A list, whose items `items` writes with their places as names.
    #[inline]
    pub fn array(&mut self, name: &str, items: impl FnOnce(&mut Writer<'_>)) {
        write(self.named(0x04, name), items);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn named(kind: u8, name: &str, value: &[u8]) -> Vec<u8> {
        [&[kind], name.as_bytes(), &[0], value].concat()
    }

    fn whole(elements: &[Vec<u8>]) -> Vec<u8> {
        let body = elements.concat();
        [&(body.len() as u32 + 5).to_le_bytes(), body.as_slice(), &[0]].concat()
    }

    #[test]
    fn values_are_found_behind_values_of_every_type() {
        let text_of = [&4_u32.to_le_bytes(), b"abc\0".as_slice()].concat();
        let inner = named(0x10, "n", &(-3_i32).to_le_bytes());
        let all = whole(&[
            named(0x06, "a", b""),
            named(0x0a, "b", b""),
            named(0xff, "c", b""),
            named(0x7f, "d", b""),
            named(0x08, "e", &[1]),
            named(0x09, "f", &[1; 8]),
            named(0x11, "g", &[1; 8]),
            named(0x07, "h", &[1; 12]),
            named(0x13, "i", &[1; 16]),
            named(0x0d, "j", &text_of),
            named(0x0e, "k", &text_of),
            named(0x04, "l", &whole(&[named(0x10, "0", &7_i32.to_le_bytes())])),
            named(0x05, "m", &[&3_u32.to_le_bytes(), [0, 1, 2, 3].as_slice()].concat()),
            named(0x0c, "n", &[text_of.as_slice(), &[1; 12]].concat()),
            named(0x0b, "o", b"x*\0i\0"),
            named(0x02, "text", &text_of),
            named(0x12, "long", &(1_i64 << 40).to_le_bytes()),
            named(0x01, "double", &2.5_f64.to_le_bytes()),
            named(0x03, "in", &whole(&[inner])),
            named(0x10, "last", &9_i32.to_le_bytes()),
        ]);
        assert_eq!(document(&all), Some(all.as_slice()));
        let number = |path: &[&str]| number(&all, path);
        assert_eq!(
            (number(&["last"]), number(&["long"]), number(&["double"])),
            (Some(9.0), Some((1_i64 << 40) as f64), Some(2.5))
        );
        assert_eq!((number(&["in", "n"]), number(&["l", "0"])), (Some(-3.0), Some(7.0)));
        assert_eq!((number(&["in"]), number(&["none"]), number(&["last", "n"])), (None, None, None));
        assert_eq!((text(&all, "text"), text(&all, "last")), (Some("abc"), None));
        assert_eq!((at(&all, &["m"]), at(&all, &["h"])), (Some(Value::Binary(&[1, 2, 3])), Some(Value::Other)));
        assert_eq!(fields(&all).map(Result::unwrap).count(), 20);
    }

    #[test]
    fn what_is_written_is_read() {
        let mut out = b"before".to_vec();
        write(&mut out, |fields| {
            fields.double("double", -0.5);
            fields.int32("int32", -1);
            fields.int64("int64", i64::MIN);
            fields.text("text", "ä\0");
            fields.flag("flag", true);
            fields.null("null");
            fields.binary("binary", &[0, 255]);
            fields.document("document", |inner| inner.null("a"));
            fields.array("array", |items| items.flag("0", false));
        });
        let document = document(&out[6..]).unwrap();
        let read: Vec<_> = fields(document).map(Result::unwrap).collect();
        assert_eq!(
            read[..7],
            [
                ("double", Value::Double(-0.5)),
                ("int32", Value::Int(-1)),
                ("int64", Value::Int(i64::MIN)),
                ("text", Value::Text("ä\0")),
                ("flag", Value::Bool(true)),
                ("null", Value::Null),
                ("binary", Value::Binary(&[0, 255])),
            ]
        );
        assert_eq!(at(document, &["document", "a"]), Some(Value::Null));
        assert_eq!(at(document, &["array", "0"]), Some(Value::Bool(false)));
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = (document(&bytes), number(&bytes, &["a", "b"]), text(&bytes, "a"));
            fields(&bytes).for_each(drop);
        }

        #[test]
        fn a_document_that_is_cut_off_is_none(cut in 1_usize..16) {
            let mut out = Vec::new();
            write(&mut out, |fields| fields.text("a", "bcd"));
            prop_assert_eq!(document(&out[..out.len() - cut]), None);
        }
    }
}
