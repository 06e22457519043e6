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

/// A server at an address, to which one connection stays open.
pub(crate) struct Redis {
    address: String,
    /// The words of `AUTH` where the server asks for a password: a user's name, where it has one, and the password.
    login: Vec<String>,
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
        let address = address.strip_prefix("redis://").unwrap_or(address).trim_end_matches('/');
        let (login, address) = address.rsplit_once('@').unwrap_or(("", address));
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        let words = [user, password].into_iter().filter(|word| !word.is_empty()).map(decoded);
        Self { address: address.to_owned(), login: words.collect(), names, open: None, connections: 0 }
    }

    fn info(&mut self) -> Result<(String, u64), String> {
        let open = match &mut self.open {
            Some(open) => open,
            None => {
                let stream = connected(&self.address)?;
                self.connections += 1;
                let open = self.open.insert(Open { stream, commands: 0 });
                if !self.login.is_empty() {
                    open.ask(&command("AUTH", &self.login), simple)?;
                }
                open
            }
        };
        let before = open.commands;
        Ok((open.ask(&command("INFO", &[]), bulk)?, before))
    }
}

impl Open {
    /// The answer to a command, of the kind that it has to be.
    fn ask(&mut self, command: &[u8], kind: Kind) -> Result<String, String> {
        self.stream.write_all(command).map_err(|error| error.to_string())?;
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

/// A command in RESP: an array of bulk strings.
fn command(name: &str, words: &[String]) -> Vec<u8> {
    let all = [name].into_iter().chain(words.iter().map(String::as_str));
    let bulks: String = all.map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
    format!("*{}\r\n{bulks}", words.len() + 1).into_bytes()
}

/// A part of a URL without its percent-encoding (RFC 3986, section 2.1).
fn decoded(part: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = part.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let digits = behind.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let code = digits.filter(|_| *first == b'%').and_then(|two| u8::from_str_radix(two, 16).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &behind[2..] } else { behind };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Reads the text of an answer of one kind once all of it is there.
type Kind = fn(&[u8]) -> Result<Option<String>, String>;

/// A simple string: one line.
fn simple(answer: &[u8]) -> Result<Option<String>, String> {
    let Some(head) = head(answer)? else { return Ok(None) };
    head.strip_prefix('+').map(|text| Some(text.to_owned())).ok_or_else(|| "the answer is no text".to_owned())
}

/// A bulk string: a line with its length, and the text.
fn bulk(answer: &[u8]) -> Result<Option<String>, String> {
    let Some(head) = head(answer)? else { return Ok(None) };
    let length = head.strip_prefix('$').and_then(|length| length.parse::<usize>().ok()).filter(|len| *len <= LONGEST);
    let (begin, length) = (head.len() + 2, length.ok_or("the answer is no text of some length")?);
    let body = answer.get(begin..begin + length).filter(|_| answer.len() >= begin + length + 2);
    Ok(body.map(|body| String::from_utf8_lossy(body).into_owned()))
}

/// The first line of an answer, which is no error.
fn head(answer: &[u8]) -> Result<Option<&str>, String> {
    let Some(end) = answer.windows(2).position(|two| two == b"\r\n") else {
        return if answer.len() > 1_000 { Err("the answer is not of Redis".to_owned()) } else { Ok(None) };
    };
    let head = std::str::from_utf8(&answer[..end]).map_err(|_| "the answer is not of Redis")?;
    head.strip_prefix('-').map_or(Ok(Some(head)), |error| Err(error.to_owned()))
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
        for garbage in [&b"$-1\r\n"[..], b":5\r\n", b"$99999999999\r\n", b"hello\r\n", b"+OK\r\n", &[b'x'; 2_000]] {
            assert!(bulk(garbage).is_err());
        }
    }

    #[test]
    fn login_is_that_of_the_url() {
        let login = |address| {
            let redis = Redis::new(address, Vec::new());
            (redis.address, redis.login)
        };
        let of = |address: &str, words: &[&str]| (address.to_owned(), words.iter().map(|&w| w.to_owned()).collect());
        assert_eq!(login("127.0.0.1:1"), of("127.0.0.1:1", &[]));
        assert_eq!(login("redis://localhost:1/"), of("localhost:1", &[]));
        assert_eq!(login("redis://:a%40b%zz@[::1]:1"), of("[::1]:1", &["a@b%zz"]));
        assert_eq!(login("redis://user:pass@host:1"), of("host:1", &["user", "pass"]));
        let auth = command("AUTH", &["user".to_owned(), "p".to_owned()]);
        assert_eq!(auth, b"*3\r\n$4\r\nAUTH\r\n$4\r\nuser\r\n$1\r\np\r\n");
        assert_eq!(simple(b"+OK\r\n").unwrap().as_deref(), Some("OK"));
    }

    #[test]
    fn fields_with_texts_are_no_numbers() {
        let (values, run) =
            fields("# Server\r\nredis_version:7.0.15\r\nrun_id:ab\r\nused_memory:5\r\nmaxmemory_human:0B\r\n");
        assert_eq!((values, run.as_str()), ([("used_memory".to_owned(), 5.0)].into(), "ab"));
    }
}
