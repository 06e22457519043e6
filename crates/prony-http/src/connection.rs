//! One connection and the request that it has: connect, handshake, send, receive. Nothing here waits; each step goes as
//! far as the socket allows, and says what the request ended in, if it ended.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use prony_model::units::Nanos;
use rustix::event::epoll::{self, EventData, EventFlags};

use crate::answer::{Answer, Malformed};
use crate::clock::monotonic;
use crate::failure::Failure;
use crate::outgoing::Outgoing;
use crate::pace::Request;
use crate::session::Session;
use crate::socket::{Broken, Received, Socket};
use crate::source::Source;
use crate::tls::{self, Tls};

/// Portions of a request that are sent, or of an answer that are read, before the events of other connections are handled.
const MOST_PORTIONS: usize = 16;

/// A connection whose last request ended so recently is not read again before the next one.
const FRESH: Nanos = Nanos::from_micros(10);
/// Why a request fails before which its connection had bytes.
const BEFORE_REQUEST: &str = "bytes that answer no request came before this one was sent";

/// The server has closed its side, or the whole connection is broken.
const HUNG_UP: EventFlags = EventFlags::RDHUP.union(EventFlags::HUP).union(EventFlags::ERR);
/// The server sent something, or closed its side.
const TO_RECEIVE: EventFlags = EventFlags::IN.union(EventFlags::RDHUP);

/// Bytes that are received at once.
pub(crate) const BUFFER: usize = 64 << 10;

/// What all connections of a thread share.
#[derive(Clone, Copy)]
pub(crate) struct Wire<'a> {
    /// The request where all are the same.
    pub(crate) same: Option<&'a [u8]>,
    pub(crate) address: SocketAddr,
    pub(crate) tls: Option<&'a Tls>,
    pub(crate) epoll: BorrowedFd<'a>,
}

/// What a request ended in, apart from the bounds on time.
#[derive(Debug)]
pub(crate) enum End {
    /// A whole answer with this status.
    Answered(u16),
    /// No whole answer; the cause in words.
    Failed(Failure, String),
}

impl End {
    fn io(failure: Failure, error: &std::io::Error) -> Self {
        Self::Failed(failure, error.kind().to_string())
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// No request.
    #[default]
    Idle,
    /// The connection is being opened for a request.
    Opening { connected: bool },
    /// A request is sent, an answer received.
    Exchange,
}

/// One connection, open or not.
#[derive(Debug, Default)]
pub(crate) struct Connection {
    state: State,
    socket: Option<Socket>,
    /// Events of sockets before this one have another number.
    generation: u32,
    /// Whether the socket is asked whether it can take bytes.
    waits_to_send: bool,
    pub(crate) request: Request,
    pub(crate) session: Session,
    /// Attempts of the request, the one under way included.
    pub(crate) attempts: u32,
    /// From when on the timeout of the attempt counts.
    pub(crate) since: Nanos,
    /// Whether bytes of the request were sent in an earlier attempt.
    pub(crate) was_sent: bool,
    pub(crate) outgoing: Outgoing,
    /// Why not all bytes of the request could be sent: the answer may be there already.
    broken: Option<String>,
    pub(crate) answer: Answer,
    malformed: Option<Malformed>,
    pub(crate) received: u64,
    pub(crate) first_byte: Option<Nanos>,
    opening_since: Nanos,
    /// How long it took to open the connection for this request, handshake included.
    pub(crate) opened_in: Option<Nanos>,
    /// When the last request ended.
    idle_since: Nanos,
    /// Bytes came that answer no request.
    unasked: bool,
    /// Whether a request of it had an expected answer.
    pub(crate) has_answered: bool,
}

impl Connection {
    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }

    pub(crate) fn has_request(&self) -> bool {
        self.state != State::Idle
    }

    /// Whether there is a connection, or one is being opened.
    pub(crate) fn is_open(&self) -> bool {
        self.socket.is_some()
    }

    /// Whether the connection is not open yet for the request that it has.
    pub(crate) fn is_opening(&self) -> bool {
        matches!(self.state, State::Opening { .. })
    }

