//! Fills the levels of one variant into the tree of the file.

use super::factors::FactorDef;
use super::node::{Entry, Node, Value};
use super::placeholder::{self, Part, head, span_in};
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

impl Levels<'_> {
    /// The tree with every placeholder of a factor filled in; other placeholders stay as they are.
    pub(crate) fn fill(&self, node: &Node, problems: &mut Problems<'_>) -> Node {
        let value = match &node.value {
            Value::Text(text) => return self.fill_text(node, text, problems),
            Value::List(items) => Value::List(items.iter().map(|item| self.fill(item, problems)).collect()),
            Value::Table(entries) => {
                let fill = |entry: &Entry| Entry { node: self.fill(&entry.node, problems), ..entry.clone() };
                Value::Table(entries.iter().map(fill).collect())
            }
            other => other.clone(),
        };
        Node { value, ..node.clone() }
    }

    fn fill_text(&self, node: &Node, text: &str, problems: &mut Problems<'_>) -> Node {
        // The validator, which reads the text as it is written, reports faults of the braces.
        let Ok(parts) = placeholder::split(text) else { return node.clone() };
        if let [Part::Hole(name, _)] = parts.as_slice() {
            return match self.level(name, node, &(0..text.len()), problems) {
                Some(level) => came_through(level, node),
                None => node.clone(),
            };
        }
        let mut filled = String::new();
        for part in parts {
            match part {
                Part::Text(text) => filled.push_str(&text.replace('{', "{{").replace('}', "}}")),
                Part::Hole(name, at) => match self.level(&name, node, &at, problems) {
                    Some(level) if level.table().is_some() || level.list().is_some() => {
                        let message = format!("`{{{name}}}` is {}, which cannot stand inside a text", level.kind());
                        let hint = "name one setting of the level, as `{factor.setting}`, or make the placeholder \
                            the whole text";
                        problems.add(Problem::new(span_in(node, self.file, &at), message).hint(hint));
                    }
                    Some(level) => filled.push_str(&level.label()),
                    None => filled.push_str(&format!("{{{name}}}")),
                },
            }
        }
        Node { value: Value::Text(filled), ..node.clone() }
    }

    /// The level's value, or the part of it that the placeholder names; `None` where it names no factor.
    fn level(
        &self,
        hole: &str,
        node: &Node,
        at: &std::ops::Range<usize>,
        problems: &mut Problems<'_>,
    ) -> Option<&Node> {
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
                    problems.add(problem.label(level.node.span.clone(), format!("level `{}` stands", level.label)));
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

fn mark(node: &mut Node, via: &std::ops::Range<usize>) {
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
            let hole = |part| match part {
                Part::Hole(name, _) => Some(head(&name).to_owned()),
                Part::Text(_) => None,
            };
            names.extend(placeholder::split(text).unwrap_or_default().into_iter().filter_map(hole));
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
