//! The experiment file as a tree of values, each with its place in the text.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::{At, Problem, Problems};

/// What reads a command that is one text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    /// prony, which cuts it into words.
    Words,
    /// A shell, for which a value may be anything that it can read.
    Shell,
}

/// A value and its place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    /// Where the value is written.
    pub(crate) span: Range<usize>,
    /// The place of the placeholder that it replaced, if any.
    pub(crate) via: Option<Range<usize>>,
    /// The value.
    pub(crate) value: Value,
    /// A number as it was written, without underscores, if it would be shown in another way: `3.10`, which may be a version.
    pub(crate) written: Option<String>,
    /// A text with its levels in digits, where they have a notation that a quantity cannot have: `1000 ms` for `1e3 ms`.
    pub(crate) digits: Option<String>,
    /// What reads a command that is one text.
    pub(crate) reader: Option<Reader>,
}

/// A value as TOML knows them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Flag(bool),
    Whole(i64),
    Number(f64),
    Text(String),
    Date(String),
    List(Vec<Node>),
    Table(Vec<Entry>),
}

/// A key with its place, and its value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_span: Range<usize>,
    pub(crate) node: Node,
}

impl Entry {
    /// Where the value of a key in this table, or else this key, is written.
    pub(crate) fn place(&self, key: &str) -> Range<usize> {
        self.node.get(key).map_or(&self.key_span, |node| &node.span).clone()
    }
}

/// An experiment file, read but not checked.
#[derive(Clone, Debug, PartialEq)]
pub struct RawExperiment {
    pub(crate) file: String,
    pub(crate) text: String,
    pub(crate) root: Node,
}

impl RawExperiment {
    /// The file's name, as given.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The file's text.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// Reads a file's text; `file` is its name, used as the title of an experiment without one.
///
/// # Errors
/// Every fault of the TOML syntax, with its place.
pub fn parse(text: &str, file: &str) -> Result<RawExperiment, Vec<Problem>> {
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut problems = Problems::new(text);
    for error in errors {
        let span = error.span().unwrap_or(0..0);
        problems.add(Problem::new(span, error.message().to_owned()));
    }
    let span = table.span();
    let root = Node::new(span, Value::Table(entries(table.into_inner(), &mut problems)));
    if !problems.is_empty() {
        return Err(problems.into_list());
    }
    Ok(RawExperiment { file: file.to_owned(), text: text.to_owned(), root })
}

/// The fault of a file that is not UTF-8: `text` is what can be read of it, `at` the offset up to which it is valid.
pub fn not_utf8(text: &str, at: usize) -> Vec<Problem> {
    let mut problems = Problems::new(text);
    problems.fault(at..at, "the file is not valid UTF-8", "save it as UTF-8");
    problems.into_list()
}

fn entries(table: DeTable<'_>, problems: &mut Problems<'_>) -> Vec<Entry> {
    let entry = |(key, value): (Spanned<_>, Spanned<DeValue<'_>>)| {
        let key_span = key.span();
        let key: std::borrow::Cow<'_, str> = key.into_inner();
        Entry { key: key.into_owned(), key_span, node: node(value, problems) }
    };
    table.into_iter().map(entry).collect()
}

fn node(value: Spanned<DeValue<'_>>, problems: &mut Problems<'_>) -> Node {
    let span = value.span();
    let mut written = None;
    let value = match value.into_inner() {
        DeValue::Boolean(flag) => Value::Flag(flag),
        DeValue::String(text) => Value::Text(text.into_owned()),
        DeValue::Datetime(date) => Value::Date(date.to_string()),
        DeValue::Array(list) => Value::List(list.into_iter().map(|item| node(item, problems)).collect()),
        DeValue::Table(table) => Value::Table(entries(table, problems)),
        DeValue::Integer(number) => match i64::from_str_radix(&number.as_str().replace('_', ""), number.radix()) {
            Ok(whole) => {
                written = Some(number.to_string());
                Value::Whole(whole)
            }
            Err(_) => {
                problems.add(Problem::new(&span, format!("`{number}` does not fit into 64 bits")));
                Value::Whole(0)
            }
        },
        DeValue::Float(number) => {
            written = Some(number.to_string());
            Value::Number(number.as_str().replace('_', "").parse().unwrap_or(f64::NAN))
        }
    };
    Node::new(span, value).with_notation(written.as_deref())
}

impl Node {
    /// A value written at a place.
    pub(crate) const fn new(span: Range<usize>, value: Value) -> Self {
        Self { span, via: None, value, written: None, digits: None, reader: None }
    }

