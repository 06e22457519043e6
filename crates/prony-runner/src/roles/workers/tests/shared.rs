//! Tests phases that two workers share.

use std::cell::RefCell;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex};

use prony_model::spec::{Amount, Grouping, Ops, Order, References, Sampling};
use prony_os::launch::{End, Finished, Process, Reusable, Started};

use super::*;
use crate::figures::span::tests::{snapshot, watched};
use crate::roles::beside::Beside;

/// How the second worker's process ended, once it has.
type Exit = Arc<Mutex<Option<Status>>>;

/// A process that ends when the test says so.
#[derive(Debug)]
struct Played {
    exit: Exit,
    file: File,
}

fn end(status: Status) -> End {
    End { status, ..watched(vec![snapshot(0, 0, &[7])], vec![]).ended }
}

impl AsFd for Played {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Process for Played {
    fn suspended(&self) -> Option<u32> {
        None
    }

    fn release(&mut self) -> Result<(), prony_os::Error> {
        Ok(())
    }

    fn started(&mut self, _: &[BorrowedFd<'_>]) -> Result<Started, prony_os::Error> {
        Ok(Started::default())
    }

    fn wait(&mut self, _: Option<Duration>) -> Result<Option<End>, prony_os::Error> {
        Ok(self.exit.lock().unwrap().map(end))
    }

    fn signal(&self, _: i32) -> Result<(), prony_os::Error> {
        Ok(())
    }

    fn kill_tree(&mut self) -> Result<End, prony_os::Error> {
        Ok(end(self.exit.lock().unwrap().unwrap_or(Status::Signalled(9))))
    }

    fn finish(self: Box<Self>) -> Result<(Finished, Option<Box<dyn Reusable>>), prony_os::Error> {
        Ok((Finished::default(), None))
    }
}

fn get(share: Sharing) -> Action {
    Action::Get(Ops {
        amount: Amount::Count(10),
        transaction: Grouping::Each,
        order: Order::Record,
        replicas: Some(2),
        threads: 1,
        share,
        pause: None,
        rate: None,
        sample: Sampling::None,
        touch: true,
        collection: None,
        references: References::Ignored,
    })
}

/// What a script has: the workers, what is observed, the ends of both sockets, and the second one's exit.
struct Script<'s, 'a, 'o> {
    workers: &'s mut Workers<'a>,
    observation: &'s mut Observation<'o>,
    ends: [UnixStream; 2],
    exit: Exit,
}

impl Script<'_, '_, '_> {
    fn step(&mut self) {
        step(self.workers, self.observation);
    }

    /// One of them says something, 0 or 1, and the runner reads it.
    fn says(&mut self, who: usize, message: &FromWorker) {
        say(&mut self.ends[who], message);
        self.step();
    }

    /// What the runner has sent to one of them since.
    fn sent(&mut self, who: usize) -> Vec<String> {
        self.ends[who].set_nonblocking(true).unwrap();
        let mut text = String::new();
        let _ = std::io::Read::read_to_string(&mut self.ends[who], &mut text);
        self.ends[who].set_nonblocking(false).unwrap();
        let verb =
            |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["do"].as_str().unwrap().to_owned();
        text.lines().map(verb).collect()
    }

    /// Both are ready and were asked for the first phase.
    fn both_ready(&mut self) {
        self.says(0, &ready());
        self.says(1, &ready());
        assert_eq!(
            (self.sent(0), self.sent(1)),
            (vec!["phase".to_owned()], vec!["stop".to_owned(), "phase".to_owned()])
        );
    }

    /// Both run the first phase, from 10 and 12 ms to 30 and 40 ms, with so many operations.
    fn both_run(&mut self, operations: [u64; 2]) {
        (0..2).for_each(|who| self.says(who, &FromWorker::Prepared { index: 0 }));
        for (who, at) in [(0, 10), (1, 12)] {
            self.says(who, &FromWorker::Began { index: 0, at: ms(at) });
        }
        for (who, at) in [(0, 30), (1, 40)] {
            let report = PhaseReport { operations: operations[who], ..PhaseReport::default() };
            self.says(who, &FromWorker::Ended { index: 0, at: ms(at), report: Box::new(report) });
        }
    }

    fn phase_is_open(&self, index: usize) -> bool {
        self.observation.tracker.phases[index].is_open()
    }
}

