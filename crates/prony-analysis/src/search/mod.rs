//! Searches: choose what to try next, given the results of the trials so far.
//!
//! State machines without a clock or a file: the caller asks for the next trial, runs it and passes its result. The
//! same results in the same order give the same questions, so that an interrupted search is resumed by passing its
//! recorded results again.

pub mod constraint;
pub mod grid;
pub mod grow;
mod race;
pub mod range;
pub(crate) mod trial_end;
pub mod tune;

pub use constraint::{Constraint, ConstraintError};
pub use grow::{Ask, End, Grow, Growth, Settings as GrowSettings, Tried};
pub use range::{Range, RangeError, Scale};
pub use trial_end::{TrialEnd, uncounted};
pub use tune::Tune;
