//! Declares `[[service]]` and the requests of a phase.

use super::CONFINED;
use super::phase::{ORDER, RATE_KEY};
use super::program::{COMMAND_SHAPE, EXECUTED};
use crate::shape::{Field, Shape, TableShape, action, optional, required};

/// `[[service]]`.
pub(crate) static SERVICE: TableShape = TableShape {
    name: "service",
    doc: "A server that runs beside the phases of a trial: started and ready before the first phase, ended after the \
          last.",
    fields: &[&OWN, &EXECUTED],
    rest: None,
};

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
pub(crate) static SERVICE_LIMITS: TableShape =
    TableShape { name: "limits of a service", doc: "Limits of each instance.", fields: &[&CONFINED], rest: None };

/// `ready = { ... }`.
pub(crate) static READY: TableShape = TableShape {
    name: "ready",
    doc: "What shows that an instance of a service is ready.",
    fields: &[&[
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
    rest: None,
};

/// `http = { ... }`.
pub(crate) static HTTP: TableShape = TableShape {
    name: "http",
    doc: "Requests to one server. In `path`, `headers` and `body`, `{i}` is the number of the record or, where the file \
          has no `[data]`, of the request; `{doc.FIELD}` is a field of the record's document, and `{saved.NAME}` a \
          value that an earlier phase saved.",
    fields: &[&[
        action("service", Shape::Text, "The name of the service that gets the requests."),
        action("url", Shape::Text, "The server, if it is none of the file's services: `http://127.0.0.1:8080`."),
        optional("instance", Shape::Whole(1, 64), "1", "Which instance of the service gets the requests."),
        optional("method", Shape::Text, "`GET`; `POST` with a body", "The method."),
        required("path", Shape::Request, "Path and query, such as `/schools/{i}`."),
        optional("headers", Shape::Map(&Shape::Request), "none", "Header fields."),
        optional(
            "body",
            Shape::Either(&[Shape::Request, Shape::Table(&BODY)]),
            "no body",
            "The body: a text, or a file as `{ file = \"...\" }`.",
        ),
        optional(
            "json",
            Shape::Word(&[("{doc}", "the document of the record")]),
            "no body",
            "The body as JSON, with the header field `content-type: application/json`.",
        ),
        optional(
            "collection",
            Shape::Text,
            "the only one",
            "The collection of the records, where `[data]` has several.",
        ),
        ORDER,
        optional(
            "requests",
            Shape::Whole(1, i64::MAX as u64),
            "one for each record; 1 where the file has no `[data]`",
            "How many requests, those of the warm-up not counted.",
        ),
        optional("duration", Shape::Span, "`requests`", "Sends as many requests as fit into this time."),
        optional("connections", Shape::Whole(1, 60_000), "1", "Connections, at most."),
        optional("threads", Shape::Whole(1, 1024), "1", "Threads of the load generator."),
        RATE_KEY,
        optional("warm_up", Shape::Span, "none", "Requests that start so soon after the begin are in no result."),
        optional(
            "timeout",
            Shape::Span,
            "10 s",
            "A request without a whole answer so long after its intended start has failed.",
        ),
        optional(
            "expect",
            Shape::Either(&[Shape::Whole(200, 999), Shape::List(&Shape::Whole(200, 999))]),
            "200 to 399",
            "The statuses of answers that are no errors.",
        ),
        optional(
            "save",
            Shape::Map(&Shape::Either(&[Shape::Word(&[("body", "the whole body")]), Shape::Table(&SAVE)])),
            "nothing",
            "Values of answers, by the name under which later phases use them: `{saved.NAME}`.",
        ),
        optional(
            "other_machines",
            Shape::Flag,
            "false",
            "`true` allows requests to a server that is not on this machine.",
        ),
    ]],
    rest: None,
};

/// `body = { ... }`.
pub(crate) static BODY: TableShape = TableShape {
    name: "body",
    doc: "A body from a file.",
    fields: &[&[
        required("file", Shape::Text, "The file; a relative path starts at the folder of this file."),
        optional(
            "fill",
            Shape::Map(&Shape::Request),
            "the file as it is",
            "Texts in the file that are replaced in each request: `fill = { CHANGESET = \"{saved.changeset}\" }`.",
        ),
    ]],
    rest: None,
};

/// `save = { NAME = { ... } }`.
pub(crate) static SAVE: TableShape = TableShape {
    name: "save",
    doc: "Where in an answer a value is found.",
    fields: &[&[
        action("header", Shape::Text, "The header field of this name."),
        action("json", Shape::Plain, "What this JSON pointer (RFC 6901) names in the body: `/id`."),
        action("pattern", Shape::Plain, "What the first group of this regular expression matches in the body."),
        action("body", Shape::Word(&[("whole", "the whole body")]), "The body, without blanks at its ends."),
        optional(
            "each",
            Shape::Flag,
            "false",
            "`true` saves a value of each answer; requests that use them choose by their `order`.",
        ),
    ]],
    rest: None,
};
