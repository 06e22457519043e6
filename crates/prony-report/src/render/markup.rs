//! Writes the report as AsciiDoc or Emacs org-mode, with the same content as in Markdown except for profiles.

use std::io::{self, Write};

use super::Render;
use crate::escape::{asciidoc, orgmode};
use crate::model::{Align, Report, Table};

/// A language of marked-up text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Markup {
    /// AsciiDoc.
    Asciidoc,
    /// Emacs org-mode.
    Orgmode,
}

impl Render for Markup {
    fn render(&self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        match self {
            Self::Asciidoc => writeln!(out, "= {}", self.text(&report.title))?,
            // Without emphasis, subscripts and dashes made of hyphens no sign of a command has a meaning.
            Self::Orgmode => writeln!(out, "#+TITLE: {}\n#+OPTIONS: ^:nil *:nil -:nil", self.text(&report.title))?,
        }
        report.question.iter().try_for_each(|asked| writeln!(out, "\nQuestion: {}\n", self.text(asked)))?;
        self.list(&report.preface, out)?;
        for line in &report.verdicts.lines {
            writeln!(out, "\n{}\n\n{}", self.text(&line.sentence), self.text(&line.detail.to_string()))?;
        }
        report.judged.iter().try_for_each(|judged| writeln!(out, "\n{}", self.text(judged)))?;
        report
            .effects
            .iter()
            .chain(&report.floors)
            .chain(&report.crashes)
            .try_for_each(|table| self.table(table, out))?;
        for remarks in &report.remarks {
            self.heading(remarks.title, out)?;
            self.list(&remarks.lines, out)?;
            writeln!(out, "\n{}", self.text(&remarks.note))?;
        }
        report.tables.iter().try_for_each(|table| self.table(table, out))?;
        if !report.findings.is_empty() {
            self.heading("Findings", out)?;
            let line = |finding: &crate::model::FindingLine| {
                format!("{}: {}; {}", finding.severity, finding.text, finding.hint)
            };
            self.list(&report.findings.iter().map(line).collect::<Vec<_>>(), out)?;
        }
        if !report.machine.is_empty() {
            self.heading("Machine", out)?;
            let facts = report.machine.iter().map(|(name, value)| format!("{name}: {value}"));
            self.list(&facts.collect::<Vec<_>>(), out)?;
        }
        Ok(())
    }
}

impl Markup {
    fn text(self, text: &str) -> String {
        match self {
            Self::Asciidoc => asciidoc(text),
            Self::Orgmode => orgmode(text),
        }
    }

    fn heading(self, text: &str, out: &mut dyn Write) -> io::Result<()> {
        let sign = if self == Self::Asciidoc { "==" } else { "*" };
        writeln!(out, "\n{sign} {}", self.text(text))
    }

    fn list(self, lines: &[String], out: &mut dyn Write) -> io::Result<()> {
        let sign = if self == Self::Asciidoc { "*" } else { "-" };
        writeln!(out)?;
        lines.iter().try_for_each(|line| writeln!(out, "{sign} {}", self.text(line)))
    }

