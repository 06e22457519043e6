//! Compares the variants of one run with their baselines: one verdict for each comparison, with one error rate for the
//! whole family of comparisons.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use super::binomial::fair_tail;
use super::contrast::{Block, Contrast, Estimate, UNCORRECTED, unless};
use super::interim::{InterimAnalyses, blocks_by_counts};
use super::observe::{Counts, Observation};
use super::p_values::Law;
use super::power::{least_blocks, smallest_effect};
use super::sign::{Bracketed, SignTest, gap_needed};
use super::verdict::{RatioInterval, Verdict, judge};
use prony_model::metric::Better;
use prony_model::number::{count, effect};
use prony_model::reading::{Reading, Why};

/// With fewer trials than this of a variant, not even "does not finish" is stated.
const MIN_OUTCOMES: u32 = 3;

/// Plans for more blocks than this are not considered when more blocks are recommended: they would hardly be run, and
/// take long to compute.
const MOST_MORE: u32 = 200;

/// The reason where the number of blocks that would decide is not stated.
const TOO_MANY: &str = "more than 200 blocks";

/// All comparisons of a run that may give a verdict; their number is that of the correction for multiple comparisons.
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
    /// Complete blocks, those after the last interim analysis included; the verdict's number of more blocks is counted
    /// from here.
    pub complete: u32,
    /// The median of the within-block ratios variant / baseline.
    pub ratio: Reading<f64>,
    /// Its interval; all intervals of the family and of all interim analyses hold jointly with probability `1 - alpha`.
    pub interval: Reading<RatioInterval>,
    /// Two-sided p-value of "the median ratio is 1" at the last interim analysis, uncorrected.
    pub p: Reading<f64>,
    /// Corrected for interim analyses and family (Bonferroni); a difference is claimed where it is at most `alpha`.
    pub p_adjusted: Reading<f64>,
    /// The verdict.
    pub verdict: Verdict,
    /// The minimum detectable effect: the smallest effect that is found with probability 0.8, as a share.
    pub smallest_effect: Reading<f64>,
    /// Whether the interval says something of every block: not where most are equal, so that it is a point, and others are not.
    pub covers_all: bool,
    /// The A/A check: the baseline's second label compared with its first, at 95 % and uncorrected.
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

    /// The error of one comparison over all interim analyses. Those without any have no verdict; that of a new run would be
    /// one of as many.
    fn error_of(&self, contrast: &Contrast) -> f64 {
        let size = if contrast.analyses.at().is_empty() { self.members.len() } else { self.size() };
        self.alpha / size.max(1) as f64
    }
}

/// Compares every member with its baseline.
///
/// The intervals have error `alpha * share / size` at each interim analysis (Bonferroni). That of the last one counts, by itself:
/// to narrow it by those of earlier ones would state what all blocks together may not show. Holm's correction would reject
/// more, but its verdicts would not be simultaneous with all intervals.
pub fn compare_family(family: &Family) -> Vec<Comparison> {
    let conclude = |contrast| Evidence::of(contrast, family.error_of(contrast)).conclude(contrast, family);
    family.members.iter().map(conclude).collect()
}

/// How many more blocks it would take until the interval of a member decides something, if all are distributed as those that
/// ran: asked with the interval, whether it covers all blocks, and the minimum detectable effect. `None` where no number is known.
pub fn more_blocks_until(
    family: &Family,
    member: usize,
    decides: impl Fn(&RatioInterval, bool, &Reading<f64>) -> bool,
) -> Option<u32> {
    let contrast = &family.members[member];
    let evidence = Evidence::of(contrast, family.error_of(contrast));
    if refusal(contrast).is_some() || evidence.contradiction().is_some() {
        return None;
    }
    let more = evidence.more_until(contrast, family, |then| {
        let (_, interval) = contrast.figures(&then.test, contrast.widened(then.interval));
        interval.measured().is_some_and(|found| decides(found, then.covers_all, &then.smallest_effect(contrast)))
    });
    more.measured().copied()
}

/// Whether a run may stop here: more blocks could change no comparison.
pub fn settled(comparisons: &[Comparison]) -> bool {
    comparisons.iter().all(|c| c.verdict.is_final())
}

