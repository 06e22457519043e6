//! Declares `[program.NAME]`, `[subject]`, and the phases of a program.

use super::data::STORE;
use super::phase::{ACTIONS, FRAME, SETTLE};
use crate::shape::{Field, Need, Shape, TableShape, action, optional, required};

/// `[program.NAME]`.
pub(crate) static PROGRAM: TableShape = TableShape {
    name: "program",
    doc: "A command that is measured, unmodified, and everything it sees of the world.",
    fields: &[&[
        required(
            "command",
            COMMAND_SHAPE,
            "Program and arguments as a list; or as one text, which is cut into words as a shell does: quotes are respected, `#` begins a comment. \
             `{dir}` is the directory it works in, `{tmp}` its TMPDIR, `{env.NAME}` a variable as prony found it, which is recorded.",
        ),
        optional(
            "directory",
            Shape::Text,
            "an empty one",
            "The directory it works in; relative paths start at the file.",
        ),
        optional(
            "copy",
            Shape::Word(&[
                ("variant", "one copy of `directory` for each variant, which its trials share"),
                ("trial", "a new copy for each trial"),
                ("none", "it works in the directory itself, and what it writes there stays"),
            ]),
            "\"variant\"",
            "Which copy of `directory` it works in.",
        ),
        optional(
            "links",
            Shape::Word(&[
                (
                    "refuse",
                    "they refuse the run, since a step that writes through one would change what is not in the copy",
                ),
                (
                    "copy",
                    "what they lead to is copied in their place; what is not there, a device or a socket is left out",
                ),
                (
                    "keep",
                    "they lead to the same place from the copy, which the program can change; not with `change`, `build` or \
                     `prepare`",
                ),
            ]),
            "\"refuse\"",
            "What becomes of symbolic links in `directory` that lead out of it.",
        ),
        optional(
            "store",
            Shape::Text,
            "`disk`, `disk.length` and `cached` are missing",
            "The file or directory in which it keeps its data, from the directory it works in (`{dir}/data`), or in its \
             TMPDIR (`{tmp}/data`). Its size and its share of the page cache are read at the begins and ends of phases, \
             while the program runs on: name no large tree.",
        ),
        optional(
            "env",
            Shape::Map(&Shape::Scalar),
            "none",
            "Variables beside PATH, HOME, USER, LOGNAME, SHELL, LANG, LC_ALL, TERM and TZ, which it finds as prony does; \
             TMPDIR is a directory of the trial's own. No other variable is there.",
        ),
        optional(
            "inherit",
            Shape::List(&Shape::Plain),
            "none",
            "Names of further variables, taken over as prony finds them.",
        ),
        optional(
            "input",
            Shape::Either(&[Shape::Text, Shape::Table(&INPUT)]),
            "nothing to read",
            "The file it reads; `{ text = \"...\" }` is read as it stands.",
        ),
        optional(
            "output",
            Shape::Either(&[
                Shape::Word(&[
                    ("capture", "the first and last bytes are kept, of the rest its length"),
                    ("null", "it is thrown away, and the program may notice"),
                    ("inherit", "it goes where prony's own goes, and takes as long as that does"),
                ]),
                Shape::Table(&OUTPUT),
            ]),
            "\"capture\"",
            "What becomes of its output and messages; `{ file = \"...\" }` has what the last trial printed, and is no file \
             that the experiment reads or below a `directory` that is copied.",
        ),
        optional(
            "shell",
            Shape::Scalar,
            "false",
            "`true` gives `command`, one text, to `sh -c`; a name gives it to that shell. The shell is measured with it.",
        ),
        optional(
            "pty",
            Shape::Flag,
            "false",
            "A terminal for its output, where it would hold back what goes into a pipe.",
        ),
        optional(
            "runtime",
            Shape::Word(&[("node", "Node.js"), ("python", "CPython")]),
            "a plain process",
            "The language runtime: a probe in it reads its heap and times functions, and nothing of it is installed.",
        ),
        optional(
            "success",
            Shape::Either(&[Shape::Word(&[("any", "every exit code")]), Shape::List(&Shape::Whole(0, 255))]),
            "[0]",
            "Exit codes that are no failure.",
        ),
        optional("build", COMMAND_SHAPE, "none", "Done once a variant in its copy, untimed; a text goes to `sh -c`."),
        optional("prepare", COMMAND_SHAPE, "none", "Done before each trial, untimed; a text goes to `sh -c`."),
        optional(
            "conclude",
            COMMAND_SHAPE,
            "none",
            "Done after each trial, untimed, before what is left of its processes is ended; a text goes to `sh -c`.",
        ),
        optional(
            "cleanup",
            COMMAND_SHAPE,
            "none",
            "Done once a variant after its last trial, untimed; a text goes to `sh -c`.",
        ),
        optional(
            "warmup",
            Shape::Whole(0, 10_000),
            "0",
            "Runs before a variant's first trial; their figures are thrown away.",
        ),
        optional(
            "change",
            Shape::Either(&[Shape::Table(&CHANGE), Shape::List(&Shape::Table(&CHANGE))]),
            "none",
            "What is changed, variables of the program or files in the copy of its directory: a table, or several in order; usually a \
             factor's level.",
        ),
        optional(
            "replicas",
            Shape::Table(&REPLICAS),
            "none",
            "Further copies of the program, which start together when the phase that `phase` names begins.",
        ),
    ]],
    rest: None,
};

