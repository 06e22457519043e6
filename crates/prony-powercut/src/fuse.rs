//! Answers the kernel's requests from a disk.
//!
//! The kernel caches contents and attributes, since every change comes from itself: maps work, and reads rarely arrive.
//! It does not cache writes: each `write` arrives before it returns. Dirty pages of maps arrive at `msync`, at `fsync`, and
//! when the kernel writes them back. The kernel keeps the locks.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::{FallocateFlags, OFlags, SeekFrom, StatVfs, statvfs};

use crate::disk::{Disk, Done, Kind, New, lock};
use crate::log::{Attributes, Ino};
use crate::settings::Settings;

/// How long the kernel may cache names and attributes: nobody else changes them.
const CACHED: Duration = Duration::from_secs(86_400);

/// Bytes of one write request at most; the kernel splits larger writes anyway.
const MOST_WRITTEN: u32 = 1 << 20;

/// A disk, and what is to be simulated beside it.
pub(crate) struct Server {
    disk: Arc<Mutex<Disk>>,
    latency: Duration,
    sync_latency: Duration,
    /// After a synchronous write the kernel sends an `fsync` of the whole file, from the same thread and handle. The write
    /// is durable then, and other writes of the file are not: this request is no call of the program.
    implied: Mutex<HashMap<u32, u64>>,
}

fn number(error: rustix::io::Errno) -> Errno {
    Errno::from_i32(error.raw_os_error())
}

impl Server {
    pub(crate) fn new(disk: Arc<Mutex<Disk>>, settings: &Settings) -> Self {
        let (latency, sync_latency) = (settings.latency.to_duration(), settings.sync_latency.to_duration());
        Self { disk, latency, sync_latency, implied: Mutex::default() }
    }

    /// The disk, after the time that each request takes, and with everything durable that is due.
    fn disk(&self) -> MutexGuard<'_, Disk> {
        if !self.latency.is_zero() {
            sleep(self.latency);
        }
        let mut disk = lock(&self.disk);
        // What cannot be made durable stays pending.
        let _ = disk.write_back();
        disk
    }

    fn wait_for_sync(&self) {
        if !self.sync_latency.is_zero() {
            sleep(self.sync_latency);
        }
    }

    fn implied(&self) -> MutexGuard<'_, HashMap<u32, u64>> {
        self.implied.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn entry(disk: &Disk, ino: Done<Ino>, reply: ReplyEntry) {
        match ino.and_then(|ino| attributes(disk, ino)) {
            Ok(found) => reply.entry(&CACHED, &found, Generation(0)),
            Err(error) => reply.error(number(error)),
        }
    }

    fn create_entry(
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

    fn write_data(&self, (ino, fh): (Ino, u64), offset: u64, data: &[u8], flags: i32, thread: u32) -> Done {
        let flags = OFlags::from_bits_retain(flags as u32);
        let seq = self.disk().write(ino, offset, data)?;
        // `O_SYNC` contains the bit of `O_DSYNC`.
        if !flags.contains(OFlags::DSYNC) {
            // Where the kernel sent no `fsync` for an earlier write, the next one is of the program.
            self.implied().remove(&thread);
            return Ok(());
        }
        self.wait_for_sync();
        lock(&self.disk).sync_write(ino, seq)?;
        if !flags.contains(OFlags::DIRECT) {
            self.implied().insert(thread, fh);
        }
        Ok(())
    }

    fn synchronize(&self, ino: Ino, data_only: bool, reply: ReplyEmpty) {
        self.wait_for_sync();
        empty(self.disk().sync(ino, data_only), reply);
    }

    fn change_attributes(&self, ino: Ino, changes: &Changes) -> Done<FileAttr> {
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

    fn allocate(&self, ino: Ino, (offset, len): (u64, u64), mode: i32) -> Done {
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
        let size = attributes(&disk, ino)?.size;
        if !mode.contains(FallocateFlags::KEEP_SIZE) && end > size {
            disk.resize(ino, end)?;
        }
        Ok(())
    }
}

/// What `setattr` is to change.
struct Changes {
    size: Option<u64>,
    mode: Option<u32>,
    uid: Option<u32>,
    gid: Option<u32>,
    /// Access and modification.
    times: [Option<TimeOrNow>; 2],
}

fn owned(request: &Request, mode: u32) -> Attributes {
    Attributes { mode: mode & 0o7777, uid: request.uid(), gid: request.gid() }
}

fn empty(done: Done, reply: ReplyEmpty) {
    match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(number(error)),
    }
}

