//! The specification of a load of HTTP requests.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::document::FieldPath;
use crate::number::{count, percent_with};
use crate::order::{Arrivals, Order, RateStep};
use crate::units::{Nanos, PerSecond};

/// Connections of an open loop, at most, where none are asked for: slow answers need more of them than a closed loop has.
pub const OPEN_CONNECTIONS: u32 = 100;

/// Steps and kinds of requests of all threads, at most: each thread has a histogram of each, of 0.3 MB.
pub const MOST_PARTS: usize = 1_000;

/// That there are more of them, in words, and what to do.
pub fn too_many_parts(threads: u32, steps: usize, kinds: usize) -> Option<(String, String)> {
    let parts = steps + kinds;
    let message = || {
        format!(
            "{} have a histogram of each of {parts} steps and kinds of requests: these are more than {MOST_PARTS} of 0.3 MB",
            count(u64::from(threads), "thread")
        )
    };
    let hint = || format!("use {} at most", count((MOST_PARTS / parts).max(1) as u64, "thread"));
    (threads > 1 && threads as usize * parts > MOST_PARTS).then(|| (message(), hint()))
}

/// The share of the requests of an open loop from which on it is reported that they waited for a connection: a pause makes some wait.
pub const WAITED: f64 = 0.01;

/// That so many of all requests of an open loop waited, since all of its connections were in use, in words.
pub fn connections_in_use(waited: f64, all: f64, connections: u32) -> String {
    let share = waited / all;
    format!(
        "{} of {} waited for a connection, since all were in use: latencies and rates are those over at most {}",
        percent_with(share, usize::from(share < 0.1)),
        count(all, "request"),
        count(f64::from(connections), "connection")
    )
}

/// Requests to one server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HttpSpec {
    /// Scheme and authority, `http://127.0.0.1:8080`; [`crate::service::hole`] stands for what is known in a trial only.
    pub server: String,
    /// The kinds of its requests, of which there is at least one.
    pub kinds: Vec<RequestKind>,
    /// Whether the kinds are the requests of a session: a connection sends them one after the other, and begins again. Otherwise
    /// each request is of one kind, drawn by the weights.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub session: bool,
    /// Connections; in a closed loop each sends one request after another.
    pub connections: u32,
    /// Threads of the load generator.
    pub threads: u32,
    /// The processors on which these may run; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processors: Vec<u32>,
    /// Open loop at this rate over all connections; `None` is closed loop.
    pub rate: Option<RequestRate>,
    /// Closed loop: the mean of the exponential times between an answer and the next request of its connection; zero for none.
    #[serde(default)]
    pub think: Nanos,
    /// What ends it.
    pub amount: HttpAmount,
    /// Requests that start so soon after the begin are in no figure.
    pub warm_up: Nanos,
    /// A request that has no whole answer so long after its intended start has failed.
    pub timeout: Nanos,
    /// Which attempts are repeated; `None` for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetrySpec>,
    /// Which record or saved value a request works on.
    pub order: Order,
    /// The collection whose documents requests send, where it has a name.
    pub collection: Option<String>,
    /// Whether the server may be on another machine.
    pub other_machines: bool,
    /// Whether requests may change what the server stores; `None` where their methods say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writes: Option<bool>,
}

/// One kind of request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RequestKind {
    /// Its name in a mix or a session; `None` where all requests are of one kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How often it is sent, beside the weights of the others.
    pub weight: f64,
    /// Path and query, beginning with `/`.
    pub path: Template,
    /// The method.
    pub method: String,
    /// Names and values of header fields, in the order of the file.
    pub headers: Vec<(String, Template)>,
    /// The body; `None` for none.
    pub body: Option<BodySpec>,
    /// The statuses of answers that are no errors.
    #[serde(default, skip_serializing_if = "ExpectedStatuses::is_default")]
    pub expect: ExpectedStatuses,
    /// What is read of the bodies of expected answers; `None` for nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<AnswerSpec>,
    /// Values of such answers that later requests use, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub save: BTreeMap<String, SaveSpec>,
}

impl HttpSpec {
    /// Whether some of its requests may change what the server stores: unless the file says so, if they are not safe (RFC 9110,
    /// section 9.2.1).
    pub fn may_write(&self) -> bool {
        let safe = ["GET", "HEAD", "OPTIONS", "TRACE"];
        self.writes
            .unwrap_or_else(|| self.kinds.iter().any(|kind| !safe.contains(&kind.method.to_ascii_uppercase().as_str())))
    }