    /// The same, with a number as it was written.
    pub(crate) fn with_notation(self, text: Option<&str>) -> Self {
        let text = text.map(|text| text.replace('_', ""));
        let written = text.filter(|text| self.decimal().is_some_and(|decimal| decimal != *text));
        Self { written, ..self }
    }

    /// A number in digits, whatever its notation.
    pub(crate) fn decimal(&self) -> Option<String> {
        match self.value {
            Value::Whole(n) => Some(n.to_string()),
            Value::Number(x) => Some(x.to_string()),
            _ => None,
        }
    }

    /// A number in digits, if it is written in a notation that a quantity cannot have: `1e3`, `0x20`.
    pub(crate) fn digits(&self) -> Option<String> {
        let is_other = |text: &&String| text.contains(|c: char| c.is_ascii_alphabetic());
        self.written.as_ref().filter(is_other).and_then(|_| self.decimal())
    }

    /// What a quantity is read from: a text or a number.
    pub(crate) fn quantity(&self) -> Option<String> {
        self.digits.clone().or_else(|| self.text().map(str::to_owned)).or_else(|| self.decimal())
    }

    /// The entry with this key, where the node is a table that has it.
    pub(crate) fn entry(&self, key: &str) -> Option<&Entry> {
        self.table()?.iter().find(|entry| entry.key == key)
    }

    /// The value of this key, where the node is a table that has it.
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|entry| &entry.node)
    }

    /// The value of the second key in the table under the first one, where there is one.
    pub(crate) fn at(&self, [outer, inner]: [&str; 2]) -> Option<&Self> {
        self.get(outer)?.get(inner)
    }

    /// Where the value of this key, or else the node, is written.
    pub(crate) fn span_of(&self, key: &str) -> Range<usize> {
        self.get(key).unwrap_or(self).span.clone()
    }

    /// Where this key, or else the node, is written.
    pub(crate) fn key_span(&self, key: &str) -> Range<usize> {
        self.entry(key).map_or(&self.span, |entry| &entry.key_span).clone()
    }

    /// The items of the list under this key; none where there is no list.
    pub(crate) fn list_of(&self, key: &str) -> &[Self] {
        self.get(key).and_then(Self::list).unwrap_or_default()
    }

    /// The entries of the table under this key; none where there is no table.
    pub(crate) fn table_of(&self, key: &str) -> &[Entry] {
        self.get(key).and_then(Self::table).unwrap_or_default()
    }

    /// The items, or the node itself where it is no list.
    pub(crate) fn items(&self) -> &[Self] {
        self.list().unwrap_or(std::slice::from_ref(self))
    }

    /// The entries, where the node is a table.
    pub(crate) fn table(&self) -> Option<&[Entry]> {
        match &self.value {
            Value::Table(entries) => Some(entries),
            _ => None,
        }
    }

    /// The items, where the node is a list.
    pub(crate) fn list(&self) -> Option<&[Node]> {
        match &self.value {
            Value::List(items) => Some(items),
            _ => None,
        }
    }

    /// The text, where the node is one.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The number, whole or not.
    pub(crate) fn number(&self) -> Option<f64> {
        match self.value {
            Value::Whole(n) => Some(n as f64),
            Value::Number(x) => Some(x),
            _ => None,
        }
    }

    /// What kind of value it is, with its article.
    pub(crate) fn kind(&self) -> &'static str {
        match self.value {
            Value::Flag(_) => "`true` or `false`",
            Value::Whole(_) => "a whole number",
            Value::Number(_) => "a number",
            Value::Text(_) => "a text",
            Value::Date(_) => "a date",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
        }
    }

    /// The value in one line, as a label: texts bare at the top, TOML below.
    pub(crate) fn label(&self) -> String {
        match &self.value {
            Value::Text(text) => text.clone(),
            _ => self.inline(),
        }
    }

    /// The value in one line, as TOML; numbers as they were written.
    pub(crate) fn inline(&self) -> String {
        match &self.value {
            Value::Flag(flag) => flag.to_string(),
            Value::Whole(_) | Value::Number(_) => self.written.clone().or_else(|| self.decimal()).unwrap_or_default(),
            Value::Text(text) => format!("{text:?}"),
            Value::Date(date) => date.clone(),
            Value::List(items) => format!("[{}]", items.iter().map(Self::inline).collect::<Vec<_>>().join(", ")),
            Value::Table(entries) => {
                let pair = |entry: &Entry| format!("{} = {}", entry.key, entry.node.inline());
                format!("{{ {} }}", entries.iter().map(pair).collect::<Vec<_>>().join(", "))
            }
        }
    }

    /// The value as JSON.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        match &self.value {
            Value::Flag(flag) => (*flag).into(),
            Value::Whole(n) => (*n).into(),
            Value::Number(x) => (*x).into(),
            Value::Text(text) | Value::Date(text) => text.clone().into(),
            Value::List(items) => items.iter().map(Self::to_json).collect(),
            Value::Table(entries) => {
                let pair = |entry: &Entry| (entry.key.clone(), entry.node.to_json());
                serde_json::Value::Object(entries.iter().map(pair).collect())
            }
        }
    }
}

