//! Declares the requests of a phase.

use super::repeat::{ARRIVALS, ORDER, PROCESSORS};
use crate::shape::{Field, Shape, TableShape, action, optional, required, table};

const METHOD: Field = optional("method", Shape::Text, "`GET`; `POST` with a body", "The method.");

static BODIES: [Shape; 2] = [Shape::Request, Shape::Table(&BODY)];

const REQUEST_BODY: Field =
    optional("body", Shape::Either(&BODIES), "no body", "The body: a text, or a file as `{ file = \"...\" }`.");

const JSON: Field = optional(
    "json",
    Shape::Word(&[("{doc}", "the document of the record")]),
    "no body",
    "The body as JSON, with the header field `content-type: application/json`.",
);

static VALUE: Shape = Shape::Either(&VALUES);
static VALUES: [Shape; 2] = [Shape::Word(&[("body", "the whole body")]), Shape::Table(&SAVE)];

const ANSWER_OF: Field = optional(
    "answer",
    Shape::Table(&ANSWER),
    "answers are counted by their status only",
    "What is read of the bodies of expected answers, so that a server which answers faster with less is found.",
);

const EXPECT: Field = optional(
    "expect",
    Shape::Either(&[Shape::Whole(200, 999), Shape::List(&Shape::Whole(200, 999))]),
    "200 to 399; for one kind of request: the `expect` of the phase",
    "The statuses of answers that are no errors.",
);

const SAVE_OF: Field = optional(
    "save",
    Shape::Map(&VALUE),
    "nothing",
    "Values of expected answers, by the name under which later phases, and later requests of the session, use them: `{saved.NAME}`.",
);

/// One of `mix` or `session`.
pub(crate) static REQUEST_KIND: TableShape = table(
    "kind of request",
    "A kind of request.",
    &[&[
        optional(
            "weight",
            Shape::Between(1e-6, 1e9),
            "1",
            "How often it is sent in a `mix`, beside the weights of the others.",
        ),
        METHOD,
        required("path", Shape::Request, "Path and query, such as `/schools/{i}`."),
        optional("headers", Shape::Map(&Shape::Request), "none", "Header fields beside those of all kinds."),
        REQUEST_BODY,
        JSON,
        EXPECT,
        ANSWER_OF,
        SAVE_OF,
    ]],
);

/// `http = { ... }`.
pub(crate) static HTTP: TableShape = table(
    "http",
    "Requests to one server. In `path`, `headers` and `body`, `{i}` is the number of the record or, where the file \
          has no `[data]`, of the request; `{doc.FIELD}` is a field of the record's document, and `{saved.NAME}` a \
          value that an earlier phase or an earlier request of the session saved. In `path` they are percent-encoded, unless they \
          begin the path or the query, or are saved values that begin with `/` and go on with the path.",
    &[&[
        action("service", Shape::Text, "The name of the service that gets the requests."),
        action("url", Shape::Text, "The server, if it is none of the file's services: `http://127.0.0.1:8080`."),
        optional("instance", Shape::Whole(1, 64), "1", "Which instance of the service gets the requests."),
        METHOD,
        optional(
            "path",
            Shape::Request,
            "required without `mix` or `session`",
            "Path and query, such as `/schools/{i}`.",
        ),
        optional(
            "mix",
            Shape::Map(&Shape::Table(&REQUEST_KIND)),
            "all requests are of one kind",
            "Kinds of requests by name, in place of `path`, `method`, `body` and `json`. Of each request the kind is drawn at random by \
             the weights. `PHASE.kind.NAME.rate` and other metrics are those of one kind.",
        ),
        optional(
            "session",
            Shape::Map(&Shape::Table(&REQUEST_KIND)),
            "all requests are of one kind",
            "The requests of a session by name, in place of `path`, `method`, `body` and `json`. Each connection is a user who sends them one \
             after the other, as they are written, and begins again. All requests of a session work on the same record. A request may use what \
             an earlier one of its session saved, and is not sent if an earlier one failed.",
        ),
        optional("headers", Shape::Map(&Shape::Request), "none", "Header fields."),
        REQUEST_BODY,
        JSON,
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
            "one for each record",
            "How many requests, those of the warm-up not counted. A file without `[data]` needs `requests` or `duration` in a timed phase; in an untimed one the default is 1.",
        ),
        optional("duration", Shape::Span, "`requests`", "Sends as many requests as fit into this time."),
        optional(
            "connections",
            Shape::Whole(1, 60_000),
            "1; with `rate` 100",
            "Connections, at most. With `rate` they are opened when they are needed.",
        ),
        optional("threads", Shape::Whole(1, 1024), "1", "Threads of the load generator."),
        PROCESSORS,
        optional(
            "rate",
            Shape::Either(&[Shape::Rate, Shape::Table(&REQUEST_RATE)]),
            "closed loop",
            "Open loop: requests start at this rate, or at rates that follow one another.",
        ),
        optional(
            "think",
            Shape::Span,
            "none",
            "Closed loop: how long a connection waits on average between an answer and its next request, as a user does who reads. The \
             times are exponential, so that connections do not send in step.",
        ),
        optional(
            "warm_up",
            Shape::Span,
            "none",
            "Requests that start so soon after the begin are in no result, but the rate counts the part of an answer that comes after it.",
        ),
        optional(
            "timeout",
            Shape::Span,
            "10 s",
            "An attempt without a whole answer so long after its start has failed; the first one starts when its request was \
             intended to.",
        ),
        optional(
            "retry",
            Shape::Table(&RETRY),
            "nothing is repeated",
            "Which failed attempts of a request are repeated. A request is counted once, by its last attempt, and its latency \
             ends with that.",
        ),
        EXPECT,
        ANSWER_OF,
        SAVE_OF,
        optional(
            "other_machines",
            Shape::Flag,
            "false",
            "`true` allows requests to a server that is not on this machine.",
        ),
        optional(
            "writes",
            Shape::Flag,
            "`false` if all methods are GET, HEAD, OPTIONS or TRACE",
            "Whether requests may change what the server stores: `false` for a POST that only searches. Phases after one that may are \
             not compared if other numbers of its requests succeeded.",
        ),
    ]],
);

