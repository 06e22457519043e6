//! Tests of sources against servers that answer anything.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use prony_model::reading::{Reading, Why};
use prony_model::service::{CounterSource, OfService, PORT, hole};
use proptest::prelude::*;

use super::*;

/// A server that answers each connection with the next of these bytes, and closes it; its address.
fn answering(answers: Vec<Vec<u8>>) -> String {
    conversing(answers.into_iter().map(|answer| vec![answer]).collect())
}

/// A server that answers the requests of each connection with the next of these, one after another, and closes it; its address.
fn conversing(connections: Vec<Vec<Vec<u8>>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for (answers, stream) in connections.into_iter().zip(listener.incoming()) {
            let mut stream = stream.unwrap();
            for answer in answers {
                let _ = stream.read(&mut [0; 1_000]);
                let _ = stream.write_all(&answer);
            }
        }
    });
    address
}

fn redis(address: &str, names: &[&str]) -> Box<dyn Source> {
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    source(&CounterSource::Redis(String::new()), address, names).unwrap()
}

fn page(answer: &str, names: &[&str]) -> Result<Numbers, String> {
    let url = format!("http://{}/metrics", answering(vec![answer.into()]));
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    source(&CounterSource::Prometheus(String::new()), &url, names).unwrap().read().map_err(|why| why.to_string())
}

fn value(numbers: &Numbers, name: &str) -> Result<f64, String> {
    match &numbers.values[name] {
        Reading::Measured(number) => Ok(number.value),
        Reading::Missing(why) => Err(why.to_string()),
    }
}

const PAGE: &str = "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n\
# HELP requests_total Requests.\n# TYPE requests_total counter\n\
requests_total{path=\"/a}\",code=\"2\\\"00\"} 3 1700000000\nrequests_total{code=\"500\"} 4\n\
bad NaN\nopen 2.5e1\nprocess_start_time_seconds 17\nrubbish\n{} 4\n";

#[test]
fn page_of_prometheus_has_sums_over_labels() {
    let numbers = page(PAGE, &["requests_total", "open", "bad", "none"]).unwrap();
    assert_eq!((value(&numbers, "requests_total"), value(&numbers, "open")), (Ok(7.0), Ok(25.0)));
    assert_eq!(value(&numbers, "bad").unwrap_err(), "`bad` in the page is not finite");
    assert_eq!(value(&numbers, "none").unwrap_err(), "the page has no number `none`");
    let Reading::Measured(number) = &numbers.values["open"] else { panic!() };
    assert_eq!(number.since, "a start at 17");
}

