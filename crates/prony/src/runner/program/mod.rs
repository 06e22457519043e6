//! A trial of a program: launched held, observed, released, read along, and ended with its whole tree.

pub mod ending;
pub mod figures;
pub mod marks;
pub mod stage;
pub mod stream;
pub mod tracker;
pub mod watch;

use std::path::Path;

use prony_core::experiment::program::{CommandLine, ProgramSpec};
use prony_core::experiment::spec::TrialSpec;
use prony_core::guard;
use prony_core::plan::PlannedTrial;
use prony_core::record::TrialRecord;
use prony_probe::clock::monotonic;
use prony_probe::launch::Captured;
use serde_json::{Value, json};

use super::around::Around;
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
/// Where the program cannot be started, or the machine refuses what every trial needs; how a program ends is an outcome.
pub fn run(
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
    let (watched, running) = watch::watch(release, ends, spec, &sampler, &lab.interrupt, trial.position, observer)?;
    let sampled = sampler.finish();
    let effective = effective(program, &place, &setting.directory, &watched);
    let phases = figures::records(program, &spec.phases, &watched, &sampled.series);
    let memory = json!(watched.ended.memory);
    let finished = stage.clear(lab, running)?;
    let ending = ending::judge(program, &spec.phases, &watched, &finished);
    let took = monotonic().since(began);
    let mut record = TrialRecord {
        trial: *trial,
        started_unix_ms,
        took,
        ending,
        phases,
        effective,
        conditions: around.after(lab, json!({ "memory": memory, "killed_at_the_end": finished.killed })),
        series: sampled.series,
        sampler_cpu: sampled.cpu,
        findings: Vec::new(),
    };
    record.findings = guard::trial::check(spec, &record, lab.clock_cost);
    Ok(record)
}

/// What really ran, and what it left behind.
fn effective(program: &ProgramSpec, place: &Place, directory: &Path, watched: &Watched) -> Value {
    let words = program.command.words();
    let shell = matches!(program.command, CommandLine::Shell { .. });
    let output = |captured: &Captured| json!(captured);
    json!({
        "program": program.name,
        "command": words,
        "shell": shell,
        "directory": directory,
        "copy": program.copy,
        "changes": place.changed,
        "env": program.env,
        "inherit": program.inherit,
        "runtime": program.runtime,
        "pty": program.pty,
        "status": watched.ended.status,
        "output": { "stdout": output(&watched.output[0]), "stderr": output(&watched.output[1]) },
        "left_behind": watched.ended.leftover,
        "strange_marks": watched.tracker.strange,
        "executed_after": watched.executed.since(watched.released),
    })
}
