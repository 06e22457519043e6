//! Declares `[program.NAME]`, `[subject]`, and the phases of a program.

use super::COMMAND_SHAPE;
use super::data::STORE;
use super::phase::{ACTIONS, FRAME, SETTLE};
use crate::shape::{Field, Need, Shape, TableShape, action, optional, required, table};
use prony_model::program::{CopyOf, Manager, OutwardLinks, Runtime, Weak};

/// `[program.NAME]`.
pub(crate) static PROGRAM: TableShape = table(
    "program",
    "A command to measure, run unmodified, with its complete environment: directory, variables, input and output.",
    &[&COMMAND, &EXECUTED, &MEASURED],
);

static COMMAND: [Field; 1] = [required("command", COMMAND_SHAPE, COMMAND_DOC)];

/// What `command` is.
pub(super) const COMMAND_DOC: &str = "Program and arguments as a list; or as one text, which is split into words as a shell does: quotes are respected, `#` \
     begins a comment. A level in the text is split at its blanks, and else stays as it is: in quotes, or in a list, it is one word. A \
     level that is the whole text is split as the text is. `{dir}` is the program's working directory, `{tmp}` its TMPDIR, `{env.NAME}` \
     a variable of prony's own environment, whose value is recorded; none of them is split.";

/// Where it is executed, and what is done before and after that.
pub(super) static EXECUTED: [Field; 12] = [
    optional(
        "directory",
        Shape::Text,
        "an empty directory",
        "Working directory of the program; a relative path starts at the folder of this file.",
    ),
    optional("copy", Shape::Word(&CopyOf::WORDS), "\"variant\"", "In which copy of `directory` the program works."),
    optional(
        "links",
        Shape::Word(&OutwardLinks::WORDS),
        "\"refuse\"",
        "How symbolic links in `directory` whose target lies outside of it are handled.",
    ),
    optional(
        "env",
        Shape::Map(&Shape::Scalar),
        "none",
        "Environment variables besides PATH, HOME, USER, LOGNAME, SHELL, LANG, LC_ALL, TERM and TZ, which have \
         the same values as for prony, and TMPDIR, which is a directory of the trial's own. The program gets no \
         other variable but PRONY_MARKS, and with `runtime` NODE_OPTIONS or PYTHONPATH.",
    ),
    optional(
        "inherit",
        Shape::List(&Shape::Plain),
        "none",
        "Names of further environment variables that are passed on with the same values as for prony.",
    ),
    optional(
        "output",
        Shape::Either(&[
            Shape::Word(&[
                ("capture", "the first and last bytes are kept, and the length of the rest"),
                ("null", "the output is discarded, which the program can detect"),
                (
                    "inherit",
                    "the output goes where prony's own output goes, and writing it takes as long as it takes there",
                ),
            ]),
            Shape::Table(&OUTPUT),
        ]),
        "\"capture\"",
        "Where the program's output and messages go. `{ file = \"...\" }` keeps what the last trial printed; the \
         file must not be one that the experiment reads, nor lie below a `directory` that is copied, and one process of a \
         trial writes to it.",
    ),
    optional(
        "shell",
        Shape::Scalar,
        "false",
        "`true` runs `command`, which must be one text, with `sh -c`; a name runs it with that shell. The \
         measurements include the shell.",
    ),
    optional(
        "runtime",
        Shape::Word(&Runtime::WORDS),
        "a plain process",
        "The language runtime of the program. prony loads a probe into the runtime that reads its heap and times \
         functions; nothing has to be installed.",
    ),
    optional(
        "build",
        COMMAND_SHAPE,
        "none",
        "Command that runs once per variant in its copy, untimed; a text runs with `sh -c`.",
    ),
    optional(
        "prepare",
        COMMAND_SHAPE,
        "none",
        "Command that runs before each trial, untimed; a text runs with `sh -c`.",
    ),
    optional(
        "cleanup",
        COMMAND_SHAPE,
        "none",
        "Command that runs once per variant when all trials of the run have ended, untimed; a text runs with `sh -c`.",
    ),
    optional(
        "change",
        Shape::Either(&[Shape::Table(&CHANGE), Shape::List(&Shape::Table(&CHANGE))]),
        "none",
        "Changes to the program: environment variables, or files in the copy of its directory. A table, or a \
         list of tables that are applied in order; usually a factor's level.",
    ),
];

