//! A trial of a program: launched held, observed, released, read along, and ended with its whole tree.

pub mod ending;
pub mod figures;
pub mod marks;
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
use prony_probe::launch::{Captured, Scratch};
use prony_probe::limits::Group;
use prony_probe::sample::{Root, Sampler, Settings};
use serde_json::{Value, json};

use super::around::Around;
use super::lab::Lab;
use super::observer::Observer;
use super::place::setting::Setting;
use super::place::{self, Place};
use super::recorder::Recorder;
use super::unix_ms;
use crate::error::Error;
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
    mut recorder: Option<&mut Recorder>,
    observer: &mut dyn Observer,
) -> Result<TrialRecord, Error> {
    let means = lab.means();
    let place = lab.places.of(means, trial.variant, spec, program)?;
    let scratch = Scratch::create(&lab.near)?;
    let directory = place.directory(program, scratch.path())?;
    let setting = Setting { program, scratch: scratch.path(), directory };
    if let Some(prepare) = &program.prepare {
        place::step(means, &setting, "prepare", prepare)?;
    }
    let around = Around::before(lab);
    let (began, started_unix_ms) = (monotonic(), unix_ms());
    let group = Group::create(&spec.limits)?;
    let counting = group.directories().into_iter().find(|dir| super::session::counts_cpu(dir)).map(Path::to_path_buf);
    let (mut launch, ends) = setting.launch()?;
    launch.group = Some(group);
    if let Some(recorder) = &recorder {
        recorder.environment(&mut launch.env)?;
    }
    let held = lab.launcher.start(launch)?;
    if let Some(recorder) = &mut recorder {
        recorder.attach(held.pid());
    }
    let settings = Settings { hertz: lab.experiment.observe().hertz, group: counting, ..Settings::default() };
    let sampler = Sampler::start(vec![Root::subject(held.pid(), &program.name)], settings)
        .map_err(|source| Error::Setup { doing: "start the sampler", source })?;
    sampler.count_syncs(&program.name, lab.tracepoints.follow(held.pid()));
    let (watched, running) = watch::watch(held, ends, spec, &sampler, &lab.interrupt, trial.position, observer)?;
    let sampled = sampler.finish();
    let effective = effective(program, &place, &setting.directory, &watched);
    let phases = figures::records(program, &spec.phases, &watched, &sampled.series);
    let memory = json!(watched.ended.memory);
    let finished = running.finish()?;
    let ending = ending::judge(program, &spec.phases, &watched, &finished);
    if let Some(recorder) = &mut recorder {
        recorder.collect();
    }
    scratch.remove()?;
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
