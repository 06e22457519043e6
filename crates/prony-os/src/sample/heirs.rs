//! Finds which process has inherited the counters of one that has ended.
//!
//! When a process waits for a child, the kernel adds the child's CPU times and page faults, with what that had inherited itself,
//! to counters of the parent (`cutime`, `cminflt` ... of proc_pid_stat(5)). They show how much it inherited, and not from whom:
//! it may have waited for children that no sample showed. Of a parent that ignores SIGCHLD or has set SA_NOCLDWAIT nobody inherits. A child whose
//! parent ended first gets another one, the next ancestor that adopts orphans: mostly prony's supervisor (see `adopters`), or init, which is
//! not in the tree.
//!
//! So two conditions are necessary. Only the parent can have inherited; if that has ended too, it may have done so before, and what was
//! inherited from it contains the child's counters then, or one of its ancestors has adopted the child. And who inherited has
//! inherited no less than was last read of the child, of each amount. By nothing but page faults of the whole tree, 5 s of a daemon
//! were lost that ended while a shell waited for ten short processes.
//!
//! Where several could have been inherited and not all were, it is not known which. Those with the largest amounts are taken
//! then. Whichever are, none that was read is lost, as no more is left out than some process has inherited; what is left out
//! too much is less than what children used that no sample showed.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::iter::successors;

use super::counters::{Counters, Round};

/// What a process inherits of a child: CPU times in nanoseconds, though in whole ticks, and page faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amounts {
    cpu_user: u64,
    cpu_system: u64,
    pub(crate) minor_faults: u64,
    major_faults: u64,
}

impl Amounts {
    /// The part of counters that can be inherited, but for bytes read and written: the kernel shows those of a process and of
    /// its children in one sum.
    pub(crate) fn of(counters: &Counters) -> Self {
        Self {
            cpu_user: counters.cpu_user.as_nanos(),
            cpu_system: counters.cpu_system.as_nanos(),
            minor_faults: counters.minor_faults,
            major_faults: counters.major_faults,
        }
    }

    /// What was added since `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Self {
        self.reduced(earlier, |now, then| Some(now.saturating_sub(then))).unwrap_or_default()
    }

    /// The rest, if there is as much of each.
    fn without(self, part: Self) -> Option<Self> {
        self.reduced(part, u64::checked_sub)
    }

    fn reduced(self, by: Self, sub: impl Fn(u64, u64) -> Option<u64>) -> Option<Self> {
        Some(Self {
            cpu_user: sub(self.cpu_user, by.cpu_user)?,
            cpu_system: sub(self.cpu_system, by.cpu_system)?,
            minor_faults: sub(self.minor_faults, by.minor_faults)?,
            major_faults: sub(self.major_faults, by.major_faults)?,
        })
    }
}

/// A process of the tree in one round.
#[derive(Clone, Debug)]
pub(crate) struct Kin {
    /// Its role.
    pub(crate) role: String,
    /// Its parent when it was last read.
    pub(crate) parent: u32,
    /// Whether it runs; it has ended otherwise, and may be a zombie.
    pub(crate) runs: bool,
    /// What it has inherited since the last round, as far as that was read.
    pub(crate) gained: Amounts,
    /// Whether it is the supervisor that adopts the orphans of its role.
    pub(crate) adopts: bool,
}

/// Adds what nobody has inherited of processes that ended, by their last counters, to the tree and to their roles. In a role it
/// is what no other process of that role has inherited. `all` are the processes of the tree, those that ended among them.
pub(crate) fn bank(rounds: &mut BTreeMap<String, Round>, ended: &BTreeMap<u32, Counters>, all: &BTreeMap<u32, Kin>) {
    let heirs = heirs(&ended.iter().map(|(pid, last)| (*pid, Amounts::of(last))).collect(), all);
    // Beside a supervisor that adopts, all that end are inherited: by their parent, or by it. Where the amounts do not say from whom
    // something came, which is so where several generations end in one round, it would be added twice.
    let adopter = |role: &str| all.iter().find(|(_, kin)| kin.adopts && kin.role == role).map(|(pid, _)| *pid);
    for (pid, last) in ended {
        let Some(role) = all.get(pid).map(|kin| kin.role.as_str()) else { continue };
        // Unless the parent runs and has inherited nothing: by SA_NOCLDWAIT, which `/proc` does not show, or by ignoring SIGCHLD.
        let parent = all.get(pid).and_then(|kin| all.get(&kin.parent));
        let ignores = !heirs.contains_key(pid) && parent.is_some_and(|parent| parent.runs && !parent.adopts);
        let heir = heirs.get(pid).copied().or_else(|| adopter(role).filter(|_| !ignores));
        let heir = heir.and_then(|heir| all.get(&heir)).map(|heir| heir.role.as_str());
        let mut add = |scope: &str, is_inherited| {
            let rest = if is_inherited { last.never_inherited() } else { last.clone() };
            let round = rounds.entry(scope.to_owned()).or_default();
            round.ended = round.ended.plus(&rest);
            round.ended.ignores_children += u64::from(ignores);
        };
        add("", heir.is_some());
        if !role.is_empty() {
            add(role, heir == Some(role));
        }
    }
}

/// The processes that inherited the counters of others, which `ended` since the last round and were last read so. Of the others
/// none of the tree has.
fn heirs(ended: &BTreeMap<u32, Amounts>, all: &BTreeMap<u32, Kin>) -> BTreeMap<u32, u32> {
    let mut left: BTreeMap<u32, Amounts> = all.iter().map(|(pid, kin)| (*pid, kin.gained)).collect();
    let mut order: Vec<(&u32, &Amounts)> = ended.iter().collect();
    // First those of which it is certain who inherited if anybody did.
    order.sort_by_key(|(pid, read)| {
        (!has_parent_that_runs(**pid, all), Reverse((read.cpu_user + read.cpu_system, read.minor_faults)))
    });
    let mut found = BTreeMap::new();
    for (pid, read) in order {
        let mut candidates = candidates(*pid, all);
        let heir = candidates.find_map(|heir| Some((heir, left.get(&heir)?.without(*read)?)));
        if let Some((heir, rest)) = heir {
            left.insert(heir, rest);
            found.insert(*pid, heir);
        }
    }
    found
}

/// Who may have inherited: the parent while it runs, else any ancestor.
fn candidates(pid: u32, all: &BTreeMap<u32, Kin>) -> impl Iterator<Item = u32> {
    ancestors(pid, all).map(|(pid, _)| pid).take(if has_parent_that_runs(pid, all) { 1 } else { all.len() })
}

fn has_parent_that_runs(pid: u32, all: &BTreeMap<u32, Kin>) -> bool {
    ancestors(pid, all).next().is_some_and(|(_, parent)| parent.runs)
}

/// The ancestors of a process in the tree. Where a pid was reused, the lists of parents may have a loop.
fn ancestors(pid: u32, all: &BTreeMap<u32, Kin>) -> impl Iterator<Item = (u32, &Kin)> {
    let parent = |pid: u32| all.get(&pid).and_then(|kin| Some((kin.parent, all.get(&kin.parent)?)));
    successors(parent(pid), move |(pid, _)| parent(*pid)).take(all.len())
}

#[cfg(test)]
mod tests;
