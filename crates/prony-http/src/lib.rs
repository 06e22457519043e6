//! The HTTP load generator: sends requests to one server, in a closed or an open loop, and accounts for each of them.
//!
//! A load passes through four steps: [`Asked`] is what somebody wants; [`Load`] is the same, checked; [`Destination`] is
//! the server's address, looked up and connected to once; [`run`] sends the requests from threads of its own and
//! returns a [`Report`]. [`Control`] shows the progress of a load that runs, and ends it.
//!
//! Each thread has one event loop (`event_loop.rs`) over connections of its own (`connection.rs`). `pace.rs` says when a
//! request is due, `source.rs` makes it from what the load contains (`content.rs`), `answer.rs` finds where an answer ends,
//! `tally.rs` counts what each request ended in. Nothing here prints, and nothing knows a terminal.
//!
//! [`host`] runs the phases of requests of a trial in the same way, on command of its runner. Answers give values that
//! later phases use (`capture.rs`, `saved.rs`).
//!
//! Every request ends in exactly one of: an expected status, or one of the kinds of [`Failure`]. Attempts are repeated only where
//! this is asked for (`retry.rs`), and counted apart. No redirects are followed.

mod answer;
mod answer_check;
mod asked;
mod backlog;
mod capture;
mod checked_load;
mod chunked;
mod clock;
mod connection;
mod content;
mod control;
mod destination;
mod error;
mod event_loop;
mod failure;
mod file_body;
mod host;
mod json_text;
mod kinds;
mod linger;
mod of_trial;
mod outgoing;
mod pace;
mod phase_report;
mod ran;
mod remark;
mod report;
mod request;
mod retry;
mod run;
mod saved;
mod session;
mod socket;
mod source;
mod stalls;
mod step_tally;
mod steps;
mod tally;
mod target;
mod text;
mod thinking;
mod tls;
mod usage;
mod variety;

pub use asked::{Asked, AskedBody, Bound, Loop, Trust};
pub use checked_load::{Load, MOST_CONNECTIONS, MOST_RETRIES, MOST_THREADS};
pub use control::{Control, Progress};
pub use destination::Destination;
pub use error::{Error, Fault};
pub use failure::{Errors, Failure};
pub use host::{HostError, Stop, host};
pub use of_trial::Trial;
pub use ran::LEAST_DUE;
pub use remark::{Remark, SaturatedStep};
pub use report::{Generator, Latency, Report, Sent, StepReport};
pub use run::run;
