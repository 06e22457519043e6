//! Tests of one process, on this machine.

use super::*;

fn observed() -> Observation {
    let own = Counters { cpu_user: Nanos::from_millis(30), minor_faults: 7, ..Counters::default() };
    let inherited = Counters { cpu_user: Nanos::from_millis(20), minor_faults: 5, ..Counters::default() };
    Observation {
        counters: own.plus(&inherited),
        inherited,
        memory: Some(Memory { anon: Bytes::from_kib(8), ..Memory::default() }),
        vsz: Bytes::from_mib(3),
        threads: 2,
    }
}

#[test]
fn sample_contains_only_the_process() {
    let sample = observed().sample(Nanos::from_secs(1)).unwrap();
    assert_eq!((sample.cpu_user, sample.minor_faults), (Nanos::from_millis(30), 7));
    assert_eq!((sample.rss(), sample.vsz, sample.threads), (Bytes::from_kib(8), Bytes::from_mib(3), 2));
}

#[test]
fn a_zombie_leaves_no_sample() {
    let zombie = Observation { memory: None, ..observed() };
    assert_eq!(zombie.sample(Nanos::ZERO), None);
}

#[test]
fn pss_of_a_process_that_ended_is_missing_for_that_reason() {
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let process = Process::new(child.id(), "worker".into());
    // A zombie first, then nothing.
    let id = rustix::process::Pid::from_child(&child);
    let zombie = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
    rustix::process::waitid(rustix::process::WaitId::Pid(id), zombie).unwrap();
    assert_eq!(process.pss(), Reading::Missing(ProcessSnapshot::ended()));
    child.wait().unwrap();
    assert_eq!(process.pss(), Reading::Missing(ProcessSnapshot::ended()));
    let missing = io::Error::from(io::ErrorKind::NotFound);
    assert!(Process::new(std::process::id(), "worker".into()).lacks(&missing) && !process.lacks(&missing));
}

/// For an ordinary user, one zombie made the bytes of the rest of a trial missing.
#[test]
fn zombie_whose_bytes_may_not_be_read_keeps_those_that_are_known() {
    let bytes = |amount| Reading::Measured((Bytes::from_bytes(amount), Bytes::from_bytes(amount)));
    let of_zombie = move || {
        if rustix::process::geteuid().is_root() {
            let nobody = rustix::process::Uid::from_raw(65534);
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
        }
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let id = rustix::process::WaitId::Pid(rustix::process::Pid::from_child(&child));
        let zombie = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
        rustix::process::waitid(id, zombie).unwrap();
        let mut process = Process::new(child.id(), "worker".into());
        let first = process.read_io(&mut Vec::new()).unwrap();
        let known = Counters { read: bytes(7).map(|io| io.0), written: bytes(7).map(|io| io.1), ..Counters::default() };
        process.last = Some(Observation { counters: known, ..observed() });
        let second = process.read_io(&mut Vec::new()).unwrap();
        child.wait().unwrap();
        (first, second)
    };
    // The user of this thread alone is changed.
    assert_eq!(std::thread::spawn(of_zombie).join().unwrap(), (bytes(0), bytes(7)));
}

/// It looked like one that has ended: without memory.
#[test]
fn process_that_cannot_be_read_is_no_zombie() {
    let mut process = Process::new(std::process::id(), "worker".into());
    process.status = ProcFile::new("/proc".into());
    let ask = Ask { tick: Nanos::from_millis(10), at: Nanos::ZERO, detail: Detail::All };
    let error = process.observe(ask, &mut Vec::new()).unwrap_err();
    assert!(!ended(&error) && error.kind() == io::ErrorKind::IsADirectory, "{error}");
}

/// If it ends between two files of one round, the readings of the other files remain.
#[test]
fn process_that_ends_while_it_is_read_has_ended() {
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let mut process = Process::new(child.id(), "worker".into());
    child.wait().unwrap();
    process.stat = ProcFile::new("/proc/self/stat".into());
    let ask = Ask { tick: Nanos::from_millis(10), at: Nanos::ZERO, detail: Detail::All };
    assert!(ended(&process.observe(ask, &mut Vec::new()).unwrap_err()));
}

