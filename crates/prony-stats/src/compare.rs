//! Compares the variants of one run: one family, one error rate, one verdict each.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::contrast::{Block, Contrast, Estimate, UNCORRECTED, figures, unless};
use super::interim::blocks_by_counts;
use super::law::Law;
use super::observe::{Counts, Observation};
use super::power::{more_blocks, smallest_effect};
use super::sign::{Bracket, SignTest, gap_needed};
use super::verdict::{RatioInterval, Verdict, judge};
use prony_model::number::{self, effect};
use prony_model::reading::{Reading, Why};

/// Below so many blocks not even "does not finish" is stated.
const MIN_OUTCOMES: u32 = 3;

/// Every comparison that may give a verdict in a run; its size is what the correction counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Family {
    /// The probability, over the whole family and all interim analyses, of at least one false verdict: 0.05.
    pub alpha: f64,
    /// Differences below this share do not matter: 0.03.
    pub margin: f64,
    /// The comparisons.
    pub members: Vec<Contrast>,
}

/// The statistics of a variant and its baseline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Complete blocks that the verdict rests on.
    pub blocks: u32,
    /// The median of the within-block ratios variant / baseline.
    pub ratio: Reading<f64>,
    /// Its interval; all intervals of the family and of all interim analyses hold together with probability `1 - alpha`.
    pub interval: Reading<RatioInterval>,
    /// Two-sided p-value of "the median ratio is 1" at the last interim analysis, uncorrected.
    pub p: Reading<f64>,
    /// Corrected for interim analyses and family (Holm); a difference is claimed where it is at most `alpha`.
    pub p_adjusted: Reading<f64>,
    /// The verdict.
    pub verdict: Verdict,
    /// The minimum detectable effect: the smallest that is found with probability 0.8, as a share.
    pub smallest_effect: Reading<f64>,
    /// The baseline's second label beside its first, at 95 % and uncorrected.
    pub aa: Reading<Estimate>,
    /// Trials of the variant.
    pub variant: Counts,
    /// Trials of the baseline, both labels.
    pub baseline: Counts,
    /// Test, interim analysis, level and correction, in words.
    pub method: String,
    /// Further remarks: blocks left out, interim analyses not reached.
    pub notes: Vec<String>,
}

impl Family {
    /// How many comparisons the correction counts: those whose plan has an interim analysis.
    pub fn size(&self) -> usize {
        self.members.iter().filter(|contrast| !contrast.analyses.at().is_empty()).count()
    }
}

/// Compares every member with its baseline.
///
/// The intervals have error `alpha * share / size` at each interim analysis and are intersected over the interim
/// analyses reached; the p-values are divided by its share, the least of them counts, and Holm's correction runs over
/// the family.
pub fn compare_family(family: &Family) -> Vec<Comparison> {
    let size = family.size().max(1);
    let mut laws = Laws::default();
    let evidence: Vec<Evidence> =
        family.members.iter().map(|contrast| Evidence::of(contrast, family.alpha / size as f64, &mut laws)).collect();
    let sequential: Vec<f64> = evidence.iter().map(|e| e.sequential_p).collect();
    let adjusted = holm(&sequential, size);
    let members = family.members.iter().zip(evidence).zip(adjusted);
    let concluded = members.map(|((contrast, evidence), p)| {
        let decided = evidence.contradicted(contrast, p <= family.alpha, family.alpha / size as f64, &mut laws);
        match decided {
            None => evidence.conclude(contrast, family, p),
            Some(decided) => {
                let notes = [evidence.notes(contrast), vec![evidence.contradiction(contrast, decided.at)]].concat();
                Comparison { notes, ..decided.conclude(contrast, family, p) }
            }
        }
    });
    concluded.collect()
}

/// Whether a run may stop here: more blocks could change no comparison.
pub fn settled(comparisons: &[Comparison]) -> bool {
    comparisons.iter().all(|c| c.verdict.is_final())
}

/// Holm's step-down correction (1979) over `size` tests, valid under any dependence; p-values of 1 beyond them belong
/// to comparisons that do not count.
pub(crate) fn holm(p: &[f64], size: usize) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut adjusted = vec![1.0; p.len()];
    let mut so_far = 0.0f64;
    for (rank, index) in order.into_iter().enumerate() {
        so_far = so_far.max(p[index] * size.saturating_sub(rank).max(1) as f64).min(1.0);
        adjusted[index] = so_far;
    }
    adjusted
}

/// The laws in use, by the number of blocks: each is computed once a family.
#[derive(Default)]
struct Laws(BTreeMap<u32, Law>);

impl Laws {
    fn test(&mut self, brackets: &[Bracket]) -> SignTest {
        let n = brackets.len() as u32;
        let law = self.0.entry(n).or_insert_with(|| Law::tabulated(n));
        SignTest::with_law(brackets, law.clone())
    }
}

