//! The lines that probes write into the channel of marks.

use prony_model::record::probe::Because;
use prony_model::units::{Bytes, Nanos};
use serde::Deserialize;

use super::figures::{GcFigures, HeapFigures};
use crate::error::Error;

/// The process and thread that a line comes from; a heap belongs to both in Node, to the process in Python.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
pub struct Source {
    /// The process.
    pub pid: u32,
    /// The runtime's own number of the thread: 0 is the main one.
    pub thread: u32,
}

/// A report of a probe, with its time and origin.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct ProbeLine {
    /// The instant of `CLOCK_MONOTONIC`.
    pub at: Nanos,
    /// The process and thread.
    #[serde(flatten)]
    pub source: Source,
    /// The report.
    #[serde(flatten)]
    pub event: ProbeEvent,
}

/// The kinds of reports.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "probe", rename_all = "snake_case")]
pub enum ProbeEvent {
    /// A process, worker thread or forked child begins.
    Hello(Hello),
    /// The function of a call was found and is timed.
    Found {
        /// The call.
        call: String,
        /// The module's file.
        file: String,
    },
    /// The module of a call was loaded, but its function does not exist or cannot be timed.
    NotFound {
        /// The call.
        call: String,
        /// The module's file.
        file: String,
        /// Why.
        why: String,
    },
    /// An invocation begins.
    Begin {
        /// The call.
        call: String,
        /// The number of the invocation in this thread, from 1.
        n: u64,
        /// How many were running before: 0 for an outermost one.
        open: u64,
    },
    /// An invocation ends: it returned or threw, or the promise it returned settled.
    End {
        /// The call.
        call: String,
        /// The number of the invocation.
        n: u64,
        /// How many are still running.
        open: u64,
        /// Whether it neither threw nor rejected.
        ok: bool,
        /// Its time, without that in which the thread was suspended or its own `begin` was written.
        took: Nanos,
    },
    /// An invocation that is about to end returned what does its work later, or its promise settled with that. Once for each
    /// thread.
    Deferred {
        /// The call.
        call: String,
        /// What it returned, with its article: `a generator`, `an awaitable`.
        returned: String,
    },
    /// All invocations of a hot function that were not reported one by one, since the thread's start; each such line
    /// replaces the one before. One comes at an end of an invocation at most once a second; when the last running one
    /// ends, if the line before reported running ones; at a turn of Node's event loop, if none has ended for 100 ms; and at an
    /// orderly end, if any has begun or ended since the line before.
    Calls(Tallied),
    /// The thread waits for a [`super::SuspendedThread`].
    Suspended {
        /// The call whose end it is.
        call: String,
        /// The number of the invocation.
        n: u64,
        /// The number of the suspension in this thread, from 1; the [`super::SuspendedThread`] needs it.
        suspension: u64,
        /// It continued after an earlier suspension, to be collected here: see [`Because::Later`].
        #[serde(default)]
        later: bool,
        /// The heap at that instant.
        heap: HeapFigures,
    },
    /// Answer to a `collect`: a full garbage collection is done.
    Collected {
        /// What it took.
        took: Nanos,
        /// The heap after it.
        heap: HeapFigures,
    },
    /// The thread continues, or is about to stop.
    Resumed {
        /// Why.
        because: Because,
    },
    /// Sizes of the heap, and counts of garbage collections.
    Heap {
        /// Why the heap was read.
        why: Occasion,
        /// The sizes and counts.
        heap: HeapFigures,
        /// The longest delay of the event loop since an instant.
        loop_delay_max: Option<Nanos>,
        /// That instant: that of the sample before the last one.
        loop_delay_since: Option<Nanos>,
    },
    /// Collections since the last such line, each as the counts at its end. CPython's that end within a millisecond are
    /// joined.
    Gc {
        /// In the order of time.
        points: Vec<GcFigures>,
    },
    /// The cost of the probe for this thread so far.
    Cost {
        /// Time inside the probe, its loading included; for hot functions an estimate.
        time: Nanos,
        /// What its loading added to the heap (Node).
        heap: Option<Bytes>,
        /// What its loading added to the allocator's blocks (CPython).
        blocks: Option<u64>,
        /// Lines that it has sent.
        lines: u64,
        /// Lines that could not be sent.
        lost: u64,
    },
    /// An orderly end of the thread or process; of a worker thread also the report of its parent after its end.
    Bye {},
    /// An abort at the own heap limit. Never on the channel: see [`super::Prepared::heap_aborts`].
    #[serde(skip)]
    HeapAbort {
        /// The heap at that moment.
        heap: HeapFigures,
        /// The runtime's message.
        what: String,
    },
}

/// The first line of a thread or process.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Hello {
    /// The process that started this one.
    pub parent: u32,
    /// `node` or `python`.
    pub runtime: String,
    /// Its version.
    pub version: String,
    /// The script that it runs.
    pub script: String,
    /// Calls that this runtime cannot time, as far as that is known before they load.
    pub unsupported: Vec<Unsupported>,
}

/// A call that a runtime cannot time.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Unsupported {
    /// The call.
    pub call: String,
    /// Why.
    pub why: String,
}

