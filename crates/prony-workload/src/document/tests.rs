use super::*;
use crate::Records;
use crate::tests::{deviation, gray};
use prony_model::spec::{CollectionSpec, Size, ValueSpec};
use prony_model::units::{Bytes, Fraction};
use proptest::prelude::*;

fn field(name: &str, value: Generator) -> FieldSpec {
    FieldSpec { name: name.to_owned(), value, present: Fraction::new(1.0).unwrap() }
}

fn document(fields: Vec<FieldSpec>) -> Documents {
    Documents::new(&DocumentSpec { fields, encoding: Encoding::Json, file: None }, 7, 3).unwrap()
}

fn json(documents: &Documents, number: u64) -> String {
    let mut out = Vec::new();
    documents.encode(&documents.document(number, 0), &mut out);
    String::from_utf8(out).unwrap()
}

fn text_of(bytes: u64, compressible: f64) -> Generator {
    Generator::Text { bytes: Size::Fixed(Bytes::from_bytes(bytes)), compressible: Fraction::new(compressible).unwrap() }
}

#[test]
fn fields_are_written_in_order_and_nested() {
    let documents = document(vec![
        field("id", Generator::Template(vec!["/path/".into(), "/".into()])),
        field("step", Generator::Sequence { start: 0, step: 1 }),
        field("isOdd", Generator::Cycle(vec![FieldValue::Bool(false), FieldValue::Bool(true)])),
        field("internal", Generator::Fields(vec![field("type", Generator::Constant(FieldValue::Text("Test".into())))])),
        field("tags", Generator::Items(vec![Generator::Template(vec!["t".into(), "".into()])])),
    ]);
    assert_eq!(
        json(&documents, 3),
        r#"{"id":"/path/3/","step":3,"isOdd":true,"internal":{"type":"Test"},"tags":["t3"]}"#
    );
}

fn reference(key: KeySpec, records: u64, distribution: Distribution) -> Generator {
    Generator::Reference(Box::new(ReferenceSpec { collection: "others".to_owned(), records, key, distribution }))
}

fn any_key() -> impl Strategy<Value = KeySpec> {
    prop_oneof![
        (0u8..4).prop_map(|pad| KeySpec::Template { parts: vec!["ü/".into(), String::new()], pad }),
        Just(KeySpec::Integer { bytes: 4 }),
        (20u16..40).prop_map(|bytes| KeySpec::Hashed { prefix: "k".into(), bytes, hex: true }),
    ]
}

fn any_distribution() -> impl Strategy<Value = Distribution> {
    prop::sample::select(vec![Distribution::Uniform, Distribution::Zipfian, Distribution::Cycle])
}

proptest! {
    /// The keys of the collection that is referred to, as a store of this seed has them.
    #[test]
    fn references_are_keys_of_the_other_collection(
        key in any_key(), records in 1u64..50, distribution in any_distribution(), seed: u64,
    ) {
        let value = ValueSpec::Document(DocumentSpec {
            fields: vec![field("to", reference(key.clone(), records, distribution))],
            encoding: Encoding::Json,
            file: None,
        });
        let of = |name: &str, value: ValueSpec, key: KeySpec| {
            let spec = CollectionSpec { name: Some(name.to_owned()), records, key, value };
            Records::new(&spec, seed).unwrap()
        };
        let target = of("others", value.clone(), key.clone());
        let own = of("own", value, KeySpec::Integer { bytes: 8 });
        let mut bytes = Vec::new();
        let keys: Vec<FieldValue> = (0..records).map(|number| {
            target.key(number, &mut bytes);
            match key {
                KeySpec::Integer { .. } => FieldValue::Int(number as i64),
                _ => FieldValue::Text(String::from_utf8(bytes.clone()).unwrap()),
            }
        }).collect();
        for number in 0..3 * records {
            let document = own.document(number, 0).unwrap();
            let to = document.at(&["to"]).unwrap();
            prop_assert!(keys.contains(to), "{to:?}");
            prop_assert_eq!(&own.document(number, 0).unwrap(), &document);
            if distribution == Distribution::Cycle {
                prop_assert_eq!(to, &keys[(number % records) as usize]);
                let updated = own.document(number, 5).unwrap();
                prop_assert_eq!(updated.at(&["to"]), Some(to));
            }
        }
    }
}

