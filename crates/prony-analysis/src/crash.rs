//! Compares what crash trials found with what the driver of the store promises (METHOD 5.2).

use std::collections::BTreeSet;

use prony_experiment::design::Experiment;
use prony_model::crash::{
    CrashSummary, CrashVerdict, CutEnding, CutKind, CutRecord, FaultKind, Found, ImageRecord, Reproduction, Spread,
    Survived,
};
use prony_model::finding::{Finding, Severity};
use prony_model::metric::{Metric, MetricKey, MetricName};
use prony_model::number::{count, first_few};
use prony_model::reading::Reading;
use prony_model::record::effective::{PowerCut, ProcessCrash, Promise};
use prony_model::record::{EffectiveStore, TrialRecord};
use prony_model::spec::{Action, CrashSpec};
use serde_json::json;

use prony_stats::binomial_interval;
use prony_stats::summary::summary;

use crate::verdicts::figure;

/// A two-sided interval at this level has an upper end that holds with confidence 95 % by itself.
const LEVEL: f64 = 0.9;

/// What a promise allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Allowed {
    /// Acknowledged commits that may be missing, at most.
    lost: u64,
    /// In words.
    words: &'static str,
}

/// What the promise says of such a cut; `None` where it says nothing. What survives is otherwise to be a prefix of the commit
/// order, and intact.
const fn allowed(promise: &Promise, kind: CutKind) -> Option<Allowed> {
    let tail = "may lose the most recent commits, and those that survive are a prefix of the commit order";
    let (lost, words) = match (kind, promise.process_crash, promise.power_cut) {
        (CutKind::Kill, ProcessCrash::Keeps, _) | (CutKind::PowerCut, _, PowerCut::Nothing) => {
            (0, "loses no acknowledged commit")
        }
        (CutKind::PowerCut, _, PowerCut::LastCommit) => (1, "loses at most the last commit"),
        (CutKind::Kill, ProcessCrash::LosesTail, _) | (CutKind::PowerCut, _, PowerCut::Tail) => (u64::MAX, tail),
        (CutKind::Kill, ProcessCrash::Anything, _) | (CutKind::PowerCut, _, PowerCut::Anything) => return None,
    };
    Some(Allowed { lost, words })
}

/// The first image of a cut that breaks what the store promises, and how.
pub fn breaks(cut: &CutRecord) -> Option<(u32, String)> {
    let promise = cut.effective.as_ref()?.promise.as_ref()?;
    let allowed = allowed(promise, cut.kind)?;
    let found = smallest(&checked(cut, Some(allowed), true).ok()?, allowed)?;
    Some((found.image, found.what))
}

/// Whether a cut need not be made again: all of its images were checked, or one of them breaks what the store promises.
pub fn was_checked(cut: &CutRecord) -> bool {
    all_checked(cut) || breaks(cut).is_some()
}

fn all_checked(cut: &CutRecord) -> bool {
    match &cut.ending {
        CutEnding::Cut { images, .. } => {
            !images.is_empty() && images.iter().all(|image| image.found.unchecked().is_none())
        }
        CutEnding::Unsupported { .. } | CutEnding::Failed { .. } => false,
    }
}

/// What the crash trials of a run show, by variant and crash phase; nothing of a phase of which no cut is stored.
pub fn of(experiment: &Experiment, cuts: &[CutRecord]) -> Vec<CrashSummary> {
    let phases =
        experiment.variants().iter().flat_map(|variant| variant.spec.crashes.iter().map(|crash| (variant.id, crash)));
    let summary = |(variant, crash): (usize, &CrashSpec)| {
        let own: Vec<&CutRecord> =
            cuts.iter().filter(|cut| cut.variant == variant && cut.phase == crash.name).collect();
        // A variant that an interrupted run has not reached is said to be unknown.
        cuts.iter().any(|cut| cut.phase == crash.name).then(|| summarised(variant, crash, &own))
    };
    phases.filter_map(summary).collect()
}

