//! What callers of the sampler read: snapshots at the boundaries of phases, and cheaper counters between them.

use std::collections::BTreeMap;
use std::path::Path;

use prony_model::reading::{Reading, Why};
use prony_model::service::LOAD;
use prony_model::units::{Bytes, Nanos};

use super::{RoundKind, State};
use crate::cache;
use crate::clock::{monotonic, scheduler_tick, thread_cpu};
use crate::sample::counters::Counters;
use crate::sample::parse::GroupCpu;
use crate::sample::process::Process;
use crate::sample::snapshot::{ProcessSnapshot, Snapshot, group_cpu, pressure, unwritten};
use crate::sample::sync::{SyncCounters, SyncCounts};
use crate::sample::tree::Root;

/// How long to wait for threads that are about to sleep.
const PATIENCE: Nanos = Nanos::from_millis(1);

/// What a snapshot reads of the store.
struct StoreReading {
    disk: Reading<cache::DiskUsage>,
    cached: Reading<cache::Residency>,
    unwritten: Reading<Bytes>,
}

impl StoreReading {
    fn missing(why: &Why) -> Self {
        let (disk, cached) = (Reading::Missing(why.clone()), Reading::Missing(why.clone()));
        Self { disk, cached, unwritten: Reading::Missing(why.clone()) }
    }
}

impl State {
    fn groups(&self) -> BTreeMap<String, Reading<GroupCpu>> {
        self.groups.iter().map(|(role, directory)| (role.clone(), group_cpu(directory))).collect()
    }

    /// A round, and all that is read at snapshots only. Counters come first, the expensive values after them, and the
    /// peaks are reset last.
    ///
    /// A cheap one is without PSS and the store, for which the kernel would hold locks of processes that work meanwhile. One of
    /// some `roles` has only their processes, and no store: while they run, expensive values of the other roles are not read.
    /// It adds no sample to the series, and resets no peak.
    pub(crate) fn snapshot(&mut self, roles: Option<&[String]>, is_cheap: bool) -> Snapshot {
        let cpu = thread_cpu();
        let at = match roles {
            Some(_) => self.round(RoundKind::Closely),
            None if self.is_bare() => self.empty_round(),
            None => self.round(RoundKind::Snapshot),
        };
        let (group, groups) = (self.group(), self.groups());
        let group_read = monotonic();
        let syncs = self.syncs.iter().filter_map(|(role, counters)| Some((role.clone(), sum(counters)?))).collect();
        let pressure = if self.settings.lean { prony_model::record::Pressure::default() } else { pressure() };
        let device = match &self.device {
            Reading::Measured(device) => device.read(),
            Reading::Missing(why) => Reading::Missing(why.clone()),
        };
        let processes = self.snapshot_processes(at, roles, is_cheap);
        // What prony started is no child of the tree.
        let children = self.processes.values().filter(|process| !self.own.contains(&process.pid));
        let zombies = children.filter(|process| process.last.as_ref().is_some_and(|last| last.memory.is_none()));
        let zombies = zombies.map(|process| process.role.clone()).collect();
        let unread = StoreReading::missing(&if is_cheap { not_read() } else { Why::NotApplicable });
        let began_store = monotonic();
        let StoreReading { disk, cached, unwritten } =
            if roles.is_some() || is_cheap { unread } else { self.read_store() };
        let store_took = monotonic().since(began_store);
        let totals = self.totals();
        let (most_running, cpu_lacks) = self.unsettled(group_read.since(at), group.measured().is_some());
        self.snapshots_cpu += thread_cpu().since(cpu);
        let took = monotonic().since(at);
        Snapshot {
            at,
            took,
            store_took,
            processes,
            zombies,
            totals,
            leaves_replicas_out: false,
            most_running,
            cpu_lacks,
            group,
            groups,
            syncs,
            unread: self.unread.clone(),
            pressure,
            device,
            disk,
            cached,
            unwritten,
        }
    }

