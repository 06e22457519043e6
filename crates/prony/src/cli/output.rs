//! The two kinds of output of a command: text for people, and data for programs.

use std::io::{self, Write};

use crate::error::Error;
use prony_report::Report;
use prony_report::render::Render;
use prony_report::render::terminal::{Terminal, plain_table};
use prony_report::screen::{Data, Screen};
use serde::Serialize;

/// What a command prints to, and how.
pub struct Output<'a> {
    /// Nobody else writes to it: text and data go different ways.
    out: &'a mut dyn Write,
    /// Whether a terminal shows it.
    shown: bool,
    /// Columns of tables.
    pub width: Option<usize>,
    /// Whether colour may be used.
    colour: bool,
}

/// Standard output, of which what nobody reads any more is dropped: a command has its answer whoever reads what it prints.
pub(crate) struct UntilClosed<W: Write>(pub(crate) W);

impl<W: Write> Write for UntilClosed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        unless_closed(self.0.write(bytes), bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        unless_closed(self.0.flush(), ())
    }
}

/// What writing to a pipe came to, or `dropped` where its reader closed it.
fn unless_closed<T>(written: io::Result<T>, dropped: T) -> io::Result<T> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(dropped),
        written => written,
    }
}

fn unwritten(source: io::Error) -> Error {
    Error::write("the output")(source)
}

impl<'a> Output<'a> {
    /// To `out`, which a terminal shows or not.
    pub fn new(out: &'a mut dyn Write, shown: bool, width: Option<usize>, colour: bool) -> Self {
        Self { out, shown, width, colour }
    }

    /// Whether colour may be used from now on.
    pub(crate) fn set_colour(&mut self, colour: bool) {
        self.colour = colour;
    }

    /// Writes text; on a terminal, lines are broken at its width.
    ///
    /// # Errors
    /// Where it cannot be written; a broken pipe among them.
    pub fn print(&mut self, text: &str) -> Result<(), Error> {
        let width = self.width.filter(|_| self.shown);
        Screen::new(&mut *self.out, self.colour).broken_at(width).text(text).map_err(unwritten)
    }

    /// As [`Output::print`], where the next text comes later: who reads a file sees this one before.
    pub(crate) fn print_now(&mut self, text: &str) -> Result<(), Error> {
        self.print(text)?;
        self.out.flush().map_err(unwritten)
    }

    /// Writes a report's tables, in the width that was asked for or else the output's.
    ///
    /// # Errors
    /// As [`Output::print`].
    pub fn report(&mut self, report: &Report, width: Option<usize>) -> Result<(), Error> {
        let terminal = Terminal { width: width.or(self.width), colour: self.colour };
        terminal.render(report, &mut *self.out).map_err(unwritten)
    }

    /// Writes a table of plain texts.
    ///
    /// # Errors
    /// As [`Output::print`].
    pub fn table(&mut self, headings: &[&str], rows: &[Vec<String>]) -> Result<(), Error> {
        let terminal = Terminal { width: self.width, colour: self.colour };
        plain_table(terminal, headings, rows, &mut *self.out).map_err(unwritten)
    }

    /// Where data for programs go: byte for byte, unless a terminal shows them.
    pub fn data(&mut self) -> Data<&mut dyn Write> {
        Data::new(&mut *self.out, self.shown)
    }

    /// Writes data that is text, such as JSON.
    ///
    /// # Errors
    /// As [`Output::print`].
    pub(crate) fn print_data(&mut self, text: &str) -> Result<(), Error> {
        self.data().write_all(text.as_bytes()).map_err(unwritten)
    }

    /// Writes a value as JSON; `what` names it in errors.
    ///
    /// # Errors
    /// As [`Output::print`].
    pub(crate) fn print_json(&mut self, what: &'static str, value: &impl Serialize) -> Result<(), Error> {
        let json = serde_json::to_string_pretty(value).map_err(|source| Error::Json { what, source })?;
        self.print_data(&format!("{json}\n"))
    }

    /// Brings what was printed to where it goes.
    ///
    /// # Errors
    /// As [`Output::print`].
    pub fn flush(&mut self) -> Result<(), Error> {
        self.out.flush().map_err(unwritten)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_broken_at_the_width_of_a_terminal_and_whole_elsewhere() {
        let text = "a verdict needs at least six blocks, and every block runs each variant\n";
        let broken = "a verdict needs at least six blocks, and\nevery block runs each variant\n";
        for (shown, expected) in [(true, broken), (false, text)] {
            let mut out = Vec::new();
            Output::new(&mut out, shown, Some(40), false).print(text).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