/// `[program.NAME.replicas]`.
pub(crate) static REPLICAS: TableShape = TableShape {
    name: "replicas",
    doc: "Further copies of a program: suspended from the trial's begin, released together when a phase begins, in the \
          program's directory and under its limits. Each has its own output, exit code and figures.",
    fields: &[&[
        required("count", Shape::Whole(0, 1_000), "How many there are; 0 is a level without any."),
        required("phase", Shape::Text, "The phase with whose begin they start; `run` where the file declares none."),
        optional(
            "env",
            Shape::Map(&Shape::Scalar),
            "the program's own",
            "Variables on top of the program's own. `{instance}` is the copy's number: 1, 2, ... The program has none.",
        ),
        optional(
            "command",
            COMMAND_SHAPE,
            "the program's own",
            "What each executes, as `command` of the program is written. `{instance}` is its number.",
        ),
        optional(
            "read",
            Shape::Plain,
            "the phase's own",
            "A pattern for each one's own output, as `read` of a phase; its memory is read when a line matches.",
        ),
    ]],
    rest: None,
};

/// A word may be a number, as factors are.
const COMMAND_SHAPE: Shape = Shape::Either(&[Shape::Text, Shape::List(&Shape::Scalar)]);

/// One text or several.
const TEXTS: Shape = Shape::Either(&[Shape::Text, Shape::List(&Shape::Text)]);

/// `input = { ... }`.
pub(crate) static INPUT: TableShape = TableShape {
    name: "input",
    doc: "What a program reads.",
    fields: &[&[action("file", Shape::Text, "This file."), action("text", Shape::Text, "This text.")]],
    rest: None,
};

/// `output = { ... }`.
pub(crate) static OUTPUT: TableShape = TableShape {
    name: "output",
    doc: "Where a program's output goes.",
    fields: &[&[required(
        "file",
        Shape::Text,
        "Standard output goes to this file, which is emptied before each trial; standard error is captured.",
    )]],
    rest: None,
};

/// `change = { ... }`.
pub(crate) static CHANGE: TableShape = TableShape {
    name: "change",
    doc: "A variant of the program. Each change must really change something.",
    fields: &[&[
        optional("env", Shape::Map(&Shape::Scalar), "none", "Variables, before those of the program."),
        optional(
            "replace",
            Shape::Either(&[Shape::Table(&REPLACE), Shape::List(&Shape::Table(&REPLACE))]),
            "none",
            "Texts of files that are replaced in the copy.",
        ),
        optional("patch", TEXTS, "none", "Files with patches for the copy, as `git diff` writes them."),
        optional(
            "dependency",
            TEXTS,
            "none",
            "Packages that are installed in the copy, as `lmdb@3.1.2`; the version that is there afterwards is recorded.",
        ),
        optional(
            "manager",
            Shape::Word(&[("npm", "into `node_modules`"), ("pip", "into a directory that stands first in PYTHONPATH")]),
            "npm where the copy has a `package.json`, pip where it has `pyproject.toml`, `setup.py` or `requirements.txt`",
            "Who installs `dependency`.",
        ),
        optional(
            "revision",
            Shape::Text,
            "the directory as it is",
            "A tag, branch or commit of the git repository that holds `directory`: the copy is that instead. What is not \
             committed is not in it.",
        ),
    ]],
    rest: None,
};

/// `replace = { ... }`.
pub(crate) static REPLACE: TableShape = TableShape {
    name: "replace",
    doc: "A text of a file that is replaced by another.",
    fields: &[&[
        required("file", Shape::Text, "The file, from the top of the copy."),
        required("find", Shape::Plain, "What is looked for, letter by letter."),
        required("with", Shape::Plain, "What stands there afterwards."),
        optional("count", Shape::Whole(1, 1_000_000), "1", "How often it must be found; another number is an error."),
    ]],
    rest: None,
};

/// `[subject]`.
pub(crate) static SUBJECT: TableShape = TableShape {
    name: "subject",
    doc: "What a variant measures, where the file has more than one store or program.",
    fields: &[&[
        optional(
            "use",
            Shape::Any,
            "the keys beside it",
            "A table with the keys of `[subject]`: a level of a factor, as `use = \"{subject}\"`.",
        ),
        optional("program", Shape::Text, "the only one", "The name of a `[program.NAME]`."),
        optional("store", Shape::Table(&STORE), "`[store]`", "Keys that join those of `[store]`."),
        optional(
            "change",
            Shape::Either(&[Shape::Table(&CHANGE), Shape::List(&Shape::Table(&CHANGE))]),
            "none",
            "What is changed in the program, after its own `change`.",
        ),
    ]],
    rest: None,
};

