//! Tests which sums over services are compared, where services run that only one of two variants uses.

use super::*;

/// The only variant of a file with the services `small`, `large` and `db`, whose requests go to this one.
fn loading(service: &str) -> TrialSpec {
    let servers = ["small", "large", "db"]
        .map(|name| format!("[[service]]\nname = \"{name}\"\ncommand = [\"serve\", \"{{port}}\"]\n"))
        .concat();
    let phase = |name: &str, service: &str| {
        format!("[[phase]]\nname = \"{name}\"\nhttp = {{ service = \"{service}\", path = \"/\", requests = 9 }}\n")
    };
    checked(&format!("{servers}{}{}{}", phase("warm", "db"), phase("read", service), phase("again", "db")))
}

fn checked(text: &str) -> TrialSpec {
    let raw = prony_experiment::parse(text, "x.toml").unwrap();
    prony_experiment::check(&raw, &Engines, &Default::default()).unwrap().variants()[0].spec.clone()
}

fn unequal(x: &TrialSpec, y: &TrialSpec, name: &str) -> Option<String> {
    let ran = record(["warm", "read", "again", "write"].map(|name| phase(name, &[])).to_vec());
    variants::unequal_offer([&variant_trials("x", x, &ran), &variant_trials("y", y, &ran)], &name.parse().unwrap())
}

/// No difference was reported of a server of 8.5 MB and one of 112 MB, since both ran in all trials.
#[test]
fn sums_that_include_servers_of_the_other_variant_only_are_not_compared() {
    let (small, large) = (loading("small"), loading("large"));
    let why = "`read.anon.max` of `x` includes services that run in its trials too, and that only `y` uses: `large`. The metrics of \
               each service, such as `read.large.anon.max`, are in the tables";
    assert_eq!(unequal(&small, &large, "read.anon.max").as_deref(), Some(why));
    for name in ["read.all.anon.max", "read.cpu", "read.fsyncs", "read.written", "read.disk", "again.rss.end"] {
        assert!(unequal(&small, &large, name).is_some(), "{name}");
        assert_eq!(unequal(&small, &small, name), None, "{name}");
    }
    for name in ["read.rate", "read.latency.p50", "read.wall", "read.load.cpu", "read.large.anon.max", "warm.cpu"] {
        assert_eq!(unequal(&small, &large, name), None, "{name}");
    }
}

#[test]
fn sums_of_two_files_with_one_service_each_are_compared() {
    let only = |name: &str| {
        let mut spec = loading(name);
        spec.services.retain(|service| service.name() == name || service.name() == "db");
        spec
    };
    assert_eq!(unequal(&only("small"), &only("large"), "read.anon.max"), None);
    let why = unequal(&only("small"), &loading("large"), "read.anon.max").unwrap();
    assert!(why.contains("of `y` includes services") && why.contains("only `x` uses: `small`"), "{why}");
}

/// PostgreSQL was said to use 40 % more memory than Redis, where it was 7.6 times as much.
#[test]
fn sums_are_not_compared_of_stores_that_are_other_services() {
    let services = loading("small").services;
    let store = |service: Option<&str>| {
        let mut found = TrialSpec { services: services.clone(), ..spec("lmdb") };
        let Subject::Store(store) = &mut found.subject else { panic!("a store") };
        let port = |service| prony_model::service::hole(service, 1, prony_model::service::OfService::Port);
        store.url = service.map(|service| format!("redis://127.0.0.1:{}", port(service)));
        found
    };
    let (small, large, inside) = (store(Some("small")), store(Some("large")), store(None));
    for name in ["write.anon.max", "write.all.cpu", "write.disk"] {
        assert!(unequal(&small, &large, name).is_some(), "{name}");
        assert_eq!(unequal(&large, &large, name), None, "{name}");
    }
    let why = unequal(&inside, &large, "write.all.anon.max").unwrap();
    assert!(why.contains("`write.all.anon.max` of `x` includes services that run in its trials too"), "{why}");
    assert!(why.contains("only `y` uses: `large`"), "{why}");
    assert_eq!(unequal(&small, &large, "write.worker.cpu"), None, "of the clients alone");
}

