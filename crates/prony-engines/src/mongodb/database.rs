//! Makes collections of a database the store of a trial.
//!
//! The collection [`MARKS`] says that collections whose names begin with [`RECORDS`] are prony's, and of which trial they are. A
//! database that has such collections and no mark is not touched. The connections of a trial give the server its mark as the
//! name of their program, so that a database whose trial still runs is known by the server's list of connections.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use prony_model::spec::Durability;
use prony_servers::mongodb::bson::{self, Value};
use prony_servers::mongodb::{Address, Connection, Failure};

use super::{DUPLICATE_KEY, ENGINE, settings, while_};
use crate::driver::EngineError;
use crate::failure::failed;

/// The collection of the mark.
const MARKS: &str = "prony_store";

/// The beginning of the names of prony's other collections.
pub(super) const RECORDS: &str = "prony_records";

/// A mark begins with this.
const MARK: &str = "prony trial ";

/// How long the connections of an earlier trial may take to end.
const PATIENCE: Duration = Duration::from_secs(5);

/// The connection of a trial, and its mark: that in the file `marker` in the trial's directory, unless this is the first opening.
pub(super) fn connect(address: &Address, database: &str, marker: &Path) -> Result<(Connection, String), EngineError> {
    let mark = fs::read_to_string(marker).unwrap_or_else(|_| new_mark());
    let control = Connection::open(address, database, &mark, None).map_err(while_("opening the store"))?;
    Ok((control, mark))
}

/// Makes the database an empty store with this mark, unless it has it already and `marker` says that this is not the first opening.
pub(super) fn claim(control: &mut Connection, database: &str, mark: &str, marker: &Path) -> Result<(), EngineError> {
    let opening = while_("opening the store");
    let is_first = !marker.exists();
    let until = Instant::now() + PATIENCE;
    loop {
        let found = stored_mark(control).map_err(&opening)?;
        if !is_first {
            return if found.as_deref() == Some(mark) { Ok(()) } else { Err(replaced(database)) };
        }
        let records = collections(control).map_err(&opening)?;
        if let (None, Some(first)) = (&found, records.first()) {
            let what = format!(
                "there is a collection `{first}` that prony did not make (hint: name another database in `url`)"
            );
            return Err(failed(ENGINE, "opening the store", what));
        }
        let is_free = match &found {
            Some(found) => !is_in_use(control, found).map_err(&opening)?,
            None => true,
        };
        // Of two runs that find it free, one changes the mark that both have found.
        if is_free && replace_mark(control, found.as_deref(), mark).map_err(&opening)? {
            for name in records {
                control.ask(|drop| drop.text("drop", &name)).map_err(while_("emptying the database"))?;
            }
            return fs::write(marker, mark).map_err(|error| failed(ENGINE, "opening the store", error));
        }
        if Instant::now() >= until {
            let what = format!("another run uses the database `{database}` of the server");
            return Err(failed(ENGINE, "opening the store", what));
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Of no other trial on any server.
fn new_mark() -> String {
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("{MARK}{}-{}", std::process::id(), time.as_nanos())
}

/// Puts a mark in the place of the one that was found, or where there was none, and waits as a `strict` write; whether that was still so.
pub(super) fn replace_mark(control: &mut Connection, found: Option<&str>, mark: &str) -> Result<bool, Failure> {
    let done = control.ask(|command| {
        let Some(found) = found else {
            command.text("insert", MARKS);
            command.array("documents", |documents| {
                documents.document("0", |document| {
                    document.text("_id", "mark");
                    document.text("mark", mark);
                });
            });
            return settings::write_concern(Durability::Strict, command);
        };
        command.text("update", MARKS);
        command.array("updates", |updates| {
            updates.document("0", |update| {
                update.document("q", |query| {
                    query.text("_id", "mark");
                    query.text("mark", found);
                });
                update.document("u", |document| document.text("mark", mark));
            });
        });
        settings::write_concern(Durability::Strict, command);
    });
    match done {
        Err(Failure::Server { code: DUPLICATE_KEY, .. }) => Ok(false),
        done => Ok(bson::number(done?, &["n"]) == Some(1.0)),
    }
}

/// Whether the database still has the store that has this mark.
///
/// # Errors
/// Where it does not: nobody knows what was read and written since.
pub(super) fn verify(control: &mut Connection, database: &str, mark: &str) -> Result<(), EngineError> {
    let found = stored_mark(control).map_err(while_("looking for the store"))?;
    if found.as_deref() == Some(mark) { Ok(()) } else { Err(replaced(database)) }
}

fn stored_mark(control: &mut Connection) -> Result<Option<String>, Failure> {
    let answer = control.ask(|find| {
        find.text("find", MARKS);
        find.document("filter", |filter| filter.text("_id", "mark"));
        find.int32("limit", 1);
        find.flag("singleBatch", true);
    })?;
    let mark = bson::at(answer, &["cursor", "firstBatch", "0", "mark"]);
    Ok(if let Some(Value::Text(mark)) = mark { Some(mark.to_owned()) } else { None })
}

/// The collections of records.
fn collections(control: &mut Connection) -> Result<Vec<String>, Failure> {
    let mut names = Vec::new();
    // All of them: a database of prony has few, and another one is not listed further than needed.
    let answer = control.ask(|list| {
        list.int32("listCollections", 1);
        list.document("filter", |filter| {
            filter.document("name", |name| name.text("$regex", &format!("^{RECORDS}")));
        });
        list.document("cursor", |cursor| cursor.int32("batchSize", 10_000));
    })?;
    if let Some(Value::Array(batch)) = bson::at(answer, &["cursor", "firstBatch"]) {
        for collection in bson::fields(batch).flatten() {
            if let (_, Value::Document(collection)) = collection {
                names.extend(bson::text(collection, "name").map(str::to_owned));
            }
        }
    }
    Ok(names)
}

/// Whether a connection of the trial with this mark is open.
fn is_in_use(control: &mut Connection, mark: &str) -> Result<bool, Failure> {
    let answer = control.ask_admin(|command| {
        command.int32("currentOp", 1);
        command.flag("$all", true);
        command.text("appName", mark);
    })?;
    let Some(Value::Array(operations)) = bson::at(answer, &["inprog"]) else { return Ok(false) };
    Ok(bson::fields(operations).flatten().next().is_some())
}

pub(super) fn replaced(database: &str) -> EngineError {
    let what = format!(
        "the database `{database}` does not have the store of this trial any more: another run or program has replaced it, or the \
         server was started again without its data"
    );
    failed(ENGINE, "opening the store", what)
}
