//! Hashes files and directories, so that unchanged content is recognised.

use std::fs::{self, File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use prony_model::record::effective::BY_TIME;
use prony_model::units::Bytes;
use xxhash_rust::xxh3::Xxh3Default;

use crate::error::Error;

/// A hash of every path below a directory with its mode and content; what git keeps for itself is left out.
///
/// # Errors
/// [`Error::Copy`] with a file that cannot be read.
pub(crate) fn of_tree(top: &Path) -> Result<u64, Error> {
    let (mut hash, mut open) = (Xxh3Default::new(), vec![top.to_path_buf()]);
    while let Some(directory) = open.pop() {
        let entries = fs::read_dir(&directory).map_err(Error::copying(&directory))?;
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths.into_iter().filter(|path| !path.ends_with(".git")) {
            let about = fs::symlink_metadata(&path).map_err(Error::copying(&path))?;
            let name = path.strip_prefix(top).unwrap_or(&path);
            hash.update(format!("{name:?} {:o} {}\n", about.permissions().mode(), about.len()).as_bytes());
            if about.is_dir() {
                open.push(path);
            } else if about.is_symlink() {
                let target = fs::read_link(&path).map_err(Error::copying(&path))?;
                hash.update(target.strip_prefix(top).unwrap_or(&target).as_os_str().as_encoded_bytes());
            } else if about.is_file() {
                File::open(&path).and_then(|mut file| content(&mut file, &mut hash)).map_err(Error::copying(&path))?;
            }
        }
    }
    Ok(hash.digest())
}

/// Of a larger file only the first and the last half of this size are read: its time of change stands for the rest.
pub(crate) const LARGE: Bytes = Bytes::from_mib(64);

/// A digest of the content and size of a file, for the record.
///
/// # Errors
/// Where it cannot be read.
pub(crate) fn of_file(path: &Path, about: &Metadata) -> io::Result<String> {
    let (mut hash, size) = (Xxh3Default::new(), about.size());
    hash.update(&size.to_le_bytes());
    let mut file = File::open(path)?;
    if size <= LARGE.as_bytes() {
        content(&mut file, &mut hash)?;
    } else {
        [about.mtime(), about.mtime_nsec()].iter().for_each(|part| hash.update(&part.to_le_bytes()));
        let half = LARGE.as_bytes() / 2;
        content(&mut (&file).take(half), &mut hash)?;
        file.seek(SeekFrom::Start(size - half))?;
        content(&mut file.take(half), &mut hash)?;
    }
    let how = if size <= LARGE.as_bytes() { "" } else { BY_TIME };
    Ok(format!("{:032x}{how}", hash.digest128()))
}

/// Adds what is still to be read of a file.
fn content(file: &mut impl Read, hash: &mut Xxh3Default) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(()),
            n => hash.update(&buffer[..n]),
        }
    }
}
