//! Tests of how documents are made, written and read.

use super::*;
use ReferencePlace::{Field, InsideItems, Item, Items};

fn to(collection: &str) -> Generator {
    let key = KeySpec::Integer { bytes: 8 };
    let (collection, distribution) = (collection.to_owned(), Distribution::Uniform);
    Generator::Reference(Box::new(ReferenceSpec { collection, records: 9, key, distribution }))
}

fn list(of: Generator, least: u64) -> Generator {
    Generator::List { of: Box::new(of), items: (least, 3) }
}

fn field(name: &str, value: Generator, present: f64) -> FieldSpec {
    FieldSpec { name: name.to_owned(), value, present: Fraction::new(present).unwrap() }
}

#[test]
fn references_are_found_at_every_depth_with_their_places() {
    let plain = || Generator::Constant(FieldValue::Bool(true));
    let nested = || Generator::Fields(vec![field("deep", to("a"), 1.0), field("plain", plain(), 1.0)]);
    let fields = vec![
        field("plain", plain(), 1.0),
        field("one", to("a"), 1.0),
        field("some", nested(), 0.5),
        field("list", list(to("b"), 1), 1.0),
        field("empty", list(to("b"), 0), 1.0),
        field("same", Generator::Items(vec![to("a"), to("a")]), 1.0),
        field("kinds", Generator::Items(vec![to("a"), plain(), nested()]), 1.0),
        field("lists", list(list(to("b"), 1), 1), 1.0),
    ];
    let document = DocumentSpec { fields, encoding: Encoding::Json, file: None };
    let found = document
        .references()
        .into_iter()
        .map(|found| (found.path.to_string(), found.place, found.to.collection.clone(), (found.always, found.mixed)));
    let of = |path: &str, place, to: &str, always, mixed| (path.to_owned(), place, to.to_owned(), (always, mixed));
    let expected = vec![
        of("one", Field, "a", true, false),
        of("some.deep", Field, "a", false, false),
        of("list", Items, "b", true, false),
        of("empty", Items, "b", false, false),
        of("same", Item(0), "a", true, false),
        of("same", Item(1), "a", true, false),
        of("kinds", Item(0), "a", true, true),
        of("kinds", InsideItems, "a", false, true),
        of("lists", InsideItems, "b", false, false),
    ];
    assert_eq!(found.collect::<Vec<_>>(), expected);
}
