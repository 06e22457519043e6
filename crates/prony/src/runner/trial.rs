//! One trial as a record: launched, run through its phases, ended, and judged by how it ended.

use prony_core::experiment::spec::{PhaseSpec, TrialSpec};
use prony_core::plan::PlannedTrial;
use prony_core::record::{PhaseRecord, ProcessSeries, TrialRecord};
use prony_core::units::Nanos;
use prony_probe::clock::{SystemClock, monotonic};
use prony_probe::host::{Conditions, Moment, quiesce};
use prony_probe::sample::phase_readings;
use serde_json::json;

use super::assemble;
use super::ending;
use super::lab::Lab;
use super::observer::Observer;
use super::session::{Session, Stop, Visit};
use super::unix_ms;
use crate::error::Error;

/// Others may write to the disk without end: so long a trial waits for quiet.
const QUIET_CAP: Nanos = Nanos::from_secs(10);

/// Runs one trial of the plan from launch to clean-up.
///
/// # Errors
/// Where the machine refuses what every trial needs; how a subject ends is no error but an outcome.
pub fn run(lab: &Lab<'_>, trial: &PlannedTrial, observer: &mut dyn Observer) -> Result<TrialRecord, Error> {
    let spec = &lab.experiment.variants()[trial.variant].spec;
    let quiet = quiesce(&lab.near, QUIET_CAP, &SystemClock);
    let (moment, canary) = (Moment::now(None), lab.canaries.sing(&lab.near));
    let (began, started_unix_ms) = (monotonic(), unix_ms());
    let mut session = Session::launch(lab, spec, trial)?;
    let stop = phases(&mut session, spec, observer).err();
    let stopped = monotonic();
    let closed = session.close(stop.is_none())?;
    let phases = records(spec, &closed.visits, &closed.sampled.series);
    let after = stopped.since(last_begin(&closed.visits).unwrap_or(began));
    let ending = ending::judge(spec, stop.as_ref(), &closed, after);
    let took = monotonic().since(began);
    let conditions = Conditions::between(moment, canary, Moment::now(None), lab.canaries.sing(&lab.near));
    Ok(TrialRecord {
        trial: *trial,
        started_unix_ms,
        took,
        ending,
        phases,
        effective: closed.effective,
        conditions: json!({ "machine": conditions, "quiesced": quiet, "memory": closed.end.memory }),
        series: closed.sampled.series,
        sampler_cpu: closed.sampled.cpu,
        findings: Vec::new(),
    })
}

fn phases(session: &mut Session<'_>, spec: &TrialSpec, observer: &mut dyn Observer) -> Result<(), Stop> {
    session.ready()?;
    (0..spec.phases.len()).try_for_each(|index| session.phase(index, observer))
}

fn last_begin(visits: &[Visit]) -> Option<Nanos> {
    visits.last().map(|visit| visit.span.0)
}

/// Every phase of the variant: those visited with their figures, the rest as not reached.
fn records(spec: &TrialSpec, visits: &[Visit], series: &[ProcessSeries]) -> Vec<PhaseRecord> {
    let record = |(index, phase): (usize, &PhaseSpec)| match visits.get(index) {
        None => assemble::not_reached(phase),
        Some(visit) => {
            let outside = visit.end.as_ref().map(|end| phase_readings(&visit.begin, end, series, ""));
            assemble::begun(phase, visit, outside.unwrap_or_default())
        }
    };
    spec.phases.iter().enumerate().map(record).collect()
}
