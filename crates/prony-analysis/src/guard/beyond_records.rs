//! Finds phases bounded by time that did more puts or deletes than there are records: the other puts replace what the phase itself
//! stored, and the other deletes remove nothing. Their rates and times include this other work. Where a count is too large, `prony
//! check` says so beforehand.

use serde_json::json;

use super::{Finding, Severity, questions};
use prony_model::metric::Metric;
use prony_model::number::count;
use prony_model::record::{Completion, PhaseRecord, TrialRecord};
use prony_model::spec::{Action, Amount, TrialSpec};

/// The name of the finding.
const GUARD: &str = "beyond_records";

/// Of each phase of a trial that has put or removed more records than there are.
pub(super) fn check(spec: &TrialSpec, record: &TrialRecord) -> Vec<Finding> {
    let reached = record.phases.iter().filter(|phase| phase.completion != Completion::NotReached);
    reached.filter_map(|phase| finding(spec, phase)).collect()
}

fn finding(spec: &TrialSpec, phase: &PhaseRecord) -> Option<Finding> {
    let action = &questions::named(spec, &phase.name)?.action;
    let (Action::Put(ops) | Action::Delete(ops)) = action else { return None };
    let Amount::Duration(_) = ops.amount else { return None };
    let records = spec.collection(ops)?.records;
    let done = phase.amount_of("", Metric::Operations)?;
    let beyond = done - records as f64;
    if beyond <= 0.0 {
        return None;
    }
    let (work, hint) = match action {
        Action::Put(_) => (
            "replace what the phase itself has stored",
            "raise `records`, bound the phase by `count`, or write an `update` phase to replace records",
        ),
        _ => ("remove nothing", "raise `records`, or bound the phase by `count`"),
    };
    let message = format!(
        "{done:.0} operations on a collection of {}: {beyond:.0} or more of them {work}",
        count(records, "record")
    );
    let found = Finding::of(GUARD, Severity::Warning, message, hint).in_phase(&phase.name);
    Some(found.with(json!({ "operations": done, "records": records })))
}
