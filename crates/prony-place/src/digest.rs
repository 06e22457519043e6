//! Hashes files and directories, so that unchanged content is recognised.

use std::fs::{self, File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use prony_model::record::effective::BY_TIME;
use prony_model::units::Bytes;
use xxhash_rust::xxh3::Xxh3Default;

use crate::copy::{PIECE, Progress, data};
use crate::error::Error;

/// A hash of every path below a directory with its mode and content; what git keeps for itself is left out.
///
/// # Errors
/// [`Error::Copy`] with a file that cannot be read; whatever `progress` ends it with, which is told no amounts.
pub(crate) fn of_tree(top: &Path, progress: &mut Progress<'_>) -> Result<u64, Error> {
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
                let file = File::open(&path).map_err(Error::copying(&path))?;
                data_of(&file, about.len(), &path, &mut hash, progress)?;
            }
        }
    }
    Ok(hash.digest())
}

/// Adds the data of a file with their places; a copy leaves out holes, and what is equal to it has the same.
fn data_of(
    mut file: &File,
    length: u64,
    path: &Path,
    hash: &mut Xxh3Default,
    progress: &mut Progress<'_>,
) -> Result<(), Error> {
    let mut at = 0;
    while let Some((begin, end)) = data(file, at, length) {
        progress(0, 0)?;
        at = end.min(begin + PIECE);
        hash.update(&[begin.to_le_bytes(), at.to_le_bytes()].concat());
        let read = file.seek(SeekFrom::Start(begin)).and_then(|_| content(&mut file.take(at - begin), hash));
        read.map_err(Error::copying(path))?;
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Its zeros were read, in a copy that was made at once.
    #[test]
    fn holes_are_not_read() {
        let top = tempfile::tempdir().unwrap();
        let path = top.path().join("sparse");
        File::create(&path).unwrap().set_len(1 << 42).unwrap();
        let of = || of_tree(top.path(), &mut |_, _| Ok(())).unwrap();
        let empty = of();
        let mut file = File::options().write(true).open(&path).unwrap();
        file.seek(SeekFrom::Start(1 << 41)).and_then(|_| io::Write::write_all(&mut file, b"x")).unwrap();
        let first = of();
        assert_ne!(first, empty);
        file.seek(SeekFrom::Start(1 << 40)).and_then(|_| io::Write::write_all(&mut file, b"x")).unwrap();
        assert_ne!(of(), first);
    }

    #[test]
    fn user_can_end_it() {
        let top = tempfile::tempdir().unwrap();
        fs::write(top.path().join("a"), "a").unwrap();
        let interrupted = || Error::copying(Path::new("a"))(io::ErrorKind::Interrupted.into());
        assert!(of_tree(top.path(), &mut |_, _| Err(interrupted())).is_err());
    }
}
