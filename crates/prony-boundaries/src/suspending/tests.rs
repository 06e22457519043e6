use std::fs::File;
use std::io::Read;

use prony_model::reading::Reading;
use prony_model::spec::SettleSpec;
use prony_model::units::{Bytes, Fraction};
use prony_os::settle::Activity;

use super::*;
use crate::probe_reports::tests::{heap, line};

/// A tree without activity.
struct Idle;

impl Probe for Idle {
    fn poll(&mut self) -> Activity {
        let nothing = || Reading::Measured(Bytes::default());
        let (cpu, roles) = (Reading::Measured(Nanos::ZERO), BTreeMap::new());
        Activity {
            cpu,
            runnable: std::collections::BTreeMap::new(),
            roles,
            written: nothing(),
            store: nothing(),
            unwritten: nothing(),
        }
    }
}

struct Scene {
    dir: tempfile::TempDir,
    suspensions: SuspensionControl,
}

impl Scene {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let suspensions = SuspensionControl::new(dir.path().to_path_buf());
        Self { dir, suspensions }
    }

    /// A thread is suspended, for the `number`-th time.
    fn suspends(&mut self, number: u64, plan: AtEndSpec, stop: bool) {
        self.suspends_in(0, number, plan, stop);
    }

    fn suspends_in(&mut self, phase: usize, number: u64, plan: AtEndSpec, stop: bool) {
        let suspended = line(
            7,
            0,
            11,
            &format!(r#""probe":"suspended","call":"p","n":1,"suspension":{number},"heap":{{"used":9}}"#),
        );
        let suspension = Suspension::new(phase, suspended.source, Nanos::from_millis(10), suspended.at, 3);
        self.suspensions.begin(number, suspension, (plan, stop), &mut Idle);
    }

    /// The commands that it has received since.
    fn commands_of(&self, number: u64) -> String {
        let mut buffer = [0; 100];
        let n = File::open(self.dir.path().join(format!("7-0-{number}"))).unwrap().read(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..n]).into_owned()
    }

    fn says(&mut self, line: &ProbeLine) {
        self.suspensions.heard(line, &mut Idle, &mut || 4);
    }
}

