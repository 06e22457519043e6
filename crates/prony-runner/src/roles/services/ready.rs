//! Whether a service is ready.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use prony_model::service::ReadySign;
use prony_place::launch_setting::Setting;

/// How long one attempt may take.
const ATTEMPT: Duration = Duration::from_secs(1);

/// The longest begin of an answer that is read for its status.
const STATUS_LINE: usize = 12;

/// Whether the sign is there now, or what was found in its place; commands and lines of output are observed elsewhere.
pub(super) fn check(sign: &ReadySign, setting: &Setting<'_>, port: u16) -> Result<(), String> {
    let own = "; does the server listen on `{port}`?";
    let (path, hint) = match sign {
        ReadySign::Started | ReadySign::Line(_) | ReadySign::Command(_) => return Ok(()),
        ReadySign::Tcp(_) => (None, ""),
        ReadySign::Port => (None, own),
        ReadySign::Http(path) => (Some(setting.filled(path).to_string_lossy().into_owned()), own),
    };
    let mut found = Err("its address is not known".to_owned());
    for address in addresses(sign, setting, Some(port)) {
        found = match (connected(address), &path) {
            (Err(error), _) => Err(format!("{} at {address}{hint}", error.kind())),
            (Ok(_), None) => Ok(()),
            (Ok(stream), Some(path)) => answers(stream, address, path),
        };
        if found.is_ok() {
            break;
        }
    }
    found
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
        ReadySign::Tcp(_) => check(sign, setting, port).is_ok(),
        ReadySign::Port | ReadySign::Http(_) => check(&ReadySign::Port, setting, port).is_ok(),
        ReadySign::Started | ReadySign::Line(_) | ReadySign::Command(_) => false,
    }
}

/// A connection to a server. Where nobody listens on a port of the range of clients, the kernel may give the client that very
/// port and connect it to itself (simultaneous open, RFC 9293, 3.5): the more ports are in use, the more often.
fn connected(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, ATTEMPT)?;
    let is_server = is_of_two(stream.local_addr()?, stream.peer_addr()?);
    if is_server { Ok(stream) } else { Err(io::ErrorKind::ConnectionRefused.into()) }
}

/// Whether the ends of a connection are two.
fn is_of_two(local: SocketAddr, peer: SocketAddr) -> bool {
    local != peer
}

/// Whether a server answers a `GET` with a status of 200 to 399, or what it did.
fn answers(mut stream: TcpStream, address: SocketAddr, path: &str) -> Result<(), String> {
    let mut ask = || -> io::Result<Vec<u8>> {
        stream.set_read_timeout(Some(ATTEMPT))?;
        stream.set_write_timeout(Some(ATTEMPT))?;
        // In one piece: a server may read only once.
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes())?;
        let mut begin = Vec::new();
        // No more than is needed: the connection may stay open all the same.
        (&mut stream).take(STATUS_LINE as u64).read_to_end(&mut begin)?;
        Ok(begin)
    };
    match ask().map(|begin| status(&begin)) {
        Ok(Some(200..400)) => Ok(()),
        // Without the path, which the record may have to leave out.
        Ok(Some(status)) => Err(format!("the request of `ready` was answered with status {status}")),
        Ok(None) => Err("the request of `ready` was not answered as HTTP".to_owned()),
        Err(error) => Err(format!("the request of `ready` was not answered: {error}")),
    }
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
        assert!(connected(listener.local_addr().unwrap()).is_ok());
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
        assert_eq!(answers(connected(address).unwrap(), address, "/"), Ok(()));
        server.join().unwrap();
    }

    #[test]
    fn what_a_server_did_that_is_not_ready_is_said() {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        for (answer, expected) in [
            (&b"HTTP/1.1 503 Busy\r\n\r\n"[..], "the request of `ready` was answered with status 503"),
            (b"220 smtp ready\r\n", "the request of `ready` was not answered as HTTP"),
            (b"", "the request of `ready` was not answered as HTTP"),
        ] {
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let (mut stream, _) = listener.accept().unwrap();
                    let _ = stream.read(&mut [0; 1024]).unwrap();
                    stream.write_all(answer).unwrap();
                });
                assert_eq!(answers(connected(address).unwrap(), address, "/up"), Err(expected.to_owned()));
            });
        }
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
