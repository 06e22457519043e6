//! The report of a trial's phase from the account of its load.

use std::collections::BTreeMap;

use prony_model::http::{kind_instance, step_instance};
use prony_model::latency::LatencyError;
use prony_model::number::percent_with;
use prony_model::protocol::{PhaseReport, RequestsPart, RequestsReport};
use prony_model::reading::Reading;
use prony_model::record::LatencyKind;
use prony_model::throughput::Series;
use prony_model::units::Nanos;
use prony_workload::Distinct;

use crate::answer_check::AnswerCheck;
use crate::asked::Bound;
use crate::checked_load::Load;
use crate::failure::{Errors, Failure};
use crate::kinds::Kind;
use crate::ran::Ran;
use crate::remark::Remark;
use crate::report::{Counted, REQUEST, Report, StepReport, histograms, rate};
use crate::step_tally::Part;
use crate::tally::Tally;
use crate::variety::Variety;

/// What a load measured, as the report of its phase.
///
/// # Errors
/// Where a histogram cannot be encoded.
pub(crate) fn of(load: &Load, ran: &Ran) -> Result<PhaseReport, LatencyError> {
    let report = Report::new(load, ran);
    let tally = &ran.tally;
    let skipped = report.errors.not_started;
    let open = tally.open.as_ref();
    let kind = if open.is_some() { LatencyKind::Intended } else { LatencyKind::Service };
    let parts = [steps(&report, tally)?, kinds(load, ran, kind)?].concat();
    // Other requests are measured where a time bounds the load, or begins the figures, and others are answered where some fail.
    let bound = matches!(load.asked().bound, Bound::Requests(_)) && load.asked().warm_up == Nanos::ZERO;
    let comparable = bound && !ran.interrupted && tally.failed_requests() == 0;
    let checks = load.content().kinds.all().iter().filter_map(|kind| kind.answer_check.as_ref());
    let answer = tally.read.answer(checks, comparable);
    let notes = report
        .remarks
        .iter()
        .filter(is_noted)
        .map(ToString::to_string)
        .chain(estimates(tally))
        .chain(load.content().notes.iter().cloned())
        .collect();
    let remark = |is: fn(&Remark) -> bool| report.remarks.iter().find(|remark| is(remark)).map(ToString::to_string);
    Ok(PhaseReport {
        time: ran.window,
        gap: Some(Nanos::ZERO),
        operations: tally.ok,
        errors: tally.failed_requests() - skipped,
        skipped,
        lag: open.map(|open| open.worst),
        saturated: ran.is_saturated(),
        histograms: histograms(tally, kind)?,
        throughput: tally.series.clone().map(Series::into_throughput),
        distinct: Some(tally.places.as_ref().map_or(report.sent.distinct_paths, Distinct::count)),
        rows: answer.as_ref().and_then(|answer| answer.rows),
        answer,
        user_bytes: tally.body_bytes,
        error_texts: error_texts(tally),
        requests: Some(RequestsReport {
            rate: report.rate,
            statuses: report.statuses,
            timeouts: report.errors.timeout,
            unfinished: report.errors.unfinished,
            bodies: report.sent.distinct_bodies,
            paths: report.sent.distinct_paths,
            bytes: (report.sent.bytes, report.received),
            connections: tally.connections,
            connect: Some(tally.connect.to_record(REQUEST, LatencyKind::Actual)?),
            first_byte: Some(tally.first_byte.to_record(REQUEST, LatencyKind::Actual)?),
            waited_for_connection: report.waited_for_connection,
            retries: report.retried.as_ref().map(Errors::total),
            busy: remark(is_busy),
            stalled: remark(is_stalled),
            lingers: true,
            surplus: None,
            parts,
        }),
        notes,
        ..PhaseReport::default()
    })
}

