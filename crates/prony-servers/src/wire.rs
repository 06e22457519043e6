//! Bytes to and from a server: what is to be sent is collected, and what was received is read where it was received.
//!
//! A machine that loses power answers nothing, also no packet that ends its connections. So connecting has a deadline, and the
//! kernel asks a machine that is silent whether it is still there ("SO_KEEPALIVE" in socket(7), "TCP_KEEPIDLE" in tcp(7)). What it
//! has not acknowledged when it is lost is sent again for about 15 minutes before it is an error (`tcp_retries2`).
//! Reading has no deadline, unless a [`Limit`] sets one: an operation that takes long is a result and no error. The kernel of a machine
//! acknowledges what a server there does not answer for a while.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// Room for what is received at once.
const ROOM: usize = 64 << 10;

/// How long a machine may take to accept a connection, for each of its addresses.
const DEADLINE: Duration = Duration::from_secs(10);

/// After how long a silence the kernel asks, and how long it waits before it asks again.
const SILENCE: Duration = Duration::from_secs(10);

/// How often it asks before the connection ends.
const ASKED: u32 = 6;

/// What a reading, that is a few questions with their answers, may take at most.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// How long it may take; the first one with connecting.
    pub time: Duration,
    /// How many bytes each answer may have.
    pub bytes: usize,
}

/// Bytes in both directions.
trait Stream: Send {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()>;

    fn receive(&mut self, into: &mut [u8]) -> io::Result<usize>;

    /// Gives the next answers all the time of a reading.
    fn begin_reading(&mut self) {}

    /// Gives the next answer all the bytes that one may have.
    fn begin_answer(&mut self) {}
}

impl<S: io::Read + io::Write + Send> Stream for S {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn receive(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.read(into)
    }
}

/// A stream whose answers have a limit.
struct Limited<S> {
    stream: S,
    limit: Limit,
    until: Instant,
    bytes_left: usize,
}

impl<S: Stream + AsFd> Stream for Limited<S> {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.send(bytes)
    }

    fn receive(&mut self, into: &mut [u8]) -> io::Result<usize> {
        // A server that sends a byte now and then does not get more time.
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        sockopt::set_socket_timeout(&self.stream, Timeout::Recv, Some(left))?;
        let count = self.stream.receive(into).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
            _ => error,
        })?;
        let too_long = || io::Error::other(format!("the answer is longer than {} MiB", self.limit.bytes >> 20));
        self.bytes_left = self.bytes_left.checked_sub(count).ok_or_else(too_long)?;
        Ok(count)
    }

    fn begin_reading(&mut self) {
        self.until = Instant::now() + self.limit.time;
    }

    fn begin_answer(&mut self) {
        self.bytes_left = self.limit.bytes;
    }
}

/// A connection that waits for each answer.
pub struct Wire {
    stream: Box<dyn Stream>,
    /// What was not sent.
    pub out: Vec<u8>,
    input: Vec<u8>,
    /// What of `input` was received and not read.
    filled: Range<usize>,
    traffic: [u64; 2],
    /// After what failed, or was not understood, answers could be taken for those of other requests.
    is_broken: bool,
}

/// How long it is until then; the system refuses a time of 0.
fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1))
}

