//! Detects that a process tree ran out of memory, and then kills the whole tree.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;

use prony_model::reading::{Reading, Why};
use prony_model::record::MemoryEvidence;
use prony_model::units::Bytes;
use rustix::event::{EventfdFlags, eventfd};

use super::figures::{Figures, Version};
use super::group::Group;
use super::group_files::{entry, number, table, write};
use crate::why::why;

/// A watch over a subject's memory, from before its start.
#[derive(Debug)]
pub(crate) struct OomWatch {
    group: Option<Group>,
    /// Readable when version 1 is about to kill.
    event: Option<OwnedFd>,
    /// Whether it was readable.
    announced: bool,
    /// Whether the kernel ends the whole group by itself.
    together: bool,
    host: HostKills,
    host_before: Reading<u64>,
    /// How often the group was throttled while earlier subjects were in it.
    throttled_before: u64,
}

impl OomWatch {
    /// Watches a group, or only the machine where there is none.
    pub(crate) fn new(group: Option<&Group>) -> Self {
        let limited = group.filter(|group| group.memory_limit().is_some());
        let (mut event, mut together) = (None, limited.is_none());
        match limited.and_then(Group::memory_dir) {
            // Without an event the counter is polled.
            Some((Version::V1, dir)) => event = listen(dir).ok(),
            Some((Version::V2, dir)) => together = number(dir, "memory.oom.group") == Reading::Measured(1),
            None => {}
        }
        let host = HostKills::open();
        Self {
            group: group.cloned(),
            event,
            announced: false,
            together,
            host_before: host.read(),
            host,
            throttled_before: 0,
        }
    }

    /// Forgets the kills so far: they are not evidence for later subjects.
    pub(crate) fn begin_anew(&mut self) {
        self.host_before = self.host.read();
        let throttled = self.group.as_ref().map(|group| group.figures().throttled);
        self.throttled_before = throttled.and_then(|times| times.measured().copied()).unwrap_or_default();
        self.take_event();
        self.announced = false;
    }

    /// The descriptor to poll: readable when memory runs out.
    pub(crate) fn source(&self) -> Option<BorrowedFd<'_>> {
        self.event.as_ref().map(AsFd::as_fd)
    }

    /// Whether the caller must poll, since there is no event.
    pub(crate) const fn needs_polling(&self) -> bool {
        self.event.is_none() && !self.together
    }

    /// Whether memory has run out since the last call.
    pub(crate) fn take_event(&mut self) -> bool {
        let now = self.event.as_ref().is_some_and(|event| rustix::io::read(event, &mut [0; 8]).is_ok());
        self.announced |= now;
        now
    }

    /// Whether the kernel has killed a process of the tree.
    pub(crate) fn has_killed(&self) -> bool {
        self.oom_kills().measured().is_some_and(|kills| *kills > 0)
    }

    fn oom_kills(&self) -> Reading<u64> {
        match self.group.as_ref().and_then(Group::memory_dir) {
            Some((Version::V1, dir)) => entry(&table(dir, "memory.oom_control"), "oom_kill"),
            Some((Version::V2, dir)) => entry(&table(dir, "memory.events"), "oom_kill"),
            None => no_memory_group(),
        }
    }

    /// What was observed so far; where `host` is set, of the whole machine too, which is expensive.
    pub(crate) fn evidence(&mut self, host: bool) -> MemoryEvidence {
        let oom_kills = self.oom_kills();
        let limit = self.group.as_ref().and_then(Group::memory_limit);
        let group = self.group.as_ref();
        let mut figures = group
            .map_or_else(|| Figures::missing(&Why::NotSupported("there is no control group".into())), Group::figures);
        if group.and_then(Group::memory_dir).is_none() {
            (figures.peak, figures.limit_hits) = (no_memory_group(), Reading::Missing(Why::NotApplicable));
        }
        self.take_event();
        let announced = self.event.as_ref().map(|_| self.announced);
        let ours = oom_kills.measured().copied().unwrap_or(0);
        let host_oom_kills = if host {
            let now = self.host.read();
            let before = std::mem::replace(&mut self.host_before, now.clone());
            before.and(now, |before, now| now.saturating_sub(before)).map(|all| all.saturating_sub(ours))
        } else {
            Reading::Missing(Why::NotApplicable)
        };
        MemoryEvidence {
            limit,
            limit_reached: limit_reached(limit, &figures.limit_hits, &figures.peak, announced),
            peak: figures.peak,
            oom_kills,
            forks_refused: figures.forks_refused,
            throttled: figures.throttled.map(|times| times.saturating_sub(self.throttled_before)),
            host_oom_kills,
        }
    }
}

fn no_memory_group<T>() -> Reading<T> {
    Reading::not_supported("there is no control group with the memory controller")
}

/// Whether a tree reached its limit: by the kernel's count of hits, or without one, by a peak so close that no further
/// page fitted. Ordinary page cache comes as close. So where version 1 announces kills by a limit, it must have done that too:
/// it does not where the machine runs out of memory (`mem_cgroup_oom_notify`), but also for limits of groups above.
fn limit_reached(
    limit: Option<Bytes>,
    hits: &Reading<u64>,
    peak: &Reading<Bytes>,
    announced: Option<bool>,
) -> Reading<bool> {
    let Some(limit) = limit.map(Bytes::as_bytes) else { return Reading::Measured(false) };
    match hits {
        Reading::Measured(hits) => Reading::Measured(*hits > 0),
        Reading::Missing(_) if announced == Some(false) => Reading::Measured(false),
        Reading::Missing(_) => {
            let near = limit - (limit / 8).min(Bytes::from_mib(2).as_bytes());
            peak.clone().map(|peak| peak.as_bytes() >= near)
        }
    }
}

