//! Whatever ends or stops one of the processes of a mount: no access waits for ever, and the mount is removed. Each test is
//! a program with files and maps on the mount, as the one whose waiting threads once stopped the whole machine.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use prony_model::units::Nanos;
use prony_os::SharedMap;
use prony_powercut::{Error, MetadataOrder, Mounted, Settings};
use rustix::process::{Pid, Signal, kill_process};

use crate::mounted::{Mount, program};

/// How long something that must happen may take on a busy machine.
const LONG: Duration = Duration::from_secs(60);

fn signal(process: u32, signal: Signal) {
    kill_process(Pid::from_raw(process.cast_signed()).unwrap(), signal).unwrap();
}

/// A file of the mount, and a map of it with pages that the kernel has not sent.
fn dirty_map(mount: &Mount) -> (File, SharedMap) {
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(mount.path("mapped")).unwrap();
    file.set_len(1 << 20).unwrap();
    let mut map = SharedMap::new(&file, 0, 1 << 20).unwrap();
    (0..256).for_each(|page| map.write(page * 4096, b"dirty"));
    (file, map)
}

/// Waits until the mount is gone, and says why.
fn wait(mounted: &mut Mounted) -> String {
    let until = Instant::now() + LONG;
    loop {
        if let Some(end) = mounted.ended() {
            assert_eq!(end.was_removed, end.why.contains("removed"), "{end:?}");
            return end.why;
        }
        assert!(Instant::now() < until, "the mount is still there");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn is_mounted(mounted: &Mounted) -> bool {
    prony_os::mount::mounts().unwrap().iter().any(|mount| mount.point == mounted.point())
}

fn impatient() -> Settings {
    Settings { patience: Nanos::from_secs(2), ..Settings::default() }
}

#[test]
fn server_that_is_killed_lets_accesses_fail_and_its_mount_is_removed() {
    let Some(mut mount) = Mount::in_order(MetadataOrder::Ext4) else { return };
    let (file, map) = dirty_map(&mount);
    signal(mount.mounted.processes()[1], Signal::KILL);
    let why = wait(&mut mount.mounted);
    assert!(why.contains("the process that served it ended") && why.contains("signal"), "{why}");
    assert!(!is_mounted(&mount.mounted));
    assert!(map.sync().is_err() && file.sync_all().is_err() && file.write_all_at(b"x", 0).is_err());
    drop(map);
    assert!(matches!(mount.mounted.sync(), Err(Error::NotMounted { .. })));
    assert_eq!(fs::read_dir(mount.mounted.point()).unwrap().count(), 0);
}

#[test]
fn server_that_is_stopped_is_noticed_and_accesses_fail() {
    let Some(mut mount) = Mount::with(&impatient()) else { return };
    let (file, map) = dirty_map(&mount);
    let [_, server] = mount.mounted.processes();
    signal(server, Signal::STOP);
    // This waits for the server until the connection is aborted.
    assert!(map.sync().is_err());
    assert!(file.write_all_at(b"x", 0).is_err());
    let why = wait(&mut mount.mounted);
    assert_eq!(why, "the process that served it did not answer for 2.000 s");
    assert!(!is_mounted(&mount.mounted));
    assert!(fs::metadata(format!("/proc/{server}")).is_err(), "the server is still there");
}

#[test]
fn keeper_that_is_killed_ends_the_server_and_the_owner_removes_the_mount() {
    let Some(mut mount) = Mount::in_order(MetadataOrder::Ext4) else { return };
    let (file, map) = dirty_map(&mount);
    let [keeper, server] = mount.mounted.processes();
    signal(keeper, Signal::KILL);
    assert!(wait(&mut mount.mounted).contains("the process that watched it ended"));
    let until = Instant::now() + LONG;
    while fs::metadata(format!("/proc/{server}")).is_ok() {
        assert!(Instant::now() < until, "the server is still there");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(map.sync().is_err() && file.sync_all().is_err());
    let point = mount.mounted.point().to_path_buf();
    mount.mounted.unmount().unwrap();
    assert!(prony_os::mount::mounts().unwrap().iter().all(|mount| mount.point != point));
}

#[test]
fn slow_requests_are_no_reason_to_remove_a_mount() {
    let settings = Settings { sync_latency: Nanos::from_secs(5), ..impatient() };
    let Some(mut mount) = Mount::with(&settings) else { return };
    let file = File::create(mount.path("a")).unwrap();
    file.sync_all().unwrap();
    assert_eq!(mount.mounted.ended(), None);
}

#[test]
fn unmounting_does_not_wait_for_open_files_and_dirty_maps() {
    let Some(mount) = Mount::in_order(MetadataOrder::Ext4) else { return };
    let (file, map) = dirty_map(&mount);
    mount.mounted.unmount().unwrap();
    assert!(map.sync().is_err() && file.sync_all().is_err());
}

#[test]
fn mount_that_is_removed_from_outside_ends_its_processes() {
    let Some(mut mount) = Mount::in_order(MetadataOrder::Ext4) else { return };
    prony_powercut::unmount(mount.mounted.point()).unwrap();
    assert_eq!(wait(&mut mount.mounted), "the mount was removed by another process");
}

#[test]
fn server_uses_no_file_of_the_mount_and_none_of_the_owner() {
    let Some(mount) = Mount::in_order(MetadataOrder::Ext4) else { return };
    let _dirty = dirty_map(&mount);
    for process in mount.mounted.processes() {
        let maps = fs::read_to_string(format!("/proc/{process}/maps")).unwrap();
        let point = mount.mounted.point().display().to_string();
        assert!(!maps.contains(&point), "{maps}");
        let open = fs::read_dir(format!("/proc/{process}/fd")).unwrap();
        let open: Vec<_> = open.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok()).collect();
        assert!(open.iter().all(|path| !path.starts_with(&point)), "{open:?}");
        assert_eq!(fs::read_link(format!("/proc/{process}/cwd")).unwrap(), std::path::Path::new("/"));
    }
}

#[test]
fn server_that_cannot_start_says_why() {
    let Some(mount) = Mount::in_order(MetadataOrder::Ext4) else { return };
    let point = mount.outside().join("other");
    fs::create_dir(&point).unwrap();
    let start = |program: &std::path::Path, state: &str| {
        Mounted::start(program, &point, &mount.outside().join(state), &Settings::default()).unwrap_err().to_string()
    };
    assert!(start(std::path::Path::new("/bin/true"), "state-2").contains("cannot start `/bin/true`"));
    assert!(start(std::path::Path::new("/no such program"), "state-2").contains("cannot start"));
    assert!(start(program(), "state").contains("is in use"));
    assert!(prony_os::mount::mounts().unwrap().iter().all(|mount| mount.point != point));
}
