//! The parts of the HTML page that need no script: verdicts, findings, tables, machine.

use std::fmt::Write as _;

use super::text::{breakable, html, sentence};
use crate::model::{Align, Cell, Column, FindingLine, Label, Remarks, Table};
use crate::render::markup::numbers;
use crate::render::terminal::{Part, Terminal};
use crate::words::grouped;
use prony_analysis::verdicts::{Line, Verdicts};
use prony_model::metric::Better;
use prony_model::number::{count, percent};
use prony_model::reading::Reading;
use prony_stats::Verdict;

/// Longer lists of verdicts are folded; up to so many verdicts that state a difference stay visible.
const OPEN: usize = 10;

/// Characters of a line of a table: A4 has room for it in small print with spreads below their values, 1280 pixels as
/// it is.
const WIDEST: usize = 140;

/// The verdicts, each as a sentence with the details behind it.
pub(super) fn verdicts(verdicts: &Verdicts) -> String {
    if let Some(silent) = &verdicts.silent {
        return format!("<p class=\"silent\">No verdict: {}.</p>", sentence(silent));
    }
    let (open, folded) = folded(verdicts);
    let list = |lines: &[&Line]| lines.iter().map(|l| line(l)).collect::<String>();
    let (mut summary, mut rest) = (String::new(), String::new());
    if !folded.is_empty() {
        let all: Vec<&Line> = verdicts.lines.iter().collect();
        summary = format!("<p>{}: {}.</p>", count(all.len(), "comparison"), html(&tally(&all)));
        let (more, kinds) = (count(folded.len(), "more comparison"), html(&tally(&folded)));
        rest = format!(
            "<details class=\"more\"><summary>{more}: {kinds}</summary><ul class=\"verdicts\">{}</ul></details>",
            list(&folded)
        );
    }
    format!(
        "{summary}<ul class=\"verdicts\">{}</ul>{rest}<p class=\"fine\">With probability {} none of the \
         verdicts is false; a difference whose interval lies within the margin of {} is said to be below it, without a direction. Intervals are corrected for interim analyses and for the {} \
         here.</p>",
        list(&open),
        html(&percent(1.0 - verdicts.alpha)),
        html(&percent(verdicts.margin)),
        count(verdicts.lines.len(), "comparison"),
    )
}

/// The lines that are visible and those that are folded, each in their order.
fn folded(verdicts: &Verdicts) -> (Vec<&Line>, Vec<&Line>) {
    if verdicts.lines.len() <= OPEN {
        return (verdicts.lines.iter().collect(), Vec::new());
    }
    let quiet = |line: &Line| {
        matches!(line.comparison.verdict, Verdict::NoDifference | Verdict::CantTell { .. } | Verdict::NeitherFinishes)
    };
    let mut loud = verdicts.lines.iter().filter(|line| !quiet(line)).count().min(OPEN);
    // Where nothing is claimed the first few stand open.
    let mut any = if loud == 0 { OPEN } else { 0 };
    verdicts.lines.iter().partition(|line| {
        let left = if quiet(line) { &mut any } else { &mut loud };
        let open = *left > 0;
        *left -= usize::from(open);
        open
    })
}

/// `5 slower, 2 can't tell`, in the order in which they first come.
fn tally(lines: &[&Line]) -> String {
    let words = |line: &Line| match &line.comparison.verdict {
        Verdict::Refused { .. } => "not compared".to_owned(),
        _ => line.words.clone(),
    };
    let kinds = grouped(lines.iter().map(|line| (words(line), line)));
    kinds.iter().map(|(words, of)| format!("{} {words}", of.len())).collect::<Vec<_>>().join("; ")
}

