//! A store's files: their size on disk and their pages in the page cache.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use prony_model::reading::{Reading, Why};
pub use prony_model::record::DiskUsage;
use prony_model::units::Bytes;
use rustix::fs::{Access, Advice, AtFlags, CWD, accessat, fadvise, fstatfs};
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

use crate::own_files::OwnFiles;
use crate::sys::cache::{CacheStat, MappedFile, cachestat};
use crate::why::{reading, why};

/// Pages of a store's files in the page cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Residency {
    /// Pages that the files have on the disk: holes have none.
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
        // A page of a hole that was read is cached, and so may be one past the end while a file shrinks.
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

    const fn none() -> Self {
        Self { pages: 0, cached: 0, dirty: Reading::Measured(0), writeback: Reading::Measured(0) }
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

/// What disappears during a walk is left out, since a store may be merging its files.
fn is_absent(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

fn is_absent_or_unreadable(error: &io::Error) -> bool {
    is_absent(error) || error.kind() == io::ErrorKind::PermissionDenied
}

/// Regular files at or below `path`, each once however many links it has. `path` itself may be a link; links below it
/// are not followed. Left out are those of `without`, and what is below `path` and gives an error that is `left_out`.
fn files(path: &Path, without: &OwnFiles, left_out: fn(&io::Error) -> bool) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut visited = BTreeSet::new();
    let mut open = vec![path.to_owned()];
    while let Some(path) = open.pop() {
        let first = visited.is_empty();
        let is_left_out = |error: &io::Error| left_out(error) && !first;
        let metadata = match if first { fs::metadata(&path) } else { fs::symlink_metadata(&path) } {
            Err(error) if is_left_out(&error) => continue,
            result => result?,
        };
        if !visited.insert((metadata.dev(), metadata.ino())) {
            continue;
        }
        if metadata.is_dir() {
            match fs::read_dir(&path) {
                Err(error) if is_left_out(&error) => {}
                entries => {
                    open.extend(entries?.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>()?)
                }
            }
        } else if metadata.is_file() && !without.contains(&metadata) {
            found.push(path);
        }
    }
    Ok(found)
}

fn over_files<T: Clone>(
    path: &Path,
    (without, left_out): (&OwnFiles, fn(&io::Error) -> bool),
    start: T,
    add: impl Fn(T, &Path) -> io::Result<T>,
) -> Reading<T> {
    let all = files(path, without, left_out).and_then(|files| {
        files.iter().try_fold(start, |total, file| match add(total.clone(), file) {
            Err(error) if left_out(&error) => Ok(total),
            result => result,
        })
    });
    reading(&format!("`{}`", path.display()), all)
}

/// What was read of the store at `path`, or 0 where there is nothing by that name: a program may make its store later.
pub(crate) fn or_nothing(path: &Path, read: Reading<Bytes>) -> Reading<Bytes> {
    match read {
        Reading::Missing(_) if matches!(path.try_exists(), Ok(false)) => Reading::Measured(Bytes::default()),
        read => read,
    }
}

/// Size of all regular files at or below `path`, but for what this process itself writes, such as a results database beside a store.
pub(crate) fn disk_usage(path: &Path) -> Reading<DiskUsage> {
    over_files(path, (&OwnFiles::now(), is_absent), DiskUsage::default(), |total, file| {
        let metadata = fs::metadata(file)?;
        Ok(DiskUsage {
            length: total.length + Bytes::from_bytes(metadata.len()),
            // stat(2) counts blocks of 512 bytes on every file system.
            blocks: total.blocks + Bytes::from_bytes(metadata.blocks() * 512),
            files: total.files + 1,
        })
    })
}

/// Pages of all regular files at or below `path` in the page cache: by `cachestat`, or by `mincore` before Linux 6.5 and on
/// overlayfs, which knows nothing of dirty pages. Missing where one of the files is on a file system with a cache of its own, or
/// where the user neither owns nor may write it. What this process itself writes is left out.
pub fn resident(path: &Path) -> Reading<Residency> {
    resident_without(path, &OwnFiles::now())
}

fn resident_without(path: &Path, without: &OwnFiles) -> Reading<Residency> {
    let add = |total: Residency, file: &Path| Ok(total.plus(resident_file(&File::open(file)?)?));
    over_files(path, (without, is_absent), Residency::none(), add)
}

pub(crate) fn resident_file(file: &File) -> io::Result<Residency> {
    let about = file.metadata()?;
    // Stores extend their files far beyond what they have written: with its holes, one that is wholly in memory looks cold.
    let pages = about.len().min(about.blocks() * 512).div_ceil(rustix::param::page_size() as u64);
    if about.len() == 0 {
        return Ok(Residency { pages, ..Residency::none() });
    }
    let kind = fstatfs(file)?.f_type as u64;
    match counted(kind, || cachestat(file), || may_know(file))? {
        Ok(stat) => Ok(Residency {
            pages,
            cached: stat.cached,
            dirty: Reading::Measured(stat.dirty),
            writeback: Reading::Measured(stat.writeback),
        }),
        Err(unknown) => by_mincore(file, pages, &unknown),
    }
}

/// The kind of file system of overlayfs, by statfs(2). It keeps pages with the files of its layers: `cachestat` looks into those of
/// its own files, which have none, and a map is one of the file below.
const OVERLAYFS: u64 = 0x794c_7630;

/// Those of ZFS and GPFS, whose caches the kernel does not know: its calls find no pages and evict none.
const OWN_CACHE: [u64; 2] = [0x2fc1_2fc1, 0x4750_4653];

/// The pages of a file on this kind of file system by `cachestat`, or why `mincore` must count them.
///
/// # Errors
/// Where neither is true.
fn counted(
    kind: u64,
    cachestat: impl FnOnce() -> io::Result<CacheStat>,
    may_know: impl FnOnce() -> bool,
) -> io::Result<Result<CacheStat, Why>> {
    if OWN_CACHE.contains(&kind) {
        let what = "its file system has a cache of its own, of which the kernel reports nothing";
        return Err(io::Error::new(io::ErrorKind::Unsupported, what));
    }
    let unknown = match cachestat() {
        Ok(_) if kind == OVERLAYFS => Why::NotSupported("`cachestat` reports nothing on overlayfs".into()),
        Ok(stat) => return Ok(Ok(stat)),
        Err(error) => why("`cachestat`", &error),
    };
    if may_know() {
        return Ok(Err(unknown));
    }
    let what = "its pages in the page cache are reported only to who owns the file or may write it";
    Err(io::Error::new(io::ErrorKind::PermissionDenied, what))
}

/// Whether `mincore` reports the pages of a file: since Linux 5.2 (`can_do_mincore`) it reports to all others that all of them are
/// in memory.
fn may_know(file: &File) -> bool {
    let owned = || file.metadata().is_ok_and(|about| about.uid() == geteuid().as_raw());
    let itself = format!("/proc/self/fd/{}", file.as_raw_fd());
    owned() || accessat(CWD, itself, Access::WRITE_OK, AtFlags::EACCESS).is_ok()
}

fn by_mincore(file: &File, pages: u64, unknown: &Why) -> io::Result<Residency> {
    let cached = MappedFile::new(file)?.resident_pages(rustix::param::page_size())?;
    let unknown = || Reading::Missing(unknown.clone());
    Ok(Residency { pages, cached, dirty: unknown(), writeback: unknown() })
}

/// [`drop_cached`], and what stayed: the pages that some process has mapped (METHOD 5.1: close the store first). Whatever an engine in
/// this process still has open is among the files.
pub fn evict(path: &Path) -> Reading<Residency> {
    drop_cached(path).and_then(|()| resident_without(path, &OwnFiles::default()))
}

/// Writes all regular files at or below `path` to the disk and evicts them from the page cache. Files and directories that the
/// user may not read stay in it.
pub fn drop_cached(path: &Path) -> Reading<()> {
    over_files(path, (&OwnFiles::default(), is_absent_or_unreadable), (), |(), file| drop_pages(&File::open(file)?))
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

    /// Nothing was evicted where one directory could not be read.
    #[test]
    fn what_may_not_be_read_stays_and_all_else_is_evicted() {
        use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let (file, beside, closed) = (dir.path().join("file"), dir.path().join("beside"), dir.path().join("closed"));
        [&file, &beside].into_iter().for_each(|path| fs::write(path, [1; 10_000]).unwrap());
        fs::create_dir(&closed).unwrap();
        let allow = |mode| fs::set_permissions(&closed, fs::Permissions::from_mode(mode)).unwrap();
        allow(0o000);
        let dropped = std::thread::scope(|scope| {
            let without = || {
                // A thread has capabilities of its own (capabilities(7)).
                let own = capabilities(None).unwrap();
                let reads = CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
                set_capabilities(None, CapabilitySets { effective: own.effective - reads, ..own }).unwrap();
                assert!(fs::read_dir(&closed).is_err());
                assert!(disk_usage(dir.path()).measured().is_none(), "a size without it would be too small");
                drop_cached(dir.path())
            };
            scope.spawn(without).join().unwrap()
        });
        allow(0o755);
        assert_eq!(dropped, Reading::Measured(()));
        let cached = |path| resident_file(&File::open(path).unwrap()).unwrap().cached;
        // A file system in memory keeps its files there.
        let single = tempfile::NamedTempFile::new_in(dir.path()).unwrap();
        fs::write(single.path(), [1; 10_000]).unwrap();
        let expected = evict_file(single.as_file()).unwrap().cached;
        assert_eq!([cached(&file), cached(&beside)], [expected; 2]);
    }

    #[test]
    fn length_and_blocks_differ_for_a_sparse_file() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("below")).unwrap();
        let mut sparse = File::create(dir.path().join("below/sparse")).unwrap();
        sparse.seek(SeekFrom::Start(64 << 20)).unwrap();
        sparse.write_all(b"end").unwrap();
        sparse.sync_all().unwrap();
        drop(sparse);
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

    /// To close a descriptor of the results database would remove the locks of SQLite on it.
    #[test]
    fn what_this_process_writes_is_no_part_of_a_store() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("data"), [1; 5000]).unwrap();
        let mut database = File::create(dir.path().join("prony.db")).unwrap();
        database.write_all(&[1; 50_000]).unwrap();
        assert_eq!(
            disk_usage(dir.path()).measured().map(|usage| (usage.files, usage.length.as_bytes())),
            Some((1, 5000))
        );
        let pages = |reading: Reading<Residency>| reading.measured().map(|found| found.pages);
        let of = |bytes: u64| Some(bytes.div_ceil(rustix::param::page_size() as u64));
        assert_eq!(pages(resident(dir.path())), of(5000));
        assert_eq!(pages(evict(dir.path())), of(5000).zip(of(50_000)).map(|(a, b)| a + b), "all that a worker has");
    }

    /// Of a store whose file was extended to 64 MiB when it was opened, 0.4 % was cached though all of it was.
    #[test]
    fn holes_are_no_pages_of_a_store() {
        let dir = tempfile::tempdir().unwrap();
        let mut sparse = File::create_new(dir.path().join("sparse")).unwrap();
        sparse.write_all(&[1; 256 << 10]).unwrap();
        sparse.set_len(64 << 20).unwrap();
        sparse.sync_all().unwrap();
        // This process writes it, and it counts here all the same.
        let found = || resident_without(dir.path(), &OwnFiles::default());
        let share = || found().measured().and_then(Residency::share);
        // Blocks of the file's map may be counted too.
        assert!(share().is_some_and(|share| share > 0.8), "{:?}", found());
        // What is read of a hole is cached too.
        std::io::copy(&mut File::open(dir.path().join("sparse")).unwrap(), &mut std::io::sink()).unwrap();
        assert_eq!(share(), Some(1.0));
        sparse.set_len(0).unwrap();
        sparse.set_len(64 << 20).unwrap();
        let without_data = found();
        assert_eq!(without_data.measured().map(|found| (found.pages, found.share())), Some((0, None)));
    }

    #[test]
    fn an_empty_store_has_no_share() {
        let dir = tempfile::tempdir().unwrap();
        File::create(dir.path().join("empty")).unwrap();
        let found = resident(dir.path());
        assert_eq!(found.measured().map(|r| (r.pages, r.share())), Some((0, None)));
    }

    /// On overlayfs `cachestat` said 0 cached and 0 dirty pages of any file, and on ZFS both calls did.
    #[test]
    fn file_systems_whose_pages_a_call_does_not_find_are_known() {
        const EXT4: u64 = 0xef53;
        let stat = CacheStat { cached: 3, ..CacheStat::default() };
        let of = |kind: u64| counted(kind, || Ok(stat), || true).map_err(|error| error.kind());
        assert!(matches!(of(EXT4), Ok(Ok(stat)) if stat.cached == 3));
        assert!(matches!(of(OVERLAYFS), Ok(Err(Why::NotSupported(text))) if text.contains("overlayfs")));
        assert!(OWN_CACHE.iter().all(|kind| matches!(of(*kind), Err(io::ErrorKind::Unsupported))));
    }

    /// `mincore` reports that all pages of other users' files are in memory.
    #[test]
    fn mincore_is_not_asked_about_files_that_one_neither_owns_nor_may_write() {
        let refused = |errno: rustix::io::Errno, may_know: bool| {
            counted(0xef53, || Err(errno.into()), || may_know).map(Result::unwrap_err).map_err(|error| error.kind())
        };
        let (new, denied) = (rustix::io::Errno::NOSYS, rustix::io::Errno::PERM);
        assert!(matches!(refused(new, true), Ok(Why::NotSupported(_))));
        assert!(matches!(refused(denied, true), Ok(Why::NotPermitted(_))));
        assert!([new, denied].iter().all(|errno| refused(*errno, false) == Err(io::ErrorKind::PermissionDenied)));
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(may_know(file.as_file()));
        if !geteuid().is_root() {
            assert!(!may_know(&File::open("/etc/passwd").unwrap()));
        }
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