#[test]
fn numbers_of_references_are_those_in_the_document_in_every_place() {
    let to = |distribution| reference(KeySpec::Integer { bytes: 8 }, 1000, distribution);
    let mut sometimes = field("b", Generator::Fields(vec![field("c", to(Distribution::Zipfian))]));
    sometimes.present = Fraction::new(0.5).unwrap();
    let documents = document(vec![
        field("a", to(Distribution::Uniform)),
        sometimes,
        field("d", Generator::List { of: Box::new(to(Distribution::Uniform)), items: (0, 4) }),
        field("e", Generator::Items(vec![to(Distribution::Cycle), Generator::Uuid, to(Distribution::Uniform)])),
    ]);
    fn numbers(value: &FieldValue, all: &mut Vec<u64>) {
        match value {
            FieldValue::Int(number) => all.push(*number as u64),
            FieldValue::List(items) => items.iter().for_each(|item| numbers(item, all)),
            FieldValue::Fields(fields) => fields.iter().for_each(|(_, value)| numbers(value, all)),
            _ => {}
        }
    }
    for (number, version) in (0..200).flat_map(|number| [(number, 0), (number, 3)]) {
        let (mut wanted, mut found) = (Vec::new(), Vec::new());
        numbers(&documents.document(number, version), &mut wanted);
        documents.references(number, version, &mut |collection, to| {
            assert_eq!(collection, "others");
            found.push(to);
        });
        assert_eq!(found, wanted, "record {number}, version {version}");
    }
}

#[test]
fn references_follow_their_distribution() {
    const RECORDS: u64 = 10;
    let counts = |distribution, version| {
        let key = KeySpec::Integer { bytes: 8 };
        let documents = document(vec![field("to", reference(key, RECORDS, distribution))]);
        let mut counts = vec![0u64; RECORDS as usize];
        for number in 0..10_000 {
            let document = documents.document(number, version);
            let Some(FieldValue::Int(to)) = document.at(&["to"]) else { panic!("{document:?}") };
            counts[*to as usize] += 1;
        }
        counts
    };
    let uniform = counts(Distribution::Uniform, 0);
    assert!(deviation(&uniform, &[0.1; 10]).abs() < 4.0, "{uniform:?}");
    assert_ne!(uniform, counts(Distribution::Uniform, 1), "an update refers to another record");
    let zipfian = counts(Distribution::Zipfian, 0);
    assert!(deviation(&zipfian, &gray(RECORDS, THETA, RECORDS)).abs() < 4.0, "{zipfian:?}");
    assert_eq!(counts(Distribution::Cycle, 0), [1000; 10]);
}

fn any_generator() -> impl Strategy<Value = Generator> {
    let plain = prop_oneof![
        Just(Generator::Constant(FieldValue::Null)),
        Just(Generator::Constant(FieldValue::Float(-0.25))),
        Just(Generator::Template(vec!["ü".into(), "\"".into()])),
        (any::<i64>(), any::<i64>()).prop_map(|(start, step)| Generator::Sequence { start, step }),
        Just(Generator::Cycle(vec![FieldValue::Bool(true), FieldValue::Int(i64::MIN)])),
        (any::<i64>(), any::<i64>()).prop_map(|(a, b)| Generator::Uniform(a.min(b), a.max(b))),
        (-9i64..9, 0i64..999).prop_map(|(a, b)| Generator::Zipfian(a, a + b)),
        (0u64..300).prop_map(|bytes| text_of(bytes, 0.5)),
        (0u64..6, 1u64..9_999).prop_map(|(count, vocabulary)| Generator::Words { count, vocabulary }),
        Just(Generator::Uuid),
        (any_key(), 1u64..99, any_distribution()).prop_map(|(key, records, distribution)| reference(
            key,
            records,
            distribution
        )),
        (-1_000_000i64..1_000_000).prop_map(|from| Generator::Date { from, to: from + 86_400 }),
    ];
    plain.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            (inner.clone(), 0u64..3, 0u64..3)
                .prop_map(|(of, least, more)| Generator::List { of: Box::new(of), items: (least, least + more) }),
            prop::collection::vec(inner.clone(), 0..3).prop_map(Generator::Items),
            prop::collection::vec((inner, 0.0f64..=1.0), 0..3).prop_map(|fields| {
                let field = |(index, (value, present)): (usize, (Generator, f64))| FieldSpec {
                    name: format!("f{index}"),
                    value,
                    present: Fraction::new(present).unwrap(),
                };
                Generator::Fields(fields.into_iter().enumerate().map(field).collect())
            }),
        ]
    })
}

