//! Random operations and cuts, checked against a specification that shares no code and no idea with the disk: a list of
//! what happened, from which it enumerates what a file and a directory may look like after a cut.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::time::Duration;

use prony_model::random::Stream;
use prony_model::units::Fraction;

use super::*;
use crate::disk::{New, ROOT};
use crate::log::Attributes;
use crate::settings::{CutSettings, Policy, Settings};

/// The paths that operations use: a directory (the root or `d`) and a name.
const PATHS: [(bool, &str); 5] = [(false, "a"), (false, "b"), (false, "c"), (true, "a"), (true, "b")];

type Names = BTreeMap<(bool, &'static str), usize>;
type Contents = BTreeMap<(bool, &'static str), Vec<u8>>;

/// What happened to the contents of a file since they were last durable.
#[derive(Clone, Debug)]
enum Step {
    Write(u64, Vec<u8>),
    /// The size, and how many changes of metadata there had been with this one.
    Resize(u64, usize),
}

#[derive(Clone, Debug, Default)]
struct File {
    durable: Vec<u8>,
    steps: Vec<Step>,
    size: u64,
    /// How many changes of metadata there had been when it was touched last, by `fsync` and by `fdatasync`.
    touched: usize,
    data_touched: usize,
}

fn write(contents: &mut Vec<u8>, offset: u64, data: &[u8]) {
    let end = offset as usize + data.len();
    contents.resize(contents.len().max(end), 0);
    contents[offset as usize..end].copy_from_slice(data);
}

impl File {
    /// The contents after the first `writes` writes, where `changes` changes of metadata survive. None where a write would
    /// survive without a truncation before it.
    fn after(&self, writes: usize, changes: usize) -> Option<Vec<u8>> {
        let (mut contents, mut left) = (self.durable.clone(), writes);
        for step in &self.steps {
            match step {
                Step::Write(offset, data) if left > 0 => {
                    left -= 1;
                    write(&mut contents, *offset, data);
                }
                Step::Write(..) => {}
                Step::Resize(size, at) if *at <= changes => contents.resize(*size as usize, 0),
                Step::Resize(..) => break,
            }
        }
        (left == 0).then_some(contents)
    }

    /// Whether the file may look like this: each page as after some number of writes, and no size that none has.
    fn may_be(&self, found: &[u8], changes: usize) -> bool {
        let states: Vec<Vec<u8>> = (0..=self.steps.len()).filter_map(|writes| self.after(writes, changes)).collect();
        let page = |contents: &[u8], at: usize| {
            let mut page = contents.get(at..contents.len().min(at + 4096)).unwrap_or_default().to_vec();
            page.resize(4096, 0);
            page
        };
        let largest = states.iter().map(Vec::len).max().unwrap_or_default().max(found.len());
        let pages = (0..largest).step_by(4096).all(|at| states.iter().any(|state| page(state, at) == page(found, at)));
        pages && states.iter().map(Vec::len).min() <= Some(found.len()) && found.len() <= largest_of(&states)
    }
}

fn largest_of(states: &[Vec<u8>]) -> usize {
    states.iter().map(Vec::len).max().unwrap_or_default()
}

/// The history by the order of ext4: of all names after each change of metadata, and how many changes must survive.
struct Specification {
    order: MetadataOrder,
    files: Vec<File>,
    history: Vec<Names>,
    least: usize,
    /// How many changes of metadata there had been when a directory was changed last.
    directories: [usize; 2],
    /// By POSIX: what each name may be, from what `fsync` of its directory saw last.
    values: BTreeMap<(bool, &'static str), Vec<Option<usize>>>,
}

impl Specification {
    fn new(order: MetadataOrder) -> Self {
        let values = PATHS.iter().map(|path| (*path, vec![None])).collect();
        Self { order, files: vec![], history: vec![Names::new()], least: 0, directories: [0; 2], values }
    }

    fn names(&self) -> &Names {
        self.history.last().unwrap()
    }

    fn change(&mut self, names: Names, directories: &[bool], files: &[usize]) {
        for path in PATHS {
            if names.get(&path) != self.names().get(&path) {
                self.values.get_mut(&path).unwrap().push(names.get(&path).copied());
            }
        }
        self.history.push(names);
        let count = self.history.len() - 1;
        directories.iter().for_each(|directory| self.directories[usize::from(*directory)] = count);
        files.iter().for_each(|file| self.files[*file].touched = count);
    }

    fn sync(&mut self, file: usize, data_only: bool) {
        let file = &mut self.files[file];
        let count = self.history.len();
        file.durable = file.after(file.steps.iter().filter(|s| matches!(s, Step::Write(..))).count(), count).unwrap();
        file.steps.clear();
        let touched = if data_only { file.data_touched } else { file.touched.max(file.data_touched) };
        self.must_survive(touched);
    }

    fn must_survive(&mut self, changes: usize) {
        if self.order == MetadataOrder::Ext4 {
            self.least = self.least.max(changes);
            // Truncations among them are durable too.
            for file in &mut self.files {
                while let Some(at) =
                    file.steps.iter().position(|s| matches!(s, Step::Resize(_, at) if *at <= self.least))
                {
                    let Step::Resize(size, _) = file.steps.remove(at) else { unreachable!() };
                    file.durable.resize(size as usize, 0);
                    for step in &mut file.steps[..at] {
                        let Step::Write(offset, data) = step else { unreachable!() };
                        data.truncate(size.saturating_sub(*offset) as usize);
                    }
                    // A write of nothing changes no size.
                    let is_empty = |step: &Step| matches!(step, Step::Write(_, data) if data.is_empty());
                    file.steps.retain(|step| !is_empty(step));
                }
            }
        }
    }

    fn sync_directory(&mut self, directory: bool) {
        self.must_survive(self.directories[usize::from(directory)]);
        if self.order == MetadataOrder::Posix {
            let names = self.names().clone();
            let of = self.values.iter_mut().filter(|((of, _), _)| *of == directory);
            of.for_each(|(path, values)| *values = vec![names.get(path).copied()]);
        }
    }

    /// Whether an image is allowed.
    fn allows(&self, image: &Contents) -> bool {
        let same = |file: Option<usize>, found: Option<&Vec<u8>>, changes: usize| match (file, found) {
            (Some(file), Some(found)) => self.files[file].may_be(found, changes),
            (None, None) => true,
            _ => false,
        };
        let all = 0..self.history.len();
        match self.order {
            MetadataOrder::Ext4 => (self.least..self.history.len()).any(|changes| {
                let names = &self.history[changes];
                PATHS.iter().all(|path| same(names.get(path).copied(), image.get(path), changes))
            }),
            MetadataOrder::Posix => PATHS.iter().all(|path| {
                let values = &self.values[path];
                values.iter().any(|file| all.clone().any(|changes| same(*file, image.get(path), changes)))
            }),
        }
    }
}

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
        match stream.below(14) {
            0..5 => self.write(file, stream),
            5 => self.resize(file, stream.below(9000)),
            6 if names.get(&to) != Some(&file) => {
                self.disk.rename(at, new, true).unwrap();
                let mut after = names.clone();
                after.remove(&path);
                let replaced = after.insert(to, file);
                let files: Vec<usize> = [Some(file), replaced].into_iter().flatten().collect();
                self.specification.change(after, &[path.0, to.0], &files);
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
            11 => {
                self.disk.sync(at.0, false).unwrap();
                self.specification.sync_directory(path.0);
            }
            _ => {}
        }
    }

    fn create(&mut self, path: (bool, &'static str)) {
        let (dir, name) = self.at(path);
        let attributes = Attributes { mode: 0o644, uid: 0, gid: 0 };
        self.inodes.push(self.disk.create(dir, name, New::File, attributes).unwrap());
        self.specification.files.push(File::default());
        let mut names = self.specification.names().clone();
        names.insert(path, self.inodes.len() - 1);
        let file = self.inodes.len() - 1;
        self.specification.change(names, &[path.0], &[file]);
        self.specification.files[file].data_touched = self.specification.history.len() - 1;
    }

    fn write(&mut self, file: usize, stream: &mut Stream) {
        let mut data = vec![0; 1 + stream.below(6000) as usize];
        stream.fill(&mut data);
        let offset = stream.below(6000);
        self.disk.write(self.inodes[file], offset, &data).unwrap();
        let changes = self.specification.history.len() - 1;
        let of = &mut self.specification.files[file];
        let end = offset + data.len() as u64;
        if end > of.size {
            (of.size, of.data_touched) = (end, changes);
        }
        of.steps.push(Step::Write(offset, data));
    }

    fn resize(&mut self, file: usize, size: u64) {
        self.disk.resize(self.inodes[file], size).unwrap();
        let names = self.specification.names().clone();
        self.specification.change(names, &[], &[file]);
        let changes = self.specification.history.len() - 1;
        let of = &mut self.specification.files[file];
        (of.size, of.data_touched) = (size, changes);
        of.steps.push(Step::Resize(size, changes));
    }

    fn cut(&self, into: &Path, policies: &[Policy], seed: u64) -> Vec<(Policy, Contents)> {
        let chances = (Fraction::new(0.6).unwrap(), Unit::Page);
        let settings = CutSettings::check(into, 2 * policies.len() as u32, policies, chances, seed).unwrap();
        let report = self.disk.cut(&settings).unwrap();
        report.images.iter().map(|image| (image.policy, files_of(&image.path))).collect()
    }
}

fn files_of(image: &Path) -> Contents {
    let path = |(directory, name): (bool, &str)| if directory { image.join("d").join(name) } else { image.join(name) };
    PATHS.iter().filter_map(|at| Some((*at, fs::read(path(*at)).ok()?))).collect()
}

fn check(order: MetadataOrder, rounds: u64) {
    const POLICIES: [Policy; 4] = [Policy::None, Policy::Prefix, Policy::Subset, Policy::Torn];
    let top = tempfile::tempdir().unwrap();
    let mut different = BTreeSet::new();
    for round in 0..rounds {
        let mut stream = Stream::new(round);
        let mut pair = Pair::new(top.path(), order);
        for cut in 0..3 {
            (0..stream.below(25)).for_each(|_| pair.step(&mut stream));
            let into = top.path().join(format!("cut-{round}-{cut}"));
            for (policy, image) in pair.cut(&into, &POLICIES, round) {
                assert!(pair.specification.allows(&image), "round {round}, cut {cut}, {policy:?}: {into:?}");
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
            let size = pair.specification.files[file].size as usize;
            data.len() == size && pair.disk.inodes[&pair.inodes[file]].pending.is_empty()
        };
        assert_eq!(image.keys().collect::<Vec<_>>(), pair.specification.names().keys().collect::<Vec<_>>());
        assert!(image.iter().all(|(path, data)| expected(path, data)), "round {round}: something durable is missing");
        fs::remove_dir_all(&into).unwrap();
    }
    // A disk that always loses or always keeps everything would satisfy the specification too.
    assert!(different.len() as u64 > 5 * rounds, "only {} different images", different.len());
}

#[test]
fn cut_in_the_order_of_ext4_shows_only_allowed_states() {
    check(MetadataOrder::Ext4, 60);
}

#[test]
fn cut_in_the_order_of_posix_shows_only_allowed_states() {
    check(MetadataOrder::Posix, 60);
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
    let seq = pair.disk.write(ino, 100, &[3; 10]).unwrap();
    pair.disk.sync_write(ino, seq).unwrap();
    let [(_, image), ..] = &pair.cut(&top.path().join("cut"), &[Policy::None], 1)[..] else { panic!() };
    let contents = &image[&(false, "a")];
    assert_eq!((contents.len(), &contents[10..20], &contents[100..110]), (40960, &[2; 10][..], &[3; 10][..]));
    assert!(contents[20000..20100].iter().all(|byte| *byte == 0));
    assert_eq!(pair.disk.pending().operations, 1);
}

#[test]
fn oldest_operations_become_durable_at_the_limit_and_by_age() {
    let top = tempfile::tempdir().unwrap();
    let limited = Settings { pending: prony_model::units::Bytes::from_kib(64), ..Settings::default() };
    let aged = Settings { writeback: Some(prony_model::units::Nanos::from_nanos(1)), ..Settings::default() };
    for (settings, left) in [(limited, 8..16), (aged, 0..1)] {
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
    let error = pair.disk.cut(&settings).unwrap_err();
    assert!(error.to_string().contains("could not be written: No space left"), "{error}");
    drop(pair);
    std::process::Command::new("umount").arg("-l").arg(top.path()).status().unwrap();
}