/// The test of the first blocks at this error. Where the counts suffice for it, it assumes nothing else.
fn tabulated(contrast: &Contrast, brackets: &[Bracketed], spent: f64) -> SignTest {
    let n = brackets.len() as u32;
    let test = SignTest::with_law(brackets, Law::tabulated(n));
    if gap_needed(n, spent) > 0.0 { test.rounded(contrast.rounding(brackets.len())) } else { test.of_counts() }
}

/// The result of one contrast's data, before the correction over the family.
#[derive(Clone)]
struct Evidence {
    brackets: Vec<Bracketed>,
    /// Blocks at the last interim analysis reached; 0 where none is.
    at: u32,
    /// The error spent on this comparison at that interim analysis.
    spent: f64,
    /// Whether that was the closing analysis of a run with a time budget.
    closing: bool,
    test: SignTest,
    /// At the last interim analysis.
    interval: (f64, f64),
    half_width: Option<f64>,
    /// Whether its interval is no point beside blocks that lie elsewhere.
    covers_all: bool,
    /// The least p-value of any interim analysis that was reached, as a multiple of its error, its side (below 0 is better), and
    /// its blocks.
    strongest: (f64, f64, u32),
    /// The interval of the blocks in which all trials finished, where one did not; the remaining blocks count for neither side.
    of_finished: Option<(f64, f64)>,
}

impl Evidence {
    /// `each` is the error for one comparison over all interim analyses.
    fn of(contrast: &Contrast, each: f64) -> Self {
        let whole = Self::of_brackets(contrast, contrast.brackets(), each);
        if !contrast.blocks.iter().any(Block::has_unfinished) {
            return whole;
        }
        let finished = contrast.blocks.iter().filter_map(|block| block.bracket_of_finished(contrast.better)).collect();
        let finished = Self::of_brackets(contrast, finished, each);
        Self { of_finished: Some(contrast.widened(finished.interval)), ..whole }
    }

    fn of_brackets(contrast: &Contrast, brackets: Vec<Bracketed>, each: f64) -> Self {
        let mut whole = Self::of_interim(contrast, brackets, each);
        whole.close(contrast, each);
        whole
    }

    /// Without the closing analysis.
    fn of_interim(contrast: &Contrast, brackets: Vec<Bracketed>, each: f64) -> Self {
        let n = brackets.len() as u32;
        let first = contrast.analyses.at_or_after(n).map_or(each, |(_, share)| each * share);
        let test = tabulated(contrast, &brackets, first);
        let mut so_far = Self {
            interval: test.interval(first),
            test,
            brackets,
            at: 0,
            spent: first,
            closing: false,
            half_width: None,
            covers_all: true,
            strongest: (f64::INFINITY, 0.0, 0),
            of_finished: None,
        };
        for (at, share) in contrast.analyses.reached(n) {
            let test = tabulated(contrast, &so_far.brackets[..at as usize], each * share);
            so_far.analyse(contrast, test, each * share);
        }
        so_far
    }

    /// Why a difference that an interim analysis found is not claimed: over all blocks together it has the other direction, or
    /// there is none. The variants then differ in different ways over the run, so that no single ratio describes them.
    fn contradiction(&self) -> Option<Why> {
        let (p, side, first) = self.strongest;
        let found = p <= 1.0 && side != 0.0;
        let contradicts = found && self.test.middle().is_some_and(|middle| middle * side <= 0.0);
        let all = self.at;
        let text = || format!("the first {first} blocks differ in one direction, but all {all} blocks together do not");
        contradicts.then(|| Why::Failed(text().into()))
    }

    /// The closing analysis, where it is due and there are blocks enough for it; how many are enough does not depend on
    /// their results.
    fn close(&mut self, contrast: &Contrast, each: f64) {
        let n = self.brackets.len() as u32;
        let able = |share: &f64| n >= super::MIN_BLOCKS.max(blocks_by_counts(each * share));
        if let Some(share) = contrast.analyses.closing().filter(able) {
            self.closing = true;
            self.analyse(contrast, SignTest::by_counts(&self.brackets), each * share);
        }
    }