    fn table(self, table: &Table, out: &mut dyn Write) -> io::Result<()> {
        table.title.iter().try_for_each(|title| self.heading(title, out))?;
        writeln!(out, "\n{}\n", self.text(&table.caption))?;
        let labels = table.labels.iter().map(|label| self.text(label));
        let columns = table.columns.iter().map(|column| self.text(&column.full()) + &self.marks(&column.marks));
        let heading: Vec<String> = labels.chain(columns).collect();
        let right = table.columns.iter().map(|column| column.align == Align::Right);
        let right: Vec<bool> = table.labels.iter().map(|_| false).chain(right).collect();
        let rows = table.rows.iter().map(|row| {
            let labels = row.labels.iter().map(|label| self.text(&label.text) + &self.marks(&label.marks));
            let cells = row.cells.iter().map(|cell| {
                let texts = [&cell.main, &cell.spread, &cell.count].into_iter().filter(|text| !text.is_empty());
                texts.map(|text| self.text(text)).collect::<Vec<_>>().join(" ") + &self.marks(&cell.marks)
            });
            labels.chain(cells).collect::<Vec<_>>()
        });
        match self {
            Self::Asciidoc => {
                let sides: Vec<&str> = right.iter().map(|right| if *right { ">" } else { "<" }).collect();
                writeln!(out, "[cols=\"{}\",options=\"header\"]\n|===\n|{}\n", sides.join(","), heading.join(" |"))?;
                rows.into_iter().try_for_each(|row| writeln!(out, "|{}", row.join(" |")))?;
                writeln!(out, "|===")?;
            }
            Self::Orgmode => {
                let sides: Vec<&str> = right.iter().map(|right| if *right { "<r>" } else { "<l>" }).collect();
                writeln!(out, "| {} |\n|{}|", heading.join(" | "), vec!["---"; heading.len()].join("+"))?;
                writeln!(out, "| {} |", sides.join(" | "))?;
                rows.into_iter().try_for_each(|row| writeln!(out, "| {} |", row.join(" | ")))?;
            }
        }
        table
            .notes
            .iter()
            .try_for_each(|note| writeln!(out, "\n{}{}", self.marks(&[note.mark]).trim_start(), self.text(&note.text)))
    }

    /// Numbers of footnotes.
    fn marks(self, marks: &[usize]) -> String {
        let marks: Vec<String> = marks.iter().filter(|mark| **mark > 0).map(usize::to_string).collect();
        match (marks.as_slice(), self) {
            ([], _) => String::new(),
            // A blank ends what is raised.
            (marks, Self::Asciidoc) => format!("^{}^", marks.join(",")),
            // In parentheses it would be the uncertainty of a value.
            (marks, Self::Orgmode) => format!(" [{}] ", marks.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Cell, Column, Label, Note, Row, Topic};

    fn report() -> Report {
        let column = Column {
            group: "run".into(),
            heading: "time".into(),
            unit: "ms".into(),
            align: Align::Right,
            topic: Topic::Time,
            marks: vec![1],
        };
        let cell = Cell { main: "1.5".into(), spread: "[1..2]".into(), ..Cell::default() };
        let row = Row { labels: vec![Label { text: "a|*b*".into(), marks: Vec::new() }], cells: vec![cell] };
        let notes = vec![Note { mark: 1, text: "why".into() }];
        let table = Table {
            title: Some("Times".into()),
            caption: "medians".into(),
            labels: vec!["command".into()],
            columns: vec![column],
            rows: vec![row],
            notes,
        };
        Report { title: "t".into(), preface: vec!["* one".into()], tables: vec![table], ..Report::default() }
    }

    fn rendered(markup: Markup) -> String {
        let mut out = Vec::new();
        markup.render(&report(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn asciidoc_has_a_table_with_sides_and_escapes() {
        assert_eq!(
            rendered(Markup::Asciidoc),
            "= t\n\n* &#42; one\n\n== Times\n\nmedians\n\n[cols=\"<,>\",options=\"header\"]\n|===\n|command |run.time, ms^1^\n\n\
             |a&#124;&#42;b&#42; |1.5 &#91;1..2]\n|===\n\n^1^why\n"
        );
    }

    #[test]
    fn several_footnotes_are_raised_together() {
        assert_eq!([Markup::Asciidoc, Markup::Orgmode].map(|of| of.marks(&[1, 2])), ["^1,2^", " [1, 2] "]);
    }

    #[test]
    fn orgmode_has_a_table_with_sides_and_escapes() {
        assert_eq!(
            rendered(Markup::Orgmode),
            "#+TITLE: t\n#+OPTIONS: ^:nil *:nil -:nil\n\n- \u{200b}* one\n\n* Times\n\nmedians\n\n| command | run.time, ms [1]  |\n|---+---|\n\
             | <l> | <r> |\n| a\\vert{}*b* | 1.5 [1..2] |\n\n[1] why\n"
        );
    }
}
