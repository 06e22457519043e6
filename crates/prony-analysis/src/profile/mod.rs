//! CPU profiles: the files of V8 and `perf` as one model, and summaries of it.
//!
//! A profile is made of samples: at an instant, one thread had one stack of calls, and the sample stands for the time
//! until the next one (V8) or for one period of the CPU's clock (`perf`). Everything else (time by function and by
//! package, folded stacks, the flame graph, speedscope's file) is a function of them. Instants are `CLOCK_MONOTONIC`,
//! as everywhere, so that samples belong to phases by time.

mod build;
mod export;
mod files;
mod flame;
mod model;
mod package;
mod perf;
mod select;
mod v8;

pub use build::Builder;
pub use export::{folded, speedscope};
pub use flame::{Flame, FlameNode, What};
pub use model::{Frame, Function, Profile, Sample, Thread};
pub use select::{Selection, Share, Span, Times};

/// A file that is not what a profiler writes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is no profile: {0}")]
pub struct Damaged(pub String);

#[cfg(test)]
mod tests;
