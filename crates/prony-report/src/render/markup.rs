//! Writes the report as marked-up text: Markdown in GitHub's form, AsciiDoc or Emacs org-mode.

use std::io::{self, Write};

use super::Render;
use crate::escape::{asciidoc, markdown, markdown_sentence, orgmode};
use crate::model::{Align, FindingLine, Report, Table};

/// A language of marked-up text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Markup {
    /// Markdown as GitHub shows it.
    Markdown,
    /// AsciiDoc.
    Asciidoc,
    /// Emacs org-mode.
    Orgmode,
}

impl Render for Markup {
    fn render(&self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        let title = self.text(&report.title);
        match self {
            Self::Markdown => writeln!(out, "# {title}")?,
            Self::Asciidoc => writeln!(out, "= {title}")?,
            // Without emphasis, subscripts and dashes made of hyphens no sign of a command has a meaning.
            Self::Orgmode => writeln!(out, "#+TITLE: {title}\n#+OPTIONS: ^:nil *:nil -:nil")?,
        }
        self.body(report, out)
    }
}

impl Markup {
    /// The report without its title.
    pub(super) fn body(self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        report.question.iter().try_for_each(|asked| writeln!(out, "\nQuestion: {}", self.text(asked)))?;
        match self {
            Self::Markdown => self.lines("", &report.preface, out)?,
            Self::Asciidoc | Self::Orgmode => self.list(&report.preface, out)?,
        }
        for line in &report.verdicts.lines {
            let apart = if self == Self::Markdown { "<br>" } else { "\n\n" };
            let detail = self.sentence(&line.detail.to_string());
            writeln!(out, "\n{}{apart}{detail}", self.strong(&line.sentence))?;
        }
        report.judged.iter().try_for_each(|judged| writeln!(out, "\n{}", self.sentence(judged)))?;
        report.beside_verdicts().try_for_each(|table| self.table(table, out))?;
        for remarks in &report.remarks {
            match self {
                Self::Markdown => writeln!(out, "\n{}", self.strong(remarks.title))?,
                Self::Asciidoc | Self::Orgmode => self.heading(remarks.title, out)?,
            }
            self.list(&remarks.lines, out)?;
            writeln!(out, "\n{}", self.sentence(&remarks.note))?;
        }
        report.tables.iter().try_for_each(|table| self.table(table, out))?;
        if !report.findings.is_empty() {
            self.heading("Findings", out)?;
            writeln!(out)?;
            report.findings.iter().try_for_each(|finding| self.finding(finding, out))?;
        }
        self.machine(&report.machine, out)
    }

    /// A finding as an item of a list.
    pub(super) fn finding(self, finding: &FindingLine, out: &mut dyn Write) -> io::Result<()> {
        let (text, hint) = (self.sentence(&finding.text), self.sentence(&finding.hint));
        writeln!(out, "{} {}: {text}; {hint}", self.bullet(), self.strong(finding.severity))
    }

    fn machine(self, facts: &[(String, String)], out: &mut dyn Write) -> io::Result<()> {
        if facts.is_empty() {
            return Ok(());
        }
        self.heading("Machine", out)?;
        if self == Self::Markdown {
            writeln!(out, "\n| | |\n| :-- | :-- |")?;
            let row = |(name, value): &(String, String)| format!("| {} | {} |", self.text(name), self.text(value));
            return facts.iter().try_for_each(|fact| writeln!(out, "{}", row(fact)));
        }
        let facts = facts.iter().map(|(name, value)| format!("{name}: {value}"));
        self.list(&facts.collect::<Vec<_>>(), out)
    }

    fn text(self, text: &str) -> String {
        match self {
            Self::Markdown => markdown(text),
            Self::Asciidoc => asciidoc(text),
            Self::Orgmode => orgmode(text),
        }
    }

    /// A sentence written by prony, in which names are in backticks.
    fn sentence(self, text: &str) -> String {
        if self == Self::Markdown { markdown_sentence(text) } else { self.text(text) }
    }

    /// A sentence that stands out, where the language has emphasis that no other text can end.
    fn strong(self, text: &str) -> String {
        let sentence = self.sentence(text);
        if self == Self::Markdown { format!("**{sentence}**") } else { sentence }
    }

