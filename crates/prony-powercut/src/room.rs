//! Memory for pending operations with their data, for files and for names, and descriptors for files. They are counted, and
//! bounded.

use std::ffi::OsStr;

use rustix::io::Errno;

use crate::disk::{Disk, Done};
use crate::entries::entry_weight;
use crate::log::OVERHEAD;

impl Disk {
    fn used(&self) -> u64 {
        self.log.weight() + self.payloads.in_memory() + self.room.tables
    }

    /// Memory that is left, in bytes.
    pub(crate) fn free_room(&self) -> u64 {
        self.room.limit.saturating_sub(self.used())
    }

    /// Makes room for some bytes: data of pending writes are moved to their file, and then the oldest operations made durable.
    pub(crate) fn make_room(&mut self, bytes: u64) -> Done {
        while self.free_room() < bytes && self.payloads.in_memory() > 0 {
            let Some(seq) = self.log.after(self.room.spilled) else { break };
            self.room.spilled = seq;
            if let Some(data) = self.log.payload_mut(seq) {
                let moved = self.payloads.spill(data);
                moved.map_err(|error| self.failed(error))?;
            }
        }
        while self.free_room() < bytes {
            let Some((seq, _)) = self.log.first() else { break };
            self.retire(seq)?;
            self.limits.made_durable += 1;
        }
        Ok(())
    }

    /// The same for a new name, and what is created with it: where this does not suffice, it is refused.
    pub(crate) fn make_room_for_name(&mut self, bytes: u64, name: &OsStr) -> Done {
        // The name is in the log, too, and in two maps once it is durable.
        let bytes = bytes + OVERHEAD + 3 * entry_weight(name);
        self.make_room(bytes)?;
        if self.free_room() < bytes {
            self.limits.refused += 1;
            return Err(Errno::NOSPC);
        }
        Ok(())
    }

    /// Refuses one file more than there may be: without a descriptor for its durable contents no cut could be made.
    pub(crate) const fn make_room_for_file(&mut self) -> Done {
        if self.room.files >= self.room.most_files {
            self.limits.refused += 1;
            return Err(Errno::NOSPC);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::ROOT;
    use crate::inode::New;
    use crate::log::Attributes;
    use crate::settings::Settings;

    #[test]
    fn files_without_descriptors_are_refused_and_counted() {
        let top = tempfile::tempdir().unwrap();
        let mut disk = Disk::new(top.path(), &Settings::default(), (0, 0)).unwrap();
        disk.room.most_files = 2;
        let attributes = Attributes { mode: 0o755, uid: 0, gid: 0 };
        let create = |disk: &mut Disk, name: &str, new| disk.create(ROOT, OsStr::new(name), new, attributes);
        let first = create(&mut disk, "first", New::File).unwrap();
        create(&mut disk, "directory", New::Directory).unwrap();
        create(&mut disk, "second", New::File).unwrap();
        assert_eq!(create(&mut disk, "third", New::File), Err(Errno::NOSPC));
        assert_eq!(disk.limits.refused, 1);
        disk.sync_all().unwrap();
        disk.remove(ROOT, OsStr::new("first"), false).unwrap();
        assert_eq!(create(&mut disk, "third", New::File), Err(Errno::NOSPC), "a cut can show the removed file");
        disk.sync_all().unwrap();
        assert!(disk.inode(first).is_err());
        create(&mut disk, "third", New::File).unwrap();
    }
}
