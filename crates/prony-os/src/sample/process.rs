//! Reads one live process through files that stay open.

use std::cmp::Ordering;
use std::fs;
use std::io;
use std::path::Path;

use prony_model::reading::Reading;
use prony_model::record::ProcessSample;
use prony_model::units::{Bytes, Nanos};
use rustix::process::Pid;

use super::counters::Counters;
use super::heirs::Amounts;
use super::parse::{self, Memory, Stat};
use super::proc_file::{ProcFile, ended, read_once};
use super::snapshot::ProcessSnapshot;
use super::threads::{STALE, Threads};
use super::tree::threads;
use crate::sys::cpu_clock;
use crate::sys::memory::share_memory;
use crate::why::{parsed, why};

/// The result of one round for a process.
#[derive(Clone, Debug)]
pub(crate) struct Observation {
    /// Counters of the process and of the children it waited for.
    pub(crate) counters: Counters,
    /// Counters of the children only.
    pub(crate) inherited: Counters,
    /// Its memory; `None` once it is a zombie.
    pub(crate) memory: Option<Memory>,
    pub(crate) vsz: Bytes,
    pub(crate) threads: u32,
}

impl Observation {
    /// Bytes read and written.
    fn io(&self) -> Reading<(Bytes, Bytes)> {
        self.counters.read.clone().and(self.counters.written.clone(), |read, written| (read, written))
    }

    /// As a sample of the series: counters of the process itself; `None` for a zombie.
    pub(crate) fn sample(&self, at: Nanos) -> Option<ProcessSample> {
        let memory = self.memory?;
        let own = self.counters.since(&self.inherited);
        Some(ProcessSample {
            at,
            cpu_user: own.cpu_user,
            cpu_system: own.cpu_system,
            on_cpu: own.on_cpu.measured().copied(),
            cpu_wait: own.cpu_wait.measured().copied(),
            anon: memory.anon,
            file: memory.file,
            shared: memory.shared,
            vsz: self.vsz,
            swap: memory.swap,
            threads: self.threads,
            read: own.read.measured().copied(),
            written: own.written.measured().copied(),
            minor_faults: own.minor_faults,
            major_faults: own.major_faults,
            switches_voluntary: own.switches_voluntary,
            switches_forced: own.switches_forced,
        })
    }
}

/// How to read a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    /// A clock tick of procfs.
    pub(crate) tick: Nanos,
    /// The current instant.
    pub(crate) at: Nanos,
    /// How much of it.
    pub(crate) detail: Detail,
}

/// How much of a process is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    /// Memory, CPU time, bytes read and written; other counters of a process that has used less than [`LITTLE`] CPU time
    /// since they were read may be up to [`STALE`] old, unless it was found as lately: for a sample of the series.
    Series,
    /// Every counter of a process that has run since they were read.
    Changed,
    /// Everything, unchanged or not: at snapshots.
    All,
}

/// A clock tick of procfs: what `stat` shows of CPU time is no finer.
const LITTLE: Nanos = Nanos::from_millis(10);

/// If `statm` says that memory has not changed, `status` is still read again after so long: one kind of pages may have
/// grown by as much as another shrank.
const UNCHANGED: Nanos = Nanos::from_secs(5);

impl Ask {
    /// Whether counters need not be read of a process that has used so much CPU time since they were, so long ago; and was
    /// found so long ago: a young one may not have executed its program yet, and all that it does may be little.
    fn spares(self, used: Nanos, (age, known): (Nanos, Nanos)) -> bool {
        match self.detail {
            Detail::Series => used == Nanos::ZERO || (used < LITTLE && age < STALE && known >= STALE),
            Detail::Changed => used == Nanos::ZERO,
            Detail::All => false,
        }
    }
}

