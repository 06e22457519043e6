//! The user's directories of which copies are made: listed when a run begins, and checked for changes after trials.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use prony_analysis::guard::{Finding, Severity, copies as guard};
use prony_experiment::redacted::LEFT_OUT;
use prony_model::event::{Event, Observer};
use prony_model::program::{Care, CopyOf, OutwardLinks, ProgramSpec};
use prony_model::units::Bytes;

use crate::error::Error;
use crate::links::{Manifest, Plan, Rules};
use crate::revision;
use crate::uncommitted::Uncommitted;

/// With light care, checking a directory again takes at most one part in so many of a run's time.
const SHARE: u32 = 50;

/// A copy that takes longer is reported.
const LONG: Duration = Duration::from_secs(1);

/// How often.
const AGAIN: Duration = Duration::from_millis(500);

/// The directories of a run's programs, by how their symbolic links are handled.
#[derive(Debug, Default)]
pub struct Sources {
    /// Files of prony's own, canonical.
    own: Vec<PathBuf>,
    observed: RefCell<BTreeMap<(PathBuf, OutwardLinks), Observation>>,
    /// Directories of which revisions are copied, canonical.
    revised: RefCell<BTreeSet<PathBuf>>,
    /// The commits that revisions of these directories were when the run began: a branch may move meanwhile.
    commits: RefCell<BTreeMap<(PathBuf, String), String>>,
    /// What of these directories is in no commit, as it was when that was first asked for: a run's own files come and go.
    uncommitted: RefCell<BTreeMap<PathBuf, Result<Uncommitted, String>>>,
}

/// A directory as it was when the run began.
#[derive(Debug)]
struct Observation {
    manifest: Manifest,
    /// When it was listed last, and how long that took.
    last: (Instant, Duration),
}

/// A directory's path without links.
///
/// # Errors
/// [`Error::ReadFile`] where there is none.
pub(crate) fn canonical(directory: &str) -> Result<PathBuf, Error> {
    std::fs::canonicalize(directory).map_err(|source| Error::ReadFile { path: PathBuf::from(directory), source })
}

impl Sources {
    /// None yet; `own` are files of prony's own.
    pub(crate) fn new(own: &[&Path]) -> Self {
        let own = own.iter().filter_map(|path| std::fs::canonicalize(path).ok()).collect();
        Self { own, ..Self::default() }
    }

    /// Files of prony's own, canonical.
    pub(crate) fn own(&self) -> &[PathBuf] {
        &self.own
    }

    /// What a copy of a directory would hold.
    ///
    /// # Errors
    /// [`Error::Copy`] with the path at fault.
    pub(crate) fn plan(&self, top: &Path, program: &ProgramSpec, alias: Option<PathBuf>) -> Result<Plan, Error> {
        Plan::of(top, &Rules { outward: program.links, own: self.own.clone(), alias, ..Rules::default() })
    }

    /// Lists the directory of a program that is copied, unless it is known. Of a revision, the repository holds it, and its commit
    /// is noted.
    ///
    /// # Errors
    /// Where it cannot be read, or a link leads out of it.
    pub fn survey(&self, program: &ProgramSpec) -> Result<(), Error> {
        let Some(key) = key(program)? else {
            if let Some((directory, of)) = program.directory.as_ref().zip(revision::of(program)) {
                let directory = canonical(directory)?;
                // What git says where there is none, the copy says.
                let _ = self.commit(&directory, of);
                self.revised.borrow_mut().insert(directory);
            }
            return Ok(());
        };
        if !self.observed.borrow().contains_key(&key) {
            let began = Instant::now();
            let manifest = Manifest::of(&self.plan(&key.0, program, None)?.allowed(&key.0, None)?);
            self.observed.borrow_mut().insert(key, Observation { manifest, last: (Instant::now(), began.elapsed()) });
        }
        Ok(())
    }

    /// The commit that a revision of a directory was when this was first asked; the same for each copy in a run.
    ///
    /// # Errors
    /// What git says.
    pub(crate) fn commit(&self, directory: &Path, of: &str) -> Result<String, String> {
        let (key, mut known) = ((directory.to_owned(), of.to_owned()), self.commits.borrow_mut());
        if let Some(commit) = known.get(&key) {
            return Ok(commit.clone());
        }
        let commit = revision::commit(directory, of)?;
        known.insert(key, commit.clone());
        Ok(commit)
    }

