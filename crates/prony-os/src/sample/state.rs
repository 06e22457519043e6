//! The sampler's state, and one round of sampling.

mod snapshots;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use prony_model::reading::{Reading, Why};
use prony_model::units::Nanos;

use super::adopters::Adopter;
use super::counters::{Counters, Ledger, Round};
use super::device::Device;
use super::heirs::{Kin, bank};
use super::parse::listed;
use super::proc_file::{ProcFile, ended};
use super::process::{Ask, Detail, Observation, Process, has_huge_pages};
use super::series::Store;
use super::snapshot::GroupFiles;
use super::sync::SyncCounters;
use super::tree::{Finder, Root};
use super::unread::unreadable;
use crate::clock::monotonic;
use crate::open_files;
use crate::sys::cpu_clock::process_cpu;
use crate::why::reading;

/// The processors that are online, which every trial reads again.
static ONLINE: LazyLock<ProcFile> = LazyLock::new(|| ProcFile::new("/sys/devices/system/cpu/online".into()));

/// How to sample.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Rounds a second, 1 to 100; others are brought into that range.
    pub hertz: u32,
    /// Samples of a process beyond which the resolution of all series is halved.
    pub cap: usize,
    /// Directory of the trial's control group that accounts CPU time (`cpuacct` in v1).
    pub group: Option<PathBuf>,
    /// Files of that group that are open already; `None` opens them.
    pub group_files: Option<Arc<GroupFiles>>,
    /// The store, a directory or a file, whose size and page cache are read at snapshots; or why they are not.
    pub store: Reading<PathBuf>,
    /// A path on the store's device, whose counters are read at snapshots; or why they are not.
    pub device: Reading<PathBuf>,
    /// Whether each snapshot resets the kernel's peaks of resident memory.
    pub reset_peaks: bool,
    /// A process in the group that is not part of the trial: its CPU time is subtracted from the group's.
    pub foreign: Option<ForeignProcess>,
    /// After how long the first round is taken, counted from the begin of sampling or, by [`super::Samplers::begin`], of the
    /// subject; rounds are closer together then (`step`).
    pub first: Nanos,
    /// Whether the first snapshot reads nothing of processes, and none reads the machine's pressure: for trials that are
    /// shorter than such a snapshot.
    pub lean: bool,
}

/// A process that is in the measured group but is not measured.
#[derive(Clone, Copy, Debug)]
pub struct ForeignProcess {
    pid: u32,
    at_entry: Nanos,
}

impl ForeignProcess {
    /// A process that is in the group now.
    pub fn new(pid: u32) -> Self {
        Self { pid, at_entry: process_cpu(pid).unwrap_or_default() }
    }

    fn since_entry(self) -> Reading<Nanos> {
        reading("the CPU clock of a process", process_cpu(self.pid)).map(|time| time.since(self.at_entry))
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            hertz: 10,
            cap: 60_000,
            group: None,
            group_files: None,
            store: Reading::Missing(Why::NotApplicable),
            device: Reading::Missing(Why::NotApplicable),
            reset_peaks: true,
            foreign: None,
            first: Nanos::ZERO,
            lean: false,
        }
    }
}

/// Why a round is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RoundKind {
    /// The sampler's instant of this number is due.
    Round(u64),
    /// A phase begins or ends: stored at any resolution.
    Snapshot,
    /// Somebody asks for the current state; nothing is stored.
    Glance,
    /// The same, with everything that a snapshot reads of a process.
    Closely,
}

impl RoundKind {
    const fn detail(self) -> Detail {
        match self {
            Self::Round(_) => Detail::Series,
            Self::Glance => Detail::Changed,
            Self::Snapshot | Self::Closely => Detail::All,
        }
    }
}

/// All that the sampler's thread and its callers share.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) stop: bool,
    pub(crate) settings: Settings,
    pub(crate) store: Store,
    /// CPU time that snapshots cost their callers.
    pub(crate) snapshots_cpu: Nanos,
    roots: Vec<Root>,
    /// Processes that prony started and waits for, whose roots may have been removed.
    own: BTreeSet<u32>,
    processes: BTreeMap<u32, Process>,
    adopters: Vec<Adopter>,
    finder: Finder,
    ledgers: BTreeMap<String, Ledger>,
    /// By scope, how long threads were runnable from one call of [`Self::runnable`] to the next.
    runnable: BTreeMap<String, Nanos>,
    pub(crate) syncs: BTreeMap<String, Vec<SyncCounters>>,
    unread: BTreeMap<String, (Nanos, Why)>,
    /// The directories of control groups of roles that have one of their own.
    pub(crate) groups: BTreeMap<String, PathBuf>,
    device: Reading<Device>,
    tick: Nanos,
    /// Whether the machine gives out pages of hugetlbfs.
    has_huge_pages: bool,
    /// How many threads can be on a CPU at once.
    processors: u64,
    buffer: Vec<u8>,
    /// The next snapshot is the first of a lean trial.
    bare: bool,
    /// What the sampler's thread has done for this sampler.
    pub(crate) ran: Ran,
}

