//! A snapshot: all counters and sizes that are read at one boundary (begin or end) of a phase.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use prony_model::reading::{Reading, Why};
use prony_model::record::{Pressure, ProcessSample};
use prony_model::units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

use super::counters::Counters;
use super::device::DeviceCounters;
use super::parse::{self, GroupCpu};
use super::sync::SyncCounts;
use crate::cache::{DiskUsage, Residency};
use crate::why::{parse_file, parsed};

/// The state of a trial at one instant: cumulative counters, so that two snapshots give exact amounts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// `CLOCK_MONOTONIC` when the cheap counters were read; the expensive ones follow.
    pub at: Nanos,
    /// How long taking the snapshot took, expensive counters included.
    pub took: Nanos,
    /// How long reading the store took, of that.
    pub store_took: Nanos,
    /// Live processes.
    pub processes: Vec<ProcessSnapshot>,
    /// The role of each process that has ended and for which its parent, one of the tree, has not waited.
    pub zombies: Vec<String>,
    /// Counters of each role, and of the whole tree under `""`, since the sampler began.
    pub totals: BTreeMap<String, Counters>,
    /// Whether the counters of the whole tree are without those of replicas, which its group counts.
    pub leaves_replicas_out: bool,
    /// Threads that can have been on a CPU: all, but no more than there are processors.
    pub most_running: u64,
    /// How much CPU time may be missing in `totals` and `group`: a scheduler tick for each running thread, whose time the
    /// kernel counts once a tick (`update_curr` in kernel/sched/fair.c), what threads can use while clocks are read one after
    /// the other, and without a group what ticks of procfs cut off.
    pub cpu_lacks: Nanos,
    /// CPU time of the trial's control group.
    pub group: Reading<GroupCpu>,
    /// CPU time of the control groups of roles that have one of their own.
    pub groups: BTreeMap<String, Reading<GroupCpu>>,
    /// Sync calls of each role whose processes are followed.
    pub syncs: BTreeMap<String, SyncCounts>,
    /// Of each role of which a process could not be read although it had not ended, when that was last and why.
    pub unread: BTreeMap<String, (Nanos, Why)>,
    /// How long some task of the machine has waited for each resource since it started.
    pub pressure: Pressure,
    /// What the store's device has done since the machine started.
    pub device: Reading<DeviceCounters>,
    /// Size of the store.
    pub disk: Reading<DiskUsage>,
    /// Pages of the store's files in the page cache.
    pub cached: Reading<Residency>,
    /// Dirty and writeback pages: of the store's files, of the whole machine where it is not known which these are. The kernel
    /// counts whole folios, of which one page may be dirty.
    pub unwritten: Reading<Bytes>,
}

impl Snapshot {
    /// The same with all that belongs to these roles under one name, and without the other roles. CPU time of groups is added
    /// up if each of the roles has a group.
    #[must_use]
    pub fn joined(&self, roles: &BTreeSet<String>, name: &str) -> Self {
        let own = |role: &&String| roles.contains(*role);
        let mut processes: Vec<ProcessSnapshot> =
            self.processes.iter().filter(|process| roles.contains(&process.role)).cloned().collect();
        processes.iter_mut().for_each(|process| name.clone_into(&mut process.role));
        let total = self.totals.iter().filter(|(role, _)| own(role)).map(|(_, total)| total.clone());
        let total = total.reduce(|sum, one| sum.plus(&one)).unwrap_or_default();
        let grouped = roles.iter().all(|role| self.groups.contains_key(role));
        let groups = self.groups.iter().filter(|(role, _)| own(role)).map(|(_, group)| group.clone());
        let group = groups.reduce(|sum, one| sum.and(one, GroupCpu::plus)).filter(|_| grouped);
        let syncs = self.syncs.iter().filter(|(role, _)| own(role)).map(|(_, counts)| counts.clone());
        let syncs = syncs.reduce(|sum, one| sum.plus(&one));
        let unread = self.unread.iter().filter(|(role, _)| own(role)).map(|(_, unread)| unread.clone());
        let unread = unread.max_by_key(|(at, _)| *at);
        Self {
            processes,
            totals: BTreeMap::from([(name.to_owned(), total)]),
            group: Reading::Missing(Why::NotApplicable),
            groups: group.map(|group| (name.to_owned(), group)).into_iter().collect(),
            syncs: syncs.into_iter().map(|counts| (name.to_owned(), counts)).collect(),
            unread: unread.into_iter().map(|unread| (name.to_owned(), unread)).collect(),
            ..self.clone()
        }
    }

