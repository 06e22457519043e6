//! Tests that the results database returns what was stored, and gives a reason for what it cannot read.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use prony_experiment::design::Experiment;
use prony_model::metric::{Metric, MetricKey};
use prony_model::reading::{Reading, Why};
use prony_model::record::{Facts, MORE_THAN_DEVICE, MetricKeyText, TrialRecord};
use prony_results::{Database, Error, RunId, RunStatus, SCHEMA_VERSION};
use serde_json::json;
use xxhash_rust::xxh3::xxh3_128;

use crate::bench::Bench;
use crate::records;
use crate::synthetic::{NOON, experiment, full_trial, phase, start, texts, trial};

struct Fixture {
    _dir: tempfile::TempDir,
    path: PathBuf,
}

fn fixture() -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("prony.db");
    Fixture { _dir: dir, path }
}

fn begin(database: &mut Database) -> RunId {
    let experiment = experiment("Two", &[texts("engine", &["a", "b"])], &[("write", true)], 3);
    database.begin_run(&start(&experiment, &records::host(), 6)).unwrap()
}

/// The trial as `load_run` gives it: without the heavy parts.
fn light(mut record: TrialRecord) -> TrialRecord {
    record.series.clear();
    for phase in &mut record.phases {
        phase.histograms.clear();
        phase.groups = None;
        phase.throughput = None;
    }
    record
}

#[test]
fn a_trial_comes_back_as_it_was() {
    let f = fixture();
    let mut database = Database::create(&f.path).unwrap();
    let run = begin(&mut database);
    for position in [1, 0, 2] {
        database.append_trial(run, &full_trial(position)).unwrap();
    }
    drop(database);
    let database = Database::open(&f.path).unwrap();
    let data = database.load_run(run).unwrap();
    assert_eq!(data.trials, (0..3).map(|p| light(full_trial(p))).collect::<Vec<_>>());
    let mut complete = data.trials[1].clone();
    database.complete(run, &mut complete).unwrap();
    assert_eq!(complete, full_trial(1));
    database.complete(run, &mut complete).unwrap();
    assert_eq!(complete, full_trial(1), "completing twice adds nothing");
}

/// Two of 12 trials had a number that was ten times too large, since other processes wrote meanwhile, and the table showed their median.
#[test]
fn bytes_written_that_one_trial_disproves_count_in_no_trial_of_the_variant() {
    let f = fixture();
    let mut database = Database::create(&f.path).unwrap();
    let run = begin(&mut database);
    let key = MetricKeyText(MetricKey::amount(Metric::Written));
    let why = Why::NotSupported(format!("it counted 71.0 MB{MORE_THAN_DEVICE}6.4 MB").into());
    let wrote = |position, variant, written: &Reading<f64>| {
        let mut record = trial(position, 0, variant);
        record.phases = vec![phase("write", &[])];
        record.phases[0].readings.entry(String::new()).or_default().insert(key, written.clone());
        // A replica that prints its bytes itself.
        record.phases[0].readings.entry("replica.1".into()).or_default().insert(key, Reading::Measured(5e6));
        record
    };
    let [disproved, counted] = [Reading::Missing(why), Reading::Measured(70e6)];
    for (position, variant, written) in [(0, 0, &counted), (1, 0, &disproved), (2, 1, &counted)] {
        database.append_trial(run, &wrote(position, variant, written)).unwrap();
    }
    let trials = database.load_run(run).unwrap().trials;
    let found: Vec<_> = trials.iter().map(|trial| trial.phases[0].readings[""][&key].clone()).collect();
    assert!(format!("{:?}", found[0]).contains("as another trial shows, it counted 71.0 MB"), "{:?}", found[0]);
    assert_eq!(found[1..], [disproved, counted]);
    assert_eq!(trials[0].phases[0].readings["replica.1"][&key], Reading::Measured(5e6));
}