/// The result of one contrast's data, before the correction over the family.
struct Evidence {
    brackets: Vec<Bracket>,
    /// Blocks at the last interim analysis reached; 0 where none is.
    at: u32,
    /// The error spent on this comparison at that interim analysis.
    spent: f64,
    /// Whether that was the closing analysis of a run with a time budget.
    closing: bool,
    test: SignTest,
    /// Intersected over the interim analyses reached.
    interval: (f64, f64),
    /// At the last interim analysis only.
    half_width: Option<f64>,
    sequential_p: f64,
    /// The side of the interim analysis that rejected most strongly: below 0 is better.
    side: f64,
    /// Blocks at that look.
    decided_at: u32,
    /// The interval of the blocks in which all trials finished, the others lying on neither side; where one did not.
    of_finished: Option<(f64, f64)>,
}

impl Evidence {
    /// `each` is the error for one comparison over all interim analyses.
    fn of(contrast: &Contrast, each: f64, laws: &mut Laws) -> Self {
        let whole = Self::of_brackets(contrast, contrast.brackets(), each, laws);
        if !contrast.blocks.iter().any(Block::has_unfinished) {
            return whole;
        }
        let finished = contrast.blocks.iter().filter_map(|block| block.bracket_of_finished(contrast.better)).collect();
        let finished = Self::of_brackets(contrast, finished, each, laws);
        Self { of_finished: Some(finished.interval), ..whole }
    }

    fn of_brackets(contrast: &Contrast, brackets: Vec<Bracket>, each: f64, laws: &mut Laws) -> Self {
        let mut whole = Self::of_interim(contrast, brackets, each, laws);
        whole.close(contrast, each);
        whole
    }

    /// Without the closing analysis.
    fn of_interim(contrast: &Contrast, brackets: Vec<Bracket>, each: f64, laws: &mut Laws) -> Self {
        let n = brackets.len() as u32;
        let first = contrast.analyses.at_or_after(n).map_or(each, |(_, share)| each * share);
        let test = laws.test(&brackets);
        let mut so_far = Self {
            interval: test.interval(first),
            test,
            brackets,
            at: 0,
            spent: first,
            closing: false,
            half_width: None,
            sequential_p: 1.0,
            side: 0.0,
            decided_at: 0,
            of_finished: None,
        };
        for (at, share) in contrast.analyses.reached(n) {
            let test = laws.test(&so_far.brackets[..at as usize]);
            so_far.analyse(contrast, test, share, each * share);
        }
        so_far
    }

    /// The evidence as it was at the interim analysis that decided the direction, where the last analysis estimates the other
    /// one: what was decided stays decided, and its figures are those that decided it.
    fn contradicted(&self, contrast: &Contrast, differs: bool, each: f64, laws: &mut Laws) -> Option<Self> {
        let other = self.test.estimate().is_some_and(|estimate| estimate * self.side < 0.0);
        let brackets = self.brackets.get(..self.decided_at as usize).filter(|_| differs && other)?;
        let decided = Self::of_interim(contrast, brackets.to_vec(), each, laws);
        Some(Self { of_finished: self.of_finished, ..decided })
    }

    /// What is to be said of that, where the verdict rests on so many blocks.
    fn contradiction(&self, contrast: &Contrast, decided_at: u32) -> String {
        let (ratio, _) = figures(&self.test, self.interval, contrast.better);
        let ratio = ratio.measured().map_or_else(|| "-".to_owned(), |value| number::ratio(*value));
        format!("decided at {decided_at} blocks; all {} blocks contradict it: their ratio is {ratio}", self.at)
    }

    /// The closing analysis, where it is due and there are blocks enough for it; how many are enough does not depend on
    /// their results.
    fn close(&mut self, contrast: &Contrast, each: f64) {
        let n = self.brackets.len() as u32;
        let able = |share: &f64| n >= super::MIN_BLOCKS.max(blocks_by_counts(each * share));
        if let Some(share) = contrast.analyses.closing().filter(able) {
            self.closing = true;
            self.analyse(contrast, SignTest::by_counts(&self.brackets), share, each * share);
        }
    }

    fn analyse(&mut self, contrast: &Contrast, test: SignTest, share: f64, spent: f64) {
        let now = test.interval(spent);
        let both = (now.0.max(self.interval.0), now.1.min(self.interval.1));
        // Interim analyses that contradict each other happen with the probability that was spent; the later one counts.
        self.interval = if self.at == 0 || both.0 > both.1 { now } else { both };
        let equal = contrast.equal(&test);
        let p = test.p(equal) / share;
        if p < self.sequential_p {
            let (above, below) = test.counts(equal);
            self.sequential_p = p;
            (self.side, self.decided_at) = (f64::from(above) - f64::from(below), test.blocks());
        }
        self.half_width = test.estimate().map(|e| (now.1 - e).max(e - now.0)).filter(|w| w.is_finite());
        (self.at, self.spent, self.test) = (test.blocks(), spent, test);
    }

