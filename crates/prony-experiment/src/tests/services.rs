//! Tests of files that measure services.

use prony_model::http::{BodySpec, HttpAmount, Part, RateSteps, RequestRate, RetrySpec, SavedFrom};
use prony_model::service::{CounterSource, DATA, Observed, OfService, PORT, ReadySign, hole};
use prony_model::spec::{Action, Order, RateStep, Subject};
use prony_model::units::{Nanos, PerSecond};

use super::*;

/// Two services, and a phase of each kind.
pub(super) const SERVICES: &str = r#"
[factors]
connections = [1, 10]
[compare]
baseline = { connections = 1 }
metric = "insert.api.cpu"
metrics = ["insert.db.2.anon.max", "insert.load.cpu", "insert.api.main.heap.used.max"]
blocks = 6
[[service]]
name = "api"
after = ["db"]
command = ["node", "server.js", "--port={port}", "--db={service.db.2.port}"]
env = { DATA = "{data}", PEER = "{service.db.url}", DIR = "{dir}" }
runtime = "node"
ready = { http = "/health", within = "5 s" }
limits = { memory = "1 GiB" }
[[service]]
name = "db"
count = 2
command = "db {port} {instance}"
setup = ["load", "{service.db.1.port}"]
[data]
records = 50
[data.document]
id = { sequence = 0 }
in = { name = "x{i}" }
[[phase]]
name = "insert"
http = { service = "api", path = "/schools", json = "{doc}", connections = "{connections}", expect = 201, save = { school = { header = "location", each = true } } }
[[phase]]
name = "settle"
settle = { quiet = "1 s" }
[[phase]]
name = "read"
http = { service = "api", path = "{saved.school}?n={doc.in.name}", headers = { x-number = "n{i}" }, duration = "5 s", order = "uniform", rate = "100/s", retry = { on = [503, "timeout"], times = 2, wait = "50 ms" } }
[[phase]]
name = "wait"
pause = "1 s"
"#;

#[test]
fn services_and_requests_are_read() {
    let experiment = sound(SERVICES);
    let spec = &experiment.variants()[1].spec;
    assert_eq!(spec.subject, Subject::Services);
    let [api, db] = spec.services.as_slice() else { panic!("{:?}", spec.services) };
    let words = api.program.command.words();
    let of_db = hole("db", 2, OfService::Port);
    assert_eq!(words[2..], [format!("--port={PORT}"), format!("--db={of_db}")]);
    assert_eq!(api.program.env["DATA"], DATA);
    assert_eq!(api.program.env["PEER"], hole("db", 1, OfService::Url), "without a number, the first");
    assert_eq!((&api.ready.sign, &db.ready.sign), (&ReadySign::Http("/health".into()), &ReadySign::Port));
    assert_eq!((api.role(1), db.role(2)), ("api".to_owned(), "db.2".to_owned()));
    assert_eq!(crate::services::started_in_order(&spec.services), Ok(vec![1, 0]));
    let http = |index: usize| spec.phases[index].action.http().unwrap();
    let insert = http(0);
    assert_eq!(
        (insert.kinds[0].method.as_str(), &insert.kinds[0].body, insert.amount),
        ("POST", &Some(BodySpec::Document), HttpAmount::Records)
    );
    assert_eq!(
        (insert.connections, insert.kinds[0].expect.0.as_slice(), &insert.order),
        (10, &[201][..], &Order::Record)
    );
    assert_eq!(insert.kinds[0].headers[0].0, "content-type");
    assert_eq!(insert.server, hole("api", 1, OfService::Url));
    assert_eq!(
        (&insert.kinds[0].save["school"].from, insert.kinds[0].save["school"].each),
        (&SavedFrom::Header("location".into()), true)
    );
    let read = http(2);
    let retry =
        RetrySpec { statuses: vec![503], timeout: true, connection: false, times: 2, wait: Nanos::from_millis(50) };
    assert_eq!((&read.retry, &insert.retry), (&Some(retry), &None));
    let Part::Field(field) = &read.kinds[0].path.0[2] else { panic!("{:?}", read.kinds[0].path) };
    assert_eq!((&read.kinds[0].path.0[0], field.to_string()), (&Part::Saved("school".into()), "in.name".to_owned()));
    assert!(spec.phases[2].action.is_bounded_by_time() && spec.phases[2].action.is_open());
    assert!(matches!(spec.phases[3].action, Action::Pause(_)));
}

