//! Profiles as numbers, for the JSON document: functions and packages of each phase. The raw samples are in the files that
//! `prony profile --format raw` writes.

use prony_analysis::profile::{Selection, Share};
use prony_model::reading::Reading;
use prony_model::units::Nanos;
use serde::Serialize;

use crate::profiles::{PhaseProfile, VariantProfile};

/// The profile of one variant, or why there is none.
#[derive(Serialize)]
pub(super) struct ProfileOut<'a> {
    variant: usize,
    name: &'a str,
    profiler: &'static str,
    about: &'static str,
    interval_ns: Option<u64>,
    missing: Option<String>,
    clock_within_ns: Option<u64>,
    outcome: Option<&'static str>,
    notes: &'a [String],
    phases: Vec<PhaseOut<'a>>,
}

#[derive(Serialize)]
struct PhaseOut<'a> {
    name: &'a str,
    begin_ns: u64,
    end_ns: u64,
    overhead: OverheadOut,
    cpu_ns: Option<u64>,
    /// What the profile tells is null where there is none; the costs of profiling are known without it.
    samples: Option<u64>,
    threads: Option<usize>,
    busy_ns: Option<u64>,
    idle_ns: Option<u64>,
    functions: Vec<FunctionOut<'a>>,
    packages: Vec<PackageOut<'a>>,
}

/// What profiling cost, as quotients by the median of the trials that were not profiled.
#[derive(Serialize)]
struct OverheadOut {
    wall: Option<f64>,
    cpu: Option<f64>,
    trials: usize,
    cpu_trials: usize,
    sentence: String,
}

#[derive(Serialize)]
struct FunctionOut<'a> {
    name: &'a str,
    file: Option<&'a str>,
    line: Option<u32>,
    column: Option<u32>,
    package: &'a str,
    self_ns: u64,
    total_ns: u64,
    samples: u64,
}

#[derive(Serialize)]
struct PackageOut<'a> {
    name: &'a str,
    self_ns: u64,
    total_ns: u64,
    samples: u64,
}

/// One for each variant that was to be profiled.
pub(super) fn profiles(all: &[VariantProfile]) -> Vec<ProfileOut<'_>> {
    all.iter().map(of_variant).collect()
}

fn of_variant(of: &VariantProfile) -> ProfileOut<'_> {
    let missing = if let Reading::Missing(why) = &of.profile { Some(why.to_string()) } else { None };
    let phases = of
        .phases
        .iter()
        .map(|phase| of_phase(phase, of.samples_of(phase).filter(|_| phase.unknown.is_none()).as_ref()));
    ProfileOut {
        variant: of.record.variant,
        name: &of.name,
        profiler: of.record.profiler.name(),
        about: of.record.profiler.about(),
        interval_ns: of.record.interval.measured().map(|interval| interval.as_nanos()),
        missing,
        clock_within_ns: of.profile.measured().map(|profile| profile.uncertainty.as_nanos()),
        outcome: of.record.trial.as_ref().map(|trial| trial.ending.outcome.name()),
        notes: &of.record.notes,
        phases: phases.collect(),
    }
}

fn of_phase<'a>(phase: &'a PhaseProfile, selection: Option<&Selection<'a>>) -> PhaseOut<'a> {
    let (functions, packages) = selection.map(shares).unwrap_or_default();
    let overhead = phase.overhead;
    PhaseOut {
        name: &phase.name,
        begin_ns: phase.span.start.as_nanos(),
        end_ns: phase.span.end.as_nanos(),
        overhead: OverheadOut {
            wall: overhead.wall,
            cpu: overhead.cpu,
            trials: overhead.trials,
            cpu_trials: overhead.cpu_trials,
            sentence: overhead.to_string(),
        },
        cpu_ns: phase.cpu.map(Nanos::as_nanos),
        samples: selection.map(|selection| selection.samples),
        threads: selection.map(|selection| selection.threads().len()),
        busy_ns: selection.map(|selection| selection.busy.as_nanos()),
        idle_ns: selection.map(|selection| selection.idle.as_nanos()),
        functions,
        packages,
    }
}

/// Functions and packages with their times.
fn shares<'a>(selection: &Selection<'a>) -> (Vec<FunctionOut<'a>>, Vec<PackageOut<'a>>) {
    let (times, profile) = (selection.times(), selection.profile);
    let ran = selection.ran();
    let mut by_package = vec![0; profile.packages.len()];
    profile.functions.iter().zip(&ran).for_each(|(function, samples)| by_package[function.package] += samples);
    let function = |share: &Share| {
        let function = &profile.functions[share.of];
        FunctionOut {
            name: &function.name,
            file: Some(function.file.as_str()).filter(|file| !file.is_empty()),
            line: function.line,
            column: function.column,
            package: &profile.packages[function.package],
            self_ns: share.own.as_nanos(),
            total_ns: share.total.as_nanos(),
            samples: ran[share.of],
        }
    };
    let package = |share: &Share| PackageOut {
        name: &profile.packages[share.of],
        self_ns: share.own.as_nanos(),
        total_ns: share.total.as_nanos(),
        samples: by_package[share.of],
    };
    (times.functions.iter().map(function).collect(), times.packages.iter().map(package).collect())
}
