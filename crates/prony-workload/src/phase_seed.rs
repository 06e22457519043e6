//! Seeds of the phases of a trial.

use xxhash_rust::xxh3::xxh3_64;

/// The seed of a phase's orders and schedules, from the trial's and the phase's name, so that variants with further
/// phases still do the same operations in it.
pub fn phase_seed(seed: u64, phase: &str) -> u64 {
    seed ^ xxh3_64(phase.as_bytes())
}