fn per_second(rate: f64) -> PerSecond {
    PerSecond::new(rate).unwrap()
}

/// A phase of requests at this rate.
pub(super) fn at_rate(rate: &str) -> String {
    format!("[[phase]]\nname = \"p\"\nhttp = {{ url = \"http://127.0.0.1:9\", path = \"/\", rate = {rate} }}\n")
}

#[test]
fn rates_that_change_last_as_long_as_their_steps() {
    let http = |rate: &str| sound(&at_rate(rate)).variants()[0].spec.phases[0].action.http().unwrap().clone();
    let steps = "{ steps = [{ rate = 100, for = \"1 s\" }, { rate = \"12000/min\", for = \"500 ms\" }], arrivals = \"poisson\" }";
    let step =
        |rate, millis| RateStep { from: per_second(rate), to: per_second(rate), time: Nanos::from_millis(millis) };
    let expected = RateSteps { steps: vec![step(100.0, 1_000), step(200.0, 500)], poisson: true };
    assert_eq!((expected.steps[0].operations(), expected.steps[1].operations()), (100.0, 100.0));
    let found = http(steps);
    assert_eq!(found.amount, HttpAmount::Duration(Nanos::from_millis(1_500)));
    assert_eq!(found.rate, Some(RequestRate::Steps(expected)));
    let found = http("{ ramp = { from = 100, to = 1100, over = \"10 s\" } }");
    let Some(RequestRate::Steps(ramp)) = &found.rate else { panic!("{:?}", found.rate) };
    let last = RateStep { from: per_second(1_000.0), to: per_second(1_100.0), time: Nanos::from_secs(1) };
    assert_eq!((ramp.steps.len(), ramp.steps.last()), (10, Some(&last)));
    assert_eq!(
        (found.amount, found.rate.and_then(|rate| rate.mean())),
        (HttpAmount::Duration(Nanos::from_secs(10)), Some(per_second(600.0)))
    );
}

#[test]
fn faults_of_rates_that_change_are_named() {
    const STEPS: &str = "{ steps = [{ rate = 100, for = \"1 s\" }, { rate = 200, for = \"1 s\" }] }";
    for (rate, expected) in [
        ("{ steps = [] }", "`steps` has 0 steps"),
        ("{ steps = [{ rate = 100 }] }", "`for`"),
        ("{ steps = [{ rate = 0, for = \"1 s\" }] }", "`0`"),
        ("{ ramp = { from = 1, to = 2 } }", "`over`"),
        ("{ rate = 1, ramp = { from = 1, to = 2, over = \"1 s\" } }", "`ramp`"),
        ("{ arrivals = \"poisson\" }", "`rate`"),
        (
            "{ ramp = { from = 1, to = 2, over = \"1 s\" } }, requests = 5",
            "`requests` and the steps of `rate` both say",
        ),
        (
            "{ ramp = { from = 1, to = 2, over = \"1 s\" } }, duration = \"5 s\"",
            "leave `duration` out: the requests last 1.000 s",
        ),
    ] {
        let found = faults(&at_rate(rate));
        assert!(found.contains(expected), "{rate}: {found}");
    }
    for (rate, metric, expected) in [
        (STEPS, "p.step.2.latency.p99", "no faults"),
        (STEPS, "p.step.1.rate", "no faults"),
        (STEPS, "p.step.3.rate", "no variant has a step 3, the last is `step.2`"),
        (STEPS, "p.step.1.timeouts", "is not known by step"),
        ("{ ramp = { from = 1, to = 2, over = \"1 s\" } }", "p.step.10.ok", "no faults"),
        ("100", "p.step.1.rate", "the requests of phase `p` have no steps"),
    ] {
        let found = faults(&format!("[compare]\nmetric = \"{metric}\"\n{}", at_rate(rate)));
        assert!(found.contains(expected), "{rate} {metric}: {found}");
    }
}

/// The faults of a file with one service and this phase.
fn with(service: &str, phase: &str) -> String {
    faults(&format!(
        "[[service]]\nname = \"api\"\ncommand = [\"server\", \"{{port}}\"]\n{service}\n[[phase]]\nname = \"p\"\n{phase}\n"
    ))
}

