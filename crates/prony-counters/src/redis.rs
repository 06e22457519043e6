//! `INFO` of Redis and Valkey: lines `name:value` in one bulk string of RESP.
//!
//! The command of each reading is counted by the server when it has been executed, so that a reading contains those of the
//! readings before it. They are subtracted, and so are the connection itself and what it sent and received: a command is counted as
//! read before it is executed, and an answer when it has been written.
//!
//! `CONFIG RESETSTAT` sets all totals to 0 and leaves no trace of that. Where a phase does more than was done before it, its totals are
//! larger all the same; so all numbers that only grow are looked at in each reading, among them those of each command
//! (`cmdstat_info`, of which each reading is one, and one more before the first): if one went back, all totals have begun anew.

use std::collections::BTreeMap;

use prony_model::reading::Why;
use prony_model::service::REDIS_COMMANDS;
use prony_servers::redis::{Address, Connection, Failure, Value};

use crate::{LIMIT, Numbers, Source, chosen, no_answer, no_connection, without};

/// A server at an address, to which one connection stays open.
pub(crate) struct Redis {
    address: String,
    names: Vec<String>,
    open: Option<Open>,
    /// Connections that were made.
    connections: u64,
    /// Numbers that only grow, as they were last read.
    known: BTreeMap<String, f64>,
    /// How often some of them were less than before.
    resets: u64,
}

