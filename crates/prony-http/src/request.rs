//! The bytes of requests: what is the same in all of them is put together once, the rest is written for each.

use std::sync::Arc;

use prony_workload::write_decimal;
use xxhash_rust::xxh3::xxh3_64;

use crate::answer::Wanted;
use crate::error::Fault;
use crate::file_body::FileBody;
use crate::outgoing::{About, Outgoing};
use crate::text::{Piece, Text, Values, Variation};

/// A body.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    /// None.
    None,
    /// A text; of no bytes it is a body too.
    Text(Text),
    /// The document at hand as JSON.
    Document,
    /// A file that is read while it is sent.
    File(Arc<FileBody>),
}

/// The parts of the requests of a load.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    /// Without one `GET`, or `POST` where there is a body.
    pub(crate) method: Option<String>,
    pub(crate) path: Text,
    /// Names and values of header fields.
    pub(crate) fields: Vec<(String, Text)>,
    pub(crate) body: Body,
}

/// The requests of a load.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    method: String,
    path: Text,
    /// What follows the path, without the last line feeds.
    head: Vec<Line>,
    body: Body,
    /// Whether the length of the body is said.
    says_length: bool,
    /// Whether it says that the connection ends with its answer.
    closes: bool,
    /// The request where all are the same.
    same: Option<(Vec<u8>, About)>,
    /// Whether other requests may differ where their numbers are the same.
    is_of_mix: bool,
    /// What is read of its answers.
    wanted: Wanted,
}

/// A part of the head.
#[derive(Clone, Debug)]
enum Line {
    /// Nothing in it can break the request.
    Safe(Text),
    /// The value of the header field of this name, which must not break it.
    Value(String, Text),
}

impl Line {
    fn text(&self) -> &Text {
        match self {
            Self::Safe(text) | Self::Value(_, text) => text,
        }
    }
}

impl Template {
    /// Requests to this server of these parts.
    ///
    /// # Errors
    /// All faults in them.
    pub(crate) fn new(authority: &str, parts: Parts) -> Result<Self, Vec<Fault>> {
        let Parts { method, path, fields, body } = parts;
        let mut faults = Vec::new();
        let usual = if matches!(body, Body::None) { "GET" } else { "POST" };
        let method = method.unwrap_or_else(|| usual.to_owned());
        if method.is_empty() || !method.bytes().all(is_of_token) {
            faults.push(Fault::new(format!("`{method}` is not a valid HTTP method"), "write it as `--method POST`"));
        }
        faults.extend(fields.iter().filter_map(|(name, value)| fault_of_field(name, value)));
        if !faults.is_empty() {
            return Err(faults);
        }
        let head = head(authority, &fields, &body);
        // A server may wait for a body of these methods that does not come (RFC 9110, section 8.6).
        let says_length = !matches!(body, Body::None) || matches!(method.as_str(), "POST" | "PUT" | "PATCH");
        let (same, is_of_mix, wanted) = (None, false, Wanted::default());
        let closes = fields.iter().any(|(name, value)| name.eq_ignore_ascii_case("connection") && closes(value));
        let mut template = Self { method, path, head, body, says_length, closes, same, is_of_mix, wanted };
        if template.is_same() {
            let mut out = Outgoing::default();
            let none = Values { number: 0, lists: &[], entry: 0, session: &[], document: None };
            template.write(&none, &mut out, &mut Vec::new()).map_err(|why| vec![Fault::new(why, "")])?;
            template.same = Some((out.bytes, out.about));
        }
        Ok(template)
    }

    fn is_same(&self) -> bool {
        let same = |text: &Text| text.variation() == Variation::Same;
        let body = match &self.body {
            Body::None => true,
            Body::Text(text) => same(text),
            Body::Document | Body::File(_) => false,
        };
        body && same(&self.path) && self.head.iter().all(|line| same(line.text()))
    }

    pub(crate) fn method(&self) -> &str {
        &self.method
    }

    /// Whether answers have no body.
    pub(crate) fn is_head(&self) -> bool {
        self.method == "HEAD"
    }

    /// Whether each request has a file open.
    pub(crate) fn reads_files(&self) -> bool {
        matches!(self.body, Body::File(_))
    }

