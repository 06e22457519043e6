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
    variants::unequal_offer(&variant_trials("x", x, &ran), &variant_trials("y", y, &ran), &name.parse().unwrap())
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