fn resumed(because: &str) -> ProbeLine {
    line(7, 0, 40, &format!(r#""probe":"resumed","because":"{because}""#))
}

#[test]
fn one_thing_after_the_other_and_then_it_goes_on() {
    let mut scene = Scene::new();
    scene.suspends(1, AtEndSpec { collect: true, ..AtEndSpec::default() }, false);
    assert!(scene.suspensions.any());
    assert_eq!(scene.commands_of(1), "collect later\n", "the runtime may collect at once");
    scene.says(&heap(7, 0, 12, "read", 5));
    scene.says(&line(7, 0, 15, r#""probe":"collected","took":5,"heap":{"used":4}"#));
    assert_eq!(scene.commands_of(1), "read\n", "what was not asked for yet moved nothing");
    scene.says(&heap(7, 0, 20, "read", 5));
    assert_eq!(scene.commands_of(1), "go\n");
    scene.says(&resumed("go"));
    let suspension = &scene.suspensions.all[0];
    assert_eq!(
        (suspension.snapshot, suspension.after_actions, suspension.read),
        (3, Some(4), Some(Nanos::from_millis(20)))
    );
    assert_eq!((suspension.from, suspension.until), (Nanos::from_millis(10), Some(Nanos::from_millis(40))));
    assert!(!scene.suspensions.any());
    let report = suspension.report("p");
    assert_eq!((report.suspended, report.collected), (Some(Nanos::from_millis(30)), Some(Nanos::from_nanos(5))));
    assert!(!report.by_itself());
}

#[test]
fn a_collection_that_is_put_off_comes_at_the_next_turn() {
    let mut scene = Scene::new();
    let plan = AtEndSpec { collect: true, ..AtEndSpec::default() };
    for number in [1, 2] {
        scene.suspends(number, plan.clone(), false);
        scene.says(&resumed("later"));
        assert!(!scene.suspensions.any() && scene.suspensions.all[number as usize - 1].put_off);
    }
    let faults: Vec<bool> = scene.suspensions.all.iter().map(|suspension| suspension.fault.is_some()).collect();
    assert_eq!(faults, [false, true], "only the last one's memory is to be read, and is not yet");
    let suspended =
        line(7, 0, 60, r#""probe":"suspended","call":"p","n":2,"suspension":3,"later":true,"heap":{"used":9}"#);
    scene.suspensions.again(&suspended, 3, 9, &mut Idle);
    assert_eq!(scene.commands_of(3), "collect\n");
    scene.says(&line(7, 0, 65, r#""probe":"collected","took":5,"heap":{"used":4}"#));
    scene.says(&heap(7, 0, 70, "read", 5));
    assert_eq!(scene.commands_of(3), "read\ngo\n");
    let [_, first, second] = scene.suspensions.all.as_slice() else { panic!("{:?}", scene.suspensions.all) };
    assert_eq!((first.fault.as_deref(), first.after_actions), (None, Some(3)));
    assert_eq!(
        (second.from, second.stopped, second.late),
        (Nanos::from_millis(60), first.stopped, Some(Nanos::from_millis(20)))
    );
    assert_eq!((second.end, second.snapshot, second.after_actions), (3, 9, Some(4)));
}

#[test]
fn phase_whose_collection_another_one_replaced_has_its_own_reason() {
    let mut scene = Scene::new();
    let plan = AtEndSpec { collect: true, ..AtEndSpec::default() };
    for (number, phase) in [(1, 0), (2, 1)] {
        scene.suspends_in(phase, number, plan.clone(), false);
        scene.says(&resumed("later"));
    }
    let unread = |scene: &Scene, at: usize| scene.suspensions.all[at].unread().unwrap();
    assert!(unread(&scene, 0).contains("same turn of the event loop"), "{}", unread(&scene, 0));
    assert!(unread(&scene, 1).contains("ended before the next turn of its event loop"), "{}", unread(&scene, 1));
    let suspended =
        line(7, 0, 60, r#""probe":"suspended","call":"p","n":2,"suspension":3,"later":true,"heap":{"used":9}"#);
    scene.suspensions.again(&suspended, 3, 9, &mut Idle);
    assert!(unread(&scene, 0).contains("same turn of the event loop"), "it was not read since");
}

#[test]
fn collection_of_a_phase_that_ends_the_program_comes_when_the_file_says() {
    let mut scene = Scene::new();
    scene.suspends(1, AtEndSpec { collect: true, weak: Weak::Clear, ..AtEndSpec::default() }, true);
    assert_eq!(scene.commands_of(1), "collect\n");
    scene.says(&resumed("runner_ended"));
    scene.suspends(2, AtEndSpec { collect: true, ..AtEndSpec::default() }, true);
    assert_eq!(scene.commands_of(2), "collect later\n");
    scene.says(&resumed("later"));
    let suspended =
        line(7, 0, 60, r#""probe":"suspended","call":"p","n":1,"suspension":3,"later":true,"heap":{"used":9}"#);
    scene.suspensions.again(&suspended, 3, 9, &mut Idle);
    scene.says(&line(7, 0, 65, r#""probe":"collected","took":5,"heap":{"used":4}"#));
    scene.says(&heap(7, 0, 70, "read", 5));
    assert_eq!(scene.commands_of(3), "collect\nread\nstop\n");
}

#[test]
fn a_wait_and_a_settling_end_in_a_reading() {
    let mut scene = Scene::new();
    scene.suspends(1, AtEndSpec { wait: Some(Nanos::from_secs(600)), ..AtEndSpec::default() }, false);
    assert!(scene.suspensions.next().is_some_and(|at| at > Instant::now()));
    scene.suspensions.due(&mut Idle);
    scene.says(&resumed("runner_ended"));
    assert!(scene.suspensions.all[0].report("p").by_itself());
    let quiet = Nanos::from_nanos(1);
    let settle = SettleSpec { quiet, cpu: Fraction::default(), bytes: Bytes::default(), ..SettleSpec::default() };
    scene.suspends(2, AtEndSpec { settle: Some(settle), ..AtEndSpec::default() }, true);
    while scene.suspensions.all[1].settled.is_none() {
        let next = scene.suspensions.next().unwrap();
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
        scene.suspensions.due(&mut Idle);
    }
    assert_eq!(scene.commands_of(2), "read\n");
    scene.says(&heap(7, 0, 30, "read", 5));
    assert_eq!(scene.commands_of(2), "stop\n", "the phase ends the program");
}

#[test]
fn function_is_not_suspended_after_the_most_suspensions() {
    let mut scene = Scene::new();
    for number in 1..=MOST_SUSPENSIONS as u64 {
        scene.suspends(number, AtEndSpec::default(), false);
        scene.says(&heap(7, 0, 20, "read", 5));
        let last = if number < MOST_SUSPENSIONS as u64 { "go" } else { "release" };
        assert_eq!(scene.commands_of(number), format!("read\n{last}\n"));
        scene.says(&resumed(last));
    }
    assert_eq!(scene.suspensions.all.len(), MOST_SUSPENSIONS);
}

/// A thread of process 7 that is suspended from `from` on.
fn suspends_too(scene: &mut Scene, thread: u32, from: u64) {
    let suspended = line(7, thread, from, r#""probe":"suspended","call":"p","n":1,"suspension":1,"heap":{"used":9}"#);
    let wait = AtEndSpec { wait: Some(Nanos::from_secs(600)), ..AtEndSpec::default() };
    let suspension = Suspension::new(0, suspended.source, Nanos::from_millis(from), suspended.at, 3);
    scene.suspensions.begin(1, suspension, (wait, false), &mut Idle);
}

#[test]
fn two_threads_at_once_stop_the_clock_once() {
    let ms = Nanos::from_millis;
    let mut scene = Scene::new();
    let goes = |scene: &mut Scene, thread, at| scene.says(&line(7, thread, at, r#""probe":"resumed","because":"go""#));
    suspends_too(&mut scene, 1, 100);
    suspends_too(&mut scene, 2, 150);
    assert_eq!([50, 120, 500].map(|at| scene.suspensions.running(ms(at))), [50, 100, 100].map(ms));
    goes(&mut scene, 1, 200);
    assert!(scene.suspensions.any());
    assert_eq!(scene.suspensions.running(ms(220)), ms(100), "the other one stands");
    goes(&mut scene, 2, 300);
    assert_eq!(scene.suspensions.running(ms(400)), ms(200), "200 ms were suspended in all, not 100 and 150");
    suspends_too(&mut scene, 1, 500);
    assert_eq!(scene.suspensions.running(ms(900)), ms(300));
}

#[test]
fn one_that_ends_no_phase_is_let_go() {
    let mut scene = Scene::new();
    for (number, again, commands_of) in [(1, true, "go\n"), (2, false, "release\n")] {
        let suspended = line(7, 0, 11, r#""probe":"suspended","call":"p/end","n":1,"suspension":1,"heap":{"used":9}"#);
        scene.suspensions.pass(&suspended, number, 0, 3, again);
        assert_eq!(scene.commands_of(number), commands_of);
        scene.says(&resumed(commands_of.trim()));
    }
    let suspension = &scene.suspensions.all[0];
    assert_eq!(
        (suspension.from, suspension.until, suspension.after_actions),
        (Nanos::from_millis(11), Some(Nanos::from_millis(40)), Some(3))
    );
    assert!(!scene.suspensions.any() && suspension.passed);
}

#[test]
fn one_that_is_killed_delays_no_other() {
    let wait = || AtEndSpec { wait: Some(Nanos::from_secs(600)), ..AtEndSpec::default() };
    let mut scene = Scene::new();
    scene.suspends(1, wait(), false);
    scene.suspensions.bury(&|pid| pid == 7, Nanos::from_millis(20));
    scene.suspensions.bury(&|_| false, Nanos::from_millis(40));
    assert!(scene.suspensions.any(), "its last words may be on their way");
    assert_eq!(scene.suspensions.running(Nanos::from_millis(45)), Nanos::from_millis(10));
    scene.suspensions.bury(&|_| false, Nanos::from_millis(50));
    assert!(!scene.suspensions.any() && scene.suspensions.next().is_none(), "limits count again");
    assert_eq!(scene.suspensions.running(Nanos::from_millis(70)), Nanos::from_millis(30));
    let suspension = &scene.suspensions.all[0];
    assert_eq!(suspension.until, Some(Nanos::from_millis(50)));
    assert!(suspension.fault.as_ref().unwrap().contains("while prony had suspended it"));
    scene.suspends(2, wait(), false);
    scene.says(&crate::probe_reports::tests::bye(7, 0, 60));
    assert!(!scene.suspensions.any(), "a worker that is ended says so");
    assert_eq!(scene.suspensions.all[1].until, Some(Nanos::from_millis(60)));
}

#[test]
fn one_that_cannot_be_answered_goes_on_by_itself() {
    let mut scene = Scene::new();
    scene.suspensions = SuspensionControl::new("/nowhere".into());
    scene.suspends(1, AtEndSpec::default(), false);
    assert!(!scene.suspensions.any() && scene.suspensions.next().is_none());
    scene.says(&resumed("unanswered"));
    let report = scene.suspensions.all[0].report("p");
    assert!(report.by_itself() && report.fault.as_ref().unwrap().contains("/nowhere"), "{report:?}");
}
