//! Reads `[[report.table]]`.

use std::collections::BTreeMap;
use std::ops::Range;

use super::View;
use super::cell::Cells;
use super::instance::PhaseNames;
use crate::design::{Column, Factor, TableSpec};
use crate::factors::{FactorDef, selection, unknown_factor};
use crate::grammar;
use crate::node::Node;
use crate::problem::{Problem, Problems};
use prony_model::format::Format;

/// What the tables of a report may refer to.
struct Known<'a> {
    all: &'a [FactorDef],
    shown: &'a [Factor],
    phases: &'a PhaseNames,
}

/// The tables asked for.
pub(crate) fn tables(
    report: Option<&Node>,
    all: &[FactorDef],
    shown: &[Factor],
    phases: &PhaseNames,
    problems: &mut Problems<'_>,
) -> Vec<TableSpec> {
    let view = View::new(report, &grammar::REPORT);
    let known = Known { all, shown, phases };
    view.list_of("table").iter().map(|node| table(node, &known, problems)).collect()
}

fn table(node: &Node, known: &Known<'_>, problems: &mut Problems<'_>) -> TableSpec {
    let view = View::new(Some(node), &grammar::TABLE);
    let select = select(&view, known, problems);
    let mut rows = named(view.get("rows"), known, problems);
    let tables = named(view.get("tables"), known, problems);
    let (columns, columns_by) = columns(&view, known, problems);
    let elsewhere = |name: &String| rows.contains(name) || tables.contains(name) || columns_by.contains(name);
    let several = |factor: &&Factor| match select.get(&factor.name) {
        Some(labels) => labels.len() > 1,
        None => factor.levels.len() > 1,
    };
    let rest: Vec<String> = known.shown.iter().filter(several).map(|factor| factor.name.clone()).collect();
    let rest: Vec<String> = rest.into_iter().filter(|name| !elsewhere(name)).collect();
    rows.extend(rest);
    TableSpec {
        title: view.plain("title").map(str::to_owned),
        select,
        rows,
        tables,
        columns_by,
        columns,
        statistic: view.word("statistic").unwrap_or_default(),
    }
}

fn select(view: &View<'_>, known: &Known<'_>, problems: &mut Problems<'_>) -> BTreeMap<String, Vec<String>> {
    let Some(table) = view.get("select") else { return BTreeMap::new() };
    let chosen = selection(known.all, table, problems).into_iter();
    let label = |at: usize, level: usize| known.all[at].levels[level].label.clone();
    chosen
        .map(|(at, levels)| (known.all[at].name.clone(), levels.into_iter().map(|l| label(at, l)).collect()))
        .collect()
}

/// Factors by name: one, or a list.
fn named(node: Option<&Node>, known: &Known<'_>, problems: &mut Problems<'_>) -> Vec<String> {
    let Some(node) = node else { return Vec::new() };
    let mut names = Vec::new();
    for item in node.items() {
        let Some(name) = item.text() else { continue };
        if known.all.iter().any(|factor| factor.name == name) {
            names.push(name.to_owned());
        } else {
            problems.add(unknown_factor(&item.span, known.all, name));
        }
    }
    names
}

/// The columns in order, and the factors that group them.
fn columns(view: &View<'_>, known: &Known<'_>, problems: &mut Problems<'_>) -> (Vec<Column>, Vec<String>) {
    let mut cells = Cells::new(known.phases, format(view, problems), problems);
    let declared = view.table_of("cells");
    let headed: Vec<(Column, Range<usize>)> = declared
        .iter()
        .filter_map(|entry| Some((cells.cell(&entry.key, &entry.node)?, entry.key_span.clone())))
        .collect();
    let Some(list) = view.get("columns").and_then(Node::list) else {
        if declared.is_empty() {
            let problem = Problem::new(view.span(), "the table has no columns");
            cells.add(problem.hint("write `columns = [\"write.time\"]`, or `cells`"));
        }
        cells.finish();
        return (headed.into_iter().map(|(column, _)| column).collect(), Vec::new());
    };
    let (mut columns, mut by, mut taken) = (Vec::new(), Vec::new(), Vec::new());
    for item in list {
        let Some(text) = item.text() else { continue };
        if declared.iter().any(|entry| entry.key == text) {
            taken.push(text.to_owned());
            columns.extend(headed.iter().find(|(column, _)| column.title == text).map(|(column, _)| column.clone()));
        } else if known.all.iter().any(|factor| factor.name == text) {
            by.push(text.to_owned());
        } else {
            let headings = declared.iter().map(|entry| entry.key.as_str());
            columns.extend(cells.figure(item, headings.chain(known.all.iter().map(|factor| factor.name.as_str()))));
        }
    }
    if columns.is_empty() && taken.is_empty() && !by.is_empty() {
        columns = headed.into_iter().map(|(column, _)| column).collect();
    } else {
        for entry in declared.iter().filter(|entry| !taken.contains(&entry.key)) {
            let problem = Problem::new(entry.key_span.clone(), format!("cell `{}` is not among `columns`", entry.key));
            cells.add(problem.hint("add the cell to `columns`, or remove it"));
        }
    }
    cells.finish();
    (columns, by)
}

/// The table's own format.
fn format<'n>(view: &View<'n>, problems: &mut Problems<'_>) -> Option<&'n Node> {
    let node = view.get("format")?;
    match Format::parse(node.text()?) {
        Ok(_) => Some(node),
        Err(error) => {
            problems.add(Problem::new(&node.span, error.to_string()));
            None
        }
    }
}
