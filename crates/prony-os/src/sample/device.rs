//! The block device under a path, and its counters, which include all processes of the machine.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use prony_model::reading::{Reading, Why};
use prony_model::units::Bytes;
use rustix::fs::{major, minor};
use serde::{Deserialize, Serialize};

use crate::mount;
use crate::why::{parse_file, reading};

/// `/proc/diskstats` counts sectors of 512 bytes whatever the device's own size is.
const SECTOR: u64 = 512;

/// What a device has done since the machine started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceCounters {
    /// Flush requests completed.
    pub flushes: u64,
    /// Bytes written.
    pub written: Bytes,
    /// Bytes read.
    pub read: Bytes,
}

impl DeviceCounters {
    /// What it did since `earlier`.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let bytes = |a: Bytes, b: Bytes| Bytes::from_bytes(a.as_bytes().saturating_sub(b.as_bytes()));
        Self {
            flushes: self.flushes.saturating_sub(earlier.flushes),
            written: bytes(self.written, earlier.written),
            read: bytes(self.read, earlier.read),
        }
    }
}

/// The whole disks under a file system: one, or several behind a device mapper or RAID.
///
/// Flushes are counted on whole disks only, not on partitions or mapped devices, so these are resolved to the disks
/// that hold them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Device {
    disks: Vec<String>,
}

impl Device {
    /// The disks that hold `path`.
    pub(crate) fn of(path: &Path) -> Reading<Self> {
        let shown = format!("`{}`", path.display());
        reading(&shown, fs::metadata(path)).and_then(|metadata| {
            let own = fs::canonicalize(node(metadata.dev()));
            match own.or_else(|error| source(path).map_or(Err(error), fs::canonicalize)) {
                Ok(node) => disks_of(&node),
                Err(_) => Reading::not_supported(format!(
                    "{shown} is on a file system without a block device of its own (tmpfs, overlay, network)"
                )),
            }
        })
    }

    /// The disks' names, as `/proc/diskstats` writes them.
    pub(crate) fn names(&self) -> &[String] {
        &self.disks
    }

    /// What they have done so far, added up.
    pub(crate) fn read(&self) -> Reading<DeviceCounters> {
        parse_file("/proc/diskstats", |text| sum(text, &self.disks))
    }
}

/// A device's directory in sysfs.
fn node(device: u64) -> PathBuf {
    PathBuf::from(format!("/sys/dev/block/{}:{}", major(device), minor(device)))
}

/// The device that a file system names as its source: btrfs gives its files a number that belongs to no device.
fn source(path: &Path) -> Option<PathBuf> {
    let mount = mount::of(path);
    let source = &mount.measured()?.source;
    let device = fs::metadata(source).ok()?;
    source.starts_with("/dev/").then(|| node(device.rdev()))
}

/// From a device's directory in sysfs to its whole disks.
fn disks_of(node: &Path) -> Reading<Device> {
    if node.join("partition").exists() {
        return node.parent().map_or(Reading::Missing(Why::NotApplicable), disks_of);
    }
    let below: Vec<PathBuf> = fs::read_dir(node.join("slaves"))
        .map(|entries| entries.flatten().filter_map(|entry| fs::canonicalize(entry.path()).ok()).collect())
        .unwrap_or_default();
    if below.is_empty() {
        let name = node.file_name().map(|name| name.to_string_lossy().into_owned());
        return Reading::Measured(Device { disks: name.into_iter().collect() });
    }
    let none = Reading::Measured(Device { disks: Vec::new() });
    below.iter().map(|node| disks_of(node)).fold(none, |all, some| all.and(some, joined))
}

fn joined(mut all: Device, some: Device) -> Device {
    all.disks.extend(some.disks);
    all.disks.sort();
    // Two partitions of one disk under one mapped device are one disk.
    all.disks.dedup();
    all
}

fn sum(diskstats: &str, disks: &[String]) -> Option<DeviceCounters> {
    disks.iter().map(|disk| one(diskstats, disk)).try_fold(DeviceCounters::default(), |total, disk| {
        let disk = disk?;
        Some(DeviceCounters {
            flushes: total.flushes + disk.flushes,
            written: total.written + disk.written,
            read: total.read + disk.read,
        })
    })
}

/// Reads one device's line; fields by the kernel's Documentation/admin-guide/iostats.rst, flushes since Linux 5.5.
fn one(diskstats: &str, disk: &str) -> Option<DeviceCounters> {
    let fields: Vec<&str> = diskstats
        .lines()
        .map(|line| line.split_ascii_whitespace().collect::<Vec<_>>())
        .find(|fields| fields.get(2) == Some(&disk))?;
    let number = |field: usize| fields.get(field + 2)?.parse::<u64>().ok();
    Some(DeviceCounters {
        read: Bytes::from_bytes(number(3)? * SECTOR),
        written: Bytes::from_bytes(number(7)? * SECTOR),
        flushes: number(16)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATS: &str = "   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
 254       0 vda 41119 7688 6086770 18689 11530 46864 17154464 45771 0 7600 64819 4669 21 292848 343 433 14
 254       1 vda1 1 2 3 4 5 6 7 8 0 1 2 3 4 5 6 0 0
   8       0 old 1 2 3 4 5 6 7 8 0 1 2
";

    #[test]
    fn diskstats_fields_are_read_by_their_numbers() {
        let vda = DeviceCounters {
            flushes: 433,
            written: Bytes::from_bytes(17_154_464 * 512),
            read: Bytes::from_bytes(6_086_770 * 512),
        };
        assert_eq!(one(STATS, "vda"), Some(vda));
        assert_eq!(one(STATS, "vd"), None);
        assert_eq!(one(STATS, "old"), None, "a kernel without flush counts must not read as zero");
        let both = sum(STATS, &["vda".into(), "loop0".into()]);
        assert_eq!(both, Some(vda));
        assert_eq!(sum(STATS, &["vda".into(), "gone".into()]), None);
    }

    #[test]
    fn a_mapped_device_is_followed_to_its_disks() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        for path in ["sda/sda1", "sda/sda2", "sdb", "dm-0/slaves"] {
            fs::create_dir_all(at(path)).unwrap();
        }
        fs::write(at("sda/sda1/partition"), "1\n").unwrap();
        fs::write(at("sda/sda2/partition"), "2\n").unwrap();
        for (name, target) in [("sda1", "sda/sda1"), ("sda2", "sda/sda2"), ("sdb", "sdb")] {
            std::os::unix::fs::symlink(at(target), at("dm-0/slaves").join(name)).unwrap();
        }
        let names = |path: &str| disks_of(&at(path)).map(|device| device.disks);
        assert_eq!(names("dm-0"), Reading::Measured(vec!["sda".into(), "sdb".into()]));
        assert_eq!(names("sda/sda2"), Reading::Measured(vec!["sda".into()]));
    }

    #[test]
    fn proc_has_no_device() {
        assert!(matches!(Device::of(Path::new("/proc")), Reading::Missing(Why::NotSupported(_))));
        assert!(matches!(Device::of(Path::new("/no such path")), Reading::Missing(_)));
    }
}