/// Runs these phases with two workers that a script plays; what is reported in the end.
fn shared(actions: &[Action], launches: bool, play: impl FnOnce(&mut Script<'_, '_, '_>)) -> Report {
    let phase = |(at, action): (usize, &Action)| PhaseSpec {
        name: format!("p{at}"),
        timed: true,
        action: action.clone(),
        background: None,
        limit: None,
    };
    let phases = actions.iter().enumerate().map(phase).collect();
    let subject = Subject::Store(StoreSpec::of("lmdb"));
    let spec = TrialSpec {
        subject,
        services: Vec::new(),
        data: Vec::new(),
        phases,
        limits: Limits::default(),
        crashes: Vec::new(),
    };
    let sampler = Sampler::start(vec![Root::subject(std::process::id(), "worker")], Settings::default()).unwrap();
    let mut log = Log::default();
    let mut observation = Observation::new(&spec, &sampler, "/nowhere".into(), 0, &mut log);
    let [(ours, theirs), (own, other)] = [(); 2].map(|()| UnixStream::pair().unwrap());
    let exit = Exit::default();
    let played = Played { exit: Arc::clone(&exit), file: File::open("/dev/null").unwrap() };
    let beside = Beside { role: "replica.2".to_owned(), process: Box::new(played), group: None, sampled: None };
    let second = WorkerProcess::new(2, Channel::new(own), Some(beside));
    let second = RefCell::new(launches.then_some(second));
    let further: Further<'_> = Box::new(|number, _, _, _| {
        assert_eq!(number, 2);
        let refused = || Error::Setup { doing: "launch it", source: std::io::ErrorKind::OutOfMemory.into() };
        second.borrow_mut().take().ok_or_else(refused)
    });
    let first = WorkerProcess::new(1, Channel::new(ours), None);
    // What is sent as the plan is of no interest here.
    let mut workers = Workers::new((further, no_command()), &spec, ToWorker::Stop, None, first);
    let mut script = Script { workers: &mut workers, observation: &mut observation, ends: [theirs, other], exit };
    play(&mut script);
    workers.ended(Status::Exited(0), &sampler).unwrap()
}

#[test]
fn workers_begin_together_and_the_phase_ends_with_the_last() {
    let report = shared(&[get(Sharing::Equal), Action::Verify], true, |script| {
        script.says(0, &ready());
        assert!(!script.phase_is_open(0), "the second has not opened the store");
        script.says(1, &ready());
        assert!(script.phase_is_open(0));
        script.sent(0);
        script.says(0, &FromWorker::Prepared { index: 0 });
        assert_eq!(script.sent(0), [""; 0], "the second is not prepared");
        script.says(1, &FromWorker::Prepared { index: 0 });
        assert_eq!(
            (script.sent(0), script.sent(1)),
            (vec!["go".to_owned()], ["stop", "phase", "go"].map(str::to_owned).to_vec())
        );
        script.says(1, &FromWorker::Began { index: 0, at: ms(12) });
        script.says(0, &FromWorker::Began { index: 0, at: ms(10) });
        script.says(0, &ended(0, 30));
        assert!(script.phase_is_open(0));
        script.says(1, &ended(0, 40));
        let first = &script.observation.tracker.phases[0];
        assert_eq!((first.began, first.ended, first.parts.len()), (Some(ms(10)), Some(ms(40)), 2));
        // Only one of them runs the next, and it begins when that one says so.
        assert_eq!((script.sent(0), script.sent(1)), (vec!["phase".to_owned()], vec![]));
        script.says(0, &FromWorker::Began { index: 1, at: ms(60) });
        assert_eq!(script.observation.tracker.phases[1].began, Some(ms(60)));
        script.says(1, &FromWorker::Progress { index: 1, operations: 5 });
        script.says(0, &ended(1, 70));
        *script.exit.lock().unwrap() = Some(Status::Exited(0));
    });
    assert!(report.fault.is_none(), "{:?}", report.fault);
}

