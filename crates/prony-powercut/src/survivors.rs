//! Which pending operations survive a cut: a function of the log, a policy and a seed.
//!
//! Of a file's unit (a page or a sector) the disk has one of its states since it was last durable, never a mixture: the
//! cache writes whole pages, so a later write of a page carries the earlier ones with it. So for each unit the first
//! writes survive and the later ones do not; how many is drawn for each unit by itself.
//!
//! Metadata limit this. A write to a place that the disk knows (a page of the durable contents that no truncation or hole
//! freed since) survives whatever the metadata are: also one that follows a truncation which is lost. A write that gets a
//! new place changes metadata itself, later than all changes that were issued before the write: it survives only with them.
//! A new size may survive without its data where the last page has its place already (see `Disk::write`).

use std::collections::{HashMap, HashSet};

use prony_model::random::{GOLDEN, Stream, mix};
use prony_model::units::Fraction;

use crate::disk::PAGE;
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
    Units(Units),
}

#[derive(Debug)]
struct Units {
    seed: u64,
    keep: Fraction,
    unit: u64,
    is_posix: bool,
    /// The first change of metadata that is lost, and the last one that survives.
    first_lost: Seq,
    last: Seq,
    /// Data of these files that were written before these operations survive.
    flushed: HashMap<Ino, Seq>,
}

/// What happens to the durable contents of a file, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The size becomes this.
    Resize(u64),
    /// The size becomes this, where it is smaller.
    Grow(u64),
    /// A part of a write or of a hole.
    Piece(Piece),
}

/// A part of a write or of a hole that survives: the operation, and the range in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) seq: Seq,
    pub(crate) begin: u64,
    pub(crate) end: u64,
    /// It is in a place that the disk knows: it does not change the size.
    pub(crate) is_in_place: bool,
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
                let is_posix = order.is_posix();
                let metadata = if is_posix { subset(log, keep, &mut stream) } else { prefix(log, &mut stream) };
                let first_lost = log.metadata().map(|(seq, _)| seq).find(|seq| !metadata.contains(seq));
                let first_lost = first_lost.unwrap_or(Seq::MAX);
                let last = metadata.iter().copied().max().unwrap_or_default();
                let flushed = log.flushes_up_to(last);
                let seed = stream.word();
                let units = Units { seed, keep, unit: unit.bytes(), is_posix, first_lost, last, flushed };
                Self { metadata, data: Data::Units(units) }
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

    /// What survives of the operations of a file, which are in order. `has_place` says whether a page, by its number, has a
    /// place on the disk in the durable contents.
    pub(crate) fn of_file(
        &self,
        ino: Ino,
        (log, operations): (&Log, &[Seq]),
        has_place: impl Fn(u64) -> bool,
    ) -> Vec<Step> {
        let operations: Vec<(Seq, &Change)> =
            operations.iter().filter_map(|seq| Some((*seq, log.get(*seq)?))).collect();
        match &self.data {
            Data::Before(seq, part) => self.before_operation(&operations, (*seq, *part)),
            Data::Units(units) => {
                let drawn = Drawn { survivors: self, units, ino, log };
                drawn.steps(&operations, has_place)
            }
        }
    }

    fn resize(&self, seq: Seq, change: &Change) -> Option<Step> {
        match change {
            Change::Resize { size, .. } if self.has(seq) => Some(Step::Resize(*size)),
            _ => None,
        }
    }

    fn before_operation(&self, operations: &[(Seq, &Change)], (end, part): (Seq, Option<(u64, u64)>)) -> Vec<Step> {
        let mut steps = Vec::new();
        for (seq, change) in operations.iter().take_while(|(seq, _)| *seq <= end) {
            steps.extend(self.resize(*seq, change));
            let limits = if *seq < end { Some((0, u64::MAX)) } else { part };
            let left = change.left().zip(limits);
            let pieces = left.into_iter().flat_map(|(left, (begin, end))| left.within(begin, end));
            steps.extend(pieces.map(|(begin, end)| Step::Piece(Piece { seq: *seq, begin, end, is_in_place: false })));
        }
        steps
    }
}

/// Draws what survives of one file, unit by unit.
struct Drawn<'s> {
    survivors: &'s Survivors,
    units: &'s Units,
    ino: Ino,
    log: &'s Log,
}

