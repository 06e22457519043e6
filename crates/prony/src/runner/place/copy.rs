//! Copies of a program's directory, so that the user's own is never touched.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::{Path, PathBuf};

use crate::error::Error;

/// Copies a directory with everything below it: files with their modes, symbolic links as links. Links to places
/// inside the original point into the copy. Sockets, FIFOs, devices, and scratch directories of prony are left out.
///
/// # Errors
/// [`Error::Copy`] with the path at fault.
pub fn copy_tree(original: &Path, copy: &Path) -> Result<(), Error> {
    // Listed before anything is written, as the copy may lie below the original.
    let entries = list(original)?;
    fs::create_dir(copy).map_err(fault(copy))?;
    for (path, relative) in entries {
        one(&path, &copy.join(&relative), original, copy)?;
    }
    let mode = fs::metadata(original).map_err(fault(original))?.permissions();
    fs::set_permissions(copy, mode).map_err(fault(copy))
}

fn fault(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_path_buf();
    move |source| Error::Copy { path, source }
}

/// Everything below, directories before what they hold.
fn list(original: &Path) -> Result<Vec<(PathBuf, PathBuf)>, Error> {
    let mut found = Vec::new();
    let mut open = vec![(original.to_path_buf(), PathBuf::new())];
    while let Some((directory, relative)) = open.pop() {
        for entry in fs::read_dir(&directory).map_err(fault(&directory))? {
            let entry = entry.map_err(fault(&directory))?;
            if is_scratch(&entry.file_name()) {
                continue;
            }
            let below = relative.join(entry.file_name());
            if entry.file_type().map_err(fault(&entry.path()))?.is_dir() {
                open.push((entry.path(), below.clone()));
            }
            found.push((entry.path(), below));
        }
    }
    found.sort_by(|a, b| a.1.cmp(&b.1));
    Ok(found)
}

/// A scratch directory of this or another run.
fn is_scratch(name: &OsStr) -> bool {
    let parts = name.to_str().and_then(|name| name.strip_prefix(".prony-")).map(|rest| rest.split('-'));
    parts.is_some_and(|mut parts| parts.all(|part| part.parse::<u64>().is_ok()))
}

fn one(from: &Path, to: &Path, original: &Path, copy: &Path) -> Result<(), Error> {
    let kind = fs::symlink_metadata(from).map_err(fault(from))?.file_type();
    if kind.is_symlink() {
        let target = fs::read_link(from).map_err(fault(from))?;
        let target = target.strip_prefix(original).map_or(target.clone(), |inside| copy.join(inside));
        symlink(target, to).map_err(fault(to))
    } else if kind.is_dir() {
        fs::create_dir(to).map_err(fault(to))?;
        // Kept writable, so that it can be filled and removed.
        Ok(())
    } else if kind.is_fifo() || kind.is_socket() || kind.is_block_device() || kind.is_char_device() {
        Ok(())
    } else {
        fs::copy(from, to).map(drop).map_err(fault(from))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_copy_has_everything_and_leaves_the_original_alone() {
        let top = tempfile::tempdir().unwrap();
        let (site, copy) = (top.path().join("site"), top.path().join("copy"));
        fs::create_dir_all(site.join("a/b")).unwrap();
        fs::create_dir(site.join(".prony-1-2-3")).unwrap();
        fs::write(site.join("a/b/run"), "x").unwrap();
        fs::set_permissions(site.join("a/b/run"), fs::Permissions::from_mode(0o755)).unwrap();
        symlink("b/run", site.join("a/near")).unwrap();
        symlink(site.join("a/b"), site.join("inside")).unwrap();
        symlink("/nowhere", site.join("far")).unwrap();
        copy_tree(&site, &copy).unwrap();
        fs::write(copy.join("inside/run"), "changed").unwrap();
        assert_eq!(fs::read_to_string(copy.join("a/near")).unwrap(), "changed");
        assert_eq!(fs::read_to_string(site.join("a/b/run")).unwrap(), "x");
        assert_eq!(fs::metadata(copy.join("a/b/run")).unwrap().permissions().mode() & 0o777, 0o755);
        assert_eq!(fs::read_link(copy.join("far")).unwrap(), Path::new("/nowhere"));
        assert!(!copy.join(".prony-1-2-3").exists());
    }

    #[test]
    fn a_copy_into_the_original_ends() {
        let top = tempfile::tempdir().unwrap();
        fs::write(top.path().join("file"), "x").unwrap();
        copy_tree(top.path(), &top.path().join("copy")).unwrap();
        assert!(top.path().join("copy/file").exists() && !top.path().join("copy/copy").exists());
    }

    #[test]
    fn what_is_missing_is_named() {
        let error = copy_tree(Path::new("/nowhere/at/all"), Path::new("/nowhere/else")).unwrap_err();
        assert_eq!(error.to_string(), "cannot copy `/nowhere/at/all`");
    }
}
