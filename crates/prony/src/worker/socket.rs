//! Messages between worker and runner: JSON lines over the inherited socket, and a thread that reports the progress of
//! the trial.

use std::io::{self, BufRead, BufReader, BufWriter, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prony_model::link::{Link, LinkError, Progress};
use prony_model::protocol::{FromWorker, ToWorker};

/// How often the runner hears how far the trial is.
const INTERVAL: Duration = Duration::from_millis(100);

/// The worker's end of the socket.
pub(super) struct Socket {
    reader: BufReader<UnixStream>,
    sender: Sender,
    text: String,
}

/// The sending half; whole lines, whichever thread sends.
#[derive(Clone)]
pub(super) struct Sender(Arc<Mutex<BufWriter<UnixStream>>>);

impl Socket {
    pub(super) fn new<E: From<LinkError>>(stream: UnixStream) -> Result<Self, E> {
        let writer = stream.try_clone().map_err(broken)?;
        let sender = Sender(Arc::new(Mutex::new(BufWriter::new(writer))));
        Ok(Self { reader: BufReader::new(stream), sender, text: String::new() })
    }

    pub(super) fn sender(&self) -> Sender {
        self.sender.clone()
    }
}

impl Link for Socket {
    fn next(&mut self) -> Result<ToWorker, LinkError> {
        self.text.clear();
        match self.reader.read_line(&mut self.text).map_err(broken)? {
            0 => Err(LinkError::Closed),
            _ => serde_json::from_str(&self.text).map_err(|error| LinkError::Broken(Box::new(error))),
        }
    }

    fn send(&mut self, message: FromWorker) -> Result<(), LinkError> {
        self.sender.send(&message)
    }
}

impl Sender {
    fn send(&self, message: &FromWorker) -> Result<(), LinkError> {
        write(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner), message)
    }

    /// Reports the progress of the current phase to the runner. Sent only while no other message can be sent: after a phase's end there
    /// is no more of its progress.
    fn report_progress(&self, progress: &Progress, last: &mut u64) {
        let mut writer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let operations = progress.operations();
        if let (Some(index), true) = (progress.phase(), operations > 0 && operations != *last) {
            // If progress cannot be reported, the end cannot be reported either, and that failure is handled.
            let _ = write(&mut writer, &FromWorker::Progress { index, operations });
        }
        *last = operations;
    }
}

/// Written as it is encoded: a report of millions of groups must not stand in memory as text.
fn write(writer: &mut BufWriter<UnixStream>, message: &FromWorker) -> Result<(), LinkError> {
    serde_json::to_writer(&mut *writer, message).map_err(|error| broken(error.into()))?;
    writer.write_all(b"\n").and_then(|()| writer.flush()).map_err(broken)
}

/// Does `work` while another thread reports its progress.
pub(super) fn report_progress<T>(sender: &Sender, progress: &Progress, work: impl FnOnce() -> T) -> T {
    let (done, wait) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut last = 0;
            while wait.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                sender.report_progress(progress, &mut last);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line_and_a_closed_line_says_so() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut line = Socket::new::<LinkError>(theirs).unwrap();
        line.send(FromWorker::Progress { index: 1, operations: 5 }).unwrap();
        let mut text = String::new();
        let mut reader = BufReader::new(ours);
        reader.read_line(&mut text).unwrap();
        assert_eq!(text, "{\"did\":\"progress\",\"index\":1,\"operations\":5}\n");
        writeln!(reader.get_mut(), "{{\"do\":\"stop\"}}").unwrap();
        assert_eq!(line.next().unwrap(), ToWorker::Stop);
        drop(reader);
        assert!(matches!(line.next(), Err(LinkError::Closed)));
        assert!(matches!(line.send(FromWorker::Progress { index: 1, operations: 6 }), Err(LinkError::Closed)));
    }

    #[test]
    fn no_progress_is_reported_between_phases() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let line = Socket::new::<LinkError>(theirs).unwrap();
        line.sender().report_progress(&Progress::default(), &mut 7);
        ours.set_nonblocking(true).unwrap();
        let mut text = String::new();
        assert_eq!(BufReader::new(ours).read_line(&mut text).unwrap_err().kind(), ErrorKind::WouldBlock);
    }
}
