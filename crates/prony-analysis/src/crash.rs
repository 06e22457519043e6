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

/// Why the rate and the syncs of the phase that cuts repeat are not those of the writes of a cut: an operation that finds nothing
/// to change writes nothing, and each one of a cut writes. `None` where each changed something, as far as is known.
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
            "{} of {} of the timed phase `{}` changed nothing, while each one of a cut writes",
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
mod tests {
    use prony_model::crash::Fault;
    use prony_model::spec::Durability;
    use prony_model::units::{Bytes, Nanos};

    use super::*;

    fn crash() -> CrashSpec {
        CrashSpec {
            name: "crash".to_owned(),
            during: "write".to_owned(),
            also: Vec::new(),
            cut: CutKind::Kill,
            cuts: 4,
            within: Nanos::from_secs(1),
            images: 1,
            creation: false,
        }
    }

    fn store(process_crash: ProcessCrash) -> EffectiveStore {
        let promise = Promise {
            class: Durability::Strict,
            process_crash,
            power_cut: PowerCut::Nothing,
            integrity: true,
            settings: "sync".to_owned(),
            default: true,
        };
        EffectiveStore {
            engine: "fake".to_owned(),
            version: "1".to_owned(),
            library: String::new(),
            durability: Durability::Strict,
            promise: Some(promise),
            settings: Default::default(),
            in_force: None,
            idiom: String::new(),
            services: Vec::new(),
        }
    }

    fn cut(cut: u32, acknowledged: u64, found: Found) -> CutRecord {
        let images = vec![ImageRecord { image: 0, contains: String::new(), found }];
        CutRecord {
            variant: 0,
            phase: "crash".to_owned(),
            cut,
            kind: CutKind::Kill,
            seed: 1,
            moment: Nanos::ZERO,
            effective: Some(store(ProcessCrash::Keeps)),
            ending: CutEnding::Cut {
                acknowledged,
                after: Nanos::ZERO,
                images,
                remarks: Vec::new(),
                saved: Reading::default(),
            },
            took: Nanos::ZERO,
        }
    }

    fn found(change: impl FnOnce(&mut Survived)) -> Found {
        let mut survived = Survived { written: Reading::Measured(Bytes::from_bytes(0)), ..Survived::default() };
        change(&mut survived);
        Found::Survived(Box::new(survived))
    }

    fn summary_of(cuts: &[CutRecord]) -> CrashSummary {
        summarised(0, &crash(), &cuts.iter().collect::<Vec<_>>())
    }

    #[test]
    fn finding_states_the_bound_of_so_many_cuts() {
        let cuts: Vec<CutRecord> = (0..30).map(|n| cut(n, 100, found(|_| ()))).collect();
        let summary = summary_of(&cuts);
        let CrashVerdict::Unbroken { below } = summary.verdict else { panic!("{:?}", summary.verdict) };
        assert!((below - (1.0 - 0.05f64.powf(1.0 / 30.0))).abs() < 1e-9, "{below}");
        assert_eq!((summary.cuts, summary.images), (30, 30));
    }

    #[test]
    fn every_kind_of_fault_breaks_a_promise_that_keeps_all() {
        let faults = [
            found(|survived| survived.lost = 1),
            found(|survived| survived.holes = 1),
            found(|survived| survived.partial = 1),
            found(|survived| survived.wrong = 1),
            found(|survived| survived.integrity = Some(vec!["page 3 is torn".to_owned()])),
            found(|survived| survived.refuses_writes = Some("no".to_owned())),
            Found::DoesNotOpen { message: "bad magic".to_owned() },
            Found::Unreadable { message: "bad page".to_owned() },
        ];
        for fault in faults {
            let summary = summary_of(&[cut(0, 9, found(|_| ())), cut(1, 7, fault.clone()), cut(2, 5, fault.clone())]);
            let CrashVerdict::Broken { broken, smallest } = summary.verdict else { panic!("{fault:?}") };
            assert_eq!((broken, smallest.cut, smallest.acknowledged), (2, 2, 5), "{fault:?}");
        }
    }

    #[test]
    fn commits_that_were_not_acknowledged_are_no_fault_and_a_tail_may_be_allowed() {
        let there = found(|survived| {
            survived.unacknowledged = 1;
            survived.integrity = Some(Vec::new());
        });
        assert!(matches!(summary_of(&[cut(0, 9, there)]).verdict, CrashVerdict::Unbroken { .. }));
        let mut tail = cut(0, 9, found(|survived| survived.lost = 5));
        tail.effective = Some(store(ProcessCrash::LosesTail));
        let summary = summary_of(&[tail.clone()]);
        assert!(matches!(summary.verdict, CrashVerdict::Unbroken { .. }));
        assert_eq!(summary.lost, Some(Spread { least: 5.0, median: 5.0, most: 5.0 }));
        tail.ending = cut(0, 9, found(|survived| survived.holes = 1)).ending;
        assert!(matches!(summary_of(&[tail]).verdict, CrashVerdict::Broken { .. }), "a hole is no tail");
    }

