//! Words a comparison as a sentence.

use prony_model::metric::{Better, Metric};
use prony_model::number::{self, are, count, effect, percent, ratio, shares, thousands};
use prony_model::outcome::{Outcome, counted};
use prony_model::reading::{Reading, Why};
use prony_model::units::Unit;
use prony_stats::verdict::directions;
use prony_stats::{Comparison, Counts, RatioInterval, Verdict};

use super::Pair;
use super::new_run::{NewRun, too_many};

/// `` `store=redb` takes 2.84 times as long as `store=lmdb` in `write.time` (95 % interval: 2.71 to 2.98) ``
///
/// A sentence that names a direction says how many times faster, as long, less or as much, and below a factor of two how many
/// percent more or less, since `1.05 times slower` reads as a slowdown of 105 %; one that names none gives the ratio variant /
/// baseline. All intervals hold jointly with probability `1 - alpha`, so each holds at least with it.
pub(super) fn of(
    pair: &Pair,
    comparison: &Comparison,
    failed: &Failed,
    new_run: Option<NewRun>,
    (alpha, margin): (f64, f64),
) -> String {
    let (variant, baseline) = (&pair.names.variant, &pair.names.baseline);
    let end = End::of(pair, failed);
    let place = place(pair);
    let ended = end.place(pair);
    let unfinished = format!("{}{}", unfinished(comparison, end), failed.text(pair));
    let margin = effect(margin);
    let level = format!("{} interval: ", percent(1.0 - alpha));
    let found = || estimate(comparison, &level).map(|text| format!(": {text}")).unwrap_or_default();
    let undirected = || format!("{}{unfinished}", found());
    match &comparison.verdict {
        Verdict::Better | Verdict::Worse => {
            format!("{}{place}{}{unfinished}", claim(pair, comparison), extent(pair, comparison, &level))
        }
        Verdict::BetterUncertain | Verdict::WorseUncertain => {
            let interval = extent(pair, comparison, &level);
            format!("{}{place}, by how much is uncertain{interval}{unfinished}", claim(pair, comparison))
        }
        Verdict::DiffersWithinMargin => {
            format!(
                "`{variant}` differs from `{baseline}`{place}, but by less than the margin of {margin}{}",
                undirected()
            )
        }
        Verdict::NoDifference => {
            format!("no difference of {margin} or more between `{variant}` and `{baseline}`{place}{}", undirected())
        }
        Verdict::CantTell { more_blocks } => {
            let more = match &comparison.p {
                _ if comparison.blocks == 0 && comparison.variant.trials + comparison.baseline.trials > 0 => {
                    "; no block has a value for every trial".to_owned()
                }
                Reading::Missing(Why::TooFew { have, need }) => {
                    let have = format!("{} {}", count(*have, "block"), are(*have));
                    format!("; {have} too few, this plan has no verdict before {need}")
                }
                _ => more(more_blocks, comparison.complete, new_run),
            };
            format!("can't tell whether `{variant}` differs from `{baseline}`{place}{}{more}", undirected())
        }
        Verdict::FinishesMoreOften => {
            format!("`{variant}` {} more often than `{baseline}`{ended}: {}", end.does, outcomes(comparison, end))
        }
        Verdict::FinishesLessOften => {
            format!("`{variant}` {} less often than `{baseline}`{ended}: {}", end.does, outcomes(comparison, end))
        }
        Verdict::DoesNotFinish => {
            let why = failed.why(&failed.unfinished[0]);
            let does = if failed.by_itself { end.does } else { "does" };
            format!("`{variant}` {}{why} where `{baseline}` {does}{ended}: {}", end.does_not, outcomes(comparison, end))
        }
        Verdict::BaselineDoesNotFinish => {
            let why = failed.why(&failed.unfinished[1]);
            let does_not = if failed.by_itself { end.does_not } else { "does not" };
            format!("`{variant}` {} where `{baseline}` {does_not}{why}{ended}: {}", end.does, outcomes(comparison, end))
        }
        Verdict::NeitherFinishes => {
            format!("neither `{variant}` nor `{baseline}` {}{ended}: {}", end.does, outcomes(comparison, end))
        }
        Verdict::Refused { why, .. } => format!("`{variant}` is not compared with `{baseline}`{place}: {why}"),
    }
}

