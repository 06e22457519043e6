//! Writes the report as Markdown in GitHub's form.

use std::io::{self, Write};

use super::Render;
use crate::escape::{markdown, markdown_sentence};
use crate::model::{Align, Cell, Column, FindingLine, Label, Remarks, Report, Table};

/// Markdown as GitHub shows it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Markdown;

impl Render for Markdown {
    fn render(&self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "# {}\n", markdown(&report.title))?;
        body(report, out)
    }
}

/// The report without its title.
pub(super) fn body(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    if let Some(asked) = &report.question {
        writeln!(out, "Question: {}\n", markdown(asked))?;
    }
    for line in &report.preface {
        writeln!(out, "{}", markdown_sentence(line))?;
    }
    for line in &report.verdicts.lines {
        writeln!(
            out,
            "\n**{}**<br>{}",
            markdown_sentence(&line.sentence),
            markdown_sentence(&line.detail.to_string())
        )?;
    }
    if let Some(judged) = &report.judged {
        writeln!(out, "\n{}", markdown_sentence(judged))?;
    }
    report.effects.iter().chain(&report.floors).chain(&report.crashes).try_for_each(|t| table(t, out))?;
    report.remarks.iter().try_for_each(|r| remarks(r, out))?;
    report.tables.iter().try_for_each(|t| table(t, out))?;
    findings(&report.findings, out)?;
    machine(&report.machine, out)
}

fn remarks(remarks: &Remarks, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\n**{}**\n", remarks.title)?;
    remarks.lines.iter().try_for_each(|line| writeln!(out, "- {}", markdown_sentence(line)))?;
    writeln!(out, "\n{}", markdown_sentence(&remarks.note))
}

fn table(table: &Table, out: &mut dyn Write) -> io::Result<()> {
    if let Some(title) = &table.title {
        writeln!(out, "\n## {}", markdown(title))?;
    }
    writeln!(out, "\n{}\n", markdown_sentence(&table.caption))?;
    let labels = table.labels.iter().map(|label| markdown(label));
    line(labels.chain(table.columns.iter().map(heading)), out)?;
    let left = table.labels.iter().map(|_| ":--".to_owned());
    line(left.chain(table.columns.iter().map(|column| rule(column).to_owned())), out)?;
    for row in &table.rows {
        line(row.labels.iter().map(label).chain(row.cells.iter().map(cell)), out)?;
    }
    for note in &table.notes {
        writeln!(out, "\n{}{}", marks(&[note.mark]), markdown_sentence(&note.text))?;
    }
    Ok(())
}

fn line(cells: impl Iterator<Item = String>, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "| {} |", cells.collect::<Vec<_>>().join(" | "))
}

fn heading(column: &Column) -> String {
    markdown(&column.full()) + &marks(&column.marks)
}

const fn rule(column: &Column) -> &'static str {
    match column.align {
        Align::Left => ":--",
        Align::Right => "--:",
    }
}

fn label(label: &Label) -> String {
    markdown(&label.text) + &marks(&label.marks)
}

fn cell(cell: &Cell) -> String {
    let texts = [&cell.main, &cell.spread, &cell.count];
    let text = texts.iter().filter(|t| !t.is_empty()).map(|t| markdown(t)).collect::<Vec<_>>().join(" ");
    text + &marks(&cell.marks)
}

/// Superscripts; GitHub's own footnotes would be numbered through the whole document.
fn marks(marks: &[usize]) -> String {
    let marks: Vec<String> = marks.iter().filter(|m| **m > 0).map(usize::to_string).collect();
    if marks.is_empty() { String::new() } else { format!("<sup>{}</sup>", marks.join(", ")) }
}

fn findings(findings: &[FindingLine], out: &mut dyn Write) -> io::Result<()> {
    if findings.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n## Findings\n")?;
    findings.iter().try_for_each(|finding| one_finding(finding, out))
}

/// A finding as an item of a list.
pub(super) fn one_finding(finding: &FindingLine, out: &mut dyn Write) -> io::Result<()> {
    let (text, hint) = (markdown_sentence(&finding.text), markdown_sentence(&finding.hint));
    writeln!(out, "- **{}**: {text}; {hint}", finding.severity)
}

fn machine(facts: &[(String, String)], out: &mut dyn Write) -> io::Result<()> {
    if facts.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n## Machine\n\n| | |\n| :-- | :-- |")?;
    facts.iter().try_for_each(|(name, value)| line([markdown(name), markdown(value)].into_iter(), out))
}
