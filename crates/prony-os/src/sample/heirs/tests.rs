//! Tests of who inherits, on trees that are written down and against a model of the kernel.

use prony_model::units::Nanos;
use proptest::prelude::*;

use super::*;

/// Whom prony does not observe: the parent of the first process of each tree, and of orphans that no process of it adopts.
const OUTSIDE: u32 = 1;

fn counters(cpu_ms: u64, faults: u64) -> Counters {
    Counters { cpu_user: Nanos::from_millis(cpu_ms), minor_faults: faults, ..Counters::default() }
}

/// A process with its parent, which runs and has inherited these.
fn runs(pid: u32, parent: u32, gained: (u64, u64)) -> (u32, Kin) {
    let gained = Amounts::of(&counters(gained.0, gained.1));
    (pid, Kin { role: "worker".to_owned(), parent, runs: true, gained, adopts: false })
}

/// One that has ended.
fn ended(pid: u32, parent: u32, gained: (u64, u64)) -> (u32, Kin) {
    let (pid, kin) = runs(pid, parent, gained);
    (pid, Kin { runs: false, ..kin })
}

/// Who inherited the counters of processes, which were last read so.
fn found<const N: usize, const M: usize>(last: [(u32, (u64, u64)); N], all: [(u32, Kin); M]) -> Vec<(u32, u32)> {
    let last = last.map(|(pid, (cpu, faults))| (pid, Amounts::of(&counters(cpu, faults))));
    heirs(&last.into(), &all.into()).into_iter().collect()
}

/// A daemon of 5 s that init or a supervisor waits for, while a shell waits for ten processes that no sample showed.
#[test]
fn orphan_is_inherited_by_no_process_that_is_not_its_ancestor() {
    let shell = || runs(10, OUTSIDE, (5_100, 1_200));
    assert_eq!(found([(20, (5_000, 800))], [shell(), ended(20, OUTSIDE, (0, 0))]), []);
    assert_eq!(found([(20, (5_000, 800))], [shell(), ended(20, 99, (0, 0))]), [], "of an unknown parent");
    assert_eq!(found([(20, (5_000, 800))], [shell(), ended(20, 10, (0, 0))]), [(20, 10)], "of the shell itself");
}

#[test]
fn parent_has_inherited_no_less_than_was_read_of_each_amount() {
    let of = |gained| found([(20, (50, 800))], [runs(10, OUTSIDE, gained), ended(20, 10, (0, 0))]);
    assert_eq!((of((50, 800)), of((60, 900))), (vec![(20, 10)], vec![(20, 10)]));
    assert_eq!((of((49, 900)), of((60, 799)), of((0, 0))), (vec![], vec![], vec![]));
    // One of two that end was waited for.
    let two = [runs(10, OUTSIDE, (20, 60)), ended(20, 10, (0, 0)), ended(21, 10, (0, 0))];
    assert_eq!(found([(20, (30, 900)), (21, (20, 60))], two), [(21, 10)]);
}

/// Where a child and its parent end in one round, amounts may fit neither: 524,288 bytes were counted twice in 2 of 13 trials.
#[test]
fn supervisor_that_adopts_has_inherited_what_nobody_else_has() {
    let of = |adopts| {
        let supervisor = (2, Kin { adopts, ..runs(2, 0, (10, 900)).1 });
        let all = BTreeMap::from([supervisor, runs(10, OUTSIDE, (0, 0)), ended(20, 2, (0, 0))]);
        let mut rounds = BTreeMap::new();
        bank(&mut rounds, &[(20, counters(20, 100))].into(), &all);
        ["", "worker"].map(|scope| rounds[scope].ended.minor_faults)
    };
    assert_eq!((of(false), of(true)), ([100, 100], [0, 0]));
}

/// A shell and its child end in one round, and the process above has inherited both, or only the shell.
#[test]
fn parent_that_ended_too_may_have_inherited_before() {
    let shell = |gained| [runs(10, OUTSIDE, gained), ended(20, 10, (0, 0)), ended(30, 20, (0, 0))];
    let last = [(20, (10, 100)), (30, (5_000, 800))];
    assert_eq!(found(last, shell((5_010, 900))), [(20, 10), (30, 10)]);
    assert_eq!(found(last, shell((40, 900))), [(20, 10)], "the child was an orphan when it ended");
    assert_eq!(found(last, shell((5_005, 2_000))), [(20, 10)], "it fits only without the shell");
}

