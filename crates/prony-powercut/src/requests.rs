//! What the requests of the kernel do to a disk.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use fuser::{Errno, FileAttr, FileHandle, FileType, Generation, INodeNo, ReplyEmpty, ReplyEntry, Request, TimeOrNow};
use prony_os::{O_DSYNC, O_SYNC};
use rustix::fs::{FallocateFlags, StatVfs, statvfs};

use crate::disk::{Disk, Done, lock};
use crate::inode::{Kind, New};
use crate::log::{Attributes, Ino};
use crate::progress::Busy;
use crate::report::Counts;
use crate::settings::Settings;

/// How long the kernel may cache names and attributes: nobody else changes them.
pub(crate) const CACHED: Duration = Duration::from_secs(86_400);

/// A disk, and what is to be simulated beside it.
pub(crate) struct Server {
    disk: Arc<Mutex<Disk>>,
    latency: Duration,
    sync_latency: Duration,
    /// After a synchronous write the kernel sends an `fsync` of the whole file, from the same thread and handle. It concerns
    /// what was written, and is no call of the program. By thread.
    implied: Mutex<HashMap<u32, Implied>>,
    handles: AtomicU64,
}

/// An `fsync` that the kernel sends by itself: the handle, and the first and last byte that were written.
#[derive(Clone, Copy)]
struct Implied {
    handle: u64,
    range: (u64, u64),
}

/// The disk while a request uses it.
pub(crate) struct Using<'s> {
    disk: MutexGuard<'s, Disk>,
    _busy: Busy,
}

impl Deref for Using<'_> {
    type Target = Disk;

    fn deref(&self) -> &Disk {
        &self.disk
    }
}

impl DerefMut for Using<'_> {
    fn deref_mut(&mut self) -> &mut Disk {
        &mut self.disk
    }
}

/// A write request.
#[derive(Clone, Copy)]
pub(crate) struct Write<'d> {
    pub(crate) ino: Ino,
    pub(crate) handle: u64,
    pub(crate) offset: u64,
    pub(crate) data: &'d [u8],
    /// Flags of the handle, with those of the call.
    pub(crate) flags: i32,
    /// Pages of a map, which the kernel sends for nobody in particular.
    pub(crate) is_of_map: bool,
    pub(crate) thread: u32,
}

pub(crate) fn number(error: rustix::io::Errno) -> Errno {
    Errno::from_i32(error.raw_os_error())
}

impl Server {
    pub(crate) fn new(disk: Arc<Mutex<Disk>>, settings: &Settings) -> Self {
        let (latency, sync_latency) = (settings.latency.to_duration(), settings.sync_latency.to_duration());
        Self { disk, latency, sync_latency, implied: Mutex::default(), handles: AtomicU64::new(1) }
    }