    fn heading(self, text: &str, out: &mut dyn Write) -> io::Result<()> {
        let sign = match self {
            Self::Markdown => "##",
            Self::Asciidoc => "==",
            Self::Orgmode => "*",
        };
        writeln!(out, "\n{sign} {}", self.text(text))
    }

    const fn bullet(self) -> &'static str {
        if matches!(self, Self::Asciidoc) { "*" } else { "-" }
    }

    fn list(self, lines: &[String], out: &mut dyn Write) -> io::Result<()> {
        self.lines(&format!("{} ", self.bullet()), lines, out)
    }

    fn lines(self, before: &str, lines: &[String], out: &mut dyn Write) -> io::Result<()> {
        writeln!(out)?;
        lines.iter().try_for_each(|line| writeln!(out, "{before}{}", self.sentence(line)))
    }

    fn table(self, table: &Table, out: &mut dyn Write) -> io::Result<()> {
        table.title.iter().try_for_each(|title| self.heading(title, out))?;
        writeln!(out, "\n{}\n", self.sentence(&table.caption))?;
        let labels = table.labels.iter().map(|label| self.text(label));
        let columns = table.columns.iter().map(|column| self.text(&column.full()) + &self.marks(&column.marks));
        let heading: Vec<String> = labels.chain(columns).collect();
        let right = table.columns.iter().map(|column| column.align == Align::Right);
        let right = table.labels.iter().map(|_| false).chain(right);
        let sides = |left: &'static str, side: &'static str, between: &str| {
            right.map(|right| if right { side } else { left }).collect::<Vec<_>>().join(between)
        };
        let mut rows = table.rows.iter().map(|row| {
            let labels = row.labels.iter().map(|label| self.text(&label.text) + &self.marks(&label.marks));
            let cells = row.cells.iter().map(|cell| cell.text(|text| self.text(text)) + &self.marks(&cell.marks));
            labels.chain(cells).collect::<Vec<_>>()
        });
        match self {
            Self::Markdown => {
                writeln!(out, "| {} |\n| {} |", heading.join(" | "), sides(":--", "--:", " | "))?;
                rows.try_for_each(|row| writeln!(out, "| {} |", row.join(" | ")))?;
            }
            Self::Asciidoc => {
                let sides = sides("<", ">", ",");
                writeln!(out, "[cols=\"{sides}\",options=\"header\"]\n|===\n|{}\n", heading.join(" |"))?;
                rows.try_for_each(|row| writeln!(out, "|{}", row.join(" |")))?;
                writeln!(out, "|===")?;
            }
            Self::Orgmode => {
                writeln!(out, "| {} |\n|{}|", heading.join(" | "), vec!["---"; heading.len()].join("+"))?;
                writeln!(out, "| {} |", sides("<l>", "<r>", " | "))?;
                rows.try_for_each(|row| writeln!(out, "| {} |", row.join(" | ")))?;
            }
        }
        table.notes.iter().try_for_each(|note| {
            writeln!(out, "\n{}{}", self.marks(&[note.mark]).trim_start(), self.sentence(&note.text))
        })
    }

    /// Numbers of footnotes.
    fn marks(self, marks: &[usize]) -> String {
        match (numbers(marks), self) {
            (numbers, _) if numbers.is_empty() => numbers,
            // GitHub's own footnotes would be numbered through the whole document.
            (numbers, Self::Markdown) => format!("<sup>{numbers}</sup>"),
            // A blank ends what is raised.
            (numbers, Self::Asciidoc) => format!("^{}^", numbers.replace(' ', "")),
            // In parentheses it would be the uncertainty of a value.
            (numbers, Self::Orgmode) => format!(" [{numbers}] "),
        }
    }
}

/// The numbers of footnotes, `1, 2`; without 0, which is that of notes on a whole table.
pub(crate) fn numbers(marks: &[usize]) -> String {
    let numbers: Vec<String> = marks.iter().filter(|mark| **mark > 0).map(usize::to_string).collect();
    numbers.join(", ")
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
