//! Parses placeholders in texts: `{factor}`, `{i}`; `{{` and `}}` are braces.

use std::ops::Range;

use super::node::Node;
use super::problem::{Problem, known_hint};
use prony_model::spelling::nearest;

/// First parts of placeholders of other kinds; no factor may have such a name.
pub const NAMESPACES: [&str; 10] = ["i", "doc", "dir", "tmp", "instance", "env", "port", "data", "service", "saved"];

/// A part of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Text, escapes undone.
    Text(String),
    /// A placeholder's name without its braces, and its place in the text, braces included.
    Hole(String, Range<usize>),
}

/// The fault of a text's braces, and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BraceFault {
    pub(crate) message: &'static str,
    pub(crate) at: Range<usize>,
}

/// Splits a text into texts and holes; no two texts follow each other.
pub(crate) fn split(text: &str) -> Result<Vec<Part>, BraceFault> {
    let mut parts = Vec::new();
    let mut literal = String::new();
    let mut at = 0;
    while let Some(found) = text[at..].find(['{', '}']).map(|offset| at + offset) {
        literal.push_str(&text[at..found]);
        let rest = &text[found..];
        if rest.starts_with("{{") || rest.starts_with("}}") {
            literal.push_str(&rest[..1]);
            at = found + 2;
            continue;
        }
        if rest.starts_with('}') {
            return Err(BraceFault { message: "`}` closes nothing", at: found..found + 1 });
        }
        let Some(end) = rest[1..].find(['{', '}']).filter(|end| rest[1 + end..].starts_with('}')) else {
            return Err(BraceFault { message: "`{` is not closed", at: found..found + 1 });
        };
        if !literal.is_empty() {
            parts.push(Part::Text(std::mem::take(&mut literal)));
        }
        at = found + end + 2;
        parts.push(Part::Hole(rest[1..=end].trim().to_owned(), found..at));
    }
    literal.push_str(&text[at..]);
    if !literal.is_empty() {
        parts.push(Part::Text(literal));
    }
    Ok(parts)
}

/// The holes of a text by name, with their places; braces at fault are text. Patterns have such braces.
pub(crate) fn holes(text: &str) -> Vec<(String, Range<usize>)> {
    let (mut all, mut from) = (Vec::new(), 0);
    loop {
        let fault = split(&text[from..]).err().map(|fault| fault.at);
        let end = fault.as_ref().map_or(text.len(), |at| from + at.start);
        let hole = |part| match part {
            Part::Hole(name, at) => Some((name, from + at.start..from + at.end)),
            Part::Text(_) => None,
        };
        all.extend(split(&text[from..end]).unwrap_or_default().into_iter().filter_map(hole));
        match fault {
            Some(at) => from += at.end,
            None => return all,
        }
    }
}

/// The text with values in place of holes. A hole without a value stays as it is written, and so does all else: in a pattern
/// braces and the blanks in them have a meaning of their own.
pub(crate) fn replace(text: &str, mut value: impl FnMut(&str, &Range<usize>) -> Option<String>) -> String {
    let (mut replaced, mut from) = (String::new(), 0);
    for (name, at) in holes(text) {
        replaced.push_str(&text[from..at.start]);
        replaced.push_str(value(&name, &at).as_deref().unwrap_or(&text[at.clone()]));
        from = at.end;
    }
    replaced + &text[from..]
}

/// The fault of a level with the placeholder of a factor, and a hint.
pub(crate) fn factor_in_level(hole: &str) -> (String, String) {
    let message = format!("a level cannot hold the placeholder `{{{hole}}}` of a factor");
    (message, "write the text out in each level".to_owned())
}

/// The first name of a dotted hole: the factor or namespace.
pub(crate) fn head(hole: &str) -> &str {
    hole.split('.').next().unwrap_or(hole)
}

/// The place of a part of a text in the file: exact where the text is written without escapes.
pub(crate) fn span_in(node: &Node, file: &str, at: &Range<usize>) -> Range<usize> {
    let inner = node.span.start + 1;
    match node.text() {
        Some(text) if file.get(inner..inner + text.len()) == Some(text) => inner + at.start..inner + at.end,
        _ => node.span.clone(),
    }
}

/// Whether the factors of a text have been filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filled {
    /// Not yet.
    No,
    /// Yes; a factor that is left could not be filled in, which has been reported.
    Text,
    /// The text belongs to a level, which can contain no factor.
    Level,
}

/// The placeholders of records that have a meaning in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OfRecord {
    /// None.
    Nothing,
    /// `{i}`.
    Number,
    /// `{doc.FIELD}`.
    Document,
    /// Both, and `{saved.NAME}`.
    Request,
}

/// The valid content of a text's holes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope<'a> {
    /// The names of the factors.
    pub(crate) factors: &'a [String],
    /// Whether factors have been filled in.
    pub(crate) filled: Filled,
    /// Which placeholders of records have a meaning.
    pub(crate) of: OfRecord,
}