/// `[[phase]]` in a file with programs.
pub(crate) static PROGRAM_PHASE: TableShape = TableShape {
    name: "phase of a program",
    doc: "A part of a program, from one event to another. An action beside it is for variants that measure a store.",
    fields: &[&FRAME, &OBSERVED, &OPTIONAL_ACTIONS],
    rest: None,
};

static OBSERVED: [Field; 7] = [
    optional("begin", Shape::Table(&BEGIN), "the program's own begin", "What begins it."),
    optional("end", Shape::Table(&END), "the program's own end", "What ends it."),
    optional(
        "mark",
        Shape::Text,
        "the phase's name, where it has no `begin`, `end` or `read`",
        "The name of the marks that begin and end it: `prony mark NAME begin`, `prony mark NAME end`.",
    ),
    optional(
        "call",
        Shape::Text,
        "none",
        "A function whose invocations are the phase, from the first one's begin to the last one's end. Node: \
         `FILE#EXPORT`, the file by the end of its path, which one file alone may have, by its whole path from the \
         program's directory (`./FILE`), or a package. Python: `PACKAGE.MODULE:FUNCTION`.",
    ),
    optional(
        "at_end",
        Shape::Table(&AT_END),
        "it goes on",
        "What is done at the end of each invocation of `call`, or of the one that is the phase's `end`, while the program is \
         suspended; then its memory is read. Another phase that is under way at that time has no figures.",
    ),
    optional(
        "read",
        Shape::Plain,
        "nothing",
        "A pattern whose named groups become readings: `(?<time>[0-9.]+)s - (?<operations>[0-9]+)`. A group is named by \
         a metric, full stops as underscores, with a unit behind where it has another: `time_ms`. `digest` is text that \
         stands for what the program answered: variants that are compared must agree on it, and on `rows`. The last \
         line of the phase that matches counts. Where marks or calls bound the phase, no line may match the `read` of \
         another phase too.",
    ),
    optional(
        "then",
        Shape::Word(&[("stop", "the program is ended")]),
        "it goes on",
        "What happens when the phase has ended; with `call`, when the first invocation has.",
    ),
];

/// The keys of an observed phase that no store's phase has.
pub(crate) const OBSERVED_KEYS: [&str; 7] = ["begin", "end", "mark", "call", "at_end", "read", "then"];

static OPTIONAL_ACTIONS: [Field; ACTIONS.len()] = optional_actions();

const fn optional_actions() -> [Field; ACTIONS.len()] {
    let mut fields = ACTIONS;
    let mut at = 0;
    while at < fields.len() {
        fields[at].need = Need::Optional("it is left out where a store is measured");
        at += 1;
    }
    fields
}

/// `at_end = { ... }`.
pub(crate) static AT_END: TableShape = TableShape {
    name: "at_end",
    doc: "What is done while the program is suspended at the end of a call that ends the phase. This time is in no \
        figure.",
    fields: &[&[
        optional("collect", Shape::Flag, "false", "Forces a full collection; the heap before it is recorded too."),
        optional(
            "weak",
            Shape::Word(&[
                ("clear", "at once, though the program goes on"),
                ("turn", "at the next turn of the event loop, up to which the program goes on"),
            ]),
            "\"turn\"; \"clear\" with `then = \"stop\"`",
            "When `collect` frees what only weak references of JavaScript hold, which are kept until the current job ends. \
             A program that goes on after `clear` may find a reference empty that it has just seen filled.",
        ),
        optional("wait", Shape::Time, "nothing", "So much time passes before memory is read."),
        optional("settle", Shape::Table(&SETTLE), "nothing", "Memory is read when the process tree is quiet."),
    ]],
    rest: None,
};

/// Events that begin a phase or end one.
static EVENTS: [Field; 3] = [
    action("line", Shape::Plain, "A line of its output or messages that this pattern (a regular expression) matches."),
    action(
        "mark",
        Shape::Text,
        "A mark of this name: for a begin `prony mark NAME begin`, for an end `prony mark NAME end`.",
    ),
    action(
        "replicas",
        Shape::Word(&[("ended", "the last replica has ended")]),
        "What the program's replicas have come to.",
    ),
];

/// `begin = { ... }`.
pub(crate) static BEGIN: TableShape = TableShape {
    name: "begin",
    doc: "What begins a phase of a program.",
    fields: &[
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
                "The end of the phase of this name, which stands before this one in the file; of a `call` the first time \
                 that no invocation is under way any more.",
            ),
        ],
    ],
    rest: None,
};

/// `end = { ... }`.
pub(crate) static END: TableShape = TableShape {
    name: "end",
    doc: "What ends a phase of a program.",
    fields: &[
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
                "The process tree has been quiet for a while. `settle.time` and `time` are those to the last activity, \
                 without the quiet; `wall` has it.",
            ),
        ],
    ],
    rest: None,
};
