//! A disk in two images: the current one, which programs see, and the durable one, which a power failure leaves in any case.
//!
//! Every operation changes the current image at once and is appended to the log. What makes an operation durable (`sync`)
//! applies it to the durable image and removes it from the log, so that the log always has exactly the difference. A
//! file has two contents, a directory two maps of entries; whatever is in neither image and in no operation is removed.
//! This module has the operations on the current image, `durability` those between the two.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use crate::contents::{Contents, Nameless, most_files};
use crate::entries::{Entries, entry_weight};
use crate::inode::{DirectoryImages, FileImages, Inode, Kind, New};
use crate::log::{Attributes, Change, EntryChange, Ino, Log, OVERHEAD, Seq};
use crate::payload::Payloads;
use crate::ranges::Ranges;
use crate::report::{Counts, Limits, Pending, Status};
use crate::settings::{MetadataOrder, Settings, Unit};
use crate::writeback::Writeback;

/// The root directory.
pub(crate) const ROOT: Ino = 1;

/// What the cache writes as a whole.
pub(crate) const PAGE: u64 = Unit::Page.bytes();

/// What is counted of the server's memory beside pending operations and their data.
#[derive(Debug)]
pub(crate) struct Room {
    pub(crate) limit: u64,
    /// Files, directories and entries, in bytes.
    pub(crate) tables: u64,
    /// Files, and how many there may be.
    pub(crate) files: u64,
    pub(crate) most_files: u64,
    /// Data of operations up to this one were moved to the file where they were in memory.
    pub(crate) spilled: Seq,
}

/// The whole disk.
#[derive(Debug)]
pub(crate) struct Disk {
    pub(crate) inodes: HashMap<Ino, Inode>,
    next: Ino,
    pub(crate) log: Log,
    pub(crate) payloads: Payloads,
    pub(crate) files: Nameless,
    pub(crate) order: MetadataOrder,
    pub(crate) writeback: Writeback,
    quota: Option<u64>,
    /// Blocks of 512 bytes that the current contents occupy; counted where there is a quota.
    pub(crate) blocks: u64,
    /// The first error of a file in the state directory: from then on the images may be wrong.
    pub(crate) failure: Option<Errno>,
    pub(crate) room: Room,
    pub(crate) limits: Limits,
    pub(crate) counts: Counts,
    /// Requests of the kernel that used the disk.
    pub(crate) requests: u64,
}

pub(crate) type Done<T = ()> = Result<T, Errno>;

/// The disk, whatever became of the thread that used it last.
pub(crate) fn lock(disk: &Mutex<Disk>) -> MutexGuard<'_, Disk> {
    disk.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The error number of an error of a file in the state directory.