/// `rate = { ... }` of requests.
pub(crate) static REQUEST_RATE: TableShape = table(
    "rate of requests",
    "The schedule of an open loop of requests. `ramp` and `steps` say how long the requests last.",
    &[&[
        action("rate", Shape::Rate, "Requests per second over all connections."),
        action(
            "ramp",
            Shape::Table(&RAMP),
            "A rate that rises or falls evenly; results are given for each tenth of its time.",
        ),
        action(
            "steps",
            Shape::List(&Shape::Table(&RATE_STEP)),
            "Rates one after another, at most 100, each with results of its own.",
        ),
        ARRIVALS,
    ]],
);

/// `ramp = { ... }`.
pub(crate) static RAMP: TableShape = table(
    "ramp",
    "A rate that rises or falls evenly.",
    &[&[
        required("from", Shape::Rate, "The rate at its begin."),
        required("to", Shape::Rate, "The rate at its end."),
        required("over", Shape::Span, "How long it lasts."),
    ]],
);

/// One of `steps`.
pub(crate) static RATE_STEP: TableShape = table(
    "steps",
    "A rate that is kept for a time.",
    &[&[
        required("rate", Shape::Rate, "Requests per second over all connections."),
        required("for", Shape::Span, "How long it lasts."),
    ]],
);

/// `body = { ... }`.
pub(crate) static BODY: TableShape = table(
    "body",
    "A body from a file.",
    &[&[
        required("file", Shape::Text, "The file; a relative path starts at the folder of this file."),
        optional(
            "fill",
            Shape::Map(&Shape::Request),
            "the file as it is",
            "Texts in the file that are replaced in each request: `fill = { CHANGESET = \"{saved.changeset}\" }`.",
        ),
    ]],
);

/// `retry = { ... }`.
pub(crate) static RETRY: TableShape = table(
    "retry",
    "Which failed attempts of a request are repeated.",
    &[&[
        required(
            "on",
            Shape::List(&Shape::Either(&[
                Shape::Whole(200, 999),
                Shape::Word(&[
                    ("timeout", "no whole answer within `timeout` of the attempt's start"),
                    ("connection", "the connection was refused or reset, or closed before a whole answer"),
                ]),
            ])),
            "What an attempt ends in that is repeated: statuses of answers, `\"timeout\"`, `\"connection\"`.",
        ),
        required("times", Shape::Whole(1, 1_000), "Attempts after the first, at most."),
        optional("wait", Shape::Time, "none", "The time between the end of an attempt and the begin of the next."),
    ]],
);

/// `save = { NAME = { ... } }`.
pub(crate) static SAVE: TableShape = table(
    "save",
    "Where in an answer a value is found.",
    &[&[
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
);

/// `answer = { ... }`.
pub(crate) static ANSWER: TableShape = table(
    "answer",
    "What is read of the bodies of expected answers, up to 16 MiB each.",
    &[&[
        optional(
            "match",
            Shape::Plain,
            "any body is right",
            "A request whose answer's body this regular expression does not match is an error, `wrong answer`.",
        ),
        optional(
            "rows",
            Shape::Plain,
            "none are counted",
            "The rows of an answer: the number that the group of this regular expression matches, or without a group how \
             often it matches. `PHASE.rows` is their sum over all requests.",
        ),
        optional(
            "digest",
            Shape::Flag,
            "false",
            "`true` compares the bodies of answers to the same requests between trials and variants, by a digest.",
        ),
        optional(
            "without",
            Shape::List(&Shape::Plain),
            "nothing",
            "What these regular expressions match is removed from bodies before they are digested, such as random ids.",
        ),
        optional(
            "any",
            Shape::Flag,
            "false",
            "`true` says that any body is right: variants whose answers have other lengths are compared, such as \
             compressed ones and others.",
        ),
    ]],
);
