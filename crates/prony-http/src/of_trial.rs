//! The load of a trial's phase, from its specification.

use prony_model::http::{BodySpec, HttpAmount, HttpSpec, Part, Template};
use prony_model::spec::{Action, PhaseSpec};
use prony_workload::phase_seed;

use crate::asked::{Asked, Bound, Loop};
use crate::error::Fault;
use crate::host::Trial;
use crate::load::Load;

/// The load of a phase.
///
/// # Errors
/// All faults.
pub(crate) fn load(trial: Trial<'_>, phase: &PhaseSpec) -> Result<Load, Vec<Fault>> {
    let Action::Http(spec) = &phase.action else {
        return Err(vec![Fault::new(format!("phase `{}` has no requests", phase.name), "")]);
    };
    Load::check(asked(spec, phase_seed(trial.seed, &phase.name)).map_err(|fault| vec![fault])?)
}

fn asked(spec: &HttpSpec, seed: u64) -> Result<Asked, Fault> {
    let fields = spec.headers.iter().map(|(name, value)| Ok(format!("{name}: {}", text(value)?)));
    let body = match &spec.body {
        None => None,
        Some(BodySpec::Text(template)) => Some(text(template)?.into_bytes()),
        Some(_) => return Err(Fault::new("bodies of documents and files are not supported", "")),
    };
    let bound = match spec.amount {
        HttpAmount::Requests(requests) => Bound::Requests(requests),
        HttpAmount::Duration(duration) => Bound::Duration(duration),
        HttpAmount::Records => return Err(Fault::new("requests for records are not supported", "")),
    };
    Ok(Asked {
        url: format!("{}{}", spec.server, text(&spec.path)?),
        method: Some(spec.method.clone()),
        headers: fields.collect::<Result<_, Fault>>()?,
        body,
        connections: spec.connections,
        threads: spec.threads,
        pace: spec.rate.map_or(Loop::Closed, Loop::Open),
        bound,
        warm_up: spec.warm_up,
        timeout: spec.timeout,
        expect: spec.expect.clone(),
        seed,
        other_machines: spec.other_machines,
        ..Asked::of("")
    })
}

fn text(template: &Template) -> Result<String, Fault> {
    let part = |part: &Part| match part {
        Part::Text(text) => Ok(text.clone()),
        Part::Number => Ok("{i}".to_owned()),
        Part::Saved(_) | Part::Field(_) => Err(Fault::new("values of answers and documents are not supported", "")),
    };
    template.0.iter().map(part).collect()
}
