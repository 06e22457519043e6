//! Declares `[store]` and `[data]`.

use super::phase::EMPTY;
use crate::shape::{Field, Shape, TableShape, action, optional, required, some, table};
use prony_model::spec::{Distribution, Durability, Encoding};

/// `[store]`.
pub(crate) static STORE: TableShape = table(
    "store",
    "The engine that is measured and how it is opened.",
    &[&[
        optional(
            "use",
            Shape::Any,
            "the other keys of this table",
            "A table with keys of `[store]`, usually the level of a factor: `use = \"{store}\"`.",
        ),
        optional(
            "engine",
            Shape::Text,
            "required, here or in `use`",
            "Name of the engine; `prony engines` lists the engines.",
        ),
        optional(
            "url",
            Shape::Text,
            "required of an engine that is a server; other engines have none",
            "Where the server listens: `postgresql://USER@127.0.0.1:{service.NAME.port}/DATABASE`, \
             `redis://127.0.0.1:{service.NAME.port}` or `mongodb://127.0.0.1:{service.NAME.port}/DATABASE` of a service of the \
             file, or the URL of another server, whose processes are then not measured. What prony made there for an earlier \
             trial is removed: the tables of PostgreSQL, the collections of MongoDB, all records of the database of Redis.",
        ),
        optional(
            "durability",
            Shape::Word(&Durability::WORDS),
            "the engine's default, or the class that results from `options`",
            "Durability class. A class that the engine does not offer is an error; it is never approximated.",
        ),
        optional(
            "options",
            Shape::Map(&Shape::Scalar),
            "the driver's defaults",
            "Options of the engine; `prony engines ENGINE` lists them.",
        ),
        optional(
            "indexes",
            Shape::Either(&[INDEXES, Shape::Map(&INDEXES)]),
            "none",
            "The fields of each index of the documents, such as `[[\"internal.type\"], [\"isOdd\", \"step\"]]`; the order \
             of an index's fields is that in which its entries are sorted. Of several collections a table with such a list \
             for each: `{ schools = [[\"city\"]] }`.",
        ),
    ]],
);

const INDEXES: Shape = Shape::List(&Shape::List(&Shape::Text));

/// `[data]`.
pub(crate) static DATA: TableShape = table(
    "data",
    "The records: key and value of each follow from its number and the seed. Either all of one kind, or several \
          collections.",
    &[&RECORD, &OF_DATA],
);

static OF_DATA: [Field; 1] = [some(
    "collection",
    Shape::Map(&Shape::Table(&COLLECTION)),
    "one collection, without a name",
    "Several collections of records, instead of the other keys: `[data.collection.schools]`. Phases name the one that \
         they work on: `put = { collection = \"schools\" }`.",
)];

/// `[data.collection.NAME]`.
pub(crate) static COLLECTION: TableShape = table(
    "collection",
    "Records of one of several collections. The name has letters, digits, `-` and `_`; random values follow from it too.",
    &[&RECORD],
);

static RECORD: [Field; 6] = [
    some(
        "records",
        Shape::Whole(1, i64::MAX as u64),
        "all rows of `file`; required without one",
        "How many records there are; their numbers begin at 0.",
    ),
    optional(
        "key",
        Shape::Either(&[Shape::Template, Shape::Table(&KEY)]),
        "the field `id` of `document` if it is a text with `{i}`, else \"{i}\"",
        "How keys are made from the records' numbers: a text with `{i}`, or a generator.",
    ),
    optional(
        "value",
        Shape::Either(&[Shape::Template, Shape::Table(&VALUE)]),
        "{ bytes = 100 }",
        "How values are made from the records' numbers: a text, or a generator.",
    ),
    optional(
        "document",
        Shape::Map(&Shape::Field(&GENERATOR)),
        "values are bytes",
        "The fields of the documents that are stored as values, instead of `value`.",
    ),
    some(
        "file",
        Shape::Text,
        "none",
        "A file of yours whose rows are the documents, instead of `document`: a JSON object a line (`.ndjson`, `.jsonl`), or \
         comma-separated values with a line of names (`.csv`), where `internal.type` names a nested field. The path begins at \
         the experiment's file.",
    ),
    optional(
        "encoding",
        Shape::Word(&Encoding::WORDS),
        "\"msgpack\"",
        "How documents are encoded; only with `document` or `file`.",
    ),
];