/// The fault of a text's holes.
pub(crate) fn faults(node: &Node, file: &str, scope: Scope<'_>) -> Vec<Problem> {
    let Some(text) = node.text() else { return Vec::new() };
    let parts = match split(text) {
        Ok(parts) => parts,
        Err(fault) => {
            let problem = Problem::new(span_in(node, file, &fault.at), fault.message);
            return vec![problem.hint("write `{{` and `}}` for braces that are meant as text")];
        }
    };
    let hole = |part: Part| match part {
        Part::Hole(name, at) => hole_fault(&name, scope)
            .map(|(message, hint)| Problem::new(span_in(node, file, &at), message).maybe_hint(hint)),
        Part::Text(_) => None,
    };
    parts.into_iter().filter_map(hole).collect()
}

fn hole_fault(hole: &str, scope: Scope<'_>) -> Option<(String, Option<String>)> {
    let name = head(hole);
    let factor = scope.factors.iter().any(|factor| factor == name);
    let elsewhere = match name {
        _ if factor && scope.filled != Filled::Level => return None,
        _ if factor => {
            let (message, hint) = factor_in_level(hole);
            return Some((message, Some(hint)));
        }
        "i" if matches!(scope.of, OfRecord::Number | OfRecord::Request) && hole == "i" => return None,
        "doc" if matches!(scope.of, OfRecord::Document | OfRecord::Request) && hole.len() > 4 => return None,
        "saved" if scope.of == OfRecord::Request && hole.len() > 6 => return None,
        "doc" => "`{doc.FIELD}`, a field of the operation's record, can be used in `where` of a query and in requests",
        "i" => "`{i}`, the number of a record, can be used in keys and values of `[data]`, and in requests",
        "env" | "dir" | "tmp" => {
            "`{env.NAME}` can be used in `[program.NAME]`, and `{dir}` and `{tmp}` in its commands, variables and `store`"
        }
        "instance" => {
            "`{instance}`, the number of a replica, can be used in `command` and `env` of a program's `replicas`, and \
             in `[[service]]`"
        }
        "port" | "data" | "service" => {
            "`{port}`, `{data}` and `{service.NAME.port}` can be used in texts of `[[service]]`"
        }
        "saved" => "`{saved.NAME}` can be used in `path`, `headers` and `body` of a phase's requests",
        _ => {
            let of_document = "write `{doc.FIELD}` for a field of the operation's record";
            let hint = match scope.of {
                OfRecord::Document => of_document.to_owned(),
                _ => known(name, scope).unwrap_or_else(|| "the file has no `[factors]`".to_owned()),
            };
            return Some((format!("unknown placeholder `{{{hole}}}`"), Some(hint)));
        }
    };
    Some((format!("`{{{hole}}}` has no meaning here"), Some(elsewhere.to_owned())))
}

/// The placeholder that is nearest to an unknown name, or all of them.
fn known(name: &str, scope: Scope<'_>) -> Option<String> {
    let known = scope.factors.iter().map(String::as_str).chain((scope.of == OfRecord::Number).then_some("i"));
    let near = nearest(name, known.clone()).map(|near| format!("did you mean `{{{near}}}`?"));
    let all: Vec<String> = known.map(|name| format!("{{{name}}}")).collect();
    near.or_else(|| known_hint(name, all.iter().map(String::as_str)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn placeholders_and_escapes_are_distinguished() {
        let hole = |name: &str, at| Part::Hole(name.to_owned(), at);
        let text = |text: &str| Part::Text(text.to_owned());
        assert_eq!(split("a{b}c").unwrap(), [text("a"), hole("b", 1..4), text("c")]);
        assert_eq!(split("{{{i}}}").unwrap(), [text("{"), hole("i", 2..5), text("}")]);
        assert_eq!(split("{a}{b.c}").unwrap(), [hole("a", 0..3), hole("b.c", 3..8)]);
        assert_eq!(split("").unwrap(), []);
        assert_eq!(split("a}").unwrap_err().at, 1..2);
        assert_eq!(split("ü{a").unwrap_err().at, 2..3);
        assert_eq!(split("{a{b}").unwrap_err().at, 0..1);
    }

    #[test]
    fn holes_are_found_beside_braces_at_fault() {
        let names =
            |text: &str| holes(text).into_iter().map(|(name, at)| (name, text[at].to_owned())).collect::<Vec<_>>();
        let hole = |name: &str, written: &str| (name.to_owned(), written.to_owned());
        assert_eq!(names("{\"n\": { a }, \"x{2}\"}"), [hole("a", "{ a }"), hole("2", "{2}")]);
        assert_eq!(names("}{{a}}{b"), []);
        assert_eq!(replace("}{ a } {b}{", |name, _| (name == "a").then(|| "1".to_owned())), "}1 {b}{");
    }

    proptest! {
        #[test]
        fn any_text_comes_back_from_its_escape(text in "[{}a-c.ü]{0,12}") {
            let escaped = text.replace('{', "{{").replace('}', "}}");
            let expected: Vec<Part> = if text.is_empty() { vec![] } else { vec![Part::Text(text)] };
            prop_assert_eq!(split(&escaped).unwrap(), expected);
        }

        #[test]
        fn any_text_without_values_stays_as_it_is(text in "[{}a ü]{0,12}") {
            prop_assert_eq!(replace(&text, |_, _| None), text);
        }
    }
}