/// Statistics of the sampler's thread.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ran {
    pub(crate) cpu: Nanos,
    pub(crate) rounds: u64,
    pub(crate) missed: u64,
}

impl State {
    pub(crate) fn new(roots: Vec<Root>, mut settings: Settings) -> Self {
        open_files::raise();
        let open = || settings.group.as_deref().and_then(GroupFiles::open).map(Arc::new);
        settings.group_files = settings.group_files.take().or_else(open);
        let device = settings.device.clone().and_then(|path| Device::of(&path));
        let tick = Nanos::from_nanos(1_000_000_000 / rustix::param::clock_ticks_per_second().max(1));
        let mut buffer = Vec::new();
        Self {
            stop: false,
            store: Store::new(settings.cap),
            bare: settings.lean,
            ran: Ran::default(),
            settings,
            snapshots_cpu: Nanos::ZERO,
            own: roots.iter().filter(|root| root.own).map(|root| root.pid).collect(),
            adopters: roots.iter().filter_map(|root| Adopter::of(root, tick, &mut buffer)).collect(),
            roots,
            processes: BTreeMap::new(),
            finder: Finder::default(),
            ledgers: BTreeMap::new(),
            runnable: BTreeMap::new(),
            syncs: BTreeMap::new(),
            unread: BTreeMap::new(),
            groups: BTreeMap::new(),
            device,
            tick,
            has_huge_pages: has_huge_pages(&mut buffer),
            processors: ONLINE.text(&mut buffer).ok().and_then(|text| listed(&text)).unwrap_or(u64::MAX),
            buffer,
        }
    }

    pub(crate) fn watch(&mut self, root: Root) {
        self.own.extend(root.own.then_some(root.pid));
        self.adopters.extend(Adopter::of(&root, self.tick, &mut self.buffer));
        self.roots.push(root);
        self.finder = Finder::default();
    }

    pub(crate) fn unwatch(&mut self, pid: u32) {
        self.roots.retain(|root| root.pid != pid);
        self.adopters.iter_mut().for_each(|adopter| adopter.leave(pid));
    }

    /// Reads every process and returns when it did.
    pub(crate) fn round(&mut self, kind: RoundKind) -> Nanos {
        self.find();
        let at = monotonic();
        let ask = Ask { tick: self.tick, at, detail: kind.detail() };
        let all = self.processes.keys().copied().collect();
        let vanished = self.observe(all, ask);
        let mut rounds: BTreeMap<String, Round> = BTreeMap::from([(String::new(), Round::default())]);
        let mut kin = BTreeMap::new();
        for (pid, process) in &mut self.processes {
            let gained = process.newly_inherited();
            // A process that changed while it was read keeps its last reading; the next round reads it in full.
            let Some(observation) = &process.last else { continue };
            let has_vanished = vanished.contains(pid);
            if !vanished.is_empty() {
                let (role, runs) = (process.role.clone(), !has_vanished && observation.memory.is_some());
                kin.insert(*pid, Kin { role, parent: process.parent, runs, gained, adopts: false });
            }
            if has_vanished {
                continue;
            }
            add_live(&mut rounds, &process.role, &observation.counters);
            let stored = matches!(kind, RoundKind::Round(_) | RoundKind::Snapshot);
            if stored && process.observed_at == at {
                keep(&mut self.store, process, observation, kind, at);
            }
        }
        let none_ended = vanished.is_empty();
        for adopter in &mut self.adopters {
            let gained = adopter.newly_inherited(|root| !none_ended || !self.processes.contains_key(&root));
            add_live(&mut rounds, adopter.role(), &adopter.inherited);
            if !none_ended {
                adopter.adopt(gained, &mut kin);
            }
        }
        add_roles(&mut rounds);
        let ended = vanished.into_iter().filter_map(|pid| Some((pid, self.bury(pid, at)?)));
        bank(&mut rounds, &ended.collect(), &kin);
        for (scope, round) in rounds {
            self.ledgers.entry(scope).or_default().take(round);
        }
        at
    }