#[test]
fn faults_of_retries_are_named() {
    for (retry, expected) in [
        ("on = [200], times = 1", "status 200 is expected, so that no attempt with it fails"),
        ("on = [], times = 1", "`on` is empty"),
        ("on = [\"reset\"], times = 1", "`on` cannot be `reset`"),
        ("on = [1], times = 1", "`on` cannot be `1`"),
        ("on = [503], times = 0", "`times`"),
    ] {
        let found = with("", &format!("http = {{ service = \"api\", path = \"/\", retry = {{ {retry} }} }}"));
        assert!(found.contains(expected), "{retry}: {found}");
    }
}

const GET: &str = "http = { service = \"api\", path = \"/\", requests = 1 }";

#[test]
fn data_that_are_set_up_once_need_what_sets_them_up() {
    for (service, phase, expected) in [
        (
            "data = { setup = \"once\" }",
            GET,
            "4:1 `setup = \"once\"` copies what `prepare` and `setup` left, and there is neither",
        ),
        ("data = { setup = \"dump\" }", GET, "`dump`"),
        (
            "data = { setup = \"once\" }\nsetup = \"true\"\nafter = [\"db\"]\n[[service]]\nname = \"db\"\ncommand = \"db\"",
            GET,
            "4:1 the data of `api` are made once, when `db`, which it needs, is not running",
        ),
    ] {
        let found = with(service, phase);
        assert!(found.contains(expected), "{service}\n  expected {expected}\n  found    {found}");
    }
}

#[test]
fn faults_of_services_name_the_place_and_what_to_do() {
    assert_eq!(with("", GET), "no faults");
    for (service, phase, expected) in [
        ("after = [\"apo\"]", GET, "4:9 unknown service `apo` | did you mean `api`?"),
        ("after = [\"api\"]", GET, "4:9 service `api` is to start after itself | remove one of the names in `after`"),
        ("env = { A = \"{service.db.port}\" }", GET, "4:13 unknown service `db`"),
        ("env = { A = \"{service.api.2.port}\" }", GET, "service `api` has no instance 2: its `count` is 1"),
        ("env = { A = \"{service.api.prot}\" }", GET, "4:14 `{service.api.prot}` names no value of a service"),
        ("ready = { line = 'x', tcp = \"127.0.0.1:1\" }", GET, "`ready` has one sign, and `tcp` is a second one"),
        ("ready = { http = \"x\" }", GET, "4:18 `http` is not a path: `x` | write a path that begins with `/`"),
        ("replicas = { count = 2 }", GET, "unknown key `replicas`"),
        ("", "http = { path = \"/\" }", "`service`"),
        ("", "http = { service = \"api\", url = \"http://x\", path = \"/\" }", "`url`"),
        ("", "http = { url = \"http://127.0.0.1/x\", path = \"/\" }", "`http://127.0.0.1/x` is no server"),
        ("", "http = { service = \"apo\", path = \"/\" }", "unknown service `apo` | did you mean `api`?"),
        ("", "http = { service = \"api\", instance = 2, path = \"/\" }", "service `api` has no instance 2"),
        ("", "http = { service = \"api\", path = \"x\" }", "`path` does not begin with `/`"),
        ("", "http = { service = \"api\", path = \"/{saved.x}\" }", "no earlier phase saves `x`"),
        ("", "http = { service = \"api\", path = \"/\", json = \"{doc}\" }", "the file has no `[data]`"),
        ("", "http = { service = \"api\", path = \"/{doc.x}\" }", "the file has no `[data]`"),
        ("", "http = { service = \"api\", path = \"/\", requests = 3, duration = \"1 s\" }", "exclude each other"),
        (
            "",
            "http = { service = \"api\", path = \"/\", save = { x = { pattern = 'a' } } }",
            "the pattern has no group",
        ),
        ("", "http = { service = \"api\", path = \"/{port}\" }", "`{port}` has no meaning here"),
        ("", "run = [\"x\", \"{service.apo.url}\"]", "unknown service `apo` | did you mean `api`?"),
        ("", "run = \"x {port}\"", "`{port}` has no meaning here | name the service: `{service.NAME.port}`"),
        ("", "put = {}", "`put` works on a store, but the file measures services"),
    ] {
        let found = with(service, phase);
        assert!(found.contains(expected), "{service} {phase}\n  expected {expected}\n  found    {found}");
    }
    for name in ["load", "process"] {
        let named =
            format!("[[service]]\nname = \"{name}\"\ncommand = \"x\"\n[[phase]]\nname = \"p\"\npause = \"1 s\"\n");
        assert!(faults(&named).contains(&format!("cannot be named `{name}`")), "{}", faults(&named));
    }
    assert!(
        faults("[[phase]]\nname = \"p\"\nrun = \"true\"\n").contains("`run` runs a command beside services"),
        "nothing is beside it"
    );
    let both = format!("{SERVICES}\n[store]\nengine = \"lmdb\"\n");
    assert!(faults(&both).contains("a file measures services or a store, not both"), "{}", faults(&both));
    assert!(faults(&both).contains("`http` and `run` are phases of services"), "{}", faults(&both));
    let nowhere = "[[service]]\nname = \"api\"\ncommand = \"server\"\nready = { http = \"/\" }\n[[phase]]\nname = \"p\"\nrun = \"true\"\n";
    let hint = "add `{port}`, for example `\"--port={port}\"`";
    let expected = format!("4:11 `http` needs `{{port}}` in `command` or `env` of the service | {hint}");
    assert_eq!(faults(nowhere), expected, "its path is right");
    let limited = format!("{SERVICES}\n[limits]\nmemory = \"1 GB\"\n");
    assert!(faults(&limited).contains("`memory` limits one process tree"), "{}", faults(&limited));
    let warm = SERVICES.replace("json = ", "warm_up = \"1 s\", json = ");
    assert!(faults(&warm).contains("one request for each record leaves none for `warm_up`"), "{}", faults(&warm));
    let other = SERVICES.replace("insert.db.2.anon.max", "insert.db.3.anon.max");
    assert!(
        faults(&other).contains("there is no instance `db.3` | instances: `api`, `db`, `load`"),
        "{}",
        faults(&other)
    );
}

