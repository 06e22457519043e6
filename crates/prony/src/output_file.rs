//! Files that a command writes for its user.
//!
//! Each file is opened before anything runs, so that one that cannot be written is reported at once. A file is refused
//! if it is the results database (by whatever path), a file that the command reads, or another file that it writes. The
//! old content of a file stays until new content is ready.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use prony_experiment::design::Variant;
use prony_model::program::OutputTo;
use prony_model::spec::TrialSpec;
use prony_place::output_targets::{NAME_ANOTHER, Protected, is_same_file};

use crate::error::Error;

/// How an existing file with content is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Present {
    /// It is overwritten.
    Replaced,
    /// New content is appended.
    Continued,
    /// It is an error, with this hint.
    Refused(&'static str),
}

/// The files that a command writes, and those that it must not.
#[derive(Debug, Default)]
pub struct OutputFiles {
    protected: Protected,
    /// What it writes.
    written: Vec<PathBuf>,
    /// Those of programs that are known already: several variants write the same.
    of_programs: BTreeSet<PathBuf>,
}

impl OutputFiles {
    /// Of a command that uses this database and reads these files.
    pub(crate) fn of<'p>(database: Option<&Path>, read: impl IntoIterator<Item = &'p PathBuf>) -> Self {
        Self { protected: Protected::of(database, read), ..Self::default() }
    }

    /// Opens a file for writing; nothing in it is changed yet. Devices and pipes have no content that could be lost.
    ///
    /// # Errors
    /// [`Error::Arguments`] where the command must not write it, [`Error::Write`] where it cannot.
    pub(crate) fn open(&mut self, path: &Path, present: Present) -> Result<OutputFile, Error> {
        self.claim(path)?;
        let there = fs::metadata(path).ok();
        if let (Present::Refused(hint), Some(about)) = (present, there)
            && about.is_file()
            && about.len() > 0
        {
            return Err(Error::arguments(format!("`{}` exists already", path.display()), hint));
        }
        let mut options = OpenOptions::new();
        options.create(true).truncate(false);
        let continued = present == Present::Continued;
        let file = if continued { options.append(true) } else { options.write(true) }.open(path);
        let file = file.map_err(|source| match missing_folder(path) {
            Some(folder) if source.kind() == io::ErrorKind::NotFound => {
                let folder = folder.display().to_string();
                let message = format!("cannot write `{}`: there is no folder `{folder}`", path.display());
                Error::arguments(message, format!("make it: `mkdir -p {}`", shell_words::quote(&folder)))
            }
            _ => Error::write_file(path)(source),
        })?;
        Ok(OutputFile { path: path.to_owned(), file, continued })
    }

    /// Takes the files that programs and services of these variants write their output to: from now on they are no other output
    /// either, nor what any of these variants reads.
    ///
    /// # Errors
    /// [`Error::Arguments`] where one must not be written.
    pub(crate) fn claim_of_programs(&mut self, variants: &[Variant]) -> Result<(), Error> {
        variants.iter().for_each(|variant| self.protected.add_read_by(&variant.spec));
        self.written.iter().try_for_each(|path| allowed(path, self.protected.refusal(path)))?;
        for variant in variants {
            let outputs = outputs(&variant.spec);
            for (nth, path) in outputs.iter().copied().enumerate() {
                if self.of_programs.insert(path.to_owned()) {
                    allowed(path, self.protected.refusal_of_program(path))?;
                    self.claim(path)?;
                }
                if outputs[..nth].iter().any(|other| is_same_file(other, path)) && !is_device(path) {
                    return Err(Error::arguments(
                        format!("`output` of several services or instances is the same file: `{}`", path.display()),
                        "give each service a different file; for a service with `count` above 1, remove `output`",
                    ));
                }
            }
        }
        Ok(())
    }

    fn claim(&mut self, path: &Path) -> Result<(), Error> {
        allowed(path, self.protected.refusal(path))?;
        let mut same = self.written.iter().filter(|other| is_same_file(other, path));
        allowed(path, same.next().map(|_| "this command writes another output to the same file"))?;
        if !is_device(path) {
            self.written.push(path.to_owned());
        }
        Ok(())
    }
}

