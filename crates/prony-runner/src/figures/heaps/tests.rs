//! Tests of the metrics of heaps with lines of probes.

use super::*;
use crate::figures::tests::lines::{bye, full, heap, hello, line, threads};

fn ms(n: u64) -> Nanos {
    Nanos::from_millis(n)
}

fn finished(lines: &[prony_runtime::ProbeLine], at: u64) -> Threads {
    let mut threads = threads(lines);
    threads.finish(ms(at), &[], &BTreeMap::new());
    threads
}

fn read(threads: &Threads, begin: u64, end: u64, suspension: Option<(u64, u64)>) -> BTreeMap<String, Readings> {
    let suspended = Suspensions::new(suspension.map(|(from, to)| (ms(from), ms(to))).into_iter().collect());
    let suspension = suspension.map(|(from, to)| (ms(from), ms(to)));
    readings(threads, Span { begin: ms(begin), end: ms(end), suspension, suspended: &suspended }, &Why::NotApplicable)
}

fn of(all: &BTreeMap<String, Readings>, instance: &str, name: &str) -> Reading<f64> {
    all[instance][&MetricKeyText(name.parse().unwrap())].clone()
}

fn number(all: &BTreeMap<String, Readings>, instance: &str, name: &str) -> f64 {
    *of(all, instance, name).measured().unwrap_or_else(|| panic!("{:?}", of(all, instance, name)))
}

#[test]
fn nothing_said_is_missing_for_its_reason() {
    let all = read(&Threads::default(), 0, 10, None);
    assert_eq!(of(&all, "", "heap.used.end"), Reading::Missing(Why::NotApplicable));
    assert_eq!(of(&all, "", "gc.time"), Reading::Missing(Why::NotApplicable));
}

#[test]
fn a_heap_is_followed_through_the_phase() {
    let beats = (1..=9).map(|n| heap(1, 0, n * 100, "sample", n * 10));
    let lines: Vec<_> =
        [hello(1, 0, 0)].into_iter().chain(beats).chain([heap(1, 0, 950, "exit", 7), bye(1, 0, 951)]).collect();
    let threads = finished(&lines, 990);
    let all = read(&threads, 250, 650, None);
    let values = ["end", "max", "min"].map(|stat| number(&all, "", &format!("heap.used.{stat}")));
    assert_eq!(values, [60.0, 60.0, 20.0], "what held at the begin counts too");
    let mean = number(&all, "", "heap.used.mean");
    assert!((mean - (50.0 * 25.0 + 300.0 * 45.0) / 350.0).abs() < 1e-9, "{mean}");
    assert_eq!(number(&all, "", "heap.total.end"), 120.0);
    assert!(matches!(of(&all, "", "heap.used.peak"), Reading::Missing(Why::NotSupported(_))));
    assert!(
        matches!(of(&all, "", "heap.blocks.end"), Reading::Missing(Why::NotSupported(why)) if why.contains("blocks"))
    );
    let whole = read(&threads, 0, 1_200, None);
    assert_eq!((number(&whole, "", "heap.used.end"), number(&whole, "", "heap.used.min")), (7.0, 7.0));
    assert_eq!(whole.len(), 1, "one thread has no part");
    let after = read(&threads, 0, 2_000, None);
    assert_eq!(
        of(&after, "", "heap.used.end"),
        Reading::failed("no probed process was alive at the phase's end"),
        "`node a.js; sleep 1`"
    );
    assert_eq!(number(&after, "", "heap.used.max"), 90.0);
}

/// The probe reads the heap at the end of a call: 10 to 500 us after it, so that the value of 180 ms before was that of the end.
/// A call of 130 ms that left 41 MB had 4.68.
#[test]
fn reading_from_before_the_phase_is_not_that_of_its_end() {
    let lines =
        [hello(1, 0, 0), heap(1, 0, 300, "sample", 4), heap(1, 0, 480, "call", 41), heap(1, 0, 600, "exit", 41)];
    let threads = finished(&lines, 610);
    let end = |begin, end| of(&read(&threads, begin, end, None), "", "heap.used.end");
    assert_eq!(end(350, 480), Reading::Measured(41.0));
    for begin in [300, 350] {
        let Reading::Missing(Why::Failed(why)) = end(begin, 420) else { panic!("{:?}", end(begin, 420)) };
        assert!(why.contains("not within the phase"), "{why}");
    }
    assert_eq!(end(299, 420), Reading::Measured(4.0));
}