    /// Says what is read of its answers.
    pub(crate) fn set_wanted(&mut self, wanted: Wanted) {
        self.wanted = wanted;
        if let Some((_, about)) = &mut self.same {
            about.wanted = wanted;
        }
    }

    /// Makes it one of several kinds, whose paths and bodies are distinguished by what they are.
    pub(crate) fn set_of_mix(&mut self) {
        (self.is_of_mix, self.same) = (true, None);
    }

    fn variation(&self, own: Variation) -> Variation {
        if self.is_of_mix { Variation::Any } else { own }
    }

    /// How the paths of two requests differ.
    pub(crate) fn paths(&self) -> Variation {
        self.variation(self.path.variation())
    }

    /// How their bodies differ; `None` where they have none.
    pub(crate) fn bodies(&self) -> Option<Variation> {
        let own = match &self.body {
            Body::None => None,
            Body::Text(text) => (!text.is_empty()).then(|| text.variation()),
            Body::Document => Some(Variation::Any),
            Body::File(file) => Some(file.variation()),
        };
        own.map(|own| self.variation(own))
    }

    /// The request where all are the same.
    #[inline]
    pub(crate) fn same(&self) -> Option<&[u8]> {
        self.same.as_ref().map(|(bytes, _)| bytes.as_slice())
    }

    /// What is known of that request.
    #[inline]
    pub(crate) fn about_same(&self) -> About {
        self.same.as_ref().map(|(_, about)| *about).unwrap_or_default()
    }

    /// Writes the request with these values into `out`, which is empty.
    ///
    /// # Errors
    /// Why there is no such request.
    pub(crate) fn write(&self, values: &Values<'_>, out: &mut Outgoing, scratch: &mut Vec<u8>) -> Result<(), String> {
        let hash = |variation: Variation, bytes: &[u8]| if variation == Variation::Any { xxh3_64(bytes) } else { 0 };
        out.bytes.extend_from_slice(self.method.as_bytes());
        out.bytes.push(b' ');
        let from = out.bytes.len();
        self.path.write_in_path(values, &mut out.bytes);
        let path = &out.bytes[from..];
        if path.first() != Some(&b'/') {
            return Err(format!("`{}` is no path: it does not begin with `/`", String::from_utf8_lossy(path)));
        }
        out.about.path = hash(self.paths(), path);
        for line in &self.head {
            let from = out.bytes.len();
            match line {
                Line::Safe(text) => text.write(values, &mut out.bytes),
                Line::Value(name, text) => {
                    text.write(values, &mut out.bytes);
                    if out.bytes[from..].iter().any(|byte| is_breaking(*byte)) {
                        return Err(format!("the value of the header field `{name}` has a control character"));
                    }
                    out.bytes.extend_from_slice(b"\r\n");
                }
            }
        }
        scratch.clear();
        match &self.body {
            Body::None => {}
            Body::Text(text) => text.write(values, scratch),
            Body::Document => {
                let document = values.document.ok_or("there is no document at hand")?;
                serde_json::to_writer(&mut *scratch, document).map_err(|error| error.to_string())?;
            }
            Body::File(file) => {
                let reading = file.open(values, scratch).map_err(|error| error.to_string())?;
                out.reading = Some(Box::new(reading));
            }
        }
        out.about.has_body = self.bodies().is_some();
        out.about.is_head = self.is_head();
        out.about.closes = self.closes;
        out.about.wanted = self.wanted;
        out.about.body = hash(self.bodies().unwrap_or_default(), scratch);
        out.about.length = out.reading.as_ref().map_or(scratch.len() as u64, |reading| reading.left());
        if self.says_length {
            out.bytes.extend_from_slice(b"Content-Length: ");
            write_decimal(out.about.length, &mut out.bytes);
            out.bytes.extend_from_slice(b"\r\n");
        }
        out.bytes.extend_from_slice(b"\r\n");
        out.about.head = out.bytes.len() as u64;
        if out.reading.is_none() {
            out.bytes.extend_from_slice(scratch);
        }
        Ok(())
    }
}

