//! What each system call makes durable, and what a mount refuses.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, Instant};

use prony_model::units::{Bytes, Fraction, Nanos};
use prony_os::{O_DSYNC, O_SYNC, SharedMap};
use prony_powercut::{CutSettings, Error, MetadataOrder, Mounted, Policy, Settings, Unit};
use rustix::fs::{FlockOperation, flock, statvfs, syncfs};
use rustix::io::{ReadWriteFlags, pwritev2};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

use crate::mounted::{Mount, program};

const ORDERS: [MetadataOrder; 2] = [MetadataOrder::Ext4, MetadataOrder::Posix];

fn sync(path: &Path) {
    File::open(path).unwrap().sync_all().unwrap();
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn file_needs_its_own_sync_and_by_posix_that_of_its_directory() {
    for order in ORDERS {
        let Some(mut mount) = Mount::in_order(order) else { return };
        fs::write(mount.path("a"), b"not synced").unwrap();
        assert_eq!(names(&mount.durable()), [""; 0]);
        let mut file = File::create(mount.path("b")).unwrap();
        file.write_all(b"synced").unwrap();
        file.sync_all().unwrap();
        let image = mount.durable();
        if order == MetadataOrder::Ext4 {
            // The journal has the creation of the first file before that of the second.
            assert_eq!(names(&image), ["a", "b"]);
            assert_eq!(fs::read(image.join("a")).unwrap(), b"");
        } else {
            assert_eq!(names(&image), [""; 0]);
            sync(mount.mounted.point());
        }
        let image = mount.durable();
        assert_eq!(
            (names(&image), fs::read(image.join("b")).unwrap()),
            (vec!["a".into(), "b".into()], b"synced".to_vec())
        );
    }
}

#[test]
fn rename_and_removal_need_the_sync_of_the_directory() {
    for order in ORDERS {
        let Some(mut mount) = Mount::in_order(order) else { return };
        fs::write(mount.path("old"), b"old").unwrap();
        fs::write(mount.path("gone"), b"gone").unwrap();
        mount.mounted.sync().unwrap();
        fs::write(mount.path("new"), b"new").unwrap();
        sync(&mount.path("new"));
        fs::rename(mount.path("new"), mount.path("old")).unwrap();
        fs::remove_file(mount.path("gone")).unwrap();
        let image = mount.durable();
        assert_eq!(fs::read(image.join("old")).unwrap(), b"old");
        assert!(image.join("gone").exists());
        sync(mount.mounted.point());
        let image = mount.durable();
        assert_eq!((names(&image), fs::read(image.join("old")).unwrap()), (vec!["old".to_owned()], b"new".to_vec()));
    }
}

#[test]
fn map_is_durable_after_msync_and_not_before() {
    let Some(mut mount) = Mount::in_order(MetadataOrder::Ext4) else { return };
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(mount.path("a")).unwrap();
    file.set_len(8192).unwrap();
    file.sync_all().unwrap();
    let mut map = SharedMap::new(&file, 0, 8192).unwrap();
    map.write(5000, b"by a map");
    let part = |image: &Path| fs::read(image.join("a")).unwrap()[5000..5008].to_vec();
    assert_eq!(part(&mount.durable()), [0; 8]);
    map.sync().unwrap();
    assert_eq!(part(&mount.durable()), b"by a map");
}

#[test]
fn page_of_a_map_is_pending_where_the_name_that_was_mapped_is_removed_and_another_one_is_there() {
    let Some(mut mount) = Mount::in_order(MetadataOrder::Ext4) else { return };
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(mount.path("a")).unwrap();
    file.set_len(4096).unwrap();
    let mut map = SharedMap::new(&file, 0, 4096).unwrap();
    fs::hard_link(mount.path("a"), mount.path("b")).unwrap();
    fs::remove_file(mount.path("a")).unwrap();
    mount.mounted.sync().unwrap();
    map.write(0, b"by a map");
    // Others than root may not open the file by its map.
    if rustix::process::geteuid().is_root() {
        assert_eq!(mount.cut(&[Policy::None], Unit::Page, 1).status.pending.bytes, 4096);
    }
}

#[test]
fn synchronous_write_is_durable_and_other_writes_of_the_file_are_not() {
    for flags in [O_DSYNC, O_SYNC, 0] {
        let Some(mut mount) = Mount::in_order(MetadataOrder::Ext4) else { return };
        let file = File::create(mount.path("a")).unwrap();
        file.set_len(4 << 20).unwrap();
        file.sync_all().unwrap();
        file.write_all_at(&[1; 8192], 20_000).unwrap();
        let synchronous = OpenOptions::new().write(true).custom_flags(flags).open(mount.path("a")).unwrap();
        synchronous.write_all_at(b"write", 100).unwrap();
        let contents = fs::read(mount.durable().join("a")).unwrap();
        assert_eq!((&contents[100..105] == b"write", contents[20_000]), (flags != 0, 0), "{flags:#o}");
        // It shares a page with a part of the first write.
        synchronous.write_all_at(b"write", 24_000).unwrap();
        let contents = fs::read(mount.durable().join("a")).unwrap();
        let (before, same, after) = (contents[20_479], contents[20_480], contents[24_576]);
        assert_eq!((before, same, after), (0, u8::from(flags != 0), 0), "{flags:#o}");
        // More than a request of the kernel has.
        synchronous.write_all_at(&vec![2; 3 << 20], 1 << 20).unwrap();
        let contents = fs::read(mount.durable().join("a")).unwrap();
        assert_eq!(contents[1 << 20..].iter().all(|byte| *byte == 2), flags != 0, "{flags:#o}");
        assert_eq!(contents[20_000], 0);
        // The next call is one of the program, and counts.
        synchronous.sync_data().unwrap();
        let contents = fs::read(mount.durable().join("a")).unwrap();
        assert_eq!((contents[20_000], contents[28_191]), (1, 1), "{flags:#o}");
    }
}

#[test]
fn synchronous_write_has_the_size_that_is_needed_to_find_it() {
    for order in ORDERS {
        let Some(mut mount) = Mount::in_order(order) else { return };
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).custom_flags(O_DSYNC).open(mount.path("a")).unwrap();
        mount.mounted.sync().unwrap();
        file.set_len(50_000).unwrap();
        file.set_len(10).unwrap();
        file.write_all_at(b"end", 5000).unwrap();
        let contents = fs::read(mount.durable().join("a")).unwrap();
        assert_eq!((contents.len(), &contents[5000..]), (5003, &b"end"[..]), "{order:?}");
    }
}

