//! A trial of a program: launched held, observed, released, read along, and ended with its whole tree.

pub mod ending;
pub mod figures;
pub mod marks;
pub mod stage;
pub mod stream;
pub mod tracker;
pub mod watch;

use std::path::Path;

use prony_core::experiment::program::{CommandLine, DIR, ProgramSpec};
use prony_core::experiment::spec::TrialSpec;
use prony_core::guard;
use prony_core::outcome::{Ending, Outcome};
use prony_core::plan::PlannedTrial;
use prony_core::record::TrialRecord;
use prony_core::units::Nanos;
use prony_probe::Error::{Directory as NotEntered, Exec as NotExecuted};
use prony_probe::clock::monotonic;
use prony_probe::launch::Captured;
use serde_json::{Value, json};

use super::around::Around;
use super::assemble;
use super::lab::Lab;
use super::observer::Observer;
use super::place::setting::Setting;
use super::place::{self, Place};
use super::unix_ms;
use crate::error::Error;
use stage::Stage;
use watch::Watched;

/// Runs one trial from launch to clean-up.
///
/// # Errors
/// Where the machine refuses what every trial needs, or what is done beside the program fails; how a program ends, also
/// before it began, is an outcome.
pub fn run(
    lab: &Lab<'_>,
    trial: &PlannedTrial,
    spec: &TrialSpec,
    program: &ProgramSpec,
    observer: &mut dyn Observer,
) -> Result<TrialRecord, Error> {
    match attempt(lab, trial, spec, program, observer) {
        // A supervisor that was killed before the program began: nothing was measured, and another takes its place.
        Err(Error::Probe(prony_probe::Error::SupervisorGone { .. })) => attempt(lab, trial, spec, program, observer),
        attempted => attempted,
    }
}

fn attempt(
    lab: &Lab<'_>,
    trial: &PlannedTrial,
    spec: &TrialSpec,
    program: &ProgramSpec,
    observer: &mut dyn Observer,
) -> Result<TrialRecord, Error> {
    let means = lab.means();
    let place = lab.places.of(means, trial.variant, spec, program)?;
    let mut stage = Stage::set(lab, spec, program, &place)?;
    let scratch = stage.scratch().to_path_buf();
    let directory = place.directory(program, &scratch)?;
    let setting = Setting { program, scratch: &scratch, directory };
    if let Some(prepare) = &program.prepare {
        place::step(means, &setting, "prepare", prepare)?;
    }
    let around = Around::before(lab);
    let (began, started_unix_ms) = (monotonic(), unix_ms());
    let (launch, ends) = setting.launch()?;
    let (release, sampler) = stage.hold(lab, spec, program, launch)?;
    let watched = watch::watch(release, ends, spec, &sampler, &lab.interrupt, trial.position, observer);
    let sampled = sampler.finish();
    let mut record = TrialRecord {
        trial: *trial,
        started_unix_ms,
        took: Nanos::ZERO,
        ending: Ending { outcome: Outcome::Ok, phase: None, after: Nanos::ZERO, evidence: Vec::new() },
        phases: Vec::new(),
        effective: Value::Null,
        conditions: Value::Null,
        series: Vec::new(),
        sampler_cpu: sampled.cpu,
        findings: Vec::new(),
    };
    let more = match watched {
        Err(Error::Probe(error @ (NotExecuted { .. } | NotEntered { .. }))) => {
            record.ending = ending::not_begun(&error);
            record.phases = spec.phases.iter().map(assemble::not_reached).collect();
            record.effective = declared(program, &place, &setting.directory);
            json!({})
        }
        watched => {
            let (watched, running) = watched?;
            record.effective = effective(program, &place, &setting.directory, &watched);
            record.phases = figures::records(program, &spec.phases, &watched, &sampled.series);
            record.series = sampled.series;
            let finished = stage.clear(lab, running)?;
            record.ending = ending::judge(program, &spec.phases, &watched, &finished);
            json!({ "memory": watched.ended.memory, "killed_at_the_end": finished.killed })
        }
    };
    record.took = monotonic().since(began);
    record.conditions = around.after(lab, more);
    record.findings = guard::trial::check(spec, &record, lab.clock_cost);
    Ok(record)
}

/// What was asked to run.
fn declared(program: &ProgramSpec, place: &Place, directory: &Path) -> Value {
    json!({
        "program": program.name,
        "command": program.command.words().iter().map(|word| word.replace(DIR, &directory.to_string_lossy())).collect::<Vec<_>>(),
        "shell": matches!(program.command, CommandLine::Shell { .. }),
        "directory": directory,
        "copy": program.copy,
        "changes": place.changed,
        "env": program.env,
        "inherit": program.inherit,
        "runtime": program.runtime,
        "pty": program.pty,
    })
}

/// What really ran, and what it left behind.
fn effective(program: &ProgramSpec, place: &Place, directory: &Path, watched: &Watched) -> Value {
    let output = |captured: &Captured| json!(captured);
    let mut all = declared(program, place, directory);
    let seen = json!({
        "status": watched.ended.status,
        "output": { "stdout": output(&watched.output[0]), "stderr": output(&watched.output[1]) },
        "left_behind": watched.ended.leftover,
        "strange_marks": watched.tracker.strange,
        "executed_after": watched.executed.since(watched.released),
    });
    if let (Some(all), Value::Object(seen)) = (all.as_object_mut(), seen) {
        all.extend(seen);
    }
    all
}