/// What follows the path.
fn head(authority: &str, fields: &[(String, Text)], body: &Body) -> Vec<Line> {
    let has = |name: &str| fields.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
    let mut safe = " HTTP/1.1\r\n".to_owned();
    if !has("host") {
        safe += &format!("Host: {authority}\r\n");
    }
    if !has("user-agent") {
        safe += concat!("User-Agent: prony/", env!("CARGO_PKG_VERSION"), "\r\n");
    }
    if matches!(body, Body::Document) && !has("content-type") {
        safe += "Content-Type: application/json\r\n";
    }
    let (mut lines, mut pieces) = (Vec::new(), vec![Piece::Bytes(safe.into_bytes())]);
    for (name, value) in fields {
        pieces.push(Piece::Bytes(format!("{name}: ").into_bytes()));
        if value.variation() == Variation::Any {
            lines.push(Line::Safe(Text::new(std::mem::take(&mut pieces))));
            lines.push(Line::Value(name.clone(), value.clone()));
        } else {
            pieces.extend_from_slice(value.pieces());
            pieces.push(Piece::Bytes(b"\r\n".to_vec()));
        }
    }
    lines.push(Line::Safe(Text::new(pieces)));
    lines
}

/// Name and value of a header field of the command line.
///
/// # Errors
/// Where there is no colon.
pub(crate) fn field(text: &str) -> Result<(String, Text), Fault> {
    let Some((name, value)) = text.split_once(':') else {
        let message = format!("`{text}` is no header field: it has no colon");
        return Err(Fault::new(message, "write it as `-H 'Name: value'`"));
    };
    Ok((name.to_owned(), Text::numbered(value.trim().as_bytes())))
}

/// Whether a `Connection` field of this value ends the connection.
fn closes(value: &Text) -> bool {
    value
        .fixed()
        .flat_map(|text| text.split(|byte| *byte == b','))
        .any(|item| item.trim_ascii().eq_ignore_ascii_case(b"close"))
}

fn fault_of_field(name: &str, value: &Text) -> Option<Fault> {
    let fault = |what: &str, hint: &str| Some(Fault::new(format!("`{name}` is no header field: {what}"), hint));
    let example = "write it as `-H 'Name: value'`";
    if name.is_empty() || !name.bytes().all(is_of_token) {
        return fault("its name has other characters than letters, digits and `-`", example);
    }
    if value.fixed().flatten().any(|byte| is_breaking(*byte)) {
        return fault("its value has a control character", example);
    }
    if ["content-length", "transfer-encoding"].iter().any(|own| name.eq_ignore_ascii_case(own)) {
        return fault("the load generator sets it itself", "leave it out; the length is that of the body");
    }
    None
}

/// Characters that no value of a header field contains.
pub(crate) fn is_breaking(byte: u8) -> bool {
    byte.is_ascii_control() && byte != b'\t'
}