#[test]
fn map_in_the_range_of_a_synchronous_write_is_durable() {
    let Some(mut mount) = Mount::in_order(MetadataOrder::Ext4) else { return };
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(true).custom_flags(O_DSYNC).open(mount.path("a")).unwrap();
    file.set_len(40_960).unwrap();
    mount.mounted.sync().unwrap();
    let mut map = SharedMap::new(&file, 0, 40_960).unwrap();
    map.write(10, b"same page");
    map.write(20_000, b"other page");
    file.write_all_at(b"write", 100).unwrap();
    let contents = fs::read(mount.durable().join("a")).unwrap();
    assert_eq!((&contents[10..19], &contents[100..105], contents[20_000]), (&b"same page"[..], &b"write"[..], 0));
}

#[test]
fn sync_file_range_makes_nothing_durable() {
    let Some(mut mount) = Mount::in_order(MetadataOrder::Ext4) else { return };
    fs::write(mount.path("a"), b"data").unwrap();
    // `rustix` has no call for it: 7 are all of its flags.
    const NUMBER: &str = if cfg!(target_arch = "x86_64") { "277" } else { "84" };
    let script = format!("open(F, '+<', $ARGV[0]) or die; syscall({NUMBER}, fileno(F), 0, 0, 7) == 0 or die $!");
    let done = std::process::Command::new("perl").arg("-e").arg(script).arg(mount.path("a")).status();
    if !done.is_ok_and(|status| status.success()) {
        let _ = writeln!(io::stderr(), "SKIPPED: sync_file_range_makes_nothing_durable: no `perl` that can call it");
        return;
    }
    assert_eq!(mount.mounted.status().unwrap().pending.bytes, 4);
    assert!(!mount.durable().join("a").exists());
}

