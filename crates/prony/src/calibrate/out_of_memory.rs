//! A fixture that runs out of memory in phase 2 of 3: a complete trial, run by the runner itself.

use prony_model::metric::{Metric, MetricKey, Stat};
use prony_model::outcome::{OutOfMemory, Outcome};
use prony_model::reading::Reading;
use prony_model::record::{Completion, PhaseRecord, TrialRecord};
use prony_model::units::{Bytes, Nanos};
use prony_os::limits::{Limit, State};

use super::Ran;
use super::bench::Bench;
use super::check_line::{Line, Unit};
use crate::error::Error;

const FILE: &str = "out_of_memory.toml";
const TEXT: &str = include_str!("out_of_memory.toml");

/// The limit that the file sets.
const LIMIT: Bytes = Bytes::from_mib(128);

/// The memory engine under a limit that its second phase exceeds: a result, not a failure (METHOD 1.3).
///
/// # Errors
/// Where the machine refuses what every trial needs.
pub(super) fn in_second_phase(bench: &Bench) -> Result<Ran, Error> {
    if let State::No(why) = Limit::Memory.ability() {
        return Ok(Ran::NotRun(why));
    }
    Ok(match bench.trial(FILE, TEXT.to_owned())? {
        Some(record) => Ran::Lines(lines(&record)),
        None => Ran::NotRun("the plan is empty".to_owned()),
    })
}

fn lines(record: &TrialRecord) -> Vec<Line> {
    let said = Reading::Measured;
    let ending = &record.ending;
    let outcome = Outcome::OutOfMemory { by: OutOfMemory::Limit };
    let evidence =
        if ending.evidence.iter().any(|text| text.contains("oom_kill")) { "`oom_kill` rose" } else { "none" };
    let of = |name: &str| record.phases.iter().find(|phase| phase.name == name);
    let limit = LIMIT.as_bytes() as f64;
    vec![
        Line::finding("outcome", outcome.to_string(), said(ending.outcome.to_string())),
        Line::finding("in the phase", "too large", said(ending.phase.clone().unwrap_or_else(|| "none".to_owned()))),
        Line::finding("evidence", "`oom_kill` rose", said(evidence.to_owned())),
        Line::finding("time in that phase", "within the trial", said(within(ending.after, record.took).to_owned())),
        Line::finding("phase 1", "complete, measured", said(completion(of("small")))),
        Line::finding("phase 2", "partial", said(completion(of("too large")))),
        Line::finding("phase 3", "not reached", said(completion(of("read")))),
        Line::figure("lower bound of need", Unit::Bytes, limit, peak(record), limit * 0.02 + 2e6),
    ]
}

fn within(after: Nanos, took: Nanos) -> &'static str {
    if Nanos::ZERO < after && after < took { "within the trial" } else { "outside the trial" }
}

fn completion(phase: Option<&PhaseRecord>) -> String {
    let Some(phase) = phase else { return "not in the record".to_owned() };
    let has = |key| phase.reading(key).is_some_and(|reading| reading.measured().is_some());
    let figures = has(MetricKey::amount(Metric::Time)) && has(MetricKey::gauge(Metric::Anon, Stat::End));
    match phase.completion {
        Completion::Complete if figures => "complete, measured".to_owned(),
        Completion::Complete => "complete, not measured".to_owned(),
        Completion::Failed | Completion::Uncounted | Completion::AfterFailure => "failed".to_owned(),
        Completion::Partial => "partial".to_owned(),
        Completion::NotReached => "not reached".to_owned(),
    }
}

/// Most memory that was charged to the tree.
fn peak(record: &TrialRecord) -> Reading<f64> {
    let none = || Reading::failed("the record has no memory peak");
    let memory = record.conditions.memory.as_ref();
    memory.map_or_else(none, |memory| memory.peak.clone().map(|bytes| bytes.as_bytes() as f64))
}

#[cfg(test)]
mod tests {
    use prony_engines::catalog::Catalog;
    use prony_experiment::{check, parse};
    use prony_model::catalog::Overrides;
    use prony_model::outcome::Ending;
    use prony_model::record::{Conditions, MemoryEvidence, MetricKeyText};
    use prony_model::trial::{Label, PlannedTrial};

