//! A server for tests: a thread for each connection, which does with each request what a function says.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use prony_http::{Asked, Control, Destination, Load, Report};
use prony_model::units::Nanos;

/// What the server does with a request.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Sends these bytes in these portions and waits for the next request.
    Send(Vec<Vec<u8>>),
    /// Sends these bytes and closes the connection.
    Close(Vec<u8>),
    /// Sends these bytes and resets the connection.
    Reset(Vec<u8>),
    /// Sends these bytes and nothing more, until the client closes the connection.
    Hang(Vec<u8>),
    /// Sends these bytes, and after so many milliseconds again.
    Late(Vec<u8>, u64),
    /// Sends these bytes, and after so many milliseconds those.
    Early(Vec<u8>, u64, Vec<u8>),
}

impl Act {
    pub(crate) fn text(text: &str) -> Self {
        Self::Send(vec![text.as_bytes().to_vec()])
    }
}

/// A request as the server reads it.
pub(crate) struct Asking {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Does with each request what `act` says.
    pub(crate) fn new(act: impl Fn(&Asking) -> Act + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stopped = Arc::new(AtomicBool::new(false));
        let (act, ended) = (Arc::new(act), Arc::clone(&stopped));
        let thread = thread::spawn(move || {
            for stream in listener.incoming() {
                if ended.load(Ordering::Relaxed) {
                    return;
                }
                let act = Arc::clone(&act);
                thread::spawn(move || serve(stream.unwrap(), &*act));
            }
        });
        Self { address, stopped, thread: Some(thread) }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
        self.thread.take().unwrap().join().unwrap();
    }
}

fn serve(mut stream: TcpStream, act: &dyn Fn(&Asking) -> Act) {
    stream.set_nodelay(true).unwrap();
    let mut bytes = Vec::new();
    while let Some(asking) = next(&mut stream, &mut bytes) {
        // A client that closed the connection is no fault of the server.
        let done = match act(&asking) {
            Act::Send(portions) => {
                let several = portions.len() > 1;
                portions.iter().all(|portion| {
                    if several {
                        thread::yield_now();
                    }
                    stream.write_all(portion).is_ok()
                })
            }
            Act::Close(bytes) => {
                let _ = stream.write_all(&bytes);
                false
            }
            Act::Reset(bytes) => {
                let _ = stream.write_all(&bytes);
                rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
                return;
            }
            Act::Late(bytes, millis) => {
                let first = stream.write_all(&bytes).is_ok();
                thread::sleep(Duration::from_millis(millis));
                first && stream.write_all(&bytes).is_ok()
            }
            Act::Early(bytes, millis, then) => {
                let first = stream.write_all(&bytes).is_ok();
                thread::sleep(Duration::from_millis(millis));
                first && stream.write_all(&then).is_ok()
            }
            Act::Hang(bytes) => {
                let _ = stream.write_all(&bytes);
                let _ = stream.read_to_end(&mut Vec::new());
                false
            }
        };
        if !done {
            let _ = stream.shutdown(Shutdown::Both);
            return;
        }
    }
}

/// The next request; `None` where the client closed the connection.
pub(crate) fn next(stream: &mut impl Read, bytes: &mut Vec<u8>) -> Option<Asking> {
    let mut buffer = [0; 4096];
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")?.parse().ok()).unwrap_or(0);
            if bytes.len() >= end + 4 + length {
                let body = bytes[end + 4..end + 4 + length].to_vec();
                bytes.drain(..end + 4 + length);
                return Some(Asking { head, body });
            }
        }
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return None,
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
        }
    }
}

/// A long timeout, so that a busy machine causes none.
pub(crate) const PATIENT: Nanos = Nanos::from_secs(120);

pub(crate) const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Runs a load, which must end: a hang would otherwise be one of the test.
pub(crate) fn run(asked: Asked) -> Report {
    run_until(asked, || false)
}

/// The same, ended as soon as `is_enough`.
pub(crate) fn run_until(asked: Asked, is_enough: impl Fn() -> bool) -> Report {
    let load = Load::check(asked).unwrap();
    let destination = Destination::find(&load).unwrap();
    let control = Control::new(load.asked().threads);
    thread::scope(|scope| {
        let running = scope.spawn(|| prony_http::run(&load, destination, &control));
        let begin = Instant::now();
        while !running.is_finished() {
            thread::sleep(Duration::from_millis(1));
            if is_enough() || begin.elapsed() > Duration::from_secs(300) {
                control.stop();
            }
        }
        running.join().unwrap().unwrap()
    })
}

/// Each request ended in one way, and all of them are in the figures.
pub(crate) fn assert_whole(report: &Report, requests: u64) {
    let errors = report.errors;
    assert_eq!((report.requests, report.ok + errors.total()), (requests, requests), "{errors:?} {:?}", report.causes);
    let answered: u64 = report.statuses.values().sum();
    let repeated = report.retried.map_or(0, |retried| retried.status);
    assert_eq!(answered, report.ok + errors.status + repeated, "{:?}", report.statuses);
    assert_eq!(report.latency.samples, report.ok);
    let failed: u64 = report.histograms.iter().map(|histogram| histogram.failed).max().unwrap();
    assert_eq!(failed, errors.total());
    assert!(report.sent.requests <= requests);
}
