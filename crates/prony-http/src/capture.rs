//! Finds the values of an answer that later requests use.

use std::borrow::Cow;

use httparse::{Header, Response};
use prony_model::http::{SaveSpec, SavedFrom};
use regex::bytes::Regex;
use serde_json::Value;

use crate::answer::{Extract, config};
use crate::error::Fault;
use crate::json_text::text_at;

/// Header fields that are looked through.
pub(crate) const MOST_FIELDS: usize = 256;

/// A value that is looked for in each expected answer.
#[derive(Clone, Debug)]
pub(crate) struct Capture {
    pub(crate) name: String,
    /// Whether one of each answer is saved.
    pub(crate) each: bool,
    place: Place,
    /// Its place among the values that a session saves.
    pub(crate) of_session: usize,
    /// The begin of the server's URL.
    pub(crate) server: String,
}

#[derive(Clone, Debug)]
enum Place {
    Body,
    Header(String),
    /// A JSON pointer.
    Json(String),
    Pattern(Regex),
}

impl Capture {
    /// The value of a name.
    ///
    /// # Errors
    /// Where a pattern is none or has no group, and where a JSON pointer does not begin with a slash.
    pub(crate) fn new(name: &str, spec: &SaveSpec) -> Result<Self, Fault> {
        let fault = |why: String, hint: &str| Err(Fault::new(format!("the saved value `{name}`: {why}"), hint));
        let place = match &spec.from {
            SavedFrom::Body => Place::Body,
            SavedFrom::Header(field) => Place::Header(field.clone()),
            SavedFrom::Json(pointer) if !pointer.is_empty() && !pointer.starts_with('/') => {
                return fault(format!("`{pointer}` is no JSON pointer"), "write it as `/data/id`");
            }
            SavedFrom::Json(pointer) => Place::Json(pointer.clone()),
            SavedFrom::Pattern(pattern) => match Regex::new(pattern) {
                Ok(regex) if regex.captures_len() < 2 => {
                    return fault(format!("`{pattern}` has no group"), "write it as `id=(\\d+)`");
                }
                Ok(regex) => Place::Pattern(regex),
                Err(error) => return fault(format!("`{pattern}` is no pattern: {error}"), "write it as `id=(\\d+)`"),
            },
        };
        Ok(Self { name: name.to_owned(), each: spec.each, place, of_session: 0, server: String::new() })
    }

    /// The same value, in a place among those of a session. It may be a URL of this server.
    pub(crate) fn of_session(self, of_session: usize, server: String) -> Self {
        Self { of_session, server, ..self }
    }

    /// Whether it is in the head of an answer.
    pub(crate) fn is_in_head(&self) -> bool {
        matches!(self.place, Place::Header(_))
    }

    /// Finds the value, or says why there is none.
    fn find(&self, extract: &Extract, json: Option<&Value>) -> Result<String, String> {
        let why = |what: String| format!("no value for `{}`: {what}", self.name);
        let text = |bytes: &[u8], what: &str| {
            let text = std::str::from_utf8(bytes).map_err(|_| why(format!("{what} is no text in UTF-8")))?;
            Ok(text.to_owned())
        };
        if !self.is_in_head() && extract.is_cut {
            return Err(why("the body is longer than 16 MiB".to_owned()));
        }
        match &self.place {
            Place::Body => text(extract.body.trim_ascii(), "the body"),
            Place::Header(field) => {
                let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
                let value = field_of(&extract.head, field, &mut fields);
                text(
                    &value.ok_or_else(|| why(format!("the answer has no header field `{field}`")))?,
                    "the header field",
                )
            }
            Place::Json(pointer) => {
                let json = json.ok_or_else(|| why("the body is no JSON".to_owned()))?;
                match json.pointer(pointer) {
                    None | Some(Value::Null) => Err(why(format!("the body has nothing at `{pointer}`"))),
                    Some(Value::String(text)) => Ok(text.clone()),
                    Some(value) => Ok(text_at(&extract.body, pointer).unwrap_or_else(|| value.to_string())),
                }
            }
            Place::Pattern(regex) => {
                let group = regex.captures(&extract.body).and_then(|found| found.get(1));
                text(group.ok_or_else(|| why(format!("the body does not match `{regex}`")))?.as_bytes(), "the match")
            }
        }
    }
}

