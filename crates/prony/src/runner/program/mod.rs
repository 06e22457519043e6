//! A trial of a program: launched held, observed, released, read along, and ended with its whole tree.

pub mod calls;
pub mod ending;
pub mod figures;
pub mod heaps;
pub mod held;
pub mod holds;
pub mod marks;
pub mod probe;
pub mod seen;
pub mod stage;
pub mod stream;
pub mod threads;
pub mod told;
pub mod tracker;
pub mod watch;

use std::collections::BTreeMap;
use std::path::Path;

use prony_core::experiment::program::{CommandLine, ProgramSpec};
use prony_core::experiment::spec::TrialSpec;
use prony_core::guard;
use prony_core::plan::PlannedTrial;
use prony_core::record::{ProcessSeries, TrialRecord};
use prony_core::units::Nanos;
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
use seen::Seen;
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
    let (mut launch, ends) = setting.launch()?;
    let probing = probe::install(&mut launch, program, &spec.phases, &scratch)?;
    let (release, sampler) = stage.hold(lab, spec, program, launch)?;
    let seen = Seen::new(spec, &sampler, &probing, trial.position, observer);
    let (mut watched, running) = watch::watch(release, ends, seen, spec.limits.trial, &lab.interrupt)?;
    let sampled = sampler.finish();
    // They lie in the scratch, which is cleared with the stage.
    let deaths = probing.deaths()?;
    let finished = stage.clear(lab, running)?;
    watched.threads.finish(watched.ended.at, &deaths, &last_seen(&sampled.series));
    let silent = probing.silent();
    let mut effective = effective(program, spec, &place, &setting.directory, &watched);
    effective["calls"] = told::calls(&spec.phases, &watched, &silent);
    let phases = figures::records(&spec.phases, &watched, &sampled.series, &silent);
    let ending = ending::judge(program, &spec.phases, &watched, &finished, &deaths);
    let more = json!({
        "memory": watched.ended.memory,
        "killed_at_the_end": finished.killed,
        "probe": told::probe(&spec.phases, &watched, &probing, &deaths),
    });
    let took = monotonic().since(began);
    let mut record = TrialRecord {
        trial: *trial,
        started_unix_ms,
        took,
        ending,
        phases,
        effective,
        conditions: around.after(lab, more),
        series: sampled.series,
        sampler_cpu: sampled.cpu,
        findings: Vec::new(),
    };
    record.findings = guard::trial::check(spec, &record, lab.clock_cost);
    Ok(record)
}

/// When each process was sampled last.
fn last_seen(series: &[ProcessSeries]) -> BTreeMap<u32, Nanos> {
    series.iter().filter_map(|process| Some((process.pid, process.samples.last()?.at))).collect()
}

/// What really ran, and what it left behind.
fn effective(program: &ProgramSpec, spec: &TrialSpec, place: &Place, directory: &Path, watched: &Watched) -> Value {
    let words = program.command.words();
    let shell = matches!(program.command, CommandLine::Shell { .. });
    let output = |captured: &Captured| json!(captured);
    let tracked = spec.phases.iter().zip(&watched.tracker.phases);
    let silent = tracked.filter(|(_, phase)| phase.ended.is_some() && phase.heard_nothing());
    let heard_nothing: Vec<&str> = silent.map(|(phase, _)| phase.name.as_str()).collect();
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
        "heard_nothing": heard_nothing,
        "executed_after": watched.executed.since(watched.released),
    })
}
