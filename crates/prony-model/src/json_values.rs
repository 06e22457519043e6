//! What of JSON documents comes back from an engine that stores their values and not their text: the order of the names, or the
//! part that is altered. [`crate::observed`] finds it out.

use serde::{Deserialize, Serialize};

/// The names of the fields of objects at one place, in the order in which every document writes them, each with those inside its
/// value. Objects in a list count as objects in its place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NameOrder(pub Vec<(String, NameOrder)>);

impl NameOrder {
    /// How many objects lie in one another.
    pub(crate) fn depth(&self) -> usize {
        self.0.iter().map(|(_, inner)| 1 + inner.depth()).max().unwrap_or(0)
    }

    /// Whether no object has a name.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A part of documents that does not come back as it was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Altered {
    /// The names of the field in which it is, from the outermost one; none for the whole document.
    pub field: Vec<String>,
    /// What it is.
    pub part: Part,
}

/// What does not come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Names that are not in the same order in all objects.
    Order,
    /// More different names in lists than [`MOST_NAMES`].
    Names,
    /// Objects that lie deeper in one another than [`MOST_NESTED`].
    Nested,
    /// A number whose form is not known from its value.
    Number,
    /// A text or name that `jsonb` does not have, or whose place among others cannot be bounded.
    Text,
}

/// The most objects in one another of which the order of names is recorded: each is two levels of JSON in the plan of a trial, of
/// which its reader takes 128.
pub const MOST_NESTED: usize = 30;

/// The most names of which the order is recorded.
pub const MOST_NAMES: usize = 10_000;
