//! Tests crash trials through the real binary: process crashes of real engines.

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use prony_analysis::crash;
use prony_engines::catalog::Catalog;
use prony_model::catalog::Overrides;
use prony_model::crash::{
    CrashSummary, CrashVerdict, CutEnding, CutKind, CutRecord, Fault, FaultKind, Found, ImageRecord, Survived,
};
use prony_model::reading::Reading;
use prony_model::record::effective::PowerCut;
use prony_model::record::{Effective, EffectiveStore};
use prony_model::units::Nanos;
use prony_results::{Database, RunData, RunId};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::bench::{Bench, PRONY};
use crate::records;
use crate::synthetic::{run_data, trial};

/// Stores with these levels, whose writes of two collections are cut so often.
fn experiment(stores: &str, cuts: u32) -> String {
    let mut text = format!(
        "[compare]\nblocks = 1\n[factors.store]\n{stores}\n[store]\nuse = \"{{store}}\"\n\
         [data.collection.a]\nrecords = 200\nkey = \"{{i}}\"\nvalue = {{ bytes = 100 }}\n\
         [data.collection.b]\nrecords = 50\nkey = \"{{i}}\"\nvalue = {{ bytes = 300 }}\n"
    );
    let phases = [
        ("put", "put = { collection = \"a\" }", "[]"),
        ("batch", "update = { collection = \"a\", order = \"uniform\", transaction = { batch = 7 } }", "[\"b\"]"),
        ("delete", "delete = { collection = \"b\", transaction = { batch = 3 } }", "[\"a\"]"),
    ];
    for (name, action, _) in phases {
        text += &format!("[[phase]]\nname = \"{name}\"\n{action}\n");
    }
    for (name, _, also) in phases {
        text += &format!(
            "[[phase]]\nname = \"crash {name}\"\nkill = {{ during = \"{name}\", cuts = {cuts}, within = \"120 ms\", also = {also} }}\n"
        );
    }
    text
}

/// A run with a cut that broke a promise.
pub(crate) fn example() -> RunData {
    let raw = prony_experiment::parse(&power_cuts("sqlite = { engine = \"sqlite\" }"), "file").unwrap();
    let experiment = prony_experiment::check(&raw, &Catalog, &Overrides::default()).unwrap();
    let Effective::Store(store) = records::store() else { unreachable!() };
    let found = Survived {
        open: Nanos::from_micros(350),
        lost: 2,
        lost_at_most: 2,
        oldest_lost: Some(Nanos::from_millis(4)),
        faults: vec![Fault { kind: FaultKind::Partial, text: "record 17 of commit 130 is missing".to_owned() }],
        integrity: Some(vec!["row 3 missing from index".to_owned()]),
        refuses_writes: Some("database disk image is malformed".to_owned()),
        unfinished: Some("the check did not end within 60 s".to_owned()),
        ..Survived::default()
    };
    let images = vec![ImageRecord { image: 0, contains: "none".to_owned(), found: Found::Survived(Box::new(found)) }];
    let ending = CutEnding::Cut {
        acknowledged: 131,
        after: Nanos::from_millis(90),
        images,
        remarks: vec!["writes through a mapping were held back until the cut".to_owned()],
        saved: Reading::Measured("prony-cuts/7-0".to_owned()),
    };
    let cut = CutRecord {
        variant: 0,
        phase: "crash".to_owned(),
        cut: 0,
        kind: CutKind::PowerCut,
        seed: 42,
        moment: Nanos::from_millis(90),
        effective: Some(EffectiveStore::clone(&store)),
        ending,
        took: Nanos::from_millis(900),
    };
    let failed =
        CutRecord { cut: 1, ending: CutEnding::Failed { message: "the disk is full".to_owned() }, ..cut.clone() };
    RunData { cuts: vec![cut, failed], ..run_data(experiment, 1, vec![trial(0, 0, 0)]) }
}

fn summaries(data: &RunData) -> Vec<CrashSummary> {
    crash::of(&data.experiment, &data.cuts)
}

/// The promise held in the cuts that count. On a busy machine a cut may come before the first commit, and the contents may be those
/// after several numbers of commits.
fn assert_unbroken(summary: &CrashSummary) {
    match &summary.verdict {
        CrashVerdict::Unbroken { below } => {
            assert!((below - (1.0 - 0.05f64.powf(1.0 / f64::from(summary.cuts)))).abs() < 1e-9, "{summary:?}");
        }
        CrashVerdict::Unknown { .. } => assert_eq!(summary.cuts, 0, "{summary:?}"),
        other => panic!("{other:?}"),
    }
    for why in summary.uncounted.iter().flat_map(|why| why.split("; ")) {
        let known = ["no commit was acknowledged before the cut", "fits several numbers of commits"];
        assert!(known.iter().any(|known| why.contains(known)), "{why}");
    }
}

