//! Tests phases on the store of `fake` as if it were a server.

use std::path::Path;

use prony_model::spec::{
    Action, Amount, DocumentSpec, Encoding, FindSpec, Operand, Ops, OptionValue, Order, QuerySpec, Sampling, StoreSpec,
    ValueSpec,
};
use prony_workload::Records;

use super::fake::{Fake, FakeStore, ops, option, plan, run_on};
use super::indexed::{N, documents, path, queries};
use super::rate;
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

/// The plan was that of empty values, and of the begin alone.
#[test]
fn plan_of_a_server_is_that_of_the_first_operation_at_begin_and_end() {
    for (threads, lie) in [(1, "none"), (3, "none"), (1, "replan"), (3, "replan")] {
        let Action::Find(FindSpec { ops, mut queries }) = queries() else { panic!("no queries") };
        queries.truncate(1);
        let find = Action::Find(FindSpec { ops: Ops { threads, order: Order::Record, ..ops }, queries });
        let mut plan = option(documents(plan(N, [find]), &[]), "lie", OptionValue::Text(lie.to_owned()));
        let ValueSpec::Document(spec) = &mut plan.spec.data[0].value else { panic!("no documents") };
        spec.encoding = Encoding::Json;
        let first = Records::new(&plan.spec.data[0], plan.seed).unwrap().document(0, 0).unwrap();
        let value = first.at(&path("n").0).cloned().unwrap();
        let (reports, ended) = run_on::<Served>(&plan);
        ended.unwrap();
        let of = |number: u32| format!("plan: own {number} of {:?}", [&value]);
        let changed = || {
            format!(
                "the plans at the begin and at the end of the phase differ: at its begin, {}; at its end, {}",
                of(1),
                of(2)
            )
        };
        assert_eq!(reports[0].plan, Some(if lie == "replan" { changed() } else { of(0) }));
    }
}