    /// The same with what is expensive to read as an earlier snapshot has it.
    #[must_use]
    pub fn with_expensive_of(mut self, earlier: &Self) -> Self {
        for process in &mut self.processes {
            if let Some(before) = earlier.processes.iter().find(|before| before.pid == process.pid) {
                process.pss = before.pss.clone();
            }
        }
        let Self { disk, cached, unwritten, .. } = earlier.clone();
        Self { disk, cached, unwritten, ..self }
    }

    /// Adds what was used between two other snapshots to this one, so that later differences exclude it. Values of the
    /// device, the store and the machine do not change.
    pub fn credit(&mut self, from: &Self, to: &Self) {
        for (role, total) in &mut self.totals {
            let used = to.totals.get(role).zip(from.totals.get(role)).map(|(to, from)| to.since(from));
            *total = used.map_or_else(|| total.clone(), |used| total.plus(&used));
        }
        let group = to.group.clone().and(from.group.clone(), GroupCpu::since);
        self.group = self.group.clone().and(group, GroupCpu::plus);
        for (role, own) in &mut self.groups {
            let used = to.groups.get(role).cloned().zip(from.groups.get(role).cloned());
            let used = used.map(|(to, from)| to.and(from, GroupCpu::since));
            *own = used.map_or_else(|| own.clone(), |used| own.clone().and(used, GroupCpu::plus));
        }
        for (role, counts) in &mut self.syncs {
            let made = to.syncs.get(role).zip(from.syncs.get(role)).map(|(to, from)| to.since(from));
            *counts = made.map_or_else(|| counts.clone(), |made| counts.plus(&made));
        }
    }
}

/// One process at a snapshot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessSnapshot {
    /// Its pid.
    pub pid: u32,
    /// Its role.
    pub role: String,
    /// Its counters and sizes.
    pub sample: ProcessSample,
    /// Proportional set size.
    pub pss: Reading<Bytes>,
    /// The kernel's own peak of resident memory (`VmHWM`) since the snapshot before, where it was reset
    /// there or the process began later; since the process began otherwise.
    pub peak: Bytes,
    /// Whether the peak was reset at this snapshot.
    pub peak_reset: bool,
}

impl ProcessSnapshot {
    /// Why a process that ended before its proportional set size could be read has none.
    pub fn ended() -> Why {
        Why::Failed("the process had ended before its proportional set size was read".into())
    }

    /// Whether it ended before its proportional set size could be read.
    pub fn had_ended(&self) -> bool {
        self.pss == Reading::Missing(Self::ended())
    }
}

/// Of the whole machine, now.
pub fn pressure() -> Pressure {
    let of = |name: &str| parse_file(format!("/proc/pressure/{name}"), parse::pressure);
    Pressure { cpu: of("cpu"), io: of("io"), memory: of("memory") }
}

/// Dirty and writeback pages of the whole machine, now.
pub(crate) fn unwritten() -> Reading<Bytes> {
    parse_file("/proc/meminfo", parse::unwritten)
}

/// CPU time of a control group, v1 (`cpuacct`) or v2, by its directory.
pub(crate) fn group_cpu(directory: &Path) -> Reading<GroupCpu> {
    if directory.join(V1[0]).exists() {
        return parsed(GroupFiles::open(directory), &format!("`{}`", directory.display()))
            .and_then(|files| files.read());
    }
    parse_file(directory.join("cpu.stat"), parse::cpu_stat_v2)
}

/// The files of [`group_cpu`] of version 1, kept open: opening them takes too much of a short trial's time.
#[derive(Debug)]
pub struct GroupFiles([File; 3]);

