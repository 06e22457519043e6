//! All observations of a program's replicas (further copies of it that start together when one of its phases begins).

use std::collections::BTreeSet;

use prony_boundaries::phase_state::PhaseState;
use prony_boundaries::probe_reports::Threads;
use prony_model::program::replica_instance;
use prony_model::reading::{Reading, Why};
use prony_model::record::effective::MemoryRead;
use prony_model::units::{Bytes, Nanos};
use prony_os::launch::{Captured, CpuTime, End, Finished, Usage};
use prony_os::sample::Snapshot;
use prony_os::sample::counters::Counters;
use prony_os::sample::snapshot::ProcessSnapshot;
use prony_runtime::ProbeLine;

/// All replicas of a trial, as observed; nothing where there are none, or where their phase never began.
#[derive(Debug, Default)]
pub struct Replicated {
    /// Index of the phase with which they started.
    pub phase: usize,
    /// Each of them, in their order.
    pub all: Vec<Ran>,
    /// What ending what was left of them took.
    pub finished: Finished,
    /// When the last of them ended, where all of them did by themselves and it was not reported while the program ran.
    pub ended: Option<Nanos>,
    /// How often and how long their memory was read because they reported something.
    pub memory: MemoryRead,
    /// What the proportional set sizes that were read then add up to.
    pub pss: LargestPss,
}

/// The largest sum of proportional set sizes that was read of replicas in one go.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LargestPss {
    /// Of all replicas or of some: the sum of all was no less. Missing where one could not be read; `None` where no
    /// replica was alive in any reading.
    pub sum: Option<Reading<Bytes>>,
    /// The most replicas that were alive in one reading.
    pub replicas: usize,
}

impl LargestPss {
    /// Adds what was read of these processes in one go; those that had ended by then count for nothing.
    pub(crate) fn add<'a>(&mut self, processes: impl Iterator<Item = &'a ProcessSnapshot>) {
        let alive: Vec<&ProcessSnapshot> = processes.filter(|process| !process.had_ended()).collect();
        let roles: BTreeSet<&str> = alive.iter().map(|process| process.role.as_str()).collect();
        let sum = alive.iter().map(|process| process.pss.clone()).reduce(|sum, one| sum.and(one, |sum, one| sum + one));
        // An unknown value may be the larger one.
        self.sum = self.sum.take().into_iter().chain(sum).reduce(|one, other| one.and(other, Bytes::max));
        self.replicas = self.replicas.max(roles.len());
    }

    /// The largest sum with those of these `roles` at these snapshots. Missing where no reading found all replicas that had
    /// `begun`: a sum over some is no maximum of all.
    pub(crate) fn with(&self, snapshots: &[Snapshot], roles: &BTreeSet<String>, begun: usize) -> Reading<f64> {
        let mut largest = self.clone();
        for snapshot in snapshots {
            largest.add(snapshot.processes.iter().filter(|process| roles.contains(&process.role)));
        }
        match largest.sum {
            None => {
                Reading::failed("no replica was running at any instant when a phase or another replica began or ended")
            }
            Some(Reading::Measured(sum)) if largest.replicas < begun => Reading::failed(format!(
                "memory was never read while all {begun} replicas ran; the largest sum of PSS, of at most {} replicas, \
                 was {sum}",
                largest.replicas
            )),
            Some(sum) => sum.map(|pss| pss.as_bytes() as f64),
        }
    }
}

/// One replica, as observed.
#[derive(Debug)]
pub struct Ran {
    /// Its number, from 1 on.
    pub number: u32,
    /// Its process; 0 where it could not be executed.
    pub pid: u32,
    /// When it began to execute its program, as it reported itself.
    pub released: Nanos,
    /// What the kernel had counted of its process then.
    pub before: Option<(CpuTime, Usage)>,
    /// How it ended.
    pub end: ReplicaEnd,
    /// Index of the last snapshot before its begin.
    pub first: usize,
    /// Index of the first snapshot after its end; `None` is the trial's last one.
    pub until: Option<usize>,
    /// Its memory, read after it had reported something.
    pub reported: Option<Snapshot>,
    /// It reported something after that.
    pub unread: bool,
    /// Values from its lines.
    pub lines: PhaseState,
    /// Marks that it made, which belong to no phase.
    pub marks: u64,
    /// Reports of its probes.
    pub threads: Threads,
    /// Why they reported nothing, where they did not.
    pub silent: Why,
    /// Processes of it that aborted at their heap's own limit.
    pub heap_aborts: Vec<ProbeLine>,
    /// Standard output and error.
    pub output: [Captured; 2],
}

/// How a replica ended.
#[derive(Debug)]
pub enum ReplicaEnd {
    /// It could not be executed, and why.
    NotBegun(String),
    /// It ended by itself.
    Ended(Box<End>),
    /// It was ended when the program ended.
    CutOff(Box<End>),
}