/// A process under observation.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) role: String,
    pub(crate) command: String,
    pub(crate) last: Option<Observation>,
    pub(crate) threads: Threads,
    /// The directory of the thread that shows its memory.
    directory: String,
    stat: ProcFile,
    statm: ProcFile,
    status: ProcFile,
    io: ProcFile,
    /// Its CPU clock when its counters were last read, and when that was.
    counters_at: Option<(Nanos, Nanos)>,
    /// The first round that read it.
    found_at: Nanos,
    /// The last round that read it.
    pub(crate) observed_at: Nanos,
    /// Its parent when its counters were last read.
    pub(crate) parent: u32,
    /// What it had inherited by the last round, or when it was found.
    inherited_before: Amounts,
    /// Its address space when `statm` was last read.
    vsz: Bytes,
    /// File-backed and shared pages when `status` was last read.
    file_and_shared: u64,
    /// When that was.
    status_at: Nanos,
    /// Anonymous memory then.
    status_anon: Bytes,
    /// When `statm` was last read.
    statm_at: Nanos,
    /// When the context switches of its threads were last read.
    switches_at: Nanos,
    /// Whether its memory was that of its parent when it was read last; not known before.
    is_in_parents_memory: bool,
    /// In how many readings it had waited for children since the one before.
    waited: u64,
    /// Whether it may have pages of hugetlbfs, which `statm` does not count.
    pub(crate) may_have_huge_pages: bool,
}

impl Process {
    pub(crate) fn new(pid: u32, role: String) -> Self {
        let file = |name: &str| ProcFile::new(format!("/proc/{pid}/{name}"));
        Self {
            pid,
            role,
            command: String::new(),
            last: None,
            threads: Threads::new(pid),
            directory: format!("/proc/{pid}"),
            stat: file("stat"),
            statm: file("statm"),
            status: file("status"),
            io: file("io"),
            counters_at: None,
            found_at: Nanos::ZERO,
            observed_at: Nanos::ZERO,
            parent: 0,
            inherited_before: Amounts::default(),
            vsz: Bytes::default(),
            file_and_shared: 0,
            status_at: Nanos::ZERO,
            status_anon: Bytes::default(),
            statm_at: Nanos::ZERO,
            switches_at: Nanos::ZERO,
            is_in_parents_memory: true,
            waited: 0,
            may_have_huge_pages: false,
        }
    }

    /// Reads what `ask` says. If the process has not run since its counters were read, which its CPU clock shows for a tenth
    /// of the cost, only its memory can have changed, as the kernel may reclaim pages. That is read again after [`STALE`].
    ///
    /// # Errors
    /// Where the process has ended; its last counters are then in [`Self::last`].
    pub(crate) fn observe(&mut self, ask: Ask, buffer: &mut Vec<u8>) -> io::Result<&Observation> {
        let clock = cpu_clock::process_cpu(self.pid);
        let read = clock.as_ref().ok().zip(self.counters_at).filter(|(now, (then, _))| *now >= then);
        if let Some((now, (then, at))) = read
            && ask.spares(now.since(then), (ask.at.since(at), ask.at.since(self.found_at)))
        {
            return self.spared(*now, *now == then, ask, buffer);
        }
        let memory = self.memory(self.last.as_ref().and_then(|last| last.memory), ask, buffer)?;
        let unexpected = || io::Error::other("`/proc/PID/stat` has an unexpected form");
        let stat = parse::stat(self.stat.read(buffer)?).ok_or_else(unexpected)?;
        self.read_threads(ask, buffer);
        // One in its parent's memory is about to execute a program.
        let counted = clock.as_ref().ok().filter(|_| !self.is_in_parents_memory);
        self.counters_at = counted.map(|clock| (*clock, ask.at));
        // Exact where all threads were found asleep before it is read.
        let clock = if ask.detail == Detail::All {
            cpu_clock::process_cpu(self.pid).inspect(|clock| self.threads.find_unsampled(*clock))
        } else {
            clock
        };
        let clock = clock.map_or_else(|e| Reading::Missing(why("CPU clock", &e)), Reading::Measured);
        let inherited = inherited(&stat, ask.tick);
        // Every process that ever ran has page faults.
        let before = self.last.as_ref().map_or(0, |last| last.inherited.minor_faults);
        self.waited += u64::from(inherited.minor_faults > before);
        let mut counters = self.own(&stat, clock, ask.tick, buffer)?.plus(&inherited);
        let has = |of: fn(Memory) -> bool| u64::from(memory.is_some_and(of));
        counters.unread_switches = self.threads.ended_count() + self.waited;
        (counters.ignores_children, counters.huge) = (has(|memory| memory.ignores_children), has(|memory| memory.huge));
        if self.last.is_none() {
            (self.found_at, self.inherited_before) = (ask.at, Amounts::of(&inherited));
        }
        (self.observed_at, self.parent, self.command) = (ask.at, stat.parent, stat.command);
        Ok(self.last.insert(Observation { counters, inherited, memory, vsz: self.vsz, threads: stat.threads }))
    }

