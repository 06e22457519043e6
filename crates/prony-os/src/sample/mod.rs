//! Observes a trial's processes while it runs, and at the snapshots of its phases.
//!
//! A [`Sampler`] reads the process tree at fixed instants and stores the samples in memory. A [`Snapshot`] is a full
//! reading at the boundary of two phases, and [`phase_readings`] computes metrics from two of them and the samples
//! between.

mod adopters;
pub mod counters;
pub mod device;
mod heirs;
pub mod parse;
mod proc_file;
mod process;
mod processes;
mod readings;
mod series;
pub mod snapshot;
mod state;
pub mod sync;
mod threads;
mod tree;
mod unread;
mod unsampled;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use prony_model::reading::Reading;
use prony_model::record::ProcessSeries;
use prony_model::units::Nanos;

pub use processes::Processes;
pub use readings::{
    ENDED_BEFORE_PEAK, Readings, forgotten, huge_pages, insert_peak, left_group, phase_readings, readings_of_roles,
    readings_with_ends,
};
pub use snapshot::{GroupFiles, Snapshot};
pub use state::{ForeignProcess, Settings};
pub use sync::{SyncCounters, Tracepoints};
pub use threads::processor_wait;
pub use tree::{Root, Supervisor};
pub(crate) use tree::{descendants, members, parent};
pub use unsampled::{Ended, Ends};

use crate::clock::{monotonic, thread_cpu};
use counters::Counters;
use state::{Ran, RoundKind, State};

/// Samples a process tree until it is finished or dropped. Writes nothing while it does.
#[derive(Debug)]
pub struct Sampler {
    shared: Arc<Shared>,
    /// Its own thread; `None` where it runs on that of a [`Samplers`].
    thread: Option<JoinHandle<()>>,
}

/// What is sampled, how far apart, and since when its instants count.
type Job = (Arc<Shared>, Nanos, Nanos);

/// A thread that samples one tree after another: starting a thread for each costs as much as a short trial.
#[derive(Debug)]
pub struct Samplers {
    jobs: Sender<Job>,
}

impl Samplers {
    /// Starts the thread, which ends when this is dropped.
    ///
    /// # Errors
    /// Where no thread can be started.
    pub fn start() -> std::io::Result<Self> {
        let (jobs, queue) = channel::<Job>();
        let serve = move || queue.into_iter().for_each(|(shared, period, began)| run(&shared, period, began));
        std::thread::Builder::new().name("prony-sampler".into()).spawn(serve)?;
        Ok(Self { jobs })
    }

    /// Begins to sample on the thread of this. The instants are counted from `began` by `CLOCK_MONOTONIC`, when the
    /// subject itself did, however much later this is.
    pub fn begin(&self, sampler: &Sampler, began: Nanos) {
        let period = period(sampler.shared.lock().settings.hertz);
        // A thread that has ended samples nothing, and the sampler reports that it took no round.
        let _ = self.jobs.send((Arc::clone(&sampler.shared), period, began));
    }
}

/// See [`step`].
const EIGHTH: u64 = 8;

fn period(hertz: u32) -> Nanos {
    Nanos::from_nanos(1_000_000_000 / u64::from(hertz.clamp(1, 100)))
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    wake: Condvar,
}

impl Shared {
    /// A sampler that panicked in one round still has the samples of earlier rounds.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Result of a sampler.
#[derive(Clone, Debug)]
pub struct Sampled {
    /// Samples of each process, in the order of their first samples; those at snapshots included.
    pub series: Vec<ProcessSeries>,
    /// CPU time of the sampler's thread and of its snapshots.
    pub cpu: Reading<Nanos>,
    /// Rounds taken, snapshots apart.
    pub rounds: u64,
    /// Instants that passed while an earlier round was under way or the machine was busy.
    pub missed: u64,
    /// Only every n-th round is in the series: above 1 where one series outgrew the cap.
    pub stride: u64,
}

impl Sampler {
    /// Begins to sample the trees below `roots`.
    ///
    /// # Errors
    /// Where no thread can be started.
    pub fn start(roots: Vec<Root>, settings: Settings) -> std::io::Result<Self> {
        let period = period(settings.hertz);
        let mut sampler = Self::idle(roots, settings);
        let shared = Arc::clone(&sampler.shared);
        let sample = move || run(&shared, period, monotonic());
        let thread = std::thread::Builder::new().name("prony-sampler".into()).spawn(sample)?;
        sampler.thread = Some(thread);
        Ok(sampler)
    }

    /// A sampler that takes snapshots, and no sample before [`Samplers::begin`].
    pub fn idle(roots: Vec<Root>, settings: Settings) -> Self {
        let state = Mutex::new(State::new(roots, settings));
        Self { shared: Arc::new(Shared { state, wake: Condvar::new() }), thread: None }
    }

