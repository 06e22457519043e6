//! Prints a report for a terminal, fitted to its width and understandable without colour.

use std::io::{self, Write};

use super::Render;
use super::grid::{Field, Laid, WHOLE, lay, pad_right, width};
use crate::escape::terminal as safe;
use crate::model::{Align, Cell, Column, FindingLine, Remarks, Report, Row, Table, Topic};
use crate::screen::{Screen, Style, wrap};
use prony_analysis::verdicts::Line;

/// Tables for a terminal.
#[derive(Clone, Copy, Debug, Default)]
pub struct Terminal {
    /// Columns of characters; `None` does not break anything.
    pub width: Option<usize>,
    /// Whether escape sequences for colour are understood and wanted.
    pub colour: bool,
}

/// Between two columns.
const GAP: &str = "   ";

/// A part of a table: its title and the places of its columns.
pub(crate) type Part = (String, Vec<usize>);

/// What a table is written to.
type Out<'a> = Screen<&'a mut dyn Write>;

/// A text and how it stands out.
type Piece = (Option<Style>, String);

impl Render for Terminal {
    fn render(&self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        let out = &mut Screen::new(out, self.colour);
        styled(Style::Strong, &safe(&report.title), out)?;
        report.question.iter().try_for_each(|asked| self.paragraph("", &format!("Question: {asked}"), out))?;
        report.preface.iter().try_for_each(|line| self.paragraph("", line, out))?;
        self.findings(&report.findings, out)?;
        self.verdicts(&report.verdicts.lines, out)?;
        if let Some(judged) = &report.judged {
            out.line("")?;
            self.paragraph("", judged, out)?;
        }
        report.beside_verdicts().try_for_each(|table| self.table(table, out))?;
        report.remarks.iter().try_for_each(|remarks| self.remarks(remarks, out))?;
        for (at, table) in report.tables.iter().enumerate() {
            self.columns(table, out)?;
            // Sibling tables share them.
            if report.tables.get(at + 1).is_none_or(|next| next.caption != table.caption || next.notes != table.notes) {
                self.notes(table, out)?;
            }
        }
        let Some(closing) = &report.closing else { return Ok(()) };
        out.line("")?;
        self.paragraph("", closing, out)
    }
}

impl Terminal {
    /// The tables below each other in which a table fits the width: the title and the columns of each.
    pub(crate) fn parted(self, table: &Table) -> Vec<Part> {
        self.laid(table).2
    }

    /// The columns of labels, those of values, and the parts as of [`Self::parted`].
    fn laid(self, table: &Table) -> (Vec<Laid>, Vec<Laid>, Vec<Part>) {
        let labels: Vec<Laid> = (0..table.labels.len()).map(|at| label_column(table, at, self.width)).collect();
        let columns: Vec<Laid> = (0..table.columns.len()).map(|at| figure_column(table, at, self.width)).collect();
        let shares = self.shares(table, &labels, &columns);
        let several = shares.len() > 1;
        let titled = |(at, share): (usize, Vec<usize>)| (share_title(table, &share, several, at), share);
        let parts = shares.into_iter().enumerate().map(titled).collect();
        (labels, columns, parts)
    }

    fn paragraph(&self, before: &str, text: &str, out: &mut Out<'_>) -> io::Result<()> {
        self.styled_paragraph(None, before, text, out)
    }

    fn styled_paragraph(&self, style: Option<Style>, before: &str, text: &str, out: &mut Out<'_>) -> io::Result<()> {
        let room = self.width.unwrap_or(usize::MAX).saturating_sub(width(before)).max(20);
        for (at, line) in wrap(&safe(text), room).iter().enumerate() {
            let before = if at == 0 { before.to_owned() } else { " ".repeat(width(before)) };
            out.styled(style, &format!("{before}{line}"))?;
            out.line("")?;
        }
        Ok(())
    }

    fn remarks(&self, remarks: &Remarks, out: &mut Out<'_>) -> io::Result<()> {
        out.line("")?;
        styled(Style::Strong, remarks.title, out)?;
        remarks.lines.iter().try_for_each(|line| self.paragraph("- ", line, out))?;
        self.paragraph("  ", &remarks.note, out)
    }

    /// Sentences with their details; those without stand together.
    fn verdicts(&self, lines: &[Line], out: &mut Out<'_>) -> io::Result<()> {
        let mut is_apart = true;
        for line in lines {
            if is_apart || !line.detail.is_empty() {
                out.line("")?;
            }
            self.paragraph("", &line.sentence, out)?;
            is_apart = !line.detail.is_empty();
            if is_apart {
                self.styled_paragraph(Some(Style::Faint), "  ", &line.detail.to_string(), out)?;
            }
        }
        Ok(())
    }

    fn table(&self, table: &Table, out: &mut Out<'_>) -> io::Result<()> {
        self.columns(table, out)?;
        self.notes(table, out)
    }

