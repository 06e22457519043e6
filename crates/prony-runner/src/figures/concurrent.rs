//! Decides whether other threads or processes worked while one was suspended: such work belongs neither to the
//! suspension nor to a phase. Pure functions.

use prony_boundaries::probe_reports::Thread;
use prony_boundaries::suspending::Suspension;
use prony_model::record::ProcessSample;
use prony_model::units::Nanos;
use prony_os::sample::Snapshot;

use crate::watched::Watched;

/// A process that uses less than this part of a processor meanwhile counts as idle.
const IDLE: u64 = 50;

/// CPU time that a snapshot, a timer and a probe's own reading may use in a suspension.
const SLACK: Nanos = Nanos::from_millis(1);

/// CPU time that preparing a garbage collection may use in addition to the collection.
const PREPARING: Nanos = Nanos::from_millis(5);

/// Threads that a runtime may use for a garbage collection at once.
const HELPERS: u64 = 8;

/// Whether anything but the suspended thread worked during a suspension, by the CPU time at its snapshots; where that
/// was not read, whether any other process was alive.
pub(crate) fn went_on(watched: &Watched, suspension: &Suspension) -> bool {
    let Some(after) = suspension.after_actions else { return alive_meanwhile(watched, suspension).next().is_some() };
    let (from, to) = (&watched.snapshots[suspension.snapshot], &watched.snapshots[after]);
    let slack = SLACK.max(Nanos::from_nanos(to.at.since(from.at).as_nanos() / IDLE));
    let of = |snapshot: &Snapshot, pid| {
        let process = snapshot.processes.iter().find(|process| process.pid == pid);
        process.map(|process| (on_cpu(&process.sample), process.sample.threads))
    };
    let pids = [from, to].into_iter().flat_map(|snapshot| &snapshot.processes).map(|process| process.pid);
    let mut worked = pids.map(|pid| match (of(from, pid), of(to, pid)) {
        // All that it used is the probe's own work, such as reading the heap, which may take long.
        (Some((_, 1)), Some((_, 1))) if pid == suspension.source.pid => false,
        (before, Some((after, _))) => {
            let before = before.map_or(Nanos::ZERO, |(before, _)| before);
            after.since(before) > slack + allowed(watched, suspension, pid)
        }
        // It ended meanwhile, so it ran.
        (_, None) => true,
    });
    worked.any(|worked| worked)
}

/// What the suspension itself lets a process use. Where no other thread of it has a heap, all that a collection takes is its
/// helpers'.
fn allowed(watched: &Watched, suspension: &Suspension, pid: u32) -> Nanos {
    let Some(took) = suspension.collected.filter(|_| pid == suspension.source.pid) else { return Nanos::ZERO };
    let beside = alive_meanwhile(watched, suspension).any(|thread| thread.source.pid == pid);
    Nanos::from_nanos(took.as_nanos().saturating_mul(if beside { 1 } else { HELPERS })) + PREPARING
}

/// Other probed threads that existed during a suspension.
fn alive_meanwhile<'w>(watched: &'w Watched, suspension: &'w Suspension) -> impl Iterator<Item = &'w Thread> {
    let until = watched.suspension_ended(suspension);
    let there = move |thread: &&Thread| thread.began < until && suspension.from < thread.ended;
    watched.threads.all().iter().filter(|thread| thread.source != suspension.source).filter(there)
}