/// The shell was read once more in the same round, after it had waited for its child and before it ended itself.
#[test]
fn what_a_parent_was_read_to_have_inherited_is_in_its_own_counters() {
    let all = |above| [above, ended(20, 10, (5_000, 800)), ended(30, 20, (0, 0))];
    let last = [(20, (5_010, 900)), (30, (5_000, 800))];
    assert_eq!(found(last, all(runs(10, OUTSIDE, (5_010, 900)))), [(20, 10), (30, 20)]);
    assert_eq!(found(last, all(ended(10, OUTSIDE, (0, 0)))), [(30, 20)], "nobody inherited the shell");
}

#[test]
fn orphan_may_be_inherited_by_an_ancestor_that_adopts() {
    let all = [runs(10, OUTSIDE, (70, 300)), runs(20, 10, (5, 50)), ended(30, 20, (0, 0)), ended(40, 30, (0, 0))];
    assert_eq!(found([(30, (5, 50)), (40, (70, 300))], all), [(30, 20), (40, 10)]);
}

/// It ignores SIGCHLD, and its own parent waits for other processes.
#[test]
fn child_of_a_process_that_runs_is_inherited_by_no_other() {
    let all = [runs(10, OUTSIDE, (900, 5_000)), runs(20, 10, (0, 0)), ended(30, 20, (0, 0))];
    assert_eq!(found([(30, (50, 800))], all), []);
}

/// 200 MB that a child had written whose parent had set SA_NOCLDWAIT were said to be with the supervisor: `written` was 0.
#[test]
fn what_a_parent_that_runs_has_not_inherited_is_lost() {
    let of = |parent: (u32, Kin)| {
        let supervisor = (2, Kin { adopts: true, ..runs(2, 0, (0, 0)).1 });
        let all = BTreeMap::from([supervisor, parent, ended(30, 20, (0, 0))]);
        let mut rounds = BTreeMap::new();
        bank(&mut rounds, &[(30, counters(50, 800))].into(), &all);
        ["", "worker"].map(|scope| (rounds[scope].ended.minor_faults, rounds[scope].ended.ignores_children))
    };
    assert_eq!(of(runs(20, OUTSIDE, (0, 0))), [(800, 1); 2]);
    assert_eq!(of(runs(20, OUTSIDE, (50, 800))), [(0, 0); 2], "it waited");
    assert_eq!(of(ended(20, OUTSIDE, (0, 0))), [(0, 0); 2], "the child was an orphan, and the supervisor waited");
}

#[test]
fn of_several_that_may_have_been_inherited_the_largest_are_taken() {
    let shell =
        || [runs(10, OUTSIDE, (5_030, 1_000)), ended(20, 10, (0, 0)), ended(30, 20, (0, 0)), ended(31, 20, (0, 0))];
    assert_eq!(found([(20, (10, 100)), (30, (40, 80)), (31, (5_000, 850))], shell()), [(20, 10), (31, 10)]);
    assert_eq!(found([(20, (10, 100)), (30, (5_000, 850)), (31, (40, 80))], shell()), [(20, 10), (30, 10)]);
}

#[test]
fn loop_of_parents_ends() {
    let all = [ended(20, 30, (0, 0)), ended(30, 20, (0, 0)), ended(40, 40, (0, 0))];
    assert_eq!(found([(20, (1, 1)), (30, (1, 1)), (40, (1, 1))], all), []);
}

#[test]
fn child_of_another_role_is_banked_in_its_own_role_only() {
    let (pid, service) = ended(20, 10, (0, 0));
    let all = [runs(10, OUTSIDE, (50, 800)), (pid, Kin { role: "service".to_owned(), ..service })].into();
    let last = Counters { switches_voluntary: 3, ..counters(50, 800) };
    let mut rounds = BTreeMap::new();
    bank(&mut rounds, &[(20, last.clone())].into(), &all);
    assert_eq!((&rounds["service"].ended, &rounds[""].ended), (&last, &last.never_inherited()));
    assert!(!rounds.contains_key("worker"));
}

/// A process in the kernel.
#[derive(Clone, Debug)]
struct Modelled {
    parent: u32,
    /// It waits for its children sooner or later; it ignores SIGCHLD otherwise.
    waits: bool,
    /// It adopts orphans below it, and waits for each child at once.
    adopts: bool,
    /// It has ended, and nobody has waited for it.
    is_zombie: bool,
    own: Counters,
    inherited: Counters,
    /// What it had inherited by the last round.
    before: Amounts,
    /// What was last read of it; `None` before the first time.
    read: Option<Read>,
}

