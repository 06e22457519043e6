//! CPU profiles: reads the files of V8 and `perf` into one model, and summarises it.
//!
//! A profile consists of samples. A sample says which stack of calls one thread had at an instant, and stands for the
//! time until the next sample (V8) or for one period of the CPU clock before it (`perf`). Everything else (time by
//! function and by package, folded stacks, the flame graph, speedscope's file) is computed from the samples. Instants
//! are `CLOCK_MONOTONIC`, as everywhere, so that samples belong to phases by time.

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

/// A profiler's file that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is not a valid profile: {0}")]
pub struct Damaged(pub String);

#[cfg(test)]
mod tests;
