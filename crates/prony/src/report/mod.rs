//! What to say about a run, independent of where it is printed.
//!
//! [`build`] makes a [`Report`] of a run's data; each file under `render` prints one in a format.

mod build;
mod cells;
mod columns;
mod escape;
pub mod export;
mod figure;
mod floor;
pub mod html;
mod layout;
mod left_out;
mod machine;
mod model;
mod notes;
mod preface;
mod processes;
pub mod profile;
mod remarks;
pub mod render;
mod scale;
mod settled;
mod words;

pub use build::{Options, build};
pub use figure::least_memory;
pub use machine::facts_lines;
pub use model::{Align, Cell, Column, Figure, FindingLine, Label, Note, Remarks, Report, Row, Table, Topic, Verdict};
pub use words::{bytes, ended, instant as when, shown, time};
