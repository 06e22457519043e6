//! Compares the statuses of expected answers between two variants: a variant that redirects to a login page does other work than
//! one that stores a record, though both statuses are expected by default.

use std::collections::BTreeMap;

use super::questions;
use super::reads::{WORK, noise};
use super::variant_trials::{InPhase, VariantTrials};
use prony_model::metric::{Metric, MetricName};
use prony_model::record::PhaseRecord;
use prony_model::spec::PhaseSpec;

/// How many statuses of a variant a reason names, the most frequent first.
const NAMED: usize = 4;

/// Why nothing but counts of answers is compared of a phase whose expected answers had other statuses. They are counted for the whole
/// phase, so that kinds and steps are not compared either.
pub(super) fn unequal(both: [InPhase<'_>; 2], name: &MetricName) -> Option<String> {
    if is_of_ends(name.key.metric) { None } else { differ(both) }
}

/// Whether a metric counts how operations ended, which is compared whatever they did and whatever is stored.
pub(super) fn is_of_ends(metric: Metric) -> bool {
    use Metric::{Conflicts, Errors, Ok, Operations, Refused, Retries, Skipped, Timeouts, Unfinished};
    matches!(metric, Conflicts | Errors | Ok | Operations | Refused | Retries | Skipped | Timeouts | Unfinished)
        || matches!(metric, Metric::Open(_)) && metric.counter().is_none()
}

/// How the statuses of a phase differ, if the share of a class of them does by more than chance. Those of other mixes of requests differ
/// as the mixes do.
pub(super) fn differ([(a, baseline), (b, variant)]: [InPhase<'_>; 2]) -> Option<String> {
    if !questions::same_mix(a, b) {
        return None;
    }
    let (ours, theirs) = (expected(a, baseline)?, expected(b, variant)?);
    let all = |counts: &Counts| counts.values().sum::<f64>();
    let (x, y) = (all(&ours), all(&theirs));
    let only_reads = only_reads(a) && only_reads(b);
    let class = |status: &u16| class(*status, only_reads);
    let mut classes = ours.keys().chain(theirs.keys()).map(class);
    let differs = classes.any(|one| {
        let of = |counts: &Counts| {
            counts.iter().filter(|(status, _)| class(status) == one).map(|(_, count)| count).sum::<f64>()
        };
        let share = (of(&ours) + of(&theirs)) / (x + y);
        // A share spreads less than the mean that `noise` is for: by this part of it.
        let spread = (share * (1.0 - share)).sqrt();
        (of(&ours) / x - of(&theirs) / y).abs() > WORK + spread * noise(x, y)
    });
    let (phase, ours, theirs) = (&a.name, text(&ours), text(&theirs));
    differs.then(|| {
        format!("expected answers of `{phase}` had other statuses: {ours} in `{baseline}`, but {theirs} in `{variant}`")
    })
}

type Counts = BTreeMap<u16, f64>;

/// What a status says (RFC 9110, section 15). Servers that do the same may answer 200 or 201, or redirect by 302 or 303. But 202 says that
/// nothing is done yet, 206 that a part was sent, and 304 that nothing was. 204 has no content: after a write that is as good as 200, since
/// a PUT or a DELETE may answer with either, but a read that is answered so read nothing.
const fn class(status: u16, only_reads: bool) -> u16 {
    match status {
        202 | 206 | 304 => status,
        204 if only_reads => status,
        _ => status / 100,
    }
}

/// Whether no request of a phase may write. Statuses are counted for the whole phase: of a mix that has writes too it is not known which
/// requests were answered with 204, and those of the writes must not refuse a comparison.
fn only_reads(phase: &PhaseSpec) -> bool {
    phase.action.http().is_some_and(|http| !http.may_write())
}

/// How many answers of each status that requests of the phase expect came in all trials that completed it; `None` where none came.
fn expected(phase: &PhaseSpec, all: &VariantTrials<'_>) -> Option<Counts> {
    let http = phase.action.http()?;
    let is_expected = |status: u16| http.kinds.iter().any(|kind| kind.expect.contains(status));
    let mut counts = Counts::new();
    for (status, count) in all.complete(&phase.name).flat_map(of_record) {
        if is_expected(status) && count > 0.0 {
            *counts.entry(status).or_default() += count;
        }
    }
    (!counts.is_empty()).then_some(counts)
}

fn of_record(phase: &PhaseRecord) -> impl Iterator<Item = (u16, f64)> + '_ {
    let readings = phase.readings.get("").into_iter().flatten();
    readings.filter_map(|(key, reading)| match key.0.metric {
        Metric::Open(name) => name.as_status().zip(reading.measured().copied()),
        _ => None,
    })
}

fn text(counts: &Counts) -> String {
    let mut all: Vec<(&u16, &f64)> = counts.iter().collect();
    all.sort_by(|a, b| b.1.total_cmp(a.1));
    let named = all.iter().take(NAMED).map(|(status, count)| format!("{count:.0} of {status}"));
    named.collect::<Vec<_>>().join(" and ")
}
