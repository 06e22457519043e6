//! Checks phases that check references between documents.

use std::ops::Range;

use super::phase::Placed;
use crate::problem::{Problem, Problems};
use prony_model::catalog::EngineFacts;
use prony_model::spec::{Action, CollectionSpec, DocumentSpec, FieldPath, Ops, ReferenceSpec, References, StoreSpec};

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
            let beside = placed.background.clone().unwrap_or_else(|| placed.action.clone());
            let own = std::iter::once((&placed.spec.action, placed.action.clone()));
            for (action, at) in own.chain(placed.spec.background.iter().map(|action| (action, beside.clone()))) {
                let Some(ops) = action.ops() else { continue };
                if !ops.references.are_ignored() {
                    self.action(action, ops, &filled, at, problems);
                }
                if matches!(action, Action::Put(_) | Action::Compute(_) | Action::Mix(_)) {
                    filled.extend(ops.collection.as_deref());
                }
            }
        }
    }

    fn action(&self, action: &Action, ops: &Ops, filled: &[&str], at: Range<usize>, problems: &mut Problems<'_>) {
        let mut fault = |message: String, hint: &str| problems.add(Problem::new(at.clone(), message).hint(hint));
        let name = action.name();
        if !matches!(action, Action::Put(_) | Action::Update(_) | Action::Delete(_)) {
            let message = format!("`{name}` does not check references: only `put`, `update` and `delete` do");
            return fault(message, "leave `references` out");
        }
        if !self.facts.reads_own_writes {
            let message = format!(
                "`{}` cannot read inside a write transaction, which a check of references needs",
                self.store.engine
            );
            fault(message, "leave the variant out with `[design] skip`, or the phase with `when`");
        }
        if self.facts.concurrent_writers && ops.threads > 1 {
            let message = format!(
                "`{}` has concurrent writers: another thread may remove a document between the check and the commit",
                self.store.engine
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
                "`delete` locks nothing: nothing refers to what it removes".to_owned(),
                "write `references = \"check\"`",
            );
        }
        let mut referring = false;
        for from in self.data {
            for (path, _) in
                references(from).into_iter().flatten().filter(|(_, to)| own.name.as_ref() == Some(&to.collection))
            {
                referring = true;
                let leads = |fields: &Vec<FieldPath>| fields.first() == Some(&path);
                if !self.store.indexes_of(from).iter().any(leads) {
                    let collection = from.name.as_deref().unwrap_or_default();
                    let message = format!(
                        "to see whether a document is referred to, `delete` needs an index of `{collection}` whose first field \
                         is `{path}`"
                    );
                    fault(message, &format!("write `indexes = {{ {collection} = [[\"{path}\"]] }}` in `[store]`"));
                }
            }
        }
        if !referring {
            let message = format!("no field refers to records of `{}`", own.name.as_deref().unwrap_or("[data]"));
            fault(message, "leave `references` out");
        }
    }
}

type Found<'d> = Option<Vec<(FieldPath, &'d ReferenceSpec)>>;

/// The references of a collection's documents; `None` where some have no path.
fn references(collection: &CollectionSpec) -> Found<'_> {
    collection.document().map_or(Some(Vec::new()), DocumentSpec::references)
}

/// The documents to which those of a collection refer must be stored before.
fn stored(own: &CollectionSpec, filled: &[&str], fault: &mut impl FnMut(String, &str)) {
    let Some(all) = references(own) else {
        let message = "references inside the fields of a list's items cannot be checked";
        return fault(message.to_owned(), "refer from a field, or from the items of a list");
    };
    if all.is_empty() {
        let message = format!("no field of `{}` refers to other records", own.name.as_deref().unwrap_or("[data]"));
        fault(message, "leave `references` out");
    }
    for (path, to) in all {
        let to = to.collection.as_str();
        if own.name.as_deref() != Some(to) && !filled.contains(&to) {
            let message =
                format!("`{path}` refers to records of `{to}`, none of which is stored yet: all would be refused");
            fault(
                message,
                "store them in an earlier phase; of two collections that refer to each other, store one with `references = \"ignore\"`",
            );
        }
    }
}
