//! Collects the findings of all guards for the report of a run.

use std::collections::{BTreeMap, BTreeSet};

use super::variants::{self, VariantTrials};
use super::{Finding, disturbances, reported, run, trial};
use prony_experiment::design::{Experiment, Variant};
use prony_experiment::plan::outline;
use prony_model::metric::MetricName;
use prony_model::record::TrialRecord;
use prony_model::units::Nanos;
use prony_stats::{MIN_BLOCKS, blocks_before_any_verdict};

/// The findings of all guards for a run that has ended: for its trials by variant, for each variant beside its
/// stratum's baseline, and for the whole run. `primary` is the metric that is checked for drift, `clock` the cost of
/// reading the clock once.
pub fn gather(
    experiment: &Experiment,
    trials: &[TrialRecord],
    primary: Option<&MetricName>,
    clock: Nanos,
) -> Vec<Finding> {
    let mut found = of_trials(experiment, trials, clock);
    found.extend(of_run(experiment, trials, primary, true));
    found
}

/// The findings of guards that need more than one trial: disturbed trials, differences between a variant and its
/// stratum's baseline, drift, too few blocks. `done` says whether the run has ended.
pub fn of_run(
    experiment: &Experiment,
    trials: &[TrialRecord],
    primary: Option<&MetricName>,
    done: bool,
) -> Vec<Finding> {
    let mut found: Vec<Finding> = run::trials_failed(experiment, trials).into_iter().collect();
    found.extend(run::uncompared(experiment));
    found.extend(disturbances::disturbed_trials(&trials.iter().collect::<Vec<_>>()));
    for (variant, baseline) in pairs(experiment) {
        let [baseline, variant] = [baseline, variant].map(|one| variant_trials(experiment, trials, one));
        found.extend(variants::check(&baseline, &variant));
        let margin = experiment.compare().margin.get();
        found.extend(primary.and_then(|metric| reported::coarse_digits(&baseline, &variant, metric, margin)));
    }
    found.extend(of_baselines(experiment, trials, primary, done));
    found.extend(run::answers_unchecked(experiment, trials));
    found.extend(run::sources_differ(experiment, trials));
    found
}

/// Drift of each stratum's baseline, and too few blocks; equal findings of several strata are reported once.
fn of_baselines(
    experiment: &Experiment,
    trials: &[TrialRecord],
    primary: Option<&MetricName>,
    done: bool,
) -> Vec<Finding> {
    let mut found: Vec<Finding> = Vec::new();
    let (alpha, family) = (experiment.compare().alpha.get(), outline(experiment).family as usize);
    for baseline in experiment.variants().iter().filter(|v| v.baseline) {
        let mut own: Vec<&TrialRecord> = trials.iter().filter(|t| t.trial.variant == baseline.id).collect();
        own.sort_by_key(|t| t.trial.position);
        let analyses = experiment.compare().analyses(baseline.blocks);
        let needed = blocks_before_any_verdict(family, alpha, &analyses).unwrap_or(MIN_BLOCKS);
        let most = baseline.blocks.max;
        let few = complete_blocks(experiment, trials, baseline)
            .and_then(|complete| run::too_few_blocks(complete, most, &analyses, needed, done));
        found.extend(few.filter(|finding| !found.contains(finding)));
        let values = |metric| own.iter().filter_map(|t| t.figure(metric).measured().copied()).collect::<Vec<f64>>();
        let drift = primary.and_then(|metric| run::drifting(&values(metric), experiment.compare().margin.get()));
        found.extend(
            drift.map(|f| Finding { message: format!("`{}`: {}", name(experiment, baseline), f.message), ..f }),
        );
    }
    found
}

/// Number of blocks in which a variant of this stratum can be paired, because it ran in one sub-block with each label
/// of the baseline: the largest number of any variant. `None` where the stratum has no other variant.
fn complete_blocks(experiment: &Experiment, trials: &[TrialRecord], baseline: &Variant) -> Option<u32> {
    pairs(experiment).find(|(_, of)| of.id == baseline.id)?;
    let place = |t: &TrialRecord| (t.trial.block, t.trial.sub_block);
    let mut labels: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    let own = trials.iter().filter(|t| t.trial.variant == baseline.id);
    own.for_each(|t| *labels.entry(place(t)).or_default() += 1);
    labels.retain(|_, ran| *ran == 1 + u32::from(experiment.compare().twice));
    let mut blocks: BTreeMap<usize, BTreeSet<u32>> = BTreeMap::new();
    for trial in trials.iter().filter(|t| labels.contains_key(&place(t))) {
        blocks.entry(trial.trial.variant).or_default().insert(trial.trial.block);
    }
    blocks.remove(&baseline.id);
    Some(blocks.values().map(BTreeSet::len).max().unwrap_or(0) as u32)
}

