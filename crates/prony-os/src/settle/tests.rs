use prony_model::units::Fraction;

use super::*;

fn idle() -> Activity {
    Activity {
        cpu: Reading::Measured(Nanos::ZERO),
        runnable: BTreeMap::new(),
        roles: BTreeMap::new(),
        written: Reading::Measured(Bytes::default()),
        store: Reading::Measured(Bytes::from_mib(10)),
        unwritten: Reading::Measured(Bytes::default()),
    }
}

fn spec() -> SettleSpec {
    SettleSpec {
        quiet: Nanos::from_secs(2),
        within: Nanos::from_secs(20),
        cpu: Fraction::new(0.02).unwrap(),
        bytes: Bytes::from_bytes(100_000),
        ..SettleSpec::default()
    }
}

fn found(activity: impl FnMut(u64) -> Activity) -> SettleResult {
    found_by(&spec(), activity)
}

/// Polls at once and at each interval, with the activity as a function of the time in milliseconds.
fn found_by(spec: &SettleSpec, mut activity: impl FnMut(u64) -> Activity) -> SettleResult {
    let mut watch = Watch::begin(*spec, Nanos::ZERO, activity(0));
    let step = watch.interval().as_nanos() / 1_000_000;
    let mut polls = (step..).step_by(step as usize);
    polls.find_map(|ms| watch.poll(Nanos::from_millis(ms), activity(ms))).expect("it settles, or the cap is reached")
}

fn kb(n: u64) -> Reading<Bytes> {
    Reading::Measured(Bytes::from_bytes(n * 1000))
}

fn cpu(ms: u64) -> Activity {
    Activity { cpu: Reading::Measured(Nanos::from_millis(ms)), ..idle() }
}

#[track_caller]
fn near(result: &SettleResult, ms: u64) {
    let time = result.time.measured().expect("it settles").as_nanos() / 1_000_000;
    assert!(time.abs_diff(ms) <= 100, "settled after {time} ms, not {ms}");
}

#[test]
fn an_idle_tree_settles_at_once() {
    let result = found(|_| idle());
    assert_eq!((result.settled, result.time), (true, Reading::Measured(Nanos::ZERO)));
    assert_eq!(result.watched, Nanos::from_secs(2));
}

/// Only the size of the store shows that it is not quiet, and the first poll did not read it.
#[test]
fn store_that_was_read_after_the_first_poll_is_in_the_first_window() {
    let grown = |ms: u64| Activity { store: kb(10_000 + 100 * ms.min(3_000)), ..idle() };
    let none = || Reading::Missing(Why::NotApplicable);
    let unread = || Activity { store: none(), unwritten: none(), ..idle() };
    let read = || {
        unread().with_store(Reading::Measured(DiskUsage { blocks: Bytes::from_mib(10), ..DiskUsage::default() }), kb(0))
    };
    near(&found(|ms| if ms == 0 { read() } else { grown(ms) }), 3_000);
    near(&found(|ms| if ms == 0 { unread() } else { grown(ms) }), 0);
}

/// Its size was unknown at the first polls, so that growing from nothing was no activity; one that never exists has no time.
#[test]
fn store_that_does_not_exist_yet_grows_from_nothing() {
    let absent = || Activity { store: Reading::failed("no such file"), ..idle() };
    near(&found(|ms| if ms < 500 { absent() } else { Activity { store: kb(20_000), ..idle() } }), 500);
    let never = found(|_| absent());
    assert!(never.signs[&Sign::Disk].measured().is_none(), "{:?}", never.signs);
}

#[test]
fn a_burst_ends_when_it_ends() {
    let result = found(|ms| cpu(ms.min(4300)));
    near(&result, 4300);
    assert_eq!(result.cpu, Reading::Measured(Nanos::from_millis(4300)));
}

#[test]
fn a_second_burst_within_the_window_counts() {
    // Busy to 1 s, a pause of 1.5 s (shorter than the window), busy again for half a second.
    near(&found(|ms| cpu(ms.min(1000) + ms.clamp(2500, 3000) - 2500)), 3000);
}

#[test]
fn a_timer_that_ticks_does_not_keep_it_awake() {
    // 5 ms of work every second is 0.5 % of a core, though 5 % of the poll interval in which it is.
    near(&found(|ms| cpu(ms.min(1000) + ms / 1000 * 5)), 1000);
}

#[test]
fn a_tree_that_is_never_idle_is_not_settled() {
    let result = found(|ms| cpu(ms / 10));
    assert!(!result.settled && matches!(result.time, Reading::Missing(Why::NotSettled(_))));
    assert_eq!(result.watched, Nanos::from_secs(20));
    assert_eq!(result.cpu, Reading::Measured(Nanos::from_secs(2)));
}