#[test]
fn msync_of_a_part_makes_the_whole_file_durable_and_is_counted() {
    let Some(mut mount) = Mount::in_order(MetadataOrder::Ext4) else { return };
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(mount.path("a")).unwrap();
    file.set_len(40_960).unwrap();
    mount.mounted.sync().unwrap();
    let mut map = SharedMap::new(&file, 0, 4096).unwrap();
    map.write(10, b"by a map");
    map.sync().unwrap();
    assert_eq!(mount.cut(&[Policy::None], Unit::Page, 1).status.limits.parts_as_whole, 0);
    file.write_all_at(b"by a call", 20_000).unwrap();
    map.write(10, b"by a map");
    map.sync().unwrap();
    let report = mount.cut(&[Policy::None], Unit::Page, 1);
    assert_eq!(report.status.limits.parts_as_whole, 1);
    assert_eq!(&fs::read(report.images[0].path.join("a")).unwrap()[20_000..20_009], b"by a call");
}

#[test]
fn msync_of_one_map_after_another_was_removed_is_counted() {
    let Some(mut mount) = Mount::in_order(MetadataOrder::Ext4) else { return };
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(mount.path("a")).unwrap();
    file.set_len(40_960).unwrap();
    mount.mounted.sync().unwrap();
    let counted = |mount: &mut Mount| mount.cut(&[Policy::None], Unit::Page, 1).status.limits.parts_as_whole;
    let mut map = SharedMap::new(&file, 0, 40_960).unwrap();
    // All that is pending is in the part.
    [100, 20_000, 30_000].into_iter().for_each(|at| map.write(at, b"by a map"));
    map.sync().unwrap();
    drop(map);
    assert_eq!(counted(&mut mount), 0);
    SharedMap::new(&file, 20_480, 4096).unwrap().write(10, b"first");
    let mut second = SharedMap::new(&file, 0, 4096).unwrap();
    second.write(10, b"second");
    second.sync().unwrap();
    assert_eq!(counted(&mut mount), 1);
}

#[test]
fn pages_of_a_map_that_the_kernel_has_not_sent_are_pending_at_a_cut_and_durable_after_a_sync() {
    let Some(mut mount) = Mount::in_order(MetadataOrder::Ext4) else { return };
    let files = ["a", "b"].map(|name| {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(mount.path(name)).unwrap();
        file.set_len(2 << 20).unwrap();
        file
    });
    mount.mounted.sync().unwrap();
    let mut maps = files.map(|file| SharedMap::new(&file, 1 << 20, 1 << 20).unwrap());
    let part = |image: &Path, name: &str| fs::read(image.join(name)).unwrap()[1 << 20..][10_000..10_008].to_vec();
    for text in [b"the 1st ", b"the 2nd "] {
        maps.iter_mut().for_each(|map| map.write(10_000, text));
        let report = mount.cut(&[Policy::None, Policy::Prefix, Policy::Subset, Policy::Subset], Unit::Page, 1);
        assert_eq!(report.status.pending.bytes, 8192);
        assert_eq!(report.status.counts.syncs, 0);
        let found = |name: &str| report.images.iter().any(|image| part(&image.path, name) == text);
        assert!(found("a") || found("b"));
        let text = text.to_ascii_uppercase();
        maps.iter_mut().for_each(|map| map.write(10_000, &text));
        assert_eq!(mount.mounted.sync().unwrap().bytes, 2 * 8192);
        let image = mount.durable();
        assert_eq!((part(&image, "a"), part(&image, "b")), (text.clone(), text));
    }
}

/// They were left out without a remark.
#[test]
fn maps_whose_files_may_not_be_opened_are_counted() {
    let Some(mut mount) = Mount::in_order(MetadataOrder::Ext4) else { return };
    let files = ["a", "b"].map(|name| {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(mount.path(name)).unwrap();
        file.set_len(4096).unwrap();
        file
    });
    let _maps = files.map(|file| SharedMap::new(&file, 0, 4096).unwrap());
    ["a", "b"].into_iter().for_each(|name| fs::remove_file(mount.path(name)).unwrap());
    let mut unsent = || mount.cut(&[Policy::None], Unit::Page, 1).status.limits.unsent_maps;
    let links = CapabilitySet::SYS_ADMIN | CapabilitySet::CHECKPOINT_RESTORE;
    let own = capabilities(None).unwrap();
    let without = || {
        // A thread has capabilities of its own (capabilities(7)).
        set_capabilities(None, CapabilitySets { effective: own.effective - links, ..own }).unwrap();
        unsent()
    };
    assert_eq!(std::thread::scope(|scope| scope.spawn(without).join().unwrap()), 2);
    if own.effective.intersects(links) {
        assert_eq!(unsent(), 0);
    }
}

