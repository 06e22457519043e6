//! Searches: what to try next, given what the trials so far did.
//!
//! State machines without a clock or a file: whoever runs trials asks for the next, runs it and tells how it went. The
//! same answers in the same order give the same questions, so that an interrupted search is taken up by telling it
//! again what is already known.

pub mod constraint;
pub mod grid;
pub mod grow;
mod race;
pub mod range;
pub mod trial_end;
pub mod tune;

pub use constraint::{Constraint, ConstraintError};
pub use grow::{Ask, End, Grow, Growth, Settings as GrowSettings, Tried};
pub use range::{Range, RangeError, Scale};
pub use trial_end::TrialEnd;
pub use tune::Tune;
