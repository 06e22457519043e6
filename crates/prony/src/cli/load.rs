//! `prony load`: sends HTTP requests to one server and prints how it answered.

use std::num::ParseIntError;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use prony_analysis::search::{GrowSettings, Range, Scale};
use prony_http::{Asked, AskedBody, Bound, Control, Destination, Load, Loop, Report, Trust};
use prony_model::error::message;
use prony_model::http::{ExpectedStatuses, OPEN_CONNECTIONS, RateSteps, RequestRate, RetrySpec};
use prony_model::number::count;
use prony_model::outcome::Outcome;
use prony_model::spec::Arrivals;
use prony_model::units::{
    Fraction, Nanos, PerSecond, QuantityError, parse_fraction, parse_rate, parse_span, parse_time,
};
use prony_os::clock::monotonic;
use prony_os::interrupt::Interrupt;
use prony_report::screen::Screen;

use self::find_max::Wanted;
use self::slo::Slo;
use super::{Answer, Output, listen};
use crate::error::Error;
use crate::progress::Terminal;

mod find_max;
mod slo;
mod table;

/// What to send, how often, and what to print.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  prony load http://localhost:8080/       # 10 connections, as fast as it answers, for 10 s
  prony load http://localhost:8080/ -c 50 -d '30 s' --warmup '5 s'
  prony load http://localhost:8080/ --rate 2000 --arrivals poisson
  prony load http://localhost:8080/ --rate 500,1000,2000,4000 -d '40 s'    # 10 s each
  prony load http://localhost:8080/ --find-max --slo 'p99 < 50 ms, errors < 0.1%'
  prony load http://localhost:8080/items/{i} -n 10000 -m PUT --body '{\"n\":{i}}'
  prony load https://localhost:8443/ --cacert ca.pem --json

Without `--rate`, each connection sends its next request when the answer to the one before is
there (closed loop), and latency is service time. With `--rate`, a schedule says when requests
start, whatever the server does (open loop), and latency runs from the intended start.
docs/load.md describes all figures.
Exit code 1: a request failed, the rate was not sustained, or the load was interrupted.")]
pub struct Arguments {
    /// URL of the server, such as http://localhost:8080/items/{i}; `{i}` is replaced by the number of the request, from 0
    #[arg(value_name = "URL")]
    url: String,
    /// Connections: in an open loop at most so many, opened when they are needed [default: 10; with --rate 100]
    #[arg(short, long, value_name = "N", value_parser = up_to(prony_http::MOST_CONNECTIONS))]
    connections: Option<u32>,
    /// Threads of the load generator
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = up_to(prony_http::MOST_THREADS))]
    threads: u32,
    /// Start so many requests a second, such as 2000 or 500/min; a rate that rises evenly is 100..2000, rates that are kept equally
    /// long one after another are 100,200,400
    #[arg(short = 'R', long, value_name = "RATE")]
    rate: Option<Rates>,
    /// Gaps between starts: equal, or random as those of independent users are
    #[arg(long, value_enum, default_value_t = ArrivalKind::Constant)]
    arrivals: ArrivalKind,
    /// Seed of random gaps, or of the times of --think [default: 1]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Let each connection wait between an answer and its next request, for exponential times of this mean, such as '100 ms'
    #[arg(long, value_name = "TIME", value_parser = span, conflicts_with_all = ["rate", "find_max"])]
    think: Option<Nanos>,
    /// Stop after so many requests
    #[arg(short = 'n', long, value_name = "N", conflicts_with = "duration")]
    requests: Option<u64>,
    /// Stop after this time, such as '30 s' [default: 10 s, unless --requests is given]
    #[arg(short, long, value_name = "TIME", value_parser = span)]
    duration: Option<Nanos>,
    /// Send requests for this time before, such as '5 s': they are in no figure, but the rate counts the part of an answer
    /// that comes after it [default: 0 s; with --find-max 1 s]
    #[arg(long, value_name = "TIME", value_parser = time)]
    warmup: Option<Nanos>,
    /// Method [default: GET; with --body POST]
    #[arg(short, long, value_name = "METHOD")]
    method: Option<String>,
    /// Header field, such as 'Content-Type: application/json'; repeatable
    #[arg(short = 'H', long = "header", value_name = "FIELD")]
    headers: Vec<String>,
    /// Body: a text, or @FILE for the content of a file; `{i}` in it is replaced by the number of the request
    #[arg(short, long, value_name = "TEXT|@FILE")]
    body: Option<String>,
    /// Give an attempt of a request up so long after its start; the first one starts when its request was intended to
    #[arg(long, value_name = "TIME", value_parser = span, default_value = "10 s")]
    timeout: Nanos,
    /// Repeat attempts that end so: statuses, 'timeout', 'connection' (refused, reset or closed), such as 503,timeout
    #[arg(long, value_name = "END", value_delimiter = ',', value_parser = retry_on)]
    retry: Vec<RetryOn>,
    /// Attempts of a request after the first, at most
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = up_to(prony_http::MOST_RETRIES), requires = "retry")]
    retries: u32,
    /// Time between the end of an attempt and the begin of the next, such as '100 ms'
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "0 s", requires = "retry")]
    retry_wait: Nanos,
    /// Statuses that are no errors, such as 200,404 [default: 200 to 399]; redirects are not followed
    #[arg(long, value_name = "STATUS", value_delimiter = ',', value_parser = status)]
    expect: Vec<u16>,
    /// Count an expected answer as an error whose body, up to 16 MiB, this regular expression does not match
    #[arg(long = "match", value_name = "PATTERN")]
    matches: Option<String>,
    /// Accept certificates of the authorities in this file (PEM) instead of those of the system
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    cacert: Option<PathBuf>,
    /// Accept any certificate
    #[arg(long)]
    insecure: bool,
    /// Permit a server on another machine: load only servers that are yours
    #[arg(short, long)]
    yes: bool,
    /// Find the largest rate with which the server keeps the bounds of --slo; --rate is the range of rates, such as 100.. (the default)
    /// or 100..5000, and --duration the length of a step. The last step has twice the first rate that violated a bound
    #[arg(long, requires = "slo", conflicts_with = "requests")]
    find_max: bool,
    /// Bounds that all must hold, such as 'p99 < 50 ms, errors < 0.1%': of p50, p90, p95, p99, p99.9, max, errors
    #[arg(long, value_name = "BOUNDS", requires = "find_max")]
    slo: Option<Slo>,
    /// Search until the largest rate within the bounds and the next beyond them differ by at most this share of the former
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = parse_fraction, requires = "find_max")]
    resolution: Fraction,
    /// Number of steps with the largest rate within the bounds, and with the next beyond them
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100), requires = "find_max")]
    confirm: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
}

