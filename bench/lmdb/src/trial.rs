//! Runs one trial in this process, with the code that prony's worker runs.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use prony_engines::phases::{Machine, Plan};
use prony_engines::registry;
use prony_engines::timed_loop::process_cpu;
use prony_model::link::{Link, LinkError, Progress};
use prony_model::protocol::{FromWorker, PhaseReport, ToWorker};
use prony_model::reading::{Reading, Why};
use prony_model::spec::{Action, Grouping, Order, Sampling};
use prony_model::units::Bytes;

use crate::cases::{Case, ops, plan};
use crate::{Result, compare};

/// A runner that asks for every phase in order.
struct Script {
    phases: usize,
    next: usize,
    /// The worker waits for the begin of a phase that it has prepared.
    prepared: bool,
    reports: Vec<PhaseReport>,
    /// CPU time of the process at the last phase's begin, then inside that phase.
    cpu: u64,
}

impl Link for Script {
    fn next(&mut self) -> std::result::Result<ToWorker, LinkError> {
        if std::mem::take(&mut self.prepared) {
            return Ok(ToWorker::Go);
        }
        let index = self.next;
        self.next += 1;
        Ok(if index < self.phases { ToWorker::Phase { index } } else { ToWorker::Stop })
    }

    fn send(&mut self, message: FromWorker) -> std::result::Result<(), LinkError> {
        match message {
            FromWorker::Prepared { .. } => self.prepared = true,
            FromWorker::Began { .. } => self.cpu = process_cpu(),
            FromWorker::Ended { report, .. } => {
                self.cpu = process_cpu() - self.cpu;
                self.reports.push(*report);
            }
            _ => (),
        }
        Ok(())
    }
}

struct NoMachine;

impl Machine for NoMachine {
    fn evict(&self, _dir: &Path) -> Reading<f64> {
        Reading::Missing(Why::NotApplicable)
    }

    fn bytes(&self) -> Reading<(Bytes, Bytes)> {
        Reading::Missing(Why::NotApplicable)
    }
}

fn run(plan: &Plan) -> Result<Script> {
    let mut script = Script { phases: plan.spec.phases.len(), next: 0, prepared: false, reports: Vec::new(), cpu: 0 };
    registry::host("lmdb", &mut script, &NoMachine, plan, &Progress::default())?;
    Ok(script)
}

/// Runs a case and prints what the C program prints: time and CPU time inside timed sections, rows.
pub(crate) fn print(case: &str, dir: &str, every: bool) -> Result<()> {
    let sample = if every { Sampling::Every } else { Sampling::None };
    let script = run(&Case::named(case)?.plan(Path::new(dir), sample))?;
    let report = script.reports.last().ok_or("no phase was run")?;
    let rows = report.rows.unwrap_or(report.operations);
    println!("{} {} {rows}", report.time.as_nanos(), script.cpu.saturating_sub(report.gap_cpu.as_nanos()));
    Ok(())
}

/// Anonymous memory of this process while records go into LMDB, 10,000 a transaction: its peak, sampled every
/// millisecond, for each number of records.
pub(crate) fn memory() -> Result<()> {
    println!("{:>10}  {:>12}  {:>12}", "records", "anon before", "anon peak");
    for records in [100_000, 1_000_000, 10_000_000] {
        let dir = compare::scratch()?;
        let before = anonymous_kib()?;
        let put = Action::Put(ops(Order::Record, Grouping::Batch(10_000), Sampling::None));
        let plan = plan(&dir, records, false, vec![("source", put)]);
        let (peak, done) = (AtomicU64::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    peak.fetch_max(anonymous_kib().unwrap_or(0), Relaxed);
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            let ended = run(&plan);
            done.store(true, Relaxed);
            ended
        })?;
        println!("{records:>10}  {:>8} KiB  {:>8} KiB", before, peak.load(Relaxed));
        std::fs::remove_dir_all(dir)?;
    }
    Ok(())
}

fn anonymous_kib() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).ok_or("no `RssAnon` in the status")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse()?)
}
