//! Tests how operations that references refused, and collections that a phase does not use, decide what is compared.

use prony_model::document::{Distribution, DocumentSpec, Encoding, FieldSpec, FieldValue, Generator, ReferenceSpec};
use prony_model::spec::{FindSpec, QuerySpec};

use super::*;
use crate::guard::refusals;

fn on(collection: &str, references: References) -> Ops {
    Ops { collection: Some(collection.to_owned()), references, ..ops(Amount::Records) }
}

fn field(name: &str, value: Generator) -> FieldSpec {
    FieldSpec { name: name.to_owned(), value, present: Fraction::ONE }
}

/// So many schools, students who refer to them, and what has nothing to do with either.
fn school_spec(schools: u64, students: u64, teachers: u64, phases: Vec<PhaseSpec>) -> TrialSpec {
    let key = KeySpec::Integer { bytes: 8 };
    let to = ReferenceSpec {
        collection: "schools".to_owned(),
        records: schools,
        key: key.clone(),
        distribution: Distribution::Uniform,
    };
    let collection = |name: &str, records, fields| CollectionSpec {
        name: Some(name.to_owned()),
        records,
        key: key.clone(),
        value: ValueSpec::Document(DocumentSpec { fields, encoding: Encoding::default(), file: None }),
    };
    let plain = || vec![field("n", Generator::Constant(FieldValue::Int(1)))];
    let data = vec![
        collection("schools", schools, plain()),
        collection("students", students, vec![field("school", Generator::Reference(Box::new(to)))]),
        collection("teachers", teachers, plain()),
    ];
    TrialSpec { data, phases, ..spec("lmdb") }
}

/// Loads students, then reads what `get` names.
fn load_and_read(references: References, get: &str) -> TrialSpec {
    let phases = vec![
        phase_spec("load", Action::Put(on("students", references))),
        phase_spec("read", Action::Get(on(get, References::Ignored))),
    ];
    school_spec(10, 1000, 10, phases)
}

/// A record of these phases in which the load refused so many of 1000 operations, and the read gave this answer.
fn loaded(refused: Option<(f64, &str)>, read: &str) -> TrialRecord {
    let mut load = phase("load", &[(Metric::Time, 1e9), (Metric::Operations, 1000.0), (Metric::Errors, 0.0)]);
    if let Some((count, digest)) = refused {
        let readings = load.readings.get_mut("").unwrap();
        readings.insert(MetricKeyText(MetricKey::amount(Metric::Refused)), Reading::Measured(count));
        load.answer = Some(Answer { rows: None, digest: format!("refused:{digest}"), comparable: true });
    }
    let counts = [(Metric::Time, 1e9), (Metric::Operations, 1000.0), (Metric::Errors, 0.0)];
    let answer = Some(Answer { rows: Some(1000), digest: format!("lines:{read}"), comparable: true });
    record(vec![load, PhaseRecord { action: "get".into(), answer, ..phase("read", &counts) }])
}

fn differ(x: (&TrialSpec, &TrialRecord), y: (&TrialSpec, &TrialRecord)) -> Vec<String> {
    let found = variants::answers_differ([&variant_trials("x", x.0, x.1), &variant_trials("y", y.0, y.1)]);
    found.into_iter().map(|finding| format!("{}: {}", finding.phase.unwrap_or_default(), finding.message)).collect()
}

fn unequal(name: &str, x: (&TrialSpec, &TrialRecord), y: (&TrialSpec, &TrialRecord)) -> Option<String> {
    let (x, y) = (variant_trials("x", x.0, x.1), variant_trials("y", y.0, y.1));
    variants::unequal_offer([&x, &y], &name.parse().unwrap())
}

const READ: &str = "read: `x` and `y` returned 1000 rows each, but not the same rows";

#[test]
fn later_answers_are_compared_where_the_records_say_that_the_same_was_refused() {
    let [ignoring, checking] = [References::Ignored, References::Checked].map(|r| load_and_read(r, "students"));
    let all = loaded(None, "aa");
    assert_eq!(differ((&ignoring, &all), (&checking, &loaded(Some((0.0, "00")), "bb"))), [READ], "nothing was refused");
    assert!(
        differ((&ignoring, &all), (&checking, &loaded(Some((3.0, "11")), "bb"))).is_empty(),
        "three are not stored"
    );
    let same = [Some((3.0, "11")), Some((3.0, "11"))].map(|refused| loaded(refused, "aa"));
    assert!(differ((&checking, &same[0]), (&checking, &same[1])).is_empty());
    let wrong = loaded(Some((3.0, "11")), "bb");
    assert_eq!(differ((&checking, &same[0]), (&checking, &wrong)), [READ]);
    let teachers = loaded(Some((3.0, "22")), "bb");
    let refused = "load: `x` and `y` refused different operations";
    assert_eq!(differ((&checking, &same[0]), (&checking, &teachers)), [refused], "and so the read finds teachers");
    let elsewhere = load_and_read(References::Checked, "teachers");
    assert_eq!(differ((&elsewhere, &same[0]), (&elsewhere, &teachers)), [refused, READ], "it reads no students");
}

