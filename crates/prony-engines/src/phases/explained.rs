//! The plans of queries that a server answers: asked for at the begin of a phase, and again after it.

use prony_model::spec::FieldValue;

use crate::driver::Store;

/// What a server said of the way in which it runs a query.
pub(super) struct Explained {
    own_query: String,
    bound: Vec<FieldValue>,
    said: String,
}

impl Explained {
    /// Asks for it.
    pub(super) fn ask(store: &impl Store, own_query: &str, bound: &[FieldValue]) -> Self {
        let said = store.explain(own_query, bound).unwrap_or_else(|error| format!("not known: {error}"));
        Self { own_query: own_query.to_owned(), bound: bound.to_vec(), said }
    }

    /// The answer.
    pub(super) fn said(&self) -> String {
        self.said.clone()
    }
}

/// The plans of an operation's queries as a text; `None` where it has none.
pub(super) fn text(each: &[String]) -> Option<String> {
    match each {
        [] => None,
        [only] => Some(format!("plan: {only}")),
        several => {
            let each = several.iter().enumerate().map(|(at, plan)| format!("plan of query {}: {plan}", at + 1));
            Some(each.collect::<Vec<_>>().join("; "))
        }
    }
}

/// The plans that were asked for at the begin of a phase, with those of now; `None` where these are the same.
pub(super) fn changed(store: &impl Store, at_begin: &[Explained]) -> Option<String> {
    let plans = |all: &mut dyn Iterator<Item = String>| text(&all.collect::<Vec<_>>());
    let begin = plans(&mut at_begin.iter().map(Explained::said))?;
    let end = plans(&mut at_begin.iter().map(|one| Explained::ask(store, &one.own_query, &one.bound).said))?;
    let differ =
        || format!("the plans at the begin of the phase and after it differ: at its begin, {begin}; after it, {end}");
    (begin != end).then(differ)
}
