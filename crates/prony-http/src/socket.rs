//! A connection's socket, plain or with TLS. No call waits.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
use rustls::ClientConnection;

use crate::failure::Failure;
use crate::tls::Tls;

/// A socket.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: TcpStream,
    tls: Option<Box<ClientConnection>>,
}

/// Why a connection cannot be used any more.
#[derive(Debug)]
pub(crate) enum Broken {
    Io(io::Error),
    Tls(rustls::Error),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// What one attempt to receive gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// Bytes, and there may be more now.
    More,
    /// All bytes that are there now, or none.
    All,
    /// The server closed the connection.
    End,
    /// It did without TLS's closing message, so that nobody knows whether that was the end of what it sent (RFC 9112, 9.8).
    Cut,
}

impl Socket {
    /// Begins to connect.
    ///
    /// # Errors
    /// What the request ends in, with the cause in words: this machine has no socket or no port for it, the server refused it at
    /// once, or TLS cannot be begun.
    pub(crate) fn connect(address: SocketAddr, tls: Option<&Tls>) -> Result<Self, (Failure, String)> {
        let no_socket = |error: io::Error| (Failure::NoSocket, error.to_string());
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(family, SocketType::STREAM, flags, None).map_err(|errno| no_socket(errno.into()))?;
        match connect(&socket, &address) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(errno @ (Errno::ADDRNOTAVAIL | Errno::AGAIN | Errno::NOBUFS)) => return Err(no_socket(errno.into())),
            Err(errno) => return Err((Failure::Refused, errno.kind().to_string())),
        }
        let stream = TcpStream::from(socket);
        stream.set_nodelay(true).map_err(no_socket)?;
        let tls = tls.map(Tls::connection).transpose();
        let tls = tls.map_err(|error| (Failure::Tls, error.to_string()))?.map(Box::new);
        Ok(Self { stream, tls })
    }

    /// The error of the connection, read once. Where nobody listens on a port of the range of clients, the kernel may give this
    /// client that very port and connect it to itself (simultaneous open, RFC 9293, 3.5): no server accepted that connection.
    pub(crate) fn error(&self) -> io::Result<()> {
        self.stream.take_error()?.map_or(Ok(()), Err)?;
        match (self.stream.local_addr(), self.stream.peer_addr()) {
            (Ok(own), Ok(peer)) if own == peer => Err(ErrorKind::ConnectionRefused.into()),
            _ => Ok(()),
        }
    }

    /// Continues the handshake of TLS; whether the connection can be used.
    pub(crate) fn handshake(&mut self) -> Result<bool, Broken> {
        let Some(tls) = &mut self.tls else { return Ok(true) };
        loop {
            write(&self.stream, tls)?;
            if !tls.is_handshaking() {
                return Ok(true);
            }
            match tls.read_tls(&mut &self.stream) {
                Ok(0) => return Err(io::Error::from(ErrorKind::UnexpectedEof).into()),
                Ok(_) => tls.process_new_packets().map(|_| ()).map_err(|error| {
                    // The alert that names the fault.
                    let _ = write(&self.stream, tls);
                    Broken::Tls(error)
                })?,
                Err(error) if waits(&error) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sends some of the bytes; how many were taken, 0 where none can be taken now.
    #[inline]
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<usize, Broken> {
        let Some(tls) = &mut self.tls else {
            return match (&self.stream).write(bytes) {
                Err(error) if waits(&error) => Ok(0),
                sent => Ok(sent?),
            };
        };
        // What was taken before goes first, so that rustls has room.
        write(&self.stream, tls)?;
        let taken = tls.writer().write(bytes)?;
        write(&self.stream, tls)?;
        Ok(taken)
    }

    /// Whether bytes that were taken are not sent yet.
    #[inline]
    pub(crate) fn has_unsent(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Sends what was taken before.
    pub(crate) fn flush(&mut self) -> Result<(), Broken> {
        self.tls.as_mut().map_or(Ok(()), |tls| write(&self.stream, tls))
    }

    /// Receives once, and gives all bytes of it to `take`.
    #[inline]
    pub(crate) fn receive(&mut self, buffer: &mut [u8], mut take: impl FnMut(&[u8])) -> Result<Received, Broken> {
        let Some(tls) = &mut self.tls else {
            return match (&self.stream).read(buffer) {
                Ok(0) => Ok(Received::End),
                Ok(count) => {
                    take(&buffer[..count]);
                    Ok(if count == buffer.len() { Received::More } else { Received::All })
                }
                Err(error) if waits(&error) => Ok(Received::All),
                Err(error) => Err(error.into()),
            };
        };
        let read = match tls.read_tls(&mut &self.stream) {
            Err(error) if waits(&error) => return Ok(Received::All),
            read => read?,
        };
        let processed = tls.process_new_packets().map_err(Broken::Tls);
        // Bytes before a fault are valid.
        let end = loop {
            match tls.reader().read(buffer) {
                Ok(0) => break Received::End,
                Ok(count) => take(&buffer[..count]),
                Err(error) if waits(&error) => break if read == 0 { Received::End } else { Received::More },
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => break Received::Cut,
                Err(error) => return Err(error.into()),
            }
        };
        processed?;
        Ok(end)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Sends what rustls has, as far as the socket takes it.
fn write(mut stream: &TcpStream, tls: &mut ClientConnection) -> Result<(), Broken> {
    while tls.wants_write() {
        match tls.write_tls(&mut stream) {
            Err(error) if waits(&error) => return Ok(()),
            sent => sent?,
        };
    }
    Ok(())
}

/// Whether a call would have waited.
fn waits(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use rustix::net::{bind, getsockname};

    use super::*;

    /// Once in 25,000 attempts a server that had ended was said to send malformed answers: prony's own requests.
    #[test]
    fn connection_to_itself_is_refused() {
        let client = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        bind(&client, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let own = SocketAddr::try_from(getsockname(&client).unwrap()).unwrap();
        connect(&client, &own).unwrap();
        let of = |stream| Socket { stream, tls: None }.error().map_err(|error| error.kind());
        assert_eq!(of(TcpStream::from(client)), Err(ErrorKind::ConnectionRefused));
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert_eq!(of(TcpStream::connect(listener.local_addr().unwrap()).unwrap()), Ok(()));
    }
}
