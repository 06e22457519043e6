//! Tests files whose values are documents.

use super::*;
use prony_model::spec::{DocumentSpec, ValueSpec};

pub(super) const DOCUMENTS: &str = r#"
[factors]
size = ["20 B", "40 kB"]

[store]
engine = "lmdb"

[data]
records  = 1_000
encoding = "json"

[data.document]
id       = "/path/{i}/"
step     = { sequence = 0 }
isOdd    = { cycle = [false, true] }
text     = { text = "{size}", compressible = "60%" }
internal = { type = "Test", contentDigest = "{i}" }
author   = { fields = { text = "a text", uuid = { uuid = {}, present = "50%" } } }
tags     = { list = { words = 1, vocabulary = 50 }, items = [0, 5] }
pair     = [1.5, "{i}"]
created  = { date = ["2020-01-01", "2024-12-31T12:00:00Z"] }
rank     = { zipfian = [-5, 100], present = 0.9 }

[[phase]]
name = "write"
put  = {}
"#;

fn documents(text: &str) -> DocumentSpec {
    match &sound(text).variants()[0].spec.data[0].value {
        ValueSpec::Document(document) => document.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn fields_of_documents_are_read_in_order() {
    let document = documents(DOCUMENTS);
    let lines: Vec<String> =
        document.fields.iter().map(|f| format!("{} {:?} {:?}", f.name, f.present, f.value)).collect();
    insta::assert_snapshot!(format!("{:?}\n{}", document.encoding, lines.join("\n")), @r#"
    Json
    id Fraction(1.0) Template(["/path/", "/"])
    step Fraction(1.0) Sequence { start: 0, step: 1 }
    isOdd Fraction(1.0) Cycle([Bool(false), Bool(true)])
    text Fraction(1.0) Text { bytes: Fixed(Bytes(20)), compressible: Fraction(0.6) }
    internal Fraction(1.0) Fields([FieldSpec { name: "type", value: Constant(Text("Test")), present: Fraction(1.0) }, FieldSpec { name: "contentDigest", value: Template(["", ""]), present: Fraction(1.0) }])
    author Fraction(1.0) Fields([FieldSpec { name: "text", value: Constant(Text("a text")), present: Fraction(1.0) }, FieldSpec { name: "uuid", value: Uuid, present: Fraction(0.5) }])
    tags Fraction(1.0) List { of: Words { count: 1, vocabulary: 50 }, items: (0, 5) }
    pair Fraction(1.0) Items([Constant(Float(1.5)), Template(["", ""])])
    created Fraction(1.0) Date { from: 1577836800, to: 1735646400 }
    rank Fraction(0.9) Zipfian(-5, 100)
    "#);
}

#[test]
fn keys_are_made_from_the_field_id() {
    let experiment = sound(DOCUMENTS);
    let key = format!("{:?}", experiment.variants()[0].spec.data[0].key);
    assert_eq!(key, r#"Template { parts: ["/path/", "/"], pad: 0 }"#);
}

/// The faults of a field, at its place in the third line.
fn faults_of(field: &str) -> String {
    faults(&format!(
        "[data]\nrecords = 9\ndocument = {{ x = {field} }}\n[store]\nengine = \"lmdb\"\n[[phase]]\nname = \"w\"\nput = {{}}\n"
    ))
}

/// The numbers went on at the other end of those of 64 bits.
#[test]
fn sequences_that_do_not_fit_are_refused() {
    for field in [
        "{ sequence = 9223372036854775800 }",
        "[{ list = { sequence = 9, step = 2305843009213693952 }, items = [0, 3] }]",
        "{ inner = { sequence = 0, step = 9223372036854775807 } }",
    ] {
        let found = faults_of(field);
        assert!(found.starts_with("2:11 9 numbers of a `sequence` from "), "{field}: {found}");
        assert!(found.ends_with(" | use fewer records"), "{field}: {found}");
    }
    let most = "9 numbers of a `sequence` from 9223372036854775800 in steps of 1 go beyond 9223372036854775807";
    assert!(faults_of("{ sequence = 9223372036854775800 }").contains(most));
    for field in ["{ sequence = 9223372036854775799 }", "{ sequence = -9, step = 1152921504606846976 }"] {
        assert_eq!(faults_of(field), "no faults", "{field}");
    }
}

#[test]
fn faults_of_generators_name_their_place() {
    let faulty = [
        "{ text = \"10 B\", compressible = \"10%\" }",
        "{ text = 10, vocabulary = 3 }",
        "{ text = 10, words = 3 }",
        "{ uniform = [3, 2] }",
        "{ uniform = [1] }",
        "{ cycle = [] }",
        "{ date = [\"2020-13-01\", 2021-01-01] }",
        "{ list = { sequence = 1 }, items = [2, 1] }",
        "{ texts = 10, inner = { cycle = 3 } }",
        "\"{factor}\"",
        "{ constant = { a = 1 } }",
        "2020-01-01",
        "nan",
    ];
    let all: Vec<String> = faulty.iter().map(|field| format!("{field}\n    {}", faults_of(field))).collect();
    insta::assert_snapshot!(all.join("\n"), @r#"
    { text = "10 B", compressible = "10%" }
        3:35 `compressible` of a text cannot be below 25 %: its characters have 6 bits in 8 | use `value = { bytes = ..., compressible = ... }` for bytes that do not compress
    { text = 10, vocabulary = 3 }
        3:31 `vocabulary` needs the key `words`, which is missing
    { text = 10, words = 3 }
        3:31 `generator` takes one of `text` and `words`, not both
    { uniform = [3, 2] }
        3:30 the first value of `uniform` must be the lowest
    { uniform = [1] }
        3:30 `uniform` cannot be a list | expected a list of two, each a whole number
    { cycle = [] }
        3:28 `cycle` has no values
    { date = ["2020-13-01", 2021-01-01] }
        3:28 `date` cannot be the text `2020-13-01` | expected a date such as `2021-03-01`, or a time such as `2021-03-01T12:00:00Z`
    { list = { sequence = 1 }, items = [2, 1] }
        3:53 the first value of `items` must be the lowest
    { texts = 10, inner = { cycle = 3 } }
        3:50 `cycle` cannot be `3` | expected a list, each item `true`, `false`, a number or a text
    "{factor}"
        3:19 unknown placeholder `{factor}` | known: `{i}`
    { constant = { a = 1 } }
        3:31 `constant` cannot be a table | expected `true`, `false`, a number or a text
    2020-01-01
        3:18 `x` cannot be the date `2020-01-01` | expected a value, a list or table of values, or a table that describes how values are made
    nan
        3:18 `x` cannot be `nan` | expected a value, a list or table of values, or a table that describes how values are made
    "#);
}

/// A run of such documents could not be read again.
#[test]
fn documents_of_too_many_values_in_each_other_are_refused() {
    let nested = |depth: usize| faults_of(&format!("{}1{}", "{ b = ".repeat(depth), " }".repeat(depth)));
    assert!(nested(30).contains("nested more than 30 deep"), "{}", nested(30));
    assert!(!nested(29).contains("nested"), "{}", nested(29));
}

#[test]
fn values_and_documents_exclude_each_other() {
    let said = faults(
        "[data]\nrecords = 9\nvalue = \"x\"\ndocument = { x = 1 }\n[store]\nengine = \"lmdb\"\n[[phase]]\nname = \
         \"w\"\nput = {}\n",
    );
    assert_eq!(said, "4:1 `data` takes one of `value` and `document`, not both");
    let said = faults(
        "[data]\nrecords = 9\nencoding = \"json\"\n[store]\nengine = \"lmdb\"\n[[phase]]\nname = \"w\"\nput = {}\n",
    );
    assert_eq!(said, "3:1 `encoding` needs one of `document`, `file`, which are missing");
}

#[test]
fn dates_are_read_as_toml_and_as_text() {
    let of = |ends: &str| documents(&DOCUMENTS.replace("[\"2020-01-01\", \"2024-12-31T12:00:00Z\"]", ends));
    assert_eq!(of("[2020-01-01, 2024-12-31T12:00:00Z]"), documents(DOCUMENTS));
    assert_eq!(of("[2020-01-01T00:00:00, 2024-12-31T13:00:00+01:00]"), documents(DOCUMENTS));
}

/// The faults of documents on an engine that stores the values of JSON, with these keys of `[data]` and of `[store]`.
fn of_values(data: &str, store: &str) -> String {
    faults(&format!(
        "[data]\nencoding = \"json\"\n{data}\n[store]\nengine = \"jsonb\"\n{store}\n[[phase]]\nname = \"w\"\nput = {{}}\n"
    ))
}

#[test]
fn documents_that_would_not_come_back_from_their_values_are_refused() {
    let of = |field: &str| of_values(&format!("document = {{ x = {field} }}\nrecords = 9"), "");
    let (number, text) =
        ("a number that it would write in another form: -0.0, or a float of 1e16 or more", "a text or name");
    let skip = "or leave the variant out with `[design] skip`";
    for (field, found, advice) in [
        ("-0.0", format!("the field `x` has {number}"), "write the number as a text"),
        ("{ cycle = [1.5, 1e16] }", format!("the field `x` has {number}"), "write the number as a text"),
        ("{ y = [1, 1e300] }", format!("the field `x.y` has {number}"), "write the number as a text"),
        ("\"a\\u0000\"", format!("the field `x` has {text}"), "change the documents"),
        ("{ \"a\\u0000\" = 1 }", format!("the field `x.a\\0` has {text}"), "change the documents"),
        ("\"\u{10FFFF}{i}\"", format!("the field `x` has {text}"), "change the documents"),
        (
            "[{ a = 1, b = 2 }, [{ b = 1, a = 2 }]]",
            "the names in the field `x` are not in the same order everywhere".to_owned(),
            "write the fields in one order",
        ),
    ] {
        let (said, begin) = (of(field), "3:18 `jsonb` stores the values of JSON documents, not their text, and ");
        assert!(said.starts_with(&format!("{begin}{found}")), "{field}: {said}");
        assert!(said.ends_with(&format!(" | {advice}, {skip}")), "{field}: {said}");
    }
    for sound in ["0.0", "{ cycle = [1e15, 9007199254740993, 1.5e-300] }", "[{ a = 1, b = 2 }, { b = 1 }]"] {
        assert_eq!(of(sound), "no faults", "{sound}");
    }
    let stored_as_bytes = "[data]\nrecords = 9\ndocument = { x = -0.0 }\n[store]\nengine = \"jsonb\"\n[[phase]]\nname = \"w\"\nput = {}\n";
    assert_eq!(faults(stored_as_bytes), "no faults");
    let said = of_values("file = \"order.ndjson\"", "");
    assert!(said.starts_with("3:8 `jsonb`") && said.contains("names in the field `in` are"), "{said}");
    assert_eq!(of_values("file = \"d.ndjson\"", ""), "no faults");
}

#[test]
fn entries_of_an_engines_own_index_have_a_head_and_lengths() {
    let of = |bytes: u64| {
        let data = format!("document = {{ x = {{ text = \"{bytes} B\" }} }}\nrecords = 9");
        of_values(&data, "indexes = [[\"x\"]]")
    };
    assert_eq!(of(131), "no faults");
    assert!(of(132).contains("entries of this index have up to 201 bytes"), "{}", of(132));
}

pub(super) const QUERIES: &str = r#"
[factors]
engine = ["lmdb", "memory"]
limit  = [10, 50]

[store]
engine = "{engine}"

[data]
records = 1_000

[data.document]
id      = "/path/{i}/"
step    = { sequence = 0 }
stepStr = "{i}"
isOdd   = { cycle = [false, true] }
inner   = { created = { date = ["2020-01-01", "2021-01-01"] } }

[[phase]]
name = "write"
put  = {}

[[phase]]
name = "page queries"

[phase.find]
order = "record"

[[phase.find.query]]
where  = { stepStr = "{doc.stepStr}" }
select = ["step", "inner.created"]

[[phase.find.query]]
where = { isOdd = { eq = "{doc.isOdd}" }, step = { gte = "{doc.step}" } }
sort  = ["step", "-inner.created"]
skip  = 1
limit = "{limit}"

[[phase]]
name = "others"

[phase.find]
count = 10
query = { where = { or = [{ "inner.created" = { lt = "2020-06-01", exists = true } }, { and = [{ step = { in = [1, 2.5], between = [0, "{doc.step}"] } }] }], stepStr = { prefix = "1" } }, count = true }
"#;

#[test]
fn queries_are_read_with_their_operands() {
    let experiment = sound(QUERIES);
    let phases = &experiment.variants()[0].spec.phases;
    let queries: Vec<String> = phases
        .iter()
        .filter_map(|phase| match &phase.action {
            prony_model::spec::Action::Find(find) => Some(find),
            _ => None,
        })
        .flat_map(|find| find.queries.iter().map(|query| format!("{query:?}")))
        .collect();
    insta::assert_snapshot!(queries.join("\n"), @r#"
    QuerySpec { collection: None, filter: Field(FieldPath(["stepStr"]), In([Document(FieldPath(["stepStr"]))])), sort: [], skip: 0, limit: None, select: [FieldPath(["step"]), FieldPath(["inner", "created"])], count: false }
    QuerySpec { collection: None, filter: All([Field(FieldPath(["isOdd"]), In([Document(FieldPath(["isOdd"]))])), Field(FieldPath(["step"]), Gte(Document(FieldPath(["step"]))))]), sort: [SortKey { field: FieldPath(["step"]), descending: false }, SortKey { field: FieldPath(["inner", "created"]), descending: true }], skip: 1, limit: Some(10), select: [], count: false }
    QuerySpec { collection: None, filter: All([Any([All([Field(FieldPath(["inner", "created"]), Lt(Constant(Text("2020-06-01")))), Field(FieldPath(["inner", "created"]), Exists(true))]), All([All([Field(FieldPath(["step"]), In([Constant(Int(1)), Constant(Float(2.5))])), Field(FieldPath(["step"]), Between(Constant(Int(0)), Document(FieldPath(["step"]))))])])]), Field(FieldPath(["stepStr"]), Prefix(Constant(Text("1"))))]), sort: [], skip: 0, limit: None, select: [], count: true }
    "#);
}

const FAULTY_QUERIES: [&str; 21] = [
    "[]",
    "{ where = { x = [1] } }",
    "{ where = { x = { gte = 1, like = 2 } } }",
    "{ where = { x = \"{doc.x} and\" } }",
    "{ where = { x = \"{i}\" } }",
    "{ where = { or = { x = 1 } } }",
    "{ where = { \"a..b\" = 1 } }",
    "{ where = 3 }",
    "{ where = { eq = 3 } }",
    "{ where = { x = { like = 2 } } }",
    "{ sort = [\"-\"] }",
    "{ limit = 0 }",
    "{ count = true, limit = 3 }",
    "{ where = { x = { between = [1] } } }",
    "{ where = { x = { lt = 9999-12-31T23:59:59Z } } }",
    "{ where = { x = { lt = 2020-01-01T00:00:01.5Z } } }",
    "{ where = { x = \"{doc.x..y}\" } }",
    "{ where = { x = \"{doc.z}\" } }",
    "{ where = { x = { in = [] } } }",
    "{ where = { x = {}, or = [] } }",
    "{ touch = false }",
];

#[test]
fn faults_of_queries_name_their_place() {
    let of = |query: &str| {
        faults(&format!(
            "[data]\nrecords = 9\ndocument = {{ x = 1 }}\n[store]\nengine = \"lmdb\"\n[[phase]]\nname = \"f\"\nfind.query = {query}\n"
        ))
    };
    let all: Vec<String> = FAULTY_QUERIES.iter().map(|query| format!("{query}\n    {}", of(query))).collect();
    insta::assert_snapshot!(all.join("\n"), @r#"
    []
        8:14 `query` is empty: the operations would do nothing
    { where = { x = [1] } }
        8:30 `x` cannot be a list | expected a value, or the text `{doc.FIELD}`
    { where = { x = { gte = 1, like = 2 } } }
        8:41 unknown key `like` | known: `eq`, `in`, `gt`, `gte`, `lt`, `lte`, `between`, `prefix`, `exists`
    { where = { x = "{doc.x} and" } }
        8:30 `{doc.FIELD}` must be the whole text, without other characters
    { where = { x = "{i}" } }
        8:31 `{i}` has no meaning here | `{i}`, the number of a record, can be used in keys and values of `[data]`, and in requests
    { where = { or = { x = 1 } } }
        8:31 `or` cannot be a table | expected a list, each item a table
    { where = { "a..b" = 1 } }
        8:26 `a..b` names no field: a field's name is empty
    { where = 3 }
        8:24 `where` cannot be `3` | expected a table of fields, each with a value or with tests
    { where = { eq = 3 } }
        8:24 the documents of `[data.document]` have no field `eq` | known: `x`
    { where = { x = { like = 2 } } }
        8:24 unknown test `like` of the field `x` | known: `eq`, `in`, `gt`, `gte`, `lt`, `lte`, `between`, `prefix`, `exists`
    { sort = ["-"] }
        8:24 `-` names no field: a field's name is empty | write names with full stops between them, as `internal.type`
    { limit = 0 }
        8:24 `limit` cannot be `0` | expected a whole number of at least 1
    { count = true, limit = 3 }
        8:30 `limit` has no effect on `count` | leave one of the two out
    { where = { x = { between = [1] } } }
        8:42 `between` cannot be a list | expected a list of two, each a value, or the text `{doc.FIELD}`
    { where = { x = { lt = 9999-12-31T23:59:59Z } } }
        8:37 `9999-12-31T23:59:59Z` is not a time in whole seconds from the year 0 to 9999-12-30
    { where = { x = { lt = 2020-01-01T00:00:01.5Z } } }
        8:37 `2020-01-01T00:00:01.5Z` is not a time in whole seconds from the year 0 to 9999-12-30
    { where = { x = "{doc.x..y}" } }
        8:30 `{doc.x..y}` names no field: a field's name is empty
    { where = { x = "{doc.z}" } }
        8:24 the documents of `[data.document]` have no field `z` | known: `x`
    { where = { x = { in = [] } } }
        8:37 `in` is empty, so no document fits
    { where = { x = {}, or = [] } }
        8:30 `x` has no test
    8:39 `or` is empty, so no document fits
    { touch = false }
        8:16 unknown key `touch` | known: `collection`, `where`, `sort`, `skip`, `limit`, `select`, `count`
    "#);
}

const FAULTY_INDEXES: [&str; 8] = [
    "[[]]",
    "[[\"x\", \"x\"]]",
    "[[\"x\"], [\"x\"]]",
    "[[\"x.\"]]",
    "[[\"y\", \"tx\"]]",
    "[[\"x\", \"long\"]]",
    "[[\"x\", \"many\", \"some\"]]",
    "[\"x\"]",
];

#[test]
fn faults_of_indexes_name_their_place() {
    let of = |indexes: &str| {
        faults(&format!(
            "[store]\nengine = \"lmdb\"\nindexes = {indexes}\n[data]\nrecords = 9\nkey = \"{{i}}\"\n[data.document]\nx = 1\n\
             tx = \"{{i}}\"\nlong = {{ text = \"500 B\" }}\n\
             many = {{ list = {{ uniform = [0, 9] }}, items = [0, 300] }}\nsome = [1, 2, 3, 4]\n[[phase]]\nname = \"p\"\nput = {{}}\n"
        ))
    };
    let all: Vec<String> = FAULTY_INDEXES.iter().map(|indexes| format!("{indexes}\n    {}", of(indexes))).collect();
    insta::assert_snapshot!(all.join("\n"), @r#"
    [[]]
        3:12 an index needs a field
    [["x", "x"]]
        3:12 the index has a field twice
    [["x"], ["x"]]
        3:19 the store has this index already
    [["x."]]
        3:13 `x.` names no field: a field's name is empty | write names with full stops between them, as `internal.type`
    [["y", "tx"]]
        3:12 the documents of `[data.document]` have no field `y` | known: `x`, `tx`, `long`, `many`, `some`
    [["x", "long"]]
        3:12 entries of this index have up to 516 bytes, with the document's key: `lmdb` allows at most 511 bytes | index a shorter field, shorten the texts, or leave the variant out with `[design] skip`
    [["x", "many", "some"]]
        3:12 a document may have 1200 entries in this index: at most 1000 are allowed | index one list alone, or make the lists shorter with `items`
    ["x"]
        3:12 `indexes` cannot be the text `x` | expected a list, each item a text
    "#);
    let sixty_five: Vec<String> = (0..65).map(|n| format!("[\"x{n}\"]")).collect();
    assert!(of(&format!("[{}]", sixty_five.join(","))).contains("65 indexes are too many: a store has at most 64"));
}

#[test]
fn indexes_need_documents_and_an_engine_that_can_change_them() {
    let of = |engine: &str, data: &str, phase: &str| {
        faults(&format!(
            "[store]\nengine = \"{engine}\"\nindexes = [[\"x\"]]\n[data]\nrecords = 9\n{data}\n[[phase]]\nname = \"p\"\nput = {{}}\n\
             [[phase]]\nname = \"q\"\n{phase}\n"
        ))
    };
    let documents = "key = \"{i}\"\ndocument = { x = 1 }";
    for (engine, phase) in
        [("lmdb", "update = { threads = 2 }"), ("fjall", "get = {}"), ("redb", "update = { threads = 2 }")]
    {
        assert_eq!(of(engine, documents, phase), "no faults", "{engine}: {phase}");
    }
    let refused = [
        of("lmdb", "", "get = {}"),
        of("logfile", documents, "get = {}"),
        of("fjall", documents, "update = {}"),
        of("fjall", documents, "put = {}"),
        of("redb", documents, "delete = { threads = 2, order = \"uniform\" }"),
        of("sqlite", documents, "get = {}"),
        of("sqlite", "encoding = \"json\"\nkey = \"{i}\"\ndocument = { x = [1, 2] }", "get = {}"),
    ];
    insta::assert_snapshot!(refused.join("\n"), @r#"
    3:11 indexes need documents, but the values of `[data]` are bytes without fields | write `[data.document]` with fields instead of `value`
    3:11 `logfile` does not keep keys in order, so it cannot have indexes | leave the variant out with `[design] skip`
    13:1 `fjall` cannot read inside a write transaction, which a change of indexed documents needs | leave the variant out with `[design] skip`, or the phase with `when`
    13:1 `fjall` cannot read inside a write transaction, which a change of indexed documents needs | leave the variant out with `[design] skip`, or the phase with `when`
    13:22 `redb` has concurrent writers: if two threads change the same document at the same time, entries of indexes may be left behind | use one thread, or without a mix the order `shuffled`, in which each thread has records of its own
    3:11 `sqlite` can index documents only if they are encoded as JSON | write `encoding = "json"` in `[data]`
    3:12 `sqlite` has one entry per document in an index, and `x` may be a list | leave the index or the variant out
    "#);
}

#[test]
fn queries_need_documents() {
    let said =
        faults("[data]\nrecords = 9\n[store]\nengine = \"lmdb\"\n[[phase]]\nname = \"f\"\nfind = { query = {} }\n");
    assert_eq!(
        said,
        "7:1 `find` needs documents, but the values of `[data]` are bytes without fields | write `[data.document]` with \
         fields instead of `value`"
    );
}

const FILE: &str = "[store]\nengine = \"lmdb\"\nindexes = [[\"in.n\"]]\n[data]\nfile = \"d.ndjson\"\n[[phase]]\nname = \"w\"\n\
                    put = {}\n[[phase]]\nname = \"f\"\nfind = { query = { where = { in.n = \"{doc.in.n}\" } } }\n";

#[test]
fn a_file_of_documents_says_how_many_records_and_which_fields_there_are() {
    let experiment = sound(FILE);
    let spec = &experiment.variants()[0].spec;
    let document = spec.data[0].document().unwrap();
    assert_eq!((spec.data[0].records, document.file.as_ref().unwrap().path.as_str()), (3, "d.ndjson"));
    assert!(document.kinds(&"in.n".parse().unwrap()).missing, "where `in` is null");
    let first = FILE.replace("[data]", "[data]\nrecords = 2");
    assert_eq!(sound(&first).variants()[0].spec.data[0].records, 2);
}

#[test]
fn faults_of_a_file_of_documents_are_at_its_name() {
    let more = FILE.replace("[data]", "[data]\nrecords = 4");
    assert_eq!(
        faults(&more),
        "5:11 `records` is 4, but the file has 3 rows | leave `records` out: then every row is a record"
    );
    assert_eq!(faults(&FILE.replace("d.ndjson", "none.csv")), "5:8 `none.csv` cannot be read here");
    let both = FILE.replace("[data]", "[data]\nvalue = \"x\"");
    assert_eq!(faults(&both), "6:1 `data` takes one of `value` and `file`, not both");
    let field = FILE.replace("[[\"in.n\"]]", "[[\"in.m\"]]");
    assert_eq!(faults(&field), "3:12 the documents of `[data]` have no field `in.m` | did you mean `in.n`?");
    let list = FILE.replace("d.ndjson", "lists.ndjson");
    assert_eq!(faults(&list), "no faults");
    assert_eq!(
        faults(&list.replace("lmdb", "sqlite").replace("[data]", "[data]\nencoding = \"json\"")),
        "3:12 `sqlite` has one entry per document in an index, and `in` may be a list | leave the index or the variant out"
    );
}
