//! Determines by trying which limits and counters of control groups work on this machine.

use prony_model::reading::Reading;
use prony_model::spec::Limits;
use prony_model::units::Bytes;
use serde::{Deserialize, Serialize};

use super::group::Group;
use crate::error::Error;

/// Whether something can be limited or measured here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It can.
    Yes,
    /// It cannot, and why; one line. Of a limit, also how to allow it.
    No(String),
}

impl<T> From<Reading<T>> for State {
    fn from(reading: Reading<T>) -> Self {
        match reading {
            Reading::Measured(_) => Self::Yes,
            Reading::Missing(why) => Self::No(why.to_string()),
        }
    }
}

/// What control groups can do for this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capability {
    /// Limiting memory.
    pub memory: State,
    /// Limiting CPU time.
    pub cpus: State,
    /// Limiting processes.
    pub pids: State,
    /// Counting CPU time of a whole tree.
    pub cpu_time: State,
    /// The exact peak of a tree's memory.
    pub memory_peak: State,
    /// Further remarks, such as how swap is excluded.
    pub notes: Vec<String>,
}

prony_model::words! {
    /// Limits of control groups.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Limit {
        /// Of memory.
        Memory = "memory";
        /// Of CPU time.
        Cpus = "cpus";
        /// Of processes.
        Pids = "pids";
    }
}

impl Limit {
    /// Whether it was requested.
    pub const fn is_in(self, limits: &Limits) -> bool {
        match self {
            Self::Memory => limits.memory.is_some(),
            Self::Cpus => limits.cpus.is_some(),
            Self::Pids => limits.pids.is_some(),
        }
    }

    /// Makes a group with the limit, checks whether the kernel takes it, and removes the group.
    pub fn ability(self) -> State {
        self.attempt(&mut Vec::new())
    }

    fn attempt(self, notes: &mut Vec<String>) -> State {
        let none = Limits::default();
        let limits = match self {
            Self::Memory => Limits { memory: Some(Bytes::from_mib(64)), ..none },
            Self::Cpus => Limits { cpus: Some(1.0), ..none },
            Self::Pids => Limits { pids: Some(64), ..none },
        };
        attempt(&limits, notes, |_| State::Yes)
    }
}

/// Makes a group for each limit, checks whether the kernel takes it, and removes the group.
pub fn capability() -> Capability {
    let mut notes = Vec::new();
    let [memory, cpus, pids] = Limit::ALL.map(|limit| limit.attempt(&mut notes));
    let cpu_time = attempt(&Limits::default(), &mut notes, |group| group.figures().cpu.into());
    let memory_peak = attempt(&Limits::default(), &mut notes, |group| group.figures().peak.into());
    notes.sort_unstable();
    notes.dedup();
    Capability { memory, cpus, pids, cpu_time, memory_peak, notes }
}

fn attempt(limits: &Limits, notes: &mut Vec<String>, test: impl FnOnce(&Group) -> State) -> State {
    let tried = Group::create(limits).and_then(|group| {
        notes.extend(group.notes().iter().cloned());
        let ability = test(&group);
        group.remove().map(|()| ability)
    });
    tried.unwrap_or_else(|error| State::No(explain(&error)))
}

fn explain(error: &Error) -> String {
    let cause = std::error::Error::source(error).map(|source| format!(": {source}")).unwrap_or_default();
    format!("{error}{cause}").replace("\nhint: ", "; ")
}
