//! Fixtures whose true memory use is known: an allocation of known size, and readers of a mapped file.

use std::fs;
use std::io;
use std::path::PathBuf;

use prony_model::metric::{Metric, MetricKey, Stat};
use prony_model::reading::Reading;
use prony_model::record::Mount;
use prony_model::units::Bytes;
use prony_os::fixture::{Allocation, Step};
use prony_os::launch::Scratch;
use prony_os::mount;
use prony_os::sample::{Readings, phase_readings};

use super::Ran;
use super::bench::{Bench, reading};
use super::check_line::{Line, Unit};
use crate::error::Error;

const MB: f64 = 1e6;
const PARENT: Bytes = Bytes::from_bytes(200_000_000);
const LARGE: Bytes = Bytes::from_bytes(300_000_000);
const SMALL: Bytes = Bytes::from_bytes(2_000_000);
const FILE: Bytes = Bytes::from_bytes(200_000_000);

/// The phases before a step and of the step.
struct Phases {
    before: Readings,
    step: Readings,
}

impl Phases {
    /// So many fixtures that do a step, as every phase of every trial is read. `like` is a small step of the same kind
    /// that goes before and is not read: the pages of the program that do the step are in memory then.
    fn of(bench: &Bench, count: usize, scratch: &Scratch, like: &Step, step: &Step) -> Result<Self, Error> {
        let mut observed = bench.observe(count, scratch)?;
        observed.step(like)?;
        let (start, begin) = (observed.snapshot(), observed.snapshot());
        observed.step(step)?;
        let end = observed.snapshot();
        let series = observed.end()?;
        Ok(Self {
            before: phase_readings(&start, &begin, &series, ""),
            step: phase_readings(&begin, &end, &series, ""),
        })
    }

    /// What the step added to a gauge.
    fn added(&self, metric: Metric) -> Reading<f64> {
        let end = |readings| reading(readings, MetricKey::gauge(metric, Stat::End));
        end(&self.step).and(end(&self.before), |after, before| after - before)
    }
}

fn size(bytes: Bytes) -> f64 {
    bytes.as_bytes() as f64
}

/// A child that allocates 300 MB and one that allocates 2 MB, in both orders, from a parent that holds 200 MB:
/// neither the parent nor a child that went before may show in a reading (METHOD 3.1).
///
/// # Errors
/// Where the machine refuses what every subject needs.
pub(super) fn allocation(bench: &Bench) -> Result<Ran, Error> {
    let parent = Allocation::touched(PARENT);
    // The first child brings the program's pages into the page cache; later children map neighbouring pages with them.
    allocate(bench, Bytes::default())?;
    let base = allocate(bench, Bytes::default())?;
    let mut lines = Vec::new();
    for order in [[LARGE, SMALL], [SMALL, LARGE]] {
        for (position, allocated) in order.into_iter().enumerate() {
            let place = if position == 0 { "first" } else { "then" };
            let read = allocate(bench, allocated)?;
            lines.extend(allocation_lines(&format!("{place} a child of {allocated}"), allocated, &read, &base));
        }
    }
    drop(parent);
    Ok(Ran::Lines(lines))
}

fn allocate(bench: &Bench, allocated: Bytes) -> Result<Readings, Error> {
    let scratch = Scratch::create(&bench.near)?;
    let like = Step::Allocate(Bytes::default());
    Ok(Phases::of(bench, 1, &scratch, &like, &Step::Allocate(allocated))?.step)
}

/// Its own footprint is known from a child that allocates nothing.
fn allocation_lines(child: &str, allocated: Bytes, read: &Readings, base: &Readings) -> [Line; 2] {
    let allowed = size(allocated) * 0.02 + 2.0 * MB;
    let gauges = [(Metric::Rss, Stat::Peak), (Metric::Anon, Stat::Max)];
    gauges.map(|(metric, stat)| {
        let key = MetricKey::gauge(metric, stat);
        let above = reading(read, key).and(reading(base, key), |read, base| read - base);
        Line::figure(format!("{child}: `{key}`"), Unit::Bytes, size(allocated), above, allowed)
    })
}

