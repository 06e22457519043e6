//! Tests stores that are servers, which services of the file start, through the real binary.

use std::os::unix::fs::PermissionsExt;

use prony_model::metric::{Metric, MetricKey, Stat};
use prony_model::outcome::Outcome;
use prony_model::reading::Reading;
use prony_model::record::effective::Setting;
use prony_model::record::{MetricKeyText, TrialRecord};
use prony_model::spec::Durability;

use crate::bench::{Bench, amount, finding, phase, version};
use crate::server_documents::{self, answers_as_sqlite};

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
        assert!(why.to_string().contains("the server is no service of the file"), "{why}");
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

#[test]
fn documents_have_the_answers_of_sqlite_and_use_indexes_of_the_server() {
    let Some(bench) = bench() else { return };
    let settings = format!("durability = \"none\", {URL}");
    let body = [&postgres(", \"-c\", \"fsync=off\""), server_documents::DATA, server_documents::PHASES].concat();
    let ours = answers_as_sqlite(&bench, "postgresql", &settings, "[[\"isOdd\", \"step\"], [\"name\"]]", &body);
    let plan = finding(&ours, "query_plan").unwrap();
    assert!(plan.contains("Index Scan (prony_records#1)"), "{plan}");
    let store = ours.effective.as_ref().unwrap().store().unwrap();
    let in_force = store.in_force.as_ref().unwrap();
    let Some(Setting::Texts(indexes)) = in_force.read_back.get("indexes") else { panic!("{in_force:?}") };
    assert!(indexes.iter().any(|index| index.contains("'isOdd'") && index.contains("'step'")), "{indexes:?}");
}

/// Names are in no order of `jsonb`, and some fields have several kinds, or are lists.
const SCHOOLS: &str = "[data.collection.schools]\nrecords = 20\nencoding = \"json\"\n\
    document = { id = \"school-{i}\", city = { words = 1, vocabulary = 5 }, at = [{ y = 1.5, x = { cycle = [1e-7, -0.25] } }] }\n\
    [data.collection.students]\nrecords = 200\nencoding = \"json\"\n\
    document = { id = \"student-{i}\", schoolId = { reference = \"schools\" }, age = { uniform = [6, 19], present = \"80%\" }, \
    note = { cycle = [1, \"b\", true] }, tags = { list = { words = 1, vocabulary = 5 }, items = [0, 3] } }\n\
    [data.collection.log]\nrecords = 10\nvalue = { bytes = 50 }\n";

const SCHOOL_PHASES: &str = "[[phase]]\nname = \"schools\"\nput = { collection = \"schools\" }\n\
    [[phase]]\nname = \"read\"\nget = { collection = \"schools\" }\n\
    [[phase]]\nname = \"log\"\nput = { collection = \"log\" }\n\
    [[phase]]\nname = \"enrol\"\nput = { collection = \"students\", references = \"lock\", transaction = { batch = 20 } }\n\
    [[phase]]\nname = \"again\"\nreopen = {}\n\
    [[phase]]\nname = \"students of a school\"\n[phase.find]\ncollection = \"schools\"\n[[phase.find.query]]\n\
    collection = \"students\"\nwhere = { schoolId = \"{doc.id}\" }\nsort = [\"-age\", \"note\"]\n\
    [[phase]]\nname = \"any kind\"\n[phase.find]\ncollection = \"students\"\n[[phase.find.query]]\n\
    collection = \"students\"\nwhere = { or = [{ note = { gte = \"{doc.note}\" }, tags = { in = [\"baba\", \"bebe\"] } }, { age = { exists = false } }] }\n\
    sort = [\"note\", \"age\"]\nlimit = 20\n\
    [[phase]]\nname = \"scan\"\nscan = { collection = \"students\" }\n\
    [[phase]]\nname = \"close schools\"\ndelete = { collection = \"schools\", references = \"check\" }\n\
    [[phase]]\nname = \"check\"\nverify = {}\n";

#[test]
fn collections_that_refer_to_each_other_have_the_answers_of_sqlite() {
    let Some(bench) = bench() else { return };
    let settings = format!("durability = \"none\", {URL}");
    let body = [&postgres(", \"-c\", \"fsync=off\""), SCHOOLS, SCHOOL_PHASES].concat();
    let indexes = "{ students = [[\"schoolId\"], [\"note\"]] }";
    let ours = answers_as_sqlite(&bench, "postgresql", &settings, indexes, &body);
    assert!(finding(&ours, "query_plan").unwrap().contains("(prony_records_students#1)"), "{:?}", ours.findings);
    assert!(amount(&ours, "students of a school", Metric::Rows) >= 200.0);
    assert!(amount(&ours, "close schools", Metric::Refused) > 0.0);
}

#[test]
fn documents_that_would_not_come_back_are_refused_before_anything_runs() {
    let bench = Bench::new();
    let store = format!("[store]\nengine = \"postgresql\"\n{URL}\n");
    bench.write("rows.ndjson", "{\"a\":1,\"b\":2}\n{\"b\":1,\"a\":2}\n");
    for (data, said) in [
        ("encoding = \"json\"\nfile = \"rows.ndjson\"\n", "are not in the same order everywhere"),
        ("encoding = \"json\"\nrecords = 5\ndocument = { a = { cycle = [1, 1e16] } }\n", "the field `a` has a number"),
        ("encoding = \"msgpack\"\nrecords = 5\ndocument = { a = { cycle = [1, 1e16] } }\n", ""),
    ] {
        bench.write("e.toml", format!("{}{store}[data]\n{data}[[phase]]\nname = \"load\"\nput = {{}}\n", postgres("")));
        let output = bench.prony(&["check", "e.toml"]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.success(), said.is_empty(), "{error}");
        assert!(error.contains(said), "{error}");
    }
}
