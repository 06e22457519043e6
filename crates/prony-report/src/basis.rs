//! Chooses the verdicts that a brief report shows, and those whose basis it shows.

use prony_analysis::verdicts::{Explained, Line, declared};
use prony_experiment::design::Experiment;
use prony_model::number::count;
use prony_model::reading::{Reading, Why};
use prony_stats::{RatioInterval, Verdict};

/// With more comparisons than this, a brief report shows the basis of those only in which something is to be heeded.
const DETAILED: usize = 6;

/// Clears the details of many verdicts, of those that say nothing unusual; whether it did.
pub(super) fn cut(lines: &mut [Line]) -> bool {
    if lines.len() <= DETAILED {
        return false;
    }
    let plain = lines.iter_mut().filter(|line| !is_unusual(line));
    plain.map(|line| line.detail.clear()).count() > 0
}

/// Takes out the verdicts of phases in which the caller is not interested; if none is left, says where they are and how
/// to have the `phases` that were asked for compared. `shown` is a metric of those.
pub(super) fn elsewhere(
    lines: &mut Vec<Line>,
    phases: &[&str],
    (experiment, shown, show): (&Experiment, &str, &str),
) -> Option<String> {
    let any = !lines.is_empty();
    lines.retain(|line| phases.contains(&line.pair.metric.phase.as_str()));
    if !any || !lines.is_empty() {
        return None;
    }
    let declared: Vec<String> = declared(experiment).iter().map(ToString::to_string).collect();
    let metrics: Vec<String> =
        declared.iter().map(String::as_str).chain([shown]).map(|name| format!("\"{name}\"")).collect();
    Some(format!(
        "No verdict on `{}`: the verdicts of this run are on `{}` (`{show}`). To compare it too, write `metrics = [{}]` in \
         `[compare]` of the experiment file and run again.",
        phases.join("`, `"),
        declared.join("`, `"),
        metrics.join(", ")
    ))
}

/// Explains each term at the first verdict only, unless each basis is folded by itself.
pub(super) fn explain_once(lines: &mut [Line], folded: bool) {
    let mut explained = Explained::default();
    lines.iter_mut().filter(|_| !folded).for_each(|line| line.detail.explain_once(&mut explained));
}

/// Leaves the minimum detectable effect out where a difference was found, of which it says nothing, and where the verdict
/// says that blocks are too few.
pub(super) fn omit_detectable(lines: &mut [Line]) {
    let of_no_use = |line: &&mut Line| {
        let verdict = &line.comparison.verdict;
        verdict.is_difference() || matches!(line.comparison.p, Reading::Missing(Why::TooFew { .. }))
    };
    lines.iter_mut().filter(of_no_use).for_each(|line| line.detail.omit_detectable());
}

/// In place of many sentences that all say that blocks are too few so far: how many there are, and how many are needed.
pub(super) fn too_early(lines: &[Line]) -> Option<String> {
    let few = |line: &Line| match (&line.comparison.verdict, &line.comparison.p) {
        (Verdict::CantTell { .. }, Reading::Missing(Why::TooFew { have, need })) => Some((*have, *need)),
        _ => None,
    };
    let all: Vec<(u64, u64)> = lines.iter().map(few).collect::<Option<_>>()?;
    let (have, need) = (all.iter().map(|few| few.0).max()?, all.iter().map(|few| few.1).min()?);
    (lines.len() > DETAILED).then(|| {
        let blocks = count(have, "block");
        format!("No verdict yet: at most {blocks} of a comparison ran, and this plan has no verdict before {need}.")
    })
}

/// Whether it found no difference (the minimum detectable effect says what that means), the baseline differed from itself, the
/// undisturbed trials have another ratio than the verdict says, or the comparison has a remark.
fn is_unusual(line: &Line) -> bool {
    let within =
        |interval: RatioInterval, ratio: f64| interval.low <= ratio && interval.high.is_none_or(|high| ratio <= high);
    let Line { comparison, undisturbed, .. } = line;
    let differs_from_itself = comparison.aa.measured().is_some_and(|aa| !within(aa.interval, 1.0));
    let undisturbed = undisturbed.as_ref().and_then(|left| left.estimate.measured());
    let interval = comparison.interval.measured();
    let disagrees = undisturbed.zip(interval).is_some_and(|(left, interval)| !within(*interval, left.ratio));
    let found_none =
        matches!(comparison.verdict, Verdict::NoDifference | Verdict::DiffersWithinMargin | Verdict::CantTell { .. });
    found_none || differs_from_itself || disagrees || !comparison.notes.is_empty()
}
