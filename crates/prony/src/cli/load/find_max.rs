//! `prony load --find-max`: the largest rate with which a server keeps bounds on its latencies and errors, by the search of `prony grow`.

use std::time::Duration;

use prony_analysis::search::{Ask, End, Grow, GrowSettings, Growth, TrialEnd, Tried};
use prony_http::{Asked, Bound, Destination, Load, Loop, Remark, Report};
use prony_model::http::RequestRate;
use prony_model::number::{about, count, percent_up_to, quantity};
use prony_model::reading::Reading;
use prony_model::spec::Arrivals;
use prony_model::units::{Nanos, PerSecond, Unit};
use prony_os::clock::monotonic;
use prony_os::interrupt::Interrupt;
use serde::Serialize;

use super::slo::{Counted, Judged, Slo};
use super::table::remark_lines;
use super::{faults, observed};
use crate::cli::{Answer, Output};
use crate::error::Error;

/// A step is no longer than this; the lowest rate must give enough requests in it.
const LONGEST_STEP: Nanos = Nanos::from_secs(3_600);
/// More requests than a bound needs, so that the last of them are in the window.
const SPARE: f64 = 1.05;
/// Requests of a probe of a server at rest, one after another.
const PROBE: u64 = 20;
/// A server is at rest again when it answers a probe in this multiple of the time before the first step ...
const AT_REST: f64 = 2.0;
/// ... or in this much more time, which is not seen in a step.
const MARGIN: f64 = 1e6;
/// The share of its time for which the generator makes requests or reads bodies from which on a violation may be its own.
const MAKING: f64 = 0.25;
/// The time from one probe to the next.
const BETWEEN_PROBES: Duration = Duration::from_millis(20);
/// How long the search waits for that.
const LONGEST_REST: Nanos = Nanos::from_secs(60);
/// How long it waits for a server that refuses connections, which may be started again.
const LONGEST_AWAY: Nanos = Nanos::from_secs(5);
/// The word for a step that says nothing of its rate.
const UNKNOWN: &str = "unknown";
/// And for one that violated the bounds.
const VIOLATED: &str = "violated";

/// What is searched for.
pub(super) struct Wanted {
    /// A load at any rate.
    pub(super) asked: Asked,
    /// The length of a step, at least.
    pub(super) step: Nanos,
    /// Gaps are exponential.
    pub(super) poisson: bool,
    pub(super) slo: Slo,
    pub(super) settings: GrowSettings,
    pub(super) quiet: bool,
    pub(super) json: bool,
}

/// One rate that was tried.
#[derive(Serialize)]
struct Step {
    /// Requests a second by the schedule.
    rate: f64,
    /// Whether the bounds were kept: `met`, `violated` or `unknown`.
    end: &'static str,
    /// Which bounds were violated, or what is not known.
    why: Vec<String>,
    /// How long the server took to come to rest before it, nanoseconds; absent where it did not within a minute.
    settled: Option<Nanos>,
    /// All figures.
    report: Report,
}

/// The result as JSON.
#[derive(Serialize)]
struct Found<'f> {
    /// The bounds.
    slo: String,
    /// The largest rate that kept them, requests a second; absent where none did.
    largest_met: Option<f64>,
    /// The smallest rate that did not; absent where the search did not find one.
    smallest_violated: Option<f64>,
    /// Where the search ended because the load generator, not the server, may have been the limit, or the server still worked on
    /// an earlier step or refused all connections: the rate.
    given_up: Option<f64>,
    /// The smallest rate that violated the bounds, if requests waited there because all connections were in use: more connections
    /// may have kept them.
    connections_in_use_at: Option<f64>,
    /// What is to be known of the result, in words.
    notes: &'f [String],
    /// Rates above the smallest that violated the bounds, which kept them.
    met_above: &'f [f64],
    steps: &'f [Step],
}