/// An operation that is refused costs less than one that is done: loads of which almost all was refused were "50.8 times
/// faster".
#[test]
fn speeds_are_not_compared_where_other_shares_were_refused() {
    let [ignoring, checking] = [References::Ignored, References::Checked].map(|r| load_and_read(r, "students"));
    let (all, few) = (loaded(None, "aa"), loaded(Some((120.0, "11")), "bb"));
    let of = |name| unequal(name, (&ignoring, &all), (&checking, &few));
    let why = "`load`: none of the operations of `x` were refused because of references, but 12 % of those of `y`";
    assert_eq!(of("load.time").as_deref(), Some(why));
    for name in ["load.rate", "load.cpu", "load.latency.p50", "load.written", "load.fdatasync", "load.anon.max"] {
        assert!(of(name).is_some(), "{name}");
    }
    assert_eq!(of("load.refused"), None, "that is what differs");
    let why = "`read` finds what `load` has left, where references refused different operations, or it is not known which, and no \
               `verify` phase shows that the same is stored";
    assert_eq!(of("read.time").as_deref(), Some(why));
    assert_eq!(of("read.errors").as_deref(), Some(why));
    let nearly = loaded(Some((9.0, "11")), "bb");
    assert_eq!(unequal("load.time", (&ignoring, &all), (&checking, &nearly)), None);
    let found = unequal("read.time", (&ignoring, &all), (&checking, &nearly));
    assert_eq!(found.as_deref(), Some(why), "nine of 1000 may be all that the read looks for");
    let found = unequal("read.time", (&ignoring, &all), (&checking, &loaded(Some((9.0, "11")), "aa")));
    assert_eq!(found.as_deref(), Some(why), "it found the same, but searched what is not the same");
    assert_eq!(unequal("read.time", (&checking, &few), (&checking, &few)), None, "the same operations");
    let unknown = |read: &str| {
        let mut record = loaded(Some((500.0, "11")), read);
        record.phases[0].answer.as_mut().unwrap().comparable = false;
        record
    };
    let found = unequal("read.time", (&checking, &unknown("aa")), (&checking, &unknown("bb")));
    assert_eq!(found.as_deref(), Some(why), "as many, and perhaps not the same");
    let elsewhere = load_and_read(References::Checked, "teachers");
    assert_eq!(unequal("read.time", (&elsewhere, &all), (&elsewhere, &few)), None, "it reads no students");
}

#[test]
fn refusals_of_a_background_count_too() {
    let checking = load_and_read(References::Checked, "students");
    let of = |refused| {
        let mut record = loaded(Some((0.0, "00")), "aa");
        let counts = [(Metric::Operations, 100.0), (Metric::Refused, refused)];
        let counts = counts.map(|(metric, n)| (MetricKeyText(MetricKey::amount(metric)), Reading::Measured(n)));
        record.phases[0].readings.insert("background".into(), counts.into());
        record.phases[1].answer.as_mut().unwrap().digest += if refused > 0.0 { "b" } else { "" };
        record
    };
    let why = unequal("load.rate", (&checking, &of(0.0)), (&checking, &of(50.0))).unwrap();
    assert!(why.starts_with("the background of `load`: none of the operations of `x` were refused"), "{why}");
    assert!(differ((&checking, &of(0.0)), (&checking, &of(50.0))).is_empty(), "which ones depends on speed");
    assert_eq!(refusals::many_refused(&of(9.0).phases[0], "background"), None);
    let found = refusals::many_refused(&of(99.0).phases[0], "background").unwrap();
    let said = "99 of 100 operations of the background (99 %) were refused because of references: times, rates and latencies include \
                them, and they cost less than those that are done";
    assert_eq!(found.message, said);
    assert_eq!(refusals::many_refused(&of(99.0).phases[0], ""), None);
}

/// The guards were switched off where a factor changed a collection that a phase does not use.
#[test]
fn only_the_collections_that_a_phase_uses_decide_what_is_compared() {
    let (a, b) = (loaded(None, "aa"), loaded(None, "bb"));
    let read = |schools, students, teachers, action: &dyn Fn(Ops) -> Action| {
        let phases = vec![phase_spec("read", action(on("students", References::Ignored)))];
        school_spec(schools, students, teachers, phases)
    };
    let get: &dyn Fn(Ops) -> Action = &Action::Get;
    let plain = read(10, 100, 10, get);
    assert_eq!(differ((&plain, &a), (&read(10, 100, 99, get), &b)), [READ], "teachers are not used");
    assert!(differ((&plain, &a), (&read(10, 200, 10, get), &b)).is_empty(), "more students");
    assert!(differ((&plain, &a), (&read(20, 100, 10, get), &b)).is_empty(), "students refer to other schools");
    let query = |collection: &str| QuerySpec {
        collection: Some(collection.to_owned()),
        filter: prony_model::spec::Filter::All(Vec::new()),
        sort: Vec::new(),
        skip: 0,
        limit: None,
        select: Vec::new(),
        count: false,
    };
    let find: &dyn Fn(Ops) -> Action = &|ops| Action::Find(FindSpec { ops, queries: vec![query("teachers")] });
    let [a, b] = [a, b].map(|mut record| {
        record.phases[1].action = "find".into();
        record
    });
    assert!(differ((&read(10, 100, 10, find), &a), (&read(10, 100, 99, find), &b)).is_empty(), "a query uses teachers");
    assert_eq!(differ((&read(10, 100, 10, find), &a), (&read(10, 100, 10, find), &b)), [READ]);
}

