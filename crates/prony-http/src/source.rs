//! The requests of one thread, one after the other. The next one is made before it is due where there is time, so that
//! no latency includes it.

use std::mem;

use prony_workload::{Positions, Share};

use crate::content::{At, Content};
use crate::outgoing::Outgoing;

/// Makes the requests of a thread.
#[derive(Debug)]
pub(crate) struct Source<'l> {
    content: &'l Content,
    /// The order of records or saved values; `None` where requests work on none.
    positions: Option<Positions>,
    next: Outgoing,
    is_ready: bool,
    scratch: Vec<u8>,
}

impl<'l> Source<'l> {
    /// A thread's share of the requests.
    pub(crate) fn new(content: &'l Content, share: Share) -> Self {
        let positions = content.positions(share);
        Self { content, positions, next: Outgoing::default(), is_ready: false, scratch: Vec::new() }
    }

    /// Makes the next request, whose number is `request`; whether that took time.
    #[inline]
    pub(crate) fn prepare(&mut self, request: u64) -> bool {
        if self.is_ready || self.content.template.same().is_some() {
            return false;
        }
        let place = self.positions.as_mut().map_or(request, Positions::next);
        self.is_ready = true;
        self.content.write(At { request, place }, &mut self.next, &mut self.scratch);
        true
    }

    /// Takes the next request, which was made.
    #[inline]
    pub(crate) fn take(&mut self, out: &mut Outgoing) {
        if self.is_ready {
            mem::swap(&mut self.next, out);
            self.is_ready = false;
        } else {
            out.clear();
            out.about = self.content.template.about_same();
        }
    }

    /// Leaves the next request out.
    pub(crate) fn skip(&mut self) {
        if !mem::take(&mut self.is_ready)
            && let Some(positions) = &mut self.positions
        {
            positions.next();
        }
    }
}
