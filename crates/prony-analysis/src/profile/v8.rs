//! Reads V8's `.cpuprofile` files (the type `Profile` of the DevTools protocol), with the data that prony's preload
//! script adds under `prony`.
//!
//! Its instants are microseconds of V8's own clock. On Linux that is `CLOCK_MONOTONIC`, but no document promises it:
//! the preload reads that clock before and after V8 says "now", at the start and at the end, and from these four
//! readings follows by how much the two can differ at most.

use std::collections::HashMap;

use serde::Deserialize;

use super::build::Builder;
use super::model::{Function, Sample, Thread};
use super::{Damaged, package};
use prony_model::units::Nanos;

/// As V8 writes it. Numbers are floating: older versions write fractions.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    nodes: Vec<Node>,
    start_time: f64,
    end_time: f64,
    #[serde(default)]
    samples: Vec<u64>,
    #[serde(default)]
    time_deltas: Vec<f64>,
    prony: Option<ThreadInfo>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Node {
    id: u64,
    call_frame: CallFrame,
    #[serde(default)]
    children: Vec<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CallFrame {
    function_name: String,
    #[serde(default)]
    url: String,
    /// From 0; below it in V8's own states and in native functions, which have no place.
    #[serde(default = "nowhere")]
    line_number: i64,
    #[serde(default = "nowhere")]
    column_number: i64,
}

const fn nowhere() -> i64 {
    -1
}

/// The preload's facts about the thread. Instants are nanoseconds of `CLOCK_MONOTONIC`.
#[derive(Deserialize)]
struct ThreadInfo {
    pid: u32,
    thread: u32,
    name: String,
    /// Before and after the profiler was started.
    started: [u64; 2],
    /// Before and after it was stopped.
    stopped: [u64; 2],
}

impl Builder {
    /// Adds a `.cpuprofile`. One that prony's preload did not write is taken to be of thread 0 of process 0, and its
    /// clock to be `CLOCK_MONOTONIC`.
    ///
    /// # Errors
    /// [`Damaged`] where the text is not such a file.
    pub(crate) fn add_cpuprofile(&mut self, text: &str) -> Result<(), Damaged> {
        let file: File = serde_json::from_str(text).map_err(|error| Damaged(error.to_string()))?;
        let (name, pid, tid) = match &file.prony {
            Some(info) => (info.name.clone(), info.pid, info.thread),
            None => ("node".to_owned(), 0, 0),
        };
        let thread = self.thread(Thread { pid, tid, name });
        let clock = Clock::of(&file);
        self.uncertain(clock.uncertainty());
        let frames = self.frames_of(&file.nodes)?;
        let mut at = file.start_time;
        let mut instants = Vec::with_capacity(file.samples.len() + 1);
        for delta in file.time_deltas.iter().take(file.samples.len()) {
            // A sample is sometimes older than the one before it; the model's times never decrease.
            at += delta;
            instants.push(at.max(instants.last().copied().unwrap_or(at)));
        }
        instants.push(file.end_time.max(instants.last().copied().unwrap_or(file.start_time)));
        for (id, span) in file.samples.iter().zip(instants.windows(2)) {
            let frame = *frames
                .get(id)
                .ok_or_else(|| Damaged(format!("a sample refers to node {id}, which does not exist")))?;
            let (at, until) = (clock.monotonic(span[0]), clock.monotonic(span[1]));
            self.sample(Sample { at, time: until.since(at), thread, frame });
        }
        Ok(())
    }

    /// The frame of each node. The root is no call; a sample with only the root belongs to no known function.
    fn frames_of(&mut self, nodes: &[Node]) -> Result<HashMap<u64, usize>, Damaged> {
        let by_id: HashMap<u64, &Node> = nodes.iter().map(|node| (node.id, node)).collect();
        let children: std::collections::HashSet<u64> = nodes.iter().flat_map(|node| node.children.clone()).collect();
        let mut frames = HashMap::with_capacity(nodes.len());
        let roots = nodes.iter().filter(|node| !children.contains(&node.id));
        let mut open: Vec<(&Node, Option<usize>)> = roots.map(|root| (root, None)).collect();
        while let Some((node, parent)) = open.pop() {
            let is_root = parent.is_none() && node.call_frame.function_name == "(root)";
            let function = self.function_of_frame(&node.call_frame, is_root);
            let frame = self.frame(parent, function);
            if frames.insert(node.id, frame).is_some() {
                return Err(Damaged(format!("node {} has two parents", node.id)));
            }
            for child in &node.children {
                let child = by_id.get(child).ok_or_else(|| Damaged(format!("node {child} does not exist")))?;
                open.push((child, (!is_root).then_some(frame)));
            }
        }
        Ok(frames)
    }

    fn function_of_frame(&mut self, frame: &CallFrame, is_root: bool) -> usize {
        let name = match frame.function_name.as_str() {
            _ if is_root => "(unknown)",
            "" => "(anonymous)",
            name => name,
        };
        let place = |number: i64| u32::try_from(number.checked_add(1)?).ok().filter(|place| *place > 0);
        let (line, column) = (place(frame.line_number), place(frame.column_number));
        let package = self.package(package::of_script(&frame.function_name, &frame.url, line));
        let file = frame.url.strip_prefix("file://").unwrap_or(&frame.url).to_owned();
        let idle = name == "(idle)" && frame.url.is_empty();
        self.function(Function { name: name.to_owned(), file, line, column, package, idle })
    }
}

/// V8's clock against ours: what has to be added lies between these bounds, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Clock {
    low: f64,
    high: f64,
}

impl Clock {
    fn of(file: &File) -> Self {
        let Some(info) = &file.prony else { return Self { low: 0.0, high: 0.0 } };
        let bounds = |[before, after]: [u64; 2], v8: f64| (before as f64 - v8 * 1e3, after as f64 - v8 * 1e3);
        let (start, stop) = (bounds(info.started, file.start_time), bounds(info.stopped, file.end_time));
        Self { low: start.0.max(stop.0), high: start.1.min(stop.1) }
    }

    /// None, where the readings allow that both are one clock; else the middle.
    fn offset(self) -> f64 {
        // V8 cuts to microseconds.
        if self.low <= 1e3 && self.high >= -1e3 { 0.0 } else { f64::midpoint(self.low, self.high) }
    }

    fn uncertainty(self) -> Nanos {
        let farthest = (self.low - self.offset()).abs().max((self.high - self.offset()).abs());
        Nanos::from_nanos(farthest.ceil() as u64)
    }

    fn monotonic(self, micros: f64) -> Nanos {
        Nanos::from_nanos((micros * 1e3 + self.offset()).max(0.0).round() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_clock_is_taken_for_one_where_the_readings_allow_it() {
        let clock = Clock { low: -26_000.0, high: 970_000.0 };
        assert_eq!((clock.offset(), clock.uncertainty()), (0.0, Nanos::from_micros(970)));
        assert_eq!(clock.monotonic(12.0), Nanos::from_micros(12));
    }

    #[test]
    fn another_clock_is_shifted_by_the_middle_of_what_is_possible() {
        let clock = Clock { low: 5_000_000.0, high: 7_000_000.0 };
        assert_eq!((clock.offset(), clock.uncertainty()), (6_000_000.0, Nanos::from_millis(1)));
        assert_eq!(clock.monotonic(1.0), Nanos::from_micros(6_001));
    }
}
