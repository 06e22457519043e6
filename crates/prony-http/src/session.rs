//! Sessions: requests that one user sends one after the other over a connection, each after the answer to the one before.

/// Which request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    /// Its number.
    pub(crate) request: u64,
    /// The place of its record or saved value; where there are none, the number of the request or session.
    pub(crate) place: u64,
}

/// Where the user of a connection is.
#[derive(Debug, Default)]
pub(crate) struct Session {
    /// The next request of the session under way; `None` where the next request begins a session.
    pub(crate) next: Option<At>,
    /// The values that its answers gave, by their places; those of the session before where none came yet, which no request uses.
    values: Vec<SavedValue>,
}

/// A value of an answer.
#[derive(Debug, Default)]
pub(crate) struct SavedValue {
    whole: Box<str>,
    /// Where its path begins, if it is a URL of the server.
    path: usize,
}

impl SavedValue {
    /// The value, or its path.
    pub(crate) fn text(&self, is_path: bool) -> &str {
        &self.whole[if is_path { self.path } else { 0 }..]
    }
}

impl Session {
    /// The values of its answers, by their places.
    pub(crate) fn values(&self) -> &[SavedValue] {
        &self.values
    }

    /// An answer gave the value in a place, which may be a URL of this server.
    pub(crate) fn save(&mut self, place: usize, value: &str, server: &str) {
        if self.values.len() <= place {
            self.values.resize_with(place + 1, SavedValue::default);
        }
        let path = if value.starts_with(server) { server.len() } else { 0 };
        self.values[place] = SavedValue { whole: value.into(), path };
    }
}