/// Searches, and prints each step and the result.
///
/// # Errors
/// Faults in what is asked for, a server that cannot be reached, output that cannot be written.
pub(super) fn run(wanted: &Wanted, output: &mut Output<'_>, interrupt: &Interrupt) -> Result<Answer, Error> {
    let least = wanted.step_at(wanted.settings.range.low);
    if least > LONGEST_STEP {
        let requests = count(wanted.slo.requests(), "request");
        let message = format!(
            "the bounds need {requests} in a step, which at {} a second takes {least}",
            text(wanted.settings.range.low)
        );
        let hint = "begin with a higher rate: `--rate 100..`".to_owned();
        return Err(Error::Arguments { message, hint });
    }
    let mut grow = wanted.search();
    let mut steps: Vec<Step> = Vec::new();
    let mut sender = Sender { wanted, interrupt, first: 0, destination: None };
    let first = sender.probe()?;
    if !wanted.json {
        output.print(&format!("{} {}: the largest rate with {}\n", wanted.method(), wanted.asked.url, wanted.slo))?;
    }
    loop {
        let rate = match grow.ask() {
            Ask::Done(growth) => return wanted.conclude(&growth, &steps, false, output),
            Ask::Try(rate) => rate,
        };
        let settled = match sender.settle(first)? {
            Rest::Since(settled) => Some(settled),
            Rest::Busy => None,
            Rest::Away => return wanted.conclude(&grow.ended_at(rate), &steps, true, output),
        };
        let report = sender.load(rate, u64::from(grow.trials_of(rate)))?;
        if report.interrupted {
            if !wanted.json {
                output.print("interrupted: the search has no result\n")?;
            }
            return Ok(Answer::No);
        }
        let (end, words, why) = judged(&wanted.slo, (counted(&steps, rate), &report), settled.is_some());
        grow.record(rate, end);
        let step = Step { rate, end: words, why, settled, report };
        if !wanted.json {
            output.print(&line(&step))?;
        }
        steps.push(step);
    }
}

/// The requests of the steps with a rate that say something of it.
fn counted(steps: &[Step], rate: f64) -> Counted {
    let of_rate = steps.iter().filter(|step| step.rate == rate && step.end != UNKNOWN);
    of_rate.fold(Counted::default(), |all, step| all.and(Counted::of(&step.report)))
}

/// A rate, requests a second, with six significant digits where it is no whole number: 20/min were `0.3333333333333333/s`.
fn text(rate: f64) -> String {
    let rounded = if rate.fract() == 0.0 { rate } else { format!("{rate:.5e}").parse().unwrap_or(rate) };
    rounded.to_string()
}

/// What a step says of its rate. Where the generator may have been the limit, or the server still worked on what an earlier step
/// had left, a violation says nothing of this rate.
fn judged(
    slo: &Slo,
    (earlier, report): (Counted, &Report),
    was_at_rest: bool,
) -> (TrialEnd, &'static str, Vec<String>) {
    let has = |is_meant: fn(&Remark) -> bool| report.remarks.iter().any(is_meant);
    let has_stalled = has(|remark| matches!(remark, Remark::Stalled { .. }));
    let is_busy = has(|remark| match remark {
        Remark::GeneratorBusy { .. } => true,
        Remark::Making { share } => *share > MAKING,
        _ => false,
    }) || report.errors.no_socket > 0;
    let is_generator = is_busy || has_stalled;
    let is_sustained = !has(|remark| matches!(remark, Remark::Saturated { .. }));
    let (mut why, is_unknown, seeming) = match slo.judge(report, earlier) {
        Judged::Met(seeming) => (Vec::new(), false, seeming),
        Judged::Violated(why) => (why, false, Vec::new()),
        Judged::Unknown(why) => (why, true, Vec::new()),
    };
    let surplus = report.remarks.iter().find(|remark| matches!(remark, Remark::Surplus { .. }));
    why.extend(surplus.map(ToString::to_string));
    if !is_sustained {
        let reached = report.rate.measured().map_or_else(|| "-".to_owned(), |rate| quantity(*rate, Unit::PerSecond));
        why.insert(0, format!("not sustained: {reached} were answered"));
    }
    let is_sure = !is_sustained || surplus.is_some();
    match (why.is_empty(), is_generator || !was_at_rest, is_unknown && !is_sure) {
        (true, ..) => (TrialEnd::Succeeded, "met", seeming),
        (false, false, false) => (TrialEnd::Failed, VIOLATED, why),
        (false, ..) => {
            why.extend(is_busy.then(|| "the load generator, not the server, may be the limit".to_owned()));
            why.extend(has_stalled.then(|| "the load generator did not run for a while".to_owned()));
            why.extend((!was_at_rest).then(|| "the server was not at rest before".to_owned()));
            (TrialEnd::Disturbed, UNKNOWN, why)
        }
    }
}

