//! Declares the form of the experiment file: tables, keys, defaults and descriptions. The checker, the JSON Schema and
//! the reference are made from it.

mod data;
mod find;
mod http;
mod phase;
mod program;
mod repeat;
mod report;
mod service;

use super::shape::{Field, Shape, TableShape, optional, table};
pub(crate) use data::{BYTES_TABLE, COLLECTION, DATA, GENERATOR, KEY, LOG_NORMAL, STORE, VALUE};
pub(crate) use find::{QUERY, TEST};
pub(crate) use http::{ANSWER, BODY, HTTP, RAMP, RATE_STEP, REQUEST_KIND, REQUEST_RATE, RETRY, SAVE};
pub(crate) use phase::{
    BACKGROUND, BATCH, FIND, KILL, MIX, ONE_IN, OPS, PAUSE_EVERY, PHASE, POWERCUT, SCAN, SCAN_UNIFORM, SETTLE,
};
pub(crate) use program::{
    AT_END, BEGIN, CHANGE, END, INPUT, OUTPUT, PROGRAM, PROGRAM_PHASE, REPLACE, REPLICAS, SUBJECT, observed_keys,
};
use prony_model::program::{Care, ProfileOf};
pub(crate) use repeat::{HOTSPOT_SHARES, RATE, ZIPFIAN};
pub(crate) use report::{REPORT, TABLE};
pub(crate) use service::{COUNTERS, INITIAL_DATA, OBSERVED, READY, SERVICE};

/// The whole file.
pub(crate) static ROOT: TableShape = table(
    "file",
    "An experiment: subject, factors, data, phases, limits, comparison, report.",
    &[&[
        optional("experiment", Shape::Table(&EXPERIMENT), "the file's name as title", "Title, question and seed."),
        optional(
            "factors",
            Shape::Map(&Shape::Any),
            "one variant",
            "What is varied: `name = [levels]`, or `[factors.name]` with labels and values.",
        ),
        optional("design", Shape::Table(&DESIGN), "every combination of levels", "Which combinations of levels run."),
        optional(
            "compare",
            Shape::Table(&COMPARE),
            "no comparison",
            "Which variants are compared with which baseline, and how many blocks run.",
        ),
        optional("observe", Shape::Table(&OBSERVE), "10 samples a second", "How trials are observed."),
        optional("limits", Shape::Table(&LIMITS), "no limits", "Limits on a trial's whole process tree."),
        optional(
            "store",
            Shape::Table(&STORE),
            "programs are measured",
            "The engine that is measured and how it is opened.",
        ),
        optional(
            "program",
            Shape::Map(&Shape::Table(&PROGRAM)),
            "a store is measured",
            "The commands that are measured, by name: `[program.build]`.",
        ),
        optional(
            "service",
            Shape::List(&Shape::Table(&SERVICE)),
            "no server runs beside the phases",
            "The servers that run beside the phases and are measured.",
        ),
        optional(
            "subject",
            Shape::Table(&SUBJECT),
            "the only store or program",
            "Which store or program a variant measures, where there are several.",
        ),
        optional("data", Shape::Table(&DATA), "no records", "The records that phases work on."),
        optional(
            "phase",
            PHASES,
            "the whole execution of a program is one phase, `run`",
            "The parts of a trial, in order. A store needs at least one.",
        ),
        optional("report", Shape::Table(&REPORT), "the derived layout", "The tables of the report."),
    ]],
);

/// Phases of stores, or in a file with programs of both.
const PHASES: Shape = Shape::List(&Shape::Either(&[Shape::Table(&PHASE), Shape::Table(&PROGRAM_PHASE)]));

/// Phases of stores only.
pub(crate) static STORE_PHASES: Shape = Shape::List(&Shape::Table(&PHASE));

/// Phases in a file with programs.
pub(crate) static PROGRAM_PHASES: Shape = Shape::List(&Shape::Table(&PROGRAM_PHASE));

/// `[experiment]`.
pub(crate) static EXPERIMENT: TableShape = table(
    "experiment",
    "Title, question and seed of the experiment.",
    &[&[
        optional("title", Shape::Plain, "the file's name", "Printed above every table and report."),
        optional("question", Shape::Plain, "none", "The question that the experiment is to answer."),
        optional(
            "seed",
            Shape::Whole(0, i64::MAX as u64),
            "1",
            "Seed of everything random: data, order of operations, order of trials.",
        ),
    ]],
);

