//! Figures of the results database on this machine. Run by hand:
//! `cargo test -p prony --test it -- --ignored speed --nocapture`

use std::time::Instant;

use prony::report::render::Render;
use prony::report::render::terminal::Terminal;
use prony::report::{Options, build};
use prony::results::Database;
use serde_json::json;

use crate::synthetic::{every_figure, experiment, numbers, phase, series, start, texts, trial};

#[test]
#[ignore = "prints figures and asserts nothing on time"]
fn speed_of_append_and_load() {
    let dir = tempfile::tempdir_in(".").unwrap();
    let path = dir.path().join("prony.db");
    let mut database = Database::create(&path).unwrap();
    let factors =
        [numbers("documents", &["1000", "10000", "100000", "1000000"]), texts("engine", &["a", "b", "c", "d", "e"])];
    let phases = [("load", true), ("read", true), ("scan", true)];
    let experiment = experiment("Speed", &factors, &phases, 500);
    let run = database.begin_run(&start(&experiment, &json!({}), 10_000)).unwrap();
    let began = Instant::now();
    for position in 0..10_000u32 {
        let mut record = trial(position, position / 20, position as usize % 20);
        for (i, name) in ["load", "read", "scan"].into_iter().enumerate() {
            let mut phase = phase(name, &[]);
            phase.readings.insert(String::new(), every_figure(u64::from(position) * 3 + i as u64));
            record.phases.push(phase);
        }
        record.series = vec![series(10, 1)];
        database.append_trial(run, &record).unwrap();
        if position == 999 {
            println!("append: {:?} a trial over the first 1,000", began.elapsed() / 1000);
        }
    }
    println!("append: {:?} a trial over 10,000", began.elapsed() / 10_000);
    println!("file: {} MB", std::fs::metadata(&path).unwrap().len() / 1_000_000);
    let began = Instant::now();
    let data = database.load_run(run).unwrap();
    let readings: usize = data.trials.iter().flat_map(|t| &t.phases).map(|p| p.readings[""].len()).sum();
    println!("load_run: {:?} for {} trials, {readings} readings", began.elapsed(), data.trials.len());
    let began = Instant::now();
    let report = build(&data, &Options::default());
    Terminal { width: Some(120), colour: false }.render(&report, &mut Vec::new()).unwrap();
    println!("build and render: {:?}", began.elapsed());
}

#[test]
#[ignore = "prints figures and asserts nothing on time"]
fn speed_of_series() {
    let dir = tempfile::tempdir_in(".").unwrap();
    let mut database = Database::create(&dir.path().join("prony.db")).unwrap();
    let experiment = experiment("Series", &[], &[("load", true)], 1);
    let run = database.begin_run(&start(&experiment, &json!({}), 1)).unwrap();
    let mut record = trial(0, 0, 0);
    record.series = (0..20).map(|pid| series(50_000, pid)).collect();
    let began = Instant::now();
    database.append_trial(run, &record).unwrap();
    println!("append: {:?} for 1,000,000 samples", began.elapsed());
    let began = Instant::now();
    let loaded = database.load_series(run, 0).unwrap();
    println!("load_series: {:?}", began.elapsed());
    assert_eq!(loaded, record.series);
    drop(database);
    println!("file: {} kB", std::fs::metadata(dir.path().join("prony.db")).unwrap().len() / 1000);
}
