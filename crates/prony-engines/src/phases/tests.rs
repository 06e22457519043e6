//! Tests whole trials on the store of `fake`, led by a scripted runner.

mod background;
mod collections;
mod failures;
mod fairness;
pub(super) mod fake;
mod indexed;
mod open_loops;
mod references;
mod reopening;
mod served;
mod sharing;

use prony_model::latency::Recorder;
use prony_model::link::Progress;
use prony_model::protocol::{Failure, FromWorker, PhaseReport, ToWorker, VERSION, Verified};
use prony_model::spec::{
    Action, Amount, Arrivals, Grouping, MixSpec, MixWeights, Ops, OptionValue, Order, PauseEvery, Sampling, ScanLength,
    ScanSpec,
};
use prony_model::units::{Nanos, PerSecond};

use self::fake::{Fake, Script, Still, ops, option, plan, records, reports, run, run_by};
use super::{HostError, Stop, host};
use crate::registry::{self, KNOWN, describe};

const N: u64 = 3000;

fn put() -> Action {
    Action::Put(ops(Order::Record))
}

fn get(order: Order) -> Action {
    Action::Get(ops(order))
}

fn scan(length: Option<ScanLength>, count: u64) -> Action {
    Action::Scan(ScanSpec { ops: Ops { amount: Amount::Count(count), ..ops(Order::Record) }, length })
}

fn mix(weights: MixWeights, with: Ops) -> Action {
    Action::Mix(MixSpec { ops: with, weights, scan_length: ScanLength::UniformTo(10) })
}

fn failure(ended: &Result<(), HostError>) -> (Option<usize>, Failure, String) {
    match ended.as_ref().unwrap_err().to_message() {
        FromWorker::Failed { index, failure, message } => (index, failure, message),
        other => panic!("{other:?}"),
    }
}

fn user_bytes() -> u64 {
    let (records, mut value) = (records(N), Vec::new());
    let mut length = |n| {
        records.value(n, 0, &mut value);
        value.len() as u64
    };
    (0..N).map(|n| 8 + length(n)).sum()
}

#[test]
fn every_grouping_thread_count_and_sampling_does_the_same_work() {
    let groupings = [Grouping::Each, Grouping::Batch(7), Grouping::Batch(10_000), Grouping::Single];
    let samplings = [Sampling::None, Sampling::Every, Sampling::OneIn(3), Sampling::Group(10)];
    let mut answers = Vec::new();
    for (transaction, threads) in groupings.iter().flat_map(|g| [1, 3].map(|threads| (g.clone(), threads))) {
        let sample = samplings[answers.len() % 4];
        let with = |order| Ops { transaction: transaction.clone(), threads, sample, ..ops(order) };
        let plan = plan(N, [Action::Put(with(Order::Shuffled)), Action::Get(with(Order::Key)), Action::Verify]);
        let [put, get, verify] = reports(&plan).try_into().unwrap();
        let transactions = match transaction {
            Grouping::Each => N,
            Grouping::Batch(size) => N.div_ceil(threads.into()).div_ceil(size) * u64::from(threads),
            Grouping::Single | Grouping::Open => threads.into(),
        };
        for report in [&put, &get] {
            assert_eq!(
                (report.operations, report.errors, report.transactions),
                (N, 0, transactions),
                "{transaction:?}"
            );
            assert_eq!((report.user_bytes, report.distinct), (user_bytes(), Some(N)));
            assert_eq!(report.throughput.as_ref().unwrap().operations.iter().sum::<u64>(), N);
        }
        assert_eq!((put.rows, put.answer), (None, None));
        assert_eq!((get.rows, get.misses), (Some(N), Some(0)));
        assert_eq!(verify.verified, Some(Verified { exact: N, extra_rows: true, ..Verified::default() }));
        answers.push((get.answer.unwrap(), verify.answer.unwrap()));
    }
    assert!(answers[0].0.comparable && answers[0].0.digest.starts_with("lines:"));
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
}

#[test]
fn digests_distinguish_contents_and_kinds_of_digest() {
    let untouched = Ops { touch: false, ..ops(Order::Record) };
    let plan = plan(
        N,
        [
            put(),
            get(Order::Record),
            Action::Update(Ops { amount: Amount::Count(1), ..ops(Order::Record) }),
            get(Order::Record),
            Action::Get(untouched),
            Action::Get(Ops { amount: Amount::Count(N - 1), ..ops(Order::Record) }),
        ],
    );
    let digests: Vec<_> = reports(&plan).into_iter().filter_map(|report| Some(report.answer?.digest)).collect();
    let distinct: std::collections::BTreeSet<_> = digests.iter().collect();
    assert_eq!(distinct.len(), 4, "{digests:?}");
    assert!(digests[2].starts_with("lengths:"));
}

