//! Scratch (temporary) directories of trials: in which folder they are made, and how they are removed.

use std::error::Error as _;
use std::path::{Path, PathBuf};

use prony_model::event::{Event, Observer};
use prony_model::number::count;
use prony_os::Error;
use prony_os::launch::{Scratch, Swept};
use prony_os::limits;

/// Scratch is on the file system of the results unless another place is given (METHOD 5.4).
pub fn folder(asked: Option<&Path>, database: &Path) -> PathBuf {
    let beside = database.parent().filter(|parent| !parent.as_os_str().is_empty());
    asked.or(beside).unwrap_or(Path::new(".")).to_path_buf()
}

/// The absolute path of scratch, unless it is the database's folder: a run may be resumed from anywhere.
pub fn elsewhere(near: &Path, database: &Path) -> Option<PathBuf> {
    let near = std::path::absolute(near).ok()?;
    let beside = std::path::absolute(database).ok()?.parent().map(Path::to_path_buf);
    (Some(&near) != beside.as_ref()).then_some(near)
}

/// Removes a scratch directory that is no longer needed. If that fails, it is reported and the results stay valid.
pub(crate) fn discard(scratch: Scratch, observer: &mut dyn Observer) {
    if let Err(error) = scratch.remove() {
        observer.event(&not_removed(&error));
    }
}

fn not_removed(error: &Error) -> Event {
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    Event::Notice { text: format!("{error}{cause}"), hint: None }
}

/// Removes what killed runs left, groups among it, and reports it.
///
/// # Errors
/// Where the folder cannot be listed.
pub(crate) fn sweep(near: &Path, observer: &mut dyn Observer) -> Result<(), Error> {
    let (groups, stuck) = limits::sweep();
    let Swept { removed: folders, left } = Scratch::sweep(near)?;
    stuck.iter().chain(&left).for_each(|error| observer.event(&not_removed(error)));
    if groups.len() + folders.len() > 0 {
        let parts = [(groups.len(), "control group"), (folders.len(), "scratch folder")];
        let parts = parts.into_iter().filter(|(n, _)| *n > 0).map(|(n, noun)| count(n, noun));
        let text = format!("removed leftovers of killed runs: {}", parts.collect::<Vec<_>>().join(", "));
        observer.event(&Event::Notice { text, hint: None });
    }
    Ok(())
}
