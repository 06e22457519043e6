//! A control group for one subject (measured process tree): made, limited, entered, read, killed and removed.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use prony_model::reading::Why;
use prony_model::spec::Limits;
use prony_model::units::Bytes;
use rustix::process::{Pid, PidfdFlags, Signal, geteuid, getpid, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

use super::figures::{Figures, Version};
use super::group_files::{processes, subgroups, write};
use super::hierarchy::Hierarchies;
use super::{cgroup_v1, cgroup_v2};
use crate::error::Error;
use crate::lock::Lock;
use crate::owner::ProcessId;
use crate::sample::parse;
use crate::why::kernel_text;

/// What a user can do where limits are not permitted.
fn hint(root: bool) -> &'static str {
    if root {
        "start prony in a control group of its own: `systemd-run --scope -p Delegate=yes prony ...`"
    } else {
        "run prony as root or, with control groups of version 2, in a control group of its own: \
         `systemd-run --user --scope -p Delegate=yes prony ...`"
    }
}

/// How a note about a directory that could not be made begins.
const REFUSAL: &str = "cannot make a control group";

/// How long removal waits for ended processes to leave their group.
const MOST_PATIENCE: Duration = Duration::from_secs(5);

/// A control group of one subject's process tree. A plain value: the group is removed by [`Group::remove`], by a
/// supervisor that was given it, or by [`super::sweep`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Group {
    name: String,
    v1: BTreeMap<String, PathBuf>,
    v2: Option<PathBuf>,
    v2_controllers: Vec<String>,
    memory: Option<Bytes>,
    notes: Vec<String>,
    /// A lock on each directory: no sweep removes what is locked.
    #[serde(skip)]
    locks: Locks,
}

/// Shared by the clones of a group and ignored by comparisons: a supervisor takes its own ([`Group::lock`]).
#[derive(Clone, Debug, Default)]
struct Locks(Vec<Arc<Lock>>);

impl PartialEq for Locks {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Group {
    /// Makes a group below our own and sets the limits on memory, cpus and pids. Without limits it counts and helps
    /// to kill as far as the machine permits, which may be not at all: see [`Group::notes`].
    ///
    /// # Errors
    /// [`Error::Limit`] when a requested limit cannot be enforced; then nothing is left behind.
    pub fn create(limits: &Limits) -> Result<Self, Error> {
        let name = ProcessId::current().next_name();
        Self::create_in(&Hierarchies::read(), name, limits, &|dir| fs::create_dir(dir))
    }

    /// Makes a group below our own that counts CPU time and does nothing else, in one hierarchy.
    pub fn for_counting() -> Self {
        let mut hierarchies = Hierarchies::read();
        hierarchies.v1.retain(|controller, _| controller == "cpuacct");
        let v2 = hierarchies.v2.take().filter(|_| hierarchies.v1.is_empty());
        let mut group = Self { name: ProcessId::current().next_name(), ..Self::default() };
        for (controller, parent) in &hierarchies.v1 {
            group.add_v1(controller, parent, &|dir| fs::create_dir(dir));
        }
        if let Some(parent) = &v2 {
            group.add_v2(parent, cgroup_v2::hand_down(parent, &[]), &|dir| fs::create_dir(dir));
        }
        group
    }