#[test]
fn server_without_services_can_get_requests() {
    let text = "[[phase]]\nname = \"p\"\nhttp = { url = \"http://127.0.0.1:8080/\", path = \"/x\", requests = 7 }\n";
    let experiment = sound(text);
    let http = experiment.variants()[0].spec.phases[0].action.http().unwrap();
    assert_eq!((http.server.as_str(), http.amount), ("http://127.0.0.1:8080", HttpAmount::Requests(7)));
    // One request of a trial was sent without a word, and there was a verdict on it.
    let expected = "3:1 nothing says how many requests are sent, and the file has no `[data]` with a record for each | write \
                    `requests = 100` or `duration = \"10 s\"`";
    let without = text.replace(", requests = 7", "");
    for more in ["", ", rate = 500", ", connections = 10", ", warm_up = \"1 s\"", ", mix = { a = { path = \"/\" } }"] {
        let path = if more.contains("mix") { "" } else { ", path = \"/x\"" };
        assert_eq!(faults(&without.replace(", path = \"/x\"", &format!("{path}{more}"))), expected, "{more}");
    }
    assert_eq!(faults(&format!("[data]\nrecords = 9\n{without}")), "no faults");
    let untimed = sound(&without.replace("http =", "timed = false\nhttp ="));
    let once = untimed.variants()[0].spec.phases[0].action.http().unwrap().amount;
    assert_eq!(once, HttpAmount::Requests(1), "one login, of which there is no verdict");
}

#[test]
fn counters_of_services_are_read() {
    let counters = "counters = { postgresql = \"port={port} dbname=x\" }\nuser = \"nobody\"\n";
    let text = SERVICES.replace("name = \"db\"\n", &format!("name = \"db\"\n{counters}"));
    let text = text
        .replace("insert.api.cpu", "insert.db.2.operations.per.ok")
        .replace("insert.load.cpu", "insert.db.deadlocks");
    let experiment = sound(&text);
    let db = &experiment.variants()[0].spec.services[1];
    let counters = db.counters.as_ref().unwrap();
    assert_eq!(counters.source, CounterSource::Postgresql(format!("port={PORT} dbname=x")));
    assert_eq!((counters.operations.as_deref(), db.user.as_deref()), (Some("statements"), Some("nobody")));
    for (name, total, is_read) in [
        ("deadlocks", true, true),
        ("xact_commit", true, false),
        ("size_bytes", false, true),
        ("size_bytes", true, false),
    ] {
        assert_eq!(counters.has(name, total), is_read, "{name}");
    }
}