    /// Adds another root: a service that starts later.
    pub fn watch(&self, root: Root) {
        self.shared.lock().watch(root);
    }

    /// Removes the root of this number, whose process has ended or is about to be: before it is finished, since its supervisor
    /// then serves another process, whose tree is none of this sampler's. What is known of its tree is sampled to its end;
    /// orphans that were not found yet are none any more.
    pub fn unwatch(&self, pid: u32) {
        self.shared.lock().unwatch(pid);
    }

    /// Adds counters of sync calls to what snapshots read, under a role.
    pub fn count_syncs(&self, role: impl Into<String>, counters: SyncCounters) {
        self.shared.lock().syncs.entry(role.into()).or_default().push(counters);
    }

    /// Reads the CPU time of a role's control group, by its directory, in addition.
    pub fn count_group(&self, role: impl Into<String>, directory: PathBuf) {
        self.shared.lock().groups.insert(role.into(), directory);
    }

    /// Stops reading the CPU time of a role's control group, which is about to be removed.
    pub fn discount_group(&self, role: &str) {
        self.shared.lock().groups.remove(role);
    }

    /// Waits until all threads that the last round found sleep, for a millisecond at most: their CPU time is exact then. For
    /// boundaries at which the subject waits for prony.
    pub fn wait_for_sleep(&self) {
        self.shared.lock().wait_for_sleep();
    }

    /// Reads everything now. Expensive (PSS, the store's files): for the boundaries of phases.
    pub fn snapshot(&self) -> Snapshot {
        self.shared.lock().snapshot(None, false)
    }

    /// Reads everything now but PSS and the store's files: for the boundary of a phase at which the subject works.
    pub fn cheap_snapshot(&self) -> Snapshot {
        self.shared.lock().snapshot(None, true)
    }

    /// Reads processes of these roles now, PSS included, but not the store: for readings inside a phase. It adds no
    /// sample to the series.
    pub fn partial_snapshot(&self, roles: &[String]) -> Snapshot {
        self.shared.lock().snapshot(Some(roles), false)
    }

    /// Counters of each role now and, under `""`, of the whole tree, ended processes included. Cheap, and adds no
    /// sample to the series.
    pub fn glance(&self) -> BTreeMap<String, Counters> {
        self.shared.lock().glance()
    }

    /// For how long threads were runnable without a break from one call of this to the next, summed over all calls: of each
    /// role and, under `""`, of the whole tree. Dearer than [`Self::glance`], after which it is called: a file a thread.
    pub fn runnable(&self) -> BTreeMap<String, Nanos> {
        self.shared.lock().runnable()
    }

    /// Where the store is whose size snapshots read, where they do.
    pub fn store(&self) -> Option<PathBuf> {
        self.shared.lock().settings.store.measured().cloned()
    }

    /// Stops and returns the samples.
    pub fn finish(mut self) -> Sampled {
        let sound = self.stop() && !self.shared.state.is_poisoned();
        let mut state = self.shared.lock();
        let store = std::mem::replace(&mut state.store, series::Store::new(2));
        let Ran { cpu, rounds, missed } = state.ran;
        let cpu = if sound {
            Reading::Measured(cpu + state.snapshots_cpu)
        } else {
            Reading::failed("the sampler's thread panicked")
        };
        Sampled { stride: store.stride(), series: store.into_series(), cpu, rounds, missed }
    }

