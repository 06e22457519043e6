//! Reads the numbers that an instance of a service counts itself, in a thread of its own: a server that does not answer must
//! not stop the event loop, which reads what services write.
//!
//! The loop asks between two phases. Some servers complete their totals only some time after the work (`Late`): unless the
//! phase that follows has to begin at once, the thread waits until they have, and what is not complete in time is missing.
//! Gauges are read once a second inside phases too.

use std::collections::BTreeSet;
use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use prony_counters::{DEADLINE, Late, Numbers, Source, lines, source};
use prony_model::reading::{Reading, Why};
use prony_model::service::{CounterSource, CountersSpec};
use prony_model::units::Nanos;
use prony_os::clock::monotonic;
use prony_os::launch::{Launch, Status};
use prony_place::launch_setting::Setting;
use prony_place::to_end::Repeatable;

use crate::error::Error;
use crate::watched::services::{Between, Counts, Values, missing};

/// How often gauges are read inside a phase.
const INTERVAL: Duration = Duration::from_secs(1);

/// Reading takes at most this part of the time inside a phase.
const SHARE: u32 = 20;

/// How long totals may take to be complete after a phase.
const COMPLETE: Duration = Duration::from_secs(30);

/// How often it is read whether they are.
const AGAIN: Duration = Duration::from_millis(250);

/// What the loop asks for between two phases.
#[derive(Clone, Copy)]
struct Asked {
    /// Late totals are waited for: the next phase may begin later.
    waits: bool,
    /// Gauges are read inside the next phase.
    samples: bool,
}

/// The reader of one instance.
pub(crate) struct Counting {
    requests: Option<Sender<Asked>>,
    answers: Receiver<Between>,
    /// Readable when there is an answer; `None` once the thread has ended, since its end would be readable for ever.
    wake: Option<PipeReader>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    asked: usize,
    counts: Counts,
}

impl Counting {
    /// Begins to read what an instance counts.
    ///
    /// # Errors
    /// Where a thread or a pipe cannot be made.
    pub(crate) fn begin(spec: &CountersSpec, setting: &Setting<'_>, launcher: &Arc<dyn Launch>) -> Result<Self, Error> {
        let names: Vec<String> = names(spec).cloned().collect();
        let at = spec.source.texts().first().map(|text| setting.filled(text).to_string_lossy().into_owned());
        let ends = Arc::new(AtomicBool::new(false));
        let source = match (&spec.source, source(&spec.source, &at.unwrap_or_default(), names.clone())) {
            (_, Some(source)) => source,
            (CounterSource::Command(line), None) => {
                let (command, launcher, ends) = (setting.repeatable(line)?, Arc::clone(launcher), Arc::clone(&ends));
                Box::new(Printed { command, launcher, names: names.clone(), ends })
            }
            (_, None) => return Err(failed(std::io::ErrorKind::Unsupported.into())),
        };
        Self::of(spec, source, ends)
    }

    /// Reads from this source in a thread, until `ends`.
    fn of(spec: &CountersSpec, source: Box<dyn Source>, ends: Arc<AtomicBool>) -> Result<Self, Error> {
        let (wake, wakes) = pipe().map_err(failed)?;
        rustix::io::ioctl_fionbio(&wake, true).map_err(|errno| failed(errno.into()))?;
        let (requests, asked) = channel();
        let (answer, answers) = channel();
        let names = names(spec).cloned().collect();
        let mut reader = Reader { source, names, ends: Arc::clone(&ends), samples: Vec::new() };
        let run = move || reader.run(&asked, &answer, wakes);
        let thread = std::thread::Builder::new().name("counters".to_owned()).spawn(run).map_err(failed)?;
        let counts = Counts { spec: spec.clone(), between: Vec::new() };
        let (requests, wake, thread) = (Some(requests), Some(wake), Some(thread));
        Ok(Self { requests, answers, wake, ends, thread, asked: 0, counts })
    }