/// A table that makes the values of a document's field.
pub(crate) static GENERATOR: TableShape = table(
    "generator",
    "How the values of a document's field are made from the records' numbers. A table without one of these keys is a \
          table of nested fields.",
    &[&[
        action("sequence", Shape::Integer, "A number: this one in record 0, and one more in each next."),
        optional("step", Shape::Whole(1, i64::MAX as u64), "1", "The difference between two records of a `sequence`."),
        action(
            "cycle",
            Shape::List(&Shape::Scalar),
            "These values in turn: `[false, true]` is whether the record's number is odd.",
        ),
        action("uniform", Shape::Pair(&Shape::Integer), "Whole numbers from the first to the second, equally likely."),
        action(
            "zipfian",
            Shape::Pair(&Shape::Integer),
            "Whole numbers from the first to the second, low ones more likely, with the exponent 0.99.",
        ),
        action(
            "text",
            Shape::Either(&[Shape::Bytes, Shape::Table(&BYTES_TABLE)]),
            "Random letters, digits, blanks and full stops of this length.",
        ),
        optional(
            "compressible",
            Shape::Share,
            "25%",
            "By what share Deflate or Zstandard shrinks a `text`: 25% at least, since text has 6 bits of information in 8. \
             LZ4 does not use that: it shrinks a text of 60% by 46%, and one of 25% not at all.",
        ),
        action("words", Shape::Whole(0, 1_000_000), "So many random words, frequent ones more likely."),
        optional(
            "vocabulary",
            Shape::Whole(1, 1_000_000_000),
            "10_000",
            "How many different words there are; only with `words`.",
        ),
        action("uuid", Shape::Table(&EMPTY), "A random UUID (version 4)."),
        action(
            "date",
            Shape::Pair(&Shape::Date),
            "A time in UTC as text, such as \"2021-03-01T12:00:00Z\": every second from the first to the second, \
             equally likely.",
        ),
        action("list", Shape::Field(&GENERATOR), "A list; each item is made in this way."),
        optional(
            "items",
            Shape::Either(&[Shape::Whole(0, 1_000_000), Shape::Pair(&Shape::Whole(0, 1_000_000))]),
            "1",
            "How many items a `list` has, or the least and the largest number.",
        ),
        action(
            "reference",
            Shape::Text,
            "The key of a record of the collection with this name: text, or a number if its keys are `integer`.",
        ),
        optional(
            "distribution",
            Shape::Word(&Distribution::WORDS),
            "\"uniform\"",
            "Which record a `reference` is to; with `uniform` and `zipfian` an update changes it.",
        ),
        action(
            "fields",
            Shape::Map(&Shape::Field(&GENERATOR)),
            "Nested fields, where one of them has a name of this table.",
        ),
        action("constant", Shape::Scalar, "The same value in every record, where only a share of the records has it."),
        action(
            "template",
            Shape::Template,
            "Text with the number at each `{i}`, where only a share of the records has it.",
        ),
        optional("present", Shape::Share, "100%", "The share of the documents that have the field."),
    ]],
);

/// `key = { ... }`.
pub(crate) static KEY: TableShape = table(
    "key",
    "How keys are made from the records' numbers: exactly one of `template`, `integer` and `hashed`.",
    &[&[
        action("template", Shape::Template, "Text with the number in decimal at each `{i}`."),
        optional("pad", Shape::Whole(0, 20), "0", "Minimum number of digits, padded with zeros; only with `template`."),
        action(
            "integer",
            Shape::Whole(4, 8),
            "The number as a big-endian integer of 4 or 8 bytes, so that key order is record order.",
        ),
        action(
            "hashed",
            Shape::Whole(8, 4096),
            "A hash of the number; the whole key has this many bytes. Key order is unrelated to record order.",
        ),
        optional("prefix", Shape::Text, "none", "Text before the hash; only with `hashed`."),
        optional(
            "hex",
            Shape::Flag,
            "false",
            "Writes the hash in hexadecimal instead of raw bytes; only with `hashed`.",
        ),
    ]],
);

/// `value = { ... }`.
pub(crate) static VALUE: TableShape = table(
    "value",
    "How values are made from the records' numbers.",
    &[&[
        required(
            "bytes",
            Shape::Either(&[Shape::Bytes, Shape::Table(&BYTES_TABLE)]),
            "Length of the value, fixed or random for each record.",
        ),
        optional("compressible", Shape::Share, "0%", "By what share a general compressor shrinks the value."),
        optional("prefix", Shape::Template, "none", "Text at the start of each value; the length includes it."),
    ]],
);

/// `bytes = { ... }`.
pub(crate) static BYTES_TABLE: TableShape = table(
    "bytes",
    "Random lengths, one for each record.",
    &[&[
        action("uniform", Shape::Pair(&Shape::Bytes), "Every length from the first to the second, equally likely."),
        action(
            "zipfian",
            Shape::Pair(&Shape::Bytes),
            "Lengths from the first to the second, short ones more likely, as YCSB's field lengths.",
        ),
        action("lognormal", Shape::Table(&LOG_NORMAL), "Log-normal lengths up to a maximum."),
    ]],
);

/// `lognormal = { ... }`.
pub(crate) static LOG_NORMAL: TableShape = table(
    "lognormal",
    "A log-normal distribution of lengths.",
    &[&[
        required("median", Shape::Bytes, "The median length."),
        required("sigma", Shape::Positive, "Standard deviation of the length's natural logarithm."),
        required("max", Shape::Bytes, "The maximum length."),
    ]],
);