#[test]
fn a_process_crash_loses_nothing_that_engines_promise_to_keep() {
    let bench = Bench::new();
    let stores = "lmdb = { engine = \"lmdb\", durability = \"none\" }\nsqlite = { engine = \"sqlite\" }\n\
                  sqlite-delete = { engine = \"sqlite\", options = { journal = \"delete\" } }\nredb = { engine = \"redb\" }\n\
                  fjall = { engine = \"fjall\", durability = \"relaxed\" }";
    let data = bench.run(&experiment(stores, 2));
    assert_eq!((data.trials.len(), data.cuts.len()), (5, 5 * 3 * 2), "cuts are no trials");
    let summaries = summaries(&data);
    for summary in &summaries {
        assert_unbroken(summary);
        assert_eq!((summary.images, summary.corrupt), (summary.cuts, 0), "{summary:?}");
        assert!(summary.lost.is_none_or(|lost| lost.most == 0.0), "{summary:?}");
    }
    assert!(summaries.iter().any(|summary| summary.acknowledged.is_some_and(|commits| commits.most > 0.0)));
    let checked = |cut: &CutRecord| match &cut.ending {
        CutEnding::Cut { images, .. } => match &images[0].found {
            Found::Survived(survived) => survived.integrity.clone(),
            found => panic!("{found:?}"),
        },
        ending => panic!("{ending:?}"),
    };
    let engine = |cut: &CutRecord| cut.effective.as_ref().unwrap().engine.clone();
    let with_check: BTreeSet<String> =
        data.cuts.iter().filter(|cut| checked(cut) == Some(Vec::new())).map(engine).collect();
    assert_eq!(
        with_check,
        BTreeSet::from(["redb".to_owned(), "sqlite".to_owned()]),
        "engines with a check of their own"
    );
    let shown = String::from_utf8(bench.prony(&["show"]).stdout).unwrap();
    assert!(shown.contains("Crash trials: crash put") && shown.contains("held in "), "{shown}");
    let refused = bench.prony(&["show", "--phase", "crash put"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(
        said.contains("has crash trials, which have no metrics") && said.contains("in the table *Crash trials*"),
        "{said}"
    );
    let json: Value = serde_json::from_slice(&bench.prony(&["report", "--format", "json"]).stdout).unwrap();
    assert_eq!(json["crashes"].as_array().unwrap().len(), 15);
    assert_eq!(json["cuts"].as_array().unwrap().len(), 30);
    let plot = bench.prony(&["plot", "latest", "durability"]);
    let plot = String::from_utf8(plot.stdout).unwrap();
    assert!(plot.contains("Rate and loss: crash put") && plot.contains("sqlite-delete: Rate"), "{plot}");
    assert_eq!(
        plot.matches("held in ").count(),
        summaries.iter().filter(|of| of.phase == "crash put" && of.cuts > 0).count()
    );
    for format in ["markdown", "html"] {
        let report = String::from_utf8(bench.prony(&["report", "--format", format]).stdout).unwrap();
        assert!(report.contains("Crash trials: crash batch"), "{format}");
    }
}

#[test]
fn what_stays_in_the_process_is_lost_and_that_is_what_is_promised() {
    let bench = Bench::new();
    let stores = "redb = { engine = \"redb\", durability = \"volatile\" }\nmemory = { engine = \"memory\" }";
    let data = bench.run(&experiment(stores, 2));
    let (redb, memory): (Vec<_>, Vec<_>) = summaries(&data).into_iter().partition(|summary| summary.variant == 0);
    for summary in redb {
        assert_unbroken(&summary);
        assert_eq!(summary.lost, summary.acknowledged, "nothing was synced after the records were stored");
        assert!(summary.lost_time.is_none_or(|time| time.most > 0.0));
        assert_eq!((summary.with_holes, summary.with_partial, summary.corrupt), (0, 0, 0));
    }
    for summary in memory {
        let CrashVerdict::Unsupported { why } = summary.verdict else { panic!("{summary:?}") };
        assert_eq!(why, "`memory` keeps nothing on the disk");
    }
    assert_eq!(data.cuts.iter().filter(|cut| cut.variant == 1).count(), 3, "it is said once for each phase");
}

/// A check of durability in CI passed although nothing was tested.
#[test]
fn crash_trials_without_a_cut_that_counts_are_no_success() {
    let bench = Bench::new();
    bench.write("e.toml", experiment("memory = { engine = \"memory\" }", 2));
    let output = bench.prony(&["run", "e.toml", "--quiet"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("exit code 1: crash trials of a variant, or of all variants, tested nothing"), "{said}");
}

#[test]
fn an_interrupted_run_makes_the_cuts_that_it_lacks() {
    let bench = Bench::new();
    let text = experiment("lmdb = { engine = \"lmdb\", durability = \"none\" }", 8);
    bench.write("e.toml", format!("[observe]\ncare = \"light\"\n{text}"));
    let check = String::from_utf8(bench.prony(&["check", "e.toml"]).stdout).unwrap();
    assert!(check.contains("24 cuts of crash trials come after the blocks"), "{check}");
    let mut command = Command::new(PRONY);
    command.args(["run", "e.toml", "--quiet"]).current_dir(bench.dir.path()).env("PRONY_RUNS", bench.path("runs"));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let stored = || {
        let database = Database::open(&bench.path("prony.db"));
        database.and_then(|database| database.cuts(RunId(1))).map_or(0, |cuts| cuts.len())
    };
    while stored() < 3 {
        assert!(Instant::now() < deadline && child.try_wait().unwrap().is_none(), "three cuts of many");
        std::thread::sleep(Duration::from_millis(20));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    child.wait().unwrap();
    let mut before = bench.data().cuts;
    assert!((3..24).contains(&before.len()), "{}", before.len());
    let failed = before.remove(1);
    let failed = CutRecord { ending: CutEnding::Failed { message: "no memory".to_owned() }, ..failed };
    Database::open(&bench.path("prony.db")).unwrap().append_cut(RunId(1), &failed).unwrap();
    assert!(bench.prony(&["run", "--resume", "1", "--quiet"]).status.success());
    let data = bench.data();
    assert_eq!((data.trials.len(), data.cuts.len()), (1, 24));
    assert!(before.iter().all(|cut| data.cuts.contains(cut)), "what was checked stays");
    assert!(data.cuts.iter().all(|cut| matches!(cut.ending, CutEnding::Cut { .. })), "what failed is made again");
    let left: Vec<_> = std::fs::read_dir(bench.dir.path()).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().contains("scratch")), "{left:?}");
}

/// Stores, of which power failures cut the writes of single records.
fn power_cuts(stores: &str) -> String {
    format!(
        "[compare]\nblocks = 1\n[factors.store]\n{stores}\n[store]\nuse = \"{{store}}\"\n[data]\nrecords = 200\nkey = \"{{i}}\"\n\
         value = {{ bytes = 100 }}\n[[phase]]\nname = \"put\"\nput = {{}}\n[[phase]]\nname = \"crash\"\n\
         powercut = {{ during = \"put\", cuts = 2, within = \"200 ms\", images = 4 }}\n"
    )
}

#[test]
fn a_power_failure_loses_what_was_not_synced_and_nothing_else() {
    let bench = Bench::new();
    let stores = "synced = { engine = \"lmdb\", durability = \"strict\" }\nlog = { engine = \"sqlite\", durability = \"relaxed\" }\n\
                  none = { engine = \"lmdb\", durability = \"none\" }";
    let data = bench.run(&power_cuts(stores));
    let summaries = summaries(&data);
    if let CrashVerdict::Unsupported { why } = &summaries[0].verdict {
        assert_ne!(std::env::var("PRONY_REQUIRE_ALL").as_deref(), Ok("1"), "{why}");
        println!("SKIPPED: {why}");
        return;
    }
    let [synced, log, none] = &summaries[..] else { panic!("{summaries:?}") };
    for summary in [synced, log] {
        assert_unbroken(summary);
        assert_eq!((summary.images, summary.corrupt), (4 * summary.cuts, 0), "images are no cuts");
    }
    assert!(synced.lost.is_none_or(|lost| lost.most == 0.0));
    // A cut may come before the first commit, or just after a checkpoint, which syncs: on a busy machine both may. Not each time.
    let loses = |log: &CrashSummary| log.lost.is_some_and(|lost| lost.most > 0.0);
    let again = || {
        let bench = Bench::new();
        let data = bench.run(&power_cuts("log = { engine = \"sqlite\", durability = \"relaxed\" }"));
        loses(&self::summaries(&data)[0])
    };
    assert!(loses(log) || (0..4).any(|_| again()), "a log that is not synced at each commit: {log:?}");
    assert_eq!(none.verdict, CrashVerdict::NothingPromised);
    assert_eq!(
        none.lost.map(|lost| lost.most),
        none.acknowledged.map(|commits| commits.most),
        "where nothing pending survives"
    );
    let left = std::fs::read_to_string("/proc/mounts").unwrap();
    assert!(!left.contains(&*bench.dir.path().to_string_lossy()), "no mount is left");
}

/// The binary under test with another function of the C library in the place of `fdatasync`.
fn without_fdatasync(bench: &Bench, other: &[u8; 11]) -> PathBuf {
    let mut binary = std::fs::read(PRONY).unwrap();
    let name = b"\0fdatasync\0";
    let found: Vec<usize> =
        binary.windows(name.len()).enumerate().filter(|(_, bytes)| bytes == name).map(|(at, _)| at).collect();
    assert!(!found.is_empty(), "the C library is linked dynamically");
    for at in found {
        binary[at..at + other.len()].copy_from_slice(other);
    }
    let path = bench.path("prony-without-fdatasync");
    std::fs::write(&path, binary).unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn a_store_that_does_not_sync_breaks_its_promise_and_its_cut_is_saved() {
    let bench = Bench::new();
    bench.write("e.toml", power_cuts("synced = { engine = \"lmdb\", durability = \"strict\" }"));
    // It returns without an error and syncs nothing.
    let prony = without_fdatasync(&bench, b"\0isatty\0\0\0\0");
    let run = |args: &[&str]| Command::new(&prony).args(args).current_dir(bench.dir.path()).output().unwrap();
    let output = run(&["run", "e.toml", "--quiet"]);
    let shown = String::from_utf8(output.stdout).unwrap();
    let [summary] = &summaries(&bench.data())[..] else { panic!("{shown}") };
    let (smallest, broken) = match &summary.verdict {
        CrashVerdict::Unsupported { why } => {
            assert_ne!(std::env::var("PRONY_REQUIRE_ALL").as_deref(), Ok("1"), "{why}");
            println!("SKIPPED: {why}");
            return;
        }
        CrashVerdict::Broken { smallest, broken } => (smallest, *broken),
        other => panic!("{other:?}"),
    };
    assert!(broken > 0 && shown.contains(&format!("broken in {broken} of 2 cuts")), "{shown}");
    assert_eq!(output.status.code(), Some(1), "{shown}");
    assert!(shown.contains("exit code 1: a crash trial broke what the store promises"), "{shown}");
    let saved = smallest.saved.measured().unwrap();
    let (image, seed) = (smallest.image.to_string(), smallest.seed.to_string());
    assert!(shown.contains(&format!("`prony powercut replay {saved} --image {image} --seed {seed}`")), "{shown}");
    let mut replay = Command::new(&prony);
    replay.args(["powercut", "replay", saved, "--image", &image, "--seed", &seed]).current_dir(bench.dir.path());
    bench.script("shell", "ls store; pwd > ../../place");
    let replayed = replay.env("SHELL", bench.path("shell")).output().unwrap();
    let said = String::from_utf8(replayed.stdout).unwrap();
    assert!(replayed.status.success() && said.starts_with(&format!("image {image} of policy ")), "{said}");
    assert!(said.contains("data.mdb"), "the shell is in the image: {said}");
    let place = std::fs::read_to_string(bench.path("place")).unwrap();
    assert!(!std::path::Path::new(place.trim()).exists(), "the image is removed when the shell ends");
    assert!(run(&["rm", "1", "--yes"]).status.success());
    assert!(!bench.path("prony.db-cuts").exists(), "a run is removed with its cuts");
}

/// Of 300 images of LMDB `bounded` none had lost anything: its commits were counted some milliseconds before the disk stopped, and
/// the last of these had long become durable then.
#[test]
fn the_loss_of_the_last_commit_is_found_while_more_follow() {
    let bench = Bench::new();
    let text = power_cuts("bounded = { engine = \"lmdb\", durability = \"bounded\" }").replace("cuts = 2", "cuts = 20");
    let mut data = bench.run(&text);
    let [summary] = &summaries(&data)[..] else { panic!("{data:?}") };
    if let CrashVerdict::Unsupported { why } = &summary.verdict {
        assert_ne!(std::env::var("PRONY_REQUIRE_ALL").as_deref(), Ok("1"), "{why}");
        println!("SKIPPED: {why}");
        return;
    }
    assert_unbroken(summary);
    assert_eq!(summary.lost.map(|lost| lost.most), Some(1.0), "{summary:?}");
    // The same store, if it promised that nothing is lost.
    for cut in &mut data.cuts {
        let promise = cut.effective.as_mut().and_then(|effective| effective.promise.as_mut()).unwrap();
        promise.power_cut = PowerCut::Nothing;
    }
    let verdict = summaries(&data).remove(0).verdict;
    let CrashVerdict::Broken { smallest, .. } = verdict else { panic!("{verdict:?}") };
    assert!(smallest.what.starts_with("1 acknowledged commit lost, the oldest acknowledged "), "{smallest:?}");
}

/// A `compute` phase whose keys were all there stood as `294,215 /s, fsyncs per transaction 0` beside cuts that lost nothing.
#[test]
fn rate_and_syncs_of_a_phase_that_changed_less_than_its_cuts_do_are_left_out() {
    let bench = Bench::new();
    let mut text = "[compare]\nblocks = 1\n[store]\nengine = \"lmdb\"\ndurability = \"strict\"\n\
                    [data]\nrecords = 60\nkey = \"{i}\"\nvalue = { bytes = 100 }\n"
        .to_owned();
    let phases = [("fill", "compute"), ("hit", "compute"), ("half", "delete"), ("rest", "delete"), ("again", "delete")];
    for (name, action) in phases {
        let count = if name == "half" { "count = 30" } else { "" };
        text += &format!("[[phase]]\nname = \"{name}\"\n{action} = {{ {count} }}\n");
    }
    for (name, _) in phases {
        // On a busy machine most cuts may come before the first operation, and a phase of which all do is not drawn.
        let cuts = if name == "fill" { 10 } else { 1 };
        text += &format!(
            "[[phase]]\nname = \"crash {name}\"\nkill = {{ during = \"{name}\", cuts = {cuts}, within = \"50 ms\" }}\n"
        );
    }
    let data = bench.run(&text);
    let less: Vec<Option<String>> =
        summaries(&data).iter().map(|summary| crash::changed_less(&data.experiment, summary, &data.trials)).collect();
    let of = |changed: &str, phase: &str| {
        Some(format!(
            "{changed} of 60 operations of the timed phase `{phase}` changed nothing, but every operation of a crash trial writes"
        ))
    };
    assert_eq!(less, [None, of("60", "hit"), None, of("30", "rest"), of("60", "again")]);
    let shown = String::from_utf8(bench.prony(&["show"]).stdout).unwrap();
    let table = |phase: &str| {
        let table = shown.split("Crash trials: ").find(|table| table.starts_with(&format!("crash {phase}\n")));
        // Footnotes are wrapped.
        table.unwrap_or_else(|| panic!("{shown}")).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    for (name, _) in phases {
        let is_left_out =
            table(name).contains("rate and syncs are missing, because they would not be those of the crash trials: ");
        assert_eq!(is_left_out, ["hit", "rest", "again"].contains(&name), "{}", table(name));
    }
    let plot = String::from_utf8(bench.prony(&["plot", "latest", "durability"]).stdout).unwrap();
    let drawn = |phases: &[&str]| phases.iter().any(|phase| plot.contains(&format!("Rate and loss: crash {phase}")));
    assert!(drawn(&["fill"]) && !drawn(&["hit", "rest", "again"]), "{plot}");
}

#[test]
fn an_engine_that_syncs_whole_file_systems_is_unsupported_and_not_blamed() {
    let bench = Bench::new();
    bench.write("e.toml", power_cuts("synced = { engine = \"lmdb\", durability = \"strict\" }"));
    let prony = without_fdatasync(&bench, b"\0sync\0\0\0\0\0\0");
    let output =
        Command::new(&prony).args(["run", "e.toml", "--quiet"]).current_dir(bench.dir.path()).output().unwrap();
    let [summary] = &summaries(&bench.data())[..] else { panic!("{output:?}") };
    let CrashVerdict::Unsupported { why } = &summary.verdict else { panic!("{summary:?}") };
    if why.contains("power failures cannot be simulated here") {
        assert_ne!(std::env::var("PRONY_REQUIRE_ALL").as_deref(), Ok("1"), "{why}");
        println!("SKIPPED: {why}");
        return;
    }
    assert_eq!(why, "the engine calls `sync` or `syncfs`, which a simulated disk cannot observe");
    assert_eq!(output.status.code(), Some(1), "no promise was broken, but none was tested either: {output:?}");
}