#[test]
fn distinct_records_are_known_from_the_order_or_counted() {
    let count = |order, count, threads| Action::Get(Ops { amount: Amount::Count(count), threads, ..ops(order) });
    let plan = plan(
        100,
        [
            count(Order::Shuffled, 30, 1),
            count(Order::Key, 250, 3),
            count(Order::Uniform, 10_000, 2),
            scan(Some(ScanLength::Fixed(1)), 5),
        ],
    );
    let distinct: Vec<_> = reports(&plan).into_iter().map(|report| report.distinct).collect();
    assert_eq!(distinct, [Some(30), Some(100), Some(100), None]);
}

#[test]
fn scans_return_the_rows_that_are_there() {
    let plan = plan(N, [put(), scan(None, 2), scan(Some(ScanLength::Fixed(5)), 10)]);
    let [_, whole, short] = reports(&plan).try_into().unwrap();
    assert_eq!((whole.operations, whole.rows, whole.user_bytes), (2, Some(2 * N), 2 * user_bytes()));
    assert_eq!((short.operations, short.rows), (10, Some(50)));
}

#[test]
fn compute_stores_what_it_misses_and_only_that() {
    for transaction in [Grouping::Each, Grouping::Batch(10), Grouping::Single] {
        let half = Ops { amount: Amount::Count(N / 2), ..ops(Order::Record) };
        let compute = Action::Compute(Ops { transaction, ..ops(Order::Record) });
        let plan = plan(N, [Action::Put(half), compute, Action::Verify]);
        let [_, computed, verified] = reports(&plan).try_into().unwrap();
        assert_eq!((computed.rows, computed.misses), (Some(N / 2), Some(N / 2)));
        assert_eq!((computed.operations, computed.user_bytes), (N, user_bytes()));
        assert_eq!(verified.verified.unwrap().exact, N);
    }
}

#[test]
fn compute_takes_a_read_transaction_and_a_write_transaction_where_it_misses() {
    let compute = || Action::Compute(ops(Order::Record));
    let [first, second] = reports(&plan(N, [compute(), compute()])).try_into().unwrap();
    assert_eq!((first.transactions, second.transactions), (2 * N, N));
}

#[test]
fn a_transaction_stays_open_over_phases_until_the_commit() {
    let open = || Ops { transaction: Grouping::Open, ..ops(Order::Shuffled) };
    let actions = [
        Action::Put(open()),
        get(Order::Record),
        Action::Pause(Nanos::from_nanos(1)),
        Action::Update(open()),
        Action::Verify,
        Action::Commit,
        get(Order::Key),
        Action::Verify,
        Action::Commit,
    ];
    let reports = reports(&plan(N, actions));
    assert_eq!(reports[1].rows, Some(N), "reads join the open transaction");
    assert_eq!((reports[0].transactions, reports[5].transactions, reports[8].transactions), (0, 1, 0));
    assert_eq!(reports[6].rows, Some(N));
    assert_eq!((reports[4].verified, &reports[4].answer), (reports[7].verified, &reports[7].answer));
    assert!(reports[8].notes[0].contains("nothing to commit"));
}

#[test]
fn writes_of_a_transaction_that_stays_open_are_carried_out_in_their_phase() {
    let open = Ops { transaction: Grouping::Open, ..ops(Order::Record) };
    let plan = option(plan(N, [Action::Put(open), Action::Commit]), "lie", OptionValue::Text("deliver".to_owned()));
    let (done, ended) = run::<true>(&plan);
    assert_eq!((done.len(), failure(&ended).0), (0, Some(0)));
}