    fn conclude(self, contrast: &Contrast, family: &Family, p_adjusted: f64) -> Comparison {
        let variant = Counts::of(contrast.blocks.iter().flat_map(Block::variant));
        let baseline = Counts::of(contrast.blocks.iter().flat_map(Block::baseline));
        let differs = p_adjusted <= family.alpha;
        let interval = self.cut_at_one(contrast.widened(self.interval), differs);
        let refused = refusal(contrast);
        let uncounted = refused.as_deref().map(|why| Why::DoesNotCount(why.into()));
        let verdict = refused
            .map(|why| Verdict::Refused { why })
            .or_else(|| by_outcomes(variant, baseline))
            .unwrap_or_else(|| self.verdict(contrast, interval, differs, family.margin));
        let (ratio, interval) = figures(&self.test, interval, contrast.better);
        let p = |p: f64| if self.at > 0 { Reading::Measured(p) } else { Reading::Missing(self.too_few(contrast)) };
        Comparison {
            blocks: self.test.blocks(),
            ratio: unless(&uncounted, ratio),
            interval: unless(&uncounted, interval),
            p: unless(&uncounted, p(self.test.p(contrast.equal(&self.test)))),
            p_adjusted: unless(&uncounted, p(p_adjusted)),
            verdict,
            smallest_effect: unless(&uncounted, self.smallest_effect(contrast)),
            aa: against_itself(contrast),
            variant,
            baseline,
            method: self.method(contrast, family),
            notes: self.notes(contrast),
        }
    }

    /// Holm may reject 1 where the interval, at its smaller error, still contains it: then the interval ends at 1.
    fn cut_at_one(&self, interval: (f64, f64), differs: bool) -> (f64, f64) {
        match interval {
            (low, high) if differs && self.side > 0.0 => (low.max(0.0), high),
            (low, high) if differs && self.side < 0.0 => (low, high.min(0.0)),
            whole => whole,
        }
    }

    fn smallest_effect(&self, contrast: &Contrast) -> Reading<f64> {
        match self.half_width {
            Some(width) => {
                let effect = smallest_effect(width, self.spent, self.at);
                Reading::Measured((effect.ln_1p() + contrast.resolution).exp_m1())
            }
            None if self.at > 0 => Reading::Missing(Why::NotReached),
            None => Reading::Missing(self.too_few(contrast)),
        }
    }

    fn verdict(&self, contrast: &Contrast, interval: (f64, f64), differs: bool, margin: f64) -> Verdict {
        if self.at == 0 {
            let first = contrast.analyses.at().first().copied().unwrap_or(super::MIN_BLOCKS);
            let more = first.saturating_sub(self.brackets.len() as u32).max(1);
            let more_blocks = match self.brackets.len() {
                // No block that ran has a result, and further blocks of this kind would have none either. A figure that
                // is not measured is no matter of chance.
                0 if contrast.blocks.len() as u32 >= first || contrast.is_unmeasured() => {
                    Reading::Missing(Why::NotReached)
                }
                _ => Reading::Measured(more),
            };
            return Verdict::CantTell { more_blocks };
        }
        let more = match (self.test.estimate(), self.half_width) {
            _ if contrast.resolution >= margin.ln_1p() => {
                Reading::Missing(Why::Failed(too_coarse(contrast.resolution).into()))
            }
            (Some(estimate), Some(width)) => more_blocks(estimate, width, self.at, margin),
            _ => Reading::Missing(Why::NotReached),
        };
        let blind = self.smallest_effect(contrast).measured().is_none_or(|effect| *effect > margin);
        match judge(interval, differs, margin, more.clone()) {
            Verdict::NoDifference if blind => Verdict::CantTell { more_blocks: more },
            verdict if verdict.is_difference() => self.by_finished(verdict),
            verdict => verdict,
        }
    }

    /// A difference that rests on trials that did not finish is one of how often they finish, and not of the metric.
    fn by_finished(&self, verdict: Verdict) -> Verdict {
        match self.of_finished {
            Some((low, _)) if self.side > 0.0 && low < 0.0 => Verdict::FinishesLessOften,
            Some((_, high)) if self.side < 0.0 && high > 0.0 => Verdict::FinishesMoreOften,
            _ => verdict,
        }
    }

    fn too_few(&self, contrast: &Contrast) -> Why {
        let need = contrast.analyses.at().first().copied().unwrap_or(super::MIN_BLOCKS);
        Why::TooFew { have: self.brackets.len() as u64, need: need.into() }
    }

    fn method(&self, contrast: &Contrast, family: &Family) -> String {
        let analyses = contrast.analyses.at();
        let analysis = match analyses.iter().position(|at| *at == self.at) {
            _ if self.closing => "the closing analysis of a time budget,".to_owned(),
            Some(number) if contrast.analyses.is_timed() => {
                format!("interim analysis {} before the time budget ends,", number + 1)
            }
            Some(number) => format!("interim analysis {} of {}", number + 1, analyses.len()),
            None => {
                let none = || "no interim analysis is planned".to_owned();
                let first = analyses.first().map_or_else(none, |at| format!("the first interim analysis is at {at}"));
                return format!("none: {} complete blocks, {first}", self.brackets.len());
            }
        };
        let twice = contrast.blocks.iter().all(|block| block.baseline_twice().is_some());
        let unimodal = gap_needed(self.at, self.spent) > 0.0;
        format!(
            "exact sign test against {}{}, {analysis} at {} blocks, interval at error {:.2e}, \
             Holm's correction over {} comparisons",
            if twice { "both baselines of the block" } else { "the baseline of the block" },
            if unimodal { ", for unimodal noise" } else { "" },
            self.at,
            self.spent,
            family.size(),
        )
    }

