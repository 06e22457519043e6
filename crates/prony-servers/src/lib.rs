//! Connections to servers of PostgreSQL, Redis and MongoDB, their protocols and their URLs.

pub mod mongodb;
pub mod postgresql;
pub mod redis;
mod scram;
pub mod wire;

/// A part of a URL without its percent-encoding.
fn decoded(part: &str) -> Result<String, &'static str> {
    let decoded = percent_encoding::percent_decode_str(part).decode_utf8();
    decoded.map(Into::into).map_err(|_| "the URL is not UTF-8")
}

/// The host of a URL, without the brackets of an address of IPv6, and the port where there is one.
///
/// # Errors
/// That something else stands behind the brackets, such as another host.
fn host_and_port(place: &str) -> Result<(&str, Option<&str>), &'static str> {
    Ok(match place.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (host, None),
        Some((host, rest)) => (host, Some(rest.strip_prefix(':').ok_or("what follows `]` in the URL is no port")?)),
        None => place.split_once(':').map_or((place, None), |(host, port)| (host, Some(port))),
    })
}

/// Host and port as [`std::net::ToSocketAddrs`] reads them; of a URL that names none, this machine and the `default` port.
///
/// # Errors
/// What of it is neither.
pub fn placed(place: &str, default: u16) -> Result<String, &'static str> {
    let (host, port) = host_and_port(place)?;
    let port = port.map_or(Ok(default), |port| port.parse().map_err(|_| "the port of the URL is no port"))?;
    Ok(match host {
        "" => format!("{LOCAL}:{port}"),
        host if host.contains(':') => format!("[{host}]:{port}"),
        host => format!("{host}:{port}"),
    })
}

/// The host of a URL without one.
const LOCAL: &str = "127.0.0.1";
