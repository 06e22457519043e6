//! Parses marks (boundaries that programs write to the file named in `PRONY_MARKS`). Pure functions.
//!
//! A mark is one line: `NAME begin`, `NAME end`, or JSON, `{"mark":"NAME","boundary":"begin","at":NANOSECONDS}`, where `at`
//! counts as `CLOCK_MONOTONIC` does and may be left out. Lines up to 4096 bytes that are written at once stay whole.

use prony_model::units::Nanos;
use serde::Deserialize;

prony_model::words! {
    /// Which end of a phase.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, serde::Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Boundary {
        /// It begins.
        Begin = "begin";
        /// It ends.
        End = "end";
    }
}

/// One mark.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Mark {
    /// Its name.
    #[serde(rename = "mark")]
    pub name: String,
    /// Which end.
    pub boundary: Boundary,
    /// When, by `CLOCK_MONOTONIC`; `None` is when it was read.
    pub at: Option<Nanos>,
}

impl Mark {
    /// Parses a line; `None` if the line is not a mark.
    pub fn parse(line: &str) -> Option<Self> {
        let line = line.trim();
        if line.starts_with('{') {
            return serde_json::from_str(line).ok();
        }
        let (name, boundary) = line.rsplit_once(char::is_whitespace)?;
        let boundary = [Boundary::Begin, Boundary::End].into_iter().find(|known| known.name() == boundary)?;
        Some(Self { name: name.trim_end().to_owned(), boundary, at: None })
    }
}

/// What is known of the time at which a mark was made, apart from the instant that the mark itself states.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// When the program began.
    pub released: Nanos,
    /// When the phase that the mark ends began, as far as known; `None` if the mark ends no phase.
    pub begun: Option<Nanos>,
    /// It did not exist before this instant.
    pub earliest: Nanos,
    /// When it was read.
    pub read: Nanos,
}

/// When a mark was made and how much earlier that may have been; with why the mark's own instant does not count, where it
/// cannot be: before the program or its phase began, or in the future.
pub fn made(own: Option<Nanos>, known: Known) -> (Nanos, Nanos, Option<&'static str>) {
    let Known { released, begun, earliest, read } = known;
    let as_read = |why| (read, read.since(earliest), why);
    match own {
        None => as_read(None),
        Some(at) if at < released => as_read(Some("before the program began")),
        Some(at) if at > read => as_read(Some("in the future")),
        Some(at) if begun.is_some_and(|begun| at < begun) => as_read(Some("before its phase began")),
        Some(at) => (at, Nanos::ZERO, None),
    }
}

/// The line that `prony mark` writes.
pub fn line(name: &str, boundary: Boundary, at: Nanos, pid: u32) -> String {
    let mark = serde_json::json!({ "mark": name, "boundary": boundary, "at": at.as_nanos(), "pid": pid });
    format!("{mark}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read_and_what_is_written_reads_back() {
        let mark = |name: &str, boundary, at| Some(Mark { name: name.into(), boundary, at });
        assert_eq!(Mark::parse("page queries begin\n"), mark("page queries", Boundary::Begin, None));
        assert_eq!(Mark::parse("load \t end"), mark("load", Boundary::End, None));
        let written = line("a \"b\"", Boundary::End, Nanos::from_nanos(77), 5);
        assert_eq!(Mark::parse(&written), mark("a \"b\"", Boundary::End, Some(Nanos::from_nanos(77))));
        for wrong in ["", "begin", "load start", "{\"mark\":\"x\"}", "{", "{\"heap\":3}"] {
            assert_eq!(Mark::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_instant_that_cannot_be_does_not_count() {
        let ms = Nanos::from_millis;
        let known =
            |begun: Option<u64>| Known { released: ms(100), begun: begun.map(ms), earliest: ms(140), read: ms(150) };
        let made = |own: Option<u64>, begun| {
            let (at, lag, why) = super::made(own.map(ms), known(begun));
            (at.as_nanos() / 1_000_000, lag.as_nanos() / 1_000_000, why)
        };
        assert_eq!(
            made(Some(120), Some(130)),
            (150, 10, Some("before its phase began")),
            "no phase takes less than nothing"
        );
        assert_eq!(made(Some(130), Some(130)), (130, 0, None), "however late it was read");
        let made = |own| made(own, None);
        assert_eq!(made(None), (150, 10, None));
        assert_eq!(made(Some(120)), (120, 0, None), "written long before it was read");
        assert_eq!([made(Some(100)), made(Some(150))], [(100, 0, None), (150, 0, None)]);
        assert_eq!(made(Some(0)), (150, 10, Some("before the program began")), "another clock's, or made up");
        assert_eq!(made(Some(151)), (150, 10, Some("in the future")), "late by what prony knows, not by nothing");
    }
}