/// Whether the line of a step says it, and not of all steps.
const fn is_of_step(remark: &Remark) -> bool {
    matches!(remark, Remark::Saturated { .. } | Remark::Stalled { .. } | Remark::Interrupted | Remark::Surplus { .. })
}

/// A step in one line.
fn line(Step { rate, end, why, report, .. }: &Step) -> String {
    let cell =
        |reading: &Reading<f64>| reading.measured().map_or_else(|| "-".to_owned(), |ns| quantity(*ns, Unit::Nanos));
    let share = percent_up_to(report.errors.total() as f64 / report.requests.max(1) as f64, 2);
    let why = if why.is_empty() { String::new() } else { format!(" ({})", why.join("; ")) };
    format!(
        "{}/s: {end}{why}; p50 {}, p99 {}, errors {share}, {}\n",
        text(*rate),
        cell(&report.latency.p50),
        cell(&report.latency.p99),
        count(report.requests, "request")
    )
}

/// What a server does with requests that come one after another.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Probe {
    /// It answers, in this median time, nanoseconds.
    Answered(f64),
    /// It accepts no connection.
    Refused,
    /// Anything else.
    Failed,
}

/// What a server does before a step.
enum Rest {
    /// It is at rest, after this time.
    Since(Nanos),
    /// It still works on what an earlier step left.
    Busy,
    /// It accepts no connection.
    Away,
}

/// Sends requests, each with a number of its own over all steps: a server may answer one that it has had in another way.
struct Sender<'w> {
    wanted: &'w Wanted,
    interrupt: &'w Interrupt,
    /// The number of the next request.
    first: u64,
    /// Where the server was found.
    destination: Option<Destination>,
}

impl Sender<'_> {
    /// Runs one step.
    fn load(&mut self, rate: f64, trial: u64) -> Result<Report, Error> {
        let Some(rate) = PerSecond::new(rate) else {
            let message = format!("{rate} requests a second are no rate");
            return Err(Error::Arguments { message, hint: "begin above 0: `--rate 100..`".to_owned() });
        };
        let Wanted { asked, poisson, quiet, .. } = self.wanted;
        let time = self.wanted.step_at(rate.get());
        let asked = Asked {
            pace: Loop::Open(RequestRate::Constant(Arrivals { rate, poisson: *poisson })),
            bound: Bound::Duration(time),
            seed: asked.seed.wrapping_add(trial),
            ..asked.clone()
        };
        self.run(asked, *quiet)
    }

    fn run(&mut self, asked: Asked, quiet: bool) -> Result<Report, Error> {
        let load = Load::check(Asked { first: self.first, ..asked }).map_err(faults)?;
        // A server that is away later has refused requests, which are counted.
        let destination = match self.destination {
            Some(destination) => destination,
            None => *self.destination.insert(Destination::find(&load)?),
        };
        let report = observed(&load, destination, self.interrupt, quiet)?;
        self.first += report.requests + report.warm_up_ok + report.warm_up_failed;
        Ok(report)
    }

    /// Sends requests one after another.
    fn probe(&mut self) -> Result<Probe, Error> {
        let asked = Asked {
            pace: Loop::Closed,
            bound: Bound::Requests(PROBE),
            warm_up: Nanos::ZERO,
            connections: 1,
            threads: 1,
            ..self.wanted.asked.clone()
        };
        let report = self.run(asked, true)?;
        let is_refused = report.requests > 0 && report.errors.refused == report.requests;
        let failed = if is_refused { Probe::Refused } else { Probe::Failed };
        Ok(report.latency.p50.measured().map_or(failed, |median| Probe::Answered(*median)))
    }

    /// Waits until the server answers probes as it did before the first step: what a step left behind would be in the figures of the
    /// next.
    fn settle(&mut self, first: Probe) -> Result<Rest, Error> {
        let begin = monotonic();
        let Probe::Answered(rest) = first else { return Ok(Rest::Since(Nanos::ZERO)) };
        let mut answered = begin;
        loop {
            let probe = self.probe()?;
            let now = monotonic();
            let passed = now.since(begin);
            let is_at_rest = matches!(probe, Probe::Answered(now) if now <= (rest * AT_REST).max(rest + MARGIN));
            if is_at_rest || self.interrupt.asked() {
                return Ok(Rest::Since(passed));
            }
            if probe != Probe::Refused {
                answered = now;
            }
            if now.since(answered) > LONGEST_AWAY {
                return Ok(Rest::Away);
            }
            if passed > LONGEST_REST {
                return Ok(Rest::Busy);
            }
            // Where it refuses connections, each probe would end at once.
            std::thread::sleep(BETWEEN_PROBES);
        }
    }
}

