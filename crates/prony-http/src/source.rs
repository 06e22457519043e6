//! The requests of one thread, one after the other. Those that take long to make are made before the load as far as they fit
//! into a bound of memory, so that the thread reads answers meanwhile.

use std::collections::VecDeque;
use std::mem;

use prony_workload::{Positions, Share};

use crate::content::Content;
use crate::outgoing::Outgoing;
use crate::request::Template;
use crate::session::{At, Session};

/// Bytes of requests that are made before the load, over all threads.
const BEFORE: usize = 16 << 20;

/// Makes the requests of a thread.
#[derive(Debug)]
pub(crate) struct Source<'l> {
    content: &'l Content,
    share: Share,
    /// The number of the first request.
    first: u64,
    /// The order of records or saved values; `None` where requests work on none.
    positions: Option<Positions>,
    /// Requests that were made or left out; where they are of sessions, sessions that were begun.
    nth: u64,
    ready: VecDeque<Outgoing>,
    /// Room for the next request.
    spare: Outgoing,
    scratch: Vec<u8>,
}

impl<'l> Source<'l> {
    /// A thread's share of the requests from number `first` on, some of which are made now: `most` at most.
    pub(crate) fn new(content: &'l Content, share: Share, first: u64, most: u64) -> Self {
        let (positions, ready) = (content.positions(share), VecDeque::new());
        let (spare, scratch) = (Outgoing::default(), Vec::new());
        let mut source = Self { content, share, first, positions, nth: 0, ready, spare, scratch };
        if content.needs.any() && !content.kinds.read_files() && content.kinds.session() == 1 {
            let mut left = BEFORE / share.of.max(1) as usize;
            while source.nth < most && left > 0 {
                let at = source.next();
                source.make(at, &Session::default());
                let bytes = source.ready.back().map_or(0, |made| made.bytes.capacity() + size_of::<Outgoing>());
                left = left.saturating_sub(bytes);
            }
        }
        source
    }

    /// Makes the next request, of this session, where it was not made before; whether that took time.
    #[inline]
    pub(crate) fn prepare(&mut self, session: &Session) -> bool {
        if !self.ready.is_empty() || self.content.kinds.same().is_some() {
            return false;
        }
        let at = session.next.unwrap_or_else(|| self.next());
        self.make(at, session);
        true
    }

    fn make(&mut self, at: At, session: &Session) {
        let mut made = mem::take(&mut self.spare);
        self.content.write(at, session, &mut made, &mut self.scratch);
        self.ready.push_back(made);
    }

    fn next(&mut self) -> At {
        let nth = self.share.nth(self.nth);
        self.nth += 1;
        let request = self.first + nth * self.content.kinds.session();
        At { request, place: self.positions.as_mut().map_or(self.first + nth, Positions::next) }
    }

    /// Takes the next request, which was made.
    #[inline]
    pub(crate) fn take(&mut self, out: &mut Outgoing) {
        match self.ready.pop_front() {
            Some(made) => self.spare = mem::replace(out, made),
            None => {
                out.clear();
                out.about = self.content.kinds.same().map(Template::about_same).unwrap_or_default();
            }
        }
    }

    /// Makes a request ready to be sent again.
    pub(crate) fn again(&mut self, request: u64, session: &Session, out: &mut Outgoing) {
        if self.content.kinds.template(request).reads_files() {
            let at = At { request, place: out.about.place };
            self.content.write(at, session, out, &mut self.scratch);
        } else {
            out.rewind();
        }
    }

    /// Leaves the next request out.
    pub(crate) fn skip(&mut self) {
        if self.ready.pop_front().is_none() {
            self.next();
        }
    }
}
