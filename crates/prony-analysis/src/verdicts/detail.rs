//! What a verdict rests on: blocks, the minimum detectable effect, the A/A check, the blocks without a disturbed trial.

use std::fmt;

use prony_model::number::{are, count, effect_bound};
use prony_model::reading::{Reading, Why};
use prony_stats::{Comparison, Estimate, MIN_BLOCKS, RatioInterval, Verdict};

use super::sentence::{Form, ratio_text, small};
use super::{Line, Pair, Undisturbed};

/// The basis of a verdict, as one line below it.
///
/// ```text
/// 12 blocks; minimum detectable effect: 4.1 % (a forecast: of further runs with as many blocks, 4 of 5 would find a true
/// difference of this size); A/A check, the baseline against itself: ratio 1.010 (95 % interval: 0.970 to 1.05), which
/// includes 1, as it should
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Detail {
    /// How many blocks; empty in a detail that is not shown.
    blocks: String,
    /// The minimum detectable effect.
    detectable: Option<Detectable>,
    /// The A/A check.
    aa: Option<String>,
    /// The blocks without a disturbed trial.
    undisturbed: Option<Without>,
    /// Remarks of the comparison.
    notes: Vec<String>,
}

/// The interval of an A/A check is corrected for no other comparison.
const BY_CHANCE: &str = ", although nothing differs: 1 of 20 checks does so by chance; if that of a new run does too, something \
                         disturbs the trials, and small differences may come from that";

/// What the details above one on a screen have explained.
#[derive(Clone, Debug, Default)]
pub struct Explained {
    detectable: bool,
    disturbed: bool,
    uncorrected: bool,
    /// The A/A check above.
    aa: Option<String>,
}

impl Detail {
    pub(super) fn of(pair: &Pair, comparison: &Comparison, undisturbed: Option<&Undisturbed>) -> Self {
        // A verdict on how trials ended rests on no ratio.
        let is_of_values = !matches!(comparison.verdict, Verdict::DoesNotFinish | Verdict::FinishesLessOften);
        let aa = comparison.aa.measured().filter(|_| is_of_values).map(|aa| {
            let expected = match shown_interval(aa, comparison.complete).map(includes_one) {
                None => "",
                Some(true) => ", as it should",
                Some(false) => BY_CHANCE,
            };
            format!(
                "A/A check, the baseline against itself: {}{expected}",
                with_one(aa, comparison.complete, LEVEL, None)
            )
        });
        Self {
            blocks: count(comparison.blocks, "block"),
            detectable: detectable(comparison),
            aa,
            undisturbed: undisturbed.map(|undisturbed| of_undisturbed(undisturbed, Form::of(pair, comparison))),
            notes: comparison.notes.clone(),
        }
    }

    /// Whether nothing is shown.
    pub const fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Shows nothing of it.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Leaves the minimum detectable effect out.
    pub fn omit_detectable(&mut self) {
        self.detectable = None;
    }

    /// Leaves out what was explained before.
    pub fn explain_once(&mut self, explained: &mut Explained) {
        if let Some(detectable) = &mut self.detectable {
            once(&mut detectable.explanation, &mut explained.detectable);
        }
        if self.aa.is_some() && self.aa == explained.aa {
            self.aa = Some("A/A check: as above".to_owned());
        } else if self.aa.is_some() {
            explained.aa.clone_from(&self.aa);
        }
        if let Some(without) = &mut self.undisturbed {
            once(&mut without.disturbed, &mut explained.disturbed);
            once(&mut without.uncorrected, &mut explained.uncorrected);
        }
    }
}

/// Clears an explanation that was given before.
fn once(explanation: &mut &'static str, given: &mut bool) {
    if *given {
        *explanation = "";
    }
    *given |= !explanation.is_empty();
}

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let detectable = self.detectable.as_ref().map(ToString::to_string);
        let undisturbed = self.undisturbed.as_ref().map(ToString::to_string);
        let parts: Vec<&str> = [self.blocks.as_str()]
            .into_iter()
            .chain(detectable.as_deref())
            .chain(self.aa.as_deref())
            .chain(undisturbed.as_deref())
            .chain(self.notes.iter().map(String::as_str))
            .collect();
        f.write_str(&parts.join("; "))
    }
}

/// The minimum detectable effect in words.
#[derive(Clone, Debug, PartialEq)]
pub struct Detectable {
    effect: String,
    explanation: &'static str,
    remark: &'static str,
}

impl fmt::Display for Detectable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { effect, explanation, remark } = self;
        write!(f, "minimum detectable effect: {effect}{explanation}{remark}")
    }
}