    /// Whether some of its requests use values that earlier phases saved.
    pub fn uses_saved(&self) -> bool {
        let texts = self.kinds.iter().flat_map(RequestKind::texts);
        texts.flat_map(|text| &text.0).any(|part| matches!(part, Part::Saved(_)))
    }

    /// Whether it begins with a warm-up, of whose requests no figure says how many succeeded.
    pub fn warms_up(&self) -> bool {
        self.warm_up > Nanos::ZERO
    }
}

impl RequestKind {
    /// Whether another kind sends the same requests, whatever it expects of the answers.
    pub fn sends_as(&self, other: &Self) -> bool {
        (&self.method, &self.path, &self.headers, &self.body)
            == (&other.method, &other.path, &other.headers, &other.body)
    }

    /// All its texts.
    pub fn texts(&self) -> impl Iterator<Item = &Template> {
        let of_body: Vec<&Template> = match &self.body {
            Some(BodySpec::Text(text)) => vec![text],
            Some(BodySpec::File { fill, .. }) => fill.values().collect(),
            Some(BodySpec::Document) | None => Vec::new(),
        };
        [&self.path].into_iter().chain(self.headers.iter().map(|(_, value)| value)).chain(of_body)
    }
}

/// The statuses of answers that are no errors; none are named for 200 to 399.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ExpectedStatuses(pub Vec<u16>);

impl ExpectedStatuses {
    /// Whether an answer with this status is no error.
    pub fn contains(&self, status: u16) -> bool {
        if self.is_default() { (200..400).contains(&status) } else { self.0.contains(&status) }
    }

    /// Whether they are 200 to 399, because none are named.
    pub const fn is_default(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for ExpectedStatuses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_default() {
            return f.write_str("200 to 399");
        }
        let texts: Vec<String> = self.0.iter().map(u16::to_string).collect();
        f.write_str(&texts.join(", "))
    }
}

/// The instance under which the metrics of a kind of request are named.
pub fn kind_instance(name: &str) -> String {
    format!("{KIND}{name}")
}

/// The name of the kind of request whose metrics an instance names.
pub fn kind_of(instance: &str) -> Option<&str> {
    instance.strip_prefix(KIND)
}

const KIND: &str = "kind.";

/// The error of requests that were not sent.
pub const NOT_SENT: &str = "not sent after an error in its session";

/// The schedule of an open loop of requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum RequestRate {
    /// The same rate all the time.
    Constant(Arrivals),
    /// Rates one after another, for the duration of the load.
    Steps(RateSteps),
}

/// Rates one after another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RateSteps {
    /// At least one.
    pub steps: Vec<RateStep>,
    /// Exponential gaps instead of equal ones.
    pub poisson: bool,
}

/// The instance under which the metrics of a step of a schedule are named; steps are numbered from 1.
pub fn step_instance(number: usize) -> String {
    format!("{STEP}{number}")
}

/// The number of the step whose metrics an instance names.
pub fn step_of(instance: &str) -> Option<u32> {
    instance.strip_prefix(STEP)?.parse().ok().filter(|number| *number > 0)
}

const STEP: &str = "step.";

/// Whether an instance names a part of the requests of a phase: a kind or a step.
pub fn is_of_requests(instance: &str) -> bool {
    instance.starts_with(KIND) || instance.starts_with(STEP)
}

/// Into how many steps a ramp is divided.
pub const PARTS_OF_RAMP: u32 = 10;

impl RateSteps {
    /// A rate that rises or falls evenly, in ten steps so that each has figures of its own.
    pub fn ramp(from: PerSecond, to: PerSecond, over: Nanos, poisson: bool) -> Self {
        let at = |part: u32| {
            let share = f64::from(part) / f64::from(PARTS_OF_RAMP);
            // Between two rates there is a rate.
            PerSecond::new(from.get() + (to.get() - from.get()) * share).unwrap_or(to)
        };
        let parts = 0..PARTS_OF_RAMP;
        let times = equal_times(over, PARTS_OF_RAMP);
        let steps = parts.zip(times).map(|(part, time)| RateStep { from: at(part), to: at(part + 1), time });
        Self { steps: steps.collect(), poisson }
    }

