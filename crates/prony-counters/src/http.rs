//! A page of numbers over HTTP, in the text format of Prometheus.
//!
//! It is asked for with HTTP/1.0: the server then sends the body in one piece and closes the connection after it, so that
//! nothing has to be parsed but the status.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use prony_model::reading::Why;

use crate::{DEADLINE, LONGEST, Numbers, Source, chosen, lines};

/// When the process was started, which many servers publish under this name.
const STARTED: &str = "process_start_time_seconds";

/// Such a page.
pub(crate) struct Page {
    url: String,
    names: Vec<String>,
}

impl Page {
    pub(crate) fn new(url: &str, names: Vec<String>) -> Self {
        Self { url: url.to_owned(), names }
    }

    fn body(&self) -> Result<String, String> {
        let rest = self.url.strip_prefix("http://").ok_or("only `http://` is read")?;
        let (authority, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
        let address = if authority.contains(':') { authority.to_owned() } else { format!("{authority}:80") };
        let mut stream = connected(&address)?;
        let until = Instant::now() + DEADLINE;
        let request = format!("GET {path} HTTP/1.0\r\nHost: {authority}\r\nAccept: text/plain;version=0.0.4\r\n\r\n");
        stream.write_all(request.as_bytes()).map_err(|error| error.to_string())?;
        let mut answer = Vec::new();
        while let Some(bytes) = received(&mut stream, until)? {
            answer.extend(bytes);
            if answer.len() > LONGEST {
                return Err(format!("the answer is longer than {} MiB", LONGEST >> 20));
            }
        }
        body_of(&answer)
    }
}

impl Source for Page {
    fn read(&mut self) -> Result<Numbers, Why> {
        let body = self.body().map_err(|why| Why::Failed(format!("`{}`: {why}", self.url).into()))?;
        let values = lines::exposed(&body);
        let since = values.get(STARTED).map(|at| format!("a start at {at}")).unwrap_or_default();
        Ok(chosen(&self.names, &values, &since, "the page"))
    }
}

/// The body of a whole answer with status 200.
fn body_of(answer: &[u8]) -> Result<String, String> {
    let text = String::from_utf8_lossy(answer);
    let status = text.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5));
    let (head, body) = match (status, text.split_once("\r\n\r\n")) {
        (Some("200"), Some(parts)) => parts,
        (Some(status), Some(_)) => return Err(format!("the status is {status}")),
        _ => return Err("the answer is not of HTTP".to_owned()),
    };
    let head = head.to_ascii_lowercase();
    let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<usize>().ok());
    if head.contains("\ntransfer-encoding:") {
        return Err("the body is in chunks, though HTTP/1.0 has none".to_owned());
    }
    match field("content-length:") {
        Some(length) if length > body.len() => Err(format!("the body has {} of {length} bytes", body.len())),
        _ => Ok(body.to_owned()),
    }
}

/// A connection to an address, all of whose waits are short.
pub(crate) fn connected(address: &str) -> Result<TcpStream, String> {
    let mut all = address.to_socket_addrs().map_err(|error| format!("`{address}`: {error}"))?;
    let first = all.next().ok_or_else(|| format!("`{address}` is no address"))?;
    let connect = || -> std::io::Result<TcpStream> {
        let stream = TcpStream::connect_timeout(&first, DEADLINE)?;
        stream.set_read_timeout(Some(Duration::from_millis(100)))?;
        stream.set_write_timeout(Some(DEADLINE))?;
        stream.set_nodelay(true)?;
        Ok(stream)
    };
    connect().map_err(|error| format!("no connection to `{address}`: {error}"))
}

/// The next bytes of a stream; `None` at its end.
pub(crate) fn received(stream: &mut TcpStream, until: Instant) -> Result<Option<Vec<u8>>, String> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(None),
            // A server that sends a byte now and then does not get more time.
            _ if Instant::now() >= until => return Err(format!("no whole answer within {} s", DEADLINE.as_secs())),
            Ok(count) => {
                buffer.truncate(count);
                return Ok(Some(buffer));
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
}