/// A problem of a value refers to the placeholder from which the value came.
impl At for &Node {
    fn problem(self, message: String) -> Problem {
        (self, self.span.clone()).problem(message)
    }
}

/// A problem beside a value, such as at its key, or at a part of it.
impl At for (&Node, Range<usize>) {
    fn problem(self, message: String) -> Problem {
        via(self.0, Problem::new(self.1, message))
    }
}

/// Refers to the placeholder from which a faulty value came.
pub(crate) fn via(node: &Node, problem: Problem) -> Problem {
    match &node.via {
        Some(span) if problem.labels.is_empty() => problem.label(span, "used"),
        _ => problem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_its_place_in_the_file() {
        let text = "[store]\nengine = \"lmdb\"\n[[phase]]\nname = \"write\"\nput = { count = 1_000 }\n";
        let raw = parse(text, "x.toml").unwrap();
        let engine = raw.root.get("store").unwrap().entry("engine").unwrap();
        assert_eq!(&text[engine.key_span.clone()], "engine");
        assert_eq!(&text[engine.node.span.clone()], "\"lmdb\"");
        let phase = &raw.root.get("phase").unwrap().list().unwrap()[0];
        let count = phase.get("put").unwrap().get("count").unwrap();
        assert_eq!(count.value, Value::Whole(1000));
        assert_eq!(&text[count.span.clone()], "1_000");
        assert_eq!(&text[phase.span.clone()], "[[phase]]");
        assert_eq!(&text[raw.root.get("store").unwrap().span.clone()], "[store]");
    }

    #[test]
    fn every_syntax_fault_is_a_problem_with_its_line() {
        let problems = parse("a = 1\nb = \nc = \"x\nd = 2 3\n", "x.toml").unwrap_err();
        assert_eq!(problems.iter().map(|p| p.line).collect::<Vec<_>>(), [2, 3, 4], "{problems:#?}");
        let problems = parse("a = 99999999999999999999", "x.toml").unwrap_err();
        assert_eq!(problems[0].message, "`99999999999999999999` does not fit into 64 bits");
    }

    #[test]
    fn labels_are_one_line() {
        let raw =
            parse("a = [1, 2.5, true, [\"x\"], { b = \"c\" }, 1_000, 3.10, 0x1F, 1e3]\nt = \"plain\"", "x").unwrap();
        let labels: Vec<String> = raw.root.get("a").unwrap().list().unwrap().iter().map(Node::label).collect();
        assert_eq!(labels, ["1", "2.5", "true", "[\"x\"]", "{ b = \"c\" }", "1000", "3.10", "0x1F", "1e3"]);
        assert_eq!(raw.root.get("t").unwrap().label(), "plain");
    }
}
