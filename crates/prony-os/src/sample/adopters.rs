//! What supervisors inherit of trees whose orphans they adopt.
//!
//! A supervisor waits for its subject and for the orphans of its tree, so that the kernel adds their counters to its own, as to those
//! of any parent (see `heirs`). It is no part of the tree, and what it inherits is. Without that, what orphans did after their last
//! sample was in no counter, nor were those that no sample showed. A control group has their CPU time, and neither their bytes nor their
//! page faults: of 210 MB that ten orphans read beside 2 s of CPU time, `read` had 18 to 44 MB.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use prony_model::reading::Reading;
use prony_model::units::Nanos;

use super::counters::Counters;
use super::heirs::{Amounts, Kin};
use super::parse;
use super::proc_file::{ProcFile, ended};
use super::process::inherited;
use super::tree::{Root, Supervisor};
use crate::why::{parsed, why};

/// The files of a supervisor: its counters, bytes read and written with those of the processes that it waited for, and by its only
/// thread alone.
#[derive(Debug)]
struct Files {
    stat: ProcFile,
    io: ProcFile,
    own_io: ProcFile,
}

/// A supervisor as the heir of the tree below a root.
#[derive(Debug)]
pub(crate) struct Adopter {
    pid: u32,
    root: u32,
    role: String,
    /// `None` once it serves another tree.
    files: Option<Files>,
    /// What it had inherited before, of other trees.
    earlier: Counters,
    /// The same with what it has inherited of this one.
    all: Counters,
    /// What it has inherited of this tree.
    pub(crate) inherited: Counters,
    /// The part of it that [`Self::newly_inherited`] has returned.
    returned: Amounts,
    /// Page faults of orphans that no sample showed.
    unsampled: u64,
}

impl Adopter {
    /// That of a root, as it is now; `None` where the root has none.
    pub(crate) fn of(root: &Root, tick: Nanos, buffer: &mut Vec<u8>) -> Option<Self> {
        let Supervisor { pid, .. } = root.supervisor?;
        let file = |name: &str| ProcFile::new(format!("/proc/{pid}/{name}"));
        let files = Files { stat: file("stat"), io: file("io"), own_io: file(&format!("task/{pid}/io")) };
        let earlier = files.read(None, tick, buffer).ok()??;
        Some(Self {
            pid,
            root: root.pid,
            role: root.role.clone(),
            files: Some(files),
            all: earlier.clone(),
            earlier,
            inherited: Counters::default(),
            returned: Amounts::default(),
            unsampled: 0,
        })
    }

    /// The tree below this root is about to end.
    pub(crate) fn leave(&mut self, root: u32) {
        if self.root == root {
            self.files = None;
        }
    }

    /// Reads what it has inherited.
    pub(crate) fn observe(&mut self, tick: Nanos, buffer: &mut Vec<u8>) {
        let Some(files) = &self.files else { return };
        // Of a supervisor that has ended, what was read last remains.
        if let Ok(Some(all)) = files.read(Some(&self.all), tick, buffer) {
            self.all = all;
            let waits = self.inherited.unread_switches + 1;
            self.inherited = Counters { unread_switches: waits, ..self.all.since(&self.earlier) };
        }
    }

    /// What it has inherited since the last call. `of_sampled` says whether a process may be in it that a sample showed; its root may,
    /// where that is not alive.
    pub(crate) fn newly_inherited(&mut self, of_sampled: impl Fn(u32) -> bool) -> Amounts {
        let now = Amounts::of(&self.inherited);
        let gained = now.since(std::mem::replace(&mut self.returned, now));
        if !of_sampled(self.root) {
            self.unsampled += gained.minor_faults;
        }
        self.inherited.child_faults = self.unsampled;
        gained
    }

    /// Its role in the tree.
    pub(crate) fn role(&self) -> &str {
        &self.role
    }

    /// Whether it has inherited anything of the tree.
    pub(crate) fn has_inherited(&self) -> bool {
        self.inherited.minor_faults > 0
    }

    /// Adds it to the processes of the tree, as the parent of those of its role whose own one is in none of them: one that was not read
    /// since then is an orphan by now.
    pub(crate) fn adopt(&self, gained: Amounts, kin: &mut BTreeMap<u32, Kin>) {
        if self.files.is_none() {
            return;
        }
        let known: Vec<u32> = kin.keys().copied().collect();
        let orphans = kin.values_mut().filter(|one| one.role == self.role && known.binary_search(&one.parent).is_err());
        orphans.for_each(|orphan| orphan.parent = self.pid);
        kin.insert(self.pid, Kin { role: self.role.clone(), parent: 0, runs: true, gained, adopts: true });
    }
}

impl Files {
    /// What the supervisor has inherited, unless it is as `known`: every process has page faults.
    fn read(&self, known: Option<&Counters>, tick: Nanos, buffer: &mut Vec<u8>) -> io::Result<Option<Counters>> {
        let unexpected = || io::Error::other("`/proc/PID/stat` has an unexpected form");
        let stat = parse::stat(self.stat.read(buffer)?).ok_or_else(unexpected)?;
        let inherited = inherited(&stat, tick);
        if known.is_some_and(|known| known.minor_faults == inherited.minor_faults) {
            return Ok(None);
        }
        // Its own first: what it reads meanwhile is not that of others.
        let own = bytes(&self.own_io, buffer)?;
        let all = bytes(&self.io, buffer)?.plus(&inherited).since(&own);
        Ok(Some(Counters { child_faults: 0, ..all }))
    }
}

/// Bytes read and written.
///
/// # Errors
/// Where the process has ended.
fn bytes(file: &ProcFile, buffer: &mut Vec<u8>) -> io::Result<Counters> {
    let what = "`/proc/PID/io` of a supervisor";
    let io = match file.text(buffer) {
        Ok(text) => parsed(parse::io(&text), what),
        // A kernel without these files has them of no process.
        Err(error) if ended(&error) && Path::new("/proc/self/io").exists() => return Err(error),
        Err(error) => Reading::Missing(why(what, &error)),
    };
    Ok(Counters { read: io.clone().map(|io| io.0), written: io.map(|io| io.1), ..Counters::default() })
}