    /// The same in given hierarchies; `make` makes a directory with the files that a kernel would create there.
    fn create_in(
        hierarchies: &Hierarchies,
        name: String,
        limits: &Limits,
        make: &dyn Fn(&Path) -> io::Result<()>,
    ) -> Result<Self, Error> {
        let mut group = Self { name, ..Self::default() };
        // A group with the cpu controller competes with others as one unit, so that a subject of many threads would get
        // the share of one thread on a busy machine: we use it only if a limit is requested.
        let wanted = |controller: &str| controller != "cpu" || limits.cpus.is_some();
        for controller in cgroup_v1::CONTROLLERS.into_iter().filter(|controller| wanted(controller)) {
            if let Some(parent) = hierarchies.v1.get(controller) {
                group.add_v1(controller, parent, make);
            }
        }
        if let Some(parent) = &hierarchies.v2 {
            let controllers: Vec<&str> = cgroup_v2::CONTROLLERS.into_iter().filter(|name| wanted(name)).collect();
            let handed = cgroup_v2::hand_down(parent, &controllers);
            // Where version 1 counts CPU time and freezes, one of version 2 without controllers would only cost: moving a
            // process there stops all forks for an RCU grace period, 5 to 17 ms (`cgroup_attach_lock` in the kernel).
            let suffices = ["cpuacct", "freezer"].iter().all(|name| group.v1.contains_key(*name));
            if !(suffices && handed.is_empty()) {
                group.add_v2(parent, handed, make);
            }
        }
        match group.limit(limits) {
            Ok(()) => Ok(group),
            Err(error) => {
                // The user has to learn of the limit first.
                let _ = group.remove();
                Err(error)
            }
        }
    }

    fn add_v1(&mut self, controller: &str, parent: &Path, make: &dyn Fn(&Path) -> io::Result<()>) {
        let dir = parent.join(&self.name);
        // Controllers that are mounted together share a directory.
        let made = if self.v1.values().any(|made| *made == dir) { Ok(()) } else { self.make(&dir, make) };
        match made {
            Ok(()) => drop(self.v1.insert(controller.to_owned(), dir)),
            Err(error) => self.notes.push(format!("{REFUSAL} for `{controller}` in `{}`: {error}", parent.display())),
        }
    }

    fn add_v2(&mut self, parent: &Path, handed: Vec<String>, make: &dyn Fn(&Path) -> io::Result<()>) {
        let dir = parent.join(&self.name);
        match self.make(&dir, make) {
            Ok(()) => (self.v2, self.v2_controllers) = (Some(dir), handed),
            Err(error) => {
                self.notes.push(format!("{REFUSAL} of version 2 in `{}`: {error}", parent.display()));
            }
        }
    }

    /// Makes a directory that is locked; where control groups take no locks, no sweep removes it.
    fn make(&mut self, dir: &Path, make: &dyn Fn(&Path) -> io::Result<()>) -> io::Result<()> {
        self.locks.0.extend(Lock::of_new(dir, make)?.map(Arc::new));
        Ok(())
    }

    /// Locks the directories for this process too, which received the group from another process.
    pub(crate) fn lock(&mut self) {
        let locks: Vec<_> = self.directories().into_iter().filter_map(|dir| Lock::shared(dir).ok()).collect();
        self.locks.0.extend(locks.into_iter().map(Arc::new));
    }

    /// Where a controller works, version 1 first: a controller is only ever in one of the two.
    fn place(&self, controller: &str) -> Option<(Version, &Path)> {
        let handed = || self.v2_controllers.iter().any(|name| name == controller);
        let v1 = self.v1.get(controller).map(|dir| (Version::V1, dir.as_path()));
        v1.or_else(|| self.v2.as_deref().filter(|_| handed()).map(|dir| (Version::V2, dir)))
    }

    fn limit(&mut self, limits: &Limits) -> Result<(), Error> {
        if let Some(memory) = limits.memory {
            let how = self.set("memory", "memory", |version, dir| match version {
                Version::V1 => cgroup_v1::limit_memory(dir, memory),
                Version::V2 => cgroup_v2::limit_memory(dir, memory),
            })?;
            self.memory = Some(memory);
            self.notes.push(format!("swap cannot extend the memory limit: {how}"));
        }
        if let Some(cpus) = limits.cpus {
            self.set("cpus", "cpu", |version, dir| match version {
                Version::V1 => cgroup_v1::limit_cpus(dir, cpus),
                Version::V2 => cgroup_v2::limit_cpus(dir, cpus),
            })?;
        }
        if let Some(pids) = limits.pids {
            self.set("pids", "pids", |_, dir| write(dir, "pids.max", &pids.to_string()))?;
        }
        Ok(())
    }

