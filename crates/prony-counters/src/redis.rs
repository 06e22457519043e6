//! `INFO` of Redis and Valkey: lines `name:value` in one bulk string of RESP.
//!
//! The command of each reading is counted by the server when it has been executed, so that a reading contains those of the
//! readings before it. They are subtracted, and so is the connection itself.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::TcpStream;
use std::time::Instant;

use prony_model::reading::{Reading, Why};
use prony_model::service::REDIS_COMMANDS;

use crate::http::{connected, received};
use crate::{DEADLINE, LONGEST, Number, Numbers, Source, chosen};

/// The command.
const INFO: &[u8] = b"*1\r\n$4\r\nINFO\r\n";

/// A server at an address, to which one connection stays open.
pub(crate) struct Redis {
    address: String,
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
        let address = address.strip_prefix("redis://").unwrap_or(address).trim_end_matches('/').to_owned();
        Self { address, names, open: None, connections: 0 }
    }

    fn info(&mut self) -> Result<(String, u64), String> {
        let open = match &mut self.open {
            Some(open) => open,
            None => {
                let stream = connected(&self.address)?;
                self.connections += 1;
                self.open.insert(Open { stream, commands: 0 })
            }
        };
        let before = open.commands;
        open.stream.write_all(INFO).map_err(|error| error.to_string())?;
        open.commands += 1;
        Ok((bulk(&mut open.stream)?, before))
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
        for (name, ours) in [(REDIS_COMMANDS, own as f64), ("connected_clients", 1.0)] {
            if let Some(Reading::Measured(Number { value, .. })) = numbers.values.get_mut(name) {
                *value -= ours;
            }
        }
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

/// The bulk string that a server answers.
fn bulk(stream: &mut TcpStream) -> Result<String, String> {
    let until = Instant::now() + DEADLINE;
    let mut answer: Vec<u8> = Vec::new();
    loop {
        match whole(&answer)? {
            Some(text) => return Ok(text),
            None => {
                answer.extend(received(stream, until)?.ok_or("the connection was closed before a whole answer")?);
            }
        }
    }
}

/// The text of a bulk string once all of it is there.
fn whole(answer: &[u8]) -> Result<Option<String>, String> {
    let Some(end) = answer.windows(2).position(|two| two == b"\r\n") else {
        return if answer.len() > 1_000 { Err("the answer is not of Redis".to_owned()) } else { Ok(None) };
    };
    let head = String::from_utf8_lossy(&answer[..end]);
    if let Some(error) = head.strip_prefix('-') {
        return Err(error.to_owned());
    }
    let length = head.strip_prefix('$').and_then(|length| length.parse::<usize>().ok()).filter(|len| *len <= LONGEST);
    let length = length.ok_or("the answer to `INFO` is no text")?;
    let body = answer.get(end + 2..end + 2 + length).filter(|_| answer.len() >= end + 4 + length);
    Ok(body.map(|body| String::from_utf8_lossy(body).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bulk_strings_are_read_when_they_are_whole() {
        let all = b"$8\r\na:1\r\nb:2\r\n";
        for length in 0..all.len() {
            assert_eq!(whole(&all[..length]), Ok(None), "{length}");
        }
        assert_eq!(whole(all).unwrap().as_deref(), Some("a:1\r\nb:2"));
        assert_eq!(whole(b"-NOAUTH Authentication required.\r\n").unwrap_err(), "NOAUTH Authentication required.");
        for garbage in [&b"$-1\r\n"[..], b":5\r\n", b"$99999999999\r\n", b"hello\r\n", &[b'x'; 2_000]] {
            assert!(whole(garbage).is_err());
        }
    }

    #[test]
    fn fields_with_texts_are_no_numbers() {
        let (values, run) =
            fields("# Server\r\nredis_version:7.0.15\r\nrun_id:ab\r\nused_memory:5\r\nmaxmemory_human:0B\r\n");
        assert_eq!((values, run.as_str()), ([("used_memory".to_owned(), 5.0)].into(), "ab"));
    }
}
