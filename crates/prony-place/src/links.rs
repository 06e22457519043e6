//! Lists what a copy of a directory tree contains, and decides how its symbolic links are handled.
//!
//! A write through a link that leads out of the copy would change the user's own files. So a copy contains no such
//! link. Links that stay in the tree are kept as they are; those that leave it on their way and come back (absolute
//! ones, `../site/x`) are rewritten. For links that lead out the file says whether they refuse the copy, are replaced
//! by a copy of their target, or, where no such step is, are kept. Everything is decided before anything is written.
//! Parents of copied files are directories and no links, so that `..` in a rewritten link means what it says.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, DirEntry, FileType, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use prony_model::program::OutwardLinks;
use prony_os::launch::Scratch;
use prony_os::own_files::OwnFiles;

use crate::error::Error;
use prony_results::{is_file_of, is_results};

/// The kernel's limit on links in a path.
const MOST_LINKS: usize = 40;

/// What is copied, and how symbolic links are handled.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules {
    /// Links that lead out.
    pub(crate) outward: OutwardLinks,
    /// Files of prony's own: the database, a journal. Neither they nor what SQLite keeps beside them are copied.
    pub(crate) own: Vec<PathBuf>,
    /// Another place of the same tree, into which its absolute links may lead.
    pub(crate) alias: Option<PathBuf>,
    /// Files are left out, and not opened, which would bring them into the page cache; those that links lead to are looked at.
    pub(crate) without_files: bool,
}

/// Something to be copied.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Where it is.
    pub(crate) from: PathBuf,
    /// Its path in the copy.
    pub(crate) to: PathBuf,
    /// Its kind and mode, as listed.
    pub(crate) about: Metadata,
    /// The target that is written into the link.
    pub(crate) target: Option<PathBuf>,
}

/// Everything below a directory, parents first.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// In the order of their paths.
    pub(crate) entries: Vec<Entry>,
    /// Links that lead out and could not be copied as links: where the link is, and what it leads to.
    pub(crate) outward: Vec<(PathBuf, PathBuf)>,
    /// Sockets, FIFOs and devices, which are not copied.
    pub(crate) special: Vec<PathBuf>,
}

impl Plan {
    /// Of a directory, whose path must be canonical.
    ///
    /// # Errors
    /// [`Error::Copy`] with the path at fault.
    pub(crate) fn of(top: &Path, rules: &Rules) -> Result<Self, Error> {
        let tops = [top].into_iter().chain(rules.alias.as_deref());
        let mut lister = Lister {
            rules,
            written: OwnFiles::now(),
            roots: tops.map(|top| (top.to_owned(), PathBuf::new())).collect(),
            open: VecDeque::from([(top.to_path_buf(), PathBuf::new(), 0)]),
            links: VecDeque::new(),
            plan: Self::default(),
        };
        loop {
            if let Some((directory, to, root)) = lister.open.pop_front() {
                lister.list(&directory, &to, root)?;
            } else if let Some((from, to, root, about)) = lister.links.pop_front() {
                lister.link(&from, &to, root, about).map_err(Error::copying(&from))?;
            } else {
                break;
            }
        }
        let mut plan = lister.plan;
        plan.entries.sort_by(|a, b| a.to.cmp(&b.to));
        plan.outward.sort();
        Ok(plan)
    }

    /// Bytes of the files.
    pub(crate) fn bytes(&self) -> u64 {
        self.entries.iter().filter(|entry| entry.about.is_file()).map(|entry| entry.about.len()).sum()
    }

    /// The plan itself, unless a link forbids it. `of` says what the directory is, where it is not the program's.
    ///
    /// # Errors
    /// [`Error::LinkOut`] with the first that leads out.
    pub(crate) fn allowed(self, directory: &Path, of: Option<String>) -> Result<Self, Error> {
        let Some((link, to)) = self.outward.first() else { return Ok(self) };
        Err(Error::LinkOut {
            link: link.clone(),
            directory: directory.to_path_buf(),
            of,
            to: to.clone(),
            more: self.outward.len() - 1,
        })
    }
}

struct Lister<'a> {
    rules: &'a Rules,
    /// What this process writes, which is not copied by any name: to read it would remove the locks of SQLite on it.
    written: OwnFiles,
    /// Trees that are copied, and their paths in the copy.
    roots: Vec<(PathBuf, PathBuf)>,
    /// Directories to be listed: the path of each, its path in the copy, and the number of its root.
    open: VecDeque<(PathBuf, PathBuf, usize)>,
    /// Links to be followed when all directories are listed: the same of each, and its kind.
    links: VecDeque<(PathBuf, PathBuf, usize, Metadata)>,
    plan: Plan,
}

