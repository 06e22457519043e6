//! Copies of directories with which services begin their trials: surveyed when a run begins, copied for each instance of each
//! trial, and refused where the original changed meanwhile.
//!
//! A copy that was just written is dirty and in the page cache; one that shares its blocks with the original is in neither
//! state. So each copy is written to the disk and evicted from the page cache before anything uses it: what a service finds is
//! the same in every trial, and on every file system but those in memory, which keep their pages.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, lchown};
use std::path::{Path, PathBuf};

use prony_model::number::{self, count, first_few};
use prony_model::program::OutwardLinks;
use prony_model::reading::Reading;
use prony_model::record::effective::CopiedData;
use prony_model::service::{DataSpec, ServiceSpec};
use prony_model::units::Bytes;
use prony_os::cache::drop_cached;
use prony_os::host::sync_file_system;
use prony_os::launch::remove_tree;
use rustix::process::geteuid;

use crate::copy::{Progress, copy_plan};
use crate::error::Error;
use crate::links::{Manifest, Plan, Rules};
use crate::sources::canonical;

/// Changed paths that an error names; further ones are counted.
const NAMED: usize = 3;

/// The directories of which services' data are copies, as they were when the run began.
#[derive(Debug, Default)]
pub struct DataSources {
    /// Files of prony's own, canonical: no copy contains them.
    own: Vec<PathBuf>,
    known: RefCell<BTreeMap<PathBuf, Known>>,
}

#[derive(Debug)]
struct Known {
    manifest: Manifest,
    files: u64,
    bytes: Bytes,
}

impl DataSources {
    /// None yet; `own` are files of prony's own, canonical.
    pub(crate) fn new(own: &[PathBuf]) -> Self {
        Self { own: own.to_vec(), known: RefCell::default() }
    }

    /// Lists a directory, unless it is known; what a copy of it is, for the record.
    ///
    /// # Errors
    /// Where it cannot be read, or contains what is not copied: a link that leads out, a socket, a FIFO, a device.
    pub fn survey(&self, data: &DataSpec) -> Result<CopiedData, Error> {
        let directory = canonical(&data.from)?;
        if !self.known.borrow().contains_key(&directory) {
            let plan = self.plan(&directory)?;
            let files = plan.entries.iter().filter(|entry| entry.about.is_file()).count() as u64;
            let bytes = Bytes::from_bytes(plan.bytes());
            let known = Known { manifest: Manifest::of(&plan), files, bytes };
            self.known.borrow_mut().insert(directory.clone(), known);
        }
        let known = self.known.borrow();
        let Known { manifest, files, bytes } = &known[&directory];
        Ok(CopiedData { state: manifest.digest(), files: *files, bytes: *bytes, directory })
    }

    fn plan(&self, directory: &Path) -> Result<Plan, Error> {
        let plan = Plan::of(directory, &Rules { own: self.own.clone(), ..Rules::default() })?;
        if let Some((link, to)) = plan.outward.first() {
            return Err(Error::refused(
                format!("symbolic link `{}` leads out of the data, to `{}`", link.display(), to.display()),
                "replace the link by what it leads to: a write through it would change files outside of the copy",
            ));
        }
        if let Some(special) = plan.special.first() {
            let message = format!("cannot copy `{}`: it is a socket, a FIFO or a device", special.display());
            return Err(Error::refused(message, "remove it: data are copied from a server that has ended"));
        }
        Ok(plan)
    }

    /// Copies the data of a service into an empty directory, which is on the disk and not in the page cache then.
    ///
    /// # Errors
    /// [`Error::Copy`] with the path at fault; [`Error::Refused`] where the original is not as it was when the run began, or
    /// changes while it is copied; whatever `progress` ends it with.
    pub fn copy(
        &self,
        service: &ServiceSpec,
        data: &DataSpec,
        to: &Path,
        progress: &mut Progress<'_>,
    ) -> Result<CopiedData, Error> {
        let copied = self.survey(data)?;
        let plan = self.plan(&copied.directory)?;
        self.unchanged(service, &copied.directory, &plan)?;
        fs::remove_dir(to).map_err(Error::copying(to))?;
        copy_plan(&copied.directory, &plan, to, progress)?;
        self.unchanged(service, &copied.directory, &self.plan(&copied.directory)?)?;
        on_disk(to).map_err(Error::copying(to))?;
        Ok(copied)
    }

    fn unchanged(&self, service: &ServiceSpec, directory: &Path, plan: &Plan) -> Result<(), Error> {
        let known = self.known.borrow();
        let now = Manifest::of(plan);
        let paths = known.get(directory).map(|known| now.differences(&known.manifest)).unwrap_or_default();
        if paths.is_empty() {
            return Ok(());
        }
        let names = paths.iter().map(|path| format!("`{}`", path.display())).collect();
        let message = format!(
            "`{}`, of which the data of service `{}` is a copy, has changed since the run began: {}; finished trials \
             are saved",
            directory.display(),
            service.name(),
            first_few(names, NAMED, (", ", " and "), "other file")
        );
        Err(Error::refused(message, "let nothing write there during a run, and start a new run"))
    }
}

