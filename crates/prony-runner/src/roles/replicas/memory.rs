//! Decides when to read replicas' memory after they reported something, so that reading takes a small part of their
//! time. Pure functions.

use prony_model::record::effective::MemoryRead;
use prony_model::units::Nanos;
use prony_os::sample::Snapshot;

use crate::watched::replicas::LargestPss;

/// Readings take this part of the time since the first release, one in so many, and one reading more.
const SHARE: u64 = 20;

/// Readings of replicas while they worked, snapshots excluded, and their cost.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct MemoryReadings {
    /// When the first replica was released.
    since: Nanos,
    /// How many there were, and how long all of them took.
    pub(super) read: MemoryRead,
    /// The most CPU time that one replica has taken in any of them.
    each: Nanos,
    /// CPU time of all readings: what they take from other processes, however busy the machine is.
    cpu: Nanos,
    /// What the proportional set sizes read in them add up to.
    pub(super) pss: LargestPss,
}

impl MemoryReadings {
    /// None yet, of replicas the first of which was released then.
    pub(super) fn since(released: Nanos) -> Self {
        Self { since: released, ..Self::default() }
    }

    /// When the next one may be taken: those before it are a small part of the time by then.
    pub(super) fn due(&self) -> Nanos {
        self.after(self.cpu)
    }

    /// When so many replicas may be read, by the cost of one; it is not known before the first reading.
    pub(super) fn all_due(&self, replicas: usize) -> Option<Nanos> {
        let each = u64::try_from(replicas).unwrap_or(u64::MAX).saturating_mul(self.each.as_nanos());
        (self.read.times > 0).then(|| self.after(self.cpu + Nanos::from_nanos(each)))
    }

    fn after(&self, took: Nanos) -> Nanos {
        self.since + Nanos::from_nanos(took.as_nanos().saturating_mul(SHARE))
    }

    /// One was taken of so many replicas, with so much CPU time.
    pub(super) fn note(&mut self, snapshot: &Snapshot, cpu: Nanos, replicas: usize) {
        self.read.times += 1;
        self.read.took += snapshot.took;
        self.cpu += cpu;
        let each = cpu.as_nanos() / u64::try_from(replicas.max(1)).unwrap_or(u64::MAX);
        self.each = self.each.max(Nanos::from_nanos(each));
        self.pss.add(snapshot.processes.iter());
    }
}

#[cfg(test)]
mod tests {
    use prony_model::reading::{Reading, Why};
    use prony_model::units::Bytes;
    use prony_os::sample::snapshot::ProcessSnapshot;

    use super::*;
    use crate::figures::span::tests::{ms, snapshot};

    /// A reading that took so many milliseconds, at processes with so many bytes of PSS.
    fn reading(took: u64, pss: &[Option<u64>]) -> Snapshot {
        let pids: Vec<u32> = (1..).take(pss.len()).collect();
        let mut snapshot = snapshot(0, 0, &pids);
        snapshot.took = ms(took);
        for (process, pss) in snapshot.processes.iter_mut().zip(pss) {
            let ended = || Reading::Missing(ProcessSnapshot::ended());
            process.role = format!("replica.{}", process.pid);
            process.pss = pss.map_or_else(ended, |pss| Reading::Measured(Bytes::from_bytes(pss)));
        }
        snapshot
    }

    #[test]
    fn memory_readings_take_at_most_a_twentieth_of_the_time() {
        let mut readings = MemoryReadings::since(ms(1_000));
        assert_eq!(readings.due(), ms(1_000), "the first one at once");
        readings.note(&reading(900, &[Some(5)]), ms(10), 1);
        assert_eq!(readings.due(), ms(1_200));
        let mut now = ms(1_000);
        for _ in 0..50 {
            now = readings.due().max(now);
            readings.note(&reading(3, &[Some(5)]), ms(3), 1);
        }
        let past = now.since(ms(1_000)).as_nanos() / SHARE;
        assert!(readings.cpu.as_nanos() <= past + ms(3).as_nanos(), "{} of {now}", readings.cpu);
        assert_eq!(readings.read.times, 51);
    }

    #[test]
    fn all_are_read_where_there_is_time_for_it() {
        let mut readings = MemoryReadings::since(ms(0));
        assert_eq!(readings.all_due(1), None, "nobody knows what it takes");
        readings.note(&reading(4, &[Some(5), Some(5)]), ms(4), 2);
        assert_eq!(readings.all_due(3), Some(ms(200)), "20 times 4 and 3 times 2");
    }

    #[test]
    fn the_largest_sum_is_that_of_one_instant_and_no_less_than_a_part_of_it() {
        let mut readings = MemoryReadings::since(ms(0));
        let mut pss = |each: &[Option<u64>]| {
            readings.note(&reading(1, each), ms(1), each.len());
            let sum = readings.pss.sum.as_ref().map(|pss| pss.measured().unwrap().as_bytes());
            (sum, readings.pss.replicas)
        };
        assert_eq!([pss(&[]), pss(&[None])], [(None, 0), (None, 0)]);
        assert_eq!(pss(&[Some(400)]), (Some(400), 1));
        assert_eq!(pss(&[Some(300), Some(200)]), (Some(500), 2));
        assert_eq!(pss(&[Some(600), None]), (Some(600), 2), "one that had ended meanwhile had at least nothing");
        assert_eq!(pss(&[Some(900)]), (Some(900), 2), "one of several");
    }

    #[test]
    fn pss_that_cannot_be_read_is_no_zero_in_a_sum() {
        let refused = Reading::Missing(Why::NotPermitted("`smaps_rollup`".into()));
        let mut unread = reading(1, &[Some(600), Some(300)]);
        unread.processes[1].pss = refused.clone();
        let mut readings = MemoryReadings::since(ms(0));
        for snapshot in [&reading(1, &[Some(500)]), &unread, &reading(1, &[Some(900)])] {
            readings.note(snapshot, ms(1), 1);
        }
        assert_eq!(readings.pss.sum, Some(refused), "it may have been the largest");
    }
}
