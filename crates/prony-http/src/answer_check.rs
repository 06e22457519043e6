//! What is read of the bodies of expected answers: whether they are right, their rows, and their digest.

use std::borrow::Cow;

use prony_model::http::AnswerSpec;
use prony_model::record::Answer;
use regex::bytes::Regex;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::answer::Extract;
use crate::capture::{MOST_FIELDS, field_of};
use crate::error::Fault;

/// Reads bodies.
#[derive(Clone, Debug)]
pub(crate) struct AnswerCheck {
    matches: Option<Regex>,
    rows: Option<Regex>,
    /// What is removed before bodies are digested; `None` where they are not.
    digest: Option<Vec<Regex>>,
}

/// What was read of answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) rows: u64,
    /// The sum of the digests of the answers, which does not depend on their order.
    pub(crate) digest: u64,
}

impl Read {
    pub(crate) fn add(&mut self, other: Self) {
        self.rows = self.rows.saturating_add(other.rows);
        self.digest = self.digest.wrapping_add(other.digest);
    }
}

impl AnswerCheck {
    /// The check of a specification.
    ///
    /// # Errors
    /// Where a pattern is none.
    pub(crate) fn new(spec: &AnswerSpec) -> Result<Self, Fault> {
        let regex = |pattern: &String| {
            Regex::new(pattern).map_err(|error| {
                Fault::new(format!("`{pattern}` is no pattern: {error}"), "write it as `\"total\":(\\d+)`")
            })
        };
        let removed = || spec.without.iter().map(regex).collect::<Result<_, _>>();
        Ok(Self {
            matches: spec.matches.as_ref().map(regex).transpose()?,
            rows: spec.rows.as_ref().map(regex).transpose()?,
            digest: spec.digest.then(removed).transpose()?,
        })
    }

    /// Whether bodies are searched, which have to be plain text for that.
    pub(crate) fn searches(&self) -> bool {
        self.matches.is_some() || self.rows.is_some()
    }

    /// Reads the answer to the request with a number, or says what is wrong with it.
    pub(crate) fn read(&self, number: u64, extract: &Extract) -> Result<Read, String> {
        if extract.is_cut {
            return Err("the body is longer than 16 MiB".to_owned());
        }
        let body = extract.body.as_slice();
        if let Some(coding) = self.searches().then(|| coding(&extract.head)).flatten() {
            return Err(format!(
                "the body is compressed (`Content-Encoding: {coding}`), and its text cannot be searched"
            ));
        }
        if let Some(regex) = self.matches.as_ref().filter(|regex| !regex.is_match(body)) {
            return Err(format!("the body does not match `{regex}`"));
        }
        let rows = self.rows.as_ref().map_or(Ok(0), |regex| rows(regex, body))?;
        // With the number, since the same answers to other requests are not the same.
        let digest = self.digest.as_ref().map_or(0, |removed| xxh3_64_with_seed(&without(removed, body), number));
        Ok(Read { rows, digest })
    }

    /// Whether rows are counted.
    pub(crate) fn counts_rows(&self) -> bool {
        self.rows.is_some()
    }

    /// Whether bodies are digested.
    pub(crate) fn digests(&self) -> bool {
        self.digest.is_some()
    }
}

impl Read {
    /// The answers of a phase, from what was read of all of them by these checks. They are `comparable` where the same requests
    /// were sent in each trial and each of them was answered. `None` where nothing was read.
    pub(crate) fn answer<'c>(
        self,
        checks: impl Iterator<Item = &'c AnswerCheck> + Clone,
        comparable: bool,
    ) -> Option<Answer> {
        let rows = checks.clone().any(AnswerCheck::counts_rows).then_some(self.rows);
        let digest = match checks.clone().any(AnswerCheck::digests) {
            true => format!("bodies:{:016x}", self.digest),
            false => format!("rows:{}", rows?),
        };
        Some(Answer { rows, digest, comparable })
    }
}

/// How a body is encoded, where it is.
fn coding(head: &[u8]) -> Option<String> {
    let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
    let coding = String::from_utf8_lossy(&field_of(head, "content-encoding", &mut fields)?).trim().to_owned();
    (!coding.is_empty() && !coding.eq_ignore_ascii_case("identity")).then_some(coding)
}

fn rows(regex: &Regex, body: &[u8]) -> Result<u64, String> {
    if regex.captures_len() < 2 {
        return Ok(regex.find_iter(body).count() as u64);
    }
    let group = regex.captures(body).and_then(|found| found.get(1));
    let text = group.ok_or_else(|| format!("the body has no number of rows: `{regex}` does not match"))?.as_bytes();
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| format!("`{}` is no number of rows", String::from_utf8_lossy(text)))
}