/// The verdict in the words of tables, as the sentence has them.
pub(super) fn words(pair: &Pair, comparison: &Comparison, failed: &Failed, margin: f64) -> String {
    let End { does, does_not, .. } = End::of(pair, failed);
    match &comparison.verdict {
        Verdict::FinishesMoreOften => format!("{does} more often"),
        Verdict::FinishesLessOften => format!("{does} less often"),
        Verdict::DoesNotFinish => does_not.to_owned(),
        Verdict::BaselineDoesNotFinish if failed.by_itself => format!("{does} where the baseline {does_not}"),
        Verdict::BaselineDoesNotFinish => format!("{does} where the baseline does not"),
        Verdict::NeitherFinishes => format!("neither {does}"),
        verdict => verdict.words(pair.metric.key.metric, margin),
    }
}

/// How trials failed although they have a value: in the compared phase, if that is bounded by time, so that the rate of
/// its successful operations counts; or after that phase.
#[derive(Clone, Debug, Default)]
pub(super) struct Failed {
    pub(super) variant: Vec<Outcome>,
    pub(super) baseline: Vec<Outcome>,
    /// Whether all trials without a value ended by themselves, such as with an exit code: such a trial has failed
    /// rather than not finished.
    pub(super) by_itself: bool,
    /// How the trials without a value ended: those of the variant, and those of the baseline.
    pub(super) unfinished: [Vec<Outcome>; 2],
}

impl Failed {
    fn any(&self) -> bool {
        !self.variant.is_empty() || !self.baseline.is_empty()
    }

    /// ` (12 failed (exit code 3))`, where the trials ended by themselves.
    fn why(&self, outcomes: &[Outcome]) -> String {
        if self.by_itself { format!(" ({})", counted(outcomes.iter().copied())) } else { String::new() }
    }

    /// ``; in or after that phase failed, of `a`: 3 disk full``; nothing where none did.
    fn text(&self, pair: &Pair) -> String {
        let of = |name: &str, outcomes: &[Outcome]| {
            (!outcomes.is_empty()).then(|| format!("of `{name}`: {}", counted(outcomes.iter().copied())))
        };
        let parts = [of(&pair.names.variant, &self.variant), of(&pair.names.baseline, &self.baseline)];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if parts.is_empty() {
            String::new()
        } else {
            format!("; trials that failed in or after the phase, {}", parts.join("; "))
        }
    }
}

/// The phrase for trials whose observation is worse than any value.
#[derive(Clone, Copy)]
struct End {
    does: &'static str,
    does_not: &'static str,
    did: &'static str,
}

impl End {
    /// A percentile is infinite where it falls among operations that failed, however the trial ended; an activity that went
    /// on at the end of its phase has no last moment.
    fn of(pair: &Pair, failed: &Failed) -> Self {
        use prony_model::metric::Metric as M;
        match pair.metric.key.metric {
            _ if failed.any() => Self { does: "has a value", does_not: "has no value", did: "have a value" },
            metric if metric.percentile().is_some() => {
                Self { does: "has a finite value", does_not: "has no finite value", did: "have a finite value" }
            }
            M::SettleTime | M::SettleCpu | M::SettleWritten | M::SettleDisk | M::SettleDirty => {
                Self { does: "settles", does_not: "does not settle", did: "settled" }
            }
            _ if failed.by_itself => Self { does: "succeeds", does_not: "fails", did: "succeeded" },
            _ => Self { does: "finishes", does_not: "does not finish", did: "finished" },
        }
    }

    /// Of what it is said: of the metric, or of the phase as a whole.
    fn place(self, pair: &Pair) -> String {
        match self.does {
            "succeeds" | "finishes" => format!(" in phase `{}`{}", pair.metric.phase, at(pair)),
            _ => place(pair),
        }
    }
}

/// `` `a` takes 18.4 times as long as `b` ``, `` `a` takes 4.5 % more time than `b` ``, `` `a` takes 3.20 times as much memory
/// as `b` ``; without a number where there is no ratio, or one of them used none at all.
fn claim(pair: &Pair, comparison: &Comparison) -> String {
    let metric = pair.metric.key.metric;
    let (better, worse) = directions(metric);
    let words = if comparison.verdict.is_better() { better } else { worse };
    let share = small(comparison).map(|(ratio, _)| percents((ratio - 1.0).abs()));
    let words = if share.is_some() { of_shares(words, metric.unit()) } else { words };
    let times = share.is_none().then(|| directed(pair, comparison)).flatten();
    let times = times.map(|(times, interval)| ratio_texts(times, interval).0);
    let (variant, baseline) = (&pair.names.variant, &pair.names.baseline);
    if metric.unit() == Unit::PerSecond
        && let Some(rate) = rate(share.as_deref(), times.as_deref(), comparison.verdict.is_better())
    {
        return format!("`{variant}` has {rate} `{baseline}`");
    }
    let verb = if matches!(words, "faster" | "slower" | "shorter" | "longer") { "is" } else { "takes" };
    // `2 times more` and `2 times slower` may be meant of twice or of thrice.
    if let (Some(times), Some((verb, how))) = (&times, as_many(words, metric.unit())) {
        return format!("`{variant}` {verb} {times} times {how} `{baseline}`");
    }
    let much =
        share.map(|share| format!("{share} % ")).or(times.map(|times| format!("{times} times "))).unwrap_or_default();
    format!("`{variant}` {verb} {much}{words} than `{baseline}`")
}

