//! What of JSON documents comes back from an engine that stores their values and not their text: the order of the names, or the
//! part that is altered. [`crate::observed`] finds it out.

use serde::{Deserialize, Serialize};

/// The names of the fields of objects at one place, in the order in which every document writes them, each with those inside its
/// value. Objects in a list count as objects in its place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NameOrder(pub Vec<(String, NameOrder)>);

impl NameOrder {
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
    /// A number whose form is not known from its value.
    Number,
    /// A text or name that `jsonb` does not have, or whose place among others cannot be bounded.
    Text,
}

/// The most names of which the order is recorded.
pub const MOST_NAMES: usize = 10_000;
