//! The sizes of its heap and the counts of garbage collections that a language runtime itself reports.

use prony_model::reading::Reading;
use prony_model::units::{Bytes, Nanos};
use serde::Deserialize;

/// The runtime's report of its heap at an instant.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(from = "RawFigures")]
pub struct HeapFigures {
    /// Bytes used by objects, live or not collected yet.
    pub used: Reading<Bytes>,
    /// Bytes reserved from the system for the heap.
    pub total: Reading<Bytes>,
    /// The heap's own limit.
    pub limit: Reading<Bytes>,
    /// Memory outside the heap that belongs to objects in it.
    pub external: Reading<Bytes>,
    /// The part of it in array buffers.
    pub array_buffers: Reading<Bytes>,
    /// Resident set of the whole process, as the runtime reports it.
    pub rss: Reading<Bytes>,
    /// Blocks of the allocator in use (CPython).
    pub blocks: Reading<u64>,
    /// Garbage collections since the start.
    pub gc: Reading<GcFigures>,
}

/// Garbage collections of a thread (Node) or a process (CPython) since the probe was loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "(u64, u64, u64, u64)")]
pub struct GcFigures {
    /// The number of all collections.
    pub count: u64,
    /// The number of full collections, those of the old generation.
    pub major: u64,
    /// The time for which they stopped the program, without steps of an incremental one between its begin and its end,
    /// and without work of other threads.
    pub time: Nanos,
    /// The instant up to which they are counted.
    pub until: Nanos,
}

impl From<(u64, u64, u64, u64)> for GcFigures {
    /// As probes write it: instant, collections, full ones, time.
    fn from((until, count, major, time): (u64, u64, u64, u64)) -> Self {
        Self { count, major, time: Nanos::from_nanos(time), until: Nanos::from_nanos(until) }
    }
}

/// As probes write it; the other names are those of the reports that Node writes.
#[derive(Deserialize)]
struct RawFigures {
    #[serde(alias = "usedMemory")]
    used: Option<u64>,
    #[serde(alias = "totalCommittedMemory")]
    total: Option<u64>,
    #[serde(alias = "memoryLimit")]
    limit: Option<u64>,
    #[serde(alias = "externalMemory")]
    external: Option<u64>,
    array_buffers: Option<u64>,
    rss: Option<u64>,
    blocks: Option<u64>,
    gc_count: Option<u64>,
    gc_major: Option<u64>,
    gc_time: Option<u64>,
    gc_until: Option<u64>,
}

fn reading<T>(value: Option<T>, what: &str) -> Reading<T> {
    match value {
        Some(value) => Reading::Measured(value),
        None => Reading::not_supported(format!("this runtime does not report {what}")),
    }
}

fn bytes(value: Option<u64>, what: &str) -> Reading<Bytes> {
    reading(value, what).map(Bytes::from_bytes)
}

impl From<RawFigures> for HeapFigures {
    fn from(raw: RawFigures) -> Self {
        let gc = || {
            let (count, major) = (raw.gc_count?, raw.gc_major?);
            let (time, until) = (Nanos::from_nanos(raw.gc_time?), Nanos::from_nanos(raw.gc_until?));
            Some(GcFigures { count, major, time, until })
        };
        Self {
            gc: gc().map_or_else(
                || Reading::not_supported("no garbage collection was reported yet: the event loop has not turned"),
                Reading::Measured,
            ),
            used: bytes(raw.used, "the bytes that its objects use"),
            total: bytes(raw.total, "the size of its heap"),
            limit: bytes(raw.limit, "a limit of its heap"),
            external: bytes(raw.external, "memory outside its heap"),
            array_buffers: bytes(raw.array_buffers, "the memory of array buffers; Node 12.17 and later do"),
            rss: bytes(raw.rss, "its resident set"),
            blocks: reading(raw.blocks, "the blocks of its allocator"),
        }
    }
}

#[cfg(test)]
mod tests {
    use prony_model::reading::Why;

    use super::*;

    #[test]
    fn unreported_heap_figure_is_missing_with_a_reason() {
        let figures: HeapFigures = serde_json::from_str(r#"{"used":5,"gc_count":1,"gc_major":0,"gc_time":7}"#).unwrap();
        assert_eq!(figures.used, Reading::Measured(Bytes::from_bytes(5)));
        assert!(
            matches!(&figures.external, Reading::Missing(Why::NotSupported(why)) if why.contains("outside its heap"))
        );
        assert!(
            matches!(&figures.gc, Reading::Missing(Why::NotSupported(why)) if why.contains("event loop")),
            "not up to when"
        );
    }
}
