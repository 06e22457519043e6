//! Fuzzes the lines on the socket between runner and worker, and the runner's use of the reports in them.

use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

use prony_boundaries::channel::{Channel, Received};
use prony_model::latency::Recorder;
use prony_model::protocol::{Failure, FromWorker, PhaseReport, ToWorker, VERSION, Verified};
use prony_model::reading::Reading;
use prony_model::record::{Answer, Groups, LatencyKind, Throughput};
use prony_model::units::{Bytes, Nanos};

/// A socket takes this much without a reader.
const LONGEST: usize = 64 << 10;

pub(super) fn run(data: &[u8]) {
    let data = &data[..data.len().min(LONGEST)];
    for line in data.split(|byte| *byte == b'\n') {
        if let Ok(message) = serde_json::from_slice::<ToWorker>(line) {
            let text = serde_json::to_vec(&message).expect("a message is JSON");
            assert_eq!(serde_json::from_slice::<ToWorker>(&text).expect("what was written is read"), message);
        }
    }
    let (ours, mut theirs) = UnixStream::pair().expect("a pair of sockets");
    theirs.write_all(data).and_then(|()| theirs.shutdown(Shutdown::Write)).expect("a socket takes the bytes");
    let mut channel = Channel::new(ours);
    let lines = data.iter().filter(|byte| **byte == b'\n').count();
    let mut received = 0;
    loop {
        match channel.receive() {
            Received::Message(message) => received_message(&message),
            Received::Garbled(why) => assert!(!why.is_empty()),
            Received::Closed => break,
            Received::Nothing => panic!("its other end is closed"),
        }
        received += 1;
    }
    assert_eq!(received, lines, "each line is received once");
}

fn received_message(message: &FromWorker) {
    let text = serde_json::to_vec(message).expect("a message is JSON");
    assert_eq!(&serde_json::from_slice::<FromWorker>(&text).expect("what was written is read"), message);
    if let FromWorker::Ended { report, .. } = message {
        let recorders = report.histograms.iter().filter_map(|histogram| Recorder::from_record(histogram).ok());
        let mut all = Recorder::new();
        for recorder in recorders {
            recorder.metrics(prony_model::metric::Metric::LATENCY);
            all.merge(&recorder);
        }
        all.metrics(prony_model::metric::Metric::LATENCY);
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let messages = [
        FromWorker::Ready {
            version: VERSION,
            effective: Some(Box::new(crate::records::store().store().expect("it is of a store").clone())),
            open: Nanos::from_micros(3),
        },
        FromWorker::Prepared { index: 0 },
        FromWorker::Began { index: 0, at: Nanos::from_secs(1) },
        FromWorker::Progress { index: 0, operations: 7 },
        FromWorker::Ended { index: 0, at: Nanos::from_secs(2), report: Box::new(report()) },
        FromWorker::Failed { index: Some(1), failure: Failure::DiskFull, message: "map full".to_owned() },
    ];
    let lines = messages.iter().map(|message| serde_json::to_vec(message).expect("a message is JSON"));
    let lines: Vec<Vec<u8>> = lines.map(|line| [line, vec![b'\n']].concat()).collect();
    let phase = ToWorker::Phase { index: 1 };
    let to_worker =
        [phase, ToWorker::Go, ToWorker::Stop].map(|message| serde_json::to_vec(&message).unwrap_or_default());
    [vec![lines.concat()], lines, to_worker.to_vec()].concat()
}

/// Every part is filled.
fn report() -> PhaseReport {
    let mut recorder = Recorder::new();
    (1..2_000_u64).for_each(|n| recorder.record(Nanos::from_nanos(n * n)));
    recorder.record_failed();
    PhaseReport {
        time: Nanos::from_millis(5),
        gap: Some(Nanos::from_millis(1)),
        gap_cpu: Nanos::from_millis(1),
        operations: 1_999,
        errors: 1,
        rows: Some(9),
        misses: Some(0),
        distinct: Some(3),
        lag: Some(Nanos::ZERO),
        histograms: recorder.to_record("get", LatencyKind::Service).into_iter().collect(),
        groups: Some(Groups { operations: 10, wall: vec![5, 900, 3], cpu: vec![4, 0, 1] }),
        throughput: Some(Throughput { interval: Nanos::from_millis(100), operations: vec![0, 900, 1] }),
        answer: Some(Answer { rows: Some(7), digest: "00ff".to_owned(), comparable: true }),
        error_texts: [("map full".to_owned(), 1)].into(),
        engine_counters: [("pages".to_owned(), 2.5)].into(),
        engine_size: Some(Bytes::from_kib(8)),
        resident: Some(Reading::Measured(0.5)),
        verified: Some(Verified { exact: 7, one_of_several: 1, may_be_absent: 0, extra_rows: true }),
        notes: vec!["a note".to_owned()],
        ..PhaseReport::default()
    }
}
