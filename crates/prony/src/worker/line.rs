//! JSON lines over the inherited socket, and the thread that tells how far the trial is.

use std::io::{self, BufRead, BufReader, BufWriter, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prony_core::protocol::{FromWorker, ToWorker};
use prony_engines::phases::{Link, LinkError, Progress};

/// How often the runner hears how far the trial is.
const INTERVAL: Duration = Duration::from_millis(100);

/// The worker's end of the socket.
pub(super) struct Line {
    reader: BufReader<UnixStream>,
    teller: Teller,
    text: String,
}

/// The sending half; whole lines, whichever thread sends.
#[derive(Clone)]
pub(super) struct Teller(Arc<Mutex<BufWriter<UnixStream>>>);

impl Line {
    pub(super) fn new<E: From<LinkError>>(stream: UnixStream) -> Result<Self, E> {
        let writer = stream.try_clone().map_err(broken)?;
        let teller = Teller(Arc::new(Mutex::new(BufWriter::new(writer))));
        Ok(Self { reader: BufReader::new(stream), teller, text: String::new() })
    }

    pub(super) fn teller(&self) -> Teller {
        self.teller.clone()
    }
}

impl Link for Line {
    fn next(&mut self) -> Result<ToWorker, LinkError> {
        self.text.clear();
        match self.reader.read_line(&mut self.text).map_err(broken)? {
            0 => Err(LinkError::Closed),
            _ => serde_json::from_str(&self.text).map_err(|error| LinkError::Broken(Box::new(error))),
        }
    }

    fn send(&mut self, message: FromWorker) -> Result<(), LinkError> {
        self.teller.tell(&message)
    }
}

impl Teller {
    /// Written as it is encoded: a report of millions of groups must not stand in memory as text.
    fn tell(&self, message: &FromWorker) -> Result<(), LinkError> {
        let mut writer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        serde_json::to_writer(&mut *writer, message).map_err(|error| broken(error.into()))?;
        writer.write_all(b"\n").and_then(|()| writer.flush()).map_err(broken)
    }

    /// Tells the runner how far the phase under way is, unless it has ended meanwhile.
    fn tell_progress(&self, progress: &Progress, last: &mut Option<(usize, u64)>) {
        let at = progress.phase().map(|index| (index, progress.operations()));
        if let (Some((index, operations)), true) = (at, at != *last && at.is_some_and(|(_, n)| n > 0)) {
            // Where the runner cannot be told of progress it cannot be told of the end either, and that is noticed.
            let _ = self.tell(&FromWorker::Progress { index, operations });
        }
        *last = at;
    }
}

/// Does `work` while another thread tells how far it is.
pub(super) fn tell_progress<T>(teller: &Teller, progress: &Progress, work: impl FnOnce() -> T) -> T {
    let (done, wait) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut last = None;
            while wait.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                teller.tell_progress(progress, &mut last);
            }
        });
        let result = work();
        drop(done);
        result
    })
}

fn broken(error: io::Error) -> LinkError {
    match error.kind() {
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => LinkError::Closed,
        _ => LinkError::Broken(Box::new(error)),
    }
}
