//! All text to a terminal goes through this file. Titles, levels and the output of programs are data: a character in
//! them that would move the cursor, begin an escape sequence or reverse the text direction is shown escaped, as
//! `\u{1b}`. Colour is never part of a text; it is passed separately. `clippy.toml` of this crate forbids every other
//! use of the standard streams.

#![expect(clippy::disallowed_methods, reason = "this is the one way to the standard streams")]

use std::fmt::Write as _;
use std::io::{self, BufWriter, IsTerminal, Stderr, Stdout, Write};

/// The standard output stream, for writers that escape their texts themselves.
pub fn stdout() -> BufWriter<Stdout> {
    BufWriter::new(io::stdout())
}

/// Whether a terminal shows the standard output stream.
pub fn shows_output() -> bool {
    io::stdout().is_terminal()
}

/// Whether a terminal shows the standard error stream.
pub fn shows_messages() -> bool {
    io::stderr().is_terminal()
}

/// The terminal's width, for tables; 100 where it cannot be asked.
pub fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stdout()).or_else(|_| rustix::termios::tcgetwinsize(io::stderr()));
    size.ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns >= 40).unwrap_or(100)
}

/// Whether a character would act on a terminal, or is invisible there.
pub(crate) fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// A text on one line with no character that acts on a terminal: a line feed is shown as `\n`, other such characters as
/// `\u{1b}`.
pub fn one_line(text: &str) -> String {
    escaped(text, |_| false)
}

/// A text of several lines in which nothing else acts on a terminal.
pub fn lines(text: &str) -> String {
    escaped(text, |c| matches!(c, '\n' | '\t'))
}

fn escaped(text: &str, keeps: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if keeps(c) || !is_unsafe(c) => out.push(c),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c => {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{{{:x}}}", c as u32);
            }
        }
    }
    out
}

/// How a text may stand out, where colour is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Headings.
    Strong,
    /// What did not end well.
    Alarm,
    /// What matters less.
    Faint,
}

/// Text for people: every text is escaped, line feeds and tabs excepted.
pub struct Screen<W> {
    out: W,
    colour: bool,
}

impl Screen<Stderr> {
    /// The standard error stream.
    pub fn messages() -> Self {
        Self::new(io::stderr(), false)
    }
}

impl<W: Write> Screen<W> {
    /// Text for `out`, in colour or not.
    pub const fn new(out: W, colour: bool) -> Self {
        Self { out, colour }
    }

    /// Writes a text of one or more lines.
    ///
    /// # Errors
    /// Those of the output.
    pub fn text(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(lines(text).as_bytes())
    }

    /// Writes a line.
    ///
    /// # Errors
    /// Those of the output.
    pub fn line(&mut self, text: &str) -> io::Result<()> {
        self.text(text)?;
        self.out.write_all(b"\n")
    }

    /// Writes a text that stands out.
    ///
    /// # Errors
    /// Those of the output.
    pub(crate) fn styled(&mut self, style: Option<Style>, text: &str) -> io::Result<()> {
        let Some(style) = style.filter(|_| self.colour && !text.is_empty()) else { return self.text(text) };
        let code = match style {
            Style::Strong => 1,
            Style::Alarm => 31,
            Style::Faint => 2,
        };
        write!(self.out, "\u{1b}[{code}m{}\u{1b}[0m", lines(text))
    }

    /// Erases the text on the current line, of this many columns.
    ///
    /// # Errors
    /// Those of the output.
    pub fn take_back(&mut self, columns: usize) -> io::Result<()> {
        write!(self.out, "\r{}\r", " ".repeat(columns))
    }

    /// Flushes the output.
    ///
    /// # Errors
    /// Those of the output.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Data for programs: bytes as they are, unless a terminal shows them.
pub struct Data<W> {
    out: W,
    /// A terminal reads them.
    shown: bool,
    /// The begin of a character whose other bytes have not been written yet.
    open: Vec<u8>,
}

impl Data<Stdout> {
    /// The standard output stream.
    pub fn stdout() -> Self {
        Self::new(io::stdout(), shows_output())
    }
}

impl<W: Write> Data<W> {
    /// Data for `out`; `shown` where that is a terminal.
    pub const fn new(out: W, shown: bool) -> Self {
        Self { out, shown, open: Vec::new() }
    }
}

impl<W: Write> Write for Data<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.shown {
            return self.out.write(bytes);
        }
        self.open.extend_from_slice(bytes);
        // What does not end in the midst of a character can be shown.
        let whole = match std::str::from_utf8(&self.open) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => self.open.len(),
        };
        let ready: Vec<u8> = self.open.drain(..whole).collect();
        self.out.write_all(lines(&String::from_utf8_lossy(&ready)).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "a\u{1b}[31mb\r\u{202e}c\u{7f}\u{9b}2J\u{200b}\u{2066}é日";
    const SHOWN: &str = "a\\u{1b}[31mb\\u{d}\\u{202e}c\\u{7f}\\u{9b}2J\\u{200b}\\u{2066}é日";

    #[test]
    fn escaping_shows_what_would_act_on_a_terminal() {
        assert_eq!(one_line(HOSTILE), SHOWN);
        assert_eq!(lines(&format!("x\n\t{HOSTILE}")), format!("x\n\t{SHOWN}"));
        assert_eq!(one_line("a\n\tb"), "a\\n\\tb");
        assert_eq!(lines(&lines(HOSTILE)), SHOWN, "twice is once");
    }

    #[test]
    fn screen_colours_are_its_own_and_never_those_of_a_text() {
        let mut out = Vec::new();
        let mut screen = Screen::new(&mut out, true);
        screen.styled(Some(Style::Alarm), "\u{1b}[0mx").unwrap();
        screen.line(HOSTILE).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, format!("\u{1b}[31m\\u{{1b}}[0mx\u{1b}[0m{SHOWN}\n"));
    }

    #[test]
    fn data_is_escaped_for_a_terminal_only() {
        for (shown, expected) in [(false, HOSTILE), (true, SHOWN)] {
            let mut out = Vec::new();
            let mut data = Data::new(&mut out, shown);
            // A writer may cut a character into pieces.
            HOSTILE.bytes().for_each(|byte| data.write_all(&[byte]).unwrap());
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
        let mut out = Vec::new();
        Data::new(&mut out, true).write_all(b"a\xff\x1bb").unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "a\u{fffd}\\u{1b}b");
    }
}
