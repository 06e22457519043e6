//! How the machine fared while a trial ran (METHOD 4.10).

use std::fs;
use std::path::Path;

use prony_model::reading::{Reading, Why};
use prony_model::units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

use super::canary::Canary;
use super::facts::kib;
use crate::clock::monotonic;
use crate::sample::edge::Pressure;
use crate::why::{parse_with, read_text};

/// The machine at one instant; counters are since it started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// `CLOCK_MONOTONIC`.
    pub at: Nanos,
    /// Mean of tasks running or waiting for a CPU or disk over the last minute.
    pub load: Reading<f64>,
    /// How long some task waited for each resource.
    pub pressure: Pressure,
    /// CPU time of the whole machine.
    pub cpu: Reading<CpuTime>,
    /// Pages swapped in and out.
    pub swapped: Reading<u64>,
    /// Thermal throttling of all cores; missing in most virtual machines.
    pub throttled_thermal: Reading<u64>,
    /// How often the trial's control group was throttled by its CPU limit.
    pub throttled_limit: Reading<u64>,
    /// Memory that could be had without swapping.
    pub available: Reading<Bytes>,
    /// Pages waiting to be written back.
    pub dirty: Reading<Bytes>,
    /// Pages being written back.
    pub writeback: Reading<Bytes>,
    /// Frequency of the first processor, megahertz.
    pub megahertz: Reading<f64>,
}

/// CPU time of all processors together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuTime {
    /// Ticks in all, idle ones included.
    pub all: u64,
    /// Ticks that the hypervisor gave to others while something here was runnable.
    pub steal: u64,
    /// Idle ticks, waiting for I/O included.
    pub idle: u64,
}

impl Moment {
    /// Now; `group` is the trial's control group with a CPU limit, where there is one.
    pub fn now(group: Option<&Path>) -> Self {
        let meminfo = read_text("/proc/meminfo");
        let amount = |key: &str| parse_with(meminfo.clone(), key, |text| kib(text, key));
        Self {
            at: monotonic(),
            load: parse_with(read_text("/proc/loadavg"), "`/proc/loadavg`", |text| {
                text.split(' ').next()?.parse().ok()
            }),
            pressure: Pressure::now(),
            cpu: parse_with(read_text("/proc/stat"), "`/proc/stat`", cpu_time),
            swapped: parse_with(read_text("/proc/vmstat"), "`/proc/vmstat`", swapped),
            throttled_thermal: thermal(Path::new("/sys/devices/system/cpu")),
            throttled_limit: group.map_or(Reading::Missing(Why::NotApplicable), throttled),
            available: amount("MemAvailable:"),
            dirty: amount("Dirty:"),
            writeback: amount("Writeback:"),
            megahertz: megahertz(),
        }
    }
}

/// The machine before and after a trial, with its canaries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// When the trial began.
    pub before: Moment,
    /// When it had ended.
    pub after: Moment,
    /// The canaries before it.
    pub canary_before: Canary,
    /// The canaries after it.
    pub canary_after: Canary,
    /// What changed in between.
    pub change: Change,
}

/// What happened between two moments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Share of the time in which some task of the machine waited for a CPU.
    pub pressure_cpu: Reading<f64>,
    /// The same, for I/O.
    pub pressure_io: Reading<f64>,
    /// The same, for memory.
    pub pressure_memory: Reading<f64>,
    /// Share of the processors' time that the hypervisor gave to others.
    pub steal: Reading<f64>,
    /// Share of the processors' time in which they were idle.
    pub idle: Reading<f64>,
    /// Pages swapped in and out.
    pub swapped: Reading<u64>,
    /// Thermal throttling events.
    pub throttled_thermal: Reading<u64>,
    /// Throttling of the trial's group by its limit.
    pub throttled_limit: Reading<u64>,
}

impl Conditions {
    /// Puts both ends together.
    pub fn between(before: Moment, canary_before: Canary, after: Moment, canary_after: Canary) -> Self {
        let change = Change::between(&before, &after);
        Self { before, after, canary_before, canary_after, change }
    }
}

impl Change {
    /// What happened from one moment to a later one.
    pub fn between(before: &Moment, after: &Moment) -> Self {
        let waited = after.pressure.since(&before.pressure);
        let wall = after.at.since(before.at).as_nanos();
        let of_wall = |time: Reading<Nanos>| share(time.map(|time| (time.as_nanos(), wall)));
        let cpu = |part: fn(CpuTime) -> u64| {
            share(after.cpu.clone().and(before.cpu.clone(), |after, before| {
                (part(after).saturating_sub(part(before)), after.all.saturating_sub(before.all))
            }))
        };
        let added =
            |after: &Reading<u64>, before: &Reading<u64>| after.clone().and(before.clone(), u64::saturating_sub);
        Self {
            pressure_cpu: of_wall(waited.cpu),
            pressure_io: of_wall(waited.io),
            pressure_memory: of_wall(waited.memory),
            steal: cpu(|time| time.steal),
            idle: cpu(|time| time.idle),
            swapped: added(&after.swapped, &before.swapped),
            throttled_thermal: added(&after.throttled_thermal, &before.throttled_thermal),
            throttled_limit: added(&after.throttled_limit, &before.throttled_limit),
        }
    }
}