/// The value of a header field of an answer.
pub(crate) fn field_of<'h>(head: &'h [u8], name: &str, fields: &mut [Header<'h>]) -> Option<Cow<'h, [u8]>> {
    let mut response = Response::new(fields);
    config().parse_response(&mut response, head).ok()?;
    let value = response.headers.iter().find(|field| field.name.eq_ignore_ascii_case(name))?.value;
    Some(if value.contains(&b'\n') { Cow::Owned(unfolded(value)) } else { Cow::Borrowed(value) })
}

/// The value of a field over several lines, which are joined by blanks.
fn unfolded(value: &[u8]) -> Vec<u8> {
    value.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).collect::<Vec<_>>().join(&b' ')
}

/// Finds all values of an answer, in the order of `captures`, or says which is missing and why.
pub(crate) fn find_all(captures: &[Capture], extract: &Extract) -> Result<Vec<String>, String> {
    let reads_json = captures.iter().any(|capture| matches!(capture.place, Place::Json(_)));
    let json = if reads_json && !extract.is_cut { serde_json::from_slice(&extract.body).ok() } else { None };
    captures.iter().map(|capture| capture.find(extract, json.as_ref())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capture(from: SavedFrom) -> Capture {
        Capture::new("id", &SaveSpec { from, each: true }).unwrap()
    }

    fn extract(body: &[u8]) -> Extract {
        let head =
            b"HTTP/1.1 201 Created\r\nLocation:  /items/5 \r\nX: \xff\r\nFolded: a\r\n \t b\r\n c\r\n\r\n".to_vec();
        Extract { head, body: body.to_vec(), is_cut: false }
    }

    #[test]
    fn values_are_found_where_they_are_asked_for() {
        let json = br#" {"id":"a\"b","n":[1,{"x":2.5}],"none":null,"":{"~":true}} "#;
        for (from, body, expected) in [
            (SavedFrom::Body, b"\r\n 12 \n".as_slice(), "12"),
            (SavedFrom::Header("location".to_owned()), b"", "/items/5"),
            (SavedFrom::Header("folded".to_owned()), b"", "a b c"),
            (SavedFrom::Json("/id".to_owned()), json, "a\"b"),
            (SavedFrom::Json("/n/1/x".to_owned()), json, "2.5"),
            (SavedFrom::Json("/n/1".to_owned()), json, "{\"x\":2.5}"),
            (SavedFrom::Json("//~0".to_owned()), json, "true"),
            (SavedFrom::Json("/n".to_owned()), b"{\"n\": 12345678901234567890123}", "12345678901234567890123"),
            (SavedFrom::Json(String::new()), b"[1]", "[1]"),
            (SavedFrom::Pattern("id=(\\d+)".to_owned()), b"\xff id=77 id=8", "77"),
        ] {
            let all = find_all(&[capture(from.clone())], &extract(body));
            assert_eq!(all, Ok(vec![expected.to_owned()]), "{from:?}");
        }
    }

    #[test]
    fn value_that_is_not_there_is_named_with_the_reason() {
        for (from, body, expected) in [
            (SavedFrom::Body, b"\xff".as_slice(), "UTF-8"),
            (SavedFrom::Header("etag".to_owned()), b"", "no header field `etag`"),
            (SavedFrom::Header("x".to_owned()), b"", "UTF-8"),
            (SavedFrom::Json("/id".to_owned()), b"{\"id\":", "no JSON"),
            (SavedFrom::Json("/id".to_owned()), b"{\"id\":null}", "nothing at `/id`"),
            (SavedFrom::Json("/id".to_owned()), b"[]", "nothing at `/id`"),
            (SavedFrom::Pattern("id=(\\d+)".to_owned()), b"id=x", "does not match"),
        ] {
            let why = find_all(&[capture(from.clone())], &extract(body)).unwrap_err();
            assert!(why.starts_with("no value for `id`: ") && why.contains(expected), "{from:?}: {why}");
        }
        let cut = Extract { is_cut: true, ..extract(b"12") };
        assert!(find_all(&[capture(SavedFrom::Body)], &cut).unwrap_err().contains("16 MiB"));
        assert!(find_all(&[capture(SavedFrom::Header("location".to_owned()))], &cut).is_ok());
    }

    #[test]
    fn places_that_cannot_be_searched_are_refused() {
        for from in [
            SavedFrom::Json("id".to_owned()),
            SavedFrom::Pattern("id=\\d+".to_owned()),
            SavedFrom::Pattern("(".to_owned()),
        ] {
            let fault = Capture::new("id", &SaveSpec { from, each: false }).unwrap_err();
            assert!(fault.message.contains("`id`"), "{}", fault.message);
        }
    }
}
