//! Decides whether a phase does the same work on the same data in two variants, so that its answers should agree.

use std::collections::BTreeSet;

use prony_model::http::{HttpAmount, HttpSpec};
use prony_model::spec::{
    Action, Amount, CollectionSpec, DocumentSpec, Encoding, Grouping, Ops, Order, PhaseSpec, Sharing, TrialSpec,
    ValueSpec,
};

/// Whether a phase does the same operations on the same data in both specifications, so that its answers should agree.
/// They need not agree where the compared factor changes the data, the amount or the order of records, nor after a
/// phase that changes data for a given time: how much is stored then depends on speed. Grouping, pauses, rates and
/// sampling change no answer.
pub(super) fn same(a: &TrialSpec, b: &TrialSpec, phase: &str) -> bool {
    named(a, phase).zip(named(b, phase)).is_none_or(|(x, y)| alike(a, b, x, y) && same_kind(&x.action, &y.action))
}

/// Whether a phase does the same in both but for what each operation asks: other queries, other lengths of scans.
pub(super) fn differ_in_query(a: &TrialSpec, b: &TrialSpec, phase: &str) -> bool {
    let Some((x, y)) = named(a, phase).zip(named(b, phase)) else { return false };
    ask_other(&x.action, &y.action) && alike(a, b, x, y)
}

/// Whether these are queries that differ, or scans of other lengths.
pub(super) fn ask_other(a: &Action, b: &Action) -> bool {
    matches!((a, b), (Action::Find(_), Action::Find(_)) | (Action::Scan(_), Action::Scan(_))) && !same_kind(a, b)
}

/// Whether the data is the same and as many operations are drawn alike.
fn alike(a: &TrialSpec, b: &TrialSpec, x: &PhaseSpec, y: &PhaseSpec) -> bool {
    let by_speed = is_stored_by_speed(a, x) || is_stored_by_speed(b, y);
    let queries = matches!(x.action, Action::Find(_));
    let same_data = if queries { same_documents(&used(a, x), &used(b, y)) } else { used(a, x) == used(b, y) };
    let drawn = match x.action.http().zip(y.action.http()) {
        Some((m, n)) => same_requests(a, m, n),
        None => same_draws(&x.action, &y.action),
    };
    same_data && !by_speed && stored_alike(a, b, x, y) && drawn
}

/// Whether earlier phases leave the same in the collections that a phase uses: each that writes there does so to the same
/// records in both, and no clients race for one.
fn stored_alike(a: &TrialSpec, b: &TrialSpec, x: &PhaseSpec, y: &PhaseSpec) -> bool {
    let (ours, theirs) = (earlier_writes(a, x), earlier_writes(b, y));
    let alike = |(m, n): (&&Action, &&Action)| {
        let draws = same_draws(m, n) && same_versions(a, m, n) || is_of_all(m) && is_of_all(n);
        same_kind(m, n) && draws && !races(m) && !races(n)
    };
    ours.len() == theirs.len() && ours.iter().zip(&theirs).all(alike)
}

fn earlier_writes<'s>(spec: &'s TrialSpec, phase: &PhaseSpec) -> Vec<&'s Action> {
    let used = used(spec, phase);
    let before = spec.phases.iter().take_while(|earlier| earlier.name != phase.name).flat_map(PhaseSpec::actions);
    before.filter(|action| writes_by(action, &used)).collect()
}

/// Whether a phase works on each record once, in whatever order and by however many clients.
fn is_of_all(action: &Action) -> bool {
    let once =
        |ops: &Ops| ops.amount == Amount::Records && matches!(ops.order, Order::Record | Order::Key | Order::Shuffled);
    !matches!(action, Action::Mix(_) | Action::Scan(_)) && action.ops().is_some_and(once)
}

/// Whether updates of the same records write the same versions: to a record to which they come again those that check references write one
/// version, and others write two in turn.
fn same_versions(spec: &TrialSpec, a: &Action, b: &Action) -> bool {
    let (Some(x), Some(y)) = (a.ops(), b.ops()) else { return true };
    let updates = matches!(a, Action::Update(_) | Action::Mix(_));
    let checks = |ops: &Ops| !ops.references.are_ignored();
    !updates || checks(x) == checks(y) || is_of_each_once(spec, a, x)
}

/// Whether a phase comes to no record twice.
fn is_of_each_once(spec: &TrialSpec, action: &Action, ops: &Ops) -> bool {
    let fits = |count| spec.collection(ops).is_some_and(|collection| count <= collection.records);
    let once = match ops.amount {
        Amount::Records => true,
        Amount::Count(count) => fits(count),
        Amount::Duration(_) | Amount::Background => false,
    };
    let passes = matches!(ops.order, Order::Record | Order::Key | Order::Shuffled);
    once && passes && !matches!(action, Action::Mix(_) | Action::Scan(_))
}

/// Whether what is stored depends on which of several clients was first: one updates a record that another removes.
fn races(action: &Action) -> bool {
    matches!(action, Action::Mix(mix) if mix.ops.clients() > 1 && mix.weights.delete > 0.0)
}

