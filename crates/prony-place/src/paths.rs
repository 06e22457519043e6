//! Paths that prony records or passes to its processes: both must be text.

use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::error::Error;

/// The message where nothing exists at a path of an experiment.
pub const FROM_FILE: &str = "relative paths begin at the folder of the experiment file";

/// A path as text.
///
/// # Errors
/// Where it is none.
pub fn utf8(path: &Path) -> Result<&str, Error> {
    path.to_str().ok_or_else(|| Error::Refused {
        message: format!("cannot use `{}`: the path is not valid UTF-8, and records are text", path.display()),
        hint: "rename the file or folder, or work in another folder".to_owned(),
    })
}

/// A folder in which scratch can be made, as an absolute path.
///
/// # Errors
/// Where it is not there, is no text, or cannot be written into.
pub fn for_scratch(near: &Path) -> Result<PathBuf, Error> {
    let found = std::fs::canonicalize(near);
    let found = found.map_err(|source| Error::ReadFile { path: near.to_path_buf(), source })?;
    utf8(&found)?;
    access(&found, Access::WRITE_OK | Access::EXEC_OK)
        .map_err(|errno| Error::Write { what: format!("into `{}`", found.display()), source: errno.into() })?;
    Ok(found)
}
