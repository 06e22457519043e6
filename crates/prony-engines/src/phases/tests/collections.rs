//! Tests phases over several collections of one store, on every engine of the default build.

use std::collections::BTreeSet;

use prony_model::spec::{
    Action, Amount, BytesSpec, CollectionSpec, Distribution, DocumentSpec, Encoding, FieldSpec, FieldValue, Filter,
    FindSpec, Generator, Grouping, IndexSpec, KeySpec, MixSpec, MixWeights, Operand, Ops, OptionValue, Order,
    PhaseSpec, QuerySpec, ReferenceSpec, ScanLength, ScanSpec, Size, SortKey, Subject, Test, ValueSpec,
};
use prony_model::units::{Bytes, Fraction};

use super::fake::{Fake, ops, option, plan, run, run_on};
use crate::driver::Driver;
use crate::phases::Plan;

const NAMES: [&str; 3] = ["schools", "students", "blobs"];

fn numbered(before: &str) -> KeySpec {
    KeySpec::Template { parts: vec![before.to_owned(), String::new()], pad: 0 }
}

fn documents(encoding: Encoding, with: &str) -> ValueSpec {
    let field = |name: &str, value| FieldSpec { name: name.to_owned(), value, present: Fraction::new(0.9).unwrap() };
    let fields = vec![
        field("n", Generator::Uniform(0, 20)),
        field(with, Generator::Cycle(vec![FieldValue::Null, FieldValue::Bool(true), FieldValue::Int(3)])),
    ];
    ValueSpec::Document(DocumentSpec { fields, encoding, file: None })
}

/// Keys of the same texts and of numbers; documents and bytes.
fn collections(encoding: Encoding) -> Vec<CollectionSpec> {
    let bytes = BytesSpec {
        bytes: Size::Uniform { min: Bytes::from_bytes(0), max: Bytes::from_bytes(90) },
        compressible: Fraction::default(),
        prefix: Vec::new(),
    };
    let of = |at: usize, records, key, value| CollectionSpec { name: Some(NAMES[at].to_owned()), records, key, value };
    vec![
        of(0, 40, numbered("/"), documents(encoding, "open")),
        of(1, 150, numbered("/"), documents(encoding, "old")),
        of(2, 90, KeySpec::Integer { bytes: 8 }, ValueSpec::Bytes(bytes)),
    ]
}

fn on(collection: usize, order: Order) -> Ops {
    Ops { collection: Some(NAMES[collection].to_owned()), ..ops(order) }
}

fn query(collection: usize, field: &str) -> QuerySpec {
    let test = Test::Gte(Operand::Document("n".parse().unwrap()));
    QuerySpec {
        collection: Some(NAMES[collection].to_owned()),
        filter: Filter::Field("n".parse().unwrap(), test),
        sort: vec![SortKey { field: field.parse().unwrap(), descending: false }],
        skip: 1,
        limit: Some(7),
        select: Vec::new(),
        count: false,
    }
}

/// Every kind of operation, on one collection after the other; the last first, so that keys are stored below others.
fn actions() -> Vec<Action> {
    let weights = MixWeights { read: 2.0, update: 2.0, insert: 2.0, scan: 1.0, delete: 1.0, read_modify_write: 1.0 };
    let batched = |at, order| Ops { transaction: Grouping::Batch(7), ..on(at, order) };
    let mix =
        |at| Action::Mix(MixSpec { ops: on(at, Order::Uniform), weights, scan_length: ScanLength::UniformTo(60) });
    let all = |at| {
        let ops = Ops { amount: Amount::Count(1), ..on(at, Order::Record) };
        Action::Scan(ScanSpec { ops, length: None })
    };
    let find = |at, queries| Action::Find(FindSpec { ops: on(at, Order::Shuffled), queries });
    let mut list = vec![
        Action::Put(batched(1, Order::Key)),
        Action::Put(on(2, Order::Record)),
        Action::Put(batched(0, Order::Key)),
    ];
    for at in 0..3 {
        list.extend([Action::Get(on(at, Order::Shuffled)), Action::Update(batched(at, Order::Shuffled))]);
    }
    for at in 0..3 {
        list.extend([mix(at), all(at), Action::Delete(Ops { amount: Amount::Count(20), ..on(at, Order::Record) })]);
    }
    list.extend([find(0, vec![query(0, "open")]), find(1, vec![query(1, "old")])]);
    list.extend([find(0, vec![query(0, "n"), query(1, "n")]), Action::Verify, Action::Compute(on(0, Order::Record))]);
    list.push(Action::Verify);
    list
}

