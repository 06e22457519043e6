//! Generates a client's operations from the workload, and writes them into chunks (batches of prepared operations).

use std::sync::Arc;

use prony_model::spec::{Action, Amount, FieldValue, KeySpec, MixSpec, MixWeights, Order, References, ScanSpec};
use prony_workload::{Mix, Operation, Positions, Records, Share};

use super::chunk::{Chunk, Draft, Label};
use super::collections::Collection;
use super::equals::Equals;
use super::queue::Queue;
use super::record_set::RecordSet;
use crate::documents::{Planned, Query};
use crate::driver::FIRST_KEY;
use crate::timed_loop::{Kind, now};

/// Which operations a client does.
enum Draw {
    /// One kind, over records in an order.
    Same(Kind, Label, Positions),
    /// Ranges to the end, from the first key.
    Whole,
    /// By weight.
    Mix(Box<Mix>),
    /// Queries, over records in an order; `fields` are those of a record's document that they compare with.
    Find { positions: Positions, queries: Vec<Arc<Planned>>, fields: Vec<String> },
}

/// What operations work on.
#[derive(Clone, Copy)]
pub(super) struct Data<'r> {
    pub(super) collection: &'r Collection,
    /// Nothing is stored whose key is above those of the collection.
    pub(super) appends: bool,
    pub(super) queries: &'r [Arc<Planned>],
    /// Where the clients share the operations as in a queue.
    pub(super) queue: Option<&'r Queue>,
    /// Updates that come to a record again write another version.
    pub(super) alternates: bool,
}

/// What a client still has to do.
enum Left<'r> {
    /// So many operations; `None` where time sets the end.
    Share(Option<u64>),
    /// Those that it gets from the queue, until all clients together have done `total`; `next` is taken already.
    Queue { queue: &'r Queue, next: u64, total: u64 },
}

impl<'r> Left<'r> {
    fn new(amount: Amount, records: u64, share: Share, queue: Option<&'r Queue>) -> Self {
        let total = match amount {
            Amount::Records => Some(records),
            Amount::Count(count) => Some(count),
            Amount::Duration(_) | Amount::Background => None,
        };
        match (queue, total) {
            (Some(queue), Some(total)) => Self::Queue { queue, next: queue.next(), total },
            _ => Self::Share(total.map(|total| share.count(total))),
        }
    }

    fn is_none(&self) -> bool {
        match self {
            Self::Share(left) => *left == Some(0),
            Self::Queue { next, total, .. } => next >= total,
        }
    }

    /// Takes one; its number among those of all clients, where the queue gave it.
    fn take(&mut self) -> Option<u64> {
        match self {
            Self::Share(left) => {
                *left = left.map(|left| left.saturating_sub(1));
                None
            }
            Self::Queue { queue, next, .. } => Some(std::mem::replace(next, queue.next())),
        }
    }
}

/// The operations of one client.
pub(super) struct Source<'r> {
    collection: &'r Collection,
    draw: Draw,
    left: Left<'r>,
    /// Operations generated so far.
    pub(super) drawn: u64,
    version: u32,
    /// Where updates alternate: the records that were updated an odd number of times.
    odd: Option<RecordSet>,
    references: References,
    /// Where the engine writes nothing for what is stored already: counts that.
    pub(super) equals: Option<Equals>,
    /// Earlier phases have written: what is put may replace something.
    rewrites: bool,
    key: Vec<u8>,
    value: Vec<u8>,
    /// Time in which documents were encoded, in nanoseconds; `None` where there were none.
    pub(super) encoded: Option<u64>,
}

