//! Files that output must not overwrite: the results, and the files that a command or its programs read.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use prony_model::http::BodySpec;
use prony_model::program::{Change, CopyOf, ProgramSpec};
use prony_model::spec::{Action, CollectionSpec, TrialSpec};
use prony_results::is_file_of;

use crate::startable::find;

/// What to do where a file must not be written.
pub const NAME_ANOTHER: &str = "name another file; this one was not changed";

/// As many links the kernel follows.
const MOST_LINKS: usize = 40;

/// The files of a command that it must not write, and the directories that are copied for its programs.
#[derive(Clone, Debug, Default)]
pub struct Protected {
    database: Option<PathBuf>,
    /// Where each lies, and why nothing is written to it.
    known: Vec<(PathBuf, &'static str)>,
    /// Directories that are copied for trials: later copies would include files written there.
    copied: Vec<PathBuf>,
}

impl Protected {
    /// Of a command that uses this database and reads these files.
    pub fn of<'p>(database: Option<&Path>, read: impl IntoIterator<Item = &'p PathBuf>) -> Self {
        let mut all = Self { database: database.map(place), ..Self::default() };
        read.into_iter().for_each(|path| all.add(path, "this command reads that file"));
        all
    }

    /// One more, and why nothing is written to it.
    fn add(&mut self, path: &Path, why: &'static str) {
        // Devices and pipes have no content that could be lost.
        if fs::metadata(path).is_ok_and(|about| !about.is_file()) {
            return;
        }
        let added = (place(path), why);
        if !self.known.contains(&added) {
            self.known.push(added);
        }
    }

    /// What a variant reads: files of documents and of bodies, and what its programs and phases read.
    pub fn add_read_by(&mut self, spec: &TrialSpec) {
        let documents =
            spec.data.iter().filter_map(CollectionSpec::document).filter_map(|document| document.file.as_ref());
        documents.for_each(|file| self.add(Path::new(&file.path), "`[data]` reads that file"));
        for phase in &spec.phases {
            if let Action::Run(run) = &phase.action {
                self.add_named(&run.command.words(), Path::new(&run.directory));
            }
            for kind in phase.action.http().iter().flat_map(|http| &http.kinds) {
                if let Some(BodySpec::File { path, .. }) = &kind.body {
                    self.add(Path::new(path), "requests have that file as their `body`");
                }
            }
        }
        spec.programs().for_each(|program| self.add_read_by_program(program));
        let data = spec.services.iter().filter_map(|service| service.data.as_ref());
        data.for_each(|data| self.add_copied(Path::new(&data.from)));
    }

    /// Files that a command names, from a directory.
    fn add_named(&mut self, words: &[String], directory: &Path) {
        let named = words.iter().map(|word| directory.join(word)).filter(|path| path.is_file());
        named.for_each(|path| self.add(&path, "a program's `command` names that file"));
    }

    fn add_copied(&mut self, directory: &Path) {
        let directory = place(directory);
        if !self.copied.contains(&directory) {
            self.copied.push(directory);
        }
    }

    /// What a program reads: its input, patches, the file that it executes, and files that its command names.
    fn add_read_by_program(&mut self, program: &ProgramSpec) {
        let directory = program.directory.as_deref().map(Path::new);
        for path in program.changes.iter().filter_map(patch).chain(program.input.file()) {
            self.add(path, "a program's `input` or `change` reads that file");
        }
        let replicas = program.replicas.as_ref().and_then(|replicas| replicas.command.as_ref());
        for words in [Some(&program.command), replicas].into_iter().flatten().map(|command| command.words()) {
            let executable = words.first().and_then(|word| find(program, directory, word.as_ref()));
            executable.iter().for_each(|path| self.add(path, "a program's `command` names that file"));
            self.add_named(&words, directory.unwrap_or(Path::new("/nowhere")));
        }
        directory.filter(|_| program.copy != CopyOf::None).into_iter().for_each(|directory| self.add_copied(directory));
    }

    /// Why nothing may be written to a file; `None` where it may.
    pub fn refusal(&self, path: &Path) -> Option<&'static str> {
        if fs::metadata(path).is_ok_and(|about| !about.is_file()) {
            return None;
        }
        let place = place(path);
        if self.is_of_database(&place) {
            return Some("that file belongs to the results database");
        }
        let known = self.known.iter().find(|(known, _)| is_same(known, &place)).map(|(_, why)| *why);
        // Looked into last: to close a file takes away the locks that SQLite of this process has on it.
        known.or_else(|| is_sqlite(&place).then_some("that file is an SQLite database"))
    }

    /// The same of the output of a program.
    pub fn refusal_of_program(&self, path: &Path) -> Option<&'static str> {
        let is_copied = || self.copied.iter().any(|directory| place(path).starts_with(directory));
        self.refusal(path)
            .or_else(|| is_copied().then_some("that file lies in a `directory` that is copied for trials"))
    }

    /// By its path, or by another name of the same file.
    fn is_of_database(&self, place: &Path) -> bool {
        let Some(database) = &self.database else { return false };
        let beside = database.parent().and_then(|folder| fs::read_dir(folder).ok()).into_iter().flatten().flatten();
        let mut files = beside.map(|entry| entry.path()).filter(|path| is_file_of(database, path));
        is_file_of(database, place) || files.any(|file| is_same(&file, place))
    }
}

/// Whether two paths lead to one file, which need not exist.
pub fn is_same_file(one: &Path, other: &Path) -> bool {
    is_same(&place(one), &place(other))
}

fn patch(change: &Change) -> Option<&Path> {
    if let Change::Patch { file } = change { Some(Path::new(file)) } else { None }
}

/// Whatever database a command uses, others have results too.
fn is_sqlite(path: &Path) -> bool {
    let mut begin = [0; 16];
    File::open(path).and_then(|mut file| file.read_exact(&mut begin)).is_ok() && begin == *b"SQLite format 3\0"
}

/// Where a path leads, whether anything is there or not: no two places are the same, but for hard links.
pub(crate) fn place(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        // A link to nothing: what is written makes what it leads to.
        match (fs::canonicalize(&path), fs::read_link(&path)) {
            (Ok(found), _) => return found,
            (_, Ok(target)) => path = path.parent().map_or(target.clone(), |folder| folder.join(&target)),
            _ => break,
        }
    }
    let folder = path.parent().map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder });
    let folder = folder.and_then(|folder| fs::canonicalize(folder).ok());
    folder.zip(path.file_name()).map(|(folder, name)| folder.join(name)).unwrap_or(path)
}

fn is_same(one: &Path, other: &Path) -> bool {
    let file = |path: &Path| fs::metadata(path).ok().map(|about| (about.dev(), about.ino()));
    one == other || file(one).is_some_and(|one| file(other) == Some(one))
}
