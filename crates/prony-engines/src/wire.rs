//! Bytes to and from a server: what is to be sent is collected, and what was received is read where it was received.
//!
//! A machine that loses power answers nothing, also no packet that ends its connections. So connecting has a deadline, and the
//! kernel asks a machine that is silent whether it is still there ("SO_KEEPALIVE" in socket(7), "TCP_KEEPIDLE" in tcp(7)). What it
//! has not acknowledged when it is lost is sent again for about 15 minutes before it is an error (`tcp_retries2`).
//! Reading has no deadline: an operation that takes long is a result and no error. The kernel of a machine acknowledges what a
//! server there does not answer for a while.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::ops::Range;
use std::time::Duration;

use rustix::net::sockopt;

/// Room for what is received at once.
const ROOM: usize = 64 << 10;

/// How long a machine may take to accept a connection, for each of its addresses.
const DEADLINE: Duration = Duration::from_secs(10);

/// After how long a silence the kernel asks, and how long it waits before it asks again.
const SILENCE: Duration = Duration::from_secs(10);

/// How often it asks before the connection ends.
const ASKED: u32 = 6;

/// Bytes in both directions.
trait Stream: io::Read + io::Write + Send {}

impl<S: io::Read + io::Write + Send> Stream for S {}

/// A connection that waits for each answer.
pub(crate) struct Wire {
    stream: Box<dyn Stream>,
    /// What was not sent.
    pub(crate) out: Vec<u8>,
    input: Vec<u8>,
    /// What of `input` was received and not read.
    filled: Range<usize>,
    /// After what failed, or was not understood, answers could be taken for those of other requests.
    is_broken: bool,
}

/// Connects to the first address that accepts it.
fn connect(address: impl ToSocketAddrs, deadline: Duration) -> io::Result<TcpStream> {
    let mut refused = io::ErrorKind::NotFound.into();
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, deadline) {
            Ok(stream) => return set_up(stream),
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

fn set_up(stream: TcpStream) -> io::Result<TcpStream> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(&stream, true)?;
    sockopt::set_tcp_keepidle(&stream, SILENCE)?;
    sockopt::set_tcp_keepintvl(&stream, SILENCE)?;
    sockopt::set_tcp_keepcnt(&stream, ASKED)?;
    Ok(stream)
}

impl Wire {
    fn of(stream: impl Stream + 'static) -> Self {
        Self { stream: Box::new(stream), out: Vec::new(), input: vec![0; ROOM], filled: 0..0, is_broken: false }
    }

    /// Connects to a host and port.
    ///
    /// # Errors
    /// Those of the system, and that no address of the host accepts the connection in time.
    pub(crate) fn tcp(address: impl ToSocketAddrs) -> io::Result<Self> {
        Ok(Self::of(connect(address, DEADLINE)?))
    }

    /// Connects to a socket of the file system.
    ///
    /// # Errors
    /// Those of the system.
    #[cfg(feature = "postgres")]
    pub(crate) fn unix(path: &std::path::Path) -> io::Result<Self> {
        Ok(Self::of(std::os::unix::net::UnixStream::connect(path)?))
    }

    /// Has nothing sent on it any more.
    pub(crate) const fn break_off(&mut self) {
        self.is_broken = true;
    }

    /// Sends everything that was collected.
    ///
    /// # Errors
    /// Those of the system, and that it is broken.
    pub(crate) fn send(&mut self) -> io::Result<()> {
        if self.is_broken {
            self.out.clear();
            return Err(io::ErrorKind::NotConnected.into());
        }
        let sent = self.stream.write_all(&self.out);
        self.out.clear();
        self.is_broken |= sent.is_err();
        sent
    }

    /// What was received and not read.
    pub(crate) fn received(&self) -> &[u8] {
        &self.input[self.filled.clone()]
    }

    /// Reads so many bytes of what was received; where they are, for [`Self::at`].
    pub(crate) fn take(&mut self, bytes: usize) -> Range<usize> {
        let from = self.filled.start;
        self.filled.start += bytes.min(self.filled.len());
        from..self.filled.start
    }

    /// Bytes that were read, until more is received.
    pub(crate) fn at(&self, range: Range<usize>) -> &[u8] {
        &self.input[range]
    }

    /// Receives until so many bytes are there that were not read.
    ///
    /// # Errors
    /// Those of the system, and an end before.
    pub(crate) fn fill(&mut self, wanted: usize) -> io::Result<()> {
        let filled = self.received_until(wanted);
        self.is_broken |= filled.is_err();
        filled
    }

    fn received_until(&mut self, wanted: usize) -> io::Result<()> {
        if self.filled.len() >= wanted {
            return Ok(());
        }
        if self.filled.start + wanted > self.input.len() {
            self.input.copy_within(self.filled.clone(), 0);
            self.filled = 0..self.filled.len();
        }
        while self.filled.len() < wanted {
            // It grows with what has come, and not with what a server says will.
            if self.filled.end == self.input.len() {
                self.input.resize(2 * self.input.len(), 0);
            }
            match self.stream.read(&mut self.input[self.filled.end..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(more) => self.filled.end += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn machine_that_is_silent_is_asked_whether_it_is_there() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = connect(listener.local_addr().unwrap(), DEADLINE).unwrap();
        assert!(sockopt::socket_keepalive(&stream).unwrap());
        assert_eq!(sockopt::tcp_keepidle(&stream).unwrap(), SILENCE);
        assert_eq!(sockopt::tcp_keepintvl(&stream).unwrap(), SILENCE);
        assert_eq!(sockopt::tcp_keepcnt(&stream).unwrap(), ASKED);
    }

    /// A trial waited without an end.
    #[test]
    fn connecting_has_a_deadline() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // What is not accepted fills the queue, and then nothing is answered.
        rustix::net::listen(&listener, 0).unwrap();
        let tried: Vec<_> =
            (0..4).map(|_| connect(listener.local_addr().unwrap(), Duration::from_millis(100))).collect();
        let kind = tried.last().unwrap().as_ref().unwrap_err().kind();
        assert_eq!(kind, io::ErrorKind::TimedOut);
    }
}
