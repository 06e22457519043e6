//! The verdict of a comparison, and its words (METHOD 4.6).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use prony_model::metric::{Better, Metric};
use prony_model::number::percent;
use prony_model::reading::Reading;
use prony_model::units::Unit;

/// An interval for the ratio variant / baseline.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RatioInterval {
    /// Lower end; 0 where there is no bound.
    pub low: f64,
    /// Upper end; `None` where there is no bound.
    pub high: Option<f64>,
}

impl RatioInterval {
    /// From an interval of the logarithm of cost; turned round where more is better.
    pub(crate) fn from_log_cost((low, high): (f64, f64), better: Better) -> Self {
        let (low, high) = if better == Better::Higher { (-high, -low) } else { (low, high) };
        let (low, high) = (low.exp(), high.exp());
        Self { low: if low < 1.0 / NO_BOUND { 0.0 } else { low }, high: (high <= NO_BOUND).then_some(high) }
    }

    /// As [`Self::from_log_cost`]; `None` where the interval contains no number.
    pub(crate) fn with_numbers(interval: (f64, f64), better: Better) -> Option<Self> {
        Some(Self::from_log_cost(interval, better)).filter(|found| found.low.is_finite() && found.high != Some(0.0))
    }

    /// The interval of baseline / variant.
    pub fn inverse(self) -> Self {
        Self { low: self.high.map_or(0.0, |high| 1.0 / high), high: (self.low > 0.0).then(|| 1.0 / self.low) }
    }
}

/// A bound beyond this factor counts as none: with few blocks the widened interval reaches absurd numbers.
const NO_BOUND: f64 = 1e6;

/// The verdict of a comparison. "Better" is less of a cost (time, memory) and more of a rate; for metrics that are
/// neither, it is less.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "verdict")]
pub enum Verdict {
    /// The interval lies beyond the margin, on the better side.
    Better,
    /// The interval lies beyond the margin, on the worse side.
    Worse,
    /// The interval excludes 1 on the better side and crosses the margin.
    BetterUncertain,
    /// The interval excludes 1 on the worse side and crosses the margin.
    WorseUncertain,
    /// The interval excludes 1 and lies inside the margin.
    DiffersWithinMargin,
    /// The interval contains 1 and lies inside the margin, and the comparison could have detected a difference as large
    /// as the margin.
    NoDifference,
    /// None of the other verdicts can be stated yet.
    CantTell {
        /// About how many more blocks would decide, if they came out like those of the run; a run that is done does not go
        /// on, so that this is part of a forecast of a new one.
        more_blocks: Reading<u32>,
    },
    /// The variant finishes more often than the baseline: what differs is how many trials finish, not the metric of
    /// those that do.
    FinishesMoreOften,
    /// The variant finishes less often than the baseline: likewise.
    FinishesLessOften,
    /// The variant never finishes and the baseline always does.
    DoesNotFinish,
    /// The variant always finishes and the baseline never does.
    BaselineDoesNotFinish,
    /// Neither ever finishes.
    NeitherFinishes,
    /// The comparison is refused.
    Refused {
        /// Why the comparison is refused.
        why: String,
        /// Whether the reason is a statistical one, which may not stand after more blocks; no report has it.
        #[serde(skip)]
        so_far: bool,
    },
}

impl Verdict {
    /// Whether more blocks could not change it.
    pub const fn is_final(&self) -> bool {
        !matches!(
            self,
            Self::CantTell { .. }
                | Self::BetterUncertain
                | Self::WorseUncertain
                | Self::FinishesMoreOften
                | Self::FinishesLessOften
                | Self::Refused { so_far: true, .. }
        )
    }

    /// Whether it claims a difference.
    pub const fn is_difference(&self) -> bool {
        !matches!(self, Self::NoDifference | Self::CantTell { .. } | Self::Refused { .. } | Self::NeitherFinishes)
    }

    /// Whether it claims that the variant is worse, by however much.
    pub const fn is_worse(&self) -> bool {
        matches!(self, Self::Worse | Self::WorseUncertain | Self::FinishesLessOften | Self::DoesNotFinish)
    }

    /// Whether it claims that the variant is better, by however much.
    pub const fn is_better(&self) -> bool {
        matches!(self, Self::Better | Self::BetterUncertain | Self::FinishesMoreOften | Self::BaselineDoesNotFinish)
    }

    /// The verdict in the words of the report, for a metric and a margin such as 0.03.
    pub fn words(&self, metric: Metric, margin: f64) -> String {
        let (better, worse) = directions(metric);
        match self {
            Self::Better => better.to_owned(),
            Self::Worse => worse.to_owned(),
            Self::BetterUncertain => format!("{better}, by how much is uncertain"),
            Self::WorseUncertain => format!("{worse}, by how much is uncertain"),
            Self::DiffersWithinMargin => format!("differs by less than the margin of {}", percent(margin)),
            Self::NoDifference => "no difference".to_owned(),
            Self::CantTell { .. } => "can't tell".to_owned(),
            Self::FinishesMoreOften => "finishes more often".to_owned(),
            Self::FinishesLessOften => "finishes less often".to_owned(),
            Self::DoesNotFinish => "does not finish".to_owned(),
            Self::BaselineDoesNotFinish => "finishes where the baseline does not".to_owned(),
            Self::NeitherFinishes => "neither finishes".to_owned(),
            Self::Refused { why, .. } => format!("not compared: {why}"),
        }
    }
}

