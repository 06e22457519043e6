//! Measures times of the results database on this machine. Run by hand: `cargo test -p prony --test it -- --ignored
//! speed --nocapture`

use std::time::{Duration, Instant};

use prony_model::trial::Label;
use prony_report::render::Render;
use prony_report::render::terminal::Terminal;
use prony_report::{Options, build};
use prony_results::Database;

use crate::compared::against;
use crate::records;
use crate::synthetic::{every_figure, experiment, numbers, phase, series, start, texts, trial};

/// Wall and CPU time of a piece of work: on a busy machine only the second means anything.
fn timed<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let cpu = || {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
    };
    let (wall_began, cpu_began) = (Instant::now(), cpu());
    let value = work();
    println!("{what}: {:?} wall, {:?} CPU", wall_began.elapsed(), cpu() - cpu_began);
    value
}

#[test]
#[ignore = "prints figures and asserts nothing on time"]
fn speed_of_append_and_load() {
    let dir = tempfile::tempdir_in(".").unwrap();
    let path = dir.path().join("prony.db");
    let mut database = Database::create(&path).unwrap();
    let factors =
        [numbers("documents", &["1000", "10000", "100000", "1000000"]), texts("engine", &["a", "b", "c", "d", "e"])];
    let phases = [("load", true), ("read", true), ("scan", true)];
    let experiment = against(&experiment("Speed", &factors, &phases, 400), "engine", "a");
    let run = database.begin_run(&start(&experiment, &records::host(), 10_000)).unwrap();
    let began = Instant::now();
    // Twenty variants, of which the four baselines run twice.
    let order: Vec<usize> = (0..20).chain((0..20).step_by(5)).collect();
    for position in 0..10_000u32 {
        let (block, place) = (position / 24, position as usize % 24);
        let mut record = trial(position, block, order[place]);
        record.trial.sub_block = experiment.variants()[order[place]].stratum as u32;
        record.trial.label = if place < 20 { Label::A } else { Label::A2 };
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
    let data = timed("load_run of 10,000 trials, 243 readings each", || database.load_run(run).unwrap());
    assert_eq!(data.trials.len(), 10_000);
    let verdicts = timed("16 comparisons", || prony_analysis::verdicts::of(&data));
    assert_eq!(verdicts.lines.len(), 16);
    timed("interactions", || prony_analysis::verdicts::interactions::of(&data, &verdicts));
    timed("build and render, verdicts and guards among it", || {
        let report = build(&data, &Options::default());
        Terminal { width: Some(120), colour: false }.render(&report, &mut Vec::new()).unwrap();
    });
}

#[test]
#[ignore = "prints figures and asserts nothing on time"]
fn speed_of_series() {
    let dir = tempfile::tempdir_in(".").unwrap();
    let mut database = Database::create(&dir.path().join("prony.db")).unwrap();
    let experiment = experiment("Series", &[], &[("load", true)], 1);
    let run = database.begin_run(&start(&experiment, &records::host(), 1)).unwrap();
    let mut record = trial(0, 0, 0);
    record.series = (0..20).map(|pid| series(50_000, pid)).collect();
    timed("append of 1,000,000 samples", || database.append_trial(run, &record).unwrap());
    let loaded = timed("load_series of 1,000,000 samples", || database.load_series(run, 0).unwrap());
    assert_eq!(loaded, record.series);
    drop(database);
    println!("file: {} kB", std::fs::metadata(dir.path().join("prony.db")).unwrap().len() / 1000);
}
