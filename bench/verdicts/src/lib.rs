//! Measures how often verdicts are wrong, and how often right, in simulated campaigns (runs) on recorded noise.
//!
//! `cargo run --release -p prony-bench-verdicts` prints the tables of `docs/verdicts.md`; a number after it sets the
//! campaigns per cell. The tests run a reduced version. The campaigns themselves are `prony_stats::simulation`, which
//! `prony calibrate` runs on noise of the user's machine.

pub mod measure;
pub mod noise;
pub mod record;
pub mod rivals;
