//! Collects the reports of the probes inside a program's language runtimes, by process and thread. Does no I/O.

use std::collections::{BTreeMap, BTreeSet};

use prony_experiment::redacted::LEFT_OUT;
use prony_model::record::probe::{ProbeCost, ProbeReport, ThreadReport};
use prony_model::units::Nanos;
use prony_runtime::{
    Because, DETAIL, GcFigures, HeapFigures, Hello, Occasion, ProbeEvent, ProbeLine, Role, Roles, Source,
};

/// Most heap samples that are stored for a trial; later samples are counted only.
pub const MOST_SAMPLES: usize = 200_000;

/// Most garbage collections that are stored for a trial, each with its instant.
pub(crate) const MOST_COLLECTIONS: usize = 1_000_000;

/// Sizes of a heap at an instant.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// When they were taken.
    pub at: Nanos,
    /// The sizes and counts.
    pub heap: HeapFigures,
    /// Whether the thread was suspended then, past the end of its call.
    pub suspended: bool,
}

/// The longest delay of an event loop in a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopDelay {
    /// Begin of that time.
    pub since: Nanos,
    /// Its end, when it was reported.
    pub at: Nanos,
    /// The delay.
    pub longest: Nanos,
}

/// A process of the language runtime, or a thread that has its own heap.
#[derive(Clone, Debug, PartialEq)]
pub struct Thread {
    /// Process and thread.
    pub source: Source,
    /// Its role in the program.
    pub role: Role,
    /// Whether it is a process that no probed process started: the first, and others of the same shell, before or after it.
    pub outermost: bool,
    hello: Hello,
    /// When its first line arrived.
    pub began: Nanos,
    /// When it ended, as far as that is known.
    pub ended: Nanos,
    /// When its process was last there, which may free a large heap after its report of the end.
    process_ended: Nanos,
    /// Its heap, in time order.
    pub samples: Vec<Sample>,
    /// The counts at the end of each collection, in time order.
    pub collections: Vec<GcFigures>,
    /// Longest delays of its event loop, in time order; their times overlap.
    pub delays: Vec<LoopDelay>,
    /// When it first reported a sample that was not stored, because the trial already had [`MOST_SAMPLES`].
    pub cut: Option<Nanos>,
    cost: Option<ProbeCost>,
    bye: Option<Nanos>,
    /// It read its heap for the last time and reported its end itself: it sent nothing after that. The end of a thread
    /// that was killed may be reported by a parent or the runner; its last values are older.
    pub orderly: bool,
    /// Functions that it called so often that later calls are counted, and reported from time to time and at its end.
    hot: BTreeSet<String>,
    last: Nanos,
    /// Whether it is suspended, and when it last was.
    suspended: bool,
    resumed: Nanos,
}

/// All that probes reported of threads.
#[derive(Clone, Debug, Default)]
pub struct Threads {
    list: Vec<Thread>,
    current: BTreeMap<Source, usize>,
    roles: Roles,
    recorded: usize,
    collections: usize,
    dropped: u64,
    /// Why a function cannot be timed, by the name under which it is reported.
    pub unfound: BTreeMap<String, String>,
    /// The files in which functions were found, by the names under which they are reported. If there are several, it is
    /// not known which is meant.
    pub found: BTreeMap<String, BTreeSet<String>>,
    /// What functions returned that does their work after the call, by the names under which they are reported.
    pub deferred: BTreeMap<String, String>,
}

impl Threads {
    /// All of them, in the order of their first lines.
    pub fn all(&self) -> &[Thread] {
        &self.list
    }

    /// Handles a line.
    pub fn take(&mut self, line: &ProbeLine) {
        match &line.event {
            ProbeEvent::Hello(hello) => return self.hello(line, hello),
            ProbeEvent::Found { call, file } => {
                self.found.entry(call.clone()).or_default().insert(file.clone());
            }
            ProbeEvent::NotFound { call, file, why } => {
                self.unfound.insert(call.clone(), format!("`{file}` was loaded: {why}"));
            }
            ProbeEvent::Deferred { call, returned } => {
                self.deferred.insert(call.clone(), returned.clone());
            }
            _ => {}
        }
        let Some(index) = self.current.get(&line.source) else { return };
        let thread = &mut self.list[*index];
        thread.last = thread.last.max(line.at);
        if let ProbeEvent::Gc { points } = &line.event {
            let recorded = points.iter().take(MOST_COLLECTIONS - self.collections);
            self.collections += recorded.len();
            return thread.collections.extend(recorded);
        }
        let Some(heap) = thread.take(line) else { return };
        if self.recorded == MOST_SAMPLES {
            self.dropped += 1;
            thread.cut.get_or_insert(line.at);
            return;
        }
        self.recorded += 1;
        // A suspension begins at the end of the call: the heap that is read then is not past it.
        let begins = matches!(line.event, ProbeEvent::Suspended { .. });
        let suspended = thread.suspended && !begins;
        thread.samples.push(Sample { at: line.at, heap: heap.clone(), suspended });
    }

