//! The timed loop: calls the engine for each operation and reads the clock; everything else is prepared before.
//!
//! Keys and values come from a [`Feed`], which prepares a chunk of them while the clock is stopped. What is timed
//! beside the chunk as a whole is a [`Timing`]; it is a type, so that timing nothing costs nothing per operation. What
//! must be counted per operation goes into plain integers of a [`Tally`]; texts, histograms and sets are filled between
//! two chunks.

use std::collections::BTreeMap;
use std::ops::Range;

pub use prony_model::error::chain;

use crate::answers::Reads;
pub(crate) use crate::clock::thread_cpu;
pub use crate::clock::{now, process_cpu};
use crate::documents::{Guard, Indexed, Query, find};
use crate::driver::{EngineError, Read, Session, Then, Write};

/// The kinds of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Read by key.
    Read,
    /// Read a range in key order.
    Scan,
    /// Answer queries over documents.
    Find,
    /// Store.
    Put,
    /// Store above all stored keys.
    Append,
    /// Remove.
    Delete,
    /// Read, and store where that misses.
    Compute,
    /// Read, then store.
    ReadModifyWrite,
}

impl Kind {
    /// Whether it never changes anything, so that a read transaction serves.
    pub(crate) const fn only_reads(self) -> bool {
        matches!(self, Self::Read | Self::Scan | Self::Find)
    }
}

/// One operation, its key and value ready.
#[derive(Clone, Copy, Debug)]
pub struct Op<'a> {
    /// What to do.
    pub kind: Kind,
    /// Number of the record.
    pub number: u64,
    /// Rows to read, for [`Kind::Scan`]; unused otherwise.
    pub rows: u64,
    /// The key.
    pub key: &'a [u8],
    /// The value to store; empty where nothing may be stored.
    pub value: &'a [u8],
    /// The queries of [`Kind::Find`]; empty otherwise.
    pub queries: &'a [Query],
    /// What a write changes in the indexes; `None` where the store has none.
    pub indexed: Option<Indexed<'a>>,
    /// What references require of a write; `None` where they are ignored.
    pub guard: Option<Guard<'a>>,
}

/// Where the operations come from.
pub trait Feed<T: Timing> {
    /// Whether there is another operation. At the end of the chunk this stops the clock, prepares the next chunk and
    /// starts the clock again.
    fn more(&mut self, timing: &mut T) -> bool;
    /// Takes operations from the chunk, at most so many.
    fn take(&mut self, at_most: u64) -> Range<usize>;
    /// Index of the next operation.
    fn at(&self) -> usize;
    /// Returns operations to the chunk, from this index on.
    fn rewind(&mut self, to: usize);
    /// An operation of the chunk.
    fn op(&self, index: usize) -> Op<'_>;
    /// A transaction of several operations begins with the next one; as [`Self::at`].
    fn open(&mut self) -> usize;
    /// The operation failed, by itself.
    fn failed(&mut self, index: usize);
    /// The transaction that was opened last is undone: all its operations so far failed.
    fn undone(&mut self);
}

/// What is timed inside a timed section. Every method does nothing unless a kind of sampling needs it.
pub trait Timing {
    /// The timed section begins.
    #[inline(always)]
    fn begin(&mut self, _now: u64) {}
    /// A transaction is about to begin, whose first operation is this one.
    #[inline(always)]
    fn open(&mut self, _index: usize) {}
    /// An operation is about to begin; where it has a transaction of its own, with that.
    #[inline(always)]
    fn before(&mut self, _index: usize) {}
    /// The operation ended.
    #[inline(always)]
    fn after(&mut self, _index: usize, _succeeded: bool) {}
    /// The commit of a transaction of several operations ended, whose last operation is before this index. Where it did
    /// not succeed, none of them did.
    #[inline(always)]
    fn committed(&mut self, _next: usize, _succeeded: bool) {}
    /// A transaction of several operations, whose last is before this index, was discarded: none of them succeeded.
    fn discarded(&mut self, _next: usize) {}
    /// The timed section ends.
    #[inline(always)]
    fn end(&mut self, _now: u64) {}
}

/// Times only the section.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Untimed;

impl Timing for Untimed {}

