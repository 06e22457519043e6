//! Numbers of one PostgreSQL database.
//!
//! Its sessions count in memory of their own what `pg_stat_database` and `pg_stat_wal` show, and report it when they become
//! idle, but at most once a second; what is left then they report after they have been idle for 10 s (`PGSTAT_MIN_INTERVAL`,
//! `PGSTAT_IDLE_INTERVAL` in `pgstat.c`, since version 15). So these totals are complete when every session of the database has
//! been idle for that long, or has ended, which reports all of it. Before version 15 there was no such time: sessions reported
//! what was left with their next command. Numbers of the log (WAL) are of all databases, and complete when the sessions of all are.
//! `pg_stat_statements` counts each statement at once, before it is answered.
//!
//! A session has nothing to report of a transaction that touched no table, as `SELECT 1`, and keeps it until a later transaction
//! touches some, or until it ends (`pgstat_report_stat`). So `xact_commit` and `xact_rollback` are complete only where no session
//! is left.
//!
//! The session that reads is one of another database, in which its own statements are counted.

mod settings;

use std::fmt::Write as _;
use std::time::Duration;

use prony_model::reading::{Reading, Why};
use prony_model::service::{POSTGRESQL_REPORTED, POSTGRESQL_STATEMENTS, postgresql_tracks, postgresql_transactions};
use prony_servers::postgresql::{Address, Connection, Failure};

use self::settings::{COUNTS, Given, STATEMENTS, not_counted};
use crate::{LIMIT, Late, Lost, Number, Numbers, READER, Source, no_answer, no_connection};

/// The first version whose idle sessions report what is left.
const REPORTING: u32 = 150_000;

/// The first version that has numbers of the log.
const WITH_LOG: u32 = 140_000;

/// The columns of a row; of those that are NULL an empty text.
type Row = std::iter::Map<std::vec::IntoIter<Option<String>>, fn(Option<String>) -> String>;

/// The next columns of a row.
fn first<const N: usize>(row: &mut Row) -> [String; N] {
    std::array::from_fn(|_| row.next().unwrap_or_default())
}

/// How long a session has been idle when it has reported everything: its own 10 s, and some time to do it.
const IDLE: Duration = Duration::from_millis(10_500);

/// Why numbers of sessions are missing that show neither what they do nor whether they are idle, by what the query says of them.
const HIDDEN: [(&str, &str); 2] = [
    ("role", "the role may not see sessions of other roles: GRANT pg_read_all_stats"),
    ("setting", "sessions do not show whether they are idle: they need `track_activities = on`"),
];

/// Entries of statements that were removed took their counts with them.
const EVICTED: &str =
    "`pg_stat_statements` removed entries for lack of room: start the server with a larger `pg_stat_statements.max`";

/// Why numbers of transactions are missing while sessions are left, whose unreported ones nothing shows.
const UNREPORTED: &str = "sessions of PostgreSQL do not report transactions that touched no table, such as `SELECT 1`, until a later one \
                    touches some, or they end, and some have not ended";

/// Databases from which others are observed; the first that is not the observed one.
const APART: [&str; 2] = ["postgres", "template1"];

/// One database.
pub(crate) struct Postgresql {
    parameters: String,
    names: Vec<String>,
    open: Option<Open>,
}

/// A session of another database.
struct Open {
    connection: Connection,
    database: String,
    version: u32,
}

impl Postgresql {
    pub(crate) fn new(parameters: &str, names: Vec<String>) -> Self {
        Self { parameters: parameters.to_owned(), names, open: None }
    }

    fn wants(&self, name: &str) -> bool {
        self.names.iter().any(|wanted| wanted == name)
    }

