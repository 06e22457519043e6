//! Tests of experiments that grow by variants, and of comparisons of two of them.

use std::collections::BTreeMap;

use super::*;
use crate::design::{Blocks, CellPart, Column, Expr, Statistic, TableSpec};

const TEXT: &str = r#"
[experiment]
title = "Size"
[factors]
n = [10]
engine = ["memory", "lmdb"]
[compare]
baseline = { engine = "memory" }
blocks = 7
[store]
engine = "{engine}"
[data]
records = "{n}"
key = "k{i}"
value = { bytes = 8 }
[[phase]]
name = "write"
put = {}
"#;

fn at(n: u32) -> Experiment {
    sound_with(TEXT, &Overrides { set: vec![("n".to_owned(), vec![n.to_string()])], ..Overrides::default() })
}

fn records(experiment: &Experiment, variant: usize) -> u64 {
    experiment.variants()[variant].spec.data.first().map_or(0, |data| data.records)
}

#[test]
fn variants_keep_their_numbers_while_levels_are_sorted_in() {
    let mut grown = at(10).emptied("how far".to_owned());
    assert!(grown.variants().is_empty() && grown.explores());
    let ids: Vec<usize> = [(80, 1), (10, 0), (40, 1), (80, 0)].map(|(n, v)| grown.admit(&at(n), v)).to_vec();
    assert_eq!(ids, [0, 1, 2, 3]);
    assert_eq!(grown.admit(&at(40), 1), 2, "known already");
    let labels: Vec<&str> = grown.factors()[0].levels.iter().map(|level| level.label.as_str()).collect();
    assert_eq!(labels, ["10", "40", "80"]);
    for (id, n, engine) in [(0, 80, "lmdb"), (1, 10, "memory"), (2, 40, "lmdb"), (3, 80, "memory")] {
        let variant = &grown.variants()[id];
        assert_eq!((variant.id, records(&grown, id)), (id, n));
        assert_eq!(grown.level_of(variant, 0).number, Some(n as f64));
        assert_eq!(grown.level_of(variant, 1).label, engine);
        assert!(!variant.baseline && variant.stratum == 0);
    }
    let again: Experiment = serde_json::from_str(&serde_json::to_string(&grown).unwrap()).unwrap();
    assert_eq!(again, grown);
}

#[test]
fn a_duel_is_an_ordinary_experiment_of_two() {
    let mut grown = at(10).emptied("search".to_owned());
    assert_eq!([10, 80, 40].map(|n| grown.admit(&at(n), 1)), [0, 1, 2]);
    let metric = "write.time".parse().unwrap();
    let duel = grown.duel(2, 1, &metric, Blocks { min: 6, max: 30 }).titled("duel".to_owned());
    assert_eq!((records(&duel, 0), records(&duel, 1)), (40, 80));
    assert_eq!(duel.variants().iter().map(|variant| variant.baseline).collect::<Vec<_>>(), [true, false]);
    assert_eq!(duel.compare().baseline.iter().collect::<Vec<_>>(), [(&"n".to_owned(), &"40".to_owned())]);
    assert!(!duel.explores() && duel.seed() != grown.seed() && duel.title() == "duel");
    assert_eq!(duel.compare().primary.as_ref(), Some(&metric));
    assert!(duel.variants().iter().all(|variant| variant.blocks == Blocks { min: 6, max: 30 }));
}

#[test]
fn a_search_goes_on_with_the_commands_of_its_file_under_the_numbers_of_the_record() {
    let at = |n: u32| {
        let text =
            "[factors]\nn = [1]\n[observe]\nrecord_commands = false\n[program.x]\ncommand = [\"cmd\", \"{n}\"]\n";
        sound_with(text, &Overrides { set: vec![("n".to_owned(), vec![n.to_string()])], ..Overrides::default() })
    };
    let words = |experiment: &Experiment, id: usize| {
        let program = experiment.variants()[id].spec.subject.program();
        program.map(|program| program.command.words()).unwrap_or_default()
    };
    let mut grown = at(1).emptied("search".to_owned());
    assert_eq!([80, 1, 40].map(|n| grown.admit(&at(n), 0)), [0, 1, 2]);
    let recorded = grown.recorded().into_owned();
    let mut first = at(1).emptied("search".to_owned());
    first.admit(&at(1), 0);
    let mut resumed = first.continuing(&recorded);
    assert_eq!(resumed.source(), at(1).source());
    assert_eq!(words(&resumed, 1), ["cmd", "1"], "its own come from the file");
    assert_ne!(words(&resumed, 0), ["cmd", "80"], "the record has none");
    assert_eq!([80, 1, 40, 160].map(|n| resumed.admit(&at(n), 0)), [0, 1, 2, 3]);
    assert_eq!([0, 1, 2].map(|id| words(&resumed, id)), [["cmd", "80"], ["cmd", "1"], ["cmd", "40"]]);
    grown.admit(&at(160), 0);
    assert_eq!(resumed, grown);
}

#[test]
fn a_duel_counts_syncs_as_the_search_does() {
    let text = "[factors]\nn = [1, 2]\n[program.x]\ncommand = [\"cmd\", \"{n}\"]\n";
    let experiment = sound_with(text, &Overrides::default());
    let table = |metric: &str| TableSpec {
        title: None,
        select: BTreeMap::new(),
        rows: vec!["n".to_owned()],
        tables: Vec::new(),
        columns_by: Vec::new(),
        columns: vec![Column {
            title: metric.to_owned(),
            parts: vec![CellPart::Figure { expr: Expr::Metric(metric.parse().unwrap()), format: None }],
        }],
        statistic: Statistic::Median,
    };
    let counts = |bound: &str| {
        let mut search = experiment.emptied("search".to_owned()).showing(vec![table("run.time"), table(bound)]);
        assert_eq!([0, 1].map(|id| search.admit(&experiment, id)), [0, 1]);
        let duel = search.duel(0, 1, &"run.time".parse().unwrap(), Blocks { min: 6, max: 6 });
        assert_eq!(search.counts_syncs(), duel.counts_syncs(), "{bound}");
        duel.counts_syncs()
    };
    assert!(counts("run.fsyncs") && !counts("run.cpu"));
}
