//! Fills the levels of one variant into the tree of the file.

use std::ops::Range;

use super::command_text::{self, Blanks};
use super::factors::FactorDef;
use super::node::{Entry, Node, Reader, Value};
use super::placeholder::{self, Part, factor_in_level, head, span_in};
use super::problem::{Problem, Problems};

/// The level of each factor in one variant.
pub(crate) struct Levels<'a> {
    /// Every factor of the file.
    pub(crate) factors: &'a [FactorDef],
    /// Index of its level, for each factor.
    pub(crate) chosen: &'a [usize],
    /// The file's text.
    pub(crate) file: &'a str,
}

/// Keys of texts in which braces other than those of factors mean nothing: patterns, and texts of other files.
pub(crate) const PLAIN: [&str; 8] = ["read", "line", "match", "rows", "without", "pattern", "find", "with"];

impl Levels<'_> {
    /// The tree with every placeholder of a factor filled in; other placeholders stay as they are.
    pub(crate) fn fill(&self, node: &Node, problems: &mut Problems<'_>) -> Node {
        self.value("", node, problems)
    }

    fn value(&self, key: &str, node: &Node, problems: &mut Problems<'_>) -> Node {
        let value = match &node.value {
            Value::Text(text) => return self.text(key, node, text, problems),
            Value::List(items) => Value::List(items.iter().map(|item| self.value(key, item, problems)).collect()),
            Value::Table(entries) => {
                entries.iter().for_each(|entry| self.begins_no_comment(entry, problems));
                let fill =
                    |entry: &Entry| Entry { node: self.value(&entry.key, &entry.node, problems), ..entry.clone() };
                Value::Table(entries.iter().map(fill).collect())
            }
            other => other.clone(),
        };
        Node { value, ..node.clone() }
    }

    /// Refuses levels with `#` that make the rest of a text for a shell a comment: variants would run the same command without it.
    fn begins_no_comment(&self, entry: &Entry, problems: &mut Problems<'_>) {
        let Some(text) = entry.node.text().filter(|_| entry.node.reader == Some(Reader::Shell)) else { return };
        let words = |mark: &str| {
            let level = |name: &str, at: &Range<usize>| {
                Some(self.level(name, &entry.node, at, &mut Problems::new(""))?.label().replace('#', mark))
            };
            shell_words::split(&placeholder::replace(text, level)).ok().map(|words| words.len())
        };
        if !matches!(placeholder::split(text).as_deref(), Ok([Part::Hole(..)])) && words("#") != words("x") {
            let message = format!("a level with `#` makes the rest of `{}` a comment", entry.key);
            let hint = "write the command as a list of words, or quotes around the placeholder";
            problems.fault(&entry.node.span, message, hint);
        }
    }

    fn text(&self, key: &str, node: &Node, text: &str, problems: &mut Problems<'_>) -> Node {
        let parts = placeholder::split(text);
        if let Ok([Part::Hole(name, _)]) = parts.as_deref() {
            return match self.level(name, node, &(0..text.len()), problems) {
                Some(level) => came_through(level, node),
                None => node.clone(),
            };
        }
        // The validator, which reads the text as it is written, reports faults of the braces.
        if parts.is_err() && !PLAIN.contains(&key) {
            return node.clone();
        }
        let mut has_digits = false;
        let in_text = |name: &str, at: &Range<usize>| {
            let level = self.level(name, node, at, problems)?;
            has_digits |= level.digits().is_some();
            self.in_text(level, name, &span_in(node, self.file, at), problems)
        };
        let filled = match node.reader {
            Some(Reader::Words) => command_text::replace(text, Blanks::Separate, in_text),
            _ => placeholder::replace(text, in_text),
        };
        let in_digits = |name: &str, at: &Range<usize>| {
            let level = self.level(name, node, at, problems)?;
            level.digits().or_else(|| self.in_text(level, name, &span_in(node, self.file, at), problems))
        };
        let digits = has_digits.then(|| placeholder::replace(text, in_digits));
        Node { value: Value::Text(filled), digits, ..node.clone() }
    }

    /// A level inside a longer text, which names it as `hole` at `place`; `None` where it cannot stand there, which is reported.
    fn in_text(&self, level: &Node, hole: &str, place: &Range<usize>, problems: &mut Problems<'_>) -> Option<String> {
        if level.table().is_some() || level.list().is_some() {
            let hint = "name one setting of the level, as `{factor.setting}`, or make the placeholder \
                the whole text";
            problems.fault(place, format!("`{{{hole}}}` is {}, which cannot stand inside a text", level.kind()), hint);
            return None;
        }
        let is_factor = |name: &str| self.factors.iter().any(|factor| factor.name == head(name));
        let mut inner = level.text().map(placeholder::holes).unwrap_or_default();
        inner.retain(|(name, _)| is_factor(name));
        for (name, at) in &inner {
            let (message, hint) = factor_in_level(name);
            let problem = Problem::new(span_in(level, self.file, at), message).hint(hint);
            problems.add(problem.label(place, "used"));
        }
        inner.is_empty().then(|| level.label())
    }

    /// The level's value, or the part of it that the placeholder names; `None` where it names no factor.
    fn level(&self, hole: &str, node: &Node, at: &Range<usize>, problems: &mut Problems<'_>) -> Option<&Node> {
        let place = self.factors.iter().position(|factor| factor.name == head(hole))?;
        let level = &self.factors[place].levels[self.chosen[place]];
        let mut value = &level.node;
        for key in hole.split('.').skip(1) {
            match value.get(key) {
                Some(inner) => value = inner,
                None => {
                    let factor = &self.factors[place].name;
                    let message = format!("level `{}` of factor `{factor}` has no `{key}`", level.label);
                    let problem = Problem::new(span_in(node, self.file, at), message);
                    problems.add(problem.label(&level.node.span, format!("level `{}` stands", level.label)));
                    return None;
                }
            }
        }
        Some(value)
    }
}

/// A level's value instead of its placeholder; it keeps its own place and that of the placeholder.
fn came_through(level: &Node, placeholder: &Node) -> Node {
    let mut node = level.clone();
    mark(&mut node, &placeholder.span);
    node
}

fn mark(node: &mut Node, via: &Range<usize>) {
    node.via = Some(via.clone());
    match &mut node.value {
        Value::List(items) => items.iter_mut().for_each(|item| mark(item, via)),
        Value::Table(entries) => entries.iter_mut().for_each(|entry| mark(&mut entry.node, via)),
        _ => {}
    }
}

/// The first parts of names in placeholders and `when` of the tree: the factors that are used.
pub(crate) fn used(node: &Node, names: &mut Vec<String>) {
    match &node.value {
        Value::Text(text) => {
            names.extend(placeholder::holes(text).into_iter().map(|(name, _)| head(&name).to_owned()));
        }
        Value::List(items) => items.iter().for_each(|item| used(item, names)),
        Value::Table(entries) => {
            for entry in entries {
                if entry.key == "when" {
                    names.extend(entry.node.table().unwrap_or_default().iter().map(|one| one.key.clone()));
                }
                used(&entry.node, names);
            }
        }
        _ => {}
    }
}
