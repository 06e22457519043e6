//! Fixtures that do a known amount of work: a burst of CPU time after the response, and sync calls such as `fsync`.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use prony_model::metric::{Metric, MetricKey};
use prony_model::reading::{Reading, Why};
use prony_model::spec::{SettleSpec, Sign};
use prony_model::units::{Bytes, Fraction, Nanos};
use prony_os::cache;
use prony_os::clock::monotonic;
use prony_os::fixture::{Step, Syncs};
use prony_os::launch::Scratch;
use prony_os::sample::{Readings, phase_readings};
use prony_os::settle::SettleResult;

use super::Ran;
use super::bench::{Bench, Watched, reading};
use super::check_line::{Line, Unit};
use crate::error::Error;

/// CPU time of the burst.
const BURST: Nanos = Nanos::from_millis(1_500);

/// The fixture's end of work is found within so much, or between two polls where a busy machine has them further apart.
const LATE: Nanos = Nanos::from_millis(500);

/// Dirty pages of the store that is watched beside the process.
const DIRTY: Bytes = Bytes::from_mib(4);

/// They are written to the disk so long after the burst would end on an idle machine, long before the kernel would do it.
const LATER: Nanos = Nanos::from_millis(1_500);

/// A process that works on after its answer, then idles, beside dirty pages that are written later: the watch says when the
/// process became quiet, how much CPU time it took, and when the pages were written (METHOD 2.6). When the work really ended
/// the fixture says itself, since on a busy machine 1.5 s of CPU time take longer.
///
/// # Errors
/// Where the machine refuses what every subject needs.
pub(super) fn burst_then_idle(bench: &Bench) -> Result<Ran, Error> {
    let scratch = Scratch::create(&bench.near)?;
    let store = Scratch::create(&bench.near)?;
    let setup = Error::setup("leave dirty pages");
    let pages = store.path().join("pages");
    fs::write(&pages, vec![7; DIRTY.as_bytes() as usize]).map_err(&setup)?;
    // What prony has open for writing is no part of a store.
    let file = File::open(&pages).map_err(&setup)?;
    let mut observed = bench.observe(1, &scratch)?;
    let begin = observed.snapshot();
    let directory = store.path().to_path_buf();
    let writer = std::thread::spawn(move || written_later(&file, &directory));
    let watched = observed.settle(&Step::Burst(BURST), store.path(), &spec())?;
    let written = writer.join().map_err(|_| setup(io::Error::other("a thread panicked")))?;
    let end = observed.snapshot();
    let series = observed.end()?;
    store.remove()?;
    let mut lines = burst_lines(&watched, &phase_readings(&begin, &end, &series, ""));
    lines.push(dirty_line(&watched, written));
    Ok(Ran::Lines(lines))
}

/// Writes the pages later, and says when they were written; missing where the kernel had done it before.
fn written_later(file: &File, directory: &Path) -> Reading<Nanos> {
    std::thread::sleep((BURST + LATER).to_duration());
    let dirty = cache::resident(directory)
        .measured()
        .is_none_or(|found| found.unwritten().measured().is_none_or(|unwritten| *unwritten > spec().bytes));
    match file.sync_all() {
        Ok(()) if dirty => Reading::Measured(monotonic()),
        Ok(()) => Reading::Missing(Why::NotSupported("the kernel wrote the pages before prony did".into())),
        Err(error) => Reading::failed(error.to_string()),
    }
}

fn dirty_line(watched: &Watched, written: Reading<Nanos>) -> Line {
    let found = watched.result.signs[&Sign::Dirty].clone();
    let truth = written.clone().map(|at| nanos(at.since(watched.began)));
    let reading = truth.clone().and(found, |_, found| nanos(found));
    let truth = truth.measured().copied().unwrap_or_default();
    Line::figure("dirty pages written", Unit::Nanos, truth, reading, nanos(LATE.max(watched.result.step)))
}

fn spec() -> SettleSpec {
    SettleSpec {
        quiet: Nanos::from_secs(2),
        within: Nanos::from_secs(90),
        cpu: Fraction::new(0.02).expect("2 % is a share"),
        bytes: Bytes::from_kib(100),
        ..SettleSpec::default()
    }
}

fn burst_lines(watched: &Watched, phase: &Readings) -> Vec<Line> {
    let SettleResult { time, cpu, step, .. } = watched.result.clone();
    let (ended, used) = (nanos(watched.truth.at.since(watched.began)), watched.truth.amount as f64);
    vec![
        Line::figure("end of the burst", Unit::Nanos, ended, time.map(nanos), nanos(LATE.max(step))),
        Line::figure("CPU time, by the watch", Unit::Nanos, used, cpu.map(nanos), used * 0.02),
        // Of the control group, where there is one, and as the kernel's scheduler counts for each thread.
        Line::figure("`cpu` of the phase", Unit::Nanos, used, amount(phase, Metric::Cpu), used * 0.02),
        Line::figure("`on_cpu` of the phase", Unit::Nanos, used, amount(phase, Metric::OnCpu), used * 0.02),
    ]
}

fn amount(readings: &Readings, metric: Metric) -> Reading<f64> {
    reading(readings, MetricKey::amount(metric))
}

fn nanos(time: Nanos) -> f64 {
    time.as_nanos() as f64
}

const THREADS: u32 = 2;
const FSYNCS: u64 = 20;
const FDATASYNCS: u64 = 10;

