//! Moves of durable files.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use prony_model::random::Stream;
use prony_model::units::Fraction;

use super::super::*;
use crate::disk::ROOT;
use crate::inode::New;
use crate::log::Attributes;
use crate::settings::{CutSettings, MetadataOrder, Policy, Settings, Unit};

/// Directories and files that are only moved: by every order, each durable file is in each image, once.
#[test]
fn durable_file_that_is_only_moved_is_in_every_image_once() {
    const POLICIES: [Policy; 6] =
        [Policy::None, Policy::Subset, Policy::Subset, Policy::Subset, Policy::Prefix, Policy::Torn];
    let top = tempfile::tempdir().unwrap();
    let mut moved = 0;
    for (round, order) in (0..40).flat_map(|round| [(round, MetadataOrder::Ext4), (round, MetadataOrder::Posix)]) {
        let settings = Settings { metadata: order, ..Settings::default() };
        let mut disk = Disk::new(top.path(), &settings, (0, 0)).unwrap();
        let mut stream = Stream::new(round);
        let attributes = Attributes { mode: 0o755, uid: 0, gid: 0 };
        for n in 0..4_u8 {
            let ino = disk.create(ROOT, OsStr::new(&format!("file-{n}")), New::File, attributes).unwrap();
            disk.write(ino, 0, &[n]).unwrap();
        }
        disk.sync_all().unwrap();
        let mut directories = vec![ROOT];
        for step in 0..30 {
            let mut any = || directories[stream.below(directories.len() as u64) as usize];
            let (from, to) = (any(), any());
            match stream.below(8) {
                0 | 1 if directories.len() < 5 => {
                    let name = format!("d-{step}");
                    if let Ok(ino) = disk.create(to, OsStr::new(&name), New::Directory, attributes) {
                        directories.push(ino);
                    }
                }
                2 => disk.sync(to, false).unwrap(),
                _ => {
                    let Ok(images) = disk.directory(from) else { continue };
                    let all: Vec<(OsString, Ino)> =
                        images.current.iter_after(0).map(|(_, name, ino)| (name.to_owned(), ino)).collect();
                    let Some((name, ino)) = all.get(stream.below(all.len().max(1) as u64) as usize) else { continue };
                    // The kernel moves no directory into itself.
                    let mut above = to;
                    while above != ROOT && above != *ino {
                        above = disk.directory(above).unwrap().parent;
                    }
                    if above == *ino {
                        continue;
                    }
                    let is_directory = disk.inode(*ino).unwrap().is_directory();
                    if is_directory && stream.below(3) == 0 && disk.remove(from, name, true).is_ok() {
                        directories.retain(|directory| directory != ino);
                    } else {
                        moved += usize::from(disk.rename((from, name), (to, name), false).is_ok());
                    }
                }
            }
        }
        directories.iter().for_each(|directory| links_are_counted(&disk, *directory));
        let into = top.path().join(format!("cut-{round}-{order:?}"));
        let chances = (Fraction::new(0.6).unwrap(), Unit::Page);
        let settings = CutSettings::check(&into, 24, &POLICIES, chances, round).unwrap();
        fs::create_dir(&into).unwrap();
        for image in disk.images(&settings).unwrap() {
            let mut found = contents_below(&image.path);
            found.sort();
            assert_eq!(found, [[0], [1], [2], [3]], "round {round}, {order:?}, {image:?}");
        }
        fs::remove_dir_all(&into).unwrap();
    }
    assert!(moved > 300, "only {moved} moves");
}

/// A directory has two links, and one for each directory in it.
fn links_are_counted(disk: &Disk, directory: Ino) {
    let below = disk.directory(directory).unwrap().current.iter_after(0);
    let below = below.filter(|(_, _, ino)| disk.inode(*ino).unwrap().is_directory()).count();
    assert_eq!(disk.link_count(directory).unwrap(), 2 + below as u32);
}

fn contents_below(directory: &Path) -> Vec<Vec<u8>> {
    let of = |entry: fs::DirEntry| match entry.file_type().unwrap().is_dir() {
        true => contents_below(&entry.path()),
        false => vec![fs::read(entry.path()).unwrap()],
    };
    fs::read_dir(directory).unwrap().map(|entry| of(entry.unwrap())).collect::<Vec<_>>().concat()
}
