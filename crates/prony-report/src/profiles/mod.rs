//! Loads the profiles of a run, phase by phase, with the cost of profiling.

mod overhead;

use prony_analysis::profile::{Damaged, Profile, Sample, Selection, Span, Thread};
use prony_experiment::design::{Experiment, Variant};
use prony_model::metric::{Metric, MetricKey};
use prony_model::number::{count, percent_with};
use prony_model::profile::{ProfileRecord, Profiler};
use prony_model::reading::{Reading, Why};
use prony_model::record::{PhaseRecord, TrialRecord};
use prony_model::units::Nanos;

use crate::error::Error;
use prony_analysis::verdicts::names;
use prony_results::{Database, RunData};

pub use overhead::Overhead;

/// The share of a phase's CPU time below which V8's samples lack something.
const MOST: f64 = 0.9;
/// What V8's profiler does not sample.
const UNSAMPLED: &str = "Node's start, native threads, and processes and threads without the profiler are not sampled";

/// The profile of a variant.
#[derive(Clone, Debug)]
pub struct VariantProfile {
    /// The variant as reports call it.
    pub name: String,
    /// What was requested and how the profiled trial ended.
    pub record: ProfileRecord,
    /// The samples, or why they are missing.
    pub profile: Reading<Profile>,
    /// The phases of the profiled trial that began and ended.
    pub phases: Vec<PhaseProfile>,
}

/// A phase of a profiled trial.
#[derive(Clone, Debug)]
pub struct PhaseProfile {
    /// Its name.
    pub name: String,
    /// When it was.
    pub span: Span,
    /// What profiling cost.
    pub overhead: Overhead,
    /// Why it is not known what ran in the phase, although the phase began and ended.
    pub unknown: Option<Why>,
    /// CPU time of the phase in the profiled trial, where it was measured: the samples of `perf` should add up to it.
    pub cpu: Option<Nanos>,
}

impl VariantProfile {
    /// The samples of a phase, without those of suspensions, which belong to no phase; none where there is no profile.
    pub fn samples_of(&self, phase: &PhaseProfile) -> Option<Selection<'_>> {
        let profile = self.profile.measured()?;
        let suspended = |sample: &Sample| self.suspended(&profile.threads[sample.thread], sample.at);
        let counts = |sample: &Sample| phase.unknown.is_none() && phase.span.contains(&sample.at) && !suspended(sample);
        Some(profile.select(counts))
    }

    /// Whether prony had suspended a thread at an instant. `perf` knows the kernel's number of a thread and the record that of
    /// the runtime, so that there a suspension counts for all threads of the process.
    fn suspended(&self, thread: &Thread, at: Nanos) -> bool {
        let probe = self.record.trial.as_ref().and_then(|trial| trial.conditions.probe.as_ref());
        let is_perf = self.record.profiler == Profiler::Perf;
        probe.is_some_and(|probe| {
            probe.suspensions.iter().any(|one| {
                let is_its_own = one.pid == thread.pid && (is_perf || one.thread == thread.tid);
                is_its_own && one.from <= at && one.suspended.is_none_or(|time| at < one.from + time)
            })
        })
    }

    /// The number of samples and the time on which the shares of a phase rest, in words.
    pub fn amount(&self, phase: &PhaseProfile, selection: &Selection<'_>) -> String {
        if let Some(why) = &phase.unknown {
            return format!("no samples: {why}");
        }
        let cpu = phase.cpu.filter(|cpu| *cpu > Nanos::ZERO);
        let unsampled = cpu.filter(|cpu| {
            self.record.profiler == Profiler::V8 && selection.busy.as_secs_f64() < MOST * cpu.as_secs_f64()
        });
        if selection.samples == 0 {
            return match unsampled {
                Some(cpu) => format!("no samples of {cpu} of CPU time: {UNSAMPLED}"),
                None => "no samples: the phase was too short, or nothing ran in it".to_owned(),
            };
        }
        let threads = count(selection.threads().len(), "thread");
        let mut text = format!("{} of {threads}: {}", count(selection.samples, "sample"), selection.busy);
        // V8's time is that of the clock on the wall: it may exceed CPU time, but not be far below it.
        if let (Profiler::Perf, Some(cpu)) = (self.record.profiler, cpu) {
            let share = selection.busy.as_secs_f64() / cpu.as_secs_f64();
            text += &format!(", which is {} of the phase's CPU time", percent_with(share, 0));
        }
        if let Some(cpu) = unsampled {
            text += &format!(", less than the phase's CPU time of {cpu}: {UNSAMPLED}");
        }
        if selection.idle > Nanos::ZERO {
            text += &format!("; {} in which threads waited is not counted", selection.idle);
        }
        text
    }

    /// How the profiled trial ended, if not well, and the notes of the profiler.
    pub(crate) fn notes(&self) -> Vec<String> {
        let failed = self.record.trial.as_ref().filter(|trial| !trial.ending.outcome.is_ok());
        let failed = failed.map(|trial| format!("the profiled trial did not end well: {}", trial.ending.outcome));
        failed.into_iter().chain(self.record.notes.iter().cloned()).collect()
    }

    /// The requested time for which one sample stands, in words.
    pub fn interval(&self) -> String {
        self.record.interval.measured().map_or_else(String::new, |interval| format!(" every {interval}"))
    }
}

