//! Tests of what cuts say of a promise.

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
    images.push(ImageRecord { image: 1, contains: String::new(), found: Found::Unchecked { why: "hung".to_owned() } });
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
