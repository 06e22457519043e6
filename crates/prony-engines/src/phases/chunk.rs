//! A chunk: a bounded number of operations that are prepared with their keys and values, in one reused buffer.

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

use prony_model::latency::COMMIT;
use prony_model::spec::FieldValue;

use crate::documents::{Entries, Guard, Indexed, Indexes, Query, Space};
use crate::timed_loop::{Kind, Op};

/// Most operations in a chunk. Few, so that small records and their timestamps fit beside the engine's pages into the
/// caches of a core: pages that a chunk evicts from them have to be fetched again inside the timed section.
pub(super) const MOST_OPERATIONS: usize = 256;

/// A chunk takes no further operation once its keys and values fill so many bytes.
pub(super) const ENOUGH_BYTES: usize = 128 * 1024;

/// The name of an operation in histograms, which are in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Label {
    Put,
    Read,
    Update,
    Delete,
    Scan,
    Find,
    Compute,
    Insert,
    ReadModifyWrite,
    Commit,
    /// Operations of a mix in an open loop that were due and never started: which they would have been was not drawn.
    NotStarted,
}

impl Label {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Read => "read",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Scan => "scan",
            Self::Find => "find",
            Self::Compute => "compute",
            Self::Insert => "insert",
            Self::ReadModifyWrite => "read_modify_write",
            Self::Commit => COMMIT,
            Self::NotStarted => "not_started",
        }
    }
}

/// An operation before its key and value are written into the chunk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Draft {
    pub(super) kind: Kind,
    pub(super) label: Label,
    pub(super) number: u64,
    pub(super) rows: u64,
}

/// 24 bytes: small, since it takes space in the caches too.
#[derive(Clone, Copy, Debug)]
struct Head {
    number: u64,
    /// Rows to read, for a scan; else the value's length.
    value_or_rows: u64,
    at: u32,
    key: u16,
    kind: Kind,
    label: Label,
}

impl Head {
    fn value(&self) -> usize {
        if self.kind == Kind::Scan { 0 } else { self.value_or_rows as usize }
    }
}

/// Operations, prepared.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    bytes: Vec<u8>,
    heads: Vec<Head>,
    /// Of each operation, in a phase that queries; else empty.
    queries: Vec<Vec<Query>>,
    /// What the queries hold.
    query_bytes: usize,
    /// Where the records are stored.
    space: Space,
    /// Where the collection has indexes: those, with what each operation changes in them.
    indexes: Option<Arc<Indexes>>,
    entries: Entries,
    changes: Vec<Change>,
    /// Where references are checked: what each operation requires.
    guards: Vec<Needs>,
    required: Entries,
    /// Documents to which others refer are written when these are stored.
    locks: bool,
}

/// What an operation requires.
#[derive(Debug)]
struct Needs {
    /// Where the keys of the documents that must be stored end.
    end: usize,
    absent: Vec<Query>,
    refused: Cell<bool>,
}

/// What an operation changes in the indexes.
#[derive(Clone, Copy, Debug)]
struct Change {
    /// Where its entries end.
    end: usize,
    replaces: bool,
}

impl Chunk {
    pub(super) fn new(space: Space, indexes: Option<Arc<Indexes>>) -> Self {
        Self { space, indexes, ..Self::default() }
    }

    pub(super) fn clear(&mut self) {
        // A single value of many megabytes must not stay allocated behind thousands of small ones.
        if self.bytes.capacity() > 8 * ENOUGH_BYTES && self.bytes.len() < ENOUGH_BYTES {
            self.bytes = Vec::new();
        }
        self.bytes.clear();
        self.heads.clear();
        self.queries.clear();
        self.query_bytes = 0;
        self.entries.clear(ENOUGH_BYTES);
        self.required.clear(ENOUGH_BYTES);
        self.guards.clear();
        self.changes.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.heads.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.heads.len() >= MOST_OPERATIONS
            || self.bytes.len() + self.query_bytes + self.entries.bytes() + self.required.bytes() >= ENOUGH_BYTES
    }

    /// Adds an operation; not to a full chunk. Keys have at most 65,535 bytes (no engine takes longer ones).
    pub(super) fn push(&mut self, draft: Draft, key: &[u8], value: &[u8]) {
        let Draft { kind, label, number, rows } = draft;
        // The bytes before it are fewer than `ENOUGH_BYTES`.
        let at = self.bytes.len() as u32;
        let value_or_rows = if kind == Kind::Scan { rows } else { value.len() as u64 };
        let length = key.len().min(usize::from(u16::MAX));
        self.bytes.extend_from_slice(self.space.before());
        self.bytes.extend_from_slice(&key[..length]);
        self.bytes.extend_from_slice(value);
        self.heads.push(Head { number, value_or_rows, at, key: length as u16, kind, label });
    }

    /// What the operation that was added last changes in the indexes, where the store has any: it stores this document, or
    /// removes the one with this key, and may replace another one.
    pub(super) fn push_change(&mut self, document: Option<&FieldValue>, key: &[u8], replaces: bool) {
        let Some(indexes) = &self.indexes else { return };
        if let Some(document) = document {
            indexes.push_entries(document, key, &mut self.entries);
        }
        self.changes.push(Change { end: self.entries.bytes(), replaces });
    }

    /// What references require for the operation that was added last: documents with these keys, as they are stored, and
    /// queries that find nothing.
    pub(super) fn push_guard(&mut self, required: &[Vec<u8>], absent: Vec<Query>, locks: bool) {
        required.iter().for_each(|key| self.required.push(key));
        self.query_bytes += absent.iter().map(Query::bytes).sum::<usize>();
        self.guards.push(Needs { end: self.required.bytes(), absent, refused: Cell::default() });
        self.locks = locks;
    }

