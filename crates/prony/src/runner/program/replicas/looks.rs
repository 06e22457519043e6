//! When the memory of replicas is read because they told something: as often as takes a small part of their time. Pure.

use prony_core::reading::Reading;
use prony_core::units::{Bytes, Nanos};
use prony_probe::sample::Edge;

/// Looks take this part of the time since the first release, one in so many, and one look more.
const SHARE: u64 = 20;

/// What was read of replicas while they worked, edges apart, and what it took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Looks {
    /// When the first replica was released.
    since: Nanos,
    /// How many there were.
    pub count: u64,
    /// How long all of them took.
    pub took: Nanos,
    /// The most that one replica has taken in any of them.
    each: Nanos,
    /// The largest sum of the proportional set sizes of all replicas that were under way.
    pub pss: Option<Bytes>,
}

impl Looks {
    /// None yet, of replicas the first of which was released then.
    pub fn since(released: Nanos) -> Self {
        Self { since: released, ..Self::default() }
    }

    /// When the next one may be taken: those before it are a small part of the time by then.
    pub fn due(&self) -> Nanos {
        self.after(self.took)
    }

    /// Whether so many replicas may be read now, by what one has taken; nobody knows that before the first look.
    pub fn affords(&self, replicas: usize, now: Nanos) -> bool {
        let each = u64::try_from(replicas).unwrap_or(u64::MAX).saturating_mul(self.each.as_nanos());
        self.count > 0 && self.after(self.took + Nanos::from_nanos(each)) <= now
    }

    fn after(&self, took: Nanos) -> Nanos {
        self.since + Nanos::from_nanos(took.as_nanos().saturating_mul(SHARE))
    }

    /// One was taken of so many replicas, `all` that were under way or some.
    pub fn note(&mut self, edge: &Edge, replicas: usize, all: bool) {
        self.count += 1;
        self.took += edge.took;
        let each = edge.took.as_nanos() / u64::try_from(replicas.max(1)).unwrap_or(u64::MAX);
        self.each = self.each.max(Nanos::from_nanos(each));
        if let (true, Some(sum)) = (all, sum(edge)) {
            self.pss = self.pss.max(Some(sum));
        }
    }
}

/// The proportional set sizes of all processes of an edge, where there are any and all of them were read.
fn sum(edge: &Edge) -> Option<Bytes> {
    let each = edge.processes.iter().map(|process| process.pss.clone());
    let sum = each.reduce(|sum, one| sum.and(one, |sum, one| sum + one))?;
    match sum {
        Reading::Measured(sum) => Some(sum),
        Reading::Missing(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use prony_core::reading::Why;

    use super::super::super::span::tests::{edge, ms};
    use super::*;

    /// A look that took so many milliseconds, at processes with so many bytes of PSS.
    fn look(took: u64, pss: &[Option<u64>]) -> Edge {
        let pids: Vec<u32> = (1..).take(pss.len()).collect();
        let mut edge = edge(0, 0, &pids);
        edge.took = ms(took);
        for (process, pss) in edge.processes.iter_mut().zip(pss) {
            let gone = || Reading::Missing(Why::NotReached);
            process.pss = pss.map_or_else(gone, |pss| Reading::Measured(Bytes::from_bytes(pss)));
        }
        edge
    }

    #[test]
    fn looks_are_a_twentieth_of_the_time_and_one() {
        let mut looks = Looks::since(ms(1_000));
        assert_eq!(looks.due(), ms(1_000), "the first one at once");
        looks.note(&look(10, &[Some(5)]), 1, false);
        assert_eq!(looks.due(), ms(1_200));
        let mut now = ms(1_000);
        for _ in 0..50 {
            now = looks.due().max(now);
            looks.note(&look(3, &[Some(5)]), 1, false);
        }
        let past = now.since(ms(1_000)).as_nanos() / SHARE;
        assert!(looks.took.as_nanos() <= past + ms(3).as_nanos(), "{} of {now}", looks.took);
        assert_eq!(looks.count, 51);
    }

    #[test]
    fn all_are_read_where_there_is_time_for_it() {
        let mut looks = Looks::since(ms(0));
        assert!(!looks.affords(1, ms(10_000)), "nobody knows what it takes");
        looks.note(&look(4, &[Some(5), Some(5)]), 2, false);
        assert_eq!([199, 200].map(|now| looks.affords(3, ms(now))), [false, true], "20 times 4 and 3 times 2");
    }

    #[test]
    fn the_sum_is_that_of_all_at_one_instant() {
        let mut looks = Looks::since(ms(0));
        looks.note(&look(1, &[Some(900)]), 1, false);
        assert_eq!(looks.pss, None, "one of several");
        looks.note(&look(1, &[Some(300), Some(200)]), 2, true);
        looks.note(&look(1, &[Some(300), None]), 2, true);
        looks.note(&look(1, &[Some(400)]), 1, true);
        looks.note(&look(1, &[]), 1, true);
        assert_eq!(looks.pss, Some(Bytes::from_bytes(500)));
    }
}