impl<'r> Source<'r> {
    /// `None` for an action that repeats no operations.
    pub(super) fn new(action: &Action, data: &Data<'r>, seed: u64, share: Share) -> Option<Self> {
        let Data { collection, appends, queries, queue, alternates } = *data;
        let Collection { keys, records, ledger, .. } = collection;
        let ops = action.ops()?;
        let left = Left::new(ops.amount, records.count(), share, queue);
        let same = |kind, label| Draw::Same(kind, label, Positions::new(&ops.order, records, seed, share));
        let draw = match action {
            Action::Put(_) if ascends(&ops.order, keys, share, &left, records.count()) && appends => {
                same(Kind::Append, Label::Put)
            }
            Action::Put(_) => same(Kind::Put, Label::Put),
            Action::Update(_) => same(Kind::Put, Label::Update),
            Action::Get(_) => same(Kind::Read, Label::Read),
            Action::Delete(_) => same(Kind::Delete, Label::Delete),
            Action::Compute(_) => same(Kind::Compute, Label::Compute),
            Action::Scan(scan) => scans(scan, records, seed, share),
            Action::Find(_) => Draw::Find {
                positions: Positions::new(&ops.order, records, seed, share),
                fields: queries.iter().flat_map(|query| query.compared_fields()).collect(),
                queries: queries.to_vec(),
            },
            Action::Mix(mix) => {
                let mix = Mix::new(mix, records, seed, share).inserting_from(ledger.next_insert(records.count()));
                Draw::Mix(Box::new(mix))
            }
            _ => return None,
        };
        let version = if matches!(action, Action::Update(_) | Action::Mix(_)) { ledger.next_version() } else { 0 };
        let rewrites = !ledger.is_empty();
        let (key, value) = (Vec::new(), Vec::new());
        let (references, odd) = (ops.references, alternates.then(RecordSet::default));
        let (drawn, encoded, equals) = (0, None, None);
        Some(Self { collection, references, draw, left, drawn, version, odd, equals, rewrites, key, value, encoded })
    }

    /// The same, counting writes of what is stored already.
    pub(super) fn counting(self, equals: Option<Equals>) -> Self {
        Self { equals, ..self }
    }

    /// An empty chunk for the operations.
    pub(super) fn chunk(&self) -> Chunk {
        Chunk::new(self.collection.space, self.collection.indexes.clone())
    }

    /// None of the records yet, where references are checked.
    pub(super) fn admitted(&self) -> Option<RecordSet> {
        let checked = !self.references.are_ignored();
        checked.then(|| RecordSet::none_of(self.collection.records.count()))
    }

    /// What all operations are; `None` where they are drawn from several.
    pub(super) fn label(&self) -> Option<Label> {
        match &self.draw {
            Draw::Same(_, label, _) => Some(*label),
            Draw::Find { .. } => Some(Label::Find),
            Draw::Whole => Some(Label::Scan),
            Draw::Mix(_) => None,
        }
    }

    /// Whether the operations are queries.
    pub(super) fn is_queries(&self) -> bool {
        matches!(self.draw, Draw::Find { .. })
    }

    /// Whether the operations come from a queue.
    pub(super) fn is_queued(&self) -> bool {
        matches!(self.left, Left::Queue { .. })
    }

    /// Whether operations are prepared from what is read in a document file.
    pub(super) fn reads_a_file(&self) -> bool {
        let uses_keys_only = matches!(self.draw, Draw::Same(Kind::Read | Kind::Delete, ..) | Draw::Whole);
        !uses_keys_only && self.collection.records.are_of_a_file()
    }

    /// Whether there is no operation left.
    pub(super) fn is_done(&self) -> bool {
        self.left.is_none()
    }

    /// Records that a mix has inserted.
    pub(super) fn inserted(&self) -> u64 {
        if let Draw::Mix(mix) = &self.draw { mix.inserted() } else { 0 }
    }

    /// The number of the next operation's record; nothing is written.
    pub(super) fn next_number(&mut self) -> u64 {
        self.draft().number
    }