/// The main thread of a program rests while its worker is measured: every sum of a short phase was missing.
#[test]
fn idle_thread_keeps_its_reading_from_before_a_phase() {
    let lines = [
        hello(1, 0, 0),
        hello(1, 1, 0),
        heap(1, 0, 300, "sample", 4),
        heap(1, 1, 300, "sample", 2),
        heap(1, 1, 480, "call", 41),
        heap(1, 1, 600, "exit", 41),
        heap(1, 0, 600, "exit", 4),
    ];
    let end = |begin, end| of(&read(&finished(&lines, 610), begin, end, None), "", "heap.used.end");
    assert_eq!(end(350, 480), Reading::Measured(45.0));
    assert!(end(350, 420).measured().is_none(), "neither was read in the phase");
}

#[test]
fn an_old_figure_does_not_pass_for_a_new_one() {
    let threads = finished(&[hello(1, 0, 0), heap(1, 0, 5, "start", 9), heap(1, 0, 3_000, "sample", 90)], 4_000);
    let all = read(&threads, 1_000, 2_000, None);
    let Reading::Missing(Why::Failed(why)) = of(&all, "", "heap.used.end") else { panic!("{all:?}") };
    assert!(why.contains("1.995 s earlier") || why.contains("2.0"), "{why}");
    assert_eq!(of(&all, "", "heap.used.max"), Reading::Missing(Why::TooFew { have: 0, need: 1 }));
}

#[test]
fn discarded_figures_are_not_attributed_to_the_program() {
    let mut threads = full(&[hello(1, 0, 0)]);
    [gc(1_000, 3, 1_000), gc(2_000, 4, 2_000)].iter().for_each(|line| threads.take(line));
    threads.finish(ms(3_000), &[], &BTreeMap::new());
    let all = read(&threads, 500, 2_500, None);
    for name in ["heap.used.end", "heap.used.max", "heap.used.mean", "gc.count"] {
        let reading = of(&all, "", name);
        assert!(
            matches!(&reading, Reading::Missing(Why::NotSupported(why)) if why.contains("200000 heap samples")),
            "{name}: {reading:?}"
        );
    }
    let before = read(&threads, 500, 900, None);
    let Reading::Missing(Why::Failed(why)) = of(&before, "", "heap.used.max") else { panic!("{before:?}") };
    assert!(why.starts_with("the heap had not been read yet"), "{why}");
}

#[test]
fn the_longest_time_without_a_reading_is_known() {
    let lines = [hello(1, 0, 0), heap(1, 0, 100, "sample", 9), heap(1, 0, 1_400, "sample", 9), bye(1, 0, 1_500)];
    let threads = finished(&lines, 1_600);
    let suspended = Suspensions::new(vec![(ms(500), ms(600))]);
    assert_eq!(longest_gap(&threads, ms(50), ms(1_600), &suspended), Some(ms(1_200)), "it was suspended meanwhile");
    assert_eq!(longest_gap(&threads, ms(200), ms(300), &suspended), Some(ms(100)));
    assert_eq!(longest_gap(&Threads::default(), ms(0), ms(1), &suspended), None);
}

/// `node server.js & node client.js`: the client was busy for a second, while the server was read ten times a second.
#[test]
fn longest_time_without_a_reading_is_that_of_one_process() {
    let of_shell = |pid, at| {
        let rest =
            r#""probe":"hello","parent":99,"runtime":"node","version":"20.1.0","script":"a.js","unsupported":[]"#;
        line(pid, 0, at, rest)
    };
    let server = (0..=12).map(|n| heap(1, 0, n * 100, "sample", 5));
    let client = [heap(2, 0, 110, "start", 5), heap(2, 0, 1_110, "sample", 5)];
    let lines: Vec<_> = [of_shell(1, 0), of_shell(2, 105)].into_iter().chain(server).chain(client).collect();
    let threads = finished(&lines, 1_200);
    assert_eq!(longest_gap(&threads, ms(0), ms(1_200), &Suspensions::default()), Some(ms(1_000)));
    assert_eq!(longest_gap(&threads, ms(0), ms(90), &Suspensions::default()), Some(ms(90)), "before the client");
}

fn of_python(pid: u32, at: u64) -> prony_runtime::ProbeLine {
    let rest = r#""probe":"hello","parent":1,"runtime":"python","version":"3.11.7","script":"a.py","unsupported":[]"#;
    line(pid, 0, at, rest)
}