/// Children that were sampled between `posix_spawn` and the program that they execute doubled the memory of their tree.
#[test]
fn memory_of_the_parent_is_none_of_a_child_that_still_has_it() {
    let child = crate::sys::memory::tests::InOurMemory::start();
    let mut process = Process::new(child.pid.as_raw_pid().cast_unsigned(), "worker".into());
    let at = |ms: u64| Ask { tick: Nanos::from_millis(10), at: Nanos::from_millis(ms), detail: Detail::Series };
    for ms in [10_000, 10_100, 20_000] {
        let sample = process.observe(at(ms), &mut Vec::new()).unwrap().sample(Nanos::ZERO).unwrap();
        assert_eq!((sample.rss(), sample.vsz, sample.threads), (Bytes::default(), Bytes::default(), 1));
    }
    assert_eq!(process.pss(), Reading::Measured(Bytes::default()));
    drop(child);
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    crate::sys::memory::wait_for_own_memory(Pid::from_child(&child));
    let mut process = Process::new(child.id(), "worker".into());
    assert!(process.observe(at(10_000), &mut Vec::new()).unwrap().sample(Nanos::ZERO).unwrap().anon > Bytes::default());
    child.kill().unwrap();
    child.wait().unwrap();
}

/// A process that runs while its memory stays the same: reading `status` was most of the sampling's cost.
#[test]
fn status_is_read_anew_only_where_statm_does_not_serve() {
    let mut process = Process::new(std::process::id(), "worker".into());
    let at = |ms: u64| Ask { tick: Nanos::from_millis(10), at: Nanos::from_millis(ms), detail: Detail::Changed };
    process.observe(at(10_000), &mut Vec::new()).unwrap();
    let known = Memory { anon: Bytes::from_bytes(0), ..process.last.as_ref().unwrap().memory.unwrap() };
    // Other tests of this process may map files meanwhile.
    let mut read = |known: Memory, ms: u64| {
        (0..1000).find_map(|_| {
            process.memory(None, at(10_000), &mut Vec::new()).unwrap();
            let found = process.memory(Some(known), at(ms), &mut Vec::new()).unwrap().unwrap();
            (found.peak == known.peak).then_some(found)
        })
    };
    let marked = Memory { peak: Bytes::from_bytes(1), ..known };
    let grown = read(marked, 10_500).expect("`statm` serves");
    assert!(grown.anon > Bytes::from_kib(100) && (grown.swap, grown.file) == (known.swap, known.file));
    assert_eq!(read(marked, 11_000), None, "it is too old");
    let shrunk = Memory { anon: Bytes::from_mib(1 << 20), ..marked };
    assert_eq!(read(shrunk, 10_500), None, "it may have been swapped");
}

#[test]
fn counters_of_a_process_that_uses_little_are_read_once_a_second() {
    let ask = |detail| Ask { tick: Nanos::from_millis(10), at: Nanos::ZERO, detail };
    let spares = |detail, used: u64, age: u64| {
        ask(detail).spares(Nanos::from_millis(used), (Nanos::from_millis(age), Nanos::from_secs(5)))
    };
    assert!(spares(Detail::Series, 9, 900) && spares(Detail::Series, 0, 9_000) && spares(Detail::Changed, 0, 9_000));
    assert!(!spares(Detail::Series, 9, 1_000) && !spares(Detail::Series, 10, 100), "too old, or too much");
    let young = (Nanos::from_millis(100), Nanos::from_millis(900));
    assert!(!ask(Detail::Series).spares(Nanos::from_millis(1), young));
    assert!(!spares(Detail::Changed, 1, 100) && !spares(Detail::All, 0, 0));
}

