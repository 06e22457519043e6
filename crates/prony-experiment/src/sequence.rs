//! Checks the order of a variant's phases: open transactions, closed stores, and what the engine cannot do.

use super::decode::phase::Placed;
use super::problem::{Problem, Problems};
use prony_model::catalog::EngineFacts;
use prony_model::spec::{Action, Amount, Grouping, Ops, Order, Sampling, Sharing, StoreSpec};

/// The hint where one variant of several has a fault.
const SKIP: &str = "leave the variant out with `[design] skip`, or the phase with `when`";

/// Checks the phases in order, and settles which transactions stay open.
pub(crate) fn settle(phases: &mut [Placed], store: &StoreSpec, facts: &EngineFacts, problems: &mut Problems<'_>) {
    stay_open(phases);
    let indexed = !store.indexes.is_empty() && !facts.own_documents;
    let mut walk =
        Sequence { engine: &store.engine, indexed, facts, problems, written: false, open: None, closed: None };
    for phase in phases.iter_mut() {
        walk.phase(phase);
        queue(phase, walk.problems);
    }
    if let Some(writer) = walk.open.take() {
        let problem = Problem::new(writer.at, format!("the transaction of phase `{}` is never committed", writer.name));
        walk.problems.add(problem.hint("add a phase with `commit = {}` after it"));
    }
}

/// A queue gives each client the next place of a pass: the phase must have one, and nothing else may set the pace. A phase
/// that writes has equal shares, from which `verify` knows what each client wrote.
fn queue(phase: &Placed, problems: &mut Problems<'_>) {
    let action = &phase.spec.action;
    let Some(ops) = action.ops().filter(|ops| ops.share == Sharing::Queue) else { return };
    let at = phase.share.clone().unwrap_or_else(|| phase.action.clone());
    let mut fault = |message: &str, hint: &str| problems.add(Problem::new(at.clone(), message).hint(hint));
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
        let writes = writes(&phase.spec.action);
        let stays = writes && commits[at..].contains(&true);
        if let Some(ops) = ops_mut(&mut phase.spec.action).filter(|ops| stays && ops.transaction == Grouping::Single) {
            ops.transaction = Grouping::Open;
        }
    }
}

/// The place where something began that affects later phases.
struct Since {
    name: String,
    at: std::ops::Range<usize>,
}

