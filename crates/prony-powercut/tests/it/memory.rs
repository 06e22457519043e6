//! The memory of the server is bounded: it counts operations, files and names, not only data.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;

use prony_model::units::Bytes;
use prony_powercut::{MetadataOrder, Policy, Settings, Unit};

use crate::mounted::Mount;

/// Resident memory of the server, in bytes, and the part that is not of its program and buffers.
fn resident(mount: &Mount) -> u64 {
    let [_, server] = mount.mounted.processes();
    let status = fs::read_to_string(format!("/proc/{server}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

fn limited(limit: Bytes, metadata: MetadataOrder) -> Settings {
    Settings { memory: limit, metadata, ..Settings::default() }
}

#[test]
fn small_writes_count_with_their_operations() {
    let limit = Bytes::from_mib(8);
    let Some(mut mount) = Mount::with(&limited(limit, MetadataOrder::Ext4)) else { return };
    let file = File::create(mount.path("a")).unwrap();
    file.write_all_at(&[1; 16], 0).unwrap();
    let before = resident(&mount);
    // About 15 MiB of operations with 1 MB of data.
    for at in 0..60_000_u64 {
        file.write_all_at(&at.to_le_bytes(), at * 16).unwrap();
    }
    let grown = resident(&mount).saturating_sub(before);
    assert!(grown < 2 * limit.as_bytes(), "the server grew by {grown} bytes");
    let report = mount.cut(&[Policy::None], Unit::Page, 1);
    assert!(report.status.limits.made_durable > 10_000, "{:?}", report.status.limits);
    assert!(report.status.pending.operations < 40_000, "{:?}", report.status.pending);
}

#[test]
fn data_beyond_the_limit_go_to_the_state_directory_and_stay_pending() {
    let limit = Bytes::from_mib(8);
    let Some(mut mount) = Mount::with(&limited(limit, MetadataOrder::Ext4)) else { return };
    let file = File::create(mount.path("a")).unwrap();
    let before = resident(&mount);
    for at in 0..512_u64 {
        file.write_all_at(&vec![at as u8; 1 << 17], at << 17).unwrap();
    }
    let grown = resident(&mount).saturating_sub(before);
    assert!(grown < 4 * limit.as_bytes(), "the server grew by {grown} bytes");
    let report = mount.cut(&[Policy::None, Policy::Prefix], Unit::Page, 3);
    assert_eq!((report.status.pending.bytes, report.status.limits.made_durable), (512 << 17, 0));
}

#[test]
fn names_beyond_the_limit_are_refused() {
    let Some(mut mount) = Mount::with(&limited(Bytes::from_mib(1), MetadataOrder::Posix)) else { return };
    let name = |n: u32| mount.path(&format!("a name of some length, number {n:06}"));
    let refused = (0..3000).find_map(|n| fs::create_dir(name(n)).err()).unwrap();
    assert_eq!(refused.kind(), io::ErrorKind::StorageFull);
    fs::remove_dir(name(0)).unwrap();
    mount.mounted.sync().unwrap();
    let report = mount.cut(&[Policy::None], Unit::Page, 1);
    assert!(report.status.limits.refused == 1 && report.status.limits.made_durable > 0, "{:?}", report.status.limits);
}