/// `[design]`.
pub(crate) static DESIGN: TableShape = table(
    "design",
    "Which combinations of levels run.",
    &[&[
        optional(
            "skip",
            Shape::List(&Shape::Map(&LEVELS)),
            "nothing is left out",
            "Excludes every combination that has all the levels of one of these tables.",
        ),
        optional(
            "grid",
            Shape::List(&Shape::Map(&LEVELS)),
            "the full Cartesian product",
            "A union of sub-grids instead of the full Cartesian product. A factor that a sub-grid does not name takes \
             all its levels.",
        ),
        optional(
            "vary",
            Shape::Word(&[("one at a time", "the baseline, and each combination that differs from it in one factor")]),
            "all factors together",
            "Varies factors around the baseline instead of the full Cartesian product.",
        ),
        optional(
            "leave_one_out",
            Shape::Plain,
            "none",
            "Name of a factor whose levels are changes. The levels that run are `all` (all changes together), \
             `without X` for each change X, and `none`. The baseline is `all` unless `[compare]` names another, and a \
             table shows the effect of each change when all others are applied.",
        ),
    ]],
);

/// A level or a list of levels.
pub(crate) static LEVELS: Shape = Shape::Either(&[Shape::Scalar, Shape::List(&Shape::Scalar)]);

/// `[compare]`.
pub(crate) static COMPARE: TableShape = table(
    "compare",
    "Which variants are compared with which baseline, and how many blocks run.",
    &[&[
        optional(
            "baseline",
            Shape::Map(&Shape::Scalar),
            "no comparison",
            "A level for one or more factors, as `{ engine = \"lmdb\" }`. Each variant is compared with the variant \
             that has these levels and the same levels of all other factors.",
        ),
        optional(
            "floor",
            Shape::Map(&Shape::Scalar),
            "no floor",
            "A level for one or more factors that stands for the same work on the bare engine: the floor. Reports \
             show what share of each variant's time lies above the floor at the same levels of all other factors; no \
             verdict depends on it.",
        ),
        optional("margin", Shape::Share, "3%", "The margin: differences below this share do not matter."),
        optional(
            "alpha",
            Shape::Share,
            "5%",
            "Family-wise error rate, which is the probability that any of the verdicts is wrong: more than 0 and less \
             than a half.",
        ),
        optional(
            "metric",
            Shape::Plain,
            "`time` of the first timed phase that all variants have; `rate` if that phase lasts a given time; if \
             its `threads` or `replicas` differ between compared variants, `wall`, `makespan` of replicas, or `operations` in a given \
             time; `latency.p99` if it is an open loop, or the highest percentile for which it has enough operations",
            "The primary metric, which gets verdicts, such as `write.time`.",
        ),
        optional(
            "metrics",
            Shape::List(&Shape::Plain),
            "none",
            "Further metrics that get verdicts; the correction for multiple comparisons includes them.",
        ),
        optional(
            "blocks",
            Shape::Either(&[Shape::Whole(1, 10_000), Shape::Table(&BLOCKS)]),
            "6",
            "How many blocks run: each runs every variant once.",
        ),
        optional(
            "errors",
            Shape::Either(&[Shape::Whole(0, 1 << 53), Shape::Share]),
            "0",
            "How many operations of a phase may fail, as a number or as a share of the offered operations, such as \
             `\"0.1%\"`. If more fail, the trial has failed, and in a phase bounded by count its times and rates are \
             not compared. Function calls that throw count as failed operations only if this key is set.",
        ),
        optional(
            "budget",
            Shape::Span,
            "none: `blocks` says how many run",
            "Time for the run, such as `20 min`, instead of `blocks`: as many blocks run as fit into this time, until \
             every comparison is decided. If `blocks` is a range, its minimum still applies to the first interim \
             analysis. A `cleanup` runs after this time.",
        ),
        optional("twice", Shape::Flag, "true", "Runs the baseline twice in each block, under two labels (A/A)."),
    ]],
);

