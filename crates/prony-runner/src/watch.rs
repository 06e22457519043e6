//! Watches a running trial from the release of its main process to its end: reads its lines and marks, and takes snapshots where phases
//! begin and end.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use prony_analysis::guard::program::Flood;
use prony_boundaries::functions::begins_phase;
use prony_boundaries::limits::Stopped;
use prony_boundaries::marks::{Boundary, Mark};
use prony_boundaries::observation::Observation;
use prony_boundaries::phase_state::PhaseState;
use prony_boundaries::stream::{Arrived, Line, Streams};
use prony_model::spec::PhaseSpec;
use prony_model::units::Nanos;
use prony_os::clock::{monotonic, thread_cpu};
use prony_os::interrupt::Interrupt;
use prony_os::launch::{End, KilledFor, Process, Started, Status};
use prony_os::sample::processor_wait;
use prony_place::launch_setting::Ends;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::error::Error;
use crate::roles::environment::Suspended;
use crate::roles::replicas::Replicas;
use crate::roles::services::Services;
use crate::roles::workers::Workers;
use crate::watched::services::Fault;
use crate::watched::{Watched, has_errors};

/// How often a wait checks whether the user asked to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// How long a program that was asked to end by SIGTERM may take.
const GRACE: Duration = Duration::from_secs(5);

/// A wait may last so much longer than it should without more than a slow clock interrupt as the cause.
const OVERSLEPT: Nanos = Nanos::from_millis(10);

/// A pause of prony itself that is reported: shorter ones are usual on virtual machines, whose steal time is reported.
const SHOWN_PAUSE: Nanos = Nanos::from_millis(100);

/// Turns in which remaining output is read after the end; a daemon may write without end.
const LAST_TURNS: usize = 256;

/// What is watched beside the main process.
pub(crate) struct Roles<'a> {
    /// Its replicas.
    pub replicas: Replicas,
    /// The worker that it is, where the runner leads it.
    pub worker: Option<Workers<'a>>,
    /// The services of the trial.
    pub services: Services<'a>,
}

/// Releases the main process and watches it until its end. What runs on is what is left of its tree, to be finished.
///
/// # Errors
/// Where it cannot be executed, or its supervisor has ended.
pub(crate) fn watch(
    suspended: Suspended,
    ends: Ends,
    mut observation: Observation<'_>,
    Roles { replicas, mut worker, services }: Roles<'_>,
    limit: Option<Nanos>,
    interrupt: &Interrupt,
) -> Result<(Watched, Box<dyn Process>), Error> {
    let listens = observation.tracker.listens();
    let (process, started) = suspended.release(observation.sampler, &ends, &mut observation.snapshots[0])?;
    let Started { released, executed, executable, .. } = started;
    observation.released = released;
    let change = observation.tracker.start(released);
    observation.note(&change);
    worker.iter_mut().for_each(Workers::plan);
    let streams = Streams::new([ends.stdout, ends.stderr, ends.marks], listens);
    let deadline = Deadline { at: limit.map(|limit| Instant::now() + limit.to_duration()), waits_since: None };
    let buffer = vec![0; 64 << 10];
    let (noticed, paused) = (executed, Nanos::ZERO);
    let mut turn = Turn { process, replicas, worker, services, streams, buffer, deadline, noticed, paused };
    let (ended, stopped) = turn.until_the_end(&mut observation, interrupt)?;
    if stopped.and_then(Stopped::decided).is_some() {
        turn.worker.iter_mut().for_each(Workers::leave);
    }
    turn.rest(&mut observation);
    let floods = turn.floods();
    if matches!(stopped, None | Some(Stopped::Asked)) {
        turn.replicas.wind_up(&mut turn.buffer)?;
    }
    let sampler = observation.sampler;
    let replicas = std::mem::take(&mut turn.replicas).finish(&mut turn.buffer, sampler)?;
    observation.finish(ended.at, replicas.ended);
    let Observation { tracker, snapshots, begin, end, threads, suspensions, settling, polls_took, cut, .. } =
        observation;
    let (suspensions, settled) = (suspensions.all, settling.over);
    let worker = turn.worker.map(|worker| worker.ended(ended.status, sampler)).transpose()?;
    let services = turn.services.stop(ended.status != Status::Exited(0) || has_errors(&tracker))?;
    let watched = Watched {
        tracker,
        snapshots,
        begin,
        end,
        released,
        executed,
        executable,
        ended,
        stopped,
        output: turn.streams.captured(),
        threads,
        suspensions,
        replicas,
        services,
        worker,
        cut,
        settled,
        polls_took,
        paused: turn.paused,
        floods,
    };
    Ok((watched, turn.process))
}