fn without<'b>(removed: &[Regex], body: &'b [u8]) -> Cow<'b, [u8]> {
    removed.iter().fold(Cow::Borrowed(body), |body, regex| {
        if regex.is_match(&body) { Cow::Owned(regex.replace_all(&body, &b""[..]).into_owned()) } else { body }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(spec: &AnswerSpec, number: u64, body: &str) -> Result<Read, String> {
        let extract = Extract { head: Vec::new(), body: body.as_bytes().to_vec(), is_cut: false };
        AnswerCheck::new(spec).unwrap().read(number, &extract)
    }

    fn rows(pattern: &str) -> AnswerSpec {
        AnswerSpec { rows: Some(pattern.to_owned()), ..AnswerSpec::default() }
    }

    #[test]
    fn rows_are_matches_or_the_number_of_the_group() {
        for (pattern, body, expected) in [
            ("<node ", "<osm><node id=1/><node id=2/></osm>", 2),
            ("<node ", "", 0),
            ("\"total\":(\\d+)", "{\"total\":42}", 42),
        ] {
            assert_eq!(read(&rows(pattern), 0, body).unwrap().rows, expected, "{pattern} {body}");
        }
        let missing = read(&rows("total=(\\d+)"), 0, "total=").unwrap_err();
        assert!(missing.contains("no number of rows"), "{missing}");
        let large = read(&rows("total=(\\d+)"), 0, "total=99999999999999999999").unwrap_err();
        assert!(large.contains("99999999999999999999"), "{large}");
    }

    #[test]
    fn body_that_is_not_as_expected_is_an_error() {
        let spec = AnswerSpec { matches: Some("\"ok\":true".to_owned()), ..AnswerSpec::default() };
        assert_eq!(read(&spec, 0, "{\"ok\":true}"), Ok(Read::default()));
        assert!(read(&spec, 0, "{\"ok\":false}").unwrap_err().contains("does not match"));
        let cut = Extract { head: Vec::new(), body: b"{\"ok\":true".to_vec(), is_cut: true };
        assert!(AnswerCheck::new(&spec).unwrap().read(0, &cut).unwrap_err().contains("16 MiB"));
    }

    #[test]
    fn digests_heed_the_request_and_leave_out_what_is_removed() {
        let spec = |without: &[&str]| AnswerSpec {
            digest: true,
            without: without.iter().map(|&pattern| pattern.to_owned()).collect(),
            ..AnswerSpec::default()
        };
        let digest = |without: &[&str], number, body| read(&spec(without), number, body).unwrap().digest;
        assert_eq!(digest(&[], 1, "a"), digest(&[], 1, "a"));
        assert_ne!(digest(&[], 1, "a"), digest(&[], 1, "b"));
        assert_ne!(digest(&[], 1, "a"), digest(&[], 2, "a"), "the answer to another request");
        let ids = ["id=\"[^\"]*\"", "\\s+"];
        assert_eq!(digest(&ids, 1, "<a id=\"5\" v=\"1\"/>"), digest(&ids, 1, "<a id=\"77\"  v=\"1\"/>"));
        assert_ne!(digest(&ids, 1, "<a id=\"5\" v=\"1\"/>"), digest(&ids, 1, "<a id=\"5\" v=\"2\"/>"));
    }

    #[test]
    fn sums_of_answers_do_not_depend_on_their_order() {
        let spec = AnswerSpec { digest: true, ..rows("x") };
        let all: Vec<Read> =
            ["x", "xx", "y"].iter().zip(0..).map(|(body, number)| read(&spec, number, body).unwrap()).collect();
        let sum = |order: [usize; 3]| {
            order.iter().fold(Read::default(), |mut sum, index| {
                sum.add(all[*index]);
                sum
            })
        };
        assert_eq!(sum([0, 1, 2]), sum([2, 0, 1]));
        let check = AnswerCheck::new(&spec).unwrap();
        let answer = sum([0, 1, 2]).answer([&check].into_iter(), true).unwrap();
        assert_eq!(answer.rows, Some(3));
        assert!(answer.digest.starts_with("bodies:"), "{}", answer.digest);
        let check = AnswerCheck::new(&rows("x")).unwrap();
        let only_rows = Read { rows: 3, digest: 0 }.answer([&check].into_iter(), false).unwrap();
        assert_eq!((only_rows.digest.as_str(), only_rows.comparable), ("rows:3", false));
    }
}
