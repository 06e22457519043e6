//! Where a PostgreSQL server is, as a URL or in words, in the forms of libpq.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use crate::{LOCAL, decoded, host_and_port};

/// The port of an address without one.
const PORT: u16 = 5432;

/// Parameters that libpq has and prony has not: others are in no message, since they may be parts of a password.
const REFUSED: &str = "application_name channel_binding client_encoding connect_timeout gssencmode hostaddr keepalives \
                       keepalives_idle keepalives_interval keepalives_retries load_balance_hosts passfile service sslmode \
                       sslnegotiation sslrootcert target_session_attrs tcp_user_timeout";

/// Where a database is, and as whom to connect.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    pub(super) host: Host,
    /// The role.
    pub user: String,
    /// Its password.
    pub password: Option<String>,
    /// The database.
    pub database: String,
    /// Settings of the session, as `options` of libpq.
    pub options: Option<String>,
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

/// The parameters of an address, as they are given.
#[derive(Default)]
struct Given(BTreeMap<&'static str, String>);

impl Given {
    fn set(&mut self, name: &str, value: String) -> Result<(), String> {
        let accepted = ["host", "port", "user", "password", "dbname", "options"];
        if let Some(name) = accepted.into_iter().find(|accepted| *accepted == name) {
            self.0.insert(name, value);
        } else if name != "sslmode" || !["disable", "allow", "prefer"].contains(&value.as_str()) {
            let what = REFUSED.split(' ').find(|refused| *refused == name);
            let what = what.map_or("a parameter".to_owned(), |name| format!("the parameter `{name}`"));
            return Err(format!("{what} is not supported: `{}` are", accepted.join("`, `")));
        }
        Ok(())
    }

    /// The address; `hint` says how to name a user.
    fn address(mut self, hint: &str) -> Result<Address, String> {
        let mut named = |name| self.0.remove(name).filter(|text| !text.is_empty());
        let host = named("host").unwrap_or_else(|| LOCAL.to_owned());
        let port = named("port").unwrap_or_else(|| PORT.to_string());
        if host.contains(',') || port.contains(',') {
            return Err("several hosts are not supported: name one".to_owned());
        }
        let port = port.parse().map_err(|_| "what is given as `port` is no port")?;
        let user = named("user").ok_or_else(|| format!("the address names no user: write {hint}"))?;
        Ok(Address {
            database: named("dbname").unwrap_or_else(|| user.clone()),
            user,
            password: self.0.remove("password"),
            options: self.0.remove("options"),
            host: match host.starts_with('/') {
                true => Host::Unix(PathBuf::from(format!("{host}/.s.PGSQL.{port}"))),
                false => Host::Tcp(host, port),
            },
        })
    }
}

/// What follows the scheme of a URL.
fn after_scheme(url: &str) -> Option<&str> {
    url.strip_prefix("postgresql://").or_else(|| url.strip_prefix("postgres://"))
}

impl Address {
    /// Reads `postgresql://USER:PASSWORD@HOST:PORT/DATABASE`, with `host` (also the directory of a socket), `options` and the other
    /// parts as parameters.
    ///
    /// # Errors
    /// What is wrong with it, without any of its parts: some are secret.
    pub fn parse(url: &str) -> Result<Self, String> {
        let rest = after_scheme(url).ok_or("the URL does not begin with `postgresql://`")?;
        let (rest, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        let (server, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (who, place) = server.rsplit_once('@').unwrap_or(("", server));
        let (user, password) = who.split_once(':').map_or((who, None), |(user, password)| (user, Some(password)));
        let (host, port) = host_and_port(place)?;
        let mut given = Given::default();
        let own = [("host", Some(host)), ("port", port), ("user", Some(user)), ("password", password)];
        for (name, part) in own.into_iter().chain([("dbname", Some(database))]) {
            part.map_or(Ok(()), |part| given.set(name, decoded(part)?))?;
        }
        for pair in parameters.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').ok_or("a parameter of the URL has no value")?;
            given.set(&decoded(name)?, decoded(value)?)?;
        }
        given.address("`postgresql://USER@HOST:PORT/DATABASE`")
    }

    /// Reads a URL, or words such as `host=127.0.0.1 port=5432 user=app dbname=app`. A value with spaces is in single quotes; `\`
    /// stands before what is meant as it is.
    ///
    /// # Errors
    /// What is wrong with it, without any of its parts: some are secret.
    pub fn parse_parameters(text: &str) -> Result<Self, String> {
        if after_scheme(text).is_some() {
            return Self::parse(text);
        }
        let mut given = Given::default();
        let mut rest = text.trim();
        while !rest.is_empty() {
            let (name, value) = rest.split_once('=').ok_or("a parameter of the connection has no value")?;
            let value = value.trim_start();
            let quoted = value.strip_prefix('\'');
            let mut characters = quoted.unwrap_or(value).chars();
            let mut value = String::new();
            loop {
                match characters.next() {
                    Some('\\') => value.extend(characters.next()),
                    Some('\'') if quoted.is_some() => break,
                    Some(c) if quoted.is_none() && c.is_whitespace() => break,
                    Some(c) => value.push(c),
                    None if quoted.is_some() => return Err("a value in quotes has no end".to_owned()),
                    None => break,
                }
            }
            given.set(name.trim_end(), value)?;
            rest = characters.as_str().trim_start();
        }
        given.address("`user=NAME`")
    }
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
        assert_eq!(of("postgresql://a@%2Frun%2Fx/d?sslmode=disable").host, Host::Unix("/run/x/.s.PGSQL.5432".into()));
        assert_eq!(of("postgresql:///d?user=a&host=h&port=7&password=%26"), of("postgresql://a:%26@h:7/d"));
    }

    #[test]
    fn words_are_read_as_libpq_reads_them() {
        let of = |words: &str| Address::parse_parameters(words).unwrap();
        let url = "postgresql://app:it's%20%5C@db:5433/my%20db?options=-cx%3D1";
        let words = r"host=db  port = 5433 user='app' password='it\'s \\' dbname=my\ db options='-cx=1' sslmode=prefer";
        assert_eq!(of(words), of(url));
        assert_eq!(of("user=a"), of("postgresql://a@127.0.0.1:5432/a"));
        assert_eq!(of("host=/run/x user=a port=7").host, Host::Unix("/run/x/.s.PGSQL.7".into()));
        assert_eq!(of("user=a host=::1 password=''").host, Host::Tcp("::1".to_owned(), PORT));
        assert_eq!(of("user=a password=").password.as_deref(), Some(""));
    }

    #[test]
    fn faults_of_words_are_named_without_their_parts() {
        for (words, part) in [
            ("nonsense", "has no value"),
            ("user=x secret=1", "a parameter is not supported: `host`"),
            ("user=x sslmode=require", "`sslmode` is not supported"),
            ("user=x hostaddr=secret", "`hostaddr` is not supported"),
            ("host=secret", "names no user: write `user=NAME`"),
            ("user=x port=secret", "`port` is no port"),
            ("user=x host=secret,secret port=1,2", "several hosts"),
            ("user=x password='secret", "no end"),
            ("postgresql://x:secret@secret:1,secret:2/secret", "several hosts"),
        ] {
            let fault = Address::parse_parameters(words).unwrap_err();
            assert!(fault.contains(part) && !fault.contains("secret"), "{words}: {fault}");
        }
    }

    #[test]
    fn faults_of_urls_are_named_without_passwords() {
        for (url, part) in [
            ("http://a@b/c", "does not begin"),
            ("postgresql://b/c", "names no user"),
            ("postgresql://a:secret@b:x/c", "is no port"),
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
