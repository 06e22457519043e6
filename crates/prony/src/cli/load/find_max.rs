//! `prony load --find-max`: the largest rate with which a server keeps bounds on its latencies and errors, by the search of `prony grow`.

use std::fmt;

use prony_analysis::search::{Ask, End, Grow, GrowSettings, Growth, TrialEnd, Tried};
use prony_http::{Asked, Bound, Loop, Remark, Report};
use prony_model::http::{ExpectedStatuses, RequestRate};
use prony_model::number::{about, count, percent_up_to, quantity};
use prony_model::reading::Reading;
use prony_model::spec::Arrivals;
use prony_model::units::{Nanos, PerSecond, Unit};
use prony_os::interrupt::Interrupt;
use serde::Serialize;

use self::sender::{LONGEST_REST, Rest, Sender, most_frequent};
use super::slo::{Counted, Judged, Slo};
use super::table::remark_lines;
use crate::cli::{Answer, Output};
use crate::error::Error;

/// A step is no longer than this; the lowest rate must give enough requests in it.
const LONGEST_STEP: Nanos = Nanos::from_secs(3_600);
/// More requests than a bound needs, so that the last of them are in the window.
const SPARE: f64 = 1.05;
/// Requests of a step, at least: with fewer, an overload of some per cent is not found.
const LEAST_REQUESTS: u64 = 200;
/// The share of its time for which the generator makes requests or reads bodies from which on a violation may be its own.
const MAKING: f64 = 0.25;
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

/// Why a search ended before it had a result.
#[derive(Debug)]
enum Early {
    /// The server refuses connections.
    Away,
    /// It was interrupted.
    Interrupted,
    /// Of requests that came one after another each failed, most often so.
    Failing(String),
}

impl Early {
    fn failing(&self) -> Option<&str> {
        if let Self::Failing(most) = self { Some(most) } else { None }
    }

    /// What to do, as a line.
    const fn hint(&self) -> &'static str {
        match self {
            Self::Away | Self::Interrupted => "",
            Self::Failing(_) => {
                "hint: see what the server does with one request (`-n 1` in place of --find-max); `--expect` names statuses that are no errors\n"
            }
        }
    }
}

