//! The flame graph: calls by the time spent below them, without those too small to be seen.

use super::select::Selection;
use crate::units::Nanos;

/// Calls deeper than this are left out of the picture.
const DEEPEST: usize = 250;

/// A flame graph; a caller stands before what it calls.
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
    /// What it is.
    pub what: What,
    /// Time in it and in all that it calls, shown or not.
    pub total: Nanos,
    /// Time in itself.
    pub own: Nanos,
}

/// What a node of a flame graph stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Everything in a thread, where there are several.
    Thread(usize),
    /// A call of a function.
    Function(usize),
}

/// A call as it is gathered.
#[derive(Clone, Copy, Default)]
struct Sum {
    own: u64,
    total: u64,
}

impl Flame {
    /// Of a selection, without calls below a share (0 to 1) of its time.
    pub fn of(selection: &Selection<'_>, smallest: f64) -> Self {
        let least = (selection.busy.as_nanos() as f64 * smallest) as u64;
        let mut flame = Self::default();
        let threads = selection.threads();
        for thread in &threads {
            let sums = sums(selection, *thread);
            let root = (threads.len() > 1).then(|| {
                let all = sums.iter().map(|sum| sum.own).sum();
                flame.push(None, What::Thread(*thread), Sum { own: 0, total: all })
            });
            flame.grow(selection, &sums, root, least);
        }
        flame
    }

    fn push(&mut self, parent: Option<usize>, what: What, sum: Sum) -> usize {
        let (own, total) = (Nanos::from_nanos(sum.own), Nanos::from_nanos(sum.total));
        self.nodes.push(FlameNode { parent, what, total, own });
        self.nodes.len() - 1
    }

    /// Parents stand before children among the frames, so one pass finds each call's place.
    fn grow(&mut self, selection: &Selection<'_>, sums: &[Sum], root: Option<usize>, least: u64) {
        let frames = &selection.profile.frames;
        let mut placed: Vec<Option<(usize, usize)>> = vec![None; frames.len()];
        for (at, sum) in sums.iter().enumerate().filter(|(_, sum)| sum.total > 0) {
            let above = match frames[at].parent {
                None => Some((root, 0)),
                Some(parent) => placed[parent].map(|(node, depth)| (Some(node), depth + 1)),
            };
            match above.filter(|(_, depth)| sum.total >= least && *depth < DEEPEST) {
                None => self.left_out += 1,
                Some((parent, depth)) => {
                    placed[at] = Some((self.push(parent, What::Function(frames[at].function), *sum), depth));
                }
            }
        }
    }
}

/// Own and total time of each frame in a thread.
fn sums(selection: &Selection<'_>, thread: usize) -> Vec<Sum> {
    let frames = &selection.profile.frames;
    let mut sums = vec![Sum::default(); frames.len()];
    for (frame, time) in selection.own_of(thread) {
        sums[frame] = Sum { own: time, total: time };
    }
    for at in (0..frames.len()).rev() {
        if let Some(parent) = frames[at].parent {
            sums[parent].total += sums[at].total;
        }
    }
    sums
}
