//! Runs the background of a phase: clients that repeat operations of their own from the begin of the phase's operations
//! until these have ended.

use std::panic::resume_unwind;
use std::sync::mpsc::channel;

use prony_model::units::Nanos;

use super::operate::{Ended, Job, StopOnPanic};
use super::shared::{Busy, Shared};
use super::stop::Stop;
use crate::driver::Store;
use crate::timed_loop::now;

/// Stops clients at the end of a scope, however it ends.
struct StopAtEnd<'a>(&'a Shared<'a>);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Runs a phase, by `run`, and its background. `began` is called once, when the clients of both are ready, just before they
/// start. Returns what the phase has done, with the background's report in its own, and what the background has done.
pub(super) fn run<S: Store>(
    store: &S,
    (phase, background): (&Job<'_>, &Job<'_>),
    run: impl FnOnce(&mut dyn FnMut() -> Result<(), Stop>) -> Result<Ended, Stop>,
    began: &mut dyn FnMut() -> Result<(), Stop>,
) -> Result<(Ended, Ended), Stop> {
    let (ready, is_ready) = channel();
    let (release, released) = channel();
    let (ended, beside) = std::thread::scope(|scope| {
        let clients = std::thread::Builder::new().spawn_scoped(scope, move || {
            let stop = StopOnPanic(phase.shared);
            let ended = background.run(store, &mut || {
                // Where the phase has failed it waits no longer, and reports that itself.
                ready.send(()).map_err(|_| Stop::OtherFailed)?;
                background.shared.release(released.recv().map_err(|_| Stop::OtherFailed)?);
                Ok(())
            });
            if ended.is_err() {
                stop.0.stop();
            }
            ended
        });
        let clients = match clients {
            Ok(clients) => clients,
            Err(source) => return (Err(Stop::Client { number: 1, of: 1, source }), Err(Stop::OtherFailed)),
        };
        let ended = {
            let _stop = StopAtEnd(background.shared);
            run(&mut || {
                is_ready.recv().map_err(|_| Stop::OtherFailed)?;
                began()?;
                // It fails where the background has ended, whose error is known then.
                let _ = release.send(now());
                Ok(())
            })
        };
        drop(release);
        (ended, clients.join().unwrap_or_else(|panic| resume_unwind(panic)))
    });
    match (ended, beside) {
        (Ok(ended), Ok(beside)) => Ok(joined(phase, background, ended, beside)),
        (Err(Stop::OtherFailed), Err(error)) => Err(error),
        (Err(error), _) | (_, Err(error)) => Err(error),
    }
}

fn joined(phase: &Job<'_>, background: &Job<'_>, mut ended: Ended, mut beside: Ended) -> (Ended, Ended) {
    let report = &mut ended.report;
    let mut other = std::mem::take(&mut beside.report);
    let time = |busy: &Busy| busy.time_and_gap().0;
    let either = phase.shared.either.map_or(0, time);
    let both = (time(&phase.shared.busy) + time(&background.shared.busy)).saturating_sub(either);
    other.overlap = Some(Nanos::from_nanos(both));
    let last = background.shared.busy.whole().map(|(_, until)| until);
    let after = last.zip(background.shared.stopped()).map(|(until, stopped)| until.saturating_sub(stopped));
    other.tail = Some(Nanos::from_nanos(after.unwrap_or(0)));
    // How much is read meanwhile, and how much is written before what is read, depends on speed.
    other.answer = None;
    if background.action.writes() {
        report.answer.iter_mut().for_each(|answer| answer.comparable = false);
    }
    report.background = Some(Box::new(other));
    (ended, beside)
}
