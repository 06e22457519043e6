//! Records latencies in an HdrHistogram.
//!
//! Failed operations have no latency and count as +infinity in percentiles (METHOD 1.4). A percentile that falls among
//! failed operations is missing, with that as its reason: no finite number would be correct, and JSON has no infinity.

use hdrhistogram::Histogram;
use hdrhistogram::serialization::{DeserializeError, Deserializer, Serializer, V2Serializer};

use crate::metric::Metric;
use crate::number::count;
use crate::reading::{Reading, Why};
use crate::record::{HistogramRecord, LatencyKind};
use crate::units::Nanos;

/// The shortest latency distinguished, in nanoseconds.
const SHORTEST: u64 = 1;
/// The longest latency distinguished: one hour, in nanoseconds.
const LONGEST: u64 = 3_600_000_000_000;
/// Significant decimal digits.
const DIGITS: u8 = 3;

/// Bytes before the counts in V2: cookie, length of the counts, offset, digits, lowest, highest, ratio.
const HEADER: usize = 40;
/// How V2 writes `i64::MIN`, which as a count is a run of `2^63` zeros.
const LONGEST_RUN: [u8; 9] = [0xff; 9];

/// The name of the end of a shared transaction in histograms: it has latencies but is none of a phase's operations.
pub const COMMIT: &str = "commit";

/// Operations that one recorder takes: a day at three thousand million a second. HdrHistogram adds counts without a check for
/// overflow, and so many of them merged stay far below it.
const MOST: u64 = 1 << 48;

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
        source: DeserializeError,
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

    /// Records `count` operations of this latency; beyond 2^48 in all they are left out.
    pub fn record_many(&mut self, latency: Nanos, count: u64) {
        let count = count.min(MOST.saturating_sub(self.succeeded()));
        self.histogram.saturating_record_n(latency.as_nanos().clamp(SHORTEST, LONGEST), count);
    }

    /// Counts an operation that failed.
    #[inline]
    pub fn record_failed(&mut self) {
        self.record_many_failed(1);
    }

    /// Counts `count` operations that failed.
    pub fn record_many_failed(&mut self, count: u64) {
        self.failed = self.failed.saturating_add(count);
    }

    /// Adds the operations of another recorder.
    pub fn merge(&mut self, other: &Self) {
        // Bounds are equal, so that adding cannot fail.
        let added = self.histogram.add(&other.histogram);
        debug_assert!(added.is_ok(), "all recorders have the same bounds");
        self.record_many_failed(other.failed);
    }

    /// Operations that succeeded.
    pub fn succeeded(&self) -> u64 {
        self.histogram.len()
    }

    /// Operations that failed.
    pub fn failed(&self) -> u64 {
        self.failed
    }

    /// Operations, whether they succeeded or failed.
    fn all(&self) -> u64 {
        self.succeeded().saturating_add(self.failed)
    }

    /// Operations that took an hour or longer (within a thousandth), of which nothing more is known.
    pub fn saturated(&self) -> u64 {
        self.histogram.count_at(LONGEST)
    }

    /// Encodes it for the record.
    ///
    /// # Errors
    /// [`LatencyError::Encode`], which only a count beyond V2's range can cause.
    pub fn to_record(&self, operation: &str, kind: LatencyKind) -> Result<HistogramRecord, LatencyError> {
        let mut v2 = Vec::new();
        V2Serializer::new()
            .serialize(&self.histogram, &mut v2)
            .map_err(|source| LatencyError::Encode { operation: operation.to_owned(), source })?;
        Ok(HistogramRecord { operation: operation.to_owned(), kind, v2, failed: self.failed })
    }

    /// Decodes it from the record.
    ///
    /// # Errors
    /// [`LatencyError::Decode`] where the bytes are not a histogram, [`LatencyError::Bounds`] where it was recorded
    /// with other bounds and has values outside these bounds.
    pub fn from_record(record: &HistogramRecord) -> Result<Self, LatencyError> {
        let operation = || record.operation.clone();
        let read: Histogram<u64> =
            decode(&record.v2).map_err(|source| LatencyError::Decode { operation: operation(), source })?;
        let mut recorder = Self { failed: record.failed, ..Self::new() };
        recorder.histogram.add(&read).map_err(|source| LatencyError::Bounds { operation: operation(), source })?;
        Ok(recorder)
    }

    /// These percentiles, and the largest latency for metrics that are none, as a trial's metrics; nanoseconds.
    pub fn metrics<const N: usize>(&self, metrics: [Metric; N]) -> [(Metric, Reading<f64>); N] {
        let largest = || self.at_rank(self.all());
        metrics.map(|metric| (metric, metric.percentile().map_or_else(largest, |q| percentile(self, q))))
    }

    /// The latency at a rank from 1, failures last.
    fn at_rank(&self, rank: u64) -> Reading<f64> {
        let ok = self.succeeded();
        if self.all() == 0 {
            return Reading::Missing(Why::TooFew { have: 0, need: 1 });
        }
        if rank > ok {
            return Reading::Missing(Why::Infinite { failed: self.failed, of: self.all() });
        }
        if rank > ok - self.saturated() {
            return Reading::Missing(Why::Failed(
                format!("{} took one hour or longer, the most that is recorded", count(self.saturated(), "operation"))
                    .into(),
            ));
        }
        // Half a rank less, so that rounding of the quotient cannot reach the next.
        let quantile = (rank as f64 - 0.5) / ok as f64;
        Reading::Measured(self.histogram.value_at_quantile(quantile) as f64)
    }
}

