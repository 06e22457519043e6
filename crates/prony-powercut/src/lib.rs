//! A FUSE file system that simulates power failures.
//!
//! It knows of every file and directory what was written and what was made durable ([`Settings`] says how it behaves). A
//! cut ([`CutSettings`]) freezes it and makes directories: the disk as it may look after a power failure at that moment.
//! [`Mounted`] mounts it in this process; [`cut`] and [`sync`] talk to another process that did so.
//!
//! A disk (`disk`) has a current and a durable image and a `log` of the operations between them; `durability` moves
//! operations from the one to the other, `survivors` draws which of the others survive a cut, `image` writes the result,
//! `fuse` answers the kernel. `docs/powercut.md` says what is simulated and what is not.

mod contents;
mod control;
mod disk;
mod durability;
mod entries;
mod error;
mod fuse;
mod image;
mod log;
mod mount;
mod payload;
mod points;
mod report;
mod settings;
mod shared;
mod survivors;
mod writeback;

pub use control::{cut, sync};
pub use error::Error;
pub use mount::Mounted;
pub use points::unmount;
pub use report::{CutReport, Image, Pending};
pub use settings::{CutSettings, MetadataOrder, Policy, Settings, Unit};