#[test]
fn a_run_reports_its_progress() {
    let f = fixture();
    let mut database = Database::create(&f.path).unwrap();
    let run = begin(&mut database);
    assert_eq!(database.run(run).unwrap().status, RunStatus::Unfinished);
    let mut failed = trial(4, 2, 0);
    failed.ending.outcome = prony_model::outcome::Outcome::TimedOut;
    database.append_trial(run, &trial(0, 0, 0)).unwrap();
    database.append_trial(run, &failed).unwrap();
    database.end_run(run, RunStatus::Interrupted, NOON + 5).unwrap();
    let head = database.run(run).unwrap();
    assert_eq!((head.status, head.ended_unix_ms), (RunStatus::Interrupted, Some(NOON + 5)));
    assert_eq!((head.planned, head.finished, head.ok), (6, 2, 1));
    database.reopen_run(run, 8).unwrap();
    let head = database.run(run).unwrap();
    assert_eq!((head.status, head.ended_unix_ms, head.planned), (RunStatus::Unfinished, None, 8));
}

/// The digest of an experiment, which a run keeps.
fn hash(experiment: &Experiment) -> String {
    format!("{:032x}", xxh3_128(serde_json::to_string(experiment).unwrap().as_bytes()))
}

#[test]
fn the_experiment_is_read_back_and_its_hash_identifies_it() {
    let f = fixture();
    let mut database = Database::create(&f.path).unwrap();
    let one = experiment("One", &[texts("engine", &["a", "b"])], &[("write", true)], 3);
    let other = experiment("One", &[texts("engine", &["a", "c"])], &[("write", true)], 3);
    let run = database.begin_run(&start(&one, &records::host(), 6)).unwrap();
    let data = database.load_run(run).unwrap();
    assert_eq!(data.experiment, one);
    assert_eq!(data.head.hash, hash(&one));
    assert_ne!(data.head.hash, hash(&other));
}

#[test]
fn a_trial_is_never_rewritten() {
    let f = fixture();
    let mut database = Database::create(&f.path).unwrap();
    let run = begin(&mut database);
    database.append_trial(run, &full_trial(0)).unwrap();
    let again = database.append_trial(run, &trial(0, 0, 1));
    assert!(matches!(again, Err(Error::TrialExists { position: 0, .. })));
    assert_eq!(database.load_run(run).unwrap().trials, [light(full_trial(0))]);
    assert!(matches!(database.append_trial(RunId(99), &trial(0, 0, 0)), Err(Error::NoRun { .. })));
}

#[test]
fn a_deleted_run_leaves_no_row_and_its_number_is_not_used_again() {
    let f = fixture();
    let mut database = Database::create(&f.path).unwrap();
    let (deleted, other) = (begin(&mut database), begin(&mut database));
    for (run, session) in [(deleted, 1), (deleted, 2), (other, 1)] {
        assert_eq!(database.begin_session(run, &Facts::default(), "0.2.0", 7).unwrap(), session);
    }
    for position in 0..30 {
        database.append_trial(deleted, &full_trial(position)).unwrap();
    }
    database.append_trial(other, &full_trial(0)).unwrap();
    let pages = count(&f.path, "SELECT page_count FROM pragma_page_count");
    database.delete_run(deleted).unwrap();
    assert!(count(&f.path, "SELECT page_count FROM pragma_page_count") < pages);
    let small = ["variants", "sessions", "effective", "trials", "phases", "readings", "absences"];
    for table in small.into_iter().chain(["histograms", "groups", "series"]) {
        let all = count(&f.path, &format!("SELECT count(*) FROM {table}"));
        assert!(all > 0 && all < 10, "{table} holds {all} rows");
    }
    assert_eq!(database.load_run(other).unwrap().trials, [light(full_trial(0))]);
    assert!(matches!(database.delete_run(deleted), Err(Error::NoRun { .. })));
    database.delete_run(other).unwrap();
    assert_eq!(begin(&mut database), RunId(3));
}

