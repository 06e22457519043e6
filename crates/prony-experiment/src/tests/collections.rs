//! Tests `[data.collection.NAME]`, and what names collections.

use super::{faults, sound};
use prony_model::spec::{Action, TrialSpec};

pub(super) const COLLECTIONS: &str = r#"
[factors]
engine = ["lmdb", "sqlite", "memory"]
[factors.indexes]
none   = {}
single = { students = [["n"], ["age", "n"]], schools = [["city"]] }

[store]
engine  = "{engine}"
indexes = "{indexes}"

[data.collection.schools]
records  = 100
encoding = "json"
document = { id = "school {i}", city = { words = 1, vocabulary = 9 } }

[data.collection.students]
records  = 10_000
key      = { integer = 8 }
encoding = "json"
document = { n = { sequence = 0 }, age = { uniform = [6, 19] } }

[data.collection.log]
records = 5

[[phase]]
name = "load"
put  = { collection = "students", transaction = { batch = 100 } }

[[phase]]
name = "schools"
put  = { collection = "schools" }
background = { get = { collection = "students" } }

[[phase]]
name = "find"

[phase.find]
collection = "schools"

[[phase.find.query]]
where = { city = "{doc.city}" }

[[phase.find.query]]
collection = "students"
where = { age = { gte = 10 } }
limit = 5

[[phase]]
name   = "verify"
verify = {}
"#;

fn spec(text: &str) -> TrialSpec {
    sound(text).variants()[1].spec.clone()
}

#[test]
fn collections_are_read_with_what_names_them() {
    let spec = spec(COLLECTIONS);
    let data: Vec<_> = spec.data.iter().map(|each| (each.name.as_deref(), each.records)).collect();
    assert_eq!(data, [(Some("schools"), 100), (Some("students"), 10_000), (Some("log"), 5)]);
    let indexes: Vec<_> = spec.data.iter().map(|each| spec.subject.store().unwrap().indexes_of(each).len()).collect();
    assert_eq!(indexes, [1, 2, 0]);
    let named: Vec<_> = spec
        .phases
        .iter()
        .flat_map(|phase| phase.actions())
        .filter_map(|action| action.ops().map(|ops| (action.name(), ops.collection.as_deref())))
        .collect();
    let [schools, students] = [Some("schools"), Some("students")];
    assert_eq!(named, [("put", students), ("put", schools), ("get", students), ("find", schools)]);
    let Action::Find(find) = &spec.phases[2].action else { panic!("{:?}", spec.phases[2]) };
    let queried: Vec<_> = find.queries.iter().map(|query| query.collection.as_deref()).collect();
    assert_eq!(queried, [schools, students]);
}

#[test]
fn one_collection_with_a_name_needs_no_other_mention() {
    let text = "[store]\nengine = \"lmdb\"\nindexes = [[\"x\"]]\n[data.collection.pages]\nrecords = 9\ndocument = { x = \
                1 }\n[[phase]]\nname = \"w\"\nput = {}\n[[phase]]\nname = \"f\"\nfind = { query = { where = { x = 1 } } }\n";
    let spec = sound(text).variants()[0].spec.clone();
    let pages = Some("pages".to_owned());
    assert!(spec.phases.iter().all(|phase| phase.action.ops().unwrap().collection == pages));
    assert_eq!(spec.subject.store().unwrap().indexes[0].collection, pages);
    assert_eq!(spec.collection(spec.phases[1].action.ops().unwrap()).unwrap().records, 9);
}

