//! The ordered log of operations that are not durable yet.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsString;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::payload::Payload;
use crate::ranges::Ranges;
use crate::report::Pending;

/// Number of a file or directory; never used again.
pub(crate) type Ino = u64;

/// Position in the order of all operations.
pub(crate) type Seq = u64;

/// Memory of an operation beside its data and names: its place in the trees and lists, measured as about 230 bytes.
pub(crate) const OVERHEAD: u64 = 256;

/// Attributes that an image shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Attributes {
    /// Permission bits.
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// An entry of a directory is set or, without a target, removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EntryChange {
    pub(crate) dir: Ino,
    pub(crate) name: OsString,
    pub(crate) target: Option<Ino>,
}

/// One operation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Change {
    /// The data were written to `offset`; of them, what is in `left` is not durable.
    Write {
        ino: Ino,
        offset: u64,
        data: Payload,
        left: Ranges,
    },
    /// A hole was made.
    Zero {
        ino: Ino,
        left: Ranges,
    },
    Resize {
        ino: Ino,
        size: u64,
    },
    Attributes {
        ino: Ino,
        attributes: Attributes,
    },
    /// Survives whole or not at all: a rename is two changes. With the directories that it adds, moves or removes.
    Entries {
        changes: Vec<EntryChange>,
        directories: Vec<Ino>,
    },
}

/// What an operation changes or needs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    Name(Ino, OsString),
    Size(Ino),
    Attributes(Ino),
    /// Where a directory is.
    Place(Ino),
}

impl Change {
    /// The file that it changes; none for a change of entries.
    pub(crate) const fn ino(&self) -> Option<Ino> {
        match self {
            Self::Write { ino, .. }
            | Self::Zero { ino, .. }
            | Self::Resize { ino, .. }
            | Self::Attributes { ino, .. } => Some(*ino),
            Self::Entries { .. } => None,
        }
    }

    /// The keys that a change of metadata changes; none for data.
    pub(crate) fn keys(&self) -> Vec<Key> {
        match self {
            Self::Write { .. } | Self::Zero { .. } => Vec::new(),
            Self::Resize { ino, .. } => vec![Key::Size(*ino)],
            Self::Attributes { ino, .. } => vec![Key::Attributes(*ino)],
            Self::Entries { changes, directories } => {
                let names = changes.iter().map(|change| Key::Name(change.dir, change.name.clone()));
                names.chain(directories.iter().copied().map(Key::Place)).collect()
            }
        }
    }