fn line(line: &Line) -> String {
    let comparison = &line.comparison;
    let mut details: Vec<String> = vec![format!("Method: {}.", comparison.method)];
    details.extend((!line.detail.is_empty()).then(|| format!("{}.", line.detail)));
    if let Reading::Measured(p) = comparison.p_adjusted {
        details.push(format!("Corrected p: {p:.2e}."));
    }
    let details: String = details.iter().map(|d| format!("<li>{}</li>", sentence(d))).collect();
    let (class, mark) = mark(&comparison.verdict, line.pair.metric.key.metric.better());
    format!(
        "<li class=\"{class}\"><span class=\"mark\" aria-hidden=\"true\">{mark}</span><div>{}.\
         <details><summary>How this was judged</summary><ul>{details}</ul></details></div></li>",
        sentence(&line.sentence)
    )
}

/// A class and a mark: never by colour only. Of a metric of which neither less nor more is better, a difference has no side.
const fn mark(verdict: &Verdict, better: Better) -> (&'static str, &'static str) {
    match verdict {
        Verdict::Better | Verdict::Worse | Verdict::BetterUncertain | Verdict::WorseUncertain
            if matches!(better, Better::Neither) =>
        {
            ("differs", "\u{2260}")
        }
        Verdict::Better | Verdict::FinishesMoreOften | Verdict::BaselineDoesNotFinish => ("better", "\u{25b2}"),
        Verdict::Worse | Verdict::FinishesLessOften | Verdict::DoesNotFinish => ("worse", "\u{25bc}"),
        Verdict::BetterUncertain => ("better", "\u{25b3}"),
        Verdict::WorseUncertain => ("worse", "\u{25bd}"),
        Verdict::NoDifference | Verdict::DiffersWithinMargin => ("same", "="),
        Verdict::CantTell { .. } => ("unsure", "?"),
        Verdict::NeitherFinishes | Verdict::Refused { .. } => ("refused", "\u{2715}"),
    }
}

/// Remarks beside the verdicts, which are not verdicts themselves.
pub(super) fn remarks(remarks: &[Remarks]) -> String {
    let one = |r: &Remarks| {
        let lines: String = r.lines.iter().map(|line| format!("<li>{}.</li>", sentence(line))).collect();
        format!("<h3>{}</h3><ul class=\"remarks\">{lines}</ul><p class=\"fine\">{}.</p>", r.title, sentence(&r.note))
    };
    remarks.iter().map(one).collect()
}

/// Leads from the verdicts to what may change how they are read.
pub(super) fn warnings(findings: &[FindingLine]) -> String {
    match findings.iter().filter(|finding| !finding.is_note()).count() {
        0 => String::new(),
        n => format!("<p><a href=\"#findings\">{} of the guards</a></p>", count(n, "warning")),
    }
}

/// What guards found.
pub(super) fn findings(findings: &[FindingLine]) -> String {
    if findings.is_empty() {
        return "<p>No guard found anything.</p>".to_owned();
    }
    let one = |f: &FindingLine| {
        format!(
            "<li class=\"{0}\"><strong>{0}</strong> {1}<p class=\"hint\">{2}</p></li>",
            html(f.severity),
            sentence(&f.text),
            sentence(&f.hint)
        )
    };
    format!("<ul class=\"findings\">{}</ul>", findings.iter().map(one).collect::<String>())
}

/// The tables; the script adds sorting and copying.
pub(super) fn tables(tables: &[Table], trials: usize) -> String {
    if trials == 0 {
        return "<p>No trial has ended, so there is nothing to tabulate.</p>".to_owned();
    }
    all_tables(tables)
}

/// Tables, one below the other.
pub(super) fn all_tables(tables: &[Table]) -> String {
    tables.iter().map(parts).collect()
}

/// A table, in parts of which each fits the paper and most screens.
fn parts(table: &Table) -> String {
    let parts = Terminal { width: Some(WIDEST), colour: false }.parted(table);
    let last = parts.len().saturating_sub(1);
    parts.iter().enumerate().map(|(at, part)| self::part(table, part, at == last)).collect()
}