/// The files to which processes of a trial write, each as often as processes do.
fn outputs(spec: &TrialSpec) -> Vec<&Path> {
    let mut all = Vec::new();
    let services = spec.services.iter().map(|service| (&service.program, service.count));
    for (program, count) in spec.subject.program().map(|program| (program, 1)).into_iter().chain(services) {
        match &program.output {
            OutputTo::File(path) => all.extend(std::iter::repeat_n(Path::new(path), count as usize)),
            OutputTo::Capture | OutputTo::Null | OutputTo::Inherit => {}
        }
    }
    all
}

/// Devices and pipes have no content that could be lost.
fn is_device(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|about| !about.is_file())
}

/// The folder of a file, if it does not exist.
fn missing_folder(path: &Path) -> Option<&Path> {
    path.parent().filter(|folder| !folder.as_os_str().is_empty() && folder.symlink_metadata().is_err())
}

fn allowed(path: &Path, refusal: Option<&str>) -> Result<(), Error> {
    let refused = |why| Error::arguments(format!("cannot write `{}`: {why}", path.display()), NAME_ANOTHER);
    refusal.map_or(Ok(()), |why| Err(refused(why)))
}

/// A file that is open for writing.
#[derive(Debug)]
pub struct OutputFile {
    path: PathBuf,
    file: File,
    continued: bool,
}

impl OutputFile {
    /// Its path, as it was given.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Empties the file, unless it is continued. Devices and pipes have no content.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub(crate) fn begin(&self) -> Result<(), Error> {
        self.empty().map_err(Error::write_file(&self.path))
    }

    fn empty(&self) -> io::Result<()> {
        let is_file = self.file.metadata().is_ok_and(|about| about.is_file());
        if self.continued || !is_file { Ok(()) } else { self.file.set_len(0) }
    }

    /// Replaces the content of the file; if `content` ends with an error before its first byte, the old content stays.
    ///
    /// # Errors
    /// [`Error::Write`], and those of `content`.
    pub(crate) fn write(&self, content: impl FnOnce(&mut dyn Write) -> Result<(), Error>) -> Result<(), Error> {
        let mut out = BufWriter::new(Replacing { file: self, begun: false });
        content(&mut out)?;
        let written = out.into_inner().map_err(|stopped| Error::write_file(&self.path)(stopped.into_error()))?;
        if written.begun { Ok(()) } else { self.begin() }
    }

    /// As [`Self::write`], with content that is in memory.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub(crate) fn write_bytes(&self, bytes: &[u8]) -> Result<(), Error> {
        self.begin()?;
        self.append(bytes)
    }

    /// Appends to the file.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub(crate) fn append(&self, bytes: &[u8]) -> Result<(), Error> {
        (&self.file).write_all(bytes).map_err(Error::write_file(&self.path))
    }
}

/// Empties a file when the first byte of its new content comes.
struct Replacing<'f> {
    file: &'f OutputFile,
    begun: bool,
}