pub(crate) fn errno(error: io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

impl Disk {
    /// An empty disk, whose files are in `directory`; the root belongs to `uid` and `gid`.
    pub(crate) fn new(directory: &Path, settings: &Settings, (uid, gid): (u32, u32)) -> io::Result<Self> {
        let payloads = Payloads::new(Nameless::within(directory).create()?);
        Ok(Self::with(directory, settings, (uid, gid), payloads))
    }

    /// An empty disk with a place for the data of pending writes.
    pub(crate) fn with(directory: &Path, settings: &Settings, (uid, gid): (u32, u32), payloads: Payloads) -> Self {
        let files = Nameless::within(directory);
        let images = DirectoryImages::new(ROOT);
        let mut root = Inode::new(Kind::Directory(images), Attributes { mode: 0o755, uid, gid });
        (root.links, root.durable_links) = (1, 1);
        let (limit, tables, most_files) = (settings.memory.as_bytes(), root.weight(), most_files());
        let room = Room { limit, tables, files: 0, most_files, spilled: 0 };
        Self {
            inodes: HashMap::from([(ROOT, root)]),
            next: ROOT + 1,
            log: Log::default(),
            payloads,
            files,
            order: settings.metadata,
            writeback: Writeback::new(settings),
            quota: settings.quota.map(|quota| quota.as_bytes() / 512),
            blocks: 0,
            failure: None,
            room,
            limits: Limits::default(),
            counts: Counts::default(),
            requests: 0,
        }
    }

    /// The error number of an error of a file in the state directory, which no cut forgets.
    pub(crate) fn failed(&mut self, error: io::Error) -> Errno {
        let error = errno(error);
        *self.failure.get_or_insert(error)
    }

    /// What is not durable.
    pub(crate) fn pending(&self) -> Pending {
        self.log.pending()
    }

    /// What is not durable, and what happened since the mount.
    pub(crate) fn status(&self) -> Status {
        Status { pending: self.pending(), limits: self.limits, counts: self.counts }
    }

    /// The quota and what of it is used, in blocks of 512 bytes.
    pub(crate) fn usage(&self) -> Option<(u64, u64)> {
        self.quota.map(|quota| (quota, self.blocks))
    }

    pub(crate) fn inode(&self, ino: Ino) -> Done<&Inode> {
        self.inodes.get(&ino).ok_or(Errno::NOENT)
    }

    pub(crate) fn inode_mut(&mut self, ino: Ino) -> Done<&mut Inode> {
        self.inodes.get_mut(&ino).ok_or(Errno::NOENT)
    }

    fn file(&mut self, ino: Ino) -> Done<&mut FileImages> {
        match &mut self.inode_mut(ino)?.kind {
            Kind::File(file) => Ok(file),
            Kind::Directory(_) => Err(Errno::ISDIR),
            _ => Err(Errno::INVAL),
        }
    }

    pub(crate) fn directory(&self, ino: Ino) -> Done<&DirectoryImages> {
        match &self.inode(ino)?.kind {
            Kind::Directory(directory) => Ok(directory),
            _ => Err(Errno::NOTDIR),
        }
    }

    fn entries(&mut self, ino: Ino) -> Done<&mut Entries> {
        match &mut self.inode_mut(ino)?.kind {
            Kind::Directory(directory) => Ok(&mut directory.current),
            _ => Err(Errno::NOTDIR),
        }
    }

    pub(crate) fn lookup(&self, dir: Ino, name: &OsStr) -> Done<Ino> {
        self.directory(dir)?.current.get(name).ok_or(Errno::NOENT)
    }

    pub(crate) fn open(&mut self, ino: Ino) -> Done {
        self.inode_mut(ino)?.open += 1;
        Ok(())
    }

    pub(crate) fn release(&mut self, ino: Ino) {
        if let Some(inode) = self.inodes.get_mut(&ino) {
            inode.open = inode.open.saturating_sub(1);
            // As `ext4_release_file` does.
            if std::mem::take(&mut inode.is_cleared) {
                self.flush_delayed(ino, self.log.next());
            }
        }
        self.collect(ino);
    }

    /// As `ext4_alloc_da_blocks`, from an operation on: all data of a file are sent where a page waits for its place, and none
    /// where each has one.
    fn flush_delayed(&mut self, ino: Ino, seq: Seq) {
        if self.order.flushes_replacements() && self.has_delayed(ino) {
            self.log.set_flush(seq, ino);
        }
    }

    /// Whether a page of a file's pending data has no place on the disk, neither from before nor by `fallocate`.
    fn has_delayed(&self, ino: Ino) -> bool {
        let Some(inode) = self.inodes.get(&ino) else { return false };
        let Kind::File(images) = &inode.kind else { return false };
        let is_freed = self.freed(ino);
        let is_delayed = |page: u64| {
            let (begin, end) = (page * PAGE, (page + 1) * PAGE);
            let has_place = inode.preallocated.within(begin, end).next().is_some()
                || (images.has_place(begin, begin + 1) && !is_freed(begin));
            // What was truncated or made a hole since then waits for nothing.
            !has_place && images.current.seek(SeekFrom::Data(begin)).is_ok_and(|data| data < end)
        };
        inode.pending.iter().any(|seq| match self.log.get(*seq) {
            Some(Change::Write { left, .. }) => {
                left.iter().any(|(begin, end)| (begin / PAGE..end.div_ceil(PAGE)).any(is_delayed))
            }
            _ => false,
        })
    }

    pub(crate) fn read(&mut self, ino: Ino, offset: u64, len: u64) -> Done<Vec<u8>> {
        self.file(ino)?.current.read(offset, len).map_err(errno)
    }

    /// Writes data: by a call of a program, or pages of a map that the kernel sends.
    pub(crate) fn write(&mut self, ino: Ino, offset: u64, data: &[u8]) -> Done<Seq> {
        let end = offset.checked_add(data.len() as u64).filter(|end| i64::try_from(*end).is_ok()).ok_or(Errno::FBIG)?;
        self.make_room(OVERHEAD)?;
        let room = self.free_room().saturating_sub(OVERHEAD);
        let payload = self.payloads.store(data, room).map_err(|error| self.failed(error))?;
        let written = self.within_quota(ino, (offset, data.len() as u64), |contents| contents.write(offset, data));
        let size = match written {
            Ok(size) => size,
            Err(error) => {
                self.payloads.release(&payload);
                return Err(error);
            }
        };
        let seq = self.log_of(ino, Change::Write { ino, offset, data: payload, left: Ranges::one(offset, end) })?;
        if end > size {
            self.inode_mut(ino)?.data_touched = seq;
            if let Some(published) = self.published(ino, (offset, end), size) {
                self.log.set_growth(seq, ino, published);
            }
        }
        Ok(seq)
    }

    /// The size that the journal may have before the data of a write that grows a file: ext4 sets the size at once where the
    /// last page has its place on the disk already (`ext4_da_do_write_end`), otherwise when it finds a place for the data.
    fn published(&mut self, ino: Ino, (offset, end): (u64, u64), size: u64) -> Option<u64> {
        if self.order.is_posix() {
            return Some(end);
        }
        let page = size / PAGE * PAGE;
        let durable = self.file(ino).ok()?.durable.as_ref()?;
        let is_there = size > page && offset < page + PAGE && durable.is_allocated(page, 1);
        (is_there && !self.freed(ino)(page)).then(|| end.min(page + PAGE))
    }

    /// Which pages, by their offsets, lose their places by pending truncations and holes: data that are written to such a page
    /// then get a new one (see `survivors`).
    pub(crate) fn freed(&self, ino: Ino) -> impl Fn(u64) -> bool + use<> {
        let (mut from, mut holes) = (u64::MAX, Vec::new());
        let pending = self.inodes.get(&ino).map(|inode| &inode.pending);
        for change in pending.into_iter().flatten().filter_map(|seq| self.log.get(*seq)) {
            match change {
                Change::Resize { size, .. } => from = from.min(*size),
                Change::Zero { left, .. } => holes.extend(left.iter()),
                _ => {}
            }
        }
        move |page| from <= page || holes.iter().any(|(begin, end)| *begin <= page && page + PAGE <= *end)
    }

    /// Changes contents where the quota allows it; the size before.
    fn within_quota(
        &mut self,
        ino: Ino,
        (offset, len): (u64, u64),
        change: impl FnOnce(&mut Contents) -> io::Result<()>,
    ) -> Done<u64> {
        let room = self.quota.map(|quota| quota.saturating_sub(self.blocks));
        let contents = &mut self.file(ino)?.current;
        let size = contents.size();
        let Some(room) = room else {
            return change(contents).map(|()| size).map_err(|error| self.failed(error));
        };
        if len.div_ceil(512) > room && !contents.is_allocated(offset, len) {
            return Err(Errno::NOSPC);
        }
        let before = contents.blocks();
        let done = change(contents);
        let after = contents.blocks();
        done.map_err(|error| self.failed(error))?;
        self.blocks = (self.blocks + after).saturating_sub(before);
        Ok(size)
    }

    /// Appends an operation on contents or attributes of an inode.
    fn log_of(&mut self, ino: Ino, change: Change) -> Done<Seq> {
        let of_contents = !matches!(change, Change::Attributes { .. });
        let seq = self.log.push(change);
        let now = SystemTime::now();
        let inode = self.inode_mut(ino)?;
        inode.pending.push_back(seq);
        inode.times[2] = now;
        if of_contents {
            inode.times[1] = now;
        }
        Ok(seq)
    }

    /// Truncates or extends.
    pub(crate) fn resize(&mut self, ino: Ino, size: u64) -> Done {
        if i64::try_from(size).is_err() {
            return Err(Errno::FBIG);
        }
        self.make_room(2 * OVERHEAD)?;
        let before = self.within_quota(ino, (size, 0), |contents| contents.resize(size))?;
        let seq = self.log_of(ino, Change::Resize { ino, size })?;
        let end = size.next_multiple_of(PAGE).min(before);
        if size < end {
            // The rest of the last page becomes zero, which is written as data are: also where the truncation is lost.
            self.log_of(ino, Change::Zero { ino, left: Ranges::one(size, end) })?;
        }
        let inode = self.inode_mut(ino)?;
        (inode.touched, inode.data_touched) = (seq, seq);
        // As `ext4_truncate` does, which `ext4_setattr` also calls for a file that is empty already.
        inode.is_cleared |= size == 0;
        if size <= before {
            // As `ext4_truncate`, which an extension does not call.
            inode.preallocated.remove(size.next_multiple_of(PAGE), u64::MAX);
        }
        Ok(())
    }

    /// Gives the pages between two offsets a place on the disk, as `fallocate` does.
    pub(crate) fn preallocate(&mut self, ino: Ino, offset: u64, end: u64) -> Done {
        self.inode_mut(ino)?.preallocated.add(offset / PAGE * PAGE, end.next_multiple_of(PAGE));
        Ok(())
    }

    /// Makes a hole in a file; its size stays.
    pub(crate) fn zero(&mut self, ino: Ino, offset: u64, len: u64) -> Done {
        let whole = (offset.next_multiple_of(PAGE), (offset + len) / PAGE * PAGE);
        if whole.0 < whole.1 {
            self.inode_mut(ino)?.preallocated.remove(whole.0, whole.1);
        }
        let len = len.min(self.file(ino)?.current.size().saturating_sub(offset));
        if len == 0 {
            return Ok(());
        }
        self.make_room(OVERHEAD)?;
        // Where there is a hole already, nothing changes: a sparse file may be far larger than its data.
        let data = self.file(ino)?.current.data_within(offset, offset + len);
        let left = data.map_err(|error| self.failed(error))?;
        self.within_quota(ino, (offset, 0), |contents| contents.zero(offset, len))?;
        if !left.is_empty() {
            self.log_of(ino, Change::Zero { ino, left })?;
        }
        Ok(())
    }

    pub(crate) fn set_attributes(&mut self, ino: Ino, attributes: Attributes) -> Done {
        self.make_room(OVERHEAD)?;
        self.inode_mut(ino)?.attributes = attributes;
        let seq = self.log_of(ino, Change::Attributes { ino, attributes })?;
        self.inode_mut(ino)?.touched = seq;
        Ok(())
    }

    /// Makes an inode and an entry for it.
    pub(crate) fn create(&mut self, dir: Ino, name: &OsStr, new: New, mut attributes: Attributes) -> Done<Ino> {
        let parent = self.inode(dir)?;
        if parent.links == 0 {
            return Err(Errno::NOENT);
        }
        if parent.attributes.mode & 0o2000 != 0 {
            attributes.gid = parent.attributes.gid;
            attributes.mode |= if matches!(new, New::Directory) { 0o2000 } else { 0 };
        }
        if self.directory(dir)?.current.get(name).is_some() {
            return Err(Errno::EXIST);
        }
        let kind = match new {
            New::File => {
                self.make_room_for_file()?;
                let current = Contents::new(self.files.create().map_err(errno)?);
                Kind::File(FileImages { current, durable: None, saved: None })
            }
            New::Directory => Kind::Directory(DirectoryImages::new(dir)),
            New::Symlink(target) => Kind::Symlink(target),
            New::Special(kind, number) => Kind::Special(kind, number),
        };
        let inode = Inode::new(kind, attributes);
        self.make_room_for_name(inode.weight(), name)?;
        let ino = self.next;
        self.next += 1;
        self.room.tables += inode.weight();
        self.room.files += u64::from(matches!(inode.kind, Kind::File(_)));
        self.inodes.insert(ino, inode);
        self.change_entries(vec![(dir, name, Some(ino))])?;
        Ok(ino)
    }

    pub(crate) fn link(&mut self, ino: Ino, dir: Ino, name: &OsStr) -> Done {
        if self.inode(ino)?.is_directory() {
            return Err(Errno::PERM);
        }
        // As `linkat`: what was unlinked has no name to begin with.
        if self.inode(ino)?.links == 0 || self.inode(dir)?.links == 0 {
            return Err(Errno::NOENT);
        }
        if self.directory(dir)?.current.get(name).is_some() {
            return Err(Errno::EXIST);
        }
        self.make_room_for_name(0, name)?;
        self.change_entries(vec![(dir, name, Some(ino))]).map(drop)
    }

    /// Whether an inode may lose its name to the removal or the rename of a directory, or of something else.
    fn check_removable(&self, ino: Ino, by_directory: bool) -> Done {
        match (&self.inode(ino)?.kind, by_directory) {
            (Kind::Directory(images), true) if !images.current.is_empty() => Err(Errno::NOTEMPTY),
            (Kind::Directory(_), false) => Err(Errno::ISDIR),
            (Kind::Directory(_), true) | (_, false) => Ok(()),
            (_, true) => Err(Errno::NOTDIR),
        }
    }

    pub(crate) fn remove(&mut self, dir: Ino, name: &OsStr, is_directory: bool) -> Done {
        self.check_removable(self.lookup(dir, name)?, is_directory)?;
        self.make_room(OVERHEAD + entry_weight(name))?;
        self.change_entries(vec![(dir, name, None)]).map(drop)
    }

    pub(crate) fn rename(&mut self, (dir, name): (Ino, &OsStr), (to, new): (Ino, &OsStr), replace: bool) -> Done {
        let ino = self.lookup(dir, name)?;
        let target = self.directory(to)?.current.get(new);
        if let Some(target) = target {
            if !replace {
                return Err(Errno::EXIST);
            }
            if target == ino {
                return Ok(());
            }
            self.check_removable(target, self.inode(ino)?.is_directory())?;
        }
        self.make_room_for_name(entry_weight(name), new)?;
        let seq = self.change_entries(vec![(dir, name, None), (to, new, Some(ino))])?;
        // As `ext4_rename` does.
        if target.is_some() {
            self.flush_delayed(ino, seq);
        }
        Ok(())
    }

    pub(crate) fn exchange(&mut self, (dir, name): (Ino, &OsStr), (to, new): (Ino, &OsStr)) -> Done {
        let (a, b) = (self.lookup(dir, name)?, self.lookup(to, new)?);
        self.make_room(2 * OVERHEAD + entry_weight(name) + entry_weight(new))?;
        self.change_entries(vec![(dir, name, Some(b)), (to, new, Some(a))]).map(drop)
    }

    /// Changes current entries, and appends all changes as one operation.
    fn change_entries(&mut self, changes: Vec<(Ino, &OsStr, Option<Ino>)>) -> Done<Seq> {
        let mut touched = Vec::new();
        let mut removed = Vec::new();
        let mut directories = Vec::new();
        for (dir, name, target) in &changes {
            let entries = self.entries(*dir)?;
            let before = match target {
                Some(ino) => entries.insert(name, *ino),
                None => entries.remove(name),
            };
            touched.extend([Some(*dir), before, *target].into_iter().flatten());
            match (before, target) {
                (None, Some(_)) => self.room.tables += entry_weight(name),
                (Some(_), None) => self.room.tables -= entry_weight(name),
                _ => {}
            }
            let is_directory = |ino: &Ino| self.inodes.get(ino).is_some_and(Inode::is_directory);
            let [left, added] = [before, *target].map(|ino| ino.filter(is_directory));
            directories.extend([left, added].into_iter().flatten());
            if let Kind::Directory(images) = &mut self.inode_mut(*dir)?.kind {
                images.below = images.below + u32::from(added.is_some()) - u32::from(left.is_some());
            }
            if let Some(before) = before {
                self.inode_mut(before)?.links -= 1;
                removed.push(before);
            }
            if let Some(ino) = target {
                let inode = self.inode_mut(*ino)?;
                inode.links += 1;
                inode.pending_links += 1;
                if let Kind::Directory(images) = &mut inode.kind {
                    images.parent = *dir;
                }
            }
        }
        let changes = changes.into_iter().map(|(dir, name, target)| EntryChange { dir, name: name.to_owned(), target });
        let seq = self.log.push(Change::Entries { changes: changes.collect(), directories });
        let now = SystemTime::now();
        for ino in touched {
            let inode = self.inode_mut(ino)?;
            inode.touched = seq;
            inode.times[2] = now;
            // The contents of a directory are its entries; a new file is found by `fdatasync` too.
            if inode.is_directory() {
                inode.times[1] = now;
            }
            if inode.is_directory() || inode.data_touched == 0 {
                inode.data_touched = seq;
            }
        }
        removed.into_iter().for_each(|ino| self.collect(ino));
        Ok(seq)
    }

    /// Number of links as `stat` shows it.
    pub(crate) fn link_count(&self, ino: Ino) -> Done<u32> {
        let inode = self.inode(ino)?;
        let Kind::Directory(images) = &inode.kind else { return Ok(inode.links) };
        Ok(if inode.links == 0 { 0 } else { 2 + images.below })
    }
}