    fn hello(&mut self, line: &ProbeLine, hello: &Hello) {
        for call in &hello.unsupported {
            self.unfound.insert(call.call.clone(), call.why.clone());
        }
        if let Some(before) = self.current.get(&line.source) {
            // The process executed another program.
            self.list[*before].bye.get_or_insert(line.at);
        }
        self.current.insert(line.source, self.list.len());
        let of_probed = |thread: &Thread| thread.source.pid == hello.parent && hello.parent != line.source.pid;
        self.list.push(Thread {
            source: line.source,
            role: self.roles.of(line.source),
            outermost: line.source.thread == 0 && !self.list.iter().any(of_probed),
            hello: hello.clone(),
            began: line.at,
            ended: line.at,
            process_ended: line.at,
            samples: Vec::new(),
            collections: Vec::new(),
            delays: Vec::new(),
            cut: None,
            cost: None,
            bye: None,
            orderly: false,
            hot: BTreeSet::new(),
            last: line.at,
            suspended: false,
            resumed: Nanos::ZERO,
        });
    }

    /// The program has ended: `last_sampled` is when each process was last observed.
    pub fn finish(&mut self, at: Nanos, heap_aborts: &[ProbeLine], last_sampled: &BTreeMap<u32, Nanos>) {
        for abort in heap_aborts {
            let thread = self.current.get(&abort.source).map(|index| &mut self.list[*index]);
            if let (Some(thread), ProbeEvent::HeapAbort { heap, .. }) = (thread, &abort.event) {
                thread.bye = Some(abort.at.max(thread.last));
                thread.samples.push(Sample { at: abort.at.max(thread.last), heap: heap.clone(), suspended: false });
            }
        }
        let main = |thread: &Thread| thread.role == Role::Main;
        for thread in &mut self.list {
            let alive = if main(thread) { Some(at) } else { last_sampled.get(&thread.source.pid).copied() };
            thread.ended = thread.bye.unwrap_or_else(|| alive.unwrap_or(thread.last).max(thread.last));
        }
        // A worker ends with its process, though it may have no time to report that.
        let ends: BTreeMap<u32, Nanos> = self
            .list
            .iter()
            .filter(|thread| thread.source.thread == 0)
            .map(|thread| (thread.source.pid, thread.ended))
            .collect();
        for thread in self.list.iter_mut().filter(|thread| thread.bye.is_none() && thread.source.thread != 0) {
            thread.ended = ends.get(&thread.source.pid).copied().unwrap_or(thread.ended);
        }
        for thread in &mut self.list {
            thread.process_ended =
                last_sampled.get(&thread.source.pid).map_or(thread.ended, |last| thread.ended.max(*last));
        }
    }

    /// Adds the reports of the probes of another copy of the program, whose processes are children here. Must be called
    /// when both have ended.
    pub fn join(&mut self, other: &Self) {
        let role = |role| if role == Role::Main { Role::Child } else { role };
        let joined = |thread: &Thread| Thread { role: role(thread.role), outermost: false, ..thread.clone() };
        self.list.extend(other.list.iter().map(joined));
        self.dropped += other.dropped;
    }

    /// Whether calls of a function may not have been reported, by the name under which it is reported: a process or thread
    /// counted them, and was ended.
    pub fn may_lack_calls(&self, call: &str) -> bool {
        self.list.iter().any(|thread| !thread.orderly && thread.hot.contains(call))
    }

    /// A function that was found in several files, by the name under which it is reported, and the files.
    pub fn ambiguous(&self) -> Option<(&str, &BTreeSet<String>)> {
        let several = self.found.iter().find(|(_, files)| files.len() > 1);
        several.map(|(call, files)| (call.as_str(), files))
    }

