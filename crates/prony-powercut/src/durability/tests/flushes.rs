//! What ext4 writes with the changes of metadata that follow a truncation or a replacement, and what it does not write.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use prony_model::units::Fraction;

use super::super::*;
use crate::disk::ROOT;
use crate::inode::New;
use crate::log::Attributes;
use crate::settings::{CutSettings, Policy, Settings, Unit};

type Files = BTreeMap<String, Vec<u8>>;

fn disk(top: &Path) -> Disk {
    Disk::new(top, &Settings::default(), (0, 0)).unwrap()
}

fn create(disk: &mut Disk, name: &str, data: &[u8]) -> Ino {
    let attributes = Attributes { mode: 0o644, uid: 0, gid: 0 };
    let ino = disk.create(ROOT, OsStr::new(name), New::File, attributes).unwrap();
    disk.write(ino, 0, data).unwrap();
    ino
}

/// What `open` with `O_TRUNC` and `write` do.
fn replace(disk: &mut Disk, ino: Ino) {
    disk.open(ino).unwrap();
    disk.resize(ino, 0).unwrap();
    disk.write(ino, 0, b"new").unwrap();
}

/// The files of all images that some seeds make.
fn images(disk: &Disk, top: &Path) -> BTreeSet<Files> {
    let chances = (Fraction::new(0.5).unwrap(), Unit::Page);
    let settings = CutSettings::check(&top.join("images"), 400, &[Policy::Subset], chances, 1).unwrap();
    fs::create_dir(top.join("images")).unwrap();
    let images = disk.images(&settings).unwrap();
    let file = |entry: fs::DirEntry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap());
    let files = |path: &Path| fs::read_dir(path).unwrap().map(|entry| file(entry.unwrap())).collect();
    images.iter().map(|image| files(&image.path)).collect()
}

#[test]
fn later_metadata_survives_only_with_the_data_of_both_files_that_were_closed_before_it() {
    let top = tempfile::tempdir().unwrap();
    let mut disk = disk(top.path());
    let [a, b] = ["a", "b"].map(|name| create(&mut disk, name, b"old"));
    disk.sync_all().unwrap();
    [a, b].into_iter().for_each(|ino| replace(&mut disk, ino));
    [a, b].into_iter().for_each(|ino| disk.release(ino));
    create(&mut disk, "later", b"");
    let images = images(&disk, top.path());
    let later: Vec<&Files> = images.iter().filter(|files| files.contains_key("later")).collect();
    assert!(!later.is_empty() && images.len() > later.len(), "{images:?}");
    for files in later {
        assert_eq!((&files["a"][..], &files["b"][..]), (&b"new"[..], &b"new"[..]));
    }
}

#[test]
fn rename_survives_only_with_the_data_of_the_file_that_was_closed_before_it() {
    let top = tempfile::tempdir().unwrap();
    let mut disk = disk(top.path());
    let [a, _] = ["a", "data"].map(|name| create(&mut disk, name, b"old"));
    disk.sync_all().unwrap();
    replace(&mut disk, a);
    create(&mut disk, "new", b"new");
    disk.release(a);
    disk.rename((ROOT, OsStr::new("new")), (ROOT, OsStr::new("data")), true).unwrap();
    let images = images(&disk, top.path());
    let renamed: Vec<&Files> = images.iter().filter(|files| files["data"] != b"old").collect();
    assert!(!renamed.is_empty() && images.len() > renamed.len(), "{images:?}");
    for files in renamed {
        assert_eq!((&files["a"][..], &files["data"][..]), (&b"new"[..], &b"new"[..]));
    }
}

#[test]
fn truncation_of_an_empty_file_counts_as_one() {
    let top = tempfile::tempdir().unwrap();
    let mut disk = disk(top.path());
    let a = create(&mut disk, "a", b"");
    disk.sync_all().unwrap();
    replace(&mut disk, a);
    disk.release(a);
    create(&mut disk, "later", b"");
    for files in images(&disk, top.path()) {
        assert!(!files.contains_key("later") || files["a"] == b"new", "{files:?}");
    }
}

#[test]
fn size_does_not_survive_without_its_data_in_a_page_that_was_freed() {
    let free: [fn(&mut Disk, Ino); 2] =
        [|disk, ino| disk.resize(ino, 0).unwrap(), |disk, ino| disk.zero(ino, 0, 8192).unwrap()];
    for (is_hole, free) in [false, true].into_iter().zip(free) {
        let top = tempfile::tempdir().unwrap();
        let mut disk = disk(top.path());
        let ino = create(&mut disk, "a", &[1; 8192]);
        disk.sync_all().unwrap();
        free(&mut disk, ino);
        let begin = if is_hole { 8000 } else { 100 };
        if is_hole {
            disk.resize(ino, begin).unwrap();
        } else {
            disk.write(ino, 0, &[2; 100]).unwrap();
        }
        disk.write(ino, begin, &[3; 100]).unwrap();
        let end = begin as usize + 100;
        for files in images(&disk, top.path()) {
            let data = &files["a"];
            assert!(data.len() != end || data[begin as usize..] == [3; 100], "size {end} without its data: {is_hole}");
        }
    }
}

