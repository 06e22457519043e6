//! Declares `[store]` and `[data]`.

use crate::shape::{Shape, TableShape, action, optional, required};

/// `[store]`.
pub(crate) static STORE: TableShape = TableShape {
    name: "store",
    doc: "The engine that is measured and how it is opened.",
    fields: &[&[
        optional(
            "use",
            Shape::Any,
            "the keys beside it",
            "A table with the keys of `[store]`: a level of a factor, as `use = \"{store}\"`.",
        ),
        optional("engine", Shape::Text, "required, here or in `use`", "The driver's name; `prony engines` lists them."),
        optional(
            "durability",
            Shape::Word(&[
                ("strict", "a power failure loses no acknowledged commit"),
                ("bounded", "a power failure loses at most the last commit"),
                (
                    "relaxed",
                    "a power failure may lose the most recent commits; those that survive are a prefix of \
                    the commit order",
                ),
                ("volatile", "a process crash loses a tail"),
                ("none", "anything may be lost, integrity too"),
            ]),
            "the engine's own, or what `options` amount to",
            "The class of promises asked for; one that the engine does not offer is a fault, never approximated.",
        ),
        optional(
            "options",
            Shape::Map(&Shape::Scalar),
            "the driver's defaults",
            "The driver's own options; `prony engines` lists them.",
        ),
    ]],
    rest: None,
};

/// `[data]`.
pub(crate) static DATA: TableShape = TableShape {
    name: "data",
    doc: "Records by number: key and value are pure functions of the number and the seed.",
    fields: &[&[
        required("records", Shape::Whole(1, i64::MAX as u64), "How many records there are; their numbers begin at 0."),
        optional(
            "key",
            Shape::Either(&[Shape::Template, Shape::Table(&KEY)]),
            "\"{i}\"",
            "How a number becomes a key: a text with `{i}`, or a generator.",
        ),
        optional(
            "value",
            Shape::Either(&[Shape::Template, Shape::Table(&VALUE)]),
            "{ bytes = 100 }",
            "How a number becomes a value: a text, or a generator.",
        ),
    ]],
    rest: None,
};

/// `key = { ... }`.
pub(crate) static KEY: TableShape = TableShape {
    name: "key",
    doc: "How a number becomes a key: exactly one of `template`, `integer` and `hashed`.",
    fields: &[&[
        action("template", Shape::Template, "Text with the number in decimal at each `{i}`."),
        optional("pad", Shape::Whole(0, 20), "0", "Least digits of the number, filled with zeros; with `template`."),
        action(
            "integer",
            Shape::Whole(4, 8),
            "The number as a big-endian integer of 4 or 8 bytes, so that key order is record order.",
        ),
        action(
            "hashed",
            Shape::Whole(8, 4096),
            "A hash of the number, so many bytes long in all; key order has nothing to do with record order.",
        ),
        optional("prefix", Shape::Text, "none", "Text before the hash; with `hashed`."),
        optional("hex", Shape::Flag, "false", "The hash in hexadecimal instead of raw bytes; with `hashed`."),
    ]],
    rest: None,
};

/// `value = { ... }`.
pub(crate) static VALUE: TableShape = TableShape {
    name: "value",
    doc: "How a number becomes a value.",
    fields: &[&[
        required(
            "bytes",
            Shape::Either(&[Shape::Bytes, Shape::Table(&BYTES_TABLE)]),
            "The length, fixed or drawn for each record.",
        ),
        optional("compressible", Shape::Share, "0%", "By how much a general compressor shrinks it."),
        optional("prefix", Shape::Template, "none", "Text at the start of each value; counts in the length."),
    ]],
    rest: None,
};

/// `bytes = { ... }`.
pub(crate) static BYTES_TABLE: TableShape = TableShape {
    name: "bytes",
    doc: "Lengths drawn for each record.",
    fields: &[&[
        action("uniform", Shape::Pair(&Shape::Bytes), "Every length from the first to the second, equally likely."),
        action(
            "zipfian",
            Shape::Pair(&Shape::Bytes),
            "From the first to the second, short ones likelier, as YCSB draws field lengths.",
        ),
        action("lognormal", Shape::Table(&LOG_NORMAL), "Log-normal, cut at a longest."),
    ]],
    rest: None,
};

/// `lognormal = { ... }`.
pub(crate) static LOG_NORMAL: TableShape = TableShape {
    name: "lognormal",
    doc: "A log-normal distribution of lengths.",
    fields: &[&[
        required("median", Shape::Bytes, "The median length."),
        required("sigma", Shape::Positive, "Standard deviation of the length's natural logarithm."),
        required("max", Shape::Bytes, "The longest."),
    ]],
    rest: None,
};
