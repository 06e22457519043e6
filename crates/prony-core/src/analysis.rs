//! From an experiment and its finished trials to verdicts and findings. Pure: a report is a function of the record.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::experiment::design::{Experiment, Variant};
use crate::finding::Finding;
use crate::guard::arms::{self, Arm};
use crate::guard::{run, trial, weather};
use crate::metric::MetricName;
use crate::plan::Label;
use crate::record::{Completion, TrialRecord};
use crate::stats::{BlockValues, Comparison, Family, Looks, Observation, Pairing, compare_family, settled};
use crate::units::Nanos;

/// What a run says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Analysis {
    /// One for each variant that is no baseline, stratum by stratum, and each metric declared for verdicts.
    pub comparisons: Vec<Judged>,
    /// Findings that concern the whole run or a stratum's baseline.
    pub findings: Vec<Finding>,
    /// How many comparisons the correction counts.
    pub family: usize,
}

/// A comparison and whom it concerns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// Index of the variant.
    pub variant: usize,
    /// Index of its stratum's baseline.
    pub baseline: usize,
    /// The stratum.
    pub stratum: usize,
    /// The metric.
    pub metric: MetricName,
    /// What it says.
    pub comparison: Comparison,
    /// What guards found about the two arms.
    pub findings: Vec<Finding>,
}

impl Analysis {
    /// Whether the run may stop: no comparison would say more with more blocks.
    pub fn settled(&self) -> bool {
        let all: Vec<Comparison> = self.comparisons.iter().map(|judged| judged.comparison.clone()).collect();
        settled(&all)
    }
}

/// A variant's levels as text: `lmdb, each`.
pub fn name(experiment: &Experiment, variant: &Variant) -> String {
    let levels = experiment.factors().iter().zip(&variant.levels);
    let labels: Vec<&str> = levels.filter_map(|(f, level)| Some(f.levels.get(*level)?.label.as_str())).collect();
    labels.join(", ")
}

/// The figure of a trial, where the phase that yields it was completed and the figure measured.
pub fn figure(record: &TrialRecord, name: &MetricName) -> Option<f64> {
    let phase = record.phases.iter().find(|p| p.name == name.phase && p.completion == Completion::Complete)?;
    let readings = phase.readings.get(name.instance.as_deref().unwrap_or(""))?;
    readings.get(&crate::record::MetricKeyText(name.key))?.measured().copied()
}

/// Compares every variant with its stratum's baseline. `clock` is the cost of one reading of the clock.
pub fn analyse(experiment: &Experiment, trials: &[TrialRecord], clock: Nanos) -> Analysis {
    let index = Index::of(trials);
    let mut whom = Vec::new();
    let mut members = Vec::new();
    for (variant, baseline) in pairs(experiment) {
        let found = arms::check(&index.arm(experiment, baseline), &index.arm(experiment, variant));
        let compare = experiment.compare();
        for metric in compare.primary.iter().chain(&compare.metrics) {
            members.push(index.pairing(experiment, variant, baseline, metric, arms::refusal(&found)));
            whom.push((variant, baseline.id, metric.clone(), found.clone()));
        }
    }
    let compare = experiment.compare();
    let family = Family { alpha: compare.alpha.get(), margin: compare.margin.get(), members };
    let comparisons = compare_family(&family).into_iter().zip(whom);
    let judged = |(comparison, (variant, baseline, metric, findings)): (Comparison, (&Variant, usize, _, _))| Judged {
        variant: variant.id,
        stratum: variant.stratum,
        baseline,
        metric,
        comparison,
        findings,
    };
    Analysis {
        comparisons: comparisons.map(judged).collect(),
        findings: findings(experiment, trials, clock),
        family: family.size(),
    }
}

/// Each variant with its stratum's baseline.
fn pairs(experiment: &Experiment) -> impl Iterator<Item = (&Variant, &Variant)> {
    let baseline = |stratum| experiment.variants().iter().find(move |v| v.baseline && v.stratum == stratum);
    experiment.variants().iter().filter(|v| !v.baseline).filter_map(move |v| Some((v, baseline(v.stratum)?)))
}