    /// Rates that are kept equally long, `over` this time together.
    pub fn equally_long(rates: &[PerSecond], over: Nanos, poisson: bool) -> Self {
        let times = equal_times(over, rates.len() as u32);
        let steps = rates.iter().zip(times).map(|(rate, time)| RateStep { from: *rate, to: *rate, time });
        Self { steps: steps.collect(), poisson }
    }

    /// How long they last together.
    pub fn time(&self) -> Nanos {
        self.steps.iter().fold(Nanos::ZERO, |sum, step| sum + step.time)
    }
}

/// Times that add up to `over` and differ by a nanosecond at most.
fn equal_times(over: Nanos, parts: u32) -> impl Iterator<Item = Nanos> {
    let end = move |part: u32| (u128::from(over.as_nanos()) * u128::from(part) / u128::from(parts.max(1))) as u64;
    (0..parts).map(move |part| Nanos::from_nanos(end(part + 1) - end(part)))
}

impl RequestRate {
    /// Whether gaps are exponential.
    pub const fn is_poisson(&self) -> bool {
        match self {
            Self::Constant(arrivals) => arrivals.poisson,
            Self::Steps(steps) => steps.poisson,
        }
    }

    /// The steps; none where the rate is always the same.
    pub fn steps(&self) -> &[RateStep] {
        match self {
            Self::Constant(_) => &[],
            Self::Steps(steps) => &steps.steps,
        }
    }

    /// The rate, on average over all steps; `None` where there is no step.
    pub fn mean(&self) -> Option<PerSecond> {
        match self {
            Self::Constant(arrivals) => Some(arrivals.rate),
            Self::Steps(steps) => {
                let operations: f64 = steps.steps.iter().map(RateStep::operations).sum();
                PerSecond::new(operations / steps.time().as_secs_f64())
            }
        }
    }
}

/// Which failed attempts of requests are repeated. A request has one or more attempts and is counted once, by its last one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetrySpec {
    /// Answers with these statuses.
    pub statuses: Vec<u16>,
    /// Attempts without a whole answer within the timeout.
    pub timeout: bool,
    /// Attempts whose connection was refused or reset, or closed before a whole answer.
    pub connection: bool,
    /// Attempts after the first, at most.
    pub times: u32,
    /// The time between the end of an attempt and the begin of the next.
    pub wait: Nanos,
}

/// What ends a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HttpAmount {
    /// So many requests, those of the warm-up not counted.
    Requests(u64),
    /// One request for each record of the collection.
    Records,
    /// So long after the warm-up.
    Duration(Nanos),
}

/// The body of a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BodySpec {
    /// A text.
    Text(Template),
    /// The document at hand as JSON.
    Document,
    /// A file, sent as it is except that texts in it are replaced.
    File {
        /// Its path.
        path: String,
        /// The texts to replace, with what replaces them.
        fill: BTreeMap<String, Template>,
    },
}

/// A text with values that differ between requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Template(pub Vec<Part>);

/// A part of such a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// The same in all requests.
    Text(String),
    /// `{i}`: the number of the record at hand, or of the request or session where the phase works on no records.
    Number,
    /// `{saved.NAME}`: a value that an earlier request of the session saved, or an earlier phase.
    Saved(String),
    /// `{doc.FIELD}`: a field of the document at hand, a text without quotation marks.
    Field(FieldPath),
}

/// What is read of the bodies of expected answers, as regular expressions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerSpec {
    /// An answer whose body this does not match is an error; `None` where any body is right.
    pub matches: Option<String>,
    /// Rows of an answer: the number that the group of this matches, or without a group how often it matches.
    pub rows: Option<String>,
    /// Whether bodies are digested, to be compared between variants.
    pub digest: bool,
    /// What is removed from bodies before they are digested.
    pub without: Vec<String>,
}

/// A value of an answer that later requests use as `{saved.NAME}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SaveSpec {
    /// Where it is found.
    pub from: SavedFrom,
    /// Whether one of each answer is saved, in a list from which later requests choose by their `order`; else there is one
    /// value, that of the answer which was received last.
    pub each: bool,
}

/// Where in an answer a value is found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SavedFrom {
    /// The whole body, without blanks at its ends.
    Body,
    /// The header field of this name.
    Header(String),
    /// What this JSON pointer (RFC 6901) names in the body; a text without its quotation marks.
    Json(String),
    /// What the first group of this pattern matches in the body.
    Pattern(String),
}