#[test]
fn checks_of_references_use_the_collections_that_refer_and_are_referred_to() {
    let used = |collection: &str, references| {
        let phase = phase_spec("p", Action::Delete(on(collection, references)));
        let spec = school_spec(1, 2, 3, vec![phase.clone()]);
        let names = crate::guard::questions::used(&spec, &phase).into_iter().filter_map(|used| used.name.clone());
        names.collect::<Vec<_>>()
    };
    assert_eq!(used("schools", References::Ignored), ["schools"]);
    assert_eq!(used("schools", References::Checked), ["schools", "students"]);
    assert_eq!(used("students", References::Locked), ["schools", "students"]);
    assert_eq!(used("teachers", References::Checked), ["teachers"]);
    let spec = school_spec(1, 2, 3, Vec::new());
    assert_eq!(crate::guard::questions::used(&spec, &phase_spec("p", Action::Verify)).len(), 3);
}

#[test]
fn as_many_operations_must_be_offered_though_another_collection_varies() {
    let phases = || vec![phase_spec("load", Action::Put(on("students", References::Ignored)))];
    let of = |students, teachers, done: f64| {
        let spec = school_spec(10, students, teachers, phases());
        let mut record = loaded(None, "aa");
        let readings = record.phases[0].readings.get_mut("").unwrap();
        readings.insert(MetricKeyText(MetricKey::amount(Metric::Operations)), Reading::Measured(done));
        let (x, base) = (school_spec(10, 100, 10, phases()), loaded(None, "aa"));
        (unequal("load.time", (&x, &base), (&spec, &record)), {
            let found = variants::check([&variant_trials("x", &x, &base), &variant_trials("y", &spec, &record)]);
            found.into_iter().map(|finding| finding.guard).collect::<Vec<_>>()
        })
    };
    assert_eq!(of(100, 99, 1000.0), (None, vec![]));
    let why = "`x` attempted 1000 operations, but `y` attempted 400".to_owned();
    assert_eq!(of(100, 99, 400.0), (Some(why.clone()), vec!["work_differs".to_owned()]));
    assert_eq!(of(200, 10, 400.0), (Some(why), vec![]), "the file asks for it, and it is other work all the same");
}

#[test]
fn writes_for_a_time_matter_to_phases_that_use_their_collection() {
    let of = |written: &str| {
        let timed = Ops { amount: Amount::Duration(Nanos::from_millis(300)), ..on(written, References::Ignored) };
        let mut spec = load_and_read(References::Ignored, "students");
        spec.phases.insert(0, phase_spec("first", Action::Put(timed)));
        differ((&spec, &loaded(None, "aa")), (&spec, &loaded(None, "bb")))
    };
    assert!(of("students").is_empty(), "how much is stored depends on speed");
    assert_eq!(of("teachers"), [READ]);
}

/// A store of which 0.9 % is missing may answer a search alike, and faster.
#[test]
fn what_refusals_left_is_compared_where_a_verify_finds_the_same_stored() {
    let verify = |stored: &str| {
        let answer = Some(Answer { rows: Some(9), digest: format!("bytes:{stored}"), comparable: true });
        PhaseRecord { action: "verify".into(), answer, ..phase("verify", &[]) }
    };
    let of = |place: usize, refused, stored: &str, read: &str| {
        let mut spec = load_and_read(References::Checked, "students");
        spec.phases.insert(place, phase_spec("verify", Action::Verify));
        let mut record = loaded(Some((9.0, refused)), read);
        record.phases.insert(place, verify(stored));
        (spec, record)
    };
    let compared = |place, stored: &str, read: &str| {
        let (x, y) = (of(place, "11", "s", "aa"), of(place, "22", stored, read));
        unequal("read.time", (&x.0, &x.1), (&y.0, &y.1)).is_none()
    };
    assert!(compared(1, "s", "aa") && compared(2, "s", "aa"), "before or behind it");
    assert!(!compared(1, "t", "aa"), "other records are stored");
    assert!(!compared(1, "s", "bb"), "and it finds others");
    assert!(!compared(0, "s", "aa"), "before what refused");
    let mut written = of(1, "22", "s", "aa");
    written.0.phases.insert(2, phase_spec("more", Action::Update(on("students", References::Ignored))));
    let plain = of(1, "11", "s", "aa");
    assert!(
        unequal("read.time", (&plain.0, &plain.1), (&written.0, &written.1)).is_some(),
        "something was written since"
    );
}