    /// The last observation with what changes most; of a process that is `idle`, what may change without it.
    fn spared(&mut self, clock: Nanos, idle: bool, ask: Ask, buffer: &mut Vec<u8>) -> io::Result<&Observation> {
        let known = self.last.as_ref().and_then(|last| last.memory);
        let fresh = idle && ask.at.since(self.statm_at) < STALE;
        let memory = if fresh { known } else { self.memory(known, ask, buffer)? };
        let io = if idle { None } else { Some(self.read_io(buffer)?) };
        let last = self.last.as_mut().ok_or_else(|| io::Error::other("the process was never observed"))?;
        let counters = &mut last.counters;
        counters.huge = u64::from(memory.is_some_and(|memory| memory.huge));
        counters.on_cpu = last.inherited.on_cpu.clone().map(|inherited| clock + inherited);
        if let Some(io) = io {
            (counters.read, counters.written) = (io.clone().map(|io| io.0), io.map(|io| io.1));
        }
        (last.memory, last.vsz, self.observed_at) = (memory, self.vsz, ask.at);
        Ok(last)
    }

    /// The next round reads its counters, whatever its CPU clock shows: that of a running thread stands still for a
    /// scheduler tick.
    pub(crate) fn must_be_read(&mut self) {
        self.counters_at = None;
    }

    /// What it has inherited since the last call, or since it was found.
    pub(crate) fn newly_inherited(&mut self) -> Amounts {
        let Some(last) = &self.last else { return Amounts::default() };
        let now = Amounts::of(&last.inherited);
        now.since(std::mem::replace(&mut self.inherited_before, now))
    }

    /// Counters without the waited-for children, but for bytes read and written, which the kernel adds up.
    fn own(&self, stat: &Stat, on_cpu: Reading<Nanos>, tick: Nanos, buffer: &mut Vec<u8>) -> io::Result<Counters> {
        let io = self.read_io(buffer)?;
        let (cpu_wait, switches_voluntary, switches_forced) = self.threads.totals();
        Ok(Counters {
            cpu_user: ticks(stat.user, tick),
            cpu_system: ticks(stat.system, tick),
            on_cpu,
            cpu_wait,
            read: io.clone().map(|io| io.0),
            written: io.map(|io| io.1),
            minor_faults: stat.minor_faults,
            major_faults: stat.major_faults,
            switches_voluntary,
            switches_forced,
            ..Counters::default()
        })
    }

