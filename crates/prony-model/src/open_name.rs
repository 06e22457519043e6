//! Names of metrics that the catalogue does not list: answers by status (`status.404`), and numbers that a service counts
//! itself under names of its own (`xact_commit`).

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use crate::units::Unit;

/// The longest name.
const LONGEST: usize = 100;

/// Before the number of a status.
const STATUS: &str = "status.";

/// Such a name. Equal names are equal; the unit follows from the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpenName {
    text: &'static str,
    unit: Unit,
}

impl OpenName {
    /// The name with this text; `None` where the text cannot be one.
    pub fn new(text: &str) -> Option<Self> {
        (is_status(text) || is_counter(text)).then(|| Self { text: interned(text), unit: unit_of(text) })
    }

    /// Answers with this status.
    pub fn status(status: u16) -> Option<Self> {
        Self::new(&format!("{STATUS}{status}"))
    }

    /// The status of whose answers it is the number.
    pub fn as_status(self) -> Option<u16> {
        self.text.strip_prefix(STATUS)?.parse().ok()
    }

    /// As written.
    pub const fn text(self) -> &'static str {
        self.text
    }

    /// The unit of the stored number.
    pub const fn unit(self) -> Unit {
        self.unit
    }

    /// Whether it is a number of a service, else answers by status.
    pub fn is_counter(self) -> bool {
        !is_status(self.text)
    }
}

fn is_status(text: &str) -> bool {
    text.strip_prefix(STATUS).is_some_and(|number| number.len() == 3 && number.bytes().all(|b| b.is_ascii_digit()))
}

/// Names as Prometheus allows them: a letter or `_`, then letters, digits, `_` and `:`.
fn is_counter(text: &str) -> bool {
    let first = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    let next = |byte: u8| first(byte) || byte.is_ascii_digit() || byte == b':';
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|byte| first(*byte)) && bytes.iter().all(|byte| next(*byte)) && bytes.len() <= LONGEST
}

/// The unit by the conventions of Prometheus (`_bytes`, `_seconds`, with or without `_total`) and of Redis (`used_memory`,
/// `used_cpu`), else a count.
fn unit_of(text: &str) -> Unit {
    let plain = text.strip_suffix("_total").unwrap_or(text);
    let is = |suffix: &str, prefix: &str| plain.ends_with(suffix) || plain.starts_with(prefix);
    // Of the names that begin like a size, Redis has some with texts, percentages and ratios.
    let is_size = is("_bytes", "used_memory") && !plain.ends_with("_perc") && !plain.ends_with("_human");
    match () {
        () if is_size => Unit::Bytes,
        () if is("_seconds", "used_cpu_") => Unit::Nanos,
        () => Unit::Count,
    }
}

/// The scale from a number as a server prints it to one of this unit: times are in seconds there.
pub const fn scale_of(unit: Unit) -> f64 {
    match unit {
        Unit::Nanos => 1e9,
        Unit::Bytes | Unit::Count | Unit::PerSecond | Unit::Ratio => 1.0,
    }
}

/// A text that lasts as long as this process, so that names can be copied. Each is stored once: there are as many as files
/// and results have names.
fn interned(text: &str) -> &'static str {
    static ALL: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    match all.get(text) {
        Some(known) => known,
        None => {
            let text: &'static str = Box::leak(text.into());
            all.insert(text);
            text
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_unit_that_they_end_in() {
        let unit = |text| OpenName::new(text).map(OpenName::unit);
        for (text, expected) in [
            ("xact_commit", Unit::Count),
            ("wal_bytes", Unit::Bytes),
            ("http_response_size_bytes_total", Unit::Bytes),
            ("process_cpu_seconds_total", Unit::Nanos),
            ("used_memory_rss", Unit::Bytes),
            ("used_memory_peak_perc", Unit::Count),
            ("used_cpu_sys", Unit::Nanos),
            ("node:requests:rate", Unit::Count),
            ("status.404", Unit::Count),
        ] {
            assert_eq!(unit(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn other_texts_are_no_names() {
        let long = "x".repeat(LONGEST + 1);
        for text in ["", "2xx", "a.b", "a-b", "a b", "status.40", "status.4xx", "status.2000", "ä", &long] {
            assert_eq!(OpenName::new(text), None, "{text:?}");
        }
        assert_eq!(OpenName::status(99), None);
        let status = |text: &str| OpenName::new(text).unwrap().as_status();
        assert_eq!((status("status.404"), status("status_404")), (Some(404), None));
    }

    #[test]
    fn equal_names_are_stored_once() {
        let [a, b] = [String::from("some_name"), String::from("some_name")].map(|text| OpenName::new(&text).unwrap());
        assert!(std::ptr::eq(a.text(), b.text()) && a == b);
        assert!(a.is_counter() && !OpenName::status(200).unwrap().is_counter());
    }
}
