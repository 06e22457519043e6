//! What programs write to the file named in `PRONY_MARKS`. Pure.
//!
//! A mark is one line: `NAME begin`, `NAME end`, or JSON, `{"mark":"NAME","edge":"begin","at":NANOSECONDS}`, where `at`
//! counts as `CLOCK_MONOTONIC` does and may be left out. Lines up to 4096 bytes that are written at once stay whole.

use prony_core::units::Nanos;
use serde::Deserialize;

/// Which end of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Edge {
    /// It begins.
    Begin,
    /// It ends.
    End,
}

impl Edge {
    /// The name as written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Begin => "begin",
            Self::End => "end",
        }
    }
}

/// One mark.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Mark {
    /// Its name.
    #[serde(rename = "mark")]
    pub name: String,
    /// Which end.
    pub edge: Edge,
    /// When, by `CLOCK_MONOTONIC`; `None` is when it was read.
    #[serde(default)]
    pub at: Option<Nanos>,
}

impl Mark {
    /// From a line; `None` where it is no mark.
    pub fn parse(line: &str) -> Option<Self> {
        let line = line.trim();
        if line.starts_with('{') {
            return serde_json::from_str(line).ok();
        }
        let (name, edge) = line.rsplit_once(char::is_whitespace)?;
        let edge = [Edge::Begin, Edge::End].into_iter().find(|known| known.name() == edge)?;
        Some(Self { name: name.trim_end().to_owned(), edge, at: None })
    }
}

/// The line that `prony mark` writes.
pub fn line(name: &str, edge: Edge, at: Nanos, pid: u32) -> String {
    let mark = serde_json::json!({ "mark": name, "edge": edge, "at": at.as_nanos(), "pid": pid });
    format!("{mark}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read_and_what_is_written_reads_back() {
        let mark = |name: &str, edge, at| Some(Mark { name: name.into(), edge, at });
        assert_eq!(Mark::parse("page queries begin\n"), mark("page queries", Edge::Begin, None));
        assert_eq!(Mark::parse("load \t end"), mark("load", Edge::End, None));
        let written = line("a \"b\"", Edge::End, Nanos::from_nanos(77), 5);
        assert_eq!(Mark::parse(&written), mark("a \"b\"", Edge::End, Some(Nanos::from_nanos(77))));
        for wrong in ["", "begin", "load start", "{\"mark\":\"x\"}", "{", "{\"heap\":3}"] {
            assert_eq!(Mark::parse(wrong), None, "{wrong}");
        }
    }
}
