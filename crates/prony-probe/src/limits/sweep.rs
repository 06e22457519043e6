//! Groups of runners that were killed together with their supervisors.

use std::collections::BTreeSet;
use std::fs;

use super::group::Group;
use super::hierarchy::Hierarchies;
use crate::error::Error;
use crate::owner::ProcessId;

/// Kills and removes the groups beside ours whose runner is gone; returns their names. Those of other users, which may
/// not be removed, are left.
///
/// # Errors
/// When a stale group cannot be removed for another reason.
pub fn sweep() -> Result<Vec<String>, Error> {
    sweep_in(&Hierarchies::read())
}

fn sweep_in(hierarchies: &Hierarchies) -> Result<Vec<String>, Error> {
    let mut names = BTreeSet::new();
    for parent in hierarchies.v1.values().chain(&hierarchies.v2) {
        let entries = fs::read_dir(parent).into_iter().flatten().flatten();
        names.extend(entries.filter_map(|entry| entry.file_name().into_string().ok()));
    }
    let stale = |name: &String| ProcessId::of_name(name).is_some_and(|owner| !owner.is_alive());
    let mut removed = Vec::new();
    for name in names.into_iter().filter(stale) {
        let group = Group::existing(hierarchies, &name);
        group.kill();
        match group.remove() {
            Ok(()) => removed.push(name),
            Err(error) if error.is_denied() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_groups_of_the_dead_are_removed() {
        let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let me = ProcessId::current();
        let dead = ProcessId { start: me.start + 1, ..me }.next_name();
        let mine = me.next_name();
        for dir in [a.path().join(&dead), b.path().join(&dead).join("below"), a.path().join(&mine), b.path().join("x")]
        {
            fs::create_dir_all(dir).unwrap();
        }
        let v1 = [("memory".to_owned(), a.path().to_owned())].into();
        let hierarchies = Hierarchies { v1, v2: Some(b.path().to_owned()) };
        assert_eq!(sweep_in(&hierarchies).unwrap(), std::slice::from_ref(&dead));
        assert!(!a.path().join(&dead).exists() && !b.path().join(&dead).exists());
        assert!(a.path().join(&mine).exists() && b.path().join("x").exists());
        assert!(sweep_in(&hierarchies).unwrap().is_empty());
    }
}