/// `9 % faster` may be meant of the time or of its inverse.
fn of_shares(words: &'static str, unit: Unit) -> &'static str {
    match (words, unit) {
        ("faster", Unit::Nanos) => "less time",
        ("slower", Unit::Nanos) => "more time",
        _ => words,
    }
}

/// The form in which a sentence claims a difference, in which other estimates of the same difference are stated beside it: one
/// scale is not taken for another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    metric: Metric,
    /// In percent of the baseline, not as a factor.
    is_share: bool,
}

impl Form {
    /// `None` where the sentence states the ratio itself, or none.
    pub(super) fn of(pair: &Pair, comparison: &Comparison) -> Option<Self> {
        let is_directed = matches!(
            comparison.verdict,
            Verdict::Better | Verdict::Worse | Verdict::BetterUncertain | Verdict::WorseUncertain
        );
        let metric = pair.metric.key.metric;
        let has_number = directed(pair, comparison).is_some();
        (is_directed && has_number).then(|| Self { metric, is_share: small(comparison).is_some() })
    }

    /// The value at which nothing differs.
    pub(super) const fn equal(self) -> &'static str {
        if self.is_share { "0" } else { "1" }
    }

    /// `2.20 times faster (95 % interval: 1.91 to 2.43)`, `38 % less memory (95 % interval: 21 to 53 %)`; `None` where the ratio
    /// has no such form.
    pub(super) fn text(self, ratio: f64, interval: Option<RatioInterval>, level: &str) -> Option<String> {
        let (times, turned) = directed_of(self.metric, ratio, interval)?;
        let is_better = (ratio < 1.0) != (self.metric.better() == Better::Higher);
        let (better, worse) = directions(self.metric);
        let words = if is_better { better } else { worse };
        let unit = self.metric.unit();
        let (text, interval) = if self.is_share {
            let share = percents((ratio - 1.0).abs());
            let than = if ratio >= 1.0 { "higher" } else { "lower" };
            let text = match unit {
                Unit::PerSecond => format!("a rate {share} % {than}"),
                _ => format!("{share} % {}", of_shares(words, unit)),
            };
            (text, interval.map(|interval| percent_interval(interval, ratio >= 1.0)))
        } else {
            let (times, interval) = ratio_texts(times, turned);
            let text = match (unit, as_many(words, unit)) {
                (Unit::PerSecond, _) if times.starts_with("1/") => format!("{times} of the rate"),
                (Unit::PerSecond, _) => format!("{times} times the rate"),
                (_, Some((_, how))) => format!("{times} times {}", how.trim_end_matches(" as")),
                (_, None) => format!("{times} times {words}"),
            };
            (text, interval)
        };
        let interval = interval.map(|interval| format!(" ({level}{interval})")).unwrap_or_default();
        Some(text + &interval)
    }
}

/// A rate beside that of the baseline: `2 times slower` may be meant of a half or of a third, and `5 % slower` of the rate or
/// of the time.
fn rate(share: Option<&str>, times: Option<&str>, higher: bool) -> Option<String> {
    let than = if higher { "higher" } else { "lower" };
    let share = share.map(|share| format!("a rate {share} % {than} than that of"));
    let times = times.map(|times| match times.starts_with("1/") {
        true => format!("{times} of the rate of"),
        false => format!("{times} times the rate of"),
    });
    share.or(times)
}

/// Verb and comparison of what is a multiple of the baseline's; `None` where the sentence says how much better it is, or
/// where a lower value is the worse one.
fn as_many(worse: &str, unit: Unit) -> Option<(&'static str, String)> {
    Some(match worse {
        "slower" if unit == Unit::Nanos => ("takes", "as long as".to_owned()),
        "longer" => ("is", "as long as".to_owned()),
        "more" if unit == Unit::Count => ("takes", "as many as".to_owned()),
        "more" => ("takes", "as much as".to_owned()),
        _ => ("takes", format!("as much {} as", worse.strip_prefix("more ")?)),
    })
}