    /// Writes the next operation into the chunk and returns its record's number; there must be one left.
    pub(super) fn lay_next(&mut self, chunk: &mut Chunk) -> u64 {
        if let (Some(place), Draw::Same(.., positions) | Draw::Find { positions, .. }) =
            (self.left.take(), &mut self.draw)
        {
            positions.go_to(place);
        }
        self.drawn += 1;
        let draft = self.draft();
        match &self.draw {
            Draw::Whole => {
                chunk.push(draft, FIRST_KEY, &[]);
                return draft.number;
            }
            Draw::Find { queries, fields, .. } => {
                // Values are generated as the documents were first written.
                let wanted = |name: &str| fields.iter().any(|field| field == name);
                let document =
                    self.collection.records.part_of_document(draft.number, wanted).unwrap_or(FieldValue::Null);
                let queries = queries.iter().map(|query| Query::new(query, &document)).collect();
                chunk.push_queries(draft, queries);
                return draft.number;
            }
            Draw::Same(..) | Draw::Mix(_) => {}
        }
        self.collection.records.key(draft.number, &mut self.key);
        let renews = matches!(draft.label, Label::Update | Label::ReadModifyWrite);
        let version = if renews { self.next_version(draft.number) } else { 0 };
        let document = if matches!(draft.kind, Kind::Read | Kind::Scan | Kind::Delete) {
            self.value.clear();
            None
        } else {
            self.write_value(draft.number, version)
        };
        if let Some(equals) = &mut self.equals {
            equals.note(self.collection, draft, version, &self.value);
        }
        chunk.push(draft, &self.key, &self.value);
        let replaces = renews || draft.label == Label::Delete || (draft.label == Label::Put && self.rewrites);
        chunk.push_change(document.as_ref(), &self.key, replaces);
        self.push_guard(chunk, draft, document.as_ref());
        draft.number
    }

    /// What the next update of a record writes.
    fn next_version(&mut self, number: u64) -> u32 {
        self.version + u32::from(self.odd.as_mut().is_some_and(|odd| odd.toggle(number)))
    }

    /// What references require, where they are not ignored.
    fn push_guard(&self, chunk: &mut Chunk, draft: Draft, document: Option<&FieldValue>) {
        if self.references.are_ignored() {
            return;
        }
        let required = document.map(|document| self.collection.required(document)).unwrap_or_default();
        let removes = draft.kind == Kind::Delete;
        let absent = if removes { self.collection.referrers(draft.number, &self.key) } else { Vec::new() };
        chunk.push_guard(&required, absent, self.references == References::Locked);
    }

    /// Documents are generated first, so that only their encoding is timed; returns them.
    fn write_value(&mut self, number: u64, version: u32) -> Option<FieldValue> {
        let records = &self.collection.records;
        let Some(document) = records.document(number, version) else {
            records.value(number, version, &mut self.value);
            return None;
        };
        let begin = now();
        records.encode(&document, &mut self.value);
        *self.encoded.get_or_insert(0) += now().saturating_sub(begin);
        Some(document)
    }

    fn draft(&mut self) -> Draft {
        let draft = |kind, label, number| Draft { kind, label, number, rows: 0 };
        match &mut self.draw {
            Draw::Same(kind, label, positions) => draft(*kind, *label, positions.next()),
            Draw::Find { positions, .. } => draft(Kind::Find, Label::Find, positions.next()),
            Draw::Whole => Draft { rows: u64::MAX, ..draft(Kind::Scan, Label::Scan, 0) },
            Draw::Mix(mix) => match mix.next() {
                Operation::Read(n) => draft(Kind::Read, Label::Read, n),
                Operation::Update(n) => draft(Kind::Put, Label::Update, n),
                Operation::Insert(n) => draft(Kind::Put, Label::Insert, n),
                Operation::Scan { from, rows } => Draft { rows, ..draft(Kind::Scan, Label::Scan, from) },
                Operation::ReadModifyWrite(n) => draft(Kind::ReadModifyWrite, Label::ReadModifyWrite, n),
                Operation::Delete(n) => draft(Kind::Delete, Label::Delete, n),
            },
        }
    }
}

fn scans(scan: &ScanSpec, records: &Records, seed: u64, share: Share) -> Draw {
    let Some(scan_length) = scan.length else { return Draw::Whole };
    let weights = MixWeights { scan: 1.0, ..MixWeights::default() };
    Draw::Mix(Box::new(Mix::new(&MixSpec { ops: scan.ops.clone(), weights, scan_length }, records, seed, share)))
}

/// Whether every key is above the one before, so that an engine's append path can be used.
fn ascends(order: &Order, keys: &KeySpec, share: Share, left: &Left<'_>, records: u64) -> bool {
    let in_key_order = match order {
        Order::Key => true,
        Order::Record => matches!(keys, KeySpec::Integer { .. }),
        _ => false,
    };
    let once = matches!(left, Left::Share(Some(operations)) if *operations <= records);
    in_key_order && share.of == 1 && once
}