impl Lister<'_> {
    fn list(&mut self, directory: &Path, to: &Path, root: usize) -> Result<(), Error> {
        let entries = fs::read_dir(directory).map_err(Error::copying(directory))?;
        // The kernel lists the kinds with the names, on most file systems.
        let left_out =
            |entry: &DirEntry| self.rules.without_files && entry.file_type().is_ok_and(|kind| kind.is_file());
        let names = entries.filter(|entry| !entry.as_ref().is_ok_and(left_out)).map(|entry| Ok(entry?.file_name()));
        let mut names = names.collect::<io::Result<Vec<OsString>>>();
        names.iter_mut().for_each(|names| names.sort());
        // Results databases of other runs. What lies beside one comes after it.
        let mut databases = Vec::new();
        for name in names.map_err(Error::copying(directory))? {
            let (from, to) = (directory.join(&name), to.join(&name));
            if Scratch::is_name(&name) || self.rules.own.iter().chain(&databases).any(|own| is_file_of(own, &from)) {
                continue;
            }
            let about = match fs::symlink_metadata(&from) {
                // It was removed since the directory was read.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                about => about.map_err(Error::copying(&from))?,
            };
            if self.written.contains(&about) || is_results(&from, &self.written) {
                databases.push(from);
                continue;
            }
            if about.is_symlink() {
                self.links.push_back((from, to, root, about));
                continue;
            }
            if about.is_dir() {
                self.open.push_back((from.clone(), to.clone(), root));
            }
            if is_copied(about.file_type()) {
                self.plan.entries.push(Entry { from, to, about, target: None });
            } else {
                self.plan.special.push(from);
            }
        }
        Ok(())
    }

    /// The path in the copy of something that is copied.
    fn place_of(&self, path: &Path) -> Option<PathBuf> {
        let inside = self.roots.iter().filter_map(|(root, to)| Some((root, to, path.strip_prefix(root).ok()?)));
        inside.max_by_key(|(root, ..)| root.as_os_str().len()).map(|(_, to, rest)| to.join(rest))
    }

    fn link(&mut self, from: &Path, to: &Path, root: usize, about: Metadata) -> io::Result<()> {
        let way = follow(from, &self.roots[root].0)?;
        let inside = self.place_of(&way.end).filter(|_| !way.endless);
        let target = match (inside, self.rules.outward) {
            _ if !way.leaves => fs::read_link(from)?,
            (Some(place), _) => relative(to.parent().unwrap_or(Path::new("")), &place),
            (None, OutwardLinks::Keep) if way.endless => fs::read_link(from)?,
            (None, OutwardLinks::Keep) => way.end,
            (None, OutwardLinks::Copy) if !self.contains_the_tree(&way.end) => return self.instead(way, to),
            (None, OutwardLinks::Copy | OutwardLinks::Refuse) => {
                self.plan.outward.push((from.to_path_buf(), way.end));
                return Ok(());
            }
        };
        let (from, to) = (from.to_path_buf(), to.to_path_buf());
        self.plan.entries.push(Entry { from, to, about, target: Some(target) });
        Ok(())
    }

    fn contains_the_tree(&self, path: &Path) -> bool {
        self.roots[..1].iter().map(|(top, _)| top).chain(&self.rules.alias).any(|top| top.starts_with(path))
    }

    /// Copies what a link leads to in its place. What is not there, or is no file and no directory, is left out, and so is a
    /// link that leads in a circle, of which `way.end` is wherever it was given up: to follow it from there never ends.
    fn instead(&mut self, way: Way, to: &Path) -> io::Result<()> {
        if way.missing || way.endless {
            return Ok(());
        }
        let about = match fs::metadata(&way.end) {
            Ok(about) if is_copied(about.file_type()) && !self.written.contains(&about) => about,
            Err(error) if error.kind() == ErrorKind::PermissionDenied => return Err(error),
            _ => return Ok(()),
        };
        let to = to.to_path_buf();
        if about.is_dir() {
            self.open.push_back((way.end.clone(), to.clone(), self.roots.len()));
        }
        self.roots.push((way.end.clone(), to.clone()));
        self.plan.entries.push(Entry { from: way.end, to, about, target: None });
        Ok(())
    }
}

