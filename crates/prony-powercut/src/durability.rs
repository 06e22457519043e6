//! What makes operations durable: `fsync` and its relatives, the limit of pending data, and background writeback.
//!
//! The order of ext4 is that of its one journal. `fsync` of an inode commits the transaction that changed it last, and
//! with it everything before; changes after that one may still be lost. An operation that concerns an inode is a change
//! of its attributes or size, and of an entry that names it; of a directory, a change of its entries. `fdatasync` does not
//! wait for a change of attributes or names only, apart from the creation. Data are written when the file is synced,
//! whatever the journal has: a rename may survive without the data that were written before it (delayed allocation).

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;

use rustix::io::Errno;

use crate::contents::Contents;
use crate::disk::{Disk, Done, Inode, Kind, errno};
use crate::log::{Change, EntryChange, Ino, Key, Seq};
use crate::settings::{MetadataOrder, Unit};

/// Bytes that share a unit with others are written together: a page of the cache.
const PAGE: u64 = Unit::Page.bytes();

impl Disk {
    /// `fsync`, or `fdatasync` with `data_only`, of a file or a directory.
    pub(crate) fn sync(&mut self, ino: Ino, data_only: bool) -> Done {
        let inode = self.inode(ino)?;
        let (is_directory, last) =
            (inode.is_directory(), if data_only { inode.data_touched } else { inode.touched.max(inode.data_touched) });
        match (self.order, is_directory) {
            (MetadataOrder::Ext4, _) => self.commit(last)?,
            (MetadataOrder::Posix, true) => self.commit_directory(ino)?,
            (MetadataOrder::Posix, false) => {}
        }
        for seq in Vec::from(std::mem::take(&mut self.inode_mut(ino)?.pending)) {
            if data_only && matches!(self.log.get(seq), Some(Change::Attributes { .. })) {
                self.inode_mut(ino)?.pending.push_back(seq);
            } else {
                self.apply(seq)?;
            }
        }
        Ok(())
    }

    /// A synchronous write: makes the write `seq` durable, with all that is needed to find it, and nothing else.
    pub(crate) fn sync_write(&mut self, ino: Ino, seq: Seq) -> Done {
        let resized = |change: Option<&Change>| matches!(change, Some(Change::Resize { .. }));
        if self.order == MetadataOrder::Ext4 {
            self.commit(self.inode(ino)?.data_touched)?;
        } else if self.inode(ino)?.pending.iter().any(|seq| resized(self.log.get(*seq))) {
            return self.sync(ino, true);
        }
        // Whole pages are written, so everything else that is pending in them is too, and so on.
        let mut pages: Vec<(u64, u64)> = Vec::new();
        let mut chosen = HashSet::new();
        for at in self.inode(ino)?.pending.iter().rev() {
            let Some((first, last)) = self.log.get(*at).and_then(Change::range).map(pages_of) else { continue };
            let meets = pages.iter().any(|(begin, end)| first <= *end && last >= *begin);
            if *at == seq || meets {
                pages.push((first, last));
                chosen.insert(*at);
            }
        }
        let pending = std::mem::take(&mut self.inode_mut(ino)?.pending);
        let (now, later): (Vec<Seq>, Vec<Seq>) = pending.into_iter().partition(|at| chosen.contains(at));
        self.inode_mut(ino)?.pending = later.into();
        now.into_iter().try_for_each(|at| self.apply(at))
    }

    /// Makes everything durable.
    pub(crate) fn sync_all(&mut self) -> Done {
        while let Some((seq, _)) = self.log.first() {
            self.retire(seq)?;
        }
        Ok(())
    }

    /// Makes the oldest operations durable where they are due.
    pub(crate) fn write_back(&mut self) -> Done {
        while self.writeback.is_due(&self.log) {
            let Some((seq, _)) = self.log.first() else { break };
            self.retire(seq)?;
        }
        Ok(())
    }

    /// Makes the changes of metadata up to `last` durable, in order.
    fn commit(&mut self, last: Seq) -> Done {
        self.log.metadata_up_to(last).into_iter().try_for_each(|seq| self.retire(seq))
    }

    /// Makes the changes of a directory's entries durable, and earlier changes of the names that these change.
    fn commit_directory(&mut self, dir: Ino) -> Done {
        let mut names: HashSet<Key> = HashSet::new();
        let mut chosen = Vec::new();
        for (seq, change) in self.log.metadata().rev() {
            let Change::Entries(changes) = change else { continue };
            let keys = change.keys();
            if changes.iter().any(|change| change.dir == dir) || keys.iter().any(|key| names.contains(key)) {
                names.extend(keys);
                chosen.push(seq);
            }
        }
        chosen.into_iter().rev().try_for_each(|seq| self.retire(seq))
    }