/// Three instances that read one server's count had three times its operations.
#[test]
fn counters_of_one_server_are_read_once() {
    let of = |counted: &str| {
        let counters = |name: &str| format!("name = \"{name}\"\ncounters = {{ {counted} }}\n");
        let text = SERVICES.replace("name = \"db\"\n", &counters("db"));
        [faults(&text), faults(&text.replace("name = \"api\"\n", &counters("api")))]
    };
    let twice = |service: &str| format!("the counters of service `{service}` are read more than once");
    let shared = of("redis = \"127.0.0.1:{service.db.1.port}\"");
    assert!(shared[0].contains(&twice("db")), "both instances: {}", shared[0]);
    assert!(shared[1].contains(&twice("db")) && !shared[1].contains(&twice("api")), "{}", shared[1]);
    for own in [
        "redis = \"127.0.0.1:{port}\"",
        "prometheus = \"http://127.0.0.1:{port}/{instance}\", totals = [\"a\"]",
        "command = \"count\", totals = [\"a\"]",
    ] {
        assert!(of(own).iter().all(|found| !found.contains("more than once")), "{own}: {:?}", of(own));
    }
}

/// A program beside a service, with further keys of both, and phases.
fn beside(service: &str, program: &str, phases: &str) -> String {
    format!(
        "[[service]]\nname = \"db\"\ncommand = [\"db\", \"{{port}}\"]\n{service}\n[program.app]\n\
         command = [\"app\", \"{{service.db.port}}\"]\n{program}\n{phases}\n"
    )
}

#[test]
fn texts_of_a_program_have_values_of_its_services() {
    let program = "env = { URL = \"{service.db.url}\" }\nprepare = \"load {service.db.data}\"\n\
                   replicas = { count = 2, phase = \"run\", env = { PORT = \"{service.db.port}{instance}\" } }\n\
                   change = { env = { A = \"{service.db.port}\" } }\ndirectory = \".\"";
    let compare = "[compare]\nmetric = \"run.all.cpu\"\nmetrics = [\"run.db.cpu\", \"run.replica.2.cpu\", \"run.replicas.cpu\"]\n";
    let experiment = sound(&format!("{compare}{}", beside("", program, "")));
    let spec = &experiment.variants()[0].spec;
    let (port, app) = (hole("db", 1, OfService::Port), spec.subject.program().unwrap());
    assert_eq!((spec.services.len(), app.command.words()), (1, vec!["app".to_owned(), port.clone()]));
    assert_eq!(
        app.env,
        [("A", port.clone()), ("URL", hole("db", 1, OfService::Url))].map(|(k, v)| (k.to_owned(), v)).into()
    );
    assert!(app.prepare.as_ref().unwrap().words()[2].ends_with(&hole("db", 1, OfService::Data)));
    assert!(app.replicas.as_ref().unwrap().env["PORT"].starts_with(&port));
}

#[test]
fn faults_of_a_program_beside_services_say_what_to_do() {
    let stop = "[[phase]]\nname = \"p\"\ncall = \"x#y\"\nthen = \"stop\"\n";
    for (service, program, phases, expected) in [
        ("", "env = { A = \"{service.dp.port}\" }", "", "unknown service `dp` | did you mean `db`?"),
        ("", "env = { A = \"{port}\" }", "", "`{port}` has no meaning here | name the service: `{service.NAME.port}`"),
        ("count = 2", "env = { A = \"{service.db.3.port}\" }", "", "service `db` has no instance 3: its `count` is 2"),
        ("", "warmup = 1", "", "warm-up runs start no services, which the program may need | remove `warmup`"),
        ("counters = { redis = \"127.0.0.1:{port}\" }", "", "", "`counters` are read between phases that prony leads"),
        (
            "",
            "runtime = \"node\"\ndirectory = \".\"",
            stop,
            "phase `p` suspends the program at its end, while services continue",
        ),
        ("", "build = \"make {service.db.port}\"\ndirectory = \".\"", "", "`{service.db.port}` has no meaning here"),
    ] {
        let found = faults(&beside(service, program, phases));
        assert!(found.contains(expected), "{service} {program}\n  expected {expected}\n  found    {found}");
    }
    assert_eq!(faults(&beside("", "", "")), "no faults");
    let named = faults(&beside("", "", "").replace("\"db\"\n", "\"app\"\n").replace("service.db", "service.app"));
    assert!(named.contains("a service and the program are both named `app`"), "{named}");
    assert!(faults(&beside("", "", "").replace("\"db\"\n", "\"all\"\n")).contains("cannot be named `all`"));
    let unserved = faults("[program.app]\ncommand = [\"app\", \"{service.db.port}\"]\n");
    assert!(unserved.contains("unknown service `db`"), "{unserved}");
    let requests = beside("", "", "[[phase]]\nname = \"p\"\nhttp = { service = \"db\", path = \"/\" }\n");
    assert!(faults(&requests).contains("a program can use services, but"), "{}", faults(&requests));
    let metric = format!("[compare]\nmetric = \"run.load.cpu\"\n{}", beside("", "", ""));
    assert!(faults(&metric).contains("there is no instance `load` | instances: `db`, `all`"), "{}", faults(&metric));
}

