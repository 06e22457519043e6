//! Answers the kernel's requests from a disk.
//!
//! The kernel caches contents and attributes, since every change comes from itself: maps work, and reads rarely arrive.
//! It does not cache writes: each `write` arrives before it returns. Dirty pages of maps arrive at `msync`, at `fsync`, and
//! when the kernel writes them back. The kernel keeps the locks.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::time::SystemTime;

use fuser::{
    BsdFileFlags, Errno, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry,
    ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::{OFlags, SeekFrom};

use crate::inode::{Kind, New};
use crate::requests::{CACHED, Changes, Server, Write, attributes, empty, file_type, nothing, number, owned, space};

/// Bytes of one write request at most; the kernel splits larger writes anyway.
const MOST_WRITTEN: u32 = 1 << 20;

impl Filesystem for Server {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Older kernels offer less: then requests are only slower.
        let _ = config.add_capabilities(InitFlags::FUSE_PARALLEL_DIROPS | InitFlags::FUSE_CACHE_SYMLINKS);
        let _ = config.set_max_write(MOST_WRITTEN);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let disk = self.disk();
        match disk.lookup(parent.0, name) {
            // The kernel caches that there is no such name.
            Err(rustix::io::Errno::NOENT) if disk.inode(parent.0).is_ok() => {
                reply.entry(&CACHED, &nothing(), Generation(0));
            }
            found => Self::entry(&disk, found, reply),
        }
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
            Ok(()) => reply.opened(self.handle(), FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_NOFLUSH),
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
                reply.created(&CACHED, &found, Generation(0), self.handle(), flags);
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
        let is_of_map = how.contains(WriteFlags::FUSE_WRITE_CACHE);
        let (ino, handle, thread) = (ino.0, fh.0, request.pid());
        match self.write_data(Write { ino, handle, offset, data, flags: flags.0, is_of_map, thread }) {
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
        empty(self.synchronize(ino.0, (request.pid(), fh.0), data_only), reply);
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
        empty(self.synchronize_all(ino.0, data_only, |counts| &mut counts.directory_syncs), reply);
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
