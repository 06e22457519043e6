//! Messages between runner and supervisor: JSON lines over a socket, which may carry file descriptors.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, Shutdown, SocketFlags, SocketType, recvmsg, sendmsg, shutdown, socketpair,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::spec::TARGETS_END;

/// Descriptors that one message may carry: those of a suspended subject's two pipes, its standard streams, and all others that
/// it may be given.
const MOST_FDS: usize = TARGETS_END as usize + 2;

/// One end of the conversation. Descriptors arrive in the order in which they were sent, not later than the line
/// they were sent with.
#[derive(Debug)]
pub(super) struct Channel {
    socket: OwnedFd,
    inbox: Vec<u8>,
    fds: VecDeque<OwnedFd>,
    ended: bool,
}

/// Result of a read.
#[derive(Debug)]
pub(super) enum Received<T> {
    /// A message.
    Message(T),
    /// No whole message yet.
    Nothing,
    /// The other end has closed, and everything it sent has been read.
    Closed,
}

impl Channel {
    /// Wraps a connected stream socket.
    pub(super) const fn new(socket: OwnedFd) -> Self {
        Self { socket, inbox: Vec::new(), fds: VecDeque::new(), ended: false }
    }

    /// Two connected sockets, neither inherited by children.
    pub(super) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
        Ok(socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?)
    }

    /// Sends a message; the descriptors go with its first byte.
    pub(super) fn send(&self, message: &impl Serialize, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.send_all(&[message], fds)
    }

    /// Sends several messages in one write, so that a receiver wakes once.
    pub(super) fn send_all(&self, messages: &[&impl Serialize], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut line = Vec::new();
        for message in messages {
            serde_json::to_writer(&mut line, message)?;
            line.push(b'\n');
        }
        send_bytes(&self.socket, &line, fds)
    }

    /// Shuts the connection down in both directions; the descriptor stays open.
    pub(super) fn close(&self) {
        // An end that is closed already needs no closing.
        let _ = shutdown(&self.socket, Shutdown::Both);
    }

    /// Takes the oldest descriptor received.
    pub(super) fn take_fd(&mut self) -> Option<OwnedFd> {
        self.fds.pop_front()
    }

    /// Reads what has arrived, without waiting.
    pub(super) fn receive_now<T: DeserializeOwned>(&mut self) -> io::Result<Received<T>> {
        loop {
            if let Some(end) = self.inbox.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.inbox.drain(..=end).collect();
                return Ok(Received::Message(serde_json::from_slice(&line)?));
            }
            if self.ended {
                return Ok(Received::Closed);
            }
            if !self.fill()? {
                return Ok(Received::Nothing);
            }
        }
    }

    /// Waits for a message until the deadline, or without limit if there is none; returns earlier once any of the other
    /// descriptors is readable.
    pub(super) fn receive<T: DeserializeOwned>(
        &mut self,
        deadline: Option<Instant>,
        other_fds: &[BorrowedFd<'_>],
    ) -> io::Result<Received<T>> {
        loop {
            match self.receive_now()? {
                Received::Nothing => {}
                other => return Ok(other),
            }
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Ok(Received::Nothing);
            }
            if wait_readable(&self.socket, other_fds, left)? {
                return Ok(Received::Nothing);
            }
        }
    }

    /// Reads once without waiting; `false` where there was nothing to read.
    fn fill(&mut self) -> io::Result<bool> {
        let mut buffer = [0; 16_384];
        let n = match receive_bytes(&self.socket, &mut buffer, RecvFlags::DONTWAIT, &mut self.fds) {
            Ok(n) => n,
            Err(Errno::AGAIN) => return Ok(false),
            Err(Errno::CONNRESET) => 0,
            Err(error) => return Err(error.into()),
        };
        self.ended = n == 0;
        self.inbox.extend_from_slice(&buffer[..n]);
        Ok(true)
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Sends bytes over a stream socket; the descriptors go with the first of them.
pub(super) fn send_bytes(socket: &OwnedFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many descriptors"));
    }
    let mut left = bytes;
    while !left.is_empty() {
        let sent = retry_on_intr(|| sendmsg(socket, &[IoSlice::new(left)], &mut control, SendFlags::NOSIGNAL))?;
        left = &left[sent..];
        control.clear();
    }
    Ok(())
}

