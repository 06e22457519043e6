use prony_model::units::Bytes;
use prony_runtime::parse;

use super::*;

/// Lines of probes, `at` in milliseconds, as the rest of a JSON object.
pub(crate) fn line(pid: u32, thread: u32, at: u64, rest: &str) -> ProbeLine {
    let text = format!(r#"{{"at":{},"pid":{pid},"thread":{thread},{rest}}}"#, at * 1_000_000);
    parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

pub(crate) fn hello(pid: u32, thread: u32, at: u64) -> ProbeLine {
    let rest = r#""probe":"hello","parent":1,"runtime":"node","version":"20.1.0","script":"a.js","unsupported":[]"#;
    line(pid, thread, at, rest)
}

pub(crate) fn heap(pid: u32, thread: u32, at: u64, why: &str, used: u64) -> ProbeLine {
    line(pid, thread, at, &format!(r#""probe":"heap","why":"{why}","heap":{{"used":{used},"total":{}}}"#, 2 * used))
}

pub(crate) fn bye(pid: u32, thread: u32, at: u64) -> ProbeLine {
    line(pid, thread, at, r#""probe":"bye""#)
}

pub(crate) fn threads(lines: &[ProbeLine]) -> Threads {
    let mut threads = Threads::default();
    lines.iter().for_each(|line| threads.take(line));
    threads
}

fn ms(n: u64) -> Nanos {
    Nanos::from_millis(n)
}

#[test]
fn each_thread_has_its_role_and_its_end() {
    let mut threads = threads(&[hello(1, 0, 0), hello(1, 2, 10), hello(5, 0, 20), hello(6, 0, 30), bye(6, 0, 40)]);
    threads.finish(ms(100), &[], &BTreeMap::from([(5, ms(60))]));
    let ends: Vec<(Role, Nanos)> = threads.all().iter().map(|thread| (thread.role, thread.ended)).collect();
    let expected = [(Role::Main, 100), (Role::Worker, 100), (Role::Child, 60), (Role::Child, 40)];
    assert_eq!(ends, expected.map(|(role, at)| (role, ms(at))));
}

/// As a shell executes one command after another, `a && b`, or both at once: neither is a child of the other.
#[test]
fn phase_ends_with_the_last_process_that_no_probed_process_started() {
    let of_shell = |pid, at| {
        let rest =
            r#""probe":"hello","parent":99,"runtime":"node","version":"20.1.0","script":"a.js","unsupported":[]"#;
        line(pid, 0, at, rest)
    };
    let lines = [of_shell(1, 0), hello(5, 0, 10), bye(1, 0, 100), bye(5, 0, 105), of_shell(6, 110), bye(6, 0, 900)];
    let mut threads = threads(&lines);
    threads.finish(ms(950), &[], &BTreeMap::new());
    let outermost: Vec<bool> = threads.all().iter().map(|thread| thread.outermost).collect();
    assert_eq!(outermost, [true, false, true]);
    let end = |begin, end, fresh| threads.end_within(ms(begin), ms(end), ms(fresh));
    assert_eq!(end(0, 950, 50), ms(900));
    assert_eq!(end(0, 950, 49), ms(950), "the program went on without any");
    assert_eq!(end(200, 800, 50), ms(800));
    assert_eq!(end(0, 108, 50), ms(100), "the child was ending with its parent");
    assert_eq!(end(0, 108, 4), ms(105), "the child was at work");
    assert_eq!(end(901, 950, 50), ms(950), "none was there");
    threads.finish(ms(950), &[], &BTreeMap::from([(1, ms(100)), (6, ms(940))]));
    assert_eq!(threads.end_within(ms(0), ms(950), ms(10)), ms(900), "it freed its heap up to the program's end");
    let mut other = Threads::default();
    other.join(&threads);
    assert!(other.all().iter().all(|thread| !thread.outermost), "of a replica");
}

#[test]
fn a_process_that_executes_another_program_is_another() {
    let threads = threads(&[hello(1, 0, 0), heap(1, 0, 1, "start", 5), hello(1, 0, 50), heap(1, 0, 51, "start", 7)]);
    assert_eq!(threads.all().iter().map(|thread| thread.samples.len()).collect::<Vec<_>>(), [1, 1]);
    assert_eq!(threads.all()[0].bye, Some(ms(50)));
}

#[test]
fn discarded_samples_are_counted_and_dated() {
    let mut threads = threads(&[hello(1, 0, 0), hello(2, 0, 0)]);
    threads.recorded = MOST_SAMPLES - 1;
    [heap(1, 0, 1, "sample", 5), heap(1, 0, 2, "sample", 9), heap(1, 0, 3, "sample", 9)]
        .iter()
        .for_each(|line| threads.take(line));
    let recorded: Vec<(usize, Option<Nanos>)> =
        threads.all().iter().map(|thread| (thread.samples.len(), thread.cut)).collect();
    assert_eq!(recorded, [(1, Some(ms(2))), (0, None)]);
    assert_eq!(threads.report(true).samples_dropped, 2);
}

#[test]
fn samples_during_a_suspension_are_marked() {
    let suspended = line(1, 0, 20, r#""probe":"suspended","call":"p","n":1,"suspension":1,"heap":{"used":9}"#);
    let collected = line(1, 0, 21, r#""probe":"collected","took":5,"heap":{"used":4}"#);
    let resumed = line(1, 0, 22, r#""probe":"resumed","because":"go""#);
    let late = |since: u64, at| {
        let delay = format!(r#""loop_delay_max":7,"loop_delay_since":{since}000000"#);
        line(1, 0, at, &format!(r#""probe":"heap","why":"sample","heap":{{"used":4}},{delay}"#))
    };
    let samples = [late(10, 30), late(20, 130), late(30, 230)];
    let lines = [hello(1, 0, 0), suspended, collected, heap(1, 0, 22, "read", 4), resumed];
    let lines: Vec<_> = lines.into_iter().chain(samples).collect();
    let threads = threads(&lines);
    let thread = &threads.all()[0];
    assert_eq!(
        thread.samples.iter().map(|s| s.suspended).collect::<Vec<_>>(),
        [false, true, true, false, false, false]
    );
    let reported = LoopDelay { since: ms(30), at: ms(230), longest: Nanos::from_nanos(7) };
    assert_eq!(thread.delays, [reported], "the others were those of the suspension");
}

#[test]
fn a_heap_abort_is_the_last_sample_and_costs_are_summed() {
    let cost = |pid, time: u64| {
        let rest = format!(r#""probe":"cost","time":{time},"heap":100,"lines":3,"lost":1"#);
        line(pid, 0, 5, &rest)
    };
    let mut threads = threads(&[hello(1, 0, 0), hello(2, 0, 1), cost(1, 40), cost(2, 2), cost(1, 50)]);
    let ProbeEvent::Heap { heap, .. } = heap(1, 0, 90, "read", 77).event else { unreachable!() };
    let event = ProbeEvent::HeapAbort { heap, what: "heap".into() };
    let abort = ProbeLine { at: ms(90), source: Source { pid: 1, thread: 0 }, event };
    threads.finish(ms(95), &[abort], &BTreeMap::new());
    assert_eq!((threads.all()[0].ended, threads.all()[0].samples.len()), (ms(90), 1));
    let report = threads.report(true);
    assert_eq!((report.cost, report.lines_lost), (Nanos::from_nanos(52), 2));
    assert_eq!(report.threads[0].last_heap_used, Some(Bytes::from_bytes(77)));
}

/// Of 40,000 calls of two worker threads that their parent terminated, 2,002 were all.
#[test]
fn calls_that_were_counted_by_a_thread_that_was_ended_may_lack() {
    let begin = |n: u64| line(1, 2, 10, &format!(r#""probe":"begin","call":"p","n":{n},"open":0"#));
    let counted = line(
        1,
        2,
        20,
        r#""probe":"calls","call":"p","open":0,"overlapped":false,"last":1,"count":1,"failed":0,"total":9,"min":1,"max":5,"sub":1,"classes":[]"#,
    );
    let lacks = |lines: &[ProbeLine]| threads(&[&[hello(1, 2, 0)], lines].concat()).may_lack_calls("p");
    assert!(!lacks(&[begin(999), bye(1, 2, 90)]), "each is reported");
    assert!(lacks(&[begin(1_000)]) && lacks(&[counted.clone(), bye(1, 2, 90)]), "its parent reports the end");
    assert!(!lacks(&[counted.clone(), heap(1, 2, 80, "exit", 5), bye(1, 2, 90)]));
    assert!(lacks(&[counted.clone(), hello(1, 2, 50), heap(1, 2, 80, "exit", 5)]), "it executed another program");
    let stopped = line(1, 2, 80, r#""probe":"resumed","because":"stop""#);
    assert!(!lacks(&[counted, stopped]), "it reports all before it stops");
}

#[test]
fn a_function_of_two_files_in_any_process_is_ambiguous() {
    let found = |pid, file| line(pid, 0, 1, &format!(r#""probe":"found","call":"p","file":"{file}""#));
    assert_eq!(threads(&[found(1, "/a.js"), found(1, "/a.js"), found(2, "/a.js")]).ambiguous(), None);
    let threads = threads(&[found(1, "/a.js"), found(2, "/b.js")]);
    let (call, files) = threads.ambiguous().unwrap();
    assert_eq!((call, files.len()), ("p", 2));
}

#[test]
fn functions_that_cannot_be_timed_say_why() {
    let unsupported = line(
        1,
        0,
        0,
        r#""probe":"hello","parent":1,"runtime":"node","version":"14","script":"","unsupported":[{"call":"p","why":"too old"}]"#,
    );
    let missed = line(1, 0, 1, r#""probe":"not_found","call":"q","file":"/a.js","why":"no such export""#);
    let found = line(1, 0, 1, r#""probe":"found","call":"r","file":"/b.js""#);
    let threads = threads(&[unsupported, missed, found]);
    assert_eq!(threads.unfound["p"], "too old");
    assert_eq!(threads.unfound["q"], "`/a.js` was loaded: no such export");
    assert_eq!(threads.found["r"].iter().collect::<Vec<_>>(), ["/b.js"]);
}