#[derive(Clone, Debug)]
struct Read {
    parent: u32,
    runs: bool,
    own: Counters,
    inherited: Counters,
}

/// What happens between two readings; `at` picks a living process.
#[derive(Clone, Debug)]
enum Step {
    Fork { at: usize, waits: bool, adopts: bool },
    Use { at: usize, cpu_ms: u64, faults: u64 },
    Exit { at: usize },
    Wait { at: usize },
}

/// The processes of a tree, as the kernel has them, with what a sampler reads of them.
#[derive(Debug, Default)]
struct Kernel {
    /// Each process waits for its children, and none ends before them.
    is_orderly: bool,
    all: BTreeMap<u32, Modelled>,
    /// Those for which somebody has waited since the last round.
    reaped: BTreeMap<u32, Modelled>,
    forked: u32,
    /// What all together have used.
    truth: Counters,
    /// What each had used itself when it was last read.
    sampled: BTreeMap<u32, Counters>,
    ledger: Counters,
}

impl Kernel {
    fn new(is_orderly: bool) -> Self {
        let mut kernel = Self { is_orderly, ..Self::default() };
        kernel.fork(OUTSIDE, true, false);
        kernel
    }

    fn step(&mut self, step: &Step) {
        let living: Vec<u32> = self.all.iter().filter(|(_, one)| !one.is_zombie).map(|(pid, _)| *pid).collect();
        let pick = |at: usize| living.get(at % living.len().max(1)).copied();
        match *step {
            Step::Fork { at, waits, adopts } => {
                let waits = waits || adopts || self.is_orderly;
                pick(at).into_iter().for_each(|parent| self.fork(parent, waits, adopts));
            }
            Step::Use { at, cpu_ms, faults } => pick(at).into_iter().for_each(|pid| self.uses(pid, cpu_ms, faults)),
            Step::Exit { at } => pick(at).into_iter().for_each(|pid| self.exit(pid)),
            Step::Wait { at } => pick(at).into_iter().for_each(|pid| self.wait(pid)),
        }
    }

    fn fork(&mut self, parent: u32, waits: bool, adopts: bool) {
        self.forked += 1;
        let pid = OUTSIDE + self.forked;
        let (own, inherited, before) = (Counters::default(), Counters::default(), Amounts::default());
        self.all.insert(pid, Modelled { parent, waits, adopts, is_zombie: false, own, inherited, before, read: None });
        self.uses(pid, 0, 30);
    }

    fn uses(&mut self, pid: u32, cpu_ms: u64, faults: u64) {
        let used = counters(cpu_ms, faults);
        self.truth = self.truth.plus(&used);
        let one = self.all.get_mut(&pid).unwrap();
        one.own = one.own.plus(&used);
    }

    fn children(&self, pid: u32) -> Vec<u32> {
        self.all.iter().filter(|(_, one)| one.parent == pid).map(|(pid, _)| *pid).collect()
    }

    fn exit(&mut self, pid: u32) {
        let children = self.children(pid);
        if self.is_orderly && !children.is_empty() {
            return;
        }
        let above = successors(Some(self.all[&pid].parent), |parent| Some(self.all.get(parent)?.parent));
        let adopts = |parent: &u32| self.all.get(parent).is_none_or(|one| one.adopts && !one.is_zombie);
        let adopter = above.into_iter().find(adopts).unwrap_or(OUTSIDE);
        self.all.get_mut(&pid).unwrap().is_zombie = true;
        for child in children {
            self.all.get_mut(&child).unwrap().parent = adopter;
        }
        // Those that adopt wait at once, and so do those outside.
        let reaped = |(_, one): &(&u32, &Modelled)| {
            let parent = self.all.get(&one.parent);
            one.is_zombie && parent.is_none_or(|parent| parent.adopts || !parent.waits)
        };
        let reaped: Vec<u32> = self.all.iter().filter(reaped).map(|(pid, _)| *pid).collect();
        reaped.into_iter().for_each(|pid| self.reap(pid));
    }

    fn wait(&mut self, pid: u32) {
        let ended = self.children(pid).into_iter().filter(|child| self.all[child].is_zombie);
        ended.collect::<Vec<_>>().into_iter().for_each(|child| self.reap(child));
    }

