//! Bytes to and from a server: what is to be sent is collected, and what was received is read where it was received.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs};
use std::ops::Range;
#[cfg(feature = "postgres")]
use std::os::unix::net::UnixStream;
#[cfg(feature = "postgres")]
use std::path::Path;

/// Room for what is received at once.
const ROOM: usize = 64 << 10;

enum Stream {
    Tcp(TcpStream),
    #[cfg(feature = "postgres")]
    Unix(UnixStream),
}

/// A connection that waits for each answer.
pub(crate) struct Wire {
    stream: Stream,
    /// What was not sent.
    pub(crate) out: Vec<u8>,
    input: Vec<u8>,
    /// What of `input` was received and not read.
    filled: Range<usize>,
    /// After what failed, or was not understood, answers could be taken for those of other requests.
    is_broken: bool,
}

impl Wire {
    fn of(stream: Stream) -> Self {
        Self { stream, out: Vec::new(), input: vec![0; ROOM], filled: 0..0, is_broken: false }
    }

    /// Connects to a host and port.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn tcp(address: impl ToSocketAddrs) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self::of(Stream::Tcp(stream)))
    }

    /// Connects to a socket of the file system.
    ///
    /// # Errors
    /// Those of the system.
    #[cfg(feature = "postgres")]
    pub(crate) fn unix(path: &Path) -> io::Result<Self> {
        Ok(Self::of(Stream::Unix(UnixStream::connect(path)?)))
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
        let sent = match &mut self.stream {
            Stream::Tcp(stream) => stream.write_all(&self.out),
            #[cfg(feature = "postgres")]
            Stream::Unix(stream) => stream.write_all(&self.out),
        };
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
            let room = &mut self.input[self.filled.end..];
            let got = match &mut self.stream {
                Stream::Tcp(stream) => stream.read(room),
                #[cfg(feature = "postgres")]
                Stream::Unix(stream) => stream.read(room),
            };
            match got {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(more) => self.filled.end += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
