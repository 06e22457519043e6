//! The report of a trial's phase from the account of its load.

use std::collections::BTreeMap;

use prony_model::latency::LatencyError;
use prony_model::protocol::{PhaseReport, RequestsReport};
use prony_model::record::LatencyKind;
use prony_model::units::Nanos;

use crate::load::Load;
use crate::ran::Ran;
use crate::report::Report;
use crate::tally::Failure;

/// What a load measured, as the report of its phase.
///
/// # Errors
/// Where a histogram cannot be encoded.
pub(crate) fn of(load: &Load, ran: Ran) -> Result<PhaseReport, LatencyError> {
    let report = Report::new(load, &ran);
    let tally = &ran.tally;
    let skipped = tally.failures.get(&Failure::NotStarted).copied().unwrap_or_default();
    let open = tally.open.as_ref();
    let kind = if open.is_some() { LatencyKind::Intended } else { LatencyKind::Service };
    let latency = tally.latency.to_record("request", kind)?;
    let actual = open.map(|open| open.actual.to_record("request", LatencyKind::Actual)).transpose()?;
    Ok(PhaseReport {
        time: ran.window,
        gap: Some(Nanos::ZERO),
        operations: tally.ok,
        errors: tally.failed_requests() - skipped,
        skipped,
        saturated: ran.is_saturated(),
        histograms: [latency].into_iter().chain(actual).collect(),
        distinct: Some(report.sent.distinct_paths),
        requests: Some(RequestsReport {
            statuses: report.statuses,
            timeouts: report.errors.timeout,
            unfinished: report.errors.unfinished,
            bodies: report.sent.distinct_bodies,
            paths: report.sent.distinct_paths,
            bytes: (report.sent.bytes, report.received),
            connections: report.connect.samples,
        }),
        user_bytes: 0,
        error_texts: BTreeMap::new(),
        notes: report.remarks.iter().map(ToString::to_string).collect(),
        ..PhaseReport::default()
    })
}
