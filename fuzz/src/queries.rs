//! Fuzzes queries: whatever the documents, the indexes and the query are, indexes do not alter the answer.

use std::path::Path;
use std::sync::Arc;

use prony_engines::answers::Reads;
use prony_engines::documents::{Entries, Indexed, Indexes, Planned, Query, run as answer};
use prony_engines::driver::{Driver, EngineError, Read, Session, Store, Write};
use prony_engines::memory::Memory;
use prony_model::spec::{Encoding, FieldPath, FieldValue, QuerySpec, StoreSpec};
use prony_workload::encode;
use serde::Deserialize;

/// What an input describes, in JSON.
#[derive(Deserialize)]
struct Input {
    /// Each is stored with its number as the key.
    documents: Vec<FieldValue>,
    /// Documents that are stored in place of the first ones; null removes one.
    replacing: Vec<FieldValue>,
    indexes: Vec<Vec<FieldPath>>,
    query: QuerySpec,
}

/// More documents, indexes, or fields of one would only be slow.
const MOST_DOCUMENTS: usize = 40;
const MOST_INDEXES: usize = 3;

/// A document has an entry for each combination of its lists' items.
const LONGEST_LIST: usize = 8;

pub(super) fn run(data: &[u8]) {
    let Ok(mut input) = serde_json::from_slice::<Input>(data) else { return };
    input.documents.truncate(MOST_DOCUMENTS);
    input.replacing.truncate(MOST_DOCUMENTS);
    input.indexes.truncate(MOST_INDEXES);
    input.indexes.iter_mut().for_each(|fields| fields.truncate(MOST_INDEXES));
    let longest = input.documents.iter().chain(&input.replacing).map(longest_list).max().unwrap_or(0);
    if longest > LONGEST_LIST {
        return;
    }
    let indexes = Arc::new(Indexes::new(&input.indexes, Encoding::Json, |_| longest > 0));
    let without = rows(&input, None).expect("documents are stored and queried");
    let with = rows(&input, Some(&indexes)).expect("documents are stored and queried");
    assert_eq!(without, with, "an index alters an answer");
}

/// Items of the longest list, plus one; 0 without any.
fn longest_list(value: &FieldValue) -> usize {
    match value {
        FieldValue::List(items) => items.iter().map(longest_list).max().unwrap_or(0).max(items.len() + 1),
        FieldValue::Fields(fields) => fields.iter().map(|(_, value)| longest_list(value)).max().unwrap_or(0),
        _ => 0,
    }
}

/// How many documents the query finds where it counts, and its rows: positions, keys and documents.
type Rows = (Option<u64>, Vec<(u64, Vec<u8>, String)>);

fn rows(input: &Input, indexes: Option<&Arc<Indexes>>) -> Result<Rows, EngineError> {
    let spec = StoreSpec::of("memory");
    let store = Memory::open(Path::new("nothing is stored here"), &spec)?;
    let mut session = store.session()?;
    for (documents, replaces) in [(&input.documents, false), (&input.replacing, true)] {
        let mut txn = session.write()?;
        for (number, document) in (0u64..).zip(documents) {
            write(&mut txn, number, document, replaces, indexes)?;
        }
        txn.commit()?;
    }
    let mut txn = session.read()?;
    if let Some(indexes) = indexes {
        let (wanted, stored) = indexes.sums(&mut txn)?;
        assert_eq!(wanted, stored, "entries are missing or left over");
    }
    let planned = Arc::new(Planned::new(input.query.clone(), Encoding::Json, indexes.cloned()));
    let page = input.documents.first().unwrap_or(&FieldValue::Null);
    let mut rows = Vec::new();
    let found = answer(&mut txn, &Query::new(&planned, page), &mut Reads::default(), |row| {
        rows.push((row.position, row.key.to_vec(), format!("{:?}", row.document)));
    })?;
    txn.finish()?;
    Ok((input.query.count.then_some(found), rows))
}

fn write<W: Write>(
    txn: &mut W,
    number: u64,
    document: &FieldValue,
    replaces: bool,
    indexes: Option<&Arc<Indexes>>,
) -> Result<(), EngineError> {
    let key = number.to_be_bytes();
    let removes = replaces && *document == FieldValue::Null;
    let mut stored = key.to_vec();
    if let Some(indexes) = indexes {
        let mut entries = Entries::default();
        if !removes {
            indexes.push_entries(document, &key, &mut entries);
        }
        stored = indexes.space().stored(&key);
        let indexed = Indexed { indexes, entries: entries.part(0..entries.bytes()), replaces };
        indexed.change(txn, &stored, &mut Reads::default(), |_, _| ())?;
    }
    if removes {
        return txn.delete(&stored).map(drop);
    }
    let mut value = Vec::new();
    encode(Encoding::Json, document, &mut value);
    txn.put(&stored, &value)
}

const DOCUMENTS_OF_A_SEED: &str = r#"[{"n":1,"t":"a","f":true},{"n":2.5,"t":"ab","l":[1,2]},{"n":null,"t":"","l":[]},
    {"n":9007199254740993,"t":"a\u0000b","f":false},{"n":"2","in":{"x":[{"y":1},"a"]}},{"t":[1,"a",null,2.5],"n":-0.0},3,{}]"#;

const QUERIES: [&str; 6] = [
    r#"{"field":[["n"],{"gte":{"constant":1}}]}"#,
    r#"{"all":[{"field":[["t"],{"prefix":{"constant":"a"}}]},{"field":[["n"],{"in":[{"document":["n"]},{"constant":2.5}]}]}]}"#,
    r#"{"any":[{"field":[["l"],{"between":[{"constant":1},{"constant":2}]}]},{"field":[["f"],{"exists":false}]}]}"#,
    r#"{"all":[{"field":[["n"],{"gt":{"constant":0}}]},{"field":[["n"],{"lt":{"constant":3}}]}]}"#,
    r#"{"field":[["in","x"],{"exists":true}]}"#,
    r#"{"field":[["t"],{"lte":{"constant":null}}]}"#,
];

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let of = |(number, filter): (usize, &&str)| {
        let count = number == 5;
        let sort = if count { "" } else { r#"{"field":["n"],"descending":false}"# };
        let text = format!(
            r#"{{"documents":{DOCUMENTS_OF_A_SEED},"replacing":[{{"n":7,"l":[3]}},{{"t":"ab","n":2.5,"l":[2,3]}},null],
            "indexes":[[["n"]],[["t"],["n"]],[["l"],["f"]]],"query":{{"filter":{filter},"sort":[{sort}],"skip":{},"limit":{},
            "select":[],"count":{count}}}}}"#,
            u8::from(number == 0),
            if number % 3 == 0 { "2" } else { "null" },
        );
        text.into_bytes()
    };
    QUERIES.iter().enumerate().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_inputs_whose_queries_find_something() {
        for seed in seeds() {
            let text = String::from_utf8_lossy(&seed).into_owned();
            let input: Input = serde_json::from_slice(&seed).expect("a seed is an input");
            let (found, rows) = rows(&input, None).expect("it is queried");
            assert!(found.is_some_and(|found| found > 0) || !rows.is_empty(), "{text}");
            run(&seed);
        }
    }
}
