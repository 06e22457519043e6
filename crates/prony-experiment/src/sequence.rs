//! Checks the order of a variant's phases: open transactions, closed stores, and what the engine cannot do.

use std::ops::Range;

use super::decode::phase::Placed;
use super::node::Entry;
use super::problem::{Problem, Problems};
use prony_model::catalog::{EngineFacts, NO_QUERIES};
use prony_model::spec::{Action, Amount, Grouping, Ops, Order, Sampling, Sharing, StoreSpec};

/// The hint where one variant of several has a fault.
const SKIP: &str = "leave the variant out with `[design] skip`, or the phase with `when`";

/// Checks the phases in order, and settles which transactions stay open.
pub(crate) fn settle(phases: &mut [Placed], store: &StoreSpec, facts: &EngineFacts, problems: &mut Problems<'_>) {
    stay_open(phases);
    let stored_beside = store.indexes.iter().filter(|_| !facts.can.own_documents);
    let indexed = stored_beside.map(|index| index.collection.clone()).collect();
    let written = Vec::new();
    let mut walk = Sequence { engine: &store.engine, indexed, facts, problems, written, open: None, closed: None };
    for phase in phases.iter_mut() {
        walk.phase(phase);
        queue(phase, walk.problems);
    }
    if let Some(writer) = walk.open.take() {
        let message = format!("the transaction of phase `{}` is never committed", writer.name);
        walk.problems.fault(writer.at, message, "add a phase with `commit = {}` after it");
    }
}

/// A queue gives each client the next place of a pass: the phase must have one, and nothing else may set the pace. A phase
/// that writes has equal shares, from which `verify` knows what each client wrote.
fn queue(phase: &Placed, problems: &mut Problems<'_>) {
    let action = &phase.spec.action;
    let Some(ops) = action.ops().filter(|ops| ops.share == Sharing::Queue) else { return };
    let at = phase.place("share");
    let mut fault = |message: &str, hint: &str| problems.fault(&at, message, hint);
    let equal = "leave `share` out: each client has an equal share";
    if !matches!(action, Action::Get(_) | Action::Find(_)) {
        fault("only `get` and `find` take their operations from a queue", equal);
    } else if !matches!(ops.order, Order::Record | Order::Key | Order::Shuffled) {
        fault(
            "a queue needs an order that visits each record once",
            "write `order = \"shuffled\"`, `\"record\"` or `\"key\"`",
        );
    } else if matches!(ops.amount, Amount::Duration(_)) {
        fault("a queue needs a number of operations, and `duration` sets none", "write `count` instead of `duration`");
    } else if ops.rate.is_some() {
        fault("`rate` sets when each client starts its operations, so there is no queue", equal);
    }
}

/// `single` stays open until the next commit, where one follows.
fn stay_open(phases: &mut [Placed]) {
    let commits: Vec<bool> = phases.iter().map(|phase| phase.spec.action == Action::Commit).collect();
    for (at, phase) in phases.iter_mut().enumerate() {
        let writes = phase.spec.action.writes();
        let stays = writes && commits[at..].contains(&true);
        if let Some(ops) = phase.spec.action.ops_mut().filter(|ops| stays && ops.transaction == Grouping::Single) {
            ops.transaction = Grouping::Open;
        }
    }
}

/// The place where something began that affects later phases.
struct Since {
    name: String,
    at: Range<usize>,
}

/// Whether a phase and its background would wait for each other, or fail, where a commit waits for read transactions that are
/// open: one of the two has a transaction that lasts as long as the phase, or longer.
fn waits(own: &Ops, action: &Action, ops: &Ops, beside: &Action) -> bool {
    let writer_waits = action.writes() && (ops.transaction == Grouping::Single || own.transaction == Grouping::Open);
    writer_waits || (beside.writes() && own.transaction == Grouping::Single)
}

struct Sequence<'p, 't, 'f> {
    engine: &'f str,
    /// The collections whose documents have indexes.
    indexed: Vec<Option<String>>,
    facts: &'f EngineFacts,
    problems: &'p mut Problems<'t>,
    /// The collections to which a phase before has written.
    written: Vec<Option<String>>,
    /// The phase whose transaction is open.
    open: Option<Since>,
    /// The phase that closed the store.
    closed: Option<Since>,
}

