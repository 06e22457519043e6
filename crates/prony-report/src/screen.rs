//! All text to a terminal goes through this file. Titles, levels and the output of programs are data: a character in
//! them that would move the cursor, begin an escape sequence or reverse the text direction is shown escaped, as
//! `\u{1b}`. Colour is never part of a text; it is passed separately. `clippy.toml` of this crate forbids every other
//! use of the standard streams.

#![expect(clippy::disallowed_methods, reason = "this is the one way to the standard streams")]

use std::fmt::Write as _;
use std::io::{self, BufWriter, IsTerminal, Stderr, Stdout, Write};

use unicode_width::UnicodeWidthStr;

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
    size.ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns >= 20).unwrap_or(100)
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

/// Breaks a text between words, but neither between a number and its percent sign nor within a command of prony in
/// backticks, which would not run if it were copied with a line feed. What is too long gets a line of its own.
pub(crate) fn wrap(text: &str, to: usize) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match words.last_mut().filter(|last| belongs_to(word, last)) {
            Some(last) => *last += &format!(" {word}"),
            None => words.push(word.to_owned()),
        }
    }
    let mut lines = vec![String::new()];
    for word in words {
        let line = lines.last_mut().map(|l| (l.width(), l));
        match line {
            Some((0, line)) => line.push_str(&word),
            Some((used, line)) if used + 1 + word.width() <= to => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
}

/// Whether a word stays on the line of what precedes it.
fn belongs_to(word: &str, last: &str) -> bool {
    let open_command = last.rfind("`prony").is_some_and(|start| !last[start + 1..].contains('`'));
    open_command || (word.starts_with('%') && last.ends_with(|c: char| c.is_ascii_digit()))
}

/// What the lines after the first of a broken text are aligned behind.
const MARKS: [&str; 5] = ["error: ", "warning: ", "hint: ", "note: ", "- "];

/// A text whose longer lines are broken between words, with the indentation of the line repeated. Excerpts of files,
/// which have a bar at their margin, stay whole: a mark below points at a column.
fn broken(text: &str, to: usize) -> String {
    let line = |line: &str| {
        let body = line.trim_start_matches(' ');
        let is_excerpt = body.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start().starts_with('|');
        if line.width() <= to || is_excerpt {
            return line.to_owned();
        }
        let mark = MARKS.iter().find(|mark| body.starts_with(**mark)).map_or(0, |mark| mark.len());
        let (indent, (mark, rest)) = (line.len() - body.len(), body.split_at(mark));
        let next = format!("\n{}", " ".repeat(indent + mark.len()));
        let lines = wrap(rest, to.saturating_sub(indent + mark.len()).max(20));
        format!("{}{mark}{}", " ".repeat(indent), lines.join(&next))
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
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
    /// Lines are broken at this column; `None` breaks none.
    width: Option<usize>,
}

impl Screen<Stderr> {
    /// The standard error stream; on a terminal, lines are broken at its width.
    pub fn messages() -> Self {
        Self::new(io::stderr(), false).broken_at(shows_messages().then(columns))
    }
}

impl<W: Write> Screen<W> {
    /// Text for `out`, in colour or not.
    pub const fn new(out: W, colour: bool) -> Self {
        Self { out, colour, width: None }
    }

    /// The same with the lines of [`Screen::text`] and [`Screen::line`] broken at this column.
    pub fn broken_at(self, width: Option<usize>) -> Self {
        Self { width, ..self }
    }

    /// Writes a text of one or more lines.
    ///
    /// # Errors
    /// Those of the output.
    pub fn text(&mut self, text: &str) -> io::Result<()> {
        let text = match self.width {
            Some(width) => broken(&lines(text), width),
            None => lines(text),
        };
        self.out.write_all(text.as_bytes())
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
    fn lines_are_broken_at_the_width_behind_their_mark_and_excerpts_are_not() {
        let excerpt = "12 | key = \"a text that is longer than forty columns\"\n   |       ^^^^\n";
        let text = format!(
            "error: one two three four five six seven eight nine\n  \
             - five six seven eight nine ten eleven twelve\nshort\n\n{excerpt}"
        );
        let screened = |width| {
            let mut out = Vec::new();
            Screen::new(&mut out, false).broken_at(width).text(&text).unwrap();
            String::from_utf8(out).unwrap()
        };
        let broken = "error: one two three four five six seven\n       eight nine\n  \
                      - five six seven eight nine ten eleven\n    twelve\nshort\n\n";
        assert_eq!(screened(Some(40)), format!("{broken}{excerpt}"));
        assert_eq!(screened(None), text);
    }

    #[test]
    fn overlong_word_gets_its_own_line() {
        assert_eq!(wrap("a incomprehensibilities b c", 5), ["a", "incomprehensibilities", "b c"]);
    }

    #[test]
    fn percent_sign_stays_on_the_line_of_its_number() {
        assert_eq!(wrap("it takes (3.0 to 18 %) less", 20), ["it takes (3.0 to", "18 %) less"]);
        assert_eq!(wrap("the sign % is a word", 8), ["the sign", "% is a", "word"]);
    }

    #[test]
    fn command_stays_on_one_line() {
        let text = "the rest (`prony show 1 --all`), and `a b` of `prony` itself";
        let lines = ["the rest", "(`prony show 1 --all`),", "and `a b`", "of `prony`", "itself"];
        assert_eq!(wrap(text, 10), lines);
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
