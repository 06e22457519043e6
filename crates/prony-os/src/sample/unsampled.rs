//! Estimates how much memory samples may have missed of processes that ended in a phase: between two samples, or after
//! the last one. Pure functions.
//!
//! Processes that are running at the phase's end are read there. A role that has ended is judged by its own samples,
//! since those of another role say nothing about it: between two distant samples it may have had any amount of memory,
//! up to the peak that the kernel reports when it is reaped. For a short-lived child of a role with dense samples the
//! kernel reports nothing: the largest sample of a tree is a lower bound, which is used if it includes the role's
//! largest process.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};

use prony_model::units::{Bytes, Nanos};

/// Why processes that ended in the phase have no memory metrics: their samples lie too far apart.
pub(super) const SPARSE: &str = "the samples of a process that ended in the phase lie too far apart to show its memory; sample more often: `--hertz N` of `exec`, or `hertz` in `[observe]`";

/// The same for processes that were sampled often enough, while a peak was missed.
pub(super) const UNSEEN: &str = "no sample shows the peak memory that the kernel reports for a process that ended in the phase; sample more often: `--hertz N` of `exec`, or `hertz` in `[observe]`";

/// The longest time between two samples of what had ended when the phase did may be this part of the time for which it
/// lived: the first instants have little memory.
const LONGEST_GAP: u64 = 4;

/// A value counts as measured if no more than this part of it was missed.
const LITTLE: f64 = 0.02;

/// Samples of several processes show at least this part of the largest one's peak, or some process was not sampled: of what
/// it had until its end they may miss a quarter.
const SHOWN: f64 = 0.75;

/// What is known of a role's processes beside their samples, once all of them have ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// When the last of them had, by the clock of the samples.
    pub at: Nanos,
    /// No process of them ever had more resident memory, by the kernel's count.
    pub peak: Bytes,
    /// Whether one of several had as much in the phase. It may have been before, or in the process that launched them; and of
    /// one process the peak is a value beside those of samples.
    pub reached: bool,
}

/// By role; a role that is not in it may have had any amount of memory, and may have ended at any time.
pub type Ends = BTreeMap<String, Ended>;

/// The samples of a role or of a process in a phase.
#[derive(Debug, Default)]
pub(super) struct Sampled {
    /// The rounds that found it; the phase's begin and end are among all rounds.
    pub(super) at: BTreeSet<Nanos>,
    /// The most resident memory that one of them had in a sample.
    pub(super) most: Bytes,
}

impl Sampled {
    /// Whether the samples lie close together, of what had ended when the phase did.
    fn is_dense(&self, rounds: &BTreeSet<Nanos>, ended: Option<&Ended>) -> bool {
        let alive_spans = alive_spans(rounds, &self.at, ended.map(|ended| ended.at));
        let gaps = || alive_spans.iter().map(|(from, to)| to.since(*from).as_nanos());
        gaps().max().is_none_or(|longest| longest.saturating_mul(LONGEST_GAP) <= gaps().sum())
    }

    /// Whether one of them shows the largest process, as far as that is known.
    fn shows(&self, ended: Option<&Ended>) -> bool {
        let bytes = |n: Bytes| n.as_bytes() as f64;
        !ended.is_some_and(|ended| ended.reached && bytes(self.most) < SHOWN * bytes(ended.peak))
    }
}

/// How much memory samples may have missed.
#[derive(Debug, Default)]
pub(super) struct Missed {
    /// Of resident memory.
    most: u64,
    /// Nothing bounds it.
    any: bool,
    /// Samples lie far apart.
    sparse: bool,
}

impl Missed {
    /// Adds a role or process that had ended when the phase did.
    pub(super) fn add(&mut self, rounds: &BTreeSet<Nanos>, sampled: &Sampled, ended: Option<&Ended>) {
        let dense = sampled.is_dense(rounds, ended);
        if dense && !sampled.at.is_empty() && sampled.shows(ended) {
            return;
        }
        self.sparse |= !dense;
        match ended {
            Some(ended) => self.most += ended.peak.as_bytes(),
            None => self.any |= !sampled.at.is_empty(),
        }
    }