/// The kernel's count of OOM kills on the whole machine, its file kept open.
#[derive(Debug)]
struct HostKills(Result<File, Why>);

/// More than the kernel returns in one read: for each piece it adds up all of its counters again.
const PIECE: usize = 8192;

impl HostKills {
    fn open() -> Self {
        Self(File::open("/proc/vmstat").map_err(|error| why("`/proc/vmstat`", &error)))
    }

    /// All kills since the machine started, those by limits included.
    fn read(&self) -> Reading<u64> {
        let file = self.0.as_ref().map_err(Why::clone);
        match file.and_then(|file| kills_in(file).map_err(|error| why("`/proc/vmstat`", &error))) {
            Ok(Some(kills)) => Reading::Measured(kills),
            Ok(None) => Reading::not_supported("the kernel does not report `oom_kill`"),
            Err(why) => Reading::Missing(why),
        }
    }
}

fn kills_in(vmstat: &File) -> io::Result<Option<u64>> {
    let mut text = Vec::with_capacity(PIECE);
    loop {
        let start = text.len();
        text.resize(start + PIECE, 0);
        let got = vmstat.read_at(&mut text[start..], start as u64)?;
        text.truncate(start + got);
        let kills = counted(&text);
        if kills.is_some() || got == 0 {
            return Ok(kills);
        }
    }
}

/// The number in the line `oom_kill` of a text whose last line may be cut.
fn counted(text: &[u8]) -> Option<u64> {
    let mut lines = text.split_inclusive(|byte| *byte == b'\n');
    let number = lines.find_map(|line| line.strip_prefix(b"oom_kill ")?.strip_suffix(b"\n"))?;
    std::str::from_utf8(number).ok()?.parse().ok()
}

/// Makes version 1 announce that memory runs out.
fn listen(dir: &Path) -> io::Result<OwnedFd> {
    let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let control = std::fs::File::open(dir.join("memory.oom_control"))?;
    write(dir, "cgroup.event_control", &format!("{} {}", event.as_raw_fd(), control.as_raw_fd()))?;
    Ok(event)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_count_of_hits_goes_before_the_peak() {
        let limit = Some(Bytes::from_mib(64));
        let (full, low) = (Reading::Measured(Bytes::from_mib(64)), Reading::Measured(Bytes::from_mib(8)));
        let none = Reading::Missing(Why::NotApplicable);
        let reached = |limit, hits: &Reading<u64>, peak: &Reading<Bytes>| limit_reached(limit, hits, peak, None);
        assert_eq!(reached(limit, &Reading::Measured(0), &full), Reading::Measured(false));
        assert_eq!(reached(limit, &Reading::Measured(1), &low), Reading::Measured(true));
        assert_eq!(reached(limit, &none, &full), Reading::Measured(true));
        assert_eq!(reached(limit, &none, &low), Reading::Measured(false));
        assert_eq!(reached(limit, &none, &Reading::Missing(Why::NotApplicable)).measured(), None);
        assert_eq!(reached(None, &none, &full), Reading::Measured(false));
    }

    /// A group that page cache had filled was ended by the machine's OOM killer, and its own limit was named.
    #[test]
    fn full_limit_counts_only_if_version_1_announced_the_kill() {
        let limit = Some(Bytes::from_mib(64));
        let none = Reading::Missing(Why::NotApplicable);
        let (full, low) = (Reading::Measured(Bytes::from_mib(64)), Reading::Measured(Bytes::from_mib(8)));
        let reached = |peak: &Reading<Bytes>, announced| limit_reached(limit, &none, peak, Some(announced));
        assert_eq!([reached(&full, false), reached(&full, true)], [false, true].map(Reading::Measured));
        assert_eq!(reached(&low, true), Reading::Measured(false), "by the limit of a group above");
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
        let mut watch = OomWatch { event: Some(event), ..OomWatch::new(None) };
        assert!(!watch.take_event() && !watch.announced);
        rustix::io::write(watch.event.as_ref().unwrap(), &1_u64.to_ne_bytes()).unwrap();
        watch.evidence(false);
        assert!(!watch.take_event() && watch.announced, "it is remembered, whoever took the event");
        watch.begin_anew();
        assert!(!watch.announced);
    }

    #[test]
    fn the_count_is_that_of_its_whole_line() {
        assert_eq!(counted(b"pgfault 9\noom_kill 17\nnuma_hit 3\n"), Some(17));
        assert_eq!(counted(b"pgfault 9\noom_kill 1"), None, "cut: there may be more digits");
        assert_eq!(counted(b"drop_oom_kill 5\noom_kills 6\n"), None);
    }

    #[test]
    fn the_machines_count_is_what_the_whole_file_says() {
        let host = HostKills::open();
        let file = std::fs::read("/proc/vmstat").unwrap();
        assert_eq!(host.read().measured().copied(), counted(&file));
        assert_eq!(host.read(), host.read(), "an open file is read again");
        assert!(matches!(HostKills(Err(Why::NotApplicable)).read(), Reading::Missing(Why::NotApplicable)));
    }

    #[test]
    fn without_a_group_only_the_machine_speaks() {
        let mut watch = OomWatch::new(None);
        assert!(!watch.needs_polling() && !watch.has_killed() && watch.source().is_none());
        assert_eq!(watch.evidence(false).host_oom_kills, Reading::Missing(Why::NotApplicable));
        let evidence = watch.evidence(true);
        assert_eq!(evidence.limit_reached, Reading::Measured(false));
        assert!(matches!(evidence.oom_kills, Reading::Missing(_)));
    }
}