#[test]
fn replacement_has_its_data_by_auto_da_alloc_and_not_without() {
    for (order, has_data) in [(MetadataOrder::Ext4, true), (MetadataOrder::Ext4NoAutoDaAlloc, false)] {
        let Some(mut mount) = Mount::in_order(order) else { return };
        fs::write(mount.path("renamed"), b"old").unwrap();
        fs::write(mount.path("truncated"), b"old").unwrap();
        mount.mounted.sync().unwrap();
        fs::write(mount.path("new"), b"new").unwrap();
        fs::rename(mount.path("new"), mount.path("renamed")).unwrap();
        fs::write(mount.path("truncated"), b"new").unwrap();
        // The kernel does not wait for the file system when a file is closed.
        std::thread::sleep(Duration::from_millis(100));
        fs::write(mount.path("other"), b"").unwrap();
        sync(&mount.path("other"));
        let image = mount.durable();
        let read = |name: &str| fs::read(image.join(name)).unwrap();
        let expected: &[u8] = if has_data { b"new" } else { b"" };
        assert_eq!((read("renamed"), read("truncated")), (expected.to_vec(), expected.to_vec()), "{order:?}");
    }
}

#[test]
fn durable_file_that_is_renamed_is_never_lost() {
    let Some(mut mount) = Mount::in_order(MetadataOrder::Posix) else { return };
    fs::write(mount.path("a"), b"durable").unwrap();
    mount.mounted.sync().unwrap();
    fs::create_dir(mount.path("d")).unwrap();
    fs::rename(mount.path("a"), mount.path("d/a")).unwrap();
    fs::create_dir(mount.path("e")).unwrap();
    fs::rename(mount.path("d"), mount.path("e/d")).unwrap();
    // By POSIX this is no promise about `d` itself, but the only name of a durable file must not be in a lost directory.
    sync(&mount.path("e/d"));
    let names = ["a", "d/a", "e/d/a"];
    let policies = [Policy::None, Policy::Subset, Policy::Subset, Policy::Subset, Policy::Prefix, Policy::Torn];
    for seed in 0..20 {
        for image in mount.cut(&policies, Unit::Page, seed).images {
            let found = names.iter().filter_map(|name| fs::read(image.path.join(name)).ok()).collect::<Vec<_>>();
            assert_eq!(found, [b"durable"], "{image:?}");
        }
    }
}

#[test]
fn mount_points_of_any_bytes_disturb_no_cut() {
    let Some(mut mount) = Mount::in_order(MetadataOrder::Ext4) else { return };
    let strange = mount.outside().join(std::ffi::OsStr::from_bytes(b"\xff, \\ name"));
    fs::create_dir(&strange).unwrap();
    let state = strange.with_extension("state");
    let mounted = Mounted::start(program(), &strange, &state, &Settings::default()).unwrap();
    fs::write(strange.join("a"), b"data").unwrap();
    assert_eq!(prony_powercut::sync(&strange).unwrap().bytes, 4);
    // The reports are text.
    let chances = (Fraction::new(0.5).unwrap(), Unit::Page);
    let error = CutSettings::check(&strange.with_extension("cut"), 1, &[Policy::None], chances, 1).unwrap_err();
    assert!(error.to_string().contains("is not UTF-8"), "{error}");
    let settings = CutSettings::check(&mount.outside().join("images"), 1, &[Policy::None], chances, 1).unwrap();
    let report = mounted.cut(&settings).unwrap();
    assert_eq!(fs::read(report.images[0].path.join("a")).unwrap(), b"data");
    fs::write(mount.path("b"), b"data").unwrap();
    sync(&mount.path("b"));
    assert_eq!(fs::read(mount.durable().join("b")).unwrap(), b"data");
    mounted.unmount().unwrap();
}

#[test]
fn write_that_is_synchronous_by_its_call_is_durable() {
    let Some(mut mount) = Mount::in_order(MetadataOrder::Ext4) else { return };
    let file = File::create(mount.path("a")).unwrap();
    file.write_all_at(b"other", 8192).unwrap();
    pwritev2(&file, &[IoSlice::new(b"write")], 0, ReadWriteFlags::DSYNC).unwrap();
    assert_eq!(&fs::read(mount.durable().join("a")).unwrap()[..5], b"write");
    assert_eq!(mount.mounted.status().unwrap().pending.bytes, 5);
}

