//! Tests of the guard on answers that differ.

use super::*;

pub(super) fn answered(digest: &str, rows: impl Into<Option<u64>>) -> TrialRecord {
    let mut with = calm();
    with.phases[0].answer = Some(Answer { rows: rows.into(), digest: digest.into(), comparable: true });
    with
}

pub(super) fn answers(a: &TrialRecord, b: &TrialRecord) -> Vec<Finding> {
    let spec = spec("lmdb");
    variants::answers_differ([&variant_trials("lmdb", &spec, a), &variant_trials("redb", &spec, b)])
}

#[test]
fn answers_that_differ_refuse_the_comparison() {
    let found = answers(&answered("lines:aa", 10), &answered("lines:ab", 10));
    assert_eq!((found.len(), found[0].severity), (1, Severity::Refusal));
    assert_eq!(found[0].message, "`lmdb` and `redb` returned 10 rows each, but not the same rows");
    assert_eq!(variants::refusal(&found).as_deref(), Some(found[0].message.as_str()));
    let rows = answers(&answered("lines:aa", 10), &answered("lines:ab", 9));
    assert_eq!(rows[0].message, "`lmdb` returned 10 rows, but `redb` returned 9");
    let (spec, time) = (spec("lmdb"), "write.time".parse().unwrap());
    let (one, other) = (answered("lines:aa", 10), answered("lines:ab", 9));
    let [a, b] = [&one, &other].map(|trial| variant_trials("lmdb", &spec, trial));
    assert_eq!(variants::other_answers_or_work([&a, &b], &time), Some(rows[0].message.replace("redb", "lmdb")));
    assert_eq!(variants::other_answers_or_work([&a, &a], &time), None);
}

#[test]
fn answers_that_programs_report_must_agree_too() {
    assert_eq!(answers(&answered("reported:aa", None), &answered("reported:aa", None)), []);
    assert_eq!(
        answers(&answered("reported:aa", None), &answered("reported:aa", 7)),
        [],
        "one has no number, the digests agree"
    );
    let zero = answers(&answered("reported:aa", 0), &answered("reported:aa", 7));
    assert_eq!(zero[0].message, "`lmdb` returned 0 rows, but `redb` returned 7", "no rows is a number");
    let found = answers(&answered("reported:aa", None), &answered("reported:ab", 7));
    assert_eq!(found[0].severity, Severity::Refusal);
    assert_eq!(found[0].message, "`lmdb` and `redb` reported different answers: `aa` and `ab`");
    assert_eq!(answers(&answered("rows:", 5), &answered("reported:aa", 5)), [], "one of them has a digest for itself");
    let nothing_shared = answers(&answered("rows:", 5), &answered("reported:aa", None));
    assert_eq!(nothing_shared[0].severity, Severity::Refusal);
    assert_eq!(nothing_shared[0].message, "`redb` reported a digest, and `lmdb` none");
    assert_eq!(
        answers(&answered("lines:aa", None), &answered("rows:", 5))[0].message,
        "the answers of `lmdb` and `redb` are of different kinds (lines, rows) and cannot be compared"
    );
    let rows = answers(&answered("rows:", 5), &answered("rows:", 4));
    assert_eq!(rows[0].message, "`lmdb` returned 5 rows, but `redb` returned 4");
    for kind in ["rows:", "bodies:ab", "reported:ab"] {
        for found in [answers(&answered(kind, 5), &answered("", 4)), answers(&answered("", 5), &answered(kind, 4))] {
            assert!(!found[0].hint.contains("verify"), "it works on a store only: {}", found[0].hint);
        }
    }
}

/// A program that left out its digest was called faster, since the number of rows was the same.
#[test]
fn digest_that_one_of_two_programs_leaves_out_refuses_the_comparison() {
    let observed = |digest: &str| {
        let mut record = answered(digest, 5);
        record.phases[0].action = "observe".to_owned();
        record
    };
    let of = |spec: &TrialSpec, a: &str, b: &str| {
        let (a, b) = (observed(a), observed(b));
        let found = variants::answers_differ([&variant_trials("x", spec, &a), &variant_trials("y", spec, &b)]);
        found.into_iter().map(|finding| finding.message).collect::<Vec<_>>()
    };
    let spec = spec("lmdb");
    assert_eq!(of(&spec, "reported:aa", "rows:"), ["`x` reported a digest, and `y` none"]);
    assert_eq!(of(&spec, "rows:", "reported:aa"), ["`y` reported a digest, and `x` none"]);
    assert_eq!(of(&spec, "rows:", "rows:"), [""; 0]);
    assert_eq!(of(&spec, "parts:", "reported:aa"), [""; 0], "replicas have a digest each");
}

/// Two programs that both wrote their digests where the order of lines was not known passed as programs that agree.
#[test]
fn answers_that_are_missing_because_lines_have_no_order_refuse_the_comparison() {
    let spec = spec("lmdb");
    let observed = |unordered: &[(&str, bool)], answer: Option<&str>| {
        let unordered = unordered.iter().map(|(phase, answers)| ((*phase).to_owned(), *answers)).collect();
        let program = EffectiveProgram { unordered, ..EffectiveProgram::default() };
        let mut record = TrialRecord { effective: Some(Effective::Program(Arc::new(program))), ..calm() };
        record.phases[0].action = "observe".to_owned();
        record.phases[0].answer = answer.map(|digest| answered(digest, None).phases.remove(0).answer.unwrap());
        record
    };
    let of = |a: &TrialRecord, b: &TrialRecord| {
        let found = variants::check([&variant_trials("x", &spec, a), &variant_trials("y", &spec, b)]);
        found.into_iter().filter(|finding| finding.severity == Severity::Refusal).collect::<Vec<_>>()
    };
    let (lost, known) = (observed(&[("write", true)], None), observed(&[], Some("reported:aa")));
    let found = of(&lost, &lost);
    assert_eq!((found.len(), found[0].guard.as_str()), (1, "answers_unordered"));
    assert!(found[0].message.contains("in trials of `x` and `y` they are missing"), "{}", found[0].message);
    let [found] = of(&known, &lost).try_into().unwrap();
    assert!(
        found.message.contains("in trials of `y` they are missing"),
        "not that it gave no answer: {}",
        found.message
    );
    let (elsewhere, other) = (observed(&[("write", true)], Some("reported:aa")), observed(&[], Some("reported:bb")));
    assert_eq!(of(&elsewhere, &known), [], "another line gave the answer");
    assert_eq!(of(&elsewhere, &other)[0].guard, "answers_differ");
    assert_eq!(of(&known, &known), []);
    let metrics = observed(&[("write", false), ("other", true)], None);
    assert_eq!(of(&metrics, &metrics), [], "the phase reads no answer");
}
