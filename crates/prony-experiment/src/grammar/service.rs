//! Declares `[[service]]`.

use super::program::EXECUTED;
use super::{COMMAND_SHAPE, CONFINED};
use crate::shape::{Field, Shape, TableShape, optional, required, table};

/// `[[service]]`.
pub(crate) static SERVICE: TableShape = table(
    "service",
    "A server that runs beside the phases of a trial: started and ready before the first phase, ended after the \
          last.",
    &[&OWN, &EXECUTED],
);

static OWN: [Field; 6] = [
    required(
        "name",
        Shape::Text,
        "Its name in metrics, such as `upload.api.cpu`: letters, digits, `-` and `_`. In its texts `{port}` is a free \
         port of this machine, `{data}` an empty directory of the trial's own, `{service.NAME.port}`, \
         `{service.NAME.url}` and `{service.NAME.data}` those of any service, and `{service.NAME.2.port}` those of its \
         second instance.",
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
    optional(
        "setup",
        COMMAND_SHAPE,
        "none",
        "Command that runs once in each trial when all instances are ready, untimed; a text runs with `sh -c`.",
    ),
    optional(
        "limits",
        Shape::Table(&SERVICE_LIMITS),
        "no limits",
        "Limits on the process tree of each instance, which has a control group of its own.",
    ),
];

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
