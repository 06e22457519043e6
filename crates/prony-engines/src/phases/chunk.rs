//! A bounded number of operations with their keys and values, in one reused piece of memory.

use crate::timed_loop::{Kind, Op};

/// Most operations in a chunk.
pub(super) const MOST_OPERATIONS: usize = 2048;

/// A chunk takes no further operation once its keys and values fill so many bytes.
pub(super) const ENOUGH_BYTES: usize = 512 * 1024;

/// What an operation is called in histograms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Label {
    Put,
    Read,
    Update,
    Delete,
    Scan,
    Compute,
    Insert,
    ReadModifyWrite,
    Commit,
}

impl Label {
    pub(super) const ALL: [Self; 9] = [
        Self::Put,
        Self::Read,
        Self::Update,
        Self::Delete,
        Self::Scan,
        Self::Compute,
        Self::Insert,
        Self::ReadModifyWrite,
        Self::Commit,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Read => "read",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Scan => "scan",
            Self::Compute => "compute",
            Self::Insert => "insert",
            Self::ReadModifyWrite => "read_modify_write",
            Self::Commit => "commit",
        }
    }
}

/// An operation before its key and value are laid down.
#[derive(Clone, Copy, Debug)]
pub(super) struct Draft {
    pub(super) kind: Kind,
    pub(super) label: Label,
    pub(super) number: u64,
    pub(super) rows: u64,
}

#[derive(Clone, Copy, Debug)]
struct Head {
    draft: Draft,
    at: usize,
    key: u32,
    value: usize,
}

/// Operations, prepared.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    bytes: Vec<u8>,
    heads: Vec<Head>,
}

impl Chunk {
    pub(super) fn clear(&mut self) {
        // One value of many megabytes must not stay allocated behind thousands of small ones.
        if self.bytes.capacity() > 8 * ENOUGH_BYTES && self.bytes.len() < ENOUGH_BYTES {
            self.bytes = Vec::new();
        }
        self.bytes.clear();
        self.heads.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.heads.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.heads.len() >= MOST_OPERATIONS || self.bytes.len() >= ENOUGH_BYTES
    }

    /// Adds an operation.
    pub(super) fn push(&mut self, draft: Draft, key: &[u8], value: &[u8]) {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.heads.push(Head { draft, at, key: key.len() as u32, value: value.len() });
    }

    #[inline(always)]
    pub(super) fn op(&self, index: usize) -> Op<'_> {
        let head = &self.heads[index];
        let (key, rest) = self.bytes[head.at..].split_at(head.key as usize);
        Op { kind: head.draft.kind, number: head.draft.number, rows: head.draft.rows, key, value: &rest[..head.value] }
    }

    pub(super) fn label(&self, index: usize) -> Label {
        self.heads[index].draft.label
    }

    /// Bytes of keys and values that are handed to the engine to be stored.
    pub(super) fn bytes_to_store(&self) -> u64 {
        // What `compute` stores depends on what it finds, and is counted where it happens.
        let stored = self.heads.iter().filter(|h| !h.draft.kind.only_reads() && h.draft.kind != Kind::Compute);
        stored.map(|head| u64::from(head.key) + head.value as u64).sum()
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
        assert_eq!(chunk.bytes_to_store(), 30 + 45);
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