fn share(parts: Reading<(u64, u64)>) -> Reading<f64> {
    match parts {
        Reading::Measured((_, 0)) => Reading::Missing(Why::TooFew { have: 0, need: 1 }),
        parts => parts.map(|(part, whole)| (part as f64 / whole as f64).min(1.0)),
    }
}

/// Reads the first line of `/proc/stat`; guest time is part of user time and not counted again.
fn cpu_time(text: &str) -> Option<CpuTime> {
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = line.split_ascii_whitespace().take(8).map(str::parse).collect::<Result<_, _>>().ok()?;
    let [_, _, _, idle, iowait, _, _, steal] = ticks.as_slice() else { return None };
    Some(CpuTime { all: ticks.iter().sum(), steal: *steal, idle: idle + iowait })
}

fn swapped(vmstat: &str) -> Option<u64> {
    let of = |key: &str| vmstat.lines().find_map(|line| line.strip_prefix(key))?.trim().parse::<u64>().ok();
    Some(of("pswpin ")? + of("pswpout ")?)
}

/// Sum over the processors of how often they were throttled.
fn thermal(processors: &Path) -> Reading<u64> {
    let entries = fs::read_dir(processors).into_iter().flatten().flatten();
    let counts = entries.filter_map(|entry| {
        let text = fs::read_to_string(entry.path().join("thermal_throttle/core_throttle_count")).ok()?;
        text.trim().parse::<u64>().ok()
    });
    let none = || Reading::Missing(Why::NotSupported("the processor reports no thermal throttling".into()));
    counts.reduce(|a, b| a + b).map_or_else(none, Reading::Measured)
}

fn throttled(group: &Path) -> Reading<u64> {
    let path = group.join("cpu.stat");
    parse_with(read_text(&path), &format!("`{}`", path.display()), |text| {
        text.lines().find_map(|line| line.strip_prefix("nr_throttled "))?.trim().parse().ok()
    })
}

fn megahertz() -> Reading<f64> {
    let path = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq";
    parse_with(read_text(path), &format!("`{path}`"), |text| text.trim().parse::<f64>().ok().map(|khz| khz / 1e3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(at: u64, all: u64, steal: u64) -> Moment {
        let missing = || Why::NotSupported("no PSI".into());
        Moment {
            at: Nanos::from_secs(at),
            load: Reading::Measured(1.0),
            pressure: Pressure {
                cpu: Reading::Measured(Nanos::from_millis(100 * at)),
                io: Reading::Missing(missing()),
                memory: Reading::Measured(Nanos::ZERO),
            },
            cpu: Reading::Measured(CpuTime { all, steal, idle: all / 2 }),
            swapped: Reading::Measured(at),
            throttled_thermal: Reading::Missing(Why::NotApplicable),
            throttled_limit: Reading::Missing(Why::NotApplicable),
            available: Reading::Measured(Bytes::default()),
            dirty: Reading::Measured(Bytes::default()),
            writeback: Reading::Measured(Bytes::default()),
            megahertz: Reading::Missing(Why::NotApplicable),
        }
    }

    #[test]
    fn change_is_stated_as_shares_of_the_time_between() {
        let change = Change::between(&moment(10, 1000, 20), &moment(20, 3000, 120));
        assert_eq!(change.pressure_cpu, Reading::Measured(0.1));
        assert_eq!(change.pressure_memory, Reading::Measured(0.0));
        assert!(matches!(change.pressure_io, Reading::Missing(Why::NotSupported(_))));
        assert_eq!((change.steal, change.idle), (Reading::Measured(0.05), Reading::Measured(0.5)));
        assert_eq!(change.swapped, Reading::Measured(10));
        assert_eq!(change.throttled_limit, Reading::Missing(Why::NotApplicable));
    }

    #[test]
    fn no_time_has_no_shares() {
        let change = Change::between(&moment(10, 1000, 20), &moment(10, 1000, 20));
        assert!(matches!(change.steal, Reading::Missing(Why::TooFew { .. })));
        assert!(matches!(change.pressure_cpu, Reading::Missing(Why::TooFew { .. })));
    }

    #[test]
    fn guest_time_is_not_counted_twice() {
        let text = "cpu  100 1 20 300 40 5 6 7 90 10\ncpu0 1 2 3\n";
        assert_eq!(cpu_time(text), Some(CpuTime { all: 479, steal: 7, idle: 340 }));
        assert_eq!(cpu_time("cpu  1 2 3\n"), None);
    }

    #[test]
    fn counts_of_swap_and_throttling_are_read() {
        assert_eq!(swapped("pswpin 3\npswpout 4\npswpoutx 9\n"), Some(7));
        assert_eq!(swapped("pswpin 3\n"), None);
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(thermal(dir.path()), Reading::Missing(Why::NotSupported(_))));
        for (cpu, count) in [("cpu0", "2\n"), ("cpu1", "5\n")] {
            fs::create_dir_all(dir.path().join(cpu).join("thermal_throttle")).unwrap();
            fs::write(dir.path().join(cpu).join("thermal_throttle/core_throttle_count"), count).unwrap();
        }
        assert_eq!(thermal(dir.path()), Reading::Measured(7));
        fs::write(dir.path().join("cpu.stat"), "nr_periods 9\nnr_throttled 4\n").unwrap();
        assert_eq!(throttled(dir.path()), Reading::Measured(4));
    }
}