    /// Whether its thread ended well, where it has one.
    fn stop(&mut self) -> bool {
        self.shared.lock().stop = true;
        self.shared.wake.notify_all();
        self.thread.take().is_none_or(|thread| thread.join().is_ok())
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.stop();
    }
}

fn run(shared: &Shared, period: Nanos, began: Nanos) {
    let before = thread_cpu();
    let first = shared.lock().settings.first;
    let (mut number, mut due) = (0, first);
    loop {
        let Some(mut state) = wait_until(shared, began + due) else { break };
        state.round(RoundKind::Round(number));
        // Instants are fixed: a late round does not move those after it.
        let now = monotonic().since(began);
        let after = |(number, due): (u64, Nanos)| (number + 1, due + step(due, first, period));
        let mut rounds = std::iter::successors(Some((number, due)), |round| Some(after(*round))).skip(1);
        let next = rounds.find(|(_, due)| *due > now).unwrap_or((number + 1, due + period));
        state.ran.rounds += 1;
        state.ran.missed += next.0 - number - 1;
        state.ran.cpu = thread_cpu().since(before);
        (number, due) = next;
    }
}

/// How long after a round the next is due. Where the first is not at once, the subject has just begun: rounds then are no
/// further apart than an eighth of its time so far, or the time of the first, so that a short life is sampled as closely as
/// the begin of a long one.
fn step(due: Nanos, first: Nanos, period: Nanos) -> Nanos {
    if first == Nanos::ZERO {
        return period;
    }
    Nanos::from_nanos(due.as_nanos() / EIGHTH).clamp(first.min(period), period)
}

/// The lock at `due`, or `None` when it is time to stop.
fn wait_until(shared: &Shared, due: Nanos) -> Option<MutexGuard<'_, State>> {
    let mut state = shared.lock();
    while !state.stop {
        let left = due.since(monotonic());
        if left == Nanos::ZERO {
            return Some(state);
        }
        let waited = shared.wake.wait_timeout(state, left.to_duration());
        state = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
    None
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// Polls until a condition holds; whether it did before a time that no healthy machine needs.
    fn in_time(condition: impl Fn() -> bool) -> bool {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !condition() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(3));
        }
        condition()
    }

    #[test]
    fn rounds_are_closer_together_while_the_subject_is_young() {
        let (first, period) = (Nanos::from_millis(2), Nanos::from_millis(10));
        let after = |due: &Nanos| Some(*due + step(*due, first, period));
        let dues: Vec<f64> =
            std::iter::successors(Some(first), after).take(24).map(|due| due.as_secs_f64() * 1e3).collect();
        assert_eq!(dues[..9], [2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0, 18.0]);
        assert!(dues.windows(2).all(|pair| pair[1] - pair[0] <= (pair[0] / 8.0).max(2.0) + 1e-9), "{dues:?}");
        assert!(dues[23] - dues[22] > 9.99, "{dues:?}");
        assert_eq!(step(Nanos::from_millis(70), Nanos::ZERO, period), period, "an even grid");
        assert_eq!(step(first, first, Nanos::from_millis(1)), Nanos::from_millis(1));
    }

    #[test]
    fn the_first_sample_is_due_by_when_the_subject_began() {
        let samplers = Samplers::start().unwrap();
        let root = || vec![Root::subject(std::process::id(), "this")];
        let rounds = |sampler: &Sampler| sampler.shared.lock().ran.rounds;
        // Half of what the machine has been up, in case that is short; more than the test takes in any case.
        let first = Nanos::from_nanos(monotonic().as_nanos() / 2);
        let settings = || Settings { first, ..Settings::default() };
        let due = Sampler::idle(root(), settings());
        samplers.begin(&due, Nanos::from_nanos(monotonic().as_nanos() - first.as_nanos()));
        assert!(in_time(|| rounds(&due) > 0), "it began long ago");
        assert!(due.finish().rounds > 0);
        let later = Sampler::idle(root(), settings());
        samplers.begin(&later, monotonic());
        assert_eq!(later.finish().rounds, 0);
    }

    #[test]
    fn groups_of_roles_are_read_at_each_snapshot() {
        let group = tempfile::tempdir().unwrap();
        let used = |micros: u64| {
            let text = format!("usage_usec {micros}\nuser_usec {micros}\nsystem_usec 0\n");
            std::fs::write(group.path().join("cpu.stat"), text).unwrap();
        };
        let sampler = Sampler::idle(Vec::new(), Settings::default());
        let total = |snapshot: Snapshot, role: &str| snapshot.groups[role].clone().map(|group| group.total);
        used(5);
        sampler.count_group("api", group.path().to_path_buf());
        assert_eq!(total(sampler.snapshot(), "api"), Reading::Measured(Nanos::from_micros(5)));
        used(9);
        sampler.count_group("db", group.path().join("gone"));
        assert_eq!(total(sampler.snapshot(), "api"), Reading::Measured(Nanos::from_micros(9)));
        assert!(matches!(total(sampler.snapshot(), "db"), Reading::Missing(_)));
    }

    /// A watch for quiet looks at services only: what the load generator uses is no activity of theirs.
    #[test]
    fn cpu_time_of_all_services_is_the_sum_of_their_groups() {
        let group = |micros: u64| {
            let directory = tempfile::tempdir().unwrap();
            let text = format!("usage_usec {micros}\nuser_usec {micros}\nsystem_usec 0\n");
            std::fs::write(directory.path().join("cpu.stat"), text).unwrap();
            directory
        };
        let groups = [("api", group(5)), ("db.1", group(70)), (prony_model::service::LOAD, group(900))];
        let sampler = Sampler::idle(Vec::new(), Settings::default());
        groups.iter().for_each(|(role, directory)| sampler.count_group(*role, directory.path().to_path_buf()));
        let found = sampler.glance();
        assert_eq!(found["db.1"].on_cpu, Reading::Measured(Nanos::from_micros(70)));
        assert_eq!(found[""].on_cpu, Reading::Measured(Nanos::from_micros(75)));
    }
}
