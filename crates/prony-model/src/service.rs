//! The specification of services: servers that run beside the phases of a trial.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::limits::Limits;
use crate::program::{CommandLine, ProgramSpec};
use crate::units::Nanos;

/// A server that runs from before the first phase of a trial until after its last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServiceSpec {
    /// What each of its instances executes, and where; its name is that of the service. In its texts [`PORT`] and [`DATA`]
    /// stand for the port and the data directory of the instance, and [`hole`] for values of other services.
    pub program: ProgramSpec,
    /// How many instances run, numbered from 1 on; at least 1.
    pub count: u32,
    /// Names of the services that must be ready before this one is started.
    pub after: Vec<String>,
    /// When an instance is ready.
    pub ready: ReadySpec,
    /// How often its `prepare` and `setup` run.
    #[serde(default)]
    pub set_up: SetUp,
    /// Runs when all of its instances are ready, before services that come after it are started.
    pub setup: Option<CommandLine>,
    /// Limits of each instance; times are none of them.
    pub limits: Limits,
    /// The processors on which its instances may run; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processors: Vec<u32>,
    /// Numbers that each instance counts itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counters: Option<CountersSpec>,
    /// The user that its commands run as where prony runs as root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The server, where it runs already: prony starts a process in its place that waits for its end. `None` where prony
    /// starts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running: Option<RunningSpec>,
    /// What the data directory of each instance holds when a trial begins; `None` where it is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<DataSpec>,
}

/// A server that runs already.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningSpec {
    /// Where it answers: `http://127.0.0.1:8080`.
    pub url: String,
    /// The port of that.
    pub port: u16,
    /// Its processes.
    pub processes: Observed,
}

/// Which processes are those of a server that runs already.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Observed {
    /// The one with this number, and its descendants.
    Pid(u32),
    /// The one whose number is in this file, and its descendants.
    PidFile(String),
    /// Those in the control group with this directory, and their descendants.
    Cgroup(String),
    /// Those of the container of Docker or Podman with this name.
    Container(String),
}

/// What a data directory of a service is a copy of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataSpec {
    /// The directory that is copied for each instance and trial.
    pub from: String,
}

impl ServiceSpec {
    /// The most services that a file can have, and the most instances of one.
    pub const MOST: u32 = 64;

    /// Its name.
    pub fn name(&self) -> &str {
        &self.program.name
    }

    /// The role of its instance of this number, from 1 on: `api`, or `mongo.2` where there are several.
    pub fn role(&self, number: u32) -> String {
        if self.count == 1 { self.name().to_owned() } else { format!("{}.{number}", self.name()) }
    }

    /// The roles of all of its instances.
    pub fn roles(&self) -> BTreeSet<String> {
        (1..=self.count).map(|number| self.role(number)).collect()
    }

    /// All its texts that may have placeholders.
    pub fn texts(&self) -> Vec<String> {
        let mut all = self.program.texts();
        all.extend(self.setup.iter().flat_map(CommandLine::words));
        all.extend(self.counters.iter().flat_map(|counters| counters.source.texts()));
        match &self.ready.sign {
            ReadySign::Tcp(text) | ReadySign::Http(text) => all.push(text.clone()),
            ReadySign::Command(line) => all.extend(line.words()),
            ReadySign::Port | ReadySign::Line(_) | ReadySign::Started => {}
        }
        all
    }

    /// What prony executes for it beside its program.
    pub fn lines(&self) -> impl Iterator<Item = &CommandLine> {
        let ready = match &self.ready.sign {
            ReadySign::Command(line) => Some(line),
            _ => None,
        };
        let counters = match self.counters.as_ref().map(|counters| &counters.source) {
            Some(CounterSource::Command(line)) => Some(line),
            _ => None,
        };
        [self.setup.as_ref(), ready, counters].into_iter().flatten()
    }

