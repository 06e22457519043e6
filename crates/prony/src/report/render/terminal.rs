//! Tables for a terminal, as wide as it is; understandable without colour.

use std::io::{self, Write};

use super::Render;
use super::grid::{Field, Laid, lay, pad_right, width, wrap};
use crate::report::escape::terminal as safe;
use crate::report::model::{Align, Cell, Column, FindingLine, Remarks, Report, Row, Table, Topic};

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

/// A style that a terminal may show.
#[derive(Clone, Copy)]
enum Style {
    Strong,
    Alarm,
    Faint,
}

impl Render for Terminal {
    fn render(&self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}", self.style(Style::Strong, &safe(&report.title)))?;
        report.preface.iter().try_for_each(|line| self.paragraph("", line, out))?;
        for verdict in &report.verdicts {
            writeln!(out)?;
            self.paragraph("", &verdict.text, out)?;
            writeln!(out, "{}", self.style(Style::Faint, &format!("  {}", safe(&verdict.detail))))?;
        }
        if let Some(judged) = &report.judged {
            writeln!(out)?;
            self.paragraph("", judged, out)?;
        }
        report.effects.iter().chain(&report.floors).try_for_each(|table| self.table(table, out))?;
        report.remarks.iter().try_for_each(|remarks| self.remarks(remarks, out))?;
        report.tables.iter().try_for_each(|table| self.table(table, out))?;
        self.findings(&report.findings, out)
    }
}

impl Terminal {
    fn style(&self, style: Style, text: &str) -> String {
        let code = match style {
            Style::Strong => "1",
            Style::Alarm => "31",
            Style::Faint => "2",
        };
        if self.colour && !text.is_empty() { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    fn paragraph(&self, before: &str, text: &str, out: &mut dyn Write) -> io::Result<()> {
        let room = self.width.unwrap_or(usize::MAX).saturating_sub(width(before)).max(20);
        for (at, line) in wrap(&safe(text), room).iter().enumerate() {
            let before = if at == 0 { before.to_owned() } else { " ".repeat(width(before)) };
            writeln!(out, "{before}{line}")?;
        }
        Ok(())
    }

    fn remarks(&self, remarks: &Remarks, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "\n{}", self.style(Style::Strong, remarks.title))?;
        remarks.lines.iter().try_for_each(|line| self.paragraph("- ", line, out))?;
        self.paragraph("  ", &remarks.note, out)
    }

    fn table(&self, table: &Table, out: &mut dyn Write) -> io::Result<()> {
        let labels: Vec<Laid> = (0..table.labels.len()).map(|at| label_column(table, at)).collect();
        let columns: Vec<Laid> = (0..table.columns.len()).map(|at| figure_column(table, at)).collect();
        let shares = self.shares(table, &labels, &columns);
        for (at, share) in shares.iter().enumerate() {
            writeln!(out)?;
            let title = share_title(table, share, shares.len() > 1, at);
            if !title.is_empty() {
                writeln!(out, "{}", self.style(Style::Strong, &safe(&title)))?;
            }
            let shown: Vec<(usize, &Laid)> = share.iter().map(|at| (*at, &columns[*at])).collect();
            self.grid(table, &labels, &shown, out)?;
        }
        self.paragraph("", &table.caption, out)?;
        for note in &table.notes {
            let before = if note.mark > 0 { format!("[{}] ", note.mark) } else { String::new() };
            self.paragraph(&before, &note.text, out)?;
        }
        Ok(())
    }

    /// Which columns stand together: all if they fit, else a table a topic, else as many as fit.
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

    fn grid(&self, table: &Table, labels: &[Laid], shown: &[(usize, &Laid)], out: &mut dyn Write) -> io::Result<()> {
        let groups = group_line(table, labels, shown);
        if !groups.is_empty() {
            writeln!(out, "{}", self.style(Style::Strong, &groups))?;
        }
        let all = || labels.iter().chain(shown.iter().map(|(_, laid)| *laid));
        let heading = all().map(|l| l.heading.clone()).collect::<Vec<_>>().join(GAP);
        writeln!(out, "{}", self.style(Style::Strong, heading.trim_end()))?;
        writeln!(out, "{}", all().map(|l| "-".repeat(l.width)).collect::<Vec<_>>().join(GAP))?;
        for (at, row) in table.rows.iter().enumerate() {
            let lines = all().map(|l| l.fields[at].len()).max().unwrap_or(0);
            for line in 0..lines {
                let label = labels.iter().map(|l| part(l, at, line));
                let figures = shown.iter().map(|(c, l)| self.coloured(&row.cells[*c], part(l, at, line)));
                writeln!(out, "{}", label.chain(figures).collect::<Vec<_>>().join(GAP).trim_end())?;
            }
        }
        Ok(())
    }

    fn coloured(&self, cell: &Cell, text: String) -> String {
        match cell {
            cell if cell.outcome => self.style(Style::Alarm, &text),
            // A cell of words alone has no figure that could be missing.
            cell if !cell.figures.is_empty() && cell.figures.iter().all(|f| f.value.is_none()) => {
                self.style(Style::Faint, &text)
            }
            _ => text,
        }
    }

    fn findings(&self, findings: &[FindingLine], out: &mut dyn Write) -> io::Result<()> {
        for finding in findings {
            writeln!(out)?;
            self.paragraph(&format!("{}: ", finding.severity), &finding.text, out)?;
            self.paragraph("  hint: ", &finding.hint, out)?;
        }
        Ok(())
    }
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
    let column =
        |at: usize| lay(headings[at], &rows.iter().map(|r| Field::whole(safe(&r[at]))).collect::<Vec<_>>(), true, 0);
    let columns: Vec<Laid> = (0..headings.len()).map(column).collect();
    let line = |texts: Vec<&str>| texts.join(GAP).trim_end().to_owned();
    let heading = line(columns.iter().map(|c| c.heading.as_str()).collect());
    writeln!(out, "{}", terminal.style(Style::Strong, &heading))?;
    for at in 0..rows.len() {
        writeln!(out, "{}", line(columns.iter().map(|c| c.fields[at][0].as_str()).collect()))?;
    }
    Ok(())
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

fn label_column(table: &Table, at: usize) -> Laid {
    let text = |row: &Row| {
        let label = &row.labels[at];
        Field::whole(safe(&label.text) + &marks(&label.marks))
    };
    lay(&safe(&table.labels[at]), &table.rows.iter().map(text).collect::<Vec<_>>(), true, 0)
}

fn figure_column(table: &Table, at: usize) -> Laid {
    let column = &table.columns[at];
    let left = column.align == Align::Left;
    let text = |row: &Row| if left { Field::whole(safe(&row.cells[at].main)) } else { field(&row.cells[at]) };
    let fields: Vec<Field> = table.rows.iter().map(text).collect();
    lay(&heading(column), &fields, left, if stands_alone(table, at) { width(&safe(&column.group)) } else { 0 })
}

/// Whether neither neighbour shares the column's group.
fn stands_alone(table: &Table, at: usize) -> bool {
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