pub(super) fn named<'s>(spec: &'s TrialSpec, phase: &str) -> Option<&'s PhaseSpec> {
    spec.phases.iter().find(|each| each.name == phase)
}

/// The phases whose writes may cost what is measured of one: its own; of a commit, and of writes in a transaction that stays open, all
/// since the last commit in such a transaction; and of what finishes earlier writes, all since that was last done.
pub(super) fn costing<'s>(spec: &'s TrialSpec, phase: &'s str) -> Vec<&'s str> {
    let Some(at) = spec.phases.iter().position(|each| each.name == phase) else { return vec![phase] };
    let (earlier, own) = (&spec.phases[..at], &spec.phases[at]);
    let since = |is_last: &dyn Fn(&Action) -> bool| {
        let last = earlier.iter().rposition(|each| is_last(&each.action));
        earlier[last.map_or(0, |last| last + 1)..].iter()
    };
    let before: Vec<&PhaseSpec> = match &own.action {
        action if *action == Action::Commit || stays_open(own) => {
            since(&|action| *action == Action::Commit).filter(|each| stays_open(each)).collect()
        }
        Action::Persist | Action::Settle(_) | Action::Close | Action::Reopen | Action::Evict => {
            // A store that was closed has nothing of earlier phases left to do when it is opened.
            let kind = std::mem::discriminant(&own.action);
            let is_last = |action: &Action| {
                std::mem::discriminant(action) == kind || (own.action == Action::Reopen && *action == Action::Close)
            };
            since(&is_last).collect()
        }
        _ => Vec::new(),
    };
    before.into_iter().chain([own]).map(|each| each.name.as_str()).collect()
}

/// Whether a phase writes in a transaction that a later one commits.
pub(super) fn stays_open(phase: &PhaseSpec) -> bool {
    phase.action.writes() && phase.action.ops().is_some_and(|ops| ops.transaction == Grouping::Open)
}

/// Whether two phases send the same kinds of requests, each as often.
pub(super) fn same_mix(a: &PhaseSpec, b: &PhaseSpec) -> bool {
    let mix = |phase: &PhaseSpec| -> (bool, Vec<(Option<String>, f64)>) {
        let Some(http) = phase.action.http() else { return (false, Vec::new()) };
        let all: f64 = http.kinds.iter().map(|kind| kind.weight).sum();
        (http.session, http.kinds.iter().map(|kind| (kind.name.clone(), kind.weight / all)).collect())
    };
    let ((one, a), (other, b)) = (mix(a), mix(b));
    one == other && a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| a.0 == b.0 && (a.1 - b.1).abs() < 1e-9)
}

/// The collections on which depends what a phase does: those of its operations and queries, and where references are checked
/// those to which their documents refer, and those that refer to them. All of them, where it has no operations.
pub(super) fn used<'s>(spec: &'s TrialSpec, phase: &PhaseSpec) -> Vec<&'s CollectionSpec> {
    let mut names: BTreeSet<Option<&str>> = BTreeSet::new();
    for action in phase.actions() {
        let Some(ops) = action.ops() else { return spec.data.iter().collect() };
        let own = ops.collection.as_deref();
        names.insert(own);
        if let Action::Find(find) = action {
            names.extend(find.queries.iter().map(|query| query.collection.as_deref().or(own)));
        }
        if !ops.references.are_ignored() {
            let related = references(spec).filter(|(from, to)| *from == own || Some(*to) == own);
            names.extend(related.flat_map(|(from, to)| [from, Some(to)]));
        }
    }
    spec.data.iter().filter(|collection| names.contains(&collection.name.as_deref())).collect()
}

/// Which collections refer to which.
fn references(spec: &TrialSpec) -> impl Iterator<Item = (Option<&str>, &str)> {
    spec.data.iter().flat_map(|collection| {
        let all = collection.document().map(DocumentSpec::references).unwrap_or_default();
        all.into_iter().map(|found| (collection.name.as_deref(), found.to.collection.as_str()))
    })
}

/// Whether the records are the same but for how documents are encoded, of which no query's answer depends.
fn same_documents(a: &[&CollectionSpec], b: &[&CollectionSpec]) -> bool {
    let plain = |collection: &&CollectionSpec| {
        let mut collection = (*collection).clone();
        if let ValueSpec::Document(document) = &mut collection.value {
            document.encoding = Encoding::default();
        }
        collection
    };
    a.iter().map(plain).eq(b.iter().map(plain))
}

/// Whether a phase changes one of these collections.
pub(super) fn writes(phase: &PhaseSpec, collections: &[&CollectionSpec]) -> bool {
    phase.actions().any(|action| writes_by(action, collections))
}

fn writes_by(action: &Action, collections: &[&CollectionSpec]) -> bool {
    let own = action.ops().filter(|_| action.writes()).map(|ops| &ops.collection);
    own.is_some_and(|own| collections.iter().any(|collection| collection.name == *own))
}

