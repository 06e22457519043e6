//! Which pending operations survive a cut: a function of the log, a policy and a seed.
//!
//! Of a file's unit (a page or a sector) the disk has one of its states since it was last durable, never a mixture: the
//! cache writes whole pages, so a later write of a page carries the earlier ones with it. So for each unit the first
//! writes survive and the later ones do not; how many is drawn for each unit by itself. A write does not survive without
//! the truncations before it, since its blocks were allocated after them.

use std::collections::{HashMap, HashSet};

use prony_model::random::{GOLDEN, Stream, mix};
use prony_model::units::Fraction;

use crate::log::{Change, Ino, Key, Log, Seq};
use crate::settings::{MetadataOrder, Policy, Unit};

/// What survives.
#[derive(Debug)]
pub(crate) struct Survivors {
    metadata: HashSet<Seq>,
    data: Data,
}

/// Which writes survive.
#[derive(Debug)]
enum Data {
    /// Those before an operation; of that operation itself a part of its bytes, from the first offset to the second.
    Before(Seq, Option<(u64, u64)>),
    /// Of each unit the first ones.
    Units { seed: u64, keep: Fraction, unit: Unit },
}

/// A part of a write or of a hole that survives: the operation, and the range in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) seq: Seq,
    pub(crate) begin: u64,
    pub(crate) end: u64,
}

/// What survives of a file's operations.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct FileSurvivors {
    /// Sizes that truncations set, in order; they come before the pieces.
    pub(crate) sizes: Vec<u64>,
    /// In order.
    pub(crate) pieces: Vec<Piece>,
}

impl Survivors {
    /// Draws what survives.
    pub(crate) fn draw(
        log: &Log,
        order: MetadataOrder,
        policy: Policy,
        (keep, unit): (Fraction, Unit),
        seed: u64,
    ) -> Self {
        let mut stream = Stream::new(seed);
        match policy {
            Policy::None => Self::before(log, 0, None),
            Policy::Prefix => Self::before(log, any_position(log, &mut stream), None),
            Policy::Torn => match torn(log, unit, &mut stream) {
                Some((seq, part)) => Self::before(log, seq, Some(part)),
                None => Self::before(log, any_position(log, &mut stream), None),
            },
            Policy::Subset => {
                let metadata = match order {
                    MetadataOrder::Ext4 => prefix(log, &mut stream),
                    MetadataOrder::Posix => subset(log, keep, &mut stream),
                };
                Self { metadata, data: Data::Units { seed: stream.word(), keep, unit } }
            }
        }
    }

    fn before(log: &Log, seq: Seq, part: Option<(u64, u64)>) -> Self {
        let metadata = log.metadata().map(|(at, _)| at).take_while(|at| *at < seq).collect();
        Self { metadata, data: Data::Before(seq, part) }
    }

    /// Whether a change of metadata survives.
    pub(crate) fn has(&self, seq: Seq) -> bool {
        self.metadata.contains(&seq)
    }

    /// How many changes of metadata survive.
    pub(crate) fn metadata(&self) -> u64 {
        self.metadata.len() as u64
    }

    /// What survives of the operations of a file, which are in order.
    pub(crate) fn of_file(&self, ino: Ino, operations: &[(Seq, &Change)]) -> FileSurvivors {
        let lost = |(seq, change): &&(Seq, &Change)| matches!(change, Change::Resize { .. }) && !self.has(*seq);
        let end = operations.iter().find(lost).map_or(Seq::MAX, |(seq, _)| *seq);
        let operations = || operations.iter().take_while(move |(seq, _)| *seq < end);
        let size = |(_, change): &(Seq, &Change)| match change {
            Change::Resize { size, .. } => Some(*size),
            _ => None,
        };
        let sizes = operations().filter_map(size).collect();
        // Each write ends where the smallest later truncation does.
        let mut limit = u64::MAX;
        let mut writes = Vec::new();
        for operation in operations().collect::<Vec<_>>().into_iter().rev() {
            limit = limit.min(size(operation).unwrap_or(u64::MAX));
            if let Some((begin, len)) = operation.1.range() {
                writes.push(Piece { seq: operation.0, begin, end: (begin + len).min(limit) });
            }
        }
        writes.retain(|piece| piece.begin < piece.end);
        writes.reverse();
        FileSurvivors { sizes, pieces: self.data.choose(ino, &writes) }
    }
}