/// Beside an interval of -22 to +7 %, an effect of 58 % was taken for a contradiction.
const EXPLANATION: &str = " (a forecast: of further runs with as many blocks, 4 of 5 would find a true difference of this \
                           size; the interval above says what this run found)";

/// What a claimed difference below the minimum detectable effect means: readers take the two for a contradiction.
const SMALLER: &str = "; the difference found is smaller than that: the verdict counts all the same, but fewer than 4 of 5 \
                       such runs would find such a difference";

/// The minimum detectable effect of a comparison; `None` where the verdict is on trials that did not succeed, or that the two are not
/// compared, and says so.
pub fn detectable(comparison: &Comparison) -> Option<Detectable> {
    if matches!(comparison.verdict, Verdict::Refused { .. }) {
        return None;
    }
    let missing = |effect| Detectable { effect, explanation: "", remark: "" };
    Some(match &comparison.smallest_effect {
        Reading::Measured(0.0) => missing("none, since all ratios are equal".to_owned()),
        Reading::Measured(share) => {
            let found = comparison.ratio.measured().filter(|_| comparison.verdict.is_difference());
            let smaller = found.is_some_and(|ratio| ratio.ln().abs() < share.ln_1p());
            // A verdict that says `40 % less` stands beside `33 % less`, not `50 %`.
            let less = found.filter(|ratio| **ratio < 1.0).and_then(|_| small(comparison)).is_some();
            let effect =
                if less { format!("{} less", effect_bound(share / (1.0 + share))) } else { effect_bound(*share) };
            Detectable { effect, explanation: EXPLANATION, remark: if smaller { SMALLER } else { "" } }
        }
        Reading::Missing(Why::TooFew { have, need }) => {
            missing(format!("unknown, since {} {} too few (it needs {need})", count(*have, "block"), are(*have)))
        }
        Reading::Missing(Why::NotReached) => return None,
        Reading::Missing(why) => missing(format!("unknown ({why})")),
    })
}

fn includes_one(RatioInterval { low, high }: RatioInterval) -> bool {
    low <= 1.0 && high.is_none_or(|high| high >= 1.0)
}

/// The interval of a check that rests on so many blocks, as it is shown. Of fewer blocks than a verdict needs none is: one that
/// excludes 1 would be taken for a verdict. `None` also where it has no bound.
pub fn shown_interval(found: &Estimate, blocks: u32) -> Option<RatioInterval> {
    let says_nothing = found.interval.low <= 0.0 && found.interval.high.is_none();
    (blocks >= MIN_BLOCKS && !says_nothing).then_some(found.interval)
}

const LEVEL: &str = "95 % interval: ";

/// `ratio 0.984 (95 % interval: 0.957 to 1.001), which includes 1`.
///
/// In the `form` of a claim: `2.20 times faster (95 % interval: 1.91 to 2.43), which excludes 1`.
fn with_one(found: &Estimate, blocks: u32, level: &str, form: Option<Form>) -> String {
    let in_form =
        |interval, level| form.and_then(|form| Some((form.text(found.ratio, interval, level)?, form.equal())));
    let text =
        |interval, level| in_form(interval, level).unwrap_or_else(|| (ratio_text(found.ratio, interval, level), "1"));
    let without = |why: &str| format!("{}, without an interval: {why}", text(None, "").0);
    if blocks < MIN_BLOCKS {
        return without(&format!("{} {} too few, a verdict needs {MIN_BLOCKS}", count(blocks, "block"), are(blocks)));
    }
    let Some(interval) = shown_interval(found, blocks) else {
        return without("the blocks are too few, or a trial did not finish in too many");
    };
    let (text, equal) = text(Some(interval), level);
    format!("{text}, which {} {equal}", if includes_one(interval) { "includes" } else { "excludes" })
}

/// A comparison without its disturbed trials in words.
#[derive(Clone, Debug, PartialEq)]
pub struct Without {
    blocks: String,
    /// What a disturbed trial is.
    disturbed: &'static str,
    ratio: String,
    /// What the interval of the ratio is.
    uncorrected: &'static str,
}

impl fmt::Display for Without {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { blocks, disturbed, ratio, uncorrected } = self;
        write!(f, "{blocks}{disturbed}{ratio}{uncorrected}")
    }
}

/// The result of a line without its disturbed trials, if there were any, in the form of its claim.
pub fn without(line: &Line) -> Option<Without> {
    line.undisturbed.as_ref().map(|undisturbed| of_undisturbed(undisturbed, Form::of(&line.pair, &line.comparison)))
}

