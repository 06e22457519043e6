//! Cumulative counters of processes, which include processes that have ended.

use prony_model::reading::{Reading, Why};
use prony_model::record::TICK;
use prony_model::units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// Counters of one process with its waited-for children, or of several processes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    /// User CPU time, to a clock tick (10 ms).
    pub cpu_user: Nanos,
    /// System CPU time, to a clock tick (10 ms).
    pub cpu_system: Nanos,
    /// Time on a CPU by the process's CPU clock, to the nanosecond for processes that still run.
    pub on_cpu: Reading<Nanos>,
    /// Time runnable, waiting for a CPU.
    pub cpu_wait: Reading<Nanos>,
    /// Bytes read from the block layer.
    pub read: Reading<Bytes>,
    /// Bytes handed to the block layer.
    pub written: Reading<Bytes>,
    /// Page faults without disk.
    pub minor_faults: u64,
    /// Page faults with disk.
    pub major_faults: u64,
    /// Context switches by waiting.
    pub switches_voluntary: u64,
    /// Context switches by preemption.
    pub switches_forced: u64,
    /// The part of `minor_faults` that comes from children which were waited for. Every process that ever ran has
    /// dozens: if it is not 0 there were such children, sampled or not.
    pub child_faults: u64,
    /// The most CPU time that is in none of these: what processes may have used between their last sample and their end, of
    /// those whose counters nobody inherited.
    pub unread: Nanos,
    /// How many ends of threads and children were found: what they did from their last reading on is in no context switches and in no
    /// time waiting for a CPU.
    pub unread_switches: u64,
    /// In how many rounds of sampling a process ignored SIGCHLD, or had not inherited a child that ended: what its children used that no sample showed is in none of these,
    /// however much.
    pub ignores_children: u64,
    /// In how many rounds of sampling a process had pages of hugetlbfs, which the kernel counts in no memory of a process.
    pub huge: u64,
}

impl Default for Counters {
    /// Nothing has happened.
    fn default() -> Self {
        Self {
            cpu_user: Nanos::ZERO,
            cpu_system: Nanos::ZERO,
            on_cpu: Reading::Measured(Nanos::ZERO),
            cpu_wait: Reading::Measured(Nanos::ZERO),
            read: Reading::Measured(Bytes::default()),
            written: Reading::Measured(Bytes::default()),
            minor_faults: 0,
            major_faults: 0,
            switches_voluntary: 0,
            switches_forced: 0,
            child_faults: 0,
            unread: Nanos::ZERO,
            unread_switches: 0,
            ignores_children: 0,
            huge: 0,
        }
    }
}

/// Of more CPU time than this part of what was counted it is not known whether it was used: the margin of verdicts.
const UNREAD: f64 = 0.03;

/// By which part of it CPU time of processes may exceed that of their control group.
const APART: f64 = 0.1;

impl Counters {
    fn combine(&self, other: &Self, f: impl Fn(u64, u64) -> u64) -> Self {
        let nanos = |a: Nanos, b: Nanos| Nanos::from_nanos(f(a.as_nanos(), b.as_nanos()));
        let bytes = |a: Bytes, b: Bytes| Bytes::from_bytes(f(a.as_bytes(), b.as_bytes()));
        Self {
            cpu_user: nanos(self.cpu_user, other.cpu_user),
            cpu_system: nanos(self.cpu_system, other.cpu_system),
            on_cpu: self.on_cpu.clone().and(other.on_cpu.clone(), nanos),
            cpu_wait: self.cpu_wait.clone().and(other.cpu_wait.clone(), nanos),
            read: self.read.clone().and(other.read.clone(), bytes),
            written: self.written.clone().and(other.written.clone(), bytes),
            minor_faults: f(self.minor_faults, other.minor_faults),
            major_faults: f(self.major_faults, other.major_faults),
            switches_voluntary: f(self.switches_voluntary, other.switches_voluntary),
            switches_forced: f(self.switches_forced, other.switches_forced),
            child_faults: f(self.child_faults, other.child_faults),
            unread: nanos(self.unread, other.unread),
            unread_switches: f(self.unread_switches, other.unread_switches),
            ignores_children: f(self.ignores_children, other.ignores_children),
            huge: f(self.huge, other.huge),
        }
    }

