//! Tests of `prony load`: what it prints, its exit codes, and interrupts.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Output, Stdio};
use std::thread;

use serde_json::Value;

use crate::bench::{Bench, PRONY};

/// Answers each request whose path is not `/no`, until the test's process ends. Requests have a body only if they say so.
fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let mut buffer = [0; 4096];
                while let Ok(count @ 1..) = stream.read(&mut buffer) {
                    let refused = buffer[..count].starts_with(b"GET /no ");
                    let status = if refused { "404 Not Found" } else { "200 OK" };
                    if write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\nok").is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

fn load(url: &str, options: &[&str]) -> Output {
    Bench::new().prony(&[&["load", url], options].concat())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The value behind the name of a line.
fn value<'t>(table: &'t str, name: &str) -> &'t str {
    let line = table.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix("  "));
    line.unwrap_or_else(|| panic!("no `{name}` in:\n{table}")).trim()
}

#[test]
fn load_prints_each_request_once_and_ends_with_0() {
    let url = format!("http://{}/x", server());
    let output = load(&url, &["-n", "1000", "-c", "4"]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}{}", text(&output.stderr));
    assert!(said.starts_with(&format!("GET {url}: closed loop, 4 connections, ")), "{said}");
    for (name, expected) in [("requests", "1000"), ("ok", "1000"), ("errors", "0 (0 %)"), ("statuses", "200: 1000")] {
        assert_eq!(value(&said, name), expected, "{said}");
    }
    assert!(value(&said, "latency (service time)").ends_with("1000"), "{said}");
    assert!(said.contains("note: percentiles without a value (`-`) have too few samples: p50 needs 20, p90 100, p99 1000, p99.9 10000\n"), "{said}");
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn load_with_errors_ends_with_1_and_says_their_kind() {
    let address = server();
    let output = load(&format!("http://{address}/no"), &["-n", "30"]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!((value(&said, "errors"), value(&said, "  unexpected status")), ("30 (100 %)", "30"), "{said}");
    assert!(
        said.contains(
            "note: latency (service time): no p50, p90, p99, p99.9, max: infinite, since 30 of 30 operations failed"
        ),
        "{said}"
    );
    assert_eq!(load(&format!("http://{address}/no"), &["-n", "30", "--expect", "200,404"]).status.code(), Some(0));
}

#[test]
fn load_as_json_has_the_same_figures() {
    let output = load(&format!("http://{}/{{i}}", server()), &["-n", "200", "-R", "5000", "--json", "-b", "{i}"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["requests"], &report["ok"], &report["method"]), (&200.into(), &200.into(), &"POST".into()));
    assert_eq!((&report["asked_rate"], &report["latency"]["kind"]), (&5000.0.into(), &"intended".into()));
    assert_eq!((&report["sent"]["distinct_paths"], &report["sent"]["distinct_bodies"]), (&200.into(), &200.into()));
    assert!(report["latency"]["p90"]["measured"].as_f64().unwrap() > 0.0);
    assert_eq!(report["latency"]["p99"]["missing"]["too_few"]["need"], 1_000);
    assert_eq!(report["histograms"].as_array().unwrap().len(), 2);
}

#[test]
fn load_that_cannot_run_ends_with_2_and_a_hint() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (url, options, expected) in [
        (format!("http://{closed}/"), &[][..], "error: cannot connect to `127.0.0.1:"),
        ("http://192.0.2.7/".to_owned(), &[], "error: `192.0.2.7` (192.0.2.7:80) is no loopback address"),
        ("ftp://a/".to_owned(), &["-H", "x"], "error: `ftp://a/` is no URL that can be loaded: its scheme"),
        ("http://127.0.0.1/".to_owned(), &["-H", "x"], "error: `x` is no header field: it has no colon\nhint: "),
        ("http://127.0.0.1/".to_owned(), &["-n", "0"], "error: no request is asked for\nhint: "),
        ("http://127.0.0.1/".to_owned(), &["-R", "0"], "error: invalid value `0` for `--rate <RATE>`: `0` is out of"),
        ("http://127.0.0.1/".to_owned(), &["-d", "5"], "error: invalid value `5` for `--duration <TIME>`"),
        ("http://127.0.0.1/".to_owned(), &["--body", "@none"], "error: cannot read `none`"),
    ] {
        let output = load(&url, options);
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(2), ""), "{url} {options:?}: {said}");
        assert!(said.starts_with(expected), "{url} {options:?}: {said}");
        assert!(said.contains("\nhint: ") || options.contains(&"@none"), "{url} {options:?}: {said}");
    }
}

#[test]
fn interrupt_ends_a_load_with_its_figures() {
    let url = format!("http://{}/", server());
    let mut child = Command::new(PRONY)
        .args(["load", &url, "-d", "1 h", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    // A signal before the load listens would end it without figures: it is listened to before the first request.
    let stat = format!("/proc/{}/status", child.id());
    let listens = || {
        let status = std::fs::read_to_string(&stat).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or_default().trim().to_owned();
        u64::from_str_radix(&caught, 16).unwrap_or_default() & 2 != 0
    };
    while !listens() && child.try_wait().unwrap().is_none() {
        thread::sleep(std::time::Duration::from_millis(1));
    }
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let mut json = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut json).unwrap();
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{said}");
    let report: Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(report["interrupted"], true);
    assert!(said.contains("warning: interrupted: the figures are those of the requests up to then"), "{said}");
}