const DISTURBED: &str = " (other work, heat or lack of memory slowed the machine meanwhile)";

/// A reader took the interval of fewer blocks that is narrower than that of the verdict for an error.
const NARROWER: &str = " (a check and no verdict: its interval is corrected for no other comparison, and may be narrower than a verdict's)";

/// `3 of 12 blocks have a disturbed trial; without them: ratio 1.82 (95 % interval, uncorrected: 1.61 to 2.02), which
/// excludes 1`
fn of_undisturbed(undisturbed: &Undisturbed, form: Option<Form>) -> Without {
    let Undisturbed { blocks: left, of, estimate } = undisturbed;
    let disturbed = of.saturating_sub(*left);
    let have = if disturbed == 1 { "has" } else { "have" };
    let some = format!("{disturbed} of {} {have} a disturbed trial", count(*of, "block"));
    let (blocks, ratio, uncorrected) = match estimate {
        _ if *left == 0 => ("each block has a disturbed trial".to_owned(), String::new(), ""),
        Reading::Measured(found) => {
            let ratio = format!("; without them: {}", with_one(found, *left, "95 % interval, uncorrected: ", form));
            let uncorrected = if ratio.contains("uncorrected") { NARROWER } else { "" };
            (some, ratio, uncorrected)
        }
        Reading::Missing(Why::NotReached) => {
            let why = format!("; no ratio without them: in at least half of the other {left}, a trial did not finish");
            (some, why, "")
        }
        Reading::Missing(Why::TooFew { .. }) => {
            (some, format!("; {left} without one {} too few for a ratio", are(*left)), "")
        }
        Reading::Missing(why) => (some, format!("; no ratio without them ({why})"), ""),
    };
    Without { blocks, disturbed: DISTURBED, ratio, uncorrected }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdicts::Names;

    /// Whether the baseline differs from itself is not tested: an interval around 1 may be a wide one.
    #[test]
    fn a_check_of_the_baseline_says_only_whether_its_interval_includes_one() {
        let found = |low, high| Estimate { ratio: 1.019, interval: RatioInterval { low, high } };
        let text = |low, high| with_one(&found(low, high), 6, LEVEL, None);
        assert_eq!(text(0.213, Some(1.25)), "ratio 1.019 (95 % interval: 0.213 to 1.25), which includes 1");
        assert!(text(1.0003, Some(1.02)).ends_with(": 1.0003 to 1.020), which excludes 1"));
        assert!(text(0.9998, Some(1.69)).ends_with(": 0.9998 to 1.69), which includes 1"), "both had 1.000");
        assert!(text(1.4, Some(1.6)).ends_with("which excludes 1") && text(1.4, None).ends_with("which excludes 1"));
        let unbounded =
            "ratio 1.019, without an interval: the blocks are too few, or a trial did not finish in too many";
        assert_eq!(text(0.0, None), unbounded);
        assert!(text(0.0, Some(0.9)).ends_with("which excludes 1") && text(0.9, None).ends_with("which includes 1"));
        // `excludes 1` of 4 blocks appeared on a screen that said that a verdict needs 6.
        let few = with_one(&found(1.4, Some(1.6)), 4, LEVEL, None);
        assert_eq!(few, "ratio 1.019, without an interval: 4 blocks are too few, a verdict needs 6");
    }

    #[test]
    fn blocks_with_a_disturbed_trial_are_counted_and_explained_once() {
        let text = |blocks, estimate| of_undisturbed(&Undisturbed { blocks, of: 8, estimate }, None);
        let few = || Reading::Missing(Why::TooFew { have: 1, need: 2 });
        assert_eq!(text(0, few()).to_string(), format!("each block has a disturbed trial{DISTURBED}"));
        assert_eq!(
            text(2, few()).to_string(),
            format!("6 of 8 blocks have a disturbed trial{DISTURBED}; 2 without one are too few for a ratio")
        );
        let found = Estimate { ratio: 1.5, interval: RatioInterval { low: 1.4, high: Some(1.6) } };
        let without = text(7, Reading::Measured(found));
        let detail = || Detail { undisturbed: Some(without.clone()), ..Detail::default() };
        let (mut first, mut second, mut explained) = (detail(), detail(), Explained::default());
        first.explain_once(&mut explained);
        second.explain_once(&mut explained);
        let (some, ratio) = (
            "; 1 of 8 blocks has a disturbed trial",
            "; without them: ratio 1.50 (95 % interval, uncorrected: 1.40 to 1.60), which excludes 1",
        );
        assert_eq!(first.to_string(), format!("{some}{DISTURBED}{ratio}{NARROWER}"));
        assert_eq!(second.to_string(), format!("{some}{ratio}"));
    }

    fn pair() -> Pair {
        let names = || Names { variant: "redb".into(), baseline: "lmdb".into(), at: String::new() };
        Pair { metric: "write.time".parse().unwrap(), variant: 1, baseline: 0, names: names() }
    }

    /// `is 2.17 times faster` was beside `without them: ratio 0.454`.
    #[test]
    fn estimate_without_disturbed_trials_has_the_form_of_the_claim() {
        let undisturbed = |ratio, low, high| {
            let estimate = Reading::Measured(Estimate { ratio, interval: RatioInterval { low, high: Some(high) } });
            Undisturbed { blocks: 7, of: 8, estimate }
        };
        let of = |ratios: [f64; 6], less: bool, undisturbed| {
            Detail::of(&pair(), &found(ratios, less), Some(&undisturbed)).to_string()
        };
        let faster = of([2.1, 2.2, 2.3, 2.0, 2.2, 2.1], true, undisturbed(0.454, 0.4, 0.5));
        assert!(
            faster.contains(
                "without them: 2.20 times faster (95 % interval, uncorrected: 2.00 to 2.50), which excludes 1"
            ),
            "{faster}"
        );
        let more = of([1.2, 1.21, 1.2, 1.19, 1.2, 1.2], false, undisturbed(0.98, 0.9, 1.1));
        assert!(
            more.contains("without them: 2.0 % less time (95 % interval, uncorrected: -10 to 10 %), which includes 0"),
            "{more}"
        );
        let undirected = of([1.0; 6], false, undisturbed(0.98, 0.9, 1.1));
        assert!(undirected.contains("without them: ratio 0.980 (95 %"), "{undirected}");
    }

    fn found(ratios: [f64; 6], less: bool) -> Comparison {
        use prony_model::metric::Better;
        use prony_stats::{Block, Contrast, Family, InterimAnalyses, Observation, compare_family};
        let blocks = ratios.map(|ratio| {
            let ratio = if less { 1.0 / ratio } else { ratio };
            Block::pair(Observation::Value(100.0 * ratio), &[Observation::Value(100.0); 2])
        });
        let analyses = InterimAnalyses::new(6, 6);
        let member = Contrast { analyses, ..Contrast::described(Better::Lower, blocks.to_vec()) };
        compare_family(&Family { alpha: 0.05, margin: 0.03, members: vec![member] }).remove(0)
    }

    /// `takes 25 % more time` beside `minimum detectable effect: 85 %` was taken for a contradiction.
    #[test]
    fn a_difference_below_the_minimum_detectable_effect_is_said_to_count() {
        let of = |ratios: [f64; 6], less: bool| {
            let comparison = found(ratios, less);
            assert!(comparison.verdict.is_difference(), "{comparison:?}");
            (detectable(&comparison).unwrap().to_string(), *comparison.smallest_effect.measured().unwrap())
        };
        let spread = [1.1, 1.2, 1.6, 1.9, 1.3, 1.15];
        let (more, effect) = of(spread, false);
        assert!(more.contains(&effect_bound(effect)) && more.ends_with(SMALLER), "{more}");
        let (less, effect) = of(spread, true);
        assert!(less.contains(&format!(": {} less (", effect_bound(effect / (1.0 + effect)))), "{less}");
        assert!(!of([1.5, 1.51, 1.5, 1.49, 1.5, 1.51], false).0.contains(SMALLER), "a difference above it");
    }

    #[test]
    fn a_check_that_excludes_one_says_what_follows() {
        let aa = Estimate { ratio: 0.806, interval: RatioInterval { low: 0.613, high: Some(0.985) } };
        let comparison = Comparison { aa: Reading::Measured(aa), ..found([1.5, 1.51, 1.5, 1.49, 1.5, 1.51], false) };
        let text = Detail::of(&pair(), &comparison, None).to_string();
        assert!(
            text.contains("which excludes 1, although nothing differs: 1 of 20 checks does so by chance; "),
            "{text}"
        );
    }

    #[test]
    fn equal_values_have_no_minimum_detectable_effect() {
        let text = Detail::of(&pair(), &found([1.0; 6], false), None).to_string();
        assert!(text.starts_with("6 blocks; minimum detectable effect: none, since all ratios are equal"), "{text}");
    }
}
