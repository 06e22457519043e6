//! Tests of what records may hold after phases, against a model.

use prony_model::spec::{MixWeights, ScanLength};
use prony_workload::{Mix, Operation};

use super::*;
use crate::phases::tests::fake::{ops, records};

fn note(ledger: &mut Ledger, action: Action, counts: &[u64]) {
    let inserted = &vec![0; counts.len()];
    let failed = Some(&RecordSet::default());
    ledger.note(
        &Done { action: &action, seed: 3, counts, inserted, failed, admitted: None, alternates: false },
        &records(10),
    );
}

fn set(numbers: &[u64]) -> RecordSet {
    let mut set = RecordSet::default();
    numbers.iter().for_each(|number| set.add(*number));
    set
}

fn states(ledger: &Ledger) -> Vec<(bool, Vec<u32>)> {
    (0..ledger.end(10)).map(|n| ledger.state(n, 10)).map(|s| (s.absent, s.versions().collect())).collect()
}

#[test]
fn whole_passes_leave_no_doubt() {
    let mut ledger = Ledger::default();
    note(&mut ledger, Action::Put(ops(Order::Shuffled)), &[5, 5]);
    note(&mut ledger, Action::Update(ops(Order::Key)), &[10]);
    assert_eq!(states(&ledger), vec![(false, vec![1]); 10]);
    note(&mut ledger, Action::Delete(ops(Order::Record)), &[3]);
    note(&mut ledger, Action::Update(ops(Order::Record)), &[1]);
    let states = states(&ledger);
    assert_eq!(states[0], (false, vec![3]));
    assert_eq!(states[1..3], vec![(true, vec![]); 2]);
    assert_eq!(states[3..], vec![(false, vec![1]); 7]);
}

#[test]
fn stripes_of_several_clients_are_distinguished() {
    let mut ledger = Ledger::default();
    note(&mut ledger, Action::Put(ops(Order::Record)), &[3, 1]);
    let present: Vec<u64> = (0..10).filter(|n| !ledger.state(*n, 10).absent).collect();
    assert_eq!(present, [0, 1, 2, 4]);
}