static MEASURED: [Field; 7] = [
    optional(
        "conclude",
        COMMAND_SHAPE,
        "none",
        "Command that runs after each trial, untimed, before the remaining processes of the trial are ended; a \
         text runs with `sh -c`.",
    ),
    optional(
        "store",
        Shape::Text,
        "`disk`, `disk.length` and `cached` are missing",
        "The file or directory in which the program keeps its data, in its working directory (`{dir}/data`) or in \
         its TMPDIR (`{tmp}/data`). Its size, and what share of it is in the page cache, are read at the begin \
         and end of each phase while the program continues to run: do not name a large tree.",
    ),
    optional(
        "input",
        Shape::Either(&[Shape::Text, Shape::Table(&INPUT)]),
        "no input",
        "Standard input of the program: a file, or a text as `{ text = \"...\" }`.",
    ),
    optional(
        "pty",
        Shape::Flag,
        "false",
        "Connects the output to a terminal, for programs that buffer output into a pipe.",
    ),
    optional(
        "success",
        Shape::Either(&[Shape::Word(&[("any", "every exit code")]), Shape::List(&Shape::Whole(0, 255))]),
        "[0]",
        "Exit codes that do not count as failure.",
    ),
    optional(
        "warmup",
        Shape::Whole(0, 10_000),
        "0",
        "Number of unmeasured executions of the command before a variant's first trial.",
    ),
    optional(
        "replicas",
        Shape::Table(&REPLICAS),
        "none",
        "Further copies of the program, which start together when the phase that `phase` names begins.",
    ),
];

/// `[program.NAME.replicas]`.
pub(crate) static REPLICAS: TableShape = table(
    "replicas",
    "Further copies of a program: suspended from the trial's begin, released together when a phase begins, in \
          the program's directory and under its limits. Each has its own output, exit code and measurements.",
    &[&[
        required("count", Shape::Whole(0, 1_000), "Number of replicas; 0 for variants without replicas."),
        required(
            "phase",
            Shape::Text,
            "The phase at whose begin the replicas start; `run` if the file declares no phase.",
        ),
        optional(
            "env",
            Shape::Map(&Shape::Scalar),
            "the program's own",
            "Environment variables in addition to the program's own. `{instance}` is the number of the replica: 1, 2, \
             ... The program itself has no number.",
        ),
        optional(
            "command",
            COMMAND_SHAPE,
            "the program's own",
            "Command of each replica, written like `command` of the program. `{instance}` is the number of the \
             replica.",
        ),
        optional(
            "read",
            Shape::Plain,
            "the phase's own",
            "A pattern for the output of each replica, written like `read` of a phase; the memory of the replica is \
             read when a line matches.",
        ),
    ]],
);

/// One text or several.
const TEXTS: Shape = Shape::Either(&[Shape::Text, Shape::List(&Shape::Text)]);

/// `input = { ... }`.
pub(crate) static INPUT: TableShape = table(
    "input",
    "Standard input of a program.",
    &[&[action("file", Shape::Text, "This file."), action("text", Shape::Text, "This text.")]],
);

/// `output = { ... }`.
pub(crate) static OUTPUT: TableShape = table(
    "output",
    "Where a program's output goes.",
    &[&[required(
        "file",
        Shape::Text,
        "Standard output goes to this file, which is emptied before each trial; standard error is captured.",
    )]],
);