#[test]
fn unmapping_sends_pages_and_syncfs_makes_nothing_durable() {
    let Some(mut mount) = Mount::in_order(MetadataOrder::Ext4) else { return };
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(mount.path("a")).unwrap();
    file.set_len(8192).unwrap();
    mount.mounted.sync().unwrap();
    let mut map = SharedMap::new(&file, 0, 8192).unwrap();
    map.write(10, b"by a map");
    assert_eq!(mount.mounted.status().unwrap().pending.operations, 0);
    drop(map);
    assert_eq!(mount.mounted.status().unwrap().pending.bytes, 4096);
    syncfs(File::open(mount.mounted.point()).unwrap()).unwrap();
    assert_eq!(mount.mounted.status().unwrap().pending.bytes, 4096);
    assert_eq!(fs::read(mount.durable().join("a")).unwrap(), [0; 8192]);
}

#[test]
fn image_shows_links_permissions_and_holes() {
    let Some(mut mount) = Mount::in_order(MetadataOrder::Ext4) else { return };
    fs::create_dir(mount.path("d")).unwrap();
    let file = File::create(mount.path("d/a")).unwrap();
    file.write_all_at(b"far away", 1 << 40).unwrap();
    fs::set_permissions(mount.path("d/a"), PermissionsExt::from_mode(0o640)).unwrap();
    fs::hard_link(mount.path("d/a"), mount.path("b")).unwrap();
    symlink("d/a", mount.path("c")).unwrap();
    fs::set_permissions(mount.path("d"), PermissionsExt::from_mode(0o500)).unwrap();
    mount.mounted.sync().unwrap();
    let image = mount.durable();
    let found = fs::metadata(image.join("c")).unwrap();
    assert_eq!((found.len(), found.mode() & 0o7777, found.nlink()), ((1 << 40) + 8, 0o640, 2));
    assert!(found.blocks() < 1000, "{}", found.blocks());
    assert_eq!(fs::metadata(image.join("d")).unwrap().mode() & 0o7777, 0o500);
    let mut end = [0; 8];
    File::open(image.join("b")).unwrap().read_exact_at(&mut end, 1 << 40).unwrap();
    assert_eq!(&end, b"far away");
}

#[test]
fn file_without_a_name_works_until_it_is_closed() {
    let Some(mut mount) = Mount::in_order(MetadataOrder::Ext4) else { return };
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(mount.path("a")).unwrap();
    fs::remove_file(mount.path("a")).unwrap();
    file.write_all_at(b"data", 0).unwrap();
    file.sync_all().unwrap();
    let mut data = [0; 4];
    file.read_exact_at(&mut data, 0).unwrap();
    assert_eq!((&data, file.metadata().unwrap().nlink()), (b"data", 0));
    assert_eq!(names(&mount.durable()), [""; 0]);
}

#[test]
fn locks_exclude_each_other() {
    let Some(mount) = Mount::in_order(MetadataOrder::Ext4) else { return };
    let [a, b] =
        [1, 2].map(|_| OpenOptions::new().write(true).create(true).truncate(false).open(mount.path("a")).unwrap());
    flock(&a, FlockOperation::NonBlockingLockExclusive).unwrap();
    assert!(flock(&b, FlockOperation::NonBlockingLockExclusive).is_err());
    drop(a);
    flock(&b, FlockOperation::NonBlockingLockExclusive).unwrap();
}

#[test]
fn write_beyond_the_quota_fails_until_something_is_removed() {
    let settings = Settings { quota: Some(Bytes::from_mib(1)), ..Settings::default() };
    let Some(mount) = Mount::with(&settings) else { return };
    fs::write(mount.path("a"), vec![1; 700_000]).unwrap();
    let full = fs::write(mount.path("b"), vec![1; 700_000]).unwrap_err();
    assert_eq!(full.kind(), io::ErrorKind::StorageFull);
    // What is allocated can be written again, and holes cost nothing.
    let file = OpenOptions::new().write(true).open(mount.path("a")).unwrap();
    file.write_all_at(&[2; 600_000], 0).unwrap();
    file.set_len(1 << 40).unwrap();
    let space = statvfs(mount.mounted.point()).unwrap();
    assert_eq!(space.f_blocks * space.f_frsize, 1 << 20);
    assert!(space.f_bavail * space.f_frsize < 400_000);
    drop(file);
    fs::remove_file(mount.path("a")).unwrap();
    mount.mounted.sync().unwrap();
    fs::remove_file(mount.path("b")).unwrap();
    fs::write(mount.path("c"), vec![1; 700_000]).unwrap();
}