/// A tree of which a thread was runnable for so long.
fn waits(ms: u64) -> BTreeMap<String, Nanos> {
    BTreeMap::from([(String::new(), Nanos::from_millis(ms))])
}

#[test]
fn tree_that_waits_for_a_processor_is_not_quiet() {
    // A second of work, three in which it gets no processor, and as much work again.
    let work = |ms: u64| ms.min(1000) + ms.clamp(4000, 5000) - 4000;
    let starved = |ms: u64| Activity { runnable: waits(ms.min(5000)), ..cpu(work(ms)) };
    near(&found(starved), 5000);
    assert_eq!(found(starved).cpu, Reading::Measured(Nanos::from_secs(2)), "waiting is no CPU time");
    // What a pause forces it to wait is none of its own.
    let result = paused(1000, 6000, |ms| Activity { runnable: waits(ms.min(6000)), ..cpu(ms.min(1000)) });
    near(&result, 1000);
}

#[test]
fn writes_growth_and_shrinking_count_too() {
    near(&found(|ms| Activity { written: kb(ms.min(3000)), ..idle() }), 3000);
    near(&found(|ms| Activity { store: kb(10_000 + ms.min(3000)), ..idle() }), 3000);
    near(&found(|ms| Activity { store: kb(10_000 - ms.min(3000)), ..idle() }), 3000);
}

/// The store is busy for a second; the kernel writes its pages at 9 s.
fn flushed_later(ms: u64) -> Activity {
    Activity { written: kb(10 * ms.min(1000)), unwritten: kb(if ms < 9000 { 5000 } else { 0 }), ..cpu(ms.min(800)) }
}

fn signs(result: &SettleResult) -> [u64; 4] {
    Sign::ALL.map(|sign| result.signs[&sign].measured().map_or(u64::MAX, |time| time.as_nanos() / 1_000_000))
}

#[test]
fn settle_time_is_of_the_processes_and_dirty_pages_are_reported_separately() {
    let result = found(flushed_later);
    near(&result, 1000);
    assert_eq!(signs(&result), [800, 1000, 0, 8900], "each sign has its own last activity");
    assert!(result.watched >= Nanos::from_secs(11), "dirty pages are waited for: {}", result.watched);
}

#[test]
fn of_chooses_the_signs_that_count_and_beside_those_that_are_waited_for() {
    let of = |of: &[Sign], beside: &[Sign]| {
        let (of, beside) = (of.iter().copied().collect(), beside.iter().copied().collect());
        found_by(&SettleSpec { of, beside, ..spec() }, flushed_later)
    };
    near(&of(&[Sign::Cpu], &[]), 800);
    near(&of(&[Sign::Cpu, Sign::Dirty], &[]), 8900);
    let brief = of(&Vec::from(Signs::of_processes()), &[]);
    near(&brief, 1000);
    assert_eq!(brief.watched, Nanos::from_secs(3), "it does not wait for the kernel");
    match &brief.signs[&Sign::Dirty] {
        Reading::Missing(why) => assert!(why.to_string().contains("when the phase ended"), "{why}"),
        time => panic!("they were dirty still: {time:?}"),
    }
}

#[test]
fn a_timer_that_ticks_while_the_kernel_is_waited_for_is_in_no_settle_time() {
    // 5 ms of work every second, each of them 5 % of the poll interval in which it is.
    let ticking = |ms: u64| Activity {
        cpu: Reading::Measured(Nanos::from_millis(ms.min(800) + ms / 1000 * 5)),
        ..flushed_later(ms)
    };
    near(&found(ticking), 1000);
    let without = found(|ms| Activity { unwritten: kb(0), ..ticking(ms) });
    assert_eq!(found(ticking).time, without.time, "it does not depend on the kernel");
}

#[test]
fn pages_that_stay_dirty_take_no_settle_time_away() {
    let never = found(|ms| Activity { unwritten: kb(5000), ..cpu(ms.min(800)) });
    near(&never, 800);
    assert!(never.settled && never.watched == Nanos::from_secs(20));
    let Reading::Missing(why) = &never.signs[&Sign::Dirty] else { panic!("they stay dirty") };
    assert!(why.to_string().contains("not settled within 20"), "{why}");
}

