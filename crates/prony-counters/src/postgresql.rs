//! Numbers of one PostgreSQL database.
//!
//! Its sessions count in memory of their own what `pg_stat_database` and `pg_stat_wal` show, and report it when they become
//! idle, but at most once a second; what is left then they report after they have been idle for 10 s (`PGSTAT_MIN_INTERVAL`,
//! `PGSTAT_IDLE_INTERVAL` in `pgstat.c`, since version 15). So these totals are complete when every session of the database has
//! been idle for that long, or has ended, which reports all of it. Before version 15 there was no such time: sessions reported
//! what was left with their next command. Numbers of the log (WAL) are of all databases, and complete when the sessions of all are.
//! `pg_stat_statements` counts each statement at once, before it is answered.
//!
//! The session that reads is one of another database, in which its own statements are counted.

mod settings;

use std::fmt::Write as _;
use std::time::Duration;

use prony_model::reading::{Reading, Why};
use prony_model::service::{POSTGRESQL_REPORTED, POSTGRESQL_STATEMENTS, postgresql_tracks};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage, SimpleQueryRow};

use self::settings::{COUNTS, Given, STATEMENTS, not_counted};
use crate::{DEADLINE, Late, Lost, Number, Numbers, Source};

/// The first version whose idle sessions report what is left.
const REPORTING: u32 = 150_000;

/// How long a session has been idle when it has reported everything: its own 10 s, and some time to do it.
const IDLE: Duration = Duration::from_millis(10_500);

/// Why numbers of sessions are missing that show neither what they do nor whether they are idle, by what the query says of them.
const HIDDEN: [(&str, &str); 2] = [
    ("role", "the role may not see sessions of other roles: GRANT pg_read_all_stats"),
    ("setting", "sessions do not show whether they are idle: they need `track_activities = on`"),
];

/// How sessions that only read counters call themselves.
const READER: &str = "prony counters";

/// Entries of statements that were removed took their counts with them.
const EVICTED: &str =
    "`pg_stat_statements` removed entries for lack of room: start the server with a larger `pg_stat_statements.max`";

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
    runtime: Runtime,
    client: Client,
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
        let open = match self.open.take() {
            Some(open) => open,
            None => Open::new(&self.parameters)?,
        };
        let reported: Vec<&String> =
            self.names.iter().filter(|name| POSTGRESQL_REPORTED.contains(&name.as_str())).collect();
        let row = open.row(&query(&open.database, &self.names))?;
        let found = row.first().ok_or("there is no such database")?;
        let text = |column: &str| found.try_get(column).ok().flatten().unwrap_or_default().to_owned();
        // The server counts for all sessions: what another connection reads is the same count.
        let since = |more: &str| format!("{}, {more}", text("since"));
        let mut numbers = Numbers::default();
        for name in self.names.iter().filter(|name| *name != POSTGRESQL_STATEMENTS) {
            let value = text(name).parse().map(|value| Number { value, since: since(""), lost: None });
            let missing = || Reading::failed(format!("`{name}` is `{}`", text(name)));
            numbers.values.insert(name.clone(), value.map_or_else(|_| missing(), Reading::Measured));
        }
        let tracked: Vec<&String> = self.names.iter().filter(|name| postgresql_tracks(name)).collect();
        let settings = match !tracked.is_empty() || self.wants(POSTGRESQL_STATEMENTS) {
            true => open.settings(&text("oid")),
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
        for [of_all, hidden, idle] in [["", "hidden", "idle"], ["wal_", "hidden_wal", "idle_wal"]] {
            let of_these = |name: &&String| name.starts_with("wal_") != of_all.is_empty();
            let reported = reported.iter().copied().filter(of_these);
            if let Some((_, why)) = HIDDEN.iter().find(|(cause, _)| *cause == text(hidden)) {
                let names = names_of_sessions(&self.names).filter(of_these);
                numbers.values.extend(names.map(|name| (name.clone(), Reading::not_supported(*why))));
            } else if open.version < REPORTING {
                let why = "sessions of PostgreSQL before version 15 report what they counted with their next command";
                numbers.values.extend(reported.map(|name| (name.clone(), Reading::not_supported(why))));
            } else if text(idle) != "t" {
                late.extend(reported.cloned());
            }
        }
        if !late.is_empty() {
            let why = "sessions of PostgreSQL report what they counted when they have been idle for 10 s".to_owned();
            numbers.late = Some(Late { names: late, why });
        }
        if self.wants(POSTGRESQL_STATEMENTS) {
            let statements = settings.and_then(|given| open.statements(&text("oid"), &given, &since));
            let statements = statements.unwrap_or_else(Reading::failed);
            numbers.values.insert(POSTGRESQL_STATEMENTS.to_owned(), statements);
        }
        self.open = Some(open);
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
        let mut config: Config = parameters.parse().map_err(|_| "the parameters of the connection are faulty")?;
        let observed = config.get_dbname().or(config.get_user()).unwrap_or_default().to_owned();
        let apart = APART.into_iter().find(|apart| *apart != observed).unwrap_or(APART[0]);
        config.dbname(apart).application_name(READER).connect_timeout(DEADLINE);
        let runtime = Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
        let connected = runtime.block_on(async { timeout(DEADLINE, config.connect(NoTls)).await });
        let (client, connection) = connected.map_err(|_| too_long())?.map_err(|error| reason(&error))?;
        runtime.spawn(async move {
            // Its end shows in the next query.
            let _ = connection.await;
        });
        let mut open = Self { runtime, client, database: observed, version: 0 };
        let version = open.row("SELECT current_setting('server_version_num') AS version")?;
        let version = version.first().and_then(|row| row.try_get("version").ok().flatten()?.parse().ok());
        open.version = version.ok_or("its version is not known")?;
        Ok(open)
    }

    /// The rows of a query.
    fn row(&self, query: &str) -> Result<Vec<SimpleQueryRow>, String> {
        let answered = self.runtime.block_on(async { timeout(DEADLINE, self.client.simple_query(query)).await });
        let messages = answered.map_err(|_| too_long())?.map_err(|error| reason(&error))?;
        let rows = messages.into_iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        Ok(rows.collect())
    }

    /// The settings that sessions of the database with this number may get.
    fn settings(&self, oid: &str) -> Result<Vec<Given>, String> {
        let rows = self.row(&settings::query(oid))?;
        let given = |row: &SimpleQueryRow| Given::of(&|column| row.try_get(column).ok()?.map(str::to_owned));
        rows.iter().map(given).collect::<Option<_>>().ok_or_else(|| "its settings cannot be read".to_owned())
    }

    /// The statements of the database with this number, where the extension counts them; `false` spares it to read their texts
    /// from a file.
    fn statements(
        &self,
        oid: &str,
        given: &[Given],
        since: &dyn Fn(&str) -> String,
    ) -> Result<Reading<Number>, String> {
        let installed = self.row("SELECT 1 FROM pg_extension WHERE extname = 'pg_stat_statements'")?;
        if installed.is_empty() {
            let apart = APART.into_iter().find(|apart| *apart != self.database).unwrap_or(APART[0]);
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
        let row = self.row(&query)?;
        // After the function, which says why where its library was not loaded.
        if let Some(why) = not_counted(&STATEMENTS, given) {
            return Ok(Reading::not_supported(why));
        }
        let text = |column: &str| row.first()?.try_get(column).ok()?.map(str::to_owned);
        let value = text("calls").and_then(|calls| calls.parse().ok()).ok_or("`pg_stat_statements` has no sum")?;
        let lost = Some(Lost { amount: text("evicted").unwrap_or_default(), why: EVICTED });
        Ok(Reading::Measured(Number { value, since: since(&text("since").unwrap_or_default()), lost }))
    }
}

