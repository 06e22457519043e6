//! Tests of TLS against a server of rustls.
//!
//! The certificate in `tls/` is for `localhost` and 127.0.0.1, signed by the authority beside it, both made with openssl
//! and valid for 100 years; the authority's key was not kept. `own.pem` is for `localhost` too, and what plain
//! `openssl req -x509` makes: an authority's.

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use prony_http::{Asked, Bound, Error, Trust};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{HandshakeKind, ServerConfig, ServerConnection, StreamOwned};

use crate::server::{PATIENT, assert_whole, next, run};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/tls").join(name)
}

/// Answers each request with a body of so many bytes, until the test's process ends.
fn server(body: usize) -> SocketAddr {
    serving(move |stream| serve(stream, body))
}

fn serving(serve: impl Fn(StreamOwned<ServerConnection, TcpStream>) + Clone + Send + 'static) -> SocketAddr {
    serving_as("server", serve)
}

/// Serves with the certificate of this name.
fn serving_as(
    name: &str,
    serve: impl Fn(StreamOwned<ServerConnection, TcpStream>) + Clone + Send + 'static,
) -> SocketAddr {
    let certificate = CertificateDer::from_pem_file(file(&format!("{name}.pem"))).unwrap();
    let key = PrivateKeyDer::from_pem_file(file(&format!("{name}.key"))).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = Arc::new(config.with_no_client_auth().with_single_cert(vec![certificate], key).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            let stream = StreamOwned::new(connection, stream.unwrap());
            let serve = serve.clone();
            thread::spawn(move || serve(stream));
        }
    });
    address
}

/// Where the client closes the connection or refuses the certificate, there is nothing more to do.
fn serve(mut stream: StreamOwned<ServerConnection, TcpStream>, body: usize) {
    let answer = [format!("HTTP/1.1 200 OK\r\nContent-Length: {body}\r\n\r\n").into_bytes(), vec![b'x'; body]].concat();
    let mut bytes = Vec::new();
    while next(&mut stream, &mut bytes).is_some() {
        if stream.write_all(&answer).and_then(|()| stream.flush()).is_err() {
            return;
        }
    }
}

fn asked(url: &str, trust: Trust) -> Asked {
    Asked { bound: Bound::Requests(50), connections: 4, threads: 2, trust, ..Asked::of(url) }
}

/// A worker of the server that ends in the middle of a body without a length (RFC 9112, 9.8).
#[test]
fn body_without_a_length_is_whole_only_with_the_closing_message() {
    for is_closed in [true, false] {
        let port = serving(move |mut stream| {
            if next(&mut stream, &mut Vec::new()).is_some() {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nsome").and_then(|()| stream.flush());
            }
            if is_closed {
                stream.conn.send_close_notify();
                let _ = stream.flush();
            }
        })
        .port();
        let trust = Trust::File(file("authority.pem"));
        let report = run(Asked { bound: Bound::Requests(8), ..asked(&format!("https://localhost:{port}/"), trust) });
        assert_whole(&report, 8);
        assert_eq!((report.ok, report.errors.closed), if is_closed { (8, 0) } else { (0, 8) }, "{:?}", report.errors);
    }
}

#[test]
fn certificates_of_a_trusted_authority_are_accepted() {
    for body in [0, 5, 300_000] {
        let port = server(body).port();
        for (host, trust) in [
            ("localhost", Trust::File(file("authority.pem"))),
            ("127.0.0.1", Trust::File(file("authority.pem"))),
            ("localhost", Trust::Anything),
        ] {
            let report = run(asked(&format!("https://{host}:{port}/"), trust));
            assert_whole(&report, 50);
            assert_eq!((report.ok, report.connect.samples), (50, 4), "{:?} {:?}", report.errors, report.causes);
        }
    }
}