    /// Until when the program's runtimes were at work between two instants. A phase that was noticed to end later ended with them:
    /// with the last of the outermost processes. Children that end up to `fresh` later were ending with these; those that are left
    /// later still are at work. Where no process was there, or the last one had ended more than `fresh` before the phase ended, the
    /// end is that of the phase: the program went on without its runtimes.
    pub fn end_within(&self, begin: Nanos, end: Nanos, fresh: Nanos) -> Nanos {
        let there = || self.list.iter().filter(|thread| thread.is_there(begin, end) && thread.source.thread == 0);
        let last = there().map(|thread| thread.ended).max().unwrap_or(end).min(end);
        if there().map(|thread| thread.process_ended).max().is_some_and(|ended| end.since(ended) > fresh) {
            return end;
        }
        let outermost = there().filter(|thread| thread.outermost).map(|thread| thread.ended).max();
        outermost.filter(|outermost| last.since(*outermost) <= fresh).map_or(last, |outermost| outermost.min(end))
    }

    /// The reports of the probes about themselves, for the record. A script is given with its command line's arguments,
    /// and only where `commands` are recorded.
    pub fn report(&self, commands: bool) -> ProbeReport {
        let costs = || self.list.iter().filter_map(|thread| thread.cost);
        ProbeReport {
            threads: self.list.iter().map(|thread| thread.report(commands)).collect(),
            cost: costs().fold(Nanos::ZERO, |sum, cost| sum + cost.time),
            lines_lost: costs().map(|cost| cost.lost).fold(0, u64::saturating_add),
            samples_dropped: self.dropped,
            ..ProbeReport::default()
        }
    }
}

impl Thread {
    /// Whether it was there at any time between two instants.
    pub fn is_there(&self, begin: Nanos, end: Nanos) -> bool {
        self.began <= end && self.ended >= begin
    }

    /// The name of its language runtime.
    pub fn runtime(&self) -> &str {
        &self.hello.runtime
    }

    /// Notes what a line reports; returns the heap's values in it, if any.
    fn take<'l>(&mut self, line: &'l ProbeLine) -> Option<&'l HeapFigures> {
        match &line.event {
            ProbeEvent::Heap { why, heap, loop_delay_max, loop_delay_since } => {
                self.orderly |= *why == Occasion::Exit;
                // Of a time with a suspension the delay is that of the suspension.
                let reported = loop_delay_since.zip(*loop_delay_max).filter(|(since, _)| *since >= self.resumed);
                self.delays.extend(reported.map(|(since, longest)| LoopDelay { since, at: line.at, longest }));
                return Some(heap);
            }
            ProbeEvent::Begin { call, n, .. } if *n >= u64::from(DETAIL) => drop(self.hot.insert(call.clone())),
            ProbeEvent::Calls(tallied) if !self.hot.contains(&tallied.call) => {
                self.hot.insert(tallied.call.clone());
            }
            ProbeEvent::Suspended { heap, .. } => {
                self.suspended = true;
                return Some(heap);
            }
            ProbeEvent::Collected { heap, .. } => return Some(heap),
            ProbeEvent::Resumed { because } => {
                (self.suspended, self.resumed) = (false, line.at);
                self.orderly |= *because == Because::Stop;
            }
            ProbeEvent::Cost { time, heap, blocks, lines, lost } => {
                self.cost = Some(ProbeCost { time: *time, heap: *heap, blocks: *blocks, lines: *lines, lost: *lost });
            }
            // Its parent reports it again.
            ProbeEvent::Bye {} => drop(self.bye.get_or_insert(line.at)),
            _ => {}
        }
        None
    }

    fn report(&self, commands: bool) -> ThreadReport {
        let last = self.samples.last().map(|sample| &sample.heap);
        ThreadReport {
            pid: self.source.pid,
            thread: self.source.thread,
            role: self.role,
            parent: self.hello.parent,
            runtime: self.hello.runtime.clone(),
            version: self.hello.version.clone(),
            script: if commands { self.hello.script.clone() } else { LEFT_OUT.to_owned() },
            began: self.began,
            ended: self.ended,
            said_bye: self.bye.is_some(),
            samples: self.samples.len() as u64,
            last_heap_used: last.and_then(|heap| heap.used.measured().copied()),
            heap_limit: last.and_then(|heap| heap.limit.measured().copied()),
            probe: self.cost,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