    /// Host and port where it listens, where the file says both; `None` where prony chooses the port, or it is not known.
    pub fn fixed_address(&self) -> Option<(&str, u16)> {
        match (&self.running, &self.ready.sign) {
            // Only a server of this machine can be observed.
            (Some(running), _) => Some(("127.0.0.1", running.port)),
            (None, ReadySign::Tcp(address)) => {
                let (host, port) = address.rsplit_once(':')?;
                Some((host, port.parse().ok()?))
            }
            (None, _) => None,
        }
    }
}

crate::words! {
    /// How often what a service needs before trials is done.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum SetUp {
        /// In each trial.
        #[default]
        Each = "each", "`prepare` and `setup` run in each trial";
        /// Once for a variant: each trial begins with a copy of the data that this left.
        Once = "once",
            "they run once for each variant, before its first trial, in which the service is started and then ended by \
            SIGTERM; each trial begins with a copy of the data that they left, and runs neither. Each trial has other ports: \
            the data must not hold `{port}`";
    }
}

/// Numbers that an instance of a service counts itself, and where they are read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CountersSpec {
    /// Where they are read.
    pub source: CounterSource,
    /// Names of numbers that only grow: their difference over a phase is its metric.
    pub totals: Vec<String>,
    /// Names of numbers at an instant: their mean, extremes and value at the end of a phase are its metrics.
    pub gauges: Vec<String>,
    /// The total that is `operations` of the service.
    pub operations: Option<String>,
}

impl CountersSpec {
    /// Whether a name is one of its totals, or with `false` one of its gauges.
    pub fn has(&self, name: &str, total: bool) -> bool {
        let names = if total { &self.totals } else { &self.gauges };
        names.iter().any(|known| known == name)
    }
}

/// Where the numbers of a service are read. In its texts [`PORT`], [`DATA`] and [`hole`] stand for values of instances.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CounterSource {
    /// The database that these connection parameters name, or this URL.
    Postgresql(String),
    /// `INFO` at this address.
    Redis(String),
    /// `serverStatus` at this address.
    Mongodb(String),
    /// A page in the text format of Prometheus.
    Prometheus(String),
    /// Lines `name value` that this command prints.
    Command(CommandLine),
}

impl CounterSource {
    /// Its name in files.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Postgresql(_) => "postgresql",
            Self::Redis(_) => "redis",
            Self::Mongodb(_) => "mongodb",
            Self::Prometheus(_) => "prometheus",
            Self::Command(_) => "command",
        }
    }

    /// What of it has placeholders.
    pub fn texts(&self) -> Vec<String> {
        match self {
            Self::Postgresql(text) | Self::Redis(text) | Self::Mongodb(text) | Self::Prometheus(text) => {
                vec![text.clone()]
            }
            Self::Command(line) => line.words(),
        }
    }
}

/// The totals of a PostgreSQL database that its sessions report some time after they have counted them: those of
/// `pg_stat_database` and, of all databases of the server, of `pg_stat_wal`.
pub const POSTGRESQL_REPORTED: [&str; 16] = [
    "xact_commit",
    "xact_rollback",
    "tup_returned",
    "tup_fetched",
    "tup_inserted",
    "tup_updated",
    "tup_deleted",
    "blks_read",
    "blks_hit",
    "temp_files",
    "temp_bytes",
    "deadlocks",
    "sessions",
    "wal_records",
    "wal_fpi",
    "wal_bytes",
];

/// Whether a number of `pg_stat_database` is counted only with the setting `track_counts` (`pgstat_count_*` of relations,
/// `pgstat_report_tempfile` and `pgstat_report_deadlock` in the source of PostgreSQL).
pub fn postgresql_tracks(name: &str) -> bool {
    ["tup_", "blks_", "temp_"].iter().any(|begin| name.starts_with(begin)) || name == "deadlocks"
}

/// Whether a total of PostgreSQL is a number of transactions, which is known only where sessions have ended.
pub fn postgresql_transactions(name: &str) -> bool {
    name.starts_with("xact_")
}

/// The total of a PostgreSQL database that is its statements, as `pg_stat_statements` counts them, at once.
pub const POSTGRESQL_STATEMENTS: &str = "statements";