/// Characters of methods and names (RFC 9110, section 5.6.2).
fn is_of_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use prony_model::spec::FieldValue;

    use super::*;
    use crate::asked::Asked;
    use crate::checked_load::Load;

    fn template(url: &str, change: impl FnOnce(&mut Asked)) -> Template {
        let mut asked = Asked::of(url);
        change(&mut asked);
        Load::check(asked).unwrap().content().kinds.template(0).clone()
    }

    fn bytes(template: &Template, values: &Values<'_>) -> Result<Vec<u8>, String> {
        let (mut out, mut scratch) = (Outgoing::default(), b"what was there before".to_vec());
        template.write(values, &mut out, &mut scratch)?;
        assert_eq!(out.about.head + out.about.length, out.bytes.len() as u64);
        if let Some(same) = template.same() {
            assert_eq!(same, out.bytes);
        }
        Ok(out.bytes)
    }

    fn numbered(number: u64) -> Values<'static> {
        Values { number, lists: &[], entry: 0, session: &[], document: None }
    }

    fn written(template: &Template, number: u64) -> String {
        String::from_utf8(bytes(template, &numbered(number)).unwrap()).unwrap()
    }

    #[test]
    fn request_without_number_is_always_the_same() {
        let get = template("http://a:81/x?y", |_| {});
        let agent = concat!("User-Agent: prony/", env!("CARGO_PKG_VERSION"), "\r\n");
        assert_eq!(written(&get, 7), format!("GET /x?y HTTP/1.1\r\nHost: a:81\r\n{agent}\r\n"));
        assert_eq!((get.paths(), get.bodies(), get.is_head()), (Variation::Same, None, false));
        assert!(get.same().is_some());
    }

    #[test]
    fn number_is_written_into_path_and_body() {
        let post = template("http://a/x/{i}", |asked| {
            asked.body = Some(b"{\"id\":{i},\"again\":\"{i}\"}".to_vec().into());
            asked.headers = vec!["host: b".to_owned(), "User-Agent:me".to_owned()];
        });
        for number in [0, 9, 10, 12_345] {
            let body = format!("{{\"id\":{number},\"again\":\"{number}\"}}");
            let expected = format!(
                "POST /x/{number} HTTP/1.1\r\nhost: b\r\nUser-Agent: me\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
            assert_eq!(written(&post, number), expected);
        }
        assert_eq!((post.paths(), post.bodies()), (Variation::ByNumber, Some(Variation::ByNumber)));
    }

    #[test]
    fn length_is_said_where_a_body_may_be_expected() {
        for (method, says) in [("GET", false), ("DELETE", false), ("HEAD", false), ("POST", true), ("PUT", true)] {
            let one = template("http://a/", |asked| asked.method = Some(method.to_owned()));
            assert_eq!(written(&one, 0).contains("Content-Length: 0\r\n"), says, "{method}");
        }
        let binary = template("http://a/", |asked| asked.body = Some(vec![0, 255, 13, 10].into()));
        assert!(bytes(&binary, &numbered(0)).unwrap().ends_with(b"Content-Length: 4\r\n\r\n\0\xff\r\n"));
        assert_eq!(binary.bodies(), Some(Variation::Same));
    }

    #[test]
    fn header_fields_that_would_break_the_request_are_refused() {
        for text in ["a", ": b", "a b: c", "a: b\r\nc: d", "Content-Length: 5", "transfer-encoding: chunked", "a: \0"] {
            let asked = Asked { headers: vec![text.to_owned()], ..Asked::of("http://a/") };
            assert_eq!(Load::check(asked).unwrap_err().len(), 1, "{text:?}");
        }
        let spaced = template("http://a/", |asked| asked.headers = vec!["X-A:  b: c {i} ".to_owned()]);
        assert!(written(&spaced, 5).contains("\r\nX-A: b: c 5\r\n"));
    }

    #[test]
    fn values_of_documents_are_written_and_break_nothing() {
        let field = |name: &str| Text::new(vec![Piece::Field(name.parse().unwrap())]);
        let parts = Parts {
            method: None,
            path: field("path"),
            fields: vec![("X-A".to_owned(), field("header")), ("X-B".to_owned(), Text::numbered(b"b"))],
            body: Body::Document,
        };
        let template = Template::new("a", parts).unwrap();
        let document = |path: &str, header: &str| {
            let text = |text: &str| FieldValue::Text(text.to_owned());
            FieldValue::Fields(vec![("path".into(), text(path)), ("header".into(), text(header))])
        };
        let write = |document: &FieldValue| bytes(&template, &Values { document: Some(document), ..numbered(0) });
        let text = String::from_utf8(write(&document("/a b\r\n", "c d")).unwrap()).unwrap();
        assert!(text.starts_with("POST /a%20b%0D%0A HTTP/1.1\r\nHost: a\r\n"), "{text}");
        assert!(text.contains("\r\nContent-Type: application/json\r\nX-A: c d\r\nX-B: b\r\n"), "{text}");
        assert!(text.ends_with("\r\n\r\n{\"path\":\"/a b\\r\\n\",\"header\":\"c d\"}"), "{text}");
        assert!(write(&document("http://b/", "c")).unwrap_err().contains("no path"));
        assert!(write(&document("/", "c\r\nd")).unwrap_err().contains("`X-A`"));
        assert!(bytes(&template, &Values { document: None, ..numbered(0) }).is_err());
    }
}