/// Findings that concern one trial alone are in its record; these need all of them.
fn findings(experiment: &Experiment, trials: &[TrialRecord], clock: Nanos) -> Vec<Finding> {
    let mut found: Vec<Finding> = weather::disturbed_trials(&trials.iter().collect::<Vec<_>>()).into_iter().collect();
    for record in trials.iter().filter(|record| record.findings.is_empty()) {
        let spec = &experiment.variants()[record.trial.variant].spec;
        merge(&mut found, trial::check(spec, record, clock));
    }
    let compare = experiment.compare();
    let Some(primary) = &compare.primary else { return found };
    for baseline in experiment.variants().iter().filter(|v| v.baseline) {
        let mut own: Vec<&TrialRecord> = trials.iter().filter(|t| t.trial.variant == baseline.id).collect();
        own.sort_by_key(|t| t.trial.position);
        let values: Vec<f64> = own.iter().filter_map(|t| figure(t, primary)).collect();
        merge(&mut found, run::drifting(&values, compare.margin.get()));
        let blocks: std::collections::BTreeSet<u32> = own.iter().map(|t| t.trial.block).collect();
        let looks = Looks::new(baseline.blocks.min, baseline.blocks.max);
        merge(&mut found, run::too_few_blocks(blocks.len() as u32, baseline.blocks.max, &looks));
    }
    found
}

/// Adds findings; one that says the same of the same phase as one already there is left out.
fn merge(into: &mut Vec<Finding>, more: impl IntoIterator<Item = Finding>) {
    for finding in more {
        let said =
            into.iter().any(|f| (&f.guard, &f.phase, &f.message) == (&finding.guard, &finding.phase, &finding.message));
        if !said {
            into.push(finding);
        }
    }
}

/// Trials by where they ran.
struct Index<'a> {
    trials: &'a [TrialRecord],
    /// (variant, label, block, sub-block) -> place in `trials`.
    place: BTreeMap<(usize, Label, u32, u32), usize>,
}

impl<'a> Index<'a> {
    fn of(trials: &'a [TrialRecord]) -> Self {
        let key = |r: &TrialRecord| (r.trial.variant, r.trial.label, r.trial.block, r.trial.sub_block);
        Self { trials, place: trials.iter().enumerate().map(|(i, record)| (key(record), i)).collect() }
    }

    fn arm<'b>(&self, experiment: &'b Experiment, variant: &'b Variant) -> Arm<'b>
    where
        'a: 'b,
    {
        let trials = self.trials.iter().filter(|t| t.trial.variant == variant.id).collect();
        Arm { name: name(experiment, variant), spec: &variant.spec, trials }
    }

    fn observe(&self, key: (usize, Label, u32, u32), metric: &MetricName) -> Option<Observation> {
        let record = &self.trials[*self.place.get(&key)?];
        Some(Observation::of(record.ending.outcome, figure(record, metric), metric.key.metric))
    }