    /// Whether a lean trial has nothing to read: its program has not begun, or has ended already.
    fn is_bare(&mut self) -> bool {
        let first = std::mem::replace(&mut self.bare, false);
        let vanished = |root: &Root| !Path::new(&format!("/proc/{}", root.pid)).exists();
        first || (self.settings.lean && self.processes.is_empty() && self.roots.iter().all(vanished))
    }

    fn empty_round(&mut self) -> Nanos {
        self.ledgers.entry(String::new()).or_default();
        monotonic()
    }

    fn group(&self) -> Reading<GroupCpu> {
        let all = match (&self.settings.group_files, &self.settings.group) {
            (Some(files), _) => files.read(),
            (None, Some(directory)) => group_cpu(directory),
            (None, None) => return Reading::Missing(Why::NotApplicable),
        };
        match self.settings.foreign {
            None => all,
            Some(foreign) => all.and(foreign.since_entry(), GroupCpu::without),
        }
    }

    /// Counters of each role now, and of the whole tree under `""`, whose time on a CPU is that of its control group where
    /// there is one.
    pub(crate) fn glance(&mut self) -> BTreeMap<String, Counters> {
        self.round(RoundKind::Glance);
        let mut totals = self.totals();
        if let Reading::Measured(group) = self.group() {
            totals.entry(String::new()).or_default().on_cpu = Reading::Measured(group.total);
        }
        if !self.groups.is_empty() {
            // Where a group cannot be read, its role has the sum of its processes.
            for (role, group) in self.groups().into_iter().filter_map(|(role, group)| Some((role, *group.measured()?)))
            {
                totals.entry(role).or_default().on_cpu = Reading::Measured(group.total);
            }
            // A command of a phase is `load.command`.
            let is_service = |role: &str| !role.is_empty() && role.split('.').next() != Some(LOAD);
            let roles = totals.iter().filter(|(role, _)| is_service(role)).map(|(_, total)| total.on_cpu.clone());
            let sum = roles.reduce(|sum, one| sum.and(one, |sum, one| sum + one));
            sum.into_iter().for_each(|sum| totals.entry(String::new()).or_default().on_cpu = sum);
        }
        totals
    }

    /// How long threads of each role were runnable, on a CPU or waiting for one, and of the whole tree under `""`: of each
    /// thread the times between calls in which it never slept. Of the processes that the last round found.
    pub(crate) fn runnable(&mut self) -> BTreeMap<String, Nanos> {
        let now = monotonic();
        for process in self.processes.values_mut() {
            let time = process.threads.runnable(now, &mut self.buffer);
            for scope in ["", process.role.as_str()] {
                *self.runnable.entry(scope.to_owned()).or_default() += time;
            }
        }
        self.runnable.clone()
    }

    /// How many threads can have been on a CPU, and how much CPU time may be missing that they used: in a tick before their
    /// states were read, and in the time that `took` from the begin of the round until all clocks were read.
    fn unsettled(&self, took: Nanos, grouped: bool) -> (u64, Nanos) {
        let subjects = || self.processes.values();
        let runnable: u64 = subjects().map(|process| process.threads.were_runnable()).sum();
        let threads: u64 = subjects().map(|process| process.threads.count() as u64).sum();
        let [running, most] = [runnable, threads].map(|threads| threads.min(self.processors));
        // The times of ended children are counted in ticks of procfs, user and system apart.
        let inherits = |process: &&Process| process.last.as_ref().is_some_and(|last| last.inherited.child_faults > 0);
        let adopters = self.adopters.iter().filter(|adopter| adopter.has_inherited()).count();
        let parents = if grouped { 0 } else { (subjects().filter(inherits).count() + adopters) as u64 };
        let lacks = running * scheduler_tick().as_nanos() + most * took.as_nanos() + 2 * parents * self.tick.as_nanos();
        (most, Nanos::from_nanos(lacks))
    }

    /// Waits until all known threads sleep, [`PATIENCE`] at most.
    pub(crate) fn wait_for_sleep(&mut self) {
        let began = monotonic();
        let buffer = &mut self.buffer;
        let subjects = || self.processes.values();
        while monotonic().since(began) < PATIENCE && subjects().any(|process| process.threads.are_runnable(buffer)) {
            std::thread::yield_now();
        }
    }

