//! Fixtures of known work: a burst of CPU time after the answer, and sync calls.

use prony_core::experiment::spec::SettleSpec;
use prony_core::metric::{Metric, MetricKey};
use prony_core::reading::{Reading, Why};
use prony_core::record::MetricKeyText;
use prony_core::units::{Bytes, Fraction, Nanos};
use prony_probe::fixture::{Step, Syncs};
use prony_probe::launch::Scratch;
use prony_probe::sample::{Readings, phase_readings};

use super::Ran;
use super::bench::{Bench, Watched};
use super::line::{Line, Unit};
use crate::error::Error;

/// CPU time of the burst.
const BURST: Nanos = Nanos::from_millis(1_500);

/// The fixture's end of work is found within so much.
const LATE: Nanos = Nanos::from_millis(500);

/// A process that works on after its answer, then idles: the watch says when it became quiet, and how much CPU time
/// it took (METHOD 2.6). When it really ended the fixture says itself, since on a busy machine 1.5 s of CPU time
/// take longer.
///
/// # Errors
/// Where the machine refuses what every subject needs.
pub(super) fn burst_then_idle(bench: &Bench) -> Result<Ran, Error> {
    let scratch = Scratch::create(&bench.near)?;
    let mut observed = bench.observe(1, &scratch)?;
    let begin = observed.edge();
    let watched = observed.settle(&Step::Burst(BURST), &spec())?;
    let end = observed.edge();
    let series = observed.end()?;
    Ok(Ran::Lines(burst_lines(&watched, &phase_readings(&begin, &end, &series, ""))))
}

fn spec() -> SettleSpec {
    SettleSpec {
        quiet: Nanos::from_secs(2),
        within: Nanos::from_secs(90),
        cpu: Fraction::new(0.02).expect("2 % is a share"),
        bytes: Bytes::from_kib(100),
    }
}

fn burst_lines(watched: &Watched, phase: &Readings) -> Vec<Line> {
    let none = || Why::Failed("the watch found nothing".to_owned());
    let found = watched.result.as_ref();
    let time = found.map_or_else(|| Reading::Missing(none()), |found| found.time.clone());
    let cpu = found.map_or_else(|| Reading::Missing(none()), |found| found.cpu.clone());
    let nanos = |time: Nanos| time.as_nanos() as f64;
    let (ended, used) = (nanos(watched.truth.at.since(watched.began)), watched.truth.amount as f64);
    vec![
        Line::figure("end of the burst", Unit::Nanos, ended, time.map(nanos), nanos(LATE)),
        Line::figure("CPU time, by the watch", Unit::Nanos, used, cpu.map(nanos), used * 0.02),
        // Of the control group, where there is one, and as the kernel's scheduler counts for each thread.
        Line::figure("`cpu` of the phase", Unit::Nanos, used, amount(phase, Metric::Cpu), used * 0.02),
        Line::figure("`on_cpu` of the phase", Unit::Nanos, used, amount(phase, Metric::OnCpu), used * 0.02),
    ]
}

fn amount(readings: &Readings, metric: Metric) -> Reading<f64> {
    let none = || Reading::Missing(Why::Failed("the phase has no such reading".to_owned()));
    readings.get(&MetricKeyText(MetricKey::amount(metric))).cloned().unwrap_or_else(none)
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
    let begin = observed.edge();
    let directory = scratch.path().to_path_buf();
    let syncs = Syncs { directory, threads: THREADS, fsync: FSYNCS, fdatasync: FDATASYNCS, child: true };
    let done = observed.step(&Step::Sync(syncs))?;
    let end = observed.edge();
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
    use prony_probe::fixture::Done;
    use prony_probe::settle::SettleResult;

    use super::super::line::Judgement;
    use super::*;

    fn phase(values: &[(Metric, f64)]) -> Readings {
        let reading =
            |(metric, value): &(Metric, f64)| (MetricKeyText(MetricKey::amount(*metric)), Reading::Measured(*value));
        values.iter().map(reading).collect()
    }

    /// A burst from 10 s to 12 s that took 1.5 s of CPU time, as the watch may have seen it.
    fn burst(time: Reading<Nanos>, cpu_ms: u64, of_phase: f64) -> Vec<Judgement> {
        let result = SettleResult {
            settled: true,
            time,
            watched: Nanos::from_secs(4),
            step: Nanos::ZERO,
            cpu: Reading::Measured(Nanos::from_millis(cpu_ms)),
            written: Reading::Measured(Bytes::default()),
            blind: Vec::new(),
        };
        let truth = Done { at: Nanos::from_secs(12), amount: 1_500_000_000 };
        let watched = Watched { began: Nanos::from_secs(10), result: Some(result), truth };
        burst_lines(&watched, &phase(&[(Metric::Cpu, of_phase), (Metric::OnCpu, 1.5e9)]))
            .iter()
            .map(Line::judge)
            .collect()
    }

    #[test]
    fn the_end_is_compared_with_what_the_fixture_says_of_it() {
        use Judgement::{Fail, Pass};
        let at = |ms| Reading::Measured(Nanos::from_millis(ms));
        assert_eq!(burst(at(2_100), 1_510, 1.49e9), [Pass, Pass, Pass, Pass]);
        assert_eq!(burst(at(1_400), 1_540, 1.45e9), [Fail, Fail, Fail, Pass]);
        let never = Reading::Missing(Why::Failed("not settled within 90 s".to_owned()));
        assert_eq!(burst(never, 1_500, 1.5e9), [Fail, Pass, Pass, Pass]);
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
