//! The ordered log of operations that are not durable yet.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::time::Instant;

use crate::payload::Payload;
use crate::report::Pending;

/// Number of a file or directory; never used again.
pub(crate) type Ino = u64;

/// Position in the order of all operations.
pub(crate) type Seq = u64;

/// Bytes that an operation counts for beside its data.
pub(crate) const OVERHEAD: u64 = 128;

/// Attributes that an image shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attributes {
    /// Permission bits.
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// An entry of a directory is set or, without a target, removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EntryChange {
    pub(crate) dir: Ino,
    pub(crate) name: OsString,
    pub(crate) target: Option<Ino>,
}

/// One operation.
#[derive(Debug)]
pub(crate) enum Change {
    Write {
        ino: Ino,
        offset: u64,
        data: Payload,
    },
    Zero {
        ino: Ino,
        offset: u64,
        len: u64,
    },
    Resize {
        ino: Ino,
        size: u64,
    },
    Attributes {
        ino: Ino,
        attributes: Attributes,
    },
    /// Survives whole or not at all: a rename is two changes.
    Entries(Vec<EntryChange>),
}

/// What an operation changes: of operations with a common key, a later one does not survive without the earlier ones.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    Name(Ino, OsString),
    Size(Ino),
    Attributes(Ino),
}

impl Change {
    /// The keys of a change of metadata; none for data.
    pub(crate) fn keys(&self) -> Vec<Key> {
        match self {
            Self::Write { .. } | Self::Zero { .. } => Vec::new(),
            Self::Resize { ino, .. } => vec![Key::Size(*ino)],
            Self::Attributes { ino, .. } => vec![Key::Attributes(*ino)],
            Self::Entries(changes) => changes.iter().map(|change| Key::Name(change.dir, change.name.clone())).collect(),
        }
    }

    /// The bytes of a file that are written: offset and length.
    pub(crate) const fn range(&self) -> Option<(u64, u64)> {
        match self {
            Self::Write { offset, data, .. } => Some((*offset, data.len())),
            Self::Zero { offset, len, .. } => Some((*offset, *len)),
            _ => None,
        }
    }

    const fn is_metadata(&self) -> bool {
        self.range().is_none()
    }

    const fn data(&self) -> u64 {
        match self {
            Self::Write { data, .. } => data.len(),
            _ => 0,
        }
    }
}

/// An operation with the instant at which it was issued.
#[derive(Debug)]
pub(crate) struct Logged {
    pub(crate) change: Change,
    pub(crate) at: Instant,
}

/// All pending operations, in order.
#[derive(Debug, Default)]
pub(crate) struct Log {
    operations: BTreeMap<Seq, Logged>,
    metadata: BTreeSet<Seq>,
    next: Seq,
    bytes: u64,
}

impl Log {
    pub(crate) fn push(&mut self, change: Change) -> Seq {
        self.next += 1;
        self.bytes += change.data();
        if change.is_metadata() {
            self.metadata.insert(self.next);
        }
        self.operations.insert(self.next, Logged { change, at: Instant::now() });
        self.next
    }

    pub(crate) fn remove(&mut self, seq: Seq) -> Option<Change> {
        let Logged { change, .. } = self.operations.remove(&seq)?;
        self.bytes -= change.data();
        self.metadata.remove(&seq);
        Some(change)
    }

    pub(crate) fn get(&self, seq: Seq) -> Option<&Change> {
        self.operations.get(&seq).map(|logged| &logged.change)
    }

    pub(crate) fn first(&self) -> Option<(Seq, &Logged)> {
        self.operations.first_key_value().map(|(seq, logged)| (*seq, logged))
    }

    /// Changes of metadata up to an operation, in order.
    pub(crate) fn metadata_up_to(&self, seq: Seq) -> Vec<Seq> {
        self.metadata.range(..=seq).copied().collect()
    }

    /// All operations, in order.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (Seq, &Change)> {
        self.operations.iter().map(|(seq, logged)| (*seq, &logged.change))
    }

    /// Changes of metadata, in order.
    pub(crate) fn metadata(&self) -> impl DoubleEndedIterator<Item = (Seq, &Change)> {
        self.metadata.iter().filter_map(|seq| Some((*seq, self.get(*seq)?)))
    }

    /// Shortens what a write or a hole changes, so that it ends at `size`; says whether anything is left.
    pub(crate) fn clip(&mut self, seq: Seq, size: u64) -> bool {
        let Some(logged) = self.operations.get_mut(&seq) else { return true };
        let before = logged.change.data();
        let left = match &mut logged.change {
            Change::Write { offset, data, .. } => {
                data.shorten(size.saturating_sub(*offset));
                data.len()
            }
            Change::Zero { offset, len, .. } => {
                *len = (*len).min(size.saturating_sub(*offset));
                *len
            }
            _ => return true,
        };
        self.bytes -= before - logged.change.data();
        left > 0
    }

    /// Data and overhead, in bytes.
    pub(crate) fn weight(&self) -> u64 {
        self.bytes + self.operations.len() as u64 * OVERHEAD
    }

    pub(crate) fn pending(&self) -> Pending {
        let (operations, metadata) = (self.operations.len() as u64, self.metadata.len() as u64);
        Pending { operations, metadata, bytes: self.bytes }
    }
}
