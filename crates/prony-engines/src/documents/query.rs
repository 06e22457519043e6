//! A query of one operation: its filter compares with values.

use std::sync::Arc;

use prony_model::query::{Filter, Operand, QuerySpec};
use prony_model::spec::{Encoding, FieldValue};

/// A query whose operands are known.
#[derive(Clone, Debug)]
pub struct Query {
    pub(super) filter: Filter<FieldValue>,
    pub(super) spec: Arc<QuerySpec>,
    pub(super) encoding: Encoding,
}

impl Query {
    /// About how many bytes it holds for itself.
    pub(crate) fn bytes(&self) -> usize {
        fn values(filter: &Filter<FieldValue>) -> usize {
            match filter {
                Filter::All(filters) | Filter::Any(filters) => filters.iter().map(values).sum(),
                Filter::Field(path, test) => {
                    let names: usize = path.0.iter().map(String::len).sum();
                    names + test.operands().into_iter().map(size).sum::<usize>()
                }
            }
        }
        fn size(value: &FieldValue) -> usize {
            size_of::<FieldValue>()
                + match value {
                    FieldValue::Text(text) => text.len(),
                    FieldValue::List(items) => items.iter().map(size).sum(),
                    FieldValue::Fields(fields) => fields.iter().map(|(_, value)| size(value)).sum(),
                    _ => 0,
                }
        }
        size_of::<Self>() + values(&self.filter)
    }

    /// The query of the operation that works on this document.
    pub fn new(spec: &Arc<QuerySpec>, encoding: Encoding, document: &FieldValue) -> Self {
        let value = |operand: &Operand| match operand {
            Operand::Constant(value) => value.clone(),
            // Nested fields are equal to nothing, as what the document does not have.
            Operand::Document(path) => document.at(&path.0).cloned().unwrap_or(FieldValue::Fields(Vec::new())),
        };
        Self { filter: spec.filter.map(&value), spec: Arc::clone(spec), encoding }
    }
}
