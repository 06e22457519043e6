//! Files, directories and symbolic links, each in two images.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsString;
use std::io;
use std::time::SystemTime;

use crate::contents::{Contents, Nameless};
use crate::entries::Entries;
use crate::log::{Attributes, Ino, Seq};

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

impl FileImages {
    /// The durable contents, made where there are none.
    pub(crate) fn durable(&mut self, files: &Nameless) -> io::Result<&mut Contents> {
        match &mut self.durable {
            Some(contents) => Ok(contents),
            none => Ok(none.insert(Contents::new(files.create()?))),
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
    /// It was truncated to nothing and not closed since.
    pub(crate) is_cleared: bool,
    /// Whether pages of a map, and data of calls, were written since the last sync.
    pub(crate) written: Written,
}

/// Who wrote the pending data of a file.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Written {
    pub(crate) by_map: bool,
    pub(crate) by_call: bool,
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
