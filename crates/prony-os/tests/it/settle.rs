//! Tests the settle watch on a subject that continues to work after its answer (METHOD 7: burst of CPU, then idle).

use prony_model::reading::Reading;
use prony_model::spec::SettleSpec;
use prony_model::units::{Bytes, Fraction, Nanos};
use prony_os::clock::monotonic;
use prony_os::sample::{Root, Sampler, Settings};
use prony_os::settle::{Probe, SettleResult, TreeProbe, Watch};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::subject::Subject;

#[test]
fn work_after_the_answer_is_found_and_its_end_too() {
    // Repeated only if it is wrong and the subject waited for CPU time as long as `quiet`, or a poll was late.
    let missed: Vec<String> = (0..5).map_while(|_| burst().err()).collect();
    assert!(missed.len() < 5, "{missed:?}");
}

/// Watches a burst of work, and checks the result; returns it where it is wrong and the machine was too busy.
#[allow(clippy::unwrap_used)] // A part of the test.
fn burst() -> Result<(), String> {
    let mut subject = Subject::start("answer-then-burst 700");
    let sampler = Sampler::start(vec![Root::subject(subject.pid(), "worker")], Settings::default()).unwrap();
    let spec = SettleSpec {
        quiet: Nanos::from_millis(800),
        within: Nanos::from_secs(60),
        cpu: Fraction::new(0.05).unwrap(),
        bytes: Bytes::from_mib(1),
        ..SettleSpec::default()
    };
    subject.go();
    let began = monotonic();
    let mut tree = TreeProbe::new(&sampler, None);
    let mut watch = Watch::begin(spec, monotonic(), tree.poll());
    let result = loop {
        std::thread::sleep(watch.interval().to_duration());
        if let Some(result) = watch.poll(monotonic(), tree.poll()) {
            break result;
        }
    };
    let said = subject.then();
    let truth: Vec<u64> = said.split(' ').map(|word| word.parse().unwrap()).collect();
    assert!(result.settled, "{result:?}");
    let quiet_at = began + *result.time.measured().unwrap();
    let found = format!("quiet at {quiet_at}, truth {said}, {result:?}");
    let waited = truth[0].saturating_sub(began.as_nanos()).saturating_sub(truth[1]);
    let cpu = result.cpu.measured().unwrap().as_nanos() as f64;
    let is_right = quiet_at.as_nanos().abs_diff(truth[0]) < 500_000_000
        // What it did between its answer and the first poll is not in the watch.
        && cpu > truth[1] as f64 * 0.5
        && cpu < truth[1] as f64 * 1.05;
    if !is_right {
        let starved = waited >= spec.quiet.as_nanos() * 9 / 10;
        assert!(starved || result.step >= Nanos::from_millis(400), "{found}");
        return Err(found);
    }
    assert_eq!(result.blind, [""; 0], "it has no store that could go unseen");
    assert_eq!(sampler.glance()[""].on_cpu.measured().map(|cpu| cpu.as_nanos() >= truth[1]), Some(true));
    Ok(())
}

/// Ended when dropped.
struct Busy(std::process::Child);

impl Busy {
    /// A process that wants the whole of this processor.
    fn on(cpu: usize) -> Self {
        let busy = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn();
        let busy = Self(busy.expect("`sh` starts"));
        pin(busy.0.id(), cpu);
        busy
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

fn pin(pid: u32, cpu: usize) {
    let (mut one, pid) = (CpuSet::new(), Pid::from_raw(pid.cast_signed()));
    one.set(cpu);
    sched_setaffinity(pid, &one).expect("a child of this test can be moved");
}

/// Watches a process for at most three seconds; less than half of a processor is quiet.
fn watched(pid: u32) -> SettleResult {
    let sampler = Sampler::start(vec![Root::subject(pid, "worker")], Settings::default()).expect("a thread starts");
    let spec = SettleSpec {
        quiet: Nanos::from_secs(1),
        within: Nanos::from_secs(3),
        cpu: Fraction::new(0.5).expect("it is a share"),
        bytes: Bytes::from_mib(1),
        ..SettleSpec::default()
    };
    let mut tree = TreeProbe::new(&sampler, None);
    let mut watch = Watch::begin(spec, monotonic(), tree.poll());
    loop {
        std::thread::sleep(watch.interval().to_duration());
        if let Some(result) = watch.poll(monotonic(), tree.poll()) {
            return result;
        }
    }
}

/// Of a processor that four processes want each gets a quarter, which is below the threshold.
#[test]
fn process_that_waits_for_a_processor_is_not_settled() {
    let all = sched_getaffinity(None).unwrap();
    let cpu = (0..CpuSet::MAX_CPU).find(|cpu| all.is_set(*cpu)).unwrap();
    let _loops = [Busy::on(cpu), Busy::on(cpu), Busy::on(cpu)];
    let (starved, idle) = (Busy::on(cpu), Subject::done("nothing"));
    let result = watched(starved.0.id());
    assert!(!result.settled && result.time.measured().is_none(), "{result:?}");
    assert!(matches!(result.roles["worker"], Reading::Missing(_)), "{result:?}");
    pin(idle.pid(), cpu);
    let result = watched(idle.pid());
    assert!(result.settled, "{result:?}");
}

#[test]
fn store_polls_are_timed_and_tree_polls_are_not() {
    let subject = Subject::done("nothing");
    let sampler = Sampler::start(vec![Root::subject(subject.pid(), "worker")], Settings::default()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let took = |store| {
        let mut probe = TreeProbe::new(&sampler, store);
        probe.poll();
        probe.store_took
    };
    assert!(took(Some(dir.path().to_path_buf())) > Nanos::ZERO);
    assert_eq!(took(None), Nanos::ZERO);
}