proptest! {
    #[test]
    fn part_of_a_document_has_the_wanted_fields_of_the_whole(
        values in prop::collection::vec(any_generator(), 1..4), wanted in 0usize..4, number: u64, version: u32,
    ) {
        let names = ["a", "b", "c"];
        let documents = document(names.iter().zip(values).map(|(name, value)| field(name, value)).collect());
        let name = names.get(wanted).copied();
        let FieldValue::Fields(mut whole) = documents.document(number, version) else { unreachable!() };
        whole.retain(|(field, _)| Some(&**field) == name);
        let part = documents.part(number, version, |field| Some(field) == name);
        prop_assert_eq!(part, FieldValue::Fields(whole));
    }

    #[test]
    fn documents_are_functions_of_number_and_version_and_survive_encoding(
        value in any_generator(), number: u64, version: u32,
    ) {
        let documents = document(vec![field("x", value)]);
        let made = documents.document(number, version);
        prop_assert_eq!(&documents.clone().document(number, version), &made);
        for encoding in [Encoding::MsgPack, Encoding::Json] {
            let mut bytes = Vec::new();
            encode(encoding, &made, &mut bytes);
            prop_assert_eq!(&decode(encoding, &bytes).unwrap(), &made);
        }
    }

    #[test]
    fn uniform_and_zipfian_numbers_lie_between_their_ends(number: u64, a: i64, b: i64, c in -99i64..99, n in 0i64..99) {
        let documents = document(vec![
            field("u", Generator::Uniform(a.min(b), a.max(b))),
            field("z", Generator::Zipfian(c, c + n)),
        ]);
        let made = documents.document(number, 0);
        let number = |name: &str| match made.at(&[name]) {
            Some(FieldValue::Int(number)) => *number,
            other => panic!("{other:?}"),
        };
        prop_assert!((a.min(b)..=a.max(b)).contains(&number("u")));
        prop_assert!((c..=c + n).contains(&number("z")));
    }
}

#[test]
fn an_update_renews_random_fields_and_keeps_what_identifies() {
    let documents = document(vec![field("id", Generator::Uuid), field("text", text_of(100, 0.5))]);
    let (old, new) = (documents.document(5, 0), documents.document(5, 1));
    assert_eq!(old.at(&["id"]), new.at(&["id"]));
    assert_ne!(old.at(&["text"]), new.at(&["text"]));
    assert_ne!(old.at(&["id"]), documents.document(6, 0).at(&["id"]));
}

#[test]
fn another_field_does_not_change_those_before_it() {
    let (text, uuid) = (field("text", text_of(50, 0.5)), field("id", Generator::Uuid));
    let one = document(vec![text.clone()]).document(9, 0);
    let two = document(vec![text, uuid]).document(9, 0);
    assert_eq!(one.at(&["text"]), two.at(&["text"]));
}

#[test]
fn texts_compress_by_their_declared_share() {
    for share in [0.25, 0.4, 0.6, 0.9] {
        let documents = document(vec![field("text", text_of(4_000, share))]);
        let all: Vec<u8> = (0..200)
            .flat_map(|number| match documents.document(number, 0).at(&["text"]) {
                Some(FieldValue::Text(text)) => text.clone().into_bytes(),
                other => panic!("{other:?}"),
            })
            .collect();
        let left = miniz_oxide::deflate::compress_to_vec(&all, 6).len() as f64 / all.len() as f64;
        assert!((1.0 - left - share).abs() <= 0.03, "shrinks by {:.4}, not {share}", 1.0 - left);
    }
}

#[test]
fn uuids_have_their_version_and_are_distinct() {
    let mut all: Vec<String> = (0..1_000).map(|n| uuid(Stream::new(mix(n)))).collect();
    for one in &all {
        assert_eq!((one.len(), &one[14..15]), (36, "4"), "{one}");
        assert!("89ab".contains(&one[19..20]), "{one}");
    }
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 1_000);
}

#[test]
fn different_numbers_are_different_words() {
    let mut all: Vec<String> = (0..20_000).map(|n| written(|out| word(n, out))).collect();
    assert!(all.iter().all(|word| word.len() >= 4));
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 20_000);
}

#[test]
fn dates_have_one_length_and_the_order_of_time() {
    let seconds = [-62_135_596_800, -1, 0, 951_782_400, 253_402_207_200];
    let dates = seconds.map(date);
    assert_eq!(dates[3], "2000-02-29T00:00:00Z");
    assert!(dates.is_sorted() && dates.iter().all(|date| date.len() == 20), "{dates:?}");
}

#[test]
fn a_field_is_present_in_its_share_of_the_documents() {
    let mut some = field("x", Generator::Constant(FieldValue::Null));
    some.present = Fraction::new(0.3).unwrap();
    let documents = document(vec![some]);
    let present = (0..10_000).filter(|n| documents.document(*n, 0).at(&["x"]).is_some()).count();
    // Five standard deviations of a binomial count.
    assert!((2_770..=3_230).contains(&present), "{present}");
}