/// The words for the better and the worse direction of a metric.
pub const fn directions(metric: Metric) -> (&'static str, &'static str) {
    use Metric as M;
    match metric {
        _ if metric.is_cpu_time() => ("less CPU time", "more CPU time"),
        M::CpuWait | M::Gap | M::Lag => ("shorter", "longer"),
        M::Rss | M::Anon | M::File | M::Shared | M::Pss | M::Vsz | M::Swap => ("less memory", "more memory"),
        M::HeapUsed | M::HeapTotal | M::External | M::ArrayBuffers => ("less memory", "more memory"),
        _ => match metric.unit() {
            Unit::Nanos | Unit::PerSecond => ("faster", "slower"),
            Unit::Count => ("fewer", "more"),
            Unit::Bytes | Unit::Ratio => ("less", "more"),
        },
    }
}

/// The verdict by METHOD 4.6 from an interval of the log-ratio of cost. `None` where it cannot be said.
pub(crate) fn judge((low, high): (f64, f64), margin: f64) -> Option<Verdict> {
    let bound = margin.ln_1p();
    let is_inside = low >= -bound && high <= bound;
    Some(match (low, high) {
        _ if high < -bound => Verdict::Better,
        _ if low > bound => Verdict::Worse,
        _ if is_inside && (low > 0.0 || high < 0.0) => Verdict::DiffersWithinMargin,
        _ if is_inside => Verdict::NoDifference,
        _ if high < 0.0 => Verdict::BetterUncertain,
        _ if low > 0.0 => Verdict::WorseUncertain,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use prony_model::reading::Why;

    use super::*;

    fn judged(low: f64, high: f64) -> Option<Verdict> {
        judge((low.ln(), high.ln()), 0.03)
    }

    #[test]
    fn every_position_of_the_interval_has_its_verdict() {
        assert_eq!(judged(0.80, 0.90), Some(Verdict::Better));
        assert_eq!(judged(1.04, 1.50), Some(Verdict::Worse));
        assert_eq!(judged(0.80, 0.99), Some(Verdict::BetterUncertain));
        assert_eq!(judged(1.01, 1.20), Some(Verdict::WorseUncertain));
        assert_eq!(judged(1.01, 1.02), Some(Verdict::DiffersWithinMargin));
        assert_eq!(judged(0.98, 0.99), Some(Verdict::DiffersWithinMargin));
        assert_eq!(judged(0.98, 1.02), Some(Verdict::NoDifference));
        assert_eq!(judged(0.90, 1.02), None);
        assert_eq!(judged(0.0, 1.02), None);
    }

    #[test]
    fn words_follow_the_metric() {
        assert_eq!(Verdict::Better.words(Metric::Time, 0.03), "faster");
        assert_eq!(Verdict::Worse.words(Metric::Rate, 0.03), "slower");
        assert_eq!(Verdict::Worse.words(Metric::Anon, 0.03), "more memory");
        assert_eq!(Verdict::Better.words(Metric::Fsyncs, 0.03), "fewer");
        assert_eq!(Verdict::BetterUncertain.words(Metric::LatencyP99, 0.03), "faster, by how much is uncertain");
        assert_eq!(Verdict::DiffersWithinMargin.words(Metric::Time, 0.005), "differs by less than the margin of 0.5 %");
        let unsure = Verdict::CantTell { more_blocks: Reading::Measured(12) };
        assert_eq!(unsure.words(Metric::Time, 0.03), "can't tell", "what could decide it is said by the sentence");
        assert!(!unsure.is_final() && !unsure.is_difference());
    }

    #[test]
    fn every_verdict_has_its_words_and_its_side() {
        let all = [
            (Verdict::Better, "faster", 1),
            (Verdict::Worse, "slower", -1),
            (Verdict::BetterUncertain, "faster, by how much is uncertain", 1),
            (Verdict::WorseUncertain, "slower, by how much is uncertain", -1),
            (Verdict::DiffersWithinMargin, "differs by less than the margin of 3 %", 0),
            (Verdict::NoDifference, "no difference", 0),
            (Verdict::CantTell { more_blocks: Reading::Missing(Why::NotReached) }, "can't tell", 0),
            (Verdict::FinishesMoreOften, "finishes more often", 1),
            (Verdict::FinishesLessOften, "finishes less often", -1),
            (Verdict::DoesNotFinish, "does not finish", -1),
            (Verdict::BaselineDoesNotFinish, "finishes where the baseline does not", 1),
            (Verdict::NeitherFinishes, "neither finishes", 0),
            (Verdict::Refused { why: "answers differ".into(), so_far: false }, "not compared: answers differ", 0),
        ];
        for (verdict, words, side) in all {
            assert_eq!(verdict.words(Metric::Time, 0.03), words);
            assert_eq!(i32::from(verdict.is_better()) - i32::from(verdict.is_worse()), side, "{words}");
            assert!(side == 0 || verdict.is_difference(), "{words}");
        }
    }

    #[test]
    fn every_metric_has_two_different_directions() {
        for metric in Metric::ALL {
            let (better, worse) = directions(*metric);
            assert!(!better.is_empty() && better != worse, "{}", metric.name());
            let expected = if metric.better() == Better::Higher { "faster" } else { better };
            assert_eq!(better, expected, "{}", metric.name());
        }
    }

    #[test]
    fn a_rate_turns_the_interval_round() {
        let interval = RatioInterval::from_log_cost((0.0, 2f64.ln()), Better::Higher);
        assert!((interval.low - 0.5).abs() < 1e-12 && interval.high == Some(1.0));
        let open = RatioInterval::from_log_cost((f64::NEG_INFINITY, f64::INFINITY), Better::Lower);
        assert_eq!(open, RatioInterval { low: 0.0, high: None });
    }

    #[test]
    fn verdicts_survive_json() {
        let unsure = Verdict::CantTell { more_blocks: Reading::Measured(12) };
        let text = serde_json::to_string(&unsure).unwrap();
        assert_eq!(serde_json::from_str::<Verdict>(&text).unwrap(), unsure);
    }
}