/// `blocks = { min, max, factor.level = N }`.
pub(crate) static BLOCKS: TableShape = TableShape {
    name: "blocks",
    doc: "The number of blocks as a range, or for single levels of factors.",
    fields: &[
        &BLOCK_RANGE,
        &[optional(
            "default",
            Shape::Either(&[Shape::Whole(1, 10_000), Shape::Table(&LEVEL_BLOCKS)]),
            "`min` and `max`",
            "Number of blocks of variants whose levels set no number; replaces `min` and `max`.",
        )],
    ],
    rest: Some(&Shape::Map(&Shape::Either(&[Shape::Whole(1, 10_000), Shape::Table(&LEVEL_BLOCKS)]))),
};

/// Blocks of one level.
pub(crate) static LEVEL_BLOCKS: TableShape = table(
    "blocks of a level",
    "In how many blocks the variants with this level run. A baseline runs in as many as any variant that is compared with it.",
    &[&BLOCK_RANGE],
);

static BLOCK_RANGE: [Field; 2] = [
    optional(
        "min",
        Shape::Whole(1, 10_000),
        "6",
        "Minimum number of blocks; interim analyses, planned in advance, decide whether more blocks run.",
    ),
    optional("max", Shape::Whole(1, 10_000), "`min`", "Maximum number of blocks."),
];

/// `[observe]`.
pub(crate) static OBSERVE: TableShape = table(
    "observe",
    "How trials are observed.",
    &[&[
        optional(
            "hertz",
            Shape::Whole(1, 100),
            "10",
            "Samples per second of the memory and CPU time of the process tree.",
        ),
        optional("throughput", Shape::Span, "100 ms", "Interval of the throughput series."),
        optional("care", Shape::Word(&Care::WORDS), "\"full\"", "How much is measured before and after each trial."),
        optional(
            "profile",
            Shape::Word(&ProfileOf::WORDS),
            "no profile",
            "After the blocks, one extra trial of each variant runs under a profiler; no result includes this trial.",
        ),
        optional(
            "syncs",
            Shape::Flag,
            "`true` where a variant has a `[store]` or a program with `store`, or the file names a metric of these \
             calls",
            "Counts the system calls `fsync`, `fdatasync`, `msync` (`MS_SYNC`), `sync_file_range`, `sync` and `syncfs`. Meanwhile \
             each system call on the machine takes some 40 ns longer.",
        ),
        optional(
            "record_commands",
            Shape::Flag,
            "true",
            "`false` keeps command lines, variables, paths, changes, texts of programs, requests (paths, values of header \
             fields, bodies) and addresses of servers on other machines out of the results database, as well as the text \
             of this file; `prony run --resume` then needs the file. Titles, labels of levels (with the values of `--set`) \
             and their numbers, patterns and functions of phases, names of processes and of header fields, files in \
             profiles, what programs print, and digests of variables, paths and requests, by which a guess of a value can \
             be tested, are stored nevertheless. So are the paths of files of documents.",
        ),
    ]],
);

/// The least that the kernel takes: 1 ms in its period of 100 ms.
const LEAST_CPUS: f64 = 0.01;

/// The most processors for which Linux is built.
const MOST_CPUS: f64 = 8192.0;

/// `[limits]`.
pub(crate) static LIMITS: TableShape = table(
    "limits",
    "Limits on a trial's whole process tree. A trial that reaches a limit is a result, not an error.",
    &[
        &CONFINED,
        &[optional("time", Shape::Either(&[Shape::Span, Shape::Table(&TIME_LIMITS)]), "no limit", "Time of a trial.")],
    ],
);

/// A command: one text, or a list of words, which may be numbers, as factors are.
const COMMAND_SHAPE: Shape = Shape::Either(&[Shape::Text, Shape::List(&Shape::Scalar)]);

/// Limits that a control group enforces.
static CONFINED: [Field; 3] = [
    optional("memory", Shape::Bytes, "no limit", "Memory of the whole tree, page cache included, swap off."),
    optional(
        "cpus",
        Shape::Between(LEAST_CPUS, MOST_CPUS),
        "no limit",
        "CPU time in processors: 1.5 is the time of one and a half processors. More than prony may use is refused: such a limit has no effect.",
    ),
    optional("pids", Shape::Whole(1, 4_194_304), "no limit", "Number of processes and threads."),
];

/// `time = { trial, phase }`.
pub(crate) static TIME_LIMITS: TableShape = table(
    "time limits",
    "Time of the whole trial and of each phase.",
    &[&[
        optional("trial", Shape::Span, "no limit", "Time of the whole trial."),
        optional("phase", Shape::Span, "no limit", "Time of each phase."),
    ]],
);
