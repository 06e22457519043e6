//! Checks phases that check references between documents.

use std::collections::BTreeSet;
use std::ops::Range;

use super::phase::Placed;
use crate::problem::{Problem, Problems};
use prony_model::catalog::EngineFacts;
use prony_model::spec::{
    Action, CollectionSpec, DocumentSpec, FieldReference, Ops, ReferencePlace, References, StoreSpec,
};

/// What a check of references needs to know.
pub(crate) struct Check<'a> {
    pub(crate) data: &'a [CollectionSpec],
    pub(crate) store: &'a StoreSpec,
    pub(crate) facts: &'a EngineFacts,
}

impl Check<'_> {
    /// Refuses phases in which references cannot be checked, or every operation would be refused.
    pub(crate) fn phases(&self, phases: &[Placed], problems: &mut Problems<'_>) {
        // The collections that hold documents by now.
        let mut filled: Vec<&str> = Vec::new();
        for placed in phases {
            for (action, written) in placed.actions() {
                let Some(ops) = action.ops() else { continue };
                if !ops.references.are_ignored() {
                    self.action(action, ops, &filled, &written.key_span, problems);
                }
                if matches!(action, Action::Put(_) | Action::Update(_) | Action::Compute(_) | Action::Mix(_)) {
                    filled.extend(ops.collection.as_deref());
                }
            }
        }
    }

    fn action(&self, action: &Action, ops: &Ops, filled: &[&str], at: &Range<usize>, problems: &mut Problems<'_>) {
        let mut fault = |message: String, hint: &str| problems.add(Problem::new(at.clone(), message).hint(hint));
        let (name, engine) = (action.name(), &self.store.engine);
        if !matches!(action, Action::Put(_) | Action::Update(_) | Action::Delete(_)) {
            let message = format!("`{name}` does not check references: only `put`, `update` and `delete` do");
            return fault(message, "leave `references` out");
        }
        if !self.facts.can.reads_own_writes {
            let message =
                format!("`{engine}` cannot read inside a write transaction, which a check of references needs");
            fault(message, "leave the variant out with `[design] skip`, or the phase with `when`");
        }
        if self.facts.can.concurrent_writers && ops.threads > 1 {
            let message = format!(
                "`{engine}` has concurrent writers: another thread may remove a document between the check and the commit"
            );
            fault(message, "use one thread");
        }
        let Some(own) = self.data.iter().find(|collection| collection.name == ops.collection) else { return };
        match action {
            Action::Delete(_) => self.delete(own, ops, &mut fault),
            _ => stored(own, filled, &mut fault),
        }
    }

    /// What refers to a document is found by an index.
    fn delete(&self, own: &CollectionSpec, ops: &Ops, fault: &mut impl FnMut(String, &str)) {
        if ops.references == References::Locked {
            fault(
                "`delete` has nothing to lock: it refuses to remove a document to which others refer, and `lock` writes documents to which a \
                 new one refers".to_owned(),
                "write `references = \"check\"`",
            );
        }
        let leads_here = |found: &FieldReference<'_>| own.name.as_ref() == Some(&found.to.collection);
        let mut referring = false;
        for from in self.data {
            let (all, name) = (references(from), from.name.as_deref().unwrap_or_default());
            let mut paths = BTreeSet::new();
            for found in all.iter().filter(|found| leads_here(found)) {
                referring = true;
                if !inside_items(found, from, fault) && paths.insert(&found.path) {
                    self.finds(name, found, fault);
                }
            }
        }
        if !referring {
            let message = format!("no field refers to records of `{}`", own.name.as_deref().unwrap_or("[data]"));
            fault(message, "leave `references` out");
        }
    }

    fn finds(&self, collection: &str, found: &FieldReference<'_>, fault: &mut impl FnMut(String, &str)) {
        let path = &found.path;
        if found.mixed {
            let message = format!(
                "the list `{path}` of `{collection}` has other items beside references to `{}`: an index does not tell which \
                 of them equals a key",
                found.to.collection
            );
            fault(message, "write a field for each kind");
        }
        let mut indexes = self.store.indexes.iter().filter(|index| index.collection.as_deref() == Some(collection));
        if indexes.all(|index| index.fields.first() != Some(path)) {
            let message = format!(
                "to see whether a document is referred to, `delete` needs an index of `{collection}` whose first field is \
                 `{path}`"
            );
            fault(message, &format!("add `{collection} = [[\"{path}\"]]` to the table `indexes` of `[store]`"));
        }
    }
}

/// The references of a collection's documents.
fn references(collection: &CollectionSpec) -> Vec<FieldReference<'_>> {
    collection.document().map(DocumentSpec::references).unwrap_or_default()
}

/// Whether a reference cannot be checked, as it is inside an item of a list.
fn inside_items(found: &FieldReference<'_>, of: &CollectionSpec, fault: &mut impl FnMut(String, &str)) -> bool {
    let inside = found.place == ReferencePlace::InsideItems;
    if inside {
        let message = format!(
            "the items of the list `{}` of `{}` have references to `{}` inside them, which cannot be checked: no index \
             leads to them",
            found.path,
            of.name.as_deref().unwrap_or("[data]"),
            found.to.collection
        );
        fault(message, "refer from a field, or make the items references themselves");
    }
    inside
}

/// The documents to which those of a collection refer must be stored before.
fn stored(own: &CollectionSpec, filled: &[&str], fault: &mut impl FnMut(String, &str)) {
    let (all, name) = (references(own), own.name.as_deref().unwrap_or("[data]"));
    if all.is_empty() {
        fault(format!("no field of `{name}` refers to other records"), "leave `references` out");
    }
    let mut named = BTreeSet::new();
    for found in &all {
        let (path, to) = (&found.path, found.to.collection.as_str());
        if inside_items(found, own, fault) || filled.contains(&to) || !named.insert((path, to)) {
            continue;
        }
        match (name == to, found.always) {
            (true, true) => fault(
                format!(
                    "each document of `{name}` refers by `{path}` to one that must be stored before it: the first one can never \
                     be stored"
                ),
                "store some in an earlier phase with `references = \"ignore\"`, or give only a share of them the field, with \
                 `present`",
            ),
            // Those without the field can be stored.
            (true, false) => {}
            (false, always) => fault(
                format!(
                    "`{path}` refers to records of `{to}`, none of which is stored yet: {} would be refused",
                    if always { "each operation" } else { "each document with such a reference" }
                ),
                "store them in an earlier phase; of two collections that refer to each other, store one with \
                 `references = \"ignore\"`",
            ),
        }
    }
}