    /// Why a considerable part of what was used may be in none of these, if so. `group` is the CPU time that a control group
    /// counted, which lacks nothing, and how much these may lack of it by rounding.
    pub fn are_incomplete(&self, group: Option<(Nanos, Nanos)>) -> Option<Why> {
        let (counted, unread) = (self.cpu_user + self.cpu_system, self.unread);
        // User and system time are each a tick too low at most.
        let most = (UNREAD * counted.as_nanos() as f64).max(2.0 * TICK.as_nanos() as f64);
        let ignores = self.ignores_children > 0;
        let why = match group {
            // Of processes that wait for a disk the CPU time says nothing.
            _ if ignores => {
                "a process ignores SIGCHLD or has set SA_NOCLDWAIT: nobody inherits the counters of its children; a control group \
                 counts their CPU time alone"
                    .to_owned()
            }
            Some((used, rounded)) if used.since(counted + rounded).as_nanos() as f64 <= most => return None,
            None if unread.as_nanos() as f64 <= most => return None,
            Some((used, _)) => format!(
                "{counted} of {used} of CPU time were counted: the rest is that of processes for which none of the tree waited"
            ),
            None => format!(
                "processes that nobody waited for used up to {unread} of CPU time after they were sampled last, and {counted} were \
                 counted; a control group would count all"
            ),
        };
        Some(Why::NotSupported(why.into()))
    }

    /// Whether processes used considerably more CPU time than a control group counted, so that some of them were not in it. Clocks of
    /// processes and of the group are read one after the other.
    pub(crate) fn are_more_than(&self, group: Nanos) -> bool {
        let most = |on_cpu: Nanos| (APART * on_cpu.as_nanos() as f64).max(2.0 * TICK.as_nanos() as f64);
        self.on_cpu.measured().is_some_and(|on_cpu| on_cpu.since(group).as_nanos() as f64 > most(*on_cpu))
    }

    /// Both together; a reading missing in one is missing in the sum.
    pub fn plus(&self, other: &Self) -> Self {
        self.combine(other, u64::saturating_add)
    }

    /// What was added since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        // The kernel's total of a process that has ended lacks nothing, so that what was not read before its last phase would be in
        // that phase.
        let unread_switches = self.unread_switches.abs_diff(earlier.unread_switches);
        Self { unread_switches, ..self.combine(earlier, u64::saturating_sub) }
    }

    /// Context switches by waiting, and by preemption: the kernel counts them for each thread.
    pub fn switches(&self) -> Reading<[u64; 2]> {
        self.of_threads(Reading::Measured([self.switches_voluntary, self.switches_forced]))
    }

    /// Time waiting for a CPU, which the kernel counts for each thread too.
    pub fn waited(&self) -> Reading<Nanos> {
        self.of_threads(self.cpu_wait.clone())
    }

    fn of_threads<T>(&self, counted: Reading<T>) -> Reading<T> {
        if self.unread_switches > 0 {
            return Reading::not_supported(
                "threads or processes ended in the phase, or before it and after they were read last; the kernel adds their context \
                 switches, and how long they waited for a CPU, to no counter of a process that runs",
            );
        }
        counted
    }

    /// The larger of each: cumulative counters never fall, though rounding to a tick may make them appear to.
    fn at_least(&self, other: &Self) -> Self {
        self.combine(other, u64::max)
    }

    /// The part that no parent inherits when it waits for a process.
    pub(crate) fn never_inherited(&self) -> Self {
        Self {
            cpu_wait: self.cpu_wait.clone(),
            switches_voluntary: self.switches_voluntary,
            switches_forced: self.switches_forced,
            unread_switches: self.unread_switches,
            ..Self::default()
        }
    }
}

/// One round's observation of a scope (the tree, or one role), for its ledger.
#[derive(Clone, Debug, Default)]
pub(crate) struct Round {
    /// Sum over live processes, each with its waited-for children.
    pub(crate) live: Counters,
    /// Of processes that ended since the last round, by their last counters, what no live process of the scope has inherited.
    pub(crate) ended: Counters,
}

