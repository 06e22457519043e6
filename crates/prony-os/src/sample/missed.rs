//! What samples of processes that ended in a phase may have missed. Pure.
//!
//! A process that lives at the phase's end is read there. One that has ended is judged by its own samples, since those of
//! another process say nothing of it: what it had between two of them that lie far apart may have been any amount, up to
//! what the kernel tells of it when it is reaped.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};

use prony_model::units::{Bytes, Nanos};

/// Why what ended in the phase has no memory.
pub(super) const SPARSE: &str =
    "it ended in the phase, and more than a quarter of its time lies between two samples (see `hertz`)";

/// The longest time between two samples of a process that had ended when the phase did may be this part of the time for
/// which it lived: the first instants have little memory.
const LONGEST_GAP: u64 = 4;

/// A figure is still measured where no more than this part of it was missed.
const LITTLE: f64 = 0.02;

/// What is known of a role's processes beside their samples, once all of them have ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// When the last of them had, by the clock of the samples.
    pub at: Nanos,
    /// No process of them ever had more resident memory, by the kernel's count.
    pub peak: Bytes,
}

/// By role; a role that is not in it may have had any amount of memory, and may have ended at any time.
pub type Ends = BTreeMap<String, Ended>;

/// How much memory samples may have missed.
#[derive(Debug, Default)]
pub(super) struct Missed {
    /// Of processes that were sampled sparsely, by the round before which or after which they lived.
    at_once: BTreeMap<Nanos, u64>,
    /// Of processes that were never sampled.
    ever: u64,
    /// Nothing bounds it.
    any: bool,
}

impl Missed {
    /// Adds a process that had ended when the phase did and was sampled at its `own` of all `rounds`; the phase's begin and
    /// end are among these.
    pub(super) fn add(&mut self, rounds: &BTreeSet<Nanos>, own: &BTreeSet<Nanos>, ended: Option<&Ended>) {
        let lived = lived(rounds, own, ended.map(|ended| ended.at));
        let gaps = || lived.iter().map(|(from, to)| to.since(*from).as_nanos());
        if gaps().max().is_none_or(|longest| longest.saturating_mul(LONGEST_GAP) <= gaps().sum()) {
            return;
        }
        let Some(ended) = ended else { return self.any = true };
        lived.iter().for_each(|(from, _)| *self.at_once.entry(*from).or_default() += ended.peak.as_bytes());
    }

    /// Adds a role none of whose processes was ever sampled.
    pub(super) fn add_unsampled(&mut self, ended: &Ended) {
        self.ever += ended.peak.as_bytes();
    }

    /// Whether a figure from samples stands; only resident memory is bounded.
    pub(super) fn leaves(&self, figure: f64, resident: bool) -> bool {
        let most = self.ever + self.at_once.values().max().copied().unwrap_or(0);
        !self.any && (most == 0 || (resident && most as f64 <= LITTLE * figure))
    }
}

/// The times between rounds in which a process lived, for as much as is known: between two rounds that did not find it, it
/// did not.
fn lived(rounds: &BTreeSet<Nanos>, own: &BTreeSet<Nanos>, ended: Option<Nanos>) -> Vec<(Nanos, Nanos)> {
    let (Some(first), Some(last)) = (own.first(), own.last()) else { return Vec::new() };
    let before = rounds.range(..first).next_back();
    let after = rounds.range((Excluded(last), Unbounded)).next();
    let after = after.map(|after| ended.map_or(*after, |ended| ended.clamp(*last, *after)));
    let all: Vec<Nanos> = before.into_iter().chain(rounds.range(first..=last)).copied().chain(after).collect();
    let lived = all.windows(2).filter(|pair| pair.iter().any(|at| own.contains(at)));
    lived.map(|pair| (pair[0], pair[1])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(all: impl IntoIterator<Item = u64>) -> BTreeSet<Nanos> {
        all.into_iter().map(Nanos::from_millis).collect()
    }

    fn ended(at: u64, mib: u64) -> Ended {
        Ended { at: Nanos::from_millis(at), peak: Bytes::from_mib(mib) }
    }

    const MIB: f64 = 1_048_576.0;

    fn missed(all: &[(BTreeSet<Nanos>, Option<Ended>)]) -> Missed {
        let mut missed = Missed::default();
        let rounds = ms((0..=100).step_by(10));
        all.iter().for_each(|(own, ended)| missed.add(&rounds, own, ended.as_ref()));
        missed
    }

    #[test]
    fn densely_sampled_processes_hide_nothing() {
        assert!(missed(&[(ms((10..=60).step_by(10)), None), (ms([]), None)]).leaves(0.0, false));
    }

    #[test]
    fn a_sparse_process_hides_any_amount_unless_its_peak_is_known() {
        let sparse = ms([50]);
        assert!(!missed(&[(sparse.clone(), None)]).leaves(1e12, true));
        let known = missed(&[(sparse, Some(ended(100, 2)))]);
        assert!(known.leaves(100.0 * MIB, true) && !known.leaves(99.0 * MIB, true));
        assert!(!known.leaves(100.0 * MIB, false), "a peak of resident memory bounds nothing else");
    }

    #[test]
    fn peaks_of_processes_that_may_have_lived_together_are_added() {
        let child = |at: u64| (ms([at]), Some(ended(100, 2)));
        let one_after_another: Vec<_> = (1..10).step_by(3).map(|n| child(10 * n)).collect();
        assert!(missed(&one_after_another).leaves(100.0 * MIB, true));
        let together = missed(&[child(30), child(30), child(40)]);
        assert!(together.leaves(300.0 * MIB, true) && !together.leaves(299.0 * MIB, true));
        let mut unsampled = missed(&[child(30)]);
        unsampled.add_unsampled(&ended(100, 3));
        assert!(unsampled.leaves(250.0 * MIB, true) && !unsampled.leaves(249.0 * MIB, true));
    }

    #[test]
    fn time_after_the_known_end_is_not_its_own() {
        let rounds = ms([0, 2, 4, 6, 8, 10, 100]);
        let dense = |end: Option<Ended>| {
            let mut missed = Missed::default();
            missed.add(&rounds, &ms([2, 4, 6, 8, 10]), end.as_ref());
            missed.leaves(0.0, false)
        };
        assert!(!dense(None) && !dense(Some(ended(100, 2))) && dense(Some(ended(12, 2))));
    }
}