    fn analyse(&mut self, contrast: &Contrast, test: SignTest, spent: f64) {
        let now = test.interval(spent);
        let equal = contrast.equal(&test);
        let p = test.p(equal) / spent;
        if p < self.strongest.0 {
            self.strongest = (p, test.side(equal), test.blocks());
        }
        self.covers_all = now.0 < now.1 || test.range() == 0.0;
        let half_width = |estimate: f64| match self.covers_all {
            true => (now.1 - estimate).max(estimate - now.0),
            // Most values are equal, and the others may lie anywhere.
            false => test.range(),
        };
        self.half_width = test.estimate().map(half_width).filter(|w| w.is_finite());
        (self.at, self.spent, self.interval, self.test) = (test.blocks(), spent, now, test);
    }

    fn conclude(self, contrast: &Contrast, family: &Family) -> Comparison {
        let variant = Counts::of(contrast.blocks.iter().flat_map(Block::variant));
        let baseline = Counts::of(contrast.blocks.iter().flat_map(Block::baseline));
        let contradiction = self.contradiction();
        let refused = refusal(contrast);
        let why = refused.as_ref().map(|(why, _)| Why::DoesNotCount(why.as_str().into()));
        let uncounted = why.or_else(|| contradiction.clone());
        let verdict = refused
            .map(|(why, so_far)| Verdict::Refused { why, so_far })
            .or_else(|| by_outcomes(variant, baseline))
            .or_else(|| contradiction.map(|why| Verdict::CantTell { more_blocks: Reading::Missing(why) }))
            .or_else(|| {
                let verdict = self.verdict(contrast, family.margin)?;
                Some(self.by_finished(verdict, [variant, baseline]))
            })
            .unwrap_or_else(|| Verdict::CantTell { more_blocks: self.more_blocks(contrast, family) });
        let (ratio, interval) = contrast.figures(&self.test, contrast.widened(self.interval));
        // Before the first analysis an interval may span ten orders of magnitude.
        let early = (self.at == 0).then(|| self.too_few(contrast));
        let interval = unless(&early, interval);
        let p = self.test.p(contrast.equal(&self.test));
        let p_adjusted = unless(&early, Reading::Measured((p * family.alpha / self.spent).min(1.0)));
        Comparison {
            blocks: self.test.blocks(),
            complete: self.brackets.len() as u32,
            ratio: unless(&uncounted, ratio),
            interval: unless(&uncounted, interval),
            p: unless(&uncounted, unless(&early, Reading::Measured(p))),
            p_adjusted: unless(&uncounted, p_adjusted),
            verdict,
            smallest_effect: unless(&uncounted, self.smallest_effect(contrast)),
            covers_all: self.covers_all,
            aa: against_itself(contrast),
            variant,
            baseline,
            method: self.method(contrast, family),
            notes: self.notes(contrast, family.margin),
        }
    }

    fn smallest_effect(&self, contrast: &Contrast) -> Reading<f64> {
        match self.half_width {
            Some(_) if contrast.resolution.is_infinite() => Reading::failed(too_coarse(contrast.resolution)),
            Some(width) => {
                let effect = smallest_effect(width, self.spent, self.at);
                Reading::Measured((effect.ln_1p() + contrast.resolution).exp_m1())
            }
            None if self.at > 0 => Reading::Missing(contrast.no_ratio()),
            None => Reading::Missing(self.too_few(contrast)),
        }
    }

    /// `None` where it cannot be said.
    fn verdict(&self, contrast: &Contrast, margin: f64) -> Option<Verdict> {
        let blind = self.smallest_effect(contrast).measured().is_none_or(|effect| *effect > margin);
        match judge(contrast.widened(self.interval), margin).filter(|_| self.at > 0)? {
            Verdict::NoDifference if blind => None,
            verdict => Some(verdict),
        }
    }

    /// How many more blocks would decide, if all are distributed as those tested are. Not known where a trial did not finish: how
    /// often trials finish decides too.
    fn more_blocks(&self, contrast: &Contrast, family: &Family) -> Reading<u32> {
        if self.of_finished.is_some() {
            return Reading::failed("not all trials finished, so that it is not known how many blocks would tell");
        }
        self.more_until(contrast, family, |then| then.verdict(contrast, family.margin).is_some())
    }