#[test]
fn collected_writes_have_no_latency_but_their_commits_have() {
    let every = |transaction| Ops { transaction, sample: Sampling::Every, ..ops(Order::Record) };
    let actions = || [Grouping::Each, Grouping::Batch(7)].map(|grouping| Action::Put(every(grouping)));
    let timed = |done: &[PhaseReport]| {
        let names = |report: &PhaseReport| report.histograms.iter().map(|one| one.operation.clone()).collect();
        done.iter().map(|report| (names(report), report.no_latency.is_some())).collect::<Vec<(Vec<_>, _)>>()
    };
    let of = |names: &[&str], reason| (names.iter().map(|name| (*name).to_owned()).collect(), reason);
    let (done, _) = run::<false>(&plan(N, actions()));
    assert_eq!(timed(&done), [of(&["put"], false), of(&["commit"], true)]);
    let (done, _) = run::<true>(&plan(N, actions()));
    assert_eq!(timed(&done), [of(&["put"], false), of(&["put", "commit"], false)]);
}

#[test]
fn removals_that_found_nothing_are_counted_where_the_engine_reports_them() {
    let actions = || [put(), Action::Delete(ops(Order::Record)), Action::Delete(ops(Order::Record))];
    let misses = |done: &[PhaseReport]| done[1..].iter().map(|report| report.misses).collect::<Vec<_>>();
    assert_eq!(misses(&run::<true>(&plan(N, actions())).0), [Some(0), Some(N)]);
    assert_eq!(misses(&run::<false>(&plan(N, actions())).0), [None, None]);
}

#[test]
fn uncommitted_records_are_lost() {
    let open = Ops { transaction: Grouping::Open, ..ops(Order::Record) };
    let plan = plan(N, [Action::Put(open)]);
    reports(&plan);
    let again = super::Plan { spec: fake::plan(N, [get(Order::Record)]).spec, ..plan };
    assert_eq!(reports(&again)[0].misses, Some(N));
}

#[test]
fn phases_that_do_not_fit_an_open_transaction_are_refused() {
    let open = || Action::Put(Ops { transaction: Grouping::Open, ..ops(Order::Record) });
    let threads = Action::Get(Ops { threads: 2, ..ops(Order::Record) });
    for second in [Action::Close, Action::Reopen, Action::Persist, Action::Evict, put(), threads] {
        let (done, ended) = run::<true>(&plan(10, [open(), second]));
        let (index, kind, message) = failure(&ended);
        assert_eq!((done.len(), index, kind), (1, Some(1), Failure::Failed), "{message}");
        assert!(message.starts_with("`phase 1` cannot run: "), "{message}");
    }
    let (_, ended) = run::<false>(&plan(10, [open()]));
    assert_eq!(failure(&ended).1, Failure::Unsupported);
}

#[test]
fn what_an_engine_cannot_do_is_unsupported() {
    let batch = Ops { transaction: Grouping::Batch(5), ..ops(Order::Record) };
    let paced = Ops { rate: rate(1000.0), sample: Sampling::Group(5), ..ops(Order::Record) };
    assert_eq!(failure(&run::<false>(&plan(10, [Action::Compute(batch.clone())])).1).1, Failure::Unsupported);
    assert_eq!(failure(&run::<true>(&plan(10, [Action::Put(paced)])).1).1, Failure::Unsupported);
    let weights = MixWeights { read_modify_write: 1.0, ..MixWeights::default() };
    assert_eq!(failure(&run::<false>(&plan(10, [mix(weights, batch)])).1).1, Failure::Unsupported);
    let (done, ended) = run::<false>(&plan(10, [put(), mix(weights, ops(Order::Uniform))]));
    ended.unwrap();
    assert_eq!((done[1].operations, done[1].transactions), (10, 20), "a read and a write transaction each");
}

#[test]
fn verify_names_a_planted_fault() {
    let faults =
        [("wrong", "wrong byte"), ("short", "bytes instead of"), ("missing", "is missing"), ("extra", "`unknown`")];
    for (lie, text) in faults {
        for count in [0, 1] {
            let update = Action::Update(Ops { amount: Amount::Count(count), ..ops(Order::Uniform) });
            let plan = plan(N, [put(), update, Action::Persist, Action::Verify]);
            let (done, ended) = run::<true>(&option(plan, "lie", OptionValue::Text(lie.to_owned())));
            let (index, kind, message) = failure(&ended);
            assert_eq!((done.len(), index, kind), (3, Some(3), Failure::WrongAnswer), "{message}");
            assert!(message.contains(text), "{message}");
        }
    }
}