    use super::super::check_line::Judgement;
    use super::*;

    fn phase(name: &str, completion: Completion) -> PhaseRecord {
        let keys = [MetricKey::amount(Metric::Time), MetricKey::gauge(Metric::Anon, Stat::End)];
        let readings = keys.map(|key| (MetricKeyText(key), Reading::Measured(1.0))).into_iter().collect();
        PhaseRecord {
            name: name.to_owned(),
            action: "put".to_owned(),
            timed: true,
            completion,
            begin: None,
            end: None,
            readings: [(String::new(), readings)].into_iter().collect(),
            histograms: Vec::new(),
            groups: None,
            throughput: None,
            answer: None,
            errors: [].into_iter().collect(),
        }
    }

    /// What a right instrument says.
    fn record() -> TrialRecord {
        TrialRecord {
            trial: PlannedTrial { block: 0, sub_block: 0, position: 0, variant: 0, label: Label::A, seed: 1 },
            started_unix_ms: 0,
            took: Nanos::from_secs(2),
            ending: Ending {
                outcome: Outcome::OutOfMemory { by: OutOfMemory::Limit },
                phase: Some("too large".to_owned()),
                after: Nanos::from_secs(1),
                evidence: vec!["the kernel killed 1 process (`oom_kill`)".to_owned()],
            },
            phases: vec![
                phase("small", Completion::Complete),
                phase("too large", Completion::Partial),
                phase("read", Completion::NotReached),
            ],
            effective: None,
            conditions: peaked(LIMIT),
            series: Vec::new(),
            sampler_cpu: Reading::Measured(Nanos::ZERO),
            findings: Vec::new(),
        }
    }

    fn peaked(peak: Bytes) -> Conditions {
        let memory = Some(MemoryEvidence { peak: Reading::Measured(peak), ..MemoryEvidence::default() });
        Conditions { memory, ..Conditions::default() }
    }

    fn wrong(edit: impl FnOnce(&mut TrialRecord)) -> Vec<String> {
        let mut record = record();
        edit(&mut record);
        let lines = lines(&record);
        lines.into_iter().filter(|line| line.judge() == Judgement::Fail).map(|line| line.what).collect()
    }

    #[test]
    fn the_truth_passes() {
        assert_eq!(wrong(|_| {}), Vec::<String>::new());
    }

    #[test]
    fn each_way_to_be_wrong_fails_its_own_line() {
        assert_eq!(wrong(|r| r.ending.outcome = Outcome::Killed), ["outcome"]);
        assert_eq!(wrong(|r| r.ending.outcome = Outcome::OutOfMemory { by: OutOfMemory::Host }), ["outcome"]);
        assert_eq!(wrong(|r| r.ending.phase = Some("small".to_owned())), ["in the phase"]);
        assert_eq!(wrong(|r| r.ending.evidence.clear()), ["evidence"]);
        assert_eq!(wrong(|r| r.ending.after = Nanos::ZERO), ["time in that phase"]);
        assert_eq!(wrong(|r| r.ending.after = Nanos::from_secs(3)), ["time in that phase"]);
        assert_eq!(wrong(|r| r.phases[0].readings.clear()), ["phase 1"]);
        assert_eq!(wrong(|r| r.phases[1].completion = Completion::Complete), ["phase 2"]);
        assert_eq!(wrong(|r| r.phases[2].completion = Completion::Complete), ["phase 3"]);
        assert_eq!(wrong(|r| r.conditions = Conditions::default()), ["lower bound of need"]);
        let low = Bytes::from_bytes(90_000_000);
        assert_eq!(wrong(|r| r.conditions = peaked(low)), ["lower bound of need"]);
    }

    #[test]
    fn the_file_sets_the_limit_that_is_compared() {
        let raw = parse(TEXT, FILE).unwrap();
        let experiment = check(&raw, &Catalog, &Overrides::default()).unwrap();
        let spec = &experiment.variants()[0].spec;
        assert_eq!(spec.limits.memory, Some(LIMIT));
        let names: Vec<&str> = spec.phases.iter().map(|phase| phase.name.as_str()).collect();
        assert_eq!(names, ["small", "too large", "read"]);
    }
}