    /// What of a directory is in no commit; the same for each copy of it in a run.
    ///
    /// # Errors
    /// What git says.
    pub(crate) fn uncommitted(&self, directory: &Path) -> Result<Uncommitted, String> {
        let mut known = self.uncommitted.borrow_mut();
        known.entry(directory.to_owned()).or_insert_with(|| Uncommitted::of(directory, &self.own)).clone()
    }

    /// A finding if a copy of a directory as it is contains what no commit has, and other variants are revisions of it.
    pub(crate) fn beside_revisions(&self, directory: &Path, program: &ProgramSpec) -> Option<Finding> {
        if !self.revised.borrow().contains(directory) {
            return None;
        }
        let uncommitted = self.uncommitted(directory).ok()?;
        // What git ignores, a build may make in each copy.
        let is_made = program.build.is_some() && uncommitted.counts(false).is_none();
        let severity = if is_made { Severity::Note } else { Severity::Warning };
        uncommitted.counts(true).map(|counts| guard::working_tree_copied(&counts, severity))
    }

    /// A finding if the directory has changed: a copy that is made of it now has other content. With light care it is
    /// not listed again where it was a short time ago, for the time that takes. It is named only where `commands` are
    /// recorded.
    pub(crate) fn changed(&self, program: &ProgramSpec, care: Care, commands: bool) -> Option<Finding> {
        let directory = Path::new(program.directory.as_deref()?);
        let unreadable = |_| guard::source_changed(shown(directory, commands), &[Path::new(".")]);
        self.paths_changed(program, care, commands).unwrap_or_else(unreadable)
    }

    fn paths_changed(&self, program: &ProgramSpec, care: Care, commands: bool) -> Result<Option<Finding>, Error> {
        self.survey(program)?;
        let Some(key) = key(program)? else { return Ok(None) };
        let mut observed = self.observed.borrow_mut();
        let Some(observed) = observed.get_mut(&key) else { return Ok(None) };
        let (at, took) = observed.last;
        if care == Care::Light && at.elapsed() < took * SHARE {
            return Ok(None);
        }
        let began = Instant::now();
        let now = Manifest::of(&self.plan(&key.0, program, None)?);
        observed.last = (Instant::now(), began.elapsed());
        Ok(guard::source_changed(shown(&key.0, commands), &now.differences(&observed.manifest)))
    }
}

pub(crate) fn shown(directory: &Path, commands: bool) -> &Path {
    if commands { directory } else { Path::new(LEFT_OUT) }
}

/// The directory of a program that is copied as it is.
fn key(program: &ProgramSpec) -> Result<Option<(PathBuf, OutwardLinks)>, Error> {
    let directory =
        program.directory.as_ref().filter(|_| program.copy != CopyOf::None && revision::of(program).is_none());
    directory.map(|directory| Ok((canonical(directory)?, program.links))).transpose()
}

/// Reports a copy that takes long.
pub(crate) struct Copying<'a> {
    directory: &'a str,
    observer: &'a mut dyn Observer,
    next: Instant,
}

impl<'a> Copying<'a> {
    /// Of a copy that begins.
    pub(crate) fn new(directory: &'a str, observer: &'a mut dyn Observer) -> Self {
        Self { directory, observer, next: Instant::now() + LONG }
    }

    /// So many bytes of so many are copied.
    pub(crate) fn report(&mut self, done: u64, total: u64) {
        if total > 0 && Instant::now() >= self.next {
            self.next = Instant::now() + AGAIN;
            let [done, total] = [done, total].map(Bytes::from_bytes);
            self.observer.event(&Event::Copying { directory: self.directory.to_owned(), done, total });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::event::Log;

    #[test]
    fn a_copy_that_takes_long_is_reported_now_and_then() {
        let mut log = Log::default();
        let mut copying = Copying::new("site", &mut log);
        copying.report(1, 9);
        copying.next = Instant::now();
        copying.report(2, 9);
        copying.report(3, 9);
        let [done, total] = [2, 9].map(Bytes::from_bytes);
        assert_eq!(log.events, [Event::Copying { directory: "site".to_owned(), done, total }]);
    }
}