/// After a part of a pass in the default order any record could be missing or old, and an empty store was right.
#[test]
fn verify_finds_a_store_that_lost_its_rows_or_changes_after_a_part_of_a_pass() {
    let some = |order, threads| Ops { amount: Amount::Count(20), threads, ..ops(order) };
    let weights = MixWeights { update: 1.0, delete: 1.0, insert: 1.0, read: 1.0, ..MixWeights::default() };
    for (order, threads) in [(Order::Shuffled, 1), (Order::Shuffled, 3), (Order::Key, 1), (Order::Uniform, 1)] {
        let ops = || some(order, threads);
        for action in [Action::Delete(ops()), Action::Update(ops()), mix(weights, ops())] {
            for (lie, texts) in
                [("none", &[][..]), ("emptied", &["missing"]), ("undone", &["present", "wrong", "inst", "missing"])]
            {
                let plan = plan(300, [put(), Action::Persist, action.clone(), Action::Persist, Action::Verify]);
                let (reports, ended) = run::<true>(&option(plan, "lie", OptionValue::Text(lie.to_owned())));
                if lie == "none" {
                    ended.unwrap();
                    let verified = reports[4].verified.unwrap();
                    let one = threads == 1 || !matches!(action, Action::Mix(_));
                    assert!(!one || (verified.one_of_several, verified.may_be_absent) == (0, 0), "{verified:?}");
                    continue;
                }
                let (_, kind, message) = failure(&ended);
                assert_eq!(kind, Failure::WrongAnswer);
                assert!(texts.iter().any(|text| message.contains(text)), "{message}");
            }
        }
    }
}

#[test]
fn a_store_is_verified_behind_more_updates_than_there_are_versions() {
    let update = |phase: u64| {
        let amount = if phase.is_multiple_of(3) { Amount::Count(2 * N + 7) } else { Amount::Records };
        Action::Update(Ops { amount, ..ops(Order::Shuffled) })
    };
    let reports = reports(&plan(N, [put()].into_iter().chain((1..=70).map(update)).chain([Action::Verify])));
    let exact = Verified { exact: N, extra_rows: true, ..Verified::default() };
    assert_eq!(reports[71].verified, Some(exact));
}

#[test]
fn verify_says_where_it_cannot_be_strict() {
    let update = Action::Update(Ops { amount: Amount::Count(50), ..ops(Order::Zipfian { theta: 0.99 }) });
    let delete = Action::Delete(Ops { amount: Amount::Count(5), ..ops(Order::Shuffled) });
    let [_, _, deleted, verified] =
        reports(&plan(100, [put(), update.clone(), delete, Action::Verify])).try_into().unwrap();
    assert_eq!(deleted.misses, Some(0));
    let exact = Verified { exact: 100, extra_rows: true, ..Verified::default() };
    assert_eq!((verified.verified, verified.rows, verified.notes), (Some(exact), Some(95), Vec::new()));
    let failing = option(plan(100, [put(), update, Action::Verify]), "fail_every", OptionValue::Int(11));
    let verified = reports(&failing).pop().unwrap();
    let doubtful = verified.verified.unwrap();
    assert!(doubtful.exact > 0 && doubtful.one_of_several > 0 && doubtful.may_be_absent > 0, "{doubtful:?}");
    assert_eq!(verified.notes.len(), 2, "{:?}", verified.notes);
    let (unordered, ended) = run::<false>(&plan(10, [put(), Action::Verify]));
    ended.unwrap();
    assert_eq!(unordered[1].verified, Some(Verified { exact: 10, ..Verified::default() }));
}

#[test]
fn mixes_insert_where_the_last_one_ended_and_what_they_leave_is_verified() {
    let weights =
        MixWeights { read: 4.0, update: 2.0, insert: 2.0, scan: 1.0, read_modify_write: 1.0, ..MixWeights::default() };
    for (threads, transaction) in [(1, Grouping::Each), (1, Grouping::Batch(10)), (3, Grouping::Each)] {
        let with = Ops { threads, transaction, sample: Sampling::Every, ..ops(Order::Latest { theta: 0.99 }) };
        let plan = plan(500, [put(), mix(weights, with.clone()), mix(weights, with), Action::Verify]);
        let [_, first, second, verified] = reports(&plan).try_into().unwrap();
        let inserts: u64 = [&first, &second].iter().map(|report| succeeded(report, "insert")).sum();
        assert!(inserts > 0);
        assert_eq!(verified.rows, Some(500 + inserts));
        assert_eq!((first.operations, first.misses), (500, Some(0)));
        assert!(first.answer.unwrap().comparable == (threads == 1));
    }
}