impl Sequence<'_, '_, '_> {
    fn phase(&mut self, phase: &mut Placed) {
        self.state(phase);
        match phase.spec.action {
            Action::Commit => self.open = None,
            Action::Close => self.closed = Some(since(phase)),
            Action::Reopen | Action::Evict => self.closed = None,
            _ => {}
        }
        for (action, written) in phase.actions() {
            self.engine_can(action, written);
            self.entries(action, written);
        }
        let writes = phase.spec.actions().filter(|action| action.writes());
        self.written.extend(writes.filter_map(|action| Some(action.ops()?.collection.clone())));
        self.replicas(phase);
        self.transaction(phase);
        self.background(phase);
    }

    /// Faults because of an open transaction or a closed store.
    fn state(&mut self, phase: &Placed) {
        let action = &phase.spec.action;
        let ends = matches!(action, Action::Persist | Action::Close | Action::Reopen | Action::Evict);
        if let (Some(open), true) = (&self.open, ends) {
            let message =
                format!("`{}` cannot run while the transaction of phase `{}` is open", action.name(), open.name);
            let problem = Problem::new(phase.action(), message).hint("put a phase with `commit = {}` before it");
            self.problems.add(problem.label(&open.at, "opened"));
            self.open = None;
        }
        let can = matches!(action, Action::Reopen | Action::Evict | Action::Pause(_) | Action::Settle(_));
        if let (Some(closed), false) = (&self.closed, can) {
            let message = format!("`{}` cannot run after phase `{}` has closed the store", action.name(), closed.name);
            let problem = Problem::new(phase.action(), message).hint("put a phase with `reopen = {}` before it");
            self.problems.add(problem.label(&closed.at, "closed"));
            self.closed = None;
        }
    }

    fn engine_can(&mut self, action: &Action, written: &Entry) {
        let (at, transaction) = (&written.key_span, written.place("transaction"));
        let several = action.ops().is_some_and(|ops| ops.transaction != Grouping::Each) && action.writes();
        let scans = matches!(action, Action::Scan(_) | Action::Find(_))
            || matches!(action, Action::Mix(mix) if mix.weights.scan > 0.0);
        let rereads = match action {
            Action::Compute(_) => several,
            Action::Mix(mix) => {
                let reads = mix.weights.read > 0.0 || mix.weights.scan > 0.0;
                mix.weights.read_modify_write > 0.0 || (several && reads)
            }
            _ => false,
        };
        let inside = *action == Action::Verify && self.open.is_some();
        let survives = matches!(action, Action::Reopen | Action::Evict);
        self.need(several, self.facts.can.batches, &transaction, "has no transactions of several operations");
        self.need(scans, self.facts.can.ordered, at, "does not keep keys in order, so it cannot scan");
        let lack = "cannot read inside a write transaction";
        self.need(rereads || inside, self.facts.can.reads_own_writes, &transaction, lack);
        let queries =
            matches!(action, Action::Find(_)) || action.ops().is_some_and(|ops| !ops.references.are_ignored());
        self.need(queries, self.facts.queries(), at, NO_QUERIES);
        self.need(survives, self.facts.can.persistent, at, "keeps no data when it is closed");
    }

    /// What replaces a document must remove its entries from the indexes: it reads the document in its transaction, and no
    /// other client may change it meanwhile.
    fn entries(&mut self, action: &Action, written: &Entry) {
        let Some(collection) = action.ops().map(|ops| &ops.collection) else { return };
        let replaces = match action {
            Action::Update(_) | Action::Delete(_) => true,
            Action::Put(_) => self.written.contains(collection),
            Action::Mix(mix) => {
                mix.weights.update > 0.0 || mix.weights.read_modify_write > 0.0 || mix.weights.delete > 0.0
            }
            _ => false,
        };
        if !self.indexed.contains(collection) || !replaces {
            return;
        }
        let lack = "cannot read inside a write transaction, which a change of indexed documents needs";
        self.need(true, self.facts.can.reads_own_writes, &written.key_span, lack);
        // A pass in these orders gives each client records of its own.
        let apart = |ops: &Ops| matches!(ops.order, Order::Record | Order::Key | Order::Shuffled);
        let shares = matches!(action, Action::Mix(_)) || action.ops().is_some_and(|ops| !apart(ops));
        let threads = action.ops().map_or(1, |ops| ops.threads);
        if threads > 1 && shares && self.facts.can.concurrent_writers {
            let message = format!(
                "`{}` has concurrent writers: if two threads change the same document at the same time, entries of \
                 indexes may be left behind",
                self.engine
            );
            let hint =
                "use one thread, or without a mix the order `shuffled`, in which each thread has records of its own";
            self.problems.fault(written.place("threads"), message, hint);
        }
    }

    /// Several processes share the store to read it.
    fn replicas(&mut self, phase: &Placed) {
        let action = &phase.spec.action;
        let Some(ops) = action.ops().filter(|ops| ops.replicas.is_some()) else { return };
        let at = phase.place("replicas");
        let lack = "lets only one process open this store, so `replicas` can only be 1";
        self.need(action.replicas() > 1, self.facts.can.processes, &at, lack);
        let mut fault = |message: &str, hint: &str| self.problems.fault(&at, message, hint);
        if !matches!(action, Action::Get(_) | Action::Scan(_) | Action::Find(_)) {
            let message =
                format!("`{}` runs in one process: only `get`, `scan` and `find` have `replicas`", action.name());
            fault(&message, "write `threads` for several clients in one process");
        }
        if matches!(ops.sample, Sampling::Group(_)) {
            let message = "groups of operations (`sample`) are not recorded where several processes share them";
            fault(message, "leave `sample` out: latencies of single operations are recorded in each process");
        }
        if let Some(open) = self.open.as_ref().filter(|_| ops.replicas > Some(1)) {
            let message =
                format!("other processes cannot read inside the transaction of phase `{}`, which is open", open.name);
            fault(&message, "put a phase with `commit = {}` before it");
        }
    }

    /// A background has clients of its own, and ends with the phase.
    fn background(&mut self, phase: &Placed) {
        let Some((beside, written)) = phase.actions().nth(1) else { return };
        let Some(ops) = beside.ops() else { return };
        let action = &phase.spec.action;
        let mut fault = |message: &str, hint: &str| self.problems.fault(&written.key_span, message, hint);
        let Some(own) = action.ops() else {
            let message = format!("`{}` repeats no operations, so it has no background", action.name());
            return fault(&message, "give the background to a phase with operations");
        };
        if own.replicas.is_some() {
            fault("a phase with `replicas` has no background", "leave one of the two out");
        }
        if matches!(ops.sample, Sampling::Group(_)) {
            let message = "groups of operations (`sample`) are not recorded of a background";
            fault(message, "leave `sample` out: latencies of single operations are recorded");
        }
        if ops.transaction == Grouping::Open {
            fault("the transaction of a background ends with the phase", "write `transaction = \"single\"`");
        }
        if action.writes() && beside.writes() {
            let message = format!(
                "`{}` and its background both write, so it would not be known which version of a record is stored",
                action.name()
            );
            fault(&message, "let one of the two only read");
        } else if let Some(open) = self.open.as_ref().filter(|_| beside.writes()) {
            let message =
                format!("the background would wait for the transaction of phase `{}`, which is open", open.name);
            fault(&message, "put a phase with `commit = {}` before it");
        } else if self.facts.can.commits_wait_for_readers && (self.open.is_some() || waits(own, action, ops, beside)) {
            let message = format!(
                "commits of `{}` wait for readers: with a transaction that lasts as long as the phase, the phase and its \
                 background would wait for each other",
                self.engine
            );
            fault(&message, SKIP);
        }
    }

    fn need(&mut self, wanted: bool, offered: bool, at: &Range<usize>, lack: &str) {
        if wanted && !offered {
            self.problems.fault(at, format!("`{}` {lack}", self.engine), SKIP);
        }
    }

    /// Opens a transaction, or puts operations into the one that is open.
    fn transaction(&mut self, phase: &mut Placed) {
        let writes = phase.spec.action.writes();
        let begun = since(phase);
        let name = phase.spec.name.clone();
        let (place, threads_at) = (phase.place("transaction"), phase.place("threads"));
        let stated = place != *phase.action();
        let Some(ops) = phase.spec.action.ops_mut() else { return };
        if let Some(open) = &self.open {
            if stated && matches!(ops.transaction, Grouping::Each | Grouping::Batch(_)) {
                let message = format!(
                    "phase `{name}` cannot have transactions of its own while that of phase `{}` is open",
                    open.name
                );
                let problem =
                    Problem::new(place, message).hint("leave `transaction` out: the phase runs inside the open one");
                self.problems.add(problem.label(&open.at, "opened"));
            } else {
                let lack = "cannot read inside a write transaction";
                self.need(!writes, self.facts.can.reads_own_writes, &begun.at, lack);
            }
            ops.transaction = Grouping::Open;
        } else if ops.transaction == Grouping::Open {
            let lack = "cannot keep a transaction open over several phases";
            self.need(true, self.facts.can.open_transactions, &place, lack);
            if !writes {
                let message = format!("phase `{name}` only reads, so it leaves nothing to commit");
                self.problems.fault(place, message, "write `transaction = \"single\"`");
                ops.transaction = Grouping::Single;
                return;
            }
            self.open = Some(begun);
        }
        if ops.transaction == Grouping::Open && ops.threads > 1 {
            let message = format!("{} threads cannot share the one open transaction", ops.threads);
            self.problems.fault(threads_at, message, "write `threads = 1`, or group by `{ batch = N }`");
        }
    }
}

fn since(phase: &Placed) -> Since {
    Since { name: phase.spec.name.clone(), at: phase.place("transaction") }
}