/// Why the rate and the syncs of the phase that crash trials repeat are not those of the crash trials: an operation that finds
/// nothing to change writes nothing, and every operation of a crash trial writes. `None` where each changed something, as far as is known.
pub fn changed_less<'t>(
    experiment: &Experiment,
    summary: &CrashSummary,
    trials: impl IntoIterator<Item = &'t TrialRecord>,
) -> Option<String> {
    let phases = &experiment.variants()[summary.variant].spec.phases;
    let action = &phases.iter().find(|phase| phase.name == summary.during)?.action;
    let (mut idle, mut all) = (0.0, 0.0);
    for trial in trials {
        let amount = |metric| {
            let key = MetricKey::amount(metric);
            figure(trial, &MetricName { phase: summary.during.clone(), instance: None, key })
        };
        let Some(operations) = amount(Metric::Operations) else { continue };
        let missed = amount(Metric::Misses);
        let found_nothing = match action {
            Action::Compute(_) => missed.map(|missed| operations - missed),
            Action::Delete(_) => missed,
            _ => None,
        };
        idle += found_nothing.unwrap_or(0.0) + amount(Metric::Refused).unwrap_or(0.0);
        all += operations;
    }
    (idle > 0.0).then(|| {
        format!(
            "{} of {} of the timed phase `{}` changed nothing, but every operation of a crash trial writes",
            idle as u64,
            count(all as u64, "operation"),
            summary.during
        )
    })
}

/// At most so many variants are named in the finding; the others are counted.
const NAMED: usize = 6;

/// Variants whose crash trials broke what their stores promise.
pub fn broken_promises(experiment: &Experiment, cuts: &[CutRecord]) -> Option<Finding> {
    let broken = of(experiment, cuts).into_iter().filter_map(|summary| match summary.verdict {
        CrashVerdict::Broken { broken, smallest } => {
            let variant = experiment.labels(&experiment.variants()[summary.variant]);
            let (phase, cuts) = (summary.phase, count(summary.cuts, "cut"));
            Some(format!("`{variant}` in `{phase}`, {broken} of {cuts}: {}", smallest.what))
        }
        _ => None,
    });
    let broken: Vec<String> = broken.collect();
    let number = broken.len();
    let each = first_few(broken, NAMED, ("; ", "; and "), "more variant");
    let message = format!("crash trials broke what the store promises: {each}");
    let hint = "the promise of a durability class is in `prony engines`; the cuts with their seeds and what was found are in \
                `prony report --format json`";
    let finding = Finding::of("promise_broken", Severity::Warning, message, hint).with(json!({ "broken": number }));
    (number > 0).then_some(finding)
}

/// What is wrong with the crash trials of a run: one broke a promise, or they tested none.
pub fn fault(experiment: &Experiment, cuts: &[CutRecord]) -> Option<&'static str> {
    let broken = broken_promises(experiment, cuts).map(|_| "a crash trial broke what the store promises");
    let is_untested = || !untested(experiment, cuts).is_empty();
    broken.or_else(|| is_untested().then_some("crash trials of a variant, or of all variants, tested nothing"))
}

/// Crash phases that tested nothing: of a variant, no cut could be made and checked; or no variant has a cut that counts, since
/// the engines or the machine do not offer what cuts need.
pub fn untested(experiment: &Experiment, cuts: &[CutRecord]) -> BTreeSet<String> {
    untested_of(&of(experiment, cuts))
}

fn untested_of(all: &[CrashSummary]) -> BTreeSet<String> {
    let is_tested = |phase: &str| all.iter().any(|summary| summary.phase == phase && summary.cuts > 0);
    let is_unknown = |summary: &CrashSummary| matches!(summary.verdict, CrashVerdict::Unknown { .. });
    let untested = all.iter().filter(|summary| is_unknown(summary) || !is_tested(&summary.phase));
    untested.map(|summary| summary.phase.clone()).collect()
}

/// A cut that counts.
struct Checked<'a> {
    record: &'a CutRecord,
    acknowledged: u64,
    images: &'a [ImageRecord],
    remarks: &'a [String],
    saved: &'a Reading<String>,
}