/// Different error texts that are stored.
const ERROR_TEXTS: usize = 5;

/// What happened, counted inside timed sections.
#[derive(Debug, Default)]
pub struct Tally {
    /// Operations that succeeded (and, in a write transaction, were committed).
    pub operations: u64,
    /// Operations that failed, with those discarded along with them.
    pub errors: u64,
    /// How often the engine reported a full disk.
    pub disk_full: u64,
    /// How often the engine reported a conflict with another transaction.
    pub conflicts: u64,
    /// Transactions committed, or read transactions ended.
    pub transactions: u64,
    /// Error texts with counts, the first few different ones.
    pub texts: BTreeMap<String, u64>,
    /// What reads returned.
    pub reads: Reads,
}

impl Tally {
    #[inline(always)]
    fn succeeded(&mut self, operations: u64, transactions: u64) {
        self.operations += operations;
        self.transactions += transactions;
    }

    /// Adds another client's counts.
    pub(crate) fn merge(&mut self, other: Self) {
        self.operations += other.operations;
        self.errors += other.errors;
        self.disk_full += other.disk_full;
        self.conflicts += other.conflicts;
        self.transactions += other.transactions;
        for (text, count) in other.texts {
            if self.texts.len() < ERROR_TEXTS || self.texts.contains_key(&text) {
                *self.texts.entry(text).or_default() += count;
            }
        }
        self.reads.merge(other.reads);
    }

    /// Counts a failure; returns the error if it is not of the operation. However many fail, the rest is offered: counts of
    /// a phase that ended early could be compared with none (METHOD 8.2).
    #[cold]
    fn failed(&mut self, operations: u64, error: EngineError) -> Result<(), EngineError> {
        self.errors += operations;
        let text = chain(&error);
        if self.texts.len() < ERROR_TEXTS || self.texts.contains_key(&text) {
            *self.texts.entry(text).or_default() += 1;
        }
        match error {
            EngineError::DiskFull { .. } => self.disk_full += 1,
            EngineError::Conflict { .. } => self.conflicts += 1,
            EngineError::Engine { .. } => {}
            error => return Err(error),
        }
        Ok(())
    }
}

#[inline(always)]
fn get<R: Read>(txn: &mut R, op: Op<'_>, reads: &mut Reads) -> Result<bool, EngineError> {
    // A closure that borrowed parts of `op` would have all of it stored in memory for each operation.
    let (number, key) = (op.number, op.key.len());
    let found = txn.get(op.key, |value| reads.numbered(number, key, value))?;
    reads.misses += u64::from(!found);
    Ok(found)
}

#[inline(always)]
fn scan<R: Read>(txn: &mut R, op: Op<'_>, reads: &mut Reads) -> Result<(), EngineError> {
    let mut left = op.rows;
    if left == 0 {
        return Ok(());
    }
    // A scan ends with the collection.
    let before = &op.key[..reads.before_keys];
    txn.scan_at_most(op.key, left, |key, value| {
        if !key.starts_with(before) {
            return Then::Break(());
        }
        reads.keyed(key, value);
        left -= 1;
        if left == 0 { Then::Break(()) } else { Then::Continue(()) }
    })
}

#[inline(always)]
fn index<W: Write>(txn: &mut W, op: Op<'_>, reads: &mut Reads) -> Result<(), EngineError> {
    op.indexed.map_or(Ok(()), |indexed| indexed.change(txn, op.key, reads, |_, _| ()))
}

/// The old value is read once, whether or not its entries have to be removed.
#[inline(always)]
fn read_modify_write<W: Write>(txn: &mut W, op: Op<'_>, reads: &mut Reads) -> Result<(), EngineError> {
    let Some(indexed) = op.indexed else {
        let (number, key) = (op.number, op.key.len());
        let found = txn.get_to_write(op.key, |value| reads.numbered(number, key, value))?;
        reads.misses += u64::from(!found);
        return txn.put(op.key, op.value);
    };
    let (mut found, number, key) = (false, op.number, op.key.len());
    indexed.change(txn, op.key, reads, |value, reads| {
        reads.numbered(number, key, value);
        found = true;
    })?;
    reads.misses += u64::from(!found);
    txn.put(op.key, op.value)
}

