//! References that are checked in the transactions of their writes, on an engine whose process is killed.

use std::cell::Cell;
use std::sync::Arc;

use prony_engines::answers::Reads;
use prony_engines::documents::{Entries, Guard, Indexes, Planned, Query};
use prony_engines::driver::{Driver, Read, Write};
use prony_model::spec::{Encoding, FieldPath, FieldValue, Filter, Operand, QuerySpec, Test};
use prony_workload::decode;
use serde_json::json;

use crate::indexes::{Change, Killed, after_kills, apply, rows};
use crate::queries::key;

const PARENTS: usize = 5;
const CHILDREN: usize = 40;

fn to() -> FieldPath {
    "to".parse().unwrap()
}

/// Looks for a document that refers to the parent with the number of the page.
fn referrer(children: &Arc<Indexes>) -> Arc<Planned> {
    let spec = QuerySpec {
        collection: None,
        filter: Filter::Field(to(), Test::In(vec![Operand::Document(to())])),
        sort: Vec::new(),
        skip: 0,
        limit: Some(1),
        select: Vec::new(),
        count: false,
    };
    Arc::new(Planned::new(spec, Encoding::MsgPack, Some(Arc::clone(children))))
}

/// The parent with this number, on the page of a query.
fn page(parent: usize) -> FieldValue {
    FieldValue::Fields(vec![("to".into(), FieldValue::Int(parent as i64))])
}

/// Children are stored, moved and removed, and parents stored and removed, each only if references allow that.
struct Family {
    parents: Indexes,
    children: Arc<Indexes>,
    referrer: Arc<Planned>,
}

impl Killed for Family {
    fn write<W: Write>(&self, txn: &mut W, round: usize) {
        for at in 0..CHILDREN {
            let (parent, child) = ((round * 3 + at * 7) % PARENTS, (round + at * 11) % CHILDREN);
            let (mut required, mut absent) = (Entries::default(), Vec::new());
            let (indexes, change) = match (round + at) % 4 {
                0 => (&self.parents, Change::Store(parent, json!({ "n": round }))),
                1 => {
                    absent.push(Query::new(&self.referrer, &page(parent)));
                    (&self.parents, Change::Remove(parent))
                }
                2 => {
                    required.push(&self.parents.space().stored(&key(parent)));
                    (&*self.children, Change::Store(child, json!({ "to": parent })))
                }
                _ => (&*self.children, Change::Remove(child)),
            };
            let (required, refused) = (required.part(0..required.bytes()), Cell::default());
            let guard = Guard { required, locks: round.is_multiple_of(2), absent: &absent, refused: &refused };
            if guard.admits(txn, &mut Reads::default()).unwrap() {
                apply(txn, indexes, &change, Encoding::MsgPack, true);
            }
        }
    }

    fn check<R: Read>(&self, txn: &mut R) {
        let stored: Vec<Vec<u8>> = rows(txn, &self.parents).into_iter().map(|(key, _)| key).collect();
        let referring = rows(txn, &self.children);
        assert!(!stored.is_empty() && !referring.is_empty());
        for (_, document) in referring {
            let document = decode(Encoding::MsgPack, &document).unwrap();
            let Some(FieldValue::Int(parent)) = document.at(&["to"]) else { panic!("{document:?}") };
            assert!(stored.contains(&key(*parent as usize).to_vec()), "{parent} is referred to and not stored");
        }
    }
}

pub(crate) fn a_killed_writer_leaves_no_reference_to_nothing<D: Driver>(name: &str) {
    let parents = Indexes::new(&[], Encoding::MsgPack, |_| false);
    let children = Indexes::new(&[vec![to()]], Encoding::MsgPack, |_| false);
    let children = Arc::new(children.above(parents.space().byte().unwrap() + 1));
    let referrer = referrer(&children);
    after_kills::<D>(name, &Family { parents, children, referrer });
}
