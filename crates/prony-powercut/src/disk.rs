//! A disk in two images: the current one, which programs see, and the durable one, which a power failure leaves in any case.
//!
//! Every operation changes the current image at once and is appended to the log. What makes an operation durable (`sync`)
//! applies it to the durable image and removes it from the log, so that the log always has exactly the difference. A
//! file has two contents, a directory two maps of entries; whatever is in neither image and in no operation is removed.
//! This module has the operations on the current image, `durability` those between the two.

use std::collections::{HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use rustix::io::Errno;

use crate::contents::{Contents, Nameless};
use crate::entries::Entries;
use crate::log::{Attributes, Change, EntryChange, Ino, Log, Seq};
use crate::payload::Payloads;
use crate::report::Pending;
use crate::settings::{MetadataOrder, Settings};
use crate::writeback::Writeback;

/// The root directory.
pub(crate) const ROOT: Ino = 1;

/// What an inode is.
#[derive(Debug)]
pub(crate) enum Kind {
    File(FileImages),
    Directory(DirectoryImages),
    Symlink(OsString),
    /// A socket, FIFO or device: its type in the bits of `st_mode`, and its number. Images do not show it.
    Special(u32, u32),
}

/// The two contents of a file.
#[derive(Debug)]
pub(crate) struct FileImages {
    pub(crate) current: Contents,
    /// Made when something becomes durable first.
    pub(crate) durable: Option<Contents>,
}

/// The two maps of a directory.
#[derive(Debug)]
pub(crate) struct DirectoryImages {
    pub(crate) parent: Ino,
    pub(crate) current: Entries,
    pub(crate) durable: HashMap<OsString, Ino>,
}

/// A file, directory or symbolic link.
#[derive(Debug)]
pub(crate) struct Inode {
    pub(crate) kind: Kind,
    pub(crate) attributes: Attributes,
    pub(crate) durable_attributes: Attributes,
    /// Access, modification and change.
    pub(crate) times: [SystemTime; 3],
    /// Entries that name it: in current maps, in durable ones, in pending operations.
    pub(crate) links: u32,
    pub(crate) durable_links: u32,
    pub(crate) pending_links: u32,
    /// Open handles.
    pub(crate) open: u32,
    /// The last operation that `fsync` has to make durable by the order of ext4, and the one for `fdatasync`.
    pub(crate) touched: Seq,
    pub(crate) data_touched: Seq,
    /// Pending operations on contents and attributes, in order.
    pub(crate) pending: VecDeque<Seq>,
}

impl Inode {
    fn new(kind: Kind, attributes: Attributes) -> Self {
        Self {
            kind,
            attributes,
            durable_attributes: attributes,
            times: [SystemTime::now(); 3],
            links: 0,
            durable_links: 0,
            pending_links: 0,
            open: 0,
            touched: 0,
            data_touched: 0,
            pending: VecDeque::new(),
        }
    }

    pub(crate) const fn is_directory(&self) -> bool {
        matches!(self.kind, Kind::Directory(_))
    }
}

/// What is made by name.
pub(crate) enum New {
    File,
    Directory,
    Symlink(OsString),
    Special(u32, u32),
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
        let files = Nameless::within(directory);
        let payloads = Payloads::new(files.create()?, settings.memory.as_bytes());
        let images = DirectoryImages { parent: ROOT, current: Entries::default(), durable: HashMap::new() };
        let mut root = Inode::new(Kind::Directory(images), Attributes { mode: 0o755, uid, gid });
        (root.links, root.durable_links) = (1, 1);
        Ok(Self {
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
        })
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
        }
        self.collect(ino);
    }

    pub(crate) fn read(&mut self, ino: Ino, offset: u64, len: u64) -> Done<Vec<u8>> {
        self.file(ino)?.current.read(offset, len).map_err(errno)
    }

    pub(crate) fn write(&mut self, ino: Ino, offset: u64, data: &[u8]) -> Done<Seq> {
        let end = offset.checked_add(data.len() as u64).filter(|end| i64::try_from(*end).is_ok()).ok_or(Errno::FBIG)?;
        let payload = self.payloads.store(data).map_err(|error| self.failed(error))?;
        let written = self.within_quota(ino, (offset, data.len() as u64), |contents| contents.write(offset, data));
        let grew = match written {
            Ok(size) => end > size,
            Err(error) => {
                self.payloads.release(&payload);
                return Err(error);
            }
        };
        let seq = self.log_of(ino, Change::Write { ino, offset, data: payload })?;
        if grew {
            self.inode_mut(ino)?.data_touched = seq;
        }
        Ok(seq)
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
        self.within_quota(ino, (size, 0), |contents| contents.resize(size))?;
        let seq = self.log_of(ino, Change::Resize { ino, size })?;
        let inode = self.inode_mut(ino)?;
        (inode.touched, inode.data_touched) = (seq, seq);
        Ok(())
    }

    /// Makes a hole in a file; its size stays.
    pub(crate) fn zero(&mut self, ino: Ino, offset: u64, len: u64) -> Done {
        let len = len.min(self.file(ino)?.current.size().saturating_sub(offset));
        if len == 0 {
            return Ok(());
        }
        self.within_quota(ino, (offset, 0), |contents| contents.zero(offset, len))?;
        self.log_of(ino, Change::Zero { ino, offset, len })?;
        Ok(())
    }

    pub(crate) fn set_attributes(&mut self, ino: Ino, attributes: Attributes) -> Done {
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
                let current = Contents::new(self.files.create().map_err(errno)?);
                Kind::File(FileImages { current, durable: None })
            }
            New::Directory => {
                Kind::Directory(DirectoryImages { parent: dir, current: Entries::default(), durable: HashMap::new() })
            }
            New::Symlink(target) => Kind::Symlink(target),
            New::Special(kind, number) => Kind::Special(kind, number),
        };
        let ino = self.next;
        self.next += 1;
        self.inodes.insert(ino, Inode::new(kind, attributes));
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
        self.change_entries(vec![(dir, name, Some(ino))])
    }

    pub(crate) fn remove(&mut self, dir: Ino, name: &OsStr, is_directory: bool) -> Done {
        let inode = self.inode(self.lookup(dir, name)?)?;
        match (&inode.kind, is_directory) {
            (Kind::Directory(_), false) => return Err(Errno::ISDIR),
            (Kind::Directory(images), true) if !images.current.is_empty() => return Err(Errno::NOTEMPTY),
            (Kind::Directory(_), true) | (_, false) => {}
            (_, true) => return Err(Errno::NOTDIR),
        }
        self.change_entries(vec![(dir, name, None)])
    }

    pub(crate) fn rename(&mut self, (dir, name): (Ino, &OsStr), (to, new): (Ino, &OsStr), replace: bool) -> Done {
        let ino = self.lookup(dir, name)?;
        if let Some(target) = self.directory(to)?.current.get(new) {
            if !replace {
                return Err(Errno::EXIST);
            }
            if target == ino {
                return Ok(());
            }
            match (&self.inode(target)?.kind, self.inode(ino)?.is_directory()) {
                (Kind::Directory(images), true) if !images.current.is_empty() => return Err(Errno::NOTEMPTY),
                (Kind::Directory(_), false) => return Err(Errno::ISDIR),
                (Kind::Directory(_), true) | (_, false) => {}
                (_, true) => return Err(Errno::NOTDIR),
            }
        }
        self.change_entries(vec![(dir, name, None), (to, new, Some(ino))])
    }

    pub(crate) fn exchange(&mut self, (dir, name): (Ino, &OsStr), (to, new): (Ino, &OsStr)) -> Done {
        let (a, b) = (self.lookup(dir, name)?, self.lookup(to, new)?);
        self.change_entries(vec![(dir, name, Some(b)), (to, new, Some(a))])
    }

    /// Changes current entries, and appends all changes as one operation.
    fn change_entries(&mut self, changes: Vec<(Ino, &OsStr, Option<Ino>)>) -> Done {
        let mut touched = Vec::new();
        let mut removed = Vec::new();
        for (dir, name, target) in &changes {
            let entries = self.entries(*dir)?;
            let before = match target {
                Some(ino) => entries.insert(name, *ino),
                None => entries.remove(name),
            };
            touched.extend([Some(*dir), before, *target].into_iter().flatten());
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
        let seq = self.log.push(Change::Entries(changes.collect()));
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
        Ok(())
    }

    /// Number of links as `stat` shows it.
    pub(crate) fn link_count(&self, ino: Ino) -> Done<u32> {
        let inode = self.inode(ino)?;
        let Kind::Directory(images) = &inode.kind else { return Ok(inode.links) };
        let is_directory = |ino: Ino| self.inodes.get(&ino).is_some_and(Inode::is_directory);
        let below = images.current.iter_after(0).filter(|(_, _, ino)| is_directory(*ino)).count();
        Ok(if inode.links == 0 { 0 } else { 2 + below as u32 })
    }
}
