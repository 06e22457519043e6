//! Compares values of documents.

use std::cmp::Ordering;

use prony_model::spec::FieldValue;

/// The kinds of values, in the order in which they are sorted.
fn rank(value: &FieldValue) -> u8 {
    match value {
        FieldValue::Null => 0,
        FieldValue::Bool(_) => 1,
        FieldValue::Int(_) | FieldValue::Float(_) => 2,
        FieldValue::Text(_) => 3,
        FieldValue::List(_) => 4,
        FieldValue::Fields(_) => 5,
    }
}

/// The order of two values of one kind; `None` where their kinds differ, or have no order.
pub(super) fn within_kind(a: &FieldValue, b: &FieldValue) -> Option<Ordering> {
    match (a, b) {
        (FieldValue::Null, FieldValue::Null) => Some(Ordering::Equal),
        (FieldValue::Bool(a), FieldValue::Bool(b)) => Some(a.cmp(b)),
        (FieldValue::Int(a), FieldValue::Int(b)) => Some(a.cmp(b)),
        (FieldValue::Float(a), FieldValue::Float(b)) => a.partial_cmp(b),
        (FieldValue::Int(a), FieldValue::Float(b)) => Some(int_and_float(*a, *b)),
        (FieldValue::Float(a), FieldValue::Int(b)) => Some(int_and_float(*b, *a).reverse()),
        (FieldValue::Text(a), FieldValue::Text(b)) => Some(a.as_bytes().cmp(b.as_bytes())),
        _ => None,
    }
}

/// The order in which documents with these values are sorted; a missing value comes first. Lists and nested fields are
/// all alike.
pub(super) fn sorted(a: Option<&FieldValue>, b: Option<&FieldValue>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => rank(a).cmp(&rank(b)).then_with(|| within_kind(a, b).unwrap_or(Ordering::Equal)),
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}

/// Exact, where a conversion of the whole number to a float would round it.
fn int_and_float(int: i64, float: f64) -> Ordering {
    // 2^63, the least float above every whole number of 64 bits; a document has no NaN.
    const ABOVE: f64 = 9_223_372_036_854_775_808.0;
    if float >= ABOVE {
        return Ordering::Less;
    }
    if float < -ABOVE {
        return Ordering::Greater;
    }
    let whole = float.trunc();
    int.cmp(&(whole as i64)).then_with(|| whole.partial_cmp(&float).unwrap_or(Ordering::Equal))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn whole_numbers_and_floats_are_compared_exactly() {
        let large = 9_007_199_254_740_993; // 2^53 + 1, which no float is
        assert_eq!(int_and_float(large, 9_007_199_254_740_992.0), Ordering::Greater);
        assert_eq!(int_and_float(i64::MAX, 9_223_372_036_854_775_808.0), Ordering::Less);
        assert_eq!(int_and_float(i64::MIN, -9_223_372_036_854_775_808.0), Ordering::Equal);
        assert_eq!([int_and_float(-1, -1.5), int_and_float(1, 1.5)], [Ordering::Greater, Ordering::Less]);
    }

    fn any_value() -> impl Strategy<Value = FieldValue> {
        prop_oneof![
            Just(FieldValue::Null),
            any::<bool>().prop_map(FieldValue::Bool),
            (-3i64..3).prop_map(FieldValue::Int),
            (-6i64..6).prop_map(|half| FieldValue::Float(half as f64 / 2.0)),
            "[ab]{0,2}".prop_map(FieldValue::Text),
        ]
    }

    proptest! {
        #[test]
        fn the_order_of_sorting_is_total(a in any_value(), b in any_value(), c in any_value()) {
            let order = |a: &FieldValue, b: &FieldValue| sorted(Some(a), Some(b));
            prop_assert_eq!(order(&a, &b), order(&b, &a).reverse());
            prop_assert_eq!(order(&a, &a), Ordering::Equal);
            if order(&a, &b) != Ordering::Greater && order(&b, &c) != Ordering::Greater {
                prop_assert_ne!(order(&a, &c), Ordering::Greater);
            }
            prop_assert_eq!(sorted(None, Some(&a)), Ordering::Less);
        }
    }
}
