//! Declares which records operations and requests work on, when they start, and on which processors.

use crate::shape::{Field, Shape, TableShape, action, optional, required, table};

const ORDER_SHAPE: Shape = Shape::Either(&[Shape::Word(&ORDERS), Shape::Table(&ZIPFIAN)]);

const RATE_SHAPE: Shape = Shape::Either(&[Shape::Rate, Shape::Table(&RATE)]);

/// The processors of a role.
pub(super) const PROCESSORS: Field = optional(
    "processors",
    Shape::List(&Shape::Whole(0, 1023)),
    "all on which prony may run",
    "The numbers of the processors on which it runs, such as `[0, 1]`, so that a server and its load share none.",
);

pub(super) const ORDER: Field = optional(
    "order",
    ORDER_SHAPE,
    "\"record\" for put, compute and http, \"uniform\" for mix, else \"shuffled\"",
    "Which record each operation touches.",
);

pub(super) const RATE_KEY: Field =
    optional("rate", RATE_SHAPE, "closed loop", "Open loop: operations arrive at this rate.");

pub(super) const ARRIVALS: Field = optional(
    "arrivals",
    Shape::Word(&[("even", "equal gaps"), ("poisson", "exponential gaps")]),
    "\"even\"",
    "Distribution of the gaps between arrivals of operations.",
);

static ORDERS: [(&str, &str); 6] = [
    ("record", "by number: 0, 1, 2 ..."),
    ("key", "by the keys' byte order"),
    ("shuffled", "each once, in a seeded random order"),
    ("uniform", "random records, all equally likely"),
    ("zipfian", "YCSB's scrambled zipfian with exponent 0.99, in which the most frequent record has at least 3.8%"),
    (
        "latest",
        "YCSB's latest: zipfian back from the newest record, which is the last of `records` or of those that the same phase has inserted",
    ),
];

/// `order = { ... }`.
pub(crate) static ZIPFIAN: TableShape = table(
    "order",
    "Which record each operation touches, with parameters.",
    &[&[
        action(
            "zipfian",
            Shape::Positive,
            "Scrambled zipfian with this exponent, below 1. As in YCSB, a rank is drawn from 10^10 whatever the number of records, and \
             its hash is the record: of 10,000 records the most frequent has 3.8% of the operations with 0.99 (9.8% if ranks were records), \
             0.2% with 0.8, and with 0.5 all are as good as equally likely. `hotspot` is as skewed as it says.",
        ),
        action(
            "latest",
            Shape::Positive,
            "Zipfian back from the newest record, as `\"latest\"`, with this exponent, below 1.",
        ),
        action("hotspot", Shape::Table(&HOTSPOT_SHARES), "A share of the operations goes to a share of the records."),
    ]],
);

/// `hotspot = { ... }`.
pub(crate) static HOTSPOT_SHARES: TableShape = table(
    "hotspot",
    "A share of the operations goes to a share of the records.",
    &[&[
        required("records", Shape::Share, "Share of the records that is hot."),
        required("operations", Shape::Share, "Share of the operations that goes to the hot records."),
    ]],
);

/// `rate = { ... }`.
pub(crate) static RATE: TableShape = table(
    "rate",
    "An open loop's schedule.",
    &[&[required("rate", Shape::Rate, "Operations per second over all clients."), ARRIVALS]],
);