const fn file_type(kind: &Kind) -> FileType {
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

fn attributes(disk: &Disk, ino: Ino) -> Done<FileAttr> {
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

/// Space of the file system that the state directory is on, or what the quota leaves of it.
fn space(disk: &Disk) -> Done<StatVfs> {
    let mut space = statvfs(disk.files.directory())?;
    if let Some((quota, used)) = disk.usage() {
        (space.f_frsize, space.f_blocks) = (512, quota);
        space.f_bfree = quota.saturating_sub(used);
        space.f_bavail = space.f_bfree;
    }
    Ok(space)
}

impl Filesystem for Server {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Older kernels offer less: then requests are only slower.
        let _ = config.add_capabilities(InitFlags::FUSE_PARALLEL_DIROPS | InitFlags::FUSE_CACHE_SYMLINKS);
        let _ = config.set_max_write(MOST_WRITTEN);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let disk = self.disk();
        Self::entry(&disk, disk.lookup(parent.0, name), reply);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match attributes(&self.disk(), ino.0) {
            Ok(found) => reply.attr(&CACHED, &found),
            Err(error) => reply.error(number(error)),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        match self.change_attributes(ino.0, &Changes { size, mode, uid, gid, times: [atime, mtime] }) {
            Ok(found) => reply.attr(&CACHED, &found),
            Err(error) => reply.error(number(error)),
        }
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        match self.disk().inode(ino.0).map(|inode| &inode.kind) {
            Ok(Kind::Symlink(target)) => reply.data(target.as_encoded_bytes()),
            Ok(_) => reply.error(Errno::EINVAL),
            Err(error) => reply.error(number(error)),
        }
    }

    fn mknod(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, rdev: u32, reply: ReplyEntry) {
        let new = match rustix::fs::FileType::from_raw_mode(mode) {
            rustix::fs::FileType::RegularFile => New::File,
            _ => New::Special(mode, rdev),
        };
        self.create_entry(request, (parent, name), new, mode, reply);
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, reply: ReplyEntry) {
        self.create_entry(request, (parent, name), New::Directory, mode, reply);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        self.create_entry(request, (parent, name), New::Symlink(target.as_os_str().to_owned()), 0o777, reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(self.disk().remove(parent.0, name, false), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(self.disk().remove(parent.0, name, true), reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        to: INodeNo,
        new: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (from, to) = ((parent.0, name), (to.0, new));
        let mut disk = self.disk();
        let done = if flags.contains(RenameFlags::RENAME_EXCHANGE) {
            disk.exchange(from, to)
        } else if flags.contains(RenameFlags::RENAME_WHITEOUT) {
            Err(rustix::io::Errno::INVAL)
        } else {
            disk.rename(from, to, !flags.contains(RenameFlags::RENAME_NOREPLACE))
        };
        empty(done, reply);
    }

    fn link(&self, _: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let mut disk = self.disk();
        let linked = disk.link(ino.0, parent.0, name).map(|()| ino.0);
        Self::entry(&disk, linked, reply);
    }

    fn open(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.disk().open(ino.0) {
            // Without a flush, closing a file does not write dirty pages of its maps, as on a disk.
            Ok(()) => reply.opened(FileHandle(ino.0), FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_NOFLUSH),
            Err(error) => reply.error(number(error)),
        }
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let mut disk = self.disk();
        let exclusive = OFlags::from_bits_retain(flags as u32).contains(OFlags::EXCL);
        let made = match disk.create(parent.0, name, New::File, owned(request, mode)) {
            Err(rustix::io::Errno::EXIST) if !exclusive => disk.lookup(parent.0, name),
            made => made,
        };
        match made.and_then(|ino| disk.open(ino).and_then(|()| attributes(&disk, ino))) {
            Ok(found) => {
                let flags = FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_NOFLUSH;
                reply.created(&CACHED, &found, Generation(0), FileHandle(found.ino.0), flags);
            }
            Err(error) => reply.error(number(error)),
        }
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.disk().read(ino.0, offset, u64::from(size)) {
            Ok(data) => reply.data(&data),
            Err(error) => reply.error(number(error)),
        }
    }

    fn write(
        &self,
        request: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        how: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        // Pages of a map that the kernel writes back have a handle that it guessed.
        let flags = if how.contains(WriteFlags::FUSE_WRITE_CACHE) { 0 } else { flags.0 };
        match self.write_data((ino.0, fh.0), offset, data, flags, request.pid()) {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(number(error)),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn release(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.disk().release(ino.0);
        reply.ok();
    }

    fn fsync(&self, request: &Request, ino: INodeNo, fh: FileHandle, data_only: bool, reply: ReplyEmpty) {
        if self.implied().remove(&request.pid()) == Some(fh.0) {
            return reply.ok();
        }
        self.synchronize(ino.0, data_only, reply);
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.disk().open(ino.0) {
            Ok(()) => reply.opened(FileHandle(ino.0), FopenFlags::empty()),
            Err(error) => reply.error(number(error)),
        }
    }

    fn readdir(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let disk = self.disk();
        let images = match disk.directory(ino.0) {
            Ok(images) => images,
            Err(error) => return reply.error(number(error)),
        };
        // Positions 1 and 2 are those of `.` and `..`; the others follow.
        let own =
            [(1, ".", ino.0), (2, "..", images.parent)].into_iter().map(|(at, name, ino)| (at, OsStr::new(name), ino));
        let rest = images.current.iter_after(offset.saturating_sub(2)).map(|(at, name, ino)| (at + 2, name, ino));
        for (at, name, ino) in own.filter(|(at, ..)| *at > offset).chain(rest) {
            let kind = disk.inode(ino).map_or(FileType::Directory, |inode| file_type(&inode.kind));
            if reply.add(INodeNo(ino), at, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(&self, _: &Request, ino: INodeNo, _: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.disk().release(ino.0);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, data_only: bool, reply: ReplyEmpty) {
        self.synchronize(ino.0, data_only, reply);
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        match space(&self.disk()) {
            Ok(space) => reply.statfs(
                space.f_blocks,
                space.f_bfree,
                space.f_bavail,
                space.f_files,
                space.f_ffree,
                4096,
                255,
                space.f_frsize as u32,
            ),
            Err(error) => reply.error(number(error)),
        }
    }

    fn fallocate(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        empty(self.allocate(ino.0, (offset, length), mode), reply);
    }

    fn lseek(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: i64, whence: i32, reply: ReplyLseek) {
        /// `SEEK_DATA` of Linux; the kernel answers all but this and `SEEK_HOLE` itself.
        const DATA: i32 = 3;
        let offset = offset as u64;
        let to = if whence == DATA { SeekFrom::Data(offset) } else { SeekFrom::Hole(offset) };
        let disk = self.disk();
        let found = match disk.inode(ino.0).map(|inode| &inode.kind) {
            Ok(Kind::File(images)) => images.current.seek(to),
            Ok(_) => Err(rustix::io::Errno::INVAL),
            Err(error) => Err(error),
        };
        match found {
            Ok(at) => reply.offset(at as i64),
            Err(error) => reply.error(number(error)),
        }
    }
}