/// `change = { ... }`.
pub(crate) static CHANGE: TableShape = table(
    "change",
    "A change to the program. A change that alters nothing is an error.",
    &[&[
        optional(
            "env",
            Shape::Map(&Shape::Scalar),
            "none",
            "Environment variables; they take precedence over those of the program.",
        ),
        optional(
            "replace",
            Shape::Either(&[Shape::Table(&REPLACE), Shape::List(&Shape::Table(&REPLACE))]),
            "none",
            "Pieces of text that are replaced in files of the copy.",
        ),
        optional("patch", TEXTS, "none", "Patch files that are applied to the copy, as `git diff` writes them."),
        optional(
            "dependency",
            TEXTS,
            "none",
            "Packages that are installed in the copy, such as `lmdb@3.1.2`; the installed version is recorded.",
        ),
        optional(
            "manager",
            Shape::Word(&Manager::WORDS),
            "npm where the copy has a `package.json`, pip where it has `pyproject.toml`, `setup.py` or \
             `requirements.txt`",
            "Package manager that installs `dependency`.",
        ),
        optional(
            "revision",
            Shape::Text,
            "the directory as it is",
            "A tag, branch or commit of the git repository that contains `directory`; the copy is made of this \
             revision, without uncommitted changes.",
        ),
    ]],
);

/// `replace = { ... }`.
pub(crate) static REPLACE: TableShape = table(
    "replace",
    "Replaces one piece of text in a file with another.",
    &[&[
        required("file", Shape::Text, "Path of the file in the copy."),
        required("find", Shape::Plain, "Text to find, literally."),
        required("with", Shape::Plain, "Text that replaces what was found."),
        optional(
            "count",
            Shape::Whole(1, 1_000_000),
            "1",
            "How often the text must be found; another number is an error.",
        ),
    ]],
);

/// `[subject]`.
pub(crate) static SUBJECT: TableShape = table(
    "subject",
    "What a variant measures, where the file has more than one store or program.",
    &[&[
        optional(
            "use",
            Shape::Any,
            "the other keys of this table",
            "A table with keys of `[subject]`, usually the level of a factor: `use = \"{subject}\"`.",
        ),
        optional("program", Shape::Text, "the only one", "The name of a `[program.NAME]`."),
        optional("store", Shape::Table(&STORE), "`[store]`", "Keys in addition to those of `[store]`."),
        optional(
            "change",
            Shape::Either(&[Shape::Table(&CHANGE), Shape::List(&Shape::Table(&CHANGE))]),
            "none",
            "Changes to the program, applied after its own `change`.",
        ),
    ]],
);

/// `[[phase]]` in a file with programs.
pub(crate) static PROGRAM_PHASE: TableShape = table(
    "phase of a program",
    "A part of a program's execution, from one event to another. An action in the same table is for variants \
          that measure a store.",
    &[&FRAME, &OBSERVED, &OPTIONAL_ACTIONS, &super::phase::BESIDE],
);

static OBSERVED: [Field; 7] = [
    optional("begin", Shape::Table(&BEGIN), "the start of the program", "Event that begins the phase."),
    optional("end", Shape::Table(&END), "the end of the program", "Event that ends the phase."),
    optional(
        "mark",
        Shape::Text,
        "the phase's name, if the phase has no `begin`, `end` or `read`",
        "The name of the marks that begin and end the phase: `prony mark NAME begin`, `prony mark NAME end`.",
    ),
    optional(
        "call",
        Shape::Text,
        "none",
        "A function whose invocations form the phase, from the begin of the first to the end of the last. Node: \
         `FILE#EXPORT`, where FILE is the end of a path that only one file has, a whole path from the program's \
         directory (`./FILE`), or a package. Python: `PACKAGE.MODULE:FUNCTION`.",
    ),
    optional(
        "at_end",
        Shape::Table(&AT_END),
        "the program continues",
        "Actions to run while the program is suspended at the end of each invocation of `call`, or of the invocation \
         that is the phase's `end`; then its memory is read. Another phase that is running at that time has no \
         measurements.",
    ),
    optional(
        "read",
        Shape::Plain,
        "nothing",
        "A pattern whose named groups become readings: `(?<time>[0-9.]+)s - (?<operations>[0-9]+)`. The name of a \
         group is that of a metric, with underscores for full stops, and then a unit if the text has another one than \
         the metric: `time_ms`. The group `digest` is text that stands for what the program answered: variants that \
         are compared must agree on it, and on `rows`. The last line of the phase that matches counts. If marks or \
         calls bound the phase, no line may match the `read` of another phase too.",
    ),
    optional(
        "then",
        Shape::Word(&[("stop", "the program is ended")]),
        "the program continues",
        "What happens when the phase has ended; with `call`, when the first invocation has ended.",
    ),
];

