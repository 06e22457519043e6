//! Tests what instances of services are given, and when they are ready.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;

use prony_model::http::BodySpec;
use prony_model::program::INSTANCE;
use prony_model::reading::Reading;
use prony_model::service::{DATA, OfService, PORT, ReadySign, hole};
use prony_model::spec::{StoreSpec, Subject, TrialSpec};

use super::allotted::Allotted;
use super::*;
use crate::roles::data::OnDisk;

/// The first variant of an experiment file.
fn spec(text: &str) -> TrialSpec {
    let raw = prony_experiment::parse(text, "x.toml").unwrap();
    let experiment = prony_experiment::check(&raw, &prony_engines::catalog::Catalog, &Default::default()).unwrap();
    experiment.variants()[0].spec.clone()
}

const GET: &str =
    "[[phase]]\nname = \"read\"\nhttp = { service = \"api\", method = \"GET\", path = \"/\", requests = 1 }\n";

fn all(allotted: &Allotted) -> impl Iterator<Item = &Share> {
    ["db", "api"].into_iter().flat_map(|service| allotted.of(service))
}

/// Two instances of `db`, and `api`, which is given the port of the second.
fn two(data: &str) -> TrialSpec {
    let db = format!("[[service]]\nname = \"db\"\ncount = 2\ncommand = [\"db\", \"{{port}}\", \"{data}\"]\n");
    let api =
        "[[service]]\nname = \"api\"\nafter = [\"db\"]\ncommand = [\"api\", \"{port}\", \"{service.db.2.port}\"]\n";
    spec(&format!("{db}{api}{GET}"))
}

#[test]
fn each_instance_has_its_own_port_and_directories() {
    let scratch = tempfile::tempdir().unwrap();
    let allotted = Allotted::new(&two("{data}"), scratch.path()).unwrap();
    let roles: Vec<&str> = all(&allotted).map(|share| share.role.as_str()).collect();
    assert_eq!(roles, ["db.1", "db.2", "api"]);
    assert_eq!(allotted.of("db").map(|share| share.number).collect::<Vec<_>>(), [1, 2]);
    let ports: BTreeSet<u16> = all(&allotted).map(|share| share.port).collect();
    let places: BTreeSet<&Path> = all(&allotted).flat_map(|share| [&*share.data, &*share.scratch]).collect();
    assert_eq!((ports.len(), places.len()), (3, 6));
    assert!(places.iter().all(|place| place.is_dir() && place.starts_with(scratch.path())));
}

#[test]
fn texts_of_an_instance_have_its_own_values_and_those_of_all() {
    let scratch = tempfile::tempdir().unwrap();
    let allotted = Allotted::new(&two("{data}"), scratch.path()).unwrap();
    let share = allotted.of("db").nth(1).unwrap();
    let values = allotted.values(share);
    let of = |name: &str| values.iter().find(|(found, _)| found == name).map(|(_, value)| value.clone());
    assert_eq!(of(PORT), Some(share.port.to_string().into()));
    assert_eq!(of(DATA), Some(share.data.clone().into()));
    assert_eq!(of(INSTANCE), Some("2".into()));
    let api = allotted.of("api").next().unwrap();
    assert_eq!(of(&hole("api", 1, OfService::Port)), Some(api.port.to_string().into()));
    assert_eq!(of(&hole("api", 1, OfService::Data)), Some(api.data.clone().into()));
    assert_eq!(of(&hole("db", 2, OfService::Url)), Some(format!("http://127.0.0.1:{}", share.port).into()));
}

#[test]
fn requests_go_to_the_port_of_the_trial() {
    let (scratch, spec) = (tempfile::tempdir().unwrap(), two("{data}"));
    let allotted = Allotted::new(&spec, scratch.path()).unwrap();
    let port = allotted.of("api").next().unwrap().port;
    let filled = allotted.fill(&spec);
    assert_eq!(filled.phases[0].action.http().unwrap().server, format!("http://127.0.0.1:{port}"));
    // The worker has a working directory of its own.
    let body =
        GET.replace("\"GET\"", "\"POST\"").replace("requests = 1", "requests = 1, body = { file = \"sub/body\" }");
    let service = "[[service]]\nname = \"api\"\ncommand = [\"api\", \"{port}\"]\n";
    let filled = Allotted::default().fill(&self::spec(&format!("{service}{body}"))).into_owned();
    let path = filled.phases[0].action.http().and_then(|http| match &http.kinds[0].body {
        Some(BodySpec::File { path, .. }) => Some(path.clone()),
        _ => None,
    });
    assert_eq!(path.map(|path| (Path::new(&path).is_absolute(), path.ends_with("sub/body"))), Some((true, true)));
    let store = TrialSpec { subject: Subject::Store(StoreSpec::of("lmdb")), ..spec };
    assert!(matches!(allotted.fill(&store), Cow::Borrowed(_)), "a store has no requests");
}

