//! Texts of requests: parts that are the same in all of them, and parts that differ.

use std::sync::Arc;

use prony_model::spec::{FieldPath, FieldValue};
use prony_workload::write_decimal;

use crate::saved::List;
use crate::session::SavedValue;

/// Where the number is written in texts of the command line.
const NUMBER: &[u8] = b"{i}";

/// A part of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// The same in all requests.
    Bytes(Vec<u8>),
    /// A saved value, the same in all requests.
    Value(Box<str>),
    /// The number of the record at hand, or of the request.
    Number,
    /// The value at hand of the list in this place among those that the load uses.
    Saved(usize),
    /// The value in this place of those that the session saved; its path, where it may be a URL of the server.
    OfSession { place: usize, is_path: bool },
    /// A field of the document at hand.
    Field(FieldPath),
}

/// How texts of two requests differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Variation {
    /// They are the same.
    #[default]
    Same,
    /// They are the same where the numbers are.
    ByNumber,
    /// They may be the same whatever the numbers are.
    Any,
}

/// A text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Text(Vec<Piece>);

/// What differs between requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Values<'v> {
    pub(crate) number: u64,
    pub(crate) lists: &'v [Arc<List>],
    /// The place in the lists.
    pub(crate) entry: usize,
    /// The values that the session saved.
    pub(crate) session: &'v [SavedValue],
    pub(crate) document: Option<&'v FieldValue>,
}

impl Text {
    /// Of these parts.
    pub(crate) fn new(pieces: Vec<Piece>) -> Self {
        let mut joined = Vec::<Piece>::new();
        for piece in pieces {
            match (piece, joined.last_mut()) {
                (Piece::Bytes(bytes), _) if bytes.is_empty() => {}
                (Piece::Bytes(bytes), Some(Piece::Bytes(before))) => before.extend_from_slice(&bytes),
                (piece, _) => joined.push(piece),
            }
        }
        Self(joined)
    }

    /// With a number wherever `{i}` is.
    pub(crate) fn numbered(text: &[u8]) -> Self {
        let (mut pieces, mut rest) = (Vec::new(), text);
        while let Some(at) = rest.windows(NUMBER.len()).position(|part| part == NUMBER) {
            pieces.extend([Piece::Bytes(rest[..at].to_vec()), Piece::Number]);
            rest = &rest[at + NUMBER.len()..];
        }
        pieces.push(Piece::Bytes(rest.to_vec()));
        Self::new(pieces)
    }

    /// The same as a path, which may begin with a value that is a URL.
    pub(crate) fn of_path(mut self) -> Self {
        if let Some(Piece::OfSession { is_path, .. }) = self.0.first_mut() {
            *is_path = true;
        }
        self
    }

    /// The part with which it begins.
    pub(crate) fn first_mut(&mut self) -> Option<&mut Piece> {
        self.0.first_mut()
    }

    pub(crate) fn pieces(&self) -> &[Piece] {
        &self.0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn variation(&self) -> Variation {
        let of = |piece: &Piece| match piece {
            Piece::Bytes(_) | Piece::Value(_) => Variation::Same,
            Piece::Number => Variation::ByNumber,
            Piece::Saved(_) | Piece::OfSession { .. } | Piece::Field(_) => Variation::Any,
        };
        self.0.iter().map(of).max().unwrap_or_default()
    }

    /// The parts that are written as they are.
    pub(crate) fn fixed(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Bytes(bytes) => Some(bytes.as_slice()),
            _ => None,
        })
    }

    /// Appends the text with these values.
    #[inline]
    pub(crate) fn write(&self, values: &Values<'_>, out: &mut Vec<u8>) {
        self.0.iter().for_each(|piece| piece.write(values, out));
    }

    /// The same as a path and query, in which values are percent-encoded, so that each is one segment or one value of the query. A value
    /// that begins the path or the query is a path or a query itself, and so is a path that a server gave.
    pub(crate) fn write_in_path(&self, values: &Values<'_>, out: &mut Vec<u8>) {
        let begin = out.len();
        for piece in &self.0 {
            let from = out.len();
            piece.write(values, out);
            let before = &out[begin..from];
            let begins = before.is_empty() || before.ends_with(b"?");
            match piece {
                Piece::Bytes(_) | Piece::Number => {}
                Piece::Value(_) | Piece::Saved(_) | Piece::OfSession { .. }
                    if begins || is_path(before, &out[from..]) =>
                {
                    // The fragment of a link is for its reader: no request contains it.
                    let end = out[from..].iter().position(|byte| *byte == b'#').map_or(out.len(), |at| from + at);
                    out.truncate(end);
                    encode(out, from, |rest| rest[0].is_ascii_graphic());
                }
                Piece::Value(_) | Piece::Saved(_) | Piece::OfSession { .. } => {
                    encode(out, from, |rest| is_unreserved(rest[0]) || is_encoded(rest));
                }
                Piece::Field(_) if begins => encode(out, from, |rest| rest[0].is_ascii_graphic()),
                Piece::Field(_) => encode(out, from, |rest| is_unreserved(rest[0])),
            }
        }
    }
}