    fn set<T>(
        &self,
        limit: &'static str,
        controller: &str,
        set: impl FnOnce(Version, &Path) -> io::Result<T>,
    ) -> Result<T, Error> {
        let refused = |why: String, hint| Error::Limit { limit, why, hint };
        let permission = hint(geteuid().is_root());
        let (version, dir) = self.place(controller).ok_or_else(|| {
            let note = self.refusals().find(|note| note.contains(controller) || note.contains("version 2"));
            let why = note.cloned().unwrap_or_else(|| format!("no control group with `{controller}` can be used"));
            refused(why, permission)
        })?;
        set(version, dir).map_err(|error| {
            // Errors of the kernel have a number.
            let is_ours = error.raw_os_error().is_none() && error.kind() == io::ErrorKind::Unsupported;
            let hint = if is_ours { cgroup_v2::SWAP_HINT } else { permission };
            refused(format!("the control group rejects the limit: {error}"), hint)
        })
    }

    /// The name of its directories.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The memory limit.
    pub const fn memory_limit(&self) -> Option<Bytes> {
        self.memory
    }

    /// Remarks on what does not work as intended, and how swap is excluded.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Notes of directories that could not be made.
    fn refusals(&self) -> impl Iterator<Item = &String> {
        self.notes.iter().filter(|note| note.starts_with(REFUSAL))
    }

    /// Every directory, each once.
    pub fn directories(&self) -> Vec<&Path> {
        let mut dirs: Vec<&Path> = self.v1.values().chain(&self.v2).map(PathBuf::as_path).collect();
        dirs.sort_unstable();
        dirs.dedup();
        dirs
    }

    /// The directory in which its CPU time is counted; `None` where there is none.
    pub fn counting(&self) -> Option<PathBuf> {
        self.v1.get("cpuacct").into_iter().chain(&self.v2).find(|dir| counts_cpu(dir)).cloned()
    }

    /// Where the memory controller, of version 1 or 2, has the group's files.
    pub(super) fn memory_dir(&self) -> Option<(Version, &Path)> {
        self.place("memory")
    }

    /// Files by which a process of one thread, writing `0`, moves itself into the group. In version 1 that comes without
    /// the pause for which the kernel stops all forks when a process is moved by another: what moves itself neither forks
    /// nor ends meanwhile (`cgroup_procs_write_start` in kernel/cgroup/cgroup.c).
    pub(crate) fn entrances(&self) -> Vec<PathBuf> {
        let by_thread = |dir: &Path| Some(dir.join("tasks")).filter(|file| file.exists());
        let entrance = |dir: &Path| by_thread(dir).unwrap_or_else(|| dir.join("cgroup.procs"));
        self.directories().into_iter().map(entrance).collect()
    }

    /// The group's current counters and sizes.
    pub fn figures(&self) -> Figures {
        let why = match self.refusals().next() {
            Some(note) => Why::NotPermitted(note.as_str().into()),
            None => Why::NotSupported("there is no control group that counts this".into()),
        };
        let mut figures = Figures::missing(&why);
        cgroup_v1::read(&self.v1, &mut figures);
        if let Some(dir) = &self.v2 {
            cgroup_v2::read(dir, &self.v2_controllers, &mut figures);
        }
        figures
    }

    /// Processes in the group and below, without this process.
    pub fn members(&self) -> Vec<i32> {
        let me = getpid().as_raw_pid();
        let mut all: Vec<i32> =
            self.directories().into_iter().flat_map(subgroups).flat_map(|d| processes(&d)).collect();
        all.sort_unstable();
        all.dedup();
        all.retain(|pid| *pid != me);
        all
    }

    /// Sends SIGKILL to all members, at once where the kernel can. They may take a moment to end.
    pub fn kill(&self) {
        let at_once = self.v2.as_deref().is_some_and(|dir| write(dir, "cgroup.kill", "1").is_ok());
        if at_once {
            return;
        }
        // Nothing forks while frozen; without a freezer, the kill is repeated.
        let freezer = self.v1.get("freezer");
        let freeze = |state| freezer.map(|dir| write(dir, "freezer.state", state));
        let _ = freeze("FROZEN");
        for pid in self.members() {
            self.kill_member(pid);
        }
        let _ = freeze("THAWED");
    }

