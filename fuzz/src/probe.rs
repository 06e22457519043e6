//! Fuzzes the lines of the channel to which probes and programs write: cut from a stream, parsed, counted.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;

use prony_boundaries::calls::Calls;
use prony_boundaries::marks::Mark;
use prony_boundaries::probe_reports::Threads;
use prony_boundaries::stream::Stream;
use prony_boundaries::suspensions::Suspensions;
use prony_model::units::Nanos;
use prony_runtime::{ProbeEvent, ProbeLine, parse};

/// A pipe takes this much without a reader.
const LONGEST: usize = 60 << 10;

pub(super) fn run(data: &[u8]) {
    let Some((size, data)) = data.split_first() else { return };
    let data = &data[..data.len().min(LONGEST)];
    let lines = lines(data, usize::from(*size).max(1) * 16);
    let expected = expected_lines(data);
    assert_eq!(lines.len(), expected.len(), "each line is handed over once");
    for (line, expected) in lines.iter().zip(expected) {
        assert!(
            std::str::from_utf8(expected).is_ok_and(|text| text == line) || line.contains("\\x"),
            "lines are whole"
        );
    }
    let mut said = Said::default();
    for line in &lines {
        Mark::parse(line);
        match parse(line) {
            Ok(line) => said.take(&line),
            Err(error) => assert!(error.to_string().len() < 2_000, "a line is quoted by its beginning"),
        }
    }
    said.finish();
}

/// A newline ends a line, and a carriage return ends one that is not empty.
fn expected_lines(data: &[u8]) -> Vec<&[u8]> {
    let mut lines = Vec::new();
    for row in data.split_inclusive(|byte| *byte == b'\n') {
        let text = row.strip_suffix(b"\n").unwrap_or(row);
        let before = lines.len();
        lines.extend(text.split(|byte| *byte == b'\r').filter(|part| !part.is_empty()));
        if lines.len() == before && text.len() < row.len() {
            lines.push(&[]);
        }
    }
    lines
}

/// Read in pieces of `size` bytes.
fn lines(data: &[u8], size: usize) -> Vec<String> {
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    writer.write_all(data).expect("a pipe takes the bytes");
    drop(writer);
    let mut stream = Stream::new(Some(File::from(OwnedFd::from(reader))), true);
    let (mut lines, mut buffer) = (Vec::new(), vec![0; size]);
    while stream.take(&mut buffer, Nanos::ZERO, &mut |line| lines.push(line.text)) {}
    assert_eq!(stream.captured().total, data.len() as u64, "each byte is counted");
    lines
}

/// What is computed of the lines of probes.
#[derive(Default)]
struct Said {
    threads: Threads,
    calls: Calls,
}

impl Said {
    fn take(&mut self, line: &ProbeLine) {
        self.threads.take(line);
        match &line.event {
            ProbeEvent::Begin { open, .. } => self.calls.begin(line.source, line.at, *open),
            ProbeEvent::End { open, ok, took, .. } => {
                self.calls.end(line.source, line.at, *open, *ok, *took);
            }
            ProbeEvent::Calls(_) => self.calls.counted(line),
            _ => {}
        }
        self.calls.was_open(line.at);
    }

    fn finish(mut self) {
        let end = Nanos::from_secs(1);
        self.threads.finish(end, &[], &std::collections::BTreeMap::new());
        self.threads.report(true);
        self.calls.recorder().metrics(prony_model::metric::Metric::LATENCY);
        self.calls.time(end, (&Suspensions::default(), &Suspensions::default()));
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let with_size = |mut lines: Vec<u8>| {
        lines.insert(0, 4);
        lines
    };
    let recorded = super::files(&super::repository("fuzz/seeds"), "jsonl");
    let single = recorded.iter().flat_map(|lines| lines.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec));
    let progress = b"\rread 1 %\rread 2 %\r\n\r\n{\"probe\":\r".to_vec();
    single.chain(recorded.clone()).chain([progress]).map(with_size).collect()
}