/// The rates of an open loop.
#[derive(Clone, Debug, PartialEq)]
enum Rates {
    /// The same all the time.
    One(PerSecond),
    /// From the first evenly to the second, or without an end.
    Range(PerSecond, Option<PerSecond>),
    /// One after another, equally long.
    Steps(Vec<PerSecond>),
}

impl FromStr for Rates {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((from, to)) = text.split_once("..") {
            let to = (!to.trim().is_empty()).then(|| rate(to)).transpose()?;
            return Ok(Self::Range(rate(from)?, to));
        }
        let all = text.split(',').map(rate).collect::<Result<Vec<PerSecond>, String>>()?;
        Ok(if let [one] = all.as_slice() { Self::One(*one) } else { Self::Steps(all) })
    }
}

/// What an attempt ends in that is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RetryOn {
    Status(u16),
    Timeout,
    Connection,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum ArrivalKind {
    Constant,
    Poisson,
}

/// Connections where none are asked for.
const CONNECTIONS: u32 = 10;
/// The rate with which `--find-max` begins where none is given.
const LOWEST_RATE: f64 = 100.0;
/// The warm-up of its steps.
const WARM_UP: Nanos = Nanos::from_secs(1);
/// The length of its steps.
const STEP: Nanos = Nanos::from_secs(10);
/// How often the progress is shown, and an interrupt noticed.
const REFRESH: Duration = Duration::from_millis(100);

/// A number from 1 to this one.
fn up_to(most: u32) -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=i64::from(most))
}

fn worded(error: &QuantityError, example: &str) -> String {
    format!("{error}; {example}")
}

fn rate(text: &str) -> Result<PerSecond, String> {
    parse_rate(text).map_err(|error| worded(&error, "write it as 2000 or '500/min'"))
}

fn span(text: &str) -> Result<Nanos, String> {
    parse_span(text).map_err(|error| worded(&error, "write it as '10 s' or '500 ms'"))
}

fn time(text: &str) -> Result<Nanos, String> {
    parse_time(text).map_err(|error| worded(&error, "write it as '5 s' or '500 ms'"))
}

fn status(text: &str) -> Result<u16, ParseIntError> {
    text.trim().parse()
}

fn retry_on(text: &str) -> Result<RetryOn, String> {
    match text.trim() {
        "timeout" => Ok(RetryOn::Timeout),
        "connection" => Ok(RetryOn::Connection),
        text => {
            let status = text.parse().map(RetryOn::Status);
            status.map_err(|_| "it is no status, and neither `timeout` nor `connection`".to_owned())
        }
    }
}

