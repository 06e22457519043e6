//! Queries over documents: which documents, in which order, and what of each.

use serde::{Deserialize, Serialize};

use crate::document::{FieldPath, FieldValue};

/// A query.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuerySpec {
    /// The name of the collection that is queried, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collection: Option<String>,
    /// Which documents.
    pub filter: Filter<Operand>,
    /// By what they are sorted, then by key. Without it they come in the order of their keys.
    pub sort: Vec<SortKey>,
    /// How many of the first are left out.
    pub skip: u64,
    /// How many are returned at most.
    pub limit: Option<u64>,
    /// The fields that are returned; empty for whole documents.
    pub select: Vec<FieldPath>,
    /// Whether only their number is returned.
    pub count: bool,
}

/// A field by which documents are sorted. A document without it comes before all that have it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SortKey {
    /// The field.
    pub field: FieldPath,
    /// Largest first.
    pub descending: bool,
}

/// Which documents a query finds; `V` is what a field is compared with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Filter<V> {
    /// Those that all of these find; every document where there are none.
    All(Vec<Filter<V>>),
    /// Those that one of these finds.
    Any(Vec<Filter<V>>),
    /// Those with a value of this field that passes the test. Of a list, one item must pass it.
    Field(FieldPath, Test<V>),
}

/// A test of a field's value. Values of different kinds (numbers, texts, flags, null) are never equal, and none is above
/// the other; a field that a document does not have passes no test but `Exists(false)`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Test<V> {
    /// Equal to one of these.
    In(Vec<V>),
    /// Above.
    Gt(V),
    /// Above or equal.
    Gte(V),
    /// Below.
    Lt(V),
    /// Below or equal.
    Lte(V),
    /// From the first to the second, both included.
    Between(V, V),
    /// A text that begins with this one.
    Prefix(V),
    /// Whether the document has the field.
    Exists(bool),
}

/// What a field is compared with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operand {
    /// Always this.
    Constant(FieldValue),
    /// The value of this field in the document of the operation's record, as first written: `{doc.step}`.
    Document(FieldPath),
}

impl QuerySpec {
    /// The fields of the documents that it names, but those whose absence it may ask for.
    pub fn fields(&self) -> Vec<&FieldPath> {
        let mut fields: Vec<&FieldPath> = self.sort.iter().map(|key| &key.field).chain(&self.select).collect();
        self.filter.fields(&mut fields);
        fields
    }

    /// The fields of the operation's document with which it compares.
    pub fn compared(&self) -> Vec<&FieldPath> {
        self.filter
            .operands()
            .into_iter()
            .filter_map(|operand| match operand {
                Operand::Document(path) => Some(path),
                Operand::Constant(_) => None,
            })
            .collect()
    }
}

impl Filter<Operand> {
    fn fields<'f>(&'f self, fields: &mut Vec<&'f FieldPath>) {
        match self {
            Self::All(filters) | Self::Any(filters) => filters.iter().for_each(|filter| filter.fields(fields)),
            Self::Field(_, Test::Exists(_)) => {}
            Self::Field(path, _) => fields.push(path),
        }
    }
}

impl<V> Filter<V> {
    /// The same filter with its operands replaced.
    pub fn map<W>(&self, replace: &impl Fn(&V) -> W) -> Filter<W> {
        let each = |filters: &[Self]| filters.iter().map(|filter| filter.map(replace)).collect();
        match self {
            Self::All(filters) => Filter::All(each(filters)),
            Self::Any(filters) => Filter::Any(each(filters)),
            Self::Field(path, test) => Filter::Field(path.clone(), test.map(replace)),
        }
    }

    /// Everything that fields are compared with.
    pub fn operands(&self) -> Vec<&V> {
        match self {
            Self::All(filters) | Self::Any(filters) => filters.iter().flat_map(Self::operands).collect(),
            Self::Field(_, test) => test.operands(),
        }
    }
}

impl<V> Test<V> {
    /// What the field is compared with.
    pub fn operands(&self) -> Vec<&V> {
        match self {
            Self::In(values) => values.iter().collect(),
            Self::Between(from, to) => vec![from, to],
            Self::Gt(value) | Self::Gte(value) | Self::Lt(value) | Self::Lte(value) | Self::Prefix(value) => {
                vec![value]
            }
            Self::Exists(_) => Vec::new(),
        }
    }

    fn map<W>(&self, replace: &impl Fn(&V) -> W) -> Test<W> {
        match self {
            Self::In(values) => Test::In(values.iter().map(replace).collect()),
            Self::Gt(value) => Test::Gt(replace(value)),
            Self::Gte(value) => Test::Gte(replace(value)),
            Self::Lt(value) => Test::Lt(replace(value)),
            Self::Lte(value) => Test::Lte(replace(value)),
            Self::Between(from, to) => Test::Between(replace(from), replace(to)),
            Self::Prefix(value) => Test::Prefix(replace(value)),
            Self::Exists(exists) => Test::Exists(*exists),
        }
    }
}