/// Of a server whose handshakes take 17.7 ms the time to connect was 0.87 ms: that of a user who comes again.
#[test]
fn each_connection_is_a_full_handshake() {
    let full = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&full);
    let port = serving(move |mut stream| {
        let mut bytes = Vec::new();
        while next(&mut stream, &mut bytes).is_some() {
            let is_full = stream.conn.handshake_kind() == Some(HandshakeKind::Full);
            counted.fetch_add(u32::from(is_full), Ordering::Relaxed);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").and_then(|()| stream.flush());
        }
    })
    .port();
    let headers = vec!["Connection: close".to_owned()];
    let asked = asked(&format!("https://localhost:{port}/"), Trust::File(file("authority.pem")));
    let report = run(Asked { bound: Bound::Requests(4), connections: 1, threads: 1, headers, ..asked });
    assert_whole(&report, 4);
    assert_eq!((report.ok, full.load(Ordering::Relaxed)), (4, 4), "{:?}", report.causes);
}

/// `invalid peer certificate: Other(OtherError(CaUsedAsEndEntity))` told nobody what to do.
#[test]
fn certificate_of_an_authority_is_refused_with_what_to_do() {
    let port = serving_as("own", |stream| serve(stream, 0)).port();
    let report = run(asked(&format!("https://localhost:{port}/"), Trust::File(file("own.pem"))));
    assert_eq!(report.errors.tls, 50, "{:?} {:?}", report.errors, report.causes);
    let said = "the server's certificate is that of an authority, which no server may use (`openssl req -x509` makes one for a \
                server with `-addext basicConstraints=critical,CA:FALSE`)";
    assert_eq!(report.causes.keys().collect::<Vec<_>>(), [said]);
}

#[test]
fn bodies_larger_than_a_socket_takes_are_sent_with_tls() {
    let url = format!("https://localhost:{}/", server(2_000_000).port());
    let body = Some(vec![b'y'; 3_000_000].into());
    let report = run(Asked { bound: Bound::Requests(6), body, timeout: PATIENT, ..asked(&url, Trust::Anything) });
    assert_whole(&report, 6);
    assert_eq!(report.ok, 6, "{:?} {:?}", report.errors, report.causes);
    assert!(report.sent.bytes.as_bytes() > 18_000_000 && report.received.as_bytes() > 12_000_000);
}

#[test]
fn other_certificates_and_servers_without_tls_are_tls_failures() {
    let port = server(0).port();
    // Signed by nobody whom this file names: it is the server's own, which is no authority.
    let untrusted = run(asked(&format!("https://localhost:{port}/"), Trust::File(file("server.pem"))));
    assert_whole(&untrusted, 50);
    assert_eq!(untrusted.errors.tls, 50, "{:?} {:?}", untrusted.errors, untrusted.causes);
    assert_eq!(untrusted.sent.requests, 0);
    let plain = crate::server::Server::new(|_| crate::server::Act::Close(b"HTTP/1.1 400 Bad\r\n\r\n".to_vec()));
    // It waits for an empty line, which a TLS client never sends.
    let asked = Asked {
        timeout: prony_model::units::Nanos::from_millis(200),
        ..asked(&plain.url("/").replace("http", "https"), Trust::Anything)
    };
    let report = run(asked);
    assert_whole(&report, 50);
    assert_eq!(report.errors.tls + report.errors.timeout, 50, "{:?} {:?}", report.errors, report.causes);
}

#[test]
fn files_without_certificates_are_refused() {
    let port = server(0).port();
    for (name, expected) in [("server.key", "contains none"), ("none.pem", "cannot read")] {
        let load =
            prony_http::Load::check(asked(&format!("https://localhost:{port}/"), Trust::File(file(name)))).unwrap();
        let destination = prony_http::Destination::find(&load).unwrap();
        let error = prony_http::run(&load, destination, &prony_http::Control::new(2)).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert!(matches!(error, Error::Certificates { .. } | Error::ReadFile { .. }));
    }
}