#[test]
fn faults_of_collections_name_their_place() {
    let of = |from: &str, to: &str| {
        assert!(COLLECTIONS.contains(from), "{from}");
        let all = faults(&COLLECTIONS.replacen(from, to, 1));
        format!("{to}\n    {}", all.lines().next().unwrap_or_default())
    };
    let all = [
        of("collection = \"students\", trans", "trans"),
        of("{ collection = \"schools\" }", "{ collection = \"school\" }"),
        of("get = { collection = \"students\" }", "get = {}"),
        of("collection = \"students\"\nwhere", "collection = \"pupils\"\nwhere"),
        of("age = { gte = 10 }", "city = \"x\""),
        of("\"{doc.city}\"", "\"{doc.age}\""),
        of("collection = \"students\"\nwhere = { age = { gte = 10 } }", "collection = \"log\""),
        of("[data.collection.log]", "[data.collection.Schools]"),
        of("[data.collection.log]", "[data.collection.\"a b\"]"),
        of("[data.collection.schools]", "[data]\nrecords = 3\n[data.collection.schools]"),
        of("[data.collection.schools]", "[data]\nkey = \"{i}\"\n[data.collection.schools]"),
        of("schools = [[\"city\"]]", "school = [[\"city\"]]"),
        of("schools = [[\"city\"]]", "log = [[\"city\"]]"),
        of("schools = [[\"city\"]]", "schools = [[\"age\"]]"),
        of("records = 5\n", "value = \"x\"\n"),
    ];
    insta::assert_snapshot!(all.join("\n"), @r#"
    trans
        28:1 the file has several collections, and `collection` is missing here | write `collection = "schools"`
    { collection = "school" }
        32:23 unknown collection `school` | did you mean `schools`?
    get = {}
        33:16 the file has several collections, and `collection` is missing here | write `collection = "schools"`
    collection = "pupils"
    where
        45:14 unknown collection `pupils` | known: `schools`, `students`, `log`
    city = "x"
        46:9 the documents of `[data.collection.students.document]` have no field `city` | known: `n`, `age`
    "{doc.age}"
        42:9 the documents of `[data.collection.schools.document]` have no field `age` | known: `id`, `city`
    collection = "log"
        39:14 `find` needs documents, but the values of `[data.collection.log]` are bytes without fields | write `[data.collection.log.document]` with fields instead of `value`
    [data.collection.Schools]
        23:18 `Schools` and `schools` are the same name in SQL | choose names that differ in more than their case
    [data.collection."a b"]
        23:18 `a b` is not a valid name of a collection | use letters without accents, digits, `-` and `_`
    [data]
    records = 3
    [data.collection.schools]
        13:1 `records` stands beside `collection`, but belongs to one collection | write it in each `[data.collection.NAME]`
    [data]
    key = "{i}"
    [data.collection.schools]
        13:1 `key` stands beside `collection`, but belongs to one collection | write it in each `[data.collection.NAME]`
    school = [["city"]]
        6:46 unknown collection `school` | did you mean `schools`?
    log = [["city"]]
        6:10 indexes need documents, but the values of `[data.collection.log]` are bytes without fields | write `[data.collection.log.document]` with fields instead of `value`
    schools = [["age"]]
        6:57 the documents of `[data.collection.schools.document]` have no field `age` | known: `id`, `city`
    value = "x"

        23:1 `collection` needs one of `records`, `file`
    "#);
}

#[test]
fn names_of_collections_are_needed_where_there_are_several() {
    let list = COLLECTIONS.replace("none   = {}", "none   = [[\"n\"]]");
    insta::assert_snapshot!(faults(&list).lines().next().unwrap_or_default(), @r#"5:10 the file has several collections, and this does not say of which the indexes are | write a table with the indexes of each collection: `indexes = { NAME = [["FIELD"]] }`"#);
    let unnamed =
        "[store]\nengine = \"lmdb\"\n[data]\nrecords = 9\n[[phase]]\nname = \"w\"\nput = { collection = \"x\" }\n";
    insta::assert_snapshot!(faults(unnamed), @"7:22 there is no collection `x`: the records of `[data]` have no name | leave `collection` out, or write `[data.collection.NAME]`");
    insta::assert_snapshot!(faults(&unnamed.replace("records = 9", "key = \"{i}\"")), @"3:1 `data` needs one of `records`, `file`, `collection`");
}

const REFERENCES: &str = r#"
[store]
engine  = "lmdb"
indexes = { c = [["a"], ["many"]] }
[data.collection.a]
records  = 1_000
document = { id = "a{i}", up = { reference = "a", distribution = "cycle" } }
[data.collection.b]
records = 20
key     = { integer = 4 }
[data.collection.c]
records  = 5
document = { a = { reference = "a", distribution = "zipfian" }, b = { reference = "b" }, many = { list = { reference = "a" }, items = [0, 3] } }
[[phase]]
name = "w"
put  = { collection = "c" }
"#;

#[test]
fn references_know_the_keys_of_their_collection() {
    let spec = sound(REFERENCES).variants()[0].spec.clone();
    let fields: Vec<String> = spec
        .data
        .iter()
        .filter_map(|each| each.document())
        .flat_map(|document| &document.fields)
        .map(|field| format!("{} {:?}", field.name, field.value))
        .collect();
    insta::assert_snapshot!(fields.join("\n"), @r#"
    id Template(["a", ""])
    up Reference(ReferenceSpec { collection: "a", records: 1000, key: Template { parts: ["a", ""], pad: 0 }, distribution: Cycle })
    a Reference(ReferenceSpec { collection: "a", records: 1000, key: Template { parts: ["a", ""], pad: 0 }, distribution: Zipfian })
    b Reference(ReferenceSpec { collection: "b", records: 20, key: Integer { bytes: 4 }, distribution: Uniform })
    many List { of: Reference(ReferenceSpec { collection: "a", records: 1000, key: Template { parts: ["a", ""], pad: 0 }, distribution: Uniform }), items: (0, 3) }
    "#);
    let document = spec.data[2].document().unwrap();
    let kinds = |path: &str| document.kinds(&path.parse().unwrap());
    assert!(kinds("a").text && kinds("b").number && kinds("many").list && !kinds("a").number && !kinds("b").text);
}

#[test]
fn faults_of_references_name_their_place() {
    let of = |from: &str, to: &str| {
        assert!(REFERENCES.contains(from), "{from}");
        format!("{to}\n    {}", faults(&REFERENCES.replacen(from, to, 1)))
    };
    let all = [
        of("reference = \"b\"", "reference = \"d\""),
        of("reference = \"b\"", "words = 1, distribution = \"cycle\""),
        of("\"cycle\"", "\"latest\""),
        of("{ integer = 4 }", "{ hashed = 8 }"),
        of("{ integer = 4 }", "{ integer = 5 }"),
        of("records = 20\n", "records = 0\n"),
    ];
    insta::assert_snapshot!(all.join("\n"), @r#"
    reference = "d"
        13:83 unknown collection `d` | known: `a`, `b`, `c`
    words = 1, distribution = "cycle"
        13:82 `distribution` needs the key `reference`, which is missing
    "latest"
        7:66 `distribution` cannot be `latest` | known: `uniform`, `zipfian`, `cycle`
    { hashed = 8 }
        13:83 the keys of `b` are bytes, which are no text | write `hex = true` in its `key`
    { integer = 5 }
        10:23 `integer` cannot be `5` | expected 4 or 8
    records = 0

        9:11 `records` cannot be `0` | expected a whole number of at least 1
    "#);
    let single = "[store]\nengine = \"lmdb\"\n[data]\nrecords = 9\ndocument = { x = { reference = \"x\" } }\n[[phase]]\nname = \
                 \"w\"\nput = {}\n";
    insta::assert_snapshot!(faults(single), @"5:32 there is no collection `x`: the records of `[data]` have no name | leave `collection` out, or write `[data.collection.NAME]`");
}

#[test]
fn keys_leave_room_for_the_byte_of_their_collection() {
    let of = |collection: &str, hashed: u32| {
        faults(&format!(
            "[store]\nengine = \"lmdb\"\n[data{collection}]\nrecords = 9\nkey = {{ hashed = {hashed} }}\n\
             [data.collection.b]\nrecords = 1\n[[phase]]\nname = \"w\"\nput = {{ collection = \"b\" }}\n"
        ))
    };
    assert_eq!(of(".collection.a", 510), "no faults");
    assert_eq!(
        of(".collection.a", 511),
        "5:7 keys of 511 bytes are too long: `lmdb` allows at most 511 bytes, one of which says to what a key belongs | \
         shorten the key, or leave the variant out with `[design] skip`"
    );
}

#[test]
fn a_put_replaces_only_documents_of_its_own_collection() {
    let of = |second: &str| {
        faults(&format!(
            "[store]\nengine = \"fjall\"\nindexes = {{ a = [[\"x\"]] }}\n[data.collection.a]\nrecords = 9\n\
             document = {{ x = 1 }}\n[data.collection.b]\nrecords = 9\n[[phase]]\nname = \"1\"\n\
             put = {{ collection = \"b\" }}\n[[phase]]\nname = \"2\"\nput = {{ collection = \"a\" }}\n[[phase]]\n\
             name = \"3\"\nupdate = {{ collection = \"{second}\" }}\n"
        ))
    };
    assert_eq!(of("b"), "no faults");
    assert!(of("a").contains("cannot read inside a write transaction"), "{}", of("a"));
}

/// The faults of a file whose phases are these. `b` refers to `a` and, by some documents, to itself; `c` has this document.
fn checked(engine: &str, indexes: &str, c: &str, phases: &[&str]) -> String {
    let phases: Vec<String> =
        phases.iter().enumerate().map(|(at, phase)| format!("[[phase]]\nname = \"{at}\"\n{phase}\n")).collect();
    faults(&format!(
        "[store]\nengine = \"{engine}\"\nindexes = {indexes}\n[data.collection.a]\nrecords = 9\n\
         document = {{ id = \"a{{i}}\" }}\n[data.collection.b]\nrecords = 9\n\
         document = {{ to = {{ reference = \"a\" }}, in = {{ up = {{ reference = \"b\", present = \"50%\" }} }} }}\n\
         [data.collection.c]\nrecords = 9\ndocument = {{ {c} }}\n{}",
        phases.concat()
    ))
}

const PUT_A: &str = "put = { collection = \"a\" }";
const PUT_B: &str = "put = { collection = \"b\", references = \"lock\" }";
const DELETE_A: &str = "delete = { collection = \"a\", references = \"check\" }";

#[test]
fn checks_of_references_need_documents_indexes_and_reads_inside_transactions() {
    const TO: &str = "{ b = [[\"to\"]] }";
    const PLAIN: &str = "n = 1";
    assert_eq!(checked("lmdb", TO, PLAIN, &[PUT_A, PUT_B, DELETE_A]), "no faults");
    let of = |engine: &str, indexes: &str, phases: &[&str]| format!("{}\n", checked(engine, indexes, PLAIN, phases));
    let threads = "put = { collection = \"b\", references = \"check\", threads = 2 }";
    let all = [
        of("lmdb", "{}", &[PUT_B]),
        of("lmdb", "{ b = [[\"in.up\", \"to\"]] }", &[PUT_A, DELETE_A]),
        of("fjall", "{}", &[PUT_A, PUT_B]),
        of("redb", "{}", &[PUT_A, threads]),
        of("lmdb", "{}", &["get = { collection = \"b\", references = \"check\" }"]),
        of("lmdb", "{}", &["put = { collection = \"a\", references = \"check\" }"]),
        of("lmdb", "{}", &["delete = { collection = \"c\", references = \"check\" }"]),
        of("lmdb", TO, &["delete = { collection = \"a\", references = \"lock\" }"]),
    ];
    insta::assert_snapshot!(all.concat(), @r#"
    15:1 `to` refers to records of `a`, none of which is stored yet: each operation would be refused | store them in an earlier phase; of two collections that refer to each other, store one with `references = "ignore"`
    18:1 to see whether a document is referred to, `delete` needs an index of `b` whose first field is `to` | add `b = [["to"]]` to the table `indexes` of `[store]`
    18:1 `fjall` cannot read inside a write transaction, which a check of references needs | leave the variant out with `[design] skip`, or the phase with `when`
    18:1 `redb` has concurrent writers: another thread may remove a document between the check and the commit | use one thread
    15:1 `get` does not check references: only `put`, `update` and `delete` do | leave `references` out
    15:1 no field of `a` refers to other records | leave `references` out
    15:1 no field refers to records of `c` | leave `references` out
    15:1 `delete` has nothing to lock: it refuses to remove a document to which others refer, and `lock` writes documents to which a new one refers | write `references = "check"`
    "#);
}

#[test]
fn references_that_no_index_leads_to_are_not_checked() {
    const INDEXES: &str = "{ b = [[\"to\"]], c = [[\"x\"]] }";
    let of = |c: &str, phase: &str| format!("{}\n", checked("lmdb", INDEXES, c, &[PUT_A, PUT_B, phase]));
    const NESTED: &str = "x = [{ y = { reference = \"a\" } }]";
    const KINDS: &str = "x = [{ reference = \"a\" }, { reference = \"b\" }]";
    const TWICE: &str = "x = [{ reference = \"a\" }, { reference = \"a\" }]";
    const PUT: &str = "put = { collection = \"c\", references = \"check\" }";
    for phase in [PUT, DELETE_A] {
        assert_eq!(of(TWICE, phase), "no faults\n");
    }
    assert_eq!(of(KINDS, PUT), "no faults\n", "each item has a place of its own");
    let all = [
        of(NESTED, PUT),
        of(NESTED, "update = { collection = \"c\", references = \"lock\" }"),
        of(NESTED, DELETE_A),
        of(KINDS, DELETE_A),
        of("x = { list = { list = { reference = \"a\" } } }", DELETE_A),
    ];
    insta::assert_snapshot!(all.concat(), @r#"
    21:1 the items of the list `x` of `c` have references to `a` inside them, which cannot be checked: no index leads to them | refer from a field, or make the items references themselves
    21:1 the items of the list `x` of `c` have references to `a` inside them, which cannot be checked: no index leads to them | refer from a field, or make the items references themselves
    21:1 the items of the list `x` of `c` have references to `a` inside them, which cannot be checked: no index leads to them | refer from a field, or make the items references themselves
    21:1 the list `x` of `c` has other items beside references to `a`: an index does not tell which of them equals a key | write a field for each kind
    21:1 the items of the list `x` of `c` have references to `a` inside them, which cannot be checked: no index leads to them | refer from a field, or make the items references themselves
    "#);
}

#[test]
fn checks_that_refuse_every_operation_are_faults() {
    let of = |c: &str, phases: &[&str]| format!("{}\n", checked("lmdb", "{}", c, phases));
    const PUT: &str = "put = { collection = \"c\", references = \"check\" }";
    const UPDATE: &str = "update = { collection = \"c\", references = \"check\" }";
    const ALWAYS: &str = "up = { reference = \"c\" }";
    for c in ["up = { reference = \"c\", present = \"99%\" }", "up = { list = { reference = \"c\" }, items = [0, 2] }"]
    {
        assert_eq!(of(c, &[PUT]), "no faults\n", "{c}: the first one may have none");
    }
    assert_eq!(of(ALWAYS, &["put = { collection = \"c\", count = 1 }", PUT]), "no faults\n");
    let all = [
        of(ALWAYS, &[PUT]),
        of(ALWAYS, &[UPDATE]),
        of("in = { up = [1, { reference = \"c\" }] }", &[PUT]),
        of("up = { list = { reference = \"c\" }, items = [1, 2] }", &[PUT]),
        of("to = { reference = \"a\", present = \"10%\" }", &[PUT]),
        of("to = { reference = \"a\" }", &[PUT]),
    ];
    insta::assert_snapshot!(all.concat(), @r#"
    15:1 each document of `c` refers by `up` to one that must be stored before it: the first one can never be stored | store some in an earlier phase with `references = "ignore"`, or give only a share of them the field, with `present`
    15:1 each document of `c` refers by `up` to one that must be stored before it: the first one can never be stored | store some in an earlier phase with `references = "ignore"`, or give only a share of them the field, with `present`
    15:1 each document of `c` refers by `in.up` to one that must be stored before it: the first one can never be stored | store some in an earlier phase with `references = "ignore"`, or give only a share of them the field, with `present`
    15:1 each document of `c` refers by `up` to one that must be stored before it: the first one can never be stored | store some in an earlier phase with `references = "ignore"`, or give only a share of them the field, with `present`
    15:1 `to` refers to records of `a`, none of which is stored yet: each document with such a reference would be refused | store them in an earlier phase; of two collections that refer to each other, store one with `references = "ignore"`
    15:1 `to` refers to records of `a`, none of which is stored yet: each operation would be refused | store them in an earlier phase; of two collections that refer to each other, store one with `references = "ignore"`
    "#);
}

#[test]
fn a_query_of_an_unknown_collection_is_named_at_its_place() {
    let find = "find = { collection = \"a\", query = [{ collection = \"a\" }, { collection = \"x\" }] }";
    let beside =
        "put = { collection = \"a\" }\nbackground = { find = { collection = \"a\", query = { collection = \"x\" } } }";
    let of = |phase: &str| format!("{}\n", checked("lmdb", "{}", "n = 1", &[phase]));
    insta::assert_snapshot!([of(find), of(beside)].concat(), @r#"
    15:74 unknown collection `x` | known: `a`, `b`, `c`
    16:66 unknown collection `x` | known: `a`, `b`, `c`
    "#);
}

#[test]
fn no_collection_at_all_is_one_fault() {
    let found = faults(
        "[store]\nengine = \"lmdb\"\n[data]\ncollection = {}\n[[phase]]\nname = \"a\"\nput = {}\n[[phase]]\nname = \"b\"\nverify = {}\n",
    );
    insta::assert_snapshot!(found, @r#"
    3:1 `collection` is empty | write `[data.collection.NAME]`
    "#);
}
