//! Removes the control groups of runners that were killed together with their supervisors.

use std::collections::BTreeSet;
use std::fs;
use std::io;

use super::group::Group;
use super::hierarchy::Hierarchies;
use crate::error::Error;
use crate::lock::{Lock, abandoned};
use crate::owner::is_name;

/// Kills and removes the groups beside ours that nobody has locked; returns their names, and why others without an owner
/// were not removed: a process may be stuck in the kernel. Those of other users, which may not be removed, are left without a
/// word, and so are those whose lock cannot be examined.
pub fn sweep() -> (Vec<String>, Vec<Error>) {
    sweep_in(&Hierarchies::read())
}

fn sweep_in(hierarchies: &Hierarchies) -> (Vec<String>, Vec<Error>) {
    let mut names = BTreeSet::new();
    for parent in hierarchies.v1.values().chain(&hierarchies.v2) {
        let entries = fs::read_dir(parent).into_iter().flatten().flatten();
        names.extend(entries.filter_map(|entry| entry.file_name().into_string().ok()));
    }
    let (mut removed, mut left) = (Vec::new(), Vec::new());
    let named = names.into_iter().filter(|name| is_name(name)).map(|name| Group::existing(hierarchies, &name));
    let locks = |group: &Group| {
        let locks = group.directories().into_iter().map(Lock::exclusive).collect::<io::Result<Vec<_>>>();
        // Its owner may have removed it meanwhile.
        locks.ok().filter(|locks| !locks.is_empty())
    };
    for (group, _locks) in abandoned(named.collect(), locks) {
        group.kill();
        match group.remove() {
            Ok(()) => removed.push(group.name().to_owned()),
            Err(error) if error.is_denied() => {}
            Err(error) => left.push(error),
        }
    }
    (removed, left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owner::ProcessId;

    #[test]
    fn sweep_goes_by_the_lock_and_not_by_the_process_number() {
        let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let me = ProcessId::current();
        // A process in another PID namespace: the number may be that of a live process or of none, and proves nothing.
        let (left, owned) = (me.next_name(), ProcessId { pid: i32::MAX, start: 1 }.next_name());
        let dirs =
            [a.path().join(&left), b.path().join(&left).join("below"), a.path().join(&owned), b.path().join("x")];
        dirs.iter().for_each(|dir| fs::create_dir_all(dir).unwrap());
        let lock = Lock::shared(&a.path().join(&owned)).unwrap();
        let v1 = [("memory".to_owned(), a.path().to_owned())].into();
        let hierarchies = Hierarchies { v1, v2: Some(b.path().to_owned()) };
        assert_eq!(sweep_in(&hierarchies).0, std::slice::from_ref(&left));
        assert!(!a.path().join(&left).exists() && !b.path().join(&left).exists());
        assert!(a.path().join(&owned).exists() && b.path().join("x").exists());
        assert!(sweep_in(&hierarchies).0.is_empty());
        drop(lock);
        // A child that another test forks has a copy of our descriptor for an instant.
        let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
        let mut swept = Vec::new();
        while swept.is_empty() && std::time::Instant::now() < until {
            swept = sweep_in(&hierarchies).0;
        }
        assert_eq!(swept, [owned]);
    }
}