/// A program that replaced a file several times without a sync met `ENOSPC` on a disk that was nearly empty.
#[test]
fn quota_is_free_again_when_a_file_is_removed_and_closed_though_images_still_have_it() {
    let settings = Settings { quota: Some(Bytes::from_mib(1)), ..Settings::default() };
    let Some(mut mount) = Mount::with(&settings) else { return };
    fs::write(mount.path("a"), vec![1; 700_000]).unwrap();
    mount.mounted.sync().unwrap();
    let file = File::open(mount.path("a")).unwrap();
    fs::remove_file(mount.path("a")).unwrap();
    let full = fs::write(mount.path("b"), vec![2; 700_000]).unwrap_err();
    assert_eq!(full.kind(), io::ErrorKind::StorageFull, "a file that is open can still be read");
    fs::remove_file(mount.path("b")).unwrap();
    drop(file);
    for _ in 0..3 {
        fs::write(mount.path("c"), vec![3; 700_000]).unwrap();
        fs::write(mount.path("c"), vec![4; 600_000]).unwrap();
        fs::remove_file(mount.path("c")).unwrap();
    }
    let image = mount.durable();
    assert_eq!(names(&image), ["a"], "nothing was synced since");
    assert!(fs::read(image.join("a")).unwrap() == vec![1; 700_000]);
}

#[test]
fn sync_takes_the_time_that_was_asked_for() {
    let delay = Duration::from_millis(30);
    let settings = Settings { sync_latency: Nanos::from_millis(30), ..Settings::default() };
    let Some(mount) = Mount::with(&settings) else { return };
    let file = File::create(mount.path("a")).unwrap();
    let begin = Instant::now();
    file.sync_all().unwrap();
    assert!(begin.elapsed() >= delay);
}

#[test]
fn mount_is_controlled_from_outside() {
    let Some(mount) = Mount::in_order(MetadataOrder::Ext4) else { return };
    let point = mount.mounted.point();
    fs::write(mount.path("a"), b"data").unwrap();
    assert_eq!(prony_powercut::sync(point).unwrap().bytes, 4);
    fs::write(mount.path("a"), b"more data").unwrap();
    let chances = (Fraction::new(0.5).unwrap(), Unit::Page);
    let cut = |into: &Path| {
        let settings = CutSettings::check(into, 2, &[Policy::None, Policy::Prefix], chances, 1).unwrap();
        prony_powercut::cut(point, &settings)
    };
    let report = cut(&mount.outside().join("images")).unwrap();
    assert_eq!((report.status.pending.bytes, report.images.len()), (9, 2));
    assert_eq!(fs::read(report.images[0].path.join("a")).unwrap(), b"data");
    for (into, wrong) in [(mount.path("images"), "would lie in the file system"), (mount.outside().into(), "create")] {
        let error = cut(&into).unwrap_err();
        assert!(error.to_string().contains(wrong), "{error}");
    }
    assert!(matches!(prony_powercut::sync(mount.outside()), Err(Error::NotMounted { .. })));
    prony_powercut::unmount(point).unwrap();
    assert!(matches!(prony_powercut::unmount(point), Err(Error::NotMounted { .. })));
    assert_eq!(names(point), [""; 0]);
}

#[test]
fn directories_that_cannot_serve_are_refused() {
    let Some(mount) = Mount::in_order(MetadataOrder::Ext4) else { return };
    let (point, settings) = (mount.mounted.point(), Settings::default());
    let other = mount.outside().join("other");
    fs::create_dir(&other).unwrap();
    let refused =
        |point: &Path, state: &Path| Mounted::start(program(), point, state, &settings).unwrap_err().to_string();
    assert!(refused(point, &mount.outside().join("state-2")).contains("there is one already"));
    assert!(refused(&other, &mount.outside().join("state")).contains("is in use"));
    assert!(refused(&other, &other.join("state")).contains("is in the mount point"));
    assert!(refused(&mount.outside().join("missing"), &other).contains("cannot find"));
    assert!(
        CutSettings::check(Path::new("x"), 1, &[Policy::None], (Fraction::new(0.5).unwrap(), Unit::Page), 1).is_err()
    );
}