    #[test]
    fn what_was_not_checked_counts_in_no_bound() {
        let unchecked = Found::Unchecked { why: "killed".to_owned() };
        let summary = summary_of(&[cut(0, 9, unchecked.clone()), cut(1, 9, found(|_| ()))]);
        assert_eq!(summary.cuts, 1);
        assert!(matches!(summary.verdict, CrashVerdict::Unbroken { below } if below > 0.9));
        let none = summary_of(&[cut(0, 9, unchecked)]);
        assert_eq!(none.verdict, CrashVerdict::Unknown { why: "1 cut (killed)".to_owned() });
        let failed = CutRecord { ending: CutEnding::Failed { message: "full".to_owned() }, ..cut(0, 0, found(|_| ())) };
        assert_eq!(summary_of(&[failed]).verdict, CrashVerdict::Unknown { why: "1 cut (full)".to_owned() });
    }

    #[test]
    fn check_that_the_machine_ended_is_no_evidence_for_a_promise() {
        let full = |lost| found(move |survived| (survived.lost, survived.unfinished) = (lost, Some("full".to_owned())));
        let of = |lost, keeps| CutRecord { effective: Some(store(keeps)), ..cut(0, 9, full(lost)) };
        let tail = of(5, ProcessCrash::LosesTail);
        assert_eq!(
            summary_of(std::slice::from_ref(&tail)).verdict,
            CrashVerdict::Unknown { why: "1 cut (full)".to_owned() }
        );
        let summary = summary_of(&[of(5, ProcessCrash::Keeps)]);
        assert!(matches!(summary.verdict, CrashVerdict::Broken { broken: 1, .. }), "what was found before counts");
        assert_eq!(summary.images, 0, "whether it is corrupt was not checked");
        assert!(!was_checked(&tail) && was_checked(&of(5, ProcessCrash::Keeps)));
    }

    #[test]
    fn image_that_breaks_the_promise_counts_beside_one_that_was_not_checked() {
        let mut record = cut(0, 9, found(|survived| survived.lost = 1));
        let CutEnding::Cut { images, .. } = &mut record.ending else { panic!() };
        let found = Found::Unchecked { why: "disk full".to_owned() };
        images.push(ImageRecord { image: 1, contains: String::new(), found });
        assert!(breaks(&record).is_some());
        assert!(matches!(summary_of(&[record]).verdict, CrashVerdict::Broken { broken: 1, .. }));
    }

    #[test]
    fn cut_before_the_first_acknowledged_commit_is_no_evidence_unless_creation_is_tested() {
        let early = cut(0, 0, found(|_| ()));
        let why = "1 cut (no commit was acknowledged before the cut)".to_owned();
        assert_eq!(summary_of(std::slice::from_ref(&early)).verdict, CrashVerdict::Unknown { why: why.clone() });
        let summary = summary_of(&[early.clone(), cut(1, 5, found(|_| ()))]);
        assert_eq!((summary.cuts, summary.uncounted), (1, Some(why)));
        let created = summarised(0, &CrashSpec { creation: true, ..crash() }, &[&early]);
        assert!(matches!(created.verdict, CrashVerdict::Unbroken { .. }));
        let corrupt = cut(0, 0, Found::DoesNotOpen { message: "bad magic".to_owned() });
        assert!(matches!(summary_of(&[corrupt]).verdict, CrashVerdict::Broken { .. }));
    }

    #[test]
    fn contents_that_fit_several_numbers_of_commits_are_no_evidence_where_one_breaks_the_promise() {
        let fits = cut(0, 9, found(|survived| survived.lost_at_most = 5));
        let CrashVerdict::Unknown { why } = summary_of(std::slice::from_ref(&fits)).verdict else { panic!() };
        assert!(why.contains("fits several numbers of commits"), "{why}");
        let mut tail = fits;
        tail.effective = Some(store(ProcessCrash::LosesTail));
        assert!(matches!(summary_of(&[tail]).verdict, CrashVerdict::Unbroken { .. }), "a tail may be lost");
    }

    #[test]
    fn phases_are_untested_where_a_variant_is_unknown_or_every_variant_is_unsupported() {
        let counts = || summary_of(&[cut(0, 5, found(|_| ()))]);
        let early = || summary_of(&[cut(0, 0, found(|_| ()))]);
        let ending = || CutEnding::Unsupported { why: "no FUSE".to_owned() };
        let none = || summary_of(&[CutRecord { ending: ending(), ..cut(0, 0, found(|_| ())) }]);
        let is_untested = |all: &[CrashSummary]| !untested_of(all).is_empty();
        assert!(!is_untested(&[counts(), counts()]) && !is_untested(&[]));
        assert!(is_untested(&[early(), counts()]), "of one of them nothing is known");
        assert!(!is_untested(&[none(), counts()]), "that an engine has no such promise is a result beside the others'");
        assert!(is_untested(&[none(), none()]));
    }

