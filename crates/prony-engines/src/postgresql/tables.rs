//! Makes tables of a schema the store of a trial.
//!
//! The comments on the tables say that they are prony's, and of which trial. A table without such a comment is not touched. As long as
//! a trial's connection lives, it has an advisory lock of the schema, so that no other trial drops its tables.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use prony_servers::postgresql::{Connection, Failure};

use super::json_text::Names;
use super::query::{self, TABLE, quoted};
use super::{ENGINE, while_};
use crate::driver::{EngineError, Table};
use crate::failure::{failed, unsupported};

/// The comment on a table that prony has made, before what distinguishes it from others.
const COMMENT: &str = "of a trial of prony: ";

/// The advisory lock of whoever has tables in a schema.
const LOCK: &str = "hashtext('prony'), hashtext(current_schema())";

/// How long the sessions of an earlier trial may take to end.
const PATIENCE: Duration = Duration::from_secs(5);

/// The most rows that are fetched at once: two to this power.
pub(super) const PAGE: usize = 10;

/// A table, with the names of the statements on it.
pub(super) struct OfTable {
    /// The byte before its keys, where there are several tables.
    pub(super) byte: Option<u8>,
    /// The names of its documents, where these are `jsonb`.
    pub(super) names: Option<Names>,
    /// As SQL names it.
    pub(super) table: String,
    pub(super) get: String,
    pub(super) put: String,
    pub(super) delete: String,
    /// Scans, from a key on and after a key, with a bound of two to the power of their place: a statement without a bound would be
    /// planned as if all rows were read, and one with its bound as a parameter would be planned for each run.
    pub(super) scans: [[String; PAGE + 1]; 2],
}

impl OfTable {
    /// The table with this number among those of the store.
    ///
    /// # Errors
    /// Documents that would not come back as they are written.
    pub(super) fn new(number: usize, table: &Table) -> Result<Self, EngineError> {
        let order = table.documents.as_ref().map(|documents| documents.spec.name_order()).transpose();
        let order = order.map_err(|altered| {
            let what = format!("documents whose text does not follow from their values: {altered:?}");
            unsupported(ENGINE, what)
        })?;
        let of = |statement: &str| format!("{statement}{number}");
        let scans = |statement: &str| std::array::from_fn(|power| format!("{statement}{number}_{power}"));
        Ok(Self {
            byte: table.byte,
            names: order.as_ref().map(Names::new),
            table: quoted(&query::name(table)),
            get: of("g"),
            put: of("p"),
            delete: of("d"),
            scans: [scans("s"), scans("n")],
        })
    }

    /// Adds the preparation of its statements.
    pub(super) fn prepare(&self, connection: &mut Connection) {
        let Self { table, .. } = self;
        for (names, above) in self.scans.iter().zip([">=", ">"]) {
            for (power, name) in names.iter().enumerate() {
                let limit = 1 << power;
                connection
                    .prepare(name, &format!("SELECT k, v FROM {table} WHERE k {above} $1 ORDER BY k LIMIT {limit}"));
            }
        }
        connection.prepare(&self.get, &format!("SELECT v FROM {table} WHERE k = $1"));
        let put = format!("INSERT INTO {table}(k, v) VALUES($1, $2) ON CONFLICT(k) DO UPDATE SET v = excluded.v");
        connection.prepare(&self.put, &put);
        connection.prepare(&self.delete, &format!("DELETE FROM {table} WHERE k = $1"));
    }
}

/// Makes the first table, in place of those of an earlier trial if this is the first opening in the trial's directory; `marker` has
/// the comment on the tables, which no others have. As long as the connection lives, nobody else makes one here. Returns the comment.
pub(super) fn claim(control: &mut Connection, marker: &Path) -> Result<String, EngineError> {
    let making = while_("making the table");
    let of_this_trial = fs::read_to_string(marker).ok();
    let kind = if of_this_trial.is_some() { "_shared" } else { "" };
    await_lock(control, kind)?;
    let found = found(control, TABLE)?;
    if let Some(own) = of_this_trial {
        let what = "the table of this trial was replaced, by another run of prony at the same database and schema";
        let is_own = found.is_some_and(|found| found.comment == own);
        return if is_own { Ok(own) } else { Err(failed(ENGINE, "opening the store", what)) };
    }
    if found.is_some_and(|found| !found.comment.starts_with(COMMENT)) {
        return Err(foreign(TABLE));
    }
    let tag = control.query("SELECT gen_random_uuid()").map_err(&making)?.concat();
    let comment = format!("{COMMENT}{}", tag.into_iter().flatten().collect::<String>());
    // In this schema: a name alone would be searched for in all of the search path.
    let earlier = format!(
        "SELECT format('%I.%I', current_schema(), relname) FROM pg_class WHERE relnamespace = current_schema()::regnamespace \
         AND relkind = 'r' AND starts_with(relname, '{TABLE}') AND starts_with(obj_description(oid, 'pg_class'), '{COMMENT}')"
    );
    let earlier: Vec<String> = control.query(&earlier).map_err(&making)?.concat().into_iter().flatten().collect();
    let drop = if earlier.is_empty() { String::new() } else { format!("DROP TABLE {}; ", earlier.join(", ")) };
    control.query(&format!("{drop}{}", create(TABLE, "bytea", &comment))).map_err(&making)?;
    fs::write(marker, &comment).map_err(|error| failed(ENGINE, "opening the store", error))?;
    // Without a moment in which nobody has the lock.
    await_lock(control, "_shared")?;
    control.query(&format!("SELECT pg_advisory_unlock({LOCK})")).map_err(&making)?;
    Ok(comment)
}