/// Why a replica that was ended while it was suspended has no time and no amounts.
pub(crate) const NEVER_BEGAN: &str = "the replica was ended before it executed its program";

/// Why metrics that only samples have are missing for ended processes.
pub(crate) const NOT_INHERITED: &str =
    "some processes ended after their last sample, so this value would be too low; `cpu` includes all CPU time";

/// What the kernel counted of a process and of the children that it waited for. Its sum contains faults of children, and does not
/// separate them.
pub(crate) fn counters(cpu: CpuTime, usage: &Usage) -> Counters {
    let not_inherited = Reading::not_supported(NOT_INHERITED);
    let nothing = Counters { on_cpu: not_inherited.clone(), cpu_wait: not_inherited, ..Counters::default() };
    with_usage(nothing, cpu, usage)
}

/// Counters with what the kernel reported of a process instead of what samples showed.
pub(crate) fn with_usage(sampled: Counters, cpu: CpuTime, usage: &Usage) -> Counters {
    Counters {
        cpu_user: cpu.user,
        cpu_system: cpu.system,
        read: Reading::Measured(usage.read),
        written: Reading::Measured(usage.written),
        minor_faults: usage.minor_faults,
        major_faults: usage.major_faults,
        switches_voluntary: usage.switches_voluntary,
        switches_forced: usage.switches_forced,
        ..sampled
    }
}

/// Everything that a process tree used from the begin of its program, `before` which it had used so much, to its very end. Missing where
/// something of it still ran.
pub(crate) fn spent(before: Option<(CpuTime, Usage)>, end: &End) -> Reading<Counters> {
    let Some((cpu, usage)) = before else { return Reading::failed(NEVER_BEGAN) };
    let before = counters(cpu, &usage);
    end.cpu.clone().and(end.usage.clone(), |cpu, usage| counters(cpu, &usage).since(&before))
}

/// When the last of those that were executed ended, where all of them ended by themselves.
pub(crate) fn last_end<'f>(ends: impl IntoIterator<Item = &'f ReplicaEnd>) -> Option<Nanos> {
    let mut last = None;
    for end in ends {
        match end {
            ReplicaEnd::NotBegun(_) => {}
            ReplicaEnd::Ended(end) => last = last.max(Some(end.at)),
            ReplicaEnd::CutOff(_) => return None,
        }
    }
    last
}

impl ReplicaEnd {
    /// Its end, if it had begun.
    pub(crate) fn end(&self) -> Option<&End> {
        match self {
            Self::NotBegun(_) => None,
            Self::Ended(end) | Self::CutOff(end) => Some(end),
        }
    }
}

impl Ran {
    /// The instance under which its metrics are listed, which is its role in samples.
    pub(crate) fn role(&self) -> String {
        replica_instance(self.number)
    }

    /// Its end, if it had begun.
    pub fn end(&self) -> Option<&End> {
        self.end.end()
    }

    /// Everything that it used, up to its very end. Missing where a process of it ignored SIGCHLD in any of these `snapshots`, which are
    /// all of the trial: no counter of the kernel then has what its children used.
    pub fn spent(&self, snapshots: &[Snapshot]) -> Reading<Counters> {
        let all = self.end().map_or(Reading::Missing(Why::NotReached), |end| spent(self.before, end));
        let last = snapshots.iter().rev().find_map(|snapshot| snapshot.totals.get(&self.role()));
        match last.and_then(lack_children) {
            Some(why) => all.and_then(|_| Reading::Missing(why)),
            None => all,
        }
    }

    /// What it used between two snapshots; `None` where it did not run there.
    pub fn between(&self, snapshots: &[Snapshot], first: usize, until: usize) -> Option<Reading<Counters>> {
        let ended = self.end()?.at;
        if self.released >= snapshots[until].at || ended <= snapshots[first].at {
            return None;
        }
        let unseen = || {
            Reading::failed(format!(
                "`{}` was not running at the phase's begin or end, where counters are read",
                self.role()
            ))
        };
        let counted = |snapshot: usize| {
            snapshots[snapshot].totals.get(&self.role()).cloned().map_or_else(unseen, Reading::Measured)
        };
        let began_inside = self.released >= snapshots[first].at;
        let before = if began_inside { Reading::Measured(Counters::default()) } else { counted(first) };
        let after = if ended <= snapshots[until].at { self.spent(snapshots) } else { counted(until) };
        let used = after.and(before, |all, before| all.since(&before));
        Some(used.and_then(|used| lack_children(&used).map_or(Reading::Measured(used), Reading::Missing)))
    }
}

/// Why counters lack what children used, if they do.
fn lack_children(used: &Counters) -> Option<Why> {
    if used.ignores_children > 0 { used.are_incomplete(None) } else { None }
}