/// The counters of version 1: in all, in user mode, in the kernel.
const V1: [&str; 3] = ["cpuacct.usage", "cpuacct.usage_user", "cpuacct.usage_sys"];

impl GroupFiles {
    /// Opens them; `None` where there are none.
    pub fn open(directory: &Path) -> Option<Self> {
        let [total, user, system] = V1.map(|name| File::open(directory.join(name)).ok());
        Some(Self([total?, user?, system?]))
    }

    /// CPU time of the group now.
    pub(crate) fn read(&self) -> Reading<GroupCpu> {
        let one = |file: &File| {
            let mut text = [0; 24];
            let length = file.read_at(&mut text, 0).ok()?;
            std::str::from_utf8(text.get(..length)?).ok()?.trim().parse().ok().map(Nanos::from_nanos)
        };
        let [total, user, system] = self.0.each_ref().map(one);
        let parts = || Some(GroupCpu { total: total?, user: user?, system: system? });
        parsed(parts(), "a control group's CPU time")
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn both_versions_of_groups_read() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        assert!(matches!(group_cpu(dir.path()), Reading::Missing(_)) && GroupFiles::open(dir.path()).is_none());
        write("cpu.stat", "usage_usec 5\nuser_usec 3\nsystem_usec 2\n");
        let micros = |total, user, system| GroupCpu {
            total: Nanos::from_micros(total),
            user: Nanos::from_micros(user),
            system: Nanos::from_micros(system),
        };
        assert_eq!(group_cpu(dir.path()), Reading::Measured(micros(5, 3, 2)));
        // A v1 hierarchy may hold a `cpu.stat` too, which counts something else.
        write("cpuacct.usage", "9000\n");
        assert!(matches!(group_cpu(dir.path()), Reading::Missing(_)));
        write("cpuacct.usage_user", "7000\n");
        write("cpuacct.usage_sys", "2000\n");
        assert_eq!(group_cpu(dir.path()), Reading::Measured(micros(9, 7, 2)));
        let open = GroupFiles::open(dir.path()).unwrap();
        write("cpuacct.usage", "12000\n");
        assert_eq!(open.read(), Reading::Measured(micros(12, 7, 2)), "as it is now");
        write("cpuacct.usage", "\n");
        assert!(matches!(open.read(), Reading::Missing(_)));
    }

    fn missing<T>() -> Reading<T> {
        Reading::Missing(Why::NotApplicable)
    }

    fn cpu(ms: u64) -> Reading<GroupCpu> {
        let time = Nanos::from_millis(ms);
        Reading::Measured(GroupCpu { total: time, user: time, system: Nanos::ZERO })
    }

    fn fsyncs(fsync: u64) -> SyncCounts {
        let [fsync, fdatasync, msync, sync_file_range, sync, syncfs] = [fsync, 0, 0, 0, 0, 0].map(Reading::Measured);
        SyncCounts { fsync, fdatasync, msync, sync_file_range, sync, syncfs }
    }

    /// At which the tree had used this much CPU time, and called `fsync` as often.
    fn at(ms: u64) -> Snapshot {
        let at = Nanos::from_millis(ms);
        let counters = Counters { cpu_user: at, minor_faults: ms, ..Counters::default() };
        Snapshot {
            at,
            took: Nanos::ZERO,
            store_took: Nanos::ZERO,
            leaves_replicas_out: false,
            most_running: 0,
            cpu_lacks: Nanos::ZERO,
            processes: Vec::new(),
            zombies: Vec::new(),
            totals: BTreeMap::from([(String::new(), counters)]),
            group: cpu(ms),
            groups: BTreeMap::from([("db.1".to_owned(), cpu(ms))]),
            syncs: BTreeMap::from([("x".to_owned(), fsyncs(ms))]),
            unread: BTreeMap::new(),
            pressure: Pressure { cpu: missing(), io: missing(), memory: missing() },
            device: missing(),
            disk: missing(),
            cached: missing(),
            unwritten: missing(),
        }
    }

