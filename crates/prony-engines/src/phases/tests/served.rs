//! Tests phases on the store of `fake` as if it were a server.

use std::path::Path;

use prony_model::link::Progress;
use prony_model::protocol::{FromWorker, PhaseReport, ToWorker};
use prony_model::spec::{
    Action, Amount, DocumentSpec, Encoding, FindSpec, Operand, Ops, OptionValue, Order, QuerySpec, Sampling, StoreSpec,
    ValueSpec,
};
use prony_workload::Records;

use super::fake::{Fake, FakeStore, Script, Still, ops, option, plan, run_on};
use super::indexed::{N, documents, path, queries};
use super::{host, rate};
use crate::driver::{Capabilities, Description, Driver, EngineError, Settings, StoreFault, Table};
use crate::own_query::{Bound, OwnQuery};

/// A server that answers queries itself, and finds nothing.
struct Served;

impl Driver for Served {
    type Store = FakeStore;

    fn describe() -> Description {
        let engine = Fake::<true>::describe();
        let capabilities = Capabilities { server: true, own_documents: true, ..engine.capabilities };
        Description { capabilities, ..engine }
    }

    fn own_query(query: &QuerySpec, _: &DocumentSpec, _: &DocumentSpec, _: &Table) -> Option<OwnQuery> {
        let bound = query.compared().into_iter().map(|path| Bound::Whole(Operand::Document(path.clone())));
        Some(OwnQuery { text: "own".to_owned(), bound: bound.collect() })
    }

    fn check(spec: &StoreSpec) -> Result<Settings, Vec<StoreFault>> {
        Fake::<true>::check(spec)
    }

    fn open(dir: &Path, spec: &StoreSpec) -> Result<FakeStore, EngineError> {
        Fake::<true>::open(dir, spec)
    }
}

/// The CPU time of the worker was recorded as that of the server.
#[test]
fn cpu_time_of_the_worker_is_not_that_of_a_server() {
    for threads in [1, 2] {
        let grouped = Ops { sample: Sampling::Group(10), threads, ..ops(Order::Record) };
        let paced = Ops { rate: rate(20_000.0), threads, amount: Amount::Count(10), ..ops(Order::Record) };
        let (reports, ended) = run_on::<Served>(&plan(N, [Action::Put(grouped), Action::Put(paced)]));
        ended.unwrap();
        let recorded = reports[0].groups.clone().unwrap();
        assert_eq!((recorded.wall.len(), recorded.cpu), (N as usize / 10, Vec::new()));
        assert!(reports[1].notes.is_empty(), "busy waiting of the worker is none of the server");
    }
}

/// The plan was that of empty values, and of the begin alone; then the second question was in the phase, as the server's work.
#[test]
fn plan_of_a_server_is_that_of_the_first_operation_at_the_begin_and_after_the_phase() {
    for (threads, lie) in [(1, "none"), (3, "none"), (1, "replan"), (3, "replan")] {
        let Action::Find(FindSpec { ops, mut queries }) = queries() else { panic!("no queries") };
        queries.truncate(1);
        let find = Action::Find(FindSpec { ops: Ops { threads, order: Order::Record, ..ops }, queries });
        let actions = [find.clone(), Action::Persist, find];
        let mut plan = option(documents(plan(N, actions), &[]), "lie", OptionValue::Text(lie.to_owned()));
        let ValueSpec::Document(spec) = &mut plan.spec.data[0].value else { panic!("no documents") };
        spec.encoding = Encoding::Json;
        let first = Records::new(&plan.spec.data[0], plan.seed).unwrap().document(0, 0).unwrap();
        let value = first.at(&path("n").0).cloned().unwrap();
        let asks = (0..3).map(|index| ToWorker::Phase { index }).chain([ToWorker::Stop]).collect();
        let mut script = Script { asks, ..Script::default() };
        host::<Served>(&mut script, &Still, &plan, &Progress::default()).unwrap();
        let of = |number: u32| format!("plan: own {number} of {:?}", [&value]);
        let changed = |from: u32| {
            let (begin, end) = (of(from), of(from + 1));
            format!("the plans at the begin of the phase and after it differ: at its begin, {begin}; after it, {end}")
        };
        let asked = |report: &PhaseReport| report.engine_counters["explained"];
        let sent = script.sent.iter().filter_map(|message| match message {
            FromWorker::Ended { index, report, .. } => Some((*index, asked(report), report.plan.clone())),
            FromWorker::Planned { index, background: false, plan } => Some((*index, 0.0, Some(plan.clone()))),
            _ => None,
        });
        // By the end of a phase it was asked for at the begins of this one and of those before, and after these.
        let expected = if lie == "replan" {
            let [one, three] = [of(1), of(3)].map(Some);
            let [first, last] = [changed(1), changed(3)].map(Some);
            vec![(0, 1.0, one), (0, 0.0, first), (1, 2.0, None), (2, 3.0, three), (2, 0.0, last)]
        } else {
            vec![(0, 1.0, Some(of(0))), (1, 2.0, None), (2, 3.0, Some(of(0)))]
        };
        assert_eq!(sent.collect::<Vec<_>>(), expected, "{threads} {lie}");
    }
}

/// A server connects in the time of `reopen`; the rest is prony's own work, and stays in other figures.
#[test]
fn reopening_a_server_says_what_is_not_in_its_time() {
    let (reports, ended) = run_on::<Served>(&plan(N, [Action::Reopen]));
    ended.unwrap();
    assert!(
        reports[0].notes.iter().any(|note| note.contains("not in `time`, but in `wall`")),
        "{:?}",
        reports[0].notes
    );
}