struct Sequence<'p, 't, 'f> {
    engine: &'f str,
    /// The documents have indexes.
    indexed: bool,
    facts: &'f EngineFacts,
    problems: &'p mut Problems<'t>,
    /// A phase before has written.
    written: bool,
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
            Action::Reopen => self.closed = None,
            _ => {}
        }
        self.engine_can(phase);
        self.entries(phase);
        self.replicas(phase);
        self.transaction(phase);
    }

    /// Faults because of an open transaction or a closed store.
    fn state(&mut self, phase: &Placed) {
        let action = &phase.spec.action;
        let ends = matches!(action, Action::Persist | Action::Close | Action::Reopen | Action::Evict);
        if let (Some(open), true) = (&self.open, ends) {
            let message =
                format!("`{}` cannot run while the transaction of phase `{}` is open", action.name(), open.name);
            let problem = Problem::new(phase.action.clone(), message).hint("put a phase with `commit = {}` before it");
            self.problems.add(problem.label(open.at.clone(), "opened"));
            self.open = None;
        }
        let idle = matches!(action, Action::Reopen | Action::Pause(_) | Action::Settle(_));
        if let (Some(closed), false) = (&self.closed, idle) {
            let message = format!("`{}` cannot run after phase `{}` has closed the store", action.name(), closed.name);
            let problem = Problem::new(phase.action.clone(), message).hint("put a phase with `reopen = {}` before it");
            self.problems.add(problem.label(closed.at.clone(), "closed"));
            self.closed = None;
        }
    }

    fn engine_can(&mut self, phase: &Placed) {
        let action = &phase.spec.action;
        let several = action.ops().is_some_and(|ops| ops.transaction != Grouping::Each) && writes(action);
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
        let transaction = phase.transaction.clone().unwrap_or_else(|| phase.action.clone());
        self.need(several, self.facts.batches, transaction.clone(), "has no transactions of several operations");
        self.need(scans, self.facts.ordered, phase.action.clone(), "does not keep keys in order, so it cannot scan");
        self.need(
            rereads || inside,
            self.facts.reads_own_writes,
            transaction,
            "cannot read inside a write transaction",
        );
        self.need(survives, self.facts.persistent, phase.action.clone(), "keeps no data when it is closed");
    }

    /// What replaces a document must remove its entries from the indexes: it reads the document in its transaction, and no
    /// other client may change it meanwhile.
    fn entries(&mut self, phase: &Placed) {
        let action = &phase.spec.action;
        let replaces = match action {
            Action::Update(_) | Action::Delete(_) => true,
            Action::Put(_) => self.written,
            Action::Mix(mix) => {
                mix.weights.update > 0.0 || mix.weights.read_modify_write > 0.0 || mix.weights.delete > 0.0
            }
            _ => false,
        };
        self.written |= writes(action);
        if !self.indexed || !replaces {
            return;
        }
        let lack = "cannot read inside a write transaction, which a change of indexed documents needs";
        self.need(true, self.facts.reads_own_writes, phase.action.clone(), lack);
        // A pass in these orders gives each client records of its own.
        let apart = |ops: &Ops| matches!(ops.order, Order::Record | Order::Key | Order::Shuffled);
        let shares = matches!(action, Action::Mix(_)) || action.ops().is_some_and(|ops| !apart(ops));
        let threads = action.ops().map_or(1, |ops| ops.threads);
        if threads > 1 && shares && self.facts.concurrent_writers {
            let message = format!(
                "`{}` has concurrent writers: if two threads change the same document at the same time, entries of \
                 indexes may be left behind",
                self.engine
            );
            let problem = Problem::new(phase.threads.clone().unwrap_or_else(|| phase.action.clone()), message);
            self.problems.add(problem.hint(
                "use one thread, or without a mix the order `shuffled`, in which each thread has records of its own",
            ));
        }
    }

    /// Several processes share the store to read it.
    fn replicas(&mut self, phase: &Placed) {
        let action = &phase.spec.action;
        let Some(ops) = action.ops().filter(|ops| ops.replicas.is_some()) else { return };
        let at = phase.replicas.clone().unwrap_or_else(|| phase.action.clone());
        let lack = "lets only one process open this store, so `replicas` can only be 1";
        self.need(action.replicas() > 1, self.facts.processes, at.clone(), lack);
        let mut fault = |message: String, hint: &str| self.problems.add(Problem::new(at.clone(), message).hint(hint));
        if !matches!(action, Action::Get(_) | Action::Scan(_) | Action::Find(_)) {
            let message =
                format!("`{}` runs in one process: only `get`, `scan` and `find` have `replicas`", action.name());
            fault(message, "write `threads` for several clients in one process");
        }
        if matches!(ops.sample, Sampling::Group(_)) {
            let message = "groups of operations (`sample`) are not recorded where several processes share them";
            fault(
                message.to_owned(),
                "leave `sample` out: latencies of single operations are recorded in each process",
            );
        }
        if let Some(open) = self.open.as_ref().filter(|_| ops.replicas > Some(1)) {
            let message =
                format!("other processes cannot read inside the transaction of phase `{}`, which is open", open.name);
            fault(message, "put a phase with `commit = {}` before it");
        }
    }

    fn need(&mut self, wanted: bool, offered: bool, at: std::ops::Range<usize>, lack: &str) {
        if wanted && !offered {
            self.problems.add(Problem::new(at, format!("`{}` {lack}", self.engine)).hint(SKIP));
        }
    }

    /// Opens a transaction, or puts operations into the one that is open.
    fn transaction(&mut self, phase: &mut Placed) {
        let writes = writes(&phase.spec.action);
        let begun = since(phase);
        let name = phase.spec.name.clone();
        let place = phase.transaction.clone().unwrap_or_else(|| phase.action.clone());
        let stated = phase.transaction.is_some();
        let threads_at = phase.threads.clone().unwrap_or_else(|| phase.action.clone());
        let Some(ops) = ops_mut(&mut phase.spec.action) else { return };
        if let Some(open) = &self.open {
            if stated && matches!(ops.transaction, Grouping::Each | Grouping::Batch(_)) {
                let message = format!(
                    "phase `{name}` cannot have transactions of its own while that of phase `{}` is open",
                    open.name
                );
                let problem =
                    Problem::new(place, message).hint("leave `transaction` out: the phase runs inside the open one");
                self.problems.add(problem.label(open.at.clone(), "opened"));
            } else {
                self.need(
                    !writes,
                    self.facts.reads_own_writes,
                    begun.at.clone(),
                    "cannot read inside a write transaction",
                );
            }
            ops.transaction = Grouping::Open;
        } else if ops.transaction == Grouping::Open {
            self.need(
                true,
                self.facts.open_transactions,
                place.clone(),
                "cannot keep a transaction open over several phases",
            );
            if !writes {
                let problem = Problem::new(place, format!("phase `{name}` only reads, so it leaves nothing to commit"));
                self.problems.add(problem.hint("write `transaction = \"single\"`"));
                ops.transaction = Grouping::Single;
                return;
            }
            self.open = Some(begun);
        }
        if ops.transaction == Grouping::Open && ops.threads > 1 {
            let message = format!("{} threads cannot share the one open transaction", ops.threads);
            self.problems
                .add(Problem::new(threads_at, message).hint("write `threads = 1`, or group by `{ batch = N }`"));
        }
    }
}

fn since(phase: &Placed) -> Since {
    let at = phase.transaction.clone().unwrap_or_else(|| phase.action.clone());
    Since { name: phase.spec.name.clone(), at }
}

/// Whether the operations need write transactions.
fn writes(action: &Action) -> bool {
    match action {
        Action::Put(_) | Action::Update(_) | Action::Delete(_) | Action::Compute(_) => true,
        Action::Mix(mix) => {
            let weights = &mix.weights;
            weights.update + weights.insert + weights.read_modify_write + weights.delete > 0.0
        }
        _ => false,
    }
}

fn ops_mut(action: &mut Action) -> Option<&mut Ops> {
    match action {
        Action::Put(ops) | Action::Get(ops) | Action::Update(ops) | Action::Delete(ops) | Action::Compute(ops) => {
            Some(ops)
        }
        Action::Scan(scan) => Some(&mut scan.ops),
        Action::Find(find) => Some(&mut find.ops),
        Action::Mix(mix) => Some(&mut mix.ops),
        _ => None,
    }
}