/// A cut counts if an image breaks what is promised; otherwise if all of its images have been checked, a commit could be lost
/// or the creation of the store is tested, and it is known whether what was lost is allowed.
///
/// # Errors
/// Why it does not count.
fn checked(record: &CutRecord, allowed: Option<Allowed>, creation: bool) -> Result<Checked<'_>, String> {
    let cut = match &record.ending {
        CutEnding::Cut { acknowledged, images, remarks, saved, .. } => {
            Checked { record, acknowledged: *acknowledged, images, remarks, saved }
        }
        CutEnding::Failed { message } => return Err(message.clone()),
        CutEnding::Unsupported { why } => return Err(why.clone()),
    };
    let images = cut.images;
    let breaks = allowed.is_some_and(|allowed| images.iter().any(|image| broken(&image.found, allowed).is_some()));
    let unchecked = images.iter().find_map(|image| image.found.unchecked());
    let most = allowed.map_or(u64::MAX, |allowed| allowed.lost);
    let fits_several =
        images.iter().filter_map(|image| survived(&image.found)).any(|survived| survived.lost_at_most > most);
    let why = match unchecked {
        _ if breaks => return Ok(cut),
        Some(why) => why,
        None if cut.acknowledged == 0 && !creation => "no commit was acknowledged before the cut",
        None if fits_several => {
            "what was found fits several numbers of commits, and with the smallest too many are lost"
        }
        None => return Ok(cut),
    };
    Err(why.to_owned())
}

fn summarised(variant: usize, crash: &CrashSpec, records: &[&CutRecord]) -> CrashSummary {
    let effective = records.iter().find_map(|record| record.effective.as_ref());
    let promise = effective.and_then(|effective| effective.promise.as_ref());
    let may = promise.and_then(|promise| allowed(promise, crash.cut));
    let mut uncounted = Vec::new();
    let counted = records.iter().filter_map(|record| match checked(record, may, crash.creation) {
        Ok(checked) => Some(checked),
        Err(why) => {
            uncounted.push(why);
            None
        }
    });
    let cuts: Vec<Checked<'_>> = counted.collect();
    let images = || cuts.iter().flat_map(|cut| cut.images);
    let survived = || images().filter_map(|image| survived(&image.found));
    CrashSummary {
        variant,
        phase: crash.name.clone(),
        during: crash.during.clone(),
        kind: crash.cut,
        durability: effective.map(|effective: &EffectiveStore| effective.durability),
        promise: promise.map(|_| may.map_or("promises nothing", |allowed| allowed.words).to_owned()),
        cuts: cuts.len() as u32,
        planned: crash.cuts,
        uncounted: not_counted(&uncounted),
        images: images().filter(|image| image.found.unchecked().is_none()).count() as u32,
        acknowledged: spread(cuts.iter().map(|cut| cut.acknowledged as f64)),
        lost: spread(survived().map(|survived| survived.lost as f64)),
        lost_time: spread(survived().map(|survived| survived.oldest_lost.map_or(0.0, |time| time.as_nanos() as f64))),
        with_holes: survived().filter(|survived| survived.holes > 0).count() as u32,
        with_partial: survived().filter(|survived| survived.partial > 0).count() as u32,
        corrupt: images().filter(|image| corruption(&image.found).is_some()).count() as u32,
        unreadable: images().filter(|image| is_unreadable(&image.found)).count() as u32,
        open: spread(survived().map(|survived| survived.open.as_nanos() as f64)),
        open_written: spread(survived().filter_map(|survived| Some(survived.written.measured()?.as_bytes() as f64))),
        // Why images may be less severe than a power failure: of the first cut that has such a remark.
        remarks: cuts.iter().map(|cut| cut.remarks).find(|remarks| !remarks.is_empty()).unwrap_or_default().to_vec(),
        verdict: verdict(records, (&cuts, &uncounted), may),
    }
}

fn verdict(
    records: &[&CutRecord],
    (cuts, uncounted): (&[Checked<'_>], &[String]),
    allowed: Option<Allowed>,
) -> CrashVerdict {
    let unsupported = records.iter().find_map(|record| match &record.ending {
        CutEnding::Unsupported { why } => Some(why.clone()),
        _ => None,
    });
    if cuts.is_empty() {
        let unknown = || not_counted(uncounted).unwrap_or_else(|| "no cut is stored".to_owned());
        return unsupported
            .map_or_else(|| CrashVerdict::Unknown { why: unknown() }, |why| CrashVerdict::Unsupported { why });
    }
    let Some(allowed) = allowed else { return CrashVerdict::NothingPromised };
    let broken: Vec<Reproduction> = cuts.iter().filter_map(|cut| smallest(cut, allowed)).collect();
    match (broken.iter().min_by_key(|found| (found.acknowledged, found.cut)), unsupported) {
        (Some(smallest), _) => CrashVerdict::Broken { broken: broken.len() as u32, smallest: smallest.clone() },
        // Cuts before the call that is not supported are early moments only.
        (None, Some(why)) => CrashVerdict::Unsupported { why },
        (None, None) => CrashVerdict::Unbroken { below: binomial_interval(0, cuts.len() as u32, LEVEL).1 },
    }
}

/// At most so many reasons are named.
const REASONS: usize = 3;

/// How many cuts do not count for each reason; `None` where all count.
fn not_counted(reasons: &[String]) -> Option<String> {
    let mut each: Vec<(&String, u32)> = Vec::new();
    for reason in reasons {
        match each.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, number)) => *number += 1,
            None => each.push((reason, 1)),
        }
    }
    let each = each.into_iter().map(|(reason, number)| format!("{} ({reason})", count(number, "cut"))).collect();
    (!reasons.is_empty()).then(|| first_few(each, REASONS, ("; ", "; and "), "more reason"))
}