/// All sources that may wake the runner.
struct Turn<'a> {
    process: Box<dyn Process>,
    replicas: Replicas,
    worker: Option<Workers<'a>>,
    services: Services<'a>,
    streams: Streams,
    buffer: Vec<u8>,
    deadline: Deadline,
    /// When the last wait was over: what arrived later is not older.
    noticed: Nanos,
    /// For how long prony itself did not run where it only waited, as after Ctrl-Z.
    paused: Nanos,
}

/// Until when the trial may last.
struct Deadline {
    at: Option<Instant>,
    /// While the next phase waits for services, since when it has not been moved.
    waits_since: Option<Instant>,
}

impl Deadline {
    /// Whether it had passed at an instant: of a program that ended by itself, but was noticed later, the time is no less beyond the limit.
    fn had_passed(&self, at: Nanos) -> bool {
        let ago = self.at.and_then(|limit| Instant::now().checked_duration_since(limit));
        ago.is_some_and(|ago| at > monotonic().since(Nanos::from_nanos(ago.as_nanos() as u64)))
    }

    /// While the next phase `waits` until services have counted, the deadline waits too.
    fn wait(&mut self, waits: bool) {
        let now = Instant::now();
        if let (Some(since), Some(at)) = (self.waits_since, &mut self.at) {
            *at += now.duration_since(since);
        }
        self.waits_since = waits.then_some(now);
    }
}