/// Decodes V2. HdrHistogram allocates as many bytes as the header claims, up to 4 GiB, before it reads them, negates a run of
/// zeros without a check, and adds counts without one: what would overflow is refused here.
fn decode(v2: &[u8]) -> Result<Histogram<u64>, DeserializeError> {
    let Some((header, payload)) = v2.split_at_checked(HEADER) else { return Err(DeserializeError::InvalidParameters) };
    let claimed = u32::from_be_bytes([header[4], header[5], header[6], header[7]]) as usize;
    if claimed > payload.len() || payload.windows(LONGEST_RUN.len()).any(|bytes| bytes == LONGEST_RUN) {
        return Err(DeserializeError::InvalidParameters);
    }
    let read: Histogram<u64> = Deserializer::new().deserialize(&mut &*v2)?;
    if read.len() > MOST { Err(DeserializeError::InvalidParameters) } else { Ok(read) }
}

/// The number of operations that percentile `q` (0 to 1) needs.
fn needed(q: f64) -> u64 {
    // A little less, since 1 - 0.99 is not exactly a hundredth.
    (10.0 / (1.0 - q) - 1e-6).ceil() as u64
}

/// The number of operations without which a percentile is missing; `None` for other metrics.
pub fn samples_needed(metric: Metric) -> Option<u64> {
    metric.percentile().map(needed)
}

/// The highest percentile up to the 99th for which so many operations suffice; the median where they do for none.
pub fn highest(operations: f64) -> Metric {
    let known = [Metric::LatencyP99, Metric::LatencyP95, Metric::LatencyP90];
    let enough = |metric: &Metric| samples_needed(*metric).is_some_and(|needed| needed as f64 <= operations);
    known.into_iter().find(enough).unwrap_or(Metric::LatencyP50)
}