impl Wanted {
    fn method(&self) -> &str {
        self.asked.method.as_deref().unwrap_or(if self.asked.body.is_some() { "POST" } else { "GET" })
    }

    /// The search. A disturbance of one step at the lowest rate would otherwise end it, against two steps that met the bounds.
    fn search(&self) -> Grow {
        Grow::new(self.settings.clone()).with_first_by_majority()
    }

    /// How long a step at a rate takes, so that it has the requests that the bounds need.
    fn step_at(&self, rate: f64) -> Nanos {
        let needed = self.slo.requests() as f64 * SPARE / rate * 1e9;
        self.step.max(Nanos::from_nanos(needed.ceil() as u64))
    }

    /// Prints the result; `is_away`: the search ended because the server refuses connections.
    fn conclude(
        &self,
        growth: &Growth,
        steps: &[Step],
        is_away: bool,
        output: &mut Output<'_>,
    ) -> Result<Answer, Error> {
        let (met, violated) =
            (growth.largest_success.map(|one| one.value), growth.smallest_failure.map(|one| one.value));
        let given_up = growth.given_up.filter(|_| growth.end == End::Disturbed);
        let waited = waited(growth, steps);
        let mut notes = Vec::new();
        notes.extend(is_away.then(|| away(steps)));
        notes.extend(self.notes_of(growth, steps));
        if self.json {
            let found = Found {
                slo: self.slo.to_string(),
                largest_met: met,
                smallest_violated: violated,
                given_up,
                connections_in_use_at: violated.filter(|_| waited.is_some()),
                notes: &notes,
                met_above: &growth.succeeds_above,
                steps,
            };
            let json = serde_json::to_string_pretty(&found);
            let json = json.map_err(|source| Error::Json { what: "the result of the search", source })?;
            output.print_data(&format!("{json}\n"))?;
        } else {
            output.print(&self.said(growth, is_away, waited.is_some()))?;
            notes.iter().try_for_each(|note| output.print(&format!("note: {note}\n")))?;
            let mut said = Vec::new();
            for (step, remark) in steps.iter().flat_map(|step| step.report.remarks.iter().map(move |one| (step, one))) {
                let kind = std::mem::discriminant(remark);
                if !is_of_step(remark) && !said.contains(&kind) {
                    said.push(kind);
                    output.print(&remark_lines(&format!("at {}/s: ", text(step.rate)), remark))?;
                }
            }
        }
        // A rate that is at least reached is an answer; that it is the largest is not, where the generator was the limit.
        Ok(if met.is_some() && given_up.is_none() { Answer::Yes } else { Answer::No })
    }

    /// What is to be known of the result.
    fn notes_of(&self, growth: &Growth, steps: &[Step]) -> Vec<String> {
        let mut notes = Vec::new();
        if let (Some(violated), Some(share)) = (growth.smallest_failure, waited(growth, steps)) {
            let all = count(self.asked.connections, "connection");
            notes.push(format!(
                "all {all} were in use at {}/s, and {} of its requests waited for one: with more connections (`--connections`) the \
                 server may do more",
                text(violated.value),
                percent_up_to(share, 1)
            ));
        }
        if let Some(met) = growth.largest_success {
            let undecided = self.slo.undecided(counted(steps, met.value));
            notes.extend(undecided.map(|bound| {
                format!(
                    "at {}/s {bound}; more steps (`--confirm`) or longer ones (`--duration`) say more",
                    text(met.value)
                )
            }));
        }
        notes
    }

