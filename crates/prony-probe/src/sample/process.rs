//! One live process, its files kept open.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;

use prony_core::reading::{Reading, Why};
use prony_core::record::ProcessSample;
use prony_core::units::{Bytes, Nanos};

use super::counters::Counters;
use super::parse::{self, Memory};
use super::tree;
use crate::sys::cpu_clock;
use crate::why::{parsed, why};

/// A file of procfs, kept open where descriptors suffice: reopening costs 1.4 us.
#[derive(Debug)]
struct ProcFile {
    path: PathBuf,
    open: Option<File>,
}

impl ProcFile {
    fn new(path: String) -> Self {
        let path = PathBuf::from(path);
        let open = File::open(&path).ok();
        Self { path, open }
    }

    /// Its bytes; `buffer` is the caller's, so that reading allocates nothing.
    fn read<'a>(&self, buffer: &'a mut Vec<u8>) -> io::Result<&'a [u8]> {
        buffer.resize(8192, 0);
        let length = match &self.open {
            Some(file) => rustix::io::pread(file, buffer.as_mut_slice(), 0)?,
            None => rustix::io::pread(&File::open(&self.path)?, buffer.as_mut_slice(), 0)?,
        };
        Ok(&buffer[..length])
    }

    /// Its text; a command name need not be UTF-8.
    fn text<'a>(&self, buffer: &'a mut Vec<u8>) -> io::Result<Cow<'a, str>> {
        self.read(buffer).map(String::from_utf8_lossy)
    }
}

/// A thread and what it had done when it last ran.
#[derive(Debug)]
struct Thread {
    schedstat: ProcFile,
    slices: u64,
    wait: Nanos,
    voluntary: u64,
    forced: u64,
}

/// What one round saw of a process.
#[derive(Clone, Debug)]
pub(crate) struct Observation {
    /// Counters of the process and of the children it waited for.
    pub(crate) counters: Counters,
    /// Counters of the children alone.
    pub(crate) inherited: Counters,
    /// Its memory; `None` once it is a zombie.
    pub(crate) memory: Option<Memory>,
    pub(crate) vsz: Bytes,
    pub(crate) threads: u32,
}

impl Observation {
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

/// A process under observation.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) role: String,
    pub(crate) itself: bool,
    pub(crate) command: String,
    pub(crate) last: Option<Observation>,
    /// Whether the peak was reset at the last edge, or the process began after it.
    pub(crate) peak_since_edge: bool,
    stat: ProcFile,
    status: ProcFile,
    io: ProcFile,
    threads: BTreeMap<u32, Thread>,
    /// Wait, voluntary and forced switches of threads that have ended.
    ended: (Nanos, u64, u64),
    schedstat: Option<Why>,
}

impl Process {
    pub(crate) fn new(pid: u32, role: String, itself: bool) -> Self {
        Self {
            pid,
            role,
            itself,
            command: String::new(),
            last: None,
            peak_since_edge: false,
            stat: ProcFile::new(format!("/proc/{pid}/stat")),
            status: ProcFile::new(format!("/proc/{pid}/status")),
            io: ProcFile::new(format!("/proc/{pid}/io")),
            threads: BTreeMap::new(),
            ended: (Nanos::ZERO, 0, 0),
            schedstat: None,
        }
    }

    /// Takes in threads that began since the last call.
    pub(crate) fn find_threads(&mut self) {
        for tid in tree::threads(self.pid) {
            self.threads.entry(tid).or_insert_with(|| Thread {
                schedstat: ProcFile::new(format!("/proc/{}/task/{tid}/schedstat", self.pid)),
                slices: 0,
                wait: Nanos::ZERO,
                voluntary: 0,
                forced: 0,
            });
        }
    }