/// The new place is a change of metadata later than the creation of `later`, which was lost although the data were durable.
#[test]
fn sync_of_data_in_a_page_that_was_freed_makes_earlier_metadata_durable() {
    let free: [fn(&mut Disk, Ino); 2] = [
        |disk, ino| [0, 8192].into_iter().for_each(|size| disk.resize(ino, size).unwrap()),
        |disk, ino| disk.zero(ino, 0, 8192).unwrap(),
    ];
    let sync: [fn(&mut Disk, Ino); 2] =
        [|disk, ino| disk.sync(ino, true).unwrap(), |disk, ino| disk.sync_range(ino, (0, 100), true).unwrap()];
    for (free, sync) in free.into_iter().flat_map(|free| sync.map(|sync| (free, sync))) {
        let top = tempfile::tempdir().unwrap();
        let mut disk = disk(top.path());
        let ino = create(&mut disk, "a", &[1; 8192]);
        disk.sync_all().unwrap();
        free(&mut disk, ino);
        create(&mut disk, "later", b"");
        disk.write(ino, 0, &[2; 100]).unwrap();
        sync(&mut disk, ino);
        assert!(
            images(&disk, top.path()).iter().all(|files| files["a"][..100] == [2; 100] && files.contains_key("later"))
        );
    }
}

/// A replacement of `data`, of which `data` and `spare` are the files, and what `data` holds where its new data are lost; `None`
/// where they never are.
type Replacement = (fn(&mut Disk, (Ino, Ino)), Option<Vec<u8>>);

fn write_all(disk: &mut Disk, ino: Ino) {
    disk.write(ino, 0, &[b'n'; 8192]).map(drop).unwrap();
}

fn rename_over_data(disk: &mut Disk, name: &str) {
    disk.rename((ROOT, OsStr::new(name)), (ROOT, OsStr::new("data")), true).unwrap();
}

fn replacements() -> [Replacement; 6] {
    let preallocated = |disk: &mut Disk, (_, _): (Ino, Ino)| {
        let ino = create(disk, "tmp", b"");
        disk.preallocate(ino, 0, 8192).unwrap();
        disk.resize(ino, 8192).unwrap();
        write_all(disk, ino);
        rename_over_data(disk, "tmp");
    };
    let of_the_same_size = |disk: &mut Disk, (_, _): (Ino, Ino)| {
        let ino = create(disk, "tmp", b"");
        disk.preallocate(ino, 0, 8192).unwrap();
        write_all(disk, ino);
        rename_over_data(disk, "tmp");
    };
    let overwritten = |disk: &mut Disk, (_, spare): (Ino, Ino)| {
        write_all(disk, spare);
        rename_over_data(disk, "spare");
    };
    let truncated = |disk: &mut Disk, (data, _): (Ino, Ino)| {
        disk.open(data).unwrap();
        disk.resize(data, 0).unwrap();
        disk.preallocate(data, 0, 8192).unwrap();
        disk.resize(data, 8192).unwrap();
        write_all(disk, data);
        disk.release(data);
    };
    let partly = |disk: &mut Disk, (_, _): (Ino, Ino)| {
        let ino = create(disk, "tmp", b"");
        disk.preallocate(ino, 0, 100).unwrap();
        write_all(disk, ino);
        rename_over_data(disk, "tmp");
    };
    let freed = |disk: &mut Disk, (_, spare): (Ino, Ino)| {
        disk.preallocate(spare, 0, 8192).unwrap();
        disk.resize(spare, 100).unwrap();
        write_all(disk, spare);
        rename_over_data(disk, "spare");
    };
    [
        (preallocated, Some(vec![0; 8192])),
        (of_the_same_size, Some(vec![])),
        (overwritten, Some(vec![b's'; 8192])),
        (truncated, Some(vec![0; 8192])),
        (partly, None),
        (freed, None),
    ]
}

/// `ext4_alloc_da_blocks` does nothing where no page waits for a place: on ext4 such a replacement has zeros, nothing or the
/// contents that it had before, and here it had its data in every image.
#[test]
fn replacement_whose_pages_all_have_a_place_survives_without_its_data() {
    for (case, (replace, without)) in replacements().into_iter().enumerate() {
        let top = tempfile::tempdir().unwrap();
        let mut disk = disk(top.path());
        let all = ["data", "spare"].map(|name| create(&mut disk, name, &[name.as_bytes()[0]; 8192]));
        disk.sync_all().unwrap();
        replace(&mut disk, all.into());
        create(&mut disk, "later", b"");
        let images = images(&disk, top.path());
        let later: Vec<&[u8]> =
            images.iter().filter(|files| files.contains_key("later")).map(|files| &files["data"][..]).collect();
        assert!(later.contains(&&[b'n'; 8192][..]), "{case}");
        match without {
            Some(without) => assert!(later.contains(&&without[..]), "{case}"),
            None => assert!(later.iter().all(|data| *data == [b'n'; 8192]), "{case}"),
        }
    }
}

/// A hole in a sparse file of 64 GiB made images that took more than 40 s and 417 MiB: each of its pages was drawn by itself.
#[test]
fn hole_is_pending_only_where_there_were_data() {
    let top = tempfile::tempdir().unwrap();
    let mut disk = disk(top.path());
    let ino = create(&mut disk, "a", b"");
    disk.resize(ino, 1 << 40).unwrap();
    disk.write(ino, 1 << 30, &[1; 4096]).unwrap();
    disk.sync_all().unwrap();
    disk.zero(ino, 0, 1 << 40).unwrap();
    let changed: Vec<_> =
        disk.log.iter().filter_map(|(_, change)| change.left()).flat_map(|left| left.iter()).collect();
    assert_eq!((disk.pending().operations, &changed[..]), (1, &[(1 << 30, (1 << 30) + 4096)][..]));
    disk.zero(ino, 0, 1 << 40).unwrap();
    assert_eq!(disk.pending().operations, 1, "there is nothing left");
    disk.sync(ino, false).unwrap();
    let Kind::File(images) = &disk.inode(ino).unwrap().kind else { panic!() };
    let durable = images.durable.as_ref().unwrap();
    assert_eq!((durable.size(), durable.read(1 << 30, 4096).unwrap()), (1 << 40, vec![0; 4096]));
}
