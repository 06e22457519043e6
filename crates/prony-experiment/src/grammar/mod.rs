//! The form of the experiment file, declared once.

mod data;
mod phase;
mod program;
mod report;

use super::shape::{Field, Shape, TableShape, optional};
pub(crate) use data::{BYTES_TABLE, DATA, KEY, LOG_NORMAL, STORE, VALUE};
pub(crate) use phase::{
    BATCH, HOTSPOT_SHARES, MIX, ONE_IN, OPS, PAUSE_EVERY, PHASE, RATE, SCAN, SCAN_UNIFORM, SETTLE, ZIPFIAN,
};
pub(crate) use program::{
    AT_END, BEGIN, CHANGE, END, INPUT, OBSERVED_KEYS, OUTPUT, PROGRAM, PROGRAM_PHASE, REPLACE, REPLICAS, SUBJECT,
};
pub(crate) use report::{REPORT, TABLE};

/// The whole file.
pub(crate) static ROOT: TableShape = TableShape {
    name: "file",
    doc: "An experiment: subject, factors, data, phases, limits, comparison, report.",
    fields: &[&[
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
            "What is compared with what, and how often it runs.",
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
    rest: None,
};

/// Phases of stores, or in a file with programs of both.
const PHASES: Shape = Shape::List(&Shape::Either(&[Shape::Table(&PHASE), Shape::Table(&PROGRAM_PHASE)]));

/// Phases of stores only.
pub(crate) static STORE_PHASES: Shape = Shape::List(&Shape::Table(&PHASE));

/// Phases in a file with programs.
pub(crate) static PROGRAM_PHASES: Shape = Shape::List(&Shape::Table(&PROGRAM_PHASE));

/// `[experiment]`.
pub(crate) static EXPERIMENT: TableShape = TableShape {
    name: "experiment",
    doc: "What the experiment is called and asks.",
    fields: &[&[
        optional("title", Shape::Plain, "the file's name", "Printed above every table and report."),
        optional("question", Shape::Plain, "none", "What the experiment is to answer."),
        optional(
            "seed",
            Shape::Whole(0, i64::MAX as u64),
            "1",
            "Seeds everything that is drawn: data, operation orders, trial orders.",
        ),
    ]],
    rest: None,
};

/// `[design]`.
pub(crate) static DESIGN: TableShape = TableShape {
    name: "design",
    doc: "Which combinations of levels run.",
    fields: &[&[
        optional(
            "skip",
            Shape::List(&Shape::Map(&LEVELS)),
            "nothing is left out",
            "Takes out every combination that has all the levels of one of these tables.",
        ),
        optional(
            "grid",
            Shape::List(&Shape::Map(&LEVELS)),
            "the full cross",
            "A union of sub-grids instead of the full cross; a factor that one does not name takes all its levels.",
        ),
        optional(
            "vary",
            Shape::Word(&[("one at a time", "the baseline, and each combination that differs from it in one factor")]),
            "all factors together",
            "Makes a star around the baseline instead of the full cross.",
        ),
        optional(
            "leave_one_out",
            Shape::Plain,
            "none",
            "A factor whose levels are changes. Its levels become `all` of them together, `without X` for each one, and \
             `none`. The baseline is `all` unless `[compare]` names one, and a table shows the effect of each change \
             when all others are applied.",
        ),
    ]],
    rest: None,
};

/// A level or a list of levels.
pub(crate) static LEVELS: Shape = Shape::Either(&[Shape::Scalar, Shape::List(&Shape::Scalar)]);

/// `[compare]`.
pub(crate) static COMPARE: TableShape = TableShape {
    name: "compare",
    doc: "What is compared with what, and how often it runs.",
    fields: &[&[
        optional(
            "baseline",
            Shape::Map(&Shape::Scalar),
            "no comparison",
            "A level for some factors; each variant is compared with the baseline inside the same levels of all others.",
        ),
        optional(
            "floor",
            Shape::Map(&Shape::Scalar),
            "no floor",
            "A level for some factors: the same work straight into the bare engine. Reports show what share of each \
             variant's time lies above the floor inside the same levels of all others; nothing is judged by it.",
        ),
        optional("margin", Shape::Share, "3%", "Differences below this do not matter."),
        optional(
            "alpha",
            Shape::Share,
            "5%",
            "How often a verdict of the whole family may be wrong: more than 0 and less than 1.",
        ),
        optional(
            "metric",
            Shape::Plain,
            "`time` of the first timed phase that all variants have; of one that lasts a given time `rate`; of an open \
             loop `latency.p99`, or the highest percentile for which its operations suffice",
            "The one metric that gets verdicts, as `write.time`.",
        ),
        optional(
            "metrics",
            Shape::List(&Shape::Plain),
            "none",
            "Further metrics with verdicts; they count in the family.",
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
            "Operations of a phase that may fail, as a number or as a share of those offered, as `\"0.1%\"`. A trial in which \
             more fail has failed, and in a phase bounded by count its times and rates are not compared. Calls of a \
             function that throw count where this is written, and else do not.",
        ),
        optional(
            "budget",
            Shape::Span,
            "none: `blocks` says how many run",
            "The time that the run has, as `20 min`: as many blocks run as fit into it, instead of `blocks`, until \
             every comparison is decided; of a range in `blocks` the minimum still applies to the first interim \
             analysis. A `cleanup` runs after it.",
        ),
        optional("twice", Shape::Flag, "true", "Runs the baseline twice in each block, under two labels (A/A)."),
    ]],
    rest: None,
};

/// `blocks = { min, max, factor.level = N }`.
pub(crate) static BLOCKS: TableShape = TableShape {
    name: "blocks",
    doc: "How many blocks run, where it is not one number.",
    fields: &[
        &BLOCK_RANGE,
        &[optional(
            "default",
            Shape::Either(&[Shape::Whole(1, 10_000), Shape::Table(&LEVEL_BLOCKS)]),
            "`min` and `max`",
            "Blocks of variants whose levels set none, instead of `min` and `max`.",
        )],
    ],
    rest: Some(&Shape::Map(&Shape::Either(&[Shape::Whole(1, 10_000), Shape::Table(&LEVEL_BLOCKS)]))),
};

/// Blocks of one level.
pub(crate) static LEVEL_BLOCKS: TableShape = TableShape {
    name: "blocks of a level",
    doc: "How many blocks the variants with this level run in.",
    fields: &[&BLOCK_RANGE],
    rest: None,
};

static BLOCK_RANGE: [Field; 2] = [
    optional(
        "min",
        Shape::Whole(1, 10_000),
        "6",
        "The minimum; interim analyses planned in advance decide about \
        more.",
    ),
    optional("max", Shape::Whole(1, 10_000), "`min`", "At most so many."),
];

/// `[observe]`.
pub(crate) static OBSERVE: TableShape = TableShape {
    name: "observe",
    doc: "How trials are observed.",
    fields: &[&[
        optional(
            "hertz",
            Shape::Whole(1, 100),
            "10",
            "How often a second the memory and CPU time of the process tree are read.",
        ),
        optional("throughput", Shape::Span, "100 ms", "Interval of the throughput series."),
        optional(
            "care",
            Shape::Word(&[
                (
                    "full",
                    "the machine's limits are measured, reference workloads run and dirty pages are flushed before \
                     and after each trial",
                ),
                ("light", "none of that, for commands of milliseconds; finished trials are synced once a second"),
            ]),
            "\"full\"",
            "How much is measured before and after each trial.",
        ),
        optional(
            "profile",
            Shape::Word(&[(
                "cpu",
                "where the processor's time goes: V8's own profiler for programs with `runtime = \"node\"`, `perf` for \
                 everything else",
            )]),
            "no profile",
            "One extra trial of each variant is profiled after the blocks; it counts in no figure.",
        ),
        optional(
            "syncs",
            Shape::Flag,
            "`true` where a variant has a `[store]` or a program with `store`, or the file names such a figure",
            "Count the calls of `fsync`, `fdatasync`, `msync` and `sync_file_range`. While they are counted, each system call \
             on the machine takes some 40 ns longer.",
        ),
        optional(
            "record_commands",
            Shape::Flag,
            "true",
            "`false` keeps command lines, variables, paths, changes and texts of programs out of the results database, and \
             the text of this file; `prony run --resume` then needs the file. Titles, labels of levels (with the values \
             of `--set`) and their numbers, patterns and functions of phases, names of processes, files in profiles and \
             what programs print are kept.",
        ),
    ]],
    rest: None,
};

/// The least that the kernel takes: 1 ms in its period of 100 ms.
const LEAST_CPUS: f64 = 0.01;

/// The most processors for which Linux is built.
const MOST_CPUS: f64 = 8192.0;

/// `[limits]`.
pub(crate) static LIMITS: TableShape = TableShape {
    name: "limits",
    doc: "Limits on a trial's whole process tree; reaching one is a result.",
    fields: &[&[
        optional("memory", Shape::Bytes, "no limit", "Memory of the whole tree, page cache included, swap off."),
        optional("cpus", Shape::Between(LEAST_CPUS, MOST_CPUS), "no limit", "Processors' worth of CPU time."),
        optional("pids", Shape::Whole(1, 4_194_304), "no limit", "Processes and threads."),
        optional("time", Shape::Either(&[Shape::Span, Shape::Table(&TIME_LIMITS)]), "no limit", "Time of a trial."),
    ]],
    rest: None,
};

/// `time = { trial, phase }`.
pub(crate) static TIME_LIMITS: TableShape = TableShape {
    name: "time limits",
    doc: "Time of the whole trial and of each phase.",
    fields: &[&[
        optional("trial", Shape::Span, "no limit", "Time of the whole trial."),
        optional("phase", Shape::Span, "no limit", "Time of each phase."),
    ]],
    rest: None,
};
