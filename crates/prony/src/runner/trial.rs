//! One trial as a record: launched, run through its phases, ended, and judged by how it ended.

use prony_analysis::conclude::{Observed, Reached, conclude};
use prony_analysis::guard::{self, Finding};
use prony_model::metric::{Metric, MetricKey};
use prony_model::reading::Reading;
use prony_model::record::{Conditions, Effective, Machine, PhaseRecord, ProcessSeries, TrialRecord};
use prony_model::spec::{PhaseSpec, Subject, TrialSpec};
use prony_model::trial::PlannedTrial;
use prony_model::units::{Bytes, Nanos};
use prony_os::clock::{SystemClock, monotonic};
use prony_os::host::{moment, quiesce};
use prony_os::runs::Announced;
use prony_os::sample::{Processes, phase_readings};

use super::assemble;
use super::ending;
use super::lab::Lab;
use super::observer::Observer;
use super::program;
use super::recorder::Recorder;
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
    run_with(lab, trial, None, observer)
}

/// The same, profiled where there is a recorder.
///
/// # Errors
/// As [`run`].
pub fn run_with(
    lab: &Lab<'_>,
    trial: &PlannedTrial,
    recorder: Option<&mut Recorder>,
    observer: &mut dyn Observer,
) -> Result<TrialRecord, Error> {
    let spec = &lab.experiment.variants()[trial.variant].spec;
    let others = || lab.announced.as_ref().map(Announced::others);
    let before = others();
    let mut record = match &spec.subject {
        Subject::Program(program) => program::run(lab, trial, spec, program, recorder, observer)?,
        _ => of_store(lab, trial, spec, recorder, observer)?,
    };
    let beside = before.zip(others()).filter(|(before, after)| after.any_since(before));
    record.findings.extend(beside.map(|(before, after)| guard::trial::other_run(before.count.max(after.count))));
    let program = spec.subject.program();
    record
        .findings
        .extend(program.and_then(|program| lab.places.source_changed(program, lab.experiment.observe().care)));
    Ok(record)
}

fn of_store(
    lab: &Lab<'_>,
    trial: &PlannedTrial,
    spec: &TrialSpec,
    recorder: Option<&mut Recorder>,
    observer: &mut dyn Observer,
) -> Result<TrialRecord, Error> {
    let quiet = quiesce(&lab.near, QUIET_CAP, &SystemClock);
    let canary = lab.canary_before();
    let before = moment(None);
    let (began, started_unix_ms) = (monotonic(), unix_ms());
    let mut session = Session::launch(lab, spec, trial, recorder)?;
    let stop = phases(&mut session, spec, observer).err();
    let stopped = monotonic();
    let closed = session.close(stop.is_none())?;
    let observed = observed(spec, &closed.visits, &closed.sampled.series);
    let notes: Vec<Finding> = spec.phases.iter().zip(&closed.visits).flat_map(|(p, v)| assemble::notes(p, v)).collect();
    let after = stopped.since(last_begin(&closed.visits).unwrap_or(began));
    let ending = ending::judge(spec, stop.as_ref(), &closed, after);
    let (ending, phases) = conclude(&spec.phases, lab.experiment.compare().errors, ending, observed);
    let took = monotonic().since(began);
    let later = moment(None);
    let watched = spec.phases.iter().enumerate();
    let watched = watched.map(|(at, phase)| (phase, closed.visits.get(at).and_then(|visit| visit.settled.as_ref())));
    let machine = Machine::between(quiet, (before, canary), (later, lab.canary_after()));
    let mut record = TrialRecord {
        trial: *trial,
        started_unix_ms,
        took,
        ending,
        phases,
        effective: closed.effective.map(Effective::Store),
        conditions: Conditions {
            machine: Reading::Measured(machine),
            memory: Some(closed.end.memory),
            settled: assemble::watched(watched),
            killed_at_the_end: closed.finished.killed,
            ..Conditions::default()
        },
        series: closed.sampled.series,
        sampler_cpu: closed.sampled.cpu,
        findings: Vec::new(),
    };
    record.findings = guard::trial::check(spec, &record, lab.clock_cost);
    record.findings.extend(notes);
    record.findings.extend(disk(lab, &record));
    record.findings.extend(close_without_phase(&record, closed.end.at.since(stopped)));
    Ok(record)
}

/// What is done once when a session of a run ends.
///
/// # Errors
/// Where a program's `cleanup` fails.
pub fn clean_up(lab: &Lab<'_>) -> Result<(), Error> {
    let program = |variant: usize| lab.experiment.variants().get(variant)?.spec.subject.program();
    lab.places.clean_up(lab.means(), program)
}

/// Work at the close of a trial that went well and has no phase for it.
fn close_without_phase(record: &TrialRecord, closing: Nanos) -> Option<Finding> {
    let closed = record.phases.last().is_some_and(|phase| phase.action == "close");
    let wall = |phase: &PhaseRecord| Some(phase.end?.since(phase.begin?).as_nanos());
    let phases = record.phases.iter().filter(|phase| phase.timed).filter_map(wall).sum();
    let well = record.ending.outcome.is_ok() && !closed;
    // Ending a process takes some milliseconds, whatever it holds.
    let long = closing >= Nanos::from_millis(100);
    (well && long).then(|| guard::trial::untimed_close(closing, Nanos::from_nanos(phases)))?
}

/// Whether the next trial's store may still fit.
fn disk(lab: &Lab<'_>, record: &TrialRecord) -> Option<Finding> {
    let stat = rustix::fs::statvfs(&lab.near).ok()?;
    let bytes = |blocks: u64| Bytes::from_bytes(blocks.saturating_mul(stat.f_frsize));
    let of = |phase: &PhaseRecord| phase.reading(MetricKey::amount(Metric::Disk))?.measured().copied();
    let store = record.phases.iter().filter_map(of).fold(0.0, f64::max);
    guard::trial::disk_nearly_full(bytes(stat.f_bavail), bytes(stat.f_blocks), Bytes::from_bytes(store as u64))
}

fn phases(session: &mut Session<'_>, spec: &TrialSpec, observer: &mut dyn Observer) -> Result<(), Stop> {
    session.ready()?;
    (0..spec.phases.len()).try_for_each(|index| session.phase(index, observer))
}

fn last_begin(visits: &[Visit]) -> Option<Nanos> {
    visits.last().map(|visit| visit.span.0)
}

/// Every phase of the variant: those visited with their figures, the rest as not reached.
fn observed(spec: &TrialSpec, visits: &[Visit], series: &[ProcessSeries]) -> Vec<Observed> {
    let record = |(index, phase): (usize, &PhaseSpec)| match visits.get(index) {
        None => Observed::new(assemble::not_reached(phase), Reached::Nothing),
        Some(visit) => {
            let outside = visit.end.as_ref().map(|end| phase_readings(&visit.begin, end, series, ""));
            let mut observed = assemble::begun(phase, visit, outside.unwrap_or_default());
            let record = &mut observed.phase;
            if let (Some(end), Some(cpu)) = (&visit.end, record.reading(MetricKey::amount(Metric::Cpu)).cloned()) {
                let (begin, at_rest) = (&visit.begin, &end.processes[..]);
                let between = (begin.at, end.at);
                let processes = Processes { begin, end, between, at_rest, left_out: &[], series, cpu: &cpu };
                record.readings.extend(processes.readings());
            }
            observed
        }
    };
    spec.phases.iter().enumerate().map(record).collect()
}
