//! Generates the reference of the file in Markdown from its declaration.

use std::fmt::Write as _;

use super::examples;
use super::grammar;
use super::shape::{Field, Need, Shape, TableShape};
use prony_model::format;
use prony_model::metric::Metric;
use prony_model::units::Unit;

/// Every table with its keys, and the formats, as Markdown.
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
    out.push('\n');
    table.all().for_each(|field| key(out, table, field));
    if let Some(rest) = table.rest {
        let _ = writeln!(out, "- *a name of your choice*\n  - {}", takes(rest));
    }
}

/// A key as an item of a list: what it is, what it takes and what holds without it, and an example.
fn key(out: &mut String, table: &TableShape, field: &'static Field) {
    let without = match field.need {
        Need::Required => "required".to_owned(),
        Need::Optional(default) | Need::Some(default) => format!("default: {default}"),
        Need::Action => "exactly one such key is required".to_owned(),
    };
    let _ = writeln!(out, "- **`{}`**: {}", field.name, field.doc);
    if let Shape::Word(words) = &field.shape {
        for (word, doc) in *words {
            let _ = writeln!(out, "  - `\"{word}\"`: {doc}");
        }
        let _ = writeln!(out, "  - {without}");
    } else {
        let _ = writeln!(out, "  - {}; {without}", takes(&field.shape));
    }
    let _ = writeln!(out, "  - `{} = {}`", field.name, examples::value(table, field));
}

