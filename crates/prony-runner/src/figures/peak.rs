//! The kernel's own peak of resident memory in a phase of a program. Pure functions.
//!
//! The kernel keeps a peak for each process (`VmHWM`), which is reset at the begin of a phase, and reports one peak for
//! all processes that were waited for (`ru_maxrss`). A value is given only where a single process can have reached it,
//! inside the phase.

use std::collections::BTreeSet;

use prony_model::reading::{Reading, Why};
use prony_model::record::{PEAK_SLACK, ProcessSeries};
use prony_model::units::{Bytes, Nanos};
use prony_os::sample::{ENDED_BEFORE_PEAK, Snapshot, forgotten, huge_pages};

use crate::figures::readings::hidden;
use crate::figures::span::{Span, bytes};

impl Span<'_> {
    /// Why the kernel's peak may be from before the span.
    fn foreign_peak(&self, begin: &Snapshot, series: &[ProcessSeries]) -> Option<Why> {
        if begin.processes.iter().any(|process| !process.peak_reset) {
            let why = "the peak was not reset at the phase's begin (`clear_refs`), so the peak includes earlier phases";
            return Some(Why::NotPermitted(why.into()));
        }
        if self.from_the_start || !self.to_the_end {
            return None;
        }
        let in_snapshots =
            self.watched.snapshots.iter().flat_map(|snapshot| &snapshot.processes).map(|process| process.pid);
        let all: BTreeSet<u32> = in_snapshots.chain(series.iter().map(|process| process.pid)).collect();
        let why = "the kernel reports a single peak: the largest of all processes that the program waited for, even \
                   before the phase";
        (all.len() > 1).then(|| Why::NotSupported(format!("{why}; see `rss.max`").into()))
    }

    /// Why what a program had reached when it was reaped may be from before the span, if so: on `execve` the kernel keeps the peak of
    /// the address space that ends (`exec_mmap` in fs/exec.c), and nothing resets it. Then the program had as much before the span, and
    /// nothing shows as much in it.
    fn peak_before_execve(&self, begin: &Snapshot, reaped: Bytes, series: &[ProcessSeries]) -> Option<Why> {
        if self.from_the_start || !self.to_the_end {
            return None;
        }
        let samples = |inside: bool| {
            let all = series.iter().flat_map(|process| &process.samples);
            all.filter(move |sample| (sample.at > begin.at) == inside).map(|sample| sample.rss())
        };
        let (before, inside) = self.watched.snapshots.split_at(self.first + 1);
        let [before, inside] = [before, inside]
            .map(|part| part.iter().flat_map(|snapshot| &snapshot.processes).map(|process| process.peak));
        let at_begin = begin.processes.iter().map(|process| process.sample.rss());
        let is_shown = samples(true).chain(at_begin).chain(inside).any(|shown| shown + PEAK_SLACK >= reaped);
        // Of more than that nothing was kept.
        let was_reached = |peak: Bytes| peak.as_bytes().abs_diff(reaped.as_bytes()) <= PEAK_SLACK.as_bytes();
        let why = "the kernel reports the largest peak of all that the program executed, even before the phase; `rss.max` is the largest \
                   sample";
        (!is_shown && samples(false).chain(before).any(was_reached)).then(|| Why::NotSupported(why.into()))
    }

    /// Why the kernel's peak may be that of a child which began and ended between two samples: a child was waited for.
    fn peak_of_the_unseen(&self) -> Option<Why> {
        let why = "the kernel reports a single peak: the largest of all processes that the program waited for, and \
                   some of these ended before they were sampled; see `rss.max`";
        self.children_ended().then(|| Why::NotSupported(why.into()))
    }

    /// Whether a process waited for a child inside the span, up to its end where the program ended with it; or a child ended there for
    /// which none has waited.
    fn children_ended(&self) -> bool {
        let [first, until] = [self.first, self.until].map(|snapshot| &self.watched.snapshots[snapshot]);
        let faults = |snapshot: &Snapshot| snapshot.totals.get("").map_or(0, |total| total.child_faults);
        until.zombies.len() > first.zombies.len() || faults(until) > if self.to_the_end { 0 } else { faults(first) }
    }

    /// The peak of a process that no sample shows, where it may have been a child in the span: of all processes that were waited for,
    /// the kernel reports the largest peak.
    pub(super) fn unseen(&self, series: &[ProcessSeries]) -> Option<Bytes> {
        let samples = series.iter().flat_map(|process| &process.samples).map(|sample| sample.rss());
        let snapshots = self.watched.snapshots.iter().flat_map(|snapshot| &snapshot.processes);
        let largest = samples.chain(snapshots.map(|process| process.peak)).max()?;
        let peak = self.watched.ended.usage.measured()?.peak;
        (self.children_ended() && peak > largest + PEAK_SLACK).then_some(peak)
    }

    /// The kernel's own peak, where one process ran: what it had reached when it was reaped, and at snapshots before.
    pub(super) fn peak(&self, begin: &Snapshot, end: Nanos, series: &[ProcessSeries]) -> Reading<f64> {
        let inside = &self.watched.snapshots[self.first + 1..=self.until];
        let in_snapshots: Vec<_> = inside.iter().flat_map(|snapshot| &snapshot.processes).collect();
        let sampled = |process: &&ProcessSeries| process.samples.iter().any(|s| begin.at < s.at && s.at < end);
        let pids: BTreeSet<u32> = (in_snapshots.iter().map(|process| process.pid))
            .chain(begin.processes.iter().map(|process| process.pid))
            .chain(series.iter().filter(sampled).map(|process| process.pid))
            .collect();
        if pids.len() > 1 {
            let n = pids.len();
            let why =
                format!("the kernel keeps a peak for each process, and {n} processes ran in the phase; see `rss.max`");
            return Reading::not_supported(why);
        }
        let huge = || huge_pages(begin, &self.watched.snapshots[self.until], |_| true);
        if let Some(why) = self.foreign_peak(begin, series).or_else(|| self.peak_of_the_unseen()).or_else(huge) {
            return Reading::Missing(why);
        }
        let reached = in_snapshots.iter().map(|process| (process.peak, process.pid)).max();
        if !self.to_the_end {
            let Some((peak, pid)) = reached else { return Reading::failed(ENDED_BEFORE_PEAK) };
            let forgotten = forgotten(peak, (begin.at, end), series, pid);
            return forgotten.map_or(Reading::Measured(bytes(peak)), Reading::Missing);
        }
        let reached = reached.map(|(peak, _)| peak);
        let reaped = match &self.watched.ended.usage {
            Reading::Measured(usage) => usage.peak,
            Reading::Missing(why) => return Reading::Missing(why.clone()),
        };
        if let Some(why) = self.peak_before_execve(begin, reaped, series) {
            return Reading::Missing(why);
        }
        let suspended = self.watched.snapshots[0].processes.first().map(|process| process.peak);
        match (suspended.filter(|suspended| reaped <= *suspended + PEAK_SLACK), reached) {
            (None, reached) => Reading::Measured(bytes(reached.unwrap_or_default().max(reaped))),
            (Some(suspended), Some(reached)) if reached > suspended => Reading::Measured(bytes(reached)),
            (Some(suspended), _) => Reading::Missing(hidden(suspended)),
        }
    }
}
