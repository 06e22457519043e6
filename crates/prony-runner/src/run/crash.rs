//! Runs the cuts of crash trials after the blocks. They are stored separately from the trials of the run, so that no count,
//! verdict or chart of trials includes them.
//!
//! Each cut has a store of its own. One worker repeats the writes until it is ended; another one, which knows nothing of the
//! first, opens what was left and counts what survived.

mod disk;
mod worker;

use std::collections::HashSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use prony_analysis::crash::{breaks, was_checked};
use prony_engines::registry;
use prony_experiment::plan::cuts;
use prony_model::crash::{CrashStep, CutEnding, CutKind, CutRecord, Found, ImageRecord, PlannedCut};
use prony_model::error::chain;
use prony_model::event::{Event, Observer};
use prony_model::protocol::{Failure, FromWorker};
use prony_model::reading::Reading;
use prony_model::record::{EffectiveStore, Status};
use prony_model::spec::{CrashSpec, TrialSpec};
use prony_model::units::Nanos;
use prony_os::clock::monotonic;
use prony_os::launch::{Scratch, remove_tree};
use prony_os::sync_calls;
use prony_place::copy_tree;

use crate::campaign::{Campaign, count};
use crate::error::Error;
use crate::run_context::RunContext;
use crate::scratch::discard;
use disk::{Disk, Saved};
use worker::{Heard, How, Trial};

/// Within which time a worker stores the records that are there before the first transaction, if the trial has no limit.
const SETUP: Nanos = Nanos::from_secs(600);

/// Within which time a fresh process opens and reads what was left, if the trial has no limit.
const CHECK: Nanos = Nanos::from_secs(120);

/// Makes the cuts that the run still lacks; `false` where the user interrupted it.
///
/// # Errors
/// Where the machine refuses what every trial needs, or the database what it is given.
pub(super) fn all(
    campaign: &mut Campaign<'_>,
    context: &RunContext,
    observer: &mut dyn Observer,
) -> Result<bool, Error> {
    let planned = cuts(&context.experiment);
    if planned.is_empty() {
        return Ok(true);
    }
    let stored = campaign.database.cuts(campaign.run)?;
    let made: HashSet<(usize, &str, u32)> = stored
        .iter()
        .filter(|record| was_checked(record))
        .map(|record| (record.variant, record.phase.as_str(), record.cut))
        .collect();
    let total = count(planned.len());
    let keep = campaign.database.cuts_folder(campaign.run);
    for (at, planned) in planned.iter().enumerate() {
        let variant = &context.experiment.variants()[planned.variant];
        let crash = &variant.spec.crashes[planned.crash];
        if made.contains(&(planned.variant, crash.name.as_str(), planned.cut)) {
            continue;
        }
        if context.interrupt.asked() {
            return Ok(false);
        }
        let record = match unsupported(&variant.spec) {
            // Said once.
            Some(_) if planned.cut > 0 => continue,
            Some(why) => Some(record(planned, crash, (None, CutEnding::Unsupported { why }))),
            None => one(context, planned, &keep, observer)?,
        };
        let Some(record) = record else { return Ok(false) };
        campaign.database.append_cut(campaign.run, &record)?;
        let variant = context.experiment.levels_text(variant);
        observer.event(&Event::CutEnded { variant, record: Box::new(record), done: count(at) + 1, cuts: total });
    }
    Ok(true)
}

/// Why a store cannot have crash trials, where it cannot.
fn unsupported(spec: &TrialSpec) -> Option<String> {
    let store = spec.subject.store()?;
    let can = registry::capabilities(store).ok()?;
    (!can.persistent).then(|| format!("`{}` keeps nothing on the disk", store.engine))
}

fn record(
    planned: &PlannedCut,
    crash: &CrashSpec,
    (effective, ending): (Option<Box<EffectiveStore>>, CutEnding),
) -> CutRecord {
    CutRecord {
        variant: planned.variant,
        phase: crash.name.clone(),
        cut: planned.cut,
        kind: crash.cut,
        seed: planned.seed,
        moment: planned.moment,
        effective: effective.map(|effective| *effective),
        ending,
        took: Nanos::ZERO,
    }
}

/// Makes one cut; `None` where the user interrupted it, and nothing of it counts.
fn one(
    context: &RunContext,
    planned: &PlannedCut,
    keep: &Path,
    observer: &mut dyn Observer,
) -> Result<Option<CutRecord>, Error> {
    let began = monotonic();
    let spec = &context.experiment.variants()[planned.variant].spec;
    let crash = &spec.crashes[planned.crash];
    let scratch = Scratch::create(&context.near)?;
    let made = match Disk::new(scratch.path(), crash, planned.seed)? {
        Err(ending) => Some(record(planned, crash, (None, ending))),
        Ok(disk) => {
            let trial = Trial::new(context, spec, planned)?;
            let ended = cut(&trial, &disk, (crash, planned))?;
            ended.map(|(ended, saved)| with_saved_cut(record(planned, crash, ended), saved, (keep, planned.crash)))
        }
    };
    discard(scratch, observer);
    let took = monotonic().since(began);
    Ok(made.map(|made| CutRecord { took, ..made }))
}