/// Totals of a scope since the sampler began, ended processes included.
///
/// A process that ends and is waited for stays in its parent's counters (see `heirs`). Of one that nobody of the scope
/// inherits, the last known counters are added here, and what it did between its last sample and its end is lost, as is a
/// process that began and ended between two samples. Time waiting for a CPU and context switches are never inherited, so they
/// are banked always.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    banked: Counters,
    total: Counters,
    /// What ticks cut off the time on a CPU of children that were waited for, whose clocks were exact while they ran.
    cut: Nanos,
    /// In how many rounds a process ignored SIGCHLD, or had not inherited a child that ended.
    ignores_children: u64,
    /// In how many rounds a process had pages of hugetlbfs.
    huge: u64,
}

impl Ledger {
    /// Adds a round and returns the totals.
    pub(crate) fn take(&mut self, round: Round) -> &Counters {
        self.ignores_children += (round.live.ignores_children + round.ended.ignores_children).min(1);
        self.huge += (round.live.huge + round.ended.huge).min(1);
        self.banked = self.banked.plus(&round.ended);
        let mut sum = round.live.plus(&self.banked);
        if let (Reading::Measured(now), Reading::Measured(before)) = (&mut sum.on_cpu, &self.total.on_cpu) {
            // Else the total would stay the same until as much more was used, which would be in no phase.
            if sum.child_faults > self.total.child_faults {
                self.cut = before.since(*now);
            }
            *now += self.cut;
        }
        self.total = sum.at_least(&self.total);
        (self.total.ignores_children, self.total.huge) = (self.ignores_children, self.huge);
        &self.total
    }