    pub(super) fn totals(&self) -> BTreeMap<String, Counters> {
        self.ledgers.iter().map(|(scope, ledger)| (scope.clone(), ledger.total().clone())).collect()
    }

    fn snapshot_processes(&mut self, at: Nanos, roles: Option<&[String]>, is_cheap: bool) -> Vec<ProcessSnapshot> {
        let reset = self.settings.reset_peaks && roles.is_none();
        let not_started: Vec<&str> =
            self.roots.iter().filter(|root| !root.own).map(|root| root.role.as_str()).collect();
        let asked = |role: &String| roles.is_none_or(|roles| roles.contains(role));
        let alive = self.processes.values_mut().filter(|process| asked(&process.role));
        alive
            .filter_map(|process| {
                let last = process.last.as_ref()?;
                let (sample, peak) = (last.sample(at)?, last.memory?.peak);
                let pss = if is_cheap { Reading::Missing(not_read()) } else { process.pss() };
                let peak_reset = reset && !not_started.contains(&process.role.as_str()) && process.reset_peak();
                Some(ProcessSnapshot { pid: process.pid, role: process.role.clone(), sample, pss, peak, peak_reset })
            })
            .collect()
    }

    fn read_store(&self) -> StoreReading {
        let store = match &self.settings.store {
            Reading::Measured(store) => store,
            Reading::Missing(why) => {
                let read = self.device.measured().is_some();
                let unwritten = if read { unwritten() } else { Reading::Missing(why.clone()) };
                return StoreReading { unwritten, ..StoreReading::missing(why) };
            }
        };
        let disk = cache::disk_usage(store);
        let cached = cache::resident(store);
        let unwritten = cache::or_nothing(store, cached.clone().and_then(|found| found.unwritten()));
        StoreReading { disk, cached, unwritten }
    }
}

fn not_read() -> Why {
    Why::NotSupported("it is not read while the server is under load".into())
}

fn sum(counters: &[SyncCounters]) -> Option<SyncCounts> {
    counters.iter().map(SyncCounters::read).reduce(|a, b| a.plus(&b))
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::path::PathBuf;
    use std::process::{Command, Stdio};

    use super::*;
    use crate::sample::state::Settings;

    #[test]
    fn cpu_time_of_threads_that_run_lacks_up_to_a_tick() {
        let lacks = |script: &str| {
            let mut shell = Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
            let mut lines = BufReader::new(shell.stdout.take().unwrap()).lines();
            lines.next().unwrap().unwrap();
            let mut state = State::new(vec![Root::subject(shell.id(), "worker")], Settings::default());
            // The shell may take a moment until it sleeps, and a busy machine may delay the reading of its clock.
            let ticks = (0..200)
                .map(|_| state.snapshot(None, false).cpu_lacks)
                .take_while(|lacks| *lacks >= scheduler_tick())
                .count();
            shell.kill().unwrap();
            shell.wait().unwrap();
            ticks
        };
        assert_eq!(lacks("echo; while :; do :; done"), 200);
        assert!(lacks("echo; exec sleep 1000") < 200);
    }

    /// What a program wrote in a phase was missing where it made its store there.
    #[test]
    fn store_that_does_not_exist_yet_has_no_dirty_pages() {
        let store = Reading::Measured(PathBuf::from("/no such store"));
        let read = State::new(vec![], Settings { store, ..Settings::default() }).read_store();
        assert_eq!(read.unwritten, Reading::Measured(Bytes::default()));
        assert!(read.disk.measured().is_none() && read.cached.measured().is_none());
    }

    /// Its CPU time was missing, so that no watch noticed its work.
    #[test]
    fn role_whose_group_cannot_be_read_has_the_cpu_time_of_its_processes() {
        let mut state = State::new(vec![Root::subject(std::process::id(), "db")], Settings::default());
        state.groups.insert("db".to_owned(), PathBuf::from("/no such group"));
        let counters = state.glance();
        for role in ["db", ""] {
            assert!(counters[role].on_cpu.measured().is_some_and(|time| *time > Nanos::ZERO), "{role}: {counters:?}");
        }
    }
}