    /// What to wait for, while the thread runs.
    pub(crate) fn as_source(&self) -> Option<BorrowedFd<'_>> {
        self.wake.as_ref().map(PipeReader::as_fd)
    }

    /// Takes what was read.
    pub(crate) fn turn(&mut self) {
        // Its bytes mean nothing.
        if let Some(Ok(0)) = self.wake.as_mut().map(|wake| wake.read(&mut [0; 64])) {
            self.wake = None;
        }
        self.counts.between.extend(self.answers.try_iter());
    }

    /// Asks for what is read before the phase of this index, once; whether that was read. `waits` says that the phase can wait
    /// for it, `samples` that gauges are read in it.
    pub(crate) fn is_read_before(&mut self, phase: usize, waits: bool, samples: bool) -> bool {
        if self.asked == phase {
            self.asked += 1;
            let samples = samples && !self.counts.spec.gauges.is_empty();
            // A thread that has ended is noticed at the end.
            let _ = self.requests.as_ref().map(|requests| requests.send(Asked { waits, samples }));
        }
        let ended = self.thread.as_ref().is_none_or(JoinHandle::is_finished);
        self.turn();
        self.counts.between.len() > phase || ended
    }

    /// Ends it; what was read.
    pub(crate) fn finish(mut self) -> Counts {
        self.ends.store(true, Ordering::Relaxed);
        self.requests = None;
        // Each wait in it is limited.
        let crashed = self.thread.take().is_some_and(|thread| thread.join().is_err());
        self.turn();
        let Counts { spec, between } = &mut self.counts;
        if crashed && between.len() < self.asked {
            let why = Why::Failed("the reader of counters crashed".into());
            let values = missing(names(spec), &why);
            between.resize(self.asked, Between { end: values.clone(), begin: values, samples: Vec::new() });
        }
        self.counts
    }
}

fn failed(source: std::io::Error) -> Error {
    Error::Setup { doing: "read counters of a service", source }
}

/// All that is read.
fn names(spec: &CountersSpec) -> impl Iterator<Item = &String> {
    spec.totals.iter().chain(&spec.gauges)
}

/// What runs in the thread.
struct Reader {
    source: Box<dyn Source>,
    names: Vec<String>,
    ends: Arc<AtomicBool>,
    samples: Vec<(Nanos, Values)>,
}