/// Whether how much is stored of what a phase uses depends on how fast an earlier phase was.
fn is_stored_by_speed(spec: &TrialSpec, phase: &PhaseSpec) -> bool {
    let used = used(spec, phase);
    let mut before = spec.phases.iter().take_while(|earlier| earlier.name != phase.name).flat_map(PhaseSpec::actions);
    let writes = |action| writes_by(action, &used) || action.http().is_some_and(HttpSpec::may_write);
    let by_speed = |action: &Action| action.is_bounded_by_time() || action.http().is_some_and(HttpSpec::warms_up);
    before.any(|action| by_speed(action) && writes(action))
}

/// The phases up to this one in which as many records as fit were stored or removed, of those that it uses.
pub(super) fn stored_by_speed<'s>(spec: &'s TrialSpec, phase: &PhaseSpec) -> impl Iterator<Item = &'s PhaseSpec> {
    let used = used(spec, phase);
    let at = spec.phases.iter().position(|earlier| earlier.name == phase.name);
    let (mut loaded, mut found) = (BTreeSet::new(), Vec::new());
    for earlier in at.map_or(&[][..], |at| &spec.phases[..=at]) {
        if earlier.action.http().is_some_and(HttpSpec::may_write) && earlier.action.is_bounded_by_time() {
            found.push(earlier);
        }
        for action in earlier.actions().filter(|action| writes_by(action, &used)) {
            let Some(ops) = action.ops() else { continue };
            let changes_amount = match action {
                Action::Put(_) | Action::Compute(_) => !loaded.contains(&ops.collection),
                Action::Delete(_) => true,
                Action::Mix(mix) => mix.weights.insert > 0.0 || mix.weights.delete > 0.0,
                _ => false,
            };
            if changes_amount && action.is_bounded_by_time() {
                found.push(earlier);
            }
            if has_all_after(loaded.contains(&ops.collection), action) {
                loaded.insert(&ops.collection);
            } else {
                loaded.remove(&ops.collection);
            }
        }
    }
    found.into_iter()
}

/// Whether a collection has every record after an action on it, where it had them before or not.
fn has_all_after(before: bool, action: &Action) -> bool {
    match action {
        Action::Put(_) => before || is_of_all(action),
        Action::Delete(_) => false,
        Action::Mix(mix) => before && mix.weights.delete == 0.0,
        _ => before,
    }
}

/// Whether a collection has every record when a phase begins.
pub(super) fn has_all(spec: &TrialSpec, phase: &str, collection: &Option<String>) -> bool {
    let before = spec.phases.iter().take_while(|earlier| earlier.name != phase).flat_map(PhaseSpec::actions);
    let on_it = before.filter(|action| action.ops().is_some_and(|ops| ops.collection == *collection));
    on_it.fold(false, has_all_after)
}

fn same_kind(a: &Action, b: &Action) -> bool {
    match (a, b) {
        (Action::Scan(a), Action::Scan(b)) => a.length == b.length,
        (Action::Find(a), Action::Find(b)) => a.queries == b.queries,
        (Action::Mix(a), Action::Mix(b)) => a.weights == b.weights && a.scan_length == b.scan_length,
        _ => a.name() == b.name(),
    }
}

/// Whether as many requests go over the same records or saved values: each thread of the load generator draws for itself, and begins
/// anew with its own share of an order, which is larger for a thread with more connections than others.
fn same_requests(spec: &TrialSpec, x: &HttpSpec, y: &HttpSpec) -> bool {
    let records = spec.data.iter().find(|collection| collection.name == x.collection).map(|found| found.records);
    let is_one_pass = match x.amount {
        HttpAmount::Records => true,
        HttpAmount::Requests(count) => !x.uses_saved() && records.is_none_or(|records| count <= records),
        HttpAmount::Duration(_) => false,
    };
    let once = matches!(x.order, Order::Record | Order::Key | Order::Shuffled) && is_one_pass;
    let is_even = |spec: &HttpSpec| spec.connections.is_multiple_of(spec.threads.max(1));
    let shared = x.threads == y.threads && (x.connections == y.connections || is_even(x) && is_even(y));
    let drawn = x.order == y.order && (once || shared);
    drawn && x.collection == y.collection && x.amount == y.amount && x.session == y.session
}

fn same_draws(a: &Action, b: &Action) -> bool {
    let (Some(x), Some(y)) = (a.ops(), b.ops()) else { return true };
    // A pass over all records reads them all, in whatever order and by however many clients. Else each client draws
    // for itself, and other clients draw other records.
    let whole = |action: &Action| matches!(action, Action::Get(_) | Action::Find(_)) && is_of_all(action);
    // A queue gives the places of the order one after the other, whoever takes them.
    let alike = x.order == y.order && x.share == y.share && (x.share == Sharing::Queue || x.clients() == y.clients());
    x.collection == y.collection && x.amount == y.amount && (whole(a) && whole(b) || alike)
}