    fn notes(&self, contrast: &Contrast) -> Vec<String> {
        let mut notes = Vec::new();
        let (all, paired) = (contrast.blocks.len(), self.brackets.len());
        if paired < all {
            notes.push(format!(
                "{} of {all} blocks are not paired: one of their trials has no usable result",
                all - paired
            ));
        }
        if self.at > 0 && (self.at as usize) < paired {
            notes.push(format!(
                "{} of {paired} blocks lie after the last interim analysis and do not count",
                paired - self.at as usize
            ));
        }
        if contrast.blocks.iter().any(|block| block.baseline_twice().is_none()) {
            notes.push("the baseline ran once in each block: there is no A/A check".to_owned());
        }
        notes
    }
}

/// Why more blocks do not help: the figures are printed with too few digits.
fn too_coarse(resolution: f64) -> String {
    let below = if resolution.is_finite() {
        format!("below {}", effect(resolution.exp_m1()))
    } else {
        "of any size".to_owned()
    };
    format!("by the digits that the program prints, differences {below} cannot be seen")
}

fn refusal(contrast: &Contrast) -> Option<String> {
    let has = |what| contrast.blocks.iter().flat_map(|block| &block.trials).any(|trial| *trial == what);
    match &contrast.refused {
        Some(why) => Some(why.clone()),
        None if has(Observation::WrongAnswer) => Some("an answer is wrong".to_owned()),
        None if has(Observation::Unsupported) => Some("not supported".to_owned()),
        None => None,
    }
}

fn by_outcomes(variant: Counts, baseline: Counts) -> Option<Verdict> {
    if variant.trials.min(baseline.trials) < MIN_OUTCOMES {
        return None;
    }
    match (variant.never(), baseline.never()) {
        (true, true) => Some(Verdict::NeitherFinishes),
        (true, _) if baseline.always() => Some(Verdict::DoesNotFinish),
        (_, true) if variant.always() => Some(Verdict::BaselineDoesNotFinish),
        _ => None,
    }
}

/// The second label of the baseline beside the first.
fn against_itself(contrast: &Contrast) -> Reading<Estimate> {
    let twice = contrast.blocks.iter().filter_map(Block::baseline_twice).collect();
    Contrast::described(contrast.better, twice).estimate(UNCORRECTED).both()
}

#[cfg(test)]
mod tests {
    use super::super::interim::InterimAnalyses;
    use super::*;
    use prony_model::metric::Better;
    use proptest::prelude::*;

    /// All orders of three noise values in turn, so that no variant has an advantage.
    const ORDERS: [[f64; 3]; 6] =
        [[0.0, 1.0, 2.5], [2.5, 0.0, 1.0], [1.0, 2.5, 0.0], [1.0, 0.0, 2.5], [0.0, 2.5, 1.0], [2.5, 1.0, 0.0]];

    /// Blocks whose baselines are 100 to 100.5 and a variant of `ratio` times that.
    fn blocks(n: u32, ratio: f64) -> Vec<Block> {
        let value = |i: u32, place: usize| Observation::Value(100.0 + 0.2 * ORDERS[i as usize % 6][place]);
        let times = |o| if let Observation::Value(v) = o { Observation::Value(v * ratio) } else { o };
        (0..n).map(|i| Block::pair(times(value(i, 2)), &[value(i, 0), value(i, 1)])).collect()
    }

    fn contrast(blocks: Vec<Block>) -> Contrast {
        Contrast { analyses: InterimAnalyses::new(6, 30), ..Contrast::described(Better::Lower, blocks) }
    }

    /// The same blocks with these trials in place of the variant's and the baselines'; `None` keeps them.
    fn with(block: Block, variant: Option<Observation>, baseline: Option<Observation>) -> Block {
        let all = block.trials.iter().enumerate();
        let trials = all.map(|(at, trial)| if at == 0 { variant } else { baseline }.unwrap_or(*trial)).collect();
        Block { trials, ..block }
    }

    fn family(members: Vec<Contrast>) -> Family {
        Family { alpha: 0.05, margin: 0.03, members }
    }