    /// The result of a search that ended before the largest rate was known, at the rate `given_up`.
    fn ended_early(&self, met: Option<&(String, String)>, given_up: &str, is_away: bool) -> String {
        let slo = &self.slo;
        match met {
            Some((met, trials)) if is_away => {
                format!(
                    "at least {met}/s with {slo} ({trials}); the server is away, so that the largest rate is not known\n"
                )
            }
            None if is_away => format!("nothing is known of the largest rate with {slo}: the server is away\n"),
            Some((met, trials)) => format!(
                "at least {met}/s with {slo} ({trials}); at {given_up}/s nothing is known of the server (the lines of the steps say why), so that \
                 the largest rate is not known\nhint: where the load generator may be the limit, use more threads (`--threads`), or run the server \
                 on other processors\n"
            ),
            None => format!(
                "nothing is known of the largest rate with {slo}: at {given_up}/s nothing is known of the server (the lines of \
                 the steps say why)\nhint: begin with a lower rate (`--rate 10..`), or lengthen the steps (`--duration`)\n"
            ),
        }
    }

    /// The result in words; `is_full`: all connections were in use at the smallest rate that violated the bounds.
    fn said(&self, growth: &Growth, is_away: bool, is_full: bool) -> String {
        let slo = &self.slo;
        let of = |how: &str, some: u32, one: &Tried| match one.succeeded + one.failed {
            all if all == some => format!("{how} in {}", count(all, "step")),
            all => format!("{how} in {some} of {all} steps"),
        };
        let met = growth.largest_success.map(|one| (text(one.value), of("met", one.succeeded, &one)));
        let violated = growth.smallest_failure.map(|one| (text(one.value), of("violated", one.failed, &one)));
        let low = self.settings.range.low;
        let mut said = match (growth.end, &met, &violated) {
            (End::Disturbed, met, _) => self.ended_early(met.as_ref(), &text(growth.given_up.unwrap_or(low)), is_away),
            (_, Some((met, steps)), Some((violated, failed))) => {
                let (of_connections, limit) = if is_full {
                    (format!(" over at most {}", count(self.asked.connections, "connection")), "")
                } else {
                    (String::new(), ": the limit lies between the two")
                };
                format!(
                    "largest rate with {slo}{of_connections}: {met}/s ({steps}); {violated}/s is too much ({failed}){limit}\n"
                )
            }
            (_, Some((met, steps)), None) => {
                format!(
                    "at least {met}/s with {slo} ({steps}), the end of the range\nhint: raise it: `--rate {met}..`\n"
                )
            }
            (_, None, _) => format!(
                "no rate was found with {slo}: {}/s is too much already ({})\nhint: begin with a lower rate (`--rate {}..`), or see why \
                 with `prony load --rate`\n",
                text(low),
                violated.map_or_else(String::new, |(_, steps)| steps),
                about(low / 10.0)
            ),
        };
        if let [first, ..] = growth.succeeds_above.as_slice() {
            said += &format!("note: {}/s, a higher rate, kept the bounds: there is no clear limit\n", text(*first));
        }
        said
    }
}

/// That the search ended because the server refuses connections.
fn away(steps: &[Step]) -> String {
    let since = steps.last().map_or_else(String::new, |step| format!(" since the step with {}/s", text(step.rate)));
    format!("the server refuses connections{since}: the search has ended")
}

/// The share of the requests that waited for a connection since all were in use, at the smallest rate that violated the bounds, in
/// the steps that did; `None` where none waited.
fn waited(growth: &Growth, steps: &[Step]) -> Option<f64> {
    let rate = growth.smallest_failure?.value;
    let violated = steps.iter().filter(|step| step.rate == rate && step.end == VIOLATED);
    let (waited, all) = violated.fold((0, 0), |(waited, all), Step { report, .. }| {
        (waited + report.waited_for_connection.unwrap_or_default(), all + report.requests)
    });
    (waited > 0).then(|| waited as f64 / all as f64)
}

#[cfg(test)]
mod tests;
