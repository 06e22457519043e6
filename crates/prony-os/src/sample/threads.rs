//! Metrics that the kernel reports per thread only: time waiting for a CPU, and context switches.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::OnceLock;

use prony_model::reading::{Reading, Why};
use prony_model::record::TICK;
use prony_model::units::Nanos;

use super::parse;
use super::proc_file::{ProcDirectory, ProcFile, ended};
use super::tree;
use crate::why::{reading, why};

/// Waiting for a CPU and context switches, of one thread or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Done {
    wait: Nanos,
    voluntary: u64,
    forced: u64,
}

impl Done {
    fn plus(self, other: Self) -> Self {
        Self {
            wait: self.wait + other.wait,
            voluntary: self.voluntary + other.voluntary,
            forced: self.forced + other.forced,
        }
    }
}

#[derive(Debug)]
struct Thread {
    schedstat: ProcFile,
    /// Its time on a CPU when it was last read.
    on_cpu: Nanos,
    /// When it was first read.
    first: Nanos,
    /// When it is to be read again.
    due: Nanos,
    /// How often it had been put on a CPU when its switches were last read.
    slices: u64,
    /// Whether it was on a CPU, or waited for one, then.
    was_runnable: bool,
    /// When it was last found runnable, and how often it had slept by then; `None` where it was not.
    runnable: Option<(Nanos, u64)>,
    done: Done,
}

/// Values that change rarely are read again after so long.
pub(super) const STALE: Nanos = Nanos::from_secs(1);

/// A thread is read again after this part of the time since it was first read, at the latest after [`STALE`].
const PART: u64 = 20;

/// Threads of which no more is known than that all together used less are as if they had not been: one that sleeps may run for a moment
/// between two readings.
const BRIEF: Nanos = Nanos::from_millis(1);

/// The threads of a process. What a thread did between its last reading and its end is lost.
#[derive(Debug)]
pub(crate) struct Threads {
    pid: u32,
    directory: ProcDirectory,
    live: BTreeMap<u32, Thread>,
    ended: Done,
    /// How many ends of threads were found.
    ends: u64,
    /// The CPU time of the process that none of its threads had used which were there when all were last read.
    of_ended: Nanos,
    blind: Option<Why>,
}

impl Threads {
    pub(crate) fn new(pid: u32) -> Self {
        let directory = ProcDirectory::new(format!("/proc/{pid}/task"));
        static COUNTED: OnceLock<Reading<Nanos>> = OnceLock::new();
        let blind = match COUNTED.get_or_init(processor_wait) {
            Reading::Measured(_) => None,
            Reading::Missing(why) => Some(why.clone()),
        };
        Self { pid, directory, live: BTreeMap::new(), ended: Done::default(), ends: 0, of_ended: Nanos::ZERO, blind }
    }

    pub(crate) fn count(&self) -> usize {
        self.live.len()
    }

    /// Adds threads that began since the last call.
    pub(crate) fn find(&mut self) {
        let pid = self.pid;
        for tid in tree::threads(pid) {
            self.live.entry(tid).or_insert_with(|| Thread {
                schedstat: ProcFile::new(format!("/proc/{pid}/task/{tid}/schedstat")),
                on_cpu: Nanos::ZERO,
                first: Nanos::ZERO,
                due: Nanos::ZERO,
                slices: 0,
                was_runnable: false,
                runnable: None,
                done: Done::default(),
            });
        }
    }

    /// Updates the threads that are due, or `all`: always the time waited; switches where requested and where the
    /// thread has run, or of `all`, since `status` costs six times as much as `schedstat`.
    pub(crate) fn read(&mut self, now: Nanos, (all, switches): (bool, bool), buffer: &mut Vec<u8>) {
        let mut vanished = Vec::new();
        for (tid, thread) in self.live.iter_mut().filter(|(_, thread)| all || switches || thread.due <= now) {
            thread.reads_at(now);
            match thread.read(switches.then_some((&self.directory, *tid)), all, buffer) {
                Ok(()) => {}
                Err(error) if ended(&error) => vanished.push(*tid),
                Err(error) => self.blind = Some(why("`schedstat`", &error)),
            }
        }
        for thread in vanished.iter().filter_map(|tid| self.live.remove(tid)) {
            self.ended = self.ended.plus(thread.done);
            self.ends += 1;
        }
    }

