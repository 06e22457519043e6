//! Profiles as numbers, for the JSON document: functions and packages of each phase. The raw samples are in the files that
//! `prony profile --format raw` writes.

use prony_analysis::profile::{Selection, Share};
use prony_model::reading::Reading;
use prony_model::units::Nanos;
use schemars::JsonSchema;
use serde::Serialize;

use crate::profiles::{PhaseProfile, VariantProfile};

/// An extra trial of a variant under a profiler; it counts in no other result. `prony profile --format raw` writes the
/// raw samples.
#[derive(Serialize, JsonSchema)]
pub(super) struct ProfileOut<'a> {
    /// Number of the variant.
    variant: usize,
    /// What the variant is called.
    name: &'a str,
    /// The profiler that took the samples.
    profiler: &'static str,
    /// What a sample's time measures, such as CPU time.
    about: &'static str,
    /// The requested time from one sample to the next.
    interval_ns: Option<u64>,
    /// Why there is no profile.
    missing: Option<String>,
    /// How far the profiler's clock may be from CLOCK_MONOTONIC.
    clock_within_ns: Option<u64>,
    /// How the profiled trial ended.
    outcome: Option<&'static str>,
    /// What is missing in the profile.
    notes: &'a [String],
    /// The phases that began and ended.
    phases: Vec<PhaseOut<'a>>,
}

/// A phase of the profiled trial. Keys about samples are null where there is no profile; the cost of profiling is known
/// even then.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ProfiledPhase")]
struct PhaseOut<'a> {
    /// Its name.
    name: &'a str,
    /// Its begin.
    begin_ns: u64,
    /// Its end.
    end_ns: u64,
    /// What profiling cost.
    overhead: OverheadOut,
    /// CPU time of the profiled trial.
    cpu_ns: Option<u64>,
    /// Samples taken while threads were busy.
    samples: Option<u64>,
    /// Threads that were busy.
    threads: Option<usize>,
    /// The time for which the samples stand, of all threads together.
    busy_ns: Option<u64>,
    /// The time in which threads waited; it is not counted for any function.
    idle_ns: Option<u64>,
    /// The one with the most self time first.
    functions: Vec<FunctionOut<'a>>,
    /// The one with the most self time first.
    packages: Vec<PackageOut<'a>>,
}

/// What profiling cost: times under the profiler, divided by the median of the trials that were not profiled.
#[derive(Serialize, JsonSchema)]
struct OverheadOut {
    /// The ratio of wall times.
    wall: Option<f64>,
    /// The ratio of CPU times.
    cpu: Option<f64>,
    /// Trials behind the median of wall time.
    trials: usize,
    /// Trials behind the median of CPU time.
    cpu_trials: usize,
    /// In words.
    sentence: String,
}

/// A function with its time.
#[derive(Serialize, JsonSchema)]
struct FunctionOut<'a> {
    /// Its name.
    name: &'a str,
    /// A file, a URL or a library.
    file: Option<&'a str>,
    /// From 1.
    line: Option<u32>,
    /// From 1.
    column: Option<u32>,
    /// The package that it belongs to.
    package: &'a str,
    /// The time in which it ran itself.
    self_ns: u64,
    /// The time in which it was anywhere on the stack; each sample counts once.
    total_ns: u64,
    /// Samples in which it ran itself.
    samples: u64,
}

/// A package with its time.
#[derive(Serialize, JsonSchema)]
struct PackageOut<'a> {
    /// Its name.
    name: &'a str,
    /// The time in which its functions ran themselves.
    self_ns: u64,
    /// The time in which any of them was on the stack; each sample counts once.
    total_ns: u64,
    /// Samples in which one of them ran itself.
    samples: u64,
}

/// One entry for each variant that should have been profiled.
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
        about: of.record.profiler.meaning(),
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