/// What a shell would misread is in no text that it reads.
#[test]
fn values_that_a_shell_would_misread_refuse_a_phase() {
    let scratch = tempfile::tempdir().unwrap();
    let allotted = |script: &str| {
        let service = "[[service]]\nname = \"api\"\ncommand = [\"api\", \"{port}\", \"{data}\"]\n";
        let text = format!("{service}[[phase]]\nname = \"p\"\nrun = {script}\n");
        Allotted::new(&spec(&text), &scratch.path().join("my bench"))
    };
    assert!(allotted("\"load {service.api.url}\"").is_ok());
    assert!(allotted("[\"load\", \"{service.api.data}\"]").is_ok());
    let refused = allotted("\"load {service.api.data}\"").unwrap_err();
    assert!(refused.text().contains("`{service.api.1.data}` stands in a text"), "{}", refused.text());
}

#[test]
fn data_of_services_are_measured_where_one_uses_its_directory() {
    let scratch = tempfile::tempdir().unwrap();
    let on_disk = |spec: &TrialSpec| Allotted::new(spec, scratch.path()).unwrap().on_disk(scratch.path(), spec);
    let measured = |path: &Path| Reading::Measured(path.to_path_buf());
    let data = scratch.path().join("data");
    let found = on_disk(&two("{data}"));
    assert_eq!((found.store, found.device), (measured(&data), measured(scratch.path())));
    let found = on_disk(&two("x"));
    assert_eq!(
        (found.store, found.device),
        (Reading::not_supported("no service uses `{data}`"), measured(scratch.path()))
    );
    let by_another = format!(
        "[[service]]\nname = \"api\"\ncommand = [\"api\", \"{{port}}\"]\nsetup = [\"fill\", \"{{service.api.data}}\"]\n{GET}"
    );
    assert_eq!(on_disk(&spec(&by_another)).store, measured(&data));
    let outside = spec(
        "[[phase]]\nname = \"read\"\nhttp = { url = \"http://127.0.0.1:9\", method = \"GET\", path = \"/\", requests = 1 }\n",
    );
    let why = || Reading::not_supported("prony did not start the server");
    assert_eq!(on_disk(&outside), OnDisk { store: why(), device: why() });
}

const API: &str = "
    [[service]]
    name = \"api\"
    command = [\"api\", \"{port}\"]
    [[phase]]
    name = \"read\"
    http = { service = \"api\", method = \"GET\", path = \"/\", requests = 1 }
";

/// The signs that are looked for by connecting: to the service's own port, to an address, by a request.
fn signs(address: SocketAddr) -> [ReadySign; 3] {
    [ReadySign::Port, ReadySign::Tcp(address.to_string()), ReadySign::Http("/health".to_owned())]
}

/// Which of [`signs`] are there, and for which of them another process has the address.
fn found(address: SocketAddr) -> [[bool; 3]; 2] {
    let spec = spec(API);
    let (scratch, port) = (Path::new("/"), address.port());
    let setting = Setting::new(&spec.services[0].program, scratch, scratch.to_path_buf());
    let signs = signs(address);
    [
        signs.each_ref().map(|sign| ready::check(sign, &setting, port).is_ok()),
        signs.each_ref().map(|sign| ready::is_taken(sign, &setting, port)),
    ]
}

/// A server that answers each request with these bytes.
fn server(answer: &'static str) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, mut request) = (stream.unwrap(), Vec::new());
            // Connections that only try the port send nothing.
            while !request.ends_with(b"\r\n\r\n") {
                let mut portion = [0; 1024];
                match stream.read(&mut portion) {
                    Ok(count @ 1..) => request.extend_from_slice(&portion[..count]),
                    _ => break,
                }
            }
            if request.starts_with(b"GET /health HTTP/1.1\r\n") {
                let _ = stream.write_all(answer.as_bytes());
            }
        }
    });
    address
}

#[test]
fn service_is_ready_when_it_accepts_connections_or_answers() {
    assert_eq!(found(server("HTTP/1.1 204 No Content\r\n\r\n")), [[true; 3]; 2]);
    assert_eq!(found(server("HTTP/1.1 503 Later\r\n\r\n")), [[true, true, false], [true; 3]]);
    let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    assert_eq!(found(closed), [[false; 3]; 2]);
}

#[test]
fn signs_without_an_address_are_observed_elsewhere() {
    let address = server("");
    let spec = spec(API);
    let setting = Setting::new(&spec.services[0].program, Path::new("/"), "/".into());
    let line = || prony_model::program::CommandLine::Words(vec!["true".to_owned()]);
    for sign in [ReadySign::Started, ReadySign::Line("x".to_owned()), ReadySign::Command(line())] {
        assert!(
            ready::check(&sign, &setting, address.port()).is_ok() && !ready::is_taken(&sign, &setting, address.port()),
            "{sign:?}"
        );
    }
}
