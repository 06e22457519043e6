//! Declares `[[phase]]` and its actions.

use super::COMMAND_SHAPE;
use super::find::QUERY;
use super::http::HTTP;
use super::repeat::{ORDER, RATE_KEY};
use crate::shape::{Field, Shape, TableShape, action, optional, required, table};
use prony_model::spec::{References, Sharing, Sign};

/// `[[phase]]`.
pub(crate) static PHASE: TableShape =
    table("phase", "A named part of a trial, with exactly one action.", &[&FRAME, &ACTIONS, &BESIDE]);

pub(super) const FRAME: [Field; 4] = [
    required("name", Shape::Text, "Unique within a trial; letters, digits, spaces, `-` and `_`."),
    optional(
        "when",
        Shape::Map(&super::LEVELS),
        "in every variant",
        "Restricts the phase to variants with these levels: `when = { factor = level }`, or a list of levels.",
    ),
    optional("timed", Shape::Flag, "true", "`false` excludes the phase, such as set-up, from all results."),
    optional(
        "limit",
        Shape::Span,
        "`limits.time.phase`",
        "Time after which the trial has timed out; of a function's calls after the first 1,000 of a thread only those that returned count.",
    ),
];

/// The actions.
pub(super) const ACTIONS: [Field; 20] = [
    action("put", Shape::Table(&OPS), "Inserts records."),
    action("get", Shape::Table(&OPS), "Reads records by key."),
    action("update", Shape::Table(&OPS), "Overwrites records with a new version of their value."),
    action("delete", Shape::Table(&OPS), "Removes records."),
    action("scan", Shape::Table(&SCAN), "Reads ranges in key order."),
    action("compute", Shape::Table(&OPS), "`compute` of a cache: a get, and a put if the get finds nothing."),
    action("mix", Shape::Table(&MIX), "Random mix of operations by weight, as in YCSB."),
    action(
        "find",
        Shape::Table(&FIND),
        "Runs queries over documents; each operation runs all of them, with values of one record.",
    ),
    action("commit", Shape::Table(&EMPTY), "Commits the transaction that an earlier phase left open."),
    action("persist", Shape::Table(&EMPTY), "Makes sure that everything acknowledged so far is on the disk."),
    action(
        "close",
        Shape::Table(&EMPTY),
        "Closes the store; the time includes what the engine does in its destructor.",
    ),
    action("reopen", Shape::Table(&EMPTY), "Opens the store again; closes it first if it is open."),
    action(
        "evict",
        Shape::Table(&EMPTY),
        "Closes the store, evicts its files from the page cache, and opens it again. `cached` is the share of their pages that stayed.",
    ),
    action("settle", Shape::Table(&SETTLE), "Waits until the store is quiet."),
    action(
        "verify",
        Shape::Table(&EMPTY),
        "Reads all records back and compares them with what the phases before must have left; a warning says for how many records this is not known exactly.",
    ),
    action("pause", Shape::Span, "Does nothing for a time."),
    action("http", Shape::Table(&HTTP), "Sends requests to a server."),
    action(
        "run",
        COMMAND_SHAPE,
        "Runs a command beside the services until it ends, such as a loader: `run = [\"loader\", \"{service.api.url}\"]`; \
         a text runs with `sh -c`. It works in the folder of this file, and its CPU time and memory are those of the \
         instance `load`.",
    ),
    action(
        "kill",
        Shape::Table(&KILL),
        "Crash trials, which run after the blocks and are never timed: a process repeats the writes of a phase on a new \
         store until it is ended by SIGKILL, and a fresh process counts which acknowledged commits are there.",
    ),
    action(
        "powercut",
        Shape::Table(&POWERCUT),
        "Crash trials as `kill`, of a power failure: the store lies on a file system that simulates one, and several images of \
         the disk as it may look afterwards are made of each cut and checked.",
    ),
];

/// What is repeated until a cut, and when that comes.
static REPEATED_WRITES: [Field; 4] = [
    required("during", Shape::Text, "The phase whose writes are repeated."),
    optional(
        "cuts",
        Shape::Whole(1, 100_000),
        "30",
        "Number of cuts of each variant, each with a new store. If none of `n` cuts breaks a promise, the probability that \
         one does is below `1 - 0.05^(1/n)` with confidence 95%: 9.6% after 30 cuts, 3% after 100.",
    ),
    optional(
        "within",
        Shape::Span,
        "1 s",
        "Each cut comes at a random moment of this time, which begins with the first transaction; the cuts are spread \
         evenly over it.",
    ),
    optional(
        "also",
        Shape::List(&Shape::Text),
        "none",
        "Further collections in which each transaction writes the records of the same numbers, so that it must be atomic \
         over several tables.",
    ),
];

