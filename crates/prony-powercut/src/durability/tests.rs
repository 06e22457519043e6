//! Random operations and cuts, checked against a specification that shares no code and no idea with the disk: a list of
//! what happened, from which it enumerates what a file and a directory may look like after a cut.

mod flushes;
mod moves;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::ops::Range;
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

/// The paths that operations use: a directory (the root or `d`) and a name.
const PATHS: [(bool, &str); 5] = [(false, "a"), (false, "b"), (false, "c"), (true, "a"), (true, "b")];

type Names = BTreeMap<(bool, &'static str), usize>;
type Contents = BTreeMap<(bool, &'static str), Vec<u8>>;

/// The contents of a file after an operation on them.
#[derive(Clone, Debug, Default)]
struct State {
    contents: Vec<u8>,
    /// How many changes of metadata there had been, with this one.
    changes: usize,
    /// It is a truncation or an extension, which may be lost.
    is_resize: bool,
    /// Pages that it wrote.
    pages: Range<usize>,
}

/// All states of a file since it was last synced; the first one is durable.
#[derive(Clone, Debug, Default)]
struct File {
    states: Vec<State>,
    /// Pages that are durable in a later state than the first: the page, and the number of the state.
    floors: BTreeMap<usize, usize>,
    /// A size that must survive, where no truncation does.
    least_size: usize,
    /// If so many changes of metadata survive, these states and later ones do.
    flushes: Vec<(usize, usize)>,
    /// States that a flush may have made durable with a sync of another file: it commits more where a page of that file had no
    /// place, which is not always known here.
    sent: Vec<usize>,
    /// How many changes of metadata there had been when it was touched last, by `fsync` and by `fdatasync`.
    touched: usize,
    data_touched: usize,
    /// It was truncated to nothing and not closed since.
    is_cleared: bool,
}

fn write(contents: &mut Vec<u8>, offset: u64, data: &[u8]) {
    let end = offset as usize + data.len();
    contents.resize(contents.len().max(end), 0);
    contents[offset as usize..end].copy_from_slice(data);
}

impl File {
    fn current(&self) -> &State {
        self.states.last().unwrap()
    }

    /// Adds a state; its number.
    fn push(&mut self, contents: Vec<u8>, changes: usize, is_resize: bool) -> usize {
        self.states.push(State { contents, changes, is_resize, pages: 0..0 });
        self.states.len() - 1
    }

    /// What all pages are like by state number `at`, where `changes` changes of metadata survive: truncated by those that
    /// came later and survive.
    fn after(&self, at: usize, changes: usize) -> Vec<u8> {
        let mut contents = self.states[at].contents.clone();
        let later = self.states[at + 1..].iter().filter(|state| state.is_resize && state.changes <= changes);
        later.for_each(|state| contents.resize(state.contents.len(), 0));
        contents
    }

    /// Whether the file may look like this. `is_ordered`: a page that is new does not survive without earlier metadata.
    fn may_be(&self, found: &[u8], changes: usize, is_ordered: bool) -> bool {
        let flushed = self.flushes.iter().filter(|(at, _)| *at <= changes).map(|(_, state)| *state).max().unwrap_or(0);
        let all: Vec<Vec<u8>> = (0..self.states.len()).map(|at| self.after(at, changes)).collect();
        let page = |contents: &[u8], at: usize| {
            let mut page = contents.get(at * 4096..contents.len().min((at + 1) * 4096)).unwrap_or_default().to_vec();
            page.resize(4096.min(found.len() - at * 4096), 0);
            page
        };
        let may_be = |at: usize| {
            let floor = self.floors.get(&at).copied().unwrap_or(0).max(flushed);
            let allowed = |state: &usize| {
                *state == 0 || !is_ordered || !self.is_new(at) || self.states[*state].changes <= changes
            };
            (floor..all.len()).filter(allowed).any(|state| page(&all[state], at) == page(found, at))
        };
        let resized = self.states.iter().skip(1).filter(|state| state.is_resize && state.changes <= changes);
        let least = resized.map(|state| state.contents.len()).min().unwrap_or(usize::MAX).min(self.least_size);
        let most = all.iter().map(Vec::len).max().unwrap_or_default();
        (least..=most).contains(&found.len()) && (0..found.len().div_ceil(4096)).all(may_be)
    }

    /// Whether a page certainly has no place in the durable contents.
    fn is_new(&self, page: usize) -> bool {
        let mut durable = self.sent.iter().chain([&0]);
        !durable.any(|at| page * 4096 < self.states[*at].contents.len()) && !self.floors.contains_key(&page)
    }

    /// How many changes of metadata there had been when one of these pages was written last that certainly had no place then,
    /// and that no truncation removed since: once it has its place, they are durable.
    fn delayed(&self, pages: Range<usize>) -> Option<usize> {
        let ends_before = |state: &State, page: usize| state.contents.len() <= page * 4096;
        let is_delayed = |at: usize, page: usize| {
            let is_freed = self.states[1..at].iter().any(|state| state.is_resize && ends_before(state, page));
            (self.is_new(page) || is_freed) && !self.states[at..].iter().any(|state| ends_before(state, page))
        };
        let any =
            |at: &usize| self.states[*at].pages.clone().any(|page| pages.contains(&page) && is_delayed(*at, page));
        (1..self.states.len()).filter(any).map(|at| self.states[at].changes).max()
    }

    /// For messages.
    fn summary(&self) -> String {
        let states: Vec<_> =
            self.states.iter().map(|state| (state.contents.len(), state.changes, state.is_resize)).collect();
        format!("states {states:?}, floors {:?}, least {}, flushes {:?}", self.floors, self.least_size, self.flushes)
    }

    /// Truncations among the first `changes` changes of metadata are durable, and the data of flushes.
    fn settle(&mut self, changes: usize) {
        for at in 1..self.states.len() {
            if self.states[at].is_resize && self.states[at].changes <= changes {
                let size = self.states[at].contents.len();
                self.states[..at].iter_mut().for_each(|state| state.contents.resize(size, 0));
                self.states[at].is_resize = false;
                self.floors.retain(|page, state| page * 4096 < size || *state > at);
                self.least_size = self.least_size.min(size);
            }
        }
        let flushed = self.flushes.iter().filter(|(at, _)| *at <= changes).map(|(_, state)| *state).max();
        let Some(flushed) = flushed else { return };
        for page in 0..self.states[flushed].contents.len().div_ceil(4096) {
            let floor = self.floors.entry(page).or_default();
            *floor = flushed.max(*floor);
        }
    }
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
        let committed = self.committed(file, 0..usize::MAX, data_only);
        let file = &mut self.files[file];
        let contents = file.current().contents.clone();
        (file.states, file.floors, file.flushes, file.sent) = (vec![], BTreeMap::new(), vec![], vec![]);
        file.least_size = contents.len();
        file.push(contents, 0, false);
        self.must_survive(committed);
    }

    /// A synchronous write is state number `state` of its file.
    fn sync_range(&mut self, file: usize, end: u64, state: usize, data_only: bool) {
        let pages = self.files[file].states[state].pages.clone();
        let committed = self.committed(file, pages.clone(), data_only);
        let file = &mut self.files[file];
        file.least_size = file.least_size.max(end as usize);
        file.floors.extend(pages.map(|page| (page, state)));
        self.must_survive(committed);
    }

    /// How many changes of metadata are durable after a sync of these pages of a file, at least.
    fn committed(&self, file: usize, pages: Range<usize>, data_only: bool) -> usize {
        let file = &self.files[file];
        let touched = if data_only { file.data_touched } else { file.touched.max(file.data_touched) };
        touched.max(file.delayed(pages).unwrap_or_default())
    }

    fn must_survive(&mut self, changes: usize) {
        if self.order != MetadataOrder::Posix {
            self.least = self.least.max(changes);
            let least = self.least;
            self.files.iter_mut().for_each(|file| file.settle(least));
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
            (Some(file), Some(found)) => self.files[file].may_be(found, changes, self.order != MetadataOrder::Posix),
            (None, None) => true,
            _ => false,
        };
        let all = 0..self.history.len();
        match self.order {
            MetadataOrder::Ext4 | MetadataOrder::Ext4NoAutoDaAlloc => (self.least..self.history.len()).any(|changes| {
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