/// Connects to the first address that accepts it within what `time` gives each.
fn connect(address: impl ToSocketAddrs, time: impl Fn() -> Duration) -> io::Result<TcpStream> {
    let mut refused = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, time()) {
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
    /// A limit comes with the instant at which connecting and the first reading end.
    fn of<S: Stream + AsFd + 'static>(stream: S, limit: Option<(Limit, Instant)>) -> io::Result<Self> {
        let stream: Box<dyn Stream> = match limit {
            None => Box::new(stream),
            Some((limit, until)) => {
                sockopt::set_socket_timeout(&stream, Timeout::Send, Some(limit.time))?;
                Box::new(Limited { stream, limit, until, bytes_left: limit.bytes })
            }
        };
        Ok(Self { stream, out: Vec::new(), input: vec![0; ROOM], filled: 0..0, traffic: [0; 2], is_broken: false })
    }

    /// Connects to a host and port.
    ///
    /// # Errors
    /// Those of the system, and that no address of the host accepts the connection in time.
    pub fn tcp(address: impl ToSocketAddrs, limit: Option<Limit>) -> io::Result<Self> {
        let limit = limit.map(|limit| (limit, Instant::now() + limit.time));
        Self::of(connect(address, || limit.map_or(DEADLINE, |(_, until)| left(until)))?, limit)
    }

    /// Connects to a socket of the file system.
    ///
    /// # Errors
    /// Those of the system, and that the server does not accept the connection in time.
    pub fn unix(path: &Path, limit: Option<Limit>) -> io::Result<Self> {
        let limit = limit.map(|limit| (limit, Instant::now() + limit.time));
        let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        // While the queue of the server is full connecting waits, as long as sending may ("SO_SNDTIMEO" in socket(7)).
        sockopt::set_socket_timeout(&socket, Timeout::Send, Some(limit.map_or(DEADLINE, |(_, until)| left(until))))?;
        net::connect(&socket, &SocketAddrUnix::new(path)?).map_err(|error| match error {
            Errno::AGAIN => io::ErrorKind::TimedOut.into(),
            _ => io::Error::from(error),
        })?;
        sockopt::set_socket_timeout(&socket, Timeout::Send, None)?;
        Self::of(UnixStream::from(socket), limit)
    }

    /// Gives the next answers together all the time that a reading may take, where that is limited.
    pub fn begin_reading(&mut self) {
        self.stream.begin_reading();
    }

    /// Gives the next answer all the bytes that one may have, where they are limited.
    pub fn begin_answer(&mut self) {
        self.stream.begin_answer();
    }

    /// How many bytes were sent and received.
    pub const fn traffic(&self) -> [u64; 2] {
        self.traffic
    }

    /// Whether something failed on it, after which nothing is sent.
    pub const fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Has nothing sent on it any more.
    pub const fn break_off(&mut self) {
        self.is_broken = true;
    }

    /// Sends everything that was collected.
    ///
    /// # Errors
    /// Those of the system, and that it is broken.
    pub fn send(&mut self) -> io::Result<()> {
        if self.is_broken {
            self.out.clear();
            return Err(io::ErrorKind::NotConnected.into());
        }
        let sent = self.stream.send(&self.out);
        self.traffic[0] += self.out.len() as u64;
        self.out.clear();
        self.is_broken |= sent.is_err();
        sent
    }

    /// What was received and not read.
    #[inline]
    pub fn received(&self) -> &[u8] {
        &self.input[self.filled.clone()]
    }

    /// Reads so many bytes of what was received; where they are, for [`Self::at`].
    #[inline]
    pub fn take(&mut self, bytes: usize) -> Range<usize> {
        let from = self.filled.start;
        self.filled.start += bytes.min(self.filled.len());
        from..self.filled.start
    }

    /// Bytes that were read, until more is received.
    #[inline]
    pub fn at(&self, range: Range<usize>) -> &[u8] {
        &self.input[range]
    }

    /// Receives until so many bytes are there that were not read.
    ///
    /// # Errors
    /// Those of the system, and an end before.
    pub fn fill(&mut self, wanted: usize) -> io::Result<()> {
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
            match self.stream.receive(&mut self.input[self.filled.end..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(more) => {
                    self.filled.end += more;
                    self.traffic[1] += more as u64;
                }
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
        let stream = connect(listener.local_addr().unwrap(), || DEADLINE).unwrap();
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
            (0..4).map(|_| connect(listener.local_addr().unwrap(), || Duration::from_millis(100))).collect();
        let kind = tried.last().unwrap().as_ref().unwrap_err().kind();
        assert_eq!(kind, io::ErrorKind::TimedOut);
    }

    /// Counters of a server that was stopped were waited for without an end.
    #[test]
    fn connecting_to_a_socket_of_the_file_system_has_a_deadline() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        net::listen(&listener, 0).unwrap();
        let limit = Limit { time: Duration::from_millis(100), bytes: ROOM };
        let tried: Vec<_> = (0..3).map(|_| Wire::unix(&path, Some(limit)).map(|_| ())).collect();
        assert!(tried[0].is_ok(), "{tried:?}");
        let connections: Vec<_> = (0..3).map(|_| Wire::unix(&path, Some(limit))).collect();
        assert!(
            connections.iter().any(|wire| wire.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::TimedOut))
        );
    }

    #[test]
    fn connecting_and_the_first_answer_take_no_longer_than_one_answer() {
        let mut wire = slow(Duration::from_millis(300), ROOM);
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(wire.fill(ROOM).unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(wire.received().is_empty(), "its time was over before anything was received");
    }

    #[test]
    fn all_addresses_of_a_name_are_tried() {
        let free = || TcpListener::bind("127.0.0.1:0").unwrap();
        let closed = free().local_addr().unwrap();
        let open = free();
        let stream = connect(&[closed, open.local_addr().unwrap()][..], || DEADLINE).unwrap();
        assert_eq!(stream.peer_addr().unwrap(), open.local_addr().unwrap());
        let why = connect(&[closed, closed][..], || DEADLINE).unwrap_err().to_string();
        assert!(!why.contains(&closed.port().to_string()), "{why}");
        assert_eq!(connect(&[][..], || DEADLINE).unwrap_err().to_string(), "the name has no address");
    }

    /// A wire with this limit, to a server that sends a byte now and then without an end.
    fn slow(time: Duration, bytes: usize) -> Wire {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            while io::Write::write_all(&mut stream, b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        Wire::tcp(address, Some(Limit { time, bytes })).unwrap()
    }

    #[test]
    fn limited_answer_takes_no_longer_whatever_comes() {
        let mut wire = slow(Duration::from_millis(200), ROOM);
        assert!(wire.fill(1).is_ok());
        assert_eq!(wire.fill(ROOM).unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(wire.send().is_err(), "what comes later would be taken for another answer");
    }

    /// A reading of several answers took as often the time of one.
    #[test]
    fn answers_of_a_reading_share_its_time() {
        let mut wire = slow(Duration::from_millis(200), ROOM);
        std::thread::sleep(Duration::from_millis(200));
        wire.begin_answer();
        assert_eq!(wire.fill(ROOM).unwrap_err().kind(), io::ErrorKind::TimedOut);
        let mut wire = slow(Duration::from_millis(200), ROOM);
        std::thread::sleep(Duration::from_millis(200));
        wire.begin_reading();
        assert!(wire.fill(1).is_ok());
    }

    #[test]
    fn each_limited_answer_has_its_own_bytes() {
        let mut wire = slow(Duration::from_secs(60), 20);
        for _ in 0..3 {
            wire.begin_answer();
            wire.fill(1).unwrap();
            let all = wire.received().len();
            wire.take(all);
        }
        assert!(wire.fill(100).unwrap_err().to_string().contains("longer than"));
    }
}
