//! Counts the invocations of each timed function over all processes, and assigns roles to processes.

use std::collections::BTreeMap;

use prony_model::record::probe::Role;
use prony_model::units::Nanos;

use super::protocol::{Hello, ProbeEvent, ProbeLine, Source, Tallied};

/// Gives each thread and process its role.
#[derive(Clone, Debug, Default)]
pub struct Roles {
    main: Option<u32>,
}

impl Roles {
    /// The role of the sender of a `hello`, in the order of the channel.
    pub fn of(&mut self, source: Source, _hello: &Hello) -> Role {
        let main = *self.main.get_or_insert(source.pid);
        match (source.thread, source.pid == main) {
            (0, true) => Role::Main,
            (0, false) => Role::Child,
            _ => Role::Worker,
        }
    }
}

/// A class of times, with its count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// The shortest time that belongs to it.
    pub from: Nanos,
    /// The shortest time that does not.
    pub to: Nanos,
    /// How many.
    pub count: u64,
}

/// All invocations of one call that ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallTotals {
    /// How many.
    pub count: u64,
    /// Those that threw or rejected.
    pub failed: u64,
    /// The sum of their times; of recursive ones each counts, so it may exceed the time of the outermost.
    pub total: Nanos,
    /// The shortest; zero where none ended.
    pub min: Nanos,
    /// The longest.
    pub max: Nanos,
    /// Their distribution, at least as fine as 1/16 of each power of two unless a line would have grown too long.
    pub buckets: Vec<Bucket>,
    /// How many of them were counted by the probe and not reported one by one.
    pub aggregated: u64,
}

/// Classes for each power of two in which single invocations are counted; that of the probes.
const SUB: u32 = 16;

/// Counts invocations from the lines of the channel.
#[derive(Clone, Debug, Default)]
pub struct Tallies {
    single: BTreeMap<String, Tallied>,
    hot: BTreeMap<(String, Source), Tallied>,
}

impl Tallies {
    /// Adds a line; one that ends no invocation changes nothing.
    pub fn take(&mut self, line: &ProbeLine) {
        match &line.event {
            ProbeEvent::End { call, ok, took, .. } => self.one(call, *ok, *took),
            ProbeEvent::Calls(tallied) => {
                self.hot.insert((tallied.call.clone(), line.source), tallied.clone());
            }
            _ => {}
        }
    }

    fn one(&mut self, call: &str, ok: bool, took: Nanos) {
        let empty = || Tallied {
            call: call.to_owned(),
            count: 0,
            failed: 0,
            total: Nanos::ZERO,
            min: took,
            max: took,
            sub: SUB,
            classes: Vec::new(),
        };
        let single = self.single.entry(call.to_owned()).or_insert_with(empty);
        single.count += 1;
        single.failed += u64::from(!ok);
        single.total += took;
        (single.min, single.max) = (single.min.min(took), single.max.max(took));
        single.classes.push((class_of(took), 1));
    }

    /// The totals of a call; none ended where it is not known.
    pub fn of(&self, call: &str) -> CallTotals {
        let single = self.single.get(call).into_iter();
        let hot = self.hot.values().filter(|tallied| tallied.call == call);
        let mut totals = CallTotals {
            aggregated: hot.clone().fold(0, |sum, t| sum.saturating_add(t.count)),
            ..CallTotals::default()
        };
        let mut buckets: BTreeMap<(Nanos, Nanos), u64> = BTreeMap::new();
        for tallied in single.chain(hot).filter(|tallied| tallied.count > 0) {
            totals.min = if totals.count == 0 { tallied.min } else { totals.min.min(tallied.min) };
            totals.max = totals.max.max(tallied.max);
            totals.count = totals.count.saturating_add(tallied.count);
            totals.failed = totals.failed.saturating_add(tallied.failed);
            totals.total += tallied.total;
            for (class, count) in &tallied.classes {
                let (from, to) = (floor(*class, tallied.sub), floor(class.saturating_add(1), tallied.sub));
                let bucket = buckets.entry((from, to)).or_default();
                *bucket = bucket.saturating_add(*count);
            }
        }
        totals.buckets = buckets.into_iter().map(|((from, to), count)| Bucket { from, to, count }).collect();
        totals
    }
}

/// The class of a time: its exponent and the first four bits below its leading one, as in the probes.
fn class_of(took: Nanos) -> u32 {
    let n = took.as_nanos().max(1);
    let exponent = n.ilog2();
    let sixteenth = if exponent >= 4 { n >> (exponent - 4) } else { n << (4 - exponent) };
    exponent * SUB + (sixteenth as u32 - SUB)
}

