//! When operations become durable without a request.

use std::time::Duration;

use prony_model::random::{GOLDEN, mix, unit};

use crate::log::Log;
use crate::settings::Settings;

/// The oldest operation becomes durable at a limit of pending data, or at an age.
#[derive(Debug)]
pub(crate) struct Writeback {
    mean: Option<Duration>,
    seed: u64,
    limit: u64,
}

impl Writeback {
    pub(crate) fn new(settings: &Settings) -> Self {
        let mean = settings.writeback.map(|mean| mean.to_duration());
        Self { mean, seed: settings.seed, limit: settings.pending.as_bytes() }
    }

    /// Whether the oldest operation is due: by the limit (`true`), or by its age.
    pub(crate) fn due(&self, log: &Log) -> Option<bool> {
        let (seq, oldest) = log.first()?;
        if log.whole() > self.limit {
            return Some(true);
        }
        let age = self.mean?.mul_f64(2.0 * unit(mix(self.seed ^ seq.wrapping_mul(GOLDEN))));
        (oldest.at.elapsed() >= age).then_some(false)
    }
}