#[test]
fn a_figure_that_is_no_number_is_missing() {
    let f = fixture();
    let mut database = Database::create(&f.path).unwrap();
    let run = begin(&mut database);
    let mut record = trial(0, 0, 0);
    record.phases = vec![crate::synthetic::phase("write", &[("rate", f64::INFINITY), ("time", f64::NAN)])];
    database.append_trial(run, &record).unwrap();
    let loaded = database.load_run(run).unwrap();
    let readings = &loaded.trials[0].phases[0].readings[""];
    assert_eq!(readings.len(), 2);
    assert!(readings.values().all(|r| r.measured().is_none()));
}

#[test]
fn queries_by_hand_find_names_spelled_out() {
    let f = fixture();
    let mut database = Database::create(&f.path).unwrap();
    let run = begin(&mut database);
    database.append_trial(run, &full_trial(0)).unwrap();
    let connection = rusqlite::Connection::open(&f.path).unwrap();
    let row: (String, f64, String) = connection
        .query_row("SELECT levels, value, unit FROM figures WHERE phase = 'write' AND metric = 'rss.peak'", [], |r| {
            Ok((r.get(0)?, r.get(1)?, r.get(2)?))
        })
        .unwrap();
    assert_eq!(row, (r#"{"engine":"a"}"#.to_owned(), 3e8, "bytes".to_owned()));
    let missing = "SELECT count(*) FROM figures WHERE value IS NULL AND missing IS NOT NULL AND run = 1";
    let absent = |trial: &TrialRecord| {
        let readings = trial.phases.iter().flat_map(|phase| phase.readings.values()).flat_map(|all| all.values());
        readings.filter(|reading| reading.measured().is_none()).count()
    };
    let expected = absent(&full_trial(0));
    assert!(expected > 0);
    assert_eq!(count(&f.path, missing), i64::try_from(expected).unwrap(), "each by its name, with its reason");
}

#[test]
fn equal_sets_of_missing_figures_are_stored_once() {
    let f = fixture();
    let mut database = Database::create(&f.path).unwrap();
    let run = begin(&mut database);
    let trials: Vec<TrialRecord> = (0..5).map(full_trial).collect();
    database.append_trials(run, &trials).unwrap();
    let mut other = full_trial(5);
    let readings = other.phases[0].readings.get_mut("").unwrap();
    readings.values_mut().for_each(|reading| *reading = Reading::Missing(Why::Failed("gone".into())));
    database.append_trial(run, &other).unwrap();
    let phases = full_trial(0).phases.len() as i64;
    assert!(count(&f.path, "SELECT count(*) FROM absences") <= phases + 1);
    let loaded = database.load_run(run).unwrap().trials;
    let expected: Vec<TrialRecord> = trials.into_iter().chain([other]).map(light).collect();
    assert_eq!(loaded, expected);
}

#[test]
fn lost_set_of_missing_figures_is_an_error() {
    for damage in ["DELETE FROM absences", "UPDATE absences SET body = '[[999, 1, 1]]'", "DELETE FROM reasons"] {
        let f = fixture();
        let mut database = Database::create(&f.path).unwrap();
        let run = begin(&mut database);
        let mut lacking = full_trial(0);
        let readings = lacking.phases[0].readings.get_mut("").unwrap();
        readings.values_mut().for_each(|reading| *reading = Reading::Missing(Why::Failed("gone".into())));
        database.append_trial(run, &lacking).unwrap();
        rusqlite::Connection::open(&f.path).unwrap().execute(damage, []).unwrap();
        assert!(matches!(database.load_run(run), Err(Error::Database { .. })), "{damage}");
    }
}

#[test]
fn names_of_discarded_trials_are_not_cached() {
    let f = fixture();
    let mut database = Database::create(&f.path).unwrap();
    let run = begin(&mut database);
    let mut odd = full_trial(0);
    let readings = odd.phases[0].readings[""].clone();
    odd.phases[0].readings.insert("odd".to_owned(), readings);
    // The second is refused, and the first goes with it.
    database.append_trial(run, &full_trial(1)).unwrap();
    assert!(matches!(database.append_trials(run, &[odd.clone(), odd.clone()]), Err(Error::Database { .. })));
    assert_eq!(count(&f.path, "SELECT count(*) FROM instances WHERE name = 'odd'"), 0);
    database.append_trial(run, &odd).unwrap();
    assert_eq!(database.load_run(run).unwrap().trials[0], light(odd));
}

#[test]
fn several_writers_share_one_new_file() {
    let f = fixture();
    let writers: Vec<_> = (0..4)
        .map(|_| {
            let path = f.path.clone();
            std::thread::spawn(move || {
                let mut database = Database::create(&path).unwrap();
                let run = begin(&mut database);
                (0..20).for_each(|p| database.append_trial(run, &full_trial(p)).unwrap());
                run
            })
        })
        .collect();
    let runs: BTreeSet<RunId> = writers.into_iter().map(|w| w.join().unwrap()).collect();
    assert_eq!(runs.len(), 4);
    let database = Database::open(&f.path).unwrap();
    for run in runs {
        assert_eq!(database.load_run(run).unwrap().trials.len(), 20);
    }
}

#[test]
fn foreign_database_is_refused_unchanged() {
    let f = fixture();
    assert!(matches!(Database::open(&f.path), Err(Error::NoDatabase { .. })));
    assert!(!f.path.exists());
    std::fs::write(&f.path, "title = \"an experiment, not a database, long enough to look at its header\"\n".repeat(9))
        .unwrap();
    let error = Database::open(&f.path).unwrap_err();
    assert!(matches!(error, Error::NotADatabase { .. }), "{error:?}");
    std::fs::remove_file(&f.path).unwrap();
    let foreign = rusqlite::Connection::open(&f.path).unwrap();
    foreign.execute_batch("CREATE TABLE theirs (x)").unwrap();
    drop(foreign);
    let before = std::fs::read(&f.path).unwrap();
    assert!(matches!(Database::create(&f.path), Err(Error::NotADatabase { .. })));
    assert!(std::fs::read(&f.path).unwrap() == before, "a foreign file is not touched");
}

#[test]
fn foreign_schema_version_is_refused_with_path_and_versions() {
    let f = fixture();
    drop(Database::create(&f.path).unwrap());
    for found in [5, 99] {
        rusqlite::Connection::open(&f.path).unwrap().pragma_update(None, "user_version", found).unwrap();
        let before = std::fs::read(&f.path).unwrap();
        for refused in [Database::open(&f.path), Database::create(&f.path)] {
            let text = prony::error::Error::from(refused.unwrap_err()).text();
            let expected =
                format!("has schema version {found}; this version of prony reads and writes only {SCHEMA_VERSION}");
            assert!(text.contains("prony.db") && text.contains(&expected), "{text}");
            assert!(text.contains("--database"), "{text}");
        }
        assert!(std::fs::read(&f.path).unwrap() == before, "a file of another schema is not touched");
    }
}

fn count(path: &Path, query: &str) -> i64 {
    rusqlite::Connection::open(path).unwrap().query_row(query, [], |row| row.get(0)).unwrap()
}

#[test]
fn a_run_grows_by_variants_and_keeps_a_journal() {
    let f = fixture();
    let mut database = Database::create(&f.path).unwrap();
    let all = experiment("Two", &[texts("engine", &["a", "b", "c"])], &[("write", true)], 1);
    let mut grown = all.emptied("search".to_owned());
    grown.admit(&all, 2);
    let run = database.begin_run(&start(&grown, &records::host(), 0)).unwrap();
    database.append_trial(run, &trial(0, 0, 0)).unwrap();
    grown.admit(&all, 0);
    database.extend_run(run, &grown, 2).unwrap();
    database.extend_run(run, &grown, 2).unwrap();
    assert_eq!(count(&f.path, "SELECT count(*) FROM variants"), 2, "each variant once");
    let data = database.load_run(run).unwrap();
    assert_eq!((data.experiment, data.head.planned, data.trials.len()), (grown.clone(), 2, 1));
    assert_eq!(data.head.hash, hash(&grown));

    assert!(database.journal::<serde_json::Value>(run).unwrap().is_empty());
    let entries = [json!({ "search": "grow" }), json!({ "trial": 0, "of": [1.5, null] })];
    entries.iter().for_each(|entry| database.append_journal(run, entry).unwrap());
    assert_eq!(database.journal::<serde_json::Value>(run).unwrap(), entries);
    assert!(database.append_journal(RunId(9), &entries[0]).is_err(), "no run, no journal");
    assert!(matches!(database.extend_run(RunId(9), &grown, 1), Err(Error::NoRun { .. })));
    database.delete_run(run).unwrap();
    assert_eq!(count(&f.path, "SELECT count(*) FROM journal"), 0);
}

#[test]
fn damaged_numbers_of_rows_are_errors() {
    let f = fixture();
    let mut database = Database::create(&f.path).unwrap();
    let run = begin(&mut database);
    database.append_trial(run, &full_trial(0)).unwrap();
    let connection = rusqlite::Connection::open(&f.path).unwrap();
    let mut record = database.load_run(run).unwrap().trials.remove(0);
    connection.execute("UPDATE phases SET ord = 9 WHERE ord = 0", []).unwrap();
    let error = database.complete(run, &mut record).unwrap_err();
    assert!(matches!(error, Error::Database { doing: "read a trial", .. }), "{error:?}");
    connection.execute("UPDATE reasons SET id = 1 << 60 WHERE id = 1", []).unwrap();
    let error = database.load_run(run).unwrap_err();
    assert!(matches!(error, Error::Database { doing: "read a run", .. }), "{error:?}");
}

#[test]
fn trial_that_names_no_variant_is_an_error() {
    let f = fixture();
    let mut database = Database::create(&f.path).unwrap();
    let run = begin(&mut database);
    database.append_trial(run, &full_trial(0)).unwrap();
    for variant in [2, 99] {
        let connection = rusqlite::Connection::open(&f.path).unwrap();
        connection.execute("UPDATE trials SET record = json_set(record, '$.trial.variant', ?1)", [variant]).unwrap();
        let error = database.load_run(run).unwrap_err();
        assert!(matches!(error, Error::NoVariant { run: 1, position: 0, .. }), "{variant}: {error:?}");
    }
}

#[test]
fn filled_record_survives_json() {
    for position in 0..3 {
        let record = full_trial(position);
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<TrialRecord>(&text).unwrap(), record);
    }
}

#[test]
fn record_with_a_renamed_key_is_refused() {
    let text = serde_json::to_string(&full_trial(0)).unwrap();
    let renamed = text.replace("\"lines_lost\"", "\"lost_lines\"");
    let error = serde_json::from_str::<TrialRecord>(&renamed).unwrap_err().to_string();
    assert!(renamed != text && error.contains("missing field `lines_lost`"), "{error}");
}

/// The run ended with 0, and named a database that did not exist.
#[test]
fn results_that_are_not_in_the_file_at_the_end_are_said_to_be_lost() {
    for (change, how) in [
        ("rm -f", "the file was deleted or moved"),
        ("cp empty.db other.db; mv other.db", "another file was put there"),
        ("true >", ""),
    ] {
        for command in
            [&["exec", "-r", "2", "./change"][..], &["run", "x.toml"], &["grow", "x.toml", "--raise", "n=1..2"]]
        {
            let bench = Bench::new();
            drop(Database::create(&bench.path("empty.db")).unwrap());
            let here = bench.dir.path().display();
            bench.script("change", &format!("cd {here}; {change} prony.db"));
            let toml = format!(
                "[observe]\ncare = \"light\"\n[factors]\nn = [1]\n[compare]\nblocks = 1\n[program.x]\nshell = true\n\
                 command = '{here}/change {{n}}'\n"
            );
            bench.write("x.toml", toml);
            let output = bench.prony(command);
            let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
            assert_eq!(output.status.code(), Some(2), "{command:?} {change}: {said}");
            assert!(said.contains("`prony.db`") && said.contains("error: "), "{command:?} {change}: {said}");
            let lost = format!("error: the results of run 1 are not in `prony.db`: {how}");
            assert!(how.is_empty() || said.contains(&lost), "{command:?} {change}: {said}");
        }
    }
}
