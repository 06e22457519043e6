//! Sources of boundaries: lines, marks, calls, quiet, reports of a worker; and what is observed between them.

pub mod calls;
pub mod channel;
pub mod functions;
pub mod limits;
pub mod marks;
pub mod observation;
mod reported;
pub mod settling;
pub mod stream;
pub mod suspending;
pub mod suspensions;
pub mod threads;
pub mod tracked;
pub mod tracker;