/// Sends the requests and prints the figures.
///
/// # Errors
/// Faults in the arguments, a server that cannot be reached or is on another machine, and output that cannot be written.
pub fn run(arguments: &Arguments, output: &mut Output<'_>) -> Result<Answer, Error> {
    none_without_effect(arguments)?;
    if let Some(slo) = arguments.slo.as_ref().filter(|_| arguments.find_max) {
        return find_max::run(&wanted(arguments, slo)?, output, &listen()?);
    }
    if let Some(Rates::Range(from, None)) = arguments.rate {
        let message = format!("the range of rates `{}..` has no end", from.get());
        return Err(Error::arguments(message, "write it as 100..2000, or add --find-max"));
    }
    let load = Load::check(asked(arguments)).map_err(faults)?;
    let destination = Destination::find(&load)?;
    let interrupt = listen()?;
    let report = observed(&load, destination, &interrupt, arguments.quiet, None)?;
    if arguments.json {
        output.print_json("the figures of the load", &report)?;
    } else {
        table::print(&report, load.asked(), output)?;
    }
    // Where JSON is printed too, remarks are for whoever is at the terminal.
    if arguments.json && !arguments.quiet {
        let _ = Screen::messages().text(&table::remarks(&report));
    }
    Ok(if report.outcome == Outcome::Ok && !report.interrupted { Answer::Yes } else { Answer::No })
}

/// Refuses options that this load would ignore.
fn none_without_effect(arguments: &Arguments) -> Result<(), Error> {
    let is_open = arguments.rate.is_some() || arguments.find_max;
    let is_poisson = arguments.arrivals == ArrivalKind::Poisson;
    if is_poisson && !is_open {
        return Err(Error::arguments(
            "`--arrivals` has no effect without --rate: each request starts when the previous answer has arrived",
            "add --rate, or use --think",
        ));
    }
    if arguments.seed.is_some() && !is_poisson && arguments.think.is_none() {
        return Err(Error::arguments(
            "`--seed` has no effect: nothing of this load is random",
            "add `--arrivals poisson` or --think, or leave --seed out",
        ));
    }
    Ok(())
}

/// All faults as one text.
fn faults(faults: Vec<prony_http::Fault>) -> Error {
    let text = |fault: prony_http::Fault| format!("error: {}\nhint: {}\n", fault.message, fault.hint);
    Error::Worded { text: faults.into_iter().map(text).collect() }
}

/// What `--find-max` searches for.
fn wanted(arguments: &Arguments, slo: &Slo) -> Result<Wanted, Error> {
    let (low, high) = match arguments.rate {
        None => (LOWEST_RATE, None),
        Some(Rates::Range(from, to)) => (from.get(), to.map(PerSecond::get)),
        Some(Rates::One(_) | Rates::Steps(_)) => {
            let message = "with --find-max, `--rate` is a range of rates";
            return Err(Error::arguments(message, "write it as 100.. or 100..5000"));
        }
    };
    if high.is_some_and(|high| high <= low) {
        let message = "the range of rates is empty: the first must be below the second";
        return Err(Error::arguments(message, "write it as 100..5000"));
    }
    let whole = low.fract() == 0.0 && high.is_none_or(|high| high.fract() == 0.0);
    let range = Range { name: "rate".to_owned(), low, high, unit: "/s".to_owned(), whole, scale: Scale::Log };
    let (resolution, confirm) = (arguments.resolution.get(), arguments.confirm);
    Ok(Wanted {
        step: arguments.duration.unwrap_or(STEP),
        poisson: arguments.arrivals == ArrivalKind::Poisson,
        slo: slo.clone(),
        settings: GrowSettings { range, resolution, confirm },
        quiet: arguments.quiet,
        json: arguments.json,
        asked: asked(arguments),
    })
}