/// A store at a URL beside a service, with further sections.
fn served(store: &str, more: &str) -> String {
    format!(
        "[[service]]\nname = \"db\"\ncommand = [\"db\", \"{{port}}\"]\n[store]\n{store}\n[data]\nrecords = 10\n\
         [[phase]]\nname = \"load\"\nput = {{}}\n{more}\n"
    )
}

const AT: &str = "engine = \"server\"\nurl = \"x://127.0.0.1:{service.db.port}/a\"";

#[test]
fn store_that_is_a_server_is_at_its_url() {
    let compare = "[compare]\nmetric = \"load.db.cpu\"\nmetrics = [\"load.worker.cpu\", \"load.all.cpu\"]\n";
    let experiment = sound(&served(AT, compare));
    let spec = &experiment.variants()[0].spec;
    let url = format!("x://127.0.0.1:{}/a", hole("db", 1, OfService::Port));
    assert_eq!(spec.subject.store().unwrap().url, Some(url.clone()));
    assert!(spec.measures_servers() && spec.services.len() == 1);
    assert_eq!(["db", "worker"].map(|role| spec.measures(role)), [true, false]);
    let levels = "[factors.at]\nhere = { engine = \"server\", url = \"x://127.0.0.1:{service.db.port}/a\" }\n\
                  embedded = { engine = \"lmdb\" }\n";
    let varied = sound(&format!("{levels}{}", served("use = \"{at}\"", "")));
    let of = |at: usize| varied.variants()[at].spec.subject.store().unwrap().url.clone();
    assert_eq!((of(0), of(1)), (Some(url), None));
    let embedded = &varied.variants()[1].spec;
    assert_eq!(["db", "worker"].map(|role| embedded.measures(role)), [false, true]);
    let hidden = sound(&served(AT, "[observe]\nrecord_commands = false\n"));
    let recorded = hidden.recorded();
    assert!(!format!("{:?}", recorded.variants()[0].spec.subject).contains("x://"), "it may have a password");
    assert!(hidden.lacks_commands());
}

#[test]
fn faults_of_a_store_at_a_url_say_what_to_do() {
    for (store, more, expected) in [
        ("engine = \"server\"", "", "`server` is a server, and the store has no `url` | add `url`"),
        ("engine = \"lmdb\"\nurl = \"x\"", "", "`lmdb` is no server, so that its store has no `url` | remove `url`"),
        ("engine = \"server\"\nurl = \"x:{service.dp.port}\"", "", "unknown service `dp` | did you mean `db`?"),
        ("engine = \"server\"\nurl = \"x:{port}\"", "", "`{port}` has no meaning here"),
        (AT, "[[phase]]\nname = \"cold\"\nevict = {}", "`server` is a server, whose memory `evict` cannot empty"),
        (
            AT,
            "[[phase]]\nname = \"cut\"\nkill = { during = \"load\" }",
            "`kill` works on the files of an engine inside the worker's process",
        ),
        (AT, "[limits]\nmemory = \"1 GB\"", "`memory` limits one process tree, and each service has one of its own"),
        (AT, "[compare]\nmetric = \"load.load.cpu\"", "there is no instance `load` | instances: `db`, `worker`, `all`"),
        (
            AT,
            "[data.document]\nx = 1\n[[phase]]\nname = \"ask\"\nfind = { query = {} }",
            "`server` answers no queries over documents here",
        ),
        (
            "engine = \"server\"\nurl = \"x:{service.db.port}\"\nindexes = [[\"x\"]]",
            "[data.document]\nx = 1\n",
            "`server` answers no queries over documents here",
        ),
    ] {
        let found = faults(&served(store, more));
        assert!(found.contains(expected), "{store} {more}\n  expected {expected}\n  found    {found}");
    }
}

