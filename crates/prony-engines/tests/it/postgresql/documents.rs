//! Tests of JSON documents in a real PostgreSQL server.

use super::*;

fn path(text: &str) -> FieldPath {
    text.parse().unwrap()
}

fn constant(number: i64) -> Operand {
    Operand::Constant(FieldValue::Int(number))
}

/// Documents with a text, a flag and a number, of which some have a number or a text in `some`.
fn table(name: Option<&str>, byte: Option<u8>) -> Table {
    let field = |name: &str, value| FieldSpec { name: name.to_owned(), value, present: Fraction::ONE };
    let fields = vec![
        field("zz", Generator::Template(vec![String::new(), String::new()])),
        field("a", Generator::Cycle(vec![FieldValue::Bool(false), FieldValue::Bool(true)])),
        field("in", Generator::Fields(vec![field("n", Generator::Sequence { start: 0, step: 1 })])),
        field("some", Generator::Cycle(vec![FieldValue::Int(1), FieldValue::Text("b".to_owned())])),
    ];
    let spec = Arc::new(DocumentSpec { fields, encoding: Encoding::Json, file: None });
    let indexes = vec![vec![path("a"), path("in.n")], vec![path("zz")], vec![path("some")]];
    Table { name: name.map(str::to_owned), byte, documents: Some(Documents { spec, indexes }), record: 0 }
}