/// Sockets, FIFOs and devices are not.
fn is_copied(kind: FileType) -> bool {
    kind.is_dir() || kind.is_file()
}

/// What a link leads to.
#[derive(Debug, PartialEq, Eq)]
struct Way {
    /// The target, as far as it exists without links; what follows after a missing part is taken literally.
    end: PathBuf,
    /// The path leaves the tree, or begins at `/`.
    leaves: bool,
    /// The links lead in a circle.
    endless: bool,
    /// Something on the path does not exist.
    missing: bool,
}

/// Follows a link in a tree as the kernel does.
fn follow(link: &Path, root: &Path) -> io::Result<Way> {
    let end = link.parent().unwrap_or(Path::new("/")).to_path_buf();
    let mut way = Way { end, leaves: false, endless: false, missing: false };
    let (mut rest, mut links) = (backwards(&fs::read_link(link)?), 1);
    while let Some(part) = rest.pop() {
        if part == ".." {
            way.end.pop();
        } else {
            // An absolute one replaces the whole path.
            way.end.push(&part);
            let about = if way.missing { None } else { fs::symlink_metadata(&way.end).ok() };
            way.missing = about.is_none();
            if about.is_some_and(|about| about.is_symlink()) {
                links += 1;
                if links > MOST_LINKS {
                    way.endless = true;
                    break;
                }
                let next = backwards(&fs::read_link(&way.end)?);
                way.end.pop();
                rest.extend(next);
            }
        }
        way.leaves |= !way.end.starts_with(root);
    }
    Ok(way)
}

/// A path's parts, the last first; `/` is one.
fn backwards(path: &Path) -> Vec<OsString> {
    let parts = path.components().rev().filter(|part| *part != Component::CurDir);
    parts.map(|part| part.as_os_str().to_owned()).collect()
}

/// How a link in `from` is written that leads to `to`, both from the top of one tree without links.
fn relative(from: &Path, to: &Path) -> PathBuf {
    let common = from.components().zip(to.components()).take_while(|(a, b)| a == b).count();
    let up = from.components().skip(common).map(|_| Component::ParentDir);
    let path: PathBuf = up.chain(to.components().skip(common)).collect();
    if path.as_os_str().is_empty() { PathBuf::from(".") } else { path }
}

/// The state of the original of a copy: whether a file was changed, added, removed or replaced since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest(Vec<(PathBuf, u64)>);

impl Manifest {
    /// Of everything that is planned but what git keeps for itself, which reading a repository changes. Of directories, only
    /// that they are there: scratch may be put into them.
    pub(crate) fn of(plan: &Plan) -> Self {
        let counted = |entry: &&Entry| !entry.to.components().any(|part| part.as_os_str() == ".git");
        let entries = plan.entries.iter().filter(counted);
        Self(entries.map(|entry| (entry.to.clone(), state(entry))).collect())
    }

    /// A digest of it, for the record.
    pub(crate) fn digest(&self) -> String {
        format!("{:016x}", xxhash_rust::xxh3::xxh3_64(format!("{:?}", self.0).as_bytes()))
    }

    /// Paths that are not as in the other, in order.
    pub(crate) fn differences<'a>(&'a self, other: &'a Self) -> Vec<&'a Path> {
        let only = |a: &'a Self, b: &'a Self| a.0.iter().filter(|entry| b.0.binary_search(entry).is_err());
        let mut paths: Vec<&Path> =
            only(self, other).chain(only(other, self)).map(|(path, _)| path.as_path()).collect();
        paths.sort();
        paths.dedup();
        paths
    }
}

fn state(entry: &Entry) -> u64 {
    let about = &entry.about;
    let text = if about.is_dir() {
        format!("{:o}", about.mode())
    } else {
        // A program can set the time of modification, as `cp -p` does, but not that of change; this is also that of each further
        // link to the file, so that it says nothing of a file with several names.
        let changed = if about.nlink() == 1 { [about.ctime(), about.ctime_nsec()] } else { [0; 2] };
        let times = [[about.mtime(), about.mtime_nsec()], changed];
        format!("{:o} {} {times:?} {} {:?}", about.mode(), about.len(), about.ino(), entry.target)
    };
    xxhash_rust::xxh3::xxh3_64(text.as_bytes())
}
