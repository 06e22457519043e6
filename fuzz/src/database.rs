//! Fuzzes columns of the results database: an input replaces one value of a small database, whose run is then read.
//!
//! The first byte of an input chooses the column; the rest is its value, compressed first where the column's name is
//! followed by `DEFLATE` below, so that what is compressed can be varied too.

use std::cell::OnceCell;

use miniz_oxide::deflate::compress_to_vec;
use miniz_oxide::inflate::decompress_to_vec;
use prony_analysis::profile::Profile;
use prony_model::latency::Recorder;
use prony_model::profile::{Format, ProfileFile, ProfileRecord, Profiler};
use prony_model::reading::Reading;
use prony_model::record::LatencyKind;
use prony_model::units::Nanos;
use prony_results::{Database, RunId};
use rusqlite::Connection;
use rusqlite::types::{Value, ValueRef};
use serde_json::json;

use crate::synthetic;

/// A column whose value is replaced.
struct Column {
    table: &'static str,
    name: &'static str,
    /// How an input becomes a value.
    form: Form,
    /// What reads it.
    read: fn(&Store),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// The bytes themselves.
    Blob,
    /// The bytes, compressed.
    Deflate,
    /// Text where it is UTF-8, otherwise bytes.
    Text,
    /// A signed number of 64 bits, the lowest first.
    Number,
}

const fn column(table: &'static str, name: &'static str, form: Form, read: fn(&Store)) -> Column {
    Column { table, name, form, read }
}

const COLUMNS: [Column; 24] = [
    column("series", "samples", Form::Blob, Store::series),
    column("series", "samples", Form::Deflate, Store::series),
    column("groups", "wall", Form::Blob, Store::phases),
    column("groups", "wall", Form::Deflate, Store::phases),
    column("groups", "cpu", Form::Deflate, Store::phases),
    column("phases", "throughput", Form::Deflate, Store::phases),
    column("histograms", "v2", Form::Blob, Store::histograms),
    column("histograms", "kind", Form::Text, Store::histograms),
    column("histograms", "failed", Form::Number, Store::histograms),
    column("profiles", "record", Form::Blob, Store::profiles),
    column("profiles", "record", Form::Deflate, Store::profiles),
    column("profile_files", "body", Form::Blob, Store::profile_files),
    column("profile_files", "body", Form::Deflate, Store::profile_files),
    column("profile_files", "format", Form::Text, Store::profile_files),
    column("runs", "experiment", Form::Text, Store::run),
    column("runs", "host", Form::Text, Store::run),
    column("effective", "body", Form::Text, Store::run),
    column("trials", "record", Form::Text, Store::run),
    column("phases", "absent", Form::Number, Store::run),
    column("phases", "ord", Form::Number, Store::phases),
    column("metrics", "name", Form::Text, Store::run),
    column("reasons", "name", Form::Text, Store::run),
    column("reasons", "id", Form::Number, Store::run),
    column("absences", "body", Form::Text, Store::run),
];

/// A database with one run, which both ends have open; its file has no name any more.
struct Store {
    database: Database,
    connection: Connection,
    run: RunId,
}

thread_local! {
    static STORE: OnceCell<Store> = const { OnceCell::new() };
}

pub(super) fn run(data: &[u8]) {
    let Some((number, value)) = data.split_first() else { return };
    let column = &COLUMNS[usize::from(*number) % COLUMNS.len()];
    STORE.with(|store| store.get_or_init(Store::new).replace(column, value));
}