/// Reads once from a stream socket; how many bytes there were. Descriptors that came with them are added to `fds`.
pub(super) fn receive_bytes(
    socket: &OwnedFd,
    buffer: &mut [u8],
    flags: RecvFlags,
    fds: &mut impl Extend<OwnedFd>,
) -> Result<usize, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = flags | RecvFlags::CMSG_CLOEXEC;
    let received = retry_on_intr(|| recvmsg(socket, &mut [IoSliceMut::new(buffer)], &mut control, flags))?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            fds.extend(received);
        }
    }
    Ok(received.bytes)
}

/// Waits until a descriptor is readable or the time is over; `true` where only other descriptors are readable.
fn wait_readable(fd: &impl AsFd, other_fds: &[BorrowedFd<'_>], left: Option<Duration>) -> io::Result<bool> {
    let left = left.map(|left| Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) });
    let all = [fd.as_fd()].into_iter().chain(other_fds.iter().copied());
    let mut all: Vec<PollFd<'_>> = all.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
    match poll(&mut all, left.as_ref()) {
        Ok(ready) => Ok(ready > 0 && all[0].revents().is_empty()),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Write};

    use super::*;

    fn channels() -> (Channel, Channel) {
        let (a, b) = Channel::pair().unwrap();
        (Channel::new(a), Channel::new(b))
    }

    #[test]
    fn messages_arrive_in_order_and_then_the_end() {
        let (a, mut b) = channels();
        assert!(matches!(b.receive_now::<u32>().unwrap(), Received::Nothing));
        a.send(&1u32, &[]).unwrap();
        a.send(&2u32, &[]).unwrap();
        drop(a);
        assert!(matches!(b.receive::<u32>(None, &[]).unwrap(), Received::Message(1)));
        assert!(matches!(b.receive::<u32>(None, &[]).unwrap(), Received::Message(2)));
        assert!(matches!(b.receive::<u32>(None, &[]).unwrap(), Received::Closed));
    }

    #[test]
    fn a_message_larger_than_the_socket_arrives_whole_with_its_descriptor() {
        let (a, mut b) = channels();
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let text = "x".repeat(3 << 20);
        let sender = std::thread::spawn({
            let text = text.clone();
            move || a.send(&text, &[writer.as_fd()])
        });
        let Received::Message(got) = b.receive::<String>(None, &[]).unwrap() else { panic!("no message") };
        sender.join().unwrap().unwrap();
        assert_eq!(got, text);
        File::from(b.take_fd().unwrap()).write_all(b"through").unwrap();
        let mut through = String::new();
        File::from(reader).read_to_string(&mut through).unwrap();
        assert_eq!(through, "through");
        assert!(b.take_fd().is_none());
    }

    #[test]
    fn what_can_be_read_elsewhere_ends_a_wait_and_a_message_goes_before_it() {
        let (a, mut b) = channels();
        let (reader, mut writer) = std::io::pipe().unwrap();
        let other_fds = [reader.as_fd()];
        writer.write_all(b"x").unwrap();
        assert!(matches!(b.receive::<u32>(None, &other_fds).unwrap(), Received::Nothing), "not for ever");
        a.send(&1u32, &[]).unwrap();
        assert!(matches!(b.receive::<u32>(None, &other_fds).unwrap(), Received::Message(1)));
    }

    #[test]
    fn nonsense_is_an_error() {
        let (a, mut b) = channels();
        a.send(&"text", &[]).unwrap();
        assert!(b.receive::<u32>(None, &[]).is_err());
    }
}
