//! Latency recorder over HdrHistogram.
//!
//! Failed operations have no latency and count as +infinity in percentiles (METHOD 1.4). Where a percentile falls
//! among them it is missing, with that as its reason: no finite number would be true, and JSON knows no infinity.

use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};

use crate::metric::Metric;
use crate::reading::{Reading, Why};
use crate::record::{HistogramRecord, LatencyKind};
use crate::units::Nanos;

/// The shortest latency told apart, in nanoseconds.
const SHORTEST: u64 = 1;
/// The longest latency told apart: one hour, in nanoseconds.
const LONGEST: u64 = 3_600_000_000_000;
/// Significant decimal digits.
const DIGITS: u8 = 3;

/// Why a histogram cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum LatencyError {
    /// It cannot be encoded.
    #[error("the latency histogram of `{operation}` cannot be encoded")]
    Encode {
        /// The operation.
        operation: String,
        /// What HdrHistogram says.
        source: hdrhistogram::serialization::V2SerializeError,
    },
    /// It cannot be decoded.
    #[error("the latency histogram of `{operation}` cannot be decoded")]
    Decode {
        /// The operation.
        operation: String,
        /// What HdrHistogram says.
        source: hdrhistogram::serialization::DeserializeError,
    },
    /// It was recorded with other bounds.
    #[error("the latency histogram of `{operation}` does not fit 1 ns to 1 h at 3 digits")]
    Bounds {
        /// The operation.
        operation: String,
        /// What HdrHistogram says.
        source: hdrhistogram::AdditionError,
    },
}

/// Records latencies of one kind of operation: nanoseconds, 3 significant digits, 1 ns to 1 h, about 270 kB.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorder {
    histogram: Histogram<u64>,
    failed: u64,
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new()
    }
}

impl Recorder {
    /// Empty.
    pub fn new() -> Self {
        let histogram = Histogram::new_with_bounds(SHORTEST, LONGEST, DIGITS);
        Self { histogram: histogram.expect("the bounds are constants that HdrHistogram takes"), failed: 0 }
    }

    /// Records the latency of an operation that succeeded; above one hour it counts as one hour.
    #[inline]
    pub fn record(&mut self, latency: Nanos) {
        self.histogram.saturating_record(latency.as_nanos().clamp(SHORTEST, LONGEST));
    }

    /// Counts an operation that failed.
    #[inline]
    pub fn record_failed(&mut self) {
        self.failed += 1;
    }

    /// Adds what another recorder holds.
    pub fn merge(&mut self, other: &Self) {
        // Bounds are equal, so that adding cannot fail.
        let added = self.histogram.add(&other.histogram);
        debug_assert!(added.is_ok(), "all recorders have the same bounds");
        self.failed += other.failed;
    }

    /// Operations that succeeded.
    pub fn succeeded(&self) -> u64 {
        self.histogram.len()
    }

    /// Operations that failed.
    pub fn failed(&self) -> u64 {
        self.failed
    }

    /// Operations that took an hour or longer (within a thousandth), of which nothing more is known.
    pub fn saturated(&self) -> u64 {
        self.histogram.count_at(LONGEST)
    }

    /// For the record.
    ///
    /// # Errors
    /// [`LatencyError::Encode`], which only a count beyond what V2 holds can bring about.
    pub fn to_record(&self, operation: &str, kind: LatencyKind) -> Result<HistogramRecord, LatencyError> {
        let mut v2 = Vec::new();
        V2Serializer::new()
            .serialize(&self.histogram, &mut v2)
            .map_err(|source| LatencyError::Encode { operation: operation.to_owned(), source })?;
        Ok(HistogramRecord { operation: operation.to_owned(), kind, v2, failed: self.failed })
    }

    /// From the record.
    ///
    /// # Errors
    /// [`LatencyError::Decode`] where the bytes are no histogram, [`LatencyError::Bounds`] where it was recorded with
    /// other bounds and holds what these cannot.
    pub fn from_record(record: &HistogramRecord) -> Result<Self, LatencyError> {
        let operation = || record.operation.clone();
        let read: Histogram<u64> = Deserializer::new()
            .deserialize(&mut record.v2.as_slice())
            .map_err(|source| LatencyError::Decode { operation: operation(), source })?;
        let mut recorder = Self { failed: record.failed, ..Self::new() };
        recorder.histogram.add(&read).map_err(|source| LatencyError::Bounds { operation: operation(), source })?;
        Ok(recorder)
    }

    /// The percentiles and the largest latency, as a trial's metrics; nanoseconds.
    pub fn metrics(&self) -> [(Metric, Reading<f64>); 6] {
        [
            (Metric::LatencyP50, percentile(self, 0.5)),
            (Metric::LatencyP90, percentile(self, 0.9)),
            (Metric::LatencyP95, percentile(self, 0.95)),
            (Metric::LatencyP99, percentile(self, 0.99)),
            (Metric::LatencyP999, percentile(self, 0.999)),
            (Metric::LatencyMax, self.at_rank(self.succeeded() + self.failed)),
        ]
    }

    /// The latency at a rank from 1, failures last.
    fn at_rank(&self, rank: u64) -> Reading<f64> {
        let ok = self.succeeded();
        if ok + self.failed == 0 {
            return Reading::Missing(Why::TooFew { have: 0, need: 1 });
        }
        if rank > ok {
            let text = format!("infinite: {} of {} operations failed", self.failed, ok + self.failed);
            return Reading::Missing(Why::Failed(text));
        }
        if rank > ok - self.saturated() {
            return Reading::Missing(Why::Failed(format!("above one hour: {} operations were", self.saturated())));
        }
        Reading::Measured(self.histogram.value_at_quantile(rank as f64 / ok as f64) as f64)
    }
}

/// The latency in nanoseconds that a share `q` (0 to 1) of the operations did not exceed, failures counting as
/// infinite.
///
/// Missing where there are fewer than `10 / (1 - q)` operations, and where it falls among the failures or above the
/// hour at which the recorder saturates.
pub fn percentile(recorder: &Recorder, q: f64) -> Reading<f64> {
    let have = recorder.succeeded() + recorder.failed();
    // Less a little, since 1 - 0.99 is not quite a hundredth.
    let need = (10.0 / (1.0 - q) - 1e-6).ceil() as u64;
    if have < need {
        return Reading::Missing(Why::TooFew { have, need });
    }
    recorder.at_rank(((q * have as f64 - 1e-6).ceil() as u64).clamp(1, have))
}