    /// Why values from samples do not count.
    pub(super) const fn why(&self) -> &'static str {
        if self.sparse { SPARSE } else { UNSEEN }
    }

    /// Whether a value from samples counts; only resident memory is bounded.
    pub(super) fn leaves(&self, figure: f64, resident: bool) -> bool {
        !self.any && (self.most == 0 || (resident && self.most as f64 <= LITTLE * figure))
    }
}

/// The times between rounds in which it lived, for as much as is known: between two rounds that did not find it, it did not.
fn alive_spans(rounds: &BTreeSet<Nanos>, own: &BTreeSet<Nanos>, ended: Option<Nanos>) -> Vec<(Nanos, Nanos)> {
    let (Some(first), Some(last)) = (own.first(), own.last()) else { return Vec::new() };
    let before = rounds.range(..first).next_back();
    let after = rounds.range((Excluded(last), Unbounded)).next();
    let after = after.map(|after| ended.map_or(*after, |ended| ended.clamp(*last, *after)));
    let all: Vec<Nanos> = before.into_iter().chain(rounds.range(first..=last)).copied().chain(after).collect();
    let alive_spans = all.windows(2).filter(|pair| pair.iter().any(|at| own.contains(at)));
    alive_spans.map(|pair| (pair[0], pair[1])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: f64 = 1_048_576.0;

    fn ms(all: impl IntoIterator<Item = u64>) -> BTreeSet<Nanos> {
        all.into_iter().map(Nanos::from_millis).collect()
    }

    fn ended(at: u64, mib: u64) -> Ended {
        Ended { at: Nanos::from_millis(at), peak: Bytes::from_mib(mib), reached: true }
    }

    fn sampled(at: impl IntoIterator<Item = u64>, mib: u64) -> Sampled {
        Sampled { at: ms(at), most: Bytes::from_mib(mib) }
    }

    fn missed(all: &[(Sampled, Option<Ended>)]) -> Missed {
        let mut missed = Missed::default();
        let rounds = ms((0..=100).step_by(10));
        all.iter().for_each(|(sampled, ended)| missed.add(&rounds, sampled, ended.as_ref()));
        missed
    }

    #[test]
    fn dense_samples_hide_nothing() {
        let dense = || sampled((10..=60).step_by(10), 5);
        assert!(missed(&[(dense(), None), (sampled([], 0), None)]).leaves(0.0, false));
    }

    #[test]
    fn sparse_samples_hide_any_amount_unless_a_peak_is_known() {
        assert!(!missed(&[(sampled([50], 2), None)]).leaves(1e12, true));
        let known = missed(&[(sampled([50], 2), Some(ended(100, 2)))]);
        assert!(known.leaves(100.0 * MIB, true) && !known.leaves(99.0 * MIB, true));
        assert!(!known.leaves(100.0 * MIB, false), "a peak of resident memory bounds nothing else");
        let unsampled = missed(&[(sampled([50], 2), Some(ended(100, 2))), (sampled([], 0), Some(ended(100, 3)))]);
        assert!(unsampled.leaves(250.0 * MIB, true) && !unsampled.leaves(249.0 * MIB, true), "peaks are added");
    }

    /// A build whose many short-lived children are small has its memory; a shell whose child had all of it has not.
    #[test]
    fn short_children_matter_where_no_sample_shows_the_largest_process() {
        let tree = |most: u64| sampled((10..=100).step_by(10), most);
        assert!(missed(&[(tree(80), Some(ended(100, 100)))]).leaves(0.0, false));
        assert!(!missed(&[(tree(70), Some(ended(100, 100)))]).leaves(4999.0 * MIB, true));
        let of_the_launcher = Ended { reached: false, ..ended(100, 100) };
        assert!(missed(&[(tree(1), Some(of_the_launcher))]).leaves(0.0, false));
    }

    #[test]
    fn time_after_the_known_end_is_not_its_own() {
        let rounds = ms([0, 2, 4, 6, 8, 10, 100]);
        let dense = |end: Option<Ended>| {
            let mut missed = Missed::default();
            missed.add(&rounds, &sampled([2, 4, 6, 8, 10], 2), end.as_ref());
            missed.leaves(0.0, false)
        };
        assert!(!dense(None) && !dense(Some(ended(100, 2))) && dense(Some(ended(12, 2))));
    }
}