    fn reap(&mut self, pid: u32) {
        let Some(one) = self.all.remove(&pid) else { return };
        if let Some(parent) = self.all.get_mut(&one.parent).filter(|parent| parent.waits) {
            parent.inherited = parent.inherited.plus(&one.own).plus(&one.inherited);
        }
        self.reaped.insert(pid, one);
    }

    /// Reads all processes, or again those that were read before.
    fn read(&mut self, again: bool) {
        for (pid, one) in self.all.iter_mut().filter(|(_, one)| !again || one.read.is_some()) {
            if one.read.is_none() {
                one.before = Amounts::of(&one.inherited);
            }
            let Modelled { parent, own, inherited, .. } = one.clone();
            self.sampled.insert(*pid, own.clone());
            one.read = Some(Read { parent, runs: !one.is_zombie, own, inherited });
        }
    }

    /// One round, in the course of which something happens; the total of the tree.
    fn round(&mut self, meanwhile: &[Step]) -> Counters {
        self.read(false);
        meanwhile.iter().for_each(|step| self.step(step));
        self.read(true);
        let (mut kin, mut ended, mut live) = (BTreeMap::new(), BTreeMap::new(), Counters::default());
        let reaped = std::mem::take(&mut self.reaped);
        for (pid, one, was_reaped) in
            reaped.iter().map(|(pid, one)| (pid, one, true)).chain(self.all.iter().map(|(pid, one)| (pid, one, false)))
        {
            let Some(read) = &one.read else { continue };
            let gained = Amounts::of(&read.inherited).since(one.before);
            let (role, runs) = ("worker".to_owned(), read.runs && !was_reaped);
            kin.insert(*pid, Kin { role, parent: read.parent, runs, gained, adopts: false });
            let last = read.own.plus(&read.inherited);
            if was_reaped {
                ended.insert(*pid, last);
            } else {
                live = live.plus(&last);
            }
        }
        for one in self.all.values_mut() {
            one.before = one.read.as_ref().map(|read| Amounts::of(&read.inherited)).unwrap_or_default();
        }
        let mut rounds = BTreeMap::new();
        bank(&mut rounds, &ended, &kin);
        self.ledger = rounds.remove("").unwrap_or_default().ended.plus(&self.ledger);
        live.plus(&self.ledger)
    }
}

fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0..9usize, prop::bool::weighted(0.8), prop::bool::weighted(0.1))
            .prop_map(|(at, waits, adopts)| Step::Fork { at, waits, adopts }),
        3 => (0..9usize, 0..500u64, 0..300u64).prop_map(|(at, cpu_ms, faults)| Step::Use { at, cpu_ms, faults }),
        2 => (0..9usize).prop_map(|at| Step::Exit { at }),
        2 => (0..9usize).prop_map(|at| Step::Wait { at }),
    ];
    prop::collection::vec(step, 0..most)
}

fn rounds() -> impl Strategy<Value = Vec<(Vec<Step>, Vec<Step>)>> {
    prop::collection::vec((steps(12), steps(4)), 1..8)
}

/// Whether there is at least as much of each.
fn covers(all: &Counters, part: &Counters) -> bool {
    Amounts::of(all).without(Amounts::of(part)).is_some()
}

proptest! {
    /// Whoever ends before whom, and whether anybody waits: totals never fall, and have all that was read.
    #[test]
    fn nothing_that_was_read_is_lost(rounds in rounds()) {
        let mut kernel = Kernel::new(false);
        let mut before = Counters::default();
        for (between, meanwhile) in &rounds {
            between.iter().for_each(|step| kernel.step(step));
            let total = kernel.round(meanwhile);
            let sampled = kernel.sampled.values().fold(Counters::default(), |sum, own| sum.plus(own));
            prop_assert!(covers(&total, &sampled), "{total:?} lacks of {sampled:?}");
            prop_assert!(covers(&total, &before), "{total:?} is less than {before:?}");
            before = total;
        }
    }

    /// Of processes that wait for their children, none is counted twice, however many end in one round.
    #[test]
    fn no_process_that_was_waited_for_is_counted_twice(rounds in rounds()) {
        let mut kernel = Kernel::new(true);
        for (between, meanwhile) in &rounds {
            between.iter().for_each(|step| kernel.step(step));
            let total = kernel.round(meanwhile);
            prop_assert!(covers(&kernel.truth, &total), "{total:?} of {:?}", kernel.truth);
        }
    }
}
