//! Reads keys of a table by their declaration, so that decoder and declaration cannot drift apart.

use std::ops::Range;

use serde::de::value::StrDeserializer;
use serde::de::{DeserializeOwned, IntoDeserializer};

use crate::node::{Entry, Node, Value};
use crate::placeholder::{Part, split};
use crate::problem::{Problem, Problems};
use crate::shape::TableShape;
use prony_model::program::CommandLine;
use prony_model::units::{
    Bytes, Fraction, Nanos, PerSecond, QuantityError, parse_bytes, parse_fraction, parse_rate, parse_time,
};

/// A table whose keys are declared.
#[derive(Clone, Copy)]
pub(crate) struct View<'n> {
    node: Option<&'n Node>,
    shape: &'static TableShape,
}

impl<'n> View<'n> {
    /// A table; `None` reads as one without keys.
    pub(crate) fn new(node: Option<&'n Node>, shape: &'static TableShape) -> Self {
        Self { node, shape }
    }

    /// The value of a declared key.
    pub(crate) fn get(&self, key: &str) -> Option<&'n Node> {
        debug_assert!(self.shape.field(key).is_some(), "`{key}` is declared in `{}`", self.shape.name);
        self.node?.get(key)
    }

    /// Where the key, or else the table, is written.
    pub(crate) fn key_span(&self, key: &str) -> Range<usize> {
        self.node.map_or(0..0, |node| node.key_span(key))
    }

    /// Where the table is written.
    pub(crate) fn span(&self) -> Range<usize> {
        self.node.map_or(0..0, |node| node.span.clone())
    }

    /// Reports a key that has a meaning only beside another one.
    pub(crate) fn needs(&self, key: &str, owner: &str, problems: &mut Problems<'_>) {
        if self.get(key).is_some() && self.get(owner).is_none() {
            let message = format!("`{key}` needs the key `{owner}`, which is missing");
            problems.add(Problem::new(self.key_span(key), message));
        }
    }

    /// The items of a list; none where there is none.
    pub(crate) fn list_of(&self, key: &str) -> &'n [Node] {
        self.get(key).and_then(Node::list).unwrap_or_default()
    }

    /// The entries of a table; none where there is none.
    pub(crate) fn table_of(&self, key: &str) -> &'n [Entry] {
        self.get(key).and_then(Node::table).unwrap_or_default()
    }

    pub(crate) fn whole(&self, key: &str) -> Option<u64> {
        self.get(key).and_then(whole)
    }

    pub(crate) fn flag(&self, key: &str) -> Option<bool> {
        match self.get(key)?.value {
            Value::Flag(flag) => Some(flag),
            _ => None,
        }
    }

    /// Whole numbers in a list; none where there is none.
    pub(crate) fn numbers(&self, key: &str) -> Vec<u32> {
        self.list_of(key).iter().filter_map(whole).filter_map(|number| number.try_into().ok()).collect()
    }

    pub(crate) fn number(&self, key: &str) -> Option<f64> {
        self.get(key)?.number()
    }

    /// A word, which is the name of a value in records too.
    pub(crate) fn word<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        self.get(key).and_then(named)
    }

    /// A text as it is written.
    pub(crate) fn plain(&self, key: &str) -> Option<&'n str> {
        self.get(key)?.text()
    }

    /// A text, escapes of braces undone.
    pub(crate) fn text(&self, key: &str) -> Option<String> {
        self.get(key).and_then(unescaped)
    }

    pub(crate) fn time(&self, key: &str) -> Option<Nanos> {
        self.get(key).and_then(time)
    }

    pub(crate) fn bytes(&self, key: &str) -> Option<Bytes> {
        self.get(key).and_then(bytes)
    }

    pub(crate) fn share(&self, key: &str) -> Option<Fraction> {
        self.get(key).and_then(|node| quantity(node, parse_fraction))
    }

    pub(crate) fn rate(&self, key: &str) -> Option<PerSecond> {
        self.get(key).and_then(rate)
    }
}

pub(crate) fn whole(node: &Node) -> Option<u64> {
    match node.value {
        Value::Whole(n) => u64::try_from(n).ok(),
        _ => None,
    }
}

pub(crate) fn time(node: &Node) -> Option<Nanos> {
    quantity(node, parse_time)
}

pub(crate) fn bytes(node: &Node) -> Option<Bytes> {
    quantity(node, parse_bytes)
}

pub(crate) fn rate(node: &Node) -> Option<PerSecond> {
    quantity(node, parse_rate)
}

fn quantity<T>(node: &Node, parse: fn(&str) -> Result<T, QuantityError>) -> Option<T> {
    parse(&node.quantity()?).ok()
}

/// The value that a word names, in files as in records.
pub(crate) fn named<T: DeserializeOwned>(node: &Node) -> Option<T> {
    let word: StrDeserializer<'_, serde::de::value::Error> = node.text()?.into_deserializer();
    T::deserialize(word).ok()
}

/// A text with the escapes of braces undone.
pub(crate) fn unescaped(node: &Node) -> Option<String> {
    Some(template(node)?.join("{i}"))
}

/// The texts before, between and after each `{i}`: always one more than there are numbers.
pub(crate) fn template(node: &Node) -> Option<Vec<String>> {
    let mut parts = vec![String::new()];
    for part in split(node.text()?).ok()? {
        match (part, parts.last_mut()) {
            (Part::Text(text), Some(last)) => last.push_str(&text),
            (Part::Hole(..), _) => parts.push(String::new()),
            (Part::Text(_), None) => {}
        }
    }
    Some(parts)
}

/// Texts: one, or each of a list.
pub(super) fn texts(node: Option<&Node>) -> Vec<String> {
    node.into_iter().flat_map(Node::items).map(word).collect()
}

/// A text, or a number or flag as it is written.
pub(super) fn word(node: &Node) -> String {
    unescaped(node).unwrap_or_else(|| node.label())
}

/// A command beside a program or service: a text for the shell, or words.
pub(super) fn line(node: &Node) -> Option<CommandLine> {
    match node.list() {
        Some(_) => Some(CommandLine::Words(texts(Some(node)))).filter(|line| !line.words().is_empty()),
        None => Some(CommandLine::Shell { shell: "sh".to_owned(), script: unescaped(node)? }),
    }
}