/// Findings about single trials, as recorded or else as the guards return them now: for each variant, phase and guard
/// the first one, with the number of other trials that have the same finding.
fn of_trials(experiment: &Experiment, trials: &[TrialRecord], clock: Nanos) -> Vec<Finding> {
    let mut kinds: BTreeMap<(usize, String, Option<String>), (Finding, u32)> = BTreeMap::new();
    for record in trials {
        let spec = &experiment.variants()[record.trial.variant].spec;
        let own = match record.findings.as_slice() {
            [] => trial::check(spec, record, clock),
            recorded => recorded.to_vec(),
        };
        for finding in own {
            let kind = (record.trial.variant, finding.guard.clone(), finding.phase.clone());
            kinds.entry(kind).and_modify(|(_, more)| *more += 1).or_insert((finding, 0));
        }
    }
    let gathered = kinds.into_iter().map(|((variant, ..), (finding, more))| {
        let who = name(experiment, &experiment.variants()[variant]);
        let rest = if more > 0 { format!(" (and {more} more trials with this finding)") } else { String::new() };
        Finding { message: format!("`{who}`: {}{rest}", finding.message), ..finding }
    });
    gathered.collect()
}

/// Each variant with its stratum's baseline.
fn pairs(experiment: &Experiment) -> impl Iterator<Item = (&Variant, &Variant)> {
    experiment.variants().iter().filter(|v| !v.baseline).filter_map(|v| Some((v, experiment.baseline_of(v)?)))
}

/// A variant with its trials of a run.
pub fn variant_trials<'a>(
    experiment: &'a Experiment,
    trials: &'a [TrialRecord],
    variant: &'a Variant,
) -> VariantTrials<'a> {
    let own = trials.iter().filter(|t| t.trial.variant == variant.id).collect();
    VariantTrials { name: name(experiment, variant), spec: &variant.spec, trials: own }
}