    fn numbers(&mut self) -> Result<Numbers, String> {
        let mut open = match self.open.take() {
            Some(mut open) => {
                open.connection.begin_reading();
                open
            }
            None => Open::new(&self.parameters)?,
        };
        let reported: Vec<&String> =
            self.names.iter().filter(|name| POSTGRESQL_REPORTED.contains(&name.as_str())).collect();
        // In a transaction of their own, before the numbers: what a session reports that ends between the two is then in these.
        let [idle, hidden, idle_wal, hidden_wal, left] = first(&mut open.one(&sessions(&open.database))?);
        let mut row = open.one(&query(&open.database, &self.names))?;
        let [oid, begin] = first(&mut row);
        // The server counts for all sessions: what another connection reads is the same count.
        let since = |more: &str| format!("{begin}, {more}");
        let mut numbers = Numbers::default();
        for (name, text) in of_row(&self.names).zip(row) {
            numbers.values.insert(name.clone(), number(name, &text, since("")));
        }
        let tracked: Vec<&String> = self.names.iter().filter(|name| postgresql_tracks(name)).collect();
        let settings = match !tracked.is_empty() || self.wants(POSTGRESQL_STATEMENTS) {
            true => open.settings(&oid),
            false => Ok(Vec::new()),
        };
        for name in tracked {
            let missing = match &settings {
                Ok(given) => not_counted(&COUNTS, given).map(Reading::not_supported),
                Err(why) => Some(Reading::failed(why.clone())),
            };
            if let Some(missing) = missing {
                numbers.values.insert(name.clone(), missing);
            }
        }
        let mut late = Vec::new();
        for (of_all, hidden, idle) in [(false, hidden, idle), (true, hidden_wal, idle_wal)] {
            let of_these = |name: &&String| name.starts_with("wal_") == of_all;
            let reported = reported.iter().copied().filter(of_these);
            if let Some((_, why)) = HIDDEN.iter().find(|(cause, _)| *cause == hidden) {
                let names = names_of_sessions(&self.names).filter(of_these);
                numbers.values.extend(names.map(|name| (name.clone(), Reading::not_supported(*why))));
            } else if open.version < REPORTING {
                let why = "sessions of PostgreSQL before version 15 report what they counted with their next command";
                numbers.values.extend(reported.map(|name| (name.clone(), Reading::not_supported(why))));
            } else if idle != "t" {
                late.extend(reported.cloned());
            } else if left == "t" {
                let transactions = reported.filter(|name| postgresql_transactions(name));
                numbers.values.extend(transactions.map(|name| (name.clone(), Reading::not_supported(UNREPORTED))));
            }
        }
        if !late.is_empty() {
            let why = "sessions of PostgreSQL report what they counted when they have been idle for 10 s".to_owned();
            numbers.late = Some(Late { names: late, why });
        }
        if self.wants(POSTGRESQL_STATEMENTS) {
            let statements = settings.and_then(|given| open.statements(&oid, &given, &since));
            let statements = statements.unwrap_or_else(Reading::failed);
            numbers.values.insert(POSTGRESQL_STATEMENTS.to_owned(), statements);
        }
        // After a statement whose answer took too long it is.
        self.open = Some(open).filter(|open| !open.connection.is_broken());
        Ok(numbers)
    }
}

impl Source for Postgresql {
    fn read(&mut self) -> Result<Numbers, Why> {
        self.numbers().map_err(|why| Why::Failed(format!("PostgreSQL: {why}").into()))
    }
}

impl Open {
    fn new(parameters: &str) -> Result<Self, String> {
        let mut address = Address::parse_parameters(parameters)?;
        let apart = apart(&address.database).to_owned();
        let database = std::mem::replace(&mut address.database, apart);
        let connection = Connection::open(&address, READER, Some(LIMIT)).map_err(reason).map_err(no_connection)?;
        let mut open = Self { connection, database, version: 0 };
        // The session is idle during phases. Before version 14 there is no such setting.
        let version = open.rows(
            "SELECT current_setting('server_version_num'); \
             SELECT set_config(name, '0', false) FROM pg_settings WHERE name = 'idle_session_timeout'",
        )?;
        let version = version.first().and_then(|row| row.first()?.as_ref()?.parse().ok());
        open.version = version.ok_or("its version is not known")?;
        match open.version < WITH_LOG {
            true => Err("its version is older than 14, whose numbers prony does not read".to_owned()),
            false => Ok(open),
        }
    }

    /// The row that there is for each database.
    fn one(&mut self, query: &str) -> Result<Row, String> {
        let row = self.rows(query)?.into_iter().next().ok_or("there is no such database")?;
        Ok(row.into_iter().map(Option::unwrap_or_default as fn(_) -> _))
    }