fn of_all(encoding: Encoding, indexed: bool) -> Plan {
    let mut plan = plan(1, actions());
    plan.spec.data = collections(encoding);
    if let Subject::Store(store) = &mut plan.spec.subject {
        let index = |at: usize, fields: &[&str]| IndexSpec {
            collection: Some(NAMES[at].to_owned()),
            fields: fields.iter().map(|field| field.parse().unwrap()).collect(),
        };
        let all = vec![index(0, &["open", "n"]), index(1, &["old"]), index(1, &["n"])];
        store.indexes = if indexed { all } else { Vec::new() };
    }
    plan
}

/// The answers of the phases, by name.
fn answers<D: Driver>(mut plan: Plan) -> Vec<(String, String)> {
    let dir = tempfile::tempdir().unwrap();
    plan.dir = dir.path().to_owned();
    let (reports, ended) = run_on::<D>(&plan);
    ended.unwrap_or_else(|error| panic!("{}: {}", D::describe().name, error.cause));
    let names = plan.spec.phases.iter().map(|phase| phase.name.clone());
    let answers = names.zip(reports).filter_map(|(name, report)| Some((name, report.answer?.digest)));
    answers.collect()
}

/// The same where only this collection is in the store.
fn only(plan: &Plan, collection: usize) -> Plan {
    let mut plan = plan.clone();
    let name = Some(NAMES[collection].to_owned());
    plan.spec.data.retain(|spec| spec.name == name);
    plan.spec.phases.retain(|phase| match &phase.action {
        Action::Find(find) => find.queries.iter().all(|query| query.collection == name),
        action => action.ops().is_some_and(|ops| ops.collection == name),
    });
    if let Subject::Store(store) = &mut plan.spec.subject {
        store.indexes.retain(|index| index.collection == name);
    }
    plan
}

fn answers_with_and_without_other_collections<D: Driver>(encoding: Encoding, indexed: bool) -> Vec<(String, String)> {
    let plan = of_all(encoding, indexed);
    let all = answers::<D>(plan.clone());
    for (collection, name) in NAMES.iter().enumerate() {
        let own = answers::<D>(only(&plan, collection));
        let beside: Vec<_> = all.iter().filter(|(name, _)| own.iter().any(|(own, _)| own == name)).collect();
        assert!(own.len() >= 3, "a get, a mix and a scan");
        assert_eq!(own.iter().collect::<Vec<_>>(), beside, "{name} of {}", D::describe().name);
    }
    all
}

#[test]
fn collections_answer_as_if_each_had_its_own_store_on_every_engine() {
    for encoding in [Encoding::MsgPack, Encoding::Json] {
        let json = encoding == Encoding::Json;
        let mut all = BTreeSet::new();
        for indexed in [false, true] {
            all.insert(answers_with_and_without_other_collections::<Fake<true>>(encoding, indexed));
            all.insert(answers_with_and_without_other_collections::<crate::memory::Memory>(encoding, indexed));
            #[cfg(feature = "lmdb")]
            all.insert(answers_with_and_without_other_collections::<crate::lmdb::Lmdb>(encoding, indexed));
            #[cfg(feature = "redb")]
            all.insert(answers_with_and_without_other_collections::<crate::redb::Redb>(encoding, indexed));
            #[cfg(feature = "fjall")]
            if !indexed {
                all.insert(answers_with_and_without_other_collections::<crate::fjall::Fjall>(encoding, indexed));
            }
            #[cfg(feature = "sqlite")]
            if json || !indexed {
                all.insert(answers_with_and_without_other_collections::<crate::sqlite::Sqlite>(encoding, indexed));
            }
        }
        assert_eq!(all.len(), 1, "{all:#?}");
    }
}

