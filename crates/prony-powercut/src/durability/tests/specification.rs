//! What a file and a directory may look like after a cut, enumerated from a list of what happened.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::settings::MetadataOrder;

/// The paths that operations use: a directory (the root or `d`) and a name.
pub(super) const PATHS: [(bool, &str); 5] = [(false, "a"), (false, "b"), (false, "c"), (true, "a"), (true, "b")];

type Names = BTreeMap<(bool, &'static str), usize>;
pub(super) type Contents = BTreeMap<(bool, &'static str), Vec<u8>>;

/// The contents of a file after an operation on them.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) contents: Vec<u8>,
    /// How many changes of metadata there had been, with this one.
    changes: usize,
    /// It is a truncation or an extension, which may be lost.
    is_resize: bool,
    /// Pages that it wrote.
    pub(super) pages: Range<usize>,
}

/// All states of a file since it was last synced; the first one is durable.
#[derive(Clone, Debug, Default)]
pub(super) struct File {
    pub(super) states: Vec<State>,
    /// Pages that are durable in a later state than the first: the page, and the number of the state.
    floors: BTreeMap<usize, usize>,
    /// A size that must survive, where no truncation does.
    least_size: usize,
    /// If so many changes of metadata survive, these states and later ones do.
    pub(super) flushes: Vec<(usize, usize)>,
    /// States that a flush may have made durable with a sync of another file: it commits more where a page of that file had no
    /// place, which is not always known here.
    pub(super) sent: Vec<usize>,
    /// How many changes of metadata there had been when it was touched last, by `fsync` and by `fdatasync`.
    touched: usize,
    pub(super) data_touched: usize,
    /// It was truncated to nothing and not closed since.
    pub(super) is_cleared: bool,
}

pub(super) fn write(contents: &mut Vec<u8>, offset: u64, data: &[u8]) {
    let end = offset as usize + data.len();
    contents.resize(contents.len().max(end), 0);
    contents[offset as usize..end].copy_from_slice(data);
}

impl File {
    pub(super) fn current(&self) -> &State {
        self.states.last().unwrap()
    }

    /// Adds a state; its number.
    pub(super) fn push(&mut self, contents: Vec<u8>, changes: usize, is_resize: bool) -> usize {
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
    pub(super) fn delayed(&self, pages: Range<usize>) -> Option<usize> {
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
    pub(super) fn summary(&self) -> String {
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
pub(super) struct Specification {
    pub(super) order: MetadataOrder,
    pub(super) files: Vec<File>,
    pub(super) history: Vec<Names>,
    least: usize,
    /// How many changes of metadata there had been when a directory was changed last.
    directories: [usize; 2],
    /// By POSIX: what each name may be, from what `fsync` of its directory saw last.
    values: BTreeMap<(bool, &'static str), Vec<Option<usize>>>,
}

impl Specification {
    pub(super) fn new(order: MetadataOrder) -> Self {
        let values = PATHS.iter().map(|path| (*path, vec![None])).collect();
        Self { order, files: vec![], history: vec![Names::new()], least: 0, directories: [0; 2], values }
    }

    pub(super) fn names(&self) -> &Names {
        self.history.last().unwrap()
    }

    pub(super) fn change(&mut self, names: Names, directories: &[bool], files: &[usize]) {
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

    pub(super) fn sync(&mut self, file: usize, data_only: bool) {
        let committed = self.committed(file, 0..usize::MAX, data_only);
        let file = &mut self.files[file];
        let contents = file.current().contents.clone();
        (file.states, file.floors, file.flushes, file.sent) = (vec![], BTreeMap::new(), vec![], vec![]);
        file.least_size = contents.len();
        file.push(contents, 0, false);
        self.must_survive(committed);
    }

    /// A synchronous write is state number `state` of its file.
    pub(super) fn sync_range(&mut self, file: usize, end: u64, state: usize, data_only: bool) {
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

    pub(super) fn sync_directory(&mut self, directory: bool) {
        self.must_survive(self.directories[usize::from(directory)]);
        if self.order == MetadataOrder::Posix {
            let names = self.names().clone();
            let of = self.values.iter_mut().filter(|((of, _), _)| *of == directory);
            of.for_each(|(path, values)| *values = vec![names.get(path).copied()]);
        }
    }

    /// Whether an image is allowed.
    pub(super) fn allows(&self, image: &Contents) -> bool {
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
