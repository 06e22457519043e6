//! The figures of a load as a table, and its remarks.

use prony_http::{Asked, Bound, Errors, Failure, LEAST_DUE, Latency, Remark, Report, StepReport};
use prony_model::number::{amount, count, digits, percent_up_to, quantity};
use prony_model::outcome::Outcome;
use prony_model::reading::{Reading, Why};
use prony_model::record::LatencyKind;
use prony_model::units::{Nanos, Unit};
use prony_report::shown;

use super::super::Output;
use crate::error::Error;

/// Prints what the load was, the tables and the remarks.
pub(super) fn print(report: &Report, asked: &Asked, output: &mut Output<'_>) -> Result<(), Error> {
    output.print(&format!("{}\n", head(report)))?;
    // Headings without text are an empty line.
    output.table(&["", ""], &counts(report, asked))?;
    output.print("\n")?;
    let times: Vec<Vec<String>> = rows(report).into_iter().map(|(name, times)| time_row(name, times)).collect();
    output.table(&["", "p50", "p90", "p99", "p99.9", "max", "samples"], &times)?;
    if !report.steps.is_empty() {
        output.print("\n")?;
        let heads = ["step", "asked", "answered", "p50", "p99", "requests", "errors", ""];
        output.table(&heads, &steps(report))?;
    }
    let notes = notes(report) + &remarks(report);
    if !notes.is_empty() {
        output.print(&format!("\n{notes}"))?;
    }
    Ok(())
}

fn head(report: &Report) -> String {
    let Report { method, url, connections, window, .. } = report;
    let how = match (report.asked_rate, report.seed) {
        (None, _) => format!("closed loop, {}", count(*connections, "connection")),
        (Some(rate), seed) => {
            let arrivals = seed.map_or("constant".to_owned(), |seed| format!("poisson, seed {seed}"));
            let most = count(*connections, "connection");
            let steps = match report.steps.len() {
                0 => String::new(),
                steps => format!(" on average in {}", count(steps as u64, "step")),
            };
            format!("open loop, {} requests a second{steps} ({arrivals}), {most} at most", digits(rate.get()))
        }
    };
    format!("{method} {url}: {how}, {window}")
}

/// How long the measured time was, and the whole load.
fn time_of(window: Nanos, asked: &Asked, whole: Nanos) -> String {
    let mut with = Vec::new();
    with.extend((asked.warm_up > Nanos::ZERO).then(|| format!("{} of warm-up", asked.warm_up)));
    with.extend(matches!(asked.bound, Bound::Duration(_)).then(|| "the last answers".to_owned()));
    // A load ends with its last answer, which may come before the end of its time where no other request was due.
    if with.is_empty() || whole <= window {
        return window.to_string();
    }
    format!("{window}; with {} {whole}", with.join(" and "))
}

/// The errors by kind, those that there are.
fn by_kind(errors: Errors) -> impl Iterator<Item = (String, u64)> {
    let counted = Failure::ALL.into_iter().map(move |failure| (failure.text().to_owned(), errors.count(failure)));
    counted.filter(|(_, count)| *count > 0)
}

/// How long the load took, how long a request may take, and what came of the requests.
fn counts(report: &Report, asked: &Asked) -> Vec<Vec<String>> {
    let row = |name: &str, value: String| vec![name.to_owned(), value];
    let share = |n: u64| percent_up_to(n as f64 / report.requests.max(1) as f64, 2);
    let mut rows = vec![
        row("time", time_of(report.window, asked, report.took)),
        row("timeout of a request", asked.timeout.to_string()),
        row("requests", report.requests.to_string()),
        row("ok", report.ok.to_string()),
        row("errors", format!("{} ({})", report.errors.total(), share(report.errors.total()))),
    ];
    let kinds = |errors| by_kind(errors).map(|(name, count)| row(&format!("  {name}"), count.to_string()));
    rows.extend(kinds(report.errors));
    if let Some(retried) = report.retried {
        rows.push(row("retries", retried.total().to_string()));
        rows.extend(kinds(retried));
    }
    let statuses: Vec<String> = report.statuses.iter().map(|(status, n)| format!("{status}: {n}")).collect();
    if !statuses.is_empty() {
        rows.push(row("statuses", statuses.join(", ")));
    }
    if report.warm_up_ok + report.warm_up_failed > 0 {
        let errors = count(report.warm_up_failed, "error");
        rows.push(row("warm-up", format!("{} ok, {errors}, in no other count", report.warm_up_ok)));
    }
    rows.push(row("rate of ok answers", rate(report)));
    let sent = &report.sent;
    let bodies = sent.distinct_bodies.map(|n| format!(", distinct bodies: {n}")).unwrap_or_default();
    rows.push(row("distinct paths", format!("{}{bodies}", sent.distinct_paths)));
    let bytes = [sent.bytes, report.received].map(|bytes| amount(bytes.as_bytes() as f64));
    rows.push(row("sent, received", bytes.join(", ")));
    rows.push(row("generator CPU", generator(report)));
    rows
}