    /// Bytes read and written; of a zombie whose file may not be read what is known, as who waits for it inherits them.
    ///
    /// # Errors
    /// Where the process has ended since its `stat` was read: what it wrote was in the last round, or is in none.
    fn read_io(&self, buffer: &mut Vec<u8>) -> io::Result<Reading<(Bytes, Bytes)>> {
        let what = "`/proc/PID/io`";
        match self.io.text(buffer) {
            Ok(text) => Ok(parsed(parse::io(&text), what)),
            Err(error) if ended(&error) && !self.lacks(&error) => Err(error),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && self.is_zombie() => {
                // By the id of a thread that runs on it is that of the whole process too.
                let id = self.directory.rsplit('/').next().unwrap_or_default();
                let by_thread = read_once(&format!("/proc/{id}/io")).ok().and_then(|text| parse::io(&text));
                let known = || self.last.as_ref().map_or(Reading::Measured(Default::default()), Observation::io);
                Ok(by_thread.map_or_else(known, Reading::Measured))
            }
            Err(error) => Ok(Reading::Missing(why(what, &error))),
        }
    }

    /// Whether it has ended and nobody has waited for it yet. Its files that only its user may read belong to root then
    /// (`task_dump_owner` in fs/proc/base.c).
    fn is_zombie(&self) -> bool {
        let stat = self.stat.read(&mut Vec::new()).ok().and_then(parse::stat);
        stat.is_some_and(|stat| matches!(stat.state, 'Z' | 'X'))
    }

    fn read_threads(&mut self, ask: Ask, buffer: &mut Vec<u8>) {
        let all = ask.detail == Detail::All;
        let switches = all || ask.at.since(self.switches_at) >= STALE;
        if switches {
            self.switches_at = ask.at;
        }
        self.threads.read(ask.at, (all, switches), buffer);
    }

    /// Its memory, as [`Self::memory_of_thread`] reads it. `/proc/PID` has that of the first thread, and none once that has ended, though
    /// others may run on; then it is that of another thread.
    fn memory(&mut self, known: Option<Memory>, ask: Ask, buffer: &mut Vec<u8>) -> io::Result<Option<Memory>> {
        let memory = self.memory_of_thread(known, ask, buffer)?;
        if memory.is_some() || !self.finds_memory_of_another_thread() {
            return Ok(memory);
        }
        self.memory_of_thread(None, ask, buffer)
    }

    /// Whether a thread has memory; its files are read from then on.
    fn finds_memory_of_another_thread(&mut self) -> bool {
        let directories = threads(self.pid).into_iter().map(|tid| format!("/proc/{}/task/{tid}", self.pid));
        let has_memory = |directory: &String| {
            read_once(&format!("{directory}/status")).is_ok_and(|text| parse::memory(&text).is_some())
        };
        let Some(directory) = directories.into_iter().find(has_memory) else { return false };
        self.statm = ProcFile::new(format!("{directory}/statm"));
        self.status = ProcFile::new(format!("{directory}/status"));
        self.directory = directory;
        true
    }

    /// Memory by `status`, or by `statm` at a fifth of the price. That separates anonymous memory from all other, exactly as
    /// `status` does, but not file pages from shared ones, and has no swap: it serves while file and shared pages together stay
    /// the same: for [`UNCHANGED`] where all is as `status` last had it, for [`STALE`] where anonymous memory has grown, and not
    /// where it shrinks, as it would by swapping; nor where there may be huge pages.
    ///
    /// # Errors
    /// Where a process that has not ended cannot be read: a zombie, which has no memory, can.
    fn memory_of_thread(
        &mut self,
        known: Option<Memory>,
        ask: Ask,
        buffer: &mut Vec<u8>,
    ) -> io::Result<Option<Memory>> {
        if self.finds_itself_in_parents_memory(buffer) {
            (self.statm_at, self.vsz) = (ask.at, Bytes::default());
            let none = |of_parent: Memory| Memory { ignores_children: of_parent.ignores_children, ..Memory::default() };
            return Ok(unless_ended(self.status.text(buffer))?.and_then(|text| parse::memory(&text)).map(none));
        }
        let pages = unless_ended(self.statm.text(buffer))?.and_then(|text| parse::statm(&text)).unwrap_or_default();
        let bytes = |pages: u64| Bytes::from_bytes(pages * rustix::param::page_size() as u64);
        let anon = bytes(pages.anon);
        (self.statm_at, self.vsz) = (ask.at, bytes(pages.size));
        let lasts = |known: &Memory| match anon.cmp(&known.anon) {
            Ordering::Less => Nanos::ZERO,
            Ordering::Equal if anon == self.status_anon => UNCHANGED,
            Ordering::Equal | Ordering::Greater => STALE,
        };
        let (same, age) = (pages.file_and_shared == self.file_and_shared, ask.at.since(self.status_at));
        let serves = ask.detail != Detail::All && same && !self.may_have_huge_pages;
        if let Some(known) = known.filter(|known| serves && age < lasts(known)) {
            return Ok(Some(Memory { anon, ..known }));
        }
        (self.file_and_shared, self.status_anon, self.status_at) = (pages.file_and_shared, anon, ask.at);
        Ok(unless_ended(self.status.text(buffer))?.and_then(|text| parse::memory(&text)))
    }

