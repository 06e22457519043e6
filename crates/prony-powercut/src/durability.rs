//! What makes operations durable: `fsync` and its relatives, the limit of pending data, and background writeback.
//!
//! The order of ext4 is that of its one journal. `fsync` of an inode commits the transaction that changed it last, and
//! with it everything before; changes after that one may still be lost. An operation that concerns an inode is a change
//! of its attributes or size, and of an entry that names it; of a directory, a change of its entries; and where data get a
//! place on the disk, that is a change of the inode too. `fdatasync` does not wait for a change of attributes or names only, apart
//! from the creation. Data are written when the file is synced, whatever the journal has: a rename may survive without the
//! data that were written before it (delayed allocation), except where `auto_da_alloc` says otherwise.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::time::Instant;

use rustix::io::Errno;

use crate::contents::Contents;
use crate::disk::{Disk, Done, PAGE, errno};
use crate::entries::entry_weight;
use crate::error::Error;
use crate::inode::{Inode, Kind, Written};
use crate::log::{Change, EntryChange, Ino, Key, Seq};
use crate::progress;
use crate::report::Pending;

impl Disk {
    /// `fsync`, or `fdatasync` with `data_only`, of a file or a directory.
    pub(crate) fn sync(&mut self, ino: Ino, data_only: bool) -> Done {
        let request = self.requests;
        let inode = self.inode_mut(ino)?;
        let is_directory = inode.is_directory();
        let written = std::mem::take(&mut inode.written);
        if data_only && written.may_be_part(request) {
            self.limits.parts_as_whole += 1;
        }
        match (self.order.is_posix(), is_directory) {
            (false, _) => self.commit(self.last_change(ino, data_only, |_| true)?)?,
            (true, true) => self.commit_directory(ino)?,
            (true, false) => {}
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

    /// The last change that the journal must have before a sync of a file returns; `concerns` says which writes are synced.
    fn last_change(&self, ino: Ino, data_only: bool, concerns: impl Fn(&Change) -> bool) -> Done<Seq> {
        let inode = self.inode(ino)?;
        let last = if data_only { inode.data_touched } else { inode.touched.max(inode.data_touched) };
        let Kind::File(images) = &inode.kind else { return Ok(last) };
        let is_freed = self.freed(ino);
        let gets_place = |(begin, end): (u64, u64)| {
            !images.has_place(begin, end) || (begin / PAGE..end.div_ceil(PAGE)).any(|page| is_freed(page * PAGE))
        };
        let is_new = |seq: &&Seq| {
            let Some(change @ Change::Write { left, .. }) = self.log.get(**seq) else { return false };
            concerns(change) && left.iter().any(gets_place)
        };
        Ok(last.max(inode.pending.iter().rev().find(is_new).copied().unwrap_or_default()))
    }

    /// A synchronous write: makes the pages between two offsets durable, with all that is needed to find them (`data_only`,
    /// as by `O_DSYNC`) or with all of the file's metadata (as by `O_SYNC`), and no other data.
    pub(crate) fn sync_range(&mut self, ino: Ino, (begin, end): (u64, u64), data_only: bool) -> Done {
        let (begin, end) = (begin / PAGE * PAGE, end.next_multiple_of(PAGE));
        let meets = |change: &Change| change.left().is_some_and(|left| left.within(begin, end).next().is_some());
        if self.order.is_posix() {
            self.commit_sizes(ino, data_only)?;
        } else {
            self.commit(self.last_change(ino, data_only, meets)?)?;
        }
        let pending: Vec<Seq> = self.inode(ino)?.pending.iter().copied().collect();
        for seq in pending {
            self.apply_part(ino, seq, (begin, end))?;
        }
        Ok(())
    }

    /// Makes changes of a file's size durable, and of its attributes without `data_only`.
    fn commit_sizes(&mut self, ino: Ino, data_only: bool) -> Done {
        let chosen = |seq: &Seq| match self.log.get(*seq) {
            Some(Change::Resize { .. }) => true,
            Some(Change::Attributes { .. }) => !data_only,
            _ => false,
        };
        let chosen: Vec<Seq> = self.inode(ino)?.pending.iter().copied().filter(chosen).collect();
        chosen.into_iter().try_for_each(|seq| self.retire(seq))
    }

    /// Makes everything durable, and says what that was.
    pub(crate) fn sync_and_count(&mut self) -> Result<Pending, Error> {
        let pending = self.pending();
        self.sync_all().map_err(|error| self.not_durable(error))?;
        Ok(pending)
    }

    /// Why something could not be made durable.
    pub(crate) fn not_durable(&self, error: Errno) -> Error {
        Error::file("make everything durable in", self.files.directory())(error.into())
    }

    pub(crate) fn sync_all(&mut self) -> Done {
        while let Some((seq, _)) = self.log.first() {
            self.retire(seq)?;
        }
        self.inodes.values_mut().for_each(|inode| inode.written = Written::default());
        Ok(())
    }

    /// Makes the oldest operations durable where they are due.
    pub(crate) fn write_back(&mut self) -> Done {
        while let Some(is_limit) = self.writeback.due(&self.log, Instant::now()) {
            let Some((seq, _)) = self.log.first() else { break };
            self.retire(seq)?;
            self.limits.made_durable += u64::from(is_limit);
        }
        Ok(())
    }

    /// Makes the changes of metadata up to `last` durable, in order, and the data that these need.
    fn commit(&mut self, last: Seq) -> Done {
        for seq in self.log.metadata_up_to(last) {
            match self.log.take_growth(seq) {
                Some((ino, size)) => self.grow(ino, size)?,
                None => self.retire(seq)?,
            }
        }
        for (ino, before) in self.log.flushes_up_to(last) {
            let Some(inode) = self.inodes.get(&ino) else { continue };
            let data = |seq: &Seq| self.log.get(*seq).is_some_and(|change| change.left().is_some());
            let chosen: Vec<Seq> = inode.pending.iter().copied().filter(|seq| *seq < before && data(seq)).collect();
            chosen.into_iter().try_for_each(|seq| self.retire(seq))?;
        }
        self.log.forget_flushes_up_to(last);
        Ok(())
    }

    /// Makes the new size of a write durable, without its data.
    fn grow(&mut self, ino: Ino, size: u64) -> Done {
        let durable = self.durable(ino)?;
        if durable.size() < size {
            let done = durable.resize(size);
            done.map_err(|error| self.failed(error))?;
        }
        Ok(())
    }

    /// Makes the changes of a directory's entries durable, and the earlier changes without which these cannot be.
    fn commit_directory(&mut self, dir: Ino) -> Done {
        let (mut keys, mut needs): (HashSet<Key>, HashSet<Key>) = Default::default();
        let mut chosen = Vec::new();
        for (seq, change) in self.log.metadata().rev() {
            let Change::Entries { changes, .. } = change else { continue };
            let (of, needed) = (change.keys(), change.needs());
            let is_needed = of.iter().any(|key| keys.contains(key) || needs.contains(key))
                || needed.iter().any(|key| keys.contains(key));
            if is_needed || changes.iter().any(|change| change.dir == dir) {
                keys.extend(of);
                needs.extend(needed);
                chosen.push(seq);
            }
        }
        chosen.into_iter().rev().try_for_each(|seq| self.retire(seq))
    }

    /// Makes one operation durable, and forgets it in the list of its inode.
    pub(crate) fn retire(&mut self, seq: Seq) -> Done {
        let ino = self.log.get(seq).and_then(Change::ino);
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
        progress::step();
        let done = self.apply_change(seq);
        if let Err(error) = done {
            self.failure.get_or_insert(error);
        }
        done
    }

    fn apply_change(&mut self, seq: Seq) -> Done {
        if let Some(ino) = self.log.get(seq).filter(|change| change.left().is_some()).and_then(Change::ino) {
            self.apply_data(ino, seq, (0, u64::MAX))?;
        }
        let Some(change) = self.log.remove(seq) else { return Ok(()) };
        match change {
            Change::Write { data, .. } => self.payloads.release(&data),
            Change::Zero { .. } => {}
            Change::Resize { ino, size } => {
                self.clip_before(ino, seq, size);
                self.durable(ino)?.resize(size).map_err(errno)?;
            }
            Change::Attributes { ino, attributes } => self.inode_mut(ino)?.durable_attributes = attributes,
            Change::Entries { changes, .. } => changes.into_iter().for_each(|change| self.apply_entry(change)),
        }
        Ok(())
    }

    /// Applies what an operation changes between two offsets; the rest stays pending.
    fn apply_part(&mut self, ino: Ino, seq: Seq, (begin, end): (u64, u64)) -> Done {
        let Some(left) = self.log.get(seq).and_then(Change::left) else { return Ok(()) };
        if left.within(begin, end).next().is_none() {
            return Ok(());
        }
        if left.iter().all(|(from, to)| begin <= from && to <= end) {
            return self.retire(seq);
        }
        let done = self.apply_data(ino, seq, (begin, end));
        if let Err(error) = done {
            self.failure.get_or_insert(error);
        }
        self.log.clip(seq, (begin, end));
        done
    }

    /// Writes what is pending of an operation between two offsets to the durable contents.
    fn apply_data(&mut self, ino: Ino, seq: Seq, (begin, end): (u64, u64)) -> Done {
        let Self { log, payloads, files, inodes, .. } = self;
        let Some(Kind::File(images)) = inodes.get_mut(&ino).map(|inode| &mut inode.kind) else {
            return Err(Errno::NOENT);
        };
        let durable = images.durable(files).map_err(errno)?;
        match log.get(seq) {
            Some(Change::Write { offset, data, left, .. }) => {
                for (from, to) in left.within(begin, end) {
                    let bytes = payloads.read(data, from - offset, to - offset).map_err(errno)?;
                    durable.write(from, &bytes).map_err(errno)?;
                }
            }
            Some(Change::Zero { left, .. }) => {
                left.within(begin, end).try_for_each(|(from, to)| durable.zero(from, to - from)).map_err(errno)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// A truncation that becomes durable before earlier writes: these cannot write behind its end any more.
    fn clip_before(&mut self, ino: Ino, seq: Seq, size: u64) {
        let Some(inode) = self.inodes.get(&ino) else { return };
        let earlier: Vec<Seq> = inode.pending.iter().copied().take_while(|at| *at < seq).collect();
        for at in &earlier {
            self.log.take_growth(*at);
        }
        let nothing_left = |at: &Seq| {
            self.log.get(*at).is_some_and(|change| change.left().is_some()) && !self.log.clip(*at, (size, u64::MAX))
        };
        let nothing_left: HashSet<Seq> = earlier.into_iter().filter(nothing_left).collect();
        if nothing_left.is_empty() {
            return;
        }
        nothing_left.iter().for_each(|at| self.discard(*at));
        if let Some(inode) = self.inodes.get_mut(&ino) {
            inode.pending.retain(|at| !nothing_left.contains(at));
        }
    }

    fn durable(&mut self, ino: Ino) -> Done<&mut Contents> {
        let Self { files, inodes, .. } = self;
        let inode = inodes.get_mut(&ino).ok_or(Errno::NOENT)?;
        let Kind::File(images) = &mut inode.kind else { return Err(Errno::INVAL) };
        images.durable(files).map_err(errno)
    }

    fn apply_entry(&mut self, EntryChange { dir, name, target }: EntryChange) {
        let weight = entry_weight(&name);
        let before = match self.inodes.get_mut(&dir).map(|inode| &mut inode.kind) {
            Some(Kind::Directory(images)) => Some(match target {
                Some(ino) => images.durable.insert(name, ino),
                None => images.durable.remove(&name),
            }),
            _ => None,
        };
        match (before, target) {
            (Some(None), Some(_)) => self.room.tables += weight,
            (Some(Some(_)), None) => self.room.tables -= weight,
            _ => {}
        }
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

    /// Frees what nobody can use any more: the current contents of a file that no program can reach, though images still may
    /// have it; and an inode that is in no image and in no operation, with what only it contains.
    pub(crate) fn collect(&mut self, ino: Ino) {
        let Some(inode) = self.inodes.get_mut(&ino).filter(|inode| inode.links + inode.open == 0) else { return };
        if let Kind::File(images) = &mut inode.kind {
            let before = images.current.blocks();
            // Images are made of the durable contents and of the log.
            let done = images.current.resize(0);
            self.blocks = (self.blocks + images.current.blocks()).saturating_sub(before);
            if let Err(error) = done {
                self.failed(error);
            }
        }
        let is_used = |inode: &Inode| inode.durable_links + inode.pending_links > 0;
        if self.inodes.get(&ino).is_none_or(is_used) {
            return;
        }
        let Some(inode) = self.inodes.remove(&ino) else { return };
        self.room.tables -= inode.weight();
        self.room.files -= u64::from(matches!(inode.kind, Kind::File(_)));
        inode.pending.into_iter().for_each(|seq| self.discard(seq));
        if let Kind::Directory(images) = inode.kind {
            self.collect_all(images.durable);
        }
    }

    /// Entries of a directory that is removed.
    fn collect_all(&mut self, entries: HashMap<OsString, Ino>) {
        for (name, ino) in entries {
            self.room.tables -= entry_weight(&name);
            if let Some(inode) = self.inodes.get_mut(&ino) {
                inode.durable_links -= 1;
            }
            self.collect(ino);
        }
    }
}

#[cfg(test)]
mod tests;