    /// How many more blocks it takes until what they would be, if all are distributed as those tested are, is decided: up to
    /// the first analysis of the plan at which it is, or, where none is left, that of a plan for more blocks.
    fn more_until(&self, contrast: &Contrast, family: &Family, decided: impl Fn(&Self) -> bool) -> Reading<u32> {
        let (have, analyses) = (self.brackets.len() as u32, &contrast.analyses);
        let first = analyses.at().first().copied().unwrap_or(super::MIN_BLOCKS);
        // No block that ran has a result, and further blocks of this kind would have none either. A value that is not
        // measured is no matter of chance.
        if have == 0 && (contrast.blocks.len() as u32 >= first || contrast.is_unmeasured()) {
            return Reading::Missing(Why::NotReached);
        }
        if have < MIN_OUTCOMES {
            return Reading::Missing(Why::TooFew { have: have.into(), need: MIN_OUTCOMES.into() });
        }
        let each = family.error_of(contrast);
        let decides = |at: u32, share: f64| {
            let mut then = self.clone();
            let assumes = gap_needed(at, each * share) > 0.0;
            then.analyse(contrast, self.test.projected(Law::tabulated(at), assumes), each * share);
            decided(&then)
        };
        // A new run is one of so many blocks, whatever limits this one.
        let planned = analyses.reached(u32::MAX).filter(|(at, _)| *at > have && !analyses.is_timed());
        let planned: Vec<(u32, f64)> = planned.collect();
        let planned_last = analyses.at().last().filter(|_| !analyses.is_timed());
        let last = planned_last.copied().unwrap_or(super::MIN_BLOCKS - 1).max(have);
        // More blocks of the same kind decide no less: where the most do not, fewer need not be tried.
        let at = if planned.last().is_some_and(|(at, share)| decides(*at, *share)) {
            planned.iter().find(|(at, share)| decides(*at, *share)).map(|(at, _)| *at)
        } else {
            let longer = |most: u32| {
                InterimAnalyses::new(first, most).at_or_after(most).is_some_and(|(at, share)| decides(at, share))
            };
            let most = MOST_MORE.max(2 * last);
            longer(most).then(|| least_blocks(last, most, longer)).flatten()
        };
        let never = || match contrast.resolution >= family.margin.ln_1p() {
            true => Why::Failed(too_coarse(contrast.resolution).into()),
            false => Why::NotSupported(TOO_MANY.into()),
        };
        at.map_or_else(|| Reading::Missing(never()), |at| Reading::Measured(at - have))
    }