#[test]
fn what_is_spared_keeps_its_counters_but_has_its_cpu_time_and_memory() {
    let mut process = Process::new(std::process::id(), "worker".into());
    let mut observe = |ms: u64, detail| {
        let ask = Ask { tick: Nanos::from_millis(10), at: Nanos::from_millis(ms), detail };
        let faults = process.last.as_mut().map(|last| std::mem::replace(&mut last.counters.minor_faults, 0));
        let (faults, cpu) = (faults, process.counters_at.map(|(cpu, _)| cpu));
        let now = process.observe(ask, &mut Vec::new()).unwrap();
        (faults, cpu, now.counters.minor_faults, now.counters.on_cpu.clone(), now.vsz)
    };
    observe(10_000, Detail::All);
    observe(11_000, Detail::All);
    // Other tests of this process use CPU time meanwhile: it is spared as soon as they have used little.
    let spared = (0..10_000).map(|_| observe(11_100, Detail::Series)).find(|(_, _, faults, ..)| *faults == 0);
    let (_, cpu, _, on_cpu, vsz) = spared.expect("at some time they use little");
    assert!(on_cpu.measured().copied() >= cpu && vsz > Bytes::default());
    assert!(observe(11_200, Detail::All).2 > 0, "a boundary reads everything");
}

/// For up to a second no sample showed that a child was waited for, whose memory was then taken for the program's own.
#[test]
fn process_that_uses_little_is_read_once_it_has_waited_for_a_child() {
    let mut process = Process::new(std::process::id(), "worker".into());
    let at = |ms: u64, detail| Ask { tick: Nanos::from_millis(10), at: Nanos::from_millis(ms), detail };
    process.observe(at(10_000, Detail::All), &mut Vec::new()).unwrap();
    process.observe(at(11_000, Detail::All), &mut Vec::new()).unwrap();
    std::process::Command::new("true").status().unwrap();
    assert!(process.has_waited(&mut Vec::new()));
    let faults = process.last.as_ref().unwrap().counters.child_faults;
    // It would be spared.
    process.counters_at = process.counters_at.map(|(_, at)| (cpu_clock::process_cpu(process.pid).unwrap(), at));
    let now = process.observe(at(11_100, Detail::Series), &mut Vec::new()).unwrap();
    assert!(now.counters.child_faults > faults);
}

/// Pages of hugetlbfs that a program had for up to 5 s were in no figure, and its memory was not missing.
#[test]
fn status_is_read_at_each_sample_where_there_may_be_huge_pages() {
    let mut process = Process::new(std::process::id(), "worker".into());
    process.may_have_huge_pages = true;
    let at = |ms: u64| Ask { tick: Nanos::from_millis(10), at: Nanos::from_millis(ms), detail: Detail::Series };
    process.observe(at(10_000), &mut Vec::new()).unwrap();
    // If the file is not read, this is what it is said to have.
    let known = Memory { anon: Bytes::default(), huge: true, ..process.last.as_ref().unwrap().memory.unwrap() };
    let read = (0..1000).map(|_| process.memory(Some(known), at(10_100), &mut Vec::new()).unwrap().unwrap());
    assert!(read.into_iter().all(|found| !found.huge));
}

/// 200 MB of a program whose `main` ended by `pthread_exit` were in no figure, and it counted as none of the processes.
#[test]
fn memory_is_read_of_another_thread_once_the_first_has_ended() {
    let touched = std::hint::black_box(vec![1u8; 8 << 20]);
    let child = crate::sys::memory::tests::WithoutFirstThread::start();
    let mut process = Process::new(child.0.as_raw_pid().cast_unsigned(), "worker".into());
    for ms in [10_000, 10_100, 20_000] {
        let ask = Ask { tick: Nanos::from_millis(10), at: Nanos::from_millis(ms), detail: Detail::Series };
        let sample = process.observe(ask, &mut Vec::new()).unwrap().sample(Nanos::ZERO).unwrap();
        assert!(sample.anon.as_bytes() >= touched.len() as u64 && sample.vsz > sample.anon, "{sample:?}");
    }
    assert!(process.pss().measured().is_some_and(|pss| *pss > Bytes::default()) && process.reset_peak());
}

#[test]
fn nonexistent_process_is_reported_as_ended() {
    let mut process = Process::new(u32::MAX / 4, "worker".into());
    let ask = Ask { tick: Nanos::from_millis(10), at: Nanos::ZERO, detail: Detail::Changed };
    let error = process.observe(ask, &mut Vec::new()).unwrap_err();
    assert!(super::super::proc_file::ended(&error));
    assert!(process.last.is_none());
}