    #[test]
    fn cut_that_broke_the_promise_counts_beside_one_that_was_unsupported() {
        let why = "no FUSE".to_owned();
        let none = CutRecord { ending: CutEnding::Unsupported { why: why.clone() }, ..cut(0, 0, found(|_| ())) };
        assert_eq!(summary_of(std::slice::from_ref(&none)).verdict, CrashVerdict::Unsupported { why });
        let broken = cut(1, 9, found(|survived| survived.lost = 1));
        assert!(matches!(summary_of(&[none.clone(), broken]).verdict, CrashVerdict::Broken { broken: 1, .. }));
        let early = summary_of(&[none, cut(1, 9, found(|_| ()))]);
        assert!(matches!(early.verdict, CrashVerdict::Unsupported { .. }));
    }

    #[test]
    fn description_is_of_the_fault_that_is_named() {
        let of = |kind, text: &str| Fault { kind, text: text.to_owned() };
        let faults = vec![of(FaultKind::Partial, "half"), of(FaultKind::Hole, "gap"), of(FaultKind::Wrong, "odd")];
        let said = |change: &dyn Fn(&mut Survived)| {
            let record = cut(0, 9, found(|survived| (survived.faults = faults.clone(), change(survived)).1));
            let CrashVerdict::Broken { smallest, .. } = summary_of(&[record]).verdict else { panic!() };
            smallest.what
        };
        assert_eq!(said(&|survived| survived.holes = 2), "2 commits missing before later ones: gap");
        assert_eq!(said(&|survived| (survived.holes, survived.partial) = (2, 1)), "1 transaction in part: half");
        assert_eq!(said(&|survived| (survived.holes, survived.wrong) = (2, 1)), "1 wrong record: odd");
    }

    #[test]
    fn reasons_are_those_of_cuts_that_do_not_count_and_are_counted() {
        let unchecked = || Found::Unchecked { why: "disk full".to_owned() };
        let mut broken = cut(3, 9, found(|survived| survived.lost = 1));
        let CutEnding::Cut { images, .. } = &mut broken.ending else { panic!() };
        images.push(ImageRecord {
            image: 1,
            contains: String::new(),
            found: Found::Unchecked { why: "hung".to_owned() },
        });
        let cuts = [cut(0, 9, unchecked()), cut(1, 0, found(|_| ())), cut(2, 5, unchecked()), broken.clone()];
        assert_eq!(
            summary_of(&cuts).uncounted.as_deref(),
            Some("2 cuts (disk full); 1 cut (no commit was acknowledged before the cut)")
        );
        assert!(was_checked(&broken) && was_checked(&cuts[1]) && !was_checked(&cuts[0]), "which are made again");
        assert!(!was_checked(&CutRecord { ending: CutEnding::Failed { message: String::new() }, ..broken }));
    }

    /// A store of which most images could not be read had lost 0 commits.
    #[test]
    fn images_that_cannot_be_read_are_in_no_number_of_lost_commits_and_counted() {
        let none = || Found::DoesNotOpen { message: "bad magic".to_owned() };
        let unreadable = || Found::Unreadable { message: "bad page".to_owned() };
        let wrong = || found(|survived| survived.wrong = 1);
        let summary = summary_of(&[cut(0, 9, none()), cut(1, 9, unreadable()), cut(2, 9, wrong())]);
        assert_eq!((summary.images, summary.corrupt, summary.unreadable), (3, 3, 2));
        assert_eq!(summary.lost, Some(Spread { least: 0.0, median: 0.0, most: 0.0 }));
    }

    #[test]
    fn each_class_allows_after_a_power_failure_what_it_says() {
        let after = |power_cut: PowerCut, fault: Found| {
            let mut record = CutRecord { kind: CutKind::PowerCut, ..cut(0, 9, fault) };
            let promise = record.effective.as_mut().unwrap().promise.as_mut().unwrap();
            promise.power_cut = power_cut;
            let crash = CrashSpec { cut: CutKind::PowerCut, ..crash() };
            summarised(0, &crash, &[&record]).verdict
        };
        let lost = |lost: u64| found(move |survived| survived.lost = lost);
        let hole = || found(|survived| survived.holes = 1);
        let unbroken = |verdict: CrashVerdict| matches!(verdict, CrashVerdict::Unbroken { .. });
        assert!(unbroken(after(PowerCut::Nothing, lost(0))) && !unbroken(after(PowerCut::Nothing, lost(1))));
        assert!(unbroken(after(PowerCut::LastCommit, lost(1))) && !unbroken(after(PowerCut::LastCommit, lost(2))));
        assert!(unbroken(after(PowerCut::Tail, lost(900))) && !unbroken(after(PowerCut::Tail, hole())));
        let corrupt = Found::DoesNotOpen { message: "bad magic".to_owned() };
        assert!(!unbroken(after(PowerCut::Tail, corrupt.clone())));
        assert_eq!(after(PowerCut::Anything, corrupt), CrashVerdict::NothingPromised);
    }
}