impl fmt::Display for Early {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Away => f.write_str("the server is away"),
            Self::Interrupted => f.write_str("the search was interrupted"),
            Self::Failing(most) => write!(f, "before the first step each request failed ({most})"),
        }
    }
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
    /// Whether the search was interrupted.
    interrupted: bool,
    /// The most frequent error of requests that came one after another before the first step; absent unless all of them failed, which
    /// ends the search.
    failing: Option<&'f str>,
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
        return Err(Error::arguments(message, "begin with a higher rate: `--rate 100..`"));
    }
    let mut grow = wanted.search();
    let mut steps: Vec<Step> = Vec::new();
    let mut sender = Sender::new(&wanted.asked, wanted.quiet, interrupt);
    let first = sender.probe(LONGEST_REST)?;
    if !wanted.json {
        output.print_now(&wanted.head())?;
    }
    let failing = sender.failing(&first).map(Early::Failing);
    loop {
        let rate = match grow.ask() {
            Ask::Done(growth) => return wanted.conclude(&growth, &steps, None, output),
            Ask::Try(rate) => rate,
        };
        if let Some(early) = &failing {
            return wanted.conclude(&grow.ended_at(rate), &steps, Some(early), output);
        }
        let settled = match sender.settle(&first)? {
            Rest::Since(settled) => Some(settled),
            Rest::Busy => None,
            Rest::Away => return wanted.conclude(&grow.ended_at(rate), &steps, Some(&Early::Away), output),
        };
        let report = sender.load(wanted.load_at(rate, u64::from(grow.trials_of(rate)))?)?;
        if report.interrupted {
            return wanted.conclude(&grow.ended_at(rate), &steps, Some(&Early::Interrupted), output);
        }
        let (end, words, why) = judged(&wanted.slo, (counted(&steps, rate), &report), settled.is_some());
        grow.record(rate, end);
        let step = Step { rate, end: words, why, settled, report };
        if !wanted.json {
            output.print_now(&line(&step, &wanted.asked.expect))?;
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
    use Remark::{ConnectionsInUse, Interrupted, Saturated, Stalled, Surplus};
    matches!(remark, Saturated { .. } | Stalled { .. } | Interrupted | Surplus { .. } | ConnectionsInUse { .. })
}

/// A step in one line.
fn line(Step { rate, end, why, report, .. }: &Step, expect: &ExpectedStatuses) -> String {
    let cell =
        |reading: &Reading<f64>| reading.measured().map_or_else(|| "-".to_owned(), |ns| quantity(*ns, Unit::Nanos));
    let share = percent_up_to(report.errors.total() as f64 / report.requests.max(1) as f64, 2);
    let why = if why.is_empty() { String::new() } else { format!(" ({})", why.join("; ")) };
    let most = most_frequent(report, expect).filter(|_| *end == VIOLATED);
    let most = most.map(|most| format!(" ({most})")).unwrap_or_default();
    format!(
        "{}/s: {end}{why}; p50 {}, p99 {}, errors {share}{most}, {}\n",
        text(*rate),
        cell(&report.latency.p50),
        cell(&report.latency.p99),
        count(report.requests, "request")
    )
}

impl Wanted {
    fn method(&self) -> &str {
        self.asked.method.as_deref().unwrap_or(if self.asked.body.is_some() { "POST" } else { "GET" })
    }

    /// What is searched for, and how long steps are where their requests take longer than was asked for.
    fn head(&self) -> String {
        let (low, longest) = (self.settings.range.low, self.step_at(self.settings.range.low));
        let requests = count(self.requests(), "request");
        let longer = (longest > self.step)
            .then(|| format!("a step has at least {requests}, so that it takes {longest} at {}/s\n", text(low)));
        format!(
            "{} {}: the largest rate with {}\n{}",
            self.method(),
            self.asked.url,
            self.slo,
            longer.unwrap_or_default()
        )
    }

    /// Requests of a step, at least.
    fn requests(&self) -> u64 {
        self.slo.requests().max(LEAST_REQUESTS)
    }

    /// The load of a step.
    fn load_at(&self, rate: f64, trial: u64) -> Result<Asked, Error> {
        let Some(per_second) = PerSecond::new(rate) else {
            let message = format!("{rate} requests a second are no rate");
            return Err(Error::arguments(message, "begin above 0: `--rate 100..`"));
        };
        Ok(Asked {
            pace: Loop::Open(RequestRate::Constant(Arrivals { rate: per_second, poisson: self.poisson })),
            bound: Bound::Duration(self.step_at(rate)),
            seed: self.asked.seed.wrapping_add(trial),
            ..self.asked.clone()
        })
    }

    /// The search. A disturbance of one step at the lowest rate would otherwise end it, against two steps that met the bounds.
    fn search(&self) -> Grow {
        Grow::new(self.settings.clone()).with_first_by_majority()
    }

    /// How long a step at a rate takes, so that it has the requests that the bounds need, and whether it is sustained.
    fn step_at(&self, rate: f64) -> Nanos {
        let needed = self.requests() as f64 * SPARE / rate * 1e9;
        self.step.max(Nanos::from_nanos(needed.ceil() as u64))
    }

    /// Prints the result; `early`: why the search ended before it had one.
    fn conclude(
        &self,
        growth: &Growth,
        steps: &[Step],
        early: Option<&Early>,
        output: &mut Output<'_>,
    ) -> Result<Answer, Error> {
        let (met, violated) =
            (growth.largest_success.map(|one| one.value), growth.smallest_failure.map(|one| one.value));
        let given_up = growth.given_up.filter(|_| growth.end == End::Disturbed);
        let waited = waited(growth, steps);
        let mut notes = Vec::new();
        notes.extend(matches!(early, Some(Early::Away)).then(|| away(steps)));
        notes.extend(self.notes_of(growth, steps));
        if self.json {
            let found = Found {
                slo: self.slo.to_string(),
                largest_met: met,
                smallest_violated: violated,
                given_up,
                interrupted: matches!(early, Some(Early::Interrupted)),
                failing: early.and_then(Early::failing),
                connections_in_use_at: violated.filter(|_| waited.is_some()),
                notes: &notes,
                met_above: &growth.succeeds_above,
                steps,
            };
            output.print_json("the result of the search", &found)?;
        } else {
            output.print(&self.said(growth, early, waited.is_some()))?;
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
    fn ended_early(&self, met: Option<&(String, String)>, given_up: &str, early: Option<&Early>) -> String {
        let of_server = format!("at {given_up}/s nothing is known of the server (the lines of the steps say why)");
        let (why, hint) = match (early, met) {
            (Some(early), _) => (early.to_string(), early.hint()),
            (None, Some(_)) => (
                of_server,
                "hint: where the load generator may be the limit, use more threads (`--threads`), or run the server on other processors\n",
            ),
            (None, None) => {
                (of_server, "hint: begin with a lower rate (`--rate 10..`), or lengthen the steps (`--duration`)\n")
            }
        };
        let slo = &self.slo;
        match met {
            Some((met, trials)) => {
                format!("at least {met}/s with {slo} ({trials}); {why}, so that the largest rate is not known\n{hint}")
            }
            None => format!("nothing is known of the largest rate with {slo}: {why}\n{hint}"),
        }
    }

    /// The result in words; `is_full`: all connections were in use at the smallest rate that violated the bounds.
    fn said(&self, growth: &Growth, early: Option<&Early>, is_full: bool) -> String {
        let slo = &self.slo;
        let of = |how: &str, some: u32, one: &Tried| match one.succeeded + one.failed {
            all if all == some => format!("{how} in {}", count(all, "step")),
            all => format!("{how} in {some} of {all} steps"),
        };
        let met = growth.largest_success.map(|one| (text(one.value), of("met", one.succeeded, &one)));
        let violated = growth.smallest_failure.map(|one| (text(one.value), of("violated", one.failed, &one)));
        let low = self.settings.range.low;
        let mut said = match (growth.end, &met, &violated) {
            (End::Disturbed, met, _) => self.ended_early(met.as_ref(), &text(growth.given_up.unwrap_or(low)), early),
            (_, Some((met, steps)), Some((violated, failed))) => {
                let is_mixed = growth.smallest_failure.is_some_and(|one| one.is_mixed());
                let (of_connections, limit) = match is_full {
                    true => (format!(" over at most {}", count(self.asked.connections, "connection")), ""),
                    // Of percentiles under random arrivals two of three such limits lay above both rates.
                    false if is_mixed => (String::new(), ": no sharp limit, which may be higher"),
                    false => (String::new(), ": the limit lies between the two"),
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

mod sender;
#[cfg(test)]
mod tests;
