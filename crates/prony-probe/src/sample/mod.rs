//! What is observed about a trial while it runs, and at the edges of its phases.
//!
//! A [`Sampler`] looks at the process tree at fixed instants and keeps what it sees in memory. An
//! [`Edge`] is a full reading at the border of two phases, and [`phase_readings`] turns two of them
//! and the samples between into figures.

pub mod counters;
pub mod device;
pub mod edge;
pub mod parse;
mod proc_file;
mod process;
mod readings;
mod series;
mod state;
pub mod sync;
mod threads;
mod tree;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use prony_core::reading::Reading;
use prony_core::record::ProcessSeries;
use prony_core::units::Nanos;

pub use edge::Edge;
pub use readings::{Readings, phase_readings};
pub use state::Settings;
pub use sync::{SyncCounters, Tracepoints};
pub use tree::Root;

use crate::clock::{monotonic, thread_cpu};
use counters::Counters;
use state::{Look, State};

/// Samples a process tree until it is finished or dropped. Writes nothing while it does.
#[derive(Debug)]
pub struct Sampler {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Ran>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    wake: Condvar,
}

impl Shared {
    /// A sampler that panicked in one round still holds what earlier rounds saw.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the thread says of itself.
#[derive(Clone, Copy, Debug, Default)]
struct Ran {
    cpu: Nanos,
    rounds: u64,
    missed: u64,
}

/// What a sampler leaves.
#[derive(Clone, Debug)]
pub struct Sampled {
    /// Samples of each process, in the order in which they were first seen; the samples at edges among them.
    pub series: Vec<ProcessSeries>,
    /// CPU time of the sampler's thread and of its edges.
    pub cpu: Reading<Nanos>,
    /// Rounds taken, edges apart.
    pub rounds: u64,
    /// Instants that passed while an earlier round was under way or the machine was busy.
    pub missed: u64,
    /// Every how manieth round is in the series: above 1 where one outgrew the cap.
    pub stride: u64,
}

impl Sampler {
    /// Begins to sample the trees below `roots`.
    ///
    /// # Errors
    /// Where no thread can be started.
    pub fn start(roots: Vec<Root>, settings: Settings) -> std::io::Result<Self> {
        let period = Nanos::from_nanos(1_000_000_000 / u64::from(settings.hertz.clamp(1, 100)));
        let state = Mutex::new(State::new(roots, settings));
        let shared = Arc::new(Shared { state, wake: Condvar::new() });
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("prony-sampler".into()).spawn(move || run(&of_thread, period))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Takes in another root: a service that starts later.
    pub fn watch(&self, root: Root) {
        self.shared.lock().watch(root);
    }

    /// Adds counters of sync calls to what edges read, under a role.
    pub fn count_syncs(&self, role: impl Into<String>, counters: SyncCounters) {
        self.shared.lock().count_syncs(role.into(), counters);
    }

    /// Reads everything now. Not cheap (PSS, the store's files): for the borders of phases.
    pub fn edge(&self) -> Edge {
        self.shared.lock().edge()
    }

    /// Counters of the whole tree now, ended processes included. Cheap, and leaves no trace in the series.
    pub fn glance(&self) -> Counters {
        self.shared.lock().glance()
    }

    /// Stops and hands over what was seen.
    pub fn finish(mut self) -> Sampled {
        let ran = self.stop();
        let mut state = self.shared.lock();
        let store = std::mem::replace(&mut state.store, series::Store::new(2));
        let edges = state.edges_cpu;
        let cpu = match ran {
            Some(ran) => Reading::Measured(ran.cpu + edges),
            None => Reading::Missing(prony_core::reading::Why::Failed("the sampler's thread panicked".into())),
        };
        let ran = ran.unwrap_or_default();
        Sampled { stride: store.stride(), series: store.into_series(), cpu, rounds: ran.rounds, missed: ran.missed }
    }

    fn stop(&mut self) -> Option<Ran> {
        self.shared.lock().stop = true;
        self.shared.wake.notify_all();
        self.thread.take()?.join().ok()
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.stop();
    }
}

fn run(shared: &Shared, period: Nanos) -> Ran {
    let began = monotonic();
    let mut ran = Ran::default();
    let mut number = 0;
    loop {
        let due = began + Nanos::from_nanos(period.as_nanos() * number);
        let Some(mut state) = wait_until(shared, due) else { break };
        state.round(Look::Round(number));
        drop(state);
        ran.rounds += 1;
        // Instants are fixed: a late round does not move those after it.
        let next = monotonic().since(began).as_nanos() / period.as_nanos() + 1;
        ran.missed += next - number - 1;
        number = next;
    }
    ran.cpu = thread_cpu();
    ran
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
