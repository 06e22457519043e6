//! The bytes of a request: its own number is written where `{i}` is.

use prony_workload::NumberedText;

use crate::asked::Asked;
use crate::error::Fault;
use crate::target::Target;

/// Where the number of the request is written.
const NUMBER: &[u8] = b"{i}";

/// The requests of a load, by number.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    method: String,
    /// Method, path and header fields, without the last line feed.
    head: NumberedText,
    body: NumberedText,
    /// Whether the length of the body is said.
    says_length: bool,
    paths: bool,
    /// The request where all are the same.
    same: Option<Vec<u8>>,
}

impl Template {
    /// The requests that somebody asks for.
    pub(crate) fn new(target: &Target, asked: &Asked) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        let method = match (&asked.method, &asked.body) {
            (Some(method), _) => method.clone(),
            (None, Some(_)) => "POST".to_owned(),
            (None, None) => "GET".to_owned(),
        };
        if method.is_empty() || !method.bytes().all(is_of_token) {
            faults.push(Fault::new(format!("`{method}` is no method"), "write it as `--method POST`"));
        }
        let fields: Vec<(&str, &str)> =
            asked.headers.iter().filter_map(|text| field(text).map_err(|fault| faults.push(fault)).ok()).collect();
        if !faults.is_empty() {
            return Err(faults);
        }
        let has = |name: &str| fields.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
        let mut head = format!("{method} {} HTTP/1.1\r\n", target.path);
        if !has("host") {
            head += &format!("Host: {}\r\n", target.authority);
        }
        if !has("user-agent") {
            head += concat!("User-Agent: prony/", env!("CARGO_PKG_VERSION"), "\r\n");
        }
        fields.iter().for_each(|(name, value)| head += &format!("{name}: {value}\r\n"));
        // A server may wait for a body of these methods that does not come (RFC 9110, section 8.6).
        let says_length = asked.body.is_some() || matches!(method.as_str(), "POST" | "PUT" | "PATCH");
        let (head, body) = (parts(head.as_bytes()), parts(asked.body.as_deref().unwrap_or_default()));
        let paths = target.path.as_bytes().windows(NUMBER.len()).any(|part| part == NUMBER);
        let mut template = Self { method, head, body, says_length, paths, same: None };
        if !template.head.has_number() && !template.body.has_number() {
            let mut same = Vec::new();
            template.write(0, &mut same);
            template.same = Some(same);
        }
        Ok(template)
    }

    pub(crate) fn method(&self) -> &str {
        &self.method
    }

    /// Whether answers have no body.
    pub(crate) fn is_head(&self) -> bool {
        self.method == "HEAD"
    }

    /// Whether each request has a path of its own.
    pub(crate) fn has_own_paths(&self) -> bool {
        self.paths
    }

    /// Whether each request has a body of its own; `None` where requests have no body.
    pub(crate) fn has_own_bodies(&self) -> Option<bool> {
        (self.body.len(0) > 0).then(|| self.body.has_number())
    }

    /// Writes the request with this number, unless all are the same.
    #[inline]
    pub(crate) fn write(&self, number: u64, out: &mut Vec<u8>) {
        if self.same.is_some() {
            return;
        }
        out.clear();
        self.head.write(number, out);
        if self.says_length {
            out.extend_from_slice(b"Content-Length: ");
            prony_workload::write_decimal(self.body.len(number) as u64, out);
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"\r\n");
        self.body.write(number, out);
    }

    /// The bytes to send, where `own` is what [`Template::write`] wrote.
    #[inline]
    pub(crate) fn bytes<'a>(&'a self, own: &'a [u8]) -> &'a [u8] {
        self.same.as_deref().unwrap_or(own)
    }
}

/// The parts between the numbers.
fn parts(text: &[u8]) -> NumberedText {
    let (mut parts, mut rest) = (Vec::new(), text);
    while let Some(at) = rest.windows(NUMBER.len()).position(|part| part == NUMBER) {
        parts.push(rest[..at].to_vec());
        rest = &rest[at + NUMBER.len()..];
    }
    parts.push(rest.to_vec());
    NumberedText::of_bytes(parts)
}

/// Name and value of a header field.
fn field(text: &str) -> Result<(&str, &str), Fault> {
    let fault = |what: &str, hint: &str| Err(Fault::new(format!("`{text}` is no header field: {what}"), hint));
    let Some((name, value)) = text.split_once(':') else {
        return fault("it has no colon", "write it as `-H 'Name: value'`");
    };
    if name.is_empty() || !name.bytes().all(is_of_token) {
        return fault("its name has other characters than letters, digits and `-`", "write it as `-H 'Name: value'`");
    }
    if value.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t') {
        return fault("its value has a control character", "write it as `-H 'Name: value'`");
    }
    if ["content-length", "transfer-encoding"].iter().any(|own| name.eq_ignore_ascii_case(own)) {
        return fault("the load generator sets it itself", "leave it out; the length is that of the body");
    }
    Ok((name, value.trim()))
}

/// Characters of methods and names (RFC 9110, section 5.6.2).
fn is_of_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(url: &str, change: impl FnOnce(&mut Asked)) -> Template {
        let mut asked = Asked::of(url);
        change(&mut asked);
        Template::new(&Target::parse(url).unwrap(), &asked).unwrap()
    }

    fn written(template: &Template, number: u64) -> String {
        let mut own = b"what was there before".to_vec();
        template.write(number, &mut own);
        String::from_utf8(template.bytes(&own).to_vec()).unwrap()
    }

    #[test]
    fn request_without_number_is_always_the_same() {
        let get = template("http://a:81/x?y", |_| {});
        let agent = concat!("User-Agent: prony/", env!("CARGO_PKG_VERSION"), "\r\n");
        assert_eq!(written(&get, 7), format!("GET /x?y HTTP/1.1\r\nHost: a:81\r\n{agent}\r\n"));
        assert_eq!((get.has_own_paths(), get.has_own_bodies(), get.is_head()), (false, None, false));
    }

    #[test]
    fn number_is_written_into_path_and_body() {
        let post = template("http://a/x/{i}", |asked| {
            asked.body = Some(b"{\"id\":{i},\"again\":\"{i}\"}".to_vec());
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
        assert_eq!((post.has_own_paths(), post.has_own_bodies()), (true, Some(true)));
    }

    #[test]
    fn length_is_said_where_a_body_may_be_expected() {
        for (method, says) in [("GET", false), ("DELETE", false), ("HEAD", false), ("POST", true), ("PUT", true)] {
            let one = template("http://a/", |asked| asked.method = Some(method.to_owned()));
            assert_eq!(written(&one, 0).contains("Content-Length: 0\r\n"), says, "{method}");
        }
        let bytes = template("http://a/", |asked| asked.body = Some(vec![0, 255, 13, 10]));
        let mut own = Vec::new();
        bytes.write(0, &mut own);
        assert!(bytes.bytes(&own).ends_with(b"Content-Length: 4\r\n\r\n\0\xff\r\n"));
        assert_eq!(bytes.has_own_bodies(), Some(false));
    }

    #[test]
    fn header_fields_that_would_break_the_request_are_refused() {
        for text in ["a", ": b", "a b: c", "a: b\r\nc: d", "Content-Length: 5", "transfer-encoding: chunked", "a: \0"] {
            assert!(field(text).is_err(), "{text:?}");
        }
        assert_eq!(field("X-A:  b: c ").unwrap(), ("X-A", "b: c"));
    }
}