    #[test]
    fn what_is_credited_is_not_counted_again() {
        let mut begin = at(10);
        begin.credit(&at(30), &at(70));
        let used = at(100).totals[""].since(&begin.totals[""]);
        assert_eq!((used.cpu_user, used.minor_faults), (Nanos::from_millis(50), 50));
        assert_eq!(begin.group.measured().unwrap().total, Nanos::from_millis(50));
        assert_eq!(begin.groups["db.1"], cpu(50));
        assert_eq!(begin.syncs["x"].fsync, Reading::Measured(50));
        assert_eq!(begin.at, at(10).at);
    }

    #[test]
    fn joined_roles_are_one_role_and_the_only_one() {
        let mut all = at(10);
        let process = |pid, role: &str| ProcessSnapshot {
            pid,
            role: role.to_owned(),
            sample: ProcessSample::default(),
            pss: missing(),
            peak: Bytes::default(),
            peak_reset: true,
        };
        all.processes = vec![process(1, "api"), process(2, "db.1"), process(3, "db.2"), process(4, "db.2")];
        for (role, faults) in [("api", 100), ("db.1", 20), ("db.2", 30)] {
            all.totals.insert(role.to_owned(), Counters { minor_faults: faults, ..Counters::default() });
            all.syncs.insert(role.to_owned(), fsyncs(faults));
            all.groups.insert(role.to_owned(), cpu(faults));
            all.unread.insert(role.to_owned(), (Nanos::from_millis(faults), Why::NotApplicable));
        }
        let of = |snapshot: &Snapshot, roles: &[&str]| {
            snapshot.joined(&roles.iter().map(|role| (*role).to_owned()).collect(), "db")
        };
        let db = of(&all, &["db.1", "db.2"]);
        let found: Vec<_> = db.processes.iter().map(|process| (process.pid, process.role.as_str())).collect();
        assert_eq!(found, [(2, "db"), (3, "db"), (4, "db")]);
        assert_eq!((db.totals.len(), db.totals["db"].minor_faults), (1, 50));
        assert_eq!(db.groups, BTreeMap::from([("db".to_owned(), cpu(50))]));
        assert_eq!(db.syncs, BTreeMap::from([("db".to_owned(), fsyncs(50))]));
        assert_eq!(db.unread, BTreeMap::from([("db".to_owned(), (Nanos::from_millis(30), Why::NotApplicable))]));
        assert_eq!(db.group, missing(), "the trial's own group has all of them");
        all.groups.remove("db.2");
        let partly = of(&all, &["db.1", "db.2"]);
        assert_eq!(partly.groups, BTreeMap::new(), "the group of one is not the time of both");
        let none = of(&all, &["db.3"]);
        assert_eq!((none.processes.len(), none.totals["db"].minor_faults, none.syncs.len()), (0, 0, 0));
    }

    #[test]
    fn process_had_ended_where_its_proportional_set_size_says_so() {
        let of = |pss| ProcessSnapshot {
            pid: 1,
            role: String::new(),
            sample: ProcessSample::default(),
            pss,
            peak: Bytes::default(),
            peak_reset: false,
        };
        assert!(of(Reading::Missing(ProcessSnapshot::ended())).had_ended());
        assert!(!of(missing()).had_ended() && !of(Reading::Measured(Bytes::default())).had_ended());
    }

    #[test]
    fn unwritten_pages_of_the_machine_are_known_on_every_linux() {
        assert!(matches!(unwritten(), Reading::Measured(_)));
    }

    #[test]
    fn pressure_is_a_difference_of_totals() {
        let at = |us| Pressure {
            cpu: Reading::Measured(Nanos::from_micros(us)),
            io: Reading::Measured(Nanos::from_micros(2 * us)),
            memory: Reading::Missing(Why::NotSupported("no PSI".into())),
        };
        let added = at(10).since(&at(4));
        assert_eq!(added.cpu, Reading::Measured(Nanos::from_micros(6)));
        assert_eq!(added.io, Reading::Measured(Nanos::from_micros(12)));
        assert!(matches!(added.memory, Reading::Missing(_)));
    }
}
