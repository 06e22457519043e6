//! Builds a flame graph: each call is as wide as the time spent in it and in what it calls. Calls too small to be
//! visible are left out.

use std::collections::BTreeMap;

use super::select::Selection;
use prony_model::units::Nanos;

/// Deeper calls are left out of the graph.
const DEEPEST: usize = 250;

/// A flame graph; a caller comes before its calls.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Flame {
    /// The calls.
    pub nodes: Vec<FlameNode>,
    /// Calls that are left out for being small or deep; their time is in their callers.
    pub left_out: usize,
}

/// One call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlameNode {
    /// Index of its caller.
    pub parent: Option<usize>,
    /// What the node stands for.
    pub what: What,
    /// Time in this call and in all that it calls, whether shown or not.
    pub total: Nanos,
    /// Time in this call itself.
    pub own: Nanos,
}

/// What a node of a flame graph stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Everything in a thread, where there are several.
    Thread(usize),
    /// All calls of so many threads together, each of which is too small to be visible.
    Rest(usize),
    /// A call of a function.
    Function(usize),
}

/// A call while the graph is built.
#[derive(Clone, Copy, Default)]
struct Sum {
    own: u64,
    total: u64,
}

/// Own and total time of the sampled frames, by number. A thread has few of the profile's frames.
type Sums = BTreeMap<usize, Sum>;

impl Flame {
    /// The flame graph of a selection, without calls below a share (0 to 1) of its time. Threads below that share are
    /// merged into one root.
    pub fn of(selection: &Selection<'_>, smallest: f64) -> Self {
        let least = (selection.busy.as_nanos() as f64 * smallest) as u64;
        let threads: Vec<(usize, u64)> = selection.threads().into_iter().map(|t| (t, time_of(selection, t))).collect();
        let mut flame = Self::default();
        if let [(only, _)] = threads.as_slice() {
            flame.grow(selection, &sums(selection, &[*only]), None, least);
            return flame;
        }
        let (visible, small): (Vec<_>, Vec<_>) = threads.into_iter().partition(|(_, time)| *time > 0 && *time >= least);
        for (thread, time) in visible {
            flame.add(selection, What::Thread(thread), &[thread], (time, least));
        }
        let time = small.iter().map(|(_, time)| time).sum();
        let small: Vec<usize> = small.into_iter().map(|(thread, _)| thread).collect();
        match small.as_slice() {
            [] => {}
            [one] => flame.add(selection, What::Thread(*one), &small, (time, least)),
            all => flame.add(selection, What::Rest(all.len()), all, (time, least)),
        }
        flame
    }

    /// A root and the calls of its threads; `time` is theirs and the least that is shown.
    fn add(&mut self, selection: &Selection<'_>, what: What, threads: &[usize], (time, least): (u64, u64)) {
        let root = self.push(None, what, Sum { own: 0, total: time });
        self.grow(selection, &sums(selection, threads), Some(root), least);
    }

    fn push(&mut self, parent: Option<usize>, what: What, sum: Sum) -> usize {
        let (own, total) = (Nanos::from_nanos(sum.own), Nanos::from_nanos(sum.total));
        self.nodes.push(FlameNode { parent, what, total, own });
        self.nodes.len() - 1
    }

    /// Parents come before children among the frames, so that one pass finds each call's position.
    fn grow(&mut self, selection: &Selection<'_>, sums: &Sums, root: Option<usize>, least: u64) {
        let frames = &selection.profile.frames;
        let mut placed: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
        for (at, sum) in sums.iter().filter(|(_, sum)| sum.total > 0) {
            let above = match frames[*at].parent {
                None => Some((root, 0)),
                Some(parent) => placed.get(&parent).map(|(node, depth)| (Some(*node), depth + 1)),
            };
            match above.filter(|(_, depth)| sum.total >= least && *depth < DEEPEST) {
                None => self.left_out += 1,
                Some((parent, depth)) => {
                    placed.insert(*at, (self.push(parent, What::Function(frames[*at].function), *sum), depth));
                }
            }
        }
    }
}

fn time_of(selection: &Selection<'_>, thread: usize) -> u64 {
    selection.own_of(thread).map(|(_, time)| time).sum()
}

/// Own and total time of each frame in these threads together.
fn sums(selection: &Selection<'_>, threads: &[usize]) -> Sums {
    let mut sums = Sums::new();
    for (innermost, time) in threads.iter().flat_map(|thread| selection.own_of(*thread)) {
        for (depth, frame) in selection.profile.outwards(innermost).enumerate() {
            let sum = sums.entry(frame).or_default();
            sum.total += time;
            sum.own += if depth == 0 { time } else { 0 };
        }
    }
    sums
}