/// Copies the data with which a service was set up into a directory, which is replaced, with their owners where prony runs as root;
/// the copy is on the disk and not in the page cache then. How many bytes in how many files these are.
///
/// # Errors
/// [`Error::Copy`] with the path at fault; whatever `progress` ends it with.
pub fn copy_data(original: &Path, to: &Path, progress: &mut Progress<'_>) -> Result<(u64, usize), Error> {
    let plan = Plan::of(original, &Rules { outward: OutwardLinks::Keep, ..Rules::default() })?;
    remove_tree(to)?;
    copy_plan(original, &plan, to, progress)?;
    if geteuid().is_root() {
        let about = fs::metadata(original).map_err(Error::copying(original))?;
        let of_entries = plan.entries.iter().map(|entry| (to.join(&entry.to), &entry.about));
        for (path, about) in of_entries.chain([(to.to_path_buf(), &about)]) {
            lchown(&path, Some(about.uid()), Some(about.gid())).map_err(Error::copying(&path))?;
        }
    }
    on_disk(to).map_err(Error::copying(to))?;
    Ok((plan.bytes(), plan.entries.iter().filter(|entry| entry.about.is_file()).count()))
}

/// Writes a file, or all below a directory, to the disk and evicts them from the page cache, as far as the user may read them.
pub(crate) fn on_disk(path: &Path) -> io::Result<()> {
    // Each file is synced by itself when it is evicted, which is slow where many are dirty.
    for done in [sync_file_system(path), drop_cached(path)] {
        if let Reading::Missing(why) = done {
            return Err(io::Error::other(format!("it cannot be written to the disk: {why}")));
        }
    }
    Ok(())
}

/// `12 files, 34 MB`, for a text.
pub fn amount(data: &CopiedData) -> String {
    format!("{}, {}", count(data.files, "file"), number::amount(data.bytes.as_bytes() as f64))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use prony_model::service::{ReadySign, ReadySpec};
    use prony_model::spec::Limits;
    use prony_model::units::Nanos;
    use prony_os::cache::resident;

    use super::*;

    fn service(from: &Path) -> ServiceSpec {
        ServiceSpec {
            program: crate::tests::program("[program.db]\ncommand = \"true\"\n"),
            count: 1,
            after: Vec::new(),
            ready: ReadySpec { sign: ReadySign::Started, within: Nanos::ZERO },
            set_up: Default::default(),
            setup: None,
            limits: Limits::default(),
            processors: Vec::new(),
            counters: None,
            running: None,
            user: None,
            data: Some(DataSpec { from: from.display().to_string() }),
        }
    }

    /// A directory with data, and an empty one for a copy.
    fn directories() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let top = tempfile::tempdir().unwrap();
        let [from, to] = ["from", "to"].map(|name| top.path().join(name));
        fs::create_dir_all(from.join("sub")).unwrap();
        fs::create_dir(&to).unwrap();
        fs::write(from.join("sub/x"), vec![7; 100_000]).unwrap();
        symlink("sub/x", from.join("link")).unwrap();
        (top, from, to)
    }

    fn copy(sources: &DataSources, from: &Path, to: &Path) -> Result<CopiedData, Error> {
        let service = service(from);
        sources.copy(&service, service.data.as_ref().unwrap(), to, &mut |_, _| Ok(()))
    }

    #[test]
    fn data_are_copied_whole_and_are_not_dirty() {
        let (_top, from, to) = directories();
        let copied = copy(&DataSources::default(), &from, &to).unwrap();
        assert_eq!((copied.files, copied.bytes.as_bytes()), (1, 100_000));
        assert!(fs::symlink_metadata(to.join("link")).unwrap().is_symlink());
        let resident = resident(&to).measured().cloned().unwrap();
        if let Reading::Measured(dirty) = resident.dirty {
            assert_eq!(dirty, 0, "{resident:?}");
        }
        assert_eq!(fs::read(to.join("link")).unwrap(), vec![7; 100_000]);
    }

    #[test]
    fn data_that_change_during_a_run_are_refused() {
        let (_top, from, to) = directories();
        let sources = DataSources::default();
        let surveyed = sources.survey(&DataSpec { from: from.display().to_string() }).unwrap();
        fs::write(from.join("sub/y"), "").unwrap();
        let said = copy(&sources, &from, &to).unwrap_err().text();
        assert!(said.contains("has changed since the run began: `sub/y`") && said.contains("hint: "), "{said}");
        fs::remove_file(from.join("sub/y")).unwrap();
        assert_eq!(copy(&sources, &from, &to).unwrap(), surveyed, "as when the run began");
        let (_other, from, to) = directories();
        let service = service(&from);
        let sources = DataSources::default();
        let mut change = |_, _| {
            fs::write(from.join("late"), "").unwrap();
            Ok(())
        };
        let done = sources.copy(&service, service.data.as_ref().unwrap(), &to, &mut change);
        assert!(done.unwrap_err().text().contains("`late`"), "while it is copied");
    }

    #[test]
    fn data_with_outward_links_or_sockets_are_refused_with_their_place() {
        let (_top, from, _) = directories();
        let said = || DataSources::default().survey(&DataSpec { from: from.display().to_string() }).unwrap_err().text();
        let socket = from.join("sub/socket");
        let _listener = UnixListener::bind(&socket).unwrap();
        let text = said();
        assert!(text.contains("sub/socket`: it is a socket"), "{text}");
        symlink("/etc", from.join("out")).unwrap();
        let text = said();
        assert!(text.contains("out` leads out of the data, to `/etc`"), "{text}");
    }
}
