//! Reports on a run: what is said is decided independently of the output format.
//!
//! [`build`] makes a [`Report`] from a run's data; each file under `render` prints a report in one format.

mod assemble;
mod basis;
mod cell_value;
mod cells;
mod closing;
mod columns;
mod cpu_modes;
mod crash;
mod disagreements;
pub mod error;
mod escape;
pub mod export;
mod floor;
pub mod html;
mod last_activity;
mod layout;
mod left_out;
mod machine;
mod model;
mod notes;
mod nothing_measured;
pub mod plot;
mod preface;
mod processes;
pub mod profile;
pub mod profiles;
mod remarks;
pub mod render;
pub mod screen;
mod variants;
mod words;

pub use assemble::{Options, build};
pub use cell_value::least_memory;
pub use cells::given;
pub use error::Error;
pub use machine::{facts_lines, sessions_differ};
pub use model::{Align, Cell, Column, Figure, FindingLine, Label, Note, Remarks, Report, Row, Table, Topic};
pub use words::{compared, ended, instant as when, shown};
