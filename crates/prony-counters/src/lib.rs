//! Reads the numbers that servers count themselves. A source gives a set of named numbers at a moment; what is computed from
//! them over a phase is decided elsewhere.
//!
//! Whatever a server answers, or where it does not answer, reading takes no longer than [`DEADLINE`] and ends with numbers or
//! with the reason why there are none: a source that fails is never a zero.

mod http;
pub mod lines;
mod mongodb;
mod postgresql;
mod redis;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io;
use std::time::Duration;

use prony_model::reading::{Reading, Why};
use prony_model::service::CounterSource;
use prony_servers::wire::Limit;

/// How long one reading may take.
pub const DEADLINE: Duration = Duration::from_secs(5);

/// How sessions that only read counters call themselves.
const READER: &str = "prony counters";

/// What a reading may take.
const LIMIT: Limit = Limit { time: DEADLINE, bytes: 4 << 20 };

/// A place where numbers are read.
pub trait Source: Send {
    /// Reads all numbers that were asked for, each of which may be missing.
    ///
    /// # Errors
    /// Why there are none. Reasons are recorded even where commands are not, so that they have neither an address nor other
    /// parameters of the source, nor what a command wrote.
    fn read(&mut self) -> Result<Numbers, Why>;
}

/// Numbers at a moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Numbers {
    /// By name.
    pub values: BTreeMap<String, Reading<Number>>,
    /// What some of them may lack.
    pub late: Option<Late>,
}

/// A number, as the server prints it.
#[derive(Clone, Debug, PartialEq)]
pub struct Number {
    /// Its value.
    pub value: f64,
    /// What distinguishes this count from another one by the same name, which began anew: when the server was started or its
    /// counters were reset, and by which connection it was read.
    pub since: String,
    /// What the count has lost, where it may lose a part of itself.
    pub lost: Option<Lost>,
}

/// What a count has lost so far: the difference of two readings is none of what was counted, if it lost something in between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// How much, as the server prints it.
    pub amount: String,
    /// Why, and what prevents it.
    pub why: &'static str,
}

/// Numbers that may not contain what was done lately.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Late {
    /// Their names.
    pub names: Vec<String>,
    /// Why.
    pub why: String,
}

/// The source that reads these names; `at` is its address with all placeholders replaced. `None` where numbers are what a
/// command prints, which others run: see [`lines`].
pub fn source(spec: &CounterSource, at: &str, names: Vec<String>) -> Option<Box<dyn Source>> {
    Some(match spec {
        CounterSource::Postgresql(_) => Box::new(postgresql::Postgresql::new(at, names)),
        CounterSource::Redis(_) => Box::new(redis::Redis::new(at, names)),
        CounterSource::Mongodb(_) => Box::new(mongodb::Mongodb::new(at, names)),
        CounterSource::Prometheus(_) => Box::new(http::Page::new(at, names)),
        CounterSource::Command(_) => return None,
    })
}

/// The fault of an address of a source, with its placeholders, and an example of one.
pub fn fault(spec: &CounterSource) -> Option<(String, &'static str)> {
    let text = spec.texts().into_iter().next()?;
    // Names of placeholders stand between zero bytes.
    let at: String =
        text.split('\0').enumerate().map(|(part, text)| if part % 2 == 0 { text } else { value_of(text) }).collect();
    let (read, example) = match spec {
        CounterSource::Postgresql(_) => (
            prony_servers::postgresql::Address::parse_parameters(&at).map(drop),
            "postgresql = \"host=127.0.0.1 port={port} user=NAME dbname=NAME\"",
        ),
        CounterSource::Redis(_) => {
            (prony_servers::redis::Address::parse(&at).map(drop).map_err(Into::into), "redis = \"127.0.0.1:{port}\"")
        }
        CounterSource::Mongodb(_) => (
            prony_servers::mongodb::Address::parse(&at).map(drop).map_err(Into::into),
            "mongodb = \"127.0.0.1:{port}\"",
        ),
        CounterSource::Prometheus(_) => {
            (http::place(&at).map(drop), "prometheus = \"http://127.0.0.1:{port}/metrics\"")
        }
        CounterSource::Command(_) => return None,
    };
    read.err().map(|message| (message, example))
}

/// What may stand for a placeholder.
fn value_of(placeholder: &str) -> &'static str {
    if placeholder.ends_with(".url") { "http://127.0.0.1:1" } else { "1" }
}

fn no_connection(why: impl Display) -> String {
    format!("no connection: {why}")
}

/// Why a connection gave no answer.
fn no_answer(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::TimedOut => format!("no whole answer within {} s", DEADLINE.as_secs()),
        io::ErrorKind::UnexpectedEof => "the connection was closed before a whole answer".to_owned(),
        _ => error.to_string(),
    }
}

/// Subtracts what prony itself has added to totals, and its connection from numbers of connections. A total may be less, since a
/// server may begin to count anew.
fn without(numbers: &mut Numbers, totals: &[(&str, f64)], connections: &[&str]) {
    for (name, ours) in totals.iter().copied().chain(connections.iter().map(|name| (*name, 1.0))) {
        let Some(reading) = numbers.values.get_mut(name) else { continue };
        match reading {
            Reading::Measured(Number { value, .. }) if *value < ours && connections.contains(&name) => {
                *reading = Reading::failed("the server does not count prony's own connection");
            }
            Reading::Measured(Number { value, .. }) => *value -= ours,
            Reading::Missing(_) => {}
        }
    }
}

/// The numbers of these names among those that a server has.
fn chosen(names: &[String], values: &BTreeMap<String, f64>, since: &str, place: &str) -> Numbers {
    let of = |name: &String| match values.get(name) {
        Some(value) if value.is_finite() => {
            Reading::Measured(Number { value: *value, since: since.to_owned(), lost: None })
        }
        Some(_) => Reading::failed(format!("`{name}` in {place} is not finite")),
        None => Reading::failed(format!("{place} has no number `{name}`")),
    };
    Numbers { values: names.iter().map(|name| (name.clone(), of(name))).collect(), late: None }
}
