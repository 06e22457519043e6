//! What one request ended in, and what it took.

use prony_model::http::NOT_SENT;
use prony_model::units::Nanos;

use crate::outgoing::About;

/// What a request that is no success ended in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Failure {
    /// A whole answer with a status that is not expected.
    Status,
    /// The server did not accept the connection.
    Refused,
    /// The connection was reset, or broke in another way.
    Reset,
    /// The server closed the connection before a whole answer.
    Closed,
    /// The bytes that came are no answer.
    Malformed,
    /// There was no whole answer within the timeout.
    Timeout,
    /// TLS failed: a certificate that is not accepted, no common version.
    Tls,
    /// This machine had no socket or port for the connection.
    NoSocket,
    /// It was under way when the load was ended.
    Unfinished,
    /// Open loop: no connection was free within the timeout, or before the load was ended.
    NotStarted,
    /// The request could not be made: the file of its body cannot be read or has changed, or a value cannot be where it was
    /// to be.
    NotMade,
    /// An expected answer does not contain a value that later requests use.
    NotSaved,
    /// The body of an expected answer is not as it has to be.
    Wrong,
    /// It was not sent, since an earlier request of its session failed.
    NotSent,
}

impl Failure {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::Status,
        Self::Refused,
        Self::Reset,
        Self::Closed,
        Self::Malformed,
        Self::Timeout,
        Self::Tls,
        Self::NoSocket,
        Self::Unfinished,
        Self::NotStarted,
        Self::NotMade,
        Self::NotSaved,
        Self::Wrong,
        Self::NotSent,
    ];

    /// In words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Status => "unexpected status",
            Self::Refused => "connection refused",
            Self::Reset => "connection reset",
            Self::Closed => "closed before a whole answer",
            Self::Malformed => "malformed answer",
            Self::Timeout => "timeout",
            Self::Tls => "TLS failure",
            Self::NoSocket => "no socket on this machine",
            Self::Unfinished => "unfinished at the end",
            Self::NotStarted => "not started in time",
            Self::NotMade => "request could not be made",
            Self::NotSaved => "no value to save in the answer",
            Self::Wrong => "wrong answer",
            Self::NotSent => NOT_SENT,
        }
    }
}

/// What one request took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Exchange {
    pub(crate) about: About,
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// Bytes of bodies that were sent and received.
    pub(crate) bodies: u64,
    pub(crate) first_byte: Option<Nanos>,
    pub(crate) opened_in: Option<Nanos>,
    /// Whether the connection was still to be opened.
    pub(crate) is_opening: bool,
    /// Whether bytes of the request were sent in an earlier attempt.
    pub(crate) was_sent: bool,
    /// Whether the whole answer came before all of the request was sent.
    pub(crate) is_cut: bool,
}
