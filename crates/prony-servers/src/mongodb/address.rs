//! The URL of a server.

use crate::{decoded, placed};

/// The port of a URL without one.
const PORT: u16 = 27017;

/// Where a server is, how to log in, and which of its databases is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Host and port, as [`std::net::ToSocketAddrs`] reads them.
    pub place: String,
    /// How to log in; `None` where the URL names no user.
    pub login: Option<Credentials>,
    /// The database; `None` where the URL names none.
    pub database: Option<String>,
}

/// A user and its password.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The user's name.
    pub user: String,
    /// Its password.
    pub password: String,
    /// The database that knows the user.
    pub source: String,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Without the password.
        write!(f, "{} of {}", self.user, self.source)
    }
}

impl Address {
    /// Reads `mongodb://USER:PASSWORD@HOST:PORT/DATABASE?authSource=DATABASE`, of which only the host is required, not even the
    /// scheme.
    ///
    /// # Errors
    /// What is wrong with it, without any of its parts: some are secret.
    pub fn parse(url: &str) -> Result<Self, &'static str> {
        let rest = match url.split_once("://") {
            None => url,
            Some(("mongodb", rest)) => rest,
            Some(("mongodb+srv", _)) => {
                return Err("TLS and lists of hosts are not supported: write `mongodb://HOST:PORT`");
            }
            Some(_) => return Err("the URL does not begin with `mongodb://`"),
        };
        let (rest, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (who, rest) = rest.rsplit_once('@').map_or((None, rest), |(who, rest)| (Some(who), rest));
        if rest.contains(',') {
            return Err("a URL with several hosts is not supported: name the primary alone");
        }
        let (place, database) = rest.split_once('/').unwrap_or((rest, ""));
        // What MongoDB allows nowhere, and what a URL would encode.
        if database.len() > 63 || !database.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)) {
            return Err("the database of the URL has other characters than letters, digits, `_` and `-`");
        }
        let place = placed(place, PORT)?;
        let database = Some(database.to_owned()).filter(|database| !database.is_empty());
        let source = source(options)?.or_else(|| database.clone()).unwrap_or_else(|| "admin".to_owned());
        let login = who.map(|who| credentials(who, source)).transpose()?;
        Ok(Self { place, login, database })
    }
}

/// The database that knows the user, where an option names it; there is no other option.
fn source(options: &str) -> Result<Option<String>, &'static str> {
    let mut source = None;
    for option in options.split('&').filter(|option| !option.is_empty()) {
        match option.split_once('=') {
            Some(("authSource", database)) => source = Some(decoded(database)?),
            Some(("tls" | "ssl", _)) => return Err("TLS is not supported: remove the option `tls` or `ssl`"),
            _ => return Err("options of the URL other than `authSource` are not supported"),
        }
    }
    Ok(source)
}

fn credentials(who: &str, source: String) -> Result<Credentials, &'static str> {
    let (user, password) = who.split_once(':').ok_or("the URL names a user without a password")?;
    Ok(Credentials { user: decoded(user)?, password: decoded(password)?, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_with_the_defaults_of_their_parts() {
        let of = |url: &str| {
            let Address { place, database, .. } = Address::parse(url).unwrap();
            (place, database.unwrap_or_default())
        };
        let is = |place: &str, database: &str| (place.to_owned(), database.to_owned());
        assert_eq!(of("127.0.0.1:1"), is("127.0.0.1:1", ""));
        assert_eq!(of("mongodb://localhost"), is("localhost:27017", ""));
        assert_eq!(of("mongodb:///"), is("127.0.0.1:27017", ""));
        assert_eq!(of("mongodb://[::1]/some_db"), is("[::1]:27017", "some_db"));
        assert_eq!(of("mongodb://[::1]:7/d"), is("[::1]:7", "d"));
    }

    #[test]
    fn login_is_known_by_the_database_that_is_named_last() {
        let of = |url: &str| {
            let Credentials { user, password, source } = Address::parse(url).unwrap().login.unwrap();
            [user, password, source].join(" ")
        };
        assert_eq!(of("mongodb://user:p%40s%3As@host"), "user p@s:s admin");
        assert_eq!(of("mongodb://a%3Ab:p:s@host:1/d"), "a:b p:s d");
        assert_eq!(of("mongodb://u:@host/d?authSource=users"), "u  users");
        assert_eq!(Address::parse("mongodb://host/d?authSource=users").unwrap().login, None);
        assert!(!format!("{:?}", Address::parse("mongodb://u:s3cret@h")).contains("s3cret"));
    }

    #[test]
    fn faults_of_urls_are_named_without_their_parts() {
        for (url, said) in [
            ("http://s3cret", "does not begin"),
            ("mongodb+srv://s3cret", "TLS"),
            ("mongodb://s3cret@h", "without a password"),
            ("mongodb://u:%ff@h", "UTF-8"),
            ("mongodb://u:s3cret@h,h", "several hosts"),
            ("mongodb://h/d?s3cret", "options"),
            ("mongodb://u:s3cret@h/d?replicaSet=s3cret", "options"),
            ("mongodb://u:s3cret@h/d?tls=true", "TLS"),
            ("mongodb://h:s3cret", "no port"),
            ("mongodb://h/s3cret.d", "characters"),
        ] {
            let fault = Address::parse(url).unwrap_err();
            assert!(fault.contains(said) && !fault.contains("s3cret"), "{url}: {fault}");
        }
    }
}