/// What a value takes; tables by their name.
fn takes(shape: &Shape) -> String {
    match shape {
        Shape::Table(table) => format!("a table: {}", link(table)),
        Shape::Field(table) => {
            format!("a value, a text with `{{i}}`, a list or table of these, or a table: {}", link(table))
        }
        Shape::Filter(table) => format!("a table of fields, each with a value or a table: {}", link(table)),
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

/// A link to the section of a table.
fn link(table: &TableShape) -> String {
    let anchor = table.name.replace(' ', "-").replace('.', "");
    format!("[{}](#{anchor})", table.name)
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

/// Every metric, as Markdown.
pub fn metrics() -> String {
    let mut out = String::from(
        "# Metrics\n\nNamed `phase.metric`, as `write.time`; of one role, service or replica `phase.instance.metric`, as \
         `read.web.cpu`. Those marked * are levels at an instant, such as memory, and also take `.mean`, `.max`, `.min` and `.end`: \
         `write.rss.max`. Only `rss` has a `.peak`, and what is read before a forced collection has `.before`. `pss` has only \
         `.end`, and `PHASE.replicas.pss.max`.\n",
    );
    out.push_str("\n| metric | unit | example | |\n|---|---|---|---|\n");
    for metric in Metric::ALL {
        let unit = match metric.unit() {
            Unit::Nanos => "time",
            Unit::Bytes => "bytes",
            Unit::Count => "count",
            Unit::PerSecond => "per second",
            Unit::Ratio => "share",
        };
        let (star, end) = match metric {
            Metric::Pss => (" *", ".end"),
            _ if metric.is_gauge() => (" *", ".max"),
            _ => ("", ""),
        };
        let name = metric.name();
        let _ = writeln!(out, "| `{name}`{star} | {unit} | `load.{name}{end}` | {} |", escaped(metric.doc()));
    }
    out.push_str(
        "\nBesides these, `phase.status.404` is the number of answers with a status, and `phase.SERVICE.NAME` is a number that a \
         service counts itself: see *counters* in the reference of the experiment file.\n",
    );
    out
}

fn escaped(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{Node, Value};
    use crate::substitute::PLAIN;

    #[test]
    fn the_reference_has_every_table_key_and_metric_once() {
        let text = reference() + &metrics();
        for heading in ["store", "data", "phase", "operations", "report.table", "hotspot", "blocks of a level"] {
            assert_eq!(text.matches(&format!("\n## {heading}\n")).count(), 1, "{heading}");
        }
        assert!(
            text.contains("- **`durability`**: ")
                && text.contains("  - `\"strict\"`: a power failure loses no acknowledged commit\n")
        );
        assert!(text.contains("| `latency.p99.9` | time |") && text.contains("| `rss` * | bytes | `load.rss.max` |"));
    }

    #[test]
    fn every_example_fits_the_schema_of_its_key() {
        let schema = crate::schema();
        let (mut checked, mut all_faults) = (0, Vec::new());
        for section in reference().split("\n## ").skip(1) {
            let table = section.lines().next().unwrap();
            let items = section.lines().filter_map(|line| line.strip_prefix("  - `")?.strip_suffix('`'));
            let is_key = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            for example in items.filter(|item| item.split_once(" = ").is_some_and(|(name, _)| is_key(name))) {
                let value: toml::Table = example.parse().unwrap_or_else(|error| panic!("{table}: {example}: {error}"));
                let mut of_table = schema.clone();
                let root = of_table.as_object_mut().unwrap();
                if table != "file" {
                    root.retain(|key, _| key == "$defs");
                    root.insert("$ref".into(), format!("#/$defs/{}", table.replace(' ', "_")).into());
                }
                let validator = jsonschema::validator_for(&of_table).unwrap();
                // The other keys that a table needs are left out.
                let value = serde_json::to_value(value).unwrap();
                let faults: Vec<String> = validator
                    .iter_errors(&value)
                    .filter(|error| {
                        !error.instance_path().as_str().is_empty() || error.to_string().contains("dditional")
                    })
                    .map(|error| error.to_string())
                    .collect();
                if !faults.is_empty() {
                    all_faults.push(format!("{table}: {example}: {faults:?}"));
                }
                checked += 1;
            }
        }
        assert!(all_faults.is_empty(), "{all_faults:#?}");
        assert!(checked > 400, "{checked}");
    }

    /// The example of `body` was refused: its braces were no text.
    #[test]
    fn every_example_of_a_text_has_no_fault_in_its_braces() {
        use crate::placeholder::{Filled, OfRecord, Scope, faults};
        fn texts(node: &Node, key: &str, found: &mut impl FnMut(&Node, &str)) {
            match &node.value {
                Value::Text(_) => found(node, key),
                Value::List(items) => items.iter().for_each(|item| texts(item, key, found)),
                Value::Table(entries) => entries.iter().for_each(|entry| texts(&entry.node, &entry.key, found)),
                _ => {}
            }
        }
        let known = ["pages", "store", "subject", "code", "level", "threads", "n"].map(str::to_owned);
        let scope = Scope { factors: &known, filled: Filled::No, of: OfRecord::Request };
        let (mut checked, mut all) = (0, Vec::new());
        for item in
            reference().lines().filter_map(|line| line.strip_prefix("  - `")?.strip_suffix('`').map(str::to_owned))
        {
            let Ok(raw) = crate::parse(&item, "") else { continue };
            texts(&raw.root, "", &mut |node, key| {
                checked += 1;
                // Values of the trial, of columns and in patterns have braces of their own.
                let own = ["{env.", "{dir", "{tmp", "{instance", "{port", "{data", "{service.", "{doc}", "{write."];
                let is_own = own.iter().any(|hole| node.text().is_some_and(|text| text.contains(hole)));
                if !is_own && !PLAIN.contains(&key) {
                    all.extend(
                        faults(node, &item, scope).into_iter().map(|problem| format!("{item}: {}", problem.message)),
                    );
                }
            });
        }
        assert!(all.is_empty(), "{all:#?}");
        assert!(checked > 100, "{checked}");
    }

    #[test]
    fn every_row_has_as_many_cells_as_its_heading() {
        let mut width = 0;
        for line in metrics().lines() {
            let cells = line.replace("\\|", "").matches('|').count();
            if line.starts_with("| metric |") {
                width = cells;
            }
            assert!(cells == 0 || cells == width, "{line}");
        }
    }
}
