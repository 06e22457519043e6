//! Restates the verdicts of `[design] leave_one_out`, where the baseline has all changes: each becomes the effect of
//! the change that the variant leaves out. Nothing is computed here.

use prony_experiment::design::{ALL, Experiment, NONE, WITHOUT};
use prony_model::metric::{Better, Metric};
use prony_model::reading::Reading;
use prony_model::units::Unit;
use prony_stats::Verdict;

use super::{Line, Verdicts, names};

/// A change that was left out, compared with all changes together.
#[derive(Clone, Debug)]
pub struct LeftOut<'a> {
    /// The factor whose levels are changes.
    pub factor: &'a str,
    /// The change; `None` where all of them are left out.
    pub change: Option<&'a str>,
    /// The other factors that vary, with their levels.
    pub at: Vec<(&'a str, &'a str)>,
    /// The place of its verdict among all.
    pub place: usize,
    /// The verdict: what remains, compared with all changes.
    pub line: &'a Line,
}

/// One for each verdict on a variant that differs from its baseline, all changes, by what is left out and nothing else.
pub fn of<'a>(experiment: &'a Experiment, verdicts: &'a Verdicts) -> Vec<LeftOut<'a>> {
    let Some(left_out) = experiment.leave_one_out() else { return Vec::new() };
    let factors = experiment.factors();
    let level = |factor: usize, variant: usize| experiment.variants()[variant].levels[factor];
    let label = |factor: usize, variant: usize| factors[factor].levels[level(factor, variant)].label.as_str();
    let other_factors: Vec<usize> =
        names::varying(experiment).into_iter().filter(|factor| *factor != left_out).collect();
    let one = |(place, line): (usize, &'a Line)| {
        let (variant, baseline) = (line.pair.variant, line.pair.baseline);
        let change = match label(left_out, variant) {
            NONE => None,
            label => Some(label.strip_prefix(WITHOUT)?),
        };
        let alike = other_factors.iter().all(|factor| level(*factor, variant) == level(*factor, baseline));
        let at = other_factors.iter().map(|factor| (factors[*factor].name.as_str(), label(*factor, variant))).collect();
        let factor = factors[left_out].name.as_str();
        (label(left_out, baseline) == ALL && alike).then_some(LeftOut { factor, change, at, place, line })
    };
    verdicts.lines.iter().enumerate().filter_map(one).collect()
}

impl LeftOut<'_> {
    /// Why there is no ratio, where there is none.
    pub fn missing(&self) -> Option<String> {
        match &self.line.comparison.ratio {
            Reading::Measured(_) => None,
            Reading::Missing(why) => Some(why.to_string()),
        }
    }

    /// The effect of the change: the verdict on the variant without it, inverted.
    pub fn effect(&self) -> String {
        // For a metric without a better side, a verdict calls less the better one.
        let neither = self.line.pair.metric.key.metric.better() == Better::Neither;
        let (missed, not_missed) = if neither { ("lowers the value", "raises the value") } else { ("helps", "hurts") };
        let unsure = |word: &str| format!("{word}, by how much is uncertain");
        match &self.line.comparison.verdict {
            Verdict::Worse => missed.to_owned(),
            Verdict::WorseUncertain => unsure(missed),
            Verdict::Better => not_missed.to_owned(),
            Verdict::BetterUncertain => unsure(not_missed),
            Verdict::DiffersWithinMargin => "hardly matters".to_owned(),
            Verdict::NoDifference => "makes no difference".to_owned(),
            Verdict::FinishesLessOften => "lets more trials finish".to_owned(),
            Verdict::FinishesMoreOften => "lets fewer trials finish".to_owned(),
            Verdict::DoesNotFinish => "is needed to finish".to_owned(),
            Verdict::BaselineDoesNotFinish => "prevents trials from finishing".to_owned(),
            Verdict::CantTell { .. } | Verdict::NeitherFinishes => "can't tell".to_owned(),
            Verdict::Refused { .. } => "not compared".to_owned(),
        }
    }
}

/// What a ratio of the metric says: `times as long`.
pub const fn times(metric: Metric) -> &'static str {
    match metric.unit() {
        Unit::Nanos => "times as long",
        Unit::PerSecond => "times as fast",
        Unit::Count => "times as many",
        Unit::Bytes | Unit::Ratio => "times as much",
    }
}