/// The latency in nanoseconds that a share `q` (0 to 1) of the operations did not exceed, failures counting as
/// infinite.
///
/// Missing where there are fewer than `10 / (1 - q)` operations, and where it falls among the failures or above the
/// hour at which the recorder saturates.
pub fn percentile(recorder: &Recorder, q: f64) -> Reading<f64> {
    let (have, need) = (recorder.all(), needed(q));
    if have < need {
        return Reading::Missing(Why::TooFew { have, need });
    }
    recorder.at_rank(((q * have as f64 - 1e-6).ceil() as u64).clamp(1, have))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn recorder(latencies: impl IntoIterator<Item = u64>) -> Recorder {
        let mut recorder = Recorder::new();
        latencies.into_iter().for_each(|n| recorder.record(Nanos::from_nanos(n)));
        recorder
    }

    fn near(reading: Reading<f64>, should: f64) {
        let is = *reading.measured().unwrap_or_else(|| panic!("{reading:?}, not {should}"));
        assert!((is / should - 1.0).abs() <= 0.001, "{is}, not {should}");
    }

    #[test]
    fn counts_whose_sum_overflows_are_refused() {
        let mut histogram = Histogram::<u64>::new_with_bounds(SHORTEST, LONGEST, DIGITS).unwrap();
        [10, 20].into_iter().for_each(|value| histogram.record_n(value, i64::MAX as u64).unwrap());
        let mut v2 = Vec::new();
        V2Serializer::new().serialize(&histogram, &mut v2).unwrap();
        let record = HistogramRecord { operation: "put".into(), kind: LatencyKind::Service, v2, failed: 0 };
        assert!(matches!(Recorder::from_record(&record), Err(LatencyError::Decode { .. })));
        let mut many = Recorder::new();
        (0..3).for_each(|_| many.record_many(Nanos::from_nanos(10), u64::MAX));
        assert_eq!(many.succeeded(), MOST);
        near(percentile(&many, 0.5), 10.0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn percentiles_are_those_of_the_sorted_latencies(
            mut latencies in prop::collection::vec(1u64..10_000_000_000, 1_000..1_500),
            failed in 0u64..200,
        ) {
            let mut recorder = recorder(latencies.iter().copied());
            (0..failed).for_each(|_| recorder.record_failed());
            latencies.sort_unstable();
            for (q, per_mille) in [(0.5, 500), (0.9, 900), (0.95, 950), (0.99, 990)] {
                let rank = ((latencies.len() as u64 + failed) * per_mille).div_ceil(1_000) as usize;
                match latencies.get(rank - 1) {
                    Some(should) => near(percentile(&recorder, q), *should as f64),
                    None => {
                        let infinite = matches!(percentile(&recorder, q), Reading::Missing(Why::Infinite { .. }));
                        prop_assert!(infinite);
                    }
                }
            }
        }

        #[test]
        fn records_keep_everything(
            latencies in prop::collection::vec(0u64..=u64::MAX, 0..200), failed in 0u64..5,
        ) {
            let mut recorder = recorder(latencies);
            (0..failed).for_each(|_| recorder.record_failed());
            let record = recorder.to_record("read", LatencyKind::Service).unwrap();
            prop_assert_eq!(record.failed, failed);
            prop_assert_eq!(Recorder::from_record(&record).unwrap(), recorder);
        }

        #[test]
        fn merging_is_recording_into_one(
            a in prop::collection::vec(1u64..u64::MAX, 0..100), b in prop::collection::vec(1u64..u64::MAX, 0..100),
        ) {
            let mut merged = recorder(a.iter().copied());
            let mut other = recorder(b.iter().copied());
            other.record_failed();
            merged.merge(&other);
            let mut one = recorder(a.into_iter().chain(b));
            one.record_failed();
            prop_assert_eq!(merged, one);
        }
    }

    #[test]
    fn many_at_once_are_many_one_by_one() {
        let mut at_once = Recorder::new();
        at_once.record_many(Nanos::from_nanos(500), 3);
        at_once.record_many_failed(2);
        let mut single = recorder([500, 500, 500]);
        (0..2).for_each(|_| single.record_failed());
        assert_eq!(at_once, single);
    }

    #[test]
    fn percentiles_need_ten_beyond_them() {
        let few = |n: u64, q| percentile(&recorder(1..=n), q);
        for (q, need) in [(0.5, 20), (0.9, 100), (0.95, 200), (0.99, 1_000), (0.999, 10_000)] {
            assert_eq!(few(need - 1, q), Reading::Missing(Why::TooFew { have: need - 1, need }));
            near(few(need, q), (need as f64 * q).round());
        }
    }

    #[test]
    fn failures_are_slower_than_everything() {
        let mut recorder = recorder((1..=995).map(|n| n * 1_000));
        (0..5).for_each(|_| recorder.record_failed());
        near(percentile(&recorder, 0.99), 990_000.0);
        let [.., (_, max)] = recorder.metrics(Metric::LATENCY);
        assert_eq!(max, Reading::Missing(Why::Infinite { failed: 5, of: 1000 }));
        (0..6).for_each(|_| recorder.record_failed());
        assert_eq!(percentile(&recorder, 0.99), Reading::Missing(Why::Infinite { failed: 11, of: 1006 }));
    }

    #[test]
    fn beyond_an_hour_is_counted_not_stated() {
        let recorder = recorder((1..=95).map(|n| n * 1_000).chain([u64::MAX; 5]));
        assert_eq!((recorder.succeeded(), recorder.saturated()), (100, 5));
        near(percentile(&recorder, 0.9), 90_000.0);
        let [.., (_, max)] = recorder.metrics(Metric::LATENCY);
        assert!(matches!(max, Reading::Missing(Why::Failed(text)) if text.contains("one hour or longer")));
    }

    #[test]
    fn an_empty_recorder_states_nothing() {
        for (metric, reading) in Recorder::new().metrics(Metric::LATENCY) {
            assert!(matches!(reading, Reading::Missing(Why::TooFew { have: 0, .. })), "{metric:?}");
        }
    }

    #[test]
    fn broken_bytes_are_an_error_with_its_noun() {
        let mut record = recorder([1]).to_record("scan", LatencyKind::Actual).unwrap();
        record.v2.truncate(10);
        let error = Recorder::from_record(&record).unwrap_err();
        assert_eq!(error.to_string(), "the latency histogram of `scan` cannot be decoded");
        assert!(std::error::Error::source(&error).is_some());
    }

    #[test]
    fn header_that_claims_more_bytes_than_follow_is_refused() {
        let mut record = recorder([1]).to_record("scan", LatencyKind::Actual).unwrap();
        record.v2[4..8].copy_from_slice(&u32::MAX.to_be_bytes());
        assert!(matches!(Recorder::from_record(&record), Err(LatencyError::Decode { .. })), "4 GiB are not allocated");
    }

    #[test]
    fn run_of_zeros_beyond_any_histogram_is_refused() {
        let mut record = recorder([1]).to_record("scan", LatencyKind::Actual).unwrap();
        record.v2.truncate(HEADER);
        record.v2.extend(LONGEST_RUN);
        record.v2[4..8].copy_from_slice(&(LONGEST_RUN.len() as u32).to_be_bytes());
        assert!(matches!(Recorder::from_record(&record), Err(LatencyError::Decode { .. })));
    }

    #[test]
    fn counts_beyond_64_bits_stay_at_the_most() {
        let mut recorder = recorder([1]);
        recorder.record_many_failed(u64::MAX);
        recorder.record_failed();
        assert_eq!(recorder.failed(), u64::MAX);
        assert!(matches!(recorder.metrics(Metric::LATENCY)[0].1, Reading::Missing(Why::Infinite { .. })));
    }
}