/// A service that begins with data.
fn with_data(data: &str, command: &str) -> String {
    format!(
        "[[service]]\nname = \"db\"\ndata = {data}\ncommand = \"{command}\"\n[[phase]]\nname = \"p\"\nrun = [\"true\"]\n"
    )
}

#[test]
fn data_of_a_service_is_copied_from_a_directory_beside_the_file() {
    let experiment = sound(&with_data("{ from = \"loaded\" }", "db {data}"));
    let data = experiment.variants()[0].spec.services[0].data.as_ref();
    assert_eq!(data.map(|data| data.from.as_str()), Some("loaded"));
    for (data, command, expected) in [
        ("{ from = \"x\" }", "db", "no text of a service asks for the data of `db`"),
        (
            "{}",
            "db {data}",
            "`data` is empty: it needs `from` or `setup` | write `from = \"DIRECTORY\"` or `setup = \"once\"`",
        ),
        ("{ setup = \"once\" }", "db", "no text of a service asks for the data of `db`"),
        ("{ from = \"{port}\" }", "db {data}", "`{port}`"),
        ("{ from = \"x\", once = true }", "db {data}", "unknown key `once`"),
    ] {
        let said = faults(&with_data(data, command));
        assert!(said.starts_with("3:") && said.contains(expected), "{data}: {said}");
    }
}

/// A server that runs already.
fn observed(keys: &str) -> String {
    format!(
        "[[service]]\nname = \"db\"\n{keys}\n[[phase]]\nname = \"p\"\nhttp = {{ service = \"db\", path = \"/\", requests = 1 }}\n"
    )
}

#[test]
fn server_that_runs_already_is_named_by_its_address_and_its_processes() {
    for (observe, expected) in [
        ("pid = 17", Observed::Pid(17)),
        ("pid_file = \"run/pid\"", Observed::PidFile("run/pid".to_owned())),
        ("cgroup = \"/sys/fs/cgroup/a.service\"", Observed::Cgroup("/sys/fs/cgroup/a.service".to_owned())),
        ("container = \"db-1\"", Observed::Container("db-1".to_owned())),
    ] {
        let experiment = sound(&observed(&format!("url = \"http://localhost:8080\"\nobserve = {{ {observe} }}")));
        let service = &experiment.variants()[0].spec.services[0];
        let running = service.running.as_ref().unwrap();
        assert_eq!((running.port, &running.processes), (8080, &expected));
        assert_eq!(service.ready.sign, ReadySign::Port);
    }
    let at = "url = \"http://127.0.0.1:80\"";
    let whole = format!("{at}\nobserve = {{ pid = 1 }}\n");
    for (keys, expected) in [
        (at.to_owned(), "3:7 which processes are those of this server is not said"),
        (
            "url = \"http://10.0.0.1:80\"\nobserve = { pid = 1 }".to_owned(),
            "3:7 `http://10.0.0.1:80` is no server of this machine",
        ),
        ("url = \"http://127.0.0.1:80/x\"\nobserve = { pid = 1 }".to_owned(), "is no server of this machine"),
        ("command = \"x\"\nobserve = { pid = 1 }".to_owned(), "4:1 prony observes what it starts"),
        (format!("{whole}command = \"x\""), "`command` and `url`"),
        (format!("{whole}count = 2"), "5:1 `count` has no effect on a server that runs already"),
        (format!("{whole}limits = {{ memory = \"1 GB\" }}"), "`limits` has no effect"),
        (format!("{at}\nobserve = {{ pid = 1, cgroup = \"x\" }}"), "`cgroup`"),
    ] {
        let found = faults(&observed(&keys));
        assert!(found.contains(expected), "{keys}\n  expected {expected}\n  found    {found}");
    }
}
