//! Servers of MongoDB for the contract suite, started by the tests themselves, and tests of this driver alone.

use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use prony_engines::documents::{Planned, Query};
use prony_engines::driver::{
    Capabilities, Description, Documents, Driver, EngineError, Read, Session, Settings, Store, StoreFault, Table, Write,
};
use prony_engines::mongodb::{Mongodb, MongodbStore};
use prony_engines::own_query::OwnQuery;
use prony_engines::timed_loop::chain;
use prony_model::record::effective::Setting;
use prony_model::spec::{
    DocumentSpec, Encoding, FieldPath, FieldSpec, FieldValue, Filter, Generator, Operand, QuerySpec, StoreSpec, Test,
};
use prony_model::units::Fraction;

use crate::contract::{opened, plain, scratch};
use crate::server::{Server, are_there};

/// Starts a server in `$1` at port `$2`; ends it and removes its files when the test that has the other end of its input has
/// ended, however it does. `PRONY_MONGOD` names another program.
const SERVER: &str = r#"
dir=$1 port=$2
mkdir "$dir/db" || exit 1
"${PRONY_MONGOD:-mongod}" --port "$port" --bind_ip 127.0.0.1 --dbpath "$dir/db" </dev/null >"$dir/log" 2>&1 &
cat >/dev/null
kill -KILL $!
wait
rm -rf "$dir"
"#;

/// Whether MongoDB is installed.
pub(crate) fn is_there() -> bool {
    are_there(&[&std::env::var("PRONY_MONGOD").unwrap_or_else(|_| "mongod".to_owned())])
}

/// The server of the tests, started once.
fn server() -> &'static Server {
    static STARTED: OnceLock<Server> = OnceLock::new();
    let is_ready = |port| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok();
    STARTED.get_or_init(|| Server::start("mongodb", SERVER, &[], is_ready))
}

fn url(database: &str) -> String {
    format!("mongodb://127.0.0.1:{}/{database}", server().port)
}

/// A database that belongs to this directory: the same for all that open it. Each database is used once.
fn database(dir: &Path) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let known = dir.join("database");
    std::fs::read_to_string(&known).unwrap_or_else(|_| {
        let name = format!("test_{}", NEXT.fetch_add(1, Ordering::Relaxed));
        // Where the directory is none, the driver says so.
        let _ = std::fs::write(known, &name);
        name
    })
}

/// The driver with a server of the tests.
pub(crate) struct Started;

impl Driver for Started {
    type Store = MongodbStore;

    fn describe() -> Description {
        Mongodb::describe()
    }

    fn check(spec: &StoreSpec) -> Result<Settings, Vec<StoreFault>> {
        Mongodb::check(spec)
    }

    fn capabilities(spec: &StoreSpec) -> Capabilities {
        Mongodb::capabilities(spec)
    }

    fn open(dir: &Path, spec: &StoreSpec) -> Result<MongodbStore, EngineError> {
        let url = Some(spec.url.clone().unwrap_or_else(|| url(&database(dir))));
        Mongodb::open(dir, &StoreSpec { url, ..spec.clone() })
    }

    fn own_query(query: &QuerySpec, document: &DocumentSpec, page: &DocumentSpec, table: &Table) -> Option<OwnQuery> {
        Mongodb::own_query(query, document, page, table)
    }
}

fn put(store: &MongodbStore, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
    let mut session = store.session()?;
    let mut txn = session.write()?;
    txn.put(key, value)?;
    txn.commit()
}

fn has(store: &MongodbStore, key: &[u8]) -> bool {
    store.session().unwrap().read().unwrap().get(key, |_| ()).unwrap()
}

fn at(database: &str) -> StoreSpec {
    StoreSpec { url: Some(url(database)), ..plain::<Started>() }
}

fn refusal(dir: &Path, spec: &StoreSpec) -> String {
    chain(&opened::<Mongodb>(dir, spec).map(drop).unwrap_err())
}