/// Some columns of a table, with its footnotes below the last of them.
fn part(table: &Table, (title, columns): &Part, last: bool) -> String {
    let title = if title.is_empty() { "Results" } else { title };
    let heads: String = table
        .labels
        .iter()
        .map(|label| format!("<th scope=\"col\">{}</th>", breakable(label)))
        .chain(columns.iter().map(|at| heading(&table.columns[*at])))
        .collect();
    let mut rows = String::new();
    for row in &table.rows {
        let labels: String = row.labels.iter().map(label).collect();
        let cells: String = columns.iter().map(|at| cell(&row.cells[*at], table.columns[*at].align)).collect();
        // Writing to a string cannot fail.
        let _ = write!(rows, "<tr>{labels}{cells}</tr>");
    }
    let notes: String = table
        .notes
        .iter()
        .filter(|_| last)
        .map(|note| format!("<p class=\"note\">{}{}</p>", marks(&[note.mark]), sentence(&note.text)))
        .collect();
    format!(
        "<figure class=\"table\"><h3>{}</h3><div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\">\
         <table class=\"sortable\"><caption><span>{}</span></caption><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>\
         </div>{notes}</figure>",
        html(title),
        html(title),
        sentence(&table.caption),
    )
}

fn heading(column: &Column) -> String {
    let class = class(column.align).map(|class| format!(" class=\"{class}\"")).unwrap_or_default();
    format!("<th scope=\"col\"{class}>{}{}</th>", breakable(&column.full()), marks(&column.marks))
}

fn label(label: &Label) -> String {
    format!("<th scope=\"row\">{}{}</th>", breakable(&label.text), marks(&label.marks))
}

/// The class of a cell: values are aligned right, texts left.
const fn class(align: Align) -> Option<&'static str> {
    match align {
        Align::Left => None,
        Align::Right => Some("number"),
    }
}

fn cell(cell: &Cell, align: Align) -> String {
    let value = cell.figures.first().and_then(|f| f.value);
    // As scripts read it.
    let text = |v: f64| if v.is_infinite() { "Infinity".to_owned() } else { v.to_string() };
    let sort = value.map(|v| format!(" data-value=\"{}\"", text(v))).unwrap_or_default();
    let class = if cell.outcome { Some("outcome") } else { class(align) };
    let class = class.map(|class| format!(" class=\"{class}\"")).unwrap_or_default();
    let part = |class: &str, text: &str| match text {
        "" => String::new(),
        text => format!(" <span class=\"{class}\">{}</span>", html(text)),
    };
    format!(
        "<td{class}{sort}>{}{}{}{}</td>",
        html(&cell.main),
        part("spread", &cell.spread),
        part("count", &cell.count),
        marks(&cell.marks)
    )
}

fn marks(marks: &[usize]) -> String {
    match numbers(marks) {
        none if none.is_empty() => none,
        numbers => format!("<sup>{numbers}</sup>"),
    }
}

/// Facts about the machine.
pub(super) fn machine(facts: &[(String, String)]) -> String {
    if facts.is_empty() {
        return "<p>Nothing is known of the machine.</p>".to_owned();
    }
    let fact = |(name, value): &(String, String)| {
        format!("<div><dt>{}</dt><dd>{}</dd></div>", breakable(name), breakable(value))
    };
    format!("<dl class=\"facts\">{}</dl>", facts.iter().map(fact).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fewer operations of a metric that is neither good nor bad were green, with the mark of what is better.
    #[test]
    fn metric_without_a_better_direction_has_a_neutral_mark() {
        for verdict in [Verdict::Better, Verdict::Worse, Verdict::BetterUncertain, Verdict::WorseUncertain] {
            assert_eq!(mark(&verdict, Better::Neither), ("differs", "\u{2260}"));
            assert!(["better", "worse"].contains(&mark(&verdict, Better::Lower).0));
        }
        assert_eq!(mark(&Verdict::DoesNotFinish, Better::Neither).0, "worse", "that trials do not finish is bad");
    }
}