/// The keys of an observed phase that no store's phase has.
pub(crate) fn observed_keys() -> impl Iterator<Item = &'static str> {
    OBSERVED.iter().map(|field| field.name)
}

static OPTIONAL_ACTIONS: [Field; ACTIONS.len()] = optional_actions();

const fn optional_actions() -> [Field; ACTIONS.len()] {
    let mut fields = ACTIONS;
    let mut at = 0;
    while at < fields.len() {
        fields[at].need = Need::Optional("variants that measure a store run without this phase");
        at += 1;
    }
    fields
}

/// `at_end = { ... }`.
pub(crate) static AT_END: TableShape = table(
    "at_end",
    "Actions to run while the program is suspended at the end of the function call that ends the phase. The \
          suspension is not included in any measurement.",
    &[&[
        optional(
            "collect",
            Shape::Flag,
            "false",
            "Forces a full garbage collection; the heap before the collection is recorded too.",
        ),
        optional(
            "weak",
            Shape::Word(&Weak::WORDS),
            "\"turn\"; \"clear\" with `then = \"stop\"`",
            "When `collect` frees objects that only weak references of JavaScript hold; JavaScript keeps these \
             objects until the current job ends. A program that continues after `clear` may find a weak reference \
             empty that it has just read.",
        ),
        optional("wait", Shape::Time, "no wait", "Time to wait before memory is read."),
        optional(
            "settle",
            Shape::Table(&SETTLE),
            "no wait",
            "Waits until the process tree is quiet before memory is read.",
        ),
    ]],
);

/// Events that begin a phase or end one.
static EVENTS: [Field; 3] = [
    action(
        "line",
        Shape::Plain,
        "A line of the program's output or messages that this pattern (a regular expression) matches.",
    ),
    action(
        "mark",
        Shape::Text,
        "A mark of this name: for a begin `prony mark NAME begin`, for an end `prony mark NAME end`.",
    ),
    action("replicas", Shape::Word(&[("ended", "the last replica has ended")]), "An event of the program's replicas."),
];

/// `begin = { ... }`.
pub(crate) static BEGIN: TableShape = table(
    "begin",
    "What begins a phase of a program.",
    &[
        &EVENTS,
        &[
            action(
                "call",
                Shape::Text,
                "The begin of the first invocation of this function, which is written as in `call` of a phase.",
            ),
            action(
                "after",
                Shape::Text,
                "The end of the phase with this name, which must come earlier in the file. A phase with `call` ends \
                 here the first time that none of its invocations is running.",
            ),
        ],
    ],
);

/// `end = { ... }`.
pub(crate) static END: TableShape = table(
    "end",
    "What ends a phase of a program.",
    &[
        &EVENTS,
        &[
            action(
                "call",
                Shape::Text,
                "The first end of an invocation of this function after the phase's begin; `at_end` suspends the \
                 program there.",
            ),
            action(
                "settle",
                Shape::Table(&SETTLE),
                "The process tree has been quiet for a while. `settle.time` and `time` end at the last activity; \
                 `wall` includes the quiet time.",
            ),
        ],
    ],
);