impl Turn<'_> {
    fn until_the_end(
        &mut self,
        observation: &mut Observation<'_>,
        interrupt: &Interrupt,
    ) -> Result<(End, Option<Stopped>), Error> {
        let mut grace = None;
        loop {
            let due = self.must_end(observation, interrupt, grace);
            self.replicas.begin(observation)?;
            let earliest = self.wait(observation, grace, due.is_some());
            // The end is checked before the streams, so that all of the output exists when it is found.
            let end = self.process.wait(Some(Duration::ZERO))?;
            let measured = observation.tracker.phases.iter().any(PhaseState::is_open);
            self.read(observation, earliest);
            self.replicas.turn(observation, &mut self.buffer)?;
            self.services.turn(&mut self.buffer)?;
            if end.is_none() && measured {
                self.note_busy();
            }
            let asked = (grace.is_some() || observation.asked_to_stop).then_some(Stopped::Asked);
            if let Some(end) = end {
                let counts = |why: &Stopped| *why == Stopped::Interrupted || self.deadline.had_passed(end.at);
                return Ok((end.clone(), asked.or(due.filter(counts))));
            }
            // This thread may have been busy until after a limit. What was there at the limit has been read by now.
            if let Some(why) = due.and_then(|_| self.must_end(observation, interrupt, grace)) {
                if self.worker.is_some() {
                    observation.cut();
                }
                let end = self.process.kill_tree()?;
                // One that had ended by itself before the signal was not ended by prony, though it may have ended too late.
                let by_us = end.killed == Some(KilledFor::Asked) || why == Stopped::Interrupted;
                let by_us = by_us || self.deadline.had_passed(end.at);
                return Ok((end, if by_us && grace.is_none() { Some(why) } else { asked }));
            }
            observation.due();
            let mut waits = false;
            let mut may_begin = |index: usize, phase: Option<&PhaseSpec>| {
                let may = self.services.may_begin(index, phase);
                waits = may.is_none();
                may
            };
            self.worker.iter_mut().for_each(|worker| worker.lead(observation, &mut may_begin));
            self.deadline.wait(waits);
            if observation.stop && grace.is_none() {
                self.process.signal(rustix::process::Signal::TERM.as_raw())?;
                grace = Some(Instant::now() + GRACE);
            }
        }
    }

    /// Whose pipe is full waits while prony is awake and reads the rest: a pipe that has something ends the wait of prony.
    fn note_busy(&mut self) {
        let busy = monotonic().since(self.noticed);
        self.streams.note_busy(busy);
        self.replicas.note_busy(busy);
        self.services.note_busy(busy);
    }

    /// What each role has written but a worker, which writes nothing of its own.
    fn floods(&self) -> Vec<Flood> {
        let (written, waited) = self.streams.flood();
        let own = Flood { who: "the program".to_owned(), written, waited };
        let own = Some(own).filter(|_| self.worker.is_none());
        own.into_iter().chain(self.replicas.floods()).chain(self.services.floods()).collect()
    }

    fn must_end(
        &self,
        observation: &Observation<'_>,
        interrupt: &Interrupt,
        grace: Option<Instant>,
    ) -> Option<Stopped> {
        if interrupt.asked() {
            return Some(Stopped::Interrupted);
        }
        if self.services.fault().is_some_and(|fault| self.needed(fault)) {
            return Some(Stopped::WithoutService);
        }
        if observation.threads.ambiguous().is_some() {
            return Some(Stopped::Asked);
        }
        let limits = self.limits(observation);
        if self.ending().is_some() {
            return (Instant::now() >= limits?).then_some(Stopped::Overdue);
        }
        let first = [limits, grace].into_iter().flatten().min()?;
        // A phase's deadline is now at the earliest.
        (Instant::now() >= first).then_some(Stopped::Deadline)
    }

    /// Whether a service was needed when it ended: until all phases of a worker are over, or so long before a program ends.
    fn needed(&self, fault: &Fault) -> bool {
        fault.is_early(match &self.worker {
            Some(worker) => worker.report.asked_to_stop,
            None => Some(monotonic().since(fault.grace())),
        })
    }

    /// Until when a worker is to have ended.
    fn ending(&self) -> Option<Instant> {
        self.worker.as_ref()?.until
    }

    /// Until when this may last: by the limits of phases and of the trial. Closing a store, or ending after a fault,
    /// belongs to no phase and has only its own limit.
    fn limits(&self, observation: &Observation<'_>) -> Option<Instant> {
        self.ending().or_else(|| [observation.deadline(), self.deadline.at].into_iter().flatten().min())
    }

    /// Waits for anything, unless the trial is `due` to end; returns an instant before which nothing of what is there now had
    /// come.
    ///
    /// What comes wakes this thread, which then waits for a processor. So it came at most so long ago as this thread has not
    /// slept since it found nothing: its wait for a processor and its time on one, by the kernel's account. This is read
    /// before that and after the clock, so that no preemption in between is left out. Where the kernel keeps no such account,
    /// it came after the wait before. So it did where this thread was stopped (SIGSTOP, Ctrl-Z): the kernel counts neither for a
    /// stopped thread, which is known by a wait that was too long for both.
    fn wait(&mut self, observation: &Observation<'_>, grace: Option<Instant>, due: bool) -> Nanos {
        let sources: Vec<BorrowedFd<'_>> = self.sources().collect();
        let mut fds: Vec<PollFd<'_>> = sources.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
        let (before, began) = (self.noticed, monotonic());
        let awake = awake();
        let more = self.worker.as_ref().is_some_and(Workers::has_more);
        let idle = matches!(poll(&mut fds, Some(&Timespec::default())), Ok(0)) && !more && !due;
        if !idle {
            self.noticed = monotonic();
            return before;
        }
        let first = [self.limits(observation), observation.next(), self.replicas.next(), grace];
        let first = first.into_iter().flatten().min();
        let left = first.map_or(POLL_INTERVAL, |at| at.saturating_duration_since(Instant::now()).min(POLL_INTERVAL));
        let time = Timespec { tv_sec: 0, tv_nsec: i64::from(left.subsec_nanos()) };
        // A signal or an error shows in the next turn.
        let _ = poll(&mut fds, Some(&time));
        self.noticed = monotonic();
        let awake = crate::watch::awake().zip(awake).map(|(now, then)| now.since(then));
        let took = self.noticed.since(began);
        let stopped =
            awake.map_or(Nanos::ZERO, |awake| stopped(took, Nanos::from_nanos(left.as_nanos() as u64), awake));
        self.paused += if stopped >= SHOWN_PAUSE { stopped } else { Nanos::ZERO };
        let known = awake.filter(|_| stopped == Nanos::ZERO);
        known.map_or(before, |awake| before.max(self.noticed.since(awake)))
    }

    fn sources(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let worker = self.worker.iter().flat_map(Workers::sources);
        [self.process.as_fd()]
            .into_iter()
            .chain(self.streams.sources())
            .chain(worker)
            .chain(self.replicas.sources())
            .chain(self.services.sources())
    }

    /// Reads all streams, and what a worker has written; whether there may be more.
    ///
    /// Lines and marks arrive on two channels. Lines are read first and handled after the begins of phases, so that no
    /// line is handled before a mark or call that existed when it was written; other marks are handled after the lines.
    fn read(&mut self, observation: &mut Observation<'_>, earliest: Nanos) -> bool {
        self.worker.iter_mut().for_each(|worker| worker.turn(observation));
        let Arrived { lines, marks, more } = self.streams.take(&mut self.buffer, earliest);
        let is_begin = |Line { text, .. }: &Line| {
            begins_phase(text) || Mark::parse(text).is_some_and(|mark| mark.boundary == Boundary::Begin)
        };
        let (begins, rest): (Vec<Line>, Vec<Line>) = marks.into_iter().partition(is_begin);
        begins.iter().for_each(|mark| observation.mark(&mark.text, earliest, mark.at));
        lines.iter().for_each(|(stream, line)| observation.line(*stream, line));
        rest.iter().for_each(|mark| observation.mark(&mark.text, earliest, mark.at));
        more
    }

    /// Reads what remains after the end. A last line without an end is whole then, though a process that was left behind may have the
    /// stream open.
    fn rest(&mut self, observation: &mut Observation<'_>) {
        if (0..LAST_TURNS).all(|_| self.read(observation, self.noticed)) {
            return;
        }
        self.streams.cut_off().iter().for_each(|(stream, line)| observation.line(*stream, line));
    }
}