/// Sync calls by two threads and by a child process: counted exactly, or not at all.
///
/// # Errors
/// Where the machine refuses what every subject needs.
pub(super) fn fsync_count(bench: &Bench) -> Result<Ran, Error> {
    if let Reading::Missing(why) = bench.tracepoints.usable() {
        return Ok(Ran::NotRun(why.to_string()));
    }
    let scratch = Scratch::create(&bench.near)?;
    let mut observed = bench.observe(1, &scratch)?;
    let begin = observed.snapshot();
    let directory = scratch.path().to_path_buf();
    let syncs = Syncs { directory, threads: THREADS, fsync: FSYNCS, fdatasync: FDATASYNCS, child: true };
    let done = observed.step(&Step::Sync(syncs))?;
    let end = observed.snapshot();
    let series = observed.end()?;
    let made: u64 = done.iter().map(|done| done.amount).sum();
    Ok(Ran::Lines(sync_lines(made, &phase_readings(&begin, &end, &series, ""))))
}

fn sync_lines(made: u64, phase: &Readings) -> Vec<Line> {
    let by_all = |calls: u64| (calls * u64::from(THREADS + 1)) as f64;
    let line = |name, truth, metric| Line::figure(name, Unit::Calls, truth, amount(phase, metric), 0.0);
    vec![
        line("`fsync` by 2 threads, a child", by_all(FSYNCS), Metric::Fsync),
        line("`fdatasync` by 2 threads, a child", by_all(FDATASYNCS), Metric::Fdatasync),
        line("`fsyncs`, all sync calls", made as f64, Metric::Fsyncs),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use prony_model::record::MetricKeyText;

    use super::super::check_line::Judgement;
    use super::*;
    use prony_os::fixture::Done;

    fn phase(values: &[(Metric, f64)]) -> Readings {
        let reading =
            |(metric, value): &(Metric, f64)| (MetricKeyText(MetricKey::amount(*metric)), Reading::Measured(*value));
        values.iter().map(reading).collect()
    }

    /// A burst from 10 s to 12 s that took 1.5 s of CPU time, as the settle watch may have measured it.
    fn watched(time: Reading<Nanos>, dirty: Reading<Nanos>, cpu_ms: u64) -> Watched {
        let result = SettleResult {
            settled: true,
            time,
            signs: BTreeMap::from([(Sign::Dirty, dirty)]),
            roles: BTreeMap::new(),
            watched: Nanos::from_secs(4),
            step: Nanos::ZERO,
            cpu: Reading::Measured(Nanos::from_millis(cpu_ms)),
            written: Reading::Measured(Bytes::default()),
            blind: Vec::new(),
        };
        let truth = Done { at: Nanos::from_secs(12), amount: 1_500_000_000 };
        Watched { began: Nanos::from_secs(10), result, truth }
    }

    fn burst(time: Reading<Nanos>, cpu_ms: u64, of_phase: f64) -> Vec<Judgement> {
        let phase = phase(&[(Metric::Cpu, of_phase), (Metric::OnCpu, 1.5e9)]);
        burst_lines(&watched(time, at(3_000), cpu_ms), &phase).iter().map(Line::judge).collect()
    }

    fn at(ms: u64) -> Reading<Nanos> {
        Reading::Measured(Nanos::from_millis(ms))
    }

    #[test]
    fn the_end_is_compared_with_what_the_fixture_says_of_it() {
        use Judgement::{Fail, Pass};
        assert_eq!(burst(at(2_100), 1_510, 1.49e9), [Pass, Pass, Pass, Pass]);
        assert_eq!(burst(at(1_400), 1_540, 1.45e9), [Fail, Fail, Fail, Pass]);
        let never = Reading::Missing(Why::NotSettled("within 90 s".into()));
        assert_eq!(burst(never, 1_500, 1.5e9), [Fail, Pass, Pass, Pass]);
    }

    #[test]
    fn the_end_lies_between_two_polls_that_are_far_apart() {
        use Judgement::{Fail, Pass};
        let judged = |step_ms| {
            let mut watched = watched(at(2_900), at(4_000), 1_500);
            watched.result.step = Nanos::from_millis(step_ms);
            [burst_lines(&watched, &Readings::new()).remove(0), dirty_line(&watched, at(13_000))]
                .map(|line| line.judge())
        };
        assert_eq!((judged(400), judged(1_000)), ([Fail, Fail], [Pass, Pass]));
    }

    #[test]
    fn dirty_pages_are_compared_with_when_they_were_written() {
        use Judgement::{Fail, Pass};
        let judged = |dirty, written| dirty_line(&watched(at(2_000), dirty, 1_500), written).judge();
        assert_eq!((judged(at(3_100), at(13_000)), judged(at(2_000), at(13_000))), (Pass, Fail));
        let earlier = Reading::Missing(Why::NotSupported("the kernel wrote the pages before prony did".into()));
        assert!(matches!(judged(at(0), earlier), Judgement::NotRun(_)), "there is no truth to compare with");
    }

    #[test]
    fn one_call_more_or_less_fails() {
        let of = |fsync: f64| {
            let all = [(Metric::Fsync, fsync), (Metric::Fdatasync, 30.0), (Metric::Fsyncs, fsync + 30.0)];
            sync_lines(90, &phase(&all)).iter().map(Line::judge).collect::<Vec<_>>()
        };
        use Judgement::{Fail, Pass};
        assert_eq!(of(60.0), [Pass, Pass, Pass]);
        assert_eq!(of(40.0), [Fail, Pass, Fail], "the child's calls are missing");
        assert_eq!(of(61.0), [Fail, Pass, Fail]);
    }
}
