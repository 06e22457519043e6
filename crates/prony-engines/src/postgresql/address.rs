//! The address of a PostgreSQL server, as a URL in the form of libpq.

use std::fmt;
use std::path::PathBuf;

/// The port of a URL without one.
const PORT: u16 = 5432;

/// Where a database is, and as whom to connect.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) host: Host,
    pub(super) user: String,
    pub(super) password: Option<String>,
    pub(super) database: String,
    /// Settings of the session, as `options` of libpq.
    pub(super) options: Option<String>,
}

/// A server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Host {
    /// By name and port.
    Tcp(String, u16),
    /// By the path of its socket.
    Unix(PathBuf),
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the password.
        write!(f, "{:?} of {:?} as {}", self.database, self.host, self.user)
    }
}

impl Address {
    /// Reads `postgresql://USER:PASSWORD@HOST:PORT/DATABASE`, with `host` (the directory of a socket) and `options` as
    /// parameters.
    ///
    /// # Errors
    /// What is wrong with it; passwords are in no message.
    pub(super) fn parse(url: &str) -> Result<Self, String> {
        let rest = url.strip_prefix("postgresql://").or_else(|| url.strip_prefix("postgres://"));
        let rest = rest.ok_or("the URL does not begin with `postgresql://`")?;
        let (rest, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        let (server, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (who, place) = server.rsplit_once('@').unwrap_or(("", server));
        let (user, password) = who.split_once(':').map_or((who, None), |(user, password)| (user, Some(password)));
        let user = decoded(user)?;
        if user.is_empty() {
            return Err("the URL names no user: write `postgresql://USER@HOST:PORT/DATABASE`".to_owned());
        }
        let (mut host, mut options) = (tcp(place)?, None);
        for pair in parameters.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').ok_or_else(|| format!("the parameter `{pair}` has no value"))?;
            let value = decoded(value)?;
            match (name, &host) {
                ("host", Host::Tcp(_, port)) if value.starts_with('/') => {
                    host = Host::Unix(PathBuf::from(format!("{value}/.s.PGSQL.{port}")));
                }
                ("options", _) => options = Some(value),
                _ => {
                    return Err(format!(
                        "the parameter `{name}` is not supported: `host=/DIRECTORY` and `options` are"
                    ));
                }
            }
        }
        let database = Some(decoded(database)?).filter(|name| !name.is_empty()).unwrap_or_else(|| user.clone());
        Ok(Self { host, password: password.map(decoded).transpose()?, user, database, options })
    }
}

fn tcp(place: &str) -> Result<Host, String> {
    let (name, port) = match place.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((name, rest)) => (name, rest.strip_prefix(':')),
        None => place.split_once(':').map_or((place, None), |(name, port)| (name, Some(port))),
    };
    let port = port.map_or(Ok(PORT), |port| port.parse().map_err(|_| format!("`{port}` is no port")))?;
    Ok(Host::Tcp(if name.is_empty() { "127.0.0.1".to_owned() } else { name.to_owned() }, port))
}

/// A part of a URL without its percent-encoding.
fn decoded(part: &str) -> Result<String, String> {
    let decoded = percent_encoding::percent_decode_str(part).decode_utf8();
    decoded.map(Into::into).map_err(|_| "the URL is not UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_as_libpq_reads_them() {
        let tcp = |name: &str, port| Host::Tcp(name.to_owned(), port);
        let of = |url: &str| Address::parse(url).unwrap();
        let whole = of("postgresql://app:p%40s:s@db.example:5433/my%20db?options=-csearch_path%3Dx");
        assert_eq!((whole.host, whole.user.as_str()), (tcp("db.example", 5433), "app"));
        assert_eq!((whole.password.as_deref(), whole.database.as_str()), (Some("p@s:s"), "my db"));
        assert_eq!(whole.options.as_deref(), Some("-csearch_path=x"));
        let short = of("postgres://app@");
        assert_eq!((short.host, short.database.as_str(), short.password), (tcp("127.0.0.1", PORT), "app", None));
        assert_eq!(of("postgresql://a@[::1]:7/d").host, tcp("::1", 7));
        assert_eq!(of("postgresql://a@:7/d?host=/run/x").host, Host::Unix("/run/x/.s.PGSQL.7".into()));
    }

    #[test]
    fn faults_of_urls_are_named_without_passwords() {
        for (url, part) in [
            ("http://a@b/c", "does not begin"),
            ("postgresql://b/c", "names no user"),
            ("postgresql://a:secret@b:x/c", "`x` is no port"),
            ("postgresql://a:secret@b/c?sslmode=require", "`sslmode` is not supported"),
            ("postgresql://a:secr%ff@b/c", "UTF-8"),
            ("postgresql://a@b/c?host", "has no value"),
        ] {
            let fault = Address::parse(url).unwrap_err();
            assert!(fault.contains(part) && !fault.contains("secr"), "{url}: {fault}");
        }
        assert!(!format!("{:?}", Address::parse("postgresql://a:secret@b/c").unwrap()).contains("secret"));
    }
}
