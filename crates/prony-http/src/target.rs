//! The parts of the URL that is loaded.

use std::net::Ipv6Addr;

use crate::error::Fault;

/// The parts of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) tls: bool,
    /// A name or an address, an IPv6 address without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// What a `Host` field says: the port only where it is not the usual one.
    pub(crate) authority: String,
    /// Path and query as they are sent; begins with a slash.
    pub(crate) path: String,
}

const EXAMPLE: &str = "write it as `http://localhost:8080/path`";

impl Target {
    /// Parses a URL; without a scheme it is `http`.
    pub(crate) fn parse(url: &str) -> Result<Self, Fault> {
        let fault = |what: &str| Fault::new(format!("`{url}` is no URL that can be loaded: {what}"), EXAMPLE);
        let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
        let tls = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            _ => return Err(fault("its scheme is neither `http` nor `https`")),
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        if authority.contains('@') {
            let hint = "give them as a header field: `-H 'Authorization: Basic ...'`";
            return Err(Fault::new(format!("`{url}` contains a user's name"), hint));
        }
        let (host, port) = split(authority).ok_or_else(|| fault("its port is no number from 1 to 65535"))?;
        if host.is_empty() {
            return Err(fault("it names no host"));
        }
        if !rest.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(fault("spaces, control characters and characters outside ASCII are written as `%20`"));
        }
        let usual = if tls { 443 } else { 80 };
        let port = port.unwrap_or(usual);
        let name = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let authority = if port == usual { name } else { format!("{name}:{port}") };
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(Self { tls, host: host.to_owned(), port, authority, path })
    }

    /// Scheme and authority.
    pub(crate) fn server(&self) -> String {
        format!("{}://{}", if self.tls { "https" } else { "http" }, self.authority)
    }
}

/// The host without brackets, and the port where there is one; `None` where the port is no port.
fn split(authority: &str) -> Option<(&str, Option<u16>)> {
    let (host, rest) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) => (Some(host).filter(|host| host.parse::<Ipv6Addr>().is_ok())?, rest),
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    match rest.strip_prefix(':') {
        None => rest.is_empty().then_some((host, None)),
        Some(port) => {
            let port = port.parse().ok().filter(|port| *port > 0)?;
            Some((host, Some(port)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(url: &str) -> (bool, String, u16, String, String) {
        let Target { tls, host, port, authority, path } = Target::parse(url).unwrap();
        (tls, host, port, authority, path)
    }

    fn parts(tls: bool, host: &str, port: u16, authority: &str, path: &str) -> (bool, String, u16, String, String) {
        (tls, host.into(), port, authority.into(), path.into())
    }

    #[test]
    fn url_has_its_parts() {
        assert_eq!(parsed("http://a.b/c?d=1#e"), parts(false, "a.b", 80, "a.b", "/c?d=1"));
        assert_eq!(parsed("HTTPS://a:8443"), parts(true, "a", 8443, "a:8443", "/"));
        assert_eq!(parsed("https://a:443/{i}"), parts(true, "a", 443, "a", "/{i}"));
        assert_eq!(parsed("http://[::1]:99?x"), parts(false, "::1", 99, "[::1]:99", "/?x"));
        assert_eq!(parsed("localhost:8080"), parts(false, "localhost", 8080, "localhost:8080", "/"));
    }

    #[test]
    fn url_that_cannot_be_loaded_is_refused() {
        for url in [
            "",
            "http://",
            "ftp://a/",
            "http://a:b/",
            "http://a:0/",
            "http://a:70000/",
            "http://[::1/",
            "http://[x]/",
            "http://[::1]x/",
            "http://u:p@a/",
            "http://a/b c",
            "http://a/\u{e9}",
            "http:///x",
            "http://a b/",
        ] {
            assert!(Target::parse(url).is_err(), "{url}");
        }
    }
}