/// The statements that make a table. It is in the first schema of the search path, which exists.
fn create(name: &str, values: &str, comment: &str) -> String {
    let (table, key) = (quoted(name), quoted(&query::index_name(name, "key")));
    format!(
        "CREATE TABLE {table}(k bytea NOT NULL CONSTRAINT {key} PRIMARY KEY, v {values} NOT NULL); ALTER TABLE {table} ALTER k SET STORAGE PLAIN; \
         COMMENT ON TABLE {table} IS '{comment}'"
    )
}

fn foreign(table: &str) -> EngineError {
    let what = format!("there is a table `{table}` that prony did not make: use another schema or database");
    failed(ENGINE, "opening the store", what)
}

/// A table that is there.
struct Found {
    comment: String,
    /// The type of its values.
    values: String,
}

/// The table with this name in the schema, if there is one.
fn found(control: &mut Connection, name: &str) -> Result<Option<Found>, EngineError> {
    let found = format!(
        "SELECT current_schema(), coalesce(obj_description(oid, 'pg_class'), ''), coalesce((SELECT format_type(atttypid, NULL) \
         FROM pg_attribute WHERE attrelid = oid AND attname = 'v'), ''), oid IS NULL \
         FROM (SELECT to_regclass(format('%I.%I', current_schema(), '{name}'))::oid AS oid) AS here"
    );
    let found = control.query(&found).map_err(while_("making the table"))?.concat();
    match <[Option<String>; 4]>::try_from(found) {
        Ok([Some(_), Some(comment), Some(values), Some(absent)]) => {
            Ok(Some(Found { comment, values }).filter(|_| absent == "f"))
        }
        _ => Err(failed(ENGINE, "making the table", "the search path has no schema that exists")),
    }
}

/// Takes a lock of the schema, when the sessions of an earlier trial have ended.
fn await_lock(control: &mut Connection, kind: &str) -> Result<(), EngineError> {
    let until = Instant::now() + PATIENCE;
    let lock = format!("SELECT pg_try_advisory_lock{kind}({LOCK})");
    while control.query(&lock).map_err(while_("making the table"))?.concat() != [Some("t".to_owned())] {
        if Instant::now() >= until {
            let what = "another run uses the table of prony in this schema".to_owned();
            return Err(failed(ENGINE, "opening the store", what));
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Whether the connection still has its lock of the schema.
///
/// # Errors
/// Where it does not: another run may have replaced the tables since, and nobody knows what was read and written.
pub(super) fn confirm(control: &mut Connection) -> Result<(), EngineError> {
    let locks = "SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid = pg_backend_pid()";
    let looking = "looking for the lock of the tables";
    if control.query(locks).map_err(while_(looking))?.concat() == [Some("t".to_owned())] {
        return Ok(());
    }
    Err(failed(ENGINE, looking, "the session does not have it any more: another run may have replaced the tables"))
}

/// Makes the tables of a trial that are not there, and their indexes. The comment is that on the first table.
pub(super) fn make(control: &mut Connection, tables: &[Table], comment: &str) -> Result<(), EngineError> {
    let making = while_("making the table");
    for table in tables {
        let (name, values) = (query::name(table), if table.documents.is_some() { "jsonb" } else { "bytea" });
        match found(control, &name)? {
            Some(found) if found.comment != comment => return Err(foreign(&name)),
            Some(found) if found.values == values => {}
            // The first table, which is there already. It has no rows: none could have no value.
            Some(_) => {
                let table = quoted(&name);
                let alter = format!("ALTER TABLE {table} ALTER v TYPE {values} USING NULL::{values}");
                control.query(&alter).map_err(&making)?;
            }
            None => drop(control.query(&create(&name, values, comment)).map_err(&making)?),
        }
        let Some(documents) = &table.documents else { continue };
        for (number, fields) in documents.indexes.iter().enumerate() {
            let create = query::index(table, documents, number, fields);
            control.query(&create).map_err(while_("creating an index"))?;
        }
    }
    Ok(())
}

/// The indexes that these tables have, in SQL.
pub(super) fn indexes(control: &mut Connection, tables: &[Table]) -> Result<Vec<String>, Failure> {
    let names: Vec<String> = tables.iter().map(|table| format!("'{}'", query::name(table))).collect();
    let indexes = format!(
        "SELECT indexdef FROM pg_indexes WHERE schemaname = current_schema() AND tablename IN ({}) ORDER BY indexname",
        names.join(", ")
    );
    Ok(control.query(&indexes)?.concat().into_iter().flatten().collect())
}