impl Reader {
    fn run(&mut self, requests: &Receiver<Asked>, answers: &Sender<Between>, mut wake: PipeWriter) {
        let mut next: Option<Instant> = None;
        loop {
            let asked = match next {
                Some(at) => requests.recv_timeout(at.saturating_duration_since(Instant::now())),
                None => requests.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match asked {
                Ok(asked) => {
                    let between = self.between(asked.waits);
                    if answers.send(between).is_err() || wake.write_all(b"\n").is_err() {
                        return;
                    }
                    next = asked.samples.then(|| Instant::now() + INTERVAL);
                }
                Err(RecvTimeoutError::Timeout) => {
                    let began = Instant::now();
                    let values = self.read().values;
                    self.samples.push((monotonic(), values));
                    next = Some(Instant::now() + INTERVAL.max(began.elapsed() * SHARE));
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Reads everything; a source that fails has no number.
    fn read(&mut self) -> Numbers {
        let Self { source, names, .. } = self;
        source.read().unwrap_or_else(|why| Numbers { values: missing(names.iter(), &why), late: None })
    }

    /// What is read after a phase.
    fn between(&mut self, waits: bool) -> Between {
        let samples = std::mem::take(&mut self.samples);
        let first = self.read();
        let Some(late) = first.late.clone() else {
            return Between { end: first.values.clone(), begin: first.values, samples };
        };
        let (mut last, until) = (first.clone(), Instant::now() + COMPLETE);
        let mut complete = BTreeSet::new();
        while waits && complete.len() < late.names.len() && Instant::now() < until && !self.ends.load(Ordering::Relaxed)
        {
            std::thread::sleep(AGAIN);
            let now = self.read();
            // Twice the same, since a session may be slower than it should be.
            let is_late = |name: &String| now.late.iter().any(|late| late.names.contains(name));
            let is_same = |name: &String| now.values.get(name) == last.values.get(name);
            complete = late.names.iter().filter(|name| !is_late(name) && is_same(name)).cloned().collect();
            last = now;
        }
        let why = incomplete(&late, waits);
        let mut between = Between { end: first.values, begin: last.values, samples };
        for name in &late.names {
            let reading = between.begin.get(name).filter(|_| complete.contains(name)).cloned();
            let reading = reading.unwrap_or_else(|| Reading::Missing(why.clone()));
            for values in [&mut between.end, &mut between.begin] {
                values.insert(name.clone(), reading.clone());
            }
        }
        between
    }
}

/// Why late totals are missing.
fn incomplete(late: &Late, waits: bool) -> Why {
    let text = match waits {
        true => format!("{}, which not all had been within {} s after the phase", late.why, COMPLETE.as_secs()),
        false => format!("{}, but the phase that waits for quiet begins at once", late.why),
    };
    Why::Failed(text.into())
}

/// Why a command cannot be executed, without the command.
fn not_executed(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    let cause = cause.downcast_ref::<std::io::Error>().map(|cause| format!(": {cause}")).unwrap_or_default();
    format!("it cannot be executed{cause}")
}

/// The numbers that a command prints.
struct Printed {
    command: Repeatable,
    launcher: Arc<dyn Launch>,
    names: Vec<String>,
    ends: Arc<AtomicBool>,
}

impl Source for Printed {
    fn read(&mut self) -> Result<Numbers, Why> {
        let (until, ends) = (Instant::now() + DEADLINE, Arc::clone(&self.ends));
        let mut stop = || Instant::now() >= until || ends.load(Ordering::Relaxed);
        let failed = |text: String| Why::Failed(format!("the command that prints counters: {text}").into());
        let end = self.command.run(&*self.launcher, &mut stop).map_err(|error| failed(not_executed(&error)))?;
        let end = end.ok_or_else(|| failed(format!("it did not end within {} s", DEADLINE.as_secs())))?;
        // Reasons are recorded, and neither the command nor what it wrote may be: it may have a password.
        match end.status {
            Status::Exited(0) => {}
            Status::Exited(code) => return Err(failed(format!("exit code {code}"))),
            Status::Signalled(signal) => return Err(failed(format!("signal {signal}"))),
        }
        let stdout = end.stdout.unwrap_or_default();
        if stdout.omitted > 0 {
            return Err(failed(format!("it printed {} bytes, which are too many", stdout.total)));
        }
        lines::printed(&stdout.text(), &self.names).map_err(|why| failed(why.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use prony_counters::Number;

    use super::*;

    /// A source that gives these readings, and then the last again.
    struct Scripted(Vec<Result<Numbers, Why>>);

    impl Source for Scripted {
        fn read(&mut self) -> Result<Numbers, Why> {
            if self.0.len() > 1 { self.0.remove(0) } else { self.0[0].clone() }
        }
    }

    fn numbers(total: f64, late: bool) -> Result<Numbers, Why> {
        let number = |value| Reading::Measured(Number { value, since: String::new(), lost: None });
        let values = [("total".to_owned(), number(total)), ("gauge".to_owned(), number(10.0 * total))].into();
        let why = "sessions report late".to_owned();
        Ok(Numbers { values, late: late.then(|| Late { names: vec!["total".to_owned()], why }) })
    }

    fn reader(script: Vec<Result<Numbers, Why>>) -> Reader {
        let names = ["total", "gauge"].map(str::to_owned).into();
        Reader { source: Box::new(Scripted(script)), names, ends: Arc::default(), samples: Vec::new() }
    }

    fn value(values: &Values, name: &str) -> Result<f64, String> {
        match &values[name] {
            Reading::Measured(number) => Ok(number.value),
            Reading::Missing(why) => Err(why.to_string()),
        }
    }

    #[test]
    fn late_totals_are_those_that_no_longer_change_and_gauges_those_of_the_phases_end() {
        let script = [(1.0, true), (2.0, true), (3.0, false), (4.0, false), (4.0, false)];
        let between = reader(script.map(|(total, late)| numbers(total, late)).into()).between(true);
        assert_eq!((value(&between.end, "total"), value(&between.begin, "total")), (Ok(4.0), Ok(4.0)));
        assert_eq!((value(&between.end, "gauge"), value(&between.begin, "gauge")), (Ok(10.0), Ok(40.0)));
    }

    #[test]
    fn totals_that_are_not_complete_are_missing_with_the_reason() {
        let at_once = reader(vec![numbers(1.0, true), numbers(2.0, false)]).between(false);
        let why = value(&at_once.end, "total").unwrap_err();
        assert!(why.starts_with("sessions report late, but the phase"), "{why}");
        assert_eq!((value(&at_once.begin, "gauge"), value(&at_once.begin, "total").is_err()), (Ok(10.0), true));
        let ended = reader(vec![numbers(1.0, true)]);
        ended.ends.store(true, Ordering::Relaxed);
        let mut ended = ended;
        assert!(value(&ended.between(true).end, "total").unwrap_err().contains("within 30 s"));
        let complete = reader(vec![numbers(1.0, false), numbers(2.0, false)]).between(true);
        assert_eq!((value(&complete.end, "total"), complete.end == complete.begin), (Ok(1.0), true));
    }

    #[test]
    fn source_that_fails_has_no_number() {
        let between = reader(vec![Err(Why::Failed("no connection".into()))]).between(true);
        assert_eq!(between.end.len(), 2);
        assert!(between.end.values().all(|reading| *reading == Reading::failed("no connection")));
    }

    /// A source that panics when it is read a second time.
    struct Crashing(u32);

    impl Source for Crashing {
        fn read(&mut self) -> Result<Numbers, Why> {
            self.0 += 1;
            assert!(self.0 < 2, "it crashes on purpose");
            numbers(1.0, false)
        }
    }

    fn counting(source: impl Source + 'static) -> Counting {
        let names = |name: &str| vec![name.to_owned()];
        let (totals, gauges) = (names("total"), names("gauge"));
        let spec = CountersSpec { source: CounterSource::Redis(String::new()), totals, gauges, operations: None };
        Counting::of(&spec, Box::new(source), Arc::default()).unwrap()
    }

    /// Whether a wait would end at once, after a wait for anything.
    fn readable(counting: &Counting, limit: i64) -> bool {
        let Some(source) = counting.as_source() else { return false };
        let limit = rustix::event::Timespec { tv_sec: limit, tv_nsec: 0 };
        let mut fds = [rustix::event::PollFd::from_borrowed_fd(source, rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut fds, Some(&limit)).unwrap() > 0
    }

    #[test]
    fn what_was_read_is_waited_for_only_until_it_is_taken() {
        let mut counting = counting(Scripted(vec![numbers(1.0, false)]));
        counting.asked = 1;
        counting.requests.as_ref().unwrap().send(Asked { waits: false, samples: false }).unwrap();
        assert!(readable(&counting, 60), "an answer wakes the loop");
        counting.turn();
        assert!(!readable(&counting, 0) && counting.as_source().is_some());
        assert_eq!(counting.finish().between.len(), 1);
    }

    #[test]
    fn reader_that_crashed_is_the_reason_and_is_not_waited_for() {
        let mut counting = counting(Crashing(0));
        for phase in 0..3 {
            while !counting.is_read_before(phase, false, false) {
                readable(&counting, 60);
            }
        }
        while counting.as_source().is_some() {
            counting.turn();
        }
        let between = counting.finish().between;
        let totals: Vec<_> = between.iter().map(|one| value(&one.end, "total")).collect();
        let crashed = || Err("the reader of counters crashed".to_owned());
        assert_eq!(totals, [Ok(1.0), crashed(), crashed()]);
    }
}