fn blocks(pid: u32, at: u64, count: u64) -> prony_runtime::ProbeLine {
    line(pid, 0, at, &format!(r#""probe":"heap","why":"sample","heap":{{"blocks":{count}}}"#))
}

/// It says when it was forked with its first line, and may import a module long before its heap is read: it counted as 0.
#[test]
fn forked_child_whose_heap_was_not_read_yet_has_no_value() {
    let beats = (0..=9).map(|n| blocks(1, n * 100, 50));
    let child = [of_python(8, 100), blocks(8, 700, 7), blocks(8, 940, 7)];
    let lines: Vec<_> = [of_python(1, 0)].into_iter().chain(beats).chain(child).collect();
    let threads = finished(&lines, 950);
    let value = |begin, end, name: &str| of(&read(&threads, begin, end, None), "", name);
    for (begin, end, name) in [(0, 500, "end"), (0, 200, "end"), (0, 500, "max"), (0, 900, "min"), (300, 900, "mean")] {
        let reading = value(begin, end, &format!("heap.blocks.{name}"));
        let Reading::Missing(Why::Failed(why)) = reading else { panic!("{name}: {reading:?}") };
        assert!(why.starts_with("the heap of process 8 had not been read yet"), "{why}");
    }
    assert_eq!(value(0, 200, "heap.blocks.max"), Reading::Measured(50.0), "not for longer than a reading may be old");
    for name in ["end", "max"] {
        assert_eq!(value(600, 900, &format!("heap.blocks.{name}")), Reading::Measured(57.0));
    }
}

#[test]
fn process_of_a_runtime_without_such_values_counts_for_nothing() {
    let node = [hello(1, 0, 0), heap(1, 0, 10, "start", 50), heap(1, 0, 400, "sample", 60)];
    let python = [of_python(8, 20), blocks(8, 21, 9), bye(8, 0, 460), of_python(9, 30), bye(9, 0, 460)];
    let all = read(&finished(&[&node[..], &python].concat(), 450), 0, 450, None);
    let values = ["end", "max", "min"].map(|stat| number(&all, "", &format!("heap.used.{stat}")));
    assert_eq!(values, [60.0, 60.0, 50.0]);
}

#[test]
fn heaps_are_summed_and_listed_per_role() {
    let lines = [
        hello(1, 0, 0),
        heap(1, 0, 100, "sample", 50),
        hello(1, 3, 110),
        heap(1, 3, 120, "start", 7),
        hello(8, 0, 130),
        heap(8, 0, 140, "start", 5),
        heap(1, 0, 200, "sample", 60),
        bye(8, 0, 205),
        heap(1, 3, 210, "sample", 8),
    ];
    let all = read(&finished(&lines, 300), 90, 230, None);
    let end = |instance| number(&all, instance, "heap.used.end");
    assert_eq!((end(""), end("main"), end("worker")), (68.0, 60.0, 8.0), "the child has ended");
    assert!(matches!(of(&all, "child", "heap.used.end"), Reading::Missing(Why::Failed(_))));
    assert_eq!(number(&all, "child", "heap.used.max"), 5.0);
    assert_eq!(number(&all, "", "heap.used.max"), 72.0);
}

/// `node small.js && node big.js` in a shell: the first ends before the second begins.
#[test]
fn heap_of_a_process_that_follows_the_first_is_in_the_phase() {
    let rest = r#""probe":"hello","parent":9,"runtime":"node","version":"20.1.0","script":"b.js","unsupported":[]"#;
    let collected = line(2, 0, 650, r#""probe":"gc","points":[[640000000,1,1,1000]]"#);
    let (small, big) = (heap(1, 0, 90, "exit", 5), heap(2, 0, 690, "exit", 300));
    let after = [
        line(2, 0, 120, rest),
        heap(2, 0, 121, "start", 9),
        heap(2, 0, 400, "sample", 200),
        collected,
        big,
        bye(2, 0, 700),
    ];
    let lines: Vec<_> = [hello(1, 0, 0), small, bye(1, 0, 100)].into_iter().chain(after).collect();
    let threads = finished(&lines, 710);
    let values = |begin, end| {
        let all = read(&threads, begin, end, None);
        ["end", "max"].map(|stat| number(&all, "", &format!("heap.used.{stat}")))
    };
    assert_eq!(values(0, 710), [300.0, 300.0]);
    assert_eq!(values(300, 710), [300.0, 300.0], "a phase after the first process");
    let all = read(&threads, 300, 660, None);
    assert_eq!(number(&all, "", "gc.count"), 1.0);
    let none = read(&threads, 705, 710, None);
    assert_eq!(of(&none, "", "gc.count"), Reading::failed("no probed process was alive in the phase"));
    assert_eq!(longest_gap(&threads, ms(120), ms(710), &Suspensions::default()), Some(ms(290)));
}

#[test]
fn course_is_empty_within_a_span_that_ends_before_it_begins() {
    assert_eq!(within(&[(ms(5), 1.0)], ms(9), ms(3), ms(1)), vec![]);
}

#[test]
fn before_and_after_what_was_asked_for_at_the_end() {
    let suspended =
        line(1, 0, 101, r#""probe":"suspended","call":"p","n":1,"suspension":1,"heap":{"used":90,"total":99}"#);
    let collected = line(1, 0, 150, r#""probe":"collected","took":5,"heap":{"used":20,"total":98}"#);
    let lines = [hello(1, 0, 0), heap(1, 0, 50, "sample", 10), suspended, collected, heap(1, 0, 300, "read", 21)];
    let all = read(&finished(&lines, 400), 40, 100, Some((101, 300)));
    let values = ["before", "end", "max"].map(|stat| number(&all, "", &format!("heap.used.{stat}")));
    assert_eq!(values, [90.0, 21.0, 90.0]);
}

/// The counts beside a heap that was read at `at`.
fn gc(at: u64, count: u64, until: u64) -> prony_runtime::ProbeLine {
    said(at, "sample", count, until)
}

fn said(at: u64, why: &str, count: u64, until: u64) -> prony_runtime::ProbeLine {
    let gc = format!(r#""gc_count":{count},"gc_time":{},"gc_major":1,"gc_until":{}"#, count * 1_000, until * 1_000_000);
    let delay = format!(r#""loop_delay_max":{count},"loop_delay_since":{}"#, at.saturating_sub(200) * 1_000_000);
    line(1, 0, at, &format!(r#""probe":"heap","why":"{why}","heap":{{"used":1,{gc}}},{delay}"#))
}

/// Collections that ended at these instants, numbered from `first`, reported at `at`.
fn ends(at: u64, first: u64, ends: &[u64]) -> prony_runtime::ProbeLine {
    let point = |(n, end): (u64, &u64)| format!("[{},{n},1,{}]", end * 1_000_000, n * 1_000);
    let points: Vec<String> = (first..).zip(ends).map(point).collect();
    line(1, 0, at, &format!(r#""probe":"gc","points":[{}]"#, points.join(",")))
}

fn missing(all: &BTreeMap<String, Readings>) -> String {
    match of(all, "", "gc.count") {
        Reading::Missing(why) => why.to_string(),
        Reading::Measured(count) => panic!("{count}"),
    }
}

/// They were those reported within 250 ms of a boundary: a twentieth too many or too few, and none where the program idled.
#[test]
fn collections_are_counted_by_the_instant_at_which_each_ended() {
    let lines = [
        hello(1, 0, 0),
        gc(1, 0, 1),
        ends(900, 1, &[100, 209, 211, 300, 895]),
        gc(900, 5, 900),
        gc(3_000, 5, 3_000),
        ends(3_900, 6, &[3_100]),
        said(3_901, "exit", 6, 3_901),
        bye(1, 0, 3_902),
    ];
    let threads = finished(&lines, 4_000);
    let count = |begin, end| number(&read(&threads, begin, end, None), "", "gc.count");
    assert_eq!(
        [(0, 4_000), (210, 300), (210, 299), (301, 894), (896, 3_050), (2_000, 3_100)].map(|(b, e)| count(b, e)),
        [6.0, 2.0, 1.0, 0.0, 0.0, 1.0]
    );
    let all = read(&threads, 210, 990, None);
    assert_eq!((number(&all, "", "gc.time"), number(&all, "", "gc.full")), (3_000.0, 0.0));
    assert_eq!(number(&read(&threads, 0, 4_000, None), "", "loop.delay"), 6.0);
}

/// A call blocked the loop for 800 ms, and the report that came after it made this the delay of the next phase.
#[test]
fn delay_of_the_event_loop_is_that_of_a_phase_only_where_it_was_inside() {
    let report = |since: u64, at: u64, delay: u64| {
        let [longest, since] = [delay, since].map(|ms| ms * 1_000_000);
        let delay = format!(r#""loop_delay_max":{longest},"loop_delay_since":{since}"#);
        line(1, 0, at, &format!(r#""probe":"heap","why":"sample","heap":{{"used":1}},{delay}"#))
    };
    let quiet = |n: u64| report(n * 100, n * 100 + 200, 1);
    let before = [hello(1, 0, 0), quiet(0), quiet(1), report(200, 1_150, 800), report(300, 1_250, 800)];
    let after = [report(1_150, 1_350, 2), report(1_250, 1_450, 3), report(1_350, 1_550, 21), bye(1, 0, 2_900)];
    let threads = finished(&[&before[..], &after].concat(), 3_000);
    let delay = |begin, end| of(&read(&threads, begin, end, None), "", "loop.delay");
    assert_eq!(delay(0, 200), Reading::Measured(1e6));
    for (begin, end) in [(350, 1_150), (1_150, 1_650), (0, 1_000)] {
        let Reading::Missing(Why::Failed(why)) = delay(begin, end) else { panic!("{:?}", delay(begin, end)) };
        assert!(why.contains("inside the phase"), "{why}");
    }
    assert_eq!(delay(100, 1_300), Reading::Measured(800e6));
    assert_eq!(delay(1_250, 1_500), Reading::Measured(3e6), "what crosses its end is within the error");
    assert_eq!(delay(1_300, 1_640), Reading::Measured(21e6));
    assert!(delay(1_300, 2_000).measured().is_none(), "the loop did not turn again");
    let none = finished(&[hello(1, 0, 0), heap(1, 0, 5, "start", 9)], 50);
    assert!(matches!(of(&read(&none, 0, 40, None), "", "loop.delay"), Reading::Missing(Why::NotSupported(_))));
}

#[test]
fn collections_without_instants_are_known_only_where_there_were_none() {
    let threads = finished(&[hello(1, 0, 0), gc(100, 2, 100), gc(200, 5, 200), gc(1_000, 5, 1_000)], 1_300);
    assert_eq!(number(&read(&threads, 100, 200, None), "", "gc.count"), 3.0);
    assert_eq!(number(&read(&threads, 250, 990, None), "", "gc.count"), 0.0, "however long nothing was reported");
    let unclear = missing(&read(&threads, 150, 990, None));
    assert!(unclear.contains("3 garbage collections within 100") && unclear.contains("did not turn"), "{unclear}");
    let late = missing(&read(&threads, 100, 1_290, None));
    assert!(late.contains("known only up to 290"), "{late}");
    let untold = finished(&[hello(1, 0, 0), heap(1, 0, 5, "start", 9)], 90);
    assert!(missing(&read(&untold, 0, 50, None)).contains("no garbage collection was reported yet"));
}

#[test]
fn collections_of_a_thread_that_was_ended_are_not_known_up_to_its_end() {
    let said_so = [said(950, "exit", 2, 950), bye(1, 0, 951)];
    let ended = |last: &[prony_runtime::ProbeLine]| {
        let lines = [hello(1, 0, 0), gc(900, 2, 900)];
        read(&finished(&[&lines[..], last].concat(), 1_000), 0, 1_000, None)
    };
    assert_eq!(number(&ended(&said_so), "", "gc.count"), 2.0);
    // Killed, and terminated by its parent, which reports the end for it.
    for last in [&[][..], &[bye(1, 0, 1_000)]] {
        let why = missing(&ended(last));
        assert!(why.contains("known only up to 100") && why.contains("did not report its end"), "{why}");
    }
    let killed = finished(&[hello(1, 0, 0), gc(900, 2, 900)], 1_000);
    assert_eq!(number(&read(&killed, 0, 900, None), "", "gc.count"), 2.0, "up to its last values they are");
}

#[test]
fn collections_during_a_suspension_are_excluded() {
    let lines = [hello(1, 0, 0), ends(300, 1, &[100, 125, 126, 200]), gc(300, 4, 300)];
    let threads = finished(&lines, 310);
    let suspended = Suspensions::new(vec![(ms(120), ms(130))]);
    let span = Span { begin: ms(0), end: ms(240), suspension: None, suspended: &suspended };
    let all = readings(&threads, span, &Why::NotApplicable);
    assert_eq!((number(&all, "", "gc.count"), number(&all, "", "gc.time")), (2.0, 2_000.0), "one before and one after");
}