    /// Sends SIGKILL to all members except one, one by one: children that they fork meanwhile have to be killed again.
    pub(crate) fn kill_but(&self, spared: i32) {
        for pid in self.members().into_iter().filter(|pid| *pid != spared) {
            self.kill_member(pid);
        }
    }

    /// Kills a process unless its pid now belongs to a process outside of the group.
    fn kill_member(&self, pid: i32) {
        let handle = Pid::from_raw(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        let groups = kernel_text(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        if let Some(handle) = handle
            && groups.contains(&self.name)
        {
            // A process that has ended meanwhile needs no signal.
            let _ = pidfd_send_signal(&handle, Signal::KILL);
        }
    }

    /// Removes the group and what was made below it. Its processes must have been killed; they are waited for a while.
    ///
    /// # Errors
    /// When a directory stays.
    pub fn remove(&self) -> Result<(), Error> {
        let deadline = Instant::now() + MOST_PATIENCE;
        for dir in self.directories() {
            while let Err(error) = remove_dirs(dir) {
                // Any error other than that of a process which is still ending is final.
                if error.kind() != io::ErrorKind::ResourceBusy || Instant::now() > deadline {
                    return Err(Error::file("remove", dir)(error));
                }
                self.kill();
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        Ok(())
    }

    /// The group of this name, with those of its directories that still exist.
    pub(super) fn existing(hierarchies: &Hierarchies, name: &str) -> Self {
        let there = |parent: &PathBuf| Some(parent.join(name)).filter(|dir| dir.is_dir());
        let v1 = hierarchies.v1.iter().filter_map(|(controller, parent)| Some((controller.clone(), there(parent)?)));
        let v2 = hierarchies.v2.as_ref().and_then(there);
        Self { name: name.to_owned(), v1: v1.collect(), v2, ..Self::default() }
    }
}

/// Whether the directory of a control group counts CPU time: no other counter includes children whose parent never waits. The
/// controller `cpu` of version 1 has a `cpu.stat` too, without that.
pub fn counts_cpu(dir: &Path) -> bool {
    let in_stat = || parse::cpu_stat_v2(&kernel_text(dir.join("cpu.stat")).ok()?);
    dir.join("cpuacct.usage").exists() || in_stat().is_some()
}

fn remove_dirs(dir: &Path) -> io::Result<()> {
    for sub in subgroups(dir) {
        match fs::remove_dir(&sub) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use prony_model::reading::Reading;
    use prony_model::units::Nanos;

    use super::*;

    /// Files that a kernel creates in a new version 2 group.
    fn make_v2(dir: &Path) -> io::Result<()> {
        fs::create_dir(dir)?;
        let files = [
            ("cgroup.procs", ""),
            ("memory.max", ""),
            ("memory.swap.max", ""),
            ("memory.oom.group", ""),
            ("cpu.max", ""),
            ("pids.max", ""),
            ("cpu.stat", "usage_usec 5\nuser_usec 3\nsystem_usec 2\nnr_periods 9\nnr_throttled 4\n"),
            ("memory.peak", "77"),
        ];
        files.into_iter().try_for_each(|(file, text)| fs::write(dir.join(file), text))
    }

    fn v2_machine(handed: &str) -> (tempfile::TempDir, Hierarchies) {
        let top = tempfile::tempdir().unwrap();
        fs::write(top.path().join("cgroup.controllers"), handed).unwrap();
        fs::write(top.path().join("cgroup.subtree_control"), handed).unwrap();
        let hierarchies = Hierarchies { v1: BTreeMap::new(), v2: Some(top.path().to_owned()) };
        (top, hierarchies)
    }

    fn enter(group: &Group, pid: u32) {
        group.directories().into_iter().for_each(|dir| write(dir, "cgroup.procs", &pid.to_string()).unwrap());
    }

    fn all_limits() -> Limits {
        Limits { memory: Some(Bytes::from_mib(1)), cpus: Some(2.0), pids: Some(9), ..Limits::default() }
    }

    #[test]
    fn version_2_takes_every_limit_and_the_process() {
        let (top, hierarchies) = v2_machine("cpu memory pids");
        let group = Group::create_in(&hierarchies, "g".into(), &all_limits(), &make_v2).unwrap();
        enter(&group, 77);
        let content = |file: &str| fs::read_to_string(top.path().join("g").join(file)).unwrap();
        let files = ["memory.max", "memory.swap.max", "memory.oom.group", "cpu.max", "pids.max", "cgroup.procs"];
        assert_eq!(files.map(content), ["1048576", "0", "1", "200000 100000", "9", "77"]);
        let figures = group.figures();
        assert_eq!(figures.peak, Reading::Measured(Bytes::from_bytes(77)));
        assert_eq!(figures.throttled, Reading::Measured(4));
        assert_eq!(group.members(), [77]);
    }

    #[test]
    fn a_limit_that_cannot_be_enforced_is_refused_and_leaves_nothing() {
        let (top, hierarchies) = v2_machine("cpu");
        let error = Group::create_in(&hierarchies, "g".into(), &all_limits(), &|dir| fs::create_dir(dir)).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("cannot limit memory of a process tree: "), "{text}");
        assert!(text.contains("\nhint: "), "{text}");
        assert!(!top.path().join("g").exists());
    }

    #[test]
    fn the_reason_for_a_refusal_is_the_first_cause() {
        let (_top, hierarchies) = v2_machine("memory");
        let refuse = |_: &Path| Err(io::Error::from(io::ErrorKind::PermissionDenied));
        let error = Group::create_in(&hierarchies, "g".into(), &all_limits(), &refuse).unwrap_err();
        assert!(error.to_string().contains("permission denied"), "{error}");
    }

    #[test]
    fn without_limits_a_group_is_what_the_machine_permits() {
        let group = Group::create_in(&Hierarchies::default(), "g".into(), &Limits::default(), &make_v2).unwrap();
        assert!(group.directories().is_empty());
        let none = Why::NotSupported("there is no control group that counts this".into());
        assert_eq!(group.figures(), Figures::missing(&none));
        group.remove().unwrap();
        let (_top, hierarchies) = v2_machine("");
        let group = Group::create_in(&hierarchies, "g".into(), &Limits::default(), &make_v2).unwrap();
        assert_eq!(group.figures().cpu, Reading::Measured(Nanos::from_micros(5)));
        assert!(matches!(group.figures().peak, Reading::Missing(_)));
    }

    #[test]
    fn version_2_without_controllers_is_left_where_version_1_has_all() {
        let (top, mut hierarchies) = v2_machine("");
        let v1 = tempfile::tempdir().unwrap();
        let of = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), v1.path().to_owned())).collect();
        let make = |dir: &Path| fs::create_dir(dir);
        let mut has_v2 = |name: &str, controllers: &[&str]| {
            hierarchies.v1 = of(controllers);
            let group = Group::create_in(&hierarchies, name.into(), &Limits::default(), &make).unwrap();
            group.v2 == Some(top.path().join(name))
        };
        assert!(!has_v2("a", &["cpuacct", "freezer", "memory"]));
        assert!(has_v2("b", &["cpuacct", "memory"]), "nothing holds the group still while it is killed");
        fs::write(top.path().join("cgroup.subtree_control"), "io").unwrap();
        assert!(has_v2("c", &["cpuacct", "freezer", "memory"]));
    }

    #[test]
    fn controllers_mounted_together_share_a_directory() {
        let top = tempfile::tempdir().unwrap();
        let v1 = ["memory", "cpuacct"].map(|name| (name.to_owned(), top.path().to_owned())).into();
        let hierarchies = Hierarchies { v1, v2: None };
        let group = Group::create_in(&hierarchies, "g".into(), &Limits::default(), &|dir| fs::create_dir(dir)).unwrap();
        assert_eq!(group.directories(), [top.path().join("g")]);
        assert!(group.notes().is_empty(), "{:?}", group.notes());
        group.remove().unwrap();
        assert!(!top.path().join("g").exists());
    }

    /// Without version 2 members are killed one by one, frozen or not. Needs permission to make groups.
    #[test]
    fn version_1_kill_ends_all_members() {
        let v1 = Hierarchies::read().v1;
        let name = ProcessId::current().next_name();
        let hierarchies = Hierarchies { v1, v2: None };
        let group = Group::create_in(&hierarchies, name, &Limits::default(), &|dir| fs::create_dir(dir)).unwrap();
        if group.directories().is_empty() {
            assert_ne!(std::env::var("PRONY_REQUIRE_ALL").as_deref(), Ok("1"), "{:?}", group.notes());
            eprintln!("SKIPPED: groups of version 1: {:?}", group.notes());
            return;
        }
        let mut sleepers: Vec<_> =
            (0..3).map(|_| std::process::Command::new("sleep").arg("3600").spawn().unwrap()).collect();
        sleepers.iter().for_each(|sleeper| enter(&group, sleeper.id()));
        assert_eq!(group.members().len(), 3);
        group.kill();
        for sleeper in &mut sleepers {
            assert_eq!(std::os::unix::process::ExitStatusExt::signal(&sleeper.wait().unwrap()), Some(libc::SIGKILL));
        }
        group.remove().unwrap();
    }

    #[test]
    fn the_cpu_controller_is_only_for_those_who_limit_it() {
        let top = tempfile::tempdir().unwrap();
        let v1 = [("cpu".to_owned(), top.path().to_owned())].into();
        let hierarchies = Hierarchies { v1, v2: None };
        let make = |dir: &Path| {
            fs::create_dir(dir)?;
            fs::write(dir.join("cpu.cfs_period_us"), "")?;
            fs::write(dir.join("cpu.cfs_quota_us"), "")
        };
        let none = Group::create_in(&hierarchies, "a".into(), &Limits::default(), &make).unwrap();
        assert!(none.directories().is_empty());
        let limits = Limits { cpus: Some(1.0), ..Limits::default() };
        let one = Group::create_in(&hierarchies, "b".into(), &limits, &make).unwrap();
        assert_eq!(one.directories(), [top.path().join("b")]);
    }

    /// With a CPU limit the group has a directory `cpu`, whose `cpu.stat` contains no CPU time and which was taken for the one.
    #[test]
    fn cpu_time_is_counted_by_cpuacct_or_version_2_and_not_by_the_cpu_controller() {
        let top = tempfile::tempdir().unwrap();
        let (cpu, cpuacct) = (top.path().join("cpu"), top.path().join("cpuacct"));
        [&cpu, &cpuacct].into_iter().for_each(|dir| fs::create_dir(dir).unwrap());
        fs::write(cpu.join("cpu.stat"), "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n").unwrap();
        fs::write(cpuacct.join("cpuacct.usage"), "5\n").unwrap();
        let both = [("cpu", &cpu), ("cpuacct", &cpuacct)].map(|(name, dir)| (name.to_owned(), dir.clone()));
        let mut group = Group { v1: both.into(), ..Group::default() };
        assert_eq!(group.counting(), Some(cpuacct));
        group.v1.remove("cpuacct");
        assert_eq!(group.counting(), None);
        let (v2, hierarchies) = v2_machine("");
        let group = Group::create_in(&hierarchies, "g".into(), &Limits::default(), &make_v2).unwrap();
        assert_eq!(group.counting(), Some(v2.path().join("g")));
    }

    #[test]
    fn a_group_is_sent_to_its_supervisor() {
        let (_top, hierarchies) = v2_machine("memory cpu pids");
        let group = Group::create_in(&hierarchies, "g".into(), &all_limits(), &make_v2).unwrap();
        let text = serde_json::to_string(&group).unwrap();
        assert_eq!(serde_json::from_str::<Group>(&text).unwrap(), group);
    }
}