/// A file of 200 MB, mapped and read by one process and by four at once: file pages, no anonymous memory, and in a
/// sum over processes once, not four times (METHOD 3.2, 3.3).
///
/// # Errors
/// Where the file cannot be written, or the machine refuses what every subject needs.
pub(super) fn mapped_reader(bench: &Bench) -> Result<Ran, Error> {
    if mount::of(&bench.near).measured().is_some_and(Mount::is_in_memory) {
        let near = bench.near.display();
        return Ok(Ran::NotRun(format!(
            "`{near}` is on a file system in memory, whose mapped pages are shared memory"
        )));
    }
    let (one, four) = (map(bench, 1)?, map(bench, 4)?);
    let mut lines = mapped_lines("one reader", 1.0, &one);
    lines.extend(mapped_lines("sum of four", 4.0, &four));
    Ok(Ran::Lines(lines))
}

fn map(bench: &Bench, readers: usize) -> Result<Phases, Error> {
    let scratch = Scratch::create(&bench.near)?;
    let small = write(&scratch, "small", Bytes::from_bytes(4096))?;
    let large = write(&scratch, "mapped", FILE)?;
    Phases::of(bench, readers, &scratch, &Step::Map(small), &Step::Map(large))
}

fn write(scratch: &Scratch, name: &str, length: Bytes) -> Result<PathBuf, Error> {
    let path = scratch.path().join(name);
    let file = fs::File::create(&path);
    let written = file.and_then(|mut file| io::copy(&mut io::Read::take(io::repeat(7), length.as_bytes()), &mut file));
    written.map_err(Error::write_file(&path))?;
    Ok(path)
}

fn mapped_lines(who: &str, readers: f64, read: &Phases) -> Vec<Line> {
    let file = size(FILE);
    let line = |metric, truth: f64, allowed: f64| {
        let key = MetricKey::gauge(metric, Stat::End);
        Line::figure(format!("{who}: `{key}` added"), Unit::Bytes, truth, read.added(metric), allowed)
    };
    vec![
        line(Metric::Anon, 0.0, 2.0 * MB),
        line(Metric::File, file * readers, 2.0 * MB * readers),
        line(Metric::Pss, file, file * 0.05),
        // Shown to make the point: as a sum over processes it counts the file once for each.
        line(Metric::Rss, file * readers, 4.0 * MB * readers),
    ]
}

#[cfg(test)]
mod tests {
    use prony_model::record::MetricKeyText;

    use super::super::check_line::Judgement;
    use super::*;

    fn readings(values: &[(Metric, Stat, f64)]) -> Readings {
        let reading = |(metric, stat, value): &(Metric, Stat, f64)| {
            (MetricKeyText(MetricKey::gauge(*metric, *stat)), Reading::Measured(*value))
        };
        values.iter().map(reading).collect()
    }

    fn judged(lines: &[Line]) -> Vec<Judgement> {
        lines.iter().map(Line::judge).collect()
    }

    #[test]
    fn a_child_that_inherits_its_parents_peak_fails() {
        let of = |peak, anon| readings(&[(Metric::Rss, Stat::Peak, peak), (Metric::Anon, Stat::Max, anon)]);
        let base = of(6e6, 1e6);
        let right = allocation_lines("c", SMALL, &of(8e6, 3e6), &base);
        assert_eq!(judged(&right), [Judgement::Pass, Judgement::Pass]);
        let inherited = allocation_lines("c", SMALL, &of(206e6, 3e6), &base);
        assert_eq!(judged(&inherited), [Judgement::Fail, Judgement::Pass]);
    }

    #[test]
    fn pages_counted_once_per_reader_fail_as_a_sum() {
        let of = |anon, file, pss| {
            let rss = anon + file;
            readings(
                &[(Metric::Anon, anon), (Metric::File, file), (Metric::Pss, pss), (Metric::Rss, rss)]
                    .map(|(metric, value)| (metric, Stat::End, value)),
            )
        };
        let before = || of(4e6, 10e6, 8e6);
        let right = Phases { before: before(), step: of(4e6, 810e6, 208e6) };
        assert!(judged(&mapped_lines("four", 4.0, &right)).iter().all(|judgement| *judgement == Judgement::Pass));
        let by_rss = Phases { before: before(), step: of(4e6, 810e6, 808e6) };
        assert_eq!(judged(&mapped_lines("four", 4.0, &by_rss))[2], Judgement::Fail);
        let as_anonymous = Phases { before: before(), step: of(804e6, 10e6, 208e6) };
        assert_eq!(judged(&mapped_lines("four", 4.0, &as_anonymous))[..2], [Judgement::Fail, Judgement::Fail]);
    }

    #[test]
    fn a_reading_that_is_not_there_fails() {
        let lines = allocation_lines("c", SMALL, &Readings::new(), &Readings::new());
        assert_eq!(judged(&lines), [Judgement::Fail, Judgement::Fail]);
    }
}