    /// Finds whether threads have ended that began after one reading of all and were not there at the next: the process's CPU `clock`,
    /// read just after all of its threads, counts them too.
    pub(crate) fn find_unsampled(&mut self, clock: Nanos) {
        if self.blind.is_some() {
            return;
        }
        let of_live = self.live.values().map(|thread| thread.on_cpu.as_nanos()).sum();
        let of_ended = clock.since(Nanos::from_nanos(of_live));
        // Of a thread that runs the kernel counts the time once a tick only, and the clock is read later.
        let error = BRIEF + Nanos::from_nanos(2 * TICK.as_nanos() * self.were_runnable());
        self.ends += u64::from(of_ended > self.of_ended + error);
        self.of_ended = of_ended.max(self.of_ended);
    }

    /// How many ends of threads were found; of several that ended unsampled, one at least.
    pub(crate) const fn ended_count(&self) -> u64 {
        self.ends
    }

    /// For how long since the last call threads were runnable without a break: found so at both calls, and not asleep in
    /// between. The kernel adds to a thread's wait only when it puts it on a CPU, so that one which gets none shows there
    /// as if it slept.
    pub(crate) fn runnable(&mut self, now: Nanos, buffer: &mut Vec<u8>) -> Nanos {
        let mut sum = Nanos::ZERO;
        for (tid, thread) in &mut self.live {
            let slept = slept_if_runnable((&self.directory, *tid), buffer);
            let before = std::mem::replace(&mut thread.runnable, slept.map(|slept| (now, slept)));
            if let Some((then, _)) = before.filter(|(_, before)| slept == Some(*before)) {
                sum += now.since(then);
            }
        }
        sum
    }

    /// Whether one of them is on a CPU now, or waits for one.
    pub(crate) fn are_runnable(&self, buffer: &mut Vec<u8>) -> bool {
        self.live.keys().any(|tid| is_runnable((&self.directory, *tid), buffer))
    }

    /// How many threads were on a CPU, or waited for one, when all were last read.
    pub(crate) fn were_runnable(&self) -> u64 {
        self.live.values().filter(|thread| thread.was_runnable).count() as u64
    }

    /// Time waited, voluntary and forced switches of all threads that were sampled.
    pub(crate) fn totals(&self) -> (Reading<Nanos>, u64, u64) {
        let all = self.live.values().fold(self.ended, |all, thread| all.plus(thread.done));
        let wait = self.blind.clone().map_or(Reading::Measured(all.wait), Reading::Missing);
        (wait, all.voluntary, all.forced)
    }
}

/// How long the calling thread was ready to run and had no CPU.
pub fn processor_wait() -> Reading<Nanos> {
    const PATH: &str = "/proc/thread-self/schedstat";
    thread_local! {
        /// Opened once by each thread, whose own file it is; and a buffer.
        static OWN: (ProcFile, RefCell<Vec<u8>>) = (ProcFile::new(PATH.into()), RefCell::default());
    }
    OWN.with(|(file, buffer)| {
        let mut buffer = buffer.borrow_mut();
        let text = file.text(&mut buffer);
        reading(&format!("`{PATH}`"), text).and_then(|text| parse::own_wait(&text))
    })
}

/// How often a thread has slept, by its voluntary switches; `None` where it is not runnable. `stat` alone is read of one
/// that sleeps, as most do.
fn slept_if_runnable((directory, tid): (&ProcDirectory, u32), buffer: &mut Vec<u8>) -> Option<u64> {
    if !is_runnable((directory, tid), buffer) {
        return None;
    }
    let status = directory.text(&format!("{tid}/status"), buffer).ok()?;
    parse::thread_status(&status).map(|status| status.voluntary)
}

