//! The entries of a directory, with positions that stay the same while others are added or removed.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};

use crate::log::Ino;

/// Memory of a name in the current or durable map of a directory, in bytes: it is in three tables.
pub(crate) fn entry_weight(name: &OsStr) -> u64 {
    400 + 3 * name.len() as u64
}

/// Entries by name and by position.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    names: HashMap<OsString, (Ino, u64)>,
    positions: BTreeMap<u64, (OsString, Ino)>,
    last: u64,
}

impl Entries {
    pub(crate) fn get(&self, name: &OsStr) -> Option<Ino> {
        self.names.get(name).map(|(ino, _)| *ino)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Sets an entry; what it was before.
    pub(crate) fn insert(&mut self, name: &OsStr, ino: Ino) -> Option<Ino> {
        let before = self.remove(name);
        self.last += 1;
        self.names.insert(name.to_owned(), (ino, self.last));
        self.positions.insert(self.last, (name.to_owned(), ino));
        before
    }

    /// Removes an entry; what it was.
    pub(crate) fn remove(&mut self, name: &OsStr) -> Option<Ino> {
        let (ino, position) = self.names.remove(name)?;
        self.positions.remove(&position);
        Some(ino)
    }

    /// The entries behind a position, each with its own; the first position is 1.
    pub(crate) fn iter_after(&self, position: u64) -> impl Iterator<Item = (u64, &OsStr, Ino)> {
        self.positions.range(position + 1..).map(|(at, (name, ino))| (*at, name.as_os_str(), *ino))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_stay_while_entries_are_removed() {
        let mut entries = Entries::default();
        let names: Vec<OsString> = (0..10).map(|n| format!("n{n}").into()).collect();
        names.iter().zip(10..).for_each(|(name, ino)| assert_eq!(entries.insert(name, ino), None));
        let (at, _, _) = entries.iter_after(0).nth(3).unwrap();
        names[..4].iter().for_each(|name| assert!(entries.remove(name).is_some()));
        let rest: Vec<Ino> = entries.iter_after(at).map(|(_, _, ino)| ino).collect();
        assert_eq!(rest, [14, 15, 16, 17, 18, 19]);
        assert_eq!(entries.insert(&names[9], 99), Some(19));
        assert_eq!(entries.get(&names[9]), Some(99));
    }
}