/// The first numbers of each client of a phase, in an order.
fn drawn(order: &Order, counts: &[u64]) -> Vec<u64> {
    let clients = counts.iter().zip(0..).flat_map(|(count, index)| {
        let share = Share::new(index, counts.len() as u32);
        let mut numbers = prony_workload::Positions::new(order, &records(10), 3, share);
        (0..*count).map(move |_| numbers.next())
    });
    let mut all: Vec<u64> = clients.collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// A part of a shuffled pass was any part of it, so that a store without a single row was right after a `delete` of some.
#[test]
fn records_of_a_part_of_a_pass_or_of_random_draws_are_drawn_again() {
    for (order, counts) in [
        (Order::Shuffled, &[3][..]),
        (Order::Shuffled, &[2, 1, 2]),
        (Order::Key, &[1, 3]),
        (Order::Uniform, &[4]),
        (Order::Uniform, &[40, 30]),
        (Order::Zipfian { theta: 0.99 }, &[2, 5]),
    ] {
        let mut ledger = Ledger::default();
        note(&mut ledger, Action::Put(ops(Order::Record)), &[10]);
        note(&mut ledger, Action::Update(ops(order)), counts);
        assert_eq!(states(&ledger), vec![(false, vec![0, 1]); 10], "not before it is needed");
        note(&mut ledger, Action::Delete(ops(order)), counts);
        ledger.draw_again(&records(10));
        let touched = drawn(&order, counts);
        let of = |number| if touched.contains(&number) { (true, vec![]) } else { (false, vec![0]) };
        assert_eq!(states(&ledger), (0..10).map(of).collect::<Vec<_>>(), "{order:?} {counts:?}");
        note(&mut ledger, Action::Compute(ops(Order::Shuffled)), &[10]);
        assert_eq!(states(&ledger), vec![(false, vec![0]); 10]);
    }
}

#[test]
fn failed_operations_make_their_records_doubtful_or_all_where_they_are_not_known() {
    let action = Action::Put(ops(Order::Record));
    let noted = |failed: Option<&RecordSet>| {
        let mut ledger = Ledger::default();
        let done =
            Done { action: &action, seed: 3, counts: &[10], inserted: &[0], failed, admitted: None, alternates: false };
        ledger.note(&done, &records(10));
        states(&ledger)
    };
    let mut known = vec![(false, vec![0]); 10];
    (known[3], known[7]) = ((true, vec![0]), (true, vec![0]));
    assert_eq!(noted(Some(&set(&[3, 7]))), known);
    assert_eq!(noted(None), vec![(true, vec![0]); 10]);
}

#[test]
fn refused_operations_leave_their_records_as_they_were() {
    let mut ledger = Ledger::default();
    note(&mut ledger, Action::Put(ops(Order::Record)), &[8]);
    let checked = |ledger: &mut Ledger, action: Action, numbers: &[u64], failed: Option<&RecordSet>| {
        let admitted = Some(&set(numbers));
        let done =
            Done { action: &action, seed: 3, counts: &[10], inserted: &[0], failed, admitted, alternates: false };
        ledger.note(&done, &records(10));
    };
    let none = Some(set(&[]));
    checked(&mut ledger, Action::Update(ops(Order::Uniform)), &[0, 9], none.as_ref());
    checked(&mut ledger, Action::Delete(ops(Order::Shuffled)), &[1], none.as_ref());
    let updated = (false, vec![1]);
    let mut known = vec![(false, vec![0]); 8];
    (known[0], known[1]) = (updated.clone(), (true, vec![]));
    known.extend([(true, vec![]), updated]);
    assert_eq!(states(&ledger), known, "the order says nothing, the refusals all");
    checked(&mut ledger, Action::Update(ops(Order::Uniform)), &[2, 3], Some(&set(&[2, 5])));
    (known[2], known[3]) = ((false, vec![0, 3]), (false, vec![3]));
    assert_eq!(states(&ledger), known, "2 failed, and what failed of 5 was refused too");
    checked(&mut ledger, Action::Delete(ops(Order::Uniform)), &[3], None);
    known[3] = (true, vec![3]);
    assert_eq!(states(&ledger), known, "of those that were not refused some failed");
}

/// Updates that came to a record again wrote the same bytes, for which some engines write nothing.
#[test]
fn updates_of_one_client_write_two_versions_in_turn() {
    for (order, count) in [(Order::Uniform, 40), (Order::Shuffled, 25), (Order::Record, 13)] {
        let mut ledger = Ledger::default();
        note(&mut ledger, Action::Put(ops(Order::Record)), &[10]);
        let action = Action::Update(ops(order));
        let (failed, counts) = (Some(&set(&[4])), &[count][..]);
        let done = Done { action: &action, seed: 3, counts, inserted: &[0], failed, admitted: None, alternates: true };
        ledger.note(&done, &records(10));
        assert_eq!(ledger.next_version(), 3);
        assert_eq!(states(&ledger), vec![(false, vec![0, 1, 2]); 10], "not before it is needed");
        ledger.draw_again(&records(10));
        let mut numbers = prony_workload::Positions::new(&order, &records(10), 3, Share::new(0, 1));
        let all: Vec<u64> = (0..count).map(|_| numbers.next()).collect();
        let of = |number| match all.iter().filter(|one| **one == number).count() {
            _ if number == 4 => vec![0, 1, 2],
            0 => vec![0],
            times => vec![2 - times as u32 % 2],
        };
        assert_eq!(states(&ledger), (0..10).map(|n| (false, of(n))).collect::<Vec<_>>(), "{order:?}");
    }
}

/// Of two variants the one checked references, so that its updates wrote one version, and the other did not: both were right, and
/// their answers differed after a second pass.
#[test]
fn updates_use_up_as_many_versions_whether_they_write_two_in_turn_or_one() {
    let passes = |alternates| {
        let mut ledger = Ledger::default();
        note(&mut ledger, Action::Put(ops(Order::Record)), &[10]);
        for order in [Order::Record, Order::Shuffled] {
            let action = Action::Update(ops(order));
            let (failed, counts) = (Some(&set(&[])), &[10][..]);
            let done = Done { action: &action, seed: 3, counts, inserted: &[0], failed, admitted: None, alternates };
            ledger.note(&done, &records(10));
        }
        (states(&ledger), ledger.next_version())
    };
    assert_eq!(passes(true), passes(false));
}

/// From the 65th updating phase on, each wrote what the one before had written.
#[test]
fn every_updating_phase_writes_other_versions_than_the_one_before() {
    let (mut ledger, mut before) = (Ledger::default(), vec![0]);
    note(&mut ledger, Action::Put(ops(Order::Record)), &[10]);
    for phase in 1..=300 {
        let version = ledger.next_version();
        assert!(!before.contains(&version), "phase {phase} writes version {version}");
        note(&mut ledger, Action::Update(ops(Order::Record)), &[10]);
        assert_eq!(states(&ledger), vec![(false, vec![version]); 10], "phase {phase}");
        before = vec![version, version + 1];
    }
}

/// Notes a mix of two clients behind a pass that stored ten records; its operations, by client.
fn mixed(ledger: &mut Ledger, weights: MixWeights, failed: Option<&RecordSet>) -> [Vec<Operation>; 2] {
    note(ledger, Action::Put(ops(Order::Record)), &[10]);
    let mix = MixSpec { ops: ops(Order::Zipfian { theta: 0.99 }), weights, scan_length: ScanLength::Fixed(1) };
    let operations = [0, 1].map(|index| {
        let mut mix = Mix::new(&mix, &records(10), 3, Share::new(index, 2));
        (0..20).map(|_| mix.next()).collect::<Vec<_>>()
    });
    let inserts =
        |of: &Vec<Operation>| of.iter().filter(|operation| matches!(operation, Operation::Insert(_))).count() as u64;
    let inserted = operations.each_ref().map(inserts);
    let action = Action::Mix(mix);
    let done = Done {
        action: &action,
        seed: 3,
        counts: &[20, 20],
        inserted: &inserted,
        failed,
        admitted: None,
        alternates: false,
    };
    ledger.note(&done, &records(10));
    operations
}

#[test]
fn a_mix_inserts_and_updates_exactly_its_numbers() {
    let weights = MixWeights { insert: 1.0, update: 1.0, read: 1.0, ..MixWeights::default() };
    let mut ledger = Ledger::default();
    let operations = mixed(&mut ledger, weights, Some(&set(&[])));
    assert!(states(&ledger)[..10].iter().all(|state| *state == (false, vec![0, 1])), "not before it is needed");
    ledger.draw_again(&records(10));
    let all = || operations.iter().flatten();
    let of = |number| match (all().any(|o| *o == Operation::Update(number)), number) {
        (true, _) => (false, vec![1]),
        (false, 10..) if !all().any(|o| *o == Operation::Insert(number)) => (true, vec![]),
        _ => (false, vec![0]),
    };
    let wanted: Vec<_> = (0..ledger.end(10)).map(of).collect();
    assert!(wanted.contains(&(false, vec![1])) && wanted.contains(&(false, vec![0])) && wanted.len() > 10);
    assert_eq!(states(&ledger), wanted);
    assert_eq!(ledger.next_version(), 3);
}

#[test]
fn the_last_change_of_a_client_counts_and_that_of_any_of_several() {
    let weights = MixWeights { update: 1.0, delete: 1.0, ..MixWeights::default() };
    let mut ledger = Ledger::default();
    let operations = mixed(&mut ledger, weights, Some(&set(&[7])));
    ledger.draw_again(&records(10));
    let last = |client: &[Operation], number| {
        let mut own = client.iter().rev().map(|o| match o {
            Operation::Update(n) => (*n, false),
            Operation::Delete(n) => (*n, true),
            other => panic!("{other:?}"),
        });
        own.find_map(|(n, removes)| (n == number).then_some(removes))
    };
    let mut several = 0;
    for (number, state) in (0..10).zip(states(&ledger)) {
        let ends: Vec<bool> = operations.iter().filter_map(|client| last(client, number)).collect();
        several += usize::from(ends.contains(&true) && ends.contains(&false));
        let mut wanted = (ends.contains(&true), if ends.contains(&false) { vec![1] } else { vec![] });
        match (ends.is_empty(), number) {
            (_, 7) => wanted = (true, vec![0, 1]),
            (true, _) => wanted = (false, vec![0]),
            _ => {}
        }
        assert_eq!(state, wanted, "record {number}");
    }
    assert!(several > 0, "else nothing is shown: {operations:?}");
}