    /// Makes one operation durable, and forgets it in the list of its inode.
    fn retire(&mut self, seq: Seq) -> Done {
        let ino = match self.log.get(seq) {
            Some(
                Change::Write { ino, .. }
                | Change::Zero { ino, .. }
                | Change::Resize { ino, .. }
                | Change::Attributes { ino, .. },
            ) => Some(*ino),
            _ => None,
        };
        if let Some(inode) = ino.and_then(|ino| self.inodes.get_mut(&ino)) {
            // The lists are in order.
            if let Ok(at) = inode.pending.binary_search(&seq) {
                inode.pending.remove(at);
            }
        }
        self.apply(seq)
    }

    /// Applies an operation to the durable image and removes it from the log.
    fn apply(&mut self, seq: Seq) -> Done {
        let done = self.apply_change(seq);
        if let Err(error) = done {
            self.failure.get_or_insert(error);
        }
        done
    }

    fn apply_change(&mut self, seq: Seq) -> Done {
        let Some(change) = self.log.remove(seq) else { return Ok(()) };
        match change {
            Change::Write { ino, offset, data } => {
                let bytes = self.payloads.read(&data).map_err(errno)?.into_owned();
                self.payloads.release(&data);
                self.durable(ino)?.write(offset, &bytes).map_err(errno)
            }
            Change::Zero { ino, offset, len } => self.durable(ino)?.zero(offset, len).map_err(errno),
            Change::Resize { ino, size } => {
                self.clip_before(ino, seq, size);
                self.durable(ino)?.resize(size).map_err(errno)
            }
            Change::Attributes { ino, attributes } => {
                self.inode_mut(ino)?.durable_attributes = attributes;
                Ok(())
            }
            Change::Entries(changes) => {
                changes.into_iter().for_each(|change| self.apply_entry(change));
                Ok(())
            }
        }
    }

    /// A truncation that becomes durable before earlier writes: these cannot write behind its end any more.
    fn clip_before(&mut self, ino: Ino, seq: Seq, size: u64) {
        let Some(inode) = self.inodes.get(&ino) else { return };
        let earlier: Vec<Seq> = inode.pending.iter().copied().take_while(|at| *at < seq).collect();
        let nothing_left: HashSet<Seq> = earlier.into_iter().filter(|at| !self.log.clip(*at, size)).collect();
        if nothing_left.is_empty() {
            return;
        }
        nothing_left.iter().for_each(|at| self.discard(*at));
        if let Some(inode) = self.inodes.get_mut(&ino) {
            inode.pending.retain(|at| !nothing_left.contains(at));
        }
    }

    fn durable(&mut self, ino: Ino) -> Done<&mut Contents> {
        let files = &self.files;
        let inode = self.inodes.get_mut(&ino).ok_or(Errno::NOENT)?;
        let Kind::File(images) = &mut inode.kind else { return Err(Errno::INVAL) };
        match &mut images.durable {
            Some(contents) => Ok(contents),
            none => Ok(none.insert(Contents::new(files.create().map_err(errno)?))),
        }
    }

    fn apply_entry(&mut self, EntryChange { dir, name, target }: EntryChange) {
        let before = match self.inodes.get_mut(&dir).map(|inode| &mut inode.kind) {
            Some(Kind::Directory(images)) => Some(match target {
                Some(ino) => images.durable.insert(name, ino),
                None => images.durable.remove(&name),
            }),
            _ => None,
        };
        if let Some(inode) = target.and_then(|ino| self.inodes.get_mut(&ino)) {
            inode.pending_links -= 1;
            inode.durable_links += u32::from(before.is_some());
        }
        if let Some(inode) = before.flatten().and_then(|ino| self.inodes.get_mut(&ino)) {
            inode.durable_links -= 1;
        }
        [target, before.flatten()].into_iter().flatten().for_each(|ino| self.collect(ino));
    }

    /// Forgets an operation that nothing can show any more.
    fn discard(&mut self, seq: Seq) {
        if let Some(Change::Write { data, .. }) = self.log.remove(seq) {
            self.payloads.release(&data);
        }
    }

    /// Removes an inode that is in no image and in no operation, with what only it contains.
    pub(crate) fn collect(&mut self, ino: Ino) {
        let is_used = |inode: &Inode| inode.links + inode.durable_links + inode.pending_links + inode.open > 0;
        if self.inodes.get(&ino).is_none_or(is_used) {
            return;
        }
        let Some(inode) = self.inodes.remove(&ino) else { return };
        inode.pending.into_iter().for_each(|seq| self.discard(seq));
        match inode.kind {
            Kind::File(images) => self.blocks = self.blocks.saturating_sub(images.current.blocks()),
            Kind::Directory(images) => self.collect_all(images.durable),
            _ => {}
        }
    }

    /// Entries of a directory that is removed.
    fn collect_all(&mut self, entries: HashMap<OsString, Ino>) {
        for ino in entries.into_values() {
            if let Some(inode) = self.inodes.get_mut(&ino) {
                inode.durable_links -= 1;
            }
            self.collect(ino);
        }
    }
}

/// The first and last page of a range.
fn pages_of((offset, len): (u64, u64)) -> (u64, u64) {
    (offset / PAGE, (offset + len.max(1) - 1) / PAGE)
}

#[cfg(test)]
mod tests;
