//! A page of numbers over HTTP, in the text format of Prometheus.
//!
//! It is asked for with HTTP/1.0: the server then sends the body in one piece and closes the connection after it, so that
//! nothing has to be parsed but the status.

use std::io::ErrorKind;

use prony_model::reading::Why;
use prony_servers::placed;
use prony_servers::wire::Wire;

use crate::{LIMIT, Numbers, Source, chosen, lines, no_answer, no_connection};

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
        let (address, authority, path) = place(&self.url)?;
        let mut wire = Wire::tcp(address, Some(LIMIT)).map_err(no_connection)?;
        let request = format!("GET {path} HTTP/1.0\r\nHost: {authority}\r\nAccept: text/plain;version=0.0.4\r\n\r\n");
        wire.out.extend(request.bytes());
        let mut received = wire.send();
        while received.is_ok() {
            received = wire.fill(wire.received().len() + 1);
        }
        match received {
            Err(error) if error.kind() != ErrorKind::UnexpectedEof => Err(no_answer(&error)),
            _ => body_of(wire.received()),
        }
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

/// Where a page is: the address of its server, how the URL names that, and the path.
pub(crate) fn place(url: &str) -> Result<(String, &str, &str), String> {
    let rest = url.strip_prefix("http://").ok_or("only `http://` is read")?;
    let (authority, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
    Ok((placed(authority, 80)?, authority, path))
}

/// The body of a whole answer with status 200.
fn body_of(answer: &[u8]) -> Result<String, String> {
    const END: &[u8] = b"\r\n\r\n";
    let end = answer.windows(END.len()).position(|bytes| bytes == END);
    let (head, body) = end.map_or((answer, None), |end| (&answer[..end], Some(&answer[end + END.len()..])));
    let head = String::from_utf8_lossy(head);
    let status = head.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5));
    let body = match (status, body) {
        (Some("200"), Some(body)) => body,
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
        // The format wants it, and a number that was cut is a smaller one.
        None if !body.ends_with(b"\n") => {
            Err("the page does not end with a line feed, and may have been cut".to_owned())
        }
        _ => Ok(String::from_utf8_lossy(body).into_owned()),
    }
}