#[test]
fn each_role_has_the_last_activity_of_its_own_cpu_time() {
    let used = |ms| Reading::Measured(Nanos::from_millis(ms));
    let result = found(|ms| {
        let roles = [("server", ms.min(500)), ("indexer", ms.min(4000))];
        let roles = roles.into_iter().filter(|(role, _)| *role == "server" || ms >= 1000);
        Activity { roles: roles.map(|(role, ms)| (role.to_owned(), used(ms))).collect(), ..cpu(ms.min(4000)) }
    });
    let ms = |role: &str| result.roles[role].measured().map(|time| time.as_nanos() / 1_000_000);
    assert_eq!((ms("server"), ms("indexer")), (Some(500), Some(4000)), "one came later than the watch");
}

#[test]
fn unobserved_signs_are_named_and_quiet_needs_one_sign() {
    let missing = || Why::NotPermitted("`/proc/7/io`".into());
    let partly = found(|ms| Activity { written: Reading::Missing(missing()), ..cpu(ms.min(500)) });
    near(&partly, 500);
    assert_eq!(partly.blind, ["bytes written: not permitted: `/proc/7/io`"]);
    let nothing = found(|_| Activity {
        cpu: Reading::Missing(missing()),
        runnable: BTreeMap::new(),
        roles: BTreeMap::new(),
        written: Reading::Missing(missing()),
        store: Reading::Missing(missing()),
        unwritten: Reading::Missing(missing()),
    });
    assert!(!nothing.settled && nothing.time.measured().is_none());
    let unread = found_by(&SettleSpec { of: [Sign::Written].into_iter().collect(), ..spec() }, |ms| Activity {
        written: Reading::Missing(missing()),
        ..cpu(ms.min(500))
    });
    let Reading::Missing(why) = unread.time else { panic!("what counts could not be read") };
    assert!(
        !unread.settled && why.to_string().ends_with("names bytes written, but no such activity could be read"),
        "{why}"
    );
    let none = || Reading::Missing(Why::NotApplicable);
    let program = found(|ms| Activity { store: none(), unwritten: none(), ..cpu(ms.min(500)) });
    near(&program, 500);
    assert_eq!(program.blind, Vec::<String>::new(), "a program has no store to be blind to");
}

#[test]
fn longest_step_between_two_polls_is_reported() {
    assert_eq!(found(|_| idle()).step, Nanos::from_millis(100), "a twentieth of the window");
    let mut watch = Watch::begin(spec(), Nanos::ZERO, idle());
    let polls = [100, 200, 1700, 1800, 2100].map(|ms| watch.poll(Nanos::from_millis(ms), idle()));
    let [.., Some(last)] = polls else { panic!("it has been quiet for the window") };
    assert_eq!((last.settled, last.step), (true, Nanos::from_millis(1500)), "one poll took long");
}

/// Polls each 100 ms until there is a result; between `from` and `to` the tree is suspended.
fn paused(from: u64, to: u64, activity: impl Fn(u64) -> Activity) -> SettleResult {
    let at = Nanos::from_millis;
    let mut watch = Watch::begin(spec(), at(0), activity(0));
    for ms in (100..).step_by(100) {
        match ms {
            ms if ms == from => watch.pause(at(ms), activity(ms)),
            ms if ms == to => watch.go_on(at(ms), activity(ms)),
            _ => {}
        }
        if watch.is_paused() {
            continue;
        }
        if let Some(result) = watch.poll(at(ms), activity(ms)) {
            return result;
        }
    }
    unreachable!("it settles, or the cap is reached")
}

#[test]
fn a_suspension_is_not_idle_time() {
    // One second of work, a suspension of five in which a collection takes 400 ms, and another second of work.
    let working = |ms: u64| cpu(ms.min(1000) + (ms.clamp(2000, 2400) - 2000) + (ms.clamp(6000, 7000) - 6000));
    let result = paused(1000, 6000, working);
    near(&result, 2000);
    assert_eq!(result.cpu, Reading::Measured(Nanos::from_secs(2)), "the collection is not the program's");
    assert_eq!(result.watched, Nanos::from_secs(4));
    let written = |ms: u64| Activity { written: Reading::Measured(Bytes::from_bytes(ms * 1000)), ..idle() };
    let never = paused(1000, 3000, written);
    assert!(!never.settled && never.watched == Nanos::from_secs(20), "the cap stands still too");
    assert_eq!(never.written, Reading::Measured(Bytes::from_bytes(20_000_000)));
}

#[test]
fn what_a_pause_did_unseen_is_not_taken_for_nothing() {
    let unseen = |ms: u64| match ms {
        1000 => Activity { cpu: Reading::Missing(Why::NotReached), ..idle() },
        ms => Activity { written: Reading::Measured(Bytes::from_bytes(7)), ..cpu(ms.min(400)) },
    };
    let result = paused(1000, 6000, unseen);
    assert!(result.cpu.measured().is_none(), "{:?}", result.cpu);
}