#[test]
fn page_that_is_none_is_a_reason() {
    for (answer, said) in [
        ("HTTP/1.1 404 Not Found\r\n\r\nx 1\n", "the status is 404"),
        ("SSH-2.0-OpenSSH\r\n", "not of HTTP"),
        ("", "not of HTTP"),
        ("HTTP/1.0 200 OK\r\nContent-Length: 90\r\n\r\nx 1\n", "4 of 90 bytes"),
        ("HTTP/1.0 200 OK\r\n\r\nx 1\ny 12", "may have been cut"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nx 1\r\n0\r\n\r\n", "in chunks"),
    ] {
        let why = page(answer, &["x"]).unwrap_err();
        assert!(why.contains(said), "{why}");
    }
}

/// Of labels that cannot be read the sum was that of the others.
#[test]
fn sum_over_labels_that_are_not_all_numbers_is_none() {
    let body = "x{a=\"1\"} 600\nx{a=\"2\"} 2x\ny{a=\"1\" 5\ny 2\nz 1\n";
    let numbers = page(&format!("HTTP/1.0 200 OK\r\n\r\n{body}"), &["x", "y", "z"]).unwrap();
    for name in ["x", "y"] {
        assert_eq!(value(&numbers, name).unwrap_err(), format!("`{name}` in the page is not finite"));
    }
    assert_eq!(value(&numbers, "z"), Ok(1.0));
}

/// Bytes that are no UTF-8 became three each, and hid that others were lacking.
#[test]
fn length_of_a_page_is_that_of_its_bytes() {
    let mut answer = b"HTTP/1.0 200 OK\r\nContent-Length: 9\r\n\r\n# \xff\xff\n".to_vec();
    let read = |answer: &[u8]| {
        let url = format!("http://{}/", answering(vec![answer.to_vec()]));
        source(&CounterSource::Prometheus(String::new()), &url, vec!["x".to_owned()]).unwrap().read()
    };
    assert!(read(&answer).unwrap_err().to_string().contains("5 of 9 bytes"));
    answer.extend(b"x 1\n");
    assert_eq!(value(&read(&answer).unwrap(), "x"), Ok(1.0));
}

#[test]
fn addresses_that_can_never_be_read_are_faults() {
    let of = |spec: fn(String) -> CounterSource, text: &str| fault(&spec(text.to_owned())).map(|(message, _)| message);
    let (postgresql, redis, mongodb, page) =
        (CounterSource::Postgresql, CounterSource::Redis, CounterSource::Mongodb, CounterSource::Prometheus);
    let placeholder = hole("api", 1, OfService::Url);
    for (spec, text) in [
        (postgresql as fn(String) -> CounterSource, format!("host=127.0.0.1 port={PORT} user=x dbname=y")),
        (redis, format!("127.0.0.1:{PORT}")),
        (mongodb, format!("mongodb://127.0.0.1:{PORT}/?authSource=admin")),
        (page, format!("http://127.0.0.1:{PORT}/metrics")),
        (page, "http://[::1]/metrics".to_owned()),
        (page, format!("{placeholder}/metrics")),
    ] {
        assert_eq!(of(spec, &text), None, "{text}");
    }
    for (spec, text) in [
        (postgresql as fn(String) -> CounterSource, "nonsense"),
        (postgresql, "host=127.0.0.1 dbname=app"),
        (postgresql, "user=x sslmode=require"),
        (redis, "rediss://127.0.0.1"),
        (redis, "127.0.0.1:1/x"),
        (mongodb, "mongodb+srv://x"),
        (mongodb, "mongodb://x/?replicaSet=rs0"),
        (page, "https://x/metrics"),
        (page, "127.0.0.1:80/metrics"),
    ] {
        assert!(of(spec, text).is_some(), "{text}");
    }
}

fn info(commands: u64) -> Vec<u8> {
    let text = format!("run_id:r1\r\ntotal_commands_processed:{commands}\r\nconnected_clients:3\r\n");
    format!("${}\r\n{text}\r\n", text.len()).into_bytes()
}

#[test]
fn counts_by_another_connection_are_distinguished() {
    // A reading has another before it where it is the first of a connection.
    let address = conversing(vec![vec![info(10), info(11)], vec![b"+OK\r\n".to_vec()], vec![info(20), info(21)]]);
    let mut source = redis(&address, &["total_commands_processed", "connected_clients"]);
    let first = source.read().unwrap();
    assert_eq!((value(&first, "total_commands_processed"), value(&first, "connected_clients")), (Ok(10.0), Ok(2.0)));
    assert!(source.read().is_err(), "the server has closed the connection");
    let refused = source.read().unwrap_err();
    assert!(refused.to_string().contains("is no text"), "{refused}");
    let again = source.read().unwrap();
    assert_eq!(value(&again, "total_commands_processed"), Ok(20.0), "one command was sent on this connection before");
    assert_ne!(first.values["connected_clients"], again.values["connected_clients"]);
}

#[test]
fn server_that_is_not_there_is_a_reason() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let why = redis(&free, &["x"]).read().unwrap_err();
    assert!(matches!(&why, Why::Failed(text) if text.contains("no connection: ")), "{why}");
    assert!(redis("nowhere", &["x"]).read().is_err());
}