    /// The blocks of a variant in the order in which they ran; those whose baseline has not run yet are not among them.
    fn pairing(
        &self,
        experiment: &Experiment,
        variant: &Variant,
        baseline: &Variant,
        metric: &MetricName,
        refused: Option<String>,
    ) -> Pairing {
        let twice = experiment.compare().twice;
        let places = self.place.keys().filter(|(id, label, ..)| (*id, *label) == (variant.id, Label::A));
        let block = |(_, _, block, part): &(usize, Label, u32, u32)| {
            let of = |id, label| self.observe((id, label, *block, *part), metric);
            let baseline2 = of(baseline.id, Label::A2);
            if twice && baseline2.is_none() {
                return None;
            }
            Some(BlockValues { baseline: of(baseline.id, Label::A)?, baseline2, variant: of(variant.id, Label::A)? })
        };
        Pairing {
            label: format!("{}: {metric}", name(experiment, variant)),
            better: metric.key.metric.better(),
            looks: Looks::new(variant.blocks.min, variant.blocks.max),
            blocks: places.filter_map(block).collect(),
            refused,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::experiment::tests::Engines;
    use crate::experiment::{Overrides, check, parse};
    use crate::metric::MetricKey;
    use crate::outcome::{Ending, OutOfMemory, Outcome};
    use crate::plan::{PlannedTrial, plan};
    use crate::reading::{Reading, Why};
    use crate::record::{Answer, MetricKeyText, PhaseRecord};
    use crate::stats::Verdict;

    /// Three engines at two sizes, compared with the memory engine in each.
    fn experiment(blocks: u32) -> Experiment {
        let text = format!(
            "[factors]\nsize = [1000, 2000]\nengine = [\"memory\", \"lmdb\", \"redb\"]\n\
             [compare]\nbaseline = {{ engine = \"memory\" }}\nblocks = {blocks}\n[store]\nengine = \"{{engine}}\"\n\
             [data]\nrecords = \"{{size}}\"\n[[phase]]\nname = \"write\"\nput = {{}}\n"
        );
        let raw = parse(&text, "analysis.toml").expect("it parses");
        check(&raw, &Engines, &Overrides::default()).unwrap_or_else(|problems| panic!("{problems:#?}"))
    }

    fn record(trial: PlannedTrial, time: f64) -> TrialRecord {
        let key = MetricKeyText(MetricKey::amount(crate::metric::Metric::Time));
        let readings = BTreeMap::from([(String::new(), BTreeMap::from([(key, Reading::Measured(time))]))]);
        let phase = PhaseRecord {
            name: "write".into(),
            action: "put".into(),
            timed: true,
            completion: Completion::Complete,
            begin: Some(Nanos::ZERO),
            end: Some(Nanos::from_secs(1)),
            readings,
            histograms: Vec::new(),
            groups: None,
            throughput: None,
            answer: None,
            errors: BTreeMap::new(),
        };
        TrialRecord {
            trial,
            started_unix_ms: 0,
            took: Nanos::from_secs(1),
            ending: Ending { outcome: Outcome::Ok, phase: None, after: Nanos::ZERO, evidence: Vec::new() },
            phases: vec![phase],
            effective: json!({ "durability": "strict" }),
            conditions: Value::Null,
            series: Vec::new(),
            sampler_cpu: Reading::Missing(Why::NotApplicable),
            findings: Vec::new(),
        }
    }

    /// Every planned trial: memory and redb take 1 s at 1,000 records and 2 s at 2,000, lmdb three times that.
    fn trials(experiment: &Experiment) -> Vec<TrialRecord> {
        let one = |trial: PlannedTrial| {
            let label = name(experiment, &experiment.variants()[trial.variant]);
            let base = if label.contains("2000") { 2e9 } else { 1e9 };
            let factor = if label.contains("lmdb") { 3.0 } else { 1.0 };
            let noise = 1.0 + 1e-4 * f64::from(trial.position * 7 % 13);
            record(trial, base * factor * noise)
        };
        plan(experiment).into_iter().map(one).collect()
    }

    #[test]
    fn every_variant_is_judged_in_its_stratum() {
        let experiment = experiment(10);
        let found = analyse(&experiment, &trials(&experiment), Nanos::from_nanos(25));
        assert_eq!((found.comparisons.len(), found.family), (4, 4));
        for judged in &found.comparisons {
            let lmdb = judged.comparison.label.contains("lmdb");
            let expected = if lmdb { Verdict::Worse } else { Verdict::NoDifference };
            assert_eq!(judged.comparison.verdict, expected, "{}", judged.comparison.label);
            assert_eq!(judged.comparison.blocks, 10);
            let stratum = |id: usize| experiment.variants()[id].stratum;
            assert_eq!(stratum(judged.variant), stratum(judged.baseline));
            assert_eq!(judged.metric.to_string(), "write.time");
        }
        assert!(found.settled() && found.findings.is_empty(), "{:?}", found.findings);
    }

    #[test]
    fn a_half_finished_block_is_not_paired() {
        let experiment = experiment(8);
        let mut all = trials(&experiment);
        all.retain(|r| r.trial.block < 7 || r.trial.label == Label::A2);
        let found = analyse(&experiment, &all, Nanos::from_nanos(25));
        assert!(found.comparisons.iter().all(|j| j.comparison.blocks == 7 || j.comparison.p.measured().is_none()));
        assert!(found.comparisons.iter().all(|j| !j.comparison.verdict.is_difference()));
        assert!(!found.settled());
    }

    #[test]
    fn outcomes_and_answers_reach_the_verdict() {
        let experiment = experiment(8);
        let mut all = trials(&experiment);
        let label = |r: &TrialRecord| name(&experiment, &experiment.variants()[r.trial.variant]);
        for r in &mut all {
            if label(r) == "1000, lmdb" {
                r.ending.outcome = Outcome::OutOfMemory { by: OutOfMemory::Limit };
                r.phases[0].completion = Completion::Partial;
            }
            let digest = if label(r) == "2000, redb" { "lines:b" } else { "lines:a" };
            r.phases[0].answer = Some(Answer { rows: 5, digest: digest.into(), comparable: true });
        }
        let found = analyse(&experiment, &all, Nanos::from_nanos(25));
        let verdict = |name: &str| {
            let judged = found.comparisons.iter().find(|j| j.comparison.label.starts_with(name)).unwrap();
            (judged.comparison.verdict.clone(), judged.findings.clone())
        };
        assert_eq!(verdict("1000, lmdb").0, Verdict::DoesNotFinish);
        assert!(matches!(verdict("2000, redb").0, Verdict::Refused { .. }));
        assert_eq!(verdict("2000, redb").1[0].guard, "answers_differ");
        assert_eq!(verdict("2000, lmdb").0, Verdict::Worse);
    }

    #[test]
    fn too_few_blocks_are_found() {
        let experiment = experiment(3);
        let found = analyse(&experiment, &trials(&experiment), Nanos::from_nanos(25));
        assert_eq!(found.family, 0);
        assert!(found.findings.iter().any(|f| f.guard == "too_few_blocks"));
        assert!(found.comparisons.iter().all(|j| j.comparison.ratio.measured().is_some()));
    }
}