    /// Whether it still has its parent's memory, which is none of its own: between `vfork` or `posix_spawn` and the program that it
    /// executes. A process that has left that memory never returns to it, so that most are asked once.
    fn finds_itself_in_parents_memory(&mut self, buffer: &mut Vec<u8>) -> bool {
        let pid = |pid: u32| Pid::from_raw(pid.cast_signed());
        if self.is_in_parents_memory {
            let parent = self.stat.read(buffer).ok().and_then(parse::stat).and_then(|stat| pid(stat.parent));
            self.is_in_parents_memory =
                parent.zip(pid(self.pid)).is_some_and(|(parent, child)| share_memory(parent, child));
        }
        self.is_in_parents_memory
    }

    /// Proportional set size; expensive (5 us per mapped MB, under the memory map's lock), so at snapshots only.
    pub(crate) fn pss(&self) -> Reading<Bytes> {
        if self.last.is_some() && self.is_in_parents_memory {
            return Reading::Measured(Bytes::default());
        }
        let path = format!("{}/smaps_rollup", self.directory);
        match read_once(&path) {
            Ok(text) => parsed(parse::pss(&text), &format!("`{path}`")),
            Err(error) if ended(&error) && !self.lacks(&error) => Reading::Missing(ProcessSnapshot::ended()),
            Err(error) => Reading::Missing(why(&format!("`{path}`"), &error)),
        }
    }

    /// Whether a file is missing of a process that is there: a kernel may not have it (`smaps_rollup` came with 4.14).
    fn lacks(&self, error: &io::Error) -> bool {
        error.kind() == io::ErrorKind::NotFound && Path::new(&format!("/proc/{}", self.pid)).exists()
    }

    /// Resets the kernel's peak of resident memory; whether it could.
    pub(crate) fn reset_peak(&self) -> bool {
        fs::write(format!("{}/clear_refs", self.directory), "5").is_ok()
    }
}

/// Whether the machine gives out pages of hugetlbfs.
pub(super) fn has_huge_pages() -> bool {
    let sizes = fs::read_dir("/sys/kernel/mm/hugepages").into_iter().flatten().flatten();
    let counts = sizes.flat_map(|size| ["nr_hugepages", "nr_overcommit_hugepages"].map(|name| size.path().join(name)));
    counts.into_iter().any(|count| fs::read_to_string(count).is_ok_and(|count| count.trim() != "0"))
}

/// Nothing of a process that has ended.
fn unless_ended<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Err(error) if ended(&error) => Ok(None),
        read => read.map(Some),
    }
}

fn ticks(count: u64, tick: Nanos) -> Nanos {
    Nanos::from_nanos(count.saturating_mul(tick.as_nanos()))
}