fn succeeded(report: &PhaseReport, operation: &str) -> u64 {
    let same = report.histograms.iter().filter(|histogram| histogram.operation == operation);
    same.map(|histogram| Recorder::from_record(histogram).unwrap().succeeded()).sum()
}

#[test]
fn sampling_keeps_what_it_says() {
    let with = |sample, transaction| Action::Put(Ops { sample, transaction, ..ops(Order::Record) });
    let plan = plan(
        N,
        [
            with(Sampling::Every, Grouping::Batch(100)),
            with(Sampling::OneIn(7), Grouping::Each),
            with(Sampling::Group(10), Grouping::Batch(50)),
            with(Sampling::None, Grouping::Each),
        ],
    );
    let [every, one_in, groups, none] = reports(&plan).try_into().unwrap();
    assert_eq!((succeeded(&every, "put"), succeeded(&every, "commit")), (N, N / 100));
    // The last operations are fewer than 7.
    assert!([N / 7, N / 7 + 1].contains(&succeeded(&one_in, "put")));
    let recorded = groups.groups.unwrap();
    assert_eq!((recorded.operations, recorded.wall.len(), recorded.cpu.len()), (10, 300, 300));
    assert!(recorded.wall.iter().sum::<u64>() <= groups.time.as_nanos());
    assert!(none.histograms.is_empty() && none.groups.is_none());
}

/// It ended after 100 failures in a row, and its counts with it.
#[test]
fn phase_in_which_everything_fails_offers_all_operations() {
    for (transaction, threads) in [(Grouping::Each, 1), (Grouping::Batch(10), 1), (Grouping::Each, 3)] {
        let with = Ops { transaction, threads, amount: Amount::Count(N), ..ops(Order::Record) };
        let [put] =
            reports(&option(plan(N, [Action::Put(with)]), "fail_from", OptionValue::Int(51))).try_into().unwrap();
        assert_eq!((put.operations, put.errors), (50, N - 50));
    }
    let with = Ops { transaction: Grouping::Open, ..ops(Order::Record) };
    let (index, kind, message) =
        failure(&run::<true>(&option(plan(N, [Action::Put(with)]), "fail_from", OptionValue::Int(51))).1);
    assert_eq!((index, kind), (Some(0), Failure::Failed), "an open transaction is of no use after a failure");
    assert_eq!(message, "`fake` failed while storing a value: the disk is full");
}

#[test]
fn a_panic_in_one_client_ends_the_phase_for_all() {
    for lie in ["session", "put"] {
        let with = Ops { threads: 3, amount: Amount::Duration(Nanos::from_secs(3600)), ..ops(Order::Record) };
        let plan = option(plan(N, [Action::Put(with)]), "lie", OptionValue::Text(lie.to_owned()));
        let ended = std::panic::catch_unwind(|| run::<true>(&plan));
        assert!(ended.is_err(), "the panic is passed on");
    }
}

#[test]
fn a_duration_ends_and_its_answer_is_not_comparable() {
    let with = Ops {
        amount: Amount::Duration(Nanos::from_millis(20)),
        transaction: Grouping::Batch(100),
        ..ops(Order::Record)
    };
    let plan = plan(50, [Action::Put(with.clone()), Action::Get(with), Action::Verify]);
    let [put, get, verify] = reports(&plan).try_into().unwrap();
    assert!(put.operations > 0 && get.operations > 0);
    assert_eq!(put.transactions, put.operations.div_ceil(100));
    assert!(put.time + put.gap.unwrap() >= Nanos::from_millis(20));
    assert!(!get.answer.unwrap().comparable);
    assert_eq!(verify.verified.unwrap().exact, 50, "in record order it is known how far it came");
}

/// With a third of a processor, LMDB's reads took the same time as with two: the wait for it was in the gaps.
#[test]
fn wait_for_a_processor_after_preparing_is_in_the_time_of_the_operations() {
    let with = Ops { amount: Amount::Count(20_000), ..ops(Order::Record) };
    for report in reports(&plan(1000, [Action::Put(with.clone()), Action::Get(with)])) {
        let gap = report.gap.unwrap();
        assert!(gap > Nanos::ZERO && gap <= report.gap_cpu, "{gap} of {}", report.gap_cpu);
    }
}

fn rate(per_second: f64) -> Option<Arrivals> {
    PerSecond::new(per_second).map(|rate| Arrivals { rate, poisson: false })
}

