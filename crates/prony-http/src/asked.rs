//! What a load is to do, as somebody asks for it.

use std::path::PathBuf;

use prony_model::http::{ExpectedStatuses, RequestRate, RetrySpec};
use prony_model::units::Nanos;

/// Who says when the next request starts.
#[derive(Clone, Debug, PartialEq)]
pub enum Loop {
    /// Each connection sends its next request when the answer to the one before is there.
    Closed,
    /// A schedule, whatever the server does.
    Open(RequestRate),
}

/// What ends a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// So many requests, those of the warm-up not counted.
    Requests(u64),
    /// So long after the warm-up.
    Duration(Nanos),
}

/// Which certificates of a server are accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Those signed by an authority that the system trusts.
    System,
    /// Those signed by an authority in this file, in PEM form.
    File(PathBuf),
    /// All, without a check.
    Anything,
}

/// A body as somebody asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AskedBody {
    /// These bytes; `{i}` in them is the number of the request.
    Bytes(Vec<u8>),
    /// The content of this file, with the same in it. It is read while it is sent, unless it is small.
    File(PathBuf),
}

impl From<Vec<u8>> for AskedBody {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes)
    }
}

/// A load as somebody asks for it.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The server and the path; `{i}` in the path is the number of the request.
    pub url: String,
    /// The method; without one `GET`, or `POST` where there is a body.
    pub method: Option<String>,
    /// Header fields: `Name: value`.
    pub headers: Vec<String>,
    /// The body.
    pub body: Option<AskedBody>,
    /// Connections at most.
    pub connections: u32,
    /// Threads, each with an event loop.
    pub threads: u32,
    /// The processors on which they may run; empty for all.
    pub processors: Vec<u32>,
    /// Closed or open loop.
    pub pace: Loop,
    /// Closed loop: the mean of the exponential times between an answer and the next request of its connection; zero for none.
    pub think: Nanos,
    /// What ends it.
    pub bound: Bound,
    /// No request starts on a thread after one of it that had no answer in time.
    pub until_timeout: bool,
    /// Requests that start so soon after the begin are in no figure.
    pub warm_up: Nanos,
    /// An attempt ends so long after its start at the latest, the first one so long after the intended start of its request.
    pub timeout: Nanos,
    /// Which attempts are repeated.
    pub retry: Option<RetrySpec>,
    /// The statuses of answers that are no errors.
    pub expect: ExpectedStatuses,
    /// An expected answer whose body this regular expression does not match is an error; `None` where any body is right.
    pub matches: Option<String>,
    /// Which certificates are accepted.
    pub trust: Trust,
    /// Seed of random arrivals and orders.
    pub seed: u64,
    /// The number of the first request.
    pub first: u64,
    /// Whether the server may be on another machine.
    pub other_machines: bool,
}

impl Asked {
    /// The usual load of a URL: 10 connections in a closed loop for 10 seconds.
    pub fn of(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            method: None,
            headers: Vec::new(),
            body: None,
            connections: 10,
            threads: 1,
            processors: Vec::new(),
            pace: Loop::Closed,
            think: Nanos::ZERO,
            bound: Bound::Duration(Nanos::from_secs(10)),
            until_timeout: false,
            warm_up: Nanos::ZERO,
            timeout: Nanos::from_secs(10),
            retry: None,
            expect: ExpectedStatuses::default(),
            matches: None,
            trust: Trust::System,
            seed: 1,
            first: 0,
            other_machines: false,
        }
    }
}