    fn one_comparison(blocks: Vec<Block>) -> Comparison {
        compare_family(&family(vec![contrast(blocks)])).remove(0)
    }

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-9 * b.abs().max(1.0), "{a} is not {b}");
    }

    /// 105 and 140 ms, both printed as `0.1s`, were *no difference*.
    #[test]
    fn digits_that_are_printed_bound_every_verdict() {
        let of = |ratio: f64, resolution: f64| {
            compare_family(&family(vec![Contrast { resolution, ..contrast(blocks(30, ratio)) }])).remove(0)
        };
        assert_eq!(of(1.0, 0.0).verdict, Verdict::NoDifference);
        assert_eq!(of(1.0, 0.01).verdict, Verdict::NoDifference, "finer than the margin");
        let coarse = of(1.0, 3f64.ln());
        match &coarse.verdict {
            Verdict::CantTell { more_blocks: Reading::Missing(Why::Failed(why)) } => {
                assert_eq!(
                    &**why,
                    "by the digits that the program prints, differences below a factor of 3.0 cannot be seen"
                );
            }
            other => panic!("{other:?}"),
        }
        assert!(*coarse.smallest_effect.measured().unwrap() >= 2.0, "{coarse:?}");
        assert_eq!(of(2.0, 0.0).verdict, Verdict::Worse);
        assert!(matches!(of(2.0, 3f64.ln()).verdict, Verdict::CantTell { .. }), "0.149 and 0.151 are printed so too");
        assert_eq!(of(4.0, 3f64.ln()).verdict, Verdict::Worse);
        let none = of(1.0, f64::INFINITY);
        assert!(matches!(none.verdict, Verdict::CantTell { .. }), "{none:?}");
    }

    #[test]
    fn plain_cases_have_plain_verdicts() {
        assert_eq!(one_comparison(blocks(30, 1.0)).verdict, Verdict::NoDifference);
        assert_eq!(one_comparison(blocks(30, 2.0)).verdict, Verdict::Worse);
        assert_eq!(one_comparison(blocks(30, 0.5)).verdict, Verdict::Better);
        assert_eq!(one_comparison(blocks(30, 1.02)).verdict, Verdict::DiffersWithinMargin);
        let c = one_comparison(blocks(30, 2.0));
        assert!((c.ratio.measured().unwrap() - 2.0).abs() < 0.01);
        assert!(*c.p_adjusted.measured().unwrap() < 0.001 && c.blocks == 30);
        assert!(c.method.contains("interim analysis 4 of 4 at 30 blocks"), "{}", c.method);
    }

    #[test]
    fn figures_are_of_the_analysis_that_decided_where_later_blocks_contradict_it() {
        for (first, later, verdict) in [(1.5, 0.9, Verdict::Worse), (0.6, 1.1, Verdict::Better)] {
            let c = one_comparison([blocks(6, first), blocks(24, later)].concat());
            let (ratio, interval) = (*c.ratio.measured().unwrap(), *c.interval.measured().unwrap());
            assert_eq!((&c.verdict, c.blocks), (&verdict, 6), "{c:?}");
            assert!((ratio - first).abs() < 0.01 && interval.low <= ratio && interval.high.unwrap() >= ratio, "{c:?}");
            assert_eq!(interval.low > 1.0, first > 1.0, "{c:?}");
            assert!(c.method.contains("interim analysis 1 of 4 at 6 blocks"), "{}", c.method);
            let said = "decided at 6 blocks; all 30 blocks contradict it: their ratio is ";
            let of_all = c.notes.iter().find_map(|note| note.strip_prefix(said)?.parse::<f64>().ok()).unwrap();
            assert!((of_all / later - 1.0).abs() < 0.01, "{:?}", c.notes);
            assert!(c.notes.iter().all(|note| !note.contains("not paired")), "{:?}", c.notes);
        }
    }

    #[test]
    fn comparison_without_any_paired_block_is_not_helped_by_more_blocks() {
        let silent = |n| {
            let blocks = blocks(n, 1.0).into_iter();
            one_comparison(blocks.map(|block| with(block, Some(Observation::Disturbed), None)).collect())
        };
        assert_eq!(silent(6).verdict, Verdict::CantTell { more_blocks: Reading::Missing(Why::NotReached) });
        assert_eq!(silent(2).verdict, Verdict::CantTell { more_blocks: Reading::Measured(6) });
        let unmeasured = blocks(2, 1.0).into_iter().map(|block| with(block, Some(Observation::Unmeasured), None));
        let verdict = one_comparison(unmeasured.collect()).verdict;
        assert_eq!(verdict, Verdict::CantTell { more_blocks: Reading::Missing(Why::NotReached) });
    }

    #[test]
    fn refused_comparison_has_no_figures() {
        let mut refused = contrast(blocks(30, 0.01));
        refused.refused = Some("the two were offered different work".to_owned());
        let found = compare_family(&family(vec![refused])).remove(0);
        assert!(matches!(found.verdict, Verdict::Refused { .. }));
        let figures = [found.ratio.measured(), found.p.measured(), found.p_adjusted.measured()];
        assert_eq!((figures, found.interval.measured()), ([None; 3], None));
    }

    #[test]
    fn large_family_finds_a_tenfold_difference_at_the_first_interim_analysis() {
        let members = vec![contrast(blocks(6, 10.0)); 20];
        for c in compare_family(&family(members)) {
            assert_eq!(c.verdict, Verdict::Worse, "{c:?}");
            assert!(c.method.contains("for unimodal noise"));
        }
    }

    #[test]
    fn too_few_blocks_tell_nothing_and_say_how_many_more() {
        let c = one_comparison(blocks(4, 2.0));
        assert_eq!(c.verdict, Verdict::CantTell { more_blocks: Reading::Measured(2) });
        assert_eq!(c.p_adjusted, Reading::Missing(Why::TooFew { have: 4, need: 6 }));
        assert!(c.ratio.measured().is_some());
        let none = one_comparison(Vec::new());
        assert_eq!(none.verdict, Verdict::CantTell { more_blocks: Reading::Measured(6) });
        assert!(none.interval.measured().is_none() && none.ratio.measured().is_none());
    }

    #[test]
    fn blocks_after_the_last_interim_analysis_do_not_count() {
        let (at, after) = (one_comparison(blocks(11, 1.5)), one_comparison(blocks(17, 1.5)));
        assert_eq!((at.interval, at.p_adjusted), (after.interval, after.p_adjusted));
        assert!(after.notes.iter().any(|note| note.starts_with("6 of 17 blocks lie after")));
    }

    #[test]
    fn no_difference_is_refused_for_a_margin_below_the_smallest_effect() {
        let c = one_comparison(blocks(30, 1.0));
        let effect = *c.smallest_effect.measured().unwrap();
        let with_margin = |margin| {
            let family = Family { margin, ..family(vec![contrast(blocks(30, 1.0))]) };
            compare_family(&family).remove(0).verdict
        };
        assert_eq!(with_margin(effect * 1.01), Verdict::NoDifference);
        assert!(matches!(with_margin(effect * 0.99), Verdict::CantTell { .. }));
    }

    #[test]
    fn outcomes_come_first() {
        let oom = |b: Block| with(b, Some(Observation::Unfinished), None);
        let c = one_comparison(blocks(6, 1.0).into_iter().map(oom).collect());
        assert_eq!(c.verdict, Verdict::DoesNotFinish);
        assert_eq!((c.variant, c.baseline), (Counts { finished: 0, trials: 6 }, Counts { finished: 12, trials: 12 }));
        let turned = |b: Block| with(b, None, Some(Observation::Unfinished));
        assert_eq!(
            one_comparison(blocks(6, 1.0).into_iter().map(turned).collect()).verdict,
            Verdict::BaselineDoesNotFinish
        );
        let neither = |b: Block| oom(turned(b));
        assert_eq!(one_comparison(blocks(6, 1.0).into_iter().map(neither).collect()).verdict, Verdict::NeitherFinishes);
    }

    #[test]
    fn sometimes_unfinished_counts_as_worse_than_any_time() {
        // Two of three trials of the variant run out of memory; its other trials take as long as the baseline.
        let mut some = blocks(30, 1.0);
        for (i, block) in some.iter_mut().enumerate() {
            block.trials[0] = if i % 3 == 0 { block.trials[0] } else { Observation::Unfinished };
        }
        let c = one_comparison(some);
        assert!(c.verdict.is_worse(), "{c:?}");
        assert_eq!(c.interval.measured().unwrap().high, None);
        assert_eq!(c.ratio, Reading::Missing(Why::NotReached));
    }

    #[test]
    fn wrong_answers_and_guards_refuse() {
        let mut wrong = blocks(30, 2.0);
        wrong[3].trials[0] = Observation::WrongAnswer;
        assert_eq!(one_comparison(wrong).verdict, Verdict::Refused { why: "an answer is wrong".into() });
        let guarded = Contrast { refused: Some("answers differ".into()), ..contrast(blocks(30, 2.0)) };
        let found = compare_family(&family(vec![guarded])).remove(0);
        assert_eq!(found.verdict, Verdict::Refused { why: "answers differ".into() });
    }

    #[test]
    fn disturbed_blocks_are_not_paired_and_noted() {
        let mut some = blocks(8, 2.0);
        some[2].trials[2] = Observation::Disturbed;
        let c = one_comparison(some);
        assert_eq!(c.blocks, 6);
        assert!(c.notes.iter().any(|note| note.starts_with("1 of 8 blocks are not paired")), "{:?}", c.notes);
    }

    #[test]
    fn a_rate_has_its_ratio_the_right_way_round() {
        let faster = Contrast { better: Better::Higher, ..contrast(blocks(30, 2.0)) };
        let c = compare_family(&family(vec![faster])).remove(0);
        assert_eq!(c.verdict, Verdict::Better);
        let interval = c.interval.measured().unwrap();
        assert!(interval.low > 1.9 && interval.high.unwrap() < 2.1 && *c.ratio.measured().unwrap() > 1.9);
    }

    #[test]
    fn the_second_label_of_the_baseline_is_shown() {
        let c = one_comparison(blocks(30, 2.0));
        let aa = c.aa.measured().unwrap();
        assert!((aa.ratio - 1.0).abs() < 0.01 && aa.interval.low < 1.0 && aa.interval.high.unwrap() > 1.0);
        let once = blocks(30, 2.0).into_iter().map(|b| Block::pair(b.trials[0], &b.trials[1..2])).collect();
        let c = one_comparison(once);
        assert!(c.aa.measured().is_none() && c.verdict == Verdict::Worse);
        assert!(c.notes.iter().any(|note| note.contains("ran once in each block")));
    }

    #[test]
    fn holm_agrees_with_its_definition() {
        let adjusted = holm(&[0.01, 0.04, 0.03, 0.005], 4);
        for (a, b) in adjusted.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            close(*a, b);
        }
        assert_eq!(holm(&[0.9, 0.8], 2), [1.0, 1.0]);
        assert_eq!(holm(&[0.02, 1.0], 1), [0.02, 1.0]);
        assert!(holm(&[], 0).is_empty());
    }

    #[test]
    fn comparisons_without_interim_analyses_are_outside_the_family() {
        let shown = Contrast { analyses: InterimAnalyses::new(1, 1), ..contrast(blocks(1, 2.0)) };
        let family = family(vec![contrast(blocks(30, 2.0)), shown]);
        assert_eq!(family.size(), 1);
        let found = compare_family(&family);
        assert_eq!(found[0], one_comparison(blocks(30, 2.0)));
        assert!(matches!(found[1].verdict, Verdict::CantTell { .. }) && found[1].ratio.measured().is_some());
    }

    /// Twelve blocks, the variant `log` above its baselines except in the last ones, where it lies between them.
    fn mostly_above(above: u32, log: f64) -> Vec<Block> {
        let block = |i: u32| {
            let step = if i < above { log + 0.001 * f64::from(i % 3) } else { 0.0 };
            let [variant, first, second] = [step, -0.005, 0.005].map(|log| Observation::Value(100.0 * log.exp()));
            Block::pair(variant, &[first, second])
        };
        (0..12).map(block).collect()
    }

    #[test]
    fn holm_cuts_an_interval_that_still_holds_one() {
        // Nine comparisons that are clearly decided leave nearly the whole error to the tenth.
        let one_analysis = |blocks| Contrast { analyses: InterimAnalyses::new(12, 12), ..contrast(blocks) };
        let mut members = vec![one_analysis(mostly_above(12, 1.0)); 9];
        members.push(one_analysis(mostly_above(8, 0.2)));
        let found = compare_family(&family(members));
        let last = &found[9];
        assert!(*last.p_adjusted.measured().unwrap() <= 0.05, "{last:?}");
        assert!(*last.p.measured().unwrap() > 0.05 / 10.0, "Bonferroni's correction would not have rejected");
        assert_eq!(last.interval.measured().unwrap().low, 1.0);
        assert_eq!(last.verdict, Verdict::WorseUncertain);
        // Among undecided comparisons only, it is not claimed.
        let members = vec![one_analysis(mostly_above(8, 0.2)); 10];
        assert!(compare_family(&family(members)).iter().all(|c| matches!(c.verdict, Verdict::CantTell { .. })));
    }

    #[test]
    fn more_interim_analyses_only_narrow_the_interval() {
        let mut before: Option<Comparison> = None;
        for n in [6, 11, 18, 30] {
            let now = one_comparison(blocks(n, 1.3));
            if let Some(before) = &before {
                let (a, b) = (before.interval.measured().unwrap(), now.interval.measured().unwrap());
                assert!(b.low >= a.low && b.high.unwrap() <= a.high.unwrap(), "{a:?} {b:?}");
                assert!(now.p_adjusted.measured().unwrap() <= before.p_adjusted.measured().unwrap());
            }
            before = Some(now);
        }
        // A claim of the second interim analysis remains, though the blocks after it have no result.
        let mut late = blocks(11, 3.0);
        late.extend(blocks(19, 1.0));
        assert!(one_comparison(late).verdict.is_worse());
    }

    #[test]
    fn a_larger_family_pays_with_wider_intervals() {
        let width = |size: usize| {
            let found = compare_family(&family(vec![contrast(blocks(30, 1.3)); size]));
            let interval = *found[0].interval.measured().unwrap();
            interval.high.unwrap() / interval.low
        };
        assert!(width(1) <= width(5) && width(5) <= width(50) && width(1) < width(50));
    }

    #[test]
    fn crashed_beside_crashed_says_nothing_of_the_block() {
        let mut some = blocks(12, 2.0);
        for block in some.iter_mut().take(3) {
            block.trials = vec![Observation::Unfinished; 3];
        }
        let c = one_comparison(some);
        assert_eq!((c.blocks, c.variant.finished, c.baseline.finished), (11, 9, 18));
        assert!(c.verdict.is_worse() || matches!(c.verdict, Verdict::CantTell { .. }));
        let ratio = *c.ratio.measured().unwrap();
        assert!((ratio - 2.0).abs() < 0.02, "{ratio}");
    }

    #[test]
    fn unsupported_arms_are_not_compared() {
        let mut some = blocks(8, 1.0);
        some[0].trials[0] = Observation::Unsupported;
        assert_eq!(one_comparison(some).verdict, Verdict::Refused { why: "not supported".into() });
    }

    #[test]
    fn a_zero_beside_a_zero_is_equal_and_beside_more_is_better() {
        let zero = |variant| Block::pair(Observation::Value(variant), &[Observation::Value(0.0); 2]);
        let equal = one_comparison(vec![zero(0.0); 30]);
        assert_eq!((equal.ratio, equal.verdict), (Reading::Measured(1.0), Verdict::NoDifference));
        assert!(one_comparison(vec![zero(5.0); 30]).verdict.is_worse());
    }

    #[test]
    fn a_run_is_settled_when_nothing_is_open() {
        let sure = compare_family(&family(vec![contrast(blocks(30, 2.0)), contrast(blocks(30, 1.0))]));
        assert!(settled(&sure));
        assert!(!settled(&compare_family(&family(vec![contrast(blocks(4, 2.0))]))));
    }

    #[test]
    fn comparisons_survive_json() {
        let c = one_comparison(blocks(30, 2.0));
        let text = serde_json::to_string(&c).unwrap();
        assert_eq!(serde_json::from_str::<Comparison>(&text).unwrap().verdict, c.verdict);
    }

    fn noisy() -> impl Strategy<Value = Vec<Block>> {
        let value =
            || prop_oneof![12 => (1.0..50.0f64).prop_map(Observation::Value), 1 => Just(Observation::Unfinished)];
        let block = (value(), value(), value());
        let block = block.prop_map(|(b, b2, v)| Block::pair(v, &[b, b2]));
        prop::collection::vec(block, 6..30)
    }

    fn map_values(blocks: &[Block], f: impl Fn(f64) -> f64) -> Vec<Block> {
        let one = |o: &Observation| if let Observation::Value(v) = o { Observation::Value(f(*v)) } else { *o };
        let map = |b: &Block| Block { trials: b.trials.iter().map(one).collect(), ..b.clone() };
        blocks.iter().map(map).collect()
    }

    proptest! {
        #[test]
        fn scaling_does_nothing(data in noisy(), power in -30i32..30) {
            // Powers of two, so that no rounding moves a tie.
            let (a, b) = (one_comparison(data.clone()), one_comparison(map_values(&data, |v| v * 2f64.powi(power))));
            // A logarithm may round otherwise after a scaling, and the last place of p with it.
            for (one, other) in [(&a.p, &b.p), (&a.ratio, &b.ratio)] {
                prop_assert_eq!(one.measured().is_some(), other.measured().is_some());
                if let (Some(one), Some(other)) = (one.measured(), other.measured()) {
                    prop_assert!((one / other - 1.0).abs() < 1e-9, "{one} and {other}");
                }
            }
            prop_assert_eq!(a.verdict.is_worse(), b.verdict.is_worse());
        }

        #[test]
        fn swapping_the_arms_inverts_the_ratio(values in prop::collection::vec((1.0..50.0f64, 1.0..50.0f64), 6..30)) {
            let block = |(b, v): &(f64, f64)| Block::pair(Observation::Value(*v), &[Observation::Value(*b)]);
            let forth = one_comparison(values.iter().map(block).collect());
            let back = one_comparison(values.iter().map(|(b, v)| block(&(*v, *b))).collect());
            let product = forth.ratio.measured().unwrap() * back.ratio.measured().unwrap();
            prop_assert!((product - 1.0).abs() < 1e-9);
            let (f, b) = (forth.interval.measured().unwrap(), back.interval.measured().unwrap());
            prop_assert!((f.low * b.high.unwrap() - 1.0).abs() < 1e-9);
            prop_assert_eq!(forth.verdict.is_better(), back.verdict.is_worse());
            prop_assert_eq!(forth.p_adjusted, back.p_adjusted);
        }

        #[test]
        fn stopping_to_finish_never_turns_worse_into_better(data in noisy(), which in 0usize..30) {
            let before = one_comparison(data.clone());
            let mut worse = data;
            let place = which % worse.len();
            worse[place].trials[0] = Observation::Unfinished;
            let after = one_comparison(worse);
            prop_assert!(before.verdict.is_better() || !after.verdict.is_better(), "{before:?} {after:?}");
        }

        #[test]
        fn the_interval_agrees_with_the_verdict(data in noisy(), copies in 1usize..6) {
            for c in compare_family(&family(vec![contrast(data); copies])) {
                let interval = c.interval.measured().unwrap();
                let high = interval.high.unwrap_or(f64::INFINITY);
                prop_assert!(interval.low <= high);
                match c.verdict {
                    Verdict::Worse => prop_assert!(interval.low > 1.03),
                    Verdict::Better => prop_assert!(high < 1.0 / 1.03),
                    Verdict::WorseUncertain => prop_assert!(interval.low >= 1.0),
                    Verdict::BetterUncertain => prop_assert!(high <= 1.0),
                    Verdict::NoDifference => prop_assert!(interval.low > 0.97 && high < 1.031),
                    _ => {}
                }
            }
        }
    }
}