/// `1298/s`; `1298/s (within 3.000 s, ...)` where it is not that of all ok answers.
fn rate(report: &Report) -> String {
    let rate = shown(&report.rate, |rate| quantity(*rate, Unit::PerSecond));
    let within = report.rate.measured().map(|rate| (rate * report.window.as_secs_f64()).round() as u64);
    match within.filter(|answers| *answers != report.ok) {
        // Of 14940 ok answers a rate of 5589 in the window was taken for an error.
        Some(_) => {
            format!("{rate} ({})", within_window(report.window, report.rate_leaves_out, report.asked_rate.is_some()))
        }
        None => rate,
    }
}

/// Which answers count in the rate.
fn within_window(window: Nanos, left_out: Nanos, is_open: bool) -> String {
    let begin = match left_out {
        Nanos::ZERO => String::new(),
        left_out => format!(" without the first {left_out}, until nearly all connections had an answer"),
    };
    let parts = if is_open { "" } else { ", with a part of each answer that spans its begin or end" };
    format!("within {window}{begin}{parts}")
}

fn generator(report: &Report) -> String {
    let generator = &report.generator;
    let share = |reading: &Reading<f64>| shown(reading, |share| percent_up_to(*share, 1));
    let threads = count(generator.threads, "thread");
    let used = share(&generator.share);
    if generator.share.measured().is_none() {
        // The time without a processor is missing for the same reason.
        return used;
    }
    format!("{used} ({threads}), {} waiting for a processor", share(&generator.waited))
}

/// The steps of a schedule, each in a row.
fn steps(report: &Report) -> Vec<Vec<String>> {
    let row = |(number, step): (usize, &StepReport)| {
        let [from, to] = [step.from, step.to].map(|rate| digits(rate.get()));
        let asked = if from == to { format!("{from}/s") } else { format!("{from} to {to}/s") };
        let cells = [
            number.to_string(),
            asked,
            shown(&step.rate, |rate| quantity(*rate, Unit::PerSecond)),
            time(&step.latency.p50),
            time(&step.latency.p99),
            step.requests.to_string(),
            format!("{} ({})", step.errors, percent_up_to(step.errors as f64 / step.requests.max(1) as f64, 2)),
            if step.saturated { "saturated".to_owned() } else { String::new() },
        ];
        cells.to_vec()
    };
    (1..).zip(&report.steps).map(row).collect()
}

fn time(reading: &Reading<f64>) -> String {
    match reading {
        Reading::Measured(nanos) => quantity(*nanos, Unit::Nanos),
        Reading::Missing(_) => "-".to_owned(),
    }
}

fn rows(report: &Report) -> Vec<(&'static str, &Latency)> {
    let latency = match report.latency.kind {
        Some(LatencyKind::Intended) => "latency from the intended start",
        _ => "latency (service time)",
    };
    let rows = [
        (latency, Some(&report.latency)),
        ("latency from the real start", report.actual_latency.as_ref()),
        ("start behind schedule", report.lag.as_ref()),
        ("time to first byte", Some(&report.first_byte)),
        // Connections of the warm-up go on: none may be opened afterwards.
        ("time to connect", Some(&report.connect).filter(|connect| connect.samples > 0)),
    ];
    rows.into_iter().filter_map(|(name, times)| Some((name, times?))).collect()
}

fn time_row(name: &str, times: &Latency) -> Vec<String> {
    let Latency { p50, p90, p99, p999, max, samples, .. } = times;
    let cells = [p50, p90, p99, p999, max].map(time);
    [name.to_owned()].into_iter().chain(cells).chain([samples.to_string()]).collect()
}

/// Why a percentile is not shown: it needs 10 / (1 - q) samples (METHOD 1.4).
const NEEDED: &str =
    "note: percentiles without a value (`-`) have too few samples: p50 needs 20, p90 100, p99 1000, p99.9 10000\n";

/// Which of the latencies of an open loop is that of the server's users.
const QUOTED: &str = "note: users wait as long as the latency from the intended start: quote that one\n";

/// That too few requests were due at a rate to know whether it is sustained.
fn too_few_due(report: &Report) -> Option<String> {
    let is_open = report.asked_rate.is_some() && report.outcome != Outcome::Saturated;
    let steps = (1..).zip(&report.steps).map(|(number, step)| (step.requests, format!(" in step {number}")));
    let whole = report.steps.is_empty().then(|| (report.requests, String::new()));
    let (requests, step) = steps.chain(whole).min_by_key(|(requests, _)| *requests)?;
    (is_open && (1..LEAST_DUE).contains(&requests)).then(|| {
        format!(
            "note: only {} due{step}: too few to tell whether the rate is sustained, unless it is far too high; lengthen the load\n",
            if requests == 1 { "1 request was".to_owned() } else { format!("{requests} requests were") }
        )
    })
}

