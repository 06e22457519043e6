//! Groups of operations, in a series of bounded length.

use prony_model::record::Groups;
pub(super) use prony_model::throughput::Series;

/// Most groups that are stored; with more, every second one is dropped.
const MOST_GROUPS: usize = 2_000_000;

/// Wall and CPU time of groups of operations; every one, until there are too many. Without a CPU time there is none of any group.
#[derive(Clone, Debug)]
pub(super) struct GroupSeries {
    size: u64,
    one_in: u64,
    count: u64,
    most: usize,
    wall: Vec<u64>,
    cpu: Vec<u64>,
}

impl GroupSeries {
    pub(super) fn new(size: u64) -> Self {
        Self { size, one_in: 1, count: 0, most: MOST_GROUPS, wall: Vec::new(), cpu: Vec::new() }
    }

    pub(super) fn add(&mut self, wall: u64, cpu: Option<u64>) {
        if self.count.is_multiple_of(self.one_in) {
            if self.wall.len() >= self.most {
                self.thin();
            }
            if self.count.is_multiple_of(self.one_in) {
                self.wall.push(wall);
                self.cpu.extend(cpu);
            }
        }
        self.count += 1;
    }

    fn thin(&mut self) {
        for series in [&mut self.wall, &mut self.cpu] {
            *series = series.iter().copied().step_by(2).collect();
        }
        self.one_in *= 2;
    }

    /// Appends another client's groups.
    pub(super) fn merge(&mut self, mut other: Self) {
        while self.one_in < other.one_in || self.wall.len() + other.wall.len() > self.most {
            self.thin();
            if other.one_in < self.one_in {
                other.thin();
            }
        }
        while other.one_in < self.one_in {
            other.thin();
        }
        self.count += other.count;
        self.wall.append(&mut other.wall);
        self.cpu.append(&mut other.cpu);
    }

    /// Only every n-th group is stored.
    pub(super) fn one_in(&self) -> u64 {
        self.one_in
    }

    pub(super) fn into_groups(self) -> Groups {
        Groups { operations: self.size, wall: self.wall, cpu: self.cpu }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_recorded_fully_then_one_in_n() {
        let mut groups = GroupSeries { most: 100, ..GroupSeries::new(10) };
        for n in 0..100 {
            groups.add(n, Some(n + 1));
        }
        assert_eq!(groups.clone().into_groups().wall, (0..100).collect::<Vec<_>>());
        for n in 100..1000 {
            groups.add(n, Some(n + 1));
        }
        assert_eq!(groups.one_in(), 16);
        let recorded = groups.into_groups();
        assert_eq!(recorded.wall, (0..1000).step_by(16).collect::<Vec<_>>());
        assert_eq!(recorded.cpu[3], recorded.wall[3] + 1);
    }

    #[test]
    fn groups_of_two_clients_are_thinned_alike() {
        let mut many = GroupSeries { most: 100, ..GroupSeries::new(1) };
        let mut few = GroupSeries { most: 100, ..GroupSeries::new(1) };
        (0..300).for_each(|n| many.add(n, None));
        (0..8).for_each(|n| few.add(1000 + n, None));
        few.merge(many);
        assert_eq!(few.one_in, 4);
        assert_eq!(few.wall[..4], [1000, 1004, 0, 4]);
    }
}
