//! Records noise: repeats the same small pieces of work on the machine in its present state.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

/// Numbers that are sorted in a run.
const NUMBERS: usize = 150_000;

/// Bytes that are written and synced in a run.
const WRITTEN: usize = 64 * 1024;

/// What was recorded, with no word on whose machine it was.
#[derive(Debug, Serialize)]
pub struct Recording {
    about: About,
    /// Wall time of the sort, milliseconds.
    pub sort_ms: Vec<f64>,
    /// CPU time of the sort, milliseconds.
    pub sort_cpu_ms: Vec<f64>,
    /// Wall time of the write and the sync after it, milliseconds.
    pub sync_ms: Vec<f64>,
}

#[derive(Debug, Serialize)]
struct About {
    what: String,
    made_by: &'static str,
    began_unix: u64,
    seconds: f64,
    processors: usize,
    /// Load averages over one minute, before and after.
    load: [Option<f64>; 2],
}

/// Runs both pieces of work so many times; the file that is synced lies in the folder and is removed.
///
/// # Errors
/// Where the file cannot be written.
pub fn record(runs: usize, folder: &Path) -> io::Result<Recording> {
    let path = folder.join("prony-recording.tmp");
    let recorded = recorded(runs, &path);
    let removed = std::fs::remove_file(&path);
    let recording = recorded?;
    removed.map(|()| recording)
}

fn recorded(runs: usize, path: &Path) -> io::Result<Recording> {
    let began = Instant::now();
    let before = load();
    let mut recording = Recording {
        about: About {
            what: format!(
                "{runs} runs: a sort of {NUMBERS} numbers, then {WRITTEN} bytes written over the same file and synced"
            ),
            made_by: "prony-bench-verdicts record",
            began_unix: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            seconds: 0.0,
            processors: std::thread::available_parallelism().map_or(0, usize::from),
            load: [before, None],
        },
        sort_ms: Vec::with_capacity(runs),
        sort_cpu_ms: Vec::with_capacity(runs),
        sync_ms: Vec::with_capacity(runs),
    };
    for _ in 0..runs {
        let (wall, cpu) = sort();
        recording.sort_ms.push(rounded(wall));
        recording.sort_cpu_ms.push(rounded(cpu));
        recording.sync_ms.push(rounded(sync(path)?));
    }
    recording.about.seconds = rounded(began.elapsed().as_secs_f64());
    recording.about.load[1] = load();
    Ok(recording)
}

/// Wall and CPU milliseconds.
fn sort() -> (f64, f64) {
    let mut state = 1u64;
    let mut numbers: Vec<u64> = (0..NUMBERS)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 11
        })
        .collect();
    let (began, cpu) = (Instant::now(), thread_cpu());
    std::hint::black_box(&mut numbers).sort_unstable();
    std::hint::black_box(&numbers);
    (began.elapsed().as_secs_f64() * 1e3, thread_cpu() - cpu)
}

fn sync(path: &Path) -> io::Result<f64> {
    let bytes = vec![7u8; WRITTEN];
    let began = Instant::now();
    let mut file = File::create(path)?;
    file.write_all(&bytes)?;
    file.sync_data()?;
    Ok(began.elapsed().as_secs_f64() * 1e3)
}

/// CPU milliseconds of this thread.
fn thread_cpu() -> f64 {
    let at = clock_gettime(ClockId::ThreadCPUTime);
    at.tv_sec as f64 * 1e3 + at.tv_nsec as f64 / 1e6
}

fn load() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

/// Five significant digits: what comes after is of no use.
fn rounded(value: f64) -> f64 {
    format!("{value:.4e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_has_every_run_and_leaves_no_file() {
        let folder = std::env::temp_dir().join(format!("prony-recording-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let recording = record(3, &folder).unwrap();
        let lengths = [&recording.sort_ms, &recording.sort_cpu_ms, &recording.sync_ms].map(Vec::len);
        assert_eq!(lengths, [3, 3, 3]);
        assert!(recording.sort_ms.iter().chain(&recording.sync_ms).all(|ms| *ms > 0.0));
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
        std::fs::remove_dir(&folder).unwrap();
        let text = serde_json::to_string(&recording).unwrap();
        assert!(text.contains("\"made_by\":\"prony-bench-verdicts record\"") && !text.contains('/'), "{text}");
    }

    #[test]
    fn record_rounds_to_five_digits() {
        assert_eq!([rounded(12.345_678), rounded(0.001_234_567), rounded(0.0)], [12.346, 0.001_234_6, 0.0]);
    }
}
