//! Statistics of METHOD 4: estimates, intervals, tests, corrections, interim analyses, growth.
//!
//! Everything is a pure function of numbers. `docs/verdicts.md` explains each verdict, what was measured about its
//! error rates, and which methods were rejected.

pub mod binomial;
pub mod compare;
pub mod contrast;
pub mod drift;
pub mod growth;
pub mod interim;
pub mod knee;
pub mod observe;
pub mod p_values;
pub mod power;
pub mod rank_sum;
pub mod sign;
pub mod simulation;
mod slopes;
pub mod special;
pub mod summary;
pub mod time_budget;
pub mod verdict;

pub use binomial::binomial_interval;
pub use compare::{Comparison, Family, compare_family, more_blocks_until, settled};
pub use contrast::{Block, Contrast, Estimate, Estimated};
pub use drift::{Drift, autocorrelation, drift};
pub use growth::{Growth, growth};
pub use interim::{CLOSING, InterimAnalyses, MIN_BLOCKS, blocks_before_any_verdict};
pub use observe::{Counts, Observation};
pub use power::smallest_effect;
pub use rank_sum::rank_sum_p;
pub use summary::{Summary, median_interval, summary};
pub use verdict::{RatioInterval, Verdict};
