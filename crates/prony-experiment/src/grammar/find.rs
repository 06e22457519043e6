//! Declares queries over documents.

use crate::shape::{Shape, TableShape, optional, table};

/// `query = { ... }`.
pub(crate) static QUERY: TableShape = table(
    "query",
    "Which documents are found, and what of each is returned.",
    &[&[
        optional(
            "collection",
            Shape::Text,
            "that of the operations",
            "The collection that is queried; `{doc.FIELD}` is of the record on which the operation works.",
        ),
        optional(
            "where",
            Shape::Filter(&TEST),
            "all documents",
            "Fields and what they must be: `{ internal = { type = \"Test\" }, step = { gte = \"{doc.step}\" } }`. All of \
             them must fit; `or = [{ ... }, { ... }]` asks for one of several.",
        ),
        optional(
            "sort",
            Shape::List(&Shape::Text),
            "by key",
            "Fields by which documents are sorted; `-` before the name for the largest first. Then by key.",
        ),
        optional("skip", Shape::Whole(0, i64::MAX as u64), "0", "How many of the first documents are left out."),
        optional("limit", Shape::Whole(1, i64::MAX as u64), "all", "How many documents are returned at most."),
        optional(
            "select",
            Shape::List(&Shape::Text),
            "all fields",
            "The fields of the answer, such as `internal.type`. prony takes them from whole documents, which every engine reads and returns.",
        ),
        optional("count", Shape::Flag, "false", "Returns how many documents there are, and no document."),
    ]],
);

/// `field = { ... }` in `where`.
pub(crate) static TEST: TableShape = table(
    "test",
    "What a field must be; several tests must all be passed. Values of different kinds are neither equal nor ordered. Of \
          a list, one item must pass the test.",
    &[&[
        optional("eq", Shape::Operand, "any", "Equal, as `field = value`."),
        optional("in", Shape::List(&Shape::Operand), "any", "Equal to one of these."),
        optional("gt", Shape::Operand, "any", "Above."),
        optional("gte", Shape::Operand, "any", "Above or equal."),
        optional("lt", Shape::Operand, "any", "Below."),
        optional("lte", Shape::Operand, "any", "Below or equal."),
        optional("between", Shape::Pair(&Shape::Operand), "any", "From the first to the second, both included."),
        optional("prefix", Shape::Operand, "any", "A text that begins with this one."),
        optional("exists", Shape::Flag, "any", "Whether the document has the field."),
    ]],
);