/// The ratio variant / baseline with its interval, where the factor is below two in either direction.
pub(super) fn small(comparison: &Comparison) -> Option<Factor> {
    let ratio = *comparison.ratio.measured()?;
    // By the percent as it is shown: `100 % more` is twice.
    (ratio > 0.5 && ((ratio - 1.0) * 100.0).round() < 100.0).then(|| (ratio, comparison.interval.measured().copied()))
}

/// The interval of what is claimed: ` (95 % interval: 1.71 to 1.98)`, ` (95 % interval: 2.1 to 7 %)`; nothing where there is
/// none.
fn extent(pair: &Pair, comparison: &Comparison, level: &str) -> String {
    match small(comparison) {
        None => bracketed(directed(pair, comparison), level),
        Some((_, None)) => String::new(),
        Some((ratio, Some(interval))) => {
            format!(" ({level}{})", percent_interval(interval, ratio >= 1.0))
        }
    }
}

/// How much above (`more`) or below the baseline the bounds lie: `2.1 to 7.0 %`, `at most 7.0 %`, `2.1 % or more`.
fn percent_interval(interval: RatioInterval, more: bool) -> String {
    let above = |bound: f64| percents(if more { bound - 1.0 } else { 1.0 - bound });
    let low = (interval.low > 0.0).then_some(interval.low);
    let (least, most) = if more { (low, interval.high) } else { (interval.high, low) };
    number::interval(least.map(above), most.map(above), " %")
}

/// A share in percent without its sign: with a decimal below ten, and as many as it takes to tell it from none.
fn percents(share: f64) -> String {
    let percent = 100.0 * share;
    match percent.abs() < 9.95 {
        true => number::percents(share, number::decimals_beside_zero(percent, 1)),
        false => thousands(&format!("{percent:.0}")),
    }
}

/// The ratio as a factor of at least 1, and its interval turned the same way; of a rate as they are.
type Factor = (f64, Option<RatioInterval>);

fn directed(pair: &Pair, comparison: &Comparison) -> Option<Factor> {
    let (ratio, interval) = (*comparison.ratio.measured()?, comparison.interval.measured().copied());
    directed_of(pair.metric.key.metric, ratio, interval)
}

fn directed_of(metric: Metric, ratio: f64, interval: Option<RatioInterval>) -> Option<Factor> {
    match metric.unit() {
        Unit::PerSecond => Some((ratio, interval)).filter(|_| ratio > 0.0 && ratio.is_finite()),
        _ => factor(ratio, interval),
    }
}

fn factor(ratio: f64, interval: Option<RatioInterval>) -> Option<Factor> {
    match ratio {
        ratio if ratio >= 1.0 && ratio.is_finite() => Some((ratio, interval)),
        ratio if ratio > 0.0 && ratio < 1.0 => Some((1.0 / ratio, interval.map(RatioInterval::inverse))),
        _ => None,
    }
}

/// ` (95 % interval: 1.71 to 1.98)`; nothing where there is no interval.
fn bracketed(factor: Option<Factor>, level: &str) -> String {
    let interval = factor.and_then(|(times, interval)| ratio_texts(times, interval).1);
    interval.map(|interval| format!(" ({level}{interval})")).unwrap_or_default()
}

/// `ratio 0.984 (95 % interval: 0.957 to 1.001)`; `None` where there is no ratio.
fn estimate(comparison: &Comparison, level: &str) -> Option<String> {
    // Of a few blocks an interval may span ten orders of magnitude.
    let is_early = matches!(comparison.p, Reading::Missing(Why::TooFew { .. }));
    let interval = comparison.interval.measured().copied().filter(|_| !is_early);
    Some(ratio_text(*comparison.ratio.measured()?, interval, level))
}

pub(super) fn ratio_text(middle: f64, interval: Option<RatioInterval>, level: &str) -> String {
    let (middle, interval) = ratio_texts(middle, interval);
    let interval = interval.map(|interval| format!(" ({level}{interval})")).unwrap_or_default();
    format!("ratio {middle}{interval}")
}