/// A variant of a file with these services, and a phase `read` that does this.
fn with(services: &[&str], does: &str) -> TrialSpec {
    let of = |text: &&str| format!("[[service]]\n{text}\n");
    let services: String = services.iter().map(of).collect();
    checked(&format!("{services}[[phase]]\nname = \"read\"\n{does}\n"))
}

const SERVERS: [&str; 2] =
    ["name = \"pg\"\ncommand = [\"pg\", \"{port}\"]", "name = \"mysql\"\ncommand = [\"my\", \"{port}\"]"];

/// The command of a phase was no user of services, so that sums of both servers were compared.
#[test]
fn sums_are_not_compared_where_the_command_of_a_phase_names_another_server() {
    let of = |name: &str| with(&SERVERS, &format!("run = [\"sysbench\", \"--port={{service.{name}.port}}\"]"));
    let why = unequal(&of("pg"), &of("mysql"), "read.anon.max").unwrap();
    assert!(why.contains("of `x` includes services") && why.contains("only `y` uses: `mysql`"), "{why}");
    assert_eq!(unequal(&of("pg"), &of("pg"), "read.anon.max"), None);
    assert_eq!(unequal(&of("pg"), &of("mysql"), "read.pg.anon.max"), None);
}

/// Both variants send their requests to `api`, which stores in one database or in the other.
#[test]
fn sums_are_not_compared_where_a_used_service_names_another_server() {
    let requests = "http = { service = \"api\", path = \"/\", requests = 9 }";
    let of = |database: &str| {
        let api = format!(
            "name = \"api\"\ncommand = [\"api\", \"{{port}}\"]\nenv = {{ DB = \"{{service.{database}.url}}\" }}"
        );
        with(&[SERVERS[0], SERVERS[1], &api], requests)
    };
    let why = unequal(&of("pg"), &of("mysql"), "read.cpu").unwrap();
    assert!(why.contains("only `y` uses: `mysql`"), "{why}");
    assert_eq!(unequal(&of("pg"), &of("pg"), "read.cpu"), None);
}

#[test]
fn sums_are_not_compared_where_a_client_that_is_a_service_names_another_server() {
    let of = |database: &str| {
        let client = format!("name = \"client\"\ncommand = [\"bench\", \"{{service.{database}.port}}\"]");
        with(&[SERVERS[0], SERVERS[1], &client], "pause = \"1 s\"")
    };
    assert!(unequal(&of("pg"), &of("mysql"), "read.cpu").unwrap().contains("only `y` uses: `mysql`"));
    assert_eq!(unequal(&of("pg"), &of("pg"), "read.cpu"), None);
}

#[test]
fn sums_over_several_services_are_not_compared_where_it_is_not_known_which_are_used() {
    let command = "run = [\"sysbench\", \"--port=3306\"]";
    let (unknown, other) = (with(&SERVERS, command), with(&SERVERS, "run = [\"sysbench\", \"--port=5432\"]"));
    let why = unequal(&unknown, &other, "read.anon.max").unwrap();
    let expected = "`read.anon.max` of `x` adds up `pg`, `mysql`, and which of them it uses is not known: none is named, as by \
                    `{service.pg.port}`, in `run` of phase `read`. The metrics of each service, such as `read.pg.anon.max`, are in the tables";
    assert_eq!(why, expected);
    assert_eq!(unequal(&unknown, &unknown, "read.anon.max"), None, "whichever it is, both use it");
    let [one, other] =
        [&unknown, &other].map(|spec| TrialSpec { services: spec.services[..1].to_vec(), ..spec.clone() });
    assert_eq!(unequal(&one, &other, "read.anon.max"), None, "there is no other one");
    let verbose = "name = \"mysql\"\ncommand = [\"my\", \"-v\"]";
    let [paused, other] = [SERVERS[1], verbose].map(|mysql| with(&[SERVERS[0], mysql], "pause = \"1 s\""));
    assert_eq!(unequal(&paused, &other, "read.anon.max"), None, "nothing works in the phase");
    let at_port = "name = \"mysql\"\ncommand = [\"my\"]\nready = { tcp = \"127.0.0.1:3306\" }";
    let known = with(&[SERVERS[0], at_port], command);
    assert_eq!(unequal(&known, &known, "read.anon.max"), None, "the port is that of a service");
}

