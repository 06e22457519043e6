//! Tests of bodies that are read from files, in memory or while they are sent.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::sync::{Arc, Mutex};

use prony_http::{Asked, Bound, Remark};
use prony_model::http::{BodySpec, HttpSpec, Part, SavedFrom};

use crate::host::{Runner, With, assert_whole, http, requests, requests_of, text, trial};
use crate::server::{Act, OK, PATIENT, Server, run};
use crate::values::{path_of, plain, save, template};

#[test]
fn files_are_sent_with_texts_replaced() {
    // Some are read into memory, others while they are sent.
    for repeat in [3, 60_000] {
        let content = "<node changeset=\"CHANGESET\" number=\"NUMBER\"/>\n".repeat(repeat);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &content).unwrap();
        let bad = Arc::new(Mutex::new(0));
        let counted = Arc::clone(&bad);
        let server = Server::new(move |asking| {
            let number = path_of(&asking.head)[1..].to_owned();
            if number == "id" {
                return Act::text("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n 777\r\n");
            }
            let expected = content.replace("CHANGESET", "777").replace("NUMBER", &number);
            *counted.lock().unwrap() += u32::from(asking.body != expected.as_bytes());
            Act::text(OK)
        });
        let open = HttpSpec { connections: 1, threads: 1, ..requests(&server, text("/id"), 1) }
            .with(|kind| kind.save = save("changeset", SavedFrom::Body, false));
        let fill = BTreeMap::from([
            ("CHANGESET".to_owned(), template(&[Part::Saved("changeset".to_owned())])),
            ("NUMBER".to_owned(), template(&[Part::Number])),
        ]);
        let upload = requests(&server, template(&[plain("/"), Part::Number]), 11).with(|kind| {
            kind.method = "POST".to_owned();
            kind.body = Some(BodySpec::File { path: file.path().display().to_string(), fill });
        });
        let mut runner = Runner::new(trial(vec![("open", http(open)), ("upload", http(upload))]));
        assert_whole(&runner.phase(0).unwrap(), 1);
        let report = runner.phase(1).unwrap();
        runner.stop().unwrap();
        assert_whole(&report, 11);
        assert_eq!((report.operations, *bad.lock().unwrap()), (11, 0), "{:?}", report.error_texts);
        assert_eq!(report.requests.unwrap().bodies, Some(11));
        let line = |number: u64| format!("<node changeset=\"777\" number=\"{number}\"/>\n").len() as u64;
        let sent: u64 = (0..11).map(|number| line(number) * repeat as u64).sum();
        assert_eq!(report.user_bytes, sent + 11 * "ok".len() as u64);
    }
}

/// Takes what is uploaded, and returns how many bytes the largest body had, once a request without one came.
fn sink(listener: &std::net::TcpListener) -> u64 {
    let mut largest = 0;
    for stream in listener.incoming() {
        let mut stream = BufReader::new(stream.unwrap());
        loop {
            let (mut head, mut line) = (String::new(), String::new());
            while stream.read_line(&mut line).unwrap() > 2 {
                head += &line;
                line.clear();
            }
            if head.is_empty() {
                break;
            }
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")?.parse().ok()).unwrap_or(0);
            largest = largest.max(std::io::copy(&mut (&mut stream).take(length), &mut std::io::sink()).unwrap());
            stream.get_mut().write_all(OK.as_bytes()).unwrap();
            if length == 0 {
                return largest;
            }
        }
    }
    unreachable!("a listener takes connections without end")
}

/// Of 100 MB 42 were sent, and the server was said not to keep connections open: prony closed them.
#[test]
fn answer_before_the_body_is_sent_is_remarked() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    // Nothing is read of a body, which is larger than sockets hold, and no connection is closed.
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            // A connection that was made to find the server has no request.
            if stream.read_exact(&mut [0; 10]).is_ok() {
                stream.write_all(OK.as_bytes()).unwrap();
            }
            open.push(stream);
        }
    });
    let body = Some(vec![b'y'; 64 << 20].into());
    let report = run(Asked { bound: Bound::Requests(6), connections: 2, body, timeout: PATIENT, ..Asked::of(&url) });
    crate::server::assert_whole(&report, 6);
    assert_eq!(report.ok, 6, "{:?} {:?}", report.errors, report.causes);
    assert!(report.sent.bytes.as_bytes() < 6 * (64 << 20));
    assert!(report.remarks.contains(&Remark::Cut { requests: 6 }), "{:?}", report.remarks);
}

/// Where the server is, and which file is uploaded, in a process of its own.
const UPLOAD: [&str; 2] = ["PRONY_TEST_SERVER", "PRONY_TEST_FILE"];

#[test]
fn large_file_is_sent_in_bounded_memory() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    // It has a hole, which costs no space on the disk, and a text at its end.
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let size = std::env::var("PRONY_TEST_UPLOAD").map_or(256 << 20, |size| size.parse::<u64>().unwrap());
    file.as_file().set_len(size).unwrap();
    file.seek(std::io::SeekFrom::End(0)).unwrap();
    file.write_all(b"<CHANGESET>").unwrap();
    let server = std::thread::spawn(move || sink(&listener));
    // The memory of this process is that of all tests.
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "uploads::upload_of_a_process", "--ignored", "--nocapture"])
        .envs(UPLOAD.into_iter().zip([address, file.path().display().to_string()]))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout).into_owned() + &String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success() && said.contains("1 passed"), "{said}");
    assert_eq!(server.join().unwrap(), size + "<1>".len() as u64, "{said}");
}

#[test]
#[ignore = "runs in a process of its own, from the test before"]
fn upload_of_a_process() {
    let [Ok(address), Ok(path)] = UPLOAD.map(std::env::var) else { return };
    let spec = HttpSpec { connections: 1, threads: 1, ..requests_of(&address, text("/"), 2) }.with(|kind| {
        kind.method = "PUT".to_owned();
        kind.body =
            Some(BodySpec::File { path, fill: BTreeMap::from([("CHANGESET".to_owned(), template(&[Part::Number]))]) });
    });
    let last = HttpSpec { connections: 1, threads: 1, ..requests_of(&address, text("/"), 1) };
    let mut runner = Runner::new(trial(vec![("upload", http(spec)), ("last", http(last))]));
    let report = runner.phase(0).unwrap();
    assert_whole(&report, 2);
    assert_eq!(report.operations, 2, "{:?}", report.error_texts);
    runner.phase(1).unwrap();
    runner.stop().unwrap();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap().trim().to_owned();
    let kib: u64 = peak.strip_suffix(" kB").unwrap().parse().unwrap();
    println!("peak: {kib} KiB");
    assert!(kib < 64 << 10, "{kib} KiB");
}
