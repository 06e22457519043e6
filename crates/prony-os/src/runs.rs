//! Detects other runs on this machine: each run locks a file in a directory that all can reach, so that runs which
//! disturb each other notice it in any PID namespace. A run in another mount namespace, with another `/tmp`, is not
//! noticed.

use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use crate::file_modes;
use crate::lock::Lock;
use crate::owner::{ProcessId, is_name};

/// How often this process has changed a directory of runs.
static CHANGES: AtomicU64 = AtomicU64::new(0);

/// A run of this process, visible to other runs until this value is dropped.
#[derive(Debug)]
pub struct Announced {
    directory: PathBuf,
    path: PathBuf,
    /// How the names of this process's files begin.
    ours: String,
    _lock: Lock,
}

/// The other runs at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherRuns {
    /// Runs of other processes.
    pub count: usize,
    /// When a run last began or ended.
    changed: Option<SystemTime>,
    by_us: u64,
}

impl OtherRuns {
    /// Whether a run of another process was under way between then and now.
    pub fn any_since(&self, then: &Self) -> bool {
        self.count > 0 || then.count > 0 || (self.changed != then.changed && self.by_us == then.by_us)
    }
}

/// The directory that runs share: `$PRONY_RUNS`, else `/tmp/prony-runs`; `None` where the variable is `off`.
pub fn directory() -> Option<PathBuf> {
    place(std::env::var_os("PRONY_RUNS"))
}

fn place(asked: Option<OsString>) -> Option<PathBuf> {
    let asked = asked.filter(|value| !value.is_empty()).map_or_else(|| "/tmp/prony-runs".into(), PathBuf::from);
    Some(asked).filter(|path| path != Path::new("off"))
}

impl Announced {
    /// Announces a run in the directory, which is made where there is none, and removes what killed runs left there.
    ///
    /// # Errors
    /// Where no file can be made and locked there.
    pub fn new(directory: &Path) -> io::Result<Self> {
        file_modes::directory(directory)?;
        for path in entries(directory, "") {
            // Where another run holds the lock, or this user may not remove it, it stays.
            let _ = Lock::exclusive(&path).and_then(|_lock| fs::remove_file(&path));
        }
        let name = ProcessId::current().next_name();
        let path = directory.join(&name);
        let ours = name.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned();
        // Whatever the umask: another user's run must be able to open it.
        let readable = |file: File| file.set_permissions(Permissions::from_mode(0o644));
        let made = Lock::of_new(&path, &|path| File::create_new(path).and_then(readable));
        CHANGES.fetch_add(1, Ordering::Relaxed);
        let lock = made?.ok_or(io::ErrorKind::Unsupported)?;
        Ok(Self { directory: directory.to_owned(), path, ours, _lock: lock })
    }

    /// Searches for other runs.
    pub fn other_runs(&self) -> OtherRuns {
        // A run that may not be examined counts as running.
        let taken =
            |error: io::Error| matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::PermissionDenied);
        let live = |path: &PathBuf| Lock::exclusive(path).is_err_and(taken);
        let count = entries(&self.directory, &self.ours).filter(live).count();
        let changed = fs::metadata(&self.directory).and_then(|about| about.modified()).ok();
        OtherRuns { count, changed, by_us: CHANGES.load(Ordering::Relaxed) }
    }
}

impl Drop for Announced {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
        CHANGES.fetch_add(1, Ordering::Relaxed);
    }
}

/// Files of runs whose names do not begin so.
fn entries(directory: &Path, but: &str) -> impl Iterator<Item = PathBuf> {
    let files = fs::read_dir(directory).into_iter().flatten().flatten();
    let named = move |entry: &fs::DirEntry| {
        let name = entry.file_name();
        name.to_str().is_some_and(|name| is_name(name) && (but.is_empty() || !name.starts_with(but)))
    };
    files.filter(named).map(|entry| entry.path()).collect::<Vec<_>>().into_iter()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::lock::soon;

    #[test]
    fn runs_of_other_processes_are_counted_and_left_files_removed() {
        let top = tempfile::tempdir().unwrap();
        let dir = top.path().join("runs");
        let ours = Announced::new(&dir).unwrap();
        let second = Announced::new(&dir).unwrap();
        assert_eq!(ours.other_runs().count, 0, "runs of this process");
        let path = dir.join(ProcessId { pid: i32::MAX, start: 1 }.next_name());
        fs::write(&path, "").unwrap();
        assert_eq!(ours.other_runs().count, 0, "nobody holds its lock");
        let before = ours.other_runs();
        let lock = soon(|| Lock::shared(&path));
        assert!(ours.other_runs().count == 1 && ours.other_runs().any_since(&before));
        drop(lock);
        drop(second);
        soon(|| Lock::exclusive(&path));
        let until = Instant::now() + Duration::from_secs(30);
        // A child that another test forks has a copy of our descriptor for an instant.
        while path.exists() && Instant::now() < until {
            Announced::new(&dir).unwrap();
        }
        assert!(!path.exists(), "what a killed run left is removed");
        let mode = fs::metadata(&ours.path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o644, "other users can see the run");
    }

    #[test]
    fn a_run_that_began_and_ended_in_between_is_noticed() {
        let runs_at = |at: u64, by_us: u64| {
            let changed = Some(SystemTime::UNIX_EPOCH + std::time::Duration::from_nanos(at));
            OtherRuns { count: 0, changed, by_us }
        };
        assert!(runs_at(2, 5).any_since(&runs_at(1, 5)));
        assert!(!runs_at(2, 6).any_since(&runs_at(1, 5)), "it may have been this process");
        assert!(!runs_at(1, 5).any_since(&runs_at(1, 5)));
    }

    #[test]
    fn the_directory_follows_the_users_wishes() {
        let of = |value: &str| place(Some(value.into()));
        assert_eq!((of("/x"), of("off")), (Some("/x".into()), None));
        assert_eq!((of(""), place(None)), (Some("/tmp/prony-runs".into()), Some("/tmp/prony-runs".into())));
    }
}