/// A ratio and its interval, all in one notation: `0.984` and `0.957 to 1.001`; fractions where every number lies far below
/// 1, since nobody reads `0.0000532`: `1/18,800` and `1/20,000 to 1/17,100`.
pub fn ratio_texts(middle: f64, interval: Option<RatioInterval>) -> (String, Option<String>) {
    let low = interval.map(|interval| interval.low).filter(|low| *low > 0.0);
    let high = interval.and_then(|interval| interval.high);
    let fractions = [Some(middle), low, high].into_iter().flatten().all(|value| value > 0.0 && value < 0.1);
    let number = |value: f64| thousands(&ratio(value));
    let text = |value: f64| if fractions { format!("1/{}", number(1.0 / value)) } else { number(value) };
    (text(middle), interval.map(|_| number::interval(low.map(text), high.map(text), "")))
}

fn place(pair: &Pair) -> String {
    format!(" in `{}`{}", pair.metric, at(pair))
}

/// `` at `documents=1000` ``, where variants are compared at several levels.
fn at(pair: &Pair) -> String {
    if pair.names.at.is_empty() { String::new() } else { format!(" at `{}`", pair.names.at) }
}

/// Where some trials of either did not finish, how many did: `; 11 of 12 trials finished (95 % interval: 61 to 100 %), ...`.
fn unfinished(comparison: &Comparison, end: End) -> String {
    let some = |counts: Counts| counts.trials > counts.finished;
    if some(comparison.variant) || some(comparison.baseline) {
        return format!("; {}", outcomes(comparison, end));
    }
    String::new()
}

/// What a new run needs, which cannot go on with the `complete` blocks of this run.
fn more(blocks: &Reading<u32>, complete: u32, new_run: Option<NewRun>) -> String {
    match (blocks, new_run) {
        (_, Some(run)) => {
            format!("; {run} could tell, if all blocks came out like these: `--blocks {}`", run.blocks)
        }
        (Reading::Measured(n), None) => too_many(*n, complete).map(|text| format!("; {text}")).unwrap_or_default(),
        (Reading::Missing(Why::Failed(why)), _) => format!("; {why}"),
        // A reader asked why one run said how many blocks would tell and another did not.
        (Reading::Missing(Why::NotSupported(many)), _) => {
            format!("; if all blocks came out like these, it would take {many} to tell")
        }
        (Reading::Missing(_), _) => String::new(),
    }
}

/// `0 of 3 trials finished (95 % interval of that share: 0 to 71 %); of the baseline, 6 of 6 (54 to 100 %)`, the intervals exact and at 95 %.
fn outcomes(comparison: &Comparison, end: End) -> String {
    let of = |counts: Counts, words: &str, label: &str| match counts.trials {
        0 => "of no trial it is known".to_owned(),
        n => format!("{} of {n}{words} ({label}{})", counts.finished, shares(counts.interval(0.95))),
    };
    let trials = if comparison.variant.trials == 1 { "trial" } else { "trials" };
    let variant = of(comparison.variant, &format!(" {trials} {}", end.did), "95 % interval of that share: ");
    let baseline = of(comparison.baseline, "", "");
    format!("{variant}; of the baseline, {baseline}")
}

#[cfg(test)]
mod tests {
    use prony_model::units::Nanos;

    use super::*;

    #[test]
    fn shares_of_few_trials_are_wide() {
        let of = |finished, trials| shares(Counts { finished, trials }.interval(0.95));
        assert_eq!(
            [of(0, 3), of(6, 6), of(0, 30), of(15, 30)],
            ["0 to 71 %", "54 to 100 %", "0 to 12 %", "31 to 69 %"]
        );
    }

    #[test]
    fn intervals_say_where_they_are_open() {
        let text = |low, high| ratio_texts(1.0, Some(RatioInterval { low, high })).1.unwrap();
        assert_eq!(text(1.71, Some(1.98)), "1.71 to 1.98");
        assert_eq!(text(0.0, Some(1.98)), "at most 1.98");
        assert_eq!(text(1.5, None), "1.50 or more");
        assert_eq!(text(0.0, None), "no bound yet");
    }