    /// If a difference rests on trials that did not finish, what differs is how often trials finish, not the metric; nothing is
    /// claimed where that is not shown to differ in the same direction, at the error of the last analysis. Nor are variants
    /// alike of which one finishes less often: medians hide trials that do not finish while they are few.
    fn by_finished(&self, verdict: Verdict, [variant, baseline]: [Counts; 2]) -> Verdict {
        let is_alike = matches!(verdict, Verdict::NoDifference | Verdict::DiffersWithinMargin);
        if is_alike && variant.differ(baseline, UNCORRECTED) {
            let why = "most blocks show no difference, but the two do not have a value equally often";
            return Verdict::CantTell { more_blocks: Reading::failed(why) };
        }
        let Some((low, high)) = self.of_finished.filter(|_| verdict.is_difference()) else { return verdict };
        let is_above = self.interval.0 > 0.0;
        let is_same = if is_above { low > 0.0 } else { high < 0.0 };
        if is_same {
            return verdict;
        }
        let shown = match variant.share().total_cmp(&baseline.share()) {
            _ if !variant.differ(baseline, self.spent) => "it is not shown that one variant finishes less often",
            Ordering::Less if is_above => return Verdict::FinishesLessOften,
            Ordering::Greater if !is_above => return Verdict::FinishesMoreOften,
            _ => "the variant that is better in more blocks finishes less often",
        };
        let why = format!("the difference rests on blocks in which a trial did not finish, and {shown}");
        Verdict::CantTell { more_blocks: Reading::failed(why) }
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
                let first = analyses
                    .first()
                    .map_or_else(none, |at| format!("the first interim analysis is at {}", count(*at, "block")));
                return format!("no test: {}, {first}", count(self.brackets.len(), "complete block"));
            }
        };
        let twice = contrast.blocks.iter().all(|block| block.baseline_twice().is_some());
        let unimodal = self.test.is_unimodal();
        format!(
            "exact sign test against {}{}, {analysis} at {} blocks, interval at error {:.2e}, \
             Bonferroni's correction over {}",
            if twice { "both baselines of the block" } else { "the baseline of the block" },
            if unimodal { ", assuming unimodal noise" } else { "" },
            self.at,
            self.spent,
            count(family.size(), "comparison"),
        )
    }

    fn notes(&self, contrast: &Contrast, margin: f64) -> Vec<String> {
        let mut notes = Vec::from_iter(self.part_beyond(contrast, margin));
        let (all, counted) = (contrast.blocks.len(), self.brackets.len());
        let unknown = all - contrast.paired().count();
        if unknown > 0 {
            notes.push(format!(
                "{unknown} of {} lack a value, and count as if their difference may be any",
                count(all, "block")
            ));
        }
        if self.at > 0 && (self.at as usize) < counted {
            notes.push(format!(
                "{} of {counted} blocks lie after the last interim analysis and do not count",
                counted - self.at as usize
            ));
        }
        let (above, below) = self.test.counts(contrast.equal(&self.test));
        // Where most trials do not finish, the interval is a point too, but one at infinity: those values are not equal.
        if !self.covers_all && self.interval.0.is_finite() && above + below > 0 {
            notes.push(format!(
                "most values are equal: {}, of which the median ratio and its interval show nothing",
                self.lies(contrast, (above, below), &Default::default())
            ));
        }
        if contrast.blocks.iter().any(|block| block.baseline_twice().is_none()) {
            notes.push("the baseline ran once in each block, so that there is no A/A check".to_owned());
        }
        notes
    }

    /// Where the median lies inside the margin, and so many more blocks lie beyond it on one side than on the other that this
    /// is no chance at 5 %: a part of the trials differs, of which the median says nothing.
    fn part_beyond(&self, contrast: &Contrast, margin: f64) -> Option<String> {
        let bound = margin.ln_1p() + contrast.resolution;
        let [(above, _), (_, below)] = [bound, -bound].map(|bound| self.test.counts(bound));
        let is_chance = 2.0 * fair_tail(above.min(below), above + below) > 0.05;
        if self.at == 0
            || !self.covers_all
            || self.of_finished.is_some()
            || is_chance
            || self.test.middle().is_none_or(|middle| middle.abs() > bound)
        {
            return None;
        }
        let by = [bound.exp_m1(), -(-bound).exp_m1()].map(|share| format!(" by more than {}", effect(share)));
        Some(format!(
            "{}: the median ratio and its interval do not describe these blocks",
            self.lies(contrast, (above, below), &by)
        ))
    }

    /// In how many blocks the cost lies above and below the baseline's, as values of the metric.
    fn lies(&self, contrast: &Contrast, (above, below): (u32, u32), [more, less]: &[String; 2]) -> String {
        let (above, below) = if contrast.better == Better::Higher { (below, above) } else { (above, below) };
        let of = count(self.at, "block");
        format!("of {of} the variant lies{more} above its baseline in {above} and{less} below it in {below}")
    }
}

/// Why more blocks do not help: values are printed with too few digits, or counted in classes.
fn too_coarse(resolution: f64) -> String {
    let below = if resolution.is_finite() {
        format!("below {}", effect(resolution.exp_m1()))
    } else {
        "of any size".to_owned()
    };
    format!("the values are too coarse to show differences {below}")
}

/// Why the comparison is refused, and whether that may not stand after more blocks.
fn refusal(contrast: &Contrast) -> Option<(String, bool)> {
    let has = |what| contrast.blocks.iter().flat_map(|block| &block.trials).any(|trial| *trial == what);
    match &contrast.refused {
        Some(why) if !contrast.refused_so_far => Some((why.clone(), false)),
        _ if has(Observation::WrongAnswer) => Some(("a trial gave a wrong answer".to_owned(), false)),
        _ if has(Observation::Unsupported) => {
            Some(("the engine or the machine does not support a trial".to_owned(), false))
        }
        why => why.clone().map(|why| (why, true)),
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
    let itself = Contrast::described(contrast.better, twice);
    Contrast { resolution: contrast.baseline_resolution, ..itself }.estimate(UNCORRECTED).both()
}

#[cfg(test)]
mod tests;