    /// Begins the next request of `source`. `slot` is the connection's number in its thread.
    pub(crate) fn begin(
        &mut self,
        wire: Wire<'_>,
        slot: u32,
        (request, source): (Request, &mut Source<'_>),
        buffer: &mut [u8],
    ) -> Option<End> {
        self.request = request;
        (self.attempts, self.since, self.was_sent) = (1, request.intended, false);
        source.take(&mut self.outgoing);
        self.attempt(wire, slot, request.started, buffer)
    }

    /// Begins another attempt of the request that has ended last.
    pub(crate) fn again(
        &mut self,
        wire: Wire<'_>,
        slot: u32,
        (now, source): (Nanos, &mut Source<'_>),
        buffer: &mut [u8],
    ) -> Option<End> {
        self.attempts += 1;
        self.since = now;
        self.was_sent |= self.outgoing.sent() > 0;
        source.again(self.request.number, &self.session, &mut self.outgoing);
        self.attempt(wire, slot, now, buffer)
    }

    /// Begins an attempt at `now`.
    fn attempt(&mut self, wire: Wire<'_>, slot: u32, now: Nanos, buffer: &mut [u8]) -> Option<End> {
        (self.received, self.first_byte, self.opened_in) = (0, None, None);
        (self.broken, self.malformed) = (None, None);
        self.answer.begin(self.outgoing.about.is_head, self.outgoing.about.wanted);
        if let Some(fault) = self.outgoing.fault.take() {
            return Some(End::Failed(Failure::NotMade, fault));
        }
        // Bytes that came before the request are no answer to it. Right after an answer there was nothing more to read.
        if now.since(self.idle_since) > FRESH {
            self.while_idle(buffer);
        }
        if std::mem::take(&mut self.unasked) {
            return Some(End::Failed(Failure::Malformed, BEFORE_REQUEST.to_owned()));
        }
        if self.socket.is_some() {
            self.state = State::Exchange;
            self.send(wire, slot)
        } else {
            self.open(wire, slot)
        }
    }

    /// Whether some of the request is not sent yet.
    pub(crate) fn is_cut(&self, wire: Wire<'_>) -> bool {
        self.state == State::Exchange && (self.waits_to_send || !self.outgoing.is_sent(wire.same))
    }

    /// The request has ended; the connection stays open if it can be used again and `keep` is true.
    pub(crate) fn finish(&mut self, keep: bool, now: Nanos) {
        self.state = State::Idle;
        self.idle_since = now;
        self.outgoing.reading = None;
        let is_whole = self.answer.is_done() && self.malformed.is_none() && self.broken.is_none();
        let is_last = self.outgoing.about.closes || !self.answer.is_reusable();
        if !keep || !is_whole || is_last || self.waits_to_send {
            self.close();
        }
    }

    fn close(&mut self) {
        // Closing removes the socket from epoll: no copy of its descriptor exists.
        self.socket = None;
        self.generation = self.generation.wrapping_add(1);
        self.waits_to_send = false;
    }

    fn open(&mut self, wire: Wire<'_>, slot: u32) -> Option<End> {
        self.opening_since = monotonic();
        self.state = State::Opening { connected: false };
        let socket = match Socket::connect(wire.address, wire.tls) {
            Ok(socket) => socket,
            Err((failure, cause)) => return Some(End::Failed(failure, cause)),
        };
        let added = epoll::add(wire.epoll, &socket, self.data(slot), TO_RECEIVE | EventFlags::OUT);
        self.waits_to_send = true;
        self.socket = Some(socket);
        added.err().map(|errno| End::Failed(Failure::NoSocket, std::io::Error::from(errno).to_string()))
    }

    fn data(&self, slot: u32) -> EventData {
        EventData::new_u64(u64::from(self.generation) << 32 | u64::from(slot))
    }

    /// Goes on after an event of its socket.
    pub(crate) fn proceed(&mut self, wire: Wire<'_>, slot: u32, flags: EventFlags, buffer: &mut [u8]) -> Option<End> {
        match self.state {
            State::Idle => {
                self.while_idle(buffer);
                None
            }
            State::Opening { connected } => self.opening(wire, slot, connected),
            State::Exchange => {
                let ended =
                    if self.waits_to_send && flags.contains(EventFlags::OUT) { self.send(wire, slot) } else { None };
                if ended.is_some() || !flags.intersects(EventFlags::IN | HUNG_UP) {
                    return ended;
                }
                let ended = self.receive(buffer);
                // Without this the next request would be sent into a connection that is known to be closed.
                if ended.is_some() && flags.intersects(HUNG_UP) {
                    self.close();
                }
                ended
            }
        }
    }

    /// Between two requests a server may close the connection, or send bytes that answer no request: then the connection is
    /// not used again. Tickets of TLS sessions are no such bytes.
    fn while_idle(&mut self, buffer: &mut [u8]) {
        let Self { socket, unasked, .. } = self;
        let Some(socket) = socket else { return };
        let received = socket.receive(buffer, |_| *unasked = true);
        if self.unasked || !matches!(received, Ok(Received::All | Received::More)) {
            self.close();
        }
    }

    /// Whether more may come, or has come, than answers.
    pub(crate) fn may_have_unasked(&self) -> bool {
        self.unasked || self.socket.is_some()
    }

    /// Whether bytes came after the last answer that answer no request. No request follows.
    pub(crate) fn had_unasked(&mut self, buffer: &mut [u8]) -> bool {
        self.while_idle(buffer);
        self.unasked
    }

    fn opening(&mut self, wire: Wire<'_>, slot: u32, connected: bool) -> Option<End> {
        let socket = self.socket.as_mut()?;
        if !connected {
            if let Err(error) = socket.error() {
                return Some(End::io(Failure::Refused, &error));
            }
            self.state = State::Opening { connected: true };
        }
        match socket.handshake() {
            Ok(true) => {
                self.opened_in = Some(monotonic().since(self.opening_since));
                self.state = State::Exchange;
                self.send(wire, slot)
            }
            Ok(false) => self.ask_to_send(wire, slot),
            Err(Broken::Tls(error)) => Some(End::Failed(Failure::Tls, tls::cause(&error))),
            Err(Broken::Io(error)) if wire.tls.is_some() => Some(End::io(Failure::Tls, &error)),
            Err(Broken::Io(error)) => Some(End::io(Failure::Reset, &error)),
        }
    }

    /// Sends as much of the request as the socket takes.
    fn send(&mut self, wire: Wire<'_>, slot: u32) -> Option<End> {
        let socket = self.socket.as_mut()?;
        for _ in 0..MOST_PORTIONS {
            let bytes = self.outgoing.unsent(wire.same);
            if bytes.is_empty() {
                match self.outgoing.refill() {
                    Ok(true) => continue,
                    Ok(false) => break,
                    Err(error) => return Some(End::Failed(Failure::NotMade, error.to_string())),
                }
            }
            match socket.send(bytes) {
                Ok(0) => break,
                Ok(count) => self.outgoing.advance(count),
                Err(Broken::Tls(error)) => return Some(End::Failed(Failure::Tls, error.to_string())),
                Err(Broken::Io(error)) => {
                    self.broken = Some(error.kind().to_string());
                    break;
                }
            }
        }
        // A server that refuses a request may answer and close before it has read all of it: the answer counts.
        if let Err(Broken::Io(error)) = socket.flush() {
            self.broken = self.broken.take().or(Some(error.kind().to_string()));
        }
        self.ask_to_send(wire, slot)
    }

    /// Has epoll report when the socket can take more bytes, while there are any.
    #[inline]
    fn ask_to_send(&mut self, wire: Wire<'_>, slot: u32) -> Option<End> {
        let socket = self.socket.as_ref()?;
        let unsent = self.state == State::Exchange && !self.outgoing.is_sent(wire.same);
        let waits = (unsent || socket.has_unsent()) && self.broken.is_none();
        if waits == self.waits_to_send {
            return None;
        }
        self.waits_to_send = waits;
        let flags = if waits { TO_RECEIVE | EventFlags::OUT } else { TO_RECEIVE };
        let changed = epoll::modify(wire.epoll, socket, self.data(slot), flags);
        changed.err().map(|errno| End::Failed(Failure::NoSocket, std::io::Error::from(errno).to_string()))
    }

    /// Reads what is there of the answer.
    fn receive(&mut self, buffer: &mut [u8]) -> Option<End> {
        for _ in 0..MOST_PORTIONS {
            let received = self.receive_once(buffer);
            if let Some(fault) = self.malformed {
                return Some(End::Failed(Failure::Malformed, fault.to_string()));
            }
            if self.answer.is_done() {
                if !matches!(received, Ok(Received::More | Received::All)) {
                    self.close();
                }
                return Some(End::Answered(self.answer.status()));
            }
            match received {
                Ok(Received::More) => {}
                Ok(Received::All) => return self.broken.take().map(|cause| End::Failed(Failure::Reset, cause)),
                Ok(Received::End) if self.answer.close() => return Some(End::Answered(self.answer.status())),
                // Of a body with a length the rest is missing, and of one without it that may be.
                Ok(Received::End | Received::Cut) => {
                    return Some(End::Failed(Failure::Closed, self.progress().to_owned()));
                }
                Err(Broken::Tls(error)) => return Some(End::Failed(Failure::Tls, error.to_string())),
                Err(Broken::Io(error)) if error.kind() == ErrorKind::ConnectionAborted => {
                    return Some(End::Failed(Failure::Closed, self.progress().to_owned()));
                }
                Err(Broken::Io(error)) => return Some(End::io(Failure::Reset, &error)),
            }
        }
        None
    }

    fn receive_once(&mut self, buffer: &mut [u8]) -> Result<Received, Broken> {
        let Self { socket, answer, malformed, received, first_byte, .. } = self;
        let Some(socket) = socket else { return Ok(Received::End) };
        socket.receive(buffer, |bytes| {
            first_byte.get_or_insert_with(monotonic);
            *received += bytes.len() as u64;
            if malformed.is_none() {
                *malformed = answer.take(bytes).err();
            }
            if answer.had_interim() {
                // An answer with status 1xx is not that of the request.
                *first_byte = answer.has_begun().then(monotonic);
            }
        })
    }

    /// How much of the answer came.
    fn progress(&self) -> &'static str {
        match (self.received, self.answer.status()) {
            (0, _) => "before any byte of the answer",
            (_, 0) => "within the head of the answer",
            _ => "within the body of the answer",
        }
    }
}