/// What the process inherited from children when it waited for them.
pub(super) fn inherited(stat: &Stat, tick: Nanos) -> Counters {
    let (user, system) = (ticks(stat.user_children, tick), ticks(stat.system_children, tick));
    Counters {
        cpu_user: user,
        cpu_system: system,
        on_cpu: Reading::Measured(user + system),
        minor_faults: stat.minor_faults_children,
        major_faults: stat.major_faults_children,
        child_faults: stat.minor_faults_children,
        ..Counters::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed() -> Observation {
        let own = Counters { cpu_user: Nanos::from_millis(30), minor_faults: 7, ..Counters::default() };
        let inherited = Counters { cpu_user: Nanos::from_millis(20), minor_faults: 5, ..Counters::default() };
        Observation {
            counters: own.plus(&inherited),
            inherited,
            memory: Some(Memory { anon: Bytes::from_kib(8), ..Memory::default() }),
            vsz: Bytes::from_mib(3),
            threads: 2,
        }
    }

    #[test]
    fn sample_contains_only_the_process() {
        let sample = observed().sample(Nanos::from_secs(1)).unwrap();
        assert_eq!((sample.cpu_user, sample.minor_faults), (Nanos::from_millis(30), 7));
        assert_eq!((sample.rss(), sample.vsz, sample.threads), (Bytes::from_kib(8), Bytes::from_mib(3), 2));
    }

    #[test]
    fn a_zombie_leaves_no_sample() {
        let zombie = Observation { memory: None, ..observed() };
        assert_eq!(zombie.sample(Nanos::ZERO), None);
    }

    #[test]
    fn pss_of_a_process_that_ended_is_missing_for_that_reason() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let process = Process::new(child.id(), "worker".into());
        // A zombie first, then nothing.
        let id = rustix::process::Pid::from_child(&child);
        let zombie = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
        rustix::process::waitid(rustix::process::WaitId::Pid(id), zombie).unwrap();
        assert_eq!(process.pss(), Reading::Missing(ProcessSnapshot::ended()));
        child.wait().unwrap();
        assert_eq!(process.pss(), Reading::Missing(ProcessSnapshot::ended()));
        let missing = io::Error::from(io::ErrorKind::NotFound);
        assert!(Process::new(std::process::id(), "worker".into()).lacks(&missing) && !process.lacks(&missing));
    }

    /// For an ordinary user, one zombie made the bytes of the rest of a trial missing.
    #[test]
    fn zombie_whose_bytes_may_not_be_read_keeps_those_that_are_known() {
        let bytes = |amount| Reading::Measured((Bytes::from_bytes(amount), Bytes::from_bytes(amount)));
        let of_zombie = move || {
            if rustix::process::geteuid().is_root() {
                let nobody = rustix::process::Uid::from_raw(65534);
                rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            }
            let mut child = std::process::Command::new("true").spawn().unwrap();
            let id = rustix::process::WaitId::Pid(rustix::process::Pid::from_child(&child));
            let zombie = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
            rustix::process::waitid(id, zombie).unwrap();
            let mut process = Process::new(child.id(), "worker".into());
            let first = process.read_io(&mut Vec::new()).unwrap();
            let known =
                Counters { read: bytes(7).map(|io| io.0), written: bytes(7).map(|io| io.1), ..Counters::default() };
            process.last = Some(Observation { counters: known, ..observed() });
            let second = process.read_io(&mut Vec::new()).unwrap();
            child.wait().unwrap();
            (first, second)
        };
        // The user of this thread alone is changed.
        assert_eq!(std::thread::spawn(of_zombie).join().unwrap(), (bytes(0), bytes(7)));
    }

    /// It looked like one that has ended: without memory.
    #[test]
    fn process_that_cannot_be_read_is_no_zombie() {
        let mut process = Process::new(std::process::id(), "worker".into());
        process.status = ProcFile::new("/proc".into());
        let ask = Ask { tick: Nanos::from_millis(10), at: Nanos::ZERO, detail: Detail::All };
        let error = process.observe(ask, &mut Vec::new()).unwrap_err();
        assert!(!ended(&error) && error.kind() == io::ErrorKind::IsADirectory, "{error}");
    }

    /// If it ends between two files of one round, the readings of the other files remain.
    #[test]
    fn process_that_ends_while_it_is_read_has_ended() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let mut process = Process::new(child.id(), "worker".into());
        child.wait().unwrap();
        process.stat = ProcFile::new("/proc/self/stat".into());
        let ask = Ask { tick: Nanos::from_millis(10), at: Nanos::ZERO, detail: Detail::All };
        assert!(ended(&process.observe(ask, &mut Vec::new()).unwrap_err()));
    }

    /// Children that were sampled between `posix_spawn` and the program that they execute doubled the memory of their tree.
    #[test]
    fn memory_of_the_parent_is_none_of_a_child_that_still_has_it() {
        let child = crate::sys::memory::tests::InOurMemory::start();
        let mut process = Process::new(child.pid.as_raw_pid().cast_unsigned(), "worker".into());
        let at = |ms: u64| Ask { tick: Nanos::from_millis(10), at: Nanos::from_millis(ms), detail: Detail::Series };
        for ms in [10_000, 10_100, 20_000] {
            let sample = process.observe(at(ms), &mut Vec::new()).unwrap().sample(Nanos::ZERO).unwrap();
            assert_eq!((sample.rss(), sample.vsz, sample.threads), (Bytes::default(), Bytes::default(), 1));
        }
        assert_eq!(process.pss(), Reading::Measured(Bytes::default()));
        drop(child);
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        crate::sys::memory::wait_for_own_memory(Pid::from_child(&child));
        let mut process = Process::new(child.id(), "worker".into());
        assert!(
            process.observe(at(10_000), &mut Vec::new()).unwrap().sample(Nanos::ZERO).unwrap().anon > Bytes::default()
        );
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// A process that runs while its memory stays the same: reading `status` was most of the sampling's cost.
    #[test]
    fn status_is_read_anew_only_where_statm_does_not_serve() {
        let mut process = Process::new(std::process::id(), "worker".into());
        let at = |ms: u64| Ask { tick: Nanos::from_millis(10), at: Nanos::from_millis(ms), detail: Detail::Changed };
        process.observe(at(10_000), &mut Vec::new()).unwrap();
        let known = Memory { anon: Bytes::from_bytes(0), ..process.last.as_ref().unwrap().memory.unwrap() };
        // Other tests of this process may map files meanwhile.
        let mut read = |known: Memory, ms: u64| {
            (0..1000).find_map(|_| {
                process.memory(None, at(10_000), &mut Vec::new()).unwrap();
                let found = process.memory(Some(known), at(ms), &mut Vec::new()).unwrap().unwrap();
                (found.peak == known.peak).then_some(found)
            })
        };
        let marked = Memory { peak: Bytes::from_bytes(1), ..known };
        let grown = read(marked, 10_500).expect("`statm` serves");
        assert!(grown.anon > Bytes::from_kib(100) && (grown.swap, grown.file) == (known.swap, known.file));
        assert_eq!(read(marked, 11_000), None, "it is too old");
        let shrunk = Memory { anon: Bytes::from_mib(1 << 20), ..marked };
        assert_eq!(read(shrunk, 10_500), None, "it may have been swapped");
    }

    #[test]
    fn counters_of_a_process_that_uses_little_are_read_once_a_second() {
        let ask = |detail| Ask { tick: Nanos::from_millis(10), at: Nanos::ZERO, detail };
        let spares = |detail, used: u64, age: u64| {
            ask(detail).spares(Nanos::from_millis(used), (Nanos::from_millis(age), Nanos::from_secs(5)))
        };
        assert!(
            spares(Detail::Series, 9, 900) && spares(Detail::Series, 0, 9_000) && spares(Detail::Changed, 0, 9_000)
        );
        assert!(!spares(Detail::Series, 9, 1_000) && !spares(Detail::Series, 10, 100), "too old, or too much");
        let young = (Nanos::from_millis(100), Nanos::from_millis(900));
        assert!(!ask(Detail::Series).spares(Nanos::from_millis(1), young));
        assert!(!spares(Detail::Changed, 1, 100) && !spares(Detail::All, 0, 0));
    }

    #[test]
    fn what_is_spared_keeps_its_counters_but_has_its_cpu_time_and_memory() {
        let mut process = Process::new(std::process::id(), "worker".into());
        let mut observe = |ms: u64, detail| {
            let ask = Ask { tick: Nanos::from_millis(10), at: Nanos::from_millis(ms), detail };
            let faults = process.last.as_mut().map(|last| std::mem::replace(&mut last.counters.minor_faults, 0));
            let (faults, cpu) = (faults, process.counters_at.map(|(cpu, _)| cpu));
            let now = process.observe(ask, &mut Vec::new()).unwrap();
            (faults, cpu, now.counters.minor_faults, now.counters.on_cpu.clone(), now.vsz)
        };
        observe(10_000, Detail::All);
        observe(11_000, Detail::All);
        // Other tests of this process use CPU time meanwhile: it is spared as soon as they have used little.
        let spared = (0..10_000).map(|_| observe(11_100, Detail::Series)).find(|(_, _, faults, ..)| *faults == 0);
        let (_, cpu, _, on_cpu, vsz) = spared.expect("at some time they use little");
        assert!(on_cpu.measured().copied() >= cpu && vsz > Bytes::default());
        assert!(observe(11_200, Detail::All).2 > 0, "a boundary reads everything");
    }

    /// Pages of hugetlbfs that a program had for up to 5 s were in no figure, and its memory was not missing.
    #[test]
    fn status_is_read_at_each_sample_where_there_may_be_huge_pages() {
        let mut process = Process::new(std::process::id(), "worker".into());
        process.may_have_huge_pages = true;
        let at = |ms: u64| Ask { tick: Nanos::from_millis(10), at: Nanos::from_millis(ms), detail: Detail::Series };
        process.observe(at(10_000), &mut Vec::new()).unwrap();
        // If the file is not read, this is what it is said to have.
        let known = Memory { anon: Bytes::default(), huge: true, ..process.last.as_ref().unwrap().memory.unwrap() };
        let read = (0..1000).map(|_| process.memory(Some(known), at(10_100), &mut Vec::new()).unwrap().unwrap());
        assert!(read.into_iter().all(|found| !found.huge));
    }

    /// 200 MB of a program whose `main` ended by `pthread_exit` were in no figure, and it counted as none of the processes.
    #[test]
    fn memory_is_read_of_another_thread_once_the_first_has_ended() {
        let touched = std::hint::black_box(vec![1u8; 8 << 20]);
        let child = crate::sys::memory::tests::WithoutFirstThread::start();
        let mut process = Process::new(child.0.as_raw_pid().cast_unsigned(), "worker".into());
        for ms in [10_000, 10_100, 20_000] {
            let ask = Ask { tick: Nanos::from_millis(10), at: Nanos::from_millis(ms), detail: Detail::Series };
            let sample = process.observe(ask, &mut Vec::new()).unwrap().sample(Nanos::ZERO).unwrap();
            assert!(sample.anon.as_bytes() >= touched.len() as u64 && sample.vsz > sample.anon, "{sample:?}");
        }
        assert!(process.pss().measured().is_some_and(|pss| *pss > Bytes::default()) && process.reset_peak());
    }

    #[test]
    fn nonexistent_process_is_reported_as_ended() {
        let mut process = Process::new(u32::MAX / 4, "worker".into());
        let ask = Ask { tick: Nanos::from_millis(10), at: Nanos::ZERO, detail: Detail::Changed };
        let error = process.observe(ask, &mut Vec::new()).unwrap_err();
        assert!(super::super::proc_file::ended(&error));
        assert!(process.last.is_none());
    }
}