/// The name of a group of threads that are too small to be shown one by one.
pub(crate) fn rest(threads: usize) -> String {
    format!("{threads} small threads")
}

/// The profiles of the variants that `wanted` accepts, in the experiment's order.
///
/// # Errors
/// Those of the database.
pub fn load(
    database: &Database,
    data: &RunData,
    wanted: impl Fn(&Variant) -> bool,
) -> Result<Vec<VariantProfile>, Error> {
    let variants = data.experiment.variants();
    let records = database.profiles(data.head.id)?.into_iter();
    let records = records.filter(|record| variants.get(record.variant).is_some_and(&wanted));
    records.map(|record| of_record(database, data, record)).collect()
}

fn of_record(database: &Database, data: &RunData, record: ProfileRecord) -> Result<VariantProfile, Error> {
    let profile = match &record.interval {
        Reading::Missing(why) => Reading::Missing(why.clone()),
        Reading::Measured(_) => match Profile::from_files(&database.profile_files(data.head.id, record.variant)?) {
            Ok(profile) => Reading::Measured(profile),
            Err(Damaged(what)) => Reading::Missing(Why::Failed(what.into())),
        },
    };
    let phases = record.trial.as_ref().map(|trial| phases(data, trial)).unwrap_or_default();
    Ok(VariantProfile { name: name(&data.experiment, record.variant), record, profile, phases })
}

fn phases(data: &RunData, profiled: &TrialRecord) -> Vec<PhaseProfile> {
    let phase = |phase: &PhaseRecord| {
        let span = phase.begin?..phase.end?;
        let cpu = phase.reading(MetricKey::amount(Metric::Cpu)).and_then(Reading::measured);
        let cpu = cpu.map(|nanos| Nanos::from_nanos(*nanos as u64));
        let (name, overhead, unknown) =
            (phase.name.clone(), Overhead::of(data, profiled, phase), unknown(phase, &span));
        Some(PhaseProfile { name, span, overhead, unknown, cpu })
    };
    profiled.phases.iter().filter_map(phase).collect()
}

/// A phase that is shorter than its begin and end may have been read late has no time, and its samples may be others'.
fn unknown(phase: &PhaseRecord, span: &Span) -> Option<Why> {
    let Reading::Missing(why) = phase.reading(MetricKey::amount(Metric::Wall))? else { return None };
    let lag = *phase.reading(MetricKey::amount(Metric::Lag))?.measured()?;
    (span.end.since(span.start).as_nanos() as f64 <= lag).then(|| why.clone())
}

fn name(experiment: &Experiment, variant: usize) -> String {
    match names::varying(experiment).as_slice() {
        [] => "the only variant".to_owned(),
        several => names::levels(experiment, variant, several),
    }
}