/// What errors were caused by, and why cells are empty.
fn notes(report: &Report) -> String {
    let rows = rows(report);
    let causes = report.causes.iter().map(|(cause, n)| format!("- {}: {cause}\n", count(*n, "error")));
    let missing = rows.iter().filter(|_| report.requests > 0).flat_map(|(name, times)| missing(name, times));
    let is_cut = rows.iter().any(|(_, times)| {
        let percentiles = [&times.p50, &times.p90, &times.p99, &times.p999];
        percentiles.into_iter().any(|reading| matches!(reading, Reading::Missing(Why::TooFew { have: 1.., .. })))
    });
    let needed = is_cut.then(|| NEEDED.to_owned());
    let causes = causes.chain(no_keep_alive(report));
    let has_waited = report.remarks.iter().any(|remark| matches!(remark, Remark::ConnectionsInUse { .. }));
    let is_quoted = report.latency.kind == Some(LatencyKind::Intended) && report.outcome != Outcome::Saturated;
    let quoted = (is_quoted && !has_waited).then(|| QUOTED.to_owned());
    causes.chain(missing).chain(needed).chain(too_few_due(report)).chain(quoted).collect()
}

/// That most requests opened a connection of their own, which was read as what the server needs to answer.
fn no_keep_alive(report: &Report) -> Option<String> {
    // A connection on which an answer came too early was closed by prony itself.
    let cut = report
        .remarks
        .iter()
        .find_map(|remark| if let Remark::Cut { requests } = remark { Some(*requests) } else { None });
    let (opened, all) = (report.connect.samples.saturating_sub(cut.unwrap_or(0)), report.requests);
    let is_one_each = opened.saturating_mul(2) > all && opened > u64::from(report.connections);
    let failed = if report.errors.total() > 0 { ", or requests failed" } else { "" };
    is_one_each.then(|| {
        format!(
            "note: {opened} connections were opened for {}: the server does not keep them open (no keep-alive){failed}; latencies \
             include the time to connect\n",
            count(all, "request")
        )
    })
}

/// Why cells of a row are empty, other than by too few samples, for which one note stands.
fn missing(name: &str, Latency { p50, p90, p99, p999, max, .. }: &Latency) -> Vec<String> {
    let named = [("p50", p50), ("p90", p90), ("p99", p99), ("p99.9", p999), ("max", max)];
    let missing: Vec<(&str, &Why)> = named
        .into_iter()
        .filter_map(|(name, reading)| match reading {
            Reading::Missing(why) => Some((name, why)),
            Reading::Measured(_) => None,
        })
        .collect();
    // The lowest percentile that is missing says why: those above it need more still. A maximum has a reason of its own.
    let lowest = missing.first().map(|(_, why)| *why);
    let (of_max, percentiles): (Vec<_>, Vec<_>) =
        missing.into_iter().partition(|(name, why)| *name == "max" && Some(*why) != lowest);
    let text = |group: Vec<(&str, &Why)>| {
        let (_, why) = group.first()?;
        if matches!(why, Why::TooFew { have: 1.., .. }) {
            return None;
        }
        let names: Vec<&str> = group.iter().map(|(name, _)| *name).collect();
        Some(format!("note: {name}: no {}: {why}\n", names.join(", ")))
    };
    [percentiles, of_max].into_iter().filter_map(text).collect()
}

/// The remarks with their hints.
pub(super) fn remarks(report: &Report) -> String {
    report.remarks.iter().map(|remark| remark_lines("", remark)).collect()
}

/// A remark as a warning, which begins with what it is of.
pub(super) fn remark_lines(of: &str, remark: &prony_http::Remark) -> String {
    let hint = remark.hint().map(|hint| format!("hint: {hint}\n")).unwrap_or_default();
    format!("warning: {of}{remark}\n{hint}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_says_which_answers_count_in_it() {
        let second = Nanos::from_secs(1);
        assert_eq!(within_window(second, Nanos::ZERO, true), "within 1.000 s");
        let parts = ", with a part of each answer that spans its begin or end";
        assert_eq!(within_window(second, Nanos::ZERO, false), format!("within 1.000 s{parts}"));
        let begin = "without the first 20.00 ms, until nearly all connections had an answer";
        assert_eq!(within_window(second, Nanos::from_millis(20), false), format!("within 1.000 s {begin}{parts}"));
    }

    /// `-R 10 -d 1s` printed `1.000 s; with the last answers 923.14 ms`.
    #[test]
    fn time_with_the_last_answers_is_shown_where_it_is_longer() {
        let of = |bound, warm_up: u64, whole: u64| {
            let asked = Asked { bound, warm_up: Nanos::from_secs(warm_up), ..Asked::of("http://127.0.0.1/") };
            time_of(Nanos::from_secs(1), &asked, Nanos::from_millis(whole))
        };
        let second = Bound::Duration(Nanos::from_secs(1));
        assert_eq!(of(second, 0, 923), "1.000 s");
        assert_eq!(of(second, 0, 1_020), "1.000 s; with the last answers 1.020 s");
        assert_eq!(of(second, 2, 3_020), "1.000 s; with 2.000 s of warm-up and the last answers 3.020 s");
        assert_eq!(of(Bound::Requests(9), 0, 1_020), "1.000 s");
    }
}