/// How many rows the phases returned, by queries for the students of each school.
fn students_of_each_school<D: Driver>(encoding: Encoding, indexed: bool) -> (Vec<Option<u64>>, Vec<(String, String)>) {
    let mut plan = of_all(encoding, false);
    let key = plan.spec.data[0].key.clone();
    let to = |distribution| {
        let reference = ReferenceSpec { collection: NAMES[0].to_owned(), records: 40, key: key.clone(), distribution };
        Generator::Reference(Box::new(reference))
    };
    let field = |name: &str, value| FieldSpec { name: name.to_owned(), value, present: Fraction::ONE };
    let many = Generator::List { of: Box::new(to(Distribution::Zipfian)), items: (2, 2) };
    let fields =
        vec![field("in", to(Distribution::Cycle)), field("any", to(Distribution::Uniform)), field("many", many)];
    let id = vec![field("id", Generator::Template(vec!["/".to_owned(), String::new()]))];
    for (at, fields) in [(0, id), (1, fields)] {
        plan.spec.data[at].value = ValueSpec::Document(DocumentSpec { fields, encoding, file: None });
    }
    if let (Subject::Store(store), true) = (&mut plan.spec.subject, indexed) {
        let index =
            |field: &str| IndexSpec { collection: Some(NAMES[1].to_owned()), fields: vec![field.parse().unwrap()] };
        store.indexes = vec![index("in"), index("any")];
    }
    let of_school = |field: &str| QuerySpec {
        collection: Some(NAMES[1].to_owned()),
        filter: Filter::Field(field.parse().unwrap(), Test::In(vec![Operand::Document("id".parse().unwrap())])),
        sort: Vec::new(),
        limit: None,
        ..query(1, "id")
    };
    let find = |field: &str| {
        let queries = vec![QuerySpec { skip: 0, ..of_school(field) }];
        Action::Find(FindSpec { ops: on(0, Order::Shuffled), queries })
    };
    let list = [Action::Put(on(0, Order::Key)), Action::Put(on(1, Order::Key)), find("in"), find("any"), find("many")];
    let phases = list.into_iter().zip(plan.spec.phases.clone());
    plan.spec.phases = phases.map(|(action, phase)| PhaseSpec { action, ..phase }).collect();
    let dir = tempfile::tempdir().unwrap();
    plan.dir = dir.path().to_owned();
    let (reports, ended) = run_on::<D>(&plan);
    ended.unwrap_or_else(|error| panic!("{}: {}", D::describe().name, error.cause));
    let digests = reports.iter().filter_map(|report| Some(report.answer.as_ref()?.digest.clone()));
    let digests = plan.spec.phases[2..].iter().map(|phase| phase.name.clone()).zip(digests).collect();
    (reports[2..].iter().map(|report| report.rows).collect(), digests)
}

#[test]
fn references_lead_to_the_documents_that_have_them_on_every_engine() {
    let mut digests = BTreeSet::new();
    for (encoding, indexed) in [(Encoding::MsgPack, false), (Encoding::MsgPack, true), (Encoding::Json, true)] {
        let mut all = vec![students_of_each_school::<crate::memory::Memory>(encoding, indexed)];
        #[cfg(feature = "lmdb")]
        all.push(students_of_each_school::<crate::lmdb::Lmdb>(encoding, indexed));
        #[cfg(feature = "fjall")]
        all.push(students_of_each_school::<crate::fjall::Fjall>(encoding, indexed));
        #[cfg(feature = "sqlite")]
        if encoding == Encoding::Json {
            all.push(students_of_each_school::<crate::sqlite::Sqlite>(encoding, indexed));
        }
        for (rows, answers) in all {
            // Each student is in one school; a list may name a school twice, and then has it in one document.
            assert_eq!(rows[..2], [Some(150), Some(150)]);
            assert!((150..=300).contains(&rows[2].unwrap()), "{rows:?}");
            digests.insert(answers);
        }
    }
    assert_eq!(digests.len(), 1, "{digests:#?}");
}

#[test]
fn a_row_of_no_collection_is_a_wrong_answer() {
    for (lie, said) in [("missing", "is missing"), ("wrong", "a wrong byte"), ("extra", "key `unknown` is stored")] {
        let mut plan = of_all(Encoding::MsgPack, false);
        plan.spec.phases.truncate(3);
        let (persist, verify) = (Action::Persist, Action::Verify);
        for action in [persist, verify] {
            let name = action.name().to_owned();
            plan.spec.phases.push(PhaseSpec { name, action, ..plan.spec.phases[0].clone() });
        }
        let (_, ended) = run::<true>(&option(plan, "lie", OptionValue::Text(lie.to_owned())));
        let message = ended.unwrap_err().cause.to_string();
        assert!(message.contains(said) && (lie == "extra" || message.contains("of `schools`")), "{lie}: {message}");
    }
}
