//! Tests that sync calls are counted exactly, whichever thread or child makes them.

use prony_model::reading::Reading;
use prony_os::sample::Tracepoints;

use crate::subject::{Subject, skipped};

fn usable(what: &str) -> Option<Tracepoints> {
    let tracepoints = Tracepoints::open(true);
    match tracepoints.usable() {
        Reading::Measured(()) => Some(tracepoints),
        Reading::Missing(why) => {
            skipped(what, &why);
            None
        }
    }
}

#[test]
fn calls_of_every_thread_and_of_live_and_ended_children_are_counted() {
    let Some(tracepoints) = usable("counting sync calls") else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut subject = Subject::start(&format!("sync-by-child {} 7", dir.path().display()));
    let counters = tracepoints.follow(subject.pid());
    let before = counters.read();
    assert_eq!(before.total(), Reading::Measured(0));
    subject.go();
    let live = counters.read();
    assert_eq!(
        (live.fsync.clone(), live.fdatasync.clone()),
        (Reading::Measured(14), Reading::Measured(14)),
        "child alive"
    );
    assert_eq!((live.msync.clone(), live.sync_file_range.clone()), (Reading::Measured(0), Reading::Measured(0)));
    subject.end();
    assert_eq!(counters.read(), live, "subject and child ended");
}

/// An engine that synced its whole file system had synced nothing.
#[test]
fn syncs_of_file_systems_are_counted() {
    let Some(tracepoints) = usable("counting sync calls") else { return };
    let mut subject = Subject::start("syncfs 5");
    let counters = tracepoints.follow(subject.pid());
    subject.go();
    let counts = counters.read();
    assert_eq!((counts.syncfs.clone(), counts.total()), (Reading::Measured(5), Reading::Measured(5)));
    assert_eq!(counts.sync, Reading::Measured(0));
    subject.end();
}

#[test]
fn nobody_elses_calls_are_counted() {
    let Some(tracepoints) = usable("counting sync calls") else { return };
    let dir = tempfile::tempdir().unwrap();
    let subject = Subject::done("nothing");
    let counters = tracepoints.follow(subject.pid());
    Subject::done(&format!("sync {} 3", dir.path().display())).end();
    assert_eq!(counters.read().total(), Reading::Measured(0));
}

#[test]
fn ended_process_cannot_be_followed() {
    let Some(tracepoints) = usable("counting sync calls") else { return };
    let subject = Subject::done("nothing");
    let pid = subject.pid();
    subject.end();
    assert!(matches!(tracepoints.follow(pid).read().fsync, Reading::Missing(_)));
}
