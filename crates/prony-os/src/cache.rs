//! A store's files: their size on disk and their pages in the page cache.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use prony_model::reading::{Reading, Why};
pub use prony_model::record::DiskUsage;
use prony_model::units::Bytes;
use rustix::fs::{Advice, fadvise};
use serde::{Deserialize, Serialize};

use crate::sys::cache::{Map, cachestat};
use crate::why::why;

/// Pages of a store's files in the page cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Residency {
    /// Pages that the files have.
    pub pages: u64,
    /// Of these, in memory.
    pub cached: u64,
    /// In memory and not yet written back.
    pub dirty: Reading<u64>,
    /// Being written back.
    pub writeback: Reading<u64>,
}

impl Residency {
    /// Share of the pages in memory; `None` where there are no pages.
    pub fn share(&self) -> Option<f64> {
        // A page past the end may be cached while a file shrinks.
        (self.pages > 0).then(|| (self.cached as f64 / self.pages as f64).min(1.0))
    }

    /// Those in memory, in bytes.
    pub fn bytes(&self) -> Bytes {
        Bytes::from_bytes(self.cached * rustix::param::page_size() as u64)
    }

    /// Dirty and writeback pages, in bytes.
    pub fn unwritten(&self) -> Reading<Bytes> {
        let page = rustix::param::page_size() as u64;
        self.dirty.clone().and(self.writeback.clone(), |dirty, writeback| Bytes::from_bytes((dirty + writeback) * page))
    }

    fn plus(self, other: Self) -> Self {
        Self {
            pages: self.pages + other.pages,
            cached: self.cached + other.cached,
            dirty: self.dirty.and(other.dirty, |a, b| a + b),
            writeback: self.writeback.and(other.writeback, |a, b| a + b),
        }
    }
}

/// Regular files at or below `path`, each once however many links it has. `path` itself may be a link; links below it
/// are not followed. What disappears during the walk is left out: a store may be merging its files.
fn files(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut visited = BTreeSet::new();
    let mut open = vec![path.to_owned()];
    while let Some(path) = open.pop() {
        let first = visited.is_empty();
        let vanished = |error: &io::Error| error.kind() == io::ErrorKind::NotFound && !first;
        let metadata = match if first { fs::metadata(&path) } else { fs::symlink_metadata(&path) } {
            Err(error) if vanished(&error) => continue,
            result => result?,
        };
        if !visited.insert((metadata.dev(), metadata.ino())) {
            continue;
        }
        if metadata.is_dir() {
            match fs::read_dir(&path) {
                Err(error) if vanished(&error) => {}
                entries => {
                    open.extend(entries?.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>()?)
                }
            }
        } else if metadata.is_file() {
            found.push(path);
        }
    }
    Ok(found)
}

fn over_files<T>(path: &Path, start: T, add: impl Fn(T, &Path) -> io::Result<T>) -> Reading<T>
where
    T: Clone,
{
    let all = files(path).and_then(|files| {
        files.iter().try_fold(start, |total, file| match add(total.clone(), file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(total),
            result => result,
        })
    });
    match all {
        Ok(total) => Reading::Measured(total),
        Err(error) => Reading::Missing(why(&format!("`{}`", path.display()), &error)),
    }
}

/// Size of all regular files at or below `path`.
pub(crate) fn disk_usage(path: &Path) -> Reading<DiskUsage> {
    over_files(path, DiskUsage::default(), |total, file| {
        let metadata = fs::metadata(file)?;
        Ok(DiskUsage {
            length: total.length + Bytes::from_bytes(metadata.len()),
            // stat(2) counts blocks of 512 bytes on every file system.
            blocks: total.blocks + Bytes::from_bytes(metadata.blocks() * 512),
            files: total.files + 1,
        })
    })
}

/// Pages of all regular files at or below `path` in the page cache: by `cachestat`, or by `mincore`
/// before Linux 6.5, which knows nothing of dirty pages.
pub fn resident(path: &Path) -> Reading<Residency> {
    let none = Residency { pages: 0, cached: 0, dirty: Reading::Measured(0), writeback: Reading::Measured(0) };
    over_files(path, none, |total, file| Ok(total.plus(resident_file(&File::open(file)?)?)))
}

