//! `INFO` of Redis and Valkey: lines `name:value` in one bulk string of RESP.
//!
//! The command of each reading is counted by the server when it has been executed, so that a reading contains those of the
//! readings before it. They are subtracted, and so is the connection itself.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::TcpStream;
use std::time::Instant;

use prony_model::reading::Why;
use prony_model::service::REDIS_COMMANDS;
use prony_resp::{Address, Head};

use crate::http::{connected, received};
use crate::{DEADLINE, LONGEST, Numbers, Source, chosen, without};

/// A server at an address, to which one connection stays open.
pub(crate) struct Redis {
    address: Result<Address, &'static str>,
    names: Vec<String>,
    open: Option<Open>,
    /// Connections that were made.
    connections: u64,
}

struct Open {
    stream: TcpStream,
    /// Commands that were sent on it.
    commands: u64,
}

impl Redis {
    pub(crate) fn new(address: &str, names: Vec<String>) -> Self {
        Self { address: Address::parse(address), names, open: None, connections: 0 }
    }

    fn info(&mut self) -> Result<(String, u64), String> {
        let address = self.address.as_ref().map_err(|fault| (*fault).to_owned())?;
        let open = match &mut self.open {
            Some(open) => open,
            None => {
                let stream = connected(&address.place)?;
                self.connections += 1;
                let open = self.open.insert(Open { stream, commands: 0 });
                if !address.login.is_empty() {
                    open.ask("AUTH", &address.login, simple)?;
                }
                open
            }
        };
        let before = open.commands;
        Ok((open.ask("INFO", &[], bulk)?, before))
    }
}

impl Open {
    /// The answer to a command, of the kind that it has to be.
    fn ask(&mut self, name: &str, arguments: &[String], kind: Kind) -> Result<String, String> {
        let words: Vec<&[u8]> =
            [name].into_iter().chain(arguments.iter().map(String::as_str)).map(str::as_bytes).collect();
        let mut command = Vec::new();
        prony_resp::push(&mut command, &words);
        self.stream.write_all(&command).map_err(|error| error.to_string())?;
        self.commands += 1;
        let until = Instant::now() + DEADLINE;
        let mut answer: Vec<u8> = Vec::new();
        loop {
            if let Some(text) = kind(&answer)? {
                return Ok(text);
            }
            answer.extend(received(&mut self.stream, until)?.ok_or("the connection was closed before a whole answer")?);
        }
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
        let since = format!("run {run} by connection {}", self.connections);
        let mut numbers = chosen(&self.names, &values, &since, "`INFO`");
        without(&mut numbers, &[(REDIS_COMMANDS, own as f64)], &["connected_clients"]);
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

/// Reads the text of an answer of one kind once all of it is there.
type Kind = fn(&[u8]) -> Result<Option<String>, String>;

/// A simple string: one line.
fn simple(answer: &[u8]) -> Result<Option<String>, String> {
    match head(answer)? {
        None => Ok(None),
        Some((Head::Text(text), _)) => Ok(Some(String::from_utf8_lossy(&answer[text]).into_owned())),
        Some(_) => Err("the answer is no text".to_owned()),
    }
}

/// A bulk string: a line with its length, and the text.
fn bulk(answer: &[u8]) -> Result<Option<String>, String> {
    match head(answer)? {
        None => Ok(None),
        Some((Head::Bulk(Some(length)), begin)) if length <= LONGEST => {
            let body = answer.get(begin..begin + length).filter(|_| answer.len() >= begin + length + 2);
            Ok(body.map(|body| String::from_utf8_lossy(body).into_owned()))
        }
        Some(_) => Err("the answer is no text of some length".to_owned()),
    }
}

/// The first line of an answer, which is no error.
fn head(answer: &[u8]) -> Result<Option<(Head, usize)>, String> {
    match prony_resp::head(answer).map_err(|error| error.to_string())? {
        Some((Head::Error(text), _)) => Err(String::from_utf8_lossy(&answer[text]).into_owned()),
        head => Ok(head),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bulk_strings_are_read_when_they_are_whole() {
        let all = b"$8\r\na:1\r\nb:2\r\n";
        for length in 0..all.len() {
            assert_eq!(bulk(&all[..length]), Ok(None), "{length}");
        }
        assert_eq!(bulk(all).unwrap().as_deref(), Some("a:1\r\nb:2"));
        assert_eq!(bulk(b"-NOAUTH Authentication required.\r\n").unwrap_err(), "NOAUTH Authentication required.");
        for garbage in [&b"$-1\r\n"[..], b":5\r\n", b"$9999999\r\n", b"$99999999999\r\n", b"hello\r\n", b"+OK\r\n"] {
            assert!(bulk(garbage).is_err());
        }
        assert_eq!(simple(b"+OK\r\n").unwrap().as_deref(), Some("OK"));
        assert!(simple(b":1\r\n").is_err());
    }

    #[test]
    fn fields_with_texts_are_no_numbers() {
        let (values, run) =
            fields("# Server\r\nredis_version:7.0.15\r\nrun_id:ab\r\nused_memory:5\r\nmaxmemory_human:0B\r\n");
        assert_eq!((values, run.as_str()), ([("used_memory".to_owned(), 5.0)].into(), "ab"));
    }
}
