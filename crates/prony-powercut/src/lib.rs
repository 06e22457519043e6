//! A FUSE file system that simulates power failures.
//!
//! It knows of every file and directory what was written and what was made durable ([`Settings`] says how it behaves). A
//! cut ([`CutSettings`]) freezes it and makes directories: the disk as it may look after a power failure at that moment.
//! [`Mounted`] starts a process that serves it and one that watches that process (`process` says why); [`cut`] and [`sync`]
//! talk to one that another process has mounted.
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
pub mod fixture;
mod fuse;
mod image;
mod inode;
mod keeper;
mod log;
mod maps;
mod mount;
mod payload;
mod points;
mod process;
mod progress;
mod ranges;
mod report;
mod requests;
mod room;
mod saved;
mod server;
mod settings;
mod survivors;
mod writeback;

pub use control::{cut, stale, sync};
pub use error::Error;
pub use keeper::keep;
pub use mount::Mounted;
pub use points::unmount;
pub use process::{KEEP, SERVE};
pub use report::{Counts, CutReport, End, Image, Limits, Pending, Status};
pub use saved::Cut;
pub use server::serve;
pub use settings::{CutSettings, Draw, MetadataOrder, Policy, Settings, Unit};
