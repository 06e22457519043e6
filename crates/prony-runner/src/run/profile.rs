//! Runs the extra trials for CPU profiles, one per variant after the blocks. They are stored separately from the trials
//! of the run, so that no count, verdict or chart of trials includes them.

use std::collections::BTreeMap;

use prony_analysis::profile::Profile;
use prony_experiment::plan::profiles;
use prony_model::event::{Event, Observer};
use prony_model::outcome::Outcome;
use prony_model::profile::{ProfileFile, ProfileRecord, Profiler};
use prony_model::program::{ProgramSpec, Runtime};
use prony_model::reading::{Reading, Why};
use prony_model::spec::TrialSpec;
use prony_model::trial::PlannedTrial;
use prony_model::units::Nanos;
use prony_os::launch::Scratch;
use prony_os::profile::{Taken, perf};
use prony_stats::summary::median;

use crate::campaign::{Campaign, count};
use crate::error::Error;
use crate::recorder::Recorder;
use crate::run_context::RunContext;
use crate::trial;

/// What is assumed of variants none of whose trials ended well.
const TYPICAL: Nanos = Nanos::from_secs(10);

/// Makes the profiles that the run still lacks; `false` where the user interrupted it.
///
/// # Errors
/// Where the machine refuses what every trial needs, or the database what it is given.
pub(super) fn all(
    campaign: &mut Campaign<'_>,
    context: &RunContext,
    observer: &mut dyn Observer,
) -> Result<bool, Error> {
    let planned = profiles(&context.experiment);
    if planned.is_empty() {
        return Ok(true);
    }
    let typical = typical(campaign)?;
    let mut usable = None;
    for trial in &planned {
        let done = campaign.database.profiled_variants(campaign.run)?;
        if done.contains(&trial.variant) {
            continue;
        }
        if context.interrupt.asked() {
            return Ok(false);
        }
        let spec = &context.experiment.variants()[trial.variant].spec;
        let (variant, all) = (text(context, trial), count(planned.len()));
        observer.event(&Event::ProfileBegan { trial: *trial, variant, profiles: all, done: count(done.len()) });
        let profiler = profiler(spec);
        let interval = interval(profiler, typical.get(&trial.variant).copied().unwrap_or(TYPICAL));
        let refused = match profiler {
            Profiler::V8 => None,
            Profiler::Perf => usable.get_or_insert_with(|| perf_is_usable(context)).clone(),
        };
        let (record, files) = match refused {
            Some(why) => (none(trial, profiler, why), Vec::new()),
            None => one(context, trial, (profiler, interval), observer)?,
        };
        let trial_ended_early = record.trial.as_ref().is_some_and(|trial| trial.ending.outcome == Outcome::Interrupted);
        // Of a trial that ended well the reading of its samples may have been interrupted: a resumed run makes it again.
        if trial_ended_early || (context.interrupt.asked() && record.interval.measured().is_none()) {
            return Ok(false);
        }
        campaign.database.append_profile(campaign.run, &record, &files)?;
        observer.event(&ended(context, trial, record, &files, (count(done.len() + 1), all)));
    }
    Ok(true)
}

fn text(context: &RunContext, trial: &PlannedTrial) -> String {
    context.experiment.levels_text(&context.experiment.variants()[trial.variant])
}

/// V8's own profiler is for JavaScript, `perf` for everything else.
fn profiler(spec: &TrialSpec) -> Profiler {
    match spec.subject.program().and_then(|program| program.runtime) {
        Some(Runtime::Node) => Profiler::V8,
        Some(Runtime::Python) | None => Profiler::Perf,
    }
}

/// Median time from launch to clean-up of the trials that ended well, by variant.
fn typical(campaign: &Campaign<'_>) -> Result<BTreeMap<usize, Nanos>, Error> {
    let mut took: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for trial in campaign.database.load_run(campaign.run)?.trials {
        if trial.ending.outcome.is_ok() {
            took.entry(trial.trial.variant).or_default().push(trial.took.as_nanos() as f64);
        }
    }
    let middle = |(variant, took): (usize, Vec<f64>)| Some((variant, Nanos::from_nanos(median(&took)? as u64)));
    Ok(took.into_iter().filter_map(middle).collect())
}

/// Short enough for many samples, long enough that a sample costs little beside it. More than some thousand samples of a
/// thread make no share much surer; one of `perf` takes 32 KiB of the disk while the trial runs.
fn interval(profiler: Profiler, took: Nanos) -> Nanos {
    let (samples, shortest, longest) = match profiler {
        Profiler::V8 => (10_000, Nanos::from_micros(250), Nanos::from_millis(10)),
        Profiler::Perf => (4_000, Nanos::from_millis(1), Nanos::from_secs(1)),
    };
    Nanos::from_nanos(took.as_nanos() / samples).clamp(shortest, longest)
}

/// Why `perf` cannot be used here, where it cannot.
fn perf_is_usable(context: &RunContext) -> Option<Why> {
    let scratch = match Scratch::create(&context.near) {
        Ok(scratch) => scratch,
        Err(error) => return Some(Why::Failed(error.to_string().into())),
    };
    match perf::usable(scratch.path()) {
        Reading::Measured(()) => None,
        Reading::Missing(why) => Some(why),
    }
}

fn none(trial: &PlannedTrial, profiler: Profiler, why: Why) -> ProfileRecord {
    let interval = Reading::Missing(why);
    ProfileRecord { variant: trial.variant, profiler, interval, trial: None, notes: Vec::new() }
}