fn name(experiment: &Experiment, variant: &Variant) -> String {
    experiment.labels(variant)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use prony_experiment::plan::plan;
    use prony_experiment::{check, parse};
    use prony_model::catalog::{EngineCatalog, EngineFacts, Overrides, StoreFault};
    use prony_model::metric::{Metric, MetricKey};
    use prony_model::outcome::{Ending, Outcome};
    use prony_model::reading::{Reading, Why};
    use prony_model::record::{Answer, Completion, Conditions, MetricKeyText, PhaseRecord};
    use prony_model::spec::{Durability, StoreSpec};
    use prony_model::trial::PlannedTrial;

    pub(in crate::guard) struct Engines;

    impl EngineCatalog for Engines {
        fn engines(&self) -> Vec<String> {
            ["memory", "lmdb", "redb"].map(str::to_owned).to_vec()
        }

        fn absent(&self) -> Vec<(String, String)> {
            Vec::new()
        }

        fn facts(&self, _: &str) -> Option<EngineFacts> {
            Some(EngineFacts {
                batches: true,
                reads_own_writes: true,
                open_transactions: true,
                ordered: true,
                persistent: true,
                processes: true,
                max_key: None,
                classes: vec![Durability::Strict, Durability::Volatile],
            })
        }

        fn check(&self, _: &StoreSpec) -> Vec<StoreFault> {
            Vec::new()
        }
    }

    /// Three engines at two sizes, compared with the memory engine in each.
    fn experiment(blocks: u32) -> Experiment {
        experiment_with("", "", blocks)
    }

    /// The same with a design and with more phases.
    fn experiment_with(design: &str, phases: &str, blocks: u32) -> Experiment {
        let text = format!(
            "{design}[factors]\nsize = [1000, 2000]\nengine = [\"memory\", \"lmdb\", \"redb\"]\n\
             [compare]\nbaseline = {{ engine = \"memory\" }}\nblocks = {blocks}\n[store]\nengine = \"{{engine}}\"\n\
             [data]\nrecords = \"{{size}}\"\n[[phase]]\nname = \"write\"\nput = {{}}\n{phases}"
        );
        checked(&text)
    }

    fn checked(text: &str) -> Experiment {
        let raw = parse(text, "analysis.toml").expect("it parses");
        check(&raw, &Engines, &Overrides::default()).unwrap_or_else(|problems| panic!("{problems:#?}"))
    }

    fn record(trial: PlannedTrial, time: f64) -> TrialRecord {
        let key = MetricKeyText(MetricKey::amount(Metric::Time));
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
            answer: Some(Answer { rows: Some(1), digest: "lines:0".into(), comparable: true }),
            errors: BTreeMap::new(),
        };
        TrialRecord {
            trial,
            started_unix_ms: 0,
            took: Nanos::from_secs(1),
            ending: Ending { outcome: Outcome::Ok, phase: None, after: Nanos::ZERO, evidence: Vec::new() },
            phases: vec![phase],
            effective: Some(super::super::tests::store(Durability::Strict)),
            conditions: Conditions::default(),
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

    fn found(experiment: &Experiment, trials: &[TrialRecord]) -> Vec<Finding> {
        let primary: MetricName = "write.time".parse().unwrap();
        gather(experiment, trials, Some(&primary), Nanos::from_nanos(25))
    }

    fn of<'a>(experiment: &'a Experiment, wanted: &'a str) -> impl Fn(&TrialRecord) -> bool + 'a {
        move |record| name(experiment, &experiment.variants()[record.trial.variant]) == wanted
    }

    #[test]
    fn a_run_without_faults_has_no_findings() {
        let experiment = experiment(10);
        assert_eq!(found(&experiment, &trials(&experiment)), []);
    }

    /// A gate passed on the others, and nothing said that these were in no verdict.
    #[test]
    fn variants_that_are_compared_with_nothing_are_named() {
        let found = |experiment: &Experiment| {
            let found = found(experiment, &trials(experiment)).into_iter().filter(|f| f.guard == "uncompared");
            found.map(|finding| finding.message).collect::<Vec<_>>()
        };
        let skip = "[design]\nskip = [{ engine = \"memory\", size = 2000 }]\n";
        let why = "the variant's stratum has no baseline";
        let expected = format!("the verdicts leave out 2 of 4 variants: `2000, lmdb`: {why}; `2000, redb`: {why}");
        assert_eq!(found(&experiment_with(skip, "", 6)), [expected]);
        let only = "[[phase]]\nname = \"read\"\nget = {}\nwhen = { engine = [\"memory\", \"lmdb\"], size = 1000 }\n";
        let second = experiment_with("", only, 6).source().replace("blocks", "metrics = [\"read.time\"]\nblocks");
        let message = found(&checked(&second)).remove(0);
        assert!(
            message.starts_with("some verdicts leave out 3 of 4 variants: `1000, redb`: the variant or its"),
            "{message}"
        );
        let no_baseline = experiment(6).source().replace("baseline = { engine = \"memory\" }\n", "");
        assert_eq!(found(&checked(&no_baseline)), [""; 0], "nothing at all is compared, which is said elsewhere");
    }

    #[test]
    fn findings_of_trials_are_gathered_by_variant() {
        let experiment = experiment(6);
        let mut all = trials(&experiment);
        let lmdb = of(&experiment, "1000, lmdb");
        for r in all.iter_mut().filter(|r| lmdb(r)) {
            r.phases[0].errors.insert("map full".into(), 1 + u64::from(r.trial.block));
        }
        let found = found(&experiment, &all);
        assert_eq!(found.len(), 1, "{found:?}");
        let message = "`1000, lmdb`: 1 operations failed and 0 succeeded, most often: `map full` (and 5 more trials with this finding)";
        assert_eq!(found[0].message, message);
    }

    #[test]
    fn what_a_record_already_holds_is_not_looked_for_again() {
        let experiment = experiment(6);
        let mut all = trials(&experiment);
        let recorded = Finding { phase: Some("write".into()), ..trial_finding() };
        all[0].findings.push(recorded.clone());
        let found = found(&experiment, &all);
        assert_eq!(found.len(), 1);
        assert!(found[0].message.ends_with(&recorded.message) && found[0].guard == recorded.guard);
    }

    fn trial_finding() -> Finding {
        trial::throttled(&disturbances::Disturbances {
            throttled_thermal: Some(2.0),
            ..disturbances::Disturbances::default()
        })
        .unwrap()
    }

    #[test]
    fn arms_are_looked_at_inside_their_stratum() {
        let experiment = experiment(6);
        let mut all = trials(&experiment);
        let odd = of(&experiment, "2000, redb");
        for r in &mut all {
            let digest = if odd(r) { "lines:b" } else { "lines:a" };
            r.phases[0].answer = Some(Answer { rows: Some(5), digest: digest.into(), comparable: true });
        }
        let found = found(&experiment, &all);
        assert_eq!(found.iter().map(|f| f.guard.as_str()).collect::<Vec<_>>(), ["answers_differ"]);
        assert!(found[0].message.contains("`2000, memory` and `2000, redb`"), "{}", found[0].message);
    }

    #[test]
    fn a_baseline_that_drifts_is_named() {
        let experiment = experiment(12);
        let mut all = trials(&experiment);
        let baseline = of(&experiment, "1000, memory");
        for r in all.iter_mut().filter(|r| baseline(r)) {
            let key = MetricKeyText(MetricKey::amount(Metric::Time));
            let slower = Reading::Measured(1e9 * (1.0 + 0.02 * f64::from(r.trial.position)));
            r.phases[0].readings.get_mut("").unwrap().insert(key, slower);
        }
        let found = found(&experiment, &all);
        assert_eq!(found.iter().map(|f| f.guard.as_str()).collect::<Vec<_>>(), ["drift"]);
        assert!(
            found[0].message.starts_with("`1000, memory`: the baseline's primary metric rose by"),
            "{}",
            found[0].message
        );
    }

    #[test]
    fn too_few_blocks_are_said_once() {
        let experiment = experiment(3);
        let found = found(&experiment, &trials(&experiment));
        assert_eq!(found.iter().map(|f| f.guard.as_str()).collect::<Vec<_>>(), ["too_few_blocks"]);
    }
}