/// `powercut = { ... }`.
pub(crate) static POWERCUT: TableShape = table(
    "powercut",
    "Power failures, on a simulated disk (docs/powercut.md): what was made durable survives, and of what was pending what the image \
     contains: nothing, the first operations, a random subset of pages, or a torn write, in turn. The empty store is made durable \
     before the first transaction. Without FUSE the trials are `unsupported`.",
    &[
        &REPEATED_WRITES,
        &[
            optional(
                "images",
                Shape::Whole(1, 1_000),
                "10",
                "Images made of each cut. They depend on each other: bounds count cuts.",
            ),
            optional(
                "creation",
                Shape::Flag,
                "false",
                "`true`: the empty store is not made durable first, so that its creation is tested too.",
            ),
        ],
    ],
);

/// `kill = { ... }`.
pub(crate) static KILL: TableShape = table(
    "kill",
    "Process crashes: the process ends by SIGKILL, and what it has written survives in the page cache. The writes are those \
     of `put`, `update`, `delete` or `compute` by one client, grouped into transactions as in the phase; they go on until the \
     cut, and no reads are among them. `update` and `delete` begin with all records stored. A record that `delete` has removed \
     is stored again when its turn comes next. The first 12 bytes of each value are the record's number and a version.",
    &[&REPEATED_WRITES],
);

/// What may run beside an action.
pub(super) static BESIDE: [Field; 1] = [optional(
    "background",
    Shape::Table(&BACKGROUND),
    "none",
    "Operations that further clients repeat until the phase's operations have ended, such as \
     `background = { get = { threads = 2 } }` while a phase writes. Their metrics have the instance `background`: \
     `update.background.rate`.",
)];

/// `background = { ... }`.
pub(crate) static BACKGROUND: TableShape = table(
    "background",
    "Operations beside those of a phase, at most one kind; `{}` for none. Only one of the two may write.",
    &[&BESIDES],
);

static BESIDES: [Field; 5] = [
    beside("get", Shape::Table(&OPS), "Reads records by key."),
    beside("scan", Shape::Table(&SCAN), "Reads ranges in key order."),
    beside("find", Shape::Table(&FIND), "Runs queries over documents."),
    beside("update", Shape::Table(&OPS), "Overwrites records with a new version of their value."),
    beside("mix", Shape::Table(&MIX), "Random mix of operations by weight, as in YCSB."),
];

const fn beside(name: &'static str, shape: Shape, doc: &'static str) -> Field {
    optional(name, shape, "none", doc)
}

pub(super) static EMPTY: TableShape = table("nothing to set", "Takes no keys.", &[]);

/// Operations.
pub(crate) static OPS: TableShape = table("operations", "How operations are repeated.", &[&REPEATED, &TOUCH, &CHECKED]);

static REPEATED: [Field; 11] = [
    optional(
        "collection",
        Shape::Text,
        "the only one",
        "The collection whose records the operations work on, where `[data]` has several.",
    ),
    optional("count", Shape::Whole(1, i64::MAX as u64), "one for each record", "How many operations."),
    optional("duration", Shape::Span, "`count`", "Runs as many operations as fit into this time, instead of `count`."),
    optional(
        "transaction",
        Shape::Either(&[Shape::Word(&GROUPED), Shape::Table(&BATCH)]),
        "\"each\"",
        "How operations are grouped into transactions.",
    ),
    ORDER,
    optional(
        "replicas",
        Shape::Whole(1, 1024),
        "1",
        "Processes that share the store and the operations, each with its own `threads`; for `get`, `scan` and `find`. \
         The first is the process that runs the other phases.",
    ),
    optional("threads", Shape::Whole(1, 1024), "1", "Client threads of each process."),
    optional(
        "share",
        Shape::Word(&Sharing::WORDS),
        "\"equal\"",
        "How the operations are divided among the clients of all processes.",
    ),
    optional(
        "pause",
        Shape::Table(&PAUSE_EVERY),
        "none",
        "A pause after each group of operations; `time` includes the pauses.",
    ),
    RATE_KEY,
    optional(
        "sample",
        Shape::Either(&[Shape::Word(&SAMPLES), Shape::Table(&ONE_IN)]),
        "\"every\"",
        "What is timed in addition to the phase as a whole; with `rate` it is every operation.",
    ),
];

static TOUCH: [Field; 1] = [optional("touch", Shape::Flag, "true", "Reads touch every cache line of each value.")];

static CHECKED: [Field; 1] = [optional(
    "references",
    Shape::Word(&References::WORDS),
    "\"ignore\"",
    "What `put`, `update` and `delete` do about references between documents, in the transaction of the operation.",
)];

/// `find = { ... }`.
pub(crate) static FIND: TableShape =
    table("find", "Queries over documents, and how the operations that run them are repeated.", &[&REPEATED, &QUERIES]);

static QUERIES: [Field; 1] = [required(
    "query",
    Shape::Either(&[Shape::Table(&QUERY), Shape::List(&Shape::Table(&QUERY))]),
    "The query of each operation, or several that it runs in order: `[[phase.find.query]]`.",
)];

