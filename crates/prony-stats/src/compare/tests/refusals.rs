//! Tests of comparisons that are refused.

use super::*;

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
fn wrong_answers_and_guards_refuse() {
    let mut wrong = blocks(30, 2.0);
    wrong[3].trials[0] = Observation::WrongAnswer;
    assert_eq!(
        one_comparison(wrong).verdict,
        Verdict::Refused { why: "a trial gave a wrong answer".into(), so_far: false }
    );
    let guarded = Contrast { refused: Some("answers differ".into()), ..contrast(blocks(30, 2.0)) };
    let found = compare_family(&family(vec![guarded])).remove(0);
    assert_eq!(found.verdict, Verdict::Refused { why: "answers differ".into(), so_far: false });
    assert!(found.verdict.is_final());
}

/// Two of three runs of equal programs ended after 11 blocks since they could not be compared; the third passed after 30.
#[test]
fn refusal_by_the_order_of_trials_is_not_final() {
    let refused = |blocks| {
        let refused = Some("the order of trials".to_owned());
        let so_far = Contrast { refused, refused_so_far: true, ..contrast(blocks) };
        compare_family(&family(vec![so_far])).remove(0).verdict
    };
    let found = refused(blocks(11, 2.0));
    assert_eq!(found, Verdict::Refused { why: "the order of trials".into(), so_far: true });
    assert!(!found.is_final() && !found.is_difference());
    let mut wrong = blocks(11, 2.0);
    wrong[3].trials[0] = Observation::WrongAnswer;
    assert!(refused(wrong).is_final(), "the answer remains wrong");
}

#[test]
fn unsupported_variants_are_not_compared() {
    let mut some = blocks(8, 1.0);
    some[0].trials[0] = Observation::Unsupported;
    assert_eq!(
        one_comparison(some).verdict,
        Verdict::Refused { why: "the engine or the machine does not support a trial".into(), so_far: false }
    );
}