/// The record of a cut, whose saved state is kept in a folder where it shows that a promise was broken.
fn with_saved_cut(mut record: CutRecord, saved: Option<Saved>, (folder, crash): (&Path, usize)) -> CutRecord {
    let Some(from) = saved.filter(|_| breaks(&record).is_some()) else { return record };
    let to = folder.join(format!("variant-{}-crash-{crash}-cut-{}", record.variant, record.cut));
    if let CutEnding::Cut { saved, .. } = &mut record.ending {
        *saved = match moved(&from.path, &to) {
            Ok(path) => Reading::Measured(path.to_string_lossy().into_owned()),
            Err(error) => Reading::failed(error),
        };
    }
    record
}

/// Moves a folder, to another file system by a copy; where it is then.
fn moved(from: &Path, to: &Path) -> Result<PathBuf, String> {
    let parent = to.parent().unwrap_or(to);
    std::fs::create_dir_all(parent).map_err(|error| chain(&error))?;
    // That of an attempt that was interrupted before its cut was stored.
    remove_tree(to).map_err(|error| chain(&error))?;
    match std::fs::rename(from, to) {
        Err(error) if error.kind() == ErrorKind::CrossesDevices => {
            copy_tree(from, to, &mut |_, _| Ok(())).map_err(|error| chain(&error))?;
        }
        moved => moved.map_err(|error| chain(&error))?,
    }
    to.canonicalize().map_err(|error| chain(&error))
}

/// The settings of the store, where it was open, and how the cut went.
type Ended = (Option<Box<EffectiveStore>>, CutEnding);

/// Writes until the cut, and checks what was left; with what the disk saved.
fn cut(
    trial: &Trial<'_>,
    disk: &Disk,
    (crash, planned): (&CrashSpec, &PlannedCut),
) -> Result<Option<(Ended, Option<Saved>)>, Error> {
    let mut writer = trial.launch(&disk.store(), CrashStep::Write)?;
    let limit = trial.limit().unwrap_or(SETUP);
    let mut effective = None;
    let mut writing = None;
    let mut until = monotonic() + limit;
    let failure = loop {
        match writer.next(until)? {
            Heard::Message(FromWorker::Ready { effective: found, .. }) => {
                effective = found;
                if let Err(message) = disk.settle() {
                    break Some((Failure::Failed, message));
                }
                writer.go();
            }
            Heard::Message(FromWorker::Writing { at }) => {
                writing = Some(at);
                until = at + planned.moment;
            }
            Heard::Message(FromWorker::Failed { failure, message, .. }) => break Some((failure, message)),
            Heard::Message(_) => {}
            Heard::Ended(How::Known(Status::Signalled(signal)))
                if crash.cut == CutKind::PowerCut && signal == sync_calls::SIGNAL.as_raw() =>
            {
                let why = "the engine calls `sync` or `syncfs`, which a simulated disk cannot observe";
                break Some((Failure::Unsupported, why.to_owned()));
            }
            Heard::Ended(how) => break Some((Failure::Failed, format!("the process that wrote {how}"))),
            Heard::Interrupted => {
                writer.end()?;
                return Ok(None);
            }
            Heard::Late if writing.is_some() => break None,
            Heard::Late => break Some((Failure::Failed, format!("the store was not ready to write within {limit}"))),
        }
    };
    if let Some((failure, message)) = failure {
        writer.end()?;
        let ending = match failure {
            Failure::Unsupported => CutEnding::Unsupported { why: message },
            _ => CutEnding::Failed { message },
        };
        return Ok(Some(((effective, ending), None)));
    }
    let ordered = monotonic();
    let saved = disk.cut();
    writer.end()?;
    let saved = match saved {
        Ok(saved) => saved,
        Err(message) => return Ok(Some(((effective, CutEnding::Failed { message }), None))),
    };
    // The process that notes commits has ended: the list does not grow any more.
    let (at, acknowledged) = before_cut(&trial.acknowledged()?, saved.as_ref().map(Saved::at), ordered);
    let Some(images) = images(trial, disk, (saved.as_ref(), at, acknowledged))? else { return Ok(None) };
    let after = writing.map_or(Nanos::ZERO, |began| at.since(began));
    let remarks = saved.as_ref().map(|saved| saved.remarks.clone()).unwrap_or_default();
    let ending = CutEnding::Cut { acknowledged, after, images, remarks, saved: Reading::default() };
    Ok(Some(((effective, ending), saved)))
}