impl Data {
    fn choose(&self, ino: Ino, writes: &[Piece]) -> Vec<Piece> {
        match self {
            Self::Before(seq, part) => {
                let choose = |piece: &Piece| match (piece.seq.cmp(seq), part) {
                    (std::cmp::Ordering::Less, _) => Some(*piece),
                    (std::cmp::Ordering::Equal, Some((begin, end))) => {
                        let (begin, end) = (piece.begin.max(*begin), piece.end.min(*end));
                        (begin < end).then_some(Piece { begin, end, ..*piece })
                    }
                    _ => None,
                };
                writes.iter().filter_map(choose).collect()
            }
            Self::Units { seed, keep, unit } => {
                choose_units(mix(seed ^ ino.wrapping_mul(GOLDEN)), *keep, unit.bytes(), writes)
            }
        }
    }
}

/// Of each unit with `n` writes: with the probability `keep` the first 1 to `n`, otherwise none.
fn choose_units(seed: u64, keep: Fraction, unit: u64, writes: &[Piece]) -> Vec<Piece> {
    let units = |piece: &Piece| piece.begin / unit..piece.end.div_ceil(unit);
    let mut left: HashMap<u64, u64> = HashMap::new();
    for at in writes.iter().flat_map(units) {
        *left.entry(at).or_default() += 1;
    }
    for (at, count) in &mut left {
        let mut stream = Stream::new(mix(seed ^ at.wrapping_mul(GOLDEN)));
        *count = if stream.unit() < keep.get() { 1 + stream.below(*count) } else { 0 };
    }
    let mut chosen: Vec<Piece> = Vec::new();
    for piece in writes {
        for at in units(piece) {
            let Some(count) = left.get_mut(&at).filter(|count| **count > 0) else { continue };
            *count -= 1;
            let (begin, end) = (piece.begin.max(at * unit), piece.end.min((at + 1) * unit));
            match chosen.last_mut() {
                Some(last) if last.seq == piece.seq && last.end == begin => last.end = end,
                _ => chosen.push(Piece { begin, end, ..*piece }),
            }
        }
    }
    chosen
}

/// The operation before which all survive; one behind the last where all do.
fn any_position(log: &Log, stream: &mut Stream) -> Seq {
    let count = log.pending().operations;
    let position = stream.below(count + 1);
    log.iter().nth(position as usize).map_or(Seq::MAX, |(seq, _)| seq)
}

/// A write with a boundary of a unit inside, and the part of it on one side of one of these.
fn torn(log: &Log, unit: Unit, stream: &mut Stream) -> Option<(Seq, (u64, u64))> {
    let unit = unit.bytes();
    // The first boundary inside, and how many there are.
    let boundaries = |(begin, len): (u64, u64)| (begin / unit + 1, (begin + len).div_ceil(unit) - (begin / unit + 1));
    let write = |change: &Change| match change {
        Change::Write { .. } => change.range().filter(|range| range.1 > 0 && boundaries(*range).1 > 0),
        _ => None,
    };
    let writes: Vec<(Seq, (u64, u64))> = log.iter().filter_map(|(seq, change)| Some((seq, write(change)?))).collect();
    let (seq, (begin, len)) = *writes.get(stream.below(writes.len() as u64) as usize)?;
    let (first, count) = boundaries((begin, len));
    let at = (first + stream.below(count)) * unit;
    Some((seq, if stream.unit() < 0.5 { (begin, at) } else { (at, begin + len) }))
}

/// The first changes of metadata; how many is random.
fn prefix(log: &Log, stream: &mut Stream) -> HashSet<Seq> {
    let count = stream.below(log.pending().metadata + 1);
    log.metadata().map(|(seq, _)| seq).take(count as usize).collect()
}

/// Each change of metadata with a probability, but none without the earlier ones of the same name.
fn subset(log: &Log, keep: Fraction, stream: &mut Stream) -> HashSet<Seq> {
    let mut lost: HashSet<Key> = HashSet::new();
    let mut chosen = HashSet::new();
    for (seq, change) in log.metadata() {
        let keys = change.keys();
        if stream.unit() < keep.get() && !keys.iter().any(|key| lost.contains(key)) {
            chosen.insert(seq);
        } else {
            lost.extend(keys);
        }
    }
    chosen
}

#[cfg(test)]
mod tests;