/// Names of totals, and what prony itself has added to them.
type Ours = [(&'static str, f64); 5];

struct Open {
    connection: Connection,
    /// Commands that were sent on it.
    commands: u64,
}

impl Redis {
    pub(crate) fn new(address: &str, names: Vec<String>) -> Self {
        Self { address: address.to_owned(), names, open: None, connections: 0, known: BTreeMap::new(), resets: 0 }
    }

    /// The numbers, and what prony itself has added to totals.
    fn info(&mut self) -> Result<(String, Ours), String> {
        let open = match &mut self.open {
            Some(open) => {
                open.connection.begin_reading();
                open
            }
            None => {
                // `INFO` is about all databases.
                let address = Address { database: 0, ..Address::parse(&self.address)? };
                self.connections += 1;
                let connection = Connection::open(&address, Some(LIMIT)).map_err(reason).map_err(no_connection)?;
                let commands = u64::from(!address.login.is_empty());
                let open = self.open.insert(Open { connection, commands });
                // A command is not counted in its own answer: without one before the first reading, that would have no count
                // that a reset takes away.
                open.info("server")?;
                open
            }
        };
        let (before, [_, received]) = (open.commands as f64, open.connection.traffic());
        // All sections: those of commands are no default.
        let text = open.info("all")?;
        let [sent, _] = open.connection.traffic();
        let ours = [
            (REDIS_COMMANDS, before),
            ("total_net_input_bytes", sent as f64),
            ("total_net_output_bytes", received as f64),
            ("total_reads_processed", before + 1.0),
            ("total_writes_processed", before),
        ];
        Ok((text, ours))
    }

    /// Notices whether totals began anew since the last reading.
    fn compare(&mut self, text: &str) {
        let mut now = growing(text);
        let went_back = |(name, last): (&String, &f64)| now.get(name).copied().unwrap_or(0.0) < *last;
        self.resets += u64::from(self.known.iter().any(went_back));
        // This answer is counted in the next one, if commands are: also where a reset has left no count.
        if now.keys().any(|name| name.starts_with(COMMAND)) {
            *now.entry(OWN.to_owned()).or_default() += 1.0;
        }
        self.known = now;
    }
}

impl Open {
    /// The numbers of a section.
    fn info(&mut self, section: &str) -> Result<String, String> {
        self.commands += 1;
        match self.connection.ask(&[b"INFO", section.as_bytes()]).map_err(reason)? {
            Value::Text(text) => Ok(text),
            _ => Err("the answer is no text of some length".to_owned()),
        }
    }
}

/// Why a server gave no answer; of an error of its own only the first word, since its text may have the name of a user.
fn reason(failure: Failure) -> String {
    match failure {
        Failure::Io(error) => no_answer(&error),
        Failure::Server(text) => {
            let code = text.split_whitespace().next().unwrap_or_default().to_owned();
            let meaning = match code.as_str() {
                "NOAUTH" => ": it asks for a password",
                "NOPERM" => ": the user may not use `INFO`",
                "WRONGPASS" => ": it does not accept the user or the password",
                _ => "",
            };
            format!("the server reports the error {code}{meaning}")
        }
        failure => failure.to_string(),
    }
}

impl Source for Redis {
    fn read(&mut self) -> Result<Numbers, Why> {
        let read = self.info();
        if read.is_err() {
            // What is left of its answer would be taken for the next one.
            self.open = None;
        }
        let (text, own) = read.map_err(|why| Why::Failed(format!("Redis: {why}").into()))?;
        let (values, run) = fields(&text);
        self.compare(&text);
        let since = format!("run {run} by connection {} after {} resets", self.connections, self.resets);
        let mut numbers = chosen(&self.names, &values, &since, "`INFO`");
        without(&mut numbers, &own, &["connected_clients"]);
        Ok(numbers)
    }
}

/// The numbers of `INFO`, and the id of the server's process.
fn fields(text: &str) -> (BTreeMap<String, f64>, String) {
    let pairs = || text.lines().filter_map(|line| line.trim_end().split_once(':'));
    let values = pairs().filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect();
    let run = pairs().find(|(name, _)| *name == "run_id").map_or("", |(_, value)| value);
    (values, run.to_owned())
}

/// Numbers of `INFO` that only grow until they are reset.
const GROWING: [&str; 9] = [
    REDIS_COMMANDS,
    "total_connections_received",
    "total_net_input_bytes",
    "total_net_output_bytes",
    "keyspace_hits",
    "keyspace_misses",
    "expired_keys",
    "evicted_keys",
    "uptime_in_seconds",
];

/// The begin of the names of numbers of calls.
const COMMAND: &str = "cmdstat_";

/// The number of calls of the command that reads.
const OWN: &str = "cmdstat_info";

/// The numbers of `INFO` that only grow, and the calls of each command; those of commands that were not called are not shown.
fn growing(text: &str) -> BTreeMap<String, f64> {
    let pairs = text.lines().filter_map(|line| line.trim_end().split_once(':'));
    let number = |(name, value): (&str, &str)| {
        let calls = value.strip_prefix("calls=").filter(|_| name.starts_with(COMMAND));
        let value = match calls {
            Some(calls) => calls.split(',').next()?,
            None if GROWING.contains(&name) => value,
            None => return None,
        };
        Some((name.to_owned(), value.parse().ok()?))
    };
    pairs.filter_map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_with_texts_are_no_numbers() {
        let (values, run) =
            fields("# Server\r\nredis_version:7.0.15\r\nrun_id:ab\r\nused_memory:5\r\nmaxmemory_human:0B\r\n");
        assert_eq!((values, run.as_str()), ([("used_memory".to_owned(), 5.0)].into(), "ab"));
    }

    #[test]
    fn totals_began_anew_if_any_number_that_only_grows_went_back() {
        let resets = |texts: [&str; 2]| {
            let mut redis = Redis::new("127.0.0.1:1", Vec::new());
            texts.iter().for_each(|text| redis.compare(text));
            redis.resets
        };
        let before = "total_commands_processed:10\r\ntotal_connections_received:3\r\nused_memory:9\r\n";
        for (after, expected) in [
            ("total_commands_processed:90\r\ntotal_connections_received:3\r\nused_memory:5\r\n", 0),
            ("total_commands_processed:90\r\ntotal_connections_received:2\r\nused_memory:9\r\n", 1),
        ] {
            assert_eq!(resets([before, after]), expected, "{after}");
        }
        let [two, three] = [
            "cmdstat_get:calls=7,usec=4\r\ncmdstat_info:calls=2,usec=1\r\n",
            "cmdstat_get:calls=8,usec=4\r\ncmdstat_info:calls=3,usec=1\r\n",
        ];
        assert_eq!((resets([two, three]), resets([two, two])), (0, 1), "the reading itself is one more");
        assert_eq!(resets([two, "cmdstat_info:calls=3,usec=1\r\n"]), 1, "commands without calls are not shown");
    }
}
