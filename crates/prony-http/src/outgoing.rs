//! The bytes of one request, and how many of them were sent.

use std::io;

use crate::answer::Wanted;
use crate::file_body::Reading;

/// What the account of a request needs to know of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct About {
    /// The number that is written into it: that of the record at hand, or of the request.
    pub(crate) number: u64,
    /// The place of the record or the saved value in the order.
    pub(crate) place: u64,
    /// Hashes, where they are needed to count different ones.
    pub(crate) path: u64,
    pub(crate) body: u64,
    /// Whether it has a body.
    pub(crate) has_body: bool,
    /// Whether its answer has none.
    pub(crate) is_head: bool,
    /// Whether it says that the connection ends with its answer (RFC 9112, section 9.6).
    pub(crate) closes: bool,
    /// What is read of its answer.
    pub(crate) wanted: Wanted,
    /// Bytes of the head.
    pub(crate) head: u64,
    /// Bytes of the body.
    pub(crate) length: u64,
}

/// A request that is ready to be sent, or under way.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    pub(crate) about: About,
    /// The head with the body; of a body that is read from a file only the next bytes. Nothing where all requests are the
    /// same.
    pub(crate) bytes: Vec<u8>,
    pub(crate) reading: Option<Box<Reading>>,
    /// Why it cannot be sent.
    pub(crate) fault: Option<String>,
    /// Bytes of `bytes` that were sent.
    at: usize,
    sent: u64,
}

impl Outgoing {
    /// Makes room for another request.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        (self.reading, self.fault) = (None, None);
        (self.at, self.sent) = (0, 0);
    }

    /// Makes it ready to be sent again. Of a body that is read from a file the bytes are gone.
    pub(crate) fn rewind(&mut self) {
        (self.at, self.sent) = (0, 0);
    }

    /// The next bytes to send, where `same` is what all requests are.
    #[inline]
    pub(crate) fn unsent<'s>(&'s self, same: Option<&'s [u8]>) -> &'s [u8] {
        &same.unwrap_or(&self.bytes)[self.at..]
    }

    /// Notes that the socket took so many of them.
    #[inline]
    pub(crate) fn advance(&mut self, count: usize) {
        self.at += count;
        self.sent += count as u64;
    }

    /// Reads more of the body, once all bytes so far were sent; whether there are any.
    ///
    /// # Errors
    /// Where the file cannot be read or has changed.
    #[inline]
    pub(crate) fn refill(&mut self) -> io::Result<bool> {
        let Some(reading) = self.reading.as_mut().filter(|reading| reading.left() > 0) else { return Ok(false) };
        self.at = 0;
        reading.next(&mut self.bytes).map(|()| true)
    }

    /// Whether the socket took all of it.
    #[inline]
    pub(crate) fn is_sent(&self, same: Option<&[u8]>) -> bool {
        self.unsent(same).is_empty() && self.reading.as_ref().is_none_or(|reading| reading.left() == 0)
    }

    /// Bytes that were sent.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// Bytes of the body that were sent.
    pub(crate) fn sent_of_body(&self) -> u64 {
        self.sent.saturating_sub(self.about.head)
    }
}
