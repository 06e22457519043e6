//! Finds Node processes that aborted at their own heap limit. V8 runs no more JavaScript then; the report that Node
//! itself writes at a fatal error has the sizes of the heap at that moment.

use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use prony_model::reading::Reading;
use prony_model::units::Nanos;
use serde::Deserialize;

use super::figures::HeapFigures;
use super::protocol::{ProbeEvent, ProbeLine, Source};
use crate::error::Error;
use prony_os::clock;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    header: Header,
    javascript_heap: HeapFigures,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Header {
    event: String,
    trigger: String,
    dump_event_time_stamp: String,
    process_id: u32,
    #[serde(default)]
    thread_id: Option<u32>,
}

/// All reports below a directory, in the order of time.
pub(super) fn read(reports: &Path) -> Result<Vec<ProbeLine>, Error> {
    let mut heap_aborts = Vec::new();
    for entry in fs::read_dir(reports).map_err(Error::file("read", reports))?.flatten() {
        let text = fs::read_to_string(entry.path()).map_err(Error::file("read", entry.path()))?;
        heap_aborts.extend(abort(&text, epoch_offset()));
    }
    heap_aborts.sort_by_key(|line| line.at);
    Ok(heap_aborts)
}

/// Nanoseconds between the epoch and the start of the monotonic clock: reports are dated by the wall clock.
fn epoch_offset() -> u64 {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    u64::try_from(wall).unwrap_or(u64::MAX).saturating_sub(clock::monotonic().as_nanos())
}

/// The abort in a report; `None` for a truncated one, or one about another event.
fn abort(text: &str, epoch: u64) -> Option<ProbeLine> {
    let Report { header, javascript_heap: mut heap } = serde_json::from_str(text).ok()?;
    // A native module may end the process by the same trigger.
    let is_heap = header.event.contains("heap out of memory");
    if !is_heap || !matches!(header.trigger.as_str(), "FatalError" | "OOMError") {
        return None;
    }
    let wall = Nanos::from_millis(header.dump_event_time_stamp.parse().ok()?);
    if heap
        .used
        .measured()
        .zip(heap.total.measured())
        .is_some_and(|(used, total)| used.as_bytes() < total.as_bytes() / 2)
    {
        // Observed with Node 14: 0.9 MB used of a full heap.
        let why = "the process aborted in a garbage collection that had not measured the heap again yet";
        heap.used = Reading::failed(why);
    }
    Some(ProbeLine {
        at: wall.since(Nanos::from_nanos(epoch)),
        source: Source { pid: header.process_id, thread: header.thread_id.unwrap_or(0) },
        event: ProbeEvent::HeapAbort { heap, what: header.event },
    })
}

#[cfg(test)]
mod tests {
    use prony_model::units::Bytes;

    use prony_model::reading::Why;

    use super::*;

    const REPORT: &str = r#"{"header":{"event":"Allocation failed - JavaScript heap out of memory","trigger":"OOMError",
        "dumpEventTimeStamp":"1700000000123","processId":77,"threadId":0},
        "javascriptHeap":{"totalCommittedMemory":300,"usedMemory":250,"memoryLimit":280,"heapSpaces":{}}}"#;

    #[test]
    fn a_report_is_a_heap_abort_with_the_sizes_of_the_heap() {
        let line = abort(REPORT, 1_700_000_000_000_000_000).unwrap();
        assert_eq!((line.at, line.source.pid), (Nanos::from_millis(123), 77));
        let ProbeEvent::HeapAbort { heap, what } = line.event else { panic!("no heap abort") };
        assert_eq!(heap.used.measured(), Some(&Bytes::from_bytes(250)));
        assert_eq!(heap.external.measured(), None);
        assert!(what.contains("out of memory"));
    }

    #[test]
    fn a_heap_read_in_the_middle_of_a_collection_is_not_believed() {
        let line = abort(&REPORT.replace(":250", ":7"), 0).unwrap();
        let ProbeEvent::HeapAbort { heap, .. } = line.event else { panic!("no heap abort") };
        assert!(matches!(&heap.used, Reading::Missing(Why::Failed(why)) if why.contains("collection")));
        assert_eq!(heap.total.measured(), Some(&Bytes::from_bytes(300)));
    }

    #[test]
    fn a_report_that_was_cut_short_is_none() {
        assert_eq!(abort(&REPORT[..REPORT.len() / 2], 0), None);
        assert_eq!(abort("{}", 0), None);
        assert_eq!(abort(&REPORT.replace("OOMError", "API"), 0), None, "one that the program asked for");
        let other = REPORT.replace("OOMError", "FatalError");
        assert!(abort(&other, 0).is_some());
        let other = other.replace("Allocation failed - JavaScript heap out of memory", "napi_fatal_error: no handle");
        assert_eq!(abort(&other, 0), None, "another fault");
    }
}