    /// What must be as it was when this was issued: a rename, and a change of a directory, need the places of the directories
    /// in which they happen, for what was moved into a directory that is not there would be lost, although it was durable
    /// under its old name.
    pub(crate) fn needs(&self) -> Vec<Key> {
        match self {
            Self::Entries { changes, directories } if changes.len() > 1 || !directories.is_empty() => {
                changes.iter().map(|change| Key::Place(change.dir)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The parts of a file that it changes.
    pub(crate) const fn left(&self) -> Option<&Ranges> {
        match self {
            Self::Write { left, .. } | Self::Zero { left, .. } => Some(left),
            _ => None,
        }
    }

    const fn is_metadata(&self) -> bool {
        self.left().is_none()
    }

    fn data(&self) -> u64 {
        match self {
            Self::Write { left, .. } => left.len(),
            _ => 0,
        }
    }

    /// Memory beside the data.
    fn weight(&self) -> u64 {
        let more = match self {
            Self::Entries { changes, directories } => {
                let names: usize = changes.iter().map(|change| change.name.len() + size_of::<EntryChange>()).sum();
                names + directories.len() * size_of::<Ino>()
            }
            _ => 0,
        };
        OVERHEAD + more as u64
    }
}

/// An operation with the instant at which it was issued.
#[derive(Debug)]
pub(crate) struct Logged {
    pub(crate) change: Change,
    pub(crate) at: Instant,
}

/// A file, and the size that it may have before its data.
pub(crate) type Growth = (Ino, u64);

/// All pending operations, in order.
#[derive(Debug, Default)]
pub(crate) struct Log {
    operations: BTreeMap<Seq, Logged>,
    metadata: BTreeSet<Seq>,
    /// Writes whose new size is a change of metadata by itself: it may become durable before the data.
    growths: BTreeMap<Seq, Growth>,
    /// No change of metadata from such an operation on becomes durable without the data that were written before it to the file.
    /// One operation may be that of several files: no number is given between two that are closed one after the other.
    flushes: BTreeSet<(Seq, Ino)>,
    next: Seq,
    bytes: u64,
    weight: u64,
}

impl Log {
    /// The log of these operations, growths and flushes.
    pub(crate) fn of(operations: Vec<(Seq, Change)>, growths: Vec<(Seq, Growth)>, flushes: Vec<(Seq, Ino)>) -> Self {
        let mut log = Self::default();
        for (seq, change) in operations {
            log.next = seq - 1;
            log.push(change);
        }
        (log.growths, log.flushes) = (growths.into_iter().collect(), flushes.into_iter().collect());
        log
    }

    pub(crate) fn push(&mut self, change: Change) -> Seq {
        self.next += 1;
        self.bytes += change.data();
        self.weight += change.weight();
        if change.is_metadata() {
            self.metadata.insert(self.next);
        }
        self.operations.insert(self.next, Logged { change, at: Instant::now() });
        self.next
    }

    /// All growths, to save them.
    pub(crate) fn growths(&self) -> Vec<(Seq, Growth)> {
        self.growths.iter().map(|(seq, growth)| (*seq, *growth)).collect()
    }

    /// All flushes, to save them.
    pub(crate) fn flushes(&self) -> Vec<(Seq, Ino)> {
        self.flushes.iter().copied().collect()
    }

    pub(crate) fn remove(&mut self, seq: Seq) -> Option<Change> {
        let Logged { change, .. } = self.operations.remove(&seq)?;
        self.bytes -= change.data();
        self.weight -= change.weight();
        self.metadata.remove(&seq);
        self.growths.remove(&seq);
        // Flushes whose data are durable or gone.
        let first = self.operations.first_key_value().map_or(Seq::MAX, |(seq, _)| *seq);
        while self.flushes.first().is_some_and(|(at, _)| *at <= first) {
            self.flushes.pop_first();
        }
        Some(change)
    }

    pub(crate) fn get(&self, seq: Seq) -> Option<&Change> {
        self.operations.get(&seq).map(|logged| &logged.change)
    }

    /// The data of an operation, to move them elsewhere.
    pub(crate) fn payload_mut(&mut self, seq: Seq) -> Option<&mut Payload> {
        match &mut self.operations.get_mut(&seq)?.change {
            Change::Write { data, .. } => Some(data),
            _ => None,
        }
    }

    /// The first operation after another one.
    pub(crate) fn after(&self, seq: Seq) -> Option<Seq> {
        self.operations.range(seq + 1..).next().map(|(seq, _)| *seq)
    }

    pub(crate) fn first(&self) -> Option<(Seq, &Logged)> {
        self.operations.first_key_value().map(|(seq, logged)| (*seq, logged))
    }

    /// Says that the new size of a write may become durable before its data.
    pub(crate) fn set_growth(&mut self, seq: Seq, ino: Ino, size: u64) {
        self.growths.insert(seq, (ino, size));
    }

    pub(crate) fn growth(&self, seq: Seq) -> Option<u64> {
        self.growths.get(&seq).map(|(_, size)| *size)
    }

    /// Says that changes of metadata from `seq` on need the data of a file that were written before.
    pub(crate) fn set_flush(&mut self, seq: Seq, ino: Ino) {
        self.flushes.insert((seq, ino));
    }

    /// The number that the next operation gets.
    pub(crate) const fn next(&self) -> Seq {
        self.next + 1
    }

    /// The last flush of each file up to `seq`.
    pub(crate) fn flushes_up_to(&self, seq: Seq) -> HashMap<Ino, Seq> {
        self.flushes.range(..=(seq, Ino::MAX)).map(|(at, ino)| (*ino, *at)).collect()
    }

    pub(crate) fn forget_flushes_up_to(&mut self, seq: Seq) {
        self.flushes = self.flushes.split_off(&(seq + 1, 0));
    }

    /// Changes of metadata up to an operation, and growths, in order.
    pub(crate) fn metadata_up_to(&self, seq: Seq) -> Vec<Seq> {
        let mut all: Vec<Seq> =
            self.metadata.range(..=seq).chain(self.growths.range(..=seq).map(|(at, _)| at)).copied().collect();
        all.sort_unstable();
        all
    }

    /// Takes a growth, whose size is durable now: the file and the size.
    pub(crate) fn take_growth(&mut self, seq: Seq) -> Option<(Ino, u64)> {
        self.growths.remove(&seq)
    }

    /// All operations, in order.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (Seq, &Change)> {
        self.operations.iter().map(|(seq, logged)| (*seq, &logged.change))
    }

    /// Changes of metadata, in order.
    pub(crate) fn metadata(&self) -> impl DoubleEndedIterator<Item = (Seq, &Change)> {
        self.metadata.iter().filter_map(|seq| Some((*seq, self.get(*seq)?)))
    }

    /// Takes the bytes between two offsets out of a write or hole; says whether anything is left.
    pub(crate) fn clip(&mut self, seq: Seq, (begin, end): (u64, u64)) -> bool {
        let Some(logged) = self.operations.get_mut(&seq) else { return false };
        let before = logged.change.data();
        let (Change::Write { left, .. } | Change::Zero { left, .. }) = &mut logged.change else { return true };
        left.remove(begin, end);
        let is_left = !left.is_empty();
        self.bytes -= before - logged.change.data();
        is_left
    }

    /// Memory of all operations beside their data, in bytes.
    pub(crate) const fn weight(&self) -> u64 {
        self.weight
    }

    /// Data and memory of all operations, in bytes.
    pub(crate) const fn whole(&self) -> u64 {
        self.bytes + self.weight
    }

    pub(crate) fn pending(&self) -> Pending {
        let (operations, metadata) = (self.operations.len() as u64, self.metadata.len() as u64);
        Pending { operations, metadata, bytes: self.bytes }
    }
}
