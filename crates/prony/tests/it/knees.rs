//! Tests of the knee of goodput under load, of runs whose capacity is known.

use prony_analysis::guard::requests::CONNECTIONS_IN_USE;
use prony_analysis::guard::{Finding, Severity};
use prony_engines::catalog::Catalog;
use prony_experiment::{check, parse};
use prony_model::catalog::Overrides;
use prony_model::reading::Reading;
use prony_model::record::{Completion, TrialRecord};
use prony_report::plot::data::knee::{self, Load};
use prony_results::RunData;
use prony_stats::knee::NoKnee;

use crate::synthetic::{key, noise, phase, run_data, trial};

const BLOCKS: u32 = 6;
const CONNECTIONS: [f64; 7] = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0];

/// What requests over so many connections gave: goodput, and database operations for each success.
type Gave = fn(f64) -> (f64, f64);

/// The load of a run over connections.
fn loads(gave: Gave, blocks: u32) -> Vec<Load> {
    knee::of(&run(gave, blocks))
}

/// A run whose goodput falls while the work rises.
pub(crate) fn example() -> RunData {
    run(falls, BLOCKS)
}

fn falls(n: f64) -> (f64, f64) {
    if n <= 10.0 { (100.0 * n, 5.0) } else { (10_000.0 / n, 5.0 * n / 10.0) }
}

/// A run over connections, with noise of a few percent.
fn run(gave: Gave, blocks: u32) -> RunData {
    let text = "[factors]\nconnections = [1, 2, 5, 10, 20, 50, 100]\nsize = [10, 20]\n\
        [compare]\nbaseline = { connections = 1, size = 10 }\nmetric = \"insert.rate\"\nblocks = 6\n\
        [[phase]]\nname = \"insert\"\nhttp = { url = \"http://127.0.0.1:9\", path = \"/{size}\", requests = 100, connections = \"{connections}\" }\n";
    let raw = parse(text, "file").unwrap();
    let experiment = check(&raw, &Catalog, &Overrides::default()).unwrap_or_else(|problems| panic!("{problems:#?}"));
    let factors = experiment.factors();
    let at = factors.iter().position(|factor| factor.name == "connections").unwrap();
    let mut trials: Vec<TrialRecord> = Vec::new();
    for block in 0..blocks {
        for variant in experiment.variants() {
            let (rate, work) = gave(CONNECTIONS[variant.levels[at]]);
            let position = trials.len() as u32;
            let spread = 1.0 + 0.04 * (noise(u64::from(position)) - 0.5);
            let mut record = phase("insert", &[("rate", rate * spread)]);
            // Requests that failed are no goodput, and do not make the others uncounted.
            record.completion = if rate < 500.0 { Completion::Complete } else { Completion::Failed };
            let of_service = [(key("operations.per.ok"), Reading::Measured(work / spread))];
            record.readings.insert("db".to_owned(), of_service.into());
            trials.push(TrialRecord { phases: vec![record], ..trial(position, block, variant.id) });
        }
    }
    run_data(experiment, 1, trials)
}

#[test]
fn knee_is_at_the_capacity_and_of_the_factor_that_is_load() {
    // 100 a second for each connection, up to 1000.
    let found = loads(|n| ((100.0 * n).min(1_000.0), 5.0), BLOCKS);
    let names: Vec<(&str, &str)> = found.iter().map(|load| (load.factor.as_str(), load.name.as_str())).collect();
    assert_eq!(names, [("connections", "size=10"), ("connections", "size=20")]);
    for load in &found {
        let knee = load.knee.unwrap();
        assert_eq!((knee.x, knee.low, knee.high, load.overload.is_none()), (10.0, 5.0, 20.0, true), "{knee:?}");
        let [sentence] = load.sentences().try_into().unwrap();
        let expected = format!("`insert.rate` of `{}` has a knee at 10 `connections` (between 5 and 20): ", load.name);
        assert!(sentence.starts_with(&expected), "{sentence}");
    }
}

