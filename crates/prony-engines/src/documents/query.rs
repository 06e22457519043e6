//! A query with its plan: full scan, index, or the engine's own query language.

use std::sync::Arc;

use prony_model::query::{Filter, Operand, QuerySpec};
use prony_model::spec::{Encoding, FieldValue};

use super::indexes::Indexes;
use super::plan::{Plan, Range};
use super::space::Space;
use crate::own_query::OwnQuery;

/// Documents that a test for equality may find.
const FEW: f64 = 10.0;

/// A query of a phase, with the way in which each operation runs it.
#[derive(Clone, Debug)]
pub struct Planned {
    pub(super) spec: QuerySpec,
    pub(super) encoding: Encoding,
    /// Where the documents are stored.
    pub(super) space: Space,
    pub(super) indexes: Option<Arc<Indexes>>,
    /// `None` where all documents are read.
    pub(super) plan: Option<Plan>,
    /// The query in the engine's own language, where the engine answers it.
    own: Option<OwnQuery>,
}

impl Planned {
    /// Plans a query over documents that have these indexes, if any; without indexes they are all that the store holds.
    pub fn new(spec: QuerySpec, encoding: Encoding, indexes: Option<Arc<Indexes>>) -> Self {
        let plan = indexes.as_deref().and_then(|indexes| Plan::new(&spec, indexes));
        let space = indexes.as_deref().map_or(Space::WHOLE, Indexes::space);
        Self { spec, encoding, space, indexes, plan, own: None }
    }

    /// The same over the documents in a part of the key space.
    pub fn within(self, space: Space) -> Self {
        Self { space, ..self }
    }

    /// A query that the engine answers.
    pub fn own(spec: QuerySpec, encoding: Encoding, own: OwnQuery) -> Self {
        Self { spec, encoding, space: Space::WHOLE, indexes: None, plan: None, own: Some(own) }
    }

    /// The query in the engine's own language, where the engine answers it.
    pub fn own_text(&self) -> Option<&str> {
        Some(&self.own.as_ref()?.text)
    }

    /// Whether the documents have indexes that are kept beside them.
    pub fn is_indexed(&self) -> bool {
        self.indexes.is_some()
    }

    /// Whether there is more than one way to run it: with indexes, or in the engine's own language.
    pub fn has_choice(&self) -> bool {
        self.is_indexed() || self.own.is_some()
    }

    /// The outermost names of the fields of an operation's document that the query compares with.
    pub fn compared_fields(&self) -> Vec<String> {
        self.spec.compared().into_iter().filter_map(|path| path.0.first().cloned()).collect()
    }

    /// How the query reads, for the record.
    pub fn describe(&self) -> String {
        match (&self.plan, &self.indexes) {
            (Some(plan), Some(indexes)) => plan.describe(indexes, &self.spec),
            _ => "all documents".to_owned(),
        }
    }

    /// About how many of so many documents it reads, without knowing what they are: a test for equality finds few, a range half of
    /// them, and a scan that a limit may end something between the limit and all.
    pub fn expected_reads(&self, documents: f64) -> f64 {
        let limit = self.spec.limit.map(|limit| self.spec.skip.saturating_add(limit) as f64);
        let limit = limit.filter(|_| self.in_order());
        let is_whole = matches!(&self.spec.filter, Filter::All(all) if all.is_empty());
        let reads = match (&self.plan, limit) {
            (Some(plan), limit) if plan.has_equality() => limit.unwrap_or(FEW),
            (Some(_), Some(limit)) => limit,
            (Some(_), None) => documents / 2.0,
            (None, Some(limit)) if is_whole => limit,
            (None, Some(limit)) => (limit * documents).sqrt(),
            (None, None) => documents,
        };
        reads.min(documents)
    }

    /// Whether rows are found in their order, so that reading may end with the limit.
    pub(super) fn in_order(&self) -> bool {
        match &self.plan {
            Some(plan) => plan.in_order,
            None => self.spec.sort.is_empty() && !self.spec.count,
        }
    }
}

/// A query whose operands are known.
#[derive(Clone, Debug)]
pub struct Query {
    pub(super) filter: Filter<FieldValue>,
    pub(super) planned: Arc<Planned>,
    /// Of the index, where the plan has one.
    pub(super) ranges: Vec<Range>,
    /// What the query in the engine's own language binds.
    bound: Vec<FieldValue>,
}

impl Query {
    /// The query in the engine's own language with what is bound, where the engine answers it.
    pub(super) fn own(&self) -> Option<(&str, &[FieldValue])> {
        Some((self.planned.own.as_ref()?.text.as_str(), &self.bound))
    }

    /// How it reads; `explain` says so of a query in the engine's own language.
    pub fn describe(&self, explain: impl FnOnce(&str, &[FieldValue]) -> String) -> String {
        self.own().map_or_else(|| self.planned.describe(), |(text, bound)| explain(text, bound))
    }

    pub(super) fn spec(&self) -> &QuerySpec {
        &self.planned.spec
    }

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
                    FieldValue::Fields(fields) => fields.iter().map(|(name, value)| name.len() + size(value)).sum(),
                    _ => 0,
                }
        }
        let ranges: usize = self.ranges.iter().map(|(low, high)| low.len() + high.len()).sum();
        let bound: usize = self.bound.iter().map(size).sum();
        size_of::<Self>() + values(&self.filter) + self.ranges.len() * size_of::<Range>() + ranges + bound
    }

    /// The query of the operation that works on this document.
    pub fn new(planned: &Arc<Planned>, document: &FieldValue) -> Self {
        let value = |operand: &Operand| match operand {
            Operand::Constant(value) => value.clone(),
            // Nested fields are equal to nothing, as what the document does not have.
            Operand::Document(path) => document.at(&path.0).cloned().unwrap_or(FieldValue::Fields(Vec::new())),
        };
        let filter = planned.spec.filter.map(&value);
        let ranges = planned.plan.as_ref().map(|plan| plan.ranges(&filter)).unwrap_or_default();
        let bound = planned.own.iter().flat_map(|own| &own.bound).map(|bound| bound.value(&filter, value)).collect();
        Self { filter, planned: Arc::clone(planned), ranges, bound }
    }
}