fn on_cpu(sample: &ProcessSample) -> Nanos {
    sample.on_cpu.unwrap_or(sample.cpu_user + sample.cpu_system)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::figures::span::tests::{ms, snapshot, suspension, watched};
    use crate::figures::tests::lines::{hello, line, threads};

    /// A suspension of process 7 from 100 to 1,100 ms in which each of these processes used so many milliseconds.
    fn suspended(used: &[(u32, u64)], hellos: &[(u32, u32)]) -> Watched {
        let pids: Vec<u32> = used.iter().map(|(pid, _)| *pid).collect();
        let mut snapshots =
            vec![snapshot(0, 0, &pids), snapshot(100, 0, &pids), snapshot(1_100, 0, &pids), snapshot(1_200, 0, &[])];
        for (process, (_, cpu)) in snapshots[2].processes.iter_mut().zip(used) {
            process.sample.on_cpu = Some(ms(*cpu));
        }
        let mut all = watched(snapshots, vec![suspension(7, 0, (1, 2), (100, 1_100))]);
        let lines: Vec<_> = hellos.iter().map(|(pid, thread)| hello(*pid, *thread, 5)).collect();
        all.threads = threads(&lines);
        all.threads.finish(ms(1_200), &[], &BTreeMap::from([(7, ms(1_200)), (8, ms(1_200))]));
        all
    }

    fn worked(watched: &Watched) -> bool {
        went_on(watched, &watched.suspensions[0])
    }

    #[test]
    fn who_used_a_processor_meanwhile_went_on() {
        assert!(!worked(&suspended(&[(7, 3)], &[(7, 0)])), "a snapshot costs a little");
        assert!(!worked(&suspended(&[(7, 3), (8, 10)], &[(7, 0), (8, 0)])), "a parent that waits");
        assert!(worked(&suspended(&[(7, 3), (8, 30)], &[(7, 0)])), "a child, probed or not");
        assert!(worked(&suspended(&[(7, 900)], &[(7, 0), (7, 2)])), "a worker of the suspended process");
        assert!(!worked(&suspended(&[(7, 3)], &[(7, 0), (7, 2)])), "a worker with nothing to do");
    }

    #[test]
    fn a_process_of_one_thread_is_suspended_whatever_its_probe_used() {
        let of_threads = |pid, begin, end| {
            let mut all = suspended(&[(7, 0), (8, 0)], &[(7, 0)]);
            for (at, threads) in [(1, begin), (2, end)] {
                let process = all.snapshots[at].processes.iter_mut().find(|process| process.pid == pid).unwrap();
                process.sample.threads = threads;
            }
            let process = all.snapshots[2].processes.iter_mut().find(|process| process.pid == pid).unwrap();
            process.sample.on_cpu = Some(ms(60));
            worked(&all)
        };
        assert!(!of_threads(7, 1, 1));
        assert!(of_threads(7, 1, 2) && of_threads(7, 2, 1), "another thread may have worked");
        assert!(of_threads(8, 1, 1), "another process");
    }

    #[test]
    fn a_process_that_ended_meanwhile_ran_and_a_new_one_counts_whole() {
        let mut ended = suspended(&[(7, 3), (8, 0)], &[]);
        ended.snapshots[2].processes.truncate(1);
        assert!(worked(&ended));
        let mut new = suspended(&[(7, 3), (8, 500)], &[]);
        new.snapshots[1].processes.truncate(1);
        assert!(worked(&new));
    }

    #[test]
    fn a_collection_belongs_to_its_suspension() {
        let collected = |used: u64, hellos: &[(u32, u32)]| {
            let mut all = suspended(&[(7, used)], hellos);
            all.suspensions[0].collected = Some(ms(100));
            worked(&all)
        };
        assert!(!collected(350, &[(7, 0)]), "by several threads at once");
        assert!(collected(350, &[(7, 0), (7, 2)]), "it cannot be distinguished from the worker's");
        assert!(!collected(110, &[(7, 0), (7, 2)]));
        assert!(collected(950, &[(7, 0)]));
    }

    #[test]
    fn where_nothing_was_read_whatever_was_alive_may_have_worked() {
        let without = |hellos: &[(u32, u32)]| {
            let mut all = suspended(&[(7, 0)], hellos);
            all.suspensions[0].after_actions = None;
            worked(&all)
        };
        assert!(!without(&[(7, 0)]));
        assert!(without(&[(7, 0), (8, 0)]));
        let mut over = suspended(&[(7, 0)], &[]);
        over.suspensions[0].after_actions = None;
        over.threads = threads(&[hello(7, 0, 5), hello(8, 0, 6), line(8, 0, 50, r#""probe":"bye""#)]);
        over.threads.finish(ms(1_200), &[], &BTreeMap::new());
        assert!(!worked(&over), "it had ended before");
    }
}