    fn rows(&mut self, query: &str) -> Result<Vec<Vec<Option<String>>>, String> {
        self.connection.query(query).map_err(reason)
    }

    /// The settings that sessions of the database with this number may get.
    fn settings(&mut self, oid: &str) -> Result<Vec<Given>, String> {
        let rows = self.rows(&settings::query(oid))?;
        let given = |row: Vec<Option<String>>| Given::of(row.try_into().ok()?);
        rows.into_iter().map(given).collect::<Option<_>>().ok_or_else(|| "its settings cannot be read".to_owned())
    }

    /// The statements of the database with this number, where the extension counts them; `false` spares it to read their texts
    /// from a file.
    fn statements(
        &mut self,
        oid: &str,
        given: &[Given],
        since: &dyn Fn(&str) -> String,
    ) -> Result<Reading<Number>, String> {
        let installed = self.rows("SELECT 1 FROM pg_extension WHERE extname = 'pg_stat_statements'")?;
        if installed.is_empty() {
            let apart = apart(&self.database);
            let why = format!(
                "statements of all databases are counted by the extension `pg_stat_statements`, and prony reads them from another database \
                 than the one whose statements it counts, where the extension is not installed: start the server with `-c \
                 shared_preload_libraries=pg_stat_statements`, and `CREATE EXTENSION pg_stat_statements` in database `{apart}`"
            );
            return Ok(Reading::not_supported(why));
        }
        let query = format!(
            "SELECT coalesce(sum(calls), 0) AS calls, (SELECT dealloc FROM pg_stat_statements_info) AS evicted, \
             (SELECT stats_reset FROM pg_stat_statements_info) AS since FROM pg_stat_statements(false) WHERE dbid = {oid}"
        );
        let row = self.rows(&query)?.into_iter().next().unwrap_or_default();
        // After the function, which says why where its library was not loaded.
        if let Some(why) = not_counted(&STATEMENTS, given) {
            return Ok(Reading::not_supported(why));
        }
        let [calls, evicted, begin] = row.try_into().unwrap_or_default();
        let value = calls.and_then(|calls: String| calls.parse().ok()).ok_or("`pg_stat_statements` has no sum")?;
        let lost = Some(Lost { amount: evicted.unwrap_or_default(), why: EVICTED });
        Ok(Reading::Measured(Number { value, since: since(&begin.unwrap_or_default()), lost }))
    }
}

/// What a column of the row says.
fn number(name: &str, text: &str, since: String) -> Reading<Number> {
    match text.parse() {
        Ok(value) => Reading::Measured(Number { value, since, lost: None }),
        Err(_) if text.is_empty() => {
            Reading::not_supported(format!("the role may not read `{name}`: GRANT pg_read_all_stats"))
        }
        Err(_) => Reading::failed(format!("`{name}` is `{text}`")),
    }
}

/// The database from which another one is observed.
fn apart(observed: &str) -> &'static str {
    APART.into_iter().find(|apart| *apart != observed).unwrap_or(APART[0])
}

/// Those that [`query`] reads.
fn of_row(names: &[String]) -> impl Iterator<Item = &String> {
    names.iter().filter(|name| *name != POSTGRESQL_STATEMENTS)
}

/// What reads of the sessions of a database, in one row: `idle`, whether every one has been idle long enough, `hidden`, why that is
/// not known, `idle_wal` and `hidden_wal`, the same of all sessions of the server but those that only read counters, and `left`,
/// whether clients of the database have sessions.
fn sessions(database: &str) -> String {
    let of_sessions = |which: &str, suffix: &str| {
        let idle =
            format!("coalesce(state, '') = 'idle' AND state_change < now() - interval '{} ms'", IDLE.as_millis());
        let hidden = "CASE WHEN backend_type IS NULL THEN 'role' WHEN state = 'disabled' THEN 'setting' END";
        let from = format!("FROM pg_stat_activity WHERE {which}");
        format!(
            "(SELECT coalesce(bool_and({idle}), true) {from}) AS idle{suffix}, (SELECT min({hidden}) {from}) AS hidden{suffix}"
        )
    };
    let own = of_sessions("datid = d.oid", "");
    let all = of_sessions(&format!("datid IS NOT NULL AND application_name IS DISTINCT FROM '{READER}'"), "_wal");
    let left = "EXISTS (SELECT FROM pg_stat_activity WHERE datid = d.oid AND backend_type = 'client backend') AS left";
    format!("SELECT {own}, {all}, {left} FROM pg_database d WHERE d.datname = '{}'", quoted(database))
}

