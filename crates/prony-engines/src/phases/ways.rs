//! The transactions in which a client's operations run: its own ones of a session, or one that stays open over phases.

use prony_model::spec::Grouping;

use super::client::Client;
use super::sampling::Sampler;
use crate::driver::{EngineError, Session};
use crate::timed_loop::{self, Tally};

/// How a client's operations reach the engine.
pub(super) trait Way {
    /// Runs the client's operations.
    fn drive<T: Sampler>(
        &mut self,
        client: &mut Client<'_>,
        timing: &mut T,
        tally: &mut Tally,
    ) -> Result<(), EngineError>;
}

/// In transactions of a session.
pub(super) struct InSession<S> {
    pub(super) session: S,
    pub(super) grouping: Grouping,
    pub(super) writes: bool,
    pub(super) own_reads: bool,
}

impl<S: Session> Way for InSession<S> {
    fn drive<T: Sampler>(
        &mut self,
        client: &mut Client<'_>,
        timing: &mut T,
        tally: &mut Tally,
    ) -> Result<(), EngineError> {
        let session = &mut self.session;
        let size = match self.grouping {
            Grouping::Each => return timed_loop::each(session, client, timing, tally, self.own_reads),
            Grouping::Batch(size) => size.max(1),
            Grouping::Single | Grouping::Open => u64::MAX,
        };
        if self.writes {
            timed_loop::batched_writes(session, client, timing, tally, size)
        } else {
            timed_loop::batched_reads(session, client, timing, tally, size)
        }
    }
}

/// In a write transaction that stays open; the first phase opens it, inside its timed section.
pub(super) struct InTransaction<'s, S: Session> {
    session: Option<&'s mut S>,
    txn: Option<S::Write<'s>>,
}

impl<'s, S: Session> InTransaction<'s, S> {
    pub(super) fn new(session: &'s mut S) -> Self {
        Self { session: Some(session), txn: None }
    }

    /// The transaction; opens it where it is not open yet.
    pub(super) fn txn(&mut self) -> Result<Option<&mut S::Write<'s>>, EngineError> {
        if let Some(session) = self.session.take() {
            self.txn = Some(session.write()?);
        }
        Ok(self.txn.as_mut())
    }

    pub(super) fn into_txn(self) -> Option<S::Write<'s>> {
        self.txn
    }
}

impl<S: Session> Way for InTransaction<'_, S> {
    fn drive<T: Sampler>(
        &mut self,
        client: &mut Client<'_>,
        timing: &mut T,
        tally: &mut Tally,
    ) -> Result<(), EngineError> {
        match self.txn()? {
            Some(txn) => timed_loop::within(txn, client, timing, tally),
            None => Ok(()),
        }
    }
}