    /// The disk, after the time that each request takes, and with everything durable that is due.
    pub(crate) fn disk(&self) -> Using<'_> {
        if !self.latency.is_zero() {
            sleep(self.latency);
        }
        let mut disk = self.locked_disk();
        disk.requests += 1;
        // What cannot be made durable stays pending.
        let _ = disk.write_back();
        disk
    }

    /// The disk once more in the same request.
    fn locked_disk(&self) -> Using<'_> {
        let busy = Busy::begin();
        Using { disk: lock(&self.disk), _busy: busy }
    }

    fn wait_for_sync(&self) {
        if !self.sync_latency.is_zero() {
            sleep(self.sync_latency);
        }
    }

    fn implied(&self) -> MutexGuard<'_, HashMap<u32, Implied>> {
        self.implied.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number that no other handle has.
    pub(crate) fn handle(&self) -> FileHandle {
        FileHandle(self.handles.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn entry(disk: &Disk, ino: Done<Ino>, reply: ReplyEntry) {
        match ino.and_then(|ino| attributes(disk, ino)) {
            Ok(found) => reply.entry(&CACHED, &found, Generation(0)),
            Err(error) => reply.error(number(error)),
        }
    }

    pub(crate) fn create_entry(
        &self,
        request: &Request,
        (parent, name): (INodeNo, &OsStr),
        new: New,
        mode: u32,
        reply: ReplyEntry,
    ) {
        let mut disk = self.disk();
        let made = disk.create(parent.0, name, new, owned(request, mode));
        Self::entry(&disk, made, reply);
    }

    pub(crate) fn write_data(&self, write: Write<'_>) -> Done {
        let Write { ino, offset, data, .. } = write;
        let is_synchronous = !write.is_of_map && write.flags & O_DSYNC == O_DSYNC;
        {
            let mut disk = self.disk();
            disk.write(ino, offset, data)?;
            match is_synchronous {
                true => disk.counts.synchronous_writes += 1,
                false => disk.counts.writes += 1,
            }
            let (request, range) = (disk.requests, (offset, offset + data.len() as u64));
            let written = &mut disk.inode_mut(ino)?.written;
            match write.is_of_map {
                true => written.note_pages(request, range),
                false => written.note_call(),
            }
        }
        if !is_synchronous {
            if !write.is_of_map {
                // Where the kernel sent no `fsync` for an earlier write, the next one is of the program.
                self.implied().remove(&write.thread);
            }
            return Ok(());
        }
        self.wait_for_sync();
        let range = (offset, offset + data.len() as u64);
        self.locked_disk().sync_range(ino, range, write.flags & O_SYNC != O_SYNC)?;
        let mut implied = self.implied();
        // A large write arrives in several requests.
        let before = implied.get(&write.thread).filter(|before| before.handle == write.handle);
        let (begin, end) = before.map_or(range, |before| before.range);
        let range = (begin.min(range.0), end.max(range.1));
        implied.insert(write.thread, Implied { handle: write.handle, range });
        Ok(())
    }

    /// `fsync`, `fdatasync` or `msync`, or what the kernel sends after a synchronous write: then pages of a map that belong
    /// to the range of the write have arrived before it.
    pub(crate) fn synchronize(&self, ino: Ino, (thread, handle): (u32, u64), data_only: bool) -> Done {
        let implied = self.implied().remove(&thread).filter(|implied| implied.handle == handle);
        if let Some(Implied { range, .. }) = implied {
            return self.disk().sync_range(ino, range, data_only);
        }
        self.synchronize_all(ino, data_only, |counts| &mut counts.syncs)
    }

    pub(crate) fn synchronize_all(
        &self,
        ino: Ino,
        data_only: bool,
        count: impl FnOnce(&mut Counts) -> &mut u64,
    ) -> Done {
        self.wait_for_sync();
        let mut disk = self.disk();
        *count(&mut disk.counts) += 1;
        disk.sync(ino, data_only)
    }

    pub(crate) fn change_attributes(&self, ino: Ino, changes: &Changes) -> Done<FileAttr> {
        let mut disk = self.disk();
        if let Some(size) = changes.size {
            disk.resize(ino, size)?;
        }
        let before = disk.inode(ino)?.attributes;
        let after = Attributes {
            mode: changes.mode.map_or(before.mode, |mode| mode & 0o7777),
            uid: changes.uid.unwrap_or(before.uid),
            gid: changes.gid.unwrap_or(before.gid),
        };
        if after != before {
            disk.set_attributes(ino, after)?;
        }
        let times = &mut disk.inode_mut(ino)?.times;
        for (at, time) in changes.times.iter().enumerate() {
            match time {
                Some(TimeOrNow::SpecificTime(time)) => times[at] = *time,
                Some(TimeOrNow::Now) => times[at] = SystemTime::now(),
                None => {}
            }
        }
        attributes(&disk, ino)
    }

    pub(crate) fn allocate(&self, ino: Ino, (offset, len): (u64, u64), mode: i32) -> Done {
        let mode = FallocateFlags::from_bits_retain(mode as u32);
        let known = FallocateFlags::KEEP_SIZE | FallocateFlags::PUNCH_HOLE | FallocateFlags::ZERO_RANGE;
        if !known.contains(mode) {
            return Err(rustix::io::Errno::OPNOTSUPP);
        }
        let end = offset.checked_add(len).ok_or(rustix::io::Errno::FBIG)?;
        let mut disk = self.disk();
        if mode.intersects(FallocateFlags::PUNCH_HOLE | FallocateFlags::ZERO_RANGE) {
            disk.zero(ino, offset, len)?;
        }
        if !mode.contains(FallocateFlags::PUNCH_HOLE) {
            disk.preallocate(ino, offset, end)?;
        }
        let size = attributes(&disk, ino)?.size;
        if !mode.contains(FallocateFlags::KEEP_SIZE) && end > size {
            disk.resize(ino, end)?;
        }
        Ok(())
    }
}

/// What `setattr` is to change.
pub(crate) struct Changes {
    pub(crate) size: Option<u64>,
    pub(crate) mode: Option<u32>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    /// Access and modification.
    pub(crate) times: [Option<TimeOrNow>; 2],
}

pub(crate) fn owned(request: &Request, mode: u32) -> Attributes {
    Attributes { mode: mode & 0o7777, uid: request.uid(), gid: request.gid() }
}

pub(crate) fn empty(done: Done, reply: ReplyEmpty) {
    match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(number(error)),
    }
}