    /// Adds an operation that queries. A phase has no others then.
    pub(super) fn push_queries(&mut self, draft: Draft, queries: Vec<Query>) {
        self.push(draft, &[], &[]);
        self.query_bytes += queries.iter().map(Query::bytes).sum::<usize>();
        self.queries.push(queries);
    }

    #[inline(always)]
    pub(super) fn op(&self, index: usize) -> Op<'_> {
        let head = &self.heads[index];
        let key = usize::from(head.key) + self.space.before().len();
        let (key, rest) = self.bytes[head.at as usize..].split_at(key);
        let queries = self.queries.get(index).map_or(&[][..], Vec::as_slice);
        Op {
            kind: head.kind,
            number: head.number,
            rows: head.value_or_rows,
            key,
            value: &rest[..head.value()],
            queries,
            indexed: self.indexed(index),
            guard: self.guard(index),
        }
    }

    #[inline(always)]
    fn indexed(&self, index: usize) -> Option<Indexed<'_>> {
        let change = self.changes.get(index)?;
        let begin = if index == 0 { 0 } else { self.changes[index - 1].end };
        let entries = self.entries.part(begin..change.end);
        Some(Indexed { indexes: self.indexes.as_deref()?, entries, replaces: change.replaces })
    }

    #[inline(always)]
    fn guard(&self, index: usize) -> Option<Guard<'_>> {
        let Needs { end, absent, refused } = self.guards.get(index)?;
        let begin = if index == 0 { 0 } else { self.guards[index - 1].end };
        Some(Guard { required: self.required.part(begin..*end), locks: self.locks, absent, refused })
    }

    /// Numbers of the records of the first `ran` operations, without those that were refused.
    pub(super) fn admitted(&self, ran: usize) -> impl Iterator<Item = u64> {
        (0..ran).filter(|index| !self.is_refused(*index)).map(|index| self.heads[index].number)
    }

    pub(super) fn label(&self, index: usize) -> Label {
        self.heads[index].label
    }

    /// Bytes of keys and values that some of the operations, which have run, handed to the engine to be stored.
    pub(super) fn bytes_to_store(&self, operations: Range<usize>) -> u64 {
        // What `compute` stores depends on what it finds, and is counted where it happens.
        let stores = |head: &Head| !head.kind.only_reads() && head.kind != Kind::Compute;
        let stored = operations.filter(|index| !self.is_refused(*index)).map(|index| &self.heads[index]);
        stored.filter(|head| stores(head)).map(|head| u64::from(head.key) + head.value() as u64).sum()
    }

    /// Whether references have refused an operation, which has run.
    fn is_refused(&self, index: usize) -> bool {
        self.guards.get(index).is_some_and(|needs| needs.refused.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft(number: u64) -> Draft {
        Draft { kind: Kind::Put, label: Label::Put, number, rows: 0 }
    }

    #[test]
    fn operations_come_back_as_laid_down() {
        let mut chunk = Chunk::default();
        for n in 0..10u8 {
            chunk.push(draft(n.into()), &[n; 3], &vec![n; n.into()]);
        }
        for n in 0..10u8 {
            let op = chunk.op(n.into());
            assert_eq!((op.number, op.key, op.value.len()), (n.into(), &[n; 3][..], n.into()));
        }
        assert_eq!(chunk.bytes_to_store(0..10), 30 + 45);
        assert_eq!(chunk.bytes_to_store(2..4), 6 + 5);
    }

    #[test]
    fn refused_operations_store_nothing() {
        let mut chunk = Chunk::default();
        for n in 0..4u8 {
            chunk.push(draft(n.into()), &[n; 3], &vec![n; n.into()]);
            chunk.push_guard(&[vec![n], vec![9]], Vec::new(), true);
        }
        assert!(chunk.op(3).guard.is_some_and(|guard| guard.locks && guard.required.len() == 2 * 5));
        assert_eq!(chunk.bytes_to_store(0..4), 12 + 6);
        chunk.op(2).guard.unwrap().refused.set(true);
        assert_eq!(chunk.bytes_to_store(0..4), 9 + 4);
        assert_eq!(chunk.admitted(4).collect::<Vec<_>>(), [0, 1, 3]);
        assert_eq!(chunk.admitted(3).collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    fn a_scan_keeps_its_rows() {
        let mut chunk = Chunk::default();
        chunk.push(Draft { kind: Kind::Scan, label: Label::Scan, number: 4, rows: u64::MAX }, b"from", &[]);
        let op = chunk.op(0);
        assert_eq!((op.rows, op.key, op.value), (u64::MAX, &b"from"[..], &[][..]));
        assert_eq!(size_of::<Head>(), 24);
    }

    #[test]
    fn a_chunk_is_bounded_by_operations_and_by_bytes() {
        let mut chunk = Chunk::default();
        chunk.push(draft(0), &[1], &vec![0; ENOUGH_BYTES]);
        assert!(chunk.is_full());
        chunk.clear();
        for n in 0..MOST_OPERATIONS {
            assert!(!chunk.is_full());
            chunk.push(draft(n as u64), &[1], &[]);
        }
        assert!(chunk.is_full());
    }

    #[test]
    fn a_huge_value_does_not_stay_allocated() {
        let mut chunk = Chunk::default();
        chunk.push(draft(0), &[1], &vec![0; 64 * ENOUGH_BYTES]);
        chunk.clear();
        chunk.push(draft(1), &[1], &[2]);
        chunk.clear();
        assert!(chunk.bytes.capacity() <= 8 * ENOUGH_BYTES);
    }
}