impl Store {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder for the database");
        let path = folder.path().join("prony.db");
        let mut database = Database::create(&path).expect("a new database");
        let experiment =
            synthetic::experiment("One", &[synthetic::texts("engine", &["a", "b"])], &[("write", true)], 3);
        let run = database.begin_run(&synthetic::start(&experiment, &crate::records::host(), 6)).expect("a run");
        let mut trial = synthetic::full_trial(0);
        let mut recorder = Recorder::new();
        (1..2_000_u64).for_each(|n| recorder.record(Nanos::from_nanos(n * n)));
        trial.phases[0].histograms = recorder.to_record("put", LatencyKind::Service).into_iter().collect();
        database.append_trial(run, &trial).expect("a trial");
        let interval = Reading::Measured(Nanos::from_millis(1));
        let record = ProfileRecord { variant: 0, profiler: Profiler::V8, interval, trial: Some(trial), notes: vec![] };
        database.append_profile(run, &record, &profile_files()).expect("a profile");
        drop(database);
        let database = Database::open(&path).expect("the database");
        let connection = Connection::open(&path).expect("the database");
        connection.execute_batch("PRAGMA synchronous = OFF; PRAGMA foreign_keys = OFF").expect("settings of SQLite");
        let store = Self { database, connection, run };
        // Each reader opens what it needs before the folder goes.
        COLUMNS.iter().for_each(|column| (column.read)(&store));
        store
    }

    /// Reads the run with one value replaced, and puts the value back.
    fn replace(&self, column: &Column, value: &[u8]) {
        let number = || {
            let mut bytes = [0; 8];
            bytes.iter_mut().zip(value).for_each(|(to, from)| *to = *from);
            i64::from_le_bytes(bytes)
        };
        let value = match column.form {
            Form::Blob => Value::Blob(value.to_vec()),
            Form::Deflate => Value::Blob(compress_to_vec(value, 1)),
            Form::Text => String::from_utf8(value.to_vec()).map_or_else(|e| Value::Blob(e.into_bytes()), Value::Text),
            Form::Number => Value::Integer(number()),
        };
        let (row, before) = self.first(column);
        self.set(column, row, &value);
        (column.read)(self);
        // Where a row's number is its key, it is found under the new one.
        let row = if column.name == "id" { self.changed(column, &value).unwrap_or(row) } else { row };
        self.set(column, row, &before);
    }

    /// The row of a column whose value is replaced, and the value.
    fn first(&self, column: &Column) -> (i64, Value) {
        let key = column.key();
        let sql = format!("SELECT {key}, {} FROM {} ORDER BY {key} LIMIT 1", column.name, column.table);
        let mut statement = self.connection.prepare_cached(&sql).expect("a column of the schema");
        statement.query_row([], |row| Ok((row.get(0)?, row.get(1)?))).expect("a row")
    }

    fn changed(&self, column: &Column, value: &Value) -> Option<i64> {
        let Value::Integer(number) = value else { return None };
        let sql = format!("SELECT 1 FROM {} WHERE {} = ?1", column.table, column.key());
        self.connection.prepare_cached(&sql).ok()?.exists([number]).ok()?.then_some(*number)
    }

    /// A value that the table refuses changes nothing.
    fn set(&self, column: &Column, row: i64, value: &Value) {
        let sql = format!("UPDATE {} SET {} = ?1 WHERE {} = ?2", column.table, column.name, column.key());
        let _ = self.connection.prepare_cached(&sql).and_then(|mut update| update.execute((value, row)));
    }

    fn series(&self) {
        let _ = self.database.load_series(self.run, 0);
    }

    /// What belongs to phases, put into the trial as the reports do.
    fn phases(&self) {
        if let Ok(mut data) = self.database.load_run(self.run) {
            let _ = data.trials.iter_mut().try_for_each(|trial| self.database.complete(self.run, trial));
        }
    }

    fn histograms(&self) {
        let Ok(histograms) = self.database.load_histograms(self.run, 0) else { return };
        for (_, histogram) in histograms {
            if let Ok(recorder) = Recorder::from_record(&histogram) {
                recorder.metrics(prony_model::metric::Metric::LATENCY);
                let mut twice = recorder.clone();
                twice.merge(&recorder);
            }
        }
    }

    fn profiles(&self) {
        let _ = self.database.profiles(self.run);
    }

    fn profile_files(&self) {
        if let Ok(files) = self.database.profile_files(self.run, 0) {
            let _ = Profile::from_files(&files);
        }
    }

    fn run(&self) {
        let _ = self.database.load_run(self.run);
    }
}

impl Column {
    /// What numbers the rows of its table.
    fn key(&self) -> &'static str {
        if self.table == "profile_files" { "ord" } else { "rowid" }
    }
}

fn profile_files() -> Vec<ProfileFile> {
    let cpu = json!({
        "nodes": [
            {"id": 1, "callFrame": {"functionName": "(root)", "url": "", "lineNumber": -1}, "children": [2]},
            {"id": 2, "callFrame": {"functionName": "put", "url": "file:///a/node_modules/b/c.js", "lineNumber": 7}},
        ],
        "startTime": 1_000, "endTime": 9_000, "samples": [2, 1, 2], "timeDeltas": [10, 1_000, 990],
    });
    let file = |name: &str, format, body: String| ProfileFile { name: name.to_owned(), format, body: body.into() };
    let perf = "node 7/8 12.500000: 1000 cpu-clock:\n\t55d0 put+0x10 (/usr/lib/libx.so)\n\t55d1 main (/usr/bin/x)\n\n";
    vec![file("a.cpuprofile", Format::CpuProfile, cpu.to_string()), file("b.txt", Format::PerfScript, perf.to_owned())]
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let store = Store::new();
    let seed = |(number, column): (usize, &Column)| {
        let sql = format!("SELECT {} FROM {} ORDER BY {}", column.name, column.table, column.key());
        let mut statement = store.connection.prepare(&sql).expect("a column of the schema");
        let bytes = |value: ValueRef<'_>| match value {
            ValueRef::Blob(blob) | ValueRef::Text(blob) if column.form == Form::Deflate => {
                decompress_to_vec(blob).expect("what was written is compressed")
            }
            ValueRef::Blob(bytes) | ValueRef::Text(bytes) => bytes.to_vec(),
            ValueRef::Integer(number) => number.to_le_bytes().to_vec(),
            ValueRef::Null | ValueRef::Real(_) => Vec::new(),
        };
        let rows = statement.query_map([], |row| row.get_ref(0).map(bytes)).expect("the column's values");
        rows.flatten().map(|value| [vec![number as u8], value].concat()).collect::<Vec<_>>()
    };
    COLUMNS.iter().enumerate().flat_map(seed).collect()
}
