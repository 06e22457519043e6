//! Connections that are kept open after a load, for what servers send on them that answers no request.
//!
//! An answer too many that comes right after the next request was sent is taken for its answer, and so is each later answer for
//! that of the request after its own. Then the last one comes about as long after the end as answers take.

use std::thread;

use prony_model::units::Nanos;

use crate::clock::monotonic;
use crate::connection::{BUFFER, Connection};

/// They are kept open so long at least, and at most.
const SHORTEST: Nanos = Nanos::from_millis(50);
const LONGEST: Nanos = Nanos::from_secs(1);

/// The open connections of a load that has ended.
#[derive(Debug, Default)]
pub(crate) struct Lingering {
    connections: Vec<Connection>,
    until: Nanos,
}

impl Lingering {
    /// From now on as long as an answer took at most; no longer than now where the load was interrupted.
    pub(crate) fn new(connections: Vec<Connection>, longest: Nanos, is_interrupted: bool) -> Self {
        let time = if is_interrupted { Nanos::ZERO } else { longest.max(SHORTEST).min(LONGEST) };
        Self {
            connections: connections.into_iter().filter(Connection::may_have_unasked).collect(),
            until: monotonic() + time,
        }
    }

    /// Waits until then, closes the connections, and says on how many of them more came than answers.
    pub(crate) fn surplus(self) -> u64 {
        let mut buffer = vec![0; BUFFER];
        if self.connections.iter().any(Connection::is_open) {
            thread::sleep(self.until.since(monotonic()).to_duration());
        }
        let unasked = self.connections.into_iter().map(|mut connection| connection.had_unasked(&mut buffer));
        unasked.filter(|unasked| *unasked).count() as u64
    }
}
