//! The URL of a server.

use crate::{decoded, placed};

/// The port of a URL without one.
const PORT: u16 = 6379;

/// Where a server is, how to log in, and which of its databases is meant.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    /// Host and port, as [`std::net::ToSocketAddrs`] reads them.
    pub place: String,
    /// The words of `AUTH` where the server asks for a password: a user's name, where there is one, and the password.
    pub login: Vec<String>,
    /// The number of the database.
    pub database: u32,
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Without the password.
        write!(f, "database {} of {}", self.database, self.place)
    }
}

impl Address {
    /// Reads `redis://USER:PASSWORD@HOST:PORT/DATABASE`, of which only the host is required, not even the scheme; `valkey://`
    /// means the same.
    ///
    /// # Errors
    /// What is wrong with it, without any of its parts: some are secret.
    pub fn parse(url: &str) -> Result<Self, &'static str> {
        let rest = match url.split_once("://") {
            None => url,
            Some(("redis" | "valkey", rest)) => rest,
            Some(("rediss" | "valkeys", _)) => return Err("TLS is not supported: write `redis://`"),
            Some(_) => return Err("the URL does not begin with `redis://`"),
        };
        let (login, rest) = rest.rsplit_once('@').unwrap_or(("", rest));
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        let words = [user, password].into_iter().filter(|word| !word.is_empty()).map(decoded);
        let (place, database) = rest.split_once('/').unwrap_or((rest, ""));
        let database = if database.is_empty() { Ok(0) } else { database.parse() };
        Ok(Self {
            place: placed(place, PORT)?,
            login: words.collect::<Result<_, _>>()?,
            database: database.map_err(|_| "the database of the URL is no number")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_with_the_defaults_of_their_parts() {
        let of = |url: &str| {
            let Address { place, login, database } = Address::parse(url).unwrap();
            (place, login.join(" "), database)
        };
        let is = |place: &str, login: &str, database| (place.to_owned(), login.to_owned(), database);
        assert_eq!(of("127.0.0.1:1"), is("127.0.0.1:1", "", 0));
        assert_eq!(of("redis://localhost"), is("localhost:6379", "", 0));
        assert_eq!(of("valkey://:7/"), is("127.0.0.1:7", "", 0));
        assert_eq!(of("redis://:a%40b%2F@[::1]:1/15"), is("[::1]:1", "a@b/", 15));
        assert_eq!(of("redis://user:p:s@host:1"), is("host:1", "user p:s", 0));
        assert_eq!(of("redis://password@host"), is("host:6379", "password", 0));
    }

    #[test]
    fn faults_of_urls_are_named_without_their_parts() {
        for (url, said) in [
            ("http://s3cret", "does not begin"),
            ("rediss://s3cret", "TLS"),
            ("redis://h:s3cret", "no port"),
            ("redis://h/s3cret", "no number"),
            ("redis://%ff@h", "UTF-8"),
        ] {
            let fault = Address::parse(url).unwrap_err();
            assert!(fault.contains(said) && !fault.contains("3cr"), "{url}: {fault}");
        }
        assert!(!format!("{:?}", Address::parse("redis://:s3cret@h").unwrap()).contains("s3cret"));
    }
}