/// The gauges of a PostgreSQL database: its sessions, those of them that are not idle, and its size.
pub const POSTGRESQL_GAUGES: [&str; 3] = ["connections", "connections_active", "size_bytes"];

/// The totals of Redis that are read unless a file names others.
pub const REDIS_TOTALS: [&str; 6] =
    [REDIS_COMMANDS, "total_connections_received", "keyspace_hits", "keyspace_misses", "expired_keys", "evicted_keys"];

/// The total of Redis that is its operations.
pub const REDIS_COMMANDS: &str = "total_commands_processed";

/// The gauges of Redis that are read unless a file names others.
pub const REDIS_GAUGES: [&str; 4] = ["connected_clients", "blocked_clients", "used_memory", "used_memory_rss"];

/// The total of MongoDB that is its operations, the sum of those of each kind.
pub const MONGODB_OPERATIONS: &str = "opcounters";

/// The total of MongoDB that counts its commands, prony's own among them.
pub const MONGODB_COMMANDS: &str = "commands";

/// The gauge of MongoDB that counts its connections, prony's own among them.
pub const MONGODB_CONNECTIONS: &str = "connections";
/// Those of them with an operation under way, of which prony's reading is one.
pub const MONGODB_ACTIVE: &str = "connections_active";

/// The totals of MongoDB.
pub const MONGODB_TOTALS: [&str; 17] = [
    MONGODB_OPERATIONS,
    "inserts",
    "queries",
    "updates",
    "deletes",
    "getmores",
    MONGODB_COMMANDS,
    "documents_inserted",
    "documents_returned",
    "documents_updated",
    "documents_deleted",
    "write_conflicts",
    "transactions_started",
    "transactions_committed",
    "transactions_aborted",
    "cache_read_bytes",
    "cache_written_bytes",
];

/// The gauges of MongoDB.
pub const MONGODB_GAUGES: [&str; 5] =
    [MONGODB_CONNECTIONS, MONGODB_ACTIVE, "transactions_open", "cache_bytes", "cache_dirty_bytes"];

/// The role of the load generator.
pub const LOAD: &str = "load";

/// The instance of metrics of a program, or of a store's worker, and the services beside it together.
pub const ALL: &str = "all";

/// Placeholder for the port of a service's instance, which is known in a trial only.
pub const PORT: &str = "\0port\0";

/// Placeholder for the data directory of a service's instance.
pub const DATA: &str = "\0data\0";

crate::words! {
    /// What other roles may ask of an instance of a service; the word is that in placeholders: `{service.api.port}`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum OfService {
        /// Its port.
        Port = "port";
        /// `http://127.0.0.1:PORT`.
        Url = "url";
        /// Its data directory.
        Data = "data";
    }
}

/// Placeholder for a value of a service's instance of this number, from 1 on.
pub fn hole(service: &str, number: u32, value: OfService) -> String {
    format!("\0service.{service}.{number}.{}\0", value.name())
}

/// The services, with numbers of instances, for whose values placeholders of a text stand.
pub fn holes(text: &str) -> Vec<(String, u32)> {
    let named = |part: &str| {
        let mut words = part.strip_prefix("service.")?.splitn(3, '.');
        Some((words.next()?.to_owned(), words.next()?.parse().ok()?))
    };
    text.split('\0').filter_map(named).collect()
}

/// When an instance of a service is ready.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReadySpec {
    /// The sign.
    pub sign: ReadySign,
    /// How long it may take, from its launch.
    pub within: Nanos,
}

/// What shows that an instance of a service is ready.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadySign {
    /// It accepts connections on its port.
    Port,
    /// It accepts connections at this address.
    Tcp(String),
    /// It answers a `GET` of this path on its port with a status of 200 to 399.
    Http(String),
    /// A line of its output or messages matches this pattern.
    Line(String),
    /// This command, repeated in its directory, exits with 0.
    Command(CommandLine),
    /// It is running.
    Started,
}
