//! Tests stores that are servers, which services of the file start, through the real binary.

use std::os::unix::fs::PermissionsExt;

use prony_model::metric::{Metric, MetricKey, Stat};
use prony_model::outcome::Outcome;
use prony_model::reading::Reading;
use prony_model::record::{MetricKeyText, TrialRecord};
use prony_model::spec::Durability;

use crate::bench::{Bench, amount, phase, version};

/// A folder into which the server's user may go; `None` where PostgreSQL is missing, said aloud.
fn bench() -> Option<Bench> {
    ["postgres", "initdb", "psql"].into_iter().try_for_each(|program| version(program).map(drop))?;
    let bench = Bench::new();
    std::fs::set_permissions(bench.dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    Some(bench)
}

/// PostgreSQL with these further settings.
fn postgres(settings: &str) -> String {
    let psql = "\"psql\", \"-X\", \"-q\", \"-h\", \"127.0.0.1\", \"-p\", \"{port}\", \"-U\", \"postgres\"";
    format!(
        "[[service]]\nname = \"pg\"\nuser = \"nobody\"\n\
         prepare = [\"initdb\", \"-D\", \"{{data}}\", \"-U\", \"postgres\", \"-A\", \"trust\", \"--no-sync\", \"--locale=C\"]\n\
         command = [\"postgres\", \"-D\", \"{{data}}\", \"-p\", \"{{port}}\", \"-c\", \"listen_addresses=127.0.0.1\", \
         \"-c\", \"unix_socket_directories=\"{settings}]\n\
         ready = {{ command = [{psql}, \"-c\", \"SELECT 1\"] }}\n"
    )
}

const URL: &str = "url = \"postgresql://postgres@127.0.0.1:{service.pg.port}/postgres\"";

const DATA: &str = "[data]\nrecords = 300\nvalue = { bytes = 100 }\n";

const PHASES: &str = "[[phase]]\nname = \"load\"\nput = { transaction = { batch = 50 } }\n\
    [[phase]]\nname = \"each\"\nupdate = { count = 40 }\n\
    [[phase]]\nname = \"read\"\nget = {}\n\
    [[phase]]\nname = \"scan\"\nscan = {}\n\
    [[phase]]\nname = \"again\"\nreopen = {}\n\
    [[phase]]\nname = \"some\"\ndelete = { count = 10 }\n\
    [[phase]]\nname = \"check\"\nverify = {}\n";

fn of(trial: &TrialRecord, name: &str, instance: &str, key: MetricKey) -> Reading<f64> {
    let readings = &phase(trial, name).readings;
    let found = readings.get(instance).unwrap_or_else(|| panic!("{instance} of {:?}", readings.keys()));
    found[&MetricKeyText(key)].clone()
}

#[test]
fn server_gives_the_answers_of_the_memory_engine_and_has_the_metrics_of_its_phases() {
    let Some(bench) = bench() else { return };
    let levels = format!(
        "[factors.at]\npg = {{ engine = \"postgresql\", durability = \"none\", {URL} }}\nheap = {{ engine = \"memory\" }}\n\
         [compare]\nbaseline = {{ at = \"heap\" }}\nmetric = \"load.all.cpu\"\nblocks = 1\n"
    );
    let store = "[store]\nuse = \"{at}\"\n";
    // The memory engine keeps nothing when it is closed.
    let phases = PHASES.replace("name = \"again\"\nreopen = {}", "name = \"again\"\npause = \"1 ms\"");
    let data = bench.run(&format!("{levels}{}{store}{DATA}{phases}", postgres(", \"-c\", \"fsync=off\"")));
    let [ours, theirs] = [true, false].map(|is_pg| {
        let engine = |trial: &TrialRecord| trial.effective.as_ref().unwrap().store().unwrap().engine.clone();
        data.trials.iter().find(|trial| (engine(trial) == "postgresql") == is_pg).unwrap()
    });
    for trial in [ours, theirs] {
        assert_eq!(trial.ending.outcome, Outcome::Ok, "{:?}", trial.ending);
    }
    for name in ["load", "each", "read", "scan", "some", "check"] {
        let of = |trial| (phase(trial, name).answer.clone(), amount(trial, name, Metric::Operations));
        if name != "check" {
            assert_eq!(of(ours), of(theirs), "{name}");
        }
    }
    let cpu = |instance: &str| *of(ours, "load", instance, MetricKey::amount(Metric::Cpu)).measured().unwrap();
    assert!(cpu("pg") > 0.0 && cpu("worker") > 0.0, "{} {}", cpu("pg"), cpu("worker"));
    assert!((cpu("") - cpu("pg")).abs() <= 1e-6 * cpu("pg"), "the phase's metrics are the server's");
    let [all, pg, worker] = ["all", "pg", "worker"].map(cpu);
    assert!((all - pg - worker).abs() <= 1e-6 * all, "{all} of {pg} and {worker}");
    let anon = |instance: &str| {
        of(ours, "load", instance, MetricKey::gauge(Metric::Anon, Stat::End)).measured().copied().unwrap()
    };
    assert!(anon("all") > anon("pg"), "{} {}", anon("all"), anon("pg"));
    let disk = *of(ours, "load", "", MetricKey::amount(Metric::Disk)).measured().unwrap();
    assert!(disk > 20e6, "the files of the cluster: {disk}");
    let store = ours.effective.as_ref().unwrap().store().unwrap();
    assert!(store.version.starts_with(|c: char| c.is_ascii_digit()), "{}", store.version);
    assert_eq!((store.durability, store.services.len()), (Durability::None, 1));
}

#[test]
fn strict_server_syncs_each_commit_and_one_that_does_not_is_refused() {
    let Some(bench) = bench() else { return };
    let store = format!("[store]\nengine = \"postgresql\"\n{URL}\n");
    let trial = bench.trial(&format!("{}{store}{DATA}{PHASES}", postgres("")));
    assert_eq!(trial.ending.outcome, Outcome::Ok, "{:?}", trial.ending);
    // Where prony may count system calls, each of 40 commits has at least one; the worker has none.
    let syncs = |instance: &str| of(&trial, "each", instance, MetricKey::amount(Metric::Fsyncs));
    match syncs("") {
        Reading::Measured(count) => {
            assert!(count >= 40.0, "{count}");
            assert_eq!(syncs("worker"), Reading::Measured(0.0));
        }
        Reading::Missing(why) => println!("SKIPPED: {why}"),
    }
    let trial = bench.trial(&format!("{}{store}{DATA}{PHASES}", postgres(", \"-c\", \"fsync=off\"")));
    assert_eq!(trial.ending.outcome, Outcome::Unsupported, "{:?}", trial.ending);
    assert!(trial.ending.evidence.iter().any(|text| text.contains("fsync = off")), "{:?}", trial.ending);
}

#[test]
fn server_that_prony_did_not_start_is_not_measured_and_one_that_is_not_there_is_an_outcome() {
    let Some(bench) = bench() else { return };
    let store = "[store]\nengine = \"postgresql\"\nurl = \"postgresql://x@127.0.0.1:9/x\"\n";
    let trial = bench.trial(&format!("{store}{DATA}{PHASES}"));
    assert!(matches!(trial.ending.outcome, Outcome::Failed { .. }), "{:?}", trial.ending);
    assert!(trial.ending.evidence.iter().any(|text| text.contains("connection")), "{:?}", trial.ending);

    // A server of another file's service stands for one that somebody else runs.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    bench.write(
        "inner.toml",
        format!("[compare]\nblocks = 1\n[store]\nengine = \"postgresql\"\ndurability = \"none\"\nurl = \"postgresql://postgres@127.0.0.1:{port}/postgres\"\n{DATA}{PHASES}"),
    );
    let server = postgres(", \"-c\", \"fsync=off\"").replace("\"{port}\"", &format!("\"{port}\""));
    let run = format!(
        "[[phase]]\nname = \"outer\"\nrun = [\"{}\", \"run\", \"inner.toml\", \"--quiet\", \"--database\", \"inner.db\"]\n",
        crate::bench::PRONY
    );
    let outer = bench.trial(&format!("{server}{run}"));
    assert_eq!(outer.ending.outcome, Outcome::Ok, "{:?}", outer.ending);
    let database = prony_results::Database::open(&bench.path("inner.db")).unwrap();
    let id = database.runs().unwrap().last().unwrap().id;
    let trial = database.load_run(id).unwrap().trials.remove(0);
    assert_eq!(trial.ending.outcome, Outcome::Ok, "{:?}", trial.ending);
    for metric in [Metric::Cpu, Metric::Fsyncs, Metric::Disk] {
        let Reading::Missing(why) = of(&trial, "load", "", MetricKey::amount(metric)) else { panic!("{metric:?}") };
        assert!(why.to_string().contains("prony did not start the server"), "{why}");
    }
    assert!(
        of(&trial, "load", "worker", MetricKey::amount(Metric::Cpu)).measured().is_some(),
        "the client's are its own"
    );
}

#[test]
fn server_that_ends_is_the_outcome_before_the_error_of_its_client() {
    let Some(bench) = bench() else { return };
    let store = format!("[store]\nengine = \"postgresql\"\ndurability = \"none\"\n{URL}\n");
    let server = postgres(", \"-c\", \"fsync=off\"").replace(
        "command = [\"postgres\"",
        "command = [\"sh\", \"-c\", '(sleep 4; kill -QUIT $(head -1 $2/postmaster.pid)) & exec \"$@\"', \"postgres\"",
    );
    // The words after the script are its own: the first is its name.
    let server = server.replace("& exec \"$@\"', \"postgres\"", "& exec postgres \"$@\"', \"sh\"");
    let phases = "[[phase]]\nname = \"load\"\nput = { threads = 2, duration = \"60 s\" }\n";
    let trial = bench.trial(&format!("{server}{store}{DATA}{phases}"));
    assert!(!trial.ending.outcome.is_ok(), "{:?}", trial.ending);
    assert_eq!(trial.ending.evidence[0], "service `pg` ended before the trial did", "{:?}", trial.ending);
}
