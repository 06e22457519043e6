//! Generates the reference of the file in Markdown from its declaration.

use std::fmt::Write as _;

use super::grammar;
use super::shape::{Field, Need, Shape, TableShape};
use prony_model::format;
use prony_model::metric::Metric;
use prony_model::units::Unit;

/// Every table with its keys, the formats and the metrics, as Markdown.
pub fn reference() -> String {
    let mut out = String::from("# The experiment file\n\nTOML; unknown keys are errors.\n");
    let mut tables: Vec<&'static TableShape> = vec![&grammar::ROOT];
    let mut at = 0;
    while let Some(table) = tables.get(at).copied() {
        section(&mut out, table);
        for field in table.all() {
            inner(&field.shape, &mut tables);
        }
        table.rest.into_iter().for_each(|rest| inner(rest, &mut tables));
        at += 1;
    }
    metrics(&mut out);
    let _ = writeln!(
        out,
        "\n## formats\n\nAfter a `:` in a cell, or `format` of a table: `{}`.",
        format::known().join("`, `")
    );
    out
}

fn section(out: &mut String, table: &'static TableShape) {
    let _ = writeln!(out, "\n## {}\n\n{}", table.name, table.doc);
    if table.all().next().is_none() {
        return;
    }
    out.push_str("\n| key | value | default | description |\n|---|---|---|---|\n");
    for field in table.all() {
        row(out, field);
    }
    if let Some(rest) = table.rest {
        let _ = writeln!(out, "| *a name of your choice* | {} | | |", escaped(&takes(rest)));
    }
}

fn row(out: &mut String, field: &'static Field) {
    let without = match field.need {
        Need::Required => "required",
        Need::Optional(default) | Need::Some(default) => default,
        Need::Action => "exactly one of these is required",
    };
    let (takes, doc) = (escaped(&takes(&field.shape)), escaped(field.doc));
    let _ = writeln!(out, "| `{}` | {takes} | {} | {doc} |", field.name, escaped(without));
}

/// What a value takes; tables by their name.
fn takes(shape: &Shape) -> String {
    match shape {
        Shape::Table(table) => format!("a table: *{}*", table.name),
        Shape::Field(table) => {
            format!("a value, a text with `{{i}}`, a list or table of these, or a table: *{}*", table.name)
        }
        Shape::Filter(table) => format!("a table of fields, each with a value or a table: *{}*", table.name),
        Shape::List(item) => format!("a list, each item {}", takes(item)),
        Shape::Pair(item) => format!("a list of two, each {}", takes(item)),
        Shape::Map(item) => format!("a table with keys of your choice, each {}", takes(item)),
        Shape::Either(shapes) => shapes.iter().map(takes).collect::<Vec<_>>().join(" or "),
        Shape::Word(words) => {
            words.iter().map(|(word, doc)| format!("`\"{word}\"`: {doc}")).collect::<Vec<_>>().join("; ")
        }
        other => other.words(),
    }
}

fn inner(shape: &'static Shape, tables: &mut Vec<&'static TableShape>) {
    match shape {
        Shape::Table(table) | Shape::Field(table) | Shape::Filter(table)
            if !tables.iter().any(|other| std::ptr::eq(*other, *table)) =>
        {
            tables.push(table)
        }
        Shape::List(item) | Shape::Pair(item) | Shape::Map(item) => inner(item, tables),
        Shape::Either(shapes) => shapes.iter().for_each(|shape| inner(shape, tables)),
        _ => {}
    }
}

fn metrics(out: &mut String) {
    out.push_str(
        "\n## metrics\n\nNamed `phase.metric`; those marked * also take `.mean`, `.max`, `.min`, `.end` and `.peak`.\n",
    );
    out.push_str("\n| metric | unit | |\n|---|---|---|\n");
    for metric in Metric::ALL {
        let unit = match metric.unit() {
            Unit::Nanos => "time",
            Unit::Bytes => "bytes",
            Unit::Count => "count",
            Unit::PerSecond => "per second",
            Unit::Ratio => "share",
        };
        let star = if metric.is_gauge() { " *" } else { "" };
        let _ = writeln!(out, "| `{}`{star} | {unit} | {} |", metric.name(), escaped(metric.doc()));
    }
    out.push_str(
        "\nBesides these, `phase.status.404` is the number of answers with a status, and `phase.SERVICE.NAME` is a number that a \
         service counts itself: see *counters*.\n",
    );
}

fn escaped(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_has_every_table_key_and_metric_once() {
        let text = reference();
        for heading in ["store", "data", "phase", "operations", "report.table", "hotspot", "blocks of a level"] {
            assert_eq!(text.matches(&format!("\n## {heading}\n")).count(), 1, "{heading}");
        }
        assert!(text.contains("| `durability` | `\"strict\"`: a power failure loses no acknowledged commit; "));
        assert!(text.contains("| `latency.p99.9` | time |") && text.contains("| `rss` * | bytes |"));
    }

    #[test]
    fn every_row_has_as_many_cells_as_its_heading() {
        let mut width = 0;
        for line in reference().lines() {
            let cells = line.replace("\\|", "").matches('|').count();
            if line.starts_with("| key") || line.starts_with("| metric |") {
                width = cells;
            }
            assert!(cells == 0 || cells == width, "{line}");
        }
    }
}