/// Runs the trial; the caller stores what its profiler left.
fn one(
    context: &RunContext,
    planned: &PlannedTrial,
    (profiler, interval): (Profiler, Nanos),
    observer: &mut dyn Observer,
) -> Result<(ProfileRecord, Vec<ProfileFile>), Error> {
    let mut recorder = Recorder::new(profiler, interval, &context.near)?;
    let record = trial::run_with(context, planned, Some(&mut recorder), observer)?;
    let spec = &context.experiment.variants()[planned.variant].spec;
    let (interval, Taken { files, mut notes }) = match recorder.taken(observer) {
        Reading::Missing(why) => (Reading::Missing(why), Taken::default()),
        Reading::Measured(taken) if taken.files.is_empty() => {
            let why = "no Node process wrote a profile: the program starts no Node process, or does not pass \
                       `NODE_OPTIONS` to it";
            (Reading::failed(why), taken)
        }
        Reading::Measured(taken) => (Reading::Measured(interval), taken),
    };
    notes.extend(blind(spec).map(str::to_owned));
    let (variant, trial) = (planned.variant, Some(record));
    Ok((ProfileRecord { variant, profiler, interval, trial, notes }, files))
}

/// What the profiler of a subject cannot see.
fn blind(spec: &TrialSpec) -> Option<&'static str> {
    let Some(program) = spec.subject.program() else {
        let several = spec.phases.iter().any(|phase| phase.action.replicas() > 1);
        return several.then_some("of the processes that share the store (`replicas`) only the first is sampled");
    };
    match program.runtime {
        Some(Runtime::Node) => {
            Some("time in native code is attributed to the JavaScript function that called it, or to `(program)`")
        }
        Some(Runtime::Python) => Some("Python functions are not sampled, only the native functions of the interpreter"),
        None if is_node(program) && !names_machine_code(program) => {
            Some("JavaScript functions are not sampled; set `runtime = \"node\"` to use V8's own profiler")
        }
        None => None,
    }
}

/// Whether its command is `node`.
fn is_node(program: &ProgramSpec) -> bool {
    program.command.words().first().is_some_and(|word| word.rsplit('/').next() == Some("node"))
}

/// Whether V8 is asked for the names of the machine code that it makes, which `perf` reads. With `--perf-prof` it writes them
/// in a form that nothing here reads.
fn names_machine_code(program: &ProgramSpec) -> bool {
    let inherited = program.inherit.iter().any(|name| name == NODE_OPTIONS).then(|| std::env::var(NODE_OPTIONS).ok());
    let options = program.env.get(NODE_OPTIONS).cloned().or(inherited.flatten()).unwrap_or_default();
    // V8 takes `_` for `-`.
    let asks = |word: &str| word.replace('_', "-").starts_with("--perf-basic-prof");
    options.split_whitespace().any(asks) || program.command.words().iter().any(|word| asks(word))
}

/// The environment variable with options of Node.
const NODE_OPTIONS: &str = "NODE_OPTIONS";

fn ended(
    context: &RunContext,
    trial: &PlannedTrial,
    record: ProfileRecord,
    files: &[ProfileFile],
    (done, profiles): (u32, u32),
) -> Event {
    let samples = match record.interval {
        Reading::Missing(why) => Reading::Missing(why),
        Reading::Measured(_) => match Profile::from_files(files) {
            Ok(profile) => Reading::Measured(profile.during(None).samples),
            Err(damaged) => Reading::failed(damaged.to_string()),
        },
    };
    let ending = record.trial.map(|trial| trial.ending);
    Event::ProfileEnded { variant: text(context, trial), ending, samples, notes: record.notes, done, profiles }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a profile of a program that is started so, and has no `runtime = "node"`, cannot show.
    fn unseen(program: &str) -> Option<&'static str> {
        let text = format!("[program.x]\n{program}\n");
        let experiment =
            crate::load::text(text, "x.toml", &Default::default(), &prony_model::catalog::Anywhere).unwrap();
        blind(&experiment.variants()[0].spec)
    }

    /// The note "JavaScript functions are not sampled" was once printed above `hotInner (hot.js:1) 96.3 %`.
    #[test]
    fn functions_of_javascript_are_not_sampled_unless_v8_names_its_machine_code() {
        let unnamed = Some("JavaScript functions are not sampled; set `runtime = \"node\"` to use V8's own profiler");
        for program in ["command = \"node hot.js\"", "command = \"/usr/bin/node --perf-prof hot.js\""] {
            assert_eq!(unseen(program), unnamed, "{program}");
        }
        assert_eq!(unseen("command = \"node hot.js\"\nenv = { NODE_OPTIONS = \"--no-warnings\" }"), unnamed);
        for named in [
            "command = \"node --perf-basic-prof hot.js\"",
            "command = \"node --perf_basic_prof_only_functions hot.js\"",
            "command = \"node hot.js\"\nenv = { NODE_OPTIONS = \"--no-warnings --perf-basic-prof\" }",
        ] {
            assert_eq!(unseen(named), None, "{named}");
        }
    }

    #[test]
    fn intervals_follow_the_time_of_a_trial_within_bounds() {
        let of = |profiler, millis| interval(profiler, Nanos::from_millis(millis));
        assert_eq!(of(Profiler::V8, 20), Nanos::from_micros(250));
        assert_eq!(of(Profiler::V8, 10_000), Nanos::from_millis(1));
        assert_eq!(of(Profiler::V8, 3_600_000), Nanos::from_millis(10));
        assert_eq!(of(Profiler::Perf, 20), Nanos::from_millis(1));
        assert_eq!(of(Profiler::Perf, 60_000), Nanos::from_millis(15));
    }
}