/// How long this thread has not slept since it began: on a processor, and waiting for one.
fn awake() -> Option<Nanos> {
    Some(thread_cpu() + *processor_wait().measured()?)
}

/// For how long, at least, a thread was stopped that waited at most `timeout`, in all `took`, and was so long `awake`.
fn stopped(took: Nanos, timeout: Nanos, awake: Nanos) -> Nanos {
    let unexplained = took.since(timeout).since(awake);
    if unexplained > OVERSLEPT { unexplained } else { Nanos::ZERO }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line that was written at 1 s, while prony was stopped from 0.5 to 2.5 s, had been written at 2.5 s, give or take 0.1 ms.
    #[test]
    fn wait_of_a_thread_that_was_stopped_is_longer_than_its_timeout_and_its_work() {
        let ms = Nanos::from_millis;
        assert_eq!(stopped(ms(2_050), ms(100), ms(1)), ms(1_949));
        assert_eq!(stopped(ms(100), ms(100), Nanos::ZERO), Nanos::ZERO);
        assert_eq!(stopped(ms(900), ms(100), ms(795)), Nanos::ZERO, "it waited for a processor");
        assert_eq!(stopped(ms(3), ms(100), ms(1)), Nanos::ZERO);
    }

    #[test]
    fn trial_has_the_time_in_which_its_next_phase_waited_for_services() {
        let at = Instant::now() + Duration::from_secs(60);
        let mut deadline = Deadline { at: Some(at), waits_since: None };
        deadline.wait(false);
        assert_eq!(deadline.at, Some(at));
        deadline.wait(true);
        std::thread::sleep(Duration::from_millis(20));
        deadline.wait(false);
        let waited = deadline.at.unwrap() - at;
        assert!(waited >= Duration::from_millis(20), "{waited:?}");
        deadline.wait(false);
        assert_eq!(deadline.at.unwrap() - at, waited);
    }
}