pub(crate) const fn file_type(kind: &Kind) -> FileType {
    match kind {
        Kind::File(_) => FileType::RegularFile,
        Kind::Directory(_) => FileType::Directory,
        Kind::Symlink(_) => FileType::Symlink,
        Kind::Special(kind, _) => match rustix::fs::FileType::from_raw_mode(*kind) {
            rustix::fs::FileType::Socket => FileType::Socket,
            rustix::fs::FileType::CharacterDevice => FileType::CharDevice,
            rustix::fs::FileType::BlockDevice => FileType::BlockDevice,
            _ => FileType::NamedPipe,
        },
    }
}

pub(crate) fn attributes(disk: &Disk, ino: Ino) -> Done<FileAttr> {
    let inode = disk.inode(ino)?;
    let (size, blocks) = match &inode.kind {
        Kind::File(images) => (images.current.size(), images.current.blocks()),
        Kind::Symlink(target) => (target.len() as u64, 0),
        _ => (0, 0),
    };
    let [atime, mtime, ctime] = inode.times;
    Ok(FileAttr {
        ino: INodeNo(ino),
        size,
        blocks,
        atime,
        mtime,
        ctime,
        crtime: ctime,
        kind: file_type(&inode.kind),
        perm: inode.attributes.mode as u16,
        nlink: disk.link_count(ino)?,
        uid: inode.attributes.uid,
        gid: inode.attributes.gid,
        rdev: if let Kind::Special(_, number) = inode.kind { number } else { 0 },
        blksize: 4096,
        flags: 0,
    })
}

/// What an entry without a file has: number 0 says that there is none.
pub(crate) const fn nothing() -> FileAttr {
    let never = SystemTime::UNIX_EPOCH;
    FileAttr {
        ino: INodeNo(0),
        size: 0,
        blocks: 0,
        atime: never,
        mtime: never,
        ctime: never,
        crtime: never,
        kind: FileType::RegularFile,
        perm: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 0,
        flags: 0,
    }
}

/// Space of the file system that the state directory is on, or what the quota leaves of it.
pub(crate) fn space(disk: &Disk) -> Done<StatVfs> {
    let mut space = statvfs(disk.files.directory())?;
    if let Some((quota, used)) = disk.usage() {
        (space.f_frsize, space.f_blocks) = (512, quota);
        space.f_bfree = quota.saturating_sub(used);
        space.f_bavail = space.f_bfree;
    }
    Ok(space)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::ROOT;

    /// It took the disk twice as two requests do: `--latency` delayed it twice.
    #[test]
    fn synchronous_write_is_one_request() {
        let top = tempfile::tempdir().unwrap();
        let disk = Disk::new(top.path(), &Settings::default(), (0, 0)).unwrap();
        let server = Server::new(Arc::new(Mutex::new(disk)), &Settings::default());
        let attributes = Attributes { mode: 0o644, uid: 0, gid: 0 };
        let ino = lock(&server.disk).create(ROOT, OsStr::new("a"), New::File, attributes).unwrap();
        let write = Write { ino, handle: 1, offset: 0, data: b"data", flags: O_DSYNC, is_of_map: false, thread: 1 };
        server.write_data(write).unwrap();
        let disk = lock(&server.disk);
        assert_eq!((disk.requests, disk.pending().bytes), (1, 0));
    }
}
