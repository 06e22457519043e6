//! State of the machine before and after a trial: load, throttling, pressure (METHOD 4.10).

use std::fs;
use std::path::Path;

use prony_model::reading::Reading;
use prony_model::record::Moment;
use prony_model::record::machine::CpuTicks;

use crate::clock::monotonic;
use crate::sample::parse::kib;
use crate::sample::snapshot::pressure;
use crate::why::{kernel_text, parse_file, parse_with, read_text};

/// The machine now.
pub fn moment() -> Moment {
    let meminfo = read_text("/proc/meminfo");
    let amount = |key: &str| parse_with(meminfo.clone(), key, |text| kib(text, key));
    Moment {
        at: monotonic(),
        load: parse_file("/proc/loadavg", |text| text.split(' ').next()?.parse().ok()),
        pressure: pressure(),
        cpu: parse_file("/proc/stat", cpu_time),
        swapped: parse_file("/proc/vmstat", swapped),
        throttled_thermal: thermal(Path::new("/sys/devices/system/cpu")),
        available: amount("MemAvailable:"),
        dirty: amount("Dirty:"),
        writeback: amount("Writeback:"),
        megahertz: megahertz(),
    }
}

/// Reads the first line of `/proc/stat`; guest time is part of user time and not counted again.
fn cpu_time(text: &str) -> Option<CpuTicks> {
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = line.split_ascii_whitespace().take(8).map(str::parse).collect::<Result<_, _>>().ok()?;
    let [_, _, _, idle, iowait, _, _, steal] = ticks.as_slice() else { return None };
    Some(CpuTicks { all: ticks.iter().sum(), steal: *steal, idle: idle + iowait })
}

fn swapped(vmstat: &str) -> Option<u64> {
    let of = |key: &str| vmstat.lines().find_map(|line| line.strip_prefix(key))?.trim().parse::<u64>().ok();
    Some(of("pswpin ")? + of("pswpout ")?)
}

/// Sum over the processors of how often they were throttled.
fn thermal(processors: &Path) -> Reading<u64> {
    let entries = fs::read_dir(processors).into_iter().flatten().flatten();
    let is_processor =
        |name: &[u8]| name.strip_prefix(b"cpu").is_some_and(|n| n.first().is_some_and(u8::is_ascii_digit));
    let counts = entries.filter(|entry| is_processor(entry.file_name().as_encoded_bytes())).filter_map(|entry| {
        let text = kernel_text(entry.path().join("thermal_throttle/core_throttle_count")).ok()?;
        text.trim().parse::<u64>().ok()
    });
    let none = || Reading::not_supported("the processor does not report thermal throttling");
    counts.reduce(|a, b| a + b).map_or_else(none, Reading::Measured)
}

/// The first processor's clock now.
pub(super) fn megahertz() -> Reading<f64> {
    let path = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq";
    parse_file(path, |text| text.trim().parse::<f64>().ok().map(|khz| khz / 1e3))
}

#[cfg(test)]
mod tests {
    use prony_model::reading::Why;

    use super::*;

    #[test]
    fn guest_time_is_not_counted_twice() {
        let text = "cpu  100 1 20 300 40 5 6 7 90 10\ncpu0 1 2 3\n";
        assert_eq!(cpu_time(text), Some(CpuTicks { all: 479, steal: 7, idle: 340 }));
        assert_eq!(cpu_time("cpu  1 2 3\n"), None);
    }

    #[test]
    fn counts_of_swap_and_throttling_are_read() {
        assert_eq!(swapped("pswpin 3\npswpout 4\npswpoutx 9\n"), Some(7));
        assert_eq!(swapped("pswpin 3\n"), None);
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(thermal(dir.path()), Reading::Missing(Why::NotSupported(_))));
        // The last two are no processors.
        for (cpu, count) in [("cpu0", "2\n"), ("cpu11", "5\n"), ("cpuidle", "9\n"), ("power", "9\n")] {
            fs::create_dir_all(dir.path().join(cpu).join("thermal_throttle")).unwrap();
            fs::write(dir.path().join(cpu).join("thermal_throttle/core_throttle_count"), count).unwrap();
        }
        assert_eq!(thermal(dir.path()), Reading::Measured(7));
    }
}