fn asked(arguments: &Arguments) -> Asked {
    let is_closed = arguments.rate.is_none() && !arguments.find_max;
    let connections = if is_closed { CONNECTIONS } else { OPEN_CONNECTIONS };
    // What a server does first at a rate is not what it does at that rate.
    let warm_up = if arguments.find_max { WARM_UP } else { Nanos::ZERO };
    let defaults = Asked::of(&arguments.url);
    let bound = match (arguments.requests, arguments.duration) {
        (Some(requests), _) => Bound::Requests(requests),
        (None, Some(duration)) => Bound::Duration(duration),
        (None, None) => defaults.bound,
    };
    let poisson = arguments.arrivals == ArrivalKind::Poisson;
    // A number of requests is refused where there are steps.
    let time = if let Bound::Duration(time) = bound { time } else { Nanos::ZERO };
    let pace = match &arguments.rate {
        None => Loop::Closed,
        Some(Rates::One(rate)) => Loop::Open(RequestRate::Constant(Arrivals { rate: *rate, poisson })),
        Some(Rates::Range(from, to)) => {
            Loop::Open(RequestRate::Steps(RateSteps::ramp(*from, to.unwrap_or(*from), time, poisson)))
        }
        Some(Rates::Steps(all)) => Loop::Open(RequestRate::Steps(RateSteps::equally_long(all, time, poisson))),
    };
    let trust = match (&arguments.cacert, arguments.insecure) {
        (Some(file), _) => Trust::File(file.clone()),
        (None, true) => Trust::Anything,
        (None, false) => Trust::System,
    };
    Asked {
        method: arguments.method.clone(),
        headers: arguments.headers.clone(),
        body: arguments.body.as_deref().map(body),
        connections: arguments.connections.unwrap_or(connections.max(arguments.threads)),
        threads: arguments.threads,
        pace,
        think: arguments.think.unwrap_or(defaults.think),
        bound,
        warm_up: arguments.warmup.unwrap_or(warm_up),
        timeout: arguments.timeout,
        retry: retry(arguments),
        expect: ExpectedStatuses(arguments.expect.clone()),
        matches: arguments.matches.clone(),
        trust,
        seed: arguments.seed.unwrap_or(defaults.seed),
        other_machines: arguments.yes,
        ..defaults
    }
}

fn retry(arguments: &Arguments) -> Option<RetrySpec> {
    let on = &arguments.retry;
    let status = |on: &RetryOn| if let RetryOn::Status(status) = on { Some(*status) } else { None };
    let retry = RetrySpec {
        statuses: on.iter().filter_map(status).collect(),
        timeout: on.contains(&RetryOn::Timeout),
        connection: on.contains(&RetryOn::Connection),
        times: arguments.retries,
        wait: arguments.retry_wait,
    };
    (!on.is_empty()).then_some(retry)
}

/// The text itself, or the content of a file.
fn body(text: &str) -> AskedBody {
    match text.strip_prefix('@') {
        None => AskedBody::Bytes(text.as_bytes().to_vec()),
        Some(path) => AskedBody::File(PathBuf::from(path)),
    }
}

/// Runs the load while its progress is shown, until it ends, the user ends it, or its time is over.
fn observed(
    load: &Load,
    destination: Destination,
    interrupt: &Interrupt,
    quiet: bool,
    within: Option<Nanos>,
) -> Result<Report, Error> {
    let control = Control::new(load.asked().threads);
    let mut terminal = Terminal::on_messages(quiet);
    let begin = monotonic();
    let (send, receive) = mpsc::channel();
    let report = thread::scope(|scope| {
        let control = &control;
        scope.spawn(move || {
            // The receiver waits as long as this thread runs.
            let _ = send.send(prony_http::run(load, destination, control));
        });
        loop {
            match receive.recv_timeout(REFRESH) {
                Ok(report) => return report,
                Err(RecvTimeoutError::Disconnected) => return Err(prony_http::Error::Panic),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if interrupt.asked() || within.is_some_and(|within| monotonic().since(begin) > within) {
                control.stop();
            }
            terminal.passing(&progress(load, control, monotonic().since(begin), interrupt.asked()));
        }
    });
    terminal.clear();
    Ok(report?)
}

/// How far the load is, in one line.
fn progress(load: &Load, control: &Control, passed: Nanos, is_asked_to_stop: bool) -> String {
    let asked = load.asked();
    let now = control.progress();
    let of = match asked.bound {
        Bound::Requests(requests) => format!("{} of {}", now.ok + now.failed, count(requests, "request")),
        Bound::Duration(duration) => {
            let whole = asked.warm_up + duration;
            format!(
                "{:.0} of {:.0} s, {}",
                passed.min(whole).as_secs_f64(),
                whole.as_secs_f64(),
                count(now.ok, "answer")
            )
        }
    };
    let is_over = matches!(asked.bound, Bound::Duration(duration) if passed > asked.warm_up + duration);
    let phase = match (is_asked_to_stop || is_over, passed < asked.warm_up) {
        (true, _) => ", waiting for the last answers",
        (false, true) => ", warm-up",
        (false, false) => "",
    };
    format!("{of}, {}, {} running{phase}", count(now.failed, "error"), now.running)
}

impl From<prony_http::Error> for Error {
    fn from(error: prony_http::Error) -> Self {
        Self::Worded { text: message(&error, error.hint()) }
    }
}