/// The steps of the schedule as parts of the requests.
fn steps(report: &Report, tally: &Tally) -> Result<Vec<RequestsPart>, LatencyError> {
    let counted = tally.steps.iter().flat_map(|steps| &steps.all);
    let one = |((number, step), of): ((usize, &StepReport), &Part)| {
        part(step_instance(number), of, None, step.rate.clone(), LatencyKind::Intended)
    };
    (1..).zip(&report.steps).zip(counted).map(one).collect()
}

/// The kinds of a mix or a session as parts of the requests.
fn kinds(load: &Load, ran: &Ran, latency: LatencyKind) -> Result<Vec<RequestsPart>, LatencyError> {
    let kinds = &load.content().kinds;
    let counts_rows = |kind: &Kind| kind.answer_check.as_ref().is_some_and(AnswerCheck::counts_rows);
    let is_sustained = ran.is_sustained(load);
    let one = |((name, kind), of): ((&str, &Kind), &Part)| {
        let rows = counts_rows(kind).then_some(of.rows);
        let counted = Counted { time: ran.window, ok: of.ok, answers: of.answers, is_sustained };
        // In the same time as all requests, so that the rates of the kinds add up to that of the phase.
        part(kind_instance(name), of, rows, rate(load, ran, &counted), latency)
    };
    kinds.names().zip(kinds.all()).zip(&ran.tally.kinds).map(one).collect()
}

fn part(
    name: String,
    of: &Part,
    rows: Option<u64>,
    rate: Reading<f64>,
    latency: LatencyKind,
) -> Result<RequestsPart, LatencyError> {
    let (errors, skipped) = (of.failed - of.not_started, of.not_started);
    let latency = of.latency.to_record(REQUEST, latency)?;
    Ok(RequestsPart { name, ok: of.ok, errors, skipped, rows, rate, latency })
}

/// Whether a remark is a note of the phase. Of bodies that are the same and of requests that wait for a connection guards speak,
/// from the record; a load generator that is the limit and stalls are warnings.
const fn is_noted(remark: &&Remark) -> bool {
    !matches!(remark, Remark::SameBody { .. } | Remark::ConnectionsInUse { .. })
        && !is_busy(remark)
        && !is_stalled(remark)
}

const fn is_busy(remark: &Remark) -> bool {
    matches!(remark, Remark::GeneratorBusy { .. })
}

const fn is_stalled(remark: &Remark) -> bool {
    matches!(remark, Remark::Stalled { .. })
}

/// Errors by kind, with their cause where it is known; all of them are in it, and no request that was never started.
fn error_texts(tally: &Tally) -> BTreeMap<String, u64> {
    let mut texts = BTreeMap::<String, u64>::new();
    texts.extend(tally.unexpected.iter().map(|(status, count)| (format!("status {status}"), *count)));
    let errors = tally.failures.iter().filter(|(kind, _)| !matches!(kind, Failure::Status | Failure::NotStarted));
    for (kind, count) in errors {
        let mut rest = *count;
        for ((_, cause), count) in tally.causes.iter().filter(|((of, _), _)| of == kind) {
            // Which kind of error of the system made a connection end is no different kind of error of the request.
            if !matches!(kind, Failure::Refused | Failure::Reset | Failure::Closed) {
                *texts.entry(format!("{}: {cause}", kind.text())).or_default() += count;
                rest -= count;
            }
        }
        if rest > 0 {
            *texts.entry(kind.text().to_owned()).or_default() += rest;
        }
    }
    texts
}

/// Which counts are estimates.
fn estimates(tally: &Tally) -> impl Iterator<Item = String> {
    let places = tally.places.as_ref().map_or(0.0, Distinct::relative_error);
    let bodies = tally.bodies.as_ref().map_or(0.0, Variety::relative_error);
    let all = [("records", places), ("paths", tally.paths.relative_error()), ("bodies", bodies)];
    all.into_iter().filter(|(_, error)| *error > 0.0).map(|(what, error)| {
        format!("distinct {what} are estimated, with a standard error of {}", percent_with(error, 1))
    })
}