    /// Reads processes, and again those that inherited the counters of one that has ended, which may have been read before
    /// it did: else a ledger would add its counters twice. Returns which have ended.
    fn observe(&mut self, mut due: BTreeSet<u32>, ask: Ask) -> BTreeSet<u32> {
        let mut vanished = BTreeSet::new();
        while !due.is_empty() {
            let (mut parents, mut vanished_now) = (Vec::new(), BTreeSet::new());
            // Before the processes: whoever is read after that is not in what they have inherited.
            self.adopters.iter_mut().for_each(|adopter| adopter.observe(self.tick, &mut self.buffer));
            // The parent first: its pid is the lower one, unless pids began again since the first root got its own.
            let from_root = due.split_off(&self.roots.first().map_or(0, |root| root.pid));
            for pid in from_root.into_iter().chain(due) {
                let Some(process) = self.processes.get_mut(&pid) else { continue };
                match process.observe(ask, &mut self.buffer) {
                    Ok(_) => {}
                    Err(error) if ended(&error) => {
                        vanished.insert(pid);
                        vanished_now.insert(pid);
                        parents.extend(process.last.is_some().then_some(process.parent));
                    }
                    Err(error) => drop(self.unread.insert(process.role.clone(), (ask.at, unreadable(pid, &error)))),
                }
            }
            // The parent of an orphan has ended itself, and another process has inherited.
            let is_alive = |pid: &u32| {
                let process = self.processes.get(pid).filter(|_| !vanished.contains(pid));
                process.and_then(|process| process.last.as_ref()).is_some_and(|last| last.memory.is_some())
            };
            let heirs: BTreeSet<u32> = match parents.iter().all(is_alive) {
                true => parents.into_iter().collect(),
                false => self.processes.keys().copied().filter(|pid| !vanished.contains(pid)).collect(),
            };
            // One whose parent has ended has another one now, who will inherit; so has one whose parent is in the tree no longer.
            let are_adopted = !self.adopters.is_empty() && !vanished_now.is_empty();
            let known: Option<BTreeSet<u32>> = are_adopted.then(|| self.processes.keys().copied().collect());
            let read = |process: &&Process| {
                let is_orphan = known.as_ref().is_some_and(|known| !known.contains(&process.parent));
                let is_root = self.own.contains(&process.pid);
                heirs.contains(&process.pid) || vanished_now.contains(&process.parent) || (is_orphan && !is_root)
            };
            let alive = || self.processes.values().filter(|process| !vanished.contains(&process.pid));
            let again: BTreeSet<u32> = alive().filter(read).map(|process| process.pid).collect();
            if again.is_empty() {
                break;
            }
            due = with_all_below(again, &alive().map(|process| (process.pid, process.parent)).collect());
            for pid in &due {
                self.processes.entry(*pid).and_modify(Process::must_be_read);
            }
        }
        vanished
    }

    fn find(&mut self) {
        let threads = self.processes.values().map(|process| process.threads.count()).sum();
        let news = self.finder.news(threads, &mut self.buffer);
        if news.none() {
            return;
        }
        let known = self.processes.iter().map(|(pid, process)| (*pid, process.role.clone())).collect();
        let arrivals = self.finder.arrivals(news, &self.roots, &known);
        for (pid, role) in arrivals.processes {
            let process = self.processes.entry(pid).or_insert_with(|| Process::new(pid, role.clone()));
            process.role = role;
            process.may_have_huge_pages = self.has_huge_pages;
        }
        for pid in arrivals.threaded {
            if let Some(process) = self.processes.get_mut(&pid) {
                process.threads.find();
                process.must_be_read();
            }
        }
    }

    /// Forgets a process that had ended at this instant; its last counters, if it was ever read.
    fn bury(&mut self, pid: u32, at: Nanos) -> Option<Counters> {
        self.store.ended(pid);
        let process = self.processes.remove(&pid)?;
        let mut last = process.last?;
        last.counters.unread_switches += 1;
        // Those of a zombie are its last. Prony waits for what it starts, and for what is left of a tree that it ends.
        let is_waited_for = self.own.contains(&pid) || !self.roots.iter().any(|root| root.role == process.role);
        if last.memory.is_some() && !is_waited_for {
            let threads = process.threads.were_runnable().max(1).min(self.processors);
            let since = at.since(process.observed_at).as_nanos();
            last.counters.unread = Nanos::from_nanos(since.saturating_mul(threads));
        }
        Some(last.counters)
    }
}

fn keep(store: &mut Store, process: &Process, observation: &Observation, kind: RoundKind, at: Nanos) {
    let number = match kind {
        RoundKind::Round(number) => Some(number),
        RoundKind::Snapshot | RoundKind::Glance | RoundKind::Closely => None,
    };
    if let Some(sample) = observation.sample(at) {
        store.push((process.pid, &process.role, &process.command), number, sample);
    }
}

/// Processes with all that descend from them. Whoever is read again has inherited more by then than when its children were read, which
/// would be counted as theirs too.
fn with_all_below(mut all: BTreeSet<u32>, parents: &BTreeMap<u32, u32>) -> BTreeSet<u32> {
    let mut size = None;
    while size.replace(all.len()) != Some(all.len()) {
        // Pids mostly ascend from parent to child, so that once is nearly always enough.
        for (pid, parent) in parents {
            if all.contains(parent) {
                all.insert(*pid);
            }
        }
    }
    all
}

/// Adds a live process to its role.
fn add_live(rounds: &mut BTreeMap<String, Round>, role: &str, counters: &Counters) {
    // Not `entry`, which needs a copy of the name each time.
    if !rounds.contains_key(role) {
        rounds.insert(role.to_owned(), Round::default());
    }
    let Some(round) = rounds.get_mut(role) else { return };
    round.live = round.live.plus(counters);
}

/// Adds all roles to the tree.
fn add_roles(rounds: &mut BTreeMap<String, Round>) {
    let mut tree = rounds.remove("").unwrap_or_default();
    for role in rounds.values() {
        tree.live = tree.live.plus(&role.live);
    }
    rounds.insert(String::new(), tree);
}

#[cfg(test)]
mod tests;
