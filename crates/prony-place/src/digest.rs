//! Hashes files and directories, so that unchanged content is recognised.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::Xxh3Default;

use crate::error::Error;

/// A hash of every path below a directory with its mode and content; what git keeps for itself is left out.
///
/// # Errors
/// [`Error::Copy`] with a file that cannot be read.
pub(crate) fn of_tree(directory: &Path) -> Result<u64, Error> {
    let mut hash = Xxh3Default::new();
    tree(directory, &mut hash)?;
    Ok(hash.digest())
}

/// Every path below with its mode and content, in order; what git keeps for itself is left out.
fn tree(copy: &Path, hash: &mut Xxh3Default) -> Result<(), Error> {
    let mut open = vec![copy.to_path_buf()];
    while let Some(directory) = open.pop() {
        let entries = fs::read_dir(&directory).map_err(Error::copying(&directory))?;
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths.into_iter().filter(|path| !path.ends_with(".git")) {
            let about = fs::symlink_metadata(&path).map_err(Error::copying(&path))?;
            let name = path.strip_prefix(copy).unwrap_or(&path);
            hash.update(format!("{name:?} {:o} {}\n", about.permissions().mode(), about.len()).as_bytes());
            if about.is_dir() {
                open.push(path);
            } else if about.is_symlink() {
                let target = fs::read_link(&path).map_err(Error::copying(&path))?;
                hash.update(target.strip_prefix(copy).unwrap_or(&target).as_os_str().as_encoded_bytes());
            } else if about.is_file() {
                File::open(&path).and_then(|mut file| content(&mut file, hash)).map_err(Error::copying(&path))?;
            }
        }
    }
    Ok(())
}

/// Adds what is still to be read of a file.
///
/// # Errors
/// Where it cannot be read.
pub(crate) fn content(file: &mut impl Read, hash: &mut Xxh3Default) -> std::io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(()),
            n => hash.update(&buffer[..n]),
        }
    }
}
