//! A comparison as a sentence.

use prony_model::number::{effect, ratio, shares};
use prony_model::reading::{Reading, Why};
use prony_stats::verdict::directions;
use prony_stats::{Comparison, Counts, RatioInterval, Verdict};

use super::{Pair, Undisturbed};

/// `` `store=redb` is slower than `store=lmdb` in `write.time`: 1.84 times (1.71 to 1.98) ``
pub(super) fn of(pair: &Pair, comparison: &Comparison, margin: f64) -> String {
    let (variant, baseline) = (&pair.names.variant, &pair.names.baseline);
    let end = End::of(pair);
    let figure = format!("{}{}", figure(comparison), unfinished(comparison, end));
    let place = place(pair);
    match &comparison.verdict {
        Verdict::Better | Verdict::Worse => format!("{}{place}{figure}", claim(pair, &comparison.verdict)),
        Verdict::BetterUncertain | Verdict::WorseUncertain => {
            format!("{}{place}, by how much is uncertain{figure}", claim(pair, &comparison.verdict))
        }
        Verdict::DiffersWithinMargin => {
            format!("`{variant}` differs from `{baseline}`{place}, but by less than {}{figure}", effect(margin))
        }
        Verdict::NoDifference => {
            format!("no difference of {} or more between `{variant}` and `{baseline}`{place}{figure}", effect(margin))
        }
        Verdict::CantTell { more_blocks } => {
            let more = more(more_blocks);
            format!("can't tell whether `{variant}` and `{baseline}` differ{place}{figure}{more}")
        }
        Verdict::FinishesMoreOften => {
            format!("`{variant}` {} more often than `{baseline}`{place}: {}", end.does, outcomes(comparison, end))
        }
        Verdict::FinishesLessOften => {
            format!("`{variant}` {} less often than `{baseline}`{place}: {}", end.does, outcomes(comparison, end))
        }
        Verdict::DoesNotFinish => {
            format!("`{variant}` {} where `{baseline}` does{place}: {}", end.does_not, outcomes(comparison, end))
        }
        Verdict::BaselineDoesNotFinish => {
            format!("`{variant}` {} where `{baseline}` does not{place}: {}", end.does, outcomes(comparison, end))
        }
        Verdict::NeitherFinishes => {
            format!("neither `{variant}` nor `{baseline}` {}{place}: {}", end.does, outcomes(comparison, end))
        }
        Verdict::Refused { why } => format!("`{variant}` is not compared with `{baseline}`{place}: {why}"),
    }
}

/// What is said of trials whose observation is worse than any value.
#[derive(Clone, Copy)]
struct End {
    does: &'static str,
    does_not: &'static str,
    did: &'static str,
}

impl End {
    /// A percentile is infinite where it falls among operations that failed, however the trial ended; an activity that went
    /// on at the end of its phase has no last moment.
    fn of(pair: &Pair) -> Self {
        use prony_model::metric::Metric as M;
        match pair.metric.key.metric {
            M::LatencyP50 | M::LatencyP90 | M::LatencyP95 | M::LatencyP99 | M::LatencyP999 => {
                Self { does: "has a finite value", does_not: "has no finite value", did: "have a finite value" }
            }
            M::SettleTime | M::SettleCpu | M::SettleWritten | M::SettleDisk | M::SettleDirty => {
                Self { does: "settles", does_not: "does not settle", did: "settled" }
            }
            _ => Self { does: "finishes", does_not: "does not finish", did: "finished" },
        }
    }
}

/// `12 blocks; minimum detectable effect: 4.1 %; A/A check, the baseline against itself: 1.010 times (0.970 to 1.05)`
pub(super) fn detail(comparison: &Comparison, undisturbed: Option<&Undisturbed>) -> String {
    let mut parts = vec![format!("{} blocks", comparison.blocks)];
    match &comparison.smallest_effect {
        Reading::Measured(share) => parts.push(format!("minimum detectable effect: {}", effect(*share))),
        Reading::Missing(why) => parts.push(format!("no minimum detectable effect: {why}")),
    }
    if let Reading::Measured(aa) = &comparison.aa {
        let interval = interval_text(aa.interval);
        parts.push(format!("A/A check, the baseline against itself: {} times ({interval})", ratio(aa.ratio)));
    }
    parts.extend(undisturbed.map(without));
    parts.extend(comparison.notes.iter().cloned());
    parts.join("; ")
}