/// Invocations of a hot function.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Tallied {
    /// The call.
    pub call: String,
    /// How many are still running, those reported one by one included.
    pub open: u64,
    /// Whether any of them began while another was running, including those reported one by one and those that have not
    /// ended.
    pub overlapped: bool,
    /// When the last of them ended; 0 if none has.
    pub last: Nanos,
    /// Invocations that ended.
    pub count: u64,
    /// Those that threw or rejected.
    pub failed: u64,
    /// The sum of their times, of failed ones too.
    pub total: Nanos,
    /// The shortest of those that did not fail.
    pub min: Nanos,
    /// The longest of those that did not fail.
    pub max: Nanos,
    /// Classes for each power of two.
    pub sub: u32,
    /// Those that did not fail, in runs of neighbouring classes: the first class, and the count of each from there on. Class `c` holds times from
    /// `2^(c / sub) * (1 + c % sub / sub)` nanoseconds.
    pub classes: Vec<Vec<u64>>,
}

/// Why the heap was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Occasion {
    /// The thread's start.
    Start,
    /// A periodic sample.
    Sample,
    /// A sample that was due at the begin or end of a call.
    Call,
    /// A command.
    Read,
    /// An orderly end.
    Exit,
}

impl Tallied {
    /// The invocations of each class that did not fail: the shortest time that belongs to it, the shortest that does not, and how many.
    pub fn buckets(&self) -> impl Iterator<Item = (Nanos, Nanos, u64)> {
        let floor = |class| floor(class, u64::from(self.sub));
        let runs = self.classes.iter().filter_map(|run| run.split_first());
        runs.flat_map(move |(first, counts)| {
            (0..).zip(counts).map(move |(nth, count)| {
                let class = first.saturating_add(nth);
                (floor(class), floor(class.saturating_add(1)), *count)
            })
        })
    }
}

/// The shortest time of a class; the probes keep `sub` a power of two up to 128.
fn floor(class: u64, sub: u64) -> Nanos {
    let sub = sub.max(1);
    let exponent = (class / sub).min(63);
    let part = 1.0 + (class % sub) as f64 / sub as f64;
    Nanos::from_nanos((part * (1_u64 << exponent) as f64).ceil() as u64)
}

/// Reads a line of a probe.
///
/// # Errors
/// When it is no line of a probe; programs write their marks there too.
pub fn parse(line: &str) -> Result<ProbeLine, Error> {
    let refused = |source| Error::ProbeLine { line: line.chars().take(200).collect(), source };
    serde_json::from_str(line).map_err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(line: &str) -> ProbeLine {
        parse(line).unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    proptest::proptest! {
        #[test]
        fn a_time_lies_in_its_class(n in 1_u64..(1 << 52)) {
            // The exponent of a time and the first seven bits below its leading one, as in the probes.
            let exponent = n.ilog2();
            let part = if exponent >= 7 { n >> (exponent - 7) } else { n << (7 - exponent) };
            let class = u64::from(exponent) * 128 + part - 128;
            let (from, to) = (floor(class, 128).as_nanos(), floor(class + 1, 128).as_nanos());
            proptest::prop_assert!(from <= n && n < to.max(from + 1), "{n} in {class}: {from}..{to}");
            proptest::prop_assert!(to as f64 / from as f64 <= 1.0 + 1.0 / 128.0 + 1.0 / from as f64);
        }
    }

    #[test]
    fn each_kind_of_line_is_read() {
        let line = probe(
            r#"{"probe":"end","at":18000000000000001,"pid":7,"thread":2,"call":"a","n":3,"open":1,"ok":false,"took":12}"#,
        );
        assert_eq!(line.source, Source { pid: 7, thread: 2 });
        assert_eq!(line.at.as_nanos(), 18_000_000_000_000_001);
        assert!(
            matches!(line.event, ProbeEvent::End { n: 3, open: 1, ok: false, took, .. } if took == Nanos::from_nanos(12))
        );
        let line = probe(r#"{"probe":"bye","at":1,"pid":7,"thread":0}"#);
        assert_eq!(line.event, ProbeEvent::Bye {});
        let line = probe(r#"{"probe":"heap","at":1,"pid":7,"thread":0,"why":"sample","heap":{"used":1}}"#);
        assert!(matches!(line.event, ProbeEvent::Heap { why: Occasion::Sample, loop_delay_max: None, .. }));
        let line = probe(
            r#"{"probe":"calls","at":1,"pid":7,"thread":0,"call":"a","open":1,"overlapped":true,"last":1,"count":3,"failed":0,"total":9,"min":1,"max":5,"sub":16,"classes":[[0,1],[20,1,1]]}"#,
        );
        let ProbeEvent::Calls(tallied) = line.event else { panic!("{line:?}") };
        let buckets: Vec<_> =
            tallied.buckets().map(|(from, to, count)| (from.as_nanos(), to.as_nanos(), count)).collect();
        assert_eq!((tallied.open, tallied.overlapped), (1, true));
        assert_eq!(buckets, [(1, 2, 1), (3, 3, 1), (3, 3, 1)]);
        let line = probe(r#"{"probe":"resumed","at":1,"pid":7,"thread":0,"because":"unanswered"}"#);
        assert_eq!(line.event, ProbeEvent::Resumed { because: Because::Unanswered });
    }

    #[test]
    fn anything_else_is_refused_with_its_beginning() {
        for line in [
            "",
            "begin source",
            "{}",
            r#"{"mark":"x","boundary":"begin"}"#,
            r#"{"probe":"dying","at":1,"pid":1,"thread":0}"#,
        ] {
            assert!(matches!(parse(line), Err(Error::ProbeLine { .. })), "{line}");
        }
        let error = parse(&"x".repeat(5000)).unwrap_err();
        assert!(error.to_string().len() < 300);
    }
}
