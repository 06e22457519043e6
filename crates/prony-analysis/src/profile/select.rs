//! Selects the samples of a span of time and sums them by function and by package.

use std::collections::BTreeMap;
use std::ops::Range;

use super::model::{Profile, Sample};
use prony_model::units::Nanos;

/// From an instant up to, but not including, another: a phase.
pub type Span = Range<Nanos>;

/// Some samples of a profile.
#[derive(Clone, Debug)]
pub struct Selection<'p> {
    /// Where they are from.
    pub profile: &'p Profile,
    /// How many samples were taken of threads that did not wait.
    pub samples: u64,
    /// The time for which these samples stand, of all threads together.
    pub busy: Nanos,
    /// The time in which threads waited, of all threads together; it is not counted for any function.
    pub idle: Nanos,
    /// The samples, including those of waiting threads.
    chosen: Vec<Sample>,
    /// Time by thread and innermost frame.
    own: BTreeMap<(usize, usize), u64>,
}

/// The times of a function or a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Index into [`Profile::functions`] or [`Profile::packages`].
    pub of: usize,
    /// The time in which it ran itself.
    pub own: Nanos,
    /// The time in which it was anywhere on the stack; each sample counts once, even if the function called itself.
    pub total: Nanos,
}

/// The times of a selection, the greatest own time first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// By function.
    pub functions: Vec<Share>,
    /// By package.
    pub packages: Vec<Share>,
}

impl Profile {
    /// The samples within a span; all of them without one.
    pub fn during(&self, span: Option<&Span>) -> Selection<'_> {
        self.select(|sample| span.is_none_or(|span| span.contains(&sample.at)))
    }

    /// The samples of which `counts` is true.
    pub fn select(&self, counts: impl Fn(&Sample) -> bool) -> Selection<'_> {
        let chosen: Vec<Sample> = self.samples.iter().filter(|sample| counts(sample)).copied().collect();
        let mut selection =
            Selection { profile: self, samples: 0, busy: Nanos::ZERO, idle: Nanos::ZERO, chosen, own: BTreeMap::new() };
        for sample in &selection.chosen {
            if self.function_of(sample.frame).idle {
                selection.idle += sample.time;
                continue;
            }
            selection.samples += 1;
            selection.busy += sample.time;
            *selection.own.entry((sample.thread, sample.frame)).or_default() += sample.time.as_nanos();
        }
        selection
    }
}

impl Selection<'_> {
    /// The samples in the order of time, including those of waiting threads.
    pub fn chosen(&self) -> &[Sample] {
        &self.chosen
    }

    /// The threads that did not only wait.
    pub fn threads(&self) -> Vec<usize> {
        let mut threads: Vec<usize> = self.own.keys().map(|(thread, _)| *thread).collect();
        threads.dedup();
        threads
    }

    /// Own time of each innermost frame of a thread, in nanoseconds.
    pub(crate) fn own_of(&self, thread: usize) -> impl Iterator<Item = (usize, u64)> {
        self.own.range((thread, 0)..=(thread, usize::MAX)).map(|((_, frame), time)| (*frame, *time))
    }

    /// In how many samples each function of the profile ran itself.
    pub fn ran(&self) -> Vec<u64> {
        let mut ran = vec![0; self.profile.functions.len()];
        for sample in &self.chosen {
            let function = self.profile.frames[sample.frame].function;
            ran[function] += u64::from(!self.profile.functions[function].idle);
        }
        ran
    }

    /// The time of each function and package.
    pub fn times(&self) -> Times {
        let mut functions = Tally::new(self.profile.functions.len());
        let mut packages = Tally::new(self.profile.packages.len());
        for (turn, ((_, innermost), time)) in self.own.iter().enumerate() {
            for (depth, frame) in self.profile.outwards(*innermost).enumerate() {
                let function = self.profile.frames[frame].function;
                functions.count(function, turn, *time, depth == 0);
                packages.count(self.profile.functions[function].package, turn, *time, depth == 0);
            }
        }
        Times { functions: functions.shares(), packages: packages.shares() }
    }
}

/// Own and total time by number; a number that stands on one stack several times counts once.
struct Tally {
    own: Vec<u64>,
    total: Vec<u64>,
    /// The stack in which each number was counted last, from 1.
    last: Vec<usize>,
}

impl Tally {
    fn new(numbers: usize) -> Self {
        Self { own: vec![0; numbers], total: vec![0; numbers], last: vec![0; numbers] }
    }

    fn count(&mut self, number: usize, turn: usize, time: u64, innermost: bool) {
        if innermost {
            self.own[number] += time;
        }
        if self.last[number] != turn + 1 {
            self.last[number] = turn + 1;
            self.total[number] += time;
        }
    }

    fn shares(&self) -> Vec<Share> {
        let times = self.own.iter().zip(&self.total).enumerate();
        let sampled = times.filter(|(of, _)| self.last[*of] > 0);
        let mut shares: Vec<Share> = sampled
            .map(|(of, (own, total))| Share { of, own: Nanos::from_nanos(*own), total: Nanos::from_nanos(*total) })
            .collect();
        shares.sort_by_key(|share| (std::cmp::Reverse((share.own, share.total)), share.of));
        shares
    }
}
