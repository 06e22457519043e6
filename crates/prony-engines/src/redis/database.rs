//! Makes a database of a server the store of a trial.
//!
//! The key [`KEY`] says that all keys of the database are prony's, and of which trial and connection. A database with other keys
//! and without this one is not touched. The change from one trial to the next is one transaction, which fails where somebody
//! else has changed the key meanwhile; so of two runs only one gets the database.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use prony_servers::redis::{Connection, Failure, Value};

use super::{ENGINE, while_};
use crate::driver::EngineError;
use crate::failure::failed;

/// The key, which no record may have.
pub(super) const KEY: &[u8] = b"prony_store";

/// Its value begins with this, before the trial and the connection.
const MARK: &str = "of a trial of prony: ";

/// Between the trial and the connection.
const BY: &str = " by connection ";

/// How long the connection of an earlier trial may take to end.
const PATIENCE: Duration = Duration::from_secs(5);

/// Makes the database number `database` an empty store, unless this is not the first opening in the trial's directory: `marker`
/// is a file there, with what distinguishes the trial from others. `run` is the id of the server's process. As long as the
/// connection is open, nobody else gets the database. The mark that it has now.
pub(super) fn claim(
    control: &mut Connection,
    (database, run): (u32, &str),
    marker: &Path,
) -> Result<String, EngineError> {
    let asking = while_("opening the store");
    let id = match control.ask(&[b"CLIENT", b"ID"]).map_err(&asking)? {
        Value::Integer(id) => id,
        _ => return Err(failed(ENGINE, "opening the store", "the server gives its connections no ids")),
    };
    let of_this_trial = fs::read_to_string(marker).ok();
    // No other connection to any server has had both.
    let trial = of_this_trial.clone().unwrap_or_else(|| format!("{MARK}{run}-{id}"));
    let mark = format!("{trial}{BY}{id} of {run}");
    let until = Instant::now() + PATIENCE;
    loop {
        control.ask(&[b"WATCH", KEY]).map_err(&asking)?;
        // A key of another type is no mark either.
        let found = match control.ask(&[b"GET", KEY]) {
            Err(Failure::Server(_)) => None,
            found => found.map_err(&asking)?.text(),
        };
        let begins = match (&of_this_trial, &found) {
            (Some(own), Some(found)) if found.starts_with(&format!("{own}{BY}")) => false,
            (Some(_), _) => return Err(replaced(database)),
            (None, Some(found)) if found.starts_with(MARK) => {
                if is_in_use(control, found, run)? {
                    if Instant::now() >= until {
                        let what = format!("another run uses database {database} of the server");
                        return Err(failed(ENGINE, "opening the store", what));
                    }
                    thread::sleep(Duration::from_millis(20));
                    continue;
                }
                true
            }
            (None, _) => match control.ask(&[b"DBSIZE"]).map_err(&asking)? {
                // Nothing is there that would have to be removed.
                Value::Integer(0) => false,
                _ => return Err(foreign(database)),
            },
        };
        control.ask(&[b"MULTI"]).map_err(&asking)?;
        if begins {
            // Within the answer: a thread of the server would free the memory during the trial.
            control.ask(&[b"FLUSHDB", b"SYNC"]).map_err(&asking)?;
        }
        control.ask(&[b"SET", KEY, mark.as_bytes()]).map_err(&asking)?;
        if control.ask(&[b"EXEC"]).map_err(while_("emptying the database"))? != Value::None {
            fs::write(marker, trial).map_err(|error| failed(ENGINE, "opening the store", error))?;
            return Ok(mark);
        }
    }
}

/// Whether the database still has the store that has this mark.
///
/// # Errors
/// Where it does not: nobody knows what was read and written since.
pub(super) fn verify(control: &mut Connection, database: u32, mark: &str) -> Result<(), EngineError> {
    let found = control.ask(&[b"GET", KEY]).map_err(while_("looking for the store"))?.text();
    if found.as_deref() == Some(mark) { Ok(()) } else { Err(replaced(database)) }
}

/// Whether the connection that a mark names is open.
fn is_in_use(control: &mut Connection, mark: &str, run: &str) -> Result<bool, EngineError> {
    let Some((id, of)) = mark.rsplit_once(BY).and_then(|(_, by)| by.split_once(" of ")) else {
        return Ok(false);
    };
    if of != run {
        // The server was started again since.
        return Ok(false);
    }
    let all = control.ask(&[b"CLIENT", b"LIST"]).map_err(while_("opening the store"))?.text().unwrap_or_default();
    let id = format!("id={id} ");
    Ok(all.lines().any(|line| line.starts_with(&id)))
}

fn replaced(database: u32) -> EngineError {
    let what = format!(
        "database {database} does not have the store of this trial any more: another run or program has emptied it, or the \
         server was started again without its data"
    );
    failed(ENGINE, "opening the store", what)
}

fn foreign(database: u32) -> EngineError {
    let what = format!(
        "database {database} has keys that prony did not store (hint: name an empty one in `url`, such as \
         `redis://HOST:PORT/{}`)",
        database + 1
    );
    failed(ENGINE, "opening the store", what)
}
