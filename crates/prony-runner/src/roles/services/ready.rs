//! Whether a service is ready.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use prony_model::service::ReadySign;
use prony_place::launch_setting::Setting;

/// How long one attempt may take.
const ATTEMPT: Duration = Duration::from_secs(1);

/// The longest begin of an answer that is read for its status.
const STATUS_LINE: usize = 12;

/// Whether the sign is there now; commands and lines of output are observed elsewhere.
pub(super) fn is(sign: &ReadySign, setting: &Setting<'_>, port: u16) -> bool {
    let mut addresses = addresses(sign, setting, Some(port)).into_iter();
    match sign {
        ReadySign::Started | ReadySign::Line(_) | ReadySign::Command(_) => true,
        ReadySign::Port | ReadySign::Tcp(_) => addresses.any(|address| connected(address).is_some()),
        ReadySign::Http(path) => addresses.any(|own| answers(own, &setting.filled(path).to_string_lossy())),
    }
}

/// Where a service is to accept connections: by its sign, or else on its own port, if it uses one.
pub(super) fn addresses(sign: &ReadySign, setting: &Setting<'_>, port: Option<u16>) -> Vec<SocketAddr> {
    match sign {
        ReadySign::Tcp(address) => {
            setting.filled(address).to_string_lossy().to_socket_addrs().into_iter().flatten().collect()
        }
        _ => port.map(|port| (Ipv4Addr::LOCALHOST, port).into()).into_iter().collect(),
    }
}

/// Whether another process accepts connections where the service is to, before it is started.
pub(super) fn is_taken(sign: &ReadySign, setting: &Setting<'_>, port: u16) -> bool {
    match sign {
        ReadySign::Tcp(_) => is(sign, setting, port),
        ReadySign::Port | ReadySign::Http(_) => is(&ReadySign::Port, setting, port),
        ReadySign::Started | ReadySign::Line(_) | ReadySign::Command(_) => false,
    }
}

/// A connection to a server. Where nobody listens on a port of the range of clients, the kernel may give the client that very
/// port and connect it to itself (simultaneous open, RFC 9293, 3.5): the more ports are in use, the more often.
fn connected(address: SocketAddr) -> Option<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, ATTEMPT).ok()?;
    is_of_two(stream.local_addr().ok()?, stream.peer_addr().ok()?).then_some(stream)
}

/// Whether the ends of a connection are two.
fn is_of_two(local: SocketAddr, peer: SocketAddr) -> bool {
    local != peer
}

/// Whether a server answers a `GET` with a status of 200 to 399.
fn answers(address: SocketAddr, path: &str) -> bool {
    let ask = || -> std::io::Result<bool> {
        let Some(mut stream) = connected(address) else { return Ok(false) };
        stream.set_read_timeout(Some(ATTEMPT))?;
        stream.set_write_timeout(Some(ATTEMPT))?;
        // In one piece: a server may read only once.
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes())?;
        let mut begin = Vec::new();
        // No more than is needed: the connection may stay open all the same.
        stream.take(STATUS_LINE as u64).read_to_end(&mut begin)?;
        Ok(status(&begin).is_some_and(|status| (200..400).contains(&status)))
    };
    ask().unwrap_or(false)
}

/// The status of an answer that begins with these bytes.
fn status(begin: &[u8]) -> Option<u16> {
    let text = std::str::from_utf8(begin.get(..STATUS_LINE)?).ok()?;
    text.strip_prefix("HTTP/1.")?.get(2..)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client that has bound the port to which it connects is connected to itself.
    #[test]
    fn connection_to_itself_is_no_server() {
        use rustix::net::{AddressFamily, SocketType, bind, connect, getpeername, getsockname, socket};
        let client = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&client, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let own = SocketAddr::try_from(getsockname(&client).unwrap()).unwrap();
        connect(&client, &own).unwrap();
        let peer = SocketAddr::try_from(getpeername(&client).unwrap().unwrap()).unwrap();
        assert!(!is_of_two(own, peer), "{own} {peer}");
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert!(connected(listener.local_addr().unwrap()).is_some());
    }

    /// A server whose whole answer has 40 bytes and which does not close the connection was never ready.
    #[test]
    fn short_answer_on_a_connection_that_stays_open_is_an_answer() {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
            stream
        });
        assert!(answers(address, "/"));
        server.join().unwrap();
    }

    #[test]
    fn status_is_that_of_the_first_line() {
        assert_eq!(status(b"HTTP/1.1 200 OK\r\n"), Some(200));
        assert_eq!(status(b"HTTP/1.0 503"), Some(503));
        for wrong in [&b"HTTP/1.1 20"[..], b"220 smtp ready here", b"HTTP/2 200 OK  ", b""] {
            assert_eq!(status(wrong), None, "{wrong:?}");
        }
    }
}