    #[test]
    fn factors_below_one_are_turned_round_with_their_intervals() {
        let text = |ratio, low, high| {
            let found = factor(ratio, Some(RatioInterval { low, high }));
            (found.map(|(times, _)| ratio_texts(times, None).0), bracketed(found, ""))
        };
        assert_eq!(text(1.84, 1.71, Some(1.98)), (Some("1.84".to_owned()), " (1.71 to 1.98)".to_owned()));
        assert_eq!(text(0.25, 0.2, Some(0.5)), (Some("4.00".to_owned()), " (2.00 to 5.00)".to_owned()));
        assert_eq!(text(0.0000516, 0.0, Some(0.0001)), (Some("19,380".to_owned()), " (10,000 or more)".to_owned()));
        assert_eq!(text(0.5, 0.4, None), (Some("2.00".to_owned()), " (at most 2.50)".to_owned()));
        assert_eq!(text(0.0, 0.0, Some(0.0)).0, None, "one of them used none at all");
    }

    /// `ratio 0.900 (1/50.8 to 35.6)` was taken for a ratio above its interval.
    #[test]
    fn ratio_and_interval_have_one_notation() {
        let text = |middle, low, high| ratio_text(middle, Some(RatioInterval { low, high }), "95 % interval: ");
        assert_eq!(text(0.9, 0.0197, Some(35.6)), "ratio 0.900 (95 % interval: 0.0197 to 35.6)");
        assert_eq!(text(0.02, 0.01, Some(0.05)), "ratio 1/50.0 (95 % interval: 1/100 to 1/20.0)");
        assert_eq!(text(0.02, 0.0, Some(0.5)), "ratio 0.0200 (95 % interval: at most 0.500)");
        assert_eq!(text(0.02, 0.01, None), "ratio 1/50.0 (95 % interval: 1/100 or more)");
    }

    #[test]
    fn blocks_are_counted_in_words() {
        // A run cannot be extended: readers asked whether `12 more` was the number to write.
        let new = NewRun { blocks: 42, takes: Some(Nanos::from_secs(84)), longer: Some(Nanos::from_secs(24)) };
        assert_eq!(
            more(&Reading::Measured(12), 30, Some(new)),
            "; a new run of about 42 blocks (about 84 s, 24 s more than this run) could tell, if all blocks came out like \
             these: `--blocks 42`"
        );
        let many = "; even if all blocks came out like these, it would take about 670,230 blocks to tell, which is hardly practical";
        assert_eq!(more(&Reading::Measured(670_200), 30, None), many);
        let beyond = more(&Reading::Missing(Why::NotSupported("more than 200 blocks".into())), 30, None);
        assert_eq!(beyond, "; if all blocks came out like these, it would take more than 200 blocks to tell");
    }

    #[test]
    fn other_estimates_have_the_form_of_the_claim() {
        let of = |metric, is_share, ratio, low, high| {
            let interval = Some(RatioInterval { low, high });
            Form { metric, is_share }.text(ratio, interval, "").unwrap()
        };
        assert_eq!(of(Metric::Time, false, 0.454, 0.4, Some(0.5)), "2.20 times faster (2.00 to 2.50)");
        assert_eq!(of(Metric::Time, false, 2.0, 1.5, Some(2.5)), "2.00 times as long (1.50 to 2.50)");
        assert_eq!(of(Metric::Time, true, 0.9, 0.8, Some(1.05)), "10 % less time (-5.0 to 20 %)");
        assert_eq!(of(Metric::Rate, true, 0.618, 0.5, Some(0.7)), "a rate 38 % lower (30 to 50 %)");
        assert_eq!(of(Metric::Rate, false, 2.1, 2.0, Some(2.2)), "2.10 times the rate (2.00 to 2.20)");
        assert_eq!(of(Metric::Anon, false, 3.2, 3.0, None), "3.20 times as much memory (3.00 or more)");
        assert_eq!(of(Metric::Anon, true, 1.2, 1.1, Some(1.3)), "20 % more memory (10 to 30 %)");
        assert_eq!(Form { metric: Metric::Time, is_share: false }.text(0.0, None, ""), None);
    }

    #[test]
    fn small_differences_are_percents_of_the_baseline() {
        let text = |low, high, more| percent_interval(RatioInterval { low, high }, more);
        assert_eq!(text(1.014, Some(1.34), true), "1.4 to 34 %");
        assert_eq!(text(0.8, Some(0.991), false), "0.9 to 20 %");
        assert_eq!(
            (text(1.5, None, true), text(0.0, Some(0.9), false)),
            ("50 % or more".into(), "10 % or more".into())
        );
        assert_eq!(
            (text(0.0, Some(1.5), true), text(0.5, None, false)),
            ("at most 50 %".into(), "at most 50 %".into())
        );
        assert_eq!([0.045, 0.0994, 0.0996, 12.5].map(percents), ["4.5", "9.9", "10", "1250"]);
    }
}
