//! The collections of a trial in the worker: their records, where the store keeps them, and what has been written.

use std::collections::BTreeSet;
use std::sync::Arc;

use prony_model::spec::{
    Action, CollectionSpec, DocumentSpec, Encoding, FieldPath, FieldSpec, FieldValue, Filter, Generator, KeySpec,
    MixSpec, Operand, Ops, QuerySpec, ReferencePlace, StoreSpec, Test,
};
use prony_model::units::Fraction;
use prony_workload::{Records, RowsError};

use super::Plan;
use super::guarded::Guarded;
use super::ledger::{Done, Ledger};
use crate::documents::{Indexes, Planned, Query, Space};
use crate::driver::{Documents, Driver, Table};

/// A collection.
pub(super) struct Collection {
    pub(super) name: Option<String>,
    pub(super) keys: KeySpec,
    pub(super) records: Records,
    /// Where the records are stored.
    pub(super) space: Space,
    /// Those that are kept beside the documents; `None` where there are none or the engine has its own.
    pub(super) indexes: Option<Arc<Indexes>>,
    /// What of its documents refers to records.
    pub(super) references: Vec<Reference>,
    /// Of each field that refers to its records: the query for documents with such a reference.
    pub(super) referrers: Vec<Arc<Planned>>,
    pub(super) ledger: Ledger,
}

/// A field that refers to a record of a collection, or items of a list that do.
pub(super) struct Reference {
    path: FieldPath,
    place: ReferencePlace,
    /// The index of this collection.
    pub(super) to: usize,
    /// Where its records are stored.
    space: Space,
    /// Bytes of their keys, where these are numbers.
    integer: Option<u8>,
}

impl Reference {
    /// Adds the keys to which a document refers, as they are stored.
    fn add_keys(&self, document: &FieldValue, keys: &mut Vec<Vec<u8>>) {
        match (self.place, document.at(&self.path.0)) {
            (ReferencePlace::Field, Some(value)) => self.add_key(value, keys),
            (ReferencePlace::Items, Some(FieldValue::List(items))) => {
                items.iter().for_each(|item| self.add_key(item, keys));
            }
            (ReferencePlace::Item(at), Some(FieldValue::List(items))) => {
                items.get(at).iter().for_each(|item| self.add_key(item, keys));
            }
            // `check` refuses checks of what lies inside items.
            _ => {}
        }
    }

    fn add_key(&self, value: &FieldValue, keys: &mut Vec<Vec<u8>>) {
        match (value, self.integer) {
            (FieldValue::Int(number), Some(bytes)) => {
                keys.push(self.space.stored(&number.to_be_bytes()[8 - usize::from(bytes.min(8))..]));
            }
            (FieldValue::Text(text), None) => keys.push(self.space.stored(text.as_bytes())),
            _ => {}
        }
    }
}

/// The field of the page of a query for referrers.
const KEY: &str = "key";

impl Collection {
    /// Whether its documents refer to records.
    pub(super) fn refers(&self) -> bool {
        !self.references.is_empty()
    }

    /// The keys to which a document refers, each once, as they are stored.
    pub(super) fn required(&self, document: &FieldValue) -> Vec<Vec<u8>> {
        self.required_of(document, |_| true)
    }

