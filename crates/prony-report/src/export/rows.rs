//! Writes rows as CSV or JSON.

use std::io::{self, Write};

use crate::escape::no_formula;

/// One field of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Field<'a> {
    /// A text.
    Text(&'a str),
    /// A number.
    Number(f64),
    /// A whole number.
    Whole(u64),
    /// Which of several it is, from 0 on: in JSON as it is, in CSV counted from 1, as everywhere a reader sees it.
    Nth(u64),
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
    out: csv::Writer<&'w mut dyn Write>,
}

impl<'w> Csv<'w> {
    /// To the output.
    pub fn new(out: &'w mut dyn Write) -> Self {
        Self { out: csv::Writer::from_writer(out) }
    }
}

impl Rows for Csv<'_> {
    fn begin(&mut self, columns: &[String]) -> io::Result<()> {
        Ok(self.out.write_record(columns.iter().map(|name| no_formula(name).into_owned()))?)
    }

    fn row(&mut self, fields: &[Field<'_>]) -> io::Result<()> {
        for field in fields {
            match field {
                Field::Text(text) => self.out.write_field(no_formula(text).as_bytes()),
                Field::Number(number) => self.out.write_field(number.to_string()),
                Field::Whole(number) => self.out.write_field(number.to_string()),
                Field::Nth(number) => self.out.write_field((number + 1).to_string()),
                Field::Bool(yes) => self.out.write_field(yes.to_string()),
                Field::None => self.out.write_field(""),
            }?;
        }
        Ok(self.out.write_record(None::<&[u8]>)?)
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
                Field::Whole(number) | Field::Nth(number) => write!(self.out, "{number}")?,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_keeps_commas_quotes_and_lines_and_has_no_formulas() {
        let mut out = Vec::new();
        let mut rows = Csv::new(&mut out);
        rows.begin(&["plain".to_owned(), "factor.=1".to_owned(), "=1".to_owned()]).unwrap();
        rows.row(&[Field::Text("a,\"b\"\nc"), Field::Text("@SUM(A1,A2)"), Field::Text("\r=1")]).unwrap();
        rows.row(&[Field::Number(-1.5), Field::Bool(true), Field::None]).unwrap();
        rows.end().unwrap();
        drop(rows);
        let text = String::from_utf8(out).unwrap();
        let expected = "plain,factor.=1,'=1\n\"a,\"\"b\"\"\nc\",\"'@SUM(A1,A2)\",\"'\r=1\"\n-1.5,true,\n";
        assert_eq!(text, expected);
    }

    /// JSON counted blocks from 0 in the document and from 1 in its rows.
    #[test]
    fn numbers_of_blocks_count_from_1_in_csv_and_from_0_in_json() {
        let written = |csv: bool| {
            let mut out = Vec::new();
            {
                let rows: &mut dyn Rows = if csv { &mut Csv::new(&mut out) } else { &mut Json::new(&mut out) };
                rows.begin(&["block".to_owned(), "variant".to_owned()]).unwrap();
                rows.row(&[Field::Nth(0), Field::Whole(0)]).unwrap();
                rows.end().unwrap();
            }
            String::from_utf8(out).unwrap()
        };
        assert_eq!(written(true), "block,variant\n1,0\n");
        assert_eq!(written(false), "[\n{\"block\":0,\"variant\":0}\n]\n");
    }
}