    fn columns(&self, table: &Table, out: &mut Out<'_>) -> io::Result<()> {
        let (labels, columns, parts) = self.laid(table);
        for (title, share) in parts {
            out.line("")?;
            if !title.is_empty() {
                styled(Style::Strong, &safe(&title), out)?;
            }
            let shown: Vec<(usize, &Laid)> = share.iter().map(|at| (*at, &columns[*at])).collect();
            grid(table, &labels, &shown, out)?;
        }
        Ok(())
    }

    fn notes(&self, table: &Table, out: &mut Out<'_>) -> io::Result<()> {
        self.paragraph("", &table.caption, out)?;
        for note in &table.notes {
            let before = if note.mark > 0 { format!("[{}] ", note.mark) } else { String::new() };
            self.paragraph(&before, &note.text, out)?;
        }
        Ok(())
    }

    /// Splits columns into tables: all in one if they fit, else one table for each topic, else as many as fit.
    fn shares(&self, table: &Table, labels: &[Laid], columns: &[Laid]) -> Vec<Vec<usize>> {
        let all: Vec<usize> = (0..columns.len()).collect();
        // The gap after the last column needs no room.
        let room = self.width.unwrap_or(usize::MAX).saturating_add(GAP.len());
        let taken: usize = labels.iter().map(|l| l.width + GAP.len()).sum();
        let need = |share: &[usize]| taken + share.iter().map(|at| columns[*at].width + GAP.len()).sum::<usize>();
        if need(&all) <= room {
            return vec![all];
        }
        let topics = all.chunk_by(|a, b| table.columns[*a].topic == table.columns[*b].topic);
        topics.flat_map(|topic| pack(topic, table, |share| need(share) <= room)).collect()
    }

    fn findings(&self, findings: &[FindingLine], out: &mut Out<'_>) -> io::Result<()> {
        for finding in findings {
            out.line("")?;
            self.paragraph(&format!("{}: ", finding.severity), &finding.text, out)?;
            self.paragraph("  hint: ", &finding.hint, out)?;
        }
        Ok(())
    }
}

fn styled(style: Style, line: &str, out: &mut Out<'_>) -> io::Result<()> {
    out.styled(Some(style), line)?;
    out.line("")
}

fn grid(table: &Table, labels: &[Laid], shown: &[(usize, &Laid)], out: &mut Out<'_>) -> io::Result<()> {
    let groups = group_line(table, labels, shown);
    if !groups.is_empty() {
        styled(Style::Strong, &groups, out)?;
    }
    let all = || labels.iter().chain(shown.iter().map(|(_, laid)| *laid));
    let heading = all().map(|l| l.heading.clone()).collect::<Vec<_>>().join(GAP);
    styled(Style::Strong, heading.trim_end(), out)?;
    out.line(&all().map(|l| "-".repeat(l.width)).collect::<Vec<_>>().join(GAP))?;
    for (at, row) in table.rows.iter().enumerate() {
        let lines = all().map(|l| l.fields[at].len()).max().unwrap_or(0);
        for line in 0..lines {
            let label = labels.iter().map(|l| (None, part(l, at, line)));
            let figures = shown.iter().map(|(c, l)| (style(&row.cells[*c]), part(l, at, line)));
            joined(label.chain(figures).collect(), out)?;
        }
    }
    Ok(())
}

fn style(cell: &Cell) -> Option<Style> {
    // A cell that contains only words has no value that could be missing.
    let missing = !cell.figures.is_empty() && cell.figures.iter().all(|f| f.value.is_none());
    cell.outcome.then_some(Style::Alarm).or_else(|| missing.then_some(Style::Faint))
}

/// A line of columns; nothing follows the last text in it.
fn joined(mut pieces: Vec<Piece>, out: &mut Out<'_>) -> io::Result<()> {
    while let Some((_, last)) = pieces.last_mut() {
        last.truncate(last.trim_end().len());
        if !last.is_empty() {
            break;
        }
        pieces.pop();
    }
    for (at, (style, text)) in pieces.iter().enumerate() {
        out.text(if at > 0 { GAP } else { "" })?;
        out.styled(*style, text)?;
    }
    out.line("")
}

/// Parts the columns of a topic between their groups, and within a group only where that is too wide by itself.
fn pack(topic: &[usize], table: &Table, fits: impl Fn(&[usize]) -> bool) -> Vec<Vec<usize>> {
    let mut shares: Vec<Vec<usize>> = Vec::new();
    let mut open = false;
    for group in topic.chunk_by(|a, b| table.columns[*a].group == table.columns[*b].group) {
        let whole = fits(group);
        let pieces: Vec<&[usize]> = if whole { vec![group] } else { group.chunks(1).collect() };
        for (at, piece) in pieces.into_iter().enumerate() {
            let last = shares.last_mut().filter(|_| open && (whole || at > 0));
            match last.map(|last| ([last.as_slice(), piece].concat(), last)) {
                Some((joined, last)) if fits(&joined) => *last = joined,
                _ => shares.push(piece.to_vec()),
            }
            open = true;
        }
        // What is left of a broken group stands alone.
        open = whole;
    }
    shares
}