/// What a worker did before the begin was in the CPU time of the phase, and not in its time: keys in order were 0.17 times as
/// fast by CPU time, and 5.7 times by time.
#[test]
fn counters_of_a_phase_are_read_when_its_workers_are_prepared() {
    shared(&[get(Sharing::Equal), Action::Verify], true, |script| {
        script.both_ready();
        let led = script.observation.begin[0];
        script.says(0, &FromWorker::Prepared { index: 0 });
        assert_eq!(script.observation.begin[0], led, "the second is not prepared");
        script.says(1, &FromWorker::Prepared { index: 0 });
        let prepared = script.observation.begin[0];
        assert!(prepared > led && prepared == script.observation.snapshots.len().checked_sub(1));
        for who in 0..2 {
            script.says(who, &FromWorker::Began { index: 0, at: ms(10) });
        }
        (0..2).for_each(|who| script.says(who, &ended(0, 30)));
        // Only one of them runs the next.
        script.sent(0);
        let led = script.observation.begin[1];
        script.says(0, &FromWorker::Prepared { index: 1 });
        assert!(script.observation.begin[1] > led);
        assert_eq!(script.sent(0), ["go"]);
        script.says(0, &FromWorker::Began { index: 1, at: ms(60) });
        script.says(0, &ended(1, 70));
        *script.exit.lock().unwrap() = Some(Status::Exited(0));
    });
}

#[test]
fn phase_that_changes_the_store_waits_until_further_workers_have_exited() {
    for (late, status, fault) in
        [(false, Some(0), None), (false, Some(1), Some(Fault::Closed)), (true, None, Some(Fault::Late))]
    {
        let report = shared(&[get(Sharing::Equal), Action::Close], true, |script| {
            script.both_ready();
            script.both_run([5, 5]);
            assert_eq!(
                (script.sent(0), script.sent(1)),
                (vec!["go".to_owned()], vec!["go".to_owned(), "stop".to_owned()])
            );
            script.ends[1].shutdown(std::net::Shutdown::Both).unwrap();
            script.step();
            assert!(!script.phase_is_open(1), "its process has not ended");
            *script.exit.lock().unwrap() = status.map(Status::Exited);
            if late {
                script.workers.dismissed = Some(Instant::now());
            }
            script.step();
            assert_eq!(script.phase_is_open(1), fault.is_none());
        });
        assert_eq!((report.fault.clone(), report.failed_replica), (fault.clone(), fault.map(|_| 2)));
    }
}

#[test]
fn fault_of_a_further_worker_is_its_own() {
    let closed = shared(&[get(Sharing::Equal)], true, |script| {
        script.both_ready();
        script.ends[1].shutdown(std::net::Shutdown::Both).unwrap();
        *script.exit.lock().unwrap() = Some(Status::Signalled(11));
        script.step();
        assert!(script.workers.until.is_some() && script.observation.cut.is_some(), "the first runs on");
    });
    assert_eq!((closed.fault, closed.failed_replica), (Some(Fault::Closed), Some(2)));
    assert_eq!(closed.end.map(|end| end.status), Some(Status::Signalled(11)));
    let first = shared(&[get(Sharing::Equal)], true, |script| {
        script.both_ready();
        script.ends[0].shutdown(std::net::Shutdown::Both).unwrap();
        script.step();
    });
    assert_eq!((first.fault, first.failed_replica), (Some(Fault::Closed), Some(1)), "several run the phase");
    let early = shared(&[get(Sharing::Equal)], true, |script| {
        script.both_ready();
        script.says(1, &ended(0, 20));
    });
    assert!(matches!(early.fault, Some(Fault::Garbled(_))) && early.failed_replica == Some(2), "{early:?}");
    let refused = shared(&[get(Sharing::Equal)], false, |script| script.says(0, &ready()));
    let Some(Fault::Failed { message, .. }) = &refused.fault else { panic!("{refused:?}") };
    assert!(message.starts_with("it could not be launched: cannot launch it: "), "{message}");
    assert_eq!(refused.failed_replica, Some(2));
}

#[test]
fn queue_whose_operations_were_not_done_once_each_is_a_fault_of_no_worker() {
    for (operations, is_right) in [([4, 6], true), ([4, 7], false), ([4, 5], false)] {
        let report = shared(&[get(Sharing::Queue)], true, |script| {
            script.both_ready();
            script.both_run(operations);
            assert_eq!(script.observation.tracker.phases[0].is_complete(), is_right);
        });
        assert_eq!((report.fault.is_none(), report.failed_replica), (is_right, None), "{report:?}");
    }
}