impl Drawn<'_> {
    fn steps(&self, operations: &[(Seq, &Change)], has_place: impl Fn(u64) -> bool) -> Vec<Step> {
        let lost =
            |(seq, change): &&(Seq, &Change)| matches!(change, Change::Resize { .. }) && !self.survivors.has(*seq);
        let first_lost = match self.units.is_posix {
            true => operations.iter().find(lost).map_or(Seq::MAX, |(seq, _)| *seq),
            false => self.units.first_lost,
        };
        let pieces = self.pieces(operations, has_place);
        let chosen = self.choose(&pieces, first_lost);
        let mut chosen = chosen.into_iter().peekable();
        let mut steps = Vec::new();
        for (seq, change) in operations {
            steps.extend(self.survivors.resize(*seq, change));
            if let Some(size) = self.log.growth(*seq).filter(|_| self.has_growth(*seq, first_lost)) {
                steps.push(Step::Grow(size));
            }
            while let Some(piece) = chosen.next_if(|piece| piece.seq == *seq) {
                steps.push(Step::Piece(piece));
            }
        }
        steps
    }

    /// Whether the new size of a write survives, whatever becomes of its data.
    fn has_growth(&self, seq: Seq, first_lost: Seq) -> bool {
        let chance = Stream::new(mix(self.units.seed ^ seq.wrapping_mul(GOLDEN))).unit();
        let is_certain = !self.units.is_posix && self.units.last > seq;
        seq < first_lost && (is_certain || chance < self.units.keep.get())
    }

    /// All parts of writes and holes, each within one unit, in order.
    fn pieces(&self, operations: &[(Seq, &Change)], has_place: impl Fn(u64) -> bool) -> Vec<Piece> {
        let unit = self.units.unit;
        // From the first of these pages on, and at the others, the disk has no place since a truncation or a hole.
        let (mut freed, mut holes) = (u64::MAX, HashSet::new());
        let mut known: HashMap<u64, bool> = HashMap::new();
        let mut pieces = Vec::new();
        for (seq, change) in operations {
            if let Change::Resize { size, .. } = change {
                freed = freed.min(size.div_ceil(PAGE));
            }
            for (from, to) in change.left().into_iter().flat_map(|left| left.iter()) {
                for at in from / unit..to.div_ceil(unit) {
                    let page = at * unit / PAGE;
                    let place = *known.entry(page).or_insert_with(|| has_place(page));
                    let is_in_place = place && page < freed && !holes.contains(&page);
                    let (begin, end) = (from.max(at * unit), to.min((at + 1) * unit));
                    pieces.push(Piece { seq: *seq, begin, end, is_in_place });
                }
                if matches!(change, Change::Zero { .. }) {
                    holes.extend(from.div_ceil(PAGE)..to / PAGE);
                }
            }
        }
        pieces
    }

    /// Of each unit with `n` writes that may survive: with the probability `keep` the first 1 to `n`, otherwise none; and those
    /// that a change of metadata needs in any case.
    fn choose(&self, pieces: &[Piece], first_lost: Seq) -> Vec<Piece> {
        let Units { seed, keep, unit, .. } = *self.units;
        let seed = mix(seed ^ self.ino.wrapping_mul(GOLDEN));
        let flushed = self.units.flushed.get(&self.ino).copied().unwrap_or_default();
        let may_survive = |piece: &Piece| piece.is_in_place || piece.seq < first_lost;
        let (mut possible, mut needed): (HashMap<u64, u64>, HashMap<u64, u64>) = Default::default();
        for piece in pieces.iter().filter(|piece| may_survive(piece)) {
            *possible.entry(piece.begin / unit).or_default() += 1;
            *needed.entry(piece.begin / unit).or_default() += u64::from(piece.seq < flushed);
        }
        for (at, count) in &mut possible {
            let mut stream = Stream::new(mix(seed ^ at.wrapping_mul(GOLDEN)));
            let drawn = if stream.unit() < keep.get() { 1 + stream.below(*count) } else { 0 };
            *count = drawn.max(needed[at]);
        }
        let mut left = possible;
        let mut chosen: Vec<Piece> = Vec::new();
        for piece in pieces {
            let Some(count) = left.get_mut(&(piece.begin / unit)).filter(|count| **count > 0) else { continue };
            *count -= 1;
            match chosen.last_mut() {
                Some(Piece { seq, end, is_in_place, .. })
                    if (*seq, *end, *is_in_place) == (piece.seq, piece.begin, piece.is_in_place) =>
                {
                    *end = piece.end;
                }
                _ => chosen.push(*piece),
            }
        }
        chosen
    }
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
    let boundaries = |(begin, end): (u64, u64)| (begin / unit + 1, end.div_ceil(unit) - (begin / unit + 1));
    let range = |change: &Change| match change {
        Change::Write { left, .. } => Some((left.iter().next()?.0, left.iter().last()?.1)),
        _ => None,
    };
    let write = |change: &Change| range(change).filter(|range| boundaries(*range).1 > 0);
    let writes: Vec<(Seq, (u64, u64))> = log.iter().filter_map(|(seq, change)| Some((seq, write(change)?))).collect();
    let (seq, (begin, end)) = *writes.get(stream.below(writes.len() as u64) as usize)?;
    let (first, count) = boundaries((begin, end));
    let at = (first + stream.below(count)) * unit;
    Some((seq, if stream.unit() < 0.5 { (begin, at) } else { (at, end) }))
}

/// The first changes of metadata; how many is random.
fn prefix(log: &Log, stream: &mut Stream) -> HashSet<Seq> {
    let count = stream.below(log.pending().metadata + 1);
    log.metadata().map(|(seq, _)| seq).take(count as usize).collect()
}

/// Each change of metadata with a probability, but none without the earlier ones that it needs: those of the same name, and
/// for a rename those of the places of its directories.
fn subset(log: &Log, keep: Fraction, stream: &mut Stream) -> HashSet<Seq> {
    let (mut lost, mut needed): (HashSet<Key>, HashSet<Key>) = Default::default();
    let mut chosen = HashSet::new();
    for (seq, change) in log.metadata() {
        let (keys, needs) = (change.keys(), change.needs());
        let may_survive = !keys.iter().any(|key| lost.contains(key) || needed.contains(key))
            && !needs.iter().any(|key| lost.contains(key));
        if stream.unit() < keep.get() && may_survive {
            chosen.insert(seq);
        } else {
            lost.extend(keys);
            needed.extend(needs);
        }
    }
    chosen
}

#[cfg(test)]
mod tests;