    /// The totals at the last round.
    pub(crate) fn total(&self) -> &Counters {
        &self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::reading::Why;

    fn counters(cpu_ms: u64, written: u64, faults: u64, switches: u64) -> Counters {
        Counters {
            cpu_user: Nanos::from_millis(cpu_ms),
            on_cpu: Reading::Measured(Nanos::from_millis(cpu_ms)),
            written: Reading::Measured(Bytes::from_bytes(written)),
            minor_faults: faults,
            switches_voluntary: switches,
            ..Counters::default()
        }
    }

    fn live_only(live: Counters) -> Round {
        Round { live, ..Round::default() }
    }

    #[test]
    fn a_child_that_was_waited_for_is_counted_once() {
        let mut ledger = Ledger::default();
        ledger.take(live_only(counters(100, 1000, 50, 3).plus(&counters(400, 5000, 70, 9))));
        // The parent now has its own 110 ms, the child's 400 and 20 that no sample observed.
        let ended = counters(400, 5000, 70, 9).never_inherited();
        let total = ledger.take(Round { live: counters(530, 6500, 130, 4), ended });
        assert_eq!(*total, counters(530, 6500, 130, 13));
    }

    #[test]
    fn unreaped_child_is_counted_with_its_last_counters() {
        let mut ledger = Ledger::default();
        ledger.take(live_only(counters(500, 6000, 120, 12)));
        let round = Round { live: counters(110, 1100, 52, 4), ended: counters(400, 5000, 70, 9) };
        assert_eq!(*ledger.take(round), counters(510, 6100, 122, 13));
        assert_eq!(*ledger.take(live_only(counters(120, 1100, 52, 4))), counters(520, 6100, 122, 13));
    }

    #[test]
    fn counters_are_incomplete_where_children_may_have_used_more() {
        let lost = |unread| Counters { unread: Nanos::from_millis(unread), ..counters(400, 0, 70, 0) };
        let mut ledger = Ledger::default();
        ledger.take(Round { live: counters(2000, 0, 50, 0), ended: lost(30) });
        let before = ledger.total().clone();
        assert_eq!(
            (before.unread, before.are_incomplete(None)),
            (Nanos::from_millis(30), None),
            "1.3 % of what was counted"
        );
        ledger.take(Round { live: counters(2000, 0, 120, 0), ended: lost(30).never_inherited() });
        assert_eq!(ledger.total().unread, before.unread, "the parent inherited it");
        ledger.take(Round { live: counters(2000, 0, 120, 0), ended: lost(30) });
        assert_eq!(ledger.total().are_incomplete(None), None);
        let phase = ledger.total().since(&before);
        assert!(phase.are_incomplete(None).unwrap().to_string().contains("up to 30"), "of 400 ms in the phase");
        let ignores = Counters { ignores_children: 1, ..counters(600, 0, 50, 0) };
        ledger.take(live_only(ignores));
        ledger.take(live_only(counters(600, 0, 50, 0)));
        let after = ledger.total().clone();
        let why = after.since(&before).are_incomplete(None).unwrap().to_string();
        assert!(why.contains("ignores SIGCHLD"), "{why}");
        ledger.take(live_only(counters(600, 0, 50, 0)));
        assert_eq!(ledger.total().since(&after).are_incomplete(None), None, "none does in the next phase");
    }

    #[test]
    fn switches_are_missing_where_threads_ended() {
        let ended = |unread| Counters { unread_switches: unread, ..counters(10, 0, 50, 9) };
        assert_eq!(ended(0).switches(), Reading::Measured([9, 0]));
        assert!(ended(1).switches().measured().is_none());
        assert!(ended(1).since(&ended(1)).switches().measured().is_some(), "before the phase");
        assert!(
            ended(0).since(&ended(1)).switches().measured().is_none(),
            "the total at the end has what was not read before"
        );
        let mut ledger = Ledger::default();
        ledger.take(Round { live: counters(110, 0, 52, 4), ended: ended(1).never_inherited() });
        assert_eq!(ledger.total().unread_switches, 1);
    }

    #[test]
    fn totals_never_fall() {
        let mut ledger = Ledger::default();
        ledger.take(live_only(counters(100, 10, 10, 10)));
        assert_eq!(ledger.take(live_only(counters(90, 10, 10, 10))).cpu_user, Nanos::from_millis(100));
        assert_eq!(ledger.total().cpu_user, Nanos::from_millis(100));
    }

    /// What a parent used after a child of 58 ms had ended was in no phase until it was 8 ms: the child's time is 50 ms in ticks.
    #[test]
    fn time_after_a_child_was_waited_for_counts_at_once() {
        let mut ledger = Ledger::default();
        let mut on_cpu = |ms, child_faults| {
            let live =
                Counters { on_cpu: Reading::Measured(Nanos::from_millis(ms)), child_faults, ..Counters::default() };
            ledger.take(live_only(live)).on_cpu.measured().unwrap().as_nanos() / 1_000_000
        };
        assert_eq!([on_cpu(58, 0), on_cpu(50, 9), on_cpu(55, 9)], [58, 58, 63]);
        // Another one of 5 ms, of which ticks cut off less; and one whose parent is read a round later.
        assert_eq!(
            [on_cpu(60, 9), on_cpu(65, 18), on_cpu(15, 18), on_cpu(66, 27), on_cpu(67, 27)],
            [68, 68, 68, 68, 69]
        );
    }

    #[test]
    fn a_missing_part_makes_the_sum_missing() {
        let refused = Why::NotPermitted("`/proc/7/io`".into());
        let hidden = Counters { read: Reading::Missing(refused.clone()), ..Counters::default() };
        let sum = counters(1, 2, 3, 4).plus(&hidden);
        assert_eq!(sum.read, Reading::Missing(refused));
        assert_eq!(sum.written, Reading::Measured(Bytes::from_bytes(2)));
    }

    use proptest::prelude::*;

    fn any_counters() -> impl Strategy<Value = Counters> {
        (0..1000u64, 0..100_000u64, 30..500u64, 0..50u64)
            .prop_map(|(cpu, written, faults, switches)| counters(cpu, written, faults, switches))
    }

    proptest! {
        #[test]
        fn what_is_added_can_be_taken_away(a in any_counters(), b in any_counters()) {
            prop_assert_eq!(a.plus(&b).since(&b), a.clone());
            prop_assert_eq!(a.plus(&b), b.plus(&a));
            prop_assert_eq!(a.plus(&Counters::default()), a);
        }
    }
}
