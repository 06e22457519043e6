//! Makes collections of a database the store of a trial.
//!
//! The collection [`MARKS`] says that collections whose names begin with [`RECORDS`] are prony's, and of which trial they are. A
//! database that has such collections and no mark is not touched. The connections of a trial give the server its mark as the
//! name of their program, so that a database whose trial still runs is known by the server's list of connections.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use prony_mongodb::Address;
use prony_mongodb::bson::{self, Value};

use super::connection::{Connection, Failure};
use super::{ENGINE, while_};
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

/// Connects to a database and makes it an empty store, unless this is not the first opening in the trial's directory: `marker`
/// is a file there, with the mark of the trial. The connection, and the mark.
pub(super) fn claim(address: &Address, database: &str, marker: &Path) -> Result<(Connection, String), EngineError> {
    let opening = while_("opening the store");
    let of_this_trial = fs::read_to_string(marker).ok();
    let mark = of_this_trial.clone().unwrap_or_else(new_mark);
    let mut control = Connection::open(address, database, &mark).map_err(&opening)?;
    let until = Instant::now() + PATIENCE;
    loop {
        match (stored_mark(&mut control).map_err(&opening)?, &of_this_trial) {
            (Some(found), Some(own)) if found == *own => return Ok((control, mark)),
            (_, Some(_)) => return Err(replaced(database)),
            (Some(found), None) if is_in_use(&mut control, &found).map_err(&opening)? => {
                if Instant::now() >= until {
                    let what = format!("another run uses the database `{database}` of the server");
                    return Err(failed(ENGINE, "opening the store", what));
                }
                thread::sleep(Duration::from_millis(20));
                continue;
            }
            (found, None) => {
                let records = collections(&mut control).map_err(&opening)?;
                if let (None, Some(first)) = (found, records.first()) {
                    let what = format!(
                        "there is a collection `{first}` that prony did not make (hint: name another database in `url`)"
                    );
                    return Err(failed(ENGINE, "opening the store", what));
                }
                for name in records {
                    control.ask(|drop| drop.text("drop", &name)).map_err(while_("emptying the database"))?;
                }
            }
        }
        control.ask(|command| mark_as(command, &mark, true)).map_err(&opening)?;
        fs::write(marker, &mark).map_err(|error| failed(ENGINE, "opening the store", error))?;
        return Ok((control, mark));
    }
}

/// Of no other trial on any server.
fn new_mark() -> String {
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("{MARK}{}-{}", std::process::id(), time.as_nanos())
}

/// The fields of a command that stores the mark; whether it waits for the journal.
pub(super) fn mark_as(command: &mut bson::Writer<'_>, mark: &str, journal: bool) {
    command.text("update", MARKS);
    command.array("updates", |updates| {
        updates.document("0", |update| {
            update.document("q", |query| query.text("_id", "mark"));
            update.document("u", |document| document.text("mark", mark));
            update.flag("upsert", true);
        });
    });
    command.document("writeConcern", |concern| concern.flag("j", journal));
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

fn replaced(database: &str) -> EngineError {
    let what = format!(
        "the database `{database}` does not have the store of this trial any more: another run or program has replaced it, or the \
         server was started again without its data"
    );
    failed(ENGINE, "opening the store", what)
}
