//! The formats in which a report is printed; each has a file here.

use std::io::{self, Write};

use super::model::Report;

mod grid;
pub mod markup;
pub mod summary;
pub mod terminal;

/// A medium.
pub trait Render {
    /// Writes the whole report.
    ///
    /// # Errors
    /// Those of `out`.
    fn render(&self, report: &Report, out: &mut dyn Write) -> io::Result<()>;
}