/// Whether a variant is the one that a text names: some of its levels, as `store=lmdb, documents=1000`, or the one level
/// by which reports call it.
pub fn is_named(experiment: &Experiment, variant: &Variant, text: &str) -> bool {
    let levels = || {
        experiment.factors().iter().zip(&variant.levels).map(|(factor, at)| (&factor.name, &factor.levels[*at].label))
    };
    let has = |part: &str| {
        levels().any(|(factor, label)| {
            (factor == names::COMMAND && part == label) || part.split_once('=') == Some((factor, label))
        })
    };
    names::variant(experiment, variant.id) == text || text.split(',').map(str::trim).all(has)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use prony_model::outcome::Outcome;
    use prony_model::profile::{Format, ProfileFile};
    use prony_model::record::{Completion, MetricKeyText};
    use serde_json::json;

    use super::*;
    use crate::cell_value::tests::trial;

    /// A profile with its only phase, from 0 to 9 s.
    fn variant(
        profiler: Profiler,
        files: &[ProfileFile],
        trial: Option<TrialRecord>,
        cpu: Option<Nanos>,
    ) -> VariantProfile {
        let overhead = Overhead { wall: None, cpu: None, trials: 1, cpu_trials: 1, failed: None };
        let span = Nanos::ZERO..Nanos::from_secs(9);
        let interval = Reading::Measured(Nanos::from_millis(1));
        VariantProfile {
            name: "x".to_owned(),
            record: ProfileRecord { variant: 0, profiler, interval, trial, notes: Vec::new() },
            profile: Reading::Measured(Profile::from_files(files).unwrap()),
            phases: vec![PhaseProfile { name: "run".to_owned(), span, overhead, unknown: None, cpu }],
        }
    }

    /// V8's samples of a thread of process 7 at 1 and 2 s, for 1 s each.
    fn cpuprofile(thread: u32) -> ProfileFile {
        let frame = |name: &str| json!({ "functionName": name, "url": "/a.js", "lineNumber": 0, "columnNumber": 0 });
        let nodes = json!([
            { "id": 1, "callFrame": frame("(root)"), "children": [2] },
            { "id": 2, "callFrame": frame("work") },
        ]);
        let info = json!({ "pid": 7, "thread": thread, "name": "a.js", "started": [0, 0], "stopped": [3_000_000_000_u64, 3_000_000_000_u64] });
        let body = json!({ "nodes": nodes, "startTime": 0, "endTime": 3_000_000, "samples": [2, 2],
                           "timeDeltas": [1_000_000, 1_000_000], "prony": info });
        let body = body.to_string().into_bytes();
        ProfileFile { name: format!("7-{thread}-0.cpuprofile"), format: Format::CpuProfile, body }
    }

    /// A trial in which a thread of process 7 was suspended from 1.5 s for so long.
    fn suspended(thread: u32, time: Option<Nanos>) -> TrialRecord {
        let report = json!({ "threads": [], "cost": 0, "lines_lost": 0, "samples_dropped": 0, "suspended_inside": {},
            "unread": {}, "deaths": [], "suspensions": [{ "phase": "run", "pid": 7, "thread": thread,
            "from": 1_500_000_000, "suspended": time, "late": null, "collected": null, "settled": null,
            "passed": false, "went_on": null, "fault": null }] });
        let mut trial = trial(Outcome::Ok, &json!([]));
        trial.conditions.probe = Some(serde_json::from_value(report).unwrap());
        trial
    }

    fn busy(of: &VariantProfile) -> Nanos {
        of.samples_of(&of.phases[0]).unwrap().busy
    }

    /// Of a function that took 410 ms the profile had 2.1 s, of which 73 % were the read in which prony suspends a thread.
    #[test]
    fn samples_within_a_suspension_belong_to_no_phase() {
        let seconds = Nanos::from_secs;
        for (thread, time, expected) in [
            (0, Some(seconds(1)), seconds(3)),
            (1, Some(seconds(1)), seconds(3)),
            (0, None, seconds(3)),
            (0, Some(Nanos::from_millis(500)), seconds(4)),
            (5, Some(seconds(1)), seconds(4)),
        ] {
            let of = variant(Profiler::V8, &[cpuprofile(0), cpuprofile(1)], Some(suspended(thread, time)), None);
            assert_eq!(busy(&of), expected, "thread {thread} for {time:?}");
        }
        let sample = |pid: u32, second: u32| {
            format!("x {pid}/{} {second}.000000001: 1000000000 cpu-clock:\n\t 1a work (/x.so)\n\n", pid + 1)
        };
        let body = [sample(7, 1), sample(7, 2), sample(8, 2)].concat().into_bytes();
        let perf = ProfileFile { name: "perf.txt".into(), format: Format::PerfScript, body };
        let of = variant(Profiler::Perf, &[perf], Some(suspended(0, Some(seconds(1)))), None);
        assert_eq!(busy(&of), seconds(2), "process 8 was not suspended");
    }

    /// A child that took most of the time had another NODE_OPTIONS; the profile of the rest had no word of it.
    #[test]
    fn cpu_time_that_v8_did_not_sample_is_said() {
        let amount = |profiler, files: &[ProfileFile], seconds| {
            let of = variant(profiler, files, None, Some(Nanos::from_secs(seconds)));
            of.amount(&of.phases[0], &of.samples_of(&of.phases[0]).unwrap())
        };
        let main = [cpuprofile(0)];
        assert_eq!(amount(Profiler::V8, &main, 2), "2 samples of 1 thread: 2.000 s");
        assert_eq!(
            amount(Profiler::V8, &main, 3),
            format!("2 samples of 1 thread: 2.000 s, less than the phase's CPU time of 3.000 s: {UNSAMPLED}")
        );
        assert_eq!(amount(Profiler::V8, &[], 3), format!("no samples of 3.000 s of CPU time: {UNSAMPLED}"));
        assert!(amount(Profiler::Perf, &main, 3).ends_with("which is 67 % of the phase's CPU time"));
    }

    #[test]
    fn samples_of_a_phase_that_is_shorter_than_its_lag_are_not_its_own() {
        let key = |metric| MetricKeyText(MetricKey::amount(metric));
        let unknown = |wall: Reading<f64>, lag: f64| {
            let readings = BTreeMap::from([(key(Metric::Wall), wall), (key(Metric::Lag), Reading::Measured(lag))]);
            let phase = PhaseRecord {
                name: "p".into(),
                action: "observe".into(),
                timed: true,
                completion: Completion::Complete,
                begin: None,
                end: None,
                readings: BTreeMap::from([(String::new(), readings)]),
                histograms: vec![],
                groups: None,
                throughput: None,
                answer: None,
                errors: BTreeMap::new(),
            };
            super::unknown(&phase, &(Nanos::from_millis(100)..Nanos::from_millis(120)))
        };
        let missing = || Reading::Missing(Why::Failed("read late".into()));
        assert_eq!(unknown(missing(), 30e6), Some(Why::Failed("read late".into())));
        assert_eq!(unknown(missing(), 1e6), None, "missing for another reason");
        assert_eq!(unknown(Reading::Measured(20e6), 30e6), None, "its counters are late, and its times exact");
    }
}