/// The shortest time of a class; the probes keep `sub` a power of two up to 16.
fn floor(class: u32, sub: u32) -> Nanos {
    let sub = sub.max(1);
    let exponent = (class / sub).min(63);
    let part = 1.0 + f64::from(class % sub) / f64::from(sub);
    Nanos::from_nanos((part * (1_u64 << exponent) as f64).ceil() as u64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn roles_are_the_instances_that_experiments_may_name() {
        assert_eq!(Role::ALL.map(Role::name), prony_model::program::ROLES);
    }

    fn line(pid: u32, event: ProbeEvent) -> ProbeLine {
        ProbeLine { at: Nanos::ZERO, source: Source { pid, thread: 0 }, event }
    }

    fn end(took: u64, ok: bool) -> ProbeEvent {
        ProbeEvent::End { call: "a".into(), n: 1, open: 0, ok, took: Nanos::from_nanos(took) }
    }

    fn hot(count: u64, class: u32) -> ProbeEvent {
        let (total, min, max) = (Nanos::from_nanos(count * 40), Nanos::from_nanos(30), Nanos::from_nanos(50));
        ProbeEvent::Calls(Tallied {
            call: "a".into(),
            count,
            failed: 1,
            total,
            min,
            max,
            sub: 16,
            classes: vec![(class, count)],
        })
    }

    #[test]
    fn single_and_counted_invocations_are_one_total() {
        let mut tallies = Tallies::default();
        for (pid, event) in
            [(1, end(100, true)), (1, end(20, false)), (1, hot(3, 84)), (1, hot(7, 84)), (2, hot(5, 84))]
        {
            tallies.take(&line(pid, event));
        }
        let totals = tallies.of("a");
        assert_eq!((totals.count, totals.failed, totals.aggregated), (14, 3, 12), "a later line replaces the earlier");
        assert_eq!(totals.total, Nanos::from_nanos(120 + 12 * 40));
        assert_eq!((totals.min, totals.max), (Nanos::from_nanos(20), Nanos::from_nanos(100)));
        assert_eq!(totals.buckets.iter().map(|b| b.count).collect::<Vec<_>>(), [1, 12, 1]);
        assert_eq!(tallies.of("b"), CallTotals::default());
    }

    /// Programs write to the channel too, and a line of theirs may look like one of a probe.
    #[test]
    fn tallies_beyond_64_bits_stay_at_the_most() {
        let mut tallies = Tallies::default();
        for pid in [1, 2] {
            let ProbeEvent::Calls(most) = hot(1, u32::MAX) else { panic!("a line of a hot function") };
            let classes = vec![(u32::MAX, u64::MAX), (u32::MAX, 1)];
            tallies.take(&line(pid, ProbeEvent::Calls(Tallied { count: u64::MAX, failed: u64::MAX, classes, ..most })));
        }
        let totals = tallies.of("a");
        assert_eq!((totals.count, totals.failed, totals.aggregated), (u64::MAX, u64::MAX, u64::MAX));
        assert_eq!(totals.buckets.iter().map(|b| b.count).collect::<Vec<_>>(), [u64::MAX]);
    }

    #[test]
    fn the_first_process_is_the_main_one() {
        let hello = Hello {
            parent: 1,
            runtime: "node".into(),
            version: "20".into(),
            script: String::new(),
            unsupported: vec![],
        };
        let mut roles = Roles::default();
        let of = |roles: &mut Roles, pid, thread| roles.of(Source { pid, thread }, &hello);
        assert_eq!(of(&mut roles, 9, 0), Role::Main);
        assert_eq!(of(&mut roles, 9, 1), Role::Worker);
        assert_eq!(of(&mut roles, 10, 0), Role::Child);
        assert_eq!(of(&mut roles, 10, 3), Role::Worker);
    }

    proptest! {
        #[test]
        fn a_time_lies_in_its_class(n in 1_u64..(1 << 52)) {
            let class = class_of(Nanos::from_nanos(n));
            let (from, to) = (floor(class, SUB).as_nanos(), floor(class + 1, SUB).as_nanos());
            prop_assert!(from <= n && n < to.max(from + 1), "{n} in {class}: {from}..{to}");
            prop_assert!(to as f64 / from as f64 <= 1.0 + 1.0 / 16.0 + 1.0 / from as f64);
        }
    }
}