#[test]
fn sums_of_programs_are_compared_where_they_name_the_same_services() {
    let of = |variable: &str| {
        let services: String = SERVERS.iter().map(|text| format!("[[service]]\n{text}\n")).collect();
        checked(&format!("{services}[program.app]\ncommand = [\"app\"]\nenv = {{ DB = \"{variable}\" }}\n"))
    };
    let unequal = |x: &TrialSpec, y: &TrialSpec, name: &str| {
        let ran = record(vec![phase("run", &[])]);
        variants::unequal_offer([&variant_trials("x", x, &ran), &variant_trials("y", y, &ran)], &name.parse().unwrap())
    };
    let (pg, mysql, unknown) = (of("{service.pg.url}"), of("{service.mysql.url}"), of("127.0.0.1:3306"));
    assert!(unequal(&pg, &mysql, "run.all.anon.max").unwrap().contains("only `y` uses: `mysql`"));
    assert!(unequal(&pg, &unknown, "run.all.cpu").unwrap().contains("only `y` may use: `mysql`"));
    let why = unequal(&of("127.0.0.1:5432"), &unknown, "run.all.cpu").unwrap();
    assert!(why.contains("none is named, as by `{service.pg.port}`, in program `app`"), "{why}");
    assert_eq!(unequal(&unknown, &unknown, "run.all.cpu"), None);
    assert_eq!(unequal(&pg, &pg, "run.all.anon.max"), None);
    assert_eq!(unequal(&pg, &mysql, "run.anon.max"), None, "of the program alone");
}

/// A trial of a store at this address, or of an embedded engine, beside these services.
fn storing(services: &[&str], url: Option<&str>) -> TrialSpec {
    let mut found = TrialSpec { services: with(services, "pause = \"1 s\"").services, ..spec("lmdb") };
    let Subject::Store(store) = &mut found.subject else { panic!("a store") };
    store.url = url.map(str::to_owned);
    found
}

/// The sum of SQLite had an idle PostgreSQL, where the address of PostgreSQL was written as a number.
#[test]
fn sums_of_an_embedded_engine_are_not_compared_with_those_of_any_server() {
    let observed = "name = \"pg\"\nurl = \"http://127.0.0.1:5432\"\nobserve = { pid = 1 }";
    let url = Some("postgresql://a@localhost:5432/c");
    for (service, how) in [(observed, "only `y` uses: `pg`"), (SERVERS[0], "only `y` may use: `pg`")] {
        let (inside, server) = (storing(&[service], None), storing(&[service], url));
        let why = unequal(&inside, &server, "write.all.anon.max").unwrap();
        assert!(why.contains(how), "{why}");
        assert_eq!(unequal(&server, &server, "write.all.anon.max"), None);
        assert_eq!(unequal(&inside, &inside, "write.all.anon.max"), None);
    }
}

#[test]
fn sums_are_not_compared_of_stores_at_addresses_that_are_not_known_to_be_of_services() {
    let of = |url| storing(&SERVERS[..1], Some(url));
    let (one, other) = (of("redis://:secret@127.0.0.1:6379"), of("postgresql://a:secret@127.0.0.1:5432/c"));
    let why = unequal(&one, &other, "write.anon.max").unwrap();
    assert!(
        why.starts_with("the operations of `x` go to `127.0.0.1:6379`, but those of `y` to `127.0.0.1:5432`"),
        "{why}"
    );
    assert_eq!(unequal(&one, &one, "write.anon.max"), None);
    let several = |url| storing(&SERVERS, Some(url));
    let [one, other] = ["redis://127.0.0.1:6379", "redis://127.0.0.1:6380"].map(several);
    assert_eq!(unequal(&one, &one, "write.anon.max"), None);
    let why = unequal(&one, &other, "write.anon.max").unwrap();
    assert!(why.contains("in `url` of the store. The metrics"), "{why}");
}