impl Write for Replacing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.begun {
            self.file.empty()?;
            self.begun = true;
        }
        (&self.file.file).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What opening each of these says, one after another.
    fn said(files: &mut OutputFiles, path: &Path, present: Present) -> String {
        files.open(path, present).map_or_else(|error| error.to_string(), |_| "opened".to_owned())
    }

    #[test]
    fn the_database_and_what_lies_beside_it_are_found_under_each_of_their_names() {
        let top = tempfile::tempdir().unwrap();
        let at = |name: &str| top.path().join(name);
        for name in ["prony.db", "prony.db-run-3", "e.toml"] {
            fs::write(at(name), "x").unwrap();
        }
        fs::create_dir(at("sub")).unwrap();
        for (link, target) in [("link", "prony.db"), ("log", "prony.db-wal"), ("loop", "loop"), ("again", "log")] {
            std::os::unix::fs::symlink(target, at(link)).unwrap();
        }
        for (link, target) in [("hard", "prony.db"), ("lock", "prony.db-run-3"), ("file", "e.toml")] {
            fs::hard_link(at(target), at(link)).unwrap();
        }
        let mut files = OutputFiles::of(Some(&at("sub/../prony.db")), [&at("e.toml")]);
        let of_it =
            ["prony.db", "prony.db-shm", "prony.db-wal", "prony.db-journal", "prony.db-run-17", "sub/../prony.db"];
        for name in of_it.into_iter().chain(["link", "log", "again", "hard", "lock"]) {
            let said = said(&mut files, &at(name), Present::Replaced);
            assert!(said.ends_with("that file belongs to the results database"), "{name}: {said}");
        }
        for name in ["e.toml", "./e.toml", "file"] {
            let said = said(&mut files, &at(name), Present::Continued);
            assert!(said.ends_with("this command reads that file"), "{name}: {said}");
        }
        for name in ["prony.db-walk", "sub/prony.db", "prony.db-run-x", "new"] {
            assert_eq!(said(&mut files, &at(name), Present::Replaced), "opened", "{name}");
        }
        let twice = said(&mut files, &at("sub/../new"), Present::Replaced);
        assert!(twice.ends_with("this command writes another output to the same file"), "{twice}");
        assert!(said(&mut files, &at("loop"), Present::Replaced).starts_with("cannot write"));
        assert!(!at("prony.db-wal").exists(), "nothing is made of what is refused");
    }

    #[test]
    fn folder_that_is_missing_is_named_with_a_hint() {
        let top = tempfile::tempdir().unwrap();
        let folder = top.path().join("a/b");
        let error = OutputFiles::default().open(&folder.join("x"), Present::Replaced).unwrap_err();
        assert!(error.to_string().ends_with(&format!("there is no folder `{}`", folder.display())), "{error}");
        assert_eq!(error.hint(), Some(format!("make it: `mkdir -p {}`", folder.display())));
    }

    #[test]
    fn devices_may_be_named_twice_and_databases_of_sqlite_never() {
        let top = tempfile::tempdir().unwrap();
        let mut files = OutputFiles::default();
        for _ in 0..2 {
            assert_eq!(said(&mut files, Path::new("/dev/null"), Present::Refused("")), "opened");
        }
        let other = top.path().join("other.db");
        fs::write(&other, b"SQLite format 3\0 and more").unwrap();
        assert!(said(&mut files, &other, Present::Replaced).ends_with("that file is an SQLite database"));
    }

    #[test]
    fn content_stays_until_there_is_other() {
        let top = tempfile::tempdir().unwrap();
        let path = top.path().join("x");
        fs::write(&path, "").unwrap();
        assert_eq!(said(&mut OutputFiles::default(), &path, Present::Refused("")), "opened", "nothing is lost");
        fs::write(&path, "before").unwrap();
        assert!(said(&mut OutputFiles::default(), &path, Present::Refused("")).ends_with("exists already"));
        let read = || fs::read_to_string(&path).unwrap();
        let file = OutputFiles::default().open(&path, Present::Replaced).unwrap();
        assert_eq!(read(), "before");
        file.write_bytes(b"new").unwrap();
        assert_eq!(read(), "new");
        let file = OutputFiles::default().open(&path, Present::Continued).unwrap();
        file.write(|out| out.write_all(b"er").map_err(|_| unreachable!())).unwrap();
        assert_eq!(read(), "newer");
        let file = OutputFiles::default().open(&path, Present::Replaced).unwrap();
        file.write(|_| Err(Error::arguments("no content", ""))).unwrap_err();
        assert_eq!(read(), "newer", "refused before the first byte");
        file.write(|_| Ok(())).unwrap();
        assert_eq!(read(), "", "no byte is content too");
    }
}