pub(crate) fn resident_file(file: &File) -> io::Result<Residency> {
    let page = rustix::param::page_size();
    let pages = file.metadata()?.len().div_ceil(page as u64);
    if pages == 0 {
        return Ok(Residency { pages, cached: 0, dirty: Reading::Measured(0), writeback: Reading::Measured(0) });
    }
    match cachestat(file) {
        Ok(stat) => Ok(Residency {
            pages,
            cached: stat.cached,
            dirty: Reading::Measured(stat.dirty),
            writeback: Reading::Measured(stat.writeback),
        }),
        Err(error) => by_mincore(file, pages, &why("`cachestat`", &error)),
    }
}

fn by_mincore(file: &File, pages: u64, unknown: &Why) -> io::Result<Residency> {
    let cached = Map::new(file)?.resident_pages(rustix::param::page_size())?;
    let unknown = || Reading::Missing(unknown.clone());
    Ok(Residency { pages, cached, dirty: unknown(), writeback: unknown() })
}

/// Evicts all regular files at or below `path` from the page cache and reports what stayed: sync, drop, measure. Pages
/// that some process has mapped stay (METHOD 5.1: close the store first).
pub fn evict(path: &Path) -> Reading<Residency> {
    let dropped = over_files(path, (), |(), file| drop_pages(&File::open(file)?));
    match dropped {
        Reading::Measured(()) => resident(path),
        Reading::Missing(why) => Reading::Missing(why),
    }
}

/// [`evict`] for one open file.
pub(crate) fn evict_file(file: &File) -> io::Result<Residency> {
    drop_pages(file)?;
    resident_file(file)
}

fn drop_pages(file: &File) -> io::Result<()> {
    file.sync_all()?;
    Ok(fadvise(file, 0, None, Advice::DontNeed)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, SeekFrom, Write};

    #[test]
    fn length_and_blocks_differ_for_a_sparse_file() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("below")).unwrap();
        let mut sparse = File::create(dir.path().join("below/sparse")).unwrap();
        sparse.seek(SeekFrom::Start(64 << 20)).unwrap();
        sparse.write_all(b"end").unwrap();
        sparse.sync_all().unwrap();
        fs::hard_link(dir.path().join("below/sparse"), dir.path().join("again")).unwrap();
        std::os::unix::fs::symlink("/proc", dir.path().join("elsewhere")).unwrap();
        let usage = *disk_usage(dir.path()).measured().unwrap();
        assert_eq!((usage.length.as_bytes(), usage.files), ((64 << 20) + 3, 1));
        std::os::unix::fs::symlink(dir.path().join("below"), dir.path().join("link")).unwrap();
        std::os::unix::fs::symlink(dir.path().join("again"), dir.path().join("file")).unwrap();
        for link in ["link", "file"] {
            assert_eq!(disk_usage(&dir.path().join(link)), Reading::Measured(usage), "the store itself may be a link");
        }
        assert!(usage.blocks.as_bytes() < 1 << 20, "{}", usage.blocks);
    }

    #[test]
    fn a_directory_that_is_not_there_has_no_size() {
        assert!(matches!(disk_usage(Path::new("/no such store")), Reading::Missing(_)));
        assert!(matches!(resident(Path::new("/no such store")), Reading::Missing(_)));
    }

    #[test]
    fn an_empty_store_has_no_share() {
        let dir = tempfile::tempdir().unwrap();
        File::create(dir.path().join("empty")).unwrap();
        let found = resident(dir.path());
        assert_eq!(found.measured().map(|r| (r.pages, r.share())), Some((0, None)));
    }

    #[test]
    fn without_cachestat_dirty_pages_are_missing() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1; 40_000]).unwrap();
        let found = by_mincore(&file, 10, &Why::NotSupported("`cachestat`".into())).unwrap();
        assert_eq!((found.pages, found.cached), (10, 10));
        assert!(matches!(found.unwritten(), Reading::Missing(Why::NotSupported(_))));
    }
}
