//! Rows in a format: CSV and JSON.

use std::io::{self, Write};

use crate::report::escape::csv;

/// One field of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Field<'a> {
    /// A text.
    Text(&'a str),
    /// A number.
    Number(f64),
    /// A whole number.
    Whole(u64),
    /// Yes or no.
    Bool(bool),
    /// Nothing: an empty field, `null`.
    None,
}

/// A format that rows are written in.
pub trait Rows {
    /// The names of the columns; once, before any row.
    ///
    /// # Errors
    /// Those of the output.
    fn begin(&mut self, columns: &[String]) -> io::Result<()>;

    /// One row, a field a column.
    ///
    /// # Errors
    /// Those of the output.
    fn row(&mut self, fields: &[Field<'_>]) -> io::Result<()>;

    /// After the last row.
    ///
    /// # Errors
    /// Those of the output.
    fn end(&mut self) -> io::Result<()>;
}

/// Comma-separated values (RFC 4180, with plain line feeds).
pub struct Csv<'w> {
    out: &'w mut dyn Write,
}

impl<'w> Csv<'w> {
    /// To the output.
    pub fn new(out: &'w mut dyn Write) -> Self {
        Self { out }
    }
}

impl Rows for Csv<'_> {
    fn begin(&mut self, columns: &[String]) -> io::Result<()> {
        writeln!(self.out, "{}", columns.iter().map(|c| csv(c)).collect::<Vec<_>>().join(","))
    }

    fn row(&mut self, fields: &[Field<'_>]) -> io::Result<()> {
        for (at, field) in fields.iter().enumerate() {
            if at > 0 {
                self.out.write_all(b",")?;
            }
            match field {
                Field::Text(text) => self.out.write_all(csv(text).as_bytes())?,
                Field::Number(number) => write!(self.out, "{number}")?,
                Field::Whole(number) => write!(self.out, "{number}")?,
                Field::Bool(yes) => write!(self.out, "{yes}")?,
                Field::None => {}
            }
        }
        self.out.write_all(b"\n")
    }

    fn end(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// A JSON array with an object a row, one a line.
pub struct Json<'w> {
    out: &'w mut dyn Write,
    columns: Vec<String>,
    first: bool,
}

impl<'w> Json<'w> {
    /// To the output.
    pub fn new(out: &'w mut dyn Write) -> Self {
        Self { out, columns: Vec::new(), first: true }
    }
}

impl Rows for Json<'_> {
    fn begin(&mut self, columns: &[String]) -> io::Result<()> {
        self.columns = columns.iter().map(|c| serde_json::Value::from(c.as_str()).to_string()).collect();
        self.out.write_all(b"[")
    }

    fn row(&mut self, fields: &[Field<'_>]) -> io::Result<()> {
        self.out.write_all(if std::mem::take(&mut self.first) { b"\n{" } else { b",\n{" })?;
        for (at, (name, field)) in self.columns.iter().zip(fields).enumerate() {
            write!(self.out, "{}{name}:", if at > 0 { "," } else { "" })?;
            match field {
                Field::Text(text) => serde_json::to_writer(&mut *self.out, text)?,
                Field::Number(number) => serde_json::to_writer(&mut *self.out, number)?,
                Field::Whole(number) => write!(self.out, "{number}")?,
                Field::Bool(yes) => write!(self.out, "{yes}")?,
                Field::None => self.out.write_all(b"null")?,
            }
        }
        self.out.write_all(b"}")
    }

    fn end(&mut self) -> io::Result<()> {
        self.out.write_all(b"\n]\n")?;
        self.out.flush()
    }
}
