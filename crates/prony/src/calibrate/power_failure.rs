//! A fixture on a simulated disk: small stores with one fault each, and the same without it.

use std::fs::create_dir;
use std::path::Path;

use prony_model::error::chain;
use prony_model::reading::Reading;
use prony_os::launch::Scratch;
use prony_powercut::fixture::{Store, Verdict};
use prony_powercut::{Error as DiskError, Mounted, Settings};

use super::Ran;
use super::bench::Bench;
use super::check_line::Line;
use crate::error::Error;

/// Cuts must find every fault, and blame no correct store (METHOD 7).
///
/// # Errors
/// Where nothing can be written into the folder for scratch.
pub(super) fn planted_faults(bench: &Bench) -> Result<Ran, Error> {
    let scratch = Scratch::create(&bench.near)?;
    let lines = Store::ALL.into_iter().map(|(store, truth)| line(store, truth, scratch.path())).collect();
    scratch.remove()?;
    match lines {
        Ok(lines) => Ok(Ran::Lines(lines)),
        Err(error @ DiskError::Mount { .. }) => Ok(Ran::NotRun(chain(&error))),
        Err(error) => Err(error.into()),
    }
}

/// Each store has a disk of its own.
fn line(store: Store, truth: Verdict, scratch: &Path) -> Result<Line, DiskError> {
    let near = scratch.join(store.name().replace(' ', "-"));
    let (point, images) = (near.join("disk"), near.join("images"));
    for path in [&near, &point, &images] {
        create_dir(path).map_err(|source| DiskError::File { action: "create", path: path.clone(), source })?;
    }
    let mounted = Mounted::start(Path::new("/proc/self/exe"), &point, &near.join("state"), &Settings::default())?;
    let found = store.worst(&mounted, &images)?;
    mounted.unmount()?;
    Ok(Line::finding(store.name(), words(truth), Reading::Measured(words(found).to_owned())))
}

const fn words(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Correct => "loses nothing",
        Verdict::LostCommits => "loses acknowledged commits",
        Verdict::Corrupt => "reads what was never written",
    }
}