fn json(number: u64) -> String {
    let some = if number.is_multiple_of(2) { number.to_string() } else { format!("\"b{number}\"") };
    format!(r#"{{"zz":"{number}","a":{},"in":{{"n":{number}}},"some":{some}}}"#, number % 2 == 1)
}

fn load(store: &PostgresqlStore, byte: Option<u8>, documents: u64) {
    let mut session = store.session().unwrap();
    let mut txn = session.write().unwrap();
    for number in 0..documents {
        let key = [byte.as_slice(), &number.to_be_bytes()].concat();
        txn.put(&key, json(number).as_bytes()).unwrap();
    }
    txn.commit().unwrap();
}

/// Whatever is bound: a query has one plan, which reads as few entries as the index has for it.
#[test]
fn queries_use_the_indexes_that_the_server_reports() {
    if !is_there() {
        return;
    }
    let dir = scratch();
    let mut store = Started::open(dir.path(), &fast::<Started>()).unwrap();
    let table = table(None, None);
    store.set_up_tables(std::slice::from_ref(&table), true).unwrap();
    load(&store, None, 5_000);
    psql(url(dir.path(), Some(Durability::None)), "ANALYZE prony_records").unwrap();
    let spec = &table.documents.as_ref().unwrap().spec;
    let plan = |filter: Vec<(&str, Test<Operand>)>, sort: &[&str], limit| {
        let filter = filter.into_iter().map(|(field, test)| Filter::Field(path(field), test)).collect();
        let sort = sort.iter().map(|field| SortKey { field: path(field), descending: false }).collect();
        let query = QuerySpec {
            collection: None,
            filter: Filter::All(filter),
            sort,
            skip: 0,
            limit,
            select: Vec::new(),
            count: false,
        };
        store.explain(&Started::own_query(&query, spec, spec, &table).unwrap().text, &[]).unwrap()
    };
    let flag = || ("a", Test::In(vec![Operand::Constant(FieldValue::Bool(true))]));
    let text = |text: &str| Operand::Constant(FieldValue::Text(text.to_owned()));
    let of_both = plan(vec![flag(), ("in.n", Test::Gte(constant(7)))], &["in.n"], Some(9));
    assert_eq!(of_both, "Limit of Index Scan (prony_records#1)");
    for (field, test, index) in [
        ("zz", Test::In(vec![text("17")]), "(prony_records#2)"),
        ("zz", Test::In(vec![text("17"), text("18")]), "(prony_records#2)"),
        ("zz", Test::Prefix(text("17")), "(prony_records#2)"),
        ("some", Test::In(vec![text("x")]), "(prony_records#3)"),
        ("some", Test::Gt(constant(3)), "(prony_records#key)"),
    ] {
        let shown = plan(vec![(field, test.clone())], &[], None);
        assert!(shown.contains(index), "{field} {test:?}: {shown}");
    }
    let Some(Setting::Texts(indexes)) = store.in_force().unwrap().read_back.get("indexes").cloned() else { panic!() };
    assert_eq!(indexes.len(), 4, "{indexes:?}");
    assert!(indexes.iter().any(|index| index.contains("prony_records#key") && index.contains("(k)")), "{indexes:?}");
    let text = indexes.iter().find(|index| index.contains("prony_records#2")).unwrap();
    assert!(text.contains("COLLATE \"C\" NULLS FIRST, k)"), "{text}");
    store.close().unwrap();
}

/// Each with its own documents and indexes, also when the store is opened again; those of an earlier trial are dropped.
#[test]
fn collections_are_tables_of_the_trial() {
    if !is_there() {
        return;
    }
    let (first, second) = (scratch(), scratch());
    let at = StoreSpec { url: Some(url(first.path(), Some(Durability::None))), ..fast::<Started>() };
    let sql = |text: &str| psql(at.url.as_deref().unwrap(), text).unwrap_or_else(|| panic!("{text}"));
    let long = "c".repeat(90);
    let bytes = Table { name: Some("Log".to_owned()), byte: Some(9), ..Table::default() };
    let tables = [table(Some("a-b"), Some(3)), table(Some(&long), Some(5)), bytes];
    let names = || {
        sql(
            "SELECT string_agg(relname, ' ' ORDER BY relname) FROM pg_class WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace",
        )
    };
    for opening in 0..2 {
        let mut store = Started::open(first.path(), &at).unwrap();
        store.set_up_tables(&tables, true).unwrap();
        if opening == 0 {
            load(&store, Some(3), 3);
            load(&store, Some(5), 2);
            put(&store, &[9, 1], b"\0\xff").unwrap();
        }
        let mut session = store.session().unwrap();
        let mut txn = session.read().unwrap();
        for (byte, count) in [(3, 3), (5, 2)] {
            let mut found = Vec::new();
            let row = |key: &[u8], value: &[u8]| {
                found.push((key.to_vec(), String::from_utf8(value.to_vec()).unwrap()));
                Then::Continue(())
            };
            txn.scan(&[byte], row).unwrap();
            let expected = (0..count).map(|number: u64| ([&[byte][..], &number.to_be_bytes()].concat(), json(number)));
            assert_eq!(found, expected.collect::<Vec<_>>());
        }
        let mut value = Vec::new();
        assert!(txn.get(&[9, 1], |found| value = found.to_vec()).unwrap());
        assert_eq!(value, b"\0\xff");
        assert!(!txn.get(&[7, 1], |_| ()).unwrap(), "of no collection");
        txn.finish().unwrap();
        drop(session);
        store.close().unwrap();
    }
    let cut = format!("prony_records_{}~5", "c".repeat(43));
    assert_eq!(names(), format!("prony_records prony_records_Log prony_records_a-b {cut}"));
    sql("CREATE TABLE prony_records_mine(mine text)");
    let store = opened::<Started>(second.path(), &at).unwrap();
    assert_eq!(names(), "prony_records prony_records_mine");
    store.close().unwrap();
    let mut store = Started::open(second.path(), &at).unwrap();
    let mine = Table { name: Some("mine".to_owned()), byte: Some(1), ..Table::default() };
    let refused = store.set_up_tables(&[mine], true).unwrap_err();
    assert!(prony_engines::timed_loop::chain(&refused).contains("that prony did not make"), "{refused:?}");
    store.close().unwrap();
}

/// In a database that has `B` behind `a`.
#[test]
fn texts_are_compared_by_their_bytes_whatever_the_database_does() {
    if !is_there() {
        return;
    }
    let (dir, base) = (scratch(), server(false));
    psql(&base, "CREATE DATABASE other TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US'").unwrap();
    let at = base.strip_suffix("/postgres").map(|server| format!("{server}/other"));
    assert_eq!(psql(at.as_deref().unwrap(), "SELECT 'a' < 'B'").as_deref(), Some("t"));
    let mut store = Started::open(dir.path(), &StoreSpec { url: at, ..fast::<Started>() }).unwrap();
    let table = table(None, None);
    store.set_up_tables(std::slice::from_ref(&table), true).unwrap();
    let texts = ["a", "B", "Ba", "é", "Z"];
    for (key, text) in texts.iter().enumerate() {
        put(&store, &[key as u8], format!(r#"{{"zz":"{text}","some":"{text}"}}"#).as_bytes()).unwrap();
    }
    let spec = &table.documents.as_ref().unwrap().spec;
    let mut session = store.session().unwrap();
    let mut found = |field: &str, test: Test<Operand>| {
        let sort = vec![SortKey { field: path(field), descending: false }];
        let filter = Filter::Field(path(field), test);
        let query =
            QuerySpec { collection: None, filter, sort, skip: 0, limit: None, select: Vec::new(), count: false };
        let own = Started::own_query(&query, spec, spec, &table).unwrap();
        let planned = Planned::own(query, Encoding::Json, own);
        let (_, rows) = crate::queries::answer(&mut session, planned, &Value::Null, 0, &mut Reads::default());
        rows.iter().map(|(key, _)| texts[usize::from(key[0])]).collect::<Vec<_>>()
    };
    let text = |text: &str| Operand::Constant(FieldValue::Text(text.to_owned()));
    for field in ["zz", "some"] {
        assert_eq!(found(field, Test::Exists(true)), ["B", "Ba", "Z", "a", "é"]);
        assert_eq!(found(field, Test::Gt(text("Z"))), ["a", "é"]);
        assert_eq!(found(field, Test::Between(text("B"), text("Z"))), ["B", "Ba", "Z"]);
        assert_eq!(found(field, Test::Prefix(text("B"))), ["B", "Ba"]);
        assert_eq!(found(field, Test::Prefix(text(""))).len(), 5);
        assert_eq!(found(field, Test::In(vec![text("b")])), [""; 0]);
    }
    drop(session);
    store.close().unwrap();
}

/// The table of documents that are the rows of a file, and the documents as they are stored.
fn in_file(rows: &[String]) -> (Table, Vec<Vec<u8>>) {
    let mut observed = Observed::default();
    let rows: Vec<Vec<u8>> = rows
        .iter()
        .map(|row| {
            let (document, mut encoded) = (serde_json::from_str::<FieldValue>(row).unwrap(), Vec::new());
            observed.add(&document);
            prony_workload::encode(Encoding::Json, &document, &mut encoded);
            encoded
        })
        .collect();
    let file = DocumentFile {
        path: String::new(),
        form: RowForm::Ndjson,
        rows: 3,
        digest: String::new(),
        json: Bytes::default(),
        longest: Bytes::default(),
        unnamed: None,
        names: observed.finish().unwrap(),
        altered: None,
    };
    let spec = Arc::new(DocumentSpec { fields: Vec::new(), encoding: Encoding::Json, file: Some(file) });
    let documents = Some(Documents { spec, indexes: Vec::new() });
    (Table { documents, ..Table::default() }, rows)
}

/// Documents that `prony check` does not refuse, on the server itself: names in any order and with any characters, and numbers of
/// any size.
#[test]
fn documents_come_back_byte_for_byte() {
    if !is_there() {
        return;
    }
    let numbers = [
        "0",
        "-1",
        "9223372036854775807",
        "-9223372036854775808",
        "0.0",
        "1.0",
        "-2.5",
        "0.1",
        "1e-5",
        "1.5e-7",
        "-1e-300",
        "5e-324",
        "9007199254740993",
        "9999999999999998.0",
        "1000000000000000.0",
        "123456.789",
    ];
    let texts = [r#""""#, r#""\"\\/\b\f\n\r\t""#, r#""\u0001\u001f\u007f""#, "\"é\u{10FFFE}\u{1F600}\"", "\"\u{7f}\""];
    let list = [&numbers[..], &texts[..]].concat().join(",");
    let rows = [
        format!(r#"{{"bb":[{list}],"a":{{"d.e":1,"c":null}},"é\"\\":[{{"y":[],"x":{{}}}},{{"y":true}}],"ab":""}}"#),
        r#"{"first":0,"bb":1.5e-7,"é\"\\":[[{"x":0}]]}"#.to_owned(),
        "{}".to_owned(),
    ];
    let (table, rows) = in_file(&rows);
    let dir = scratch();
    let mut store = Started::open(dir.path(), &fast::<Started>()).unwrap();
    store.set_up_tables(&[table], true).unwrap();
    for (key, row) in rows.iter().enumerate() {
        put(&store, &[key as u8], row).unwrap();
    }
    let mut session = store.session().unwrap();
    let mut txn = session.read().unwrap();
    for (key, row) in rows.iter().enumerate() {
        let mut found = String::new();
        txn.get(&[key as u8], |value| found = String::from_utf8_lossy(value).into_owned()).unwrap();
        assert_eq!(found, String::from_utf8_lossy(row));
    }
    txn.finish().unwrap();
    drop(session);
    store.close().unwrap();
}

/// Tables and indexes share a name space: an index was taken for made where a collection had its name.
#[test]
fn indexes_have_the_name_of_no_collection() {
    if !is_there() {
        return;
    }
    let dir = scratch();
    let at = StoreSpec { url: Some(url(dir.path(), Some(Durability::None))), ..fast::<Started>() };
    let mut store = Started::open(dir.path(), &at).unwrap();
    let tables = [("a_1", 1), ("a", 2), ("a_pkey", 3), ("a_2", 4)].map(|(name, byte)| table(Some(name), Some(byte)));
    store.set_up_tables(&tables, true).unwrap();
    let Some(Setting::Texts(indexes)) = store.in_force().unwrap().read_back.get("indexes").cloned() else { panic!() };
    assert_eq!(indexes.len(), 4 * 4, "{indexes:#?}");
    store.close().unwrap();
}

#[test]
fn documents_in_a_database_that_orders_characters_otherwise_are_refused() {
    if !is_there() {
        return;
    }
    let (dir, base) = (scratch(), server(false));
    psql(&base, "CREATE DATABASE west TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'").unwrap();
    let at = base.strip_suffix("/postgres").map(|server| format!("{server}/west"));
    let mut store = Started::open(dir.path(), &StoreSpec { url: at, ..fast::<Started>() }).unwrap();
    let plain = Table { documents: None, ..table(None, None) };
    store.set_up_tables(&[plain], true).unwrap();
    let refused = store.set_up_tables(&[table(None, None)], true).unwrap_err();
    assert!(refused.to_string().contains("encoding is LATIN1"), "{refused}");
    store.close().unwrap();
}
