//! Paths that prony records or passes to its processes: both must be text.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::error::Error;
use crate::output_targets::place;

/// The message where nothing exists at a path of an experiment.
pub const FROM_FILE: &str = "relative paths begin at the folder of the experiment file";

/// A path as text.
///
/// # Errors
/// Where it is none.
pub fn utf8(path: &Path) -> Result<&str, Error> {
    path.to_str().ok_or_else(|| {
        let message = format!("cannot use `{}`: the path is not valid UTF-8, and records are text", path.display());
        Error::refused(message, "rename the file or folder, or work in another folder")
    })
}

/// Where a path leads from the current directory, by whatever name; nothing needs to be there. What a device or a pipe such as
/// `/dev/stdin` leads to may be something else in another process, so its own name stays.
///
/// # Errors
/// Where the current directory does not exist any more, or the result is no text.
pub fn absolute(path: &str) -> Result<String, Error> {
    let is_device = fs::metadata(path).is_ok_and(|about| !about.is_file() && !about.is_dir());
    let found = std::path::absolute(if is_device { PathBuf::from(path) } else { place(Path::new(path)) });
    let found = found.map_err(|source| Error::ReadFile { path: PathBuf::from(path), source })?;
    utf8(&found).map(str::to_owned)
}

/// A folder in which scratch can be made, as an absolute path.
///
/// # Errors
/// Where it is not there, is no text, or cannot be written into.
pub fn for_scratch(near: &Path) -> Result<PathBuf, Error> {
    let found = fs::canonicalize(near);
    let found = found.map_err(|source| Error::ReadFile { path: near.to_path_buf(), source })?;
    utf8(&found)?;
    access(&found, Access::WRITE_OK | Access::EXEC_OK)
        .map_err(|errno| Error::Write { what: format!("into `{}`", found.display()), source: errno.into() })?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_one_absolute_form_whatever_leads_to_it() {
        let top = tempfile::tempdir().unwrap();
        let at = |name: &str| top.path().join(name).to_str().unwrap().to_owned();
        fs::create_dir(at("site")).unwrap();
        std::os::unix::fs::symlink("site", at("link")).unwrap();
        let site = fs::canonicalize(at("site")).unwrap().to_str().unwrap().to_owned();
        for name in ["site", "site/.", "site/../site", "link"] {
            assert_eq!(absolute(&at(name)).unwrap(), site, "{name}");
        }
        assert_eq!(absolute(&at("link/new")).unwrap(), format!("{site}/new"), "what is not there yet");
        let here = std::env::current_dir().unwrap();
        assert_eq!(absolute("new").unwrap(), here.join("new").to_str().unwrap());
        assert_eq!(absolute("/dev/null").unwrap(), "/dev/null");
    }
}