#[test]
fn a_commit_after_the_last_chunk_is_recorded_too() {
    let with = Ops {
        amount: Amount::Duration(Nanos::from_millis(5)),
        transaction: Grouping::Single,
        sample: Sampling::Every,
        ..ops(Order::Record)
    };
    let [put] = reports(&plan(50, [Action::Put(with)])).try_into().unwrap();
    assert_eq!((put.transactions, succeeded(&put, "commit")), (1, 1));
}

#[test]
fn declared_pauses_are_part_of_the_time() {
    let pause = |millis| Some(PauseEvery { every: 10, time: Nanos::from_millis(millis) });
    let with = |millis| Ops {
        pause: pause(millis),
        sample: Sampling::Every,
        transaction: Grouping::Batch(10),
        ..ops(Order::Record)
    };
    let [slept, yielded] = reports(&plan(50, [Action::Put(with(3)), Action::Update(with(0))])).try_into().unwrap();
    assert!(slept.time >= Nanos::from_millis(4 * 3), "between five groups there are four pauses");
    assert_eq!((slept.operations, slept.transactions), (50, 5));
    assert_eq!(yielded.operations, 50);
}

#[test]
fn the_runner_leads() {
    let plan = plan(10, [put(), Action::Verify]);
    let asks = [ToWorker::Phase { index: 1 }, ToWorker::Phase { index: 0 }, ToWorker::Phase { index: 2 }].into();
    let mut script = Script { asks, ..Script::default() };
    let ended = host::<Fake<true>>(&mut script, &Still, &plan, &Progress::default());
    assert_eq!(failure(&ended).2, "the runner requested phase 2, which is not in the plan");
    let sent = script.sent.iter().map(|message| match message {
        FromWorker::Ready { version, .. } => ("ready", *version as usize),
        FromWorker::Prepared { index } => ("prepared", *index),
        FromWorker::Began { index, .. } => ("began", *index),
        FromWorker::Ended { index, .. } => ("ended", *index),
        _ => ("else", 0),
    });
    assert_eq!(
        sent.collect::<Vec<_>>(),
        [
            ("ready", VERSION as usize),
            ("prepared", 1),
            ("began", 1),
            ("ended", 1),
            ("prepared", 0),
            ("began", 0),
            ("ended", 0)
        ]
    );
    let mut link = Script::default();
    let ended = host::<Fake<true>>(&mut link, &Still, &plan, &Progress::default());
    assert!(matches!(ended.unwrap_err().cause, Stop::Link(_)));
}

#[test]
fn every_engine_of_the_build_gives_the_same_answers() {
    let batch = |order| Ops { transaction: Grouping::Batch(50), ..ops(order) };
    let weights =
        MixWeights { read: 2.0, update: 1.0, insert: 1.0, read_modify_write: 1.0, scan: 1.0, ..MixWeights::default() };
    let actions = [
        Action::Put(batch(Order::Record)),
        get(Order::Shuffled),
        Action::Update(batch(Order::Uniform)),
        mix(weights, ops(Order::Zipfian { theta: 0.99 })),
        Action::Delete(Ops { amount: Amount::Count(20), ..batch(Order::Shuffled) }),
        Action::Persist,
        Action::Compute(Ops { threads: 2, ..ops(Order::Record) }),
        scan(None, 1),
        Action::Verify,
    ];
    let plan = plan(300, actions);
    let expected = run::<true>(&plan).0;
    for known in KNOWN.iter().filter(|known| known.built) {
        if describe(known.name).unwrap().capabilities.server {
            // It would have to be started.
            continue;
        }
        let dir = tempfile::tempdir().unwrap();
        let plan = super::Plan { dir: dir.path().to_owned(), ..plan.clone() };
        let (reports, ended) =
            run_by(&plan, |link, machine, plan, progress| registry::host(known.name, link, machine, plan, progress));
        ended.unwrap_or_else(|error| panic!("{}: {error}", known.name));
        let own_writes = describe(known.name).unwrap().capabilities.reads_own_writes;
        for (report, expected) in reports.iter().zip(&expected) {
            // Without reads of own writes, a read-modify-write takes two transactions.
            let transactions = |r: &PhaseReport| if own_writes { r.transactions } else { 0 };
            let counts = |r: &PhaseReport| (r.operations, r.errors, transactions(r), r.rows, r.user_bytes, r.verified);
            assert_eq!(counts(report), counts(expected), "{}", known.name);
            assert_eq!(report.answer, expected.answer, "{}", known.name);
        }
        assert_eq!(reports.len(), expected.len());
    }
}