#[inline(always)]
fn put<W: Write>(txn: &mut W, op: Op<'_>, reads: &mut Reads) -> Result<(), EngineError> {
    index(txn, op, reads)?;
    txn.put(op.key, op.value)
}

/// One operation in a transaction. A type and not a closure, so that it is inlined for certain.
trait Step<X> {
    fn step(txn: &mut X, op: Op<'_>, reads: &mut Reads) -> Result<(), EngineError>;
}

/// In a read transaction.
struct Reading;

/// In a write transaction.
struct Writing;

impl<R: Read> Step<R> for Reading {
    #[inline(always)]
    fn step(txn: &mut R, op: Op<'_>, reads: &mut Reads) -> Result<(), EngineError> {
        if op.kind == Kind::Find {
            let before = *reads;
            return find(txn, op.number, op.queries, reads).inspect_err(|_| *reads = before);
        }
        let before = reads.rows_so_far();
        let done = if op.kind == Kind::Scan { scan(txn, op, reads) } else { get(txn, op, reads).map(drop) };
        done.inspect_err(|_| reads.back_to(before))
    }
}

impl<W: Write> Step<W> for Writing {
    #[inline(always)]
    fn step(txn: &mut W, op: Op<'_>, reads: &mut Reads) -> Result<(), EngineError> {
        if let Some(guard) = op.guard
            && !guard.admits(txn, reads)?
        {
            reads.refuse(op.number);
            return Ok(());
        }
        match op.kind {
            Kind::Put => put(txn, op, reads),
            Kind::Append => {
                index(txn, op, reads)?;
                txn.append(op.key, op.value)
            }
            Kind::Delete => {
                index(txn, op, reads)?;
                txn.delete(op.key).map(|found| reads.vain_removals += u64::from(!found))
            }
            Kind::Read | Kind::Scan | Kind::Find => Reading::step(txn, op, reads),
            Kind::Compute if get(txn, op, reads)? => Ok(()),
            Kind::Compute => put(txn, op, reads).map(|()| reads.stored(op.key, op.value)),
            Kind::ReadModifyWrite => read_modify_write(txn, op, reads),
        }
    }
}

/// One operation in transactions of its own; returns how many.
///
/// A read never opens a write transaction. `compute` is a cache's get, which takes a read transaction, and where that
/// misses its set, which takes a write transaction. A read-modify-write is one write transaction where the engine sees
/// its own writes, else a read and a write transaction.
#[inline(always)]
fn in_own_transactions<S: Session>(
    session: &mut S,
    op: Op<'_>,
    reads: &mut Reads,
    own_reads: bool,
) -> Result<u64, EngineError> {
    match op.kind {
        Kind::Read | Kind::Scan => {
            let before = reads.rows_so_far();
            read_in_own_transaction(session, op, reads).map(|_| 1).inspect_err(|_| reads.back_to(before))
        }
        Kind::Put | Kind::Append if op.indexed.is_none() && op.guard.is_none() => {
            write_in_own_transaction(session, op, reads)
        }
        Kind::Find | Kind::Put | Kind::Append | Kind::Compute | Kind::ReadModifyWrite | Kind::Delete => {
            let read = *reads;
            let done = read_and_write(session, op, reads, own_reads);
            // Rows that an operation read before it failed are no answer of the phase.
            if done.is_err() {
                *reads = read;
            }
            done
        }
    }
}

/// One operation that reads documents, or reads before it writes; returns how many transactions it took.
#[inline(always)]
fn read_and_write<S: Session>(
    session: &mut S,
    op: Op<'_>,
    reads: &mut Reads,
    own_reads: bool,
) -> Result<u64, EngineError> {
    match op.kind {
        Kind::Find => read_in_own_transaction(session, op, reads).map(|_| 1),
        Kind::Compute => {
            if read_in_own_transaction(session, op, reads)? {
                return Ok(1);
            }
            let written = write_in_own_transaction(session, Op { kind: Kind::Put, ..op }, reads)?;
            reads.stored(op.key, op.value);
            Ok(1 + written)
        }
        Kind::ReadModifyWrite if !own_reads => {
            read_in_own_transaction(session, op, reads)?;
            write_in_own_transaction(session, Op { kind: Kind::Put, ..op }, reads).map(|written| 1 + written)
        }
        _ => write_in_own_transaction(session, op, reads),
    }
}

#[inline(always)]
fn read_in_own_transaction<S: Session>(session: &mut S, op: Op<'_>, reads: &mut Reads) -> Result<bool, EngineError> {
    let mut txn = if op.kind == Kind::Find { session.read()? } else { session.read_once()? };
    let found = match op.kind {
        Kind::Scan => scan(&mut txn, op, reads).map(|()| true)?,
        Kind::Find => find(&mut txn, op.number, op.queries, reads).map(|()| true)?,
        _ => get(&mut txn, op, reads)?,
    };
    txn.finish()?;
    Ok(found)
}

/// How many transactions are committed: none where the operation is refused.
#[inline(always)]
fn write_in_own_transaction<S: Session>(session: &mut S, op: Op<'_>, reads: &mut Reads) -> Result<u64, EngineError> {
    let is_single =
        matches!(op.kind, Kind::Put | Kind::Append | Kind::Delete) && op.indexed.is_none() && op.guard.is_none();
    let mut txn = if is_single { session.write_once()? } else { session.write()? };
    let refused = reads.refused;
    match Writing::step(&mut txn, op, reads) {
        Ok(()) if reads.refused > refused => txn.finish().map(|()| 0),
        Ok(()) => txn.commit().map(|()| 1),
        Err(error) => {
            discard(txn);
            Err(error)
        }
    }
}

/// Ends a transaction that failed; the first error is the one reported.
#[cold]
fn discard<R: Read>(txn: R) {
    let _ = txn.finish();
}

/// Every operation in a transaction of its own.
///
/// # Errors
/// The engine's, where the phase cannot go on; single failures are counted.
pub fn each<S: Session, T: Timing>(
    session: &mut S,
    feed: &mut impl Feed<T>,
    timing: &mut T,
    tally: &mut Tally,
    own_reads: bool,
) -> Result<(), EngineError> {
    while feed.more(timing) {
        for index in feed.take(u64::MAX) {
            timing.before(index);
            let done = in_own_transactions(session, feed.op(index), &mut tally.reads, own_reads);
            timing.after(index, done.is_ok());
            match done {
                Ok(transactions) => tally.succeeded(1, transactions),
                Err(error) => {
                    feed.failed(index);
                    tally.failed(1, error)?;
                }
            }
        }
    }
    Ok(())
}

/// Runs up to `size` operations in an open transaction, whatever the borders of chunks; returns how many succeeded, and
/// the error that stopped it.
#[inline(always)]
fn span<P: Step<X>, X, T: Timing>(
    txn: &mut X,
    feed: &mut impl Feed<T>,
    timing: &mut T,
    reads: &mut Reads,
    size: u64,
) -> (u64, Option<EngineError>) {
    let mut ran = 0;
    while ran < size && feed.more(timing) {
        for index in feed.take(size - ran) {
            timing.before(index);
            let done = P::step(txn, feed.op(index), reads);
            timing.after(index, done.is_ok());
            if let Err(error) = done {
                feed.rewind(index + 1);
                return (ran, Some(error));
            }
            ran += 1;
        }
    }
    (ran, None)
}

/// Reads, `size` to a read transaction. A read that fails ends its transaction; the next one begins afresh.
///
/// # Errors
/// As [`each`].
pub(crate) fn batched_reads<S: Session, T: Timing>(
    session: &mut S,
    feed: &mut impl Feed<T>,
    timing: &mut T,
    tally: &mut Tally,
    size: u64,
) -> Result<(), EngineError> {
    while feed.more(timing) {
        timing.open(feed.open());
        let mut txn = match session.read() {
            Ok(txn) => txn,
            Err(error) => {
                not_begun(feed, timing);
                tally.failed(1, error)?;
                continue;
            }
        };
        let (ran, stopped) = span::<Reading, _, _>(&mut txn, feed, timing, &mut tally.reads, size);
        let ended = txn.finish();
        tally.succeeded(ran, u64::from(ended.is_ok()));
        if stopped.is_some() {
            feed.failed(feed.at() - 1);
        }
        if let Some(error) = stopped.or(ended.err()) {
            tally.failed(1, error)?;
        }
    }
    Ok(())
}

/// A transaction could not begin: its first operation failed.
#[cold]
fn not_begun<T: Timing>(feed: &mut impl Feed<T>, timing: &mut T) {
    for index in feed.take(1) {
        timing.after(index, false);
        feed.failed(index);
    }
}

/// Operations, `size` to a write transaction. Where one fails, or the commit, its transaction is discarded and all its
/// operations count as failed, so that what they read is no answer of the phase; the next one begins afresh.
///
/// # Errors
/// As [`each`].
pub(crate) fn batched_writes<S: Session, T: Timing>(
    session: &mut S,
    feed: &mut impl Feed<T>,
    timing: &mut T,
    tally: &mut Tally,
    size: u64,
) -> Result<(), EngineError> {
    while feed.more(timing) {
        timing.open(feed.open());
        let mut txn = match session.write() {
            Ok(txn) => txn,
            Err(error) => {
                not_begun(feed, timing);
                tally.failed(1, error)?;
                continue;
            }
        };
        let read = tally.reads;
        let (ran, stopped) = span::<Writing, _, _>(&mut txn, feed, timing, &mut tally.reads, size);
        if let Some(error) = stopped {
            discard(txn);
            timing.discarded(feed.at());
            feed.undone();
            tally.reads = read;
            tally.failed(ran + 1, error)?;
            continue;
        }
        let done = txn.commit();
        timing.committed(feed.at(), done.is_ok());
        match done {
            Ok(()) => tally.succeeded(ran, 1),
            Err(error) => {
                feed.undone();
                tally.reads = read;
                tally.failed(ran, error)?;
            }
        }
    }
    Ok(())
}

/// Operations inside a write transaction that is open already and stays open; the engine has carried them out at the end.
///
/// # Errors
/// The first one: the transaction is of no use after it.
pub fn within<W: Write, T: Timing>(
    txn: &mut W,
    feed: &mut impl Feed<T>,
    timing: &mut T,
    tally: &mut Tally,
) -> Result<(), EngineError> {
    let (ran, stopped) = span::<Writing, _, _>(txn, feed, timing, &mut tally.reads, u64::MAX);
    tally.succeeded(ran, 0);
    stopped.map_or_else(|| txn.deliver(), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> EngineError {
        EngineError::Engine { engine: "fake", doing: "storing a value", source: text.into() }
    }

    #[test]
    fn some_failures_end_a_phase_at_once() {
        let memory = EngineError::OutOfMemory { engine: "fake", doing: "storing a value" };
        let unsupported = EngineError::Unsupported { engine: "fake", what: "scans".to_owned() };
        for error in [memory, unsupported] {
            assert!(Tally::default().failed(1, error).is_err());
        }
    }

    #[test]
    fn conflicts_with_other_transactions_are_counted_beside_the_errors() {
        let conflict = || EngineError::Conflict { engine: "fake", doing: "committing", source: "busy".into() };
        let (mut tally, mut other) = (Tally::default(), Tally::default());
        tally.failed(10, conflict()).unwrap();
        tally.failed(1, refused("page 1")).unwrap();
        other.failed(5, conflict()).unwrap();
        tally.merge(other);
        assert_eq!((tally.conflicts, tally.errors), (2, 16));
        let text = "`fake` met a conflict with another transaction while committing: busy";
        assert_eq!(tally.texts[text], 2);
    }

    #[test]
    fn only_the_first_error_texts_are_recorded() {
        let mut tally = Tally::default();
        (0..50).for_each(|n| tally.failed(1, refused(&format!("page {n}"))).unwrap());
        let mut other = Tally::default();
        other.failed(1, refused("page 3")).unwrap();
        other.failed(1, refused("page 99")).unwrap();
        tally.merge(other);
        assert_eq!((tally.texts.len(), tally.errors), (ERROR_TEXTS, 52));
        assert_eq!(tally.texts["`fake` failed while storing a value: page 3"], 2);
    }
}