/// The image of a cut that breaks the promise and lacks the fewest commits.
fn smallest(cut: &Checked<'_>, allowed: Allowed) -> Option<Reproduction> {
    let broken = cut.images.iter().filter_map(|image| Some((image, broken(&image.found, allowed)?)));
    let lost = |image: &ImageRecord| survived(&image.found).map_or(u64::MAX, |survived| survived.lost);
    let (image, what) = broken.min_by_key(|(image, _)| (lost(image), image.image))?;
    let (seed, image, saved) = (cut.record.seed, image.image, cut.saved.clone());
    Some(Reproduction { cut: cut.record.cut, image, acknowledged: cut.acknowledged, what, seed, saved })
}

/// How what was found breaks a promise; `None` where it does not.
fn broken(found: &Found, allowed: Allowed) -> Option<String> {
    if let Some(what) = corruption(found) {
        return Some(what);
    }
    let survived = survived(found)?;
    if survived.partial > 0 {
        return Some(format!(
            "{} in part{}",
            count(survived.partial, "transaction"),
            first(survived, FaultKind::Partial)
        ));
    }
    if survived.holes > 0 {
        let holes = count(survived.holes, "commit");
        return Some(format!("{holes} missing before later ones{}", first(survived, FaultKind::Hole)));
    }
    (survived.lost > allowed.lost).then(|| {
        let before = survived.oldest_lost.map(|time| format!(", the oldest acknowledged {time} before the cut"));
        format!("{} lost{}", count(survived.lost, "acknowledged commit"), before.unwrap_or_default())
    })
}

/// The first fault of a kind, as the end of a sentence.
fn first(survived: &Survived, kind: FaultKind) -> String {
    let first = survived.faults.iter().find(|fault| fault.kind == kind);
    first.map(|fault| format!(": {}", fault.text)).unwrap_or_default()
}

const fn survived(found: &Found) -> Option<&Survived> {
    match found {
        Found::Survived(survived) => Some(survived),
        Found::DoesNotOpen { .. } | Found::Unreadable { .. } | Found::Unchecked { .. } => None,
    }
}

/// Whether nothing shows which commits are there.
const fn is_unreadable(found: &Found) -> bool {
    matches!(found, Found::DoesNotOpen { .. } | Found::Unreadable { .. })
}

/// In which way a store is corrupt; `None` where it is not.
fn corruption(found: &Found) -> Option<String> {
    let survived = match found {
        Found::DoesNotOpen { message } => return Some(format!("does not open: {message}")),
        Found::Unreadable { message } => return Some(format!("opens and cannot be read: {message}")),
        Found::Unchecked { .. } => return None,
        Found::Survived(survived) => survived,
    };
    if survived.wrong > 0 {
        return Some(format!("{}{}", count(survived.wrong, "wrong record"), first(survived, FaultKind::Wrong)));
    }
    if let Some(fault) = survived.integrity.iter().flatten().next() {
        return Some(format!("fails the engine's own check: {fault}"));
    }
    survived.refuses_writes.as_ref().map(|why| format!("takes no further commit: {why}"))
}

fn spread(values: impl Iterator<Item = f64>) -> Option<Spread> {
    let all = summary(&values.collect::<Vec<f64>>())?;
    Some(Spread { least: all.min, median: all.median, most: all.max })
}

#[cfg(test)]
mod tests;