/// A text between quotation marks of SQL.
fn quoted(text: &str) -> String {
    text.replace('\'', "''")
}

/// What reads the numbers of these names in one row, behind two other columns: `oid` is the number of the database, and `since`
/// which database it is, when the server was started, and when its statistics were reset.
fn query(database: &str, names: &[String]) -> String {
    let mut columns = String::new();
    for name in of_row(names) {
        let sessions =
            "SELECT count(*) FROM pg_stat_activity WHERE datid = d.datid AND backend_type = 'client backend'";
        let _ = match name.as_str() {
            "connections" => write!(columns, ", ({sessions}) AS connections"),
            "connections_active" => write!(columns, ", ({sessions} AND state <> 'idle') AS connections_active"),
            // Without a privilege it is an error, and no number is read.
            "size_bytes" => write!(
                columns,
                ", CASE WHEN has_database_privilege(d.datid, 'CONNECT') OR pg_has_role('pg_read_all_stats', 'USAGE') \
                 THEN pg_database_size(d.datid) END AS size_bytes"
            ),
            of_wal if of_wal.starts_with("wal_") => write!(columns, ", w.{name}"),
            _ => write!(columns, ", d.{name}"),
        };
    }
    format!(
        "SELECT d.datid AS oid, concat(pg_postmaster_start_time(), ' ', d.datid, ' ', d.stats_reset, ' ', w.stats_reset) AS since\
         {columns} FROM pg_stat_database d, pg_stat_wal w WHERE d.datname = '{}'",
        quoted(database)
    )
}

/// Those that sessions report or that are numbers of sessions.
fn names_of_sessions(names: &[String]) -> impl Iterator<Item = &String> {
    let of_sessions = |name: &str| name.starts_with("connections") || POSTGRESQL_REPORTED.contains(&name);
    names.iter().filter(move |name| of_sessions(name))
}

/// Why a server gave no answer; of an error of its own only the code, since its text may have names of users and databases.
fn reason(failure: Failure) -> String {
    let code = match failure {
        Failure::Server { code, .. } => code,
        Failure::Io(error) => return no_answer(&error),
        failure => return failure.to_string(),
    };
    let meaning = match code.as_str() {
        "28000" | "28P01" => ": the server does not accept the user or the password",
        "3D000" => ": there is no such database",
        "42501" => ": the role lacks a privilege",
        "53300" => ": there are too many connections",
        "42883" | "42P01" => {
            ": `pg_stat_statements` is of an old version (`ALTER EXTENSION pg_stat_statements UPDATE`) or in a schema that is not in \
             the search path"
        }
        "57P01" | "57P02" | "57P03" => ": the server is not available",
        _ => "",
    };
    format!("the server reports the error {code}{meaning}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_databases_are_quoted() {
        let query = query("it's", &["xact_commit".to_owned(), "wal_bytes".to_owned(), "statements".to_owned()]);
        assert!(
            query.ends_with(
                "AS since, d.xact_commit, w.wal_bytes FROM pg_stat_database d, pg_stat_wal w WHERE d.datname = 'it''s'"
            ),
            "{query}"
        );
    }

    #[test]
    fn numbers_of_sessions_need_to_see_them() {
        let names = ["xact_commit", "connections", "connections_active", "size_bytes", "statements", "wal_bytes"];
        let names = names.map(str::to_owned);
        let hidden: Vec<&str> = names_of_sessions(&names).map(String::as_str).collect();
        assert_eq!(hidden, ["xact_commit", "connections", "connections_active", "wal_bytes"]);
    }

    #[test]
    fn server_that_is_not_there_and_faulty_parameters_are_reasons() {
        for parameters in ["host=127.0.0.1 port=9 user=x dbname=y", "nonsense", "host=127.0.0.1 port=x"] {
            let mut source = Postgresql::new(parameters, vec!["xact_commit".to_owned()]);
            assert!(source.read().unwrap_err().to_string().starts_with("PostgreSQL: "), "{parameters}");
        }
    }
}
