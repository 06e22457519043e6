//! Control groups of version 1: one directory for each controller.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use prony_model::reading::Reading;
use prony_model::units::{Bytes, Nanos};

use super::figures::Figures;
use super::group_files::{entry, number, table, write};

/// Controllers that limit or count, and the freezer, which stops a group while it is killed.
pub(super) const CONTROLLERS: [&str; 6] = ["memory", "cpu", "cpuacct", "pids", "freezer", "blkio"];

/// The kernel's default period of CPU limits, microseconds.
pub(super) const PERIOD: u64 = 100_000;

/// The smallest quota that the kernel accepts, microseconds.
pub(super) const LEAST_QUOTA: u64 = 1_000;

/// The quota of a CPU limit, in microseconds a period.
pub(super) fn quota(cpus: f64) -> u64 {
    ((cpus * PERIOD as f64).round() as u64).max(LEAST_QUOTA)
}

/// Limits memory, page cache included, with swap off; returns how swap is excluded.
pub(super) fn limit_memory(dir: &Path, limit: Bytes) -> io::Result<&'static str> {
    let text = limit.as_bytes().to_string();
    write(dir, "memory.limit_in_bytes", &text)?;
    // Together they leave no byte for swap. If swap is not accounted, reclaim is set to leave anonymous pages.
    match write(dir, "memory.memsw.limit_in_bytes", &text) {
        Ok(()) => Ok("memory and swap share one limit"),
        Err(_) => write(dir, "memory.swappiness", "0").map(|()| "swappiness 0; swap is not accounted"),
    }
}

/// Limits CPU time to so many processors' worth.
pub(super) fn limit_cpus(dir: &Path, cpus: f64) -> io::Result<()> {
    write(dir, "cpu.cfs_period_us", &PERIOD.to_string())?;
    write(dir, "cpu.cfs_quota_us", &quota(cpus).to_string())
}

/// Fills in the values of this version's controllers.
pub(super) fn read(dirs: &BTreeMap<String, PathBuf>, figures: &mut Figures) {
    if let Some(dir) = dirs.get("memory") {
        figures.peak = number(dir, "memory.max_usage_in_bytes").map(Bytes::from_bytes);
        // `failcnt` also rises when reclaim succeeds, so that it proves nothing.
        figures.limit_hits = Reading::not_supported(
            "control groups of version 1 do not count hits of the limit separately from memory reclaim",
        );
    }
    if let Some(dir) = dirs.get("cpuacct") {
        figures.cpu = number(dir, "cpuacct.usage").map(Nanos::from_nanos);
    }
    if let Some(dir) = dirs.get("pids") {
        figures.forks_refused = entry(&table(dir, "pids.events"), "max");
    }
    if let Some(dir) = dirs.get("cpu") {
        figures.throttled = entry(&table(dir, "cpu.stat"), "nr_throttled");
    }
}

#[cfg(test)]
mod tests {
    use prony_model::reading::Why;

    use super::super::tests::{content, fake};
    use super::*;

    #[test]
    fn memory_and_swap_share_the_limit_where_swap_is_accounted() {
        let dir =
            fake(&[("memory.limit_in_bytes", ""), ("memory.memsw.limit_in_bytes", ""), ("memory.swappiness", "60")]);
        limit_memory(dir.path(), Bytes::from_mib(1)).unwrap();
        assert_eq!(content(&dir, "memory.limit_in_bytes"), "1048576");
        assert_eq!(content(&dir, "memory.memsw.limit_in_bytes"), "1048576");
        assert_eq!(content(&dir, "memory.swappiness"), "60");
    }

    #[test]
    fn swappiness_serves_where_swap_is_not_accounted_and_nothing_is_no_success() {
        let dir = fake(&[("memory.limit_in_bytes", ""), ("memory.swappiness", "")]);
        assert!(limit_memory(dir.path(), Bytes::from_mib(1)).unwrap().starts_with("swappiness 0"));
        assert_eq!(content(&dir, "memory.swappiness"), "0");
        assert!(limit_memory(fake(&[("memory.limit_in_bytes", "")]).path(), Bytes::from_mib(1)).is_err());
    }

    #[test]
    fn cpus_become_a_quota() {
        let dir = fake(&[("cpu.cfs_period_us", ""), ("cpu.cfs_quota_us", "-1")]);
        limit_cpus(dir.path(), 1.5).unwrap();
        assert_eq!(
            (content(&dir, "cpu.cfs_period_us"), content(&dir, "cpu.cfs_quota_us")),
            ("100000".into(), "150000".into())
        );
        assert_eq!(quota(0.000_1), LEAST_QUOTA);
    }

    #[test]
    fn figures_are_the_trees() {
        let dir = fake(&[
            ("memory.max_usage_in_bytes", "20\n"),
            ("memory.failcnt", "3\n"),
            ("cpuacct.usage", "1000\n"),
            ("cpu.stat", "nr_periods 9\nnr_throttled 4\nthrottled_time 70\n"),
        ]);
        let dirs = ["memory", "cpuacct", "cpu"].map(|name| (name.to_owned(), dir.path().to_owned())).into();
        let mut figures = Figures::missing(&Why::NotApplicable);
        read(&dirs, &mut figures);
        assert_eq!(figures.peak, Reading::Measured(Bytes::from_bytes(20)));
        assert!(matches!(figures.limit_hits, Reading::Missing(Why::NotSupported(_))));
        assert_eq!(figures.cpu, Reading::Measured(Nanos::from_nanos(1000)));
        assert_eq!(figures.throttled, Reading::Measured(4));
        assert_eq!(figures.forks_refused, Reading::Missing(Why::NotApplicable));
    }
}