/// A table of plain texts, such as the list of runs.
///
/// # Errors
/// Those of `out`.
pub fn plain_table(terminal: Terminal, headings: &[&str], rows: &[Vec<String>], out: &mut dyn Write) -> io::Result<()> {
    let column = |at: usize| {
        lay(headings[at], &rows.iter().map(|r| Field::whole(safe(&r[at]))).collect::<Vec<_>>(), true, 0, usize::MAX)
    };
    let columns: Vec<Laid> = (0..headings.len()).map(column).collect();
    let line = |texts: Vec<&str>| texts.join(GAP).trim_end().to_owned();
    let heading = line(columns.iter().map(|c| c.heading.as_str()).collect());
    let out = &mut Screen::new(out, terminal.colour);
    styled(Style::Strong, &heading, out)?;
    (0..rows.len()).try_for_each(|at| out.line(&line(columns.iter().map(|c| c.fields[at][0].as_str()).collect())))
}

fn part(laid: &Laid, row: usize, line: usize) -> String {
    laid.fields[row].get(line).cloned().unwrap_or_else(|| " ".repeat(laid.width))
}

fn share_title(table: &Table, share: &[usize], several: bool, at: usize) -> String {
    let topic = share.first().map_or(Topic::Asked, |c| table.columns[*c].topic).name();
    match (&table.title, several, topic) {
        (Some(title), true, topic) if !topic.is_empty() => format!("{title}: {topic}"),
        (Some(title), true, _) if at > 0 => format!("{title} (continued)"),
        (Some(title), ..) => title.clone(),
        (None, true, topic) => topic.to_owned(),
        (None, false, _) => String::new(),
    }
}

/// A label or another text may take two fifths of the width: values stand beside it.
fn text_room(all: Option<usize>) -> usize {
    all.map_or(usize::MAX, |all| all * 2 / 5)
}

fn label_column(table: &Table, at: usize, all: Option<usize>) -> Laid {
    let text = |row: &Row| {
        let label = &row.labels[at];
        Field::whole(safe(&label.text) + &marks(&label.marks))
    };
    lay(&safe(&table.labels[at]), &table.rows.iter().map(text).collect::<Vec<_>>(), true, 0, text_room(all))
}

fn figure_column(table: &Table, at: usize, all: Option<usize>) -> Laid {
    let column = &table.columns[at];
    let left = column.align == Align::Left;
    let whole = |cell: &Cell| Field::whole((safe(&cell.main) + &marks(&cell.marks)).trim_start());
    let text = |row: &Row| if left { whole(&row.cells[at]) } else { field(&row.cells[at]) };
    let fields: Vec<Field> = table.rows.iter().map(text).collect();
    let least = if has_own_group(table, at) { width(&safe(&column.group)) } else { 0 };
    lay(&heading(column), &fields, left, least, if left { text_room(all) } else { WHOLE })
}

/// Whether neither neighbouring column has the same group.
fn has_own_group(table: &Table, at: usize) -> bool {
    let group = |at: usize| table.columns.get(at).map(|c| &c.group);
    (at == 0 || group(at - 1) != group(at)) && group(at + 1) != group(at)
}

fn heading(column: &Column) -> String {
    let unit = if column.unit.is_empty() { String::new() } else { format!(", {}", column.unit) };
    safe(&column.heading) + &unit + &marks(&column.marks)
}

fn field(cell: &Cell) -> Field {
    let tail = [cell.spread.as_str(), cell.count.as_str(), marks(&cell.marks).trim_start()]
        .iter()
        .filter(|t| !t.is_empty())
        .copied()
        .collect::<Vec<_>>()
        .join(" ");
    let head = safe(&cell.main);
    if cell.outcome {
        let tail = if tail.is_empty() { tail } else { format!(" {tail}") };
        return Field::whole(head + &tail);
    }
    Field { head, tail, whole: None }
}

fn marks(marks: &[usize]) -> String {
    let marks: String = marks.iter().map(|mark| format!("[{mark}]")).collect();
    if marks.is_empty() { marks } else { format!(" {marks}") }
}

/// The groups, each at the first of its columns.
fn group_line(table: &Table, labels: &[Laid], shown: &[(usize, &Laid)]) -> String {
    let mut line: String = labels.iter().map(|l| " ".repeat(l.width) + GAP).collect();
    for run in shown.chunk_by(|a, b| table.columns[a.0].group == table.columns[b.0].group) {
        let room = run.iter().map(|(_, l)| l.width + GAP.len()).sum::<usize>();
        let group = run.first().map(|(at, _)| safe(&table.columns[*at].group)).unwrap_or_default();
        line += &pad_right(&group, room);
    }
    line.trim_end().to_owned()
}
