//! Reads one live process through files that stay open.

use std::cmp::Ordering;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::LazyLock;

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
            && (*now == then || !self.has_waited(buffer))
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

    /// Whether it has waited for a child since its counters were read: if it ended now, nothing else would show that there was one.
    fn has_waited(&self, buffer: &mut Vec<u8>) -> bool {
        let known = self.last.as_ref().map(|last| last.inherited.minor_faults);
        let stat = self.stat.read(buffer).ok().and_then(parse::stat);
        stat.is_some_and(|stat| Some(stat.minor_faults_children) != known)
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
                Ok(match by_thread {
                    Some(io) => Reading::Measured(io),
                    None if *id != self.pid.to_string() => Reading::Missing(why(what, &error)),
                    None => self.last.as_ref().map_or(Reading::Measured(Default::default()), Observation::io),
                })
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

/// How many pages of hugetlbfs of each size the machine gives out. Every trial reads them again, and opening them takes longer.
static HUGE_PAGES: LazyLock<Vec<ProcFile>> = LazyLock::new(|| {
    let sizes = fs::read_dir("/sys/kernel/mm/hugepages").into_iter().flatten().flatten();
    let counts = sizes.flat_map(|size| ["nr_hugepages", "nr_overcommit_hugepages"].map(|name| size.path().join(name)));
    counts.map(|path| ProcFile::new(path.to_string_lossy().into_owned())).collect()
});

/// Whether the machine gives out pages of hugetlbfs.
pub(super) fn has_huge_pages(buffer: &mut Vec<u8>) -> bool {
    HUGE_PAGES.iter().any(|count| count.text(buffer).is_ok_and(|count| count.trim() != "0"))
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
mod tests;
