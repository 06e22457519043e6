//! Test support: lines of probes (`at` in milliseconds), and the state of threads after these lines.

use prony_boundaries::probe_reports::{MOST_SAMPLES, Threads};
use prony_runtime::{ProbeLine, parse};

/// With the rest of its JSON object.
pub(crate) fn line(pid: u32, thread: u32, at: u64, rest: &str) -> ProbeLine {
    let text = format!(r#"{{"at":{},"pid":{pid},"thread":{thread},{rest}}}"#, at * 1_000_000);
    parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

pub(crate) fn hello(pid: u32, thread: u32, at: u64) -> ProbeLine {
    let rest = r#""probe":"hello","parent":1,"runtime":"node","version":"20.1.0","script":"a.js","unsupported":[]"#;
    line(pid, thread, at, rest)
}

pub(crate) fn heap(pid: u32, thread: u32, at: u64, why: &str, used: u64) -> ProbeLine {
    line(pid, thread, at, &format!(r#""probe":"heap","why":"{why}","heap":{{"used":{used},"total":{}}}"#, 2 * used))
}

pub(crate) fn bye(pid: u32, thread: u32, at: u64) -> ProbeLine {
    line(pid, thread, at, r#""probe":"bye""#)
}

pub(crate) fn threads(lines: &[ProbeLine]) -> Threads {
    let mut threads = Threads::default();
    lines.iter().for_each(|line| threads.take(line));
    threads
}

/// After so many figures of another process, which ended at 0, that no more are stored.
pub(crate) fn full(lines: &[ProbeLine]) -> Threads {
    let mut threads = threads(lines);
    threads.take(&hello(99, 0, 0));
    let sample = heap(99, 0, 0, "sample", 1);
    (0..MOST_SAMPLES).for_each(|_| threads.take(&sample));
    threads.take(&bye(99, 0, 0));
    threads
}