/// The instant of a cut, and how many commits were acknowledged before it: those that returned before the disk stopped, at an
/// instant of the clock that all processes read. More return until its process has got the request, and until the writer has ended.
fn before_cut(instants: &[u64], stopped: Option<Nanos>, ordered: Nanos) -> (Nanos, u64) {
    match stopped {
        Some(at) => (at, instants.partition_point(|instant| *instant < at.as_nanos()) as u64),
        // A process commits until it has ended, which is a little later than it was ordered.
        None => {
            let last = instants.last().copied().map_or(Nanos::ZERO, Nanos::from_nanos);
            (ordered.max(last), instants.len() as u64)
        }
    }
}

/// What a fresh process finds in each state in which the store may be after the cut; `None` where the user interrupted it.
fn images(
    trial: &Trial<'_>,
    disk: &Disk,
    (saved, at, acknowledged): (Option<&Saved>, Nanos, u64),
) -> Result<Option<Vec<ImageRecord>>, Error> {
    let mut images = Vec::new();
    for number in 0..disk.images() {
        let (contains, found) = match disk.image(saved, number) {
            Err(why) => (String::new(), Some(Found::Unchecked { why })),
            Ok(image) => {
                let found = check(trial, &image.store, (at, acknowledged))?;
                (image.discard(), found)
            }
        };
        let Some(found) = found else { return Ok(None) };
        images.push(ImageRecord { image: number, contains, found });
    }
    Ok(Some(images))
}

/// What a fresh process finds; `None` where the user interrupted it.
fn check(trial: &Trial<'_>, store: &Path, (cut, acknowledged): (Nanos, u64)) -> Result<Option<Found>, Error> {
    if !store.exists() {
        return Ok(Some(Found::DoesNotOpen { message: "its directory is not there".to_owned() }));
    }
    let mut reader = trial.launch(store, CrashStep::Check { cut, acknowledged })?;
    let limit = trial.limit().unwrap_or(CHECK);
    let until = monotonic() + limit;
    let mut open = false;
    let failed = |open: bool, message: String| {
        if open { Found::Unreadable { message } } else { Found::DoesNotOpen { message } }
    };
    let found = loop {
        match reader.next(until)? {
            Heard::Message(FromWorker::Ready { .. }) => open = true,
            Heard::Message(FromWorker::Survived { survived }) => break Found::Survived(survived),
            Heard::Message(FromWorker::Failed { message, failure, .. }) => {
                break match failure {
                    Failure::OutOfMemory | Failure::DiskFull | Failure::Unsupported | Failure::OfProny => {
                        Found::Unchecked { why: message }
                    }
                    _ => failed(open, message),
                };
            }
            Heard::Message(_) => {}
            Heard::Ended(how) if how.is_disturbance(store) => {
                break Found::Unchecked { why: format!("the process that read {how}") };
            }
            Heard::Ended(how) => break failed(open, format!("the process that read {how}")),
            // A machine that is busy may be the cause, so that the engine is not blamed.
            Heard::Late => {
                break Found::Unchecked { why: format!("the process that read did not end within {limit}") };
            }
            Heard::Interrupted => {
                reader.end()?;
                return Ok(None);
            }
        }
    };
    reader.end()?;
    Ok(Some(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_count_that_were_acknowledged_before_the_disk_stopped_or_the_process_ended() {
        let instants = [10, 20, 30, 40];
        let before = |stopped: Option<u64>, ordered| {
            let (at, acknowledged) = before_cut(&instants, stopped.map(Nanos::from_nanos), Nanos::from_nanos(ordered));
            (at.as_nanos(), acknowledged)
        };
        assert_eq!(before(Some(31), 15), (31, 3), "those too that were acknowledged after the cut was ordered");
        assert_eq!(before(Some(30), 15), (30, 2));
        assert_eq!(before(Some(5), 1), (5, 0));
        assert_eq!(before(None, 15), (40, 4));
        assert_eq!(before(None, 50), (50, 4));
    }

    #[test]
    fn saved_cut_replaces_an_earlier_one_and_is_copied_to_another_file_system() {
        let dir = tempfile::tempdir().unwrap();
        let memory = tempfile::tempdir_in("/dev/shm").unwrap();
        for to in [dir.path().join("cuts/a"), memory.path().join("cuts/a")] {
            for text in ["first", "second"] {
                let from = dir.path().join("cut");
                std::fs::create_dir_all(from.join("below")).unwrap();
                std::fs::write(from.join("below/log"), text).unwrap();
                std::fs::write(from.join(text), "").unwrap();
                let saved = moved(&from, &to).unwrap();
                assert_eq!(std::fs::read_to_string(saved.join("below/log")).unwrap(), text);
                // What a copy leaves goes with the scratch directory.
                remove_tree(&from).unwrap();
            }
            assert!(!to.join("first").exists(), "nothing of the earlier one is left");
        }
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(moved(&file, &file.join("cuts/a")).unwrap_err().contains("Not a directory"));
    }
}