/// `without disturbed trials (9 of 12 blocks are left): 1.82 times (1.61 to 2.02)`
pub fn without(undisturbed: &Undisturbed) -> String {
    let Undisturbed { blocks, of, estimate } = undisturbed;
    let figure = match estimate {
        Reading::Measured(e) => format!("{} times ({})", ratio(e.ratio), interval_text(e.interval)),
        Reading::Missing(Why::NotReached) => "- (in half of them a trial did not finish)".to_owned(),
        Reading::Missing(why) => format!("- ({why})"),
    };
    format!("without disturbed trials ({blocks} of {of} blocks are left): {figure}")
}

/// `` `a` is slower than `b` ``, `` `a` takes more memory than `b` ``
fn claim(pair: &Pair, verdict: &Verdict) -> String {
    let (better, worse) = directions(pair.metric.key.metric);
    let words = if verdict.is_better() { better } else { worse };
    let verb = if matches!(words, "faster" | "slower" | "shorter" | "longer") { "is" } else { "takes" };
    format!("`{}` {verb} {words} than `{}`", pair.names.variant, pair.names.baseline)
}

fn place(pair: &Pair) -> String {
    let at = if pair.names.at.is_empty() { String::new() } else { format!(" at `{}`", pair.names.at) };
    format!(" in `{}`{at}", pair.metric)
}

/// `: 1.84 times (1.71 to 1.98)`; nothing where there is no ratio.
fn figure(comparison: &Comparison) -> String {
    let Reading::Measured(middle) = comparison.ratio else { return String::new() };
    let interval = match &comparison.interval {
        Reading::Measured(interval) => format!(" ({})", interval_text(*interval)),
        Reading::Missing(_) => String::new(),
    };
    format!(": {} times{interval}", ratio(middle))
}

/// `1.71 to 1.98`, `at most 1.98`, `1.50 or more`.
pub fn interval_text(interval: RatioInterval) -> String {
    match (interval.low, interval.high) {
        (low, Some(high)) if low > 0.0 => format!("{} to {}", ratio(low), ratio(high)),
        (_, Some(high)) => format!("at most {}", ratio(high)),
        (low, None) if low > 0.0 => format!("{} or more", ratio(low)),
        (_, None) => "no bound yet".to_owned(),
    }
}

/// Where some trials of either did not finish, how many did: `; 11 of 12 trials finished (61 to 100 %), ...`.
fn unfinished(comparison: &Comparison, end: End) -> String {
    let some = |counts: Counts| counts.trials > counts.finished;
    if some(comparison.variant) || some(comparison.baseline) {
        return format!("; {}", outcomes(comparison, end));
    }
    String::new()
}

fn more(blocks: &Reading<u32>) -> String {
    match blocks {
        Reading::Measured(1) => "; about 1 more block would decide".to_owned(),
        Reading::Measured(n) => format!("; about {n} more blocks would decide"),
        Reading::Missing(_) => String::new(),
    }
}

/// `0 of 3 trials finished (0 to 71 %), of the baseline 6 of 6 (54 to 100 %)`, the intervals exact and at 95 %.
fn outcomes(comparison: &Comparison, end: End) -> String {
    let counts = |c: Counts| (format!("{} of {}", c.finished, c.trials), shares(c.interval(0.95)));
    let ((variant, share), (baseline, of_baseline)) = (counts(comparison.variant), counts(comparison.baseline));
    format!("{variant} trials {} ({share}), of the baseline {baseline} ({of_baseline})", end.did)
}

#[cfg(test)]
mod tests {
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
        let text = |low, high| interval_text(RatioInterval { low, high });
        assert_eq!(text(1.71, Some(1.98)), "1.71 to 1.98");
        assert_eq!(text(0.0, Some(1.98)), "at most 1.98");
        assert_eq!(text(1.5, None), "1.50 or more");
        assert_eq!(text(0.0, None), "no bound yet");
    }

    #[test]
    fn blocks_are_counted_in_words() {
        assert_eq!(more(&Reading::Measured(1)), "; about 1 more block would decide");
        assert_eq!(more(&Reading::Measured(12)), "; about 12 more blocks would decide");
    }
}