#[test]
fn goodput_that_falls_while_work_rises_is_named() {
    let found = loads(falls, BLOCKS);
    let (metric, overload) = found[0].overload.as_ref().unwrap();
    assert_eq!((metric.to_string().as_str(), overload.best, overload.at), ("insert.db.operations.per.ok", 10.0, 20.0));
    let sentences = found[0].sentences();
    let said = sentences.last().unwrap();
    assert!(
        said.starts_with("Beyond 10 `connections` goodput of `size=10` falls while work for each success"),
        "{said}"
    );
    assert!((overload.goodput - 0.5).abs() < 0.02 && (overload.work - 2.0).abs() < 0.1, "{overload:?}");
}

#[test]
fn no_knee_has_a_reason() {
    let of = |gave: Gave, blocks| {
        let found = loads(gave, blocks);
        (found[0].knee.unwrap_err(), found[0].sentences().join("\n"))
    };
    let (why, said) = of(|n| (10.0 * n, 5.0), BLOCKS);
    assert_eq!(why, NoKnee::Straight);
    assert!(said.contains("has no knee in `connections`: it does not bend"), "{said}");
    assert_eq!(of(|_| (900.0, 5.0), BLOCKS).0, NoKnee::Flat);
    let (why, said) = of(|n| ((100.0 * n).min(1_000.0), 5.0), 4);
    assert_eq!(why, NoKnee::FewBlocks { blocks: 4 });
    assert!(said.contains("4 blocks have a value at each level, and it takes 5"), "{said}");
}

/// The knee at which all connections were in use, or the load generator was the limit, was called that of the server.
#[test]
fn knee_that_may_not_be_the_servers_says_so() {
    let text = "[factors]\nrate = [100, 200, 400, 800, 1600]\n\
        [compare]\nbaseline = { rate = 100 }\nmetric = \"insert.latency.p99\"\nblocks = 6\n\
        [[phase]]\nname = \"insert\"\nhttp = { url = \"http://127.0.0.1:9\", path = \"/\", duration = \"9 s\", rate = \"{rate}\" }\n";
    let raw = parse(text, "file").unwrap();
    let experiment = check(&raw, &Catalog, &Overrides::default()).unwrap_or_else(|problems| panic!("{problems:#?}"));
    let of = |guard: Option<&str>, most: f64| {
        let mut trials = Vec::new();
        for (block, variant) in (0..6).flat_map(|block| experiment.variants().iter().map(move |one| (block, one))) {
            let asked = 100.0 * f64::from(1u32 << variant.levels[0]);
            let position = trials.len() as u32;
            let rate = asked.min(400.0) * (1.0 + 0.02 * (noise(u64::from(position)) - 0.5));
            let found = guard.map(|guard| Finding::of(guard, Severity::Warning, String::new(), "").in_phase("insert"));
            let findings = found.filter(|_| asked > 400.0).into_iter().collect();
            let readings = [("rate", rate)];
            let phases = vec![phase("insert", if asked > most { &[] } else { &readings })];
            trials.push(TrialRecord { phases, findings, ..trial(position, block, variant.id) });
        }
        knee::of(&run_data(experiment.clone(), 1, trials))[0].sentences().remove(0)
    };
    let sentence = |guard: Option<&str>| of(guard, f64::INFINITY);
    let said = sentence(Some(CONNECTIONS_IN_USE));
    assert!(said.starts_with("`insert.rate` over at most 100 connections has a knee at 400 `rate` "), "{said}");
    let said = sentence(None);
    assert!(said.starts_with("`insert.rate` has a knee at 400 `rate` ") && !said.contains("generator"), "{said}");
    for guard in ["generator_busy", "generator_stalled"] {
        let said = sentence(Some(guard));
        let expected = "; at 2 of its 5 levels the load generator, not the server, may have been the limit";
        assert!(said.contains(" has a knee at 400 `rate` ") && said.ends_with(expected), "{said}");
    }
    // A level at which every trial had timed out was left out, and the reason advised to try higher levels.
    let without = |most: f64| {
        let said = of(None, most);
        said.split_once("; left out, since no trial has a value there: ").map(|(_, levels)| levels.to_owned())
    };
    assert_eq!([800.0, 200.0, 3200.0].map(without), [Some("1600".into()), Some("400, 800, 1600".into()), None]);
}
