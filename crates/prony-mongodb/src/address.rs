//! The URL of a server.

/// The port of a URL without one.
const PORT: u16 = 27017;

/// Where a server is, and which of its databases is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Host and port, as [`std::net::ToSocketAddrs`] reads them.
    pub place: String,
    /// The database; `None` where the URL names none.
    pub database: Option<String>,
}

impl Address {
    /// Reads `mongodb://HOST:PORT/DATABASE`, of which only the host is required, not even the scheme.
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
        if rest.contains(['@', '?', ',']) {
            return Err(
                "a URL with a login, options or several hosts is not supported: write `mongodb://HOST:PORT/DATABASE`",
            );
        }
        let (place, database) = rest.split_once('/').unwrap_or((rest, ""));
        // What MongoDB allows nowhere, and what a URL would encode.
        if database.len() > 63 || !database.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)) {
            return Err("the database of the URL has other characters than letters, digits, `_` and `-`");
        }
        let has_port = place.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
        let place = match (place, has_port) {
            ("", _) => format!("127.0.0.1:{PORT}"),
            (host, false) => format!("{host}:{PORT}"),
            (place, true) => place.to_owned(),
        };
        let port = place.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        port.ok_or("the port of the URL is no port")?;
        Ok(Self { place, database: Some(database.to_owned()).filter(|database| !database.is_empty()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_with_the_defaults_of_their_parts() {
        let of = |url: &str| {
            let Address { place, database } = Address::parse(url).unwrap();
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
    fn faults_of_urls_are_named_without_their_parts() {
        for (url, said) in [
            ("http://s3cret", "does not begin"),
            ("mongodb+srv://s3cret", "TLS"),
            ("mongodb://u:s3cret@h", "login"),
            ("mongodb://h/d?s3cret", "options"),
            ("mongodb://h:s3cret", "no port"),
            ("mongodb://h/s3cret.d", "characters"),
        ] {
            let fault = Address::parse(url).unwrap_err();
            assert!(fault.contains(said) && !fault.contains("s3cret"), "{url}: {fault}");
        }
    }
}