#[test]
fn reasons_have_no_parameters_of_a_source() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (page, redis) = (CounterSource::Prometheus(String::new()), CounterSource::Redis(String::new()));
    let (postgresql, mongodb) = (CounterSource::Postgresql(String::new()), CounterSource::Mongodb(String::new()));
    let closed = answering(vec![b"HTTP/1.0 500 No\r\n\r\n".into()]);
    for (spec, at) in [
        (&page, format!("http://{free}/metrics?token=s3cret")),
        (&page, format!("http://user:s3cret@{free}/metrics")),
        (&page, format!("http://{closed}/s3cret")),
        (&page, "https://s3cret/".to_owned()),
        (&redis, format!("redis://user:s3cret@{free}")),
        (&redis, "s3cret".to_owned()),
        (&mongodb, format!("mongodb://user:s3cret@{free}")),
        (&mongodb, format!("mongodb://{free}/s3cret?s3cret=1")),
        (&mongodb, free.to_string()),
        (&postgresql, format!("host=127.0.0.1 port={} user=s3cret password=s3cret dbname=s3cret", free.port())),
        (&postgresql, "host=127.0.0.1 user=x password=a s3cret=1".to_owned()),
        (&postgresql, "host=127.0.0.1 user=x dbname=s3cret port=s3cret".to_owned()),
    ] {
        let why = source(spec, &at, vec!["x".to_owned()]).unwrap().read().unwrap_err().to_string();
        let port = free.port().to_string();
        assert!(["s3cret", "127.0.0.1", &port].iter().all(|text| !why.contains(text)), "{why}");
    }
    let why = lines::printed("s3cret", &["x".to_owned()]).unwrap_err().to_string();
    assert!(!why.contains("s3cret"), "{why}");
}

#[test]
fn operations_and_connections_of_mongodb_are_those_of_its_clients() {
    use crate::mongodb::tests::{answer, status};
    // Of each kind one more at each command: the greeting, and each reading.
    let address = conversing(vec![(0..4).map(|number| answer(status(10 + number, 4))).collect()]);
    let names = ["opcounters", "commands", "connections", "write_conflicts"].map(str::to_owned).to_vec();
    let mut source = source(&CounterSource::Mongodb(String::new()), &address, names).unwrap();
    for number in 0..3 {
        let numbers = source.read().unwrap();
        let of = |name: &str| value(&numbers, name);
        let expected = (65.0 + 5.0 * f64::from(number), 10.0, 3.0);
        assert_eq!(
            (of("opcounters"), of("commands"), of("connections")),
            (Ok(expected.0), Ok(expected.1), Ok(expected.2))
        );
        assert_eq!(of("write_conflicts").unwrap_err(), "`serverStatus` has no number `write_conflicts`");
        let Reading::Measured(number) = &numbers.values["commands"] else { panic!() };
        assert_eq!(number.since, "process 5 by connection 1");
    }
    assert!(source.read().is_err(), "the server has ended");
}

#[test]
fn lines_of_a_command_are_names_and_numbers() {
    let names = ["a", "b"].map(str::to_owned);
    let numbers = lines::printed("# comment\na 1\n\n  b   -2.5e3 \nc 9\n", &names).unwrap();
    assert_eq!((value(&numbers, "a"), value(&numbers, "b")), (Ok(1.0), Ok(-2500.0)));
    assert_eq!(value(&lines::printed("a 1", &names).unwrap(), "b").unwrap_err(), "the output has no number `b`");
    for (text, said) in [("a 1\nERROR: no", "line 2 of the output"), ("a", "line 1"), ("a 1\na 2", "line 2")] {
        let why = lines::printed(text, &names).unwrap_err().to_string();
        assert!(why.contains(said), "{why}");
    }
}

proptest! {
    #[test]
    fn no_text_makes_parsers_panic(text in "[-a-z0-9{}\"\\\\ #=,.\n]{0,200}") {
        let _ = lines::exposed(&text);
        let _ = lines::printed(&text, &["a".to_owned()]);
    }
}