/// Words for `transaction`.
static GROUPED: [(&str, &str); 3] = [
    ("each", "one transaction per operation"),
    (
        "single",
        "one transaction; it stays open until the next `commit` phase, where one follows, else until the phase's end",
    ),
    ("open", "one transaction that a later `commit` phase ends"),
];

/// `transaction = { batch = N }`.
pub(crate) static BATCH: TableShape = table(
    "transaction",
    "Transactions of several operations.",
    &[&[required("batch", Shape::Whole(1, i64::MAX as u64), "Number of operations per transaction.")]],
);

/// `pause = { ... }`.
pub(crate) static PAUSE_EVERY: TableShape = table(
    "pause",
    "A pause between groups of operations.",
    &[&[
        required("every", Shape::Whole(1, i64::MAX as u64), "Number of operations between two pauses."),
        required("for", Shape::Time, "Length of the pause; `\"0 ms\"` yields the processor once."),
    ]],
);

static SAMPLES: [(&str, &str); 2] =
    [("none", "nothing, which costs least"), ("every", "every operation's latency, into a histogram")];

/// `sample = { ... }`.
pub(crate) static ONE_IN: TableShape = table(
    "sample",
    "What is timed in addition to the phase as a whole.",
    &[&[
        action(
            "operations",
            Shape::Whole(1, i64::MAX as u64),
            "Wall and CPU time of each group of this many operations; all are stored.",
        ),
        action(
            "one_in",
            Shape::Whole(1, i64::MAX as u64),
            "Of every N operations, the latency of one, chosen at random, goes into a histogram.",
        ),
    ]],
);

/// `scan = { ... }`.
pub(crate) static SCAN: TableShape = table(
    "scan",
    "Reads ranges in key order; `order` picks the first record of each.",
    &[
        &[optional(
            "length",
            Shape::Either(&[Shape::Whole(1, i64::MAX as u64), Shape::Table(&SCAN_UNIFORM)]),
            "one scan from the first key to the end",
            "Rows per scan.",
        )],
        &REPEATED,
        &TOUCH,
    ],
);

/// `length = { uniform = N }`.
pub(crate) static SCAN_UNIFORM: TableShape = table(
    "scan length",
    "Random number of rows per scan.",
    &[&[required("uniform", Shape::Whole(1, i64::MAX as u64), "Uniformly distributed from 1 to this number.")]],
);

/// Of larger ones the sum may be infinite: then each is a share of zero, and all operations are of one kind.
const WEIGHT: Shape = Shape::Between(0.0, 1e9);

/// `mix = { ... }`.
pub(crate) static MIX: TableShape = table(
    "mix",
    "Random mix of operations by weight; only the ratios of the weights matter.",
    &[
        &[
            optional("read", WEIGHT, "0", "Reads by key."),
            optional("update", WEIGHT, "0", "Overwrites."),
            optional("insert", WEIGHT, "0", "New records, numbered after the largest number so far."),
            optional("scan", WEIGHT, "0", "Range scans."),
            optional("read_modify_write", WEIGHT, "0", "A read and an overwrite of one record, in one transaction."),
            optional("delete", WEIGHT, "0", "Removes records."),
            optional(
                "scan_length",
                Shape::Either(&[Shape::Whole(1, i64::MAX as u64), Shape::Table(&SCAN_UNIFORM)]),
                "{ uniform = 100 }",
                "Rows per scan.",
            ),
        ],
        &REPEATED,
        &TOUCH,
    ],
);

/// `settle = { ... }`.
pub(crate) static SETTLE: TableShape = table(
    "settle",
    "When the process tree and its store count as quiet. For a program without `store`, or with `care = \
          \"light\"`, only CPU time and bytes written are watched.",
    &[&[
        optional("quiet", Shape::Span, "2 s", "How long all signs of activity must stay under their thresholds."),
        optional("within", Shape::Span, "10 min", "After this time, waiting ends with the finding `not settled`."),
        optional("cpu", Shape::Share, "2%", "Threshold of the process tree's CPU use, as a share of one core."),
        optional(
            "bytes",
            Shape::Bytes,
            "1 MB",
            "Threshold of bytes written per second, and of growth and dirty pages of the store.",
        ),
        optional(
            "of",
            Shape::List(&Shape::Word(&Sign::WORDS)),
            "`[\"cpu\", \"written\", \"disk\"]`: what processes do",
            "The signs of activity whose last activity is `settle.time`. Each sign has a metric of its own as well, \
             such as `settle.time.cpu`, measured from the same begin.",
        ),
        optional(
            "beside",
            Shape::List(&Shape::Word(&Sign::WORDS)),
            "`[\"dirty\"]`: what the kernel writes for them",
            "Further signs that the phase waits for and that do not count for `settle.time`. A sign in neither list \
             has a value only if it was quiet when the phase ended. With `beside = []` the phase does not wait for \
             the kernel.",
        ),
    ]],
);
