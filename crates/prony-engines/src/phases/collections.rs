//! The collections of a trial in the worker: their records, where the store keeps them, and what has been written.

use std::sync::Arc;

use prony_model::spec::{
    Action, CollectionSpec, DocumentSpec, Encoding, FieldPath, KeySpec, Ops, QuerySpec, StoreSpec,
};
use prony_workload::{Records, RowsError};

use super::Plan;
use super::ledger::{Done, Ledger};
use crate::documents::{Indexes, Planned, Space};
use crate::driver::{Driver, Table};

/// A collection.
pub(super) struct Collection {
    pub(super) name: Option<String>,
    pub(super) keys: KeySpec,
    pub(super) records: Records,
    /// Where the records are stored.
    pub(super) space: Space,
    /// Those that are kept beside the documents; `None` where there are none or the engine has its own.
    pub(super) indexes: Option<Arc<Indexes>>,
    pub(super) ledger: Ledger,
}

impl Collection {
    /// Numbers from here on belong to no record.
    pub(super) fn end(&self) -> u64 {
        self.ledger.end(self.records.count())
    }

    /// Notes what a phase has written.
    pub(super) fn note(&mut self, done: &Done<'_>) {
        self.ledger.note(done, &self.records);
    }

    /// The fields of each index, with the collection's name if it has one.
    pub(super) fn index_names(&self) -> Vec<String> {
        let of = self.name.as_ref().map(|name| format!("{name}: ")).unwrap_or_default();
        self.indexes.iter().flat_map(|indexes| indexes.names()).map(|fields| format!("{of}{fields}")).collect()
    }
}

/// Queries of a phase, and of its background.
pub(super) type Queries = [Vec<Arc<Planned>>; 2];

/// All collections of a trial.
pub(super) struct Collections {
    pub(super) all: Vec<Collection>,
    /// The same for an engine with tables.
    pub(super) tables: Vec<Table>,
}

impl Collections {
    /// The collections of a plan. The bytes before the keys follow one another: of each collection those of its indexes, then
    /// that of its records. The only collection of a store needs none unless it has indexes.
    ///
    /// # Errors
    /// Those of a file of documents.
    pub(super) fn new<D: Driver>(plan: &Plan, store: &StoreSpec) -> Result<Self, RowsError> {
        let specs = &plan.spec.data;
        let own = D::describe().capabilities.own_documents;
        let (mut all, mut tables, mut next) = (Vec::new(), Vec::new(), 1);
        for spec in specs {
            let document = spec.document();
            let own = document.filter(|document| own && document.encoding == Encoding::Json);
            let fields = store.indexes_of(spec);
            let indexes = document.filter(|_| own.is_none() && !fields.is_empty()).map(|document| {
                let may_be_list = |path: &FieldPath| document.kinds(path).list;
                Arc::new(Indexes::new(&fields, document.encoding, may_be_list).above(next))
            });
            let several = specs.len() > 1;
            let space = match &indexes {
                Some(indexes) => indexes.space(),
                None if several => Space::behind(next),
                None => Space::WHOLE,
            };
            next = space.byte().map_or(next, |byte| byte + 1);
            tables.push(Table {
                name: spec.name.clone().filter(|_| several),
                byte: space.byte(),
                documents: own.map(|_| fields),
            });
            let records = Records::new(spec, plan.seed)?;
            let (name, keys, ledger) = (spec.name.clone(), spec.key.clone(), Ledger::default());
            all.push(Collection { name, keys, records, space, indexes, ledger });
        }
        Ok(Self { all, tables })
    }

    /// The index of the collection that operations work on.
    pub(super) fn of(&self, ops: &Ops) -> Option<usize> {
        self.all.iter().position(|collection| collection.name == ops.collection)
    }

    /// Whether nothing was written to this collection, nor to one whose keys are above.
    pub(super) fn is_empty_from(&self, index: usize) -> bool {
        self.all[index..].iter().all(|collection| collection.ledger.is_empty())
    }

    /// The queries of each phase, planned.
    pub(super) fn queries<D: Driver>(&self, plan: &Plan) -> Vec<Queries> {
        let of = |action: Option<&Action>| match action {
            Some(Action::Find(find)) => {
                let page = plan.spec.collection(&find.ops).and_then(CollectionSpec::document);
                let planned = |query| self.planned::<D>(&plan.spec.data, page, query);
                find.queries.iter().filter_map(planned).collect()
            }
            _ => Vec::new(),
        };
        plan.spec.phases.iter().map(|phase| [of(Some(&phase.action)), of(phase.background.as_ref())]).collect()
    }

    /// A query that compares with values of a `page`; `None` where it queries no documents.
    fn planned<D: Driver>(
        &self,
        specs: &[CollectionSpec],
        page: Option<&DocumentSpec>,
        query: &QuerySpec,
    ) -> Option<Arc<Planned>> {
        let at = self.all.iter().position(|collection| collection.name == query.collection)?;
        let (collection, table, document) = (&self.all[at], &self.tables[at], specs[at].document()?);
        let page = page.unwrap_or(document);
        let own = table.documents.as_ref().and_then(|_| D::own_query(query, document, page, table));
        Some(Arc::new(match own {
            Some(own) => Planned::own(query.clone(), document.encoding, own),
            None => Planned::new(query.clone(), document.encoding, collection.indexes.clone()).within(collection.space),
        }))
    }
}