    /// Reads everything cheap.
    ///
    /// # Errors
    /// Where the process is gone; what it was is then in [`Self::last`].
    pub(crate) fn observe(&mut self, tick: Nanos, buffer: &mut Vec<u8>) -> io::Result<&Observation> {
        let unexpected = || io::Error::other("unexpected form");
        let stat = parse::stat(self.stat.read(buffer)?).ok_or_else(unexpected)?;
        let on_cpu = cpu_clock::process_cpu(self.pid);
        self.read_threads(buffer);
        let ticks = |n: u64| Nanos::from_nanos(n.saturating_mul(tick.as_nanos()));
        let children = ticks(stat.user_children) + ticks(stat.system_children);
        let inherited = Counters {
            cpu_user: ticks(stat.user_children),
            cpu_system: ticks(stat.system_children),
            on_cpu: Reading::Measured(children),
            minor_faults: stat.minor_faults_children,
            major_faults: stat.major_faults_children,
            ..Counters::default()
        };
        let io = self.read_io(buffer);
        let (wait, voluntary, forced) = self.switching();
        let counters = Counters {
            cpu_user: ticks(stat.user + stat.user_children),
            cpu_system: ticks(stat.system + stat.system_children),
            on_cpu: on_cpu
                .map_or_else(|e| Reading::Missing(why("CPU clock", &e)), |own| Reading::Measured(own + children)),
            cpu_wait: wait,
            read: io.clone().map(|io| io.0),
            written: io.map(|io| io.1),
            minor_faults: stat.minor_faults + stat.minor_faults_children,
            major_faults: stat.major_faults + stat.major_faults_children,
            switches_voluntary: voluntary,
            switches_forced: forced,
        };
        let memory = self.status.text(buffer).ok().and_then(|text| parse::memory(&text));
        self.command = stat.command;
        Ok(self.last.insert(Observation { counters, inherited, memory, vsz: stat.vsz, threads: stat.threads }))
    }

    fn read_io(&self, buffer: &mut Vec<u8>) -> Reading<(Bytes, Bytes)> {
        let what = "`/proc/PID/io`";
        match self.io.text(buffer) {
            Ok(text) => parsed(parse::io(&text), what),
            Err(error) => Reading::Missing(why(what, &error)),
        }
    }

    fn switching(&self) -> (Reading<Nanos>, u64, u64) {
        let start = self.ended;
        let (wait, voluntary, forced) = self.threads.values().fold(start, |(wait, voluntary, forced), thread| {
            (wait + thread.wait, voluntary + thread.voluntary, forced + thread.forced)
        });
        let wait = self.schedstat.clone().map_or(Reading::Measured(wait), Reading::Missing);
        (wait, voluntary, forced)
    }

    /// Brings every thread up to date. One that has not run since the last round has not changed,
    /// so that its `status`, six times as dear as `schedstat`, is not read.
    fn read_threads(&mut self, buffer: &mut Vec<u8>) {
        let pid = self.pid;
        let mut gone = Vec::new();
        for (tid, thread) in &mut self.threads {
            let stat = match thread.schedstat.text(buffer) {
                Ok(text) => parse::schedstat(&text),
                Err(error) if ended(&error) => {
                    gone.push(*tid);
                    continue;
                }
                Err(error) => {
                    self.schedstat = Some(why("`schedstat`", &error));
                    continue;
                }
            };
            let Some(stat) = stat else { continue };
            thread.wait = stat.wait;
            if stat.slices == thread.slices {
                continue;
            }
            thread.slices = stat.slices;
            let status = fs::read_to_string(format!("/proc/{pid}/task/{tid}/status")).ok();
            if let Some((voluntary, forced)) = status.and_then(|text| parse::switches(&text)) {
                (thread.voluntary, thread.forced) = (voluntary, forced);
            }
        }
        for thread in gone.iter().filter_map(|tid| self.threads.remove(tid)) {
            let (wait, voluntary, forced) = self.ended;
            self.ended = (wait + thread.wait, voluntary + thread.voluntary, forced + thread.forced);
        }
    }

    /// Proportional set size; dear (5 us per mapped MB, under the memory map's lock), so at edges only.
    pub(crate) fn pss(&self) -> Reading<Bytes> {
        let path = format!("/proc/{}/smaps_rollup", self.pid);
        crate::why::parse_with(crate::why::read_text(&path), &format!("`{path}`"), parse::pss)
    }

    /// Makes the kernel's peak of resident memory begin anew; whether it did.
    pub(crate) fn reset_peak(&mut self) -> bool {
        self.peak_since_edge = fs::write(format!("/proc/{}/clear_refs", self.pid), "5").is_ok();
        self.peak_since_edge
    }
}

/// Whether an error of procfs says that the process or thread is gone.
pub(crate) fn ended(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
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
    fn a_sample_holds_the_process_alone() {
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
    fn a_process_that_never_was_is_gone() {
        let mut process = Process::new(u32::MAX / 4, "worker".into(), true);
        let error = process.observe(Nanos::from_millis(10), &mut Vec::new()).unwrap_err();
        assert!(ended(&error));
        assert!(process.last.is_none());
    }
}
