//! Declares `[[service]]`.

use super::program::{COMMAND_DOC, EXECUTED};
use super::repeat::PROCESSORS;
use super::{COMMAND_SHAPE, CONFINED};
use crate::shape::{Field, Shape, TableShape, action, optional, required, table};
use prony_model::service::SetUp;

/// `[[service]]`.
pub(crate) static SERVICE: TableShape = table(
    "service",
    "A server that runs beside the phases of a trial: started and ready before the first phase, ended after the \
          last.",
    &[&OWN, &EXECUTED],
);

static OWN: [Field; 13] = [
    required(
        "name",
        Shape::Text,
        "Its name in metrics, such as `upload.api.cpu`: letters, digits, `-` and `_`. In its texts `{port}` is a free \
         port of this machine, `{data}` a directory of the trial's own, empty unless `data` says otherwise, `{service.NAME.port}`, \
         `{service.NAME.url}` and `{service.NAME.data}` those of any service, and `{service.NAME.2.port}` those of its \
         second instance.",
    ),
    action("command", COMMAND_SHAPE, COMMAND_DOC),
    action(
        "url",
        Shape::Text,
        "Where a server answers that runs already, on this machine: `http://127.0.0.1:8080`. prony neither starts nor ends \
         it, and observes it as `observe` says.",
    ),
    optional(
        "observe",
        Shape::Table(&OBSERVED),
        "required with `url`",
        "Which processes are those of the server at `url`.",
    ),
    optional(
        "count",
        Shape::Whole(1, 64),
        "1",
        "How many instances run, each with its own port and data; `{instance}` is the number: 1, 2, ...",
    ),
    optional(
        "after",
        Shape::List(&Shape::Text),
        "none",
        "Names of the services that must be ready before this one is started.",
    ),
    optional(
        "ready",
        Shape::Table(&READY),
        "it accepts connections on `{port}`; without `{port}`, it is running",
        "When an instance is ready.",
    ),
    optional("data", Shape::Table(&INITIAL_DATA), "an empty directory", "What `{data}` holds when a trial begins."),
    optional(
        "setup",
        COMMAND_SHAPE,
        "none",
        "Command that runs once in each trial, or as `data` says, when all instances are ready, untimed; a text runs with \
         `sh -c`.",
    ),
    optional(
        "limits",
        Shape::Table(&SERVICE_LIMITS),
        "no limits",
        "Limits on the process tree of each instance, which has a control group of its own.",
    ),
    PROCESSORS,
    optional(
        "counters",
        Shape::Table(&COUNTERS),
        "none",
        "Numbers that the server counts itself, such as `insert.NAME.xact_commit`: read before and after each phase, those \
         at an instant also once a second.",
    ),
    optional(
        "user",
        Shape::Text,
        "the user that runs prony",
        "The user that `command`, `prepare`, `ready`, `setup` and a `command` of `counters` run as where prony runs as \
         root; of any other user the key has no effect. `{data}` belongs to this user.",
    ),
];

/// `observe = { ... }`.
pub(crate) static OBSERVED: TableShape = table(
    "observed server",
    "The processes of a server that prony did not start.",
    &[&[
        action("pid", Shape::Whole(1, 4_194_304), "The process with this number, and its descendants."),
        action("pid_file", Shape::Text, "The process whose number is in this file, and its descendants."),
        action(
            "cgroup",
            Shape::Text,
            "The processes in the control group with this directory, such as \
             `/sys/fs/cgroup/system.slice/redis-server.service`, and their descendants.",
        ),
        action(
            "container",
            Shape::Text,
            "The processes of the container with this name or identifier, which `docker inspect` or `podman inspect` finds.",
        ),
    ]],
);

/// `counters = { ... }`.
pub(crate) static COUNTERS: TableShape = table(
    "counters",
    "Where the numbers that a service counts itself are read, and which of them.",
    &[&[
        action(
            "postgresql",
            Shape::Text,
            "Connection parameters or URL of the database that is observed: `host=127.0.0.1 port={port} user=app dbname=app`.",
        ),
        action(
            "redis",
            Shape::Text,
            "Address at which `INFO` is asked for, also of Valkey: `127.0.0.1:{port}`, or `redis://USER:PASSWORD@127.0.0.1:{port}`.",
        ),
        action(
            "mongodb",
            Shape::Text,
            "Address at which `serverStatus` is asked for: `127.0.0.1:{port}`, or \
             `mongodb://USER:PASSWORD@127.0.0.1:{port}/?authSource=admin`.",
        ),
        action(
            "prometheus",
            Shape::Text,
            "URL of a page in the text format of Prometheus: `http://127.0.0.1:{port}/metrics`. Values of one name with \
             different labels are added up. The server counts prony's request if it counts those of this path.",
        ),
        action(
            "command",
            COMMAND_SHAPE,
            "Command that prints lines `name value` and ends within 5 s; a text runs with `sh -c`. The server counts what it \
             asks of it.",
        ),
        optional(
            "totals",
            Shape::List(&Shape::Plain),
            "of PostgreSQL and MongoDB all, of Redis the usual ones, otherwise none",
            "Names of numbers that only grow. Their metric `phase.SERVICE.NAME` is the difference over the phase. A phase \
             with `warm_up` has none.",
        ),
        optional(
            "gauges",
            Shape::List(&Shape::Plain),
            "of PostgreSQL and MongoDB all, of Redis the usual ones, otherwise none",
            "Names of numbers at an instant. Their metrics are `phase.SERVICE.NAME.mean`, `.max`, `.min` and `.end`.",
        ),
        optional(
            "operations",
            Shape::Plain,
            "of PostgreSQL `statements`, of Redis `total_commands_processed`, of MongoDB `opcounters`, otherwise none",
            "The total that is also `phase.SERVICE.operations`, and with it `phase.SERVICE.operations.per.ok`.",
        ),
    ]],
);

/// `data = { ... }`.
pub(crate) static INITIAL_DATA: TableShape = table(
    "initial data of a service",
    "What the data directory of each instance holds when a trial begins.",
    &[&[
        optional(
            "from",
            Shape::Text,
            "nothing",
            "A directory, which is copied for each instance and trial, untimed, and is only read; a relative path starts at the \
             folder of this file. The copy is on the disk, and not in the page cache, when `prepare` or the service begins. \
             Nothing may write to the directory during a run. It contains no symbolic link that leads out, no socket, FIFO or \
             device.",
        ),
        optional("setup", Shape::Word(&SetUp::WORDS), "`\"each\"`", "How often `prepare` and `setup` run."),
    ]],
);

/// `[service.limits]`.
pub(crate) static SERVICE_LIMITS: TableShape = table("limits of a service", "Limits of each instance.", &[&CONFINED]);

/// `ready = { ... }`.
pub(crate) static READY: TableShape = table(
    "ready",
    "What shows that an instance of a service is ready.",
    &[&[
        optional(
            "http",
            Shape::Text,
            "no request",
            "It answers `GET` of this path on `{port}` with status 200 to 399.",
        ),
        optional("tcp", Shape::Text, "no connection", "It accepts connections at this address: `127.0.0.1:{port}`."),
        optional("line", Shape::Plain, "no line", "A line of its output or messages matches this regular expression."),
        optional(
            "command",
            COMMAND_SHAPE,
            "no command",
            "This command, which is repeated, ends with exit code 0; a text runs with `sh -c`.",
        ),
        optional("within", Shape::Span, "30 s", "How long it may take; after that the trial has failed."),
    ]],
);