    /// The same of references to some collections.
    pub(super) fn required_of(&self, document: &FieldValue, to: impl Fn(usize) -> bool) -> Vec<Vec<u8>> {
        let mut keys = Vec::new();
        let references = self.references.iter().filter(|reference| to(reference.to));
        references.for_each(|reference| reference.add_keys(document, &mut keys));
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// The queries for documents that refer to a record, whose key this is.
    pub(super) fn referrers(&self, number: u64, key: &[u8]) -> Vec<Query> {
        let value = match self.keys {
            KeySpec::Integer { .. } => FieldValue::Int(number as i64),
            _ => FieldValue::Text(String::from_utf8_lossy(key).into_owned()),
        };
        let page = FieldValue::Fields(vec![(KEY.into(), value)]);
        self.referrers.iter().map(|planned| Query::new(planned, &page)).collect()
    }

    /// Numbers from here on belong to no record.
    pub(super) fn end(&self) -> u64 {
        self.ledger.end(self.records.count())
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
    /// Of each phase that checked references: what it did.
    pub(super) guarded: Vec<Guarded>,
    /// The references that some phase has written without a check, from one collection to another: those of documents that
    /// were stored, and those to documents that were removed.
    unchecked: BTreeSet<(usize, usize)>,
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
                documents: own.map(|document| Documents { spec: Arc::new(document.clone()), indexes: fields }),
                record: 0,
            });
            let records = Records::new(spec, plan.seed)?;
            if let Some(table) = tables.last_mut() {
                table.record = mean_record(spec, &records)?;
            }
            let (name, keys, ledger) = (spec.name.clone(), spec.key.clone(), Ledger::default());
            let (references, referrers) = (Vec::new(), Vec::new());
            all.push(Collection { name, keys, records, space, indexes, references, referrers, ledger });
        }
        let mut collections = Self { all, tables, guarded: Vec::new(), unchecked: BTreeSet::new() };
        collections.refer::<D>(specs);
        Ok(collections)
    }

    /// Fills in which documents refer to which.
    fn refer<D: Driver>(&mut self, specs: &[CollectionSpec]) {
        for (from, spec) in specs.iter().enumerate() {
            // One query finds what refers from any item of a list.
            let mut asked = BTreeSet::new();
            for found in spec.document().map(DocumentSpec::references).unwrap_or_default() {
                let named = |collection: &Collection| collection.name.as_ref() == Some(&found.to.collection);
                let Some(to) = self.all.iter().position(named) else { continue };
                let integer = match found.to.key {
                    KeySpec::Integer { bytes } => Some(bytes),
                    _ => None,
                };
                if asked.insert((to, found.path.clone())) {
                    let planned = self.planned::<D>(specs, Some(&key_page()), &referrer(spec, &found.path));
                    self.all[to].referrers.extend(planned);
                }
                let (path, place, space) = (found.path, found.place, self.all[to].space);
                self.all[from].references.push(Reference { path, place, to, space, integer });
            }
        }
    }

    /// Notes what a phase has written in a collection.
    pub(super) fn note(&mut self, at: usize, done: &Done<'_>) {
        if done.action.ops().is_some_and(|ops| ops.references.are_ignored()) {
            let (stores, removes) = match done.action {
                Action::Delete(_) => (false, true),
                Action::Mix(MixSpec { weights: w, .. }) => {
                    (w.update + w.insert + w.read_modify_write > 0.0, w.delete > 0.0)
                }
                action => (action.writes(), false),
            };
            let written = self.all.iter().enumerate().flat_map(|(from, collection)| {
                let to = collection.references.iter().map(|reference| reference.to);
                to.filter(move |to| stores && from == at || removes && *to == at).map(move |to| (from, to))
            });
            self.unchecked.extend(written);
        }
        let own = &mut self.all[at];
        own.ledger.note(done, &own.records);
    }

    /// Draws the operations of earlier phases again, as far as the states of records depend on them.
    pub(super) fn draw_again(&mut self) {
        self.all.iter_mut().for_each(|collection| collection.ledger.draw_again(&collection.records));
    }

    /// Notes a phase that checked references, before [`Self::note`].
    pub(super) fn note_guarded(&mut self, guarded: Guarded) {
        let before = self.all.iter().map(|collection| collection.ledger.layers()).collect();
        self.guarded.push(Guarded { before, ..guarded });
    }

    /// Whether each write on which references from one collection to another may depend has checked them.
    pub(super) fn all_checked(&self, from: usize, to: usize) -> bool {
        !self.unchecked.contains(&(from, to))
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

/// Records of which [`mean_record`] is the mean.
const MEASURED: u64 = 64;

/// Bytes of a record's key and value, on average. The same in every trial of an experiment, whatever its seed: an engine may choose
/// by it how it stores them.
fn mean_record(spec: &CollectionSpec, records: &Records) -> Result<u64, RowsError> {
    // Of a file, which would be read once more, the documents are the same with every seed.
    let of_file = spec.document().is_some_and(|document| document.file.is_some());
    let seeded = if of_file { None } else { Some(Records::new(spec, 0)?) };
    let records = seeded.as_ref().unwrap_or(records);
    let (mut key, mut value, mut sum) = (Vec::new(), Vec::new(), 0);
    let measured = records.count().min(MEASURED);
    for nth in 0..measured {
        let number = (u128::from(nth) * u128::from(records.count()) / u128::from(measured)) as u64;
        records.key(number, &mut key);
        records.value(number, 0, &mut value);
        sum += (key.len() + value.len()) as u64;
    }
    Ok(sum.checked_div(measured).unwrap_or(0))
}

/// The query for a document of a collection that refers to the key of a page.
fn referrer(of: &CollectionSpec, path: &FieldPath) -> QuerySpec {
    let key = Operand::Document(FieldPath([KEY.to_owned()].as_slice().into()));
    QuerySpec {
        collection: of.name.clone(),
        filter: Filter::Field(path.clone(), Test::In(vec![key])),
        sort: Vec::new(),
        skip: 0,
        limit: Some(1),
        select: Vec::new(),
        count: false,
    }
}

/// The page of such a query.
fn key_page() -> DocumentSpec {
    let value = Generator::Constant(FieldValue::Bool(true));
    let key = FieldSpec { name: KEY.to_owned(), value, present: Fraction::ONE };
    DocumentSpec { fields: vec![key], encoding: Encoding::Json, file: None }
}
