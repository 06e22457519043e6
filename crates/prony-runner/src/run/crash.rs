//! Runs the cuts of crash trials after the blocks. They are stored separately from the trials of the run, so that no count,
//! verdict or chart of trials includes them.
//!
//! Each cut has a store of its own. One worker repeats the writes until it is ended; another one, which knows nothing of the
//! first, opens what was left and counts what survived.

mod worker;

use prony_engines::registry;
use prony_experiment::plan::cuts;
use prony_model::crash::{CrashStep, CutEnding, CutRecord, Found, ImageRecord, PlannedCut};
use prony_model::event::{Event, Observer};
use prony_model::protocol::{Failure, FromWorker};
use prony_model::record::EffectiveStore;
use prony_model::spec::{CrashSpec, TrialSpec};
use prony_model::units::Nanos;
use prony_os::clock::monotonic;
use prony_os::launch::Scratch;

use crate::campaign::{Campaign, count};
use crate::error::Error;
use crate::run_context::RunContext;
use crate::scratch::discard;
use worker::{Heard, Trial};

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
    context: &RunContext<'_>,
    observer: &mut dyn Observer,
) -> Result<bool, Error> {
    let planned = cuts(context.experiment);
    if planned.is_empty() {
        return Ok(true);
    }
    let stored = campaign.database.stored_cuts(campaign.run)?;
    let total = count(planned.len());
    for (at, planned) in planned.iter().enumerate() {
        let variant = &context.experiment.variants()[planned.variant];
        let crash = &variant.spec.crashes[planned.crash];
        if stored.contains(&(planned.variant, crash.name.clone(), planned.cut)) {
            continue;
        }
        if context.interrupt.asked() {
            return Ok(false);
        }
        let record = match unsupported(&variant.spec) {
            // Said once.
            Some(_) if planned.cut > 0 => continue,
            Some(why) => Some(record(planned, crash, (None, CutEnding::Unsupported { why }))),
            None => one(context, planned, observer)?,
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
    context: &RunContext<'_>,
    planned: &PlannedCut,
    observer: &mut dyn Observer,
) -> Result<Option<CutRecord>, Error> {
    let began = monotonic();
    let spec = &context.experiment.variants()[planned.variant].spec;
    let crash = &spec.crashes[planned.crash];
    let scratch = Scratch::create(&context.near)?;
    let directory = scratch.path().join("store");
    std::fs::create_dir(&directory)
        .map_err(|source| Error::Setup { doing: "make the directory of a store", source })?;
    let trial = Trial::new(context, spec, planned, &directory)?;
    let ended = cut(&trial, spec, planned.moment)?;
    discard(scratch, observer);
    let took = monotonic().since(began);
    Ok(ended.map(|ended| CutRecord { took, ..record(planned, crash, ended) }))
}

/// The settings of the store, where it was open, and how the cut went.
type Ended = (Option<Box<EffectiveStore>>, CutEnding);

/// Writes until the cut, and checks what was left.
fn cut(trial: &Trial<'_>, spec: &TrialSpec, moment: Nanos) -> Result<Option<Ended>, Error> {
    let mut writer = trial.launch(CrashStep::Write)?;
    let limit = spec.limits.trial.unwrap_or(SETUP);
    let mut effective = None;
    let mut writing = None;
    let mut until = monotonic() + limit;
    let failure = loop {
        match writer.next(until)? {
            Heard::Message(FromWorker::Ready { effective: found, .. }) => {
                effective = found;
                writer.go();
            }
            Heard::Message(FromWorker::Writing { at }) => {
                writing = Some(at);
                until = at + moment;
            }
            Heard::Message(FromWorker::Failed { failure, message, .. }) => break Some((failure, message)),
            Heard::Message(_) => {}
            Heard::Ended(how) => break Some((Failure::Failed, format!("the process that wrote {how}"))),
            Heard::Interrupted => {
                writer.end()?;
                return Ok(None);
            }
            Heard::Late if writing.is_some() => break None,
            Heard::Late => break Some((Failure::Failed, format!("the store was not ready to write within {limit}"))),
        }
    };
    let at = monotonic();
    writer.end()?;
    let ending = match (failure, writing) {
        (Some((Failure::Unsupported, why)), _) => CutEnding::Unsupported { why },
        (Some((_, message)), _) => CutEnding::Failed { message },
        (None, began) => {
            // Commits are acknowledged until the process has ended, which is a little later than it was ordered.
            let instants = trial.acknowledged()?;
            let at = at.max(instants.last().copied().map_or(Nanos::ZERO, Nanos::from_nanos));
            let acknowledged = instants.len() as u64;
            let Some(found) = check(trial, spec, (at, acknowledged))? else { return Ok(None) };
            let contains = "all that the process had written".to_owned();
            let images = vec![ImageRecord { image: 0, contains, found }];
            CutEnding::Cut { acknowledged, after: began.map_or(Nanos::ZERO, |began| at.since(began)), images }
        }
    };
    Ok(Some((effective, ending)))
}

/// What a fresh process finds; `None` where the user interrupted it.
fn check(trial: &Trial<'_>, spec: &TrialSpec, (cut, acknowledged): (Nanos, u64)) -> Result<Option<Found>, Error> {
    let mut reader = trial.launch(CrashStep::Check { cut, acknowledged })?;
    let limit = spec.limits.trial.unwrap_or(CHECK);
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
                    Failure::OutOfMemory | Failure::DiskFull | Failure::Unsupported => {
                        Found::Unchecked { why: message }
                    }
                    _ => failed(open, message),
                };
            }
            Heard::Message(_) => {}
            Heard::Ended(how) if how.is_disturbance() => {
                break Found::Unchecked { why: format!("the process that read {how}") };
            }
            Heard::Ended(how) => break failed(open, format!("the process that read {how}")),
            Heard::Late => break failed(open, format!("the process that read did not end within {limit}")),
            Heard::Interrupted => {
                reader.end()?;
                return Ok(None);
            }
        }
    };
    reader.end()?;
    Ok(Some(found))
}