/// Whether a value that a server gave goes on with the path, of which this is before it: after a slash it is a segment, such as an
/// identifier that begins with one.
fn is_path(before: &[u8], value: &[u8]) -> bool {
    value.starts_with(b"/") && !before.ends_with(b"/") && !before.contains(&b'?')
}

/// RFC 3986, section 2.3: all other bytes may mean something else, or nothing, in some part of a URL.
const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// Whether a byte begins one that is percent-encoded already, as in a part of a link.
fn is_encoded(rest: &[u8]) -> bool {
    matches!(rest, [b'%', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit())
}

impl Piece {
    #[inline]
    fn write(&self, values: &Values<'_>, out: &mut Vec<u8>) {
        match self {
            Self::Bytes(bytes) => out.extend_from_slice(bytes),
            Self::Value(value) => out.extend_from_slice(value.as_bytes()),
            Self::Number => write_decimal(values.number, out),
            Self::Saved(list) => {
                let value = values.lists.get(*list).and_then(|list| list.value(values.entry));
                out.extend_from_slice(value.unwrap_or_default().as_bytes());
            }
            Self::OfSession { place, is_path } => {
                let value = values.session.get(*place).map(|value| value.text(*is_path)).unwrap_or_default();
                out.extend_from_slice(value.as_bytes());
            }
            Self::Field(path) => write_field(values.document.and_then(|document| document.at(&path.0)), out),
        }
    }
}

/// A text without quotation marks, any other value as JSON; nothing where the document has no such field.
fn write_field(value: Option<&FieldValue>, out: &mut Vec<u8>) {
    match value {
        None => {}
        Some(FieldValue::Text(text)) => out.extend_from_slice(text.as_bytes()),
        // Writing to memory does not fail, and keys are texts.
        Some(value) => drop(serde_json::to_writer(out, value)),
    }
}

/// Percent-encodes each byte after `from` that does not stay, by itself and those that follow it.
fn encode(out: &mut Vec<u8>, from: usize, stays: impl Fn(&[u8]) -> bool) {
    if (from..out.len()).all(|at| stays(&out[at..])) {
        return;
    }
    let raw = out.split_off(from);
    for (at, byte) in raw.iter().enumerate() {
        if stays(&raw[at..]) {
            out.push(*byte);
        } else {
            out.extend_from_slice(format!("%{byte:02X}").as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(path: &str) -> Piece {
        Piece::Field(path.parse().unwrap())
    }

    fn fields(fields: &[(&str, FieldValue)]) -> FieldValue {
        FieldValue::Fields(fields.iter().map(|(name, value)| ((*name).into(), value.clone())).collect())
    }

    #[test]
    fn values_are_where_their_parts_are() {
        let inner = fields(&[("city", FieldValue::Text("a \"b\"\u{e9}".to_owned())), ("n", FieldValue::Int(-4))]);
        let document = fields(&[("name", FieldValue::Text("x/y".to_owned())), ("inner", inner)]);
        let lists = [Arc::new(List::of([(0, "/s/0"), (1, "/s/1")]))];
        let text = Text::new(vec![
            Piece::Saved(0),
            Piece::Bytes(b"?n=".to_vec()),
            Piece::Number,
            Piece::Bytes(b"&c=".to_vec()),
            field("inner.city"),
            field("missing"),
            field("inner.n"),
            field("name"),
        ]);
        let values = Values { number: 7, lists: &lists, entry: 1, session: &[], document: Some(&document) };
        let (mut plain, mut path) = (Vec::new(), Vec::new());
        text.write(&values, &mut plain);
        text.write_in_path(&values, &mut path);
        assert_eq!(String::from_utf8(plain).unwrap(), "/s/1?n=7&c=a \"b\"\u{e9}-4x/y");
        assert_eq!(String::from_utf8(path).unwrap(), "/s/1?n=7&c=a%20%22b%22%C3%A9-4x%2Fy");
        let mut object = Vec::new();
        Text::new(vec![field("inner")]).write(&values, &mut object);
        assert_eq!(String::from_utf8(object).unwrap(), "{\"city\":\"a \\\"b\\\"\u{e9}\",\"n\":-4}");
    }

    /// Else `Smith & Sons` asks for `Smith`, `C#` for `C`, and `a+b` for `a b`.
    #[test]
    fn fields_in_paths_are_one_segment_or_one_value() {
        let text =
            Text::new(vec![Piece::Bytes(b"/s/".to_vec()), field("v"), Piece::Bytes(b"?q=".to_vec()), field("v")]);
        for (value, encoded) in [
            ("Smith & Sons", "Smith%20%26%20Sons"),
            ("C#", "C%23"),
            ("50%", "50%25"),
            ("a+b=c", "a%2Bb%3Dc"),
            ("/x?y", "%2Fx%3Fy"),
            ("%41", "%2541"),
            ("a-b_c.d~0", "a-b_c.d~0"),
        ] {
            let document = fields(&[("v", FieldValue::Text(value.to_owned()))]);
            let values = Values { number: 0, lists: &[], entry: 0, session: &[], document: Some(&document) };
            let mut path = Vec::new();
            text.write_in_path(&values, &mut path);
            assert_eq!(String::from_utf8(path).unwrap(), format!("/s/{encoded}?q={encoded}"), "{value}");
        }
        let document = fields(&[("v", FieldValue::Text("/a?b=c d&e".to_owned()))]);
        let values = Values { number: 0, lists: &[], entry: 0, session: &[], document: Some(&document) };
        for before in ["", "/s?"] {
            let mut path = Vec::new();
            Text::new(vec![Piece::Bytes(before.into()), field("v")]).write_in_path(&values, &mut path);
            let expected = format!("{before}/a?b=c%20d&e");
            assert_eq!(String::from_utf8(path).unwrap(), expected, "a path or a query itself");
        }
    }

    #[test]
    fn saved_values_are_encoded_unless_they_are_paths_or_queries() {
        let path = |pieces: &[&str], value: &str| {
            let lists = [Arc::new(List::of([(0, value)]))];
            let values = Values { number: 0, lists: &lists, entry: 0, session: &[], document: None };
            let written = |saved: &Piece| {
                let piece = |text: &&str| match *text {
                    "{}" => saved.clone(),
                    text => Piece::Bytes(text.as_bytes().to_vec()),
                };
                let mut out = b"GET ".to_vec();
                Text::new(pieces.iter().map(piece).collect()).write_in_path(&values, &mut out);
                String::from_utf8(out).unwrap()
            };
            // One value for all requests was written as it is.
            let (one, each) = (written(&Piece::Value(value.into())), written(&Piece::Saved(0)));
            assert_eq!(one, each);
            each
        };
        assert_eq!(path(&["{}"], "/s/1?n=2#top"), "GET /s/1?n=2", "the fragment of a link");
        assert_eq!(path(&["/api", "{}"], "/s#top"), "GET /api/s");
        assert_eq!(path(&["{}", "/x"], "/s/1?n=a%20b&c=\u{e9}"), "GET /s/1?n=a%20b&c=%C3%A9/x", "it begins the path");
        assert_eq!(path(&["/api", "{}"], "/s/1?n=2"), "GET /api/s/1?n=2", "a path of the server");
        assert_eq!(path(&["/list?", "{}"], "page=2&limit=5"), "GET /list?page=2&limit=5", "a query of the server");
        assert_eq!(path(&["/s/", "{}", "/x"], "a/b#c"), "GET /s/a%2Fb%23c/x");
        assert_eq!(path(&["/s/", "{}"], "/9j/4AAQ"), "GET /s/%2F9j%2F4AAQ", "an identifier in base64");
        assert_eq!(path(&["/s?c=", "{}"], "/a+b=&"), "GET /s?c=%2Fa%2Bb%3D%26");
        assert_eq!(path(&["/s?c=", "{}"], "a%2Bb%"), "GET /s?c=a%2Bb%25", "a part of a link is encoded already");
    }

    #[test]
    fn texts_vary_as_their_parts_do() {
        assert_eq!(Text::numbered(b"abc").variation(), Variation::Same);
        assert_eq!(Text::numbered(b"a{i}c{i}").variation(), Variation::ByNumber);
        assert_eq!(Text::new(vec![Piece::Number, Piece::Saved(0)]).variation(), Variation::Any);
        let numbered = Text::numbered(b"{i}b{i}");
        assert_eq!(numbered.pieces(), [Piece::Number, Piece::Bytes(b"b".to_vec()), Piece::Number]);
        assert_eq!(numbered.fixed().collect::<Vec<_>>(), [b"b"]);
        assert!(Text::numbered(b"").is_empty());
    }
}
