//! Random operations and cuts, checked against a specification that shares no code and no idea with the disk.

mod flushes;
mod moves;
mod specification;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::time::Duration;

use prony_model::random::Stream;
use prony_model::units::Fraction;

use super::*;
use crate::disk::ROOT;
use crate::inode::New;
use crate::log::Attributes;
use crate::report::Image;
use crate::saved::Cut;
use crate::settings::{CutSettings, MetadataOrder, Policy, Settings, Unit};
use specification::{Contents, File, PATHS, Specification, write};

/// The disk beside its specification.
struct Pair {
    disk: Disk,
    specification: Specification,
    /// The inode of each file.
    inodes: Vec<Ino>,
    directories: [Ino; 2],
}

impl Pair {
    fn new(state: &Path, order: MetadataOrder) -> Self {
        let settings = Settings { metadata: order, ..Settings::default() };
        let mut disk = Disk::new(state, &settings, (0, 0)).unwrap();
        let attributes = Attributes { mode: 0o755, uid: 0, gid: 0 };
        let below = disk.create(ROOT, OsStr::new("d"), New::Directory, attributes).unwrap();
        disk.sync_all().unwrap();
        Self { disk, specification: Specification::new(order), inodes: vec![], directories: [ROOT, below] }
    }

    fn at(&self, (directory, name): (bool, &'static str)) -> (Ino, &'static OsStr) {
        (self.directories[usize::from(directory)], OsStr::new(name))
    }

    fn step(&mut self, stream: &mut Stream) {
        let path = PATHS[stream.below(5) as usize];
        let to = PATHS[stream.below(5) as usize];
        let names = self.specification.names().clone();
        let (at, new) = (self.at(path), self.at(to));
        let Some(file) = names.get(&path).copied() else {
            return self.create(path);
        };
        let ino = self.inodes[file];
        match stream.below(17) {
            0..5 => drop(self.write(file, stream)),
            5 => self.resize(file, stream.below(9000)),
            13 => self.resize(file, 0),
            14 | 15 => self.close_all(&names.values().copied().collect()),
            6 if names.get(&to) != Some(&file) => {
                self.disk.rename(at, new, true).unwrap();
                let mut after = names.clone();
                after.remove(&path);
                let replaced = after.insert(to, file);
                let files: Vec<usize> = [Some(file), replaced].into_iter().flatten().collect();
                self.specification.change(after, &[path.0, to.0], &files);
                if replaced.is_some() {
                    self.flush(file, self.specification.history.len() - 1);
                }
            }
            7 if !names.contains_key(&to) => {
                self.disk.link(ino, new.0, new.1).unwrap();
                let mut after = names.clone();
                after.insert(to, file);
                self.specification.change(after, &[to.0], &[file]);
            }
            8 => {
                self.disk.remove(at.0, at.1, false).unwrap();
                let mut after = names.clone();
                after.remove(&path);
                self.specification.change(after, &[path.0], &[file]);
            }
            9 | 10 => {
                let data_only = stream.below(2) == 0;
                self.disk.sync(ino, data_only).unwrap();
                self.specification.sync(file, data_only);
            }
            12 => {
                let (offset, end, state) = self.write(file, stream);
                let data_only = stream.below(2) == 0;
                self.disk.sync_range(ino, (offset, end), data_only).unwrap();
                self.specification.sync_range(file, end, state, data_only);
            }
            11 => {
                self.disk.sync(at.0, false).unwrap();
                self.specification.sync_directory(path.0);
            }
            _ => {}
        }
    }

    /// Closes all files, of which these have names.
    fn close_all(&mut self, named: &BTreeSet<usize>) {
        for file in 0..self.inodes.len() {
            self.disk.release(self.inodes[file]);
            if std::mem::take(&mut self.specification.files[file].is_cleared) && named.contains(&file) {
                self.flush(file, self.specification.history.len());
            }
        }
    }

    /// If so many changes of metadata survive, what was written to the file before does, where it waits for a place.
    fn flush(&mut self, file: usize, changes: usize) {
        if self.specification.order != MetadataOrder::Ext4 {
            return;
        }
        let of = &mut self.specification.files[file];
        let state = of.states.len() - 1;
        if of.delayed(0..usize::MAX).is_some() {
            of.flushes.push((changes, state));
        }
        of.sent.push(state);
    }

    fn create(&mut self, path: (bool, &'static str)) {
        let (dir, name) = self.at(path);
        let attributes = Attributes { mode: 0o644, uid: 0, gid: 0 };
        self.inodes.push(self.disk.create(dir, name, New::File, attributes).unwrap());
        self.specification.files.push(File::default());
        self.specification.files.last_mut().unwrap().push(vec![], 0, false);
        let mut names = self.specification.names().clone();
        names.insert(path, self.inodes.len() - 1);
        let file = self.inodes.len() - 1;
        self.specification.change(names, &[path.0], &[file]);
        self.specification.files[file].data_touched = self.specification.history.len() - 1;
    }

    /// Writes something; the range, and the number of the state afterwards.
    fn write(&mut self, file: usize, stream: &mut Stream) -> (u64, u64, usize) {
        let mut data = vec![0; 1 + stream.below(6000) as usize];
        stream.fill(&mut data);
        let offset = stream.below(6000);
        self.disk.write(self.inodes[file], offset, &data).unwrap();
        let changes = self.specification.history.len() - 1;
        let of = &mut self.specification.files[file];
        let end = offset + data.len() as u64;
        let mut contents = of.current().contents.clone();
        if end as usize > contents.len() {
            of.data_touched = changes;
        }
        write(&mut contents, offset, &data);
        let state = of.push(contents, changes, false);
        of.states[state].pages = offset as usize / 4096..(end as usize).div_ceil(4096);
        (offset, end, state)
    }

    fn resize(&mut self, file: usize, size: u64) {
        self.disk.resize(self.inodes[file], size).unwrap();
        let names = self.specification.names().clone();
        self.specification.change(names, &[], &[file]);
        let changes = self.specification.history.len() - 1;
        let of = &mut self.specification.files[file];
        of.data_touched = changes;
        of.is_cleared |= size == 0;
        let mut contents = of.current().contents.clone();
        contents.resize(size as usize, 0);
        of.push(contents, changes, true);
    }

    /// Makes images, and the same ones of a cut that was saved.
    fn cut(&self, into: &Path, policies: &[Policy], seed: u64) -> Vec<(Policy, Contents)> {
        let settings = |into: &Path| {
            let chances = (Fraction::new(0.6).unwrap(), Unit::Page);
            CutSettings::check(into, 2 * policies.len() as u32, policies, chances, seed).unwrap()
        };
        fs::create_dir(into).unwrap();
        let images = self.disk.images(&settings(into)).unwrap();
        self.disk.save(&into.join("saved")).unwrap();
        let saved = Cut::open(&into.join("saved")).unwrap();
        assert_eq!(saved.status(), self.disk.status());
        let again = saved.images(&settings(&into.join("again"))).unwrap().images;
        let show = |images: Vec<Image>| -> Vec<(Policy, Contents)> {
            images.iter().map(|image| (image.policy, files_of(&image.path))).collect()
        };
        let (images, again) = (show(images), show(again));
        assert!(images == again, "a saved cut has other images");
        images
    }
}

fn files_of(image: &Path) -> Contents {
    let path = |(directory, name): (bool, &str)| if directory { image.join("d").join(name) } else { image.join(name) };
    PATHS.iter().filter_map(|at| Some((*at, fs::read(path(*at)).ok()?))).collect()
}

fn check(order: MetadataOrder, rounds: impl IntoIterator<Item = u64>) {
    const POLICIES: [Policy; 4] = [Policy::None, Policy::Prefix, Policy::Subset, Policy::Torn];
    let top = tempfile::tempdir().unwrap();
    let (mut different, mut count) = (BTreeSet::new(), 0);
    for round in rounds {
        count += 1;
        let mut stream = Stream::new(round);
        let mut pair = Pair::new(top.path(), order);
        for cut in 0..3 {
            (0..stream.below(25)).for_each(|_| pair.step(&mut stream));
            let into = top.path().join(format!("cut-{round}-{cut}"));
            for (policy, image) in pair.cut(&into, &POLICIES, round) {
                let sizes: Vec<_> = image.iter().map(|(path, data)| (path, data.len())).collect();
                assert!(
                    pair.specification.allows(&image),
                    "round {round}, cut {cut}, {policy:?}: {sizes:?}, {:?}",
                    pair.specification.files.iter().map(File::summary).collect::<Vec<_>>()
                );
                different.insert((
                    round,
                    cut,
                    image.into_iter().map(|(at, data)| (at, data.len())).collect::<Vec<_>>(),
                ));
            }
            fs::remove_dir_all(&into).unwrap();
        }
        pair.disk.sync_all().unwrap();
        let into = top.path().join(format!("all-{round}"));
        let [(_, image), ..] = &pair.cut(&into, &[Policy::None], 1)[..] else { panic!() };
        let expected = |path: &(bool, &str), data: &Vec<u8>| {
            let file = pair.specification.names()[path];
            *data == pair.specification.files[file].current().contents
                && pair.disk.inodes[&pair.inodes[file]].pending.is_empty()
        };
        assert_eq!(image.keys().collect::<Vec<_>>(), pair.specification.names().keys().collect::<Vec<_>>());
        assert!(image.iter().all(|(path, data)| expected(path, data)), "round {round}: something durable is missing");
        fs::remove_dir_all(&into).unwrap();
    }
    // A disk that always loses or always keeps everything would satisfy the specification too.
    assert!(different.len() > 5 * count, "only {} different images", different.len());
}

#[test]
fn cut_in_the_order_of_ext4_shows_only_allowed_states() {
    // And rounds in which an image was wrong (1540), or the specification (the others).
    check(MetadataOrder::Ext4, (0..60).chain([1540, 2098, 6372]));
}

#[test]
fn cut_in_the_order_of_ext4_without_auto_da_alloc_shows_only_allowed_states() {
    check(MetadataOrder::Ext4NoAutoDaAlloc, 0..60);
}

#[test]
fn cut_in_the_order_of_posix_shows_only_allowed_states() {
    check(MetadataOrder::Posix, 0..60);
}

#[test]
fn same_seed_makes_the_same_image() {
    let top = tempfile::tempdir().unwrap();
    let mut pair = Pair::new(top.path(), MetadataOrder::Ext4);
    let mut stream = Stream::new(3);
    (0..60).for_each(|_| pair.step(&mut stream));
    let policies = [Policy::Subset, Policy::Torn, Policy::Prefix];
    let cut = |name: &str, seed| pair.cut(&top.path().join(name), &policies, seed);
    assert_eq!(cut("a", 5), cut("b", 5));
    assert_ne!(cut("c", 6), cut("d", 5));
}

#[test]
fn synchronous_write_makes_only_its_own_pages_durable() {
    let top = tempfile::tempdir().unwrap();
    let mut pair = Pair::new(top.path(), MetadataOrder::Ext4);
    pair.create((false, "a"));
    let ino = pair.inodes[0];
    pair.disk.resize(ino, 40960).unwrap();
    pair.disk.write(ino, 20000, &[1; 100]).unwrap();
    pair.disk.write(ino, 10, &[2; 10]).unwrap();
    pair.disk.write(ino, 0, &[4; 30_000]).unwrap();
    pair.disk.write(ino, 100, &[3; 10]).unwrap();
    pair.disk.sync_range(ino, (100, 110), true).unwrap();
    let [(_, image), ..] = &pair.cut(&top.path().join("cut"), &[Policy::None], 1)[..] else { panic!() };
    let contents = &image[&(false, "a")];
    assert_eq!((contents.len(), &contents[10..20], &contents[100..110]), (40960, &[4; 10][..], &[3; 10][..]));
    assert!(contents[4096..].iter().all(|byte| *byte == 0));
    // The rest of the large write, and the small one before it.
    assert_eq!((pair.disk.pending().operations, pair.disk.pending().bytes), (2, 30_000 - 4096 + 100));
    pair.disk.sync(ino, true).unwrap();
    let [(_, image), ..] = &pair.cut(&top.path().join("later"), &[Policy::None], 1)[..] else { panic!() };
    let contents = &image[&(false, "a")];
    assert_eq!((&contents[100..110], &contents[4096..30_000]), (&[3; 10][..], &[4; 30_000 - 4096][..]));
}

#[test]
fn oldest_operations_become_durable_at_the_limit_and_by_age() {
    let top = tempfile::tempdir().unwrap();
    let limited = Settings { pending: prony_model::units::Bytes::from_kib(64), ..Settings::default() };
    let aged = Settings { writeback: Some(prony_model::units::Nanos::from_nanos(1)), ..Settings::default() };
    for (settings, left) in [(limited, 8..17), (aged, 0..1)] {
        let mut disk = Disk::new(top.path(), &settings, (0, 0)).unwrap();
        let attributes = Attributes { mode: 0o644, uid: 0, gid: 0 };
        let ino = disk.create(ROOT, OsStr::new("a"), New::File, attributes).unwrap();
        for at in 0..100 {
            disk.write(ino, at * 4096, &[at as u8; 4096]).unwrap();
        }
        std::thread::sleep(Duration::from_millis(1));
        disk.write_back().unwrap();
        assert!(left.contains(&disk.pending().operations), "{:?}", disk.pending());
        let Kind::File(images) = &disk.inode(ino).unwrap().kind else { panic!() };
        let durable = images.durable.as_ref().unwrap();
        assert_eq!(durable.read(4096, 2).unwrap(), [1; 2]);
        assert_eq!(durable.size(), (100 - disk.pending().operations) * 4096);
    }
}

#[test]
fn nothing_is_left_of_a_removed_file_once_its_removal_is_durable() {
    let top = tempfile::tempdir().unwrap();
    for order in [MetadataOrder::Ext4, MetadataOrder::Posix] {
        let mut pair = Pair::new(top.path(), order);
        pair.create((true, "a"));
        let (ino, dir) = (pair.inodes[0], pair.directories[1]);
        pair.disk.open(ino).unwrap();
        pair.disk.write(ino, 0, &[1; 10_000]).unwrap();
        pair.disk.sync(dir, false).unwrap();
        pair.disk.write(ino, 0, &[2; 10_000]).unwrap();
        pair.disk.remove(dir, OsStr::new("a"), false).unwrap();
        pair.disk.release(ino);
        assert!(pair.disk.inode(ino).is_ok(), "a cut may still show it");
        pair.disk.sync(dir, false).unwrap();
        assert!(pair.disk.inode(ino).is_err());
        assert_eq!((pair.disk.pending().operations, pair.disk.inodes.len()), (0, 2));
    }
}

#[test]
fn cut_is_refused_once_the_state_directory_was_full() {
    let top = tempfile::tempdir().unwrap();
    let mount =
        std::process::Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(top.path()).status();
    if !mount.is_ok_and(|status| status.success()) {
        assert_ne!(std::env::var("PRONY_REQUIRE_ALL").as_deref(), Ok("1"), "a small disk is required");
        println!("SKIPPED: no file system can be mounted here");
        return;
    }
    let mut pair = Pair::new(top.path(), MetadataOrder::Ext4);
    pair.create((false, "a"));
    let mut write = |at: u64| pair.disk.write(pair.inodes[0], at * 4096, &[1; 4096]);
    let full = (0..1000).find_map(|at| write(at).err());
    assert_eq!(full, Some(Errno::NOSPC));
    let chances = (Fraction::new(0.5).unwrap(), Unit::Page);
    let settings = CutSettings::check(&top.path().join("cut"), 1, &[Policy::None], chances, 1).unwrap();
    let error = pair.disk.images(&settings).unwrap_err();
    assert!(error.to_string().contains("could not be written: No space left"), "{error}");
    drop(pair);
    std::process::Command::new("umount").arg("-l").arg(top.path()).status().unwrap();
}