#[test]
fn trial_begins_with_an_empty_store_and_goes_on_with_its_own() {
    if !is_there() {
        return;
    }
    let (first, second, spec) = (scratch(), scratch(), at("one_trial"));
    let store = opened::<Mongodb>(first.path(), &spec).unwrap();
    put(&store, b"a", b"1").unwrap();
    let busy = refusal(second.path(), &spec);
    assert!(busy.contains("another run uses the database `one_trial`"), "{busy}");
    assert!(has(&store, b"a"), "what is refused changes nothing");
    store.confirm().unwrap();
    store.close().unwrap();
    let store = opened::<Mongodb>(first.path(), &spec).unwrap();
    assert!(has(&store, b"a"), "opened again in the same trial");
    store.close().unwrap();
    let store = opened::<Mongodb>(second.path(), &spec).unwrap();
    assert!(!has(&store, b"a"), "of another trial");
    store.close().unwrap();
    let replaced = refusal(first.path(), &spec);
    assert!(replaced.contains("does not have the store of this trial any more"), "{replaced}");
}

#[test]
fn what_the_server_reports_is_in_force() {
    if !is_there() {
        return;
    }
    let dir = scratch();
    let mut store = Started::open(dir.path(), &plain::<Started>()).unwrap();
    let fields: Vec<FieldPath> = vec!["in.a".parse().unwrap(), "b".parse().unwrap()];
    let spec = Arc::new(DocumentSpec { fields: Vec::new(), encoding: Encoding::Json, file: None });
    let table = Table { documents: Some(Documents { spec, indexes: vec![fields] }), ..Table::default() };
    store.set_up_tables(&[table], true).unwrap();
    let in_force = store.in_force().unwrap();
    let of = |name: &str| in_force.read_back.get(name).cloned();
    assert_eq!(of("storage_engine"), Some(Setting::from("wiredTiger")));
    assert_eq!((of("takes_writes"), of("router")), (Some(true.into()), Some(false.into())));
    let indexes = ["prony_records: _id_", "prony_records: d.in.a, d.b"].map(str::to_owned).to_vec();
    assert_eq!(of("indexes"), Some(indexes.into()));
    assert_eq!(of("version"), store.version().map(|version| version.as_str().into()));
    store.close().unwrap();
}

/// Which of two indexes a query uses depends on what is bound: the plan was that of empty texts.
#[test]
fn plan_is_that_of_the_values_that_are_bound() {
    if !is_there() {
        return;
    }
    let dir = scratch();
    let mut store = Started::open(dir.path(), &plain::<Started>()).unwrap();
    let [a, b]: [FieldPath; 2] = ["a", "b"].map(|field| field.parse().unwrap());
    let field =
        |name: &str| FieldSpec { name: name.to_owned(), value: Generator::Uniform(0, 2_000), present: Fraction::ONE };
    let spec = Arc::new(DocumentSpec { fields: vec![field("a"), field("b")], encoding: Encoding::Json, file: None });
    let indexes = vec![vec![a.clone()], vec![b.clone()]];
    let table = Table { documents: Some(Documents { spec: Arc::clone(&spec), indexes }), ..Table::default() };
    store.set_up_tables(std::slice::from_ref(&table), true).unwrap();
    let mut session = store.session().unwrap();
    let mut txn = session.write().unwrap();
    for n in 0..2_000_u32 {
        let json = format!(r#"{{"a":{n},"b":{}}}"#, 2_000 - n);
        txn.put(&n.to_be_bytes(), json.as_bytes()).unwrap();
    }
    txn.commit().unwrap();
    let above = |path: &FieldPath| Filter::Field(path.clone(), Test::Gte(Operand::Document(path.clone())));
    let filter = Filter::All(vec![above(&a), above(&b)]);
    let query = QuerySpec {
        collection: None,
        filter,
        sort: Vec::new(),
        skip: 0,
        limit: None,
        select: Vec::new(),
        count: false,
    };
    let own = Mongodb::own_query(&query, &spec, &spec, &table).unwrap();
    let planned = Arc::new(Planned::own(query, Encoding::Json, own));
    let plan = |[a, b]: [i64; 2]| {
        let fields = [("a", a), ("b", b)].map(|(name, value)| (name.into(), FieldValue::Int(value)));
        Query::new(&planned, &FieldValue::Fields(fields.into()))
            .describe(|text, bound| store.explain(text, bound).unwrap())
    };
    for (values, index) in [([1_990, 0], "IXSCAN (d.a)"), ([0, 1_990], "IXSCAN (d.b)")] {
        assert!(plan(values).ends_with(index), "{}", plan(values));
    }
    drop(session);
    store.close().unwrap();
}
