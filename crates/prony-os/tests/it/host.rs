//! Tests facts, limits and the page cache of the machine that runs the tests.

use std::path::Path;

use prony_model::reading::{Reading, Why};
use prony_model::record::{Change, Facts, Machine};
use prony_model::units::{Bytes, Nanos};
use prony_os::cache;
use prony_os::clock::SystemClock;
use prony_os::host::{
    Capability, ReferenceWorkload, State, capabilities, facts, machine_limits, moment, quiesce, warm_memory,
};
use prony_os::sample::Tracepoints;

use crate::subject::skipped;

/// A directory on the disk that holds the build, since `/tmp` may be in memory.
fn on_disk() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("the build's directory can be written")
}

#[test]
fn facts_survive_json_and_know_the_essentials() {
    let facts = facts(Path::new("."));
    assert!(facts.kernel.measured().is_some_and(|kernel| kernel.starts_with(|c: char| c.is_ascii_digit())));
    assert!(facts.memory.measured().is_some_and(|memory| memory.as_bytes() > 1 << 20));
    assert!(facts.processor.logical.measured().is_some_and(|count| *count > 0));
    assert!(facts.file_system.measured().is_some());
    let text = serde_json::to_string(&facts).unwrap();
    assert_eq!(serde_json::from_str::<Facts>(&text).unwrap(), facts);
}

#[test]
fn machine_beside_a_trial_survives_json_and_say_what_changed() {
    let dir = on_disk();
    let workload = ReferenceWorkload::default();
    let (before, first) = (moment(), workload.run(dir.path()));
    let (second, after) = (workload.run(dir.path()), moment());
    let quiesced = quiesce(dir.path(), Nanos::ZERO, &SystemClock);
    let machine = Machine::between(quiesced, (before, first), (after, second));
    assert_eq!(machine.change, Change::between(&machine.before, &machine.after));
    let text = serde_json::to_string(&machine).unwrap();
    assert_eq!(serde_json::from_str::<Machine>(&text).unwrap(), machine);
}

#[test]
fn limits_are_measured_and_leave_nothing_behind() {
    let dir = on_disk();
    let limits = machine_limits(dir.path());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    let fsync = limits.fsync.measured().expect("the build's directory can be written");
    assert!(fsync.min <= fsync.p50 && fsync.p50 <= fsync.p90 && fsync.p90 <= fsync.max && fsync.count > 0);
    for rate in [&limits.sequential_write, &limits.random_read, &limits.memory_copy, &limits.memory_read] {
        assert!(rate.measured().is_some(), "{limits:?}");
    }
    assert!(limits.clock_cost > Nanos::ZERO && limits.clock_step > Nanos::ZERO && limits.first_touch > Nanos::ZERO);
}

#[test]
fn pages_are_cached_after_writing_and_dropped_after_eviction() {
    let dir = on_disk();
    // Whoever syncs on this machine may have the pages written before they are counted, but not each time.
    let unwritten = (0..5).any(|_| {
        std::fs::write(dir.path().join("store"), vec![3u8; 8 << 20]).unwrap();
        let written = cache::resident(dir.path()).measured().cloned().unwrap();
        assert_eq!((written.share(), written.pages), (Some(1.0), (8 << 20) / rustix::param::page_size() as u64));
        match &written.dirty {
            Reading::Measured(dirty) => *dirty + written.writeback.measured().unwrap() > 0,
            Reading::Missing(why) => {
                skipped("dirty pages", why);
                true
            }
        }
    });
    assert!(unwritten, "no page was dirty or under way to the disk");
    let left = cache::evict(dir.path()).measured().cloned().unwrap();
    assert_eq!((left.cached, left.share()), (0, Some(0.0)));
}

#[test]
fn mapped_pages_stay_and_eviction_says_so() {
    let dir = on_disk();
    let path = dir.path().join("store");
    std::fs::write(&path, vec![3u8; 8 << 20]).unwrap();
    let mapped = prony_os::fixture::MappedFile::open(&path).unwrap();
    mapped.read_all();
    let left = cache::evict(dir.path()).measured().cloned().unwrap();
    assert_eq!(left.share(), Some(1.0));
}

#[test]
fn quiescing_ends_by_its_cap() {
    let dir = on_disk();
    let found = quiesce(dir.path(), Nanos::from_millis(300), &SystemClock);
    assert_eq!(found.synced, Reading::Measured(()));
    assert!(found.quiet || found.waited >= Nanos::from_millis(300), "{found:?}");
    let nowhere = quiesce(Path::new("/no such path"), Nanos::ZERO, &SystemClock);
    assert!(matches!(nowhere.synced, Reading::Missing(Why::NotSupported(_))));
}

#[test]
fn capabilities_agree_with_what_can_be_done() {
    let dir = on_disk();
    let tracepoints = Tracepoints::open(false);
    let all = capabilities(&tracepoints, dir.path());
    let state = |name: &str| &all.iter().find(|one| one.name == name).expect("it is listed").state;
    assert_eq!(*state("sync calls") == State::Yes, tracepoints.usable().measured().is_some());
    assert_eq!(*state("pressure") == State::Yes, Path::new("/proc/pressure/cpu").exists());
    assert_eq!(*state("bytes read and written"), State::Yes, "of our own process that is always allowed");
    let text = serde_json::to_string(&all).unwrap();
    assert_eq!(serde_json::from_str::<Vec<Capability>>(&text).unwrap(), all);
}

#[test]
fn warm_memory_takes_time_and_gives_the_memory_back() {
    let anonymous = || {
        let status = std::fs::read_to_string("/proc/self/status").expect("procfs is there");
        prony_os::sample::parse::memory(&status).expect("we are no zombie").anon.as_bytes()
    };
    let before = anonymous();
    assert!(warm_memory(Bytes::from_mib(256)) > Nanos::ZERO);
    // Other tests have as much of their own meanwhile, and give it back.
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while anonymous() >= before + (200 << 20) && std::time::Instant::now() < until {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert!(anonymous() < before + (200 << 20));
}
