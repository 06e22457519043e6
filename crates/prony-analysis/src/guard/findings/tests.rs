use super::super::tests::Engines;
use super::*;
use prony_experiment::plan::plan;
use prony_experiment::{check, parse};
use prony_model::catalog::Overrides;
use prony_model::metric::{Metric, MetricKey};
use prony_model::outcome::{Ending, Outcome};
use prony_model::reading::{Reading, Why};
use prony_model::record::{Answer, Completion, Conditions, MetricKeyText, PhaseRecord};
use prony_model::spec::Durability;
use prony_model::trial::PlannedTrial;
use prony_model::units::Nanos;

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
        let label = experiment.labels(&experiment.variants()[trial.variant]);
        let base = if label.contains("2000") { 2e9 } else { 1e9 };
        let factor = if label.contains("lmdb") { 3.0 } else { 1.0 };
        let noise = 1.0 + 1e-4 * f64::from(trial.position * 7 % 13);
        record(trial, base * factor * noise)
    };
    plan(experiment).into_iter().map(one).collect()
}

fn found(experiment: &Experiment, trials: &[TrialRecord]) -> Vec<Finding> {
    let primary: MetricName = "write.time".parse().unwrap();
    of_run(experiment, trials, Some(&primary), true)
}

fn of<'a>(experiment: &'a Experiment, wanted: &'a str) -> impl Fn(&TrialRecord) -> bool + 'a {
    move |record| experiment.labels(&experiment.variants()[record.trial.variant]) == wanted
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
    let expected =
        format!("the verdicts leave out 2 of 4 variants: `size=2000, lmdb`: {why}; `size=2000, redb`: {why}");
    assert_eq!(found(&experiment_with(skip, "", 6)), [expected]);
    let only = "[[phase]]\nname = \"read\"\nget = {}\nwhen = { engine = [\"memory\", \"lmdb\"], size = 1000 }\n";
    let second = experiment_with("", only, 6).source().replace("blocks", "metrics = [\"read.time\"]\nblocks");
    let message = found(&checked(&second)).remove(0);
    assert!(
        message.starts_with("some verdicts leave out 3 of 4 variants: `size=1000, redb`: the variant or its"),
        "{message}"
    );
    let no_baseline = experiment(6).source().replace("baseline = { engine = \"memory\" }\n", "");
    assert_eq!(found(&checked(&no_baseline)), [""; 0], "nothing at all is compared, which is said elsewhere");
}

#[test]
fn variants_are_compared_inside_their_stratum() {
    let experiment = experiment(6);
    let mut all = trials(&experiment);
    let odd = of(&experiment, "size=2000, redb");
    for r in &mut all {
        let digest = if odd(r) { "lines:b" } else { "lines:a" };
        r.phases[0].answer = Some(Answer { rows: Some(5), digest: digest.into(), comparable: true });
    }
    let found = found(&experiment, &all);
    assert_eq!(found.iter().map(|f| f.guard.as_str()).collect::<Vec<_>>(), ["answers_differ"]);
    assert!(found[0].message.contains("`size=2000, memory` and `size=2000, redb`"), "{}", found[0].message);
}

#[test]
fn a_baseline_that_drifts_is_named() {
    let experiment = experiment(12);
    let mut all = trials(&experiment);
    let baseline = of(&experiment, "size=1000, memory");
    for r in all.iter_mut().filter(|r| baseline(r)) {
        let key = MetricKeyText(MetricKey::amount(Metric::Time));
        let slower = Reading::Measured(1e9 * (1.0 + 0.02 * f64::from(r.trial.position)));
        r.phases[0].readings.get_mut("").unwrap().insert(key, slower);
    }
    let found = found(&experiment, &all);
    assert_eq!(found.iter().map(|f| f.guard.as_str()).collect::<Vec<_>>(), ["drift"]);
    assert!(
        found[0].message.starts_with("`size=1000, memory`: the baseline's primary metric rose by"),
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

#[test]
fn stores_whose_answers_nobody_checked_are_reported() {
    let experiment = experiment(2);
    let mut trials = trials(&experiment);
    assert_eq!(run::answers_unchecked(&experiment, &trials), None);
    trials[3].phases[0].answer = None;
    let found = run::answers_unchecked(&experiment, &trials).unwrap();
    let expected = format!("1 of {} successful trials did not verify any of the data they read", trials.len());
    assert_eq!((found.guard.as_str(), found.message), ("answers_unchecked", expected));
}
