//! Files, directories and symbolic links, each in two images.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::SystemTime;

use crate::contents::{Contents, Nameless};
use crate::entries::Entries;
use crate::error::Error;
use crate::log::{Attributes, Ino, Seq};
use crate::ranges::Ranges;

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
    /// The file of a saved cut that has the durable contents. It is opened while an image of it is made: a cut may have more
    /// files than a process may have open.
    pub(crate) saved: Option<PathBuf>,
}

impl FileImages {
    /// The durable contents, made where there are none.
    pub(crate) fn durable(&mut self, files: &Nameless) -> io::Result<&mut Contents> {
        match &mut self.durable {
            Some(contents) => Ok(contents),
            none => Ok(none.insert(Contents::new(files.create()?))),
        }
    }

    /// The durable contents, from which an image is made.
    pub(crate) fn for_image(&self) -> Result<Option<Contents>, Error> {
        match &self.saved {
            Some(path) => Contents::open(path).map(Some).map_err(Error::file("read", path)),
            None => Ok(self.durable.clone()),
        }
    }

    /// Whether all bytes of a range have their place on the disk.
    pub(crate) fn has_place(&self, begin: u64, end: u64) -> bool {
        self.durable.as_ref().is_some_and(|durable| durable.is_allocated(begin, end - begin))
    }
}

/// The two maps of a directory.
#[derive(Debug)]
pub(crate) struct DirectoryImages {
    pub(crate) parent: Ino,
    pub(crate) current: Entries,
    /// Directories among these entries.
    pub(crate) below: u32,
    pub(crate) durable: HashMap<OsString, Ino>,
}

impl DirectoryImages {
    /// Without an entry.
    pub(crate) fn new(parent: Ino) -> Self {
        Self { parent, current: Entries::default(), below: 0, durable: HashMap::new() }
    }
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
    /// It was truncated to nothing and not closed since.
    pub(crate) is_cleared: bool,
    /// Whole pages that have a place on the disk by `fallocate`.
    pub(crate) preallocated: Ranges,
    /// Who wrote data since the last sync.
    pub(crate) written: Written,
}

/// Who wrote the pending data of a file.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Written {
    by_call: bool,
    /// The last pages of a map.
    pages: Option<Pages>,
    /// There are pages of a map that the kernel sent before, for another reason than the last ones.
    has_earlier_pages: bool,
}

/// Pages of a map: the number of the request in which they arrived, and their range.
#[derive(Clone, Copy, Debug)]
struct Pages {
    request: u64,
    range: (u64, u64),
}

/// A request of the kernel has at least so much, where more pages follow without a gap.
const LEAST_FULL: u64 = 128 << 10;

impl Written {
    /// Data of a call arrived.
    pub(crate) const fn note_call(&mut self) {
        self.by_call = true;
    }

    /// Pages of a map arrived in a request, by its number. The kernel sends what one `msync` or `fsync` concerns in the order of
    /// the offsets, in requests without gaps as far as possible, and the request for the sync next.
    pub(crate) fn note_pages(&mut self, request: u64, range: (u64, u64)) {
        let continues = |last: Pages| {
            let (begin, end) = last.range;
            let is_next = range.0 > end || (range.0 == end && end - begin >= LEAST_FULL);
            last.request + 1 == request && is_next
        };
        self.has_earlier_pages |= self.pages.is_some_and(|last| !continues(last));
        self.pages = Some(Pages { request, range });
    }

    /// Whether a sync, by the number of its request, may be an `msync` of a part of the file while other parts are pending.
    pub(crate) fn may_be_part(&self, request: u64) -> bool {
        let is_late = |last: Pages| last.request + 1 != request;
        self.pages.is_some_and(|last| self.by_call || self.has_earlier_pages || is_late(last))
    }
}

impl Inode {
    pub(crate) fn new(kind: Kind, attributes: Attributes) -> Self {
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
            is_cleared: false,
            preallocated: Ranges::one(0, 0),
            written: Written::default(),
        }
    }

    /// Memory, in bytes, without that of its entries.
    pub(crate) fn weight(&self) -> u64 {
        let name = if let Kind::Symlink(target) = &self.kind { target.len() } else { 0 };
        // A hash table has room for twice its members, and a list of pending operations for some.
        (2 * size_of::<Self>() + name) as u64
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a sync in request 20 may be one of a part, after pages of a map in these requests.
    fn may_be_part(pages: &[(u64, (u64, u64))]) -> bool {
        let mut written = Written::default();
        pages.iter().for_each(|(request, range)| written.note_pages(*request, *range));
        written.may_be_part(20)
    }

    #[test]
    fn pages_that_one_sync_sends_do_not_make_it_one_of_a_part() {
        const FULL: u64 = 1 << 20;
        for pages in [&[][..], &[(19, (0, 4096))], &[(18, (0, 4096)), (19, (8192, 12_288))]] {
            assert!(!may_be_part(pages), "{pages:?}");
        }
        assert!(!may_be_part(&[(18, (0, FULL)), (19, (FULL, FULL + 4096))]));
    }

    #[test]
    fn pages_that_were_sent_before_may_make_a_sync_one_of_a_part() {
        let page = (0, 4096);
        // Another request came between, the kernel would have sent both at once or in order, or no page came with the sync.
        for pages in
            [[(17, page), (19, (8192, 12_288))], [(18, page), (19, (4096, 8192))], [(18, (8192, 12_288)), (19, page)]]
        {
            assert!(may_be_part(&pages), "{pages:?}");
        }
        assert!(may_be_part(&[(17, page)]));
    }

    #[test]
    fn data_of_calls_make_a_sync_with_pages_one_that_may_be_of_a_part() {
        let mut written = Written::default();
        written.note_call();
        assert!(!written.may_be_part(20));
        written.note_pages(19, (0, 4096));
        assert!(written.may_be_part(20));
    }
}