fn is_runnable((directory, tid): (&ProcDirectory, u32), buffer: &mut Vec<u8>) -> bool {
    let stat = directory.text(&format!("{tid}/stat"), buffer).ok();
    stat.and_then(|stat| parse::stat(stat.as_bytes())).is_some_and(|stat| stat.state == 'R')
}

impl Thread {
    fn reads_at(&mut self, now: Nanos) {
        if self.first == Nanos::ZERO {
            self.first = now;
        }
        self.due = now + Nanos::from_nanos(now.since(self.first).as_nanos() / PART).min(STALE);
    }

    fn read(
        &mut self,
        switches: Option<(&ProcDirectory, u32)>,
        all: bool,
        buffer: &mut Vec<u8>,
    ) -> std::io::Result<()> {
        let Some(stat) = parse::schedstat(&self.schedstat.text(buffer)?) else { return Ok(()) };
        (self.on_cpu, self.done.wait) = (stat.on_cpu, stat.wait);
        let Some((directory, tid)) = switches.filter(|_| all || stat.slices != self.slices) else { return Ok(()) };
        if let Some(status) = parse::thread_status(&directory.text(&format!("{tid}/status"), buffer)?) {
            (self.done.voluntary, self.done.forced) = (status.voluntary, status.forced);
            (self.slices, self.was_runnable) = (stat.slices, status.runnable);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_threads_are_found_and_ended_threads_counted() {
        let mut threads = Threads::new(std::process::id());
        let (release, wait) = std::sync::mpsc::channel::<()>();
        let extra = std::thread::spawn(move || wait.recv().is_ok());
        threads.find();
        let count = threads.count();
        assert!(count >= 2);
        threads.live.values_mut().for_each(|thread| thread.done.forced = 1);
        release.send(()).expect("the thread waits");
        assert!(extra.join().expect("it does not panic"));
        // The kernel may take a moment to remove the thread from its lists.
        while threads.live.len() >= count && std::fs::read_dir("/proc/self/task").unwrap().count() >= count {
            std::thread::yield_now();
        }
        threads.read(Nanos::from_secs(5), (false, false), &mut Vec::new());
        assert!(threads.ended.forced >= 1 && threads.ended_count() >= 1);
        let (wait, _, forced) = threads.totals();
        assert!(wait.measured().is_some() && forced >= count as u64);
    }

    #[test]
    fn a_thread_is_read_less_often_the_older_it_is() {
        let mut thread = Thread {
            schedstat: ProcFile::new("/proc/self/schedstat".to_owned()),
            on_cpu: Nanos::ZERO,
            first: Nanos::ZERO,
            due: Nanos::ZERO,
            slices: 0,
            was_runnable: false,
            runnable: None,
            done: Done::default(),
        };
        let mut due_after = |ms: u64| {
            let now = Nanos::from_secs(100) + Nanos::from_millis(ms);
            thread.reads_at(now);
            thread.due.since(now)
        };
        assert_eq!([0, 2_000, 10_000].map(&mut due_after), [0, 100, 500].map(Nanos::from_millis));
        assert_eq!(due_after(60_000), STALE);
    }

    #[test]
    fn threads_that_began_and_ended_between_two_readings_are_found_by_the_clock_of_the_process() {
        let ms = Nanos::from_millis;
        let mut threads = Threads::new(std::process::id());
        threads.blind = None;
        threads.find();
        threads.live.values_mut().for_each(|thread| thread.on_cpu = Nanos::ZERO);
        let mut ends = |running: bool, clock: u64| {
            threads.live.values_mut().take(1).for_each(|thread| thread.was_runnable = running);
            threads.find_unsampled(ms(clock));
            threads.ended_count()
        };
        assert_eq!([ends(false, 1), ends(false, 4)], [0, 1]);
        assert_eq!(ends(false, 4), 1, "none since");
        assert_eq!([ends(true, 20), ends(true, 60)], [1, 2], "a thread that runs has used some of it");
    }

    #[test]
    fn a_blind_spot_hides_the_sum() {
        let threads = Threads { blind: Some(Why::NotPermitted("`schedstat`".into())), ..Threads::new(1) };
        assert!(matches!(threads.totals().0, Reading::Missing(Why::NotPermitted(_))));
    }
}