/// What reads the numbers of these names in one row: the columns have their names. `idle` is whether every session of the database
/// has been idle long enough, `hidden` why that is not known, `idle_wal` and `hidden_wal` the same of all sessions but those that
/// only read counters, `since` which database it is, when the server was started, and when its statistics were reset.
fn query(database: &str, names: &[String]) -> String {
    let database = database.replace('\'', "''");
    let mut columns = String::new();
    for name in names.iter().filter(|name| *name != POSTGRESQL_STATEMENTS) {
        let sessions =
            "SELECT count(*) FROM pg_stat_activity WHERE datid = d.datid AND backend_type = 'client backend'";
        let _ = match name.as_str() {
            "connections" => write!(columns, ", ({sessions}) AS connections"),
            "connections_active" => write!(columns, ", ({sessions} AND state <> 'idle') AS connections_active"),
            "size_bytes" => write!(columns, ", pg_database_size(d.datid) AS size_bytes"),
            of_wal if of_wal.starts_with("wal_") => write!(columns, ", w.{name}"),
            _ => write!(columns, ", d.{name}"),
        };
    }
    let of_sessions = |which: &str, suffix: &str| {
        let idle =
            format!("coalesce(state, '') = 'idle' AND state_change < now() - interval '{} ms'", IDLE.as_millis());
        let hidden = "CASE WHEN backend_type IS NULL THEN 'role' WHEN state = 'disabled' THEN 'setting' END";
        let from = format!("FROM pg_stat_activity WHERE {which}");
        format!(
            "(SELECT coalesce(bool_and({idle}), true) {from}) AS idle{suffix}, (SELECT min({hidden}) {from}) AS hidden{suffix}"
        )
    };
    let own = of_sessions("datid = d.datid", "");
    let all = of_sessions(&format!("datid IS NOT NULL AND application_name IS DISTINCT FROM '{READER}'"), "_wal");
    format!(
        "SELECT d.datid AS oid, concat(pg_postmaster_start_time(), ' ', d.datid, ' ', d.stats_reset, ' ', w.stats_reset) AS since, \
         {own}, {all}{columns} FROM pg_stat_database d, pg_stat_wal w WHERE d.datname = '{database}'"
    )
}

fn too_long() -> String {
    format!("no answer within {} s", DEADLINE.as_secs())
}

/// Those that sessions report or that are numbers of sessions.
fn names_of_sessions(names: &[String]) -> impl Iterator<Item = &String> {
    let of_sessions = |name: &str| name.starts_with("connections") || POSTGRESQL_REPORTED.contains(&name);
    names.iter().filter(move |name| of_sessions(name))
}

/// An error with its causes; of an error of the server only its code, since its text may have names of users and databases.
fn reason(error: &tokio_postgres::Error) -> String {
    if let Some(code) = error.code() {
        let meaning = match code.code() {
            "28000" | "28P01" => ": the server does not accept the user or the password",
            "3D000" => ": there is no such database",
            "42501" => ": the role lacks a privilege",
            "53300" => ": there are too many connections",
            "57P01" | "57P02" | "57P03" => ": the server is not available",
            _ => "",
        };
        return format!("the server reports the error {}{meaning}", code.code());
    }
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        let _ = write!(text, ": {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_databases_are_quoted() {
        let query = query("it's", &["xact_commit".to_owned(), "wal_bytes".to_owned(), "statements".to_owned()]);
        assert!(
            query.ends_with(
                "AS hidden_wal, d.xact_commit, w.wal_bytes FROM pg_stat_database d, pg_stat_wal w WHERE d.datname = 'it''s'"
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
