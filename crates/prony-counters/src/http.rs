//! A page of numbers over HTTP, in the text format of Prometheus.
//!
//! It is asked for with HTTP/1.0: the server then sends the body in one piece and closes the connection after it, so that
//! nothing has to be parsed but the status.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
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
        let body = self.body().map_err(|why| Why::Failed(format!("the page: {why}").into()))?;
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

/// A connection to an address, all of whose waits are short; a name may have several addresses, of which the first that accepts
/// it is used.
pub(crate) fn connected(address: &str) -> Result<TcpStream, String> {
    let all = address.to_socket_addrs().map_err(|error| format!("no connection: {error}"))?;
    first_of(&all.collect::<Vec<_>>())
}

/// The reason is that of the last address, and names none.
fn first_of(all: &[SocketAddr]) -> Result<TcpStream, String> {
    let until = Instant::now() + DEADLINE;
    let connect = |address: &SocketAddr| -> std::io::Result<TcpStream> {
        let rest = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        let stream = TcpStream::connect_timeout(address, rest)?;
        stream.set_read_timeout(Some(Duration::from_millis(100)))?;
        stream.set_write_timeout(Some(DEADLINE))?;
        stream.set_nodelay(true)?;
        Ok(stream)
    };
    let mut why = "the name has no address".to_owned();
    for address in all {
        match connect(address) {
            Ok(stream) => return Ok(stream),
            Err(error) => why = error.to_string(),
        }
    }
    Err(format!("no connection: {why}"))
}

/// Sends a request; its answer, which `whole` finds once all of it is among what was received.
pub(crate) fn answer<T>(
    stream: &mut TcpStream,
    request: &[u8],
    whole: impl Fn(&[u8]) -> Result<Option<T>, String>,
) -> Result<T, String> {
    stream.write_all(request).map_err(|error| error.to_string())?;
    let until = Instant::now() + DEADLINE;
    let mut so_far = Vec::new();
    loop {
        if let Some(answer) = whole(&so_far)? {
            return Ok(answer);
        }
        so_far.extend(received(stream, until)?.ok_or("the connection was closed before a whole answer")?);
    }
}

/// The next bytes of a stream; `None` at its end.
fn received(stream: &mut TcpStream, until: Instant) -> Result<Option<Vec<u8>>, String> {
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

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn all_addresses_of_a_name_are_tried() {
        let free = || TcpListener::bind("127.0.0.1:0").unwrap();
        let closed = free().local_addr().unwrap();
        let open = free();
        let stream = first_of(&[closed, open.local_addr().unwrap()]).unwrap();
        assert_eq!(stream.peer_addr().unwrap(), open.local_addr().unwrap());
        let why = first_of(&[closed, closed]).unwrap_err();
        assert!(why.starts_with("no connection: ") && !why.contains(&closed.port().to_string()), "{why}");
        assert_eq!(first_of(&[]).unwrap_err(), "no connection: the name has no address");
    }
}
