//! Declares `[report]`.

use crate::design::Statistic;
use crate::shape::{Shape, TableShape, optional, table};

/// `[report]`.
pub(crate) static REPORT: TableShape = table(
    "report",
    "The tables of the report; without them the layout is derived.",
    &[&[optional("table", Shape::List(&Shape::Table(&TABLE)), "the derived layout", "A table.")]],
);

static NAMES: Shape = Shape::Either(&[Shape::Plain, Shape::List(&Shape::Plain)]);

/// `[[report.table]]`.
pub(crate) static TABLE: TableShape = table(
    "report.table",
    "A table of the report.",
    &[&[
        optional("title", Shape::Plain, "none", "Printed above the table."),
        optional("select", Shape::Map(&super::LEVELS), "every variant", "Keeps only variants with these levels."),
        optional("rows", NAMES, "every factor not named elsewhere", "Factors whose levels make the rows."),
        optional("tables", NAMES, "one table", "Factors that split the table: one table for each of their levels."),
        optional(
            "cells",
            Shape::Map(&Shape::Plain),
            "none",
            "Columns by heading: a text with metrics in braces, as `\"source, s\" = \"{source.time + \
             persist.time:s}\"`.",
        ),
        optional(
            "columns",
            Shape::List(&Shape::Plain),
            "the cells in their order",
            "Headings of `cells`, metrics such as `\"source.rss.end:MB\"`, and factors whose levels group the columns.",
        ),
        optional(
            "statistic",
            Shape::Word(&Statistic::WORDS),
            "\"median\"",
            "How the trials of a variant are combined into one value.",
        ),
        optional(
            "format",
            Shape::Plain,
            "by unit",
            "Format of values that have no format of their own, as far as it fits their unit.",
        ),
    ]],
);
