//! Sources of boundaries (begins and ends of phases): output lines, marks, function calls, a quiet process tree,
//! reports of a worker. Also contains what is observed between boundaries.

pub mod calls;
pub mod channel;
pub mod functions;
pub mod limits;
pub mod marks;
pub mod observation;
pub mod order;
pub mod phase_state;
pub mod probe_reports;
mod reported;
pub mod settling;
pub mod stream;
pub mod suspending;
pub mod suspensions;
pub mod tracker;
